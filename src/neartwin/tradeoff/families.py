"""The closed families: f_{epsilon,delta}, the Gaussian G_mu and the Laplace curve, each its own inverse.

Dong, Roth, Su 2022: (epsilon, delta)-DP is f_{epsilon,delta}-DP (Prop. 2.5), mu-GDP is G_mu-DP (Def. 2.6), and the
Laplace curve is T(Lap(0, 1), Lap(shift, 1)) (Lemma A.6). Parameters are exact; a Gaussian keeps mu^2, which is the
quantity that composition adds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from neartwin.balls import Exact, ball, bounds, normal_cdf, normal_quantile
from neartwin.checks import non_negative, positive, probability
from neartwin.divergences.closed_forms import gaussian_profile, laplace_profile
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff.functions import Argument, SymmetricCurve, closed_form, finite, levels


@dataclass(frozen=True, slots=True)
class EpsilonDelta(SymmetricCurve):
    """f_{epsilon,delta}(a) = max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a))."""

    epsilon: Fraction
    delta_mass: Fraction

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The polygon at each alpha."""
        return closed_form(self._beta, levels(alpha=alpha))

    def _beta(self, alpha: Exact) -> arb | Exact:
        rest = 1 - self.delta_mass - Fraction(alpha)
        if rest <= 0:
            return 0
        growth = ball(self.epsilon).exp()
        return (ball(1 - self.delta_mass) - growth * ball(alpha)).max(ball(rest) / growth)

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """min(1, delta + e^epsilon a, 1 - e^-epsilon (1 - delta - a))."""
        return closed_form(lambda a: self.stepped(a, 1), levels(alpha=alpha))

    def stepped(self, alpha: Exact, steps: int) -> arb:
        """The map 1 - f applied several times to a probability.

        Args:
            alpha: The probability.
            steps: The number of applications, at least 1.

        Returns:
            The result, enclosed.
        """
        growth, mass, kept = ball(self.epsilon).exp(), ball(self.delta_mass), ball(1 - self.delta_mass)
        level, whole = ball(alpha), ball(1)
        for step in range(steps):
            left = ball(1 - self.delta_mass - Fraction(alpha)) if step == 0 else kept - level
            level = (mass + growth * level).min(1 - left / growth).min(whole)
        return level

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """The largest of the values at the polygon's corners."""
        return closed_form(self._delta, finite(epsilon=epsilon))

    def _delta(self, wanted: Exact) -> arb | Exact:
        short = Fraction(wanted) - self.epsilon
        if short >= 0:
            return self.delta_mass
        mass, kept = ball(self.delta_mass), ball(1 - self.delta_mass)
        corner = mass - kept * ball(short).expm1() / (1 + ball(-self.epsilon).exp())
        if wanted >= 0:
            return corner
        size = ball(wanted)
        return corner.max(mass * size.exp() - size.expm1())  # 1 - e^x (1 - delta)


