"""A composition: how often each factor was used, and the guarantees that follow.

Adding is O(1): a composition keeps its two parts, and counts equal factors together when first asked. A query costs one
line of some fifty frequencies for each distinct kind. The two directions are composed apart; the maximum is taken here.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from neartwin.checks import finite, in_floats, integer, made_of, one_of, open_probability, positive, several
from neartwin.errors import ParameterError
from neartwin.exact import End, FloatArray, Interval, Number, float_above, float_below, floats_around, rational
from neartwin.losses import directions
from neartwin.losses.directions import DirectedComposition
from neartwin.losses.inversion.contour_search import NARROW, Answer
from neartwin.losses.summands.base import Direction, Pair, RenyiCurve


class PrivacyLoss(ABC):
    """One use of a mechanism as the accountant sees it: frozen, hashable, exact parameters.

    Factors add and multiply: `50 * Laplace(epsilon="0.05") + Gaussian(mu="0.1")` is a composition.
    """

    __slots__ = ()
    both_ways: ClassVar[bool] = (
        False  # the same pairs and curves in every direction, so that one direction answers for all
    )

    @abstractmethod
    def dominating_pair(self, direction: Direction) -> Pair | None:
        """A pair that dominates every such mechanism in this direction; None when only `renyi` bounds it."""

    def attained_pair(self, direction: Direction) -> Pair | None:
        """A pair that one such mechanism has, so that no upper bound can be lower; None when nothing is known."""
        return self.dominating_pair(direction)

    def renyi(self, direction: Direction) -> RenyiCurve | None:
        """A further upper bound that may beat the pair, or stand in for it."""
        return None

    def stated_pure(self) -> Fraction | None:
        """The exact epsilon of one use in every direction, where the parameters state it; None where only a search bounds it."""
        return None

    def stated_rho(self) -> Fraction | None:
        """The exact least rho of one use under add/remove, approached at great whole orders; None where a search bounds it."""
        return None

    def __mul__(self, count: int) -> Composition:
        """`factor * n` or `n * factor`: n uses, their losses independent."""
        return Composition.of(self, count)

    __rmul__ = __mul__

    def __add__(self, other: PrivacyLoss | Composition) -> Composition:
        """`factor + other`: one use of each."""
        return Composition.of(self) + other


class PureLoss(PrivacyLoss):
    """A mechanism whose parameter epsilon is its pure guarantee, with one pair in every direction."""

    __slots__ = ()
    both_ways: ClassVar[bool] = True
    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        """epsilon: the pure guarantee of one use."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))

    def stated_pure(self) -> Fraction:
        """Its parameter."""
        return self.epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperBound(PrivacyLoss):
    """No more loss than another mechanism has, as theorems say of samples and groups. None need have it: it is in no lower end.

    Attributes:
        of: The other mechanism.

    >>> from neartwin.losses import Pure
    >>> bound = (1 * UpperBound(of=Pure(epsilon=1))).delta(0.0)
    >>> bound.lower, bound.upper
    (0.0, 0.462117157260...)
    """

    of: PrivacyLoss

    def __post_init__(self) -> None:
        other = made_of(PrivacyLoss, "a mechanism of neartwin.losses", of=self.of)
        object.__setattr__(self, "of", other.of if isinstance(other, UpperBound) else other)

    def dominating_pair(self, direction: Direction) -> Pair | None:
        """That of the other."""
        return self.of.dominating_pair(direction)

    def attained_pair(self, direction: Direction) -> None:
        """None is known."""

    def renyi(self, direction: Direction) -> RenyiCurve | None:
        """That of the other."""
        return self.of.renyi(direction)

    def stated_pure(self) -> Fraction | None:
        """That of the other."""
        return self.of.stated_pure()


DIRECTIONS: tuple[Direction, ...] = ("remove", "add", "replace")  # that may be asked for
MOST_USES = 10**12


