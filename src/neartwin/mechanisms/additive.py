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

Mechanisms that add fresh noise to whole numbers, without a wrap-around, and how much one unit can change these.

For an integer vector v that differs from zero in c coordinates: |v|_inf <= |v|_1 <= |v|_2^2, c <= |v|_1,
|v|_1 <= c |v|_inf, |v|_1^2 <= c |v|_2^2, |v|_2^2 <= |v|_inf |v|_1. Each bound that is left out follows from the others;
each that is given may be sharpened by them. Laplace-like noise asks for `l1`, Gaussian noise for `l2_squared`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers, root_above
from neartwin.losses import Composition, Pure, ZeroConcentrated
from neartwin.losses import DiscreteGaussian as DiscreteGaussianLoss
from neartwin.losses import Gaussian as GaussianLoss
from neartwin.losses import Geometric as DiscreteLaplaceLoss
from neartwin.losses import Laplace as LaplaceLoss
from neartwin.losses import Staircase as StaircaseLoss
from neartwin.mechanisms.noise_laws import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    Law,
    RoundedGaussianLaw,
    RoundedLaplaceLaw,
    StaircaseLaw,
)
from neartwin.tradeoff import mu_of


@dataclass(frozen=True, slots=True, init=False)
class Change:
    """Bounds on an integer vector: absolute sum, squared length, largest entry, entries that differ from zero.

    Give l1, or l2_squared, or linf with cells; any further bound sharpens. Whole numbers, in grid steps.

    >>> Change(linf=20, cells=3)
    Change(l1=60, l2_squared=1200, linf=20, cells=3)
    >>> Change(l1=5).l2_squared, Change(l2_squared=100, cells=4).l1
    (25, 20)
    """

    l1: int
    l2_squared: int
    linf: int
    cells: int

    def __init__(
        self, *, l1: int | None = None, l2_squared: int | None = None, linf: int | None = None, cells: int | None = None
    ) -> None:
        """All bounds are at least 1: what nobody can change needs no noise."""
        known = {"l1": l1, "l2_squared": l2_squared, "linf": linf, "cells": cells}
        for name, value in known.items():
            if value is not None:
                integer(at_least=1, **{name: value})
        if l1 is None and l2_squared is None and (linf is None or cells is None):
            raise ParameterError("l1", l1, "must be given", remedy="or l2_squared, or linf together with cells")
        if l1 is None:
            options = [] if l2_squared is None else [l2_squared]
            if cells is not None:
                options += [] if l2_squared is None else [isqrt(cells * l2_squared)]
                options += [] if linf is None else [cells * linf]
            l1 = min(options)
        one, square, most, count = l1, l2_squared or l1 * l1, linf or l1, cells or l1
        while True:
            before = (one, square, most, count)
            most = min(most, one, isqrt(square))
            count = min(count, one, square)
            one = min(one, square, count * most, isqrt(count * square))
            square = min(square, most * one)
            if before == (one, square, most, count):
                break
        for name, value in zip(("l1", "l2_squared", "linf", "cells"), before, strict=True):
            object.__setattr__(self, name, value)


