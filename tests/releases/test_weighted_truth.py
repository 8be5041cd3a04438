"""Released without noise to speak of, every statistic is that of the weighted rows, and shares are near the raw truth."""

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt

LIMITS = [
    *({"max_rows_per_group": cap, "max_groups": 3} for cap in (1, 5, 20)),
    *({"rows": cap, "max_groups": 3} for cap in (1, 5, 20)),
    *({"norm": cap} for cap in (1, 5, 20)),
]
TEXT = """
SELECT town, COUNT(*) AS n, COUNT(paid) AS priced, AVG(CASE WHEN s >= 3 THEN 1 ELSE 0 END) AS share,
       COUNT_IF(s >= 3) / COUNT(*) AS ratio, SUM(CASE WHEN s >= 3 THEN 1 ELSE 0 END) AS many, SUM(paid) AS paid,
       AVG(paid) AS mean, STDDEV_POP(s) AS spread, MEDIAN(s) AS middle
FROM visits GROUP BY town
"""


def visits(size=600, seed=3):
    """Units of one to about 300 rows, of whom those with many rows are in all towns. About a tenth of prices is missing."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(size), np.ceil(np.exp(draw.normal(1.5, 1.3, size))).astype(int))
    rows = len(who)
    paid = draw.integers(0, 200, rows).astype(float)
    paid[draw.uniform(size=rows) < 0.1] = np.nan
    return {"who": who, "town": draw.integers(0, 3, rows), "s": draw.integers(0, 6, rows), "paid": paid}


DATA = visits()
PAID = np.nan_to_num(DATA["paid"])
PRICED = ~np.isnan(DATA["paid"])


def weights(limits):
    """Each row's weight, in floating point."""
    counts = np.zeros((DATA["who"].max() + 1, 3))
    np.add.at(counts, (DATA["who"], DATA["town"]), 1)
    own = counts[DATA["who"], DATA["town"]]
    if "norm" in limits:
        return np.minimum(1, limits["norm"] / np.sqrt((counts**2).sum(axis=1))[DATA["who"]])
    if "rows" in limits:
        return np.minimum(1, limits["rows"] / counts.sum(axis=1)[DATA["who"]])
    return np.minimum(1, limits["max_rows_per_group"] / own)


def truth(weight, town):
    """The statistics of weighted rows."""
    here = DATA["town"] == town
    w, s, priced = weight[here], DATA["s"][here], PRICED[here]
    high, mean = (s >= 3).astype(float), np.average(s, weights=w)
    order = np.argsort(s, kind="stable")
    middle = s[order][np.searchsorted(np.cumsum(w[order]), w.sum() / 2)]
    return {
        "n": w.sum(),
        "priced": w[priced].sum(),
        "share": np.average(high, weights=w),
        "ratio": np.average(high, weights=w),
        "many": (w * high).sum(),
        "paid": (w * PAID[here]).sum(),
        "mean": np.average(PAID[here][priced], weights=w[priced]),
        "spread": np.sqrt(np.average((s - mean) ** 2, weights=w)),
        "middle": middle,
    }


def released(folder, limits):
    table = pa.table(DATA | {"paid": pa.array(DATA["paid"], from_pandas=True)})
    rows = nt.table(table, unit="who", name="visits", columns={"paid": nt.bounds(0, 200, 1), "s": nt.bounds(0, 5, 1)})
    spend = nt.gdp(10**6) if "norm" in limits else nt.pure(10**6)
    with nt.open_ledger(folder / "budget.db") as book:
        account = book.open(rows, spend)
        return account.sql(TEXT, keys={"town": [0, 1, 2]}, spend=spend, limits=nt.limits(**limits))


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_answers_are_of_the_weighted_rows(limits, tmp_path):
    release, weight = released(tmp_path, limits), weights(limits)
    for place, (town,) in enumerate(release.keys):
        wanted = truth(weight, town)
        for name, value in wanted.items():
            found = release[name].values[place]
            assert found == pytest.approx(value, rel=2e-3, abs=2e-3), (name, town)
            low, high = release[name].lower[place], release[name].upper[place]
            away = 2 * (high - low) + 1e-6  # far beyond: five half-widths, once in 1e9 or less
            assert name == "middle" or low - away <= value <= high + away, (name, town)
        raw = np.mean(DATA["s"][DATA["town"] == town] >= 3)
        assert release["share"].values[place] == pytest.approx(raw, abs=0.06)
        assert release["ratio"].values[place] == pytest.approx(release["share"].values[place], abs=1e-3)


def test_a_weight_of_whole_steps_would_be_seen():
    """The fault that this holds off: a 0/1 total over n rows times C/n, truncated to whole steps, is 0 for almost all."""
    totals = np.bincount(DATA["who"], weights=DATA["s"] >= 3)
    rows = np.bincount(DATA["who"])
    assert (totals // rows).sum() / len(rows) < 0.2 < np.mean(DATA["s"] >= 3)
