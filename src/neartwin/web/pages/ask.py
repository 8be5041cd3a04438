"""The question page, its answers with their certificates, and the dashboard of saved questions.

The page's fields write SQL, and it shows cost, errors and curve while the analyst types. One address renders the page.
A browser without scripts sends the whole form. With scripts it does so while the analyst types, and puts the parts of the
answer in place. No row is read before "release", which pays for the previewed plan.

A dashboard has the saved questions of a data set on one page. Looking at it never pays: a question that was answered shows its
stored answer, and one that would cost something says its price.
"""

import asyncio
import hashlib
import json
import secrets
from dataclasses import replace
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from neartwin.checks import text
from neartwin.errors import AccessError, BudgetError, NeartwinError, ParameterError
from neartwin.releases.release import parts_in
from neartwin.report.page import MOST_ROWS, certificate_facts, charts, facts
from neartwin.tables.types import NUMERIC, ColumnType
from neartwin.web.auth import Analyst, Anyone, Asker, Caller, Form
from neartwin.web.builder import fields, task
from neartwin.web.builder.task import json_object, named, sql
from neartwin.web.data_directory import no_room
from neartwin.web.datasets import Dataset
from neartwin.web.errors import as_dict
from neartwin.web.pages.datasets import account_budget
from neartwin.web.pages.layout import AfterJson, address, amounts, first, host, page, short
from neartwin.web.routes import datasets as api
from neartwin.web.routes.datasets import JobId, Named, Part, Position, fits, owed, shown, task_of, visible
from neartwin.web.service import RefusedError, Running, Service
from neartwin.web.store import Store

router = APIRouter()
Columns = dict[str, list[str]]  # those that the analyst may use: usable, groupable, numeric and dated


@router.get("/data/{name}/ask")
async def blank(name: Named, request: Request, caller: Asker, running: Running, saved: str = "") -> Response:
    """The page with a first question, or a saved one, and its preview."""
    dataset, columns = await run_in_threadpool(_opened, running, name, caller)
    form = fields.start(dataset, columns["groupable"], running.directory.books.account(name).filter.kind)
    for row in await run_in_threadpool(saved_for, running.directory.store, name, caller) if saved else ():
        form = fields.read(json.loads(row["fields"])) if row["id"] == saved else form
    return await _page(request, running, caller, (dataset, columns, replace(form, key=secrets.token_urlsafe(12))))


@router.post("/data/{name}/ask")
async def ask(name: Named, request: Request, caller: Asker, running: Running, sent: Form) -> Response:
    """The page for the sent fields. The release button releases the previewed plan."""
    dataset, columns = await run_in_threadpool(_opened, running, name, caller)
    action = first(sent, "action")
    form = _after_button(fields.read(sent), action)
    refusal: dict[str, str] | None = None
    if action == "show":
        plan = await running.ask(question_task("plan", dataset, caller, written(form, dataset)))
        if plan["stored"] is not None:  # else the page says the price
            return RedirectResponse(await run_in_threadpool(stored_place, running, caller, name, plan), 303)
    if action == "release" and caller.role == "analyst":
        answer = await _release(running, caller, dataset, form)
        if isinstance(answer, Response):
            return answer
        refusal, form = answer, replace(form, key=secrets.token_urlsafe(12))  # a second try is a new request
    return await _page(request, running, caller, (dataset, columns, form), refusal)


def saved_for(store: Store, name: str, caller: Caller) -> list[dict[str, str]]:
    """The saved questions of a data set that the caller may see: those of all, and those of the caller's project."""
    return [row for row in store.saved(name) if caller.sees_all or row["project"] in {"", caller.project}]


def stored_place(running: Service, caller: Caller, name: str, plan: dict[str, Any]) -> str:
    """The page of a plan's stored answer, which the caller may read from now on."""
    if not caller.sees_all:
        running.directory.store.serve(caller.name, name, plan["stored"])
    return _release_place(name, plan["stored"], plan["shown_after"])


def _release_place(name: str, position: int, after: dict[str, Any]) -> str:
    shaped = f"?{urlencode({'after': json.dumps(after)})}" if after else ""
    return address("data", name, "releases", position) + shaped


def written(form: fields.AskFields, dataset: Dataset) -> fields.AskFields:
    """The fields with their SQL text, unless it was edited by hand.

    Args:
        form: The fields.
        dataset: The data set.

    Raises:
        NeartwinError: The fields have no text.
    """
    if form.by_hand:
        return replace(form, written="")
    if form.keys == "declared" and any(name not in dataset.keys for name in form.groups):
        form = replace(form, keys="discover")
    text = sql(form, dataset)
    return replace(form, sql=text, written=text)


