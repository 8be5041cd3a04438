"""The texts' theorems on sensitivity and on the accuracy of the Laplace mechanism. Nothing else of the package uses this file.

Sensitivity is the largest distance, in a named norm, between the answers on two neighbouring data sets. Which data sets are
neighbours is always named. Sensitivities are exact rationals; an irrational L2 norm is rounded up.
Dwork and Roth 2014, Definitions 2.3 and 3.1.

Accuracy: k answers, each with Lap(b) noise, b = sensitivity / epsilon. Fact 3.7: Pr[|Y| >= t b] = e^-t for t >= 0.
Theorem 3.8: Pr[some error >= b ln(k / beta)] <= beta. Exactly: Pr[some error >= r] = 1 - (1 - e^(-r/b))^k.
Dwork and Roth 2014, section 3.3. Error probabilities are `beta` here, for delta is a privacy parameter.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import Enum
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, TypeVar

import numpy as np
from flint import arb

from neartwin import domains
from neartwin.balls import Certified, Exact, Numeric, ball, elementwise, quotient, read
from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational, root_above
from neartwin.mechanisms.neighbours import Neighbours

UNION = "Dwork-Roth Theorem 3.8"
EXACT = "exact law of the largest of k Laplace errors"


def laplace_tail(t: Numeric) -> Certified:
    """Pr[|Y| >= t b] for Y ~ Lap(b): e^-t, and 1 for t < 0. Fact 3.7.

    >>> laplace_tail(2).upper
    0.13533528...
    """
    return elementwise(lambda t: (-ball(max(t, 0))).exp(), read(t=t), method="Dwork-Roth Fact 3.7", least=0, most=1)


def laplace_scale(*, sensitivity: Numeric, epsilon: Numeric) -> Certified:
    """The scale b = sensitivity / epsilon, which is also the mean absolute error.

    Args:
        sensitivity: The L1 sensitivity.
        epsilon: The pure-DP parameter.

    Returns:
        b.

    Source:
        Dwork, Roth 2014, Definition 3.3.
    """
    return elementwise(lambda b: b, _scale(sensitivity, epsilon), method="Dwork-Roth Definition 3.3")


def laplace_variance(*, sensitivity: Numeric, epsilon: Numeric) -> Certified:
    """The variance of Laplace noise, 2 b^2.

    Args:
        sensitivity: The L1 sensitivity.
        epsilon: The pure-DP parameter.

    Returns:
        The variance.
    """
    return elementwise(lambda b: 2 * b**2, _scale(sensitivity, epsilon), method="variance of the Laplace law")


def laplace_radius(*, count: int, sensitivity: Numeric, epsilon: Numeric, beta: Numeric) -> Certified:
    """The radius b ln(k / beta): with probability at least 1 - beta *every* error is smaller.

    Args:
        count: k, the number of answers.
        sensitivity: The L1 sensitivity.
        epsilon: The pure-DP parameter.
        beta: The failure probability.

    Returns:
        The radius.

    Source:
        Theorem 3.8, by the union bound.

    >>> laplace_radius(count=10_000, sensitivity=1, epsilon=1, beta="0.05").upper
    12.20607264...
    """
    return _at_quantile(lambda k, beta: (k / ball(beta)).log(), count, _scale(sensitivity, epsilon), beta, UNION)


def laplace_radius_exact(*, count: int, sensitivity: Numeric, epsilon: Numeric, beta: Numeric) -> Certified:
    """The radius that the largest error exceeds with probability exactly beta: -b ln(1 - (1 - beta)^(1/k)).

    Args:
        count: k, the number of answers.
        sensitivity: The L1 sensitivity.
        epsilon: The pure-DP parameter.
        beta: The failure probability.

    Returns:
        The radius.

    >>> laplace_radius_exact(count=10_000, sensitivity=1, epsilon=1, beta="0.05").upper
    12.18053818...
    """
    return _at_quantile(_exact_quantile, count, _scale(sensitivity, epsilon), beta, EXACT)


def laplace_failure(*, count: int, radius: Numeric, sensitivity: Numeric, epsilon: Numeric) -> Certified:
    """An upper bound on the probability that some error reaches the radius: k e^(-r/b), at most 1.

    Args:
        count: k, the number of answers.
        radius: r.
        sensitivity: The L1 sensitivity.
        epsilon: The pure-DP parameter.

    Returns:
        The bound.

    Source:
        Theorem 3.8.
    """
    k, r = integer(at_least=1, count=count), domains.NOT_NEGATIVE(radius=radius)
    return elementwise(
        lambda r, b: k * (-ball(r) / ball(b)).exp(), r, _scale(sensitivity, epsilon), method=UNION, least=0, most=1
    )


def failure_at_union_radius(*, count: int, beta: Numeric) -> Certified:
    """The exact probability that the radius of Theorem 3.8 fails: 1 - (1 - beta/k)^k, at most beta.

    Args:
        count: k, the number of answers.
        beta: The failure probability of the theorem.

    Returns:
        The probability.

    >>> failure_at_union_radius(count=10_000, beta="0.05").upper
    0.04877069...
    """
    k = integer(at_least=1, count=count)
    return elementwise(lambda p: 1 - (1 - ball(p) / k) ** k, domains.POSITIVE_SHARE(beta=beta), method=EXACT)


def counts_scale(*, queries: int, epsilon: Numeric) -> Certified:
    """The scale of the noise of each of m counting queries that one person may all change: m / epsilon.

    Args:
        queries: m.
        epsilon: The pure-DP parameter of all queries together.

    Returns:
        The scale.

    Source:
        Example 3.1.

    >>> counts_scale(queries=7, epsilon="0.3").upper
    23.33333333...
    """
    return elementwise(lambda b: b, _scale(count_sensitivity(queries), epsilon), method="Dwork-Roth Example 3.1")


def histogram_radius(*, bins: int, epsilon: Numeric, beta: Numeric, neighbours: Neighbours) -> Certified:
    """The radius s ln(k / beta) / epsilon of all bins at once, with s = 1 under add/remove and 2 under replace-one.

    With probability at least 1 - beta *every* bin's error is smaller.

    Args:
        bins: k.
        epsilon: The pure-DP parameter.
        beta: The failure probability.
        neighbours: The neighbour relation.

    Returns:
        The radius.

    >>> histogram_radius(bins=100, epsilon=1, beta="0.05", neighbours=Neighbours.REPLACE_ONE).upper
    15.20180491...
    """
    return laplace_radius(count=bins, sensitivity=histogram_sensitivity(neighbours), epsilon=epsilon, beta=beta)


def laplace_mean_variance(*, epsilon: Numeric, records: int) -> Certified:
    """The variance of the Laplace mechanism on the mean of n bits: 2 / (epsilon n)^2.

    n is public, under replace-one, so the sensitivity is 1/n.

    Args:
        epsilon: The pure-DP parameter.
        records: n.

    Returns:
        The variance.

    >>> laplace_mean_variance(epsilon="0.2", records=50).upper
    0.02
    """
    n = integer(at_least=1, records=records)
    e = domains.POSITIVE(epsilon=epsilon)
    return elementwise(lambda e: 2 / (ball(e) * n) ** 2, e, method="variance of the Laplace law")


def response_mean_variance(*, epsilon: Numeric, records: int) -> Certified:
    """The noise of the mean of n bits by debiased randomized response: e^epsilon / (n (e^epsilon - 1)^2).

    Its order is 1 / (epsilon sqrt n), against 1 / (epsilon n) for Laplace: the price of trusting nobody.

    Args:
        epsilon: The privacy of each report.
        records: n.

    Returns:
        The variance.

    >>> response_mean_variance(epsilon=1, records=1000).upper
    0.00092067...
    """
    n = integer(at_least=1, records=records)
    # e^e / (e^e - 1)^2 = e^-e / (1 - e^-e)^2, which does not overflow
    return elementwise(
        lambda e: (-ball(e)).exp() / (n * (-ball(e)).expm1() ** 2),
        domains.POSITIVE(epsilon=epsilon),
        method="variance of randomized response",
    )


def response_mean(answers: np.ndarray, *, epsilon: Number) -> float:
    """The debiased mean of randomized responses, unbiased for the mean of the true bits. Post-processing, at no cost.

    Args:
        answers: (n,) noisy bits.
        epsilon: The privacy of each report.

    Returns:
        The mean.

    Raises:
        ParameterError: There are no answers, or they are not bits.

    >>> round(response_mean(np.array([1, 1, 0, 1]), epsilon=1), 6)
    1.040988
    """
    e = float(positive(epsilon=rational(epsilon=epsilon)))
    if not np.isin(answers, (0, 1)).all() or np.size(answers) == 0:
        raise ParameterError("answers", "...", "must be bits, at least one")
    return float((np.mean(answers) * (1 + math.exp(-e)) - math.exp(-e)) / -math.expm1(-e))


def chebyshev_radius(*, variance: Numeric, beta: Numeric) -> Certified:
    """The radius that an error exceeds with probability at most beta, whatever its law: sqrt(variance / beta).

    Args:
        variance: The variance of the error.
        beta: The failure probability.

    Returns:
        The radius.
    """
    squared = quotient(domains.NOT_NEGATIVE(variance=variance), domains.POSITIVE_SHARE(beta=beta))
    return elementwise(lambda x: ball(x).sqrt(), squared, method="Chebyshev")


def _at_quantile(quantile: Callable[..., arb], count: int, scale: Any, beta: Numeric, method: str) -> Certified:
    """A scale times the quantile of the largest of `count` errors of scale 1."""
    k, p = integer(at_least=1, count=count), domains.POSITIVE_SHARE(beta=beta)
    return elementwise(lambda b, p: ball(b) * quantile(k, p), scale, p, method=method, least=0)


def _exact_quantile(k: int, beta: Exact) -> arb:
    """-ln(1 - (1 - beta)^(1/k)); 0 at beta = 1."""
    return -(-((-ball(beta)).log1p() / k).expm1()).log() if beta < 1 else ball(0)


def _scale(sensitivity: Numeric, epsilon: Numeric) -> Any:
    return quotient(domains.POSITIVE(sensitivity=sensitivity), domains.POSITIVE(epsilon=epsilon))


Record = TypeVar("Record", bound=Hashable)


class Norm(Enum):
    """The norm of a difference of answers."""

    L1 = "sum of absolute values"
    L2 = "root of the sum of squares"
    LINF = "largest absolute value"


def length(vector: Sequence[Fraction], norm: Norm) -> Fraction:
    """The exact norm of a vector of rationals; an irrational L2 norm is rounded up in the 19th place.

    Args:
        vector: The vector.
        norm: The norm.

    Returns:
        The length.

    >>> length([Fraction(3), Fraction(-4)], Norm.L2)
    Fraction(5, 1)
    """
    match norm:
        case Norm.L1:
            return sum((abs(x) for x in vector), Fraction(0))
        case Norm.LINF:
            return max((abs(x) for x in vector), default=Fraction(0))
        case Norm.L2:
            return root_above(sum((x * x for x in vector), Fraction(0)))


def count_sensitivity(queries: int = 1, *, norm: Norm = Norm.L1) -> Fraction:
    """The sensitivity of m counting queries, if none is known to exclude another: m in L1, under every relation.

    One person may be in every count, also when replaced. Example 3.1; a text that bounds k such queries by 1 is wrong,
    because one person may change all of them.

    Args:
        queries: m.
        norm: The norm.

    Returns:
        The sensitivity.

    >>> count_sensitivity(7), count_sensitivity(4, norm=Norm.L2)
    (Fraction(7, 1), Fraction(2, 1))
    """
    return length([Fraction(1)] * integer(at_least=1, queries=queries), norm)


def histogram_sensitivity(neighbours: Neighbours, *, norm: Norm = Norm.L1) -> Fraction:
    """The sensitivity of the counts of disjoint, data-independent bins: 1 in L1 under add/remove, 2 under replace-one.

    Args:
        neighbours: The neighbour relation.
        norm: The norm.

    Returns:
        The sensitivity.

    >>> histogram_sensitivity(Neighbours.ADD_REMOVE), histogram_sensitivity(Neighbours.REPLACE_ONE)
    (Fraction(1, 1), Fraction(2, 1))
    """
    return length([Fraction(1)] * (2 if neighbours is Neighbours.REPLACE_ONE else 1), norm)


def linear_sensitivity(
    weights: Sequence[Sequence[Number]], neighbours: Neighbours, *, norm: Norm = Norm.L1, records: int = 1
) -> Fraction:
    """The sensitivity of queries that are linear in the histogram: f(x)_i = sum_c weights[i][c] x_c / records.

    Under add/remove it is the longest column, under replace-one the longest difference of two columns.

    Args:
        weights: One row a query, one column a kind of record.
        neighbours: The relation.
        norm: The norm of a change.
        records: The *public* number n of records of a fractional query, which only replace-one keeps. Under add/remove n itself
            is private, and a mean has no such bound.

    >>> linear_sensitivity([[0, 1]], Neighbours.REPLACE_ONE, records=50)
    Fraction(1, 50)
    """
    n = integer(at_least=1, records=records)
    if n > 1 and neighbours is Neighbours.ADD_REMOVE:
        raise ParameterError(
            "records", records, "is private under add/remove", remedy="release the sum and the count instead"
        )
    rows = [[rational(weight=w) for w in row] for row in weights]
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise ParameterError("weights", weights, "must be a rectangle with at least one query and one kind of record")
    columns = list(zip(*rows, strict=True))
    if neighbours is Neighbours.REPLACE_ONE:
        changes = [[a - b for a, b in zip(x, y, strict=True)] for i, x in enumerate(columns) for y in columns[:i]]
    else:
        changes = [list(column) for column in columns]
    return max((length(change, norm) for change in changes), default=Fraction(0)) / n


def database_distance(one: Sequence[Record], two: Sequence[Record]) -> int:
    """The l1 distance of two histograms: the number of records that must be removed and added.

    Args:
        one: The records of one data set.
        two: The records of the other.

    Returns:
        The distance.

    Source:
        Dwork, Roth 2014, Definition 2.3.

    >>> database_distance(["a", "b"], ["b", "c"])
    2
    """
    first, second = Counter(one), Counter(two)
    return sum(abs(first[key] - second[key]) for key in {*first, *second})


def are_neighbours(one: Sequence[Record], two: Sequence[Record], neighbours: Neighbours) -> bool:
    """Whether two data sets are neighbours, as multisets of records. A data set is no neighbour of itself.

    Args:
        one: The records of one data set.
        two: The records of the other.
        neighbours: The neighbour relation.

    Returns:
        True or False.

    >>> are_neighbours(["a", "b"], ["a", "c"], Neighbours.REPLACE_ONE)
    True
    """
    distance = database_distance(one, two)
    match neighbours:
        case Neighbours.ADD_REMOVE:
            return distance == 1
        case Neighbours.REPLACE_ONE:
            return len(one) == len(two) and distance == 2


def brute_force_sensitivity(
    query: Callable[[tuple[Record, ...]], Sequence[Number]],
    domain: Sequence[Record],
    *,
    size: int,
    neighbours: Neighbours,
    norm: Norm = Norm.L1,
) -> Fraction:
    """The largest change over *all* pairs of neighbours with up to `size` records: an oracle for finite domains.

    It takes time exponential in `size`.

    Args:
        query: A function of the multiset of records, which it gets as a tuple in no order.
        domain: All possible records.
        size: The most records of a data set.
        neighbours: The neighbour relation.
        norm: The norm.

    Returns:
        The sensitivity, exact.

    >>> brute_force_sensitivity(lambda rows: [rows.count("a")], ["a", "b"], size=3, neighbours=Neighbours.ADD_REMOVE)
    Fraction(1, 1)
    """
    pairs = _neighbour_pairs(domain, integer(at_least=1, size=size), neighbours)
    largest = Fraction(0)
    for one, two in pairs:
        answers = [[rational(answer=a) for a in query(rows)] for rows in (one, two)]
        largest = max(largest, length([a - b for a, b in zip(*answers, strict=True)], norm))
    return largest


def _neighbour_pairs(
    domain: Sequence[Record], size: int, neighbours: Neighbours
) -> Iterator[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    for rest in range(size):
        for common in combinations_with_replacement(domain, rest):
            for index, record in enumerate(domain):
                with_one = (*common, record)
                match neighbours:
                    case Neighbours.ADD_REMOVE:
                        yield with_one, common
                    case Neighbours.REPLACE_ONE:
                        for other in domain[:index]:
                            yield with_one, (*common, other)
