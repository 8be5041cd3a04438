"""One stage: the exact question for an engine, which is one statement, and its answer. A stage names no noise.

The engine returns, for each group, whole numbers by measure name:

- "units": distinct units that are kept in the group; "units:NAME": those with a row whose column value is not NULL.
- "finders": those of these units that have the group among the first `discovery_groups` of their kept ones.
- "rows": the sum over kept units of the weights of their rows in the group.
- "filled:NAME": the same for rows whose column value is neither NULL nor NaN; "empty:NAME": for all others.
- "total:NAME": the sum of weight times grid value; "short:NAME": of weight times the largest value less this one.

NAME is a grid column, or a moment, whose values are products. A stage with a `split` is answered for each group and cell
instead. The whole numbers are then the weights of the values that are rounded to a grid point.

A stage with `sizes` is answered by a histogram instead: the number of units by the size of their contribution. A unit is
in exactly one cell, so adding it moves one count by 1, and replacing it moves a unit between two cells. The measure is "units",
and the keys are the edges.

**One weight.** All rows of a unit in a group weigh the same in everything that a question asks. Let n_g be the number of
the unit's rows in group g: after the conditions, before any NULL or CASE. Then a row weighs

    min(1, C / n_g) min(1, T / W),   C `rows_per_group`, T `rows_per_unit` and W the sum of min(n_g, C) over kept groups, or
    min(1, L / |n|),   |n| the Euclidean length of n over all groups and L the `norm`; of margins, over the coarsest groups.

A C of at least T bounds nothing more, and is left out of both: then all rows of the unit weigh min(1, T / W), W their number.
Under a norm a unit counts min(1, K / root of its number of groups) among distinct units, K the `units_norm`.

**Whole numbers.** A measure is counted in S = `parts` of a step. A unit adds floor(S C |t| / n) with the sign of t, for its
total t in the group. That is multiplied by T / W, each time truncated toward zero, or t by S T / W or S floor(F L) / R alone.
R is the least whole number with R^2 >= F^2 |n|^2, and F = 2^26, so that rounding R up loses little. Each value of a split
weighs the same number of parts, which is truncated once. So a unit never counts for more than its limit, and by less than two
parts for less. docs/proofs/one-weight.md has the sensitivities.

Every number fits the engines' 126 bits for units of up to 2^29 rows. `parts_within` keeps S times the contribution of a
unit below 2^45 where S is above 1, so S F L |t| is below 2^100. F^2 |n|^2 is below 2^110.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers
from neartwin.tables.expressions import RowExpression
from neartwin.tables.grid import GridColumn, Moment
from neartwin.tables.table import Table
from neartwin.tables.types import Key

MOST_ROWS = 2**24  # the most rows of a unit in a group that order its groups under a norm
LARGEST = 2**20  # norm, in rows
MOST_GROUPS = 2**50  # of a unit: noise for more is too wide for its grid, and no table has so many rows
SALT_BITS = 64  # fresh random bits a release
FINE = 2**26  # F


@dataclass(frozen=True, slots=True)
class ContributionSizes:
    """The cells of a histogram of units by the size of their contribution.

    Let n_g be the number of rows of a unit in group g. The unit's size is the sum of n_g^p over its groups. That is its
    number of groups for p = 0, its rows for p = 1, and its squared length for p = 2. Rows count after the conditions, in
    the public keys. Groups of a stage with `length_by` are counted together by it.

    Attributes:
        edges: Increasing whole numbers. The first is 1, so that every unit with a row is in one cell. Cell i holds sizes
            from `edges[i]` to below `edges[i + 1]`; the last cell has no end. Without edges each size that occurs is a cell.
        power: p.
        lost: Whether a size is 1 more than the loss of a unit to the stage's limits, rounded up. The loss is of rows for
            p = 1, of groups for p = 0. So the units in the first cell lose nothing.
        of: Columns of the grid, whole numbers from 0 on. A size is then 1 more than their total over the unit's rows. None
            for rows or groups.
    """

    edges: tuple[int, ...]
    power: int
    lost: bool = False
    of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.edges[:1] not in {(), (1,)} or any(low >= high for low, high in pairwise(self.edges)):
            raise ParameterError("edges", self.edges, "must increase from 1 on")
        if self.power not in {0, 1, 2}:
            raise ParameterError("power", self.power, "must be 0 for groups, 1 for rows or 2 for squared lengths")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The exact question of one statement.

    Attributes:
        table: The table.
        conditions: The conditions on rows.
        group_columns: The group columns.
        keys: The public groups; None for every group that has a row.
        grid: The summed columns, by name.
        measures: The measures.
        rows_per_group: C, the most rows of one unit in one group.
        groups_per_unit: The most groups of one unit: those with most of its rows, and among equals the first in a
            salted hash of unit and group. None if no unit can be in more groups than there are.
        rows_per_unit: T, the most rows of one unit in all groups; None for no limit.
        discovery_groups: The groups of a unit that count as "finders"; None for all.
        sizes: The cells of the histogram of units by size, or None.
        split: The grid column by whose cells rows are counted, or None.
        by_unit: Whether cells are hashed values, answered with each unit that has them, and bounded later.
        parts: Parts of a step by measure, or of a row by the split; 1 where it is not named.
        moments: The moments over the columns of the grid.
        norm: L, the length of a unit's vector of rows by group, in place of the caps.
        units_norm: K, the length of its groups among distinct units; None where no unit's is longer.
        length_by: The places of the group columns by which public groups are counted together for that length; None for all.
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
    discovery_groups: int | None = None  # if given, only groups with a finder are answered
    sizes: ContributionSizes | None = None
    split: str | None = None
    by_unit: bool = False
    parts: Mapping[str, int] = field(default_factory=dict)
    moments: Mapping[str, Moment] = field(default_factory=dict)
    norm: Fraction | None = None
    units_norm: Fraction | None = None
    length_by: tuple[int, ...] | None = None

    @property
    def capped(self) -> bool:
        """Whether C bounds more than T does."""
        return self.rows_per_unit is None or self.rows_per_group < self.rows_per_unit

    def counting_units(self, sizes: ContributionSizes) -> "Stage":
        """The stage that answers a histogram of units within the same limits, and no other measure.

        Args:
            sizes: The cells.

        Returns:
            The stage.
        """
        return replace(self, sizes=sizes, measures=("units",), discovery_groups=None, parts={}, grid={}, moments={})

    @property
    def split_parts(self) -> int:
        """Parts of a row, for a split."""
        return self.parts.get(self.split or "", 1)


@dataclass(frozen=True, slots=True)
class Cells:
    """Exact nonzero counts by group and cell: three int64 columns of one length.

    Attributes:
        group: The position of the group in the keys.
        cell: The cell, in whole steps from the lowest, from 0.
        count: The exact count; of a stage `by_unit` a number of the unit, different for different ones.
    """

    group: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Exact answers. They are private, and must not outlive the function that adds noise to them.

    Attributes:
        groups: The number of groups. Public keys come in their order, empty groups included. Discovered groups are
            those with a kept unit, in an order that must not be shown.
        keys: The group columns, one row a group.
        values: (groups,) whole numbers by measure name: int64, or Python integers if that is too small.
        cells: The counts of a stage with a split, which has no values.
    """

    groups: int
    keys: Sequence[Key]
    values: Mapping[str, WholeNumbers]
    cells: Cells | None = None


