"""The curves of integer noise: discrete Laplace exactly, as a staircase; discrete Gaussian by its own delta.

Discrete Laplace with P(x) proportional to a^|x|, a = e^{-epsilon/D}: against its shift by D the loss takes the D + 1
values epsilon, epsilon (1 - 2/D), ..., -epsilon. At D = 1 the curve is f_{epsilon,0}: the worst of all epsilon-DP.
"""

import numpy as np

from neartwin.checks import integer, non_negative, positive
from neartwin.curves.finite import FinitePair, from_masses
from neartwin.curves.twofold import TINY, UNIT, Argument, certified, clipped, exponential, levels, read
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational

_WIDEST = 10**9


def discrete_laplace(epsilon: Number, sensitivity: int = 1) -> FinitePair:
    """T of integer noise with odds e^{-epsilon/sensitivity} a step, against its shift by the whole sensitivity.

    >>> from neartwin.curves.families import epsilon_delta
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
