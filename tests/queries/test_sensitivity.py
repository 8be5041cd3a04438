"""Every cell of the sensitivity table, against all tables of one unit over a small domain.

A unit's contribution does not depend on other units, so the distance of two neighbours is that of one unit's contributions.
"""

from functools import cache
from itertools import combinations_with_replacement

import duckdb
import numpy as np
import pytest

import neartwin as nt
from neartwin.accounting.budgets import approx, pure
from neartwin.planning.planner import plan
from neartwin.queries.open import table
from neartwin.statistics import count, count_distinct_units, mean, sum
from neartwin.tables.table import ROW
from tests.oracles.memory import MemoryEngine

pytestmark = pytest.mark.sweep

GROUPS = ("a", "b", "c", "d")
CAPS = [(1, 1), (2, 1), (1, 2), (2, 2)]
BOUNDS = [(-2, 5), (3, 7), (-7, -3), (0, 4)]


@cache
def empty_table(neighbours, *, by_row=False):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (who BIGINT, town VARCHAR, paid DOUBLE)")
    return table(connection, table="visits", unit=ROW if by_row else "who", neighbours=neighbours)


def contributions(stage, tables):
    """(tables, groups): the measure of one unit in each group."""
    found = np.zeros((len(tables), len(GROUPS)), dtype=int)
    for place, rows in enumerate(tables):
        answer = MemoryEngine(rows, order=lambda _, key: key).aggregate(stage, salt=1)
        for key, value in zip(answer.keys, answer.values[stage.measures[-1]], strict=True):
            found[place, GROUPS.index(key[0]) if key else 0] = int(value)
    return found


def one_unit_tables(low, high):
    rows = [{"who": 1, "town": town, "paid": paid} for town in GROUPS for paid in (float(low), float(high), None)]
    return [list(chosen) for size in range(5) for chosen in combinations_with_replacement(rows, size)]


def farthest(neighbours, found):
    """The largest distance of two neighbours, in absolute sum and in squared length."""
    if neighbours == "add_remove":
        changes = found
    else:
        distinct = np.unique(found, axis=0)
        changes = (distinct[:, None, :] - distinct[None, :, :]).reshape(-1, found.shape[1])
    return np.abs(changes).sum(axis=1).max(), np.square(changes).sum(axis=1).max()


def stated(measure):
    return measure.sensitivity.l1, measure.sensitivity.l2_squared


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("caps", CAPS, ids=str)
@pytest.mark.parametrize("asked", ["units", "count", *BOUNDS], ids=str)
def test_the_stated_sensitivity_is_reached_and_never_passed(neighbours, caps, asked):
    low, high = asked if isinstance(asked, tuple) else (0, 1)
    statistic = {"units": count_distinct_units(), "count": count()}.get(asked) or sum("paid", low, high, 1)
    query = empty_table(neighbours).group_by("town").agg(it=statistic)
    made = plan(query, spend=approx(1, "1e-6"), limits=nt.limits(max_rows_per_group=caps[0], max_groups=caps[1]))
    (measure,) = made.measures.values()
    found = contributions(made.stage, one_unit_tables(low, high))
    assert farthest(neighbours, found) == stated(measure)


@pytest.mark.parametrize("caps", CAPS, ids=str)
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("groups", [2, 3])
def test_few_public_groups_bound_what_a_replaced_unit_can_move(caps, bounds, groups):
    query = empty_table("replace_one").group_by("town", keys=list(GROUPS[:groups])).agg(it=sum("paid", *bounds, 1))
    made = plan(query, spend=pure(1), limits=nt.limits(max_rows_per_group=caps[0], max_groups=caps[1]))
    (measure,) = made.measures.values()
    assert farthest("replace_one", contributions(made.stage, one_unit_tables(*bounds))) == stated(measure)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_a_mean_of_filled_values_needs_half_the_range_and_no_more(neighbours, bounds):
    query = empty_table(neighbours).group_by("town", keys=list(GROUPS)).agg(it=mean("paid", *bounds, 1, fill=bounds[0]))
    made = plan(query, spend=pure(1), limits=nt.limits(max_rows_per_group=2, max_groups=2))
    for name, measure in made.measures.items():
        stage = made.stage.__class__(
            **{f: getattr(made.stage, f) for f in made.stage.__slots__} | {"measures": (name,)}
        )
        assert farthest(neighbours, contributions(stage, one_unit_tables(*bounds))) == stated(measure)


@pytest.mark.parametrize(("neighbours", "expected"), [("add_remove", 7), ("replace_one", 4)])
def test_sure_row_a_unit_moves_a_sum_by_its_range_only(neighbours, expected):
    rows = empty_table(neighbours, by_row=True)
    filled = plan(rows.agg(it=sum("paid", 3, 7, 1, fill=3)), spend=pure(1))
    unsure = plan(rows.agg(it=sum("paid", 3, 7, 1)), spend=pure(1))
    (sure,), (other,) = filled.measures.values(), unsure.measures.values()
    tables = [[{"town": "a", "paid": paid}] for paid in (3.0, 5.0, 7.0, None)]
    assert farthest(neighbours, contributions(filled.stage, tables + [[]] * (neighbours == "add_remove"))) == (
        expected,
        expected**2,
    )
    assert sure.sensitivity.l1 == expected
    assert other.sensitivity.l1 == 7  # a value may be missing: it may move by the whole contribution


def test_few_public_groups_bound_the_cells_that_can_change():
    one = empty_table("replace_one").group_by("town", keys=["a"]).agg(it=count())
    made = plan(one, spend=pure(1), limits=nt.limits(max_rows_per_group=2, max_groups=2))
    assert made.measures["rows"].sensitivity.l1 == 2
    assert farthest("replace_one", contributions(made.stage, one_unit_tables(0, 1))) == (2, 4)
