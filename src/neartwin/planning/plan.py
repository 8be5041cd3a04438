"""Plans: everything that a release will do and cost, decided from the schema and declared bounds alone.

The canonical form behind a plan's digest: what it would do, and nothing of how it is written.

A digest decides whether a question was paid for, so its words never change. `TARGETS`, `JOINS`, `LIMITS`, and the `record` of
each statistic and mechanism hold them. A class, parameter or printed word may be renamed; its record keeps the old one. New
kinds get new lines.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neartwin.accounting.budgets import Approx, Budget, Gdp, Mixed, Pure, Rdp, Zcdp
from neartwin.exact import Number
from neartwin.losses import Composition, compose
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.linear.marginals import MarginalDesign
from neartwin.mechanisms.linear.workloads import Bars, Strategy
from neartwin.mechanisms.selection.thresholds import Selection
from neartwin.mechanisms.selection.top_k import PeeledTop
from neartwin.planning.contribution_bounds import ContributionBounds
from neartwin.planning.limits import Limits, PrivateLimit
from neartwin.planning.stage import NormClip, Stage
from neartwin.queries.groups import MARGIN
from neartwin.queries.query import NOTHING, PostProcessing, Query, TopK
from neartwin.queries.workloads import Resolved
from neartwin.statistics.base import Statistic
from neartwin.statistics.measures import Measure
from neartwin.tables.table import How, Join, JoinKind
from neartwin.tables.types import ColumnType

RECORD_VERSION = 1  # of the canonical form; a new meaning takes a new number
TARGETS: Mapping[type, tuple[tuple[str, str], ...]] = {  # word, field; a delta of 0 is left out, but for Approx
    Pure: (("epsilon", "epsilon"),),
    Approx: (("epsilon", "epsilon"), ("delta", "delta")),
    Zcdp: (("rho", "rho"), ("delta", "delta")),
    Rdp: (("order", "order"), ("epsilon", "epsilon"), ("delta", "delta")),
    Gdp: (("mu", "mu"), ("delta", "delta")),
    Mixed: (("epsilon", "epsilon"), ("mu", "mu"), ("delta", "delta")),
}
JOINS = {
    JoinKind.PUBLIC: "public",
    JoinKind.SAME_UNIT: "rows of the same unit",
    JoinKind.OWNED: "rows owned through their key",
    How.INNER: "inner",
    How.LEFT: "left",
    How.BESIDE: "beside",
}
LIMITS = {  # word of each limit, in the order of digests; None: the importance of statistics
    "max_rows_per_group": "rows_per_group",
    "max_groups": "groups_per_unit",
    None: "weights",
    "rows": "rows_per_unit",
    "norm": "norm_per_unit",
    "max_discovered_groups": "discovery_groups",
}


def digest_of(kind: str, stage: Stage, more: Mapping[str, object]) -> str:
    """SHA-256 of a plan of this kind: its stage, and what else decides the answer."""
    table = stage.table
    grid = {
        name: [column.written, *map(str, (column.bounds.low, column.bounds.high, column.bounds.step, column.centre))]
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
        "conditions": [str(condition.term) for condition in stage.conditions],
        "computed": {n: str(table.computed[n].term) for n in stage.group_columns if n in table.computed},
        "group_columns": stage.group_columns,
        "keys": None if stage.keys is None else _written(stage),
        "grid": grid,
        **({"period": table.period.text} if table.period is not None else {}),
        **({"joins": [_joined(join) for join in table.joins]} if table.joins else {}),
        "moments": sorted(stage.moments),
        "measures": stage.measures,
        "rows_per_group": stage.rows_per_group,
        "groups_per_unit": stage.groups_per_unit,
        **({"rows_per_unit": stage.rows_per_unit} if stage.rows_per_unit is not None else {}),
        **({"discovery_groups": stage.discovery_groups} if stage.discovery_groups is not None else {}),
        **({} if stage.clip is None else {"clip": _norm(stage.clip)}),
        **({} if stage.cell_clip is None else {"cell_clip": [stage.cell_clip.limit, stage.cell_clip.widths]}),
        **more,
    }
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()


def target_record(target: Budget) -> str:
    """A spend in digests."""
    told = [(word, getattr(target, name)) for word, name in TARGETS[type(target)]]
    kept = [(word, value) for word, value in told if value or word != "delta" or isinstance(target, Approx)]
    return ", ".join(f"{word}={float(value):g}" for word, value in kept)


def limits_record(limits: Limits, importance: Mapping[str, Number] | None) -> list[list[str]]:
    """Limits and importance in digests: word and value of each that is given."""
    given = limits.given | ({} if importance is None else {None: importance})
    return [[word, _limit(given[name])] for name, word in LIMITS.items() if name in given]


def _limit(value: Any) -> str:
    if isinstance(value, PrivateLimit):
        return f"Tuned(at_most={value.at_most!r}, share={value.share!r}, groups={value.groups!r})"
    return str(value)


def _joined(join: Join) -> dict[str, object]:
    return join.record() | {"kind": JOINS[join.kind], "how": JOINS[join.how]}


def _norm(clip: NormClip) -> list[object]:
    return [clip.limit, {name: [one.times, one.over, one.parts] for name, one in clip.coordinates.items()}]


def _written(stage: Stage) -> Sequence[Sequence[object]]:
    """Public keys as JSON has them: dates alone are written in another way, so that long lists without any are as they are."""
    kinds = {stage.table.schema[name] for name in stage.group_columns}
    if ColumnType.DATE not in kinds:
        return stage.keys or ()
    return [[_plain(value) for value in key] for key in stage.keys or ()]


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | str) else ["date", str(value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """A first stage that chooses bounds by noisy counts: see `neartwin.planning.pilot_bounds`.

    rows, groups, or norm instead: the bounds to be chosen. rest: what the question itself may spend.
    """

    stage: Stage
    mechanism: DiscreteLaplace | Gaussian
    rows: PrivateLimit | None
    groups: PrivateLimit | None
    expected_groups: int
    weights: tuple[tuple[str, Number], ...]
    rest: Budget
    norm: PrivateLimit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Counts by group and node of a tree over one column's grid: what quantiles are read from. stage: its own statement."""

    stage: Stage
    tree: CountTree


