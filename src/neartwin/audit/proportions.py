"""How often an event really happens, from how often it was seen: Clopper-Pearson bounds on a probability.

Valid for every number of runs and every true probability: no normal approximation. Clopper and Pearson 1934.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from neartwin.checks import open_probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational

_SLACK = 8 * np.finfo(np.float64).eps  # covers the rounding of the incomplete beta function's inverse


def failure_of(confidence: Number) -> float:
    """1 - confidence, taken exactly from the decimals that were written.

    >>> failure_of(0.975)
    0.025
    """
    return float(1 - open_probability(confidence=rational(confidence=confidence)))


def lower_bound(hits: ArrayLike, runs: ArrayLike, *, confidence: Number) -> FloatArray:
    """A number that the true probability is not below, except with probability 1 - confidence.

    hits, runs: whole numbers, 0 <= hits <= runs, runs >= 1, broadcast together; the result has their shape. Random are
    the hits alone: a binomial draw of `runs` independent trials. One-sided; rounded down. Clopper-Pearson 1934.

    >>> float(lower_bound(95, 100, confidence=0.975))
    0.887165088894...
    >>> float(lower_bound(0, 100, confidence=0.975))
    0.0
    """
    seen, tried = _counts(hits, runs)
    failure = failure_of(confidence)
    some = np.maximum(seen, 1)
    found = special.betaincinv(some, tried - some + 1, failure) * (1 - _SLACK)
    return np.asarray(np.where(seen == 0, 0.0, found))


def upper_bound(hits: ArrayLike, runs: ArrayLike, *, confidence: Number) -> FloatArray:
    """A number that the true probability is not above, except with probability 1 - confidence.

    As `lower_bound`, on the other side; rounded up, never above 1.

    >>> float(upper_bound(3, 1000, confidence=0.975))
    0.00874202323847...
    >>> float(upper_bound(100, 100, confidence=0.975))
    1.0
    """
    seen, tried = _counts(hits, runs)
    failure = failure_of(confidence)
    some = np.minimum(seen, tried - 1)
    found = special.betainccinv(some + 1, tried - some, failure) * (1 + _SLACK)
    return np.asarray(np.where(seen == tried, 1.0, np.minimum(found, 1.0)))


def _counts(hits: ArrayLike, runs: ArrayLike) -> tuple[FloatArray, FloatArray]:
    seen, tried = np.broadcast_arrays(np.asarray(hits, np.float64), np.asarray(runs, np.float64))
    if not np.all((seen == np.floor(seen)) & (tried == np.floor(tried))):
        raise ParameterError("hits", hits, "and runs must be whole numbers")
    if not np.all((tried >= 1) & (seen >= 0) & (seen <= tried)):
        raise ParameterError("hits", hits, f"must lie between 0 and runs={runs!r}, and runs be at least 1")
    return seen, tried
