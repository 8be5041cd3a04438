"""Mechanisms that add noise to a number.

The Laplace mechanism, exactly: the ideal real-valued mechanism, rounded to the grid.

For an integer vector x of L1 sensitivity D, round(x + Y) with Y Laplace of scale b has the law of x + round(Y), because
rounding commutes with whole shifts and ties have probability 0. It is post-processing of the real mechanism and so keeps
its whole trade-off curve, in particular epsilon = D/b. Dwork, Roth 2014, Def. 3.3 and Thm 3.6.

The discrete Laplace mechanism: whole numbers plus discrete Laplace noise.

Let P(X = x) be proportional to exp(-|x| / t). Adding X to a vector of integers of L1 sensitivity D is (D/t)-DP: the ratio of
the densities at any output is at most exp((|y - f(S')|_1 - |y - f(S)|_1) / t) <= exp(D / t). Ghosh, Roughgarden,
Sundararajan 2009; Dwork, Roth 2014, Thm 3.6 on a grid.

The worst change of L1 norm at most D is the whole of D in one coordinate, at every level of the trade-off:
docs/mechanisms/discrete_laplace.md.

The staircase mechanism: among all pure-epsilon noise for one number, the least expected error.

P(x) is constant on the steps [kD, kD + r) and [kD + r, (k + 1)D) of |x| and falls by exp(-epsilon) from each period to the
next, D the sensitivity. Within a distance D the density falls by one period at most, so it is epsilon-DP. Against the
discrete Laplace law it gains at large epsilon D and nothing where D = 1, where the two coincide. Geng, Kairouz, Oh,
Viswanath 2015.

The Gaussian mechanism, exactly: the ideal real-valued mechanism, rounded to the grid.

For an integer vector x whose Euclidean sensitivity squared is D2, round(x + N(0, s2 I)) has the law of x + round(N(0, s2 I)).
It is post-processing of the real mechanism, so it is mu-GDP with mu^2 = D2 / s2 and (mu^2 / 2)-zCDP, in any dimension
and with no correction for discreteness. Dong, Roth, Su 2022, Thm 2.7; Bun, Steinke 2016, Prop 1.6.

The discrete Gaussian mechanism: whole numbers plus P(x) in proportion to exp(-x^2 / (2 s2)).

With squared Euclidean sensitivity D2 it is (D2 / (2 s2))-zCDP in any dimension (Canonne, Kamath, Steinke 2020, Thm 4 and
Thm 14). It is *not* sqrt(D2/s2)-GDP: at small variances its trade-off falls below the Gaussian one, which is why the
rounded Gaussian is preferred. For one coordinate the exact delta is known (their Thm 7).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from neartwin import noise
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError
from neartwin.exact import root_above
from neartwin.losses import Composition, Pure, ZeroConcentrated
from neartwin.losses import DiscreteGaussian as DiscreteGaussianLoss
from neartwin.losses import Gaussian as GaussianLoss
from neartwin.losses import Geometric as DiscreteLaplaceLoss
from neartwin.losses import Laplace as LaplaceLoss
from neartwin.losses import Staircase as StaircaseLoss
from neartwin.mechanisms.adding import AdditiveMechanism, ScaledNoise, SquaredNoise
from neartwin.mechanisms.noise_laws import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    RoundedGaussianLaw,
    RoundedLaplaceLaw,
    StaircaseLaw,
)
from neartwin.tradeoff import mu_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace(ScaledNoise):
    """Rounded Laplace noise. Its epsilon, sensitivity / scale, is that of the real mechanism: an upper bound.

    Attributes:
        scale: b, in units of the answer.
        sensitivity: D, the L1 sensitivity, a whole number.

    >>> from fractions import Fraction
    >>> Laplace.calibrated(epsilon=Fraction(3, 10), sensitivity=7).scale
    Fraction(70, 3)
    >>> Laplace(scale=Fraction(1), sensitivity=1).half_width(0.95)
    3
    """

    kind = "rounded Laplace noise"

    @property
    def law(self) -> RoundedLaplaceLaw:
        """The law of one coordinate's noise."""
        return RoundedLaplaceLaw(self.scale)

    @property
    def sampler(self) -> noise.Sampler:
        """The exact sampler of this law."""
        return noise.rounded_laplace(self.scale)

    def losses(self) -> Composition:
        """The privacy loss as a factor for composition."""
        return Composition.of(LaplaceLoss(epsilon=self.epsilon))


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(ScaledNoise):
    """Discrete Laplace noise, exactly epsilon-DP for epsilon = sensitivity / scale.

    Attributes:
        scale: t, in units of the answer.
        sensitivity: D, the L1 sensitivity, a whole number.

    >>> DiscreteLaplace.calibrated(epsilon=Fraction(1, 2), sensitivity=3).scale
    Fraction(6, 1)
    >>> DiscreteLaplace(scale=Fraction(1), sensitivity=1).half_width(0.95)
    3
    >>> DiscreteLaplace(scale=Fraction(3), sensitivity=1).describe()
    'discrete Laplace noise, scale 3'
    """

    kind = "discrete Laplace noise"

    @property
    def law(self) -> DiscreteLaplaceLaw:
        """The law of one coordinate's noise."""
        return DiscreteLaplaceLaw(self.scale)

    @property
    def sampler(self) -> noise.Sampler:
        """The exact sampler of this law."""
        return noise.laplace_sampler(self.scale)

    @property
    def mean_size(self) -> float:
        """E|X|, in steps: 1 / sinh(1 / t), which is below t by a sixth of its inverse."""
        return 1 / math.sinh(1 / self.noise_scale) if self.noise_scale > 1 / 700 else 0.0

    def losses(self) -> Composition:
        """The privacy loss as a factor for composition."""
        epsilon, legs = self.legs()
        return Composition.of(DiscreteLaplaceLoss(epsilon=epsilon, sensitivity=legs))

    def losses_in_cells(self, *, cells: int, cell: int, l1: int) -> Composition:
        """A pure factor for each cell, or one for their absolute sum where not all cells can change by so much."""
        if cells * cell > l1:
            return Composition.of(Pure(epsilon=l1 / self.scale))
        return cells * Pure(epsilon=cell / self.scale)

    def legs(self, most: int = 4096) -> tuple[Fraction, int]:
        """(epsilon, D), or for D above `most` a coarser pair whose trade-off is lower: at most `most` legs of equal whole steps.

        >>> DiscreteLaplace(scale=Fraction(5000), sensitivity=5000).legs()
        (Fraction(1, 1), 2500)
        """
        steps = -(-self.sensitivity // most)
        legs = -(-self.sensitivity // steps)
        return legs * steps / self.scale, legs


@dataclass(frozen=True, slots=True, kw_only=True)
class Staircase(AdditiveMechanism):
    """Noise for one number: more than one value composes.

    Attributes:
        epsilon: The pure parameter of a period.
        sensitivity: D, a whole number.
        step: r, the width of the upper step, 1 to D.
    """

    epsilon: Fraction
    sensitivity: int
    step: int

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        integer(at_least=1, sensitivity=self.sensitivity)
        if integer(at_least=1, step=self.step) > self.sensitivity:
            raise ParameterError("step", self.step, f"must be at most the sensitivity, {self.sensitivity}")

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int) -> "Staircase":
        """The staircase with the least variance, or nearly. Every step is private, so floats may choose it.

        Candidates are the least of a ternary search, and the optimum for E|X|, D / (1 + exp(epsilon/2)).

        Args:
            epsilon: The pure-DP parameter.
            sensitivity: D, a whole number.

        Returns:
            The mechanism.

        >>> Staircase.calibrated(epsilon=Fraction(4), sensitivity=100).step
        20
        """

        def variance(step: int) -> float:
            return StaircaseLaw(epsilon, sensitivity, step).variance

        low, high = 1, integer(at_least=1, sensitivity=sensitivity)
        while high - low > 2:
            third = (high - low) // 3
            a, b = low + third, high - third
            low, high = (low, b) if variance(a) <= variance(b) else (a, high)
        near = round(sensitivity / (1 + math.exp(float(epsilon) / 2)))
        candidates = {*range(low, high + 1), min(max(near, 1), sensitivity)}
        return cls(epsilon=epsilon, sensitivity=sensitivity, step=min(sorted(candidates), key=variance))

    @property
    def law(self) -> StaircaseLaw:
        """The law of the noise."""
        return StaircaseLaw(self.epsilon, self.sensitivity, self.step)

    @property
    def sampler(self) -> noise.Sampler:
        """The exact sampler of this law."""
        return noise.staircase(self.epsilon, self.sensitivity, self.step)

    def losses(self) -> Composition:
        """The privacy loss, for composition."""
        return Composition.of(StaircaseLoss(epsilon=self.epsilon, sensitivity=self.sensitivity, step=self.step))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(SquaredNoise):
    """Rounded normal noise, mu-GDP for mu^2 = l2_squared / variance.

    Attributes:
        variance: s2, before rounding.
        l2_squared: D2, the squared Euclidean sensitivity, a whole number.

    >>> Gaussian(variance=Fraction(100), l2_squared=1).half_width(0.95)
    20
    >>> Gaussian(variance=Fraction(9), l2_squared=1).describe()
    'normal noise, rounded, deviation 3'
    """

    kind = "normal noise"
    record_name = "Gaussian"

    @classmethod
    def for_gdp(cls, *, mu: Fraction, l2_squared: int) -> "Gaussian":
        """The least variance that is mu-GDP: l2_squared / mu^2, exactly.

        Args:
            mu: The GDP parameter.
            l2_squared: D2, the squared Euclidean sensitivity, in squared steps.

        Returns:
            The mechanism.

        >>> Gaussian.for_gdp(mu=Fraction(1, 2), l2_squared=3).variance
        Fraction(12, 1)
        """
        return cls(variance=integer(at_least=1, l2_squared=l2_squared) / positive(mu=mu) ** 2, l2_squared=l2_squared)

    @classmethod
    def for_approx(cls, *, epsilon: Fraction, delta: Fraction, l2_squared: int) -> "Gaussian":
        """The least variance that is (epsilon, delta)-DP, to 12 digits, rounded to the private side.

        Args:
            epsilon: The epsilon.
            delta: The delta, in (0, 1).
            l2_squared: D2, the squared Euclidean sensitivity, in squared steps.

        Returns:
            The mechanism.

        Source:
            Balle, Wang 2018.

        >>> made = Gaussian.for_approx(epsilon=Fraction(1), delta=Fraction(1, 10**5), l2_squared=1)
        >>> round(float(made.variance) ** 0.5, 9)
        3.730631635
        """
        positive(epsilon=epsilon)
        safe = Fraction(float(mu_of(epsilon, open_probability(delta=delta)).lower))
        return cls.for_gdp(mu=safe, l2_squared=l2_squared)

    @property
    def mu_squared(self) -> Fraction:
        """mu^2, exactly: what Gaussian accounts add up."""
        return self.l2_squared / self.variance

    @property
    def mu(self) -> Fraction:
        """mu, rounded up by less than 2**-64 where it is irrational."""
        return root_above(self.mu_squared)

    @property
    def law(self) -> RoundedGaussianLaw:
        """The law of one coordinate's noise."""
        return RoundedGaussianLaw(self.variance)

    @property
    def sampler(self) -> noise.Sampler:
        """The exact sampler of this law."""
        return noise.rounded_gaussian(self.variance)

    def describe(self, parts: int = 1) -> str:
        """The law, for noise that is drawn in parts of a step."""
        return f"{self.kind}, rounded, deviation {self.noise_scale / parts:,g}"

    def losses(self) -> Composition:
        """The privacy loss as a factor for composition, mu rounded up."""
        return Composition.of(GaussianLoss(mu=self.mu))


_ALL_ONES = 3  # up to this squared norm, the worst change is all ones


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(SquaredNoise):
    """Discrete Gaussian noise, rho-zCDP for rho = l2_squared / (2 variance).

    Attributes:
        variance: s2, the parameter of the law.
        l2_squared: D2, the squared Euclidean sensitivity, a whole number.

    >>> from fractions import Fraction
    >>> DiscreteGaussian.for_zcdp(rho=Fraction(1, 8), l2_squared=1).variance
    Fraction(4, 1)
    >>> DiscreteGaussian(variance=Fraction(100), l2_squared=1).half_width(0.95)
    20
    >>> DiscreteGaussian(variance=Fraction(9), l2_squared=1).describe()
    'discrete Gaussian noise, deviation 3'
    """

    kind = "discrete Gaussian noise"
    record_name = "DiscreteGaussian"

    @property
    def law(self) -> DiscreteGaussianLaw:
        """The law of one coordinate's noise."""
        return DiscreteGaussianLaw(self.variance)

    @property
    def sampler(self) -> noise.Sampler:
        """The exact sampler of this law."""
        return noise.discrete_gaussian(self.variance)

    def losses(self) -> Composition:
        """A factor for composition, in any dimension.

        Exact for l2_squared up to 3, where as many coordinates that move by 1 are the worst change of whole numbers; beyond,
        its zCDP guarantee. `neartwin.losses.DiscreteGaussian` is exact for one coordinate that moves by any whole number.
        """
        if self.l2_squared <= _ALL_ONES:
            return self.l2_squared * DiscreteGaussianLoss(sigma2=self.variance, sensitivity=1)
        return Composition.of(ZeroConcentrated(rho=self.rho))
