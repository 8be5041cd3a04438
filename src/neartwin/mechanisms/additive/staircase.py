"""The staircase mechanism: among all pure-epsilon noise for one number, the least expected error.

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
from neartwin.losses import Composition
from neartwin.losses import Staircase as StaircaseLoss
from neartwin.mechanisms.adding import AdditiveMechanism
from neartwin.mechanisms.noise_laws import StaircaseLaw


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
