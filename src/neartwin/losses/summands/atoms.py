"""Finitely many losses: every finite pair, and the nodes of a quadrature.

A law of finitely many losses is kept with the bounds on its errors, and with its tilted moments. Its transform errs
relative to e^{itl} - 1 (K12). Many atoms at many equally spaced frequencies go through one real FFT (K13).
Equations: docs/proofs/losses-contour.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands.base import Lattice, MaximumLoss, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, ComplexArray, U, block, blocked, gamma, log_one_plus, total


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
    def own_error(self) -> FloatArray:
        """Relative error of p_j (e^{tilt l_j} - 1) but for that of the exponent, in a sum by blocks."""
        return self.mass_error + (ELEMENTARY + U + blocked(len(self.losses)))

    @cached_property
    def exponent_error(self) -> FloatArray:
        """Error of tilt l_j, per unit of tilt."""
        return self.loss_error + U * np.abs(self.losses)

    @cached_property
    def errors(self) -> FloatArray:
        """Relative error of a tilted weight, its own and per unit of tilt; both times |l|; |l|; and how losses move. (6, n)."""
        size = np.abs(self.losses)
        own = self.mass_error + 2 * ELEMENTARY + 2 * U * np.abs(self.log_masses)
        moved = self.loss_error + 3 * U * size
        return np.array([own, moved, own * size, moved * size, size, self.loss_error + 8 * U * size])


class Tilted:
    """`Weighted` at one tilt: K(tilt) and its error; as far as they are asked for, weights and the constants of a line's error.

    rho_j is the relative error of a weight. It has the errors of p_j, of the exponent (tilt loss_error + 3U tilt|l_j|),
    of exp and of the sum that normalises. That sum is an average of the same errors. While it cannot overflow, and M is above
    1/2, K is log1p(sum p expm1(tilt l)), with an error relative to |e^{tilt l} - 1|. Beyond, it is the usual shifted sum.
    """

    def __init__(self, w: Weighted, tilt: float) -> None:
        """w: the law; tilt: at least 0."""
        self.weighted, self.tilt = w, tilt
        exponent = tilt * w.losses
        value = math.inf
        if float(exponent.max()) < 600:  # a mass below e^-745 then adds less than e^-140 to M
            moment = w.masses * np.expm1(exponent)
            value = total(moment)
        if -0.5 < value < math.inf:
            moved = float(np.abs(moment) @ w.own_error) + 1e-60 * len(moment)
            moved += tilt * float((w.masses + np.maximum(moment, 0.0)) @ w.exponent_error)
            self.log_mgf = math.log1p(value)
            error = moved / (1 + value) * 1.01 + ELEMENTARY * abs(self.log_mgf)
        else:
            top, whole, _ = self._shifted
            self.log_mgf = top + math.log(whole)
            error = 1.01 * self._means[0] + 4 * U * (abs(top) + 20)
        self.error = error + 2 * w.outside

    @cached_property
    def _shifted(self) -> tuple[float, float, FloatArray]:
        """The greatest exponent, the sum of e^{exponent} over its own, and the weights."""
        exponent = self.weighted.log_masses + self.tilt * self.weighted.losses
        top = float(exponent.max())
        raw = np.exp(exponent - top)
        whole = total(raw)
        return top, whole, raw / whole

    @cached_property
    def weights(self) -> FloatArray:
        """The tilted weights w, of sum 1."""
        return self._shifted[2]

    @cached_property
    def _means(self) -> tuple[float, float, float, float]:
        """Sums of w rho, w rho |l|, w |l| and w (loss_error + 8U |l|)."""
        own, moved, own_l, moved_l, l, drift = (self.weighted.errors @ self.weights).tolist()
        count = len(self.weighted.losses)
        top = 4 * U * abs(self._shifted[0])
        mean = own + self.tilt * moved + top
        more = mean * (1 + gamma(count)) + 2 * blocked(count)
        return mean + more, own_l + self.tilt * moved_l + (top + more) * l, l, drift

    @property
    def bulk(self) -> float:
        """The most that the errors of the weights can do to a sum of them, times 2."""
        return 2.02 * self._means[0]

    @property
    def slope(self) -> float:
        """The most that they can do to a sum of w (e^{itl} - 1), per unit of t."""
        return 1.01 * self._means[1]

    @property
    def size(self) -> float:
        """The sum of w |l|, rounded up."""
        return 1.01 * self._means[2]

    @property
    def drift(self) -> float:
        """The most that moved losses can do, per unit of t."""
        return 1.01 * self._means[3]


SHARPNESS = 0.185  # b of (K13)
REACH = 15  # P of (K13)
HEIGHT = math.exp(math.pi**2 / (64 * SHARPNESS)) * 1.001
ALIAS = 1.02 * math.exp(-0.75 * math.pi**2 / SHARPNESS)
TRUNCATION = 2.1 * math.exp(-SHARPNESS * REACH**2) * HEIGHT / math.sqrt(math.pi / SHARPNESS)
FOURIER_BLOCK = 1 << 17  # atoms of one grid at most
MOST_GRIDS = 32  # dealt to at least


def transform(losses: FloatArray, weights: FloatArray, step: float, count: int) -> tuple[ComplexArray, float]:
    """The sums at 0, step, ..., count * step, and a bound on the absolute error of each.

    Args:
        losses: The l, (atoms,).
        weights: Not negative, (atoms,).
        step: Between frequencies.
        count: The number of frequencies above 0.
    """
    size = 1 << max(8, math.ceil(math.log2(8 * max(count, 1))))
    offsets = np.arange(1 - REACH, REACH + 1)
    hands = max(1, min(MOST_GRIDS, len(losses) // 256), -(-len(losses) // FOURIER_BLOCK))
    grid, crowd = np.zeros(size), 0.0
    for hand in range(hands):
        y = losses[hand::hands] * (step * size / (2 * math.pi))
        base = np.floor(y)
        near = ((base.astype(np.int64)[:, None] + offsets) % size).ravel()
        x = offsets - (y - base)[:, None]
        spread = (np.exp(-SHARPNESS * x * x) * weights[hand::hands, None]).ravel()
        one = np.bincount(near, weights=spread, minlength=size)
        crowd += float(one @ np.bincount(near, minlength=size))
        grid += one
    crowd = crowd / max(float(grid.sum()), 1e-300) + hands + 2
    result = np.conj(np.fft.rfft(grid)[: count + 1])
    ratio = (np.arange(count + 1) / size) ** 2 * (math.pi**2 / SHARPNESS)
    result *= np.exp(ratio) / math.sqrt(math.pi / SHARPNESS)
    rounding = (8 * math.log2(size) + crowd + 20 + 24) * U + 2 * ELEMENTARY
    error = (ALIAS + TRUNCATION + HEIGHT * rounding * 1.01) * float(weights.sum()) * (1 + 1e-9)
    return result, error


BLOCK = 1 << 19  # numbers a temporary matrix may hold
MANY = 12  # frequencies from which products of turns are fewer
LONG = 1 << 19  # exponentials of products of turns from which the fast transform pays
MOST = 1 << 24  # or pays where the error shall be relative
LOOSE, EXACT = 1e-11, 1 << 24  # the copies' error from which products do if there are no more than these
ONE_THREAD = (
    1 << 15
)  # products in one matrix up to which OpenBLAS starts no threads: their waiting costs more than the products


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
    k = (
        math.log1p(float(np.exp(log_masses) @ np.expm1(np.minimum(tilt * losses, 700.0))))
        if top < 1
        else top + math.log(total)
    )
    return count * k, count * mean, count * variance


def line(
    w: Weighted, tilted_law: Tilted, t: FloatArray, count: int, *, relative: bool = False
) -> tuple[ComplexArray, FloatArray]:
    """Log of 1 + sum w (e^{itl} - 1), and its error E, at equally spaced t from 0; blocks keep the memory small.

    Error of the sum: |delta w_j| |e^{itl_j} - 1| with |e^{ix} - 1| <= min(2, |x|). The angle errs by |t| loss_error,
    and by 8U|t l| from the rounding of t, l and their product. Rho's `2 blocked` covers products and the sum, blocks of
    atoms before the sums of blocks. Many atoms at many frequencies go through one fast transform, whose error is absolute.

    Args:
        w: The law.
        tilted_law: The law, tilted.
        t: Frequencies, (frequencies,).
        count: The number of copies that the result will be multiplied by.
        relative: Whether the error shall be relative to the small numbers e^{itl} - 1, as far as products are not too many.
    """
    # what the stated errors of masses and losses, and what is outside, may move the sum by
    error = np.minimum(tilted_law.bulk, t * tilted_law.slope) + t * tilted_law.drift + 4 * w.outside
    if len(t) >= MANY and bool(np.all(np.abs(t - t[1] * np.arange(len(t))) <= 2 * U * t)):
        if work_by_products(len(w.losses), len(t)) > (MOST if relative else LONG):
            result, slack = transform(w.losses, tilted_law.weights, float(t[1]), len(t) - 1)
            if 2 * count * slack <= LOOSE or len(w.losses) * len(t) > EXACT:
                return log_one_plus(result.real - result[0].real, result.imag - result[0].imag, error + 2 * slack)
        x, y, own = by_products(w, tilted_law, t)
        return log_one_plus(x, y, error + own)
    x, y = np.zeros((2, len(t)))
    width = block(len(w.losses))
    rows = max(1, BLOCK // width)
    for start in range(0, len(t), rows):
        part = slice(start, start + rows)
        for first in range(0, len(w.losses), width):
            some = slice(first, first + width)
            half = np.multiply.outer(0.5 * t[part], w.losses[some])
            sine = np.sin(half)
            x[part] -= 2 * (np.square(sine) @ tilted_law.weights[some])
            y[part] += 2 * ((sine * np.cos(half)) @ tilted_law.weights[some])
    # sin, cos and their products err by 3 ELEMENTARY relative to sum w |e^{itl} - 1| <= min(2, t sum w|l|)
    return log_one_plus(x, y, error + 3 * ELEMENTARY * np.minimum(2.0, t * tilted_law.size))


def by_products(w: Weighted, tilted_law: Tilted, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Real and imaginary part of sum w (e^{itl} - 1) at t = 0, d, 2d, ..., and what computing them so may add to the
    error.

    Let t = x + y, x a multiple of d and y one of md. The sum is that of w (u + v + uv), u = e^{ixl} - 1, v =
    e^{iyl} - 1. It takes about 2 sqrt(len(t)) turns for each atom, and products of matrices. Each of u, v errs by
    2.2 ELEMENTARY of itself, and 1 + u, 1 + v have modulus 1. The three sums, in blocks, err by twice `blocked` and
    8U of sum w (|u| + |v| + |uv|). |u| + |v| is at most min(4, t|l|), and |uv| <= 2 min(|u|, |v|) is no more. Atoms
    that fill up the last block have neither weight nor turn.

    Args:
        w: The law.
        tilted_law: The law, tilted.
        t: Frequencies 0, d, 2d, ...
    """
    many, width = len(t), block(len(w.losses))
    few, spare = math.isqrt(many), -len(w.losses) % width
    losses, weights = np.append(w.losses, np.zeros(spare)), np.append(tilted_law.weights, np.zeros(spare))
    coarse = -(-many // few)
    steps = np.append(np.arange(float(few)), few * np.arange(float(coarse)))
    rows, together = max(1, ONE_THREAD // (few * width)), max(1, BLOCK // (len(steps) * width)) * width
    alone, both = np.zeros(few + coarse, dtype=complex), np.zeros((coarse, few), dtype=complex)
    for first in range(0, len(losses), together):
        some = slice(first, first + together)
        half = np.multiply.outer((0.5 * t[1]) * steps, losses[some])
        sine = np.sin(half)
        turned = np.empty(half.shape, dtype=complex)
        turned.real, turned.imag = -2 * sine * sine, 2 * sine * np.cos(half)
        weighted = (turned * weights[some]).reshape(few + coarse, -1, width)
        alone += weighted.sum(axis=2).sum(axis=1)
        fine = turned[:few].reshape(few, -1, width).transpose(1, 2, 0)
        for start in range(0, coarse, rows):
            part = weighted[few:][start : start + rows].transpose(1, 0, 2)
            both[start : start + rows] += np.matmul(part, fine).sum(axis=0)
    result = (alone[few:, None] + alone[:few] + both).ravel()[:many]
    most = np.minimum(4.0, t * tilted_law.size)
    return result.real, result.imag, most * (2.2 * ELEMENTARY + 4 * (blocked(len(losses)) + 8 * U))


def work(atoms: int, frequencies: int) -> int:
    """The cost of a line, in exponentials; that of the fast transform is about 60 an atom and 30 a frequency.

    Args:
        atoms: Their number.
        frequencies: Their number.
    """
    return min(work_by_products(atoms, frequencies), 60 * atoms + 30 * frequencies + LONG)


def relative_work(atoms: int, frequencies: int) -> int:
    """The cost of a line whose error is relative, as far as products are not too many.

    Args:
        atoms: Their number.
        frequencies: Their number.
    """
    products = work_by_products(atoms, frequencies)
    return products if products <= MOST else work(atoms, frequencies)


def work_by_products(atoms: int, frequencies: int) -> int:
    """The cost of a line whose error is relative: two functions a turn, and each product a part of one.

    Args:
        atoms: Their number.
        frequencies: Their number.
    """
    return atoms * (4 * math.isqrt(frequencies) + frequencies // 32)


class AtomicSum(Summand):
    """`count` copies of one finite law of losses."""

    def __init__(
        self,
        weighted: Weighted,
        count: int,
        *,
        infinity: tuple[float, float] = (0.0, 0.0),
        lattice: Lattice | None = None,
        lattice_error: float = 0.0,
    ) -> None:
        """infinity: bounds on P(L = inf) of one copy; the masses of `weighted` are those given L < inf.

        lattice_error: how far one true loss may lie from its point of the lattice.
        """
        self.weighted, self.count = weighted, count
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
        self.lattice = None if lattice is None else Lattice(count * lattice.start, lattice.step)
        self.lattice_error = count * lattice_error * (1 + 8 * U)
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
        one, error = line(self.weighted, self._tilted_law(tilt), t, self.count)
        return self.count * one, self.count * error + 2 * U * self.count * np.abs(one)

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The cost of a line, from the atoms."""
        del tilt, t
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
        drop = 4 * float(one.weights[0] * one.weights[1]) * math.sin(min(gap * t * (1 - 1e-12), math.pi) / 2) ** 2
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
