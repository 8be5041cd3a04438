"""A cap on all rows of a unit: heavy units are weighted down in every group, and what one can move is what is said."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import ParameterError, QueryError
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.planning.planner import plan
from neartwin.statistics.sensitivity import Contribution, of_count
from tests.engines.places import SALT, DuckdbPlace
from tests.engines.test_same_answers import ENGINES, answers, hostile_rows, in_cells
from tests.oracles.memory import MemoryEngine

SPEND = nt.approx(10**6, "1e-6")
STATISTICS = {
    "n": nt.count(),
    "people": nt.count_distinct_units(),
    "payers": nt.count_distinct_units("CASE WHEN paid > 2.5 THEN 1 END"),
    "total": nt.sum("paid", -50, 50),
    "mean": nt.mean("paid", 0, 10),
}
RANKED = nt.median("paid", -50, 50, "1/4")


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize(
    "more", [{"max_groups": 3}, {"max_groups": 12, "max_discovered_groups": 4}], ids=["few", "found by few"]
)
def test_every_engine_weights_heavy_units_down_as_the_oracle_does(request, place, more):
    place = request.getfixturevalue(place)
    rows = hostile_rows("in all", 900)
    query = place.visits(rows).group_by("town", "open").agg(**STATISTICS)
    found, expected = answers(
        place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=6, rows=7, **more))
    )
    assert found == expected


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize("caps", [{"max_rows_per_group": 2}, {}], ids=["both", "alone"])
def test_values_by_cell_are_weighted_alike(request, place, caps):
    place = request.getfixturevalue(place)
    rows = hostile_rows("cells in all", 600)
    query = place.visits(rows).where("paid < 40 OR open").group_by("town").agg(middle=RANKED)
    made = plan(query, spend=SPEND, limits=nt.limits(max_groups=3, rows=5, **caps))
    ((_, split),) = made.splits.items()
    own = place.order(split.stage, rows)
    found = in_cells(place.engine.aggregate(split.stage, salt=SALT))
    assert found == in_cells(MemoryEngine(rows, order=own).aggregate(split.stage, salt=SALT))
    assert found


@pytest.mark.parametrize("place", ENGINES)
def test_over_public_keys_the_cap_can_stand_alone(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("alone", 500)
    query = (
        place.visits(rows)
        .group_by("town", keys=["Ulm", None, "nowhere", "Bonn"])
        .agg(n=nt.count(), total=nt.sum("paid", -50, 50))
    )
    asked = plan(query, spend=SPEND, limits=nt.limits(rows=5))
    assert (asked.bounding.max_rows_per_group, asked.bounding.max_groups, asked.bounding.rows) == (5, 4, 5)
    found, expected = answers(place, rows, asked)
    assert found == expected


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(("low", "high"), [(0, 5), (-3, 5), (2, 4)])
def test_sensitivity_of_rows_in_all_holds_for_every_pair_and_is_attained(neighbours, low, high):
    """By brute force over what a unit may have in two groups: numbers of rows, each value at either end."""
    pick = random.Random(7)
    table = nt.table(
        pa.table({"who": ["a"], "town": ["b"], "paid": [1.0]}), unit="who", name="v", neighbours=neighbours.value
    )
    query = table.group_by("town", keys=list("abcd")).agg(n=nt.count(), total=nt.sum("paid", low, high, 1))
    made = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=3, max_groups=2, rows=4))
    stage = made.stage
    name = next(name for name in stage.measures if name.startswith("total"))
    ways = [
        [
            {"who": "x", "town": town, "paid": float(value)}
            for town, number, value in zip(towns, numbers, values, strict=True) for _ in range(number)
        ]
        for towns in ("ab", "cd", "ac") for numbers in itertools.product((0, 1, 2, 3, 9), repeat=2)
        for values in itertools.product((low, high), repeat=2)
    ]  # fmt: skip
    vectors = [MemoryEngine(rows, order=lambda _, key: key).aggregate(stage, salt=SALT).values for rows in ways]
    pairs = (
        itertools.product(vectors, vectors)
        if neighbours is Neighbours.REPLACE_ONE
        else ((one, None) for one in vectors)
    )
    pairs = (
        pick.sample(list(pairs), min(len(vectors) ** 2, 4000)) if neighbours is Neighbours.REPLACE_ONE else list(pairs)
    )
    for measure in ("rows", name):
        needed, parts = made.measures[measure].sensitivity, stage.parts[measure]
        moved = [
            np.array(one[measure] - (0 if other is None else other[measure]), dtype=np.int64) for one, other in pairs
        ]
        largest = max(int(abs(move).sum()) for move in moved)
        assert largest <= needed.l1
        assert max(int((move**2).sum()) for move in moved) <= needed.l2_squared
        assert max(int(abs(move).max()) for move in moved) <= needed.cell
        if neighbours is Neighbours.ADD_REMOVE:
            assert (
                needed.l1 - 2 <= largest
            )  # two groups, each truncated by less than a part. Near miss: a cap of one row less would be passed
        unbounded = of_count(neighbours, Contribution(rows_per_group=3, groups_per_unit=2, groups=None))
        assert needed.l1 < parts * unbounded.l1 * (1 if measure == "rows" else max(abs(low), abs(high)))


def test_a_unit_counts_for_no_more_than_the_cap_in_all():
    rows = [{"who": "x", "town": f"t{i}", "paid": 2.0} for i in range(10) for _ in range(10)]
    table = nt.table(pa.Table.from_pylist(rows), unit="who", name="visits")
    query = table.group_by("town", keys=[f"t{i}" for i in range(10)]).agg(n=nt.count(), total=nt.sum("paid", 0, 2, 1))
    asked = plan(query, spend=SPEND, limits=nt.limits(rows=50))
    values = MemoryEngine(rows).aggregate(asked.stage, salt=SALT).values
    assert [sum(found) / asked.stage.parts[name] for name, found in values.items()] == [
        50,
        100,
    ]  # every group keeps its part
    assert "rows = 50" in str(asked.explain())
    by_two = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=10, max_groups=10))
    in_all = plan(query, spend=nt.pure(1), limits=nt.limits(rows=50))
    assert (
        2 * in_all.measures["rows"].mechanism.scale
        == by_two.measures["rows"].mechanism.scale * in_all.stage.parts["rows"]
    )
    assert len({asked.digest, by_two.digest, in_all.digest}) == 3
    none = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=10, max_groups=10, rows=100))
    assert none.digest == by_two.digest  # a cap that cannot bind is none


def test_meaningless_cap_of_rows_is_refused():
    frame = pa.table({"who": ["a"], "town": ["b"], "paid": [1.0]})
    table = nt.table(frame, unit="who", name="visits")
    groups = table.group_by("town")
    for asked, wrong in (
        (
            lambda: plan(groups.agg(n=nt.count()), spend=SPEND, limits=nt.limits(rows=5)),
            QueryError,
        ),  # unknown groups need their own cap
        (
            lambda: plan(
                nt.table(frame, unit=nt.ROW, name="v").agg(n=nt.count()), spend=SPEND, limits=nt.limits(rows=5)
            ),
            ParameterError,
        ),
        (lambda: plan(groups.agg(n=nt.count()), spend=SPEND, limits=nt.limits(max_groups=2, rows=0)), ParameterError),
        (
            lambda: plan(
                groups.agg(n=nt.count()), spend=SPEND, limits=nt.limits(norm=nt.private_limit(groups=3), rows=5)
            ),
            ParameterError,
        ),
    ):
        with pytest.raises(wrong):
            asked()


@pytest.mark.slow
def test_rows_in_all_serve_unknown_groups(tmp_path):
    """No group is dropped: a unit counts for at most 5 rows over all, and helps to discover two."""
    rows = hostile_rows("unknown", 400)
    visits = DuckdbPlace().visits(rows)
    query = visits.group_by("town").agg(n=nt.count(), s=nt.sum("paid", -5, 5, 1))
    made = plan(query, spend=nt.approx(1, "1e-6"), limits=nt.limits(rows=5, max_discovered_groups=2))
    (found, expected) = answers(DuckdbPlace(), rows, made)
    assert found == expected
    assert made.measures["rows"].sensitivity.l1 == 5 * made.measures["rows"].parts
    assert (made.discovered_cells, made.bounding.rows) == (2, 5)
    whole, most = MemoryEngine(rows).aggregate(made.stage, salt=SALT), 0
    for unit in {row["who"] for row in rows} - {None}:
        less = MemoryEngine([row for row in rows if row["who"] != unit]).aggregate(made.stage, salt=SALT)
        before, after = (dict(zip(one.keys, map(int, one.values["rows"]), strict=True)) for one in (whole, less))
        most = max(most, sum(abs(before[key] - after.get(key, before[key])) for key in before))
    assert 0.9 * made.measures["rows"].sensitivity.l1 < most <= made.measures["rows"].sensitivity.l1
    with pytest.raises(QueryError, match=r"max_discovered_groups is missing.*rows=5, max_discovered_groups=3\)"):
        plan(query, spend=nt.approx(1, "1e-6"), limits=nt.limits(rows=5))  # max_groups would cut units in more groups
    people = visits.group_by("town").agg(u=nt.count_distinct_units(), n=nt.count())
    with pytest.raises(QueryError, match="max_groups is missing"):  # a count of people has its own
        plan(people, spend=nt.approx(1, "1e-6"), limits=nt.limits(rows=5, max_discovered_groups=2))
