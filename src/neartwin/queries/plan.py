"""Plans: everything that a release will do and cost, decided from the schema and declared bounds alone."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from neartwin.accounting.targets import Target
from neartwin.mechanisms.choice import PermuteAndFlip
from neartwin.mechanisms.geometric import Geometric
from neartwin.mechanisms.threshold import UnitThreshold
from neartwin.queries.query import Aggregate, MostCommon, Query
from neartwin.queries.sensitivity import Sensitivity
from neartwin.queries.stage import Stage

RECORD_VERSION = 1  # of the canonical form behind a digest; a new meaning takes a new number


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounding:
    """The most that one unit counts for: `rows_per_group` rows in a group, in `groups_per_unit` groups."""

    rows_per_group: int
    groups_per_unit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One noisy statistic of every group: its name in the stage, its sensitivity and the mechanism that pays for it."""

    name: str
    sensitivity: Sensitivity
    mechanism: Geometric


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The plan of a `Query`: noisy measures of each group, from which the named statistics are computed.

    spend: what the caller allows; price: what is charged, never more. selection: how unknown groups are discovered.
    """

    query: Query
    bounding: Bounding
    spend: Target
    price: Target
    stage: Stage
    measures: Mapping[str, Measure]
    selection: UnitThreshold | None

    @property
    def outputs(self) -> Mapping[str, Aggregate]:
        """The named statistics."""
        return self.query.aggregates

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same, across processes and versions of this library."""
        asked = {name: str(aggregate) for name, aggregate in self.outputs.items()}
        measures = {name: [str(m.mechanism.scale), m.mechanism.sensitivity] for name, m in self.measures.items()}
        threshold = None if self.selection is None else [str(self.selection.counts.scale), self.selection.threshold]
        return _digest("groups", self.stage, {"asked": asked, "measures": measures, "threshold": threshold})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicePlan:
    """The plan of a `MostCommon`: the winner alone is released. Its count is not free: ask for it with fresh noise."""

    query: MostCommon
    spend: Target
    price: Target
    stage: Stage
    mechanism: PermuteAndFlip
    why: str

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same."""
        return _digest("choice", self.stage, {"scale": str(self.mechanism.scale)})


Plan = GroupPlan | ChoicePlan


def _digest(kind: str, stage: Stage, more: Mapping[str, object]) -> str:
    table = stage.table
    grid = {
        name: [column.column, *map(str, (column.bounds.low, column.bounds.high, column.bounds.step, column.centre))]
        for name, column in stage.grid.items()
    }
    form = {
        "version": RECORD_VERSION,
        "kind": kind,
        "population": table.name,
        "location": table.source.location(),
        "unit": table.unit_name,
        "neighbours": table.neighbours,
        "declared": {name: table.schema[name] for name in sorted(table.declared)},
        "conditions": [condition.text for condition in stage.conditions],
        "group_columns": stage.group_columns,
        "keys": None if stage.keys is None else [[_plain(value) for value in key] for key in stage.keys],
        "grid": grid,
        **({"joins": [join.record() for join in table.joins]} if table.joins else {}),
        "measures": stage.measures,
        "rows_per_group": stage.rows_per_group,
        "groups_per_unit": stage.groups_per_unit,
        **more,
    }
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | str) else ["date", str(value)]
