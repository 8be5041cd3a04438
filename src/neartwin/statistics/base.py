"""What a statistic is: one class that knows its columns, what is measured for it, its estimate, its bars and its written form.

A new statistic is a subclass of `Statistic`, a function with `@constructor` that makes it, and a line in the face of this room.
Plans, releases, SQL and JSON ask the value, and name no class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeVar

from neartwin.exact import WholeNumbers
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.statistics import sensitivity
from neartwin.statistics.clipping import PrivateRange
from neartwin.statistics.measures import Measure, Measurement
from neartwin.statistics.sensitivity import Contribution, Sensitivity
from neartwin.tables.grid import GridColumn, Moment
from neartwin.tables.ranges import Value, spelled
from neartwin.tables.table import Bounds, Table
from neartwin.tables.types import ColumnType

GROUP_SIZES = (10, 100, 1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """The error of one statistic around its bounded value.

    half_width: the error bar at `confidence`, in the statistic's own unit; None where it depends on the size of the group.
    by_size: upper bounds on the error bar by number of values in the group, for means; for quantiles, of the
    rank as a share of them. says: in words.
    """

    name: str
    confidence: float
    half_width: Fraction | None
    by_size: tuple[tuple[int, float], ...]
    says: str


def same_everywhere(name: str, width: Fraction, confidence: float) -> ExpectedError:
    """The expected error of a statistic whose bar does not depend on the group."""
    return ExpectedError(
        name=name, confidence=confidence, half_width=width, by_size=(), says=f"± {float(width):,.6g} in every group"
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """One released column: values and the ends of their bars, (groups,) each."""

    name: str
    values: Sequence[float]
    lower: Sequence[float]
    upper: Sequence[float]


@dataclass(frozen=True, slots=True)
class NoisyNumbers:
    """What a release measured.

    Attributes:
        sums: (groups,) noisy whole numbers by measure, in parts of a step.
        trees: (groups, nodes) noisy counts for each level of a tree, by measure.
    """

    sums: Mapping[str, WholeNumbers]
    trees: Mapping[str, Sequence[WholeNumbers]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a statistic is planned and estimated within.

    Attributes:
        table: The table asked.
        statistics: All statistics of the question: some share sums.
        reach: The most that one unit contributes.
        parts: Parts of a row in which a tree counts.
        one_value: Whether each unit surely has exactly one row, in the one group.
        measures: The planned measures by name; empty before the budget is split.
        trees: The trees of those measures that have one.
    """

    table: Table
    statistics: tuple["Statistic", ...]
    reach: Contribution
    parts: int
    one_value: bool
    measures: Mapping[str, Measure] = field(default_factory=dict)
    trees: Mapping[str, CountTree] = field(default_factory=dict)

    @property
    def rows(self) -> str:
        """The measure that counts rows: where one row of a unit counts in a group, rows are units, and share their noise."""
        return "units" if self.reach.rows_per_group == 1 and self.reach.rows_per_unit is None else "rows"

    def number(self, column: GridColumn) -> str:
        """The measure that counts a column's values: all rows, where missing values are filled."""
        return f"filled:{column.name}" if column.fill is None else self.rows

    def counted(self, name: str, weight: float, *grid: GridColumn) -> Measurement:
        """A count of rows under this name."""
        return Measurement(name, sensitivity.of_count(self.table.neighbours, self.reach), weight, grid)

    def summed(self, cell: GridColumn | Moment, weight: float, *grid: GridColumn, sure: bool) -> Measurement:
        """The total of a column or product. sure: every row has a value."""
        return Measurement(total_of(cell), self._of_sum(cell, sure=sure), weight, grid, cell)

    def _of_sum(self, cell: GridColumn | Moment, *, sure: bool) -> Sensitivity:
        if self.one_value and sure:
            return sensitivity.of_sure_sum(self.table.neighbours, low=cell.low, high=cell.high)
        return sensitivity.of_sum(self.table.neighbours, self.reach, low=cell.low, high=cell.high)

    def by_cell(self, column: GridColumn, tree: CountTree, weight: float) -> Measurement:
        """The counts of a column's values by node of a tree. weight: of a bar of one node, in rows."""
        change = sensitivity.of_cells(self.table.neighbours, self.reach, levels=tree.levels, parts=self.parts)
        return Measurement(cells_of(column), change, weight / self.parts, (column,), tree=tree)


