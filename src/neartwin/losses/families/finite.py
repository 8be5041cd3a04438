"""Any finite pair of laws, and noise on the integers: geometric, staircase and discrete Gaussian, of integer sensitivity D.

**Finite pairs.** Losses are logarithms of exact ratios, masses exact fractions, both rounded once.

Such a pair, or integer noise (geometric, discrete Gaussian), may stand on a Poisson sample. Let l = log P/Q at an outcome of
the mechanism on the sample, and r = 1 - q + q e^l. The sampled pair has the masses r Q against Q under remove, and Q against
r Q under add. Both are attained, so the bounds are tight. Equation (S20): docs/proofs/losses-sampled.md.

**Geometric (discrete Laplace).** Mass proportional to e^{-a|x|}.
P is centred at 0, Q at D: the loss is a(D - 2x) for 0 <= x <= D, and +-aD beyond, so D + 1 atoms on a lattice of
step 2a. With r = e^{-a}: mass of x inside (1-r)/(1+r) r^x, of x <= 0 it is 1/(1+r), of x >= D it is r^D/(1+r).
Ghosh, Roughgarden, Sundararajan 2012.

**Staircase.** Noise of steps, the least expected error of all pure-epsilon noise for one number.

At its worst shift, the whole sensitivity, the loss is epsilon, 0 or -epsilon: `staircase_masses` has the masses, and the proof
that smaller shifts say less. The losses of 0 make it gentler than epsilon-DP alone. Geng, Kairouz, Oh, Viswanath 2015.

**Discrete Gaussian.** Mass proportional to e^{-x^2/(2 s)}, s = sigma^2.
L = (D^2 - 2xD)/(2s) on the lattice D^2/(2s) + (D/s) Z, the same law in both directions. With mu = D/sigma and
Theta(w) = sum_x e^{-(x+w)^2/(2s)}:  M(s') = e^{mu^2 s'(s'+1)/2} Theta(s'D)/Theta(0), complex s'. Poisson summation turns
Theta into sigma sqrt(2pi) sum_k e^{-2 pi^2 s k^2} e^{2 pi i k w}: nothing is truncated but terms below 2^-60, and sigma
may be any size.

In the period |t| <= pi s/D the k-th term has modulus e^{-2 pi^2 s k^2 + 2 pi |k t| D}, and e^{-mu^2 t^2/2} times
that is exp(-mu^2 (|t| - k P)^2/2), P = 2 pi s/D: a Gaussian bump at each period. Hence on [T, P/2] the ratio is at
most (e^{-mu^2 T^2/2} + 3 e^{-mu^2 (P/2)^2/2}) / (1 - 3 e^{-2 pi^2 s}) for s >= 1/4. For smaller s the sum over x is
used directly. Canonne, Kamath, Steinke 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from neartwin.checks import in_floats, integer, open_probability, sampling_rate, several
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, float_above, float_below, rational
from neartwin.losses.composition import PrivacyLoss, PureLoss
from neartwin.losses.families.gaussian import log_mixed
from neartwin.losses.families.randomized_response import Pure, RandomizedResponse, ResponsePair, three_losses
from neartwin.losses.summands.atoms import AtomicSum, Weighted, merged
from neartwin.losses.summands.base import Direction, Lattice, Pair, Summand, no_replacement
from neartwin.losses.summands.rounding import ELEMENTARY, ComplexArray, U, gamma, log_one_plus
from neartwin.tradeoff.finite import staircase_masses

SMALL_VARIANCE = Fraction(1, 4)
TWO_PI = 2 * math.pi
FAR = 38.0  # deviations beyond which no discrete Gaussian has a mass of 1e-300
OMITTED = 1e-300


class ThetaSum(Summand):
    """`count` discrete Gaussians of variance parameter at least 1/4."""

    def __init__(self, variance: Fraction, sensitivity: int, count: int) -> None:
        """Exact parameters; floats err by U."""
        self.s, self.d, self.count = float(variance), sensitivity, count
        self.mu2 = float(sensitivity**2 / variance)
        step = sensitivity / variance
        self.lattice = Lattice(count * step * sensitivity / 2, step)
        # k <= most: e^{-2 pi^2 s k^2 + 2 pi k |t| D} <= e^{-2 pi^2 s k(k-1)} in the period, below 2^-60 beyond
        self.most = next(k for k in range(1, 12) if 2 * math.pi**2 * self.s * k * (k + 1) > 60 * math.log(2))

    def _theta(self, tilt: float, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Real and imaginary part of Theta(w)/(sigma sqrt(2 pi)) - 1 at w = (tilt + it) D, and its absolute error.

        2 cos(2 pi k w) for complex w: the phase 2 pi k tilt D errs by 8U of itself, the exponents likewise.
        """
        x, y, error = np.zeros(len(t)), np.zeros(len(t)), np.zeros(len(t))
        whole = math.fmod(tilt * self.d, 1.0)  # exact but for the rounding of tilt D
        for k in range(1, self.most + 1):
            turn = TWO_PI * k * whole
            shift = 8 * U * TWO_PI * k * (abs(tilt) * self.d + 1) + 2 * ELEMENTARY
            up_exponent, down_exponent = TWO_PI * k * t * self.d, -2 * math.pi**2 * self.s * k * k
            grow, fall = np.exp(down_exponent + up_exponent), np.exp(down_exponent - up_exponent)
            # e^{2 pi i k w} has modulus e^{-2 pi k t D}
            x += (grow + fall) * math.cos(turn)
            y += (fall - grow) * math.sin(turn)
            error += (grow + fall) * (shift + 8 * U * (np.abs(up_exponent) + abs(down_exponent)))
        return x, y, error + 2.0**-59

    def _log_theta(self, tilt: float) -> tuple[float, float]:
        """Log Theta(tilt D)/(sigma sqrt(2pi)), tilt real."""
        x, _, error = self._theta(tilt, np.zeros(1))
        return math.log1p(float(x[0])), float(error[0]) / (1 + float(x[0])) + 4 * U

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Those of the Gaussian; the theta factor differs from 1 by e^{-2 pi^2 s}."""
        value, _ = self.log_mgf(tilt)
        return value, self.count * self.mu2 * (tilt + 0.5), self.count * self.mu2

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """mu^2 tilt(tilt+1)/2 + log Theta(tilt D) - log Theta(0)."""
        (here, here_error), (zero, zero_error) = self._log_theta(tilt), self._log_theta(0.0)
        value = 0.5 * self.mu2 * tilt * (tilt + 1) + here - zero
        return self.count * value, self.count * (here_error + zero_error + 8 * U * abs(value) + 4 * U)

    def zcdp_tail(self, s: float) -> float:
        """Theta(w) <= Theta(0) for real w (its Fourier coefficients are positive): mu^2/2 at every order."""
        return 0.5 * self.count * self.mu2 * (1 + 8 * U)

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """The Gaussian line and a ratio of thetas, in the period around 0.

        e^{iPL} = (-1)^D for P = 2 pi s/D, since L is D/2 steps and a whole number of steps. Moving t by m periods
        errs by 8U(t + mP) =: shift, which moves M(tilt+it)/M(tilt) by at most shift E|L|, E|L| <= mu^2(tilt + 1/2) + mu.
        """
        period = TWO_PI * self.s / self.d
        periods = np.rint(t / period)
        shift = 8 * U * (t + period * periods) * (periods > 0)
        near = np.abs(t - period * periods)
        sign = np.where(t < period * periods, -1.0, 1.0)
        x, y, error = self._theta(tilt, near)
        theta, theta_error = log_one_plus(x, y, error)
        here, here_error = self._log_theta(tilt)
        real, imaginary = -0.5 * self.mu2 * near * near, self.mu2 * near * (tilt + 0.5)
        one = real + theta.real - here + 1j * sign * (imaginary + theta.imag)
        own = 20 * U * (np.abs(real) + np.abs(imaginary)) + theta_error + here_error
        reach = self.mu2 * (tilt + 0.5) + math.sqrt(self.mu2)
        own = own + np.log1p(shift * reach * np.exp(np.minimum(-one.real, 700.0)))
        value = self.count * one
        error = self.count * own + 4 * U * np.abs(value)
        return value + 1j * math.pi * (self.count * self.d % 2) * np.mod(periods, 2), error + 4 * U

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """The bound of the module's docstring, inside half a period; the same for every tilt."""
        half = math.pi * self.s / self.d
        if until > half * (1 + 1e-12):
            return 0.0
        top = float(np.logaddexp(-0.5 * self.mu2 * t * t, math.log(3) - 0.5 * self.mu2 * half * half))
        bound = top - math.log1p(-3 * math.exp(-2 * math.pi**2 * self.s)) + 1e-12
        return min(self.count * bound * (1 - 1e-12), 0.0)


