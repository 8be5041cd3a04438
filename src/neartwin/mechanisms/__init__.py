"""Mechanisms: each states that this law has this curve, and what its error is.

Pages with statement, proof, rivals and the tests that try to break them: docs/mechanisms/.
"""

from typing import TYPE_CHECKING

from neartwin.late import late

if TYPE_CHECKING:
    from neartwin.mechanisms.above_threshold import AboveThreshold as AboveThreshold
    from neartwin.mechanisms.above_threshold import Session as Session
    from neartwin.mechanisms.above_threshold import theorem_accuracy as theorem_accuracy
    from neartwin.mechanisms.batches import Histogram as Histogram
    from neartwin.mechanisms.batches import of_counts as of_counts
    from neartwin.mechanisms.batches import of_histogram as of_histogram
    from neartwin.mechanisms.batches import of_linear as of_linear
    from neartwin.mechanisms.bounds import MagnitudeBounds as MagnitudeBounds
    from neartwin.mechanisms.change import Change as Change
    from neartwin.mechanisms.choice import PermuteAndFlip as PermuteAndFlip
    from neartwin.mechanisms.clip import clipped_rows as clipped_rows
    from neartwin.mechanisms.clip import squared_bound as squared_bound
    from neartwin.mechanisms.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
    from neartwin.mechanisms.exponential import ExponentialMechanism as ExponentialMechanism
    from neartwin.mechanisms.frequencies import Frequencies as Frequencies
    from neartwin.mechanisms.frequencies import debiased as debiased
    from neartwin.mechanisms.gaussian import Gaussian as Gaussian
    from neartwin.mechanisms.geometric import Geometric as Geometric
    from neartwin.mechanisms.hadamard import HadamardReports as HadamardReports
    from neartwin.mechanisms.hadamard import HadamardResponse as HadamardResponse
    from neartwin.mechanisms.laplace import Laplace as Laplace
    from neartwin.mechanisms.laws import DiscreteGaussianLaw as DiscreteGaussianLaw
    from neartwin.mechanisms.laws import GeometricLaw as GeometricLaw
    from neartwin.mechanisms.laws import Law as Law
    from neartwin.mechanisms.laws import RoundedGaussianLaw as RoundedGaussianLaw
    from neartwin.mechanisms.laws import RoundedLaplaceLaw as RoundedLaplaceLaw
    from neartwin.mechanisms.laws import StaircaseLaw as StaircaseLaw
    from neartwin.mechanisms.laws import most_noise as most_noise
    from neartwin.mechanisms.matrix import MatrixMechanism as MatrixMechanism
    from neartwin.mechanisms.matrix import eigen_design as eigen_design
    from neartwin.mechanisms.matrix import identity as identity
    from neartwin.mechanisms.matrix import intervals_tree as intervals_tree
    from neartwin.mechanisms.mean import BoundedMean as BoundedMean
    from neartwin.mechanisms.mean import MeanRelease as MeanRelease
    from neartwin.mechanisms.mean import ratio_interval as ratio_interval
    from neartwin.mechanisms.neighbours import Neighbours as Neighbours
    from neartwin.mechanisms.noisy_max import Lead as Lead
    from neartwin.mechanisms.noisy_max import NoisyMax as NoisyMax
    from neartwin.mechanisms.noisy_max import reused_value_loss as reused_value_loss
    from neartwin.mechanisms.partition import OptimalSelection as OptimalSelection
    from neartwin.mechanisms.prefix_root import PrefixRoot as PrefixRoot
    from neartwin.mechanisms.prefix_root import root_coefficients as root_coefficients
    from neartwin.mechanisms.prefix_root import root_norm_squared as root_norm_squared
    from neartwin.mechanisms.prefix_tree import PrefixTree as PrefixTree
    from neartwin.mechanisms.prefix_tree import RunningTotal as RunningTotal
    from neartwin.mechanisms.prefix_tree import intervals_change as intervals_change
    from neartwin.mechanisms.quantiles import Quantiles as Quantiles
    from neartwin.mechanisms.response import RandomizedResponse as RandomizedResponse
    from neartwin.mechanisms.shuffled import Shuffled as Shuffled
    from neartwin.mechanisms.staircase import Staircase as Staircase
    from neartwin.mechanisms.threshold import GaussianThreshold as GaussianThreshold
    from neartwin.mechanisms.threshold import UnitThreshold as UnitThreshold
    from neartwin.mechanisms.top import JointTop as JointTop
    from neartwin.mechanisms.top import PeeledTop as PeeledTop
    from neartwin.mechanisms.unary import OptimisedUnary as OptimisedUnary
    from neartwin.mechanisms.unary import Rappor as Rappor
    from neartwin.mechanisms.unary import SymmetricUnary as SymmetricUnary
    from neartwin.mechanisms.unary import one_hot as one_hot
    from neartwin.mechanisms.winners import exponential_noise_wins as exponential_noise_wins
    from neartwin.mechanisms.winners import geometric_noise_wins as geometric_noise_wins
    from neartwin.mechanisms.winners import gumbel_noise_wins as gumbel_noise_wins
    from neartwin.mechanisms.winners import laplace_noise_wins as laplace_noise_wins
    from neartwin.mechanisms.winners import log_laplace_noise_wins as log_laplace_noise_wins

# room -> its public names; imported at first use, so that who needs one mechanism loads one
_ROOMS = {
    "above_threshold": ("AboveThreshold", "Session", "theorem_accuracy"),
    "batches": ("Histogram", "of_counts", "of_histogram", "of_linear"),
    "bounds": ("MagnitudeBounds",),
    "change": ("Change",),
    "choice": ("PermuteAndFlip",),
    "clip": ("clipped_rows", "squared_bound"),
    "discrete_gaussian": ("DiscreteGaussian",),
    "exponential": ("ExponentialMechanism",),
    "frequencies": ("Frequencies", "debiased"),
    "gaussian": ("Gaussian",),
    "geometric": ("Geometric",),
    "hadamard": ("HadamardReports", "HadamardResponse"),
    "laplace": ("Laplace",),
    "laws": (
        "DiscreteGaussianLaw",
        "GeometricLaw",
        "Law",
        "RoundedGaussianLaw",
        "RoundedLaplaceLaw",
        "StaircaseLaw",
        "most_noise",
    ),
    "matrix": ("MatrixMechanism", "eigen_design", "identity", "intervals_tree"),
    "mean": ("BoundedMean", "MeanRelease", "ratio_interval"),
    "neighbours": ("Neighbours",),
    "noisy_max": ("Lead", "NoisyMax", "reused_value_loss"),
    "partition": ("OptimalSelection",),
    "prefix_root": ("PrefixRoot", "root_coefficients", "root_norm_squared"),
    "prefix_tree": ("PrefixTree", "RunningTotal", "intervals_change"),
    "quantiles": ("Quantiles",),
    "response": ("RandomizedResponse",),
    "shuffled": ("Shuffled",),
    "staircase": ("Staircase",),
    "threshold": ("GaussianThreshold", "UnitThreshold"),
    "top": ("JointTop", "PeeledTop"),
    "unary": ("OptimisedUnary", "Rappor", "SymmetricUnary", "one_hot"),
    "winners": (
        "exponential_noise_wins",
        "geometric_noise_wins",
        "gumbel_noise_wins",
        "laplace_noise_wins",
        "log_laplace_noise_wins",
    ),
}
_HOME = {name: f"neartwin.mechanisms.{room}" for room, names in _ROOMS.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a sorted list of public names, from one table
__getattr__, __dir__ = late(__name__, _HOME)
