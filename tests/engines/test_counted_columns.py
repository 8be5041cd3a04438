"""COUNT(column): rows in which it is not NULL, NaN among them, alike on every engine, in SQL and in Python."""

import json
import random

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import QueryError
from neartwin.planning.planner import plan
from neartwin.queries.wire.parse import form_of, question_of
from tests.engines.test_same_answers import ENGINES, answers, hostile_rows

COLUMNS = ("paid", "town", "open", "year", "day")
CAPS = [
    {"limits": nt.limits(max_rows_per_group=3, max_groups=2)},
    {"limits": nt.limits(rows=4)},
    {"limits": nt.limits(norm=3)},
]


@pytest.mark.slow
@pytest.mark.parametrize("place", ENGINES)
def test_counts_of_every_type_are_the_oracles_to_the_last_bit(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("counted columns", 900)
    groups = place.visits(rows).group_by("open", keys=[True, False, None])
    asked = {f"of_{name}": nt.count(name) for name in COLUMNS} | {"n": nt.count(), "m": nt.mean("paid", 0, 10)}
    for caps in CAPS[:1] if "spark" in type(place).__name__.lower() else CAPS:
        made = plan(groups.agg(**asked), spend=nt.gdp(10**5), **caps)
        found, expected = answers(place, rows, made)
        assert found == expected
        assert any(any(values) for values in found.values())


@pytest.mark.parametrize("place", ENGINES)
def test_sql_counts_values_that_are_not_null(request, tmp_path, place):
    pick = random.Random(5)
    rows = [
        {"who": pick.choice([None, "a", "b", "c"]), "town": pick.choice(["Ulm", None]), "open": pick.choice([True, None]),
         "paid": pick.choice([1.0, float("nan"), float("inf"), None]), "year": pick.choice([7, None]), "day": None}
        for _ in range(400)
    ]  # fmt: skip
    visits = request.getfixturevalue(place).visits(rows, name="visits")
    mine = [row for row in rows if row["who"] is not None]
    text = (
        "SELECT COUNT(*) AS n, COUNT(paid) AS paid_at, COUNT(town) AS towns, COUNT(day) AS days, COUNT(1) AS ones, "
        "COUNT(CASE WHEN open THEN year END) AS both FROM visits"
    )
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, nt.gdp(10**6))
        release = account.sql(text, spend=nt.gdp(10**6), limits=nt.limits(max_rows_per_group=400))
    found = {name: release[name].values[0] for name in ("n", "paid_at", "towns", "days", "ones", "both")}
    assert {name: round(value, 1) for name, value in found.items()} == {  # noise is of parts of a row
        "n": len(mine),
        "paid_at": sum(row["paid"] is not None for row in mine),
        "towns": sum(row["town"] is not None for row in mine),
        "days": 0,
        "ones": len(mine),
        "both": sum(row["open"] is True and row["year"] is not None for row in mine),
    }
    assert 0 < found["both"] < found["towns"] < found["paid_at"] < found["n"]  # none of them is another


def people():
    frame = pa.table({"who": [1], "town": ["Ulm"], "paid": [1.0], "a b": [1]})
    return nt.table(frame, unit="who", name="visits", columns={"paid": nt.bounds(0, 100)})


@pytest.mark.parametrize(
    ("written", "asked"),
    [("COUNT(paid)", "paid"), ('COUNT("a b")', "a b"), ("COUNT(paid + 1)", "paid + 1"), ("count(DISTINCT paid)", None)],
)
def test_sql_python_and_json_say_the_same_count(written, asked):
    rows = people()
    if asked is None:
        with pytest.raises(QueryError, match="is not of a number"):
            nt.from_sql(f"SELECT {written} AS n FROM visits", rows)
        return
    question = nt.from_sql(f"SELECT {written} AS n FROM visits", rows)
    assert question == rows.agg(n=nt.count(asked))
    assert question_of(json.loads(json.dumps(form_of(question))), rows) == question
    assert question != rows.agg(n=nt.count())
    other = nt.from_sql("SELECT town, COUNT(paid) AS n FROM visits GROUP BY town HAVING COUNT(paid) > 3", rows)
    assert other.after.having == '"n" > 3'


@pytest.mark.parametrize("wrong", ["nowhere", "paid / town", "paid FROM x", "COUNT(paid)"])
def test_uncountable_column_is_refused_before_any_spend(wrong):
    with pytest.raises(QueryError):
        people().agg(n=nt.count(wrong))
    with pytest.raises(QueryError, match="column, an expression"):
        nt.count(3)


def test_counts_of_a_column_are_another_plan_with_the_reach_of_a_count():
    rows = people().group_by("town", keys=["Ulm", "Bonn"])
    limits = {"spend": nt.pure(1), "limits": nt.limits(max_rows_per_group=3, max_groups=2)}
    plans = [plan(rows.agg(n=one), **limits) for one in (nt.count(), nt.count("paid"), nt.count("town"))]
    assert len({made.digest for made in plans}) == 3
    assert {one.sensitivity.l1 / one.parts for made in plans for one in made.measures.values()} == {6}
    for make in (lambda it: it.workload(nt.prefix_sums()), lambda it: it.marginals(["town"])):
        made = plan(
            make(rows).agg(n=nt.count("paid")), spend=nt.gdp(1), limits=nt.limits(max_rows_per_group=3, max_groups=2)
        )
        same = plan(make(rows).agg(n=nt.count()), spend=nt.gdp(1), limits=nt.limits(max_rows_per_group=3, max_groups=2))
        assert made.digest != same.digest
        assert made.error == pytest.approx(same.error, rel=0.05)  # of other parts of a row
