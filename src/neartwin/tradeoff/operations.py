"""Operations on trade-off functions: inverse, symmetrisation, maximum, groups, failure mass and composition.

Each value is frozen around the curves it is made of (Dong, Roth, Su 2022, sections 2 to 4). Composition here is exact.
Where a product has no closed form, `neartwin.losses.compose` bounds it.

From statements to curves and back: a profile delta(epsilon) as a curve, validity, and a pair that has the curve.

A set of (epsilon, delta) guarantees is the supremum of the f_{epsilon,delta}, which is again a trade-off function
(Dong, Roth, Su 2022, Prop. 2.12); and every trade-off function is T(P, Q) of some pair, for instance of P uniform on
[0, 1] and Q with distribution function f(1 - x) below 1 and the atom 1 - f(0) at 1.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer, probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff.families import EpsilonDelta, Gaussian, Laplace, identity
from neartwin.tradeoff.finite import FinitePair, product, randomized_response_power
from neartwin.tradeoff.functions import TradeOff
from neartwin.tradeoff.polygons import delta_by_points, knots_below, pair_through, polygon_above
from neartwin.tradeoff.twofold import UNIT, Argument, certified, clipped, ends, exponential, levels, read

MOST_OUTCOMES = 1 << 22  # of a product of finite pairs: 32 MB an array


def _plain(epsilon: Argument) -> FloatArray:
    return read(epsilon=epsilon)[0]


def turned_delta(of: TradeOff, epsilon: Argument) -> Interval[FloatArray]:
    """The delta of the inverse curve: 1 - e^epsilon (1 - delta(-epsilon))."""
    high, low = read(epsilon=epsilon)
    lower, upper = ends(of.delta(-high))
    factor = exponential((high, low))
    with np.errstate(over="ignore", invalid="ignore"):
        value = [1 - factor * (1 - end) for end in (lower, upper)]
        room = 8 * UNIT * (1 + factor * (1 - lower))
    room = np.where(np.isfinite(room), room, 1.0)
    floor = np.maximum(0.0, -np.expm1(np.minimum(high, 0.0)))
    return clipped(
        np.maximum(np.nan_to_num(value[0]) - room, floor * (1 - 8 * UNIT)),
        np.maximum(np.nan_to_num(value[1]) + room, floor),
        "turned",
    )


@dataclass(frozen=True, slots=True)
class Inverse:
    """f^-1(a) = inf of t with f(t) <= a, for a curve without a closed form of it: by bisection, bracketed."""

    of: TradeOff

    @property
    def symmetric(self) -> bool:
        """As the curve it turns."""
        return self.of.symmetric

    def inverse(self) -> TradeOff:
        """The curve it was made from."""
        return self.of

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """Both ends of a cell in which f crosses alpha: surely above it at the lower, surely not at the upper."""
        level, _ = levels(alpha=alpha)
        low = _last_float(lambda at: ends(self.of.beta(at))[0] > level, level.shape)
        high = _last_float(lambda at: ends(self.of.beta(at))[1] > level, level.shape)
        return clipped(low, np.nextafter(np.maximum(low, high), 1.0) * (high > 0), "bisection")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta."""
        return _complement(self.beta(alpha))

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """1 - e^epsilon (1 - delta of the curve at -epsilon)."""
        return turned_delta(self.of, epsilon)


def _last_float(test: Callable[[FloatArray], NDArray[np.bool_]], shape: tuple[int, ...]) -> FloatArray:
    """The largest float in [0, 1] at which a test holds that holds up to a point; 0 if it never does.

    Floats of one sign are ordered as their bit patterns are, so 62 halvings of the patterns decide, at every scale.
    """
    low = np.zeros(shape, dtype=np.int64)
    high = np.full(shape, np.float64(1.0).view(np.int64), dtype=np.int64)
    for _ in range(62):
        middle = low + (high - low) // 2
        held = test(middle.view(np.float64))
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return low.view(np.float64)


