"""Every goal for every mechanism with a scale: what is found meets it by certified ends, a little less does not."""

import itertools
from fractions import Fraction

import mpmath
import pytest

from neartwin.accounting.budgets import advantage, approx, gdp, mixed, pure, rdp, zcdp
from neartwin.accounting.calibration import largest_rate, least_noise, most_uses, true_positives
from neartwin.accounting.usage import cost, repeated
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import (
    Approx,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Leak,
    Pure,
    RandomizedResponse,
    Staircase,
    SubsampledGaussian,
    SubsampledLaplace,
    ZeroConcentrated,
)

pytestmark = pytest.mark.sweep

SCALED = {
    "gaussian": lambda s: Gaussian(mu=1 / s),
    "laplace": lambda s: Laplace(epsilon=1 / s),
    "geometric": lambda s: Geometric(epsilon=1 / s, sensitivity=2),
    "staircase": lambda s: Staircase(epsilon=1 / s, sensitivity=7, step=2),
    "discrete gaussian": lambda s: DiscreteGaussian(sigma2=s**2),
    "randomized response": lambda s: RandomizedResponse(epsilon=1 / s),
    "one of four answers": lambda s: RandomizedResponse(epsilon=1 / s, answers=4),
    "bounded range": lambda s: BoundedRange(epsilon=1 / s),
    "sampled gaussian": lambda s: SubsampledGaussian(mu=1 / s, rate="0.1"),
    "sampled laplace": lambda s: SubsampledLaplace(epsilon=1 / s, rate="0.1"),
    "rho alone": lambda s: ZeroConcentrated(rho=1 / (2 * s**2)),
}
SAMPLED = {
    "sampled gaussian": lambda q: SubsampledGaussian(mu=2, rate=q),
    "sampled laplace": lambda q: SubsampledLaplace(epsilon=2, rate=q),
}
# goal: how its number is read off a cost, the number, how far beyond the found one the truth surely fails
GOALS = {
    pure(1): (lambda whole: whole.pure(), 1, 1e-5),
    approx(1, "1e-6"): (lambda whole: whole.epsilon("1e-6"), 1, 1e-5),
    zcdp("0.1"): (lambda whole: whole.zcdp(), 0.1, 3e-3),
    rdp(8, "0.5"): (lambda whole: whole.renyi(8.0), 0.5, 1e-5),
    gdp("0.5"): (lambda whole: whole.gdp(0), 0.5, 1e-3),
    gdp("0.5", "1e-6"): (lambda whole: whole.gdp("1e-6"), 0.5, 1e-3),
    advantage("0.08"): (lambda whole: whole.advantage(), 0.08, 1e-5),
    true_positives("0.03", fpr="0.01"): (lambda whole: whole.tpr(0.01), 0.03, 1e-2),
}
UNBOUNDED = {"gaussian", "discrete gaussian", "sampled gaussian", "rho alone"}  # no largest loss
NO_TAIL = UNBOUNDED - {"gaussian"}  # far out not a Gaussian's either
LOWER_UNKNOWN = {"rho alone", "bounded range"}  # classes of mechanisms, bounded above
WITHOUT_POOL = ("gaussian", gdp("0.5", "1e-6"))  # priced exactly, its delta left for others


def exists(name, goal):
    """Whether any number exists, from what is known of the mechanism alone."""
    return not ((goal == pure(1) and name in UNBOUNDED) or (goal == gdp("0.5") and name in NO_TAIL))


QUICK, DEAR = {pure(1), rdp(8, "0.5")}, {"bounded range", "sampled gaussian", "sampled laplace"}
SCALES = [
    pytest.param(name, goal, marks=pytest.mark.slow if name in DEAR and goal not in QUICK else ())
    for name, goal in itertools.product(SCALED, GOALS)
]


@pytest.mark.parametrize(("name", "goal"), SCALES, ids=str)
def test_the_least_noise_meets_its_goal_and_a_little_less_does_not(name, goal):
    spend, (read, number, wide) = SCALED[name], GOALS[goal]
    if not exists(name, goal):
        with pytest.raises(PrivacyError, match=r"no scale up to 2\^60 meets .*; ask for (approx|gdp)\("):
            least_noise(spend, goal)
        return
    found = least_noise(spend, goal, tolerance="1e-6")
    assert read(cost(spend(found.value))).upper <= number * (1 + 1e-12)  # rounding, where the search was exact
    assert found.beyond < found.value <= found.beyond * (1 + Fraction(2, 10**6))
    assert read(cost(spend(found.beyond))).upper > number or (name, goal) == WITHOUT_POOL
    if name not in LOWER_UNKNOWN:
        assert read(cost(spend(found.value * (1 - Fraction(wide))))).lower > number
    assert found.trials <= 30


USES = [
    pytest.param(name, goal, marks=pytest.mark.slow if name.startswith("sampled") and goal not in QUICK else ())
    for name, goal in itertools.product(SCALED, GOALS)
    if not isinstance(goal, type(gdp(1)))
]


@pytest.mark.parametrize(("name", "goal"), USES, ids=str)
def test_the_most_uses_meet_their_goal_and_one_more_does_not(name, goal):
    scale = 4 if name == "bounded range" else 20  # its optimum takes a tenth of a second for each use
    each, (read, number, _) = SCALED[name](Fraction(scale)), GOALS[goal]
    if not exists(name, goal):
        with pytest.raises(PrivacyError, match=r"not even one use meets .*; ask for (approx|gdp)\("):
            most_uses(each, goal)
        return
    found = most_uses(each, goal)
    assert found.beyond == found.value + 1
    assert read(cost(repeated(each, found.value))).upper <= number * (1 + 1e-12)
    assert read(cost(repeated(each, found.beyond))).upper > number


