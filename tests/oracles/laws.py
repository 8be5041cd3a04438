"""Divergences by mpmath, from densities and probabilities alone: no formula of the library is used here."""

from fractions import Fraction
from itertools import chain, combinations

import mpmath as mp

DIGITS = 40


def real(value):
    """An exact number as mpmath sees it."""
    if isinstance(value, Fraction):
        return mp.mpf(value.numerator) / value.denominator
    return mp.mpf(value)


def gaussian(mean, sigma):
    return lambda x: mp.exp(-((x - mean) ** 2) / (2 * sigma**2)) / (sigma * mp.sqrt(2 * mp.pi))


def laplace(mean, scale):
    return lambda x: mp.exp(-abs(x - mean) / scale) / (2 * scale)


def renyi(p, q, order, pieces):
    """By quadrature on pieces where both densities are smooth."""
    with mp.workdps(DIGITS):
        if order == 1:
            return mp.quad(lambda x: p(x) * mp.log(p(x) / q(x)) if p(x) else mp.mpf(0), pieces)
        return mp.log(mp.quad(lambda x: p(x) ** order * q(x) ** (1 - order), pieces)) / (order - 1)


def hockey_stick(p, q, epsilon, pieces):
    """By quadrature; the pieces must break where the sign of p - e^epsilon q changes."""
    with mp.workdps(DIGITS):
        return mp.quad(lambda x: max(p(x) - mp.exp(epsilon) * q(x), 0), pieces)


def gaussian_hockey_stick(mu, epsilon):
    with mp.workdps(DIGITS):
        mu, epsilon = real(mu), real(epsilon)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def finite_renyi(P, Q, order):
    with mp.workdps(DIGITS):
        a = real(order)
        pairs = [(real(p), real(q)) for p, q in zip(P, Q, strict=True)]
        if a == 1:
            return mp.fsum(p * mp.log(p / q) if q else mp.inf for p, q in pairs if p)
        if a > 1 and any(p and not q for p, q in pairs):
            return mp.inf
        total = mp.fsum(p**a * q ** (1 - a) for p, q in pairs if p and q)
        return mp.log(total) / (a - 1) if total else mp.inf


def events(size):
    """All non-empty sets of outcomes."""
    return chain.from_iterable(combinations(range(size), n) for n in range(1, size + 1))


def finite_hockey_stick(P, Q, epsilon):
    """Over all events, the empty one included."""
    with mp.workdps(DIGITS):
        odds = mp.exp(real(epsilon))
        values = (mp.fsum(real(P[i]) for i in S) - odds * mp.fsum(real(Q[i]) for i in S) for S in events(len(P)))
        return max(mp.mpf(0), *values)


def finite_approximate_max(P, Q, delta):
    """Definition 3.6 over all events with P(S) > delta."""
    best = -mp.inf
    with mp.workdps(DIGITS):
        for S in events(len(P)):
            p, q = sum(P[i] for i in S), sum(Q[i] for i in S)
            if p > delta:
                best = max(best, mp.log(real(p - delta) / real(q)) if q else mp.inf)
    return best


def holds(interval, value, *, within=None):
    """The exact value lies in the interval; and the interval is narrow, if asked."""
    lower, upper = float(interval.lower), float(interval.upper)
    if mp.isinf(value):
        return lower == upper == float(value)
    inside = mp.mpf(lower) <= value <= mp.mpf(upper)
    narrow = within is None or upper - lower <= within * max(abs(lower), abs(upper)) + 1e-300
    return bool(inside and narrow)
