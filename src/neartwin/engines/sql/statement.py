"""The one statement: bound contributions and aggregate, written with SQLGlot and shared by every SQL engine.

```
typed    the needed columns, each in one of the six types, by casts that cannot fail; joined rows, see `joins`
computed and the expressions that are grouped by or summed, if there are any
kept     rows with a unit that meet the conditions, their group, their grid values: clipped to bounds, in whole steps
products and products of grid values, if moments are needed
units    one row a (unit, group): numbers of rows and values, totals; read before for several stages, where they share them
ranked   a unit's groups in order, by most rows, then by a salted hash, if it may have too many
joined   and the root of the unit's length over its groups, if a norm is bounded: see `bounding`
bounded  numbers and totals in parts, weighted down to C rows or to the norm
within   the kept ones, weighted down to T rows of a unit in all, if there is a T
         sums by group
```
Every expression in the row stages is total: a data-dependent error would reveal a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from operator import add, itemgetter
from typing import Self

from sqlglot import exp

from neartwin.engines.sql import dialect as sql
from neartwin.engines.sql.bounding import contribution_sizes, in_parts, over_units, weighed_by_norm
from neartwin.engines.sql.dialect import Dialect, Parts
from neartwin.engines.sql.joins import Place, table_rows
from neartwin.engines.sql.rendering import column_of, on_grid, translated
from neartwin.engines.sql.trees import cells_of, placed, units_of_cells
from neartwin.planning.stage import FINE, MOST_GROUPS, ContributionSizes, Stage
from neartwin.tables.expressions import RowExpression
from neartwin.tables.types import ColumnType

_MOST_ROWS = 2**62  # no unit has more rows, so larger caps are cut to it
_SMALL = 2**24  # 2^29 such values of a unit stay within the 2^53 of a double
SHARED, BY_UNIT = "neartwin_units", "neartwin_by_unit"  # the tables of `SharedRows`


@dataclass(frozen=True, slots=True)
class SharedRows:
    """One row a (unit, group), with all that several stages of one question need to know of them.

    Attributes:
        stage: The stage whose `units` they are. Its grid has the columns by whose totals units are counted too.
        sized: The columns by whose totals units are counted.
        summed: Whether their sums by unit are read once too, as several of the stages ask for them. See `by_unit`.
    """

    stage: Stage
    sized: tuple[str, ...]
    summed: bool

    @classmethod
    def of(cls, stages: Sequence[Stage]) -> Self | None:
        """The rows that several stages can share; None if fewer than two can.

        Args:
            stages: The stages of a question, before its limits are chosen.
        """
        grouped = [stage for stage in stages if stage.split is None and isinstance(stage.table.unit, str)]
        if len(grouped) < 2:
            return None
        own = min(grouped, key=lambda stage: stage.sizes is not None)
        sized = {name: column for stage in grouped if stage.sizes is not None for name, column in stage.grid.items()}
        measures = (*own.measures, *(f"total:{name}" for name in sized))
        rows = replace(own, sizes=None, grid={**own.grid, **sized}, measures=measures)
        several = bool([*group_names(own), *_coarse(own)])  # such rows of a unit
        return cls(rows, tuple(sized), several and sum(map(_reads_sums, grouped)) > 1)

    def serves(self, stage: Stage) -> bool:
        """Whether a stage's answer follows from these rows.

        Args:
            stage: The stage.
        """
        own = self.stage
        return (
            stage.table is own.table
            and stage.conditions == own.conditions
            and (stage.split, stage.group_columns, stage.keys) == (None, own.group_columns, own.keys)
            and stage.length_by in (None, own.length_by)
            and stage.grid.items() <= own.grid.items()
            and stage.moments.items() <= own.moments.items()
            and _cells(stage).keys() <= _cells(own).keys()
            and all(one in own.measures for one in stage.measures if ":" in one)
        )

    def statement(self, places: Sequence[Place]) -> exp.Select:
        """The statement of these rows.

        Args:
            places: The table, then those joined to it.
        """
        parts = _row_parts(self.stage, places, None)
        return sql.with_parts(_units(self.stage, places[0].dialect, next(reversed(parts)), self.sized), parts)

    def by_unit(self) -> exp.Select:
        """The statement of one row a unit, from these rows: n and its squares added up over groups, g groups, and totals."""
        number, cells = exp.column("n"), _cells(self.stage)  # 64 bits have room for the square of 2^29 rows
        sums: dict[str, exp.Expr] = {"n": exp.Sum(this=number), "nn": exp.Sum(this=number * number.copy())}
        sums["g"] = exp.Count(this=exp.Star())
        for value in [f"s_{cells[name][0]}" for name in self.sized]:
            sums[value] = exp.Sum(this=exp.column(value))
        columns = (sql.named(sql.as_bigint(value), name) for name, value in sums.items())
        return sql.grouped(sql.selected(SHARED, "u", *columns), "u")


def statement(
    stage: Stage,
    places: Sequence[Place],
    salt: exp.Expr,
    keys: exp.Select | None = None,
    shared: SharedRows | None = None,
) -> exp.Select:
    """The statement of a stage.

    Its columns are the group (position of a public key, or g0, g1, ...), then m0, m1, ... in the order of
    `stage.measures`. For a stage with a split they are the cell and its number: see `trees`.

    Args:
        stage: The stage.
        places: The table, then those joined to it.
        salt: The salt of the hash that chooses a unit's groups.
        keys: The public keys; None if the engine has them under their name.
        shared: The rows that the engine has read for this stage; None to read the tables.

    Returns:
        The statement.
    """
    by_row = not isinstance(stage.table.unit, str)
    groups, dialect, summed = group_names(stage), places[0].dialect, shared is not None and shared.summed
    parts = _row_parts(stage, places, keys) if shared is None else {"units": sql.selected(SHARED)}
    if stage.by_unit:
        return units_of_cells(parts, stage, groups)
    if stage.split is not None:
        return cells_of(parts, stage, groups, dialect, [] if by_row else _order(stage, dialect, salt))
    if stage.sizes is not None:
        by = _sized_by(stage, stage.sizes, summed=summed)
        parts["counted"] = _counted(stage, stage.sizes, by, next(reversed(parts)), shared)
        return contribution_sizes(parts, stage, stage.sizes, by, dialect)
    if not by_row:
        if shared is None:
            parts["units"] = _units(stage, dialect, next(reversed(parts)))
        if salted(stage):  # before rows are weighed, so that what is sorted is narrow
            parts |= placed(stage, _order(stage, dialect, salt), "units", exp.RowNumber(), dialect)
        if stage.norm is not None:
            parts = _lengths(parts, stage, stage.norm, dialect, known=summed)
        cells = _cells(stage if shared is None else shared.stage)
        parts["bounded"] = _bounded(stage, dialect, next(reversed(parts)), cells)
        if stage.rows_per_unit is not None:
            of_unit = sql.selected(BY_UNIT, "u", sql.named(dialect.wide(exp.column("n")), "w"))
            units = of_unit if summed and _limits_all_rows(stage) else None
            parts = over_units(parts, {"w": dialect.summed(exp.column("b"))}, dialect, units=units)
            parts["within"] = _within(stage, dialect, next(reversed(parts)), min(stage.rows_per_unit, _MOST_ROWS))
    last = sql.grouped(sql.selected(next(reversed(parts)), *groups, *_sums(stage, dialect, by_row=by_row)), *groups)
    if stage.discovery_groups is not None:
        last = last.having(_finders(stage.discovery_groups) > sql.integer(0), copy=False)
    return sql.with_parts(last, parts)


def _row_parts(stage: Stage, places: Sequence[Place], keys: exp.Select | None) -> Parts:
    """The parts that rows are read by; the last is `kept`, or `products`."""
    aliases, dialect = column_aliases(stage), places[0].dialect
    parts: Parts = {} if keys is None else {sql.KEYS: keys}
    parts |= table_rows(stage.table, iter(places), dialect, aliases, "")
    if added := _computed(stage, aliases, dialect):  # every step costs an engine time, even one that adds nothing
        parts["computed"] = sql.selected(next(reversed(parts)), exp.Star(), *added)
    rows = _kept_rows(stage, aliases, dialect, next(reversed(parts)))
    parts["kept"] = dialect.by_unit(rows) if isinstance(stage.table.unit, str) else rows
    if dialect.collates:
        parts["spelled"] = parts.pop("kept")
        first = sql.windowed(exp.Min(this=dialect.bytewise(exp.column("u"))), "u")
        parts["kept"] = sql.selected("spelled", exp.Star(replace=[sql.named(first, "u")]))
    if stage.moments:
        parts["products"] = _products(stage)
    return parts


def _within(stage: Stage, dialect: Dialect, source: str, most: int) -> exp.Select:
    """Entries of a unit with more than T rows over its groups, weighted down to T."""
    total, columns = exp.column("w"), list[exp.Expr]()
    for measure, name in _entries(stage).items():
        parts, entry = 1 if stage.capped else stage.parts.get(measure, 1), exp.column(name)
        weighted = dialect.weighted(dialect.wide(entry), sql.integer(most), total.copy(), parts)
        found = sql.either(total > sql.integer(most), weighted, in_parts(entry, parts, dialect))
        columns.append(exp.column(name) if measure.startswith("units") else sql.named(found, name))
    return sql.selected(source, *group_names(stage), *["place"] * (stage.discovery_groups is not None), *columns)


def _entries(stage: Stage) -> dict[str, str]:
    """The column of `bounded` with what a unit counts for, by measure; none for whole units."""
    return {
        measure: f"e{i}"
        for i, measure in enumerate(stage.measures)
        if measure in stage.parts or measure == "rows" or ":" in measure
    }


def _lengths(parts: Parts, stage: Stage, norm: Fraction, dialect: Dialect, *, known: bool) -> Parts:
    """The parts with each unit's length in rows, and in groups where those are bounded too. known: whether sums were read."""
    rows, together = exp.column("n"), exp.column("n")  # 64 bits have room for the square of 2^29 rows
    if stage.length_by is not None:  # a group squared is the sum, over the groups in it, of their rows times its own
        added = sql.windowed(dialect.summed(exp.column("n")), "u", *_coarse(stage))
        parts["coarse"] = sql.selected(next(reversed(parts)), exp.Star(), sql.named(added, "together"))
        together = exp.column("together")
    squares: dict[str, exp.Expr] = {"w": dialect.summed(rows * together)}
    norms, units = {"": norm}, None
    if stage.units_norm is not None:
        squares["wg"], norms["g"] = exp.Sum(this=dialect.wide(sql.integer(1))), stage.units_norm
    if known and stage.length_by is None:
        sums = (dialect.wide(exp.column(name)) * sql.integer(FINE**2) for name in ("nn", "g"))
        units = sql.selected(BY_UNIT, "u", *map(sql.named, sums, squares))
    return over_units(parts, squares, dialect, norms, units)


