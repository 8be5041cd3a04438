"""FROM and JOIN of a SQL text: the joins of `Rows.join`, from named tables, and no others.

Joined rows keep one of two equated columns of one name: the column on the left. After an inner join both are equal.
After `a LEFT JOIN c ON a.z = c.z` they differ, because `c.z` is NULL in unmatched rows. So `c.z` is no column of the
joined rows, and is refused everywhere. `z` after USING and `a.z` are one column in SQL too.

A joined table may stand on the right of a JOIN: `a JOIN (b JOIN c ON ...) ON ...`. It becomes a chain of joins with
equal rows. Inner joins commute, so each table is joined as soon as an equality ties it to an earlier one. A LEFT JOIN
inside comes after the tables that its ON names, because it does not change them. If an inner equality names one of its
columns, a row without that column is dropped in any case. It then becomes an inner join.

`a LEFT JOIN (b JOIN c)` keeps a row of a with NULL for both if b has a partner and c has none. So c is joined beside b,
see `neartwin.tables.table`. LEFT joins within such a group come after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.queries.query import Rows
from neartwin.tables.joins import OtherTable, met, own_columns
from neartwin.tables.table import How, Table

BESIDE = "BESIDE"  # where a side stands: of joins within the LEFT one before


@dataclass(slots=True)
class _Part:
    """A table of a group: its join, and the equalities that it takes part in, each with the aliases in it."""

    join: exp.Join
    alias: str
    left: bool
    equal: list[tuple[exp.Expr, frozenset[str]]] = field(default_factory=list)


def chained(joins: list[exp.Join], first: str, columns: Mapping[str, frozenset[str]]) -> list[exp.Join]:
    """The joins as a chain, without joined tables on the right of a JOIN.

    Args:
        joins: The joins of a statement.
        first: The alias in FROM.
        columns: The columns of each table that may be named.

    Returns:
        The chain.

    Raises:
        QueryError: A group has no such chain.
    """
    parts: list[exp.Join] = []
    known = {first}
    for join in joins:
        group = _group(join)
        chain = [join] if group is None else _chain(join, group, known, columns)
        parts += chain
        known |= {str(one.this.alias_or_name) for one in chain}
    return parts


def _group(join: exp.Join) -> exp.Table | None:
    """The first table of a group in parentheses, with its joins in it."""
    inner = join.this
    if isinstance(inner, exp.Subquery) and isinstance(inner.this, exp.Table) and not inner.alias:
        return inner.this
    return None


def _chain(join: exp.Join, group: exp.Table, known: set[str], columns: Mapping[str, frozenset[str]]) -> list[exp.Join]:
    if join.args.get("using") or join.args.get("on") is None:
        raise QueryError(
            f"a joined table on the right of a JOIN is joined ON equalities of qualified columns, or {_HINT}"
        )
    parts = _parts(group, columns)
    names = {part.alias for part in parts}
    for part in parts:
        for _, tables in part.equal:
            if not tables <= names:
                raise QueryError(
                    f"ON within the parentheses names {min(tables - names)!r}, which is a table outside them: {_HINT}"
                )
    outside = [(one, _aliases(one, known | names)) for one in _conjuncts(join.args["on"])]
    _kept_alone(parts, frozenset().union(*(tables for _, tables in outside)))
    for part in parts:
        part.equal += [(one, tables) for one, tables in outside if part.alias in tables]
    if not _is_left(join):
        return _ordered(parts, set(known))
    both, alone = ([part for part in parts if part.left is left] for left in (False, True))
    ordered = _ordered(both, set(known))
    for one in ordered:
        one.set("side", BESIDE if one is not ordered[0] else "LEFT")
    return ordered + _ordered(alone, known | {part.alias for part in both})


def _kept_alone(parts: list[_Part], sides: frozenset[str]) -> None:
    """Only those stay LEFT of which no inner equality asks for a column: one that does drops the rows that have NULL there."""
    before = None
    while before != sides:
        before = sides
        for part in parts:
            part.left = part.left and part.alias not in sides
        inner = [tables for part in parts if not part.left for _, tables in part.equal]
        sides = sides.union(*inner)


def _parts(group: exp.Table, columns: Mapping[str, frozenset[str]]) -> list[_Part]:
    """The tables of a group in their order, groups within it made chains first."""
    bare = group.copy()
    inner = bare.args.pop("joins", None) or []
    parts = [_Part(exp.Join(this=bare), str(bare.alias_or_name), left=False)]
    scope = {parts[0].alias: columns.get(bare.name, frozenset())}
    for one in chained(inner, parts[0].alias, columns):
        alias = str(one.this.alias_or_name)
        if one.side == BESIDE:
            raise QueryError(f"a LEFT JOIN of joined tables within parentheses is not understood: {_HINT}")
        if alias in scope:
            raise QueryError(f"{alias!r} names two tables; give one of them another name with AS")
        equal = _conjuncts(one.args["on"]) if one.args.get("on") is not None else _of_using(one, alias, scope)
        scope[alias] = columns.get(one.this.name, frozenset())
        part = _Part(exp.Join(this=one.this), alias, left=_is_left(one))
        part.equal = [(each, _aliases(each, set(scope))) for each in equal]
        parts.append(part)
    return parts


def _of_using(join: exp.Join, alias: str, scope: Mapping[str, frozenset[str]]) -> list[exp.Expr]:
    equal: list[exp.Expr] = []
    for item in join.args.get("using") or []:
        having = [name for name, known in scope.items() if item.name in known]
        if len(having) != 1:
            raise QueryError(
                f"USING ({item.name}) within parentheses must name a column of one table before it: write ON"
            )
        equal.append(exp.EQ(this=exp.column(item.name, table=having[0]), expression=exp.column(item.name, table=alias)))
    return equal


def _ordered(parts: list[_Part], known: set[str]) -> list[exp.Join]:
    """Each table once something ties it to those before it: of LEFT joins, all that their ON names."""
    ordered: list[exp.Join] = []
    waiting, equalities = list(parts), {id(one): (one, tables) for part in parts for one, tables in part.equal}
    while waiting:
        part = next((one for one in waiting if _ready(one, known, equalities)), None)
        if part is None:
            raise QueryError(
                f"{waiting[0].alias!r} has no join condition with a table outside the parentheses: {_HINT}"
            )
        waiting.remove(part)
        known.add(part.alias)
        now = [one for one, tables in equalities.values() if part.alias in tables and tables <= known]
        equalities = {key: pair for key, pair in equalities.items() if not (part.alias in pair[1] and pair[1] <= known)}
        if part.left:
            part.join.set("side", "LEFT")
        part.join.set("on", exp.and_(*(one.copy() for one in now), wrap=False))
        ordered.append(part.join)
    return ordered


def _ready(part: _Part, known: set[str], equalities: Mapping[int, tuple[exp.Expr, frozenset[str]]]) -> bool:
    if part.left:
        return all(tables <= known | {part.alias} for _, tables in part.equal)
    return any(part.alias in tables and tables <= known | {part.alias} for _, tables in equalities.values())


def _conjuncts(on: exp.Expr) -> list[exp.Expr]:
    return [part.unnest() for part in (on.flatten() if isinstance(on, exp.And) else [on])]


def _aliases(equality: exp.Expr, known: set[str]) -> frozenset[str]:
    names = frozenset(column.table for column in equality.find_all(exp.Column))
    if not names or not names <= known:
        raise QueryError(
            f"ON {equality.sql(dialect='duckdb')!r} beside a joined table must equate qualified columns of known tables"
        )
    return names


def _is_left(join: exp.Join) -> bool:
    kind = " ".join(join.args[part] for part in ("method", "side", "kind") if join.args.get(part))
    if kind not in {"", "INNER", "LEFT", "LEFT OUTER"}:
        raise QueryError(f"{kind} JOIN is not understood in a private question: {_HINT}")
    return kind.startswith("LEFT")


Others = Mapping[str, Rows | OtherTable]
_HINT = "write JOIN other USING (column), or ON this.column = other.column AND ..."


@dataclass(frozen=True, slots=True)
class _Known:
    """A table of the question: its columns' names in the joined rows, and which of those are another's where it met none."""

    names: Mapping[str, str]
    lost: frozenset[str] = field(default=frozenset())


_Scope = dict[str, _Known]  # by alias


def joined_by(select: exp.Select, rows: Rows, others: Others) -> Rows:
    """The rows of FROM and JOIN. Qualified columns of the SELECT get their names in these rows, in place.

    Args:
        select: The statement.
        rows: The rows of the table in FROM.
        others: The tables that JOIN may name.

    Returns:
        The joined rows.

    Raises:
        QueryError: A table was not given, or a join is no equality.
    """
    first, own = _base(select, rows.table), own_columns(rows.table) | set(rows.table.computed)
    scope: _Scope = {first: _Known({name: name for name in own})}
    columns = {name: frozenset((one.table if isinstance(one, Rows) else one).schema) for name, one in others.items()}
    for join in chained(select.args.pop("joins", None) or [], first, {rows.table.name: own, **columns}):
        rows = _join(join, rows, others, scope)
    if len(scope) > 1:
        _refuse_ambiguous(select, scope)
    for column in list(select.find_all(exp.Column)):
        if column.table:
            column.replace(exp.column(_named(column, scope), quoted=True))
    return rows


def _base(select: exp.Select, table: Table) -> str:
    source = select.args.get("from_") or select.args.get("from")
    source_node = source.this if source is not None else None
    if not _is_plain(source_node) or source_node.name != table.name:
        raise QueryError(
            f"FROM must name the table {table.name!r}; other tables come after JOIN; write FROM {table.name}"
        )
    return str(source_node.alias_or_name)


def _is_plain(found: exp.Expr | None) -> TypeGuard[exp.Table]:
    return (
        isinstance(found, exp.Table)
        and isinstance(found.this, exp.Identifier)
        and all(name in {"this", "alias"} for name, value in found.args.items() if value)
    )


def _join(join: exp.Join, rows: Rows, others: Others, scope: _Scope) -> Rows:
    kind = " ".join(join.args[part] for part in ("method", "side", "kind") if join.args.get(part))
    if kind not in {"", "INNER", "LEFT", "LEFT OUTER", BESIDE}:
        raise QueryError(f"{kind} JOIN is not understood in a private question: {_HINT}")
    table = join.this
    if not _is_plain(table) or table.name not in others:
        known = ", ".join(map(repr, others)) or "none"
        line = f"tables={{{table.name!r}: nt.public_table('{table.name}.parquet')}}"
        raise QueryError(
            f"JOIN must name one of the tables given beside {rows.table.name!r}, which are: {known}; write {line}, or "
            f"--public {table.name}={table.name}.parquet in a terminal"
        )
    alias = table.alias_or_name
    if alias in scope:
        raise QueryError(f"{alias!r} names two tables; give one of them another name with AS")
    other = others[table.name]
    other_table = other.table if isinstance(other, Rows) else other
    on = _on(join, alias, frozenset(other_table.schema), scope)
    clash = any(name in rows.table.schema and (name, name) not in on for name in other_table.schema)
    how = "left" if kind.startswith("LEFT") else "beside" if kind == BESIDE else "inner"
    prefix, pairs = f"{alias}_" if clash else "", _unique(on)
    new = rows.join(other, on=pairs, how=how, prefix=prefix)
    scope[alias] = _with_names(rows.table, new.table, other_table, on=pairs, how=how, prefix=prefix)
    return new


def _with_names(
    before: Table, after: Table, other: OtherTable | Table, *, on: dict[str, str], how: str, prefix: str
) -> _Known:
    """What the other table's columns are called after the join that made `after`."""
    if isinstance(other, Table) and other.joins:
        return _Known(met(before, other, on=on, how=how, prefix=prefix)[1])
    last = after.joins[-1]
    equated = {right for left, right in last.on if left == right}
    names = {old: new for new, old in last.columns.items()} | {name: name for name in equated}
    return _Known(names, frozenset(equated if last.how is not How.INNER else ()))


