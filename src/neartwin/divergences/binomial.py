"""Certified binomial sums: tails, and the hockey-stick divergence of k identical two-point losses.

Each factor has loss `top/k` with P-probability p and `step` less with 1 - p; the k-fold loss is top - i step with i
binomial. Optimal composition of (epsilon, delta)-DP and of bounded range are both such sums. Probabilities are formed
from one anchor (Loader's deviance form, whose logarithm keeps its digits at k = 100000) and products of exact ratios
outward from it, so that a tail of 1e-300 has the same relative error as a tail of 0.1.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cache

import numpy as np

from neartwin.divergences.enclosure import Enclosure, concatenate, exp, expm1, log, widened
from neartwin.divergences.series import log_excess
from neartwin.exact import FloatArray

_STIRLING = (1 / 12, 1 / 360, 1 / 1260, 1 / 1680, 1 / 1188)


_PI = Decimal("3.14159265358979323846264338327950288419716939937510")


@cache
def _stirling_error(n: int) -> Enclosure:
    """The logarithm of n! over sqrt(2 pi n) (n/e)^n: 40 decimals below 16, then two partial sums of its series."""
    if n < 16:
        with localcontext(Context(prec=40)):
            size = Decimal(n)
            value = Decimal(math.factorial(n)).ln() - (2 * _PI * size).ln() / 2 - size * size.ln() + size
            near = float(value)
        return widened(np.asarray(near), 1)
    sums, total = [], 0.0
    for k, coefficient in enumerate(_STIRLING):
        total += (-1) ** k * coefficient / float(n) ** (2 * k + 1)
        sums.append(total)
    low, high = min(sums[-2:]), max(sums[-2:])
    return Enclosure(np.asarray(low * (1 - 1e-15)), np.asarray(high * (1 + 1e-15)))


_LOG_FACTORIALS = [Decimal(0)]  # grows on demand; 40 digits


def log_choose(n: int) -> Enclosure:
    """The logarithms of the binomial coefficients of n over 0 .. n, from 40-digit log-factorials."""
    with localcontext(Context(prec=40)):
        while len(_LOG_FACTORIALS) <= n:
            _LOG_FACTORIALS.append(_LOG_FACTORIALS[-1] + Decimal(len(_LOG_FACTORIALS)).ln())
        table = _LOG_FACTORIALS
        values = [float(table[n] - table[k] - table[n - k]) for k in range(n + 1)]
    return widened(np.array(values), 1)


def _deviance(x: int, mean: Enclosure) -> Enclosure:
    """The value x ln(x / mean) + mean - x."""
    return float(x) * log_excess((mean - float(x)) / float(x))


def log_binomial(k: int, i: int, p: Enclosure, rest: Enclosure) -> Enclosure:
    """The logarithm of the probability of i failures in k trials; p of success and rest = 1 - p, each enclosed."""
    if i == 0:
        return float(k) * log(p)
    if i == k:
        return float(k) * log(rest)
    size = float(k)
    front = 0.5 * log(widened(np.asarray(size / (2 * math.pi * i * (k - i))), 4))
    errors = _stirling_error(k) - _stirling_error(i) - _stirling_error(k - i)
    return front + errors - _deviance(k - i, size * p) - _deviance(i, size * rest)


@dataclass(frozen=True, slots=True, eq=False)
class Anchored:
    """Binomial probabilities as weights relative to one: Pr[i failures] = e^log_anchor weight_i."""

    weight: Enclosure
    log_anchor: Enclosure


def anchored(k: int, anchor: int, p: Enclosure, rest: Enclosure, last: int) -> Anchored:
    """The probabilities of 0 .. last failures in k trials, relative to that of `anchor` (between them)."""
    odds = rest / p
    up = np.arange(anchor, last, dtype=float)  # i -> i + 1
    down = np.arange(anchor, 0, -1, dtype=float)  # i -> i - 1
    right = _products((k - up) / (up + 1), odds)
    left = _products(down / (k - down + 1), 1 / odds)
    weight = concatenate(left[::-1], Enclosure.of(np.ones(1)), right)
    return Anchored(weight, log_binomial(k, anchor, p, rest))


def _products(ratios: FloatArray, odds: Enclosure) -> Enclosure:
    """Running products of ratio times odds: after j factors at most 4j roundings of 2^-53; underflow adds 1e-300."""
    if len(ratios) == 0:
        return Enclosure.of(np.zeros(0))
    steps = np.arange(1, len(ratios) + 1)
    with np.errstate(under="ignore", over="ignore"):
        low, high = np.cumprod(ratios * odds.lower), np.cumprod(ratios * odds.upper)
        drift = 4 * steps * 2.0**-53 * 1.001
        return Enclosure(np.maximum(low * (1 - drift) - 1e-300, 0), high * (1 + drift) + 1e-300)


def most_likely(k: int, p: float, last: int) -> int:
    """The likeliest number of failures among 0 .. last."""
    return max(0, min(last, math.floor((k + 1) * (1 - p))))


def lower_tail(k: int, last: int, p: Enclosure, rest: Enclosure) -> Enclosure:
    """Pr[at most `last` failures in k trials]."""
    if last < 0:
        return Enclosure.of(0.0)
    if last >= k:
        return Enclosure.of(1.0)
    law = anchored(k, most_likely(k, float(p.middle), last), p, rest, last)
    return (exp(law.log_anchor) * law.weight.sum()).at_most(1)


def loss_hockey_stick(
    k: int, *, p: Enclosure, rest: Enclosure, gap: Enclosure, step: Enclosure, last: int
) -> Enclosure:
    """The sum over i <= last of Pr[i failures] (1 - e^-(gap + (last - i) step))_+.

    gap: the loss of `last` failures minus epsilon; step: how much one failure lowers the loss. Failures beyond `last`
    must have losses at or below epsilon.
    """
    last = min(last, k)
    if last < 0:
        return Enclosure.of(0.0)
    law = anchored(k, most_likely(k, float(p.middle), last), p, rest, last)
    loss = gap + step * Enclosure.of(np.arange(last, -1, -1, dtype=float))
    share = (-expm1(-loss)).at_least(0)
    return (exp(law.log_anchor) * (law.weight * share).sum()).at_least(0).at_most(1)
