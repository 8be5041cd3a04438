"""The one certified arithmetic: balls of Arb, whose errors are proved, and floats rounded outward from them.

A formula is written once, as a function of exact parameters that computes with balls. A ball (`flint.arb`) has a midpoint
and a radius, and every elementary and error function. `bounds` evaluates the formula at 128 bits. It takes more bits
until the two floats around the result are neighbours. So a formula may cancel and needs no error analysis. `root` inverts
a monotone formula. A formula compares its exact parameters with plain `if`.

>>> bounds(lambda x: ball(x).exp() - 1 - ball(x), Fraction(1, 10**40))
(5e-81, 5.000000000000001e-81)

python-flint has one working precision a process. A lock is held while it is raised, and it is restored afterwards. Threads
and forks are safe.
"""

import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from threading import RLock
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike

from neartwin.errors import ParameterError
from neartwin.exact import Interval, Number, floats_around, rational

Exact = int | float | Fraction  # a float stands for its own binary value; both infinities are taken
Numeric = Number | Sequence[Number] | ArrayLike  # what a caller may give: a scalar, a list or an array
Certified = Interval[Any]  # ends are floats for scalar arguments and arrays for array arguments
Formula = Callable[..., arb | Exact]

PRECISIONS = (128, 512, 2048, 8192)  # bits
_SUBNORMAL = 2.0**-1021
_LOCK = RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def ball(value: Exact | arb) -> arb:
    """The number as a ball. An integer or a float has radius 0, and a fraction that of one rounding."""
    return arb(value.numerator) / value.denominator if isinstance(value, Fraction) else arb(value)


def infinite(value: Exact | arb) -> bool:
    """Whether an exact number is infinite. A fraction beyond all floats is not."""
    return isinstance(value, float) and math.isinf(value)


def pi() -> arb:
    """The ball of pi at the working precision."""
    return arb.pi()


def floats(value: arb | Exact) -> tuple[float, float]:
    """The floats around a ball, rounded outward. They are the two infinities where the ball is undefined.

    Call it within `bounds` alone, because it changes the working precision.

    Args:
        value: A ball, or an exact number.

    Returns:
        The lower and the upper end.
    """
    if isinstance(value, float):
        return value, value
    if isinstance(value, (int, Fraction)):
        return floats_around(Fraction(value))
    ctx.prec = 53  # to which `lower` and `upper` round outward
    low, high = float(value.lower()), float(value.upper())
    if not value.is_finite():
        return (low, high) if value.is_exact() and low == high else (-math.inf, math.inf)
    if abs(low) < _SUBNORMAL or low == math.inf:
        low = low if value.is_zero() else math.nextafter(low, -math.inf)
    if abs(high) < _SUBNORMAL or high == -math.inf:
        high = high if value.is_zero() else math.nextafter(high, math.inf)
    return low, high


def bounds(formula: Formula, *arguments: Any) -> tuple[float, float]:
    """The floats around formula(*arguments).

    Args:
        formula: A function of exact parameters that gives a ball or an exact number.
        arguments: Its arguments.

    Returns:
        The lower and the upper end. They are neighbours unless the formula's own balls are wide at every precision.
    """
    return all_bounds(lambda: [formula(*arguments)])[0]


def all_bounds(formulas: Callable[[], Sequence[arb | Exact]]) -> list[tuple[float, float]]:
    """The floats around several values that one function computes at once.

    Args:
        formulas: A function without parameters that gives the values.

    Returns:
        The lower and the upper end of each value, as `bounds` gives them.
    """
    ends: list[tuple[float, float]] = []
    width = math.inf
    with _LOCK, ctx.workprec(PRECISIONS[0]):
        for bits in PRECISIONS:
            ctx.prec = bits
            ends = [floats(value) for value in formulas()]
            wide = [high - low for low, high in ends if math.nextafter(math.nextafter(low, math.inf), math.inf) < high]
            if not wide or 2 * max(wide) > width:  # two steps: around a float
                break
            width = max(wide)
    return ends


def closely(formula: Formula, *arguments: Any) -> tuple[Fraction, Fraction]:
    """Fractions around formula(*arguments), of 256 bits, where what two floats leave open would count.

    Args:
        formula: A function of exact parameters that gives a ball.
        arguments: Its arguments.

    Returns:
        The lower and the upper end.
    """
    with _LOCK, ctx.workprec(256):
        value: Any = formula(*arguments)
        (low, down), (high, up) = (end.man_exp() for end in (value.lower(), value.upper()))
    return int(low) * Fraction(2) ** int(down), int(high) * Fraction(2) ** int(up)


