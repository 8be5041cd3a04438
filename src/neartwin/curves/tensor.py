"""The tensor product f (x) g = T(P x P', Q x Q'): the curve of two mechanisms run one after the other.

Commutative, associative, monotone in both, Id its unit, (f (x) g)^-1 = f^-1 (x) g^-1 (Dong, Roth, Su 2022, Prop. 3.1,
Thm 3.2). If mechanism i is f_i-DP for every fixed past, the whole is f_1 (x) ... (x) f_n-DP, adaptive choice of the
*mechanism* included; the curves themselves must be fixed in advance.

Exact where a closed form exists: Gaussians add mu^2; failure masses f_{0,delta} compose to 1 - prod(1 - delta_i) and
stand apart; equal f_{epsilon,0} are binomial; equal Laplace curves are Irwin-Hall; finite pairs multiply. Otherwise a
certified bracket: polygons below and above each factor, multiplied, and thinned on the safe side after each step.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer
from neartwin.curves.families import EpsilonDelta, Gaussian, Laplace, identity
from neartwin.curves.finite import FinitePair, from_masses, randomized_response_power
from neartwin.curves.laplace_copies import MOST_FACTORS, MOST_SHIFT, LaplacePower
from neartwin.curves.operations import WithFailure, with_failure
from neartwin.curves.polygons import bracket, knots_below, pair_through
from neartwin.curves.tradeoff import TradeOff
from neartwin.curves.twofold import UNIT, Argument, clipped, ends
from neartwin.exact import FloatArray, Interval

EXACT_OUTCOMES = 1 << 18


@dataclass(frozen=True, slots=True)
class Between:
    """A curve that is known to lie between two others, everywhere."""

    lower: TradeOff
    upper: TradeOff

    @property
    def symmetric(self) -> bool:
        """True if both sides are."""
        return self.lower.symmetric and self.upper.symmetric

    def inverse(self) -> TradeOff:
        """Between the inverses."""
        return Between(self.lower.inverse(), self.upper.inverse())

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """From the lower curve's lower end to the upper curve's upper end."""
        low, high = ends(self.lower.beta(alpha))[0], ends(self.upper.beta(alpha))[1]
        return clipped(low, np.maximum(low, high), "bracket")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """A lower curve has the greater power."""
        low, high = ends(self.upper.power(alpha))[0], ends(self.lower.power(alpha))[1]
        return clipped(np.minimum(low, high), high, "bracket")

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """A lower curve has the greater delta."""
        low, high = ends(self.upper.delta(epsilon))[0], ends(self.lower.delta(epsilon))[1]
        return clipped(np.minimum(low, high), high, "bracket")


def product(first: FinitePair, second: FinitePair) -> FinitePair:
    """The product of two finite pairs, outcome by outcome."""
    P, Q = np.outer(first.P, second.P).ravel(), np.outer(first.Q, second.Q).ravel()
    return from_masses(P, Q, slack=first.slack + second.slack + 2 * UNIT)


def _chosen(pair: FinitePair, size: int) -> NDArray[np.int64]:
    """Indices of about `size` outcomes, denser where a group of loss width w and mass m would cost more: m w."""
    with np.errstate(divide="ignore"):
        loss = np.log(np.maximum(pair.Q, 1e-300)) - np.log(np.maximum(pair.P, 1e-300))
    inner = (pair.alphas[1:] > 1e-15) & (pair.betas[:-1] > 1e-15)
    if not inner.any():
        return np.arange(pair.P.size)[:: max(1, pair.P.size // size)]
    grid = np.linspace(loss[inner].max(), loss[inner].min(), 4097)
    cells = np.searchsorted(-loss, -grid)
    cells[0], cells[-1] = np.flatnonzero(inner)[[0, -1]]
    mass = np.maximum(np.diff(pair.alphas[cells]), -np.diff(pair.betas[cells]))
    weight = np.concatenate(([0.0], np.cumsum(np.sqrt(np.maximum(mass, 0.0)) + 1e-9)))
    places = np.interp(np.linspace(0, weight[-1], size), weight, grid)
    return np.unique(np.clip(np.searchsorted(-loss, -places), 0, pair.P.size - 1))


def thinned_above(pair: FinitePair, size: int) -> FinitePair:
    """A curve above this one, on fewer outcomes: neighbours are merged, which only hides."""
    if pair.P.size <= size:
        return pair
    keep = np.unique(np.concatenate(([0], _chosen(pair, size), [pair.P.size - 1, pair.P.size])))
    starts = keep[:-1].astype(np.int64)
    return from_masses(np.add.reduceat(pair.P, starts), np.add.reduceat(pair.Q, starts), slack=pair.slack)


def thinned_below(pair: FinitePair, size: int) -> FinitePair:
    """A curve below this one, on fewer outcomes: some of its edges, prolonged until they meet."""
    if pair.P.size <= size:
        return pair
    edges = np.unique(np.concatenate(([0], _chosen(pair, size), [pair.P.size - 1]))).astype(np.int64)
    edges = edges[pair.P[edges] > 0]
    with np.errstate(over="ignore"):
        slopes = pair.Q[edges] / pair.P[edges]
    fit = (slopes > 0) & (slopes < 1e200)
    slopes, edges = slopes[fit], edges[fit]
    room = pair.slack + 32 * UNIT
    corners = np.stack([pair.betas[edges + k] + slopes * pair.alphas[edges + k] for k in (0, 1)])
    alphas, betas = knots_below(slopes * (1 + room), np.min(corners, axis=0) - 4 * room)
    return pair_through(alphas, np.where(alphas >= 1, 0.0, np.maximum(betas - room, 0.0)))


def _multiplied(first: Between, second: Between, size: int) -> Between:
    low, high = (
        product(*(part for part in parts if isinstance(part, FinitePair)))
        for parts in ((first.lower, second.lower), (first.upper, second.upper))
    )
    return Between(thinned_below(low, size), thinned_above(high, size))


def _power(part: Between, times: int, size: int) -> Between:
    """By repeated squaring, so that the number of thinnings is logarithmic."""
    answer: Between | None = None
    while True:
        if times % 2:
            answer = part if answer is None else _multiplied(answer, part, size)
        times //= 2
        if not times:
            return answer or part
        part = _multiplied(part, part, size)


def _laplace(shift: Fraction, times: int) -> tuple[TradeOff, int]:
    if times == 1:
        return Laplace(shift), 1
    exact = times <= MOST_FACTORS and shift <= MOST_SHIFT
    return (LaplacePower(shift, times), 1) if exact else (Laplace(shift), times)


def _sorted_out(curves: Sequence[TradeOff]) -> tuple[Fraction, list[tuple[TradeOff, int]]]:
    """The failure mass, and the other factors with how often each stands, closed forms joined."""
    kept, square = Fraction(1), Fraction(0)
    pure: Counter[Fraction] = Counter()
    shifts: Counter[Fraction] = Counter()
    others: list[tuple[TradeOff, int]] = []
    for curve in curves:
        inner = curve
        if isinstance(inner, WithFailure):
            kept, inner = kept * (1 - inner.failure), inner.of
        match inner:
            case Gaussian(mu_squared=own):
                square += own
            case EpsilonDelta(epsilon=epsilon, delta_mass=mass):
                kept *= 1 - mass
                pure[epsilon] += epsilon > 0
            case Laplace(shift=shift):
                shifts[shift] += shift > 0
            case LaplacePower(shift=shift, n=n):
                shifts[shift] += n
            case _:
                others.append((inner, 1))
    factors: list[tuple[TradeOff, int]] = [(Gaussian(square), 1)] if square else []
    factors += [_laplace(shift, times) for shift, times in shifts.items() if times]
    for epsilon, times in pure.items():
        if times:
            curve = EpsilonDelta(epsilon, Fraction(0)) if times == 1 else randomized_response_power(epsilon, times)
            factors.append((curve, 1))
    return 1 - kept, factors + others


def _as_pair(curve: TradeOff) -> FinitePair | None:
    match curve:
        case FinitePair():
            return curve
        case EpsilonDelta(epsilon=epsilon):
            return randomized_response_power(epsilon, 1)
        case _:
            return None


def compose(*curves: TradeOff, size: int = 512) -> TradeOff:
    """The curve of all the mechanisms together; exact where it can be, else a certified bracket.

    size: outcomes a factor of a bracket keeps; doubling it quarters the bracket's width.

    >>> from neartwin.curves.families import epsilon_delta, gaussian
    >>> compose(gaussian("0.3"), gaussian("0.4")) == gaussian("0.5")
    True
    >>> compose(epsilon_delta(0, "0.1"), epsilon_delta(0, "0.5")).delta_mass
    Fraction(11, 20)
    """
    failure, factors = _sorted_out(curves)
    if not factors:
        return with_failure(identity(), failure)
    if len(factors) == 1 and factors[0][1] == 1:
        return with_failure(factors[0][0], failure)
    pairs = [_as_pair(curve) for curve, times in factors if times == 1]
    known = [pair for pair in pairs if pair is not None]
    if len(known) == len(factors) and np.prod([float(pair.P.size) for pair in known]) <= EXACT_OUTCOMES:
        return with_failure(reduce(product, known), failure)
    parts = [_power(Between(*_finite(curve, size)), times, size) for curve, times in factors]
    return with_failure(reduce(lambda a, b: _multiplied(a, b, size), parts), failure)


def _finite(curve: TradeOff, size: int) -> tuple[FinitePair, FinitePair]:
    pair = _as_pair(curve)
    if pair is not None:
        return thinned_below(pair, size), thinned_above(pair, size)
    if isinstance(curve, Between):
        return bracket(curve.lower, size)[0], bracket(curve.upper, size)[1]
    return bracket(curve, size)


def compose_power(curve: TradeOff, n: int, *, size: int = 512) -> TradeOff:
    """N copies of one curve.

    >>> from neartwin.curves.families import gaussian
    >>> compose_power(gaussian("0.5"), 4) == gaussian(1)
    True
    """
    times = integer(at_least=0, n=n)
    match curve:
        case Gaussian(mu_squared=square):
            return Gaussian(square * times)
        case EpsilonDelta(epsilon=epsilon, delta_mass=mass) if times and epsilon:
            return with_failure(randomized_response_power(epsilon, times), 1 - (1 - mass) ** times)
        case Laplace() | LaplacePower() | EpsilonDelta():
            return compose(*[curve] * times)
        case WithFailure(of=inner, failure=mass):
            return with_failure(compose_power(inner, times, size=size), 1 - (1 - mass) ** times)
        case FinitePair() if float(curve.P.size) ** times <= EXACT_OUTCOMES:
            return reduce(product, [curve] * times) if times else identity()
        case _:
            return _power(Between(*_finite(curve, size)), times, size) if times else identity()
