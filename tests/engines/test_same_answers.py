"""Every engine gives the plain-Python oracle's exact answers, to the last bit, on random and hostile tables."""

import math
import random
from dataclasses import replace
from datetime import date, datetime

import pytest

import neartwin as nt
from neartwin.accounting.budgets import approx
from neartwin.planning.planner import plan
from neartwin.statistics import (
    correlation,
    count,
    count_distinct_units,
    covariance,
    maximum,
    mean,
    median,
    quantile,
    regression,
    stddev,
    sum,
    variance,
)
from neartwin.tables.table import ROW
from tests.engines.places import SALT
from tests.oracles.memory import MemoryEngine

LARGEST = 1.7976931348623157e308
HOSTILE = [
    None, math.nan, math.inf, -math.inf, 1e300, -1e300, 0.5 / 256, 1.5 / 256, -0.5 / 256, 2.5, 7.25, -3.0, 99.0, -0.0, 5e-324,
    LARGEST, -LARGEST, 2.0**1023, 1.4e154, 1e-200, -5e-324,
]  # fmt: skip


TIMES = [
    datetime.fromisoformat(text)
    for text in (
        *("0001-01-01T00:00", "9999-12-31T23:59:59.999999", "2024-02-29T23:59:59.999999", "1969-12-31T23:59:59"),
        *("1582-10-10", "2000-01-01", "2021-01-03T12:00", "1900-12-31T00:00:01"),
    )
]


def hostile_rows(seed, size):
    pick = random.Random(seed)
    return [
        {
            "who": pick.choice([None, *(f"p{i}" for i in range(pick.choice([3, 60])))]),
            "town": pick.choice(
                [None, "", "Ulm", "Bonn", "Köln", "o'town", 'q"uote', "50%", "back\\slash", "ulm", "x" * 5000]
            ),
            "year": pick.choice([None, 0, -1, 2024, 2025, 2**62, 2**63 - 1, -(2**63)]),
            "paid": pick.choice([*HOSTILE, pick.uniform(-60, 60)]),
            "open": pick.choice([None, True, False]),
            "day": pick.choice([None, date(2024, 2, 29), date(1969, 12, 31), date.min, date.max]),
            "seen": pick.choice([None, *TIMES]),
        }
        for _ in range(size)
    ]


def as_mapping(aggregates):
    names = sorted(aggregates.values)
    return {key: tuple(int(aggregates.values[name][i]) for name in names) for i, key in enumerate(aggregates.keys)}


ENGINES = ["duckdb_place", "postgres_place", "spark_place"]


def answers(place, rows, asked, **order):
    """What the engine says, and what the oracle says with the engine's own order of groups."""
    stage = asked.stage
    own = place.order(stage, rows) if stage.groups_per_unit is not None else None
    found = as_mapping(place.engine.aggregate(stage, salt=SALT))
    return found, as_mapping(MemoryEngine(rows, order=own).aggregate(stage, salt=SALT))


SPEND = approx(10**9, "1e-6")  # noise has no part in these tests, and a small scale allows wide columns
STATISTICS = {
    "rows": count(),
    "people": count_distinct_units(),
    "payers": count_distinct_units("CASE WHEN paid > 2.5 THEN who END"),
    "total": sum("paid", -50, 50, "1/256"),
    "typical": mean("paid", -50, 50, "1/256"),
    "middle": mean("paid", 0, 10, "0.01"),
    "coarse": sum("paid", -21, 21, "3"),
    "odd": sum("paid", "-4/7", "6/7", "2/7"),
    "filled": sum("paid", 0, 10, 1, fill=3),
    "years": sum("year", -3000, 3000, 1),
    "widest": sum("year", -(2**53), 2**53, 1),
}
CONDITIONS = [
    "paid > 2.5",
    "NOT (paid <= year)",
    "paid * 2 + 1 BETWEEN -6 AND 15 OR paid IS NULL",
    "town IN ('Ulm', 'o''town') AND open",
    "year = 2024 OR day < DATE '1970-01-01'",
    "town <> 'Bonn' AND NOT (year IN (2025, -1))",
    "-paid >= 3 OR year * 2 > 4047.5",
    "open = TRUE OR town IS NOT NULL",
    "paid * paid > 1e300 OR (paid + paid) * 0.5 < -1e308",
    "paid * paid * paid - paid BETWEEN -1 AND 1 AND paid <> 0",
    "paid * 5e-324 = 0 AND paid - 1.7976931348623157e308 < -1e308",
    "town < 'a' OR town = '50%' OR town = 'back\\slash'",
    "day >= DATE '9999-12-31' OR paid < 1e400",
    "0.1 * 3 > 0.3 AND 9223372036854775807 * 2 > year",
]


CAPS = [(1, 1), (2, 3), (1000, 1000)]


