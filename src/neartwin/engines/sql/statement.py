"""The one statement: bound contributions and aggregate, written with SQLGlot and shared by every SQL engine.

```
typed    the needed columns, each in one of the six types, by casts that cannot fail; joined rows, see `joins`
computed the same and the expressions that are grouped by or summed, where there are any
scaled   the same and each summed column clipped to its bounds, in steps, where any is summed
kept     rows with a unit that meet the conditions, their group, their grid values;
         where a unit is in far too many groups, those that may be kept: see `bounding`
products the same and products of grid values, where moments are asked for
units    one row a (unit, group): numbers of rows and values, totals
bounded  the same, weighted down to C rows
ranked   a unit's groups, those where it counts most first, then by a salted hash, where it may have too many
within   the kept ones, weighted down to T rows of a unit in all, where that is asked for
clipped  instead, where a norm is bounded: see `bounding`
         sums by group
```
Every expression in the row stages is total: a data-dependent error would tell about a row.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from sqlglot import exp

from neartwin.engines.sql.bounding import Source, alike, can_thin, contribution_histogram, thinned, with_norms
from neartwin.engines.sql.dialect import KEYS, POSITION, Dialect, alias_of, least, part_named, whole
from neartwin.engines.sql.expressions import column_of, grid_steps, is_on_grid, on_grid, translated
from neartwin.engines.sql.joins import Place, by_bytes, joined_rows, needed_parts
from neartwin.engines.sql.trees import cells_of, ranking
from neartwin.planning.stage import Stage
from neartwin.tables.expressions import RowExpression
from neartwin.tables.types import ColumnType

_MOST_ROWS = 2**62  # no unit has more, so a larger cap is this one


def statement(stage: Stage, places: Sequence[Place], salt: exp.Expr, keys: exp.Select | None = None) -> exp.Select:
    """The statement of a stage. places: of the table, then of those joined to it; keys: the public keys, None if named so.

    Result columns: the group (position of a public key, or g0, g1, ...), then m0, m1, ... in the order of `stage.measures`; for
    a stage with a split, the cell and its number: see `trees`.
    """
    by_row = not isinstance(stage.table.unit, str)
    groups, dialect = group_names(stage), places[0].dialect
    counted = stage.split is not None or bool(stage.octaves)
    query = exp.select() if counted else exp.select(*groups, *_sums(stage, dialect, by_row=by_row))
    if groups and not counted:
        query = query.group_by(*groups)
    query, kept = _with_rows(query, stage, places, keys)
    if dialect.thins and can_thin(stage):
        query = thinned(query, kept, _order(stage, dialect, salt)[0], stage.groups_per_unit or 0)
    else:
        query = query.with_(alias_of("kept"), as_=kept, copy=False)
    if stage.split is not None:
        return cells_of(query, stage, groups, dialect, [] if by_row else _order(stage, dialect, salt))
    if stage.moments:
        query = query.with_(alias_of("products"), as_=_products(stage), copy=False)
    if by_row:
        return query.from_(part_named("products" if stage.moments else "kept"))
    if stage.octaves:
        return contribution_histogram(
            query.with_(alias_of("units"), as_=_units(stage, dialect), copy=False), stage, dialect
        )
    query = query.with_(alias_of("units"), as_=_units(stage, dialect), copy=False)
    query = query.with_(alias_of("bounded"), as_=_bounded(stage, dialect), copy=False)
    return _finished(_capped(query, stage, dialect, salt), stage)


def _with_rows(
    query: exp.Select, stage: Stage, places: Sequence[Place], keys: exp.Select | None
) -> tuple[exp.Select, exp.Select]:
    """The query with the parts that rows are read by, and the select of those that are kept."""
    aliases, dialect = column_aliases(stage), places[0].dialect
    if keys is not None:
        query = query.with_(alias_of(KEYS), as_=keys, copy=False)
    rows = (
        joined_rows(stage.table, places, aliases) if stage.table.joins else {"typed": _typed(stage, places[0], aliases)}
    )
    for name, added in (("computed", _computed(stage, aliases, dialect)), ("scaled", _scaled(stage, aliases))):
        if added:  # engines take their time over each step, also over one that adds nothing
            rows[name] = exp.select(exp.Star(), *added).from_(part_named(next(reversed(rows))))
    for name, part in rows.items():
        query = query.with_(alias_of(name), as_=part, copy=False)
    kept = _kept(stage, aliases, dialect).from_(part_named(next(reversed(rows))))
    return query, dialect.by_unit(kept) if isinstance(stage.table.unit, str) else kept


def first_rows(stage: Stage, places: Sequence[Place]) -> exp.Select:
    """The statement that says of the first rows how alike a unit's are: see `bounding.alike`."""
    query, kept = _with_rows(exp.select(), stage, places, None)
    return alike(query.with_(alias_of("kept"), as_=kept, copy=False), group_names(stage))


