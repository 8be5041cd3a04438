"""Statements that are kept by their shape: the text of each question is its own, and nothing of one stays in another's."""

import gc
import weakref
from itertools import pairwise

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines import texts
from neartwin.engines.duckdb import _SALT, DuckdbDialect, DuckdbEngine
from neartwin.engines.memory import MemoryEngine
from neartwin.engines.sql.joins import Place
from neartwin.engines.sql.statement import statement
from neartwin.queries.planner import plan

ROWS = pa.table(
    {
        "who": [i % 7 for i in range(60)],
        "paid": [i * 37 % 19 / 2 for i in range(60)],
        "age": [i * 11 % 50 for i in range(60)],
        "town": [f"t{i % 3}" for i in range(60)],
        "new": [i % 2 == 0 for i in range(60)],
    }
)
CONDITIONS = [
    ("age > 3",),
    ("age > 4",),
    ("age > 4 OR paid < 2",),
    ("age > 4 OR paid < 2", "paid > 1"),
    ("paid > 1", "age > 4 OR paid < 2"),
    ("new",),
    ("new", "town = 't1'"),
    ("town = '''; DROP TABLE x; --'",),
    ("paid * 2 + age > 20",),
    ("NOT (age BETWEEN 3 AND 30)",),
    ("CASE WHEN new THEN age > 3 ELSE paid < 5 END",),
    ("age IS NULL",),
    (),
]


def stages(rows):
    """Each condition in five shapes."""
    for conditions in CONDITIONS:
        asked = rows
        for condition in conditions:
            asked = asked.where(condition)
        more = {"rows_per_group": 3}
        yield plan(asked.agg(n=nt.count()), spend=nt.pure(1), **more).stage
        yield plan(asked.agg(n=nt.count()), spend=nt.pure(1), rows_per_group=4).stage
        yield plan(asked.agg(t=nt.sum("paid", 0, 5, "1/2")), spend=nt.pure(1), **more).stage
        grouped = asked.group_by("town", keys=["t0", "t1"]).agg(t=nt.sum("paid", 0, 5, "1/2"))
        yield plan(grouped, spend=nt.pure(1), groups_per_unit=1, **more).stage
        yield plan(
            asked.group_by("town").agg(n=nt.count()), spend=nt.approx(1, "1e-3"), groups_per_unit=1, **more
        ).stage


def answered(found):
    """Keys and values, in one order."""
    names = list(found.values)
    rows = zip(*(found.values[name].tolist() for name in names), strict=True)
    return sorted(zip(map(tuple, found.keys), rows, strict=True))


def test_the_text_of_a_question_under_any_condition_answers_as_the_oracle_does():
    texts._known.clear()
    rows = nt.table(ROWS, unit="who", name="visits", snapshot="today")
    asked = list(stages(rows))
    for stage in (*asked, *reversed(asked)):  # at the second time every shape is known
        if stage.groups_per_unit is None:
            assert answered(DuckdbEngine().aggregate(stage, salt=5)) == answered(
                MemoryEngine(ROWS.to_pylist()).aggregate(stage, salt=5)
            )
    assert 5 < len(texts._known) < len(asked)  # shapes are shared, and are not all one


def test_questions_of_one_shape_share_a_text_but_for_their_conditions():
    rows = nt.table(ROWS, unit="who", name="visits", snapshot="today")
    place = [Place(_named("x"), DuckdbDialect())]
    found = [
        texts.text_of(
            plan(rows.where(f"age > {i}").agg(n=nt.count()), spend=nt.pure(1), rows_per_group=3).stage, place, _SALT
        )
        for i in range(3)
    ]
    for i, text in enumerate(found):
        assert text.count(f"> {i})") == 1
        assert text.replace(f"> {i})", "> 0)") == found[0]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_kept_text_is_the_statement_that_is_built_anew(ordered):
    rows = nt.table(ROWS, unit="who", name="visits", snapshot="today")
    place = [Place(_named("x"), DuckdbDialect())]
    for stage in stages(rows):
        if not stage.conditions:
            continue
        text = texts.text_of(stage, place, _SALT, ordered=ordered)
        anew = statement(stage, place, _SALT)
        anew = texts.in_order(anew, stage) if ordered else anew
        assert _bare(text) == _bare(anew.sql(dialect="duckdb"))


def test_shapes_that_differ_in_anything_but_conditions_have_texts_of_their_own():
    texts._known.clear()
    rows = nt.table(ROWS, unit="who", name="visits", snapshot="today")
    asked = rows.where("age > 4")
    near = [
        plan(asked.agg(n=nt.count()), spend=nt.pure(1), rows_per_group=3).stage,
        plan(asked.agg(n=nt.count()), spend=nt.pure(1), rows_per_group=4).stage,
        plan(asked.agg(t=nt.sum("paid", 0, 5)), spend=nt.pure(1), rows_per_group=4).stage,
        plan(asked.agg(t=nt.sum("paid", 0, 6)), spend=nt.pure(1), rows_per_group=4).stage,
        plan(asked.agg(t=nt.sum("age + 1", 0, 6, 1)), spend=nt.pure(1), rows_per_group=4).stage,
        plan(asked.agg(t=nt.sum("age + 2", 0, 6, 1)), spend=nt.pure(1), rows_per_group=4).stage,
        plan(
            asked.with_column("more", "age + 1").agg(t=nt.sum("more", 0, 6, 1)), spend=nt.pure(1), rows_per_group=4
        ).stage,
    ]
    found = [texts.text_of(stage, [Place(_named("x"), DuckdbDialect())], _SALT) for stage in near]
    assert len(set(found[:6])) == 6
    assert all(one != other for one, other in pairwise(found[:6]))
    other = texts.text_of(near[0], [Place(_named("y"), DuckdbDialect())], _SALT)
    assert other == found[0].replace("FROM x", "FROM y") != found[0]


def test_kept_texts_hold_no_rows_and_do_not_pile_up():
    texts._known.clear()
    frame = pa.table({"who": [1, 2], "age": [3, 4]})
    rows = nt.table(frame, unit="who", name="visits", snapshot="today")
    DuckdbEngine().aggregate(
        plan(rows.where("age > 3").agg(n=nt.count()), spend=nt.pure(1), rows_per_group=3).stage, salt=5
    )
    assert len(texts._known) == 1
    gone = weakref.ref(frame)
    del frame, rows
    gc.collect()
    assert gone() is None
    rows = nt.table(ROWS, unit="who", name="visits", snapshot="today").where("age > 4").agg(n=nt.count())
    place = [Place(_named("x"), DuckdbDialect())]
    for cap in range(1, texts._MOST_SHAPES + 20):
        texts.text_of(plan(rows, spend=nt.pure(1), rows_per_group=cap).stage, place, _SALT)
    assert len(texts._known) == texts._MOST_SHAPES


def _named(name):
    return texts.exp.table_(name)


def _bare(text):
    """Without the parentheses that group what AND joins anyway."""
    return text.replace("(", "").replace(")", "")
