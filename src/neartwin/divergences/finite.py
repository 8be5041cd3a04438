"""Pairs of laws: their divergences, and those on finitely many outcomes.

P is the law of the answer on a data set, Q on its neighbour; L = ln dP/dQ is the privacy loss. Every answer is an `Interval`
that contains the exact value, rounded outward: floats for scalar arguments, arrays for array arguments.

`finite_pair` reads two lists of probabilities; randomized response, k-ary response and the discrete Laplace have their own
makers, whose outcomes are formulas of epsilon.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from neartwin import domains
from neartwin.balls import Certified, Exact, Numeric, all_bounds, ball, bounds, each, elementwise, every, read, root
from neartwin.checks import integer
from neartwin.errors import ParameterError
from neartwin.exact import Interval, Number

Law = Sequence[Number] | ArrayLike
MASS_TOLERANCE = 1e-9
Laws = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]
_INFINITY = float("inf")
# of Renyi divergences, infinity included
ORDERS = domains.Domain(lambda a: a > 0, "must be above 0", remedy="order 1 is KL, order inf is max divergence")
_MILD = 1000  # of an exponent, below which e^x is taken as it is


@runtime_checkable
class Pair(Protocol):
    """Two laws on one space. The divergences are those of P from Q; `reversed` gives those of Q from P."""

    __slots__ = ()

    def kl(self) -> Certified:
        """KL divergence E_P[L], in nats; infinite where P charges what Q does not. Dwork and Roth 2014, Def. 3.5."""

    def max_divergence(self) -> Certified:
        """The essential supremum of L under P. Def. 3.6; a supremum, not a maximum, for densities."""

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """inf{e real : H_{e^e}(P||Q) <= delta}, Def. 3.6 with its supremum over P(S) > delta.

        It may be negative, at least ln(1 - delta). It is minus infinity for delta >= 1, and never clamped.

        Args:
            delta: At least 0.

        Returns:
            The divergence, certified.
        """

    def total_variation(self) -> Certified:
        """sup_S |P(S) - Q(S)|, the hockey-stick divergence at epsilon 0."""
        return self.hockey_stick(0)

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """sup_S P(S) - e^epsilon Q(S), decreasing in epsilon.

        Args:
            epsilon: Any real number or an infinity.

        Returns:
            The divergence, certified.
        """

    def renyi(self, order: Numeric) -> Certified:
        """The Renyi divergence, increasing in the order: KL at 1, the max divergence at infinity.

        Args:
            order: Positive.

        Returns:
            The divergence, certified.
        """

    def reversed(self) -> "Pair":
        """This pair with P and Q exchanged: itself where a shift the other way is the mirror image."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One outcome: its probabilities under P and Q, and ln(p/q), infinite where one of them is exactly 0."""

    p: arb
    q: arb
    loss: arb

    @property
    def only_p(self) -> bool:
        """Whether Q never shows it."""
        return bool(self.q.is_zero() and not self.p.is_zero())

    @property
    def only_q(self) -> bool:
        """Whether P never shows it."""
        return bool(self.p.is_zero())

    @property
    def both(self) -> bool:
        """Whether both may show it."""
        return not (self.p.is_zero() or self.q.is_zero())

    def reversed(self) -> "Outcome":
        """With P and Q exchanged."""
        return Outcome(self.q, self.p, -self.loss)


Outcomes = Callable[[Any], Sequence[Outcome]]


