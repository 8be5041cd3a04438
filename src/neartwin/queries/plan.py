"""Plans: everything that a release will do and cost, decided from the schema and declared bounds alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neartwin.accounting.targets import Target
from neartwin.exact import Number
from neartwin.losses import Composed, compose
from neartwin.mechanisms.count_trees import CountTree
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.mechanisms.geometric import Geometric
from neartwin.mechanisms.marginals import MarginalDesign
from neartwin.mechanisms.partition import OptimalSelection
from neartwin.mechanisms.top import PeeledTop
from neartwin.mechanisms.workloads import Bars, Strategy
from neartwin.queries.allot import Noise, composed_loss
from neartwin.queries.discovery import Selection
from neartwin.queries.histograms import Histogram
from neartwin.queries.query import MostCommon, Query
from neartwin.queries.record import NOISES, digest_of, limits_record, statistic_record, target_record
from neartwin.queries.sensitivity import Sensitivity
from neartwin.queries.stage import Stage
from neartwin.queries.statistics import Aggregate
from neartwin.queries.tuned import Tuned
from neartwin.queries.workloads import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounding:
    """The most that one unit counts for: `rows_per_group` rows in a group, in `groups_per_unit` groups.

    discovery_groups: in how many of those it helps to discover a group; None for all. rows_per_unit: in all groups together;
    None where the others imply no more. norm_per_unit: instead of all of these, the length of a unit's whole vector, in rows.
    """

    rows_per_group: int
    groups_per_unit: int
    discovery_groups: int | None = None
    rows_per_unit: int | None = None
    norm_per_unit: Fraction | None = None

    @property
    def entering(self) -> int:
        """How many groups one unit can bring in."""
        return self.groups_per_unit if self.discovery_groups is None else self.discovery_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One noisy statistic of every group: its name in the stage, its sensitivity and the mechanism that pays for it.

    parts: of a step, in which its numbers and its noise are counted.
    """

    name: str
    sensitivity: Sensitivity
    mechanism: Noise
    parts: int = 1

    def half_width(self, confidence: float) -> Fraction:
        """Of its noise, in steps."""
        return Fraction(self.mechanism.half_width(confidence), self.parts)

    def losses(self) -> Composed:
        """What it reveals, as a factor for composition."""
        return composed_loss(self.sensitivity, self.mechanism)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """A first stage that chooses bounds by noisy counts: see `neartwin.queries.tuning`.

    rows, groups, or norm instead: the bounds to be chosen. rest: what the question itself may spend.
    """

    stage: Stage
    mechanism: Geometric | Gaussian
    rows: Tuned | None
    groups: Tuned | None
    expected_groups: int
    weights: tuple[tuple[str, Number], ...]
    rest: Target
    norm: Tuned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Counts by group and node of a tree over one column's grid: what quantiles are read from. stage: its own statement."""

    stage: Stage
    tree: CountTree


@dataclass(frozen=True, slots=True)
class Ranging:
    """First stages that choose clip bounds of values: see `neartwin.queries.value_ranges`.

    asked: their plans. groups: expected. rest: what the question itself may spend. limits: what else it is planned with.
    """

    asked: tuple["GroupPlan", ...]
    groups: int
    rest: Target
    limits: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Together:
    """How many units changed together are promised something, and what: by a theorem for groups from the price for one."""

    units: int
    promise: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The plan of a `Query`: noisy measures of each group, from which the named statistics are computed.

    With a pilot, everything else is what it will be at the largest bounds that the pilot may choose: the price is the whole
    one, and errors are the worst.

    spend: what the caller allows; price: what is charged, never more. selection: how unknown groups are discovered. splits:
    by the measure whose noise they get, node by node. why: how the spend was shared, in words. Every stage is asked with one
    salt, so that a unit is kept in the same groups for all. error: the objective that the shares minimise. shared: where a norm
    bounds all measures together, the one mechanism that they are; each one's own is what it would reveal alone.
    """

    query: Query
    bounding: Bounding
    spend: Target
    price: Target
    stage: Stage
    measures: Mapping[str, Measure]
    selection: Selection | None
    splits: Mapping[str, Split]
    why: tuple[str, ...]
    error: float
    pilot: Pilot | None = None
    shared: Gaussian | None = None
    together: Together | None = None
    ranging: Ranging | None = None

    @property
    def outputs(self) -> Mapping[str, Aggregate]:
        """The named statistics."""
        return self.query.aggregates

    @property
    def histogram(self) -> tuple[str, Histogram] | None:
        """The name and bins of a plan whose release has a row for each group and bin."""
        found = [(name, asked) for name, asked in self.outputs.items() if isinstance(asked, Histogram)]
        return found[0] if found else None

    def losses(self) -> Composed:
        """What all measures and the discovery of groups reveal together: the price covers this curve."""
        parts = [measure.losses() for measure in self.measures.values()]
        if self.shared is not None:  # of all but trees, whose vectors are clipped on their own
            parts = [self.shared.losses(), *(self.measures[name].losses() for name in self.splits)]
        if self.selection is not None:
            each = self.selection.losses()
            uses = self.discovered_cells if isinstance(self.selection, OptimalSelection) else 1
            parts.append(uses * each)
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
        return "units" if self.bounding.discovery_groups is None else "finders"

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same, across processes and versions of this library."""
        asked = {name: statistic_record(aggregate) for name, aggregate in self.outputs.items()}
        measures = {name: _noise(measure.mechanism) for name, measure in self.measures.items()}
        chosen = None if self.selection is None else _chosen(self.selection)
        trees = {
            name: [split.tree.cells, split.tree.branching, *([split.stage.parts] if split.stage.parts > 1 else [])]
            for name, split in self.splits.items()
        }
        more: dict[str, object] = {"splits": trees} if trees else {}
        more |= _beside(self.pilot, self.together)
        if self.ranging is not None:
            told = limits_record(self.ranging.limits)
            more |= {"ranging": [*(one.digest for one in self.ranging.asked), self.ranging.groups, told]}
        return digest_of("groups", self.stage, {"asked": asked, "measures": measures, "threshold": chosen} | more)


