"""Where the profile of two unit normals takes a given value: epsilon(delta) at mu, and mu(delta) at epsilon.

With m = epsilon/mu, a = m - mu/2, b = m + mu/2 and Mills' ratio R(x) = Phi(-x)/phi(x),

    delta = phi(a) (R(a) - R(b)),      1 - delta = phi(a) (R(-a) + R(b)).

f below is the logarithm of whichever of the two is the smaller. Halley's method needs nothing but these two ratios, and
so does the proof that it has arrived:

Lemma. Let |(ln |f'|)'| <= 1.1 k within 1/(100 k) of x, let |f(x) - target| be known to `error`, d = -(f - target)/f'
and D = |d| + error/|f'| <= 1/(110 k). Then f takes the target once there, within 1.01 error/|f'| + 1.2 k D^2 of x + d.
Proof. f(x + y) = f(x) + y f'(x) (1 + t) with |t| <= e^(1.1 k |y|) - 1 <= 1.12 k |y| < 0.012, so that f - target has
different signs at y = -1.02 D and 1.02 D. At its root |y - y0| <= |t y| <= 1.17 k D^2 for the y0 = -(f(x) - target)/f'
of exact values, and |y0 - d| <= error/|f'|. The error of the computed f' moves d by less than (error + 1e-13) |d|. QED

The identities behind k. In m, at a fixed mu: f' = -mu R(b)/(R(a) - R(b)) or mu R(b)/(R(-a) + R(b)), and
(ln |f'|)' = mu - f' - 1/R(b); |f'| hardly moves where its logarithm does not, and 1/R changes by less than its
argument: k = mu + |f'| + 1/R(b) + 1. In mu, at a fixed epsilon: f' = 1/(R(a) - R(b)) or -1/(R(-a) + R(b)), and
(ln |f'|)' = ab/mu - f', where ab/mu = m^2/mu - mu/4: k = |f'| + (m^2 + 1)/mu + mu/4.

Rounding, u = 2^-53: a and b err by 3u of themselves, R is trusted to 16u (`TRUST`) and moves by less than 8u with its
argument, for arguments above -1; a^2/2 errs by 4u a^2; sums, logarithms and the target by less than
u (3 a^2 + 6 |target| + 24).

Every function returns not a number where it cannot prove its answer to about 12 digits: the caller has a slower way.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from neartwin.exact import FloatArray
from neartwin.special import erfc, erfcx

UNIT = 2.0**-53
TRUST = 16.0  # units that erfcx may err by; the tests measure it against 60 digits
_ROOT_HALF = np.sqrt(0.5)
_ROOT_HALF_PI = 1.2533141373155003
_LOG_ROOT_TAU = 0.9189385332046727
_ROUNDS = 6
_WIDTH = 2.5e-13  # the half width, relative, beyond which an answer is left to the slower way

_LOSS = (TRUST + 8) * UNIT  # relative error of one Mills ratio, that of its argument included
_ROUGH = (-714.195581, 1418.1138, -976.000331, 205.448127, 10.0547655, 18.9487276, 7.99134562, 2.99957832, 1.00000351)

Ends = tuple[FloatArray, FloatArray]
Ratio = Callable[[FloatArray], FloatArray]
Places = NDArray[np.intp]
Chosen = NDArray[np.bool_]
# f - target, f', (ln |f'|)', k, error of f - target
Reading = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


def mills(x: FloatArray) -> FloatArray:
    """R(x) = Phi(-x)/phi(x); relative error within `TRUST` units for x above -1."""
    return np.asarray(_ROOT_HALF_PI * erfcx(x * _ROOT_HALF))


def rough_mills(x: FloatArray) -> FloatArray:
    """R(x) within 4e-6 of itself for x above -1: a polynomial in 1/(x + 3), a third of the work; for first steps only."""
    t = 1 / (x + 3)
    total = _ROUGH[0] * t
    for coefficient in _ROUGH[1:]:
        total += coefficient
        total *= t
    return total


def epsilon_roots(mu: FloatArray, mu_low: FloatArray, delta: FloatArray, rest: FloatArray) -> tuple[FloatArray, ...]:
    """Both ends of the epsilon at which normals mu + mu_low apart have this delta; NaN where it is not proven.

    mu > 0; delta and rest = 1 - delta in (0, 1), each within one rounding; one-dimensional, of one size or of size 1.
    """
    with np.errstate(all="ignore"):
        parts = (mu, mu_low, delta, rest)
        middle = erfc(mu * (0.5 * _ROOT_HALF))  # 1 - delta at epsilon = 0
        negative = rest < middle
        right = ~negative & (delta <= 0.5)
        left = ~negative & ~right
        return _joined(((right, _epsilon_of_delta), (left, _epsilon_of_rest), (negative, _negative_epsilon)), *parts)


def _epsilon_of_delta(mu: FloatArray, mu_low: FloatArray, delta: FloatArray, rest: FloatArray) -> Ends:
    del rest
    target = np.log(delta)
    z = _upper_quantile(target)
    start = _upper_quantile(target - np.log(1 - _ratio(z, z + mu))) + 0.5 * mu
    narrow = mu * (np.abs(start) + 2) <= 0.25
    parts = (start, mu, mu_low, *_goal(target, delta))
    return _joined(((narrow, _by(_reading_narrow)), (~narrow, _by(_reading_delta))), *parts)


def _by(reading: Callable[..., Reading]) -> Callable[..., Ends]:
    def ends(start: FloatArray, mu: FloatArray, *parts: FloatArray) -> Ends:
        return _times(mu, *_polished(reading, start, 1.0, mu, *parts))

    return ends


def _epsilon_of_rest(mu: FloatArray, mu_low: FloatArray, delta: FloatArray, rest: FloatArray) -> Ends:
    del delta
    target = np.log(rest)
    z = _upper_quantile(target)
    start = 0.5 * mu - _upper_quantile(target - np.log1p(np.minimum(_ratio(z, mu - z), 1.0)))
    return _by(_reading_rest)(start, mu, mu_low, *_goal(target, rest))


def _negative_epsilon(mu: FloatArray, mu_low: FloatArray, delta: FloatArray, rest: FloatArray) -> Ends:
    target = np.where(rest > 0.5, np.log1p(-np.minimum(delta, 0.6)), np.log(rest))
    # f is concave in m: it lies above ln rest = epsilon, and below its tangent at 0
    start = np.maximum(target, 2 * (target - np.log(erfc(mu * (0.5 * _ROOT_HALF))))) / mu
    narrow = mu * (np.abs(start) + 2) <= 0.25
    above = ~narrow & (start > -0.5 * mu)  # b > 0
    wide = ~narrow & ~above
    works = ((narrow, _by(_reading_mirrored_narrow)), (above, _by(_reading_rest)), (wide, _by(_reading_mirrored)))
    return _joined(works, start, mu, mu_low, *_goal(target, rest))


def mu_roots(epsilon: FloatArray, delta: FloatArray, rest: FloatArray, doubt: FloatArray) -> Ends:
    """Both ends of the mu at which unit normals have this delta at this epsilon >= 0; NaN where it is not proven.

    delta and rest = 1 - delta in (0, 1); doubt: a bound on their relative errors. One-dimensional, of one size or 1.
    """
    with np.errstate(all="ignore"):
        small = delta <= 0.5
        return _joined(((small, _mu_of_delta), (~small, _mu_of_rest)), epsilon, delta, rest, doubt)


def _mu_of_delta(epsilon: FloatArray, delta: FloatArray, rest: FloatArray, doubt: FloatArray) -> Ends:
    del rest
    target = np.log(delta)
    least = delta * (2.5066282746310002 + 1.3 * delta * delta)  # at epsilon = 0
    guess = _mu_at(_upper_quantile(target), epsilon) + least
    ratio = _ratio(epsilon / guess - 0.5 * guess, epsilon / guess + 0.5 * guess)
    corrected = target - np.log(1 - ratio)
    start = np.where(corrected < -0.9, np.maximum(_mu_at(_upper_quantile(corrected), epsilon), least), guess)
    narrow = epsilon + 2 * start <= 0.25
    parts = (start, epsilon, *_goal(target, delta, doubt))
    return _joined(((narrow, _mu_by(_reading_mu_narrow)), (~narrow, _mu_by(_reading_mu))), *parts)


def _mu_by(reading: Callable[..., Reading]) -> Callable[..., Ends]:
    def ends(start: FloatArray, *parts: FloatArray) -> Ends:
        centre, radius = _polished(reading, start, 0.0, *parts)
        return centre - radius, centre + radius

    return ends


def _mu_of_rest(epsilon: FloatArray, delta: FloatArray, rest: FloatArray, doubt: FloatArray) -> Ends:
    del delta
    target = np.log(rest)
    guess = _mu_at(-_upper_quantile(target), epsilon)
    ratio = _ratio(0.5 * guess - epsilon / guess, epsilon / guess + 0.5 * guess)
    start = _mu_at(-_upper_quantile(target - np.log1p(ratio)), epsilon)
    return _mu_by(_reading_mu_rest)(start, epsilon, *_goal(target, rest, doubt))


def _mu_at(a: FloatArray, epsilon: FloatArray) -> FloatArray:
    """The mu with epsilon/mu - mu/2 = a."""
    root, size = np.sqrt(a * a + 2 * epsilon), np.abs(a)
    if np.all(a <= 0):
        return np.asarray(root + size)
    return np.where(a > 0, 2 * epsilon / (size + root), root + size)


def _reading_delta(m: FloatArray, ratio: Ratio, mu: FloatArray, mu_low: FloatArray, *goal: FloatArray) -> Reading:
    a, b = (m - 0.5 * mu) - 0.5 * mu_low, (m + 0.5 * mu) + 0.5 * mu_low
    one, two = ratio(a), ratio(b)
    gap, square = one - two, a * a
    value = np.log(gap) - 0.5 * square - goal[0]
    share, hazard = two / gap, 1 / two
    slope = -mu * share
    bend = mu - slope - hazard
    error = (7 * UNIT) * square + (2 * _LOSS) * share + goal[1]  # (one + two)/gap = 1 + 2 share, the 1 in goal
    return value, slope, bend, bend + 2 * hazard + 1, _above(a, error)


def _narrow(m: FloatArray, mu: FloatArray, ratio: Ratio) -> Ends:
    """The mean of 1 - xR(x) over [a, b], which is (R(a) - R(b))/mu, and R(b): Taylor about the middle m.

    The derivatives of R follow from R' = xR - 1 by R^(n+1) = xR^(n) + nR^(n-1), and |R^(n)| is the n-th moment of
    e^(-xt - t^2/2): |R^(2k+1)| <= 2^k k! |R'| for x >= 0, twice that for x >= -1/8. With mu (m + 2) <= 0.3 five terms of
    each series leave a relative 3e-16, and the errors of R reach the mean by 1.2 m R(m) < 1.2 times: 24 u in all.
    """
    h = (0.5 * mu) ** 2
    one = ratio(m)
    orders = [one, m * one - 1]
    for n in range(1, 9):
        orders.append(m * orders[n] + n * orders[n - 1])
    even, odd = orders[8], orders[9]
    for n in (6, 4, 2, 0):
        even = orders[n] + h * even / ((n + 1) * (n + 2))
        odd = orders[n + 1] + h * odd / ((n + 2) * (n + 3))
    return -odd, even + 0.5 * mu * odd


def _reading_narrow(m: FloatArray, ratio: Ratio, mu: FloatArray, mu_low: FloatArray, *goal: FloatArray) -> Reading:
    a = (m - 0.5 * mu) - 0.5 * mu_low
    mean, two = _narrow(m, mu, ratio)
    square = a * a
    value = np.log(mu * mean) - 0.5 * square - goal[0]
    slope, hazard = -two / mean, 1 / two
    bend = mu - slope - hazard
    error = (7 * UNIT) * square + (24 * UNIT) / mean + goal[1]
    return value, slope, bend, bend + 2 * hazard + 1, _within(m, mu, error)


def _within(m: FloatArray, mu: FloatArray, error: FloatArray) -> FloatArray:
    """No trust in the series where it was not proven."""
    return np.where((m >= -0.125) & (mu * (m + 2) <= 0.3), error, np.inf)


def _reading_rest(m: FloatArray, ratio: Ratio, mu: FloatArray, mu_low: FloatArray, *goal: FloatArray) -> Reading:
    left, b = (0.5 * mu - m) + 0.5 * mu_low, (m + 0.5 * mu) + 0.5 * mu_low
    one, two = ratio(left), ratio(b)
    both, square = one + two, left * left
    value = np.log(both) - 0.5 * square - goal[0]
    slope, hazard = mu * two / both, 1 / two
    bend = mu - slope - hazard
    error = (7 * UNIT) * square + goal[1]
    return value, slope, bend, mu + slope + hazard + 1, _above(np.minimum(left, b), error)


def _reading_mirrored(m: FloatArray, ratio: Ratio, mu: FloatArray, mu_low: FloatArray, *goal: FloatArray) -> Reading:
    """1 - delta(epsilon) = e^epsilon (1 - delta(-epsilon)), delta(-epsilon) = phi(b) (R(-b) - R(-a)); for b below 1."""
    far, near = (0.5 * mu - m) + 0.5 * mu_low, -((m + 0.5 * mu) + 0.5 * mu_low)
    one, two = ratio(far), ratio(near)
    square = near * near
    density = np.exp(-0.5 * square - _LOG_ROOT_TAU)
    away, tail = density * (two - one), 1 - density * two  # delta(-epsilon) and Phi(-b)
    left = 1 - away
    epsilon = m * mu
    value = epsilon + m * mu_low + np.log1p(-away) - (goal[0] - _LOG_ROOT_TAU)
    slope, hazard = mu * tail / left, density / tail
    lost = (_LOSS * density * (one + two) + UNIT * (7 * square + 10) * away) / left
    error = lost + 3 * UNIT * np.abs(epsilon) + goal[1]
    return value, slope, mu - slope - hazard, mu + slope + hazard + 1, _above(near, error)


def _reading_mirrored_narrow(
    m: FloatArray, ratio: Ratio, mu: FloatArray, mu_low: FloatArray, *goal: FloatArray
) -> Reading:
    near = -((m + 0.5 * mu) + 0.5 * mu_low)
    mean, one = _narrow(-m, mu, ratio)
    square = near * near
    density = np.exp(-0.5 * square - _LOG_ROOT_TAU)
    away = density * mu * mean
    left, two = 1 - away, one + mu * mean
    tail, epsilon = 1 - density * two, m * mu
    target = goal[0] - _LOG_ROOT_TAU
    value = (epsilon + m * mu_low + np.log1p(-away)) - target
    slope, hazard = mu * tail / left, density / tail
    # the target is known to four roundings of itself, since delta is known to one
    lost = 2 * density * mu * (24 + (7 * square + 12) * mean)
    error = (8 * np.abs(target) + 5 * np.abs(epsilon) + lost) * UNIT + 1e-30 * goal[1]
    return value, slope, mu - slope - hazard, mu + slope + hazard + 1, _within(-m, mu, error)


def _reading_mu_narrow(mu: FloatArray, ratio: Ratio, epsilon: FloatArray, *goal: FloatArray) -> Reading:
    m = epsilon / mu
    a, b = m - 0.5 * mu, m + 0.5 * mu
    mean, _ = _narrow(m, mu, ratio)
    slope, square = 1 / (mu * mean), a * a
    value = -np.log(slope) - 0.5 * square - goal[0]
    error = (7 * UNIT) * square + (32 * UNIT) / mean + goal[1]  # m is known to three roundings, m R(b) < 1.1
    return value, slope, a * b / mu - slope, slope + (m * m + 1) / mu + 0.25 * mu, _within(m, mu, error)


def _reading_mu(mu: FloatArray, ratio: Ratio, epsilon: FloatArray, *goal: FloatArray) -> Reading:
    m = epsilon / mu
    a, b = m - 0.5 * mu, m + 0.5 * mu
    one, two = ratio(a), ratio(b)
    slope, square = 1 / (one - two), a * a
    value = -np.log(slope) - 0.5 * square - goal[0]
    # epsilon is known to one rounding and m to two: what that moves is epsilon R(b)/gap for each
    error = (7 * UNIT) * square + (2 * _LOSS + (6 * UNIT) * epsilon) * two * slope + goal[1]
    return value, slope, a * b / mu - slope, slope + (m * m + 1) / mu + 0.25 * mu, _above(a, error)


def _reading_mu_rest(mu: FloatArray, ratio: Ratio, epsilon: FloatArray, *goal: FloatArray) -> Reading:
    m = epsilon / mu
    left, b = 0.5 * mu - m, m + 0.5 * mu
    one, two = ratio(left), ratio(b)
    size, square = 1 / (one + two), left * left
    value = -np.log(size) - 0.5 * square - goal[0]
    error = (7 * UNIT) * square + (6 * UNIT) * epsilon * two * size + goal[1]
    return value, -size, size - left * b / mu, size + (m * m + 1) / mu + 0.25 * mu, _above(left, error)


def _polished(reading: Callable[..., Reading], start: FloatArray, floor: float, *parts: FloatArray) -> Ends:
    """The root near each start, and a radius around it by the lemma; NaN where none is as small as `_WIDTH`."""
    centre, radius = np.full(start.size, np.nan), np.full(start.size, np.nan)
    value, slope, bend, _, _ = reading(start, rough_mills, *parts)
    x, places = _halley(start, -value / slope, bend), np.arange(start.size)
    for _ in range(_ROUNDS):
        value, slope, bend, k, error = reading(x, mills, *parts)
        step, steep = -value / slope, np.abs(slope)
        loss = 1.01 * (error / steep)
        reach = np.abs(step) + loss
        close = k * reach
        size = np.abs(x)
        bound = loss + reach * (1.2 * close + error + 1e-13) + (4 * UNIT) * size
        sure = (bound <= _WIDTH * (size + floor)) & (close + error <= 1 / 128)
        done, moving = np.flatnonzero(sure), np.flatnonzero(~sure)
        at = places.take(done)
        centre[at], radius[at] = (x + step).take(done), bound.take(done)
        if not moving.size:
            break
        x = _halley(x, step, bend)
        if done.size:
            x, places, parts = x.take(moving), places.take(moving), tuple(_taken(part, moving) for part in parts)
    return centre, radius


def _halley(x: FloatArray, step: FloatArray, bend: FloatArray) -> FloatArray:
    return np.asarray(x + step / np.maximum(1 + 0.5 * step * bend, 0.1))


def _joined(works: Sequence[tuple[Chosen, Callable[..., Ends]]], *parts: FloatArray) -> Ends:
    """Each place by the work that is chosen for it."""
    size = max(part.size for part in parts)
    lower, upper = np.empty(size), np.empty(size)
    for chosen, work in works:
        at = np.flatnonzero(chosen)
        if at.size == size:
            return work(*parts)
        if at.size:
            lower[at], upper[at] = work(*(_taken(part, at) for part in parts))
    return lower, upper


def _taken(part: FloatArray, at: Places) -> FloatArray:
    return part if part.size == 1 else part.take(at)


def _above(argument: FloatArray, error: FloatArray) -> FloatArray:
    """No trust in Mills' ratio below -1."""
    return np.where(argument >= -1, error, np.inf)


