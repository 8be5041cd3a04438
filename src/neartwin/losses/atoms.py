"""Finitely many losses: every finite pair, and the nodes of a quadrature.

M(s) = sum_j p_j e^{s l_j}. Tilted weights w_j = p_j e^{lam l_j} / M(lam) give M(lam+it)/M(lam) = 1 + sum_j w_j
(e^{i t l_j} - 1), so the arithmetic errs relative to the small numbers e^{itl} - 1 and not to 1: a million steps of
a gentle mechanism lose nothing.
"""

from __future__ import annotations

import math

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses import fourier
from neartwin.losses.loss import Lattice, Masses, Peak, Ratio, Summand, Top
from neartwin.losses.rounding import ELEMENTARY, ComplexArray, U, block, blocked, gamma, log_one_plus, total
from neartwin.losses.weighted import FEW, Tilted, Weighted, few_cumulants, few_turns, tilted_few

BLOCK = 1 << 19  # numbers a temporary matrix may hold
LONG = 1 << 21  # atoms times frequencies from which the fast transform may pay
AGAIN = 1 << 21  # so many terms at most are then summed one by one,
EXACT = 1 << 24  # or so many, where
MANY = 12  # frequencies from which products of turns are fewer
LOOSE = 1e-11  # the copies together would err by more than this
ROUGH_COUNT = 10**9  # copies whose K may be bounded by the worst error of a term
NEGLIGIBLE = -70.0  # log of a ratio that no answer feels


def tilted(w: Weighted, lam: float) -> Tilted:
    """The tilted law at lam >= 0.

    rho_j, the relative error of a weight: of p_j, of the exponent (lam loss_error + 3U lam|l_j|), of exp and of the sum
    that normalises, which is an average of the same errors. K by log1p(sum p expm1(lam l)) while that cannot overflow:
    its error is then relative to |e^{lam l} - 1|; beyond, by the usual shifted sum.
    """
    l, count = w.losses, len(w.losses)
    if count <= FEW:
        return tilted_few(w, lam)
    exponent = lam * l
    top = float((w.log_masses + exponent).max())
    raw = np.exp(w.log_masses + exponent - top)
    whole = total(raw)
    weights = raw / whole
    rho = w.mass_error + lam * w.loss_error + 3 * U * np.abs(exponent) + 2 * ELEMENTARY
    rho = rho + 2 * U * np.abs(w.log_masses) + 4 * U * abs(top)
    rho = rho + float(weights @ rho) * (1 + gamma(count)) + 2 * blocked(count)
    if float(exponent.max()) < 600:  # a mass below e^-745 then adds less than e^-140 to M
        masses, part = w.masses, np.expm1(exponent)
        value = total(masses * part)
        size = masses * np.abs(part)
        moved = float(size @ (w.mass_error + ELEMENTARY + U + blocked(count))) + 1e-60 * count
        moved += float((masses * (1 + np.maximum(part, 0.0))) @ (lam * w.loss_error + U * np.abs(exponent)))
        log_mgf = math.log1p(value)
        error = moved / (1 + value) * 1.01 + ELEMENTARY * abs(log_mgf)
    else:
        log_mgf = top + math.log(whole)
        error = float(weights @ rho) + 4 * U * (abs(top) + 20)
    mean = float(weights @ l)
    size_l = np.abs(l)
    return Tilted(
        log_mgf=log_mgf,
        error=error + 2 * w.outside,
        mean=mean,
        variance=float(weights @ np.square(l - mean)),
        weights=weights,
        bulk=2.02 * float(weights @ rho),
        slope=1.01 * float(weights @ (rho * size_l)),
        drift=1.01 * float(weights @ (w.loss_error + 8 * U * size_l)),
    )


def rough_cumulants(losses: FloatArray, log_masses: FloatArray, lam: float, count: int) -> tuple[float, float, float]:
    """K, K', K'' of so many copies, uncertified."""
    exponent = log_masses + lam * losses
    top = float(exponent.max())
    weights = np.exp(exponent - top)
    total = float(weights.sum())
    weights /= total
    mean = float(weights @ losses)
    variance = float(weights @ np.square(losses - mean))
    k = (
        math.log1p(float(np.exp(log_masses) @ np.expm1(np.minimum(lam * losses, 700.0))))
        if top < 1
        else top + math.log(total)
    )
    return count * k, count * mean, count * variance


