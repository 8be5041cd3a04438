"""Private first stages: the plan at the bounds that they choose, and what is said of it.

First stages are part of the plan's price, and what they show is noisy: the bounds that follow are post-processing of it. All
that they read comes back to this process, a few thousand numbers at most; so a release that stays distributed tunes here too.
"""

from dataclasses import dataclass, replace

from neartwin import noise
from neartwin.planning import pilot_bounds, pilot_ranges
from neartwin.planning.explain import explain
from neartwin.planning.plan import GroupPlan, Pilot, Plan, Ranging, TopKPlan
from neartwin.planning.stage import SALT_BITS, Engine
from neartwin.releases.noising import answered
from neartwin.releases.provenance import Description, describe, method_after_pilot, method_after_ranging


@dataclass(frozen=True, slots=True)
class Choice:
    """What the first stages of a plan chose."""

    plan: Plan
    bounds: pilot_bounds.Choice | pilot_ranges.Chosen


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """A plan whose bounds are numbers, and the choices that led to it, the first one first."""

    plan: Plan
    choices: tuple[Choice, ...] = ()


def resolve(plan: Plan, engine: Engine, source: noise.Source) -> ResolvedPlan:
    """The plan at the bounds that it tunes, first those of values, then those of contributions; itself where it tunes none."""
    choices = []
    while not isinstance(plan, TopKPlan) and (stage := plan.first_stage) is not None:
        if isinstance(stage, Ranging) and isinstance(plan, GroupPlan):
            answers = [answered(one, engine, source).statistics[0].values for one in stage.asked]
            bounds = pilot_ranges.chosen(plan, answers)
            found: Plan = replace(bounds.plan, price=plan.price, together=plan.together)
            choices.append(Choice(plan, bounds))
        elif isinstance(stage, Pilot):
            parts = engine.aggregate(stage.stage, salt=source.bits(SALT_BITS)).values["parts"]
            limits = pilot_bounds.chosen(plan, stage.mechanism.noisy(parts, source=source))
            found = limits.plan
            choices.append(Choice(plan, limits))
        plan = found
    return ResolvedPlan(plan, tuple(choices))


def described(resolved: ResolvedPlan) -> Description:
    """What is said of a plan at chosen bounds, its first stages and their choices among it."""
    found = describe(resolved.plan)
    for choice in reversed(resolved.choices):
        stage, told = choice.plan.first_stage, found.explanation
        if isinstance(stage, Ranging):
            text, method = f"chosen for values:\n{told}", method_after_ranging(stage, found.method)
        else:
            text = "\n".join(["chosen by the pilot:", *choice.bounds.words, told])
            method = method_after_pilot(stage, found.method) if stage else dict(found.method)
        found = Description((*found.notes, *choice.bounds.words), f"{explain(choice.plan)}\n\n{text}", method)
    return found
