"""The question page: fields and SQL side by side, each rewriting the other, with cost, errors and curve while one types.

One address renders it all: a browser without scripts sends the whole form, one with scripts does so while its user types
and puts the parts of the answer in place. Nothing here reads a row until "release".
"""

import asyncio
import hashlib
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from neartwin.errors import NeartwinError
from neartwin.queries.types import GROUPABLE, NUMERIC, ColumnType
from neartwin.report.vector import Bar, bars_svg
from neartwin.web import builder
from neartwin.web.access import Analyst, Asker, Caller
from neartwin.web.builder import Asked, Grouped, Wanted
from neartwin.web.datasets import Dataset
from neartwin.web.faults import told
from neartwin.web.pages.amounts import short
from neartwin.web.pages.frame import PageRoute, Shape, address, fields, first, page
from neartwin.web.pages.shelves import account_budget, own_allotments, payable
from neartwin.web.pages.spelling import Spelled
from neartwin.web.routes.datasets import Named, visible
from neartwin.web.service import RefusedError, Running
from neartwin.web.sides import schema_of

router = APIRouter(route_class=PageRoute)
SIZES = (10, 100, 1_000, 10_000, 100_000)
_UNSAID = "(once the fields say a question)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that the asker may use, by what they can be used for; types of all."""

    groupable: list[str]
    numeric: list[str]
    dated: list[str]
    types: dict[str, str]


@router.get("/data/{name}/ask")
async def blank(name: Named, request: Request, caller: Asker, running: Running) -> Response:
    """A first question, previewed."""
    found, columns = await run_in_threadpool(_opened, running, name, caller)
    asked = replace(
        builder.start(found, columns.groupable, running.house.books.account(name).filter.kind),
        key=secrets.token_urlsafe(12),
    )
    return await _page(request, running, caller, (found, columns, asked))


@router.post("/data/{name}/ask")
async def ask(name: Named, request: Request, caller: Asker, running: Running) -> Response:
    """The page for the fields that were sent; with the release button, the release."""
    sent = await fields(request)
    found, columns = await run_in_threadpool(_opened, running, name, caller)
    asked = builder.read(sent, [*columns.types])
    action = first(sent, "action")
    refusal: dict[str, str] | None = None
    asked = _after_button(asked, action)
    if action == "sql" or (first(sent, "source") == "sql" and not action.startswith("add")):
        try:
            asked = builder.of_fields((await _written(running, caller, found, asked, "sql"))["fields"])
        except RefusedError as fault:
            return await _page(request, running, caller, (found, columns, asked), fault.as_dict(), keep_sql=True)
    if (
        asked.keys == "declared"
        and not asked.grouped
        and not asked.joined
        and any(name not in found.keys for name in asked.groups)
    ):
        asked = replace(asked, keys="discover")
    if action == "release" and caller.role == "analyst":
        answer = await _release(running, caller, found, columns, asked)
        if isinstance(answer, Response):
            return answer
        refusal = answer
        asked = replace(asked, key=secrets.token_urlsafe(12))  # whoever tries again asks anew
    keep = first(sent, "source") == "sql" and not action
    return await _page(request, running, caller, (found, columns, asked), refusal, keep_sql=keep)


def _after_button(asked: Asked, action: str) -> Asked:
    """The fields after a button that adds, removes or spends; any other leaves them."""
    verb, _, told = action.partition(":")
    if action == "add" and len(asked.wanted) < builder.MOST_STATISTICS:
        return replace(asked, wanted=(*asked.wanted, Wanted()))
    if verb == "remove" and len(asked.wanted) > 1:
        return replace(asked, wanted=tuple(one for place, one in enumerate(asked.wanted) if told != str(place)))
    if action == "add-group" and len(asked.grouped) < builder.MOST_GROUPED:
        return replace(asked, grouped=(*asked.grouped, Grouped()))
    if verb == "remove-group":
        return replace(asked, grouped=tuple(one for place, one in enumerate(asked.grouped) if told != str(place)))
    if action == "unjoin":
        return Asked(currency=asked.currency, amount=asked.amount, delta=asked.delta, key=asked.key, size=asked.size)
    return replace(asked, amount=told) if verb == "spend" else asked


