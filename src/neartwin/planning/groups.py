"""The plan of statistics of groups: the measures, the split of the budget, the engine's exact question, and the noise."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, sqrt
from typing import Any, Self

import numpy as np

from neartwin.accounting.budgets import Budget
from neartwin.checks import positive
from neartwin.errors import ParameterError
from neartwin.exact import Number, WholeNumbers, rational, root_above
from neartwin.losses import Composition
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.selection.thresholds import Selection
from neartwin.noise import Source
from neartwin.planning.allocation import CONFIDENCE, LARGEST_SCALE, LOSS_FAILURE, Allocation, Discovery, allocate
from neartwin.planning.bounding_loss import taken
from neartwin.planning.contribution_bounds import ContributionBounds, contribution_bounds, rows_found
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.limits import Limits
from neartwin.planning.matching import matched
from neartwin.planning.plan import NoisyAnswer, Plan, QueryPlan
from neartwin.planning.stage import Aggregates, Stage
from neartwin.queries.query import Query
from neartwin.statistics import sensitivity
from neartwin.statistics.base import OF_ALL_ROWS, RATIO, Context, Estimate, ExpectedError, NoisyNumbers, Statistic
from neartwin.statistics.measures import Measure, Measurement
from neartwin.statistics.sensitivity import Contribution
from neartwin.tables.grid import GridColumn, Moment
from neartwin.tables.table import RowUnit
from neartwin.tables.types import Key, in_order

_PARTS = (2**24, 2**12, 1)  # of a step: fewer where the noise of more could not be drawn
_WIDEST = LARGEST_SCALE  # of noise, in parts
_WIDEST_OF_GROUPS = 2**42  # where margins and workloads share it further
WEIGHT = "one weight"  # in digests: of the rows of a unit, in all that is asked about a group


@dataclass(frozen=True, slots=True)
class ReleasedGroups:
    """The released groups, public or sorted, with their exact numbers by measure. Private.

    Attributes:
        keys: The groups.
        values: (groups,) exact whole numbers by measure.
    """

    keys: Sequence[Key]
    values: Mapping[str, WholeNumbers]

    def parts(self, groups: int) -> Iterator[tuple[int, "ReleasedGroups"]]:
        """Split the groups into consecutive parts; one empty part if there are none.

        Args:
            groups: The most groups of a part.

        Yields:
            The place of each part's first group, and the part.
        """
        for start in range(0, max(len(self.keys), 1), groups):
            end = start + groups
            yield (
                start,
                ReleasedGroups(self.keys[start:end], {name: exact[start:end] for name, exact in self.values.items()}),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The counts by group and node of a tree over one column's grid, from which quantiles are read.

    Attributes:
        stage: The exact question of the counts.
        tree: The tree.
    """

    stage: Stage
    tree: CountTree

    @property
    def column(self) -> GridColumn:
        """The column whose values are counted."""
        (column,) = self.stage.grid.values()
        return column

    def leaves(self, keys: Sequence[Key], answer: Aggregates) -> WholeNumbers:
        """The exact counts of the tree's leaves for some groups.

        Args:
            keys: The groups.
            answer: The engine's answer to `stage`.

        Returns:
            (groups, cells) counts, 0 for a group without an answer.
        """
        leaves = np.zeros((len(keys), self.tree.cells), dtype=np.int64)
        cells = answer.cells
        if cells is not None and self.stage.by_unit:
            leaves[:, 0] = matched(self.stage, cells, len(keys))
        elif cells is not None:
            places = {key: place for place, key in enumerate(keys)}
            position = np.array([places.get(key, -1) for key in answer.keys], dtype=np.int64)[cells.group]
            present = position >= 0
            leaves[position[present], cells.cell[present]] = cells.count[present]
        return leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan(QueryPlan):
    """The plan of a `Query`: noisy measures of each group, from which the named statistics are computed.

    Attributes:
        measures: The noisy counts and sums, by name.
        selection: The discovery of unknown groups; None for public groups.
        splits: The counts by cell, by the measure whose noise they get, node by node. One salt serves all stages.
        context: The context in which statistics are estimated, with the measures.
    """

    kind = "groups"

    measures: Mapping[str, Measure]
    selection: Selection | None
    splits: Mapping[str, Split]
    context: Context

    @property
    def histogram(self) -> tuple[str, Statistic] | None:
        """The name and the bins of a plan whose release has a row for each group and bin."""
        return next(((name, statistic) for name, statistic in self.query.aggregates.items() if statistic.bins), None)

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The group columns of the question, and the bin of a histogram."""
        return (*self.stage.group_columns, *(() if self.histogram is None else (self.histogram[0],)))

    @property
    def public_rows(self) -> int:
        """The number of groups, or of groups times bins for a histogram."""
        return len(self.stage.keys or ()) * (1 if self.histogram is None else len(self.histogram[1].bins))

    @property
    def discovered_cells(self) -> int:
        """The most groups that one unit brings in or takes away while groups are discovered."""
        return (1 if self.stage.table.neighbours == "add_remove" else 2) * self.bounding.entering

    @property
    def discovered_by(self) -> str:
        """The measure by which groups are discovered."""
        return "units" if self.bounding.max_discovered_groups is None else "finders"

    def _measured(self) -> dict[str, object]:
        form: dict[str, object] = {
            "measures": {name: measure.mechanism.record for name, measure in self.measures.items()},
            "threshold": None if self.selection is None else self.selection.record,
        }
        if self.splits:
            form["splits"] = {
                name: [split.tree.cells, split.tree.branching, *self._weighted(split.stage)]
                for name, split in self.splits.items()
            }
        return form

    def _weighted(self, stage: Stage) -> list[object]:
        own = [self.bounding.values] if stage.by_unit and self.bounding.values is not None else []
        return [] if isinstance(stage.table.unit, RowUnit) else [stage.split_parts, WEIGHT, *own]

    def _losses(self) -> list[Composition]:
        parts = [measure.losses() for measure in self.measures.values() if not measure.paid]
        if self.selection is not None:
            parts.append(self.selection.unit_losses(self.discovered_cells))
        return parts

    @property
    def parts_of_noise(self) -> Mapping[str, int]:
        """The parts of each measure."""
        return {name: measure.parts for name, measure in self.measures.items() if measure.parts > 1}

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The noise of each measure, the selection, and trees."""
        yield from ((name, measure.mechanism) for name, measure in self.measures.items())
        if self.selection is not None:
            yield "selection", self.selection
        yield from ((name, split.tree) for name, split in self.splits.items())

    # The run

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage of groups, where it has measures, and the splits."""
        grouped = (self.stage,) if self.stage.measures else ()
        return (*grouped, *(split.stage for split in self.splits.values()))

    def noised(self, answers: Sequence[Aggregates], source: Source) -> NoisyAnswer:
        """Select groups, add fresh noise, and compute the statistics."""
        grouped, cells = (answers[0], answers[1:]) if self.stage.measures else (self.without_measures(), answers)
        released = self.released_groups(grouped, source)
        leaves = {
            name: split.leaves(released.keys, answer)
            for (name, split), answer in zip(self.splits.items(), cells, strict=True)
        }
        return self.noisy(released, leaves, source, both=True)

    def without_measures(self) -> Aggregates:
        """The answer of a stage without measures, whose groups are public."""
        keys = self.stage.keys or ()
        return Aggregates(len(keys), keys, {})

    def released_groups(self, aggregates: Aggregates, source: Source) -> ReleasedGroups:
        """The released groups: all public ones, or the discovered ones that pass the noisy selection, sorted.

        Args:
            aggregates: The engine's exact answer.
            source: The source of noise.

        Returns:
            The groups with their exact numbers.
        """
        keys, values = aggregates.keys, aggregates.values
        if self.selection is None:
            return ReleasedGroups(keys, values)
        order, chosen = in_order(keys, self.selection.keeps(values[self.discovered_by], source=source))
        return ReleasedGroups(chosen, {name: exact[order] for name, exact in values.items()})

    def noisy(
        self, released: ReleasedGroups, leaves: Mapping[str, WholeNumbers], source: Source, *, both: bool = False
    ) -> NoisyAnswer:
        """Add fresh noise to some groups, and compute their statistics.

        Args:
            released: The groups.
            leaves: (groups, cells) exact counts by the measure of each split.
            source: The source of noise.
            both: Whether bars of the noise alone are wanted too, which a written table has no place for.

        Returns:
            The noisy rows.
        """
        mechanisms = {name: measure.mechanism for name, measure in self.measures.items()}
        sums = {
            name: mechanism.noisy(released.values[name], source=source)
            for name, mechanism in mechanisms.items()
            if name not in self.splits
        }
        trees = {
            name: [mechanisms[name].noisy(level, source=source) for level in split.tree.nodes(leaves[name])]
            for name, split in self.splits.items()
        }
        if trees:
            sums |= {name: tree[0][:, 0] for name, tree in trees.items() if self.splits[name].stage.by_unit}
        found, context = self.estimates(sums, trees), self.context
        if both and (context.lost or context.lost_groups or any(context.changes.values())):
            kept = replace(context, lost=0, lost_groups=0, lost_each=inf, changes={})
            alone = replace(self, context=kept).estimates(sums, trees)
            found = tuple(replace(one, noise=(near.lower, near.upper)) for one, near in zip(found, alone, strict=True))
        return NoisyAnswer(self.rows_of(released.keys), found)

    def rows_of(self, groups: Sequence[Key]) -> tuple[Key, ...]:
        """The keys of the release's rows: one for each group, or for each group and bin of a histogram."""
        if self.histogram is None:
            return groups if isinstance(groups, tuple) else tuple(groups)
        return tuple((*key, label) for key in groups for label in self.histogram[1].bins)

    def estimates(
        self, sums: Mapping[str, WholeNumbers], trees: Mapping[str, Sequence[WholeNumbers]]
    ) -> tuple[Estimate, ...]:
        """Compute every statistic of every group from noisy numbers. Post-processing: nothing here is exact.

        Args:
            sums: (groups,) noisy whole numbers by measure, in parts of a step.
            trees: (groups, nodes) noisy counts for each level of a tree, by measure.

        Returns:
            The statistics in the order of the plan. A list of quantiles gives one a rank. Each bar holds alone, with
                the
            confidence of releases over the noise.
        """
        numbers = NoisyNumbers(sums, trees)
        lost, found = max(self.context.lost, self.context.lost_groups), list[Estimate]()
        for name, statistic in self.query.aggregates.items():
            own = self.context.of(statistic)
            sure = CONFIDENCE + LOSS_FAILURE * (bool(lost) + bool(own.clipped))
            found += statistic.estimate(name, numbers, own, sure)
        if max([lost, *self.context.changes.values()]) < inf:
            return (*found,)
        ends = (
            [[None if end in {inf, -inf} else end for end in side] for side in (one.lower, one.upper)] for one in found
        )
        return tuple(replace(one, lower=low, upper=high) for one, (low, high) in zip(found, ends, strict=True))

    def after_loss(self, lost: Mapping[str, Any]) -> Self:
        """The plan whose bars hold what limits and clipping took: (L1) and (L5) of docs/proofs/lost-rows.md."""
        groups, rows, changes = taken(lost, units_alone=self.query.units_alone)
        each = lost["each"] if self.loss is not None and self.loss.noun == "value" else inf
        context = replace(self.context, lost=rows, lost_groups=groups, lost_each=each, changes=changes)
        return replace(self, context=context)

    # Errors

    def _errors(self) -> tuple[ExpectedError, ...]:
        """The error of each statistic, from the laws of noise alone."""
        return tuple(
            error
            for name, one in self.query.aggregates.items()
            for error in one.expected(name, self.context, CONFIDENCE)
        )

    def noise_of_limit(self, name: str) -> float:
        """That of all statistics over what one lost row costs all. A total counts in values of the largest size.

        One that is divided counts in half of it, because its noise is as bad beside typical values.
        """
        own, noise, lost = self.bounding, 0.0, 0.0
        apart = self.query.units_beside and (own.norm is None or own.units_groups is not None)
        ratio = OF_ALL_ROWS if self.stage.keys == ((),) else RATIO
        for asked, statistic in self.query.aggregates.items():
            if (statistic.counts_values and own.values is not None) is not (name == "values"):
                continue
            if apart and name != "values" and statistic.counts_units is not (name == "max_groups"):
                continue
            terms = self.context.whole(statistic.main_measure(self.context))
            measure = self.measures[terms[0]]
            what, _, column = measure.name.partition(":")
            cell = self.stage.grid.get(column) or self.stage.moments.get(column)
            value: float = max(abs(cell.low), abs(cell.high)) if cell is not None and what == "total" else 1
            divided = asked in self.query.after.divided
            value /= 1 + (divided and what == "total")
            if measure.row:  # in rows: their number itself, or a mean, whose largest value is half the span
                value = 1 / 2 if len(terms) == 1 else 1
            limits = {
                "norm": own.norm,
                "values": own.values,
                "max_groups": own.max_groups if own.units_groups is None else sqrt(own.units_groups),
            }
            limit = limits.get(name) or own.rows or own.max_rows_per_group
            size = measure.mechanism.mean_size * sqrt(len(terms)) / measure.parts / value
            noise += size * statistic.noise_factor(self.context) / float(limit)
            lost += ratio if divided or statistic.lost_row == RATIO else statistic.lost_row
        return noise / lost

    # Words

    def _explain_keys(self) -> Explained:
        columns = ", ".join(self.stage.group_columns)
        if self.stage.keys == ((),):
            return Explained("one group: all rows")
        if self.selection is None:
            return Explained(f"group by {columns}: {len(self.stage.keys or ())} public keys, empty ones appear too")
        few = self.bounding.max_discovered_groups
        only = "" if few is None else f", by units that have a group among the first {few} of their kept ones"
        limit = "max_groups" if few is None else "max_discovered_groups"
        change = f"{limit} = {self.bounding.entering}: a unit can change which of {self.discovered_cells} groups exist"
        return Explained(
            f"group by {columns}: keys discovered privately{only}", nodes(*self.selection.explanation, change)
        )

    def _explain_trees(self) -> Iterator[Explained]:
        for split in self.splits.values():
            column, tree = split.column, split.tree
            if split.stage.by_unit:
                yield Explained(f"count distinct values of {column.column}, each through one unit: a maximum matching")
                continue
            if self.histogram is not None:
                bins = "a unit with more rows in a group counts for the most allowed, over all bins together"
                yield Explained(f"count values by {tree.cells:,} bins: {self.histogram[1]}", nodes(bins))
                continue
            step, low = float(column.bounds.step), float(column.bounds.low)
            levels = f"{tree.levels} level{'s' * (tree.levels > 1)}, {tree.branching} children a node"
            lines = [
                "a unit with more rows counts for the most allowed, each of its values for an equal part",
                f"a tree of {levels}: every rank is read from the same noisy counts",
            ]
            lines += [
                f"{name} = {statistic}: {statistic.explanation}"
                for name, statistic in self.query.aggregates.items()
                if statistic.explanation
            ]
            counted = f"count values of {column.column} by {tree.cells:,} cells of {step:g}, from {low:g} on"
            yield Explained(counted, nodes(*lines))

    def _explain_noise(self) -> tuple[Explained, ...]:
        shares = Explained("how the spend is shared", nodes(*self.why))
        statistics = nodes(*(f"{name} = {statistic}" for name, statistic in self.query.aggregates.items()))
        return Explained("noise", (*map(self.explain_measure, self.measures), shares)), Explained(
            "statistics", statistics
        )

    def explain_measure(self, name: str) -> Explained:
        """A measure in words, with its sensitivity and its noise."""
        measure = self.measures[name]
        change = measure.sensitivity
        reach = change.why if name in self.splits else f"over at most {change.cells:,} groups: {change.why}"
        size, scale = measure.mechanism.calibration(measure.parts)
        return Explained(f"{self._label(name)}: {measure.noise_in_words}", nodes(f"{size}, {reach}", scale))

    def _label(self, name: str) -> str:
        what, _, column = name.partition(":")
        if not column:
            return f"number of {what}"
        if what == "empty":
            of = self.stage.moments[column].present if column in self.stage.moments else (self.stage.grid[column],)
            return f"rows that are not in the number of values of {' and '.join(one.column for one in of)}, at the same price"
        if what == "cells":
            number = "number of distinct" if self.splits[name].stage.by_unit else "each node's number of"
            return f"{number} values of {self.splits[name].column.column}"
        if column in self.stage.moments:
            moment = self.stage.moments[column]
            if what == "filled":
                return f"number of rows with {' and '.join(part.column for part in moment.present)}"
            product = " times ".join(factor.column for factor in moment.factors)
            return f"total of {product} in steps" + (f", each less {moment.centre:,}" if moment.centre else "")
        grid = self.stage.grid[column]
        if self.measures[name].row:
            return f"rows with {grid.column} at its {'lower' if what == 'short' else 'upper'} bound, each shared with the other"
        if what in {"filled", "units"}:
            return f"number of {'values' if what == 'filled' else 'units with a value'} of {grid.column}"
        return f"total of {grid.column} in steps of {float(grid.bounds.step):g}"

    def _notes_of_answers(self) -> tuple[str, ...]:
        notes = []
        for split in self.splits.values():
            if self.histogram is not None:
                bins = "A unit with more rows counts for the most allowed, over all bins."
                notes.append(f"Values outside all bins are left out. {bins}")
                continue
            column = split.column
            if split.stage.by_unit:
                notes.append(f"Each value of {column.column} counts through one of the units that have it.")
                continue
            notes.append(
                f"Quantiles of {column.column} lie on a grid with steps of {float(column.bounds.step):g}; a unit with more "
                "rows counts for the most allowed, each of its values for an equal part."
            )
        products = (one.factors for one in self.stage.moments.values() if len(one.factors) > 1)
        if grids := {part.column: f"{float(part.bounds.step):g} ({part.column})" for pair in products for part in pair}:
            steps = " and ".join(grids.values())
            notes.append(
                f"What is made of squares and products is of values in steps of {steps}; bars leave that rounding out."
            )
        if self.selection is not None:
            notes.append(
                "Groups were discovered privately: small ones are missing. The bars use noise separate from that."
            )
        return tuple(notes)


