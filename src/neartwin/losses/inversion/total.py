"""Sums of losses: of all summands of one direction, asked by every route and added up once, and of many kinds in one array.

A vertical line goes through the saddle point of K(tilt) - tilt eps - log tilt(tilt+1). That is a heuristic: any tilt > 0 gives a
valid bracket, the saddle the narrowest. h(tilt) = K'(tilt) - 1/tilt - 1/(tilt+1) is increasing (K'' >= 0), so both searches
are monotone and safeguarded by bisection in log tilt.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property, reduce
from typing import NamedTuple, Self

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands.base import Lattice, MaximumLoss, Summand
from neartwin.losses.summands.rounding import ComplexArray, NoCertificateError, U

BLOCK = 1 << 18  # numbers a temporary matrix may hold
MOST_LAWS = 25  # of one summand that count for the length of a short line
SOME = 16  # kinds whose turns are looked at together
NEAR = 1 << 15  # numbers that stay near the processor while they are
TERMS = (-2 / 467775, 2 / 14175, -1 / 315, 2 / 45, -1 / 3, 1.0)  # of sin^2 by powers of the square, the last first
SINES = [term * math.pi ** (2 * (6 - place)) for place, term in enumerate(TERMS)]

# M(s) and Chernoff: for L under P and s > 0, (1 - e^{-x})_+ <= c(s) e^{sx} with c(s) = s^s / (1+s)^{1+s}, attained at
# e^x = 1 + 1/s; hence delta(eps) <= c(s) e^{K(s) - s eps} (Canonne, Kamath, Steinke 2020, proposition 12).


def log_c(s: float) -> float:
    """Log c(s), rounded up; c(0) = 1."""
    if s <= 0:
        return 0.0
    value = -s * math.log1p(1 / s) - math.log1p(s) if s > 1e-300 else 0.0
    return value + 16 * U * (abs(value) + 1)


class SumOfLosses:
    """Summands of one direction together. Values are those of the sum of independent losses."""

    def __init__(self, summands: list[Summand]) -> None:
        """summands: at least one."""
        self.summands = [part for part in summands if not part.null] or summands[:1]
        low, high = zip(*[part.log_finite for part in summands], strict=True)
        self.infinity = (0.0, 0.0)  # bounds on P(L = inf) = 1 - prod P(L_i < inf)
        if any(low):
            least, most = (-math.expm1(end) for end in (sum(high) * (1 - 8 * U), sum(low) * (1 + 8 * U)))
            self.infinity = max(least * (1 - 32 * U), 0.0), min(most * (1 + 32 * U), 1.0)
        losses, masses, leasts = zip(*[part.top for part in summands], strict=True)
        loss, mass, least = math.fsum(losses), math.prod(masses), math.fsum(leasts)
        slack = 64 * U * math.fsum(map(abs, leasts))
        self.top = MaximumLoss(loss + slack, mass * (1 - 64 * U), least - slack if slack < math.inf else least)
        # the more of them a method would take apart, the longer a line that is tried before it
        self.laws = sum(min(part.kinds, MOST_LAWS) for part in self.summands)
        # of the saddle's tilt for such a line: of many laws of a kind K soon rises steeply beyond, and aliases fall slowly
        self.nearer = 0.6 if self.laws > len(self.summands) else 1.0
        self.lattice_error = sum([part.lattice_error for part in self.summands])
        # the special method of the first summand that knows one for this sum
        alone = len(self.summands) == 1
        self.has_closed_form = alone and self.summands[0].has_closed_form  # delta is a formula
        self.ladder = next((part.ladder for part in self.summands if part.ladder), None)
        self._mgf: dict[float, tuple[float, float]] = {}
        # of fewer laws, with a K that is nowhere less and nearly the same
        fewer = [part.coarser or part for part in self.summands]
        self.coarser: SumOfLosses = self if fewer == self.summands else SumOfLosses(fewer)

    def forget(self) -> None:
        """Let the nodes of earlier questions go, on which an answer's last digits would depend."""
        self._mgf.clear()
        for part in self.summands:
            part.kept = ()

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The cost of a line, in exponentials."""
        return sum(part.work(tilt, t, frequencies) for part in self.summands)

    @property
    def fastest_frequency(self) -> float:
        """About how fast the atoms of the fastest summand turn; 0 where none is known. It decides no answer but its time."""
        return max(part.fastest_frequency for part in self.summands)

    @cached_property
    def lattice(self) -> Lattice | None:
        """The common lattice, by exact arithmetic, or None; one known only to rounding has nothing in common with another."""
        each = [part.lattice for part in self.summands if part.lattice_error == 0 or len(self.summands) == 1]
        known = [one for one in each if one is not None]
        return reduce(Lattice.plus, known) if len(known) == len(self.summands) else None

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """K, K', K'' (uncertified)."""
        whole = first = second = 0.0
        for part in self.summands:
            k, k1, k2 = part.cumulants(tilt)
            whole, first, second = whole + k, first + k1, second + k2
        return whole, first, second

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """K(tilt) and a bound on its error, both infinite where nothing is proved."""
        if tilt not in self._mgf:
            whole = size = error = 0.0
            try:
                for part in self.summands:
                    k, slack = part.log_mgf(tilt)
                    whole, size, error = whole + k, size + abs(k), error + slack
            except NoCertificateError:
                whole = error = math.inf
            self._mgf[tilt] = (whole, error * 1.01 + (len(self.summands) + 2) * U * size)
        return self._mgf[tilt]

    def log_mgf_above(self, tilt: float) -> float:
        """K(tilt), rounded up."""
        value, error = self.log_mgf(tilt)
        return value + error

    def mean(self) -> tuple[float, float]:
        """Bounds on E_P[L | L < inf] = K'(0), the Kullback-Leibler divergence where nothing is revealed for sure.

        K is convex with K(0) = 0, so K'(0) <= K(s)/s; and K(s)/s - K'(0) <= (s/2) max K'' with K''(u) <= E_u[L^2] <=
        (M(u+h) + M(u-h) - 2 M(u))/h^2 <= (M(s+h) - 1)/h^2 for u <= s < h <= 1, since x^2 <= 2 cosh x - 2, M(u) >= 1 for u >= 0
        and M(u-h) <= 1 (Hoelder).
        """
        h = min(1.0, 0.5 / math.sqrt(max(self.cumulants(1e-3)[2], 1e-300)))
        s = 1e-7 * h
        if s == 0:  # the variance is beyond the floats
            return 0.0, math.inf
        value, error = self.log_mgf(s)
        bend = math.expm1(min(self.log_mgf_above(s + h), 700.0)) / (h * h) * (1 + 64 * U)
        low, high = (value - error) / s * (1 - 8 * U) - 0.5 * s * bend, (value + error) / s * (1 + 8 * U)
        return (max(low, 0.0), high) if math.isfinite(high) else (0.0, math.inf)

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Log M(tilt+it)/M(tilt) and the bound on its error; phases of different parts may cancel, rounding not."""
        value, error, size = np.zeros(len(t), dtype=np.complex128), np.zeros(len(t)), np.zeros(len(t))
        for part in self.summands:
            one, bound = part.log_mgf_ratio(tilt, t)
            value, error, size = value + one, error + bound, size + np.abs(one.real) + np.abs(one.imag)
        return value, error * 1.01 + ((len(self.summands) + 2) * U) * size

    def log_modulus_bound(self, tilt: float, t: FloatArray, width: float, enough: FloatArray) -> FloatArray | None:
        """A quick bound on log |M(tilt+it')/M(tilt)| for all t' within `width` of each t, where every summand has one."""
        bound: FloatArray = np.zeros(len(t))
        for part in self.summands:
            result = part.log_modulus_bound(tilt, t, width, enough - bound)
            if result is None:
                return None
            bound = bound + result
        return bound

    def zcdp_tail(self, s: float) -> float:
        """A bound on K(s')/(s'(s'+1)) for all s' >= s."""
        return sum(part.zcdp_tail(s) for part in self.summands) * (1 + 16 * U)


def _squared_sines(turns: FloatArray, t: FloatArray, reach: FloatArray) -> FloatArray:
    """(kinds, n): a lower bound on sin^2 h for all h within `reach` of turns t, all three in units of pi.

    With d the distance from the next whole multiple, less reach and at most pi/2: sin^2 d >= d^2 - d^4/3 + 2d^6/45 - d^8/315 +
    2d^10/14175 - 2d^12/467775, for the terms alternate and fall.
    """
    square: FloatArray = np.multiply.outer(turns, t)
    square = np.square(np.maximum(np.abs(square - np.rint(square)) - reach[:, None], 0.0))
    result = SINES[0] * square
    for coefficient in SINES[1:]:
        result = (result + coefficient) * square
    return result


class Batch(Summand):
    """Many kinds of one family in one array, each of largest loss e and composed n times.

    Two atoms of a kind, at distance 2h, turn against each other by 2ht. That bounds most frequencies of a line, and they are left
    out (K8).
    """

    def __init__(self, e: FloatArray, n: FloatArray, log_mass: FloatArray) -> None:
        """e: each within U of the exact value; n: counts as floats, exact below 2^53; log_mass: below that of the P-mass of e."""
        self.e, self.n, self.fastest_frequency = e, n, float(e.max())
        reach, slack = float(n @ e), 4 * U * (len(e) + 2)
        log = float(n @ log_mass) * (1 + slack)
        mass = math.exp(log) * (1 - 1e-12) if log > -700 else 0.0
        self.top = MaximumLoss(reach * (1 + slack), mass, reach * (1 - slack))

    @abstractmethod
    def each(self, tilt: float) -> tuple[FloatArray, FloatArray]:
        """K(tilt) of one copy of each kind, and its error."""

    @abstractmethod
    def turned(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """As `log_mgf_ratio`, of one copy of each kind (columns) at frequencies t (rows)."""

    @abstractmethod
    def turning(self, tilt: float, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """A bound for all frequencies from each t on, but for the turns.

        Args:
            tilt: The line's tilt.
            t: Frequencies, (n,).

        Returns:
            h, c, more and log g with |M(tilt+it)/M(tilt)|^2 <= g^2 (1 + more - c u^2) for every u <= |sin ht|, kind by kind. h is
                within U of the exact value, c at most 1 and within 64U or rounded down, both (kinds,). More is (n,). Log g is
                added up over all kinds and copies.
        """

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Sum of n_i K_i; the sum of len(e) numbers adds gamma times their absolute sum."""
        value, error = self.each(tilt)
        total = float(self.n @ value)
        return total, float(self.n @ error) * 1.01 + (len(self.e) + 4) * U * float(self.n @ np.abs(value))

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Sum over the kinds, in blocks of frequencies."""
        value, error = np.zeros(len(t), dtype=complex), np.zeros(len(t))
        rows = max(1, BLOCK // len(self.e))
        for start in range(0, len(t), rows):
            part = slice(start, start + rows)
            one, bound = self.turned(tilt, t[part, None])
            value[part] = one @ self.n
            size = np.abs(one.view(float)) @ np.repeat(self.n, 2)  # of real and imaginary parts
            error[part] = bound @ self.n + (len(self.e) + 4) * U * size
        return value, error * 1.01

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """A quarter for each kind: most frequencies are left out where there are many."""
        return len(self.e) * frequencies // 4

    def log_modulus_bound(self, tilt: float, t: FloatArray, width: float, enough: FloatArray) -> FloatArray:
        """Some kinds at a time until that is enough.

        Within r <= pi/2 of ht the sine is at least that of ht's distance from the next multiple of pi, less r. r is h width and
        what ht errs by. u^2 errs by 64U more, c and the rest by less than 192U together.
        """
        half, c, more, log_grown = self.turning(tilt, np.maximum(t - width, 0.0))
        more = more + 256 * U
        bound: FloatArray = np.full(len(t), log_grown)
        left, rows = np.arange(len(t)), max(1, NEAR // SOME)
        reach = np.minimum(half * ((width * (1 + 4 * U) + 16 * U * float(t[-1])) * (1 + 8 * U) / math.pi), 0.5)
        for first in range(0, len(half), SOME):
            some = slice(first, first + SOME)
            turns, n = half[some] / math.pi, 0.5 * self.n[some]
            for start in range(0, len(left), rows):
                part = left[start : start + rows]
                square = 1 + more[part] - c[some, None] * _squared_sines(turns, t[part], reach[some])
                alike = n[0] * np.log(np.multiply.reduce(square)) if n.min() == n.max() else n @ np.log(square)
                bound[part] += alike
            left = left[bound[left] > enough[left]]
        return np.minimum(bound, 0.0) * (1 - 1e-12) + 1e-9


LOWEST, HIGHEST = math.log(1e-9), math.log(1e9)


def _at(total: SumOfLosses, tilt: float) -> tuple[float, float, float, float]:
    """Log of the saddle-point estimate of delta(eps), that eps, K'', and d eps/d tilt; the first falls by tilt times that."""
    k, k1, k2 = total.cumulants(tilt)
    eps = k1 - 1 / tilt - 1 / (tilt + 1)
    spread = k2 + 1 / tilt**2 + 1 / (1 + tilt) ** 2
    log_delta = k - tilt * eps - math.log(tilt) - math.log1p(tilt) - 0.5 * math.log(2 * math.pi * spread)
    return log_delta, eps, k2, spread


def _root(function: Callable[[float], tuple[float, float]], start: float, close: float, narrow: float = 1e-3) -> float:
    """X in [LOWEST, HIGHEST] where a decreasing function, given with its slope, is near 0: Newton, safeguarded by bisection."""
    low, high, x = LOWEST, HIGHEST, min(max(start, LOWEST + 1), HIGHEST - 1)
    for _ in range(48):
        f, slope = function(x)
        if not math.isfinite(f):  # K overflowed: tilt is too large
            high = x
            x = 0.5 * (low + high)
            continue
        if abs(f) < close:
            break
        low, high = (x, high) if f > 0 else (low, x)
        x = x - max(-2.0, min(2.0, f / slope)) if slope < 0 else 0.5 * (low + high)
        if not low < x < high:
            x = 0.5 * (low + high)
        if high - low < narrow:
            break
    return x


class Saddle(NamedTuple):
    """The line's tilt, the eps it is best for, the deviation of the tilted loss, and the size of delta there."""

    tilt: float
    eps: float
    deviation: float
    log_delta: float

    def lower(self, total: SumOfLosses, factor: float) -> Saddle:
        """The saddle on a line nearer to 0. If a tilted law has two humps, less tilt leaves one.

        Args:
            total: The sum.
            factor: The new tilt over the old, at most 1.
        """
        tilt = self.tilt * factor
        return self._replace(tilt=tilt, deviation=math.sqrt(max(total.cumulants(tilt)[2], 1e-300)))

    @classmethod
    def for_delta(cls, total: SumOfLosses, delta: float, close: float = 0.5) -> Self:
        """The saddle whose estimated delta is about the one wanted.

        Args:
            total: The sum.
            delta: Above 0.
            close: How near in its logarithm, before a last step.

        Raises:
            NoCertificateError: The variance near tilt 0 is beyond the floats.
        """
        wanted = math.log(delta)
        # a Gaussian's tilt of this variance: one of Newton's steps from where its density alone has it
        variance = max(total.cumulants(1e-3)[2], 1e-300)
        if variance == math.inf:
            raise NoCertificateError
        first = min(max(0.5 * math.log(max(-2 * wanted, 1.0) / variance), LOWEST), HIGHEST)
        tilt = math.exp(first)
        spread = variance + 1 / (tilt * tilt) + 1 / ((1 + tilt) * (1 + tilt))
        log_delta = 1 + tilt / (1 + tilt) - 0.5 * (variance * tilt * tilt + math.log(2 * math.pi * spread))
        near = first + (log_delta - first - math.log1p(tilt) - wanted) / (tilt * tilt * spread)
        last = (0.0, 0.0, 0.0, 0.0, 0.0, -1.0)  # where, its tilt, eps, K'' and d eps/d tilt, and how far off

        def above(x: float) -> tuple[float, float]:
            nonlocal last
            tilt = math.exp(x)
            log_delta, eps, k2, rise = _at(total, tilt)
            # its logarithm is nearly linear in log tilt, for a Gaussian
            share = wanted / log_delta if log_delta < 0 else 1.0
            gap = -wanted * math.log(share) if log_delta < 0 else log_delta - wanted
            slope = -tilt * tilt * rise * share
            last = (x, tilt, eps, k2, rise, gap / slope if abs(gap) < close and slope < 0 else 0.0)
            return gap, slope

        x = _root(above, near, close, min(1e-3, close))
        if x != last[0]:
            above(x)
        _, tilt, eps, k2, rise, off = last
        further = tilt * math.expm1(-off)  # Newton's next step, the curvature taken as it is here
        return cls(tilt + further, eps + rise * further, math.sqrt(max(k2, 1e-300)), wanted)

    @classmethod
    def for_eps(cls, total: SumOfLosses, eps: float) -> Self:
        """The saddle of one eps.

        Args:
            total: The sum.
            eps: Any sign.

        Raises:
            NoCertificateError: The variance near tilt 0 is beyond the floats.
        """
        _, k1, k2 = total.cumulants(1e-3)
        if not math.isfinite(k2):
            raise NoCertificateError
        deviation = math.sqrt(max(k2, 1e-300))
        start = math.log((abs(eps - k1) / deviation + 1) / deviation)

        def below(x: float) -> tuple[float, float]:
            tilt = math.exp(x)
            _, result, _, rise = _at(total, tilt)
            return eps - result, -tilt * rise

        tilt = math.exp(_root(below, start, 0.05 * deviation))
        log_delta, there, k2, _ = _at(total, tilt)
        return cls(tilt, eps, math.sqrt(max(k2, 1e-300)), min(log_delta + tilt * (there - eps), 0.0))
