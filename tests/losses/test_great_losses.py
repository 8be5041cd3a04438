"""Great losses told apart (K17): what runs with one add to delta, against sums over all runs of a few uses."""

from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import (
    BoundedRange,
    DiscreteGaussian,
    FinitePair,
    Gaussian,
    Geometric,
    Laplace,
    SubsampledFinite,
    compose,
)
from neartwin.losses.inversion import contour_search
from neartwin.losses.inversion.contour_search import GreatLosses, apart
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.rounding import NoCertificateError
from tests.losses.test_subsampled_finite import delta as delta_of_few_uses


def law(seed, atoms):
    """Losses and masses of a pair of laws, exact to their last digits; Q may have more that P never shows."""
    rng = np.random.default_rng(seed)
    p, q = (part / part.sum() for part in 10 ** rng.uniform(-5, 0, (2, atoms)))
    q *= 1 - 0.3 * (seed % 3 == 0)
    size = np.full(atoms, 1e-15)
    return Weighted(np.log(p / q), np.log(p), 40 * size, 40 * size)


def runs(uses):
    """Sum of the losses, greatest loss and mass of every run."""
    outcomes = [list(zip(one.losses, one.masses, strict=True)) for one, count in uses for _ in range(count)]
    for run in product(*outcomes):
        losses, masses = zip(*run, strict=True)
        yield mp.fsum(losses), max(losses), mp.fprod(masses)


def known(uses):
    each = [[AtomicSum(one, count).log_mgf(-u) for u in contour_search.ORDERS.tolist()] for one, count in uses]
    return np.array(each).T


@pytest.mark.parametrize("seed", range(12))
def test_runs_with_a_great_loss_add_what_the_sum_over_them_says(seed):
    rng = np.random.default_rng(100 + seed)
    uses = [(law(seed, 5), 3), (law(seed + 50, 3), 2)][: 1 + seed % 2]
    laws, counts = [one for one, _ in uses], np.array([float(count) for _, count in uses])
    losses = np.concatenate([one.losses for one in laws])
    cuts = [cut for cut in np.unique(losses) if cut > max(one.losses.min() for one in laws)]
    every = list(runs(uses))
    for cut in cuts:
        great = GreatLosses.of(laws, counts, cut, known(uses))
        for eps in (*(cut + rng.uniform(-6, 2, 6)), cut, 0.0):
            with mp.workdps(30):
                truth = mp.fsum(mass * max(1 - mp.exp(eps - total), 0) for total, most, mass in every if most >= cut)
            low, high = (float(end[0]) for end in great.bounds(np.array([eps])))
            assert low * (1 - 1e-12) <= truth <= high * (1 + 1e-12)
            assert high - low <= float(great.fallen(np.array([eps]))[0]) + 1e-11 * great.mass[1]
        far = cut - 12.0 * sum(counts)  # below every sum: both ends are next to each other
        low, high = great.bounds(np.array([far]))
        assert high[0] - low[0] <= 1e-11 * high[0]


def test_runs_that_fall_below_eps_all_the_same_are_charged(monkeypatch):
    uses = [(law(3, 5), 3)]
    cut = float(np.sort(uses[0][0].losses)[-2])
    great = GreatLosses.of([uses[0][0]], np.array([3.0]), cut, known(uses))
    eps = cut + 0.5
    truth = float(mp.fsum(mass * max(1 - mp.exp(eps - total), 0) for total, most, mass in runs(uses) if most >= cut))
    assert truth <= great.bounds(np.array([eps]))[1][0]
    monkeypatch.setattr(GreatLosses, "fallen", lambda _, eps: np.zeros(len(eps)))
    assert truth > great.bounds(np.array([eps]))[1][0]  # the near miss


def test_beside_other_losses_nothing_is_known_of_a_run_but_its_probability():
    uses = [(law(3, 5), 3)]
    cut = float(np.sort(uses[0][0].losses)[-2])
    great = GreatLosses.of([uses[0][0]], np.array([3.0]), cut, None)
    mass = float(mp.fsum(mass for _, most, mass in runs(uses) if most >= cut))
    assert great.mass == pytest.approx((mass, mass), rel=1e-12)
    assert [end.tolist() for end in great.bounds(np.array([-9.0, 0.0, 9.0]))] == [[0.0] * 3, [great.mass[1]] * 3]


