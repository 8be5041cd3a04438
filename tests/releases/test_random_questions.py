"""Random questions within random limits: each is answered, or refused before anything is spent. None fails after it was paid."""

import random

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import ExecutionError, NeartwinError

DRAW = np.random.default_rng(8)
MANY = 2_000
VISITS = pa.table({
    "who": (300 * DRAW.random(MANY) ** 1.5).astype(int),
    "ward": DRAW.integers(0, 4, MANY),
    "kind": np.where(DRAW.random(MANY) < 0.03, None, DRAW.choice(list("abcd"), MANY)),
    "at": pa.array(DRAW.integers(1.70e15, 1.73e15, MANY), pa.timestamp("us")),
    "is_new": DRAW.random(MANY) < 0.3,
    "paid": pa.array(DRAW.gamma(2, 20, MANY).round(2), mask=DRAW.random(MANY) < 0.05),
    "age": DRAW.integers(-5, 40, MANY),
})  # fmt: skip
BOUNDS = {"paid": nt.bounds(0, 200), "age": nt.bounds(-5, 39), "ward": nt.bounds(0, 3)}
TABLES = {one: nt.table(VISITS, unit=one, name="visits", columns=BOUNDS) for one in ("who", nt.ROW)}
STATISTICS = {
    "n": nt.count(), "filled": nt.count("paid"), "units": nt.count_distinct_units(), "ages": nt.count_distinct("age"),
    "kinds": nt.count_distinct("kind"), "sum": nt.sum("paid"), "total": nt.sum("age"), "mean": nt.mean("paid"),
    "twice": nt.mean("age * 2"), "both": nt.mean("paid + age"), "variance": nt.variance("paid"), "spread": nt.stddev("age"),
    "median": nt.median("paid"), "ends": nt.quantile("age", ["0.1", "0.9"]), "least": nt.minimum("age"),
    "most": nt.maximum("paid"), "share": nt.share("paid > 20"), "r": nt.correlation("paid", "age"),
    "covariance": nt.covariance("paid", "age"), "line": nt.regression("paid", ["age", "ward"]),
    "middle": nt.interquartile_range("paid"), "histogram": nt.histogram("paid", [0, 10, 50, 100]),
}  # fmt: skip
GROUPS = (
    lambda rows: rows,
    lambda rows: rows.group_by("ward", keys=range(4)),
    lambda rows: rows.group_by("kind", keys=["a", "b", "zz", None]),
    lambda rows: rows.group_by("ward", "kind", keys=[(ward, kind) for ward in range(4) for kind in "abc"]),
    lambda rows: rows.group_by("kind"),
    lambda rows: rows.group_by("kind", "ward"),
    lambda rows: rows.group_by(nt.bins("paid", [0, 20, 50, 100])),
    lambda rows: rows.with_column("month", "month(at)").group_by("month"),
    lambda rows: rows.group_by("is_new"),
)
LIMITS = (
    {}, {"rows": 5, "max_groups": 2}, {"max_rows_per_group": 3, "max_groups": 2}, {"rows": 5}, {"max_rows_per_group": 2},
    {"norm": 3}, {"norm": "4.5", "max_groups": 3}, {"rows": 6, "values": 2, "max_groups": 1}, {"values": 2},
    {"rows": 4, "loss_share": 0}, {"rows": nt.private_limit()}, {"rows": nt.private_limit(), "max_groups": 2},
    {"max_discovered_groups": 3}, {"rows": 3, "max_discovered_groups": 2},
)  # fmt: skip
SPENDS = (
    nt.pure(2), nt.pure("0.05"), nt.approx(2, "1e-6"), nt.approx(50, "1e-5"), nt.zcdp("0.5"), nt.zcdp(100), nt.gdp(1),
)  # fmt: skip
CONDITIONS = (None, None, "paid > 10", "age BETWEEN 0 AND 5", "paid > 1e9")


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 20))])
def test_random_question_is_answered_or_refused_before_it_is_paid(tmp_path, seed):
    draw, answered = random.Random(seed), 0
    for turn in range(60):
        table, spend, condition = (
            TABLES[draw.choice(["who", "who", nt.ROW])],
            draw.choice(SPENDS),
            draw.choice(CONDITIONS),
        )
        asked = {name: STATISTICS[name] for name in draw.sample(sorted(STATISTICS), draw.choice([1, 1, 2, 3]))}
        group, limits = draw.choice(GROUPS), draw.choice(({}, *LIMITS))
        with nt.open_ledger(tmp_path / f"{turn}.db") as book:
            account = book.open(table, spend)
            try:
                query = group(table if condition is None else table.where(condition)).agg(**asked)
                proposal = account.plan(query, spend=spend, limits=nt.limits(**limits) if limits else None)
                release = account.release(proposal)
            except ExecutionError:
                pytest.fail(f"{asked} within {limits} for {spend} where {condition} failed after it was paid")
            except NeartwinError:
                assert set(account.spent.values()) <= {0}
                continue
        answered += 1
        assert release.headline in str(release)
        for one in release.statistics:
            for value, low, high in zip(one.values, one.lower, one.upper, strict=True):
                assert (-np.inf if low is None else low) <= value <= (np.inf if high is None else high)
    assert answered > 10