def atoms(variance: Fraction, sensitivity: int) -> Weighted:
    """The outcomes that matter, by (S20). The rest weighs less than OMITTED: an infinite loss above, and nothing below.

    Args:
        variance: s.
        sensitivity: D.
    """
    s, reach = float(variance), math.ceil(FAR * math.sqrt(variance)) + sensitivity + 1
    x = np.arange(-reach, reach + 1, dtype=float)
    log_mass = -0.5 * x * x / s
    log_mass = log_mass - math.log(float(np.exp(log_mass).sum()))
    losses = (0.5 * sensitivity - x) * (sensitivity / s)
    error = 4 * ELEMENTARY + gamma(len(x)) + 8 * U * (1 + np.abs(log_mass))
    return Weighted(losses, log_mass, error, 4 * U * np.abs(losses))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianPair(Pair):
    """Variance parameter and sensitivity; the same law in both directions."""

    variance: Fraction
    sensitivity: int

    def repeated(self, count: int) -> Summand:
        """A closed form by theta, or the few atoms that matter if the variance is tiny."""
        s, d = self.variance, self.sensitivity
        if s >= SMALL_VARIANCE:
            return ThetaSum(s, d, count)
        return AtomicSum(atoms(s, d), count, infinity=(0.0, OMITTED), lattice=Lattice(Fraction(d * d) / (2 * s), d / s))


