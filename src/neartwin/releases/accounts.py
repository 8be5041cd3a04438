"""`nt.open_ledger(...)`: ledgers, accounts, plans against them, and releases; and the owner's own reading of a table before."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from typing import Never, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import neartwin.ledger as books
from neartwin.accounting.budgets import Budget, approx, pure
from neartwin.checks import in_floats, made_of
from neartwin.engines.engine_for import engine_for
from neartwin.errors import LedgerError, ParameterError, QueryError, SchemaError
from neartwin.exact import Number
from neartwin.interactive import Amounts, at_a_prompt, variable
from neartwin.planning.explain import Explained
from neartwin.planning.limit_choice import plan_within
from neartwin.planning.limits import Limits
from neartwin.planning.pilots import with_private_range
from neartwin.planning.plan import Plan
from neartwin.planning.planner import SeriesPlan, plan_series
from neartwin.planning.planner import plan as make_plan
from neartwin.planning.stage import Aggregates, Engine
from neartwin.queries.query import NOTHING, Query, Rows, TopK
from neartwin.queries.sql.joins import Others
from neartwin.queries.sql.parse import series_from_sql
from neartwin.releases.parquet import run_to_parquet
from neartwin.releases.postprocess import shaped
from neartwin.releases.preparation import PreparedRelease, prepare
from neartwin.releases.release import Release, WrittenRelease
from neartwin.releases.run import Payer, run, run_series, snapshot_of
from neartwin.releases.values import Preview, preview_of
from neartwin.statistics import count, count_distinct_units
from neartwin.statistics.base import ExpectedError
from neartwin.statistics.clipping import PrivateRange
from neartwin.tables.files import binary
from neartwin.tables.sources import ParquetFiles, places_of
from neartwin.tables.table import ROW, Table
from neartwin.tables.types import ColumnType

_MOST = 10**9  # groups of one unit
_LISTED = 1000


@at_a_prompt("proposal")
@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan, with the account that would pay for it. Nothing is spent until `account.release(proposal)`."""

    plan: Plan
    account: "Account"
    prepared: PreparedRelease = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prepared", prepare(self.plan))

    def __repr__(self) -> str:
        return f"<Proposal to {self.account.table.name!r} for {self.price}: preview() shows its errors, explain() its steps>"

    @property
    def price(self) -> Budget:
        """The price of a release."""
        return self.plan.price

    def explain(self) -> Explained:
        """The plan as a tree, with the reason for every number."""
        return self.plan.explain()

    def preview(self) -> Preview:
        """Price, expected errors, and the budget after."""
        return preview_of(self.account.book, self.plan.price, self.plan.expected_errors())


@dataclass(frozen=True, slots=True)
class SeriesProposal:
    """Several questions planned together, with the account that would pay. Nothing is spent until it is released."""

    plan: SeriesPlan
    account: "Account"

    @property
    def price(self) -> Budget:
        """The price of all questions together."""
        return self.plan.price

    def explain(self) -> Explained:
        """The plans as a tree, one under the other."""
        parts = tuple(part.explain() for part in self.plan.parts)
        line = f"series of {len(parts)} questions for one price: {self.plan.price}"
        return Explained(line, (*parts, Explained(f"how the spend is shared: {self.plan.why}")))

    def expected_errors(self) -> tuple[tuple[ExpectedError, ...], ...]:
        """The expected errors of each question's statistics, before anything is spent."""
        return tuple(part.expected_errors() for part in self.plan.parts)

    def preview(self) -> Preview:
        """Price, expected errors, and the budget after. An error is named by its question's number and its own name."""
        errors = [
            replace(error, name=f"{number}: {error.name}")
            for number, part in enumerate(self.expected_errors(), start=1)
            for error in part
        ]
        return preview_of(self.account.book, self.plan.price, errors)


