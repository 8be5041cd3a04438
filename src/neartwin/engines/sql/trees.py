"""The statement that counts a group's rows by the cell of one value: for histograms and quantiles.

```
kept     as in `sql`, with the cell as x0
sizes    one row a (unit, group): numbers of rows and of values
placed   and the group's place among the unit's, if a unit may be in too many
weighed  and the weight of each value of the unit in the group
         sums by group and cell
```
A unit's values count for P parts each. If it has m > C of them in a group, each counts for floor(C P / m): together at
most C P. So all values weigh alike, and none is chosen above another.

If an engine computes a marked part of a statement once, rows are joined with the weight of their unit. That needs no
aggregate by unit, group *and* cell, and no sort. If rows were read twice and had changed, weights would be wrong. So
other engines count by unit, group and cell first, and get m by a window over that. A norm in place of caps weights a
unit's values in all groups alike: see `neartwin.planning.stage`.
"""

from sqlglot import exp

from neartwin.engines.sql.bounding import roots
from neartwin.engines.sql.dialect import (
    Dialect,
    Parts,
    as_bigint,
    grouped,
    integer,
    least,
    named,
    part_named,
    selected,
    windowed,
    with_parts,
)
from neartwin.planning.stage import FINE, CellClip, Stage

CELL = "b"
_MOST_ROWS = 2**31  # the largest cap: times the parts of a row it has at most 62 bits


def cells_of(parts: Parts, stage: Stage, groups: list[str], dialect: Dialect, ranked_by: list[exp.Expr]) -> exp.Select:
    """The statement with sums by group and cell.

    Its columns are the group, then the cell (low to high, in whole steps), then m0, in parts.

    Args:
        parts: The parts up to `kept`.
        stage: The stage.
        groups: The group columns.
        dialect: The engine's spelling.
        ranked_by: The order of a unit's groups.

    Returns:
        The statement.
    """
    cell = exp.column("x0")
    if not isinstance(stage.table.unit, str):
        counted = selected("kept", *groups, named(cell, CELL), named(exp.Count(this=exp.Star()), "m0"))
        return with_parts(grouped(counted.where(_present("x0")), *groups, CELL), parts)
    if stage.cell_clip is not None:
        return _within_norm(parts, stage, stage.cell_clip, groups, dialect)
    if dialect.reads_once:
        return _by_rows(parts, stage, groups, dialect, ranked_by)
    return _by_cells(parts, stage, groups, dialect, ranked_by)


def _by_rows(parts: Parts, stage: Stage, groups: list[str], dialect: Dialect, ranked_by: list[exp.Expr]) -> exp.Select:
    """Rows joined with the weight of their unit in their group."""
    numbers = [named(exp.Count(this=exp.Star()), "n"), named(exp.Count(this=exp.column("x0")), "m")]
    sizes = grouped(selected("kept", "u", *groups, *numbers), "u", *groups)
    parts = {**parts, "sizes": sizes, **_placed(stage, exp.RowNumber(), ranked_by)}
    weighed = selected(next(reversed(parts)), "u", *groups, named(_weight(stage, dialect), "w"))
    parts["weighed"] = weighed.where(*_few(stage), copy=False)
    own, others = ({name: exp.column(name, table=part) for name in ("u", *groups)} for part in ("kept", "weighed"))
    same: list[exp.Expr] = [exp.EQ(this=own["u"], expression=others["u"])]
    same += [
        exp.NullSafeEQ(this=own[name], expression=others[name]) for name in groups
    ]  # a discovered group may be NULL
    shown = [named(own[name].copy(), name) for name in groups]
    total = named(dialect.summed(exp.column("w")), "m0")
    last = selected("kept", *shown, named(exp.column("x0"), CELL), total).join(
        part_named("weighed"), on=exp.and_(*same)
    )
    by_cell = last.where(_present("x0")).group_by(*(own[name].copy() for name in groups), exp.column("x0"))
    return with_parts(by_cell, parts, once="kept")


def _by_cells(parts: Parts, stage: Stage, groups: list[str], dialect: Dialect, ranked_by: list[exp.Expr]) -> exp.Select:
    """Counts by unit, group and cell, and what windows over them say."""
    value = exp.case().when(exp.column(CELL).is_(exp.null()), integer(0)).else_(exp.column("c"))
    numbers = [
        named(windowed(dialect.summed(counted), "u", *groups), name)
        for name, counted in (("n", exp.column("c")), ("m", value))
    ]
    parts = {
        **parts,
        "cells": _counted_cells(groups),
        "sizes": selected("cells", exp.Star(), *numbers),
        **_placed(stage, exp.func("dense_rank"), ranked_by),  # all cells of a group have one place
    }
    weight = exp.column("c") * _weight(stage, dialect)
    weighed = selected(next(reversed(parts)), *groups, CELL, named(weight, "w"))
    parts["weighed"] = weighed.where(_present(CELL), *_few(stage), copy=False)
    return _totals(parts, groups, dialect)