@dataclass(frozen=True, slots=True, eq=False)
class FinitePair(Pair):
    """Two laws on one finite set, or a batch of such pairs.

    Attributes:
        outcomes: The list of outcomes as balls, at the working precision, from a parameter.
        at: The parameter, or an object array of parameters, one a pair.
        exact: The probabilities as rationals, if they are known and there is one pair.

    >>> finite_pair(["0.5", "0.3", "0.2"], ["0.2", "0.5", "0.3"]).kl().upper
    0.22380465...
    """

    outcomes: Outcomes
    at: Any = None
    exact: Laws | None = None

    @property
    def batch(self) -> tuple[int, ...]:
        """The shape of the batch; () for one pair."""
        return np.shape(self.at)

    def probabilities(self) -> tuple[Certified, Certified]:
        """P and Q of one pair, outcome by outcome."""
        found = np.array(all_bounds(lambda: [part for one in self.outcomes(self.at) for part in (one.p, one.q)]))
        P, Q = found[0::2], found[1::2]
        return Interval(P[:, 0], P[:, 1], "P"), Interval(Q[:, 0], Q[:, 1], "Q")

    def kl(self) -> Certified:
        """The sum of p ln(p/q), with 0 ln 0 = 0; infinite where P charges what Q does not.

        >>> finite_pair([0.5, 0.5, 0], [0.5, 0, 0.5]).kl().lower
        inf
        """
        return elementwise(lambda at: kl_of(self.outcomes(at)), self.at, method="KL, exact sum", least=0)

    def max_divergence(self) -> Certified:
        """The largest ln(p/q) over the support of P."""
        return elementwise(lambda at: _largest(self.outcomes(at)), self.at, method="max divergence, exact")

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """The sum of (p - e^epsilon q)_+."""
        return elementwise(
            lambda at, e: hockey_stick_of(self.outcomes(at), e),
            self.at,
            read(epsilon=epsilon),
            method="hockey-stick, exact sum",
            least=0,
            most=1,
        )

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """The largest ln((P(S) - delta) / Q(S)) over S with P(S) > delta; a likelihood-ratio prefix is best.

        >>> finite_pair(["0.5", "0.3", "0.2"], ["0.2", "0.5", "0.3"]).approximate_max_divergence("0.1").upper
        0.69314718...
        """
        deltas = domains.NOT_NEGATIVE(delta=delta)
        if self.exact is not None:
            laws = self.exact
            return elementwise(
                lambda d: _prefixes(laws, Fraction(min(d, 1))),
                deltas,
                method="approximate max divergence, exact prefixes",
            )
        return each(self._root, self.at, deltas, method="approximate max divergence, certified root")

    def _root(self, at: Any, delta: Exact) -> tuple[float, float]:
        if delta >= 1:
            return -_INFINITY, -_INFINITY
        most = bounds(lambda: _largest(self.outcomes(at)))
        if delta == 0:
            return most
        lost = bounds(lambda: sum((one.p for one in self.outcomes(at) if one.only_p), ball(0)))
        if lost[0] > delta:
            return _INFINITY, _INFINITY
        low = bounds(lambda d: (1 - ball(d)).log(), delta)[0] - 1.0
        high = max(map(abs, bounds(lambda: _reach(self.outcomes(at))))) + 1.0
        found = root(lambda e: hockey_stick_of(self.outcomes(at), e) - ball(delta), low, max(high, low + 1.0))
        top = _INFINITY if lost[1] > delta else min(found[1], most[1])
        return min(found[0], top), top

    def renyi(self, order: Numeric) -> Certified:
        """ln(sum p^a q^(1-a)) / (a - 1).

        >>> randomized_response_pair(1).renyi(2).upper
        0.73532566...
        """
        return elementwise(
            lambda at, a: _renyi(self.outcomes(at), a),
            self.at,
            ORDERS(order=order),
            method="Renyi divergence, exact sum",
            least=0,
        )

    def reversed(self) -> "FinitePair":
        """This pair with P and Q exchanged."""
        exact = None if self.exact is None else (self.exact[1], self.exact[0])
        return FinitePair(lambda at: [one.reversed() for one in self.outcomes(at)], self.at, exact)


def kl_of(outcomes: Sequence[Outcome]) -> arb | float:
    """The KL divergence, within a formula."""
    if any(one.only_p for one in outcomes):
        return _INFINITY
    total = ball(0)
    for one in outcomes:
        if one.only_q:
            total += one.q  # p (l - 1 + e^-l), whose sum is that of p l
        elif not one.loss.is_zero():
            total += one.p * one.loss - one.p + one.q
    return total


