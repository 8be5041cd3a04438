"""What an attacker can reach, read from a curve: advantage, true positives, bets, reconstruction; and the inverses.

The attacker sees the output and decides which of two neighbouring data sets made it. Every number is an upper bound on
the attacker when taken at `upper` (Kulynych et al. 2024; Hayes et al. 2023 for reconstruction).
"""

import numpy as np

from neartwin.divergences.normal_roots import mu_roots
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval
from neartwin.tradeoff.functions import TradeOff
from neartwin.tradeoff.gaussian_dp import found, mu_of
from neartwin.tradeoff.normal import ROOM, quantile
from neartwin.tradeoff.twofold import UNIT, Argument, certified, clipped, ends, levels


def advantage(curve: TradeOff) -> Interval[FloatArray]:
    """The most of TPR - FPR = delta(0) = the total variation distance.

    >>> from neartwin.tradeoff.families import gaussian
    >>> a = advantage(gaussian(2))
    >>> bool(a.lower <= 0.68268949213708590 <= a.upper)
    True
    """
    return curve.delta(0)


def tpr_at(curve: TradeOff, fpr: Argument) -> Interval[FloatArray]:
    """The best true positive rate at each false positive rate in [0, 1]: 1 - f(fpr)."""
    return curve.power(fpr)


def reconstruction_success(curve: TradeOff, prior: Argument) -> Interval[FloatArray]:
    """Bound on the chance to reconstruct a unit that is guessed blindly with probability `prior`: 1 - f(prior).

    >>> from neartwin.tradeoff.families import gaussian
    >>> r = reconstruction_success(gaussian(1), "0.01")
    >>> bool(r.lower <= 0.092362248073693936 <= r.upper)
    True
    """
    return curve.power(prior)


def betting_posterior(curve: TradeOff, fpr: Argument, prior: Argument) -> Interval[FloatArray]:
    """The share of right bets of an attacker who bets only in a share `fpr` of the null cases.

    prior: probability that the unit is in. pi TPR / (pi TPR + (1 - pi) FPR), increasing in TPR; 1 at fpr = 0 only if
    some outcome gives the unit away, else the limit's value is not defined and [prior, 1] is returned.
    """
    share, other = levels(prior=prior)
    level, _ = levels(fpr=fpr)
    lower, upper = ends(curve.power(fpr))

    def posterior(power: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore", divide="ignore"):
            value = share * power / (share * power + other * level)
        return np.where(np.isnan(value), share, value)

    low, high = posterior(lower) * (1 - 8 * UNIT), posterior(upper) * (1 + 8 * UNIT)
    return clipped(np.where(level <= 0, np.minimum(low, share), low), np.where(level <= 0, 1.0, high), "Bayes")


def bayes_success(curve: TradeOff, prior: Argument) -> Interval[FloatArray]:
    """The best chance to decide rightly at a prior pi of membership: 1 - pi (1 - delta(ln((1 - pi)/pi))).

    >>> from neartwin.tradeoff.families import gaussian
    >>> b = bayes_success(gaussian(2), "0.5")
    >>> bool(b.lower <= 0.84134474606854295 <= b.upper)
    True
    """
    share, other = levels(prior=prior)
    if np.any(share <= 0) or np.any(other <= 0):
        raise ParameterError("prior", prior, "must lie strictly between 0 and 1")
    epsilon = np.log(other) - np.log(share)
    room = 8 * UNIT * (1 + np.abs(np.log(other)) + np.abs(np.log(share)))
    lower, upper = ends(curve.delta(epsilon + room))[0], ends(curve.delta(epsilon - room))[1]
    return clipped(1 - share * (1 - lower) - 4 * UNIT, 1 - share * (1 - upper) + 4 * UNIT, "Bayes")


def _points(tpr: Argument, fpr: Argument) -> Interval[FloatArray]:
    reached, missed = levels(tpr=tpr)
    level, rest = levels(fpr=fpr)
    if np.any(level <= 0) or np.any(rest <= 0) or np.any(missed <= 0):
        raise ParameterError("fpr", fpr, "must lie strictly between 0 and 1, and tpr below 1")
    if np.any(reached < level):
        raise ParameterError("tpr", tpr, "must not be below fpr: guessing blindly reaches that")
    up, down = quantile(reached, missed), quantile(level, rest)
    value, room = up - down, ROOM * (np.abs(up) + np.abs(down)) + 4 * UNIT
    return certified(np.maximum(value - room, 0.0), value + room, "normal quantiles")


def mu_of_tpr(tpr: Argument, fpr: Argument) -> Interval[FloatArray]:
    """The mu whose best true positive rate at `fpr` is `tpr`: Phi^-1(tpr) - Phi^-1(fpr); `lower` is the safe side.

    >>> m = mu_of_tpr("0.092362248073693936", "0.01")
    >>> bool(m.lower <= 1.0000000000001 and m.upper >= 0.9999999999999)
    True
    """
    return _points(tpr, fpr)


def mu_of_reconstruction(success: Argument, prior: Argument) -> Interval[FloatArray]:
    """The largest mu that keeps reconstruction from a blind chance `prior` at or below `success`; `lower` is safe."""
    return _points(success, prior)


def mu_of_bayes_success(success: Argument, prior: Argument) -> Interval[FloatArray]:
    """The largest mu that keeps the best decision at prior pi right with at most probability `success`.

    Solved through delta(ln((1 - pi)/pi)) = 1 - (1 - success)/pi; `lower` is the safe side.
    """
    share, other = levels(prior=prior)
    right, wrong = levels(success=success)
    if np.any(share <= 0) or np.any(other <= 0) or np.any(wrong <= 0):
        raise ParameterError("prior", prior, "must lie strictly between 0 and 1, and success below 1")
    if np.any(right <= np.maximum(share, other) + 8 * UNIT):
        raise ParameterError("success", success, "must exceed max(prior, 1 - prior): guessing blindly reaches that")
    # by the symmetry of the curve prior and 1 - prior ask the same; with the smaller one epsilon >= 0
    share, wrong = np.broadcast_arrays(np.minimum(share, other), wrong)
    epsilon = np.log1p(-share) - np.log(share)
    epsilon = np.maximum(epsilon, 0.0)
    least, most = found(_bayes_quick, _bayes_searched, epsilon, (share - wrong) / share, wrong / share)
    return certified(least, np.maximum(least, most), "signs of delta")


def _bayes_quick(epsilon: FloatArray, delta: FloatArray, rest: FloatArray) -> tuple[FloatArray, ...]:
    doubt = 8 * UNIT * (1 + rest) / np.minimum(delta, rest)
    least, most = mu_roots(epsilon, delta, rest, doubt)
    # epsilon errs by less than 8 units of 1 + epsilon, and d mu / d epsilon = R(b) < 1.26 for b >= 0
    room = 11 * UNIT * (1 + epsilon)
    return np.maximum(least - room, 0.0), most + room


def _bayes_searched(epsilon: FloatArray, delta: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
    room_e, room_d = 8 * UNIT * (1 + epsilon), 8 * UNIT * (1 + rest)
    least = ends(mu_of(epsilon - room_e, np.maximum(delta - room_d, 1e-300)))[0]
    return least, ends(mu_of(epsilon + room_e, np.minimum(delta + room_d, 1 - UNIT)))[1]
