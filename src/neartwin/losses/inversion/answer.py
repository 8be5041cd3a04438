"""What a route hands back, and what a caller sees: certified ends, the route's name, its error terms; how close the ends are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple

from neartwin.exact import End, Interval
from neartwin.losses.summands.rounding import NoCertificateError

CLOSED, LATTICE, CONTOUR, WIDE, FLOOR = "closed form", "lattice", "contour", "wide contour", "Chernoff floor"
NARROW = 1e-8  # relative width in eps that a contour promises; a wider answer is named so
FINE = 1e-4  # relative width from which no further route is tried
NO_LINE = (NoCertificateError, OverflowError, ValueError, ZeroDivisionError)


class Answer(NamedTuple):
    """Certified ends, the route that gave them, and its error terms (absolute, in delta)."""

    lower: float
    upper: float
    method: str
    errors: Mapping[str, float] = MappingProxyType({})
    slope: float = math.nan  # about where -d log delta / d eps lies, where a line told


@dataclass(frozen=True, slots=True)
class Certified(Interval[End], Generic[End]):
    """A proved interval with the sources of error that went into it.

    `method` names the route; `errors` maps a source (aliasing, frequency cut, rounding, smoothing) to the most it can
    contribute, in units of delta at the upper end. A float or a float array, as asked.
    """

    errors: Mapping[str, float] = field(default_factory=dict)


def narrow(lower: float, upper: float, enough: float = NARROW) -> bool:
    """Whether the ends are relatively so close."""
    return math.isfinite(upper) and (upper - max(lower, 0.0) <= enough * upper or upper <= 0)


def common(one: Answer, other: Answer) -> Answer:
    """What both prove, by the name of the narrower."""
    first, second = sorted((one, other), key=lambda answer: answer.upper - max(answer.lower, 0.0))
    slope = first.slope if math.isfinite(first.slope) else second.slope
    lower, upper = max(one.lower, other.lower), min(one.upper, other.upper)
    return Answer(lower, upper, first.method, first.errors or second.errors, slope)


def greatest(found: Sequence[Answer]) -> Certified[float]:
    """The maximum over orders: of the lower ends and of the upper ends; the worse direction's method and errors."""
    if len(found) == 1:
        return Certified(found[0].lower, found[0].upper, found[0].method, found[0].errors)
    worst = max(found, key=lambda answer: (answer.upper, answer.lower))
    return Certified(max(answer.lower for answer in found), worst.upper, worst.method, worst.errors)
