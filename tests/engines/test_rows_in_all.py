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
from neartwin.statistics.sensitivity import Contribution, of_count, of_sum
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, answers, hostile_rows
from tests.oracles.memory import MemoryEngine

SPEND = nt.approx(10**6, "1e-6")
STATISTICS = {
    "n": nt.count(),
    "people": nt.count_distinct_units(),
    "total": nt.sum("paid", -50, 50),
    "mean": nt.mean("paid", 0, 10),
}


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
    reach = Contribution(rows_per_group=3, groups_per_unit=2, groups=None, rows_per_unit=4)
    table = nt.table(
        pa.table({"who": ["a"], "town": ["b"], "paid": [1.0]}), unit="who", name="v", neighbours=neighbours.value
    )
    query = table.group_by("town", keys=list("abcd")).agg(n=nt.count(), total=nt.sum("paid", low, high, 1))
    stage = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=3, max_groups=2, rows=4)).stage
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
    for measure, needed in (
        ("rows", of_count(neighbours, reach)),
        (name, of_sum(neighbours, reach, low=low, high=high)),
    ):
        moved = [
            np.array(one[measure] - (0 if other is None else other[measure]), dtype=np.int64) for one, other in pairs
        ]
        largest = max(int(abs(move).sum()) for move in moved)
        assert largest <= needed.l1
        assert max(int((move**2).sum()) for move in moved) <= needed.l2_squared
        assert max(int(abs(move).max()) for move in moved) <= needed.cell
        if neighbours is Neighbours.ADD_REMOVE:
            assert largest == needed.l1  # near miss: a cap of one row less would be passed
        unbounded = of_count(neighbours, Contribution(rows_per_group=3, groups_per_unit=2, groups=None))
        assert needed.l1 < (unbounded.l1 if measure == "rows" else unbounded.l1 * max(abs(low), abs(high)))


def test_a_unit_counts_for_no_more_than_the_cap_in_all():
    rows = [{"who": "x", "town": f"t{i}", "paid": 2.0} for i in range(10) for _ in range(10)]
    table = nt.table(pa.Table.from_pylist(rows), unit="who", name="visits")
    query = table.group_by("town", keys=[f"t{i}" for i in range(10)]).agg(n=nt.count(), total=nt.sum("paid", 0, 2, 1))
    asked = plan(query, spend=SPEND, limits=nt.limits(rows=50))
    values = MemoryEngine(rows).aggregate(asked.stage, salt=SALT).values
    assert [sum(found) for found in values.values()] == [50, 100]  # every group keeps its part
    assert "rows = 50" in str(asked.explain())
    by_two = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=10, max_groups=10))
    in_all = plan(query, spend=nt.pure(1), limits=nt.limits(rows=50))
    assert 2 * in_all.measures["rows"].mechanism.scale == by_two.measures["rows"].mechanism.scale
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
            lambda: plan(groups.agg(m=nt.median("paid", 0, 9)), spend=SPEND, limits=nt.limits(max_groups=2, rows=5)),
            QueryError,
        ),
        (
            lambda: plan(
                nt.table(frame, unit=nt.ROW, name="v").agg(n=nt.count()), spend=SPEND, limits=nt.limits(rows=5)
            ),
            ParameterError,
        ),
        (lambda: plan(groups.agg(n=nt.count()), spend=SPEND, limits=nt.limits(max_groups=2, rows=0)), ParameterError),
        (
            lambda: plan(
                groups.agg(n=nt.count()),
                spend=SPEND,
                limits=nt.limits(max_rows_per_group=nt.private_limit(groups=3), max_groups=2, rows=5),
            ),
            ParameterError,
        ),
    ):
        with pytest.raises(wrong):
            asked()
