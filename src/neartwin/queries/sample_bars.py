"""How far a table's total can be from that of a Poisson sample of its units. Arithmetic only, no data.

Unit u adds x_u to a total T of the table, and B_u x_u to that of the sample, S, with B_u independent and 1 with probability q.

*Units counted once.* S is binomial(T, q); a T is excluded where its tail beyond S has at most the probability `miss` (Clopper,
Pearson 1934, with the number of trials in the place of the probability).

*Contributions in [0, m].* x -> ln E e^(t B x) is convex and 0 at x = 0, so at most x/m of its value at m: S has at most the
moments of m times a binomial of T/m trials, and Chernoff's bound holds with that: P(S >= s) <= exp(-n KL(s/(m n) || q)) for n =
T/m and s >= q T, and likewise below. A T is excluded where that is at most `miss`.

*Noise and sample together*, and values of both signs: `neartwin.queries.sample_noise`. What contributions add up to is tested at
each T: it is excluded by the noisy S where noise and sample are further from q T, on that side, than half of `miss` allows in the
worst table of that total, or where the noise passes a bar with a share of that and a bound above fails with the rest. Each of
these is a threshold for S that T alone decides, so the least of them holds. The most that any table of a total gives S a chance
to be beyond a threshold rises with the total, and falls for one below: excluded are all totals below one and above another.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from neartwin.exact import FloatArray
from neartwin.queries.sample_noise import Noise
from neartwin.queries.sample_tails import MOST_UNITS
from neartwin.special import betainc, xlogy

_STEPS = 60
_SHARES = (0.05, 0.5)
_SIDES = 0.9  # of probability at most, for two sides
_LOUD = 10  # times the sample's variance, where coarse steps of it add about 1 %
_SLACK = 1e-9  # of the probabilities and ends, for rounding

Ends = tuple[FloatArray, FloatArray]
Places = NDArray[np.int64]  # on the ladder


def _ladder(ratio: float) -> FloatArray:
    """Whole numbers from 0 on, the next by this ratio or by 1."""
    found = [0, 1]
    while found[-1] < MOST_UNITS:
        found.append(max(found[-1] + 1, math.floor(found[-1] * ratio)))
    return np.array(found[:-1], dtype=np.float64)


LADDER = _ladder(1.03)
_COARSE = _ladder(1.25)


@dataclass(frozen=True, slots=True)
class SampleBars:
    """Bars of a table's statistics that fail with probability at most `miss`, over the noise and over the sample at `rate`."""

    rate: float
    miss: float

    def totals(self, noisy: FloatArray, noise: Noise, *, most: int) -> Ends:
        """Of totals of contributions in [0, most]; noisy: (groups,) of the sample."""
        exact = whole_units if most == 1 else partial(whole_totals, most=most)
        low, high = np.zeros_like(noisy), np.full_like(noisy, np.inf)
        for share in _SHARES:  # of what may fail, for the noise
            b = noise.half_width(1 - share * self.miss)
            ends = exact(noisy - b, noisy + b, rate=self.rate, miss=(1 - share) * self.miss / 2)
            low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
        low, high = together(noisy, noise, (low, high), most=most, rate=self.rate, miss=self.miss / 2)
        if most == 1:  # whole numbers; one that rounding leaves in doubt is kept
            low, high = np.ceil(low * (1 - _SLACK) - 1e-6), np.floor(high * (1 + _SLACK) + 1e-6)
        return np.maximum(low, 0.0), high

    def number(self, noisy: FloatArray, noise: Noise, *, most: int) -> FloatArray:
        """At most how many rows or units the table has, by noisy numbers of the sample: all may fail on this one side."""
        return SampleBars(self.rate, min(2 * self.miss, _SIDES)).totals(noisy, noise, most=most)[1]

    def part(self, share: float) -> "SampleBars":
        """Bars that fail with a share of the probability."""
        return SampleBars(self.rate, share * self.miss)

    def signed(self, noisy: FloatArray, noise: Noise, rows: FloatArray, *, most: int, values: tuple[int, int]) -> Ends:
        """Of totals of at most `most` rows a unit with values in [low, high], low < 0 < high. rows: (groups,) at most so many.

        A total T of N rows has at most (T - low N) / (high - low) rows at the upper end, in the worst table, and
        (high N - T) / (high - low) at the lower one; more rows make it no better. What is not excluded shrinks what is possible.
        """
        low, high = values
        least, largest = low * rows, high * rows
        most_of_sample = self.rate * (1 - self.rate) * most * float(max(high, -low)) ** 2 * rows
        loud = noise.variance > _LOUD * most_of_sample
        for fine in (False, False, True):  # what is possible is found on coarse steps first
            above, below = (
                np.where(loud | (not fine), units_of(units, _COARSE), units_of(units))
                for units in (
                    (largest - low * rows) / (high - low) / most,
                    (high * rows - least) / (high - low) / most,
                )
            )
            up, down = (
                each_pair(above, below, partial(self._signed, noise, sign * most * high, sign * most * low))
                for sign in (1, -1)
            )
            least, largest = (
                np.maximum(least, (noisy - up) / self.rate),
                np.minimum(largest, (noisy + down) / self.rate),
            )
            largest = np.maximum(least, largest)
        value = noisy / self.rate
        return np.minimum(least, value), np.maximum(largest, value)

    def _signed(self, noise: Noise, far: float, near: float, above: int, below: int) -> float:
        return noise.with_sample(self.rate, ((above, far), (below, near)), self.miss / 2)