@dataclass(frozen=True, slots=True)
class Ranging:
    """First stages that choose clip bounds of values: see `neartwin.planning.pilot_ranges`.

    asked: their plans. groups: expected. rest: what the question itself may spend, planned with limits and importance.
    """

    asked: tuple["GroupPlan", ...]
    groups: int
    rest: Budget
    limits: Limits
    importance: Mapping[str, Number] | None


@dataclass(frozen=True, slots=True)
class Together:
    """How many units changed together are promised something, and what: by a theorem for groups from the price for one."""

    units: int
    promise: Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBase(ABC):
    """What a question will do and cost, decided before anything is spent.

    Attributes:
        query: The question.
        spend: What the caller allows.
        price: What is charged, never more.
        stage: What an engine is asked.
        together: A promise to several units changed together; None for a promise to one.
        pilot: A first stage that chooses bounds of contributions. All else is then as at the largest bounds: the price is the
            whole one, and errors are the worst.
        ranging: First stages that choose clip bounds.
    """

    query: Query | TopK
    spend: Budget
    price: Budget
    stage: Stage
    together: Together | None = None
    pilot: Pilot | None = None
    ranging: Ranging | None = None

    @property
    def first_stage(self) -> "Ranging | Pilot | None":
        """What chooses bounds next: of values before contributions; None where all bounds are numbers."""
        return self.ranging or self.pilot

    @property
    @abstractmethod
    def digest(self) -> str:
        """Equal for plans that would do the same, across processes and versions of this library."""

    @abstractmethod
    def losses(self) -> Composition:
        """What everything noisy reveals together, first stages included: the price covers this curve."""

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Names of the release's group columns."""
        return self.stage.group_columns

    @property
    def group_types(self) -> Mapping[str, ColumnType]:
        """Types of those that are columns of the table; what is not named here is text."""
        return {name: self.stage.table.schema[name] for name in self.stage.group_columns}

    @property
    @abstractmethod
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The name of each statistic of the release, in order, and what it is."""

    @property
    def after(self) -> PostProcessing:
        """What is done to the release, for nothing."""
        return NOTHING

    @property
    def public_rows(self) -> int:
        """How many rows a release over public groups has; 0 where that is not known, or surely few."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlanBase(PlanBase):
    """The plan of a `Query`: noisy measures of groups, from which its statistics are computed.

    Attributes:
        bounding: How much one unit counts for.
        why: How the spend was shared, in words.
        error: The objective that the shares minimise.
    """

    query: Query
    bounding: ContributionBounds
    why: tuple[str, ...]
    error: float

    @property
    def outputs(self) -> Mapping[str, Statistic]:
        """The named statistics."""
        return self.query.aggregates

    @property
    def after(self) -> PostProcessing:
        """What is done to the release, for nothing."""
        return self.query.after

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The name of each statistic of the release, in order, and what it is."""
        return tuple((one, str(asked)) for name, asked in self.outputs.items() for one in asked.labels(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan(QueryPlanBase):
    """The plan of a `Query`: noisy measures of each group, from which the named statistics are computed.

    With a pilot, everything else is what it will be at the largest bounds that the pilot may choose: the price is the whole
    one, and errors are the worst.

    spend: what the caller allows; price: what is charged, never more. selection: how unknown groups are discovered. splits:
    by the measure whose noise they get, node by node. why: how the spend was shared, in words. Every stage is asked with one
    salt, so that a unit is kept in the same groups for all. error: the objective that the shares minimise. shared: where a norm
    bounds all measures together, the one mechanism that they are; each one's own is what it would reveal alone.
    """

    measures: Mapping[str, Measure]
    selection: Selection | None
    splits: Mapping[str, Split]
    shared: Gaussian | None = None

    @property
    def histogram(self) -> tuple[str, Statistic] | None:
        """The name and bins of a plan whose release has a row for each group and bin."""
        found = [(name, asked) for name, asked in self.outputs.items() if asked.bins]
        return found[0] if found else None

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Those of the question, and the bin of a histogram."""
        named = () if self.histogram is None else (self.histogram[0],)
        return (*self.stage.group_columns, *named)

    @property
    def public_rows(self) -> int:
        """Groups, or for a histogram groups times bins."""
        return len(self.stage.keys or ()) * (1 if self.histogram is None else len(self.histogram[1].bins))

    def losses(self) -> Composition:
        """What all measures and the discovery of groups reveal together: the price covers this curve."""
        parts = [measure.losses() for measure in self.measures.values()]
        if self.shared is not None:  # of all but trees, whose vectors are clipped on their own
            parts = [self.shared.losses(), *(self.measures[name].losses() for name in self.splits)]
        if self.selection is not None:
            parts.append(self.selection.unit_losses(self.discovered_cells))
        parts += _first_losses(self.pilot)
        if self.ranging is not None:
            parts += [one.losses() for one in self.ranging.asked]
        return compose(parts)

    @property
    def discovered_cells(self) -> int:
        """How many groups one unit can bring in or take away while groups are discovered."""
        both = 1 if self.stage.table.neighbours == "add_remove" else 2
        return both * self.bounding.entering

    @property
    def discovered_by(self) -> str:
        """The measure of the stage that groups are discovered by."""
        return "units" if self.bounding.max_discovered_groups is None else "finders"

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same, across processes and versions of this library."""
        asked = {name: aggregate.record for name, aggregate in self.outputs.items()}
        measures = {name: measure.mechanism.record for name, measure in self.measures.items()}
        chosen = None if self.selection is None else self.selection.record
        trees = {
            name: [split.tree.cells, split.tree.branching, *([split.stage.parts] if split.stage.parts > 1 else [])]
            for name, split in self.splits.items()
        }
        more: dict[str, object] = {"splits": trees} if trees else {}
        more |= _beside(self.pilot, self.together)
        if self.ranging is not None:
            told = limits_record(self.ranging.limits, self.ranging.importance)
            ranging = [*(one.digest for one in self.ranging.asked), self.ranging.groups, told]
            unclipped = sorted(
                n
                for n, one in self.outputs.items()
                if one.private_range is None and one.summed_value(self.query.table) is not None
            )
            more |= {"ranging": [*ranging, *([unclipped] if unclipped else [])]}
        return digest_of("groups", self.stage, {"asked": asked, "measures": measures, "threshold": chosen} | more)


def _first_losses(pilot: Pilot | None) -> list[Composition]:
    return [] if pilot is None else [pilot.mechanism.losses()]


def _beside(pilot: Pilot | None, together: Together | None) -> dict[str, object]:
    """What makes the same question another plan."""
    found: dict[str, object] = {} if pilot is None else {"pilot": _piloted(pilot)}
    return found if together is None else found | {"units_together": together.units}


def _piloted(pilot: Pilot) -> list[object]:
    bounds = [bound and [bound.at_most, str(bound.share)] for bound in (pilot.rows, pilot.groups)]
    bounds += [] if pilot.norm is None else [[pilot.norm.at_most, str(pilot.norm.share)]]
    told = [[name, str(weight)] for name, weight in pilot.weights]
    return [
        *pilot.mechanism.record,
        *bounds,
        pilot.expected_groups,
        pilot.stage.octaves,
        told,
        target_record(pilot.rest),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKPlan(PlanBase):
    """The plan of a `MostCommon`: what wins is released, and counts, where they were asked for, with noise of their own."""

    query: TopK
    mechanism: PeeledTop
    counts: Measure | None
    why: str

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The winners' counts, where they were asked for."""
        return () if self.counts is None else (("count", "count_distinct_units()"),)

    def losses(self) -> Composition:
        """What the choices and the counts reveal together: the price covers this curve."""
        chosen = self.mechanism.losses()
        return chosen if self.counts is None else chosen + self.counts.losses()

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same."""
        more: dict[str, object] = {} if self.query.k == 1 else {"k": self.query.k}
        if self.counts is not None:
            more |= {"counts": self.counts.mechanism.record}
        more |= _beside(None, self.together)
        return digest_of("choice", self.stage, {"scale": str(self.mechanism.each.scale)} | more)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginalPlan(QueryPlanBase):
    """The plan of a `Query` for margins: some margins are measured with noise, and all that are asked follow from them.

    measures: by the name of a margin; measured: the same margins as places of columns. parts: of one step of the statistic, in
    which noise is drawn. unit: what one step is worth. design: what each answer's error is. error: the sum of the margins' bars,
    in units of one row's largest contribution.
    """

    measures: Mapping[str, Measure]
    measured: tuple[tuple[int, ...], ...]
    parts: int
    unit: Fraction
    design: MarginalDesign

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Those of the question, and the margin."""
        return (*self.stage.group_columns, MARGIN)

    def losses(self) -> Composition:
        """What all measured margins reveal together, a pilot's counts included: the price covers this curve."""
        return compose([*(measure.losses() for measure in self.measures.values()), *_first_losses(self.pilot)])

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same."""
        asked = {name: aggregate.record for name, aggregate in self.outputs.items()}
        measures = {name: measure.mechanism.record for name, measure in self.measures.items()}
        more: dict[str, object] = {
            "asked": asked,
            "measures": measures,
            "margins": self.query.groups.margins,
            "parts": self.parts,
        }
        return digest_of("margins", self.stage, more | _beside(self.pilot, self.together))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlan(QueryPlanBase):
    """The plan of a `Query` for a linear workload: a strategy's sums of groups are measured with noise, and all answers follow.

    measure: of the strategy's sums, in parts of a step. resolved: the queries. unit: what one step is worth. bars: (queries,)
    half-widths in steps at the confidence of releases. error: their mean, in units of one row's largest contribution.
    """

    measure: Measure
    strategy: Strategy
    resolved: Resolved
    unit: Fraction
    bars: Bars

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Those of the workload's answers."""
        return tuple(name for name, _ in self.resolved.columns)

    @property
    def group_types(self) -> Mapping[str, ColumnType]:
        """Types of those that are columns of the table; what is not named here is text."""
        return self.resolved.typed(self.stage.table.schema)

    def losses(self) -> Composition:
        """What the noisy sums reveal together, a pilot's counts included: the price covers this curve."""
        return compose([self.measure.losses(), *_first_losses(self.pilot)])

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same."""
        asked = self.query.groups.asked
        more: dict[str, object] = {
            "asked": {name: aggregate.record for name, aggregate in self.outputs.items()},
            "workload": None if asked is None else asked.record(),
            "strategy": self.strategy.name,
            "measure": self.measure.mechanism.record,
            "parts": self.measure.parts,
        }
        return digest_of("workload", self.stage, more | _beside(self.pilot, self.together))


QueryPlan = GroupPlan | MarginalPlan | WorkloadPlan
Plan = QueryPlan | TopKPlan
