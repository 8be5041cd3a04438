"""Gaussian differential privacy, converted: delta(epsilon), epsilon(delta), mu and the noise that a target needs.

A mechanism is mu-GDP when telling its answers on neighbours apart is at least as hard as telling N(0, 1) from
N(mu, 1). It is then (epsilon, delta(epsilon))-DP for every real epsilon, and conversely (Dong, Roth, Su 2022,
Corollary 2.13), with delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

Every answer is an `Interval` that holds the exact value of the arguments as written: decimals are read exactly, and
inverses are certified by evaluating delta on both sides of the root. Arrays are broadcast together.
"""

from collections.abc import Callable

import numpy as np

from neartwin.divergences.normal_roots import epsilon_roots, mu_roots
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval
from neartwin.tradeoff.normal import GaussianProfile, gaussian_profile, plain_delta, plain_log_delta, quantile
from neartwin.tradeoff.roots import Places, decreasing_root
from neartwin.tradeoff.twofold import UNIT, Argument, Twofold, certified, clipped, levels, quotient, read

_METHOD = "closed form, Mills ratios"
_BLOCK = 1 << 14  # a block's temporaries stay in the processor's cache


def _blocks(function: Callable[..., tuple[FloatArray, ...]], *parts: FloatArray) -> tuple[FloatArray, ...]:
    """The function on flat blocks of its broadcast arguments, its results put together again."""
    wide = np.broadcast_arrays(*parts)
    flat = [np.asarray(part, dtype=np.float64).ravel() for part in wide]
    if flat[0].size == 0:
        return tuple(np.zeros(wide[0].shape) for _ in function(*(np.ones(1) for _ in flat)))
    pieces = [function(*(part[i : i + _BLOCK] for part in flat)) for i in range(0, flat[0].size, _BLOCK)]
    return tuple(np.concatenate(column).reshape(wide[0].shape) for column in zip(*pieces, strict=True))


def _mu(mu: Argument) -> Twofold:
    pair = read(mu=mu)
    if np.any(pair[0] < 0):
        raise ParameterError("mu", mu, "must not be negative")
    return pair


def delta_of(mu: Argument, epsilon: Argument) -> Interval[FloatArray]:
    """The least delta with which a mu-GDP mechanism is (epsilon, delta)-DP: both ends of a certified interval.

    mu >= 0 and epsilon of any sign, broadcast. Relative width below 1e-11 down to delta = 1e-300.

    >>> d = delta_of(mu=1, epsilon=1)
    >>> bool(d.lower <= 0.12693673750664395 <= d.upper)
    True
    """
    return delta_of_twofold(_mu(mu), read(epsilon=epsilon))


def delta_of_twofold(mu: Twofold, epsilon: Twofold) -> Interval[FloatArray]:
    """`delta_of` for arguments that are pairs hi + lo already."""
    lower, upper = _blocks(_delta_block, *mu, *epsilon)
    return clipped(lower, upper, _METHOD)


def _delta_block(
    m_high: FloatArray, m_low: FloatArray, e_high: FloatArray, e_low: FloatArray
) -> tuple[FloatArray, FloatArray]:
    value, error = plain_delta((m_high, m_low), (e_high, e_low))
    room = value * error + 1e-322
    lower, upper = value - room, value + room
    rest = np.isnan(value)
    if rest.any():
        lower[rest], upper[rest] = _special_delta(m_high[rest], m_low[rest], e_high[rest], e_low[rest])
    return lower, upper


