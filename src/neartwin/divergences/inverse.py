"""The inverse of a decreasing function known by enclosures: a fast root of the middles, then certified ends.

`certified_root` answers where f crosses a target. The search (Chandrupatla 1997, inverse quadratic steps safeguarded by
bisection, all elements at once) may err freely; the ends it returns are accepted only after f was enclosed *there*.
"""

from collections.abc import Callable

import numpy as np

from neartwin.divergences.enclosure import Enclosure
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray

Decreasing = Callable[[FloatArray], Enclosure]


def certified_root(
    function: Decreasing,
    target: Enclosure,
    bracket: tuple[FloatArray, FloatArray],
    *,
    estimate: Callable[[FloatArray], FloatArray] | None = None,
) -> Enclosure:
    """inf{x : f(x) <= target} for a decreasing f, as an enclosure; a target outside f's range gives the bracket's end.

    bracket: two arrays of the target's shape, finite, around the answer; estimate: f in plain floats, where that is
    cheaper than the middle of its enclosure. Elementwise. The ends satisfy f(lower) >= target and f(upper) <= target,
    up to the bracket's own ends, which are taken on trust.
    """
    goal = target.middle
    low, high, _ = np.broadcast_arrays(*bracket, goal)
    if not np.all(np.isfinite(low) & np.isfinite(high)):
        raise ParameterError("bracket", bracket, "must be finite")
    rough = estimate or (lambda x: function(x).middle)
    low, high = low.astype(float), high.astype(float)
    guess = _chandrupatla(lambda x: _signed(rough(x), goal), low, high)
    return confirmed(function, target, guess, (low, high))


def _signed(value: FloatArray, goal: FloatArray) -> FloatArray:
    """Log of the ratio where both are positive, for tails; the sign is that of value - goal."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.log(value) - np.log(goal)
        usable = (value > 0) & (goal > 0)
        return np.where(usable, np.nan_to_num(ratio, nan=0.0), np.sign(value - goal))


def _chandrupatla(function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    a, b = high.copy(), low.copy()
    fa, fb = function(a), function(b)
    c, fc, step = a.copy(), fa.copy(), np.full(np.shape(a), 0.5)
    for _ in range(120):
        x = a + step * (b - a)
        fx = function(x)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        best = np.where(np.abs(fa) < np.abs(fb), a, b)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            room = 4e-16 * np.abs(best) / np.abs(b - a)
            if np.all((room > 0.5) | (fa == 0) | (a == b)):
                break
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            quadratic = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            inner = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        step = np.where(quadratic & np.isfinite(inner), inner, 0.5)
        room = np.nan_to_num(np.minimum(room, 0.5), nan=0.5)
        step = np.clip(step, room, 1 - room)
    return np.where(np.abs(fa) < np.abs(fb), a, b)


def confirmed(
    function: Decreasing, target: Enclosure, guess: FloatArray, bracket: tuple[FloatArray, FloatArray]
) -> Enclosure:
    """Ends around the guess, moved outward by doubling steps until f is certified there or the bracket is met."""
    ends = []
    for side, limit in zip((-1, 1), bracket, strict=True):
        step = 32 * np.spacing(np.maximum(np.abs(guess), 0.1 * np.minimum(bracket[1] - bracket[0], 1)))
        end, done = guess, np.zeros(np.shape(guess), dtype=bool)
        while not np.all(done):
            end = np.where(done, end, np.clip(guess + side * step, bracket[0], bracket[1]))
            value = function(end)
            proven = value.lower >= target.upper if side < 0 else value.upper <= target.lower
            done = done | proven | (end == limit)
            step = step * 4
        ends.append(end)
    return Enclosure(ends[0], ends[1])
