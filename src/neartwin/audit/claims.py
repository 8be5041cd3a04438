"""What is claimed, as the attacker reads it: a floor under his errors, and one number that his errors put to the test.

A claim answers two questions. `floor(fpr)`: the least miss rate the claim allows at a false-alarm rate, for either
order of the two inputs. `reached(fpr, fnr)`: the least parameter of the claim's family that would allow these errors;
above `limit`, the claim is false. For a claim without a family the number is how far the attacker got below the curve.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from scipy import special

from neartwin.audit.losses_seen import epsilon_seen, mu_seen
from neartwin.checks import non_negative, probability
from neartwin.exact import FloatArray, Number, float_above, float_below, rational

Curve = Callable[[FloatArray], FloatArray]


class Claim(Protocol):
    """A statement about every pair of neighbouring inputs."""

    @property
    def unit(self) -> str:
        """The name of the number that `reached` returns."""

    @property
    def limit(self) -> float:
        """The claimed value of that number, rounded up."""

    def floor(self, fpr: FloatArray) -> FloatArray:
        """The least miss rate at each false-alarm rate; convex and non-increasing; (n,) to (n,)."""

    def reached(self, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
        """The least parameter that would allow these errors; elementwise."""


@dataclass(frozen=True, slots=True)
class EpsilonDelta:
    """(epsilon, delta)-differential privacy; delta = 0 is pure privacy.

    >>> EpsilonDelta(1.0, 0.0).floor(np.array([0.0, 0.1, 1.0])).round(4)
    array([1.    , 0.7282, 0.    ])
    """

    epsilon: float
    delta: float

    @property
    def unit(self) -> str:
        """The audited number is epsilon, at the claimed delta."""
        return "epsilon" if self.delta == 0 else f"epsilon at delta={self.delta:g}"

    @property
    def limit(self) -> float:
        """The claimed epsilon."""
        return self.epsilon

    def floor(self, fpr: FloatArray) -> FloatArray:
        """f_{eps,delta}: Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015."""
        gain = 1 - self.delta - fpr
        steep = 1 - self.delta - np.exp(self.epsilon) * fpr
        return np.asarray(np.maximum(0.0, np.maximum(steep, np.exp(-self.epsilon) * gain)))

    def reached(self, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
        """The least epsilon at this delta."""
        return epsilon_seen(fpr, fnr, delta=self.delta)

    def __str__(self) -> str:
        return f"epsilon={self.epsilon:g}" + (f", delta={self.delta:g}" if self.delta else "")


@dataclass(frozen=True, slots=True)
class GaussianPrivacy:
    """mu-Gaussian privacy: as hard to tell apart as N(0, 1) and N(mu, 1). Dong, Roth and Su 2022."""

    mu: float

    @property
    def unit(self) -> str:
        """The audited number is mu."""
        return "mu"

    @property
    def limit(self) -> float:
        """The claimed mu."""
        return self.mu

    def floor(self, fpr: FloatArray) -> FloatArray:
        """G_mu(a) = Phi(Phi^-1(1 - a) - mu)."""
        return np.asarray(special.ndtr(-special.ndtri(fpr) - self.mu))

    def reached(self, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
        """The least mu."""
        return mu_seen(fpr, fnr)

    def __str__(self) -> str:
        return f"mu={self.mu:g}"


@dataclass(frozen=True, slots=True)
class BelowCurve:
    """Any trade-off curve: `curve` takes false-alarm rates (n,) and returns the least miss rates (n,).

    The curve must be convex, non-increasing and hold for both orders of the inputs; where it comes as bounds, give the
    *lower* one, which is what is promised. `claim_of` makes this claim from a guarantee, a curve or a composed whole.
    """

    curve: Curve
    name: str = "the claimed curve"

    @property
    def unit(self) -> str:
        """The audited number is how far the attacker's miss rate lies below the curve."""
        return "gap below the curve"

    @property
    def limit(self) -> float:
        """No gap is allowed."""
        return 0.0

    def floor(self, fpr: FloatArray) -> FloatArray:
        """The curve itself."""
        return np.asarray(self.curve(fpr), np.float64)

    def reached(self, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
        """The claimed miss rate less the attacker's, in either order of the inputs."""
        rates, misses = (np.atleast_1d(np.asarray(rate, np.float64)) for rate in (fpr, fnr))
        gap = np.maximum(self.floor(rates) - misses, self.floor(misses) - rates)
        return gap.reshape(np.shape(fpr))

    def __str__(self) -> str:
        return self.name


def claim_pure(epsilon: Number) -> EpsilonDelta:
    """The claim of pure privacy.

    >>> claim_pure(1)
    EpsilonDelta(epsilon=1.0, delta=0.0)
    """
    return claim_approx(epsilon, 0)


def claim_approx(epsilon: Number, delta: Number) -> EpsilonDelta:
    """The claim of (epsilon, delta)-privacy; both are rounded up, so that rounding refutes nobody."""
    return EpsilonDelta(
        abs(float_above(non_negative(epsilon=rational(epsilon=epsilon)))),
        abs(float_above(probability(delta=rational(delta=delta)))),
    )


def claim_gdp(mu: Number) -> GaussianPrivacy:
    """The claim of mu-Gaussian privacy; mu is rounded up."""
    return GaussianPrivacy(abs(float_above(non_negative(mu=rational(mu=mu)))))


def refutes(claim: Claim, reached: float) -> bool:
    """Whether a lower bound on the claim's number lies above what is claimed, rounding taken off."""
    if np.isinf(reached):
        return reached > 0
    slack = Fraction(16, 2**53)
    return float_below(Fraction(reached) * (1 - slack) - slack) > claim.limit
