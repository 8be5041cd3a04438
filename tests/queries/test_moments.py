"""Moments: their sensitivity against all tables of one unit, their sharing, and what is refused."""

from functools import cache
from itertools import combinations_with_replacement, product
from math import inf

import duckdb
import numpy as np
import pytest

import neartwin as nt
from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.planning.planner import plan
from neartwin.queries.sql.parse import from_sql
from neartwin.queries.wire.parse import form_of, question_of
from tests.oracles.memory import MemoryEngine

TOWNS = ("a", "b", "c", "d")
CAPS = [(1, 1), (2, 1), (1, 2), (2, 2)]
BOUNDS = [((-2, 5), (0, 3)), ((3, 7), (-4, -1)), ((0, 4), (-1, 1))]


@cache
def empty_table(neighbours="add_remove", bounds=BOUNDS[0], *, unit="who"):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (who BIGINT, town VARCHAR, x DOUBLE, y DOUBLE)")
    columns = {name: nt.bounds(*ends, 1) for name, ends in zip("xy", bounds, strict=True)}
    return nt.table(connection, table="visits", unit=unit, neighbours=neighbours, columns=columns)


def one_unit_tables(bounds):
    values = [[*(float(value) for value in range(low, high + 1)), None] for low, high in bounds]
    rows = [{"who": 1, "town": "a", "x": x, "y": y} for x, y in product(*values)]
    (low, high), ends = bounds[0], (float(bounds[1][0]), float(bounds[1][1]), None)
    few = [
        {"who": 1, "town": town, "x": x, "y": y}
        for town in TOWNS
        for x, y in product((float(low), float((low + high) // 2), float(high)), ends)
    ]
    return [[], *([row] for row in rows), *map(list, combinations_with_replacement(few, 2))]


def contributions(stage, tables):
    """(tables, towns, measures): all the measures of one unit in each group."""
    found = np.zeros((len(tables), len(TOWNS), len(stage.measures)), dtype=object)
    for place, rows in enumerate(tables):
        answer = MemoryEngine(rows, order=lambda _, key: key).aggregate(stage, salt=1)
        for i, name in enumerate(stage.measures):
            for key, value in zip(answer.keys, answer.values[name], strict=True):
                found[place, TOWNS.index(key[0]), i] = int(value)
    return found.astype(np.int64)


@pytest.mark.sweep
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("caps", CAPS, ids=str)
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_sensitivity_of_product_sums_holds_and_is_attained(neighbours, caps, bounds):
    query = empty_table(neighbours, bounds).group_by("town").agg(
        v=nt.variance("x"), c=nt.correlation("x", "y"), r=nt.regression("y", ["x"])
    )  # fmt: skip
    made = plan(query, spend=nt.approx(1, "1e-6"), limits=nt.limits(max_rows_per_group=caps[0], max_groups=caps[1]))
    found = contributions(made.stage, one_unit_tables(bounds))
    for i, name in enumerate(made.stage.measures):
        if name not in made.measures:
            continue
        stated, one = made.measures[name].sensitivity, np.unique(found[:, :, i], axis=0)
        if neighbours == "add_remove":
            farthest = np.abs(one).sum(axis=1).max()
        else:
            farthest = max(np.abs(one - other).sum(axis=1).max() for other in one)
        assert farthest <= stated.l1, name
        if caps[0] * caps[1] <= 2:  # the tables hold two rows at most: a larger reach is not tried out
            assert farthest == stated.l1, name


def test_a_square_costs_half_of_what_it_would_uncentred():
    made = plan(
        empty_table().agg(v=nt.variance("x", -8, 8, 1)), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1)
    )
    reaches = [measure.sensitivity.l1 / measure.parts for measure in made.measures.values()]
    assert sorted(reaches) == [1, 8, 32]  # x^2 - 32 lies within [-32, 32]


@pytest.mark.parametrize(
    ("statistics", "measures"),
    [
        ({"v": nt.variance("x")}, 3),
        ({"v": nt.variance("x"), "s": nt.stddev("x"), "m": nt.mean("x"), "n": nt.count()}, 4),
        ({"c": nt.covariance("x", "y")}, 4),
        ({"c": nt.covariance("x", "y"), "d": nt.covariance("y", "x")}, 4),
        ({"c": nt.correlation("x", "y"), "d": nt.covariance("y", "x"), "r": nt.regression("y", ["x"])}, 6),
        ({"r": nt.regression("y", ["x"])}, 5),
    ],
)
def test_statistics_of_the_same_columns_share_their_sums_and_noise(statistics, measures):
    made = plan(empty_table().agg(**statistics), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=2))
    assert len(made.measures) == measures
    assert set(made.stage.measures) == set(made.measures)


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda: nt.variance("who"), QueryError, "needs bounds"),
        (lambda: nt.variance("town", 0, 1), SchemaError, "must be a number"),
        (lambda: nt.variance("x", 5, 1), ParameterError, "above low"),
        (lambda: nt.variance("x", 0, 2**40, 1), QueryError, "larger step"),
        (lambda: nt.covariance("x", "who"), QueryError, "needs bounds"),
        (lambda: nt.covariance("x", "x"), QueryError, "twice"),
        (lambda: nt.correlation("x", "town"), SchemaError, "must be a number"),
        (lambda: nt.correlation("x", "y / 0"), QueryError, "other than 0"),
        (lambda: nt.regression("y", []), QueryError, "list of columns"),
        (lambda: nt.regression("y", "x"), QueryError, "list of columns"),
        (lambda: nt.regression("y", ["x", "y"]), QueryError, "twice"),
        (lambda: nt.regression("y", ["x", "nothing"]), SchemaError, "not in the table"),
        (lambda: nt.regression("y", ["x'; DROP TABLE visits; --"]), QueryError, "not SQL"),
    ],
)
def test_wrong_question_about_moments_is_refused_before_any_spend(ask, error, says):
    with pytest.raises(error, match=says):
        empty_table().agg(it=ask())


