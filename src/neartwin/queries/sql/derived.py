"""Columns of a SELECT that are computed from noisy statistics: ratios, values cut at 0, values that only grow.

| SQL | step on the release |
|---|---|
| SUM(paid) / COUNT(*) AS each, SUM(paid) / NULLIF(COUNT(*), 0) | ratio("paid", "n", name="each") |
| GREATEST(COUNT(*), 0) AS n | non_negative("n") |
| MONOTONE(COUNT(*)) AS n, MONOTONE(COUNT(*), 'decreasing') | monotone("n"), monotone("n", increasing=False) |

All of it costs nothing. MONOTONE goes along the groups in their order. It may hold a sum over groups, as in
MONOTONE(SUM(COUNT(*)) OVER (ORDER BY age)). The two statistics of a ratio are released beside it, under their own names
or those of SELECT.

This module also reads HAVING, ORDER BY, LIMIT and OFFSET, over the columns of the noisy result.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.queries.query import WAYS, PostProcessing
from neartwin.statistics.sql import FUNCTIONS
from neartwin.tables.expressions import RowExpression
from neartwin.tables.types import ColumnType

Named = Callable[[exp.Expr], str | None]


@dataclass(frozen=True, slots=True)
class Computed:
    """A selected column that is computed from statistics.

    Attributes:
        name: The name in SELECT, or "".
        top: The statistic, or the top of a ratio.
        bottom: The bottom of a ratio, or None.
        cut: Whether values are cut at 0.
        way: Whether values grow (True) or fall (False); None for neither.
    """

    name: str
    top: exp.Expr
    bottom: exp.Expr | None = None
    cut: bool = False
    way: bool | None = None


@dataclass(frozen=True, slots=True)
class Derived:
    """All computed columns of a SELECT, and its items with the statistic in place of each.

    Attributes:
        computed: The computed columns.
        items: The items as written.
    """

    computed: tuple[Computed, ...]
    items: tuple[exp.Expr, ...]

    def after(self, named: Named, released: Mapping[str, ColumnType]) -> PostProcessing:
        """The steps on the release.

        Args:
            named: The column of each statistic.
            released: All columns before the steps, and their types.

        Returns:
            The steps.

        Raises:
            QueryError: A ratio has the name of another column, or a shape covers several columns.
        """
        ratios: dict[str, tuple[str, str, str]] = {}
        for one in self.computed:
            if one.bottom is not None:
                name = self.ratio_name(one, named)
                if name in released or name in ratios:
                    raise QueryError(f"{name!r} names two columns; give the ratio another name with AS")
                ratios[name] = name, _column(one.top, named), _column(one.bottom, named)
        return PostProcessing(
            monotone=tuple((_shaped(one, named, released), one.way) for one in self.computed if one.way is not None),
            non_negative=tuple(_shaped(one, named, released) for one in self.computed if one.cut),
            ratios=tuple(ratios.values()),
        )

    def ratio_name(self, one: Computed, named: Named) -> str:
        """The name of a ratio: the selected one, or one from its parts.

        Args:
            one: The ratio.
            named: The column of each statistic.

        Returns:
            The name.
        """
        return one.name or f"ratio_{_column(one.top, named)}_{_column(one.bottom, named)}"

    def name_of(self, node: exp.Expr, named: Named, released: Mapping[str, ColumnType]) -> str | None:
        """The released column of an expression after GROUP BY.

        Args:
            node: The expression.
            named: The column of each statistic.
            released: All columns before the steps, and their types.

        Returns:
            The name; None if SELECT does not have the expression in this form.
        """
        column = derived(node)
        for one in self.computed:
            if column is not None and replace(one, name="") == replace(column, name=""):
                return _shaped(one, named, released) if one.bottom is None else self.ratio_name(one, named)
        return None


def without_derived(select: exp.Select) -> tuple[exp.Select, Derived]:
    """Replace computed columns of a SELECT by their statistics. It adds the statistics of a ratio if they are missing.

    Args:
        select: The statement.

    Returns:
        The new statement, and the computed columns.

    Raises:
        QueryError: A MONOTONE or GREATEST is not understood.
    """
    changed, computed = select.copy(), list[Computed]()
    selected: list[exp.Expr] = []
    items: list[exp.Expr] = []
    for item in changed.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        column = derived(inner, item.alias if isinstance(item, exp.Alias) else "")
        if column is None:
            selected.append(item)
        else:
            computed.append(column)
            if column.bottom is None:
                selected.append(
                    exp.alias_(column.top.copy(), column.name, quoted=True) if column.name else column.top.copy()
                )
        items.append(selected[-1] if column is None or column.bottom is None else inner)
    known = [item.this if isinstance(item, exp.Alias) else item for item in selected]
    for one in computed:
        for part in () if one.bottom is None else (one.top, one.bottom):
            if part not in known:
                known.append(part)
                selected.append(part.copy())
    changed.set("expressions", selected)
    return changed, Derived(tuple(computed), tuple(items))


def derived(node: exp.Expr, name: str = "") -> Computed | None:
    """The computed column of an expression.

    Args:
        node: The expression.
        name: The name that AS gives it, or "".

    Returns:
        The column; None for any other expression.

    Raises:
        QueryError: The expression is a shape or ratio that cannot be computed.
    """
    if isinstance(node, exp.Paren):
        return derived(node.this, name)
    if isinstance(node, exp.Div) and all(map(_of_statistics, (node.this, node.expression))):
        return Computed(name, _bare(node.this), _bare(_not_zero(_bare(node.expression))))
    verb = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    if not (isinstance(node, exp.Greatest) or verb == "MONOTONE") or not _of_statistics(node):
        return None
    parts = [node.this, *node.expressions] if isinstance(node, exp.Greatest) else list(node.expressions)
    of = [part for part in parts if _of_statistics(part)]
    rest = [part for part in parts if not _of_statistics(part)]
    within = derived(of[0]) if len(of) == 1 else None
    if len(of) != 1 or (within is not None and within.bottom is not None):
        raise _refused(node)
    inner = within or Computed(name, _bare(of[0]))
    if isinstance(node, exp.Greatest):
        if len(rest) != 1 or not (isinstance(rest[0], exp.Literal) and rest[0].this == "0"):
            raise _refused(node)
        return Computed(name, inner.top, cut=True, way=inner.way)
    way = rest[0].this if rest and isinstance(rest[0], exp.Literal) else "increasing"
    if len(rest) > 1 or way not in WAYS:
        raise _refused(node)
    return Computed(name, inner.top, cut=inner.cut, way=WAYS[way])


def computed(root: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost expressions under a node that are statistics or computed from them."""
    inside = list[exp.Expr]()
    for node in root.walk(prune=lambda one: bool(inside) and inside[-1] is one):
        if isinstance(node, exp.AggFunc) or (not isinstance(node, exp.Paren) and derived(node) is not None):
            inside.append(node)
            yield node


