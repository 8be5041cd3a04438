"""Batches of counts and linear queries: how much one unit can change all answers together.

Here a unit is one row of a histogram over declared cells, or has none: x counts the units in each cell. Adding a unit adds
a unit vector e_j to x; replacing one adds e_i - e_j, or one of the two alone where a unit may lie in no cell. A batch of
linear queries W x then changes by a column of W, or by a difference of two.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer
from neartwin.errors import ParameterError
from neartwin.losses import Composed
from neartwin.mechanisms.change import Change
from neartwin.mechanisms.geometric import Geometric
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.tradeoff import TradeOff

_MOST_PAIRS = 1 << 26  # entries compared one by one; beyond, differences are bounded by sums


def of_counts(number: int, neighbours: Neighbours) -> Change:
    """Of `number` counting queries fixed in advance, which may overlap: each moves by at most 1 under either relation.

    >>> of_counts(7, Neighbours.ADD_REMOVE).l1
    7
    """
    del neighbours  # a replaced unit leaves some counts and enters others: still at most 1 each
    return Change(linf=1, cells=integer(at_least=1, number=number))


def of_histogram(neighbours: Neighbours) -> Change:
    """Of a histogram of disjoint cells: one cell by 1, or two cells by 1 each.

    >>> of_histogram(Neighbours.REPLACE_ONE)
    Change(l1=2, l2_squared=2, linf=1, cells=2)
    """
    return Change(linf=1, cells=1 if neighbours is Neighbours.ADD_REMOVE else 2)


def of_linear(weights: NDArray[Any], neighbours: Neighbours) -> Change:
    """Of W x for whole weights (queries, cells), exactly; by sums instead of differences where W is very large.

    >>> of_linear(np.array([[1, 1, 0], [0, 1, -1]]), Neighbours.ADD_REMOVE)
    Change(l1=2, l2_squared=2, linf=1, cells=2)
    """
    table = np.asarray(weights)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "iu":
        raise ParameterError("weights", table.dtype, "must be a (queries, cells) table of whole numbers")
    columns = table.astype(np.int64).T
    most = int(np.abs(columns).max())
    if most == 0:
        raise ParameterError("weights", most, "must not all be zero: what nobody can change needs no noise")
    if most >= 2**20:
        columns = columns.astype(object)
    moves = [columns]
    if neighbours is Neighbours.REPLACE_ONE:
        if len(columns) ** 2 * columns.shape[1] > _MOST_PAIRS:
            one = _largest(columns)
            return Change(l1=2 * one.l1, l2_squared=4 * one.l2_squared, linf=2 * one.linf)
        moves += [column - columns[i + 1 :] for i, column in enumerate(columns[:-1])]
    changes = [_largest(part) for part in moves]
    return Change(
        l1=max(c.l1 for c in changes),
        l2_squared=max(c.l2_squared for c in changes),
        linf=max(c.linf for c in changes),
        cells=max(c.cells for c in changes),
    )


def _largest(rows: NDArray[Any]) -> Change:
    """The largest of each norm over the rows; rows of zeros count as a change of 1, which only adds noise."""
    size = abs(rows)
    return Change(
        l1=max(1, int(size.sum(axis=1).max())),
        l2_squared=max(1, int((rows * rows).sum(axis=1).max())),
        linf=max(1, int(size.max())),
        cells=max(1, int((rows != 0).sum(axis=1).max())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Noisy counts of declared, disjoint categories. Values that are in none of them count nowhere."""

    categories: tuple[Any, ...]
    counts: Geometric

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, categories: tuple[Any, ...], neighbours: Neighbours) -> "Histogram":
        """epsilon-DP for one row a unit: geometric noise of scale 1/epsilon (add/remove) or 2/epsilon (replace-one)."""
        if len(set(categories)) != len(categories) or not categories:
            raise ParameterError("categories", categories, "must be distinct, at least one")
        change = of_histogram(neighbours)
        return cls(categories=categories, counts=Geometric.calibrated(epsilon=epsilon, sensitivity=change.l1))

    def curve(self) -> TradeOff:
        """That of its counts."""
        return self.counts.curve()

    def losses(self) -> Composed:
        """The same as a factor for composition."""
        return self.counts.losses()

    def release(self, values: list[Any], *, source: noise.Source = noise.SYSTEM) -> dict[Any, int]:
        """A noisy count for every category, empty ones included.

        >>> release = Histogram.calibrated(
        ...     epsilon=Fraction(1000), categories=("a", "b"), neighbours=Neighbours.ADD_REMOVE
        ... ).release(["a", "a", "z"])
        >>> release
        {'a': 2, 'b': 0}
        """
        place = {category: i for i, category in enumerate(self.categories)}
        exact = np.zeros(len(place), dtype=np.int64)
        for value in values:
            if isinstance(value, Hashable) and value in place:
                exact[place[value]] += 1
        noisy = self.counts.noisy(exact, source=source)
        return dict(zip(self.categories, (int(v) for v in noisy), strict=True))

    def half_width(self, confidence: float) -> int:
        """Every category's count is within this of the truth, with this probability: exact for independent noise."""
        return self.counts.half_width(confidence, len(self.categories))