SELDOM = [
    (DiscreteGaussian(sigma2="1.053", sensitivity=2), "1.63e-5", 3, 3.2e-6),
    (DiscreteGaussian(sigma2="0.5"), "1e-4", 3, 1e-8),
    (DiscreteGaussian(sigma2="0.3"), "1e-3", 4, 1e-10),
    (Geometric(epsilon=4, sensitivity=2), "1e-4", 4, 1e-7),
    (
        DiscreteGaussian(sigma2="0.859", sensitivity=2),
        "0.00012",
        3,
        4.6e-10,
    ),  # whose Newton's steps died behind the last loss
]


@pytest.mark.parametrize(("noise", "rate", "count", "delta"), SELDOM)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_few_seldom_uses_cost_the_sum_over_all_their_outcomes(noise, rate, count, delta, direction):
    whole = count * SubsampledFinite(base=noise, rate=rate)
    found = whole.epsilon(delta, direction=direction)
    assert found.width <= 1e-6 * found.upper
    with mp.workdps(30):
        slack = mp.mpf(10) ** -24
        assert delta_of_few_uses(noise, Fraction(rate), count, mp.mpf(found.upper), direction) <= delta + slack
        assert delta_of_few_uses(noise, Fraction(rate), count, mp.mpf(found.lower), direction) >= delta - slack
        eps = 0.99 * found.upper
        there = whole.delta(eps, direction=direction)
        truth = delta_of_few_uses(noise, Fraction(rate), count, mp.mpf(eps), direction)
        assert there.lower <= truth + slack
        assert truth - slack <= there.upper
    assert there.width <= 1e-3 * there.upper


