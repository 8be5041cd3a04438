"""How far apart two laws are: KL, max, approximate max, total variation, hockey-stick, Renyi, and witnesses."""

from neartwin.divergences.azuma import azuma_tail, azuma_threshold, azuma_z, response_loss_tail
from neartwin.divergences.binomial import loss_hockey_stick, lower_tail
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
from neartwin.divergences.enclosure import (
    Certified,
    Enclosure,
    Numeric,
    blockwise,
    enclose,
    exp,
    expm1,
    log,
    log1p,
    log_fraction,
    quotient,
    sqrt,
    square,
    where,
)
from neartwin.divergences.finite import (
    FinitePair,
    discrete_laplace_pair,
    finite_pair,
    k_ary_response_pair,
    randomized_response_pair,
)
from neartwin.divergences.gaussian import GaussianPair, gaussian_pair, kl_normal, renyi_normal
from neartwin.divergences.inverse import certified_root
from neartwin.divergences.laplace import LaplacePair, laplace_pair
from neartwin.divergences.nearby import NearbyLaw, NearbyPair, nearby_law, nearby_pair
from neartwin.divergences.pairs import Pair
from neartwin.divergences.pure_kl import (
    KlChain,
    jeffreys,
    kl_bound_bun_steinke,
    kl_bound_dwork_roth,
    kl_bound_tight,
    kl_chain,
)
from neartwin.divergences.series import exp_excess, kl_excess, log_excess, log_sinhc, tanh_half
from neartwin.divergences.subsampled_gaussian import subsampled_gaussian_renyi
from neartwin.divergences.verdicts import Verdict, family_verdict, verdict
from neartwin.exact import Estimate

__all__ = [
    "BracketedPair",
    "Certified",
    "Enclosure",
    "Estimate",
    "ExponentialTail",
    "FinitePair",
    "GaussianPair",
    "KlChain",
    "LaplacePair",
    "NearbyLaw",
    "NearbyPair",
    "Numeric",
    "Pair",
    "SmoothPiece",
    "Verdict",
    "azuma_tail",
    "azuma_threshold",
    "azuma_z",
    "blockwise",
    "certified_root",
    "discrete_laplace_pair",
    "enclose",
    "estimate_kl",
    "estimate_renyi",
    "exp",
    "exp_excess",
    "expm1",
    "family_verdict",
    "finite_pair",
    "gaussian_pair",
    "jeffreys",
    "k_ary_response_pair",
    "kl_bound_bun_steinke",
    "kl_bound_dwork_roth",
    "kl_bound_tight",
    "kl_chain",
    "kl_excess",
    "kl_normal",
    "laplace_pair",
    "log",
    "log1p",
    "log_excess",
    "log_fraction",
    "log_sinhc",
    "loss_hockey_stick",
    "lower_tail",
    "monotone_pair",
    "nearby_law",
    "nearby_pair",
    "quotient",
    "randomized_response_pair",
    "renyi_normal",
    "response_loss_tail",
    "smooth_kl",
    "smooth_renyi",
    "sqrt",
    "square",
    "subsampled_gaussian_renyi",
    "tanh_half",
    "verdict",
    "where",
]