def _largest(outcomes: Sequence[Outcome]) -> arb:
    top = ball(-_INFINITY)
    for one in outcomes:
        if one.only_p:
            return one.loss
        top = top if one.only_q else top.max(one.loss)
    return top


def hockey_stick_of(outcomes: Sequence[Outcome], epsilon: Exact | arb) -> arb:
    """The hockey-stick divergence, sum of (p - e^epsilon q)_+, within a formula.

    Args:
        outcomes: The outcomes of both laws.
        epsilon: The epsilon.

    Returns:
        The divergence, enclosed.
    """
    total = ball(0)
    e = ball(epsilon)
    for one in outcomes:
        if one.only_p or (not one.only_q and epsilon == -_INFINITY):
            total += one.p
        elif one.both and epsilon != _INFINITY:
            gap = e - one.loss
            if not gap >= 0:
                total += one.p * (-gap.expm1()).max(ball(0))
    return total


def _renyi(outcomes: Sequence[Outcome], order: Exact) -> arb | float:
    if order == 1:
        return kl_of(outcomes)
    if order == _INFINITY:
        return _largest(outcomes)
    both = [one for one in outcomes if one.both]
    if not both or (order > 1 and any(one.only_p for one in outcomes)):
        return _INFINITY
    power = ball(Fraction(order) - 1)
    if all(abs(power * one.loss) < _MILD for one in both):
        # 1 + sum p (x^(a-1) - 1): nothing cancels that more bits do not bring back
        excess = sum((one.p * (power * one.loss).expm1() for one in both if not one.loss.is_zero()), ball(0))
        return (excess - sum((one.p for one in outcomes if one.only_p), ball(0))).log1p() / power
    extreme = both[0].loss
    for one in both[1:]:
        extreme = extreme.max(one.loss) if order > 1 else extreme.min(one.loss)
    return extreme + sum((one.p * (power * (one.loss - extreme)).exp() for one in both), ball(0)).log() / power


def _prefixes(laws: Laws, delta: Fraction) -> arb | float:
    if delta >= 1:
        return -_INFINITY
    charged = sorted(((p, q) for p, q in zip(*laws, strict=True) if p > 0), key=lambda pq: pq[1] / pq[0])
    best, mass, other = Fraction(0), Fraction(0), Fraction(0)
    for p, q in charged:
        mass, other = mass + p, other + q
        if mass > delta:
            if other == 0:
                return _INFINITY
            best = max(best, (mass - delta) / other)
    return ball(best).log() if best > 0 else -_INFINITY


def _reach(outcomes: Sequence[Outcome]) -> arb:
    """A number that no finite loss exceeds."""
    top = ball(0)
    for one in outcomes:
        top = top.max(abs(one.loss)) if one.both else top
    return top


def finite_pair(P: Law, Q: Law) -> FinitePair:
    """Two laws on the same finite set, outcome by outcome.

    Args:
        P: m probabilities, or a float array (..., m) of many laws. Lists are read as exact decimals or fractions,
            arrays at face value. Each law must sum to 1 within 1e-9; nothing is rescaled.
        Q: As P.

    Returns:
        The pair, or the batch of pairs.

    Raises:
        ParameterError: The numbers are no laws.

    >>> finite_pair([0.5, 0.6], [0.5, 0.5])
    Traceback (most recent call last):
    neartwin.errors.ParameterError: P=[0.5, 0.6] must sum to 1; it sums to 1.1
    """
    p, q = read(P=P), read(Q=Q)
    for name, law, value in (("P", p, P), ("Q", q, Q)):
        if np.ndim(law) == 0 or law.shape[-1] == 0:
            raise ParameterError(name, value, "must be a list of at least one probability")
        if not every(lambda part: part >= 0, law):
            raise ParameterError(name, value, "must not hold a negative probability")
        total = np.sum(law.astype(float), axis=-1)
        if not np.all(np.abs(total - 1) <= MASS_TOLERANCE):
            raise ParameterError(name, value, f"must sum to 1; it sums to {np.max(total):.12g}")
    if p.shape[-1] != q.shape[-1]:
        raise ParameterError("Q", Q, f"must have as many outcomes as P, {p.shape[-1]}")
    if p.ndim == q.ndim == 1:
        laws = (tuple(map(Fraction, p)), tuple(map(Fraction, q)))
        return FinitePair(lambda _: _of_rationals(laws), None, laws)
    batch = np.broadcast_shapes(p.shape[:-1], q.shape[:-1])
    pairs = np.empty(batch, dtype=object)
    for place in np.ndindex(batch):
        pairs[place] = tuple(
            tuple(map(Fraction, np.broadcast_to(law, (*batch, law.shape[-1]))[place])) for law in (p, q)
        )
    return FinitePair(_of_rationals, pairs)