def _coarse(stage: Stage) -> list[str]:
    """The values of public keys by which a unit's length is taken, where that is not by all of them."""
    return [f"k{i}" for i in stage.length_by or ()]


def _reads_sums(stage: Stage) -> bool:
    """Whether its statement reads the sums of a unit's rows over groups, where they are known."""
    if stage.sizes is None:
        return (stage.norm is not None and stage.length_by is None) or _limits_all_rows(stage)
    return not _sized_by(stage, stage.sizes, summed=True)


def _limits_all_rows(stage: Stage) -> bool:
    """Whether its limits are of all rows of a unit, in whatever groups."""
    return stage.norm is None and not stage.capped and (stage.groups_per_unit or MOST_GROUPS) >= MOST_GROUPS


def _sized_by(stage: Stage, sizes: ContributionSizes, *, summed: bool) -> list[str]:
    """The columns by which a unit's rows are counted for its size; none for its rows in all groups, or sums that are known."""
    known = summed and stage.length_by is None and not (sizes.lost and stage.norm is None)
    if known or (sizes.power == 1 and (_limits_all_rows(stage) or not sizes.lost)):
        return []
    return group_names(stage) if stage.length_by is None else _coarse(stage)


def _counted(
    stage: Stage, sizes: ContributionSizes, by: list[str], source: str, shared: SharedRows | None
) -> exp.Select:
    """One row a unit, or a unit and its columns, with its number of rows, or of groups, or 1 more than its total of columns;
    and with the sum of their squares, where a length is asked for.
    """
    own = stage if shared is None else shared.stage
    columns = [f"x{list(own.grid).index(name)}" for name in sizes.of]
    known = shared is not None and shared.summed and not by
    as_they_are = known or (shared is not None and by == [*group_names(own), *_coarse(own)])
    numbers: list[exp.Expr] = [exp.column(f"s_{column}") for column in columns] or [exp.column("n")]
    unit = ["u"] if isinstance(own.table.unit, str) else []
    if not unit:  # each row is one
        numbers, as_they_are = [exp.column(column) for column in columns], True
    elif shared is None:
        numbers = [exp.Sum(this=exp.column(column)) for column in columns] or [exp.Count(this=exp.Star())]
    elif not as_they_are:
        numbers = [sql.as_bigint(exp.Sum(this=number)) for number in numbers]
    if sizes.of:  # NULL where nothing is added up
        numbers = [sql.integer(1), *(exp.Coalesce(this=number, expressions=[sql.integer(0)]) for number in numbers)]
    total = reduce(add, numbers)
    added = known and stage.length_by is None  # up over groups; else a unit's rows are one group
    if not sizes.power:  # a group counts once, whatever its rows
        total = exp.column("g") if added else sql.integer(1)
    found = [sql.named(total, "n")]
    if sizes.power == 2 or stage.norm is not None:
        square = exp.column("nn" if sizes.power else "g") if added else total.copy() * total.copy()
        found.append(sql.named(square, "nn"))
    query = sql.selected(BY_UNIT if known else source, *unit, *by, *found)
    return query if as_they_are else sql.grouped(query, "u", *by)


