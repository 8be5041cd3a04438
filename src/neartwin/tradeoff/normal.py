"""The normal law with relative accuracy in both tails, and delta(epsilon) of two unit normals mu apart.

Symbols: phi density, Phi distribution function, R(x) = Phi(-x)/phi(x) Mills' ratio, a = epsilon/mu - mu/2 and
b = epsilon/mu + mu/2. Because e^epsilon phi(b) = phi(a),

    delta(epsilon) = Phi(-a) - e^epsilon Phi(-b) = phi(a) (R(a) - R(b)),      1 - delta = Phi(a) + phi(a) R(b),

and R(a) - R(b) is the integral of 1 - xR(x) over [a, b], a sum of positive terms: nothing cancels and nothing
underflows before its logarithm is taken. SciPy's erfc, erfcx and ndtri carry no proof; `ROOM` allows each of them 16
units in the last place, about eight times the worst error that the tests find against 60-digit arithmetic.
"""

from dataclasses import dataclass

import numpy as np

from neartwin import special
from neartwin.exact import FloatArray
from neartwin.tradeoff.twofold import TINY, UNIT, Twofold, plus, quotient, times, two_product

ROOM = 16 * UNIT
LOG_ROOT_TAU = 0.9189385332046727  # ln sqrt(2 pi)
_ROOT_HALF = np.sqrt(0.5)
_ROOT_HALF_PI = 1.2533141373155003


def mills(x: FloatArray) -> FloatArray:
    """R(x) = Phi(-x)/phi(x); relative error within `ROOM` for x above -1."""
    return np.asarray(_ROOT_HALF_PI * special.erfcx(x * _ROOT_HALF))


def log_density(x: Twofold) -> FloatArray:
    """The logarithm ln phi(x), its argument exact to twofold precision; relative error a few units."""
    far = np.clip(x[0], -1e140, 1e140)
    square, rest = two_product(far, far)
    low = np.where(np.abs(x[0]) < 1e140, x[1], 0.0)
    return np.asarray(-0.5 * square - 0.5 * (rest + 2 * far * low) - LOG_ROOT_TAU)


def density(x: Twofold) -> FloatArray:
    """phi(x), the exponent carried in two floats; |x| up to 1e4, where it has long been 0."""
    square, rest = two_product(x[0], x[0])
    return np.asarray(np.exp(-0.5 * square) * (1 - 0.5 * (rest + 2 * x[0] * x[1])) * 0.3989422804014327)


def cdf(x: FloatArray) -> FloatArray:
    """Phi(x) with relative error within `ROOM` in both tails, for the float x as it stands."""
    x = np.clip(np.asarray(x, dtype=np.float64), -1e4, 1e4)
    below = np.minimum(x, 0.0)
    tail = density((below, np.zeros_like(x))) * mills(-below)
    return np.where(x < 0, tail, 0.5 * special.erfc(-np.maximum(x, 0.0) * _ROOT_HALF))


def quantile(alpha: FloatArray, rest: FloatArray) -> FloatArray:
    """Phi^-1(alpha), where rest = 1 - alpha is given as well: exact in the upper tail too."""
    with np.errstate(divide="ignore"):
        lower_half = special.ndtri(np.minimum(np.minimum(alpha, rest), 0.5))
        return np.where(alpha <= 0.5, lower_half, -lower_half)


@dataclass(frozen=True, slots=True)
class GaussianProfile:
    """delta at epsilon for unit normals mu apart, with what a solver needs.

    log_delta, log_rest: ln delta and ln(1 - delta). slope: e^epsilon Phi(-b) = -d delta/d epsilon.
    density: phi(a) = d delta/d mu. error, rest_error: bounds on the relative errors of delta and 1 - delta.
    """

    log_delta: FloatArray
    log_rest: FloatArray
    log_slope: FloatArray
    log_density: FloatArray
    error: FloatArray
    rest_error: FloatArray

    @property
    def delta(self) -> FloatArray:
        """The value itself, from whichever logarithm is the more accurate."""
        with np.errstate(under="ignore"):
            small = np.exp(self.log_delta)
            return np.where(small < 0.5, small, -np.expm1(self.log_rest))


