"""Margins on every engine: the table behind them to the last bit, and each margin that SQL asks for as the rows say."""

import random
from itertools import product

import pytest

import neartwin as nt
from neartwin.planning.planner import plan
from tests.engines.test_same_answers import ENGINES, answers, hostile_rows

KEYS = {"town": ["Ulm", None, "o'town", "nowhere"], "open": [True, None], "year": [2024, 2**63 - 1, -1]}
SPEND = nt.gdp(10**5)
ASKED = """
SELECT town, open, year, {} AS n FROM visits GROUP BY GROUPING SETS ((town, open), (open, year), (town), ())
"""


def same_table(place, statistic, **caps):
    rows = hostile_rows("margins", 900)
    groups = place.visits(rows).where("paid < 40 OR open").group_by(*KEYS, keys=KEYS)
    asked = plan(groups.marginals(["town", "open"], []).agg(n=statistic), spend=SPEND, **caps)
    found, expected = answers(place, rows, asked)
    assert found == expected
    assert len(found) == 4 * 2 * 3
    assert any(any(values) for values in found.values())


@pytest.mark.parametrize("place", ENGINES)
def test_the_table_behind_all_margins_is_the_oracles_to_the_last_bit(request, place):
    same_table(
        request.getfixturevalue(place), nt.sum("paid", -50, 50), limits=nt.limits(max_rows_per_group=2, max_groups=5)
    )


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize("statistic", [nt.count(), nt.sum("paid", -50, 50)], ids=["count", "sum"])
@pytest.mark.parametrize(
    "caps",
    [
        {"limits": nt.limits(max_rows_per_group=2, max_groups=1000)},
        {"limits": nt.limits(rows=3)},
        {"limits": nt.limits(norm=2)},
    ],
    ids=str,
)
def test_that_table_is_the_oracles_with_every_cap(request, place, statistic, caps):
    same_table(request.getfixturevalue(place), statistic, **caps)


def by_hand(rows, margin):
    """Rows with a unit by the margin's columns, of those whose three values are all public."""
    found = dict.fromkeys(product(*(KEYS[name] for name in margin)), 0)
    for row in rows:
        if row["who"] is not None and all(row[name] in KEYS[name] for name in KEYS):
            found[tuple(row[name] for name in margin)] += 1
    return found


@pytest.mark.parametrize("place", ENGINES)
def test_each_margin_that_sql_asks_for_is_what_the_rows_say(request, tmp_path, place):
    pick = random.Random(3)
    rows = [
        {"who": pick.choice([None, "a", "b", "c"]), "town": pick.choice([*KEYS["town"], "else"]), "paid": 1.0,
         "open": pick.choice([True, False, None]), "year": pick.choice([*KEYS["year"], 7]), "day": None}
        for _ in range(800)
    ]  # fmt: skip
    visits = request.getfixturevalue(place).visits(rows, name="visits")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(visits, nt.gdp(10**6))
        release = account.sql(
            ASKED.format("COUNT(*)"),
            keys=KEYS,
            spend=nt.gdp(10**6),
            limits=nt.limits(max_rows_per_group=300, max_groups=24),
        )
    for margin in (("town", "open"), ("open", "year"), ("town",), ()):
        part = release.margin(*margin)
        assert part.group_columns == margin
        found = dict(zip(part.keys, map(round, part["n"].values), strict=True))
        assert found == by_hand(rows, margin), margin
    assert sum(by_hand(rows, ()).values()) > 100