def in_order(query: exp.Select, stage: Stage) -> exp.Select:
    """The statement sorted by group, NULL last. The order depends on the keys alone; with public keys, only cells are
    sorted.

    Args:
        query: The statement.
        stage: The stage.

    Returns:
        The sorted statement.
    """
    groups = [exp.Ordered(this=exp.column(name), nulls_first=False) for name in group_names(stage)]
    return query.order_by(*groups) if groups and (stage.keys is None or stage.split is not None) else query


def salted(stage: Stage) -> bool:
    """Whether the statement uses a salt, to choose a unit's groups."""
    chosen = (stage.groups_per_unit, stage.discovery_groups)
    whole = stage.sizes is not None or stage.by_unit  # no group is left out
    return isinstance(stage.table.unit, str) and not whole and any(one is not None for one in chosen)


def group_names(stage: Stage) -> list[str]:
    """The result's group columns: none for one group, `p` for public keys, `g0`, `g1`, ... for discovered ones."""
    if stage.keys == ((),):
        return []
    return [f"g{i}" for i in range(len(stage.group_columns))] if stage.keys is None else [sql.POSITION]


def column_aliases(stage: Stage) -> dict[str, str]:
    """The statement's name of each column that it reads."""
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


def _computed(stage: Stage, aliases: Mapping[str, str], dialect: Dialect) -> list[exp.Expr]:
    columns = {name: exp.column(alias) for name, alias in aliases.items()}
    expressions: list[exp.Expr] = [
        sql.named(column_of(it.term, columns, dialect), alias) for alias, it in _grouped(stage).items()
    ]
    for i, column in enumerate(stage.grid.values()):
        if column.expression is not None:
            expressions.append(sql.named(translated(column.expression.term, columns, dialect), f"v{i}"))
    return expressions


