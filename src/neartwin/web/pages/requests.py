"""Budget requests: an analyst asks for more and says why; a curator reads what that widens, and approves or declines.

A request is an act in the ledger's chain. Whatever sets the holder's allotment afterwards answers it.
"""

from fractions import Fraction
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from starlette.responses import RedirectResponse, Response

import neartwin.ledger as books
from neartwin.accounting.budgets import budget_in, parts_of
from neartwin.errors import AccessError, ParameterError
from neartwin.web.auth import Analyst, Anyone, Curator, Form
from neartwin.web.data_directory import ensure_allotments
from neartwin.web.pages.budget import Amounts, best_guess
from neartwin.web.pages.layout import address, curl, decimals, first, host, page, short
from neartwin.web.routes.datasets import Named, allotments, own_holders, visible
from neartwin.web.service import Running

router = APIRouter()
Position = Annotated[int, Path(ge=1, le=2**53)]
_MOST_WORDS = 1_000  # letters of a reason


@router.get("/data/{name}/budget")
def budget(name: Named, request: Request, caller: Anyone, running: Running) -> Response:
    """The caller's allotments and requests, with a form for more; for a curator, the requests of all."""
    dataset, _ = visible(running.directory, name, caller)
    account = running.directory.books.account(name)
    mine = own_holders(caller)
    requests = [one for one in running.directory.store.requests(name) if caller.sees_all or one["holder"] in mine]
    allotted = host(request) + address("v1", "datasets", name, "allotments")
    return page(
        request,
        "budget.html",
        caller=caller,
        title=f"Budget of {name}",
        name=name,
        own=allotments(name, caller, running),
        kind=str(dataset.budget),
        holders=sorted(mine),
        unit=dataset.unit,
        promise=account.filter.promise(account.filter.caps),
        waiting=[one | _widening(account, one, allotted) for one in requests if not one["answer"]],
        answered=[one for one in requests if one["answer"]][:25],
    )


@router.post("/data/{name}/budget")
def ask_for_more(name: Named, caller: Analyst, running: Running, sent: Form) -> Response:
    """Record a request. The next one may follow its answer."""
    directory = running.directory
    dataset, rule = visible(directory, name, caller)
    account, holder, reason = directory.books.account(name), first(sent, "holder"), first(sent, "reason")
    if holder not in own_holders(caller):
        raise ParameterError("holder", holder, "must be you or your project")
    if not 1 <= len(reason) <= _MOST_WORDS:
        raise ParameterError("reason", reason[:50], f"must have 1 to {_MOST_WORDS} letters", remedy="say why")
    target = budget_in(first(sent, "target"), "in all")
    asked = account.rule.amounts(account.rule.caps(target))
    if rule is not None:
        ensure_allotments(account, rule, f"analyst:{caller.name}")  # as the first release would
    part = _allotment(account, holder)
    if all(amount <= part.caps[pool] for pool, amount in asked.items()):
        raise ParameterError("in all", str(target), "must be more than the present allotment", remedy="ask for more")
    body = {"dataset": dataset.name, "holder": holder, "target": decimals(target), "reason": reason}
    directory.store.request(caller.name, "request", body)
    return RedirectResponse(address("data", name, "budget"), 303)


@router.post("/data/{name}/budget/{position}")
def answer(name: Named, position: Position, caller: Curator, running: Running, sent: Form) -> Response:
    """Approve the request at a position, which sets the allotment, or decline it."""
    directory, reason = running.directory, first(sent, "reason")
    known = directory.store.requests(directory.dataset(name).name, position)
    one = next(one for one in known if one["position"] == position)
    if one["who"] == caller.name:
        raise AccessError(403, "request", str(position), "must be answered by somebody else than who asked")
    if first(sent, "action") == "approve":
        target = budget_in(one["target"], "target")
        directory.allot(name, one["holder"], target, by=caller.name, answers=position)
    elif reason:
        body = {"dataset": name, "holder": one["holder"], "reason": reason[:_MOST_WORDS]}
        directory.store.request(caller.name, "decline", body, position)
    else:
        raise ParameterError("reason", reason, "must say why it is declined", remedy="the analyst reads it")
    return RedirectResponse(address("data", name, "budget"), 303)


@router.post("/data/{name}/budget/{position}/withdraw")
def withdraw(name: Named, position: Position, caller: Analyst, running: Running) -> Response:
    """Withdraw a request of the caller's own that waits for its answer."""
    own = {one["position"]: one for one in running.directory.store.requests(name) if one["who"] == caller.name}
    if position not in own:
        raise AccessError(404, "request", str(position), "is not one of yours", remedy="look again")
    body = {"dataset": name, "holder": own[position]["holder"]}
    running.directory.store.request(caller.name, "withdraw", body, position)
    return RedirectResponse(address("data", name, "budget"), 303)


def _allotment(account: books.Account, holder: str) -> books.Allotment:
    nothing = dict.fromkeys(account.caps, Fraction(0))
    empty = books.Allotment(account=account.name, holder=holder, caps=nothing, spent=nothing)
    return account.allotment(holder) or empty


def _widening(account: books.Account, one: dict[str, Any], allotted: str) -> dict[str, Any]:
    """What an approval changes, as amounts in words, and the command that approves."""
    part, now, left = _allotment(account, one["holder"]), account.filter, account.remaining
    target = budget_in(one["target"], "target")
    asked = account.rule.amounts(account.rule.caps(target))
    over = any(amount - part.spent[pool] > left[pool] for pool, amount in asked.items())
    return {
        "more": _amounts({pool: amount - part.caps[pool] for pool, amount in asked.items()}),
        "spent": _amounts(part.spent),
        "guess": best_guess(now, asked),
        "guess_now": best_guess(now, part.caps),
        "left": _amounts(left) if over else "",
        "command": curl("PUT", f"{allotted}/{quote(one['holder'])}", {"target": parts_of(target)}),
    }


def _amounts(amounts: Amounts) -> str:
    return ", ".join(f"{pool} {short(amount)}" for pool, amount in amounts.items() if amount) or "nothing"
