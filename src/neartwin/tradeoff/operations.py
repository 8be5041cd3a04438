"""Operations on trade-off functions: inverse, symmetrisation, maximum, groups, failure mass, composition, duality.

Each value is frozen around the curves it is made of (Dong, Roth, Su 2022, sections 2 to 4). Composition here is exact.
Where a product has no closed form, `neartwin.losses.compose` bounds it.

Statements become curves and curves become pairs of laws. A set of (epsilon, delta) guarantees is the supremum of the
f_{epsilon,delta}, which is again a trade-off function (Dong, Roth, Su 2022, Prop. 2.12). Every trade-off function is T(P, Q) of
some pair. One such pair has P uniform on [0, 1], and Q with distribution function f(1 - x) below 1 and the atom 1 - f(0) at 1.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from flint import arb

from neartwin.balls import Exact, ball
from neartwin.checks import integer, probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff import functions
from neartwin.tradeoff.families import EpsilonDelta, Gaussian, Laplace, identity
from neartwin.tradeoff.finite import FinitePair, product, randomized_response_power
from neartwin.tradeoff.functions import Argument, TradeOff
from neartwin.tradeoff.polygons import delta_by_points, knots_below, pair_through

MOST_OUTCOMES = 1 << 22  # of a product of finite pairs: 32 MB an array


@dataclass(frozen=True, slots=True)
class Inverse(functions.DerivedCurve):
    """f^-1(a) = inf of t with f(t) <= a, for a curve without a closed form of it: by bisection, bracketed."""

    def inverse(self) -> TradeOff:
        """The curve it was made from."""
        return self.of

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """Both ends of a cell in which f crosses alpha: surely above it at the lower, surely not at the upper."""
        return _crossing(self.of, functions.as_floats(functions.levels(alpha=alpha)))

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta."""
        beta = self.beta(alpha)
        lower, upper = functions.ends(beta)
        return functions.clipped(np.nextafter(1 - upper, -1), np.nextafter(1 - lower, 2), beta.method)

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """1 - e^epsilon (1 - delta of the curve at -epsilon)."""
        wanted = functions.finite(epsilon=epsilon)
        opposite = self.of.delta(np.frompyfunc(lambda one: -Fraction(one), 1, 1)(wanted))

        def turned(end: float, exponent: Exact) -> arb:
            growth = ball(exponent).exp()
            return (1 - growth * (1 - ball(end))).max(1 - growth)

        return functions.mapped(turned, opposite, wanted, method="turned")


def _crossing(curve: TradeOff, level: FloatArray) -> Interval[FloatArray]:
    """Where a curve crosses each level: surely above it at the lower end, surely not at the upper.

    False position (Illinois) on the middles of the intervals finds the place; steps that grow from it prove both ends.
    """
    flat = level.ravel()
    low, high = np.zeros_like(flat), np.ones_like(flat)
    above, below = np.full_like(flat, 0.5 * float(sum(functions.ends(curve.beta(np.array(0.0)))))) - flat, -flat
    point, open_ = np.zeros_like(flat), np.flatnonzero(above > 0)
    for turn in range(60):
        if not open_.size:
            break
        a, b, fa, fb = low[open_], high[open_], above[open_], below[open_]
        halved = (fb == 0) | (turn % 4 == 3)  # where the curve stays on the level there is no slope to follow
        x = a + (b - a) * np.where(halved, 0.5, fa / (fa - fb))
        moved = np.abs(x - point[open_])
        point[open_] = x
        value = 0.5 * sum(functions.ends(curve.beta(x))) - flat[open_]
        up = value > 0
        # the end that stays counts half, so that it moves soon
        low[open_], above[open_] = np.where(up, x, a), np.where(up, value, 0.5 * fa)
        high[open_], below[open_] = np.where(up, b, x), np.where(up, 0.5 * fb, value)
        open_ = open_[moved > 1e-14 * x]
    left = _proved(curve, flat, point, -1)
    right = _proved(curve, flat, point, 1)
    return functions.clipped(left.reshape(level.shape), right.reshape(level.shape), "false position")


