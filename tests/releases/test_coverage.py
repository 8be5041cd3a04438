"""Over hundreds of releases each bar holds the bounded truth at least as often as it says, and is not needlessly wide."""

from fractions import Fraction

import numpy as np
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.planning.planner import plan
from neartwin.planning.stage import Aggregates, Cells
from tests.queries.test_sensitivity import empty_table

RANKS = [0.1, 0.5, 0.9]
SPENDS = [nt.pure("1/2"), nt.approx("1/2", "1e-6"), nt.zcdp("1/20"), nt.gdp("1/3")]


def asked(spend, groups):
    rows = empty_table("add_remove")
    keys = list(range(groups))
    query = rows.group_by("who", keys=keys).agg(
        n=nt.count(),
        people=nt.count_distinct_units(),
        total=nt.sum("paid", 0, 100, 1),
        typical=nt.mean("paid", 0, 100, 1),
        q=nt.quantile("paid", RANKS, 0, 100, 1),
        lo=nt.minimum("paid", 0, 100, 1),
        hi=nt.maximum("paid", 0, 100, 1),
    )
    return plan(query, spend=spend, limits=nt.limits(max_rows_per_group=2, max_groups=3))


def exact(made, values, groups):
    """The same answers in every group, as an engine would give them."""
    (below,) = made.stage.grid.values()
    leaves = np.bincount(values, minlength=101)
    numbers = {"rows": len(values), "units": len(values) // 2}
    numbers |= {
        f"total:{below.name}": int(values.sum()),
        f"short:{below.name}": 100 * len(values) - int(values.sum()),
        f"empty:{below.name}": 0,
    }
    keys = tuple((place,) for place in range(groups))
    found = {name: np.full(groups, numbers[name] * made.stage.parts.get(name, 1)) for name in made.stage.measures}
    group, cell = np.repeat(np.arange(groups), 101), np.tile(np.arange(101), groups)
    parts = next(iter(made.splits.values())).stage.split_parts  # of a row: values are counted in them
    cells = Aggregates(groups, keys, {}, Cells(group, cell, parts * np.tile(leaves, groups)))
    return Aggregates(groups, keys, found), dict.fromkeys(made.splits, cells)


def truths(values):
    ordered = np.sort(values)
    ranked = {f"q_p{100 * rank:g}": ordered[int(np.ceil(rank * len(values))) - 1] for rank in RANKS}
    ends = {"lo": ordered[0], "hi": ordered[-1]}
    plain = {"n": len(values), "people": len(values) // 2, "total": values.sum(), "typical": values.mean()}
    return plain | ranked | ends


@pytest.mark.slow
@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_bars_of_every_statistic_cover_as_stated(spend):
    groups = 400  # each with noise of its own: as many releases
    made = asked(spend, groups)
    values = np.random.default_rng(8).gamma(3.0, 12.0, 4000).astype(int).clip(0, 100)
    aggregates, cells = exact(made, values, groups)
    answer = made.noised([aggregates, *cells.values()], noise.SYSTEM)
    least = 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / groups)  # passed by chance once in 1e9
    true = truths(values)
    for statistic in answer.columns:
        low, high = np.array(statistic.lower), np.array(statistic.upper)
        held = ((low <= true[statistic.name] + 1e-9) & (true[statistic.name] - 1e-9 <= high)).mean()
        assert held >= least, statistic.name
        if statistic.name in ("n", "people", "total"):  # exact quantiles of the law: no wider than they must be
            middle = (low + high) / 2
            narrow = np.abs(middle - true[statistic.name]) <= (high - low) / 2 * 0.6
            assert narrow.mean() < 0.95, statistic.name


def test_half_widths_are_the_least_that_hold_their_confidence():
    for spend in SPENDS:
        made = asked(spend, 3)
        for measure in made.measures.values():
            law, bar = measure.mechanism.law, measure.mechanism.half_width(0.95)
            assert law.beyond(bar) <= 0.05 < law.beyond(bar - max(1, bar // 10**11))  # as far as doubles tell
            assert bar > Fraction(0)