def _special_delta(
    m_high: FloatArray, m_low: FloatArray, e_high: FloatArray, e_low: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Small mu, negative epsilon, delta near 1: by whichever of delta and 1 - delta is the smaller."""
    still = m_high <= 0
    profile = gaussian_profile((np.where(still, 1.0, m_high), m_low), (e_high, e_low))
    small = profile.log_delta < -0.7
    with np.errstate(under="ignore"):
        value = np.exp(np.where(small, profile.log_delta, profile.log_rest))
    room = value * np.where(small, profile.error, profile.rest_error) + 1e-323
    lower = np.where(small, value - room, 1 - value - room - UNIT)
    upper = np.where(small, value + room, 1 - value + room + UNIT)
    # mu = 0: two equal laws
    nothing = -np.expm1(np.minimum(e_high, 0.0))
    return np.where(still, nothing * (1 - 4 * UNIT), lower), np.where(still, nothing * (1 + 4 * UNIT), upper)


def log_delta_of(mu: Argument, epsilon: Argument) -> Interval[FloatArray]:
    """The logarithm ln delta(epsilon), for deltas far below the range of floats; mu > 0.

    >>> bool(-4e4 < log_delta_of(mu="0.01", epsilon="2.8").upper < -3.9e4)
    True
    """
    pair, wanted = _mu(mu), read(epsilon=epsilon)
    if np.any(pair[0] <= 0):
        raise ParameterError("mu", mu, "must be positive", remedy="two equal laws have delta=0, and no logarithm")
    lower, upper = _blocks(_log_delta_block, *pair, *wanted)
    return certified(lower, upper, _METHOD)


def _log_delta_block(
    m_high: FloatArray, m_low: FloatArray, e_high: FloatArray, e_low: FloatArray
) -> tuple[FloatArray, FloatArray]:
    value, error = plain_log_delta((m_high, m_low), (e_high, e_low))
    rest = np.isnan(value)
    if rest.any():
        profile = gaussian_profile((m_high[rest], m_low[rest]), (e_high[rest], e_low[rest]))
        value[rest], error[rest] = profile.log_delta, profile.error
    room = error * 1.01 + 4 * UNIT * np.abs(value)
    return value - room, np.minimum(value + room, 0.0)


def _gap(profile: GaussianProfile, log_delta: FloatArray, log_rest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The logarithm of delta over its target, or of their complements where those are smaller; and its error."""
    small = log_delta < -0.7
    value = np.where(small, profile.log_delta - log_delta, log_rest - profile.log_rest)
    error = np.where(
        small,
        profile.error + 4 * UNIT * (2 + np.abs(log_delta)),
        profile.rest_error + 4 * UNIT * (2 + np.abs(log_rest)),
    )
    return value, error


def found(
    quick: Callable[..., tuple[FloatArray, ...]], slow: Callable[..., tuple[FloatArray, ...]], *parts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The ends of roots by the quick way; by the slower one where those are not numbers."""
    lower, upper = _blocks(quick, *parts)
    at = np.isnan(lower)
    if at.any():
        lower[at], upper[at] = _blocks(slow, *(np.broadcast_to(part, lower.shape)[at] for part in parts))
    return lower, upper


def _epsilon_block(
    m_high: FloatArray, m_low: FloatArray, delta: FloatArray, rest: FloatArray
) -> tuple[FloatArray, ...]:
    return epsilon_roots(m_high, m_low if m_low.any() else np.zeros(1), delta, rest)


def _searched_epsilon(
    m_high: FloatArray, m_low: FloatArray, delta: FloatArray, rest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    with np.errstate(divide="ignore"):
        log_delta, log_rest = np.log(delta), np.log(np.where(rest > 0.5, 1.0, rest))
    log_rest = np.where(rest > 0.5, np.log1p(-np.minimum(delta, 0.6)), log_rest)

    def residual(epsilon: FloatArray, at: Places) -> tuple[FloatArray, FloatArray, FloatArray]:
        profile = gaussian_profile((m_high[at], m_low[at]), (epsilon, np.zeros_like(epsilon)))
        value, error = _gap(profile, log_delta[at], log_rest[at])
        with np.errstate(over="ignore"):
            small = np.where(log_delta[at] < -0.7, profile.log_delta, profile.log_rest)
            return value, -np.exp(np.minimum(profile.log_slope - small, 700.0)), error

    low = log_rest - 1e-12 - 1e-12 * np.abs(log_rest)
    high = 0.5 * m_high**2 + m_high * np.sqrt(-2 * log_delta) + 1e-9 * (1 + m_high**2)
    return decreasing_root(residual, low, high)


def epsilon_of(mu: Argument, delta: Argument) -> Interval[FloatArray]:
    """The least epsilon, of any sign, with which a mu-GDP mechanism is (epsilon, delta)-DP; `upper` is the safe side.

    mu >= 0, delta in [0, 1], broadcast. -inf where delta = 1, +inf where delta = 0 < mu; below zero where
    delta > delta(0): never clamped.

    >>> e = epsilon_of(mu=1, delta="1e-5")
    >>> bool(e.lower <= 4.3771780956812246 <= e.upper), bool(e.width < 1e-11)
    (True, True)
    """
    mu_high, mu_low, level, rest = np.broadcast_arrays(*_mu(mu), *levels(delta=delta))
    inner = (mu_high > 0) & (level > 0) & (rest > 0)
    if inner.all():
        lower, upper = found(_epsilon_block, _searched_epsilon, mu_high, mu_low, level, rest)
        return certified(lower, upper, "signs of delta")
    parts = (np.where(inner, mu_high, 1.0), mu_low, np.where(inner, level, 0.5), np.where(inner, rest, 0.5))
    lower, upper = found(_epsilon_block, _searched_epsilon, *parts)
    with np.errstate(divide="ignore"):
        equal = np.where(level > 0.5, np.log(rest), np.log1p(-np.minimum(level, 0.6)))
    edge = np.where(rest <= 0, -np.inf, np.where(mu_high > 0, np.inf, equal))
    slack = np.where(np.isfinite(edge), 4 * UNIT * np.abs(np.where(np.isfinite(edge), edge, 0.0)), 0.0)
    return certified(np.where(inner, lower, edge - slack), np.where(inner, upper, edge + slack), "signs of delta")


def _mu_block(e_high: FloatArray, e_low: FloatArray, delta: FloatArray, rest: FloatArray) -> tuple[FloatArray, ...]:
    del e_low  # within one rounding of e_high
    level, other, doubt = delta, rest, np.zeros(1)
    below = e_high < 0
    if below.any():
        # 1 - delta(epsilon) = e^epsilon (1 - delta(-epsilon)), known to 5 + |epsilon| roundings of a number below 1
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            other = np.where(below, rest * np.exp(np.abs(e_high)), rest)
            level = np.where(below, 1 - other, delta)
            doubt = np.where(below, (16 - 2 * e_high) * UNIT / np.minimum(level, other), 0.0)
    return mu_roots(np.abs(e_high), level, other, doubt)


def _searched_mu(
    e_high: FloatArray, e_low: FloatArray, delta: FloatArray, rest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    with np.errstate(divide="ignore"):
        log_delta, log_rest = np.log(delta), np.log(np.where(rest > 0.5, 1.0, rest))
    log_rest = np.where(rest > 0.5, np.log1p(-np.minimum(delta, 0.6)), log_rest)

    def residual(nu: FloatArray, at: Places) -> tuple[FloatArray, FloatArray, FloatArray]:
        # nu = -ln mu turns an increasing function of mu into a decreasing one of nu, even in scale
        mu = np.exp(-nu)
        profile = gaussian_profile((mu, np.zeros_like(mu)), (e_high[at], e_low[at]))
        value, error = _gap(profile, log_delta[at], log_rest[at])
        with np.errstate(over="ignore"):
            small = np.where(log_delta[at] < -0.7, profile.log_delta, profile.log_rest)
            slope = np.exp(np.minimum(profile.log_density - small, 700.0)) * mu
        return value, -slope, error + 4 * UNIT * (1 + np.abs(nu)) * slope

    # delta <= exp(-a^2/2)/2 below, and mu large enough that delta > target above; at a negative epsilon the excess of
    # delta over 1 - e^epsilon plays the part of delta, and is no smaller than 1e-300
    distance = np.sqrt(np.maximum(-2 * log_delta, 0.0))
    size = np.abs(e_high)
    reach = np.where(e_high > 0, distance, 40.0)
    least = 2 * size / (reach + np.sqrt(reach**2 + 2 * size) + 1e-300)
    least = np.maximum(0.9 * least, 1e-300)
    most = 2 * (np.sqrt(-2 * np.minimum(log_rest, -1e-300)) + 40 + distance + np.sqrt(2 * size))
    nu_low, nu_high = decreasing_root(residual, -np.log(most), -np.log(least))
    return np.exp(-nu_high) * (1 - 8 * UNIT), np.exp(-nu_low) * (1 + 8 * UNIT)


def mu_of(epsilon: Argument, delta: Argument) -> Interval[FloatArray]:
    """The largest mu whose mechanisms are all (epsilon, delta)-DP; `lower` is the safe side.

    epsilon of any sign, delta in (0, 1), broadcast. Refused where even equal laws need more: delta < 1 - e^epsilon.

    >>> m = mu_of(epsilon=1, delta="1e-5")
    >>> bool(m.lower <= 0.26805112321129422 <= m.upper)
    True
    """
    e_high, e_low, level, rest = np.broadcast_arrays(*read(epsilon=epsilon), *levels(delta=delta))
    if np.any(level <= 0) or np.any(rest <= 0):
        raise ParameterError("delta", delta, "must lie strictly between 0 and 1")
    if np.any(level < -np.expm1(np.minimum(e_high, 0.0)) * (1 + 1e-12)) and np.any(e_high < 0):
        raise ParameterError("delta", delta, "must exceed 1 - exp(epsilon): below it even equal laws fail")
    lower, upper = found(_mu_block, _searched_mu, e_high, e_low, level, rest)
    return certified(lower, upper, "signs of delta")


def sigma_of(epsilon: Argument, delta: Argument, sensitivity: Argument = 1) -> Interval[FloatArray]:
    """The least standard deviation of Gaussian noise that is (epsilon, delta)-DP; `upper` is the safe side.

    sensitivity: the most that one unit moves the answer in the L2 norm, in the answer's units, as is sigma. The
    analytic Gaussian mechanism (Balle, Wang 2018), certified on the logarithm of delta, so that tiny deltas hold too.

    >>> s = sigma_of(epsilon=1, delta="1e-5")
    >>> bool(s.lower <= 3.7306316348159418 <= s.upper)
    True
    """
    return _sigma(mu_of(epsilon, delta), sensitivity)


def sigma_of_mu(mu: Argument, sensitivity: Argument = 1) -> Interval[FloatArray]:
    """The standard deviation sensitivity/mu that makes the Gaussian mechanism exactly mu-GDP; `upper` is safe."""
    pair = _mu(mu)
    if np.any(pair[0] <= 0):
        raise ParameterError("mu", mu, "must be positive", remedy="no finite noise gives mu=0")
    value = quotient(_sensitivity(sensitivity), pair)[0]
    return certified(value, value, "sensitivity / mu").outward()


def _sensitivity(sensitivity: Argument) -> Twofold:
    moved = read(sensitivity=sensitivity)
    if np.any(moved[0] <= 0):
        raise ParameterError("sensitivity", sensitivity, "must be positive")
    return moved


def _sigma(mu: Interval[FloatArray], sensitivity: Argument) -> Interval[FloatArray]:
    moved = _sensitivity(sensitivity)[0]
    lower, upper = moved / mu.upper, moved / mu.lower
    return certified(lower * (1 - 4 * UNIT), upper * (1 + 4 * UNIT), mu.method)


def mu_of_advantage(advantage: Argument) -> Interval[FloatArray]:
    """The mu whose attacker's advantage, TPR - FPR at best, is the given number in [0, 1): 2 Phi^-1((1 + adv)/2).

    >>> m = mu_of_advantage("0.68268949213708590")
    >>> bool(m.lower < 2.0000001 and m.upper > 1.9999999)
    True
    """
    level, rest = levels(advantage=advantage)
    if np.any(rest <= 0):
        raise ParameterError("advantage", advantage, "must be below 1")
    near = np.sqrt(np.pi * 2) * level  # the quantile's first term, where (1 + advantage)/2 loses digits
    value = np.where(level < 1e-8, near, -2 * quantile(0.5 * rest, 1 - 0.5 * rest))
    room = 40 * UNIT * (value + np.minimum(1.0, 1e-8 / np.maximum(value, 1e-300)) * value)
    room = room + np.where(level >= 1e-8, 8 * UNIT, 0.0)
    return certified(np.maximum(value - room, 0.0), value + room, "normal quantile")