@dataclass(frozen=True, slots=True, init=False)
class DiscreteGaussian(PrivacyLoss):
    """The discrete Gaussian mechanism on integers.

    sigma2: the parameter sigma^2 (the variance is a little less); sensitivity: a whole number.
    Errors: `ParameterError`. Canonne, Kamath, Steinke 2020, theorem 7.

    >>> (1 * DiscreteGaussian(sigma2=4)).delta(0.5).upper
    0.0540072236941...
    """

    both_ways: ClassVar[bool] = True
    sigma2: Fraction
    sensitivity: int

    def __init__(self, *, sigma2: Number, sensitivity: int = 1) -> None:
        """sigma2: exact; sensitivity: the most one unit moves the integer answer."""
        object.__setattr__(self, "sigma2", in_floats(sigma2=rational(sigma2=sigma2)))
        object.__setattr__(self, "sensitivity", integer(at_least=1, sensitivity=sensitivity))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return DiscreteGaussianPair(self.sigma2, self.sensitivity)

    def stated_rho(self) -> Fraction | None:
        """Canonne, Kamath, Steinke 2020, proposition 5: reached at every whole order."""
        return Fraction(self.sensitivity**2) / (2 * self.sigma2)


MOST_ATOMS = 1 << 20


@dataclass(frozen=True, slots=True)
class GeometricPair(Pair):
    """Rate a per unit and sensitivity D; the same law in both directions."""

    rate: Fraction
    sensitivity: int

    def law(self) -> Weighted:
        """One use: logarithms of the masses, each of a few elementary terms."""
        a, d = float(self.rate), self.sensitivity
        x = np.arange(d + 1, dtype=float)
        inside = math.log(-math.expm1(-a)) - math.log1p(math.exp(-a)) - a * x
        inside[0] = -math.log1p(math.exp(-a))
        inside[-1] = -a * d - math.log1p(math.exp(-a))
        error = 4 * ELEMENTARY * (1 + np.abs(inside)) + 4 * U * a * x
        losses = a * (d - 2 * x)
        return Weighted(losses, inside, error, 3 * U * np.abs(losses))

    def repeated(self, count: int) -> Summand:
        """Its composition, on a lattice."""
        return AtomicSum(self.law(), count, lattice=Lattice(self.rate * self.sensitivity, 2 * self.rate))


