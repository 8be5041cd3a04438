"""The Laplace mechanism, exactly: the ideal real-valued mechanism, rounded to the grid.

For an integer vector x of L1 sensitivity D, round(x + Y) with Y Laplace of scale b has the law of x + round(Y), because
rounding commutes with whole shifts and ties have probability 0. It is post-processing of the real mechanism and so keeps
its whole trade-off curve, in particular epsilon = D/b. Dwork, Roth 2014, Def. 3.3 and Thm 3.6.
"""

from dataclasses import dataclass

from neartwin import noise
from neartwin.losses import Composition
from neartwin.losses import Laplace as LaplaceLoss
from neartwin.mechanisms.adding import ScaledNoise
from neartwin.mechanisms.noise_laws import RoundedLaplaceLaw


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
