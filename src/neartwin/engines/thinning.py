"""Rows that a unit's kept groups cannot come from, left out before pairs of unit and group are counted.

A unit in far more than its K groups has most of them counted and sorted only to be dropped. Where all groups count alike the
first K by a hash are kept, so hashes tell beforehand:

```
whole    rows of units, as `kept` is otherwise
hashed   the same with a bit for where the group's hash lies: one of 60 places, in the order of the hashes
seen     each unit's places that have a group: one pass, by unit alone
kept     rows with fewer than K places of their unit before their own
```
Places rise with the hash, and groups of different places are different groups: a row with K places before its own is of a group
that K others come before. So no row of a kept group is left out, and what is kept is ranked as ever: the same answer to the last
bit, and the same cap whatever the places are.

A place is 60 times the fourth root of the hash over its range, rounded down. That is monotone as doubles are rounded, and it is
fine enough around the K-th hash of a unit in a hundred groups and of one in ten thousand. It costs a pass over the rows, so it is
done where the first rows tell that groups are many: see `alike`.
"""

from sqlglot import exp

from neartwin.engines.dialect import alias_of, least, part_named, real, whole
from neartwin.queries.stage import Stage
from neartwin.queries.types import ColumnType

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
