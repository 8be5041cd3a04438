"""Reference cases of the mechanisms, by their general public formulas."""

import math
from fractions import Fraction

import numpy as np

from neartwin.mechanisms.linear.matrix import intervals_change, root_coefficients
from neartwin.mechanisms.local import Rappor
from neartwin.mechanisms.noise_laws import DiscreteGaussianLaw, DiscreteLaplaceLaw
from neartwin.mechanisms.selection.noisy_max import (
    exponential_noise_wins,
    gumbel_noise_wins,
    laplace_noise_wins,
    log_laplace_noise_wins,
    reused_value_loss,
)
from neartwin.mechanisms.selection.sparse_vector import theorem_accuracy
from neartwin.mechanisms.selection.thresholds import OptimalSelection


def first_wins(chances):
    return lambda counts, b: chances(np.array(counts, dtype=object), b)[0]


def replace_one_ratio(a, b=Fraction(1)):
    """The log of how much likelier candidate 0 wins when its deficit of a shrinks by 2."""
    here, there = (log_laplace_noise_wins(np.array([-gap, Fraction(0)], dtype=object), b)[0] for gap in (a - 2, a))
    return here - there


def rappor(f, h, p=Fraction(1, 2), q=Fraction(3, 4)):
    return Rappor(lasting=f, off=p, on=q, hashes=int(h))


HANDLERS = {
    "rnm_laplace": first_wins(laplace_noise_wins),
    "rnm_pf": first_wins(exponential_noise_wins),
    "rnm_em": first_wins(gumbel_noise_wins),
    "rnm_value_not_free": lambda m, eps: reused_value_loss(epsilon=eps, candidates=int(m)),
    "rnm_replace_one_limit": replace_one_ratio,
    "partition_selection": lambda eps, delta, n: OptimalSelection(epsilon=eps, delta=delta).keep_probability(int(n)),
    "svt_alpha": lambda k, beta, eps: theorem_accuracy(epsilon=eps, questions=int(k), beta=float(beta)),
    "rappor_inf": lambda f, h: rappor(f, h).lasting_epsilon,
    "rappor_one": lambda f, p, q, h: rappor(f, h, p, q).single_epsilon,
    "sqrt_factor_maxerr": lambda n: math.fsum(root_coefficients(int(n)) ** 2),
    "tree_l2sens": lambda n: math.sqrt(intervals_change(steps=int(n)).l2_squared),
    "dgauss_var": lambda sigma2: DiscreteGaussianLaw(sigma2).variance,
    "dlap_var": lambda eps, D: DiscreteLaplaceLaw(D / eps).variance,
}
