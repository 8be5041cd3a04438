"""Statistics of order: quantiles, median, minimum and maximum of a column, on a grid of its public bounds.

The interquartile range: the distance between the quartiles of a column.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import floor, gcd, lcm, log10
from typing import Any, ClassVar

import numpy as np
from sqlglot import exp

from neartwin.errors import ParameterError, QueryError
from neartwin.exact import FloatArray, Number, WholeNumbers, rational
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.linear.ranks import Ranks, best_tree, looks, typical_weight
from neartwin.statistics import base
from neartwin.statistics.columns import Choice, OneColumn
from neartwin.statistics.measures import Measure, Measurement
from neartwin.statistics.sql import Call, Named, function, is_value, of_columns, spelling
from neartwin.tables.grid import GridColumn
from neartwin.tables.ranges import Value, as_value, is_name, value_of
from neartwin.tables.table import Bounds, Table, both_ends
from neartwin.tables.table import bounds as as_bounds
from neartwin.tables.types import ColumnType, days_of

MOST_CELLS = 2**16  # the most cells of a grid: memory holds its counts for every group
_GOOD = 1000  # cells of a default grid
_FACTORS = (1, 2, 5)
_AT_ONCE = 1 << 22  # cells of the groups that one step computes
_DAY = r"\d{4}-\d\d-\d\d"
_REACHED = "the {} value that is certainly reached; the true one is a single unit's: some rows may lie beyond it"
_CODES = {  # numbers in the order of other values, see `of_code`, and bounds where none are given: days from 1900 to 2079
    ColumnType.DATE: ("date_diff('day', DATE '1970-01-01', CAST({0} AS DATE))", as_bounds(-25_567, 39_967, 1)),
    ColumnType.TEXT: ("129 * ascii({0}) + ascii(substr({0}, 2, 1))", as_bounds(0, 129**2 - 1, 1)),
}

Split = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class OrderStatistic(OneColumn):
    """A statistic of noisy counts of a column's values by cell. All of one column, grid and fill share one tree.

    Its bars hold the statistic of the values before they are rounded to the grid, within their bounds.
    """

    places: ClassVar[int] = 1  # of the grid, whose roundings add up
    lost_row = base.RATIO
    holds_lost = True

    def kind(self, table: Table) -> ColumnType:
        """A date for dates and times, a text for texts, else a number."""
        named = is_name(table, self.column)
        found = table.schema.get(self.column) if named else table.expression(self.column).type
        kind = ColumnType.DATE if found is ColumnType.TIMESTAMP else found
        return kind if kind in _CODES and self.is_value else ColumnType.NUMBER

    @base.known
    def value(self, table: Table) -> Value:
        """The column or expression within its bounds, or the number that stands for a date or text."""
        code, whole = _CODES.get(self.kind(table), ("", None))
        text = code.format(as_value(table, self.column)) or self.column
        return value_of(table, text, self.bounds or whole, conditions=self.conditions)

    def keywords(self) -> dict[str, Any]:
        """The arguments of its constructor: the bounds without their step, which may be nobody's choice."""
        ends = {} if self.bounds is None else {"low": str(self.bounds.low), "high": str(self.bounds.high)}
        return base.Statistic.keywords(replace(self, bounds=None)) | ends

    def grid_column(self, table: Table) -> GridColumn:
        """The column whose cells are counted.

        Args:
            table: The table.

        Returns:
            The column with its grid.

        Raises:
            QueryError: The fill is not on the grid, or the grid has too many points.
        """
        value = self.value(table)
        kind = _type(table, value)
        chosen = self.bounds is not None or value.expression is not None
        step = self.step or (None if self.kind(table) is ColumnType.NUMBER else Fraction(1))
        bounds = grid_of(value.bounds, kind, step, given=chosen)
        fill = None if self.fill is None else self.fill / bounds.step
        if fill is not None and not (fill.denominator == 1 and bounds.low_units <= fill <= bounds.high_units):
            raise QueryError(f"fill={float(self.fill or 0):g} of {self} must be a multiple of the step within {bounds}")
        name = f"{value.column}[{bounds.low},{bounds.high},{bounds.step}]" + ("" if fill is None else f"?{fill}")
        return GridColumn(
            name, value.column, bounds, 0, None if fill is None else int(fill), expression=value.expression
        )

    def measurements(self, context: base.Context, weight: float, power: float) -> Iterator[Measurement]:
        """The tree with the least error."""
        column = self.grid_column(context.table)
        tree = best_tree(column.high - column.low + 1, power)
        yield context.by_cell(column, tree, weight * self.rank_error(tree))

    def main_measure(self, context: base.Context) -> str:
        """The tree."""
        return base.cells_of(self.grid_column(context.table))

    def noise_factor(self, context: base.Context) -> float:
        """The error of a rank, in noises of a node."""
        return self.rank_error(context.trees[self.main_measure(context)]) / len(self.labels(""))

    @abstractmethod
    def rank_error(self, tree: CountTree) -> float:
        """The bars of its ranks, typical over the places, in bars of one node.

        Args:
            tree: The tree of counts.

        Returns:
            The sum over the ranks.
        """

    @abstractmethod
    def cells(self, name: str, ranks: Ranks, split: Split, confidence: float) -> dict[str, tuple[FloatArray, ...]]:
        """The value and the ends of its bar as numbers of cells, (groups,) each, for every released column.

        A fourth part may be 1 where a value that it comes from lies at a clip bound, else 0.

        Args:
            name: The statistic's name in the question.
            ranks: The tree and the law of its noise.
            split: Noisy counts left and right of each place.
            confidence: The confidence of each bar.
        """

    def estimate(
        self, name: str, noisy: base.NoisyNumbers, context: base.Context, confidence: float
    ) -> list[base.Estimate]:
        """From the tree, some groups at a time."""
        column, measure, ranks = self.ranks(context)
        place, columns = column.bounds, dict[str, list[tuple[FloatArray, ...]]]()
        rounding = self.places * self.rounding(context.table, place)
        for part in _parts(noisy.trees[measure.name], ranks.tree.cells):
            for label, three in self.cells(name, ranks, ranks.tree.split(part), confidence).items():
                columns.setdefault(label, []).append(three)
        estimates = []
        for label, parts in columns.items():
            ends = [
                np.concatenate([part[i] for part in parts]) + away for i, away in enumerate((0, -rounding, rounding))
            ]
            kind = self.kind(context.table)
            clipped = sum(int(at.sum()) for _, _, _, *more in parts for at in more)
            estimates.append(
                base.Estimate(label, *(self.in_units(end, place) for end in ends), kind=kind, clipped=clipped)
            )
        return estimates

    def rounding(self, table: Table, place: Bounds) -> float:
        """The most by which a value within the bounds differs from its grid point, in cells.

        Whole numbers on a grid of whole steps differ by a whole number, and by nothing where the step is 1.

        Args:
            table: The table.
            place: The bounds with the step of a cell.
        """
        types = {self.kind(table), _type(table, self.value(table))}
        whole = place.step.denominator == 1 and types != {ColumnType.NUMBER}
        return floor(place.step / 2) / float(place.step) if whole else 0.5

    def in_units(self, cells: FloatArray, place: Bounds) -> list[float]:
        """Numbers of cells as values, within the bounds.

        Args:
            cells: Numbers of cells from the lower bound, which need not be whole.
            place: The bounds with the step of a cell.

        Returns:
            The values, in the column's unit.
        """
        values = ((cells + place.low_units) * float(place.step)).tolist()
        return [min(max(value, float(place.low)), float(place.high)) for value in values]

    def ranks(self, context: base.Context) -> tuple[GridColumn, Measure, Ranks]:
        """The column, its measure, and the ranks that are read from it."""
        column = self.grid_column(context.table)
        measure = context.measures[base.cells_of(column)]
        return column, measure, Ranks(context.trees[measure.name], measure.mechanism.law, context.lost * measure.parts)


