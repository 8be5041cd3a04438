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
A cell's end computed in floating point may lie `edge_error` off, the family's own and U of the end for its sum with a: above,
eps moves up by n edge_error and q' is reduced by that factor.
The rounded law is a finite law on a lattice, and `lattice.py` answers for it, with its own bounds.

The lattice route for laws without a lattice: laws rounded above and below, answered by `lattice.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion import convolution, saddle
from neartwin.losses.inversion.answer import FINE, LATTICE, NO_LINE, Answer, common, narrow
from neartwin.losses.inversion.lines import by_line, lattice_line_at
from neartwin.losses.inversion.root import ContourRule
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.base import CellMasses, Lattice, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, NoCertificateError, U, down, up

Indices = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
FIRST, FINEST = 1 << 11, 1 << 16  # cells of one law: tried first, at most
TAIL = 1e-7  # of the wanted delta: what all laws together may call infinite
SUNK = 1e-9  # of P: what all laws together may raise to their lowest cell
FURTHEST = 64  # cells that a merged loss may sink before it is dropped


@dataclass(frozen=True)
class Rounded:
    """A finite law whose delta, `scale` times as much at eps - shift (above) or eps + shift (below), bounds the true one."""

    total: SumOfLosses
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
    p, q = found.p + found.p_error, np.maximum(found.q - found.q_error, 0.0) * math.exp(-2 * found.edge_error)
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
    return law, log_scale, part.copies * found.edge_error


def _below(part: Summand, step: float, tail: float, tilt: float, near: float) -> tuple[AtomicSum, float, float]:
    grid = _grid(part, step, tail, -0.5)
    found = _ask(part, grid)
    p, q = (found.p - found.p_error)[1:-1], (found.q + found.q_error)[1:-1]
    index, point = grid.index[:-1], grid.points[:-1]
    kept = p > 0
    index, point, p, q = index[kept], point[kept], p[kept], q[kept]
    merged = np.log(p) - np.log(q)
    short = point - merged + 64 * U * (1 + np.abs(point) + np.abs(merged) + np.abs(np.log(p)))
    here = np.minimum(tilt * (point - near), 0.0)
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


def _ask(part: Summand, grid: _Grid) -> CellMasses:
    """The masses between the edges, their edge_error with the rounding of the edges; a lattice of whole steps has exact edges."""
    edges = grid.edges
    found = part.cells(edges)
    if found is None:
        raise NoCertificateError
    return found._replace(edge_error=found.edge_error + U * float(np.abs(edges).max())) if grid.start else found


def first_step(total: SumOfLosses, delta: float) -> float:
    """A first step: a power of two, some thousand cells for the widest law."""
    spans = [part.span(SUNK / part.copies, TAIL * delta / part.copies) for part in total.summands]
    widest = max(high - low for low, high in spans)
    if not 0 < widest < math.inf:
        raise NoCertificateError
    return 2.0 ** math.floor(math.log2(widest / FIRST))


def rounded_above(total: SumOfLosses, step: float, delta: float) -> Rounded:
    """The law above, for questions about this delta."""
    tail = TAIL * delta / len(total.summands)
    return _together([_above(part, step, tail) for part in total.summands], 1.0)


def rounded_below(total: SumOfLosses, step: float, delta: float, tilt: float, near: float) -> Rounded:
    """The law below, for questions about this delta, near this eps, where log delta falls like tilt."""
    tail = TAIL * delta / len(total.summands)
    return _together([_below(part, step, tail, tilt, near) for part in total.summands], -1.0)


def _together(parts: list[tuple[AtomicSum, float, float]], side: float) -> Rounded:
    copies = sum(law.count for law, _, _ in parts)
    log_scale = sum(log for _, log, _ in parts)
    slack = side * (16 * U * copies + 8 * U * abs(log_scale))
    shift = sum(shift for _, _, shift in parts)
    return Rounded(SumOfLosses([law for law, _, _ in parts]), log_scale + slack, shift * (1 + 16 * U))


FINER = (0.5, 0.25, 1 / 16)  # steps of the rounded law, over the first
DROWNED = 0.03  # share of delta that rounding may reach in a line
COARSE = 1e-6  # relative width wanted of a rounded law's own answer


def epsilon(total: SumOfLosses, low_target: float, high_target: float, shares: Sequence[float] = FINER) -> Answer:
    """Laws rounded to ever finer lattices, until the ends are close or the lattice too fine; shares: of the first step."""
    best = Answer(-math.inf, math.inf, LATTICE)
    step = first_step(total, high_target)
    for share in shares:
        try:
            best = common(best, _epsilon_at(total, step * share, low_target, high_target))
        except NO_LINE:
            break
        rounding = best.errors.get("rounding", 0.0) > DROWNED * high_target  # then finer cells are of no use
        if rounding or narrow(best.lower, best.upper, FINE):
            break
    return best


def _epsilon_at(total: SumOfLosses, step: float, low_target: float, high_target: float) -> Answer:
    above = rounded_above(total, step, high_target)
    leak = above.total.infinity[1]
    # inf + (1 - inf) scale delta(eps - shift) <= target
    target = down((low_target - leak) / (1 - leak) * math.exp(-above.log_scale) * (1 - 1e-14), 4)
    if not target > 0:
        raise NoCertificateError
    upper = _end(above.total, target, above=True)
    below = rounded_below(total, step, high_target, upper.slope, upper.upper)
    target = up(high_target * math.exp(-below.log_scale) * (1 + 1e-14), 4)
    lower = _end(below.total, target, above=False)
    sources = {"infinite mass": leak, **upper.errors}
    errors = sources | {source: max(one, sources.get(source, 0.0)) for source, one in lower.errors.items()}
    return Answer(down(lower.lower - below.shift), up(upper.upper + above.shift), LATTICE, errors, upper.slope)


def _end(law: SumOfLosses, target: float, *, above: bool) -> Answer:
    """Eps of a rounded law, by convolution where that is affordable, else by a line."""
    try:
        return convolution.epsilon(law, target, above=above)
    except NO_LINE:
        return by_line(law, target, target, rtol=COARSE, tries=2, build=lattice_line_at)


def delta(total: SumOfLosses, eps: float) -> tuple[float, float]:
    """Bounds on the finite part of delta at one eps, the best of the same lattices."""
    at = saddle.for_eps(total, eps)
    guess = math.exp(max(at.log_delta, -690.0))
    step, best = first_step(total, guess), (0.0, 1.0)
    for share in FINER:
        try:
            low, high = _delta_at(total, step * share, eps, guess, at.tilt)
        except NO_LINE:
            break
        best = max(best[0], low), min(best[1], high)
        if best[1] - best[0] <= FINE * best[1]:
            break
    return best


def _delta_at(total: SumOfLosses, step: float, eps: float, guess: float, tilt: float) -> tuple[float, float]:
    above = rounded_above(total, step, guess)
    leak = above.total.infinity[1]
    upper = _value(above.total, np.nextafter(eps - above.shift, -math.inf), guess, above=True)
    below = rounded_below(total, step, guess, tilt, eps)
    lower = _value(below.total, np.nextafter(eps + below.shift, math.inf), guess, above=False)
    high = leak + math.exp(above.log_scale) * upper * (1 + 1e-14)
    return lower * math.exp(below.log_scale) * (1 - 1e-14), min(high * (1 + 1e-14), 1.0)


def _value(law: SumOfLosses, eps: float, guess: float, *, above: bool) -> float:
    """One end of delta of a rounded law; 0 beyond its largest loss."""
    if eps >= law.top.loss:
        return 0.0
    try:
        line: ContourRule = convolution.build(law, guess, above=above)
    except NO_LINE:
        line = lattice_line_at(law, saddle.for_eps(law, eps))[1]
    return float(line.delta(np.array([eps]))[1 if above else 0][0])
