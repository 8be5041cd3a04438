"""The interquartile range: the distance between the quartiles of a column."""

from dataclasses import dataclass

import numpy as np

from neartwin.exact import FloatArray
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.linear.ranks import Ranks, looks, typical_weight
from neartwin.statistics.base import Context, ExpectedError, constructor
from neartwin.statistics.columns import Choice
from neartwin.statistics.order import OrderStatistic, Split, by_rank, order_grid
from neartwin.statistics.sql import of_columns
from neartwin.tables.table import Bounds

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
        return {name: (value, np.minimum(lower, value), np.maximum(upper, value))}

    def in_units(self, cells: FloatArray, place: Bounds) -> list[float]:
        """A difference of cells as a difference of values, which is at most that of the bounds."""
        values: list[float] = (np.clip(cells, 0.0, place.high_units - place.low_units) * float(place.step)).tolist()
        return values

    def expected(self, name: str, context: Context, confidence: float) -> list[ExpectedError]:
        """The error in ranks, because the values so many rows away are private."""
        column, measure, ranks = self.ranks(context)
        ((_, share), *_) = looks(ranks.tree)
        failure = share * (1 - confidence) / 2
        width = max(float(ranks.bars(rank, 1 - failure).max()) for rank in _QUARTILES) / measure.parts
        return [by_rank(name, width, f"each quartile at most {width:,.0f} values off its rank", column, confidence)]


@constructor
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
