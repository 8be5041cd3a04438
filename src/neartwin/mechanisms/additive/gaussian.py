"""The Gaussian mechanism, exactly: the ideal real-valued mechanism, rounded to the grid.

For an integer vector x whose Euclidean sensitivity squared is D2, round(x + N(0, s2 I)) has the law of x + round(N(0, s2 I)).
It is post-processing of the real mechanism, so it is mu-GDP with mu^2 = D2 / s2 and (mu^2 / 2)-zCDP, in any dimension
and with no correction for discreteness. Dong, Roth, Su 2022, Thm 2.7; Bun, Steinke 2016, Prop 1.6.

The discrete Gaussian mechanism: whole numbers plus P(x) in proportion to exp(-x^2 / (2 s2)).

With squared Euclidean sensitivity D2 it is (D2 / (2 s2))-zCDP in any dimension (Canonne, Kamath, Steinke 2020, Thm 4 and
Thm 14). It is *not* sqrt(D2/s2)-GDP: at small variances its trade-off falls below the Gaussian one, which is why the
rounded Gaussian is preferred. For one coordinate the exact delta is known (their Thm 7).
"""

from dataclasses import dataclass
from fractions import Fraction

from neartwin import noise
from neartwin.checks import integer, open_probability, positive
from neartwin.exact import root_above
from neartwin.losses import Composition, ZeroConcentrated
from neartwin.losses import DiscreteGaussian as DiscreteGaussianLoss
from neartwin.losses import Gaussian as GaussianLoss
from neartwin.mechanisms.adding import SquaredNoise
from neartwin.mechanisms.noise_laws import DiscreteGaussianLaw, RoundedGaussianLaw
from neartwin.tradeoff import mu_of


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