@pytest.mark.parametrize(("name", "goal"), list(itertools.product(SAMPLED, GOALS)), ids=str)
def test_the_largest_rate_meets_its_goal_and_a_little_more_does_not(name, goal):
    spend, (read, number, wide) = SAMPLED[name], GOALS[goal]
    if not exists(name, goal) or (goal == zcdp("0.1") and name == "sampled gaussian"):  # rho does not feel the rate
        with pytest.raises(PrivacyError, match=r"no sampling rate down to 2\^-60 meets"):
            largest_rate(spend, goal)
        return
    found = largest_rate(spend, goal)
    assert read(cost(spend(found.value))).upper <= number * (1 + 1e-14)
    assert found.value < found.beyond <= found.value * (1 + Fraction(2, 10**6))
    assert read(cost(spend(found.beyond))).upper > number
    assert read(cost(spend(found.value * (1 + Fraction(wide))))).lower > number


def test_calibrated_numbers_equal_the_closed_forms():
    phi_inverse = lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1)  # noqa: E731
    fpr, rate = mpmath.mpf("0.01"), mpmath.mpf("0.03")
    normal = 1 / (phi_inverse(rate) - phi_inverse(fpr))
    by_attack = true_positives("0.03", fpr="0.01")
    known = {
        ("gaussian", by_attack): normal,
        ("laplace", by_attack): 1 / mpmath.log(3),  # TPR = e^eps FPR while FPR <= e^-eps / 2
        ("randomized response", by_attack): 1 / mpmath.log(3),
        ("randomized response", advantage("0.08")): 1 / (2 * mpmath.atanh(mpmath.mpf("0.08"))),
        ("laplace", advantage("0.08")): -1 / (2 * mpmath.log(1 - mpmath.mpf("0.08"))),
        ("laplace", pure(1)): 1,
        ("sampled laplace", pure(1)): 1 / mpmath.log1p(10 * mpmath.expm1(1)),
        ("discrete gaussian", zcdp("0.1")): mpmath.sqrt(5),
        ("sampled gaussian", zcdp("0.1")): mpmath.sqrt(5),
        ("gaussian", rdp(8, "0.5")): mpmath.sqrt(8),
    }
    for (name, goal), true in known.items():
        found = least_noise(SCALED[name], goal).value
        assert true * (1 - mpmath.mpf("1e-12")) <= mpmath.mpf(found.numerator) / found.denominator
        assert mpmath.mpf(found.numerator) / found.denominator <= true * (1 + mpmath.mpf("2e-5")), (name, goal)


def test_a_true_positive_rate_is_a_goal_and_an_impossible_one_is_refused():
    assert least_noise(SCALED["laplace"], true_positives("0.03", fpr="0.01")).value > 0
    for bad in (
        lambda: true_positives("0.01", fpr="0.01"),
        lambda: true_positives(1, fpr="0.01"),
        lambda: true_positives("0.5", fpr=0),
    ):
        with pytest.raises(ParameterError):
            bad()


def test_failures_that_mechanisms_state_need_room_in_the_goals_delta():
    def spend(scale):
        return 10 * Approx(epsilon=1 / scale, delta="1e-7") + Gaussian(mu=1 / scale) + Leak(delta="1e-7")

    for goal in (zcdp("0.1", "1.1e-6"), rdp(4, "0.5", "1.1e-6"), mixed(1, 1, "1.1e-6")):
        found = least_noise(spend, goal)
        bare = least_noise(lambda scale: 10 * Pure(epsilon=1 / scale) + Gaussian(mu=1 / scale), goal)
        assert found.value == bare.value
        short = type(goal)(
            **{name: getattr(goal, name) for name in goal.__dataclass_fields__} | {"delta": Fraction(1, 10**6)}
        )
        with pytest.raises(PrivacyError, match="no scale"):
            least_noise(spend, short)
    pools = least_noise(spend, mixed(1, 1, "1.1e-6"))
    assert 10 <= pools.value <= 10 * (1 + Fraction(2, 10**6))  # ten times 1/scale in epsilon is the fuller pool


def test_pure_losses_that_parameters_state_fill_a_goal_to_the_last_unit():
    for each in (Laplace(epsilon="0.05"), Geometric(epsilon="0.05", sensitivity=3), RandomizedResponse(epsilon="0.05")):
        assert most_uses(each, pure(1)).value == 20
    assert most_uses(DiscreteGaussian(sigma2=400), zcdp("0.1")).value == 80


@pytest.mark.parametrize(
    "ask",
    [
        lambda: least_noise(SCALED["laplace"], "epsilon=1"),
        lambda: least_noise(SCALED["laplace"](Fraction(1)), pure(1)),
        lambda: least_noise(SCALED["laplace"], pure(1), tolerance=1),
        lambda: least_noise(float, pure(1)),
        lambda: least_noise(SCALED["laplace"], pure(1), neighbours="twins"),
        lambda: most_uses("laplace", pure(1)),
        lambda: most_uses(Laplace(epsilon="1e-20"), pure(1)),
        lambda: largest_rate(SAMPLED["sampled laplace"], None),
    ],
)
def test_malformed_target_is_refused_by_name(ask):
    with pytest.raises(ParameterError):
        ask()


def test_a_goal_below_every_float_ends():
    assert least_noise(SCALED["gaussian"], approx("1e-400", "0.5")).value < 1
    with pytest.raises(PrivacyError, match="no scale"):
        least_noise(SCALED["laplace"], pure("1e-400"))