def _capped(query: exp.Select, stage: Stage, dialect: Dialect, salt: exp.Expr) -> exp.Select:
    """From a unit's groups those that are kept, and all of them weighted down together, where that is asked for."""
    source, capped = "bounded", []
    if salted(stage):
        query = query.with_(alias_of("ranked"), as_=_ranked(stage, dialect, salt), copy=False)
        source = "ranked"
    if stage.groups_per_unit is not None:
        capped = [exp.column("place") <= exp.Literal.number(stage.groups_per_unit)]
    if stage.clip is not None:
        kept = [*group_names(stage), *(["place"] if source == "ranked" else [])]
        query = with_norms(query, stage.clip, _entries(stage), Source(source, kept), dialect)
        return query.from_(part_named("clipped"))
    if stage.rows_per_unit is not None:
        chosen = exp.select(exp.Star()).from_(part_named(source)).where(*capped)
        query = query.with_(alias_of("chosen"), as_=chosen, copy=False)
        query = query.with_(alias_of("within"), as_=_within(stage, dialect), copy=False)
        source, capped = "within", []
    return query.from_(part_named(source)).where(*capped)


def _entries(stage: Stage) -> dict[str, exp.Expr]:
    """What a unit counts for in a group, by measure; the finders apart."""
    cells, found = _cells(stage), {}
    for measure in stage.measures:
        what, _, name = measure.partition(":")
        if what == "units":
            found[measure] = whole(1)
        elif what == "rows":
            found[measure] = exp.column("b")
        elif what != "finders":
            found[measure] = exp.column(f"b_{cells[name][1]}" if what == "filled" else f"t_{cells[name][0]}")
    return found


def _finished(query: exp.Select, stage: Stage) -> exp.Select:
    """Only groups with a finder, where finders are asked for."""
    return query if stage.discovery_groups is None else query.having(_finders(stage.discovery_groups) > whole(0))


def _within(stage: Stage, dialect: Dialect) -> exp.Select:
    """Rows and totals of a unit with more than T rows over its groups, weighted down to T."""
    most = whole(min(stage.rows_per_unit or 0, _MOST_ROWS))
    cells = _cells(stage).values()
    names = dict.fromkeys(["b", *(f"b_{number}" for _, number in cells), *(f"t_{value}" for value, _ in cells)])
    columns: list[exp.Expr] = [
        exp.column(name) for name in (*group_names(stage), *(["place"] if stage.groups_per_unit is not None else []))
    ]
    for name in names:
        weighted = dialect.weighted(exp.column(name), most.copy(), exp.column("w"))
        columns.append(
            exp.alias_(exp.case().when(exp.column("w") > most.copy(), weighted).else_(exp.column(name)), name)
        )
    whole_unit = exp.Window(this=dialect.summed(exp.column("b")), partition_by=[exp.column("u")])
    inner = exp.select(exp.Star(), exp.alias_(whole_unit, "w")).from_(part_named("chosen"))
    return exp.select(*columns).from_(inner.subquery("counted"))


def in_order(query: exp.Select, stage: Stage) -> exp.Select:
    """The same, sorted by group, NULL last: an order that depends on the keys alone. Of public ones, cells are sorted alone."""
    groups = [exp.Ordered(this=exp.column(name), nulls_first=False) for name in group_names(stage)]
    return query.order_by(*groups) if groups and (stage.keys is None or stage.split is not None) else query


def salted(stage: Stage) -> bool:
    """Whether the statement has a salt in it: where a unit's groups are chosen."""
    chosen = (stage.groups_per_unit, stage.discovery_groups)
    return isinstance(stage.table.unit, str) and any(one is not None for one in chosen)


def group_names(stage: Stage) -> list[str]:
    """The result's group columns: none for one group, `p` for public keys, `g0`, `g1`, ... for discovered ones."""
    if stage.keys == ((),):
        return []
    return [f"g{i}" for i in range(len(stage.group_columns))] if stage.keys is None else [POSITION]


def needed_columns(stage: Stage) -> tuple[tuple[str, ...], ...]:
    """The columns that the statement reads, and no others: of the table, then of each that is joined to it."""
    return needed_parts(stage.table, tuple(column_aliases(stage)))


def column_aliases(stage: Stage) -> dict[str, str]:
    """What the statement calls each column of the (joined) rows that it reads."""
    computed = stage.table.computed
    names = {name for name in stage.group_columns if name not in computed}
    names |= {name for column in stage.grid.values() for name in column.columns}
    names |= {name for expression in (*stage.conditions, *_grouped(stage).values()) for name in expression.columns}
    if isinstance(stage.table.unit, str):
        names |= {stage.table.unit} | (stage.table.period.columns if stage.table.period is not None else set())
    return {name: f"c{i}" for i, name in enumerate(sorted(names))}


