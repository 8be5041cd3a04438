from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import chisquare

from neartwin import noise
from neartwin.mechanisms.additive import Staircase
from neartwin.mechanisms.noise_laws import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    RoundedGaussianLaw,
    RoundedLaplaceLaw,
    StaircaseLaw,
)

LAWS = {
    "geometric": (DiscreteLaplaceLaw(Fraction(5, 2)), lambda: noise.discrete_laplace(Fraction(5, 2))),
    "laplace": (RoundedLaplaceLaw(Fraction(5, 2)), lambda: noise.rounded_laplace(Fraction(5, 2))),
    "narrow laplace": (RoundedLaplaceLaw(Fraction(1, 2)), lambda: noise.rounded_laplace(Fraction(1, 2))),
    "gaussian": (RoundedGaussianLaw(Fraction(7)), lambda: noise.rounded_gaussian(7)),
    "narrow gaussian": (RoundedGaussianLaw(Fraction(1, 3)), lambda: noise.rounded_gaussian(Fraction(1, 3))),
    "discrete gaussian": (DiscreteGaussianLaw(Fraction(20)), lambda: noise.discrete_gaussian(20)),
    "narrow discrete gaussian": (DiscreteGaussianLaw(Fraction(1, 2)), lambda: noise.discrete_gaussian(Fraction(1, 2))),
    "staircase": (StaircaseLaw(Fraction(1), 5, 2), lambda: noise.staircase(1, 5, 2)),
}
X = np.arange(-400, 401)


@pytest.mark.parametrize("name", LAWS)
def test_tail_variance_and_bar_follow_the_pmf(name):
    law = LAWS[name][0]
    mass = law.pmf(X)
    assert mass.sum() == pytest.approx(1, rel=1e-12)
    assert (mass * X * X).sum() == pytest.approx(law.variance, rel=1e-10)
    for t in (0, 1, 2, 5, 9, 17):
        assert mass[abs(X) > t].sum() == pytest.approx(law.beyond(t), rel=1e-9, abs=1e-15)
        assert mass[t <= X].sum() == pytest.approx(law.at_least(t), rel=1e-9, abs=1e-15)
        assert mass[-t <= X].sum() == pytest.approx(law.at_least(-t), rel=1e-9)
    for confidence in (0.5, 0.95, 0.999):
        for count in (1, 10, 1000):
            t = law.half_width(confidence, count)
            inside = [1 - mass[abs(X) > s].sum() for s in (t, t - 1)]
            assert inside[0] ** count >= confidence - 1e-12
            assert t == 0 or inside[1] ** count < confidence


@pytest.mark.parametrize(
    "law",
    [
        RoundedLaplaceLaw(Fraction(10**11)),
        RoundedGaussianLaw(Fraction(10**20)),
        LAWS["staircase"][0],
        DiscreteLaplaceLaw(Fraction(2**200)),  # where neighbours have one tail, and lines end in steps of 1
        DiscreteGaussianLaw(Fraction(2**360)),
    ],
)
def test_the_reach_of_a_tail_is_the_least(law):
    """At noise in fine parts of a row; one less is the near miss."""
    for allowed in (0.9, 0.05, 1e-6, 1e-300):
        t = law.reach(allowed)
        assert law.beyond(t) <= allowed < (law.beyond(t - 1) if t else 1)


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_the_stated_law_and_no_other(name):
    law, sampler = LAWS[name]
    draws = sampler().draw(20_000, source=noise.ScriptedSource(name.encode()))
    reach = law.half_width(0.99)
    seen = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)

    def fit(mass):
        inner = mass[np.abs(X) <= reach]
        expected = np.concatenate([[mass[-reach > X].sum()], inner, [mass[reach < X].sum()]])
        return chisquare(seen, expected / expected.sum() * seen.sum()).pvalue

    assert fit(law.pmf(X)) > 1e-9
    assert fit(np.roll(law.pmf(X), 1)) < 1e-9


def test_wide_discrete_gaussian_tails_are_bounded_from_above():
    narrow, wide = DiscreteGaussianLaw(Fraction(1999**2)), DiscreteGaussianLaw(Fraction(2001**2))
    assert wide.beyond(6003) >= narrow.beyond(5997)
    assert wide.beyond(6003) == pytest.approx(narrow.beyond(5997), rel=2e-3)


@pytest.mark.parametrize("epsilon", ["1e-3", "1e-9", "1e-16", "1e-17", "1e-30"])
def test_staircase_bars_hold_at_little_epsilon(epsilon):
    """1 - e^-epsilon by cancellation made them a tenth too short at 1e-16, and failed beyond. By mpmath."""
    law = Staircase(epsilon=Fraction(epsilon), sensitivity=3, step=2).law
    found = law.half_width(0.95)
    with mp.workdps(80):
        q = mp.exp(-mp.mpf(epsilon))
        first = 2 + q
        periods, place = divmod(found + 1, 3)
        rest = max(0, 2 - place) + q * (3 - max(2, place))
        beyond = 2 * q**periods * (rest + q * first / (1 - q)) / (2 * first / (1 - q) - 1)
        assert beyond <= 0.05 * (1 + 1e-14)
        assert abs(law.beyond(found) / beyond - 1) < 1e-12


def test_staircases_are_calibrated_at_any_epsilon():
    for epsilon in ("1e-17", "1", "1500", "1e5"):
        assert Staircase.calibrated(epsilon=Fraction(epsilon), sensitivity=3).half_width(0.95) >= 0
