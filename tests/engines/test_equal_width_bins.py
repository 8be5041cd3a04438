"""Bins of equal width are one division: of every double the same bin as by comparisons, or comparisons are kept."""

import math
import random
from fractions import Fraction

import pytest

import neartwin as nt
from neartwin.engines.sql.rendering import bins_of
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


def binned(of, edges):
    return nt.histogram(of, edges).bin_of(RowExpression.parse(of, SCHEMA)).term


def around(edges):
    """The edges, their neighbours among doubles, and what lies far from all."""
    floats = [float(edge) for edge in edges]
    near = [math.nextafter(edge, to) for edge in floats for to in (-math.inf, math.inf)]
    return [*floats, *near, 5e-324, -5e-324, -0.0, 1e300, -1e300, math.inf, -math.inf, math.nan, None]


def by_division(bins, value):
    """The formula of `by_division` in plain Python."""
    if value is None or not bins.edges[0] <= value <= bins.edges[-1]:
        return None
    return min(math.floor((value - bins.edges[0]) / bins.width), len(bins.edges) - 2)


@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 200))])
def test_even_bins_place_every_double(seed):
    pick = random.Random(seed)
    width = pick.choice([1, 10, 0.1, 0.25, 1 / 3, 7, 1e-300, 3e200, pick.uniform(0, 9)])
    low = pick.choice([0, 0, -width, width * pick.randrange(-40, 40), width * pick.uniform(-9, 9)])
    edges = [Fraction(low) + i * Fraction(width) for i in range(pick.choice([1, 2, 21, 150]) + 1)]
    term = binned("paid", edges)
    bins = bins_of(term)
    assert bins is not None
    values = around(edges) + [pick.uniform(*map(float, (edges[0], edges[-1]))) for _ in range(300)]
    wrong = [v for v in values if by_division(bins, v) != evaluate(term, {"paid": v})]
    if bins.is_even():
        assert not wrong
    else:
        assert wrong


@pytest.mark.parametrize("of", ["paid", "year", "(paid * 2 - year)", "(month(DATE '2024-02-29'))"])
def test_bins_are_what_their_text_says(of):
    for edges in (TENS, HALVES, THIRDS, [-1e-300, 0, 7, 1e30], [0, 1]):
        made = nt.histogram(of, edges).bin_of(RowExpression.parse(of, SCHEMA))
        assert RowExpression.parse(made.text, SCHEMA) == made
    for odd in ("paid > 3", "DATE '2024-02-29'"):
        with pytest.raises(QueryError, match="must be a number"):
            nt.histogram(of, TENS).bin_of(RowExpression.parse(odd, SCHEMA))


def test_half_edges_are_even_among_integers_and_not_among_doubles():
    below = math.nextafter(0.5, 0)
    assert math.floor(below + 0.5) == 1  # rounded: the bin would be 0
    assert not bins_of(binned("paid", HALVES)).is_even()
    assert bins_of(binned("year", HALVES)).is_even()
    assert bins_of(binned("year", [0, 1, 3])).is_even()  # the last bin holds whatever is left
    assert not bins_of(binned("year", [0, 3, 4, 7])).is_even()


@pytest.mark.parametrize(
    "text",
    [
        "CASE WHEN paid >= 0.0 AND paid <= 2.0 THEN CASE WHEN paid < 1.0 THEN 1 ELSE 0 END END",
        "CASE WHEN paid >= 0.0 AND paid <= 2.0 THEN CASE WHEN paid <= 1.0 THEN 0 ELSE 1 END END",
        "CASE WHEN paid >= 0.0 AND paid <= 2.0 THEN CASE WHEN year < 1.0 THEN 0 ELSE 1 END END",
        "CASE WHEN paid >= 0.0 AND paid <= 2.0 THEN CASE WHEN paid < 1.0 THEN 0 ELSE 1 END ELSE 7 END",
        "CASE WHEN paid >= 0.0 AND paid < 2.0 THEN CASE WHEN paid < 1.0 THEN 0 ELSE 1 END END",
        "CASE WHEN paid >= 0.0 OR paid <= 2.0 THEN CASE WHEN paid < 1.0 THEN 0 ELSE 1 END END",
        "CASE WHEN paid >= 0.0 AND paid <= 2.0 THEN CASE WHEN paid < 3.0 THEN 0 ELSE 1 END END",
        "CASE WHEN paid < 1.0 THEN 0 ELSE 1 END",
    ],
)
def test_a_case_that_means_something_else_is_no_ladder(text):
    assert bins_of(RowExpression.parse(text, SCHEMA).term) is None


@pytest.mark.parametrize("place", ENGINES)
@pytest.mark.parametrize(
    ("of", "edges", "even"),
    [
        ("paid", TENS, True),
        ("paid", BOTH, False),
        ("year", BOTH, True),
        ("paid", [0, 2.5, 5, 7.5], True),
        ("paid", HALVES, False),
        ("paid", THIRDS, False),
        ("year", HALVES, True),
        ("year", [-1, 0, 2024, 2025], False),
        ("paid * 2 - year", TENS, True),
        ("paid", [0, 1e-300, 2e-300], True),
    ],
)
def test_a_histogram_has_the_oracles_bins_at_every_edge(request, place, of, edges, even):
    place = request.getfixturevalue(place)
    assert bins_of(binned(of, edges)).is_even() == even
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
