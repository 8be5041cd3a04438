"""Near the largest loss, where an atom weighs more than any density beside it, the bounds stay bounds and close."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from neartwin.losses import (
    Approx,
    DiscreteGaussian,
    FinitePair,
    Gaussian,
    Laplace,
    Pure,
    Renyi,
    SubsampledGaussian,
    SubsampledLaplace,
    compose,
)
from neartwin.losses.families.finite import ThetaSum
from neartwin.losses.views.tradeoff import tradeoff
from tests.oracles import compositions as truth
from tests.oracles import sums
from tests.oracles import truth as oracle


def sampled_twice(e, q, order, eps):
    """Two subsampled Laplace mechanisms: the delta of one, averaged over the loss of the other, which is two atoms and a ramp."""
    e, q = mp.mpf(e), mp.mpf(q)
    sign = 1 if order == "remove" else -1
    high, low = (mp.log(1 - q + q * mp.exp(x)) for x in (sign * e, -sign * e))
    high, low = sign * high, sign * low

    def edge(at):
        """Where on the ramp the loss is `at`."""
        z = (mp.exp(sign * at) - 1 + q) / q
        return min(max((e + mp.log(z)) / 2, mp.mpf(0)), e) if z > 0 else mp.mpf(0)

    def one(at):
        if at >= high:
            return mp.mpf(0)
        if at <= low:
            return -mp.expm1(at)
        x = edge(at)
        plain, moved = mp.exp(-x) / 2, 1 - mp.exp(x - e) / 2
        if order == "add":
            plain, moved = 1 - plain, 1 - moved
        mixed = (1 - q) * plain + q * moved
        p, other = (mixed, plain) if order == "remove" else (plain, mixed)
        return p - mp.exp(at) * other

    def ramp(x):
        loss = sign * mp.log(1 - q + q * mp.exp(2 * x - e))
        return mp.exp(-x) / 2 * (mp.exp(loss) if order == "remove" else 1) * one(eps - loss)

    outer = mp.exp(-e) / 2 * mp.exp(high) if order == "remove" else mp.mpf(1) / 2
    inner = mp.exp(low) / 2 if order == "remove" else mp.exp(-e) / 2
    knots = sorted({mp.mpf(0), edge(eps - high), edge(eps - low), e})
    return outer * one(eps - high) + inner * one(eps - low) + mp.quad(ramp, knots)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["remove", "add"])
def test_two_sampled_laplace_mechanisms_by_quadrature(order):
    whole = 2 * SubsampledLaplace(epsilon="0.5", rate="0.25")
    with mp.workdps(16):
        for delta in (1e-9, 0.02):
            found = whole.epsilon(delta, direction=order)
            assert sampled_twice("0.5", "0.25", order, found.lower) >= delta * (1 - 1e-10)
            assert sampled_twice("0.5", "0.25", order, found.upper) <= delta * (1 + 1e-10)
            assert found.width < 1e-4 * found.upper


def test_finite_pairs_are_exact_between_their_two_largest_sums():
    whole = 3 * FinitePair(p=("1/2", "3/10", "1/5"), q=("1/5", "1/2", "3/10"))
    eps = 3 * math.log(2.5) - 0.3
    found = whole.delta(eps, direction="remove")
    exact = mp.mpf(1) / 8 * (1 - mp.exp(mp.mpf(eps) - 3 * mp.log(mp.mpf(5) / 2)))
    assert found.lower <= exact <= found.upper
    assert found.width < 1e-9
    assert whole.epsilon(1e-4).width < 1e-9


@pytest.mark.parametrize("count", [2, 5, 23])
@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-4])
def test_laplace_sums_near_their_largest_loss(count, delta):
    found = (count * Laplace(epsilon="0.4")).epsilon(delta)
    assert truth.laplace(mp.mpf(2) / 5, count, found.lower) >= delta * (1 - 1e-9)
    assert truth.laplace(mp.mpf(2) / 5, count, found.upper) <= delta * (1 + 1e-9)
    assert found.width <= 1e-8 * found.upper


def test_the_lower_end_rests_on_the_least_that_the_largest_loss_may_be():
    """Seventeen rounded logarithms: their sum may lie 5e-13 above the true one, and the gap to eps is 7e-9."""
    p, q = ("7/38", "11/38", "17/38", "3/38"), ("3/17", "11/34", "7/34", "5/17")
    whole, delta = 17 * FinitePair(p=p, q=q), Fraction("7.935097045923159e-15")
    law = [(mp.log(sums.exact(x / y)), sums.exact(x)) for x, y in zip(map(Fraction, p), map(Fraction, q), strict=True)]
    found = whole.epsilon(delta, direction="remove")
    assert sums.enumerated(law, 17, found.lower) >= float(delta) >= sums.enumerated(law, 17, found.upper)
    assert found.width < 1e-8
    largest = whole.sides("remove")[0].upper.top
    true = 17 * max(loss for loss, _ in law)
    assert largest.least <= true <= largest.loss
    # at the rounded largest loss itself the bound of the atom would be wrong
    assert sums.enumerated(law, 17, largest.loss + math.log1p(-float(delta) / largest.mass)) < float(delta)


@pytest.mark.slow
def test_losses_that_are_all_negative_unless_all_is_revealed_have_answers():
    """What is not revealed then speaks against P, and its moments fall below every float."""
    whole = 2 * FinitePair(p=("2/3", "1/3"), q=(0, 1)) + 1 * Approx(epsilon="6.65083", delta="0.0000379033")
    uses = [(("pair", (Fraction(2, 3), Fraction(1, 3)), (Fraction(0), Fraction(1))), 2)]
    uses.append((("approx", Fraction("6.65083"), Fraction("0.0000379033")), 1))
    for eps in (-1.0, 0.0, 4.14157e-09, 0.5, 4.0):
        found = whole.delta(eps, direction="remove")
        (exact,) = oracle.delta(uses, "remove", [Fraction(eps)])
        assert found.lower <= exact <= found.upper, eps
        assert found.width <= 1e-9


def test_sampled_noise_far_below_the_sensitivity_has_an_answer():
    once, whole, all_steps = (
        made.epsilon(Fraction(1, 10**104), direction="remove")
        for made in (
            1 * SubsampledGaussian(mu=30, rate="0.1"),
            2 * SubsampledGaussian(mu=30, rate="0.1"),
            2 * Gaussian(mu=30),
        )
    )
    assert once.lower <= whole.upper <= all_steps.upper
    assert whole.lower <= all_steps.upper


@pytest.mark.parametrize(("more", "top"), [([], 1.0), ([Pure(epsilon=2)], 3.0), ([Laplace(epsilon=2)], 3.0)])
def test_a_delta_that_is_all_revealed_is_told_from_one_just_below(more, top):
    leak = Fraction(22421, 625 * 10**8)
    whole = compose([Approx(epsilon=1, delta=leak), *more])
    assert whole.epsilon(leak).upper == pytest.approx(top, rel=1e-9)
    assert whole.epsilon(leak * (1 - Fraction(1, 10**20))).upper == math.inf
    assert whole.epsilon(leak * (1 + Fraction(1, 10**20))).upper == pytest.approx(top, rel=1e-9)
    thrice = 1 - (1 - leak) ** 3
    assert (3 * whole).epsilon(thrice).upper == pytest.approx(3 * top, rel=1e-9)
    assert (3 * whole).epsilon(thrice * (1 - Fraction(1, 10**20))).upper == math.inf


@pytest.mark.slow
def test_a_trade_off_is_bounded_where_every_test_is_best_at_the_edge():
    whole = 2 * FinitePair(p=("1/2", "1/2"), q=(1, 0))
    for alpha in (0.2, 0.3, 0.5, 0.9):
        truth = max(1 - 4 * alpha, 0.0)
        found = whole.tradeoff(alpha, direction="add")
        assert truth - 1e-6 < found.lower <= truth <= found.upper < truth + 1e-6


@pytest.mark.parametrize("mu", [1e-9, 1, 8, 15, 40, 1000])
def test_a_trade_off_of_near_and_far_gaussians_is_close(mu):
    for alpha in (1e-9, 1e-3, 0.25, 0.5, 0.999):
        truth = ndtr(-ndtri(alpha) - mu)
        found = (1 * Gaussian(mu=mu)).tradeoff(alpha)
        assert found.lower <= truth * (1 + 1e-9)
        assert truth * (1 - 1e-9) <= found.upper < found.lower + 5e-12
    assert (1 * Gaussian(mu=mu)).tradeoff(np.array([0.0, 1.0])).upper.tolist() == [1, 0]


@pytest.mark.slow
def test_a_trade_off_of_any_convex_profile_is_bounded():
    rng = np.random.default_rng(4)
    for _ in range(50):
        knots, heights = np.exp(rng.uniform(0, 5, 5)), rng.dirichlet(np.ones(5))

        def profile(eps, knots=knots, heights=heights):
            delta = np.maximum(1 - np.exp(eps)[:, None] / knots, 0.0) @ heights
            return delta * (1 - 1e-9), delta * (1 + 1e-9)

        alpha = rng.uniform(0, 1, 3)
        truth = np.max(1 - profile(np.log(knots))[0] - np.multiply.outer(alpha, knots), axis=1)  # best at a knot, or 0
        for span in ((-5.0, 5.0), (-0.01, 0.01), (6.0, 7.0), (-30.0, -29.0)):  # the bend may lie elsewhere
            lower, upper = tradeoff(profile, alpha, span)
            assert (lower <= np.maximum(truth, 0.0) + 1e-8).all()
            assert (upper >= truth - 1e-8).all()


def test_a_divergence_of_an_order_too_high_to_integrate_is_bounded():
    mu, rate = 20, Fraction(1, 10**10)
    found = (1 * SubsampledGaussian(mu=mu, rate=rate)).renyi(1000.0)
    truth = 1000 * mu**2 / 2 + 1000 / 999 * math.log(rate)  # but for what its own term of the binomial sum leaves out
    assert found.lower <= truth <= found.upper


def test_a_curve_whose_bound_underflows_promises_no_delta_of_nothing():
    curve = Renyi(curve=((2, "0.1"), (4097, "0.3")))  # no largest loss is known
    assert (1 * curve).delta(1.0).upper > 0


@pytest.mark.parametrize("delta", [4.045920003565674e-21, 1e-20, 3e-22])
def test_ends_next_to_the_largest_loss_fit_what_its_atom_alone_allows(delta):
    """A half of each copy's runs has the largest loss m, so that delta(eps) >= 2^-19 (1 - e^(eps - 19 m))."""
    found = (19 * SubsampledLaplace(epsilon="0.547", rate="0.06429")).epsilon(delta, direction="add")
    with mp.workdps(60):
        q = mp.mpf(6429) / 100_000
        most = -19 * mp.log(1 - q + q * mp.exp(-mp.mpf(547) / 1000))

        def atom(eps):
            return -mp.expm1(mp.mpf(eps) - most) / 2**19

        assert atom(found.lower) >= delta
        assert atom(found.upper) <= delta
        assert atom(found.lower + 200 * math.ulp(found.lower)) < delta  # near miss: a lower end too high
    assert found.width < 2e-14


