import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from neartwin.errors import ParameterError
from neartwin.exact import root_above, root_below
from neartwin.mechanisms.norm_bounds import Change


def half_up(x):
    return np.floor(np.asarray(x) + 0.5)


def vectors(size, reach):
    return [np.array(v) for v in itertools.product(range(-reach, reach + 1), repeat=size) if any(v)]


@pytest.mark.parametrize(
    "known",
    [{"l1": 3}, {"l2_squared": 5}, {"linf": 2, "cells": 2}, {"l1": 4, "linf": 2}, {"l2_squared": 7, "cells": 2}],
)
def test_integer_vectors_within_known_bounds_are_within_the_derived_ones(known):
    change = Change(**known)
    norms = {
        "l1": lambda v: abs(v).sum(),
        "l2_squared": lambda v: (v * v).sum(),
        "linf": lambda v: abs(v).max(),
        "cells": lambda v: (v != 0).sum(),
    }
    allowed = [v for v in vectors(3, 4) if all(norms[name](v) <= bound for name, bound in known.items())]
    largest = {name: max(norm(v) for v in allowed) for name, norm in norms.items()}
    for name, found in largest.items():
        assert found <= getattr(change, name)
    if "l1" in known and len(known) == 1:  # and here the bounds are attained
        assert (change.linf, change.l2_squared, change.cells) == (3, 9, 3)


def test_a_change_without_enough_bounds_is_refused():
    for known in ({}, {"linf": 3}, {"cells": 3}, {"linf": 0, "cells": 1}, {"l1": 1.5}):
        with pytest.raises(ParameterError):
            Change(**known)


def test_half_up_rounding_keeps_the_sensitivity_and_half_even_does_not():
    rng = np.random.default_rng(7)
    change = Change.of_rounded(step=1, cells=1, linf=1)
    assert change.l1 == 1
    start = np.concatenate([rng.uniform(-9, 9, 2000), np.arange(-9, 9, 0.5)])
    assert np.abs(half_up(start + 1) - half_up(start)).max() == 1
    assert np.abs(np.rint(start + 1) - np.rint(start)).max() == 2  # the wrong rounding breaks the bound


@pytest.mark.parametrize("cells", [1, 2, 3])
def test_rounded_vectors_move_within_derived_norms_and_attain_l1(cells):
    rng = np.random.default_rng(8)
    l1, l2 = Fraction(5, 2), Fraction(2)
    by_l1, by_l2 = (Change.of_rounded(step=1, cells=cells, **bound) for bound in ({"l1": l1}, {"l2": l2}))
    most_l1 = 0
    for _ in range(4000):
        start = rng.integers(-8, 8, cells) / 4 + rng.choice([0, 1e-9], cells)
        way = rng.normal(size=cells)
        for norm, bound, change in ((np.abs(way).sum(), l1, by_l1), (np.linalg.norm(way), l2, by_l2)):
            moved = half_up(start + way * (float(bound) / norm) * (1 - 1e-12)) - half_up(start)
            assert np.abs(moved).sum() <= change.l1
            assert (moved**2).sum() <= change.l2_squared
            most_l1 = max(most_l1, np.abs(moved).sum() if bound == l1 else 0)
    assert most_l1 == by_l1.l1 == math.ceil(l1) + cells - 1


@pytest.mark.parametrize("cells", [1, 2, 3, 4])
@pytest.mark.parametrize("length", ["0.01", "0.9", "1.3", "2.003", "3.5", "6.01"])
def test_rounded_length_bounds_every_vector_and_is_attained(cells, length):
    """A coordinate moves m steps only if it changed by more than m - 1: every way of doing so within the length is tried."""
    l2 = Fraction(length)
    found = Change.of_rounded(step=1, cells=cells, l2=l2).l2_squared
    reached = [
        sum(m * m for m in steps)
        for steps in itertools.product(range(math.ceil(l2) + 1), repeat=cells)
        if sum(max(m - 1, 0) ** 2 for m in steps) < l2**2
    ]
    assert max(reached) <= found
    whole = math.isqrt(cells)
    if whole**2 == cells and 0 < l2 / whole - l2 // whole < Fraction(1, 50):
        assert found == max(reached), "no larger than need be"


@pytest.mark.parametrize("step", ["1/3", "2", "0.7"])
def test_a_step_only_changes_the_units(step):
    bounds = {"l1": Fraction("4.1"), "l2": Fraction("2.3"), "linf": Fraction("1.9")}
    in_steps = {name: bound / Fraction(step) for name, bound in bounds.items()}
    for name, bound in bounds.items():
        one = Change.of_rounded(step=step, cells=3, **{name: bound})
        assert one == Change.of_rounded(step=1, cells=3, **{name: in_steps[name]})
    assert Change.of_rounded(step=step, cells=3, l1=bounds["l1"]).l1 == math.ceil(in_steps["l1"]) + 2


def test_roots_are_rounded_to_the_stated_side():
    for value in (Fraction(2), Fraction(1, 3), Fraction(10**30 + 1), Fraction(9, 4)):
        assert root_below(value) ** 2 <= value <= root_above(value) ** 2
        assert root_above(value) - root_below(value) <= Fraction(1, 2**63)
