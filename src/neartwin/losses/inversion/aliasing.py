"""Aliases: a rule of step 2pi/W on a line also sees delta at eps + mW; two Chernoff bounds say how little.

A term m of the sum is e^{tilt m W} delta(eps + mW) >= 0, and delta(x) <= c(s) e^{K(s) - s x} for every s (total.py), so
    m > 0:  at most c(s) e^{K(s) - s eps} / (e^{(s-tilt)W} - 1) together, any s > tilt; 0 when eps + W >= top;
    m < 0:  at most c(s) e^{K(s) - s eps} / (e^{(tilt-s)W} - 1) together, any 0 <= s < tilt.
With the gap |s - tilt| fixed, the least W that keeps this below a goal is read off; for a Gaussian the best gap is z/deviation
and W = z deviation, z^2/2 the logarithm of the goal. A law with a far hump wants a smaller gap, and W is long.

Which frequencies of a long line are significant: where atoms of many kinds turn, they are seldom together again.

A long line is summed term by term, each |M(s)/M(tilt)| times the kernel, which is at most step/pi
e^{mu^2 (tilt(tilt+1) - t^2)/2} (2/|s(s+1)| + dip) and falls in t. `Summand.log_modulus_bound` bounds |M(s)/M(tilt)| for all near
one, so that neighbouring nodes are judged at once, by the first of them; where that is not enough fewer are taken together, and
at last each alone. Terms proved to be too small to matter are never computed: what they may add together is charged with the
frequency cut, on both sides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion.saddle import Saddle
from neartwin.losses.inversion.total import SumOfLosses, log_c
from neartwin.losses.summands.rounding import SMALLEST, NoCertificateError, U

SHARES = (0.5, 0.25, 0.1, 0.03, 2.0, 4.0)  # further gaps tried, as shares of a Gaussian's best
GENEROUS = 1.4  # a period so much longer than a Gaussian's is good enough


class Alias(NamedTuple):
    """The line's neighbours mW away, bounded by Chernoff at one s above tilt and one below."""

    tilt: float
    period: float
    top: float
    above: tuple[float, float]  # (s, log of c(s) M(s) / (e^{(s-tilt)W} - 1))
    below: tuple[float, float]

    def log_bound(self, eps: FloatArray) -> FloatArray:
        """Log of the bound at each eps."""
        right = np.where(eps + self.period * (1 - 4 * U) >= self.top, -np.inf, self.above[1] - self.above[0] * eps)
        bound: FloatArray = np.logaddexp(right, self.below[1] - self.below[0] * eps) + 1e-12
        return bound


def _chernoff(total: SumOfLosses, s: float) -> float:
    """Log of c(s) M(s), rounded up; 0 at s = 0."""
    return total.log_mgf_roughly_above(s) + log_c(s) if s > 0 else 0.0


def _shortest(
    total: SumOfLosses, saddle: Saddle, log_goal: float, gap: float, others: Iterable[float]
) -> tuple[float, float, float]:
    """The shortest period over a few gaps (signed), with its s and log c(s) M(s); the first that is good enough."""
    tilt, best = saddle.tilt, (math.inf, saddle.tilt, 0.0)
    enough, tried = GENEROUS * abs(gap) * saddle.deviation**2, [tilt]
    for one in itertools.chain((gap,), others):
        s = max(tilt + one, 0.0)
        if s in tried:
            continue
        tried.append(s)
        log = _chernoff(total, s)
        if not math.isfinite(log):
            continue
        period = (log - s * saddle.eps - log_goal + 0.7) / abs(s - tilt)
        if period < best[0]:
            best = (period, s, log)
        if period <= enough:
            break
    return best


def find_alias(total: SumOfLosses, saddle: Saddle, log_goal: float, *, longest: float = math.inf) -> Alias:
    """The shortest period found whose aliases at saddle.eps stay below the goal; at most `longest` deviations."""
    tilt, deviation, eps = saddle.tilt, saddle.deviation, saddle.eps
    need = max(total.log_mgf(tilt)[0] - tilt * eps - log_goal, 2.0)
    gap = math.sqrt(2 * need) / deviation
    if not math.isfinite(gap):
        raise NoCertificateError
    room = (total.top.loss - eps) * (1 + 1e-6)
    right, above, log_above = _shortest(total, saddle, log_goal, gap, (share * gap for share in SHARES))
    left, below, log_below = _shortest(
        total, saddle, log_goal, -gap, itertools.chain((-tilt,), (-share * gap for share in SHARES))
    )
    period = max(min(right, room), left, 2 * deviation) * (1 + 1e-9)
    period = min(period, longest * deviation)
    if not 0 < period < math.inf:
        raise NoCertificateError
    return Alias(
        tilt,
        period,
        total.top.loss,
        (above, _over(log_above, tilt, above, period)),
        (below, _over(log_below, tilt, below, period)),
    )


def _over(log: float, tilt: float, s: float, period: float) -> float:
    far = abs(s - tilt) * period
    if s == tilt or far <= 0:
        return math.inf
    return log - far - math.log(-math.expm1(-far)) + 1e-13 * (1 + abs(log) + far)


MANY = 1024  # nodes from which a quick look pays
TURNS = (1.2, 0.4, 0.0)  # how far the fastest atoms may turn between nodes that are judged together, ever fewer


def significant_frequencies(
    total: SumOfLosses, tilt: float, step: float, nodes: int, kernel: tuple[float, float, float]
) -> tuple[FloatArray, float]:
    """The frequencies whose terms may matter, 0 among them, and the sum of the moduli of all others, rounded up.

    step: between the nodes, so short a float that its products with them are exact. kernel: width squared, the factor of the
    lower one's dip, and the logarithm of what may be lost.
    """
    mu2, ratio, log_goal = kernel
    if nodes < MANY or total.fastest_frequency == 0:
        return np.arange(nodes + 1.0) * step, 0.0
    every = np.arange(nodes + 1)
    lost, kept = 0.0, every
    share = max(log_goal, -600.0) - math.log(20 * len(every))
    for turn in TURNS:
        each = max(1, int(turn / (step * total.fastest_frequency)))
        block = kept // each
        first = each * block[np.append(True, np.diff(block) > 0)]
        t: FloatArray = step * first.astype(float)
        size = np.exp(0.5 * mu2 * (tilt * (tilt + 1) - t * t)) * (
            2 / (np.hypot(t, tilt) * np.hypot(t, tilt + 1)) + ratio * mu2
        )
        size *= step / math.pi * (1 + 1e-9)
        half = 0.5 * (each - 1) * step
        bound = total.log_modulus_bound(tilt, t + half, half, share - np.log(np.maximum(size, SMALLEST)))
        if bound is None:
            return step * every.astype(float), 0.0
        significant = bound + np.log(size) > share
        significant[0] = True
        lost += each * float(np.exp(bound[~significant]) @ size[~significant]) * 1.01
        kept = (first[significant, None] + np.arange(each)).ravel()
        if each == 1:
            break
    return step * kept[kept <= nodes].astype(float), lost
