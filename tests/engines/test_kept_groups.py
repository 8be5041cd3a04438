"""Which groups a unit is kept in: those where it counts for most rows, and that follows from its own rows alone."""

import random
from dataclasses import replace

import pytest

import neartwin as nt
from neartwin.planning.planner import plan
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, as_mapping
from tests.oracles.memory import MemoryEngine

SPEND = nt.approx(1, "1e-6")
ROWS_IN = {"a": 9, "b": 6, "c": 5, "d": 3, "e": 1}


def row(who, town, paid=1.0):
    return {"who": who, "town": town, "year": 2000, "paid": paid}


def of_one(who="x"):
    return [row(who, town, paid) for town, n in ROWS_IN.items() for paid in range(n)]


@pytest.mark.parametrize("place", ENGINES)
def test_a_unit_in_too_many_groups_keeps_those_where_it_counts_most(request, place):
    place = request.getfixturevalue(place)
    query = place.visits(of_one()).group_by("town", keys=list(ROWS_IN))
    counted = query.agg(n=nt.count(), people=nt.count_distinct_units(), q=nt.median("paid", 0, 10, 1))
    made = plan(counted, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=20, max_groups=3))
    (split,) = made.splits.values()
    for cap, expected in ((20, [9, 6, 5, 0, 0]), (7, [7, 6, 5, 0, 0])):
        found = place.engine.aggregate(replace(made.stage, rows_per_group=cap), salt=SALT)
        assert found.values["rows"].tolist() == expected
        cells = place.engine.aggregate(replace(split.stage, rows_per_group=cap), salt=SALT).cells
        counted = [int(cells.count[cells.group == i].sum()) / split.stage.split_parts for i in range(5)]
        assert counted == pytest.approx(expected, rel=1e-5)  # quantiles are of the same groups
    kept = {
        tuple(place.engine.aggregate(replace(made.stage, rows_per_group=3), salt=salt).values["rows"].tolist())
        for salt in range(9)
    }
    assert len(kept) > 1  # where it counts alike, the salt decides
    assert all(rows[4] == 0 and sum(rows) == 9 for rows in kept)


def test_kept_groups_of_a_unit_do_not_depend_on_other_units():
    pick = random.Random(5)
    made = plan(
        nt.table(_empty(), unit="who", name="visits").group_by("town").agg(n=nt.count(), total=nt.sum("paid", 0, 10, 1)),
        spend=SPEND, limits=nt.limits(max_rows_per_group=4, max_groups=3),
    )  # fmt: skip
    for _ in range(30):
        others = [row(f"p{pick.randrange(5)}", pick.choice("abcdefgh"), pick.randrange(20)) for _ in range(80)]
        mine = [row("x", pick.choice("abcdefgh"), pick.randrange(20)) for _ in range(40)]
        order = lambda unit, key: (hash((unit, key)) % 97, key)  # noqa: E731
        whole, without, alone = (
            as_mapping(MemoryEngine(rows, order=order).aggregate(made.stage, salt=SALT))
            for rows in (others + mine, others, mine)
        )
        assert len(alone) == 3
        for key in {*whole, *without}:
            parts = [answer.get(key, (0,) * len(made.stage.measures)) for answer in (whole, without, alone)]
            assert all(a - b == c for a, b, c in zip(*parts, strict=True))


def _empty():
    import pyarrow as pa

    return pa.table({"who": ["a"], "town": ["b"], "paid": [1.0]})
