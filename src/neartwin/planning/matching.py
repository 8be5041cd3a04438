"""Distinct values of a group with units bounded: the most values that its units can be matched to, each value once.

A unit stands for as many values as its limits allow, and each value counts through one unit that has it. A value that many
units have is hardly ever lost, since any of them can stand for it. Knop, Steinke 2023; the proof is in
docs/proofs/distinct-values.md.
"""

from math import floor

import numpy as np

from neartwin.exact import WholeNumbers
from neartwin.planning.stage import Cells, Stage

_ODD = np.uint64(0x9E3779B97F4A7C15)  # mixes the hashes of values


def matched(stage: Stage, cells: Cells, groups: int) -> WholeNumbers:
    """The number of matched values of each public group: (V1).

    Units whose limits let them stand for all their values do so, which loses nothing: (V5). The others share what is left.

    Args:
        stage: The stage, with its limits.
        cells: A row for each group, value and unit, without repetition.
        groups: The number of groups.

    Returns:
        (groups,) the sizes of maximum matchings.
    """
    unit, value = (np.unique(one, return_inverse=True)[1] for one in (cells.count, cells.cell))
    owners, owner = np.unique(unit * groups + cells.group, return_inverse=True)
    values, value = np.unique(value * groups + cells.group, return_inverse=True)
    size = np.bincount(owner, minlength=len(owners))
    tie = (owners % groups).astype(np.uint64)
    np.add.at(tie, owner, cells.cell.astype(np.uint64))
    most = _capacities(stage, owners // groups, tie * _ODD, size)
    found = np.zeros(len(values), dtype=bool)
    found[value[(most >= size)[owner]]] = True
    left = ~found[value] & (most[owner] > 0)
    found[_flow(owner[left], value[left], most)] = True
    return np.bincount(values[found] % groups, minlength=groups)


def _flow(owner: WholeNumbers, value: WholeNumbers, most: WholeNumbers) -> WholeNumbers:
    """The values of a maximum matching in which each owner has at most its capacity."""
    from scipy.sparse import csgraph, csr_array  # slow to import, and most releases need neither

    owners, owner = np.unique(owner, return_inverse=True)
    values, value = np.unique(value, return_inverse=True)
    source, sink = len(owners) + len(values), len(owners) + len(values) + 1
    tails = np.concatenate([np.full(len(owners), source), owner, len(owners) + np.arange(len(values))])
    heads = np.concatenate([np.arange(len(owners)), len(owners) + value, np.full(len(values), sink)])
    room = np.concatenate([most[owners], np.ones(len(owner) + len(values))]).astype(np.int32)
    flow = csgraph.maximum_flow(csr_array((room, (tails, heads)), shape=(sink + 1, sink + 1)), source, sink).flow
    into = flow[[sink]].tocoo()
    return values[into.col[into.data < 0] - len(owners)]


def _capacities(stage: Stage, unit: WholeNumbers, tie: WholeNumbers, size: WholeNumbers) -> WholeNumbers:
    """The most values that each unit stands for in each of its groups, by its own rows alone.

    Groups with most of a unit's values come first, then those with the least tie. Over several groups a unit stands for one
    more value in each in turn, while its limits allow it.

    Args:
        stage: The stage, with its limits.
        unit: (owners,) the unit of each pair of a unit and a group, increasing.
        tie: (owners,) the order among equals.
        size: (owners,) the number of values.

    Returns:
        (owners,) the capacities.
    """
    order, place = np.lexsort((tie, -size, unit)), np.empty_like(unit)
    place[order] = _turns(unit)
    most = np.where(place < (stage.groups_per_unit or len(size)), np.minimum(size, stage.rows_per_group), 0)
    whole = floor(stage.norm**2) if stage.norm is not None else stage.rows_per_unit or size.sum()
    slot = np.repeat(np.arange(len(size)), most)
    turn = _turns(slot)
    by = np.lexsort((place[slot], turn, unit[slot]))
    cost = np.ones_like(turn) if stage.norm is None else 2 * turn[by] + 1  # so that they add up to squares
    total, of = np.cumsum(cost), unit[slot[by]]
    within = total - (total - cost)[np.searchsorted(of, of)] <= whole
    return np.bincount(slot[by][within], minlength=len(size))


def _turns(runs: WholeNumbers) -> WholeNumbers:
    """The place of each number in its run of equal ones. runs: increasing."""
    return np.arange(len(runs)) - np.searchsorted(runs, runs)


def shortfalls(costs: list[int], moved: list[int]) -> list[int]:
    """How far each candidate falls behind the one that beats it by most, beside what a unit moves the two: (V6).

    Args:
        costs: The cost of each candidate, which one unit moves by at most `moved` times the parts of a score.
        moved: The sensitivity of each cost.

    Returns:
        The scores, of which the least is best. One unit moves each by at most the parts of a score.
    """
    pairs = list(zip(costs, moved, strict=True))
    return [max((cost - other) // (far + away) for other, away in pairs) for cost, far in pairs]