@pytest.mark.parametrize(
    ("place", "seed", "caps"), [(place, seed, caps) for place in ENGINES for seed in range(6) for caps in CAPS]
)
def test_an_engine_and_the_oracle_agree_to_the_last_bit_with_every_cap(request, place, seed, caps):
    place = request.getfixturevalue(place)
    rows = hostile_rows(seed, [0, 1, 400, 400, 700, 90][seed])
    query = place.visits(rows).group_by("town").agg(**STATISTICS)
    found, expected = answers(
        place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=caps[0], max_groups=caps[1]))
    )
    assert found == expected


@pytest.mark.parametrize("place", ENGINES)
def test_every_type_of_group_is_found_and_ordered_by_the_engines_own_hash(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("groups", 600)
    query = place.visits(rows).group_by("year", "open", "day").agg(rows=count(), people=count_distinct_units())
    found, expected = answers(
        place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=4))
    )
    assert found == expected


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    "keys", [None, {"town": ["Ulm", None, "nowhere", ""], "open": [True, None]}], ids=["unknown", "public"]
)
def test_conditions_and_keys_mean_the_same_everywhere(request, place, condition, keys):
    place = request.getfixturevalue(place)
    rows = hostile_rows(condition, 300)
    query = place.visits(rows).where(condition).group_by("town", "open", keys=keys)
    query = query.agg(rows=count(), total=sum("paid", -50, 50))
    found, expected = answers(
        place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=8))
    )
    assert found == expected


@pytest.mark.parametrize("place", ENGINES)
def test_all_conditions_together_mean_the_same_everywhere(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("conditions", 900)
    asked = place.visits(rows).where(
        " OR ".join(f"({condition})" for condition in CONDITIONS if "0.1" not in condition)
    )
    query = asked.group_by("day", keys=[date(2024, 2, 29), None, date(2000, 1, 1)]).agg(
        rows=count(), total=sum("paid", -50, 50)
    )
    found, expected = answers(
        place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=2))
    )
    assert found == expected


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize("grouped", [True, False])
def test_rows_as_units_mean_the_same_everywhere(request, place, grouped):
    place = request.getfixturevalue(place)
    rows = hostile_rows(1, 300)
    people = place.visits(rows, unit=ROW)
    query = people.group_by("town", "day").agg(**STATISTICS) if grouped else people.agg(**STATISTICS)
    found, expected = answers(place, rows, plan(query, spend=SPEND))
    assert found == expected


MOMENTS = {
    "v": variance("paid", -50, 50, "1/256"),
    "s": stddev("year", -3000, 3000, 1),
    "filled": variance("paid", 0, 10, 1, fill=3),
    "c": covariance("clip(paid, -21, 21)", "clip(year, -3000, 3000)"),
    "r": correlation("clip(paid, -21, 21)", "clip(year, -3000, 3000)"),
    "fit": regression("clip(paid, -50, 50) * 2", ["clip(year, 0, 2025)", "month(day)"]),
    "wide": variance("year", -(2**30), 2**30, 1),
    "mean": mean("paid", -50, 50, "1/256"),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize("caps", [(2, 3)], ids=str)
def test_sums_of_products_agree_to_the_last_bit(request, place, caps):
    place = request.getfixturevalue(place)
    rows = hostile_rows("moments", 700)
    query = place.visits(rows).group_by("town").agg(n=count(), **MOMENTS)
    found, expected = answers(
        place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=caps[0], max_groups=caps[1]))
    )
    assert found == expected
    alone = place.visits(rows, unit=ROW).agg(**MOMENTS)
    found, expected = answers(place, rows, plan(alone, spend=SPEND))
    assert found == expected


