"""Bins of a histogram are those of a sorted search, and every double is in the oracle's bin, at every edge."""

import math
from bisect import bisect_right
from fractions import Fraction

import pytest

import neartwin as nt
from neartwin.errors import QueryError
from neartwin.planning.planner import plan
from neartwin.tables.expressions import RowExpression
from neartwin.tables.types import ColumnType
from tests.engines.places import SALT
from tests.engines.test_same_answers import ENGINES, SPEND, hostile_rows, in_cells
from tests.oracles.memory import MemoryEngine, evaluate

SCHEMA = {"paid": ColumnType.NUMBER, "year": ColumnType.INTEGER}
TENS = list(range(0, 60, 10))
BOTH = list(range(-50, 60, 10))  # the last double below 0 and 50 are 50, rounded
HALVES = [Fraction(2 * i - 1, 2) for i in range(12)]
THIRDS = [Fraction(i, 3) for i in range(-4, 9)]


def around(edges):
    """The edges, their neighbours among doubles, and what lies far from all."""
    floats = [float(edge) for edge in edges]
    near = [math.nextafter(edge, to) for edge in floats for to in (-math.inf, math.inf)]
    return [*floats, *near, 5e-324, -5e-324, -0.0, 1e300, -1e300, math.inf, -math.inf, math.nan, None]


@pytest.mark.parametrize("of", ["paid", "year", "(paid * 2 - year)", "(month(DATE '2024-02-29'))"])
def test_bins_are_those_of_a_sorted_search(of):
    value = RowExpression.parse(of, SCHEMA)
    for edges in (TENS, HALVES, THIRDS, [-1e-300, 0, 7, 1e30], [0, 1]):
        made, found, ends = nt.histogram(of, edges).bin_of(value), set(), list(map(float, edges))
        for row in [{"paid": paid, "year": year} for paid in around(edges) for year in (None, 0, 7, -(2**62))]:
            number = evaluate(value.term, row)
            inside = number is not None and ends[0] <= number <= ends[-1]  # NaN is not
            wanted = min(bisect_right(ends, number) - 1, len(ends) - 2) if inside else None
            found.add(wanted)
            assert evaluate(made.term, row) == wanted
        assert len(found) > 1 or "month" in of
    for odd in ("paid > 3", "DATE '2024-02-29'"):
        with pytest.raises(QueryError, match="must be a number"):
            nt.histogram(of, TENS).bin_of(RowExpression.parse(odd, SCHEMA))


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize(
    ("of", "edges"),
    [
        ("paid", TENS),
        ("paid", BOTH),
        ("year", BOTH),
        ("paid", [0, 2.5, 5, 7.5]),
        ("paid", HALVES),
        ("paid", THIRDS),
        ("year", HALVES),
        ("year", [-1, 0, 2024, 2025]),
        ("paid * 2 - year", TENS),
        ("paid", [0, 1e-300, 2e-300]),
    ],
)
def test_a_histogram_has_the_oracles_bins_at_every_edge(request, place, of, edges):
    place = request.getfixturevalue(place)
    rows = hostile_rows(0, 300)
    for i, (row, value) in enumerate(zip(rows, around(edges), strict=False)):
        row |= {"who": f"own{i}", "paid": value, "open": True}
    for row, year in zip(rows[150:], range(-60, 60), strict=False):
        row |= {"who": f"y{year}", "year": year}
    asked = place.visits(rows).group_by("open").agg(h=nt.histogram(of, edges))
    made = plan(asked, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=2))
    (split,) = made.splits.values()
    own = place.order(split.stage, rows)
    found = in_cells(place.engine.aggregate(split.stage, salt=SALT))
    assert found == in_cells(MemoryEngine(rows, order=own).aggregate(split.stage, salt=SALT))
    assert len({cell for _, cell in found}) > 1
