"""Faults that were found in other systems for private statistics, each as the claim that holds here."""

import random
from fractions import Fraction

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import BudgetError, QueryError
from neartwin.planning.planner import plan
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES

TOWNS = ["a", "b", "c", "d"]
SPEND = nt.approx(10**6, "1e-6")


def everybody_everywhere(units, **column):
    rows = [
        {"who": f"p{unit}", "town": town, "year": 1, "paid": 1.0, "open": True, "day": None} | column
        for unit in range(units) for town in TOWNS
    ]  # fmt: skip
    random.Random(1).shuffle(rows)
    return rows


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_cap_of_k_groups_keeps_k_groups_of_each_unit_and_not_one_less(request, place, most):
    """OpenDP 0.16 ranks from 1 and keeps ranks below k: k = 1 is an empty release, with noise for one group."""
    place = request.getfixturevalue(place)
    query = place.visits(everybody_everywhere(200)).group_by("town").agg(people=nt.count_distinct_units())
    stage = plan(query, spend=SPEND, limits=nt.limits(max_groups=most)).stage
    assert sum(place.engine.aggregate(stage, salt=SALT).values["units"]) == 200 * most


@pytest.mark.parametrize("place", ENGINES)
def test_kept_groups_differ_between_units_so_that_none_is_favoured(request, place):
    """OpenDP's sample ranks by a hash of the group alone: every user drops the same cities."""
    place = request.getfixturevalue(place)
    query = place.visits(everybody_everywhere(1000)).group_by("town").agg(people=nt.count_distinct_units())
    stage = plan(query, spend=SPEND, limits=nt.limits(max_groups=1)).stage
    kept = dict(zip(*_units(place.engine.aggregate(stage, salt=SALT)), strict=True))
    assert sum(kept.values()) == 1000
    assert all(180 < number < 320 for number in kept.values()), (
        kept
    )  # 250 of each, deviation 14; one salt, so no chance
    other = dict(zip(*_units(place.engine.aggregate(stage, salt=SALT + 1)), strict=True))
    assert other != kept  # and another salt draws others


def _units(answer):
    return [key[0] for key in answer.keys], [int(number) for number in answer.values["units"]]


def test_noise_of_a_float_sum_follows_its_bounds_at_any_table_size():
    """OpenDP widens float sums by a bound on the rows: a loose one makes noise 90 times the ideal, out of the others' budget."""
    scales = set()
    for size in (1, 1000):
        for kind in (pa.float64(), pa.int64()):
            frame = pa.table({"who": list(range(size)), "paid": pa.array([1] * size, kind)})
            query = nt.table(frame, unit="who", name="visits").agg(total=nt.sum("paid", 0, 100, 1))
            (measure,) = plan(
                query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=20, loss_share=0)
            ).measures.values()
            scales.add(measure.mechanism.scale / measure.parts)
    assert scales == {Fraction(20 * 100)}


def test_the_order_of_rows_changes_no_sum():
    """Sums of doubles depend on their order, by more than the noise hides; sums on a grid are whole numbers."""
    paid = [0.1 * i + 1e-13 * (i % 7) for i in range(4000)]
    float_sums, sums = set(), set()
    for seed in range(5):
        shuffled = paid.copy()
        random.Random(seed).shuffle(shuffled)
        total = 0.0
        for value in shuffled:
            total += value
        float_sums.add(total)
        frame = pa.table({"who": list(range(4000)), "paid": shuffled})
        query = nt.table(frame, unit="who", name="visits").agg(total=nt.sum("paid", 0, 400))
        stage = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1)).stage
        sums.add(tuple(int(v) for found in DuckdbEngine().aggregate(stage, salt=SALT).values.values() for v in found))
    assert len(float_sums) > 1  # the fault exists
    assert len(sums) == 1


def test_means_stay_in_bounds_and_sums_do_not_come_from_means(tmp_path):
    """PipelineDP gives mean * count for a sum: -184,340 for a mean in [0, 100] made a sum of 117,617,976 for 51,826."""
    frame = pa.table({"who": list(range(50)), "town": ["a"] * 50, "paid": [50.0] * 50})
    rows = nt.table(frame, unit="who", name="visits")
    keys = ["a", *(f"empty {i}" for i in range(300))]
    query = rows.group_by("town", keys=keys).agg(
        n=nt.count(), total=nt.sum("paid", 0, 100), typical=nt.mean("paid", 0, 100)
    )
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(1))
        made = account.plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=2, max_groups=3))
        release = account.release(made)
    assert all(0 <= value <= 100 for value in release["typical"].values)
    assert min(release["n"].values) < 0  # the counts from which such sums were made do occur, and are shown as they are
    name = next(name for name in made.plan.measures if name.startswith("total"))
    scale = float(made.plan.measures[name].mechanism.scale) / 100
    assert all(abs(value) < 2500 + 60 * scale for value in release["total"].values)  # beyond: less than 1e-23


