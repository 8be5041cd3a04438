r"""The contour: delta(eps) = (1/2pi) int M(s) e^{-s eps} k(s) dt along s = lam + it, by the trapezoidal rule.

The loss is never discretised. For any kernel function k(x) with transform k(s) = int k(x) e^{-sx} dx on Re s = lam,
E[k(L - eps)] = (1/2pi) int M(s) e^{-s eps} k(s) dt, and the rule with step d = 2pi/W gives exactly (Poisson summation)

    S = (d/2pi) sum_k F(kd) = sum_m e^{lam m W} E[k(L - eps - mW)],        F(t) = M(s) e^{-s eps} k(s).

Three kernels; gamma is a small width, g = e^{gamma^2 s(s+1)/2}:
  plain     (1 - e^{-x})_+                              1/(s(s+1))
  upper     a Gaussian mechanism of mu = gamma more     g / (s(s+1))          >= plain, since more information only
    helps
  lower     upper - C gamma phi(x/gamma + gamma/2)      g (1/(s(s+1)) - C gamma^2)      <= plain
Lower. With a = x/gamma + gamma/2, b = a - gamma, R = Phi/phi: for x < 0, upper - plain = Phi(a) - e^{-x} Phi(b) =
phi(a)(R(a)
- R(b)), for x >= 0 it is e^{-x} Phi(-b) - Phi(-a) = phi(a)(R(-b) - R(-a)); both differences are gamma R'(v) with
R'(v) = 1 + v R(v) increasing and v <= gamma/2, so at most gamma C phi(a), C = 1 + (gamma/2) R(gamma/2). The two smooth
kernels differ by C gamma^2 times a density of width gamma: second order, and their transforms fall like
e^{-gamma^2 t^2/2}, so that nearly atomic losses, whose M does not decay, need no certificate of decay.

Error ledger, true delta in [S_lower - alias - cut - rounding, S_upper + cut + rounding]:
  alias     every term of S is >= 0 for plain and upper, so S only exceeds; for lower each term m != 0 is at most
            e^{lam m W} delta(eps + mW), and Chernoff (total.py) bounds the two sums:
            m > 0: c(s) e^{K(s) - s eps} / (e^{(s-lam)W} - 1), any s > lam (0 when eps + W >= top);
            m < 0: c(s) e^{K(s) - s eps} / (e^{(lam-s)W} - 1), any 0 <= s < lam.
  cut       |t| > T = Kd: |s(s+1)| >= t^2, sum_{k>K} d/(kd)^2 <= 1/T and int_T^inf e^{-g^2t^2/2} dt <=
    e^{-g^2T^2/2}/(g^2 T):
            (1 + C) e^{K(lam) - lam eps} |g(lam)| B(T) e^{-gamma^2 T^2/2} / (pi T), B(T) >= sup_{t>T}
            |M(lam+it)/M(lam)|.
  rounding  (d/2pi) sum_k |F(kd)| (expm1(E_k) + gamma(K)), E_k from `line`, plus 8U per factor and U|s eps| in the
    exponent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from neartwin.exact import FloatArray
from neartwin.losses.rounding import ComplexArray, NoCertificateError, U, gamma
from neartwin.losses.saddle import Saddle
from neartwin.losses.total import Total, log_c

TOLERANCE = 1e-13  # wanted relative size of alias and cut
MOST_NODES = 1 << 17
MOST_WORK = 1 << 22  # nodes times losses in one line


@dataclass(frozen=True)
class Alias:
    """The line's neighbours mW away, bounded by Chernoff at one s above lam and one below."""

    lam: float
    period: float
    top: float
    above: tuple[tuple[float, float], ...]  # (s, log of c(s) M(s) / (e^{(s-lam)W} - 1))
    below: tuple[tuple[float, float], ...]

    def log_bound(self, eps: FloatArray) -> FloatArray:
        """Log of the bound at each eps."""
        right = np.min([log - s * eps for s, log in self.above], axis=0)
        right = np.where(eps + self.period * (1 - 4 * U) >= self.top, -np.inf, right)
        left = np.min([log - s * eps for s, log in self.below], axis=0)
        bound: FloatArray = np.logaddexp(right, left) + 1e-12
        return bound


