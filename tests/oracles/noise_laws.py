"""Distribution functions of the noise laws, computed with mpmath alone, and a test of fit that can say no.

`Oracle.cdf(k)` is P(X <= k). Nothing here is shared with the code under test: sums and closed forms, not tables.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import mpmath as mp
import numpy as np
from scipy.special import chdtrc, pdtrc

mp.mp.dps = 40
THRESHOLD = 1e-9  # a right sampler fails once in a billion runs


@dataclass(frozen=True)
class Oracle:
    """A law: its distribution function, and the real number whose quantiles place the bins."""

    cdf: Callable[[int], mp.mpf]
    spread: float
    one_sided: bool = False


def geometric(scale):
    r = mp.exp(-1 / mp.mpf(scale.numerator) * scale.denominator)

    def cdf(k):
        return 1 - r ** (k + 1) / (1 + r) if k >= 0 else r ** (-k) / (1 + r)

    return Oracle(cdf, float(scale))


def one_sided_geometric(scale):
    r = mp.exp(-1 / mp.mpf(scale.numerator) * scale.denominator)
    return Oracle(lambda k: 1 - r ** (k + 1) if k >= 0 else mp.mpf(0), float(scale), one_sided=True)


def rounded_laplace(scale):
    t = mp.mpf(scale.numerator) / scale.denominator

    def cdf(k):
        y = k + mp.mpf(1) / 2
        return 1 - mp.exp(-y / t) / 2 if y > 0 else mp.exp(y / t) / 2

    return Oracle(cdf, float(scale))


def rounded_gaussian(variance):
    sigma = mp.sqrt(mp.mpf(variance.numerator) / variance.denominator)
    return Oracle(lambda k: mp.ncdf((k + mp.mpf(1) / 2) / sigma), float(sigma))


def discrete_gaussian(variance):
    """A sum below sigma = 2000; above, Euler-Maclaurin at midpoints, whose error is far below 1 / sigma**4."""
    v = mp.mpf(variance.numerator) / variance.denominator
    sigma = mp.sqrt(v)
    if sigma > 2000:

        def smooth(k):
            y = k + mp.mpf(1) / 2
            return mp.ncdf(y / sigma) + y / sigma**3 * mp.npdf(y / sigma) / 24

        return Oracle(smooth, float(sigma))
    reach = int(14 * sigma) + 3
    terms = [mp.exp(-(mp.mpf(k) ** 2) / (2 * v)) for k in range(reach)]
    total = 2 * mp.fsum(terms) - 1
    upper = [mp.mpf(0)]  # upper[i]: the sum of the last i terms
    for term in reversed(terms):
        upper.append(upper[-1] + term)

    def cdf(k):
        if k < 0:
            return upper[max(0, reach + k)] / total
        return 1 - upper[max(0, reach - k - 1)] / total

    return Oracle(cdf, float(sigma))


def from_weights(weights):
    """A symmetric law from its weights at 0, 1, 2, ... (a list that holds all that matters)."""
    total = 2 * mp.fsum(weights) - weights[0]
    reach = len(weights)
    upper = [mp.mpf(0)]  # upper[i]: the sum of the last i weights
    for weight in reversed(weights):
        upper.append(upper[-1] + weight)

    def cdf(k):
        beyond = upper[max(0, reach - abs(k) - (k >= 0))] / total
        return 1 - beyond if k >= 0 else beyond

    return Oracle(cdf, float(mp.fsum(k * w for k, w in enumerate(weights)) / mp.fsum(weights)) + 0.3)


def edges(oracle, bins):
    """Bin edges e: bins are (-oo, e_0], (e_0, e_1], ..., spread over centre and tails."""
    grid = np.sinh(np.linspace(-3, 3, bins)) / np.sinh(3) * 8 * oracle.spread
    found = np.unique(np.append(np.floor(grid).astype(np.int64), [-1, 0]))
    return found[found >= 0] if oracle.one_sided else found


class Fit:
    """Counts of draws in bins, tested against an oracle; feed it in parts when there are many.

    Twice: fine bins see a fault in any place, coarse ones a small shift or a wrong scale with few draws.
    """

    def __init__(self, oracle):
        self.oracle, self.edges = oracle, (edges(oracle, 300), edges(oracle, 14))
        self.counts = tuple(np.zeros(each.size + 1) for each in self.edges)

    def add(self, draws):
        for each, counts in zip(self.edges, self.counts, strict=True):
            counts[:] += np.bincount(np.searchsorted(each, draws, side="left"), minlength=counts.size)
        return self

    def p_value(self, oracle=None):
        """The smaller of the two chi-square p-values."""
        cdf = (oracle or self.oracle).cdf
        p_values = []
        for each, counts in zip(self.edges, self.counts, strict=True):
            at = [mp.mpf(0), *(cdf(int(e)) for e in each), mp.mpf(1)]
            p_values.append(chi_square(counts, np.array([float(b - a) for a, b in pairwise(at)])))
        return min(p_values)


def chi_square(counts, probabilities):
    """The p-value; bins that expect fewer than 10 are taken together, and are Poisson where they still do."""
    n = counts.sum()
    expected = probabilities * n
    rare = expected < 10
    few, mean = counts[rare].sum(), expected[rare].sum()
    if mean >= 10:
        counts, expected = np.append(counts[~rare], few), np.append(expected[~rare], mean)
        seldom = 1.0
    else:  # two draws where a twentieth is expected happen once in 800 times, and would weigh 76 in a sum of squares
        counts, expected = counts[~rare], expected[~rare]
        seldom = float(pdtrc(few - 1, mean)) if few else 1.0
    if expected.size < 2:
        return seldom
    return min(seldom, float(chdtrc(expected.size - 1, ((counts - expected) ** 2 / expected).sum())))
