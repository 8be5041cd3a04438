"""The truth lies inside, by oracles that share nothing with the engine; and the interval is narrow where it must be."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from neartwin.errors import ParameterError
from neartwin.losses import (
    Approx,
    BoundedRange,
    DiscreteGaussian,
    FinitePair,
    Gaussian,
    Geometric,
    Laplace,
    Leak,
    Pure,
    RandomizedResponse,
    Renyi,
    SubsampledFinite,
    SubsampledGaussian,
    SubsampledLaplace,
    ZeroConcentrated,
    compose,
)
from tests.oracles import compositions as truth

pytestmark = pytest.mark.sweep


def brackets(whole, delta, oracle, *, direction=None, width=1e-8, trust="1e-18"):
    """eps.lower is not safe (or 0), eps.upper is, by the oracle's delta; both are close. trust: the oracle's error."""
    found = whole.epsilon(delta, direction=direction)
    assert found.lower == 0 or oracle(found.lower) >= mp.mpf(delta) * (1 - mp.mpf(trust))
    assert oracle(found.upper) <= mp.mpf(delta) * (1 + mp.mpf(trust))
    assert found.width <= width * found.upper
    assert oracle(found.upper * (1 - 3 * width) - 1e-12) > mp.mpf(delta)  # a little less noise is caught
    return found


@pytest.mark.parametrize("delta", ["1e-3", "1e-10", "1e-30"])
@pytest.mark.parametrize(("mu", "count"), [("0.05", 1000), ("1", 1), ("3", 2)])
def test_gaussian(mu, count, delta):
    exact = mp.sqrt(count) * mp.mpf(mu)
    brackets(count * Gaussian(mu=mu), delta, lambda eps: truth.gaussian(exact, eps), width=1e-11)


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-15", "1e-30"])
@pytest.mark.parametrize(("e", "count"), [("0.1", 100), ("0.1", 20), ("1", 30)])
def test_laplace_repeated_is_within_one_in_a_million(e, count, delta):
    brackets(count * Laplace(epsilon=e), delta, lambda eps: truth.laplace(e, count, eps), width=1e-6)


@pytest.mark.parametrize("delta", ["1e-3", "1e-30"])
def test_optimal_composition_of_approximate_guarantees(delta):
    e, count, leak = mp.mpf("0.1"), 200, mp.mpf("1e-33")
    p = mp.e**e / (1 + mp.e**e)
    oracle = lambda eps: truth.two_atoms(e, -e, p, count, eps, leak)  # noqa: E731 - a one-line oracle
    brackets(count * Approx(epsilon="0.1", delta="1e-33"), delta, oracle, width=1e-10)


def test_k_answers_and_finite_pairs():
    e, k = mp.mpf("0.5"), 5
    z = mp.e**e + k - 1
    law = [(e, mp.e**e / z), (-e, 1 / z), (mp.mpf(0), (k - 2) / z)]
    brackets(12 * RandomizedResponse(epsilon="0.5", answers=5), "1e-4", lambda eps: truth.atoms(law, 12, eps))
    p, q = (Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)), (Fraction(1, 5), Fraction(1, 2), Fraction(3, 10))
    for direction, (one, other) in {"remove": (p, q), "add": (q, p)}.items():
        law = [
            (
                mp.log(mp.mpf(x.numerator) / x.denominator * y.denominator / y.numerator),
                mp.mpf(x.numerator) / x.denominator,
            )
            for x, y in zip(one, other, strict=True)
        ]
        oracle = lambda eps, law=law: truth.atoms(law, 9, eps)  # noqa: E731 - a one-line oracle
        brackets(9 * FinitePair(p=p, q=q), "1e-3", oracle, direction=direction, width=1e-3)


def test_geometric_and_discrete_gaussian():
    a, d = mp.mpf("0.3") / 3, 3
    r = mp.e**-a
    masses = [1 / (1 + r), (1 - r) / (1 + r) * r, (1 - r) / (1 + r) * r**2, r**3 / (1 + r)]
    law = [(a * (d - 2 * x), masses[x]) for x in range(4)]
    brackets(10 * Geometric(epsilon="0.3", sensitivity=3), "1e-4", lambda eps: truth.atoms(law, 10, eps))
    for variance in ("0.2", "0.25", "0.7", "4", "100"):
        s = mp.mpf(variance)
        reach = int(30 * mp.sqrt(s)) + 6
        total = mp.fsum(mp.e ** (-mp.mpf(x * x) / (2 * s)) for x in range(-reach, reach + 1))
        law = [((1 - 2 * x) / (2 * s), mp.e ** (-mp.mpf(x * x) / (2 * s)) / total) for x in range(-reach, reach + 1)]
        brackets(
            1 * DiscreteGaussian(sigma2=variance), "1e-7", lambda eps, law=law: truth.atoms(law, 1, eps), width=1e-9
        )


MIXES = {
    "W5": (
        50 * Laplace(epsilon="0.05") + 50 * Gaussian(mu="0.1") + 20 * RandomizedResponse(epsilon="0.3"),
        [
            (truth.log_mgf_laplace("0.05"), 50),
            (truth.log_mgf_gaussian("0.1"), 50),
            (
                truth.log_mgf_atoms(
                    [
                        (mp.mpf("0.3"), 1 / (1 + mp.e ** mp.mpf("-0.3"))),
                        (-mp.mpf("0.3"), 1 / (1 + mp.e ** mp.mpf("0.3"))),
                    ]
                ),
                20,
            ),
        ],
    ),
    "many": (
        3 * Gaussian(mu="0.4") + 7 * Laplace(epsilon="0.3") + 1 * Laplace(epsilon=2),
        [(truth.log_mgf_gaussian("0.4"), 3), (truth.log_mgf_laplace("0.3"), 7), (truth.log_mgf_laplace(2), 1)],
    ),
}


@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-20"])
@pytest.mark.parametrize("name", MIXES)
def test_mixtures_by_contour(name, delta):
    whole, parts = MIXES[name]
    assert brackets(whole, delta, lambda eps: truth.contour(parts, eps)).method == "contour"


@pytest.mark.parametrize("order", ["remove", "add", "replace"])
@pytest.mark.parametrize(
    ("mu", "q", "count", "delta"),
    [("1", "0.01", 10_000, "1e-5"), ("0.5", "0.2", 40, "1e-12"), ("0.2", "0.001", 1_000_000, "1e-5")],
)
def test_subsampled_gaussian(order, mu, q, count, delta):
    whole = count * SubsampledGaussian(mu=mu, rate=q)
    oracle = lambda eps: truth.sampled_gaussian(float(mu), float(q), order, count, eps)  # noqa: E731 - a one-line oracle
    brackets(whole, delta, oracle, direction=order, trust="1e-9")


@pytest.mark.slow
@pytest.mark.parametrize("order", ["remove", "add", "replace"])
def test_subsampled_laplace_equals_many_atoms(order):
    e, q, n = 0.8, 0.3, 2000
    x = np.concatenate([[-1e9], -e + 2 * e * (np.arange(n) + 0.5) / n, [1e9]])
    density = np.concatenate([[0.5 * math.exp(-e)], np.exp(-np.abs(x[1:-1])) * (e / n), [0.5 * math.exp(-e)]])
    r = 1 - q + q * np.exp(np.abs(x) - np.abs(x - e))
    other = 1 - q + q * np.exp(np.abs(x) - np.abs(x + e))
    p, loss = {"remove": (r, np.log(r)), "add": (1.0, -np.log(r)), "replace": (r, np.log(r) - np.log(other))}[order]
    masses = density * p
    for eps in (0.0, 0.05, 0.2):
        expected = float(np.sum(masses * np.maximum(0, -np.expm1(eps - loss))))
        assert (
            abs((1 * SubsampledLaplace(epsilon="0.8", rate="0.3")).delta(eps, direction=order).upper - expected) < 1e-6
        )
        one = np.add.outer(loss, loss).ravel()
        twice = float(np.sum(np.multiply.outer(masses, masses).ravel() * np.maximum(0, -np.expm1(eps - one))))
        found = (2 * SubsampledLaplace(epsilon="0.8", rate="0.3")).delta(eps, direction=order)
        assert found.lower - 1e-6 <= twice <= found.upper + 1e-6
        assert found.width < 1e-2 * found.upper


@pytest.mark.parametrize(("variance", "d"), [("0.25", 1), ("0.7", 3), ("4", 1), ("9", 2)])
def test_the_discrete_gaussian_line_holds_beyond_its_period(variance, d):
    s = mp.mpf(variance)
    summand = DiscreteGaussian(sigma2=variance, sensitivity=d).dominating_pair("remove").repeated(3)
    period = 2 * math.pi * float(s) / d
    lam, t = 0.4, np.array([0.0, 0.1, 0.45, 0.55, 0.9, 1.0, 1.3, 2.5, 7.2]) * period
    value, bound = summand.log_mgf_ratio(lam, t)
    x = range(-60, 61)
    weights = [mp.e ** (-mp.mpf(k * k) / (2 * s)) for k in x]
    loss = [(d * d - 2 * k * d) / (2 * s) for k in x]
    mgf = lambda z: mp.fsum(w * mp.e ** (z * l) for w, l in zip(weights, loss, strict=True))  # noqa: E731 - a one-line oracle
    for j in range(len(t)):
        ratio = (mgf(mp.mpc(lam, t[j])) / mgf(mp.mpf(lam))) ** 3 / mp.exp(mp.mpc(value[j]))
        assert abs(ratio - 1) <= mp.expm1(mp.mpf(bound[j]))
        assert math.exp(value[j].real) * math.expm1(min(bound[j], 700)) < 1e-8


@pytest.mark.slow
def test_renyi_divergences_by_quadrature():
    s, q = mp.mpf("2.5"), mp.mpf("0.01")
    whole = 50 * SubsampledGaussian(mu="0.4", rate="0.01")
    for order in (1.5, 2.5, 50.0):
        for direction, power in (("remove", order), ("add", 1 - order)):
            integral = mp.quad(
                lambda x, a=power: mp.npdf(x, 0, s) * (1 - q + q * mp.e ** ((2 * x - 1) / (2 * s * s))) ** a,
                mp.linspace(-60, 120, 31),
            )
            assert 50 * mp.log(integral) / (mp.mpf(order) - 1) in whole.renyi(order, direction=direction)


def test_bounded_range_costs_no_less_than_the_worst_two_point_pair():
    e = 1.0
    for count in (1, 3):
        whole = count * BoundedRange(epsilon=1)
        for eps in (0.0, 0.3, 0.8):
            found, worst = whole.delta(eps), 0.0
            for t in [*np.linspace(1e-6, 1 - 1e-6, 100), 0.5]:
                q = (1 - math.exp(t - e)) / (math.exp(t) - math.exp(t - e))
                p = q * math.exp(t)
                law = [(mp.mpf(t), mp.mpf(p)), (mp.mpf(t - e), mp.mpf(1 - p))]
                worst = max(worst, float(truth.atoms(law, count, eps)))
            assert worst * (1 - 1e-3) <= found.lower  # uses that choose by earlier answers may cost more
            assert worst <= found.upper
            if count == 1:
                assert found.upper - worst < 1e-3


def test_renyi_factors_bound_from_above_only():
    found = (10 * ZeroConcentrated(rho="0.05")).epsilon("1e-6")
    gaussian = (10 * Gaussian(mu=Fraction(316227766, 10**9))).epsilon("1e-6")  # mu^2/2 just below 0.05
    assert found.lower == 0
    assert gaussian.upper < found.upper < 1.2 * gaussian.upper
    mixed = (10 * ZeroConcentrated(rho="0.05") + 3 * Gaussian(mu=1)).epsilon("1e-6")
    assert (3 * Gaussian(mu=1)).epsilon("1e-6").lower <= mixed.lower <= mixed.upper
    curve = (1 * Renyi(curve=((2, "0.1"), (4, "0.2"), (64, "3.2")))).epsilon("1e-6").upper
    assert curve >= (1 * ZeroConcentrated(rho="0.05")).epsilon("1e-6").upper


def test_equal_mechanisms_by_different_names_agree():
    coin = FinitePair(p=("3/4", "1/4"), q=("1/4", "3/4"))
    line = FinitePair(p=("1/8", "5/8", "1/4"), q=("1/24", "5/24", "3/4"))  # the truth in two outcomes
    for count in (1, 7, 300):
        for delta in ("0.01", "1e-12"):
            one, other = (count * coin).epsilon(delta), (count * line).epsilon(delta)
            assert max(one.lower, other.lower) <= min(one.upper, other.upper)
    assert (9 * Pure(epsilon="0.1")).epsilon("1e-6") == (9 * RandomizedResponse(epsilon="0.1")).epsilon("1e-6")
    assert (9 * SubsampledGaussian(mu="0.3", rate=1)).delta(1.0) == (9 * Gaussian(mu="0.3")).delta(1.0)


@pytest.mark.slow
def test_sampling_a_finite_pair_follows_both_orders():
    base = FinitePair(p=("0.5", "0.3", "0.2"), q=("0.2", "0.5", "0.3"))
    sampled = SubsampledFinite(base=base, rate="0.1")
    mixed = ("0.23", "0.48", "0.29")
    by_hand = {
        "remove": FinitePair(p=mixed, q=("0.2", "0.5", "0.3")),
        "add": FinitePair(p=("0.2", "0.5", "0.3"), q=mixed),
    }
    for direction, pair in by_hand.items():
        expected = (5 * pair).delta(0.1, direction="remove")
        assert (5 * sampled).delta(0.1, direction=direction) == expected


@pytest.mark.parametrize("eps", [-0.7, -0.05, 0.05, 0.7])
def test_every_view_of_one_sampled_gaussian_is_the_worse_of_its_two_orders(eps):
    """The first order's delta is q times a Gaussian's at log(1 + (e^eps - 1)/q); the second's is its mirror image."""
    mu, rate, scale = mp.mpf(2), mp.mpf("0.75"), mp.e**eps

    def removed(ratio):
        """The hockey-stick divergence at `ratio` of (1 - q) N(0, 1) + q N(mu, 1) from N(0, 1)."""
        inner = 1 + (ratio - 1) / rate
        if inner <= 0:
            return 1 - ratio
        at = mp.log(inner)
        return rate * (mp.ncdf(mu / 2 - at / mu) - inner * mp.ncdf(-mu / 2 - at / mu))

    orders = {"remove": removed(scale), "add": 1 - scale + scale * removed(1 / scale)}
    whole = 1 * SubsampledGaussian(mu=2, rate="0.75")
    for direction, expected in orders.items():
        assert abs(whole.delta(eps, direction=direction).upper - expected) < 1e-12
        assert float(expected) in whole.delta(eps, direction=direction)
    worst = max(orders.values())
    assert abs(orders["remove"] - orders["add"]) > 1e-4, "the orders must differ, or nothing is seen here"
    found = whole.delta(eps)
    assert found.lower <= worst <= found.upper
    assert found.upper - found.lower < 1e-12
    if eps > 0:
        bound = whole.epsilon(float(worst))
        assert bound.lower - 1e-9 <= eps <= bound.upper + 1e-9


