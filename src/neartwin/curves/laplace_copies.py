"""The n-fold composition of one Laplace curve, exactly: a mixture of Irwin-Hall laws, with positive terms only.

The loss of T(Lap(0, 1), Lap(s, 1)) lies in [-s, s]. Under the geometric mean of the two laws, sqrt(PQ), it has weight
e^{-s/2}/2 at each end and density e^{-s/2}/4 between them. The n-fold loss, divided by s, is therefore a sum in which
j of n terms are uniform on (-1, 1) and the others are +-1: atoms at -n, -n + 2, ..., n and a density that is a
polynomial of degree n - 1 on each interval between them. With x = loss/s,

    delta(e) = int (e^{sx/2} - e^{e - sx/2})_+ d sqrt(PQ)^n,    alpha(e) = int_{sx > e} e^{-sx/2} d sqrt(PQ)^n,

and power(e) the same with the other sign: sums of positive terms, so relative accuracy holds down to the smallest
floats. Gauss-Legendre nodes integrate the polynomial exactly and the exponential to far below rounding.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from neartwin import special
from neartwin.checks import integer, positive
from neartwin.curves.twofold import UNIT, Argument, clipped, levels, read
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational

MOST_FACTORS, MOST_SHIFT = 200, 50


def _densities(n: int, shift: float, fractions: FloatArray) -> FloatArray:
    """The density of x on each interval, at the given places in (0, 1): (n, places), without the factor e^{-ns/2}.

    Row m is the interval from -n + 2m to -n + 2m + 2. B_j, the cardinal B-spline of order j at fraction + m, grows by
    its positive recurrence; Horner's rule in (1 + shift operator) adds the orders up.
    """
    spline = np.zeros((n, fractions.size))
    spline[0] = 1.0
    rows = np.arange(n, dtype=np.float64)[:, None] + fractions
    # weight of j uniforms: C(n, j) (s/2)^j 2^-(n - j), density of x is half of the spline's
    weights = [
        math.exp(
            math.lgamma(n + 1)
            - math.lgamma(j + 1)
            - math.lgamma(n - j + 1)
            + j * math.log(shift / 2)
            - (n - j) * math.log(2)
        )
        for j in range(1, n + 1)
    ]
    total = 0.5 * weights[0] * spline
    for j in range(2, n + 1):
        moved = np.concatenate((np.zeros((1, fractions.size)), spline[:-1]))
        spline = (rows * spline + np.maximum(j - rows, 0.0) * moved) / (j - 1)
        total = total + np.concatenate((np.zeros((1, fractions.size)), total[:-1])) + 0.5 * weights[j - 1] * spline
    return total


@lru_cache(maxsize=64)
def _rule(count: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre places in (0, 1), and weights that sum to 2."""
    nodes, weights = special.roots_legendre(count)
    return 0.5 * (np.asarray(nodes) + 1), np.asarray(weights)


@lru_cache(maxsize=64)
def _whole_cells(n: int, shift: float, count: int) -> FloatArray:
    """The density at the places of every interval, times their weights: (n, count)."""
    places, weights = _rule(count)
    return _densities(n, shift, places) * weights


@lru_cache(maxsize=64)
def _atoms(n: int) -> tuple[FloatArray, FloatArray]:
    """The atoms -n, -n + 2, ..., n and their weights without the factor e^{-ns/2}."""
    masses = [math.comb(n, k) / 2**n for k in range(n + 1)]
    return np.arange(-n, n + 1, 2, dtype=np.float64), np.array(masses)


@dataclass(frozen=True, slots=True)
class _Tail:
    """What lies above a threshold: masses under P and Q, delta, and the atoms exactly on it."""

    alpha: float
    power: float
    delta: float
    on_p: float
    on_q: float


