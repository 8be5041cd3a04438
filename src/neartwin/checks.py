"""Checks of parameters, one line each: `positive(scale=scale)` returns the value or raises `ParameterError`.

Each check takes exactly one keyword. Its name is the name in the message.
"""

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from importlib import import_module
from numbers import Integral, Rational, Real
from operator import le, lt
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from neartwin.errors import ParameterError

N = TypeVar("N", Fraction, int, float)
T = TypeVar("T")
_LEAST, _MOST = Fraction(1, 10**100), 10**100  # their squares and products are floats


def _number(named: Mapping[str, N], holds: Callable[[N], bool] | None = None, rule: str = "") -> N:
    """The one value, a finite real number for which a condition holds."""
    ((name, value),) = named.items()
    kind: type = type(value)  # the annotation of the value is a promise, not yet a fact
    if kind is not Fraction and kind is not int:  # the usual case, without a walk through the numeric tower
        if kind is bool or not issubclass(kind, Real):
            raise ParameterError(name, value, "must be a number")
        if not issubclass(kind, Rational) and not math.isfinite(value):
            raise ParameterError(name, value, "must be finite")
    if holds is not None and not holds(value):
        raise ParameterError(name, value, rule)
    return value


def finite(**named: N) -> N:
    """A finite real number.

    >>> finite(shift=-2.5)
    -2.5
    """
    return _number(named)


def positive(**named: N) -> N:
    """A finite number above 0.

    >>> positive(scale=0)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: scale=0 must be positive
    """
    return _number(named, partial(lt, 0), "must be positive")


def in_floats(**named: N) -> N:
    """A positive number that floating point can square: between 1e-100 and 1e100.

    >>> in_floats(mu=Fraction(1, 10**200))
    Traceback (most recent call last):
    neartwin.errors.ParameterError: mu=1e-200 must lie between 1e-100 and 1e100 to be computed with
    """
    ((name, value),) = named.items()
    if type(value) in {Fraction, int} and value > 0 and max(map(int.bit_length, value.as_integer_ratio())) < 300:
        return value  # well within the range of doubles
    positive(**named)
    if not _LEAST <= value <= _MOST:
        shown = float(value) if Fraction(1, 10**300) < value < 10**300 else "a number"
        raise ParameterError(name, shown, "must lie between 1e-100 and 1e100 to be computed with")
    return value


def sampling_rate(**named: Fraction) -> Fraction:
    """A sampling rate in (0, 1] whose distance to 0 and to 1 is a float: 1 itself, or from 1e-300 to 1 - 2^-53.

    >>> sampling_rate(rate=Fraction(1))
    Fraction(1, 1)
    """
    ((name, value),) = named.items()
    if value == 1:
        return value
    open_probability(**named)
    if not Fraction(1, 10**300) <= value <= 1 - Fraction(1, 2**53):
        raise ParameterError(
            name, "a rate", "is nearer to 0 or to 1 than floating point resolves", remedy="write 1 for everyone"
        )
    return value


def non_negative(**named: N) -> N:
    """A finite number, 0 or above."""
    return _number(named, partial(le, 0), "must not be negative")


def probability(**named: N) -> N:
    """A number in [0, 1], ends included."""
    return _number(named, lambda value: 0 <= value <= 1, "must lie in [0, 1]")


def open_probability(**named: N) -> N:
    """A number in (0, 1), ends excluded."""
    ((_, value),) = named.items()
    if type(value) is Fraction and 0 < value.numerator < value.denominator:  # without Fraction's own comparisons
        return value
    return _number(named, lambda value: 0 < value < 1, "must lie strictly between 0 and 1")


def integer(*, at_least: int, **named: int) -> int:
    """A whole number not below a limit. NumPy integers are accepted, booleans and floats are not.

    Args:
        at_least: The least allowed number.
        named: The number, by the name of its parameter.

    Returns:
        The number.

    Raises:
        ParameterError: It is no such number.

    >>> integer(at_least=1, rows_per_unit=0)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: rows_per_unit=0 must be a whole number, at least 1
    """
    ((name, value),) = named.items()
    if type(value) is int and value >= at_least:
        return value
    whole: object = value  # the annotation is a promise, not yet a fact
    if isinstance(whole, bool) or not isinstance(whole, Integral) or value < at_least:
        raise ParameterError(name, value, f"must be a whole number, at least {at_least}")
    return int(value)


