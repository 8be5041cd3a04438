"""A seldom sampled Gaussian by rungs: slices add up and are what they say, off the line too; the truth is in every answer."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import Gaussian, SubsampledGaussian, SubsampledLaplace, compose
from neartwin.losses.families import rare_participation
from neartwin.losses.families.gaussian import SubsampledGaussianSum
from neartwin.losses.families.rare_participation import Reached
from neartwin.losses.families.rare_slices import Edges, Panels, SlicedSum
from neartwin.losses.inversion import contour
from neartwin.losses.inversion.contour_search import BRIEF, by_line, by_short_line
from neartwin.losses.inversion.total import Saddle, SumOfLosses
from neartwin.losses.summands.rounding import NoCertificateError

pytestmark = pytest.mark.sweep

MU, RATE, STEEP, TOP = Fraction(1), Fraction(1, 10**8), 3.0, 12.0
SLICES = [(Edges(-math.inf, 3.0), 3e7), (Edges(3.0, 4.0), 1e7), (Edges(9.0, 10.0), 1e8 / 8000)]
BOTH = [  # directions and slices; replacing takes the far slices twice as long
    pytest.param(order, *one, marks=[pytest.mark.slow] if order == "replace" and one is not SLICES[0] else [])
    for order in ("remove", "replace")
    for one in SLICES
]


def sliced(order, edges, count=1):
    law = SubsampledGaussianSum(MU, RATE, 1, order)
    return SlicedSum(law, count, Panels(law, STEEP, TOP), edges)


def density(order, edges, u, s):
    """The law's density tilted by s times the share, any complex u and s."""
    q, z, back = mp.mpf(1) / 10**8, mp.exp(u - mp.mpf(1) / 2), mp.exp(-u - mp.mpf(1) / 2)
    plus, minus = mp.log(1 - q + q * z), mp.log(1 - q + q * back) if order == "replace" else 0
    heights = [0 if edge == -math.inf else mp.exp(STEEP * (u - edge) - mp.exp(-STEEP * (u - edge))) for edge in edges]
    share = mp.exp(-heights[1]) * (1 if edges.below == -math.inf else -mp.expm1(heights[1] - heights[0]))
    return mp.exp(-u * u / 2 + (1 + s) * plus - s * minus) / mp.sqrt(2 * mp.pi) * share


def mgf(order, edges, s, y=0, parts=128):
    """By a rule so fine that it errs below 1e-20; with y, the integral of the modulus at u + iy."""
    top, values = int((edges.above + 3) * parts), []
    for j in range(-12 * parts, top):
        value = density(order, edges, mp.mpc(mp.mpf(j) / parts, y) if y else mp.mpf(j) / parts, s)
        values.append(abs(value) if y else value)
    return mp.fsum(values) / parts


@pytest.mark.slow
@pytest.mark.parametrize(("order", "edges", "lam"), BOTH)
def test_a_slice_has_the_transform_of_its_share_and_its_tail_is_above_it(order, edges, lam):
    with mp.workdps(30):
        part, exact = sliced(order, edges), mgf(order, edges, mp.mpf(lam))
        value, error = part.log_mgf(lam)
        assert abs(value - mp.log(exact)) <= error < 1e-12
        assert abs(value - mp.log(exact * (1 + mp.mpf(10) ** -11))) > error  # so small a fault would show
        t = np.array([0.0, 0.5 * lam, 4 * lam])
        line, bound = part.log_mgf_ratio(lam, t)
        for x, log, slack in zip(t[1:].tolist(), line[1:], bound[1:], strict=True):
            ratio = mgf(order, edges, mp.mpc(lam, x)) / exact
            assert abs(ratio / mp.exp(mp.mpc(complex(log))) - 1) <= mp.expm1(float(slack)) < 1e-10
            assert part.log_tail(lam, x, math.inf) >= mp.log(abs(ratio))
        assert part.log_tail(lam, 40 * lam, math.inf) < -0.5


