"""The discrete Gaussian mechanism: whole numbers plus P(x) in proportion to exp(-x^2 / (2 s2)).

With squared Euclidean sensitivity D2 it is (D2 / (2 s2))-zCDP in any dimension (Canonne, Kamath, Steinke 2020, Thm 4 and
Thm 14). It is *not* sqrt(D2/s2)-GDP: at small variances its trade-off falls below the Gaussian one, which is why the
rounded Gaussian is preferred. For one coordinate the exact delta is known (their Thm 7).
"""

from dataclasses import dataclass

from neartwin import noise
from neartwin.losses import Composition, ZeroConcentrated
from neartwin.losses import DiscreteGaussian as DiscreteGaussianLoss
from neartwin.mechanisms.adding import SquaredNoise
from neartwin.mechanisms.noise_laws import DiscreteGaussianLaw

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
