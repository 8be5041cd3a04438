"""Dashboards: the saved questions of a data set on one page. Looking at it never pays.

A question that was answered shows its stored answer. One that would cost something says its price.
"""

import asyncio
import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from neartwin.checks import text
from neartwin.errors import AccessError, NeartwinError, ParameterError
from neartwin.releases.release import parts_in
from neartwin.report.page import charts
from neartwin.web.auth import Anyone, Asker, Caller, Form
from neartwin.web.builder.fields import read
from neartwin.web.datasets import Dataset
from neartwin.web.errors import as_dict
from neartwin.web.pages.ask import question_task, saved_for, stored_place, written
from neartwin.web.pages.layout import address, amounts, first, page
from neartwin.web.routes.datasets import Named, visible
from neartwin.web.routes.ledger import shown
from neartwin.web.routes.questions import owed
from neartwin.web.service import Running, Service

router = APIRouter()
MOST_SAVED = 24  # of one data set and project: each is planned when the page is shown
_MOST_LETTERS = 20_000  # of the fields of a question
_NOT_SAVED = {"csrf", "key", "action", "digest", "title", "for"}


@router.get("/data/{name}/dashboard")
async def dashboard(name: Named, request: Request, caller: Anyone, running: Running) -> Response:
    """The saved questions that the caller may see, each with its stored answer or its price."""
    dataset, _ = await run_in_threadpool(visible, running.directory, name, caller)
    rows = await run_in_threadpool(saved_for, running.directory.store, name, caller)
    cards = await asyncio.gather(*(_card(running, caller, dataset, row) for row in rows))
    return page(request, "dashboard.html", caller=caller, title=f"Dashboard of {name}", name=name, cards=cards)


@router.post("/data/{name}/dashboard")
async def change(name: Named, caller: Asker, running: Running, sent: Form) -> Response:
    """Save the question of the question page, or remove a saved one."""
    dataset, _ = await run_in_threadpool(visible, running.directory, name, caller)
    store = running.directory.store
    if identity := first(sent, "remove"):
        rows = await run_in_threadpool(saved_for, store, name, caller)
        if not any(row["id"] == identity and _may_remove(row, caller) for row in rows):
            raise AccessError(404, "question", identity, "is not a saved one of yours", remedy="see the dashboard")
        await run_in_threadpool(store.forget, identity)
        return RedirectResponse(address("data", name, "dashboard"), 303)
    fields = json.dumps({part: values for part, values in sent.items() if part not in _NOT_SAVED})
    project = "" if first(sent, "for") == "all" else caller.project
    rule = f"must have at most {MOST_SAVED} questions of {_MOST_LETTERS:,} letters"
    full = ParameterError("dashboard", name, rule, remedy="remove one, or ask a shorter one")
    if len(fields) > _MOST_LETTERS:  # before it costs a plan
        raise full
    form = written(read(json.loads(fields)), dataset)
    await running.ask(question_task("plan", dataset, caller, form))  # which refuses what cannot be asked
    title = text(title=(first(sent, "title") or ", ".join(form.names) or "A question")[:100], at_least=1, at_most=100)
    values = {"dataset": name, "owner": caller.name, "project": project, "title": title, "fields": fields}
    if not await run_in_threadpool(store.save, values, most=MOST_SAVED):
        raise full
    return RedirectResponse(address("data", name, "dashboard"), 303)


def _may_remove(row: dict[str, str], caller: Caller) -> bool:
    return caller.role == "curator" or row["owner"] == caller.name


async def _card(running: Service, caller: Caller, dataset: Dataset, row: dict[str, str]) -> dict[str, Any]:
    card = row | {"fault": "", "price": "", "place": "", "removable": _may_remove(row, caller)}
    try:
        form = written(read(json.loads(row["fields"])), dataset)
        plan = await running.ask(question_task("plan", dataset, caller, form))
        return card | await run_in_threadpool(_stored, running, caller, dataset.name, plan, row["id"])
    except NeartwinError as refusal:
        return card | {"fault": as_dict(refusal)}


def _stored(running: Service, caller: Caller, name: str, plan: dict[str, Any], identity: str) -> dict[str, Any]:
    """The charts of a stored answer and the address of its page, or the price of one that is not stored."""
    if plan["stored"] is None:
        return {"price": amounts(owed(plan))}
    document = running.answer(name, plan["stored"], caller.holders[0]).document
    answer, place = shown(parts_in(document), 1, plan["shown_after"]), stored_place(running, caller, name, plan)
    drawn, lines = charts(answer, name=f"chart-{identity}"), answer.lines(range(len(answer))[:5])
    return {"charts": drawn, "headline": answer.headline, "lines": lines, "place": place}