@dataclass(frozen=True, slots=True, init=False)
class Geometric(PureLoss):
    """The geometric mechanism at epsilon = sensitivity * rate, integer answers.

    Errors: `ParameterError` unless epsilon is positive and sensitivity a whole number, at least 1.

    >>> (100 * Geometric(epsilon="0.1", sensitivity=3)).epsilon(1e-6).method
    'lattice'
    """

    epsilon: Fraction
    sensitivity: int

    def __init__(self, *, epsilon: Number, sensitivity: int = 1) -> None:
        """epsilon: the pure guarantee; sensitivity: the most one unit moves the integer answer."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))
        object.__setattr__(self, "sensitivity", integer(at_least=1, sensitivity=sensitivity))
        if sensitivity > MOST_ATOMS:
            raise ParameterError(
                "sensitivity", sensitivity, f"must not exceed {MOST_ATOMS}", remedy="take a larger step of the grid"
            )

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return GeometricPair(self.epsilon / self.sensitivity, self.sensitivity)


@dataclass(frozen=True, slots=True)
class StaircasePair(Pair):
    """Losses epsilon, 0 and -epsilon. Symmetric."""

    epsilon: Fraction
    sensitivity: int
    step: int

    def repeated(self, count: int) -> Summand:
        """The masses of `staircase_masses`, with its error."""
        masses = staircase_masses(self.epsilon, self.sensitivity, self.step)
        return three_losses(self.epsilon, masses[:2], count, error=(64 + 4 * float(self.epsilon)) * U)


@dataclass(frozen=True, slots=True, init=False)
class Staircase(PureLoss):
    """Staircase noise for one number.

    Errors: `ParameterError` unless epsilon is positive, sensitivity and step are whole numbers and 1 <= step <= sensitivity.
    Geng, Kairouz, Oh, Viswanath 2015.

    >>> (1 * Staircase(epsilon=1, sensitivity=5, step=2)).delta(0.0).upper
    0.423566614996...
    """

    epsilon: Fraction
    sensitivity: int
    step: int

    def __init__(self, *, epsilon: Number, sensitivity: int, step: int) -> None:
        """epsilon: the pure guarantee; sensitivity: D, the most one unit moves the answer; step: r, of the upper steps."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))
        distance = in_floats(sensitivity=integer(at_least=1, sensitivity=sensitivity))
        object.__setattr__(self, "sensitivity", distance)
        object.__setattr__(self, "step", integer(at_least=1, step=step))
        if step > distance:
            raise ParameterError("step", step, f"must be at most the sensitivity, {distance}")

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction; binary response if no point of the noise is silent."""
        if self.sensitivity == 2 * self.step - 1:
            return ResponsePair(self.epsilon, Fraction(0), 0)
        return StaircasePair(self.epsilon, self.sensitivity, self.step)


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


MOST_OUTCOMES = 1_000_000


Symmetric = Geometric | DiscreteGaussian | Staircase | RandomizedResponse | Pure


@dataclass(frozen=True, slots=True)
class SubsampledSymmetricPair(Pair):
    """One sampled use in one direction, of a mechanism whose losses have one law in both."""

    base: Symmetric
    rate: Fraction
    direction: Direction

    def repeated(self, count: int) -> Summand:
        """The mechanism's own losses and masses, by (S20); they are those of Q about 0, with the signs of the losses turned."""
        if isinstance(self.base, DiscreteGaussian):
            law, omitted = atoms(self.base.sigma2, self.base.sensitivity), OMITTED
        else:
            (law, _), omitted = self.base.dominating_pair("remove").repeated(1).atoms, 0.0
        losses, error = log_mixed(-law.losses, law.loss_error, float(self.rate))
        if self.direction == "add":
            mixed = Weighted(-losses[::-1], law.log_masses[::-1], law.mass_error[::-1], error[::-1])
        else:
            log_mass = law.log_masses + losses
            mixed = Weighted(losses, log_mass, law.mass_error + error + U * np.abs(log_mass), error)
        return AtomicSum(merged(mixed), count, infinity=(0.0, omitted))


@dataclass(frozen=True, slots=True, init=False)
class SubsampledFinite(PrivacyLoss):
    """A mechanism of finitely many losses, or of integer noise, on a Poisson sample, add/remove.

    Source:
        Zhu, Dong, Wang 2022, theorem 11: remove ((1-q)Q + qP, Q) from the pair (P, Q) of `remove`, add (P, (1-q)P + qQ) from that
        of `add`.

    >>> response = FinitePair(p=("3/4", "1/4"), q=("1/4", "3/4"))
    >>> round((1 * SubsampledFinite(base=response, rate="0.1")).delta(0.0).upper, 12)
    0.05
    >>> round((100 * SubsampledFinite(base=DiscreteGaussian(sigma2=4), rate="0.1")).epsilon(1e-6).upper, 6)
    2.675035
    """

    bases: ClassVar[Any] = FinitePair | Symmetric  # whose samples are known
    base: FinitePair | Symmetric
    rate: Fraction

    def __init__(self, *, base: FinitePair | Symmetric, rate: Number) -> None:
        """One sampled use.

        Args:
            base: The mechanism on the sample. `Pure` stands for the worst one, whose sample is the worst sample.
            rate: The probability with which each unit is in the sample; strictly between 0 and 1.

        Raises:
            ParameterError: The rate is out of bounds, or the noise has more than 1,000,000 outcomes that matter.
        """
        if not isinstance(base, self.bases):
            raise ParameterError("base", base, "must be a FinitePair, a response, or integer noise")
        wide = float(base.sensitivity) if isinstance(base, Geometric) else 0.0
        if isinstance(base, DiscreteGaussian):
            wide = 2 * (FAR * math.sqrt(base.sigma2) + base.sensitivity)
        if wide > MOST_OUTCOMES:
            rule = f"has more than {MOST_OUTCOMES:,} outcomes that matter"
            raise ParameterError("base", base, rule, remedy="round to larger units before the noise")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "rate", open_probability(rate=sampling_rate(rate=rational(rate=rate))))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair of this direction; replace-one needs the mechanism's three laws."""
        if direction.startswith("replace"):
            raise no_replacement()
        if not isinstance(self.base, FinitePair):
            return SubsampledSymmetricPair(self.base, self.rate, direction)
        law, r = self.base.dominating_pair(direction), self.rate
        one, other = (law.p, law.q) if direction == "remove" else (law.q, law.p)
        mixed = tuple((1 - r) * y + r * x for x, y in zip(one, other, strict=True))
        return FinitePairLaw(mixed, law.q) if direction == "remove" else FinitePairLaw(law.p, mixed)
