"""The named laws. Each is exact for any rational parameter; scales are in units of the released integers (grid steps).

Up to scales of 2**50 values are int64; beyond, Python integers.
"""

from collections.abc import Callable
from fractions import Fraction

from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.noise.bounds import Bounds
from neartwin.noise.laws import Tabulated
from neartwin.noise.profiles import Exponential, Gaussian, Given
from neartwin.noise.recipes import Recipe, Single, on_integers, rounded
from neartwin.noise.sampler import Sampler, sampler
from neartwin.noise.staircase import Staircase


def geometric(scale: Number) -> Sampler:
    """The two-sided geometric law (discrete Laplace): P(x) in proportion to exp(-|x| / scale) on the integers.

    Ghosh, Roughgarden, Sundararajan 2009. Variance 2r / (1 - r)**2 with r = exp(-1 / scale).

    >>> bool(abs(geometric(5).draw(10_000).mean()) < 1)
    True
    """
    return sampler(Tabulated(on_integers(Exponential(_scale(scale)), 2)))


def one_sided_geometric(scale: Number) -> Sampler:
    """The geometric law: P(x) in proportion to exp(-x / scale) on 0, 1, 2, ...; the floor of an exponential variable.

    >>> one_sided_geometric("1/3").draw() >= 0
    True
    """
    return sampler(Tabulated(on_integers(Exponential(_scale(scale)), 1)))


def discrete_gaussian(variance: Number) -> Sampler:
    """P(x) in proportion to exp(-x**2 / (2 variance)) on the integers. Canonne, Kamath, Steinke 2020.

    `variance` is the law's parameter; its own variance is at most that, and nearly that from 1 on.

    >>> bool(abs(discrete_gaussian(100).draw(10_000).mean()) < 1)
    True
    """
    return sampler(Tabulated(on_integers(Gaussian(positive(variance=rational(variance=variance))), 2)))


def rounded_gaussian(variance: Number) -> Sampler:
    """The nearest integer to a normal variable with mean 0: x plus it is the ideal Gaussian mechanism, rounded.

    Rounding x + N(0, variance), for an integer x, is post-processing of the ideal mechanism, which so keeps its curve.

    >>> bool(abs(rounded_gaussian(100).draw(10_000).mean()) < 1)
    True
    """
    return sampler(Tabulated(rounded(Gaussian(positive(variance=rational(variance=variance))))))


def rounded_laplace(scale: Number) -> Sampler:
    """The nearest integer to a continuous Laplace variable: x plus it is the ideal Laplace mechanism, rounded.

    >>> bool(abs(rounded_laplace(5).draw(10_000).mean()) < 1)
    True
    """
    return sampler(Tabulated(rounded(Exponential(_scale(scale)))))


def staircase(epsilon: Number, sensitivity: int, step: int) -> Sampler:
    """The staircase law on the integers, epsilon-private at distance `sensitivity`; step: width of the upper step.

    1 <= step <= sensitivity; sensitivity * max(1, 1 / epsilon) at most 2**50. See `staircase.py`.

    >>> bool(abs(staircase(1, 5, 2).draw(10_000).mean()) < 1)
    True
    """
    exact = positive(epsilon=rational(epsilon=epsilon))
    width, step = integer(at_least=1, sensitivity=sensitivity), integer(at_least=1, step=step)
    if step > width:
        raise ParameterError("step", step, f"must not exceed sensitivity={width}")
    if max(Fraction(width), width / exact) > 1 << 50:
        raise ParameterError("sensitivity", width, "must not exceed 2**50 min(1, epsilon)", remedy="use a coarser grid")
    return sampler(Staircase(exact, width, step))


def decreasing(weight: Callable[[int, int], Bounds], tail: Callable[[int, int], int]) -> Sampler:
    """Any law that falls on both sides of 0, P(x) in proportion to f(|x|), given by certified integers.

    weight(k, bits): integers (lo, hi) with lo <= 2**bits f(k) <= hi, f(0) at most 1; tail(k, bits): an integer at least
    2**bits times the sum of f over k, k + 1, .... Both tighten as `bits` grows. Time and memory of the table grow with
    the number of values that matter, so this serves laws of scale up to a few thousand. Keyed noise of it can be sent to
    workers if both functions can be (functions of a module).

    >>> def weight(k, bits):  # 2**-k
    ...     return (1 << bits) >> k, -(-(1 << bits) >> k)
    >>> halves = decreasing(weight, lambda k, bits: 2 * weight(k, bits)[1])
    >>> bool(abs(halves.draw(10_000).mean()) < 1)
    True
    """
    return sampler(Tabulated(Recipe(Given(weight, tail), Single(), 2)))


def _scale(scale: Number) -> Fraction:
    return positive(scale=rational(scale=scale))
