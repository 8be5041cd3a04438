"""Laws whose profile lies above or below a known one.

A profile delta(eps) is convex in e^eps. So the polygon through upper bounds at some eps lies above it, and is the profile of a
law with atoms there. From below, each mass of that law has a share of its own (M17): docs/proofs/mechanisms.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands.atoms import Weighted
from neartwin.losses.summands.rounding import ELEMENTARY, U

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.intp]]
Two = tuple[FloatArray, FloatArray]
Profile = Callable[[FloatArray], Two]  # bounds on delta at each eps

ROUNDS, COARSE, MOST = 40, 64, 1 << 16  # of halving cells; cells at first, and at last
FINEST, LEAST, FAINT = 1e-9, 1e-300, 1e-10  # a cell of the whole reach; a mass; a delta whose last cell may be wide


class Sampled(NamedTuple):
    """A profile at some eps: the first is below 0, the second 0."""

    eps: FloatArray
    low: FloatArray
    high: FloatArray

    def polygon(self) -> Two:
        """The masses at eps[2:] and the profile at eps[1:-1] of a law above delta but for what is left at the last eps."""
        scale, high, kept = np.exp(self.eps[1:-1]), np.minimum.accumulate(self.high), np.arange(1, len(self.eps))
        while True:  # delta is convex: it lies below the hull of what it lies below
            falls = -np.diff(high[kept]) / (np.expm1(np.diff(self.eps[kept])) * np.exp(self.eps[kept[:-1]]))
            above = 1 + np.flatnonzero(falls[1:] > falls[:-1])
            if not len(above):
                break
            kept = np.delete(kept, above)
        falls = np.repeat(falls, np.diff(kept))
        profile: FloatArray = np.cumsum((falls * scale * np.expm1(np.diff(self.eps[1:])))[::-1])[::-1]
        mass = -np.diff(np.append(falls, 0.0)) * np.exp(self.eps[2:])
        return mass, profile

    def masses(self, *, above: bool) -> FloatArray:
        """Masses at eps[2:] of a law whose profile is nowhere less than delta, but for that at the last eps; or nowhere more."""
        mass, profile = self.polygon()
        rounding = (16 * len(self.eps) + 4096) * U  # of sums of positive numbers
        shares = 1.0 if above else np.maximum(np.minimum.accumulate(self.shares(profile)), 0.0)
        return mass * shares * (1 + rounding if above else 1 - rounding)

    def shares(self, profile: FloatArray) -> FloatArray:
        """The share of the polygon that lies below delta between each of eps[1:-1] and the next (M17); perhaps below 0."""
        low, high, rise = self.low, self.high, np.expm1(np.diff(self.eps))
        # to the middle of each cell, by the lines from the left and from the right
        fall = 0.5 * rise[1:] * (1 + 1 / rise[:-1]) * (low[1:-1] - high[:-2])
        right = low[2:-1] + 0.5 * rise[1:-1] / (rise[2:] * (1 + rise[1:-1])) * (low[2:-1] - high[3:])
        ends = low[1:-1] / profile
        middle = 2 * np.minimum((low[1:-1] + fall)[:-1], right) / (profile[:-1] + profile[1:])
        last = ends[-1] if low[-2] + 2 * fall[-1] >= 0 else 0.0
        return np.append(np.minimum(np.minimum(ends[:-1], ends[1:]), middle), last)


def sampled(profile: Profile, reach: float, tolerance: float) -> Sampled:
    """A profile at eps from 0 to a reach, closer where its polygon is further from it.

    Args:
        profile: The profile, above 0 at the reach.
        reach: Above 0.
        tolerance: Relative, of the polygon at a delta near 1; more at lesser ones, by their logarithm.
    """
    eps = np.linspace(0.0, reach, COARSE + 1)
    low, high = profile(eps)
    once = np.ones(len(eps))  # asked no more than that
    for _ in range(ROUNDS):
        first = eps[1]
        before = profile(np.array([-first]))
        result = Sampled(*(np.append(*pair) for pair in ((-first, eps), (before[0], low), (before[1], high))))
        enough = tolerance * (1 - 0.5 * np.log(high))
        short, error = 1 - result.shares(result.polygon()[1]), high - low
        wide = short > enough[:-1]
        wide[-1] &= high[-2] > FAINT
        # where the bounds differ by a good part of the fall over a cell, a closer look shows no more
        known = error <= 0.5 * enough * high
        clear = (known[:-1] & known[1:]) | (short * (high[:-1] - high[1:]) > 4 * (error[:-1] + error[1:]))
        cells = np.flatnonzero(wide & clear & (np.diff(eps) > FINEST * reach))
        again = np.append(wide & ~clear, False)
        again = np.flatnonzero((again | np.roll(again, 1)) & (once > 0))
        if len(again):  # but a line of its own may
            lower, upper = profile(eps[again])
            low[again], high[again] = np.maximum(low[again], lower), np.minimum(high[again], upper)
            once[again] = 0.0
        if not len(cells) + len(again) or len(eps) + len(cells) > MOST:
            break
        more = 0.5 * (eps[cells] + eps[cells + 1])
        values = np.array([eps, low, high, once])
        values = np.concatenate([values, np.array([more, *profile(more), np.ones(len(more))])], axis=1)
        eps, low, high, once = values[:, np.argsort(values[0], kind="stable")]
    return result


class Outcomes(NamedTuple):
    """A pair of laws: outcomes by rising ratio.

    Attributes:
        p: Their P-masses, above 0, (n,).
        q: Their Q-masses, above 0, (n,).
        revealed: The P-mass where Q vanishes.
        hidden: The Q-mass where P vanishes.
    """

    p: FloatArray
    q: FloatArray
    revealed: float
    hidden: float

    def weighted(self) -> Weighted:
        """As losses under P; what their masses miss of 1 is outside."""
        loss, whole = np.log(self.p / self.q), float(self.p.sum())
        logs = np.log(self.p / whole)
        outside = 2 * abs(1 - self.revealed - whole) + 1e-14
        return Weighted(loss, logs, np.full(len(loss), 8 * U), 4 * U + ELEMENTARY * np.abs(loss), outside)


def law(sides: Sequence[Sampled], sure: Sequence[float], *, above: bool) -> Outcomes | None:
    """A law whose profile lies on one side of a known one in both directions; None where nothing but 1 lies above.

    Args:
        sides: The profile, without what is surely revealed, and that of the same laws exchanged.
        sure: The masses that are surely revealed, ahead and back.
        above: Whether it lies above.
    """
    masses = [side.masses(above=above) if side.high[1] > 0 else np.zeros(len(side.eps) - 2) for side in sides]
    turned = [mass * np.exp(-side.eps[2:]) for mass, side in zip(masses, sides, strict=True)]
    alone = [known + above * float(side.high[-1]) for known, side in zip(sure, sides, strict=True)]
    if not above:  # both parts have the total variation
        inside = [float(mass.sum() - other.sum()) for mass, other in zip(masses, turned, strict=True)]
        variation = min(x + y for x, y in zip(alone, inside, strict=True))
        alone = [min(one, variation) for one in alone]
        share = [(variation - one) / x if x > 0 else 0.0 for one, x in zip(alone, inside, strict=True)]
        masses, turned = ([part * mass for part, mass in zip(share, some, strict=True)] for some in (masses, turned))

    def rest() -> list[float]:
        return [1 - alone[k] - float(masses[k].sum() + turned[1 - k].sum()) for k in (0, 1)]

    short = max(-min(rest()), 0.0)
    if short and above:  # losses move outward
        if any(one.sum() < 2 * short for one in turned):
            return None
        turned = [one * (1 - 2 * short / float(one.sum())) for one in turned]
    elif short:
        scale = (1 - 1e-9) / (1 + short)
        masses, turned, alone = [x * scale for x in masses], [x * scale for x in turned], [x * scale for x in alone]
    left = rest() if above else [min(rest())] * 2
    p = np.concatenate([turned[1][::-1], left[:1], masses[0]])
    q = np.concatenate([masses[1][::-1], left[1:], turned[0]])
    kept = (p > LEAST) & (q > LEAST)
    revealed, p, q = alone[0] + above * float(p[~kept].sum()), p[kept], q[kept]
    rising = np.argsort(p / q, kind="stable")
    return Outcomes(p[rising], q[rising], revealed, alone[1])
