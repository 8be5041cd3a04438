"""NaN in Parquet files whose statistics leave it out, as Arrow and Polars write them: no engine may infer anything from these."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.engines.engine_for import engine_for
from neartwin.planning.planner import plan
from tests.engines.places import SALT

FIRST, SECOND = np.r_[np.full(30, np.nan), np.linspace(0, 4, 30)], np.linspace(6, 8, 60)  # the groups of rows of a file
EXTRA = {
    "nobody": [],
    "below": [3.5],
    "above": [9.5],
    "beyond": [700.0],
    "infinite": [math.inf, -math.inf],
    "nan": [math.nan],
}
RULES = {  # NaN is equal to itself and above every number
    "x <= 9": lambda x: x <= 9,
    "x > 5": lambda x: x > 5 or math.isnan(x),
    "x >= 9 OR x < 1": lambda x: x >= 9 or x < 1 or math.isnan(x),
    "NOT x < 100": lambda x: not x < 100,
    "x BETWEEN 5 AND 20": lambda x: 5 <= x <= 20,
    "x <> 3": lambda x: x != 3,
    "x > 1e308": lambda x: x == math.inf or math.isnan(x),
    "x > 1e308 AND 1 / x > 1": math.isnan,  # as the refusal of isnan(x) says
    "x = x": lambda x: x is not None,
    "clip(x, 0, 5) > 4.5": lambda x: x > 4.5 or math.isnan(x),
    "CASE WHEN x < 100 THEN 1 ELSE 0 END = 0": lambda x: not x < 100,
    "CAST(x AS FLOAT) > 5": lambda x: x > 5 or math.isnan(x),
}


@pytest.fixture(params=["duckdb", "several files", "spark"])
def opened(request, tmp_path):
    """Opens numbers as a table of one row a unit."""

    def visits(extra):
        for name, values in (("a", np.r_[extra, FIRST]), ("b", SECOND)):
            rows = pa.table({"who": [f"{name}{i}" for i in range(len(values))], "x": pa.array(values, pa.float64())})
            pq.write_table(rows, tmp_path / f"{name}.parquet")
            assert not math.isnan(pq.read_metadata(tmp_path / f"{name}.parquet").row_group(0).column(1).statistics.max)
        whole = pa.concat_tables([pq.read_table(tmp_path / f"{name}.parquet") for name in "ab"])
        pq.write_table(whole, tmp_path / "all.parquet", row_group_size=len(extra) + len(FIRST))
        place = str(tmp_path / "all.parquet")
        if request.param == "spark":
            return nt.table(request.getfixturevalue("spark").read.parquet(place), unit="who", name="visits")
        return nt.table(place if request.param == "duckdb" else str(tmp_path / "[ab].parquet"), unit="who")

    return visits


@pytest.mark.parametrize("extra", EXTRA)
def test_a_row_counts_alike_whatever_others_are_in_the_file(opened, tmp_path, extra):
    rows, numbers = opened(EXTRA[extra]), [*EXTRA[extra], *FIRST.tolist(), *SECOND.tolist()]
    engine, limits = engine_for(rows.table.source), nt.limits(rows=1)
    for condition, rule in RULES.items():
        stage = plan(rows.where(condition).agg(n=nt.count()), spend=nt.pure(1), limits=limits).stage
        (found,) = engine.aggregate(stage, salt=SALT).values.values()
        assert found.tolist() == [sum(map(rule, numbers))], condition
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10**9))
        question = rows.agg(total=nt.sum("x", 0, 5), mean=nt.mean("x", 0, 5))
        release = account.release(account.plan(question, spend=nt.pure(10**8), limits=limits))
    known = [min(max(x, 0), 5) for x in numbers if not math.isnan(x)]
    assert release["total"].values[0] == pytest.approx(sum(known), abs=0.01)
    assert release["mean"].values[0] == pytest.approx(sum(known) / len(known), abs=0.01)