@pytest.mark.slow
def test_the_worse_direction_is_taken_and_mixing_them_is_not():
    whole = 10_000 * SubsampledGaussian(mu=1, rate="0.01")
    remove, add = (whole.epsilon("1e-5", direction=d) for d in ("remove", "add"))
    assert add.upper < remove.lower
    assert whole.epsilon("1e-5").lower > add.upper
    assert abs(whole.epsilon("1e-5").upper - remove.upper) < 1e-10
    lopsided = FinitePair(p=("0.9", "0.1"), q=("0.99", "0.01"))
    mirrored = FinitePair(p=("0.99", "0.01"), q=("0.9", "0.1"))
    both = lopsided + mirrored
    each = [max((1 * f).delta(0.5, direction=d).upper for d in ("remove", "add")) for f in (lopsided, mirrored)]
    assert both.delta(0.5).upper < 2 * max(each)
    assert both.delta(0.5, direction="remove").lower == pytest.approx(both.delta(0.5, direction="add").lower, rel=1e-8)


def test_revealing_all_adds_up_and_makes_epsilon_infinite():
    whole = 100 * Pure(epsilon="0.01") + 3 * Leak(delta="1e-6")
    leak = 1 - (1 - mp.mpf("1e-6")) ** 3
    assert leak in whole.delta(50.0)
    assert whole.epsilon("2e-6").lower == math.inf
    assert math.isfinite(whole.epsilon("4e-6").upper)


