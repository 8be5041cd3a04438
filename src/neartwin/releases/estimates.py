"""From noisy measures to the named statistics with error bars. Post-processing: nothing here sees an exact number.

From the exact table behind margins to noisy answers of those asked for. Exact numbers end in `noisy_margins`.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from neartwin import noise
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.mechanisms.linear.marginals import Margin
from neartwin.planning.context import planned_context
from neartwin.planning.marginals import half_width
from neartwin.planning.norm_clipping import entry_parts
from neartwin.planning.plan import GroupPlan, MarginalPlan
from neartwin.planning.stage import Aggregates
from neartwin.queries.groups import named, values_of
from neartwin.releases.values import Statistic
from neartwin.statistics.base import NoisyNumbers
from neartwin.statistics.measures import Measure
from neartwin.tables.types import Key

Noisy = Mapping[str, WholeNumbers]
Trees = Mapping[str, Sequence[WholeNumbers]]


def statistics_of(plan: GroupPlan, noisy: Noisy, trees: Trees, confidence: float) -> tuple[Statistic, ...]:
    """Compute every statistic of every group from noisy numbers.

    Args:
        plan: names the statistics and the laws of the noise.
        noisy: (groups,) noisy whole numbers by measure, in parts of a step.
        trees: (groups, nodes) noisy counts for each level of a tree, by measure.
        confidence: of each bar alone, over the noise.

    Returns:
        The statistics in the order of the plan. A list of quantiles gives one a rank.
    """
    context, numbers = planned_context(plan), NoisyNumbers(noisy, trees)
    return tuple(
        Statistic(
            name=one.name, what=str(asked), values=tuple(one.values), lower=tuple(one.lower), upper=tuple(one.upper)
        )
        for name, asked in plan.outputs.items()
        for one in asked.estimate(name, numbers, context, confidence)
    )


def counted(measure: Measure, noisy: WholeNumbers, confidence: float) -> Statistic:
    """The numbers of units of the values that were chosen."""
    values, bar = noisy.tolist(), measure.mechanism.half_width(confidence)
    ends = [tuple(value + move for value in values) for move in (0, -bar, bar)]
    return Statistic(name="count", what="count_distinct_units()", values=ends[0], lower=ends[1], upper=ends[2])


WHOLE_TABLE = (
    "All margins are of one table: their shared totals are equal. Rows with a value outside the public keys of any "
    "column are in none. Single answers may be negative or no whole numbers."
)


def noisy_margins(plan: MarginalPlan, aggregates: Aggregates, source: noise.Source) -> dict[Margin, FloatArray]:
    """Each measured margin with its noise, in steps, of its own sizes."""
    sizes = plan.design.sizes
    (exact,) = (aggregates.values[name] for name in plan.stage.measures)
    whole = np.asarray(exact).astype(object).reshape(sizes)
    finer, found = plan.parts // entry_parts(plan.stage), {}
    for margin, measure in zip(plan.measured, plan.measures.values(), strict=True):
        away = tuple(place for place in range(len(sizes)) if place not in margin)
        cells = np.asarray(whole.sum(axis=away) if away else whole, dtype=object)
        noisy = measure.mechanism.noisy(narrowed(cells.reshape(-1) * finer), source=source)
        found[margin] = np.asarray(noisy, dtype=float).reshape(cells.shape) / plan.parts
    return found


def narrowed(cells: WholeNumbers) -> WholeNumbers:
    """As 64 bits where they fit."""
    if all(-(2**62) < cell < 2**62 for cell in cells):
        return cells.astype(np.int64)
    return cells


def margin_answers(
    plan: MarginalPlan, noisy: dict[Margin, FloatArray], confidence: float
) -> tuple[tuple[Key, ...], Statistic]:
    """The groups of all margins asked for, one margin after the other, and the statistic of each with its bar."""
    columns = plan.query.groups.columns
    values = values_of(len(columns), plan.query.groups.keys or ())
    ((name, asked),) = plan.outputs.items()
    keys: list[Key] = []
    answers, bars = [], []
    for margin in plan.query.groups.margins:
        found = plan.design.answers(margin, noisy).reshape(-1) * float(plan.unit)
        bar = half_width(plan, margin, confidence) * float(plan.unit)
        for chosen in product(*(values[place] for place in margin)):
            told = dict(zip(margin, chosen, strict=True))
            keys.append((*(told.get(place) for place in range(len(columns))), named(columns, margin)))
        answers += found.tolist()
        bars += [bar] * len(found)
    lower = tuple(value - bar for value, bar in zip(answers, bars, strict=True))
    upper = tuple(value + bar for value, bar in zip(answers, bars, strict=True))
    return tuple(keys), Statistic(name=name, what=str(asked), values=tuple(answers), lower=lower, upper=upper)