def _after_button(form: fields.AskFields, action: str) -> fields.AskFields:
    """The fields after a button that adds, removes or spends. Any other button leaves them as they are."""
    verb, _, value = action.partition(":")
    statistics, groups = form.statistics, form.computed_groups
    if action == "add" and len(statistics) < fields.MAX_STATISTICS:
        return replace(form, statistics=(*statistics, fields.StatisticFields()))
    if verb == "remove" and len(statistics) > 1:
        return replace(form, statistics=tuple(one for place, one in enumerate(statistics) if value != str(place)))
    if action == "add-group" and len(groups) < fields.MAX_COMPUTED_GROUPS:
        return replace(form, computed_groups=(*groups, fields.GroupFields()))
    if verb == "remove-group":
        return replace(form, computed_groups=tuple(one for place, one in enumerate(groups) if value != str(place)))
    if action == "fields":
        return replace(form, sql="", written="")
    return replace(form, amount=value) if verb == "spend" else form


@router.get("/jobs/{identity}")
async def job(identity: JobId, request: Request, caller: Analyst, running: Running) -> Response:
    """A release under way. This waits at most 2 s, then redirects to the answer or shows the state."""
    pending = await run_in_threadpool(running.jobs.get, identity, caller.holders[0])
    pending = await running.jobs.wait(pending, min(2, running.settings.patience))
    if pending.state != "done":
        again = address("jobs", identity)
        return page(request, "job.html", status=202, caller=caller, title="Working", state=pending.state, again=again)
    if "refused" in pending.outcome:
        raise RefusedError(pending.outcome)
    release = pending.outcome["done"]
    return RedirectResponse(_release_place(release["dataset"], release["position"], release["after"]), 303)


async def _release(
    running: Running, caller: Caller, dataset: Dataset, form: fields.AskFields
) -> Response | dict[str, str]:
    """A redirect to the release's job, or the refusal.

    The worker refuses a plan whose digest is not the previewed one. The page's key and the question make the request's
    key: a second click never pays twice, and another question is another request.
    """
    try:
        sent = question_task("release", dataset, caller, written(form, dataset)) | {"digest": form.digest}
    except NeartwinError as fault:
        return as_dict(fault)
    key = hashlib.sha256(json.dumps([form.key, sent], sort_keys=True).encode()).hexdigest()[:32]
    one = await running.jobs.wait(running.jobs.submit(sent | {"key": key}), running.settings.patience)
    if one.state == "done" and "refused" in one.outcome:
        refusal: dict[str, str] = one.outcome["refused"]
        return refusal
    await run_in_threadpool(running.jobs.share, one)
    return RedirectResponse(address("jobs", one.id), 303)


def _opened(running: Running, name: str, caller: Caller) -> tuple[Dataset, Columns]:
    dataset, rule = visible(running.directory, name, caller)
    schema = running.directory.rows(dataset).table.schema
    groupable = {one["name"]: one["groupable"] for one in api.usable(schema, dataset, rule)}
    others = [column for column in groupable if column != dataset.unit]
    return dataset, {
        "usable": list(groupable),
        "groupable": [one for one in others if groupable[one]],
        "numeric": [one for one in others if schema[one] in NUMERIC],
        "dated": [one for one in others if schema[one] in {ColumnType.DATE, ColumnType.TIMESTAMP}],
    }


def question_task(do: str, dataset: Dataset, caller: Caller, form: fields.AskFields) -> dict[str, Any]:
    """A worker's task.

    Args:
        do: "plan" or "release".
        dataset: The data set.
        caller: The caller.
        form: The fields, with their SQL.

    Raises:
        ParameterError: The JSON in the place of SQL is no object.
    """
    parts = {"question": task.question(form), "spend": task.spend(form), **task.limits(form)}
    return task_of(do, dataset.name, caller, parts)


async def _page(
    request: Request,
    running: Running,
    caller: Caller,
    subject: tuple[Dataset, Columns, fields.AskFields],
    refusal: dict[str, str] | None = None,
) -> Response:
    dataset, columns, form = subject
    plan: dict[str, Any] | None = None
    price: dict[str, Fraction] | None = None
    try:
        form = written(form, dataset)
        plan = await running.ask(question_task("plan", dataset, caller, form))
        price = owed(plan)
    except NeartwinError as fault:
        refusal = refusal or as_dict(fault)
    budget = await run_in_threadpool(account_budget, running.directory, dataset, price)
    left = await run_in_threadpool(api.payable, running.directory, dataset, caller)
    shown = price if price is not None and any(price.values()) else left
    affordable = plan is not None and fits(plan, left)
    if price is not None and not affordable:
        refusal = refusal or as_dict(_short_of(price, left))
    elif price and any(price.values()) and running.authenticator.rates.reached("kept", caller.holders[0]):
        affordable, refusal = False, refusal or as_dict(no_room())
    return page(
        request,
        "ask.html",
        caller=caller,
        title=f"Ask {dataset.name}",
        dataset=dataset,
        columns=columns,
        form=form,
        released=[*form.names, *(name for name, _ in named(form))],
        fields=fields,
        plan=plan,
        price=amounts(price or {}),
        budget=budget,
        own=[
            {"name": pool, "left": amount, "after": amount - price[pool] if price is not None and affordable else None}
            for pool, amount in left.items()
            if shown.get(pool)
        ],
        code={} if plan is None else task.code(form, dataset, host(request), plan["question"].get("group_by", ())),
        affordable=affordable,
        refusal=None if refusal is None else _ways_out(refusal, left),
    )


