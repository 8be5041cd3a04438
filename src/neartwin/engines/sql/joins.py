"""The first rows of the one statement if tables are joined. `neartwin.tables.table` explains the kinds of join.

```
part0, part1, ...  the needed columns of each table, typed
owner1             for each key of part1, the unit that owns its rows      (only for owned tables)
owned1             part1 with the owner                                    (only for owned tables)
typed              part0 matched with the others, in their order
```
Rows that are computed from one unit's rows at a time have such expressions of their own within, and two more:

```
utyped, j1typed, ...  the rows that are read, by the same rules; u stands for a first table, j1 for part1
ukept, j1kept, ...    those of a unit that meet the conditions inside
usplit, ...           and the columns by which they are grouped, if they are
```
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from neartwin.engines.sql.dialect import Dialect, Parts, integer, named, part_named, selected, windowed
from neartwin.engines.sql.per_unit import unit_value
from neartwin.engines.sql.rendering import column_of, translated
from neartwin.tables.joins import claims_of, own_columns
from neartwin.tables.sources import Source
from neartwin.tables.table import NOBODY, How, Join, PerUnit, Table, together
from neartwin.tables.types import ColumnType, any_column


class Read(NamedTuple):
    """A source that a statement reads: its columns, the join or public table that has it, and its column of units.

    A first table of people has no join.
    """

    source: Source
    columns: tuple[str, ...]
    join: Join | Table | None
    unit: str


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
    own = own_columns(table)
    if table.joins and isinstance(table.unit, str):
        names.add(table.unit)
    elif table.joins and not names & own:
        names.add(any_column(table.schema, own))
    parts = [names & own]
    parts += [
        {old for new, old in join.columns.items() if new in names} | {right for _, right in join.on}
        for join in table.joins
    ]
    return tuple(tuple(sorted(part)) for part in parts)


def sources_of(table: Table, columns: Sequence[str]) -> list[Read]:
    """The sources that the statement reads, in the order of its places, each with the columns that it needs.

    Args:
        table: The joined table.
        columns: The columns of the joined rows that the statement reads.

    Returns:
        The sources.
    """
    found: list[Read] = []
    parts: list[Table | Join] = [table, *table.joins]
    for part, needed in zip(parts, needed_parts(table, columns), strict=True):
        if part.per_unit is not None:
            found += sources_of(part.per_unit.table, part.per_unit.reads(needed))
        elif isinstance(part, Join):
            units = (right for left, right in part.on if left == table.unit)
            found.append(Read(part.source, needed, part, next(units, "")))
        else:
            public = part.unit == NOBODY
            found.append(Read(part.source, needed, part if public else None, "" if public else str(part.unit)))
    return found


def table_rows(table: Table, places: Iterator[Place], dialect: Dialect, aliases: Mapping[str, str], at: str) -> Parts:
    """The common table expressions of a table in order. The last is `typed`, with a column for each alias.

    Args:
        table: The table.
        places: The sources, in the order of `sources_of`.
        dialect: The engine's spelling.
        aliases: The name in the statement of each column.
        at: Put before the names of the expressions; "" for the statement's own table.

    Returns:
        The expressions, by name.
    """
    if table.joins:
        return _joined_rows(table, places, dialect, aliases, at)
    if table.per_unit is not None:
        return _unit_rows(table.per_unit, places, dialect, aliases, f"{at}typed", f"{at}u")
    place, columns = next(places), []
    for name, alias in aliases.items():
        value = place.dialect.column(name, table.schema[name], declared=name in table.declared)
        columns.append(named(value if name == table.unit else by_bytes(value, table.schema[name], dialect), alias))
    return {f"{at}typed": exp.select(*(columns or [named(integer(1), "one")]), copy=False).from_(place.rows)}


def _unit_rows(  # noqa: PLR0917 - of one table
    of: PerUnit, places: Iterator[Place], dialect: Dialect, aliases: Mapping[str, str], last: str, at: str
) -> Parts:
    """The expressions of rows that are computed from one unit's rows at a time; see `per_unit`. Names fit 63 letters."""
    reads = of.reads(tuple(aliases))
    parts = table_rows(of.table, places, dialect, {name: f"c{i}" for i, name in enumerate(reads)}, at)
    columns = {name: exp.column(f"c{i}") for i, name in enumerate(reads)}
    unit = columns.get(of.table.unit) if isinstance(of.table.unit, str) else None
    kept = [translated(condition.term, columns, dialect) for condition in of.conditions]
    query = selected(f"{at}typed").where(*kept, copy=False)
    if unit is not None:
        query = query.where(unit.is_(exp.null()).not_(), copy=False)
    if dialect.collates and unit is not None:
        first = windowed(exp.Min(this=dialect.bytewise(unit.copy())), unit.name)
        query = query.select(exp.Star(replace=[named(first, unit.name)]), append=False)
    parts[f"{at}kept"] = query
    passed: dict[str, exp.Expr] = {}
    for name in of.by or [name for name in aliases if name not in of.columns]:
        one = of.expression(name)
        own = name if of.by is None else of.by[name]
        passed[name] = columns[own].copy() if one is None else column_of(one.term, columns, dialect)
    if of.by is not None:
        groups = {name: exp.column(f"g{i}") for i, name in enumerate(passed)}
        split = [named(value, groups[name].name) for name, value in passed.items()]
        parts[f"{at}split"], passed = selected(f"{at}kept", exp.Star(), *split), dict(groups)
    parted = unit if of.by is None else None
    values = {name: unit_value(of.columns[name], parted, columns, dialect) for name in aliases if name in of.columns}
    shown = [named((values | passed)[name].copy(), alias) for name, alias in aliases.items()]
    spare = exp.Count(this=exp.Star()) if of.by == {} else integer(1)  # an aggregate has one row
    answer = selected(next(reversed(parts)), *(shown or [named(spare, "one")]))
    if of.by:
        answer = answer.group_by(*(one.copy() for one in passed.values()), copy=False)
    return {**parts, last: answer}


