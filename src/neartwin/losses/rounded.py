"""The lattice route for laws without a lattice: the laws of `cells.py`, rounded above and below, answered by `lattice.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from neartwin.losses import cells, direct, saddle
from neartwin.losses.answer import FINE, LATTICE, NO_LINE, Answer, common, narrow
from neartwin.losses.inversion import Line
from neartwin.losses.lines import by_line, lattice_line_at
from neartwin.losses.rounding import NoCertificateError, down, up
from neartwin.losses.total import Total

FINER = (0.5, 0.25, 1 / 16)  # steps of the rounded law, over the first
DROWNED = 0.03  # share of delta that rounding may reach in a line
COARSE = 1e-6  # relative width wanted of a rounded law's own answer


def epsilon(total: Total, low_target: float, high_target: float, shares: Sequence[float] = FINER) -> Answer:
    """Laws rounded to ever finer lattices, until the ends are close or the lattice too fine; shares: of the first step."""
    best = Answer(-math.inf, math.inf, LATTICE)
    step = cells.coarse(total, high_target)
    for share in shares:
        try:
            best = common(best, _epsilon_at(total, step * share, low_target, high_target))
        except NO_LINE:
            break
        rounding = best.errors.get("rounding", 0.0) > DROWNED * high_target  # then finer cells are of no use
        if rounding or narrow(best.lower, best.upper, FINE):
            break
    return best


def _epsilon_at(total: Total, step: float, low_target: float, high_target: float) -> Answer:
    above = cells.above(total, step, high_target)
    leak = above.total.infinity[1]
    # inf + (1 - inf) scale delta(eps - shift) <= target
    target = down((low_target - leak) / (1 - leak) * math.exp(-above.log_scale) * (1 - 1e-14), 4)
    if not target > 0:
        raise NoCertificateError
    upper = _end(above.total, target, above=True)
    below = cells.below(total, step, high_target, upper.slope, upper.upper)
    target = up(high_target * math.exp(-below.log_scale) * (1 + 1e-14), 4)
    lower = _end(below.total, target, above=False)
    sources = {"infinite mass": leak, **upper.errors}
    errors = sources | {source: max(one, sources.get(source, 0.0)) for source, one in lower.errors.items()}
    return Answer(down(lower.lower - below.shift), up(upper.upper + above.shift), LATTICE, errors, upper.slope)


def _end(law: Total, target: float, *, above: bool) -> Answer:
    """Eps of a rounded law, by convolution where that is affordable, else by a line."""
    try:
        return direct.epsilon(law, target, above=above)
    except NO_LINE:
        return by_line(law, target, target, within=COARSE, tries=2, build=lattice_line_at)


def delta(total: Total, eps: float) -> tuple[float, float]:
    """Bounds on the finite part of delta at one eps, the best of the same lattices."""
    at = saddle.for_eps(total, eps)
    guess = math.exp(max(at.log_delta, -690.0))
    step, best = cells.coarse(total, guess), (0.0, 1.0)
    for share in FINER:
        try:
            low, high = _delta_at(total, step * share, eps, guess, at.lam)
        except NO_LINE:
            break
        best = max(best[0], low), min(best[1], high)
        if best[1] - best[0] <= FINE * best[1]:
            break
    return best


def _delta_at(total: Total, step: float, eps: float, guess: float, lam: float) -> tuple[float, float]:
    above = cells.above(total, step, guess)
    leak = above.total.infinity[1]
    upper = _value(above.total, np.nextafter(eps - above.shift, -math.inf), guess, above=True)
    below = cells.below(total, step, guess, lam, eps)
    lower = _value(below.total, np.nextafter(eps + below.shift, math.inf), guess, above=False)
    high = leak + math.exp(above.log_scale) * upper * (1 + 1e-14)
    return lower * math.exp(below.log_scale) * (1 - 1e-14), min(high * (1 + 1e-14), 1.0)


def _value(law: Total, eps: float, guess: float, *, above: bool) -> float:
    """One end of delta of a rounded law; 0 beyond its largest loss."""
    if eps >= law.top.loss:
        return 0.0
    try:
        line: Line = direct.build(law, guess, above=above)
    except NO_LINE:
        line = lattice_line_at(law, saddle.for_eps(law, eps))[1]
    return float(line.delta(np.array([eps]))[1 if above else 0][0])
