"""Pages of requests for budget: a curator reads what an approval widens, and approves or declines."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

import neartwin.ledger as books
from neartwin.accounting.budgets import budget_in, parts_of
from neartwin.web import schemas
from neartwin.web.auth import Analyst, Anyone, Curator, Form
from neartwin.web.pages.budget import best_guess
from neartwin.web.pages.layout import address, amounts, curl, first, host, page
from neartwin.web.routes import datasets as api
from neartwin.web.routes.datasets import Named, Position, allotment, allotments
from neartwin.web.service import Running

router = APIRouter()


@router.get("/data/{name}/budget")
def budget(name: Named, request: Request, caller: Anyone, running: Running) -> Response:
    """The caller's allotments and requests, with a form for more; for a curator, the requests of all."""
    requests = api.requests(name, caller, running)
    dataset, account = running.directory.dataset(name), running.directory.books.account(name)
    allotted = host(request) + address("v1", "datasets", name, "allotments")
    return page(
        request,
        "budget.html",
        caller=caller,
        title=f"Budget of {name}",
        name=name,
        own=allotments(name, caller, running),
        kind=str(dataset.budget),
        holders=caller.holders,
        unit=dataset.unit,
        promise=account.filter.promise(account.filter.caps),
        waiting=[one | _widening(account, one, allotted) for one in requests if not one["answer"]],
        answered=[one for one in requests if one["answer"]][:25],
    )


@router.post("/data/{name}/budget")
def request(name: Named, caller: Analyst, running: Running, sent: Form) -> Response:
    """Record a request."""
    target = parts_of(budget_in(first(sent, "target"), "in all"))
    wish = schemas.BudgetWish.model_construct(
        target=dict(target), reason=first(sent, "reason"), holder=first(sent, "holder")
    )
    api.request(name, wish, caller, running)
    return RedirectResponse(address("data", name, "budget"), 303)


@router.post("/data/{name}/budget/{position}")
def answer(name: Named, position: Position, caller: Curator, running: Running, sent: Form) -> Response:
    """Approve a request or decline it."""
    reply = schemas.BudgetReply(approve=first(sent, "action") == "approve", reason=first(sent, "reason"))
    api.answer(name, position, reply, caller, running)
    return RedirectResponse(address("data", name, "budget"), 303)


@router.post("/data/{name}/budget/{position}/withdraw")
def withdraw(name: Named, position: Position, caller: Analyst, running: Running) -> Response:
    """Withdraw a request of the caller's own."""
    api.withdraw(name, position, caller, running)
    return RedirectResponse(address("data", name, "budget"), 303)


def _widening(account: books.Account, one: dict[str, Any], allotted: str) -> dict[str, Any]:
    """What an approval changes, as amounts in words, and the command that approves."""
    part, now, left = allotment(account, one["holder"]), account.filter, account.remaining
    target = budget_in(one["target"], "target")
    asked = account.rule.amounts(account.rule.caps(target))
    over = any(amount - part.spent[pool] > left[pool] for pool, amount in asked.items())
    return {
        "more": amounts({pool: amount - part.caps[pool] for pool, amount in asked.items()}) or "nothing",
        "spent": amounts(part.spent) or "nothing",
        "guess": best_guess(now, asked),
        "guess_now": best_guess(now, part.caps),
        "left": (amounts(left) or "nothing") if over else "",
        "command": curl("PUT", f"{allotted}/{quote(one['holder'])}", {"target": parts_of(target)}),
    }
