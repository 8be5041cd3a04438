"""Each error of a line is charged to its side: made visible, the bracket holds, and would not without it."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom

from neartwin.losses import FinitePair, Gaussian, Laplace, SubsampledGaussian, SubsampledLaplace
from neartwin.losses.families.gaussian import GaussianSum, SubsampledGaussianPair
from neartwin.losses.families.randomized_response import ResponsePair
from neartwin.losses.inversion import chernoff, contour, lattice
from neartwin.losses.inversion.total import Saddle, SumOfLosses, log_c
from tests.oracles import compositions as truth

GAUSSIAN = SumOfLosses([GaussianSum(Fraction(4))])
TWO = mp.mpf(2)


@pytest.mark.parametrize("eps", [0.5, 3.0, 12.0])
@pytest.mark.parametrize("longest", [1.5, 2.0, 3.0])
def test_the_alias_of_a_short_period_is_charged_to_the_lower_end_alone(eps, longest):
    at = Saddle.for_eps(GAUSSIAN, eps)
    full = contour.find_alias(GAUSSIAN, at, at.log_delta + math.log(1e-6))
    period = longest * at.deviation
    short = full._replace(step=2.0 ** math.ceil(math.log2(2 * math.pi / period)))
    period = 2 * math.pi / short.step * (1 - 1e-15)
    ends = []
    for s, _ in (full.above, full.below):
        far = abs(s - at.tilt) * period
        log = GAUSSIAN.log_mgf_above(s) + log_c(s)
        ends.append((s, log - far - math.log(-math.expm1(-far)) + 1e-12))
    aliases = short._replace(period=period, above=ends[0], below=ends[1])
    line = contour.build(GAUSSIAN, at, 0.0, tolerance=1e-6, aliases=lambda *_: aliases)
    low, high = line.bounds(np.array([eps]))
    exact = truth.gaussian(TWO, eps)
    own = high[0] - line.point_estimate(eps)[0]  # the cut and rounding
    assert low[0] <= exact <= high[0]
    assert high[0] - 2 * own > exact  # the sum exceeds the truth by more than its other errors: the alias saves `low`


def worst(s):
    return -100 * s  # prefers the greatest tilt


def known(s):
    return np.array([GAUSSIAN.log_mgf(one)[0] for one in s.tolist()])


@pytest.mark.parametrize("eps", [0.5, 3.0, 12.0])
def test_estimates_of_k_choose_a_period_and_prove_nothing(eps):
    at = Saddle.for_eps(GAUSSIAN, eps)
    goal = at.log_delta + math.log(1e-6)
    plain, best, poor = (contour.find_alias(GAUSSIAN, at, goal, rough=rough) for rough in (None, known, worst))
    assert best.period < 1.2 * plain.period
    assert best.period < poor.period
    for alias in (plain, best, poor):
        for period in (alias.period, 0.6 * best.period):
            terms = [
                truth.gaussian(TWO, eps + m * period) * mp.exp(at.tilt * m * period) for m in (-3, -2, -1, 1, 2, 3)
            ]
            # what is stated holds, and of a period so much shorter it would not
            assert (mp.log(mp.fsum(terms)) <= alias.log_bound(np.array([eps]))[0]) == (period == alias.period)
    assert best.log_bound(np.array([eps]))[0] < goal + 1


@pytest.mark.parametrize("longest", [0.3, 1.0])  # of a Gaussian's period
def test_a_line_whose_aliases_are_not_bounded_bounds_from_above_alone(longest):
    eps, at = 12.0, Saddle.for_eps(GAUSSIAN, 12.0)

    def aliases(*asked):
        guess = contour.guess_alias(*asked)
        step = guess.step * 2.0 ** round(-math.log2(longest))
        return guess._replace(step=step, period=2 * math.pi / step)

    low, high = contour.build(GAUSSIAN, at, 0.0, tolerance=1e-6, aliases=aliases).delta(np.array([eps]))
    exact = float(truth.gaussian(TWO, eps))
    assert low[0] == 0.0
    assert exact <= high[0]
    assert (high[0] <= exact * (1 + 1e-5)) == (longest == 1.0)  # a short period's aliases are seen in the bound


@pytest.mark.parametrize("uses", [{"mu": "0.3", "rate": "0.0005"}, {"mu": 2, "rate": "0.001"}])
def test_no_share_of_the_best_gap_gives_a_much_shorter_period(uses):
    total = (5_000 * SubsampledGaussian(**uses)).sides("remove")[0].upper
    at = Saddle.for_delta(total, 1e-6)
    goal = at.log_delta + math.log(1e-13)
    found = contour.find_alias(total, at, goal).period
    gap = math.sqrt(2 * (total.log_mgf(at.tilt)[0] - at.tilt * at.eps - goal)) / at.deviation
    best = []
    for sign in (1, -1):
        places = [max(at.tilt + sign * share * gap, 0.0) for share in np.geomspace(0.01, 8.0, 60)]
        logs = [(sum(total.log_mgf(s)) + log_c(s) if s else 0.0) - s * at.eps - goal for s in places]
        best.append(min(log / abs(s - at.tilt) for log, s in zip(logs, places, strict=True)))
    assert max(best) <= found <= 1.5 * max(*best, 2 * at.deviation)


@pytest.mark.parametrize("width", [0.3, 0.05, 1e-3])
def test_smooth_kernels_bound_on_their_sides_and_converge_quadratically(width):
    eps = 3.0
    at = Saddle.for_eps(GAUSSIAN, eps)
    low, high = contour.build(GAUSSIAN, at, width).delta(np.array([eps]))
    exact = truth.gaussian(TWO, eps)
    assert low[0] < exact < high[0]
    gaps = (float(exact) - low[0], high[0] - float(exact))
    share = width**2 * at.tilt * (at.tilt + 1)
    assert all(0.1 * share < gap / float(exact) < 3 * share for gap in gaps)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 40, 2000])
def test_a_lattice_line_is_exact_at_and_around_its_points(count):
    total = SumOfLosses([ResponsePair(Fraction(1, 10), Fraction(0), 0).repeated(count)])
    e = mp.mpf(1) / 10
    p = mp.e**e / (1 + mp.e**e)
    for k in (0, 1, count // 4):
        point = float((Fraction(count % 2) + 2 * k) / 10)
        if point >= count / 10:
            continue
        for eps in (point, math.nextafter(point, 1e9), math.nextafter(point, -1e9), point + 0.07):
            line = lattice.build(total, Saddle.for_eps(total, eps))
            low, high = line.delta(np.array([eps]))
            exact = truth.two_atoms(e, -e, p, count, eps)
            assert low[0] <= exact <= high[0]
            assert high[0] - low[0] < 1e-9 * high[0]


@pytest.mark.parametrize("order", ["remove", "add", "replace"])
@pytest.mark.parametrize("mu", ["1/5", "1", "5/2"])
def test_nodes_shared_by_many_lams_serve_each_of_them(order, mu):
    """Against nodes of its own, closer and further out."""
    pair = SubsampledGaussianPair(Fraction(mu), Fraction(1, 100), order)
    for lam in (0.01, 1.0, 4.0, 15.9, 20.0, 33.0):
        shared, own = pair.repeated(1000), pair.repeated(1000)
        shared.cumulants(0.5 if lam < 16 else 17.0)
        own.shares, own.goal = False, own.goal - 10
        (value, error), (other, slack) = shared.log_mgf(lam), own.log_mgf(lam)
        assert abs(value - other) <= error + slack
        assert error < 1e-9 * (1 + abs(value))


REVIVALS = (0.5, 6.5)  # periods of the two atoms that the plain sum below goes on for


def sampled_laplace_delta(size, q, count, eps, periods):
    """Order "add", by the trapezoidal rule on a line: the law is two atoms and a short density between them.

    The atoms have most of the mass, so the transform comes back at every period of the distance between them.
    """
    nodes, weights = np.polynomial.legendre.leggauss(60)
    inside = 0.5 * size * (nodes + 1)
    law = np.concatenate([[0.5, 0.5 * math.exp(-size)], 0.25 * size * weights * np.exp(-inside)])
    losses = -np.log1p(q * np.expm1(np.concatenate([[-size, size], 2 * inside - size])))
    lam, step, reach = 17.6, 0.01, 2 * math.pi * periods / (losses[0] - losses[1])
    t = step * np.arange(int(reach / step))
    tilted = law * np.exp(lam * losses)
    turned = sum(mass * np.exp(1j * t * loss) for mass, loss in zip(tilted, losses, strict=True)) / tilted.sum()
    s = lam + 1j * t
    heights = (turned**count * np.exp(-1j * t * eps) / (s * (s + 1))).real
    heights[0] /= 2
    return heights.sum() * step / math.pi * math.exp(count * math.log(tilted.sum()) - lam * eps)


def test_what_comes_back_of_a_law_with_atoms_is_counted():
    delta = 1.876846563316427e-08
    whole = 212 * SubsampledLaplace(epsilon="0.1334", rate="0.168")
    found = whole.epsilon(delta, direction="add")
    assert found.method == "contour"
    assert found.width < 1e-8
    for periods in REVIVALS:
        above, below = (sampled_laplace_delta(0.1334, 0.168, 212, end, periods) for end in (found.lower, found.upper))
        # a sum that stops before the first return misses the interval by more than its width
        assert (above >= delta >= below) == (periods > 1)


@pytest.mark.parametrize("width", [0.0, 0.005])
def test_long_contour_summed_by_rotations_errs_within_its_bound(width):
    whole = 2 * Laplace(epsilon=1) + 1 * Gaussian(mu="0.004")
    total = whole.sides("remove")[0].upper
    line = contour.build(total, Saddle.for_eps(total, 1.0), width, tolerance=1e-7)
    assert line.nodes > contour.MANY
    eps = np.linspace(0.7, 1.3, 40)
    found, error = line._sums(eps)
    assert 0 < error < 1e-11 * np.abs(found[0]).max()
    turned = line.angle.astype(np.longdouble) - np.multiply.outer(eps.astype(np.longdouble), line.t)
    value = line.size * (np.cos(turned) + 1j * np.sin(turned))
    for got, exact in zip(found, (value, value * (0 if line.dip is None else line.dip)), strict=True):
        bound = error + sum(one.fixed + np.abs(eps) * one.per_eps for one in (line.rounding, line.dip_rounding))
        assert np.all(np.abs(got - exact.sum(axis=1).real) <= bound)
    few, _ = line._sums(eps[:1])  # one eps is summed term by term
    assert np.all(np.abs(few[0] - found[0][:1]) <= 2 * error)


@pytest.mark.parametrize(("reach", "last"), [(3.0, math.inf), (200.0, math.inf), (200.0, 7.3)])
def test_chernoff_asks_few_s_for_many_eps_and_loses_nothing(reach, last):
    asked = []

    def log_mgf(s):
        asked.append(s)
        return 0.18 * s * (s + 1) if s <= last else math.inf

    eps = np.linspace(0.1, reach, 40)
    upper = chernoff.delta_above(log_mgf, eps)
    assert len(asked) < 400
    alone = np.array([chernoff.log_delta_above(log_mgf, float(one)) for one in eps])
    assert (np.log(upper[alone > -700]) <= alone[alone > -700] * (1 - 3e-4) + 1e-6).all()
    # a bound for each eps: the truth of the normal pair of mu 0.6 lies below it
    assert (upper[eps <= 3] >= [float(truth.gaussian(mp.mpf("0.6"), one)) for one in eps[eps <= 3]]).all()


@pytest.mark.parametrize("moved", [-0.01, 0.01])
def test_a_lattice_known_to_rounding_holds_losses_that_lie_beside_it(moved):
    p, q, uses = 0.6, 0.35, 50
    total = (uses * FinitePair(p=("0.6", "0.4"), q=("0.35", "0.65"))).sides("remove")[0].upper
    line, eps = lattice.build(total, Saddle.for_eps(total, 2.0)), np.array([1.5, 2.0, 2.5])
    low, high = replace(line, lattice_error=0.01).bounds(eps)
    hits = np.arange(uses + 1)
    losses = hits * math.log(p / q) + (uses - hits) * math.log((1 - p) / (1 - q)) + moved
    truth = -np.expm1(np.minimum(np.subtract.outer(eps, losses), 0.0)) @ binom.pmf(hits, uses, p)
    end = low if moved < 0 else high
    assert np.all(low <= truth * (1 + 1e-9))
    assert np.all(truth * (1 - 1e-9) <= high)
    assert np.all(abs(end - truth) <= 1e-9 * truth)  # and not more than that