def by_group(plan: Plan) -> GroupPlan | None:
    """The plan if it adds noise group by group, so that groups can be answered apart; else None.

    A plan with questions asked first is answered whole: how far their numbers move rows is in no group's bar.
    """
    if not isinstance(plan, GroupPlan) or plan.query.groups.rows.first or plan.compared:
        return None
    return plan


def sort_key(key: Key) -> tuple[tuple[bool, str, object], ...]:
    """The sort key of a group: value by value, NULL last. Engines sort text by its bytes, which is the same order."""
    return tuple((value is None, type(value).__name__, "" if value is None else value) for value in key)


def context_of(query: Query, bounding: ContributionBounds, parts: int) -> Context:
    """The context of statistics before the budget is split.

    Args:
        query: The query.
        bounding: The bounds of a unit.
        parts: The most parts of a step in which rows of different weights are counted.

    Returns:
        The context, without measures.
    """
    keys = query.groups.keys
    return Context(
        table=query.table,
        statistics=tuple(query.aggregates.values()),
        reach=Contribution(
            rows_per_group=bounding.max_rows_per_group,
            groups_per_unit=bounding.max_groups,
            groups=None if keys is None else len(keys),
            rows_per_unit=bounding.rows,
            norm=bounding.norm,
            values=bounding.values,
            units=None if bounding.units_groups is None else root_above(Fraction(bounding.units_groups)),
        ),
        parts=1 if isinstance(query.table.unit, RowUnit) else parts,
        one_value=isinstance(query.table.unit, RowUnit) and keys == ((),) and not query.groups.rows.conditions,
    )