@pytest.mark.slow
@pytest.mark.parametrize(("order", "edges", "lam"), BOTH)
def test_off_the_line_the_modulus_is_bounded_as_stated_and_not_by_far_less(order, edges, lam):
    part = sliced(order, edges)
    with mp.workdps(20):
        exact = mgf(order, edges, mp.mpf(lam), parts=32)
        for t in (-2 * lam, 2 * lam):  # turned to either side
            bounds = part.turned(lam, t)
            for j in (3, 4):
                y = mp.mpf(float(part.panels.angles[j])) / part.panels.mu
                truth = float(mp.log(mgf(order, edges, mp.mpc(lam, abs(t)), -y if t < 0 else y, parts=32) / exact))
                assert truth <= bounds[j] <= truth + 2.5


@pytest.mark.slow
def test_the_modulus_far_out_is_bounded_although_it_is_no_float():
    """The turns of a far line lift it by more than e^710; a bound cut off at e^700 gave steps that were too wide."""
    part, lam, t, beyond = sliced("remove", Edges(-math.inf, 11.0)), 10.0, 2e7, 0
    with mp.workdps(30):
        exact = mgf("remove", part.slice, mp.mpf(lam), parts=32)
        for angle, bound in list(zip(part.panels.angles.tolist(), part.turned(lam, -t), strict=True))[3:5]:
            truth = float(mp.log(mgf("remove", part.slice, mp.mpc(lam, t), -angle, parts=32) / exact))
            assert truth <= bound <= truth + 2.5 + 0.2 * abs(truth)
            beyond += truth > 710
    assert beyond


# delta at this eps by an independent sum: the copies below a loss of 1/50 by a lattice, those above by quadrature
FAR_APART, TRUTH = Fraction(250, 137), (0.0646219832, 1.0000000015e-7, 1e-15)


@pytest.mark.parametrize("ratio", [3.0, 6.0, 10.0, 20.0, 40.0])
def test_every_spacing_of_the_rungs_holds_the_same_truth(ratio, monkeypatch):
    """Steps that were too wide moved eps by 2e-8 relative from one spacing to another."""
    monkeypatch.setattr(rare_participation, "RATIO", ratio)
    whole, (eps, delta, close) = 183 * SubsampledGaussian(mu=FAR_APART, rate=Fraction(763, 50_000_000)), TRUTH
    found = whole.epsilon(1e-7, direction="remove")
    assert found.lower <= 0.06462198317491 <= found.upper < found.lower * (1 + 1e-8)
    assert not found.lower <= 0.06462198424 <= found.upper
    value = whole.delta(eps, direction="remove")
    assert value.lower - close <= delta <= value.upper + close


def test_shares_of_all_slices_add_up_to_the_last():
    u = np.linspace(-12, 14, 2601)
    places = [2.0, 3.0, 3.7, 6.0]
    every = [Edges(-math.inf, places[0]), *(Edges(a, b) for a, b in pairwise(places))]
    shares = [np.exp(sliced("remove", edges).log_share(u)[0]) for edges in every]
    whole = np.exp(sliced("remove", Edges(-math.inf, places[-1])).log_share(u)[0])
    assert np.allclose(sum(shares), whole, rtol=1e-12, atol=1e-300)
    assert not np.allclose(sum(shares) - shares[2], whole, rtol=1e-3, atol=1e-300)


