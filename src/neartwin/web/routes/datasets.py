"""Routes of data sets: their public facts, rules, allotments, requests for budget, and questions; and of the ledger.

The ledger has the history, stored releases and certificates, and is verified as a whole. An analyst asks for more budget and
says why, and a curator approves or declines. Plans and previews are free. Releases are paid before a row is read.
"""

import json
import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

import neartwin.ledger as books
from neartwin.accounting.budgets import budget_in, budget_of
from neartwin.checks import text
from neartwin.errors import AccessError, LedgerError, ParameterError
from neartwin.ledger import Head
from neartwin.queries.query import table_of
from neartwin.queries.wire.postprocess import after_read
from neartwin.releases.postprocess import shaped
from neartwin.releases.release import Release, answer_text, one_of_parts, parts_in, release_of
from neartwin.tables.types import GROUPABLE, ColumnType
from neartwin.web import schemas
from neartwin.web.auth import Analyst, Anyone, Asker, Caller, Curator, Overseer, require
from neartwin.web.data_directory import DataDirectory, ensure_allotments
from neartwin.web.datasets import Dataset, JoinableTable, Rule, bounds_text, decimals
from neartwin.web.policy import rule_for
from neartwin.web.service import Running, Service
from neartwin.web.workers import Job

router = APIRouter(prefix="/v1", tags=["data sets"])
Named = Annotated[str, Path(max_length=100)]
Holder = Annotated[str, Path(max_length=200)]


def visible(directory: DataDirectory, name: str, caller: Caller) -> tuple[Dataset, Rule | None]:
    """A data set that the caller may see, with an analyst's rule.

    Raises:
        AccessError: Status 404. The caller may not see the data set, or it does not exist.
    """
    dataset = directory.dataset(name)
    return dataset, None if caller.sees_all else rule_for(dataset, caller.holders)


@router.get("/datasets")
def datasets(caller: Anyone, running: Running) -> list[schemas.DatasetAnswer]:
    """The data sets that the caller may see."""
    rules = {one.name: one.rule_for(caller.holders) for one in running.directory.store.datasets()}
    names = [name for name, rule in rules.items() if caller.sees_all or rule is not None]
    return [dataset(name, caller, running) for name in names]


@router.post("/datasets", status_code=201)
def register(wish: schemas.Registration, caller: Curator, running: Running) -> schemas.DatasetAnswer:
    """Register a file of the service's folder `data`. Other places are registered from the machine's terminal."""
    body = wish.model_dump()
    for part in (body, *body["tables"]):
        part["place"] = str(running.directory.file(part.pop("file")))
    dataset = Dataset.from_dict(body)
    running.directory.register(dataset, by=caller.name)
    return _answer(running.directory, dataset, caller, None)


@router.get("/datasets/{name}")
def dataset(name: Named, caller: Anyone, running: Running) -> schemas.DatasetAnswer:
    """One data set with its public schema: names, types, declared bounds and keys of the columns the caller may use."""
    registered, rule = visible(running.directory, name, caller)
    return _answer(running.directory, registered, caller, rule)


@router.get("/datasets/{name}/policy")
def policy(name: Named, _: Overseer, running: Running) -> schemas.Policy:
    """All rules of a data set."""
    return _policy(running.directory.dataset(name))


@router.put("/datasets/{name}/policy")
def set_policy(name: Named, wish: schemas.Policy, caller: Curator, running: Running) -> schemas.Policy:
    """Replace the rules of a data set. They hold from the next question on."""
    rules = tuple(Rule.from_dict(rule.model_dump()) for rule in wish.rules)
    return _policy(running.directory.set_policy(name, rules, by=caller.name))


@router.get("/datasets/{name}/allotments", response_model=list[schemas.Allotment])
def allotments(name: Named, caller: Anyone, running: Running) -> list[books.Allotment]:
    """The allotments of a data set. An analyst sees those of the analyst and the project."""
    registered, _ = visible(running.directory, name, caller)
    account = running.directory.books.account(registered.name)
    return list(account.allotments()) if caller.sees_all else list(_own_allotments(account, caller).values())


@router.put("/datasets/{name}/allotments/{holder}", response_model=schemas.Allotment)
def allot(name: Named, holder: Holder, wish: schemas.Target, caller: Curator, running: Running) -> books.Allotment:
    """Set the amount that "analyst:NAME", "agent:NAME" or "project:NAME" may spend. Spent amounts stay spent."""
    return running.directory.allot(name, holder, budget_of(wish.target, "target"), by=caller.name)


