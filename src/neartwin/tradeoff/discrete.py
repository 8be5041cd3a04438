r"""The curves of integer noise: discrete Laplace and the staircase exactly, discrete Gaussian by its own delta.

Discrete Laplace with P(x) proportional to a^|x|, a = e^{-epsilon/D}: against its shift by D the loss takes the D + 1
values epsilon, epsilon (1 - 2/D), ..., -epsilon. At D = 1 the curve is f_{epsilon,0}: the worst of all epsilon-DP.

Staircase: P(x) is proportional to q^k, q = e^{-epsilon}, with k the number of m >= 0 with |x| >= mD + r, 1 <= r <= D (Geng,
Kairouz, Oh, Viswanath 2015). Against its shift by D, x <= 0 has loss epsilon and x >= D has -epsilon; 0 < x < D has steps
[x >= r] and [D - x >= r], so loss epsilon for x <= min(r - 1, D - r), 0 for D - 2r + 1 points of height q (where 2r <= D) or
2r - D - 1 points of height 1, and -epsilon for the rest. With H = (r + (D - r) q)/(1 - q) the sum of the heights of x >= 0, all
of them sum to W = 2H - 1, and P(epsilon) = (H + min(r - 1, D - r))/W. No smaller shift d says more: |x| and |x - d| are at most D
apart, so they differ by one step at most, the losses are -epsilon, 0 and epsilon again, and delta(t) = P_d(epsilon)
(1 - e^{t - epsilon}) for 0 <= t <= epsilon; P_d(epsilon) (1 - q) is the total variation of a symmetric unimodal law from its
shift by d, the mass of d points in a row about 0, which grows with d.
"""

import math

import numpy as np

from neartwin.checks import in_floats, integer, non_negative, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff.finite import FinitePair, from_masses
from neartwin.tradeoff.twofold import TINY, UNIT, Argument, certified, clipped, exponential, levels, read

_WIDEST = 10**9


def discrete_laplace(epsilon: Number, sensitivity: int = 1) -> FinitePair:
    """T of integer noise with odds e^{-epsilon/sensitivity} a step, against its shift by the whole sensitivity.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> flat, pure = discrete_laplace(1), epsilon_delta(1)
    >>> abs(flat.beta("0.2").lower - pure.beta("0.2").lower) < 1e-14
    True
    """
    exact = non_negative(epsilon=rational(epsilon=epsilon))
    steps = integer(at_least=1, sensitivity=sensitivity)
    if exact == 0:
        return from_masses(np.ones(1), np.ones(1), slack=0.0)
    rate = float(exact / steps)
    a, rest = float(np.exp(-rate)), float(-np.expm1(-rate))
    inner = np.exp(-rate * np.arange(1, steps)) * rest / (1 + a)
    whole, far = 1 / (1 + a), float(exponential(read(epsilon=-exact))) / (1 + a)
    P = np.maximum(np.concatenate(([whole], inner, [far])), TINY)  # below the range of floats, still not nothing
    return from_masses(P, P[::-1].copy(), slack=(32 + 8 * float(exact)) * UNIT)


def discrete_laplace_beta(epsilon: Number, alpha: Argument, sensitivity: int = 1) -> Interval[FloatArray]:
    """The least type II error at each type I error."""
    levels(alpha=alpha)
    return discrete_laplace(epsilon, sensitivity).beta(alpha)


def staircase_masses(epsilon: Number, sensitivity: int, step: int) -> tuple[float, float, float]:
    """P of the losses epsilon, 0 and -epsilon of staircase noise against its shift by the sensitivity.

    sensitivity: D, a whole number; step: r, 1 to D. Each with a relative error of at most (64 + 4 epsilon) 2^-53: q errs by
    epsilon 2^-53 for the rounding of epsilon and 2 for the function, 1 - q by 3, so H, a quotient of sums of positive numbers,
    by epsilon + 8, and 2H - 1 >= H by no more than twice that.

    >>> [round(mass, 6) for mass in staircase_masses(1, 5, 2)]
    [0.670073, 0.083422, 0.246506]
    """
    exact, distance = (
        positive(epsilon=rational(epsilon=epsilon)),
        in_floats(sensitivity=integer(at_least=1, sensitivity=sensitivity)),
    )
    upper = integer(at_least=1, step=step)
    if upper > distance:
        raise ParameterError("step", step, f"must be at most the sensitivity, {distance}")
    e = float(exact)
    q = math.exp(-e)
    half = (upper + (distance - upper) * q) / -math.expm1(-e)
    whole = 2 * half - 1
    shared = (distance - 2 * upper + 1) * q if 2 * upper <= distance else 2 * upper - distance - 1
    truth = (half + min(upper - 1, distance - upper)) / whole
    return truth, shared / whole, truth * q


