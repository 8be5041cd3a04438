"""Reference families of divergences, composition theorems, RDP, zCDP, bounded range and Laplace accuracy."""

import math
from fractions import Fraction

import numpy as np

from neartwin.accounting.renyi import (
    bounded_range_rdp,
    rdp_to_epsilon,
    rdp_to_epsilon_mironov,
    zcdp_of_bounded_range,
    zcdp_to_epsilon,
    zcdp_to_epsilon_bun_steinke,
)
from neartwin.accounting.theorems import (
    Step,
    adaptive_bound,
    adaptive_renyi,
    advanced_composition,
    advanced_composition_classical,
    advanced_epsilon_each,
    basic_composition,
    filter_bound,
    group_approximate,
    group_zcdp,
)
from neartwin.accounting.usage import rdp_accountant, repeated
from neartwin.divergences import (
    discrete_laplace_pair,
    finite_pair,
    gaussian_pair,
    kl_normal,
    laplace_pair,
    randomized_response_pair,
)
from neartwin.divergences.theorems import (
    azuma_tail,
    azuma_threshold,
    kl_bound_dwork_roth,
    kl_bound_tight,
    nearby_law,
    nearby_pair,
    response_loss_tail,
)
from neartwin.losses import SubsampledGaussian
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.theorems import (
    counts_scale,
    failure_at_union_radius,
    histogram_radius,
    laplace_mean_variance,
    laplace_radius,
    laplace_radius_exact,
    laplace_tail,
    response_mean_variance,
)
from tests.oracles import ranges
from tests.oracles.kov import kov_delta, kov_epsilon, kov_mixed_delta


def number(interval):
    """The middle of a certified interval: the references are points."""
    lower, upper = float(interval.lower), float(interval.upper)
    return lower if lower == upper or math.isinf(lower) else 0.5 * (lower + upper)


def infinite(value):
    return math.inf if value == "inf" else value


def chain(e0, e10, e11):
    response = randomized_response_pair
    return Step(response(e0), (Step(response(e10)), Step(response(e11))))


def dp_sgd_epsilon(q, sigma, T, delta, conv):
    orders = np.arange(2.0, 129.0)
    total = rdp_accountant(repeated(SubsampledGaussian(mu=1 / Fraction(sigma), rate=q), int(T)), orders=orders)
    answer = total.epsilon_mironov(delta) if conv == "mironov" else total.epsilon(delta)
    return number(answer.epsilon)