@router.put("/datasets/{name}/cap")
def raise_cap(name: Named, wish: schemas.Raise, caller: Curator, running: Running) -> schemas.DatasetAnswer:
    """Raise the budget of a data set. The record is permanent, and the guarantee is then the weaker one of the new cap."""
    registered = running.directory.dataset(name)
    running.directory.books.raise_cap(registered.name, budget_of(wish.target, "target"), wish.reason, by=caller.name)
    return _answer(running.directory, registered, caller, None)


def _own_allotments(account: books.Account, caller: Caller) -> dict[str, books.Allotment]:
    return {name: part for name in sorted(caller.holders) if (part := account.allotment(name))}


def payable(directory: DataDirectory, dataset: Dataset, caller: Caller) -> dict[str, Fraction]:
    """The amount that the caller can pay now, by pool.

    It is the least of the account's remaining amount and that of each allotment that pays too.
    """
    account = directory.books.account(dataset.name)
    left = account.remaining
    if caller.sees_all:
        return left
    parts = {name: part.remaining for name, part in _own_allotments(account, caller).items()}
    rule = dataset.rule_for(caller.holders)
    first_allotment = None if rule is None else rule.first_allotment(caller.holders[0])
    if first_allotment is not None:  # what the first release will give
        parts.setdefault(caller.holders[0], account.rule.amounts(account.rule.caps(first_allotment)))
    for name in caller.holders:
        limit = parts.get(name, dict.fromkeys(left, Fraction(0)))
        left = {pool: min(amount, limit[pool]) for pool, amount in left.items()}
    return left


def _answer(directory: DataDirectory, dataset: Dataset, caller: Caller, rule: Rule | None) -> schemas.DatasetAnswer:
    account = directory.books.account(dataset.name)
    now = account.filter
    return schemas.DatasetAnswer.model_validate(
        {
            "name": dataset.name,
            "about": dataset.about,
            "unit": dataset.unit,
            "neighbours": dataset.neighbours,
            "rule": now.kind,
            "budget": account.caps,
            "spent": account.spent,
            "remaining": payable(directory, dataset, caller),
            "promise": str(now.promise(now.caps)),
            "allowed": None if rule is None else rule.as_dict(),
        }
        | _facts(directory, dataset, rule)
    )


def _facts(directory: DataDirectory, dataset: Dataset, rule: Rule | None) -> dict[str, Any]:
    """The columns and tables. A data set that cannot be read has none, and says so: others are listed all the same."""
    try:
        schema = directory.rows(dataset).table.schema
        return {"columns": usable(schema, dataset, rule), "tables": _tables(directory, dataset, rule)}
    except AccessError as refusal:
        return {"columns": [], "fault": str(refusal)}


def _tables(directory: DataDirectory, dataset: Dataset, rule: Rule | None) -> list[dict[str, Any]]:
    """The tables of which the caller may use a column."""
    opened = directory.tables(dataset)
    return [
        {"name": table.name, "kind": table.kind, "unit": table.unit, "on": dict(table.on), "columns": columns}
        for table in dataset.tables
        if (columns := usable(table_of(opened[table.name]).schema, table, rule, f"{table.name}."))
    ]


def usable(
    schema: Mapping[str, ColumnType], table: Dataset | JoinableTable, rule: Rule | None, prefix: str = ""
) -> list[dict[str, Any]]:
    """The columns that a rule lets the caller use.

    Args:
        schema: The columns of the table.
        table: The table.
        rule: The rule, or None for all columns.
        prefix: The prefix of their names in the rule.
    """
    allowed = None if rule is None else rule.columns
    grouped = None if rule is None else rule.group_columns
    return [
        {
            "name": column,
            "type": str(kind),
            "bounds": bounds_text(table.bounds[column]) if column in table.bounds else None,
            "keys": table.keys.get(column),
            "groupable": kind in GROUPABLE and (grouped is None or prefix + column in grouped),
        }
        for column, kind in schema.items()
        if allowed is None or prefix + column in allowed
    ]


def _policy(dataset: Dataset) -> schemas.Policy:
    return schemas.Policy.model_validate({"rules": [rule.as_dict() for rule in dataset.policy]})


of_ledger = APIRouter(prefix="/v1", tags=["ledger"])
Position = Annotated[int, Path(ge=1, le=2**53)]
Before = Annotated[int | None, Query(ge=1, le=2**53, description="Only records below this position.")]
Most = Annotated[int, Query(ge=1, le=1_000, description="The most records of one answer.")]
Part = Annotated[int, Query(ge=1, le=1_000, description="Of a series, which of its questions.")]


