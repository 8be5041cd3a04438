"""Pages of data sets: their public facts, the meaning of their budget, and their history."""

from fractions import Fraction
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

import neartwin.ledger as books
from neartwin.web.auth import Anyone, Caller
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset
from neartwin.web.pages.budget import BudgetView, budget, shares
from neartwin.web.pages.layout import PageRoute, page, short
from neartwin.web.routes.datasets import Named, own_holders, visible
from neartwin.web.routes.datasets import dataset as api_dataset
from neartwin.web.routes.datasets import datasets as api_datasets
from neartwin.web.routes.ledger import history as api_history
from neartwin.web.service import Running

router = APIRouter(route_class=PageRoute)
_RELATIONS = {"add_remove": "adding or removing one", "replace_one": "replacing one"}


@router.get("/data")
def datasets(request: Request, caller: Anyone, running: Running) -> Response:
    """The data sets that the caller may see."""
    shown = [
        {"one": one, "share": max(shares(_exact(one.budget), _exact(one.spent)).values())}
        for one in api_datasets(caller, running)
    ]
    return page(request, "datasets.html", caller=caller, title="Data sets", shown=shown)


@router.get("/data/{name}")
def dataset(name: Named, request: Request, caller: Anyone, running: Running) -> Response:
    """One data set."""
    registered, rule = visible(running.directory, name, caller)
    return page(
        request,
        "dataset.html",
        caller=caller,
        title=name,
        one=api_dataset(name, caller, running),
        relation=_RELATIONS[registered.neighbours],
        rule=rule,
        budget=account_budget(running.directory, registered),
        own=own_allotments(running.directory, registered, caller),
        entries=entries(name, caller, running)[:8],
    )


@router.get("/data/{name}/history")
def history(name: Named, request: Request, caller: Anyone, running: Running) -> Response:
    """Every record that the caller may see, newest first."""
    shown = entries(name, caller, running)
    return page(request, "history.html", caller=caller, title=f"History of {name}", name=name, entries=shown)


def account_budget(directory: DataDirectory, dataset: Dataset, plan: dict[str, Fraction] | None = None) -> BudgetView:
    """The budget of a data set's account. `plan` is the price of one more release, by pool, or None."""
    account = directory.books.account(dataset.name)
    return budget(account.filter, account.caps, account.spent, plan)


def own_allotments(directory: DataDirectory, dataset: Dataset, caller: Caller) -> list[books.Allotment]:
    """The allotments of the caller and the caller's project."""
    account = directory.books.account(dataset.name)
    return [part for part in account.allotments() if part.holder in own_holders(caller)]


def entries(name: str, caller: Caller, running: Running) -> list[dict[str, Any]]:
    """The records of a data set that the caller may see, in words, newest first."""
    newest_first = reversed(api_history(name, caller, running))
    return [_row(entry) for entry in newest_first if entry.kind != "act" or entry.description in _WHAT]


_WHAT = {
    "open": "account opened",
    "source": "refreshed copy of the data",
    "raise": "budget raised",
    "allot": "allotment set",
    "reserve": "question paid",
    "refuse": "question refused",
    "settle": "answer stored",
    "fail": "run failed, budget kept",
    "register": "data set registered",
    "policy": "policy changed",
    "refresh": "data declared as changed",
    "standing": "policy as it stood when records began to hold it",
}


def _row(entry: Any) -> dict[str, Any]:
    amounts = entry.price or entry.caps
    return {
        "position": entry.position,
        "time": entry.time[:16].replace("T", " "),
        "what": _WHAT.get(entry.description if entry.kind == "act" else entry.kind, entry.kind),
        "kind": entry.kind,
        "state": entry.state,
        "who": entry.who or ", ".join(holder.partition(":")[2] or holder for holder in entry.payers),
        "amounts": ", ".join(f"{pool} {short(amount)}" for pool, amount in amounts.items() if Fraction(amount)),
        "description": entry.description,
        "answered": entry.kind == "reserve" and entry.state == "settled",
    }


def _exact(amounts: Any) -> dict[str, Fraction]:
    return {pool: Fraction(amount) for pool, amount in amounts.items()}
