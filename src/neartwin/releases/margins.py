"""From the exact table behind margins to noisy answers of those asked for. Exact numbers end in `noisy_margins`."""

from itertools import product

import numpy as np

from neartwin import noise
from neartwin.engines.base import Aggregates
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.mechanisms.marginals import Margin
from neartwin.queries.keys import Key
from neartwin.queries.margin_bars import half_width
from neartwin.queries.margins import named, values_of
from neartwin.queries.norm_sums import entry_parts
from neartwin.queries.plan import MarginalPlan
from neartwin.releases.release import Statistic

WHOLE_TABLE = (
    "All margins are of one table: what two of them share adds up to the same. Rows with a value outside the public keys of any "
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
