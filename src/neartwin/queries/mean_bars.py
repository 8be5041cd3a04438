"""How far the noisy total of a mean can be from the mean times the noisy number of values. Arithmetic only, no data.

With m the exact mean, T = m N, so the noisy T' - m N' is the noise X - m Y alone, whatever T and N are. For each m let t(m) be
such that P(|X - m Y| <= t(m)) >= the confidence; it rises with |m|, and is taken at the farther end of each of a few cells. It
is never more than by the union bound, which is taken where it is less, or no law of the pair is known.
"""

from dataclasses import dataclass

import numpy as np

from neartwin.exact import FloatArray
from neartwin.mechanisms.sums_of_noises import half_widths_of_sums
from neartwin.queries.plan import Measure
from neartwin.queries.stage import GridColumn

_CELLS = 16  # of the column's range


@dataclass(frozen=True, slots=True)
class Thresholds:
    """edges: (cells + 1,) of means, in steps around the column's centre. reach: (cells,) t of each cell."""

    edges: FloatArray
    reach: FloatArray


def thresholds(total: Measure, number: Measure, column: GridColumn, confidence: float) -> Thresholds:
    """Of the noise of a total and of a number of values, in steps and values."""
    edges = np.linspace(column.low, column.high, _CELLS + 1)
    far = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    laws = total.mechanism.law, number.mechanism.law
    weights = np.stack([np.full(_CELLS, 1 / total.parts), far / number.parts])
    return Thresholds(edges, half_widths_of_sums(laws, weights, confidence))
