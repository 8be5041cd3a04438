"""Finitely many outcomes on a Poisson sample, and integer noise: the geometric and the discrete Gaussian mechanism.

Let l = log P/Q at an outcome of the mechanism on the sample, and r = 1 - q + q e^l. The sampled pair has the
masses r Q against Q under remove, and Q against r Q under add. Both are attained, so the bounds are tight.
Equation (S20): docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.checks import open_probability, sampling_rate
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.families.discrete_gaussian import FAR, OMITTED, DiscreteGaussian, atoms
from neartwin.losses.families.discrete_laplace import Geometric, GeometricPair
from neartwin.losses.families.finite import FinitePair, FinitePairLaw
from neartwin.losses.families.subsampled_gaussian import log_mixed
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.base import Direction, Pair, Summand
from neartwin.losses.summands.rounding import U

MOST_OUTCOMES = 200_000


@dataclass(frozen=True, slots=True)
class SubsampledIntegerPair(Pair):
    """One sampled use in one direction."""

    base: Geometric | DiscreteGaussian
    rate: Fraction
    direction: Direction

    def repeated(self, count: int) -> Summand:
        """The mechanism's own losses and masses, by (S20); they are those of Q about 0, with the signs of the losses turned."""
        if isinstance(self.base, Geometric):
            law, omitted = GeometricPair(self.base.epsilon / self.base.sensitivity, self.base.sensitivity).law(), 0.0
        else:
            law, omitted = atoms(self.base.sigma2, self.base.sensitivity), OMITTED
        losses, error = log_mixed(-law.losses, law.loss_error, float(self.rate))
        if self.direction == "add":
            mixed = Weighted(-losses, law.log_masses, law.mass_error, error)
        else:
            log_mass = law.log_masses + losses
            mixed = Weighted(losses, log_mass, law.mass_error + error + U * np.abs(log_mass), error)
        return AtomicSum(mixed, count, infinity=(0.0, omitted))


@dataclass(frozen=True, slots=True, init=False)
class SubsampledFinite(PrivacyLoss):
    """A mechanism of finitely many outcomes, or of integer noise, on a Poisson sample, add/remove.

    Source:
        Zhu, Dong, Wang 2022, theorem 11: remove ((1-q)Q + qP, Q) from the pair (P, Q) of `remove`, add (P, (1-q)P + qQ) from that
        of `add`.

    >>> response = FinitePair(p=("3/4", "1/4"), q=("1/4", "3/4"))
    >>> round((1 * SubsampledFinite(base=response, rate="0.1")).delta(0.0).upper, 12)
    0.05
    >>> round((100 * SubsampledFinite(base=DiscreteGaussian(sigma2=4), rate="0.1")).epsilon(1e-6).upper, 6)
    2.675035
    """

    base: FinitePair | Geometric | DiscreteGaussian
    rate: Fraction

    def __init__(self, *, base: FinitePair | Geometric | DiscreteGaussian, rate: Number) -> None:
        """One sampled use.

        Args:
            base: The mechanism on the sample.
            rate: The probability with which each unit is in the sample; strictly between 0 and 1.

        Raises:
            ParameterError: The rate is out of bounds, or the noise has more than 200,000 outcomes that matter.
        """
        match base:
            case FinitePair():
                wide = 0.0
            case Geometric(sensitivity=sensitivity):
                wide = float(sensitivity)
            case DiscreteGaussian(sigma2=sigma2, sensitivity=sensitivity):
                wide = 2 * (FAR * math.sqrt(sigma2) + sensitivity)
            case _:
                raise ParameterError("base", base, "must be a FinitePair, a Geometric or a DiscreteGaussian")
        if wide > MOST_OUTCOMES:
            raise ParameterError("base", base, f"has more than {MOST_OUTCOMES:,} outcomes that matter")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "rate", open_probability(rate=sampling_rate(rate=rational(rate=rate))))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair of this direction; replace-one needs the mechanism's three laws."""
        if direction.startswith("replace"):
            raise ParameterError("direction", "replace", "is not defined for a sampled pair of add/remove laws")
        if isinstance(self.base, Geometric | DiscreteGaussian):
            return SubsampledIntegerPair(self.base, self.rate, direction)
        law, r = self.base.dominating_pair(direction), self.rate
        one, other = (law.p, law.q) if direction == "remove" else (law.q, law.p)
        mixed = tuple((1 - r) * y + r * x for x, y in zip(one, other, strict=True))
        return FinitePairLaw(mixed, law.q) if direction == "remove" else FinitePairLaw(law.p, mixed)
