"""Loss, pair and summand: a use, its ordered pair of laws, and the sum of its losses.

Notation of the room. P is the law of the outputs on the data set, Q on its neighbour, L = log dP/dQ the privacy loss
under P. Then delta(eps) = E_P[(1 - e^{eps - L})_+] + P(L = inf), M(s) = E_P[e^{sL} | L < inf] for Re s >= 0, K = log M.
`remove`: the person is in the data set of P and not in that of Q; `add`: the other direction. Both directions are
composed apart and the maximum is taken at the end (Zhu, Dong, Wang 2022: a maximum at each step is invalid).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from neartwin.errors import PrivacyError
from neartwin.exact import FloatArray
from neartwin.losses.summands.rounding import ComplexArray, U

Direction = Literal["remove", "add", "replace", "replace_back"]


def no_replacement() -> PrivacyError:
    """The refusal of replace-one, where pairs are known for add/remove alone."""
    return PrivacyError(
        "sampling or a training run under replace-one depends on what the unit is replaced by: state the mechanism "
        "itself, such as SubsampledGaussian(mu, rate), its mu for a unit that joins"
    )


class Lattice(NamedTuple):
    """All losses lie on start + step * integers, exactly."""

    start: Fraction
    step: Fraction

    def plus(self, other: Lattice) -> Lattice:
        """The lattice of the sum of a loss on this one and a loss on the other."""
        common = math.lcm(self.step.denominator, other.step.denominator)
        step = Fraction(math.gcd(int(self.step * common), int(other.step * common)), common)
        return Lattice(self.start + other.start, step)


class MaximumLoss(NamedTuple):
    """No loss exceeds `loss`; the largest (or their supremum) is at least `least`; `mass` of P or more has it exactly."""

    loss: float
    mass: float
    least: float


UNBOUNDED = MaximumLoss(np.inf, 0.0, np.inf)


class SpecialMethod(NamedTuple):
    """A method of inversion that a summand knows and that serves every sum with it.

    Attributes:
        epsilon: From a sum and two deltas to certified epsilons.
        lines: From a sum and an epsilon to named contour rules, each with its saddle there.
    """

    epsilon: Callable[..., Any]
    lines: Callable[..., Any]


class Summand(ABC):
    """The n-fold composition of one ordered pair, or of a batch of one family, ready for arithmetic.

    `log_finite`: bounds on log P(L < inf), lower and upper; `top`: the largest loss; `lattice`: where all losses
    lie, if they lie on a lattice. Bounds are for the whole n-fold sum.
    """

    log_finite: tuple[float, float] = (0.0, 0.0)
    top: MaximumLoss = UNBOUNDED
    lattice: Lattice | None = None
    lattice_error: float = 0.0  # how far the whole sum may lie from its point of the lattice
    null: bool = False  # every finite loss is 0
    # how fast atoms turn, the largest loss of one copy; 0 where `log_modulus_bound` has none
    fastest_frequency: float = 0.0
    variation: float = 1.0  # an upper bound on the total variation of P and Q
    kinds: int = 1  # laws that it stands for
    coarser: Any = None  # a summand of fewer laws whose K is nowhere less, and nearly the same
    atoms: Any = None  # the finite law of one use, and how many of them it has
    kept: Sequence[Any] = ()  # nodes that the lines of one question share
    ladder: SpecialMethod | None = None  # for sums whose great losses are rare, as those of a seldom sampled law are

    @property
    def laws(self) -> list[Summand]:
        """Those laws, each as a summand of its own."""
        return [self]

    @property
    def choices(self) -> list[tuple[float, Any]]:
        """Laws of which a public coin chooses one for each copy, with the logarithms of their probabilities."""
        return [(0.0, self)]

    @abstractmethod
    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """K, K', K'' at tilt > 0, without a certificate: they place the contour and cannot harm what it proves."""

    @abstractmethod
    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """K(tilt) for tilt >= 0 and a bound on its error; (inf, 0) where M is infinite.

        Raises:
            NoCertificateError: Nothing is proved.
        """

    @abstractmethod
    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """A logarithm (any branch) of M(tilt + it) / M(tilt), and a bound E on its error.

        The true ratio over the exponential of the result differs from 1 by at most expm1(E).

        Args:
            tilt: Above 0.
            t: Frequencies 0, d, 2d, ... They may carry a relative error of 4U (a frequency of a lattice is irrational);
                that too is in E.
        """

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The cost of a line, in exponentials.

        Args:
            tilt: The line's tilt.
            t: The longest frequency.
            frequencies: Their number.
        """
        return frequencies

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """An upper bound on log |M(tilt + it') / M(tilt)| for all t' in a range; 0 when nothing is known.

        Args:
            tilt: Above 0.
            t: The least t'.
            until: The greatest t', perhaps infinite.
        """
        return 0.0

    def log_modulus_bound(self, tilt: float, t: FloatArray, width: float, enough: FloatArray) -> FloatArray | None:
        """A quick bound on log |M(tilt + it') / M(tilt)| for all t' >= 0 near each t.

        None where there is none, or where `log_mgf_ratio` wants all of its frequencies in a row.

        Args:
            tilt: Above 0.
            t: Frequencies, (n,).
            width: How far t' may be from t.
            enough: It may stop below this, (n,).
        """
        return None

    def zcdp_tail(self, s: float) -> float:
        """A bound on K(s')/(s'(s'+1)) for all s' >= s: K(s') <= s' times the largest loss."""
        return max(self.top.loss, 0.0) / (s + 1) * (1 + 8 * U)

    def root(self, delta: float) -> tuple[float, float] | None:
        """About where a closed form meets delta, and -d log delta / d eps there; uncertified; None where bisection must do."""
        return None

    def inverse(self, low_delta: float, high_delta: float) -> tuple[float, float] | None:
        """Certified bounds on eps, where there is a formula.

        Args:
            low_delta: At most the finite part of delta at the upper end.
            high_delta: At least the finite part of delta at the lower end.
        """
        return None

    @property
    def has_closed_form(self) -> bool:
        """Whether `delta` answers."""
        return self.delta(np.zeros(1)) is not None

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Closed form of E_P[(1 - e^{eps - L})_+ | L < inf] as (lower, upper), or None where there is none."""
        return None


@dataclass(frozen=True, slots=True)
class Pair(ABC):
    """One ordered pair (P, Q) by its family and its exact parameters; equal pairs are counted together."""

    merges: ClassVar[float] = math.inf  # so many pairs of the family make one summand
    envelopes: ClassVar[float] = 0  # of so many uses in all `merged` has profiles that no member need have at all eps

    @abstractmethod
    def repeated(self, count: int) -> Summand:
        """The composition of `count` independent copies."""

    def revealed(self) -> Fraction | None:
        """P(L = inf) of one copy, exact; None where only its summand bounds it."""
        return None

    def gaussian(self) -> Fraction | None:
        """The mu squared of the least G_mu that lies below T everywhere, alpha -> 0 included; None: unknown."""
        return None

    @classmethod
    def merged(cls, uses: Sequence[tuple[Any, int]]) -> list[Summand]:
        """All pairs of this family at once, each with its count, where they are so many that the family `merges`."""
        raise NotImplementedError(cls, len(uses))


class RenyiCurve(ABC):
    """An upper bound on the Renyi divergence at every order above 1: all that is known of some factors."""

    @abstractmethod
    def renyi(self, order: float) -> float:
        """An upper bound on D_order(P||Q), rounded up, order > 1; inf where nothing is known."""
