"""Which route answers: closed form, extremes, lattice and contour, laws rounded to a lattice, wide kernels, Chernoff's floor.

A route either proves its bracket or raises `NoCertificateError`, and the next is taken. What comes back is the best
proved lower end and the best proved upper end of those tried, with the name of the route and its error terms.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion import chernoff, discretization, saddle
from neartwin.losses.inversion.answer import (
    CLOSED,
    CONTOUR,
    FINE,
    FLOOR,
    LATTICE,
    NARROW,
    NO_LINE,
    Answer,
    common,
    narrow,
)
from neartwin.losses.inversion.closed_form import Extremes, by_closed_form, by_extremes, closed_form
from neartwin.losses.inversion.lines import FURTHER, at_once, by_line, lines_at, wide_line_at
from neartwin.losses.inversion.root import ContourRule
from neartwin.losses.inversion.saddle import Saddle
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.rounding import NoCertificateError, U, down, up

KEPT = 24  # lines kept for the next question
BLOCK = 1 << 19  # numbers a temporary matrix may hold
LINES = 48  # lines one vectorised query may build
LAWS = 8  # eps of one vectorised query that rounded laws may serve
PARTS = 8  # lines by rungs that one vectorised query may build
ROUGH = 1e-6  # relative width in eps that the first smooth lines aim at
POOR = 1e-3  # relative width from which the last routes are asked
NOTHING = Answer(-math.inf, math.inf, FLOOR)  # known so far
Indices = np.ndarray[tuple[int], np.dtype[np.intp]]
Names = np.ndarray[tuple[int], np.dtype[np.str_]]


@dataclass(frozen=True)
class _Kept:
    """A line kept for the next question, with the relative width it gave at its own saddle."""

    name: str
    line: ContourRule
    at: Saddle
    quality: float

    def answer(self, eps: FloatArray, asked: Indices, lower: FloatArray, upper: FloatArray, method: Names) -> Indices:
        """Narrow the bounds of the eps asked for within three deviations; return those still open."""
        near = asked[np.abs(eps[asked] - self.at.eps) < 3 * self.at.deviation + 2 / (1 + self.at.tilt)]
        if not len(near):
            return asked
        rows = max(1, BLOCK // self.line.nodes)
        parts = [self.line.delta(eps[near[start : start + rows]]) for start in range(0, len(near), rows)]
        low, high = (np.concatenate([part[k] for part in parts]) for k in range(2))
        better = high - low < upper[near] - lower[near]
        method[near[better]] = self.name
        lower[near], upper[near] = np.maximum(lower[near], low), np.minimum(upper[near], high)
        done = near[upper[near] - lower[near] <= 8 * self.quality * upper[near]]
        return asked[~np.isin(asked, done)]


def with_infinity(total: SumOfLosses, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inf + (1 - inf) delta, increasing in both; three rounded operations outward."""
    low, high = total.infinity
    step = 4 * np.finfo(float).eps
    return (low + (1 - low) * lower) * (1 - step), np.minimum((high + (1 - high) * upper) * (1 + step), 1.0)


