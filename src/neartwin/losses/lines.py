"""Certified lines: which kernel at which saddle, and the narrowest answer of a few of them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

from neartwin.losses import contour, draws, lattice, saddle, sampled_draws
from neartwin.losses.answer import CONTOUR, FINE, LATTICE, NARROW, NO_LINE, WIDE, Answer, narrow
from neartwin.losses.follow import follow
from neartwin.losses.inversion import Line, invert
from neartwin.losses.rounding import NoCertificateError
from neartwin.losses.saddle import Saddle
from neartwin.losses.total import Total

RESOLUTIONS = (0.2, 0.4, 0.7, 0.9)  # shares of the width asked for that smooth kernels try
COARSER = (3e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # relative widths that remain when no route did better
TRIES = 3  # lines built for one question
REPEATS = 2  # of them at a lam tried before
FAR = 0.05  # how far off a guess of eps may be
NEARER = (1.0, 0.6, 0.3, 0.1)  # lines tried for one eps, as shares of the saddle's lam
CLOSE = 1e-11  # relative width below which a line of the last question still stands well
FINER = 0.02  # share of the width asked for that a next line may aim at
Build = Callable[[Total, Saddle, float], tuple[str, Line]]


def line_at(total: Total, at: Saddle, within: float = NARROW) -> tuple[str, Line]:
    """A certified line at this saddle, as narrow in eps as asked."""
    try:
        return LATTICE, lattice.build(total, at)
    except NoCertificateError:
        pass
    for few in (draws, sampled_draws):
        with contextlib.suppress(NoCertificateError):
            return CONTOUR, few.build(total, at, within)
    try:
        return CONTOUR, contour.build(total, at, 0.0)
    except NoCertificateError:
        pass
    return _smooth(total, at, tuple(share * within for share in RESOLUTIONS))


def lattice_line_at(total: Total, at: Saddle, within: float = NARROW) -> tuple[str, Line]:
    """For finite laws of many atoms, which no contour resolves at a fair price."""
    del within
    return LATTICE, lattice.build(total, at)


def wide_line_at(total: Total, at: Saddle, within: float = NARROW) -> tuple[str, Line]:
    """A certified line at this saddle, at whatever width is affordable."""
    return _smooth(total, at, tuple(width for width in COARSER if width > within))


def any_line_at(total: Total, at: Saddle, within: float = NARROW) -> tuple[str, Line]:
    """The first of both."""
    try:
        return line_at(total, at, within)
    except NoCertificateError:
        return wide_line_at(total, at, within)


def _smooth(total: Total, at: Saddle, resolutions: tuple[float, ...]) -> tuple[str, Line]:
    """The first smooth kernels that are affordable; the two of a pair are gamma^2 (lam + 1) apart in eps."""
    eps = max(abs(at.eps), 1e-2 * at.deviation)
    for resolution in resolutions:
        tolerance = min(max(1e-2 * resolution * at.lam * eps, contour.TOLERANCE), 1e-6)
        try:
            return CONTOUR, contour.build(total, at, math.sqrt(resolution * eps / (at.lam + 1)), tolerance=tolerance)
        except NoCertificateError:
            continue
    raise NoCertificateError


def by_line(
    total: Total,
    low_target: float,
    high_target: float,
    *,
    within: float = NARROW,
    tries: int = TRIES,
    build: Build = line_at,
) -> Answer:
    """The narrowest answer of a few lines; most questions stop at the first.

    Where the first guess of eps was poor, so were the period and the cut; the same line is then built again. Where smooth kernels
    gave less than asked for (an atom within their width weighs more than a density), finer ones are asked for.
    """
    if total.start is not None and build is line_at:
        with contextlib.suppress(*NO_LINE):
            earlier, met = total.start
            near = follow(total, earlier, met, high_target)
            found, middle = _at_line(CONTOUR, near, near.saddle, (low_target, high_target), within)
            if narrow(found.lower, found.upper, min(within, CLOSE)):
                total.last = (near, middle)
                return found
    best: Answer | None = None
    aim = within
    at, factor, repeats, left = saddle.for_delta(total, high_target), 0, 0, tries
    while factor < len(NEARER) and left > 0:
        here = at.lower(total, NEARER[factor]) if factor else at
        try:
            name, line = build(total, here, aim)
            found, middle = _at_line(name, line, here, (low_target, high_target), within)
        except NO_LINE:
            factor += 1
            continue
        left -= 1
        best = found if best is None or found.upper - found.lower < best.upper - best.lower else best
        if narrow(best.lower, best.upper, within):
            total.last = (line, middle) if isinstance(line, contour.Contour) else None
            break
        if found.errors.get("smoothing", 0.0) > 0 and found.upper < math.inf:
            aim *= min(max(0.25 * within * found.upper / (found.upper - found.lower), FINER), 1.0)
        left = min(left, 1) if best.upper - best.lower <= FINE * best.upper else left
        again = (aim < within or abs(middle - at.eps) > FAR * abs(middle)) and repeats < REPEATS
        at, factor, repeats = at._replace(eps=middle), factor + (not again), repeats + again
    if best is None or not math.isfinite(best.upper):
        raise NoCertificateError
    return best


def _at_line(name: str, line: Line, at: Saddle, targets: tuple[float, float], within: float) -> tuple[Answer, float]:
    """The answer of one line, and where it believes eps to be."""
    found = line.quick(*targets) if isinstance(line, contour.Contour) else None
    (lower, upper, errors), middle, slope = found or invert(line, at, *targets)
    name = WIDE if name == CONTOUR and not narrow(lower, upper, within) else name
    slope = slope if math.isfinite(lower) and math.isfinite(upper) else at.lam
    return Answer(lower, upper, name, errors, slope), middle if math.isfinite(middle) else at.eps
