"""Joins of tables: public tables, tables owned through a key, and the checks that a join must pass."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any

from neartwin.checks import made_of
from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.interactive import instead, shown_as_text
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.tables.ingestion import Terms
from neartwin.tables.postgres import PostgresTable, check_declared
from neartwin.tables.sources import ImportedFiles, LocalSource, ParquetFiles, ServedTable, Source, same_rows, source_of
from neartwin.tables.table import NOBODY, ROW, Bounds, How, Join, JoinKind, Owner, Table, together
from neartwin.tables.types import GROUPABLE, ColumnType, has_column, number_column

On = str | list[str] | tuple[str, ...] | Mapping[str, str] | None


@shown_as_text
@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTable:
    """A table without a unit column, to be joined to one that has it. It holds no rows.

    Attributes:
        kind: PUBLIC or OWNED.
        name: The name of the table, for explanations.
        source: The source of the rows.
        schema: The type of each column.
        declared: The columns with declared types.
        columns: Public bounds, by column.
        owner: Whose rows they are, if they are OWNED.
    """

    kind: JoinKind
    name: str
    source: Source
    schema: Mapping[str, ColumnType]
    declared: frozenset[str]
    columns: Mapping[str, Bounds]
    owner: Owner | None = None

    @property
    def of_nobody(self) -> Table:
        """The public rows as a table of their own, to be computed with before a join. Owned ones are not of nobody."""
        parts = {name: getattr(self, name) for name in ("source", "name", "schema", "declared", "columns")}
        return Table(unit=ROW if self.owner else NOBODY, neighbours=Neighbours.ADD_REMOVE, **parts)

    def __str__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.schema.items())
        return f"<Table {self.name!r} of {'public rows' if self.owner is None else self.kind}: {columns}>"


def public_table(
    data: Any,
    *,
    name: str = "",
    table: str = "",
    types: Mapping[str, str] | None = None,
    columns: Mapping[str, Bounds] | None = None,
    snapshot: str = "",
    into: str | PathLike[str] = "",
    accept_odd: bool = False,
    encoding: str = "",
) -> OtherTable:
    """Declare a table public: anyone may know its rows, and no guarantee covers them.

    A file or frame can be joined to a table of any engine, which receives its rows. Other sources join only within one
    engine.

    Args:
        data: As for `nt.table`.
        name: The name of the table, for explanations.
        table: The table in a database, as for `nt.table`.
        types: Declared types, by column.
        columns: Public bounds, by column.
        snapshot: The name of the snapshot.
        into: As for `nt.table`.
        accept_odd: As for `nt.table`.
        encoding: As for `nt.table`.

    Returns:
        The table, for `join`.

    Raises:
        SchemaError: The source, a type or a column does not fit.

    >>> import pyarrow as pa
    >>> towns = public_table(pa.table({"town": ["Ulm"], "state": ["BW"]}), name="towns")
    >>> towns.kind, sorted(towns.schema)
    (<JoinKind.PUBLIC: 'public'>, ['state', 'town'])
    """
    declared = declared_types(types)
    terms = Terms(into=fspath(into), accept_odd=accept_odd, refresh=True, encoding=encoding)
    source = source_of(data, table=table, snapshot=snapshot, types=declared, terms=terms)
    return _other(JoinKind.PUBLIC, source, name or table, declared, columns)


def owner_of(table: Table, on: On) -> Owner:
    """Declare that a table's units own other rows through a key.

    Args:
        table: The table of the units, not joined itself.
        on: The key: a column, a list of columns, or a mapping from this table's columns to the other's.

    Returns:
        The owner, for `unit=` of the table without units.

    Raises:
        QueryError: The table has no unit of its own, or the key is none of its columns.
    """
    if not isinstance(table.unit, str) or table.period is not None or table.joins or table.per_unit is not None:
        raise QueryError(
            f"owned_by: the units of {table.name!r} own no rows of other tables; name a table that is not joined, whose "
            "unit is a column"
        )
    pairs = pairs_of(on)
    if not pairs:
        raise QueryError("owned_by: on= must name the key, for instance on='visit' or on={'visit': 'number'}")
    _check_claims(table, pairs)
    return Owner(name=table.name, source=table.source, on=pairs)


def owned_table(
    source: Source, owner: Owner, name: str, types: Mapping[str, ColumnType], columns: Mapping[str, Bounds] | None
) -> OtherTable:
    """A private table without a unit column, whose rows belong to the units of another.

    Args:
        source: The source of its rows.
        owner: The owner of its rows.
        name: The name of the table.
        types: Declared types, by column.
        columns: Public bounds, by column.

    Returns:
        The table, for `join`.

    Raises:
        SchemaError: A type or a column does not fit, or the key is missing.
    """
    opened = _other(JoinKind.OWNED, source, name, types, columns)
    for _, column in owner.on:
        has_column(column, opened.schema, "owned_by")
    return replace(opened, owner=owner)


def _other(
    kind: JoinKind, source: Source, name: str, types: Mapping[str, ColumnType], columns: Mapping[str, Bounds] | None
) -> OtherTable:
    schema, declared = typed_schema(source, types)
    return OtherTable(
        kind=kind,
        name=name or file_name(source) or str(kind),
        source=source,
        schema=schema,
        declared=declared,
        columns=public_bounds(columns, schema),
    )


def public_bounds(columns: Mapping[str, Bounds] | None, schema: Mapping[str, ColumnType]) -> Mapping[str, Bounds]:
    """The public bounds of columns of numbers.

    Args:
        columns: The bounds by column, as a caller gave them.
        schema: The type of each column.

    Returns:
        The bounds, by column.

    Raises:
        ParameterError: They are no bounds by column.
        SchemaError: A column is missing, or is no number.
    """
    line = f"write columns={{{', '.join(f'{name!r}: nt.bounds(0, 200)' for name in columns or ())}}}"
    made_of((Mapping, NoneType), f"public bounds by column; {line}", columns=columns)
    given: Mapping[str, Any] = columns or {}
    for column, bounds in given.items():
        number_column(column, schema, "columns")
        if not isinstance(bounds, Bounds):
            ends = ", ".join(map(str, bounds)) if isinstance(bounds, tuple | list) else "LOW, HIGH"
            remedy = f"write columns={{{column!r}: nt.bounds({ends})}}"
            raise ParameterError(f"columns[{column!r}]", bounds, "must be public bounds", remedy=remedy)
    return MappingProxyType(dict(given))


def file_name(source: Source) -> str:
    """The name of the first file, without its ending; empty for other sources."""
    if isinstance(source, ParquetFiles | ImportedFiles):
        return Path(source.paths[0]).name.partition(".")[0]
    return ""


def declared_types(types: Mapping[str, str] | None) -> dict[str, ColumnType]:
    """The declared types by column, from their words.

    Args:
        types: The words, by column.

    Returns:
        The types, by column.

    Raises:
        ParameterError: A word is none of a type, or the types are no mapping.
    """
    made_of((Mapping, NoneType), "types by column; write types={'amount': 'number'}", types=types)
    choices = sorted(set(ColumnType) - {ColumnType.OTHER})
    for column, kind in (types or {}).items():
        if kind not in choices:
            remedy = instead("types", str(getattr(kind, "__name__", kind)).lower())
            raise ParameterError(f"types[{column!r}]", kind, "must be one of " + ", ".join(choices), remedy=remedy)
    return {column: ColumnType(kind) for column, kind in (types or {}).items()}


def typed_schema(source: Source, declared: Mapping[str, ColumnType]) -> tuple[Mapping[str, ColumnType], frozenset[str]]:
    """The schema with declared types in place, and the declared columns.

    Args:
        source: The source.
        declared: Declared types, by column.

    Returns:
        The type of each column, and the names of the declared ones.

    Raises:
        SchemaError: A column is missing, or its type cannot be declared.
    """
    found_types = source.schema()
    if isinstance(source, PostgresTable):
        check_declared(found_types, declared)
    for column in declared:
        has_column(column, found_types, "types")
    return MappingProxyType({**found_types, **declared}), frozenset(declared)


def new_names(join: Join) -> dict[str, str]:
    """From the other table's names to those in the joined rows, of columns that it shares under one name too.

    Args:
        join: The join.
    """
    return {right: left for left, right in join.on if left == right} | {old: new for new, old in join.columns.items()}


def joined(table: Table, other: OtherTable | Table, *, on: On, how: str, prefix: str, keys: On) -> Table:
    """Match the rows of a table with another's. It reads no row.

    Args:
        table: The rows so far.
        other: The other table.
        on: A column, a list of columns, or a mapping from this table's columns to the other's.
        how: 'inner', 'left' or 'beside'.
        prefix: Put before names that both tables have.
        keys: From new names to keys of the other table, which a left join leaves NULL in rows that met none.

    Returns:
        The joined table.

    Raises:
        QueryError: The join is not safe.
        SchemaError: A column is missing, or types differ.
    """
    if how not in set(How):
        raise ParameterError("how", how, "must be 'inner', 'left' or 'beside'")
    public = is_public(other)
    if not isinstance(table.unit, str) and not (table.unit == NOBODY and public):
        raise QueryError(
            "join: where each row is its own unit, a joined row has none; name the unit's column with unit="
        )
    if table.period is not None and not public:
        raise QueryError(
            f"join: the unit is {table.unit_name!r}, so private rows of other tables have none; join public tables"
        )
    pairs = pairs_of(on)
    if isinstance(other, Table):
        kind, owner, per_unit = JoinKind.PUBLIC if public else JoinKind.SAME_UNIT, None, other.per_unit
        pairs = pairs if public else _equated(table, other, pairs)
    else:
        kind, owner, per_unit = other.kind, other.owner, None
        pairs = pairs or (owner.on if owner is not None else ())
    _check(table, other, how, pairs)
    shared = {left for left, right in pairs if left == right}
    own = {new: old for new, old in pairs_of(keys) if has_column(old, other.schema, "join: keys")}
    wanted = {name: name for name in other.schema if name not in shared} | own
    names = _names(table, wanted, prefix, other.name)
    join = Join(
        kind=kind,
        how=How(how),
        name=other.name,
        source=other.source,
        on=pairs,
        columns=MappingProxyType(names),
        schema=other.schema,
        declared=other.declared,
        owner=owner,
        per_unit=per_unit,
    )
    taken = {new: other.columns[old] for new, old in names.items() if old in other.columns}
    types = {new: other.schema[old] for new, old in names.items()}
    return replace(
        table,
        schema=MappingProxyType({**table.schema, **types}),
        columns=MappingProxyType({**table.columns, **taken}),
        joins=(*table.joins, join),
    )


def is_public(other: OtherTable | Table) -> bool:
    """Whether the rows of a joined table are public."""
    return other.unit == NOBODY if isinstance(other, Table) else other.kind is JoinKind.PUBLIC


def pairs_of(on: On) -> tuple[tuple[str, str], ...]:
    """This table's columns, each with the other's that it is equal to.

    Args:
        on: One of the spellings of `joined`.

    Returns:
        The pairs.

    Raises:
        QueryError: It is none of them.
    """
    match on:
        case None:
            return ()
        case str():
            return ((on, on),)
        case Mapping():
            return tuple(on.items())
        case list() | tuple():
            return tuple((name, name) for name in on)
    raise QueryError(f"on={on!r} must be a column, a list of columns, or a mapping from this table's to the other's")


def _equated(table: Table, other: Table, pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The pairs with the units equated: without that a row could be of two units.

    Units of one name, type and population are equated unsaid; others must be in `pairs`.
    """
    if (table.name, table.neighbours) != (other.name, other.neighbours):
        raise QueryError(
            f"join: {other.name!r} ({other.neighbours}) is not the population {table.name!r} ({table.neighbours}); tables "
            f"of the same units share one account, so open both with one name=, or declare one nt.public_table(...), or "
            "unit=nt.owned_by(...)"
        )
    if not isinstance(other.unit, str):
        raise QueryError("join: the other table's rows are units of their own; name its unit's column with unit=")
    if other.period is not None:
        raise QueryError(f"join: the other table's unit is {other.unit_name!r}; both must have the same unit")
    units = (str(table.unit), other.unit)
    if any((left == units[0]) != (right == units[1]) for left, right in pairs):
        raise QueryError(
            f"join: the units {units[0]!r} and {units[1]!r} must be equated with each other, and are in on={pairs}"
        )
    if units in pairs:
        return pairs
    if units[0] != units[1]:
        raise QueryError(
            f"join: nothing says that the units {units[0]!r} of {table.name!r} and {units[1]!r} of the other table are one "
            f"population under two names; say so with on={{{units[0]!r}: {units[1]!r}, ...}}, in SQL ON {units[0]} = {units[1]}"
        )
    mine, its = table.has(units[0], "join"), other.schema[units[1]]
    if mine is not its:
        raise SchemaError(
            f"join: the units {units[0]!r} are {mine} here and {its} in the other table, so they are not seen to be one "
            "population; declare one type for both with types="
        )
    return (units, *pairs)


