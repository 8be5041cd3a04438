"""A written table of a tuned plan: bounds are chosen privately first, and the table has the noise of those, on every engine."""

import re

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.engine_for import engine_for
from neartwin.errors import ExecutionError
from neartwin.planning.planner import plan
from tests.engines.test_large import read

PLACES = ["duckdb_place", "postgres_place", "spark_place"]
ROWS = [
    {"who": f"u{i}", "town": f"t{i % 3}", "paid": float(i % 5), "year": j, "day": None, "open": True}
    for i in range(600)
    for j in range(1 + 3 * (i % 2))
]
SPEND = nt.approx(20, "1e-6")
TUNED = {"limits": nt.limits(rows=nt.private_limit(64, groups=3, share="9/10"), max_groups=1, loss_share=0)}


def bars(made, name):
    """Half the width of a table's bar, which is one for all groups."""
    (width,) = {
        (high - low) / 2
        for low, high in zip(made[f"{name}_lower"].to_pylist(), made[f"{name}_upper"].to_pylist(), strict=True)
    }
    return width


@pytest.mark.parametrize("place", PLACES)
def test_written_table_has_the_noise_of_its_chosen_bounds_and_names_them(request, tmp_path, place):
    visits = request.getfixturevalue(place).visits(ROWS, name="visits")
    query = visits.group_by("town").agg(n=nt.count())
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, SPEND)
        proposal = account.plan(query, spend=SPEND, **TUNED)
        written = account.release_to_parquet(proposal, tmp_path / "tuned")
        assert account.spent == {"epsilon": 20, "delta": SPEND.delta}
        again = account.release_to_parquet(proposal, tmp_path / "elsewhere")
        assert again == written  # the stored record, for nothing
    (note,) = (note for note in written.notes if note.startswith("Chosen privately:"))
    rows = int(re.search(r"rows = (\d+)", note)[1])
    assert 4 <= rows <= 6  # units have 1 or 4 rows, and with so large a share little else is likely
    table = read(tmp_path / "tuned")
    assert sorted(table["town"].to_pylist()) == ["t0", "t1", "t2"]
    bound = bars(table, "n")
    rest = proposal.plan.first_stages[0].rest
    exact = [
        float(
            plan(query, spend=rest, limits=nt.limits(rows=most, max_groups=1, loss_share=0))
            .measures["rows"]
            .mechanism.half_width(0.95)
        )
        for most in (rows, 64)
    ]
    assert bound == pytest.approx(exact[0], rel=0.05)
    assert bound < exact[1] / 4  # near miss: the noise of the largest bounds
    assert "chosen by a first stage" in written.provenance.explanation
    origins = {one["what"]: one["origin"] for one in written.provenance.method["bounds"]}
    assert origins["max_rows_per_group"].startswith("chosen by")  # which is the same in one group
    assert origins["max_groups"].startswith("public")


def test_values_and_contributions_are_tuned_one_after_the_other(tmp_path):
    visits = nt.table(pa.Table.from_pylist(ROWS), unit="who", name="visits")
    query = visits.group_by("town", keys=["t0", "t1", "t2"]).agg(
        total=nt.sum("paid", 0, 1000, 1, clip=nt.private_range())
    )
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, nt.gdp(40))
        proposal = account.plan(query, spend=nt.gdp(40), limits=nt.limits(rows=nt.private_limit(64)))
        written = account.release_to_parquet(proposal, tmp_path / "t.parquet")
    told = written.provenance.explanation
    assert told.index("Chosen privately: paid") < told.index("Chosen privately: rows")
    table = read(tmp_path / "t.parquet")
    for town, value in zip(table["town"].to_pylist(), table["total"].to_pylist(), strict=True):
        truth = sum(row["paid"] for row in ROWS if row["town"] == town)
        assert abs(value - truth) < 0.2 * truth  # the bounds declared would let one unit move it by 64,000


def test_a_pilot_that_fails_keeps_the_budget_and_leaves_nothing(tmp_path, monkeypatch):
    visits = nt.table(pa.Table.from_pylist(ROWS), unit="who", name="visits")
    query = visits.group_by("town", keys=["t0"]).agg(n=nt.count())
    engine = type(engine_for(visits.table.source))

    def failing(self, stage, *, salt):
        raise OSError("row 7 of unit u7")

    monkeypatch.setattr(engine, "aggregate", failing)
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, nt.pure(1))
        with pytest.raises(ExecutionError) as failed:
            account.release_to_parquet(account.plan(query, spend=nt.pure(1), **TUNED), tmp_path / "t.parquet")
        assert "u7" not in str(failed.value)
        assert failed.value.__cause__ is failed.value.__context__ is None
        assert account.remaining == {"epsilon": 0}
    assert [path.name for path in tmp_path.iterdir() if "parquet" in path.name] == []
