"""The guided registration of a data set: whom it protects, what is public, how much in all. The command stands beside it."""

import shlex
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from neartwin.accounting.budgets import budget_in
from neartwin.errors import NeartwinError
from neartwin.web.auth import Caller, Curator, Form
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import EACH_ROW_NAME, Dataset, Rule, bounds_in, keys_in, pairs
from neartwin.web.errors import as_dict, status_of
from neartwin.web.pages.layout import address, first, page
from neartwin.web.service import Running

router = APIRouter()
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
