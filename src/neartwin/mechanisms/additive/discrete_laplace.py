"""The discrete Laplace mechanism: whole numbers plus discrete Laplace noise.

Adding X with P(X = x) proportional to exp(-|x| / t) to a vector of integers of L1 sensitivity D is (D/t)-DP: the ratio of
the densities at any output is at most exp((|y - f(S')|_1 - |y - f(S)|_1) / t) <= exp(D / t). Ghosh, Roughgarden,
Sundararajan 2009; Dwork, Roth 2014, Thm 3.6 on a grid. Of all changes of L1 norm at most D, the worst is the whole of D
in one coordinate, at every level of the trade-off: docs/mechanisms/discrete_laplace.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.exact import WholeNumbers
from neartwin.losses import Composition
from neartwin.losses import Geometric as DiscreteLaplaceLoss
from neartwin.mechanisms.adding import add_noise
from neartwin.mechanisms.noise_laws import DiscreteLaplaceLaw, most_noise
from neartwin.tradeoff import TradeOff, discrete_laplace


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace:
    """Discrete Laplace noise. scale: t, in units of the answer. sensitivity: D, the L1 sensitivity, a whole number."""

    kind: ClassVar[str] = "discrete Laplace noise"
    growth: ClassVar[float] = 1.0  # power of the number of groups of a unit with which its noise grows

    scale: Fraction
    sensitivity: int

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        integer(at_least=1, sensitivity=self.sensitivity)

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int) -> "DiscreteLaplace":
        """The least noise that is epsilon-DP: scale = sensitivity / epsilon, exactly.

        >>> DiscreteLaplace.calibrated(epsilon=Fraction(1, 2), sensitivity=3).scale
        Fraction(6, 1)
        """
        return cls(
            scale=Fraction(integer(at_least=1, sensitivity=sensitivity)) / positive(epsilon=epsilon),
            sensitivity=sensitivity,
        )

    @classmethod
    def for_error(cls, *, half_width: int, confidence: float, sensitivity: int, count: int = 1) -> "DiscreteLaplace":
        """The most noise whose error bar over `count` values stays within half_width: the least epsilon for an error.

        >>> DiscreteLaplace.for_error(half_width=3, confidence=0.95, sensitivity=1).half_width(0.95)
        3
        """
        start = Fraction(1, 40 * integer(at_least=1, count=count))
        scale = most_noise(DiscreteLaplaceLaw, half_width=half_width, confidence=confidence, count=count, above=start)
        return cls(scale=scale, sensitivity=sensitivity)

    @property
    def epsilon(self) -> Fraction:
        """The exact pure-DP parameter, D/t."""
        return self.sensitivity / self.scale

    @property
    def law(self) -> DiscreteLaplaceLaw:
        """The law of one coordinate's noise."""
        return DiscreteLaplaceLaw(self.scale)

    def curve(self) -> TradeOff:
        """The trade-off no neighbours fall below, in any dimension: the noise against its shift by D.

        Exact up to D = 4096. Beyond, the way is cut into legs of several steps, which is a little lower.
        """
        epsilon, legs = self.legs()
        return discrete_laplace(epsilon, legs)

    def losses(self) -> Composition:
        """The same as a factor for composition."""
        epsilon, legs = self.legs()
        return Composition.of(DiscreteLaplaceLoss(epsilon=epsilon, sensitivity=legs))

    def legs(self, most: int = 4096) -> tuple[Fraction, int]:
        """(epsilon, D), or for D above `most` a coarser pair whose curve is lower: at most `most` legs of equal whole steps.

        >>> DiscreteLaplace(scale=Fraction(5000), sensitivity=5000).legs()
        (Fraction(1, 1), 2500)
        """
        steps = -(-self.sensitivity // most)
        legs = -(-self.sensitivity // steps)
        return legs * steps / self.scale, legs

    @property
    def record(self) -> list[object]:
        """Its words in digests, for ever: a class may be renamed, these may not."""
        return [str(self.scale), self.sensitivity]

    @property
    def noise_scale(self) -> float:
        """The scale t, in steps."""
        return float(self.scale)

    @property
    def mean_size(self) -> float:
        """E|X|, in steps: 1 / sinh(1 / t), which is below t by a sixth of its inverse."""
        return 1 / math.sinh(1 / self.noise_scale) if self.noise_scale > 1 / 700 else 0.0

    def words(self, parts: int = 1) -> str:
        """The law, for noise that is drawn in parts of a step.

        >>> DiscreteLaplace(scale=Fraction(3), sensitivity=1).words()
        'discrete Laplace noise, scale 3'
        """
        return f"{self.kind}, scale {self.noise_scale / parts:,g}"

    def calibration(self) -> tuple[str, str]:
        """Its sensitivity, and how the noise follows from it."""
        return (
            f"sensitivity {self.sensitivity:,}",
            f"scale = sensitivity / epsilon = {self.sensitivity:,} / {float(self.epsilon):g}",
        )

    @property
    def sampler(self) -> noise.Sampler:
        """Draws the noise."""
        return noise.discrete_laplace(self.scale)

    def noisy(self, values: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> WholeNumbers:
        """Fresh noise on each value. values: whole numbers of any size, int64 or Python's; the result has their shape."""
        return add_noise(values, self.sampler, source)

    def half_width(self, confidence: float, count: int = 1) -> int:
        """The least t with P(|noise| <= t in all `count` coordinates) >= confidence.

        >>> DiscreteLaplace(scale=Fraction(1), sensitivity=1).half_width(0.95)
        3
        """
        return self.law.half_width(confidence, count)