class Composition:
    """Factors used together, each with its count; immutable, equal when the counts are equal.

    Add with `+`, repeat with `*`, or build from a mapping by `compose`. All queries are vectorised, all answers
    certified: the true value of the stated mechanisms, in their worst direction, lies in the interval.

    >>> from neartwin.losses import Gaussian, Laplace, RandomizedResponse
    >>> whole = 50 * Laplace(epsilon="0.05") + 50 * Gaussian(mu="0.1") + 20 * RandomizedResponse(epsilon="0.3")
    >>> eps = whole.epsilon(1e-6)
    >>> eps.upper, eps.width < 1e-9, eps.method
    (7.56659362081..., True, 'contour')
    """

    __slots__ = ("_parts", "_sides", "_uses")
    _parts: tuple[tuple[Composition | PrivacyLoss, int], ...]
    _uses: Mapping[PrivacyLoss, int] | None
    _sides: dict[Direction, DirectedComposition]

    @staticmethod
    def of(factor: PrivacyLoss, count: int = 1) -> Composition:
        """So many uses of one factor.

        Args:
            factor: The factor.
            count: The number of uses, a whole number from 1.
        """
        return _make(((factor, _counted(count)),))

    @property
    def uses(self) -> Mapping[PrivacyLoss, int]:
        """How often each factor was used; read-only."""
        if self._uses is None:
            counts = _count(self)
            if max(counts.values()) > MOST_USES:
                raise ParameterError("count", max(counts.values()), "must not exceed 10^12")
            self._uses = MappingProxyType(counts)
        return self._uses

    def __add__(self, other: Composition | PrivacyLoss) -> Composition:
        """Both together."""
        if not isinstance(other, Composition | PrivacyLoss):
            return NotImplemented
        return _make(((self, 1), (other, 1)))

    __radd__ = __add__

    def __mul__(self, count: int) -> Composition:
        """The composition, `count` times over; a whole number from 1."""
        return _make(((self, _counted(count)),))

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        """Equal counts of equal factors."""
        return dict(self.uses) == dict(other.uses) if isinstance(other, Composition) else NotImplemented

    def __hash__(self) -> int:
        """By counts."""
        return hash(frozenset(self.uses.items()))

    def __repr__(self) -> str:
        """As it would be written."""
        return " + ".join(f"{count} * {factor!r}" for factor, count in self.uses.items())

    def sides(self, direction: Direction | None) -> list[DirectedComposition]:
        """The directions whose maximum answers, kept; None is both of add/remove, `replace` both of replace-one."""
        if direction is not None:
            one_of(DIRECTIONS, direction=direction)
        wanted: tuple[Direction, ...] = ("remove", "add") if direction is None else (direction,)
        wanted = ("replace", "replace_back") if direction == "replace" else wanted
        if all(type(factor).both_ways for factor in self.uses):
            wanted = ("remove",)
        for one in wanted:
            if one not in self._sides:
                self._sides[one] = DirectedComposition.of(self.uses, one)
        sides = [self._sides[one] for one in wanted]
        return sides[:1] if len(sides) > 1 and sides[0] == sides[1] else sides

    def epsilon(self, delta: Number, *, direction: Direction | None = None, rtol: float = NARROW) -> Interval[float]:
        """The least eps >= 0 for which the composition is (eps, delta)-DP.

        It is inf if the probability of revealing everything exceeds delta.

        Args:
            delta: Strictly between 0 and 1, exact; `pure` answers for 0.
            direction: One direction alone ("remove", "add"), or replace-one; None for the worst of add and remove.
            rtol: The relative width worth paying for if the losses are nearly atomic, at most 1e-2. The result is
                proved for every rtol. The result for a lesser width lies inside that for a greater one.

        Returns:
            An interval that holds eps.

        Raises:
            ParameterError: A number is out of bounds.

        Source:
            Gopi, Lee, Wutschitz 2021 for the inversion.

        >>> from neartwin.losses import Gaussian
        >>> (4 * Gaussian(mu="0.5")).epsilon("1e-6").method
        'closed form'
        """
        exact = open_probability(delta=rational(delta=delta))
        low, high = floats_around(exact)
        if low <= 0:
            raise ParameterError("delta", delta, "must not be below 5e-324, the least float above 0")
        if not (type(rtol) is float and 0 < rtol <= 1e-2) and positive(rtol=rtol) > 1e-2:
            raise ParameterError("rtol", rtol, "must not exceed 0.01")
        first, *others = self.sides(direction)
        answers = [first.epsilon(low, high, rtol)]
        for other in others:
            slope = answers[0].slope
            if not (answers[0].lower > 0 and other.meets(answers[0].lower, low, slope)):
                answers.append(other.epsilon(low, high, rtol))
        found = _greatest(answers)
        if found.upper == math.inf:  # floats cannot tell whether what is revealed is exactly delta
            return replace(found, upper=max(found.lower, *(one.finite_top(exact) for one in self.sides(direction))))
        return found

    def delta(self, eps: float | FloatArray, *, direction: Direction | None = None) -> Interval[End]:
        """The least delta for which the composition is (eps, delta)-DP, at each eps.

        Args:
            eps: Any finite numbers, any shape.
            direction: As of `epsilon`.

        Returns:
            An interval of the shape of eps.

        Raises:
            ParameterError: An eps is NaN or infinite.

        >>> from neartwin.losses import Laplace
        >>> whole = 100 * Laplace(epsilon="0.1")
        >>> (whole.delta(np.array([1.0, 2.0])).width < 1e-6).all()
        np.True_
        """
        values = _checked(eps)
        flat = values.ravel()
        bounds = [one.delta(flat) for one in self.sides(direction)]
        lower = np.maximum.reduce([f[0] for f in bounds]).reshape(values.shape)
        upper = np.maximum.reduce([f[1] for f in bounds]).reshape(values.shape)
        method = ", ".join(sorted({str(name) for f in bounds for name in f[2]}))
        return _interval(lower, upper, method)

    def pure(self) -> Interval[float]:
        """The pure guarantee: the largest privacy loss, inf where it is unbounded or all may be revealed."""
        return _greatest([one.pure() for one in self.sides(None)])

    def renyi(self, order: float, *, direction: Direction | None = None) -> Interval[float]:
        """The Renyi divergence of one order, the worst over both directions; inf if everything may be revealed.

        Args:
            order: At least 1, where it is the Kullback-Leibler divergence.
            direction: As of `epsilon`.

        Raises:
            ParameterError: The order is below 1 or infinite.

        Source:
            Mironov 2017.

        >>> from neartwin.losses import Gaussian
        >>> 4.0 in (2 * Gaussian(mu=1)).renyi(4.0)
        True
        """
        if not finite(order=order) >= 1 or order > sys.float_info.max:
            raise ParameterError("order", order, "must be at least 1, where it is the KL divergence")
        return _greatest([one.renyi(float(order)) for one in self.sides(direction)])

    def tradeoff(self, alpha: float | FloatArray, *, direction: Direction | None = None) -> Interval[End]:
        """T(alpha), the least type-II error of any test at level alpha, in the worse direction.

        Args:
            alpha: Levels in [0, 1], any shape.
            direction: As of `epsilon`.

        Returns:
            An interval. The lower end is a guarantee. Some attacker does as well as the upper end against the stated
                mechanisms.

        Raises:
            ParameterError: A level is outside [0, 1].

        Source:
            Dong, Roth, Su 2022, definition 2.1.

        >>> from neartwin.losses import Gaussian
        >>> 0.61085630835463903 in (4 * Gaussian(mu="0.5")).tradeoff(0.1)
        True
        """
        values = _checked(alpha, "alpha")
        if np.any((values < 0) | (values > 1)):
            raise ParameterError("alpha", alpha, "must lie in [0, 1]")
        bounds = [one.tradeoff(values.ravel()) for one in self.sides(direction)]
        lower = np.minimum.reduce([f[0] for f in bounds]).reshape(values.shape)
        upper = np.minimum.reduce([f[1] for f in bounds]).reshape(values.shape)
        return _interval(lower, upper, "convex envelope")

    def advantage(self, *, direction: Direction | None = None) -> Interval[float]:
        """The attacker's advantage max(TPR - FPR), the total variation distance: delta at eps = 0.

        >>> from neartwin.losses import Gaussian
        >>> 0.38292492254802621 in (1 * Gaussian(mu=1)).advantage()
        True
        """
        return self.delta(0.0, direction=direction)

    def tpr(self, fpr: float | FloatArray, *, direction: Direction | None = None) -> Interval[End]:
        """The best true positive rate of a membership attack at each false positive rate: 1 - T.

        Args:
            fpr: False positive rates in [0, 1], any shape.
            direction: As of `epsilon`.
        """
        curve: Interval[End] = self.tradeoff(fpr, direction=direction)
        lower, upper = (np.clip(1 - np.asarray(end), 0.0, 1.0) for end in (curve.upper, curve.lower))
        return _interval(np.maximum(lower - 1e-16, 0.0), np.minimum(upper + 2e-16, 1.0), curve.method)

    def gdp(self, delta: Number) -> Interval[float]:
        """The least mu for which T >= G_mu (x) f_{0,delta} at all alpha and in both directions.

        It is inf when more than delta may be revealed, and, for a delta of 0, where a loss other than Gaussian is unbounded. The
        upper end with this delta prices the composition in a GDP account.

        Args:
            delta: The failure set aside, at least 0 and below 1.

        Raises:
            ParameterError: The delta is outside [0, 1).

        >>> from neartwin.losses import Gaussian
        >>> mu = (4 * Gaussian(mu="0.5")).gdp("1e-9")
        >>> bool(0.99 < mu.lower <= mu.upper < 1.0001)
        True
        """
        exact = rational(delta=delta)
        given = max(float_below(open_probability(delta=exact)), 1e-300) if exact else 0.0
        if given and self.delta(0.0).upper <= given:  # P and Q are equal but for delta
            return Interval(0.0, 0.0, "failure alone")
        low, high = directions.gdp(self.sides(None), given)
        return Interval(low, high, "profile chords")

    def zcdp(self) -> Interval[float]:
        """The least rho with D_order <= rho order at every order above 1, both directions; inf where there is none.

        Bun, Steinke 2016. Lower end: the divergence of some order on a grid.

        >>> from neartwin.losses import Laplace
        >>> rho = (10 * Laplace(epsilon=1)).zcdp()
        >>> bool(3.6787 < rho.lower <= 3.6787944117144232 <= rho.upper < 3.68)
        True
        """
        low, high = directions.zcdp(self.sides(None))
        stated = self.stated_rho()
        high = high if stated is None else min(high, float_above(stated))
        return Interval(min(low, high), high, "convex chords")

    def stated_rho(self) -> Fraction | None:
        """The exact rho where the parameters of all factors state theirs, else None.

        >>> from neartwin.losses import DiscreteGaussian, Gaussian
        >>> (3 * Gaussian(mu=1) + DiscreteGaussian(sigma2=1)).stated_rho()
        Fraction(2, 1)
        """
        parts = [(factor.stated_rho(), count) for factor, count in self.uses.items()]
        if any(rho is None for rho, _ in parts):
            return None
        return sum((rho * count for rho, count in parts if rho is not None), Fraction(0))


