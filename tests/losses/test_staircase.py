"""Staircase noise beside brute force: every shift, every outcome of several uses, and parameters that are no staircase."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest

from neartwin.errors import ParameterError
from neartwin.losses import Pure, RandomizedResponse, Staircase
from neartwin.tradeoff import epsilon_delta, staircase
from neartwin.tradeoff.finite import staircase_masses

LAWS = [("1", 5, 2), ("1", 5, 3), ("2", 7, 7), ("1/3", 10, 1), ("3", 4, 2), ("1/7", 6, 4), ("40", 3, 1), ("1", 1, 1)]


def steps(sensitivity, step, reach):
    """How many steps down each point of -reach, ..., reach lies, by the law's definition."""
    return [len([m for m in range(reach) if abs(x) >= m * sensitivity + step]) for x in range(-reach, reach + 1)]


def ratio(epsilon):
    """e^-epsilon in long numbers."""
    return mpmath.exp(-mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator)


def far(epsilon, sensitivity):
    """Beyond it, less than e^-45 of the law."""
    return math.ceil(45 / Fraction(epsilon) + 3) * sensitivity


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_worst_shift_is_the_whole_sensitivity_and_its_losses_are_three(law):
    epsilon, sensitivity, step = law
    down = steps(sensitivity, step, far(epsilon, sensitivity))
    mechanism = 1 * Staircase(epsilon=epsilon, sensitivity=sensitivity, step=step)
    with mpmath.workdps(40):
        q = ratio(epsilon)
        p = [q**k for k in down]
        whole = sum(p)
        for shift, share in itertools.product(range(1, sensitivity + 1), (0.0, 0.3, 0.9)):
            t = share * float(Fraction(epsilon))
            true = (
                sum(max(a - mpmath.exp(t) * b, 0) for a, b in zip(p[shift:], p, strict=False)) + sum(p[:shift])
            ) / whole
            claim = mechanism.delta(t)
            assert true <= claim.upper * (1 + 1e-9)
            assert shift < sensitivity or claim.lower <= true * (1 + 1e-9)
        silent = sum(q**a for a, b in zip(down[sensitivity:], down, strict=False) if a == b) / whole
        assert float(silent) == pytest.approx(staircase_masses(*law)[1], rel=1e-12, abs=1e-300)


def test_one_unit_more_than_the_sensitivity_breaks_the_claim():
    p = [math.exp(-k) for k in steps(5, 2, 300)]
    true = sum(max(a - b, 0) for a, b in zip(p[6:], p, strict=False)) / sum(p)
    assert true > (1 * Staircase(epsilon=1, sensitivity=5, step=2)).delta(0.0).upper * 1.05


@pytest.mark.parametrize("law", [("1", 5, 2), ("1/3", 10, 1), ("2", 7, 7)], ids=str)
@pytest.mark.parametrize("direction", [None, "add", "replace"])
def test_several_uses_compose_to_what_all_their_outcomes_say(law, direction):
    epsilon, sensitivity, step = law
    down, count = steps(sensitivity, step, far(epsilon, sensitivity)), 7
    found = count * Staircase(epsilon=epsilon, sensitivity=sensitivity, step=step)
    with mpmath.workdps(40):
        q = ratio(epsilon)
        silent = sum(q**a for a, b in zip(down[sensitivity:], down, strict=False) if a == b) / sum(q**k for k in down)
        truth = (1 - silent) / (1 + q)
        for share in (0.0, 1.0, 2.5):
            true = sum(
                mpmath.mpf(math.comb(count, i) * math.comb(count - i, j))
                * truth**i * (q * truth)**j * silent ** (count - i - j)
                * max(0, 1 - q ** (i - j - share))
                for i in range(count + 1) for j in range(count + 1 - i)
            )  # fmt: skip
            claim = found.delta(share * float(Fraction(epsilon)), direction=direction)
            assert claim.lower - 1e-14 <= true <= claim.upper + 1e-14
            assert claim.width < 1e-9


def test_it_says_less_than_pure_privacy_and_the_curve_agrees():
    quiet, pure = 100 * Staircase(epsilon="0.1", sensitivity=100, step=27), 100 * Pure(epsilon="0.1")
    assert quiet.epsilon(1e-6).upper < pure.epsilon(1e-6).lower
    curve = staircase("0.1", 100, 27)
    for alpha in (0.47, 0.475, 0.48):
        assert curve.beta(alpha).lower > epsilon_delta("0.1").beta(alpha).upper
    one = 1 * Staircase(epsilon="0.1", sensitivity=100, step=27)
    for eps in (0.0, 0.05, 0.099):
        assert one.delta(eps).lower <= curve.delta(eps).upper
        assert curve.delta(eps).lower <= one.delta(eps).upper
    assert one.pure().upper == pytest.approx(0.1, abs=1e-12)
    middle = 30 * Staircase(epsilon=1, sensitivity=5, step=3)  # no silent point: binary response
    assert middle.epsilon(1e-6) == (30 * RandomizedResponse(epsilon=1)).epsilon(1e-6)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"step": 6},
        {"step": 0},
        {"step": 1.5},
        {"sensitivity": 0},
        {"sensitivity": 10**200},
    ],
    ids=str,
)
def test_what_is_no_staircase_is_refused(given):
    good = {"epsilon": 1, "sensitivity": 5, "step": 5}
    assert Staircase(**good) is not None
    with pytest.raises(ParameterError):
        Staircase(**(good | given))
    with pytest.raises(ParameterError):
        staircase(**(good | given))
