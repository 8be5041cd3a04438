import itertools
from fractions import Fraction

import numpy as np
import pytest

from neartwin.errors import ParameterError
from neartwin.exact import root_above, root_below
from neartwin.mechanisms.additive import Change


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
    start = np.concatenate([rng.uniform(-9, 9, 2000), np.arange(-9, 9, 0.5)])
    assert np.abs(half_up(start + 1) - half_up(start)).max() == 1
    assert np.abs(np.rint(start + 1) - np.rint(start)).max() == 2  # the wrong rounding breaks the bound


def test_roots_are_rounded_to_the_stated_side():
    for value in (Fraction(2), Fraction(1, 3), Fraction(10**30 + 1), Fraction(9, 4)):
        assert root_below(value) ** 2 <= value <= root_above(value) ** 2
        assert root_above(value) - root_below(value) <= Fraction(1, 2**63)
