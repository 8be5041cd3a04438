"""On every engine each statistic's bar holds the bounded truth as often as it says: 300 groups of the same rows, noise for each.

The truth is a release whose noise is none. Passed by chance once in 1e9 where the stated rate holds.
"""

import random

import numpy as np
import pytest

import neartwin as nt
from tests.engines.test_large import read

PLACES = ["duckdb_place", "postgres_place", "spark_place"]
GROUPS, ROWS = 300, 60
LIMITS = {
    "limits": nt.limits(max_rows_per_group=5, max_groups=1, loss_share=0)
}  # a cap that bound would choose values by a fresh salt; a measured loss would lengthen bars in some draws
HALF = "CASE WHEN open THEN paid * 0.5 ELSE 10 END"
ASKED = {
    "n": nt.count(),
    "given": nt.count("paid"),
    "people": nt.count_distinct_units(),
    "total": nt.sum("paid"),
    "typical": nt.mean("paid"),
    "v": nt.variance("paid"),
    "s": nt.stddev("paid"),
    "c": nt.covariance("paid", HALF),
    "r": nt.correlation("paid", HALF),
    "fit": nt.regression("paid", [HALF]),
    "q": nt.quantile("paid", ["0.25", "0.5", "0.9"]),
    "lo": nt.minimum("paid"),
    "hi": nt.maximum("paid"),
}
QUESTIONS = {
    "all in one": lambda groups: groups.agg(**ASKED),
    "histogram": lambda groups: groups.agg(h=nt.histogram("paid", [0, 10, 30, 50])),
    "marginals": lambda groups: groups.marginals(["year"]).agg(n=nt.count()),
    "marginal sums": lambda groups: groups.marginals(["year"]).agg(n=nt.sum("paid")),
}
EXACT_LAWS = {"n", "given", "people", "total", "h"}  # bars that are the quantiles of one draw's law


def visits():
    """The same people in every group, under other names; 1 in 3 has more rows, and some have no value."""
    pick = random.Random(6)
    group = []
    for person in range(ROWS // 3):
        for _ in range(5 if person % 3 == 0 else 2):
            paid = None if pick.random() < 0.05 else float(pick.randrange(51))
            group.append({"who": str(person), "paid": paid, "open": pick.random() < 0.5})
    return [
        row | {"who": f"{year}/{row['who']}", "town": "Ulm", "year": year, "day": None}
        for year in range(GROUPS)
        for row in group
    ]


def released(folder, rows, name, spend):
    with nt.open_ledger(folder / f"{spend}.db") as book:
        account = book.open(rows, spend)
        asked = QUESTIONS[name](rows.group_by("year", keys=range(GROUPS)))
        return account.release(account.plan(asked, spend=spend, **LIMITS))


def bars(lower, upper):
    """Both ends of each bar; an open end is infinite."""
    low = [-np.inf if end is None else end for end in lower]
    return np.array(low), np.array([np.inf if end is None else end for end in upper])


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("spend", [nt.pure(2), nt.gdp(1)], ids=str)
def test_bars_cover_as_stated_on_every_engine(request, tmp_path, place, name, spend):
    rows = request.getfixturevalue(place).visits(visits(), name="visits", columns={"paid": nt.bounds(0, 50, 1)})
    truth, noisy = released(tmp_path, rows, name, nt.pure(10**7)), released(tmp_path, rows, name, spend)
    assert truth.keys == noisy.keys
    assert len(truth) >= GROUPS
    for statistic in noisy.statistics:
        true = np.array(truth[statistic.name].values)
        low, high = bars(statistic.lower, statistic.upper)
        held = ((low <= true + 1e-6) & (true - 1e-6 <= high)).mean()
        assert held >= 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / len(true)), statistic.name
        if statistic.name in EXACT_LAWS and name != "marginal sums":
            middle = (low + high) / 2
            assert (np.abs(middle - true) <= (high - low) / 2 * 0.6).mean() < 0.95, statistic.name


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_counts_of_the_most_common_are_within_their_bars_on_every_engine(request, tmp_path, place):
    """300 of 300 values are chosen, in a noisy order, and counted with noise that is not the choice's."""
    rows = request.getfixturevalue(place).visits(visits(), name="visits")
    with nt.open_ledger(tmp_path / "b.db") as book:
        account = book.open(rows, nt.gdp(2))
        asked = rows.most_common("year", among=range(GROUPS), k=GROUPS, counted=True)
        found = account.release(account.plan(asked, spend=nt.gdp(2)))["count"]
    true = len({row["who"] for row in visits() if row["year"] == 0})
    held = ((np.array(found.lower) <= true) & (true <= np.array(found.upper))).mean()
    assert held >= 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / GROUPS)


ON_WORKERS = ("n", "people", "total", "typical", "v", "s", "c", "r", "fit")


@pytest.mark.slow
@pytest.mark.parametrize("spend", [nt.approx(8, "1e-2"), nt.gdp(3, "1e-2")], ids=str)
def test_bars_of_noise_of_workers_cover_as_stated(spark_place, tmp_path, spend):
    """Groups that were found, for only their tables stay on workers; they pass a threshold by noise that no bar is of."""
    rows = spark_place.visits(visits(), name="visits", columns={"paid": nt.bounds(0, 50, 1)})
    asked = {name: ASKED[name] for name in ON_WORKERS}
    truth = released(tmp_path, rows, "all in one", nt.pure(10**7))
    with nt.open_ledger(tmp_path / "found.db") as book:
        account = book.open(rows, spend)
        made = account.plan(rows.group_by("year").agg(**asked), spend=spend, **LIMITS)
        found = read(account.release_to_parquet(made, tmp_path / "found.parquet").place)
    assert found.num_rows > GROUPS / 2
    place = {key: i for i, (key,) in enumerate(truth.keys)}
    at = [place[year] for year in found["year"].to_pylist()]
    for name in [field for field in found.column_names if f"{field}_lower" in found.column_names]:
        true = np.array(truth[name].values)[at]
        low, high = bars(*(found[f"{name}_{end}"].to_pylist() for end in ("lower", "upper")))
        held = ((low <= true + 1e-6) & (true - 1e-6 <= high)).mean()
        assert held >= 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / len(at)), name
        if name in EXACT_LAWS:
            middle = (low + high) / 2
            assert (np.abs(middle - true) <= (high - low) / 2 * 0.6).mean() < 0.95, name
