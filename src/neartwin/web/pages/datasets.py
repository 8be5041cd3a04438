"""Pages of data sets: their public facts, the meaning of their budget, their history, and the guided registration.

That asks whom a data set protects, what is public and how much in all. The command stands beside it.
"""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from neartwin.accounting.budgets import budget_in
from neartwin.errors import NeartwinError
from neartwin.web.auth import Anyone, Caller, Curator, Form
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import EACH_ROW_NAME, Dataset, Rule, bounds_in, keys_in, pairs
from neartwin.web.errors import as_dict, status_of
from neartwin.web.pages.budget import Amounts, budget, shares
from neartwin.web.pages.layout import address, amounts, first, page
from neartwin.web.routes import datasets as api
from neartwin.web.routes.datasets import Before, Named, records, visible
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


_FIELDS = ("file", "name", "encoding", "unit", "types", "bounds", "keys", "budget", "each_analyst", "about")


@router.get("/register")
def blank(request: Request, caller: Curator, running: Running) -> Response:
    """The questions, and the files of the service's folder."""
    return _page(request, caller, running, dict.fromkeys(_FIELDS, "") | {"budget": "epsilon=1"})


@router.post("/register")
def register(request: Request, caller: Curator, running: Running, answers: Form) -> Response:
    """The command for the answers, checked unless they are still typed; or the registration."""
    sent = {name: first(answers, name) for name in _FIELDS}
    action = first(answers, "action")
    try:
        dataset = None if action == "typed" else _dataset(running.directory, sent)
        if dataset is None or action != "register":
            return _page(request, caller, running, sent, checked=dataset is not None)
        running.directory.register(dataset, by=caller.name)
    except NeartwinError as refusal:
        return _page(request, caller, running, sent, fault=as_dict(refusal), status=status_of(refusal))
    return RedirectResponse(address("data", dataset.name), 303)


def _page(request: Request, caller: Caller, running: Running, sent: dict[str, str], **more: Any) -> Response:
    files = sorted(entry.name for entry in running.directory.files.iterdir() if entry.is_file())
    command = _command(sent | {"file": sent["file"] or next(iter(files), "FILE")})
    shown = {"files": files, "sent": sent, "fault": None, "command": command, "checked": False} | more
    return page(request, "register.html", caller=caller, title="Register a data set", **shown)


def _dataset(directory: DataDirectory, sent: dict[str, str]) -> Dataset:
    """The data set of the answers. Its file is opened for the types of its columns."""
    each = sent["each_analyst"]
    dataset = Dataset(
        name=sent["name"] or sent["file"].partition(".")[0],
        place=str(directory.file(sent["file"])),
        unit=sent["unit"] or EACH_ROW_NAME,
        encoding=sent["encoding"],
        types=pairs(_lines(sent["types"]), "types"),
        bounds=bounds_in(_lines(sent["bounds"])),
        budget=budget_in(sent["budget"], "budget"),
        about=sent["about"],
        policy=(Rule(allotment=budget_in(each, "each analyst") if each else None),),
    )
    schema = dataset.rows(refresh=None).table.schema
    keys = {
        column: tuple(keys_in(text, schema.get(column))) for column, text in pairs(_lines(sent["keys"]), "keys").items()
    }
    return replace(dataset, keys=keys)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _command(sent: dict[str, str]) -> str:
    words = ["neartwin", "register", f"data/{sent['file']}", "--data", ".", "--unit", sent["unit"] or "each row"]
    for name in ("types", "bounds", "keys", "name", "encoding", "budget", "each_analyst", "about"):
        words += [part for line in _lines(sent[name]) for part in (f"--{name.replace('_', '-')}", line.strip())]
    return shlex.join(words)
