"""Enclosures: float arrays with a lower and an upper end, whose arithmetic rounds outward.

A closed form written once in `Enclosure` arithmetic yields its own rounding bound. The ends of + - * / and sqrt are
moved by the IEEE rule (correct rounding, then one step outward). exp, log, expm1, log1p and the error functions are
trusted to a stated number of last places (`ULPS`), far more than they were ever seen to err; a test measures that
trust against mpmath. Infinite values that are *exact* (a missing support) are set with `where`, for outward steps would
turn them into the largest float.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, float_above, float_below, rational

# The ends are floats for scalar arguments and arrays for array arguments.
Certified = Interval[Any]

_UNIT = 2.0**-52
_TINY = 5e-324
_HALF_ULP = 2.0**-53 * (1 + 2.0**-52)
_FEW = 64
_MAX = float(np.finfo(np.float64).max)
ULPS = {"exp": 4, "expm1": 4, "log": 4, "log1p": 4, "erfcx": 16, "erfc": 16, "erf": 8}


def _down(value: FloatArray) -> FloatArray:
    """The next float below or lower; `nextafter` for few numbers, for many the same by arithmetic, in a third of its time.

    A step of a little more than |x| 2^-53 is more than half a unit in the last place of x: the rounded difference lies
    below x. The largest float takes the place of an infinite x.
    """
    if np.size(value) < _FEW:
        return np.nextafter(value, -np.inf)
    step = np.abs(value)
    np.minimum(step, _MAX, out=step)
    step *= _HALF_ULP
    step += _TINY
    np.subtract(value, step, out=step)
    return np.minimum(step, _MAX, out=step)


def _up(value: FloatArray) -> FloatArray:
    if np.size(value) < _FEW:
        return np.nextafter(value, np.inf)
    return -_down(-value)


def _sum(lower: FloatArray, upper: FloatArray) -> "Enclosure":
    """Outward from two float sums; a float sum of 0 is exact and stays."""
    low, high = _down(lower), _up(upper)
    if not np.all(lower):
        low = np.where(lower == 0, 0.0, low)
    if not np.all(upper):
        high = np.where(upper == 0, 0.0, high)
    return _safe(low, high)


def _safe(lower: FloatArray, upper: FloatArray) -> "Enclosure":
    """An undefined end (inf - inf, 0 inf) says nothing: it becomes the whole line on its side."""
    low = np.where(np.isnan(lower), -np.inf, lower) if np.isnan(lower).any() else lower
    high = np.where(np.isnan(upper), np.inf, upper) if np.isnan(upper).any() else upper
    return Enclosure(low, high)


@dataclass(frozen=True, slots=True, eq=False)
class Enclosure:
    """Numbers known to lie in [lower, upper], elementwise; arithmetic rounds outward.

    lower, upper: float arrays of one shape, or shapes that broadcast.

    >>> third = Enclosure.of(1) / Enclosure.of(3)
    >>> Fraction(float(third.lower)) < Fraction(1, 3) < Fraction(float(third.upper))
    True
    """

    lower: FloatArray
    upper: FloatArray

    @staticmethod
    def of(value: ArrayLike) -> "Enclosure":
        """The floats themselves, with no width."""
        point = np.asarray(value, dtype=np.float64)
        return Enclosure(point, point)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the arrays."""
        return np.shape(self.lower)

    @property
    def middle(self) -> FloatArray:
        """A float inside, near the middle; for estimates only. Infinite where both ends are."""
        with np.errstate(invalid="ignore"):
            half = 0.5 * self.lower + 0.5 * self.upper
        return np.where(np.isnan(half), self.lower, half)

    def __getitem__(self, key: Any) -> "Enclosure":
        lower = np.asarray(self.lower[key])
        return Enclosure(lower, lower if self.lower is self.upper else np.asarray(self.upper[key]))

    def __neg__(self) -> "Enclosure":
        return Enclosure(-self.upper, -self.lower)

    def __add__(self, other: "Enclosure | float") -> "Enclosure":
        if self.lower is self.upper and not isinstance(other, Enclosure):
            total = self.lower + other
            return _sum(total, total)
        that = _enclosed(other)
        with np.errstate(invalid="ignore", over="ignore"):
            return _sum(self.lower + that.lower, self.upper + that.upper)

    __radd__ = __add__

    def __sub__(self, other: "Enclosure | float") -> "Enclosure":
        return self + -_enclosed(other)

    def __rsub__(self, other: float) -> "Enclosure":
        return -self + other

    def __mul__(self, other: "Enclosure | float") -> "Enclosure":
        if not isinstance(other, Enclosure) and other > 0:
            with np.errstate(over="ignore", under="ignore"):
                low, high = self.lower * other, self.upper * other
                low = _down(low) if np.all(self.lower) else np.where(self.lower == 0, 0.0, _down(low))
                return Enclosure(low, _up(high) if np.all(self.upper) else np.where(self.upper == 0, 0.0, _up(high)))
        that = _enclosed(other)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            if np.min(self.lower, initial=0.0) >= 0 and np.min(that.lower, initial=0.0) >= 0:
                high = _up(self.upper * that.upper)
                if not (np.all(self.upper) and np.all(that.upper)):
                    high = np.where((self.upper == 0) | (that.upper == 0), 0.0, high)
                return _safe(np.fmax(_down(self.lower * that.lower), 0), high)
            a, b = self.lower * that.lower, self.lower * that.upper
            c, d = self.upper * that.lower, self.upper * that.upper
            low = np.minimum(np.minimum(a, b), np.minimum(c, d))
            high = np.maximum(np.maximum(a, b), np.maximum(c, d))
            low, high = _down(low), _up(high)
            nought = (self.lower == 0) & (self.upper == 0) | (that.lower == 0) & (that.upper == 0)
            if np.any(nought):  # an exact 0 annuls, as a probability 0 does
                low, high = np.where(nought, 0.0, low), np.where(nought, 0.0, high)
            return _safe(low, high)

    __rmul__ = __mul__

    def __truediv__(self, other: "Enclosure | float") -> "Enclosure":
        that = _enclosed(other)
        with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
            crosses = (that.lower <= 0) & (that.upper >= 0)
            low = np.where(crosses, -np.inf, _down(1 / that.upper))
            high = np.where(crosses, np.inf, _up(1 / that.lower))
        return self * Enclosure(low, high)

    def __rtruediv__(self, other: float) -> "Enclosure":
        return _enclosed(other) / self

    def sum(self) -> "Enclosure":
        """The sum over the last axis, by halving: log2(n) outward roundings."""
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        terms = Enclosure(*np.broadcast_arrays(lower, upper))
        if terms.shape[-1] == 0:
            return Enclosure.of(np.zeros(terms.shape[:-1]))
        while (n := terms.shape[-1]) > 1:
            half = n // 2
            paired = terms[..., :half] + terms[..., half : 2 * half]
            terms = paired if n % 2 == 0 else concatenate(paired, terms[..., 2 * half :])
        return terms[..., 0]

    def max(self) -> "Enclosure":
        """The largest over the last axis."""
        return Enclosure(np.max(self.lower, axis=-1), np.max(self.upper, axis=-1))

    def at_least(self, floor: float) -> "Enclosure":
        """The larger of the number and a float."""
        return Enclosure(np.maximum(self.lower, floor), np.maximum(self.upper, floor))

    def at_most(self, ceiling: float) -> "Enclosure":
        """The smaller of the number and a float."""
        return Enclosure(np.minimum(self.lower, ceiling), np.minimum(self.upper, ceiling))

    def interval(self, method: str) -> Certified:
        """The same ends as an `Interval`: floats where there are no axes."""
        lower, upper = np.broadcast_arrays(self.lower, self.upper)
        if lower.ndim == 0:
            return Interval(float(lower), float(upper), method)
        return Interval(np.array(lower), np.array(upper), method)


