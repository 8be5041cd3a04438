"""The methods of inversion in order: closed form, special method, lattice and contour, wide kernels, Chernoff's floor.

A method proves an interval or raises `NoCertificateError`, and the next is tried. The answer has the best proved lower
end and the best proved upper end of those tried. It carries the name of the method and its error terms.

Closed forms: one summand whose delta is a formula, asked for delta or, by a root or a bisection, for eps.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion import chernoff
from neartwin.losses.inversion import contour_search as search
from neartwin.losses.inversion.contour import Bounds, ContourRule
from neartwin.losses.inversion.contour_search import NONE, apart
from neartwin.losses.inversion.total import Saddle, SumOfLosses
from neartwin.losses.summands.rounding import NoCertificateError, U, ordered

KEPT = 24  # lines kept for the next epsilons of a question
BLOCK, FEWEST = 1 << 19, 16  # numbers a temporary matrix may hold, but no fewer rows of it than this
LINES = 48  # lines of one method that one vectorised query may build
SPECIAL_LINES = 8  # of a special method, of which each is many
ROUGH = 1e-6  # relative width in eps that the first smooth lines aim at
FURTHER = (1e-9, 1e-10, 1e-11, 1e-12)  # and then in turn, where less is asked for
MANY = 12  # laws more than there are summands, of which a ladder takes more than a second
UNKNOWN = 1e-12  # a delta, below which greater ones may tell more
FINE = 1e-11  # relative width in delta that a line is not asked to better
LOOSE, OPEN = 1e-5, 1e-7  # relative widths in delta from which another method is tried, for many more laws and else
LITTLE, STEEPEST = 1e-3, 1e6  # of the mass of the greatest loss; the tilt that it is told apart by
Names = np.ndarray[tuple[int], np.dtype[np.str_]]
Booleans = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
IntArray = np.ndarray[tuple[int], np.dtype[np.intp]]


class Method(NamedTuple):
    """One way to invert the transform, asked for epsilon or for delta.

    Attributes:
        enough: The relative width of epsilon from which the method is not worth asking.
        epsilon: From a low and a high target of delta to certified epsilons.
        lines: From an epsilon to named lines near it, each with its saddle; None where another method has the same.
        most: How many epsilons of one query it may be asked at.
    """

    enough: float
    epsilon: Callable[[float, float], search.Answer]
    lines: Callable[[float], Iterator[tuple[str, ContourRule, Saddle]]] | None = None
    most: int = LINES


def _worth(total: SumOfLosses) -> float:
    """The relative width from which further lines, rungs or bounds of so many laws cost more than they give."""
    more = total.laws - len(total.summands)
    return search.NARROW if more == 0 else ROUGH if more < MANY else LOOSE


def _methods(total: SumOfLosses, rtol: float) -> Iterator[Method]:
    """Every method in turn.

    Where great losses may be rare, a short line is tried before the special method. The width asked for only ends the turns,
    so that what is proved of a lesser width lies inside what is proved of a greater one.
    """
    width = _worth(total)
    enough = max(width, rtol)
    special = total.ladder
    if total.has_closed_form:
        yield Method(1e-13, partial(by_closed_form, total))
        return
    if special is not None:
        yield Method(enough, partial(search.by_short_line, total), partial(_short_line, total, width), SPECIAL_LINES)
        yield Method(enough, partial(special.epsilon, total), partial(special.lines, total), SPECIAL_LINES)
    levels = (search.NARROW,) if special is not None else (ROUGH, search.NARROW)
    yield Method(enough, partial(search.by_line, total, rtol=rtol), partial(_lines, total, rtol, levels))
    for wider, level in zip((search.NARROW, *FURTHER), FURTHER, strict=False):
        if rtol < wider:
            yield Method(max(level, rtol), partial(search.by_line, total, rtol=rtol, levels=(level,)))


def _short_line(total: SumOfLosses, width: float, eps: float) -> Iterator[tuple[str, ContourRule, Saddle]]:
    at, line = search.short_line(total, Saddle.for_eps(total, eps))
    low, high = line.delta(np.array([at.eps]))
    if not high[0] - low[0] <= width * high[0]:
        raise NoCertificateError
    yield search.CONTOUR, line, at


def _lines(
    total: SumOfLosses, rtol: float, levels: tuple[float, ...], eps: float
) -> Iterator[tuple[str, ContourRule, Saddle]]:
    at, line = Saddle.for_eps(total, eps), None
    for name, line in search.lines_at(total, at, rtol, levels):
        yield name, line, at
    part, great = (
        apart(total, eps, search.RARE * math.exp(at.log_delta)) if line is None or line.smooth else (total, NONE)
    )
    if part is not total:
        at = Saddle.for_eps(part, eps)
        for name, line in search.lines_at(part, at, rtol, levels):
            yield name, great.beside(line), at


def epsilon(total: SumOfLosses, low_delta: float, high_delta: float, rtol: float = search.NARROW) -> search.Answer:
    """Certified eps of a delta known to an interval: the least eps >= 0 with delta(eps) <= it.

    Args:
        total: The sum.
        low_delta: At most delta.
        high_delta: At least delta.
        rtol: The relative width wanted, which a longer line pays for; not a promise.
    """
    total.forget()
    inf_low, inf_high = total.infinity
    if inf_low > high_delta:
        return search.Answer(math.inf, math.inf, search.CLOSED)
    # the finite part must pay (delta - inf)/(1 - inf), decreasing in inf: outward, a high one for the upper eps
    high_target = (
        math.nextafter((low_delta - inf_high) / (1 - inf_high) * (1 - 8 * U), 0.0) if inf_high < low_delta else 0.0
    )
    low_target = min(math.nextafter((high_delta - inf_low) / (1 - inf_low) * (1 + 8 * U), math.inf), 1.0)
    # delta(0) is the total variation, and that of a product is at most the sum
    if high_target > 0 and sum([part.variation for part in total.summands]) * (1 + 1e-12) <= high_target:
        return search.Answer(0.0, 0.0, search.CLOSED)
    # delta(eps) >= mass (1 - e^{eps - loss}), so eps(delta) >= loss + log(1 - delta/mass), at the least that the loss may be
    loss, mass, least = total.top
    upper = loss if high_target > 0 else math.inf  # the infinite loss may be the whole delta, or more
    lower = -math.inf
    if low_target < mass:
        fall = math.log1p(-low_target / mass) * (1 + 1e-12)
        lower = least + fall - 4 * U * (abs(least) + abs(fall))
    if 0 < high_target < LITTLE * mass:
        upper = _near_top(total, high_target)
    result = search.Answer(max(lower, 0.0), upper, search.CLOSED if search.narrow(lower, upper) else search.FLOOR)
    if high_target > 0:
        for method in _methods(total, rtol):
            if search.narrow(result.lower, result.upper, method.enough):
                if search.narrow(result.lower, result.upper, rtol):
                    break
                continue
            with contextlib.suppress(*search.NO_LINE):
                result = search.common(result, method.epsilon(low_target, high_target))
        if not (total.has_closed_form or search.narrow(result.lower, result.upper, max(rtol, _worth(total)))):
            upper = min(upper, chernoff.epsilon_above(total.coarser.log_mgf_above, high_target))
    result = result._replace(upper=ordered(result.lower, max(min(upper, result.upper), 0.0)))
    unknown = result.lower <= 0 and result.upper > 1 and not total.has_closed_form  # of which a side may say nothing
    if unknown and high_delta < UNKNOWN:  # a greater delta has no greater epsilon
        return result._replace(lower=max(epsilon(total, 1e3 * low_delta, 1e3 * high_delta, rtol).lower, 0.0))
    return result


def _near_top(total: SumOfLosses, target: float) -> float:
    """An upper end of eps from the greatest loss alone (K18), for a delta well below its mass."""
    loss, mass, _ = total.top
    tilt = min(mass / target - 1, STEEPEST)
    while not math.isfinite(k := total.log_mgf_above(tilt)) and tilt > 1:
        tilt /= 4
    # no less than the mass: the bound on a great loss may be so far above it that the tilt would not be allowed
    above = max(mass, math.exp(min(0.0, k - tilt * loss + 4 * U * (abs(k) + tilt * loss))))
    return loss + math.log1p(-target / above) * (1 - 1e-12) + 4 * U * loss


@dataclass(frozen=True)
class _Kept:
    """A line kept for the next question, with the relative width it gave at its own saddle."""

    name: str
    line: ContourRule
    at: Saddle
    quality: float


Lines = dict[SumOfLosses, list[_Kept]]


@dataclass(frozen=True)
class _Deltas:
    """What is proved of delta at each eps, by which method, and where it is not enough yet."""

    eps: FloatArray
    lower: FloatArray
    upper: FloatArray
    method: Names
    wide: Booleans

    def narrow_by(self, kept: _Kept) -> IntArray:
        """Ask a line at the eps within three deviations of its own, and return their places."""
        at = kept.at
        near = np.flatnonzero(self.wide & (np.abs(self.eps - at.eps) < 3 * at.deviation + 2 / (1 + at.tilt)))
        rows = max(FEWEST, BLOCK // kept.line.nodes)
        for start in range(0, len(near), rows):
            some = near[start : start + rows]
            low, high = kept.line.delta(self.eps[some])
            self.method[some[high - low < self.upper[some] - self.lower[some]]] = kept.name
            self.lower[some], self.upper[some] = np.maximum(self.lower[some], low), np.minimum(self.upper[some], high)
        close = np.abs(self.eps - at.eps) < at.deviation  # further off a line of its own may do better
        self.wide[near] = self.wider(8 * np.where(close, kept.quality, FINE))[near]
        return near

    def wider(self, width: float | FloatArray) -> Booleans:
        """Where the bounds are further apart than this, relative to the upper one."""
        return self.upper - self.lower > width * self.upper


@np.errstate(all="ignore")
def delta(
    total: SumOfLosses, eps: FloatArray, rtol: float = search.NARROW, lines: Lines | None = None
) -> tuple[FloatArray, FloatArray, Names]:
    """Bounds on delta at each eps and the method's name for each; lines are shared by the eps near their saddles.

    Args:
        total: The sum.
        eps: Finite, (n,).
        rtol: The relative width in eps worth a longer line, no less than the usual one. Every level down to it is
            asked, so that the answer for a lesser width lies inside that for a greater one.
        lines: Those of the same question so far, kept here for its next epsilons. A question has its own: no answer
            depends on what was asked before.
    """
    total.forget()
    exact = closed_form(total, eps)
    if exact is not None:
        return *with_infinity(total, *exact), np.full(len(eps), search.CLOSED)
    wide = eps < total.top.loss
    lower, upper, method = np.zeros(len(eps)), np.where(wide, 1.0, 0.0), np.where(wide, search.FLOOR, search.CLOSED)
    # delta >= 1 - e^eps for every pair, and Q has at most 1/P(L < inf) times as much mass given a finite loss
    revealed = total.infinity[1]
    if revealed < 1:
        grown = np.exp(np.minimum(eps, 0.0)) * (revealed / (1 - revealed)) * (1 + 8 * U)
        lower = np.where(wide, np.maximum(-np.expm1(np.minimum(eps, 0.0)) * (1 - 1e-15) - grown, 0.0), 0.0)
    result = _Deltas(eps, lower, upper, method, wide)
    kept = [] if lines is None else lines.setdefault(total, [])
    for one in kept:
        result.narrow_by(one)
    ranked = np.argsort(eps)
    # what the coarsest line of a method leaves open decides what else is asked, at every width alike
    enough = OPEN if _worth(total) < LOOSE else LOOSE
    loose, poor = result.wider(enough), np.zeros(len(eps), dtype=bool)
    for candidate in _methods(total, rtol):
        if candidate.lines is None:
            continue
        wide[:] = wide | loose  # what the last method calls its best may be poor
        left = result.wide.copy()
        for _ in range(candidate.most):
            left &= result.wide
            places = ranked[left[ranked]]
            if not len(places):
                break
            centre = places[len(places) // 2]
            left[centre] = False
            with contextlib.suppress(*search.NO_LINE):
                before = result.wide.copy()
                for finer, (name, line, at) in enumerate(candidate.lines(float(eps[centre]))):
                    low, high = line.delta(np.array([at.eps]))
                    quality = max(float((high[0] - low[0]) / max(high[0], 1e-300)), FINE)
                    one = _Kept(name, line, at, quality)
                    if quality < LOOSE:  # a poor line would say of the next epsilons that no other is better
                        kept[:] = [one, *kept][:KEPT]
                    result.wide[:] = before  # a finer line narrows what a coarser one has
                    near = result.narrow_by(one)
                    if not finer:
                        loose[near] = result.wider(enough)[near]
                        poor[near] |= result.wider(0.5)[near]
    rest = (method == search.FLOOR) | poor | result.wider(0.5)
    if np.any(rest):
        upper[rest] = np.minimum(upper[rest], chernoff.delta_above(total.coarser.log_mgf_above, eps[rest]))
    # what underflows is not 0: that would be a promise of pure privacy
    upper = np.maximum(upper, np.where(eps < total.top.loss, math.ulp(0.0), lower))
    ordered(float(np.max(lower - upper, initial=0.0)), 0.0)
    return *with_infinity(total, lower, upper), method


def with_infinity(total: SumOfLosses, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inf + (1 - inf) delta, increasing in both; three rounded operations outward.

    Args:
        total: The sum, which knows inf.
        lower: Lower bounds on the finite part, (n,).
        upper: Upper bounds on it.
    """
    low, high = total.infinity
    step = 4 * np.finfo(float).eps
    return (low + (1 - low) * lower) * (1 - step), np.minimum((high + (1 - high) * upper) * (1 + step), 1.0)