def _one_side(total: Total, s: float, gap: float, period: float) -> tuple[float, float]:
    log = total.log_mgf_above(s) + log_c(s) - gap * period - math.log(-math.expm1(-gap * period))
    return s, log + 1e-13 * (1 + abs(log))


def find_alias(total: Total, saddle: Saddle, log_goal: float, *, shortest: float = 6.0, widest: float = 400.0) -> Alias:
    """The least period, from `shortest` deviations by quarters, whose aliases at saddle.eps stay below the goal."""
    lam, deviation = saddle.lam, saddle.deviation
    above: list[tuple[float, float]] = []
    below: list[tuple[float, float]] = []
    steps = shortest
    eps = np.array([saddle.eps])
    while steps < widest:
        period = steps * deviation
        gaps = (steps / deviation, min(steps / deviation, 0.5 * (lam + 1) * steps), 2 / deviation)
        above = [_one_side(total, lam + gap, gap, period) for gap in gaps]
        downs = {min(gap, lam) for gap in gaps}
        below = [_one_side(total, lam - gap, gap, period) for gap in downs]
        found = Alias(lam, period, total.top.loss, tuple(above), tuple(below))
        if found.log_bound(eps)[0] < log_goal:
            return found
        steps *= 1.25
    raise NoCertificateError


