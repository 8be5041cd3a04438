"""From exact numbers by group to noisy statistics: which groups are released, their noise, and what is computed of it.

In two steps, so that a result that no memory holds can take the second for some groups at a time: `kept_groups`, then `noised`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import pyarrow as pa

from neartwin import noise
from neartwin.exact import WholeNumbers
from neartwin.planning.norm_clipping import entry_parts
from neartwin.planning.plan import GroupPlan, MarginalPlan, Plan, Split, TopKPlan, WorkloadPlan
from neartwin.planning.stage import SALT_BITS, Aggregates, Engine
from neartwin.releases.estimates import counted, margin_answers, narrowed, noisy_margins, statistics_of
from neartwin.releases.values import Statistic
from neartwin.tables.types import Key

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Noisy:
    """Noisy, and so free to leave."""

    keys: tuple[Key, ...]
    statistics: tuple[Statistic, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """Groups that are released, public or sorted, with their exact numbers by measure. Private."""

    keys: Sequence[Key]
    values: Mapping[str, WholeNumbers]

    def parts(self, groups: int) -> Iterator[tuple[int, "Kept"]]:
        """At most so many groups at a time, each part with the place of its first; one part where there are none."""
        for start in range(0, max(len(self.keys), 1), groups):
            end = start + groups
            yield start, Kept(self.keys[start:end], {name: found[start:end] for name, found in self.values.items()})


def answer_of(plan: Plan, engine: Engine, source: noise.Source) -> Noisy:
    """Whatever a plan asks that tunes nothing, with noise."""
    match plan:
        case TopKPlan():
            return _chosen(plan, engine.aggregate(plan.stage, salt=source.bits(SALT_BITS)), source)
        case MarginalPlan():
            aggregates = engine.aggregate(plan.stage, salt=source.bits(SALT_BITS))
            keys, statistic = margin_answers(plan, noisy_margins(plan, aggregates, source), CONFIDENCE)
            return Noisy(keys, (statistic,))
        case WorkloadPlan():
            return workload_answers(plan, engine.aggregate(plan.stage, salt=source.bits(SALT_BITS)), source)
        case GroupPlan():
            return answered(plan, engine, source)
        case _:
            assert_never(plan)


def workload_answers(plan: WorkloadPlan, aggregates: Aggregates, source: noise.Source) -> Noisy:
    """Noise on what the strategy measures, and the workload's answers from that."""
    (exact,) = (aggregates.values[name] for name in plan.stage.measures)
    measured = plan.strategy.measured(exact).astype(object) * (plan.measure.parts // entry_parts(plan.stage))
    noisy = plan.measure.mechanism.noisy(narrowed(measured), source=source)
    estimate = plan.strategy.estimate(np.asarray(noisy, dtype=float) / plan.measure.parts)
    values = plan.resolved.queries.answers(estimate) * float(plan.unit)
    bars = plan.bars.values * float(plan.unit)
    ((name, asked),) = plan.outputs.items()
    ends = [tuple(found.tolist()) for found in (values, values - bars, values + bars)]
    return Noisy(
        plan.resolved.keys, (Statistic(name=name, what=str(asked), values=ends[0], lower=ends[1], upper=ends[2]),)
    )


def _chosen(plan: TopKPlan, aggregates: Aggregates, source: noise.Source) -> Noisy:
    units = aggregates.values["units"]
    winners = plan.mechanism.choose(units, source=source)
    keys = tuple(aggregates.keys[winner] for winner in winners)
    if plan.counts is None:
        return Noisy(keys, ())
    noisy = plan.counts.mechanism.noisy(units[winners], source=source)
    return Noisy(keys, (counted(plan.counts, noisy, CONFIDENCE),))


def answered(plan: GroupPlan, engine: Engine, source: noise.Source) -> Noisy:
    """Every stage with one salt, then noise."""
    salt = source.bits(SALT_BITS)
    aggregates = engine.aggregate(plan.stage, salt=salt) if plan.stage.measures else nothing(plan)
    cells = {name: engine.aggregate(split.stage, salt=salt) for name, split in plan.splits.items()}
    return noisy_answer(plan, aggregates, source, cells)


def nothing(plan: GroupPlan) -> Aggregates:
    """Of a stage without measures, whose groups are public."""
    keys = plan.stage.keys or ()
    return Aggregates(len(keys), keys, {})


def noisy_answer(
    plan: GroupPlan, aggregates: Aggregates, source: noise.Source, cells: Mapping[str, Aggregates] | None = None
) -> Noisy:
    """Select, add fresh noise, and compute the statistics. cells: the answers of the plan's splits, by measure."""
    kept = kept_groups(plan, aggregates, source)
    leaves = {name: _leaves(split, kept.keys, (cells or {})[name]) for name, split in plan.splits.items()}
    return noised(plan, kept, leaves, source)


def kept_groups(plan: GroupPlan, aggregates: Aggregates, source: noise.Source) -> Kept:
    """Public groups as they are; of discovered ones those that their noisy numbers of units keep, in order."""
    keys, values = aggregates.keys, aggregates.values
    if plan.selection is None:
        return Kept(keys, values)
    kept = np.flatnonzero(plan.selection.keeps(values[plan.discovered_by], source=source))
    chosen = {int(place): keys[int(place)] for place in kept}
    order = sorted(chosen, key=lambda place: sortable(chosen[place]))
    return Kept(tuple(chosen[place] for place in order), {name: found[order] for name, found in values.items()})


def noised(plan: GroupPlan, kept: Kept, leaves: Mapping[str, WholeNumbers], source: noise.Source) -> Noisy:
    """Fresh noise for some groups, and their statistics. leaves: (groups, cells) exact counts by the measure of each split."""
    mechanisms = {name: measure.mechanism for name, measure in plan.measures.items()}
    noisy: dict[str, WholeNumbers] = {
        name: mechanism.noisy(kept.values[name], source=source)
        for name, mechanism in mechanisms.items()
        if name not in plan.splits
    }
    trees = {
        name: [mechanisms[name].noisy(level, source=source) for level in split.tree.nodes(leaves[name])]
        for name, split in plan.splits.items()
    }
    return Noisy(told_keys(plan, kept.keys), statistics_of(plan, noisy, trees, CONFIDENCE))


def told_keys(plan: GroupPlan, groups: Sequence[Key]) -> tuple[Key, ...]:
    """The keys of the release's rows: the groups', or of a histogram each with every bin."""
    if plan.histogram is None:
        return tuple(groups)
    return tuple((*key, label) for key in groups for label in plan.histogram[1].bins)


def _leaves(split: Split, keys: Sequence[Key], answer: Aggregates) -> WholeNumbers:
    """Exact counts of the tree's cells for the kept groups."""
    leaves = np.zeros((len(keys), split.tree.cells), dtype=np.int64)
    found = answer.cells
    if found is not None:
        places = {key: place for place, key in enumerate(keys)}
        position = np.array([places.get(key, -1) for key in answer.keys], dtype=np.int64)[found.group]
        kept = position >= 0
        leaves[position[kept], found.cell[kept]] = found.count[kept]
    return leaves


def as_table(schema: pa.Schema, answer: Noisy) -> pa.Table:
    """An answer in the columns of a release's table: keys, then each statistic with its bar."""
    groups = len(schema) - 3 * len(answer.statistics)
    columns: list[Any] = [[key[i] for key in answer.keys] for i in range(groups)]
    for statistic in answer.statistics:
        columns += [statistic.values, statistic.lower, statistic.upper]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def sortable(key: Key) -> tuple[tuple[bool, str, object], ...]:
    """By which keys are sorted: value by value, NULL last. Engines sort text by its bytes, so theirs is the same order."""
    return tuple((value is None, type(value).__name__, "" if value is None else value) for value in key)