@at_a_prompt("account")
@dataclass(frozen=True, slots=True)
class Account:
    """The budget of one population. It pays for every answer about its people.

    Attributes:
        book: The account in the ledger.
        table: The table.
    """

    book: books.Account
    table: Table

    def __repr__(self) -> str:
        return f"<Account of {self.table.name!r}, unit {self.table.unit_name}: .remaining has the budget left>"

    @property
    def rows(self) -> Rows:
        """The rows of the account's table. Each question starts here."""
        return Rows(self.table)

    @property
    def remaining(self) -> dict[str, Fraction]:
        """The budget left, by pool, exact."""
        return Amounts(self.book.remaining)

    @property
    def spent(self) -> dict[str, Fraction]:
        """The budget spent, by pool, exact."""
        return Amounts(self.book.spent)

    def plan(
        self,
        query: Query | TopK,
        *,
        spend: Budget,
        limits: Limits | None = None,
        importance: Mapping[str, Number] | None = None,
        group_size: int = 1,
    ) -> Proposal:
        """Decide every step and the price of a release. It reads no row and spends nothing.

        Args:
            query: The question.
            spend: Pure, approx, zcdp, rdp or gdp. Noise is native to it; the account prices it in its own currency.
            limits: The most that one unit may count for: `nt.limits(max_rows_per_group=2, max_groups=3)`.
            importance: Relative importance of each statistic's error, by name; 1 by default.
            group_size: The number of units that the spend protects together. The account is charged the implied cost of
                one.

        Returns:
            The plan, to be previewed and released.

        Raises:
            QueryError: A limit is missing; the message names it.
            ParameterError: A limit does not fit this question.
            PrivacyError: The spend cannot pay for something.
        """
        _require_question(query)
        _require_budget("spend", spend)
        _require_limits(limits)
        self._same_population(query.table)
        planned = make_plan(query, spend=spend, limits=limits, importance=importance, group_size=group_size)
        self.book.price(planned.price)  # refuses a currency that the account cannot pay
        return Proposal(planned, self)

    def plan_series(
        self,
        queries: Sequence[Query | TopK],
        *,
        spend: Budget,
        limits: Limits | None = None,
        importance: Mapping[str, Number] | None = None,
        group_size: int = 1,
    ) -> SeriesProposal:
        """Plan several questions under one price. Their shares minimise all errors together. Nothing is spent.

        Args:
            queries: The questions.
            spend: The price of all together, as for `plan`.
            limits: As for `plan`; each question takes those that fit it.
            importance: As for `plan`.
            group_size: Only 1 is possible for a series.

        Returns:
            The plans, to be previewed and released.

        Raises:
            QueryError: There is a `group_size` or a private range, which are for one question.
        """
        for query in queries:
            self._same_population(query.table)
        planned = plan_series(queries, spend=spend, limits=limits, importance=importance, group_size=group_size)
        self.book.price(planned.price)
        return SeriesProposal(planned, self)

    def stored(self, proposal: Proposal) -> int | None:
        """The place of the answer that a release would give at no cost, because the question was asked before.

        Args:
            proposal: The plan.

        Returns:
            The position of the record that paid for it, or None for a question that must be paid.

        Raises:
            SchemaError: The table is gone or has other columns.
        """
        plan = proposal.plan
        return self.book.answered(plan.digest, snapshot_of(self.book, proposal.prepared.tables))

    def release_series(
        self, series: SeriesProposal, *, engine: Engine | None = None, payers: Iterable[str] = (), key: str = ""
    ) -> tuple[Release, ...]:
        """Pay once, and answer every question.

        Args:
            series: The plans.
            engine: The engine, if not the default one of the source.
            payers: Holders whose allotments pay beside the account.
            key: An idempotency key. A request sent again under its key never pays twice.

        Returns:
            The releases, in the order of the questions.

        Raises:
            BudgetError: The price does not fit. Nothing is spent.
            ExecutionError: Something failed after the price was written. The budget stays spent.
        """
        table = series.plan.parts[0].stage.table
        self._same_population(table)
        payer = Payer(tuple(payers), key)
        return run_series(self.book, series.plan, engine=engine or engine_for(table.source), payer=payer)

    def release(
        self, proposal: Proposal, *, engine: Engine | None = None, payers: Iterable[str] = (), key: str = ""
    ) -> Release:
        """Pay, query the data, add noise, and return the release. A repeated question costs nothing.

        Args:
            proposal: The plan.
            engine: The engine, if not the default one of the source.
            payers: Holders whose allotments pay beside the account.
            key: An idempotency key. A request sent again under its key never pays twice.

        Returns:
            The release.

        Raises:
            BudgetError: The price does not fit. Nothing is spent.
            ExecutionError: Something failed after the price was written. The budget stays spent.
        """
        if not isinstance(proposal, Proposal):
            _refuse_unplanned(proposal)
        table = proposal.plan.stage.table
        self._same_population(table)
        payer = Payer(tuple(payers), key)
        release = run(self.book, proposal.prepared, engine=engine or engine_for(table.source), payer=payer)
        after = proposal.prepared.after
        return release if after == NOTHING else shaped(release, after)

    def sql(
        self,
        text: str,
        rows: Rows | None = None,
        *,
        spend: Budget,
        limits: Limits | None = None,
        importance: Mapping[str, Number] | None = None,
        group_size: int = 1,
        clip: PrivateRange | None = None,
        keys: object = None,
        tables: Others | None = None,
        dialect: str = "duckdb",
    ) -> Release:
        """Answer a SELECT about the account's table.

        Args:
            text: One statement. `nt.series_from_sql` and `plan_series` take several.
            rows: A fresher state of the table.
            spend: As for `plan`.
            limits: As for `plan`.
            importance: As for `plan`.
            group_size: As for `plan`.
            clip: `nt.private_range()` has clip bounds of all sums and means chosen privately.
            keys: As for `nt.from_sql`.
            tables: As for `nt.from_sql`.
            dialect: As for `nt.from_sql`.

        Returns:
            The release.

        Raises:
            QueryError: Something is not understood; the message says what to write instead.
            BudgetError: The price does not fit. Nothing is spent.
        """
        query, *more = series_from_sql(text, rows or self.rows, keys=keys, tables=tables, dialect=dialect)
        if more:
            line = "account.release_series(account.plan_series(nt.series_from_sql(text, rows), ...))"
            raise QueryError(f"sql() answers one statement, and here are {1 + len(more)}: write {line}")
        query = with_private_range(query, clip)
        return self.release(self.plan(query, spend=spend, limits=limits, importance=importance, group_size=group_size))

    def release_to_parquet(
        self, proposal: Proposal, place: str | PathLike[str], *, engine: Engine | None = None
    ) -> WrittenRelease:
        """Release to Parquet: for results larger than memory.

        Args:
            proposal: The plan.
            place: A new file; on Spark a new folder of any file system of the cluster. It appears once the ledger has
                its digest.
            engine: The engine, if not the default one of the source.

        Returns:
            The record of the written table.

        Raises:
            BudgetError: The price does not fit. Nothing is spent.
        """
        table = proposal.plan.stage.table
        self._same_population(table)
        return run_to_parquet(self.book, proposal.prepared, str(place), engine=engine or engine_for(table.source))

    def check(self, *, key: str | Sequence[str] = ()) -> tuple[str, ...]:
        """Read each value of the account's table once, for its owner, and remember a snapshot in which nothing is wrong.

        Until then, guarantees about data that stay where they are say that a value could have made the release fail. Joined
        rows are another snapshot: open the account on them to check it.

        Args:
            key: As for `nt.check`.

        Returns:
            As for `nt.check`: columns that cannot be read whole, and keys of several units.

        Raises:
            SchemaError: A column is missing, or the data changed during the check.

        >>> import neartwin as nt, pyarrow as pa, pyarrow.parquet as pq
        >>> place = getfixture("tmp_path") / "visits.parquet"
        >>> pq.write_table(pa.table({"who": [1, 2]}), place)
        >>> account = nt.open_ledger(getfixture("tmp_path") / "budget.db").open(nt.table(place, unit="who"), nt.pure(1))
        >>> account.check()
        ()
        """
        before = snapshot_of(self.book, [self.table])
        faults = check(self.rows, key=key)
        if snapshot_of(self.book, [self.table]) != before:
            raise SchemaError(f"the table {self.table.name!r} was written during the check; check it again")
        if not faults:
            self.book.checked(before)
        return faults

    def history(self) -> books.History:
        """Every record of this account, oldest first: openings, reservations, refusals, answers."""
        return books.History(self.book.history())

    def _same_population(self, table: Table) -> None:
        if table is not self.table and _population(table) != _population(self.table):
            own, other = (f"{one.name!r} (unit {one.unit_name}, {one.neighbours})" for one in (self.table, table))
            line = f"name={self.table.name!r} in nt.table" if table.name != self.table.name else "ledger.open(rows)"
            raise LedgerError(
                f"this account is of {own}, and the question is about {other}, in another place or of other people; if they "
                f"are the same people, tables have one name and are opened each; write {line}"
            )