def total_of(cell: GridColumn | Moment) -> str:
    """The measure that is the total of a column or product."""
    return f"total:{cell.name}"


def cells_of(column: GridColumn) -> str:
    """The measure that counts a column's values by cell."""
    return f"cells:{column.name}"


class Statistic(ABC):
    """A statistic that can be asked. Frozen; making one reads no row.

    Class attributes say what a plan may do with it:
        verb: The name of its constructor, in Python and JSON.
        counts_units: Only distinct units count, so that a unit's rows need no bound.
        capped_in_all: `nt.limits(rows=...)` can bound it.
        is_linear: It adds up over groups, so that marginals and workloads can be of it.
        has_bar: A bar is always finite.
        bins: In words, where a release has a row for each bin of every group.
    """

    __slots__ = ()
    verb: ClassVar[str]
    counts_units: ClassVar[bool] = False
    capped_in_all: ClassVar[bool] = False
    is_linear: ClassVar[bool] = False
    has_bar: ClassVar[bool] = True

    def __str__(self) -> str:
        return self.record

    @property
    def bins(self) -> tuple[str, ...]:
        """The bins in words; none for a statistic of whole groups."""
        return ()

    @property
    @abstractmethod
    def record(self) -> str:
        """Its word in digests, for ever: a class, verb or printed name may change, this may not."""

    @abstractmethod
    def check(self, table: Table) -> None:
        """Refuse a table on which the statistic cannot be taken, or has no bounds."""

    @abstractmethod
    def measurements(self, context: Context, weight: float, power: float) -> Iterator[Measurement]:
        """The noisy sums and counts that it needs.

        Args:
            context: Where it is planned.
            weight: Of its bar in the objective, in units of one row's largest contribution.
            power: How the deviation of a node's noise grows with the levels of a tree: 1 for Laplace, 1/2 for normal noise.
        """

    @abstractmethod
    def estimate(self, name: str, noisy: NoisyNumbers, context: Context, confidence: float) -> list[Estimate]:
        """The released columns, each bar alone holding with probability at least `confidence` over the noise."""

    @abstractmethod
    def expected(self, name: str, context: Context, confidence: float) -> list[ExpectedError]:
        """The expected error of each released column, from the laws of noise alone."""

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of the released columns."""
        return (name,)

    def released(self, name: str) -> dict[str, ColumnType]:
        """The columns that HAVING and ORDER BY can name, and their types."""
        return dict.fromkeys(self.labels(name), ColumnType.NUMBER)

    def spelled(self, table: Table) -> Self:
        """The same statistic, its expressions written as SQL writes them."""
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
        found: dict[str, Any] = {}
        for part in fields(self):  # type: ignore[arg-type]
            value = getattr(self, part.name)
            if isinstance(value, Bounds):
                found |= {name: str(getattr(value, name)) for name in ("low", "high", "step")}
            elif value is not None:
                found[part.name] = _plain(value)
        return found

    def clip_bounds(self, table: Table) -> Mapping[str, Bounds]:
        """The bounds that values are clipped to, by column."""
        return {}

    def main_measure(self, context: Context) -> str:
        """The measure whose noise is most of its error."""
        return max(context.measures, key=lambda name: name != "units")

    def lost(self, rows: float, units: float) -> float | None:
        """Its expected loss in rows, where a group loses so many rows and units; None where noise alone grows, as for a mean."""
        return None

    def explanation(self) -> str | None:
        """What a reader of a plan must know of this statistic."""
        return None

    def summed_value(self, table: Table) -> Value | None:
        """What is clipped and totalled, for sums and means, whose bounds a first stage may choose."""
        return None

    @property
    def private_range(self) -> PrivateRange | None:
        """How a first stage chooses the bounds of what is summed; None where they stay."""
        return None

    def with_private_range(self, clip: PrivateRange) -> "Statistic":
        """The same with the bounds of what is summed chosen by a first stage."""
        return self

    def within(self, bounds: Bounds) -> "Statistic":
        """The same with what is summed within other bounds."""
        return self

    def total_column(self, context: Context) -> GridColumn | None:
        """The column whose total a sum or mean is read from."""
        return None

    def averages(self, table: Table, value: Value, fill: Fraction | None) -> bool:
        """Whether it is the mean of this value, so that a sum of it is taken around the middle too."""
        return False

    def shared_column(self, table: Table, grid: object) -> GridColumn | None:
        """The column that its sums have on this grid: a mean of the same column takes it."""
        return None


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
