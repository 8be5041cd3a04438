"""Aggregate functions of SQL, each as the statistic that it asks for. A statistic registers its own functions."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlglot import exp

from neartwin.statistics.base import Statistic
from neartwin.tables.expressions import parts_of

Named = tuple[str, Statistic]  # with the name of a column without AS


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function.

    Attributes:
        function: Its name, in upper case.
        arguments: Its arguments, parsed.
        units: The columns of units, as DISTINCT may name them.
    """

    function: str
    arguments: tuple[exp.Expr, ...]
    units: Collection[object]

    @property
    def columns(self) -> tuple[str, ...]:
        """The arguments as columns and expressions of one row; empty where one is neither."""
        return tuple(map(spelling, self.arguments)) if all(map(is_value, self.arguments)) else ()


Reader = Callable[[Call], Named | None]
FUNCTIONS: dict[str, Reader] = {}
SPELLINGS: dict[str, None] = {}  # the functions that messages list, in the order of registration


def function(*names: str, spelled: str = "") -> Callable[[Reader], Reader]:
    """Register a reader of these functions.

    Args:
        names: The names, in upper case.
        spelled: The spelling for messages; "" for none.

    Returns:
        A decorator.
    """

    def register(read: Reader) -> Reader:
        FUNCTIONS.update(dict.fromkeys(names, read))
        if spelled:
            SPELLINGS[spelled] = None
        return read

    return register


def of_columns(name: str, prefix: str, make: Callable[..., Statistic], *arguments: str, spelled: str = "") -> None:
    """Register a function of columns alone, released as prefix_column.

    Args:
        name: The name in SQL, in upper case.
        prefix: The prefix of the released column.
        make: The constructor of the statistic.
        arguments: The names of its arguments.
        spelled: Its name in a message, if that is another.
    """

    @function(name, spelled=f"{spelled or name}({', '.join(arguments)})")
    def read(call: Call) -> Named | None:
        columns = call.columns
        return ("_".join((prefix, *columns)), make(*columns)) if len(columns) == len(arguments) else None


def statistic_of(node: exp.Expr, units: Collection[object]) -> Named | None:
    """The statistic of a parsed expression, and its name.

    Args:
        node: The parsed expression.
        units: The columns of units.

    Returns:
        The statistic and its name, or None if it is no statistic.
    """
    call = _call(node, units)
    read = FUNCTIONS.get(call.function)
    return None if read is None else read(call)


def _call(node: exp.Expr, units: Collection[object]) -> Call:
    if isinstance(node, exp.Anonymous):
        return Call(str(node.this).upper(), tuple(node.expressions), units)
    return Call(node.sql_name() if isinstance(node, exp.Func) else "", tuple(parts_of(node)), units)


def is_value(node: exp.Expr | None) -> bool:
    """Whether a node can be summed: an expression of one row. The table's schema is checked later.

    Args:
        node: The node; None for a missing argument.

    Returns:
        True or False.
    """
    return (
        node is not None
        and not isinstance(node, exp.Distinct | exp.Star)
        and not (isinstance(node, exp.Column) and node.table)
    )


def spelling(node: exp.Expr) -> str:
    """A column's name, or an expression as SQL writes it."""
    return node.name if isinstance(node, exp.Column) else node.sql(dialect="duckdb", comments=False)