def _check(table: Table, other: OtherTable | Table, how: str, pairs: tuple[tuple[str, str], ...]) -> None:
    if how == How.BESIDE:
        _check_beside(table, other, pairs)
    if not isinstance(other, Table) and other.owner is not None:
        _check_owner(table, other.owner, other.name, pairs)
    _check_pairs(table, other, pairs)
    _check_engines(table, other)


def _check_pairs(table: Table, other: OtherTable | Table, pairs: tuple[tuple[str, str], ...]) -> None:
    of = None if isinstance(other, OtherTable) else other.per_unit
    if not pairs and not (is_public(other) and of is not None and of.by == {}):  # which is one row
        raise QueryError(
            "join: on= must name the columns that are equal, for instance on='town' or on={'town': 'name'}"
        )
    for left, right in pairs:
        kind, its = table.has(left, "join"), has_column(right, other.schema, f"join, in {other.name!r}")
        if kind not in GROUPABLE or kind is not its:
            raise SchemaError(
                f"join: {left!r} is {kind} and {right!r} is {its}; join on integers, text, booleans or dates of "
                "one type, declared with types= where the source has another"
            )


def _check_beside(table: Table, other: OtherTable | Table, pairs: tuple[tuple[str, str], ...]) -> None:
    """It continues a left join, and something ties it to that, so that rows of both tables are not all met with each other."""
    group = together(table.joins)[-1] if table.joins else []
    if not group or group[0].how is not How.LEFT:
        raise QueryError("join: how='beside' must follow a left join, and the join before is not one; use how='left'")
    if not isinstance(other, Table) and other.kind is JoinKind.OWNED:
        raise QueryError("join: a table with owned rows cannot be joined beside another; use how='inner' or how='left'")
    tied = {name for join in group for name in (*join.columns, *(left for left, _ in join.on))}
    if not any(left in tied for left, _ in pairs):
        names = " and ".join(repr(join.name) for join in group)
        raise QueryError(f"join: beside {names} some column of those must be equated; else use how='left'")