def _complement(beta: Interval[FloatArray]) -> Interval[FloatArray]:
    lower, upper = ends(beta)
    low, high = 1 - upper, 1 - lower
    return clipped(np.nextafter(low, -1), np.nextafter(high, 2), beta.method)


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
        parts = [ends(curve.beta(alpha)) for curve in self.of]
        return clipped(
            np.max([lower for lower, _ in parts], axis=0), np.max([upper for _, upper in parts], axis=0), "maximum"
        )

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """The smallest, end by end."""
        parts = [ends(curve.power(alpha)) for curve in self.of]
        return clipped(
            np.min([lower for lower, _ in parts], axis=0), np.min([upper for _, upper in parts], axis=0), "maximum"
        )

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """By points and corners; never above the smallest of the parts' own."""
        wanted = _plain(epsilon)
        smallest = np.min([ends(curve.delta(epsilon))[1] for curve in self.of], axis=0)
        lower, upper = ends(delta_by_points(self, wanted))
        upper = np.minimum(upper, smallest)
        return clipped(np.minimum(lower, upper), upper, "maximum")


def maximum(*curves: TradeOff) -> TradeOff:
    """The best of several lower bounds that all hold: their pointwise maximum, again a trade-off function.

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

    >>> from neartwin.tradeoff.finite import finite_pair
    >>> f = finite_pair(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"])
    >>> round(symmetrised(f).beta("0.15").lower, 12)
    0.55
    """
    return curve if curve.symmetric else Maximum((curve, curve.inverse()))


@dataclass(frozen=True, slots=True)
class WithFailure:
    """f (x) f_{0,delta}: (1 - delta) f(a/(1 - delta)), and 0 from 1 - delta on. The mass delta may give all away."""

    of: TradeOff
    failure: Fraction

    @property
    def symmetric(self) -> bool:
        """As the curve it weakens."""
        return self.of.symmetric

    def inverse(self) -> TradeOff:
        """The inverse, weakened alike."""
        return WithFailure(self.of.inverse(), self.failure)

    def _inner(self, alpha: Argument) -> tuple[FloatArray, FloatArray, FloatArray]:
        level, rest = levels(alpha=alpha)
        kept = float(1 - self.failure)
        inside = np.clip((rest - float(self.failure)) / kept, 0.0, 1.0)
        return np.where(inside >= 0.5, np.minimum(level / kept, 1.0), 1 - inside), level, rest

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The scaled curve; its argument's own rounding is carried to both sides."""
        inner, _, rest = self._inner(alpha)
        kept = float(1 - self.failure)
        room = np.where((inner > 0) & (inner < 1), 4 * UNIT * inner, 0.0)
        lower = ends(self.of.beta(np.minimum(inner + room, 1.0)))[0] * kept * (1 - 4 * UNIT)
        upper = ends(self.of.beta(np.maximum(inner - room, 0.0)))[1] * kept * (1 + 4 * UNIT)
        gone = rest <= float(self.failure) * (1 - 2 * UNIT)
        return clipped(np.where(gone, 0.0, lower), np.where(gone, 0.0, upper), "failure mass apart")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """The mass delta + (1 - delta) times the inner power."""
        inner, _, rest = self._inner(alpha)
        kept, mass = float(1 - self.failure), float(self.failure)
        room = np.where((inner > 0) & (inner < 1), 4 * UNIT * inner, 0.0)
        lower = mass + kept * ends(self.of.power(np.maximum(inner - room, 0.0)))[0]
        upper = mass + kept * ends(self.of.power(np.minimum(inner + room, 1.0)))[1]
        gone = rest <= mass * (1 - 2 * UNIT)
        return clipped(
            np.where(gone, 1.0, lower * (1 - 8 * UNIT)),
            np.where(gone, 1.0, upper * (1 + 8 * UNIT)),
            "failure mass apart",
        )

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """The mass delta + (1 - delta) times the inner one."""
        lower, upper = ends(self.of.delta(epsilon))
        kept, mass = float(1 - self.failure), float(self.failure)
        return clipped(
            (mass + kept * lower) * (1 - 8 * UNIT), (mass + kept * upper) * (1 + 8 * UNIT), "failure mass apart"
        )


