"""Operations on trade-off functions: inverse, symmetrisation, maximum, groups, failure mass and composition.

Each value is frozen around the curves it is made of (Dong, Roth, Su 2022, sections 2 to 4). Composition here is exact.
Where a product has no closed form, `neartwin.losses.compose` bounds it.
"""

import math
from collections import Counter
from collections.abc import Callable
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
from neartwin.tradeoff.twofold import UNIT, Argument, clipped, ends, exponential, levels, read

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
        from neartwin.tradeoff.polygons import delta_by_points

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
        from neartwin.tradeoff.polygons import delta_by_points

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