@pytest.mark.slow
def test_what_reached_a_rung_is_the_difference_of_two_powers():
    edges, n, lam = (Edges(-math.inf, 3.0), Edges(3.0, 4.0)), 7, 1e7
    found = Reached([(n, sliced("remove", edges[0], n), sliced("remove", edges[1]))])
    with mp.workdps(30):

        def truth(s, copies=n):
            below, slice_ = (mgf("remove", one, s) for one in edges)
            return (below + slice_) ** copies - below**copies

        exact = truth(mp.mpf(lam))
        value, error = found.log_mgf(lam)
        assert abs(value - mp.log(exact)) <= error < 1e-11
        assert abs(value - mp.log(truth(mp.mpf(lam), n - 1))) > 1e-2
        line, bound = found.log_mgf_ratio(lam, np.array([0.0, lam, 8 * lam]))
        for x, log, slack in zip((lam, 8 * lam), line[1:], bound[1:], strict=True):
            ratio = truth(mp.mpc(lam, x)) / exact
            assert abs(ratio / mp.exp(mp.mpc(complex(log))) - 1) <= mp.expm1(float(slack)) < 1e-9
            assert found.log_tail(lam, x, math.inf) >= mp.log(abs(ratio))
        step = mp.mpf(lam) / 10**4
        above, middle, low = (mp.log(truth(lam + k * step)) for k in (1, 0, -1))
        _, mean, variance = found.cumulants(lam)
        assert mean == pytest.approx(float((above - low) / (2 * step)), rel=1e-6)
        assert variance == pytest.approx(float((above - 2 * middle + low) / step**2), rel=1e-4)


@pytest.mark.parametrize(("steep", "place"), [(3.0, 9.0), (1.2, 8.0), (9.0, 10.0)])
def test_what_is_above_the_last_rung_weighs_no_more_than_stated(steep, place):
    def lacking(u):
        x = steep * (u - place)
        return mp.npdf(u) * -mp.expm1(-mp.exp(x - mp.exp(-x)))

    exact = mp.log(mp.quad(lacking, [-2, 2, place - 4, place - 2, place - 1, place, place + 1, place + 3, place + 6]))
    assert exact <= rare_participation.log_beyond(steep, place) < exact + 3


def alone(mu, q, order, eps):
    """Delta of one copy, in closed form; any sign of eps."""
    if order == "remove":
        over = mp.expm1(eps) + q
        if over <= 0:
            return -mp.expm1(eps)
        u = (mp.log(over / q) + mu * mu / 2) / mu
        return (1 - q) * mp.ncdf(-u) + q * mp.ncdf(mu - u) - mp.exp(eps) * mp.ncdf(-u)
    a, half = q * mp.exp(-mu * mu / 2), (1 - q) * mp.expm1(eps) / 2
    root = mp.sqrt(half * half + a * a * mp.exp(eps))
    u = mp.log((half + root) / a if half > 0 else a * mp.exp(eps) / (root - half)) / mu
    p, other = ((1 - q) * mp.ncdf(-u) + q * mp.ncdf(sign * mu - u) for sign in (1, -1))
    return p - mp.exp(eps) * other


def both(mu, q, order, eps):
    """Of two copies: the second one's closed form, integrated over the first."""
    mu, q = mp.mpf(mu), mp.mpf(q)

    def loss(u):
        minus = mp.log1p(q * mp.expm1(-mu * u - mu * mu / 2)) if order == "replace" else 0
        return mp.log1p(q * mp.expm1(mu * u - mu * mu / 2)) - minus

    def value(u):
        return mp.npdf(u) * (1 + q * mp.expm1(mu * u - mu * mu / 2)) * alone(mu, q, order, eps - loss(u))

    kink = (mp.log((mp.expm1(eps) + q) / q) + mu * mu / 2) / mu  # about where the second may be anything
    near = [kink + sign * mp.mpf(2) ** -k for k in range(-1, 14, 2) for sign in (1, -1)]
    places = sorted({*map(mp.mpf, (-11, -8, -6, -4, -2, 0)), *near, kink, kink + 4, kink + 8})
    return mp.quad(value, places)


