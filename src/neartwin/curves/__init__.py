"""Trade-off functions: what an attacker can do to tell two neighbouring data sets apart, as a value that composes."""

from typing import TYPE_CHECKING

from neartwin.late import late

if TYPE_CHECKING:
    from neartwin.curves.classical import classical_delta as classical_delta
    from neartwin.curves.classical import classical_holds as classical_holds
    from neartwin.curves.classical import classical_limit as classical_limit
    from neartwin.curves.classical import classical_sigma as classical_sigma
    from neartwin.curves.classical import classical_waste as classical_waste
    from neartwin.curves.discrete import discrete_gaussian_delta as discrete_gaussian_delta
    from neartwin.curves.discrete import discrete_gaussian_variance as discrete_gaussian_variance
    from neartwin.curves.discrete import discrete_laplace as discrete_laplace
    from neartwin.curves.discrete import staircase as staircase
    from neartwin.curves.duality import WitnessPair as WitnessPair
    from neartwin.curves.duality import conjugate as conjugate
    from neartwin.curves.duality import from_lines as from_lines
    from neartwin.curves.duality import from_profile as from_profile
    from neartwin.curves.duality import require_tradeoff as require_tradeoff
    from neartwin.curves.duality import violations as violations
    from neartwin.curves.duality import witness_pair as witness_pair
    from neartwin.curves.families import EpsilonDelta as EpsilonDelta
    from neartwin.curves.families import Gaussian as Gaussian
    from neartwin.curves.families import Laplace as Laplace
    from neartwin.curves.families import epsilon_delta as epsilon_delta
    from neartwin.curves.families import gaussian as gaussian
    from neartwin.curves.families import gaussian_mechanism as gaussian_mechanism
    from neartwin.curves.families import identity as identity
    from neartwin.curves.families import laplace as laplace
    from neartwin.curves.finite import FinitePair as FinitePair
    from neartwin.curves.finite import finite_pair as finite_pair
    from neartwin.curves.finite import polygon as polygon
    from neartwin.curves.finite import randomized_response as randomized_response
    from neartwin.curves.finite import randomized_response_power as randomized_response_power
    from neartwin.curves.gdp import delta_of as delta_of
    from neartwin.curves.gdp import epsilon_of as epsilon_of
    from neartwin.curves.gdp import log_delta_of as log_delta_of
    from neartwin.curves.gdp import mu_of as mu_of
    from neartwin.curves.gdp import mu_of_advantage as mu_of_advantage
    from neartwin.curves.gdp import sigma_of as sigma_of
    from neartwin.curves.gdp import sigma_of_mu as sigma_of_mu
    from neartwin.curves.limits import Normalised as Normalised
    from neartwin.curves.limits import berry_esseen as berry_esseen
    from neartwin.curves.limits import clt as clt
    from neartwin.curves.limits import dpsgd_mu_poisson as dpsgd_mu_poisson
    from neartwin.curves.limits import dpsgd_mu_uniform as dpsgd_mu_uniform
    from neartwin.curves.limits import limit_gaussian as limit_gaussian
    from neartwin.curves.limits import normalised as normalised
    from neartwin.curves.limits import poisson_limit as poisson_limit
    from neartwin.curves.loss_moments import Moments as Moments
    from neartwin.curves.loss_moments import largest_loss as largest_loss
    from neartwin.curves.loss_moments import moments as moments
    from neartwin.curves.loss_moments import quadrature as quadrature
    from neartwin.curves.operations import Group as Group
    from neartwin.curves.operations import WithFailure as WithFailure
    from neartwin.curves.operations import compose as compose
    from neartwin.curves.operations import group as group
    from neartwin.curves.operations import maximum as maximum
    from neartwin.curves.operations import symmetrised as symmetrised
    from neartwin.curves.operations import with_failure as with_failure
    from neartwin.curves.polygons import excess as excess
    from neartwin.curves.polygons import polygon_above as polygon_above
    from neartwin.curves.polygons import polygon_below as polygon_below
    from neartwin.curves.risk import advantage as advantage
    from neartwin.curves.risk import bayes_success as bayes_success
    from neartwin.curves.risk import betting_posterior as betting_posterior
    from neartwin.curves.risk import mu_of_bayes_success as mu_of_bayes_success
    from neartwin.curves.risk import mu_of_reconstruction as mu_of_reconstruction
    from neartwin.curves.risk import mu_of_tpr as mu_of_tpr
    from neartwin.curves.risk import reconstruction_success as reconstruction_success
    from neartwin.curves.risk import tpr_at as tpr_at
    from neartwin.curves.shuffling import shuffle_delta as shuffle_delta
    from neartwin.curves.shuffling import shuffle_epsilon_closed_form as shuffle_epsilon_closed_form
    from neartwin.curves.subsampling import Mixture as Mixture
    from neartwin.curves.subsampling import Subsampled as Subsampled
    from neartwin.curves.subsampling import amplified_epsilon as amplified_epsilon
    from neartwin.curves.subsampling import poisson as poisson
    from neartwin.curves.subsampling import subsampled as subsampled
    from neartwin.curves.testing import Errors as Errors
    from neartwin.curves.testing import adaptive_chain as adaptive_chain
    from neartwin.curves.testing import best_test as best_test
    from neartwin.curves.testing import errors_of as errors_of
    from neartwin.curves.testing import post_process as post_process
    from neartwin.curves.testing import worst_excess as worst_excess
    from neartwin.curves.tradeoff import TradeOff as TradeOff
    from neartwin.exact import Estimate as Estimate