def test_counting_is_the_same_however_the_whole_was_built():
    one, other = Gaussian(mu="0.5"), Laplace(epsilon="0.1")
    whole = compose([3 * one, other, 2 * (one + other)])
    assert whole == compose({one: 5, other: 3})
    assert whole != compose({one: 5, other: 2})
    chain = 1 * one
    for _ in range(3000):
        chain = chain + other
    assert dict(chain.uses) == {one: 1, other: 3000}


def test_shared_part_of_a_composition_is_counted_in_one_walk():
    whole = 1 * Gaussian(mu="1e-6")
    for _ in range(39):
        whole = whole + whole
    assert dict(whole.uses) == {Gaussian(mu="1e-6"): 2**39}
    with pytest.raises(ParameterError, match=r"10\^12"):
        dict((whole + whole).uses)
    ordered = Pure(epsilon=1) + 2 * (Laplace(epsilon=1) + Gaussian(mu=1)) + Pure(epsilon=1)
    assert list(ordered.uses.items()) == [(Pure(epsilon=1), 2), (Laplace(epsilon=1), 2), (Gaussian(mu=1), 2)]


@pytest.mark.parametrize(
    ("whole", "divergence"),
    [
        (3 * Gaussian(mu="0.5"), 3 * mp.mpf("0.125")),
        (10 * Laplace(epsilon=1), 10 * mp.exp(-1)),
        (5 * Pure(epsilon=1), 5 * mp.tanh(mp.mpf("0.5"))),
        (2 * DiscreteGaussian(sigma2=4) + Pure(epsilon=1), mp.mpf("0.25") + mp.tanh(mp.mpf("0.5"))),
    ],
    ids=repr,
)
def test_the_divergence_of_order_one_is_that_of_kullback_and_leibler(whole, divergence):
    found = whole.renyi(1)
    assert found.lower <= divergence <= found.upper
    assert found.width < 1e-6
    assert found.upper <= whole.renyi(1.01).upper


