"""Certified composition of privacy losses."""

from neartwin.losses.composition import Composition as Composition
from neartwin.losses.composition import UpperBound as UpperBound
from neartwin.losses.composition import compose as compose
from neartwin.losses.families.bounded_range import BoundedRange as BoundedRange
from neartwin.losses.families.finite import DiscreteGaussian as DiscreteGaussian
from neartwin.losses.families.finite import FinitePair as FinitePair
from neartwin.losses.families.finite import Geometric as Geometric
from neartwin.losses.families.finite import Staircase as Staircase
from neartwin.losses.families.finite import SubsampledFinite as SubsampledFinite
from neartwin.losses.families.gaussian import Gaussian as Gaussian
from neartwin.losses.families.gaussian import GaussianMixture as GaussianMixture
from neartwin.losses.families.gaussian import SubsampledGaussian as SubsampledGaussian
from neartwin.losses.families.laplace import Laplace as Laplace
from neartwin.losses.families.laplace import SubsampledLaplace as SubsampledLaplace
from neartwin.losses.families.private_selection import PrivateSelection as PrivateSelection
from neartwin.losses.families.random_choice import PublicChoice as PublicChoice
from neartwin.losses.families.random_choice import RandomAllocation as RandomAllocation
from neartwin.losses.families.randomized_response import Approx as Approx
from neartwin.losses.families.randomized_response import Leak as Leak
from neartwin.losses.families.randomized_response import Pure as Pure
from neartwin.losses.families.randomized_response import RandomizedResponse as RandomizedResponse
from neartwin.losses.families.randomized_response import SilentResponse as SilentResponse
from neartwin.losses.families.renyi import Renyi as Renyi
from neartwin.losses.families.renyi import ZeroConcentrated as ZeroConcentrated
