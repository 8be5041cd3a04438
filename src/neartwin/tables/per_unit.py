"""Tables of what one unit's rows say: aggregates by unit, and windows within a unit.

`per_unit` gives one row for each of a unit's groups, and `with_windows` each row with windows. Both are functions of one
unit's rows, so they keep neighbours: see docs/proofs/per-unit.md. No aggregate can fail on a value, and none depends on
the order in which rows are stored:

| function | value |
|---|---|
| COUNT(*), COUNT(x), COUNT(DISTINCT x) | a whole number |
| SUM(x) of whole numbers | exact; NULL beyond 64 bits |
| SUM(x), AVG(x) of other numbers | x is clipped to its bounds and summed exactly on its grid; NaN is passed over |
| MIN(x), MAX(x) | NaN is the largest number, texts go by their bytes |
| BOOL_OR(c), BOOL_AND(c) | SQL's |
| ARG_MIN(x, y), ARG_MAX(x, y) | FIRST_VALUE(x) over the order of y, of the rows in which both have a value |
| ROW_NUMBER(), LAG(x, k), LEAD(x, k), FIRST_VALUE(x) | over the order, then over all columns that the question reads |
| RANK(), DENSE_RANK() | over the order; rows that tie have one place |
| an aggregate OVER (PARTITION BY unit ORDER BY k) | up to the last row with an equal k |
| LAST_VALUE(x) and others with ROWS BETWEEN ... AND ... | over the order, then over all columns that the question reads |
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sqlglot import exp

from neartwin.errors import QueryError, SchemaError
from neartwin.interactive import instead
from neartwin.tables.expressions import RowExpression, not_understood, rows_around, rows_away
from neartwin.tables.ranges import Range, grid_of, narrowed, range_of, ranges_of, value_of
from neartwin.tables.table import NOBODY, Bounds, How, JoinKind, PerUnit, Table, UnitColumn
from neartwin.tables.types import GROUPABLE, NUMERIC, ColumnType

AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalOr: "bool_or",
    exp.LogicalAnd: "bool_and",
}
ORDERED: dict[type[exp.Expr], str] = {
    one: one.sql_name().lower()
    for one in (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)
}
_ALL, _CONDITIONS = frozenset(ColumnType), frozenset({ColumnType.BOOLEAN})
_ARGUMENTS: dict[str, frozenset[ColumnType]] = {
    "count": _ALL,
    "count distinct": GROUPABLE,
    **dict.fromkeys(("sum", "avg"), NUMERIC),
    **dict.fromkeys(("min", "max"), _ALL - _CONDITIONS),
    **dict.fromkeys(("bool_or", "bool_and"), _CONDITIONS),
}
_DEEPEST = 12  # names of nested parts then fit the 63 letters of PostgreSQL
_WINDOWED = ", ".join(map(str.upper, ORDERED.values()))
_KNOWN = ", ".join([*map(str.upper, AGGREGATES.values()), "ARG_MIN", f"ARG_MAX, over windows {_WINDOWED}"])


def per_unit(
    table: Table, conditions: tuple[RowExpression, ...], by: Mapping[str, str], columns: Mapping[str, exp.Expr]
) -> Table:
    """The table with a row for each of a unit's groups.

    Args:
        table: The table.
        conditions: The conditions on its rows.
        by: From the group columns to the table's columns; the unit's is among them, except of public rows.
        columns: Expressions over aggregates, by name.

    Returns:
        The new table, of the same units.

    Raises:
        QueryError: The rows have no unit that is a column, or an expression is not allowed.
        SchemaError: A column is missing, or a name is taken.
    """
    unit = _unit(table)
    mine = units_of(table)
    own = next((name for name, column in by.items() if column in mine), None)
    if own is None and table.unit != NOBODY:
        raise QueryError(
            f"a row of a subquery must be of one person, and nothing says of which {unit!r}; write GROUP BY {unit}, and for "
            f"EXISTS and IN equate it: inside.{unit} = outside.{unit}; or ask it alone: AVG(COUNT(*)) OVER () with GROUP BY"
        )
    if not (by or columns):
        raise QueryError("a subquery has a column at least; write COUNT(*) AS n")
    firsts = dict[str, exp.Expr]()
    columns = {name: tree.transform(_first, table, by.values(), firsts) for name, tree in columns.items()}
    if firsts:
        return per_unit(with_windows(table, conditions, firsts), (), by, columns)
    kinds = {name: table.groupable(column) for name, column in by.items()}
    found, rest = _taken_out(columns, exp.AggFunc, narrowed(table, tuple(one.term for one in conditions)))
    passed = {name: table.columns[column] for name, column in by.items() if column in table.columns}
    of = PerUnit(table=table, conditions=conditions, by=MappingProxyType(dict(by)), columns=found)
    return _derived(of, replace(table, unit=own or NOBODY, schema=kinds, columns=passed), found, rest)


def _first(node: exp.Expr, table: Table, by: Iterable[str], firsts: dict[str, exp.Expr]) -> exp.Expr:
    """ARG_MIN(x, y) as MIN of a column that is put among the windows: FIRST_VALUE(x), which is one value in a group."""
    if (
        type(node) not in {exp.ArgMin, exp.ArgMax}
        or node.args.get("count")
        or isinstance(node.parent, exp.Filter | exp.Window)
    ):
        return node
    value, key, name = node.this, node.expression, f"(first {len(firsts)})"
    at = exp.Ordered(
        this=exp.case().when(value.is_(exp.null()).not_(), key), desc=isinstance(node, exp.ArgMax), nulls_first=False
    )
    first = exp.FirstValue(this=exp.case().when(key.is_(exp.null()).not_(), value))
    columns = [exp.column(one, quoted=True) for one in by]
    firsts[name] = exp.Window(this=first, partition_by=columns, order=exp.Order(expressions=[at]))
    of_one = exp.LogicalOr if _row(value, table).type is ColumnType.BOOLEAN else exp.Min
    return of_one(this=exp.column(name, quoted=True))


def units_of(table: Table) -> set[str]:
    """The columns of the joined rows that hold the unit: its own, and those that inner joins equate with it."""
    same = [join for join in table.joins if join.kind is JoinKind.SAME_UNIT and join.how is How.INNER]
    own = {table.unit} if isinstance(table.unit, str) else set[str]()
    return own.union(new for join in same for new, old in join.columns.items() if (table.unit, old) in join.on)


def with_windows(table: Table, conditions: tuple[RowExpression, ...], columns: Mapping[str, exp.Expr]) -> Table:
    """The table with columns over windows of a unit's rows that meet the conditions. The rows meet them too.

    Args:
        table: The table.
        conditions: The conditions on its rows.
        columns: Expressions over windows, by name; none to keep the rows that meet the conditions.

    Returns:
        The new table.

    Raises:
        QueryError: A window goes over rows of several units, or an expression is not allowed.
        SchemaError: A name is taken.
    """
    _unit(table)
    found, rest = _taken_out(columns, exp.Window, narrowed(table, tuple(one.term for one in conditions)))
    of = PerUnit(table=table, conditions=conditions, by=None, columns=found)
    return _derived(of, table, found, rest)


def _derived(of: PerUnit, table: Table, new: Mapping[str, UnitColumn], rest: Mapping[str, exp.Expr]) -> Table:
    """The table with these columns more, without the steps that are now inside."""
    if taken := sorted({*new, *rest} & set(table.schema)):
        raise SchemaError(f"{taken[0]!r} is a column of the rows too, shown or not; give this one another name with AS")
    if any(part.operation == "answer" for condition in of.conditions for part in condition.term.walk()):
        raise QueryError("a question asked first is compared with whole rows; write its condition outside the subquery")
    if of.depth > _DEEPEST:
        raise QueryError(f"subqueries and windows are at most {_DEEPEST} deep; compute less at a time")
    bounded = {name: ends for name, column in new.items() if (ends := _ends(column, of.table)) is not None}
    made = replace(
        table,
        schema=MappingProxyType({**table.schema, **{name: column.kind for name, column in new.items()}}),
        declared=frozenset(),
        columns=MappingProxyType({**table.columns, **bounded}),
        joins=(),
        computed=MappingProxyType({}),
        per_unit=of,
    )
    for name, tree in rest.items():
        made = made.with_column(name, tree.sql(dialect="duckdb", comments=False))
    return made


def _ends(column: UnitColumn, table: Table) -> Bounds | None:
    """The bounds of its values. Those of a mean lie between the steps of what it is a mean of."""
    if column.function != "avg" or column.value is None:
        return None if column.function == "sum" else column.bounds
    ends = column.bounds or _bounds(column.value, table)
    return ends and min(ends, grid_of(Range(ends.low, ends.high, None), None), key=lambda one: one.step)


def _unit(table: Table) -> str:
    if table.unit == NOBODY:
        return ""
    if not isinstance(table.unit, str):
        raise QueryError("each row is its own unit, so a unit has no other rows; name the unit's column with unit=")
    if table.period is not None:
        raise QueryError(f"the unit is {table.unit_name!r}, and {instead('clauses', 'period', unit=table.unit)}")
    return table.unit


def _taken_out(
    columns: Mapping[str, exp.Expr], kind: type[exp.Expr], table: Table
) -> tuple[Mapping[str, UnitColumn], dict[str, exp.Expr]]:
    """The aggregates or windows of each expression, and the expressions over them where they are more than one of them."""
    found: dict[str, UnitColumn] = {}
    rest: dict[str, exp.Expr] = {}
    for name, written in columns.items():
        root = exp.paren(written).transform(_without_default, copy=False)
        outermost = [
            node for node in root.find_all(exp.Window, exp.AggFunc) if not node.find_ancestor(exp.Window, exp.AggFunc)
        ]
        if not all(isinstance(node, kind) for node in outermost):
            raise _refused(outermost[0], table, "aggregates stand with GROUP BY, and windows without")
        if len(outermost) == 1 and root.this.unnest() is outermost[0]:
            found[name] = unit_column(outermost[0], table)
            continue
        for place, node in enumerate(outermost):
            found[f"{name}_{place}"] = unit_column(node, table)
            node.replace(exp.column(f"{name}_{place}", quoted=True))
        rest[name] = root.this
    return MappingProxyType(found), rest


def _without_default(node: exp.Expr) -> exp.Expr:
    """LAG and LEAD with a default as a CASE: it is taken where the frame of that one row is empty."""
    call = node.this
    if not isinstance(node, exp.Window) or not isinstance(call, exp.Lag | exp.Lead) or not call.args.get("default"):
        return node
    side, rows = "PRECEDING" if isinstance(call, exp.Lag) else "FOLLOWING", call.args.get("offset") or "1"
    bare, there = node.copy(), node.copy()
    bare.this.set("default", None)
    there.set("this", exp.Count(this=exp.Star()))
    there.set("spec", exp.WindowSpec(kind="ROWS", start=rows, start_side=side, end=rows, end_side=side))
    return exp.case().when(there > exp.Literal.number(0), bare).else_(call.args["default"].transform(_without_default))


def unit_column(node: exp.Expr, table: Table) -> UnitColumn:
    """Check an aggregate or a window.

    Args:
        node: The parsed expression.
        table: The table whose rows it reads.

    Returns:
        The column.

    Raises:
        QueryError: It is not allowed; the message says what to write.
    """
    text = node.sql(dialect="duckdb", comments=False)
    if not isinstance(node, exp.Window):
        return replace(_aggregate(node, table), text=text)
    if any(value for name, value in node.args.items() if name not in {"this", "partition_by", "order", "over", "spec"}):
        raise _refused(node, table, "a window is OVER (PARTITION BY ... ORDER BY ... ROWS BETWEEN ... AND ...)")
    if table.unit == NOBODY:
        raise not_understood(node, "a window over public rows is computed in their own table; write GROUP BY here")
    parts = [_row(part, table) for part in node.args.get("partition_by") or []]
    units = [part for part in parts if part.term.operation == "column" and part.term.value == table.unit]
    if not units:
        raise _refused(node, table, f"a window over several people tells of all; write PARTITION BY {table.unit}, ...")
    by = tuple(part for part in parts if part not in units)
    if any(part.type not in GROUPABLE for part in by):
        raise _refused(node, table, "PARTITION BY takes integers, text, booleans and dates")
    order = node.args.get("order")
    keys = [] if order is None else order.expressions
    ordered: list[tuple[RowExpression, bool]] = []
    for key in keys:
        if key.args.get("nulls_first"):
            ordered.append((_row(key.this.is_(exp.null()), table), True))
        ordered.append((_row(key.this, table), bool(key.args.get("desc"))))
    function = ORDERED.get(type(node.this))
    if function is not None and not keys:
        raise _refused(node, table, f"{function.upper()} needs an order; write ORDER BY in OVER (...)")
    made = _of_order(node, function, table) if function is not None else _aggregate(node.this, table)
    if made.function == "count distinct":
        raise _refused(node, table, "engines have no COUNT(DISTINCT) over windows; write it with GROUP BY")
    return replace(made, by=by, order=tuple(ordered), frame=_frame(node, made.function, table), text=text)


def _frame(node: exp.Window, function: str, table: Table) -> str:
    """The frame by rows, whose order is total; "" for the rows up to the last one with an equal order."""
    spec, framed = node.args.get("spec"), function in AGGREGATES.values() or function.endswith("_value")
    ends, alone = rows_around(spec), spec and not (framed and node.args.get("order"))
    default = (spec is None or spec.args.get("kind") != "ROWS") and ends == (-math.inf, 0)
    if ends is None or alone or (default and function == "last_value"):
        raise _refused(node, table, instead("windows", "frame"))
    return "" if default or spec is None else exp.WindowSpec(**{**spec.args, "kind": "ROWS"}).sql()


def _of_order(node: exp.Window, function: str, table: Table) -> UnitColumn:
    call = node.this
    if isinstance(call, exp.RowNumber | exp.Rank | exp.DenseRank):
        return UnitColumn(function=function, kind=ColumnType.INTEGER)
    if not (offset := rows_away(call)):
        raise _refused(node, table, f"{function.upper()} takes a column and a number of rows; write LAG(x, 1)")
    value = _row(call.this, table)
    bounds = _bounds(value, table)
    return UnitColumn(function=function, kind=value.type, value=value, bounds=bounds, offset=offset)


def _aggregate(node: exp.Expr, table: Table) -> UnitColumn:
    function = AGGREGATES.get(type(node), "")
    others = [value for name, value in node.args.items() if value and name not in {"this", "big_int"}]
    if not function or others:
        raise _refused(node, table, f"of one person's rows there are {_KNOWN}")
    inner = node.this
    if function.startswith("bool") and isinstance(inner, exp.Cast) and inner.is_type("boolean"):
        inner = inner.this  # how SQLGlot writes the argument
    if function == "count" and isinstance(inner, exp.Star | exp.Literal):
        return UnitColumn(function="count", kind=ColumnType.INTEGER)
    if isinstance(inner, exp.Distinct):
        if function != "count" or len(inner.expressions) != 1:
            raise _refused(node, table, "DISTINCT goes with COUNT and one column; leave it out")
        function, inner = "count distinct", inner.expressions[0]
    value, bounds, kind = _row(inner, table), None, ColumnType.INTEGER
    if value.type not in _ARGUMENTS[function]:
        raise _refused(node, table, f"its argument is {value.type}")
    if function in {"sum", "avg"} and value.type is ColumnType.NUMBER:
        found = value_of(table, inner.name if isinstance(inner, exp.Column) else inner.sql(dialect="duckdb"), None)
        value, bounds, kind = found.expression or value, found.bounds, ColumnType.NUMBER
    elif function == "avg":
        kind = ColumnType.NUMBER
    elif function in {"min", "max"}:
        kind, bounds = value.type, _bounds(value, table)
    elif function.startswith("bool"):
        kind = ColumnType.BOOLEAN
    return UnitColumn(function=function, kind=kind, value=value, bounds=bounds)


def _bounds(value: RowExpression, table: Table) -> Bounds | None:
    """The bounds of values that are passed on: declared ones of a column, or those that follow for an expression."""
    declared = table.columns.get(str(value.term.value)) if value.term.operation == "column" else None
    reach = range_of(value.term, ranges_of(table))
    follows = value.type in NUMERIC and reach.finite and reach.low < reach.high
    return declared or (grid_of(reach, None) if follows else None)


def _row(node: exp.Expr, table: Table) -> RowExpression:
    return RowExpression.checked(node.copy(), table.schema, table.computed)


def _refused(node: exp.Expr, table: Table, why: str) -> QueryError:
    text = node.sql(dialect="duckdb", comments=False)
    return QueryError(f"{text!r} is not understood in the rows of one {table.unit}: {why}")
