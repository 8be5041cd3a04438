"""Aliases: a rule of step 2pi/W on a line also sees delta at eps + mW; two Chernoff bounds say how little.

A term m of the sum is e^{lam m W} delta(eps + mW) >= 0, and delta(x) <= c(s) e^{K(s) - s x} for every s (total.py), so
    m > 0:  at most c(s) e^{K(s) - s eps} / (e^{(s-lam)W} - 1) together, any s > lam; 0 when eps + W >= top;
    m < 0:  at most c(s) e^{K(s) - s eps} / (e^{(lam-s)W} - 1) together, any 0 <= s < lam.
With the gap |s - lam| fixed, the least W that keeps this below a goal is read off; for a Gaussian the best gap is z/deviation
and W = z deviation, z^2/2 the logarithm of the goal. A law with a far hump wants a smaller gap, and W is long.

Which frequencies of a long line can be heard: where atoms of many kinds turn, they are seldom together again.

A long line is summed term by term, each |M(s)/M(lam)| times the kernel, which is at most step/pi
e^{mu^2 (lam(lam+1) - t^2)/2} (2/|s(s+1)| + dip) and falls in t. `Summand.quiet` bounds |M(s)/M(lam)| for all frequencies near
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
    """The line's neighbours mW away, bounded by Chernoff at one s above lam and one below."""

    lam: float
    period: float
    top: float
    above: tuple[float, float]  # (s, log of c(s) M(s) / (e^{(s-lam)W} - 1))
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
    lam, best = saddle.lam, (math.inf, saddle.lam, 0.0)
    enough, tried = GENEROUS * abs(gap) * saddle.deviation**2, [lam]
    for one in itertools.chain((gap,), others):
        s = max(lam + one, 0.0)
        if s in tried:
            continue
        tried.append(s)
        log = _chernoff(total, s)
        if not math.isfinite(log):
            continue
        period = (log - s * saddle.eps - log_goal + 0.7) / abs(s - lam)
        if period < best[0]:
            best = (period, s, log)
        if period <= enough:
            break
    return best


def find_alias(total: SumOfLosses, saddle: Saddle, log_goal: float, *, longest: float = math.inf) -> Alias:
    """The shortest period found whose aliases at saddle.eps stay below the goal; at most `longest` deviations."""
    lam, deviation, eps = saddle.lam, saddle.deviation, saddle.eps
    need = max(total.log_mgf(lam)[0] - lam * eps - log_goal, 2.0)
    gap = math.sqrt(2 * need) / deviation
    if not math.isfinite(gap):
        raise NoCertificateError
    room = (total.top.loss - eps) * (1 + 1e-6)
    right, above, log_above = _shortest(total, saddle, log_goal, gap, (share * gap for share in SHARES))
    left, below, log_below = _shortest(
        total, saddle, log_goal, -gap, itertools.chain((-lam,), (-share * gap for share in SHARES))
    )
    period = max(min(right, room), left, 2 * deviation) * (1 + 1e-9)
    period = min(period, longest * deviation)
    if not 0 < period < math.inf:
        raise NoCertificateError
    return Alias(
        lam,
        period,
        total.top.loss,
        (above, _over(log_above, lam, above, period)),
        (below, _over(log_below, lam, below, period)),
    )


def _over(log: float, lam: float, s: float, period: float) -> float:
    far = abs(s - lam) * period
    if s == lam or far <= 0:
        return math.inf
    return log - far - math.log(-math.expm1(-far)) + 1e-13 * (1 + abs(log) + far)


MANY = 1024  # nodes from which a quick look pays
TURNS = (1.2, 0.4, 0.0)  # how far the fastest atoms may turn between nodes that are judged together, ever fewer


def audible(
    total: SumOfLosses, lam: float, step: float, nodes: int, kernel: tuple[float, float, float]
) -> tuple[FloatArray, float]:
    """The frequencies whose terms may matter, 0 among them, and the sum of the moduli of all others, rounded up.

    step: between the nodes, so short a float that its products with them are exact. kernel: width squared, the factor of the
    lower one's dip, and the logarithm of what may be lost.
    """
    mu2, ratio, log_goal = kernel
    if nodes < MANY or total.pace == 0:
        return np.arange(nodes + 1.0) * step, 0.0
    every = np.arange(nodes + 1)
    lost, kept = 0.0, every
    share = max(log_goal, -600.0) - math.log(20 * len(every))
    for turn in TURNS:
        each = max(1, int(turn / (step * total.pace)))
        block = kept // each
        first = each * block[np.append(True, np.diff(block) > 0)]
        t: FloatArray = step * first.astype(float)
        size = np.exp(0.5 * mu2 * (lam * (lam + 1) - t * t)) * (
            2 / (np.hypot(t, lam) * np.hypot(t, lam + 1)) + ratio * mu2
        )
        size *= step / math.pi * (1 + 1e-9)
        half = 0.5 * (each - 1) * step
        bound = total.quiet(lam, t + half, half, share - np.log(np.maximum(size, SMALLEST)))
        if bound is None:
            return step * every.astype(float), 0.0
        heard = bound + np.log(size) > share
        heard[0] = True
        lost += each * float(np.exp(bound[~heard]) @ size[~heard]) * 1.01
        kept = (first[heard, None] + np.arange(each)).ravel()
        if each == 1:
            break
    return step * kept[kept <= nodes].astype(float), lost
