"""Mechanisms: each states that this law has this curve, and what its error is.

Pages with statement, proof, rivals and the tests that try to break them: docs/mechanisms/.
"""

from neartwin.mechanisms.above_threshold import AboveThreshold, Session, theorem_accuracy
from neartwin.mechanisms.batches import Histogram, of_counts, of_histogram, of_linear
from neartwin.mechanisms.bounds import MagnitudeBounds
from neartwin.mechanisms.change import Change
from neartwin.mechanisms.choice import PermuteAndFlip
from neartwin.mechanisms.clip import clipped_rows, squared_bound
from neartwin.mechanisms.discrete_gaussian import DiscreteGaussian
from neartwin.mechanisms.exponential import ExponentialMechanism
from neartwin.mechanisms.frequencies import Frequencies, debiased
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.mechanisms.geometric import Geometric
from neartwin.mechanisms.hadamard import HadamardReports, HadamardResponse
from neartwin.mechanisms.laplace import Laplace
from neartwin.mechanisms.laws import (
    DiscreteGaussianLaw,
    GeometricLaw,
    Law,
    RoundedGaussianLaw,
    RoundedLaplaceLaw,
    StaircaseLaw,
    most_noise,
)
from neartwin.mechanisms.matrix import MatrixMechanism, eigen_design, identity, intervals_tree
from neartwin.mechanisms.mean import BoundedMean, MeanRelease, ratio_interval
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.noisy_max import Lead, NoisyMax, reused_value_loss
from neartwin.mechanisms.partition import OptimalSelection
from neartwin.mechanisms.prefix_root import PrefixRoot, root_coefficients, root_norm_squared
from neartwin.mechanisms.prefix_tree import PrefixTree, RunningTotal, intervals_change
from neartwin.mechanisms.quantiles import Quantiles
from neartwin.mechanisms.response import RandomizedResponse
from neartwin.mechanisms.shuffled import Shuffled
from neartwin.mechanisms.staircase import Staircase
from neartwin.mechanisms.threshold import GaussianThreshold, UnitThreshold
from neartwin.mechanisms.top import JointTop, PeeledTop
from neartwin.mechanisms.unary import OptimisedUnary, Rappor, SymmetricUnary, one_hot
from neartwin.mechanisms.winners import (
    exponential_noise_wins,
    geometric_noise_wins,
    gumbel_noise_wins,
    laplace_noise_wins,
    log_laplace_noise_wins,
)

__all__ = [
    "AboveThreshold",
    "BoundedMean",
    "Change",
    "DiscreteGaussian",
    "DiscreteGaussianLaw",
    "ExponentialMechanism",
    "Frequencies",
    "Gaussian",
    "GaussianThreshold",
    "Geometric",
    "GeometricLaw",
    "HadamardReports",
    "HadamardResponse",
    "Histogram",
    "JointTop",
    "Laplace",
    "Law",
    "Lead",
    "MagnitudeBounds",
    "MatrixMechanism",
    "MeanRelease",
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
    "RoundedGaussianLaw",
    "RoundedLaplaceLaw",
    "RunningTotal",
    "Session",
    "Shuffled",
    "Staircase",
    "StaircaseLaw",
    "SymmetricUnary",
    "UnitThreshold",
    "clipped_rows",
    "debiased",
    "eigen_design",
    "exponential_noise_wins",
    "geometric_noise_wins",
    "gumbel_noise_wins",
    "identity",
    "intervals_change",
    "intervals_tree",
    "laplace_noise_wins",
    "log_laplace_noise_wins",
    "most_noise",
    "of_counts",
    "of_histogram",
    "of_linear",
    "one_hot",
    "ratio_interval",
    "reused_value_loss",
    "root_coefficients",
    "root_norm_squared",
    "squared_bound",
    "theorem_accuracy",
]