@np.errstate(all="ignore")
def delta(total: SumOfLosses, eps: FloatArray, rtol: float = NARROW) -> tuple[FloatArray, FloatArray, Names]:
    """Bounds on delta at each eps and the route's name for each; lines are shared by the eps near their saddles.

    rtol: the relative width in eps worth a longer line, no less than the usual one. An eps is asked at every level down to it:
    what is proved of a lesser width lies inside what is proved of a greater one.
    """
    exact = closed_form(total, eps)
    if exact is not None:
        return *with_infinity(total, *exact), np.full(len(eps), CLOSED)
    lower, upper = np.zeros(len(eps)), np.ones(len(eps))
    # delta >= 1 - e^eps for every pair, and Q has at most 1/P(L < inf) times as much mass given a finite loss
    revealed = total.infinity[1]
    if revealed < 1:
        grown = np.exp(np.minimum(eps, 0.0)) * (revealed / (1 - revealed)) * (1 + 8 * U)
        lower = np.maximum(lower, -np.expm1(np.minimum(eps, 0.0)) * (1 - 1e-15) - grown)
    method = np.full(len(eps), FLOOR, dtype="<U16")
    open_ = eps < total.top.loss
    upper[~open_] = lower[~open_] = 0.0
    method[~open_] = CLOSED
    ranked = np.array([int(i) for i in np.argsort(eps) if open_[i]], dtype=int)
    if total.top.mass > 0:
        low, high = _near_the_top(total, eps[ranked])
        lower[ranked], upper[ranked] = np.maximum(lower[ranked], low), np.minimum(upper[ranked], high)
        done = high - low <= NARROW * high
        method[ranked[done]] = CLOSED
        ranked = ranked[~done]
    levels = (ROUGH, NARROW) if total.ladder is None else (NARROW,)
    kept: list[_Kept] = total.lines
    for one in kept:
        ranked = one.answer(eps, ranked, lower, upper, method)
    ranked = _by_rungs(total, eps, ranked, (lower, upper, method))
    for _ in range(LINES):
        if not len(ranked):
            break
        centre = ranked[len(ranked) // 2]
        with contextlib.suppress(*NO_LINE):
            at, left = saddle.for_eps(total, float(eps[centre])), ranked
            for name, line in lines_at(total, at, rtol, levels):
                left = _keep(total, name, line, at).answer(eps, ranked, lower, upper, method)
            ranked = left
        ranked = ranked[ranked != centre]
    for i in np.flatnonzero(upper - lower > POOR * upper)[:LAWS]:
        with contextlib.suppress(*NO_LINE):
            below, above = discretization.delta(total, float(eps[i]))
            method[i] = LATTICE if above - below < upper[i] - lower[i] else method[i]
            lower[i], upper[i] = max(lower[i], below), min(upper[i], above)
    rest = (method == FLOOR) | (upper - lower > 0.5 * upper)
    if np.any(rest):
        floor = chernoff.delta_above(total.log_mgf_above, eps[rest], total.log_mgf_roughly_above)
        upper[rest] = np.minimum(upper[rest], floor)
    return *with_infinity(total, lower, np.maximum(upper, lower)), method


def _keep(total: SumOfLosses, name: str, line: ContourRule, at: Saddle) -> _Kept:
    """The line with what it proves at its own eps, kept before all others."""
    low, high = line.delta(np.array([at.eps]))
    kept: list[_Kept] = total.lines
    kept.insert(0, _Kept(name, line, at, max(float((high[0] - low[0]) / max(high[0], 1e-300)), 1e-11)))
    del kept[KEPT:]
    return kept[0]


def _by_rungs(
    total: SumOfLosses, eps: FloatArray, asked: Indices, bounds: tuple[FloatArray, FloatArray, Names]
) -> Indices:
    """Narrow the bounds where a law is so seldom sampled that no one line serves; return those still open."""
    if total.ladder is None:
        return asked
    with contextlib.suppress(*NO_LINE):
        for _ in range(PARTS):
            if not len(asked):
                break
            centre = asked[len(asked) // 2]
            line, at = total.ladder.line(total, float(eps[centre]))
            left = _keep(total, CONTOUR, line, at).answer(eps, asked, *bounds)
            asked = left[left != centre]
    return asked


def _near_the_top(total: SumOfLosses, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What the largest loss tells; nothing where it is no atom."""
    try:
        return Extremes(total).delta(eps)
    except NO_LINE:
        return np.zeros(len(eps)), np.ones(len(eps))


def epsilon(total: SumOfLosses, low_delta: float, high_delta: float, rtol: float = NARROW) -> Answer:
    """Certified eps of a delta known to lie in [low_delta, high_delta]: the least eps >= 0 with delta(eps) <= it.

    rtol: the relative width wanted, which a longer line pays for; not a promise.
    """
    inf_low, inf_high = total.infinity
    if inf_low > high_delta:
        return Answer(math.inf, math.inf, CLOSED)
    # the finite part must pay (delta - inf)/(1 - inf), decreasing in inf; outward
    target_high = down(max(low_delta - inf_high, 0.0) / (1 - inf_high), 4) if inf_high < 1 else 0.0  # for the upper eps
    target_low = min(up(max(high_delta - inf_low, 0.0) / (1 - inf_low), 4), 1.0)  # for the lower eps
    # delta(0) is the total variation, and that of a product is at most the sum
    if target_high > 0 and sum([part.variation for part in total.summands]) * (1 + 1e-12) <= target_high:
        return Answer(0.0, 0.0, CLOSED)
    found = NOTHING
    if target_high > 0 and target_low < 1e-9 * total.top.mass:
        found = _with_extremes(total, found, target_low, target_high)
    if target_high > 0:
        for enough, route in _routes(total, target_low, target_high, rtol):
            if narrow(found.lower, found.upper, enough):
                if narrow(found.lower, found.upper, rtol):
                    break
                continue
            with contextlib.suppress(*NO_LINE):
                more = route(found)
                found = more if found is NOTHING else common(found, more)
    return _with_extremes(total, found, target_low, target_high)


def _routes(
    total: SumOfLosses, low_target: float, high_target: float, rtol: float
) -> Iterator[tuple[float, Callable[[Answer], Answer]]]:
    """Every route in turn, with the relative width from which it is not worth asking; it is told what was found before.

    Where great losses may be rare, a short line is tried before the ladder. The width asked for only ends the
    turns, so that what is proved of a lesser width lies inside what is proved of a greater one.
    """
    if total.has_closed_form:
        yield 1e-13, lambda _: by_closed_form(total, low_target, high_target)
        if total.ladder is not None:
            yield max(NARROW, rtol), lambda _: _ladder(total, low_target, high_target)
        return
    if low_target < total.top.mass:
        yield 1e-9, lambda _: by_extremes(total, low_target, high_target)
    enough, fine = max(NARROW, rtol), max(FINE, rtol)
    if total.ladder is not None:
        if total.ladder.mixes:
            yield enough, lambda _: at_once(total, low_target, high_target)
        yield enough, lambda _: _ladder(total, low_target, high_target)
    yield enough, lambda _: by_line(total, low_target, high_target, rtol=rtol)
    yield fine, lambda _: discretization.epsilon(total, low_target, high_target, discretization.FINER[:1])
    yield fine, lambda _: discretization.epsilon(total, low_target, high_target, discretization.FINER[1:])
    yield max(POOR, rtol), lambda _: by_line(total, low_target, high_target, rtol=rtol, build=wide_line_at)
    wider = NARROW
    for level in FURTHER:
        if rtol < wider:
            yield max(level, rtol), partial(_further, total, (low_target, high_target), rtol, level)
        wider = level


def _ladder(total: SumOfLosses, low_target: float, high_target: float) -> Answer:
    if total.ladder is None:
        raise NoCertificateError
    answer: Answer = total.ladder.epsilon(total, low_target, high_target)
    return answer


def _further(total: SumOfLosses, targets: tuple[float, float], rtol: float, level: float, _: Answer) -> Answer:
    return by_line(total, *targets, rtol=rtol, levels=(level,))


def _with_extremes(total: SumOfLosses, found: Answer, target_low: float, target_high: float) -> Answer:
    """The largest loss above, its atom below, Chernoff where nothing else answered, and never below 0.

    The atom: delta(eps) >= mass (1 - e^{eps - loss}), so eps(delta) >= loss + log(1 - delta/mass), at the least that the largest
    loss may be.
    """
    lower, upper, method = found.lower, found.upper, found.method
    loss, mass, least = total.top
    if target_low < mass:
        fall = math.log1p(-target_low / mass) * (1 + 1e-12)
        by_atom = least + fall - 4 * U * (abs(least) + abs(fall))
        if by_atom > lower:
            lower, method = by_atom, CLOSED if method == FLOOR else method
    upper = min(upper, loss)
    if target_high > 0 and (method == FLOOR or not math.isfinite(lower)):
        upper = min(upper, chernoff.epsilon_above(total.log_mgf_above, target_high, total.log_mgf_roughly_above))
    lower = max(lower, 0.0)
    upper = max(upper, lower)
    if (lower, upper) == (found.lower, found.upper):
        return found
    return Answer(lower, upper, method, found.errors, found.slope)