def _first_losses(pilot: Pilot | None) -> list[Composed]:
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
        *_noise(pilot.mechanism),
        *bounds,
        pilot.expected_groups,
        pilot.stage.octaves,
        told,
        target_record(pilot.rest),
    ]


def _noise(noise: Noise) -> list[object]:
    if isinstance(noise, Geometric):
        return [str(noise.scale), noise.sensitivity]
    return [NOISES[type(noise)], str(noise.variance), noise.l2_squared]


def _chosen(selection: Selection) -> list[object]:
    if isinstance(selection, OptimalSelection):
        return ["optimal", str(selection.epsilon), str(selection.delta)]
    return [*_noise(selection.counts)[: 2 if isinstance(selection.counts, Gaussian) else 1], selection.threshold]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicePlan:
    """The plan of a `MostCommon`: what wins is released, and counts, where they were asked for, with noise of their own."""

    query: MostCommon
    spend: Target
    price: Target
    stage: Stage
    mechanism: PeeledTop
    counts: Measure | None
    why: str
    together: Together | None = None

    def losses(self) -> Composed:
        """What the choices and the counts reveal together: the price covers this curve."""
        chosen = self.mechanism.losses()
        return chosen if self.counts is None else chosen + self.counts.losses()

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same."""
        more: dict[str, object] = {} if self.query.k == 1 else {"k": self.query.k}
        if self.counts is not None:
            more |= {"counts": _noise(self.counts.mechanism)}
        more |= _beside(None, self.together)
        return digest_of("choice", self.stage, {"scale": str(self.mechanism.each.scale)} | more)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginalPlan:
    """The plan of a `Query` for margins: some margins are measured with noise, and all that are asked follow from them.

    measures: by the name of a margin; measured: the same margins as places of columns. parts: of one step of the statistic, in
    which noise is drawn. unit: what one step is worth. design: what each answer's error is. error: the sum of the margins' bars,
    in units of one row's largest contribution.
    """

    query: Query
    bounding: Bounding
    spend: Target
    price: Target
    stage: Stage
    measures: Mapping[str, Measure]
    measured: tuple[tuple[int, ...], ...]
    parts: int
    unit: Fraction
    design: MarginalDesign
    why: tuple[str, ...]
    error: float
    pilot: Pilot | None = None
    together: Together | None = None

    @property
    def outputs(self) -> Mapping[str, Aggregate]:
        """The named statistic."""
        return self.query.aggregates

    def losses(self) -> Composed:
        """What all measured margins reveal together, a pilot's counts included: the price covers this curve."""
        return compose([*(measure.losses() for measure in self.measures.values()), *_first_losses(self.pilot)])

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same."""
        asked = {name: statistic_record(aggregate) for name, aggregate in self.outputs.items()}
        measures = {name: _noise(measure.mechanism) for name, measure in self.measures.items()}
        more: dict[str, object] = {
            "asked": asked,
            "measures": measures,
            "margins": self.query.groups.margins,
            "parts": self.parts,
        }
        return digest_of("margins", self.stage, more | _beside(self.pilot, self.together))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlan:
    """The plan of a `Query` for a linear workload: a strategy's sums of groups are measured with noise, and all answers follow.

    measure: of the strategy's sums, in parts of a step. resolved: the queries. unit: what one step is worth. bars: (queries,)
    half-widths in steps at the confidence of releases. error: their mean, in units of one row's largest contribution.
    """

    query: Query
    bounding: Bounding
    spend: Target
    price: Target
    stage: Stage
    measure: Measure
    strategy: Strategy
    resolved: Resolved
    unit: Fraction
    bars: Bars
    why: tuple[str, ...]
    error: float
    pilot: Pilot | None = None
    together: Together | None = None

    @property
    def outputs(self) -> Mapping[str, Aggregate]:
        """The named statistic."""
        return self.query.aggregates

    def losses(self) -> Composed:
        """What the noisy sums reveal together, a pilot's counts included: the price covers this curve."""
        return compose([self.measure.losses(), *_first_losses(self.pilot)])

    @property
    def digest(self) -> str:
        """Equal for plans that would do the same."""
        asked = self.query.groups.asked
        more: dict[str, object] = {
            "asked": {name: statistic_record(aggregate) for name, aggregate in self.outputs.items()},
            "workload": None if asked is None else asked.record(),
            "strategy": self.strategy.name,
            "measure": _noise(self.measure.mechanism),
            "parts": self.measure.parts,
        }
        return digest_of("workload", self.stage, more | _beside(self.pilot, self.together))


OverGroups = GroupPlan | MarginalPlan | WorkloadPlan  # of one table by group, and what a unit counts for in it
Plan = OverGroups | ChoicePlan