def staircase(epsilon: Number, sensitivity: int, step: int) -> FinitePair:
    """T of staircase noise against its shift by the whole sensitivity, the worst of its shifts: two knees, or one.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> staircase(1, 100, 27).beta("0.27").lower > epsilon_delta(1).beta("0.27").upper
    True
    """
    truth, shared, lie = staircase_masses(epsilon, sensitivity, step)
    lie = max(lie, TINY)  # below the range of floats, and still not nothing
    slack = (128 + 8 * float(rational(epsilon=epsilon))) * UNIT
    return from_masses(np.array([lie, shared, truth]), np.array([truth, shared, lie]), slack=slack)


def discrete_gaussian_delta(sigma_squared: Number, epsilon: Argument, sensitivity: int = 1) -> Interval[FloatArray]:
    """delta(epsilon) of N_Z(0, sigma^2) against its shift by the sensitivity (Canonne, Kamath, Steinke 2020, Thm 7).

    epsilon of any sign. The sum of p(x) (1 - e^{epsilon - L(x)}) over the losses L(x) = (2 D x + D^2)/(2 sigma^2) above
    epsilon, to 39 standard deviations; what lies beyond is added to the upper end.

    >>> d = discrete_gaussian_delta(4, "0.5")
    >>> bool(d.lower <= 0.054007223694154421 <= d.upper)
    True
    """
    square = positive(sigma_squared=rational(sigma_squared=sigma_squared))
    if square > _WIDEST:
        raise ParameterError("sigma_squared", sigma_squared, f"must be at most {_WIDEST}: the sum is term by term")
    moved = integer(at_least=1, sensitivity=sensitivity)
    wanted = read(epsilon=epsilon)
    reach = int(40 * float(square) ** 0.5) + 2 + moved
    # the centre of a window is free, by the law's symmetry about 0
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    log_mass = -(x * x) / (2 * float(square))
    mass = np.exp(log_mass) / float(np.sum(np.exp(log_mass)))
    slope = float(moved / square)
    loss = slope * x + float(moved * moved / (2 * square))
    lows, highs = [], []
    for e_high, e_low in zip(wanted[0].ravel(), wanted[1].ravel(), strict=True):
        short = np.minimum((e_high - loss) + e_low, 0.0)
        terms = mass * -np.expm1(short)
        value = float(np.sum(terms))
        # roundings of the mass's exponent, of the loss and of the sum
        error = UNIT * float(np.sum(terms * (64 - 4 * log_mass)))
        error += 8 * UNIT * float(np.sum(np.where(short < 0, mass * (abs(e_high) + np.abs(loss)), 0.0)))
        lows.append(value - error)
        highs.append(value + error + 1e-300)
    shape = wanted[0].shape
    return clipped(np.array(lows).reshape(shape), np.array(highs).reshape(shape), "sum over integers")


def discrete_gaussian_variance(sigma_squared: Number) -> Interval[FloatArray]:
    """The variance of N_Z(0, sigma^2), at most sigma^2, summed term by term."""
    square = float(positive(sigma_squared=rational(sigma_squared=sigma_squared)))
    reach = int(40 * square**0.5) + 2
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    mass = np.exp(-(x * x) / (2 * square))
    value = np.asarray(np.sum(mass * x * x) / np.sum(mass))
    return certified(value * (1 - 1e-13), value * (1 + 1e-13) + 1e-300, "sum over integers")
