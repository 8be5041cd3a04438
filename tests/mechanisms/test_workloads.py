"""Strategies for linear workloads: what one unit moves is never understated, and answers err exactly as stated."""

from itertools import product

import numpy as np
import pytest
from scipy import integrate

from neartwin.errors import ParameterError
from neartwin.mechanisms.linear.workloads import (
    Contribution,
    Intervals,
    Strategy,
    Weighted,
    gram_of,
    l1_change,
    l2_squared_change,
    reach_of_laplace,
    strategies,
)


def vectors(cells, rows, groups, total, *, signed):
    """Everything that one unit may add: brute force."""
    values = range(-rows if signed else 0, rows + 1)
    for found in product(values, repeat=cells):
        if sum(v != 0 for v in found) <= groups and sum(map(abs, found)) <= total:
            yield np.array(found)


def moved(table, unit):
    ends = list(vectors(table.shape[1], unit.rows, unit.groups, unit.total, signed=unit.signed))
    changes = [one - other for one in ends for other in ends] if unit.replaced else ends
    found = np.array(changes) @ table.T
    return int(np.abs(found).sum(axis=1).max()), int(np.square(found).sum(axis=1).max())


TABLES = {
    "identity": np.eye(4, dtype=int),
    "prefixes": np.tril(np.ones((4, 4), dtype=int)),
    "tree": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4, dtype=int)]),
    "random": np.random.default_rng(4).integers(0, 4, (3, 4)),
    "against": np.array([[1, 1, -1, -1]]),
    "signs": np.random.default_rng(5).integers(-3, 4, (5, 4)),
}
UNITS = [
    (rows, groups, total, replaced, signed)
    for rows, groups, total in ((1, 1, 1), (1, 2, 2), (2, 1, 2), (2, 2, 3), (1, 4, 4))
    for replaced in (False, True)
    for signed in (False, True)
]


@pytest.mark.parametrize("name", TABLES)
def test_no_unit_moves_the_measured_sums_further_than_stated(name):
    table = TABLES[name]
    for rows, groups, total, replaced, signed in UNITS:
        if signed and rows * groups > 2:
            continue  # too many for brute force
        unit = Contribution(rows=rows, groups=groups, total=total, replaced=replaced, signed=signed)
        l1, squared = moved(table, unit)
        assert l1 <= l1_change(table, unit), unit
        assert squared <= l2_squared_change(gram_of(table), unit), unit
        if groups == 1 and not (replaced and signed):
            assert squared == l2_squared_change(gram_of(table), unit), unit
        if name not in ("signs", "against") and not replaced:
            assert l1 == l1_change(table, unit), unit
        if groups == 4 and name not in ("signs", "against") and not replaced:
            assert squared == l2_squared_change(gram_of(table), unit), unit


def test_replaced_unit_may_move_a_signed_sum_by_both_its_vectors():
    """The near miss: twice one vector's squared length is not enough."""
    unit = Contribution(rows=1, groups=1, total=1, replaced=True, signed=True)
    alone = Contribution(rows=1, groups=1, total=1, replaced=False, signed=True)
    table = TABLES["prefixes"]
    assert moved(table, unit)[1] > 2 * l2_squared_change(gram_of(table), alone)


def dense(queries):
    rows = np.zeros((len(queries), queries.cells))
    for row, (first, last) in enumerate(zip(queries.first, queries.last, strict=True)):
        rows[row, first : last + 1] = 1
    return rows


def intervals(cells):
    pairs = np.array([(a, b) for a in range(cells) for b in range(a, cells)])
    return Intervals(cells, pairs[:, 0], pairs[:, 1])


def test_workload_errors_equal_those_of_least_squares():
    queries = intervals(9)
    table = dense(queries)
    x = np.random.default_rng(1).integers(0, 50, 9)
    assert np.allclose(queries.answers(x.astype(float)), table @ x)
    assert np.allclose(queries.gram(), table.T @ table)
    found = strategies(queries, prefixes=True)
    assert len({one.name for one in found}) == len(found) >= 12
    for strategy in found:
        back = table @ np.linalg.pinv(strategy.table.astype(float))
        assert np.allclose(queries.variances(strategy.h), np.square(back).sum(axis=1)), strategy.name
        assert np.allclose(Weighted(table).variances(strategy.h), np.square(back).sum(axis=1))
        assert strategy.measured(x).tolist() == (strategy.table @ x).tolist()
        noisy = strategy.table @ x + np.random.default_rng(2).normal(0, 5, len(strategy.table))
        assert np.allclose(queries.answers(strategy.estimate(noisy)), back @ noisy)
        assert np.allclose(strategy.estimate((strategy.table @ x).astype(float)), x)


def test_sums_beyond_64_bits_are_exact_and_weak_strategies_are_none():
    strategy = Strategy.of("x", TABLES["tree"])
    huge = np.array([2**62, 2**62 + 1, 3, 4], dtype=object)
    assert strategy.measured(huge)[0] == 2**63 + 8
    assert Strategy.of("x", np.array([[1, 1], [2, 2]])) is None
    with pytest.raises(ParameterError, match="smaller entries"):
        gram_of(np.full((2, 2), 2**26))
    large = np.full((2, 2), 2**25 + 1)
    assert gram_of(large).tolist() == [[2 * (2**25 + 1) ** 2] * 2] * 2


@pytest.mark.parametrize("draws", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_the_reach_of_laplace_sums_holds_and_is_not_wide(draws, confidence):
    """Against the tail of equal scales, by its characteristic function (1 + t^2 / 2n)^-n at deviation 1."""

    def tail(reach):
        def part(t):
            return (1 + t * t / (2 * draws)) ** -draws * np.sinc(reach * t / np.pi) * reach

        return 1 - 2 / np.pi * integrate.quad(part, 0, 400, limit=4000)[0]

    reach = reach_of_laplace(confidence)
    assert tail(reach) <= 1 - confidence + 1e-4
    assert tail(0.63 * reach) > 1 - confidence
