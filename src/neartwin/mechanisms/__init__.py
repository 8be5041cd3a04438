"""Mechanisms: each is a frozen value that states its law, its privacy loss and its error.

Plans use `DiscreteLaplace`, `Gaussian`, `DiscreteGaussian`, `UnitThreshold`, `GaussianThreshold`, `OptimalSelection`,
`PermuteAndFlip`, `PeeledTop`, and of `linear` the modules `count_trees`, `marginals`, `ranks` and `workloads`. The public face
alone reaches all of `local` and `theorems`, and the modules of every other mechanism.

Functions stand at one address, in the module of their mechanism; `theorems` states what the texts say of sensitivity and of
the accuracy of Laplace noise. Pages with statement, proof, rivals and the tests that try to break them: docs/mechanisms/.
"""

from neartwin.mechanisms.additive import Change as Change
from neartwin.mechanisms.additive import DiscreteGaussian as DiscreteGaussian
from neartwin.mechanisms.additive import DiscreteLaplace as DiscreteLaplace
from neartwin.mechanisms.additive import Gaussian as Gaussian
from neartwin.mechanisms.additive import Laplace as Laplace
from neartwin.mechanisms.additive import Staircase as Staircase
from neartwin.mechanisms.linear.matrix import Histogram as Histogram
from neartwin.mechanisms.linear.matrix import MatrixMechanism as MatrixMechanism
from neartwin.mechanisms.linear.matrix import PrefixTree as PrefixTree
from neartwin.mechanisms.local import HadamardResponse as HadamardResponse
from neartwin.mechanisms.local import RandomizedResponse as RandomizedResponse
from neartwin.mechanisms.local import Rappor as Rappor
from neartwin.mechanisms.local import Shuffled as Shuffled
from neartwin.mechanisms.neighbours import Neighbours as Neighbours
from neartwin.mechanisms.selection.exponential import ExponentialMechanism as ExponentialMechanism
from neartwin.mechanisms.selection.exponential import PeeledTop as PeeledTop
from neartwin.mechanisms.selection.exponential import PermuteAndFlip as PermuteAndFlip
from neartwin.mechanisms.selection.noisy_max import NoisyMax as NoisyMax
from neartwin.mechanisms.selection.quantiles import Quantiles as Quantiles
from neartwin.mechanisms.selection.sparse_vector import AboveThreshold as AboveThreshold
from neartwin.mechanisms.selection.thresholds import GaussianThreshold as GaussianThreshold
from neartwin.mechanisms.selection.thresholds import OptimalSelection as OptimalSelection
from neartwin.mechanisms.selection.thresholds import UnitThreshold as UnitThreshold
