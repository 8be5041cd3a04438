"""Bounds on a unit's contributions beyond the caps of `statement`: norms, and sizes of contributions.

**A norm** of `neartwin.planning.stage`, from one row a (unit, group), equal on all engines to the last bit:

```
lengths  and w, F^2 times the sum of squares over the unit's groups
guessed  and about the root of w, from doubles, if w exceeds the limit's square
nearer   and one Newton step of it in whole numbers: the root of w rounded down, or 1 more
rooted   the least r with r^2 >= w
```
Newton's step never ends below the root of w rounded down, whatever the guess. The statement always tries 1 more. So r^2
>= w holds however an engine rounds doubles.

**The contribution sizes** of a stage with `sizes`:

```
counted  one row a (unit, group): its number of rows, for rows in all groups one row a unit
placed   and the place of the group in order of rows, for what a limit of groups takes
sized    one row a unit: its size
         units by cell
```
"""

from collections.abc import Mapping
from fractions import Fraction
from math import floor

from sqlglot import exp

from neartwin.engines.sql import dialect as sql
from neartwin.engines.sql.dialect import Dialect, Parts
from neartwin.planning.stage import FINE, MOST_GROUPS, ContributionSizes, Stage


def roots(source: str, norms: Mapping[str, Fraction], dialect: Dialect) -> Parts:
    """The parts that end in `rooted`: the source and for each w a k, the least whole number with k^2 >= w.

    r, q and k are NULL for a w within its norm.

    Args:
        source: The part with F^2 times squared lengths.
        norms: L, by the ending of the names of w and k.
        dialect: The engine's spelling.

    Returns:
        The parts, by name.
    """
    columns: dict[str, list[exp.Expr]] = {"guessed": [], "nearer": [], "rooted": []}
    for end, norm in norms.items():
        w, r, q = (exp.column(f"{letter}{end}") for letter in "wrq")
        beyond = w > sql.integer(FINE**2 * floor(norm**2))
        guess = sql.as_bigint(sql.least(exp.Ceil(this=exp.Sqrt(this=sql.as_double(w.copy()))), sql.real(2.0**62)))
        columns["guessed"].append(sql.named(sql.either(beyond, guess, exp.null()), r.name))
        # Newton's step: (r + w / r) / 2, both quotients rounded down
        newton = exp.paren(dialect.wide(r) + dialect.weighted(w.copy(), sql.integer(1), r.copy()))
        columns["nearer"].append(sql.named(dialect.weighted(newton, sql.integer(1), sql.integer(2)), q.name))
        below = exp.paren(q - sql.integer(1))
        case = exp.case().when(below.copy() * below.copy() >= w.copy(), below)
        case = case.when(q.copy() * q.copy() >= w.copy(), q.copy()).else_(q + sql.integer(1))
        columns["rooted"].append(sql.named(case, f"k{end}"))
    found: Parts = {}
    for part, added in columns.items():
        found[part] = sql.selected(source, exp.Star(), *added)
        source = part
    return found


def over_units(
    parts: Parts,
    sums: Mapping[str, exp.Expr],
    dialect: Dialect,
    norms: Mapping[str, Fraction] | None = None,
    units: exp.Select | None = None,
) -> Parts:
    """The parts, and more that end in the last with sums over all rows of a unit, or with the roots of sums of squares.

    An engine that computes the last part once joins it with one row a unit. Any other has windows, which take twice the
    time, but would weigh rows right if they were read twice and had changed.

    Args:
        parts: The parts.
        sums: The aggregates, by the name of their column.
        dialect: The engine's spelling.
        norms: L by the ending of w, beyond which a column k has the root of w; None for the sums.
        units: A select of the sums, one row a unit; None to add them up.

    Returns:
        The parts, by name.
    """
    source, columns = next(reversed(parts)), []
    for name, value in sums.items():
        over = value if dialect.reads_once else sql.windowed(value, "u")
        columns.append(sql.named(over if norms is None else over * sql.integer(FINE**2), name))
    if dialect.reads_once:
        parts[source].meta["once"] = units is None
        found = {"summed": units or sql.grouped(sql.selected(source, "u", *columns), "u")}
    else:
        found = {"summed": sql.selected(source, exp.Star(), *columns)}
    if norms is not None:
        found |= roots("summed", norms, dialect)
    if dialect.reads_once:
        last = next(reversed(found))
        added = [exp.column(name if norms is None else f"k{name[1:]}", table=last) for name in sums]
        same = exp.EQ(this=exp.column("u", table=source), expression=exp.column("u", table=last))
        every = exp.Column(this=exp.Star(), table=exp.to_identifier(source))
        found["joined"] = sql.selected(source, every, *added).join(sql.part_named(last), on=same, copy=False)
    return parts | found


