"""How far off the Laplace mechanism's answers are: the union bound, the exact law, and every inverse of both.

k answers, each with Lap(b) noise, b = sensitivity / epsilon. Fact 3.7: Pr[|Y| >= t b] = e^-t for t >= 0.
Theorem 3.8: Pr[some error >= b ln(k / beta)] <= beta. Exactly: Pr[some error >= r] = 1 - (1 - e^(-r/b))^k.
Dwork and Roth 2014, section 3.3. Error probabilities are `beta` here, for delta is a privacy parameter.
"""

import math

import numpy as np

from neartwin.checks import integer, positive
from neartwin.divergences import (
    Certified,
    Enclosure,
    Numeric,
    enclose,
    exp,
    expm1,
    log,
    log1p,
    quotient,
    sqrt,
    square,
    where,
)
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.sensitivity import count_sensitivity, histogram_sensitivity

UNION = "Dwork-Roth Theorem 3.8"
EXACT = "exact law of the largest of k Laplace errors"


def laplace_tail(t: Numeric) -> Certified:
    """Pr[|Y| >= t b] for Y ~ Lap(b): e^-t, and 1 for t < 0. Fact 3.7.

    >>> laplace_tail(2).upper
    0.13533528...
    """
    read = enclose(t=t)
    return exp(-read.at_least(0)).at_most(1).interval("Dwork-Roth Fact 3.7")


def laplace_scale(*, sensitivity: Numeric, epsilon: Numeric) -> Certified:
    """Scale b = sensitivity / epsilon, which is also the mean absolute error. Definition 3.3."""
    return _scale(sensitivity, epsilon).interval("Dwork-Roth Definition 3.3")


def laplace_variance(*, sensitivity: Numeric, epsilon: Numeric) -> Certified:
    """2 b^2."""
    return (2.0 * square(_scale(sensitivity, epsilon))).interval("variance of the Laplace law")


def laplace_radius(*, count: int, sensitivity: Numeric, epsilon: Numeric, beta: Numeric) -> Certified:
    """Radius b ln(k / beta): with probability at least 1 - beta *every* error is smaller.

    Theorem 3.8, by the union bound.

    >>> laplace_radius(count=10_000, sensitivity=1, epsilon=1, beta="0.05").upper
    12.20607264...
    """
    k = float(integer(at_least=1, count=count))
    value = _scale(sensitivity, epsilon) * log(k / _share(beta=beta))
    return value.interval(UNION)


def laplace_radius_exact(*, count: int, sensitivity: Numeric, epsilon: Numeric, beta: Numeric) -> Certified:
    """-b ln(1 - (1 - beta)^(1/k)): the radius that the largest error passes with probability exactly beta.

    >>> laplace_radius_exact(count=10_000, sensitivity=1, epsilon=1, beta="0.05").upper
    12.18053818...
    """
    k = float(integer(at_least=1, count=count))
    return (_scale(sensitivity, epsilon) * _exact_quantile(k, _share(beta=beta))).interval(EXACT)


def laplace_failure(*, count: int, radius: Numeric, sensitivity: Numeric, epsilon: Numeric) -> Certified:
    """Bound k e^(-r/b), at most 1: Theorem 3.8's bound on the probability that some error reaches the radius."""
    k = float(integer(at_least=1, count=count))
    ratio = _non_negative(radius=radius) / _scale(sensitivity, epsilon)
    return (k * exp(-ratio)).at_most(1).interval(UNION)


def laplace_failure_exact(*, count: int, radius: Numeric, sensitivity: Numeric, epsilon: Numeric) -> Certified:
    """1 - (1 - e^(-r/b))^k: the probability itself."""
    k = float(integer(at_least=1, count=count))
    ratio = _non_negative(radius=radius) / _scale(sensitivity, epsilon)
    return (-expm1(k * log1p(-exp(-ratio)))).at_most(1).interval(EXACT)


def failure_at_union_radius(*, count: int, beta: Numeric) -> Certified:
    """1 - (1 - beta/k)^k: how often the radius of Theorem 3.8 really fails, at most beta.

    >>> failure_at_union_radius(count=10_000, beta="0.05").upper
    0.04877069...
    """
    k = float(integer(at_least=1, count=count))
    return (-expm1(k * log1p(-(_share(beta=beta) / k)))).interval(EXACT)


def epsilon_for_radius(*, count: int, sensitivity: Numeric, radius: Numeric, beta: Numeric) -> Certified:
    """Epsilon sensitivity ln(k / beta) / r: makes Theorem 3.8's radius r; spend at least the upper end."""
    k = float(integer(at_least=1, count=count))
    value = _positive(sensitivity=sensitivity) * log(k / _share(beta=beta)) / _positive(radius=radius)
    return value.interval(UNION)


def epsilon_for_radius_exact(*, count: int, sensitivity: Numeric, radius: Numeric, beta: Numeric) -> Certified:
    """The least epsilon whose exact radius is r."""
    k = float(integer(at_least=1, count=count))
    value = _positive(sensitivity=sensitivity) * _exact_quantile(k, _share(beta=beta)) / _positive(radius=radius)
    return value.interval(EXACT)


