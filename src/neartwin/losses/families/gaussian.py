"""The Gaussian mechanism, mu-GDP: L ~ N(mu^2/2, mu^2) in both directions, and any number of them is one with sum of mu^2.

M(s) = exp(mu^2 s(s+1)/2), so |M(tilt+it)/M(tilt)| = exp(-mu^2 t^2/2): one Gaussian in a mix certifies everything else.
Dong, Roth, Su 2022, section 2; Balle, Wang 2018, theorem 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from neartwin.checks import in_floats
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.summands.base import Direction, Pair, Summand
from neartwin.losses.summands.closed_forms import gaussian_delta
from neartwin.losses.summands.rounding import ComplexArray, U
from neartwin.special import erfcx, ndtri


class GaussianSum(Summand):
    """Gaussians whose squared mu add up to `mu2`."""

    has_closed_form = True

    def __init__(self, mu2: Fraction | float) -> None:
        """mu2: exact, or its nearest float: it errs by U."""
        self.mu2 = float(mu2)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """K = mu^2 tilt(tilt+1)/2 and its derivatives."""
        return 0.5 * self.mu2 * tilt * (tilt + 1), self.mu2 * (tilt + 0.5), self.mu2

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Four correctly rounded operations and the rounding of mu2."""
        value = 0.5 * self.mu2 * tilt * (tilt + 1)
        return value, 8 * U * value

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """-mu^2 t^2/2 + i mu^2 t (tilt + 1/2), each product of four factors; t itself may err by 4U."""
        real, imaginary = t * t * (-0.5 * self.mu2), t * (self.mu2 * (tilt + 0.5))
        return real + 1j * imaginary, (imaginary - real) * (16 * U)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """Exact and decreasing in t."""
        return -0.5 * self.mu2 * t * t * (1 - 16 * U)

    def log_modulus_bound(self, tilt: float, t: FloatArray, width: float, enough: FloatArray) -> FloatArray:
        """Exact at the nearest t."""
        return np.square(np.maximum(t - width, 0.0)) * (-0.5 * self.mu2 * (1 - 32 * U))

    def zcdp_tail(self, s: float) -> float:
        """mu^2/2 at every order."""
        return 0.5 * self.mu2 * (1 + 4 * U)

    def root(self, delta: float) -> tuple[float, float] | None:
        """Newton on the logarithm of delta, in plain floats; e^eps and the tail that it multiplies would leave their range."""
        mu, log = math.sqrt(self.mu2), math.log(delta)
        e = 0.5 * self.mu2 - mu * float(ndtri(min(delta * (2 + 1 / mu), 0.5)))
        for _ in range(30):
            near, far = (e / mu - mu / 2) / math.sqrt(2), (e / mu + mu / 2) / math.sqrt(2)  # far^2 - near^2 = e
            p, q = 0.5 * math.erfc(near), 0.5 * math.exp(-near * near) * float(erfcx(far))
            if not (p > q > 0):
                return None
            move = (math.log(p - q) - log) * (p - q) / q
            e += max(-2 * mu, min(2 * mu, move))
            if abs(move) <= 1e-13 * (abs(e) + 1e-3):
                return e, q / (p - q)
        return e, q / (p - q)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The closed form; mu errs by 2U, which moves delta by at most mu phi(0) 2U relative to its own slope in mu."""
        mu = math.sqrt(self.mu2)
        lower, upper = gaussian_delta(mu, eps)
        # d delta / d mu = phi(a) exactly, so 2U mu phi(a) covers the rounding of mu
        slope = np.exp(-0.5 * np.square(np.maximum(eps / mu - mu / 2, 0.0) * (1 - 1e-9))) * 3 * U * mu
        return np.maximum(lower - slope, 0.0), np.minimum(upper + slope, 1.0)


@dataclass(frozen=True, slots=True)
class GaussianPair(Pair):
    """N(mu, 1) against N(0, 1); the same law of losses in both directions."""

    merges: ClassVar[float] = 2

    mu: Fraction

    def repeated(self, count: int) -> Summand:
        """Mu^2 adds."""
        return GaussianSum(count * self.mu**2)

    def gaussian(self) -> Fraction:
        """Itself."""
        return self.mu**2

    @classmethod
    def merged(cls, uses: Sequence[tuple[GaussianPair, int]]) -> list[Summand]:
        """All Gaussians are one: mu^2 adds."""
        squares: dict[int, int] = {}  # by the denominator of mu, so that whole numbers do most of the adding
        for pair, count in uses:
            top, bottom = pair.mu.as_integer_ratio()
            squares[bottom] = squares.get(bottom, 0) + count * top * top
        whole = math.lcm(*[bottom * bottom for bottom in squares])
        top = sum([top * (whole // (bottom * bottom)) for bottom, top in squares.items()])
        return [GaussianSum(top / whole)]  # whole numbers divide to the nearest float


@dataclass(frozen=True, slots=True, init=False)
class Gaussian(PrivacyLoss):
    """The Gaussian mechanism, equivalently a mechanism that is exactly mu-GDP: mu = sensitivity / sigma.

    Errors: `ParameterError` unless mu is finite and positive. Dong, Roth, Su 2022, theorem 2.7.

    >>> 0.12693673750664397 in Gaussian(mu=1).__mul__(1).delta(1.0)
    True
    """

    both_ways: ClassVar[bool] = True
    mu: Fraction

    def __init__(self, *, mu: Number) -> None:
        """mu: l2 sensitivity over the standard deviation of the noise."""
        object.__setattr__(self, "mu", in_floats(mu=rational(mu=mu)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return GaussianPair(self.mu)

    def stated_rho(self) -> Fraction | None:
        """Bun, Steinke 2016, proposition 1.6."""
        return self.mu**2 / 2
