"""What a plan comes to once its private first stages have chosen its bounds: the plan that is then run, and what is told of it.

The first stages are part of the plan's price, and what they show is noisy: the bounds that follow are post-processing of it. All
that they read comes back to this process, a few thousand numbers at most; so a release that stays distributed tunes here too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from neartwin import noise
from neartwin.engines.base import SALT_BITS, Engine
from neartwin.planning import pilot_bounds, pilot_ranges
from neartwin.planning.explain import explain
from neartwin.planning.plan import GroupPlan, MarginalPlan, OverGroups, Pilot, Plan, Ranging, WorkloadPlan
from neartwin.releases.noising import CONFIDENCE, answered
from neartwin.releases.provenance import method_after_pilot, method_after_ranging, method_of, notes_of


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """A plan whose bounds are numbers, and what a reader must know of them: notes, the whole walk in words, and as data."""

    plan: Plan
    notes: tuple[str, ...]
    explanation: str
    method: Mapping[str, Any]


def resolve(plan: Plan, engine: Engine, source: noise.Source) -> ResolvedPlan:
    """The plan at the bounds that it tunes, first those of values, then those of contributions; itself where it tunes none."""
    match plan:
        case GroupPlan(ranging=Ranging() as ranging):
            return _ranged(plan, ranging, engine, source)
        case (
            GroupPlan(pilot=Pilot() as pilot)
            | MarginalPlan(pilot=Pilot() as pilot)
            | WorkloadPlan(pilot=Pilot() as pilot)
        ):
            return _piloted(plan, pilot, engine, source)
        case _:
            return ResolvedPlan(plan, notes_of(plan), str(explain(plan)), method_of(plan, CONFIDENCE))


def _ranged(plan: GroupPlan, ranging: Ranging, engine: Engine, source: noise.Source) -> ResolvedPlan:
    """Noisy counts of values, the clip bounds that they suggest, and the question at those bounds, tuned in turn or not."""
    answers = [answered(one, engine, source).statistics[0].values for one in ranging.asked]
    choice = pilot_ranges.chosen(plan, answers)
    found = resolve(replace(choice.plan, price=plan.price, together=plan.together), engine, source)
    return ResolvedPlan(
        found.plan,
        (*found.notes, *choice.told),
        f"{explain(plan)}\n\nchosen for values:\n{found.explanation}",
        method_after_ranging(ranging, found.method),
    )


def _piloted(plan: OverGroups, pilot: Pilot, engine: Engine, source: noise.Source) -> ResolvedPlan:
    """The pilot's noisy counts, and the bounds that they suggest."""
    parts = engine.aggregate(pilot.stage, salt=source.bits(SALT_BITS)).values["parts"]
    choice = pilot_bounds.chosen(plan, pilot.mechanism.noisy(parts, source=source))
    said = pilot_bounds.told(choice)
    return ResolvedPlan(
        choice.plan,
        (*notes_of(choice.plan), said),
        f"{explain(plan)}\n\nchosen by the pilot:\n{said}\n{explain(choice.plan)}",
        method_after_pilot(plan, choice.plan, CONFIDENCE),
    )