@of_ledger.get("/datasets/{name}/history", response_model=list[schemas.Entry])
def history(
    name: Named, caller: Anyone, running: Running, before: Before = None, limit: Most = 1_000
) -> list[books.Entry]:
    """The newest records of a data set below `before`, oldest first. An analyst sees what the analyst or project paid."""
    return list(islice(records(running, name, caller, before), limit))[::-1]


def records(running: Running, name: str, caller: Caller, before: int | None = None) -> Iterator[books.Entry]:
    """The records of a data set that the caller may see, newest first.

    Args:
        running: The service.
        name: The data set.
        caller: The caller.
        before: Only records below this position, or None for all.

    Yields:
        The records, as far as they are wanted.

    Raises:
        AccessError: Status 429. The caller kept the processor too long with earlier ones.
    """
    visible(running.directory, name, caller)
    take, holders = running.authenticator.rates.take, None if caller.sees_all else set(caller.holders)
    entries = running.directory.books.account(name).newest(before, holders)
    while True:
        begun, entry = time.thread_time(), next(entries, None)
        take("history", caller.holders[0], time.thread_time() - begun)
        if entry is None:
            return
        yield entry


@of_ledger.get("/datasets/{name}/releases/{position}", response_model=schemas.ReleaseAnswer)
def stored(name: Named, position: Position, caller: Anyone, running: Running, part: Part = 1) -> Response:
    """A stored release, at no cost. `position` is that of its reservation, or of the record that settled it."""
    _, found = readable(running, name, position, caller)
    parts = parts_in(found.document)
    body = {"position": found.reserved, "release": one_of_parts(parts, part), "parts": len(parts)}
    return Response(json.dumps(body), media_type="application/json")


@of_ledger.get(
    "/datasets/{name}/releases/{position}/certificate",
    responses={200: {"description": "the certificate of a release", "content": {"application/json": {}}}},
)
def certificate(name: Named, position: Position, caller: Anyone, running: Running, part: Part = 1) -> Response:
    """The certificate of a release: its question, its price, its guarantee, and its place in the ledger."""
    account, _ = readable(running, name, position, caller)
    issued = running.directory.certificate(account, position, part)
    return Response(issued.to_json(), media_type="application/json")  # as it is: every byte is signed


@of_ledger.get("/ledger")
def ledger(_: Overseer, running: Running) -> dict[str, Any]:
    """The head of the ledger and the names of its accounts. Keep the head elsewhere."""
    book = running.directory.books
    return {"head": str(book.head()), "accounts": [account.name for account in book.accounts()]}


@of_ledger.post("/ledger/verify", response_model=schemas.Verdict)
def verify(wish: schemas.Head, _: Overseer, running: Running) -> books.Verdict:
    """Verify all records. A head that was kept elsewhere, for example in a certificate, finds a rollback."""
    return running.directory.verify(Head.parse(wish.head) if wish.head else None)


@of_ledger.get("/ledger/acts", response_model=list[schemas.Act])
def acts(_: Overseer, running: Running, before: Before = None, limit: Most = 1_000) -> tuple[books.Act, ...]:
    """The newest acts of curators and sign-ins below `before`, oldest first."""
    return running.directory.books.acts(before=before, most=limit)


def readable(running: Service, name: str, position: int, caller: Caller) -> tuple[books.Account, books.Stored]:
    """A release that the caller may read, with its account.

    An analyst may read releases that the analyst or the project paid for, and those that the analyst was served.

    Raises:
        AccessError: Status 404 for any other release, 429 for a reader who read too much.
    """
    registered, _ = visible(running.directory, name, caller)
    account = running.directory.books.account(registered.name)
    gone = AccessError(404, "release", str(position), "is not one of yours", remedy="your history lists them")
    try:
        found = running.answer(account.name, position, caller.holders[0])
    except LedgerError:
        raise gone from None
    paid = caller.sees_all or set(caller.holders) & set(found.payers)
    if not paid and not running.directory.store.was_served(caller.name, registered.name, found.reserved):
        raise gone
    return account, found


def shown(parts: list[dict[str, Any]], part: int, after: Mapping[str, Any]) -> Release:
    """A stored release with its free post-processing.

    Args:
        parts: The releases of its document, as `parts_in` reads them.
        part: The number of the release, from 1.
        after: The post-processing as JSON data.

    Raises:
        AccessError: The release is a table that was written elsewhere.
        ParameterError: The post-processing does not fit the release.
    """
    stored = release_of(one_of_parts(parts, part))
    if not isinstance(stored, Release):
        raise AccessError(404, "release", stored.place, "is a table that was written there", remedy="read it there")
    return shaped(stored, after_read(after)) if after and stored.statistics else stored