def with_failure(curve: TradeOff, delta: Number) -> TradeOff:
    """The curve composed with f_{0,delta}: with probability delta nothing is promised.

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
class Group:
    """1 - (1 - f)^{o k}: the curve of k units at once, for a mechanism that is f-DP for one (Thm 2.14)."""

    of: TradeOff
    k: int

    @property
    def symmetric(self) -> bool:
        """As the curve of one unit: the iterate of a symmetric curve is symmetric."""
        return self.of.symmetric

    def inverse(self) -> TradeOff:
        """The group of the inverse."""
        return Group(self.of.inverse(), self.k)

    def _steps(self, alpha: Argument) -> tuple[FloatArray, FloatArray]:
        low = high = levels(alpha=alpha)[0]
        for _ in range(self.k - 1):
            # 1 - f increases, so each end steps on its own
            low, high = ends(self.of.power(low))[0], ends(self.of.power(high))[1]
        return low, high

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The curve f after k - 1 steps of 1 - f."""
        if isinstance(self.of, EpsilonDelta):
            _, _, lower, upper = self.of.walk(*levels(alpha=alpha), self.k)
            return clipped(lower, upper, "iterated")
        low, high = self._steps(alpha)
        return clipped(ends(self.of.beta(high))[0], ends(self.of.beta(low))[1], "iterated")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """All k steps of 1 - f."""
        if isinstance(self.of, EpsilonDelta):
            lower, upper, _, _ = self.of.walk(*levels(alpha=alpha), self.k)
            return clipped(lower, upper, "iterated")
        low, high = self._steps(alpha)
        return clipped(ends(self.of.power(low))[0], ends(self.of.power(high))[1], "iterated")

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """By points and corners."""
        return delta_by_points(self, _plain(epsilon))


