"""Where a contour meets a delta: certified ends by Newton's method, and the narrowest answer of a few contours.

A contour at any tilt gives a valid interval. The first guess of epsilon decides how narrow it is. A poor guess is
mended by the contour itself, which is then built again at its own estimate.

**Great losses told apart (K17).** A run that has one sums to more than eps, nearly for sure, and adds what it weighs to delta.
Left in a line they make a second hump: there a mass p weighs p e^{tilt l}, and no tilt suits both.
"""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion import contour, lattice
from neartwin.losses.inversion.contour import Bounds, ContourRule
from neartwin.losses.inversion.total import Saddle, SumOfLosses
from neartwin.losses.summands.atoms import AtomicSum, Weighted, together
from neartwin.losses.summands.rounding import ELEMENTARY, NoCertificateError, U, gamma

CLOSED, LATTICE, CONTOUR, WIDE, FLOOR = "closed form", "lattice", "contour", "wide contour", "Chernoff floor"
NARROW = 1e-8  # relative width in eps that a contour promises; a wider answer is named so
NO_LINE = (NoCertificateError, OverflowError, ZeroDivisionError)  # what leaves the range of floats proves nothing
FINE = 1e-4  # relative width from which one more line is enough
WIDTHS = np.array([1e-14, 1e-13, 1e-12, 1e-11])  # relative half-widths that lines often reach
TIGHT = 16  # one of them so much wider than the line's own error is taken
RESOLUTIONS = (0.2, 0.4, 0.7, 0.9)  # shares of the width aimed at that smooth kernels try
LEVELS = (1e-3, 1e-6, NARROW)  # relative widths that smooth kernels aim at in turn, whatever is asked for
COARSER = (3e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # relative widths that remain when no method did better
TRIES, REPEATS = 3, 2  # lines built for one question, and of them at a tilt tried before
FAR = 0.05  # how far off a guess of eps may be
LONGER, PROMISED, LOST = 4, 1e-6, 1e-3  # times as long may a last line of finite laws be, between two widths
NEARER = (1.0, 0.6, 0.3, 0.1)  # lines tried for one eps, as shares of the saddle's tilt
BLUR, SLIGHT = 0.05, 5e-4  # of delta's logarithm, what smooth kernels of a level may blur; where delta itself is asked
RARE = 1e-14  # of delta: great losses that no line needs, and that would leave a second hump at its saddle (K17)
FAINT = -100.0  # of log delta
BRIEF = 0.04  # of the usual budget for each law, for a line that may fail
FINER = 0.02  # share of the last level that a next line may aim at
ORDERS = np.geomspace(1.0, 1e6, 24)  # u of the bound on runs that sum to less than eps all the same


def _masses(law: Weighted, cut: float) -> tuple[float, float, float]:
    """P and Q of a loss of `cut` or more, and the relative error of both."""
    great = law.losses >= cut
    own, *_, moved = law.errors[:, great]
    other = float(np.exp(law.log_masses[great] - law.losses[great]).sum())
    return float(law.masses[great].sum()), other, float((own + moved).max(initial=0.0)) + gamma(len(own)) + ELEMENTARY


def _without(law: Weighted, cut: float) -> Weighted:
    """The law of a loss that is less than `cut`."""
    share, _, error = _masses(law, cut)
    some, log = law.losses < cut, math.log1p(-share)
    moved = U * np.abs(law.log_masses) + (2 * error + ELEMENTARY) * share / (1 - share)
    return Weighted(law.losses[some], law.log_masses[some] - log, (law.mass_error + moved)[some], law.loss_error[some])


@dataclass(frozen=True)
class GreatLosses:
    """The runs of which some use has a loss of `cut` or more.

    Attributes:
        cut: The least great loss; infinite where none is told apart.
        mass: Bounds on the probability of such a run.
        other: Bounds on E[e^{-S}] over such runs.
        below: For each order u the logarithm of a bound on E[e^{-uS}] over them, (orders,).
    """

    cut: float
    mass: tuple[float, float]
    other: tuple[float, float]
    below: FloatArray

    @classmethod
    @np.errstate(divide="ignore")
    def of(cls, laws: list[Weighted], counts: FloatArray, cut: float, known: FloatArray | None) -> GreatLosses:
        """Those of one cut.

        Args:
            laws: The laws of one use.
            counts: The uses of each.
            cut: The least great loss.
            known: K of all uses of a law at minus each order, and its error, (2, orders, laws); None where other losses are
                added.
        """
        shares, others, errors = np.array([_masses(law, cut) for law in laws]).T
        slack = 64 * U + 2 * float(errors.max())
        most = -math.expm1(float(counts @ np.log1p(-np.minimum(shares, 1 - U))))
        mass = most * (1 - slack), min(most * (1 + slack), 1.0)
        if known is None:
            return cls(cut, mass, (0.0, math.inf), ORDERS + math.inf)
        one, error = known.swapaxes(1, 2) / counts[:, None]
        slack += 2 * float(error[:, 0].max())
        whole, far = counts @ one, 1.01 * counts @ (error + (len(laws) + 8) * U * np.abs(one))
        rest = -math.expm1(float(counts @ np.log1p(-np.minimum(others * np.exp(-one[:, 0]), 1 - U))))
        other = (rest * math.exp(whole[0] - far[0]) * (1 - slack), rest * math.exp(whole[0] + far[0]) * (1 + slack))
        log = np.logaddexp.reduce(np.log(counts * shares)[:, None] + error - one, axis=0)
        far = far + slack + 16 * U * (np.abs(log) + ORDERS * abs(cut))
        return cls(cut, mass, other, log + whole + far - ORDERS * cut)

    def fallen(self, eps: FloatArray) -> FloatArray:
        """The most that E[(e^{eps - S} - 1)_+] may be over such runs: the rest R of (K17), at each eps."""
        logs = np.multiply.outer(eps, ORDERS)
        logs = logs + self.below + 8 * U * (np.abs(logs) + np.abs(self.below))
        return np.asarray(np.exp(np.minimum(logs.min(axis=-1), 709.0)))  # or so much more than all runs weigh

    def bounds(self, eps: FloatArray) -> Bounds:
        """Bounds on what such runs add to delta at each eps."""
        grown = np.exp(np.minimum(eps, 700.0))
        low, high = self.mass[0] - grown * self.other[1], self.mass[1] - grown * self.other[0] + self.fallen(eps)
        return np.maximum(low, 0.0), np.clip(high, 0.0, self.mass[1])

    def beside(self, line: ContourRule) -> ContourRule:
        """The line of all other runs with what these add."""
        return line if self.mass[1] == 0 else Beside(line, self)


NONE = GreatLosses(math.inf, (0.0, 0.0), (0.0, 0.0), 0 * ORDERS)


@dataclass(frozen=True)
class Beside(ContourRule):
    """A line of the sum without great losses, and the runs that have them."""

    line: ContourRule
    great: GreatLosses

    @property
    def nodes(self) -> int:
        """Those of the line."""
        return self.line.nodes

    def bounds(self, eps: FloatArray) -> Bounds:
        """Both together."""
        (low, high), (least, most), (few, many) = self.line.bounds(eps), self.great.bounds(eps), self.great.mass
        return (low * (1 - many) + least) * (1 - 8 * U), np.minimum((high * (1 - few) + most) * (1 + 8 * U), 1.0)

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """Both together."""
        value, fall = self.line.point_estimate(eps)
        mass, grown = self.great.mass[0], math.exp(min(eps, 700.0)) * self.great.other[0]
        return (1 - mass) * value + max(mass - grown, 0.0), (1 - mass) * fall + grown


@dataclass(frozen=True)
class Runs(ContourRule):
    """In place of a line the sum over runs, where those without great losses are few (K19)."""

    law: AtomicSum

    def bounds(self, eps: FloatArray) -> Bounds:
        """The sum."""
        return cast("Bounds", self.law.delta(eps))

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """P - e^eps Q of all greater losses, and e^eps Q."""
        gap = eps - self.law.weighted.losses
        masses = self.law.weighted.masses * (gap < 0)
        other = float(masses @ np.exp(np.minimum(gap, 0.0)))
        return float(masses.sum()) - other, other


def apart(total: SumOfLosses, eps: float, most: float) -> tuple[SumOfLosses, GreatLosses]:
    """The sum given that no use has a great loss, and the runs of which one has; as many as their bounds allow.

    Args:
        total: The sum.
        eps: Where it is asked, or more.
        most: How far the bounds may be apart.
    """
    # a law on a lattice of its own makes no short line longer, which is all that a first look is for
    finite = [part for part in total.summands if part.atoms is not None and (part.lattice is None or eps < math.inf)]
    if not finite or total.lattice is not None:
        return total, NONE
    laws, counts = [part.atoms[0] for part in finite], np.array([float(part.atoms[1]) for part in finite])
    alone = eps < math.inf and len(laws) == len(total.summands)
    known = np.array([[part.log_mgf(-u) for u in ORDERS.tolist()] for part in finite]).T if alone else None
    places = np.unique(np.concatenate([law.losses for law in laws]))
    places = places[places > max(float(law.losses.min()) for law in laws)]  # some loss of each law is less

    def slight(cut: float) -> bool:
        great = GreatLosses.of(laws, counts, cut, known)
        return great.mass[1] <= most or float(great.fallen(np.array([eps]))[0]) <= most

    first = bisect_left(places, True, key=slight)
    if first == len(places):
        return total, NONE
    cut = float(places[first])
    parts = [AtomicSum(_without(one.atoms[0], cut), one.atoms[1]) if one in finite else one for one in total.summands]
    return SumOfLosses(parts), GreatLosses.of(laws, counts, cut, known)


class Answer(NamedTuple):
    """Certified ends of epsilon, and the method that gave them.

    Attributes:
        lower: At most the true epsilon.
        upper: At least the true epsilon.
        method: The name of the method.
        slope: About -d log delta / d epsilon there, where a line was asked.
    """

    lower: float
    upper: float
    method: str
    slope: float = math.nan


def narrow(lower: float, upper: float, enough: float = NARROW) -> bool:
    """Whether the ends are relatively so close.

    Args:
        lower: The lower end.
        upper: The upper end.
        enough: The relative width.
    """
    return math.isfinite(upper) and (upper - max(lower, 0.0) <= enough * upper or upper <= 0)


def common(one: Answer, other: Answer) -> Answer:
    """The intersection of two answers, by the name of the narrower.

    Args:
        one: An answer.
        other: Another answer to the same question.
    """
    first, second = sorted((one, other), key=lambda answer: answer.upper - max(answer.lower, 0.0))
    slope = first.slope if math.isfinite(first.slope) else second.slope
    lower, upper = max(one.lower, other.lower), min(one.upper, other.upper)
    return Answer(lower, upper, CONTOUR if first.method == WIDE and narrow(lower, upper) else first.method, slope)


class Ends(NamedTuple):
    """The largest eps with a proved delta >= the low target, the least with a proved delta <= the high one."""

    lower: float
    upper: float


def invert(
    line: ContourRule, at: Saddle, low_target: float, high_target: float, *, name: str = CONTOUR, enough: float = NARROW
) -> tuple[Answer, float]:
    """The answer of one line, and where it believes eps to be.

    Newton inside a bracket finds where the estimate of delta is the target. The ends around it are evaluated and so
    proved.

    Args:
        line: The line.
        at: The saddle that it was built at.
        low_target: Delta at the lower end is at least this.
        high_target: Delta at the upper end is at most this.
        name: The method; a contour that is wider than promised is named so.
        enough: The relative width wanted, if that is more than a contour promises.
    """
    log_target = 0.5 * (math.log(low_target) + math.log(high_target))
    e, slope, low, high = at.eps, at.tilt, -math.inf, math.inf
    reach = 2 * at.deviation + 1 / at.tilt
    for _ in range(40):
        value, fall = line.point_estimate(e)
        sound = value > 0 and fall > 0 and math.isfinite(value)
        gap = math.log(value) - log_target if sound else -1.0
        low, high = (e, high) if gap > 0 else (low, e)
        slope = fall / value if sound else slope
        # a cut that swallows this delta grows like e^{-tilt e} to the left: far from here it swallows more
        move = max(-reach, min(reach, gap / slope)) if sound else -1 / at.tilt
        move = -reach if gap < -1 and move > -1e-9 * reach else move  # at the end of what great losses add
        move = -e if move < -e < 0 else move  # nothing below 0 is asked for, and a line may say nothing there
        settled = abs(move) <= 1e-13 * (abs(e) + 1e-3)
        if not settled and not low < e + move < high and math.isfinite(low) and math.isfinite(high):
            move = 0.5 * (low + high) - e
        e += move
        if settled:
            break
    lower, upper = ends(line.bounds, e, slope, low_target, high_target)
    name = WIDE if name == CONTOUR and not narrow(lower, upper, max(enough, NARROW)) else name
    slope = slope if math.isfinite(lower) and math.isfinite(upper) else at.tilt
    return Answer(lower, upper, name, slope), e if math.isfinite(e) else at.eps


def ends(bounds: Callable[[FloatArray], Bounds], e: float, slope: float, low_target: float, high_target: float) -> Ends:
    """The certified ends around an estimate of eps.

    It looks once at a few widths that are common. Where none fits or the line can do much better, it doubles the width
    of the line's own error.

    Args:
        bounds: Those of a line.
        e: The estimate.
        slope: About -d log delta / d eps there.
        low_target: Delta at the lower end is at least this.
        high_target: Delta at the upper end is at most this.
    """
    widths = WIDTHS * (abs(e) + 1e-3)
    low, high = bounds(np.concatenate([e - widths, e + widths, [e]]))
    least, most = (float(low[-1]), float(high[-1])) if high[-1] >= low[-1] else (0.0, 1.0)  # NaN: far from its saddle
    start = 0.6 * (most - least) / (max(most, 1e-300) * slope) + 2e-16 * abs(e) + 1e-300
    tried = len(WIDTHS)
    holds = (low[:tried] >= low_target) & (high[tried:-1] <= high_target)
    j = int(np.argmax(holds))
    if holds[j] and widths[j] <= TIGHT * start:
        return Ends(e - float(widths[j]), e + float(widths[j]))
    lower, upper, width = -math.inf, math.inf, start
    for _ in range(60):
        low, high = bounds(np.array([e - width, e + width]))
        lower = e - width if not math.isfinite(lower) and low[0] >= low_target else lower
        upper = e + width if not math.isfinite(upper) and high[1] <= high_target else upper
        if math.isfinite(lower) and math.isfinite(upper):
            break
        width *= 2
    return Ends(lower, upper)


def line_at(total: SumOfLosses, at: Saddle, rtol: float) -> tuple[str, ContourRule]:
    """A certified line at this saddle, as narrow in eps as asked: on the lattice, plain, or smooth; of few runs their sum.

    Args:
        total: The sum.
        at: The saddle.
        rtol: The relative width.
    """
    if total.lattice is None and (few := together(total.summands)) is not None:
        return CLOSED, Runs(few)
    if total.lattice is not None:
        with contextlib.suppress(NoCertificateError):
            return LATTICE, lattice.build(total, at)
    try:
        return CONTOUR, contour.build(total, at, 0.0)
    except NoCertificateError:
        return smooth_line_at(total, at, rtol)


def smooth_line_at(total: SumOfLosses, at: Saddle, rtol: float) -> tuple[str, ContourRule]:
    """A line with smooth kernels, where nothing else is affordable.

    Args:
        total: The sum.
        at: The saddle.
        rtol: The relative width.
    """
    return smooth_line(total, at, tuple(share * rtol for share in RESOLUTIONS))


def lines_at(
    total: SumOfLosses, at: Saddle, rtol: float, levels: tuple[float, ...]
) -> Iterator[tuple[str, ContourRule]]:
    """Certified lines at this saddle, from coarse to fine.

    It is one line alone where width is no matter, else smooth ones of each level, and a wide one if none is affordable.
    There is none at all for a delta so small that a wide line says no more than Chernoff's bound.

    Args:
        total: The sum.
        at: The saddle.
        rtol: The relative width wanted.
        levels: Relative widths; the first that is no wider than wanted is the last taken.
    """
    result, last = None, math.inf
    for level in levels:
        if level > NARROW and level * abs(at.eps) * at.tilt > SLIGHT:
            continue
        if last <= rtol:
            break
        try:
            result, last = (line_at if result is None else smooth_line_at)(total, at, level), level
        except NoCertificateError:
            break
        yield result
        if not result[1].smooth:
            break
    if result is None and at.log_delta > FAINT:
        yield smooth_line(total, at, COARSER)


def smooth_line(
    total: SumOfLosses, at: Saddle, resolutions: Sequence[float], *, budget: float = 1
) -> tuple[str, ContourRule]:
    """The first smooth kernels that are affordable; the two of a pair are gamma^2 (tilt + 1) apart in eps.

    Args:
        total: The sum.
        at: The saddle.
        resolutions: Relative widths in eps, tried in turn.
        budget: How many times the usual one a line may take.
    """
    eps = max(abs(at.eps), 1e-2 * at.deviation)
    for resolution in resolutions:
        tolerance = min(max(1e-2 * resolution * at.tilt * eps, contour.TOLERANCE), 1e-6)
        with contextlib.suppress(NoCertificateError):
            width = math.sqrt(resolution * eps / (at.tilt + 1))
            return CONTOUR, contour.build(total, at, width, tolerance=tolerance, share=budget)
    raise NoCertificateError


def by_line(
    whole: SumOfLosses,
    low_target: float,
    high_target: float,
    *,
    rtol: float = NARROW,
    levels: Sequence[float] = LEVELS,
    parted: tuple[SumOfLosses, GreatLosses] | None = None,
) -> Answer:
    """The intersection of a few lines' answers; most questions stop at the first.

    Where the first guess of eps was poor, so were the period and the cut. The line is then built again. Smooth kernels
    aim at the levels in turn, each cheap beside the next. An atom within their width weighs more than a density, and
    the last level then gives less. Finer ones are asked for. Where none was met, great losses are told apart
    as far as the first line allows. Last come coarser levels, on lines nearer to 0 too.

    Args:
        whole: The sum.
        low_target: Delta at the lower end is at least this.
        high_target: Delta at the upper end is at most this.
        rtol: The relative width at which to stop. It decides nothing else, so that the answer for a lesser width lies
            inside that for a greater one.
        levels: Relative widths that smooth kernels aim at.
        parted: The result of `apart` where more is known of eps; None for a first look.

    Raises:
        NoCertificateError: No line proves an upper end.
    """
    total, great = parted or apart(whole, math.inf, RARE * high_target)
    best: Answer | None = None
    longer = all(part.atoms is not None for part in total.summands)
    at, factor, repeats, left = Saddle.for_delta(total, high_target), 0, 0, TRIES
    aim, *ahead = [level for level in levels if level <= NARROW or level * abs(at.eps) * at.tilt <= BLUR]
    least, look = levels[-1], line_at
    while factor < len(NEARER) and left > 0:
        here = at.lower(total, NEARER[factor]) if factor else at
        try:
            name, line = look(total, here, aim)
            result, middle = invert(great.beside(line), here, low_target, high_target, name=name, enough=rtol)
        except NO_LINE:
            factor, look = factor + (look is line_at), line_at
            continue
        best = result if best is None else common(best, result)
        if narrow(best.lower, best.upper, rtol):
            break
        if line.smooth and ahead:
            eps = middle if narrow(result.lower, result.upper, FAR) else at.eps
            aim, at, look, factor = ahead.pop(0), here._replace(eps=eps), smooth_line_at, 0
            continue
        look = line_at
        left -= 1
        if line.smooth and result.upper < math.inf:
            aim *= min(max(0.25 * least * result.upper / (result.upper - result.lower), FINER), 1.0)
        left = min(left, 1) if best.upper - best.lower <= FINE * best.upper else left
        again = (aim < least or abs(middle - at.eps) > FAR * abs(middle)) and repeats < REPEATS
        at, factor, repeats = at._replace(eps=middle), factor + (not again), repeats + again
    if best is not None and not narrow(best.lower, best.upper, rtol):
        parted = apart(whole, best.upper, RARE * high_target)
        if parted[1].cut < great.cut:
            longer = False  # than what is left
            with contextlib.suppress(*NO_LINE):  # which leaves what is proved
                best = common(best, by_line(whole, low_target, high_target, rtol=rtol, levels=levels, parted=parted))
    for share in NEARER:
        if best is not None and narrow(best.lower, best.upper, rtol):
            break
        with contextlib.suppress(*NO_LINE):
            width = 1 - best.lower / best.upper if best is not None and best.upper < math.inf else 1.0
            wanted, budget = [w for w in COARSER if least < w < width], 1
            if longer and share == 1 and PROMISED < width < LOST:
                wanted, budget = [*np.geomspace(aim, PROMISED, 8), *wanted], LONGER
            line = smooth_line(total, here := at.lower(total, share), wanted, budget=budget)[1]
            last = invert(great.beside(line), here, low_target, high_target, enough=rtol)[0]
            best = last if best is None else common(best, last)
    if best is None or not math.isfinite(best.upper):
        raise NoCertificateError
    return best


def short_line(total: SumOfLosses, at: Saddle) -> tuple[Saddle, ContourRule]:
    """One plain line of a part of the usual budget, and its saddle.

    Args:
        total: The sum.
        at: About the saddle.
    """
    at = at._replace(tilt=total.nearer * at.tilt)
    return at, contour.build(total, at, 0.0, share=BRIEF * total.laws)


def by_short_line(total: SumOfLosses, low_target: float, high_target: float) -> Answer:
    """The answer of one short line.

    Args:
        total: The sum.
        low_target: Delta at the lower end is at least this.
        high_target: Delta at the upper end is at most this.
    """
    at, line = short_line(total, Saddle.for_delta(total, high_target))
    return invert(line, at, low_target, high_target)[0]
