"""How far a table's total can be from that of a Poisson sample of its units. Arithmetic only, no data.

Unit u adds x_u to a total T of the table, and B_u x_u to that of the sample, S, with B_u independent and 1 with probability q.

*Units counted once.* S is binomial(T, q); a T is excluded where its tail beyond S has at most the probability `miss` (Clopper,
Pearson 1934, with the number of trials in the place of the probability).

*Contributions in [0, m].* x -> ln E e^(t B x) is convex and 0 at x = 0, so at most x/m of its value at m: S has at most the
moments of m times a binomial of T/m trials, and Chernoff's bound holds with that: P(S >= s) <= exp(-n KL(s/(m n) || q)) for n =
T/m and s >= q T, and likewise below. A T is excluded where that is at most `miss`.

*Any others.* Bernstein: sum (B_u - q) y_u passes t with probability at most exp(-t^2 / (2 (V + b t / 3))) where V is its
variance and b bounds |(B_u - q) y_u| (Boucheron, Lugosi, Massart 2013, corollary 2.11). V = q (1 - q) sum y_u^2 is not known,
and bounded by how much one unit may count for and how many there are, of which the release tells with noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from neartwin.exact import FloatArray
from neartwin.special import betainc, xlogy

_STEPS = 60
_SLACK = 1e-9  # of the probabilities and ends, for rounding

Ends = tuple[FloatArray, FloatArray]
HalfWidth = Callable[[float], float]  # of a noise, by confidence


@dataclass(frozen=True, slots=True)
class SampleBars:
    """Bars of a table's statistics that fail with probability at most `miss`, over the noise and over the sample at `rate`."""

    rate: float
    miss: float

    def totals(self, noisy: FloatArray, noise: HalfWidth, *, most: int) -> Ends:
        """Of totals of contributions in [0, most]; noisy: (groups,) of the sample. Noise and sample miss half each."""
        b = noise(1 - self.miss / 2)
        ends = whole_units if most == 1 else partial(whole_totals, most=most)
        return ends(noisy - b, noisy + b, rate=self.rate, miss=self.miss / 4)

    def signed(self, noisy: FloatArray, noise: HalfWidth, off: FloatArray) -> Ends:
        """Of totals of either sign, whose sample is `off` at most: see `off_by`. Noise misses a quarter."""
        b = noise(1 - self.miss / 4) + off
        return (noisy - b) / self.rate, (noisy + b) / self.rate

    def number(self, noisy: FloatArray, noise: HalfWidth, *, most: int) -> FloatArray:
        """At most how many rows or units the table has, by noisy numbers of the sample. Misses half, of noise and sample."""
        ends = whole_units if most == 1 else partial(whole_totals, most=most)
        high = noisy + noise(1 - self.miss / 4)
        return ends(high, high, rate=self.rate, miss=self.miss / 4)[1]

    def off_by(self, squares: FloatArray, largest: float) -> FloatArray:
        """At most how far sum (B_u - q) y_u is from 0, for sum y_u^2 <= squares and |y_u| <= largest. Misses a quarter."""
        variance = self.rate * (1 - self.rate) * squares
        return spread(variance, max(self.rate, 1 - self.rate) * largest, miss=self.miss / 8)


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


def spread(variance: FloatArray, largest: float, *, miss: float) -> FloatArray:
    """Bernstein's bar: a sum of independent terms of mean 0 passes it, on one side, with probability at most `miss`."""
    size = math.log(1 / miss)
    b = largest * size / 3
    found: FloatArray = (b + np.sqrt(b * b + 2 * variance * size)) * (1 + _SLACK)
    return found


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
