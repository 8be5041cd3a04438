"""The Laplace pair: Lap(0, b) against Lap(D, b), which only its ratio d = |D| / b describes.

Under P the loss is d with probability 1/2, -d with probability e^-d / 2, and has density e^((l - d) / 2) / 4 between.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flint import arb

from neartwin import domains
from neartwin.balls import Certified, Exact, Numeric, ball, elementwise, infinite, read
from neartwin.divergences.finite import ORDERS, Pair
from neartwin.divergences.gaussian import read_ratio


def laplace_pair(*, distance: Numeric, scale: Numeric = 1) -> "LaplacePair":
    """Lap(0, scale) against Lap(distance, scale).

    Args:
        distance: The distance of the true answers, of any sign. Arrays broadcast.
        scale: Positive, in the same unit.

    Returns:
        The pair.

    >>> laplace_pair(distance=1).kl().upper
    0.36787944...
    """
    return LaplacePair(read_ratio(distance=distance, scale=scale, name="scale"))


@dataclass(frozen=True, slots=True, eq=False)
class LaplacePair(Pair):
    """Made by `laplace_pair`; ratio: d >= 0, exact. The pair is symmetric: `reversed` has the same divergences."""

    ratio: Any

    def kl(self) -> Certified:
        """It is d + e^-d - 1: the least rho of the Laplace mechanism in zCDP too. Harrison and Manurangsi 2025."""
        return elementwise(laplace_kl, self.ratio, method="Laplace KL, closed form", least=0)

    def max_divergence(self) -> Certified:
        """It is d."""
        return elementwise(lambda d: d, self.ratio, method="Laplace max divergence, closed form")

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """1 - e^min(epsilon, (epsilon - d)/2), and 0 from epsilon = d on.

        >>> laplace_pair(distance=2, scale="0.8").hockey_stick(1.5).upper
        0.39346934...
        """
        method = "Laplace hockey-stick, closed form"
        return elementwise(laplace_profile, read(epsilon=epsilon), self.ratio, method=method, least=0, most=1)

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """ln(1 - delta) + max(0, d + ln(1 - delta)); minus infinity from delta = 1 on.

        >>> laplace_pair(distance=1).approximate_max_divergence(0.8).upper
        -1.60943791...
        """
        method = "Laplace approximate max divergence, closed form"
        return elementwise(_approximate_max, domains.NOT_NEGATIVE(delta=delta), self.ratio, method=method)

    def renyi(self, order: Numeric) -> Certified:
        """ln[a/(2a-1) e^((a-1)d) + (a-1)/(2a-1) e^(-ad)] / (a - 1), with its limits at 1/2, 1 and infinity.

        >>> laplace_pair(distance=1).renyi(2).upper
        0.61912362...
        """
        return elementwise(_renyi, ORDERS(order=order), self.ratio, method="Laplace Renyi, closed form", least=0)


def laplace_kl(d: Exact) -> arb | Exact:
    """The value d + e^-d - 1, a formula of `neartwin.balls`."""
    return ball(d) + (-ball(d)).expm1() if d else 0


def laplace_profile(epsilon: Exact, d: Fraction) -> arb | Exact:
    """The delta at epsilon of Laplace laws d scales apart: a formula of `neartwin.balls`.

    Args:
        epsilon: The epsilon.
        d: The distance, in scales.

    Returns:
        The delta, enclosed.
    """
    if infinite(epsilon):
        return 0 if epsilon > 0 else 1
    exponent = min(Fraction(epsilon), (Fraction(epsilon) - d) / 2)
    return -ball(exponent).expm1() if exponent < 0 else 0


def _approximate_max(delta: Exact, d: Fraction) -> arb | Exact:
    if delta >= 1:
        return -math.inf
    if delta == 0:
        return d
    rest = (-ball(delta)).log1p()
    return rest + (ball(d) + rest).max(ball(0))


def _renyi(order: Exact, d: Fraction) -> arb | Exact:
    if d == 0 or order == math.inf:
        return d
    if order == 1:
        return laplace_kl(d)
    a = Fraction(order)
    b = max(a, 1 - a)  # the moments of the loss at a and at 1 - a are equal, for a symmetric pair
    if 2 * b == 1:
        return ball(d) - 2 * (ball(d) / 2).log1p()
    # the logarithm of the moment is (b - 1) d + ln[(b + (b - 1) e^(-(2b-1) d)) / (2b - 1)]
    inner = (ball(b) + ball(b - 1) * (-ball((2 * b - 1) * d)).exp()) / ball(2 * b - 1)
    return (ball((b - 1) * d) + inner.log()) / ball(a - 1)
