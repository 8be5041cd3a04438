"""A guarantee in plain words: upper bounds on the success of an attacker who is sure of everything else.

Everything is read from a trade-off curve: any callable from false-alarm rates to miss rates that the true curve does not lie
below. It is convex and non-increasing, and holds for both orders of the neighbours. Take the *lower* end of a curve that comes
as an interval. Kulynych et al. 2024; Hayes et al. 2023 for reconstruction. Post-processing cannot raise any of these numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
from numpy.typing import ArrayLike

from neartwin.audit.claims import Curve, claim_gdp, claim_pure
from neartwin.checks import positive, probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, halved
from neartwin.mechanisms.neighbours import Neighbours

_GRID = 1024
_HALVINGS = 80  # the bracket is then narrower than a float can show
_ROOM = 1e-12  # for the rounding of the curve itself


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