def on_grid(law, count, eps, step):
    """Delta of many copies, rounded up: each loss shared by its two neighbours on a grid that keeps both masses.

    The commonest loss lies on the grid. So do losses beyond its end, which no run with one falls below.
    """
    size, end, usual = 1 << 22, eps + 1.5, law.losses[law.masses.argmax()]
    p, q, at = law.masses, law.masses * np.exp(-law.losses), (law.losses - usual) / step
    some = law.losses < end
    down = np.floor(at[some])
    share = -np.expm1(-step * (at[some] - down)) / -np.expm1(-step)  # of P above, so that Q is kept
    places = np.concatenate([down, down + 1]).astype(int)
    sums = count * usual + step * ((np.arange(size) + size // 8) % size - size // 8)
    parts = np.concatenate([p[some] * (1 - share), p[some] * share])
    one = np.fft.irfft(np.fft.rfft(np.bincount(places % size, parts, size)) ** count, size)
    great = [-np.expm1(count * np.log1p(-mass[~some].sum())) for mass in (p, q)]
    return float(one @ np.maximum(-np.expm1(eps - sums), 0.0)) + great[0] - np.exp(eps) * great[1]


MANY = [  # their widths were 8e-4, 3e-5, 4e-6 and 7e-5 of epsilon while a second hump stood at the saddle
    ("0.623", "0.000109", 1776, 2.9e-10, 5e-7),
    ("0.684", "0.000116", 64708, 5.4e-8, 3e-6),
    ("1.036", "0.00105", 3419, 1.9e-9, 2e-6),
    ("1.513", "0.000128", 2423, 2.4e-8, 5e-7),
    ("0.447", "0.0000493", 3074, 1.2e-11, 5e-7),  # the first line had an upper end beyond all losses: 1e-4
]


@pytest.mark.parametrize(("sigma2", "rate", "count", "delta", "step"), MANY)
def test_many_seldom_uses_are_narrow_and_what_a_grid_says(sigma2, rate, count, delta, step):
    whole = count * SubsampledFinite(base=DiscreteGaussian(sigma2=sigma2), rate=rate)
    found = whole.epsilon(delta, direction="remove")
    assert found.width <= 1e-6 * found.upper
    (summand,) = whole.sides("remove")[0].upper.summands
    there = whole.delta(found.upper, direction="remove")
    assert there.width <= 1e-5 * there.upper
    grid = on_grid(summand.weighted, count, found.upper, step)
    assert grid == pytest.approx(delta, rel=5e-4)
    assert grid == pytest.approx(there.upper, rel=5e-4)
    assert on_grid(summand.weighted, count, found.upper * (1 - 1e-3), step) > 1.005 * delta  # the near miss


def test_a_second_look_that_proves_nothing_leaves_what_the_first_proved(monkeypatch):
    by_line = contour_search.by_line

    def once(*job, **named):
        if "parted" in named:  # the second look
            raise NoCertificateError
        return by_line(*job, **named)

    whole = 1776 * SubsampledFinite(base=DiscreteGaussian(sigma2="0.623"), rate="0.000109")
    found = whole.epsilon(2.9e-10)
    monkeypatch.setattr(contour_search, "by_line", once)
    wide = whole.epsilon(2.9e-10)
    assert wide.lower <= found.lower <= found.upper <= wide.upper
    assert 1e-6 * wide.upper < wide.width < 0.01 * wide.upper


def test_different_laws_are_told_apart_together():
    uses = {
        SubsampledFinite(base=DiscreteGaussian(sigma2="0.5"), rate="1e-4"): 2,
        SubsampledFinite(base=Geometric(epsilon=3), rate="1e-3"): 2,
    }
    found = compose(uses).epsilon(1e-8, direction="remove")
    assert found.width <= 1e-6 * found.upper
    (summands,) = [side.upper.summands for side in compose(uses).sides("remove")]
    atoms = [(part.weighted, part.count) for part in summands]
    for eps, sign in ((found.lower, 1), (found.upper, -1)):
        truth = mp.fsum(mass * max(1 - mp.exp(eps - total), 0) for total, _, mass in runs(atoms))
        assert sign * (truth - 1e-8) >= -1e-20


def test_what_is_told_apart():
    seldom = SubsampledFinite(base=DiscreteGaussian(sigma2="0.6"), rate="1e-4")
    (side, *_) = (1000 * seldom).sides("remove")
    part, great = apart(side.upper, 0.2, 1e-24)
    assert 0.2 < great.cut < side.upper.summands[0].weighted.losses.max()
    assert part.summands[0].weighted.losses.max() < great.cut
    assert float(np.exp(part.summands[0].weighted.log_masses).sum()) == pytest.approx(1.0, abs=1e-14)
    assert great.mass[1] > 1e-14  # not nothing
    assert float(great.fallen(np.array([0.2]))[0]) <= 1e-24
    # a first look takes only what is nothing; so does one beside other losses; a lattice and one loss have nothing
    first, slight = apart(side.upper, np.inf, 1e-24)
    assert slight.mass[1] <= 1e-24
    assert slight.cut > great.cut
    assert first is not side.upper
    (mixed, *_) = compose({seldom: 1000, Gaussian(mu=1): 1}).sides("remove")
    assert apart(mixed.upper, 0.2, 1e-24)[1].mass[1] <= 1e-24
    (pair, *_) = (10 * FinitePair(p=("3/4", "1/4"), q=("1/4", "3/4"))).sides("remove")
    assert apart(pair.upper, 0.2, 1e-24)[0] is pair.upper
    one = SumOfLosses([AtomicSum(Weighted(np.array([2.0]), np.zeros(1), np.zeros(1), np.zeros(1)), 3)])
    assert apart(one, 0.2, 1e-24)[0] is one


def test_a_greater_delta_says_how_low_epsilon_is_where_no_line_does():
    whole = 1 * BoundedRange(epsilon="277/12500") + 9 * Laplace(epsilon="1349/500")
    found, greater = whole.epsilon("9.6e-19"), whole.epsilon("1e-17")
    assert greater.lower < found.upper
    assert found.width < 1e-6
