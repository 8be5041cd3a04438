"""Columns of a SELECT that are computed from noisy statistics: arithmetic, values cut at 0, values that only grow.

| SQL | step on the release |
|---|---|
| ROUND(100.0 * SUM(paid) / COUNT(*), 2) AS each, COUNT(*) / SUM(COUNT(*)) OVER () | computed("each", ...) |
| GREATEST(COUNT(*), 0) AS n | non_negative("n") |
| MONOTONE(COUNT(*)) AS n, MONOTONE(COUNT(*), 'decreasing') | monotone("n"), monotone("n", increasing=False) |

All of it costs nothing. MONOTONE goes along the groups in their order. It may hold a sum over groups, as in
MONOTONE(SUM(COUNT(*)) OVER (ORDER BY age)). The statistics of an expression are released beside it, under their own names
or those of SELECT. So are those that HAVING and ORDER BY name.

This module also reads HAVING, ORDER BY, LIMIT and OFFSET, over the columns of the noisy result.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.queries.arithmetic import OPERATIONS, Arithmetic
from neartwin.queries.query import WAYS, PostProcessing
from neartwin.statistics.sql import FUNCTIONS
from neartwin.tables.expressions import RowExpression
from neartwin.tables.types import ColumnType

Named = Callable[[exp.Expr], str | None]
_MOST = 100


@dataclass(frozen=True, slots=True)
class Computed:
    """A selected column that is computed from statistics.

    Attributes:
        name: The name in SELECT, or "".
        of: The statistic of a shape, or the whole expression.
        cut: Whether values are cut at 0.
        way: Whether values grow (True) or fall (False); None for neither.
    """

    name: str
    of: exp.Expr
    cut: bool = False
    way: bool | None = None

    @property
    def is_shape(self) -> bool:
        """Whether it changes a statistic in place."""
        return self.cut or self.way is not None


@dataclass(frozen=True, slots=True)
class Derived:
    """All computed columns of a SELECT, and its items with the statistic in place of each shape.

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
            QueryError: An expression has the name of another column, or a part covers several columns.
        """
        texts: dict[str, str] = {}
        for one in self.computed:
            if not one.is_shape:
                name, text = _name(one), _text(one.of, named)
                if name in released or name in texts:
                    raise QueryError(f"{name!r} names two columns; give {text} another name with AS")
                Arithmetic.parse(text, [column for column, kind in released.items() if kind is ColumnType.NUMBER])
                texts[name] = text
        return PostProcessing(
            monotone=tuple((_shaped(one, named, released), one.way) for one in self.computed if one.way is not None),
            non_negative=tuple(_shaped(one, named, released) for one in self.computed if one.cut),
            computed=tuple(texts.items()),
        )

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
                return _shaped(one, named, released) if one.is_shape else _name(one)
        return None


def without_derived(select: exp.Select) -> tuple[exp.Select, Derived]:
    """Replace computed columns of a SELECT by their statistics. It adds the statistics of expressions if they are missing.

    Args:
        select: The statement.

    Returns:
        The new statement, and the computed columns.

    Raises:
        QueryError: A MONOTONE is not understood, or there are too many columns.
    """
    changed, columns = select.copy(), list[Computed]()
    selected: list[exp.Expr] = []
    items: list[exp.Expr] = []
    for item in changed.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        name = item.alias if isinstance(item, exp.Alias) else ""
        column = Computed(name, inner) if inner.is_number else derived(inner, name)
        if column is not None:
            columns.append(column)
        shape = column is not None and column.is_shape
        items.append(exp.alias_(column.of.copy(), name or None, quoted=True) if column and shape else item)
        if column is None or shape:
            selected.append(items[-1])
    parts = [part for one in columns if not one.is_shape for part in statistics_in(one.of)]
    asked = [one for item in selected for one in statistics_in(item)]
    if (parts or asked) and not any(isinstance(one, exp.Window | exp.Anonymous) for one in asked):
        clauses = [changed.args[clause] for clause in ("having", "order") if changed.args.get(clause) is not None]
        for one in (derived(node) for clause in clauses for node in computed(clause, lambda _: None)):
            if one and not one.is_shape and one.of not in [column.of for column in columns]:
                columns.append(one)
            if len(columns) > _MOST:
                raise QueryError(f"more than {_MOST} columns are computed of statistics; ask several questions")
        parts += [part for clause in clauses for part in statistics_in(clause)]
    known = [item.this if isinstance(item, exp.Alias) else item for item in selected]
    for part in parts:
        if part not in known:
            known.append(part)
            selected.append(part.copy())
    changed.set("expressions", selected)
    return changed, Derived(tuple(columns), tuple(items))


def derived(node: exp.Expr, name: str = "") -> Computed | None:
    """The computed column of an expression.

    Args:
        node: The expression.
        name: The name that AS gives it, or "".

    Returns:
        The column; None for a statistic, and for what is of rows.

    Raises:
        QueryError: The expression is a shape that cannot be computed.
    """
    bare = node.unnest()
    known = isinstance(bare, OPERATIONS) and not _is_statistic(bare) and bool(statistics_in(bare))
    return Computed(name, bare) if known else _shape(bare, name)


def _shape(node: exp.Expr, name: str) -> Computed | None:
    """MONOTONE(statistic), GREATEST(statistic, 0), and one of them within the other."""
    verb = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    if not (isinstance(node, exp.Greatest) or verb == "MONOTONE") or not statistics_in(node):
        return None
    parts = [node.this, *node.expressions] if isinstance(node, exp.Greatest) else list(node.expressions)
    of = [part for part in parts if statistics_in(part)]
    rest = [part for part in parts if not statistics_in(part)]
    within = derived(of[0])
    plain = len(of) == 1 and (within is None or within.is_shape)
    inner = within or Computed(name, of[0].unnest())
    argument = rest[0].this if rest and isinstance(rest[0], exp.Literal) else "increasing"
    if not plain or len(rest) > 1 or argument not in ({"0"} if isinstance(node, exp.Greatest) else WAYS):
        raise QueryError(
            f"{node.sql(dialect='duckdb')!r} is not understood; of one statistic write GREATEST(COUNT(*), 0), MONOTONE(COUNT(*)) "
            "or MONOTONE(COUNT(*), 'decreasing')"
        )
    if isinstance(node, exp.Greatest):
        return Computed(name, inner.of, cut=True, way=inner.way)
    return Computed(name, inner.of, cut=inner.cut, way=WAYS[argument])


def _is_statistic(node: exp.Expr) -> bool:
    if isinstance(node, exp.Window):
        return node.args.get("order") is not None
    named = isinstance(node, exp.Anonymous) and str(node.this).upper() in {*FUNCTIONS, "RANGES", "WEIGHTED_SUMS"}
    return named or isinstance(node, exp.AggFunc | exp.WithinGroup | exp.IgnoreNulls)


def statistics_in(node: exp.Expr) -> list[exp.Expr]:
    """The statistics within an expression; of SUM(statistic) OVER () the inner one.

    Args:
        node: The expression.

    Returns:
        The statistics.
    """
    if _is_statistic(node):
        return [node]
    inside = node.this if isinstance(node, exp.Window) else node
    return [one for child in inside.iter_expressions() for one in statistics_in(child)]


def _name(one: Computed) -> str:
    return one.name or one.of.sql(dialect="duckdb", comments=False)


def _text(node: exp.Expr, named: Named) -> str:
    """The expression over the released columns."""
    root = exp.paren(node.copy())
    for one in statistics_in(root):
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
        if _is_statistic(child) or (derived(child) is not None and (child.find(exp.Div) or known(child))):
            yield child
        else:
            yield from computed(child, known)


def _column(node: exp.Expr, named: Named) -> str:
    name = named(node)
    if name is None:
        text = node.sql(dialect="duckdb")
        raise QueryError(f"{text!r} is not a single statistic, as arithmetic and shapes need; write SUM(x) / COUNT(*)")
    return name


def _shaped(one: Computed, named: Named, released: Mapping[str, ColumnType]) -> str:
    """The column that a shape is of: as it was selected, where another column may be of the same statistic."""
    return one.name if released.get(one.name) is ColumnType.NUMBER else _column(one.of, named)


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
    limit, offset = number_of(select, "limit"), number_of(select, "offset") or 0
    return replace(shaped, having=text, order=ordered, limit=limit, offset=offset)


def _having(condition: exp.Expr, schema: Mapping[str, ColumnType], named: Named) -> str:
    root = exp.paren(condition.copy())
    for node in list(computed(root, named)):
        node.replace(exp.column(_selected(node, named), quoted=True))
    checked = RowExpression.checked(root.this, schema)
    if checked.type is not ColumnType.BOOLEAN:
        raise QueryError(f"HAVING {checked.text!r} is {checked.type}, and no condition; write COUNT(*) > 100")
    return checked.text


def _ordered(item: exp.Ordered, schema: Mapping[str, ColumnType], columns: list[str], named: Named) -> tuple[str, bool]:
    node, down = item.this, bool(item.args.get("desc"))
    if isinstance(node, exp.Literal) and node.is_int:
        if not 1 <= int(node.this) <= len(columns):
            raise QueryError(f"ORDER BY {node.this}: the SELECT has {len(columns)} columns")
        return columns[int(node.this) - 1], down
    if isinstance(node, exp.Column) and not node.table and node.name in schema:
        return node.name, down
    if (name := named(node)) is not None:
        return name, down
    raise QueryError(f"ORDER BY {node.sql(dialect='duckdb')!r} is no column of the SELECT; write ORDER BY 1")


def _selected(node: exp.Expr, named: Named) -> str:
    name = named(node)
    if name is None:
        text = node.sql(dialect="duckdb")
        raise QueryError(f"{text!r} after GROUP BY must be selected, to be a released column; write {text} in SELECT")
    return name


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
    plain = all(name == "expression" for name, value in node.args.items() if value)
    if not (plain and isinstance(node.expression, exp.Literal) and node.expression.is_int):
        raise QueryError(f"{clause.upper()} takes a whole number alone, without WITH TIES; write {clause.upper()} 10")
    return int(node.expression.this)