def _times(mu: FloatArray, centre: FloatArray, radius: FloatArray) -> Ends:
    """Both ends of mu (centre -+ radius), rounded outward; mu_low is within one rounding of mu."""
    middle, room = mu * centre, mu * radius
    room = room + (8 * UNIT) * (np.abs(middle) + room)
    return middle - room, middle + room


def _goal(target: FloatArray, level: FloatArray, doubt: FloatArray | float = 0.0) -> Ends:
    """The target with ln sqrt(2 pi) added, and the part of the error that does not change on the way to the root.

    A level below 1e-300 may be subnormal, known to less than one rounding: no trust.
    """
    return target + _LOG_ROOT_TAU, np.where(level > 1e-300, (48 - 6 * target) * UNIT + doubt, np.inf)


def _ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """R(b)/R(a) within a few percent, by Sampford's bound 4/(3x + sqrt(x^2 + 8)); for starts only."""
    return np.asarray((3 * a + np.sqrt(a * a + 8)) / (3 * b + np.sqrt(b * b + 8)))


def _upper_quantile(log_tail: FloatArray) -> FloatArray:
    """The z with ln Phi(-z) = log_tail within 5e-4, for tails below 0.8; Abramowitz and Stegun 26.2.23, for starts only."""
    t = np.sqrt(np.maximum(-2 * log_tail, 0.3))
    return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
