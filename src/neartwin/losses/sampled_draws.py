r"""The sampled Laplace mechanism a few times: none and one draw from its ramps are exact, the contour carries the rest.

One loss is one of two atoms (`hi` with mass p, `lo` with p') or lies on a ramp (subsampled_laplace.py): M = A + D with
A(s) = p e^{s hi} + p' e^{s lo}, and M^n = sum_k C(n,k) A^{n-k} D^k. As in draws.py the terms k = 0, 1 are sums over the n - k
copies at an atom, j of them at lo: a loss l of weight C(n,k) C(n-k,j) p^{n-k-j} p'^j, and with x = eps - l

    g_0(x) = (1 - e^x)_+,    g_1(x) = E[(1 - e^{x-V})_+; V on a ramp].

One ramp has the mass m = (1 - e^{-e})/2 under P and under Q, and with r(y) = 1 - q + q e^{2y-e}, 0 < y < e,
    remove   V = log r(y), density e^{-y} r(y)/2:   (q/2)(1 - e^{y_x - e})^2, r(y_x) = e^x, below the ramp m (1 - e^x);
    add      V = -log r(y), density e^{-y}/2:       (q/2) e^{x-e} (e^{y_x} - 1)^2, r(y_x) = e^{-x}, below the ramp m (1 - e^x);
    replace  both ramps: the first at x + b, and e^b times the second at x - b, b = log r(0) < 0.
(Insert y_x in the integral of density (1 - e^{x-V}) over V > x: the terms form a square.)

The rest, k >= 2, is a measure, so that its contour errs as contour.py says, by no more than the whole law's aliases. Cut: on
the line of lam |A| <= a M(lam) and |D| <= c M(lam)/t (`apart`), so at T, with y = c/(a T), |rest| <= (a M(lam))^n C(n,2) y^2
(1+y)^{n-2} =: R(T) as C(n,k) <= C(n,2) C(n-2,k-2); R(t) t^2 falls, so (1/pi) sum_{t>T} d R(t)/t^2 <= R(T)/(3 pi T).

Rounding. The rest is M^n - F(A, M), F = A^{n-1}(nM - (n-1)A) = A^{n-1}(A + nD). M has the error of the family's own line, dM; A
that of its two weights (atoms.tilted) and angles, dA. dF/dM = n A^{n-1} and dF/dA = n(n-1) A^{n-2} D, so between the true and
the computed values F moves by at most n a^{n-1} dM + n(n-1) a^{n-2} (|D| + dM + dA) dA, a := a + dA. Weights of the few draws:
a product of n quotients (gamma), its logarithm (at most 625 ELEMENTARY), an exponent (8U of at most 745, beyond which it
vanishes) with n errors of the masses' logarithms. g_1 errs relatively by 64 ELEMENTARY; by the error of y_x, that of its
logarithm, (4 + 2e) ELEMENTARY of m; by the argument of that logarithm as if x moved by 3 ELEMENTARY |e^x - 1|/e^x, which moves
g_1 by at most 3 ELEMENTARY |e^x - 1| Q(V > x), and Q(V > x), e^x Q(V > x) <= m; by the errors of hi, lo, b and x by at most so
much of its mass.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses import atoms
from neartwin.losses.draws import MOST_COPIES, Drawn, line
from neartwin.losses.rounding import ELEMENTARY, SMALLEST, ComplexArray, NoCertificateError, U, gamma
from neartwin.losses.saddle import Saddle
from neartwin.losses.total import Total

if TYPE_CHECKING:
    from neartwin.losses.subsampled_laplace import SubsampledLaplaceSum

BLOCK = 1 << 18  # numbers a temporary matrix may hold


class FewSampled:
    """The part of the law with at most one draw from a ramp: bounds on its share of delta."""

    def __init__(self, law: SubsampledLaplaceSum) -> None:
        """law: at least two copies, at most `MOST_COPIES`."""
        self.order, self.e, self.q, n = law.order, law.e, law.q, law.count
        ((high, low), (high_mass, low_mass)), error = law.two_atoms()
        (self.top, self.bottom), _ = (values.tolist() for values in law.log_r(np.array([self.e, -self.e])))
        self.high, self.mass = high, -0.5 * math.expm1(-self.e)
        self.moved = n * error + 8 * U * n * (abs(high) + abs(low)) + 4 * error  # of any loss
        self.error = n * (error + 8 * ELEMENTARY + 8 * U * self.e) + 1400 * ELEMENTARY + gamma(2 * n + 3)
        self.parts: list[tuple[FloatArray, FloatArray]] = []  # for each k: losses and weights
        for k in range(2):
            left = n - k
            j = np.arange(left + 1.0)
            ways = np.ones(left + 1)
            np.cumprod((left + 1 - j[1:]) / j[1:], out=ways[1:])
            exponent = np.log(ways) + (left - j) * high_mass + j * low_mass
            self.parts.append(((left - j) * high + j * low, math.comb(n, k) * np.exp(exponent)))

    def _rising(self, x: FloatArray) -> FloatArray:
        """g_1 of the ramp of `remove`."""
        gap = 0.5 * (self.e - np.log1p(np.expm1(np.clip(x, self.bottom, self.top)) / self.q))
        inside = 0.5 * self.q * np.square(np.expm1(-np.clip(gap, 0.0, self.e)))
        return np.where(x < self.bottom, -self.mass * np.expm1(np.minimum(x, 0.0)), np.where(x < self.top, inside, 0.0))

    def _falling(self, x: FloatArray) -> FloatArray:
        """g_1 of the ramp of `add`."""
        within = np.clip(x, -self.top, -self.bottom)
        y = np.clip(0.5 * (self.e + np.log1p(np.expm1(-within) / self.q)), 0.0, self.e)
        inside = 0.5 * self.q * np.exp(within - self.e + 2 * y) * np.square(np.expm1(-y))
        below = -self.mass * np.expm1(np.minimum(x, 0.0))
        return np.where(x < -self.top, below, np.where(x < -self.bottom, inside, 0.0))

    def _one(self, x: FloatArray) -> FloatArray:
        """g_1."""
        if self.order == "remove":
            return self._rising(x)
        if self.order == "add":
            return self._falling(x)
        return self._rising(x + self.bottom) + math.exp(self.bottom) * self._falling(x - self.bottom)

    def share(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What it adds to delta at each eps, and the bound on the error; 1e-300 for what exponentials lose below every float."""
        rows = max(1, BLOCK // len(self.parts[0][0]))
        if len(eps) > rows:
            parts = [self.share(eps[i : i + rows]) for i in range(0, len(eps), rows)]
            return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        shift = self.moved + 6 * U * np.abs(eps)
        value, loose = np.zeros((2, len(eps)))
        for k, (losses, weights) in enumerate(self.parts):
            x = np.subtract.outer(eps, losses)
            found = self._one(x) if k else -np.expm1(np.minimum(x, 0.0))
            value += found @ weights
            mass = (x < k * self.high + shift[:, None]) @ (weights * (2 * self.mass if k else 1.0))
            loose += mass * (shift + (k * (16 + 4 * self.e)) * ELEMENTARY)
        return value, value * self.error + 1.01 * loose + 1e-300


class _Sampled:
    """Copies of a sampled Laplace mechanism on the line of one lam."""

    def __init__(self, law: SubsampledLaplaceSum, lam: float) -> None:
        self.law, self.lam, self.few = law, lam, FewSampled(law)
        self.atoms, self.ramps = law.apart(lam)

    def log_cut(self, far: float) -> float:
        """R(far)/(3 pi far)."""
        n, y = self.law.count, self.ramps / (self.atoms * far)
        own = n * math.log(self.atoms) + math.log(math.comb(n, 2)) + 2 * math.log(y) + (n - 2) * math.log1p(y)
        own -= math.log(3 * math.pi * far)
        return own + 1e-11 * (1 + abs(own) + n * abs(math.log(self.atoms)))

    def terms(self, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """The transform of two draws and more over M(lam)^n at each node, and the bound on its error."""
        n, lam = self.law.count, self.lam
        rule = self.law.rule(lam, float(t[-1]))
        w, tilt = rule.weighted, rule.tilt
        one, one_error = atoms.line(w, tilt, t, n)
        power, whole = np.exp(n * one), np.exp(one)
        slack = np.abs(power) * (np.expm1(np.minimum(n * one_error, 700.0)) + 2 * ELEMENTARY + 4 * U * n * np.abs(one))
        whole_error = np.abs(whole) * (np.expm1(np.minimum(one_error, 700.0)) + 2 * ELEMENTARY + 4 * U * np.abs(one))
        losses, weights = w.losses[:2], tilt.weights[:2]
        most = abs(float((w.log_masses + lam * w.losses).max()))
        rho = w.mass_error[:2] + lam * w.loss_error[:2] + 3 * U * lam * np.abs(losses) + 6 * ELEMENTARY
        rho = rho + 2 * U * np.abs(w.log_masses[:2]) + 4 * U * most + tilt.bulk + 4 * w.outside
        turn = np.multiply.outer(t, losses)
        few: ComplexArray = np.cos(turn) @ weights + 1j * (np.sin(turn) @ weights)
        few_error = 1.01 * (float(weights @ rho) + t * float(weights @ (w.loss_error[:2] + 8 * U * np.abs(losses))))
        rest = np.abs(whole - few)
        size = np.maximum(np.abs(few), SMALLEST)
        log_size, angle = np.log(size), np.arctan2(few.imag, few.real)
        grown = np.exp((n - 1) * log_size)
        first: ComplexArray = grown * (np.cos((n - 1) * angle) + 1j * np.sin((n - 1) * angle))
        found = first * (few + n * (whole - few))
        a = float(weights.sum()) + few_error
        moved = n * np.power(a, n - 1) * whole_error
        moved += n * (n - 1) * np.power(a, n - 2) * (rest + whole_error + few_error) * few_error
        own = n * ELEMENTARY * (np.abs(log_size) + 4) + 8 * ELEMENTARY
        moved += grown * (np.abs(few) + n * rest) * own + 8 * U * n * grown * (np.abs(whole) + np.abs(few))
        return power - found, slack + 1.01 * moved + 4 * U * (np.abs(power) + np.abs(found))


def build(total: Total, saddle: Saddle, within: float) -> Drawn:
    """A line whose alias and cut leave a relative width within that asked for; `NoCertificateError` for any other law."""
    # here, since the engine alone loads no family that is not used
    from neartwin.losses.subsampled_laplace import SubsampledLaplaceSum

    (law, *others) = total.summands
    if others or not isinstance(law, SubsampledLaplaceSum) or not 2 <= law.count <= MOST_COPIES:
        raise NoCertificateError
    with np.errstate(all="ignore"):
        apart = _Sampled(law, saddle.lam)
    return line(total, saddle, within, apart)
