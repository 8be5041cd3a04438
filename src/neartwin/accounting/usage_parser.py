"""A usage written in a line: `gaussian(sigma=20) * 1000 + laplace(epsilon=0.1) * 10`.

Python's own parser reads the text, and an allow-list walks its tree. Allowed are calls of the names below with keywords, `+`,
`*`, numbers and their quotients. Nothing is evaluated. Numbers are read as they are written: 0.1 is one tenth, 1/3 a third.
"""

import ast
import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from neartwin import losses
from neartwin.accounting.usage import Usage, for_group, parallel, repeated, sequential, subsample, use
from neartwin.checks import positive
from neartwin.errors import ParameterError
from neartwin.interactive import suggested
from neartwin.losses.composition import PrivacyLoss

LONGEST = 10_000
Given = dict[str, Fraction]


def _distance(arguments: Given, noise: str, own: str) -> Fraction:
    """How far one unit moves the answer in units of the noise: stated as `own`, or as noise and sensitivity."""
    if own in arguments:
        if twice := [name for name in (noise, "sensitivity") if name in arguments]:
            raise ParameterError("expression", own, f"is given beside {twice[0]}: give one or the other")
        return arguments.pop(own)
    if noise not in arguments:
        raise ParameterError("expression", own, f"is missing: give {own}=..., or {noise}=... and sensitivity=...")
    return arguments.pop("sensitivity", Fraction(1)) / positive(**{noise: arguments.pop(noise)})


def _whole(arguments: Given, name: str, default: int | None = None) -> int:
    value = _take(arguments, name) if default is None else arguments.pop(name, Fraction(default))
    if value.denominator != 1:
        raise ParameterError(name, str(value), "must be a whole number")
    return int(value)


def _take(arguments: Given, name: str) -> Fraction:
    if name not in arguments:
        raise ParameterError("expression", name, f"is missing: give {name}=...")
    return arguments.pop(name)


_FACTORS: Mapping[str, Callable[[Given], PrivacyLoss]] = {
    "gaussian": lambda g: losses.Gaussian(mu=_distance(g, "sigma", "mu")),
    "laplace": lambda g: losses.Laplace(epsilon=_distance(g, "scale", "epsilon")),
    "geometric": lambda g: losses.Geometric(epsilon=_take(g, "epsilon"), sensitivity=_whole(g, "sensitivity", 1)),
    "staircase": lambda g: losses.Staircase(
        epsilon=_take(g, "epsilon"), sensitivity=_whole(g, "sensitivity"), step=_whole(g, "step")
    ),
    "discrete_gaussian": lambda g: losses.DiscreteGaussian(
        sigma2=_take(g, "sigma2"), sensitivity=_whole(g, "sensitivity", 1)
    ),
    "randomized_response": lambda g: losses.RandomizedResponse(
        epsilon=_take(g, "epsilon"), answers=_whole(g, "answers", 2)
    ),
    "exponential": lambda g: losses.BoundedRange(epsilon=_take(g, "epsilon")),
    "pure": lambda g: losses.Pure(epsilon=_take(g, "epsilon")),
    "approx": lambda g: losses.Approx(epsilon=_take(g, "epsilon"), delta=_take(g, "delta")),
    "gdp": lambda g: losses.Gaussian(mu=_take(g, "mu")),
    "zcdp": lambda g: losses.ZeroConcentrated(rho=_take(g, "rho")),
    "leak": lambda g: losses.Leak(delta=_take(g, "delta")),
    "subsampled_gaussian": lambda g: losses.SubsampledGaussian(mu=_distance(g, "sigma", "mu"), rate=_take(g, "rate")),
    "random_allocation": lambda g: losses.RandomAllocation(mu=_distance(g, "sigma", "mu"), steps=_whole(g, "steps")),
    "subsampled_laplace": lambda g: losses.SubsampledLaplace(
        epsilon=_distance(g, "scale", "epsilon"), rate=_take(g, "rate")
    ),
}
_SPENDS: Mapping[str, tuple[str, Callable[[tuple[Usage, ...], Given], Usage]]] = {
    "parallel": ("parts", lambda parts, _: parallel(*parts)),
    "sampled": ("one part and rate=...", lambda parts, g: subsample(parts[0], _take(g, "rate"))),
    "group": ("one part and size=...", lambda parts, g: for_group(parts[0], _whole(g, "size"))),
}
NAMES = (*sorted(_FACTORS), *sorted(_SPENDS))


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
        return sequential(one, two)

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
        arguments: Given = {}
        for keyword in node.keywords:
            value = self.read(keyword.value)
            if keyword.arg is None or not isinstance(value, Fraction):
                raise self._refused(node, "takes numbers by name, such as epsilon=0.1")
            arguments[keyword.arg] = value
        usage = self._construct(node, name, arguments)
        if arguments:
            raise self._refused(node, f"does not know {', '.join(map(repr, arguments))}")
        return usage

    def _construct(self, node: ast.Call, name: str, arguments: Given) -> Usage:
        if name in _FACTORS:
            if node.args:
                raise self._refused(node, "takes its numbers by name, such as epsilon=0.1")
            return use(_FACTORS[name](arguments))
        wants, make = _SPENDS[name]
        read = [self.read(argument) for argument in node.args]
        parts = tuple(part for part in read if not isinstance(part, Fraction))
        if len(parts) < len(read) or not parts or (name != "parallel" and len(parts) != 1):
            raise self._refused(node, f"takes {wants}")
        return make(parts, arguments)

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
