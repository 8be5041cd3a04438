"""A usage written in a line: `gaussian(sigma=20) * 1000 + laplace(epsilon=0.1) * 10`.

Python's own parser reads the text, and an allow-list walks its tree. Allowed are calls of the names below with keywords, `+`,
`*`, numbers and their quotients. Nothing is evaluated. Numbers are read as they are written: 0.1 is one tenth, 1/3 a third.
"""

import ast
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from inspect import signature
from typing import Any

from neartwin import losses
from neartwin.accounting.usage import Sequential, Usage, for_group, parallel, repeated, sequential, subsample, use
from neartwin.checks import positive
from neartwin.errors import ParameterError
from neartwin.interactive import suggested
from neartwin.losses.composition import PrivacyLoss

LONGEST = 10_000
_KNOWN: Mapping[str, Callable[..., Any]] = {
    "approx": losses.Approx,
    "discrete_gaussian": losses.DiscreteGaussian,
    "exponential": losses.BoundedRange,
    "gaussian": losses.Gaussian,
    "gdp": losses.Gaussian,
    "geometric": losses.Geometric,
    "laplace": losses.Laplace,
    "leak": losses.Leak,
    "pure": losses.Pure,
    "random_allocation": losses.RandomAllocation,
    "randomized_response": losses.RandomizedResponse,
    "staircase": losses.Staircase,
    "subsampled_gaussian": losses.SubsampledGaussian,
    "subsampled_laplace": losses.SubsampledLaplace,
    "zcdp": losses.ZeroConcentrated,
    "group": for_group,
    "parallel": parallel,
    "sampled": subsample,
}
_NOISE = {"mu": "sigma", "epsilon": "scale"}  # which may be stated, with the sensitivity, for a distance in its units
_BY_NOISE = {"gaussian", "laplace", "random_allocation", "subsampled_gaussian", "subsampled_laplace"}
_PARTS = {"parallel": LONGEST, "sampled": 1, "group": 1}  # usages that it takes, at most
NAMES = tuple(_KNOWN)


def _put_in_units_of_noise(given: dict[str, Fraction | int], own: str) -> None:
    """State how far one unit moves the answer as `own`, where it is given as noise and sensitivity."""
    noise = _NOISE[own]
    if own in given and (twice := [one for one in (noise, "sensitivity") if one in given]):
        raise ParameterError("expression", own, f"is given beside {twice[0]}: give one or the other")
    if noise in given:
        given[own] = given.pop("sensitivity", 1) / positive(**{noise: Fraction(given.pop(noise))})


