"""Bounds on a unit's contributions beyond the caps of `statement`: norms, thinned rows, and sizes of contributions.

**A norm** of `neartwin.planning.stage`, from one row a (unit, group), equal on all engines to the last bit:

```
lengths  and w, F^2 times the sum of squares over the unit's groups
guessed  and about the root of w, from doubles, if w exceeds the limit's square
nearer   and one Newton step of it in whole numbers: the root of w rounded down, or 1 more
rooted   the least r with r^2 >= w
```
Newton's step never ends below the root of w rounded down, whatever the guess. The statement always tries 1 more. So r^2
>= w holds however an engine rounds doubles.

**Thinned rows.** If a unit is in far more than its K groups, most of them are counted and sorted only to be dropped. If
all groups count alike, the first K by a hash are kept. The hashes then say beforehand which rows to leave out:

```
whole    rows of units, as `kept` is otherwise
hashed   and a bit for the place of the group's hash: one of 60, in the order of the hashes
seen     each unit's places that have a group: one pass, by unit alone
kept     rows with fewer than K places of their unit before their own
```
Places rise with the hash, and groups of different places are different groups. K other groups come before a row with K
places before its own. So no row of a kept group is left out, and the answer is the same to the last bit.

A place is 60 times the fourth root of the hash over its range, rounded down. That is monotone as doubles are rounded.
It is fine enough around the K-th hash of a unit in a hundred groups, and of one in ten thousand. It costs a pass over
the rows. So the engine thins only if the first rows show that groups are many: see `alike`.

**The contribution sizes** of a stage with `sizes`:

```
counted  one row a (unit, group): its number of rows, for rows in all groups one row a unit
placed   and the place of the group in order of rows, for what a limit of groups takes
sized    one row a unit: its size
         units by cell
```
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor

from sqlglot import exp

from neartwin.engines.sql.dialect import (
    POSITION,
    Dialect,
    Parts,
    as_bigint,
    as_double,
    grouped,
    integer,
    least,
    named,
    part_named,
    real,
    selected,
    windowed,
    with_parts,
)
from neartwin.planning.stage import FINE, ContributionSizes, Stage
from neartwin.tables.types import ColumnType


def roots(source: str, norm: Fraction, names: Sequence[str], dialect: Dialect) -> Parts:
    """The parts that end in `rooted`: the source and for each w a k, the least whole number with k^2 >= w.

    k is NULL for a w within the norm.

    Args:
        source: The part with F^2 times squared lengths.
        norm: L.
        names: The names of the w and of their k, by pairs: "w" and "k" with the same ending.
        dialect: The engine's spelling.

    Returns:
        The parts, by name.
    """
    found: Parts = {}
    steps = (("guessed", "r", _guess), ("nearer", "q", _newton), ("rooted", "k", _rounded_up))
    for part, letter, step in steps:
        columns = []
        for end in names:
            beyond = exp.column(f"w{end}") > integer(FINE**2 * floor(norm**2))
            columns.append(named(exp.case().when(beyond, step(end, dialect)).else_(exp.null()), f"{letter}{end}"))
        found[part] = selected(source, exp.Star(), *columns)
        source = part
    return found


def over_units(source: str, sums: Mapping[str, exp.Expr], dialect: Dialect, norm: Fraction | None = None) -> Parts:
    """The parts that end in the source with sums over all rows of a unit, or with the roots of sums of squares.

    An engine that computes the source once joins it with one row a unit. Any other has windows, which take twice the
    time, but would weigh rows right if they were read twice and had changed.

    Args:
        source: The part, which must be computed once where the engine can.
        sums: The aggregates, by the name of their column.
        dialect: The engine's spelling.
        norm: L, beyond which a column k has the root of each sum w; None for the sums.

    Returns:
        The parts, by name.
    """
    columns = []
    for name, value in sums.items():
        over = value if dialect.reads_once else windowed(value, "u")
        columns.append(named(over if norm is None else over * integer(FINE**2), name))
    if dialect.reads_once:
        found = {"summed": grouped(selected(source, "u", *columns), "u")}
    else:
        found = {"summed": selected(source, exp.Star(), *columns)}
    if norm is not None:
        found |= roots("summed", norm, [name[1:] for name in sums], dialect)
    if dialect.reads_once:
        last = next(reversed(found))
        added = [exp.column(name if norm is None else f"k{name[1:]}", table=last) for name in sums]
        same = exp.EQ(this=exp.column("u", table=source), expression=exp.column("u", table=last))
        every = exp.Column(this=exp.Star(), table=exp.to_identifier(source))
        found["joined"] = selected(source, every, *added).join(part_named(last), on=same, copy=False)
    return found


def _guess(end: str, dialect: Dialect) -> exp.Expr:  # noqa: ARG001 - one of three
    return as_bigint(least(exp.Ceil(this=exp.Sqrt(this=as_double(exp.column(f"w{end}")))), real(2.0**62)))


def _newton(end: str, dialect: Dialect) -> exp.Expr:
    """(r + w / r) / 2, both quotients rounded down."""
    guess, quotient = exp.column(f"r{end}"), dialect.weighted(exp.column(f"w{end}"), integer(1), exp.column(f"r{end}"))
    return dialect.weighted(exp.paren(dialect.wide(guess) + quotient), integer(1), integer(2))


def _rounded_up(end: str, dialect: Dialect) -> exp.Expr:  # noqa: ARG001 - one of three
    q, w = exp.column(f"q{end}"), exp.column(f"w{end}")
    below = exp.paren(q - integer(1))
    case = exp.case().when(below.copy() * below.copy() >= w, below.copy())
    return case.when(q.copy() * q.copy() >= w.copy(), q.copy()).else_(q + integer(1))


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
    less = dialect.weighted(dialect.wide(value.copy()), integer(floor(FINE * norm)), k, parts)
    return exp.case().when(k.is_(exp.null()), in_parts(value, parts, dialect)).else_(less)


def in_parts(value: exp.Expr, parts: int, dialect: Dialect) -> exp.Expr:
    """A total in parts.

    Args:
        value: The total.
        parts: The parts of a step.
        dialect: The engine's spelling.

    Returns:
        The expression.
    """
    return value if parts == 1 else dialect.wide(value) * integer(parts)


_PLACES = 60  # bits of a whole number of at least 0
_MOST_GROUPS = 20  # the largest K; above it, too many places are needed
_SAMPLED_ROWS = 100_000
_LEAST_PAIRS = 1000  # pairs of rows of one unit that decide anything
_TIMES = 3  # thinning pays from this many times K groups of a unit


def can_thin(stage: Stage) -> bool:
    """Whether the first groups by hash are kept, and units have one spelling. A text's collation may know several spellings."""
    return (
        stage.groups_per_unit is not None
        and stage.groups_per_unit <= _MOST_GROUPS
        and stage.rows_per_group == 1
        and stage.capped
        and isinstance(stage.table.unit, str)
        and stage.table.unit_kind is not ColumnType.TEXT
        and stage.split is None
        and stage.sizes is None
    )


