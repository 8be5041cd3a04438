"""Optimal discovery of groups: the keep probabilities that no (epsilon, delta)-DP rule of the same kind can exceed.

pi_0 = 0 and pi_{n+1} = min(e^epsilon pi_n + delta, 1 - e^{-epsilon} (1 - pi_n - delta), 1), each group on its own.
Neighbouring counts n, n + 1 then satisfy all four (epsilon, delta) inequalities, with equality wherever possible.
Desfontaines, Voss, Gipson, Mandayam 2022, Thm 1. It releases the groups alone, not their counts.

Exact: e^epsilon is replaced by a rational a just below it and each pi_n is rounded down to 2^-256, which keeps the
inequalities for a and so for e^epsilon; coins with these probabilities are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Approx, Composed
from neartwin.noise.bounds import exp_neg
from neartwin.tradeoff import TradeOff, epsilon_delta

_BITS = 256
_DIGITS = 5  # to base 2**63, of a probability
_MOST = 1 << 20  # counts until pi is 1; more would mean an epsilon below about 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalSelection:
    """Keep probabilities for one group. A unit in k groups pays k such uses: see `shared`."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        open_probability(delta=self.delta)

    @classmethod
    def shared(cls, *, epsilon: Fraction, delta: Fraction, groups_per_unit: int) -> "OptimalSelection":
        """Epsilon and delta over all k groups that one unit can change, by basic composition.

        groups_per_unit: under replace-one, the groups it leaves and those it enters: twice what it may be in.
        """
        k = integer(at_least=1, groups_per_unit=groups_per_unit)
        return cls(epsilon=positive(epsilon=epsilon) / k, delta=open_probability(delta=delta) / k)

    def curve(self) -> TradeOff:
        """f_{epsilon,delta}: of one group. A unit in k groups pays k of them."""
        return epsilon_delta(self.epsilon, self.delta)

    def losses(self) -> Composed:
        """Its guarantee as a factor: of one group."""
        return Composed.of(Approx(epsilon=self.epsilon, delta=self.delta))

    @property
    def digits(self) -> int:
        """How many digits `keeps_by` may ask for."""
        return _DIGITS

    @property
    def sure(self) -> int:
        """The least count that is always kept."""
        return len(_table(self.epsilon, self.delta)) - 1

    def keep_probability(self, units: int) -> Fraction:
        """pi_n, exactly the probability that is drawn.

        >>> round(float(OptimalSelection(epsilon=Fraction(1), delta=Fraction(1, 10**5)).keep_probability(14)), 12)
        0.967566653027
        """
        table = _table(self.epsilon, self.delta)
        return table[min(integer(at_least=0, units=units), len(table) - 1)]

    def keep_probabilities(self, units: WholeNumbers) -> FloatArray:
        """The same for an array, in floats."""
        table = np.array([float(p) for p in _table(self.epsilon, self.delta)])
        result: FloatArray = table[np.minimum(units, table.size - 1)]
        return result

    def keeps(self, units: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> NDArray[np.bool_]:
        """Which groups are kept. units: distinct units of every group that has any, at least 1."""
        counts = np.minimum(np.asarray(units), self.sure)
        kept = np.ones(counts.shape, dtype=bool)
        for count in np.unique(counts[counts < self.sure]).tolist():
            places = counts == count
            kept[places] = noise.bernoulli(self.keep_probability(count), int(places.sum()), source=source)
        return kept

    def keeps_by(self, digits: Callable[[int], NDArray[np.int64]], units: WholeNumbers) -> NDArray[np.bool_]:
        """The same with given randomness. digits(i): for each group the i-th of uniform digits to base 2**63.

        A group is kept if its uniform number is below pi, digit by digit; further digits are asked for only on a tie.
        """
        counts = np.minimum(np.asarray(units), self.sure).astype(np.int64)
        kept: NDArray[np.bool_] = counts == self.sure
        open_ = counts < self.sure
        table = _table(self.epsilon, self.delta)
        scaled = [(pi.numerator << (63 * _DIGITS)) // pi.denominator for pi in table]
        for place in range(_DIGITS):
            if not open_.any():
                break
            shift = 63 * (_DIGITS - 1 - place)
            wanted = np.array([(pi >> shift) & (2**63 - 1) for pi in scaled], dtype=np.int64)[counts]
            drawn = digits(place)
            kept |= open_ & (drawn < wanted)
            open_ &= drawn == wanted
        return kept


@lru_cache(maxsize=16)
def _table(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, ...]:
    """pi_0, pi_1, ... until 1."""
    _, high = exp_neg(epsilon, _BITS)
    one = 1 << _BITS
    share = delta.numerator * one // delta.denominator  # delta, rounded down
    pi = [0]
    while pi[-1] < one:
        if len(pi) > _MOST:
            raise ParameterError(
                "epsilon", epsilon, f"must reach certainty within {_MOST} units", remedy="take it larger"
            )
        up = pi[-1] * one // high + share
        down = one - (-(-max(0, one - pi[-1] - share) * high // one))
        pi.append(min(up, down, one))
    return tuple(Fraction(p, one) for p in pi)