PAIRS = [
    ("1", "1e-8", 1e-9, "remove"),
    pytest.param("2", "1e-8", 1e-10, "remove", marks=pytest.mark.slow),
    pytest.param("0.5", "1e-7", 2e-9, "remove", marks=pytest.mark.slow),
    pytest.param("2.9", "1e-9", 1e-12, "remove", marks=pytest.mark.slow),
    ("0.3", "1e-10", 1e-12, "remove"),
    ("0.252", "0.00083", 4.77e-15, "remove"),  # delta falls so steeply that the best tilt is 100 over the loss
    pytest.param("1.4", "1e-6", 3e-10, "remove", marks=pytest.mark.slow),
    ("1.1", "0.0001367", 6.8e-13, "remove"),  # the lower rungs cannot reach epsilon at any tilt
    pytest.param("1", "1e-9", 1e-10, "replace", marks=pytest.mark.slow),
    pytest.param("2", "1e-8", 1e-10, "replace", marks=pytest.mark.slow),
    pytest.param("0.5", "1e-7", 1e-9, "replace", marks=pytest.mark.slow),
    pytest.param("2.7", "1e-6", 1e-9, "replace", marks=pytest.mark.slow),
    ("0.3", "1e-10", 1e-12, "replace"),
    pytest.param("1.4", "3e-9", 1e-12, "replace", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "rate", "delta", "order"), PAIRS)
def test_two_copies_hold_the_truth_narrowly(mu, rate, delta, order):
    found = (2 * SubsampledGaussian(mu=mu, rate=rate)).epsilon(delta, direction=order)
    assert found.method == "contour"
    assert found.width <= 1e-8 * found.upper
    with mp.workdps(30):
        low, high = (both(mu, rate, order, mp.mpf(end)) for end in (found.lower, found.upper))
        assert high <= mp.mpf(delta) <= low
        assert low - high < 1e-7 * delta  # so small a fault would show


@pytest.mark.parametrize(
    ("mu", "rate", "delta", "order"),
    [
        ("1.009", "3.846e-9", 1.295e-12, "replace"),
        ("2.043", "1.248e-9", 2.604e-11, "remove"),
        ("0.5", "1e-8", 1e-9, "remove"),
        ("20", "1e-9", 9.9999998e-10, "remove"),
    ],
)
def test_one_copy_of_which_floats_lose_the_digits_is_narrow_too(mu, rate, delta, order):
    found = (1 * SubsampledGaussian(mu=mu, rate=rate)).epsilon(delta, direction=order)
    assert found.width <= 1e-8 * found.upper
    with mp.workdps(30):
        low, high = (alone(mp.mpf(mu), mp.mpf(rate), order, mp.mpf(end)) for end in (found.lower, found.upper))
        assert high <= mp.mpf(delta) <= low
        assert low - high < 1e-7 * delta


def by_grid(losses, masses, count, eps, lam):
    """Delta of many copies of a law on fine nodes, by one plain trapezoidal rule in extended precision, (nodes,) each."""
    total, step = np.longdouble(0), 2 * np.pi * lam / 60
    tilted = (masses * np.exp(lam * losses)).astype(np.clongdouble)
    turn = np.exp(1j * (step * losses).astype(np.clongdouble))
    for k in range(20_000):
        s = np.clongdouble(lam + 1j * k * step)
        value = tilted.sum() ** count * np.exp(-s * np.longdouble(eps)) / (s * (s + 1)) * (1 if k else 0.5)
        total += value.real
        if k > 20 and abs(value) < 1e-19 * abs(total):
            return total * step / np.pi
        tilted = tilted * turn
    raise ArithmeticError("the terms do not decay")


def many(one, order, count, eps, tilt):
    """Remove by the other order at -eps, delta(eps) = 1 - e^eps + e^eps delta_add(-eps), of which no loss is great; or replace.

    tilt: in units of 1/q.
    """
    (mu, q), h = map(np.longdouble, one), np.longdouble(1) / 256
    u = h * np.arange(-11 * 256, 11 * 256)
    noise = np.exp(-u * u / 2)
    noise = noise / noise.sum()
    plus, minus = (np.log1p(q * np.expm1(sign * mu * u - mu * mu / 2)) for sign in (1, -1))
    lam = np.longdouble(tilt) / q
    if order == "replace":
        return by_grid(plus - minus, noise * np.exp(plus), count, eps, lam)
    other = by_grid(-plus, noise, count, -np.longdouble(eps), lam)
    return -np.expm1(np.longdouble(eps)) + np.exp(np.longdouble(eps)) * other