@dataclass(frozen=True, slots=True)
class LaplacePower:
    """T(Lap(0, 1), Lap(shift, 1)) composed with itself n times."""

    shift: Fraction
    n: int

    @property
    def symmetric(self) -> bool:
        """As each factor."""
        return True

    def inverse(self) -> "LaplacePower":
        """Itself."""
        return self

    def _room(self) -> float:
        return (64 + 16 * self.n + 8 * self.n * float(self.shift)) * UNIT

    def _tail(self, epsilon: float) -> _Tail:
        n, s = self.n, float(self.shift)
        at = epsilon / s
        cell = min(max(math.floor((at + n) / 2), 0), n - 1)
        count = n // 2 + 16 + math.ceil(s)
        places, weights = _rule(count)
        edge = -n + 2.0 * cell
        start = min(max(at - edge, 0.0), 2.0)
        part = start + (2.0 - start) * places
        inner = _densities(n, s, part / 2)[cell] * weights * (2.0 - start) / 2
        starts = -n + 2.0 * np.arange(cell + 1, n)
        atoms, masses = _atoms(n)
        above, here = atoms * s > epsilon, atoms * s == epsilon
        x = np.concatenate((edge + part, (starts[:, None] + 2 * places).ravel(), atoms[above]))
        mass = np.concatenate((inner, _whole_cells(n, s, count)[cell + 1 :].ravel(), masses[above]))
        under_q = mass * np.exp(s * (x - n) / 2)
        on = float(np.sum(masses[here]))
        return _Tail(
            alpha=float(np.sum(mass * np.exp(-s * (x + n) / 2))),
            power=float(np.sum(under_q)),
            delta=float(np.sum(under_q * -np.expm1(np.minimum(epsilon - s * x, 0.0)))),
            on_p=on * math.exp(-(epsilon + n * s) / 2),
            on_q=on * math.exp((epsilon - n * s) / 2),
        )

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """A sum of positive integrals; below zero by the mirror rule."""
        wanted = read(epsilon=epsilon)[0]
        size = np.abs(wanted)
        reach = self.n * float(self.shift)
        flat = [self._tail(float(e)).delta if e < reach else 0.0 for e in size.ravel()]
        value = np.array(flat).reshape(size.shape)
        # the argument was rounded to one float: delta's slope is at most its own power, below 1
        room = self._room() * value + 4 * UNIT * size * np.maximum(value, 0.0)
        down = np.minimum(wanted, 0.0)
        whole = -np.expm1(down) + np.exp(down) * value
        value = np.where(wanted < 0, whole, value)
        return clipped(value - room - 4 * UNIT * value, value + room + 4 * UNIT * value, "Irwin-Hall mixture")

    def _point(self, level: float) -> tuple[float, float, float, float]:
        """(power, beta) of the best test with type I error `level`, each from below and from above."""
        n, s = self.n, float(self.shift)
        low, high = 0, n  # atoms at (2 i - n) s; rejecting above the last one has type I error 0
        while low < high:
            middle = (low + high) // 2
            tail = self._tail((2 * middle - n) * s)
            low, high = (middle + 1, high) if tail.alpha > level else (low, middle)
        threshold = (2 * low - n) * s
        tail = self._tail(threshold)
        if level <= tail.alpha + tail.on_p:  # randomise on the atom
            share = min(max((level - tail.alpha) / tail.on_p, 0.0), 1.0)
            power = tail.power + share * tail.on_q
            beta = self._tail(-threshold).alpha + (1 - share) * tail.on_q
            return power, power, beta, beta
        left, right = threshold - 2 * s, threshold
        while right - left > 2 * UNIT * max(abs(left), abs(right), s):
            centre = 0.5 * (left + right)
            if centre in (left, right):
                break
            left, right = (centre, right) if self._tail(centre).alpha > level else (left, centre)
        tail = self._tail(right)
        missed = math.exp(right) * max(level - tail.alpha, 0.0) * (1 + 1e-9)  # the support line's slope times the rest
        beta = self._tail(-right).alpha + (tail.on_q if right == threshold else 0.0)
        return tail.power, tail.power + missed, beta - missed, beta

    def _points(self, alpha: Argument) -> tuple[FloatArray, FloatArray, FloatArray]:
        level, rest = levels(alpha=alpha)
        reach = self.n * float(self.shift)
        flat = []
        for a, c in zip(level.ravel(), rest.ravel(), strict=True):
            if a <= 0 or c <= 0:
                flat.append((float(a), float(a), float(c), float(c)))
            elif a <= 0.5 * math.exp(-reach) / 2**self.n:  # inside the best atom, whatever the rounding
                gain = float(a) * math.exp(reach)
                flat.append((gain, gain, 1 - gain, 1 - gain))
            elif c <= 0.5 / 2**self.n:  # inside the worst one
                left = float(c) * math.exp(-reach)
                flat.append((1 - left, 1 - left, left, left))
            else:
                flat.append(self._point(float(a)))
        columns = np.array(flat).reshape(*level.shape, 4)
        room = np.where((level <= 0) | (rest <= 0), 0.0, 4 * self._room())[..., None]
        return columns * (1 - room), columns * (1 + room), level

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """The best test's power; between atoms the line of slope e^threshold bounds what bisection leaves open."""
        low, high, _ = self._points(alpha)
        return clipped(low[..., 0], high[..., 1], "threshold test")

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """Q's mass on the side that is kept, summed there and never as 1 - power."""
        low, high, _ = self._points(alpha)
        return clipped(low[..., 2], high[..., 3], "threshold test")


def laplace_power(shift: Number, n: int) -> LaplacePower:
    """N Laplace mechanisms of one shift = sensitivity/scale, composed exactly. n up to 200, shift up to 50.

    >>> d = laplace_power("0.5", 10).delta(1)
    >>> bool(d.lower <= 0.30704054318725553 <= d.upper)
    True
    """
    exact = positive(shift=rational(shift=shift))
    if exact > MOST_SHIFT:
        raise ParameterError("shift", shift, f"must be at most {MOST_SHIFT}")
    if integer(at_least=1, n=n) > MOST_FACTORS:
        raise ParameterError("n", n, f"must be at most {MOST_FACTORS}", remedy="compose more of them numerically")
    return LaplacePower(exact, n)