@router.get("/jobs/{identity}")
async def job(identity: str, request: Request, caller: Analyst, running: Running, after: Shape = "") -> Response:
    """A release under way: waits a moment, then leads to the answer or says how it stands."""
    found = running.jobs.get(identity, caller.name)
    if found.future is not None:
        await asyncio.wait({asyncio.wrap_future(found.future)}, timeout=min(2, running.settings.patience))
    if found.state != "done":
        again = address("jobs", identity) + _shape(after)
        return page(request, "job.html", status=202, caller=caller, title="Working", state=found.state, again=again)
    if "refused" in found.outcome:
        return page(
            request,
            "refused.html",
            status=409,
            caller=caller,
            title="That did not work",
            fault=found.outcome["refused"],
        )
    release = found.outcome["done"]
    population = release["release"]["provenance"]["account"]
    return RedirectResponse(address("data", population, "releases", release["position"]) + _shape(after), 303)


async def _release(
    running: Running, caller: Caller, found: Dataset, columns: Columns, asked: Asked
) -> Response | dict[str, str]:
    """Where to look for the release, or why it was refused.

    The page's key and the question make the request's: a second click never pays twice, another question is another request.
    """
    try:
        task = _task("release", found, caller, columns, asked)
    except NeartwinError as fault:
        return told(fault)
    key = hashlib.sha256(json.dumps([asked.key, task], sort_keys=True).encode()).hexdigest()[:32]
    one = running.jobs.submit(task | {"key": key})
    if one.future is not None:
        await asyncio.wait({asyncio.wrap_future(one.future)}, timeout=running.settings.patience)
    if one.state == "done" and "refused" in one.outcome:
        refusal: dict[str, str] = one.outcome["refused"]
        return refusal
    after = builder.after_form(asked)
    return RedirectResponse(address("jobs", one.id) + _shape(json.dumps(after) if after else ""), 303)


def _shape(after: str) -> str:
    return "?" + urlencode({"after": after}) if after else ""


def _opened(running: Running, name: str, caller: Caller) -> tuple[Dataset, Columns]:
    found, rule = visible(running.house, name, caller)
    schema = running.house.rows(found).table.schema
    others = running.house.tables(found)
    theirs = {name: str(kind) for other in others.values() for name, kind in schema_of(other).items()}
    usable = [name for name in schema if rule is None or rule.columns is None or name in rule.columns]
    grouped = [name for name in usable if rule is None or rule.group_columns is None or name in rule.group_columns]
    return found, Columns(
        groupable=[name for name in grouped if schema[name] in GROUPABLE and name != found.unit],
        numeric=[name for name in usable if schema[name] in NUMERIC and name != found.unit],
        dated=[
            name for name in usable if schema[name] in {ColumnType.DATE, ColumnType.TIMESTAMP} and name != found.unit
        ],
        types=theirs | {name: str(schema[name]) for name in usable},
    )


def _task(do: str, found: Dataset, caller: Caller, columns: Columns, asked: Asked) -> dict[str, Any]:
    return {
        "do": do,
        "dataset": found.name,
        "analyst": caller.name if caller.role == "analyst" else "",
        "project": caller.project,
        "question": builder.form(asked, columns.types, found.keys),
        "spend": builder.spend(asked),
        **builder.limits(asked),
    }


async def _page(
    request: Request,
    running: Running,
    caller: Caller,
    what: tuple[Dataset, Columns, Asked],
    refusal: dict[str, str] | None = None,
    *,
    keep_sql: bool = False,
) -> Response:
    found, columns, asked = what
    plan: dict[str, Any] | None = None
    form: dict[str, Any] = {}
    try:
        form = builder.form(asked, columns.types, found.keys)
        plan = await running.ask(_task("plan", found, caller, columns, asked))
    except RefusedError as fault:
        refusal = refusal or fault.as_dict()
    except NeartwinError as fault:
        refusal = refusal or told(fault)
    if not keep_sql:
        with suppress(RefusedError):  # what is no SQL yet stays as it was; the preview says what is wrong
            asked = replace(asked, sql=(await _written(running, caller, found, asked, "builder"))["sql"])
    price = (
        None
        if plan is None
        else {pool: Fraction(b) - Fraction(plan["after"][pool]) for pool, b in plan["before"].items()}
    )
    budget = await run_in_threadpool(account_budget, running.house, found, price)
    own = await run_in_threadpool(own_allotments, running.house, found, caller)
    left = await run_in_threadpool(payable, running.house, found, caller)
    shown = plan["question"] if plan is not None and asked.joined else form  # joins as verbs, keys as they are
    spelled = Spelled(
        shown, builder.spend(asked), builder.limits(asked), dataset=found.name, host=str(request.base_url).rstrip("/")
    )
    return page(
        request,
        "ask.html",
        caller=caller,
        title=f"Ask {found.name}",
        dataset=found,
        columns=columns,
        asked=asked,
        verbs=builder.VERBS,
        ways=builder.WAYS,
        currencies=builder.CURRENCIES,
        most={"statistics": builder.MOST_STATISTICS, "groups": builder.MOST_GROUPED},
        released=_released(asked),
        keys=builder.KEYS,
        over=builder.OVER,
        sizes=SIZES,
        plan=plan,
        price=None if price is None else [f"{pool} {short(amount)}" for pool, amount in price.items() if amount],
        errors=[] if plan is None else _errors(plan["errors"], form, found, asked.size),
        tree=None if plan is None else plan["explanation"],
        budget=budget,
        own=own,
        affordable=price is not None and all(amount <= left[pool] for pool, amount in price.items()),
        refusal=None if refusal is None else _kind(refusal, left),
        python=spelled.python() if form else _UNSAID,
        http=spelled.http() if form else _UNSAID,
    )


