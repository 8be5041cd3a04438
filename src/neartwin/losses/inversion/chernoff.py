"""The floor that always answers: delta(eps) <= c(s) e^{K(s) - s eps} for every s > 0; Renyi curves too.

K(s) = s D_{1+s}(P||Q): a Renyi curve is an upper bound on K and enters the same inequality. Canonne, Kamath,
Steinke 2020, proposition 12, which is the best conversion from one order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from neartwin.exact import FloatArray, halved
from neartwin.losses.inversion.total import log_c

GOLDEN = 0.5 * (math.sqrt(5) - 1)
FEW, BLOCK = 8, 256  # eps that are worth a search of their own; eps at a time
MANY = np.geomspace(1e-4, 1e6, 801)  # neighbours 3 % apart: log delta within 2e-4 of itself or so
COARSE = 16  # every so many of them are asked first
MANY_C = np.array([log_c(s) for s in MANY.tolist()])
LogMgf = Callable[[float], float]


def _least(log_mgf: LogMgf, value: Callable[[float, float], float]) -> float:
    """The least value found of s and K(s), K finite: a grid of log s, then a golden section around its best point."""

    def function(x: float) -> float:
        s = math.exp(x)
        k = log_mgf(s)
        return value(s, k) if math.isfinite(k) else math.inf

    grid = np.linspace(math.log(1e-4), math.log(1e9), 61)
    values = [function(float(x)) for x in grid]
    j = int(np.argmin(values))
    low, high = float(grid[max(j - 1, 0)]), float(grid[min(j + 1, len(grid) - 1)])
    best = values[j]
    x, y = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    f, g = function(x), function(y)
    for _ in range(32):
        if f < g:
            high, y, g = y, x, f
            x = high - GOLDEN * (high - low)
            f = function(x)
        else:
            low, x, f = x, y, g
            y = low + GOLDEN * (high - low)
            g = function(y)
        best = min(best, f, g)
    return best


def log_delta_above(log_mgf: LogMgf, eps: float) -> float:
    """An upper bound on log delta(eps); at most 0.

    Args:
        log_mgf: An upper bound on K at each s.
        eps: One epsilon.
    """
    return min(_least(log_mgf, lambda s, k: k + log_c(s) - s * eps + 1e-14 * (abs(k) + s * abs(eps) + 1)), 0.0)


def _known(log_mgf: LogMgf, eps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The s of the list that may be best for some eps, the last with a finite K among them, K and log c.

    The best s rises with eps: a coarse search for the least and the greatest eps says between which s all others lie.
    """
    k = np.full(len(MANY), math.inf)

    def ask(places: range) -> None:
        for place in places:
            k[place] = log_mgf(float(MANY[place]))

    ask(range(0, len(MANY), COARSE))
    first, last = (int(np.argmin(k + MANY_C - MANY * end)) for end in (float(eps.min()), float(eps.max())))
    places = range(max(first - COARSE, 0), min(last + COARSE + 1, len(MANY)))
    ask(places)
    here = np.flatnonzero(np.isfinite(k[places])) + places.start
    s, k, c = MANY[here], k[here], MANY_C[here]
    if len(s) and here[-1] + 1 < places.stop:
        last_s, _ = halved(lambda one: math.isfinite(log_mgf(one)), float(s[-1]), float(s[-1]) * 1.05, 48)
        s, k, c = np.append(s, last_s), np.append(k, log_mgf(last_s)), np.append(c, log_c(last_s))
    return s, k, c


def delta_above(log_mgf: LogMgf, eps: FloatArray) -> FloatArray:
    """An upper bound on delta at each eps, rounded up; for many eps by a fixed list of s.

    Args:
        log_mgf: An upper bound on K at each s.
        eps: Finite, (n,).
    """
    if len(eps) > FEW:
        s, k, c = _known(log_mgf, eps)
        least = np.zeros(len(eps))
        for start in range(0, len(eps), BLOCK):
            part = eps[start : start + BLOCK, None]
            log = k + c - s * part + 1e-14 * (np.abs(k) + s * np.abs(part) + 1)
            least[start : start + BLOCK] = np.minimum(log.min(axis=1, initial=0.0), 0.0)
        return np.exp(least) * (1 - 1e-13 * np.sign(least))
    return np.array([min(math.exp(log_delta_above(log_mgf, float(e))) * (1 + 1e-13), 1.0) for e in eps])


def epsilon_above(log_mgf: LogMgf, delta: float) -> float:
    """An upper bound on eps(delta), at least 0: the least over s of (K(s) + log c(s) - log delta)/s.

    Args:
        log_mgf: An upper bound on K at each s.
        delta: Strictly between 0 and 1.
    """
    log = math.log(delta)
    return max(_least(log_mgf, lambda s, k: (k + log_c(s) - log) / s + 1e-14 * (abs(k) + abs(log) + 1) / s), 0.0)
