"""How far apart two laws are: KL, max, approximate max, total variation, hockey-stick, Renyi, and witnesses."""

from typing import TYPE_CHECKING

from neartwin.late import late

if TYPE_CHECKING:
    from neartwin.divergences.azuma import azuma_tail as azuma_tail
    from neartwin.divergences.azuma import azuma_threshold as azuma_threshold
    from neartwin.divergences.azuma import azuma_z as azuma_z
    from neartwin.divergences.azuma import response_loss_tail as response_loss_tail
    from neartwin.divergences.binomial import loss_hockey_stick as loss_hockey_stick
    from neartwin.divergences.binomial import lower_tail as lower_tail
    from neartwin.divergences.densities import BracketedPair as BracketedPair
    from neartwin.divergences.densities import ExponentialTail as ExponentialTail
    from neartwin.divergences.densities import SmoothPiece as SmoothPiece
    from neartwin.divergences.densities import estimate_kl as estimate_kl
    from neartwin.divergences.densities import estimate_renyi as estimate_renyi
    from neartwin.divergences.densities import monotone_pair as monotone_pair
    from neartwin.divergences.densities import smooth_kl as smooth_kl
    from neartwin.divergences.densities import smooth_renyi as smooth_renyi
    from neartwin.divergences.enclosure import Certified as Certified
    from neartwin.divergences.enclosure import Enclosure as Enclosure
    from neartwin.divergences.enclosure import Numeric as Numeric
    from neartwin.divergences.enclosure import blockwise as blockwise
    from neartwin.divergences.enclosure import enclose as enclose
    from neartwin.divergences.enclosure import exp as exp
    from neartwin.divergences.enclosure import expm1 as expm1
    from neartwin.divergences.enclosure import log as log
    from neartwin.divergences.enclosure import log1p as log1p
    from neartwin.divergences.enclosure import log_fraction as log_fraction
    from neartwin.divergences.enclosure import quotient as quotient
    from neartwin.divergences.enclosure import sqrt as sqrt
    from neartwin.divergences.enclosure import square as square
    from neartwin.divergences.enclosure import where as where
    from neartwin.divergences.finite import FinitePair as FinitePair
    from neartwin.divergences.finite import discrete_laplace_pair as discrete_laplace_pair
    from neartwin.divergences.finite import finite_pair as finite_pair
    from neartwin.divergences.finite import k_ary_response_pair as k_ary_response_pair
    from neartwin.divergences.finite import randomized_response_pair as randomized_response_pair
    from neartwin.divergences.gaussian import GaussianPair as GaussianPair
    from neartwin.divergences.gaussian import gaussian_pair as gaussian_pair
    from neartwin.divergences.gaussian import kl_normal as kl_normal
    from neartwin.divergences.gaussian import renyi_normal as renyi_normal
    from neartwin.divergences.inverse import certified_root as certified_root
    from neartwin.divergences.laplace import LaplacePair as LaplacePair
    from neartwin.divergences.laplace import laplace_pair as laplace_pair
    from neartwin.divergences.nearby import NearbyLaw as NearbyLaw
    from neartwin.divergences.nearby import NearbyPair as NearbyPair
    from neartwin.divergences.nearby import nearby_law as nearby_law
    from neartwin.divergences.nearby import nearby_pair as nearby_pair
    from neartwin.divergences.pairs import Pair as Pair
    from neartwin.divergences.pure_kl import KlChain as KlChain
    from neartwin.divergences.pure_kl import jeffreys as jeffreys
    from neartwin.divergences.pure_kl import kl_bound_bun_steinke as kl_bound_bun_steinke
    from neartwin.divergences.pure_kl import kl_bound_dwork_roth as kl_bound_dwork_roth
    from neartwin.divergences.pure_kl import kl_bound_tight as kl_bound_tight
    from neartwin.divergences.pure_kl import kl_chain as kl_chain
    from neartwin.divergences.series import exp_excess as exp_excess
    from neartwin.divergences.series import kl_excess as kl_excess
    from neartwin.divergences.series import log_excess as log_excess
    from neartwin.divergences.series import log_sinhc as log_sinhc
    from neartwin.divergences.series import tanh_half as tanh_half
    from neartwin.divergences.subsampled_gaussian import subsampled_gaussian_renyi as subsampled_gaussian_renyi
    from neartwin.divergences.verdicts import Verdict as Verdict
    from neartwin.divergences.verdicts import family_verdict as family_verdict
    from neartwin.divergences.verdicts import verdict as verdict
    from neartwin.exact import Estimate as Estimate

# room -> its public names; imported at first use, so that an accountant loads the arithmetic alone
_ROOMS = {
    "divergences.azuma": (
        "azuma_tail",
        "azuma_threshold",
        "azuma_z",
        "response_loss_tail",
    ),
    "divergences.binomial": (
        "loss_hockey_stick",
        "lower_tail",
    ),
    "divergences.densities": (
        "BracketedPair",
        "ExponentialTail",
        "SmoothPiece",
        "estimate_kl",
        "estimate_renyi",
        "monotone_pair",
        "smooth_kl",
        "smooth_renyi",
    ),
    "divergences.enclosure": (
        "Certified",
        "Enclosure",
        "Numeric",
        "blockwise",
        "enclose",
        "exp",
        "expm1",
        "log",
        "log1p",
        "log_fraction",
        "quotient",
        "sqrt",
        "square",
        "where",
    ),
    "divergences.finite": (
        "FinitePair",
        "discrete_laplace_pair",
        "finite_pair",
        "k_ary_response_pair",
        "randomized_response_pair",
    ),
    "divergences.gaussian": (
        "GaussianPair",
        "gaussian_pair",
        "kl_normal",
        "renyi_normal",
    ),
    "divergences.inverse": ("certified_root",),
    "divergences.laplace": (
        "LaplacePair",
        "laplace_pair",
    ),
    "divergences.nearby": (
        "NearbyLaw",
        "NearbyPair",
        "nearby_law",
        "nearby_pair",
    ),
    "divergences.pairs": ("Pair",),
    "divergences.pure_kl": (
        "KlChain",
        "jeffreys",
        "kl_bound_bun_steinke",
        "kl_bound_dwork_roth",
        "kl_bound_tight",
        "kl_chain",
    ),
    "divergences.series": (
        "exp_excess",
        "kl_excess",
        "log_excess",
        "log_sinhc",
        "tanh_half",
    ),
    "divergences.subsampled_gaussian": ("subsampled_gaussian_renyi",),
    "divergences.verdicts": (
        "Verdict",
        "family_verdict",
        "verdict",
    ),
    "exact": ("Estimate",),
}
_HOME = {name: f"neartwin.{room}" for room, names in _ROOMS.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a sorted list of public names, from one table
__getattr__, __dir__ = late(__name__, _HOME)
