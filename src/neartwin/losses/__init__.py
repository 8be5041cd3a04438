"""Certified composition of privacy losses."""

from typing import TYPE_CHECKING

from neartwin.late import late

if TYPE_CHECKING:
    from neartwin.exact import Estimate as Estimate
    from neartwin.losses.answer import Certified as Certified
    from neartwin.losses.bounded_range import BoundedRange as BoundedRange
    from neartwin.losses.composed import Composed as Composed
    from neartwin.losses.composed import compose as compose
    from neartwin.losses.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
    from neartwin.losses.estimates import central_limit as central_limit
    from neartwin.losses.estimates import edgeworth as edgeworth
    from neartwin.losses.estimates import saddle_point as saddle_point
    from neartwin.losses.finite import FinitePair as FinitePair
    from neartwin.losses.finite import PiecewiseLinear as PiecewiseLinear
    from neartwin.losses.finite import SubsampledFinite as SubsampledFinite
    from neartwin.losses.gaussian import Gaussian as Gaussian
    from neartwin.losses.geometric import Geometric as Geometric
    from neartwin.losses.laplace import Laplace as Laplace
    from neartwin.losses.renyi import Renyi as Renyi
    from neartwin.losses.renyi import ZeroConcentrated as ZeroConcentrated
    from neartwin.losses.response import Approx as Approx
    from neartwin.losses.response import Leak as Leak
    from neartwin.losses.response import Pure as Pure
    from neartwin.losses.response import RandomizedResponse as RandomizedResponse
    from neartwin.losses.response import SilentResponse as SilentResponse
    from neartwin.losses.staircase import Staircase as Staircase
    from neartwin.losses.subsampled_gaussian import SubsampledGaussian as SubsampledGaussian
    from neartwin.losses.subsampled_laplace import SubsampledLaplace as SubsampledLaplace

# room -> its public names; imported at first use, so that who asks about one family loads one
_ROOMS = {
    "exact": ("Estimate",),
    "losses.answer": ("Certified",),
    "losses.bounded_range": ("BoundedRange",),
    "losses.composed": (
        "Composed",
        "compose",
    ),
    "losses.discrete_gaussian": ("DiscreteGaussian",),
    "losses.estimates": (
        "central_limit",
        "edgeworth",
        "saddle_point",
    ),
    "losses.finite": (
        "FinitePair",
        "PiecewiseLinear",
        "SubsampledFinite",
    ),
    "losses.gaussian": ("Gaussian",),
    "losses.geometric": ("Geometric",),
    "losses.laplace": ("Laplace",),
    "losses.renyi": (
        "Renyi",
        "ZeroConcentrated",
    ),
    "losses.response": (
        "Approx",
        "Leak",
        "Pure",
        "RandomizedResponse",
        "SilentResponse",
    ),
    "losses.staircase": ("Staircase",),
    "losses.subsampled_gaussian": ("SubsampledGaussian",),
    "losses.subsampled_laplace": ("SubsampledLaplace",),
}
_HOME = {name: f"neartwin.{room}" for room, names in _ROOMS.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a sorted list of public names, from one table
__getattr__, __dir__ = late(__name__, _HOME)
