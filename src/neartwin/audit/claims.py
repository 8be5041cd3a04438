"""Claims as the attacker reads them: a floor under his errors, and one number that his errors put to the test.

A claim answers two questions. `floor(fpr)` is the least miss rate the claim allows at a false-alarm rate, for either order of
the two inputs. `reached(fpr, fnr)` is the least parameter of the claim's family that would allow these errors. Above `limit`,
the claim is false. For a claim without a family the number is the attacker's gap below the curve.

fpr is the rate at which the attacker says "right" when the input was left; fnr is that of "left" when it was right. Given
*upper* bounds on both, the results are *lower* bounds on the mechanism's true parameter. All are raw: a value below 0 means that
these errors prove nothing. Kairouz, Oh and Viswanath 2015, Theorem 2.1; Nasr et al. 2023, section 5.

Claims come from targets, guarantees, trade-off curves and composed wholes. The floor under the attacker's errors is the promised
one, the *lower* end of a curve that comes as bounds. An attacker who gets below it has refuted the promise.

`risks` says a guarantee in plain words: upper bounds on the success of an attacker who is sure of everything else. Everything is
read from a trade-off curve: any callable from false-alarm rates to miss rates that the true curve does not lie below. It is
convex and non-increasing, and holds for both orders of the neighbours. Hayes et al. 2023 for reconstruction; Kulynych et al.
2024. Post-processing cannot raise any of these numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import ClassVar, Protocol, assert_never

import numpy as np
from numpy.typing import ArrayLike

from neartwin import special
from neartwin.accounting.budgets import Advantage, Approx, Budget, Gdp, Mixed, Pure, Rdp, Zcdp
from neartwin.accounting.guarantee import Guarantee, whole_of
from neartwin.checks import non_negative, positive, probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, float_above, float_below, halved, rational
from neartwin.losses import Composition
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.tradeoff import TradeOff, from_profile

_GRID = 1024
_HALVINGS = 80  # the bracket is then narrower than a float can show
_ROOM = 1e-12  # for the rounding of the curve itself


def epsilon_seen(fpr: ArrayLike, fnr: ArrayLike, *, delta: float = 0.0) -> FloatArray:
    """The least epsilon for which (epsilon, delta)-privacy allows these errors.

    It is max(ln((1 - delta - fnr) / fpr), ln((1 - delta - fpr) / fnr)). It is inf if an event that cannot happen on one side
    happens on the other by more than delta. 0 or below proves nothing.

    Args:
        fpr: False-alarm rates, in [0, 1].
        fnr: Miss rates, in [0, 1].
        delta: In [0, 1].

    Returns:
        An array of the broadcast shape.

    >>> float(epsilon_seen(0.01, 0.6, delta=1e-5))
    3.68885445380...
    >>> float(epsilon_seen(0.0, 0.5)), float(epsilon_seen(0.0, 1.0))
    (inf, 0.0)
    """
    false_alarm, missed = _rates(fpr, fnr)
    probability(delta=delta)
    return np.maximum(
        _log_ratio((1 - delta) - missed, false_alarm),  # the event itself
        _log_ratio((1 - delta) - false_alarm, missed),  # its complement, sides swapped
    )


def _log_ratio(gain: FloatArray, rate: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(np.maximum(gain, 0.0)) - np.log(rate)
    return np.where(gain <= 0, -np.inf, ratio)


def mu_seen(fpr: ArrayLike, fnr: ArrayLike) -> FloatArray:
    """The least mu for which mu-Gaussian privacy allows these errors: Phi^-1(1 - fpr) - Phi^-1(fnr).

    It is -inf at (0, 1) and (1, 0), because an attacker with a constant answer meets every curve.

    Args:
        fpr: False-alarm rates, in [0, 1].
        fnr: Miss rates, in [0, 1].

    Returns:
        An array of the broadcast shape.

    >>> float(mu_seen(0.01, 0.6))
    2.0730007709...
    """
    false_alarm, missed = _rates(fpr, fnr)
    with np.errstate(invalid="ignore"):
        mu = -special.ndtri(false_alarm) - special.ndtri(missed)
    return np.where(np.isnan(mu), -np.inf, mu)


def _rates(fpr: ArrayLike, fnr: ArrayLike) -> tuple[FloatArray, FloatArray]:
    false_alarm, missed = np.broadcast_arrays(np.asarray(fpr, np.float64), np.asarray(fnr, np.float64))
    for name, rate in (("fpr", false_alarm), ("fnr", missed)):
        if not np.all((rate >= 0) & (rate <= 1)):
            raise ParameterError(name, rate, "must lie in [0, 1]")
    return false_alarm, missed


Curve = Callable[[FloatArray], FloatArray]


class Claim(Protocol):
    """A statement about every pair of neighbouring inputs."""

    @property
    def unit(self) -> str:
        """The name of the number that `reached` returns."""

    @property
    def limit(self) -> float:
        """The claimed value of that number, rounded up."""

    def floor(self, fpr: FloatArray) -> FloatArray:
        """The least miss rate at each false-alarm rate; convex and non-increasing; (n,) to (n,)."""

    def reached(self, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
        """The least parameter that would allow these errors, elementwise.

        Args:
            fpr: (n,) false-alarm rates.
            fnr: (n,) miss rates.

        Returns:
            (n,) parameters; a value below 0 proves nothing.
        """


@dataclass(frozen=True, slots=True)
class EpsilonDelta:
    """(epsilon, delta)-differential privacy; delta = 0 is pure privacy.

    >>> EpsilonDelta(1.0, 0.0).floor(np.array([0.0, 0.1, 1.0])).round(4)
    array([1.    , 0.7282, 0.    ])
    """

    epsilon: float
    delta: float

    @property
    def unit(self) -> str:
        """The audited number is epsilon, at the claimed delta."""
        return "epsilon" if self.delta == 0 else f"epsilon at delta={self.delta:g}"

    @property
    def limit(self) -> float:
        """The claimed epsilon."""
        return self.epsilon

    def floor(self, fpr: FloatArray) -> FloatArray:
        """f_{eps,delta}: Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015."""
        gain = 1 - self.delta - fpr
        with np.errstate(over="ignore", invalid="ignore"):  # a floor of 0 where there is no double
            steep = np.nan_to_num(1 - self.delta - np.exp(self.epsilon) * fpr)
        return np.asarray(np.maximum(0.0, np.maximum(steep, np.exp(-self.epsilon) * gain)))

    def reached(self, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
        """The least epsilon at this delta."""
        return epsilon_seen(fpr, fnr, delta=self.delta)

    def __str__(self) -> str:
        return f"epsilon={self.epsilon:g}" + (f", delta={self.delta:g}" if self.delta else "")


@dataclass(frozen=True, slots=True)
class GaussianPrivacy:
    """mu-Gaussian privacy: as hard to tell apart as N(0, 1) and N(mu, 1). Dong, Roth and Su 2022."""

    mu: float
    unit: ClassVar[str] = "mu"

    @property
    def limit(self) -> float:
        """The claimed mu."""
        return self.mu

    def floor(self, fpr: FloatArray) -> FloatArray:
        """G_mu(a) = Phi(Phi^-1(1 - a) - mu)."""
        return np.asarray(special.ndtr(-special.ndtri(fpr) - self.mu))

    def reached(self, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
        """The least mu."""
        return mu_seen(fpr, fnr)

    def __str__(self) -> str:
        return f"mu={self.mu:g}"


@dataclass(frozen=True, slots=True)
class BelowCurve:
    """A claim by any trade-off curve. `claim_of` makes it from a guarantee, a curve or a composed whole.

    The audited number is how far the attacker's miss rate lies below the curve. No gap is allowed.

    Attributes:
        curve: Takes false-alarm rates (n,) and returns the least miss rates (n,). It must be convex, non-increasing and hold for
            both orders of the inputs. For a curve that comes as bounds, give the *lower* one, which is promised.
        name: The claim in words.
    """

    curve: Curve
    name: str = "the claimed curve"
    unit: ClassVar[str] = "gap below the curve"
    limit: ClassVar[float] = 0.0

    def floor(self, fpr: FloatArray) -> FloatArray:
        """The curve itself."""
        return np.asarray(self.curve(fpr), np.float64)

    def reached(self, fpr: FloatArray, fnr: FloatArray) -> FloatArray:
        """The claimed miss rate less the attacker's, in either order of the inputs."""
        rates, misses = (np.atleast_1d(np.asarray(rate, np.float64)) for rate in (fpr, fnr))
        gap = np.maximum(self.floor(rates) - misses, self.floor(misses) - rates)
        return gap.reshape(np.shape(fpr))

    def __str__(self) -> str:
        return self.name