def compose(uses: Mapping[PrivacyLoss, int] | Iterable[PrivacyLoss | Composition]) -> Composition:
    """A composition from a mapping of factor to count, or from an iterable of factors and compositions.

    Errors: `ParameterError` for no factor at all, or a count that is not a whole number from 1.

    >>> from neartwin.losses import Gaussian, compose
    >>> compose({Gaussian(mu=1): 2}) == Gaussian(mu=1) + Gaussian(mu=1)
    True
    """
    listed: Any = uses.items() if isinstance(uses, Mapping) else ((one, 1) for one in several(uses=uses))
    kinds: Any = Composition | PrivacyLoss
    pairs = [(made_of(kinds, "mechanisms of neartwin.losses", uses=part), count) for part, count in listed]
    parts = tuple((part, _counted(count)) for part, count in pairs)
    if not parts:
        raise ParameterError("uses", uses, "must name at least one factor")
    return _make(parts)


def _make(parts: tuple[tuple[Composition | PrivacyLoss, int], ...]) -> Composition:
    composition = object.__new__(Composition)
    composition._parts, composition._uses, composition._sides = parts, None, {}
    return composition


def _counted(count: int) -> int:
    if type(count) is int and 0 < count <= MOST_USES:
        return count
    if integer(at_least=1, count=count) > MOST_USES:
        raise ParameterError("count", count, "must not exceed 10^12")
    return int(count)


