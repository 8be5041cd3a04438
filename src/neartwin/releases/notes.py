"""What a reader of a release must know of its bars, bounds and units: words that follow from the plan alone."""

from typing import assert_never

from neartwin.queries.plan import Bounding, ChoicePlan, GroupPlan, MarginalPlan, Plan, WorkloadPlan
from neartwin.releases.margins import WHOLE_TABLE
from neartwin.releases.noising import CONFIDENCE

_WORKLOAD = (
    "All answers are sums of one estimate of the groups: what the same groups make up adds up. Rows outside the public keys are "
    "in none. Single answers may be negative or no whole numbers."
)


def notes_of(plan: Plan) -> tuple[str, ...]:
    """What a reader of the release must know."""
    match plan:
        case ChoicePlan():
            return (_of_choice(plan), *_of_together(plan))
        case MarginalPlan():
            return (*_of_bounding(plan), WHOLE_TABLE, *_of_together(plan))
        case WorkloadPlan():
            return (*_of_bounding(plan), _WORKLOAD, *_of_together(plan))
        case GroupPlan():
            return _of_groups(plan)
        case _:
            assert_never(plan)


def _of_choice(plan: ChoicePlan) -> str:
    if plan.counts is None:
        return "What wins is released alone: its count and the runners-up are not, and asking for them costs more."
    return (
        f"Each count has fresh noise, and its bar holds with probability at least {CONFIDENCE:.0%}; which values won was decided "
        "with other noise."
    )


def _of_groups(plan: GroupPlan) -> tuple[str, ...]:
    notes = [*_of_bounding(plan)]
    for split in plan.splits.values():
        (column,) = split.stage.grid.values()
        if plan.histogram is not None:
            notes.append(
                "Values outside all bins are left out. A unit with more rows counts for the most allowed, over all bins."
            )
            continue
        notes.append(
            f"Quantiles of {column.column} lie on a grid with steps of {float(column.bounds.step):g}; a unit with more rows "
            "counts for the most allowed, each of its values for an equal part. A minimum or maximum is what values certainly "
            "reach: some may lie beyond."
        )
    notes += _of_together(plan)
    if plan.selection is not None:
        notes.append("Groups were discovered privately: small ones are missing. The bars use noise separate from that.")
    return tuple(notes)


def _of_together(plan: Plan) -> list[str]:
    """What one unit alone is promised, where several together are."""
    together = plan.together
    if together is None:
        return []
    note = f"The guarantee is for up to {together.units} units changed together"
    return [f"{note}; one alone has {plan.price}, and that is what the account was charged."]


def _bounded(bounding: Bounding) -> str:
    if bounding.norm_per_unit is not None:
        return (
            "a unit's whole vector of contributions, over groups and statistics, is scaled down to a norm of "
            f"{float(bounding.norm_per_unit):g} rows; no row is dropped"
        )
    total = "" if bounding.rows_per_unit is None else f", for {bounding.rows_per_unit} rows in all"
    return (
        f"a unit counts for at most {bounding.rows_per_group} rows in a group and in at most "
        f"{bounding.groups_per_unit} groups{total}"
    )


def _of_bounding(plan: GroupPlan | MarginalPlan | WorkloadPlan) -> tuple[str, ...]:
    """What a reader must know of bars, bounds and units."""
    bounding = plan.bounding
    notes = [f"Each bar holds alone with probability at least {CONFIDENCE:.0%}, around the bounded statistic."]
    if isinstance(plan.stage.table.unit, str):
        notes.append(
            f"Bounded: {_bounded(bounding)}. The bias of this and of clipping is not in the bars, and unknown."
        )
        if plan.stage.table.period is not None:
            notes.append(
                f"Protected is one {plan.stage.table.unit_name}: who has rows in m of them is protected as a group of m."
            )
    else:
        notes.append("Each row is protected as its own unit: people with several rows are protected less.")
    return tuple(notes)
