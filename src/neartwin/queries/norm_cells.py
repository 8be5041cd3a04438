"""An L2 norm clip of a unit's counts by group and node of a tree, in whole numbers: for quantiles and histograms.

A unit has c_gb values in cell b of group g. Level l of the tree has nodes of width w_l, and node j of it counts for the unit
n_lgj, the sum of its c_gb over the cells b of the node. All nodes of all groups and levels are one vector, of squared length
S = sum over l, g, j of n_lgj^2. A histogram is a tree of one level.

Every value of the unit counts for the same weight, in parts, P of which are a row: P where P^2 S <= limit^2, else
floor(F limit / R), R the least whole number with R^2 >= F^2 S, and F = 1024, so that rounding R up loses next to nothing. No
row is dropped. Node counts are sums of weights, so the unit's vector is exactly the weight times its n: of squared length
P^2 S <= limit^2, or at most F^2 limit^2 S / R^2 <= limit^2. Nothing is rounded after the weight is, so truncating it toward
zero is all the care that is needed. Counts are never negative: two units' vectors have an inner product of at least 0, so a
replaced unit moves the counts by at most 2 limit^2 in squared length.

F^2 S is at most 2^20 L m^2 for m values of the unit in L levels: below 2^126 for tables of up to 2^50 rows.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from neartwin.errors import ParameterError
from neartwin.mechanisms.count_trees import CountTree
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.queries.norm import LARGEST
from neartwin.queries.sensitivity import Sensitivity

K = TypeVar("K", bound=Hashable)

FINE = 2**10  # F
_UNIT_BITS = 25  # about, of the limit in parts
_LEAST_BITS = 10  # of the parts of a row


@dataclass(frozen=True, slots=True)
class CellClip:
    """limit: of a unit's length, in parts. widths: cells of a node, level by level, of which the last is 1."""

    limit: int
    widths: tuple[int, ...]

    def most(self, parts: int) -> int:
        """The largest squared length, in rows, at which every value counts whole."""
        return self.limit**2 // parts**2

    def weight(self, counts: Mapping[tuple[K, int], int], parts: int) -> int:
        """What each value of a unit counts for, in parts. counts: of its values by group and cell, cells from 0.

        >>> clip = CellClip(limit=5 * 1024, widths=(1,))
        >>> clip.weight({("a", 0): 3, ("b", 7): 4}, 1024), clip.weight({("a", 0): 6, ("b", 7): 8}, 1024)
        (1024, 512)
        """
        squared = 0
        for width in self.widths:
            nodes: Counter[tuple[K, int]] = Counter()
            for (group, cell), count in counts.items():
                nodes[group, cell // width] += count
            squared += sum(count**2 for count in nodes.values())
        if squared <= self.most(parts):
            return parts
        return FINE * self.limit // (math.isqrt(FINE**2 * squared - 1) + 1)


def parts_for(norm: Fraction) -> int:
    """Parts of a row, so fine that truncating a weight loses next to nothing."""
    return 1 << max(_LEAST_BITS, _UNIT_BITS - math.ceil(norm).bit_length())


def cell_clip(norm: Fraction, tree: CountTree) -> CellClip:
    """A unit with `norm` values, all in one cell of one group, is just within; each is counted in every level.

    Errors: `ParameterError` for a norm so large that the engines' exact sums would not hold it.

    >>> cell_clip(Fraction(3), CountTree(cells=100, branching=10)).widths
    (10, 1)
    """
    if norm > LARGEST:
        raise ParameterError("norm_per_unit", float(norm), f"must be at most {LARGEST:,} rows")
    squared = norm**2 * tree.levels * parts_for(norm) ** 2
    return CellClip(math.isqrt(math.floor(squared)), tree.widths)


def of_clipped_cells(neighbours: Neighbours, clip: CellClip, tree: CountTree, groups: int) -> Sensitivity:
    """Of all counts by group and node together, in parts. groups: how many there are, or a unit may be in."""
    times = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    nodes = groups * sum(-(-tree.cells // width) for width in tree.widths)
    why = (
        f"a unit's counts in all groups, cells and {tree.levels} level{'s' * (tree.levels > 1)} are one vector, clipped to "
        f"length {clip.limit:,} in parts of a row"
    )
    return Sensitivity(times * clip.limit * nodes, clip.limit, times * nodes, why, times * clip.limit**2)