@dataclass(frozen=True, slots=True)
class Quantile(OrderStatistic):
    """Quantiles of a column's values, each clipped to public bounds and rounded to a grid.

    Attributes:
        rank: Increasing, in (0, 1).
    """

    is_value, moved_by_clips = True, False
    rank: tuple[Fraction, ...] = field(kw_only=True)
    verb = "quantile"

    @property
    def record(self) -> str:
        """Its word in digests."""
        if self.rank == (Fraction(1, 2),):
            return f"median({self.column})"
        return f"quantile({self.column}, {', '.join(repr(float(rank)) for rank in self.rank)})"

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of the released columns, one for each rank.

        >>> quantile("amount", [0.25, 0.75], 0, 200).labels("paid")
        ('paid_p25', 'paid_p75')
        """
        if len(self.rank) == 1:
            return (name,)
        return tuple(f"{name}_p{float(100 * rank):g}" for rank in self.rank)

    def rank_error(self, tree: CountTree) -> float:
        """The error of all ranks together."""
        return sum(typical_weight(tree, float(rank)) for rank in self.rank)

    def cells(self, name: str, ranks: Ranks, split: Split, confidence: float) -> dict[str, tuple[FloatArray, ...]]:
        """The quantiles in order."""
        columns, last = dict[str, tuple[FloatArray, ...]](), np.zeros(split[0].shape[0])
        for rank, label in zip(self.rank, self.labels(name), strict=True):
            value, low, high = ranks.quantile(split, float(rank), confidence)
            last = np.maximum(last, value)
            # Only values are sorted. A bar cut by another rank's noise would hold less often than stated.
            columns[label] = last, np.minimum(low, last), np.maximum(high, last)
        return columns

    def expected(self, name: str, context: base.Context, confidence: float) -> list[base.ExpectedError]:
        """The errors in ranks, because the values so many rows away are private."""
        column, measure, ranks = self.ranks(context)
        ((_, share), *_) = looks(ranks.tree)
        errors = []
        for rank, label in zip(map(float, self.rank), self.labels(name), strict=True):
            width = float(ranks.bars(rank, 1 - share * (1 - confidence)).max()) / measure.parts
            errors.append(by_rank(label, width, f"at most {width:,.0f} values off its rank", column, confidence))
        return errors


@dataclass(frozen=True, slots=True)
class Extreme(OrderStatistic):
    """An end that a column's values certainly reach."""

    is_value = True
    end: ClassVar[float]  # as a rank

    def rank_error(self, tree: CountTree) -> float:
        """The error at its end of the grid."""
        return typical_weight(tree, self.end)

    def expected(self, name: str, context: base.Context, confidence: float) -> list[base.ExpectedError]:
        """In rows."""
        column, measure, ranks = self.ranks(context)
        width = float(ranks.bars(self.end, 2 * confidence - 1).max()) / measure.parts
        return [by_rank(name, width, f"about {width:,.0f} values or fewer lie beyond it", column, confidence)]


