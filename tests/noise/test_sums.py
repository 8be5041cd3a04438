"""Sums of exact values and noise never wrap around."""

import numpy as np
import pytest

from neartwin import noise
from neartwin.errors import ParameterError

EDGES = [0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**31, 12345]


def test_noisy_sums_equal_those_of_python_integers():
    for first in EDGES:
        for second in EDGES:
            total = noise.add(np.array([first]), np.array([second]))
            assert total.tolist() == [first + second]
            assert (total.dtype == np.int64) == (-(2**63) <= first + second < 2**63)
    assert noise.add(np.arange(6, dtype=np.int32).reshape(2, 3), np.int64(2**40))[1, 2] == 2**40 + 5
    assert noise.add([2**70], np.array([1])).tolist() == [2**70 + 1]
    assert noise.add(np.array([2**63], np.uint64), np.array([-1])).tolist() == [2**63 - 1]
    assert noise.add(np.zeros(0, int), np.zeros(0, int)).size == 0


def test_floats_are_no_exact_values():
    for wrong in (np.array([0.5]), 1.0, np.array([True])):
        with pytest.raises(ParameterError, match="must be integers"):
            noise.add(wrong, np.array([1]))
