"""The Laplace mechanism: atoms at both ends of [-e, e] and a density between, e = sensitivity / scale.

M(s) = a e^{se} + (1-a) e^{-(1+s)e}, a = (1+s)/(1+2s), is an affine combination whose coefficients sum to 1. So M(s) -
1 = a expm1(se) + (1-a) expm1(-(1+s)e) loses nothing for small e. Both directions have one law.

A few of them: delta(eps) as a finite sum over the kinks of the loss, by residues.

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

On a Poisson sample, both directions of add/remove, and replace-one. Noise of scale 1, e = sensitivity/scale. The loss has
two atoms and a ramp, whose quadrature errs by (S8). A ramp's transform falls along a line by (S9), an atom's does not.
Equations: docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from flint import arb_poly, fmpz_poly

from neartwin import balls
from neartwin.checks import in_floats, sampling_rate
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.families.gaussian import log_mixed
from neartwin.losses.inversion.total import Batch, Saddle, SumOfLosses
from neartwin.losses.summands.atoms import Layout, QuadratureSum, Weighted
from neartwin.losses.summands.base import Direction, MaximumLoss, Pair, Summand
from neartwin.losses.summands.closed_forms import Bracket, half_line_delta, half_line_epsilon
from neartwin.losses.summands.rounding import ELEMENTARY, ComplexArray, NoCertificateError, U, log_one_plus

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


def _small(tilt: float, t: FloatArray, e: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where tilt e < 1 for every e: real and imaginary part of M(tilt + it) - 1, and the bound on its error.

    M - 1 = a(e^{se} - 1) + b(e^{-(1+s)e} - 1), a + b = 1, with a = (1+s)/(1+2s) and b = s/(1+2s).
    a = 1/2 + q - ir and b = 1/2 - q + ir with q - ir = 1/(2(1+2s)). With G = e^{tilt e} - 1, F = e^{-(1+tilt)e} - 1,
    V = 1 - cos te and T = sin te, it is a(G + (1+G)(iT - V)) + b(F - (1+F)(iT + V)), whose parts are
    (G + F)/2 - (2 + G + F)V/2 + q(G - F)cos te + r(2 + G + F)T and ((G - F)/2 + q(2 + G + F))T - r(G - F)cos te.

    Error: |a| <= (1+tilt)/(1+2 tilt), |b| <= 1/2 and min(2, te) for turns, for the real part of 1/(1+2s) is positive. The terms
    are hardly larger: G + |F| is at most 2(aG + |F|/2), q <= 1/2, r <= 1/4 and rT <= te/4; each is rounded a dozen times at most,
    and G and F err by ELEMENTARY.
    """
    above, grow, fall = 1 + 2 * tilt, np.expm1(tilt * e), np.expm1(-(1 + tilt) * e)
    both, apart = 2 + grow + fall, grow - fall
    q = (0.125 * above) / (t * t + 0.25 * above * above)
    r = t * (2 / above)  # over q
    half = t * (0.5 * e)
    sine = np.sin(half)
    versine, turn = 2 * sine * sine, 2 * sine * np.cos(half)
    cosine = (1 - versine) * apart
    x = q * (cosine + r * (turn * both)) - versine * (0.5 * both) + 0.5 * (grow + fall)
    y = q * (turn * both - r * cosine) + turn * (0.5 * apart)
    still, turning = (1 + tilt) / above * grow - 0.5 * fall, (1 + tilt) / above * (1 + grow) + 0.5
    turns = 2.0 if float(t.max()) * float(e.max()) > 8 else t * e
    return x, y, 4.1 * ELEMENTARY * (still + turning * turns) + 9 * U * turning * e * t