# room -> its public names; imported at first use, so that who needs one family loads one
_ROOMS = {
    "curves.classical": ("classical_delta", "classical_holds", "classical_limit", "classical_sigma", "classical_waste"),
    "curves.discrete": ("discrete_gaussian_delta", "discrete_gaussian_variance", "discrete_laplace", "staircase"),
    "curves.duality": (
        "WitnessPair",
        "conjugate",
        "from_lines",
        "from_profile",
        "require_tradeoff",
        "violations",
        "witness_pair",
    ),
    "curves.families": (
        "EpsilonDelta",
        "Gaussian",
        "Laplace",
        "epsilon_delta",
        "gaussian",
        "gaussian_mechanism",
        "identity",
        "laplace",
    ),
    "curves.finite": ("FinitePair", "finite_pair", "polygon", "randomized_response", "randomized_response_power"),
    "curves.gdp": ("delta_of", "epsilon_of", "log_delta_of", "mu_of", "mu_of_advantage", "sigma_of", "sigma_of_mu"),
    "curves.limits": (
        "Normalised",
        "berry_esseen",
        "clt",
        "dpsgd_mu_poisson",
        "dpsgd_mu_uniform",
        "limit_gaussian",
        "normalised",
        "poisson_limit",
    ),
    "curves.loss_moments": ("Moments", "largest_loss", "moments", "quadrature"),
    "curves.operations": ("Group", "WithFailure", "compose", "group", "maximum", "symmetrised", "with_failure"),
    "curves.polygons": ("excess", "polygon_above", "polygon_below"),
    "curves.risk": (
        "advantage",
        "bayes_success",
        "betting_posterior",
        "mu_of_bayes_success",
        "mu_of_reconstruction",
        "mu_of_tpr",
        "reconstruction_success",
        "tpr_at",
    ),
    "curves.shuffling": ("shuffle_delta", "shuffle_epsilon_closed_form"),
    "curves.subsampling": ("Mixture", "Subsampled", "amplified_epsilon", "poisson", "subsampled"),
    "curves.testing": ("Errors", "adaptive_chain", "best_test", "errors_of", "post_process", "worst_excess"),
    "curves.tradeoff": ("TradeOff",),
    "exact": ("Estimate",),
}
_HOME = {name: f"neartwin.{room}" for room, names in _ROOMS.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a sorted list of public names, from one table
__getattr__, __dir__ = late(__name__, _HOME)
