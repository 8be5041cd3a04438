r"""Many atoms at many equally spaced frequencies: sum_j w_j e^{i k d l_j}, k = 0..K, by one real FFT.

Each weight is spread over a grid of G >= 8K points by a Gaussian, transformed, and the Gaussian divided out (Dutt, Rokhlin
1993; Greengard, Lee 2004). In grid units, y = l d G/2pi, kappa = k/G <= 1/8 and g(x) = e^{-b x^2}, Poisson summation gives

    sum_m g(m - y) e^{2 pi i kappa m} = sum_r e^{2 pi i (kappa + r) y} h(kappa + r),    h(v) = sqrt(pi/b) e^{-pi^2 v^2/b}.

Errors, relative to sum w and after division by h(kappa) >= h(1/8) = h(0)/HEIGHT:
  alias       sum_{r != 0} e^{-pi^2 ((kappa+r)^2 - kappa^2)/b} <= 1.01 e^{-0.75 pi^2/b}, from r = -1;
  truncation  points further than P from y: at most 2 e^{-b P^2}/(1 - e^{-2bP}) over h(1/8);
  kernel      x = m - y errs by U(P + 1), so g by the factor 2b|x| U(P+1), on average over g below 16U; exp by ELEMENTARY and
              the rounding of its argument, on average below 4U;
  spreading   atoms are dealt to several grids in turn, so that a crowd of near ones is shared out; a point of one grid that
              collects c numbers errs by c U of itself, the sum of k grids by k U: the average of c over the grids is measured;
  FFT         every output is a sum over inputs of products of log2 G butterflies, each with a complex product (sqrt 5 U), a
              sum (U) and a twiddle (2U): 8U per level, relative to the sum of moduli.
The last three are multiplied by HEIGHT. The rounding of y moves an atom by 4U|l|, which the caller charges as a moved loss.
"""

from __future__ import annotations

import math

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.rounding import ELEMENTARY, ComplexArray, U

SHARPNESS = 0.185  # b
REACH = 15  # P
HEIGHT = math.exp(math.pi**2 / (64 * SHARPNESS)) * 1.001
ALIAS = 1.02 * math.exp(-0.75 * math.pi**2 / SHARPNESS)
TRUNCATION = 2.1 * math.exp(-SHARPNESS * REACH**2) * HEIGHT / math.sqrt(math.pi / SHARPNESS)
BLOCK = 1 << 17  # atoms of one grid at most
MOST_GRIDS = 32  # dealt to at least


def cost(atoms: int, frequencies: int) -> int:
    """About how many exponentials it is worth."""
    return 60 * atoms + 30 * frequencies


def transform(losses: FloatArray, weights: FloatArray, step: float, count: int) -> tuple[ComplexArray, float]:
    """The sums at 0, step, ..., count * step, and a bound on the absolute error of each; weights not negative."""
    size = 1 << max(8, math.ceil(math.log2(8 * max(count, 1))))
    offsets = np.arange(1 - REACH, REACH + 1)
    hands = max(1, min(MOST_GRIDS, len(losses) // 256), -(-len(losses) // BLOCK))
    grid, crowd = np.zeros(size), 0.0
    for hand in range(hands):
        y = losses[hand::hands] * (step * size / (2 * math.pi))
        base = np.floor(y)
        near = ((base.astype(np.int64)[:, None] + offsets) % size).ravel()
        x = offsets - (y - base)[:, None]
        spread = (np.exp(-SHARPNESS * x * x) * weights[hand::hands, None]).ravel()
        one = np.bincount(near, weights=spread, minlength=size)
        crowd += float(one @ np.bincount(near, minlength=size))
        grid += one
    crowd = crowd / max(float(grid.sum()), 1e-300) + hands + 2
    found = np.conj(np.fft.rfft(grid)[: count + 1])
    ratio = (np.arange(count + 1) / size) ** 2 * (math.pi**2 / SHARPNESS)
    found *= np.exp(ratio) / math.sqrt(math.pi / SHARPNESS)
    rounding = (8 * math.log2(size) + crowd + 20 + 24) * U + 2 * ELEMENTARY
    error = (ALIAS + TRUNCATION + HEIGHT * rounding * 1.01) * float(weights.sum()) * (1 + 1e-9)
    return found, error
