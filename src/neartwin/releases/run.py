"""The steps of a release: reserve, ask, add noise, settle. This is the one place where ledger, engine and noise meet.

A series has one reservation, every question's stage and noise, one settlement; all answers or none.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from neartwin.engines.base import SharesRows
from neartwin.errors import ExecutionError, LedgerError, QueryError, SchemaError
from neartwin.ledger import Account, Stored, Ticket
from neartwin.ledger.account import DOCUMENT_BYTES
from neartwin.noise import SYSTEM
from neartwin.planning.allocation import CONFIDENCE
from neartwin.planning.plan import Choice
from neartwin.planning.planner import SeriesPlan
from neartwin.planning.stage import Engine, RowCounts
from neartwin.releases.postprocess import shaped
from neartwin.releases.preparation import Description, PreparedRelease, prepare
from neartwin.releases.release import SERIES_FORMAT, Release, WrittenRelease, parts_in, release_in
from neartwin.releases.values import Provenance, Statistic
from neartwin.statistics.base import Estimate
from neartwin.tables.joins import own_columns
from neartwin.tables.postgres import PostgresTable
from neartwin.tables.sources import LocalSource, Source, places_of, snapshot_name
from neartwin.tables.table import Join, JoinKind, Table
from neartwin.tables.types import ColumnType

MOST_NUMBERS = DOCUMENT_BYTES // 16  # a value in JSON takes about 10 bytes, and a comma


def state_of(table: Table, key: bytes) -> str:
    """The state of the data that would be read now: the table's snapshot, and of joined tables that of all of them.

    Args:
        table: The table.
        key: The secret of the ledger that the state is written to.

    Returns:
        The name of the snapshot.

    Raises:
        SchemaError: Files are gone, or a server does not answer. Or a column is gone or has another type than at
            opening; the plan then does not fit the data.
    """
    own = {name: table.schema[name] for name in own_columns(table)}
    parts: list[tuple[Table | Join, Mapping[str, ColumnType]]] = [(table, own)]
    states = []
    for part, schema in [*parts, *((join, join.schema) for join in table.joins)]:
        if part.per_unit is not None:
            states.append(state_of(part.per_unit.table, key))
        else:
            _require_same(part.source, schema, part.declared)
            states.append(snapshot_name(part.source, key))
    return states[0] if len(states) == 1 else hashlib.sha256(repr(states).encode()).hexdigest()


def _require_same(source: Source, schema: Mapping[str, ColumnType], declared: frozenset[str]) -> None:
    if not isinstance(source, LocalSource | PostgresTable):
        return
    now = source.schema()
    for name, kind in schema.items():
        if name not in now or (now[name] != kind and name not in declared):
            is_now = now.get(name, "gone")
            raise SchemaError(
                f"column {name!r} is {is_now} now, and was {kind} when the table was opened; open it and plan again"
            )


@dataclass(frozen=True, slots=True)
class Payer:
    """The payers beside the account.

    Attributes:
        names: The holders whose allotments pay.
        key: The idempotency key of a request, which never pays twice, or "".
    """

    names: tuple[str, ...] = ()
    key: str = ""


ACCOUNT_ALONE = Payer()


def run(account: Account, prepared: PreparedRelease, *, engine: Engine, payer: Payer = ACCOUNT_ALONE) -> Release:
    """Pay for a release, make it, and return it. A repeated question gets its stored answer at no cost.

    The price is durable before a row is read, and the release is durable before it is returned.

    Args:
        account: The account that pays.
        prepared: The plan with its texts.
        engine: The engine.
        payer: The payers beside the account, and an idempotency key.

    Returns:
        The release.

    Raises:
        BudgetError: The price does not fit. Nothing was read or spent.
        LedgerError: The ledger refuses. Nothing was read or spent.
        QueryError: The data changed since the plan. Nothing was read or spent.
        ExecutionError: Something failed later. Every cause gives the same error, because whether a query fails is data.
    """
    require_document(prepared)
    ticket = reserve(account, [prepared], prepared.digest, payer)
    if isinstance(ticket, Stored):
        return _stored(ticket)
    (release,) = answer(account, ticket, [prepared], lambda made: made[0].to_json().encode(), engine)
    return release


def require_document(prepared: PreparedRelease) -> None:
    """Refuse more public groups than a ledger's document holds. The release would fail after it was paid.

    Args:
        prepared: The plan with its texts.

    Raises:
        QueryError: The release is too large.
    """
    if prepared.numbers > MOST_NUMBERS:
        raise QueryError(
            f"a release in the ledger holds at most {MOST_NUMBERS} keys, values and ends of bars, and this one would have "
            f"{prepared.numbers}: write it with release_to_parquet(proposal, place), or ask about fewer groups"
        )


def reserve(account: Account, parts: Sequence[PreparedRelease], digest: str, payer: Payer) -> Ticket | Stored:
    """Check everything that can be checked, then pay for some releases together.

    Args:
        account: The account. It pays the price of the first part, which is that of all together.
        parts: The releases.
        digest: The digest of the whole question.
        payer: The payers beside the account, and an idempotency key.

    Returns:
        A ticket, or the stored answer.
    """
    tables = [table for part in parts for table in part.tables]
    for name, join in [(table.name, join) for table in tables for join in table.all_joins()]:
        places = places_of(join.source)
        if join.kind is JoinKind.PUBLIC:
            account.require_public(places)
        elif join.owner is not None:
            account.own(places or (f"{name}: {join.name}",), str(join.owner))
        else:
            account.claim(*places)
    snapshot = snapshot_of(account, tables)
    asked = "; ".join(_in_words(part.description.method["question"]) for part in parts)[:4000]
    words = "".join(letter if letter.isprintable() else " " for letter in asked)
    return account.reserve(digest, snapshot, parts[0].plan.price, words, payers=payer.names, key=payer.key)


def snapshot_of(account: Account, tables: Sequence[Table]) -> str:
    """The name of the data that would be read now. No row is read.

    Args:
        account: The account, whose ledger's secret is in the name.
        tables: The tables of a question, or of a series.
    """
    key = account.database.secret
    states = list(dict.fromkeys(state_of(table, key) for table in tables))
    return states[0] if len(states) == 1 else hashlib.sha256(repr(states).encode()).hexdigest()


def answer(
    account: Account,
    ticket: Ticket,
    parts: Sequence[PreparedRelease],
    document_of: Callable[[Sequence[Release]], bytes],
    engine: Engine,
) -> tuple[Release, ...]:
    """Ask, add noise and settle the releases of a ticket.

    Args:
        account: The account that paid.
        ticket: The reservation.
        parts: The releases.
        document_of: The function that makes the stored document of the releases.
        engine: The engine.

    Returns:
        The releases.

    Raises:
        ExecutionError: Anything failed. The error does not have its cause, which may be data.
    """
    try:
        releases = tuple(_released(account, ticket, part, engine) for part in parts)
        document = document_of(releases)
    except Exception:  # noqa: BLE001 - every failure after reserve is one uniform error
        document = None
    if document is None:  # raised here, outside any handler, so that the cause is not chained to it
        _recorded(lambda: account.fail(ticket))
        raise ExecutionError
    if not _recorded(lambda: account.settle(ticket, document)):
        raise ExecutionError
    return releases


def _recorded(record: Callable[[], object]) -> bool:
    """Whether the ledger accepted a record. The reason for a refusal may depend on the answer, for instance on its size."""
    try:
        record()
    except LedgerError:
        return False
    return True


def _stored(stored: Stored) -> Release:
    found = release_in(stored.document)
    if isinstance(found, WrittenRelease):
        raise LedgerError(
            f"this question was answered by a table that was written to {found.place!r}; read it there: it costs nothing"
        )
    return found


def _released(account: Account, ticket: Ticket, prepared: PreparedRelease, engine: Engine) -> Release:
    """Ask and add noise. Any exception may be raised; the caller reports a uniform one."""
    asked, first = prepared.plan, tuple[Choice, ...]()
    if len(prepared.tables) > 1:  # their answers say which rows are read
        choice = asked.first_stages[0].choose(asked, engine, SYSTEM)
        asked, first = choice.plan, (choice, *choice.later)
    if asked.stage.keys == ((),):
        engine = RowCounts.of(asked.all_stages, engine)
    with engine.reading(asked.all_stages) if isinstance(engine, SharesRows) else nullcontext(engine) as rows:
        plan, choices = asked.resolve(rows, SYSTEM)
        measured, loss = plan.with_loss(rows, SYSTEM)
        answer = measured.answer(rows, SYSTEM)
    description = prepared.describe(plan, (*first, *choices)) if first or choices else prepared.description
    columns = zip(answer.columns, description.columns, strict=True)
    return Release(
        group_columns=prepared.group_columns,
        keys=answer.keys,
        statistics=tuple(_statistic(one, what) for one, (_, what) in columns),
        confidence=CONFIDENCE,
        guarantee=replace(prepared.guarantee, unchecked=prepared.guarantee.unchecked and not ticket.checked),
        notes=(*description.notes, *plan.notes_of_values(answer.columns), *prepared.more_notes),
        provenance=provenance_of(account, ticket, prepared, description),
        loss=loss,
    )


def _statistic(column: Estimate, what: str) -> Statistic:
    values, lower, upper = tuple(column.values), tuple(column.lower), tuple(column.upper)
    low, high = map(tuple, column.noise or (lower, upper))
    noise = None if (low, high) == (lower, upper) else (low, high)
    return Statistic(
        name=column.name, what=what, values=values, lower=lower, upper=upper, kind=column.kind, noise=noise
    )


def provenance_of(account: Account, ticket: Ticket, prepared: PreparedRelease, description: Description) -> Provenance:
    """The origin of a release: the description of its plan, and its place in the ledger.

    Args:
        account: The account that paid.
        ticket: The reservation.
        prepared: The plan with its texts.
        description: The description of the plan that was run.

    Returns:
        The provenance.
    """
    after = {pool: left - ticket.price.get(pool, Fraction(0)) for pool, left in ticket.before.items()}
    return Provenance(
        population=prepared.plan.stage.table.name,
        snapshot=ticket.snapshot,
        plan=prepared.digest,
        explanation=description.explanation,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=prepared.version,
        account=account.name,
        position=ticket.position,
        budget_before=_as_text(ticket.before),
        budget_after=_as_text(after),
        cap=_as_text(ticket.caps),
        method=dict(description.method),
    )


def _as_text(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {pool: str(amount) for pool, amount in amounts.items()}


def prepare_series(series: SeriesPlan) -> tuple[PreparedRelease, ...]:
    """Make everything that follows from the plans of a series. Each release has the promise of all together."""
    note = f"One of {len(series.parts)} answers that were paid for together: the guarantee is of all of them."
    return tuple(prepare(replace(part, price=series.price), note) for part in series.parts)


def run_series(
    account: Account, series: SeriesPlan, *, engine: Engine, payer: Payer = ACCOUNT_ALONE
) -> tuple[Release, ...]:
    """Pay once, ask every question, and return all answers. A repeated series gets its stored answers at no cost.

    Args:
        account: The account that pays.
        series: The plans.
        engine: The engine.
        payer: The payers beside the account, and an idempotency key.

    Returns:
        The releases, in the order of the questions.

    Raises:
        BudgetError: The price does not fit. Nothing was read or spent.
        LedgerError: The ledger refuses. Nothing was read or spent.
        QueryError: The data changed since the plan. Nothing was read or spent.
        ExecutionError: Something failed later. The budget stays spent.
    """
    parts = prepare_series(series)
    for part in parts:
        require_document(part)
    ticket = reserve(account, parts, series.digest, payer)
    if isinstance(ticket, Stored):
        releases = tuple(map(Release.from_dict, parts_in(ticket.document)))
    else:
        releases = answer(account, ticket, parts, _document, engine)
    return tuple(shaped(release, part.after) for release, part in zip(releases, series.parts, strict=True))


def _document(releases: Sequence[Release]) -> bytes:
    return f'{{"format": "{SERIES_FORMAT}", "releases": [{", ".join(one.to_json() for one in releases)}]}}'.encode()


def _in_words(question: Mapping[str, Any]) -> str:
    """A question of a method in words."""
    text = ", ".join(question.get("statistics", {}).values()) or "most common values"
    groups, conditions = question.get("group_columns", ()), question.get("conditions", ())
    text += f" by {', '.join(groups)}" if groups else ""
    return text + (f" where {' and '.join(conditions)}" if conditions else "")
