"""A thousand fresh jobs: all have narrow certified answers, and finer answers lie inside coarser ones."""

import operator
import secrets
from functools import reduce

import numpy as np
import pytest

from neartwin.losses.inversion.contour_search import CLOSED, CONTOUR, LATTICE
from tests.losses.test_sweep import refined, sweep


@pytest.mark.slow
def test_a_thousand_jobs_are_answered_by_a_certified_line_and_narrowly():
    first = secrets.randbits(32)
    whole = reduce(operator.add, (sweep(first + part, 500) for part in range(2)))
    print(f"seeds {first} and {first + 1}: {whole}")
    assert len(whole.widths) == 1_000
    assert whole.routes[CLOSED] + whole.routes[LATTICE] + whole.routes[CONTOUR] >= 993
    assert np.mean(np.array(whole.widths) <= 1e-3) >= 0.99


@pytest.mark.slow
def test_finer_answers_of_two_hundred_jobs_lie_inside_coarser_ones():
    assert refined(secrets.randbits(32), 200) >= 20