def _grouped(stage: Stage) -> dict[str, RowExpression]:
    """The expressions that the stage groups by."""
    computed = stage.table.computed
    return {f"d{i}": computed[name] for i, name in enumerate(stage.group_columns) if name in computed}


def _typed(stage: Stage, place: Place, aliases: Mapping[str, str]) -> exp.Select:
    table, dialect, columns = stage.table, place.dialect, []
    for name, alias in aliases.items():
        value = dialect.column(name, table.schema[name], declared=name in table.declared)
        columns.append(exp.alias_(by_bytes(value, table, name, dialect), alias))
    return exp.select(*(columns or [exp.alias_(exp.Literal.number(1), "one")])).from_(place.rows)


def _computed(stage: Stage, aliases: Mapping[str, str], dialect: Dialect) -> list[exp.Expr]:
    columns = {name: exp.column(alias) for name, alias in aliases.items()}
    found = [exp.alias_(column_of(it.term, columns, dialect), alias) for alias, it in _grouped(stage).items()]
    for i, column in enumerate(stage.grid.values()):
        if column.expression is not None:
            found.append(exp.alias_(translated(column.expression.term, columns, dialect), f"v{i}"))
    return found


def _scaled(stage: Stage, aliases: Mapping[str, str]) -> list[exp.Expr]:
    """A step of its own, so that engines compute each of these once."""
    return [
        exp.alias_(grid_steps(column, i, stage, aliases), f"y{i}")
        for i, column in enumerate(stage.grid.values())
        if not is_on_grid(column)
    ]


def _group_column(stage: Stage, place: int, aliases: Mapping[str, str]) -> exp.Expr:
    name = stage.group_columns[place]
    return exp.column(f"d{place}" if name in stage.table.computed else aliases[name])


def _kept(stage: Stage, aliases: Mapping[str, str], dialect: Dialect) -> exp.Select:
    columns: list[exp.Expr] = []
    query = exp.select()
    if isinstance(stage.table.unit, str):
        unit = _unit(stage, stage.table.unit, aliases, dialect)
        columns.append(exp.alias_(unit, "u"))
        query = query.where(unit.is_(exp.null()).not_())
    if stage.keys is None:
        places = range(len(stage.group_columns))
        columns += [exp.alias_(_group_column(stage, i, aliases), f"g{i}") for i in places]
    elif stage.group_columns:
        columns.append(exp.column(POSITION, table=KEYS))
        query = query.join(KEYS, on=exp.and_(*_matches(stage, aliases, dialect)))
    for i, column in enumerate(stage.grid.values()):
        columns.append(exp.alias_(on_grid(column, i, stage, aliases, dialect), f"x{i}"))
    named = {name: exp.column(alias) for name, alias in aliases.items()}
    for condition in stage.conditions:
        query = query.where(translated(condition.term, named, dialect))
    return query.select(*(columns or [exp.alias_(exp.Literal.number(1), "one")]))


def _unit(stage: Stage, column: str, aliases: Mapping[str, str], dialect: Dialect) -> exp.Expr:
    """The unit's column, or as text with its period after it: the last ten letters are a date, so no two units are one."""
    unit = exp.column(aliases[column])
    if stage.table.period is None:
        return unit
    named = {name: exp.column(alias) for name, alias in aliases.items()}
    period = exp.cast(translated(stage.table.period.term, named, dialect), "TEXT")
    text = exp.DPipe(this=exp.cast(unit, "TEXT"), expression=exp.Literal.string("/"))
    return exp.paren(exp.DPipe(this=text, expression=period))


def _matches(stage: Stage, aliases: Mapping[str, str], dialect: Dialect) -> list[exp.Expr]:
    return [
        dialect.same(
            _group_column(stage, i, aliases),
            exp.column(f"k{i}", table=KEYS),
            stage.table.schema[name],
            nullable=None in map(itemgetter(i), stage.keys or ()),
        )
        for i, name in enumerate(stage.group_columns)
    ]


def _products(stage: Stage) -> exp.Select:
    """Factors have at most 31 bits, so that products fit 62."""
    at = {name: exp.column(f"x{i}") for i, name in enumerate(stage.grid)}
    columns: list[exp.Expr] = []
    for i, moment in enumerate(stage.moments.values()):
        present = exp.and_(*(at[column.name].is_(exp.null()).not_() for column in moment.present))
        value: exp.Expr = at[moment.factors[0].name].copy()
        for factor in moment.factors[1:]:
            value = value * at[factor.name]
        columns.append(exp.alias_(exp.case().when(present, value - whole(moment.centre)), f"z{i}"))
    return exp.select(exp.Star(), *columns).from_(part_named("kept"))


