"""The Laplace mechanism: atoms at both ends of [-e, e] and a density between, e = sensitivity / scale.

M(s) = a e^{se} + (1-a) e^{-(1+s)e}, a = (1+s)/(1+2s): an affine combination whose coefficients sum to 1, so that
M(s) - 1 = a expm1(se) + (1-a) expm1(-(1+s)e) loses nothing for small e. The same law in both directions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from neartwin.checks import in_floats
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.families.laplace_residues import ResidueSum
from neartwin.losses.inversion import saddle
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.base import CellMasses, Direction, MaximumAtom, MaximumLoss, Pair, Ratio, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, ComplexArray, U, log_one_plus

BLOCK = 1 << 18
SOME = 16  # kinds whose turns are looked at together
NEAR = 1 << 15  # numbers that stay near the processor while they are
TERMS = (-2 / 467775, 2 / 14175, -1 / 315, 2 / 45, -1 / 3, 1.0)  # of sin^2 by powers of the square, the last first
SINES = [term * math.pi ** (2 * (6 - place)) for place, term in enumerate(TERMS)]
BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def _small(tilt: float, t: FloatArray, e: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """The small form of `_block`: real and imaginary part of M(tilt + it) - 1.

    a = 1/2 + q - ir and b = 1/2 - q + ir with q - ir = 1/(2(1+2s)). With G = e^{tilt e} - 1, F = e^{-(1+tilt)e} - 1,
    V = 1 - cos te and T = sin te, it is a(G + (1+G)(iT - V)) + b(F - (1+F)(iT + V)), whose parts are
    (G + F)/2 - (2 + G + F)V/2 + q(G - F)cos te + r(2 + G + F)T and ((G - F)/2 + q(2 + G + F))T - r(G - F)cos te.
    """
    above, (grow, fall) = 1 + 2 * tilt, _grown(tilt, e)
    both, apart = 2 + grow + fall, grow - fall
    q = (0.125 * above) / (t * t + 0.25 * above * above)
    r = t * (2 / above)  # over q
    half = t * (0.5 * e)
    sine = np.sin(half)
    turn = sine + sine
    versine = turn * sine
    turn *= np.cos(half)
    cosine = (1 - versine) * apart
    x = cosine + r * (turn * both)
    x *= q
    x -= versine * (0.5 * both)
    x += 0.5 * (grow + fall)
    y = turn * both - r * cosine
    y *= q
    y += turn * (0.5 * apart)
    return x, y


def _grown(tilt: float, e: FloatArray | float) -> tuple[FloatArray | float, FloatArray | float]:
    """The changes e^{tilt e} - 1 and e^{-(1+tilt)e} - 1, of one kind in plain floats."""
    if isinstance(e, float):
        return math.expm1(tilt * e), math.expm1(-(1 + tilt) * e)
    return np.expm1(tilt * e), np.expm1(-(1 + tilt) * e)


def _small_error(tilt: float, longest: float, e: FloatArray | float) -> tuple[FloatArray | float, FloatArray | float]:
    """(fixed, per t): the bound on the error of `_small`, with |a| <= (1+tilt)/(1+2lam), |b| <= 1/2 and min(2, te) for the turns.

    a is 1/2 + 1/(2(1+2s)) and b is 1/2 - 1/(2(1+2s)), and the real part of 1/(1+2s) is positive. The terms are hardly larger:
    G + |F| is at most 2(aG + |F|/2), q <= 1/2, r <= 1/4 and rT <= te/4; each is rounded a dozen times at most, and G and F err by
    ELEMENTARY.
    """
    a, (grow, fall) = (1 + tilt) / (1 + 2 * tilt), _grown(tilt, e)
    still, turning = a * grow - 0.5 * fall, a * (1 + grow) + 0.5
    per_turn = 9 * U * turning * e
    bounded = longest * (e if isinstance(e, float) else float(e.max())) > 8
    fixed, per_t = still + (2 * turning if bounded else 0.0), 0.0 * e if bounded else turning * e
    return 4.1 * ELEMENTARY * fixed, 4.1 * ELEMENTARY * per_t + per_turn


def _squared_sines(turns: FloatArray, t: FloatArray, reach: FloatArray) -> FloatArray:
    """(kinds, n): a lower bound on sin^2 h for all h within `reach` of turns t, all three in units of pi.

    With d the distance from the next whole multiple, less reach and at most pi/2: sin^2 d >= d^2 - d^4/3 + 2d^6/45 - d^8/315 +
    2d^10/14175 - 2d^12/467775, for the terms alternate and fall.
    """
    square = np.multiply.outer(turns, t)
    square -= np.rint(square)
    np.abs(square, out=square)
    square -= reach[:, None]
    np.maximum(square, 0.0, out=square)
    square *= square
    found: FloatArray = square * SINES[0]
    for coefficient in SINES[1:]:
        found += coefficient
        found *= square
    return found


class LaplaceSum(Summand):
    """A batch of Laplace mechanisms, e_i composed n_i times."""

    def __init__(self, rates: FloatArray, counts: FloatArray, exact: Sequence[Fraction] = ()) -> None:
        """rates: e_i, each within U of the exact value; counts: n_i as floats, exact below 2^53; exact: the values, if known."""
        self.e, self.n = rates, counts
        self.residues = (
            ResidueSum(exact, [int(n) for n in counts]) if exact and ResidueSum.serves(counts.tolist()) else None
        )
        self.first, self.times = float(rates[0]), float(counts[0])  # the only kind, where there is but one
        self._at: dict[float, tuple[FloatArray, FloatArray, BoolArray]] = {}  # of the last tilt
        self.copies = int(self.times)
        if len(rates) == 1:
            self.fastest_frequency, copies = self.first, self.times
            reach = self.fastest_frequency * copies
        else:
            self.fastest_frequency, copies, reach = float(rates.max()), float(counts.sum()), float(rates @ counts)
        log_mass = -math.log(2) * copies
        mass, slack = math.exp(log_mass) * (1 - 1e-12) if log_mass > -700 else 0.0, 4 * U * (len(rates) + 2)
        self.top = MaximumLoss(reach * (1 + slack), mass, reach * (1 - slack))

    def span(self, low_tail: float, high_tail: float) -> tuple[float, float]:
        """Both atoms."""
        del low_tail, high_tail
        return -self.first, self.first

    def cells(self, edges: FloatArray) -> CellMasses | None:
        """P(L > l) = 1 - e^{(l-e)/2}/2, Q(L > l) = e^{-(l+e)/2}/2 inside; an edge nearer to an atom than U e is moved."""
        if len(self.e) > 1:
            return None
        e = self.first
        inside = np.clip(edges, -e, e)
        low, high = edges < -e, edges >= e
        p = np.where(high, 0.0, np.where(low, 1.0, 1 - 0.5 * np.exp(0.5 * (inside - e))))
        q = np.where(high, 0.0, np.where(low, 1.0, 0.5 * np.exp(-0.5 * (inside + e))))
        own = np.append(np.full(len(edges), 2 * ELEMENTARY + 4 * U * e), 0.0) + 2 * ELEMENTARY
        p_cell, q_cell = (-np.diff(tail, prepend=1.0, append=0.0) for tail in (p, q))
        return CellMasses(p_cell, own, q_cell, own, 4 * U * e)

    def peaks(self) -> list[MaximumAtom]:
        """Half of P at e, beside it the density e^{(l-e)/2}/4: with z = e^{-g/2}, within is (1 - z)/2, beside (1 - z)^2/2."""
        ramp = 2 * float(self.e.min()) * (1 - 4 * U)  # it ends at -e, further all the rest may be within

        def within(gap: FloatArray) -> FloatArray:
            return np.where(gap < ramp, -0.5 * np.expm1(-0.5 * gap) * (1 + 2 * ELEMENTARY), 0.5)

        def beside(gap: FloatArray) -> tuple[FloatArray, FloatArray]:
            square = 0.5 * np.square(np.expm1(-0.5 * gap))
            inside = gap < ramp
            return np.where(inside, square * (1 - 3 * ELEMENTARY), 0.0), np.where(
                inside, square * (1 + 3 * ELEMENTARY), np.inf
            )

        return [
            MaximumAtom(int(n), float(e), U * float(e), -math.log(2), U, within, beside)
            for e, n in zip(self.e, self.n, strict=True)
        ]

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """From N = (1+s)e^{se} + s e^{-(1+s)e} = M (1+2s), scaled by e^{-se}."""
        if len(self.e) == 1:
            return self._cumulants_of_one(tilt)
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

    def _cumulants_of_one(self, tilt: float) -> tuple[float, float, float]:
        """The same in plain floats."""
        e, n, v = self.first, self.times, 1 / (1 + 2 * tilt)
        z = math.exp(-(1 + 2 * tilt) * e)
        n0 = (1 + tilt) + tilt * z
        first = (1 + (1 + tilt) * e + (1 - tilt * e) * z) / n0
        k2 = ((2 * e + (1 + tilt) * e * e) + (tilt * e * e - 2 * e) * z) / n0 - first * first + 4 * v * v
        k0 = tilt * e + math.log(n0 * v)
        return n * k0, n * (first - 2 * v), n * max(k2, 1e-3 * min(e, v) ** 2)

    def _mgf(self, tilt: float) -> tuple[FloatArray, FloatArray, BoolArray]:
        """For each e: K(tilt), its error, and whether the small form was used.

        Small form, tilt e < 1: terms (1+tilt)/(1+2lam) expm1(tilt e) and tilt/(1+2lam) expm1(-(1+tilt)e) err by 2 ELEMENTARY
        relative (arguments and e included, since expm1 there has logarithmic derivative at most 2). Otherwise
        K = tilt e + log(a + (1-a) z): 4U tilt e from the product, ELEMENTARY + z (1+2lam) e U from the logarithm.
        """
        if tilt in self._at:
            return self._at[tilt]
        e, a, b = self.e, (1 + tilt) / (1 + 2 * tilt), tilt / (1 + 2 * tilt)
        first, second = a * np.expm1(np.minimum(tilt * e, 1.0)), b * np.expm1(-(1 + tilt) * e)
        small = tilt * e < 1
        z = np.exp(-(1 + 2 * tilt) * e)
        value = np.where(small, np.log1p(first + second), tilt * e + np.log(a + b * z))
        near = 3 * ELEMENTARY * (np.abs(first) + np.abs(second)) * 2 + ELEMENTARY * np.abs(value)
        self._at = {tilt: (value, np.where(small, near, 4 * ELEMENTARY + 8 * U * tilt * e), small)}
        return self._at[tilt]

    def _mgf_of_one(self, tilt: float) -> tuple[float, float]:
        """The same for the only kind, in plain floats."""
        e, a, b = self.first, (1 + tilt) / (1 + 2 * tilt), tilt / (1 + 2 * tilt)
        if tilt * e < 1:
            first, second = a * math.expm1(tilt * e), b * math.expm1(-(1 + tilt) * e)
            value = math.log1p(first + second)
            return value, 6 * ELEMENTARY * (first - second) + ELEMENTARY * abs(value)
        return tilt * e + math.log(a + b * math.exp(-(1 + 2 * tilt) * e)), 4 * ELEMENTARY + 8 * U * tilt * e

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Sum of n_i K_i; the sum of len(e) numbers adds gamma times their absolute sum."""
        if len(self.e) == 1:
            one, slack = self._mgf_of_one(tilt)
            n = self.times
            return n * one, n * slack * 1.01 + 5 * U * n * abs(one)
        value, error, _ = self._mgf(tilt)
        total = float(self.n @ value)
        return total, float(self.n @ error) * 1.01 + (len(self.e) + 4) * U * float(self.n @ np.abs(value))

    def log_mgf_roughly_above(self, s: float) -> float:
        """Of one kind in plain floats: K = s e + log(a + (1-a) z), which errs by less than 1e-13 (1 + s e): a tenth for 10^12."""
        if len(self.e) > 1:
            return super().log_mgf_roughly_above(s)
        e, a = self.first, (1 + s) / (1 + 2 * s)
        one = s * e + math.log(a + (1 - a) * math.exp(-(1 + 2 * s) * e))
        return self.times * (one + 1e-13 * (1 + s * e))

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Sum over the batch, in blocks; log M(tilt+it) - log M(tilt), each side with its own error."""
        if len(self.e) == 1:
            n, (one_base, one_error) = self.times, self._mgf_of_one(tilt)
            value, error = self._block(tilt, t, self.first, small=tilt * self.first < 1)
            value -= one_base
            error += 5 * U * (np.abs(value.real) + np.abs(value.imag))
            return n * value, (n * 1.01) * error + n * one_error
        base, base_error, small = self._mgf(tilt)
        value, error = np.zeros(len(t), dtype=complex), np.zeros(len(t))
        rows = max(1, BLOCK // len(self.e))
        for start in range(0, len(t), rows):
            part = slice(start, start + rows)
            one, bound = self._block(tilt, t[part, None], self.e, small=bool(small.all()))
            one -= base
            value[part] = one @ self.n
            size = np.abs(one.real) + np.abs(one.imag)
            error[part] = bound @ self.n + (len(self.e) + 4) * U * (size @ self.n)
        return value, error * 1.01 + float(self.n @ base_error)

    def _block(
        self, tilt: float, t: FloatArray, e: FloatArray | float, *, small: bool
    ) -> tuple[ComplexArray, FloatArray]:
        """Log M_i(tilt + it) for a block of t (rows) and every e (columns), or one e.

        Small form, where tilt e < 1 for every e: M - 1 = a(e^{se} - 1) + b(e^{-(1+s)e} - 1), a + b = 1, with a =
        (1+s)/(1+2s) and b = s/(1+2s). Every elementary factor errs by ELEMENTARY relative and every angle te by
        8U|te|, so the sum errs by 4 ELEMENTARY (|a||e^{se} - 1| + |b||e^{-(1+s)e} - 1|) plus 8U te (|a| e^{tilt e} +
        |b|). Otherwise M e^{-se} = a + b z with z = e^{-(1+2s)e}: error 4 ELEMENTARY (|a| + |b||z|) plus 16U te
        |b||z|, and se is added with error 8U(tilt + t)e.
        """
        if small:
            fixed, per_t = _small_error(tilt, float(np.max(t)), e)
            return log_one_plus(*_small(tilt, t, e), fixed + per_t * t)
        s = tilt + 1j * t
        b = s / (1 + 2 * s)
        a = 1 - b
        size_a, size_b = np.abs(a), np.abs(b)
        angle = t * e
        z = np.exp(-(1 + 2 * tilt) * e) * np.exp(-2j * angle)
        w = a + b * z
        size_z = np.exp(-(1 + 2 * tilt) * e)
        moved = (
            4 * ELEMENTARY * (size_a + size_b * size_z) + (16 * angle + 4 * (1 + 2 * tilt) * e) * U * size_b * size_z
        )
        value, bound = log_one_plus(w.real - 1, w.imag, moved)
        return value + s * e, bound + 8 * U * (tilt * e + angle)

    def ratio(self, tilt: float, t: FloatArray) -> Ratio | None:
        """Of one kind in its small form."""
        e = self.first
        if len(self.e) > 1 or tilt * e >= 1:
            return None
        fixed, per_t = _small_error(tilt, float(t[-1]), e)
        x, y = _small(tilt, t, e)
        base, base_error = self._mgf_of_one(tilt)
        return Ratio(x, y, float(fixed), float(per_t), base, base_error, self.times)

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """One for each kind."""
        del tilt, t
        return len(self.e) * frequencies

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """|M(s)| <= (1 + 1/|1+2s|)(e^{tilt e} + e^{-(1+tilt)e})/2 with |1+2s| >= 2t: falling in t. Divided by M(tilt)."""
        del until
        if len(self.e) == 1:
            one = self.first
            fall = math.exp(-(1 + 2 * tilt) * one)
            most = (
                (1 + 1 / math.hypot(1 + 2 * tilt, 2 * t))
                * 0.5
                * (1 + fall)
                * (1 + 2 * tilt)
                / ((1 + tilt) + tilt * fall)
            )
            share = most * (1 + 4 * ELEMENTARY + 8 * U * (1 + 2 * tilt) * one * fall)
            return self.times * math.log(min(share, 1.0)) * (1 - 1e-12)
        e = self.e
        z = np.exp(-(1 + 2 * tilt) * e)
        whole = ((1 + tilt) + tilt * z) / (1 + 2 * tilt)
        part = (1 + 1 / math.hypot(1 + 2 * tilt, 2 * t)) * 0.5 * (1 + z)
        each = np.log(np.minimum(part / whole * (1 + 4 * ELEMENTARY + 8 * U * (1 + 2 * tilt) * e * z), 1.0))
        return float(self.n @ each) * (1 - 1e-12)

    def log_modulus_bound(self, tilt: float, t: FloatArray, width: float, enough: FloatArray) -> FloatArray:
        """By the atoms' turns, some kinds at a time until that is enough.

        In draws.py's terms, with h = te: |A|^2 = A(tilt)^2 (1 - c sin^2 h), c = 4z/(1+z)^2, and |D| <= A(tilt) y, y = 1/|1+2s|.
        Hence |M(s)|^2 <= A(tilt)^2 (1 - c u^2 + 2y + y^2) for every u <= |sin h|; within r <= pi/2 of h that is at least the
        sine of h's distance from the next multiple of pi, less r. r is e width and what h errs by; u^2 errs by 64U more, c and
        the rest by less than 192U together.
        """
        z = np.exp(-(1 + 2 * tilt) * self.e)
        c, far = 4 * z / np.square(1 + z), np.maximum(t - width, 0.0)
        y = 1 / np.hypot(1 + 2 * tilt, 2 * far)
        more = y * (2 + y) * (1 + 8 * U) + 256 * U
        still = np.log(0.5 * (1 + z) * (1 + 2 * tilt) / ((1 + tilt) + tilt * z)) + 8 * ELEMENTARY
        bound: FloatArray = np.full(len(t), float(self.n @ still) * (1 + 64 * U))
        left, rows = np.arange(len(t)), max(1, NEAR // SOME)
        reach = np.minimum(self.e * ((width * (1 + 4 * U) + 8 * U * float(t[-1])) * (1 + 8 * U) / math.pi), 0.5)
        for first in range(0, len(self.e), SOME):
            some = slice(first, first + SOME)
            turns, n = self.e[some] / math.pi, 0.5 * self.n[some]
            for start in range(0, len(left), rows):
                part = left[start : start + rows]
                square = 1 + more[part] - c[some, None] * _squared_sines(turns, t[part], reach[some])
                alike = n[0] * np.log(np.multiply.reduce(square)) if n.min() == n.max() else n @ np.log(square)
                bound[part] += alike
            left = left[bound[left] > enough[left]]
        return np.minimum(bound, 0.0) * (1 - 1e-12) + 1e-9

    @property
    def has_closed_form(self) -> bool:
        """A few uses have."""
        return self.residues is not None

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """The sum of residues, for a few uses."""
        return None if self.residues is None else self.residues.delta(eps)

    def inverse(self, low_delta: float, high_delta: float) -> tuple[float, float, dict[str, float]] | None:
        """By the sum of residues."""
        if self.residues is None:
            return None
        guess = saddle.for_delta(SumOfLosses([self]), high_delta, 1e-9).eps
        return *self.residues.epsilon(low_delta, high_delta, guess), {}


@dataclass(frozen=True, slots=True)
class LaplacePair(Pair):
    """Laplace noise at distance e in units of its scale."""

    rate: Fraction

    def __hash__(self) -> int:
        """Of the two whole numbers: a Fraction's own hash costs a modular power."""
        return hash(self.rate.as_integer_ratio())

    def repeated(self, count: int) -> Summand:
        """A batch of one kind."""
        return LaplaceSum(np.array([float(self.rate)]), np.array([float(count)]), [self.rate])

    @classmethod
    def together(cls, pairs: Sequence[Pair], counts: Sequence[int]) -> list[Summand]:
        """One batch, its arithmetic vectorised over the kinds."""
        exact = [pair.rate for pair in pairs if isinstance(pair, LaplacePair)]
        return [LaplaceSum(np.array([float(rate) for rate in exact]), np.array(counts, dtype=float), exact)]


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

    def __hash__(self) -> int:
        """Of the two whole numbers."""
        return hash(self.rate.as_integer_ratio())

    def dominating_pair(self, direction: Direction) -> Pair:
        """The same pair in every direction."""
        del direction
        return LaplacePair(self.rate)

    def stated_pure(self) -> Fraction | None:
        """Its parameter."""
        return self.rate