def plan_groups(
    query: Query, *, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None = None
) -> GroupPlan:
    """Plan the statistics of groups within limits that are all numbers, without margins and workloads.

    Args:
        query: The query.
        spend: The spend.
        limits: The limits, all numbers.
        importance: The relative importance of each statistic's error, by name. Default 1.

    Returns:
        The plan.

    Raises:
        QueryError: A limit is missing.
        ParameterError: A limit or an importance makes no sense for this question.
        PrivacyError: The spend cannot pay for the question.
    """
    bounding, weights = contribution_bounds(query, limits), _weights(query, importance or {})
    alone = replace(query, groups=replace(query.groups, margins=(), linear_workload=None))
    widest = _WIDEST if alone.groups == query.groups else _WIDEST_OF_GROUPS
    return _plan_groups(alone, bounding, spend, weights, widest)


def _weights(query: Query, weights: Mapping[str, Number]) -> Mapping[str, float]:
    for name, weight in weights.items():
        if name not in query.aggregates:
            raise ParameterError(
                "importance", name, f"must name statistics of the question: {', '.join(query.aggregates)}"
            )
        positive(importance=rational(importance=weight))
    return {name: float(rational(importance=weights.get(name, 1))) for name in query.aggregates}


@dataclass(frozen=True, slots=True)
class _Draft:
    """The measures that a query needs, by name, before the budget is split among them.

    Attributes:
        needed: The measures.
        context: The context of the query.
        fixed: Measures that no others can stand for.
    """

    needed: Mapping[str, Measurement]
    context: Context
    fixed: frozenset[str] = frozenset()

    def halved(self) -> "_Draft | None":
        """The draft in which rows with a value and rows without are measured at one price, in place of all; or None."""
        context, rows = self.context, self.context.rows
        numbers = [need for name, need in self.needed.items() if need.others or name.startswith("filled:")]
        if rows not in self.needed or rows in self.fixed or not numbers:
            return None
        number = max(numbers, key=lambda need: need.weight * need.parts)
        needed = {name: need for name, need in self.needed.items() if name != rows}
        needed[number.name] = context.halved(number, self.needed[rows])
        return _Draft(needed, replace(context, halves=(number.name, *needed[number.name].others)))

    @property
    def trees(self) -> dict[str, tuple[GridColumn, CountTree]]:
        """The measures by cell, each with its one column and its tree."""
        return {name: (need.grid[0], need.tree) for name, need in self.needed.items() if need.tree is not None}

    @property
    def grid(self) -> dict[str, GridColumn]:
        """The columns of all other measures."""
        return {column.name: column for need in self.needed.values() if need.tree is None for column in need.grid}

    @property
    def moments(self) -> dict[str, Moment]:
        """The products among the totals of the other measures."""
        return {need.cell.name: need.cell for need in self.needed.values() if isinstance(need.cell, Moment)}