def several(**named: object) -> tuple[object, ...]:
    """A sequence of values: no text, no mapping and no single number.

    >>> several(orders=[2, 4])
    (2, 4)
    >>> several(orders=2)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: orders=2 must be a list of values
    """
    ((name, values),) = named.items()
    if isinstance(values, str | bytes | Mapping | type) or not isinstance(values, Iterable):
        raise ParameterError(name, values, "must be a list of values")
    return tuple(values)


def made_of(kind: type[T] | tuple[type[T], ...], description: str, **named: object) -> T:
    """A value of one class, or of one of several.

    Args:
        kind: The class or classes.
        description: The class in words, for the refusal.
        named: One value by its name.

    >>> made_of(Fraction, "a fraction", share=0.5)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: share=0.5 must be a fraction
    """
    ((name, value),) = named.items()
    if not isinstance(value, kind):
        raise ParameterError(name, value, f"must be {description}")
    return value


def one_of(choices: Collection[T], **named: T) -> T:
    """One of a few named choices.

    Args:
        choices: The choices.
        named: The value, by the name of its parameter.

    Returns:
        The value.

    Raises:
        ParameterError: It is none of the choices.
    """
    ((name, value),) = named.items()
    if value not in choices:
        raise ParameterError(name, value, "must be one of " + ", ".join(map(repr, choices)))
    return value


def text(*, at_least: int, at_most: int, **named: str) -> str:
    """Text that can be stored and shown: printable, of limited length, and valid UTF-8.

    Args:
        at_least: The least number of characters.
        at_most: The most characters.
        named: The text, by the name of its parameter.

    Returns:
        The text.

    Raises:
        ParameterError: It is no such text.

    >>> text(name="purchases", at_least=1, at_most=200)
    'purchases'
    >>> text(name="", at_least=1, at_most=200)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: name='' must be text of 1 to 200 printable characters
    """
    ((name, value),) = named.items()
    words: object = value  # the annotation is a promise, not yet a fact
    if not isinstance(words, str) or not at_least <= len(words) <= at_most or not words.isprintable():
        raise ParameterError(name, value, f"must be text of {at_least} to {at_most} printable characters")
    return str(words)


def needed(extra: str, *modules: str) -> list[Any]:
    """Import the modules of an extra.

    Args:
        extra: The extra's name in `pip install "neartwin[...]"`.
        modules: The modules' full names.

    Raises:
        ParameterError: A module is missing, or lacks a library of the system.

    >>> [module.__name__ for module in needed("web", "json", "html.parser")]
    ['json', 'html.parser']
    """
    try:
        return [import_module(name) for name in modules]
    except (ImportError, OSError):
        raise ParameterError("extra", extra, "is not installed", remedy=f"pip install 'neartwin[{extra}]'") from None


def writable(*, endings: Sequence[str] = (), **named: str | PathLike[str]) -> Path:
    """A file that can be written: its folder is there, it is no folder itself, and its format has its package.

    Args:
        endings: The endings of the formats; () for any.
        named: The path, by the name of its parameter.

    Returns:
        The path.

    Raises:
        ParameterError: It cannot be written.

    >>> writable(path="/nowhere/orders.csv")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: path='/nowhere/orders.csv' must lie in a writable folder; write 'orders.csv'
    """
    ((name, given),) = named.items()
    path = Path(given)
    if endings and path.suffix.lower() not in endings:
        remedy = f"write {str(path.with_suffix('.csv' if '.csv' in endings else endings[0]))!r}"
        raise ParameterError(name, str(given), f"must end in {', '.join(endings)}", remedy=remedy)
    if path.suffix.lower() == ".xlsx":
        needed("excel", "openpyxl")
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise ParameterError(name, str(given), "must lie in a writable folder", remedy=f"write {path.name!r}")
    return path
