"""Linear workloads in SQL, Python and JSON are one question; windows that say something else are refused in words."""

import json
from datetime import date

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import NeartwinError, ParameterError, QueryError
from neartwin.queries.wire.parse import form_of, question_of

FRAME = pa.table({"who": [1], "age": [2], "paid": [1.0], "town": ["Ulm"], "day": [date(2026, 1, 1)]})
AGES = [3, 1, 2, 8]


@pytest.fixture
def rows():
    return nt.table(FRAME, unit="who", name="people", columns={"paid": nt.bounds(0, 100)})


RISING, FALLING = [1, 2, 3, 8], [8, 3, 2, 1]
SAME = {
    "SUM(COUNT(*)) OVER (ORDER BY age)": (RISING, nt.prefix_sums(), nt.count()),
    "SUM(COUNT(*)) OVER (ORDER BY age ROWS UNBOUNDED PRECEDING)": (RISING, nt.prefix_sums(), nt.count()),
    "SUM(COUNT(*)) OVER (ORDER BY age RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)": (
        RISING, nt.prefix_sums(), nt.count(),
    ),
    "SUM(SUM(paid)) OVER (ORDER BY age DESC)": (FALLING, nt.prefix_sums(), nt.sum("paid")),
    "SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)": (RISING, nt.moving_sums(2), nt.count()),
    "SUM(COUNT(*)) OVER (ORDER BY age ROWS 2 PRECEDING)": (RISING, nt.moving_sums(2), nt.count()),
    "SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING)": (RISING, nt.moving_sums(0, 3), nt.count()),
    "SUM(SUM(paid + 1)) OVER (ORDER BY age ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)": (
        RISING, nt.moving_sums(1, 1), nt.sum("paid + 1"),
    ),
    "RANGES(COUNT(*))": (AGES, nt.range_sums(), nt.count()),
    "ranges(SUM(paid), [1, 3])": (AGES, nt.range_sums([1, 3]), nt.sum("paid")),
    "WEIGHTED_SUMS(COUNT(*), MAP {'young': MAP {1: 1, 2: -0.5}, 'old': MAP {8: 2}})": (
        AGES, {"young": {1: 1, 2: "-1/2"}, "old": {8: 2}}, nt.count(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("written", SAME)
def test_sql_python_and_json_say_the_same_question(rows, written):
    keys, workload, statistic = SAME[written]
    asked = nt.from_sql(f"SELECT {written} AS n FROM people WHERE paid > 5 GROUP BY age", rows, keys=AGES)
    built = rows.where("paid > 5").group_by("age", keys=keys).workload(workload).agg(n=statistic)
    assert (asked.groups, asked.aggregates) == (built.groups, built.aggregates)
    assert question_of(json.loads(json.dumps(form_of(asked))), rows) == asked


def test_every_two_of_these_questions_differ(rows):
    forms = {
        json.dumps(form_of(nt.from_sql(f"SELECT {w} AS n FROM people GROUP BY age", rows, keys=AGES))) for w in SAME
    }
    assert len(forms) == len({repr(part) for part in SAME.values()})


def test_keys_of_several_columns_and_dates_are_weighted(rows):
    keys = [("Ulm", date(2026, 1, 1)), ("Bonn", None)]
    text = (
        "SELECT WEIGHTED_SUMS(COUNT(*), MAP {'x': MAP {('Ulm', DATE '2026-01-01'): 1, ('Bonn', NULL): 3}}) AS n "
        "FROM people GROUP BY town, day"
    )
    asked = nt.from_sql(text, rows, keys=keys)
    assert asked == rows.group_by("town", "day", keys=keys).workload({"x": {keys[0]: 1, keys[1]: 3}}).agg(n=nt.count())
    assert question_of(json.loads(json.dumps(form_of(asked))), rows) == asked


def test_order_and_qualify_go_over_the_names_that_are_released(rows):
    text = "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) AS n FROM people GROUP BY age QUALIFY age < 8 AND n > 1 ORDER BY {}"
    named = [nt.from_sql(text.format(by), rows, keys=AGES).after for by in ("age DESC", "1 DESC", "age_to DESC")]
    assert len(set(named)) == 1
    assert named[0].order == (("age_to", True),)
    assert named[0].having == '"age_to" < 8 AND n > 1'
    unnamed = nt.from_sql(
        "SELECT SUM(COUNT(*)) OVER (ORDER BY age) FROM people GROUP BY age ORDER BY 1", rows, keys=AGES
    )
    assert unnamed.after.order == (("count", False),)
    grouped = "SELECT month(day) AS m, SUM(COUNT(*)) OVER (ORDER BY {}) AS n FROM people GROUP BY m"
    one, other = (nt.from_sql(grouped.format(along), rows) for along in ("m", "month(day)"))
    assert one == other
    months = [(month,) for month in range(1, 13)]
    assert one.groups.keys == (*months, (None,))
    first = nt.from_sql(grouped.format("m DESC NULLS FIRST"), rows)  # each dialect says where its NULL is by default
    assert (
        first.groups.keys
        == ((None,), *reversed(months))
        == nt.from_sql(grouped.format("m DESC"), rows, dialect="postgres").groups.keys
    )


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ("COUNT(*) OVER (ORDER BY age)", "not understood"),
        ("SUM(COUNT(*)) FILTER (WHERE paid > 5) OVER (ORDER BY age)", "not understood"),
        ("SUM(COUNT(*)) OVER (ORDER BY town)", "must name the one column of GROUP BY"),
        ("SUM(COUNT(*)) OVER (ORDER BY age RANGE BETWEEN 3 PRECEDING AND CURRENT ROW)", "not understood"),
        ("SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)", "not understood"),
        ("RANGES(paid)", "not understood"),
        ("RANGES()", "not understood"),
        ("RANGES(COUNT(*), 5)", "not understood"),
        ("RANGES(COUNT(*), [9])", "at most the number of keys"),
        ("WEIGHTED_SUMS(COUNT(*))", "not understood"),
        ("WEIGHTED_SUMS(COUNT(*), MAP {'a': MAP {age: 1}})", "not understood"),
        ("WEIGHTED_SUMS(COUNT(*), MAP {'a': MAP {1: paid}})", "not understood"),
        ("WEIGHTED_SUMS(COUNT(*), MAP {'a': MAP {7: 1}})", "not among the public keys"),
        ("RANGES(COUNT(*)), COUNT(*)", "the only statistic"),
        ("RANGES(COUNT(*)) AS a, RANGES(SUM(paid)) AS b", "the only statistic"),
        ("age, RANGES(COUNT(*))", "is no column here"),
        ("SUM(COUNT(*)) OVER (ORDER BY age) AS age_to", "another name"),
    ],
)  # fmt: skip
def test_malformed_sum_over_groups_is_refused_with_a_remedy(rows, select, says):
    with pytest.raises(NeartwinError, match=says) as refused:
        nt.from_sql(f"SELECT {select} FROM people GROUP BY age", rows, keys=AGES)
    assert isinstance(refused.value, QueryError | ParameterError)


@pytest.mark.parametrize(
    ("text", "keys", "says"),
    [
        ("SELECT SUM(COUNT(*)) OVER (ORDER BY age) FROM people", None, "need GROUP BY"),
        ("SELECT SUM(COUNT(*)) OVER (ORDER BY town) FROM people GROUP BY town", None, "public keys"),
        ("SELECT SUM(COUNT(*)) OVER w FROM people GROUP BY age WINDOW w AS (ORDER BY age)", AGES, "behind OVER"),
    ],
)  # fmt: skip
def test_a_window_without_what_it_needs_is_refused(rows, text, keys, says):
    with pytest.raises(QueryError, match=says):
        nt.from_sql(text, rows, keys=keys)


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ("prefixes", "workload must be"),
        ({"ask": "sums"}, "workload must be"),
        ({"ask": ["prefixes"]}, "workload must be"),
        ({"ask": "prefixes", "lengths": [1]}, "takes nothing else"),
        ({"ask": "ranges", "lengths": 3}, "must be a list"),
        ({"ask": "ranges", "lengths": ["3"]}, "whole number"),
        ({"ask": "moving"}, "a workload of moving takes before, after"),
        ({"ask": "moving", "before": 0}, "at least 1"),
        ({"ask": "moving", "before": -1}, "at least 0"),
        ({"ask": "weights"}, "takes weights"),
        ({"ask": "weights", "weights": {"a": {"1": 1}}}, "a list of pairs"),
        ({"ask": "weights", "weights": {"a": [[1, True]]}}, "a list of pairs"),
        ({"ask": "weights", "weights": {"a": [[1, 1], [1, 2]]}}, "two weights for one key"),
        ({"ask": "weights", "weights": {"a": [[[1, 2], 1]]}}, "not of the type of 'age'"),
        ({"ask": "weights", "weights": {"a": [[7, 1]]}}, "not among the public keys"),
        ({"ask": "weights", "weights": {"a": [[{"x": 1}, 1]]}}, "not of the type of 'age'"),
    ],
)
def test_malformed_json_workload_is_refused_in_words(rows, workload, says):
    form = {"group_by": ["age"], "keys": [1, 2], "statistics": {"n": {"ask": "count"}}, "workload": workload}
    with pytest.raises(NeartwinError, match=says):
        question_of(form, rows)
    assert question_of(
        form | {"workload": {"ask": "moving", "before": 1}}, rows
    ).groups.linear_workload == nt.moving_sums(1)


def test_a_workload_and_margins_or_no_groups_are_refused(rows):
    form = {"statistics": {"n": {"ask": "count"}}, "workload": {"ask": "prefixes"}}
    grouped = form | {"group_by": ["age"], "keys": [1, 2]}
    for wrong in (form, grouped | {"margins": [["age"]]}, {"sql": "SELECT COUNT(*) FROM people"} | {"workload": {}}):
        with pytest.raises(QueryError):
            question_of(wrong, rows)
