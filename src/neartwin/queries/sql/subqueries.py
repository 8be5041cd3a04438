"""WITH and subqueries in FROM and JOIN: names for rows that the statement outside reads.

A subquery without groups is put in place: the statement outside reads its tables, its conditions and its expressions. So
`SELECT COUNT(*) FROM (SELECT * FROM visits WHERE paid > 1) AS t` is the question `SELECT COUNT(*) FROM visits WHERE
paid > 1`, with one digest.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from neartwin.errors import QueryError

_MOST = 64  # subqueries of a statement once the names of WITH are written out
_PLAIN = {"kind", "expressions", "from_", "joins", "where", "order"}  # an order inside decides nothing
_INSTEAD = {
    "limit": "which rows it keeps depends on all people; write ORDER BY and LIMIT outside, on the noisy release",
    "offset": "which rows it keeps depends on all people; write OFFSET outside, on the noisy release",
    "with_": "write every WITH in front of the statement",
}


def without_subqueries(select: exp.Select) -> exp.Select:
    """The statement with its subqueries in FROM and JOIN put in place. Names of WITH stand for theirs.

    Args:
        select: The statement, which is changed.

    Returns:
        The statement.

    Raises:
        QueryError: A subquery cannot be put in place.
    """
    _write_names_out(select)
    return _flat(select)


def _write_names_out(select: exp.Select) -> None:
    clause = select.args.pop("with_", None)
    if clause is None:
        return
    if clause.args.get("recursive"):
        raise QueryError("WITH RECURSIVE may never end; write WITH, without RECURSIVE")
    known: dict[str, exp.CTE] = {}
    written = 0
    for part in [*clause.expressions, select]:
        for table in list(part.find_all(exp.Table)):
            if table.name not in known or table.args.get("db"):
                continue
            found = known[table.name]
            written += 1 + sum(1 for _ in found.find_all(exp.Subquery))
            if written > _MOST:
                raise QueryError(f"names of WITH stand for more than {_MOST} subqueries; ask several questions")
            columns = [column.copy() for column in found.args["alias"].columns]
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name), columns=columns)
            table.replace(exp.Subquery(this=found.this.copy(), alias=alias))
        if isinstance(part, exp.CTE):
            known[part.alias] = part


@dataclass(frozen=True, slots=True)
class _Output:
    """The columns of a subquery under its alias: expressions by name, and with a star all columns of its tables."""

    alias: str
    expressions: Mapping[str, exp.Expr]
    star: bool

    def of(self, name: str) -> exp.Expr:
        if name in self.expressions:
            return self.expressions[name].copy()
        if self.star:
            return exp.column(name, table=self.alias or None, quoted=not name.isidentifier())
        known = ", ".join(self.expressions)
        raise QueryError(f"{name!r} is not a column of the subquery; it has {known}; add {name} to its SELECT")


def _flat(select: exp.Select) -> exp.Select:
    """The statement over tables alone: subqueries within subqueries first."""
    source = select.args.get("from_")
    if source is not None and isinstance(source.this, exp.Subquery) and isinstance(source.this.this, exp.Select):
        inner = _plain(source.this)
        joins, after = inner.args.get("joins") or [], select.args.get("joins") or []
        output = _output(inner, source.this, str(source.this.alias_or_name) if after and not joins else "")
        select.set("from_", inner.args["from_"])
        _put_in_place(select, str(source.this.alias_or_name), output)
        select.set("joins", [*joins, *after])
        _also_where(select, inner)
    for join in select.args.get("joins") or []:
        if isinstance(join.this, exp.Subquery) and isinstance(join.this.this, exp.Select):
            inner = _plain(join.this)
            if inner.args.get("joins") or (join.side and inner.args.get("where")):
                raise _refused(join.this, "join its tables one by one, and write its conditions in WHERE")
            alias = str(join.this.alias_or_name)
            output = _output(inner, join.this, alias)
            join.set("this", inner.args["from_"].this)
            _put_in_place(select, alias, output)
            _also_where(select, inner)
    return select


def _plain(subquery: exp.Subquery) -> exp.Select:
    """The SELECT of a subquery that changes single rows."""
    inner = _flat(subquery.this)
    for clause, value in inner.args.items():
        if value and clause not in _PLAIN:
            raise _refused(subquery, _INSTEAD.get(clause, f"{clause.strip('_').upper()} inside reads many rows"))
    if inner.args.get("from_") is None or any(item.find(exp.AggFunc, exp.Window) for item in inner.expressions):
        raise _refused(subquery, "write SELECT columns FROM a table inside, and the statistics outside")
    return inner


def _output(inner: exp.Select, subquery: exp.Subquery, alias: str) -> _Output:
    """The columns of a subquery; with an alias they are qualified by it, and so is its one table."""
    if alias:
        table = inner.args["from_"].this
        for column in _own_columns(inner):
            if not column.table or column.table == table.alias_or_name:
                column.set("table", exp.to_identifier(alias))
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    stars = [item for item in inner.expressions if item.is_star]
    if any(value for item in stars for name, value in item.args.items() if name not in {"this", "table"}):
        raise _refused(subquery, "a star stands alone; write the columns")
    items = [item for item in inner.expressions if not item.is_star]
    names = [column.name for column in subquery.args["alias"].columns] if subquery.args.get("alias") else []
    if names and (stars or len(names) != len(items)):
        raise _refused(subquery, f"it has {len(items)} columns and {len(names)} names; write AS {subquery.alias}")
    names = names or [item.alias_or_name or item.sql(dialect="duckdb") for item in items]
    return _Output(alias, dict(zip(names, (item.unalias() for item in items), strict=True)), bool(stars))


def _own_columns(select: exp.Select) -> list[exp.Column]:
    """The columns of a statement that do not stand in a subquery, but for those that name one of its tables."""
    found = (column for column in select.find_all(exp.Column) if not isinstance(column.this, exp.Star))
    return [column for column in found if column.table or column.find_ancestor(exp.Select) is select]


def _put_in_place(select: exp.Select, alias: str, output: _Output) -> None:
    """Write a subquery's columns in place of their names outside."""
    alone = not select.args.get("joins")
    added: list[exp.Expr] = []
    for item in [item for item in select.expressions if item.is_star]:
        every = isinstance(item, exp.Star)
        if every or item.args["table"].name == alias:
            added += [exp.alias_(value.copy(), name, quoted=True) for name, value in output.expressions.items()]
            if not output.star and (alone or not every):
                item.pop()
    shown = {item.alias for item in select.expressions if isinstance(item, exp.Alias)}
    for join in select.args.get("joins") or []:
        for item in join.args.get("using") or []:
            of = output.of(item.name) if item.name in output.expressions else exp.column(item.name)
            if not isinstance(of, exp.Column) or of.name != item.name:
                raise QueryError(f"USING ({item.name}) must name a column of a table; write ON")
    for column in _own_columns(select):
        name = column.name
        if column.table != alias and (column.table or not (alone or name in output.expressions)):
            continue
        if (
            not column.table
            and name in shown
            and (name not in output.expressions or column.find_ancestor(exp.Order, exp.Having))
        ):
            continue
        new = output.of(name)
        parent = column.parent
        if isinstance(parent, exp.Select) and not (isinstance(new, exp.Column) and new.name == name):
            new = exp.alias_(new, name, quoted=True)
        elif not isinstance(parent, exp.Select | exp.Group | exp.Alias | exp.Where | exp.Ordered | exp.AggFunc):
            new = new if isinstance(new, exp.Column | exp.Literal | exp.Anonymous) else exp.paren(new)
        column.replace(new)
    select.set("expressions", [*select.expressions, *added])


def _also_where(select: exp.Select, inner: exp.Select) -> None:
    """Both conditions, with their operands side by side."""
    if inner.args.get("where") is not None:
        select.where(inner.args["where"].this, copy=False)


def _refused(node: exp.Expr, why: str) -> QueryError:
    return QueryError(f"{node.sql(dialect='duckdb', comments=False)!r} is not understood: {why}")
