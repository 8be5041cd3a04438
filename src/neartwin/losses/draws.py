r"""One kind of Laplace noise repeated: what at most two draws from the density add is exact, the contour carries the rest.

One loss is e or -e with masses 1/2 and e^{-e}/2, or a draw from the density e^{(u-e)/2}/4 between: M = A + D with

    A(s) = (e^{se} + e^{-(1+s)e})/2,   D(s) = (e^{se} - e^{-(1+s)e}) / (2(1+2s)),   M^n = sum_k C(n,k) A^{n-k} D^k.

A does not fall along a line, so neither does the transform of few draws, and a contour alone must be long. The terms k = 0, 1, 2
are sums over the n - k copies at an atom, j of them at -e: a loss l = (n-k-2j)e of weight C(n,k) C(n-k,j) 2^{k-n} e^{-je} and,
with x = eps - l, g_k(x) = E[(1 - e^{x-V})_+] over the sum V of k draws (densities unnormalised):
    g_0 = (1 - e^x)_+;    g_1 = (1 - e^{(x-e)/2})^2 / 2 on [-e, e], (1-e^{-e})/2 (1 - e^x) below;
    g_2 = r(h) - 2e^{-e} r(h-2e) on h = 2e - x in [0, 4e], ((1-e^{-e})/2)^2 (1 - e^x) below, r(h) = e^{-h/2}(sinh(h/2) - h/2)/2:
V has the density e^{-w/2}/16 times a tent in w = 2e - V, a sum of ramps, and int_0^h w e^{-w/2}(1 - e^{w-h}) dw = 16 r(h).

The rest, k >= 3, is a measure, so that its contour errs as contour.py says: a sum of the rule exceeds what it approximates, by
no more than the whole law's aliases. Cut: |A(s)| <= A(lam) and |D(s)| <= A(lam)/|1+2s| <= A(lam)/(2t), so at T, with y = 1/(2T),
|rest| <= A(lam)^n C(n,3) y^3 (1+y)^{n-3} =: R(T) as C(n,k) <= C(n,3) C(n-3,k-3); R(t) t^3 falls, so that
(1/pi) sum_{t>T} d R(t)/t^2 <= R(T)/(4 pi T).

Rounding. Every node is M^n, with the error of the family's own line, less A^{n-2}(A^2 + nAD + n(n-1)/2 D^2). In units of
a = A(lam)/M(lam), with z = e^{-(1+2lam)e}, q = (1-z)/(1+z), h = te: A = a(cos h + i q sin h), D = a(q cos h + i sin h)/(1+2s).
|A/a|^2 = 1 - v, v = (1-q^2) sin^2 h. An angle errs by 4U h, so A and D by eta = 4U h + 10 ELEMENTARY of a and a/|1+2s|, and
the bracket by 2.1 eta times the same with moduli; the logarithm of A by eta/|A/a| + 3 ELEMENTARY (v/|A/a|^2 + |log|), its base by
the error of K. Weights of the few draws err as in binomial.py, g_k by 64 ELEMENTARY relative to its positive terms, and x by
6U(|eps| + ne), which moves g_k by at most so much of its mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.alias import Alias, find_alias
from neartwin.losses.contour import Contour, Rounding, affordable, short
from neartwin.losses.laplace import LaplaceSum
from neartwin.losses.rounding import ELEMENTARY, ComplexArray, NoCertificateError, U, gamma
from neartwin.losses.saddle import Saddle
from neartwin.losses.total import Total

MOST_COPIES = 900  # 2^n is a float
BLOCK = 1 << 18  # numbers a temporary matrix may hold
DRAWS = 2


def _ramp(h: FloatArray) -> FloatArray:
    """r(h), 0 for h <= 0, to 32 ELEMENTARY relative: a series below 1, where the difference would cancel."""
    y = 0.5 * np.maximum(h, 0.0)
    square = y * y
    series = (
        y
        * square
        / 6
        * (1 + square / 20 * (1 + square / 42 * (1 + square / 72 * (1 + square / 110 * (1 + square / 156)))))
    )
    return 0.5 * np.where(y < 0.5, np.exp(-y) * series, -0.5 * np.expm1(-2 * y) - y * np.exp(-y))


class Few:
    """The part of the law with at most two draws: bounds on its share of delta."""

    def __init__(self, e: float, count: int) -> None:
        """e: of one copy, within U; count: how many, at most `MOST_COPIES`."""
        self.e, self.count = e, count
        self.error = (
            2 * ((2 * count + 2 * count * e + 8) * U + ELEMENTARY) * 1.01 + gamma(3 * count + 3) + 64 * ELEMENTARY
        )
        self.parts: list[tuple[FloatArray, FloatArray]] = []  # for each k: losses and weights
        for k in range(min(DRAWS, count) + 1):
            left = count - k
            j = np.arange(left + 1.0)
            ways = np.ones(left + 1)
            np.cumprod((left + 1 - j[1:]) / j[1:], out=ways[1:])
            self.parts.append(((left - 2 * j) * e, math.comb(count, k) * np.ldexp(ways, -left) * np.exp(-e * j)))

    def _draws(self, k: int, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """g_k, and the sum of the moduli of what was subtracted for it."""
        e, half = self.e, -0.5 * math.expm1(-self.e)
        below = -np.expm1(np.minimum(x, 0.0))
        if k == 0:
            return below, below
        if k == 1:
            inside = 0.5 * np.square(np.expm1(0.5 * np.minimum(x - e, 0.0)))
            found: FloatArray = np.where(x < -e, half * below, inside)
            return found, found
        h = 2 * e - x
        first, second = _ramp(np.minimum(h, 4 * e)), 2 * math.exp(-e) * _ramp(np.minimum(h, 4 * e) - 2 * e)
        low = half * half * below
        return np.where(x < -2 * e, low, first - second), np.where(x < -2 * e, low, first + second)

    def share(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What it adds to delta at each eps, and the bound on the error."""
        rows = max(1, BLOCK // (self.count + 1))
        if len(eps) > rows:
            parts = [self.share(eps[i : i + rows]) for i in range(0, len(eps), rows)]
            return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        value, size, mass = np.zeros((3, len(eps)))
        shift = 6 * U * (np.abs(eps) + self.count * self.e)
        for k, (losses, weights) in enumerate(self.parts):
            x = np.subtract.outer(eps, losses)
            found, moduli = self._draws(k, x)
            value, size = value + found @ weights, size + moduli @ weights
            mass += (x < k * self.e + shift[:, None]) @ (weights * (-0.5 * math.expm1(-self.e)) ** k)
        return value, size * self.error + 1.01 * mass * shift


class Shares(Protocol):
    """The part of a law with few draws."""

    def share(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What it adds to delta at each eps, and the bound on the error."""


class Apart(Protocol):
    """A law on one line, its few draws apart; transforms are over M(lam)^n."""

    @property
    def few(self) -> Shares:
        """The few draws."""

    def log_cut(self, far: float) -> float:
        """The logarithm of (1/pi) sum_{t > far} d |rest| / |s(s+1)|, rounded up."""

    def terms(self, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """The transform of the rest at each node, and the bound on its error."""


@dataclass(frozen=True)
class Drawn:
    """A line for every eps near its saddle: the exact share of few draws and the contour of the rest."""

    few: Shares
    rest: Contour

    @property
    def nodes(self) -> int:
        """Those of the contour."""
        return self.rest.nodes

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds at each eps."""
        share, slack = self.few.share(eps)
        lower, upper = self.rest.delta(eps)
        return np.maximum(share - slack, 0.0) + lower, np.minimum((share + slack + upper) * (1 + 4 * U), 1.0)

    def ledger(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The same with the error terms."""
        share, slack = self.few.share(eps)
        lower, upper, parts = self.rest.ledger(eps)
        parts["rounding"] = parts["rounding"] + slack
        return (
            (np.maximum(share - slack, 0.0) + lower) * (1 - 4 * U),
            np.minimum((share + slack + upper) * (1 + 4 * U), 1.0),
            parts,
        )

    def middle(self, eps: float) -> tuple[float, float]:
        """The sum and its fall, that of the few draws by a difference."""
        step = 1e-5 / (1 + self.rest.saddle.lam)
        above, share, below = self.few.share(np.array([eps - step, eps, eps + step]))[0].tolist()
        value, fall = self.rest.middle(eps)
        return share + value, (above - below) / (2 * step) + fall


def build(total: Total, saddle: Saddle, within: float) -> Drawn:
    """A line whose alias and cut leave a relative width within that asked for; `NoCertificateError` for any other law."""
    (law, *others) = total.summands
    if others or not isinstance(law, LaplaceSum) or len(law.e) > 1 or not 2 <= law.n[0] <= MOST_COPIES:
        raise NoCertificateError
    return line(total, saddle, within, _Repeated(law, saddle.lam))


@np.errstate(all="ignore")
def line(total: Total, saddle: Saddle, within: float, law: Apart) -> Drawn:
    """The line of a law given apart; as narrow as asked where rounding lets it."""
    lam, (scale, scale_error) = saddle.lam, total.log_mgf(saddle.lam)
    share = 0.02 * within * lam * max(abs(saddle.eps), 1e-2 * saddle.deviation)
    log_goal = saddle.log_delta + math.log(min(max(share, 1e-13), 1e-6))
    found = find_alias(total, saddle, log_goal)
    step = short(2 * math.pi / found.period)
    alias = Alias(lam, 2 * math.pi / step * (1 - 4 * U), found.top, found.above, found.below)
    relative_goal, nodes = log_goal - scale + lam * saddle.eps, 32
    while affordable(total, lam, nodes, step) and not law.log_cut(nodes * step) <= relative_goal:
        nodes = int(1.2 * nodes) + 1
    t: FloatArray = step * np.arange(nodes + 1, dtype=float)
    terms, slack = law.terms(t)
    poles: ComplexArray = (lam + 1j * t) * (lam + 1 + 1j * t)
    weight = (step / math.pi) / np.abs(poles)
    weight[0] *= 0.5
    turned = terms / poles * np.abs(poles) * weight
    size = np.abs(turned)
    rounding = Rounding(
        float(weight @ slack) * 1.01 + float(size.sum()) * (gamma(len(t)) + 60 * U),
        float(size @ t) * 1.72 * 2 * U * 1.01,
    )
    rest = Contour(
        saddle=saddle,
        step=step,
        t=t,
        size=size,
        angle=np.angle(turned),
        log_scale=scale,
        scale_error=scale_error,
        dip=None,
        rounding=rounding,
        dip_rounding=Rounding(0.0, 0.0),
        alias=alias,
        cut=math.exp(min(law.log_cut(nodes * step), 700.0)),
    )
    return Drawn(law.few, rest)


@dataclass(frozen=True)
class _Repeated:
    """Copies of one kind of Laplace noise, at most two draws apart."""

    law: LaplaceSum
    lam: float

    @property
    def few(self) -> Few:
        """None to two draws."""
        return Few(float(self.law.e[0]), int(self.law.n[0]))

    def log_cut(self, far: float) -> float:
        """R(far)/(4 pi far)."""
        e, n, lam = float(self.law.e[0]), int(self.law.n[0]), self.lam
        if n <= DRAWS:
            return -math.inf
        scale, y = self.law.log_mgf(lam)[0], 0.5 / far
        log_share = n * (_log_atoms(e, lam) - math.log(2)) - scale + math.log(math.comb(n, 3))
        own = log_share + 3 * math.log(y) + (n - 3) * math.log1p(y) - math.log(4 * math.pi * far)
        return own + 1e-11 * (1 + abs(own) + abs(scale))

    def terms(self, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """As the rest and its rounding are derived above."""
        return _terms(self.law, self.lam, t)


def _log_atoms(e: float, lam: float) -> float:
    """Log A(lam) + log 2, to 4 ELEMENTARY and 4U of lam e."""
    return lam * e + math.log1p(math.exp(-(1 + 2 * lam) * e))


def _terms(law: LaplaceSum, lam: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """The transform of three draws and more over M(lam)^n at each node, and the bound on its error."""
    e, n = float(law.e[0]), int(law.n[0])
    whole, whole_error = law.line(lam, t)
    power = np.exp(whole)
    slack = np.abs(power) * (np.expm1(np.minimum(whole_error, 700.0)) + 2 * ELEMENTARY + 2 * U * np.abs(whole.imag))
    one, one_error = law.log_mgf(lam)
    log_a = _log_atoms(e, lam) - math.log(2) - one / n
    base_error = one_error / n + 5 * ELEMENTARY + 8 * U * (lam * e + abs(one / n))
    z = math.exp(-(1 + 2 * lam) * e)
    q, rest = (1 - z) / (1 + z), 4 * z / (1 + z) ** 2
    angle = t * e
    sine, cosine = np.sin(angle), np.cos(angle)
    v = rest * sine * sine
    log_size = 0.5 * np.log1p(-v)
    size = np.exp(log_size)
    a = math.exp(log_a)
    atoms = a * (cosine + 1j * (q * sine))
    density = a * (q * cosine + 1j * sine) / (1 + 2 * lam + 2j * t)
    most = a / np.hypot(1 + 2 * lam, 2 * t)
    log_power, turn = (n - 2) * (log_a + log_size), (n - 2) * np.arctan2(q * sine, cosine)
    bracket = atoms * atoms + n * atoms * density + (0.5 * n * (n - 1)) * (density * density)
    few = np.exp(log_power) * bracket * (np.cos(turn) + 1j * np.sin(turn))
    eta = 4 * U * angle + 10 * ELEMENTARY
    log_error = n * (
        base_error + eta / size + 3 * ELEMENTARY * (v / np.square(size) + np.abs(log_size))
    ) + 2 * U * np.abs(turn)
    moduli = a * a + n * a * most + 0.5 * n * (n - 1) * np.square(most)
    own = np.expm1(np.minimum(log_error, 700.0)) + 2.2 * (eta + base_error) + 8 * ELEMENTARY
    slack = slack + np.exp(log_power) * moduli * own
    return power - few, slack + 4 * U * (np.abs(power) + np.abs(few))
