"""Sums by two tables of turns stay within the rounding that is charged, and are not made where that would not cover them."""

import mpmath
import numpy as np
import pytest

from neartwin.losses.contour import Rounding, short
from neartwin.losses.rounding import U
from neartwin.losses.table import table


def made(nodes, seed, dropped=0.0):
    """Terms as a line has them: falling moduli, angles anywhere, some frequencies left out."""
    pick = np.random.default_rng(seed)
    step = short(pick.uniform(0.01, 2.0))
    index = np.flatnonzero(pick.uniform(size=nodes) >= dropped)
    t = step * index.astype(float)
    size = np.exp(-pick.uniform(0, 5, len(t))) / (1 + t)
    return step, t, size, pick.uniform(-50, 50, len(t))


@pytest.mark.parametrize(("nodes", "dropped"), [(1500, 0.0), (4000, 0.3)])
def test_a_sum_is_within_the_rounding_that_is_charged(nodes, dropped):
    step, t, size, angle = made(nodes, nodes, dropped)
    eps = np.array([-3.0, 0.0, 0.7, 40.0, 900.0])
    weight = size * np.exp(1j * angle)
    found = table(step, t, [weight, weight * (1 + 2j)])
    sums = found.sums(eps)
    charged = Rounding.of(size, np.full(len(t), 24 * U), t).at(eps, float(t[-1]))
    with mpmath.workdps(40):
        for place, e in enumerate(eps):
            turns = [mpmath.expj(mpmath.mpf(a) - mpmath.mpf(e) * mpmath.mpf(x)) for a, x in zip(angle, t, strict=True)]
            parts = [mpmath.mpf(s) * turn for s, turn in zip(size, turns, strict=True)]
            for one, factor, scale in zip(sums, (1, mpmath.mpc(1, 2)), (1, 5**0.5), strict=True):
                exact = mpmath.re(mpmath.fsum(part * factor for part in parts))
                assert abs(one[place] - exact) <= scale * charged[place]


def test_another_step_or_a_lost_term_would_be_seen():
    step, t, size, angle = made(3000, 5)
    eps, weight = np.array([0.7]), size * np.exp(1j * angle)
    charged = Rounding.of(size, np.full(len(t), 24 * U), t).at(eps, float(t[-1]))
    right = (np.cos(angle - eps * t) @ size).item()
    assert abs(table(step, t, [weight]).sums(eps)[0] - right) <= 2 * charged
    lost = weight * (np.arange(len(t)) != 1000)
    assert abs(table(step, t, [lost]).sums(eps)[0] - right) > 2 * charged
    assert abs(table(step, t, [weight]).sums(eps * (1 + 1e-9))[0] - right) > 2 * charged


def test_no_table_is_made_where_rounding_would_not_cover_it():
    step, t, size, angle = made(1000, 1)
    assert table(step, t, [size * np.exp(1j * angle)]) is None
    few = np.arange(0, 2_000_000, 1000)  # 2000 terms far apart: the tables would have more turns than the charge covers
    assert table(step, step * few.astype(float), [np.ones(len(few), dtype=complex)]) is None