def _short_of(price: dict[str, Fraction], left: dict[str, Fraction]) -> BudgetError:
    """The refusal that a release would meet."""
    pool = next(pool for pool, amount in price.items() if amount > left[pool])
    ways = (f"spend at most the remaining {short(left[pool])}", "ask the curator for a larger allotment")
    return BudgetError(pool, price[pool], left[pool], ways[not left[pool] :])


def _ways_out(refusal: dict[str, str], left: dict[str, Fraction]) -> dict[str, Any]:
    """A refusal with the missing amount, the ways out, and the epsilon that fits.

    Args:
        refusal: The error as data.
        left: The amounts that the analyst can pay, by pool.
    """
    ways = [way for way in refusal.get("remedy", "").split("; or ") if way]
    missing, fitting = "", ""
    if "requested" in refusal:
        requested, remaining = Fraction(refusal["requested"]), Fraction(refusal["remaining"])
        missing = short(requested - remaining)
        fits = min(remaining, left.get("epsilon", Fraction(0)))
        if refusal["pool"] == "epsilon" and fits > 0:
            fitting = f"{int(fits * 10**6) / 10**6:g}"
    return refusal | {"ways": ways, "missing": missing, "fits": fitting}


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
    saved = json.dumps({part: values for part, values in sent.items() if part not in _NOT_SAVED})
    project = "" if first(sent, "for") == "all" else caller.project
    rule = f"must have at most {MOST_SAVED} questions of {_MOST_LETTERS:,} letters"
    full = ParameterError("dashboard", name, rule, remedy="remove one, or ask a shorter one")
    if len(saved) > _MOST_LETTERS:  # before it costs a plan
        raise full
    form = written(fields.read(json.loads(saved)), dataset)
    await running.ask(question_task("plan", dataset, caller, form))  # which refuses what cannot be asked
    title = text(title=(first(sent, "title") or ", ".join(form.names) or "A question")[:100], at_least=1, at_most=100)
    values = {"dataset": name, "owner": caller.name, "project": project, "title": title, "fields": saved}
    if not await run_in_threadpool(store.save, values, most=MOST_SAVED):
        raise full
    return RedirectResponse(address("data", name, "dashboard"), 303)


def _may_remove(row: dict[str, str], caller: Caller) -> bool:
    return caller.role == "curator" or row["owner"] == caller.name


async def _card(running: Service, caller: Caller, dataset: Dataset, row: dict[str, str]) -> dict[str, Any]:
    card = row | {"fault": "", "price": "", "place": "", "removable": _may_remove(row, caller)}
    try:
        form = written(fields.read(json.loads(row["fields"])), dataset)
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


@router.get("/data/{name}/releases/{position}")
def release(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named,
    position: Position,
    request: Request,
    caller: Anyone,
    running: Running,
    after: AfterJson = "",
    part: Part = 1,
) -> Response:
    """A release that was paid for. `after` holds free post-processing: HAVING, ORDER BY and LIMIT, as JSON."""
    _, stored = api.readable(running, name, position, caller)
    parts = parts_in(stored.document)
    answer = shown(parts, part, json_object(after or "{}", "after"))
    return page(
        request,
        "release_page.html",
        caller=caller,
        title=f"Answer {stored.reserved} of {name}",
        name=name,
        position=stored.reserved,
        after=after,
        part=part,
        of_part=f"?part={part}" if part > 1 else "",
        parts=len(parts),
        price={pool: str(amount) for pool, amount in stored.price.items() if amount},
        # in their order, which may have been asked for
        **facts(answer) | {"body": answer.lines(range(len(answer))[:MOST_ROWS])[1:]},
    )


@router.get("/data/{name}/releases/{position}/csv")
def csv(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named, position: Position, caller: Anyone, running: Running, after: AfterJson = "", part: Part = 1
) -> Response:
    """The released table as CSV."""
    _, stored = api.readable(running, name, position, caller)
    text = shown(parts_in(stored.document), part, json_object(after or "{}", "after")).to_csv()
    headers = {"Content-Disposition": f'attachment; filename="release-{position}.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/data/{name}/releases/{position}/certificate")
def certificate(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named, position: Position, request: Request, caller: Anyone, running: Running, part: Part = 1
) -> Response:
    """The certificate of a release, as a page."""
    account, _ = api.readable(running, name, position, caller)
    issued = running.directory.certificate(account, position, part)
    title = f"Certificate of answer {issued.body['ledger']['reserved']}"
    shown: dict[str, Any] = certificate_facts(issued) | {"of_part": f"?part={part}" if part > 1 else ""}
    return page(request, "certificate_page.html", caller=caller, title=title, name=name, position=position, **shown)