def precision() -> int:
    """The present working precision, in bits."""
    return ctx.prec


def elementwise(
    formula: Formula, *arguments: Any, method: str, least: float = -math.inf, most: float = math.inf
) -> Certified:
    """Certified bounds of a formula at exact scalars, or at each place of exact arrays.

    Args:
        formula: A function of exact scalars.
        arguments: Exact numbers or arrays from `read`. Arrays are broadcast.
        method: The theorem, for the reader.
        least: The least possible value.
        most: The largest possible value.

    Returns:
        The bounds, with the shape of the broadcast arguments.
    """
    return each(lambda *point: bounds(formula, *point), *arguments, method=method, least=least, most=most)


def each(
    ends: Callable[..., tuple[float, float]],
    *arguments: Any,
    method: str,
    least: float = -math.inf,
    most: float = math.inf,
) -> Certified:
    """Bounds at each of several arguments, from a function that gives both ends, as `bounds` and `root` do.

    Args:
        ends: The function.
        arguments: Its arguments; arrays are broadcast.
        method: The name of the method.
        least: The least possible value.
        most: The largest possible value.

    Returns:
        The bounds.
    """
    if not any(isinstance(argument, np.ndarray) for argument in arguments):
        low, high = ends(*arguments)
        return Interval(float(min(max(low, least), most)), float(min(max(high, least), most)), method)
    places = np.broadcast_arrays(*(np.asarray(argument, dtype=object) for argument in arguments))
    points = zip(*(place.flat for place in places), strict=True)
    pairs = np.array([ends(*point) for point in points], dtype=float).reshape(*places[0].shape, 2)
    pairs = np.clip(pairs, least, most)
    return Interval(pairs[..., 0], pairs[..., 1], method)


def quotient(numerator: Any, denominator: Any) -> Any:
    """The exact quotient of exact numbers or arrays.

    Args:
        numerator: The numerator.
        denominator: The denominator, not 0.

    Returns:
        The quotient.
    """
    return np.frompyfunc(lambda one, two: Fraction(one) / Fraction(two), 2, 1)(numerator, denominator)


def read(**named: Numeric) -> Any:
    """Read a caller's number as an exact one, or a list or array as an object array of exact numbers.

    Args:
        named: One value by its name. A scalar, and each element of a list, stands for the decimal it prints as
            (`exact.rational`). A NumPy array of floats stands for its binary values.

    Raises:
        ParameterError: The value holds NaN or something else than numbers.
    """
    ((name, value),) = named.items()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        if np.isnan(value).any():
            raise ParameterError(name, value, "must not contain NaN")
        return np.array(value.tolist(), dtype=object) if value.ndim else value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        parts = [read(**{name: part}) for part in value]
        if len({np.shape(part) for part in parts}) > 1:
            raise ParameterError(name, value, "must be a rectangular array of numbers")
        return np.array(parts, dtype=object).reshape(len(parts), *np.shape(parts[0] if parts else 0))
    if isinstance(value, (float, np.floating)) and math.isinf(value):
        return float(value)
    return rational(**{name: value})  # type: ignore[arg-type]  # rational words the refusal


def every(holds: Callable[[Any], bool], value: Any) -> bool:
    """Whether a property holds for an exact number, or for all numbers of an array.

    Args:
        holds: The property.
        value: The number or array.

    Returns:
        True or False.
    """
    return all(map(holds, value.flat)) if isinstance(value, np.ndarray) else holds(value)


def _sign(formula: Formula, x: float) -> tuple[int, float]:
    """The proved sign of formula(x) and its value; 0 and NaN where the sign stays open."""
    radius = math.inf
    with _LOCK, ctx.workprec(PRECISIONS[0]):
        for bits in PRECISIONS:
            ctx.prec = bits
            value: Any = formula(x)
            for sign, proved in ((1, value > 0), (-1, value < 0), (0, value == 0)):
                if proved:
                    return sign, float(value)
            if not 2 * float(value.rad()) < radius:  # its parameters are balls
                break
            radius = float(value.rad())
    return 0, math.nan


