"""Certified composition of privacy losses."""

from neartwin.exact import Estimate
from neartwin.losses.bounded_range import BoundedRange
from neartwin.losses.composed import Certified, Composed, compose
from neartwin.losses.discrete_gaussian import DiscreteGaussian
from neartwin.losses.estimates import central_limit, edgeworth, saddle_point
from neartwin.losses.finite import FinitePair, PiecewiseLinear, SubsampledFinite
from neartwin.losses.gaussian import Gaussian
from neartwin.losses.geometric import Geometric
from neartwin.losses.laplace import Laplace
from neartwin.losses.renyi import Renyi, ZeroConcentrated
from neartwin.losses.response import Approx, Leak, Pure, RandomizedResponse, SilentResponse
from neartwin.losses.subsampled_gaussian import SubsampledGaussian
from neartwin.losses.subsampled_laplace import SubsampledLaplace

__all__ = [
    "Approx",
    "BoundedRange",
    "Certified",
    "Composed",
    "DiscreteGaussian",
    "Estimate",
    "FinitePair",
    "Gaussian",
    "Geometric",
    "Laplace",
    "Leak",
    "PiecewiseLinear",
    "Pure",
    "RandomizedResponse",
    "Renyi",
    "SilentResponse",
    "SubsampledFinite",
    "SubsampledGaussian",
    "SubsampledLaplace",
    "ZeroConcentrated",
    "central_limit",
    "compose",
    "edgeworth",
    "saddle_point",
]