def _check_claims(table: Table, pairs: tuple[tuple[str, str], ...]) -> None:
    """Who owns a row must not depend on the question: claims are made by the first table alone."""
    own = own_columns(table)
    for left, _ in pairs:
        if left not in own or left == table.unit:
            raise QueryError(
                f"join: {left!r} must be a key in the table {table.name!r} itself, beside its unit {table.unit!r}, because that "
                "unit owns the rows"
            )


def _check_owner(table: Table, owner: Owner, name: str, pairs: tuple[tuple[str, str], ...]) -> None:
    """Who owns a row is the table's, and not the question's: one table claims it, through one key."""
    claims = claims_of(table, owner)
    if claims is None:
        raise QueryError(
            f"join: the rows of {name!r} belong to the units of the table {owner.name!r} that it was declared with; start "
            "with that table, and join it first, in the same subquery"
        )
    names = new_names(claims) if isinstance(claims, Join) else {left: left for left, _ in owner.on}
    if not {(names[left], right) for left, right in owner.on} <= set(pairs):
        key = " and ".join(left if left == right else f"{left} = {right}" for left, right in owner.on)
        raise QueryError(
            f"join: the rows of {name!r} belong to the unit with their {key}, which is declared; join on that"
        )


def claims_of(table: Table, owner: Owner) -> Table | Join | None:
    """The table by whose rows owned rows have their unit: the first one, or one that is joined to it by the units.

    Args:
        table: The joined table.
        owner: The owner of the rows.

    Returns:
        The table; None where it is not among them.
    """
    parts: list[Table | Join] = [
        table,
        *(join for join in table.joins if join.kind is JoinKind.SAME_UNIT and join.how is How.INNER),
    ]
    known = [part for part in parts if part.per_unit is None and table.name == owner.name]
    return next((part for part in known if same_rows(part.source, owner.source)), None)