def _group_column(stage: Stage, place: int, aliases: Mapping[str, str]) -> exp.Expr:
    name = stage.group_columns[place]
    return exp.column(f"d{place}" if name in stage.table.computed else aliases[name])


def _kept_rows(stage: Stage, aliases: Mapping[str, str], dialect: Dialect, source: str) -> exp.Select:
    at = {name: exp.column(alias) for name, alias in aliases.items()}
    conditions = [translated(condition.term, at, dialect) for condition in stage.conditions]
    columns: list[exp.Expr] = []
    if isinstance(stage.table.unit, str):
        unit = _unit(stage, stage.table.unit, aliases, dialect)
        columns.append(sql.named(unit, "u"))
        conditions.insert(0, unit.is_(exp.null()).not_())
    if stage.keys is None:
        for i, name in enumerate(stage.group_columns):
            group, whole = _group_column(stage, i, aliases), stage.table.schema[name] is ColumnType.INTEGER
            # whole numbers of more than 64 bits are no key: nothing downstream can hold them
            columns.append(sql.named(dialect.computed(group, ColumnType.INTEGER) if whole else group, f"g{i}"))
    elif stage.group_columns:
        columns += [exp.column(name, table=sql.KEYS) for name in (sql.POSITION, *_coarse(stage))]
    for i, column in enumerate(stage.grid.values()):
        columns.append(sql.named(on_grid(column, i, stage, aliases, dialect), f"x{i}"))
    query = sql.selected(source, *(columns or [sql.named(sql.integer(1), "one")])).where(*conditions, copy=False)
    if stage.keys is None or not stage.group_columns:
        return query
    return query.join(sql.part_named(sql.KEYS), on=exp.and_(*_matches(stage, aliases, dialect)), copy=False)


