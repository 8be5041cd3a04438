"""Help at a prompt: names and calls that are not there are refused with the line to write, and values show as text.

`habits.toml` has names of pandas, Polars, SQL and other privacy libraries; a near spelling is found. Lines have the
caller's own arguments, and name variables as the README does: rows, query, account, proposal, release.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import cache, partialmethod, wraps
from html import escape
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import FunctionType
from typing import Any, Never, ParamSpec, TypeVar

from neartwin.errors import NeartwinError, UsageError

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
_VARIABLES: dict[type, str] = {}  # how the README names a value of the class


@cache
def _habits() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("habits.toml").read_text(encoding="utf-8"))


def variable(value: object) -> str:
    """The value as a caller would write it: its literal, or the README's name of such a value.

    >>> variable([1, 2]), variable(len)
    ('[1, 2]', 'len')
    """
    if isinstance(value, str | int | float | list | tuple | dict | None) and len(repr(value)) <= 80:
        return repr(value)
    if type(value) not in _VARIABLES and hasattr(value, "parts"):  # a budget
        parts = ", ".join(f"{name}={_exact(part)!r}" for name, part in value.parts.items())
        return f"nt.{type(value).__name__.lower()}({parts})"
    return _VARIABLES.get(type(value)) or str(getattr(value, "__name__", type(value).__name__.lower()))


def _exact(amount: Fraction) -> str:
    """The amount as a decimal of at most 28 digits if one is equal to it, else as a fraction."""
    decimal = Decimal(amount.numerator) / Decimal(amount.denominator)
    return str(decimal if Fraction(decimal) == amount else amount)


def suggested(name: str, known: Iterable[str]) -> str:
    """The known name that is nearest to another in spelling, or an empty text.

    >>> suggested("Amuont", ["amount", "age"])
    'amount'
    """
    spelled = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), spelled, n=1)
    return spelled[near[0]] if near else ""


def instead(section: str, name: str, *parts: str, **examples: str) -> str:
    """Why a name of habit is not there, and what to write; an empty text for other names.

    Args:
        section: The section of the habits.
        name: The name.
        parts: Its arguments, as written.
        examples: Texts in the line.

    >>> instead("statistics", "mean", "amount")
    'a mean is called AVG; write AVG(amount)'
    """
    for names, (why, line) in _habits()[section].items():
        if name in names.split() and ("{1}" not in line or len(parts) > 1):
            return f"{why}; write {line.format(*parts, **examples)}"
    return ""


def mending(faults: str, spelled: Callable[[str], str], **examples: str) -> list[str]:
    """What mends the first fault of each kind that a text lists.

    Args:
        faults: The faults, one a line.
        spelled: The spelling of a column in a question.
        examples: Texts in the lines of the habits.

    >>> mending("v.csv, line 2: 'paid' is 'ja', and no boolean", str)
    ["leave paid untyped, and in questions write paid = 'ja'"]
    """
    found = [(line, re.search(fault, faults)) for fault, line in _habits()["odd"].items()]
    parts = ((line, one.groupdict()) for line, one in found if one)
    return [line.format(**examples, **{name: spelled(part) for name, part in given.items()}) for line, given in parts]


def unknown_name(owner: str, name: str, known: list[str], *, habit: str = "", **examples: str) -> UsageError:
    """The refusal of a name that a value or the package does not have.

    Args:
        owner: The variable.
        name: The name.
        known: The names that are there.
        habit: The name under which the habits have it, if it is another.
        examples: Texts in the lines of the habits.
    """
    asked = {"__getitem__": f"{owner}[...]", "__len__": f"len({owner})"}.get(name, f"{owner}.{name}")
    if remedy := instead(owner, habit or name, **examples):
        return UsageError(f"{asked} is not there: {remedy}")
    near = suggested(name, known)
    known_names = f"write {owner}.{near}" if near else f"there are {', '.join(known)}"
    return UsageError(f"{asked} is not there; {known_names}")


def explained_call(function: Callable[P, R], name: str) -> Callable[P, R]:
    """The function, which refuses arguments that do not fit its signature with the line to write.

    Args:
        function: The function.
        name: Its name in the line.
    """

    @wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            return function(*args, **named)
        except TypeError:
            shape = signature(function)
            try:
                shape.bind(*args, **named)
            except TypeError as fault:
                why = str(fault)
            else:
                raise
        line = f"{name}({_corrected(shape, args, dict(named))})"
        for names, (reason, better) in _habits()["calls"].items():
            if {name, *(f"{name}.{one}" for one in named)} & set(names.split()):
                why, line = reason, better or line
        raise UsageError(f"{name}(): {why}; write {line}") from None

    return call


def argument(name: str, known: Collection[str]) -> tuple[str, str]:
    """The argument that a caller means by a name, and its text with {0} for the value; empty if none is near.

    >>> argument("max_rows", ["max_groups", "rows"])
    ('rows', '{0}')
    """
    for template in (f"{name}={{0}}", *_habits()["arguments"].get(name, ()), f"{suggested(name, known)}={{0}}"):
        key, _, text = template.partition("=")
        if key in known:
            return key, text
    return "", ""


def _corrected(shape: Signature, args: tuple[object, ...], named: dict[str, object]) -> str:
    """The arguments in the places and under the names that the signature has, with examples of those that lack."""
    parameters = {name: one for name, one in shape.parameters.items() if name != "self"}
    args = args[len(shape.parameters) - len(parameters) :]
    places = sum(one.kind is Parameter.POSITIONAL_OR_KEYWORD for one in parameters.values())
    if any(one.kind is Parameter.VAR_POSITIONAL for one in parameters.values()):
        places = len(args)
    single = [(name, one) for name, one in parameters.items() if one.kind is not Parameter.VAR_POSITIONAL]
    lacking = [name for name, one in single if one.default is Parameter.empty][len(args[:places]) :]
    by_name = [name for name, one in parameters.items() if one.kind is Parameter.KEYWORD_ONLY and name not in named]
    given = dict(zip([*lacking, *by_name], map(variable, args[places:]), strict=False))
    for name, value in named.items():
        key, text = argument(name, parameters)
        if key:
            given[key] = text.format(variable(value), value)
    given = {name: _habits()["examples"].get(name, name) for name in lacking} | given
    return ", ".join([*map(variable, args[:places]), *(f"{name}={text}" for name, text in given.items())])


def at_a_prompt(
    owner: str, examples: Callable[[Any, str], Mapping[str, str]] = lambda *_: {}
) -> Callable[[type[T]], type[T]]:
    """Refuse names and calls that the class does not have with the line to write.

    Names that start with an underscore stay Python's: copies, pickles and notebooks look for them. Type checkers see
    the class as it is.

    Args:
        owner: The README's variable for a value of the class.
        examples: Texts in the lines of the habits, from the value and the wanted name.
    """

    def explain(kind: type[T]) -> type[T]:
        _VARIABLES[kind] = owner
        known = [name for name in dir(kind) if not name.startswith("_")]

        def refuse(self: T, name: str) -> Never:
            if name.startswith("_") or name in known:
                raise AttributeError(name)
            try:
                self[name]  # type: ignore[index]  # the class has items, or refuses them
            except NeartwinError:
                raise unknown_name(owner, name, known, **examples(self, name)) from None
            raise UsageError(f"{owner}.{name} is not there: it stands under its name; write {owner}[{name!r}]")

        def refuse_special(self: T, name: str, key: object = "") -> Never:
            raise unknown_name(owner, name, known, **examples(self, str(key)))

        for name, value in list(vars(kind).items()):
            if isinstance(value, FunctionType) and not name.startswith("_"):
                setattr(kind, name, explained_call(value, f"{owner}.{name}"))
        for special in {"__getitem__", "__len__"} - set(dir(kind)):
            setattr(kind, special, partialmethod(refuse_special, special))
            kind.__bool__ = lambda _: True  # type: ignore[attr-defined]
        kind.__getattr__ = refuse  # type: ignore[attr-defined]
        if not hasattr(kind, "_repr_html_"):
            kind._repr_html_ = lambda self: f"<pre>{escape(repr(self))}</pre>"  # type: ignore[attr-defined]
        return kind

    return explain


def shown_as_text(kind: type[T]) -> type[T]:
    """Show a value of the class as its text in a shell and in a notebook."""
    kind.__repr__ = kind.__str__  # type: ignore[method-assign]
    kind._repr_html_ = lambda self: f"<pre>{escape(str(self))}</pre>"  # type: ignore[attr-defined]
    return kind


_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""A text with a mark in the place of each character that steers a terminal, or turns the direction of writing.

    >>> visible("\x1b[31mred")
    '�[31mred'
    """
    return _STEERING.sub("\ufffd", text)