@dataclass(frozen=True, slots=True)
class Minimum(Extreme):
    """The least value that is certainly reached."""

    verb = "minimum"
    end = 0.0
    explanation = _REACHED.format("least")

    def cells(self, name: str, ranks: Ranks, split: Split, confidence: float) -> dict[str, tuple[FloatArray, ...]]:
        """The reached value; the true one lies between it and the public bound."""
        certain = np.minimum(ranks.smallest(split, confidence), ranks.tree.cells - 1.0)
        return {name: (certain, np.zeros_like(certain), certain)}


@dataclass(frozen=True, slots=True)
class Maximum(Extreme):
    """The largest value that is certainly reached."""

    verb = "maximum"
    end = 1.0
    explanation = _REACHED.format("largest")

    def cells(self, name: str, ranks: Ranks, split: Split, confidence: float) -> dict[str, tuple[FloatArray, ...]]:
        """The reached value; the true one lies between it and the public bound."""
        certain = np.maximum(ranks.largest(split, confidence), 0.0)
        return {name: (certain, certain, np.full_like(certain, ranks.tree.cells - 1.0))}


def by_rank(name: str, width: float, says: str, column: GridColumn, confidence: float) -> base.ExpectedError:
    """An expected error in rows.

    Args:
        name: The name of the released column.
        width: The half-width of the bar, in rows.
        says: The error in words.
        column: The column.
        confidence: The confidence of the bar.

    Returns:
        The expected error, by size as a share of all values.
    """
    by_size = tuple((n, min(1.0, width / n)) for n in base.GROUP_SIZES)
    says = f"{says}, on a grid with steps of {float(column.bounds.step):g}"
    return base.ExpectedError(name=name, confidence=confidence, half_width=None, by_size=by_size, says=says)


