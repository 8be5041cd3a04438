"""The statement that counts a group's rows by the cell of one value: for histograms and quantiles.

```
kept     as in `sql`, with the cell as x0
sizes    one row a (unit, group): numbers of rows and of values
placed   the same with the group's place among the unit's, where a unit may be in too many
weighed  the same with what each value of the unit counts for in the group
         sums by group and cell
```
A unit's values count for P parts each; where it has m > C of them in a group, for floor(C P / m): together at most C P, whatever
they are. So each value is as likely as any other to be what is read from the counts, and no value is chosen above another.

Where an engine computes a marked part of a statement once, rows are joined with the weight of their unit: no aggregate by unit,
group *and* cell, and no sort. Weights would be wrong if rows were read twice and had changed, so others count by unit, group
and cell first, and get m by a window over that. A norm in place of caps weights a unit's values in all groups alike: see
`neartwin.planning.stage`.
"""

from sqlglot import exp

from neartwin.engines.sql.bounding import roots, with_parts
from neartwin.engines.sql.dialect import Dialect, alias_of, least, part_named, whole
from neartwin.planning.stage import FINE, CellClip, Stage

CELL = "b"
_MOST_ROWS = 2**31  # of a cap: times the parts of a row it stays within 62 bits


def cells_of(
    query: exp.Select, stage: Stage, groups: list[str], dialect: Dialect, ranked_by: list[exp.Expr]
) -> exp.Select:
    """The statement, given one whose WITH ends in `kept`. ranked_by: the order of a unit's groups.

    Result columns: the group, then the cell (low to high, in whole steps), then m0, in parts.
    """
    cell = exp.column("x0")
    if not isinstance(stage.table.unit, str):
        counted = exp.alias_(exp.Count(this=exp.Star()), "m0")
        found = exp.select(*groups, exp.alias_(cell, CELL), counted).from_(part_named("kept"))
        return _with_of(query, found.where(cell.copy().is_(exp.null()).not_()).group_by(*groups, CELL))
    if stage.cell_clip is not None:
        return _within_norm(query, stage, stage.cell_clip, groups, dialect)
    if dialect.reads_once:
        return _by_rows(query, stage, groups, dialect, ranked_by)
    return _by_cells(query, stage, groups, dialect, ranked_by)


def _by_rows(
    query: exp.Select, stage: Stage, groups: list[str], dialect: Dialect, ranked_by: list[exp.Expr]
) -> exp.Select:
    """Rows joined with the weight of their unit in their group."""
    kept = next(part for part in query.args["with_"].expressions if part.alias == "kept")
    kept.set("materialized", True)
    own, value = [exp.column("u"), *map(exp.column, groups)], exp.column("x0")
    numbers = [exp.alias_(exp.Count(this=exp.Star()), "n"), exp.alias_(exp.Count(this=value.copy()), "m")]
    sizes = exp.select(*own, *numbers).from_(part_named("kept")).group_by(*(part.copy() for part in own))
    query = query.with_(alias_of("sizes"), as_=sizes, copy=False)
    source = "sizes"
    if stage.groups_per_unit is not None:
        place = exp.Window(
            this=exp.RowNumber(),
            partition_by=[exp.column("u")],
            order=ranking(ranked_by, _counted(stage, exp.column("n"))),
        )
        placed = exp.select(exp.Star(), exp.alias_(place, "place")).from_(part_named("sizes"))
        query, source = query.with_(alias_of("placed"), as_=placed, copy=False), "placed"
    weighed = exp.select(*(part.copy() for part in own), exp.alias_(_weight(stage, dialect), "w"))
    query = query.with_(alias_of("weighed"), as_=weighed.from_(part_named(source)).where(*_few(stage)), copy=False)
    same: list[exp.Expr] = [exp.EQ(this=exp.column("u", table="kept"), expression=exp.column("u", table="weighed"))]
    same += [  # a discovered group may be NULL
        exp.NullSafeEQ(this=exp.column(name, table="kept"), expression=exp.column(name, table="weighed"))
        for name in groups
    ]
    shown = [exp.alias_(exp.column(name, table="kept"), name) for name in groups]
    total = exp.alias_(dialect.summed(exp.column("w")), "m0")
    found = exp.select(*shown, exp.alias_(value.copy(), CELL), total).from_(part_named("kept"))
    found = found.join(part_named("weighed"), on=exp.and_(*same)).where(value.is_(exp.null()).not_())
    return _with_of(query, found.group_by(*(exp.column(name, table="kept") for name in groups), value.copy()))


