"""What is exactly nothing is reported as exactly nothing, and what is infinite as infinite."""

import numpy as np
import pytest

from neartwin.accounting import (
    Step,
    adaptive_bound,
    adaptive_renyi,
    advanced_epsilon_each,
    bounded_range_rdp,
    filter_bound,
    zcdp_of_pure,
    zcdp_to_epsilon,
    zcdp_to_epsilon_bun_steinke,
)
from neartwin.divergences import finite_pair, gaussian_pair, kl_normal, laplace_pair, randomized_response_pair
from neartwin.divergences.theorems import kl_bound_dwork_roth, nearby_law, nearby_pair
from neartwin.tradeoff import amplified_epsilon
from tests.oracles.kov import kov_delta, kov_epsilon

SAME = finite_pair(["0.3", "0.7"], ["0.3", "0.7"])
ZEROS = {
    "laplace kl": lambda: laplace_pair(distance=0).kl(),
    "laplace renyi": lambda: laplace_pair(distance=0).renyi(0.5),
    "laplace hockey-stick at d": lambda: laplace_pair(distance="0.3").hockey_stick("0.3"),
    "laplace hockey-stick beyond": lambda: laplace_pair(distance="0.3").hockey_stick(np.inf),
    "gaussian tv": lambda: gaussian_pair(distance=0).total_variation(),
    "gaussian renyi": lambda: gaussian_pair(distance=0).renyi(np.inf),
    "normal kl": lambda: kl_normal(mean=1, sigma="0.1", other_mean=1, other_sigma="0.1"),
    "finite kl": SAME.kl,
    "finite renyi": lambda: SAME.renyi("0.5"),
    "finite max": SAME.max_divergence,
    "finite approximate max": lambda: SAME.approximate_max_divergence(0),
    "finite hockey-stick": lambda: SAME.hockey_stick(0),
    "response renyi": lambda: randomized_response_pair(0).renyi("0.5"),
    "witness": lambda: nearby_law(SAME, 0).distance,
    "witnesses": lambda: nearby_pair(SAME, 0).distance,
    "lemma 3.18": lambda: kl_bound_dwork_roth(0),
    "amplification": lambda: amplified_epsilon(epsilon=1, rate=0),
    "bounded range": lambda: bounded_range_rdp(epsilon=0, order=1),
    "filter": lambda: filter_bound(epsilons=[0], slack="1e-6").epsilon,
    "zcdp": lambda: zcdp_to_epsilon(rho=0, delta="1e-6"),
    "zcdp bun steinke": lambda: zcdp_to_epsilon_bun_steinke(rho=0, delta="1e-6"),
    "zcdp of pure": lambda: zcdp_of_pure(0),
    "kov": lambda: kov_delta(epsilon="0.1", count=3, epsilon_total="0.3"),
    "kov epsilon": lambda: kov_epsilon(epsilon="0.1", count=1, delta_total="0.9"),
    "advanced inverse": lambda: advanced_epsilon_each(epsilon_total=0, count=3, slack="0.1"),
    "adaptive": lambda: adaptive_renyi(Step(SAME, (Step(SAME), Step(SAME))), order=2),
    "adaptive bound": lambda: adaptive_bound(Step(SAME, (Step(SAME), Step(SAME))), order=2),
}


@pytest.mark.parametrize("name", ZEROS)
def test_zero_divergence_is_exactly_zero(name):
    found = ZEROS[name]()
    assert found.lower == found.upper == 0


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-6"])
def test_small_losses_keep_their_digits(epsilon):
    e = float(epsilon)
    for found, leading in (
        (laplace_pair(distance=epsilon).renyi("0.5"), e**2 / 4),
        (laplace_pair(distance=epsilon).kl(), e**2 / 2),
        (randomized_response_pair(epsilon).renyi(2), e**2),
        (bounded_range_rdp(epsilon=epsilon, order=1), e**2 / 8),
        (zcdp_of_pure(epsilon), e**2 / 2),
    ):
        assert found.upper == pytest.approx(leading, rel=2 * e)
        assert found.width <= 1e-12 * found.upper
