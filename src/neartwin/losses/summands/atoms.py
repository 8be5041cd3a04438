"""Finitely many losses: every finite pair, and the nodes of a certified quadrature of a density.

A law of finitely many losses is kept with the bounds on its errors, and with its tilted moments. Its transform errs
relative to e^{itl} - 1 (K12). Many atoms at many equally spaced frequencies go through one real FFT (K13, K14).
Equations: docs/proofs/losses-contour.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands import rounding
from neartwin.losses.summands.base import Lattice, MaximumLoss, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, LARGEST, ComplexArray, NoCertificateError, U, gamma, total

RUNS, MOST_COPIES = 1 << 18, 64  # runs that are atoms of one law, and copies in them


@dataclass(frozen=True)
class Weighted:
    """Losses l_j with P-masses p_j that sum to 1, as logarithms, and what is known of their errors.

    mass_error: relative, each p_j (absolute, each logarithm). loss_error: absolute, each l_j. outside: absolute
    error of the sum of p e^{sl} over M(tilt) that the nodes do not explain (quadrature); 0 for true atoms.
    log_share: of a part of a law, the logarithm of its mass, with its error; the p_j are then those given the part.
    """

    losses: FloatArray
    log_masses: FloatArray
    mass_error: FloatArray
    loss_error: FloatArray
    outside: float = 0.0
    log_share: tuple[float, float] = (0.0, 0.0)

    @cached_property
    def masses(self) -> FloatArray:
        """The masses themselves; the smallest may vanish."""
        return np.exp(self.log_masses)

    @cached_property
    def errors(self) -> FloatArray:
        """Relative error of a tilted weight, its own and per unit of tilt; both times |l|; |l|; and how losses move. (6, n)."""
        size = np.abs(self.losses)
        own = self.mass_error + 2 * ELEMENTARY + 2 * U * np.abs(self.log_masses)
        moved = self.loss_error + 3 * U * size
        return np.array([own, moved, own * size, moved * size, size, self.loss_error + 8 * U * size])


class Shifted(NamedTuple):
    """A tilted law: the greatest exponent, the sum of e^{exponent} over its own, and the weights, of sum 1."""

    top: float
    whole: float
    weights: FloatArray


class Moved(NamedTuple):
    """The effect of a tilted law's errors on a sum of its weights.

    Attributes:
        bulk: The most that the errors of the weights can do to a sum of them, times 2.
        slope: The most that they can do to a sum of w (e^{itl} - 1), per unit of t.
        size: The sum of w |l|, rounded up.
        drift: The most that moved losses can do, per unit of t.
    """

    bulk: float
    slope: float
    size: float
    drift: float


class Tilted:
    """`Weighted` at one tilt: K(tilt) and its error; as far as they are asked for, weights and the constants of a line's error.

    rho_j is the relative error of a weight. It has the errors of p_j, of the exponent (tilt loss_error + 3U tilt|l_j|),
    of exp and of the sum that normalises. That sum is an average of the same errors. While it cannot overflow, and M is above
    1/2, K is log1p(sum p expm1(tilt l)), with an error relative to |e^{tilt l} - 1|. Beyond, it is the usual shifted sum.
    """

    def __init__(self, w: Weighted, tilt: float) -> None:
        """w: the law; tilt: of either sign."""
        self.weighted, self.tilt = w, tilt
        exponent = tilt * w.losses
        value = math.inf
        if float(exponent.max()) < 600:  # a mass below e^-745 then adds less than e^-140 to M
            moment = w.masses * np.expm1(exponent)
            value = total(moment)
        if -0.5 < value < math.inf:
            # relative error of p (e^{tilt l} - 1) in a sum by blocks but for the exponent's, and that per unit of tilt
            own, per_tilt = (
                w.mass_error + (ELEMENTARY + U + rounding.blocked(len(w.losses))),
                w.loss_error + U * np.abs(w.losses),
            )
            moved = float(np.abs(moment) @ own) + 1e-60 * len(moment)
            moved += abs(tilt) * float((w.masses + np.maximum(moment, 0.0)) @ per_tilt)
            self.log_mgf = math.log1p(value)
            error = moved / (1 + value) * 1.01 + ELEMENTARY * abs(self.log_mgf)
        else:
            top, whole, _ = self.shifted
            self.log_mgf = top + math.log(whole)
            error = 0.5 * self.moved.bulk + 4 * U * (abs(top) + 20)
        self.error = error + 2 * w.outside

    @cached_property
    def shifted(self) -> Shifted:
        """The weights, and what made them."""
        exponent = self.weighted.log_masses + self.tilt * self.weighted.losses
        top = float(exponent.max())
        raw = np.exp(exponent - top)
        whole = total(raw)
        return Shifted(top, whole, raw / whole)

    @cached_property
    def moved(self) -> Moved:
        """From the sums of w rho, w rho |l|, w |l| and w (loss_error + 8U |l|)."""
        own, moved, own_l, moved_l, l, drift = (self.weighted.errors @ self.shifted.weights).tolist()
        count = len(self.weighted.losses)
        top = 4 * U * abs(self.shifted.top)
        mean = own + abs(self.tilt) * moved + top
        more = mean * (1 + gamma(count)) + 2 * rounding.blocked(count)
        return Moved(
            2.02 * (mean + more), 1.01 * (own_l + abs(self.tilt) * moved_l + (top + more) * l), 1.01 * l, 1.01 * drift
        )


SHARPNESS = 0.185  # b of (K13)
REACH = 15  # P of (K13)
HEIGHT = math.exp(math.pi**2 / (64 * SHARPNESS)) * 1.001
ALIAS = 1.02 * math.exp(-0.75 * math.pi**2 / SHARPNESS)
TRUNCATION = 2.1 * math.exp(-SHARPNESS * REACH**2) * HEIGHT / math.sqrt(math.pi / SHARPNESS)
GROUP = 64  # atoms of one place that are summed one after the other


def transform(losses: FloatArray, weights: FloatArray, step: float, count: int) -> tuple[ComplexArray, float]:
    """The sums at 0, step, ..., count * step, and a bound on the absolute error of each (K13).

    Args:
        losses: The l, (atoms,).
        weights: Their signs may differ, (atoms,).
        step: Between frequencies.
        count: The number of frequencies above 0.

    Returns:
        The sums, (count + 1,), and the error of each.
    """
    size = 1 << max(8, math.ceil(math.log2(8 * max(count, 1))))
    offsets = np.arange(1 - REACH, REACH + 1)
    y = losses * (step * size / (2 * math.pi))
    base = np.floor(y)
    # neighbours of one place are summed before all that meet there
    starts = np.flatnonzero((np.arange(len(y)) % GROUP == 0) | np.append(True, base[1:] != base[:-1]))
    spread = offsets - (y - base)[:, None]
    np.exp(-SHARPNESS * np.square(spread, out=spread), out=spread)
    sums = np.add.reduceat(spread * weights[:, None], starts).ravel()
    near = ((base[starts].astype(np.int64)[:, None] + offsets) % size).ravel()
    result = np.conj(np.fft.rfft(np.bincount(near, weights=sums, minlength=size))[: count + 1])
    ratio = (np.arange(count + 1) / size) ** 2 * (math.pi**2 / SHARPNESS)
    result *= np.exp(ratio) / math.sqrt(math.pi / SHARPNESS)
    rounding = (6 * math.log2(size) + float(np.bincount(near).max()) + GROUP + 20 + 24) * U + 2 * ELEMENTARY
    return result, (ALIAS + TRUNCATION + HEIGHT * rounding * 1.01) * float(np.abs(weights).sum()) * (1 + 1e-9)


BLOCK = 1 << 19  # numbers a temporary matrix may hold
FEW_TURNED = 32  # frequencies up to which atoms are turned one by one
FEW_TURNS = 8.0  # a mean turn of the last frequency up to which differences err less than the sums themselves
Parts = tuple[FloatArray, FloatArray, FloatArray]  # real, imaginary and the error of both
OVERHEAD = 2500  # exponentials that a fast transform costs in any case


def rough_cumulants(losses: FloatArray, log_masses: FloatArray, tilt: float, count: int) -> tuple[float, float, float]:
    """K, K', K'' of so many copies, uncertified.

    Args:
        losses: The l, (atoms,).
        log_masses: Logarithms of the p, (atoms,).
        tilt: At least 0.
        count: The number of copies.
    """
    exponent = log_masses + tilt * losses
    top = float(exponent.max())
    weights = np.exp(exponent - top)
    total = float(weights.sum())
    weights /= total
    mean = float(weights @ losses)
    variance = float(weights @ np.square(losses - mean))
    return count * (top + math.log(total)), count * mean, count * variance


def line(w: Weighted, tilted_law: Tilted, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """Log of 1 + sum w (e^{itl} - 1), and its error E, at equally spaced t from 0.

    Error of the sum: |delta w_j| |e^{itl_j} - 1| with |e^{ix} - 1| <= min(2, |x|). The angle errs by |t| loss_error,
    and by 8U|t l| from the rounding of t, l and their product. Many atoms at many frequencies go through a fast transform.

    Args:
        w: The law.
        tilted_law: The law, tilted.
        t: Frequencies, (frequencies,).
    """
    # what the stated errors of masses and losses, and what is outside, may move the sum by
    moved = tilted_law.moved
    error = np.minimum(moved.bulk, t * moved.slope) + t * moved.drift + 4 * w.outside
    atoms, frequencies = len(w.losses), len(t)
    many = OVERHEAD + 20 * atoms + 10 * frequencies < 2 * atoms * frequencies
    fast = many and bool(np.all(np.abs(t - t[1] * np.arange(len(t))) <= 2 * U * t))
    x, y, own = (transformed if fast else turned)(w.losses, tilted_law.shifted.weights, moved.size, t)
    return rounding.log_one_plus(x, y, error + own)


def turned(losses: FloatArray, weights: FloatArray, size: float, t: FloatArray) -> Parts:
    """Real and imaginary part of sum w (e^{itl} - 1), atom by atom, and what computing them so may add to the error.

    Sin, cos and their products err by 3 ELEMENTARY relative to sum |w| |e^{itl} - 1| <= min(2, t sum |w l|). The caller charges
    2 `blocked` for the sum, blocks of atoms before the sums of blocks. Atoms that fill up the last block have no weight.

    Args:
        losses: The l, (atoms,).
        weights: The w, of any sign; sum |w| is at most 1, (atoms,).
        size: At least sum |w l|.
        t: Frequencies, (frequencies,).
    """
    x, y = np.empty((2, len(t)))
    width = min(rounding.block(len(losses)), len(losses))
    spare = np.zeros(-len(losses) % width)
    halves, doubled = np.append(0.5 * losses, spare), np.append(2 * weights, spare)
    together = max(1, BLOCK // len(halves))
    for start in range(0, len(t), together):
        some = slice(start, start + together)
        half = np.multiply.outer(halves, t[some])
        sine = np.sin(half)
        both = np.array([-sine, np.cos(half)]) * (sine * doubled[:, None])
        x[some], y[some] = both.reshape(2, -1, width, half.shape[1]).sum(axis=2).sum(axis=1)
    return x, y, 3 * ELEMENTARY * np.minimum(2.0, t * size)


def transformed(losses: FloatArray, weights: FloatArray, size: float, t: FloatArray) -> Parts:
    """Both parts at t = 0, d, 2d, ..., by a fast transform: of the sums themselves, or of their differences (K14).

    Args:
        losses: As of `turned`.
        weights: As of `turned`.
        size: As of `turned`.
        t: Frequencies 0, d, 2d, ...
    """
    step, last = float(t[1]), len(t) - 1
    if float(t[-1]) * size > FEW_TURNS:
        result, slack = transform(losses, weights, step, last)
        return result.real - result[0].real, result.imag - result[0].imag, np.full(len(t), 2 * slack)
    half = (0.5 * step) * losses
    sine = np.sin(half)
    rises = 2 * sine * weights
    if last <= FEW_TURNED:  # each turned once more than the one before
        turn: ComplexArray = np.cos(half) + 1j * sine
        odd = np.multiply.accumulate([rises * turn, *[turn * turn] * (last - 1)]).sum(axis=1)
        slack = ((2 * last + 1) * (ELEMENTARY + 3 * U) + gamma(len(half))) * float(np.abs(rises).sum())
    else:
        result, slack = transform(losses, rises, 0.5 * step, 2 * last - 1)
        odd = result[1::2]
    # running sums by rows, and before each row those of all rows above
    few = math.isqrt(last) + 1
    sums: ComplexArray = np.append(odd, np.zeros(few * few - last)).reshape(few, few).cumsum(axis=1)
    sums[1:] += sums[:-1, -1].cumsum()[:, None]
    partial_sums = np.append(0.0, sums.ravel()[:last])
    own = slack + (2 * ELEMENTARY + gamma(2 * few)) * float(np.abs(rises).sum()) + 4 * U * step * size
    return -partial_sums.imag, partial_sums.real, np.arange(float(len(t))) * (own * 1.01)


def work(atoms: int, frequencies: int) -> int:
    """The cost of a line in exponentials, by a fast transform with all else that a line does at its frequencies, or without.

    Args:
        atoms: Their number.
        frequencies: Their number.
    """
    return min(2 * atoms * frequencies, OVERHEAD + 20 * atoms + 10 * frequencies)


class AtomicSum(Summand):
    """`count` copies of one finite law of losses."""

    def __init__(
        self,
        weighted: Weighted,
        count: int,
        *,
        infinity: tuple[float, float] = (0.0, 0.0),
        lattice: Lattice | None = None,
    ) -> None:
        """infinity: bounds on P(L = inf) of one copy; the masses of `weighted` are those given L < inf.

        lattice: where all losses of one copy lie exactly. Two losses lie on one of their own, each within its error.
        """
        self.weighted, self.count = weighted, count
        self.atoms = (weighted, count) if weighted.outside == 0 else None
        if infinity[1] > 0:
            self.log_finite = (
                count * math.log1p(-infinity[1]) * (1 + 64 * U) if infinity[1] < 1 else -math.inf,
                count * math.log1p(-infinity[0]) * (1 - 64 * U) if infinity[0] < 1 else -math.inf,
            )
        j = int(weighted.losses.argmax())
        highest = count * float((weighted.losses + weighted.loss_error).max())
        least = count * float(weighted.losses[j] - weighted.loss_error[j])
        log_mass = count * (float(weighted.log_masses[j]) - 2 * float(weighted.mass_error[j]) - 64 * U)
        mass = math.exp(log_mass * (1 + 8 * U)) * (1 - 1e-14) if log_mass > -700 else 0.0
        self.top = MaximumLoss(highest + 8 * U * abs(highest), mass, least - 8 * U * abs(least))
        self.null = not weighted.losses.any()
        if lattice is None and len(weighted.losses) == 2 and np.ptp(weighted.losses) > 0 and weighted.outside == 0:
            low, high = sorted(Fraction(float(loss)) for loss in weighted.losses)
            lattice = Lattice(low, high - low)
            self.lattice_error = count * float(weighted.loss_error.max()) * (1 + 8 * U)
        self.lattice = None if lattice is None else Lattice(count * lattice.start, lattice.step)
        self._tilted_law: Callable[[float], Tilted] = lru_cache(maxsize=64)(partial(Tilted, weighted))

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Tilted mean and variance, times the count."""
        w = self.weighted
        return rough_cumulants(w.losses, w.log_masses, tilt, self.count)

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Count times one copy."""
        one = self._tilted_law(tilt)
        value = self.count * one.log_mgf
        return value, self.count * one.error * (1 + 4 * U) + 2 * U * abs(value)

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Count times one copy; the product rounds."""
        one, error = line(self.weighted, self._tilted_law(tilt), t)
        return self.count * one, self.count * error + 2 * U * self.count * np.abs(one)

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The cost of a line, from the atoms."""
        return work(len(self.weighted.losses), frequencies)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """Two atoms, distance g: |ratio|^2 = 1 - 4 w_0 w_1 sin^2(g t/2), falling while g t/2 <= pi/2."""
        l = self.weighted.losses
        if len(l) != 2:
            return 0.0
        gap = abs(float(l[1] - l[0]))
        if gap * until > math.pi * (1 + 1e-12):
            return 0.0
        one = self._tilted_law(tilt)
        sine = math.sin(min(gap * t * (1 - 1e-12), math.pi) / 2)
        drop = 4 * float(one.shifted.weights.prod()) * sine**2
        return 0.5 * self.count * math.log1p(-min(drop * (1 - 1e-9), 1 - 1e-16)) * (1 - 1e-12)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """One copy: the sum itself, every term a product of positive numbers.

        e^{eps - l} - 1 errs by ELEMENTARY relative and by the error of its argument, loss_error + U|eps - l|, absolute.
        """
        w = self.weighted
        if self.count > 1 and np.any(w.losses):
            return None
        gap = np.subtract.outer(eps, w.losses)
        part = -np.expm1(np.minimum(gap, 0.0))
        slack = (w.loss_error + 2 * U * (np.abs(gap) + np.abs(w.losses))) * (gap < w.loss_error + 1e-12)
        value = part @ w.masses
        error = (part * (w.mass_error + 2 * ELEMENTARY + gamma(len(w.losses))) + slack) @ w.masses
        return np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)

    def root(self, delta: float) -> tuple[float, float] | None:
        """From sums over all greater losses, for one copy: between two of them delta is P - e^eps Q."""
        order = np.argsort(-self.weighted.losses)
        masses, losses = self.weighted.masses[order], self.weighted.losses[order].clip(-LARGEST, LARGEST)
        p, q = np.cumsum(masses), np.cumsum(masses * np.exp(-losses))
        j = int(np.searchsorted(np.maximum.accumulate(p - np.exp(losses) * q), delta)) - 1
        if j < 0 or not 0 < delta < p[j]:
            return None
        return math.log((p[j] - delta) / q[j]), (p[j] - delta) / delta


def merged(law: Weighted) -> Weighted:
    """One atom for neighbours whose losses are equal within their errors.

    Args:
        law: Its losses in order.
    """
    starts = np.flatnonzero(np.append(True, np.diff(law.losses) > law.loss_error[1:]))
    ends = np.append(starts[1:], len(law.losses)) - 1
    masses = np.logaddexp.reduceat(law.log_masses, starts)
    own = np.maximum.reduceat(law.mass_error, starts) + (ends - starts) * (2 * ELEMENTARY + U * np.abs(masses))
    moved = np.maximum.reduceat(law.loss_error, starts) + (law.losses[ends] - law.losses[starts])
    return Weighted(law.losses[ends], masses, own, moved, law.outside)


def together(parts: list[Summand]) -> AtomicSum | None:
    """All copies as one, of the law of their runs, where these are few: with it delta is a sum, not an integral (K19).

    Copies of one law are in no order: k_j of each kind have n!/(k_1! k_2! ...) runs.

    Args:
        parts: Summands.

    Returns:
        One copy; None where runs are many, or one of the summands is no sum of true atoms.
    """
    finite = [part.atoms for part in parts if part.atoms is not None]
    n = sum(count for _, count in finite)
    few = 1 < n <= MOST_COPIES and math.prod(math.comb(len(law.losses) + k - 1, k) for law, k in finite) <= RUNS
    if not few or len(finite) < len(parts):
        return None
    runs = np.zeros((4, 1))
    for law, count in finite:
        own = np.array([law.losses, law.log_masses, law.mass_error, law.loss_error])
        some, last, times = np.zeros((4, 1)), np.zeros(1, int), np.zeros(1, int)
        for k in range(1, count + 1):  # each run with its last kind or a later one
            wide = len(law.losses) - last
            before = np.repeat(np.arange(len(last)), wide)
            kind = np.arange(len(before)) - np.repeat(np.cumsum(wide) - len(law.losses), wide)
            times = np.where(kind == last[before], times[before], 0) + 1
            some, last = some[:, before] + own[:, kind], kind
            some[1] += np.log(k / times)
        runs = np.array([np.add.outer(*both).ravel() for both in zip(runs, some, strict=True)])
    losses, logs, mass_error, loss_error = runs
    far = sum(count * float(np.abs(law.losses).max()) for law, count in finite)
    mass_error = mass_error + ELEMENTARY + 3 * n * U * (np.abs(logs) + 2 * n * math.log(n))
    one = AtomicSum(Weighted(losses, logs, mass_error, loss_error + n * U * far), 1)
    low, high = (sum(ends) for ends in zip(*(part.log_finite for part in parts), strict=True))
    one.log_finite = low * (1 + 32 * U), high * (1 - 32 * U)
    return one


MOST_NODES = 1 << 19
FEW_NODES = 1 << 9  # that tilts share
SHARED = 16.0  # tilts below it share one set of nodes
FIRST_REACH = 12.0  # |t| that the first nodes reach
WIDE = 8.0  # and one set for rough moments
KEPT = 64


class Layout(NamedTuple):
    """Where the nodes of a rule lie that is good for all tilt in [low, high] and all |t| up to `reach`.

    Attributes:
        low: The least tilt.
        high: The greatest tilt.
        reach: The greatest |t|.
        size: The number of nodes.
        step: The distance of neighbours, or the width of a panel.
        ends: No node lies further out.
        log_error: Logarithm of what quadrature and cut leave out, each relative to M(tilt).
    """

    low: float
    high: float
    reach: float
    size: int
    step: float
    ends: tuple[float, float]
    log_error: float

    def places(self) -> FloatArray:
        """The multiples of the step between the ends and around them."""
        left, right = self.ends
        return self.step * np.arange(math.floor(left / self.step), math.ceil(right / self.step) + 1, dtype=float)


@dataclass(frozen=True, eq=False)
class Nodes:
    """A rule, and the law on its nodes."""

    layout: Layout
    at: FloatArray
    weighted: Weighted

    @cached_property
    def tilted(self) -> Callable[[float], Tilted]:
        """The law at a tilt; the last are kept."""
        return lru_cache(maxsize=KEPT)(partial(Tilted, self.weighted))


class QuadratureSum(Summand):
    """`count` copies of a law whose M is an integral."""

    count: int
    kept: Sequence[Nodes] = ()

    shares: bool = False  # `nodes` proves one rule for a whole range of tilt
    shared: float = SHARED  # the first such range

    @abstractmethod
    def layout(self, low: float, high: float, reach: float) -> Layout:
        """Where the nodes would lie.

        Args:
            low: The least tilt.
            high: The greatest tilt; equal to low unless `shares`.
            reach: The greatest |t|.

        Raises:
            NoCertificateError: No number of nodes proves enough.
        """

    @abstractmethod
    def nodes(self, layout: Layout) -> tuple[FloatArray, Weighted]:
        """Nodes and the law on them; its `outside` bounds what quadrature and cut leave out.

        Args:
            layout: Where they lie.
        """

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The cost of a line, from the nodes."""
        return work(self.layout(tilt, tilt, max(1.2 * t, FIRST_REACH)).size, frequencies)

    def _nodes(self, tilt: float, t: float) -> Nodes:
        """Kept nodes that reach t, or new ones; where they may be shared, by all tilts that one question asks about."""
        far = t > FIRST_REACH
        for one in self.kept:  # long rules have many nodes
            low, high, reach, *_ = one.layout
            if low <= tilt <= high and reach >= t and far == (reach > FIRST_REACH):
                return one
        reach = 1.2 * t if far else FIRST_REACH
        low = high = tilt
        if self.shares:
            most = self.shared
            high = most * 4.0 ** math.ceil(math.log(2 * tilt / most, 4)) if tilt > most else most
            low = 0.0 if high == most else high / 16
        layout = self.layout(low, high, reach)
        if low < high and layout.size > FEW_NODES:
            layout = self.layout(tilt, tilt, reach)
        if layout.size > MOST_NODES:
            raise NoCertificateError
        result = Nodes(layout, *self.nodes(layout))
        self.kept = [result, *self.kept[: KEPT - 1]]
        return result

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Tilted moments on nodes that serve a greater tilt, and so all tilts of about the same size."""
        try:
            law = self._nodes(max(WIDE, 8.0 ** math.ceil(math.log(tilt, 8))), 0.0).weighted
        except NoCertificateError:
            return math.inf, math.inf, math.inf
        k, mean, variance = rough_cumulants(law.losses, law.log_masses, tilt, self.count)
        return k + self.count * law.log_share[0], mean, variance

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Count times one copy."""
        nodes = self._nodes(tilt, 0.0)
        one, (share, share_error) = nodes.tilted(tilt), nodes.weighted.log_share
        value = self.count * (one.log_mgf + share)
        error = self.count * (one.error + share_error + U * abs(share)) * (1 + 4 * U)
        return value, error + 2 * U * abs(value)

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Count times one copy."""
        nodes = self._nodes(tilt, float(t.max(initial=0.0)))
        one, error = line(nodes.weighted, nodes.tilted(tilt), t)
        return self.count * one, self.count * error + 2 * U * self.count * np.abs(one)