def _check_engines(table: Table, other: OtherTable | Table) -> None:
    mine, its = table.source, other.source
    local = [isinstance(one, LocalSource) for one in (mine, its)]
    places = [(type(one), getattr(one, "place", getattr(one, "address", ""))) for one in (mine, its)]
    if all(local) or places[0] == places[1] or (is_public(other) and local[1] and not isinstance(mine, ServedTable)):
        return
    raise QueryError(
        f"join: {type(mine).__name__} and {type(its).__name__} cannot be read by one engine; move both to one engine, or "
        "give a public table as a file or frame"
    )


def _names(table: Table, columns: Mapping[str, str], prefix: str, of: str) -> dict[str, str]:
    """The other table's columns by their names after the join."""
    names = {}
    for wanted, column in columns.items():
        name = prefix + wanted if wanted in table.schema else wanted
        if name in table.schema or name in names:
            raise SchemaError(
                f"join: both tables have a column {name!r}; give prefix=, which is put before such names of {of!r}"
            )
        names[name] = column
    return names


def own_columns(table: Table) -> frozenset[str]:
    """The columns of the first table of a join."""
    return frozenset(table.schema) - {name for join in table.joins for name in join.columns} - set(table.computed)


def origin_of(table: Table, column: str) -> tuple[Source, str] | None:
    """The source's column whose values a column passes on unchanged: also of a subquery, and under another name.

    Args:
        table: The joined table.
        column: One of its columns.

    Returns:
        The source, and the column's name there; None for what is computed.
    """
    if column in table.computed:
        term = table.computed[column].term
        return origin_of(table, str(term.value)) if term.operation == "column" else None
    part: Table | Join = next((join for join in table.joins if column in join.columns), table)
    own, inside = part.columns[column] if isinstance(part, Join) else column, part.per_unit
    if inside is None:
        return part.source, own
    return None if own in inside.columns else origin_of(inside.table, (inside.by or {}).get(own, own))
