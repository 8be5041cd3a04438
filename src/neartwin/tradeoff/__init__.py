"""Trade-off functions: what an attacker can do to tell two neighbouring data sets apart, as a value that composes."""

from typing import TYPE_CHECKING

from neartwin.late import late

if TYPE_CHECKING:
    from neartwin.exact import Estimate as Estimate
    from neartwin.tradeoff.amplification import Mixture as Mixture
    from neartwin.tradeoff.amplification import Subsampled as Subsampled
    from neartwin.tradeoff.amplification import amplified_epsilon as amplified_epsilon
    from neartwin.tradeoff.amplification import poisson as poisson
    from neartwin.tradeoff.amplification import subsampled as subsampled
    from neartwin.tradeoff.attackers import advantage as advantage
    from neartwin.tradeoff.attackers import bayes_success as bayes_success
    from neartwin.tradeoff.attackers import betting_posterior as betting_posterior
    from neartwin.tradeoff.attackers import mu_of_bayes_success as mu_of_bayes_success
    from neartwin.tradeoff.attackers import mu_of_reconstruction as mu_of_reconstruction
    from neartwin.tradeoff.attackers import mu_of_tpr as mu_of_tpr
    from neartwin.tradeoff.attackers import reconstruction_success as reconstruction_success
    from neartwin.tradeoff.attackers import tpr_at as tpr_at
    from neartwin.tradeoff.classical import classical_delta as classical_delta
    from neartwin.tradeoff.classical import classical_holds as classical_holds
    from neartwin.tradeoff.classical import classical_limit as classical_limit
    from neartwin.tradeoff.classical import classical_sigma as classical_sigma
    from neartwin.tradeoff.classical import classical_waste as classical_waste
    from neartwin.tradeoff.discrete import discrete_gaussian_delta as discrete_gaussian_delta
    from neartwin.tradeoff.discrete import discrete_gaussian_variance as discrete_gaussian_variance
    from neartwin.tradeoff.discrete import discrete_laplace as discrete_laplace
    from neartwin.tradeoff.discrete import staircase as staircase
    from neartwin.tradeoff.duality import WitnessPair as WitnessPair
    from neartwin.tradeoff.duality import conjugate as conjugate
    from neartwin.tradeoff.duality import from_lines as from_lines
    from neartwin.tradeoff.duality import from_profile as from_profile
    from neartwin.tradeoff.duality import require_tradeoff as require_tradeoff
    from neartwin.tradeoff.duality import violations as violations
    from neartwin.tradeoff.duality import witness_pair as witness_pair
    from neartwin.tradeoff.families import EpsilonDelta as EpsilonDelta
    from neartwin.tradeoff.families import Gaussian as Gaussian
    from neartwin.tradeoff.families import Laplace as Laplace
    from neartwin.tradeoff.families import epsilon_delta as epsilon_delta
    from neartwin.tradeoff.families import gaussian as gaussian
    from neartwin.tradeoff.families import gaussian_mechanism as gaussian_mechanism
    from neartwin.tradeoff.families import identity as identity
    from neartwin.tradeoff.families import laplace as laplace
    from neartwin.tradeoff.finite import FinitePair as FinitePair
    from neartwin.tradeoff.finite import finite_pair as finite_pair
    from neartwin.tradeoff.finite import polygon as polygon
    from neartwin.tradeoff.finite import randomized_response as randomized_response
    from neartwin.tradeoff.finite import randomized_response_power as randomized_response_power
    from neartwin.tradeoff.functions import TradeOff as TradeOff
    from neartwin.tradeoff.gaussian_dp import delta_of as delta_of
    from neartwin.tradeoff.gaussian_dp import epsilon_of as epsilon_of
    from neartwin.tradeoff.gaussian_dp import log_delta_of as log_delta_of
    from neartwin.tradeoff.gaussian_dp import mu_of as mu_of
    from neartwin.tradeoff.gaussian_dp import mu_of_advantage as mu_of_advantage
    from neartwin.tradeoff.gaussian_dp import sigma_of as sigma_of
    from neartwin.tradeoff.gaussian_dp import sigma_of_mu as sigma_of_mu
    from neartwin.tradeoff.limits import Normalised as Normalised
    from neartwin.tradeoff.limits import berry_esseen as berry_esseen
    from neartwin.tradeoff.limits import clt as clt
    from neartwin.tradeoff.limits import dpsgd_mu_poisson as dpsgd_mu_poisson
    from neartwin.tradeoff.limits import dpsgd_mu_uniform as dpsgd_mu_uniform
    from neartwin.tradeoff.limits import limit_gaussian as limit_gaussian
    from neartwin.tradeoff.limits import normalised as normalised
    from neartwin.tradeoff.limits import poisson_limit as poisson_limit
    from neartwin.tradeoff.loss_moments import Moments as Moments
    from neartwin.tradeoff.loss_moments import largest_loss as largest_loss
    from neartwin.tradeoff.loss_moments import moments as moments
    from neartwin.tradeoff.loss_moments import quadrature as quadrature
    from neartwin.tradeoff.operations import Group as Group
    from neartwin.tradeoff.operations import WithFailure as WithFailure
    from neartwin.tradeoff.operations import compose as compose
    from neartwin.tradeoff.operations import group as group
    from neartwin.tradeoff.operations import maximum as maximum
    from neartwin.tradeoff.operations import symmetrised as symmetrised
    from neartwin.tradeoff.operations import with_failure as with_failure
    from neartwin.tradeoff.polygons import excess as excess
    from neartwin.tradeoff.polygons import polygon_above as polygon_above
    from neartwin.tradeoff.polygons import polygon_below as polygon_below
    from neartwin.tradeoff.shuffling import shuffle_delta as shuffle_delta
    from neartwin.tradeoff.shuffling import shuffle_epsilon_closed_form as shuffle_epsilon_closed_form
    from neartwin.tradeoff.testing import Errors as Errors
    from neartwin.tradeoff.testing import adaptive_chain as adaptive_chain
    from neartwin.tradeoff.testing import best_test as best_test
    from neartwin.tradeoff.testing import errors_of as errors_of
    from neartwin.tradeoff.testing import post_process as post_process
    from neartwin.tradeoff.testing import worst_excess as worst_excess

