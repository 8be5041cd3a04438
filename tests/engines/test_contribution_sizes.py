"""Units by the size of their contribution: equal on every engine, and one unit is in exactly one cell."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import ParameterError
from neartwin.planning.planner import plan
from neartwin.planning.stage import MOST_GROUPS, ContributionSizes
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, as_mapping, hostile_rows
from tests.oracles.memory import MemoryEngine

pytestmark = pytest.mark.sweep

EDGES = (1, 2, 3, 5, 10, 40, 300)
LIMITS = nt.limits(max_rows_per_group=3, max_groups=2)


def stage_of(query, power, edges=EDGES, **more):
    """The stage of a question's rows, by size."""
    stage = plan(query, spend=nt.approx(1, "1e-6"), limits=LIMITS).stage
    plain = {"measures": ("units",), "grid": {}, "parts": {}, "groups_per_unit": None, "discovery_groups": None}
    return replace(stage, sizes=ContributionSizes(edges, power), **plain | more)


def questions(rows):
    """By public keys, one of them NULL; by unknown groups; and as a whole."""
    towns = ["Ulm", "Bonn", None, "nowhere", "ulm", ""]
    yield rows.group_by("town", keys=towns).agg(n=nt.count()), None
    yield rows.group_by("town", "year").agg(n=nt.count()), None
    yield rows.where("paid > 0").agg(n=nt.count()), None
    yield rows.group_by("town", "open", keys=[(t, o) for t in towns for o in (True, None)]).agg(n=nt.count()), (1,)


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("place", ENGINES)
def test_every_engine_counts_units_by_size_as_the_oracle_does(request, place, power):
    place = request.getfixturevalue(place)
    rows = hostile_rows("sizes", 900)
    for query, length_by in questions(place.visits(rows)):
        stage = stage_of(query, power, length_by=length_by)
        found = as_mapping(place.engine.aggregate(stage, salt=SALT))
        assert found == as_mapping(MemoryEngine(rows).aggregate(stage, salt=SALT))
        assert sum(count for (count,) in found.values()) > 20


@pytest.mark.parametrize("place", [ENGINES[0], *(pytest.param(one, marks=pytest.mark.slow) for one in ENGINES[1:])])
def test_every_engine_counts_units_with_clipped_values_as_the_oracle_does(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("clipped", 900)
    table = place.visits(rows)
    several = "clip(paid, -1, 2) * 3 - clip(year, 0, 9) / 2 + CASE WHEN open THEN clip(paid, 0, 50) ELSE 1 END"
    for value in (nt.sum("paid", 0, 5), nt.mean(several)):
        asked = table.group_by("town", keys=["Ulm", "Bonn"]).agg(y=value)
        stage = plan(asked, spend=nt.approx(1, "1e-6"), limits=LIMITS).loss.clipped[0].stage
        found = as_mapping(place.engine.aggregate(stage, salt=SALT))
        assert found == as_mapping(MemoryEngine(rows).aggregate(stage, salt=SALT))
        assert sum(count for (edge,), (count,) in found.items() if edge > 1) > 10


@pytest.mark.parametrize(
    "limits",
    [
        {"rows_per_group": 2},
        {"rows_per_group": 2, "groups_per_unit": 2},
        {"rows_per_group": 4, "groups_per_unit": 2, "rows_per_unit": 5},
        {"rows_per_group": 5, "rows_per_unit": 5},
        {"rows_per_group": 5, "rows_per_unit": 5, "groups_per_unit": MOST_GROUPS},
        {"rows_per_group": 2, "rows_per_unit": 5, "groups_per_unit": MOST_GROUPS - 1},
        {"norm": Fraction(5, 2)},
    ],
    ids=str,
)
@pytest.mark.parametrize("place", [*ENGINES[:2], pytest.param(ENGINES[2], marks=pytest.mark.slow)])
def test_every_engine_counts_units_by_what_their_limits_take(request, place, limits):
    place = request.getfixturevalue(place)
    rows = hostile_rows("lost", 900)
    for query, length_by in questions(place.visits(rows)):
        for power in (0, 1):
            stage = stage_of(query, power)
            sizes = ContributionSizes(EDGES, power, lost=True)
            by = length_by if "norm" in limits else None
            stage = replace(stage, sizes=sizes, length_by=by, **limits)
            found = as_mapping(place.engine.aggregate(stage, salt=SALT))
            assert found == as_mapping(MemoryEngine(rows).aggregate(stage, salt=SALT))
            assert sum(count for (count,) in found.values()) > 20
            if query.groups.columns and power:
                assert sum(count for (edge,), (count,) in found.items() if edge > 1) > 0


def counts(stage, rows):
    return np.array(MemoryEngine(rows).aggregate(stage, salt=SALT).values["units"], dtype=np.int64)


@pytest.mark.slow
@pytest.mark.parametrize(("power", "lost"), [(0, False), (1, False), (2, False), (0, True), (1, True)])
def test_unit_is_in_exactly_one_cell_at_any_size(power, lost):
    pick = random.Random(4)
    table = nt.table(pa.table({"who": ["a"], "town": ["b"]}), unit="who", name="visits")
    stage = stage_of(table.group_by("town").agg(n=nt.count()), power)
    stage = replace(stage, sizes=replace(stage.sizes, lost=lost), rows_per_group=1, groups_per_unit=2)
    pairs = set()
    for _ in range(30):

        def rows_of(name):
            towns = [f"t{i}" for i in range(pick.choice([1, 3, 40]))]
            return [{"who": name, "town": town} for town in towns for _ in range(pick.choice([1, 2, 90]))]

        others = [row for i in range(5) for row in rows_of(f"p{i}")]
        without, first, second = (counts(stage, others + more) for more in ([], rows_of("x"), rows_of("x")))
        assert without.sum() == 5
        assert sorted(abs(first - without))[-2:] == [0, 1]  # added: one cell by 1
        pairs.add(tuple(sorted(abs(first - second))[-2:]))
    assert pairs == {(0, 0), (1, 1)}  # replaced: from one cell to another
    spread = [{"who": "x", "town": f"t{i}"} for i in range(40)]  # near miss: by pairs of unit and group, 40
    assert counts(stage, spread).sum() == 1


def test_sizes_are_groups_rows_and_squared_lengths():
    table = nt.table(pa.table({"who": ["a"], "town": ["b"]}), unit="who", name="visits")
    rows = [{"who": "x", "town": town} for town in "aaab"]  # 2 groups, 4 rows, length squared 10
    for power, edge in ((0, 2), (1, 3), (2, 10)):
        found = counts(stage_of(table.group_by("town").agg(n=nt.count()), power), rows)
        assert EDGES[int(np.flatnonzero(found)[0])] == edge


@pytest.mark.parametrize("edges", [(2, 3), (1, 1), (1, 3, 2), (0, 1)])
def test_edges_that_leave_a_unit_out_are_refused(edges):
    with pytest.raises(ParameterError, match="must increase from 1 on"):
        ContributionSizes(edges, 1)
    with pytest.raises(ParameterError, match="0 for groups, 1 for rows or 2 for squared lengths"):
        ContributionSizes(EDGES, 3)