def _joined_rows(
    table: Table, places: Iterator[Place], dialect: Dialect, aliases: Mapping[str, str], at_name: str
) -> Parts:
    needed = needed_parts(table, tuple(aliases))
    unit, first = table.unit if isinstance(table.unit, str) else "", f"{at_name}part0"
    rows = _part(at_name, 0, places, dialect, needed[0], table, unspelled=unit)
    at = {name: exp.column(f"p0_{i}", table=first) for i, name in enumerate(needed[0])}
    equated = dict(at)
    if dialect.collates and unit in at:
        spelled = exp.column(at[unit].name)
        raw = rows.pop(first)
        rows |= {
            f"{first}_raw": raw,
            first: selected(f"{first}_raw", exp.Star(), named(dialect.bytewise(spelled), "unit")),
        }
        equated[unit] = exp.column("unit", table=first)
    known = {id(table): (first, {name: column.name for name, column in equated.items()})}  # parts, with their columns
    met: dict[int, _Met] = {}
    for number, join in enumerate(table.joins, start=1):
        name = part = f"{at_name}part{number}"
        rows |= _part(at_name, number, places, dialect, needed[number], join)
        right = {old: f"p{number}_{i}" for i, old in enumerate(needed[number])}
        equal = []
        if join.owner is not None:
            name, owners = f"{at_name}owned{number}", f"{at_name}owner{number}"
            claims = claims_of(table, join.owner)
            claimed, own = known[id(claims)]
            keys = [(own[left], right[column]) for left, column in join.owner.on]
            its = next((theirs for mine, theirs in getattr(claims, "on", ()) if mine == unit), unit)
            rows[owners] = _owner(claimed, [key for key, _ in keys], own[its], dialect)
            rows[name] = _owned(part, owners, keys, list(right.values()))
            equal.append(equated[unit].eq(exp.column("owner", table=name)))
        known[id(join)] = part, right
        pairs = [(left, equated[left], exp.column(right[column], table=name)) for left, column in join.on]
        met[id(join)] = _Met(name, equal, pairs)
        equated |= {new: exp.column(right[old], table=name) for new, old in join.columns.items() if old in right}
    shown = (({**equated, **at})[name].copy() for name in aliases)
    query = selected(first, *map(named, shown, aliases.values()))
    for group in together(table.joins):
        query = _with_group(query, group[0].how, [met[id(join)] for join in group])
    return rows | {f"{at_name}typed": query}


def _with_group(query: exp.Select, how: How, group: list["_Met"]) -> exp.Select:
    """The query with one join, or a LEFT one of tables that are joined to each other first.

    Equalities of those with each other stand within the parentheses, and so do those with a column from outside that one of them
    is equated with: there it is that one.
    """
    first, *others = group
    inner, names, same = exp.table_(first.name), {first.name}, {left: right for left, _, right in first.pairs}
    outer = [*first.equal, *(mine.eq(its) for _, mine, its in first.pairs)] or [exp.true()]
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
    at: str,
    number: int,
    places: Iterator[Place],
    dialect: Dialect,
    needed: tuple[str, ...],
    of: Table | Join,
    unspelled: str = "",
) -> Parts:
    """The needed columns, texts by their bytes. `unspelled` keeps its collation: a unit's spellings are one person's."""
    aliases, part = {name: f"p{number}_{i}" for i, name in enumerate(needed)}, f"{at}part{number}"
    rows: Parts = {}
    if of.per_unit is not None:
        rows = _unit_rows(of.per_unit, places, dialect, aliases, f"{part}_unit", f"{at}j{number}")
        values: dict[str, exp.Expr] = {name: exp.column(alias) for name, alias in aliases.items()}
        source: exp.Expr = part_named(f"{part}_unit")
    else:
        place = next(places)
        values = {name: place.dialect.column(name, of.schema[name], declared=name in of.declared) for name in needed}
        source = place.rows
    columns = [
        named(value if name == unspelled else by_bytes(value, of.schema[name], dialect), aliases[name])
        for name, value in values.items()
    ]
    return {**rows, part: exp.select(*(columns or [named(integer(1), "one")]), copy=False).from_(source)}


def _owner(first: str, keys: list[str], unit: str, dialect: Dialect) -> exp.Select:
    """One unit a key, of those that have it: the first by MD5 of key and unit, then by the unit itself."""
    names = [*keys, unit]
    present = [exp.column(name).is_(exp.null()).not_() for name in names]
    claims = selected(first, *names).distinct().where(*present)
    order = [dialect.fingerprint(list(map(exp.column, names))), exp.column(unit)]
    place = windowed(exp.RowNumber(), *keys, order=exp.Order(expressions=[exp.Ordered(this=item) for item in order]))
    columns = [*map(exp.column, keys), named(exp.column(unit), "owner"), named(place, "place")]
    ranked = exp.select(*columns).from_(claims.subquery("claims"))
    return exp.select(*keys, "owner").from_(ranked.subquery("ranked")).where(exp.column("place").eq(integer(1)))


def _owned(part: str, owner: str, keys: list[tuple[str, str]], columns: list[str]) -> exp.Select:
    equal = [exp.column(key, table=owner).eq(exp.column(own, table=part)) for key, own in keys]
    chosen = [exp.column(name, table=part) for name in columns]
    return selected(part, exp.column("owner", table=owner), *chosen).join(part_named(owner), on=exp.and_(*equal))
