"""Losses rounded to a lattice, above and below: the route for laws that no contour resolves at a fair price.

Delta(eps) = E_P[(1 - e^eps X)_+] with X = e^{-L}: for every summand, the others fixed, the mean of a convex falling function of
its X. So
  above  a cell's mass p may move to the cell's two ends if its X-mean q/p does not rise: chords lie above. With any p' >= p and
         q' <= q in place of p and q the sum of the chord, alpha p - beta q with alpha, beta >= 0, only grows. Mass below the
         first cell may rise to its end, mass above the last may become an infinite loss.
  below  a cell's mass may merge at its X-mean, loss log p/q (Jensen), and mass may sink or vanish.
Ends and means are moved to a lattice a + h Z, a the largest loss of one copy where there is one: an atom there stays where it is.
Above, cells end at lattice points; below, cells are centred at lattice points l, and a merged loss r is put at l if r >= l - eta,
else at the first lattice point below r + eta; all losses of the sum are then too large by at most n eta, which is taken off eps
at the end. Both sides err by O(h^2) where the law is smooth.
A cell's end computed in floating point may lie `slip` off, the family's own and U of the end for its sum with a: above, eps moves
up by n slip and q' is reduced by that factor.
The rounded law is a finite law on a lattice, and `lattice.py` answers for it, with its own bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.atoms import AtomicSum
from neartwin.losses.loss import Lattice, Masses, Summand
from neartwin.losses.rounding import ELEMENTARY, NoCertificateError, U
from neartwin.losses.total import Total
from neartwin.losses.weighted import Weighted

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


@dataclass(frozen=True)
class _Grid:
    """Edges of cells, and the lattice points start + step * index that they end or centre on."""

    start: float
    step: float
    index: Indices
    offset: float

    @property
    def points(self) -> FloatArray:
        """The lattice points."""
        result: FloatArray = self.start + self.step * self.index.astype(float)
        return result

    @property
    def edges(self) -> FloatArray:
        """The edges."""
        result: FloatArray = self.start + self.step * (self.index.astype(float) + self.offset)
        return result


def _law(grid: _Grid, index: Indices, mass: FloatArray, count: int, infinite: float) -> tuple[AtomicSum, float]:
    """`count` copies of masses at start + step * index, made to sum to 1 - infinite, and the logarithm of what they lacked."""
    kept = mass > 0
    index, mass = index[kept], mass[kept]
    if len(mass) == 0 or not infinite < 1:
        raise NoCertificateError
    total = math.fsum(mass)
    log_scale = count * math.log(total)
    losses: FloatArray = grid.start + grid.step * index.astype(float)
    off = (2 * U * np.abs(losses)) if grid.start else np.zeros(len(mass))
    weighted = Weighted(losses, np.log(mass / total), np.full(len(mass), 8 * U) + ELEMENTARY * 2, off)
    exact = Fraction(grid.step)
    lattice = Lattice(Fraction(grid.start) + exact * int(index[0]), exact)  # of one copy
    return AtomicSum(weighted, count, infinity=(infinite, infinite), lattice=lattice), log_scale


def _grid(part: Summand, step: float, tail: float, offset: float) -> _Grid:
    """Lattice points (or their lower halves) that leave out about `tail` of P above and little below."""
    low, high = part.span(SUNK / part.copies, tail / part.copies)
    start = high if math.isfinite(part.top.loss) else 0.0
    first, last = math.floor((low - start) / step) - 1, math.ceil((high - start) / step) + 1
    if not last - first < 2 * FINEST:
        raise NoCertificateError
    return _Grid(start, step, np.arange(first, last + 1), offset)


def _above(part: Summand, step: float, tail: float) -> tuple[AtomicSum, float, float]:
    grid = _grid(part, step, tail, 0.0)
    edges = grid.edges
    found = _ask(part, grid)
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
    law, log_scale = _law(grid, grid.index, mass, part.copies, min(float(p[-1]), 1.0))
    return law, log_scale, part.copies * found.slip


def _below(part: Summand, step: float, tail: float, lam: float, near: float) -> tuple[AtomicSum, float, float]:
    grid = _grid(part, step, tail, -0.5)
    found = _ask(part, grid)
    p, q = (found.p - found.p_error)[1:-1], (found.q + found.q_error)[1:-1]
    index, point = grid.index[:-1], grid.points[:-1]
    kept = p > 0
    index, point, p, q = index[kept], point[kept], p[kept], q[kept]
    merged = np.log(p) - np.log(q)
    short = point - merged + 64 * U * (1 + np.abs(point) + np.abs(merged) + np.abs(np.log(p)))
    here = np.minimum(lam * (point - near), 0.0)
    tilted = p * np.exp(here - here.max(initial=-math.inf))  # about the law of one copy where the sum is near
    eta = min(
        [0.0, *(step * np.geomspace(1e-7, 1.0, 36)).tolist()],
        key=lambda x: float(tilted @ (x + step * np.ceil(np.maximum(short - x, 0.0) / step))),
    )
    down = np.ceil(np.maximum(short - eta, 0.0) / step * (1 + 1e-12))
    placed = down <= FURTHEST
    index, p = index[placed] - down[placed].astype(np.int64), p[placed]
    if not len(index):
        raise NoCertificateError
    first = int(index.min())
    mass: FloatArray = np.bincount(index - first, weights=p).astype(float) * (1 - 64 * U)
    law, log_scale = _law(grid, np.arange(len(mass)) + first, mass, part.copies, 0.0)
    return law, log_scale, part.copies * eta


def _ask(part: Summand, grid: _Grid) -> Masses:
    """The masses between the edges, their slip with the rounding of the edges; a lattice of whole steps has exact edges."""
    edges = grid.edges
    found = part.cells(edges)
    if found is None:
        raise NoCertificateError
    return found._replace(slip=found.slip + U * float(np.abs(edges).max())) if grid.start else found


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


def below(total: Total, step: float, delta: float, lam: float, near: float) -> Rounded:
    """The law below, for questions about this delta, near this eps, where log delta falls like lam."""
    tail = TAIL * delta / len(total.summands)
    return _together([_below(part, step, tail, lam, near) for part in total.summands], -1.0)


def _together(parts: list[tuple[AtomicSum, float, float]], side: float) -> Rounded:
    copies = sum(law.count for law, _, _ in parts)
    log_scale = sum(log for _, log, _ in parts)
    slack = side * (16 * U * copies + 8 * U * abs(log_scale))
    shift = sum(shift for _, _, shift in parts)
    return Rounded(Total([law for law, _, _ in parts]), log_scale + slack, shift * (1 + 16 * U))