MANY = [
    (("1", "1e-8"), 10, 1e-8, "remove", 0.3),
    (("1", "1e-8"), 1000, 1e-7, "remove", 0.05),
    (("0.5", "1e-7"), 100, 1e-7, "remove", 0.3),
    (("0.3", "1e-9"), 10_000, 1e-9, "replace", 0.05),
    (("0.5", "1e-7"), 100, 1e-8, "replace", 0.05),
    (("0.02", "1e-5"), 120, 1e-9, "remove", 0.3),  # shares of gentle edges
    (("0.005", "1e-6"), 1000, 1e-9, "remove", 0.3),
    (("0.02", "1e-5"), 120, 1e-9, "replace", 0.3),
    # a rung has great tilts that leave the range of floats
    (("1.25", "1.59e-5"), 427, 1e-5, "remove", 0.005),
]


@pytest.mark.parametrize(("one", "count", "delta", "order", "tilt"), MANY)
def test_many_copies_hold_the_truth(one, count, delta, order, tilt):
    found = (count * SubsampledGaussian(mu=one[0], rate=one[1])).epsilon(delta, direction=order)
    assert found.method == "contour"
    assert found.width <= 1e-8 * found.upper
    low, high = (
        many(one, order, count, end * x, tilt) for end, x in ((found.lower, 1 - 1e-9), (found.upper, 1 + 1e-9))
    )
    assert high <= delta <= low
    assert low - high < 1e-6 * delta


def test_ladder_delta_is_met_at_its_epsilon_and_0_beyond_the_loss():
    whole = compose({SubsampledGaussian(mu=1, rate="1e-8"): 1000})
    eps = whole.epsilon(1e-7, direction="remove")
    at = whole.delta(np.array([eps.lower, eps.upper]), direction="remove")
    assert at.upper[0] >= 1e-7 >= at.lower[1]
    assert np.all(at.upper - at.lower <= 1e-7 * at.upper)
    nothing = compose({SubsampledGaussian(mu=1, rate="1e-8"): 10**6}).epsilon(1e-5, direction="remove")
    assert (nothing.lower, nothing.upper) == (0.0, 0.0)


def test_a_slight_gaussian_beside_it_is_looked_at_too_and_matters():
    rare, noise = SubsampledGaussian(mu=1, rate="1e-8"), Gaussian(mu="1e-7")
    alone, mixed = (compose(uses).epsilon(1e-7, direction="remove") for uses in ({rare: 1000}, {rare: 1000, noise: 1}))
    assert mixed.width <= 1e-8 * mixed.upper
    assert mixed.lower > 1.01 * alone.upper


@pytest.mark.slow
def test_law_in_two_parts_has_the_answer_of_the_law_and_other_parts_do_not():
    """100 and 83 copies at rates that differ by 1e-10 lie between 183 copies at either."""
    q, nearly = Fraction(763, 50_000_000), 1 + Fraction(1, 10**10)
    one, other = (SubsampledGaussian(mu=FAR_APART, rate=rate) for rate in (q, q * nearly))
    low, high, found = (
        (whole).epsilon(1e-7, direction="remove") for whole in (183 * one, 183 * other, 100 * one + 83 * other)
    )
    assert low.lower <= found.upper
    assert found.lower <= high.upper
    assert found.upper - found.lower < 1e-8 * found.upper
    assert not (101 * one + 83 * other).epsilon(1e-7, direction="remove").lower <= found.upper