@pytest.mark.parametrize("place", ENGINES)
def test_totals_beyond_64_bits_are_exact_and_heavy_units_count_by_mean(request, place):
    place = request.getfixturevalue(place)
    large = [row("heavy", year=2**53) for _ in range(3000)] + [row("light", year=-(2**53) + 1) for _ in range(1025)]
    query = place.visits(large).group_by("town", keys=["Ulm", "nowhere"]).agg(
        whole=sum("year", -(2**53), 2**53, 1), paid=sum("paid", 0, 100, "1/100"), typical=mean("paid", 0, 80, "1/100")
    )  # fmt: skip
    made = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=2000, max_groups=1))
    values = {
        name: [int(value) // made.stage.parts[name] for value in found]
        for name, found in place.engine.aggregate(made.stage, salt=SALT).values.items()
    }
    (whole,) = (found for name, found in values.items() if name.startswith("total:year"))
    assert list(whole) == [2000 * 2**53 - 1025 * (2**53 - 1), 0]
    measures = ("total:paid[0,100,1/100]-0", f"total:{_BELOW}", f"short:{_BELOW}")
    total, *ends = (values[name][0] for name in measures)
    assert [total, *ends] == [(2000 + 1025) * steps for steps in (5000, 5000, 3000)]  # 50.00 in steps of 0.01
    # counting 2000 rows and summing all 3000 of them would give a mean above what anybody paid
    rows = [*large, *(row("heavy", year=None) for _ in range(2000))]
    query = place.visits(rows).group_by("town").agg(far=mean("year", -(2**53), 2**53, 1), rows=count())
    asked = plan(query, spend=SPEND, limits=nt.limits(rows=2000, max_groups=2))
    assert max(asked.stage.parts.values()) >= 2**54  # of a row without a value, as many as there are steps
    found, expected = answers(place, rows, asked)
    assert found == expected


_BELOW = "paid[0,80,1/100]-0 from below"


def row(who, **more):
    return {"who": who, "town": "Ulm", "year": 1, "paid": 50.0, "open": True, "day": None, "seen": None} | more


@pytest.mark.parametrize("place", ENGINES)
def test_groups_per_unit_holds_and_no_group_is_favoured(request, place):
    place = request.getfixturevalue(place)
    rows = [row(f"p{i}", town=f"t{j}", paid=1.0) for i in range(500) for j in range(12)]
    query = place.visits(rows).group_by("town").agg(people=count_distinct_units())
    asked = plan(query, spend=SPEND, limits=nt.limits(max_groups=3))
    people = place.engine.aggregate(asked.stage, salt=SALT).values["units"]
    assert people.sum() == 3 * 500
    assert all(abs(int(n) - 125) < 6 * math.sqrt(125 * 0.75) for n in people)  # 6 sd of Binomial(500, 3/12)


@pytest.mark.parametrize("place", ENGINES)
def test_a_key_that_no_column_can_hold_is_an_empty_group(request, place):
    place = request.getfixturevalue(place)
    rows = [row("a"), row("b", town="Bonn")]
    query = place.visits(rows).group_by("town", "year", keys=[("Ulm", 1), ("nul\0", 1), ("Bonn", 2**63 - 1)])
    found = place.engine.aggregate(
        plan(query.agg(n=count_distinct_units()), spend=SPEND, limits=nt.limits(max_groups=2)).stage, salt=SALT
    )
    assert list(found.values["units"]) == [1, 0, 0]


def in_cells(aggregates):
    """Counts by group and cell, those that are not 0."""
    found = aggregates.cells
    columns = (column.tolist() for column in (found.group, found.cell, found.count))
    counts = {}
    for group, cell, number in zip(*columns, strict=True):
        if number:
            counts[aggregates.keys[group], cell] = counts.get((aggregates.keys[group], cell), 0) + number
    return counts


RANKED = {
    "middle": median("paid", -50, 50),
    "ends": quantile("paid", [0.1, 0.9], -50, 50, "1/8", fill=3),
    "years": maximum("year", -3000, 3000, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize("caps", [(1, 2), (3, 1000)])
@pytest.mark.parametrize("keys", [None, ["Ulm", None, "nowhere", "o'town"]], ids=["unknown", "public"])
def test_values_are_counted_by_cell_alike_everywhere(request, place, caps, keys):
    same_cells(request.getfixturevalue(place), caps, keys)


def test_values_are_counted_by_cell_on_spark_as_elsewhere(spark_place):
    same_cells(spark_place, (1, 2), None)  # it takes seconds a statement: one combination is enough here


def same_cells(place, caps, keys):
    rows = hostile_rows("cells", 900)
    query = place.visits(rows).where("paid < 40 OR open").group_by("town", keys=keys).agg(**RANKED)
    made = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=caps[0], max_groups=caps[1]))
    assert len(made.splits) == 3
    for split in made.splits.values():
        own = place.order(split.stage, rows)
        found = in_cells(place.engine.aggregate(split.stage, salt=SALT))
        expected = in_cells(MemoryEngine(rows, order=own).aggregate(split.stage, salt=SALT))
        assert found == expected
        assert found


@pytest.mark.parametrize("place", ENGINES[:2])
def test_rows_that_are_units_and_one_group_are_counted_by_cell_too(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("single", 200)
    asked = place.visits(rows, unit=ROW).agg(middle=median("paid", -50, 50))
    (split,) = plan(asked, spend=SPEND).splits.values()
    found = in_cells(place.engine.aggregate(split.stage, salt=SALT))
    assert found == in_cells(MemoryEngine(rows).aggregate(split.stage, salt=SALT))
    whole = place.visits(rows).agg(middle=median("paid", -50, 50))
    (split,) = plan(whole, spend=SPEND, limits=nt.limits(max_rows_per_group=2)).splits.values()
    found = in_cells(place.engine.aggregate(split.stage, salt=SALT))
    assert found == in_cells(MemoryEngine(rows).aggregate(split.stage, salt=SALT))
    whole = replace(split.stage, rows_per_group=3)  # the near miss: one value more of a unit
    assert found != in_cells(MemoryEngine(rows).aggregate(whole, salt=SALT))
    assert sum_of(found) <= 2 * split.stage.split_parts * len({row["who"] for row in rows if row["who"] is not None})


def sum_of(counts):
    return math.fsum(counts.values())