def aligned(lines: Sequence[Sequence[str]], texts: int) -> list[str]:
    """Lines of cells as lines of text, with the first columns to the left and the others to the right.

    Args:
        lines: The cells of the header and of each row.
        texts: The number of columns to the left.
    """
    columns = []
    for place, column in enumerate(zip(*[map(visible, line) for line in lines], strict=True)):
        width = max(map(len, column))
        columns.append([cell.ljust(width) if place < texts else cell.rjust(width) for cell in column])
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def html_table(lines: Sequence[Sequence[str]], texts: int) -> str:
    """Lines of cells as a table of HTML. Notebooks would align all cells to the right.

    Args:
        lines: The cells of the header and of each row.
        texts: The number of columns to the left.
    """
    sides = ["left"] * texts + ["right;white-space:nowrap"] * (len(lines[0]) - texts)
    head, *rows = (
        "".join(f'<td style="text-align:{side}">{escape(cell)}</td>' for side, cell in zip(sides, line, strict=True))
        for line in lines
    )
    head = head.replace("<td", "<th").replace("/td>", "/th>")
    return f"<table><thead><tr>{head}</tr></thead><tbody><tr>{'</tr><tr>'.join(rows)}</tr></tbody></table>"


class Amounts(dict[str, Fraction]):
    """Exact amounts by name, shown as people write them.

    >>> from fractions import Fraction
    >>> Amounts(epsilon=Fraction(1, 3), delta=Fraction(99, 10**8))
    {'epsilon': 1/3, 'delta': 9.9E-7}
    """

    __slots__ = ()

    def __call__(self) -> Never:
        """Refuse the parentheses."""
        raise UsageError("amounts are a value, and no function; write account.remaining, or account.spent")

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {_exact(amount)}' for name, amount in self.items())}}}"
