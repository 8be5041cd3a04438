"""From what is promised to a claim that can be attacked: targets, guarantees, trade-off curves and composed wholes.

The floor under the attacker's errors is the promised one, the *lower* end of a curve that comes as bounds: an attacker who
gets below it has refuted the promise, and every risk read from it is an upper bound.
"""

from typing import assert_never

import numpy as np

from neartwin.accounting.guarantee import Guarantee, whole_of
from neartwin.accounting.targets import Advantage, Approx, Gdp, Pure, Rdp, Target, ThreePools, Zcdp
from neartwin.audit.claims import BelowCurve, Claim, Curve, claim_approx, claim_gdp, claim_pure
from neartwin.exact import FloatArray
from neartwin.losses import Composed
from neartwin.tradeoff.functions import TradeOff

_EPSILONS = np.concatenate([np.linspace(0, 8, 801), np.geomspace(8, 700, 121)[1:]])  # a line under the curve from each
_ROOM = 1e-13  # over the rounding of some dozen float operations


def claim_of(stated: Target | Guarantee | TradeOff | Composed) -> Claim:
    """The claim that a spend, an account, a release's guarantee, a mechanism's curve or a composed whole makes.

    Pure, approximate, Gaussian and advantage promises are audited in their own number; any other by the gap below its
    curve. A curve of one ordered pair claims both orders only if it is symmetric: give the pointwise least of both.

    >>> from neartwin.accounting.targets import approx, zcdp
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
        case Pure() | Approx() | Zcdp() | Rdp() | Gdp() | ThreePools() | Advantage():
            return _promised(stated)
        case Composed():
            return BelowCurve(_of_whole(stated), repr(stated))
        case _:
            return BelowCurve(_of_curve(stated), repr(stated))


def _promised(promise: Target) -> Claim:
    match promise:
        case Pure(epsilon=epsilon):
            return claim_pure(epsilon)
        case Approx(epsilon=epsilon, delta=delta):
            return claim_approx(epsilon, delta)
        case Gdp(mu=mu, delta=delta) if delta == 0:
            return claim_gdp(mu)
        case Advantage(value=value):  # total variation at most `value` is (0, value)-privacy
            return claim_approx(0, value)
        case Zcdp() | Rdp() | Gdp() | ThreePools():
            return BelowCurve(_of_whole(whole_of(promise)), str(promise))
        case _:
            assert_never(promise)


def _of_curve(curve: TradeOff) -> Curve:
    return lambda fpr: np.asarray(curve.beta(fpr).lower, np.float64)


def _of_whole(whole: Composed) -> Curve:
    least = np.minimum(np.asarray(whole.delta(_EPSILONS).upper, np.float64), 1.0)
    return lambda fpr: _above_lines(np.atleast_1d(np.asarray(fpr, np.float64)), least).reshape(np.shape(fpr))


def _above_lines(fpr: FloatArray, delta: FloatArray) -> FloatArray:
    """The most of the lines that delta at each of `_EPSILONS` puts under a curve that holds in both orders; rounded down."""
    found = np.zeros(len(fpr))
    for epsilon, least in zip(np.exp(_EPSILONS), delta, strict=True):
        np.maximum(found, np.maximum(1 - least - epsilon * fpr, (1 - least - fpr) / epsilon), out=found)
    return np.asarray(np.maximum(found * (1 - _ROOM) - _ROOM, 0.0))
