"""Certified composition of privacy losses."""

from neartwin.losses.composition import Certified, Composition, compose
from neartwin.losses.families.bounded_range import BoundedRange
from neartwin.losses.families.discrete_gaussian import DiscreteGaussian
from neartwin.losses.families.discrete_laplace import Geometric, Staircase
from neartwin.losses.families.finite import FinitePair, PiecewiseLinear
from neartwin.losses.families.gaussian import Gaussian
from neartwin.losses.families.gaussian_mixture import GaussianMixture
from neartwin.losses.families.laplace import Laplace
from neartwin.losses.families.public_choice import PublicChoice
from neartwin.losses.families.random_allocation import RandomAllocation
from neartwin.losses.families.randomized_response import Approx, Leak, Pure, RandomizedResponse, SilentResponse
from neartwin.losses.families.renyi import Renyi, ZeroConcentrated
from neartwin.losses.families.subsampled_finite import SubsampledFinite
from neartwin.losses.families.subsampled_gaussian import SubsampledGaussian
from neartwin.losses.families.subsampled_laplace import SubsampledLaplace

__all__ = [
    "Approx",
    "BoundedRange",
    "Certified",
    "Composition",
    "DiscreteGaussian",
    "FinitePair",
    "Gaussian",
    "GaussianMixture",
    "Geometric",
    "Laplace",
    "Leak",
    "PiecewiseLinear",
    "PublicChoice",
    "Pure",
    "RandomAllocation",
    "RandomizedResponse",
    "Renyi",
    "SilentResponse",
    "Staircase",
    "SubsampledFinite",
    "SubsampledGaussian",
    "SubsampledLaplace",
    "ZeroConcentrated",
    "compose",
]
