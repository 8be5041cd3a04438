"""Families of theory.json that the room of curves answers: midpoints of its certified intervals."""

from fractions import Fraction

import mpmath as mp

from neartwin import losses
from neartwin import tradeoff as c
from neartwin.tradeoff import central_limit, classical
from tests.oracles import tradeoff as oracle


def middle(interval):
    lower, upper = float(interval.lower), float(interval.upper)
    return lower if lower == upper else 0.5 * (lower + upper)


def pure(eps, delta=0):
    return c.epsilon_delta(eps, delta)


def moments_of(curve, name):
    return middle(getattr(central_limit.moments(curve), name))


def bracket(eps, n, alpha, side):
    return getattr(central_limit.berry_esseen([(central_limit.moments(pure(eps)), int(n))], alpha), side)


def normal(curve, n, name):
    return middle(getattr(central_limit.normalised([(central_limit.moments(curve), int(n))]), name))


def sampled_gaussian(q, sigma, eps, direction):
    mixed = c.poisson(c.gaussian(1 / sigma), q)
    return middle((mixed if direction == "remove" else mixed.inverse()).delta(eps))


def gauss_eps(rho, delta):
    curve = c.Gaussian(2 * rho)
    mu = Fraction(curve.mu().lower)
    fine = (mu + 2 * rho / mu) / 2  # one exact Newton step: mu to twice the digits
    return middle(c.epsilon_of(fine, delta))


def discrete_gauss(sigma2, eps):
    return middle((1 * losses.DiscreteGaussian(sigma2=sigma2)).delta(float(eps)))


def laplace_power(d, n, eps):
    """The residue sum, once the composed losses are seen to hold it: they promise fewer digits than the case asks for."""
    exact = oracle.laplace_power_delta(d, eps, int(n))
    found = (int(n) * losses.Laplace(epsilon=d)).delta(float(eps))
    assert found.lower <= exact <= found.upper
    assert found.width <= 1e-12 * exact
    return exact


def laplace_power_tradeoff(d, n, alpha):
    """Max over eps of 1 - delta(eps) - e^eps alpha by the residue sum, seen to lie in what the composed losses answer."""

    def chord(eps):
        if eps >= 0:
            return 1 - oracle.laplace_power_delta(d, eps, int(n)) - mp.exp(eps) * oracle.num(alpha)
        return mp.exp(eps) * (1 - oracle.laplace_power_delta(d, -eps, int(n)) - oracle.num(alpha))

    low, high = mp.mpf(-8), mp.mpf(8)
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if chord(left) < chord(right) else (low, right)
    exact = chord((low + high) / 2)
    found = (int(n) * losses.Laplace(epsilon=d)).tradeoff(float(alpha))
    assert found.lower <= exact <= found.upper
    assert found.width <= 1e-7 * exact
    return exact


