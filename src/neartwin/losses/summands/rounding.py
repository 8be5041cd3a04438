"""The effect of floating point on a sum, stated once and charged everywhere.

Two assumptions, and no others, carry every bound of this room:

- +, -, *, / and sqrt are correctly rounded: relative error at most `U` = 2^-53 (IEEE 754, round to nearest).
- exp, expm1, log, log1p, sin, cos, atan, atan2 of NumPy and ndtr, erfcx of SciPy err by at most `ELEMENTARY`. That is
  relative to the exact value at the float that they are given. NumPy documents 4 units in the last place as its worst;
  we charge 16 U. ndtr(x) errs by 2U x^2 more, for it squares inside an exponential.

The end of this file measures NumPy's when it is imported: a build may use other code for them, and no number is certified
before. It takes some ten milliseconds. `tests/losses/test_rounding.py` measures both libraries.

A sum of N terms, in any order, errs by at most `gamma(N)` times the sum of their absolute values (Higham 2002, section
4.2). First-order terms are summed and the constants rounded up generously. That covers second-order terms, which are
below 1e-12 of the first.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from neartwin import balls
from neartwin.exact import FloatArray

U = 2.0**-53
ELEMENTARY = 16 * U
ComplexArray = np.ndarray[tuple[int, ...], np.dtype[np.complex128]]
SMALLEST = 1e-300  # stands in for 0 inside a logarithm; a bound may use it where it only grows
LARGEST = 700.0  # of an exponent


class NoCertificateError(Exception):
    """This route cannot prove an answer here; the caller takes the next route. Never leaves the room."""


class ContradictionError(AssertionError):
    """Two proved bounds exclude each other, so that one proof is wrong. No route catches it."""


def ordered(lower: float, upper: float) -> float:
    """The upper bound.

    Args:
        lower: Another proof's lower bound on the same number.
        upper: The upper bound.

    Raises:
        ContradictionError: The lower bound is greater.
    """
    if lower > upper:
        raise ContradictionError(f"one proof says at least {lower!r}, another at most {upper!r}")
    return upper


def gamma(terms: int) -> float:
    """Relative error of a sum of so many terms against the sum of absolute values, two spare operations included."""
    return (terms + 2) * U * 1.01


def blocked(terms: int) -> float:
    """Relative error of `total` of so many terms, and of any sum taken in blocks of `block` of them, likewise."""
    return gamma(block(terms) + terms // block(terms) + 2)


def block(terms: int) -> int:
    """About the square root: how many terms are summed together before their sums are."""
    return max(16, math.isqrt(terms))


def total(x: FloatArray) -> float:
    """The sum of a vector, in blocks: a long one then loses digits like its square root."""
    size = block(len(x))
    whole = len(x) - len(x) % size
    return float(x[:whole].reshape(-1, size).sum(axis=1).sum() + x[whole:].sum())


def log_one_plus(x: FloatArray, y: FloatArray, error: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """log(1 + x + iy), and a bound E with |(true / computed)^n - 1| <= expm1(n E) for every n.

    The number w = 1 + x + iy has relative error r = error/|w|, and |(1 + rho)^n - 1| <= (1 + r)^n - 1 for every complex
    |rho| <= r. Hence E = log1p(r) plus the rounding of the logarithm. Near 1 its real part is log1p(2x + x^2 + y^2)/2.
    The argument errs by 4U(2|x| + x^2 + y^2) and is at least -3/4, so the logarithm errs by twice that and a half of
    it. Away from 1 it is log|w|, where w itself is rounded (4U absolute).

    Args:
        x: Real parts.
        y: Imaginary parts.
        error: A bound on |true - (x + iy)|.
    """
    one, size = 1 + x, x * x + y * y
    square = 2 * x + size
    if square.size == 0 or square.min() > -0.75:  # log1p(r) <= r
        real, imaginary = 0.5 * np.log1p(square), np.arctan2(y, one)
        moved = (8 * U) * (2 * np.abs(x) + size) + ELEMENTARY * (np.abs(real) + np.abs(imaginary))
        return real + 1j * imaginary, error * (1 + 8 * U) / np.sqrt(1 + square) + moved
    size = np.hypot(1 + x, y)
    near = square > -0.75
    tiny = np.maximum(np.maximum(size, error), SMALLEST)  # where w vanishes any number of size `error` stands for it
    real = np.where(near, 0.5 * np.log1p(np.where(near, square, 0.0)), np.log(tiny))
    imaginary = np.arctan2(y, 1 + x)
    moved = error + np.where(near, 0.0, 4 * U) + (tiny - np.minimum(size, tiny))
    bound = np.log1p(moved / np.where(near, size, tiny)) * (1 + 8 * U)
    bound = bound + np.where(near, 8 * U * (2 * np.abs(x) + x * x + y * y), 0.0)
    return real + 1j * imaginary, bound + ELEMENTARY * (np.abs(real) + np.abs(imaginary))


def log_within(value: ComplexArray, slack: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """The logarithm of a number known to within a slack, and its error without that of the logarithm's own rounding.

    Where the number vanishes, any number of the slack's size stands for it.

    Args:
        value: The numbers.
        slack: A bound on the error of each.
    """
    size = np.abs(value)
    stands = np.maximum(np.maximum(size, slack), SMALLEST)
    log: ComplexArray = np.log(stands) + 1j * np.angle(value)
    return log, np.log1p((slack + stands - np.minimum(size, stands)) / stands) * (1 + 8 * U)


def moved_by(log: FloatArray, error: FloatArray) -> FloatArray:
    """e^log expm1(error): the change of a number of this logarithm by a relative error. It takes one exponential where no
    float has two.

    Args:
        log: Logarithms of the numbers.
        error: The arguments of expm1.
    """
    return np.where(error > 1, np.exp(log + error), np.exp(log) * np.expm1(np.minimum(error, 1.0)))


def few_bits(step: float, bits: int) -> float:
    """A step rounded down to so few bits that its multiples are exact.

    Args:
        step: Above 0.
        bits: Their number.
    """
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, bits)), exponent - bits)


def up(x: float, steps: int = 2) -> float:
    """A few floating-point steps toward plus infinity.

    Args:
        x: A float.
        steps: Their number.
    """
    for _ in range(steps):
        x = math.nextafter(x, math.inf)
    return x


def down(x: float, steps: int = 2) -> float:
    """A few floating-point steps toward minus infinity.

    Args:
        x: A float.
        steps: Their number.
    """
    return -up(-x, steps)


POINTS = 200  # of each function


def wrong_primitives(functions: dict[str, Callable[[FloatArray], FloatArray]] | None = None) -> list[str]:
    """The names of functions that err by more than is charged somewhere.

    Args:
        functions: Other functions to measure, by the name of the one that each stands for; else NumPy's own.
    """
    half = POINTS // 2
    small, large = np.geomspace(1e-12, 700.0, half), np.geomspace(1e-300, 1e300, POINTS)
    both, turns = np.concatenate([-small, small]), np.geomspace(1e-9, 1e6, POINTS)
    measured: dict[str, tuple[Callable[[FloatArray], FloatArray], str, FloatArray]] = {
        "exp": (np.exp, "exp", both),
        "expm1": (np.expm1, "expm1", both),
        "log": (np.log, "log", large),
        "log1p": (np.log1p, "log1p", np.concatenate([-np.geomspace(1e-12, 0.99, half), small])),
        "sin": (np.sin, "sin", turns),
        "cos": (np.cos, "cos", turns),
        "arctan2": (lambda x: np.arctan2(x, 1.0), "atan", both),
    }
    wrong = []
    for name, (function, exact, x) in measured.items():
        values = (functions or {}).get(name, function)(x)
        around = np.array(balls.all_bounds(partial(_truths, exact, x.tolist())))
        if not np.all(np.abs(values[:, None] - around) <= ELEMENTARY * np.abs(around)):
            wrong.append(name)
    return wrong


def _truths(function: str, x: list[float]) -> list[Any]:
    return [getattr(balls.ball(one), function)() for one in x]


if _wrong := wrong_primitives():
    raise ImportError(f"this build of NumPy computes {', '.join(_wrong)} too roughly for certified numbers")