def _proved(curve: TradeOff, level: FloatArray, point: FloatArray, side: int) -> FloatArray:
    """The first of the places point + side * step, for growing steps, where the curve is surely on that side of the level."""
    found, step, open_ = point.copy(), 4 * functions.UNIT * point + functions.TINY, np.arange(point.size)
    while open_.size:
        x = np.clip(point[open_] + side * step[open_], 0.0, 1.0)
        lower, upper = functions.ends(curve.beta(x))
        sure = (lower > level[open_]) | (x <= 0) if side < 0 else (upper <= level[open_]) | (x >= 1)
        found[open_[sure]] = x[sure]
        open_ = open_[~sure]
        step[open_] *= 16
    return found


@dataclass(frozen=True, slots=True)
class Maximum:
    """The pointwise maximum: what holds when each of the curves is a valid lower bound. Convex as they are."""

    of: tuple[TradeOff, ...]

    @property
    def symmetric(self) -> bool:
        """True if every part is."""
        return all(curve.symmetric for curve in self.of)

    def inverse(self) -> TradeOff:
        """The maximum of the inverses."""
        return Maximum(tuple(curve.inverse() for curve in self.of))

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The largest, end by end."""
        parts = [functions.ends(curve.beta(alpha)) for curve in self.of]
        return functions.clipped(
            np.max([lower for lower, _ in parts], axis=0), np.max([upper for _, upper in parts], axis=0), "maximum"
        )

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """The smallest, end by end."""
        parts = [functions.ends(curve.power(alpha)) for curve in self.of]
        return functions.clipped(
            np.min([lower for lower, _ in parts], axis=0), np.min([upper for _, upper in parts], axis=0), "maximum"
        )

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """A bracket by points and corners; never above the smallest of the parts' own."""
        wanted = functions.as_floats(functions.finite(epsilon=epsilon))
        smallest = np.min([functions.ends(curve.delta(epsilon))[1] for curve in self.of], axis=0)
        lower, upper = functions.ends(delta_by_points(self, wanted))
        upper = np.minimum(upper, smallest)
        return functions.clipped(np.minimum(lower, upper), upper, "maximum")


def maximum(*curves: TradeOff) -> TradeOff:
    """The best of several lower bounds that all hold: their pointwise maximum, again a trade-off function.

    Args:
        curves: At least one curve.

    Returns:
        The maximum.

    Raises:
        ParameterError: There is no curve.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> both = maximum(epsilon_delta(1), epsilon_delta("0.1", "0.2"))
    >>> both.beta("0.3").lower == epsilon_delta("0.1", "0.2").beta("0.3").lower
    True
    """
    if not curves:
        raise ParameterError("curves", curves, "must not be empty")
    return curves[0] if len(curves) == 1 else Maximum(curves)


def symmetrised(curve: TradeOff) -> TradeOff:
    """f^S = max(f, f^-1): a mechanism that is f-DP for all ordered neighbours is f^S-DP.

    Swapping S and S' turns T(M(S), M(S')) into its inverse, so f^-1 is a lower bound as well.

    Args:
        curve: f.

    Returns:
        f^S.

    >>> from neartwin.tradeoff.finite import finite_pair
    >>> f = finite_pair(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"])
    >>> round(symmetrised(f).beta("0.15").lower, 12)
    0.55
    """
    return curve if curve.symmetric else Maximum((curve, curve.inverse()))


