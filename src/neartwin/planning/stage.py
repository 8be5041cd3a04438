"""One stage: the exact question for an engine, which is one statement, and its answer. A stage names no noise.

The engine returns, for each group, whole numbers by measure name:

- "units": distinct units that are kept in the group.
- "finders": those of these units that have the group among the first `discovery_groups` of their kept ones.
- "rows": the sum over kept units of min(rows of the unit in the group, C).
- "filled:NAME": the same for rows whose column value is neither NULL nor NaN.
- "total:NAME": the sum over kept units of their clipped grid values, weighted down to C rows if a unit has more.

NAME is a grid column, or a moment, whose values are products. A unit with m > C values in a group counts as C values of
its own mean: its total is multiplied by C/m and truncated toward zero. So count and total come from the same weighted
rows, and no row is preferred. Let `rows_per_unit` be T. If a unit counts for w > T rows over its kept groups, its rows,
filled rows and totals in each are multiplied by T/w and truncated toward zero.

With a `clip`, each unit's measures over all its groups are one vector, "finders" apart. It is shortened to a limit, and
whole numbers count parts of a step. A stage with `octaves` is answered by 1024 parts for each unit instead. They are
spread over the cells of a table by its number of groups and of rows in each. c of its k groups add floor(1024 c / k)
parts, in the measure "parts".

A stage with a `split` is answered by whole numbers for each group and cell instead. Values count at the grid point to
which they are rounded, each with P = `parts` parts. A unit with m > C values in a group counts for C of them: each
value for floor(C P / m) parts. With a `cell_clip` its values in all groups together are weighted instead.

**The L2 norm clip in whole numbers.** A unit's vector over groups and measures is shortened to a limit. No row is
dropped. The vector has an entry v for each group and measure, in steps of the measure's grid. Its squared length is
over-estimated by S = sum of ceil(|v| times / over)^2. If S is at most limit^2, an entry is v parts. Otherwise it is
multiplied by limit / R, with R the least whole number whose square is at least S, and truncated toward zero: `scaled`.

So sum of (|scaled| times / (over parts))^2 <= limit^2 for every unit. For |scaled| <= |v| parts limit / R, and the
squares of |v| times / over add up to at most S <= R^2. Half-up rounding has no such bound: entries of half a part would
all double.

Every number fits the engines' 126 bits. A row moves an entry by at most 2^60 steps (`moments`) and its length by about
2^20, so a limit is below 2^41. An entry times the limit is then below 2^(60 + 24 + 41). A length is below 2^45. So S is
below 2^45 times the sum of lengths, 2^21 a row of the unit: below 2^126 for tables of up to 2^60 rows.

**The L2 norm clip of counts by group and node of a tree**, for quantiles and histograms. A unit has c_gb values in cell
b of group g. Level l of the tree has nodes of width w_l. Node j of it counts n_lgj for the unit, the sum of its c_gb
over the cells b of the node. All nodes of all groups and levels are one vector, of squared length S = sum over l, g, j
of n_lgj^2. A histogram is a tree of one level.

Every value of the unit has one weight, in parts, P of which are a row. It is P if P^2 S <= limit^2, else floor(F limit
/ R). Here R is the least whole number with R^2 >= F^2 S, and F = 1024, so that rounding R up loses little. No row is
dropped. Node counts are sums of weights, so the unit's vector is exactly the weight times its n. Its squared length is
P^2 S <= limit^2, or at most F^2 limit^2 S / R^2 <= limit^2. Nothing is rounded after the weight, so truncating the
weight toward zero is enough. Counts are never negative, so two units' vectors have an inner product of at least 0. A
replaced unit moves the counts by at most 2 limit^2 in squared length.

F^2 S is at most 2^20 L m^2 for m values of the unit in L levels: below 2^126 for tables of up to 2^50 rows.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.statistics.sensitivity import Sensitivity
from neartwin.tables.expressions import RowExpression
from neartwin.tables.grid import GridColumn, Moment
from neartwin.tables.table import Table
from neartwin.tables.types import Key

K = TypeVar("K")

MOST_ROWS = 2**24  # the most rows of a unit in a group; more are weighted down to it
LARGEST = 2**20  # norm, in rows
SALT_BITS = 64  # fresh random bits a release


@dataclass(frozen=True, slots=True)
class Coordinate:
    """The length of one measure in the norm: an entry v has length |v| times / over.

    Attributes:
        times: The numerator.
        over: The denominator.
        parts: The parts of a step in which the clipped entry counts.
    """

    times: int
    over: int
    parts: int

    @property
    def weight(self) -> Fraction:
        """The length of one part."""
        return Fraction(self.times, self.over * self.parts)


@dataclass(frozen=True, slots=True)
class NormClip:
    """The clip of a unit's vector.

    Attributes:
        limit: The largest length.
        coordinates: The coordinate of each measure, by name.
    """

    limit: int
    coordinates: Mapping[str, Coordinate]

    def scaled(self, entries: Mapping[tuple[K, str], int]) -> dict[tuple[K, str], int]:
        """The contribution of a unit with these entries, in parts.

        Args:
            entries: The entries, by group and measure.

        Returns:
            The parts, by group and measure.

        >>> clip = NormClip(5, {"n": Coordinate(1, 1, 100)})
        >>> clip.scaled({("a", "n"): 3, ("b", "n"): 4}), clip.scaled({("a", "n"): 6, ("b", "n"): -8})
        ({('a', 'n'): 300, ('b', 'n'): 400}, {('a', 'n'): 300, ('b', 'n'): -400})
        """
        squared = sum(self._length(name, value) ** 2 for (_, name), value in entries.items())
        unscaled = {place: value * self.coordinates[place[1]].parts for place, value in entries.items()}
        if squared <= self.limit**2:
            return unscaled
        root = isqrt(squared - 1) + 1
        sizes = {place: abs(value) * self.limit // root for place, value in unscaled.items()}
        return {place: size if unscaled[place] >= 0 else -size for place, size in sizes.items()}

    def _length(self, name: str, value: int) -> int:
        one = self.coordinates[name]
        return -(-abs(value) * one.times // one.over)


HashableKey = TypeVar("HashableKey", bound=Hashable)

FINE = 2**10  # F
_UNIT_BITS = 25  # approximate bits of the limit in parts
_LEAST_BITS = 10  # the least bits of a row's parts


@dataclass(frozen=True, slots=True)
class CellClip:
    """The clip of a unit's counts by group and node of a tree.

    Attributes:
        limit: The largest length, in parts.
        widths: The cells of a node, level by level; the last is 1.
    """

    limit: int
    widths: tuple[int, ...]

    def most(self, parts: int) -> int:
        """The largest squared length, in rows, at which every value has full weight."""
        return self.limit**2 // parts**2

    def weight(self, counts: Mapping[tuple[HashableKey, int], int], parts: int) -> int:
        """The weight of each value of a unit, in parts.

        Args:
            counts: The unit's values, by group and cell, cells from 0.
            parts: The parts of a row.

        Returns:
            The weight.

        >>> clip = CellClip(limit=5 * 1024, widths=(1,))
        >>> clip.weight({("a", 0): 3, ("b", 7): 4}, 1024), clip.weight({("a", 0): 6, ("b", 7): 8}, 1024)
        (1024, 512)
        """
        squared = 0
        for width in self.widths:
            nodes: Counter[tuple[HashableKey, int]] = Counter()
            for (group, cell), count in counts.items():
                nodes[group, cell // width] += count
            squared += sum(count**2 for count in nodes.values())
        if squared <= self.most(parts):
            return parts
        return FINE * self.limit // (math.isqrt(FINE**2 * squared - 1) + 1)


def parts_for(norm: Fraction) -> int:
    """The parts of a row, so fine that truncating a weight loses next to nothing."""
    return 1 << max(_LEAST_BITS, _UNIT_BITS - math.ceil(norm).bit_length())


def cell_clip(norm: Fraction, tree: CountTree) -> CellClip:
    """The clip at which a unit with `norm` values, all in one cell of one group, is just within.

    Each value is counted in every level.

    Args:
        norm: The norm, in rows.
        tree: The tree.

    Returns:
        The clip.

    Raises:
        ParameterError: The norm is so large that the engines' exact sums would overflow.

    >>> cell_clip(Fraction(3), CountTree(cells=100, branching=10)).widths
    (10, 1)
    """
    if norm > LARGEST:
        raise ParameterError("norm", float(norm), f"must be at most {LARGEST:,} rows")
    squared = norm**2 * tree.levels * parts_for(norm) ** 2
    return CellClip(math.isqrt(math.floor(squared)), tree.widths)


def of_clipped_cells(neighbours: Neighbours, clip: CellClip, tree: CountTree, groups: int) -> Sensitivity:
    """The sensitivity of all counts by group and node together, in parts.

    Args:
        neighbours: The neighbour relation.
        clip: The clip.
        tree: The tree.
        groups: The number of groups, or the most for one unit.

    Returns:
        The sensitivity.
    """
    times = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    nodes = groups * sum(-(-tree.cells // width) for width in tree.widths)
    why = (
        f"a unit's counts in all groups, cells and {tree.levels} level{'s' * (tree.levels > 1)} are one vector, clipped to "
        f"length {clip.limit:,} in parts of a row"
    )
    return Sensitivity(times * clip.limit * nodes, clip.limit, times * nodes, why, times * clip.limit**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The exact question of one statement.

    Attributes:
        table: The table.
        conditions: The conditions on rows.
        group_columns: The group columns.
        keys: The public groups; None for every group that has a row.
        grid: The summed columns, by name.
        measures: The measures.
        rows_per_group: C, the most rows of one unit in one group.
        groups_per_unit: The most groups of one unit: those with most of its rows, and among equals the first in a
            salted hash of unit and group. None if no unit can be in more groups than there are.
        rows_per_unit: T, the most rows of one unit in all groups; None for no limit.
        discovery_groups: The groups of a unit that count as "finders"; None for all.
        octaves: The starts of the octaves, in groups and rows.
        split: The grid column by whose cells rows are counted, or None.
        parts: Parts of a row, for a split.
        moments: The moments over the columns of the grid.
        clip: The clip of all measures but "finders" together.
        cell_clip: The clip of the counts by cell of a split, in place of the caps.
    """

    table: Table
    conditions: tuple[RowExpression, ...]
    group_columns: tuple[str, ...]
    keys: tuple[Key, ...] | None
    grid: Mapping[str, GridColumn]
    measures: tuple[str, ...]
    rows_per_group: int
    groups_per_unit: int | None
    rows_per_unit: int | None = None
    discovery_groups: int | None = None  # if given, only groups with a finder are answered
    octaves: tuple[int, ...] = ()
    split: str | None = None
    parts: int = 1
    moments: Mapping[str, Moment] = field(default_factory=dict)
    clip: NormClip | None = None
    cell_clip: CellClip | None = None


@dataclass(frozen=True, slots=True)
class Cells:
    """Exact nonzero counts by group and cell: three int64 columns of one length.

    Attributes:
        group: The position of the group in the keys.
        cell: The cell, in whole steps from the lowest, from 0.
        count: The exact count.
    """

    group: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Exact answers. They are private, and must not outlive the function that adds noise to them.

    Attributes:
        groups: The number of groups. Public keys come in their order, empty groups included. Discovered groups are
            those with a kept unit, in an order that must not be shown.
        keys: The group columns, one row a group.
        values: (groups,) whole numbers by measure name: int64, or Python integers if that is too small.
        cells: The counts of a stage with a split, which has no values.
    """

    groups: int
    keys: Sequence[Key]
    values: Mapping[str, WholeNumbers]
    cells: Cells | None = None


class Engine(Protocol):
    """The interface of an engine, which runs stages. Implementations are final and hold no state of a stage."""

    def aggregate(self, stage: Stage, *, salt: int) -> Aggregates:
        """Answer a stage exactly.

        Args:
            stage: The question, without noise.
            salt: `SALT_BITS` fresh secret bits. They order the groups of a unit, and stay out of logs and text.

        Returns:
            Exact whole numbers by group.
        """
        ...
