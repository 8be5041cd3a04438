"""Losses rounded to a lattice, above and below: the route for laws that no contour resolves at a fair price.

Delta(eps) = E_P[(1 - e^eps X)_+] with X = e^{-L}: for every summand, the others fixed, the mean of a convex falling function of
its X. So
  above  a cell's mass p may move to the cell's two ends if its X-mean q/p does not rise: chords lie above. With any p' >= p and
         q' <= q in place of p and q the sum of the chord, alpha p - beta q with alpha, beta >= 0, only grows. Mass below the
         first cell may rise to its end, mass above the last may become an infinite loss.
  below  a cell's mass may merge at its X-mean, loss log p/q (Jensen), and mass may sink or vanish.
Ends and means are moved to the lattice h Z: above, cells end at lattice points; below, cells are centred at lattice points l, and
a merged loss r is put at l if r >= l - eta, else at the first lattice point below r + eta; all losses of the sum are then too
large by at most n eta, which is taken off eps at the end. Both sides err by O(h^2) where the law is smooth.
A cell's end computed in floating point may lie `slip` off: above, eps moves up by n slip and q' is reduced by that factor.
The rounded law is a finite law on a lattice, and `lattice.py` answers for it, with its own bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.atoms import AtomicSum, Weighted
from neartwin.losses.loss import Lattice, Masses, Summand
from neartwin.losses.rounding import ELEMENTARY, NoCertificateError, U
from neartwin.losses.total import Total

Indices = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
FIRST, FINEST = 1 << 11, 1 << 16  # cells of one law: tried first, at most
TAIL = 1e-7  # of the wanted delta: what all laws together may call infinite
SUNK = 1e-9  # of P: what all laws together may raise to their lowest cell
FURTHEST = 64  # cells that a merged loss may sink before it is dropped


@dataclass(frozen=True)
class Rounded:
    """A finite law whose delta, `scale` times as much at eps - shift (above) or eps + shift (below), bounds the true one."""

    total: Total
    log_scale: float
    shift: float


def _law(index: Indices, mass: FloatArray, step: float, count: int, infinite: float) -> tuple[AtomicSum, float]:
    """`count` copies of masses at step * index, made to sum to 1 - infinite, and the logarithm of what they lacked."""
    kept = mass > 0
    index, mass = index[kept], mass[kept]
    if len(mass) == 0 or not infinite < 1:
        raise NoCertificateError
    total = math.fsum(mass)
    log_scale = count * math.log(total)
    error = np.full(len(mass), 8 * U)
    losses: FloatArray = step * index.astype(float)
    weighted = Weighted(losses, np.log(mass / total), error + ELEMENTARY * 2, np.zeros(len(mass)))
    exact = Fraction(step)
    lattice = Lattice(count * exact * int(index[0]), exact)
    return AtomicSum(weighted, count, infinity=(infinite, infinite), lattice=lattice), log_scale


def _edges(part: Summand, step: float, tail: float, offset: float) -> tuple[Indices, FloatArray]:
    """Lattice points (or their lower halves) that leave out about `tail` of P above and little below."""
    low, high = part.span(SUNK / part.copies, tail / part.copies)
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    if not last - first < 2 * FINEST:
        raise NoCertificateError
    index = np.arange(first, last + 1)
    edges: FloatArray = step * (index.astype(float) + offset)
    return index, edges


def _above(part: Summand, step: float, tail: float) -> tuple[AtomicSum, float, float]:
    index, edges = _edges(part, step, tail, 0.0)
    found = _ask(part, edges)
    p, q = found.p + found.p_error, np.maximum(found.q - found.q_error, 0.0) * math.exp(-2 * found.slip)
    mass = np.zeros(len(edges))
    mass[0] += p[0]
    inner, inner_q = p[1:-1], q[1:-1]
    with np.errstate(all="ignore"):
        share = (1 - inner_q * np.exp(edges[:-1]) / inner) / -math.expm1(-step)
        share = np.clip(share + 64 * U * (1 + np.abs(edges[:-1])) / step, 0.0, 1.0)
    share = np.where(inner > 0, share, 0.0)
    mass[1:] += inner * share
    mass[:-1] += inner * (1 - share) * (1 + 4 * U)
    law, log_scale = _law(index, mass, step, part.copies, min(float(p[-1]), 1.0))
    return law, log_scale, part.copies * found.slip


def _below(part: Summand, step: float, tail: float, lam: float) -> tuple[AtomicSum, float, float]:
    index, edges = _edges(part, step, tail, -0.5)
    found = _ask(part, edges)
    p, q = (found.p - found.p_error)[1:-1], (found.q + found.q_error)[1:-1]
    index, point = index[:-1], step * index[:-1]
    kept = p > 0
    index, point, p, q = index[kept], point[kept], p[kept], q[kept]
    merged = np.log(p) - np.log(q)
    short = point - merged + 64 * U * (1 + np.abs(merged) + np.abs(np.log(p)))
    tilted = p * np.exp(lam * (point - point.max(initial=0.0)))
    eta = min(
        [0.0, *(step * np.geomspace(1e-7, 1.0, 36)).tolist()],
        key=lambda x: float(tilted @ (x + step * np.ceil(np.maximum(short - x, 0.0) / step))),
    )
    down = np.ceil(np.maximum(short - eta, 0.0) / step * (1 + 1e-12))
    near = down <= FURTHEST
    index, p = index[near] - down[near].astype(np.int64), p[near]
    if not len(index):
        raise NoCertificateError
    first = int(index.min())
    mass: FloatArray = np.bincount(index - first, weights=p).astype(float) * (1 - 64 * U)
    law, log_scale = _law(np.arange(len(mass)) + first, mass, step, part.copies, 0.0)
    return law, log_scale, part.copies * eta


def _ask(part: Summand, edges: FloatArray) -> Masses:
    found = part.cells(edges)
    if found is None:
        raise NoCertificateError
    return found


def coarse(total: Total, delta: float) -> float:
    """A first step: a power of two, some thousand cells for the widest law."""
    spans = [part.span(SUNK / part.copies, TAIL * delta / part.copies) for part in total.summands]
    widest = max(high - low for low, high in spans)
    if not 0 < widest < math.inf:
        raise NoCertificateError
    return 2.0 ** math.floor(math.log2(widest / FIRST))


def above(total: Total, step: float, delta: float) -> Rounded:
    """The law above, for questions about this delta."""
    tail = TAIL * delta / len(total.summands)
    return _together([_above(part, step, tail) for part in total.summands], 1.0)


def below(total: Total, step: float, delta: float, lam: float) -> Rounded:
    """The law below, for questions about this delta and a tilt of about lam."""
    tail = TAIL * delta / len(total.summands)
    return _together([_below(part, step, tail, lam) for part in total.summands], -1.0)


def _together(parts: list[tuple[AtomicSum, float, float]], side: float) -> Rounded:
    copies = sum(law.count for law, _, _ in parts)
    log_scale = sum(log for _, log, _ in parts)
    slack = side * (16 * U * copies + 8 * U * abs(log_scale))
    shift = sum(shift for _, _, shift in parts)
    return Rounded(Total([law for law, _, _ in parts]), log_scale + slack, shift * (1 + 16 * U))