def _draft(query: Query, context: Context, weights: Mapping[str, float], power: float) -> _Draft:
    """The draft of a query. A node's deviation grows like levels**power: 1 for Laplace noise, 1/2 for normal noise."""
    needed, fixed = dict[str, Measurement](), set[str]()
    for name, statistic in query.aggregates.items():
        for need in statistic.measurements(context, weights[name], power):
            known = needed.get(need.name)
            needed[need.name] = need if known is None else _joined(known, need)
            fixed |= set() if statistic.adds_rows else {need.name}
    return _Draft(needed, context, frozenset(fixed))


def _joined(one: Measurement, other: Measurement) -> Measurement:
    """One measure for two statistics, with the sum of its weights in their bars."""
    grid = (*one.grid, *(column for column in other.grid if column not in one.grid))
    return replace(other, weight=one.weight + other.weight, grid=grid)


def _plan_groups(
    query: Query, bounding: ContributionBounds, spend: Budget, weights: Mapping[str, float], widest: int
) -> GroupPlan:
    table, keys = query.table, query.groups.keys
    discovery = None
    if keys is None:
        reach = Contribution(rows_per_group=1, groups_per_unit=bounding.entering, groups=None)
        of_rows = any(not aggregate.counts_units for aggregate in query.aggregates.values())
        rows = rows_found(bounding) if of_rows else 1
        discovery = Discovery(sensitivity.of_units(table.neighbours, reach), bounding.entering, rows)
    for parts in _PARTS:  # the finest whose noise can be drawn
        context = context_of(query, bounding, parts)
        with suppress(ParameterError):
            draft, allotted = _shared(query, context, weights, discovery, spend)
            if all(law.noise_scale <= widest for law in allotted.noise.values()):
                break
    else:
        draft, allotted = _shared(query, context, weights, discovery, spend)
    measures = {
        name: Measure(
            name=name, sensitivity=need.sensitivity, mechanism=allotted.noise[name], parts=need.parts, row=need.row
        )
        for name, need in draft.needed.items()
    }
    for need in draft.needed.values():
        measures |= {other: replace(measures[need.name], name=other, paid=True) for other in need.others}
    names = tuple(name for name in measures if name not in draft.trees)
    if discovery is not None and bounding.max_discovered_groups is not None:
        names = ("finders", *names)
    elif discovery is not None and "units" not in measures:
        names = ("units", *names)
    stage = replace(
        _stage(query, bounding, draft.grid, names),
        units_norm=draft.context.reach.units_norm,
        moments=draft.moments,
        parts=_finer(draft, measures, names),
    )
    splits = _splits(stage, draft)
    return GroupPlan(
        query=query,
        bounding=bounding,
        spend=spend,
        price=allotted.price,
        stage=stage,
        measures=measures,
        selection=allotted.selection,
        splits=splits,
        context=replace(draft.context, measures=measures, trees={name: split.tree for name, split in splits.items()}),
        why=allotted.why,
        error=allotted.error,
    )


