"""Variance, correlation and regression: right without noise, possible with any noise, in their bars as often as stated."""

import json
import math
import sys

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import QueryError
from neartwin.releases.release import Release, shown

LARGEST = sys.float_info.max
BOUNDS = {"x": nt.bounds(0, 10), "y": nt.bounds(-20, 20), "z": nt.bounds(0, 1, "0.001")}
ASKED = {
    "v": nt.variance("x"),
    "s": nt.stddev("y"),
    "c": nt.covariance("x", "y"),
    "r": nt.correlation("x", "y"),
    "fit": nt.regression("y", ["x", "z"]),
}


def people(size=6000, seed=3):
    draw = np.random.default_rng(seed)
    x, z = draw.beta(2, 2, size) * 10, draw.random(size)
    y = np.clip(3 * x - 15 + 6 * z + draw.normal(0, 3, size), -20, 20)
    some = draw.random(size) < 0.03
    return {
        "who": np.arange(size),
        "town": draw.choice(["Ulm", "Bonn"], size),
        "x": x,
        "y": np.where(some, np.nan, y),
        "z": z,
    }


def table_of(columns):
    return nt.table(pa.table(columns), unit="who", name="people", columns=BOUNDS)


def released(tmp_path, rows, spend, **statistics):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**9))
        question = rows.group_by("town", keys=["Ulm", "Bonn", "nowhere"]).agg(**(statistics or ASKED))
        limits = nt.limits(max_rows_per_group=1, max_groups=1, loss_share=0)  # noise of the loss may open bars
        return account.release(account.plan(question, spend=nt.pure(spend), limits=limits))


def test_moments_without_noise_equal_numpy(tmp_path):
    data = people()
    release = released(tmp_path, table_of(data), 10**8)
    chosen = (data["town"] == "Ulm") & ~np.isnan(data["y"])
    x, y, z = (data[name][chosen] for name in "xyz")
    inside = data["x"][data["town"] == "Ulm"]
    slope = np.linalg.lstsq(np.column_stack([np.ones_like(x), x, z]), y, rcond=None)[0]
    for name, truth, slack in [
        ("v", inside.var(), 2e-3),
        ("s", y.std(), 2e-3),
        ("c", np.cov(x, y, bias=True)[0, 1], 5e-3),
        ("r", np.corrcoef(x, y)[0, 1], 1e-3),
        ("fit_intercept", slope[0], 2e-2),
        ("fit_x", slope[1], 2e-3),
        ("fit_z", slope[2], 1e-2),
    ]:
        assert abs(release[name].values[0] - truth) < slack, name  # the grid's rounding alone
        assert release[name].upper[0] - release[name].lower[0] < slack


@pytest.mark.parametrize("fill", [None, 0])
def test_a_mean_and_a_sum_beside_a_deviation_hold_values_below_its_steps(tmp_path, fill):
    """Squares have steps of 100 in these bounds: all values are on 0 there."""
    values = np.random.default_rng(5).gamma(16, 1.25, 3000)
    values[::50] = np.nan
    truth = np.nan_to_num(values) if fill == 0 else values[~np.isnan(values)]
    rows = nt.table(pa.table({"who": np.arange(3000), "town": ["Ulm"] * 3000, "x": values}), unit="who", name="p")
    alone = {"mean": nt.mean("x", 0, 10**6, fill=fill), "sum": nt.sum("x", 0, 10**6, fill=fill)}
    beside = {"deviation": nt.stddev("x", 0, 10**6, fill=fill)}
    wide, fine = released(tmp_path, rows, 10**5, **alone, **beside), released(tmp_path, rows, 10**5, **alone)
    for release in (wide, fine):
        for name, true in (("mean", truth.mean()), ("sum", truth.sum())):
            width = release[name].upper[0] - release[name].lower[0]
            assert (release is wide and name == "mean") or width < 0.02 * true
            slack = width if width < 0.02 * true else 0  # a bar of noise alone holds the truth in 95 of 100
            assert release[name].lower[0] - slack <= true <= release[name].upper[0] + slack, name
    assert wide["mean"].upper[0] <= 51  # half a step above 0, and noise


@pytest.mark.parametrize("step", [None, "100"])
def test_a_chosen_step_is_the_question_and_no_error_of_a_mean(tmp_path, step):
    rows = table_of(people())
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account, limits = book.open(rows, nt.pure(10**9)), nt.limits(max_rows_per_group=1, loss_share=0)
        asked = rows.agg(mean=nt.mean("x", 0, 10**6, step), deviation=nt.stddev("x", 0, 10**6, step))
        error = account.plan(asked, spend=nt.pure(10**8), limits=limits).preview().errors[0]
    assert (dict(error.by_size)[1000] < 1) == (step == "100")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 40])
