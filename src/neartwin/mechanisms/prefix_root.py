"""Continual counting by the square root of the prefix-sum matrix: the best known error for Gaussian noise.

The matrix of all prefix sums is C C with C lower-triangular Toeplitz, C_k = binom(2k, k) / 4^k. Release y = C' x + z, where
C' is C rounded to a grid, so that y is exact on the grid; the totals are B y with B = prefix C'^-1, which is
post-processing. Rows of B and columns of C both have squared length near (ln n)/pi + 1, so the worst error grows like ln n / pi,
against ln n / ln 2 squared-rooted for the tree. Fichtenberger, Henzinger, Upadhyay 2023.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import fsum

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Composed
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.tradeoff import TradeOff

_GRID_BITS = 20  # C' = C to 6 digits: the error grows by less than 1e-5 of itself
_LONGEST = 1 << 16


def root_coefficients(steps: int) -> FloatArray:
    """binom(2k, k) / 4^k for k = 0, ..., steps - 1: the Taylor coefficients of (1 - z)^(-1/2)."""
    k = np.arange(1, integer(at_least=1, steps=steps))
    result: FloatArray = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    return result


def root_norm_squared(steps: int) -> float:
    """The sum of (binom(2k, k) / 4^k)^2 over k < steps: squared length of C's longest column and of its longest row.

    With exact C it is also the worst query's standard deviation for one unit of noise at sensitivity 1.

    >>> round(root_norm_squared(1024), 12)
    3.272554150273
    """
    return fsum(np.square(root_coefficients(steps)).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class PrefixRoot:
    """Running totals over `steps` steps. coefficients: 2^20 C', whole numbers; each: the noise on the grid of 2^-20."""

    steps: int
    coefficients: NDArray[np.int64]
    each: Gaussian

    @classmethod
    def for_gdp(cls, *, mu: Fraction, steps: int, sensitivity: int = 1) -> "PrefixRoot":
        """mu-GDP for a unit that changes one step by at most `sensitivity`, under either relation.

        The column of the first step is the longest; its squared length is summed exactly.
        """
        if integer(at_least=1, steps=steps) > _LONGEST:
            raise ParameterError("steps", steps, f"must be at most {_LONGEST}")
        whole = np.rint(root_coefficients(steps) * 2**_GRID_BITS).astype(np.int64)
        squared = sum(c * c for c in whole.tolist()) * integer(at_least=1, sensitivity=sensitivity) ** 2
        return cls(steps, whole, Gaussian.for_gdp(mu=mu, l2_squared=squared))

    def curve(self) -> TradeOff:
        """G_mu: the totals are post-processing."""
        return self.each.curve()

    def losses(self) -> Composed:
        """The same as a factor for composition."""
        return self.each.losses()

    @property
    def _back(self) -> FloatArray:
        """The Taylor coefficients of (1 / (1 - z)) / C'(z): the first column of B, on the grid's scale."""
        c = self.coefficients.astype(np.float64)
        inverse = np.zeros(self.steps)
        inverse[0] = 1 / c[0]
        for k in range(1, self.steps):
            inverse[k] = -(c[k:0:-1] @ inverse[:k]) / c[0]
        result: FloatArray = np.cumsum(inverse)
        return result

    @property
    def deviations(self) -> FloatArray:
        """(steps,) the standard deviation of each total."""
        result: FloatArray = np.sqrt(np.cumsum(np.square(self._back)) * self.each.law.variance)
        return result

    def release(self, increments: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> FloatArray:
        """(n,) all noisy totals of a finished stream, unbiased. increments: (n,) whole numbers, n at most `steps`."""
        steps = np.asarray(increments)
        if steps.size > self.steps:
            raise ParameterError("steps", self.steps, f"must be at least the {steps.size} increments given")
        x, c = steps.astype(object), self.coefficients.astype(object)
        exact = np.array([int((c[: t + 1][::-1] * x[: t + 1]).sum()) for t in range(steps.size)], dtype=object)
        y = self.each.noisy(exact, source=source).astype(np.float64)
        result: FloatArray = np.convolve(y, self._back)[: steps.size]
        return result