def thinned(rows: exp.Select, hashed: exp.Expr, groups: int) -> Parts:
    """The parts of thinned rows, which end in `kept`.

    Args:
        rows: The rows of `kept` without thinning.
        hashed: The hash of unit and group.
        groups: K.

    Returns:
        The parts, by name.
    """
    over = exp.Div(this=as_double(hashed), expression=real(2.0**64), typed=True)
    root = exp.Floor(this=exp.Sqrt(this=exp.Sqrt(this=over)) * real(float(_PLACES)))
    place = as_bigint(least(root, real(float(_PLACES - 1))))
    bit = named(exp.BitwiseLeftShift(this=as_bigint(integer(1)), expression=place), "s")
    seen = selected("hashed", "u", named(exp.func("bit_or", exp.column("s")), "m"))
    few = exp.select(exp.Star()).from_(_counted().subquery()).where(exp.column("before") < integer(groups))
    return {
        "whole": rows,
        "hashed": selected("whole", exp.Star(), bit),
        "seen": grouped(seen, "u"),
        "kept": few,
    }


def _counted() -> exp.Select:
    """Rows of `hashed`, each with how many places of its unit come before its own.

    The random number is of no row, since every s is above 0: it keeps DuckDB from moving the condition on `before` into the
    join, which then finds units of a small range of whole numbers in an array.
    """
    places = exp.BitwiseAnd(this=exp.column("m"), expression=exp.paren(exp.column("s") - integer(1)))
    number = exp.Anonymous(this="bit_count", expressions=[places])
    counted = exp.case().when(exp.column("s") > integer(0), number).else_(exp.Anonymous(this="random"))
    same = exp.EQ(this=exp.column("u", table="hashed"), expression=exp.column("u", table="seen"))
    columns = exp.Column(this=exp.Star(), table=exp.to_identifier("hashed"))
    return selected("hashed", columns, named(counted, "before")).join(part_named("seen"), on=same)


