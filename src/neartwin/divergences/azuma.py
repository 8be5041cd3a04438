"""Lemma 3.19, Azuma's inequality, and the exact tail it bounds for randomized response.

|C_i| <= A and E[C_i | past] <= B imply Pr[sum of k > kB + z sqrt(k) A] <= e^(-z^2/2). It is right only through
Hoeffding's lemma for the *range* 2A; putting |C_i - E C_i| <= 2A into the classical form gives e^(-z^2/8).
"""

import math

import numpy as np

from neartwin.checks import integer, non_negative, open_probability
from neartwin.divergences.binomial import lower_tail
from neartwin.divergences.enclosure import Certified, Enclosure, Numeric, enclose, exp, log, sqrt, square
from neartwin.divergences.series import tanh_half
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational


def azuma_threshold(*, count: int, bound: Numeric, drift: Numeric, z: Numeric) -> Certified:
    """The value k B + z sqrt(k) A: the sum that is passed with probability at most `azuma_tail(z)`.

    count: k; bound: A > 0 with |C_i| <= A surely; drift: B, at least every conditional mean; z > 0.

    >>> azuma_threshold(count=100, bound="0.1", drift="0.005", z=3).upper
    3.50000000...
    """
    k = float(integer(at_least=1, count=count))
    value = k * enclose(drift=drift) + _positive(z=z) * sqrt(Enclosure.of(k)) * _positive(bound=bound)
    return value.interval("Dwork-Roth Lemma 3.19")


def azuma_tail(z: Numeric) -> Certified:
    """e^(-z^2/2), an upper bound on the probability of passing the threshold; z >= 0.

    >>> azuma_tail(3).upper
    0.01110899...
    """
    return exp(-0.5 * square(_positive(z=z))).interval("Dwork-Roth Lemma 3.19")


def azuma_z(probability: Number) -> Certified:
    """sqrt(2 ln(1/probability)): the z at which the tail bound is this probability."""
    share = open_probability(probability=rational(probability=probability))
    return sqrt(-2.0 * log(enclose(probability=share))).interval("Dwork-Roth Lemma 3.19, inverse")


def response_loss_tail(*, epsilon: Number, count: int, z: Number) -> Certified:
    """Pr[sum of count randomized-response losses > k epsilon tanh(epsilon/2) + z sqrt(k) epsilon], exactly.

    Under P each loss is +-epsilon with mean epsilon tanh(epsilon/2): the lemma with A = epsilon is at least this.

    >>> response_loss_tail(epsilon="0.1", count=100, z=2).upper
    0.02204721...
    """
    k = integer(at_least=1, count=count)
    e = enclose(epsilon=non_negative(epsilon=rational(epsilon=epsilon)))
    if e.upper == 0:
        return Enclosure.of(0.0).interval("exact binomial tail")
    # (k - 2i) epsilon passes the threshold iff i < [k (1 - tanh) - z sqrt k] / 2
    edge = 0.5 * (k * (1 - tanh_half(e)) - enclose(z=rational(z=z)) * sqrt(Enclosure.of(float(k))))
    p, rest = 1 / (1 + exp(-e)), 1 / (1 + exp(e))
    tails = [lower_tail(k, math.ceil(float(end)) - 1, p, rest) for end in (edge.lower, edge.upper)]
    return Enclosure(tails[0].lower, tails[1].upper).interval("exact binomial tail")


def _positive(**named: Numeric) -> Enclosure:
    ((name, value),) = named.items()
    read = enclose(**{name: value})
    if not np.all(read.lower >= 0):
        raise ParameterError(name, value, "must not be negative")
    return read
