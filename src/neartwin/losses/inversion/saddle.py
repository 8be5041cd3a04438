"""Where to put the vertical line: the saddle point of K(lam) - lam eps - log lam(lam+1).

A heuristic: any lam > 0 gives a valid bracket, the saddle the narrowest. h(lam) = K'(lam) - 1/lam - 1/(lam+1) is
increasing (K'' >= 0), so both searches are monotone and safeguarded by bisection in log lam.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from neartwin.losses.inversion.total import SumOfLosses

LOWEST, HIGHEST = math.log(1e-9), math.log(1e9)


class Saddle(NamedTuple):
    """The line's lam, the eps it is best for, the deviation of the tilted loss, and the size of delta there."""

    lam: float
    eps: float
    deviation: float
    log_delta: float

    def lower(self, total: SumOfLosses, factor: float) -> Saddle:
        """The same question on a line nearer to 0: when a tilted law has two humps, less tilt leaves one."""
        lam = self.lam * factor
        return self._replace(lam=lam, deviation=math.sqrt(max(total.cumulants(lam)[2], 1e-300)))


def _at(total: SumOfLosses, lam: float) -> tuple[float, float, float, float]:
    """Log of the saddle-point estimate of delta(eps), that eps, K'', and d eps/d lam; the first falls by lam times that."""
    k, k1, k2 = total.cumulants(lam)
    eps = k1 - 1 / lam - 1 / (lam + 1)
    spread = k2 + 1 / lam**2 + 1 / (1 + lam) ** 2
    log_delta = k - lam * eps - math.log(lam) - math.log1p(lam) - 0.5 * math.log(2 * math.pi * spread)
    return log_delta, eps, k2, spread


def _root(function: Callable[[float], tuple[float, float]], start: float, close: float, narrow: float = 1e-3) -> float:
    """X in [LOWEST, HIGHEST] where a decreasing function, given with its slope, is near 0: Newton, safeguarded by bisection."""
    low, high, x = LOWEST, HIGHEST, min(max(start, LOWEST + 1), HIGHEST - 1)
    for _ in range(48):
        f, slope = function(x)
        if not math.isfinite(f):  # K overflowed: lam is too large
            high = x
            x = 0.5 * (low + high)
            continue
        if abs(f) < close:
            break
        low, high = (x, high) if f > 0 else (low, x)
        x = x - max(-2.0, min(2.0, f / slope)) if slope < 0 else 0.5 * (low + high)
        if not low < x < high:
            x = 0.5 * (low + high)
        if high - low < narrow:
            break
    return x


def _saddle(total: SumOfLosses, lam: float) -> Saddle:
    log_delta, eps, k2, _ = _at(total, lam)
    return Saddle(lam, eps, math.sqrt(max(k2, 1e-300)), log_delta)


def _near(variance: float, wanted: float) -> float:
    """The logarithm of a Gaussian's lam of this variance: one of Newton's steps from where its density alone has it."""
    x = min(max(0.5 * math.log(max(-2 * wanted, 1.0) / variance), LOWEST), HIGHEST)
    lam = math.exp(x)
    spread = variance + 1 / (lam * lam) + 1 / ((1 + lam) * (1 + lam))
    log_delta = 1 + lam / (1 + lam) - 0.5 * (variance * lam * lam + math.log(2 * math.pi * spread))
    return x + (log_delta - x - math.log1p(lam) - wanted) / (lam * lam * spread)


def for_delta(total: SumOfLosses, delta: float, close: float = 0.5) -> Saddle:
    """The saddle whose estimated delta is about the one wanted; 0 < delta.

    close: how near in its logarithm, before a last step.
    """
    wanted = math.log(delta)
    near = _near(max(total.cumulants(1e-3)[2], 1e-300), wanted)
    last = (0.0, 0.0, 0.0, 0.0, 0.0, -1.0)  # where, its lam, eps, K'' and d eps/d lam, and how far off

    def above(x: float) -> tuple[float, float]:
        nonlocal last
        lam = math.exp(x)
        log_delta, eps, k2, rise = _at(total, lam)
        # its logarithm is nearly linear in log lam, for a Gaussian
        share = wanted / log_delta if log_delta < 0 else 1.0
        gap = -wanted * math.log(share) if log_delta < 0 else log_delta - wanted
        slope = -lam * lam * rise * share
        last = (x, lam, eps, k2, rise, gap / slope if abs(gap) < close and slope < 0 else 0.0)
        return gap, slope

    x = _root(above, near, close, min(1e-3, close))
    if x != last[0]:
        above(x)
    _, lam, eps, k2, rise, off = last
    further = lam * math.expm1(-off)  # Newton's next step, the curvature taken as it is here
    return Saddle(lam + further, eps + rise * further, math.sqrt(max(k2, 1e-300)), wanted)


def for_eps(total: SumOfLosses, eps: float) -> Saddle:
    """The saddle of one eps, any sign."""
    _, k1, k2 = total.cumulants(1e-3)
    deviation = math.sqrt(max(k2, 1e-300))
    start = math.log((abs(eps - k1) / deviation + 1) / deviation)

    def below(x: float) -> tuple[float, float]:
        lam = math.exp(x)
        _, found, _, rise = _at(total, lam)
        return eps - found, -lam * rise

    x = _root(below, start, 0.05 * deviation)
    found = _saddle(total, math.exp(x))
    log_delta = found.log_delta + found.lam * (found.eps - eps)
    return found._replace(eps=eps, log_delta=min(log_delta, 0.0))
