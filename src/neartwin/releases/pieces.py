"""A noisy answer some groups at a time, for results that no memory holds.

Statistics of cells (quantiles, histograms) come from a second stream of counts by group and cell, which is read beside the
stream of groups: both are sorted by key, so that what a part of the groups needs lies together. A group's cells are dense, zeros
included, only while its part is worked on.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.engines.base import SALT_BITS, Aggregates, Cells, Streaming
from neartwin.exact import WholeNumbers
from neartwin.queries.plan import GroupPlan, Split
from neartwin.releases.noising import Kept, Noisy, kept_groups, noised, nothing, sortable

GROUPS = 2**17  # exact groups, or cells that have rows, in memory at a time
CELLS = 2**19  # of each tree, of the groups that are worked on together

_Rank = tuple[tuple[bool, str, object], ...]


def pieces(plan: GroupPlan, engine: Streaming, source: noise.Source) -> Iterator[Noisy]:
    """The answer of `answered` in parts: the same groups in the same order, with fresh noise of the same laws.

    A plan that fits one part draws the same noise in the same order. Raises anything: the caller makes one failure of all.
    """
    salt = source.bits(SALT_BITS)
    most = min([max(1, CELLS // split.tree.cells) for split in plan.splits.values()], default=GROUPS)
    readers = {
        name: _CellReader(engine.batches(split.stage, salt=salt, groups=GROUPS), split)
        for name, split in plan.splits.items()
    }
    given = engine.batches(plan.stage, salt=salt, groups=GROUPS) if plan.stage.measures else iter([nothing(plan)])
    for aggregates in given:
        for first, kept in kept_groups(plan, aggregates, source).parts(most):
            leaves = {name: reader.leaves(kept, first) for name, reader in readers.items()}
            yield noised(plan, kept, leaves, source)


@dataclass(slots=True)
class _Held:
    """A part of a stream of cells. ranks: of its discovered groups, by which they are sorted; done: rows that are behind us."""

    cells: Cells
    ranks: list[_Rank]
    done: int = 0


class _CellReader:
    """Reads the stream of one split in the order of its groups, once."""

    def __init__(self, batches: Iterator[Aggregates], split: Split) -> None:
        """Reads nothing yet."""
        self._batches, self._cells = batches, split.tree.cells
        self._public = split.stage.keys is not None
        self._held: _Held | None = None
        self._passed: _Rank = ()

    def leaves(self, kept: Kept, first: int) -> WholeNumbers:
        """(groups, cells) exact counts for a part of the groups that begins at `first`; what comes before it is passed over."""
        found = np.zeros((len(kept.keys), self._cells), dtype=np.int64)
        if not self._public and kept.keys:
            ranks = [sortable(key) for key in kept.keys]
            self._passed = _rising([self._passed, *ranks])
            own = {rank: place for place, rank in enumerate(ranks)}
        while len(kept.keys) and (held := self._current()) is not None:
            start, groups = held.done, held.cells.group
            if self._public:
                end = int(np.searchsorted(groups, first + len(kept.keys)))
                place = groups[start:end] - first
            else:
                begin = int(groups[start])
                beyond = bisect_right(held.ranks, self._passed, lo=begin)
                end = int(np.searchsorted(groups, beyond))
                places = np.array([own.get(rank, -1) for rank in held.ranks[begin:beyond]], dtype=np.int64)
                place = places[groups[start:end] - begin]
            _put(found, place, held.cells.cell[start:end], held.cells.count[start:end])
            held.done = end
            if end < len(groups):
                break
        return found

    def _current(self) -> _Held | None:
        """What is read and not behind us, or None at the end of the stream."""
        while self._held is None or self._held.done == len(self._held.cells.group):
            following = next(self._batches, None)
            if following is None:
                return None
            if following.cells is None or np.any(np.diff(following.cells.group) < 0):
                raise ValueError("the answer to a split is cells, sorted by group")
            ranks = [] if self._public else [sortable(key) for key in following.keys]
            _rising(ranks)
            self._held = _Held(following.cells, ranks)
        return self._held


def _rising(ranks: list[_Rank]) -> _Rank:
    """The last of them; `ValueError` where an engine's order is not the one of keys, for then cells would be missed."""
    if any(after <= before for before, after in pairwise(ranks)):
        raise ValueError("groups are sorted by key")
    return ranks[-1] if ranks else ()


def _put(found: WholeNumbers, place: NDArray[np.int64], cell: NDArray[np.int64], count: NDArray[np.int64]) -> None:
    wanted = (place >= 0) & (place < len(found))
    found[place[wanted], cell[wanted]] = count[wanted]
