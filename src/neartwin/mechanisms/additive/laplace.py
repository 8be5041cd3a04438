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
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from neartwin import noise
from neartwin.losses import Composition, Pure
from neartwin.losses import Geometric as DiscreteLaplaceLoss
from neartwin.losses import Laplace as LaplaceLoss
from neartwin.mechanisms.adding import ScaledNoise
from neartwin.mechanisms.noise_laws import DiscreteLaplaceLaw, RoundedLaplaceLaw


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
