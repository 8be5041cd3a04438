"""What bounds a unit's contributions beyond the caps of `statement`: norms, thinned rows, and the contribution histogram.

**The L2 norm clip** of `neartwin.planning.stage`, from one row a (unit, group), equal on all engines to the last bit:

```
measured  each measure's entry and its length, rounded up
normed    the same with w, the sum of squared lengths over the unit's groups
guessed   the same with about the root of w, from doubles, where w is beyond the limit's square
nearer    one Newton step of it in whole numbers: the root of w rounded down, or 1 more
rooted    the least r with r^2 >= w
clipped   entries in parts, multiplied by limit / r and truncated toward zero where w is beyond
```
Newton's step never ends below the root of w rounded down, whatever was guessed. The statement always tries 1 more. So r^2 >= w
holds however an engine rounds doubles.

**Thinned rows**: a unit in far more than its K groups has most of them counted and sorted only to be dropped. Where all groups
count alike, the first K by a hash are kept, so hashes tell beforehand which rows to leave out:

```
whole    rows of units, as `kept` is otherwise
hashed   the same with a bit for where the group's hash lies: one of 60 places, in the order of the hashes
seen     each unit's places that have a group: one pass, by unit alone
kept     rows with fewer than K places of their unit before their own
```
Places rise with the hash, and groups of different places are different groups. A row with K places before its own is of a group
that K others come before. So no row of a kept group is left out, and the answer is the same to the last bit.

A place is 60 times the fourth root of the hash over its range, rounded down. That is monotone as doubles are rounded. It is fine
enough around the K-th hash of a unit in a hundred groups and of one in ten thousand. It costs a pass over the rows, so the engine
does it where the first rows tell that groups are many: see `alike`.

**The contribution histogram** of `neartwin.planning.pilot_bounds`, from the rows of `units`:

```
counted  the same with k, the number of groups of the unit
spread   one row a (unit, cell): floor(1024 c / k) for its c groups with so many rows
         parts by cell
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from neartwin.engines.sql.dialect import POSITION, Dialect, alias_of, as_double, least, part_named, real, whole
from neartwin.planning.stage import Coordinate, NormClip, Stage
from neartwin.tables.types import ColumnType


@dataclass(frozen=True, slots=True)
class Source:
    """The part that entries are read from, with the unit as u, and those of its columns that are wanted."""

    name: str
    columns: list[str]


def with_norms(
    query: exp.Select, clip: NormClip, entries: Mapping[str, exp.Expr], source: "Source", dialect: Dialect
) -> exp.Select:
    """The query with `clipped` among its parts: the source's columns and e0, e1, ..., one for each of `entries` by measure."""
    kept = source.columns
    steps: list[exp.Expr] = []
    for i, (name, entry) in enumerate(entries.items()):
        value = exp.func("coalesce", entry.copy(), whole(0))
        steps += [exp.alias_(value, f"e{i}"), exp.alias_(_length(value, clip.coordinates[name], dialect), f"l{i}")]
    places, beyond = range(len(entries)), exp.column("w") > whole(clip.limit**2)
    squares: exp.Expr = exp.column("l0") * exp.column("l0")
    for i in places[1:]:
        squares = squares + exp.column(f"l{i}") * exp.column(f"l{i}")
    in_all = exp.Window(this=exp.Sum(this=squares), partition_by=[exp.column("u")])
    values = [exp.alias_(exp.column(f"e{i}"), f"e{i}") for i in places]
    clipped = [
        exp.alias_(_clipped(i, clip.coordinates[name], clip.limit, beyond, dialect), f"e{i}")
        for i, name in enumerate(entries)
    ]
    parts = {
        "measured": exp.select("u", *kept, *steps).from_(part_named(source.name)),
        "normed": exp.select("u", *kept, *values, exp.alias_(in_all, "w")).from_(part_named("measured")),
        **roots("normed", beyond, dialect),
        "clipped": exp.select(*kept, *clipped).from_(part_named("rooted")),
    }
    return with_parts(query, parts)


def with_parts(query: exp.Select, parts: Mapping[str, exp.Select]) -> exp.Select:
    """The query with these behind its WITH."""
    for name, part in parts.items():
        query = query.with_(alias_of(name), as_=part, copy=False)
    return query


