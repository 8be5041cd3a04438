"""Trade-off functions: what an attacker can do to tell two neighbouring data sets apart, as a value that composes.

Limit theorems stand in `central_limit`, the classical Gaussian formula in `classical`, tests of two finite laws in `attackers`.
"""

from neartwin.exact import Estimate as Estimate
from neartwin.tradeoff.amplification import amplified_epsilon as amplified_epsilon
from neartwin.tradeoff.amplification import poisson as poisson
from neartwin.tradeoff.amplification import shuffle_delta as shuffle_delta
from neartwin.tradeoff.amplification import subsampled as subsampled
from neartwin.tradeoff.attackers import advantage as advantage
from neartwin.tradeoff.attackers import mu_of_tpr as mu_of_tpr
from neartwin.tradeoff.attackers import reconstruction_success as reconstruction_success
from neartwin.tradeoff.attackers import tpr_at as tpr_at
from neartwin.tradeoff.families import EpsilonDelta as EpsilonDelta
from neartwin.tradeoff.families import Gaussian as Gaussian
from neartwin.tradeoff.families import Laplace as Laplace
from neartwin.tradeoff.families import epsilon_delta as epsilon_delta
from neartwin.tradeoff.families import gaussian as gaussian
from neartwin.tradeoff.families import gaussian_mechanism as gaussian_mechanism
from neartwin.tradeoff.families import identity as identity
from neartwin.tradeoff.families import laplace as laplace
from neartwin.tradeoff.finite import discrete_laplace as discrete_laplace
from neartwin.tradeoff.finite import finite_pair as finite_pair
from neartwin.tradeoff.finite import polygon as polygon
from neartwin.tradeoff.finite import randomized_response as randomized_response
from neartwin.tradeoff.finite import randomized_response_power as randomized_response_power
from neartwin.tradeoff.finite import staircase as staircase
from neartwin.tradeoff.functions import TradeOff as TradeOff
from neartwin.tradeoff.gaussian_dp import delta_of as delta_of
from neartwin.tradeoff.gaussian_dp import epsilon_of as epsilon_of
from neartwin.tradeoff.gaussian_dp import mu_of as mu_of
from neartwin.tradeoff.gaussian_dp import mu_of_advantage as mu_of_advantage
from neartwin.tradeoff.gaussian_dp import sigma_of as sigma_of
from neartwin.tradeoff.gaussian_dp import sigma_of_mu as sigma_of_mu
from neartwin.tradeoff.operations import compose as compose
from neartwin.tradeoff.operations import from_profile as from_profile
from neartwin.tradeoff.operations import group as group
from neartwin.tradeoff.operations import maximum as maximum
from neartwin.tradeoff.operations import symmetrised as symmetrised
from neartwin.tradeoff.operations import violations as violations
from neartwin.tradeoff.operations import with_failure as with_failure
from neartwin.tradeoff.operations import witness_pair as witness_pair
from neartwin.tradeoff.polygons import excess as excess
