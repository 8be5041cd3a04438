from fractions import Fraction

import numpy as np
import pytest

from neartwin.errors import ParameterError
from neartwin.mechanisms.selection.exponential import PeeledTop


def test_peeling_shares_its_epsilon_and_names_each_candidate_once():
    mechanism = PeeledTop.calibrated(epsilon=Fraction(6), sensitivity=1, monotone=True, count=3)
    assert (mechanism.each.epsilon, mechanism.epsilon) == (2, 6)
    scores = np.array([100, 300, 200, 0])
    assert mechanism.choose(scores) == [1, 2, 0]
    with pytest.raises(ParameterError):
        mechanism.choose(np.array([1, 2]))
