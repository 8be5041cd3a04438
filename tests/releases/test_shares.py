"""Shares of a condition: one question however it is written, what NULL counts for, what it costs, and bars that hold."""

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import SchemaError
from neartwin.planning.planner import plan
from neartwin.queries.wire.parse import form_of, question_of
from tests.oracles.memory import MemoryEngine

DRAWS = 2000
FAIR = 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / DRAWS)  # passed by chance once in 1e9
SPENDS = [nt.pure("1/2"), nt.zcdp("1/20")]
ONE = nt.limits(max_rows_per_group=1)

DATA = [
    {"who": i, "s": None if i % 4 == 0 else i % 8, "open": i % 10 == 0, "flag": i % 2, "paid": float(i)}
    for i in range(40)
]


@pytest.fixture
def visits():
    """40 people, of whom every fourth has no s, and of the others half have s above 2; `open` is true for a tenth."""
    declared = {"flag": nt.bounds(0, 1, 1), "paid": nt.bounds(0, 50)}
    return nt.table(pa.Table.from_pylist(DATA), unit="who", name="visits", snapshot="one", columns=declared)


def released(made, true, false, source):
    """Copies of a group with these rows, as a release would have them."""
    measure = made.measures[made.context.statistics[0].main_measure(made.context)]
    names = [name for name in made.measures if name == measure.name or made.measures[name].paid]
    sums = {
        name: measure.mechanism.noisy(np.full(DRAWS, number * measure.parts, dtype=np.int64), source=source)
        for name, number in zip(names, (true, false), strict=True)
    }
    (found,) = made.estimates(sums, {})
    return [np.array(end) for end in (found.lower, found.values, found.upper)]


def test_python_sql_and_json_ask_the_same(visits):
    asked = visits.agg(high=nt.share("s >= 3"))
    for text in ("SHARE(s >= 3)", "AVG(s >= 3)", "AVG(s>=3)"):
        assert nt.from_sql(f"SELECT {text} AS high FROM visits", visits) == asked, text
    assert visits.agg(high=nt.mean("s >= 3")) == asked
    assert question_of(form_of(asked), visits) == asked
    for ask in ("share", "mean"):
        assert question_of({"statistics": {"high": {"ask": ask, "column": "s >= 3"}}}, visits) == asked
    assert (
        nt.from_sql("SELECT AVG(s >= 3) AS high FROM visits ORDER BY AVG(s >= 3)", visits).aggregates
        == asked.aggregates
    )
    near = nt.from_sql("SELECT AVG(CASE WHEN s >= 3 THEN 1 ELSE 0 END) AS high FROM visits", visits)
    assert str(near.aggregates["high"]) == "share(CASE WHEN s >= 3 THEN 1 ELSE 0 END)"
    assert near != asked  # ELSE 0 also counts rows without s


@pytest.mark.parametrize("engine", [lambda _: DuckdbEngine(), MemoryEngine], ids=["duckdb", "oracle"])
def test_rows_of_a_null_condition_are_left_out_and_else_counts_them(visits, engine):
    truth = {
        "s >= 3": 20 / 30,
        "coalesce(s >= 3, false)": 20 / 40,
        "CASE WHEN s >= 3 THEN 1 ELSE 0 END": 20 / 40,
        "CASE WHEN s >= 3 THEN 1 WHEN s < 3 THEN 0 END": 20 / 30,
        "CASE WHEN s >= 3 THEN 1.0 ELSE 0 END": 20 / 40,
        "CASE WHEN open THEN s >= 3 END": 1 / 2,
        "open": 4 / 40,
        "flag": 20 / 40,
        "s IS NULL": 10 / 40,
    }
    query = visits.agg(n=nt.count(), **{f"s{place}": nt.mean(text) for place, text in enumerate(truth)})
    made = plan(query, spend=nt.gdp(10**6), limits=ONE)
    answer = made.answer(engine(DATA), noise.ScriptedSource(b"shares"))
    found = {one.name: one.values[0] for one in answer.columns}
    assert found.pop("n") == pytest.approx(40, abs=1e-3)
    assert list(found.values()) == pytest.approx(list(truth.values()), abs=1e-3)


def test_only_conditions_and_what_is_surely_0_or_1_have_a_share(visits):
    for text in ("s", "paid", "CASE WHEN s > 3 THEN 2 ELSE 0 END", "paid / 50"):
        with pytest.raises(SchemaError, match="must be a condition"):
            visits.agg(x=nt.share(text))
    with pytest.raises(SchemaError, match="'gone' is not in the table"):
        visits.agg(x=nt.share("gone"))
    kept = ("paid", "clip(paid, 0, 1)", "CASE WHEN s > 3 THEN 2 ELSE 0 END")
    assert all(str(visits.agg(x=nt.mean(text)).aggregates["x"]).startswith("mean(") for text in kept)
    assert str(visits.agg(x=nt.mean("flag", fill=0)).aggregates["x"]) == "mean(flag)"


@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_a_share_is_as_near_as_a_mean_and_nearer_than_total_over_number(visits, spend):
    texts = {"share": nt.share("s >= 3")}
    value = "CASE WHEN s >= 3 THEN 1 WHEN s < 3 THEN 0 END"
    texts |= {"mean": nt.mean(value, 0, 1, 1), "total": nt.mean(value, 0, 1, 1, fill=0)}
    plans = {name: plan(visits.agg(x=one), spend=spend, limits=ONE) for name, one in texts.items()}
    errors = {name: made.expected_errors()[0].by_size[3][1] for name, made in plans.items()}
    assert plans["share"].price == plans["mean"].price
    assert errors["share"] == errors["mean"] < 0.6 * errors["total"]
    both = plan(visits.agg(n=nt.count(), x=texts["share"]), spend=spend, limits=ONE)
    assert sum(not one.paid for one in both.measures.values()) == 1  # true, false and NULL rows are paid once
    assert both.expected_errors()[1].by_size[3][1] == pytest.approx(errors["share"])


@pytest.mark.parametrize("spend", SPENDS, ids=str)
@pytest.mark.parametrize(("true", "false"), [(0, 4), (3, 9), (0, 900), (600, 900), (900, 0)])
def test_bars_hold_as_often_as_they_say_within_0_and_1(visits, spend, true, false):
    made = plan(visits.agg(x=nt.share("s >= 3")), spend=spend, limits=ONE)
    low, value, high = released(made, true, false, noise.ScriptedSource(f"{spend} {true} {false}".encode()))
    truth = true / (true + false)
    assert ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean() >= FAIR
    assert low.min() >= 0
    assert high.max() <= 1
    assert ((low <= value) & (value <= high)).all()
    if (true, false) == (600, 900):
        short = (high - low) / 2 * 0.75  # the near miss
        assert (np.abs(value - truth) <= short).mean() < FAIR