def group(curve: TradeOff, k: int) -> TradeOff:
    """The curve of k units at once, k >= 1: G_{k mu} of a Gaussian, shift k s of a Laplace curve, else the iterate.

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


def from_lines(epsilon: Sequence[Number] | FloatArray, delta: Sequence[Number] | FloatArray) -> FinitePair:
    """The least curve with these support lines, one order of the pair: f(a) >= 1 - delta - e^epsilon a for each.

    epsilon: (n,) of any sign; delta: (n,) in [0, 1]. Rounded down: a guarantee may rest on it.
    """
    slope, height = read(epsilon=epsilon), read(delta=delta)
    if slope[0].shape != height[0].shape or slope[0].ndim != 1:
        raise ParameterError("delta", delta, "must give one value for each epsilon")
    if np.any(height[0] < 0) or np.any(height[0] > 1):
        raise ParameterError("delta", delta, "must lie in [0, 1]")
    lines = np.append(slope[0], 0.0), np.append(height[0], 0.0 if slope[0].size == 0 else 1.0)
    alphas, betas = knots_below(np.exp(lines[0]) * (1 + 8 * UNIT), 1 - lines[1] - 8 * UNIT)
    return pair_through(alphas, np.where(alphas >= 1, 0.0, np.maximum(betas - 16 * UNIT, 0.0)))


def from_profile(epsilon: Sequence[Number] | FloatArray, delta: Sequence[Number] | FloatArray) -> FinitePair:
    """The curve of a mechanism that is (epsilon_i, delta_i)-DP for every i: the largest of the f_{epsilon_i,delta_i}.

    epsilon: (n,), none negative; delta: (n,) in [0, 1]. Both orders of a pair are covered, so each statement gives the
    line and its mirror image. Rounded down.

    >>> curve = from_profile([0, 1], ["0.2", "0.05"])
    >>> round(curve.beta("0.3").lower, 9), round(curve.beta("0.01").lower, 9)
    (0.5, 0.922817182)
    """
    slope, _ = read(epsilon=epsilon)
    if np.any(slope < 0):
        raise ParameterError("epsilon", epsilon, "must not be negative", remedy="from_lines takes one order of a pair")
    lost, _ = read(delta=delta)
    if slope.shape != lost.shape or slope.ndim != 1:
        raise ParameterError("delta", delta, "must give one value for each epsilon")
    # e^-e (1 - delta - a) is the line of slope e^-e with delta' = 1 - e^-e (1 - delta)
    mirrored = 1 - np.exp(-slope) * (1 - lost) * (1 - 4 * UNIT)
    return from_lines(np.concatenate((slope, -slope)), np.concatenate((lost, np.clip(mirrored, 0.0, 1.0))))


def conjugate(curve: TradeOff, epsilon: FloatArray, size: int = 4096) -> Interval[FloatArray]:
    """delta(epsilon) = sup_a 1 - f(a) - e^epsilon a from beta alone: an independent route to `curve.delta`."""
    return delta_by_points(curve, epsilon, size)


def violations(
    function: Callable[[FloatArray], FloatArray], size: int = 2001, tolerance: float = 1e-12
) -> tuple[str, ...]:
    """The conditions of a trade-off function that a function on [0, 1] breaks, as far as a grid can see; () if none.

    function: vectorised. Names: "values in [0, 1]", "at most 1 - alpha", "non-increasing", "convex", "continuous".
    Convex and non-increasing leave a jump possible at 0 alone, so continuity is looked at there.

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


def require_tradeoff(function: Callable[[FloatArray], FloatArray]) -> None:
    """Raise `ParameterError`, naming the violated condition, unless the function looks like a trade-off function.

    >>> require_tradeoff(lambda a: 0.5 * a)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: function=... must be a trade-off function, and is not: at most 1 - alpha, ...
    """
    broken = violations(function)
    if broken:
        raise ParameterError("function", function, f"must be a trade-off function, and is not: {', '.join(broken)}")


@dataclass(frozen=True, slots=True)
class WitnessPair:
    """P uniform on [0, 1] and Q with T(P, Q) = f: the test that rejects above 1 - alpha is best at every alpha."""

    curve: TradeOff

    def cdf_P(self, x: FloatArray) -> FloatArray:
        """P[X <= x]."""
        return np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0)

    def cdf_Q(self, x: FloatArray) -> Interval[FloatArray]:
        """Q[X <= x]: f(1 - x) below 1, all from 1 on."""
        points = np.asarray(x, dtype=np.float64)
        lower, upper = ends(self.curve.beta(1 - np.clip(points, 0.0, 1.0)))
        gone, all_in = points < 0, points >= 1
        return certified(
            np.where(all_in, 1.0, np.where(gone, 0.0, lower)),
            np.where(all_in, 1.0, np.where(gone, 0.0, upper)),
            "f(1-x)",
        )

    def atom(self) -> Interval[FloatArray]:
        """Q's mass at 1, where P has none: 1 - f(0)."""
        return self.curve.power(np.array(0.0))

    def on_cells(self, edges: FloatArray) -> FinitePair:
        """The pair seen through a partition of [0, 1]: a curve above f that tends to it as the cells shrink."""
        return polygon_above(self.curve, 1 - np.asarray(edges, dtype=np.float64))


def witness_pair(curve: TradeOff) -> WitnessPair:
    """A pair of laws whose trade-off function is the given curve (Dong, Roth, Su 2022, Prop. 2.2, proof).

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> round(float(witness_pair(epsilon_delta(1, "0.25")).atom().lower), 12)
    0.25
    """
    return WitnessPair(curve)