HANDLERS = {
    "kl_laplace": lambda D, b: number(laplace_pair(distance=D, scale=b).kl()),
    "kl_gauss": lambda m1, s1, m2, s2: number(kl_normal(mean=m1, sigma=s1, other_mean=m2, other_sigma=s2)),
    "kl_discrete": lambda P, Q: number(finite_pair(P, Q).kl()),
    "kl_dlap": lambda eps: number(discrete_laplace_pair(epsilon=eps).kl()),
    "dmax_discrete": lambda P, Q: number(finite_pair(P, Q).max_divergence()),
    "dmax_laplace": lambda D, b: number(laplace_pair(distance=D, scale=b).max_divergence()),
    "dmax_gauss": lambda D, sigma: number(gaussian_pair(distance=D, sigma=sigma).max_divergence()),
    "dmaxdelta_laplace": lambda D, b, delta: number(
        laplace_pair(distance=D, scale=b).approximate_max_divergence(delta)
    ),
    "dmaxdelta_gauss": lambda D, sigma, delta: number(
        gaussian_pair(distance=D, sigma=sigma).approximate_max_divergence(delta)
    ),
    "dmaxdelta_discrete": lambda P, Q, delta: number(finite_pair(P, Q).approximate_max_divergence(delta)),
    "tv_laplace": lambda D, b: number(laplace_pair(distance=D, scale=b).total_variation()),
    "tv_gauss": lambda mu: number(gaussian_pair(distance=mu).total_variation()),
    "tv_rr": lambda eps: number(randomized_response_pair(eps).total_variation()),
    "hs_laplace": lambda D, b, eps: number(laplace_pair(distance=D, scale=b).hockey_stick(eps)),
    "lem317_1": lambda P, Q, eps: number(nearby_law(finite_pair(P, Q), eps).distance),
    "lem317_2": lambda P, Q, eps: number(nearby_pair(finite_pair(P, Q), eps).distance),
    "lem318_loose": lambda eps: number(kl_bound_dwork_roth(eps)),
    "lem318_tight": lambda eps: number(kl_bound_tight(eps)),
    "azuma_thr": lambda k, alpha, beta, z: number(azuma_threshold(count=int(k), bound=alpha, drift=beta, z=z)),
    "azuma_tail": lambda z: number(azuma_tail(z)),
    "azuma_exact": lambda k, eps, z: number(response_loss_tail(epsilon=eps, count=int(k), z=z)),
    "adv320_loose": lambda eps, k, dp: number(
        advanced_composition_classical(epsilon=eps, count=int(k), slack=dp).epsilon
    ),
    "adv320_tight": lambda eps, k, dp: number(advanced_composition(epsilon=eps, count=int(k), slack=dp).epsilon),
    "adv320_inverse": lambda eps_total, k, dp: number(
        advanced_epsilon_each(epsilon_total=eps_total, count=int(k), slack=dp)
    ),
    "kov_delta": lambda eps, delta, k, eps_g: number(
        kov_delta(epsilon=eps, delta=delta, count=int(k), epsilon_total=eps_g)
    ),
    "kov_eps": lambda eps, delta, k, delta_g: number(
        kov_epsilon(epsilon=eps, delta=delta, count=int(k), delta_total=delta_g)
    ),
    "kov_het": lambda eps, delta, eps_g: number(kov_mixed_delta(epsilons=eps, deltas=delta, epsilon_total=eps_g)),
    "rdp_laplace": lambda d, alpha: number(laplace_pair(distance=d).renyi(infinite(alpha))),
    "rdp_gauss": lambda D, sigma, alpha: number(gaussian_pair(distance=D, sigma=sigma).renyi(infinite(alpha))),
    "rdp_rr": lambda eps, alpha: number(randomized_response_pair(eps).renyi(infinite(alpha))),
    "rdp_adaptive_exact": lambda alpha, e0, e10, e11: number(
        adaptive_renyi(chain(e0, e10, e11), order=infinite(alpha))
    ),
    "rdp_adaptive_bound": lambda alpha, e0, e10, e11: number(
        adaptive_bound(chain(e0, e10, e11), order=infinite(alpha))
    ),
    "rdp2dp_mironov": lambda r, alpha, delta: number(rdp_to_epsilon_mironov(rdp=r, order=infinite(alpha), delta=delta)),
    "rdp2dp_cks": lambda r, alpha, delta: number(rdp_to_epsilon(rdp=r, order=infinite(alpha), delta=delta)),
    "zcdp_eps_bs": lambda rho, delta: number(zcdp_to_epsilon_bun_steinke(rho=rho, delta=delta)),
    "zcdp_eps_cks": lambda rho, delta: number(zcdp_to_epsilon(rho=rho, delta=delta)),
    "zcdp_tight_laplace": lambda d: number(laplace_pair(distance=d).kl()),
    "sgm_rdp_int": lambda q, sigma, alpha: number(
        (1 * SubsampledGaussian(mu=1 / Fraction(sigma), rate=q)).renyi(alpha)
    ),
    "sgm_eps_orders": dp_sgd_epsilon,
    "lap_acc_ex33": lambda k, delta, D, eps: number(
        laplace_radius(count=int(k), sensitivity=D, epsilon=eps, beta=delta)
    ),
    "lap_acc_exact": lambda k, delta, D, eps: number(
        laplace_radius_exact(count=int(k), sensitivity=D, epsilon=eps, beta=delta)
    ),
    "lap_acc_prob": lambda k, delta: number(failure_at_union_radius(count=int(k), beta=delta)),
    "lap_tail": lambda t: number(laplace_tail(t)),
    "hist_replace_one": lambda k, beta, eps: number(
        histogram_radius(bins=int(k), epsilon=eps, beta=beta, neighbours=Neighbours.REPLACE_ONE)
    ),
    "multi_count_scale": lambda m, eps: number(counts_scale(queries=int(m), epsilon=eps)),
    "rr_var": lambda eps, n: number(response_mean_variance(epsilon=eps, records=int(n))),
    "lap_mean_var": lambda eps, n: number(laplace_mean_variance(epsilon=eps, records=int(n))),
    "group_eps_delta": lambda eps, delta, k: number(group_approximate(epsilon=eps, delta=delta, size=int(k)).delta),
    "basic_comp": lambda eps, delta=(): number(basic_composition(epsilons=eps, deltas=delta).epsilon),
    "br_rdp": lambda eps, alpha=1: number(bounded_range_rdp(epsilon=eps, order=infinite(alpha))),
    "br_zcdp": lambda eps: number(zcdp_of_bounded_range(eps)),
    "br_composition": lambda eps, eps_g, k: float(ranges.composed(eps, int(k), eps_g)),
    "filter_whitehouse": lambda eps, dp: number(filter_bound(epsilons=eps, slack=dp).epsilon),
    "rdp_group_gauss": lambda rho, k: group_zcdp(rho=rho, size=int(k)),
}