@at_a_prompt("ledger")
class Ledger(AbstractContextManager["Ledger"]):
    """A durable book of budgets, one SQLite file by default. Use it as a context manager, or close it."""

    def __init__(self, where: str | PathLike[str]) -> None:
        """Opens the file, or makes it; a URL names a database server."""
        self._books = books.Book(where)

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(repr(account.name) for account in self._books.accounts()) or "no one yet: open(rows, budget)"
        return f"<Ledger with accounts of {names}>"

    def close(self) -> None:
        """Close the database."""
        self._books.close()

    @property
    def books(self) -> books.Book:
        """The records themselves: history, verification, caps."""
        return self._books

    def open(self, rows: Rows, target: Budget | None = None) -> Account:
        """The account of a table's population. The first call makes it with this budget.

        Args:
            rows: The rows of the table.
            target: The whole budget. None stands for the present terms of an account that is open already.

        Returns:
            The account.

        Raises:
            LedgerError: The population has an account with other terms, or the source belongs to another population. Or
                there is neither an account nor a budget.
        """
        line = f"write nt.table({variable(rows)}, unit='customer_id')"
        made_of(Rows, f"the rows of a table; {line}", rows=rows)
        if target is not None:
            _require_budget("target", target)
        return Account(self._books.open(_population(rows.table), target), rows.table)


