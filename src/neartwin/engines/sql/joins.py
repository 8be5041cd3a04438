"""The first rows of the one statement if tables are joined. `neartwin.tables.table` explains the kinds of join.

```
part0, part1, ...  the needed columns of each table, typed
owner1             for each key of part1, the unit that owns its rows      (only for owned tables)
owned1             part1 with the owner                                    (only for owned tables)
typed              part0 matched with the others, in their order
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from neartwin.engines.sql.dialect import Dialect, Parts, integer, named, part_named, selected, windowed
from neartwin.tables.joins import own_columns
from neartwin.tables.table import How, JoinKind, Table, together
from neartwin.tables.types import ColumnType


@dataclass(frozen=True, slots=True)
class _Met:
    """A table of a join: its part, conditions, and the two columns of each equality by the name of the one before."""

    name: str
    equal: Sequence[exp.Expr]
    pairs: Sequence[tuple[str, exp.Column, exp.Column]]


@dataclass(frozen=True, slots=True)
class Place:
    """An engine's access to a table.

    Attributes:
        rows: The FROM clause.
        dialect: The dialect that knows its columns.
    """

    rows: exp.Expr
    dialect: Dialect


def needed_parts(table: Table, columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The columns that the statement reads, for each table, by the table's own names, sorted.

    Args:
        table: The joined table.
        columns: The columns of the joined rows that the statement reads.

    Returns:
        The names, for each table.
    """
    names = set(columns) | {left for join in table.joins for left, _ in join.on}
    if table.joins:
        names.add(str(table.unit))
    parts = [names & own_columns(table)]
    parts += [
        {old for new, old in join.columns.items() if new in names} | {right for _, right in join.on}
        for join in table.joins
    ]
    return tuple(tuple(sorted(part)) for part in parts)


def joined_rows(table: Table, places: Sequence[Place], aliases: Mapping[str, str]) -> Parts:
    """The common table expressions in order. The last is `typed`, with a column for each alias.

    Args:
        table: The joined table.
        places: The tables.
        aliases: The name in the statement of each column.

    Returns:
        The expressions, by name.
    """
    needed = needed_parts(table, tuple(aliases))
    unit = str(table.unit)
    rows = {"part0": _part(0, places[0], needed[0], table.schema, table.declared, unspelled=unit)}
    at = {name: exp.column(f"p0_{i}", table="part0") for i, name in enumerate(needed[0])}
    equated = dict(at)
    if places[0].dialect.collates:
        typed = places[0].dialect.column(unit, table.schema[unit], declared=unit in table.declared)
        rows["part0"] = rows["part0"].select(named(places[0].dialect.bytewise(typed), "unit"))
        equated[unit] = exp.column("unit", table="part0")
    met: dict[int, _Met] = {}
    for number, join in enumerate(table.joins, start=1):
        rows[f"part{number}"] = _part(number, places[number], needed[number], join.schema, join.declared)
        right = {old: f"p{number}_{i}" for i, old in enumerate(needed[number])}
        name = f"part{number}"
        equal = []
        if join.kind is JoinKind.OWNED:
            name = f"owned{number}"
            keys = [(equated[left].name, right[column]) for left, column in join.on]
            owner = equated[unit]
            rows[f"owner{number}"] = _owner([key for key, _ in keys], owner.name, places[0].dialect)
            rows[name] = _owned(number, keys, list(right.values()))
            equal.append(owner.eq(exp.column("owner", table=name)))
        pairs = [(left, equated[left], exp.column(right[column], table=name)) for left, column in join.on]
        met[id(join)] = _Met(name, equal, pairs)
        equated |= {new: exp.column(right[old], table=name) for new, old in join.columns.items() if old in right}
    shown = (({**equated, **at})[name].copy() for name in aliases)
    query = selected("part0", *map(named, shown, aliases.values()))
    for group in together(table.joins):
        query = _with_group(query, group[0].how, [met[id(join)] for join in group])
    return rows | {"typed": query}


def _with_group(query: exp.Select, how: How, group: list["_Met"]) -> exp.Select:
    """The query with one join, or a LEFT one of tables that are joined to each other first.

    Equalities of those with each other stand within the parentheses, and so do those with a column from outside that one of them
    is equated with: there it is that one.
    """
    first, *others = group
    inner, names, same = exp.table_(first.name), {first.name}, {left: right for left, _, right in first.pairs}
    outer = [*first.equal, *(mine.eq(its) for _, mine, its in first.pairs)]
    for one in others:
        within: list[exp.Expr] = []
        for left, mine, its in one.pairs:
            own = mine if mine.table in names else same.get(left)
            (outer if own is None else within).append((mine if own is None else own.copy()).eq(its))
        names.add(one.name)
        same |= {left: its for left, _, its in one.pairs if left not in same}
        inner.append("joins", exp.Join(this=exp.table_(one.name), on=exp.and_(*within), kind="INNER"))
    source = exp.Subquery(this=inner) if others else inner
    return query.join(source, on=exp.and_(*outer), join_type="left" if how is How.LEFT else "inner")


def by_bytes(value: exp.Expr, kind: ColumnType, dialect: Dialect) -> exp.Expr:
    """A text by its bytes. With a column's collation one group would have many spellings, and one person's would be shown.

    A collation in a join would match one row with several units.

    Args:
        value: The value.
        kind: Its type.
        dialect: The engine's spelling.

    Returns:
        The expression.
    """
    return dialect.bytewise(value) if kind is ColumnType.TEXT else value


def _part(  # noqa: PLR0917 - of one table
    number: int,
    place: Place,
    needed: tuple[str, ...],
    schema: Mapping[str, ColumnType],
    declared: frozenset[str],
    unspelled: str = "",
) -> exp.Select:
    """The needed columns, texts by their bytes. `unspelled` keeps its collation: a unit's spellings are one person's."""
    columns = []
    for i, name in enumerate(needed):
        value = place.dialect.column(name, schema[name], declared=name in declared)
        value = value if name == unspelled else by_bytes(value, schema[name], place.dialect)
        columns.append(named(value, f"p{number}_{i}"))
    return exp.select(*columns, copy=False).from_(place.rows)


def _owner(keys: list[str], unit: str, dialect: Dialect) -> exp.Select:
    """One unit a key, of those that have it: the first by MD5 of key and unit, then by the unit itself."""
    names = [*keys, unit]
    present = [exp.column(name).is_(exp.null()).not_() for name in names]
    claims = selected("part0", *names).distinct().where(*present)
    order = [dialect.fingerprint(list(map(exp.column, names))), exp.column(unit)]
    place = windowed(exp.RowNumber(), *keys, order=exp.Order(expressions=[exp.Ordered(this=item) for item in order]))
    columns = [*map(exp.column, keys), named(exp.column(unit), "owner"), named(place, "place")]
    ranked = exp.select(*columns).from_(claims.subquery("claims"))
    return exp.select(*keys, "owner").from_(ranked.subquery("ranked")).where(exp.column("place").eq(integer(1)))


def _owned(number: int, keys: list[tuple[str, str]], columns: list[str]) -> exp.Select:
    owner, part = f"owner{number}", f"part{number}"
    equal = [exp.column(key, table=owner).eq(exp.column(own, table=part)) for key, own in keys]
    chosen = [exp.column(name, table=part) for name in columns]
    return selected(part, exp.column("owner", table=owner), *chosen).join(part_named(owner), on=exp.and_(*equal))
