"""The contour: delta(eps) = (1/2pi) int M(s) e^{-s eps} k(s) dt along s = tilt + it, by the trapezoidal rule.

The loss is never discretised. For any kernel function k(x) with transform k(s) = int k(x) e^{-sx} dx on Re s = tilt,
E[k(L - eps)] = (1/2pi) int M(s) e^{-s eps} k(s) dt, and the rule with step d = 2pi/W gives exactly (Poisson summation)

    S = (d/2pi) sum_k F(kd) = sum_m e^{tilt m W} E[k(L - eps - mW)],        F(t) = M(s) e^{-s eps} k(s).

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
            e^{tilt m W} delta(eps + mW), and Chernoff (total.py) bounds the two sums:
            m > 0: c(s) e^{K(s) - s eps} / (e^{(s-tilt)W} - 1), any s > tilt (0 when eps + W >= top);
            m < 0: c(s) e^{K(s) - s eps} / (e^{(tilt-s)W} - 1), any 0 <= s < tilt.
  cut       |t| > T = Kd: |s(s+1)| >= t^2, sum_{k>K} d/(kd)^2 <= 1/T and int_T^inf e^{-g^2t^2/2} dt <=
    e^{-g^2T^2/2}/(g^2 T):
            (1 + C) e^{K(tilt) - tilt eps} |g(tilt)| B(T) e^{-gamma^2 T^2/2} / (pi T), B(T) >= sup_{t>T}
            |M(tilt+it)/M(tilt)|.
  rounding  (d/2pi) sum_k |F(kd)| (expm1(E_k) + gamma(K)), E_k from `line`, plus 8U per factor and 2U|t eps| in the
            angle: expm1(x + y) <= expm1(x) + 1.72 y e^x for 0 <= y <= 1, so two sums kept with the line serve every eps.
Terms too small to matter are dropped and their moduli join the cut.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion.aliasing import Alias, find_alias, significant_frequencies
from neartwin.losses.inversion.saddle import Saddle
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.rounding import ComplexArray, NoCertificateError, U, gamma
from neartwin.special import ndtr

TOLERANCE = 1e-13  # wanted relative size of alias and cut
FEW = 64
LARGEST = 700.0  # of an exponent
SHORT = 256  # nodes of which none is worth dropping
MOST_NODES = 1 << 18
MOST_WORK = 1 << 24  # exponentials in one line
SMOOTH = 4  # times as many of both where smooth kernels must stand for the decay that nearly atomic losses lack


def short(x: float, *, bits: int = 24) -> float:
    """The float not above x with so many bits: products with small integers are then exact."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(mantissa * 2**bits), exponent - bits)


class Rounding(NamedTuple):
    """What rounding can do to a sum of terms, over e^{log_scale}: at eps 0, and more for each unit of |eps|."""

    fixed: float
    per_eps: float

    @classmethod
    def of(cls, size: FloatArray, error: FloatArray, t: FloatArray) -> Rounding:
        """size: moduli of the terms; error: relative error of each, as the argument of expm1."""
        worst = float(error.max())
        if worst < 1e-3:  # expm1(x) <= x(1 + x)
            more, sums = 1 + worst, gamma(len(t))
            own, whole = float(size @ error), float(np.add.reduce(size))
            per_eps = float(size @ t) * (1 + worst * more)
            return cls(own * more * (1 + 4 * sums) + whole * sums, per_eps * (1.72 * 2 * U * 1.01))
        with np.errstate(all="ignore"):
            grown = np.expm1(error)
            per_eps = float((size + size * grown) @ t)
            return cls(float(size @ (grown + gamma(len(t)))), per_eps * 1.72 * 2 * U * 1.01)

    def at(self, eps: FloatArray, longest: float) -> FloatArray:
        """The bound at each eps; inf where the angle of the longest frequency errs by more than 1."""
        bound: FloatArray = np.where(
            2 * U * np.abs(eps) * longest <= 1, self.fixed + np.abs(eps) * self.per_eps, np.inf
        )
        return bound


NOTHING = Rounding(0.0, 0.0)