# A request is an act in the ledger's chain. Whatever sets the holder's allotment afterwards answers it.
wishes = APIRouter(prefix="/v1/datasets/{name}/requests", tags=["data sets"])


@wishes.get("")
def requests(name: Named, caller: Anyone, running: Running) -> list[dict[str, Any]]:
    """The requests for budget, newest first. An analyst sees those for the analyst and the project.

    Each has its `position`, `time`, `who`, `holder`, `target`, `reason`, and its `answer` in words, "" while it waits.
    """
    visible(running.directory, name, caller)
    known = running.directory.store.requests(name)
    return [one for one in known if caller.sees_all or one["holder"] in caller.holders]


@wishes.post("", status_code=201)
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


@wishes.put("/{position}", status_code=204)
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


@wishes.delete("/{position}", status_code=204)
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


questions = APIRouter(prefix="/v1", tags=["questions"])
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=64,
        pattern=r"^[A-Za-z0-9_.-]*$",
        description="A request that is sent again under its key never pays twice.",
    ),
]
Seconds = Annotated[float, Query(ge=0, le=60, description="How long to wait for the release before answering.")]
JobId = Annotated[str, Path(max_length=100, pattern=r"^[\w-]*$")]


def _sees(request: Request, caller: Caller) -> None:
    visible(request.app.state.service.directory, request.path_params["name"], caller)


Spender = Annotated[Caller, Depends(require("analyst", check=_sees))]


@questions.post("/datasets/{name}/plan")
async def plan(name: Named, ask: schemas.Ask, caller: Asker, running: Running) -> schemas.Plan:
    """Plan a release and preview its cost and errors. This reads no row and spends nothing."""
    return schemas.Plan.model_validate(await running.ask(_task("plan", name, ask, caller)))


@questions.post("/datasets/{name}/releases", status_code=202, response_model=schemas.JobState)
async def release(  # noqa: PLR0917 - FastAPI reads the parts of a request from here
    name: Named, ask: schemas.Ask, caller: Spender, running: Running, key: Key = "", wait: Seconds = 0
) -> Response:
    """Start a release as a job. It pays, asks, adds noise and answers. A stored answer is served at no cost."""
    return await _state(running.jobs.submit(_task("release", name, ask, caller) | {"key": key}), wait, running)


@questions.get("/jobs/{identity}", response_model=schemas.JobState)
async def job(identity: JobId, caller: Analyst, running: Running, wait: Seconds = 0) -> Response:
    """The state of a release: queued, running or done. No more is shown, because speed may be data."""
    submitted = await run_in_threadpool(running.jobs.get, identity, caller.holders[0])
    return await _state(submitted, wait, running)


def _task(do: str, name: str, ask: schemas.Ask, caller: Caller) -> dict[str, Any]:
    return task_of(do, name, caller, ask.model_dump(exclude_none=True))


def task_of(do: str, dataset: str, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
    """Make a worker's task.

    Args:
        do: "plan" or "release".
        dataset: The data set's name.
        caller: The caller.
        body: The question, the spend and the limits.
    """
    holders = () if caller.role == "curator" else caller.holders
    return {"do": do, "dataset": dataset, "holders": holders} | body


def owed(plan: Mapping[str, Any]) -> dict[str, Fraction]:
    """The price of a plan as a worker made it, by pool, exact. A stored answer costs nothing."""
    after = plan["after"] if plan["stored"] is None else plan["before"]
    return {pool: Fraction(before) - Fraction(after[pool]) for pool, before in plan["before"].items()}


def fits(plan: Mapping[str, Any], left: Mapping[str, Fraction]) -> bool:
    """Whether amounts can pay for a plan.

    Args:
        plan: The plan, as a worker made it.
        left: The amounts, by pool.
    """
    return all(amount <= left[pool] for pool, amount in owed(plan).items())


async def _state(job: Job, wait: float, running: Running) -> Response:
    job = await running.jobs.wait(job, min(wait, running.settings.patience))
    state, refused, answer = job.state, None, answer_text()
    if state == "done" and (refused := job.outcome.get("refused")) is None:
        answer = job.answer or await run_in_threadpool(_stored, running, job.outcome["done"], job.owner)
    text = json.dumps({"job": job.id, "state": state, "error": refused})[:-1] + ", " + answer[1:]
    return Response(text, 200 if state == "done" else 202, media_type="application/json")


def _stored(running: Running, done: dict[str, Any], reader: str) -> str:
    stored = running.answer(done["dataset"], done["position"], reader)
    return answer_text(done["position"], stored.document)
