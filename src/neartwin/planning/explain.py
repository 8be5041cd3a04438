"""A plan as a tree in which every number says why it is what it is.

A tree of words, and what it says of a first stage that chooses bounds.
"""

import math
from dataclasses import dataclass

from neartwin.mechanisms.selection.thresholds import Selection
from neartwin.planning.contribution_bounds import ContributionBounds
from neartwin.planning.pilot_bounds import CONFIDENCE, groups_counted
from neartwin.planning.plan import GroupPlan, MarginalPlan, Pilot, Plan, QueryPlan, TopKPlan, WorkloadPlan
from neartwin.planning.stage import Stage
from neartwin.queries.groups import named
from neartwin.statistics.measures import Noise
from neartwin.tables.table import Join, JoinKind, Table


@dataclass(frozen=True, slots=True)
class Explained:
    """A node: one line, and what stands under it. `str` draws the tree."""

    line: str
    under: tuple["Explained", ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._drawn("", ""))

    def _drawn(self, first: str, rest: str) -> list[str]:
        lines = [first + self.line]
        for place, node in enumerate(self.under):
            last = place == len(self.under) - 1
            lines += node._drawn(rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))  # noqa: SLF001
        return lines


def explained_pilot(plan: QueryPlan) -> tuple[Explained, ...]:
    """What is chosen first, how, and by what: one node, or none where nothing is tuned."""
    pilot = plan.pilot
    if pilot is None:
        return ()
    bounds = {"max_rows_per_group": pilot.rows, "max_groups": pilot.groups, "norm": pilot.norm}
    tuned = [name for name, bound in bounds.items() if bound]
    bar = pilot.mechanism.half_width(CONFIDENCE) / 1024
    lines = (
        "sensitivity 1,024 parts: a unit's groups share one unit among the cells, however many they are",
        f"noise of ± {bar:.3g} units a cell; a cell within the noise counts as empty",
        *_weighed(plan, pilot),
        f"the question then spends {pilot.rest}; the plan below is the worst case, at the largest bounds",
    )
    return (
        Explained(
            f"first choose {' and '.join(tuned)} from noisy counts of units by groups and rows, in octaves",
            tuple(map(Explained, lines)),
        ),
    )


def _weighed(plan: QueryPlan, pilot: Pilot) -> tuple[str, ...]:
    if isinstance(plan, GroupPlan):
        return ()
    answers = "a cell of each margin" if plan.query.groups.margins else "an answer, on average,"
    share = f"{groups_counted(plan):,.4g} of {pilot.expected_groups:,} groups"
    return (
        f"the bound has the least expected error, from noise and from lost rows: {answers} counts {share}, and loses their "  # noqa: ISC004
        "share of the rows lost to scaling; the release says about how many rows those are",
    )


def explain(plan: Plan) -> Explained:
    """The walk of a plan, from its source to its price, as a tree."""
    if isinstance(plan, TopKPlan):
        return _choice(plan)
    if isinstance(plan, MarginalPlan):
        return _margins(plan)
    if isinstance(plan, WorkloadPlan):
        return _workload(plan)
    return _groups(plan)


def _groups(plan: GroupPlan) -> Explained:
    stage, bounding = plan.stage, plan.bounding
    measures = tuple(_measure(plan, name) for name in plan.measures)
    outputs = Explained("statistics", tuple(Explained(f"{name} = {it}") for name, it in plan.outputs.items()))
    bound = Explained("bound each unit", _bounds(stage, bounding))
    return Explained(
        f"release of {stage.table.name!r}: {plan.price}",
        (
            _source(stage.table),
            *_together(plan),
            *_filter(stage),
            _keys(plan),
            *_clips(stage),
            *_ranging(plan),
            *explained_pilot(plan),
            *_trees(plan),
            bound,
            Explained("noise", (*measures, Explained("how the spend is shared", tuple(map(Explained, plan.why))))),
            outputs,
        ),
    )


def _bounds(stage: Stage, bounding: ContributionBounds) -> tuple[Explained, ...]:
    if bounding.norm is not None:
        return (
            Explained(
                f"norm = {float(bounding.norm):g} rows: a unit whose vector over groups and statistics is "
                "longer is scaled down in all of them, toward zero; no row is dropped",
                (Explained("one normal mechanism in any number of groups; over the nodes of a tree one of its own"),),
            ),
        )
    return (
        Explained(
            f"max_rows_per_group = {bounding.max_rows_per_group}: more rows of a unit in a group are weighted down to it"
        ),
        Explained(f"max_groups = {bounding.max_groups}: {_chosen(stage)}"),
        *_in_all(bounding.rows),
    )


