"""What calibration may aim at: a target, or one point of the attacker's curve, told as a rate or as betting odds.

A point bounds no whole curve, so it opens no account and composes with nothing; for noise it is as good as any other number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from neartwin import losses
from neartwin.accounting.cost import Cost
from neartwin.accounting.fits import as_gdp, as_pure, as_rdp, as_zcdp
from neartwin.accounting.targets import Advantage, Approx, Gdp, Pure, Rdp, Target, ThreePools, Zcdp
from neartwin.checks import open_probability, positive
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Number, float_above, rational
from neartwin.losses import Composed, compose


@dataclass(frozen=True, slots=True)
class TruePositives:
    """At most this true positive rate for any attacker whose false positive rate is `fpr`. Dong, Roth, Su 2022."""

    rate: Fraction
    fpr: Fraction

    def __str__(self) -> str:
        return f"tpr={float(self.rate):g} at fpr={float(self.fpr):g}"


Goal = Target | TruePositives
_INFINITE = float("inf")


def true_positives(rate: Number, *, fpr: Number) -> TruePositives:
    """A bound on the attacker's true positive rate at one false positive rate; 0 < fpr < rate < 1.

    >>> str(true_positives("0.05", fpr="0.01"))
    'tpr=0.05 at fpr=0.01'
    >>> true_positives("0.01", fpr="0.01")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: rate=1/100 must be above fpr=0.01, which blind guessing has
    """
    alarms = open_probability(fpr=rational(fpr=fpr))
    wanted = open_probability(rate=rational(rate=rate))
    if wanted <= alarms:
        raise ParameterError("rate", wanted, f"must be above fpr={float(alarms):g}, which blind guessing has")
    return TruePositives(wanted, alarms)


def betting_odds(odds: Number, *, fpr: Number) -> TruePositives:
    """At most so many to one that a positive of any attacker with this false positive rate is right, from even odds.

    The odds are TPR/FPR, so 1 < odds < 1/fpr: 1 is blind guessing, and 1/fpr is what an attacker who is always right has.

    >>> str(betting_odds(5, fpr="0.01"))
    'tpr=0.05 at fpr=0.01'
    """
    alarms = open_probability(fpr=rational(fpr=fpr))
    wanted = positive(odds=rational(odds=odds))
    if not 1 < wanted < 1 / alarms:
        raise ParameterError("odds", wanted, f"must lie strictly between 1 and 1/fpr = {float(1 / alarms):g}")
    return TruePositives(wanted * alarms, alarms)


def spent(whole: Cost, goal: Goal) -> tuple[Fraction | float, Fraction]:
    """An upper bound on what a cost has of a goal, inf where nothing bounds it, and the goal's own number.

    The goal is met where the first is at most the second. Exact for the pure, zCDP, Renyi and Gaussian costs of mechanisms whose
    parameters state them. A delta beside rho, a Renyi order or three pools is for the failures that the mechanisms state
    themselves, which must fit in it; of three pools the fullest counts, 1 where it is full: Gaussian mechanisms pay mu, all
    others their largest loss. Errors: `PrivacyError` under replace-one for mechanisms whose fits hold for add/remove alone.
    """
    match goal:
        case Pure(epsilon=epsilon):
            return _most(whole, lambda case: as_pure(case).epsilon), epsilon
        case Approx(epsilon=epsilon, delta=delta):
            return whole.epsilon(delta).upper, epsilon
        case Zcdp(rho=rho, delta=delta):
            return _most(whole, lambda case: _beside(case, delta, lambda rest: as_zcdp(rest).rho)), rho
        case Rdp(order=order, epsilon=epsilon, delta=delta):
            return (
                _most(whole, lambda case: _beside(case, delta, lambda rest: as_rdp(rest, order=order).epsilon)),
                epsilon,
            )
        case Gdp(mu=mu, delta=delta):
            return _most(whole, lambda case: as_gdp(case, delta=delta).mu), mu
        case ThreePools(delta=delta):
            return _most(whole, lambda case: _beside(case, delta, lambda rest: _fullest(rest, goal))), Fraction(1)
        case Advantage(value=value):
            return whole.advantage().upper, value
        case TruePositives(rate=rate, fpr=fpr):
            return whole.tpr(float_above(fpr)).upper, rate
        case _:
            assert_never(goal)


def _most(whole: Cost, fit: Callable[[Composed], Fraction]) -> Fraction | float:
    """The largest fit over the cases, inf where one has none."""
    whole.pure()  # refuses what the fits, over the add and remove orders, do not cover under replace-one
    try:
        return max(fit(case) for case in whole.cases)
    except PrivacyError:
        return _INFINITE


def _beside(case: Composed, delta: Fraction, fit: Callable[[Composed], Fraction]) -> Fraction:
    """The fit of all but the stated failures, which delta must hold: f_{eps,d} = f_{eps,0} (x) f_{0,d}."""
    failures, rest = Fraction(0), []
    for factor, count in case.uses.items():
        match factor:
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


def _fullest(rest: Composed, pools: ThreePools) -> Fraction:
    """How full the fuller of the pools of epsilon and of mu squared is; an empty pool holds nothing."""
    normal = [factor * count for factor, count in rest.uses.items() if isinstance(factor, losses.Gaussian)]
    others = [factor * count for factor, count in rest.uses.items() if not isinstance(factor, losses.Gaussian)]
    squares = 2 * as_zcdp(compose(normal)).rho if normal else Fraction(0)
    largest = as_pure(compose(others)).epsilon if others else Fraction(0)
    if (largest and not pools.epsilon) or (squares and not pools.mu):
        raise PrivacyError("a pool of 0 pays nothing")
    parts = [largest / pools.epsilon if largest else Fraction(0), squares / pools.mu**2 if squares else Fraction(0)]
    return max(parts)
