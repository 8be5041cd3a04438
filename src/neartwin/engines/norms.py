"""The L2 norm clip of `neartwin.queries.norm` as SQL, from one row a (unit, group); equal on all engines to the last bit.

```
measured  each measure's entry and its length, rounded up
normed    the same with w, the sum of squared lengths over the unit's groups
guessed   the same with about the root of w, from doubles, where w is beyond the limit's square
nearer    one Newton step of it in whole numbers: the root of w rounded down, or 1 more
rooted    the least r with r^2 >= w
clipped   entries in parts, multiplied by limit / r and truncated toward zero where w is beyond
```
Newton's step never ends below the root of w rounded down, whatever was guessed, and 1 more is always tried: so r^2 >= w
holds however an engine rounds doubles.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from neartwin.engines.dialect import Dialect, alias_of, as_double, least, part_named, real, whole
from neartwin.queries.norm import Coordinate, NormClip


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
