"""Groups found by a few groups of each unit: what one unit can bring in is bounded by them, however many it counts in."""

import random

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbDialect, DuckdbEngine
from neartwin.errors import ParameterError
from neartwin.planning.planner import plan
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, answers, as_mapping, hostile_rows
from tests.oracles.memory import MemoryEngine

SPEND = nt.approx(1, "1e-6")


@pytest.mark.parametrize("place", ENGINES)
def test_every_engine_counts_finders_as_the_oracle_does(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("finders", 700)
    query = place.visits(rows).group_by("town", "year").agg(n=nt.count(), people=nt.count_distinct_units())
    asked = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=12, max_discovered_groups=4))
    found, expected = answers(place, rows, asked)
    assert found == expected
    assert len(found) > 10


@pytest.mark.parametrize(
    "limit", [{"norm": 2}, {"rows": 5, "max_groups": 9}, {"max_rows_per_group": 3, "max_groups": 9}]
)
def test_finders_under_every_limit_are_those_of_the_oracle(duckdb_place, limit):
    """Under a norm, what told the few apart had the name of the root that rows are divided by."""
    rows = hostile_rows("finders", 300)
    query = duckdb_place.visits(rows).group_by("town").agg(n=nt.count(), people=nt.count_distinct_units())
    spend = nt.gdp(1, "1e-6") if "norm" in limit else SPEND
    asked = plan(query, spend=spend, limits=nt.limits(**limit, max_discovered_groups=3))
    order = duckdb_place.order(asked.stage, rows)
    found = as_mapping(duckdb_place.engine.aggregate(asked.stage, salt=SALT))
    assert found == as_mapping(MemoryEngine(rows, order=order).aggregate(asked.stage, salt=SALT))
    assert len(found) > 5


def of(rows, **limits):
    table = nt.table(pa.table({"who": ["a"], "town": ["b"]}), unit="who", name="visits")
    asked = plan(
        table.group_by("town").agg(n=nt.count()), spend=SPEND, limits=nt.limits(max_rows_per_group=1, **limits)
    )
    answer = MemoryEngine(rows, order=lambda unit, key: (hash((unit, key)) % 97, key)).aggregate(asked.stage, salt=SALT)
    return dict(zip(answer.keys, answer.values[asked.discovered_by], strict=True))


def test_unit_helps_to_discover_its_limit_of_groups_and_no_more():
    pick = random.Random(2)
    moved, brought = 0, 0
    for _ in range(40):
        others = [{"who": f"p{pick.randrange(6)}", "town": f"t{pick.randrange(30)}"} for _ in range(60)]
        more = [{"who": "x", "town": f"t{pick.randrange(60)}"} for _ in range(50)]
        limits = {"max_groups": 20, "max_discovered_groups": 3}
        without, first = of(others, **limits), of(others + more, **limits)
        moved = max(moved, sum(abs(first.get(key, 0) - without.get(key, 0)) for key in {*first, *without}))
        brought = max(brought, len(set(first) - set(without)))
        near_miss = of(others + more, max_groups=20)
        assert sum(near_miss.values()) - sum(of(others, max_groups=20).values()) == 20
    assert moved == 3
    assert 2 <= brought <= 3


def test_groups_without_a_finder_are_omitted_and_others_count_all_units():
    rows = [{"who": who, "town": f"{who} {i}" if i else "common"} for who in ("a", "b") for i in range(9)]
    frame = pa.Table.from_pylist(rows + [{"who": f"c{i}", "town": "common"} for i in range(50)])
    query = nt.table(frame, unit="who", name="visits").group_by("town").agg(people=nt.count_distinct_units())
    asked = plan(query, spend=SPEND, limits=nt.limits(max_groups=9, max_discovered_groups=2))
    answer = DuckdbEngine().aggregate(asked.stage, salt=SALT)
    values = dict(zip(answer.keys, zip(answer.values["finders"], answer.values["units"], strict=True), strict=True))
    assert 50 <= values["common",][0] <= 52 == values["common",][1]
    assert len(values) <= 1 + 4
    assert all(finders > 0 for finders, _ in values.values())


def test_fewer_discovery_groups_find_smaller_groups_at_one_spend():
    table = nt.table(pa.table({"who": ["a"], "town": ["b"]}), unit="who", name="visits")
    query = table.group_by("town").agg(n=nt.count())

    def planned(most):
        limits = nt.limits(max_rows_per_group=8, max_groups=64, max_discovered_groups=most)
        return plan(query, spend=SPEND, limits=limits)

    few, many = planned(4), planned(None)
    assert len({few.digest, many.digest, planned(5).digest}) == 3
    assert few.price == many.price
    size = [next(n for n in range(1, 10**5) if made.selection.keep_probability(n) > 0.5) for made in (few, many)]
    assert size[0] < size[1] / 2, size
    assert few.losses().epsilon(few.price.delta).upper <= 1 + 1e-9
    assert planned(64).digest == many.digest


def test_max_discovered_groups_is_for_unknown_groups_alone():
    table = nt.table(pa.table({"who": ["a"], "town": ["b"]}), unit="who", name="visits")
    known = table.group_by("town", keys=["b", "c"]).agg(n=nt.count())
    with pytest.raises(ParameterError, match="public keys"):
        plan(known, spend=SPEND, limits=nt.limits(max_rows_per_group=1, max_discovered_groups=1, max_groups=2))


@pytest.mark.parametrize(("constant", "most"), [(False, 4), (True, 4), (False, 64), (True, 70)])
def test_a_unit_finds_its_largest_groups_and_never_more(monkeypatch, constant, most):
    """DuckDB compares with the first group after the few, and sorts for more than a few. Equal numbers are none of them."""
    if constant:
        monkeypatch.setattr(DuckdbDialect, "hash_key", lambda *asked: asked[1].copy() * 0)
    rows = [{"who": "a", "town": f"a{i:02}"} for i in range(90) for _ in range(i + 1)]  # all of other sizes
    rows += [{"who": who, "town": f"{who}{i}"} for who in "bc" for i in range(90)]  # all alike
    rows += [{"who": "d", "town": f"d{i}"} for i in range(3)]  # fewer than the few
    query = nt.table(pa.Table.from_pylist(rows), unit="who", name="visits").group_by("town").agg(n=nt.count())
    limits = nt.limits(rows=10_000, max_discovered_groups=most)
    answer = DuckdbEngine().aggregate(plan(query, spend=nt.approx(1, "1e-6"), limits=limits).stage, salt=SALT)
    found = {who: sorted(key for (key,) in answer.keys if key[0] == who) for who in "abcd"}
    assert found["a"] == [f"a{i:02}" for i in range(90 - most, 90)]
    assert found["d"] == ["d0", "d1", "d2"]
    alike = (
        most if not constant or most > 64 else 0
    )  # a hash tells them apart, or the group itself where all are sorted
    assert [len(found[who]) for who in "bc"] == [alike, alike]
    assert (found["b"] != [key.replace("c", "b") for key in found["c"]]) is not constant
