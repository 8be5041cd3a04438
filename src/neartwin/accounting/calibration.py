"""Calibration: the least noise, the most uses or the largest sampling rate that meets a target, on the certified side.

What is returned was itself evaluated, and its upper bound meets the target; that does not rest on monotonicity or on how the
search went. A secant search between a value that meets the target and one that does not ends where both lie close together;
each trial is one question to the engine, which rebuilds no grid.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar, assert_never

from neartwin.accounting.cost import Cost
from neartwin.accounting.fits import as_gdp, as_rdp, as_zcdp
from neartwin.accounting.spend import Done, cost
from neartwin.accounting.targets import Advantage, Approx, Gdp, Pure, Rdp, Target, ThreePools, Zcdp
from neartwin.checks import open_probability, positive
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Number, rational
from neartwin.losses import Composed

V = TypeVar("V", Fraction, int)
TRIALS = 200
LARGEST = Fraction(2) ** 60  # of a scale, in units of the sensitivity
MOST_USES = 10**12


@dataclass(frozen=True, slots=True)
class Calibrated(Generic[V]):
    """What meets a target. value: the certified side; beyond: the nearest tried that was not proved to meet it.

    cost: of the value; trials: how often the engine was asked. `beyond` is None where even the end of the range meets it.
    """

    value: V
    beyond: V | None
    cost: Cost
    trials: int


class _Search:
    """Asks the engine and remembers: the excess over the target in logarithms, at most 0 where the target is met."""

    def __init__(self, spend: Callable[[Fraction], Done], target: Target, neighbours: str) -> None:
        self.spend, self.target, self.neighbours, self.trials = spend, target, neighbours, 0

    def cost(self, value: Fraction) -> Cost:
        return cost(self.spend(value), neighbours=self.neighbours)

    def excess(self, value: Fraction) -> float:
        self.trials += 1
        if self.trials > TRIALS:
            raise PrivacyError(
                f"no end after {TRIALS} trials: the cost does not fall as it should toward {self.target}"
            )
        reached, goal = spent(self.cost(value), self.target)
        if not math.isfinite(reached):
            return math.inf
        distance = math.log(max(float(reached), 1e-300) / float(goal))
        return min(distance, 0.0) if Fraction(reached) <= goal else max(distance, 5e-324)


def spent(whole: Cost, target: Target) -> tuple[Fraction | float, Fraction]:
    """The upper bound of a cost in a target's currency, and the target's own number.

    Errors: `PrivacyError` for a target with pools that the currency cannot show as one number.
    """
    match target:
        case Pure(epsilon=epsilon):
            return whole.pure().upper, epsilon
        case Approx(epsilon=epsilon, delta=delta):
            return whole.epsilon(delta).upper, epsilon
        case Zcdp(rho=rho, delta=delta) if delta == 0:
            return _fitted(whole, lambda case: as_zcdp(case).rho), rho
        case Rdp(order=order, epsilon=epsilon, delta=delta) if delta == 0:
            return _fitted(whole, lambda case: as_rdp(case, order=order).epsilon), epsilon
        case Gdp(mu=mu, delta=delta):
            return _fitted(whole, lambda case: as_gdp(case, delta=delta).mu), mu
        case Advantage(value=value):
            return whole.advantage().upper, value
        case Zcdp() | Rdp() | ThreePools():
            raise PrivacyError(
                f"noise cannot be calibrated to {target}: give one number to meet, without further pools"
            )
        case _:
            assert_never(target)


def _fitted(whole: Cost, fit: Callable[[Composed], Fraction]) -> Fraction | float:
    """The largest fit over the cases, inf where one has none; exact for Gaussian mechanisms."""
    whole.pure()  # refuses what the fits, over the add and remove orders, do not cover under replace-one
    try:
        return max(fit(case) for case in whole.cases)
    except PrivacyError:
        return math.inf


def least_noise(
    spend: Callable[[Fraction], Done],
    target: Target,
    *,
    neighbours: str = "add_remove",
    tolerance: Number = "1e-6",
) -> Calibrated[Fraction]:
    """The least scale at which a spend meets a target: `value` meets it, and is above the least by at most the tolerance.

    spend: what is done at a scale (in units of the sensitivity), cheaper at larger scales. tolerance: relative.
    Errors: `PrivacyError` where no scale up to 2^60 meets the target.

    >>> from neartwin.accounting.targets import approx
    >>> from neartwin.losses import Gaussian
    >>> found = least_noise(lambda sigma: Gaussian(mu=1 / sigma), approx(1, "1e-5"), tolerance="1e-9")
    >>> bool(3.7306316348 < found.value < 3.7306316400)
    True
    """
    width = _tolerance(tolerance)
    search = _Search(spend, target, neighbours)
    scale = Fraction(1)
    excess = search.excess(scale)
    while excess > 0:
        low, low_excess, scale = scale, excess, 2 * scale
        if scale > LARGEST:
            raise PrivacyError(f"no scale up to 2^60 meets {target}; ask for less, or for a larger target")
        excess = search.excess(scale)
        if excess <= 0:
            return _closed(search, (scale, excess), (low, low_excess), width)
    while True:
        high, high_excess, scale = scale, excess, scale / 2
        if scale < 1 / LARGEST:
            return Calibrated(high, None, search.cost(high), search.trials)
        excess = search.excess(scale)
        if excess > 0:
            return _closed(search, (high, high_excess), (scale, excess), width)


def largest_rate(
    spend: Callable[[Fraction], Done],
    target: Target,
    *,
    neighbours: str = "add_remove",
    tolerance: Number = "1e-6",
) -> Calibrated[Fraction]:
    """The largest sampling rate in (0, 1] at which a spend meets a target: `value` meets it.

    spend: what is done at a rate, dearer at larger rates (rate 1 must be allowed). tolerance: relative.
    Errors: `PrivacyError` where not even a rate of 2^-60 meets it.

    >>> from neartwin.accounting.targets import approx
    >>> from neartwin.accounting.spend import repeated
    >>> from neartwin.losses import SubsampledGaussian
    >>> steps = lambda q: repeated(SubsampledGaussian(mu=1, rate=q), 10_000)
    >>> bool(0.0099 < largest_rate(steps, approx("6.18771239", "1e-5"), tolerance="1e-3").value <= 0.01)
    True
    """
    width = _tolerance(tolerance)
    search = _Search(lambda inverse: spend(1 / inverse), target, neighbours)
    inverse = Fraction(1)
    excess = search.excess(inverse)
    if excess <= 0:
        return Calibrated(inverse, None, search.cost(inverse), search.trials)
    while excess > 0:
        low, low_excess, inverse = inverse, excess, 2 * inverse
        if inverse > LARGEST:
            raise PrivacyError(f"no sampling rate down to 2^-60 meets {target}; add noise, or ask for a larger target")
        excess = search.excess(inverse)
    found = _closed(search, (inverse, excess), (low, low_excess), width)
    return Calibrated(1 / found.value, None if found.beyond is None else 1 / found.beyond, found.cost, found.trials)


def most_uses(each: Done, target: Target, *, neighbours: str = "add_remove") -> Calibrated[int]:
    """The most times a spend may be repeated, fixed beforehand, so that all together meet a target.

    Errors: `PrivacyError` where not even one use meets it, `ParameterError` where 10^12 do.

    >>> from neartwin.accounting.targets import approx
    >>> from neartwin.losses import Laplace
    >>> most_uses(Laplace(epsilon="0.1"), approx("4.692667", "1e-6")).value
    99
    """
    from neartwin.accounting.spend import repeated

    search = _Search(lambda count: repeated(each, int(count)), target, neighbours)
    excess = search.excess(Fraction(1))
    if excess > 0:
        raise PrivacyError(f"one use alone does not meet {target}; add noise, or ask for a larger target")
    good, bad, good_excess = 1, 2, excess
    while (bad_excess := search.excess(Fraction(bad))) <= 0:
        good, good_excess, bad = bad, bad_excess, 2 * bad
        if bad > MOST_USES:
            raise ParameterError("each", each, f"meets {target} more than 10^12 times: it spends next to nothing")
    turn = 0
    while bad - good > 1:
        guess = _secant(math.log(good), good_excess, math.log(bad), bad_excess) if turn % 3 < 2 else None
        middle = (good + bad) // 2 if guess is None else round(math.exp(guess)) + (turn % 2)
        middle = min(max(middle, good + 1), bad - 1)
        excess = search.excess(Fraction(middle))
        if excess <= 0:
            good, good_excess = middle, excess
        else:
            bad, bad_excess = middle, excess
        turn += 1
    return Calibrated(good, bad, search.cost(Fraction(good)), search.trials)


def _closed(
    search: _Search, holds: tuple[Fraction, float], fails: tuple[Fraction, float], width: Fraction
) -> Calibrated[Fraction]:
    """Secant steps in logarithms, each aimed a little to the side that is farther, and a bisection every third."""
    (high, high_excess), (low, low_excess) = holds, fails
    turn = 0
    while high - low > width * high:
        guess = None
        if turn % 3 < 2:
            guess = _secant(math.log(high), high_excess, math.log(low), low_excess)
        if guess is None:
            middle = (low + high) / 2
        else:
            aim = Fraction(math.exp(guess))
            middle = aim * (1 + width / 4) if turn % 3 == 0 else aim * (1 - width / 4)
            if not low < middle < high:
                middle = (low + high) / 2
        middle = _short(middle, (high - low) / 16)
        excess = search.excess(middle)
        if excess <= 0:
            high, high_excess = middle, excess
        else:
            low, low_excess = middle, excess
        turn += 1
    return Calibrated(high, low, search.cost(high), search.trials)


def _secant(x: float, at_x: float, y: float, at_y: float) -> float | None:
    """Where the line through two points is 0, strictly between them."""
    if not (math.isfinite(at_x) and math.isfinite(at_y)) or at_x == at_y:
        return None
    root = x - at_x * (y - x) / (at_y - at_x)
    return root if min(x, y) < root < max(x, y) else None


def _short(value: Fraction, room: Fraction) -> Fraction:
    """A nearby number with few binary digits, within the room."""
    bits = max(0, math.ceil(-math.log2(room))) + 2
    return Fraction(round(value * 2**bits), 2**bits) if bits < 1000 else value


def _tolerance(tolerance: Number) -> Fraction:
    value = open_probability(tolerance=rational(tolerance=tolerance))
    return max(positive(tolerance=value), Fraction(1, 10**12))
