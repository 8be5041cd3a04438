"""`nt.open_ledger(...)`: budgets for tables. Opens accounts, plans against them, and releases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from types import TracebackType
from typing import Any, Self

import neartwin.ledger as books
from neartwin.accounting.budgets import Budget
from neartwin.engines.engine_for import engine_for
from neartwin.errors import LedgerError
from neartwin.exact import Number
from neartwin.planning.explain import Explained
from neartwin.planning.limits import Limits
from neartwin.planning.pilot_ranges import with_private_range
from neartwin.planning.plan import Plan
from neartwin.planning.planner import plan as make_plan
from neartwin.planning.series import SeriesPlan, plan_series
from neartwin.planning.stage import Engine
from neartwin.queries.query import NOTHING, Query, Rows, TopK
from neartwin.queries.sql.joins import Others
from neartwin.queries.sql.parse import explained_sql
from neartwin.queries.sql.series import series_from_sql
from neartwin.releases.documents import WrittenRelease
from neartwin.releases.parquet import run_to_parquet
from neartwin.releases.postprocess import shaped
from neartwin.releases.preparation import PreparedRelease, prepare
from neartwin.releases.preview import Preview, preview_of
from neartwin.releases.rehearsal import StandInPreview, preview_on
from neartwin.releases.release import Release
from neartwin.releases.run import Payer, run
from neartwin.releases.series import run_series
from neartwin.statistics.base import ExpectedError
from neartwin.statistics.clipping import PrivateRange
from neartwin.tables.table import Table


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan beside the account that would pay for it. Nothing is spent until `account.release(proposal)`."""

    plan: Plan
    account: "Account"
    prepared: PreparedRelease = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prepared", prepare(self.plan))

    def __repr__(self) -> str:
        return f"<Proposal to {self.account.table.name!r} for {self.price}: preview() shows its errors, explain() its steps>"

    @property
    def price(self) -> Budget:
        """What a release costs."""
        return self.plan.price

    def explain(self) -> Explained:
        """The plan as a tree in which every number says why."""
        return self.plan.explain()

    def preview(self) -> Preview:
        """Cost and expected error, and the budget after."""
        return preview_of(self.account.book, self.plan.price, self.plan.expected_errors())

    def preview_on(self, standin: Any, *, runs: int = 3) -> StandInPreview:
        """Errors on public or synthetic rows of the same columns, bounding's loss included; no private row is read.

        standin: whatever `nt.table` takes, or a table that it opened. Nothing is spent: see `neartwin.releases.rehearsal`.
        """
        return preview_on(self.plan, standin, runs=runs)


@dataclass(frozen=True, slots=True)
class SeriesProposal:
    """Several questions planned together, beside the account that would pay. Nothing is spent until it is released."""

    plan: SeriesPlan
    account: "Account"

    @property
    def price(self) -> Budget:
        """What all of them cost together."""
        return self.plan.price

    def explain(self) -> Explained:
        """The plans as a tree, one under the other."""
        parts = tuple(part.explain() for part in self.plan.parts)
        line = f"series of {len(parts)} questions for one price: {self.plan.price}"
        return Explained(line, (*parts, Explained(f"how the spend is shared: {self.plan.why}")))

    def expected_errors(self) -> tuple[tuple[ExpectedError, ...], ...]:
        """The expected errors of each question's statistics, known before anything is spent."""
        return tuple(part.expected_errors() for part in self.plan.parts)

    def preview(self) -> Preview:
        """Cost, the budget after, and the expected errors, each named by its question's number and its own name."""
        errors = [
            replace(error, name=f"{number}: {error.name}")
            for number, part in enumerate(self.expected_errors(), start=1)
            for error in part
        ]
        return preview_of(self.account.book, self.plan.price, errors)