def _unit(stage: Stage, column: str, aliases: Mapping[str, str], dialect: Dialect) -> exp.Expr:
    """The unit's column, or as text with its period after it: the last ten letters are a date, so no two units are one."""
    unit = exp.column(aliases[column])
    if stage.table.period is None:
        return unit
    at = {name: exp.column(alias) for name, alias in aliases.items()}
    period = exp.cast(translated(stage.table.period.term, at, dialect), "TEXT")
    text = exp.DPipe(this=exp.cast(unit, "TEXT"), expression=exp.Literal.string("/"))
    return exp.paren(exp.DPipe(this=text, expression=period))


def _matches(stage: Stage, aliases: Mapping[str, str], dialect: Dialect) -> list[exp.Expr]:
    return [
        dialect.same(
            _group_column(stage, i, aliases),
            exp.column(f"k{i}", table=sql.KEYS),
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
        columns.append(sql.named(sql.either(present, value - sql.integer(moment.centre)), f"z{i}"))
    return sql.selected("kept", exp.Star(), *columns)


def _cells(stage: Stage) -> dict[str, tuple[str, str]]:
    """Each summed name with its column and the column that counts its values, which moments of a set share."""
    names = {measure.partition(":")[2] for measure in stage.measures}
    columns = {name: (f"x{i}", f"x{i}") for i, name in enumerate(stage.grid) if name in names}
    shared: dict[tuple[str, ...], str] = {}
    for i, (name, moment) in enumerate(stage.moments.items()):
        present = tuple(column.name for column in moment.present)
        alone = columns.get(present[0]) if len(present) == 1 else None
        columns[name] = (f"z{i}", alone[1] if alone else shared.setdefault(present, f"z{i}"))
    return columns


def _units(stage: Stage, dialect: Dialect, source: str, sized: Sequence[str] = ()) -> exp.Select:
    """One row a (unit, group). Sums of small values are exact in doubles, and those of sized columns are up to the last edge."""
    groups, cells = [*group_names(stage), *_coarse(stage)], _cells(stage)
    columns: list[exp.Expr] = [sql.named(exp.Count(this=exp.Star()), "n")]
    asked = (measure.partition(":") for measure in stage.measures)
    numbers = dict.fromkeys(cells[name][1] for what, _, name in asked if name and what != "total")
    columns += [sql.named(exp.Count(this=exp.column(number)), f"n_{number}") for number in numbers]
    for name, (value, _) in cells.items():
        if f"total:{name}" in stage.measures or f"short:{name}" in stage.measures:
            of = stage.grid.get(name) or stage.moments[name]
            small = name in sized or max(-of.low, of.high, abs(getattr(of, "fill", 0) or 0)) <= _SMALL
            summed = dialect.summed_in_doubles if small else dialect.summed
            columns.append(sql.named(summed(exp.column(value)), f"s_{value}"))
    return sql.grouped(sql.selected(source, "u", *groups, *columns), "u", *groups)


def _bounded(stage: Stage, dialect: Dialect, source: str, cells: Mapping[str, tuple[str, str]]) -> exp.Select:
    """The rows that a unit's groups are ranked by and, by measure, what the unit counts for in parts, or before T."""
    most = min(stage.rows_per_group, _MOST_ROWS)
    rows = sql.least(exp.column("n"), sql.integer(most)) if stage.capped else exp.column("n")
    columns: list[exp.Expr] = [sql.named(rows, "b")]
    for measure, entry in _entries(stage).items():
        what, _, name = measure.partition(":")
        parts = stage.parts.get(measure, 1)
        value: exp.Expr = exp.column("n")
        if name:
            cell, number = cells[name]
            value = _of_column(stage, measure, (value, exp.column(f"n_{number}"), exp.column(f"s_{cell}")), dialect)
        if what == "units":  # whole, unless a norm bounds its groups
            value = sql.least(value, sql.integer(1)) if name else sql.as_bigint(sql.integer(1))
            norm = stage.units_norm
            found = value if norm is None else weighed_by_norm(value, parts, norm, "kg", dialect)
        elif stage.norm is not None:
            found = weighed_by_norm(value, parts, stage.norm, "k", dialect)
        elif not stage.capped:
            found = value
        elif what == "rows":
            found = in_parts(rows.copy(), parts, dialect)
        else:
            weighted = dialect.weighted(dialect.wide(value.copy()), sql.integer(most), exp.column("n"), parts)
            found = sql.either(exp.column("n") > sql.integer(most), weighted, in_parts(value, parts, dialect))
        columns.append(sql.named(found, entry))
    return sql.selected(source, "u", *group_names(stage), *["place"] * (stage.discovery_groups is not None), *columns)


def _of_column(stage: Stage, measure: str, read: tuple[exp.Expr, exp.Expr, exp.Expr], dialect: Dialect) -> exp.Expr:
    """A measure of a column, from the number of rows and the number and the total of its values."""
    (what, _, name), (rows, number, total) = measure.partition(":"), read
    if what == "short":
        most = stage.grid[name].high
        return exp.paren((number if most <= _SMALL else dialect.wide(number)) * sql.integer(most) - total)
    return total if what == "total" else exp.paren(rows - number) if what == "empty" else number


def _order(stage: Stage, dialect: Dialect, salt: exp.Expr) -> list[exp.Expr]:
    """Of a unit's groups in which it counts alike: by a salted hash of the unit and the group, then by the group."""
    kinds = stage.table.schema
    groups = [(exp.column(name), ColumnType.INTEGER) for name in group_names(stage)]  # the position of a public key
    if stage.keys is None:
        groups = [(exp.column(f"g{i}"), kinds[name]) for i, name in enumerate(stage.group_columns)]
    unit = (exp.column("u"), stage.table.unit_kind)
    return [dialect.hash_key(salt, [unit, *groups]), *(group.copy() for group, _ in groups)]


def _finders(groups: int) -> exp.Expr:
    return exp.Count(this=sql.either(exp.column("place") <= sql.integer(groups), sql.integer(1)))


def _sums(stage: Stage, dialect: Dialect, *, by_row: bool) -> list[exp.Expr]:
    """One column a measure. Each row of `kept` is a unit of its own where rows are units."""
    cells, entries = _cells(stage), {} if by_row else _entries(stage)
    one = exp.Count(this=exp.Star())
    columns = list[exp.Expr]()
    for i, measure in enumerate(stage.measures):
        what, _, name = measure.partition(":")
        value: exp.Expr
        if measure in entries:
            value = dialect.summed(exp.column(entries[measure]))
        elif what == "finders":
            value = _finders(stage.discovery_groups or 0)
        elif what in {"units", "rows"} and not name:
            value = one.copy()
        else:
            cell, number = cells[name]
            counted, summed = exp.Count(this=exp.column(number)), dialect.summed(exp.column(cell))
            value = _of_column(stage, measure, (one.copy(), counted, summed), dialect)
            value = in_parts(value, stage.parts.get(measure, 1), dialect) if what == "empty" else value
        columns.append(sql.named(value, f"m{i}"))
    return columns
