"""Quantiles in whole releases: right at a huge epsilon, for public and discovered groups, refused where none can be written."""

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.planning.planner import plan

TOWNS = ["Ulm", "Bonn", "nowhere"]
RANKS = [0.1, 0.5, 0.9]


@pytest.fixture
def frame():
    draw = np.random.default_rng(5)
    size = 4000
    return pd.DataFrame(
        {
            "who": np.arange(size) // 2,
            "town": np.where(np.arange(size) // 2 % 3 == 0, "Ulm", "Bonn"),
            "age": draw.integers(18, 90, size),
            "paid": np.where(draw.random(size) < 0.05, np.nan, draw.gamma(2.0, 15.0, size)),
        }
    )


def asked(rows, keys):
    return rows.group_by("town", keys=keys).agg(
        n=nt.count(),
        age=nt.quantile("age", RANKS, 0, 120, 1),
        lo=nt.minimum("age", 0, 120),
        hi=nt.maximum("age", 0, 120),
    )


@pytest.mark.parametrize("keys", [TOWNS, None], ids=["public", "unknown"])
def test_quantiles_at_a_huge_epsilon_equal_the_rows(frame, tmp_path, keys):
    rows = nt.table(frame, unit="who", name="visits", types={"town": "text"})
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.approx(10**12, "1e-3"))
        made = account.plan(
            asked(rows, keys), spend=nt.approx(10**12, "1e-6"), limits=nt.limits(max_rows_per_group=2, max_groups=1)
        )
        release = account.release(made)
    towns = [key[0] for key in release.keys]
    assert set(towns) >= {"Ulm", "Bonn"}
    for town in ("Ulm", "Bonn"):
        ages, place = np.sort(frame[frame.town == town].age.to_numpy()), towns.index(town)
        for rank in RANKS:
            found = release[f"age_p{100 * rank:g}"]
            assert found.values[place] == ages[int(np.ceil(rank * len(ages))) - 1]
            assert found.lower[place] <= found.values[place] <= found.upper[place]
        assert release["lo"].values[place] == ages[0]
        assert release["hi"].values[place] == ages[-1]
        assert release["hi"].upper[place] == 120


def test_heavy_unit_counts_for_its_limit_and_by_its_own_values(tmp_path):
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE visits AS SELECT 0 AS who, 50.0 AS paid FROM range(9000) UNION ALL "
        "SELECT 1 + range // 10, (range % 10) * 10.0 FROM range(4000)"
    )
    rows = nt.table(connection, table="visits", unit="who")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**6))
        query = rows.agg(n=nt.count(), q=nt.quantile("paid", [0.2, 0.6, 0.9], 0, 100, 10))
        release = account.release(account.plan(query, spend=nt.pure(10**5), limits=nt.limits(max_rows_per_group=5)))
    assert release["n"].values == (401 * 5,)
    found = [release[f"q_p{rank}"].values[0] for rank in (20, 60, 90)]
    assert np.abs(np.array(found) - [10, 50, 80]).max() <= 10  # 9000 rows of one unit would put all of them at 50


def test_quantiles_share_the_choice_of_groups_with_counts(tmp_path):
    """A unit in three towns is kept in one, the same for both statements: then every town has two values a unit."""
    frame = pd.DataFrame(
        {"who": np.repeat(np.arange(3000), 6), "town": ["a", "a", "b", "b", "c", "c"] * 3000, "paid": 5.0}
    )
    rows = nt.table(frame, unit="who", name="visits", types={"town": "text"})
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**6))
        query = rows.group_by("town", keys=["a", "b", "c"]).agg(n=nt.count(), m=nt.quantile("paid", [0.5], 0, 10, 5))
        made = account.plan(query, spend=nt.pure(10**5), limits=nt.limits(max_rows_per_group=2, max_groups=1))
        from neartwin.engines.duckdb import DuckdbEngine

        rows_kept = DuckdbEngine().aggregate(made.plan.stage, salt=7).values["rows"]
        (split,) = made.plan.splits.values()
        cells = DuckdbEngine().aggregate(split.stage, salt=7).cells
    by_town = np.zeros(3, dtype=int)
    np.add.at(
        by_town, cells.group, cells.count // split.stage.split_parts
    )  # no unit has more than two values in a town
    assert by_town.tolist() == rows_kept.tolist()
    assert sum(by_town) == 6000


def test_other_ranks_asked_beside_a_quantile_cut_nothing_off_its_bar():
    """From the same noisy tree, with more noise than rows, whatever order the values came in."""
    rows = nt.table(pa.table({"who": [1], "paid": [1.0]}), unit="who", name="t")

    def made(ranks):
        return plan(
            rows.agg(q=nt.quantile("paid", ranks, 0, 50, 1)),
            spend=nt.pure("1/100"),
            limits=nt.limits(max_rows_per_group=5),
        )

    alone, several = made([0.5]), made([0.25, 0.5, 0.9])
    ((name, split),) = alone.splits.items()
    assert several.splits[name].tree == split.tree
    draw = np.random.default_rng(3)
    trees = {
        name: [
            draw.integers(-3000, 3000, level.shape)
            for level in split.tree.nodes(np.zeros((200, split.tree.cells), int))
        ]
    }
    (one,) = alone.estimates({}, trees)
    other = next(found for found in several.estimates({}, trees) if found.name == "q_p50")
    moved = [value for value, beside in zip(one.values, other.values, strict=True) if value != beside]
    assert moved  # values are put in order
    assert [min(low, value) for low, value in zip(one.lower, other.values, strict=True)] == list(other.lower)
    assert [max(high, value) for high, value in zip(one.upper, other.values, strict=True)] == list(other.upper)


@pytest.mark.slow
@pytest.mark.parametrize("spend", [nt.approx(1, "1e-6"), nt.gdp(1, "1e-6")], ids=str)
def test_release_without_a_discovered_group_is_empty(tmp_path, spend):
    rows = nt.table(
        pa.table({"who": range(5), "town": [f"t{i}" for i in range(5)], "paid": [1.0] * 5}), unit="who", name="few"
    )
    groups = rows.group_by("town")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(
            rows, nt.approx(20, "1e-4") if isinstance(spend, type(nt.approx(1, "1e-6"))) else nt.gdp(9, "1e-4")
        )
        for aggregate in (
            nt.median("paid", 0, 1000), nt.quantile("paid", [0.1, 0.9], 0, 1000), nt.minimum("paid", 0, 1000),
            nt.maximum("paid", 0, 1000), nt.histogram("paid", range(100)), nt.variance("paid", 0, 1000), nt.mean("paid", 0, 1000),
        ):  # fmt: skip
            made = account.plan(
                groups.agg(found=aggregate), spend=spend, limits=nt.limits(max_rows_per_group=1, max_groups=1)
            )
            release = account.release(made)
            assert release.keys == ()
            assert all(statistic.values == () for statistic in release.statistics)
        count = account.plan(
            groups.agg(n=nt.count(), a=nt.median("paid", 0, 1000)),
            spend=spend,
            limits=nt.limits(max_rows_per_group=1, max_groups=1),
        )
        written = account.release_to_parquet(count, tmp_path / "none.parquet")
        assert written.place.endswith("none.parquet")
