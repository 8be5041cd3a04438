"""HAVING, ORDER BY, LIMIT and OFFSET of a SELECT, read from parsed nodes, over the columns of its noisy result."""

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.queries.after import After
from neartwin.queries.expression import RowExpression
from neartwin.queries.sql_derived import Named, computed, derived
from neartwin.queries.types import ColumnType

CLAUSES = {"having", "order", "limit", "offset"}


def after_of(
    select: exp.Select, schema: Mapping[str, ColumnType], columns: list[str], named: Named, shaped: After
) -> After:
    """The clauses of a SELECT over its own noisy columns, after what is computed of these.

    schema: the release's columns and their types. columns: as selected, for ordinals. named: the column that an expression
    such as COUNT(*) was selected as. Errors: `QueryError` for what was not selected.
    """
    having, order = select.args.get("having"), select.args.get("order")
    text = ""
    if having is not None:
        text = _having(having.this, schema, named)
    ordered = () if order is None else tuple(_ordered(item, schema, columns, named) for item in order.expressions)
    limit, offset = _number(select, "limit"), _number(select, "offset") or 0
    return replace(shaped, having=text, order=ordered, limit=limit, offset=offset)


def _having(condition: exp.Expr, schema: Mapping[str, ColumnType], named: Named) -> str:
    root = exp.paren(condition.copy())
    for node in list(computed(root)):
        node.replace(exp.column(_selected(node, named), quoted=True))
    checked = RowExpression.checked(root.this, schema)
    if checked.type is not ColumnType.BOOLEAN:
        raise QueryError(
            f"HAVING {checked.text!r} is {checked.type}; a condition is wanted, for instance COUNT(*) > 100"
        )
    return checked.text


def _ordered(item: exp.Ordered, schema: Mapping[str, ColumnType], columns: list[str], named: Named) -> tuple[str, bool]:
    node, down = item.this, bool(item.args.get("desc"))
    if isinstance(node, exp.Literal) and node.is_int:
        if not 1 <= int(node.this) <= len(columns):
            raise QueryError(f"ORDER BY {node.this}: the SELECT has {len(columns)} columns")
        return columns[int(node.this) - 1], down
    if isinstance(node, exp.Column) and not node.table and node.name in schema:
        return node.name, down
    if isinstance(node, exp.AggFunc) or derived(node) is not None:
        return _selected(node, named), down
    raise QueryError(f"ORDER BY {node.sql(dialect='duckdb')!r} must be a column of the SELECT or its number")


def _selected(node: exp.Expr, named: Named) -> str:
    name = named(node)
    if name is None:
        text = node.sql(dialect="duckdb")
        raise QueryError(
            f"{text!r} after GROUP BY must be selected too: SELECT ..., {text}, for only what is released is known"
        )
    return name


def limit_of(select: exp.Select) -> int:
    """LIMIT as a whole number; 0 where it is missing."""
    return _number(select, "limit") or 0


def _number(select: exp.Select, clause: str) -> int | None:
    found = select.args.get(clause)
    if found is None:
        return None
    plain = all(name == "expression" for name, value in found.args.items() if value)
    if not (plain and isinstance(found.expression, exp.Literal) and found.expression.is_int):
        raise QueryError(f"{clause.upper()} takes a whole number")
    return int(found.expression.this)