def claim_pure(epsilon: Number) -> EpsilonDelta:
    """The claim of pure privacy.

    >>> claim_pure(1)
    EpsilonDelta(epsilon=1.0, delta=0.0)
    """
    return claim_approx(epsilon, 0)


def claim_approx(epsilon: Number, delta: Number) -> EpsilonDelta:
    """The claim of (epsilon, delta)-privacy. Both are rounded up, so that rounding refutes no claim.

    Args:
        epsilon: The epsilon.
        delta: The delta.

    Returns:
        The claim.
    """
    return EpsilonDelta(
        abs(float_above(non_negative(epsilon=rational(epsilon=epsilon)))),
        abs(float_above(probability(delta=rational(delta=delta)))),
    )


def claim_gdp(mu: Number) -> GaussianPrivacy:
    """The claim of mu-Gaussian privacy; mu is rounded up."""
    return GaussianPrivacy(abs(float_above(non_negative(mu=rational(mu=mu)))))


def refutes(claim: Claim, reached: float) -> bool:
    """Whether a lower bound on the claim's number lies above the claimed one, by more than rounding.

    Args:
        claim: The claim.
        reached: The lower bound.

    Returns:
        True or False.
    """
    if np.isinf(reached):
        return reached > 0
    slack = Fraction(16, 2**53)
    return float_below(Fraction(reached) * (1 - slack) - slack) > claim.limit


