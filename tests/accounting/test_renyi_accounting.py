"""RDP, zCDP and bounded range: conversions against exact curves, adaptive chains against their joint laws."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin.accounting import (
    RdpCurve,
    Step,
    adaptive_bound,
    adaptive_renyi,
    bounded_range_rdp,
    compose_rdp,
    rdp_curve,
    rdp_to_epsilon,
    rdp_to_epsilon_mironov,
    worst_steps,
    zcdp_of_bounded_range,
    zcdp_of_pure,
    zcdp_to_epsilon,
    zcdp_to_epsilon_bun_steinke,
)
from neartwin.accounting.usage import rdp_accountant, repeated
from neartwin.divergences import finite_pair, gaussian_pair, laplace_pair, randomized_response_pair
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Interval
from neartwin.losses import Gaussian

cells = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=3).filter(
    lambda c: sum(x for x, _ in c) > 0 and sum(y for _, y in c) > 0
)


def pair_of(weights):
    p, q = [c[0] for c in weights], [c[1] for c in weights]
    return finite_pair([Fraction(x, sum(p)) for x in p], [Fraction(y, sum(q)) for y in q])


@settings(max_examples=60, deadline=None)
@given(cells, st.lists(cells, min_size=3, max_size=3), st.sampled_from(["0.5", "1", "2", "5"]))
def test_proposition_1_holds_on_every_adaptive_chain(first, seconds, order):
    head = pair_of(first)
    chain = Step(head, tuple(Step(pair_of(s)) for s in seconds[: len(first)]))
    assert adaptive_renyi(chain, order=order).lower <= adaptive_bound(chain, order=order).upper + 1e-14


def test_proposition_1_is_attained_where_the_second_step_ignores_the_first():
    second = randomized_response_pair("0.4")
    chain = Step(randomized_response_pair(1), (Step(second), Step(second)))
    exact, bound = adaptive_renyi(chain, order=3), adaptive_bound(chain, order=3)
    assert exact.upper == pytest.approx(bound.upper, rel=1e-13)
    uneven = Step(randomized_response_pair(1), (Step(second), Step(randomized_response_pair("0.1"))))
    assert adaptive_renyi(uneven, order=3).upper < bound.lower - 1e-3


def test_an_epsilon_that_depends_on_the_answer_is_refused():
    weak, strong = Step(randomized_response_pair("0.3")), Step(randomized_response_pair("0.7"))
    chain = Step(randomized_response_pair("0.5"), (weak, strong))
    least = worst_steps(chain, order=2).upper.tolist()
    promised = [Fraction(x) for x in least]
    assert adaptive_bound(chain, order=2, promises=promised).upper >= adaptive_renyi(chain, order=2).upper
    with pytest.raises(PrivacyError, match=r"step 2 after outcomes \(1,\)"):
        adaptive_bound(chain, order=2, promises=[promised[0], promised[1] * Fraction("0.99")])
    with pytest.raises(ParameterError):
        adaptive_bound(chain, order=2, promises=promised[:1])


def test_a_promise_must_hold_for_unreachable_outcomes_too():
    # outcome 1 has probability 0 under both laws, and its step is wild
    chain = Step(
        finite_pair([1, 0], [1, 0]), (Step(randomized_response_pair("0.1")), Step(randomized_response_pair(9)))
    )
    assert adaptive_renyi(chain, order=2).upper < 0.02
    with pytest.raises(PrivacyError):
        adaptive_bound(chain, order=2, promises=["0.01", "0.02"])


def test_three_levels_deep():
    leaf = Step(randomized_response_pair("0.2"))
    chain = Step(
        randomized_response_pair("0.2"), tuple(Step(randomized_response_pair("0.2"), (leaf, leaf)) for _ in "01")
    )
    single = randomized_response_pair("0.2").renyi(4).upper
    assert adaptive_renyi(chain, order=4).upper == pytest.approx(3 * single, rel=1e-12)
    with pytest.raises(ParameterError):
        Step(randomized_response_pair(1), (leaf,))


def test_curves_add_at_one_order_only():
    one, two = (rdp_curve(gaussian_pair(distance=d).renyi, orders=(2, 4, 8)) for d in (1, 2))
    total = compose_rdp([one, two, two])
    assert total.rdp.upper == pytest.approx(9 / 2 * np.array([2, 4, 8]), rel=1e-13)
    assert one.times(9).rdp.upper == pytest.approx(total.rdp.upper, rel=1e-13)
    assert one.times(0).rdp.upper.tolist() == [0, 0, 0]
    with pytest.raises(ParameterError, match="one grid"):
        compose_rdp([one, rdp_curve(gaussian_pair(distance=1).renyi, orders=(2, 4, 9))])
    for orders in ((), (0.5, 2.0), (3.0, 2.0)):
        with pytest.raises(ParameterError):
            RdpCurve(orders, Interval(np.ones(len(orders)), np.ones(len(orders))))


@pytest.mark.parametrize("count", [32, 33, 100])
def test_any_number_of_curves_compose(count):
    one = rdp_curve(gaussian_pair(distance="0.1").renyi, orders=(2, 4))
    exact = count * np.array([2, 4]) / 200
    total = compose_rdp([one] * count).rdp
    assert (total.lower <= exact).all()
    assert (total.upper >= exact).all()
    assert total.upper == pytest.approx(exact, rel=1e-13)


def test_order_one_stands_in_a_curve_and_converts_to_nothing():
    whole = repeated(Gaussian(mu="0.5"), 4)
    curve = rdp_accountant(whole, orders=(1.0, 2.0, 8.0))
    assert curve.rdp.lower[0] <= 0.5 <= curve.rdp.upper[0]  # the Kullback-Leibler divergence
    assert rdp_epsilon_of(curve) == rdp_epsilon_of(rdp_accountant(whole, orders=(2.0, 8.0)))
    with pytest.raises(PrivacyError, match="order 1 alone"):
        rdp_accountant(whole, orders=(1.0,)).epsilon("1e-5")


def rdp_epsilon_of(curve):
    return curve.epsilon("1e-5").epsilon


@pytest.mark.parametrize("delta", ["1e-12", "1e-5", "0.01"])
def test_conversions_cover_the_exact_gaussian_and_stand_in_order(delta):
    pair = gaussian_pair(distance="0.8")
    curve = rdp_curve(pair.renyi)
    exact = pair.approximate_max_divergence(delta).upper
    better, first = curve.epsilon(delta), curve.epsilon_mironov(delta)
    assert exact < better.epsilon.lower < first.epsilon.lower
    assert not better.at_edge
    continuous = zcdp_to_epsilon(rho="0.32", delta=delta)
    classic = zcdp_to_epsilon_bun_steinke(rho="0.32", delta=delta)
    assert exact < continuous.lower <= better.epsilon.upper
    assert continuous.upper < classic.lower


def test_best_order_at_the_grid_edge_is_a_warning():
    curve = rdp_curve(gaussian_pair(distance="0.01").renyi, orders=(2.0, 3.0))
    found = curve.epsilon("1e-6")
    assert found.at_edge
    assert found.order == 3.0
    with pytest.raises(ParameterError):
        curve.epsilon(np.array([1e-6, 1e-5]))


def test_conversions_at_their_edges():
    assert rdp_to_epsilon(rdp=0, order=2, delta="0.9").upper == 0
    assert rdp_to_epsilon(rdp="0.5", order=float("inf"), delta="1e-5").upper == 0.5
    assert rdp_to_epsilon_mironov(rdp="0.5", order=float("inf"), delta="1e-5").upper == 0.5
    assert rdp_to_epsilon(rdp=np.array([np.inf]), order=2, delta="1e-5").lower[0] == np.inf
    for bad in ({"order": 1}, {"delta": 0}, {"delta": 1}, {"rdp": -1}):
        with pytest.raises(ParameterError):
            rdp_to_epsilon(**{"rdp": "0.5", "order": 10, "delta": "1e-5"} | bad)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-6, 50), st.floats(-14, -1))
def test_the_optimal_zcdp_order_beats_a_grid_of_orders(rho, power):
    delta = 10.0**power
    found = zcdp_to_epsilon(rho=np.asarray(rho), delta=np.asarray(delta))
    a = 1 + np.geomspace(1e-6, 1e7, 4000)
    grid = rho * a + np.log1p(-1 / a) - (np.log(delta) + np.log(a)) / (a - 1)
    assert found.lower <= max(0, grid.min()) * (1 + 1e-12)
    assert found.upper <= max(0, grid.min()) * (1 + 1e-9) + 1e-13
    assert found.width <= 1e-10 * max(found.upper, 1e-3)


@pytest.mark.parametrize("size", ["0.1", "1", "5"])
def test_tight_zcdp_is_the_supremum_of_divergence_over_order(size):
    orders = np.concatenate([1 + np.geomspace(1e-9, 1, 60), np.geomspace(2, 1e6, 60)])
    for rho, pair in (
        (zcdp_of_pure(size), randomized_response_pair(size)),
        (laplace_pair(distance=size).kl(), laplace_pair(distance=size)),
    ):
        ratios = np.array([float(pair.renyi(np.asarray(a)).upper) / a for a in orders])
        assert ratios.max() <= rho.upper * (1 + 1e-12)
        assert ratios.max() >= rho.lower * (1 - 1e-6)


def two_losses(epsilon, t):
    """The pair with losses t and t - epsilon."""
    p = (1 - mp.exp(t - epsilon)) / (1 - mp.exp(-epsilon))
    return p, p * mp.exp(-t)


@pytest.mark.parametrize("order", ["1", "1.001", "2", "7"])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "6"])
def test_bounded_range_rdp_is_the_worst_place(epsilon, order):
    with mp.workdps(40):
        e, a = mp.mpf(epsilon), mp.mpf(order)

        def at(t):
            p, q = two_losses(e, t)
            if a == 1:
                return p * t + (1 - p) * (t - e)
            return mp.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)

        best = max(at(e * i / 2000) for i in range(1, 2000))
    found = bounded_range_rdp(epsilon=epsilon, order=order)
    assert best <= found.upper
    assert found.lower <= best * (1 + mp.mpf("1e-5"))
    assert found.upper <= randomized_response_pair(epsilon).renyi(order).lower
    assert found.upper <= zcdp_of_bounded_range(epsilon).upper * float(order) * (1 + 1e-12)


def test_bounded_range_edges():
    assert bounded_range_rdp(epsilon=2, order=float("inf")).upper == pytest.approx(2, rel=1e-15)
    assert bounded_range_rdp(epsilon=0, order=3).upper == 0
    with pytest.raises(ParameterError):
        bounded_range_rdp(epsilon=1, order="0.5")
