"""RAPPOR: each person sends a vector of bits, one for each answer, every bit flipped at random in two layers.

Two people with different answers differ in two bits for each hash. Erlingsson, Pihur, Korolova 2014.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from math import comb

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.losses import Composition, FinitePair
from neartwin.mechanisms.local.frequencies import Frequencies, debiased

Bits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, init=False)
class Rappor:
    """RAPPOR with a lasting and a fresh layer of noise. Erlingsson, Pihur, Korolova 2014, Thm 1 and 2.

    lasting (f): each of a person's bits is kept for ever as 1 or 0 with probability f/2 each, true otherwise. Each report
    then says 1 with probability `on` where the kept bit is 1 and `off` where it is 0. hashes (h): how many bits a person's
    answer sets. All rational, and drawn exactly.
    """

    lasting: Fraction
    on: Fraction
    off: Fraction
    hashes: int

    def __init__(self, *, lasting: Number, on: Number, off: Number, hashes: int = 1) -> None:
        """All probabilities strictly between 0 and 1, `on` above `off`."""
        object.__setattr__(self, "lasting", open_probability(lasting=rational(lasting=lasting)))
        object.__setattr__(self, "on", open_probability(on=rational(on=on)))
        object.__setattr__(self, "off", open_probability(off=rational(off=off)))
        object.__setattr__(self, "hashes", integer(at_least=1, hashes=hashes))
        if self.on <= self.off:
            raise ParameterError("on", on, f"must be above off={off}")

    @property
    def lasting_epsilon(self) -> float:
        """epsilon_inf = 2h ln((1 - f/2) / (f/2)): of all reports a person will ever send about one answer.

        >>> round(Rappor(lasting="0.5", on="0.75", off="0.5", hashes=2).lasting_epsilon, 12)
        4.394449154672
        """
        return 2 * self.hashes * math.log((1 - self.lasting / 2) / (self.lasting / 2))

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """P(a report says 1 | bit 1) and P(... | bit 0), both layers together: q* and p* of the paper."""
        f = self.lasting
        return f / 2 * (self.off + self.on) + (1 - f) * self.on, f / 2 * (self.off + self.on) + (1 - f) * self.off

    @property
    def single_epsilon(self) -> float:
        """epsilon_1 = h ln(q*(1 - p*) / (p*(1 - q*))): of one report.

        Two answers that share no bit differ in 2h bits: h of them multiply the odds by q*/p*, h by (1 - p*)/(1 - q*).

        >>> round(Rappor(lasting="0.5", on="0.75", off="0.5", hashes=2).single_epsilon, 12)
        1.074285864167
        """
        yes, no = self.chances
        return self.hashes * math.log(yes * (1 - no) / (no * (1 - yes)))

    def losses(self) -> Composition:
        """The privacy loss of one report as a factor for composition."""
        return Composition.of(FinitePair(p=self._pair[0], q=self._pair[1]))

    @property
    def _pair(self) -> tuple[list[Fraction], list[Fraction]]:
        """The masses of (h bits that are on here, h that are on there), counted, under both answers."""
        h = self.hashes
        on, off = ([comb(h, k) * p**k * (1 - p) ** (h - k) for k in range(h + 1)] for p in self.chances)
        here = [a * b for a in on for b in off]
        return here, [a * b for a in off for b in on]

    def keep(self, bits: Bits, *, source: noise.Source = noise.SYSTEM) -> Bits:
        """The lasting layer. The client runs it once for each person and answer, and stores the result.

        Args:
            bits: True bits, any shape.
            source: The source of randomness.

        Returns:
            The lasting bits, of the same shape.
        """
        replaced = noise.bernoulli(self.lasting, bits.shape, source=source)
        return np.where(replaced, noise.bernoulli(Fraction(1, 2), bits.shape, source=source), bits)

    def report(self, lasting: Bits, *, source: noise.Source = noise.SYSTEM) -> Bits:
        """The fresh layer. The client runs it for each report, on the stored bits.

        Args:
            lasting: The lasting bits, any shape.
            source: The source of randomness.

        Returns:
            The reported bits, of the same shape.
        """
        on = noise.bernoulli(self.on, lasting.shape, source=source)
        return np.where(lasting, on, noise.bernoulli(self.off, lasting.shape, source=source))

    def estimate(self, reports: Bits, *, confidence: float = 0.95) -> Frequencies:
        """The server: the share of people whose true bit is set, for each bit. reports: (people, bits), one a person."""
        yes, no = (float(chance) for chance in self.chances)
        return debiased(reports.sum(axis=0), len(reports), yes=yes, no=no, confidence=confidence)