class LaplaceSum(Batch):
    """A batch of Laplace mechanisms, e_i composed n_i times."""

    def __init__(self, rates: FloatArray, counts: FloatArray, exact: Sequence[Fraction] = ()) -> None:
        """rates: e_i, each within U of the exact value; counts: n_i as floats, exact below 2^53; exact: the values, if known."""
        super().__init__(rates, counts, np.full(len(rates), -math.log(2)))
        self.exact = exact

    @cached_property
    def residues(self) -> ResidueSum | None:
        """The sum of residues, for a few uses."""
        counts = self.n.tolist()
        return ResidueSum(self.exact, [int(n) for n in counts]) if self.exact and ResidueSum.serves(counts) else None

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """From N = (1+s)e^{se} + s e^{-(1+s)e} = M (1+2s), scaled by e^{-se}."""
        e, v = self.e, 1 / (1 + 2 * tilt)
        z = np.exp(-(1 + 2 * tilt) * e)
        n0 = (1 + tilt) + tilt * z
        n1 = 1 + (1 + tilt) * e + (1 - tilt * e) * z
        n2 = (2 * e + (1 + tilt) * e * e) + (tilt * e * e - 2 * e) * z
        first = n1 / n0
        k2 = n2 / n0 - first * first + 4 * v * v
        floor = 1e-3 * np.minimum(e, v) ** 2  # cancellation for tiny e; a heuristic needs only the size
        k0 = tilt * e + np.log(n0 * v)
        return float(self.n @ k0), float(self.n @ (first - 2 * v)), float(self.n @ np.maximum(k2, floor))

    def each(self, tilt: float) -> tuple[FloatArray, FloatArray]:
        """In one of two forms.

        Small form, tilt e < 1: terms (1+tilt)/(1+2 tilt) expm1(tilt e) and tilt/(1+2 tilt) expm1(-(1+tilt)e) err by 2 ELEMENTARY
        relative (arguments and e included, since expm1 there has logarithmic derivative at most 2). Otherwise
        K = tilt e + log(a + (1-a) z): 4U tilt e from the product, ELEMENTARY + z (1+2 tilt) e U from the logarithm.
        """
        e, a, b = self.e, (1 + tilt) / (1 + 2 * tilt), tilt / (1 + 2 * tilt)
        first, second = a * np.expm1(np.minimum(tilt * e, 1.0)), b * np.expm1(-(1 + tilt) * e)
        small = tilt * e < 1
        z = np.exp(-(1 + 2 * tilt) * e)
        value = np.where(small, np.log1p(first + second), tilt * e + np.log(a + b * z))
        near = 3 * ELEMENTARY * (np.abs(first) + np.abs(second)) * 2 + ELEMENTARY * np.abs(value)
        return value, np.where(small, near, 4 * ELEMENTARY + 8 * U * tilt * e)

    def turned(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Log M(tilt+it) - log M(tilt), each side with its own error."""
        base, base_error = self.each(tilt)
        near = tilt * float(self.e.max()) < 1
        one, bound = log_one_plus(*_small(tilt, t, self.e)) if near else self._great(tilt, t)
        one -= base
        return one, bound + base_error

    def _great(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Log M_i(tilt + it) for a block of t (rows) and every e (columns), where tilt e is not below 1 for every e.

        M e^{-se} = a + b z with z = e^{-(1+2s)e}, a = (1+s)/(1+2s), b = s/(1+2s): error 4 ELEMENTARY (|a| + |b||z|)
        plus 16U te |b||z|, for an elementary factor errs by ELEMENTARY relative and an angle te by 8U|te|. se is added
        with error 8U(tilt + t)e.
        """
        e = self.e
        s = tilt + 1j * t
        b = s / (1 + 2 * s)
        a = 1 - b
        size_a, size_b = np.abs(a), np.abs(b)
        angle = t * e
        w = a + b * np.exp(-(1 + 2 * tilt) * e) * np.exp(-2j * angle)
        size_z = np.exp(-(1 + 2 * tilt) * e)
        moved = (
            4 * ELEMENTARY * (size_a + size_b * size_z) + (16 * angle + 4 * (1 + 2 * tilt) * e) * U * size_b * size_z
        )
        value, bound = log_one_plus(w.real - 1, w.imag, moved)
        return value + s * e, bound + 8 * U * (tilt * e + angle)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """|M(s)| <= (1 + 1/|1+2s|)(e^{tilt e} + e^{-(1+tilt)e})/2 with |1+2s| >= 2t: falling in t. Divided by M(tilt)."""
        e = self.e
        z = np.exp(-(1 + 2 * tilt) * e)
        whole = ((1 + tilt) + tilt * z) / (1 + 2 * tilt)
        part = (1 + 1 / math.hypot(1 + 2 * tilt, 2 * t)) * 0.5 * (1 + z)
        each = np.log(np.minimum(part / whole * (1 + 4 * ELEMENTARY + 8 * U * (1 + 2 * tilt) * e * z), 1.0))
        return float(self.n @ each) * (1 - 1e-12)

    def turning(self, tilt: float, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """A bound from the atoms' turns.

        With z = e^{-(1+2 tilt)e} and h = te: |A|^2 = A(tilt)^2 (1 - c sin^2 h), c = 4z/(1+z)^2, and |D| <= A(tilt) y,
        y = 1/|1+2s|. Hence |M(s)|^2 <= A(tilt)^2 (1 - c u^2 + 2y + y^2) for every u <= |sin h|.
        """
        z = np.exp(-(1 + 2 * tilt) * self.e)
        y = 1 / np.hypot(1 + 2 * tilt, 2 * t)
        still = np.log(0.5 * (1 + z) * (1 + 2 * tilt) / ((1 + tilt) + tilt * z)) + 8 * ELEMENTARY
        grown = float(self.n @ still) * (1 + 64 * U)
        return self.e, 4 * z / np.square(1 + z), y * (2 + y) * (1 + 8 * U), grown

    @property
    def has_closed_form(self) -> bool:
        """A few uses have."""
        return self.residues is not None

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """The sum of residues, for a few uses."""
        return None if self.residues is None else self.residues.delta(eps)

    def inverse(self, low_delta: float, high_delta: float) -> tuple[float, float] | None:
        """The inverse, from the sum of residues."""
        if self.residues is None:
            return None
        guess = Saddle.for_delta(SumOfLosses([self]), high_delta, 1e-9).eps
        return self.residues.epsilon(low_delta, high_delta, guess)


@dataclass(frozen=True, slots=True)
class LaplacePair(Pair):
    """Laplace noise at distance e in units of its scale."""

    merges: ClassVar[float] = 2

    rate: Fraction

    def repeated(self, count: int) -> Summand:
        """A batch of one kind."""
        return LaplaceSum(np.array([float(self.rate)]), np.array([float(count)]), [self.rate])

    @classmethod
    def merged(cls, uses: Sequence[tuple[LaplacePair, int]]) -> list[Summand]:
        """One batch, its arithmetic vectorised over the kinds."""
        exact = [pair.rate for pair, _ in uses]
        n = np.array([count for _, count in uses], dtype=float)
        return [LaplaceSum(np.array([float(rate) for rate in exact]), n, exact)]


@dataclass(frozen=True, slots=True, init=False)
class Laplace(PrivacyLoss):
    """The Laplace mechanism, epsilon = l1 sensitivity / scale; its whole curve, not only its pure epsilon.

    Errors: `ParameterError` unless epsilon is finite and positive. Dwork, Roth 2014, theorem 3.6.

    >>> whole = 100 * Laplace(epsilon="0.1")
    >>> 4.692667414680189 in whole.epsilon(1e-6)
    True
    """

    both_ways: ClassVar[bool] = True
    rate: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        """epsilon: l1 sensitivity over the scale of the noise."""
        object.__setattr__(self, "rate", in_floats(epsilon=rational(epsilon=epsilon)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return LaplacePair(self.rate)

    def stated_pure(self) -> Fraction | None:
        """Its parameter."""
        return self.rate


POINTS = 16
MOST_PANELS = 1 << 15
FEW = 32  # panels at which a bound is evaluated; the others lie between
RHO = np.array([1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0])


@cache
def legendre() -> tuple[FloatArray, FloatArray]:
    """Points and weights on [-1, 1]; NumPy's are within 8U and, relative, 256U (the tests measure)."""
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    return points, weights


class SubsampledLaplaceSum(QuadratureSum):
    """`count` steps of one direction."""

    def __init__(self, rate: Fraction, q: Fraction, count: int, direction: Direction) -> None:
        """rate: e; q: the sampling probability, strictly between 0 and 1."""
        self.e, self.q, self.count = float(rate), float(q), count
        self.exact = (rate, q)
        self.direction: Direction = "replace" if direction == "replace_back" else direction
        self._goal = math.log(2.0**-58 / count)
        self.variation = min(count * self.q * (1 + 4 * U), 1.0)  # P and Q are equal unless the unit takes part
        self._found = Layout(-1.0, -1.0, 0.0, 0, 0.0, (0.0, 0.0), 0.0)  # the last
        values, errors = self.log_r(np.array([self.e, -self.e]))
        (high, low), (high_error, low_error) = self._ends = values.tolist(), errors.tolist()  # of log r
        end, error = {
            "remove": (high, high_error),
            "add": (-low, low_error),
            "replace": (high - low, high_error + low_error),
        }[self.direction]
        share = 0.5 if self.direction == "add" else 0.5 * math.exp(high - self.e)
        self._largest, self._largest_error = float(end), float(error) + 4 * U * float(end)
        self._share = math.log(share)
        log_mass = count * self._share
        mass = math.exp(log_mass) * (1 - 1e-10) if log_mass > -600 else 0.0
        most, least = (self._largest + sign * self._largest_error for sign in (1, -1))
        self.top = MaximumLoss(count * most * (1 + 4 * U), mass, count * least * (1 - 4 * U))
        # for each ramp in its own y in (0, e): power of r(y) apart from tilt, its tilt part, rest, rest tilt
        self._ramps: tuple[tuple[float, float, float, float], ...] = {
            "remove": ((1.0, 1.0, 0.0, 0.0),),
            "add": ((0.0, -1.0, 0.0, 0.0),),
            "replace": ((1.0, 1.0, 0.0, -low), (0.0, -1.0, low, low)),
        }[self.direction]

    def log_r(self, l: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log(1 - q + q e^l), and its error: l errs by 4U(|l| + e), q by U."""
        return log_mixed(l, 4 * U * (np.abs(l) + self.e), self.q)

    def _panel_error(self, tilt: float, reach: float, panels: int) -> float:
        """Log of (S8) for all panels of all ramps together over M(tilt), the best of a few ellipses; grows with reach."""
        w = self.e / (2 * panels)
        rho = RHO[w * (RHO - 1 / RHO) < math.pi / 2]
        theta = w * (rho - 1 / rho)
        shift = w * (rho + 1 / rho) / 2
        centre = w * (2 * np.arange(panels) + 1)[:, None]
        if panels > FEW:  # one of each group, its ellipse enlarged to hold those of all: every bound is monotone in x
            centre = centre[:: panels // FEW]
            shift = shift + w * (panels // FEW) * 2
        high, low = (np.minimum(2 * (centre + sign * shift) - self.e, 600.0) for sign in (1, -1))
        log_high = np.log1p(self.q * np.expm1(high))
        log_low = np.log1p(self.q * np.expm1(low)) + np.log(np.cos(theta / 2))
        grown = self.q * np.exp(high)
        turn = np.arctan2(grown * np.sin(theta), 1 - self.q + grown * np.cos(theta))
        factor = math.log(32 / 15 * w) - (2 * POINTS - 2) * np.log(rho) - np.log1p(-(rho**-2.0))
        total = np.full(len(rho), -math.inf)
        for power, tilted_law, rest, rest_tilt in self._ramps:
            a = power + tilted_law * tilt
            log = (
                factor
                + rest
                + tilt * rest_tilt
                - (centre - shift)
                + a * (log_high if a > 0 else log_low)
                + reach * turn
            )
            total = np.logaddexp(total, log.max(axis=0) + math.log(panels))
        # K(tilt) is at least 0 (Jensen), and at least what the atom of the largest loss says
        return float(total.min(initial=math.inf)) - max(0.0, self._share + tilt * self._largest) * (1 - 1e-12)

    def layout(self, low: float, high: float, reach: float) -> Layout:
        """A power of two of panels; half as many prove too little, at this reach as at any longer one."""
        if self._found.high == high and self._found.reach == reach:
            return self._found
        panels = 1
        if self._found.high == high and self._found.reach < reach:
            panels = round(2 * self.e / self._found.step)
        while (error := self._panel_error(high, reach, panels)) > self._goal:
            panels *= 2
            if panels > MOST_PANELS:
                raise NoCertificateError
        ends = (-self.e, self.e)
        size = POINTS * panels * len(self._ramps) + 2
        self._found = Layout(low, high, reach, size, 2 * self.e / panels, ends, error)
        return self._found

    def nodes(self, layout: Layout) -> tuple[FloatArray, Weighted]:
        """Both atoms and the panels."""
        panels = round(2 * self.e / layout.step)
        points, weights = legendre()
        w = self.e / (2 * panels)
        y = (w * (2 * np.arange(panels)[:, None] + 1) + w * points).ravel()
        log_weight = np.log(np.tile(weights * (0.5 * w), panels)) - y
        plus, error = self.log_r(2 * y - self.e)
        (top, low), (top_error, low_error) = self._ends
        half, far = math.log(0.5), math.log(0.5) - self.e
        law = {  # losses, log P-masses: below the ramp, above it, on it
            "remove": ([low, top, *plus], [half + low, far + top, *(log_weight + plus)]),
            "add": ([-low, -top, *(-plus)], [half, far, *log_weight]),
            "replace": (
                [low - top, top - low, *(plus - low), *(low - plus)],
                [far + low, far + top, *(log_weight + plus), *(log_weight + low)],
            ),
        }[self.direction]
        losses, log_masses = (np.array(part) for part in law)
        copies = 2 if self.direction == "replace" else 1
        errors = np.concatenate([[low_error + top_error] * 2, np.tile(error, copies)]) + low_error * (copies - 1)
        mass_error = 256 * U + 6 * ELEMENTARY + errors + 4 * U * (np.abs(log_masses) + self.e)
        law_here = Weighted(losses, log_masses, mass_error, errors)
        return losses, replace(law_here, outside=4 * math.exp(layout.log_error))

    def apart(self, tilt: float) -> tuple[float, float]:
        """(a, c): on the line of tilt the atoms have a transform of at most a M(tilt), the ramps of at most c M(tilt)/t."""
        tilted = self._nodes(tilt, 0.0).tilted(tilt)
        (top, low), _ = self._ends
        ramps, fall = 0.0, math.exp(-3 * self.e)
        for power, tilted_law, rest, rest_tilt in self._ramps:
            a = 1 + power + tilted_law * tilt
            first, last = math.exp(a * low - tilted.log_mgf), math.exp(a * top - tilted.log_mgf)
            variation = max(first, last) * (1 - fall) + abs(last - first)
            constant = math.exp(self.e + rest + tilt * rest_tilt) / (4 * self.q)
            ramps += constant * (first + last * fall + variation)
        atoms = float(tilted.shifted.weights[:2].sum())
        return atoms * (1 + 1e-9) + 4 * tilted.weighted.outside, ramps * (1 + 1e-9)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """Atoms keep their share, ramps fall like 1/t (S9)."""
        if t <= 0:
            return 0.0
        atoms, ramps = self.apart(tilt)
        return self.count * math.log(min(atoms + ramps / t, 1.0)) * (1 - 1e-12)

    # -- one step -----------------------------------------------------------------------------------------------------
    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """One step, by its half-line."""
        return half_line_delta(self._one_step, eps) if self.count == 1 else None

    def inverse(self, low_delta: float, high_delta: float) -> tuple[float, float] | None:
        """One step, by its half-line."""
        return half_line_epsilon(self._one_step, low_delta, high_delta, 1.01 * self.top.loss)

    def _one_step(self, eps: float) -> Any:
        """Delta of one step at one eps, a ball.

        The threshold x of {L > eps} has r(x) = e^{+-eps} = 1 - q + v, or r(|x|) = e^{|eps|} r(0) under replace. Beyond 0 and e no
        loss changes.
        """
        (e, q), level = map(balls.ball, self.exact), balls.ball(eps)
        if self.direction == "replace":
            v = abs(level).expm1() * (1 + q * (-e).expm1()) + q * (-e).exp()
        else:
            v = (level if self.direction == "remove" else -level).expm1() + q
        l = -e if v <= 0 else (v / q).log()
        if l >= e:
            return 0 if self.direction != "add" and eps > 0 else -level.expm1()
        if l <= -e and self.direction != "replace":
            return 0 if self.direction == "add" else -level.expm1()
        x = (e + l) / 2
        here, there = (-x).exp() / 2, (x - e).exp() / 2
        if self.direction == "remove":
            return q * (1 - there) - v * here
        if self.direction == "add":
            return level.exp() * (v * (1 - here) - q * there)
        away = (-x - e).exp() / 2  # of the record that became its opposite
        if eps >= 0:
            return q * (1 - there - level.exp() * away) - (1 - q) * level.expm1() * here
        return q * (1 - away - level.exp() * there) - (1 - q) * level.expm1() * (1 - here)


@dataclass(frozen=True, slots=True)
class SubsampledLaplacePair(Pair):
    """One step in one direction."""

    rate: Fraction
    q: Fraction
    direction: Direction

    def repeated(self, count: int) -> Summand:
        """The composition."""
        return SubsampledLaplaceSum(self.rate, self.q, count, self.direction)


@dataclass(frozen=True, slots=True, init=False)
class SubsampledLaplace(PrivacyLoss):
    """The Laplace mechanism on a Poisson sample: each unit takes part with probability `rate`, independently.

    epsilon: sensitivity over scale of the mechanism on the sample; under replace-one the unit moves from
    +sensitivity to -sensitivity. rate = 1 is the Laplace mechanism. Errors: `ParameterError`.

    >>> (1000 * SubsampledLaplace(epsilon=1, rate="0.01")).epsilon(1e-6).upper < 1.3
    True
    """

    epsilon: Fraction
    rate: Fraction

    def __init__(self, *, epsilon: Number, rate: Number) -> None:
        """epsilon, rate: exact; 0 < rate <= 1."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))
        if self.epsilon > 700:
            raise ParameterError("epsilon", float(self.epsilon), "must be at most 700: e^epsilon has no float beyond")
        object.__setattr__(self, "rate", sampling_rate(rate=rational(rate=rate)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair of this direction; at rate 1 the plain mechanism (twice as far apart under replace-one)."""
        if self.rate == 1:
            return LaplacePair(2 * self.epsilon if direction.startswith("replace") else self.epsilon)
        return SubsampledLaplacePair(self.epsilon, self.rate, "replace" if direction == "replace_back" else direction)
