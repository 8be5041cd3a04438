"""A question's written form reads back as the same question, and what is no question is refused in words."""

import inspect
import json
from datetime import date

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import NeartwinError, QueryError
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.statistics import CONSTRUCTORS

FRAME = pa.table({"who": [1], "cds": [1], "day": [date(2026, 1, 1)], "paid": [1.0], "town": ["Ulm"]})


@pytest.fixture
def rows():
    return nt.table(FRAME, unit="who", name="visits", columns={"paid": nt.bounds(0, 100)})


def questions(rows):
    yield rows.agg(n=nt.count(), u=nt.count_distinct_units())
    yield rows.where("paid > 5").where("town = 'Ulm'").group_by("cds", keys=[1, 2]).agg(m=nt.mean("paid", 0, 5, fill=1))
    yield rows.group_by("cds", "day", keys=[(1, date(2026, 1, 31)), (None, None)]).agg(total=nt.sum("paid"))
    yield rows.group_by("town").agg(total=nt.sum("paid", "0", "9.5", "1/2"))
    yield rows.most_common("day", among=[date(2026, 1, 1), date(2026, 1, 2)])
    yield nt.from_sql(
        "SELECT town, COUNT(*) AS n FROM visits GROUP BY town HAVING COUNT(*) > 5 ORDER BY n DESC LIMIT 3", rows
    )
    yield nt.from_sql("SELECT town, COUNT(*) AS n FROM visits GROUP BY town LIMIT 0", rows)
    yield nt.from_sql("SELECT town, SUM(paid) / SUM(paid + 1) AS n FROM visits GROUP BY town", rows)


def test_every_question_reads_back_from_its_form_as_the_same_question(rows):
    for question in questions(rows):
        assert question_of(form_of(question), rows) == question


def test_every_statistic_has_a_form():
    wanted = {"column": "paid", "rank": [0.1, 0.5], "edges": [0, 1]}
    wanted |= {"x": "paid", "y": "cds", "target": "paid", "features": ["cds"]}
    parts = {name: inspect.signature(make).parameters for name, make in CONSTRUCTORS.items()}
    made = {
        make(**{key: wanted[key] for key in parts[name] if key in wanted}).verb for name, make in CONSTRUCTORS.items()
    }
    assert made | {"median"} == set(CONSTRUCTORS)
    assert all(inspect.unwrap(getattr(nt, name)) is make for name, make in CONSTRUCTORS.items())


def test_sql_and_parts_come_to_the_same_question(rows):
    text = "SELECT cds, SUM(paid) AS total FROM visits WHERE paid > 5 GROUP BY cds"
    parts = {
        "where": ["paid > 5"],
        "group_by": ["cds"],
        "keys": {"cds": [1]},
        "statistics": {"total": {"ask": "sum", "column": "paid"}},
    }
    assert question_of({"sql": text, "keys": [1]}, rows) == question_of(parts, rows)


COUNT = {"n": {"ask": "count"}}


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"statistics": COUNT, "sql": "SELECT 1"},
        {"statistics": COUNT, "table": "visits"},
        {"statistics": {"n": {"ask": "eval"}}},
        {"statistics": {"n": {"ask": "__class__"}}},
        {"statistics": {"n": {"ask": "count", "column": "nowhere"}}},
        {"statistics": {"n": {"ask": "count", "column": 3}}},
        {"statistics": {"n": {"ask": "count_distinct_units", "column": "nowhere"}}},
        {"statistics": {"n": {"ask": "sum", "column": ["paid"]}}},
        {"statistics": {"n": {"ask": "sum"}}},
        {"statistics": {"n": "count"}},
        {"statistics": {"n": {"ask": "covariance", "x": ["paid"], "y": "cds"}}},
        {"statistics": {"n": {"ask": "regression", "target": ["paid"], "features": ["cds"]}}},
        {"statistics": {"n": {"ask": "regression", "target": "paid", "features": [1]}}},
        {"statistics": [COUNT]},
        {"statistics": COUNT, "where": "paid > 5"},
        {"statistics": COUNT, "where": ["1; DROP TABLE visits"]},
        {"statistics": COUNT, "where": ["paid > (SELECT 1)"]},
        {"statistics": COUNT, "keys": [1]},
        {"statistics": COUNT, "group_by": ["cds"], "keys": "/etc/passwd"},
        {"statistics": COUNT, "group_by": ["cds"], "keys": {"cds": "/etc/passwd"}},
        {"statistics": COUNT, "group_by": ["cds"], "keys": {"town": [1]}},
        {"statistics": COUNT, "group_by": ["cds"], "keys": [{"$gt": 0}]},
        {"statistics": COUNT, "group_by": ["cds"], "keys": [[1, 2]]},
        {"statistics": COUNT, "group_by": ["day"], "keys": ["yesterday"]},
        {"statistics": COUNT, "group_by": ["paid"]},
        {"statistics": COUNT, "group_by": ["cds"], "after": {"having": "paid > 5"}},
        {"statistics": COUNT, "group_by": ["cds"], "after": {"having": "n"}},
        {"statistics": COUNT, "group_by": ["cds"], "after": {"order_by": [["paid", True]]}},
        {"statistics": COUNT, "group_by": ["cds"], "after": {"divided": ["m"]}},
        {"statistics": COUNT, "group_by": ["cds"], "after": {"divided": "n"}},
        {"statistics": COUNT, "group_by": ["cds"], "after": {"limit": -1}},
        {"statistics": COUNT, "group_by": ["cds"], "after": {"sort": "n"}},
        {"most_common": {"column": "cds"}},
        {"most_common": {"column": "cds", "among": "/etc/passwd"}},
        {"sql": "SELECT COUNT(*) FROM 'other.parquet'"},
        {"sql": "SELECT COUNT(*) FROM visits", "keys": [1]},
        {"sql": "SELECT COUNT(*) FROM visits WHERE " + "(" * 2000 + "cds = 1" + ")" * 2000},
        {"sql": ["SELECT"]},
    ],
)
def test_malformed_wire_form_is_refused_in_words(rows, form):
    with pytest.raises(NeartwinError) as refusal:
        question_of(form, rows)
    assert len(str(refusal.value)) > 20


def test_joined_tables_have_no_form(rows):
    other = nt.public_table(pa.table({"town": ["Ulm"], "size": [1]}))
    with pytest.raises(QueryError, match="no written form"):
        form_of(rows.join(other, on="town").agg(n=nt.count()))


@pytest.mark.parametrize(
    "statistic",
    [
        nt.median("paid", 0, 10),
        nt.median("paid"),
        nt.quantile("paid", [0.1, "1/3"], 0, 10, "1/8", fill=3),
        nt.minimum("paid", 0, "7/3"),
        nt.maximum("paid"),
        nt.histogram("paid", [0, "1/3", 5]),
    ],
    ids=str,
)
def test_statistics_of_order_are_read_back_as_they_were_written(rows, statistic):
    question = rows.agg(it=statistic)
    assert question_of(json.loads(json.dumps(form_of(question))), rows) == question
