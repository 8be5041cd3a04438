"""The ends of bars of a table's mean by noisy numbers of a sample of its units. Arithmetic only, no data.

As `neartwin.queries.sample_means` has it, the noisy T' - m N' is D = X - m Y + sum (B_u - q) y_u at the table's mean m, of y_u
that add up to 0: a unit has at most C rows, of values x in [low, high], and y_u is the sum of its x - m. Such an x is a mixture
of the two bounds, so y_u is a_u (high - m) + b_u (low - m) with a_u + b_u <= C. Over N rows the b_u add up to
B = N (high - m) / (high - low) and the a_u to A = N - B, for the y_u add up to 0. So by `neartwin.queries.sample_tails` D is no
further off than where floor(A / C) + 2 units have C rows at `high` and floor(B / C) + 2 have C rows at `low`: that table, but for
the four units, has this mean, so that no smaller bound holds for all tables.

t(m) is what D passes with probability at most half of `miss` on one side, the bar all m with T' - m N' in [-t'(m), t(m)], the t
of both sides. N is known from above but for a chance of its own. Where m is known to be in a cell [l, h], A and low - m are taken
at h, B and high - m at l, and the noise where |m| is larger, each of which makes t larger: so means beyond (T' + t) / N' of the
cell that ends at the largest possible mean are none, and if that is all of it, the cell's start is the largest. Each t holds for
every table that it is worked out for, so that the least that some outcome takes holds for the table that there is.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from neartwin.exact import FloatArray
from neartwin.queries.mean_ends import mean_bounds
from neartwin.queries.plan import GroupPlan
from neartwin.queries.sample_bars import LADDER, Ends, SampleBars
from neartwin.queries.sample_means import sampled_thresholds
from neartwin.queries.sample_noise import noise_of
from neartwin.queries.sample_sums import rows_at_most
from neartwin.queries.stage import GridColumn

_COUNT = 0.05  # of what may fail, for the number of rows
_STARTS = (
    0.7,
    0.93,
    0.85,
    0.93,
)  # of cells, between the mean that was seen and the end; the last ones where a cell was left
_LEAST = 1e-6  # of the range: narrower cells share their edges
_RATIO = 1.005  # of the distances of neighbouring edges from the nearer bound
_PARTS = 16  # of a bar: cells of wide bars have fewer edges, so that groups share them

Places = NDArray[np.int64]


@lru_cache(maxsize=1)
def _edges() -> FloatArray:
    """Of cells, as parts of the range from 0 to 1."""
    steps = np.arange(np.ceil(np.log(0.5 / _LEAST) / np.log(_RATIO)) + 1)
    near = np.concatenate([[0.0], 0.5 * _RATIO ** -steps[::-1]])
    return np.concatenate([near, 1 - near[-2::-1]])


@dataclass(frozen=True, slots=True)
class SampledMean:
    """The mean of a column, from the noisy total and number of a sample; measures: their names."""

    plan: GroupPlan
    column: GridColumn
    measures: tuple[str, str]
    bars: SampleBars

    def ends(self, totals: FloatArray, numbers: FloatArray, counted: FloatArray) -> Ends:
        """The least and largest mean of the table, in steps around the column's centre; (groups,).

        totals, numbers: noisy, in steps and values. counted: what `neartwin.queries.sample_sums.counter` names.
        """
        rows = rows_at_most(self.plan, self.column, self.bars.part(_COUNT), counted)
        bars = self.bars.part(1 - _COUNT)
        told = sampled_thresholds(self.plan, self.column, self.measures, rows, bars)
        least, largest = mean_bounds(totals, numbers, told)
        seen = np.clip(totals / np.where(numbers >= 1, numbers, 1.0), least, largest)
        levels = np.searchsorted(LADDER, np.minimum(rows / self.plan.bounding.rows_per_group, LADDER[-1]))
        some = np.flatnonzero(numbers >= 1)
        for end, sign in ((least, 1), (largest, -1)):  # where m is too small D is large
            left = some
            for start in _STARTS:
                now, mean = end[left], seen[left]
                cells = self._cells(mean, mean + start * (now - mean), now, levels[left])
                reach = self._reaches(cells, sign, bars)
                first = mean + start * (now - mean)
                found = sign * np.clip(sign * (totals[left] - sign * reach) / numbers[left], sign * now, sign * first)
                end[left] = found
                left = left[(found == first) | (start == _STARTS[0])]
        return least, largest

    def _cells(self, seen: FloatArray, first: FloatArray, end: FloatArray, levels: Places) -> Places:
        """(3, n) numbers of the edges around cells from `first` to `end`, rounded outwards, and levels."""
        edges, low, span = _edges(), self.column.low, self.column.high - self.column.low
        near, first_edge, far = (np.searchsorted(edges, (it - low) / span) for it in (seen, first, end))
        coarse = 2 ** np.floor(np.log2(np.maximum(np.abs(far - near) / _PARTS, 1))).astype(np.int64)
        below = np.maximum(np.minimum(first_edge, far) - 1, 0) // coarse * coarse
        above = np.minimum(-(-np.maximum(first_edge, far) // coarse) * coarse, len(edges) - 1)
        return np.stack([below, above, levels])

    def _reaches(self, cells: Places, sign: int, bars: SampleBars) -> FloatArray:
        """`_reach` of each, worked out once for all that are the same."""
        each, back = np.unique(cells, axis=1, return_inverse=True)
        found = np.array([self._reach((i, j), level, sign, bars) for i, j, level in each.T.tolist()])
        return np.asarray(found[back.reshape(-1)])

    def _reach(self, cell: tuple[int, int], level: int, sign: int, bars: SampleBars) -> float:
        """What D passes on the side of the sign, with a mean between two edges and units of C rows up to a level."""
        least, most = (float(_edges()[place]) for place in cell)
        low, span, rows = self.column.low, self.column.high - self.column.low, self.plan.bounding.rows_per_group
        far = max(abs(low + span * least), abs(low + span * most))
        total, number = (self.plan.measures[name] for name in self.measures)
        laws = (total.mechanism.law, 1 / total.parts), (number.mechanism.law, far / number.parts)

        def half_width(confidence: float) -> float:
            each = (1 + confidence) / 2
            return float(total.half_width(each)) + far * float(number.half_width(each))

        sides = (most, sign * rows * span * (1 - least)), (1 - least, -sign * rows * span * most)
        sums = tuple((int(LADDER[level] * part) + 2, size) for part, size in sides if size)
        found: float = noise_of(laws, half_width).with_sample(bars.rate, sums, bars.miss / 2)
        return found
