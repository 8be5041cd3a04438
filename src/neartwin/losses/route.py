"""Which route answers: closed form, then lattice, contour, the contour with a smooth kernel, extremes, Chernoff's floor.

A route either proves its bracket or raises `NoCertificateError`, and the next is taken. What comes back is the best
proved lower end and the best proved upper end of those tried, with the name of the route and its error terms.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses import cells, chernoff, contour, lattice, saddle
from neartwin.losses.inversion import Line, ends, invert
from neartwin.losses.rounding import NoCertificateError, down, up
from neartwin.losses.saddle import Saddle
from neartwin.losses.total import Total

CLOSED, LATTICE, CONTOUR, WIDE, FLOOR = "closed form", "lattice", "contour", "wide contour", "Chernoff floor"
NARROW = 1e-8  # relative width in eps that a contour promises; a wider answer is named so
RESOLUTIONS = (0.2, 0.4, 0.7)  # shares of the width asked for that smooth kernels try first
COARSER = (3e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # relative widths that they try then
KEPT = 24  # lines kept for the next question
BLOCK = 1 << 19  # numbers a temporary matrix may hold
NO_LINE = (NoCertificateError, OverflowError, ValueError, ZeroDivisionError)
Indices = np.ndarray[tuple[int], np.dtype[np.intp]]
Names = np.ndarray[tuple[int], np.dtype[np.str_]]
LINES = 48  # lines one vectorised query may build
TRIES = 3  # lines built for one question
FINER = (0.5, 1 / 16)  # steps of the rounded law, over the first
COARSE = 1e-6  # relative width wanted of a rounded law's own answer
REPEATS = 2  # of them at a lam tried before
FINE = 1e-4  # relative width from which one more try is enough
FAR = 0.05  # how far off a guess of eps may be
NEARER = (1.0, 0.6, 0.3, 0.1)  # lines tried for one eps, as shares of the saddle's lam


@dataclass(frozen=True)
class Answer:
    """Certified ends, the route that gave them, and its error terms (absolute, in delta)."""

    lower: float
    upper: float
    method: str
    errors: dict[str, float] = field(default_factory=dict)
    slope: float = math.nan  # about where -d log delta / d eps lies, where a line told


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
        rows = max(1, BLOCK // self.line.nodes)
        parts = [self.line.delta(eps[near[start : start + rows]]) for start in range(0, len(near), rows)]
        low, high = (np.concatenate([part[k] for part in parts]) for k in range(2))
        better = high - low < upper[near] - lower[near]
        method[near[better]] = self.name
        lower[near], upper[near] = np.maximum(lower[near], low), np.minimum(upper[near], high)
        done = near[upper[near] - lower[near] <= 8 * self.quality * upper[near]]
        return asked[~np.isin(asked, done)]


def line_at(total: Total, at: Saddle, within: float = NARROW) -> tuple[str, Line]:
    """A certified line at this saddle, as narrow in eps as asked where that is affordable."""
    try:
        return LATTICE, lattice.build(total, at)
    except NoCertificateError:
        pass
    try:
        return CONTOUR, contour.build(total, at, 0.0)
    except NoCertificateError:
        pass
    eps = max(abs(at.eps), 1e-2 * at.deviation)
    for resolution in [
        *(share * within for share in RESOLUTIONS),
        *(r for r in COARSER if r > within),
    ]:  # the two kernels are gamma^2 (lam + 1) apart in eps
        tolerance = min(max(1e-2 * resolution * at.lam * eps, contour.TOLERANCE), 1e-6)
        try:
            return CONTOUR, contour.build(total, at, math.sqrt(resolution * eps / (at.lam + 1)), tolerance=tolerance)
        except NoCertificateError:
            continue
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
def delta(total: Total, eps: FloatArray, within: float = NARROW) -> tuple[FloatArray, FloatArray, Names]:
    """Bounds on delta at each eps and the route's name for each; lines are shared by the eps near their saddles.

    within: the relative width in eps worth a longer line.
    """
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
            name, line = line_at(total, at, within)
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


def _narrow(lower: float, upper: float, enough: float = NARROW) -> bool:
    return upper - max(lower, 0.0) <= enough * upper or upper <= 0


def _by_line(
    total: Total, low_target: float, high_target: float, *, within: float = NARROW, tries: int = TRIES
) -> Answer:
    """The narrowest answer of a few lines; most questions stop at the first.

    Where the first guess of eps was poor, so were the period and the cut; the same line is then built again.
    """
    best: Answer | None = None
    at, factor, repeats, left = saddle.for_delta(total, high_target), 0, 0, tries
    while factor < len(NEARER) and left > 0:
        here = at.lower(total, NEARER[factor]) if factor else at
        found, middle = _at_line(total, here, low_target, high_target, within)
        if found is not None:
            left -= 1
            best = found if best is None or found.upper - found.lower < best.upper - best.lower else best
            if _narrow(best.lower, best.upper, within):
                break
            left = min(left, 1) if best.upper - best.lower <= FINE * best.upper else left
        again = abs(middle - at.eps) > FAR * abs(middle) and repeats < REPEATS
        at, factor, repeats = at._replace(eps=middle), factor + (not again), repeats + again
    if best is None or not math.isfinite(best.upper):
        raise NoCertificateError
    return best


def _at_line(
    total: Total, at: Saddle, low_target: float, high_target: float, within: float
) -> tuple[Answer | None, float]:
    """The answer of one line, if there is one, and where it believes eps to be."""
    try:
        name, line = line_at(total, at, within)
    except NO_LINE:
        return None, at.eps
    (lower, upper, errors), middle = invert(line, at, low_target, high_target)
    name = WIDE if name == CONTOUR and not _narrow(lower, upper, within) else name
    answer = Answer(lower, upper, name, errors, at.lam)
    return answer, middle if math.isfinite(middle) else at.eps


def _by_cells(total: Total, low_target: float, high_target: float) -> Answer:
    """Laws rounded to ever finer lattices, until the ends are close or the lattice too fine."""
    best = Answer(-math.inf, math.inf, LATTICE)
    step = cells.coarse(total, high_target)
    for share in FINER:
        try:
            best = _common(best, _on_cells(total, step * share, low_target, high_target))
        except NO_LINE:
            break
        if _narrow(best.lower, best.upper, FINE):
            break
    return best


def _common(one: Answer, other: Answer) -> Answer:
    """What both prove, by the name of the narrower."""
    first, second = sorted((one, other), key=lambda answer: answer.upper - max(answer.lower, 0.0))
    return Answer(max(one.lower, other.lower), min(one.upper, other.upper), first.method, first.errors or second.errors)


def _on_cells(total: Total, step: float, low_target: float, high_target: float) -> Answer:
    above = cells.above(total, step, high_target)
    leak = above.total.infinity[1]
    # inf + (1 - inf) scale delta(eps - shift) <= target
    target = down((low_target - leak) / (1 - leak) * math.exp(-above.log_scale) * (1 - 1e-14), 4)
    if not target > 0:
        raise NoCertificateError
    upper = _by_line(above.total, target, target, within=COARSE, tries=2)
    below = cells.below(total, step, high_target, 0.5 * saddle.for_delta(above.total, target).lam)
    target = up(high_target * math.exp(-below.log_scale) * (1 + 1e-14), 4)
    lower = _by_line(below.total, target, target, within=COARSE, tries=2)
    sources = {"infinite mass": leak} | upper.errors
    errors = sources | {source: max(one, sources.get(source, 0.0)) for source, one in lower.errors.items()}
    return Answer(down(lower.lower - below.shift), up(upper.upper + above.shift), LATTICE, errors)


class _Closed:
    """A closed form dressed as a line, for Newton and the certified ends."""

    def __init__(self, total: Total) -> None:
        self.total = total

    @property
    def nodes(self) -> int:
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
    """A root or a bisection between two eps that bracket, then the certified ends."""
    line = _Closed(total)
    guess = total.summands[0].root(high_target)
    if guess is not None:
        lower, upper, errors = ends(line, *guess, low_target, high_target)
        if math.isfinite(lower) and math.isfinite(upper):
            return Answer(lower, upper, CLOSED, errors)
    low, high = -1.0, 1.0
    while line.delta(np.array([high]))[1][0] > high_target and high < 1e12:
        low, high = high, 2 * high
    while line.delta(np.array([low]))[0][0] < low_target and low > -1e3:
        low, high = 2 * low, low
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if line.delta(np.array([middle]))[0][0] >= low_target else (low, middle)
    at = Saddle(2 / (high - low), 0.5 * (low + high), (high - low) / 2, math.log(high_target))
    (lower, upper, errors), _ = invert(line, at, low_target, high_target)
    if not math.isfinite(upper):
        lower, upper = low, high if line.delta(np.array([high]))[1][0] <= high_target else math.inf
    return Answer(lower, upper, CLOSED, errors)


@np.errstate(all="ignore")
def epsilon(total: Total, low_delta: float, high_delta: float, within: float = NARROW) -> Answer:
    """Certified eps of a delta known to lie in [low_delta, high_delta]: the least eps >= 0 with delta(eps) <= it.

    within: the relative width wanted, which a longer line pays for; not a promise.
    """
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
            if total.has_closed_form:
                found = _by_closed_form(total, target_low, target_high)
            else:
                found = _by_line(total, target_low, target_high, within=within)
        except NO_LINE:
            pass
        if not _narrow(found.lower, found.upper, FINE):
            with contextlib.suppress(*NO_LINE):
                found = _common(found, _by_cells(total, target_low, target_high))
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
    return Answer(lower, max(upper, lower), method, found.errors, found.slope)