@pytest.mark.parametrize(("variance", "delta"), [("1e20", "1e-300"), ("1e30", "1e-200")])
def test_wide_noise_is_answered_where_its_transform_underflows(variance, delta):
    """That was an error of the logarithm of 0. Such noise is normal but for rounding."""
    found = (1 * DiscreteGaussian(sigma2=variance)).epsilon(delta)
    normal = (1 * Gaussian(mu=1 / math.isqrt(int(float(variance))))).epsilon(delta)
    assert found.lower <= normal.upper
    assert normal.lower <= found.upper < 1e-6


@pytest.mark.parametrize(("variance", "shift"), [("1/4", 1), ("3", 1), ("40", 3), ("1000", 2)])
def test_the_tail_of_discrete_noise_bounds_its_transform(variance, shift):
    """The moduli of its characteristic function, summed outcome by outcome."""
    variance, uses = Fraction(variance), 3
    total, half = ThetaSum(variance, shift, uses), math.pi * float(variance) / shift
    x = np.arange(-400, 401)
    masses = np.exp(-((x - 0.3 * shift) ** 2) / (2 * float(variance)))  # at some tilt
    losses, near = x * shift / float(variance), []
    for share in (0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 0.999):
        at = half * share
        bound = total.log_tail(0.3, at, half)
        beyond = np.linspace(at, half, 200)
        moduli = np.abs(np.exp(1j * np.outer(beyond, losses)) @ masses) / masses.sum()
        if moduli.max() > 1e-12:  # else the sum is rounding alone
            most = uses * math.log(moduli.max())
            assert most <= bound + 1e-9
            near.append(most > 1.2 * bound)
    assert any(near) or variance < 1  # the near miss: a tail that falls faster; few outcomes leave it loose