@dataclass(frozen=True, slots=True)
class WithFailure(functions.DerivedCurve):
    """f (x) f_{0,delta}: (1 - delta) f(a/(1 - delta)), and 0 from 1 - delta on. The mass delta may give all away."""

    failure: Fraction

    def inverse(self) -> TradeOff:
        """The inverse, weakened alike."""
        return WithFailure(self.of.inverse(), self.failure)

    def _inner(self, alpha: Argument) -> Any:
        """The type I error alpha/(1 - delta), exactly, cut at 1."""
        share = np.frompyfunc(lambda level: min(Fraction(level) / (1 - self.failure), Fraction(1)), 1, 1)
        return share(functions.levels(alpha=alpha))

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The scaled curve."""
        return functions.mapped(
            lambda end: (1 - self.failure) * Fraction(end),
            self.of.beta(self._inner(alpha)),
            method="failure mass apart",
        )

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """The mass delta + (1 - delta) times the inner power."""
        return self._with_mass(self.of.power(self._inner(alpha)))

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """The mass delta + (1 - delta) times the inner delta."""
        return self._with_mass(self.of.delta(epsilon))

    def _with_mass(self, inner: Interval[FloatArray]) -> Interval[FloatArray]:
        mass, kept = self.failure, 1 - self.failure
        return functions.mapped(lambda end: mass + kept * Fraction(end), inner, method="failure mass apart")


def with_failure(curve: TradeOff, delta: Number) -> TradeOff:
    """The curve composed with f_{0,delta}: with probability delta nothing is promised.

    Args:
        curve: The curve.
        delta: The failure probability.

    Returns:
        The new curve.

    >>> from neartwin.tradeoff.families import gaussian
    >>> round(with_failure(gaussian(1), "0.01").beta("0.1").lower, 12)
    0.602569145923
    """
    mass = probability(delta=rational(delta=delta))
    if mass == 0:
        return curve
    match curve:
        case WithFailure(of=inner, failure=own):
            return with_failure(inner, 1 - (1 - own) * (1 - mass))
        case EpsilonDelta(epsilon=epsilon, delta_mass=own):
            return EpsilonDelta(epsilon, 1 - (1 - own) * (1 - mass))
        case _:
            return EpsilonDelta(Fraction(0), Fraction(1)) if mass == 1 else WithFailure(curve, mass)


@dataclass(frozen=True, slots=True)
class Group(functions.DerivedCurve):
    """1 - (1 - f)^{o k}: the curve of k units at once, for a mechanism that is f-DP for one (Thm 2.14)."""

    k: int

    def inverse(self) -> TradeOff:
        """The group of the inverse."""
        return Group(self.of.inverse(), self.k)

    def _steps(self, alpha: Argument) -> tuple[FloatArray, FloatArray]:
        # 1 - f increases, so each end steps on its own
        low, high = functions.ends(self.of.power(alpha))
        for _ in range(self.k - 2):
            low, high = functions.ends(self.of.power(low))[0], functions.ends(self.of.power(high))[1]
        return low, high

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The curve f after k - 1 steps of 1 - f."""
        if isinstance(self.of, EpsilonDelta):
            curve = self.of
            return functions.closed_form(
                lambda a: 1 - curve.stepped(a, self.k), functions.levels(alpha=alpha), method="iterated"
            )
        low, high = self._steps(alpha)
        return functions.clipped(
            functions.ends(self.of.beta(high))[0], functions.ends(self.of.beta(low))[1], "iterated"
        )

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """All k steps of 1 - f."""
        if isinstance(self.of, EpsilonDelta):
            curve = self.of
            return functions.closed_form(
                lambda a: curve.stepped(a, self.k), functions.levels(alpha=alpha), method="iterated"
            )
        low, high = self._steps(alpha)
        return functions.clipped(
            functions.ends(self.of.power(low))[0], functions.ends(self.of.power(high))[1], "iterated"
        )

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """A bracket by points and corners."""
        return delta_by_points(self, functions.as_floats(functions.finite(epsilon=epsilon)))


def group(curve: TradeOff, k: int) -> TradeOff:
    """The curve of k units at once: G_{k mu} of a Gaussian, shift k s of a Laplace curve, else the iterate.

    Args:
        curve: The curve of one unit.
        k: At least 1.

    Returns:
        The curve of the group.

    >>> from neartwin.tradeoff.families import epsilon_delta, gaussian
    >>> group(gaussian("0.4"), 3) == gaussian("1.2")
    True
    >>> round(group(epsilon_delta("0.5"), 4).beta("0.1").lower, 12)
    0.334702476867
    """
    units = integer(at_least=1, k=k)
    match curve:
        case Gaussian(mu_squared=square):
            return Gaussian(square * units**2)
        case Laplace(shift=shift):
            return Laplace(shift * units)
        case _:
            return curve if units == 1 else Group(curve, units)


