"""Pairs of laws on finitely many outcomes.

`finite_pair` reads two lists of probabilities; randomized response, k-ary response and the discrete Laplace have their
own makers, which know each outcome's privacy loss exactly and so keep every digit at small epsilon.

With t = E_P[L] written as sum p (l - 1 + e^-l), all terms of KL are non-negative, and for order a > 1
e^((a-1) D_a) - 1 = sum p [e^((a-1)l) - 1 - (a-1)l] + (a-1) KL has none that is negative: nothing cancels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neartwin.checks import integer
from neartwin.divergences.enclosure import (
    Certified,
    Enclosure,
    Numeric,
    blockwise,
    concatenate,
    enclose,
    exp,
    expm1,
    increasing,
    larger,
    log,
    log1p,
    log_fraction,
    where,
)
from neartwin.divergences.inverse import certified_root
from neartwin.divergences.pairs import read_delta, read_order
from neartwin.divergences.series import exp_excess, kl_excess
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, float_above, float_below, rational

Law = Sequence[Number] | ArrayLike
MASS_TOLERANCE = 1e-9
_FEW = 64  # outcomes, of which every prefix is tried
Exact = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class FinitePair:
    """Two laws on one finite set; leading axes, if any, are a batch of pairs.

    P, Q: (..., m) probabilities, enclosed; loss: (..., m) ln(p/q), +inf where only P has mass, -inf where only Q has.
    exact: the probabilities as rationals, where they are known and there is one pair.
    """

    P: Enclosure
    Q: Enclosure
    loss: Enclosure
    exact: Exact | None = None

    def kl(self) -> Certified:
        """The sum of p ln(p/q), with 0 ln 0 = 0; infinite where P charges what Q does not.

        >>> finite_pair(["0.5", "0.3", "0.2"], ["0.2", "0.5", "0.3"]).kl().upper
        0.22380465...
        >>> finite_pair([0.5, 0.5, 0], [0.5, 0, 0.5]).kl().lower
        inf
        """
        return self._kl().interval("KL, exact sum")

    def _kl(self) -> Enclosure:
        near = np.abs(self.loss.middle) <= 1
        inner = where(near, self.loss, 0.0)
        finite = where(np.isinf(self.loss.middle), 0.0, self.loss)
        with np.errstate(invalid="ignore"):
            wide = (self.P * finite - self.P + self.Q).at_least(0)
        terms = where(near, self.P * kl_excess(inner), where(self._only_q(), self.Q, wide))
        return where(np.any(self._only_p(), axis=-1), np.inf, terms.sum())

    def max_divergence(self) -> Certified:
        """The largest ln(p/q) over the support of P."""
        charged = where(self.P.upper > 0, self.loss, -np.inf)
        return charged.max().interval("max divergence, exact")

    def total_variation(self) -> Certified:
        """The sum of (p - q)_+."""
        return self.hockey_stick(0)

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """The sum of (p - e^epsilon q)_+."""
        at = enclose(epsilon=epsilon)
        return self.hockey_stick_at(at).interval("hockey-stick, exact sum")

    def hockey_stick_at(self, epsilon: Enclosure) -> Enclosure:
        """The same of and as enclosures; epsilon broadcasts against the batch."""
        e = Enclosure(np.asarray(epsilon.lower)[..., None], np.asarray(epsilon.upper)[..., None])
        with np.errstate(invalid="ignore"):
            share = (-expm1(e - self.loss)).at_least(0)
        share = where(self._only_p() | (e.upper == -np.inf), 1.0, share)
        share = where(self._only_q() | ((e.lower == np.inf) & ~self._only_p()), 0.0, share)
        return (self.P * share).sum().at_most(1)

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """The largest ln((P(S) - delta) / Q(S)) over S with P(S) > delta; a likelihood-ratio prefix is best.

        >>> finite_pair(["0.5", "0.3", "0.2"], ["0.2", "0.5", "0.3"]).approximate_max_divergence("0.1").upper
        0.69314718...
        """
        scalar = not isinstance(delta, (np.ndarray, list, tuple, Enclosure))
        read = read_delta(delta)
        if self.exact is not None and scalar:
            number: Any = delta
            value = _exact_approximate_max(self.exact, rational(delta=number))
            return value.interval("approximate max divergence, exact prefixes")
        found = self._by_prefixes(read)
        if found is not None:
            return found.interval("approximate max divergence, likelihood-ratio prefixes")
        return self._approximate_max(read).interval("approximate max divergence, certified root")

    def _by_prefixes(self, delta: Enclosure) -> Enclosure | None:
        """The same for one pair of few outcomes and any deltas; None for others, or where the order is not certain."""
        if self.loss.lower.ndim != 1 or self.loss.lower.size > _FEW:
            return None
        order = np.argsort(-self.loss.middle)
        p, q, loss = self.P[order], self.Q[order], self.loss[order]
        equal = (loss.lower[:-1] == loss.lower[1:]) & (loss.upper[:-1] == loss.upper[1:])
        if not np.all((loss.lower[:-1] >= loss.upper[1:]) | equal):
            return None

        def best(at: Enclosure) -> Enclosure:
            value, mass, other = Enclosure.of(np.full(at.shape, -np.inf)), Enclosure.of(0.0), Enclosure.of(0.0)
            for k in range(p.shape[0]):
                mass, other = mass + p[k], other + q[k]
                left = mass - at
                with np.errstate(all="ignore"):
                    value = larger(value, where(left.upper <= 0, -np.inf, log(left) - log(other)))
            return where(at.lower >= 1, -np.inf, value)

        return blockwise(best, delta)

    def _approximate_max(self, delta: Enclosure) -> Enclosure:
        below = np.clip(delta.middle, 0, 1 - 2**-53)
        losses = np.where(np.isfinite(self.loss.middle), self.loss.middle, -1e300)
        top = np.maximum(np.max(losses, axis=-1), 0) + 1e-9
        floor = np.log1p(-below) - 1e-9
        low, high = np.broadcast_arrays(np.minimum(floor, top - 1e-9), np.maximum(top, floor))
        inner = Enclosure(np.broadcast_to(np.minimum(delta.lower, below), low.shape), np.broadcast_to(below, low.shape))
        root = certified_root(lambda e: self.hockey_stick_at(Enclosure.of(e)), inner, (low, high))
        # with no delta the answer is the max divergence; with less than the mass at infinity it is infinite
        stuck = where(self._only_p(), self.P, 0.0).sum()
        most = where(self.P.upper > 0, self.loss, -np.inf).max()
        root = where(delta.upper == 0, most, root)
        root = Enclosure(
            np.where(np.any(self._only_p(), axis=-1) & (stuck.lower > delta.upper), np.inf, root.lower),
            np.where(
                (stuck.upper > delta.lower) & np.any(self._only_p(), axis=-1),
                np.inf,
                np.minimum(root.upper, most.upper),
            ),
        )
        return where(delta.lower >= 1, -np.inf, root)

    def renyi(self, order: Numeric) -> Certified:
        """ln(sum p^a q^(1-a)) / (a - 1).

        >>> randomized_response_pair(1).renyi(2).upper
        0.73532566...
        """
        return increasing(self._renyi, read_order(order)).interval("Renyi divergence, exact sum")

    def _renyi(self, order: FloatArray) -> Enclosure:
        special = (order == 1) | np.isinf(order)
        a = Enclosure.of(np.where(special, 2.0, order)[..., None])
        both = ~(self._only_p() | self._only_q())
        loss = where(both, self.loss, 0.0)
        with np.errstate(all="ignore"):
            power = (a - 1) * loss
            # atoms of P alone count only below order 1, and then as -a p (their p^a q^(1-a) is 0)
            lone = where(self._only_p(), -a * self.P, 0.0)
            linear = where(np.abs(loss.middle) <= 1, self.P * kl_excess(loss), self.P * loss - self.P + self.Q)
            linear = where(self._only_p(), 0.0, where(self._only_q(), self.Q, linear))
            excess = (where(both, self.P * exp_excess(power), 0.0) + lone + (a - 1) * linear).sum()
            exponent = where(both & (self.P.upper > 0), power + log(self.P), -np.inf)
            peak = np.max(exponent.upper, axis=-1, keepdims=True)
            long = log(exp(exponent - np.where(np.isfinite(peak), peak, 0.0)).sum()) + peak[..., 0]
            wild = np.max(np.abs(np.where(both, power.middle, 0.0)), axis=-1) > 30
            # far below order 1 the moment may vanish, and 1 + excess with it
            value = where(wild | (excess.lower < -0.5), long, log1p(excess)) / (a - 1)[..., 0]
        infinite = np.any(self._only_p(), axis=-1) & (order > 1) | ~np.any(both & (self.P.upper > 0), axis=-1)
        value = where(infinite, np.inf, value.at_least(0))
        most = where(self.P.upper > 0, self.loss, -np.inf).max()
        return where(order == 1, self._kl(), where(np.isinf(order), most, value))

    def reversed(self) -> "FinitePair":
        """The same pair with P and Q exchanged."""
        exact = None if self.exact is None else (self.exact[1], self.exact[0])
        return FinitePair(self.Q, self.P, -self.loss, exact)

    def _only_p(self) -> Any:
        return (self.Q.upper == 0) & (self.P.upper > 0)

    def _only_q(self) -> Any:
        return self.P.upper == 0


def _exact_approximate_max(exact: Exact, delta: Fraction) -> Enclosure:
    if delta >= 1:
        return Enclosure.of(-np.inf)
    charged = [(p, q) for p, q in zip(*exact, strict=True) if p > 0]
    charged.sort(key=lambda pq: (pq[1] > 0, pq[1] / pq[0]))
    best, mass, other = Fraction(0), Fraction(0), Fraction(0)
    for p, q in charged:
        mass, other = mass + p, other + q
        if mass > delta:
            if other == 0:
                return Enclosure.of(np.inf)
            best = max(best, (mass - delta) / other)
    return log_fraction(best) if best > 0 else Enclosure.of(-np.inf)


def finite_pair(P: Law, Q: Law) -> FinitePair:
    """Two laws on the same finite set, outcome by outcome.

    P, Q: m probabilities each, or float arrays (..., m) of many pairs. Lists are read as exact decimals or fractions,
    arrays at face value. Each law must sum to 1 within 1e-9; nothing is rescaled.

    >>> finite_pair([0.5, 0.6], [0.5, 0.5])
    Traceback (most recent call last):
    neartwin.errors.ParameterError: P=[0.5, 0.6] must sum to 1; it sums to 1.1
    """
    listed = not isinstance(P, np.ndarray) and not isinstance(Q, np.ndarray)
    p, q = enclose(P=P), enclose(Q=Q)  # type: ignore[arg-type]  # enclose words the refusal
    for name, law, value in (("P", p, P), ("Q", q, Q)):
        if law.shape == () or law.shape[-1] == 0:
            raise ParameterError(name, value, "must be a list of at least one probability")
        if np.any(law.upper < 0):
            raise ParameterError(name, value, "must not hold a negative probability")
        total = np.sum(law.middle, axis=-1)
        if not np.all(np.abs(total - 1) <= MASS_TOLERANCE):
            raise ParameterError(name, value, f"must sum to 1; it sums to {np.max(total):.12g}")
    if p.shape[-1] != q.shape[-1]:
        raise ParameterError("Q", Q, f"must have as many outcomes as P, {p.shape[-1]}")
    if p.lower.ndim == q.lower.ndim == 1:
        exact = (_rationals(P, listed=listed), _rationals(Q, listed=listed))
        ratios = [_exact_loss(a, b) for a, b in zip(*exact, strict=True)]
        loss = Enclosure(np.array([x.lower for x in ratios]), np.array([x.upper for x in ratios]))
        return FinitePair(p, q, loss, exact)
    return FinitePair(p, q, losses_of(p, q))


def _rationals(law: Any, *, listed: bool) -> tuple[Fraction, ...]:
    if listed:
        return tuple(rational(probability=part) for part in law)
    return tuple(
        Fraction(float(part)) if isinstance(part, (float, np.floating)) else rational(probability=part) for part in law
    )


def _exact_loss(p: Fraction, q: Fraction) -> Enclosure:
    if p == 0 or q == 0:
        return Enclosure.of(np.inf if p > 0 else -np.inf)
    return log_fraction(p / q)


def losses_of(p: Enclosure, q: Enclosure) -> Enclosure:
    """ln(p/q) of enclosed probabilities, outcome by outcome."""
    with np.errstate(all="ignore"):
        close = (p.middle > 0.5 * q.middle) & (p.middle < 2 * q.middle)
        near, far = log1p((p - q) / where(q.upper > 0, q, 1.0)), log(p) - log(where(q.upper > 0, q, 1.0))
    value = where(close, near, far)
    return where(p.upper == 0, -np.inf, where(q.upper == 0, np.inf, value))


def randomized_response_pair(epsilon: Numeric) -> FinitePair:
    """Randomized response: the true bit with probability e^epsilon / (1 + e^epsilon).

    epsilon: at least 0; arrays make a batch. The worst pair of all epsilon-DP mechanisms: every divergence here is the
    largest one that epsilon-DP allows (Kairouz, Oh, Viswanath 2015).

    >>> randomized_response_pair(1).total_variation().upper
    0.46211715...
    """
    return discrete_laplace_pair(epsilon=epsilon, sensitivity=1)


def discrete_laplace_pair(*, epsilon: Numeric, sensitivity: int = 1) -> FinitePair:
    """The discrete Laplace with Pr[X = x] proportional to e^(-epsilon |x| / sensitivity), shifted by `sensitivity`.

    Its losses are epsilon (1 - 2x / sensitivity), x = 0 .. sensitivity: the tails beyond the two centres are one
    outcome each. Ghosh, Roughgarden, Sundararajan 2009; for sensitivity 1 it is randomized response.
    """
    steps = integer(at_least=1, sensitivity=sensitivity)
    e = enclose(epsilon=epsilon)
    if not np.all((e.lower >= 0) & np.isfinite(e.upper)):
        raise ParameterError("epsilon", epsilon, "must be finite and not negative")
    e = Enclosure(np.asarray(e.lower)[..., None], np.asarray(e.upper)[..., None])
    x = Enclosure.of(np.arange(steps + 1.0))
    unit = e / float(steps)
    one = 1 / (1 + exp(-unit))
    inside = -expm1(-unit) * one * exp(-unit * x)
    ends = (x.lower == 0) | (x.lower == steps)
    P = where(ends, one * exp(-unit * x), inside)
    loss = where(x.lower == 0, e, where(x.lower == steps, -e, unit * (steps - 2.0 * x)))
    return FinitePair(P, P[..., ::-1], loss)


def k_ary_response_pair(*, epsilon: Numeric, outcomes: int) -> FinitePair:
    """k-ary randomized response: the true value with odds e^epsilon against each of the k - 1 others.

    The other k - 2 values carry no loss and are one outcome here.
    """
    k = integer(at_least=2, outcomes=outcomes)
    e = enclose(epsilon=epsilon)
    if not np.all((e.lower >= 0) & np.isfinite(e.upper)):
        raise ParameterError("epsilon", epsilon, "must be finite and not negative")
    e = Enclosure(np.asarray(e.lower)[..., None], np.asarray(e.upper)[..., None])
    share = exp(-e)
    whole = 1 + (k - 1.0) * share
    true, other = 1 / whole, share / whole
    P = concatenate(true, (k - 2.0) * other if k > 2 else 0.0 * other, other)
    zero = Enclosure.of(np.zeros(e.shape))
    return FinitePair(P, P[..., ::-1], concatenate(e, zero, -e))


def rationals_enclosed(values: Sequence[Fraction]) -> Enclosure:
    """Rationals as an enclosure, each end the nearest float outward."""
    return Enclosure(np.array([float_below(v) for v in values]), np.array([float_above(v) for v in values]))
