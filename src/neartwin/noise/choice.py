"""Exact choices: coins, dice and permutations, with rational probabilities and no floats.

Results are Python values if `shape` is None, else arrays.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer, non_negative, positive, probability
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.noise.coins import Bits, below, coin, exp_coins, rational_bounds
from neartwin.noise.source import I64, SYSTEM, Source
from neartwin.noise.streams import Fresh, Rows

Shape = int | tuple[int, ...]


def _rows(shape: Shape | None) -> tuple[Rows, tuple[int, ...]]:
    size = () if shape is None else (shape,) if isinstance(shape, int) else shape
    return np.arange(prod(size)), size


@overload
def bernoulli(p: Number, shape: None = None, *, source: Source = SYSTEM) -> bool: ...
@overload
def bernoulli(p: Number, shape: Shape, *, source: Source = SYSTEM) -> Bits: ...
def bernoulli(p: Number, shape: Shape | None = None, *, source: Source = SYSTEM) -> bool | Bits:
    """Toss coins that show True with exactly this rational probability.

    Args:
        p: The probability, in [0, 1]; 0 and 1 are allowed.
        shape: The shape of the coins; None for one.
        source: The bits; tests pass a script.

    Returns:
        True or False, or an array of coins.

    >>> bernoulli("1/3", (2, 2)).shape, bernoulli(1)
    ((2, 2), True)
    """
    bounds = rational_bounds(probability(p=rational(p=p)))
    rows, size = _rows(shape)
    heads = coin(bounds, rows, Fresh(source)).reshape(size)
    return heads if size or shape is not None else bool(heads)


@dataclass(frozen=True, slots=True)
class _Exponents:
    """Exponents whole / over.

    Attributes:
        whole: An array of int64, or of objects that are exact numbers.
        over: The common divisor.
    """

    whole: NDArray[Any]
    over: Fraction

    def floats(self) -> NDArray[np.float64]:
        """One rounding each of the number, of `over` and of the quotient.

        Objects, and an `over` beyond the floats, are divided exactly and rounded once. There 64, where exp(-x) counts as 0,
        stands for all beyond.
        """
        if self.whole.dtype == np.int64 and Fraction(1, 1 << 900) < self.over < 1 << 900:
            return self.whole.astype(np.float64) / float(self.over)
        return np.array([float(min(self.exactly(i), Fraction(64))) for i in range(self.whole.size)], np.float64)

    def exactly(self, i: int) -> Fraction:
        """The quotient."""
        return Fraction(self.whole.item(i)) / self.over


def bernoulli_exp(
    x: Number | NDArray[Any], shape: Shape | None = None, *, over: Number = 1, source: Source = SYSTEM
) -> Any:
    """Toss coins that show True with probability exp(-x / over), exactly.

    Args:
        x: One rational, x >= 0; or an array of integers or Fractions, one coin each.
        shape: The shape of the coins, for one rational x; None for one coin.
        over: A positive rational. With it integer score gaps need no array of fractions.
        source: The bits; tests pass a script.

    Returns:
        True or False, or an array of coins. For an array x it has the shape of x.

    Raises:
        ParameterError: A number is negative or not exact, or `shape` stands beside an array.

    >>> bernoulli_exp(0), bernoulli_exp("1/2", 3).shape
    (True, (3,))
    >>> bernoulli_exp(np.array([0, 10**9]), over="7/2")
    array([ True, False])
    """
    divisor = positive(over=rational(over=over))
    if not isinstance(x, np.ndarray):
        value = non_negative(x=rational(x=x)) / divisor
        rows, size = _rows(shape)
        repeated = _Exponents(np.full(rows.size, min(1, value.numerator)), 1 / value if value else divisor)
        heads = exp_coins(repeated, rows, Fresh(source)).reshape(size)
        return heads if shape is not None else bool(heads)
    if shape is not None:
        raise ParameterError("shape", shape, "must be left out where x is an array: there is one coin for each x")
    return exp_coins(_exponents(x.reshape(-1), divisor), np.arange(x.size), Fresh(source)).reshape(x.shape)


def _exponents(x: NDArray[Any], over: Fraction) -> _Exponents:
    """Exponents of an array: whole numbers or exact rationals."""
    if x.dtype.kind in "iu" and not (x.dtype == np.uint64 and x.size and x.max() > np.iinfo(np.int64).max):
        if x.size and x.min() < 0:
            raise ParameterError("x", int(x.min()), "must not be negative")
        return _Exponents(x.astype(np.int64), over)
    if x.dtype.kind not in "iuO":
        raise ParameterError("x", x.dtype, "must hold integers or Fractions", remedy="give the common factor as over")
    exact = np.empty(x.size, dtype=object)
    exact[:] = [non_negative(x=rational(x=each)) for each in x.tolist()]
    return _Exponents(exact, over)


@overload
def uniform_below(n: int, shape: None = None, *, source: Source = SYSTEM) -> int: ...
@overload
def uniform_below(n: int, shape: Shape, *, source: Source = SYSTEM) -> I64: ...
def uniform_below(n: int, shape: Shape | None = None, *, source: Source = SYSTEM) -> int | I64:
    """Draw integers that are uniform on 0, ..., n - 1.

    Args:
        n: Number of outcomes, from 1 to 2**63.
        shape: The shape of the draws; None for one.
        source: The bits; tests pass a script.

    Returns:
        An integer, or an int64 array.

    Raises:
        ParameterError: There are fewer outcomes, or more.

    >>> uniform_below(6) in range(6)
    True
    """
    if integer(at_least=1, n=n) > 1 << 63:
        raise ParameterError("n", n, "must be at most 2**63")
    rows, size = _rows(shape)
    drawn = below(int(n), rows, Fresh(source))
    return drawn.reshape(size) if shape is not None else int(drawn[0])


def permutation(n: int, *, source: Source = SYSTEM) -> I64:
    """Draw a uniform permutation of 0, ..., n - 1.

    It is the order of n independent 64-bit keys. Two keys are equal with probability below n**2 / 2**65; then all are
    drawn anew. Given that the keys differ, every order is equally likely.

    Args:
        n: Number of elements.
        source: The bits; tests pass a script.

    Returns:
        The permutation, int64 (n,).

    >>> sorted(permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    n = integer(at_least=0, n=n)
    while True:
        keys = source.words(n)
        order = np.argsort(keys)
        ranked = keys[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order.astype(np.int64)