class AdditiveMechanism(ABC):
    """Whole numbers plus independent noise, each of one law.

    Subclasses state the law and its sampler, and the privacy loss.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def law(self) -> Law:
        """The law of one coordinate's noise."""

    @property
    @abstractmethod
    def sampler(self) -> noise.Sampler:
        """The exact sampler of this law."""

    @abstractmethod
    def losses(self) -> Composition:
        """The privacy loss, for composition."""

    def losses_in_cells(self, *, cells: int, cell: int, l1: int) -> Composition:
        """The privacy loss where a unit moves few cells, each by a little.

        Args:
            cells: The most cells that one unit moves.
            cell: The most that it moves one of them, in steps.
            l1: The most that it moves all of them together, in absolute sum.

        Returns:
            The losses of the whole sensitivity, unless the law composes better cell by cell.
        """
        return self.losses()

    def noisy(self, values: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> WholeNumbers:
        """Fresh noise on each value.

        Args:
            values: Whole numbers of any size and shape, int64 or Python's. A sum that wrapped round would keep privacy
                and spoil the answer.
            source: Where randomness comes from.

        Returns:
            Noisy values in the same shape: int64 where they fit, Python integers otherwise.

        Raises:
            ParameterError: The values are not whole numbers.
        """
        if values.dtype.kind not in "iuO":
            raise ParameterError("values", values.dtype, "must be whole numbers", remedy="round them to a grid first")
        return noise.add(values, self.sampler.draw(values.shape, source=source))

    def half_width(self, confidence: float, count: int = 1) -> int:
        """The least t with P(|noise| <= t in all `count` coordinates) >= confidence.

        Args:
            confidence: The confidence over the noise, in (0, 1).
            count: The number of coordinates.

        Returns:
            t, in steps.
        """
        return self.law.half_width(confidence, count)


class PostProcessed:
    """Answers that follow from noisy numbers and reveal nothing more.

    Attributes:
        each: The noise on each number.
    """

    __slots__ = ()
    each: AdditiveMechanism

    def losses(self) -> Composition:
        """The privacy loss of all noisy numbers together, for composition."""
        return self.each.losses()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledNoise(AdditiveMechanism):
    """Noise of a scale, which is pure for a bound on the absolute sum of changes.

    Attributes:
        scale: The scale, in units of the answer.
        sensitivity: D, the L1 sensitivity, a whole number.
    """

    kind: ClassVar[str]
    growth: ClassVar[float] = 1.0  # its noise grows with the number of groups of a unit to this power

    scale: Fraction
    sensitivity: int

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        integer(at_least=1, sensitivity=self.sensitivity)

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int) -> Self:
        """The least scale that is epsilon-DP: sensitivity / epsilon, exactly.

        Args:
            epsilon: The pure-DP parameter.
            sensitivity: D, the L1 sensitivity, in steps.

        Returns:
            The mechanism.

        Raises:
            ParameterError: An argument is not positive, or the sensitivity is not whole.
        """
        scale = Fraction(integer(at_least=1, sensitivity=sensitivity)) / positive(epsilon=epsilon)
        return cls(scale=scale, sensitivity=sensitivity)

    @property
    def epsilon(self) -> Fraction:
        """The pure-DP parameter, sensitivity / scale."""
        return self.sensitivity / self.scale

    @property
    def record(self) -> list[object]:
        """Its words in digests. A class may be renamed, these never change."""
        return [str(self.scale), self.sensitivity]

    @property
    def noise_scale(self) -> float:
        """The scale, in steps."""
        return float(self.scale)

    def describe(self, parts: int = 1) -> str:
        """The law, for noise that is drawn in parts of a step."""
        return f"{self.kind}, scale {self.noise_scale / parts:,g}"

    def calibration(self, parts: int = 1) -> tuple[str, str]:
        """Its sensitivity, and how the noise follows from it, for noise that is drawn in parts of a step."""
        size = f"{self.sensitivity / parts:,.12g}"
        return f"sensitivity {size}", f"scale = sensitivity / epsilon = {size} / {float(self.epsilon):g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SquaredNoise(AdditiveMechanism):
    """Noise of a variance, concentrated for a bound on the squared length of changes.

    Attributes:
        variance: s2, the parameter of the law.
        l2_squared: D2, the squared Euclidean sensitivity, a whole number.
    """

    kind: ClassVar[str]
    growth: ClassVar[float] = 0.5  # its noise grows with the number of groups of a unit to this power
    record_name: ClassVar[str]  # its name in digests, which never changes

    variance: Fraction
    l2_squared: int

    def __post_init__(self) -> None:
        positive(variance=self.variance)
        integer(at_least=1, l2_squared=self.l2_squared)

    @classmethod
    def for_zcdp(cls, *, rho: Fraction, l2_squared: int) -> Self:
        """The least variance that is rho-zCDP: l2_squared / (2 rho), exactly.

        Args:
            rho: The zCDP parameter.
            l2_squared: D2, the squared Euclidean sensitivity, in squared steps.

        Returns:
            The mechanism.

        Raises:
            ParameterError: An argument is not positive, or the sensitivity is not whole.
        """
        return cls(variance=integer(at_least=1, l2_squared=l2_squared) / (2 * positive(rho=rho)), l2_squared=l2_squared)

    @property
    def rho(self) -> Fraction:
        """The zCDP parameter, exactly."""
        return self.l2_squared / (2 * self.variance)

    @property
    def record(self) -> list[object]:
        """Its words in digests, which never change."""
        return [self.record_name, str(self.variance), self.l2_squared]

    @property
    def noise_scale(self) -> float:
        """The deviation of the normal law, in steps."""
        return math.sqrt(float(self.variance))

    @property
    def mean_size(self) -> float:
        """About E|X|, in steps."""
        return math.sqrt(2 / math.pi) * self.noise_scale

    def describe(self, parts: int = 1) -> str:
        """The law, for noise that is drawn in parts of a step."""
        return f"{self.kind}, deviation {self.noise_scale / parts:,g}"

    def calibration(self, parts: int = 1) -> tuple[str, str]:
        """Its sensitivity, and how the noise follows from it, for noise that is drawn in parts of a step."""
        mu_squared, size = float(self.l2_squared / self.variance), f"{self.l2_squared / parts**2:,.12g}"
        return f"squared sensitivity {size}", f"variance = squared sensitivity / mu^2 = {size} / {mu_squared:g}"


def clipped_whole(values: WholeNumbers, low: int, high: int) -> NDArray[np.int64]:
    """Whole numbers of any size and kind, clipped to 64 bits. It is total, whatever the values are.

    Args:
        values: (n,) whole numbers.
        low: The lower bound.
        high: The upper bound.

    Returns:
        (n,) values in [low, high].

    Raises:
        ParameterError: The values are not a list of whole numbers.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iuO" or array.ndim != 1:
        raise ParameterError("values", f"{array.dtype}{array.shape}", "must be a list of whole numbers")
    wide = array if array.dtype.kind == "i" else array.astype(object)
    return np.asarray(np.clip(wide, low, high).astype(np.int64))


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
        near = round(sensitivity / (1 + math.exp(min(float(epsilon) / 2, 700.0))))
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
