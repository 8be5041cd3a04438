"""Row expressions: total, row-local SQL, checked against the schema through an allow-list.

Total means: no value in a row can make it fail. A failing query would tell that such a row exists, so there is no division,
no cast that can fail and no comparison across types; arithmetic is in double precision, where overflow is infinity.
User text is never passed through: it is parsed to a tree, checked node by node, and written again by each engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neartwin.errors import QueryError
from neartwin.queries.types import NUMERIC, ColumnType

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)
_LARGEST_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RowExpression:
    """A checked expression: its canonical text (DuckDB's spelling) and the type of its value.

    >>> RowExpression.parse("amount * 2 >= 10 AND cds IN (1, 2)", {"amount": ColumnType.NUMBER, "cds": ColumnType.INTEGER})
    RowExpression(text='amount * 2 >= 10 AND cds IN (1, 2)', type=<ColumnType.BOOLEAN: 'boolean'>)
    >>> RowExpression.parse("1 / amount", {"amount": ColumnType.NUMBER})
    Traceback (most recent call last):
    neartwin.errors.QueryError: '1 / amount' is not allowed in a row expression: Div could fail on some row, or is ...
    """

    text: str
    type: ColumnType

    @classmethod
    def parse(cls, text: str, schema: Mapping[str, ColumnType]) -> "RowExpression":
        """Parse and check; `QueryError` says which part is refused and why."""
        try:
            tree = sqlglot.parse_one(text, read="duckdb")
        except SqlglotError:
            raise QueryError(
                f"expression {text!r} is not SQL; write for instance \"amount > 5 AND city = 'Ulm'\""
            ) from None
        return cls.checked(tree, schema)

    @classmethod
    def checked(cls, tree: exp.Expr, schema: Mapping[str, ColumnType]) -> "RowExpression":
        """The same for a tree that is parsed already."""
        kind = type_of(tree, schema)
        return cls(tree.sql(dialect="duckdb"), kind)

    @property
    def tree(self) -> exp.Expr:
        """A fresh parse of the text."""
        return sqlglot.parse_one(self.text, read="duckdb")

    @property
    def columns(self) -> frozenset[str]:
        """The columns it reads."""
        return frozenset(column.name for column in self.tree.find_all(exp.Column))

    def renamed(self, names: Mapping[str, str]) -> "RowExpression":
        """The same of columns that have other names now; what is not in `names` keeps its own."""
        tree = self.tree
        for column in tree.find_all(exp.Column):
            column.this.set("this", names.get(column.name, column.name))
            column.this.set("quoted", True)
        return RowExpression(tree.sql(dialect="duckdb"), self.type)


def type_of(  # noqa: C901, PLR0912 - one case a node of the allow-list
    node: exp.Expr, schema: Mapping[str, ColumnType]
) -> ColumnType:
    """The type of a node's value; raises `QueryError` for whatever is not on the allow-list."""
    match node:
        case exp.Paren():
            return type_of(node.this, schema)
        case exp.Column():
            return _column(node, schema)
        case exp.Boolean():
            return ColumnType.BOOLEAN
        case exp.Literal():
            return _literal(node)
        case exp.Cast():
            return _dated_literal(node)
        case exp.Neg():
            return _numeric(node, schema, [node.this])
        case exp.And() | exp.Or():
            return _boolean(node, schema, [node.this, node.expression])
        case exp.Not():
            return _boolean(node, schema, [node.this])
        case exp.Is():
            if not isinstance(node.expression, exp.Null):
                raise _refused(node, "IS takes NULL only")
            type_of(node.this, schema)
            return ColumnType.BOOLEAN
        case exp.Between():
            return _comparable(node, schema, [node.this, node.args["low"], node.args["high"]])
        case exp.In():
            if not node.expressions or not all(isinstance(_bare(item), exp.Literal) for item in node.expressions):
                raise _refused(node, "IN takes a list of literals")
            return _comparable(node, schema, [node.this, *node.expressions])
    if isinstance(node, _COMPARISONS):
        return _comparable(node, schema, [node.this, node.expression])
    if isinstance(node, _ARITHMETIC):
        return _numeric(node, schema, [node.this, node.expression])
    raise _refused(node, f"{type(node).__name__} could fail on some row, or is unknown here")


def literal_value(node: exp.Expr) -> object:
    """The Python value of a literal, signed or dated ones included."""
    if isinstance(node, exp.Neg):
        inner = literal_value(node.this)
        if isinstance(inner, int | float):
            return -inner
    if isinstance(node, exp.Paren):
        return literal_value(node.this)
    if isinstance(node, exp.Cast):
        read = date if node.to.this == exp.DataType.Type.DATE else datetime
        return read.fromisoformat(node.this.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.this
        return int(node.this) if node.is_int else float(node.this)
    raise _refused(node, "a literal is wanted")


def _refused(node: exp.Expr, why: str) -> QueryError:
    text = node.sql(dialect="duckdb")
    return QueryError(
        f"{text!r} is not allowed in a row expression: {why}; allowed are columns, literals, comparisons, AND, OR, NOT, "
        "IN, BETWEEN, IS NULL, +, - and *"
    )


def _bare(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Neg) else node


def _column(node: exp.Column, schema: Mapping[str, ColumnType]) -> ColumnType:
    if node.table:
        raise _refused(node, "write columns without a table name")
    if node.name not in schema:
        raise QueryError(f"column={node.name!r} is not in the table; it has " + ", ".join(sorted(schema)))
    if schema[node.name] is ColumnType.OTHER:
        raise QueryError(f"column={node.name!r} has a type that questions cannot use; declare one with types=")
    return schema[node.name]


def _literal(node: exp.Literal) -> ColumnType:
    if node.is_string:
        return ColumnType.TEXT
    if not node.is_int:
        return ColumnType.NUMBER
    if int(node.this) > _LARGEST_INTEGER:
        raise _refused(node, "a whole number must fit 64 bits")
    return ColumnType.INTEGER


def _dated_literal(node: exp.Cast) -> ColumnType:
    kinds = {
        exp.DataType.Type.DATE: ColumnType.DATE,
        exp.DataType.Type.TIMESTAMP: ColumnType.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPNTZ: ColumnType.TIMESTAMP,  # how DuckDB's TIMESTAMP is read
    }
    kind = kinds.get(node.to.this)
    if kind is None or not (isinstance(node.this, exp.Literal) and node.this.is_string):
        raise _refused(node, "a cast could fail on some row")
    try:
        value = literal_value(node)
    except ValueError:
        raise _refused(node, "it is no date") from None
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise _refused(node, "times have no zone: write them in UTC")
    return kind


def _numeric(node: exp.Expr, schema: Mapping[str, ColumnType], parts: list[exp.Expr]) -> ColumnType:
    if any(type_of(part, schema) not in NUMERIC for part in parts):
        raise _refused(node, "arithmetic takes numbers")
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return type_of(node.this, schema)
    return ColumnType.NUMBER


def _boolean(node: exp.Expr, schema: Mapping[str, ColumnType], parts: list[exp.Expr]) -> ColumnType:
    if any(type_of(part, schema) is not ColumnType.BOOLEAN for part in parts):
        raise _refused(node, "AND, OR and NOT take conditions")
    return ColumnType.BOOLEAN


def _comparable(node: exp.Expr, schema: Mapping[str, ColumnType], parts: list[exp.Expr]) -> ColumnType:
    kinds = {type_of(part, schema) for part in parts}
    if not (len(kinds) == 1 or kinds <= NUMERIC):
        words = " and ".join(sorted(kinds))
        raise _refused(node, f"it compares {words}; write dates as DATE '2026-01-31'")
    return ColumnType.BOOLEAN