def _of_rationals(laws: Laws) -> list[Outcome]:
    def loss(p: Fraction, q: Fraction) -> arb:
        return ball(p / q).log() if p and q else ball(_INFINITY if p else -_INFINITY)

    return [Outcome(ball(p), ball(q), loss(p, q)) for p, q in zip(*laws, strict=True)]


def randomized_response_pair(epsilon: Numeric) -> FinitePair:
    """Randomized response: the true bit with probability e^epsilon / (1 + e^epsilon).

    It is the worst pair of all epsilon-DP mechanisms: every divergence is the largest one that epsilon-DP allows
    (Kairouz, Oh, Viswanath 2015).

    Args:
        epsilon: At least 0; arrays make a batch.

    Returns:
        The pair.

    >>> randomized_response_pair(1).total_variation().upper
    0.46211715...
    """
    return discrete_laplace_pair(epsilon=epsilon, sensitivity=1)


def discrete_laplace_pair(*, epsilon: Numeric, sensitivity: int = 1) -> FinitePair:
    """The discrete Laplace with Pr[X = x] proportional to e^(-epsilon |x| / sensitivity), and its shift by `sensitivity`.

    Its losses are epsilon (1 - 2x / sensitivity), x = 0 .. sensitivity: the tails beyond the two centres are one
    outcome each. For sensitivity 1 it is randomized response.

    Args:
        epsilon: The privacy at distance `sensitivity`.
        sensitivity: The shift, in steps.

    Returns:
        The pair.

    Source:
        Ghosh, Roughgarden, Sundararajan 2009.
    """
    steps = integer(at_least=1, sensitivity=sensitivity)

    def outcomes(e: Exact) -> list[Outcome]:
        unit = Fraction(e) / steps
        one = 1 / (1 + (-ball(unit)).exp())
        P = [one * (-ball(unit * x)).exp() for x in range(steps + 1)]
        P = [p if x in (0, steps) else p * -(-ball(unit)).expm1() for x, p in enumerate(P)]
        return [Outcome(P[x], P[steps - x], ball(unit * (steps - 2 * x))) for x in range(steps + 1)]

    return FinitePair(outcomes, domains.FINITE_NOT_NEGATIVE(epsilon=epsilon))


def k_ary_response_pair(*, epsilon: Numeric, outcomes: int) -> FinitePair:
    """k-ary randomized response: the true value with odds e^epsilon against each of the k - 1 others.

    The other k - 2 values carry no loss and are one outcome here.

    Args:
        epsilon: The privacy.
        outcomes: k, the number of values.

    Returns:
        The pair.
    """
    k = integer(at_least=2, outcomes=outcomes)

    def parts(e: Exact) -> list[Outcome]:
        share = (-ball(e)).exp()
        true = 1 / (1 + (k - 1) * share)
        other, rest = share * true, (k - 2) * share * true
        return [Outcome(true, other, ball(e)), Outcome(rest, rest, ball(0)), Outcome(other, true, -ball(e))]

    return FinitePair(parts, domains.FINITE_NOT_NEGATIVE(epsilon=epsilon))
