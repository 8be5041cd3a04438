r"""All copies below an edge, and at least one of them above a lower one: what is left when the lower law's power is taken away.

Let a be one copy's law up to the lower edge and g what lies from there to the higher. The copies together up to the higher, less
those up to the lower, are the positive measure

    (a + g)^{*n} - a^{*n},    M(s) = A^n ((1 + x)^n - 1),    A, G the transforms of a and g, x = G/A.

A ladder of edges gives the whole law as such differences, each of which wants a tilt of its own and none the counts of copies.

Errors. log A^n and log G have theirs, so x errs by |x| expm1(of both), dx, and with y = n log(1 + x), |e^y| <= (1 + |x|)^n,
(1 + x)^n - 1 = expm1(y) errs by n (1 + |x| + dx)^{n-1} dx, by the rounding of y times |e^y|, and by 4 ELEMENTARY of
|expm1(Re y)| + |y|; all over its value at lam. |A(lam + it')| <= A e^{-a'}, |G| <= G e^{-g'} give the same with moduli.
"""

from __future__ import annotations

import math

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.loss import Summand
from neartwin.losses.rounding import ELEMENTARY, ComplexArray, NoCertificateError, U, log_parts, log_within

LARGEST = 500.0  # of y, which is about how many copies are above the lower edge


def together(
    n: int, below: tuple[FloatArray, FloatArray, FloatArray], slice_: tuple[FloatArray, FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """K, K', K'' of the difference, from those of n copies below the lower edge and of one copy of the slice."""
    (k, mean, variance), (own, own_mean, own_variance) = below, slice_
    x, apart = np.exp(own - k / n), own_mean - mean / n
    y, y1 = n * np.log1p(x), n * x * apart / (1 + x)
    y2 = n * x * (apart * apart / (1 + x) + own_variance - variance / n) / (1 + x)
    less = -np.expm1(-y)
    rise, bend = 1 / less, -np.exp(-y) / (less * less)
    return k + y + np.log(less), mean + rise * y1, variance + bend * y1 * y1 + rise * y2


class Reached(Summand):
    """`count` copies up to the higher edge, at least one above the lower."""

    def __init__(self, count: int, below: Summand, slice_: Summand) -> None:
        """below: of so many copies; slice_: of one."""
        self.count, self.below, self.slice = count, below, slice_

    def cumulants(self, lam: float) -> tuple[float, float, float]:
        """Of the difference."""
        k, k1, k2 = together(self.count, self.below.cumulants(lam), self.slice.cumulants(lam))  # type: ignore[arg-type]
        return float(k), float(k1), float(k2)

    def _at(self, lam: float) -> tuple[float, float, float, float]:
        """Log A^n and its error, x and its relative error."""
        (log, error), (own, more) = self.below.log_mgf(lam), self.slice.log_mgf(lam)
        gap = own - log / self.count
        if not (math.isfinite(log) and -LARGEST < gap < LARGEST):
            raise NoCertificateError
        moved = more + error / self.count + 4 * U * (abs(own) + abs(log / self.count)) + 2 * ELEMENTARY
        return log, error, math.exp(gap), math.expm1(moved)

    def _difference(self, x: float, relative: float) -> tuple[float, float]:
        """(1 + x)^n - 1 and its relative error: d log of it / d log x is at most n x/(1 + x) e^y/(e^y - 1) <= 1 + y."""
        y = self.count * math.log1p(x)
        if not y < LARGEST:
            raise NoCertificateError
        return math.expm1(y), 1.01 * ((1 + y) * (relative + 2 * ELEMENTARY) + 2 * ELEMENTARY)

    def log_mgf_roughly_above(self, s: float) -> float:
        """Of the difference: where the slice vanishes beside the rest, by (1 + x)^n - 1 <= n x (1 + x)^{n-1}."""
        (log, error), (own, more) = self.below.log_mgf(s), self.slice.log_mgf(s)
        gap = own - log / self.count
        if gap > -LARGEST:
            return super().log_mgf_roughly_above(s)
        found = log + math.log(self.count) + gap + self.count * math.exp(-LARGEST)
        return found + error + more + 8 * U * (abs(log) + abs(own) + self.count)

    def log_mgf(self, lam: float) -> tuple[float, float]:
        """Of the difference."""
        try:
            log, error, x, relative = self._at(lam)
            value, own = self._difference(x, relative)
        except NoCertificateError:
            return math.inf, 0.0
        found = log + math.log(value)
        return found, error + 1.01 * own + 4 * U * (abs(log) + abs(found) + 1)

    def line(self, lam: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """A^n times the difference, over its value at lam."""
        n, (_, _, x0, relative) = self.count, self._at(lam)
        whole, own = self._difference(x0, relative)
        (below, below_error), (part, part_error) = self.below.line(lam, t), self.slice.line(lam, t)
        gap: ComplexArray = part - below / n
        moved = part_error + below_error / n + 4 * U * (np.abs(part) + np.abs(below / n)) + 2 * ELEMENTARY
        turned: ComplexArray = np.exp(gap)
        x: ComplexArray = x0 * turned
        size: FloatArray = np.abs(x)
        off = size * (np.expm1(np.minimum(moved, 700.0)) * (1 + relative) + relative)
        real, imaginary, bound = log_parts(x.real, x.imag, off)
        real, imaginary = n * real, n * imaginary
        half = np.sin(0.5 * imaginary)
        rise, grown = np.expm1(real), np.exp(real)
        value: ComplexArray = (rise * np.cos(imaginary) - 2 * half * half) + 1j * (grown * np.sin(imaginary))
        slack = grown * np.expm1(np.minimum(n * bound, 700.0)) * 1.01
        slack += 4 * ELEMENTARY * (np.abs(rise) + 2 * half * half + grown * np.abs(np.sin(imaginary)))
        slack += 4 * U * grown * np.abs(imaginary)
        log, found = log_within(value / whole, slack / whole + np.abs(value / whole) * own)
        own_log = np.abs(log.real) + np.abs(log.imag) + np.abs(below)
        return log + below, found + below_error + (ELEMENTARY + 4 * U) * (1 + own_log)

    def log_tail(self, lam: float, t: float, until: float) -> float:
        """By the parts' own tails."""
        n, (_, _, x0, relative) = self.count, self._at(lam)
        below, part = self.below.log_tail(lam, t, until), self.slice.log_tail(lam, t, until)
        more = math.log(x0) + relative + part - below / n
        if more > LARGEST:
            return 0.0
        y = n * math.log1p(math.exp(more))
        value, own = self._difference(x0, relative)
        top = y + math.log(-math.expm1(-y)) if y > 0 else -math.inf
        found = below + top - math.log(value) + own + 64 * U * (1 + abs(below) + abs(y))
        return min(found, 0.0)

    def work(self, lam: float, t: float, frequencies: int) -> int:
        """Of both parts."""
        return self.below.work(lam, t, frequencies) + self.slice.work(lam, t, frequencies)
