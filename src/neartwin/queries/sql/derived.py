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

**Linear workloads**: sums over the groups as windows, RANGES(...) and WEIGHTED_SUMS(...).

| SQL | workload |
|---|---|
| SUM(COUNT(*)) OVER (ORDER BY age) | prefix_sums() |
| SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 6 PRECEDING AND 1 FOLLOWING) | moving_sums(6, 1) |
| RANGES(COUNT(*)), RANGES(COUNT(*), [5, 10]) | range_sums(), range_sums([5, 10]) |
| WEIGHTED_SUMS(COUNT(*), MAP {'minors': MAP {16: 1, 17: 1}}) | {"minors": {16: 1, 17: 1}} |

SUM(x) or COUNT(x) may replace COUNT(*). A window goes over the public keys in the order of their values, from the
largest with DESC. Ranges go by the given order of the keys.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.interactive import instead
from neartwin.queries.arithmetic import FRAMED, NEAR, OPERATIONS, PLACES, as_column, orders_along
from neartwin.queries.query import Groups, PostProcessing, SortKey
from neartwin.queries.sql.spelling import value_of
from neartwin.queries.workloads import Workload, moving_sums, prefix_sums, range_sums, weighted
from neartwin.statistics.sql import FUNCTIONS
from neartwin.tables.expressions import not_understood, rows_around
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


_HINT = instead("windows", "sums")


@dataclass(frozen=True, slots=True)
class Asked:
    """The question of a SELECT over its groups.

    Attributes:
        workload: The linear queries.
        along: The order of the window, or None.
    """

    workload: Workload
    along: exp.Ordered | None = None

    def of(self, groups: Groups, expressions: Mapping[str, str]) -> Groups:
        """The groups with this workload.

        Args:
            groups: The groups.
            expressions: The group columns by name, as SQL text.

        Returns:
            The new groups.

        Raises:
            QueryError: The window goes along anything but the one group column, or its keys have no order.
        """
        if self.along is None or groups.keys is None:
            return groups.workload(self.workload)
        by, order = self.along.this, self.along.args
        text = by.sql(dialect="duckdb", comments=False)
        name = by.name if isinstance(by, exp.Column) and not by.table else ""
        if len(groups.columns) != 1 or (name != groups.columns[0] and text != expressions[groups.columns[0]]):
            raise QueryError(f"OVER (ORDER BY {text}) must name the one column of GROUP BY: {_HINT}")
        null = [key for key in groups.keys if key[0] is None]
        others = sorted((key for key in groups.keys if key[0] is not None), reverse=bool(order.get("desc")))
        ordered = (*null, *others) if order.get("nulls_first") else (*others, *null)
        return replace(groups, keys=ordered).workload(self.workload)


def without_workload(select: exp.Select) -> tuple[exp.Select, Asked | None]:
    """Replace a sum over the groups by the statistic of each group.

    Args:
        select: The statement.

    Returns:
        The new statement, and the question over the groups, or None.

    Raises:
        QueryError: A window or argument is not understood, or there are several.
    """
    found = {place: one for place, item in enumerate(select.expressions) if (one := _read(item.unalias())) is not None}
    # SQL leaves groups out before it adds up
    early = select.args.get("having") is not None and "late" not in select.meta
    windows = all(isinstance(select.expressions[place].unalias(), exp.Window) for place in found)
    if not found or (early and windows):
        return select, None
    changed = select.copy()
    for place, (statistic, _) in found.items():
        changed.expressions[place].unalias().replace(statistic.copy())
    if sum(item.find(exp.AggFunc) is not None for item in changed.expressions) > 1:
        if windows:
            return select, None  # they are added up from the released statistics
        raise QueryError("a sum over groups must be the only statistic; ask others in further statements of a series")
    return changed, next(asked for _, asked in found.values())


def _read(node: exp.Expr) -> tuple[exp.Expr, Asked] | None:
    """The statistic of each group and what is asked over the groups."""
    if isinstance(node, exp.Window):
        return _window(node)
    if not isinstance(node, exp.Anonymous) or str(node.this).upper() not in {"RANGES", "WEIGHTED_SUMS"}:
        return None
    statistic, *rest = node.expressions or [None]
    if not _is_sum(statistic) or len(rest) > 1:
        raise _refused(node)
    weights = value_of(rest[0]) if rest else None
    if str(node.this).upper() == "RANGES" and (isinstance(weights, list) or not rest):
        return statistic, Asked(range_sums(weights))
    if not isinstance(weights, dict) or not all(isinstance(one, dict) for one in weights.values()):
        raise _refused(node)
    return statistic, Asked(weighted({name: _by_key(one) for name, one in weights.items()}))


def _by_key(weights: dict[Any, Any]) -> dict[Any, Any]:
    """Weights by key; DuckDB lists the keys of several columns beside their weights."""
    apart = isinstance(weights.get("key"), list) and isinstance(weights.get("value"), list)
    return dict(zip(map(tuple, weights["key"]), weights["value"], strict=True)) if apart else weights


def _window(node: exp.Window) -> tuple[exp.Expr, Asked] | None:
    """SUM(...) OVER (ORDER BY key ...), and no more than that; None for what may be computed of released statistics."""
    others = {name for name, value in node.args.items() if value} - {"this", "order", "spec", "over"}
    match node:
        case exp.Window(this=exp.Sum(this=inner), args={"order": exp.Order(expressions=[item])}):
            if _is_sum(inner) and not others and (workload := _frame(node)) is not None:
                return inner, Asked(workload, item)
    if isinstance(node.this, (*PLACES, *NEAR, *FRAMED)) and statistics_in(node):
        return None
    raise _refused(node)


def _frame(node: exp.Window) -> Workload | None:
    """Prefixes or moving sums, as the frame says; keys differ, so that ROWS and RANGE to the current row are the same."""
    first, last = rows_around(node.args.get("spec")) or (0, 0)
    if (first, last) == (-math.inf, 0):
        return prefix_sums()
    if not -math.inf < first <= 0 <= last < math.inf or first == last:
        return None
    return moving_sums(int(-first), int(last))


def _is_sum(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Count | exp.Sum) and not isinstance(node.this, exp.AggFunc | exp.Distinct)


def _refused(node: exp.Expr) -> QueryError:
    return not_understood(node, instead("windows", getattr(node.this, "key", "")) or _HINT)
