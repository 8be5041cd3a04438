"""Certified lines: which kernel at which saddle, and the narrowest answer of a few of them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

from neartwin.losses.inversion import contour, lattice, saddle
from neartwin.losses.inversion.answer import CONTOUR, FINE, LATTICE, NARROW, NO_LINE, WIDE, Answer, common, narrow
from neartwin.losses.inversion.root import ContourRule, invert
from neartwin.losses.inversion.saddle import Saddle
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.rounding import NoCertificateError

RESOLUTIONS = (0.2, 0.4, 0.7, 0.9)  # shares of the width aimed at that smooth kernels try
LEVELS = (1e-3, 1e-6, NARROW)  # relative widths that smooth kernels aim at in turn, whatever is asked for
FURTHER = (1e-9, 1e-10, 1e-11, 1e-12)  # and then, where that was not narrow enough
COARSER = (3e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # relative widths that remain when no route did better
TRIES = 3  # lines built for one question
REPEATS = 2  # of them at a tilt tried before
FAR = 0.05  # how far off a guess of eps may be
NEARER = (1.0, 0.6, 0.3, 0.1)  # lines tried for one eps, as shares of the saddle's tilt
BLUR, SLIGHT = 0.05, 5e-4  # of delta's logarithm, what smooth kernels of a level may blur; where delta itself is asked
BRIEF = 0.26  # of the usual budget, for a line that may be asked in vain
FINER = 0.02  # share of the last level that a next line may aim at
Build = Callable[[SumOfLosses, Saddle, float], tuple[str, ContourRule]]


def line_at(total: SumOfLosses, at: Saddle, rtol: float = NARROW) -> tuple[str, ContourRule]:
    """A certified line at this saddle, as narrow in eps as asked."""
    if total.lattice is not None:
        with contextlib.suppress(NoCertificateError):
            return LATTICE, lattice.build(total, at)
    try:
        return CONTOUR, contour.build(total, at, 0.0)
    except NoCertificateError:
        pass
    return smooth_line_at(total, at, rtol)


def lattice_line_at(total: SumOfLosses, at: Saddle, rtol: float = NARROW) -> tuple[str, ContourRule]:
    """For finite laws of many atoms, which no contour resolves at a fair price."""
    del rtol
    return LATTICE, lattice.build(total, at)


def smooth_line_at(total: SumOfLosses, at: Saddle, rtol: float = NARROW) -> tuple[str, ContourRule]:
    """The last of these, where nothing else is known to be affordable."""
    return _smooth(total, at, tuple(share * rtol for share in RESOLUTIONS))


def wide_line_at(total: SumOfLosses, at: Saddle, rtol: float = NARROW) -> tuple[str, ContourRule]:
    """A certified line at this saddle, at whatever width is affordable."""
    del rtol
    return _smooth(total, at, COARSER)


def _resolved(at: Saddle, levels: tuple[float, ...], blur: float = BLUR) -> tuple[float, ...]:
    """Those of which smooth kernels are no wider than what they look at, and all from the usual one."""
    return tuple(level for level in levels if level <= NARROW or level * abs(at.eps) * at.tilt <= blur)


def lines_at(
    total: SumOfLosses, at: Saddle, rtol: float, levels: tuple[float, ...]
) -> Iterator[tuple[str, ContourRule]]:
    """Certified lines at this saddle: one alone where width is no matter, else smooth ones of each level; a wide one if none.

    Levels end with the first that is no wider than asked for.
    """
    found, last = None, math.inf
    for level in _resolved(at, levels, SLIGHT):
        if last <= rtol:
            break
        try:
            found, last = (line_at if found is None else smooth_line_at)(total, at, level), level
        except NoCertificateError:
            break
        yield found
        if not isinstance(found[1], contour.Contour) or found[1].dip is None:
            break
    if found is None:
        yield wide_line_at(total, at)


def _smooth(total: SumOfLosses, at: Saddle, resolutions: tuple[float, ...]) -> tuple[str, ContourRule]:
    """The first smooth kernels that are affordable; the two of a pair are gamma^2 (tilt + 1) apart in eps."""
    eps = max(abs(at.eps), 1e-2 * at.deviation)
    for resolution in resolutions:
        tolerance = min(max(1e-2 * resolution * at.tilt * eps, contour.TOLERANCE), 1e-6)
        try:
            return CONTOUR, contour.build(total, at, math.sqrt(resolution * eps / (at.tilt + 1)), tolerance=tolerance)
        except NoCertificateError:
            continue
    raise NoCertificateError


def by_line(
    total: SumOfLosses,
    low_target: float,
    high_target: float,
    *,
    rtol: float = NARROW,
    tries: int = TRIES,
    build: Build = line_at,
    levels: tuple[float, ...] = LEVELS,
) -> Answer:
    """What a few lines prove together; most questions stop at the first.

    Where the first guess of eps was poor, so were the period and the cut; the same line is then built again. Smooth kernels aim
    at the levels in turn, each cheap beside the next; where the last gave less (an atom within their width weighs more than a
    density), finer ones are asked for. rtol: the relative width at which to stop. It decides nothing else, so that what is
    proved of a lesser width lies inside what is proved of a greater one.
    """
    best: Answer | None = None
    at, factor, repeats, left = saddle.for_delta(total, high_target), 0, 0, tries
    (aim, *ahead), least, look = _resolved(at, levels), levels[-1], build
    while factor < len(NEARER) and left > 0:
        here = at.lower(total, NEARER[factor]) if factor else at
        try:
            name, line = look(total, here, aim)
            found, middle = _at_line(name, line, here, (low_target, high_target), rtol)
        except NO_LINE:
            factor, look = factor + (look is build), build
            continue
        best = found if best is None else common(best, found)
        if narrow(best.lower, best.upper, rtol):
            break
        smooth = found.errors.get("smoothing", 0.0) > 0
        if smooth and ahead:
            eps = middle if narrow(found.lower, found.upper, FAR) else at.eps
            aim, at, look = ahead.pop(0), here._replace(eps=eps), smooth_line_at
            factor = 0
            continue
        look = build
        left -= 1
        if smooth and found.upper < math.inf:
            aim *= min(max(0.25 * least * found.upper / (found.upper - found.lower), FINER), 1.0)
        left = min(left, 1) if best.upper - best.lower <= FINE * best.upper else left
        again = (aim < least or abs(middle - at.eps) > FAR * abs(middle)) and repeats < REPEATS
        at, factor, repeats = at._replace(eps=middle), factor + (not again), repeats + again
    if best is None or not math.isfinite(best.upper):
        raise NoCertificateError
    if left == tries and build is line_at and not narrow(best.lower, best.upper, rtol):  # the last level was never met
        with contextlib.suppress(*NO_LINE):
            _, line = _smooth(total, at, tuple(w for w in COARSER if least < w * best.upper < best.upper - best.lower))
            best = common(best, _at_line(CONTOUR, line, at, (low_target, high_target), rtol)[0])
    return best


def at_once(total: SumOfLosses, low_target: float, high_target: float) -> Answer:
    """What one plain and rather short line proves."""
    at = saddle.for_delta(total, high_target)
    line = contour.build(total, at, 0.0, share=BRIEF)
    return _at_line(CONTOUR, line, at, (low_target, high_target), NARROW)[0]


def _at_line(
    name: str, line: ContourRule, at: Saddle, targets: tuple[float, float], rtol: float
) -> tuple[Answer, float]:
    """The answer of one line, and where it believes eps to be."""
    (lower, upper, errors), middle, slope = invert(line, at, *targets)
    name = WIDE if name == CONTOUR and not narrow(lower, upper, max(rtol, NARROW)) else name
    slope = slope if math.isfinite(lower) and math.isfinite(upper) else at.tilt
    return Answer(lower, upper, name, errors, slope), middle if math.isfinite(middle) else at.eps