@dataclass(frozen=True, slots=True)
class Gaussian(SymmetricCurve):
    """G_mu(a) = Phi(Phi^-1(1 - a) - mu), the curve of N(0, 1) against N(mu, 1)."""

    mu_squared: Fraction

    def mu(self) -> Interval[float]:
        """The distance mu, the root of mu^2."""
        return Interval(*bounds(self._mu), "square root")

    def _mu(self) -> arb:
        return ball(self.mu_squared).sqrt()

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """Phi(-Phi^-1(a) - mu); exactly 1 at 0 and 0 at 1."""
        return closed_form(lambda a: self._around(a, lambda z, mu: normal_cdf(-z - mu), (1, 0)), levels(alpha=alpha))

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """Phi(Phi^-1(a) + mu)."""
        return closed_form(lambda a: self._around(a, lambda z, mu: normal_cdf(z + mu), (0, 1)), levels(alpha=alpha))

    def _around(self, alpha: Exact, inner: Callable[[arb, arb], arb], edges: tuple[int, int]) -> arb | int:
        if alpha in (0, 1):
            return edges[int(alpha)]
        z = normal_quantile(ball(alpha)) if alpha <= 0.5 else -normal_quantile(ball(1 - Fraction(alpha)))
        return inner(z, self._mu())

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)."""
        return closed_form(lambda e: gaussian_profile(e, self._mu()), finite(epsilon=epsilon))


@dataclass(frozen=True, slots=True)
class Laplace(SymmetricCurve):
    """T(Lap(0, 1), Lap(shift, 1)): 1 - e^s a below e^-s/2, e^-s/(4a) up to 1/2, e^-s (1 - a) above."""

    shift: Fraction

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The three pieces."""
        return closed_form(lambda a: self._pieces(a)[0], levels(alpha=alpha))

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta, e^s a while a is small."""
        return closed_form(lambda a: self._pieces(a)[1], levels(alpha=alpha))

    def _pieces(self, alpha: Exact) -> tuple[arb | Fraction, arb | Fraction]:
        """Beta and power; both pieces together where a ball does not tell which one holds."""
        if self.shift == 0:
            return 1 - Fraction(alpha), Fraction(alpha)
        growth, level = ball(self.shift).exp(), ball(alpha)
        if alpha >= 0.5:
            flat = ball(1 - Fraction(alpha)) / growth
            return flat, 1 - flat
        rising, edge = growth * level, 1 / (2 * growth)
        if level < edge:
            return 1 - rising, rising
        middle = 1 / (4 * growth * level)
        if level > edge:
            return middle, 1 - middle
        return middle.union(1 - rising), rising.union(1 - middle)

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """1 - e^{(epsilon - s)/2} between -s and s, 0 above, 1 - e^epsilon below."""
        return closed_form(lambda e: laplace_profile(e, self.shift), finite(epsilon=epsilon))


def epsilon_delta(epsilon: Number, delta: Number = 0) -> EpsilonDelta:
    """The curve of (epsilon, delta)-DP.

    Args:
        epsilon: at least 0.
        delta: in [0, 1].

    Returns:
        f_{epsilon,delta}.

    Raises:
        ParameterError: if a parameter lies outside its range.

    Source: Dong, Roth, Su 2022, Prop. 2.5.

    >>> curve = epsilon_delta(1, "0.05")
    >>> round(curve.beta("0.1").lower, 12)
    0.678171817154
    """
    return EpsilonDelta(non_negative(epsilon=rational(epsilon=epsilon)), probability(delta=rational(delta=delta)))


def identity() -> EpsilonDelta:
    """Id(a) = 1 - a: two equal laws, the unit of composition.

    >>> round(identity().beta("0.25").upper, 12)
    0.75
    """
    return EpsilonDelta(Fraction(0), Fraction(0))


def gaussian(mu: Number) -> Gaussian:
    """The curve of mu-GDP.

    Args:
        mu: distance of the two unit normals, at least 0.

    Returns:
        G_mu.

    Raises:
        ParameterError: if mu is negative.

    Source: Dong, Roth, Su 2022, Def. 2.6.

    >>> round(gaussian(1).beta("0.1").lower, 12)
    0.610856308355
    """
    return Gaussian(non_negative(mu=rational(mu=mu)) ** 2)


def laplace(shift: Number) -> Laplace:
    """The curve of the Laplace mechanism.

    Args:
        shift: L1 sensitivity over the scale of the noise, at least 0.

    Returns:
        T(Lap(0, 1), Lap(shift, 1)).

    Raises:
        ParameterError: if the shift is negative.

    Source: Dong, Roth, Su 2022, Lemma A.6.

    >>> round(laplace(2).beta("0.2").lower, 12)
    0.169169104046
    """
    return Laplace(non_negative(shift=rational(shift=shift)))


def gaussian_mechanism(*, sensitivity: Number, sigma: Number) -> Gaussian:
    """The curve of adding N(0, sigma^2) noise to an answer: G_{sensitivity/sigma}, exactly.

    T(M(S), M(S')) = G_{|answer(S) - answer(S')|/sigma}, and G decreases in mu, so the worst pair rules.

    Args:
        sensitivity: the most that one unit moves the answer in the L2 norm, at least 0, in the answer's units.
        sigma: standard deviation of the noise, positive, in the answer's units.

    Returns:
        The curve of the worst pair of neighbours.

    Raises:
        ParameterError: if the sensitivity is negative or sigma is not positive.

    Source: Dong, Roth, Su 2022, Thm 2.7.
    """
    moved = non_negative(sensitivity=rational(sensitivity=sensitivity))
    return Gaussian((moved / positive(sigma=rational(sigma=sigma))) ** 2)