def _of_statistics(node: exp.Expr) -> bool:
    return node.find(exp.AggFunc) is not None or any(
        str(one.this).upper() in FUNCTIONS for one in node.find_all(exp.Anonymous)
    )


def _bare(node: exp.Expr) -> exp.Expr:
    return _bare(node.this) if isinstance(node, exp.Paren) else node


def _not_zero(node: exp.Expr) -> exp.Expr:
    """The x of NULLIF(x, 0): a ratio to 0 is no number anyway."""
    zero = isinstance(node, exp.Nullif) and isinstance(node.expression, exp.Literal) and node.expression.this == "0"
    return node.this if zero else node


def _column(node: exp.Expr | None, named: Named) -> str:
    name = None if node is None else named(node)
    if name is None:
        text = "" if node is None else node.sql(dialect="duckdb")
        raise QueryError(f"{text!r} is not a single statistic, which a ratio or a shape needs, as in SUM(x) / COUNT(*)")
    return name


def _shaped(one: Computed, named: Named, released: Mapping[str, ColumnType]) -> str:
    """The column that a shape is of: as it was selected, where another column may be of the same statistic."""
    return one.name if released.get(one.name) is ColumnType.NUMBER else _column(one.top, named)


def _refused(node: exp.Expr) -> QueryError:
    return QueryError(
        f"{node.sql(dialect='duckdb')!r} is not understood; of one statistic write GREATEST(COUNT(*), 0), MONOTONE(COUNT(*)) or "
        "MONOTONE(COUNT(*), 'decreasing')"
    )


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
            f"HAVING {checked.text!r} is {checked.type}, and must be a condition, for instance COUNT(*) > 100"
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
    raise QueryError(
        f"ORDER BY {node.sql(dialect='duckdb')!r} must be a column of the SELECT or its number; write ORDER BY 1"
    )


def _selected(node: exp.Expr, named: Named) -> str:
    name = named(node)
    if name is None:
        text = node.sql(dialect="duckdb")
        raise QueryError(
            f"{text!r} after GROUP BY must be selected too, because it can use released columns only; write {text} in SELECT"
        )
    return name


def limit_of(select: exp.Select) -> int:
    """LIMIT as a whole number; 0 if it is missing."""
    return _number(select, "limit") or 0


def _number(select: exp.Select, clause: str) -> int | None:
    node = select.args.get(clause)
    if node is None:
        return None
    plain = all(name == "expression" for name, value in node.args.items() if value)
    if not (plain and isinstance(node.expression, exp.Literal) and node.expression.is_int):
        raise QueryError(f"{clause.upper()} takes a whole number; write {clause.upper()} 10")
    return int(node.expression.this)