def _by_cells(
    query: exp.Select, stage: Stage, groups: list[str], dialect: Dialect, ranked_by: list[exp.Expr]
) -> exp.Select:
    """Counts by unit, group and cell, and what windows over them say."""
    own = [exp.column("u"), *map(exp.column, groups)]
    each = exp.select(*own, exp.alias_(exp.column("x0"), CELL), exp.alias_(exp.Count(this=exp.Star()), "c"))
    query = query.with_(alias_of("cells"), as_=each.from_(part_named("kept")).group_by("u", *groups, "x0"), copy=False)
    value = exp.case().when(exp.column(CELL).is_(exp.null()), whole(0)).else_(exp.column("c"))
    numbers = [
        exp.alias_(exp.Window(this=dialect.summed(counted), partition_by=[part.copy() for part in own]), name)
        for name, counted in (("n", exp.column("c")), ("m", value))
    ]
    sizes = exp.select(exp.Star(), *numbers).from_(part_named("cells"))
    query, source = query.with_(alias_of("sizes"), as_=sizes, copy=False), "sizes"
    if stage.groups_per_unit is not None:
        place = exp.Window(  # one place for all cells of a group
            this=exp.func("dense_rank"),
            partition_by=[exp.column("u")],
            order=ranking(ranked_by, _counted(stage, exp.column("n"))),
        )
        placed = exp.select(exp.Star(), exp.alias_(place, "place")).from_(part_named("sizes"))
        query, source = query.with_(alias_of("placed"), as_=placed, copy=False), "placed"
    parts = exp.column("c") * _weight(stage, dialect)
    weighed = exp.select(*groups, CELL, exp.alias_(parts, "w")).from_(part_named(source))
    filled = exp.column(CELL).is_(exp.null()).not_()
    query = query.with_(alias_of("weighed"), as_=weighed.where(filled, *_few(stage)), copy=False)
    total = exp.alias_(dialect.summed(exp.column("w")), "m0")
    return _with_of(query, exp.select(*groups, CELL, total).from_(part_named("weighed")).group_by(*groups, CELL))


def _within_norm(query: exp.Select, stage: Stage, clip: CellClip, groups: list[str], dialect: Dialect) -> exp.Select:
    """Counts by unit, group and cell, each weighted by the length of the unit's whole vector: see `norm_cells`.

    A node's count squared is the sum, over the values in it, of the count: so S is the sum of c times the counts of the nodes
    that a cell is in; here w is F^2 S.
    """
    own, (column,) = [exp.column("u"), *map(exp.column, groups)], stage.grid.values()
    each = exp.select(*own, exp.alias_(exp.column("x0"), CELL), exp.alias_(exp.Count(this=exp.Star()), "c"))
    filled = exp.column("x0").is_(exp.null()).not_()
    cells = each.from_(part_named("kept")).where(filled).group_by("u", *groups, "x0")
    place = exp.paren(exp.column(CELL) - whole(column.low))
    above = [(i, width) for i, width in enumerate(clip.widths) if width > 1]
    nodes = [exp.alias_(dialect.weighted(place.copy(), whole(1), whole(width)), f"d{i}") for i, width in above]
    counts = [
        exp.alias_(
            exp.Window(
                this=dialect.summed(exp.column("c")), partition_by=[*(part.copy() for part in own), exp.column(f"d{i}")]
            ),
            f"n{i}",
        )
        for i, _ in above
    ]
    one = dialect.wide(exp.column("c"))
    squared = one.copy()
    for i, _ in above:
        squared = squared + exp.column(f"n{i}")
    length = exp.Window(this=exp.Sum(this=one * exp.paren(squared) * whole(FINE**2)), partition_by=[exp.column("u")])
    beyond = exp.column("w") > whole(clip.most(stage.parts) * FINE**2)
    share = dialect.weighted(whole(FINE * clip.limit), whole(1), exp.column("k"))
    weight = exp.cast(exp.case().when(beyond.copy(), share).else_(whole(stage.parts)), "BIGINT")
    parts = {
        "cells": cells,
        "noded": exp.select(exp.Star(), *nodes).from_(part_named("cells")),
        "counted": exp.select(exp.Star(), *counts).from_(part_named("noded")),
        "normed": exp.select(*groups, CELL, "c", exp.alias_(length, "w")).from_(part_named("counted")),
        **roots("normed", beyond, dialect),
        "weighed": exp.select(*groups, CELL, exp.alias_(exp.column("c") * weight, "v")).from_(part_named("rooted")),
    }
    total = exp.alias_(dialect.summed(exp.column("v")), "m0")
    last = exp.select(*groups, CELL, total).from_(part_named("weighed")).group_by(*groups, CELL)
    return _with_of(with_parts(query, parts), last)


def _with_of(query: exp.Select, last: exp.Select) -> exp.Select:
    last.set("with_", query.args["with_"])
    return last


def ranking(ranked_by: list[exp.Expr], rows: exp.Expr | None) -> exp.Order:
    """The order of a unit's groups: those where it counts for most rows come first, so that least is lost. rows: if it may."""
    own = [exp.Ordered(this=rows, desc=True)] if rows is not None else []
    return exp.Order(expressions=[*own, *(exp.Ordered(this=item) for item in ranked_by)])


def _counted(stage: Stage, rows: exp.Expr) -> exp.Expr | None:
    """For how many rows a unit counts, where that may be more than one."""
    return least(rows, whole(_cap(stage))) if stage.rows_per_group > 1 else None


def _few(stage: Stage) -> list[exp.Expr]:
    """Only the first of a unit's groups, where it may be in too many."""
    return [] if stage.groups_per_unit is None else [exp.column("place") <= whole(stage.groups_per_unit)]


def _cap(stage: Stage) -> int:
    return min(stage.rows_per_group, _MOST_ROWS)


def _weight(stage: Stage, dialect: Dialect) -> exp.Expr:
    """P parts, or floor(C P / m) where m > C."""
    values, cap = exp.column("m"), whole(_cap(stage))
    share = dialect.weighted(whole(_cap(stage) * stage.parts), whole(1), values.copy())
    found = exp.case().when(values > cap, share).else_(whole(stage.parts))
    return exp.Cast(this=found, to=exp.DataType(this=exp.DataType.Type.BIGINT))
