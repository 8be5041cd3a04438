"""The statement that counts a group's rows by the cell of one value: for histograms and quantiles.

```
kept     as in `sql`, with the cell as x0
cells    one row a (unit, group, cell): number of rows
whole    the same with the unit's number of rows in the group, up to C, where a unit may be in too many groups
spread   the same with the unit's numbers of values in the group, in all and up to the cell, its hash, and the group's place
started  the same with where the unit's choice of values starts
         sums by group and cell
```
A unit with m > C values in a group counts for C of them: every (m/C)-th in the order of the cells, from a start that its salted
hash of unit and group decides. With c of its values up to a cell and the start o in 0, ..., m - 1, it counts for
floor((c C + o) / m) up to there. So each value is as likely as any other, and how many are chosen below a place is off by less
than one.
"""

from sqlglot import exp

from neartwin.engines.dialect import Dialect, alias_of, least, part_named, whole
from neartwin.queries.stage import Stage

CELL = "b"
_MOST_ROWS = 2**31  # of a cap: times the rows of a unit it stays within 38 digits


def cells_of(
    query: exp.Select, stage: Stage, groups: list[str], dialect: Dialect, ranked_by: list[exp.Expr]
) -> exp.Select:
    """The statement, given one whose WITH ends in `kept`. ranked_by: the order of a unit's groups.

    Result columns: the group, then the cell (low to high, in whole steps), then m0.
    """
    cell = exp.column("x0")
    if not isinstance(stage.table.unit, str):
        counted = exp.alias_(exp.Count(this=exp.Star()), "m0")
        found = exp.select(*groups, exp.alias_(cell, CELL), counted).from_(part_named("kept"))
        return _with_of(query, found.where(cell.copy().is_(exp.null()).not_()).group_by(*groups, CELL))
    each = exp.select("u", *groups, exp.alias_(cell, CELL), exp.alias_(exp.Count(this=exp.Star()), "n"))
    query = query.with_(
        alias_of("cells"), as_=each.from_(part_named("kept")).group_by("u", *groups, cell.copy()), copy=False
    )
    first = stage.groups_per_unit is not None and stage.rows_per_group > 1
    if first:
        query = query.with_(alias_of("whole"), as_=_whole(stage, groups, dialect), copy=False)
    spread = _spread(stage, groups, dialect, ranked_by).from_(part_named("whole" if first else "cells"))
    query = query.with_(alias_of("spread"), as_=spread, copy=False)
    query = query.with_(alias_of("started"), as_=_started(stage, dialect), copy=False)
    total = exp.alias_(dialect.summed(exp.cast(_counted(stage, dialect), "BIGINT")), "m0")
    chosen = (
        exp.select(*groups, CELL, total).from_(part_named("started")).where(exp.column(CELL).is_(exp.null()).not_())
    )
    if stage.groups_per_unit is not None:
        chosen = chosen.where(exp.column("place") <= exp.Literal.number(stage.groups_per_unit))
    return _with_of(query, chosen.group_by(*groups, CELL))


def _with_of(query: exp.Select, last: exp.Select) -> exp.Select:
    last.set("with_", query.args["with_"])
    return last


def ranking(ranked_by: list[exp.Expr], rows: exp.Expr | None) -> exp.Order:
    """The order of a unit's groups: those where it counts for most rows come first, so that least is lost. rows: if it may."""
    own = [exp.Ordered(this=rows, desc=True)] if rows is not None else []
    return exp.Order(expressions=[*own, *(exp.Ordered(this=item) for item in ranked_by)])


def _whole(stage: Stage, groups: list[str], dialect: Dialect) -> exp.Select:
    own = [exp.column("u"), *map(exp.column, groups)]
    rows = least(exp.Window(this=dialect.summed(exp.column("n")), partition_by=own), whole(_cap(stage)))
    return exp.select(exp.Star(), exp.alias_(rows, "b_all")).from_(part_named("cells"))


def _spread(stage: Stage, groups: list[str], dialect: Dialect, ranked_by: list[exp.Expr]) -> exp.Select:
    """v: values in the cell, 0 for the missing ones, which no cell has; m: in the group; c: up to the cell."""
    value = exp.case().when(exp.column(CELL).is_(exp.null()), whole(0)).else_(exp.column("n"))
    own = [exp.column("u"), *map(exp.column, groups)]
    whole_group = exp.Window(this=dialect.summed(value.copy()), partition_by=[part.copy() for part in own])
    rising = exp.Window(
        this=dialect.summed(value.copy()),
        partition_by=own,
        order=exp.Order(expressions=[exp.Ordered(this=exp.column(CELL))]),
        spec=exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"),
    )
    columns = [exp.alias_(value, "v"), exp.alias_(whole_group, "m"), exp.alias_(rising, "c")]
    columns.append(exp.alias_(ranked_by[0].copy(), "h"))
    if stage.groups_per_unit is not None:
        place = exp.Window(
            this=exp.func("dense_rank"),
            partition_by=[exp.column("u")],
            order=ranking(ranked_by, exp.column("b_all") if stage.rows_per_group > 1 else None),
        )
        columns.append(exp.alias_(place, "place"))
    return exp.select(exp.Star(), *columns)


def _started(stage: Stage, dialect: Dialect) -> exp.Select:
    """o: the hash modulo m, where it is needed; a signed hash is brought up to 0."""
    number, hashed = exp.column("m"), exp.column("h")
    rest = hashed.copy() - exp.paren(dialect.weighted(hashed.copy(), whole(1), number.copy())) * number.copy()
    start = exp.case().when(number.copy() > whole(_cap(stage)), rest).else_(whole(0))
    return exp.select(exp.Star(), exp.alias_(start, "r")).from_(part_named("spread"))


def _cap(stage: Stage) -> int:
    return min(stage.rows_per_group, _MOST_ROWS)


def _counted(stage: Stage, dialect: Dialect) -> exp.Expr:
    """floor((c C + o) / m) less the same of what lies before the cell."""
    cap, number, up_to, rest = _cap(stage), exp.column("m"), exp.column("c"), exp.column("r")
    start = exp.paren(exp.case().when(rest.copy() < whole(0), rest.copy() + number.copy()).else_(rest.copy()))
    before = exp.paren(up_to.copy() - exp.column("v"))
    part = [
        dialect.weighted(exp.paren(exp.Mul(this=place, expression=whole(cap)) + start.copy()), whole(1), number.copy())
        for place in (up_to, before)
    ]
    spread = exp.paren(part[0]) - exp.paren(part[1])
    return exp.case().when(number.copy() > whole(cap), spread).else_(exp.column("v"))
