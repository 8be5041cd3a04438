"""What an attacker's two error rates say about the privacy loss: the least parameter that would allow them.

fpr: how often the attacker says "right" when the input was left; fnr: how often he says "left" when it was right. Given
*upper* bounds on both, the results are *lower* bounds on the mechanism's true parameter. All are raw: a value below 0
means that these errors prove nothing. Kairouz, Oh and Viswanath 2015, Theorem 2.1; Nasr et al. 2023, section 5.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from neartwin.errors import ParameterError
from neartwin.exact import FloatArray


def epsilon_seen(fpr: ArrayLike, fnr: ArrayLike, *, delta: float = 0.0) -> FloatArray:
    """The least epsilon for which (epsilon, delta)-privacy allows these errors.

    max(ln((1 - delta - fnr) / fpr), ln((1 - delta - fpr) / fnr)), of the broadcast shape; inf if an event that cannot
    happen on one side happens on the other by more than delta; 0 or below if nothing is proved.

    >>> float(epsilon_seen(0.01, 0.6, delta=1e-5))
    3.68885445380...
    >>> float(epsilon_seen(0.0, 0.5)), float(epsilon_seen(0.0, 1.0))
    (inf, 0.0)
    """
    false_alarm, miss = _rates(fpr, fnr)
    if not 0 <= delta <= 1:
        raise ParameterError("delta", delta, "must lie in [0, 1]")
    return np.maximum(
        _log_ratio((1 - delta) - miss, false_alarm),  # the event itself
        _log_ratio((1 - delta) - false_alarm, miss),  # its complement, sides swapped
    )


def _log_ratio(gain: FloatArray, rate: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(np.maximum(gain, 0.0)) - np.log(rate)
    return np.where(gain <= 0, -np.inf, ratio)


def mu_seen(fpr: ArrayLike, fnr: ArrayLike) -> FloatArray:
    """The least mu for which mu-Gaussian privacy allows these errors: Phi^-1(1 - fpr) - Phi^-1(fnr).

    -inf at (0, 1) and (1, 0): the attacker who always says the same meets every curve.

    >>> float(mu_seen(0.01, 0.6))
    2.0730007709...
    """
    false_alarm, miss = _rates(fpr, fnr)
    with np.errstate(invalid="ignore"):
        mu = -special.ndtri(false_alarm) - special.ndtri(miss)
    return np.where(np.isnan(mu), -np.inf, mu)


def _rates(fpr: ArrayLike, fnr: ArrayLike) -> tuple[FloatArray, FloatArray]:
    false_alarm, miss = np.broadcast_arrays(np.asarray(fpr, np.float64), np.asarray(fnr, np.float64))
    for name, rate in (("fpr", false_alarm), ("fnr", miss)):
        if not np.all((rate >= 0) & (rate <= 1)):
            raise ParameterError(name, rate, "must lie in [0, 1]")
    return false_alarm, miss
