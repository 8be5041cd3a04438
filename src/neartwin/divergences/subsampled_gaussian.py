"""Renyi divergence of the Poisson-subsampled Gaussian: (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2).

This direction (one person removed) is the larger of the two at every order >= 1, so it prices both. Mironov, Talwar, Zhang
2019, Theorem 5 and Corollary 7. Integer orders: a finite sum of positive terms. Others: the trapezoidal rule with its error
bound. With t(x) = 1 - q + q e^((2x - 1) / (2 s^2)) the moment is E[t^a] under N(0, s^2).
"""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from neartwin import domains
from neartwin.balls import Certified, Exact, Numeric, ball, elementwise, normal_cdf, pi, precision
from neartwin.checks import positive, probability
from neartwin.exact import Number, rational

if TYPE_CHECKING:
    from flint import arb

_BESIDE = Fraction(1, 2**80)
_LARGEST_SUM = 4096  # integer orders above take the quadrature


def subsampled_gaussian_renyi(*, rate: Number, noise_multiplier: Number, order: Numeric) -> Certified:
    """Renyi divergence of one step at each order, in nats; an upper bound for add and for remove at orders >= 1.

    Args:
        rate: The Poisson sampling probability.
        noise_multiplier: Sigma over the sensitivity.
        order: At least 1, any shape; fractions and infinity are allowed.

    Returns:
        The divergences, of the shape of order.

    >>> subsampled_gaussian_renyi(rate="0.01", noise_multiplier=4, order=32).upper
    0.00010526...
    """
    q = probability(rate=rational(rate=rate))
    s = positive(noise_multiplier=rational(noise_multiplier=noise_multiplier))
    orders = domains.AT_LEAST_ONE(order=order)
    method = "subsampled Gaussian Renyi, finite sum or certified quadrature"
    return elementwise(lambda a: _renyi(q, s, a), orders, method=method, least=0)


def _renyi(q: Fraction, s: Fraction, order: Exact) -> "arb | Exact":
    if q == 0 or order == math.inf:
        return math.inf if q else 0
    if q == 1:
        return Fraction(order) / (2 * s**2)
    whole = order == int(order) and 1 < order <= _LARGEST_SUM
    return by_sum(q, s, int(order)) if whole else by_quadrature(q, s, Fraction(order))


def by_sum(q: Fraction, s: Fraction, order: int) -> "arb":
    """The Renyi divergence ln(1 + sum_{k>=2} C(a,k) (1-q)^(a-k) q^k (e^(k(k-1)/(2 s^2)) - 1)) / (a - 1).

    Args:
        q: The sampling rate.
        s: The noise multiplier.
        order: a, a whole number above 1.

    Returns:
        The divergence, enclosed.
    """
    odds, unit = ball(q / (1 - q)), ball(1 / (2 * s**2))
    weight = ball(1 - q) ** order
    total = ball(0)
    for k in range(1, order + 1):
        weight = weight * odds * (order - k + 1) / k
        total += weight * (k * (k - 1) * unit).expm1()
    return total.log1p() / (order - 1)


def by_quadrature(q: Fraction, s: Fraction, order: Fraction) -> "arb":
    """The logarithm of E[t^a] over a - 1, for a > 0: the trapezoidal rule of step h, its error bounded beforehand.

    On the lines |Im x| = th s^2, th < pi, |t| is at most its value on the real line, and the density is e^(th^2 s^2
    / 2) times its own. So rule and integral differ by at most 2 e^(th^2 s^2 / 2) / (e^(2 pi th s^2 / h) - 1) of the
    integral. Nodes beyond the last add less than the tails. Left of 1/2 these are the tails of t^a <= 1. Right of it
    they are those of t^b <= 1 - q + q e^(b (2x - 1) / (2 s^2)), for b >= a and b >= 1, by Jensen's inequality.

    Order 1 lies between two others, 2^-80 from it, because the divergence grows with the order.

    Args:
        q: The sampling rate.
        s: The noise multiplier.
        order: a.

    Returns:
        A ball that holds the divergence.
    """
    if order == 1:
        return by_quadrature(q, s, 1 - _BESIDE).union(by_quadrature(q, s, 1 + _BESIDE))
    angle, step, reach = _fitted(q, s, order)
    b = max(order, Fraction(1))
    first, last = -math.ceil(reach / step), math.ceil((reach + b) / step)
    a, rate, wide, width = ball(order), ball(q), ball(s), ball(step)
    twice = 2 * wide * wide
    total = ball(0)
    for k in range(first, last + 1):
        x = k * width
        total += (a * (rate * ((2 * x - 1) / twice).expm1()).log1p() - x * x / twice).exp()
    total *= width / (wide * (2 * pi()).sqrt())
    end = last * width
    beyond = normal_cdf(first * width / wide) + normal_cdf(-end / wide)
    beyond += rate * (ball(b * (b - 1)) / twice).exp() * normal_cdf(-(end - ball(b)) / wide)
    error = 2 * (angle**2 * ball(s**2 / 2)).exp() / (2 * pi() * angle * wide * wide / width).expm1()
    return ((total + beyond.union(ball(0))) / (1 + error.union(-error))).log() / ball(order - 1)


def _fitted(q: Fraction, s: Fraction, order: Fraction) -> tuple[float, float, float]:
    """The angle th, a step and a reach whose errors are nothing beside the excess, of the order of (a - 1) q^2 / s^2."""
    rate, sigma, bits = float(q), float(s), precision()
    wanted = 0.7 * bits + 2 * abs(math.log(rate)) + abs(math.log(abs(order - 1))) + 2 * abs(math.log(sigma))
    angle = min(0.75 * math.pi, math.sqrt(2 * wanted) / sigma)
    raw = 2 * math.pi * angle * sigma**2 / (wanted + angle**2 * sigma**2 / 2)
    reach = math.sqrt(2 * (wanted + max(0.0, float(order) - 1) * abs(math.log(rate)))) * sigma
    return angle, 2.0 ** math.floor(math.log2(raw)), reach