def open_ledger(where: str | PathLike[str]) -> Ledger:
    """Open a ledger of budgets.

    Args:
        where: The path of its file, made if it is missing, or a database URL.

    Returns:
        The ledger.

    Raises:
        LedgerError: The ledger cannot be made, opened or read.

    >>> import neartwin as nt, pyarrow as pa
    >>> rows = nt.table(pa.table({"who": [1, 2]}), unit="who", name="visits")
    >>> with nt.open_ledger(getfixture("tmp_path") / "budget.db") as ledger:
    ...     ledger.open(rows, nt.pure(1)).remaining
    {'epsilon': 1}
    """
    return Ledger(where)


def _require_budget(name: str, budget: object) -> None:
    amount = budget if isinstance(budget, int | float) else str(budget).rpartition("=")[2]
    made_of(get_args(Budget), f"a budget of a kind of privacy; write nt.pure(epsilon={amount!r})", **{name: budget})
    for part, value in cast("Budget", budget).parts.items():
        if value and part != "delta":
            in_floats(**{part: value})


def _require_limits(limits: object) -> None:
    if limits is None or isinstance(limits, Limits):
        return
    named = limits.items() if isinstance(limits, Mapping) else [("rows", limits)]
    line = ", ".join(f"{name}={value!r}" for name, value in named)
    made_of(Limits, f"limits by name; write limits=nt.limits({line})", limits=limits)


def _require_question(query: object) -> None:
    if isinstance(query, Query | TopK):
        return
    line = f"nt.from_sql({query!r}, rows)" if isinstance(query, str) else f"{variable(query)}.agg(orders=nt.count())"
    made_of((Query, TopK), f"a question that asks a statistic; write {line}", query=query)


