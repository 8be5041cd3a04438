"""Any finite pair of laws.

Losses are logarithms of exact ratios, masses exact fractions, both rounded once.

Such a pair, or integer noise (geometric, discrete Gaussian), may stand on a Poisson sample. Let l = log P/Q at an outcome of
the mechanism on the sample, and r = 1 - q + q e^l. The sampled pair has the masses r Q against Q under remove, and Q against
r Q under add. Both are attained, so the bounds are tight. Equation (S20): docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.checks import open_probability, sampling_rate, several
from neartwin.errors import ParameterError
from neartwin.exact import Number, float_above, float_below, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.families.integer_noise import FAR, OMITTED, DiscreteGaussian, Geometric, GeometricPair, atoms
from neartwin.losses.families.subsampled_gaussian import log_mixed
from neartwin.losses.summands.atoms import AtomicSum, Weighted, merged
from neartwin.losses.summands.base import Direction, Pair, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, U

Masses = tuple[Fraction, ...]
_LEAST = Fraction(1, 10**300)


def _log(ratio: Fraction) -> tuple[float, float]:
    """Log of an exact positive ratio and its absolute error; log1p of the exact difference near 1."""
    if Fraction(1, 2) < ratio < 2:
        value = float(np.log1p(float(ratio - 1)))
        return value, (ELEMENTARY + 4 * U) * abs(value)
    over, under = math.log(ratio.numerator), math.log(ratio.denominator)  # of whole numbers of any size
    value, size = over - under, abs(over) + abs(under)
    return value, (ELEMENTARY + 4 * U) * (size + 1)


@dataclass(frozen=True, slots=True)
class FinitePairLaw(Pair):
    """P and Q on the same finitely many outcomes, exact, each summing to 1."""

    p: Masses
    q: Masses

    def revealed(self) -> Fraction:
        """The P-mass of outcomes where Q vanishes."""
        return sum((p for p, q in zip(self.p, self.q, strict=True) if q == 0), Fraction(0))

    def repeated(self, count: int) -> Summand:
        """Outcomes where Q vanishes are infinite losses; outcomes where P vanishes have no weight under P."""
        infinity = self.revealed()
        common = [(p, q) for p, q in zip(self.p, self.q, strict=True) if p > 0 and q > 0]
        if not common:  # everything is revealed
            only = Weighted(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1))
            return AtomicSum(only, count, infinity=(1.0, 1.0))
        merged: dict[Fraction, Fraction] = {}
        for p, q in common:
            merged[p / q] = merged.get(p / q, Fraction(0)) + p
        losses, errors = (np.array(part) for part in zip(*(_log(ratio) for ratio in merged), strict=True))
        masses = np.array([float(mass / (1 - infinity)) for mass in merged.values()])
        law = Weighted(losses, np.log(masses), np.full(len(masses), 4 * ELEMENTARY), errors)
        ends = (max(float_below(infinity), 0.0), float_above(infinity))
        return AtomicSum(law, count, infinity=ends)


def _masses(name: str, values: Sequence[Number]) -> Masses:
    exact = tuple(rational(**{name: value}) for value in several(**{name: values}))  # type: ignore[arg-type]
    if not exact or any(mass < 0 for mass in exact):
        raise ParameterError(name, values, "must be masses that are not negative")
    if sum(exact) != 1:
        raise ParameterError(
            name,
            values,
            f"must sum to 1 exactly, not {float(sum(exact))!r}",
            remedy="write fractions, for instance '1/3'",
        )
    if any(0 < mass < _LEAST for mass in exact):
        raise ParameterError(name, values, "must hold no mass between 0 and 1e-300: floating point has none")
    return exact


@dataclass(frozen=True, slots=True, init=False)
class FinitePair(PrivacyLoss):
    """Any two laws on finitely many outcomes: P with the unit (remove direction), Q without.

    p, q: masses of the same outcomes, each summing to 1 exactly. Under replace-one both directions are asked.
    Errors: `ParameterError`.

    >>> pair = FinitePair(p=("0.5", "0.3", "0.2"), q=("0.2", "0.5", "0.3"))
    >>> 0.3 in (1 * pair).delta(0.0)
    True
    """

    p: Masses
    q: Masses

    def __init__(self, *, p: Sequence[Number], q: Sequence[Number]) -> None:
        """p, q: as many masses each."""
        object.__setattr__(self, "p", _masses("p", p))
        object.__setattr__(self, "q", _masses("q", q))
        if len(self.p) != len(self.q):
            raise ParameterError("q", q, f"must have as many masses as p, {len(self.p)}")

    def dominating_pair(self, direction: Direction) -> FinitePairLaw:
        """(P, Q) for remove, (Q, P) for add."""
        return FinitePairLaw(self.p, self.q) if direction in ("remove", "replace") else FinitePairLaw(self.q, self.p)


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
            mixed = Weighted(-losses[::-1], law.log_masses[::-1], law.mass_error[::-1], error[::-1])
        else:
            log_mass = law.log_masses + losses
            mixed = Weighted(losses, log_mass, law.mass_error + error + U * np.abs(log_mass), error)
        return AtomicSum(merged(mixed), count, infinity=(0.0, omitted))


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