class Engine(Protocol):
    """The interface of an engine, which runs stages. Implementations are final and hold no state of a stage."""

    def aggregate(self, stage: Stage, *, salt: int) -> Aggregates:
        """Answer a stage exactly.

        Args:
            stage: The question, without noise.
            salt: `SALT_BITS` fresh secret bits. They order the groups of a unit, and stay out of logs and text.

        Returns:
            Exact whole numbers by group.
        """
        ...


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The engine of a question that counts rows in one group: all its answers follow from the units by their number of rows.

    A unit with n rows counts for min(S n, floor(S limit)) parts. The limit is the least of C and T, or floor(F L) / F under a
    norm: the root of F^2 n^2 is F n, so R is F n.

    Attributes:
        engine: The engine that counted the units, and answers any other stage.
        stage: The stage that it answered.
        units: The number of units by their number of rows.
    """

    engine: Engine
    stage: Stage
    units: Mapping[int, int]

    @classmethod
    def of(cls, stages: Sequence[Stage], engine: Engine) -> Engine:
        """Count the units once for some stages; the engine itself if they need more, or are fewer than two.

        Args:
            stages: The stages of a question, before its limits are chosen.
            engine: The engine.
        """
        counting = cls(engine, stages[0].counting_units(ContributionSizes((), 1)), {})
        if len(stages) < 2 or not all(map(counting._serves, stages)):
            return engine
        found = engine.aggregate(counting.stage, salt=0)
        sizes = (size for (size,) in cast("Sequence[tuple[int]]", found.keys))
        return replace(counting, units=dict(zip(sizes, found.values["units"].tolist(), strict=True)))

    def _serves(self, stage: Stage) -> bool:
        alone = stage.keys == ((),) and stage.split is None and isinstance(stage.table.unit, str)
        same = stage.table is self.stage.table and stage.conditions == self.stage.conditions
        rows = {"rows", "units"}.issuperset(stage.measures) and "units" not in stage.parts
        return alone and same and rows and not stage.grid and stage.discovery_groups is None

    def aggregate(self, stage: Stage, *, salt: int) -> Aggregates:
        """Answer a stage exactly, as `Engine.aggregate` does."""
        if not self._serves(stage):
            return self.engine.aggregate(stage, salt=salt)
        limit = Fraction(min(stage.rows_per_group, stage.rows_per_unit or stage.rows_per_group))
        if stage.norm is not None:
            limit = Fraction(floor(FINE * stage.norm), FINE)
        if (sizes := stage.sizes) is not None:
            counts = np.zeros(len(sizes.edges), np.int64)
            for n, units in self.units.items():
                size = n**sizes.power
                size = max(size - floor(limit), 0) + 1 if sizes.lost else size
                counts[bisect_right(sizes.edges, size) - 1] += units
            return Aggregates(len(counts), tuple((edge,) for edge in sizes.edges), {"units": counts})
        parts = stage.parts.get("rows", 1)
        total = sum(units * min(parts * n, floor(parts * limit)) for n, units in self.units.items())
        sums = {
            "rows": np.array([total], np.int64 if total < 2**63 else object),
            "units": np.array([sum(self.units.values())]),
        }
        return Aggregates(1, ((),), {measure: sums[measure] for measure in stage.measures})