def test_a_name_that_a_regression_takes_cannot_be_taken_twice():
    with pytest.raises(QueryError, match="in use"):
        empty_table().agg(fit=nt.regression("y", ["x"]), fit_x=nt.count())


def test_sql_python_and_forms_ask_the_same():
    rows = empty_table()
    built = rows.agg(v=nt.variance("x"), s=nt.stddev("x + y"), c=nt.covariance("y", "x"), r=nt.correlation("y", "x"))
    text = "SELECT VAR_POP(x) AS v, STDDEV_POP(x + y) AS s, COVAR_POP(y, x) AS c, CORR(y, x) AS r FROM visits"
    assert from_sql(text, rows) == built
    for question in (built, rows.agg(fit=nt.regression("y", ["x", "x * y"]), v=nt.variance("x", 0, 10, "0.5"))):
        assert question_of(form_of(question), rows) == question
    for dialect, text, sample in [
        *(("duckdb", text, nt.variance("x", ddof=1)) for text in ("VARIANCE(x)", "VAR_SAMP(x)")),
        *(("duckdb", text, nt.stddev("x", ddof=1)) for text in ("STDDEV(x)", "STDDEV_SAMP(x)")),
        *(("tsql", "VAR(x)", nt.variance("x", ddof=1)), ("tsql", "STDEV(x)", nt.stddev("x", ddof=1))),
        ("mysql", "VARIANCE(x)", nt.variance("x")),  # of the population there
    ]:
        question = from_sql(f"SELECT {text} AS s FROM visits", rows, dialect=dialect)
        assert question == rows.agg(s=sample), (dialect, text)
        assert question_of(form_of(question), rows) == question
    with pytest.raises(ParameterError, match="ddof=2 must be 0 to divide by n, or 1"):
        rows.agg(s=nt.variance("x", ddof=2))
    with pytest.raises(QueryError, match="n - 1"):
        from_sql("SELECT COVAR_SAMP(x, y) FROM visits", rows)


def test_expected_errors_of_moments_shrink_with_groups_and_are_explained():
    query = empty_table().agg(
        v=nt.variance("x"), s=nt.stddev("x"), c=nt.covariance("x", "y"), r=nt.correlation("x", "y"), fit=nt.regression("y", ["x"])
    )  # fmt: skip
    made = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=2))

    for error in made.expected_errors():
        widths = [inf if width is None else width for _, width in error.by_size]
        assert widths == sorted(widths, reverse=True)
        assert 0 < widths[-1] < 1
    assert "total of x times y in steps" in str(made.explain())