def _shared(
    query: Query, context: Context, weights: Mapping[str, float], discovery: Discovery | None, spend: Budget
) -> tuple[_Draft, Allocation]:
    """The best of the ways of spending."""
    norm = context.reach.norm is not None
    drafts = [_draft(query, context, weights, power) for power in ((0.5,) if norm else (1.0, 0.5))]
    if not drafts[0].trees:
        del drafts[1:]
    drafts += [one for draft in drafts if (one := draft.halved()) is not None]
    found = [(draft, allocate(tuple(draft.needed.values()), discovery, spend, normal=norm)) for draft in drafts]
    return min(found, key=lambda one: one[1].error)


def _finer(draft: _Draft, measures: Mapping[str, Measure], names: Sequence[str]) -> dict[str, int]:
    """The parts of each measure whose rows have weights, or that counts rows beside others that are shared. A total of
    these is in steps.
    """
    if draft.context.parts == 1 and isinstance(draft.context.table.unit, RowUnit):
        return {name: measures[name].row for name in names if name.startswith("empty:") and measures[name].row}
    whole = {"units", "finders"} if draft.context.reach.units_norm is None else {"finders"}
    if draft.context.reach.rows_per_unit is None and draft.context.reach.norm is None:
        whole.add("rows")
    steps = {name: 1 if name.startswith("empty:") else measures[name].row or 1 for name in names if name not in whole}
    return {name: measures[name].parts // row for name, row in steps.items()}


def _splits(stage: Stage, draft: _Draft) -> dict[str, Split]:
    """A statement for each tree, which keeps a unit in the same groups."""
    alone, found = replace(stage, moments={}, measures=()), dict[str, Split]()
    if stage.norm is not None:  # a norm keeps all groups of a unit
        alone = replace(alone, discovery_groups=None)
    for name, (column, tree) in draft.trees.items():
        need, reach = draft.needed[name], draft.context.reach
        reach = reach.of_values if need.by_unit else reach
        cells = replace(
            alone,
            grid={column.name: column},
            split=column.name,
            parts={column.name: need.parts},
            by_unit=need.by_unit,
            rows_per_group=reach.rows_per_group,
            rows_per_unit=reach.rows_per_unit,
            norm=reach.norm,
        )
        found[name] = Split(stage=cells, tree=tree)
    return found


def _stage(
    query: Query, bounding: ContributionBounds, grid: Mapping[str, GridColumn], measures: tuple[str, ...]
) -> Stage:
    table, keys = query.table, query.groups.keys
    capped = not isinstance(table.unit, RowUnit) and (keys is None or bounding.max_groups < len(keys))
    capped = capped and bounding.norm is None
    return Stage(
        table=table,
        conditions=query.groups.rows.conditions,
        group_columns=query.groups.columns,
        keys=keys,
        grid=grid,
        measures=measures,
        rows_per_group=bounding.max_rows_per_group,
        groups_per_unit=bounding.max_groups if capped else None,
        rows_per_unit=bounding.rows,
        discovery_groups=bounding.max_discovered_groups,
        norm=bounding.norm,
    )