def _refuse_unplanned(given: object) -> Never:
    line = f"account.release(account.plan({variable(given)}, spend=nt.pure(epsilon='0.5')))"
    if isinstance(given, str):
        line = f"account.sql({given!r}, spend=nt.pure(epsilon='0.5'))"
    raise ParameterError("proposal", given, "must be a plan with a price", remedy=f"write {line}")


def _population(table: Table) -> books.Population:
    source, *parts = places_of(table.source) or ("",)
    return books.Population(
        name=table.name, unit=table.unit_name, relation=table.neighbours.value, source=source, parts=tuple(parts)
    )


def check(rows: Rows, *, key: str | Sequence[str] = ()) -> tuple[str, ...]:
    """Read each value of a table once, on its own engine, as questions do.

    A value that cannot be read would make releases fail. False statistics of a Parquet file hide rows from conditions. If a
    key has several units, one alone owns its rows in `nt.owned_by`.

    Args:
        rows: The rows of a table.
        key: Columns whose values must belong to one unit each. A key with NULL belongs to nobody.

    Returns:
        The columns that cannot be read whole, with the engine's reason, columns with false statistics, and the first 1,000
        keys of several units.

    Raises:
        SchemaError: A column is missing.

    >>> import neartwin as nt, pyarrow as pa
    >>> orders = nt.table(pa.table({"customer": [1, 2, 3], "order": [7, 8, 8]}), unit="customer", name="orders")
    >>> nt.check(orders), nt.check(orders, key="order")
    ((), ('key (8,) belongs to 2 units',))
    """
    reasons = dict[str, list[str]]()
    each_row = Rows(replace(rows.table, unit=ROW, period=None))
    for name, kind in rows.table.schema.items():
        try:
            if kind is not ColumnType.OTHER:
                _answer(each_row.agg(n=count(name)), Limits(max_rows_per_group=1))
        except Exception as fault:  # noqa: BLE001 - of any engine
            reasons.setdefault(str(fault).strip().partition("\n")[0] or type(fault).__name__, []).append(name)
    faults = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    if isinstance(rows.table.source, ParquetFiles):
        faults += [line for path in rows.table.source.paths for line in _false_statistics(path)]
    columns = [key] if isinstance(key, str) else list(key)
    if columns and not faults:
        query = Rows(rows.table).group_by(*columns).agg(units=count_distinct_units())
        found = _answer(query, Limits(max_groups=_MOST))
        units = found.values["units"]
        keys = ((found.keys[place], int(units[place])) for place in np.flatnonzero(units > 1)[:_LISTED].tolist())
        faults += [f"key {values} belongs to {number} units" for values, number in keys if None not in values]
    return tuple(faults)


def _false_statistics(path: str) -> Iterator[str]:
    """Yield the columns of a Parquet file whose values its statistics deny. Engines skip rows by these."""
    with binary(path) as file:
        parquet = pq.ParquetFile(file)
        for group in range(parquet.num_row_groups):
            for place in range(parquet.metadata.num_columns):
                chunk = parquet.metadata.row_group(group).column(place)
                name, said = chunk.path_in_schema, chunk.statistics
                if said is None or name not in parquet.schema_arrow.names:  # a part of a list
                    continue
                with contextlib.suppress(Exception):  # of a value that is named above, or a type without an order
                    values = parquet.read_row_group(group, columns=[name]).column(0)
                    values = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
                    ends = pc.min_max(values).as_py() if said.has_min_max else {"min": None, "max": None}
                    low, high = ends["min"], ends["max"]
                    outside = low is not None and (low < said.min or high > said.max)
                    if outside or (said.has_null_count and said.null_count != values.null_count):
                        yield f"{name}: statistics in {path} deny values in rows of group {group}, so conditions miss these"


def _answer(query: Query, limits: Limits) -> Aggregates:
    spend = approx(1, "1e-6") if limits.max_groups else pure(1)
    stage = plan_within(query, spend=spend, limits=limits, importance=None).stage
    return engine_for(stage.table.source).aggregate(stage, salt=0)
