"""The statement that counts a group's rows by the cell of one value: for histograms and quantiles.

```
kept     as in `sql`, with the cell as x0
cells    one row a (unit, group, cell): its number of rows
sizes    and the group's number of rows
placed   and the group's place among the unit's, if a unit may be in too many
joined   and the root of the unit's length in rows, if a norm is bounded, or its rows over its kept groups, if there is a T
weighed  and the weight of the cell's values
         sums by group and cell
```
A unit's values count for P parts each, or for fewer by the one weight of `neartwin.planning.stage`. So all values weigh
alike, and none is chosen above another.

Rows are read once: counted by unit, group and cell, with sizes by windows over that.
"""

from sqlglot import exp

from neartwin.engines.sql import dialect as sql
from neartwin.engines.sql.bounding import over_units, weighed_by_norm
from neartwin.engines.sql.dialect import Dialect, Parts
from neartwin.planning.stage import MOST_GROUPS, Stage

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
        counted = sql.selected("kept", *groups, sql.named(cell, CELL), sql.named(exp.Count(this=exp.Star()), "m0"))
        return sql.with_parts(sql.grouped(counted.where(_present("x0")), *groups, CELL), parts)
    # A group's rows squared are the sum, over its cells, of a cell's rows times the group's. Of the rows that a group counts
    # for each of its cells has all, so one of them speaks for it.
    sizes = [exp.Star(), sql.named(sql.windowed(dialect.summed(exp.column("c")), "u", *groups), "n")]
    if stage.rows_per_unit is not None:
        order = exp.Order(expressions=[exp.Ordered(this=exp.column(CELL))])
        sizes.append(sql.named(sql.windowed(exp.RowNumber(), "u", *groups, order=order), "turn"))
    counted = sql.selected(
        "kept", "u", *groups, sql.named(exp.column("x0"), CELL), sql.named(exp.Count(this=exp.Star()), "c")
    )
    parts = {**parts, "cells": sql.grouped(counted, "u", *groups, "x0"), "sizes": sql.selected("cells", *sizes)}
    if stage.groups_per_unit is not None:  # all cells of a group have one place
        parts |= placed(stage, ranked_by, "sizes", exp.func("dense_rank"), dialect)
    if stage.norm is not None:
        square = dialect.wide(exp.column("c") * exp.column("n"))
        parts = over_units(parts, {"w": exp.Sum(this=square)}, dialect, {"": stage.norm})
    once = sql.either(exp.column("turn").eq(sql.integer(1)), _counted_rows(stage), sql.integer(0))
    if stage.rows_per_unit is not None:  # the rows that a unit counts for in all are bounded
        parts = over_units(parts, {"t": dialect.summed(once)}, dialect)
    weight = exp.column("c") * _weight(stage, dialect)
    weighed = sql.selected(next(reversed(parts)), *groups, CELL, sql.named(weight, "w"))
    parts["weighed"] = weighed.where(_present(CELL), copy=False)
    total = sql.named(dialect.summed(exp.column("w")), "m0")
    return sql.with_parts(sql.grouped(sql.selected("weighed", *groups, CELL, total), *groups, CELL), parts)


def units_of_cells(parts: Parts, stage: Stage, groups: list[str]) -> exp.Select:
    """The statement with a row for each group, cell and unit. Its columns are the group, the cell, then m0: the unit.

    Args:
        parts: The parts up to `kept`.
        stage: The stage.
        groups: The group columns.

    Returns:
        The statement.
    """
    unit = "u" if isinstance(stage.table.unit, str) else "x0"  # rows that have one value need not be told apart
    columns = sql.named(exp.column("x0"), CELL), sql.named(exp.column(unit), "m0")
    return sql.with_parts(sql.selected("kept", *groups, *columns).where(_present("x0"), copy=False).distinct(), parts)


def _present(column: str) -> exp.Expr:
    return exp.column(column).is_(exp.null()).not_()


def placed(stage: Stage, ranked_by: list[exp.Expr], source: str, place: exp.Expr, dialect: Dialect) -> Parts:
    """The source with the place of each group among its unit's; the first groups alone, where it may be in too many.

    Groups with most of a unit's rows come first, so that the fewest are lost. Where a few groups are told from all others, their
    places are 1. They have more rows than the first group after them, less the hash as a fraction. Ties with that one are out.

    Args:
        stage: The stage.
        ranked_by: The order among equals, a hash first.
        source: The part with the number n of a unit's rows in a group.
        place: The window function.
        dialect: The engine's spelling.

    Returns:
        The parts, by name.
    """
    few, every = stage.discovery_groups or 0, (stage.groups_per_unit or MOST_GROUPS) >= MOST_GROUPS
    if every and 0 < few < dialect.keeps and isinstance(place, exp.RowNumber):
        number = sql.as_double(_counted_rows(stage)) - sql.as_double(ranked_by[0]) / exp.Literal.number(2.0**64)
        nth, after = exp.column("nth"), sql.integer(few + 1)
        beyond = exp.func("list_extract", sql.windowed(exp.func("max", nth, after), "u"), after.copy())
        told = sql.named(
            sql.either(nth.copy() <= beyond, after.copy(), sql.integer(1)), "place"
        )  # 1 where there is none beyond
        return {
            "keyed": sql.selected(source, exp.Star(), sql.named(number, "nth")),
            "ranked": sql.selected("keyed", exp.Star(), told),
        }
    alike = stage.capped and stage.rows_per_group == 1
    rows = [] if alike else [exp.Ordered(this=_counted_rows(stage), desc=True)]
    order = exp.Order(expressions=[*rows, *(exp.Ordered(this=item) for item in ranked_by)])
    found = {"ranked": sql.selected(source, exp.Star(), sql.named(sql.windowed(place, "u", order=order), "place"))}
    if not every:
        within = exp.column("place") <= sql.integer(stage.groups_per_unit or MOST_GROUPS)
        found["placed"] = sql.selected("ranked").where(within, copy=False)
    return found


def _counted_rows(stage: Stage) -> exp.Expr:
    """For how many of its n rows a unit counts in a group before T."""
    rows = exp.column("n")
    return sql.least(rows, sql.integer(_cap(stage))) if stage.capped else rows


def _cap(stage: Stage) -> int:
    return min(stage.rows_per_group, _MOST_ROWS)


def _weight(stage: Stage, dialect: Dialect) -> exp.Expr:
    """The parts of each value of a unit in a group."""
    parts = sql.integer(stage.split_parts)
    if stage.norm is not None:
        return sql.as_bigint(
            weighed_by_norm(sql.as_bigint(sql.integer(1)), stage.split_parts, stage.norm, "k", dialect)
        )
    found: exp.Expr = parts
    if stage.capped:
        rows, cap = exp.column("n"), _cap(stage)
        share = dialect.weighted(dialect.wide(sql.integer(cap * stage.split_parts)), sql.integer(1), rows.copy())
        found = sql.either(rows > sql.integer(cap), share, parts)
    if stage.rows_per_unit is not None:
        most, total = sql.integer(stage.rows_per_unit), exp.column("t")
        share = dialect.weighted(dialect.wide(found.copy()), most.copy(), total.copy())
        found = sql.either(total > most, share, found)
    return sql.as_bigint(found)