# a line under the curve from each; beyond 50 a line bounds error rates below e^-50 alone
_EPSILONS = np.concatenate([np.linspace(0, 8, 801), np.geomspace(8, 50, 61)[1:]])


def claim_of(stated: Budget | Guarantee | TradeOff | Composition) -> Claim:
    """The claim that a spend, an account, a release's guarantee, a mechanism's curve or a composed whole makes.

    Pure, approximate, Gaussian and advantage promises are audited in their own number; any other by the gap below its
    curve. A curve of one ordered pair claims both orders only if it is symmetric: give the pointwise least of both.

    >>> from neartwin.accounting.budgets import approx, zcdp
    >>> str(claim_of(approx(1, "1e-6")))
    'epsilon=1, delta=1e-06'
    >>> claim_of(Guarantee.of(zcdp("0.1"), unit="id", neighbours="add_remove")).floor(np.array([0.01])).round(3)
    array([0.965])
    >>> from neartwin.tradeoff import gaussian
    >>> claim_of(gaussian(1)).floor(np.array([0.1])).round(6)
    array([0.610856])
    """
    match stated:
        case Guarantee(promise=promise):
            return _promised(promise)
        case Pure() | Approx() | Zcdp() | Rdp() | Gdp() | Mixed() | Advantage():
            return _promised(stated)
        case Composition():
            return BelowCurve(_of_composition(stated), repr(stated))
        case _:
            return BelowCurve(_of_curve(stated), repr(stated))


def _promised(promise: Budget) -> Claim:
    match promise:
        case Pure(epsilon=epsilon):
            return claim_pure(epsilon)
        case Approx(epsilon=epsilon, delta=delta):
            return claim_approx(epsilon, delta)
        case Gdp(mu=mu, delta=delta) if delta == 0:
            return claim_gdp(mu)
        case Advantage(value=value):  # total variation at most `value` is (0, value)-privacy
            return claim_approx(0, value)
        case Zcdp() | Rdp() | Gdp() | Mixed():
            return BelowCurve(_of_composition(whole_of(promise)), str(promise))
        case _:
            assert_never(promise)


def _of_curve(curve: TradeOff) -> Curve:
    return lambda fpr: np.asarray(curve.beta(fpr).lower, np.float64)


def _of_composition(composition: Composition) -> Curve:
    least = np.minimum(np.asarray(composition.delta(_EPSILONS).upper, np.float64), 1.0)
    return _of_curve(from_profile(_EPSILONS, least))