def _gap(a: FloatArray, b: FloatArray, middle: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R(a) - R(b) for a above -1.5, and a bound on its relative error."""
    first = mills(a)
    gap = first - mills(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = 2 * ROOM * (1 + 2 * first / gap)
    narrow = np.flatnonzero((mu <= 0.5) & (middle >= 0) & ((mu * (middle + 2) <= 0.6) | (middle >= 6)))
    if narrow.size:
        m, half = middle[narrow], 0.5 * mu[narrow]
        far = m >= 6
        mean = np.empty_like(m)
        mean[far], mean[~far] = _mean_far(m[far], half[far]), _mean_near(m[~far], half[~far])
        gap[narrow] = 2 * half * mean
        error[narrow] = 80 * ROOM
    return gap, error


def _mean_near(m: FloatArray, half: FloatArray) -> FloatArray:
    """The mean of -R' over [m - half, m + half] by Taylor, for 0 <= m < 6 and half (m + 2) <= 0.3; absolute error 24 u.

    R' = xR - 1 and R^(n+1) = xR^(n) + nR^(n-1); seven terms leave less than u, for |R^(2k+1)| <= 2^k k! |R'|.
    """
    orders = [mills(m)]
    orders.append(m * orders[0] - 1)
    for n in range(1, 13):
        orders.append(m * orders[n] + n * orders[n - 1])
    square, total = half * half, orders[13]
    for n in (11, 9, 7, 5, 3, 1):
        total = orders[n] + square * total / ((n + 1) * (n + 2))
    return -total


def _mean_far(m: FloatArray, half: FloatArray) -> FloatArray:
    """The same for m >= 6 and half <= 0.25, to a few units: with c_n = |R^(n)|/n!, c_(n-1)/c_n = D_n = x + (n+1)/D_(n+1).

    That is Laplace's continued fraction R = 1/(x + 1/D_1); six terms leave less than u, for c_(n+1) <= c_n / m.
    """
    fraction = m
    links = {}
    for n in range(24, 0, -1):
        fraction = m + (n + 1) / fraction
        if n <= 11:
            links[n] = fraction
    square, total = half * half, np.ones_like(m)
    for n in (9, 7, 5, 3, 1):
        total = 1 + square * total / (links[n + 1] * links[n + 2])
    return total / (links[1] * (m + 1 / links[1]))


def _plain(mu: Twofold, epsilon: Twofold) -> tuple[Twofold, FloatArray, FloatArray]:
    """The number a, R(a) - R(b), not a number where something special happens, and its relative error."""
    middle, half = quotient(epsilon, mu), times(mu, 0.5)
    a, b = plus(middle, times(half, -1.0)), middle[0] + half[0]
    usual = (mu[0] > 1e-100) & (epsilon[0] >= 0) & (a[0] >= -1) & (a[0] < 1e4)
    gap, error = _gap(a[0], b, middle[0], mu[0])
    return a, np.where(usual, gap, np.nan), error


def plain_delta(mu: Twofold, epsilon: Twofold) -> tuple[FloatArray, FloatArray]:
    """Delta and its relative error where nothing special happens: epsilon >= 0, mu > 0, a >= -1; else not a number.

    phi(a) (R(a) - R(b)) with three calls of special functions an element; most of a large array ends here.
    """
    with np.errstate(under="ignore", over="ignore", invalid="ignore", divide="ignore"):
        a, gap, error = _plain(mu, epsilon)
        return density(a) * gap, error + 2 * ROOM


def plain_log_delta(mu: Twofold, epsilon: Twofold) -> tuple[FloatArray, FloatArray]:
    """The logarithm of delta in the same places, and its absolute error."""
    with np.errstate(under="ignore", over="ignore", invalid="ignore", divide="ignore"):
        a, gap, error = _plain(mu, epsilon)
        value = log_density(a) + np.log(gap)
        return value, error + ROOM + ROOM * 0.25 * np.abs(value)


def _from_zero_up(mu: Twofold, epsilon: Twofold) -> GaussianProfile:
    """The profile for epsilon >= 0 and mu > 0, one-dimensional arrays."""
    middle = quotient(epsilon, mu)
    half = times(mu, 0.5)
    a, b = plus(middle, times(half, -1.0)), plus(middle, half)
    log_phi = log_density(a)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        gap, gap_error = _gap(np.maximum(a[0], -1.5), b[0], middle[0], mu[0])
        log_slope = log_phi + np.log(mills(b[0]))
        slope, below = np.exp(log_slope), a[0] < -1
        log_delta = np.where(below, np.log(np.maximum(cdf(-a[0]) - slope, TINY)), log_phi + np.log(gap))
        # 1 - delta = Phi(a) + phi(a) R(b): in logarithms where a is far below, else directly
        log_rest = np.where(
            below,
            log_phi + np.log(mills(np.maximum(-a[0], 0.0)) + mills(b[0])),
            np.log(cdf(np.maximum(a[0], -1.5)) + slope),
        )
        log_rest = np.where(a[0] > 3, np.log1p(-np.exp(log_delta)), log_rest)
    error = np.where(below, 2 * ROOM, gap_error) + ROOM * 0.25 * np.abs(log_delta) + ROOM
    return GaussianProfile(log_delta, log_rest, log_slope, log_phi, error, 2 * ROOM + ROOM * 0.25 * np.abs(log_rest))


def gaussian_profile(mu: Twofold, epsilon: Twofold) -> GaussianProfile:
    """The profile at mu > 0 and every real epsilon; arrays are broadcast together.

    Below zero by delta(epsilon) = 1 - e^epsilon (1 - delta(-epsilon)), which has no cancellation.
    """
    parts = np.broadcast_arrays(*mu, *epsilon)
    shape = parts[0].shape
    m_high, m_low, e_high, e_low = (np.asarray(part, dtype=np.float64).ravel() for part in parts)
    sign = np.where(e_high < 0, -1.0, 1.0)
    up = _from_zero_up((m_high, m_low), (sign * e_high, sign * e_low))
    negative = sign < 0
    with np.errstate(divide="ignore", under="ignore", over="ignore"):
        log_rest = np.where(negative, e_high + up.log_rest, up.log_rest)
        shifted = -np.expm1(np.minimum(e_high, 0.0)) + np.exp(np.minimum(e_high, 0.0) + up.log_delta)
        log_delta = np.where(negative, np.log(np.maximum(shifted, TINY)), up.log_delta)
        # e^epsilon Phi(-b) for negative epsilon is Phi(a') with a' the a of -epsilon
        log_phi_b = np.where(negative, e_high + up.log_density, up.log_density)
        mirrored = e_high + np.log(np.maximum(np.exp(up.log_rest) - np.exp(up.log_slope), TINY))
        log_slope = np.where(negative, mirrored, up.log_slope)
    rest_error = np.where(negative, up.rest_error + ROOM * (1 + np.abs(e_high)), up.rest_error)
    # below zero delta(-epsilon) enters only with its share
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
        share = np.exp(np.minimum(e_high, 0.0) + up.log_delta) / np.maximum(shifted, TINY)
    error = np.where(negative, np.minimum(up.error, 1e3) * share + 4 * ROOM, up.error)
    fields = (log_delta, log_rest, log_slope, log_phi_b, error, rest_error)
    return GaussianProfile(*(field.reshape(shape) for field in fields))