@mp.workdps(30)
def test_the_divergence_of_order_one_of_a_sampled_gaussian_by_quadrature():
    q, mu = mp.mpf("0.01"), mp.mpf(1)

    def term(u):
        ratio = 1 - q + q * mp.exp(mu * u - mu**2 / 2)
        return mp.npdf(u) * ratio * mp.log(ratio)

    found = (100 * SubsampledGaussian(mu=1, rate="0.01")).renyi(1, direction="remove")
    with mp.workdps(30):
        assert found.lower <= 100 * mp.quad(term, [-10, 0, 1, 3, 6, 14]) <= found.upper
    assert found.width < 1e-6 * found.upper


@pytest.mark.parametrize("whole", [Pure(epsilon=1) * 3 + Gaussian(mu="0.5"), 4 * Geometric(epsilon="0.3")], ids=repr)
def test_without_a_pool_a_largest_loss_beside_gaussians_still_has_a_mu(whole):
    """The curve lies above G_mu also where alpha is tiny, and clearly not above a smaller one's."""
    found = whole.gdp(0)
    assert found.lower <= found.upper < 1.5 * found.lower
    eps = np.linspace(0.0, 6.0, 201)
    assert np.all(whole.delta(eps).lower <= (1 * Gaussian(mu=found.upper)).delta(eps).upper)
    less = Gaussian(mu=found.lower * (1 - 1e-3))
    assert np.any(whole.delta(eps).lower > (1 * less).delta(eps).upper)
    assert math.isinf((whole + SubsampledGaussian(mu=1, rate="0.1")).gdp(0).upper)
    assert math.isinf((whole + Leak(delta="1e-9")).gdp(0).lower)


def test_without_a_pool_the_price_of_a_pure_guarantee_is_the_known_one():
    found = (1 * Pure(epsilon=1)).gdp(0)
    kink = 1 / (1 + mp.e)
    exact = -2 * mp.sqrt(2) * mp.erfinv(2 * kink - 1)  # G_mu(k) = k
    assert found.lower <= exact <= found.upper
    assert found.width < 1e-6


def test_renyi_bounds_cover_every_mechanism_and_total_variation_helps():
    """The Gaussian of that rho is one; without the bound on total variation the curve would be below 1 - alpha - 0.4."""
    bound, member = 1 * ZeroConcentrated(rho="0.02"), 1 * Gaussian(mu="0.2")
    alpha = np.array([1e-4, 0.01, 0.1, 0.3, 0.5, 0.9])
    floor, curve = bound.tradeoff(alpha).lower, member.tradeoff(alpha)
    assert np.all(floor <= curve.upper)
    assert bound.advantage().upper <= 0.1 * (1 + 1e-6)  # Pinsker: sqrt(rho / 2)
    assert np.all(floor >= 0.9 - alpha - 1e-6)
    assert np.allclose(bound.tradeoff(floor).lower, alpha, atol=0.02)  # in both orders
