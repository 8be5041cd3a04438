"""Randomized response and what it dominates: pure eps, (eps, delta), k-ary response, and response that is silent half the time.

Every eps-DP mechanism is dominated by binary randomized response, every (eps, delta)-DP mechanism by the same after a
coin of bias delta that reveals all (Kairouz, Oh, Viswanath 2015, theorem 3.1). Losses are exactly -eps, 0, eps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from neartwin.checks import in_floats, integer, non_negative, open_probability
from neartwin.exact import Number, float_above, float_below, rational
from neartwin.losses.atoms import AtomicSum
from neartwin.losses.binomial import TwoSidedSum, fits
from neartwin.losses.loss import Factor, Lattice, Order, Pair, Summand
from neartwin.losses.rounding import ELEMENTARY, U
from neartwin.losses.weighted import Weighted

NONE = Fraction(0)


@dataclass(frozen=True, slots=True)
class ResponsePair(Pair):
    """Losses eps, -eps and, with `others` further answers, 0; infinite with probability delta. Symmetric."""

    epsilon: Fraction
    delta: Fraction
    others: int

    def __hash__(self) -> int:
        """Of whole numbers: a Fraction's own hash costs a modular power."""
        return hash((self.epsilon.as_integer_ratio(), self.delta.as_integer_ratio(), self.others))

    def repeated(self, count: int) -> Summand:
        """Masses e^eps, 1 and others over their sum: errors of eps (U eps), exp and the division."""
        e = float(self.epsilon)
        infinity = (max(float_below(self.delta), 0.0), float_above(self.delta)) if self.delta else (0.0, 0.0)
        if not self.others and fits(e, count):
            return TwoSidedSum(self.epsilon, count, infinity)
        small = math.exp(-e)
        whole = 1 + small + self.others * small
        atoms = [(e, 1 / whole), (-e, small / whole), (0.0, self.others * small / whole)]
        kept = [(l, p) for l, p in atoms if p > 0] if e else [(0.0, 1.0)]  # (0, delta): no loss but the infinite one
        losses = np.array([l for l, _ in kept])
        weighted = Weighted(
            losses=losses,
            log_masses=np.log([p for _, p in kept]),
            mass_error=np.full(len(kept), 4 * ELEMENTARY + 4 * U * e),
            loss_error=U * np.abs(losses),
        )
        step = self.epsilon if self.others else 2 * self.epsilon
        return AtomicSum(weighted, count, infinity=infinity, lattice=Lattice(self.epsilon, step))


@dataclass(frozen=True, slots=True, init=False)
class Pure(Factor):
    """Any eps-DP mechanism, as its worst case, binary randomized response.

    Errors: `ParameterError` unless epsilon is finite and positive. Kairouz, Oh, Viswanath 2015.

    >>> 1.0 in (10 * Pure(epsilon="0.1")).pure()
    True
    """

    both_ways: ClassVar[bool] = True
    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        """epsilon: the pure guarantee of one use."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))

    def above(self, order: Order) -> Pair:
        """The same pair in every order."""
        del order
        return ResponsePair(self.epsilon, NONE, 0)

    def stated_pure(self) -> Fraction | None:
        """Its parameter."""
        return self.epsilon


@dataclass(frozen=True, slots=True, init=False)
class Approx(Factor):
    """Any (eps, delta)-DP mechanism, as its worst case.

    Errors: `ParameterError` unless epsilon is finite, not negative and 0 <= delta < 1. Kairouz, Oh, Viswanath 2015.

    >>> 6.571974667452005 in (200 * Approx(epsilon="0.1", delta="1e-8")).epsilon(1e-5)
    True
    """

    both_ways: ClassVar[bool] = True
    epsilon: Fraction
    delta: Fraction

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        """epsilon, delta: the guarantee of one use."""
        size = non_negative(epsilon=rational(epsilon=epsilon))
        object.__setattr__(self, "epsilon", in_floats(epsilon=size) if size else size)
        share = rational(delta=delta)
        object.__setattr__(self, "delta", open_probability(delta=share) if share else share)

    def __hash__(self) -> int:
        """Of whole numbers."""
        return hash((self.epsilon.as_integer_ratio(), self.delta.as_integer_ratio()))

    def above(self, order: Order) -> Pair:
        """The same pair in every order."""
        del order
        return ResponsePair(self.epsilon, self.delta, 0)

    def stated_pure(self) -> Fraction | None:
        """Its parameter, where no delta stands beside."""
        return None if self.delta else self.epsilon


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse(Factor):
    """The true one of k answers with odds e^eps against each other one.

    Errors: `ParameterError` unless epsilon is positive and answers is at least 2. Warner 1965; Kairouz et al. 2016.

    >>> (20 * RandomizedResponse(epsilon="0.3", answers=4)).epsilon(1e-6).width < 1e-9
    True
    """

    both_ways: ClassVar[bool] = True
    epsilon: Fraction
    answers: int

    def __init__(self, *, epsilon: Number, answers: int = 2) -> None:
        """epsilon: log of the odds; answers: how many there are."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))
        object.__setattr__(self, "answers", in_floats(answers=integer(at_least=2, answers=answers)))

    def __hash__(self) -> int:
        """Of whole numbers."""
        return hash((self.epsilon.as_integer_ratio(), self.answers))

    def above(self, order: Order) -> Pair:
        """The same pair in every order: P names one answer, Q another, the rest have ratio 1."""
        del order
        return ResponsePair(self.epsilon, NONE, self.answers - 2)

    def stated_pure(self) -> Fraction | None:
        """Its parameter."""
        return self.epsilon