def test_a_samples_variance_divides_by_one_less(tmp_path, size):
    rows, data = table_of(people(size)), people(size)["x"]
    for spend in (10**8, 20):
        with nt.open_ledger(tmp_path / f"{spend}.db") as book:
            question = rows.agg(v=nt.variance("x", ddof=1), s=nt.stddev("x", ddof=1), p=nt.variance("x"))
            account = book.open(rows, nt.pure(10**9))
            limits = nt.limits(max_rows_per_group=1, loss_share=0)  # noise of the loss may open bars
            release = account.release(account.plan(question, spend=nt.pure(spend), limits=limits))
        for name, power, most in (("v", 1.0, 50), ("s", 0.5, math.sqrt(50))):
            (low,), (value,), (high,) = release[name].lower, release[name].values, release[name].upper
            assert 0 <= low <= value <= high <= most
            if size > 1 and spend > 20:
                truth = data.var(ddof=1) ** power
                assert low - 0.04 <= truth <= high + 0.04  # values are rounded to steps of 0.01
                assert size > 30 or not release["p"].lower[0] <= truth <= release["p"].upper[0]


def test_coefficients_equal_the_regression_at_no_cost(tmp_path):
    parts = {"start": nt.coefficient("y", ["x", "z"]), "rise": nt.coefficient("y", ["x", "z"], "z")}
    release = released(tmp_path, table_of(people()), 10, fit=ASKED["fit"], **parts)
    for name, same in (("start", "fit_intercept"), ("rise", "fit_z")):
        assert (release[name].values, release[name].lower) == (release[same].values, release[same].lower)
        assert release[name].what != release[same].what
    rows = table_of(people(10))
    alone, both = (
        nt.open_ledger(tmp_path / "b.db")
        .open(rows, nt.pure(9))
        .plan(rows.agg(**asked), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
        for asked in ({"fit": ASKED["fit"]}, parts)
    )
    assert set(alone.plan.measures) == set(both.plan.measures)
    with pytest.raises(QueryError, match="must be one of the features"):
        nt.coefficient("y", ["x"], "z")


@pytest.mark.parametrize("spend", ["0.001", "1"])
def test_no_impossible_value_is_released_however_loud_the_noise(tmp_path, spend):
    release = released(tmp_path, table_of(people(300)), spend)
    for name, low, high in [("v", 0, 25), ("s", 0, 20), ("c", -100, 100), ("r", -1, 1)]:
        statistic = release[name]
        for least, value, most in zip(statistic.lower, statistic.values, statistic.upper, strict=True):
            assert low <= least <= value <= most <= high, name
    for name in ("fit_intercept", "fit_x", "fit_z"):
        assert all(map(math.isfinite, release[name].values))
        assert release[name].lower[2] is release[name].upper[2] is None  # nobody is there, so nothing can be proven
        assert shown(release[name], 2).endswith("(no bar is proven)")
        assert release.to_arrow()[f"{name}_upper"].to_pylist()[2] is None
    assert nt.save(release, tmp_path / "loud.html").read_text().count('class="bar open"') >= 6
    assert "inf" not in release.to_json().lower().replace("information", "")
    for text in (release.to_json(), release.to_csv()):
        assert "e+308" not in text
    old = json.loads(release.to_json())
    for statistic in old["statistics"]:  # as documents had open bars before
        statistic["lower"] = [-LARGEST if end is None else end for end in statistic["lower"]]
        statistic["upper"] = [LARGEST if end is None else end for end in statistic["upper"]]
    assert Release.from_json(json.dumps(old)) == release


def test_rows_count_by_weight_and_moments_come_from_the_same_ones():
    heavy = {"who": [1] * 4 + [2], "town": ["Ulm"] * 5, "x": [0.0, 0.0, 10.0, 10.0, 5.0]}
    rows = nt.table(pa.table(heavy), unit="who", name="people", columns={"x": nt.bounds(0, 10, 1)})
    with_cap = nt.pure(1)
    from neartwin.planning.planner import plan

    made = plan(rows.agg(v=nt.variance("x")), spend=with_cap, limits=nt.limits(max_rows_per_group=2))
    exact = DuckdbEngine().aggregate(made.stage, salt=1).values
    (variance,) = made.estimates(exact, {})
    assert variance.values[0] == pytest.approx(
        50 / 3
    )  # 2 rows of weight 1/2 at each end, one in the middle: (25 + 25) / 3
