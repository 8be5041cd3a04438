"""Zero-concentrated DP: Renyi divergence of order a at most rho a, for every a > 1; and what it converts to and from.

Bun and Steinke 2016. Composition adds rho, also when chosen adaptively.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from neartwin.accounting.bound import read_all, read_epsilon
from neartwin.divergences import (
    Certified,
    Enclosure,
    Numeric,
    blockwise,
    certified_root,
    enclose,
    kl_excess,
    log,
    log1p,
    quotient,
    sqrt,
    square,
    tanh_half,
    where,
)
from neartwin.errors import ParameterError
from neartwin.exact import Number


def compose_zcdp(rhos: Sequence[Number]) -> Fraction:
    """The sum of rho, exact. Bun and Steinke 2016, Lemma 1.7.

    >>> compose_zcdp(["0.1", "0.2"])
    Fraction(3, 10)
    """
    return sum(read_all(rhos, read_epsilon, "rhos"), Fraction(0))


def zcdp_to_epsilon(*, rho: Numeric, delta: Numeric) -> Certified:
    """The least of rho a + ln((a-1)/a) - (ln delta + ln a)/(a-1) over a > 1, or 0 if that is negative.

    delta in (0, 1). The minimum is at (a-1)^2 rho = ln(1 / (a delta)). Canonne, Kamath, Steinke 2020, Corollary 13.

    >>> zcdp_to_epsilon(rho="0.1", delta="1e-6").upper
    2.14193892...
    """
    value = blockwise(_best_order, _non_negative(rho=rho), _delta(delta))
    return value.interval("zCDP to DP, optimal order")


def _best_order(rho: Enclosure, delta: Enclosure) -> Enclosure:
    nats = -np.log(delta.middle)
    r = np.maximum(rho.middle, 1e-300)
    # u = a - 1 solves r u^2 + ln(1 + u) = ln(1/delta), increasing in u: Newton from above
    u = np.sqrt(nats / r)
    for _ in range(60):
        step = (r * u * u + np.log1p(u) - nats) / (2 * r * u + 1 / (1 + u))
        u = np.maximum(u - step, 1e-12 * u)
        if np.all(np.abs(step) <= 1e-14 * u):
            break
    point = Enclosure.of(u)
    best = rho * (1 + point) - log1p(1 / point) + (-log(delta) - log1p(point)) / point
    # f' = rho - (ln(1/delta) - ln(1 + u)) / u^2 increases to 0 and past it: where it is certified to change sign
    # between u (1 - h) and u (1 + h), the minimum is within h u max|f'| below f(u)
    h = 1e-9
    before, after = (rho - (-log(delta) - log1p(side)) / square(side) for side in (point * (1 - h), point * (1 + h)))
    found = (before.upper <= 0) & (after.lower >= 0)
    error = 1.01 * h * u * np.maximum(np.abs(before.lower), np.abs(after.upper))
    value = Enclosure(np.where(found, best.lower - error, 0.0), best.upper)
    return where(rho.upper == 0, 0.0, value).at_least(0)


def zcdp_to_epsilon_bun_steinke(*, rho: Numeric, delta: Numeric) -> Certified:
    """The value rho + 2 sqrt(rho ln(1/delta)), never better than `zcdp_to_epsilon`. Bun, Steinke 2016, Prop. 1.3.

    >>> zcdp_to_epsilon_bun_steinke(rho="0.1", delta="1e-6").upper
    2.45078800...
    """
    r, d = _non_negative(rho=rho), _delta(delta)
    return (r + 2.0 * sqrt(-r * log(d))).interval("Bun-Steinke Proposition 1.3")


def zcdp_for_epsilon(*, epsilon: Number, delta: Number) -> Certified:
    """The largest rho that `zcdp_to_epsilon` turns into this (epsilon, delta); the guarantee is the *lower* end."""
    e, d = enclose(epsilon=read_epsilon(epsilon=epsilon)), _delta(delta)
    goal = -e
    root = certified_root(lambda rho: -_best_order(Enclosure.of(rho), d), goal, (np.asarray(0.0), e.upper * 1.0000001))
    return root.interval("zCDP to DP, inverse")


def zcdp_of_pure(epsilon: Numeric) -> Certified:
    """The value epsilon tanh(epsilon/2): the least rho of all epsilon-DP mechanisms, attained by randomized response.

    Harrison and Manurangsi 2025; the first bound was epsilon^2 / 2.

    >>> zcdp_of_pure(1).upper
    0.46211715...
    """
    e = _non_negative(epsilon=epsilon)
    return (e * tanh_half(e)).interval("tight zCDP of pure differential privacy")


def zcdp_of_laplace(*, distance: Numeric, scale: Numeric = 1) -> Certified:
    """The value d + e^-d - 1, d = distance / scale: the least rho of the Laplace mechanism. Harrison, Manurangsi 2025.

    >>> zcdp_of_laplace(distance=1).upper
    0.36787944...
    """
    if not np.all(enclose(scale=scale).lower > 0):
        raise ParameterError("scale", scale, "must be positive")
    d = quotient(numerator=distance, denominator=scale, names=("distance", "scale"))
    if not np.all((d.lower >= 0) & np.isfinite(d.upper)):
        raise ParameterError("distance", distance, "must be finite and not negative")
    return kl_excess(d).interval("tight zCDP of the Laplace mechanism")


def zcdp_of_gaussian(*, distance: Numeric, sigma: Numeric) -> Certified:
    """distance^2 / (2 sigma^2). Bun and Steinke 2016, Proposition 1.6."""
    if not np.all(enclose(sigma=sigma).lower > 0):
        raise ParameterError("sigma", sigma, "must be positive")
    mu = quotient(numerator=distance, denominator=sigma, names=("distance", "sigma"))
    return (0.5 * square(mu)).interval("zCDP of the Gaussian mechanism")


def zcdp_to_rdp(*, rho: Numeric, order: Numeric) -> Certified:
    """The value rho times the order."""
    a = enclose(order=order)
    if not np.all(a.lower > 1):
        raise ParameterError("order", order, "must be above 1")
    return (_non_negative(rho=rho) * a).interval("zCDP to RDP")


def _non_negative(**named: Numeric) -> Enclosure:
    ((name, value),) = named.items()
    read = enclose(**{name: value})
    if not np.all((read.lower >= 0) & np.isfinite(read.upper)):
        raise ParameterError(name, value, "must be finite and not negative")
    return read


def _delta(delta: Numeric) -> Enclosure:
    read = enclose(delta=delta)
    if not np.all((read.lower > 0) & (read.upper < 1)):
        raise ParameterError("delta", delta, "must lie strictly between 0 and 1")
    return read
