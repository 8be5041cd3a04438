"""The discrete Gaussian mechanism: whole numbers plus P(x) in proportion to exp(-x^2 / (2 s2)).

With squared Euclidean sensitivity D2 it is (D2 / (2 s2))-zCDP in any dimension (Canonne, Kamath, Steinke 2020, Thm 4 and
Thm 14). It is *not* sqrt(D2/s2)-GDP: at small variances its trade-off falls below the Gaussian one, which is why the
rounded Gaussian is preferred. For one coordinate the exact delta is known (their Thm 7).
"""

from dataclasses import dataclass
from math import isqrt

import numpy as np

from neartwin import noise
from neartwin.losses import Composition, ZeroConcentrated, compose
from neartwin.losses import DiscreteGaussian as DiscreteGaussianLoss
from neartwin.mechanisms.adding import SquaredNoise
from neartwin.mechanisms.noise_laws import DiscreteGaussianLaw
from neartwin.tradeoff import TradeOff, from_profile

_FEW = 16  # up to this squared norm, every change of whole numbers is tried
_ALL_ONES = 3  # up to this squared norm, the worst change is all ones


def sums_of_squares(total: int, largest: int | None = None) -> tuple[tuple[int, ...], ...]:
    """All ways to write a whole number as a sum of squares, with roots in descending order.

    Args:
        total: The whole number.
        largest: The largest root; None for no limit.

    Returns:
        The roots of each sum.

    >>> sums_of_squares(5)
    ((2, 1), (1, 1, 1, 1, 1))
    """
    if total == 0:
        return ((),)
    most = min(isqrt(total), total if largest is None else largest)
    return tuple((root, *rest) for root in range(most, 0, -1) for rest in sums_of_squares(total - root * root, root))


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

    def curve(self) -> TradeOff:
        """A trade-off that no neighbours fall below, in any dimension, at some thousand epsilons.

        If losses are few, those epsilons are the losses: between them delta is linear in e^epsilon, and nothing is given away.

        Whole numbers that change by a squared norm of at most 16 do so in few ways. The exact deltas of the worst are taken. D2
        is written as a sum of squares, each a coordinate's shift, and their losses are composed. (Adding a coordinate, or moving
        one further, only lowers the trade-off: the law is log-concave.)

        Beyond, the curve is the bound by rho-zCDP, Canonne, Kamath, Steinke 2020, Prop. 12 with Cor. 13:

            delta(epsilon) <= min over a > 1 of exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1).

        Any order a gives a valid bound, so a grid of them is safe.
        """
        rho = float(self.rho) * (1 + 1e-14)
        most = min(1 + rho + 12 * np.sqrt(rho), 600.0)
        losses = (self.l2_squared % 2 / 2 + np.arange(min(most * float(self.variance), 2000.0))) / float(self.variance)
        epsilon = np.unique(np.concatenate([np.linspace(0, most, 1000), np.geomspace(1e-4, most, 201), losses]))
        a = 1 + np.geomspace(1e-4, 1e4, 2048)[:, None]
        with np.errstate(over="ignore"):
            log_delta = (a - 1) * (a * rho - epsilon) + a * np.log1p(-1 / a) - np.log(a - 1)
        delta = np.exp(np.minimum(log_delta.min(axis=0) + 1e-9, 0.0))
        # no mechanism of zCDP reveals more than its total variation, sqrt(rho / 2) by Pinsker
        delta = np.minimum(delta, np.sqrt(rho / 2) * (1 + 1e-12))
        if self.l2_squared <= _FEW:
            exact = [self._moved(change).delta(epsilon).upper for change in sums_of_squares(self.l2_squared)]
            delta = np.minimum(delta, np.maximum.reduce(exact))
        return from_profile(epsilon, delta)

    def _moved(self, change: tuple[int, ...]) -> Composition:
        """The exact losses of coordinates that move by so much each."""
        return compose([DiscreteGaussianLoss(sigma2=self.variance, sensitivity=step) for step in change])

    def losses(self) -> Composition:
        """A factor for composition, in any dimension.

        Exact for l2_squared up to 3, where as many coordinates that move by 1 are the worst change of whole numbers; beyond,
        its zCDP guarantee. `neartwin.losses.DiscreteGaussian` is exact for one coordinate that moves by any whole number.
        """
        if self.l2_squared <= _ALL_ONES:
            return self._moved((1,) * self.l2_squared)
        return Composition.of(ZeroConcentrated(rho=self.rho))
