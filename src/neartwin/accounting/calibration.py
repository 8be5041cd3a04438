"""Calibration: the least noise, the most uses or the largest sampling rate that meets a goal, on the certified side.

Every returned value was itself evaluated, and its upper bound meets the goal. That does not rest on monotonicity or on the
course of the search. Secants of logarithms bracket the goal. The search ends where a value that meets it and one that does not
lie close together. Each trial is one question to the engine.

A goal is a budget, or one point of the attacker's curve: odds of three to one are three times the false alarms. A point
bounds no whole curve, so it opens no account and composes with nothing. For noise it is as good a goal as any other number.

Here too a composition is a spend: the least target in each currency that certainly covers it, for both orders. It must be fixed
before its first answer is seen: a plan, a series announced in advance. Rounded up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar, assert_never

from neartwin import losses
from neartwin.accounting import budgets
from neartwin.accounting.budgets import Advantage, Approx, Budget, Gdp, Mixed, Pure, Rdp, Zcdp
from neartwin.accounting.usage import AnyUsage, Cost, cost
from neartwin.checks import made_of, non_negative, open_probability, positive, probability
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Number, float_above, float_below, rational, root_above
from neartwin.losses import Composition, Gaussian, compose
from neartwin.losses.composition import PrivacyLoss


def as_pure(composition: Composition | PrivacyLoss) -> Pure:
    """The largest privacy loss, as a pure spend; `PrivacyError` where it is unbounded.

    Exact where the parameters of all mechanisms state their epsilon.

    >>> from neartwin.losses import Laplace
    >>> as_pure(10 * Laplace(epsilon="0.1"))
    nt.pure(epsilon='1')
    """
    composition = _read(composition)
    stated = [(factor.stated_pure(), count) for factor, count in composition.uses.items()]
    if all(epsilon is not None for epsilon, _ in stated):
        return budgets.pure(sum(((epsilon or 0) * count for epsilon, count in stated), Fraction(0)) or _LEAST)
    return budgets.pure(_finite(composition.pure().upper, "epsilon alone", "as_approx(composition, delta=...)"))


def as_approx(composition: Composition | PrivacyLoss, *, delta: Number) -> Approx:
    """The (epsilon, delta) spend with the least epsilon at a given delta, rounded up.

    Args:
        composition: The composition, or one privacy loss.
        delta: The delta, in (0, 1).

    Returns:
        The spend.

    >>> from neartwin.losses import Gaussian
    >>> round(float(as_approx(4 * Gaussian(mu="0.5"), delta="1e-6").epsilon), 9)
    4.886554117
    """
    composition = _read(composition)
    return budgets.approx(
        max(_finite(composition.epsilon(delta).upper, f"epsilon at delta={delta}", "a larger delta"), _LEAST), delta
    )


def as_zcdp(composition: Composition | PrivacyLoss) -> Zcdp:
    """The least rho over all orders; `PrivacyError` where everything may be revealed.

    >>> from neartwin.losses import Gaussian
    >>> as_zcdp(4 * Gaussian(mu="0.5")).rho
    Fraction(1, 2)
    """
    composition = _read(composition)
    exact = composition.stated_rho()
    if exact is not None:
        return budgets.zcdp(exact)
    return budgets.zcdp(
        _finite(composition.zcdp().upper, "rho", "as_gdp(composition, delta=...) or as_approx(composition, delta=...)")
    )


def as_rdp(composition: Composition | PrivacyLoss, *, order: Number) -> Rdp:
    """The Renyi divergence at one order, rounded up: the order of an account.

    Args:
        composition: The composition, or one privacy loss.
        order: The order, above 1.

    Returns:
        The spend.

    Raises:
        PrivacyError: The divergence is infinite.
        ParameterError: The order is not above 1.

    >>> from neartwin.losses import Gaussian
    >>> float(as_rdp(4 * Gaussian(mu="0.5"), order=8).epsilon)
    4.0
    """
    composition, fixed = _read(composition), rational(order=order)
    if not fixed > 1:
        raise ParameterError("order", fixed, "must be above 1")
    exact, rho = _gaussian(composition), composition.stated_rho()
    if exact is not None:
        return budgets.rdp(fixed, fixed * exact / 2)
    # a divergence grows with its order, and the float above the order bounds it
    divergence = composition.renyi(math.nextafter(-float_below(-fixed), math.inf)).upper
    least = max(_finite(divergence, f"order {float(fixed):g}", "as_approx(composition, delta=...)"), _LEAST)
    return budgets.rdp(fixed, least if rho is None else min(least, fixed * rho))


def as_gdp(composition: Composition | PrivacyLoss, *, delta: Number = 0) -> Gdp:
    """The Gaussian spend with the least mu with T >= G_mu (x) f_{0,delta} at every alpha and in both directions.

    Args:
        composition: The composition, or one privacy loss.
        delta: The probability set aside for failures. 0 suits Gaussian mechanisms, whose mu is exact, beside mechanisms
            with a largest loss.

    Returns:
        The spend, mu rounded up.

    Raises:
        PrivacyError: More than delta may be revealed, or a loss has no bound and no Gaussian tail.

    >>> from neartwin.losses import Gaussian, Laplace
    >>> as_gdp(4 * Gaussian(mu="0.5"))
    nt.gdp(mu='1')
    >>> fit = as_gdp(4 * Gaussian(mu="0.5") + Laplace(epsilon="0.1"), delta="1e-9")
    >>> bool(1 < fit.mu < 1.02)
    True
    >>> bool(1 < as_gdp(4 * Gaussian(mu="0.5") + Laplace(epsilon="0.1")).mu < 1.02)
    True
    """
    composition = _read(composition)
    exact, pool = _gaussian(composition), non_negative(delta=rational(delta=delta))
    if exact is not None:
        return budgets.gdp(root_above(exact))
    remedy = "a larger delta" if pool else "a small delta set aside, for instance 1e-9"
    return budgets.gdp(_finite(composition.gdp(pool).upper, "mu", remedy), pool)


_LEAST = Fraction(1, 10**12)  # one unit of a ledger: a price is never 0


def _read(composition: Composition | PrivacyLoss) -> Composition:
    """A single mechanism is a composition of one use."""
    if isinstance(composition, PrivacyLoss):
        return Composition.of(composition)
    return made_of(Composition, "mechanisms of neartwin.losses", composition=composition)


def _gaussian(composition: Composition) -> Fraction | None:
    """The exact mu squared of a composition that is Gaussian throughout."""
    rho = composition.stated_rho()
    return 2 * rho if rho is not None and all(isinstance(one, Gaussian) for one in composition.uses) else None


def _finite(value: float, currency: str, remedy: str) -> Fraction:
    if not math.isfinite(value):
        raise PrivacyError(f"this composition has no finite price in {currency}; take {remedy}")
    return Fraction(value)


@dataclass(frozen=True, slots=True)
class TruePositives:
    """At most this true positive rate for any attacker whose false positive rate is `fpr`. Dong, Roth, Su 2022."""

    rate: Fraction
    fpr: Fraction

    def __str__(self) -> str:
        return f"tpr={float(self.rate):g} at fpr={float(self.fpr):g}"


Goal = Budget | TruePositives
_INFINITE = float("inf")


def true_positives(rate: Number, *, fpr: Number) -> TruePositives:
    """A bound on the attacker's true positive rate at one false positive rate.

    Args:
        rate: The true positive rate, above fpr and below 1.
        fpr: The false positive rate, above 0.

    Returns:
        The goal.

    Raises:
        ParameterError: A rate is out of bounds.

    >>> str(true_positives("0.05", fpr="0.01"))
    'tpr=0.05 at fpr=0.01'
    >>> true_positives("0.01", fpr="0.01")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: rate=1/100 must be above fpr=0.01, which blind guessing has
    """
    alarms = open_probability(fpr=rational(fpr=fpr))
    target = open_probability(rate=rational(rate=rate))
    if target <= alarms:
        raise ParameterError("rate", target, f"must be above fpr={float(alarms):g}, which blind guessing has")
    return TruePositives(target, alarms)


def spent(total: Cost, goal: Goal) -> tuple[Fraction | float, Fraction]:
    """An upper bound on the part of a goal that a cost takes, and the goal's own number.

    The goal is met if the first is at most the second. The first is inf where nothing bounds it. It is exact for the pure, zCDP,
    Renyi and Gaussian costs of mechanisms whose parameters state them.

    A delta beside rho, a Renyi order or three pools pays the failures that the mechanisms state themselves. They must fit in it.
    The fullest of three pools counts, 1 where it is full: Gaussian mechanisms pay mu, all others their largest loss.

    Args:
        total: The cost.
        goal: The goal.

    Raises:
        PrivacyError: Under replace-one, the fits of a mechanism hold for add/remove alone.
    """
    match goal:
        case Pure(epsilon=epsilon):
            return _most(total, lambda case: as_pure(case).epsilon), epsilon
        case Approx(epsilon=epsilon, delta=delta):
            return total.epsilon(delta).upper, epsilon
        case Zcdp(rho=rho, delta=delta):
            return _most(total, lambda case: _beside(case, delta, lambda rest: as_zcdp(rest).rho)), rho
        case Rdp(order=order, epsilon=epsilon, delta=delta):
            return (
                _most(total, lambda case: _beside(case, delta, lambda rest: as_rdp(rest, order=order).epsilon)),
                epsilon,
            )
        case Gdp(mu=mu, delta=delta):
            return _most(total, lambda case: as_gdp(case, delta=delta).mu), mu
        case Mixed(delta=delta):
            return _most(total, lambda case: _beside(case, delta, lambda rest: _fullest(rest, goal))), Fraction(1)
        case Advantage(value=value):
            return total.advantage().upper, value
        case TruePositives(rate=rate, fpr=fpr):
            return total.tpr(float_above(fpr)).upper, rate
        case _:
            assert_never(goal)


def _most(total: Cost, fit: Callable[[Composition], Fraction]) -> Fraction | float:
    """The largest fit over the cases, inf where one has none."""
    total.require_symmetry()
    try:
        return max(fit(case) for case in total.cases)
    except PrivacyError:
        return _INFINITE


def _beside(case: Composition, delta: Fraction, fit: Callable[[Composition], Fraction]) -> Fraction:
    """The fit of all but the stated failures, which delta must hold: f_{eps,d} = f_{eps,0} (x) f_{0,d}."""
    failures, rest = Fraction(0), []
    for factor, count in case.uses.items():
        match factor.of if isinstance(factor, losses.UpperBound) else factor:
            case losses.Approx(epsilon=epsilon, delta=each):
                failures += count * each
                rest += [losses.Pure(epsilon=epsilon) * count] if epsilon else []
            case losses.Leak(delta=each):
                failures += count * each
            case _:
                rest.append(factor * count)
    if failures > delta:
        raise PrivacyError(f"failures of {float(failures):g} do not fit in a delta of {float(delta):g}")
    return fit(compose(rest)) if rest else Fraction(0)


def _fullest(rest: Composition, pools: Mixed) -> Fraction:
    """How full the fuller of the pools of epsilon and of mu squared is; an empty pool holds nothing."""
    normal = [factor * count for factor, count in rest.uses.items() if isinstance(factor, losses.Gaussian)]
    others = [factor * count for factor, count in rest.uses.items() if not isinstance(factor, losses.Gaussian)]
    squares = 2 * as_zcdp(compose(normal)).rho if normal else Fraction(0)
    largest = as_pure(compose(others)).epsilon if others else Fraction(0)
    if (largest and not pools.epsilon) or (squares and not pools.mu):
        raise PrivacyError("a pool of 0 pays nothing")
    parts = [largest / pools.epsilon if largest else Fraction(0), squares / pools.mu**2 if squares else Fraction(0)]
    return max(parts)


V = TypeVar("V", Fraction, int)
TRIALS = 200
LARGEST = Fraction(2) ** 60  # of a scale, in units of the sensitivity
MOST_USES = 10**12
LEVEL = 8  # doublings without any gain after which the end of the range is asked
FARTHEST = 64  # times as far at most as the last trial
STEPS = 5  # trials that a search may take before it is asked whether it comes nearer


@dataclass(frozen=True, slots=True)
class Calibrated(Generic[V]):
    """A value that meets a goal.

    Attributes:
        value: The value, on the certified side.
        beyond: The nearest tried value that was not proved to meet the goal. None if even the end of the range meets it.
        cost: The cost of the value.
        trials: The number of questions to the engine.
    """

    value: V
    beyond: V | None
    cost: Cost
    trials: int


class _Search:
    """Asks the engine and remembers: the excess over the goal in logarithms, at most 0 where the goal is met."""

    def __init__(self, spend: Callable[[Fraction], AnyUsage], target: Goal, neighbours: str) -> None:
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
            case Zcdp() | Rdp() | Gdp() | Approx():
                why = "with more than the target's delta everything may be revealed; raise the delta"
            case Mixed():
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
    spend: Callable[[Fraction], AnyUsage], target: Goal, *, neighbours: str = "add_remove", tolerance: Number = "1e-6"
) -> Calibrated[Fraction]:
    """The least scale at which a spend meets a goal. `value` meets it, and exceeds the least by at most the tolerance.

    Args:
        spend: The usage at a scale (in units of the sensitivity), cheaper at larger scales.
        target: The goal.
        neighbours: "add_remove" or "replace_one".
        tolerance: The relative width of the search.

    Returns:
        The scale, with its cost.

    Raises:
        PrivacyError: No scale up to 2^60 meets the goal.

    >>> from neartwin.accounting.budgets import approx
    >>> from neartwin.losses import Gaussian
    >>> found = least_noise(lambda sigma: Gaussian(mu=1 / sigma), approx(1, "1e-5"), tolerance="1e-9")
    >>> bool(3.7306316348 < found.value < 3.7306316400)
    True
    """
    width = _width(spend, tolerance)
    search = _Search(spend, target, neighbours)
    return _least(search, width, 1 / LARGEST, "no scale up to 2^60", "ask for fewer uses")


def largest_rate(
    spend: Callable[[Fraction], AnyUsage],
    target: Goal,
    *,
    neighbours: str = "add_remove",
    tolerance: Number = "1e-6",
    most: Number = 1,
) -> Calibrated[Fraction]:
    """The largest sampling rate up to `most` at which a spend meets a goal. `value` meets it.

    Args:
        spend: The usage at a rate, dearer at larger rates.
        target: The goal.
        neighbours: "add_remove" or "replace_one".
        tolerance: The relative width of the search.
        most: The largest rate that `spend` allows: for bands below 1 over their number, for cut batches below 1.

    Returns:
        The rate, with its cost.

    Raises:
        PrivacyError: Not even a rate of 2^-60 meets the goal.
        ParameterError: `most` is not in (0, 1], or `spend` does not allow it.

    >>> from neartwin.accounting.budgets import approx
    >>> from neartwin.accounting.usage import repeated
    >>> from neartwin.losses import SubsampledGaussian
    >>> steps = lambda q: repeated(SubsampledGaussian(mu=1, rate=q), 10_000)
    >>> bool(0.0099 < largest_rate(steps, approx("6.18771239", "1e-5"), tolerance="1e-3").value <= 0.01)
    True
    >>> from neartwin.accounting.training import banded_factorization
    >>> bands = lambda q: banded_factorization(noise_multiplier=1, rate=q, bands=8, steps=800)
    >>> bool(0.00534 < largest_rate(bands, approx(3, "1e-5"), tolerance="1e-3", most="0.12").value < 0.00535)
    True
    """
    width, top = _width(spend, tolerance), positive(most=probability(most=rational(most=most)))
    search = _Search(lambda inverse: spend(1 / inverse), target, neighbours)
    rate = _least(search, width, 1 / top, "no sampling rate down to 2^-60", "add noise")
    return Calibrated(1 / rate.value, None if rate.beyond is None else 1 / rate.beyond, rate.cost, rate.trials)


def most_uses(each: AnyUsage, target: Goal, *, neighbours: str = "add_remove") -> Calibrated[int]:
    """The most repetitions of a spend, fixed beforehand, that together meet a goal.

    Args:
        each: One use.
        target: The goal.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The number of uses, with its cost.

    Raises:
        PrivacyError: Not even one use meets the goal.
        ParameterError: 10^12 uses meet it.

    >>> from neartwin.accounting.budgets import approx
    >>> from neartwin.losses import Laplace
    >>> most_uses(Laplace(epsilon="0.1"), approx("4.692667", "1e-6")).value
    99
    """
    from neartwin.accounting.usage import repeated

    search = _Search(lambda count: repeated(each, int(count)), target, neighbours)
    good, bad, count = 0, 0, 1
    tried: list[tuple[Fraction, float]] = []
    while True:
        tried.append((Fraction(count), search.excess(Fraction(count))))
        good, bad = (count, bad) if tried[-1][1] <= 0 else (good, count)
        if bad == 1:
            raise search.unmet("not even one use", "add noise")
        if good == MOST_USES:
            raise ParameterError("each", each, f"meets {target} more than 10^12 times: it spends next to nothing")
        if bad - good == 1:
            return Calibrated(good, bad, search.cost(Fraction(good)), search.trials)
        root = _guess(tried)
        if not bad:
            leap = root or math.exp(min(-tried[-1][1], 10.0))  # costs about add, so that about so many fit
            count = min(max(math.floor(leap), good + 1), FARTHEST * good, MOST_USES)
            continue
        count = (good + bad) // 2 if root is None or _stuck(tried) else math.floor(root) + (math.floor(root) <= good)
        count = min(max(count, good + 1), bad - 1)


def _least(search: _Search, width: Fraction, least: Fraction, what: str, remedy: str) -> Calibrated[Fraction]:
    """The least value from `least` to 2^60 that meets the goal, from a first trial at 1 or `least`."""
    value, level = max(least, Fraction(1)), 0
    tried: list[tuple[Fraction, float]] = []
    low: Fraction | None = None
    high: Fraction | None = None
    while True:
        excess = search.excess(value)
        level = level + 1 if tried and excess == tried[-1][1] else 0
        tried.append((value, excess))
        low, high = (low, value) if excess <= 0 else (value, high)
        root = _guess(tried)
        if low is None:
            if value <= least:
                return Calibrated(value, None, search.cost(value), search.trials)
            value = max(_further(value, root, width, up=False), least)
        elif high is None:
            if value >= LARGEST or (level == LEVEL and search.excess(LARGEST) > 0):
                raise search.unmet(what, remedy)
            value = min(_further(value, root, width, up=True), LARGEST)
        elif high - low <= width * high:
            return Calibrated(high, low, search.cost(high), search.trials)
        else:
            value = _between(low, high, None if _stuck(tried) else root, width)


def _stuck(tried: list[tuple[Fraction, float]]) -> bool:
    """Whether the last two trials hardly came nearer, so that the middle is the better place."""
    if len(tried) <= STEPS:
        return False
    before, now = abs(tried[-3][1]), abs(tried[-1][1])
    return math.isinf(before) or now > before / 4


def _further(value: Fraction, root: Fraction | None, width: Fraction, *, up: bool) -> Fraction:
    """On from the last trial to a root not bracketed yet, and a little beyond; twice or half of it where none is known."""
    if root is None or root == value or (root > value) != up:
        return 2 * value if up else value / 2
    aim = root * (1 + width / 4 if root > value else 1 - width / 4)
    return _short(min(max(aim, value / FARTHEST), value * FARTHEST), min(abs(aim - value), width * value) / 16)


def _between(low: Fraction, high: Fraction, root: Fraction | None, width: Fraction) -> Fraction:
    """Where to look between a value that fails and one that holds.

    A quarter of the tolerance beyond the root, toward the end that is farther from it: once the root is known that well, one
    trial on either side of it ends the search. The middle where no root is known.
    """
    middle = (low + high) / 2
    if root is not None:
        root = min(max(root, low), high)
        aim = root * (1 + width / 4) if high - root > root - low else root * (1 - width / 4)
        middle = aim if low < aim < high else middle
    return _short(middle, min((high - low) / 16, width * low / 16))


def _guess(tried: list[tuple[Fraction, float]]) -> Fraction | None:
    """Where the goal is met, by a secant of the two trials that came nearest."""
    nearest = sorted((one for one in tried if math.isfinite(one[1])), key=lambda one: abs(one[1]))[:2]
    return _root(*nearest) if len(nearest) == 2 else None


def _root(one: tuple[Fraction, float], other: tuple[Fraction, float]) -> Fraction | None:
    """Where the line through two trials, in logarithms, meets the goal."""
    if one[1] == other[1]:
        return None
    x, y = _log(one[0]), _log(other[0])
    root = x - one[1] * (y - x) / (other[1] - one[1])
    return Fraction(math.exp(root)) if abs(root) < 100 else None


def _short(value: Fraction, room: Fraction) -> Fraction:
    """A nearby number with few binary digits, within the room."""
    bits = max(0, math.ceil(-math.log2(room))) + 2
    return Fraction(round(value * 2**bits), 2**bits) if bits < 1000 else value


def _width(spend: object, tolerance: Number) -> Fraction:
    """The width of a search in a function."""
    if not callable(spend):
        raise ParameterError("spend", spend, "must be a function from the scale or rate to what is done")
    return max(open_probability(tolerance=rational(tolerance=tolerance)), Fraction(1, 10**12))