def _type(table: Table, value: Value) -> ColumnType:
    return table.schema[value.column] if value.expression is None else value.expression.type


def _parts(levels: Sequence[WholeNumbers], cells: int) -> Iterator[list[WholeNumbers]]:
    groups, some = levels[0].shape[0], max(1, _AT_ONCE // cells)
    for start in range(0, max(groups, 1), some):
        yield [level[start : start + some] for level in levels]


@base.constructor
def quantile(
    column: str,
    rank: Number | list[Number] | tuple[Number, ...],
    low: Choice = None,
    high: Choice = None,
    step: Choice = None,
    *,
    fill: Choice = None,
) -> Quantile:
    """One quantile, or several from one set of noisy counts: without more noise, and never out of order.

    A unit with more than max_rows_per_group values in a group counts for that many, each of its values for an equal
    part.

    Args:
        column: A column or a SQL expression.
        rank: A number strictly between 0 and 1, or a list of them.
        low: The lower public bound, or None if the table declares it.
        high: The upper public bound, or None if the table declares it.
        step: The step of the grid of answers; by default about a thousand points.
        fill: The value for NULL and NaN; None leaves them out.

    Returns:
        The statistic.

    Raises:
        ParameterError: A rank is not strictly between 0 and 1.

    >>> print(quantile("amount", [0.25, 0.75], 0, 200))
    quantile(amount, 0.25, 0.75)
    >>> quantile("amount", 1, 0, 200)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: rank=1 must lie strictly between 0 and 1; minimum() and maximum() ...
    """
    ranks = tuple(rational(rank=each) for each in (rank if isinstance(rank, list | tuple) else [rank]))
    for each in ranks:
        if not 0 < each < 1:
            remedy = "minimum() and maximum() say how far values reach"
            if 1 < each < 100:
                remedy = f"write {float(each) / 100:g}"
            raise ParameterError("rank", each, "must lie strictly between 0 and 1", remedy=remedy)
    if not ranks or any(a >= b for a, b in pairwise(ranks)):
        raise ParameterError("rank", [float(each) for each in ranks], "must increase, with at least one")
    statistic = Quantile(column, *order_grid(column, low, high, step, fill), rank=ranks)
    if len(set(statistic.labels(""))) < len(ranks):
        raise ParameterError("rank", [float(each) for each in ranks], "must differ in six digits, which name answers")
    return statistic


@base.constructor
def median(
    column: str, low: Choice = None, high: Choice = None, step: Choice = None, *, fill: Choice = None
) -> Quantile:
    """The quantile of rank 1/2.

    Args:
        column: A column or a SQL expression.
        low: The lower public bound, or None if the table declares it.
        high: The upper public bound, or None if the table declares it.
        step: The step of the grid of answers; by default about a thousand points.
        fill: The value for NULL and NaN; None leaves them out.

    Returns:
        The statistic.

    >>> print(median("age", 0, 120))
    median(age)
    """
    return quantile(column, Fraction(1, 2), low, high, step, fill=fill)


@base.constructor
def minimum(
    column: str, low: Choice = None, high: Choice = None, step: Choice = None, *, fill: Choice = None
) -> Minimum:
    """The least value that is certainly reached: some kept value is at most this, at the release's confidence.

    A true minimum is one unit's own value, so no private answer is close to it. As many rows as the noise hides may lie
    below the answer, down to the public bound. The interval covers that range.

    Args:
        column: A column or a SQL expression.
        low: The lower public bound, or None if the table declares it.
        high: The upper public bound, or None if the table declares it.
        step: The step of the grid of answers; by default about a thousand points.
        fill: The value for NULL and NaN; None leaves them out.

    Returns:
        The statistic.

    >>> print(minimum("age", 0, 120))
    minimum(age)
    """
    return Minimum(column, *order_grid(column, low, high, step, fill))


@base.constructor
def maximum(
    column: str, low: Choice = None, high: Choice = None, step: Choice = None, *, fill: Choice = None
) -> Maximum:
    """The largest value that is certainly reached: some kept value is at least this, at the release's confidence.

    As many rows as the noise hides may lie above the answer, up to the public bound, as for `minimum` below it.

    Args:
        column: A column or a SQL expression.
        low: The lower public bound, or None if the table declares it.
        high: The upper public bound, or None if the table declares it.
        step: The step of the grid of answers; by default about a thousand points.
        fill: The value for NULL and NaN; None leaves them out.

    Returns:
        The statistic.

    >>> print(maximum("age", 0, 120))
    maximum(age)
    """
    return Maximum(column, *order_grid(column, low, high, step, fill))


def grid_of(bounds: Bounds, kind: ColumnType, step: Fraction | None, *, given: bool) -> Bounds:
    """The grid of a quantile: the step of the question, a small declared one, or one with about 1000 points.

    A chosen step divides both bounds. It is the finest of 1, 2 or 5 times a power of ten with at most 1000 cells, at least 1 for
    whole numbers. If there is none, it is a part of the bounds' common divisor.

    Args:
        bounds: The bounds of the column.
        kind: Its type.
        step: The step that the question gives, if any.
        given: Whether the bounds are the question's own, so that nobody chose the step in them.

    Raises:
        QueryError: The grid has more than 65,536 points.

    >>> str(grid_of(as_bounds(0, 200), ColumnType.NUMBER, None, given=True))
    '[0, 200] in steps of 0.2'
    >>> str(grid_of(as_bounds(0, 120), ColumnType.INTEGER, None, given=True))
    '[0, 120] in steps of 1'
    """
    if step is not None:
        grid = as_bounds(bounds.low, bounds.high, step)
    elif not given and points_of(bounds) <= 4 * _GOOD:
        grid = bounds
    else:
        grid = as_bounds(bounds.low, bounds.high, _step(bounds, integral=kind is ColumnType.INTEGER))
    if points_of(grid) > MOST_CELLS:
        raise QueryError(f"a grid of {points_of(grid):,} points is too fine for quantiles; give a larger step")
    return grid


def points_of(bounds: Bounds) -> int:
    """The number of points of a grid."""
    return bounds.high_units - bounds.low_units + 1


def _step(bounds: Bounds, *, integral: bool) -> Fraction:
    span = bounds.high - bounds.low
    ends = (bounds.low, bounds.high)
    power = Fraction(10) ** floor(log10(span / _GOOD))
    options = [factor * ten * power for ten in (1, 10) for factor in _FACTORS]
    for step in [Fraction(1), *options] if integral else options:
        if all((end / step).denominator == 1 for end in ends) and span / step <= _GOOD and (step >= 1 or not integral):
            return step
    unit = Fraction(1, lcm(*(end.denominator for end in ends)))
    common = unit * gcd(*(int(end / unit) for end in ends))
    return common / max(1, int(_GOOD * common / span))


def order_grid(
    column: str, low: Choice, high: Choice, step: Choice, fill: Choice
) -> tuple[Bounds | None, Fraction | None, Fraction | None]:
    """The given bounds, fill and step.

    Args:
        column: The column, for errors.
        low: The lower bound, or None.
        high: The upper bound, or None.
        step: The step of the grid, or None.
        fill: The value for NULL and NaN, or None.

    Returns:
        Bounds, fill and step.
    """
    filled = None if fill is None else rational(fill=fill)
    chosen = None if step is None else rational(step=step)
    ends = both_ends(column, *((days_of(end) if re.fullmatch(_DAY, str(end)) else end) for end in (low, high)))
    if ends is None:
        return None, filled, chosen
    common = chosen or Fraction(1, lcm(*(end.denominator for end in ends)))
    return as_bounds(*ends, common), filled, chosen


of_columns("MEDIAN", "median", median, "x")
of_columns("MIN", "min", minimum, "x")
of_columns("MAX", "max", maximum, "x")


@function("PERCENTILE_CONT", "PERCENTILE_DISC", "QUANTILE", spelled="QUANTILE_CONT(x, 0.9)")
def _quantile(call: Call) -> Named | None:
    """Of a rank between 0 and 1, or a list of them."""
    match call.arguments:
        case (value, exp.Array(expressions=ranks)) | (value, *ranks) if is_value(value) and ranks:
            if all(isinstance(one, exp.Literal) and not one.is_string for one in ranks):
                return f"quantile_{spelling(value)}", quantile(spelling(value), [one.this for one in ranks])
    return None


_QUARTILES = 0.25, 0.75


@dataclass(frozen=True, slots=True)
class InterquartileRange(OrderStatistic):
    """The third quartile less the first: the width that the middle half of the values fills."""

    verb = "interquartile_range"
    places = 2

    def rank_error(self, tree: CountTree) -> float:
        """The error of both quartiles."""
        return sum(typical_weight(tree, rank) for rank in _QUARTILES)

    def cells(self, name: str, ranks: Ranks, split: Split, confidence: float) -> dict[str, tuple[FloatArray, ...]]:
        """The difference, at least 0; each quartile has half of what may fail, so that both hold at once."""
        first, third = (ranks.quantile(split, rank, (1 + confidence) / 2) for rank in _QUARTILES)
        value = np.maximum(third[0] - first[0], 0.0)
        lower, upper = np.maximum(third[1] - first[2], 0.0), np.maximum(third[2] - first[1], 0.0)
        far = ranks.tree.cells - 1  # near it and near 0 as in `Bounds.reached`
        clipped = (first[0] <= far / 100) & (first[1] <= 0) | (third[0] >= far - far / 100) & (third[2] >= far)
        return {name: (value, np.minimum(lower, value), np.maximum(upper, value), np.where(clipped, 1.0, 0.0))}

    def in_units(self, cells: FloatArray, place: Bounds) -> list[float]:
        """A difference of cells as a difference of values, which is at most that of the bounds."""
        values: list[float] = (np.clip(cells, 0.0, place.high_units - place.low_units) * float(place.step)).tolist()
        return values

    def expected(self, name: str, context: base.Context, confidence: float) -> list[base.ExpectedError]:
        """The error in ranks, because the values so many rows away are private."""
        column, measure, ranks = self.ranks(context)
        ((_, share), *_) = looks(ranks.tree)
        failure = share * (1 - confidence) / 2
        width = max(float(ranks.bars(rank, 1 - failure).max()) for rank in _QUARTILES) / measure.parts
        return [by_rank(name, width, f"each quartile at most {width:,.0f} values off its rank", column, confidence)]


@base.constructor
def interquartile_range(
    column: str, low: Choice = None, high: Choice = None, step: Choice = None, *, fill: Choice = None
) -> InterquartileRange:
    """The third quartile minus the first, a spread that few large values do not move.

    It comes from the counts of the column's quantiles, and costs nothing beside them.

    Args:
        column: A column or a SQL expression.
        low: The lower public bound, or None if the table declares it.
        high: The upper public bound, or None if the table declares it.
        step: The step of the grid; by default about a thousandth of the bounds.
        fill: The value for NULL and NaN; None leaves them out.

    Returns:
        The statistic.

    >>> print(interquartile_range("amount", 0, 200))
    interquartile_range(amount)
    """
    return InterquartileRange(column, *order_grid(column, low, high, step, fill))


of_columns("IQR", "iqr", interquartile_range, "x")