@dataclass(frozen=True, slots=True)
class Account:
    """The budget of one population. Every answer about its people is paid for here."""

    book: books.Account
    table: Table

    def __repr__(self) -> str:
        return f"<Account of {self.table.name!r}, unit {self.table.unit_name}: .remaining has the budget left>"

    @property
    def rows(self) -> Rows:
        """The rows of the account's table, where each question starts."""
        return Rows(self.table)

    @property
    def remaining(self) -> dict[str, Fraction]:
        """What is left, by pool, exact."""
        return self.book.remaining

    @property
    def spent(self) -> dict[str, Fraction]:
        """What was spent, by pool, exact."""
        return self.book.spent

    def plan(
        self,
        query: Query | TopK,
        *,
        spend: Budget,
        limits: Limits | None = None,
        importance: Mapping[str, Number] | None = None,
        group_size: int = 1,
    ) -> Proposal:
        """Decide what a release would do and cost. Reads no row and spends nothing.

        Args:
            query: The question.
            spend: Pure, approx, zcdp, rdp or gdp. Noise is native to it; the account prices it in its own currency.
            limits: How much one unit may count for: `nt.limits(max_rows_per_group=2, max_groups=3)`.
            importance: How much the error of each statistic matters, by name; 1 by default.
            group_size: How many units changed together are promised the spend. The account is charged what that leaves
                for one.

        Raises:
            QueryError: for a limit that is missing; the message says which.
            ParameterError: for a limit that makes no sense for this question.
            PrivacyError: for what the spend cannot pay.
        """
        self._same_population(query.table)
        found = make_plan(query, spend=spend, limits=limits, importance=importance, group_size=group_size)
        self.book.price(found.price)  # an account that cannot pay in this currency says so now
        return Proposal(found, self)

    def plan_series(
        self,
        queries: Sequence[Query | TopK],
        *,
        spend: Budget,
        limits: Limits | None = None,
        importance: Mapping[str, Number] | None = None,
        group_size: int = 1,
    ) -> SeriesProposal:
        """Plan several questions under one price, whose shares minimise all their errors together. Spends nothing.

        Arguments as of `plan`; each question takes those limits that it can have.

        Raises:
            QueryError: for a `group_size` and for privately chosen clip bounds, which are for one question.
        """
        for query in queries:
            self._same_population(query.table)
        found = plan_series(queries, spend=spend, limits=limits, importance=importance, group_size=group_size)
        self.book.price(found.price)
        return SeriesProposal(found, self)

    def release_series(
        self, series: SeriesProposal, *, engine: Engine | None = None, payers: Iterable[str] = (), key: str = ""
    ) -> tuple[Release, ...]:
        """Pay once, ask every question, and hand out all answers, in the order of the questions."""
        table = series.plan.parts[0].stage.table
        self._same_population(table)
        payer = Payer(tuple(payers), key)
        return run_series(self.book, series.plan, engine=engine or engine_for(table.source), payer=payer)

    def release(
        self, proposal: Proposal, *, engine: Engine | None = None, payers: Iterable[str] = (), key: str = ""
    ) -> Release:
        """Pay, ask the data, add noise, and hand out the release; the same question again costs nothing.

        payers: whose allotments pay beside the account. key: a request sent again under its key never pays twice.
        """
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
    ) -> Release | tuple[Release, ...] | Explained:
        """Answer a SELECT about the account's table, or show the plan of an EXPLAIN SELECT, which costs nothing.

        Several statements with a semicolon between them are one series: they share one price, and have a release each.
        EXPLAIN before the first explains them all.

        Args:
            text: The statements.
            rows: A fresher state of the table.
            spend: As for `plan`, and so are the next three.
            limits: Of each unit.
            importance: Of each statistic's error.
            group_size: Units promised the spend together.
            clip: `nt.private_range()` has clip bounds of all sums and means chosen privately.
            keys: As for `nt.from_sql`.
            tables: As for `nt.from_sql`.
        """
        inner = explained_sql(text)
        asked = series_from_sql(inner or text, rows or self.rows, keys=keys, tables=tables)
        queries = [with_private_range(one, clip) for one in asked]
        if len(queries) > 1:
            series = self.plan_series(queries, spend=spend, limits=limits, importance=importance, group_size=group_size)
            return self.release_series(series) if inner is None else series.explain()
        proposal = self.plan(queries[0], spend=spend, limits=limits, importance=importance, group_size=group_size)
        return self.release(proposal) if inner is None else proposal.explain()

    def release_to_parquet(
        self, proposal: Proposal, place: str | PathLike[str], *, engine: Engine | None = None
    ) -> WrittenRelease:
        """The same for results that no memory holds: a Parquet file, or from Spark a folder of them, and its record.

        place: must not exist; on Spark it may be of any file system of the cluster. It appears when the ledger has it.
        """
        table = proposal.plan.stage.table
        self._same_population(table)
        return run_to_parquet(self.book, proposal.prepared, str(place), engine=engine or engine_for(table.source))

    def history(self) -> tuple[books.Entry, ...]:
        """Every record of this account, oldest first: openings, reservations, refusals, answers."""
        return self.book.history()

    def _same_population(self, table: Table) -> None:
        if _population(table) != _population(self.table):
            raise LedgerError(
                f"this account belongs to {_population(self.table)}, and the question is about {_population(table)}; "
                "open that table's own account"
            )


class Ledger:
    """A durable book of budgets, one SQLite file by default. Use it as a context manager, or close it."""

    def __init__(self, where: str | PathLike[str]) -> None:
        """Opens the file, or makes it; a URL names a database server."""
        self._books = books.Book(where)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self._books.close()

    @property
    def books(self) -> books.Book:
        """The records themselves: history, verification, caps."""
        return self._books

    def open(self, rows: Rows, target: Budget) -> Account:
        """The account of a table's population, made at the first call with this budget.

        One population has one account: other terms, or another population for the same source, raise `LedgerError`.
        """
        return Account(self._books.open(_population(rows.table), target), rows.table)


def open_ledger(where: str | PathLike[str]) -> Ledger:
    """Open a ledger of budgets: a path to its file, made if it is missing, or a database URL."""
    return Ledger(where)


def _population(table: Table) -> books.Population:
    return books.Population(
        name=table.name, unit=table.unit_name, relation=table.neighbours.value, source=table.source.location()
    )