def _factors(curves: tuple[TradeOff, ...]) -> tuple[Fraction, list[TradeOff]]:
    """The failure mass of all together, and the other factors with closed forms joined; units are dropped."""
    kept, square = Fraction(1), Fraction(0)
    pure: Counter[Fraction] = Counter()
    factors: list[TradeOff] = []
    for curve in curves:
        inner = curve
        if isinstance(inner, WithFailure):
            kept, inner = kept * (1 - inner.failure), inner.of
        match inner:
            case Gaussian(mu_squared=own):
                square += own
            case EpsilonDelta(epsilon=epsilon, delta_mass=mass):
                kept *= 1 - mass
                pure[epsilon] += 1
            case Laplace(shift=0):
                pass
            case _:
                factors.append(inner)
    del pure[Fraction(0)]
    for epsilon, times in pure.items():
        factors.append(EpsilonDelta(epsilon, Fraction(0)) if times == 1 else randomized_response_power(epsilon, times))
    return 1 - kept, [Gaussian(square), *factors] if square else factors


def compose(*curves: TradeOff) -> TradeOff:
    """The tensor product f (x) g = T(P x P', Q x Q'): the curve of mechanisms run one after the other, exactly.

    Gaussians add mu^2. Failure masses f_{0,delta} compose to 1 - prod(1 - delta_i) and stand apart. Equal f_{epsilon,0}
    are binomial. Finite pairs multiply outcome by outcome. The identity is the unit of every curve. If mechanism i is
    f_i-DP for every fixed past, the whole is f_1 (x) ... (x) f_n-DP. The curves must be fixed in advance; the
    mechanisms may be chosen adaptively.

    Args:
        curves: the factors, in any order. None at all give the identity.

    Returns:
        The product, with `beta`, `power` and `delta` as certified intervals.

    Raises:
        ParameterError: where a product of two factors has no closed form, or has more than 2^22 outcomes.

    Source: Dong, Roth, Su 2022, Prop. 3.1, Thm 3.2.

    >>> from neartwin.tradeoff.families import epsilon_delta, gaussian, laplace
    >>> compose(gaussian("0.3"), gaussian("0.4")) == gaussian("0.5")
    True
    >>> compose(epsilon_delta(0, "0.1"), epsilon_delta(0, "0.5")).delta_mass
    Fraction(11, 20)
    >>> compose(gaussian(1), laplace(1))
    Traceback (most recent call last):
    neartwin.errors.ParameterError: curves=... must be Gaussian, or finite, all of them: ...
    """
    failure, factors = _factors(curves)
    if not factors:
        return with_failure(identity(), failure)
    if len(factors) == 1:
        return with_failure(factors[0], failure)
    pairs = [randomized_response_power(f.epsilon, 1) if isinstance(f, EpsilonDelta) else f for f in factors]
    known = [pair for pair in pairs if isinstance(pair, FinitePair)]
    remedy = "neartwin.losses.compose(...).tradeoff(alpha) bounds the product of any two"
    if len(known) < len(pairs):
        rule = "must be Gaussian, or finite, all of them: other products have no closed form"
        raise ParameterError("curves", curves, rule, remedy=remedy)
    outcomes = math.prod(pair.P.size for pair in known)
    if outcomes > MOST_OUTCOMES:
        rule = f"must have at most {MOST_OUTCOMES} outcomes together, not {outcomes}"
        raise ParameterError("curves", f"{len(known)} finite pairs", rule, remedy=remedy)
    return with_failure(reduce(product, known), failure)


