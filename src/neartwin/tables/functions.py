"""Functions of one row, from the table `functions.toml`: how each is written, what it takes, its value on every engine.

NULL in any argument gives NULL, unless a function's meaning says otherwise. Text is cut to its first 65,536 letters
before an operation that needs room for its value. Without the cut, a text of a gigabyte could make PostgreSQL fail.

Regular expressions are those that mean the same in RE2, PostgreSQL and Java. Groups are not repeated, so Java's stack
stays small. At most three atoms repeat without end, over 1,000 letters, so its search stays short. A pattern has at most
2,000 atoms, so that it compiles.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from neartwin.tables.terms import Term
from neartwin.tables.types import ColumnType

_CLASS = r"""\[\^?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9 _.,:;/@%=#!'"<>+*?()$])+-?\]"""
_ATOM = rf"(?:{_CLASS}|\\[].\\/[(){{}}*+?|^$dws-]|[^]\\[(){{}}*+?|^$])"
_PIECE = rf"{_ATOM}(?:[*+?]|{{[0-9]{{1,2}}(?:,[0-9]{{1,2}})?}})?"
_GROUP = rf"\((?:\?:)?(?:{_PIECE})*(?:\|(?:{_PIECE})*)*\)\??"
_WRITTEN = {r"\d": "[0-9]", r"\w": "[A-Za-z0-9_]", r"\s": "[ \t\n\r\f\v]", ".": "[^\n]"}
_BRIEF = frozenset({"literal", "substr", "right", "trim", "ltrim", "rtrim", "inttext", "datetext", "timetext"})
# Letters with one counterpart, the same in every version of Unicode: Latin-1, Latin Extended-A, Greek, Cyrillic
_SMALL_LETTERS = [
    letter
    for letter in map(chr, (*range(0x180), *range(0x370, 0x530)))
    if letter != letter.upper() and letter.upper().lower() == letter and letter.upper() < chr(0x530)
]
SMALL = "".join(_SMALL_LETTERS)
CAPITAL = SMALL.upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFunction:
    """A function of one row; the head of `functions.toml` explains each attribute."""

    takes: str
    spelling: str = ""
    meaning: str = ""
    body: str = ""
    operation: str = ""
    kind: str = "number"
    guards: tuple[str, ...] = ()
    any: str = ""
    duckdb: str = ""
    postgres: str = ""
    spark: str = ""
    ends: tuple[float, ...] = ()

    def spelled(self, dialect: str) -> str:
        """The operation as an engine writes it."""
        return str(getattr(self, dialect)) or self.any or self.operation


_TABLE = tomllib.loads(Path(__file__).with_name("functions.toml").read_text(encoding="utf-8"))
LETTERS: Mapping[str, list[str]] = _TABLE.pop("letters")  # the types of what a letter takes
FUNCTIONS: Mapping[str, RowFunction] = {name: RowFunction(**entry) for name, entry in _TABLE.items()}
OPERATIONS = {function.operation: function for function in FUNCTIONS.values()}


def brief(text: Term, most: int) -> Term:
    """A text, or its first letters where it may have more.

    Args:
        text: The text.
        most: The number of letters.

    Returns:
        The term.
    """
    return text if text.operation in _BRIEF and most > 1000 else Term("substr", ColumnType.TEXT, (text,), (1, most))


def regular(pattern: str) -> tuple[str, str] | None:
    r"""A regular expression as all engines read it, and "$" where it is tied to the end; None for one that they may not.

    >>> regular(r"^\d+ (?:km|mi)$"), regular("(a+)+")
    (('^[0-9]+ (?:km|mi)', '$'), None)
    """
    tokens = re.findall(f"{_CLASS}|\\\\.|.", pattern, re.DOTALL)
    if len(pattern) + sum(map(int, re.findall(r"(?:[{,])([0-9]+)", pattern))) > 2000:  # with repeats written out
        return None
    if not re.fullmatch(rf"\^?(?:{_PIECE}|{_GROUP})*\$?", pattern) or sum(token in {"*", "+"} for token in tokens) > 3:
        return None
    try:
        re.compile(pattern)
    except re.error:  # such as [z-a] and {3,2}
        return None
    end = tokens.pop() if tokens and tokens[-1] == "$" else ""
    return "".join(_WRITTEN.get(token, token) for token in tokens), end


def is_unique(pattern: str) -> bool:
    r"""Whether the rules of Perl and of POSIX find the same match. Both start as far left as they can, and repeat pieces as
    often as they can.

    A match that is tied to the end has one length, and both rules prefer earlier pieces. Else one piece may vary, of which the
    most letters make the longest match.

    >>> is_unique("@([^.]+)[.]"), is_unique("a?(ab)?"), is_unique("a?(ab)?$"), is_unique("(a|ab)")
    (True, False, True, False)
    """
    tokens = re.findall(rf"{_PIECE}|\)\?|.", pattern, re.DOTALL)
    vary = [one for one in tokens if one == ")?" or re.fullmatch(rf"{_ATOM}(?:[*+?]|{{[0-9]+,[0-9]*}})", one)]
    return "|" not in tokens and (tokens[-1:] == ["$"] or len(vary) < 2)


REGULAR: Mapping[str, Callable[[str], object]] = {  # what a letter asks of a regular expression
    "P": lambda _: True,
    "Q": lambda pattern: pattern.startswith("^") and is_unique(pattern) and (regular(pattern) or "")[1:] == ("$",),
    "U": is_unique,
    "V": lambda pattern: is_unique(pattern) and not re.fullmatch(pattern, ""),
}