def _unique(on: list[tuple[str, str]]) -> dict[str, str]:
    pairs = dict(on)
    if len(pairs) != len(on):
        raise QueryError("ON equates one column with two others; move one of the conditions to WHERE")
    return pairs


def _on(join: exp.Join, alias: str, columns: frozenset[str], scope: _Scope) -> list[tuple[str, str]]:
    using, on = join.args.get("using"), join.args.get("on")
    if using:
        return [(_named(exp.column(item.name), scope), item.name) for item in using]
    if on is None:
        raise QueryError(f"{join.this.sql(dialect='duckdb')!r} has no join condition: {_HINT}")
    pairs = []
    for part in on.flatten() if isinstance(on, exp.And) else [on]:
        node = part.unnest()
        sides = [node.this, node.expression] if isinstance(node, exp.EQ) else []
        if len(sides) != 2 or not all(isinstance(side, exp.Column) for side in sides):
            raise QueryError(f"ON {part.sql(dialect='duckdb')!r} is not an equality of two columns: {_HINT}")
        theirs = [side.table == alias or (not side.table and side.name in columns) for side in sides]
        if theirs[0] == theirs[1]:
            raise QueryError(
                f"ON {part.sql(dialect='duckdb')!r} must equate a column of {alias!r} with one before it: {_HINT}"
            )
        mine, its = reversed(sides) if theirs[0] else sides
        pairs.append((_named(mine, scope), its.name))
    return pairs


def _named(column: exp.Column, scope: _Scope) -> str:
    """A column's name in the joined rows."""
    if column.table:
        known = scope.get(column.table)
        text = column.sql(dialect="duckdb")
        if known is None or column.args.get("db") or column.name not in known.names:
            raise QueryError(f"{text!r} is not a column of the tables of this question: {', '.join(scope)}")
        if column.name in known.lost:
            raise QueryError(
                f"{text!r} is NULL in rows that the LEFT JOIN of {column.table!r} leaves unmatched; write the column "
                "on the left, or JOIN to keep matched rows alone. To find unmatched rows, test IS NULL on another column of "
                f"{column.table!r} that has no NULL itself, or rename that key in the table"
            )
        return known.names[column.name]
    matches = {one.names[column.name] for one in scope.values() if column.name in one.names}
    if len(matches) > 1:
        raise QueryError(f"{column.name!r} is a column of several tables; write table.{column.name}")
    return matches.pop() if matches else column.name


def _refuse_ambiguous(select: exp.Select, scope: _Scope) -> None:
    aliases = {item.alias for item in select.expressions if isinstance(item, exp.Alias)}
    for column in select.find_all(exp.Column):
        if not column.table and column.name not in aliases:
            _named(column, scope)
