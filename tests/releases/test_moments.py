"""Variance, correlation and regression: right without noise, possible with any noise, in their bars as often as stated."""

import math

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import QueryError
from neartwin.releases.intervals import Sums, correlation_ends, covariance_ends, solved, variance_ends
from neartwin.releases.release import UNBOUNDED, shown
from neartwin.releases.statistics import statistics_of

BOUNDS = {"x": nt.bounded(0, 10), "y": nt.bounded(-20, 20), "z": nt.bounded(0, 1, "0.001")}
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
        return account.release(account.plan(question, spend=nt.pure(spend), rows_per_group=1, groups_per_unit=1))


def test_without_noise_they_are_what_numpy_says(tmp_path):
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


def test_coefficients_are_those_of_the_regression_and_cost_no_more(tmp_path):
    parts = {"start": nt.coefficient("y", ["x", "z"]), "rise": nt.coefficient("y", ["x", "z"], "z")}
    release = released(tmp_path, table_of(people()), 10, fit=ASKED["fit"], **parts)
    for name, same in (("start", "fit_intercept"), ("rise", "fit_z")):
        assert (release[name].values, release[name].lower) == (release[same].values, release[same].lower)
        assert release[name].what != release[same].what
    rows = table_of(people(10))
    alone, both = (
        nt.open_ledger(tmp_path / "b.db")
        .open(rows, nt.pure(9))
        .plan(rows.agg(**asked), spend=nt.pure(1), rows_per_group=1)
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
        assert release[name].upper[2] == UNBOUNDED  # nobody is there, so nothing can be proven
        assert shown(release[name], 2).endswith("(no bar is proven)")
        assert release[name].bar(2) == (release[name].values[2],) * 2
    assert nt.save(release, tmp_path / "loud.html").read_text().count("<svg") >= 1
    assert "inf" not in release.to_json().lower().replace("information", "")


def test_rows_count_by_weight_and_moments_come_from_the_same_ones():
    heavy = {"who": [1] * 4 + [2], "town": ["Ulm"] * 5, "x": [0.0, 0.0, 10.0, 10.0, 5.0]}
    rows = nt.table(pa.table(heavy), unit="who", name="people", columns={"x": nt.bounded(0, 10, 1)})
    with_cap = nt.pure(1)
    from neartwin.queries.planner import plan

    made = plan(rows.agg(v=nt.variance("x")), spend=with_cap, rows_per_group=2)
    exact = DuckdbEngine().aggregate(made.stage, salt=1).values
    (variance,) = statistics_of(made, exact, {}, 0.95)
    assert variance.values[0] == pytest.approx(
        50 / 3
    )  # 2 rows of weight 1/2 at each end, one in the middle: (25 + 25) / 3


def test_a_proven_interval_holds_every_statistic_of_every_box():
    draw = np.random.default_rng(7)
    for _ in range(400):
        size = int(draw.integers(2, 40))
        x, y = draw.uniform(-8, 8, (2, size)).round(1)
        exact = {"n": size, "x": x.sum(), "y": y.sum(), "xx": (x * x).sum(), "yy": (y * y).sum(), "xy": (x * y).sum()}
        bars = {name: draw.choice([0.0, 0.3, 5.0, 60.0]) for name in exact}
        noisy = {
            name: Sums(np.array([value + draw.uniform(-1, 1) * bars[name]]), bars[name])
            for name, value in exact.items()
        }
        v = variance_ends(noisy["n"], noisy["x"], noisy["xx"], centre=0.0, largest=64.0)
        w = variance_ends(noisy["n"], noisy["y"], noisy["yy"], centre=0.0, largest=64.0)
        c = covariance_ends(noisy["n"], noisy["x"], noisy["y"], noisy["xy"], centre=0.0, largest=64.0)
        r = correlation_ends(c, v, w)
        for (low, high), truth in [
            (v, x.var()),
            (w, y.var()),
            (c, np.cov(x, y, bias=True)[0, 1]),
            (r, np.corrcoef(x, y)[0, 1]),
        ]:
            assert low[0] - 1e-9 <= truth <= high[0] + 1e-9
        matrix, right = np.array([[size, exact["x"]], [exact["x"], exact["xx"]]]), np.array([exact["y"], exact["xy"]])
        moved = np.array([[noisy["n"].total[0], noisy["x"].total[0]], [noisy["x"].total[0], noisy["xx"].total[0]]])
        found, reach = solved(
            moved,
            np.array([noisy["y"].total[0], noisy["xy"].total[0]]),
            np.array([[bars["n"], bars["x"]], [bars["x"], bars["xx"]]]),
            np.array([bars["y"], bars["xy"]]),
        )
        assert np.all(np.isfinite(found))
        if np.all(np.isfinite(reach)):
            assert np.all(np.abs(np.linalg.solve(matrix, right) - found) <= reach + 1e-9)


def test_the_range_of_a_quadratic_is_exact_and_not_merely_safe():
    """Against the extremes over a fine grid of the box."""
    n, s, t = Sums(np.array([12.0]), 3.0), Sums(np.array([4.0]), 6.0), Sums(np.array([70.0]), 9.0)
    low, high = variance_ends(n, s, t, centre=1.5, largest=1000.0)
    grid = np.array(np.meshgrid(np.linspace(9, 15, 61), np.linspace(-2, 10, 121), np.linspace(61, 79, 19)))
    values = grid[2] / grid[0] + 1.5 - (grid[1] / grid[0]) ** 2
    assert low[0] == pytest.approx(values.min(), abs=1e-6)
    assert high[0] == pytest.approx(values.max(), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("spend", "size"), [("0.5", 4000), ("8", 400)])
def test_bars_hold_the_bounded_truth_at_least_as_often_as_they_say_and_are_of_use(spend, size):
    from neartwin import noise
    from neartwin.queries.planner import plan

    rows = table_of(people(size))
    made = plan(rows.agg(**ASKED), spend=nt.pure(spend), rows_per_group=1)
    exact = DuckdbEngine().aggregate(made.stage, salt=1).values
    truth = {one.name: one.values[0] for one in statistics_of(made, exact, {}, 0.95)}
    held, widths = dict.fromkeys(truth, 0), {name: [] for name in truth}
    draws = 400
    for _ in range(draws):
        noisy = {name: one.mechanism.noisy(exact[name], source=noise.SYSTEM) for name, one in made.measures.items()}
        for one in statistics_of(made, noisy, {}, 0.95):
            held[one.name] += one.lower[0] <= truth[one.name] <= one.upper[0]
            widths[one.name].append(one.upper[0] - one.lower[0])
    # 380 of 400 with deviation 4.4: below 353 by chance with probability 1e-9
    assert all(times >= 353 for times in held.values()), held
    assert np.median(widths["v"]) < 25
    assert np.median(widths["r"]) < 2