# what a caller may give: a scalar, a list or array, or an enclosure
Numeric = Number | ArrayLike | Enclosure


def _enclosed(value: "Enclosure | float | FloatArray") -> Enclosure:
    return value if isinstance(value, Enclosure) else Enclosure.of(value)


def _fraction(name: str, value: Fraction) -> tuple[float, float]:
    del name
    return float_below(value), float_above(value)


def enclose(**named: Numeric) -> Enclosure:
    """A caller's number or array as an enclosure: infinities are taken, NaN is refused.

    A scalar is the decimal it prints as (`exact.rational`); so is each element of a list. A NumPy array of floats is
    taken at face value.

    >>> one_tenth = enclose(epsilon="0.1")
    >>> bool(one_tenth.lower < one_tenth.upper)
    True
    """
    ((name, value),) = named.items()
    if isinstance(value, Enclosure):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        if np.isnan(value).any():
            raise ParameterError(name, value, "must not contain NaN")
        return Enclosure.of(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        parts = [enclose(**{name: part}) for part in value]
        if not parts:
            return Enclosure.of(np.zeros(0))
        try:
            return Enclosure(np.stack([p.lower for p in parts]), np.stack([p.upper for p in parts]))
        except ValueError:
            raise ParameterError(name, value, "must be a rectangular array of numbers") from None
    if isinstance(value, (float, np.floating)) and np.isinf(value):
        return Enclosure.of(value)
    below, above = _fraction(name, rational(**{name: value}))  # type: ignore[arg-type]  # rational words the refusal
    return Enclosure(np.asarray(below), np.asarray(above))


def concatenate(*parts: Enclosure) -> Enclosure:
    """Joined along the last axis."""
    return Enclosure(
        np.concatenate([p.lower for p in parts], axis=-1), np.concatenate([p.upper for p in parts], axis=-1)
    )


def where(condition: Any, yes: Enclosure | float, no: Enclosure | float) -> Enclosure:
    """Elementwise choice; the condition must be decided, not itself an enclosure."""
    a, b = _enclosed(yes), _enclosed(no)
    return Enclosure(np.where(condition, a.lower, b.lower), np.where(condition, a.upper, b.upper))


def larger(one: Enclosure, two: Enclosure) -> Enclosure:
    """The larger of two numbers."""
    return Enclosure(np.maximum(one.lower, two.lower), np.maximum(one.upper, two.upper))


def smaller(one: Enclosure, two: Enclosure) -> Enclosure:
    """The smaller of two numbers."""
    return Enclosure(np.minimum(one.lower, two.lower), np.minimum(one.upper, two.upper))


def widened(value: FloatArray, ulps: int) -> Enclosure:
    """A computed array with a relative error of at most so many units in the last place, subnormals included."""
    with np.errstate(invalid="ignore", over="ignore"):
        pad = np.abs(value) * (ulps * _UNIT) + ulps * _TINY
        return Enclosure(np.fmin(value - pad, _MAX), np.fmax(value + pad, -_MAX))


def increasing(function: Callable[[FloatArray], Enclosure], x: Enclosure) -> Enclosure:
    """An increasing function of an enclosure, from its enclosures at points."""
    if x.lower is x.upper:
        return function(x.lower)
    return Enclosure(function(x.lower).lower, function(x.upper).upper)


def decreasing(function: Callable[[FloatArray], Enclosure], x: Enclosure) -> Enclosure:
    """A decreasing function of an enclosure, from its enclosures at points."""
    if x.lower is x.upper:
        return function(x.lower)
    return Enclosure(function(x.upper).lower, function(x.lower).upper)


def exp(x: Enclosure) -> Enclosure:
    """e^x, never below 0; exactly 0 at minus infinity."""
    with np.errstate(over="ignore", under="ignore"):
        out = increasing(lambda t: widened(np.exp(t), ULPS["exp"]), x).at_least(0)
    return Enclosure(out.lower, np.where(x.upper == -np.inf, 0.0, out.upper))


def expm1(x: Enclosure) -> Enclosure:
    """e^x - 1, never below -1; exactly 0 at 0."""
    with np.errstate(over="ignore", under="ignore"):
        out = increasing(lambda t: widened(np.expm1(t), ULPS["expm1"]), x).at_least(-1)
    return Enclosure(np.where(x.lower == 0, 0.0, out.lower), np.where(x.upper == 0, 0.0, out.upper))


def log(x: Enclosure) -> Enclosure:
    """The natural logarithm, with ln 0 = -inf; negative parts of the enclosure are outside its domain and dropped."""
    with np.errstate(divide="ignore"):
        out = increasing(lambda t: widened(np.log(np.maximum(t, 0)), ULPS["log"]), x)
    return Enclosure(out.lower, np.where(x.upper <= 0, -np.inf, out.upper))


def log1p(x: Enclosure) -> Enclosure:
    """ln(1 + x), with -inf at -1; parts below -1 are outside its domain and dropped."""
    with np.errstate(divide="ignore", under="ignore"):
        out = increasing(lambda t: widened(np.log1p(np.maximum(t, -1)), ULPS["log1p"]), x)
    upper = np.where(x.upper == 0, 0.0, np.where(x.upper <= -1, -np.inf, out.upper))
    return Enclosure(np.where(x.lower == 0, 0.0, out.lower), upper)


def sqrt(x: Enclosure) -> Enclosure:
    """The square root; negative parts of the enclosure are dropped."""
    root = increasing(lambda t: widened(np.sqrt(np.maximum(t, 0)), 1), x).at_least(0)
    return Enclosure(root.lower, np.where(x.upper <= 0, 0.0, root.upper))


def square(x: Enclosure) -> Enclosure:
    """The square, never below 0."""
    return (x * x).at_least(0)


def by_place(works: Sequence[tuple[Any, Callable[..., Enclosure]]], *arguments: Enclosure) -> Enclosure:
    """Each element by the one function that is chosen for it, evaluated at its own elements only.

    works: masks that do not overlap and leave nothing out, with elementwise functions; arguments of one shape or size 1.
    """
    shape = np.broadcast_shapes(*(np.shape(mask) for mask, _ in works), *(x.shape for x in arguments))
    lower, upper = np.empty(shape), np.empty(shape)
    for mask, work in works:
        chosen = np.broadcast_to(mask, shape)
        if chosen.all():
            return work(*arguments)
        if chosen.any():
            value = work(*(x if np.size(x.lower) == 1 else x[chosen] for x in arguments))
            lower[chosen], upper[chosen] = value.lower, value.upper
    return Enclosure(lower, upper)


_BLOCK = 1 << 14  # elements: the arrays of one step stay in the cache


def blockwise(function: Callable[..., Enclosure], *arguments: Enclosure) -> Enclosure:
    """An elementwise function of enclosures, block by block where they are long: several times faster."""
    shape = np.broadcast_shapes(*(np.shape(end) for x in arguments for end in (x.lower, x.upper)))
    size = int(np.prod(shape))
    if size <= _BLOCK:
        return function(*arguments)

    def part(end: FloatArray, start: int) -> FloatArray:
        return end if np.size(end) == 1 else np.broadcast_to(end, shape).reshape(-1)[start : start + _BLOCK]

    lower, upper = np.empty(size), np.empty(size)
    scalars = [Enclosure(np.reshape(x.lower, -1)[:1], np.reshape(x.upper, -1)[:1]) for x in arguments]
    for start in range(0, size, _BLOCK):
        blocks = []
        for x, scalar in zip(arguments, scalars, strict=True):
            low = part(scalar.lower if np.size(x.lower) == 1 else x.lower, start)
            blocks.append(Enclosure(low, low if x.lower is x.upper else part(x.upper, start)))
        value = function(*blocks)
        lower[start : start + _BLOCK], upper[start : start + _BLOCK] = value.lower, value.upper
    return Enclosure(lower.reshape(shape), upper.reshape(shape))


def _scalars(*values: Numeric) -> bool:
    return not any(isinstance(value, (np.ndarray, list, tuple, Enclosure)) for value in values)


def squared_excess(*, numerator: Numeric, denominator: Numeric, names: tuple[str, str]) -> Enclosure:
    """The square of a quotient, less 1; exact before it is enclosed where both are scalars."""
    if _scalars(numerator, denominator):
        above: Any = numerator
        below: Any = denominator
        exact = (rational(**{names[0]: above}) / rational(**{names[1]: below})) ** 2 - 1
        return Enclosure(np.asarray(float_below(exact)), np.asarray(float_above(exact)))
    one, two = enclose(**{names[0]: numerator}), enclose(**{names[1]: denominator})
    return (one - two) * (one + two) / square(two)


def quotient(*, numerator: Numeric, denominator: Numeric, names: tuple[str, str]) -> Enclosure:
    """A caller's quotient: exact before it is enclosed where both are scalars."""
    if _scalars(numerator, denominator):
        above: Any = numerator
        below: Any = denominator
        exact = rational(**{names[0]: above}) / rational(**{names[1]: below})
        return Enclosure(np.asarray(float_below(exact)), np.asarray(float_above(exact)))
    if isinstance(denominator, (int, float)) and denominator == 1:
        return enclose(**{names[0]: numerator})  # exact
    return enclose(**{names[0]: numerator}) / enclose(**{names[1]: denominator})


def log_fraction(value: Fraction) -> Enclosure:
    """The natural logarithm of a positive rational of any size, accurate near 1 too."""
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    if -1 <= shift <= 1:
        shift = 0
    near = value / Fraction(2) ** shift - 1
    rest = log1p(Enclosure(np.asarray(float_below(near)), np.asarray(float_above(near))))
    return rest if shift == 0 else rest + shift * log(Enclosure.of(2.0))