SHARES, ROUNDS = np.arange(1, 32) / 32, 14  # of a bracket, places asked at once; 32^14 = 2^70


def closed_form(total: SumOfLosses, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """The closed form of the finite part, if the sum is one summand that has it.

    Args:
        total: The sum.
        eps: Finite, (n,).
    """
    result = total.summands[0].delta(eps) if len(total.summands) == 1 else None
    if result is None:
        return None
    beyond = eps >= total.top.loss
    return np.where(beyond, 0.0, result[0]), np.where(beyond, 0.0, result[1])


def by_closed_form(total: SumOfLosses, low_target: float, high_target: float) -> search.Answer:
    """A root or a bisection between two eps that bracket, then the certified ends.

    Args:
        total: A sum whose delta is a formula.
        low_target: Delta at the lower end is at least this.
        high_target: Delta at the upper end is at most this.
    """
    formula = total.summands[0].inverse(high_target, low_target)
    if formula is not None:
        return search.Answer(*formula, search.CLOSED)

    def bounds(eps: FloatArray) -> Bounds:
        result = closed_form(total, eps)
        if result is None:
            raise NoCertificateError
        return result

    guess = total.summands[0].root(high_target)
    if guess is not None:
        lower, upper = search.ends(bounds, *guess, low_target, high_target)
        if math.isfinite(lower) and math.isfinite(upper):
            return search.Answer(lower, upper, search.CLOSED)

    def more(eps: FloatArray | float) -> Booleans:
        return bounds(np.atleast_1d(eps))[0] >= low_target

    def not_less(eps: FloatArray | float) -> Booleans:
        return ~(bounds(np.atleast_1d(eps))[1] <= high_target)

    low, high = -1.0, 1.0
    while not_less(high) and high < 1e12:
        low, high = high, 2 * high
    while not more(low) and low > -1e3:
        low = low / 2 if low > 1 else min(-1.0, 2 * low)
    # ends are proved where they were found: asked again, alone, their last digits may differ
    lower, upper = _last(low, high, more)[0], math.inf if not_less(high) else _last(low, high, not_less)[1]
    return search.Answer(lower, upper, search.CLOSED)


def _last(low: float, high: float, holds: Callable[[FloatArray], Booleans]) -> tuple[float, float]:
    """Neighbouring floats or nearly, the first of which holds and the second not.

    Args:
        low: Where it holds.
        high: Where it does not.
        holds: Whether it does at each eps.
    """
    for _ in range(ROUNDS):
        places = np.append(low + (high - low) * SHARES, high)
        first = int(np.argmin(np.append(holds(places[:-1]), False)))  # that does not hold
        low, high = float(np.append(low, places)[first]), float(places[first])
    return low, high