def alike(parts: Parts, groups: list[str]) -> exp.Select:
    """The statement with two counts over the first rows of `kept`: pairs of one unit, and pairs of one group among them.

    Args:
        parts: The parts up to `kept`.
        groups: The group columns.

    Returns:
        The statement.
    """
    squares = [exp.Sum(this=exp.column("n")), exp.Sum(this=exp.column("n") * exp.column("n"))]
    of_unit = selected("each", *map(named, squares, "rq"))
    more = {
        "some": selected("kept", "u", *groups).limit(_SAMPLED_ROWS),
        "each": grouped(selected("some", "u", named(exp.Count(this=exp.Star()), "n")), "u", *groups),
        "own": grouped(of_unit, "u"),
    }
    rows = exp.column("r")
    pairs = [exp.Sum(this=rows * rows - rows), exp.Sum(this=exp.column("q") - rows.copy())]
    return with_parts(selected("own", *pairs), parts | more)


def are_many(pairs: int, same: int, groups: int) -> bool:
    """Whether two rows of a unit are seldom in one group: in fewer than one of 3 K pairs.

    Args:
        pairs: Pairs of rows of one unit.
        same: Pairs that are also in one group.
        groups: K.

    Returns:
        True or False.
    """
    return pairs >= _LEAST_PAIRS and pairs > _TIMES * groups * same


def contribution_sizes(
    parts: Parts, stage: Stage, sizes: ContributionSizes, by: list[str], dialect: Dialect
) -> exp.Select:
    """The statement of the number of units by size. Its columns are the cell's position, and m0.

    Args:
        parts: The parts up to `kept`.
        stage: The stage.
        sizes: The cells.
        by: The columns by which a unit's rows are counted.
        dialect: The engine's spelling.

    Returns:
        The statement.
    """
    number = exp.Count(this=exp.Star()) if sizes.power or not sizes.lost else exp.Max(this=integer(1))
    more = {"counted": grouped(selected("kept", "u", *by, named(number, "n")), "u", *by)}
    more |= _lost(stage, dialect) if sizes.lost else _sized(sizes.power, dialect)
    more["celled"] = selected("sized", named(_cell(exp.column("w"), sizes.edges), POSITION))
    units = named(exp.Count(this=exp.Star()), "m0")
    return with_parts(grouped(selected("celled", POSITION, units), POSITION), parts | more)


def _sized(power: int, dialect: Dialect) -> Parts:
    rows = dialect.wide(exp.column("n"))
    size = exp.Count(this=exp.Star()) if power == 0 else exp.Sum(this=rows if power == 1 else rows * rows.copy())
    return {"sized": grouped(selected("counted", "u", named(size, "w")), "u")}


def _lost(stage: Stage, dialect: Dialect) -> Parts:
    """The parts from `counted` to `sized`: 1 more than a unit's rows beyond those for which it counts, rounded up."""
    every = dialect.summed(exp.column("n"))
    found: Parts = {}
    if stage.norm is not None:
        rows = dialect.wide(exp.column("n"))
        squared = named(exp.Sum(this=rows * rows.copy()) * integer(FINE**2), "w")
        found = {"squared": grouped(selected("counted", "u", named(every, "n"), squared), "u")}
        found |= roots("squared", stage.norm, [""], dialect)
        less = rows - dialect.weighted(rows.copy(), integer(floor(FINE * stage.norm)), exp.column("k"))
        lost = exp.case().when(exp.column("k").is_(exp.null()), integer(0)).else_(less)
        return {**found, "sized": selected("rooted", "u", named(lost + integer(1), "w"))}
    source = "counted"
    counted: exp.Expr = exp.column("n")
    if stage.capped:
        counted = least(counted, integer(stage.rows_per_group))
    if stage.groups_per_unit is not None:
        order = exp.Order(expressions=[exp.Ordered(this=exp.column("n"), desc=True)])
        place = named(windowed(exp.RowNumber(), "u", order=order), "place")
        source, found = "placed", {"placed": selected("counted", exp.Star(), place)}
        counted = exp.case().when(exp.column("place") <= integer(stage.groups_per_unit), counted).else_(integer(0))
    kept = dialect.summed(counted)
    if stage.rows_per_unit is not None:
        kept = least(kept, dialect.wide(integer(stage.rows_per_unit)))
    return {**found, "sized": grouped(selected(source, "u", named(every - kept + integer(1), "w")), "u")}


def _cell(value: exp.Expr, edges: Sequence[int]) -> exp.Expr:
    """The place of the last edge that is not above the value."""
    if len(edges) == 1:
        return integer(0)
    cells = [  # all at once: `when` copies those before
        exp.If(this=exp.LT(this=value.copy(), expression=integer(beyond)), true=integer(place))
        for place, beyond in enumerate(edges[1:])
    ]
    return exp.paren(exp.Case(ifs=cells, default=integer(len(edges) - 1)), copy=False)