# room -> its public names; imported at first use, so that who needs one family loads one
_ROOMS = {
    "tradeoff.classical": (
        "classical_delta",
        "classical_holds",
        "classical_limit",
        "classical_sigma",
        "classical_waste",
    ),
    "tradeoff.discrete": ("discrete_gaussian_delta", "discrete_gaussian_variance", "discrete_laplace", "staircase"),
    "tradeoff.duality": (
        "WitnessPair",
        "conjugate",
        "from_lines",
        "from_profile",
        "require_tradeoff",
        "violations",
        "witness_pair",
    ),
    "tradeoff.families": (
        "EpsilonDelta",
        "Gaussian",
        "Laplace",
        "epsilon_delta",
        "gaussian",
        "gaussian_mechanism",
        "identity",
        "laplace",
    ),
    "tradeoff.finite": ("FinitePair", "finite_pair", "polygon", "randomized_response", "randomized_response_power"),
    "tradeoff.gaussian_dp": (
        "delta_of",
        "epsilon_of",
        "log_delta_of",
        "mu_of",
        "mu_of_advantage",
        "sigma_of",
        "sigma_of_mu",
    ),
    "tradeoff.limits": (
        "Normalised",
        "berry_esseen",
        "clt",
        "dpsgd_mu_poisson",
        "dpsgd_mu_uniform",
        "limit_gaussian",
        "normalised",
        "poisson_limit",
    ),
    "tradeoff.loss_moments": ("Moments", "largest_loss", "moments", "quadrature"),
    "tradeoff.operations": ("Group", "WithFailure", "compose", "group", "maximum", "symmetrised", "with_failure"),
    "tradeoff.polygons": ("excess", "polygon_above", "polygon_below"),
    "tradeoff.attackers": (
        "advantage",
        "bayes_success",
        "betting_posterior",
        "mu_of_bayes_success",
        "mu_of_reconstruction",
        "mu_of_tpr",
        "reconstruction_success",
        "tpr_at",
    ),
    "tradeoff.shuffling": ("shuffle_delta", "shuffle_epsilon_closed_form"),
    "tradeoff.amplification": ("Mixture", "Subsampled", "amplified_epsilon", "poisson", "subsampled"),
    "tradeoff.testing": ("Errors", "adaptive_chain", "best_test", "errors_of", "post_process", "worst_excess"),
    "tradeoff.functions": ("TradeOff",),
    "exact": ("Estimate",),
}
_HOME = {name: f"neartwin.{room}" for room, names in _ROOMS.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a sorted list of public names, from one table
__getattr__, __dir__ = late(__name__, _HOME)
