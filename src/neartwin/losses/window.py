r"""A smooth share of a law on a line: Phi((u - c)/w) of the mass at u, and the rest Phi(-(u - c)/w); together the whole.

Both are entire, and Phi(x + iy) = int_{-inf}^x phi(v + iy) dv with |phi(v + iy)| = e^{y^2/2} phi(v), so that |Phi(x + iy)| <=
e^{y^2/2} Phi(x): whatever a strip of width y proves of an integral of the whole law, it proves of a part relative to that part,
with e^{y^2/(2 w^2)} more. A sharp edge would have no strip at all.

Rounding: the argument x errs by 4U|x|, and d log Phi/dx = phi/Phi is at most |x| + 1, and at most e^{-x^2/2} for x >= 0; log_ndtr
is measured against mpmath in `tests/losses/test_rounding.py`.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.special import log_ndtr

from neartwin.exact import FloatArray
from neartwin.frozen import dataclass
from neartwin.losses.rounding import ELEMENTARY, U

DEEP = 2.0  # of a valley, in the logarithm of the density
SLIGHT = 5.0  # how far below its own hump a part may have the other's, in the logarithm of all copies
WIDTHS = (2.0, 1.5, 1.0, 0.75, 0.5, 0.375, 0.25)


@dataclass(frozen=True, slots=True)
class Window:
    """The share Phi(side (u - centre)/width); an infinite width is the whole law."""

    centre: float
    width: float
    side: float  # 1: what lies above the centre; -1: below

    @property
    def bend(self) -> float:
        """The strip of width y costs e^{bend y^2/2}, the noise's own density included."""
        return 1 + 1 / self.width**2

    def log_share(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logarithm of the share at each u, and its error."""
        x = self.side * (u - self.centre) / self.width
        value = np.asarray(log_ndtr(x))
        slope = np.where(x < 0, np.abs(x) + 1, np.exp(-0.5 * x * x))
        return value, 4.1 * U * np.abs(x) * slope + ELEMENTARY * (1 + np.abs(value))


WHOLE = Window(0.0, math.inf, 1.0)


def split(log_density: FloatArray, u: FloatArray, copies: int) -> tuple[Window, Window] | None:
    """Below and above the deepest valley between two humps, so that neither part has the other's; None where there is one hump.

    log_density: of one copy, tilted, at increasing u. A heuristic: every two windows add up to the whole.
    """
    inner = log_density[1:-1]
    peaks = 1 + np.flatnonzero((inner > log_density[:-2]) & (inner >= log_density[2:]))
    best, depth = None, DEEP
    for left, right in itertools.pairwise(peaks):
        valley = int(left + np.argmin(log_density[left : right + 1]))
        fall = float(min(log_density[left], log_density[right]) - log_density[valley])
        if fall > depth:
            best, depth = (left, valley, right), fall
    if best is None:
        return None
    left, valley, right = best
    centre = round(float(u[valley]) * 16) / 16
    few = log_density[left] - SLIGHT - math.log(copies), log_density[right] - SLIGHT
    for width in WIDTHS:
        below, above = Window(centre, width, -1.0), Window(centre, width, 1.0)
        far = log_density + below.log_share(u)[0], log_density + above.log_share(u)[0]
        if far[0][valley:].max() < max(few[0], log_density[valley]) and far[1][: valley + 1].max() < max(
            few[1], log_density[valley]
        ):
            break
    return below, above
