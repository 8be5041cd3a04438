"""The sum of all losses of one direction: what every route asks of the summands, added up once."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands.base import Lattice, MaximumLoss, Summand
from neartwin.losses.summands.rounding import ComplexArray, U

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
        self.lattice_error = sum([part.lattice_error for part in self.summands])
        # the special method of the first summand that knows one for this sum
        alone = len(self.summands) == 1
        self.has_closed_form = alone and self.summands[0].has_closed_form  # delta is a formula
        self.ladder = next((part.ladder for part in self.summands if part.ladder), None)
        self._mgf: dict[float, tuple[float, float]] = {}

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The cost of a line, in exponentials."""
        return sum(part.work(tilt, t, frequencies) for part in self.summands)

    @property
    def fastest_frequency(self) -> float:
        """About how fast the atoms of the fastest summand turn; 0 where none is known. It decides no answer but its time."""
        return max(part.fastest_frequency for part in self.summands)

    @property
    def lattice(self) -> Lattice | None:
        """The common lattice, by exact arithmetic, or None; one known only to rounding has nothing in common with another."""
        for part in self.summands:
            if part.lattice is None or (part.lattice_error > 0 and len(self.summands) > 1):
                return None
        return self._common_lattice

    @cached_property
    def _common_lattice(self) -> Lattice:
        start, step = Fraction(0), Fraction(0)
        for part in self.summands:
            assert part.lattice is not None  # noqa: S101 - asked when each has one
            start += part.lattice.start
            other = part.lattice.step
            common = math.lcm(step.denominator, other.denominator)
            step = Fraction(math.gcd(int(step * common), int(other * common)), common)
        return Lattice(start, step)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """K, K', K'' (uncertified)."""
        whole = first = second = 0.0
        for part in self.summands:
            k, k1, k2 = part.cumulants(tilt)
            whole, first, second = whole + k, first + k1, second + k2
        return whole, first, second

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """K(tilt) and a bound on its error."""
        if tilt not in self._mgf:
            whole = size = error = 0.0
            for part in self.summands:
                k, slack = part.log_mgf(tilt)
                whole, size, error = whole + k, size + abs(k), error + slack
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
        value, error = self.log_mgf(s)
        bend = math.expm1(min(self.log_mgf_above(s + h), 700.0)) / (h * h) * (1 + 64 * U)
        low, high = (value - error) / s * (1 - 8 * U) - 0.5 * s * bend, (value + error) / s * (1 + 8 * U)
        return (max(low, 0.0), high) if math.isfinite(high) else (0.0, math.inf)

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Log M(tilt+it)/M(tilt) and the bound on its error; phases of different parts may cancel, rounding not."""
        value, error = self.summands[0].log_mgf_ratio(tilt, t)
        size = np.abs(value.real) + np.abs(value.imag)
        for part in self.summands[1:]:
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

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """A bound on log |M(tilt+it')/M(tilt)| for t' in [t, until]."""
        return sum(part.log_tail(tilt, t, until) for part in self.summands)