def roots(source: str, beyond: exp.Expr, dialect: Dialect) -> dict[str, exp.Select]:
    """The parts that end in `rooted`: the source and k, the least whole number with k^2 >= w, NULL where w is not beyond."""
    root = least(exp.Ceil(this=exp.Sqrt(this=as_double(exp.column("w")))), real(2.0**62))
    return {
        "guessed": _more(_where(beyond, exp.cast(root, "BIGINT")), "r", source),
        "nearer": _more(_where(beyond, _newton(dialect)), "q", "guessed"),
        "rooted": _more(_where(beyond, _rounded_up()), "k", "nearer"),
    }


def _length(value: exp.Expr, one: Coordinate, dialect: Dialect) -> exp.Expr:
    """Ceil(|v| times / over)."""
    size = dialect.wide(exp.Abs(this=value.copy())) * whole(one.times)
    if one.over == 1:
        return size
    return dialect.weighted(exp.paren(size + whole(one.over - 1)), whole(1), whole(one.over))


def _more(column: exp.Expr, name: str, source: str) -> exp.Select:
    return exp.select(exp.Star(), exp.alias_(column, name)).from_(part_named(source))


def _where(beyond: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.case().when(beyond.copy(), value).else_(exp.null())


def _newton(dialect: Dialect) -> exp.Expr:
    """(r + w / r) / 2, both quotients rounded down."""
    guess = exp.column("r")
    return dialect.weighted(
        exp.paren(dialect.wide(guess) + dialect.weighted(exp.column("w"), whole(1), guess.copy())), whole(1), whole(2)
    )


def _rounded_up() -> exp.Expr:
    q, w = exp.column("q"), exp.column("w")
    below = exp.paren(q - whole(1))
    case = exp.case().when(below.copy() * below.copy() >= w, below.copy())
    return case.when(q.copy() * q.copy() >= w.copy(), q.copy()).else_(q + whole(1))


def _clipped(place: int, one: Coordinate, limit: int, beyond: exp.Expr, dialect: Dialect) -> exp.Expr:
    entry = dialect.wide(exp.column(f"e{place}")) * whole(one.parts)
    less = dialect.weighted(exp.paren(entry.copy()), whole(limit), exp.column("k"))
    return exp.case().when(beyond.copy(), less).else_(entry)


_PLACES = 60  # bits of a whole number that is never negative
_MOST_GROUPS = 20  # K: beyond, too many places are needed
_LOOKED_AT = 100_000  # rows
_LEAST_PAIRS = 1000  # of rows of one unit, to tell anything
_TIMES = 3  # K: groups of a unit, from which on it pays


def can_thin(stage: Stage) -> bool:
    """Whether the first groups by hash are kept, of units that are written in one way: a text's collation may know several."""
    return (
        stage.groups_per_unit is not None
        and stage.groups_per_unit <= _MOST_GROUPS
        and stage.rows_per_group == 1
        and isinstance(stage.table.unit, str)
        and stage.table.unit_kind is not ColumnType.TEXT
        and stage.split is None
        and stage.clip is None
        and not stage.octaves
    )


def thinned(query: exp.Select, rows: exp.Select, hashed: exp.Expr, groups: int) -> exp.Select:
    """The query with `kept` among its parts. rows: what that would be otherwise; hashed: of unit and group; groups: K."""
    over = exp.Div(this=exp.cast(hashed, "DOUBLE", dialect="duckdb"), expression=real(2.0**64), typed=True)
    root = exp.Floor(this=exp.Sqrt(this=exp.Sqrt(this=over)) * real(float(_PLACES)))
    place = exp.cast(least(root, real(float(_PLACES - 1))), "BIGINT", dialect="duckdb")
    one = exp.cast(whole(1), "BIGINT", dialect="duckdb")
    bit = exp.alias_(exp.BitwiseLeftShift(this=one, expression=place), "s")
    marked = exp.select(exp.Star(), bit).from_(part_named("whole"))
    seen = (
        exp.select("u", exp.alias_(exp.func("bit_or", exp.column("s")), "m")).from_(part_named("hashed")).group_by("u")
    )
    few = exp.select(exp.Star()).from_(_counted().subquery()).where(exp.column("before") < whole(groups))
    query = query.with_(alias_of("whole"), as_=rows, copy=False)
    query = query.with_(alias_of("hashed"), as_=marked, materialized=True, copy=False)
    query = query.with_(alias_of("seen"), as_=seen, copy=False)
    return query.with_(alias_of("kept"), as_=few, copy=False)


def _counted() -> exp.Select:
    """Rows of `hashed`, each with how many places of its unit come before its own.

    The random number is of no row, since every s is above 0: it keeps DuckDB from moving the condition on `before` into the
    join, which then finds units of a small range of whole numbers in an array.
    """
    places = exp.BitwiseAnd(this=exp.column("m"), expression=exp.paren(exp.column("s") - whole(1)))
    number = exp.Anonymous(this="bit_count", expressions=[places])
    counted = exp.case().when(exp.column("s") > whole(0), number).else_(exp.Anonymous(this="random"))
    same = exp.EQ(this=exp.column("u", table="hashed"), expression=exp.column("u", table="seen"))
    columns = exp.Column(this=exp.Star(), table=exp.to_identifier("hashed"))
    rows = exp.select(columns, exp.alias_(counted, "before")).from_(part_named("hashed"))
    return rows.join(part_named("seen"), on=same)


def alike(query: exp.Select, groups: list[str]) -> exp.Select:
    """Of the first rows of `kept`: pairs of one unit, and those of them that are of one group too. The query ends in it."""
    some = exp.select("u", *groups).from_(part_named("kept")).limit(_LOOKED_AT)
    each = exp.select("u", exp.alias_(exp.Count(this=exp.Star()), "n")).from_(part_named("some")).group_by("u", *groups)
    squares = [exp.Sum(this=exp.column("n")), exp.Sum(this=exp.column("n") * exp.column("n"))]
    of_unit = exp.select(*(exp.alias_(square, name) for square, name in zip(squares, "rq", strict=True)))
    query = query.with_(alias_of("some"), as_=some, copy=False).with_(alias_of("each"), as_=each, copy=False)
    query = query.with_(alias_of("own"), as_=of_unit.from_(part_named("each")).group_by("u"), copy=False)
    rows = exp.column("r")
    pairs = [exp.Sum(this=rows * rows - rows), exp.Sum(this=exp.column("q") - rows.copy())]
    return query.select(*pairs).from_(part_named("own"))


def are_many(pairs: int, same: int, groups: int) -> bool:
    """Whether two rows of a unit are seldom of one group: in fewer than one of 3 K pairs."""
    return pairs >= _LEAST_PAIRS and pairs > _TIMES * groups * same


PARTS = 1024  # of a unit


def contribution_histogram(query: exp.Select, stage: Stage, dialect: Dialect) -> exp.Select:
    """The statement's end; query: what leads to `units`. Result columns: the cell's position, and m0."""
    size = len(stage.octaves)
    groups = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[exp.column("u")])
    counted = exp.select("u", "n", exp.alias_(groups, "k")).from_("units")
    cell = _octave(exp.column("k"), stage.octaves) * whole(size) + _octave(exp.column("n"), stage.octaves)
    celled = exp.select("u", "k", exp.alias_(cell, POSITION)).from_("counted")
    share = dialect.weighted(whole(PARTS), exp.Count(this=exp.Star()), exp.column("k"))
    spread = exp.select(POSITION, exp.alias_(share, "parts")).from_("celled").group_by("u", "k", POSITION)
    for name, part in {"counted": counted, "celled": celled, "spread": spread}.items():
        query = query.with_(name, as_=part)
    return (
        query.select(POSITION, exp.alias_(dialect.summed(exp.column("parts")), "m0")).from_("spread").group_by(POSITION)
    )


def _octave(value: exp.Expr, octaves: Sequence[int]) -> exp.Expr:
    """The place of the last octave that begins at the value or below it."""
    found = exp.case()
    for place, beyond in enumerate(octaves[1:]):
        found = found.when(value.copy() < whole(beyond), whole(place))
    return exp.paren(found.else_(whole(len(octaves) - 1)))
