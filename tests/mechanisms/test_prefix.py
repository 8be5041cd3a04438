import copy
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

from neartwin import noise
from neartwin.errors import ParameterError, PrivacyError
from neartwin.mechanisms.linear.matrix import (
    MatrixMechanism,
    PrefixTree,
    eigen_design,
    identity,
    intervals_change,
    intervals_tree,
    root_coefficients,
)
from neartwin.mechanisms.neighbours import Neighbours

ADD = Neighbours.ADD_REMOVE


def prefixes(n):
    return np.tril(np.ones((n, n), dtype=np.int64))


@pytest.mark.parametrize("steps", [1, 2, 7, 8, 13])
def test_tree_sensitivity_equals_that_of_its_matrix(steps):
    tree, change = intervals_tree(steps), intervals_change(steps=steps)
    columns = [tree[:, j] for j in range(steps)]
    assert change.l1 == max(abs(c).sum() for c in columns)
    assert change.l2_squared == max((c * c).sum() for c in columns)
    twice = intervals_change(steps=steps, steps_per_unit=2, sensitivity=3)
    pairs = [3 * (a + b) for i, a in enumerate(columns) for b in columns[i + 1 :]]
    if pairs:
        assert max((v * v).sum() for v in pairs) <= twice.l2_squared
        assert max(v.sum() for v in pairs) <= twice.l1


@pytest.mark.parametrize(
    "tree", [PrefixTree.pure(epsilon=Fraction(10**9), steps=13), PrefixTree.for_gdp(mu=Fraction(10**9), steps=13)]
)
def test_totals_without_noise_are_exact(tree):
    increments = np.array([3, -1, 4, 1, -5, 9, 2, 6, 5, 3, 5, 8, 9])
    assert tree.release(increments) == np.cumsum(increments).tolist()


def spread(release, runs, steps):
    return np.array([release(noise.ScriptedSource(str(i).encode())) for i in range(runs)]).std(axis=0)[:steps]


@pytest.mark.slow
def test_tree_errors_are_the_stated_ones_and_not_those_of_plain_noise():
    tree, zeros = PrefixTree.for_gdp(mu=Fraction(1), steps=8), np.zeros(8, dtype=np.int64)
    seen = spread(lambda source: tree.release(zeros, source=source), 1200, 8)
    assert seen == pytest.approx(tree.deviations, rel=0.12)
    plain = math.sqrt(float(tree.each.variance)) * np.sqrt(np.arange(1, 9))
    assert seen[7] < 0.5 * plain[7]


def test_the_root_of_the_prefix_matrix_is_one():
    c = root_coefficients(64)
    C = np.array([[c[i - j] if i >= j else 0.0 for j in range(64)] for i in range(64)])
    assert pytest.approx(prefixes(64), abs=1e-12) == C @ C
    assert c == pytest.approx([math.comb(2 * k, k) / 4**k for k in range(64)], rel=1e-12)


def test_a_running_total_cannot_be_copied_forked_or_overrun():
    stream = PrefixTree.for_gdp(mu=Fraction(1), steps=2).start()
    for reuse in (lambda: copy.copy(stream), lambda: copy.deepcopy(stream), lambda: pickle.dumps(stream)):
        with pytest.raises(PrivacyError):
            reuse()
    child = os.fork()
    if child == 0:
        try:
            stream.add(1)
        except PrivacyError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    stream.add(1)
    stream.add(1)
    with pytest.raises(ParameterError):
        stream.add(1)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_matrix_mechanism_is_unbiased_with_the_stated_errors(neighbours):
    workload = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, -1]])
    for strategy in (identity(4), intervals_tree(4), eigen_design(workload)):
        made = MatrixMechanism.for_gdp(workload, strategy, mu=Fraction(1, 4), neighbours=neighbours)
        cells = np.array([10, 20, 30, 40])
        runs = np.array([made.release(cells, source=noise.ScriptedSource(f"{i}".encode())) for i in range(1500)])
        error = runs - workload @ cells
        assert error.std(axis=0) == pytest.approx(made.deviations, rel=0.12)
        assert (np.abs(error.mean(axis=0)) < 5 * made.deviations / math.sqrt(1500)).all()
        inside = (np.abs(error) <= made.half_widths(0.9)).mean(axis=0)
        assert (inside > 0.86).all()
        half = MatrixMechanism.for_gdp(workload, strategy, mu=Fraction(1, 2), neighbours=neighbours)
        assert (np.abs(error) <= half.half_widths(0.9)).mean() < 0.8


def test_strategies_that_do_not_determine_the_workload_are_refused():
    with pytest.raises(ParameterError):
        MatrixMechanism.for_gdp(identity(3), np.array([[1, 1, 0], [0, 0, 1]]), mu=Fraction(1), neighbours=ADD)


def test_the_best_strategy_is_at_least_as_good_as_each():
    for workload in (prefixes(32), identity(16), np.ones((1, 20), dtype=np.int64)):
        best = MatrixMechanism.best_for_gdp(workload, mu=Fraction(1), neighbours=ADD)
        for strategy in (identity(workload.shape[1]), intervals_tree(workload.shape[1])):
            rival = MatrixMechanism.for_gdp(workload, strategy, mu=Fraction(1), neighbours=ADD)
            assert np.square(best.deviations).sum() <= np.square(rival.deviations).sum() * (1 + 1e-9)
