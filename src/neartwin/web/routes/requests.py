"""Routes of requests for budget: an analyst asks for more and says why, and a curator approves or declines.

A request is an act in the ledger's chain. Whatever sets the holder's allotment afterwards answers it.
"""

from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Path

import neartwin.ledger as books
from neartwin.accounting.budgets import budget_in, budget_of
from neartwin.checks import text
from neartwin.errors import AccessError, ParameterError
from neartwin.web import schemas
from neartwin.web.auth import Analyst, Anyone, Curator
from neartwin.web.data_directory import ensure_allotments
from neartwin.web.datasets import decimals
from neartwin.web.routes.datasets import Named, visible
from neartwin.web.service import Running

router = APIRouter(prefix="/v1/datasets/{name}/requests", tags=["data sets"])
Position = Annotated[int, Path(ge=1, le=2**53)]


@router.get("")
def requests(name: Named, caller: Anyone, running: Running) -> list[dict[str, Any]]:
    """The requests for budget, newest first. An analyst sees those for the analyst and the project.

    Each has its `position`, `time`, `who`, `holder`, `target`, `reason`, and its `answer` in words, "" while it waits.
    """
    visible(running.directory, name, caller)
    known = running.directory.store.requests(name)
    return [one for one in known if caller.sees_all or one["holder"] in caller.holders]


@router.post("", status_code=201)
def request(name: Named, wish: schemas.BudgetWish, caller: Analyst, running: Running) -> list[dict[str, Any]]:
    """Ask for more budget and say why. The next request may follow its answer. The answer lists the caller's requests."""
    directory, target = running.directory, budget_of(wish.target, "in all")
    _, rule = visible(directory, name, caller)
    account, holder = directory.books.account(name), wish.holder or caller.holders[0]
    if holder not in caller.holders:
        raise ParameterError("holder", holder, "must be you or your project")
    asked = account.rule.amounts(account.rule.caps(target))
    if rule is not None:
        ensure_allotments(account, rule, caller.holders[0])  # as the first release would
    part = allotment(account, holder)
    if all(amount <= part.caps[pool] for pool, amount in asked.items()):
        raise ParameterError("in all", str(target), "must be more than the present allotment", remedy="ask for more")
    reason = text(reason=wish.reason, at_least=1, at_most=1_000)
    running.authenticator.rates.take("records", caller.name)
    body = {"dataset": name, "holder": holder, "target": decimals(target), "reason": reason}
    directory.store.request(caller.name, "request", body)
    return requests(name, caller, running)


@router.put("/{position}", status_code=204)
def answer(name: Named, position: Position, reply: schemas.BudgetReply, caller: Curator, running: Running) -> None:
    """Approve a request, which sets the allotment, or decline it and say why. Nobody answers a request of her own."""
    directory = running.directory
    known = directory.store.requests(directory.dataset(name).name, position)
    one = next(one for one in known if one["position"] == position)
    if one["who"] == caller.name:
        raise AccessError(403, "request", str(position), "must be answered by somebody else than who asked")
    if reply.approve:
        target = budget_in(one["target"], "target")
        directory.allot(name, one["holder"], target, by=caller.name, answers=position)
    else:
        reason = text(reason=reply.reason, at_least=1, at_most=1_000)
        body = {"dataset": name, "holder": one["holder"], "reason": reason}
        directory.store.request(caller.name, "decline", body, position)


@router.delete("/{position}", status_code=204)
def withdraw(name: Named, position: Position, caller: Analyst, running: Running) -> None:
    """Withdraw a request of the caller's own that waits for its answer."""
    own = {one["position"]: one for one in requests(name, caller, running) if one["who"] == caller.name}
    if position not in own:
        raise AccessError(404, "request", str(position), "is not one of yours", remedy="look again")
    body = {"dataset": name, "holder": own[position]["holder"]}
    running.directory.store.request(caller.name, "withdraw", body, position)


def allotment(account: books.Account, holder: str) -> books.Allotment:
    """The allotment of a holder, or one of nothing."""
    nothing = dict.fromkeys(account.caps, Fraction(0))
    known = account.allotment(holder)
    return known or books.Allotment(account=account.name, holder=holder, caps=nothing, spent=nothing)