def together(noisy: FloatArray, noise: Noise, known: Ends, *, most: float, rate: float, miss: float) -> Ends:
    """Totals of contributions in [0, most] that the worst table of each does not exclude, among known ones; `miss` on each side.

    Totals between two steps of the ladder of `units_of` have the error of the upper one, which is no smaller.
    """

    def far(place: Places, sign: int) -> FloatArray:
        steps, back = np.unique(place, return_inverse=True)
        sums = [((int(LADDER[step]), sign * most),) if step else () for step in steps]
        found = np.array([noise.with_sample(rate, one, miss) for one in sums])
        return np.asarray(found[back])

    def step(total: FloatArray, side: Literal["left", "right"]) -> Places:
        return np.asarray(np.searchsorted(LADDER, np.minimum(total / most, LADDER[-1]), side=side))

    middle = np.maximum(noisy, 0.0) / rate
    below, least = _between(
        step(known[0], "right") - 1 - (known[0] <= 0),
        step(middle, "left"),
        lambda it: noisy <= rate * most * LADDER[it] + far(it, 1),
    )
    low = np.maximum(most * LADDER[np.maximum(below, 0)], (noisy - far(least, 1)) / rate)
    _, above = _between(
        step(middle, "right") - 1,
        step(np.minimum(known[1], most * LADDER[-1]), "left"),
        lambda it: noisy < rate * most * LADDER[it] - far(it, -1),
    )
    high = np.minimum(most * LADDER[above], (noisy + far(above, -1)) / rate)
    high = np.where(known[1] > most * LADDER[-1], known[1], np.minimum(high, known[1]))
    low = np.maximum(low, known[0])
    return low, np.maximum(low, high)


def _between(start: Places, end: Places, holds: Callable[[Places], NDArray[np.bool_]]) -> tuple[Places, Places]:
    """Neighbours between the two, of which the first does not hold and the second does, unless they are the start or end."""
    while np.any(apart := end - start > 1):
        middle = (start + end) // 2
        up = holds(middle)
        start, end = np.where(apart & ~up, middle, start), np.where(apart & up, middle, end)
    return start, end


def units_of(units: FloatArray, ladder: FloatArray = LADDER) -> FloatArray:
    """At least two more than so many, rounded up to a step of the ladder: for two units that have a part each."""
    found: FloatArray = ladder[np.searchsorted(ladder, np.minimum(np.floor(np.maximum(units, 0)) + 2, ladder[-1]))]
    return found


def each_pair(a: FloatArray, b: FloatArray, of: Callable[[int, int], Any]) -> FloatArray:
    """(n, ...) what a function of a pair of numbers is, worked out once for all pairs that are the same."""
    pairs, back = np.unique(np.stack([a, b]), axis=1, return_inverse=True)
    found = np.array([of(int(one), int(other)) for one, other in pairs.T])
    return np.asarray(found[back.reshape(-1)])


def whole_units(low: FloatArray, high: FloatArray, *, rate: float, miss: float) -> Ends:
    """The least and largest number of units of the table whose sample may have between low and high of them.

    low, high: (groups,). Each end is passed with probability at most `miss`.

    >>> low, high = whole_units(np.array([100.0]), np.array([100.0]), rate=0.1, miss=0.025)
    >>> print(low[0], high[0])
    823.0 1205.0
    """
    few, many = np.ceil(np.maximum(low, 0.0)), np.floor(np.maximum(high, 0.0))
    least = miss * (1 - _SLACK)

    def too_few(n: FloatArray) -> FloatArray:  # P(Bin(n, q) >= few) - miss, rising
        return np.where(few > 0, betainc(np.maximum(few, 1.0), np.maximum(n - few, 0.0) + 1, rate), 1.0) - least

    def enough(n: FloatArray) -> FloatArray:  # miss - P(Bin(n, q) <= many), rising
        return least - np.where(n > many, betainc(np.maximum(n - many, 1e-9), many + 1, 1 - rate), 1.0)

    lower = _root(too_few, few, few / rate + 1)
    upper = _root(enough, *_beyond(enough, many))
    # the whole numbers that are not excluded; one that rounding leaves in doubt is kept
    return np.maximum(np.ceil(lower * (1 - _SLACK) - 1e-6), 0.0), np.floor(upper * (1 + _SLACK) + 1e-6)


def whole_totals(low: FloatArray, high: FloatArray, *, most: float, rate: float, miss: float) -> Ends:
    """The same for totals of contributions between 0 and `most`.

    >>> low, high = whole_totals(np.array([100.0]), np.array([100.0]), most=1, rate=0.1, miss=0.025)
    >>> print(round(low[0]), round(high[0]))
    765 1282
    """
    few, many = np.maximum(low, 0.0) / most, np.maximum(high, 0.0) / most
    enough = math.log(1 / (miss * (1 - _SLACK)))

    def divergence(k: FloatArray, n: FloatArray) -> FloatArray:
        n = np.asarray(np.maximum(n, 1e-300))
        rest = np.asarray(np.maximum(n - k, 0.0))
        return np.asarray(xlogy(k, k / (n * rate)) + xlogy(rest, rest / (n * (1 - rate))))

    lower = _root(lambda n: enough - divergence(few, n), few, few / rate)
    start = many / rate + 1e-9
    upper = _root(lambda n: divergence(many, n) - enough, *_beyond(lambda n: divergence(many, n) - enough, start))
    return lower * most * (1 - _SLACK), upper * most * (1 + _SLACK)


def _beyond(rising: Callable[[FloatArray], FloatArray], start: FloatArray) -> Ends:
    """A start and an end between which the function comes to 0 or above."""
    end = 2 * start + 8
    for _ in range(1000):
        short = rising(end) < 0
        if not np.any(short):
            return start, end
        end = np.where(short, 2 * end, end)
    raise ArithmeticError("no end was found")  # pragma: no cover - each of the functions rises without end


def _root(rising: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """About where a rising function becomes 0, between the two."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        up = rising(middle) >= 0
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    return 0.5 * (low + high)
