"""The sum of all losses of one direction: what every route asks of the summands, added up once."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands.base import Lattice, MaximumLoss, Ratio, SpecialMethod, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, ComplexArray, U, log_parts

# M(s) and Chernoff: for L under P and s > 0, (1 - e^{-x})_+ <= c(s) e^{sx} with c(s) = s^s / (1+s)^{1+s}, attained at
# e^x = 1 + 1/s; hence delta(eps) <= c(s) e^{K(s) - s eps} (Canonne, Kamath, Steinke 2020, proposition 12).


def log_c(s: float) -> float:
    """Log c(s), rounded up; c(0) = 1."""
    if s <= 0:
        return 0.0
    value = -s * math.log1p(1 / s) - math.log1p(s) if s > 1e-300 else 0.0
    return value + 16 * U * (abs(value) + 1)


def _logarithms(ratios: list[Ratio], t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The sum of copies times logarithms, real and imaginary, the bound on its error, and no less than the sum of moduli.

    As `log_parts`, for all rows together where that is no smaller than 1/2: its bound is ELEMENTARY of the same sum with |x|
    and (x^2 + y^2)/2 added. Subtracting the base and multiplying by the copies round by 2U of each; the base errs by its own
    bound.
    """
    kinds, half = len(ratios), np.array([0.5 * r.copies for r in ratios])
    rows = np.array([r.x for r in ratios] + [r.y for r in ratios])
    x, y = rows[:kinds], rows[kinds:]
    away = x * x + y * y
    square = away + (x + x)
    least = float(square.min())
    base = base_error = fixed = per_t = 0.0
    for r in ratios:
        base += r.copies * r.base
        base_error += r.copies * (r.base_error + 4 * U * abs(r.base))
        fixed, per_t = fixed + r.copies * r.fixed, per_t + r.copies * r.per_t
    if least > -0.75:
        real, imaginary = np.log1p(square), np.arctan2(y, 1 + x)
        moduli, other = np.abs(real), np.abs(imaginary)
        other += np.abs(x)
        moduli += away
        moduli += other + other
        share, size = (1 + 8 * U) / math.sqrt(1 + least), half @ moduli
        error = size * (ELEMENTARY + 4 * U) + (t * (per_t * share) + (fixed * share + base_error))
        return half @ real - base, half @ (imaginary + imaginary), error, size + abs(base)
    real, imaginary, bound = log_parts(x, y, np.array([r.fixed + r.per_t * t for r in ratios]))
    n = half + half
    size = n @ (np.abs(real) + np.abs(imaginary))
    return n @ real - base, n @ imaginary, n @ bound + (4 * U) * size + base_error, size + abs(base)


class SumOfLosses:
    """Summands of one direction together. Values are those of the sum of independent losses."""

    def __init__(self, summands: list[Summand]) -> None:
        """summands: at least one."""
        self.summands = [part for part in summands if not part.null] or summands[:1]
        low, high = zip(*[part.log_finite for part in summands], strict=True)
        self.log_finite = (sum(low) * (1 + 8 * U), sum(high) * (1 - 8 * U))
        losses, masses, leasts = zip(*[part.top for part in summands], strict=True)
        loss, mass, least = math.fsum(losses), math.prod(masses), math.fsum(leasts)
        slack = 64 * U * math.fsum(map(abs, leasts))
        self.top = MaximumLoss(loss + slack, mass * (1 - 64 * U), least - slack if slack < math.inf else least)
        self.lattice_error = sum([part.lattice_error for part in self.summands])
        self.lines: list[Any] = []  # kept by the router
        self._mgf: dict[float, tuple[float, float]] = {}

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """What a line of so many frequencies that reaches t costs, in exponentials."""
        return sum(part.work(tilt, t, frequencies) for part in self.summands)

    @property
    def fastest_frequency(self) -> float:
        """About how fast the atoms of the fastest summand turn; 0 where none is known. It decides no answer but its time."""
        return max(part.fastest_frequency for part in self.summands)

    @cached_property
    def ladder(self) -> SpecialMethod | None:
        """The method of the first summand that knows one for this sum."""
        alone = len(self.summands) == 1
        return next((part.ladder for part in self.summands if part.ladder and (alone or part.ladder.mixes)), None)

    @property
    def has_closed_form(self) -> bool:
        """One summand, whose delta is a formula."""
        return len(self.summands) == 1 and self._is_formula

    @cached_property
    def _is_formula(self) -> bool:
        return self.summands[0].has_closed_form

    @property
    def infinity(self) -> tuple[float, float]:
        """Bounds on P(L = inf) = 1 - prod P(L_i < inf)."""
        if self.log_finite == (0.0, 0.0):
            return self.log_finite
        low, high = (-math.expm1(end) for end in (self.log_finite[1], self.log_finite[0]))
        return max(low * (1 - 32 * U), 0.0), min(high * (1 + 32 * U), 1.0)

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

    def log_mgf_roughly_above(self, s: float) -> float:
        """An upper bound on K(s), a tenth loose at most for each summand."""
        value = sum([part.log_mgf_roughly_above(s) for part in self.summands])
        return value + 4 * len(self.summands) * U * abs(value)

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
        real, imaginary, error = self.parts(tilt, t)
        return real + 1j * imaginary, error

    def parts(self, tilt: float, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The same, real and imaginary parts apart; what can wait for its logarithm is taken together."""
        ratios, terms = [], []
        for part in self.summands:
            ratio = part.ratio(tilt, t)
            if ratio is not None:
                ratios.append(ratio)
            else:
                x, y, bound = part.parts(tilt, t)
                terms.append((x, y, bound, np.abs(x) + np.abs(y)))
        real, imaginary, error, size = _logarithms(ratios, t) if ratios else terms.pop()
        for x, y, bound, absolute in terms:
            real, imaginary, error, size = real + x, imaginary + y, error + bound, size + absolute
        return real, imaginary, error * 1.01 + ((len(self.summands) + 2) * U) * size

    def log_modulus_bound(self, tilt: float, t: FloatArray, width: float, enough: FloatArray) -> FloatArray | None:
        """A quick bound on log |M(tilt+it')/M(tilt)| for all t' within `width` of each t, where every summand has one."""
        bound: FloatArray = np.zeros(len(t))
        for part in self.summands:
            found = part.log_modulus_bound(tilt, t, width, enough - bound)
            if found is None:
                return None
            bound = bound + found
        return bound

    def zcdp_tail(self, s: float) -> float:
        """A bound on K(s')/(s'(s'+1)) for all s' >= s."""
        return sum(part.zcdp_tail(s) for part in self.summands) * (1 + 16 * U)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """A bound on log |M(tilt+it')/M(tilt)| for t' in [t, until]."""
        return sum(part.log_tail(tilt, t, until) for part in self.summands)
