"""Histograms: every bin's own count, NumPy's at a huge epsilon, one unit moving all bins by no more than its rows."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.planning.planner import plan
from tests.oracles.memory import MemoryEngine
from tests.queries.test_sensitivity import empty_table, one_unit_tables

EDGES = [-1.5, 0, "0.1", 18, 65.25]


@pytest.fixture
def rows():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE visits AS SELECT range % 2000 AS who, CASE WHEN range % 2 = 0 THEN 'Ulm' ELSE 'Bonn' END AS town, "
        "CASE WHEN range % 50 = 0 THEN NULL WHEN range % 51 = 0 THEN 'NaN'::DOUBLE WHEN range % 7 = 0 THEN 0.1 "
        "WHEN range % 11 = 0 THEN 65.25 ELSE (range * 37 % 9000) / 100.0 - 10 END AS paid FROM range(6000)"
    )
    return connection, nt.table(connection, table="visits", unit="who")


@pytest.mark.parametrize("keys", [["Ulm", "Bonn", "nowhere"], None], ids=["public", "unknown"])
def test_at_a_huge_epsilon_each_bin_holds_what_numpy_counts(rows, tmp_path, keys):
    connection, visits = rows
    query = visits.group_by("town", keys=keys).agg(paid_by=nt.histogram("paid", EDGES))
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, nt.approx(10**6, "1e-3"))
        made = account.plan(query, spend=nt.approx(10**5, "1e-6"), limits=nt.limits(max_rows_per_group=3, max_groups=1))
        release = account.release(made)
    assert release.group_columns == ("town", "paid_by")
    found = dict(zip(release.keys, release["count"].values, strict=True))
    labels = ["[-1.5, 0)", "[0, 0.1)", "[0.1, 18)", "[18, 65.25]"]
    for town in ("Ulm", "Bonn"):
        values = connection.execute(
            "SELECT paid FROM visits WHERE town = ? AND paid IS NOT NULL AND NOT isnan(paid)", [town]
        ).fetchnumpy()["paid"]
        exact = np.histogram(values, [float(edge) for edge in EDGES])[0]
        assert [found[town, label] for label in labels] == exact.tolist()
    if keys:
        assert [found["nowhere", label] for label in labels] == [0, 0, 0, 0]
    assert len(found) == 4 * len({key[0] for key in release.keys})


def test_sql_and_expressions_ask_the_same(rows):
    _, visits = rows
    asked = nt.from_sql(
        "SELECT town, HISTOGRAM(paid, [-1.5, 0, 0.1, 18, 65.25]) AS paid_by FROM visits GROUP BY town", visits
    )
    assert dict(asked.aggregates) == {"paid_by": nt.histogram("paid", EDGES)}
    twice = visits.agg(it=nt.histogram("paid * 2", [0, 10]))
    assert plan(twice, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1)).price == nt.pure(1)
    for wrong in ("HISTOGRAM(paid)", "HISTOGRAM(paid, 3)", "HISTOGRAM(paid, ['0', '1'])", "HISTOGRAM(paid, [0, paid])"):
        with pytest.raises(QueryError):
            nt.from_sql(f"SELECT {wrong} FROM visits", visits)


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda _: nt.histogram("paid", [1]), ParameterError, "2 to 1001"),
        (lambda _: nt.histogram("paid", [1, 0]), ParameterError, "must increase"),
        (lambda _: nt.histogram("paid", [0, "1e-400"]), ParameterError, "must increase"),
        (lambda _: nt.histogram("paid", [0, float("inf")]), ParameterError, "finite"),
        (lambda t: t.agg(it=nt.histogram("town", [0, 1])), SchemaError, "must be a number"),
        (lambda t: t.agg(it=nt.histogram("nothing", [0, 1])), SchemaError, "not in the table"),
        (lambda t: t.agg(it=nt.histogram("paid", [0, 1]), n=nt.count()), QueryError, "question of its own"),
    ],
)
def test_a_wrong_histogram_is_refused_before_anything_is_spent(rows, ask, error, says):
    with pytest.raises(error, match=says):
        ask(rows[1])


def test_edges_that_differ_are_other_questions(rows):
    close = [rows[1].agg(it=nt.histogram("paid", [0, edge])) for edge in ("1.00000001", "1.00000002")]
    digests = {plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1)).digest for query in close}
    assert len(digests) == 2


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("caps", [(1, 1), (2, 2)], ids=str)
def test_unit_moves_all_bins_by_at_most_the_sensitivity(neighbours, caps):
    query = (
        empty_table(neighbours).group_by("town", keys=["a", "b", "c", "d"]).agg(it=nt.histogram("paid", [0, 3, 6, 10]))
    )
    made = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=caps[0], max_groups=caps[1]))
    (split,), (measure,) = made.splits.values(), made.measures.values()
    found = []
    for table in one_unit_tables(2, 9):
        answer = MemoryEngine(table, order=lambda unit, key: (hash((unit, key)), key)).aggregate(split.stage, salt=1)
        leaves = np.zeros((4, 3), dtype=int)
        np.add.at(leaves, (answer.cells.group, answer.cells.cell), answer.cells.count)
        found.append(leaves.ravel())
    distinct = np.unique(found, axis=0)
    changes = distinct if neighbours == "add_remove" else (distinct[:, None] - distinct[None]).reshape(-1, 12)
    assert np.abs(changes).sum(axis=1).max() == measure.sensitivity.l1
    assert np.square(changes).sum(axis=1).max() == measure.sensitivity.l2_squared


def test_histogram_with_too_many_bins_is_refused():
    rows = nt.table(pa.table({"who": [1], "paid": [2.0]}), unit="who", name="v")
    for column in ("paid", "paid * 2 - 1", "clip(paid * 2, 0, 900)"):
        with pytest.raises(QueryError, match="take fewer bins"):
            rows.agg(h=nt.histogram(column, range(1001)))
        rows.agg(h=nt.histogram(column, range(100)))
