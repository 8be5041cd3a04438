"""What an engine is asked: one stage, which is one statement. It names columns, bounds and caps, and no noise.

The engine returns, for each group, whole numbers by measure name:
  "units"          distinct units that are kept in the group
  "finders"        the same, of units that have the group among the first `discovery_groups` of their kept ones
  "rows"           sum over kept units of min(rows of the unit in the group, C)
  "filled:NAME"    the same, of rows whose column value is neither NULL nor NaN
  "total:NAME"     sum over kept units of their clipped grid values, weighted down to C rows where a unit has more
NAME is that of a grid column, or of a moment, whose values are products.
A unit with m > C values in a group counts as C values of its own mean: its total is multiplied by C/m and truncated toward
zero. Count and total thus come from the same weighted rows, and no row is chosen above another. With `rows_per_unit` T, a unit
that counts for w > T rows over its kept groups has its rows, filled rows and totals in each of them multiplied by T/w and
truncated toward zero.
With a `clip`, each unit's measures over all its groups, "finders" apart, are one vector that is made no longer than a limit, and
whole numbers are of parts of a step: see `neartwin.queries.norm`.
A stage with `octaves` is answered by 1024 parts for each unit instead, spread over the cells of a table by how many groups it is
in and how many rows it has in each: floor(1024 c / k) parts for c of its k groups, in the measure "parts".

A stage with a `split` is answered by whole numbers for each group and cell instead: values by the grid point that they are
rounded to, each of them P = `parts` parts. A unit with m > C values in a group counts for C of them: each of its values for
floor(C P / m) parts. With a `cell_clip` its values in all groups together are weighted instead: see
`neartwin.queries.norm_cells`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from neartwin.queries.expression import RowExpression
from neartwin.queries.keys import Key
from neartwin.queries.norm import NormClip
from neartwin.queries.norm_cells import CellClip
from neartwin.queries.table import Bounds, Table


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column clipped to its bounds and rounded to its grid, in whole steps less `centre` (whole steps too).

    expression: what is computed in place of a column; then `column` is its text.
    """

    name: str
    column: str
    bounds: Bounds
    centre: int
    fill: int | None  # stands for NULL and NaN, in steps less centre; None leaves such values out
    expression: RowExpression | None = None

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the source that it reads."""
        return frozenset({self.column}) if self.expression is None else self.expression.columns

    @property
    def written(self) -> str:
        """The column's name, or the one spelling of the expression."""
        return self.column if self.expression is None else str(self.expression.term)

    @property
    def low(self) -> int:
        """Least value that a row can add."""
        return self.bounds.low_units - self.centre

    @property
    def high(self) -> int:
        """Largest value that a row can add."""
        return self.bounds.high_units - self.centre


@dataclass(frozen=True, slots=True)
class Moment:
    """A grid column, or the product of two (or one with itself), less `centre`, in rows where all of `present` have a value.

    low, high: the least and largest that a row can add.
    """

    name: str
    factors: tuple[GridColumn, ...]
    present: tuple[GridColumn, ...]
    low: int
    high: int
    centre: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One statement's worth of question.

    keys: the public groups, None for every group that has a row. rows_per_group: C, the most rows that one unit counts
    for in one group. groups_per_unit: the most groups that one unit is kept in: those in which it counts for most rows, and where
    it counts alike those first in a salted hash of the unit and the group; None where no unit can be in more groups than there
    may be. octaves: where each begins, in groups and rows. split: the one grid column by whose cells rows are counted. parts: of
    a row, in which those are. moments: over the columns of the grid. clip: of all measures but "finders" together.
    cell_clip: of the counts by cell of a split, in place of the caps.
    """

    table: Table
    conditions: tuple[RowExpression, ...]
    group_columns: tuple[str, ...]
    keys: tuple[Key, ...] | None
    grid: Mapping[str, GridColumn]
    measures: tuple[str, ...]
    rows_per_group: int
    groups_per_unit: int | None
    rows_per_unit: int | None = None
    discovery_groups: int | None = None  # then only groups with a finder are answered
    octaves: tuple[int, ...] = ()
    split: str | None = None
    parts: int = 1
    moments: Mapping[str, Moment] = field(default_factory=dict)
    clip: NormClip | None = None
    cell_clip: CellClip | None = None
