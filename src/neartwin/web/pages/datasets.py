"""Pages of data sets: their public facts, the meaning of their budget, and their history."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from neartwin.web.auth import Anyone, Caller
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset
from neartwin.web.pages.budget import Amounts, budget, shares
from neartwin.web.pages.layout import amounts, page
from neartwin.web.routes import datasets as api
from neartwin.web.routes.datasets import Named, visible
from neartwin.web.routes.ledger import Before, records
from neartwin.web.service import Running

router = APIRouter()
Sought = Annotated[str, Query(max_length=200)]
_SHOWN = 25
_RELATIONS = {"add_remove": "adding or removing one", "replace_one": "replacing one"}


@router.get("/data")
def datasets(request: Request, caller: Anyone, running: Running) -> Response:
    """The data sets that the caller may see."""
    shown = [
        {
            "one": one,
            "share": max(shares(one.budget, one.spent).values()),
            "waiting": caller.sees_all
            and sum(not part["answer"] for part in running.directory.store.requests(one.name)),
        }
        for one in api.datasets(caller, running)
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
        one=api.dataset(name, caller, running),
        relation=_RELATIONS[registered.neighbours],
        rule=rule,
        budget=account_budget(running.directory, registered),
        own=api.allotments(name, caller, running),
        entries=list(islice(entries(name, caller, running), 8)),
    )


@router.get("/data/{name}/history")
def history(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named, request: Request, caller: Anyone, running: Running, q: Sought = "", before: Before = None
) -> Response:
    """The records that the caller may see, newest first, and those that hold some words."""
    known, words = entries(name, caller, running, before), q.lower().split()
    found = (one for one in known if all(word in " ".join(map(str, one.values())).lower() for word in words))
    shown = list(islice(found, _SHOWN + 1))
    more: dict[str, Any] = {"entries": shown[:_SHOWN], "older": len(shown) > _SHOWN, "q": q}
    return page(request, "history.html", caller=caller, title="History", name=name, **more)


def account_budget(directory: DataDirectory, dataset: Dataset, plan: Amounts | None = None) -> dict[str, Any]:
    """The budget of a data set's account. `plan` is the price of one more release, by pool, or None."""
    account = directory.books.account(dataset.name)
    return budget(account.filter, account.caps, account.spent, plan)


def entries(name: str, caller: Caller, running: Running, before: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of a data set that the caller may see, in words, newest first; those below a position, or all."""
    newest = records(running, name, caller, before)
    shown = (entry for entry in newest if (entry.description if entry.kind == "act" else entry.kind) in _WHAT)
    return map(_row, shown)


_WHAT = {
    "open": "account opened",
    "source": "place or check of the data",
    "raise": "budget raised",
    "allot": "allotment set",
    "reserve": "question paid",
    "refuse": "question refused",
    "fail": "run failed, budget kept",
    "register": "data set registered",
    "wish": "larger budget wished, by one of two",
    "agree": "larger budget agreed, by the second of two",
    "request": "more budget requested",
    "decline": "request for budget declined",
    "withdraw": "request for budget withdrawn",
    "policy": "policy changed",
    "refresh": "data declared as changed",
    "standing": "policy as it stood when records began to hold it",
}


def _row(entry: Any) -> dict[str, Any]:
    return {
        "position": entry.position,
        "time": entry.time[:16].replace("T", " "),
        "what": _WHAT.get(entry.description if entry.kind == "act" else entry.kind, entry.kind),
        "kind": entry.kind,
        "state": entry.state,
        "who": entry.who or ", ".join(one.removeprefix("analyst:").replace(":", " ") for one in entry.payers),
        "amounts": amounts(entry.price or entry.caps),
        "description": entry.description,
        "answered": entry.kind == "reserve" and entry.state == "settled",
    }
