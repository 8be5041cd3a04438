"""How far apart two laws are: KL, max, approximate max, total variation, hockey-stick and Renyi divergence.

Lemmas of the texts and exact verdicts on (epsilon, delta) stand in `theorems`.
"""

from neartwin.divergences.closed_forms import LaplacePair as LaplacePair
from neartwin.divergences.closed_forms import gaussian_pair as gaussian_pair
from neartwin.divergences.closed_forms import kl_normal as kl_normal
from neartwin.divergences.closed_forms import laplace_pair as laplace_pair
from neartwin.divergences.closed_forms import renyi_normal as renyi_normal
from neartwin.divergences.finite import FinitePair as FinitePair
from neartwin.divergences.finite import Pair as Pair
from neartwin.divergences.finite import discrete_laplace_pair as discrete_laplace_pair
from neartwin.divergences.finite import finite_pair as finite_pair
from neartwin.divergences.finite import k_ary_response_pair as k_ary_response_pair
from neartwin.divergences.finite import randomized_response_pair as randomized_response_pair
