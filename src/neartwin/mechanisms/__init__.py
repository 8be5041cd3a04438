"""Mechanisms: each states that this law has this curve, and what its error is.

Pages with statement, proof, rivals and the tests that try to break them: docs/mechanisms/.
"""

from neartwin.mechanisms.additive.discrete_gaussian import DiscreteGaussian
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.additive.laplace import Laplace
from neartwin.mechanisms.additive.magnitude_bounds import MagnitudeBounds
from neartwin.mechanisms.additive.mean import BoundedMean, MeanRelease, clipped_rows, ratio_interval, squared_bound
from neartwin.mechanisms.additive.staircase import Staircase
from neartwin.mechanisms.linear.continual import (
    PrefixRoot,
    PrefixTree,
    RunningTotal,
    intervals_change,
    root_coefficients,
    root_norm_squared,
)
from neartwin.mechanisms.linear.matrix import (
    Histogram,
    MatrixMechanism,
    eigen_design,
    identity,
    intervals_tree,
    of_counts,
    of_histogram,
    of_linear,
)
from neartwin.mechanisms.local.frequencies import Frequencies, debiased
from neartwin.mechanisms.local.hadamard import HadamardReports, HadamardResponse
from neartwin.mechanisms.local.randomized_response import RandomizedResponse
from neartwin.mechanisms.local.shuffled import Shuffled
from neartwin.mechanisms.local.unary import OptimisedUnary, Rappor, SymmetricUnary, one_hot
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.noise_laws import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    Law,
    RoundedGaussianLaw,
    RoundedLaplaceLaw,
    StaircaseLaw,
    most_noise,
)
from neartwin.mechanisms.selection.exponential import ExponentialMechanism
from neartwin.mechanisms.selection.noisy_max import (
    Lead,
    NoisyMax,
    discrete_laplace_noise_wins,
    exponential_noise_wins,
    gumbel_noise_wins,
    laplace_noise_wins,
    log_laplace_noise_wins,
    reused_value_loss,
)
from neartwin.mechanisms.selection.permute_and_flip import PermuteAndFlip
from neartwin.mechanisms.selection.quantiles import Quantiles
from neartwin.mechanisms.selection.sparse_vector import AboveThreshold, Session, theorem_accuracy
from neartwin.mechanisms.selection.thresholds import GaussianThreshold, OptimalSelection, UnitThreshold
from neartwin.mechanisms.selection.top_k import JointTop, PeeledTop
from neartwin.mechanisms.sensitivity import Change

__all__ = [
    "AboveThreshold",
    "BoundedMean",
    "Change",
    "DiscreteGaussian",
    "DiscreteGaussianLaw",
    "DiscreteLaplace",
    "DiscreteLaplaceLaw",
    "ExponentialMechanism",
    "Frequencies",
    "Gaussian",
    "GaussianThreshold",
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
    "discrete_laplace_noise_wins",
    "eigen_design",
    "exponential_noise_wins",
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
