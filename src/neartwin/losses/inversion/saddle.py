"""Where to put the vertical line: the saddle point of K(tilt) - tilt eps - log tilt(tilt+1).

A heuristic: any tilt > 0 gives a valid bracket, the saddle the narrowest. h(tilt) = K'(tilt) - 1/tilt - 1/(tilt+1) is
increasing (K'' >= 0), so both searches are monotone and safeguarded by bisection in log tilt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.rounding import NoCertificateError

LOWEST, HIGHEST = math.log(1e-9), math.log(1e9)


class Saddle(NamedTuple):
    """The line's tilt, the eps it is best for, the deviation of the tilted loss, and the size of delta there."""

    tilt: float
    eps: float
    deviation: float
    log_delta: float

    def lower(self, total: SumOfLosses, factor: float) -> Saddle:
        """The saddle on a line nearer to 0. If a tilted law has two humps, less tilt leaves one.

        Args:
            total: The sum.
            factor: The new tilt over the old, at most 1.
        """
        tilt = self.tilt * factor
        return self._replace(tilt=tilt, deviation=math.sqrt(max(total.cumulants(tilt)[2], 1e-300)))


def _at(total: SumOfLosses, tilt: float) -> tuple[float, float, float, float]:
    """Log of the saddle-point estimate of delta(eps), that eps, K'', and d eps/d tilt; the first falls by tilt times that."""
    k, k1, k2 = total.cumulants(tilt)
    eps = k1 - 1 / tilt - 1 / (tilt + 1)
    spread = k2 + 1 / tilt**2 + 1 / (1 + tilt) ** 2
    log_delta = k - tilt * eps - math.log(tilt) - math.log1p(tilt) - 0.5 * math.log(2 * math.pi * spread)
    return log_delta, eps, k2, spread


def _root(function: Callable[[float], tuple[float, float]], start: float, close: float, narrow: float = 1e-3) -> float:
    """X in [LOWEST, HIGHEST] where a decreasing function, given with its slope, is near 0: Newton, safeguarded by bisection."""
    low, high, x = LOWEST, HIGHEST, min(max(start, LOWEST + 1), HIGHEST - 1)
    for _ in range(48):
        f, slope = function(x)
        if not math.isfinite(f):  # K overflowed: tilt is too large
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


def for_delta(total: SumOfLosses, delta: float, close: float = 0.5) -> Saddle:
    """The saddle whose estimated delta is about the one wanted.

    Args:
        total: The sum.
        delta: Above 0.
        close: How near in its logarithm, before a last step.

    Raises:
        NoCertificateError: The variance near tilt 0 is beyond the floats.
    """
    wanted = math.log(delta)
    # a Gaussian's tilt of this variance: one of Newton's steps from where its density alone has it
    variance = max(total.cumulants(1e-3)[2], 1e-300)
    if variance == math.inf:
        raise NoCertificateError
    first = min(max(0.5 * math.log(max(-2 * wanted, 1.0) / variance), LOWEST), HIGHEST)
    tilt = math.exp(first)
    spread = variance + 1 / (tilt * tilt) + 1 / ((1 + tilt) * (1 + tilt))
    log_delta = 1 + tilt / (1 + tilt) - 0.5 * (variance * tilt * tilt + math.log(2 * math.pi * spread))
    near = first + (log_delta - first - math.log1p(tilt) - wanted) / (tilt * tilt * spread)
    last = (0.0, 0.0, 0.0, 0.0, 0.0, -1.0)  # where, its tilt, eps, K'' and d eps/d tilt, and how far off

    def above(x: float) -> tuple[float, float]:
        nonlocal last
        tilt = math.exp(x)
        log_delta, eps, k2, rise = _at(total, tilt)
        # its logarithm is nearly linear in log tilt, for a Gaussian
        share = wanted / log_delta if log_delta < 0 else 1.0
        gap = -wanted * math.log(share) if log_delta < 0 else log_delta - wanted
        slope = -tilt * tilt * rise * share
        last = (x, tilt, eps, k2, rise, gap / slope if abs(gap) < close and slope < 0 else 0.0)
        return gap, slope

    x = _root(above, near, close, min(1e-3, close))
    if x != last[0]:
        above(x)
    _, tilt, eps, k2, rise, off = last
    further = tilt * math.expm1(-off)  # Newton's next step, the curvature taken as it is here
    return Saddle(tilt + further, eps + rise * further, math.sqrt(max(k2, 1e-300)), wanted)


def for_eps(total: SumOfLosses, eps: float) -> Saddle:
    """The saddle of one eps.

    Args:
        total: The sum.
        eps: Any sign.
    """
    _, k1, k2 = total.cumulants(1e-3)
    deviation = math.sqrt(max(k2, 1e-300))
    start = math.log((abs(eps - k1) / deviation + 1) / deviation)

    def below(x: float) -> tuple[float, float]:
        tilt = math.exp(x)
        _, result, _, rise = _at(total, tilt)
        return eps - result, -tilt * rise

    tilt = math.exp(_root(below, start, 0.05 * deviation))
    log_delta, there, k2, _ = _at(total, tilt)
    return Saddle(tilt, eps, math.sqrt(max(k2, 1e-300)), min(log_delta + tilt * (there - eps), 0.0))
