"""Mechanisms: each is a frozen value that states its law, its trade-off curve and its error.

Plans use `DiscreteLaplace`, `Gaussian`, `DiscreteGaussian`, `UnitThreshold`, `GaussianThreshold`, `OptimalSelection`,
`PermuteAndFlip`, `PeeledTop`, and of `linear` the modules `count_trees`, `marginals`, `ranks` and `workloads`. The public face
alone reaches all of `local` and `theorems`, and the modules of every other mechanism.

Functions stand at one address, in the module of their mechanism; `theorems` states what the texts say of sensitivity and of
the accuracy of Laplace noise. Pages with statement, proof, rivals and the tests that try to break them: docs/mechanisms/.
"""

from neartwin.mechanisms.additive.discrete_gaussian import DiscreteGaussian
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.additive.laplace import Laplace
from neartwin.mechanisms.additive.magnitude_bounds import MagnitudeBounds
from neartwin.mechanisms.additive.mean import BoundedMean
from neartwin.mechanisms.additive.staircase import Staircase
from neartwin.mechanisms.linear.continual import PrefixRoot, PrefixTree
from neartwin.mechanisms.linear.matrix import Histogram, MatrixMechanism
from neartwin.mechanisms.local.hadamard import HadamardResponse
from neartwin.mechanisms.local.randomized_response import RandomizedResponse
from neartwin.mechanisms.local.shuffled import Shuffled
from neartwin.mechanisms.local.unary import OptimisedUnary, Rappor, SymmetricUnary
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.exponential import ExponentialMechanism
from neartwin.mechanisms.selection.noisy_max import NoisyMax
from neartwin.mechanisms.selection.permute_and_flip import PermuteAndFlip
from neartwin.mechanisms.selection.quantiles import Quantiles
from neartwin.mechanisms.selection.sparse_vector import AboveThreshold
from neartwin.mechanisms.selection.thresholds import GaussianThreshold, OptimalSelection, UnitThreshold
from neartwin.mechanisms.selection.top_k import JointTop, PeeledTop
from neartwin.mechanisms.sensitivity import Change

__all__ = [
    "AboveThreshold",
    "BoundedMean",
    "Change",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "Gaussian",
    "GaussianThreshold",
    "HadamardResponse",
    "Histogram",
    "JointTop",
    "Laplace",
    "MagnitudeBounds",
    "MatrixMechanism",
    "Neighbours",
    "NoisyMax",
    "OptimalSelection",
    "OptimisedUnary",
    "PeeledTop",
    "PermuteAndFlip",
    "PrefixRoot",
    "PrefixTree",
    "Quantiles",
    "RandomizedResponse",
    "Rappor",
    "Shuffled",
    "Staircase",
    "SymmetricUnary",
    "UnitThreshold",
]
