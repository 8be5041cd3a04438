"""The Laplace mechanism, exactly: the ideal real-valued mechanism, rounded to the grid.

For an integer vector x of L1 sensitivity D, round(x + Y) with Y Laplace of scale b has the law of x + round(Y), because
rounding commutes with whole shifts and ties have probability 0. It is post-processing of the real mechanism and so keeps
its whole trade-off curve, in particular epsilon = D/b. Dwork, Roth 2014, Def. 3.3 and Thm 3.6.
"""

from dataclasses import dataclass
from fractions import Fraction

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.exact import WholeNumbers
from neartwin.losses import Composition
from neartwin.losses import Laplace as LaplaceLoss
from neartwin.mechanisms.adding import add_noise
from neartwin.mechanisms.noise_laws import RoundedLaplaceLaw
from neartwin.tradeoff import TradeOff
from neartwin.tradeoff import laplace as laplace_curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """Rounded Laplace noise. scale: b, in units of the answer. sensitivity: D, the L1 sensitivity, a whole number."""

    scale: Fraction
    sensitivity: int

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        integer(at_least=1, sensitivity=self.sensitivity)

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int) -> "Laplace":
        """The least scale with this epsilon: sensitivity / epsilon, exactly.

        >>> Laplace.calibrated(epsilon=Fraction(3, 10), sensitivity=7).scale
        Fraction(70, 3)
        """
        scale = Fraction(integer(at_least=1, sensitivity=sensitivity)) / positive(epsilon=epsilon)
        return cls(scale=scale, sensitivity=sensitivity)

    @property
    def epsilon(self) -> Fraction:
        """The pure-DP parameter of the real mechanism, D/b: an upper bound, approached as the grid gets finer."""
        return self.sensitivity / self.scale

    @property
    def law(self) -> RoundedLaplaceLaw:
        """The law of one coordinate's noise."""
        return RoundedLaplaceLaw(self.scale)

    def curve(self) -> TradeOff:
        """The trade-off no neighbours fall below, in any dimension: Laplace noise against its shift by D."""
        return laplace_curve(self.epsilon)

    def losses(self) -> Composition:
        """The same as a factor for composition."""
        return Composition.of(LaplaceLoss(epsilon=self.epsilon))

    def noisy(self, values: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> WholeNumbers:
        """Fresh noise on each value, whole numbers of any size; the result has their shape."""
        return add_noise(values, noise.rounded_laplace(self.scale), source)

    def half_width(self, confidence: float, count: int = 1) -> int:
        """The least t with P(|noise| <= t in all `count` coordinates) >= confidence.

        >>> Laplace(scale=Fraction(1), sensitivity=1).half_width(0.95)
        3
        """
        return self.law.half_width(confidence, count)