@dataclass(eq=False)
class Contour:
    """One line, ready to answer every eps near its saddle; not to be changed. Sums are relative to e^{log_scale}."""

    saddle: Saddle
    step: float  # every t is a multiple of it, exactly
    t: FloatArray
    size: FloatArray  # modulus of M(s)/M(tilt) k(s) at t, times the weight of the rule
    angle: FloatArray  # its argument
    log_scale: float  # K(tilt), its error in scale_error
    scale_error: float
    dip: ComplexArray | None  # the lower kernel over the upper, minus 1: -C gamma^2 s(s+1), as a factor
    rounding: Rounding
    dip_rounding: Rounding
    alias: Alias
    cut: float

    @property
    def nodes(self) -> int:
        """How many frequencies."""
        return len(self.t)

    def _scale(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """e^{K - tilt eps} and its relative error."""
        tilt = self.saddle.tilt
        log_scale = self.log_scale - tilt * eps
        error = self.scale_error + 4 * U * (abs(self.log_scale) + tilt * np.abs(eps)) + 32 * U
        return np.exp(np.minimum(log_scale, 700.0)), error

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Certified bounds on the finite part of delta at each eps; (n,) in, (n,) out."""
        with np.errstate(over="ignore", invalid="ignore"):  # far from its saddle a line proves nothing, 0 and 1
            lower, upper, _ = self.bounds_with_errors(eps)
        return np.where(np.isnan(lower), 0.0, lower), np.where(np.isnan(upper), 1.0, upper)

    def bounds_with_errors(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The bounds and every source of error that went into them, absolute."""
        scale, scale_error = self._scale(eps)
        longest = float(self.t[-1])
        rounding, (s_upper, dip) = self.rounding.at(eps, longest), self._sums(eps)
        rounding_below = rounding if self.dip is None else rounding + self.dip_rounding.at(eps, longest)
        alias = np.exp(np.minimum(self.alias.log_bound(eps), 700.0))
        upper = (s_upper + rounding + self.cut) * scale * (1 + np.expm1(scale_error))
        low = s_upper + np.minimum(dip, 0.0) - rounding_below - self.cut
        lower = np.maximum(low * scale * (1 - scale_error) - alias, 0.0)
        parts = {
            "aliasing": alias,
            "frequency cut": self.cut * scale,
            "rounding": (rounding_below + np.abs(s_upper) * scale_error) * scale,
            "smoothing": np.abs(dip) * scale,
        }
        return lower, np.minimum(np.maximum(upper, 0.0), 1.0), parts

    def _sums(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """S of the upper kernel, and what the lower one adds to it, at each eps."""
        turned = self.angle - np.multiply.outer(eps, self.t)
        cosine = np.cos(turned)
        if self.dip is None:
            return cosine @ self.size, np.zeros(len(eps))
        dip = cosine @ (self.size * self.dip.real) - np.sin(turned) @ (self.size * self.dip.imag)
        return cosine @ self.size, dip

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """S between the kernels and -dS/deps, uncertified; for Newton."""
        turned = self.angle - eps * self.t
        real, imaginary = np.cos(turned) * self.size, np.sin(turned) * self.size
        if self.dip is not None:
            half = 1 + 0.5 * self.dip
            real, imaginary = real * half.real - imaginary * half.imag, real * half.imag + imaginary * half.real
        scale = math.exp(min(self.log_scale - self.saddle.tilt * eps, 700.0))
        value = float(real.sum())
        return value * scale, (self.saddle.tilt * value - float(imaginary @ self.t)) * scale


def affordable(total: SumOfLosses, tilt: float, nodes: int, step: float, share: float = 1) -> bool:
    """True, or `NoCertificateError`: a line that would cost too much is no line."""
    if nodes > MOST_NODES * share or (nodes > 256 and total.work(tilt, nodes * step, nodes) > MOST_WORK * share):
        raise NoCertificateError
    return True


def _length(
    total: SumOfLosses, saddle: Saddle, step: float, *, mu2: float, ratio: float, log_goal: float, share: float
) -> tuple[int, float]:
    """How many nodes bring the cut below the goal, both over e^{K - tilt eps}, and the logarithm of the cut then."""
    tilt = saddle.tilt

    def log_cut(nodes: int) -> float:
        t = nodes * step
        own = 0.5 * mu2 * (tilt * (tilt + 1) - t * t) + math.log1p(ratio) - math.log(math.pi * t)
        tail = 0.0 if own < log_goal - 1e-9 else total.log_tail(tilt, t, math.inf)
        return own + tail + 1e-12 * (1 + abs(own) + abs(tail))

    spread = step**2 * (saddle.deviation**2 + mu2 + (0.0 if mu2 else 1 / tilt**2))
    nodes = max(4, math.ceil(1.05 * math.sqrt(2 * max(-log_goal, 1.0) / spread)))
    nodes = math.ceil(1.3 * nodes) if nodes < FEW else nodes  # where a node costs less than a second look at the tail
    growths = itertools.chain([1.25] * 3, itertools.repeat(1.6))
    while affordable(total, tilt, nodes, step, share) and (cut := log_cut(nodes)) > log_goal:
        nodes = int(next(growths) * nodes) + 1
    return nodes, cut


def poles(tilt: float, t: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """1/(s(s+1)): its modulus by a root, times the weight of the rule, and minus its argument.

    tilt(tilt+1) - t^2 errs by 4U of both, which is no more than 4U |s(s+1)|, for t^2 + tilt(tilt+1) <= |s(s+1)|.
    """
    real, imaginary = tilt * (tilt + 1) - t * t, t * (2 * tilt + 1)
    size: FloatArray = (step / math.pi) / np.sqrt(real * real + imaginary * imaginary)
    size[0] *= 0.5
    return size, np.arctan2(imaginary, real)


def rounded(error: FloatArray, angle: FloatArray, tilt: float, far: float) -> FloatArray:
    """The error of a line's logarithms with that of `poles`, of the exponential and of the angle."""
    whole: FloatArray = np.abs(angle)
    whole *= 2 * U
    whole += error
    whole += 8 * U * (math.log(far + tilt + 2) + 12)
    return whole


@np.errstate(all="ignore")  # what overflows is no number, and no number proves nothing
def build(
    total: SumOfLosses,
    saddle: Saddle,
    width: float,
    *,
    tolerance: float = TOLERANCE,
    longest: float = math.inf,
    share: float = 1,
) -> Contour:
    """A certified line with smooth kernels of the given width, 0 the plain one; alias and cut within the tolerance.

    longest: of the period, in deviations; a short one is charged its aliases, however large.
    share: how many times the usual budget a plain one may take.
    """
    tilt = saddle.tilt
    scale, scale_error = total.log_mgf(tilt)
    if not math.isfinite(scale):
        raise NoCertificateError
    log_goal = saddle.log_delta + math.log(tolerance)
    relative_goal = log_goal - scale + tilt * saddle.eps  # of a term over e^{K - tilt eps}
    alias = find_alias(total, saddle, log_goal, longest=longest)
    step = short(2 * math.pi / alias.period)
    alias = Alias(tilt, 2 * math.pi / step * (1 - 4 * U), alias.top, alias.above, alias.below)
    mu2, ratio = width * width, 1.0
    if width:
        ratio += (width / 2) * float(ndtr(width / 2)) * math.sqrt(2 * math.pi) * math.exp(mu2 / 8) * (1 + 1e-13)
    nodes, cut = _length(
        total, saddle, step, mu2=mu2, ratio=ratio, log_goal=relative_goal, share=SMOOTH if width else share
    )
    t, negligible = significant_frequencies(total, tilt, step, nodes, (mu2, ratio, relative_goal))
    real, angle, error = total.parts(tilt, t)
    shares, turns = poles(tilt, t, step)
    real = real + (0.5 * mu2) * (tilt * (tilt + 1) - t * t) if width else real
    size = np.exp(real) * shares
    angle = angle - turns
    dip: ComplexArray | None = None
    if width:
        product: ComplexArray = (tilt * (tilt + 1) - t * t) + 1j * ((2 * tilt + 1) * t)
        angle += (0.5 * mu2) * product.imag
        error += 8 * U * mu2 * np.abs(product)
        dip = -ratio * mu2 * product
    error = rounded(error, angle, tilt, nodes * step)
    if (
        error.max() > LARGEST
    ):  # a term that may be e^LARGEST times as great as a float tells is bounded by its logarithm
        size = np.maximum(size, np.exp(real + error - LARGEST) * shares)
        error = np.minimum(error, LARGEST)
    dropped = negligible
    if len(t) > SHORT:
        most = size * np.exp(error) * (2 if dip is None else 2 + np.abs(dip))
        kept = most >= 0.1 * math.exp(max(relative_goal, -600.0)) / len(t)
        kept[0] = True
        dropped += float(most[~kept].sum()) * 1.01
        t, size, angle, error = t[kept], size[kept], angle[kept], error[kept]
        dip = None if dip is None else dip[kept]
    return Contour(
        saddle=saddle,
        step=step,
        t=t,
        size=size,
        angle=angle,
        log_scale=scale,
        scale_error=scale_error,
        dip=dip,
        rounding=Rounding.of(size, error, t),
        dip_rounding=NOTHING if dip is None else Rounding.of(size * np.abs(dip), error, t),
        alias=alias,
        cut=math.exp(min(cut, 700.0)) + dropped,
    )
