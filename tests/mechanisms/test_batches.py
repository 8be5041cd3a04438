import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.exact import Interval
from neartwin.mechanisms.additive.magnitude_bounds import MagnitudeBounds
from neartwin.mechanisms.additive.mean import BoundedMean, clipped_rows, ratio_interval, squared_bound
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


def test_half_up_rounding_after_a_norm_clip_doubles_it_and_truncation_not():
    vector = np.full((1, 10_000), 0.5)
    assert float(np.linalg.norm(vector)) == 50.0
    assert (np.floor(vector + 0.5) ** 2).sum() == 100**2  # the wrong way: norm 100
    assert (clipped_rows(vector, step=1, l2_bound=50) ** 2).sum() <= 50**2
    fine = clipped_rows(vector, step="0.25", l2_bound=50)
    assert (fine**2).sum() == 200**2  # on a grid that holds the vector nothing is lost


@pytest.mark.parametrize(("step", "bound"), [(1, 5), ("1/7", 3), ("1/1024", 1), (10, 10)])
def test_clipped_rows_never_pass_the_exact_bound(step, bound):
    rng = np.random.default_rng(2)
    scale = 10.0 ** rng.uniform(-3, 3, (3000, 1))
    rows = rng.normal(size=(3000, 5)) * scale
    clipped = clipped_rows(rows, step=step, l2_bound=bound)
    most = squared_bound(step=step, l2_bound=bound)
    norms = [sum(int(x) ** 2 for x in row) for row in clipped]
    assert max(norms) <= most
    short = (np.linalg.norm(rows, axis=1) <= bound) & (np.abs(rows).max(axis=1) > 0)
    steps = float(Fraction(str(step)))
    assert np.abs(clipped[short] * steps - rows[short]).max() <= steps * (1 + 1e-9)


def test_a_bound_that_floats_round_up_is_still_kept():
    """floor(bound^2) = k^2 - 1, whose root rounds to k in floats; the whole norm must stay below."""
    k = 2**30
    bound = Fraction(4 * k * k - 1, 4 * k)
    assert math.sqrt(squared_bound(step=1, l2_bound=bound)) == k
    assert clipped_rows(np.array([[1e15, 0.0]]), step=1, l2_bound=bound).tolist() == [[k - 1, 0]]


def test_clipping_survives_what_floats_can_hold():
    rows = np.array([[np.nan, 1], [np.inf, 0], [1e308, 1e308], [0, 0], [5e-324, 0]])
    clipped = clipped_rows(rows, step=1, l2_bound=10)
    assert (clipped[[0, 1, 3, 4]] == 0).all()
    assert clipped[2].tolist() == [7, 7]
    with pytest.raises(ParameterError):
        clipped_rows(rows, step="1e-9", l2_bound=10**6)


def test_mean_is_private_by_its_parts_and_its_interval_covers():
    mechanism = BoundedMean.calibrated(epsilon=Fraction(1), low=0, high=100)
    assert mechanism.epsilon == 1
    assert (mechanism.total.sensitivity, mechanism.count.sensitivity) == (50, 1)
    rng, source = np.random.default_rng(4), noise.ScriptedSource(b"mean")
    values = rng.integers(0, 101, 400)
    covered = [values.mean() in mechanism.release(values, confidence=0.9, source=source).interval for _ in range(600)]
    assert np.mean(covered) >= 0.87
    widths = [mechanism.release(values, confidence=c, source=source).interval.width for c in (0.5, 0.99)]
    assert widths[0] < widths[1]


def test_mean_of_nothing_is_an_answer_within_the_bounds():
    mechanism = BoundedMean.calibrated(epsilon=Fraction(1, 10), low=-3, high=8)
    release = mechanism.release(np.array([], dtype=np.int64), source=noise.ScriptedSource(b"nothing"))
    assert -3 <= release.mean <= 8
    assert release.interval.lower >= -3
    assert release.interval.upper <= 8
    with pytest.raises(ParameterError):
        BoundedMean.calibrated(epsilon=Fraction(1), low=5, high=5)


def test_ratio_interval_holds_every_ratio():
    rng = np.random.default_rng(6)
    for _ in range(300):
        ends = np.sort(rng.uniform(-50, 50, 2)), np.sort(rng.uniform(1, 30, 2))
        interval = ratio_interval(Interval(*ends[0].tolist()), Interval(*ends[1].tolist()), low=-100, high=100)
        t, c = rng.uniform(*ends[0]), rng.uniform(*ends[1])
        assert t / c in interval


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_found_bounds_hold_the_bulk_and_ignore_a_single_outlier(neighbours):
    mechanism = MagnitudeBounds.calibrated(epsilon=Fraction(1), bits=40, neighbours=neighbours)
    rng, source = np.random.default_rng(9), noise.ScriptedSource(b"bounds")
    values = rng.integers(-300, 5000, 5000)
    low, high = mechanism.find(np.append(values, 2**39), source=source)
    assert low <= np.quantile(values, 0.005)
    assert np.quantile(values, 0.995) <= high < 2**20
    assert mechanism.find(np.array([], dtype=np.int64), source=source) is None
    scale = {Neighbours.ADD_REMOVE: 1, Neighbours.REPLACE_ONE: 2}[neighbours]
    assert mechanism.each.scale == scale


def test_empty_bins_pass_the_threshold_as_rarely_as_stated():
    mechanism = MagnitudeBounds.calibrated(
        epsilon=Fraction(1), bits=20, neighbours=Neighbours.ADD_REMOVE, confidence=0.9
    )
    source = noise.ScriptedSource(b"empty")
    seen = [mechanism.find(np.array([], dtype=np.int64), source=source) is not None for _ in range(1000)]
    assert np.mean(seen) < 0.1 + 0.04
    assert np.mean(seen) > 0.005
    within = 1 - mechanism.each.law.beyond(mechanism.threshold - 1)
    assert math.isclose(within**41, 0.9, abs_tol=0.06)
