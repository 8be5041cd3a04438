"""`nt.open_ledger(...)`: budgets for tables. Opens accounts, plans against them, and releases.

What one question does not need (SQL, series, previews, files) is imported where it is asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import neartwin.ledger as books
from neartwin.accounting.budgets import Budget
from neartwin.engines.base import Engine
from neartwin.engines.engine_for import engine_for
from neartwin.errors import LedgerError, QueryError
from neartwin.exact import Number
from neartwin.planning.limits import PrivateLimit, PrivateRange
from neartwin.planning.plan import Plan
from neartwin.planning.planner import plan as make_plan
from neartwin.queries.query import Query, Rows, TopK
from neartwin.releases.postprocess import shaped
from neartwin.releases.release import Release
from neartwin.releases.run import Payer, run
from neartwin.tables.table import Table

if TYPE_CHECKING:
    from neartwin.planning.explain import Explained
    from neartwin.queries.sql.joins import Others
    from neartwin.releases.documents import WrittenRelease
    from neartwin.releases.preview import Preview
    from neartwin.releases.rehearsal import StandInPreview
    from neartwin.releases.series import SeriesProposal


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan beside the account that would pay for it. Nothing is spent until `account.release(proposal)`."""

    plan: Plan
    account: "Account"

    def __repr__(self) -> str:
        return f"<Proposal to {self.account.table.name!r} for {self.price}: preview() tells its errors, explain() how it is done>"

    @property
    def price(self) -> Budget:
        """What a release costs."""
        return self.plan.price

    def explain(self) -> "Explained":
        """The plan as a tree in which every number says why."""
        from neartwin.planning.explain import explain

        return explain(self.plan)

    def preview(self) -> "Preview":
        """Cost and expected error, and the budget after."""
        from neartwin.planning.expected_errors import expected_errors
        from neartwin.releases.preview import preview_of

        return preview_of(self.account.book, self.plan.price, expected_errors(self.plan))

    def preview_on(self, standin: Any, *, runs: int = 3) -> "StandInPreview":
        """Errors on public or synthetic rows of the same columns, bounding's loss included; no private row is read.

        standin: whatever `nt.table` takes, or a table that it opened. Nothing is spent: see `neartwin.releases.rehearsal`.
        """
        from neartwin.releases.rehearsal import preview_on

        return preview_on(self.plan, standin, runs=runs)


