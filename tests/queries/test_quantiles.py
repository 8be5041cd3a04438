"""Quantiles: what they need, what they cost, and how much one unit can move the counts they are read from."""

from fractions import Fraction

import duckdb
import numpy as np
import pytest

import neartwin as nt
from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.planning.planner import plan
from tests.oracles.memory import MemoryEngine
from tests.queries.test_sensitivity import empty_table, one_unit_tables

pytestmark = pytest.mark.sweep


@pytest.fixture
def rows():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (who BIGINT, town VARCHAR, paid DOUBLE, age INT, day DATE)")
    return nt.table(connection, table="visits", unit="who", columns={"age": nt.bounds(0, 120, 1)})


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda: nt.median("paid", 0, 1, 2), ParameterError, "multiple of step"),
        (lambda: nt.quantile("paid", 0, 0, 1), ParameterError, "minimum"),
        (lambda: nt.quantile("paid", 1, 0, 1), ParameterError, "strictly between"),
        (lambda: nt.quantile("paid", "3/2", 0, 1), ParameterError, "strictly between"),
        (lambda: nt.quantile("paid", [0.5, 0.5], 0, 1), ParameterError, "must increase"),
        (lambda: nt.quantile("paid", [0.9, 0.5], 0, 1), ParameterError, "must increase"),
        (lambda: nt.quantile("paid", [], 0, 1), ParameterError, "at least one"),
        (lambda: nt.median("paid", 5, 1), ParameterError, "must be above low"),
        (lambda: nt.median("paid", 0), QueryError, "both low and high"),
    ],
)
def test_wrong_quantile_is_refused_in_its_constructor(ask, error, says):
    with pytest.raises(error, match=says):
        ask()


@pytest.mark.parametrize(
    ("statistic", "error", "says"),
    [
        (nt.median("paid"), QueryError, "needs bounds"),
        (nt.minimum("paid"), QueryError, "needs bounds"),
        (nt.interquartile_range("town", 0, 1), SchemaError, "must be a number"),
        (nt.median("nothing", 0, 1), SchemaError, "not in the table"),
        (nt.median("paid", 0, 1, fill=2), QueryError, "fill"),
        (nt.median("paid", 0, 10**6, "1/100"), QueryError, "too fine"),
    ],
)
def test_a_quantile_that_fits_no_table_is_refused_before_anything_is_spent(rows, statistic, error, says):
    with pytest.raises(error, match=says):
        plan(rows.agg(it=statistic), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))


def test_ranks_of_a_column_share_one_tree_at_one_cost(rows):
    one = plan(rows.agg(m=nt.median("age")), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=2))
    five = rows.agg(
        m=nt.median("age"), q=nt.quantile("age", [0.05, 0.25, 0.9]), lo=nt.minimum("age"), hi=nt.maximum("age")
    )
    many = plan(five, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=2))
    assert list(one.splits) == list(many.splits) == ["cells:age[0,120,1]"]
    assert many.price == nt.pure(1)
    scales = [made.measures["cells:age[0,120,1]"].mechanism.half_width(0.95) for made in (one, many)]
    assert scales[1] <= scales[0] * 1.2  # another branching may suit the ends better; the budget is the same
    other = plan(
        rows.agg(a=nt.median("age"), b=nt.median("age", 0, 100)),
        spend=nt.pure(1),
        limits=nt.limits(max_rows_per_group=2),
    )
    assert len(other.splits) == 2  # the near miss: another grid is another tree, and shares the budget


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("caps", [(1, 1), (2, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("branching", [2, 3, 12])
def test_unit_moves_the_nodes_by_at_most_the_sensitivity(neighbours, caps, branching):
    query = empty_table(neighbours).group_by("town", keys=["a", "b", "c", "d"]).agg(it=nt.median("paid", 0, 10, 1))
    made = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=caps[0], max_groups=caps[1]))
    (split,), (measure,) = made.splits.values(), made.measures.values()
    tree = CountTree(split.tree.cells, branching)
    found = []
    for rows in one_unit_tables(2, 9):
        answer = MemoryEngine(rows, order=lambda unit, key: (hash((unit, key)), key)).aggregate(split.stage, salt=1)
        leaves = np.zeros((4, tree.cells), dtype=int)
        np.add.at(leaves, (answer.cells.group, answer.cells.cell), answer.cells.count)
        assert leaves.sum(axis=1).max() <= caps[0] * split.stage.split_parts
        assert (leaves.sum(axis=1) > 0).sum() <= caps[1]
        found.append(np.concatenate([level.ravel() for level in tree.nodes(leaves)]))
    distinct = np.unique(found, axis=0)
    changes = (
        distinct if neighbours == "add_remove" else (distinct[:, None] - distinct[None]).reshape(-1, distinct.shape[1])
    )
    levels = Fraction(tree.levels, split.tree.levels)
    assert np.abs(changes).sum(axis=1).max() == measure.sensitivity.l1 * levels
    assert np.square(changes).sum(axis=1).max() <= measure.sensitivity.l2_squared * levels
    if neighbours == "add_remove":
        assert np.square(changes).sum(axis=1).max() == measure.sensitivity.l2_squared * levels


def test_explain_says_what_a_private_minimum_means_and_preview_gives_ranks(rows):
    query = rows.agg(lo=nt.minimum("age"), q=nt.quantile("paid", [0.1, 0.5], 0, 200))
    made = plan(query, spend=nt.gdp(1), limits=nt.limits(max_rows_per_group=2))

    told = str(made.explain())
    assert "the least value that is certainly reached" in told
    assert "1,001 cells of 0.2" in told
    errors = {error.name: error for error in made.expected_errors()}
    assert list(errors) == ["lo", "q_p10", "q_p50"]
    assert "off its rank" in errors["q_p50"].says
    assert "lie beyond it" in errors["lo"].says


def test_sql_writes_the_same_question():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (who BIGINT, paid DOUBLE)")
    rows = nt.table(connection, table="visits", unit="who", columns={"paid": nt.bounds(0, 10)})
    asked = nt.from_sql(
        "SELECT median(paid), quantile_cont(paid, 0.9) AS high, percentile_cont(0.1) WITHIN GROUP (ORDER BY paid) AS low, "
        "min(paid), MAX(paid) AS top FROM visits",
        rows,
    )
    expected = {
        "median_paid": nt.median("paid"),
        "high": nt.quantile("paid", "0.9"),
        "low": nt.quantile("paid", "0.1"),
        "min_paid": nt.minimum("paid"),
        "top": nt.maximum("paid"),
    }
    assert dict(asked.aggregates) == expected
    for wrong in (
        "SELECT percentile_disc(0.1) WITHIN GROUP (ORDER BY paid DESC) FROM visits",
        "SELECT quantile_cont(paid, paid) FROM visits",
        "SELECT max(paid, 3) FROM visits",
        "SELECT quantile_cont(paid, '0.5') FROM visits",
        "SELECT quantile_cont(paid, 2) FROM visits",
    ):
        with pytest.raises((QueryError, ParameterError)):
            nt.from_sql(wrong, rows)
