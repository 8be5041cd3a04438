r"""A smooth share of a law on a line: Phi((u - c)/w) of the mass at u, and the rest Phi(-(u - c)/w); together the whole.

A share may be split again, so that products of such factors add up to the whole too. All are entire, and Phi(x + iy) =
int_{-inf}^x phi(v + iy) dv with |phi(v + iy)| = e^{y^2/2} phi(v), so that |Phi(x + iy)| <= e^{y^2/2} Phi(x): whatever a strip
of width y proves of an integral of the whole law, it proves of a part relative to that part, with e^{y^2/(2 w^2)} more for each
factor. A sharp edge would have no strip at all.

Rounding: the argument x errs by 4U|x|, and d log Phi/dx = phi/Phi is at most |x| + 1, and at most e^{-x^2/2} for x >= 0; log_ndtr
is measured against mpmath in `tests/losses/test_rounding.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.rounding import ELEMENTARY, U
from neartwin.special import log_ndtr

if TYPE_CHECKING:
    from neartwin.losses.loss import Summand


@dataclass(frozen=True, slots=True)
class Window:
    """The share Phi(side (u - centre)/width), times that of another window; an infinite width is the whole law."""

    centre: float
    width: float
    side: float  # 1: what lies above the centre; -1: below
    within: Window | None = None

    @property
    def bend(self) -> float:
        """The strip of width y costs e^{bend y^2/2}, the noise's own density included."""
        return 1 / self.width**2 + (1.0 if self.within is None else self.within.bend)

    def log_share(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logarithm of the share at each u, and its error."""
        x = self.side * (u - self.centre) / self.width
        value = np.asarray(log_ndtr(x))
        slope = np.where(x < 0, np.abs(x) + 1, np.exp(-0.5 * x * x))
        error = 4.1 * U * np.abs(x) * slope + ELEMENTARY * (1 + np.abs(value))
        if self.within is None:
            return value, error
        other, more = self.within.log_share(u)
        return value + other, error + more + U * np.abs(value + other)

    def sides(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logarithms of the factors that rise with u and of those that fall, each (n,)."""
        own = np.asarray(log_ndtr(self.side * (u - self.centre) / self.width))
        rising, falling = self.within.sides(u) if self.within is not None else np.zeros((2, len(u)))
        return (rising + own, falling) if self.side > 0 else (rising, falling + own)

    def highest(self, slope: float) -> float:
        """About the highest place where the share times e^{slope u - u^2/2} can be greatest."""
        if self.side > 0:
            return max(self.centre, slope if self.within is None else self.within.highest(slope))
        own = (slope + self.centre / self.width**2) / (1 + 1 / self.width**2)
        return max(self.centre, own)

    def falls(self, u: FloatArray) -> FloatArray:
        """At least how much the logarithm of the share falls for each unit of u, from there on, (n,)."""
        own = np.maximum(u - self.centre, 0.0) / self.width**2 if self.side < 0 else np.zeros(len(u))
        return own if self.within is None else own + self.within.falls(u)


WHOLE = Window(0.0, math.inf, 1.0)


class Divisible(NamedTuple):
    """One copy of a law on a line, at equal steps: what lies below and above an edge can be looked at apart.

    u, losses, log_density (P's, times the step): (m,), uncertified. part: so many copies of what a window shows.
    """

    copies: int
    u: FloatArray
    losses: FloatArray
    log_density: FloatArray
    part: Callable[[Window, int], Summand]