async def _written(running: Running, caller: Caller, found: Dataset, asked: Asked, source: str) -> dict[str, Any]:
    """Fields and SQL, each made from the other by a worker: a text that is hard to parse ends there alone."""
    who = {"analyst": caller.name if caller.role == "analyst" else "", "project": caller.project}
    task = {"do": "fields", "dataset": found.name, "fields": builder.as_fields(asked), "source": source}
    return await running.ask(task | who)


def _released(asked: Asked) -> list[str]:
    """The names that the answer's table will have, by which it may be sorted."""
    return [*asked.names, *(name for name, _ in builder.named(asked))]


def _kind(refusal: dict[str, str], left: dict[str, Fraction]) -> dict[str, Any]:
    """A refusal in words: what, by how much, and the ways out. left: what the asker can pay, by pool."""
    ways = [way for way in refusal.get("remedy", "").split("; or ") if way]
    made: dict[str, Any] = {
        "message": refusal["message"],
        "ways": ways,
        "code": refusal["code"],
        "amounts": None,
        "fits": "",
    }
    if "requested" in refusal:
        requested, remaining = Fraction(refusal["requested"]), Fraction(refusal["remaining"])
        made["amounts"] = {
            "pool": refusal["pool"],
            "requested": short(requested),
            "remaining": short(remaining),
            "difference": short(requested - remaining),
        }
        fits = min(remaining, left.get("epsilon", Fraction(0)))
        if refusal["pool"] == "epsilon" and fits > 0:
            made["fits"] = f"{int(fits * 10**6) / 10**6:g}"
    return made


def _errors(errors: list[dict[str, Any]], form: dict[str, Any], found: Dataset, size: str) -> list[dict[str, str]]:
    """Each statistic's error, drawn on a made-up group of so many rows."""
    rows = int(size) if size in {str(one) for one in SIZES} else 1_000
    drawn = []
    for place, error in enumerate(errors):
        part = form.get("statistics", {}).get(error["name"], {})
        if part.get("ask") not in {"count", "count_units", "sum", "mean"}:  # the error of a rank is none of a value
            drawn.append({"name": error["name"], "says": error["says"], "picture": "", "share": ""})
            continue
        value, half = _made_up(error, part, found, rows)
        told = f"{error['name']}: {value:,.6g} ± {half:,.4g} in a made-up group of {rows:,} rows"
        bars = [Bar("", value, value - half, value + half)]
        share = f"{half / abs(value):.1%} of the value" if value else ""
        picture = bars_svg(bars, name=f"error-{place}", title=told, left=16, width=290)
        drawn.append({"name": error["name"], "says": error["says"], "picture": picture, "share": share})
    return drawn


def _made_up(error: dict[str, Any], part: dict[str, Any], found: Dataset, rows: int) -> tuple[float, float]:
    """A value that such a group could have, and its error bar: from the plan and declared bounds alone."""
    value = float(rows)
    if "column" in part:
        declared = found.bounds.get(str(part.get("column")))
        ends = [part.get("low"), part.get("high")]
        if None in ends and declared is not None:
            ends = [declared.low, declared.high]
        middle = float(Fraction(str(ends[0])) + Fraction(str(ends[1]))) / 2 if None not in ends else 1.0
        value = middle * rows if part.get("ask") == "sum" else middle
    if error["half_width"] is not None:
        return value, float(Fraction(error["half_width"]))
    by_size = dict(map(tuple, error["by_size"]))
    return value, float(by_size.get(rows, 0.0))