def test_two_powers_together_reach_a_rung_as_their_product_says():
    edges, counts, lam = (Edges(-math.inf, 3.0), Edges(3.0, 4.0)), (7, 3), 1e7
    found = Reached([(n, sliced("remove", edges[0], n), sliced("remove", edges[1])) for n in counts])
    whole = Reached([(10, sliced("remove", edges[0], 10), sliced("remove", edges[1]))])
    t = np.array([0.0, lam, 8 * lam])
    (value, error), (same, slack) = found.log_mgf(lam), whole.log_mgf(lam)
    assert abs(value - same) <= error + slack < 1e-10
    (line, bound), (other, more) = found.log_mgf_ratio(lam, t), whole.log_mgf_ratio(lam, t)
    assert (np.abs(np.expm1(line - other)) <= np.expm1(bound) + np.expm1(more) + 1e-15).all()
    assert found.cumulants(lam) == pytest.approx(whole.cumulants(lam), rel=1e-9)
    assert found.log_tail(lam, lam, math.inf) == pytest.approx(whole.log_tail(lam, lam, math.inf), rel=1e-6, abs=1e-9)


def test_a_sum_without_a_sampled_gaussian_has_no_rungs():
    laplace = compose({SubsampledLaplace(epsilon=1, rate="1e-8"): 9}).sides("remove")[0].upper
    with pytest.raises(NoCertificateError):
        rare_participation.by_ladder(laplace, 1e-9, 1e-9)
    rare = compose({SubsampledGaussian(mu=1, rate="1e-8"): 10})
    assert rare_participation.by_ladder(rare.sides("remove")[0].upper, 1e-9, 1e-9).upper < 2e-7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uses", "delta"),
    [
        ({SubsampledGaussian(mu=1, rate="0.05"): 20}, 1e-6),
        ({SubsampledGaussian(mu="0.5", rate="0.2"): 60, Gaussian(mu="0.3"): 4}, 1e-5),
        ({SubsampledGaussian(mu="1.5", rate="0.01"): 9, SubsampledGaussian(mu="0.7", rate="0.03"): 30}, 1e-7),
        ({SubsampledGaussian(mu=6, rate="0.02"): 3}, 1e-6),
    ],
)
def test_laws_sampled_often_have_rungs_that_agree_with_one_contour(uses, delta):
    total = compose(uses).sides("remove")[0].upper
    rungs, plain = rare_participation.by_ladder(total, delta, delta), by_line(total, delta, delta)
    assert rungs.upper - rungs.lower < 1e-8 * rungs.upper
    assert plain.upper - plain.lower < 1e-6 * plain.upper
    assert max(rungs.lower, plain.lower) <= min(rungs.upper, plain.upper)


@pytest.mark.filterwarnings("error")
def test_a_term_without_a_saddle_leaves_the_others_estimate():
    mixed = (
        348 * SubsampledGaussian(mu="0.262", rate="0.005332")
        + 62 * SubsampledGaussian(mu="1.793", rate="0.000227500")
        + 27760 * SubsampledGaussian(mu="1.683", rate="0.0007374")
    )
    answer = mixed.epsilon(5.2486e-9, direction="remove")
    (side,) = mixed.sides("remove")
    lower, upper, _ = side.delta(np.array([answer.lower, 0.5 * (answer.lower + answer.upper), answer.upper]))
    assert lower[2] <= 5.2486e-9 <= upper[0]


@pytest.mark.slow
def test_a_schedule_of_many_noises_is_one_line_within_its_equals():
    noises = [Fraction(k, 10**6) for k in range(700_000, 700_080)]
    total = compose([20 * SubsampledGaussian(mu=mu, rate="0.0005") for mu in noises]).sides("remove")[0].upper
    found = by_short_line(total, 1e-5, 1e-5)
    least, most = (
        (1600 * SubsampledGaussian(mu=mu, rate="0.0005")).epsilon("1e-5", direction="remove")
        for mu in (noises[0], noises[-1])
    )
    assert least.lower < found.lower < found.upper < most.upper < least.lower * (1 + 1e-3)
    assert found.upper - found.lower < 1e-7 * found.upper
    alone = SumOfLosses([law for part in total.summands for law in part.laws])
    with pytest.raises(NoCertificateError):  # what one noise may spend is not enough for all, law by law
        contour.build(alone, Saddle.for_delta(alone, 1e-5), 0.0, share=BRIEF)