@dataclass(frozen=True, slots=True)
class Account:
    """The budget of one population. Every answer about its people is paid for here."""

    book: books.Account
    table: Table

    def __repr__(self) -> str:
        return f"<Account of {self.table.name!r}, unit {self.table.unit_name}: .remaining tells what is left>"

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
        rows_per_group: int | PrivateLimit | None = None,
        groups_per_unit: int | PrivateLimit | None = None,
        rows_per_unit: int | None = None,
        norm_per_unit: Number | PrivateLimit | None = None,
        discovery_groups: int | None = None,
        weights: Mapping[str, Number] | None = None,
        units_together: int = 1,
        value_range: PrivateRange | None = None,
    ) -> Proposal:
        """Decide what a release would do and cost. Reads no row and spends nothing.

        rows_per_group, groups_per_unit: how much one unit counts; `nt.private_limit()` for bounds that the plan chooses
        privately.
        rows_per_unit: how much it counts in all groups together. norm_per_unit: instead, the length of its whole vector over
        groups and statistics, in rows, for normal noise; no row is dropped. discovery_groups: in how many of its groups a unit
        helps to discover unknown ones; by default in all.
        spend: pure, approx, zcdp, rdp or gdp; noise is native to it, and the account prices it in its own currency. weights: how
        much the error of each statistic matters beside the others, by name; 1 where it is not given. units_together: the spend is
        promised to so many units changed together, and the account is charged what that leaves for one. value_range:
        `nt.private_range()` for clip bounds of sums and means that the plan chooses privately.
        """
        self._same_population(query.table)
        limits: dict[str, Any] = {"rows_per_group": rows_per_group, "groups_per_unit": groups_per_unit}
        more: dict[str, Any] = {
            "rows_per_unit": rows_per_unit,
            "norm_per_unit": norm_per_unit,
            "discovery_groups": discovery_groups,
            "units_together": units_together,
            "value_range": value_range,
        }
        made = make_plan(query, spend=spend, weights=weights, **more, **limits)
        self.book.price(made.price)  # an account that cannot pay in this currency says so now
        return Proposal(made, self)

    def plan_series(
        self,
        queries: Sequence[Query | TopK],
        *,
        spend: Budget,
        rows_per_group: int | PrivateLimit | None = None,
        groups_per_unit: int | PrivateLimit | None = None,
        rows_per_unit: int | None = None,
        norm_per_unit: Number | PrivateLimit | None = None,
        discovery_groups: int | None = None,
        weights: Mapping[str, Number] | None = None,
        units_together: int = 1,
        value_range: PrivateRange | None = None,
    ) -> "SeriesProposal":
        """Plan several questions under one price, whose shares minimise all their errors together. Spends nothing.

        Arguments as of `plan`; each question takes those bounds that it can have. `QueryError` for units_together
        and value_range, which are for one question.
        """
        from neartwin.planning.series import plan_series
        from neartwin.releases.series import SeriesProposal

        if units_together != 1 or value_range is not None:
            raise QueryError("units_together and value_range are for one question; ask one at a time")
        for query in queries:
            self._same_population(query.table)
        limits: dict[str, Number | PrivateLimit | None] = {
            "rows_per_group": rows_per_group,
            "groups_per_unit": groups_per_unit,
            "rows_per_unit": rows_per_unit,
            "norm_per_unit": norm_per_unit,
            "discovery_groups": discovery_groups,
        }
        made = plan_series(queries, spend=spend, limits=limits, weights=weights)
        self.book.price(made.price)
        return SeriesProposal(made, self)

    def release_series(
        self, series: "SeriesProposal", *, engine: Engine | None = None, payers: Iterable[str] = (), key: str = ""
    ) -> tuple[Release, ...]:
        """Pay once, ask every question, and hand out all answers, in the order of the questions."""
        from neartwin.releases.series import run_series

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
        made = run(self.book, proposal.plan, engine=engine or engine_for(table.source), payer=payer)
        return made if isinstance(proposal.plan.query, TopK) else shaped(made, proposal.plan.query.after)

    def sql(
        self,
        text: str,
        rows: Rows | None = None,
        *,
        keys: object = None,
        tables: "Others | None" = None,
        **limits: Any,
    ) -> "Release | tuple[Release, ...] | Explained":
        """Answer a SELECT about the account's table, or show the plan of an EXPLAIN SELECT, which costs nothing.

        Several statements with a semicolon between them are one series: they share one price, and have a release each.
        EXPLAIN before the first explains them all. rows: a fresher state of the table. keys, tables: as for `nt.from_sql`.
        limits: spend= and what else `plan` takes.
        """
        from neartwin.queries.sql.parse import explained_sql
        from neartwin.queries.sql.series import series_from_sql

        inner = explained_sql(text)
        asked = series_from_sql(inner or text, rows or self.rows, keys=keys, tables=tables)
        if len(asked) > 1:
            series = self.plan_series(asked, **limits)
            return self.release_series(series) if inner is None else series.explain()
        proposal = self.plan(asked[0], **limits)
        return self.release(proposal) if inner is None else proposal.explain()

    def release_to_parquet(
        self, proposal: Proposal, place: str | PathLike[str], *, engine: Engine | None = None
    ) -> "WrittenRelease":
        """The same for results that no memory holds: a Parquet file, or from Spark a folder of them, and its record.

        place: must not exist; on Spark it may be of any file system of the cluster. It appears when the ledger has it.
        """
        from neartwin.releases.parquet import run_to_parquet

        plan = proposal.plan
        self._same_population(plan.stage.table)
        return run_to_parquet(self.book, plan, str(place), engine=engine or engine_for(plan.stage.table.source))

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