def weighed_by_norm(value: exp.Expr, parts: int, norm: Fraction, root: str, dialect: Dialect) -> exp.Expr:
    """A total in parts, weighted down by the unit's length.

    Args:
        value: The total.
        parts: The parts of a step.
        norm: L.
        root: The column with the root of the length; NULL for one within L.
        dialect: The engine's spelling.

    Returns:
        The expression.
    """
    k = exp.column(root)
    less = dialect.weighted(dialect.wide(value.copy()), sql.integer(floor(FINE * norm)), k, parts)
    return sql.either(k.is_(exp.null()), in_parts(value, parts, dialect), less)


def in_parts(value: exp.Expr, parts: int, dialect: Dialect) -> exp.Expr:
    """A total in parts.

    Args:
        value: The total.
        parts: The parts of a step.
        dialect: The engine's spelling.

    Returns:
        The expression.
    """
    return value if parts == 1 else dialect.wide(value) * sql.integer(parts)


def contribution_sizes(
    parts: Parts, stage: Stage, sizes: ContributionSizes, by: list[str], dialect: Dialect
) -> exp.Select:
    """The statement of the number of units by size. Its columns are the cell's position, and m0.

    Args:
        parts: The parts up to `counted`, with numbers n and their squares nn.
        stage: The stage.
        sizes: The cells.
        by: The columns by which a unit's rows are counted.
        dialect: The engine's spelling.

    Returns:
        The statement.
    """
    number, square = exp.column("n"), exp.column("nn")
    total, unit = (dialect.summed, ["u"]) if by else (dialect.wide, [])  # without columns, a unit is one row already
    more: Parts
    if not sizes.lost:
        size: exp.Expr = square if sizes.power == 2 else number
        more = (
            {"sized": sql.grouped(sql.selected("counted", "u", sql.named(dialect.summed(size), "w")), *unit)}
            if by
            else {}
        )
    elif stage.norm is not None:
        sums = sql.named(total(number), "n"), sql.named(total(square) * sql.integer(FINE**2), "w")
        more = {
            "squared": sql.grouped(sql.selected("counted", "u", *sums), *unit),
            **roots("squared", {"": stage.norm}, dialect),
        }
        whole = dialect.wide(exp.column("n"))
        kept = dialect.weighted(whole.copy(), sql.integer(floor(FINE * stage.norm)), exp.column("k"))
        size = sql.either(exp.column("k").is_(exp.null()), sql.integer(1), whole - kept + sql.integer(1))
        more["sized"] = sql.selected("rooted", "u", sql.named(size, "w"))
    else:
        source, placed, most = "counted", dict[str, exp.Select](), stage.groups_per_unit or MOST_GROUPS
        counted = sql.least(number, sql.integer(stage.rows_per_group)) if stage.capped else number
        if most < MOST_GROUPS:  # else all groups of a unit are kept
            order = exp.Order(expressions=[exp.Ordered(this=exp.column("n"), desc=True)])
            place = sql.named(sql.windowed(exp.RowNumber(), "u", order=order), "place")
            source, placed = "placed", {"placed": sql.selected("counted", exp.Star(), place)}
            counted = sql.either(exp.column("place") <= sql.integer(most), counted, sql.integer(0))
        kept = total(counted)
        if stage.rows_per_unit is not None:
            kept = sql.least(kept, dialect.wide(sql.integer(stage.rows_per_unit)))
        size = sql.named(total(number) - kept + sql.integer(1), "w")
        more = {**placed, "sized": sql.grouped(sql.selected(source, "u", size), *unit)}
    units = sql.named(exp.Count(this=exp.Star()), "m0")
    source, cell = ("sized", exp.column("w")) if more else ("counted", size)
    if sizes.edges:  # the place of the last edge that is not above the size
        ends = enumerate(sizes.edges[1:])
        below = [
            exp.If(this=exp.LT(this=cell.copy(), expression=sql.integer(end)), true=sql.integer(at)) for at, end in ends
        ]
        last = sql.integer(len(below))
        cell = exp.paren(exp.Case(ifs=below, default=last), copy=False) if below else last
    return sql.with_parts(
        sql.grouped(sql.selected(source, sql.named(cell, sql.POSITION), units), sql.POSITION), parts | more
    )
