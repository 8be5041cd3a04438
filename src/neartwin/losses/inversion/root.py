"""Where a certified line meets a wanted delta: Newton on its middle, then ends that are evaluated and so proved."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion.saddle import Saddle

LADDER = np.array([1e-14, 1e-13, 1e-12, 1e-11])  # relative half-widths that lines often reach
TIGHT = 16  # a step of the ladder so much wider than the line's own error is taken


class ContourRule(Protocol):
    """A certified line, whatever its kernel."""

    @property
    def nodes(self) -> int:
        """How many frequencies it has."""

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds at each eps."""

    def bounds_with_errors(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The same with the error terms."""

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """The middle and minus the slope, uncertified."""


def _newton(line: ContourRule, at: Saddle, log_target: float) -> tuple[float, float]:
    """Eps where the middle of the line meets the target, and -d log delta / d eps there: Newton inside a bracket."""
    e, slope, low, high = at.eps, at.tilt, -math.inf, math.inf
    reach = 2 * at.deviation + 1 / at.tilt
    for _ in range(40):
        value, fall = line.point_estimate(e)
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


class Ends(NamedTuple):
    """The largest eps with a proved delta >= the low target, the least with a proved delta <= the high one."""

    lower: float
    upper: float
    errors: dict[str, float]  # at the upper end


def invert(line: ContourRule, at: Saddle, low_target: float, high_target: float) -> tuple[Ends, float, float]:
    """The certified ends, the middle, and -d log delta / d eps there. Each end is evaluated; Newton only saves trials."""
    e, slope = _newton(line, at, 0.5 * (math.log(low_target) + math.log(high_target)))
    return ends(line, e, slope, low_target, high_target), e, slope


def ends(line: ContourRule, e: float, slope: float, low_target: float, high_target: float) -> Ends:
    """The certified ends around e, where -d log delta / d eps is about the slope.

    One look at a few widths that are common; where none fits or the line can do much better, the doubled widths of its own error.
    """
    tried = len(LADDER)
    widths = LADDER * (abs(e) + 1e-3)
    low, high, parts = line.bounds_with_errors(np.concatenate([e - widths, e + widths, [e]]))
    least, most = (float(low[-1]), float(high[-1])) if high[-1] >= low[-1] else (0.0, 1.0)  # NaN: far from its saddle
    start = 0.6 * (most - least) / (max(most, 1e-300) * slope) + 2e-16 * abs(e) + 1e-300
    holds = (low[:tried] >= low_target) & (high[tried:-1] <= high_target)
    j = int(np.argmax(holds))
    if holds[j] and widths[j] <= TIGHT * start:
        return Ends(e - float(widths[j]), e + float(widths[j]), _at_end(parts, tried + j))
    lower, upper, errors, width = -math.inf, math.inf, _at_end(parts, -1), start
    for _ in range(60):
        low, high, parts = line.bounds_with_errors(np.array([e - width, e + width]))
        if not math.isfinite(lower) and low[0] >= low_target:
            lower = e - width
        if not math.isfinite(upper) and high[1] <= high_target:
            upper, errors = e + width, _at_end(parts, 1)
        if math.isfinite(lower) and math.isfinite(upper):
            break
        width *= 2
    return Ends(lower, upper, errors)


def _at_end(parts: dict[str, FloatArray], index: int) -> dict[str, float]:
    return {source: float(value[index]) for source, value in parts.items()}