def short(x: float, *, bits: int = 24) -> float:
    """The float not above x with so many bits: products with small integers are then exact."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(mantissa * 2**bits), exponent - bits)


@dataclass(frozen=True)
class Contour:
    """One line, ready to answer every eps near its saddle. All logs are relative to e^{log_scale}."""

    saddle: Saddle
    step: float
    log_line: ComplexArray  # log of M(s)/M(lam) k(s) at t = k step
    line_error: FloatArray
    log_scale: float  # K(lam), its error in scale_error
    scale_error: float
    dip: FloatArray | float  # the lower kernel over the upper, minus 1: -C gamma^2 s(s+1), as a factor
    alias: Alias
    log_cut: float

    @property
    def size(self) -> int:
        """How many frequencies."""
        return len(self.log_line)

    def _terms(self, eps: FloatArray) -> tuple[ComplexArray, FloatArray, FloatArray]:
        """The terms of S at each eps (rows), with the scale e^{K - lam eps} apart, and their absolute errors summed."""
        lam = self.saddle.lam
        t = self.step * np.arange(len(self.log_line))
        weight = np.where(t == 0, 1.0, 2.0) * (self.step / (2 * math.pi))
        terms = np.exp(self.log_line - 1j * np.multiply.outer(eps, t)) * weight
        size = np.abs(terms)
        own = self.line_error + 24 * U + U * np.multiply.outer(2 * np.abs(eps), t) + 2 * U * np.abs(self.log_line.imag)
        relative = np.expm1(np.minimum(own, 700.0)) + gamma(len(t))
        log_scale = self.log_scale - lam * eps
        scale_error = self.scale_error + 4 * U * (np.abs(self.log_scale) + lam * np.abs(eps)) + 32 * U
        return terms, size * relative, np.stack([log_scale, scale_error])

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Certified bounds on the finite part of delta at each eps; (n,) in, (n,) out."""
        with np.errstate(over="ignore", invalid="ignore"):  # far from its saddle a line proves nothing, 0 and 1
            lower, upper, _ = self.ledger(eps)
        return np.nan_to_num(lower, nan=0.0), np.nan_to_num(upper, nan=1.0)

    def ledger(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The bounds and every source of error that went into them, absolute."""
        terms, moved, (log_scale, scale_error) = self._terms(eps)
        scale = np.exp(np.minimum(log_scale, 700.0))
        s_upper = terms.real.sum(axis=1)
        dip = (terms * self.dip).real.sum(axis=1)
        rounding = moved.sum(axis=1)
        dip_rounding = (moved * np.abs(self.dip)).sum(axis=1)
        cut = np.exp(self.log_cut)
        alias = np.exp(np.minimum(self.alias.log_bound(eps), 700.0))
        upper = (s_upper + rounding + cut) * scale * (1 + np.expm1(scale_error))
        low = s_upper + np.minimum(dip, 0.0) - rounding - dip_rounding - cut
        lower = np.maximum(low * scale * (1 - scale_error) - alias, 0.0)
        parts = {
            "aliasing": alias,
            "frequency cut": cut * scale,
            "rounding": (rounding + dip_rounding + np.abs(s_upper) * scale_error) * scale,
            "smoothing": np.abs(dip) * scale,
        }
        return lower, np.minimum(np.maximum(upper, 0.0), 1.0), parts

    def middle(self, eps: float) -> tuple[float, float]:
        """S between the kernels and -dS/deps, uncertified; for Newton."""
        terms, _, (log_scale, _) = self._terms(np.array([eps]))
        t = self.step * np.arange(len(self.log_line))
        terms = terms * (1 + 0.5 * np.asarray(self.dip)) * math.exp(min(float(log_scale[0]), 700.0))
        return float(terms.real.sum()), float((terms * (self.saddle.lam + 1j * t)).real.sum())


def _affordable(total: Total, lam: float, nodes: int, step: float) -> bool:
    """True, or `NoCertificateError`: a line that would cost too much is no line."""
    if nodes > MOST_NODES or nodes * total.work(lam, nodes * step) > max(MOST_WORK, 256 * total.work(lam, 0.0)):
        raise NoCertificateError
    return True


@np.errstate(all="ignore")  # what overflows is no number, and no number proves nothing
def build(
    total: Total, saddle: Saddle, width: float, *, tolerance: float = TOLERANCE, shortest: float = 6.0
) -> Contour:
    """A certified line with smooth kernels of the given width, 0 the plain one; period from `shortest` deviations."""
    lam, deviation = saddle.lam, saddle.deviation
    scale, scale_error = total.log_mgf(lam)
    if not math.isfinite(scale):
        raise NoCertificateError
    log_goal = saddle.log_delta + math.log(tolerance)
    relative_goal = log_goal - scale + lam * saddle.eps  # of a term over e^{K - lam eps}
    alias = find_alias(total, saddle, log_goal, shortest=shortest)
    step = short(2 * math.pi / alias.period)
    alias = Alias(lam, 2 * math.pi / step * (1 - 4 * U), alias.top, alias.above, alias.below)
    mu2 = width * width
    ratio = 1 + (width / 2) * float(ndtr(width / 2)) * math.sqrt(2 * math.pi) * math.exp(mu2 / 8) * (1 + 1e-13)

    def log_cut(nodes: int) -> float:
        t = nodes * step
        tail = total.log_tail(lam, t, math.inf) + 0.5 * mu2 * (lam * (lam + 1) - t * t)
        return tail + math.log1p(ratio) - math.log(math.pi * t) + 1e-12 * (1 + abs(tail))

    spread = deviation**2 + mu2 + (0.0 if width else 1 / lam**2)
    nodes = max(4, math.ceil(math.sqrt(-2 * math.log(tolerance) / spread) / step))
    while _affordable(total, lam, nodes, step) and (cut := log_cut(nodes)) > relative_goal:
        nodes = int(1.3 * nodes) + 1
    t: FloatArray = step * np.arange(nodes + 1, dtype=float)
    line, error = total.line(lam, t)
    s = lam + 1j * t
    kernel = 0.5 * mu2 * s * (s + 1) - np.log(s) - np.log(s + 1)
    rounding = 8 * U * (mu2 * np.abs(s * (s + 1)) + np.abs(np.log(np.abs(s) + 1)) + 8)
    return Contour(
        saddle=saddle,
        step=step,
        log_line=line + kernel,
        line_error=error + rounding,
        log_scale=scale,
        scale_error=scale_error,
        dip=-ratio * mu2 * s * (s + 1) if width else 0.0,
        alias=alias,
        log_cut=cut,
    )
