"""A statistic: one class that knows its columns, measurements, estimate, bars and written form.

A new statistic is a subclass of `Statistic`, a function with `@constructor` that makes it, and a line in the face of this room.
Plans, releases, SQL and JSON ask the value, and name no class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import wraps
from math import ceil, inf, sqrt
from typing import Any, ClassVar, Self, TypeVar

from neartwin.error_bars.sums_means import TotalAndNumber
from neartwin.exact import WholeNumbers
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.statistics import sensitivity
from neartwin.statistics.clipping import PrivateRange
from neartwin.statistics.measures import Measure, Measurement, largest
from neartwin.statistics.sensitivity import Contribution
from neartwin.tables.grid import GridColumn, Moment
from neartwin.tables.ranges import Value, spelled
from neartwin.tables.table import Bounds, Table
from neartwin.tables.terms import Term
from neartwin.tables.types import ColumnType

GROUP_SIZES = (10, 100, 1_000, 10_000, 100_000)
RATIO = 1 / 16  # the bias of a ratio from a lost row, beside that of a count
OF_ALL_ROWS = 1 / 6  # that of a ratio over all rows, which has less noise than those of groups: bars then hold more
_CONTRIBUTION_BITS = 44  # of what one unit adds, in parts
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """The error of one statistic around its bounded value.

    Attributes:
        name: The released column.
        confidence: The confidence of the bar.
        half_width: The bar in the statistic's own unit; None where it depends on the size of the group.
        by_size: Upper bounds on the bar by number of values in the group, None where it is open. For quantiles they are
            shares of the ranks.
        says: The bar in words.
    """

    name: str
    confidence: float
    half_width: Fraction | None
    by_size: tuple[tuple[int, float | None], ...]
    says: str

    @classmethod
    def of_mean(
        cls, name: str, read: TotalAndNumber, step: Fraction, confidence: float, *, rounding: float = 0.0
    ) -> Self:
        """The bar around T' / N' for n values: t over N', with N' above n - b but for (1 - confidence) / 2.

        Args:
            name: The released column.
            read: The noise of total and number.
            step: The step of the values.
            confidence: The confidence of the bar.
            rounding: Half of a step that is coarser than that of the values, else 0.
        """
        reach, off = float(read.thresholds(confidence).reach.max()), float(read.half_width(None, (1 + confidence) / 2))
        span = float(step * (read.ends[1] - read.ends[0]))
        widths = (reach * float(step) / (n - off) + rounding if n > off else span for n in GROUP_SIZES)
        by_size = tuple((n, min(span, width)) for n, width in zip(GROUP_SIZES, widths, strict=True))
        says = "at most " + ", ".join(f"± {width:.3g} at n = {n:,}" for n, width in by_size)
        return cls(name=name, confidence=confidence, half_width=None, by_size=by_size, says=says)

    @classmethod
    def everywhere(cls, name: str, width: Fraction, confidence: float) -> Self:
        """The error of a statistic whose bar does not depend on the group.

        Args:
            name: The released column.
            width: The half-width of the bar.
            confidence: The confidence of the bar.
        """
        says = f"± {float(width):,.6g} in every group"
        return cls(name=name, confidence=confidence, half_width=width, by_size=(), says=says)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One released column.

    Attributes:
        name: The name of the column.
        values: The values, (groups,).
        lower: The lower ends of their bars, (groups,); None where nothing bounds a bar.
        upper: The upper ends of their bars, (groups,); None where nothing bounds a bar.
        kind: The type that values and ends stand for: see `neartwin.tables.types.of_code`.
        clipped: The groups where a value that this one comes from lies at a clip bound, which it does not show.
        noise: Lower and upper ends of bars around the statistic of what limits and clipping leave; None if none are apart.
    """

    name: str
    values: Sequence[float]
    lower: Sequence[float | None]
    upper: Sequence[float | None]
    kind: ColumnType = field(default=ColumnType.NUMBER, kw_only=True)
    clipped: int = field(default=0, kw_only=True)
    noise: tuple[Sequence[float | None], Sequence[float | None]] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class NoisyNumbers:
    """The noisy numbers of a release.

    Attributes:
        sums: (groups,) noisy whole numbers by measure, in parts of a step.
        trees: (groups, nodes) noisy counts for each level of a tree, by measure.
    """

    sums: Mapping[str, WholeNumbers]
    trees: Mapping[str, Sequence[WholeNumbers]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings in which a statistic is planned and estimated.

    Attributes:
        table: The table asked.
        statistics: All statistics of the question: some share sums.
        reach: The most that one unit contributes.
        parts: The most parts of a step in which rows of different weights are counted; 1 where all weigh 1.
        one_value: Whether each unit surely has exactly one row, in the one group.
        halves: The measures that rows are the sum of, for instance with a value of a column and without. None where rows
            are a measure of their own.
        measures: The planned measures by name; empty before the budget is split.
        trees: The trees of those measures that have one.
        lost: The most rows that limits took: (L1) of docs/proofs/lost-rows.md. 0 where it is not measured, infinite where
            many units may have lost any number.
        lost_groups: The most units that limits took from a group.
        lost_each: The most values that one unit has beyond its limit; infinite where lost values are not measured.
        changes: The most by which clipping changed the totals of each column, in largest values: (L5). Infinite where it may
            have changed those of many units; none where it is not measured.
        clipped: The largest of them, of the columns of one statistic.
    """

    table: Table
    statistics: tuple["Statistic", ...]
    reach: Contribution
    parts: int
    one_value: bool
    halves: tuple[str, ...] = ()
    measures: Mapping[str, Measure] = field(default_factory=dict)
    trees: Mapping[str, CountTree] = field(default_factory=dict)
    lost: float = 0
    lost_groups: int = 0
    lost_each: float = inf
    changes: Mapping[str, Fraction | float] = field(default_factory=dict)
    clipped: Fraction | float = Fraction(0)

    def of(self, statistic: "Statistic") -> Self:
        """The context of one statistic of the question, with what clipping changed of its columns."""
        found = [self.changes.get(c.name, self.clipped) for m in statistic.measurements(self, 1.0, 1.0) for c in m.grid]
        return replace(self, clipped=max(found, default=self.clipped))

    @property
    def rows(self) -> str:
        """The measure that counts rows.

        With one row of a unit in a group, rows are units, and share their noise.
        """
        alone = self.reach.rows_per_group == 1 and self.reach.rows_per_unit is None
        return "units" if alone and self.reach.norm is None else "rows"

    def number(self, column: GridColumn) -> str:
        """The measure that counts a column's values: all rows, if missing values are filled.

        Args:
            column: The column.

        Returns:
            The name of the measure.
        """
        return f"filled:{column.name}" if column.fill is None else self.rows

    def whole(self, name: str) -> tuple[str, ...]:
        """The measures whose sum is a count: itself, or the halves of all rows."""
        return self.halves if self.halves and name == self.rows else (name,)

    def halved(self, number: Measurement, rows: Measurement) -> Measurement:
        """The count of a column's values, with noise that serves the count of the other rows too.

        Together they are counts of all rows by bin.

        Args:
            number: The count of values.
            rows: The count of all rows, which is their sum.
        """
        others, grid = number.others or (opposite(number.name),), number.grid
        if number.rest is not None:
            others, grid = (*others, f"filled:{number.rest.name}"), (*grid, number.rest)
        if number.name.startswith("total:"):
            others = (*others, number.name.replace("total:", "empty:", 1))
        weight = number.weight * number.parts + sqrt(1 + len(others)) * rows.weight * rows.parts
        return self.in_bins(number.name, weight, *grid, others=others, row=number.row)

    def in_bins(
        self, name: str, weight: float, *grid: GridColumn, others: tuple[str, ...], row: int = 0
    ) -> Measurement:
        """A count of the rows in one of several bins, with noise that serves the other bins too: (W14), (W17).

        Args:
            name: The measure.
            weight: The worth of one row of its bar in the objective.
            grid: The columns whose values decide the bins.
            others: The measures of the other bins.
            row: The steps of one row that is shared between two bins; 0 if each is in one of them.
        """
        parts = self.parts_within(row or 1) * (row or 1)
        change = sensitivity.of_cells(self.table.neighbours, self.reach, levels=1, parts=parts)
        return Measurement(name, change, weight / parts, grid, parts=parts, others=others, row=row)

    def units(self, weight: float) -> Measurement:
        """A count of distinct units, of which each counts whole unless a norm bounds its groups.

        Args:
            weight: The worth of one unit of its bar in the objective.
        """
        parts = self.parts if self.reach.units_norm is not None else 1
        change = sensitivity.of_units(self.table.neighbours, self.reach, parts=parts)
        return Measurement("units", change, weight / parts, parts=parts)

    def counted(self, name: str, weight: float, *grid: GridColumn) -> Measurement:
        """A count of rows. All rows of a group are whole ones where only their number in a group is bounded.

        Args:
            name: The measure.
            weight: The worth of one row of its bar in the objective.
            grid: The columns whose values must be there for a row to count.
        """
        if name == "units":
            return self.units(weight)
        whole = name == "rows" and self.reach.rows_per_unit is None and self.reach.norm is None
        parts = 1 if whole else self.parts_within(1)
        change = sensitivity.of_count(self.table.neighbours, self.reach, parts=parts)
        return Measurement(name, change, weight / parts, grid, parts=parts)

    def summed(self, cell: GridColumn | Moment, weight: float, *grid: GridColumn, sure: bool) -> Measurement:
        """The total of a column or product.

        Args:
            cell: The column or product.
            weight: The worth of one step of its bar in the objective.
            grid: The columns that the total needs.
            sure: Whether every row has a value.
        """
        neighbours, low, high = self.table.neighbours, cell.low, cell.high
        parts = self.parts_within(largest(cell))
        if self.one_value and sure:
            change = sensitivity.of_sure_sum(neighbours, low=low, high=high)
        else:
            change = sensitivity.of_sum(neighbours, self.reach, low=low, high=high, parts=parts)
        return Measurement(total_of(cell), change, weight / parts, grid, cell, parts=parts)

    def by_cell(self, column: GridColumn, tree: CountTree, weight: float) -> Measurement:
        """The counts of a column's values by node of a tree.

        Args:
            column: The column on its grid.
            tree: The tree over its cells.
            weight: The worth of a node's bar in the objective, in rows.
        """
        parts = self.parts_within(tree.levels)
        change = sensitivity.of_cells(self.table.neighbours, self.reach, levels=tree.levels, parts=parts)
        return Measurement(cells_of(column), change, weight / parts, (column,), tree=tree, parts=parts)

    def parts_within(self, row: int) -> int:
        """Parts of a step of a measure to which a row adds so many steps at most.

        A large contribution needs fewer of them. It is 2^43 parts or more, beside which truncation by one is nothing. Its
        noise is still drawn exactly.
        """
        reach = self.reach
        rows = reach.norm or reach.rows_per_unit or reach.rows_per_group * reach.groups_per_unit
        return min(self.parts, 1 << max(0, _CONTRIBUTION_BITS - (ceil(rows) * row).bit_length()))


def opposite(name: str) -> str:
    """The count of all rows that a count of values leaves out."""
    return name.replace("filled:", "empty:", 1)


def total_of(cell: GridColumn | Moment) -> str:
    """The measure that is the total of a column or product."""
    return f"total:{cell.name}"


def cells_of(column: GridColumn) -> str:
    """The measure that counts a column's values by cell."""
    return f"cells:{column.name}"


class Statistic(ABC):
    """A statistic that can be asked. Frozen; making one reads no row.

    Attributes:
        verb: The name of its constructor, in Python and JSON.
        counts_units: Whether only distinct units count, so that a unit's rows need no bound.
        adds_rows: Whether it can add up a count of all rows from two.
        is_linear: Whether it adds up over groups, as marginals and workloads need.
        has_bar: Whether its bar is always finite.
        is_value: Whether its answer is a value of its column, or lies between values.
        moved_by_clips: Whether clipping may move it elsewhere than to the bound: no quantile is, for clips keep order.
        lost_row: The bias from a row that limits take, beside that of a count. A ratio is off by as much as these rows
            differ from the others. That is unknown. A sixteenth weighs error against bars that miss: see docs/truth.md.
        only_lowered: Whether limits can only make it less: a number of rows or units, or a sum of values from 0 on.
        counts_values: Whether it counts distinct values, of which limits take fewer than they take rows.
        holds_lost: Whether its bars hold the rows that limits took.
        explanation: A sentence that a reader of a plan must know of it.
        clip: How a first stage chooses the bounds of what is summed; None where they stay.
    """

    __slots__ = ()
    verb: ClassVar[str]
    counts_units: ClassVar[bool] = False
    adds_rows: ClassVar[bool] = False
    is_linear: ClassVar[bool] = False
    has_bar: ClassVar[bool] = True
    is_value: ClassVar[bool] = False
    moved_by_clips: ClassVar[bool] = True
    lost_row: ClassVar[float] = 1.0
    only_lowered: ClassVar[bool] = False
    counts_values: ClassVar[bool] = False
    holds_lost: ClassVar[bool] = False
    explanation: ClassVar[str] = ""
    clip: PrivateRange | None = None

    def __str__(self) -> str:
        return self.record

    @property
    def bins(self) -> tuple[str, ...]:
        """The bins in words; none for a statistic of whole groups."""
        return ()

    @property
    def operands(self) -> tuple[str, ...]:
        """Its columns and expressions."""
        values = (getattr(self, part.name) for part in fields(self))  # type: ignore[arg-type]
        return tuple(value for value in values if isinstance(value, str) and value)

    @property
    def record(self) -> str:
        """Its permanent word in digests. A class, verb or printed name may change; this word may not."""
        return f"{self.verb}({', '.join(self.operands)})"

    @abstractmethod
    def check(self, table: Table) -> None:
        """Refuse a table without the statistic's columns or bounds.

        Args:
            table: The table.

        Raises:
            QueryError: Bounds are missing, or an expression is not allowed.
            SchemaError: A column is missing, or has another type.
        """

    @abstractmethod
    def measurements(self, context: Context, weight: float, power: float) -> Iterator[Measurement]:
        """The noisy sums and counts that it needs.

        Args:
            context: The table, the limits and the other statistics.
            weight: The worth of its bar in the objective, in units of one row's largest contribution.
            power: The growth of a node's noise with the levels of a tree: 1 for Laplace, 1/2 for normal noise.
        """

    @abstractmethod
    def estimate(self, name: str, noisy: NoisyNumbers, context: Context, confidence: float) -> list[Estimate]:
        """The released columns.

        Args:
            name: The statistic's name in the question.
            noisy: All noisy numbers of the release.
            context: The plan's context, with measures.
            confidence: The least probability over the noise with which each bar alone holds.
        """

    @abstractmethod
    def expected(self, name: str, context: Context, confidence: float) -> list[ExpectedError]:
        """The expected error of each released column, from the laws of noise alone.

        Args:
            name: The statistic's name in the question.
            context: The plan's context, with measures.
            confidence: The confidence of each bar.
        """

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of the released columns.

        Args:
            name: The name of the statistic in the question.

        Returns:
            One name for each released value.
        """
        return (name,)

    def kind(self, table: Table) -> ColumnType:
        """The type of its values.

        Args:
            table: The table.
        """
        return ColumnType.NUMBER

    def released(self, name: str, table: Table) -> dict[str, ColumnType]:
        """The columns that HAVING and ORDER BY can name, and their types.

        Args:
            name: The name of the statistic in the question.
            table: The table.

        Returns:
            The types, by column.
        """
        return dict.fromkeys(self.labels(name), self.kind(table))

    def spelled(self, table: Table) -> "Statistic":
        """This statistic with its expressions written as SQL writes them.

        Args:
            table: The table.

        Returns:
            The statistic, equal for two spellings of one question.
        """
        written: dict[str, Any] = {}
        for part in fields(self):  # type: ignore[arg-type]
            match getattr(self, part.name):
                case str() as text if text:
                    written[part.name] = spelled(table, text)
                case (str(), *_) as texts:
                    written[part.name] = tuple(spelled(table, text) for text in texts)
        return replace(self, **written)  # type: ignore[type-var]

    def keywords(self) -> dict[str, Any]:
        """The arguments of its constructor, ready for JSON."""
        arguments: dict[str, Any] = {}
        for part in fields(self):  # type: ignore[arg-type]
            value = getattr(self, part.name) if part.compare else None
            if isinstance(value, Bounds):
                arguments |= {name: str(getattr(value, name)) for name in ("low", "high", "step")}
            elif value is not None:
                arguments[part.name] = _plain(value)
        return arguments

    def clip_bounds(self, table: Table) -> Mapping[str, Bounds]:
        """The bounds that values are clipped to.

        Args:
            table: The table.

        Returns:
            The bounds, by column.
        """
        return {}

    def main_measure(self, context: Context) -> str:
        """The measure whose noise is most of its error.

        Args:
            context: The context of the plan.

        Returns:
            The name of the measure.
        """
        return max(context.measures, key=lambda name: name != "units")

    def noise_factor(self, context: Context) -> float:
        """The noise of its answer, in those of one number of the main measure. A row is lost in one bin.

        Args:
            context: The context of the plan, with measures.
        """
        return len(self.bins) or 1

    def summed_value(self, table: Table) -> Value | None:
        """The value that a sum or mean clips and totals, whose bounds a first stage may choose.

        Args:
            table: The table.

        Returns:
            The value; None for other statistics.
        """
        return None

    def within(self, bounds: Bounds) -> "Statistic":
        """This statistic with its summed value within other bounds.

        Args:
            bounds: The bounds.

        Returns:
            The statistic.
        """
        return self

    def total_column(self, context: Context) -> GridColumn | None:
        """The column whose total a sum or mean is computed from.

        Args:
            context: The context of the plan.

        Returns:
            The column; None for other statistics.
        """
        return None

    def averages(self, table: Table, value: Value, fill: Fraction | None) -> bool:
        """Whether it is the mean of this value, so that a sum of the value uses the centred total too.

        Args:
            table: The table.
            value: The summand.
            fill: The value for NULL and NaN, or None.

        Returns:
            True or False.
        """
        return False

    def shared_column(self, table: Table, grid: object) -> GridColumn | None:
        """The column of this statistic's sums on a grid; a mean of one column takes it instead of its own.

        Args:
            table: The table.
            grid: The column with its bounds, step and fill, as a tuple.

        Returns:
            The column; None if no sum is on the grid.
        """
        return None


class _Known(dict[str, tuple[Table, Any]]):
    """Findings, which stay where they were found: a worker that gets the statistic has no table."""

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


@dataclass(frozen=True, slots=True)
class OfBoundedValues(Statistic):
    """A statistic of values that are clipped to public bounds.

    Attributes:
        conditions: Conditions that all rows meet. Their comparisons with numbers bound values, too.
        known: The last finding of each method, with its table.
    """

    conditions: tuple[Term, ...] = field(default=(), kw_only=True, compare=False)
    known: dict[str, tuple[Table, Any]] = field(default_factory=_Known, init=False, compare=False, repr=False)


def known(method: Callable[[Any, Table], Found]) -> Callable[[Any, Table], Found]:
    """Remember what a method of `OfBoundedValues` finds for the last table: a plan asks it a hundred times."""

    @wraps(method)
    def found(self: OfBoundedValues, table: Table) -> Found:
        last = self.known.get(method.__qualname__)
        if last is None or last[0] is not table:
            last = self.known[method.__qualname__] = table, method(self, table)
        return last[1]

    return found


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, PrivateRange):
        return value.as_dict()
    return str(value) if isinstance(value, Fraction) else value


Make = TypeVar("Make", bound=Callable[..., Statistic])
CONSTRUCTORS: dict[str, Callable[..., Statistic]] = {}  # by their name in Python and JSON


def constructor(make: Make) -> Make:
    """Make a function known as `nt.<name>` and as {"ask": name}."""
    CONSTRUCTORS[make.__name__] = make
    return make