def _cells(stage: Stage) -> dict[str, tuple[str, str]]:
    """What is summed, by name: its column, and the column whose values number as many, which moments of a set share."""
    asked = {measure.partition(":")[2] for measure in stage.measures}
    found = {name: (f"x{i}", f"x{i}") for i, name in enumerate(stage.grid) if name in asked}
    shared: dict[tuple[str, ...], str] = {}
    for i, (name, moment) in enumerate(stage.moments.items()):
        present = tuple(column.name for column in moment.present)
        alone = found.get(present[0]) if len(present) == 1 else None
        found[name] = (f"z{i}", alone[1] if alone else shared.setdefault(present, f"z{i}"))
    return found


def _units(stage: Stage, dialect: Dialect) -> exp.Select:
    groups, cells = group_names(stage), _cells(stage)
    columns: list[exp.Expr] = [exp.column("u"), *map(exp.column, groups)]
    if stage.rows_per_group > 1 or stage.octaves:  # else any number of rows is one
        columns.append(exp.alias_(exp.Count(this=exp.Star()), "n"))
    numbers = dict.fromkeys(number for _, number in cells.values())
    columns += [exp.alias_(exp.Count(this=exp.column(number)), f"n_{number}") for number in numbers]
    columns += [exp.alias_(dialect.summed(exp.column(value)), f"s_{value}") for value, _ in cells.values()]
    return exp.select(*columns).from_("products" if stage.moments else "kept").group_by("u", *groups)


def _bounded(stage: Stage, dialect: Dialect) -> exp.Select:
    cap, cells = whole(min(stage.rows_per_group, _MOST_ROWS)), _cells(stage)
    columns: list[exp.Expr] = [exp.column("u"), *map(exp.column, group_names(stage))]
    rows = least(exp.column("n"), cap) if stage.rows_per_group > 1 else exp.cast(cap, "BIGINT")
    columns.append(exp.alias_(rows, "b"))
    numbers = dict.fromkeys(number for _, number in cells.values())
    columns += [exp.alias_(least(exp.column(f"n_{number}"), cap.copy()), f"b_{number}") for number in numbers]
    for value, counted in cells.values():
        number, total = exp.column(f"n_{counted}"), exp.column(f"s_{value}")
        weighted = dialect.weighted(total.copy(), cap.copy(), number.copy())
        columns.append(exp.alias_(exp.case().when(number > cap.copy(), weighted).else_(total), f"t_{value}"))
    return exp.select(*columns).from_(part_named("units"))


def _ranked(stage: Stage, dialect: Dialect, salt: exp.Expr) -> exp.Select:
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column("u")],
        order=ranking(_order(stage, dialect, salt), exp.column("b") if stage.rows_per_group > 1 else None),
    )
    return exp.select(exp.Star(), exp.alias_(place, "place")).from_(part_named("bounded"))


def _order(stage: Stage, dialect: Dialect, salt: exp.Expr) -> list[exp.Expr]:
    """Of a unit's groups in which it counts alike: by a salted hash of the unit and the group, then by the group."""
    kinds = stage.table.schema
    groups = [(exp.column(name), ColumnType.INTEGER) for name in group_names(stage)]  # the position of a public key
    if stage.keys is None:
        groups = [(exp.column(f"g{i}"), kinds[name]) for i, name in enumerate(stage.group_columns)]
    unit = (exp.column("u"), stage.table.unit_kind)
    return [dialect.hash_key(salt, [unit, *groups]), *(group.copy() for group, _ in groups)]


def _finders(groups: int) -> exp.Expr:
    first = exp.case().when(exp.column("place") <= exp.Literal.number(groups), exp.Literal.number(1))
    return exp.Count(this=first)


def _sums(stage: Stage, dialect: Dialect, *, by_row: bool) -> list[exp.Expr]:
    """One column a measure. Each row of `kept` is a unit of its own where rows are units."""
    cells, clipped = _cells(stage), [measure for measure in stage.measures if measure != "finders"]
    one = exp.Count(this=exp.Star())
    columns = []
    for i, measure in enumerate(stage.measures):
        what, _, name = measure.partition(":")
        value: exp.Expr
        if stage.clip is not None and what != "finders":
            value = dialect.summed(exp.column(f"e{clipped.index(measure)}"))
        elif what == "units" or (by_row and what == "rows"):
            value = one.copy()
        elif what == "finders":
            value = _finders(stage.discovery_groups or 0)
        elif what == "rows":
            value = dialect.summed(exp.column("b"))
        elif by_row:
            cell, number = cells[name]
            value = exp.Count(this=exp.column(number)) if what == "filled" else dialect.summed(exp.column(cell))
        else:
            cell, number = cells[name]
            value = dialect.summed(exp.column(f"b_{number}" if what == "filled" else f"t_{cell}"))
        columns.append(exp.alias_(value, f"m{i}"))
    return columns