def from_profile(epsilon: Sequence[Number] | FloatArray, delta: Sequence[Number] | FloatArray) -> FinitePair:
    """The curve of a mechanism that is (epsilon_i, delta_i)-DP for every i: the largest of the f_{epsilon_i,delta_i}.

    Both orders of a pair are covered, so each statement gives the line and its mirror image. It is rounded down.

    Args:
        epsilon: (n,), none negative.
        delta: (n,) in [0, 1].

    Returns:
        The curve.

    Raises:
        ParameterError: The arrays differ in length, or a number is out of bounds.

    >>> curve = from_profile([0, 1], ["0.2", "0.05"])
    >>> round(curve.beta("0.3").lower, 9), round(curve.beta("0.01").lower, 9)
    (0.5, 0.922817182)
    """
    slope = functions.as_floats(functions.finite(epsilon=epsilon))
    if np.any(slope < 0):
        raise ParameterError("epsilon", epsilon, "must not be negative")
    lost = functions.as_floats(functions.levels(delta=delta))
    if slope.shape != lost.shape or slope.ndim != 1:
        raise ParameterError("delta", delta, "must give one value for each epsilon")
    # e^-e (1 - delta - a) is the line of slope e^-e with delta' = 1 - e^-e (1 - delta)
    mirrored = 1 - np.exp(-slope) * (1 - lost) * (1 - (8 + slope) * functions.UNIT)
    slopes = np.concatenate((slope, -slope, [0.0]))
    heights = np.concatenate((lost, np.clip(mirrored, 0.0, 1.0), [1.0 if slope.size else 0.0]))
    # the rounding of epsilon moves e^epsilon by |epsilon| units
    alphas, betas = knots_below(
        np.exp(slopes) * (1 + (8 + np.abs(slopes)) * functions.UNIT), 1 - heights - 8 * functions.UNIT
    )
    return pair_through(alphas, np.where(alphas >= 1, 0.0, np.maximum(betas - 16 * functions.UNIT, 0.0)))


def violations(
    function: Callable[[FloatArray], FloatArray], size: int = 2001, tolerance: float = 1e-12
) -> tuple[str, ...]:
    """The conditions of a trade-off function that a function breaks, as far as a grid can see.

    Convex and non-increasing leave a jump possible at 0 alone, so continuity is tested there.

    Args:
        function: A vectorised function on [0, 1].
        size: The number of grid points.
        tolerance: The error that counts as none.

    Returns:
        Names among "values in [0, 1]", "at most 1 - alpha", "non-increasing", "convex", "continuous"; () if none.

    >>> violations(lambda a: 1 - a), violations(lambda a: (1 - a) ** 0.5)
    ((), ('at most 1 - alpha', 'convex'))
    """
    tail = np.geomspace(1e-12, 0.01, size // 4)
    grid = np.unique(np.concatenate((np.linspace(0, 1, size), tail, 1 - tail)))
    value = np.asarray(function(grid), dtype=np.float64)
    if value.shape != grid.shape or not np.all(np.isfinite(value)):
        return ("values in [0, 1]",)
    broken = []
    if np.any(value < -tolerance) or np.any(value > 1 + tolerance):
        broken.append("values in [0, 1]")
    if np.any(value > 1 - grid + tolerance):
        broken.append("at most 1 - alpha")
    if np.any(np.diff(value) > tolerance):
        broken.append("non-increasing")
    share = (grid[2:] - grid[1:-1]) / (grid[2:] - grid[:-2])
    chord = share * value[:-2] + (1 - share) * value[2:]
    if np.any((value[1:-1] - chord)[1:] > tolerance) or value[1] > chord[0] + tolerance:
        broken.append("convex")
    near = np.asarray(function(np.array([0.0, 1e-300])), dtype=np.float64)
    if near[0] - near[1] > 1e-6:
        broken.append("continuous")
    return tuple(broken)


@dataclass(frozen=True, slots=True)
class WitnessPair:
    """P uniform on [0, 1] and Q with T(P, Q) = f: the test that rejects above 1 - alpha is best at every alpha."""

    curve: TradeOff

    def cdf_Q(self, x: FloatArray) -> Interval[FloatArray]:
        """Q[X <= x]: f(1 - x) below 1, all from 1 on."""
        points = np.asarray(x, dtype=np.float64)
        lower, upper = (
            np.where(points >= 1, 1.0, end) for end in functions.ends(self.curve.beta(1 - np.clip(points, 0.0, 1.0)))
        )
        return functions.certified(lower, upper, "f(1-x)")

    def atom(self) -> Interval[FloatArray]:
        """Q's mass at 1, where P has none: 1 - f(0)."""
        return self.curve.power(np.array(0.0))


def witness_pair(curve: TradeOff) -> WitnessPair:
    """A pair of laws with this trade-off function (Dong, Roth, Su 2022, Prop. 2.2, proof).

    Args:
        curve: The curve.

    Returns:
        The pair.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> round(float(witness_pair(epsilon_delta(1, "0.25")).atom().lower), 12)
    0.25
    """
    return WitnessPair(curve)