def _count(composition: Composition) -> dict[PrivacyLoss, int]:
    """How often each factor was used; every part is looked at once, however often it stands in others."""
    result: dict[PrivacyLoss, int] = {}  # in written order
    inner_first: list[Composition] = []  # the compositions inside that are not counted yet, each after those inside it
    seen, stack = {id(composition)}, [(composition, iter(composition._parts))]  # noqa: SLF001
    while stack:
        for part, _ in stack[-1][1]:
            if not isinstance(part, Composition):
                result.setdefault(part, 0)
            elif part._uses is not None:  # noqa: SLF001 - what it grew from is mostly counted already
                result.update((factor, result.get(factor, 0)) for factor in part._uses)  # noqa: SLF001
            elif id(part) not in seen:
                seen.add(id(part))
                stack.append((part, iter(part._parts)))  # noqa: SLF001
                break
        else:
            inner_first.append(stack.pop()[0])
    times = {id(composition): 1}
    for one in reversed(inner_first):
        many = times[id(one)]
        for part, count in one._parts:  # noqa: SLF001
            if not isinstance(part, Composition):
                result[part] += many * count
            elif part._uses is None:  # noqa: SLF001
                times[id(part)] = times.get(id(part), 0) + many * count
            else:
                for factor, inner in part._uses.items():  # noqa: SLF001
                    result[factor] += inner * count * many
    return result


def _checked(given: float | FloatArray, name: str = "eps") -> FloatArray:
    try:
        values = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(name, given, "must be a number or an array of numbers") from None
    except OverflowError:
        raise ParameterError(name, given, "must be within floating point, below 1.8e308 in size") from None
    if not np.all(np.isfinite(values)):
        raise ParameterError(name, given, "must be finite")
    return values


def _interval(lower: FloatArray, upper: FloatArray, method: str) -> Interval[End]:
    """Floats for a scalar question, arrays for an array."""
    return Interval(lower, upper, method) if lower.ndim else Interval(float(lower), float(upper), method)  # type: ignore[arg-type]


def _greatest(result: Sequence[Answer]) -> Interval[float]:
    """The maximum over directions: of the lower ends and of the upper ends; the worse direction's method."""
    worst = max(result, key=lambda answer: (answer.upper, answer.lower))
    return Interval(max(answer.lower for answer in result), worst.upper, worst.method)
