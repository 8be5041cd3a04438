"""How far apart two laws are: KL, max, approximate max, total variation, hockey-stick and Renyi divergence.

Lemmas of the texts and exact verdicts on (epsilon, delta) stand in `theorems`.
"""

from neartwin.divergences.densities import (
    BracketedPair,
    ExponentialTail,
    SmoothPiece,
    estimate_kl,
    estimate_renyi,
    monotone_pair,
    smooth_kl,
    smooth_renyi,
)
from neartwin.divergences.finite import (
    FinitePair,
    Pair,
    discrete_laplace_pair,
    finite_pair,
    k_ary_response_pair,
    randomized_response_pair,
)
from neartwin.divergences.gaussian import GaussianPair, gaussian_pair, kl_normal, renyi_normal
from neartwin.divergences.laplace import LaplacePair, laplace_pair
from neartwin.divergences.subsampled_gaussian import subsampled_gaussian_renyi
from neartwin.exact import Estimate

__all__ = [
    "BracketedPair",
    "Estimate",
    "ExponentialTail",
    "FinitePair",
    "GaussianPair",
    "LaplacePair",
    "Pair",
    "SmoothPiece",
    "discrete_laplace_pair",
    "estimate_kl",
    "estimate_renyi",
    "finite_pair",
    "gaussian_pair",
    "k_ary_response_pair",
    "kl_normal",
    "laplace_pair",
    "monotone_pair",
    "randomized_response_pair",
    "renyi_normal",
    "smooth_kl",
    "smooth_renyi",
    "subsampled_gaussian_renyi",
]