def _workload(plan: WorkloadPlan) -> Explained:
    stage, measure = plan.stage, plan.measure
    table = (
        f"one table by {', '.join(stage.group_columns)}: {len(stage.keys or ()):,} public keys, empty ones appear too"
    )
    noise = Explained(
        f"{len(plan.strategy.table):,} sums are measured ({plan.strategy.name}): {_law(measure.mechanism, measure.parts)}",
        (Explained(measure.sensitivity.why), Explained("how it was chosen", tuple(map(Explained, plan.why)))),
    )
    answers = (
        f"{len(plan.resolved.keys):,} answers ({plan.query.groups.asked}), by least squares from those, consistent"
    )
    return Explained(
        f"release of {stage.table.name!r}: {plan.price}",
        (
            _source(stage.table),
            *_together(plan),
            *_filter(stage),
            Explained(table),
            *_clips(stage),
            *explained_pilot(plan),
            Explained("bound each unit", _bounds(stage, plan.bounding)),
            noise,
            Explained(answers, tuple(Explained(f"{name} = {asked}") for name, asked in plan.outputs.items())),
        ),
    )


def _margins(plan: MarginalPlan) -> Explained:
    columns = plan.query.groups.columns
    asked = "; ".join(named(columns, margin) for margin in plan.query.groups.margins)
    deviations = {
        name: math.sqrt(plan.design.variances[margin]) * float(plan.unit)
        for name, margin in zip(plan.measures, plan.measured, strict=True)
    }
    measured = [
        Explained(
            f"margin {name}: noise of deviation {deviations[name]:,.4g} a cell",
            (Explained(f"sensitivity {measure.sensitivity.l1}: {measure.sensitivity.why}"),),
        )
        for name, measure in plan.measures.items()
    ]
    table = Explained(
        f"one table by {', '.join(columns)}: {len(plan.stage.keys or ())} public keys, empty ones appear too"
    )
    outputs = Explained(f"margins asked for, by least squares from those: {asked}")
    return Explained(
        f"release of {plan.stage.table.name!r}: {plan.price}",
        (
            _source(plan.stage.table),
            *_together(plan),
            *_filter(plan.stage),
            table,
            *_clips(plan.stage),
            *explained_pilot(plan),
            Explained("bound each unit", _bounds(plan.stage, plan.bounding)),
            Explained("noise", (*measured, Explained("what is measured, and why", tuple(map(Explained, plan.why))))),
            outputs,
        ),
    )


def _choice(plan: TopKPlan) -> Explained:
    query, chosen = plan.query, plan.mechanism
    many = f", {query.k} times, each among what is left" if query.k > 1 else ""
    parts = [Explained(plan.why), Explained(f"each choice costs epsilon {float(chosen.each.epsilon):g}")]
    if plan.counts is None:
        parts.append(Explained("only what wins is released; a count would need noise of its own"))
    noise = [Explained(f"permute and flip{many}, scale {float(chosen.each.scale):g}", tuple(parts))]
    if plan.counts is not None:
        why = Explained(f"sensitivity {plan.counts.sensitivity.l1}: {plan.counts.sensitivity.why}")
        noise.append(Explained(f"the winners' counts, for half of the spend: {_law(plan.counts.mechanism)}", (why,)))
    count = Explained(f"count distinct units by {plan.query.column!r} over {len(plan.query.among)} public values")
    return Explained(
        f"release of {plan.query.table.name!r}: {plan.price}",
        (_source(plan.query.table), *_together(plan), *_filter(plan.stage), count, *noise),
    )


def _together(plan: Plan) -> tuple[Explained, ...]:
    if plan.together is None:
        return ()
    why = Explained(f"one alone has {plan.price}, which is what the account is charged; groups follow by theorem")
    return (Explained(f"promised to up to {plan.together.units} units together: {plan.together.promise}", (why,)),)


def _source(table: Table) -> Explained:
    relation = "adding or removing" if table.neighbours == "add_remove" else "replacing"
    reach = "" if not table.joins else ": all its rows in all private tables"
    neighbours = Explained(f"neighbours: {relation} one unit{reach}")
    return Explained(
        f"table {table.name!r}, unit {table.unit_name}",
        (neighbours, *(_join(join, str(table.unit)) for join in table.joins)),
    )


def _join(join: Join, unit: str) -> Explained:
    equated = next((f"{left!r} here is {right!r} there" for left, right in join.on if left == unit), "")
    why = {
        JoinKind.PUBLIC: "anyone may know its rows; rows that it multiplies are bounded like others",
        JoinKind.SAME_UNIT: f"the units are always equated: {equated}; a row meets rows of its own unit alone",
        JoinKind.OWNED: "a row is its owner's: the unit with its key, the first by MD5 where several have it",
    }
    return Explained(str(join), (Explained(why[join.kind]),))


def _filter(stage: Stage) -> tuple[Explained, ...]:
    local = (Explained("looks at one row at a time, cannot fail"),)
    return tuple(Explained(f"where {condition.text}", local) for condition in stage.conditions)