def parse(text: str) -> Usage:
    """The spend that a line of text describes.

    Errors: `ParameterError` that points at what is not allowed.

    >>> from neartwin.accounting.usage import cost
    >>> done = parse("laplace(epsilon=0.05) * 50 + gaussian(sigma=10) * 50 + 20 * randomized_response(epsilon=0.3)")
    >>> cost(done).epsilon("1e-6").upper
    7.56659362081...
    >>> parse("__import__('os')")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: expression="__import__('os')" ...
    """
    written: object = text  # the annotation is a promise, not yet a fact
    if not isinstance(written, str) or not 0 < len(text) <= LONGEST:
        raise ParameterError("expression", str(text)[:80], f"must be text of 1 to {LONGEST} characters")
    try:
        usage = _Reader(text.strip()).read(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        if isinstance(fault, ParameterError):
            raise
        raise ParameterError("expression", text[:80], "cannot be read", remedy=_EXAMPLE) from None
    if isinstance(usage, Fraction):
        raise ParameterError("expression", text[:80], "is a number, not a mechanism", remedy=_EXAMPLE)
    return usage


_EXAMPLE = 'write "gaussian(sigma=20) * 1000 + laplace(epsilon=0.1) * 10"'


class _Reader:
    """Walks the tree of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: ast.expr) -> Usage | Fraction:
        match node:
            case ast.Constant():
                return self._number(node)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as inner):
                return -self._number(inner)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._sum(node, self.read(left), self.read(right))
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._product(node, self.read(left), self.read(right))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                over, under = self.read(left), self.read(right)
                if isinstance(over, Fraction) and isinstance(under, Fraction) and under:
                    return over / under
                raise self._refused(node, "only numbers divide, and not by 0")
            case ast.Call(func=ast.Name(id=name)):
                return self._call(node, name)
            case _:
                raise self._refused(node, "is not allowed here")

    def _sum(self, node: ast.expr, one: Usage | Fraction, two: Usage | Fraction) -> Usage | Fraction:
        if isinstance(one, Fraction) or isinstance(two, Fraction):
            if isinstance(one, Fraction) and isinstance(two, Fraction):
                return one + two
            raise self._refused(node, "adds a number and a mechanism")
        return sequential(*(one.parts if isinstance(one, Sequential) else (one,)), two)

    def _product(self, node: ast.expr, one: Usage | Fraction, two: Usage | Fraction) -> Usage | Fraction:
        if isinstance(one, Fraction) and isinstance(two, Fraction):
            return one * two
        count, each = (one, two) if isinstance(one, Fraction) else (two, one)
        if not isinstance(count, Fraction) or isinstance(each, Fraction):
            raise self._refused(node, "multiplies two mechanisms; repeat with a whole number, join with +")
        if count.denominator != 1:
            raise self._refused(node, f"repeats {float(count):g} times; give a whole number")
        return repeated(each, int(count))

    def _call(self, node: ast.Call, name: str) -> Usage:
        if name not in NAMES:
            near = suggested(name, NAMES)
            raise self._refused(
                node, f"calls {name!r}; " + (f"write {near}" if near else f"known are {', '.join(NAMES)}")
            )
        given: dict[str, Fraction | int] = {}
        for keyword in node.keywords:
            value = self.read(keyword.value)
            if keyword.arg is None or keyword.arg in given or not isinstance(value, Fraction):
                raise self._refused(node, "takes numbers by name, each once, such as epsilon=0.1")
            given[keyword.arg] = int(value) if value.denominator == 1 else value
        parts = [self.read(argument) for argument in node.args]
        if any(isinstance(part, Fraction) for part in parts):
            raise self._refused(node, "takes its numbers by name, such as epsilon=0.1")
        most = _PARTS.get(name, 0)
        if not min(1, most) <= len(parts) <= most:
            raise self._refused(node, ("takes no parts", "takes one part", "takes parts")[min(most, 2)])
        wanted = [one for one in signature(_KNOWN[name]).parameters.values() if one.name not in {"inner", "parts"}]
        own = wanted[0].name if name in _BY_NOISE else ""
        if own:
            _put_in_units_of_noise(given, own)
        for one in wanted:
            if one.name not in given and one.default is one.empty:
                other = f", or {_NOISE[own]}=... and sensitivity=..." if one.name == own else ""
                raise ParameterError("expression", one.name, f"is missing: give {one.name}=...{other}")
        if unknown := given.keys() - {one.name for one in wanted}:
            raise self._refused(node, f"does not know {', '.join(map(repr, sorted(unknown)))}")
        made = _KNOWN[name](*parts, **given)
        return use(made) if isinstance(made, PrivacyLoss) else made

    def _number(self, node: ast.Constant) -> Fraction:
        """Exactly as written; Python's own reading tells first that it is in the range of a float."""
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._refused(node, "is no number")
        if isinstance(value, int):
            return Fraction(value)
        written = (ast.get_source_segment(self.text, node) or "").replace("_", "")
        if not math.isfinite(value) or (value == 0 and any(digit in "123456789" for digit in written.split("e")[0])):
            raise self._refused(node, "is outside the range of a float")
        return Fraction(written)

    def _refused(self, node: ast.expr, why: str) -> ParameterError:
        part = ast.get_source_segment(self.text, node) or self.text
        return ParameterError("expression", part[:80], why, remedy=_EXAMPLE)
