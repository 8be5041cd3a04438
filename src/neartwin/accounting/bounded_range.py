"""Bounded range: the privacy loss lies in an interval of length epsilon, whose place is not known.

The exponential mechanism with weights e^(epsilon u / (2 D)) has epsilon-bounded range (e^(epsilon u / D) if the scores
are monotone). It implies epsilon-DP, and much less loss on average. The worst pairs have two losses, t and t - epsilon,
for t in [0, epsilon]. Dong, Durfee, Rogers 2020; Cesar, Rogers 2021.
"""

import math
from fractions import Fraction

import numpy as np

from neartwin.accounting.bound import read_epsilon
from neartwin.checks import integer
from neartwin.divergences import (
    Certified,
    Enclosure,
    Numeric,
    enclose,
    exp,
    exp_excess,
    expm1,
    log,
    log1p,
    log_excess,
    log_sinhc,
    loss_hockey_stick,
    square,
    where,
)
from neartwin.divergences.pairs import read_order
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number

MOST_PLACES = 10_000


def bounded_range_rdp(*, epsilon: Numeric, order: Numeric) -> Certified:
    """The largest Renyi divergence of any epsilon-bounded-range pair, at orders of at least 1.

    With s(x) = ln(sinh(x)/x): [a s(a e/2) - (a-1) s((a-1) e/2) - s(e/2)] / (a-1), the maximum over t in closed form;
    at order 1 it is e/(e^e - 1) - 1 - ln(e/(e^e - 1)). Increasing in the order, up to epsilon.

    >>> bounded_range_rdp(epsilon=1, order=1).upper
    0.12330156...
    """
    e, a = _read(epsilon), read_order(order)
    if np.any(a.lower < 1):
        raise ParameterError("order", order, "must be at least 1")

    def at(point: FloatArray) -> Enclosure:
        special = (point == 1) | np.isinf(point)
        b = Enclosure.of(np.where(special, 2.0, point))
        general = (b * log_sinhc(0.5 * b * e) - (b - 1) * log_sinhc(0.5 * (b - 1) * e) - log_sinhc(0.5 * e)) / (b - 1)
        value = where(point == 1, _kl(e), where(np.isinf(point), e, general))
        # never below the KL nor above order epsilon^2 / 8
        roof = np.minimum((Enclosure.of(point) * square(e) * 0.125).upper, e.upper)
        return Enclosure(np.maximum(value.lower, _kl(e).lower), np.minimum(value.upper, roof))

    return Enclosure(at(a.lower).lower, at(a.upper).upper).interval("bounded range, worst pair")


def _kl(e: Enclosure) -> Enclosure:
    """The value m - 1 - ln m with m = e / (e^e - 1)."""
    with np.errstate(all="ignore"):
        grown = where(e.upper == 0, 1.0, expm1(e))
        near = log_excess((-(exp_excess(e) / grown)).at_least(-1))  # m - 1 = -(e^e - 1 - e) / (e^e - 1)
        far = e / grown - 1 - log(where(e.upper == 0, 1.0, e)) + e + log1p(-exp(-e))
    return where(e.upper <= 1, near, far.at_least(0))


def zcdp_of_bounded_range(epsilon: Numeric) -> Certified:
    """epsilon^2 / 8. Cesar and Rogers 2021, Lemma 3.2.

    >>> zcdp_of_bounded_range(1).upper
    0.12500000...
    """
    return (0.125 * square(_read(epsilon))).interval("zCDP of bounded range")


def bounded_range_delta(*, epsilon: Number, count: int, epsilon_total: Number) -> Certified:
    """The least delta at which count *non-adaptive* epsilon-bounded-range mechanisms are (epsilon_total, .)-DP.

    Adaptive ones are strictly worse: for those use `zcdp_of_bounded_range`. The worst place t of the range is one of
    count + 1 candidates. Dong, Durfee, Rogers 2020, Theorem 3.

    >>> bounded_range_delta(epsilon=1, count=2, epsilon_total=1).upper
    0.05700532...
    """
    e, total = read_epsilon(epsilon=epsilon), read_epsilon(epsilon_total=epsilon_total)
    k = integer(at_least=1, count=count)
    if k > MOST_PLACES:
        raise ParameterError(
            "count",
            count,
            f"must not exceed {MOST_PLACES}: every one has a place of its own",
            remedy="use zcdp_of_bounded_range",
        )
    if e == 0:
        return Enclosure.of(0.0).interval("bounded range, optimal non-adaptive composition")
    places = {min(max((total + (i + 1) * e) / (k + 1), Fraction(0)), e) for i in range(k + 1)}
    values = [bounded_range_delta_at(e, k, total, place) for place in places]
    best = Enclosure(np.array([v.lower for v in values]), np.array([v.upper for v in values])).max()
    return best.interval("bounded range, optimal non-adaptive composition")


def bounded_range_delta_at(epsilon: Fraction, count: int, epsilon_total: Fraction, place: Fraction) -> Enclosure:
    """The hockey-stick divergence of count pairs with losses t and t - epsilon, at one place t in [0, epsilon]."""
    if place in (0, epsilon):
        return Enclosure.of(0.0)  # one loss only, and that is 0
    whole = -expm1(-enclose(epsilon=epsilon))
    p = -expm1(enclose(place=place - epsilon)) / whole
    rest = (expm1(enclose(place=place)) * (1 - whole)) / whole
    # i failures have loss count t - i epsilon
    last = math.ceil((count * place - epsilon_total) / epsilon) - 1
    last = min(last, count)
    gap = enclose(gap=count * place - last * epsilon - epsilon_total)
    return loss_hockey_stick(count, p=p, rest=rest, gap=gap, step=enclose(epsilon=epsilon), last=last)


def _read(epsilon: Numeric) -> Enclosure:
    e = enclose(epsilon=epsilon)
    if not np.all((e.lower >= 0) & np.isfinite(e.upper)):
        raise ParameterError("epsilon", epsilon, "must be finite and not negative")
    return e