def log_mgf_roughly_above(w: Weighted, s: float, count: int) -> float:
    """An upper bound on `count` times K(s): a sum of positive terms errs by the worst of them. For aliases."""
    if len(w.losses) <= FEW:
        top = max(log + s * l for l, log in w.few)
        one = top + math.log(math.fsum(math.exp(log + s * l - top) for l, log in w.few))
    else:
        exponent = w.log_masses + s * w.losses
        top = float(exponent.max())
        one = top + math.log(float(np.exp(exponent - top).sum()))
    fixed, per_s = w.worst
    return count * (one + 1.01 * (fixed + s * per_s + gamma(len(w.losses)) + 4 * U * (abs(top) + 1)) + 2 * w.outside)


def line(w: Weighted, tilt: Tilted, t: FloatArray, count: int) -> tuple[ComplexArray, FloatArray]:
    """Log of 1 + sum w (e^{itl} - 1), and its error E, at equally spaced t from 0; blocks keep the memory small.

    Error of the sum: |delta w_j| |e^{itl_j} - 1| with |e^{ix} - 1| <= min(2, |x|); the angle errs by |t| loss_error and, from the
    rounding of t, l and their product, by 8U|t l|; products and the sum, blocks of atoms before the sums of blocks: inside rho's
    `2 blocked`. Many atoms at many frequencies go through one fast transform first, whose error is absolute; where `count` copies
    of the result are neither negligible nor many frequencies, they are summed again one by one.
    """
    x, y = np.empty(len(t)), np.empty(len(t))
    error = _stated(w, tilt, t)
    # sin, cos and their products err by 3 ELEMENTARY relative to sum w |e^{itl} - 1| <= min(2, t sum w|l|)
    own = 3 * ELEMENTARY * np.minimum(2.0, t * float(tilt.weights @ np.abs(w.losses)) * 1.01)
    again = np.arange(len(t))
    if is_long(len(w.losses), len(t)):
        found, slack = fourier.transform(w.losses, tilt.weights, float(t[1]), len(t) - 1)
        x, y = found.real - found[0].real, found.imag - found[0].imag
        own = own + 2 * slack
        large = np.flatnonzero(count * 0.5 * np.log1p(np.maximum(2 * x + x * x + y * y, -1 + 1e-12)) > NEGLIGIBLE)
        most = EXACT if 2 * count * slack > LOOSE else AGAIN
        again = large if len(large) * len(w.losses) < most else large[:0]
        own[again] = 3 * ELEMENTARY * np.minimum(2.0, t[again] * float(tilt.weights @ np.abs(w.losses)) * 1.01)
    elif _even(t):
        x, y, own = by_products(w, tilt, t)
        again = again[:0]
    width = block(len(w.losses))
    rows = max(1, BLOCK // width)
    x[again] = y[again] = 0.0
    for start in range(0, len(again), rows):
        part = again[start : start + rows]
        for first in range(0, len(w.losses), width):
            some = slice(first, first + width)
            half = np.multiply.outer(0.5 * t[part], w.losses[some])
            sine = np.sin(half)
            x[part] -= 2 * (np.square(sine) @ tilt.weights[some])
            y[part] += 2 * ((sine * np.cos(half)) @ tilt.weights[some])
    return log_one_plus(x, y, error + own)


def line_by_products(w: Weighted, tilt: Tilted, t: FloatArray) -> tuple[ComplexArray, FloatArray] | None:
    """The same by products alone, however many; None where t is not 0, d, 2d, ... or there are too many turns to keep."""
    if not _even(t) or 2 * math.isqrt(len(t)) * len(w.losses) > EXACT // 4:
        return None
    x, y, own = by_products(w, tilt, t)
    return log_one_plus(x, y, _stated(w, tilt, t) + own)


def _stated(w: Weighted, tilt: Tilted, t: FloatArray) -> FloatArray:
    """What the stated errors of masses and losses, and what is outside, may move the sum by."""
    found: FloatArray = np.minimum(tilt.bulk, t * tilt.slope) + t * tilt.drift + 4 * w.outside
    return found


def _even(t: FloatArray) -> bool:
    """Whether t is 0, d, 2d, ..., and long enough for products."""
    return len(t) >= MANY and bool(np.all(np.abs(t - t[1] * np.arange(len(t))) <= 2 * U * t))


def by_products(w: Weighted, tilt: Tilted, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Real and imaginary part of sum w (e^{itl} - 1) at t = 0, d, 2d, ..., and what computing them so may add to the error.

    With t = x + y, x a multiple of d and y one of md, it is the sum of w (u + v + uv), u = e^{ixl} - 1, v = e^{iyl} - 1: about
    2 sqrt(len(t)) turns for each atom, and products of matrices. Each of u, v errs by 2.2 ELEMENTARY of itself, and 1 + u, 1 + v
    have modulus 1; the three sums, in blocks, err by twice `blocked` and 8U of sum w (|u| + |v| + |uv|). |u| + |v| is at most
    min(4, t|l|), and |uv| <= 2 min(|u|, |v|) is no more. What makes up whole blocks has neither weight nor turn.
    """
    many, width = len(t), block(len(w.losses))
    few, spare = math.isqrt(many), -len(w.losses) % width
    losses, weights = np.append(w.losses, np.zeros(spare)), np.append(tilt.weights, np.zeros(spare))
    coarse = -(-many // few)
    steps = np.append(np.arange(float(few)), few * np.arange(float(coarse)))
    half = np.multiply.outer((0.5 * t[1]) * steps, losses)
    sine = np.sin(half)
    turned = np.empty(half.shape, dtype=complex)
    turned.real, turned.imag = -2 * sine * sine, 2 * sine * np.cos(half)
    weighted = (turned * weights).reshape(few + coarse, -1, width)
    alone = weighted.sum(axis=2).sum(axis=1)
    fine = turned[:few].reshape(few, -1, width).transpose(1, 2, 0)
    both = np.matmul(weighted[few:].transpose(1, 0, 2), fine).sum(axis=0)
    found = (alone[few:, None] + alone[:few] + both).ravel()[:many]
    most = np.minimum(4.0, t * float(tilt.weights @ np.abs(w.losses)) * 1.01)
    return found.real, found.imag, most * (2.2 * ELEMENTARY + 4 * (blocked(len(losses)) + 8 * U))


def is_long(atoms: int, frequencies: int) -> bool:
    """Whether the fast transform pays."""
    return atoms * frequencies > max(2 * fourier.cost(atoms, frequencies), LONG)


def work(atoms: int, frequencies: int) -> int:
    """What a line costs, in exponentials."""
    return fourier.cost(atoms, frequencies) + AGAIN if is_long(atoms, frequencies) else atoms * frequencies


def _largest(w: Weighted) -> tuple[float, float, float, bool]:
    """Bounds on the largest loss and on the logarithm of its mass, and whether every loss is 0; few in plain floats."""
    if len(w.losses) > FEW:
        j = int(w.losses.argmax())
        lowest, mass = float(w.losses[j] - w.loss_error[j]), float(w.log_masses[j]) - 2 * float(w.mass_error[j])
        return float((w.losses + w.loss_error).max()), lowest, mass, not w.losses.any()
    errors, masses = w.loss_error.tolist(), w.mass_error.tolist()
    losses = [l for l, _ in w.few]
    j = losses.index(max(losses))
    highest = max(l + error for l, error in zip(losses, errors, strict=True))
    return highest, losses[j] - errors[j], w.few[j][1] - 2 * masses[j], not any(losses)


class AtomicSum(Summand):
    """`count` copies of one finite law of losses."""

    def __init__(
        self,
        weighted: Weighted,
        count: int,
        *,
        infinity: tuple[float, float] = (0.0, 0.0),
        lattice: Lattice | None = None,
        wander: float = 0.0,
    ) -> None:
        """infinity: bounds on P(L = inf) of one copy; the masses of `weighted` are those given L < inf.

        wander: how far one true loss may lie from its point of the lattice.
        """
        self.weighted = weighted
        self._lay(count, infinity, _largest(weighted))
        self.lattice = None if lattice is None else Lattice(count * lattice.start, lattice.step)
        self.wander = count * wander * (1 + 8 * U)

    def _lay(self, count: int, infinity: tuple[float, float], largest: tuple[float, float, float, bool]) -> None:
        """What follows from the largest loss of one copy, as `_largest` tells it, and from P(L = inf)."""
        self.count = self.copies = count
        if infinity[1] > 0:
            self.log_finite = (
                count * math.log1p(-infinity[1]) * (1 + 64 * U) if infinity[1] < 1 else -math.inf,
                count * math.log1p(-infinity[0]) * (1 - 64 * U) if infinity[0] < 1 else -math.inf,
            )
        highest, lowest, one_mass, null = largest
        log_mass = count * (one_mass - 64 * U)
        mass = math.exp(log_mass * (1 + 8 * U)) * (1 - 1e-14) if log_mass > -700 else 0.0
        least = count * lowest
        self.top = Top(count * highest + 8 * U * abs(count * highest), mass, least - 8 * U * abs(least))
        self.null = null
        self._tilts: dict[float, Tilted] = {}

    def _tilt(self, lam: float) -> Tilted:
        if lam not in self._tilts:
            if len(self._tilts) > 64:
                self._tilts.clear()
            self._tilts[lam] = tilted(self.weighted, lam)
        return self._tilts[lam]

    def cumulants(self, lam: float) -> tuple[float, float, float]:
        """Tilted mean and variance, times the count."""
        w = self.weighted
        if len(w.losses) <= FEW:
            return few_cumulants(w.few, lam, self.count)
        return rough_cumulants(w.losses, w.log_masses, lam, self.count)

    def log_mgf(self, lam: float) -> tuple[float, float]:
        """Count times one copy."""
        one = self._tilt(lam)
        value = self.count * one.log_mgf
        return value, self.count * one.error * (1 + 4 * U) + 2 * U * abs(value)

    def log_mgf_roughly_above(self, s: float) -> float:
        """By the worst term, while that is good enough."""
        rough = log_mgf_roughly_above(self.weighted, s, self.count)
        return rough if self.count < ROUGH_COUNT else super().log_mgf_roughly_above(s)

    def line(self, lam: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Count times one copy; the product rounds."""
        one, error = line(self.weighted, self._tilt(lam), t, self.count)
        return self.count * one, self.count * error + 2 * U * self.count * np.abs(one)

    def ratio(self, lam: float, t: FloatArray) -> Ratio | None:
        """Of a few atoms."""
        if len(self.weighted.losses) > FEW:
            return None
        return Ratio(*few_turns(self.weighted, self._tilt(lam), t), 0.0, 0.0, self.count)

    def work(self, lam: float, t: float, frequencies: int) -> int:
        """By the atoms."""
        del lam, t
        return work(len(self.weighted.losses), frequencies)

    def log_tail(self, lam: float, t: float, until: float) -> float:
        """Two atoms, distance g: |ratio|^2 = 1 - 4 w_0 w_1 sin^2(g t/2), falling while g t/2 <= pi/2."""
        l = self.weighted.losses
        if len(l) != 2:
            return 0.0
        gap = abs(float(l[1] - l[0]))
        if gap * until > math.pi * (1 + 1e-12):
            return 0.0
        one = self._tilt(lam)
        drop = 4 * float(one.weights[0] * one.weights[1]) * math.sin(min(gap * t * (1 - 1e-12), math.pi) / 2) ** 2
        return 0.5 * self.count * math.log1p(-min(drop * (1 - 1e-9), 1 - 1e-16)) * (1 - 1e-12)

    def span(self, low_tail: float, high_tail: float) -> tuple[float, float]:
        """All atoms."""
        del low_tail, high_tail
        return float(self.weighted.losses.min()), float(self.weighted.losses.max())

    def peaks(self) -> list[Peak]:
        """The largest loss, and the atoms that come near it."""
        w = self.weighted
        j = int(np.argmax(w.losses))
        below = np.delete(w.losses[j] - w.losses - w.loss_error - w.loss_error[j] - 4 * U * np.abs(w.losses), j)
        order = np.argsort(below)
        heaped = np.cumsum(np.delete(w.masses * (1 + w.mass_error), j)[order]) * (
            1 + gamma(len(w.losses)) + 2 * ELEMENTARY
        )
        heaps, starts = np.append(0.0, heaped), below[order]

        def within(gap: FloatArray) -> FloatArray:
            result: FloatArray = heaps[np.searchsorted(starts, gap)]
            return result

        def beside(gap: FloatArray) -> tuple[FloatArray, FloatArray]:
            return np.zeros(len(gap)), within(gap) * -np.expm1(-gap) * (1 + 2 * ELEMENTARY)

        error = float(w.mass_error[j]) + 2 * U * abs(float(w.log_masses[j]))
        return [
            Peak(self.count, float(w.losses[j]), float(w.loss_error[j]), float(w.log_masses[j]), error, within, beside)
        ]

    def cells(self, edges: FloatArray) -> Masses:
        """Atoms counted; one nearer to an edge than its error may fall on either side."""
        w = self.weighted
        index, size = np.searchsorted(edges, w.losses), len(edges) + 1
        p: FloatArray = np.bincount(index, weights=w.masses, minlength=size).astype(float)
        q: FloatArray = np.bincount(index, weights=w.masses * np.exp(-w.losses), minlength=size).astype(float)
        worst = float(np.max(w.mass_error)) + 4 * ELEMENTARY + gamma(len(w.losses))
        slip = float(np.max(w.loss_error + 4 * U * np.abs(w.losses)))
        return Masses(p, p * worst, q, q * (worst + 2 * slip), slip)

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