def _within_norm(parts: Parts, stage: Stage, clip: CellClip, groups: list[str], dialect: Dialect) -> exp.Select:
    """Counts by unit, group and cell, each weighted by the length of the unit's whole vector: see `norm_cells`.

    A node's count squared is the sum, over the values in it, of the count: so S is the sum of c times the counts of the nodes
    that a cell is in; here w is F^2 S.
    """
    (column,) = stage.grid.values()
    place = exp.paren(exp.column(CELL) - integer(column.low))
    above = [(i, width) for i, width in enumerate(clip.widths) if width > 1]
    nodes = [named(dialect.weighted(place.copy(), integer(1), integer(width)), f"d{i}") for i, width in above]
    counts = [named(windowed(dialect.summed(exp.column("c")), "u", *groups, f"d{i}"), f"n{i}") for i, _ in above]
    one = dialect.wide(exp.column("c"))
    squared = one.copy()
    for i, _ in above:
        squared = squared + exp.column(f"n{i}")
    length = windowed(exp.Sum(this=one * exp.paren(squared) * integer(FINE**2)), "u")
    beyond = exp.column("w") > integer(clip.most(stage.parts) * FINE**2)
    share = dialect.weighted(integer(FINE * clip.limit), integer(1), exp.column("k"))
    weight = as_bigint(exp.case().when(beyond.copy(), share).else_(integer(stage.parts)))
    parts = {
        **parts,
        "cells": _counted_cells(groups).where(_present("x0"), copy=False),
        "noded": selected("cells", exp.Star(), *nodes),
        "counted": selected("noded", exp.Star(), *counts),
        "normed": selected("counted", *groups, CELL, "c", named(length, "w")),
        **roots("normed", beyond, dialect),
        "weighed": selected("rooted", *groups, CELL, named(exp.column("c") * weight, "w")),
    }
    return _totals(parts, groups, dialect)


def _counted_cells(groups: list[str]) -> exp.Select:
    counted = named(exp.Count(this=exp.Star()), "c")
    return grouped(selected("kept", "u", *groups, named(exp.column("x0"), CELL), counted), "u", *groups, "x0")


def _totals(parts: Parts, groups: list[str], dialect: Dialect) -> exp.Select:
    """The statement that ends in sums of w by group and cell."""
    total = named(dialect.summed(exp.column("w")), "m0")
    return with_parts(grouped(selected("weighed", *groups, CELL, total), *groups, CELL), parts)


def _placed(stage: Stage, place: exp.Expr, ranked_by: list[exp.Expr]) -> Parts:
    """`sizes` with a group's place among those of its unit, where a unit may be in too many."""
    if stage.groups_per_unit is None:
        return {}
    ordered = windowed(place, "u", order=ranking(ranked_by, _counted(stage, exp.column("n"))))
    return {"placed": selected("sizes", exp.Star(), named(ordered, "place"))}


def _present(column: str) -> exp.Expr:
    return exp.column(column).is_(exp.null()).not_()


def ranking(ranked_by: list[exp.Expr], rows: exp.Expr | None) -> exp.Order:
    """The order of a unit's groups. Those with most of its rows come first, so that the fewest are lost.

    Args:
        ranked_by: The order among equals.
        rows: The number of rows, if it may differ; else None.

    Returns:
        The order.
    """
    own = [exp.Ordered(this=rows, desc=True)] if rows is not None else []
    return exp.Order(expressions=[*own, *(exp.Ordered(this=item) for item in ranked_by)])


def _counted(stage: Stage, rows: exp.Expr) -> exp.Expr | None:
    """For how many rows a unit counts, where that may be more than one."""
    return least(rows, integer(_cap(stage))) if stage.rows_per_group > 1 else None


def _few(stage: Stage) -> list[exp.Expr]:
    """Only the first of a unit's groups, where it may be in too many."""
    return [] if stage.groups_per_unit is None else [exp.column("place") <= integer(stage.groups_per_unit)]


def _cap(stage: Stage) -> int:
    return min(stage.rows_per_group, _MOST_ROWS)


def _weight(stage: Stage, dialect: Dialect) -> exp.Expr:
    """P parts, or floor(C P / m) where m > C."""
    values, cap = exp.column("m"), integer(_cap(stage))
    share = dialect.weighted(integer(_cap(stage) * stage.parts), integer(1), values.copy())
    weight = exp.case().when(values > cap, share).else_(integer(stage.parts))
    return as_bigint(weight)