def power_at(curve: Curve, fpr: ArrayLike) -> FloatArray:
    """Upper bounds on an attacker's true-positive rate at each false-alarm rate: 1 - f(fpr), in [0, 1].

    They also bound the chance to guess a secret that the attacker would guess blindly with probability fpr.

    Args:
        curve: The trade-off curve, of arrays.
        fpr: False-alarm rates, in [0, 1].

    Returns:
        Bounds of the shape of fpr.

    Raises:
        ParameterError: A rate is not in [0, 1].

    >>> from neartwin.audit.claims import claim_gdp
    >>> power_at(claim_gdp(1).floor, [0.01]).round(4)
    array([0.0924])
    """
    rates = np.atleast_1d(np.asarray(fpr, np.float64))
    if not np.all((rates >= 0) & (rates <= 1)):
        raise ParameterError("fpr", fpr, "must lie in [0, 1]")
    return np.clip(1 - np.asarray(curve(rates), np.float64) + _ROOM, rates, 1.0)


def advantage_of(curve: Curve) -> float:
    """The most by which true positives can exceed false ones, over all false-alarm rates; an upper bound in [0, 1].

    1 - a - f(a) is concave, so its maximum lies within a grid step of its largest value on a grid. The grid is refined until
    the step no longer matters. Then 1 - (left end) - f(right end) bounds it.

    Args:
        curve: The trade-off curve, of arrays.

    >>> from neartwin.audit.claims import claim_gdp, claim_pure
    >>> round(advantage_of(claim_gdp(2).floor), 9), round(advantage_of(claim_pure(1).floor), 9)
    (0.682689492, 0.462117157)
    """
    left, right = 0.0, 1.0
    for _ in range(5):
        grid = np.linspace(left, right, _GRID + 1)
        best = int(np.argmax(1 - grid - np.asarray(curve(grid), np.float64)))
        left, right = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID)])
    worst = 1 - left - float(np.asarray(curve(np.array([right])), np.float64)[0])
    return float(min(max(worst + _ROOM, 0.0), 1.0))


@dataclass(frozen=True, slots=True)
class Risk:
    """One question about one unit: the chance without the release, and the most it can be with it.

    Attributes:
        name: The name of the risk.
        blindly: The chance without the release.
        at_most: An upper bound on the chance with it.
        words: A sentence with both chances.
    """

    name: str
    blindly: float
    at_most: float
    words: str


_SENTENCES = {
    Neighbours.ADD_REMOVE: (
        "Someone who bets on whether a person is in the data, and would be right half the time, is right at most {} of the time.",
        "Someone who accuses strangers {} finds a person who is in with a chance of at most {}.",
    ),
    Neighbours.REPLACE_ONE: (
        "Someone who bets on which of two records is a person's, and would be right half the time, is right at most {} of it.",
        "Someone who takes the first of two records for the second {} recognises the second with a chance of at most {}.",
    ),
}