class Watched:
    """An engine that tells how often it was asked."""

    def __init__(self):
        self.asked = 0

    def aggregate(self, stage, *, salt):
        self.asked += 1
        return DuckdbEngine().aggregate(stage, salt=salt)


def test_statistics_cost_the_stated_price_and_an_empty_budget_reads_no_row(tmp_path):
    """SmartNoise takes epsilon for each mechanism, so three statistics cost four times what was said, and never refuses."""
    rows = nt.table(pa.table({"who": [1, 2], "paid": [1.0, 2.0]}), unit="who", name="visits", snapshot="one")
    query = rows.agg(n=nt.count(), total=nt.sum("paid", 0, 9), typical=nt.mean("paid", 0, 9))
    engine = Watched()
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(1))
        account.release(
            account.plan(query, spend=nt.pure("3/4"), limits=nt.limits(max_rows_per_group=1)), engine=engine
        )
        assert account.remaining == {"epsilon": Fraction(1, 4)}
        dearer = account.plan(query, spend=nt.pure("1/2"), limits=nt.limits(max_rows_per_group=1))
        with pytest.raises(BudgetError, match="remaining"):
            account.release(dearer, engine=engine)
        assert engine.asked == 3  # the question, what its limits take, and what clipping changes
        assert account.remaining == {"epsilon": Fraction(1, 4)}


def test_quantiles_of_values_that_are_all_alike_are_answered():
    """Diffprivlib's quantile underflows to NaN on repeated whole numbers and fails."""
    frame = pa.table({"who": list(range(5000)), "age": [40] * 5000})
    query = nt.table(frame, unit="who", name="visits").agg(q=nt.quantile("age", [0.25, 0.5, 0.75], 0, 100, step=1))
    made = plan(query, spend=nt.pure(100), limits=nt.limits(max_rows_per_group=1))
    answer = made.answer(DuckdbEngine(), noise.SYSTEM)
    assert [statistic.values[0] for statistic in answer.columns] == [40, 40, 40]


def test_quantile_noise_grows_with_a_units_limit_and_not_with_the_ranks():
    """PyDP's percentiles protect single rows, whoever has many; diffprivlib pays for each quantile anew."""
    rows = nt.table(pa.table({"who": [1], "age": [40]}), unit="who", name="visits")
    scales = {}
    for many in (1, 50):
        for ranks in ([0.5], [0.25, 0.5, 0.75]):
            query = rows.agg(q=nt.quantile("age", ranks, 0, 100, step=1))
            (measure,) = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=many)).measures.values()
            scales[many, len(ranks)] = measure.mechanism.scale / measure.parts
    assert scales[50, 1] == 50 * scales[1, 1]
    assert scales[1, 1] == scales[1, 3]


@pytest.mark.slow
def test_a_noisy_count_is_above_the_true_one_as_often_as_below_it():
    """The count_nonzero of diffprivlib 0.6 is cut at the array's length, which is the count: half of its answers are exact."""
    frame = pa.table({"who": list(range(1000)), "town": [0] * 1000})
    asked = nt.table(frame, unit="who", name="visits").agg(n=nt.count())
    made = plan(asked, spend=nt.pure("0.0025"), limits=nt.limits(max_rows_per_group=1))
    answers = [made.answer(DuckdbEngine(), noise.SYSTEM).columns[0].values[0] for _ in range(200)]
    above, below = (sum(sign * (answer - 1000) > 0 for answer in answers) for sign in (1, -1))
    # each is 0.4994 of 200, deviation 7.1: 55 is 6.3 deviations off, a chance below 1e-9
    assert min(above, below) > 55


def test_a_sum_without_bounds_is_refused_and_never_answered_without_noise():
    """SmartNoise once answered sums without noise where the bounds were missing from its metadata."""
    rows = nt.table(pa.table({"who": [1], "paid": [40.0]}), unit="who", name="visits")
    with pytest.raises(QueryError, match="bounds"):
        plan(rows.agg(total=nt.sum("paid")), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
    (measure,) = plan(
        rows.agg(total=nt.sum("paid", 0, 10, 1)), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1, loss_share=0)
    ).measures.values()
    assert measure.mechanism.scale == 10 * measure.parts
