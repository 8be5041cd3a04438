"""The Laplace mechanism, exactly: the ideal real-valued mechanism, rounded to the grid.

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
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.losses import Composition, Pure
from neartwin.losses import Geometric as DiscreteLaplaceLoss
from neartwin.losses import Laplace as LaplaceLoss
from neartwin.losses import Staircase as StaircaseLoss
from neartwin.mechanisms.adding import AdditiveMechanism, ScaledNoise
from neartwin.mechanisms.noise_laws import DiscreteLaplaceLaw, RoundedLaplaceLaw, StaircaseLaw


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
