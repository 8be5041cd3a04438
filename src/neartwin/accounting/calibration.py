"""Calibration: the least noise, the most uses or the largest sampling rate that meets a goal, on the certified side.

What is returned was itself evaluated, and its upper bound meets the goal; that does not rest on monotonicity or on how the
search went. A secant search in logarithms, between a value that meets the goal and one that does not, ends where both lie close
together; each trial is one question to the engine, which rebuilds no grid.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from neartwin.accounting.cost import Cost
from neartwin.accounting.goals import Goal, spent
from neartwin.accounting.spend import Done, cost
from neartwin.accounting.targets import Approx, Gdp, Pure, Rdp, ThreePools, Zcdp
from neartwin.checks import open_probability
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Number, rational

V = TypeVar("V", Fraction, int)
TRIALS = 200
LARGEST = Fraction(2) ** 60  # of a scale, in units of the sensitivity
MOST_USES = 10**12
LEVEL = 8  # doublings without any gain after which the end of the range is asked


@dataclass(frozen=True, slots=True)
class Calibrated(Generic[V]):
    """What meets a goal. value: the certified side; beyond: the nearest tried that was not proved to meet it.

    cost: of the value; trials: how often the engine was asked. `beyond` is None where even the end of the range meets it.
    """

    value: V
    beyond: V | None
    cost: Cost
    trials: int


class _Search:
    """Asks the engine and remembers: the excess over the goal in logarithms, at most 0 where the goal is met."""

    def __init__(self, spend: Callable[[Fraction], Done], target: Goal, neighbours: str) -> None:
        if not isinstance(target, Goal):
            raise ParameterError("target", target, "must be a target", remedy='for instance approx(1, "1e-6")')
        self.spend, self.target, self.neighbours, self.trials = spend, target, neighbours, 0
        self.reached: Fraction | float = math.inf

    def cost(self, value: Fraction) -> Cost:
        return cost(self.spend(value), neighbours=self.neighbours)

    def excess(self, value: Fraction) -> float:
        """Inf where nothing bounds it: also where the first trial could be computed with and this one cannot."""
        self.trials += 1
        if self.trials > TRIALS:
            raise PrivacyError(
                f"no end after {TRIALS} trials: the cost does not fall as it should toward {self.target}"
            )
        try:
            self.reached, goal = spent(self.cost(value), self.target)
        except ParameterError:
            if self.trials == 1:
                raise
            return math.inf
        if not math.isfinite(self.reached):
            return math.inf
        distance = _log(Fraction(self.reached) / goal) if self.reached else -math.inf
        return min(distance, 0.0) if Fraction(self.reached) <= goal else max(distance, 5e-324)

    def unmet(self, what: str, remedy: str) -> PrivacyError:
        """Why nothing in the range meets the goal."""
        if math.isfinite(self.reached):
            return PrivacyError(
                f"{what} meets {self.target}: the cost stays near {float(self.reached):.6g}; {remedy}, or take a larger target"
            )
        match self.target:
            case Pure():
                why = "the losses have no bound, so no epsilon holds without a delta; ask for approx(epsilon, delta)"
            case Gdp(delta=delta) if delta == 0:
                why = "far out the losses are no Gaussian's, so no mu holds without a delta; ask for gdp(mu, delta)"
            case Zcdp() | Rdp() | Gdp():
                why = "with more than the target's delta everything may be revealed; raise the delta"
            case Approx():
                why = "more than delta may be revealed; raise the delta"
            case ThreePools():
                why = (
                    "all but Gaussian mechanisms pay their largest loss, and one here has none; ask for gdp(mu, delta)"
                )
            case _:
                why = "nothing bounds the cost"
        return PrivacyError(f"{what} meets {self.target}: {why}")


def _log(ratio: Fraction) -> float:
    """The logarithm of a positive fraction of any size, without cancellation near 1."""
    near = abs(ratio - 1) < Fraction(1, 1000)
    return math.log1p(float(ratio - 1)) if near else math.log(ratio.numerator) - math.log(ratio.denominator)


def least_noise(
    spend: Callable[[Fraction], Done],
    target: Goal,
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
    search = _Search(_function(spend), target, neighbours)
    scale = Fraction(1)
    excess = search.excess(scale)
    if excess > 0:
        holds, fails = _met(search, (scale, excess), "no scale up to 2^60", "ask for fewer uses")
        return _closed(search, holds, fails, width)
    while True:
        high, high_excess, scale = scale, excess, scale / 2
        if scale < 1 / LARGEST:
            return Calibrated(high, None, search.cost(high), search.trials)
        excess = search.excess(scale)
        if excess > 0:
            return _closed(search, (high, high_excess), (scale, excess), width)


def _met(
    search: _Search, fails: tuple[Fraction, float], what: str, remedy: str
) -> tuple[tuple[Fraction, float], tuple[Fraction, float]]:
    """Doubled until the goal is met: the first value that meets it, and the last that does not."""
    value, level = 2 * fails[0], 0
    while (excess := search.excess(value)) > 0:
        level = level + 1 if excess == fails[1] else 0
        if 2 * value > LARGEST or (level == LEVEL and search.excess(LARGEST) > 0):
            raise search.unmet(what, remedy)
        fails, value = (value, excess), 2 * value
    return (value, excess), fails


def largest_rate(
    spend: Callable[[Fraction], Done],
    target: Goal,
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
    _function(spend)
    search = _Search(lambda inverse: spend(1 / inverse), target, neighbours)
    inverse = Fraction(1)
    excess = search.excess(inverse)
    if excess <= 0:
        return Calibrated(inverse, None, search.cost(inverse), search.trials)
    holds, fails = _met(search, (inverse, excess), "no sampling rate down to 2^-60", "add noise")
    found = _closed(search, holds, fails, width)
    return Calibrated(1 / found.value, None if found.beyond is None else 1 / found.beyond, found.cost, found.trials)


def most_uses(each: Done, target: Goal, *, neighbours: str = "add_remove") -> Calibrated[int]:
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
        raise search.unmet("not even one use", "add noise")
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
    """Secant steps in logarithms through the two trials nearest the goal, and a bisection every third.

    Each aims a quarter of the tolerance beyond its root, toward the end that is farther from it: once the root is known that
    well, one trial on either side of it ends the search.
    """
    tried, turn = [holds, fails], 0
    high, low = holds[0], fails[0]
    while high - low > width * high:
        near = sorted((one for one in tried if math.isfinite(one[1])), key=lambda one: abs(one[1]))[:2]
        root = _root(*near) if len(near) == 2 and turn % 3 < 2 else None
        middle = (low + high) / 2
        if root is not None:
            root = min(max(root, low), high)
            aim = root * (1 + width / 4) if high - root > root - low else root * (1 - width / 4)
            middle = aim if low < aim < high else middle
        middle = _short(middle, min((high - low) / 16, width * low / 16))
        excess = search.excess(middle)
        tried.append((middle, excess))
        low, high = (low, middle) if excess <= 0 else (middle, high)
        turn += 1
    return Calibrated(high, low, search.cost(high), search.trials)


def _root(one: tuple[Fraction, float], other: tuple[Fraction, float]) -> Fraction | None:
    """Where the line through two trials, in logarithms, meets the goal."""
    if one[1] == other[1]:
        return None
    x, y = _log(one[0]), _log(other[0])
    root = x - one[1] * (y - x) / (other[1] - one[1])
    return Fraction(math.exp(root)) if abs(root) < 100 else None


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


def _function(spend: Callable[[Fraction], Done]) -> Callable[[Fraction], Done]:
    if not callable(spend):
        raise ParameterError("spend", spend, "must be a function from the scale or rate to what is done")
    return spend


def _tolerance(tolerance: Number) -> Fraction:
    value = open_probability(tolerance=rational(tolerance=tolerance))
    return max(value, Fraction(1, 10**12))
