"""Bounded range against the optimal composition of its extreme pairs: promises hold, and no member of the class exceeds them."""

import mpmath as mp
import pytest

from neartwin.losses import BoundedRange, RandomizedResponse
from tests.oracles import ranges


def test_the_optimal_composition_is_what_a_search_over_all_pairs_finds():
    assert abs(ranges.composed(1, 2, 1) - mp.mpf("0.057005329028488034")) < 1e-15
    for e, count, eps, grid in ((1.0, 1, 0.3, 400), (0.7, 2, 0.4, 60), (1.0, 3, 0.8, 14)):
        found = ranges.searched(e, count, eps, grid)
        truth = ranges.composed(e, count, eps)
        assert found <= truth * (1 + 1e-12)
        assert found >= truth * (1 - 8.0 / grid**2 - 1e-3)  # some choice of the grid comes near


@pytest.mark.parametrize("count", [1, 2, 3, 17, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_bounded_range_promise_covers_the_worst_and_its_lower_end_does_not(count, delta):
    for e in ("0.05", "0.6"):
        found = (count * BoundedRange(epsilon=e)).epsilon(delta)
        assert ranges.composed(e, count, found.upper) <= delta
        if found.lower > 0:
            assert ranges.composed(e, count, found.lower) >= delta
        short = (count * RandomizedResponse(epsilon=mp.nstr(mp.mpf(e) / 2, 6))).epsilon(delta).upper
        worst = ranges.composed(e, count, short)
        assert short == 0 or worst > delta  # one member's own epsilon: too little for the class


def test_one_use_is_as_tight_as_the_class_allows():
    found = (1 * BoundedRange(epsilon=1)).epsilon(1e-6)
    assert ranges.composed(1, 1, found.upper * (1 - 1e-6)) > 1e-6 >= ranges.composed(1, 1, found.upper)
