"""Linear workloads on every engine: the cells behind them to the last bit, and each answer that SQL asks for as the rows say."""

import random

import pytest

import neartwin as nt
from neartwin.planning.planner import plan
from tests.engines.test_same_answers import ENGINES, answers, hostile_rows

YEARS = [2024, 2**63 - 1, -1, 2023, 2022]
ASKED = {
    "SUM(COUNT(*)) OVER (ORDER BY year)": lambda keys: {(to,): [k for k in keys if k <= to] for to in keys},
    "SUM(COUNT(*)) OVER (ORDER BY year DESC)": lambda keys: {(to,): [k for k in keys if k >= to] for to in keys},
    "SUM(COUNT(*)) OVER (ORDER BY year ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)": lambda keys: {
        (key,): keys[max(0, place - 1) : place + 3] for place, key in enumerate(keys)
    },
    "RANGES(COUNT(*), [2, 3])": lambda _: {
        (YEARS[a], YEARS[a + size - 1]): YEARS[a : a + size] for size in (2, 3) for a in range(len(YEARS) + 1 - size)
    },
    "WEIGHTED_SUMS(COUNT(*), MAP {'new': MAP {2024: 1, 2023: 2}, 'odd': MAP {-1: 1}})": lambda _: {
        ("new",): [2024, 2023, 2023], ("odd",): [-1],
    },
}  # fmt: skip


def same_cells(place, statistic, **caps):
    rows = hostile_rows("workloads", 900)
    groups = place.visits(rows).where("paid < 40 OR open").group_by("year", keys=YEARS)
    asked = plan(groups.workload(nt.prefix_sums()).agg(n=statistic), spend=nt.gdp(10**5), **caps)
    found, expected = answers(place, rows, asked)
    assert found == expected
    assert len(found) == len(YEARS)
    assert any(any(values) for values in found.values())


@pytest.mark.parametrize("place", ENGINES)
def test_the_cells_behind_a_workload_are_the_oracles_to_the_last_bit(request, place):
    same_cells(
        request.getfixturevalue(place), nt.sum("paid", -50, 50), limits=nt.limits(max_rows_per_group=2, max_groups=2)
    )


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize(
    "caps",
    [
        {"limits": nt.limits(max_rows_per_group=2, max_groups=1000)},
        {"limits": nt.limits(rows=3)},
        {"limits": nt.limits(norm=2)},
    ],
    ids=str,
)
def test_those_cells_are_the_oracles_with_every_cap(request, place, caps):
    same_cells(request.getfixturevalue(place), nt.count(), **caps)


@pytest.mark.parametrize("place", ENGINES)
def test_each_answer_that_sql_asks_for_is_what_the_rows_say(request, tmp_path, place):
    pick = random.Random(4)
    rows = [
        {"who": pick.choice([None, "a", "b", "c"]), "town": "Ulm", "paid": 1.0, "open": True,
         "year": pick.choice([*YEARS, 7, None]), "day": None}
        for _ in range(800)
    ]  # fmt: skip
    visits = request.getfixturevalue(place).visits(rows, name="visits")
    counted = {year: sum(row["year"] == year and row["who"] is not None for row in rows) for year in YEARS}
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, nt.gdp(10**7))
        for text, expected in ASKED.items():
            release = account.sql(
                f"SELECT {text} AS n FROM visits GROUP BY year",
                keys=YEARS, spend=nt.gdp(10**6), limits=nt.limits(max_rows_per_group=300, max_groups=7),
            )  # fmt: skip
            found = dict(zip(release.keys, map(round, release["n"].values), strict=True))
            wanted = {key: sum(counted[year] for year in years) for key, years in expected(sorted(YEARS)).items()}
            assert found == wanted, text
    assert sum(counted.values()) > 300