def risks(
    curve: Curve, *, population: int = 1_000_000, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> tuple[Risk, ...]:
    """The table of risks for a data owner.

    Args:
        curve: The trade-off curve, of arrays.
        population: The number of people of whom a description is meant to fit one.
        neighbours: The neighbour relation: a person's presence is hidden, or which record is theirs.

    Returns:
        The risks.

    >>> from neartwin.audit.claims import claim_pure
    >>> print(risks(claim_pure(1).floor)[0].words)
    Someone who bets on whether a person is in the data, and would be right half the time, is right at most 73.2 % of the time.
    """
    positive(population=population)
    bet = (1 + advantage_of(curve)) / 2
    betting, accusing = _SENTENCES[neighbours]
    rows = [Risk("membership", 0.5, bet, betting.format(percent(bet)))]
    for rate in (0.01, 0.001):
        caught = float(power_at(curve, rate)[0])
        name = f"membership at {percent(rate)} false alarms"
        rows.append(Risk(name, rate, caught, accusing.format(_odds(rate), percent(caught))))
    single = float(power_at(curve, 1 / population)[0])
    rows.append(
        Risk(
            "singling out",
            1 / population,
            single,
            f"A description that fits one in {population:,} people by chance is made to fit a given person with a "
            f"chance of at most {_odds(single)}.",
        )
    )
    for prior in (0.5, 0.1, 0.001):
        guessed = float(power_at(curve, prior)[0])
        rows.append(
            Risk(
                f"a secret guessed blindly {_odds(prior)}",
                prior,
                guessed,
                f"A secret about a person that is guessed blindly {_odds(prior)} is guessed with a chance of at most "
                f"{percent(guessed)}.",
            )
        )
    return tuple(rows)


def largest_parameter(
    family: Callable[[float], Curve], risk: Callable[[Curve], float], *, at_most: float, largest: float = 64.0
) -> float:
    """The largest parameter whose risk is at most a given one, rounded to the private side.

    Args:
        family: The curve of a parameter, which falls as the parameter grows: `lambda mu: claim_gdp(mu).floor`.
        risk: A risk of a curve, which rises as the curve falls.
        at_most: The largest allowed risk.
        largest: The end of the search.

    Returns:
        The parameter.

    Raises:
        ParameterError: Even parameter 0 has a larger risk.

    >>> from neartwin.audit.claims import claim_gdp
    >>> round(largest_parameter(lambda mu: claim_gdp(mu).floor, advantage_of, at_most=0.3829249225), 6)
    1.0
    """
    probability(at_most=at_most)
    if risk(family(0.0)) > at_most:
        raise ParameterError(
            "at_most", at_most, f"must be at least {risk(family(0.0)):.6g}, the risk without a release"
        )
    if risk(family(largest)) <= at_most:
        return largest
    return halved(lambda parameter: risk(family(parameter)) <= at_most, 0.0, largest, _HALVINGS)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The largest mu and the largest epsilon that keep a risk, and the noise that a count of units needs for it.

    The noise is a standard deviation, for a number that one unit moves by at most 1. It is rounded up, mu and epsilon
    down.

    Attributes:
        mu: The largest mu.
        epsilon: The largest epsilon.
    """

    mu: float
    epsilon: float

    @property
    def gaussian_noise(self) -> float:
        """The deviation of Gaussian noise, 1 / mu."""
        return math.inf if self.mu == 0 else math.nextafter(1 / self.mu, math.inf)

    @property
    def laplace_noise(self) -> float:
        """The deviation of Laplace noise, sqrt(2) / epsilon."""
        return math.inf if self.epsilon == 0 else math.sqrt(2) / self.epsilon * (1 + 1e-15)


def keeping(risk: Callable[[Curve], float], *, at_most: float) -> Keeping:
    """The noise that keeps a risk, by Gaussian and by pure privacy.

    Args:
        risk: A risk of a curve: `advantage_of`, or a lambda around `power_at`.
        at_most: The largest allowed risk.

    Returns:
        The parameters and the noise.

    Raises:
        ParameterError: Even no information has a larger risk.

    >>> kept = keeping(advantage_of, at_most=0.3829249225)
    >>> round(kept.mu, 6), round(kept.gaussian_noise, 6), round(kept.epsilon, 3), round(kept.laplace_noise, 3)
    (1.0, 1.0, 0.807, 1.753)
    """
    return Keeping(
        mu=largest_parameter(lambda mu: claim_gdp(mu).floor, risk, at_most=at_most),
        epsilon=largest_parameter(lambda epsilon: claim_pure(epsilon).floor, risk, at_most=at_most),
    )


def percent(chance: float) -> str:
    """A chance as it is written in a sentence, three digits, never below the truth.

    >>> percent(0.73105), percent(0.00027182818)
    ('73.2 %', '0.0272 %')
    """
    if chance <= 0:
        return "0 %"
    places = 2 - math.floor(math.log10(100 * chance))
    step = Decimal(1).scaleb(-places)
    return f"{(Decimal(100 * chance) - Decimal(_ROOM)).quantize(step, ROUND_CEILING).normalize():f} %"


def _odds(chance: float) -> str:
    if chance >= 0.5:
        return "half the time" if chance == 0.5 else percent(chance)
    least = 1 / chance  # fewer means a higher chance: rounded down, to be safe
    digits = 3 if chance < 0.1 else 2
    places = digits - 1 - math.floor(math.log10(least))
    odds = Decimal(least * (1 + _ROOM)).quantize(Decimal(1).scaleb(-places), ROUND_FLOOR)
    return f"one time in {odds.normalize():,f}"
