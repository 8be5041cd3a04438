import itertools
from fractions import Fraction

import numpy as np
import pytest

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.mechanisms.linear.matrix import Histogram, of_counts, of_histogram, of_linear
from neartwin.mechanisms.neighbours import Neighbours


def moves(cells, neighbours):
    """Every change of a histogram that one unit can make."""
    units = [*np.eye(cells, dtype=int), np.zeros(cells, dtype=int)]
    if neighbours is Neighbours.ADD_REMOVE:
        return units[:-1]
    return [a - b for a, b in itertools.product(units, units) if (a != b).any()]


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_linear_sensitivity_equals_the_worst_of_all_neighbours(neighbours):
    rng = np.random.default_rng(1)
    for _ in range(30):
        weights = rng.integers(-4, 5, (3, 4))
        if not weights.any():
            continue
        changes = [weights @ move for move in moves(4, neighbours)]
        change = of_linear(weights, neighbours)
        assert change.l1 == max(abs(v).sum() for v in changes)
        assert change.l2_squared == max((v * v).sum() for v in changes)
        assert change.linf == max(abs(v).max() for v in changes)


def test_large_workloads_are_bounded_and_never_below_the_truth():
    weights = np.arange(9000)[None, :] % 5 + 3
    assert of_linear(weights, Neighbours.ADD_REMOVE).l1 == 7
    assert of_linear(weights[:, :100], Neighbours.REPLACE_ONE).l1 == 7  # a unit may lie in no cell
    assert of_linear(weights, Neighbours.REPLACE_ONE).l1 == 14


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_histogram_and_counts_move_as_stated(neighbours):
    change = of_histogram(neighbours)
    all_moves = moves(5, neighbours)
    assert change.l1 == max(abs(v).sum() for v in all_moves)
    assert change.l2_squared == max((v * v).sum() for v in all_moves)
    overlapping = np.array([[1, 1, 1, 0, 0], [1, 1, 0, 0, 1], [0, 1, 1, 1, 1]])
    seen = max(abs(overlapping @ move).sum() for move in all_moves)
    assert seen <= of_counts(3, neighbours).l1 == 3
    with pytest.raises(ParameterError):
        of_counts(0, neighbours)


def test_histogram_counts_every_category_and_its_error_bar_holds_for_all():
    histogram = Histogram.calibrated(epsilon=Fraction(1), categories=tuple("abcd"), neighbours=Neighbours.REPLACE_ONE)
    assert histogram.each.scale == 2
    source, width = noise.ScriptedSource(b"histogram"), histogram.half_width(0.9)
    values = ["a"] * 50 + ["b"] * 20 + ["z"] * 5
    truth = {"a": 50, "b": 20, "c": 0, "d": 0}
    inside = 0
    for _ in range(1000):
        released = histogram.release(values, source=source)
        assert released.keys() == truth.keys()
        inside += all(abs(released[k] - truth[k]) <= width for k in truth)
    assert 0.87 < inside / 1000 < 0.97
    with pytest.raises(ParameterError):
        Histogram.calibrated(epsilon=Fraction(1), categories=("a", "a"), neighbours=Neighbours.ADD_REMOVE)
