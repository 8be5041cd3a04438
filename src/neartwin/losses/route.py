"""Which route answers: closed form, then lattice, contour, contour with a smooth kernel, extremes, Chernoff's floor.

A route either proves its bracket or raises `NoCertificateError`, and the next is taken. What comes back is the best
proved lower end and the best proved upper end of those tried, with the name of the route and its error terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses import chernoff, contour, lattice, saddle
from neartwin.losses.rounding import NoCertificateError, down, up
from neartwin.losses.saddle import Saddle
from neartwin.losses.total import Total

CLOSED, LATTICE, CONTOUR, SMOOTH, FLOOR = "closed form", "lattice", "contour", "smooth contour", "Chernoff floor"
RESOLUTION = 4e-7  # wanted relative width in eps where only a smooth kernel certifies
KEPT = 24  # lines kept for the next question
BLOCK = 1 << 19  # numbers a temporary matrix may hold
NO_LINE = (NoCertificateError, OverflowError, ValueError, ZeroDivisionError)
Indices = np.ndarray[tuple[int], np.dtype[np.intp]]
Names = np.ndarray[tuple[int], np.dtype[np.str_]]
LINES = 48  # lines one vectorised query may build
NEARER = (1.0, 0.6, 0.3, 0.1)  # lines tried for one eps, as shares of the saddle's lam


class Line(Protocol):
    """A certified line, whatever its kernel."""

    @property
    def size(self) -> int:
        """How many frequencies it has."""

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds at each eps."""

    def ledger(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The same with the error terms."""

    def middle(self, eps: float) -> tuple[float, float]:
        """The middle and minus the slope, uncertified."""


@dataclass(frozen=True)
class Answer:
    """Certified ends, the route that gave them, and its error terms (absolute, in delta)."""

    lower: float
    upper: float
    method: str
    errors: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Kept:
    """A line kept for the next question, with the relative width it gave at its own saddle."""

    name: str
    line: Line
    at: Saddle
    quality: float

    def answer(self, eps: FloatArray, asked: Indices, lower: FloatArray, upper: FloatArray, method: Names) -> Indices:
        """Narrow the bounds of the eps asked for within three deviations; return those still open."""
        near = asked[np.abs(eps[asked] - self.at.eps) < 3 * self.at.deviation + 2 / (1 + self.at.lam)]
        if not len(near):
            return asked
        rows = max(1, BLOCK // self.line.size)
        parts = [self.line.delta(eps[near[start : start + rows]]) for start in range(0, len(near), rows)]
        low, high = (np.concatenate([part[k] for part in parts]) for k in range(2))
        better = high - low < upper[near] - lower[near]
        method[near[better]] = self.name
        lower[near], upper[near] = np.maximum(lower[near], low), np.minimum(upper[near], high)
        done = near[upper[near] - lower[near] <= 8 * self.quality * upper[near]]
        return asked[~np.isin(asked, done)]


def line_at(total: Total, at: Saddle) -> tuple[str, Line]:
    """The narrowest certified line at this saddle."""
    try:
        return LATTICE, lattice.build(total, at)
    except NoCertificateError:
        pass
    try:
        return CONTOUR, contour.build(total, at, 0.0)
    except NoCertificateError:
        pass
    width = math.sqrt(RESOLUTION * max(abs(at.eps), 1e-2 * at.deviation) / (at.lam + 1))
    for _ in range(8):
        try:
            return SMOOTH, contour.build(total, at, width)
        except NoCertificateError:
            width *= 3
    raise NoCertificateError


def closed_form(total: Total, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """The closed form of the finite part, where the whole is one summand that has it."""
    found = total.summands[0].delta(eps) if len(total.summands) == 1 else None
    if found is None:
        return None
    beyond = eps >= total.top.loss
    return np.where(beyond, 0.0, found[0]), np.where(beyond, 0.0, found[1])


def with_infinity(total: Total, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inf + (1 - inf) delta, increasing in both; three rounded operations outward."""
    low, high = total.infinity
    step = 4 * np.finfo(float).eps
    return (low + (1 - low) * lower) * (1 - step), np.minimum((high + (1 - high) * upper) * (1 + step), 1.0)


@np.errstate(all="ignore")
def delta(total: Total, eps: FloatArray) -> tuple[FloatArray, FloatArray, Names]:
    """Bounds on delta at each eps and the route's name for each; lines are shared by the eps near their saddles."""
    exact = closed_form(total, eps)
    if exact is not None:
        return *with_infinity(total, *exact), np.full(len(eps), CLOSED)
    lower, upper = np.zeros(len(eps)), np.ones(len(eps))
    lower = np.maximum(lower, -np.expm1(np.minimum(eps, 0.0)) * (1 - 1e-15))  # delta >= 1 - e^eps for every pair
    method = np.full(len(eps), FLOOR, dtype="<U16")
    open_ = eps < total.top.loss
    upper[~open_] = lower[~open_] = 0.0
    method[~open_] = CLOSED
    order = np.array([int(i) for i in np.argsort(eps) if open_[i]], dtype=int)
    kept: list[_Kept] = total.lines
    for one in kept:
        order = one.answer(eps, order, lower, upper, method)
    for _ in range(LINES):
        if not len(order):
            break
        centre = order[len(order) // 2]
        try:
            at = saddle.for_eps(total, float(eps[centre]))
            name, line = line_at(total, at)
        except NO_LINE:
            order = order[order != centre]
            continue
        low, high = line.delta(eps[centre : centre + 1])
        one = _Kept(name, line, at, max(float((high[0] - low[0]) / max(high[0], 1e-300)), 1e-11))
        kept.insert(0, one)
        del kept[KEPT:]
        order = one.answer(eps, order, lower, upper, method)
        order = order[order != centre]
    rest = (method == FLOOR) | (upper - lower > 0.5 * upper)
    if np.any(rest):
        upper[rest] = np.minimum(upper[rest], chernoff.delta_above(total.log_mgf_above, eps[rest]))
    return *with_infinity(total, lower, np.maximum(upper, lower)), method


def _newton(line: Line, at: Saddle, log_target: float) -> tuple[float, float]:
    """Eps where the middle of the line meets the target, and -d log delta / d eps there: Newton inside a bracket."""
    e, slope, low, high = at.eps, at.lam, -math.inf, math.inf
    reach = 2 * at.deviation + 1 / at.lam
    for _ in range(40):
        value, fall = line.middle(e)
        sound = value > 0 and fall > 0 and math.isfinite(value)
        gap = math.log(value) - log_target if sound else -1.0
        low, high = (e, high) if gap > 0 else (low, e)
        slope = fall / value if sound else slope
        move = max(-reach, min(reach, gap / slope)) if sound else -reach
        settled = abs(move) <= 1e-13 * (abs(e) + 1e-3)
        if not settled and not low < e + move < high and math.isfinite(low) and math.isfinite(high):
            move = 0.5 * (low + high) - e
        e += move
        if settled:
            break
    return e, slope


def _widths(start: float) -> Iterator[float]:
    width = start
    for _ in range(60):
        yield width
        width *= 2


def _invert(line: Line, at: Saddle, low_target: float, high_target: float) -> tuple[float, float]:
    """The largest eps with a proved delta >= low_target, the least with a proved delta <= high_target.

    Each candidate end is evaluated by the certified `delta`; nothing rests on Newton but the number of trials.
    """
    e, slope = _newton(line, at, 0.5 * (math.log(low_target) + math.log(high_target)))
    low, high = (float(end[0]) for end in line.delta(np.array([e])))
    start = 0.6 * max(high - low, 0.0) / (max(high, 1e-300) * slope) + 2e-16 * abs(e) + 1e-300
    lower, upper = -math.inf, math.inf
    for width in _widths(start):
        if line.delta(np.array([e - width]))[0][0] >= low_target:
            lower = e - width
            break
    for width in _widths(start):
        if line.delta(np.array([e + width]))[1][0] <= high_target:
            upper = e + width
            break
    return lower, upper


def _by_line(total: Total, low_target: float, high_target: float) -> Answer:
    """The narrowest answer of a few lines; most questions stop at the first."""
    best: Answer | None = None
    saddle_point = saddle.for_delta(total, high_target)
    for factor in NEARER:
        at = saddle_point if factor == 1 else saddle_point.lower(total, factor)
        try:
            name, line = line_at(total, at)
        except NoCertificateError:
            continue
        lower, upper = _invert(line, at, low_target, high_target)
        parts = line.ledger(np.array([upper if math.isfinite(upper) else at.eps]))[2]
        found = Answer(lower, upper, name, {source: float(np.max(value)) for source, value in parts.items()})
        if best is None or upper - lower < best.upper - best.lower:
            best = found
        if upper - max(lower, 0.0) <= (10 * RESOLUTION if name == SMOOTH else 1e-8) * max(upper, 1e-12):
            break
    if best is None or not math.isfinite(best.upper):
        raise NoCertificateError
    return best


class _Closed:
    """A closed form dressed as a line, for Newton and the certified ends."""

    def __init__(self, total: Total) -> None:
        self.total = total

    @property
    def size(self) -> int:
        return 1

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = closed_form(self.total, eps)
        if found is None:
            raise NoCertificateError
        return found

    def ledger(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        lower, upper = self.delta(eps)
        return lower, upper, {"rounding": (upper - lower) / 2}

    def middle(self, eps: float) -> tuple[float, float]:
        step = 1e-6 * (abs(eps) + 1e-3)
        lower, upper = self.delta(np.array([eps - step, eps, eps + step]))
        values = 0.5 * (lower + upper)
        return float(values[1]), float((values[0] - values[2]) / (2 * step))


def _by_closed_form(total: Total, low_target: float, high_target: float) -> Answer:
    """Bisection between two eps that bracket, then the certified ends."""
    line = _Closed(total)
    low, high = -1.0, 1.0
    while line.delta(np.array([high]))[1][0] > high_target and high < 1e12:
        low, high = high, 2 * high
    while line.delta(np.array([low]))[0][0] < low_target and low > -1e3:
        low, high = 2 * low, low
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if line.delta(np.array([middle]))[0][0] >= low_target else (low, middle)
    at = Saddle(2 / (high - low), 0.5 * (low + high), (high - low) / 2, math.log(high_target))
    lower, upper = _invert(line, at, low_target, high_target)
    if not math.isfinite(upper):
        lower, upper = low, high if line.delta(np.array([high]))[1][0] <= high_target else math.inf
    parts = line.ledger(np.array([upper]))[2]
    return Answer(lower, upper, CLOSED, {source: float(np.max(value)) for source, value in parts.items()})


@np.errstate(all="ignore")
def epsilon(total: Total, low_delta: float, high_delta: float) -> Answer:
    """Certified eps of a delta known to lie in [low_delta, high_delta]: the least eps >= 0 with delta(eps) <= it."""
    inf_low, inf_high = total.infinity
    if inf_low > high_delta:
        return Answer(math.inf, math.inf, CLOSED)
    # the finite part must pay (delta - inf)/(1 - inf), decreasing in inf; outward
    target_high = down(max(low_delta - inf_high, 0.0) / (1 - inf_high), 4) if inf_high < 1 else 0.0  # for the upper eps
    target_low = min(up(max(high_delta - inf_low, 0.0) / (1 - inf_low), 4), 1.0)  # for the lower eps
    found = Answer(-math.inf, math.inf, FLOOR)
    if target_high > 0 and target_low < 1e-9 * total.top.mass:
        found = _with_extremes(total, found, target_low, target_high)
    if target_high > 0 and not (math.isfinite(found.lower) and found.upper - found.lower <= 1e-9 * abs(found.upper)):
        try:
            exact = closed_form(total, np.array([0.0])) is not None
            found = (_by_closed_form if exact else _by_line)(total, target_low, target_high)
        except NO_LINE:
            pass
    return _with_extremes(total, found, target_low, target_high)


def _with_extremes(total: Total, found: Answer, target_low: float, target_high: float) -> Answer:
    """The largest loss above, its atom below, Chernoff where nothing else answered, and never below 0.

    The atom: delta(eps) >= mass (1 - e^{eps - loss}), so eps(delta) >= loss + log(1 - delta/mass).
    """
    lower, upper, method = found.lower, found.upper, found.method
    loss, mass = total.top
    if target_low < mass:
        slack = 1e-14 * (abs(loss) + 1)
        by_atom = loss - slack + math.log1p(-target_low / mass) * (1 + 1e-12)
        if by_atom > lower:
            lower, method = by_atom, CLOSED if method == FLOOR else method
    upper = min(upper, loss)
    if target_high > 0 and (method == FLOOR or not math.isfinite(lower)):
        upper = min(upper, chernoff.epsilon_above(total.log_mgf_above, target_high))
    lower = max(lower, 0.0)
    return Answer(lower, max(upper, lower), method, found.errors)