def root(
    formula: Formula, low: float, high: float, guess: float | None = None, *, rtol: float = 0.0
) -> tuple[float, float]:
    """Floats around the zero of a falling function.

    Args:
        formula: The function, of a float.
        low: The finite lower end of the search. It is both answers where the zero lies below.
        high: The finite upper end of the search. It is both answers where the zero lies above.
        guess: A number near the zero. A guess that is right to the last places saves 80 % of the evaluations.
        rtol: The half width, relative to the guess, at which a proved bracket around the guess is the answer.

    Returns:
        The proved bracket (a, b): the function is not below 0 at a, nor above 0 at b. They are neighbours, unless
        rtol was met or the signs between stay open.
    """
    if guess is not None and low < guess < high:
        step = first = max(2 * math.ulp(guess), rtol * abs(guess))
        while step < high - low:  # outward by growing steps, until the zero is between
            a, b = max(guess - step, low), min(guess + step, high)
            (one, fa), (other, fb) = _sign(formula, a), _sign(formula, b)
            if one > 0 > other:
                return _closed(formula, (a, fa), (b, fb)) if step > first else (a, b)
            step *= 64
    (one, fa), (other, fb) = _sign(formula, low), _sign(formula, high)
    if one <= 0 or other >= 0:
        first = low if one <= 0 or math.isnan(fb) else high
        return (first, high if math.isnan(fa) or math.isnan(fb) else first)
    return _closed(formula, (low, fa), (high, fb))


def _closed(
    formula: Formula, left: tuple[float, float], right: tuple[float, float], open_is: int = 0
) -> tuple[float, float]:
    """A bracket closed to neighbouring floats (Chandrupatla 1997: inverse quadratic steps, safeguarded by halving).

    open_is: the sign taken where none is proved. Where the first is met, the two ends are searched for apart.
    """
    (a, fa), (b, fb) = left, right
    c, fc, share = a, fa, 0.5
    while math.nextafter(min(a, b), math.inf) < max(a, b):
        least, most = math.nextafter(min(a, b), math.inf), math.nextafter(max(a, b), -math.inf)
        wide = share == 0.5 and 0 < 4 * min(a, b) < max(a, b)
        x = math.sqrt(a) * math.sqrt(b) if wide else a + share * (b - a)
        x = min(max(x, least), most)
        sign, fx = _sign(formula, x)
        if fx == 0:
            return x, x
        if sign == 0 and not open_is:
            return _closed(formula, left, right, -1)[0], _closed(formula, left, right, 1)[1]
        sign = sign or open_is
        if (sign > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = x, fx if math.isfinite(fx) else math.copysign(1.0, sign)
        share = 0.5
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb) if fc != fb else math.nan
        if phi * phi < xi and (1 - phi) ** 2 < 1 - xi:
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        share = share if 0 < share < 1 else 0.5
    return min(a, b), max(a, b)


def normal_cdf(x: arb) -> arb:
    """Phi(x), with its relative accuracy in the lower tail."""
    return (-x / ball(2).sqrt()).erfc() / 2


def normal_density(x: arb) -> arb:
    """phi(x) = e^(-x^2/2) / sqrt(2 pi)."""
    return (-x * x / 2).exp() / (2 * pi()).sqrt()


def normal_quantile(p: arb) -> arb:
    """The z with Phi(z) = p, for p in (0, 1)."""
    return -ball(2).sqrt() * (2 * p).erfcinv()


def erfcx(x: arb) -> arb:
    """e^(x^2) erfc(x)."""
    return (x * x).exp() * x.erfc()


def binomial_cdf(count: int, last: int, p: arb) -> arb:
    """The probability of at most `last` successes, by an incomplete beta function.

    Args:
        count: The number of trials.
        last: The largest number of successes.
        p: The probability of a success.

    Returns:
        The probability, enclosed.
    """
    if last < 0:
        return ball(0)
    return ball(1) if last >= count else (1 - p).beta_lower(count - last, last + 1, 1)


def hull(low: float, high: float) -> arb:
    """A ball that contains both floats.

    Args:
        low: The lower end.
        high: The upper end.

    Returns:
        The ball.
    """
    return ball(low).union(ball(high))


def exceeds(one: Callable[[], arb], other: Callable[[], arb]) -> bool:
    """Whether one value is above another, at up to 8192 bits. The answer is yes if that does not decide.

    Args:
        one: The first value, as a formula.
        other: The second value, as a formula.

    Returns:
        True or False.
    """
    return _sign(lambda _: one() - other(), 0.0)[0] >= 0