def _keys(plan: GroupPlan) -> Explained:
    columns = ", ".join(plan.stage.group_columns)
    if plan.stage.keys == ((),):
        return Explained("one group: all rows")
    if plan.selection is None:
        return Explained(f"group by {columns}: {len(plan.stage.keys or ())} public keys, empty ones appear too")
    few = plan.bounding.max_discovered_groups
    only = "" if few is None else f", by units that have a group among the first {few} of their kept ones"
    return Explained(f"group by {columns}: keys discovered privately{only}", _discovered(plan, plan.selection))


def _discovered(plan: GroupPlan, selection: Selection) -> tuple[Explained, ...]:
    change = (
        f"{_entering(plan)} = {plan.bounding.entering}: a unit can change which of {plan.discovered_cells} groups exist"
    )
    return tuple(map(Explained, (*selection.explanation, change)))


def _in_all(most: int | None) -> tuple[Explained, ...]:
    line = f"rows = {most}: a unit that counts for more over its groups is weighted down to it in all of them"
    return () if most is None else (Explained(line),)


def _entering(plan: GroupPlan) -> str:
    return "max_groups" if plan.bounding.max_discovered_groups is None else "max_discovered_groups"


def _ranging(plan: GroupPlan) -> tuple[Explained, ...]:
    ranging = plan.ranging
    if ranging is None:
        return ()
    under = tuple(
        Explained(
            f"{next(iter(one.outputs.values()))}: {one.price}", tuple(_measure(one, name) for name in one.measures)
        )
        for one in ranging.asked
    )
    told = Explained(f"the question then spends {ranging.rest}; the plan below is the worst case, at the widest bounds")
    return (Explained("first choose clip bounds of values, from noisy counts of one value a unit", (*under, told)),)


def _chosen(stage: Stage) -> str:
    if stage.groups_per_unit is None:
        return "no unit can be in more"
    return "a unit in more groups keeps those with most of its rows; a salted hash breaks ties"


def _clips(stage: Stage) -> tuple[Explained, ...]:
    return tuple(
        Explained(
            f"clip {column.column} to {column.bounds}",
            (
                Explained(
                    f"as whole steps, from {column.low} to {column.high} around {column.centre}: sums are exact integers"
                ),
            ),
        )
        for column in stage.grid.values()
    )


def _trees(plan: GroupPlan) -> tuple[Explained, ...]:
    found = []
    for split in plan.splits.values():
        (column,) = split.stage.grid.values()
        tree, step = split.tree, float(column.bounds.step)
        if plan.histogram is not None:
            bins = Explained("a unit with more rows in a group counts for the most allowed, over all bins together")
            found.append(Explained(f"count values by {tree.cells:,} bins: {plan.histogram[1]}", (bins,)))
            continue
        found.append(
            Explained(
                f"count values of {column.column} by {tree.cells:,} cells of {step:g}, from {float(column.bounds.low):g} on",
                (
                    Explained(
                        "a unit with more rows counts for the most allowed, each of its values for an equal part"
                    ),
                    Explained(
                        f"a tree of {tree.levels} level{'s' * (tree.levels > 1)}, {tree.branching} children a node: every rank "
                        "is read from the same noisy counts"
                    ),
                    *_reaches(plan),
                ),
            )
        )
    return tuple(found)


def _reaches(plan: GroupPlan) -> tuple[Explained, ...]:
    """What statistics read from a tree mean."""
    return tuple(
        Explained(f"{name} = {asked}: {why}")
        for name, asked in plan.outputs.items()
        if (why := asked.explanation()) is not None
    )


def _measure(plan: GroupPlan, name: str) -> Explained:
    measure = plan.measures[name]
    needed, mechanism = measure.sensitivity, measure.mechanism
    reach = f"over at most {needed.cells:,} groups: {needed.why}"
    if plan.shared is not None:
        reach = f"alone: {needed.why}"
    size, scale = mechanism.calibration()
    why = (Explained(f"{size}, {reach}"), Explained(scale))
    return Explained(f"{_label(plan, name)}: {_law(mechanism, measure.parts)}", why)


def _law(mechanism: Noise, parts: int = 1) -> str:
    finer = f", drawn in parts of 1/{parts:,}" if parts > 1 else ""
    return f"{mechanism.words(parts)}{finer}"


def _label(plan: GroupPlan, name: str) -> str:
    what, _, column = name.partition(":")
    if not column:
        return f"number of {what}"
    if what == "cells":
        (counted,) = plan.splits[name].stage.grid.values()
        return f"each node's number of values of {counted.column}"
    if column in plan.stage.moments:
        moment = plan.stage.moments[column]
        of = " times ".join(factor.column for factor in moment.factors)
        if what == "filled":
            return f"number of rows with {' and '.join(part.column for part in moment.present)}"
        return f"total of {of} in steps" + (f", each less {moment.centre:,}" if moment.centre else "")
    grid = plan.stage.grid[column]
    if what == "filled":
        return f"number of values of {grid.column}"
    return f"total of {grid.column} in steps of {float(grid.bounds.step):g}"
