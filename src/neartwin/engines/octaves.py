"""How much units contribute, as one statement: the table of `neartwin.queries.tuning`, from the rows of `units`.

```
counted  the same with k, the number of groups of the unit
spread   one row a (unit, cell): floor(1024 c / k) for its c groups with so many rows
         parts by cell
```
"""

from collections.abc import Sequence

from sqlglot import exp

from neartwin.engines.dialect import POSITION, Dialect, whole
from neartwin.queries.stage import Stage

PARTS = 1024  # of a unit


def parts_of(query: exp.Select, stage: Stage, dialect: Dialect) -> exp.Select:
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
