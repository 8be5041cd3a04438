"""Epsilons at which e^epsilon is no float: intervals hold the truth in closed form, or are refused."""

import mpmath
import pytest

from neartwin import tradeoff
from neartwin.errors import ParameterError
from neartwin.losses import Staircase


def response(epsilon, asked):
    """Delta of randomized response: (e^epsilon - e^asked) / (1 + e^epsilon)."""
    with mpmath.workdps(60):
        return (mpmath.exp(epsilon) - mpmath.exp(asked)) / (1 + mpmath.exp(epsilon))


@pytest.mark.parametrize(("epsilon", "asked"), [(1, "0.5"), (600, 599), (690, 689)])
def test_a_power_of_one_response_is_the_response(epsilon, asked):
    found = tradeoff.randomized_response_power(epsilon, 1).delta(asked)
    assert found.lower <= response(epsilon, mpmath.mpf(asked)) <= found.upper
    assert found.width < 1e-11


@pytest.mark.parametrize(
    "curve",
    [
        lambda: tradeoff.randomized_response_power(720, 1),
        lambda: tradeoff.compose(tradeoff.epsilon_delta(720), tradeoff.randomized_response(1, 3)),
    ],
)
def test_a_power_beyond_the_floats_is_refused(curve):
    """At epsilon 720 its delta at 715 was 1.7e-13, where it is 0.993."""
    with pytest.raises(ParameterError, match="epsilon=720 must be at most 690"):
        curve()


@pytest.mark.parametrize(
    ("curve", "asked", "truth"),
    [
        (lambda: tradeoff.randomized_response(720), 719, response(720, 719)),
        (lambda: tradeoff.randomized_response(720), 712, response(720, 712)),
        (lambda: tradeoff.compose(*[tradeoff.epsilon_delta(250)] * 3), 748, 0.8646647167633873),
        (
            lambda: tradeoff.compose(tradeoff.epsilon_delta(355), tradeoff.epsilon_delta("356.1")),
            711,
            0.0951625819640404,
        ),
    ],
)
def test_a_factor_that_is_cut_is_in_no_lower_end(curve, asked, truth):
    """The first was [0.99996, 1] where 0.632 is the truth, the last [0.732, 0.732]."""
    found = curve().delta(asked)
    assert found.lower <= float(truth) <= found.upper


def test_masses_below_the_floats_leave_room():
    """Relative errors say nothing of them: the first was known to 3.06e-322 where it is 3.072e-322."""
    for curve, level, truth in (
        (tradeoff.compose(tradeoff.epsilon_delta(370), tradeoff.epsilon_delta("370.3")), "0.5", 3.07206e-322),
        (tradeoff.randomized_response(800), "1e-9", 0.0),
        (tradeoff.randomized_response_power(100, 9), "1e-9", 0.0),
    ):
        found = curve.beta(level)
        assert found.lower <= truth <= found.upper < 1e-320


@pytest.mark.parametrize("epsilon", [745, 746, 800])
def test_a_staircase_of_any_epsilon_has_a_delta(epsilon):
    run = 1 * Staircase(epsilon=epsilon, sensitivity=3, step=1)
    assert run.delta(1.0).lower > 0.999999
    assert run.advantage().upper <= 1
