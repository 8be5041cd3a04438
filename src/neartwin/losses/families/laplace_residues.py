r"""A few Laplace mechanisms composed: delta(eps) as a finite sum over the kinks of the loss, by residues.

Mechanism i has the rate e_i and n_i uses; N is the number of all uses and T the largest loss, the sum of n_i e_i. With
a = (1+s)/(1+2s) and b = s/(1+2s), one use has M_i(s) = a e^{s e_i} + b e^{-(1+s) e_i}. So the product of all M_i is a sum over
j = (j_1, j_2, ...), 0 <= j_i <= n_i. Write k for the sum of the j_i, and l_j for that of (n_i - 2 j_i) e_i, the kink of j.

Divide by s(s+1) and invert. A term whose kink is above eps gives its residues at 0, -1/2 and -1; the others give nothing. The
weights e^{-j_i e_i} join one factor, and with v = 1 + 2s, for -T < eps < T,

    delta(eps) = 1 + 2^{1-N} e^{(eps - T)/2} [v^{N-1}] e^{-v eps/2} S(v),
    S(v) = sum over l_j > eps of prod_i C(n_i, j_i) e^{v l_j/2} (1+v)^{N-k-1} (v-1)^{k-1}.

Only k = 0, the largest kink, has a residue at 0, which is 1; only k = N, the least, has one at -1. Between kinks, delta - 1 is
an exponential times one polynomial in eps. The terms cancel, so `balls` raises the precision until two neighbouring floats
enclose the sum.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb_poly, fmpz_poly

from neartwin import balls
from neartwin.exact import FloatArray
from neartwin.losses.summands.half_line import Bracket, half_line_delta, half_line_epsilon

MOST_USES, MOST_KINKS = 200, 256  # beyond, the contour is faster
CLOSE = 0.01  # how far off a guess of eps is expected to be


class ResidueSum:
    """The privacy profile of a few Laplace mechanisms.

    Args:
        rates: Epsilon of each mechanism, exact.
        counts: Number of uses of each; `serves` says whether they are few enough.
    """

    def __init__(self, rates: Sequence[Fraction], counts: Sequence[int]) -> None:
        ways = {(Fraction(0), 0): 1}  # of a kink and its k
        for rate, count in zip(rates, counts, strict=True):
            more: dict[tuple[Fraction, int], int] = {}
            for (kink, k), number in ways.items():
                for j in range(count + 1):
                    place = kink + (count - 2 * j) * rate, k + j
                    more[place] = more.get(place, 0) + number * math.comb(count, j)
            ways = more
        self.uses = sum(counts)
        self.kinks = sorted(ways.items(), reverse=True)
        self.falling = [-kink for (kink, _), _ in self.kinks]
        self.top = self.kinks[0][0][0]
        self._sums: dict[int, list[Any]] = {}  # by precision: S over the first kinks
        self._polynomials: dict[tuple[int, int], Any] = {}  # by precision and cell

    @staticmethod
    def serves(counts: Sequence[float]) -> bool:
        """Whether the sum is shorter than a contour."""
        return sum(counts) <= MOST_USES and math.prod(count + 1 for count in counts) <= MOST_KINKS

    def _series(self, kink: Fraction, k: int, ways: int) -> Any:
        """One term of S, up to v^{N-1}."""
        n = self.uses
        factors = fmpz_poly([1, 1]) ** (n - k - 1)
        factors *= fmpz_poly([-1, 1]) ** (k - 1) if k else fmpz_poly([-1] * n)
        half, term = balls.ball(kink) / 2, balls.ball(ways)
        powers = [term]
        for i in range(1, n):
            term = term * half / i
            powers.append(term)
        return (arb_poly(factors.coeffs()[:n]) * arb_poly(powers)).truncate(n)

    def _polynomial(self, cell: int) -> Any:
        """[v^{N-1}] e^{-v eps/2} S(v) as a polynomial in eps, S over the first `cell` kinks."""
        here = balls.precision(), cell
        if here not in self._polynomials:
            sums = self._sums.setdefault(here[0], [arb_poly()])
            for (kink, k), ways in self.kinks[len(sums) - 1 : cell]:
                sums.append(sums[-1] + self._series(kink, k, ways))
            share, result = balls.ball(1), []
            for i in range(self.uses):
                result.append(sums[cell][self.uses - 1 - i] * share)
                share = -share / (2 * (i + 1))
            self._polynomials[here] = arb_poly(result)
        return self._polynomials[here]

    def _ball(self, eps: float) -> Any:
        """Delta at one eps, at the working precision of `balls`."""
        if eps >= self.top:
            return 0
        x = balls.ball(eps)
        if eps <= -self.top:
            return 1 - x.exp()
        cell = bisect_left(self.falling, Fraction(-eps))  # kinks above eps
        grown = ((x - balls.ball(self.top)) / 2).exp()
        return 1 + grown * self._polynomial(cell)(x) / (1 << (self.uses - 1))

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on delta at each eps, (n,) floats that are neighbours."""
        return half_line_delta(self._ball, eps)

    def epsilon(self, low_delta: float, high_delta: float, guess: float) -> Bracket | None:
        """Bounds on the eps >= 0 at which delta lies between two floats.

        Args:
            low_delta: Least value of the wanted delta.
            high_delta: Largest value of the wanted delta.
            guess: About the answer; a poor one costs time alone.

        Returns:
            (lower, upper).
        """
        low, high = 0.0, math.nextafter(float(self.top), math.inf)
        ends = np.clip(guess + CLOSE * abs(guess) * np.array([-1.0, 1.0]), low, high)
        delta_low, delta_high = self.delta(ends)
        low = float(ends[0]) if delta_low[0] > high_delta else low
        high = float(ends[1]) if delta_high[1] < low_delta else high
        return half_line_epsilon(self._ball, low_delta, high_delta, high, low)