def count_for_radius(*, sensitivity: Number, epsilon: Number, radius: Number, beta: Number) -> int:
    """The most answers for which Theorem 3.8 promises the radius: floor(beta e^(r/b)); 0 if not even one.

    >>> count_for_radius(sensitivity=1, epsilon=1, radius="12.3", beta="0.05")
    10984
    """
    ratio = _positive(radius=radius) / _scale(sensitivity, epsilon)
    most = _share(beta=beta) * exp(ratio)
    if not math.isfinite(float(most.upper)):
        raise ParameterError("radius", radius, "allows more answers than a float can count")
    return math.floor(float(most.lower))


def count_for_radius_exact(*, sensitivity: Number, epsilon: Number, radius: Number, beta: Number) -> int:
    """The most answers whose largest error passes the radius with probability at most beta, by the exact law.

    >>> count_for_radius_exact(sensitivity=1, epsilon=1, radius="12.3", beta="0.05")
    11268
    """
    ratio = _positive(radius=radius) / _scale(sensitivity, epsilon)
    most = log1p(-_share(beta=beta)) / log1p(-exp(-ratio))
    if not math.isfinite(float(most.upper)):
        raise ParameterError("radius", radius, "allows more answers than a float can count")
    return math.floor(float(most.lower))


def counts_scale(*, queries: int, epsilon: Numeric) -> Certified:
    """Scale m / epsilon: the noise of each of m counting queries that one person may all change. Example 3.1.

    >>> counts_scale(queries=7, epsilon="0.3").upper
    23.33333333...
    """
    return _scale(count_sensitivity(queries), epsilon).interval("Dwork-Roth Example 3.1")


def histogram_radius(*, bins: int, epsilon: Numeric, beta: Numeric, neighbours: Neighbours) -> Certified:
    """Radius s ln(k / beta) / epsilon, s = 1 under add/remove and 2 under replace-one: all bins at once.

    With probability at least 1 - beta *every* bin's error is smaller.

    >>> histogram_radius(bins=100, epsilon=1, beta="0.05", neighbours=Neighbours.REPLACE_ONE).upper
    15.20180491...
    """
    return laplace_radius(count=bins, sensitivity=histogram_sensitivity(neighbours), epsilon=epsilon, beta=beta)


def laplace_mean_variance(*, epsilon: Numeric, records: int) -> Certified:
    """2 / (epsilon n)^2: the Laplace mechanism on the mean of n bits, n public, replace-one (sensitivity 1/n).

    >>> laplace_mean_variance(epsilon="0.2", records=50).upper
    0.02000000...
    """
    n = float(integer(at_least=1, records=records))
    return (2.0 / square(_positive(epsilon=epsilon) * n)).interval("variance of the Laplace law")


def response_mean_variance(*, epsilon: Numeric, records: int) -> Certified:
    """e^epsilon / (n (e^epsilon - 1)^2): the noise of the mean of n bits by debiased randomized response.

    Of order 1 / (epsilon sqrt n), against 1 / (epsilon n) for Laplace: the price of trusting nobody.

    >>> response_mean_variance(epsilon=1, records=1000).upper
    0.00092067...
    """
    n = float(integer(at_least=1, records=records))
    e = _positive(epsilon=epsilon)
    # e^e / (e^e - 1)^2 = e^-e / (1 - e^-e)^2, which does not overflow
    return (exp(-e) / (n * square(expm1(-e)))).interval("variance of randomized response")


def response_mean(answers: np.ndarray, *, epsilon: Number) -> float:
    """The debiased mean of randomized responses: unbiased for the mean of the true bits.

    answers: the n noisy bits; post-processing, at no cost.

    >>> round(response_mean(np.array([1, 1, 0, 1]), epsilon=1), 6)
    1.040988
    """
    e = float(positive(epsilon=rational(epsilon=epsilon)))
    if not np.isin(answers, (0, 1)).all() or np.size(answers) == 0:
        raise ParameterError("answers", "...", "must be bits, at least one")
    return float((np.mean(answers) * (1 + math.exp(-e)) - math.exp(-e)) / -math.expm1(-e))


def chebyshev_radius(*, variance: Numeric, beta: Numeric) -> Certified:
    """sqrt(variance / beta): passed with probability at most beta, whatever the law of the error."""
    return sqrt(_non_negative(variance=variance) / _share(beta=beta)).interval("Chebyshev")


def _exact_quantile(k: float, beta: Enclosure) -> Enclosure:
    """-ln(1 - (1 - beta)^(1/k)); 0 at beta = 1."""
    value = -log(-expm1(log1p(-beta) / k))
    return where(beta.lower >= 1, 0.0, value).at_least(0)


def _scale(sensitivity: Numeric, epsilon: Numeric) -> Enclosure:
    _positive(sensitivity=sensitivity)
    _positive(epsilon=epsilon)
    return quotient(numerator=sensitivity, denominator=epsilon, names=("sensitivity", "epsilon"))


def _share(**named: Numeric) -> Enclosure:
    ((name, value),) = named.items()
    read = enclose(**{name: value})
    if not np.all((read.lower > 0) & (read.upper <= 1)):
        raise ParameterError(name, value, "must lie in (0, 1]")
    return read


def _positive(**named: Numeric) -> Enclosure:
    ((name, value),) = named.items()
    read = enclose(**{name: value})
    if not np.all((read.lower > 0) & np.isfinite(read.upper)):
        raise ParameterError(name, value, "must be positive and finite")
    return read


def _non_negative(**named: Numeric) -> Enclosure:
    ((name, value),) = named.items()
    read = enclose(**{name: value})
    if not np.all(read.lower >= 0):
        raise ParameterError(name, value, "must not be negative")
    return read
