"""COUNT(DISTINCT x): every engine gives the pairs of units and values, from which the same matching follows."""

import random
from bisect import bisect_right

import pytest

import neartwin as nt
from neartwin.planning.planner import plan
from neartwin.tables.table import ROW
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, hostile_rows

OPEN = [True, False, None]
ASKED = {
    "town": lambda row: row["town"],
    "year": lambda row: row["year"],
    "day": lambda row: row["day"],
    "open": lambda row: row["open"],
    "CASE WHEN year > 0 THEN town END": lambda row: row["town"] if (row["year"] or 0) > 0 else None,
    "town || CASE WHEN open THEN 'a' ELSE 'b' END": lambda row: row["town"] and row["town"] + "ba"[row["open"] is True],
}


def matching(values_of, most):
    """The largest matching by augmenting paths, one slot of a unit at a time: slow, and another way than the code's."""
    taken = {}

    def place(slot, seen):
        for value in values_of[slot[0]]:
            if value not in seen:
                seen.add(value)
                if value not in taken or place(taken[value], seen):
                    taken[value] = slot
                    return True
        return False

    return sum(place((unit, turn), set()) for unit in values_of for turn in range(most))


def exact(place, made):
    """The exact numbers by statistic and group, in the order of the public keys."""
    keys = made.stage.keys
    answers = [place.engine.aggregate(split.stage, salt=SALT) for split in made.splits.values()]
    return {
        name: split.leaves(keys, answer)[:, 0].tolist()
        for (name, split), answer in zip(made.splits.items(), answers, strict=True)
    }


@pytest.mark.parametrize("place", [*ENGINES[:2], pytest.param(ENGINES[2], marks=pytest.mark.slow)])
def test_values_of_every_type_are_matched_alike_on_every_engine(request, place):
    place = request.getfixturevalue(place)
    rows = [{**row, "town": row["town"] and row["town"][:20]} for row in hostile_rows("distinct values", 120)]
    asked = {f"n{i}": nt.count_distinct(one) for i, one in enumerate(ASKED)}
    groups = place.visits(rows).group_by("open", keys=OPEN)
    made = plan(groups.agg(**asked), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=2, max_groups=3))
    found = list(exact(place, made).values())
    for numbers, value in zip(found, ASKED.values(), strict=True):
        for number, key in zip(numbers, OPEN, strict=True):
            sets = {}
            for row in rows:
                if row["open"] == key and row["who"] is not None and value(row) is not None:
                    sets.setdefault(row["who"], set()).add(value(row))
            assert number == matching(sets, 2)
    assert found[1] != found[2]


@pytest.mark.parametrize("place", ENGINES)
def test_a_unit_stands_for_values_of_its_largest_groups_alone(request, place):
    """Unit i has three values in one group and one in the next, and nobody shares a value."""
    place, units = request.getfixturevalue(place), range(14)
    rows = [
        {"who": f"u{i}", "open": OPEN[(i + (v == 3)) % 3], "year": 10 * i + v, "town": "Ulm"}
        for i in units
        for v in range(4)
    ]
    groups = place.visits(rows).group_by("open", keys=OPEN).agg(n=nt.count_distinct("year"))
    made = plan(groups, spend=nt.pure(10**6), limits=nt.limits(max_rows_per_group=2, max_groups=1))
    assert list(exact(place, made).values()) == [[2 * sum(i % 3 == k for i in units) for k in range(3)]]


@pytest.mark.parametrize("place", ENGINES)
def test_rows_that_are_units_and_whole_number_units_lose_no_value(request, place):
    place, pick = request.getfixturevalue(place), random.Random(4)
    rows = [
        {"who": pick.choice("abc"), "year": pick.choice([None, 7, -7, 2**63 - 1]), "town": "Ulm"} for _ in range(60)
    ]
    for visits, limits in ((place.visits(rows, unit=ROW), {}), (place.visits(rows), {"limits": nt.limits(rows=3)})):
        made = plan(visits.agg(n=nt.count_distinct("year")), spend=nt.pure(10**6), **limits)
        assert list(exact(place, made).values()) == [[3]]


@pytest.mark.parametrize("place", [*ENGINES[:2], pytest.param(ENGINES[2], marks=pytest.mark.slow)])
def test_units_with_too_many_values_are_counted_alike_on_every_engine(request, place):
    place = request.getfixturevalue(place)
    rows = [{**row, "town": row["town"] and row["town"][:20]} for row in hostile_rows("too many", 300)]
    for what, value in ASKED.items():
        for limits in (nt.limits(rows=2), nt.limits(max_rows_per_group=1)):
            question = place.visits(rows).where("year > 0").agg(n=nt.count_distinct(what))
            stage = plan(question, spend=nt.pure(1), limits=limits).loss.stage
            answer = place.engine.aggregate(stage, salt=SALT)
            sets = {}
            for row in rows:
                if (row["year"] or 0) > 0 and row["who"] is not None and value(row) is not None:
                    sets.setdefault(row["who"], set()).add(value(row))
            most, edges = limits.rows or limits.max_rows_per_group, stage.sizes.edges
            expected = [0] * len(edges)
            for values in sets.values():
                expected[bisect_right(edges, max(0, len(values) - most) + 1) - 1] += 1
            assert [int(n) for n in answer.values["units"]] == expected, what
