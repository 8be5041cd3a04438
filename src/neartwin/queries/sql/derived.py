"""Columns of a SELECT that are computed from noisy statistics: arithmetic, and places among the groups.

| SQL | step on the release |
|---|---|
| ROUND(100.0 * SUM(paid) / COUNT(*), 2) AS each, COUNT(*) / SUM(COUNT(*)) OVER () | computed("each", ...) |
| GREATEST(COUNT(*), 0) AS n | computed("n", ...) |
| RANK() OVER (PARTITION BY town ORDER BY COUNT(*) DESC) AS place | computed("place", ...) |
| COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY month) AS more | computed("more", ...) |
| AVG(COUNT(*)) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS mean | computed("mean", ...) |
| COUNT(*) AS n, SUM(COUNT(*)) OVER (PARTITION BY town ORDER BY day) AS so_far | computed("so_far", ...) |
| 'all' AS label | computed("label", "'all'") |

All of it costs nothing. The statistics of an expression are released beside it, under their own names or those of SELECT. So
are those that HAVING and ORDER BY name.

This module also reads HAVING, ORDER BY, LIMIT and OFFSET, over the columns of the noisy result.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.queries.arithmetic import FRAMED, NEAR, OPERATIONS, PLACES, as_column, orders_along
from neartwin.queries.query import PostProcessing, SortKey
from neartwin.statistics.sql import FUNCTIONS
from neartwin.tables.types import ColumnType

Named = Callable[[exp.Expr], str | None]
_MOST = 100


def without_derived(select: exp.Select, *, clauses: bool) -> tuple[tuple[str, exp.Expr], ...]:
    """Replace computed columns of a SELECT by their statistics. It adds the statistics of expressions if they are missing.

    Args:
        select: The statement, which is changed.
        clauses: Whether statistics that HAVING and ORDER BY name are added too.

    Returns:
        The computed columns by name in SELECT, or as written.

    Raises:
        QueryError: There are too many columns.
    """
    columns, selected = list[tuple[str, exp.Expr]](), list[exp.Expr]()
    grouped = {column.name for column in (select.args.get("group") or exp.Group()).find_all(exp.Column)}
    for item in select.expressions:
        bare = item.unalias()
        of = bare if bare.is_number or (bare.is_string and item.alias not in grouped) else derived(bare)
        if of is None:
            selected.append(item)
        else:
            columns.append((item.alias or _written(item if of.find(exp.Placeholder) else of), of))
    parts = [part for _, of in columns for part in statistics_in(of)]
    if clauses and (parts or any(map(statistics_in, selected))):
        read = [select.args[clause] for clause in ("having", "order") if select.args.get(clause) is not None]
        for one in (derived(node) for clause in read for node in computed(clause, lambda _: None)):
            if one and one not in [of for _, of in columns]:
                columns.append((_written(one), one))
            if len(columns) > _MOST:
                raise QueryError(f"more than {_MOST} columns are computed of statistics; ask several questions")
        parts += [part for clause in read for part in statistics_in(clause)]
    known = [item.this if isinstance(item, exp.Alias) else item for item in selected]
    for part in parts:
        if part not in known:
            known.append(part)
            selected.append(part.copy())
    select.set("expressions", selected)
    return tuple(columns)


def derived(node: exp.Expr) -> exp.Expr | None:
    """The expression of a computed column, without parentheses around it; None for a statistic, and for what is of rows."""
    bare = node.unnest()
    found = statistics_in(bare) or bare.find(exp.Placeholder)  # the number of a question that is asked first
    return bare if isinstance(bare, (*OPERATIONS, exp.Placeholder)) and not _is_statistic(bare) and found else None


def _is_statistic(node: exp.Expr) -> bool:
    if isinstance(node, exp.Window):
        return node.args.get("order") is not None and not isinstance(node.this, (*PLACES, *NEAR, *FRAMED))
    named = isinstance(node, exp.Anonymous) and str(node.this).upper() in {*FUNCTIONS, "RANGES", "WEIGHTED_SUMS"}
    return named or isinstance(node, exp.AggFunc | exp.WithinGroup | exp.IgnoreNulls)


def statistics_in(node: exp.Expr) -> list[exp.Expr]:
    """The statistics within an expression; of a window over the groups those that it adds up, reads or orders by.

    Args:
        node: The expression.

    Returns:
        The statistics.
    """
    if _is_statistic(node):
        return [node]
    order = node.args.get("order") if isinstance(node.this, PLACES) else None
    inside = order or (node.this if isinstance(node, exp.Window) else node)
    return [one for child in inside.iter_expressions() for one in statistics_in(child)]


def _written(of: exp.Expr) -> str:
    return of.sql(dialect="duckdb", comments=False)


def text_of(node: exp.Expr, named: Named) -> str:
    """The expression over the released columns.

    Args:
        node: The expression.
        named: The column of each statistic, and of what PARTITION BY names, and ORDER BY of LAG and LEAD.

    Returns:
        The text, as for `Arithmetic`.

    Raises:
        QueryError: A part covers several columns.
    """
    root = exp.paren(node.copy())
    by = [part for window in root.find_all(exp.Window) for part in window.args.get("partition_by") or []]
    by += [key.this for order in orders_along(root) for key in order.expressions]
    for one in [*statistics_in(root), *by]:
        one.replace(exp.column(_column(one, named), quoted=True))
    return root.unnest().sql(dialect="duckdb", comments=False)


def computed(root: exp.Expr, known: Named) -> Iterator[exp.Expr]:
    """The outermost expressions under a node that are columns of the SELECT, or statistics.

    Args:
        root: The node.
        known: The released column of an expression.

    Yields:
        The expressions.
    """
    for child in root.iter_expressions():
        alone = statistics_in(child) and (isinstance(root, exp.Ordered) or child.find(exp.Div, exp.Window))
        if _is_statistic(child) or (derived(child) is not None and (alone or known(child))):
            yield child
        else:
            yield from computed(child, known)


def _column(node: exp.Expr, named: Named) -> str:
    if (name := named(node)) is None:
        text = node.sql(dialect="duckdb")
        raise QueryError(f"{text!r} after GROUP BY must be selected, and a single statistic; write {text} in SELECT")
    return name


CLAUSES = {"having", "order", "limit", "offset"}


def after_of(
    select: exp.Select, schema: Mapping[str, ColumnType], columns: list[str], named: Named, shaped: PostProcessing
) -> PostProcessing:
    """Add the clauses of a SELECT over its own noisy columns to its computed columns.

    Args:
        select: The statement.
        schema: The release's columns and their types.
        columns: The selected columns, for ordinals.
        named: The column under which an expression such as COUNT(*) was selected.
        shaped: The steps of the computed columns.

    Returns:
        All steps.

    Raises:
        QueryError: A clause names a column that was not selected.
    """
    having, order = select.args.get("having"), select.args.get("order")
    text = "" if having is None else _over_columns(having.this, named)
    items = [] if order is None else order.expressions
    ordered = tuple(key for item in items for key in _ordered(item, schema, columns, named))
    limit, offset = number_of(select, "limit"), number_of(select, "offset") or 0
    return replace(shaped, having=text, order=ordered, limit=limit, offset=offset)


def _over_columns(node: exp.Expr, named: Named) -> str:
    """An expression over the released columns."""
    root = exp.paren(node.copy())
    for one in [*computed(root, named), *(column for column in root.find_all(exp.Column) if named(column))]:
        one.replace(exp.column(_column(one, named), quoted=True))
    return _written(root.transform(as_column).this)


def _ordered(item: exp.Ordered, schema: Mapping[str, ColumnType], columns: list[str], named: Named) -> list[SortKey]:
    """The keys of an item of ORDER BY: all columns for ALL."""
    names = columns if isinstance(item.this, exp.Var) else [_ordering(item.this, schema, columns, named)]
    down, first = bool(item.args.get("desc")), item.args.get("nulls_first")
    return [(name, down, True) if first else (name, down) for name in names]


def _ordering(node: exp.Expr, schema: Mapping[str, ColumnType], columns: list[str], named: Named) -> str:
    if isinstance(node, exp.Literal) and node.is_int:
        if not 1 <= int(node.this) <= len(columns):
            raise QueryError(f"ORDER BY {node.this}: the SELECT has {len(columns)} columns")
        return columns[int(node.this) - 1]
    if isinstance(node, exp.Column) and not node.table and node.name in schema:
        return node.name
    if (name := named(node)) is not None:
        return name
    if isinstance(node, exp.Column) or not (node.find(exp.Column) or statistics_in(node)):
        raise QueryError(f"ORDER BY {node.sql(dialect='duckdb')!r} is no column of the SELECT; write ORDER BY 1")
    return _over_columns(node, named)


def number_of(select: exp.Select, clause: str) -> int | None:
    """LIMIT or OFFSET as a whole number.

    Args:
        select: The statement.
        clause: The clause, in small letters.

    Returns:
        The number; None if the clause is missing.

    Raises:
        QueryError: It is no whole number.
    """
    node = select.args.get(clause)
    if node is None:
        return None
    match node:
        case exp.Fetch(args={"limit_options": exp.LimitOptions(args={"percent": False, "with_ties": False})}):
            node = exp.Limit(expression=node.args["count"])
    plain = all(name == "expression" for name, value in node.args.items() if value)
    if not (plain and isinstance(node.expression, exp.Literal) and node.expression.is_int):
        raise QueryError(f"{clause.upper()} takes a whole number alone, without WITH TIES; write {clause.upper()} 10")
    return int(node.expression.this)
