"""The most that one unit can change a statistic: the table that every noise scale is derived from.

A unit keeps at most C rows in a group, in at most k groups; more rows are weighted down to C. A column is clipped to
[low, high] grid units. Columns of the table: the most that one cell can change, and how many cells can change at once.
docs/proofs/one-weight.md proves them. All are in grid units, of each of which a measure counts a number of parts.

| statistic | add/remove one unit | replace one unit |
|---|---|---|
| units | 1, k | 1, 2k |
| count | C, k | C, 2k |
| sum | C max(abs low, abs high), k | C max(high - low, abs low, abs high), 2k |
| sum, surely one value a unit, one group | max(abs low, abs high), 1 | high - low, 1 |
| sum of products less a centre | as a sum whose low and high are those of the product less the centre | the same |

Replacing a unit can empty a cell (filter, NULL, another group). So its sum may move by a whole contribution and not only by
high - low. It touches the k groups that it leaves as well as the k that it enters. But a cell moves by high - low only where the
unit was before *and* is afterwards, and then one cell fewer is touched.

So all cells together, the L1 sensitivity, move by less than cell times cells where a column has both signs. Let
M = C max(abs low, abs high), and R the cell's own bound. With g public groups, k <= g < 2k, at least 2k - g cells are both left
and entered, and L1 = (2k - g) R + 2 (g - k) M. With g >= 2k it is 2k M, for R <= 2M.

The squared length is b R^2 + 2 (k - b) M^2 with b cells both left and entered. It is linear in b, so the most is at one of its
ends, b = max(0, 2k - g) or b = k.

Under a norm L the vector over all groups has length at most L max(abs low, abs high), whatever k. Two of them are apart by at
most root 2 times that, or twice where values have both signs.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

from neartwin.mechanisms.neighbours import Neighbours


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The most that one unit changes a statistic: whole numbers, in units of its grid.

    Attributes:
        l1: The most that all groups can change together, in absolute sum. Discrete Laplace noise is scaled to it.
        cell: The most that one group's value can change.
        cells: The most groups that can change.
        why: The derivation in words.
        l2_squared: The most that all groups can change together, in squared length. Normal noise is scaled to it. The default 0
            stands for the bound that the others imply.

    >>> Sensitivity(60, 20, 3, "at most 20 rows in 3 groups").l2_squared
    1200
    """

    l1: int
    cell: int
    cells: int
    why: str
    l2_squared: int = 0

    def __post_init__(self) -> None:
        """v^2 summed is at most the largest entry times the absolute sum, and at most cells times its square."""
        implied = min(self.l1 * self.cell, self.cells * self.cell**2)
        object.__setattr__(self, "l2_squared", min(self.l2_squared or implied, implied))

    def in_parts(self, parts: int) -> "Sensitivity":
        """The sensitivity of the statistic, counted in parts of a grid unit.

        Args:
            parts: The parts of one grid unit.

        Returns:
            The sensitivity, in parts.
        """
        if parts == 1:
            return self
        why = f"{self.why}; in parts of 1/{parts:,}"
        return Sensitivity(self.l1 * parts, self.cell * parts, self.cells, why, self.l2_squared * parts**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The most that one unit contributes.

    Attributes:
        rows_per_group: C, in one group.
        groups_per_unit: k, the most groups that it is in.
        groups: The number of public groups, or None.
        rows_per_unit: T, over all groups together; None where k C is the most.
        norm: L, in place of all: the length of its rows by group.
        units: K beside a norm: the length of its groups among distinct units; None for L.
        values: The most distinct values that it stands for, over all groups together; None for as many as rows.
    """

    rows_per_group: int
    groups_per_unit: int
    groups: int | None
    rows_per_unit: int | None = None
    norm: Fraction | None = None
    values: int | None = None
    units: Fraction | None = None

    @property
    def of_values(self) -> "Contribution":
        """The most that it contributes to counts of distinct values."""
        if self.values is None:
            return self
        return replace(self, rows_per_group=self.values, rows_per_unit=self.values, norm=None)

    @property
    def units_norm(self) -> Fraction | None:
        """The length that a norm leaves to a unit's groups; None where no unit can be in more groups."""
        length = self.norm and (self.units or self.norm)
        return None if length and self.groups and length**2 >= self.groups else length


def of_units(neighbours: Neighbours, reach: Contribution, *, parts: int = 1) -> Sensitivity:
    """The sensitivity of a count of distinct units by group.

    Args:
        neighbours: The neighbour relation.
        reach: The most that one unit contributes.
        parts: The parts of a unit that are counted.

    Returns:
        The sensitivity, in parts of a unit.
    """
    why, norm = "a unit counts once in a group", reach.units_norm
    if norm is not None:
        why = f"a unit counts in all its groups together for a length of {float(norm):g}"
        return of_norm(neighbours, reach, norm * parts, levels=1, signed=False, why=why)
    return _over_groups(neighbours, reach, largest=1, same=1, why=why).in_parts(parts)


def of_norm(
    neighbours: Neighbours, reach: Contribution, length: Fraction, *, levels: int, signed: bool, why: str
) -> Sensitivity:
    """The sensitivity if a unit's vector over all groups is bounded in length.

    Args:
        neighbours: The neighbour relation.
        reach: The most that one unit contributes.
        length: The bound, in parts of a grid unit.
        levels: The number of such vectors.
        signed: Whether entries may have both signs. If not, two units' vectors have an inner product of at least 0.
        why: The derivation in words.

    Returns:
        The sensitivity, in parts of a grid unit.
    """
    both, apart = (1, 1) if neighbours is Neighbours.ADD_REMOVE else (2, 4 if signed else 2)
    squared = int(apart * levels * length**2)  # of whole numbers, so rounded down
    cells = both * levels * reach.groups_per_unit
    cell = isqrt(max(squared - 1, 0)) + 1  # rounded up: the others imply no less than the squared length
    return Sensitivity(cell * cells, cell, cells, why, squared)


def of_count(neighbours: Neighbours, reach: Contribution, *, parts: int = 1) -> Sensitivity:
    """The sensitivity of a count of rows by group.

    Args:
        neighbours: The neighbour relation.
        reach: The most that one unit contributes.
        parts: The parts of a row that are counted.

    Returns:
        The sensitivity, in parts of a row.

    >>> of_count(Neighbours.REPLACE_ONE, Contribution(rows_per_group=20, groups_per_unit=3, groups=None)).l1
    120
    """
    rows = reach.rows_per_group
    if reach.norm is not None:
        why = f"a unit's rows, weighted down to a length of {float(reach.norm):g}"
        return of_norm(neighbours, reach, reach.norm * parts, levels=1, signed=False, why=why)
    why = "one row a unit" if rows == 1 else f"at most {rows} rows a unit in a group"
    uncapped = _over_groups(neighbours, reach, largest=rows, same=rows, why=why)
    return _in_all(neighbours, reach, uncapped, row=1).in_parts(parts)


def of_cells(neighbours: Neighbours, reach: Contribution, *, levels: int, parts: int = 1) -> Sensitivity:
    """The sensitivity of counts by group and node. Each level of the tree counts a row once, in parts of a row.

    Each row of a unit may be in another node, or all in one. So absolute sums add up, and a node moves by at most all
    of them. A unit with n > C rows has each counted as floor(C P / n) parts. Since n floor(C P / n) <= C P, it counts
    for no more than C whole rows. The counts of a level are in length at most those of their groups.

    Args:
        neighbours: The neighbour relation.
        reach: The most that one unit contributes.
        levels: The levels of the tree.
        parts: P, the parts of a row.

    Returns:
        The sensitivity, in parts of a row.

    >>> of_cells(Neighbours.ADD_REMOVE, Contribution(rows_per_group=2, groups_per_unit=3, groups=None), levels=4).l1
    24
    """
    rows, k = reach.rows_per_group, reach.groups_per_unit
    if reach.norm is not None:
        why = f"a unit's rows, weighted down to a length of {float(reach.norm):g}, by cell in {levels} levels"
        return of_norm(neighbours, reach, reach.norm * parts, levels=levels, signed=False, why=why)
    moved = k if neighbours is Neighbours.ADD_REMOVE else 2 * k
    total = levels * moved * rows
    why = f"at most {rows} row{'s' * (rows > 1)} a unit in a group, each in one node of {levels} level{'s' * (levels > 1)}"
    uncapped = Sensitivity(total, rows, total, f"{why}; {moved} group{'s' * (moved > 1)}")
    return _in_all(neighbours, reach, uncapped, row=levels).in_parts(parts)


def of_sum(neighbours: Neighbours, reach: Contribution, *, low: int, high: int, parts: int = 1) -> Sensitivity:
    """The sensitivity of a sum by group, of a column clipped to [low, high].

    Args:
        neighbours: The neighbour relation.
        reach: The most that one unit contributes.
        low: The lower bound, in grid units.
        high: The upper bound, in grid units.
        parts: The parts of a grid unit that are counted.

    Returns:
        The sensitivity, in parts of a grid unit.

    >>> one = Contribution(rows_per_group=1, groups_per_unit=1, groups=1)
    >>> of_sum(Neighbours.ADD_REMOVE, one, low=5, high=9).l1, of_sum(Neighbours.REPLACE_ONE, one, low=5, high=9).l1
    (9, 9)
    >>> of_sum(Neighbours.REPLACE_ONE, one, low=-5, high=9).l1
    14
    """
    rows, size = reach.rows_per_group, max(abs(low), abs(high))
    why = f"a row adds at most max(|low|, |high|) = {size:,} grid steps"
    if reach.norm is not None:
        why += f", a unit's rows are weighted down to a length of {float(reach.norm):g}"
        return of_norm(neighbours, reach, reach.norm * size * parts, levels=1, signed=low < 0 < high, why=why)
    if rows > 1:
        why += f", {rows} rows a unit in a group"
    uncapped = _over_groups(neighbours, reach, largest=rows * size, same=rows * max(high - low, size), why=why)
    return _in_all(neighbours, reach, uncapped, row=size).in_parts(parts)


def of_sure_sum(neighbours: Neighbours, *, low: int, high: int) -> Sensitivity:
    """The sensitivity of a sum in which each unit surely has exactly one value.

    There is one row a unit, no filter, no groups, and no missing value.

    Args:
        neighbours: The neighbour relation.
        low: The lower bound, in grid units.
        high: The upper bound, in grid units.

    Returns:
        The sensitivity, in grid units.

    >>> of_sure_sum(Neighbours.REPLACE_ONE, low=5, high=9).l1
    4
    """
    if neighbours is Neighbours.ADD_REMOVE:
        return of_sum(neighbours, Contribution(rows_per_group=1, groups_per_unit=1, groups=1), low=low, high=high)
    span = high - low
    return Sensitivity(
        span, span, 1, f"each unit surely has one value, which can change by high - low = {span:,} grid steps"
    )


def _in_all(neighbours: Neighbours, reach: Contribution, uncapped: Sensitivity, *, row: int) -> Sensitivity:
    """The sensitivity if a unit counts for at most T rows in all. Each row adds at most `row`, so the absolute sum is at
    most T row.

    A replaced unit removes at most as much as it adds. The squared length is at most the absolute sum times the largest
    cell.

    >>> of_count(Neighbours.ADD_REMOVE, Contribution(rows_per_group=20, groups_per_unit=9, groups=9, rows_per_unit=50)).l2_squared
    1000
    """
    most = reach.rows_per_unit
    if most is None:
        return uncapped
    both = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    why = f"{uncapped.why}; at most {most} rows a unit in all"
    return Sensitivity(min(uncapped.l1, both * most * row), uncapped.cell, uncapped.cells, why, uncapped.l2_squared)


def _over_groups(neighbours: Neighbours, reach: Contribution, *, largest: int, same: int, why: str) -> Sensitivity:
    """The sensitivity over the groups of a unit.

    Args:
        neighbours: The neighbour relation.
        reach: The most that one unit contributes.
        largest: The most that a unit adds to one group.
        same: The most that a group changes if a replaced unit leaves it and its replacement enters it.
        why: The reason in words.
    """
    k, g = reach.groups_per_unit, reach.groups
    if neighbours is Neighbours.ADD_REMOVE:
        return Sensitivity(k * largest, largest, k, f"{why}; {k} group{'s' * (k > 1)} a unit")
    both = 0 if g is None else max(0, 2 * k - g)
    either = 2 * (k - both)
    why += f"; {both} group{'s' * (both != 1)} left and entered (up to {same:,} each), {either} one of the two"
    squared = max(k * same**2, both * same**2 + either * largest**2)
    return Sensitivity(both * same + either * largest, same, both + either, why, squared)