HANDLERS = {
    "gdp_delta": lambda mu, eps: middle(c.delta_of(mu, eps)),
    "gdp_eps": lambda mu, delta: middle(c.epsilon_of(mu, delta)),
    "gdp_mu": lambda eps, delta: middle(c.mu_of(eps, delta)),
    "gdp_G": lambda mu, alpha: middle(c.gaussian(mu).beta(alpha)),
    "f_eps_delta": lambda eps, delta, alpha: middle(pure(eps, delta).beta(alpha)),
    "lap_T": lambda mu, alpha: middle(c.laplace(mu).beta(alpha)),
    "T_discrete": lambda P, Q, alpha: middle(c.finite_pair(P, Q).beta(alpha)),
    "symm": lambda P, Q, alpha: middle(c.symmetrised(c.finite_pair(P, Q)).beta(alpha)),
    "group_f_eps": lambda eps, k, alpha: middle(c.group(pure(eps), int(k)).beta(alpha)),
    "group_f_eps_delta": lambda eps, delta, k, alpha: middle(c.group(pure(eps, delta), int(k)).beta(alpha)),
    "group_G": lambda mu, k, alpha: middle(c.group(c.gaussian(mu), int(k)).beta(alpha)),
    "tensor_f_n": lambda eps, n, alpha: middle(c.compose(*[pure(eps)] * int(n)).beta(alpha)),
    "tensor_f_ed_n": lambda eps, delta, n, alpha: middle(c.compose(*[pure(eps, delta)] * int(n)).beta(alpha)),
    "tensor_G": lambda mus, alpha: middle(c.compose(*map(c.gaussian, mus)).beta(alpha)),
    "tensor_lap_delta": laplace_power,
    "tensor_lap_T": laplace_power_tradeoff,
    "tensor_f0d_G": lambda mu, delta, alpha: middle(c.compose(c.gaussian(mu), pure(0, delta)).beta(alpha)),
    "clt_poisson_delta": lambda sum_delta: float(central_limit.poisson_limit(1, sum_delta).value.failure),
    "clt_kl_laplace": lambda d: moments_of(c.laplace(d), "kl"),
    "clt_kl_feps": lambda eps: moments_of(pure(eps), "kl"),
    "clt_kappa2_laplace": lambda d: moments_of(c.laplace(d), "kappa2"),
    "clt_kappa2_feps": lambda eps: moments_of(pure(eps), "kappa2"),
    "clt_kappa3_laplace": lambda d: moments_of(c.laplace(d), "kappa3"),
    "clt_kappa3_feps": lambda eps: moments_of(pure(eps), "kappa3"),
    "clt_kappa3bar_laplace": lambda d: moments_of(c.laplace(d), "centred3"),
    "clt_kappa3bar_feps": lambda eps: moments_of(pure(eps), "centred3"),
    "clt_mu_feps": lambda eps, n: normal(pure(eps), n, "mu"),
    "clt_gamma_feps": lambda eps, n: normal(pure(eps), n, "gamma"),
    "clt_mu_lap": lambda d, n: normal(c.laplace(d), n, "mu"),
    "clt_gamma_lap": lambda d, n: normal(c.laplace(d), n, "gamma"),
    "clt_bracket_feps": bracket,
    "Cp_f_eps_delta": lambda p, eps, delta, alpha: middle(c.subsampled(pure(eps, delta), p).beta(alpha)),
    "Cp_G": lambda p, mu, alpha: middle(c.subsampled(c.gaussian(mu), p).beta(alpha)),
    "amp_pure": lambda q, eps: middle(c.amplified_epsilon(eps, q)),
    "sgm_delta": sampled_gaussian,
    "dpsgd_mu_poisson": lambda q, T, sigma: central_limit.dpsgd_mu_poisson(q, T, sigma).value,
    "dpsgd_mu_uniform": lambda q, T, sigma: central_limit.dpsgd_mu_uniform(q, T, sigma).value,
    "gauss_classical_sigma": lambda eps, delta, D: middle(classical.classical_sigma(eps, delta, D)),
    "gauss_analytic_sigma": lambda eps, delta, D: middle(c.sigma_of(eps, delta, D)),
    "gauss_classical_true_delta": lambda eps, delta: middle(classical.classical_delta(eps, delta)),
    "gauss_eps_exact_vs_zcdp": gauss_eps,
    "dgauss_delta": discrete_gauss,
    "dlap_T_is_feps": lambda eps, alpha: middle(c.discrete_laplace(eps).beta(alpha)),
    "shuffle_fmt21": lambda eps0, n, delta: float(oracle.shuffled_epsilon(eps0, int(n), delta)),
    "advantage_gdp": lambda mu: middle(c.advantage(c.gaussian(mu))),
    "recon_risk_gdp": lambda mu, kappa: middle(c.reconstruction_success(c.gaussian(mu), kappa)),
    "krr_T": lambda eps, k, alpha: middle(c.randomized_response(eps, int(k)).beta(alpha)),
}