@dataclass(frozen=True, slots=True, init=False)
class Leak(Factor):
    """With probability delta everything is revealed, otherwise nothing: (0, delta).

    Errors: `ParameterError` unless 0 < delta < 1.

    >>> 0.75 in (2 * Leak(delta="0.5")).delta(1.0)
    True
    """

    both_ways: ClassVar[bool] = True
    delta: Fraction

    def __init__(self, *, delta: Number) -> None:
        """delta: the probability of revealing all."""
        object.__setattr__(self, "delta", open_probability(delta=rational(delta=delta)))

    def above(self, order: Order) -> Pair:
        """The same pair in every order."""
        del order
        return ResponsePair(NONE, self.delta, 0)


@dataclass(frozen=True, slots=True)
class SilentPair(Pair):
    """Losses eps, 0 and -eps of masses t/2, 1/2 and (1 - t)/2, t = 1 / (1 + e^-eps). Symmetric."""

    epsilon: Fraction

    def repeated(self, count: int) -> Summand:
        """Masses e^eps, e^eps + 1 and 1 over twice their sum: errors of eps (U eps), exp and the division."""
        e = float(self.epsilon)
        small = math.exp(-e)
        masses = (1 / (2 + 2 * small), 0.5, small / (2 + 2 * small))
        return three_losses(self.epsilon, masses, count, error=4 * ELEMENTARY + 4 * U * e)


def three_losses(epsilon: Fraction, masses: tuple[float, float, float], count: int, *, error: float) -> Summand:
    """So many copies of the losses epsilon, 0 and -epsilon, given their masses with a relative error; one may be 0."""
    e = float(epsilon)
    weighted = Weighted(
        losses=np.array([loss for loss, mass in zip((e, 0.0, -e), masses, strict=True) if mass > 0]),
        log_masses=np.array([math.log(mass) for mass in masses if mass > 0]),
        mass_error=np.array([error for mass in masses if mass > 0]),
        loss_error=np.array([size for size, mass in zip((U * e, 0.0, U * e), masses, strict=True) if mass > 0]),
    )
    return AtomicSum(weighted, count, lattice=Lattice(epsilon, epsilon))


@dataclass(frozen=True, slots=True, init=False)
class SilentResponse(Factor):
    """Binary randomized response that says nothing half of the time: optimised unary encoding, Hadamard response.

    Errors: `ParameterError` unless epsilon is positive. Wang, Blocki, Li, Jha 2017; Acharya, Sun, Zhang 2019.

    >>> 0.23105857863000487 in (1 * SilentResponse(epsilon=1)).delta(0.0).outward(100)  # half of tanh(1/2)
    True
    """

    both_ways: ClassVar[bool] = True
    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        """epsilon: of the response where it speaks."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))

    def above(self, order: Order) -> Pair:
        """The same pair in every order."""
        del order
        return SilentPair(self.epsilon)

    def stated_pure(self) -> Fraction | None:
        """Its parameter."""
        return self.epsilon
