"""Is a pair of laws (epsilon, delta)-close, in both directions? With the event that shows it when not.

Dwork and Roth 2014, Remark 3.1: a mechanism is (epsilon, delta)-DP iff D^delta <= epsilon for every ordered pair of
neighbours. For laws given as rationals the answer is exact: e^epsilon is irrational for rational epsilon != 0, so every
comparison is decided by enough digits.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from neartwin.checks import non_negative
from neartwin.divergences.enclosure import Certified, Enclosure, enclose, exp
from neartwin.divergences.finite import Exact, FinitePair
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether (epsilon, delta) holds, and the event that decides it.

    event: the outcomes S with the largest P(S) - e^epsilon Q(S), in the worse direction; when private, the closest to
    a violation. direction: "P over Q" or "Q over P". excess: P(S) - e^epsilon Q(S) - delta, above 0 when violated.
    pair: the index of the pair in its family. certain: false where the enclosures of a pair that is not rational leave
    both answers possible; it then counts as not private.
    """

    private: bool
    event: tuple[int, ...]
    direction: str
    excess: Certified
    pair: int = 0
    certain: bool = True

    def __bool__(self) -> bool:
        return self.private


def verdict(pair: FinitePair, *, epsilon: Number, delta: Number = 0) -> Verdict:
    """Is this pair of neighbours (epsilon, delta)-close in both directions?

    epsilon, delta: at least 0. Decided exactly where the laws are rationals; a pair known only by enclosures counts as
    private only if that is certain.

    >>> from neartwin.divergences.finite import finite_pair
    >>> law = finite_pair(["0.75", "0.25"], ["0.25", "0.75"])
    >>> bool(verdict(law, epsilon="1.0987")), bool(verdict(law, epsilon="1.0986"))
    (True, False)
    >>> verdict(law, epsilon=1).event
    (0,)
    """
    e = non_negative(epsilon=rational(epsilon=epsilon))
    d = non_negative(delta=rational(delta=delta))
    if pair.P.lower.ndim != 1:
        raise ParameterError("pair", pair.P.shape, "must be one pair, not a batch")
    judge = _exactly if pair.exact is not None else _by_enclosure
    forward, backward = judge(pair, e, d, "P over Q"), judge(pair.reversed(), e, d, "Q over P")
    if forward.private != backward.private:
        return backward if forward.private else forward
    return max(forward, backward, key=lambda v: v.excess.upper)


def family_verdict(pairs: Iterable[FinitePair], *, epsilon: Number, delta: Number = 0) -> Verdict:
    """The same for every pair of neighbours of a mechanism: the first violation, or else the closest pair.

    >>> from neartwin.divergences.finite import finite_pair
    >>> same, far = finite_pair([0.5, 0.5], [0.5, 0.5]), finite_pair([1, 0], [0.5, 0.5])
    >>> family_verdict([same, far], epsilon=1).pair
    1
    """
    worst: Verdict | None = None
    for index, pair in enumerate(pairs):
        one = verdict(pair, epsilon=epsilon, delta=delta)
        placed = replace(one, pair=index)
        if not placed.private:
            return placed
        if worst is None or placed.excess.upper > worst.excess.upper:
            worst = placed
    if worst is None:
        raise ParameterError("pairs", (), "must hold at least one pair")
    return worst


def exp_bounds(x: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Rationals around e^x, to so many significant digits."""
    with localcontext(Context(prec=digits)):
        near = Decimal(x.numerator) / Decimal(x.denominator)
        low, high = near.next_minus().exp().next_minus(), near.next_plus().exp().next_plus()
        return Fraction(low), Fraction(high)


def exceeds_exp(value: Fraction, x: Fraction) -> bool:
    """Whether value > e^x, exactly."""
    if x == 0 or value <= 0:
        return value > 1 if x == 0 else False
    digits = 20
    while True:
        low, high = exp_bounds(x, digits)
        if value >= high or value <= low:
            return value >= high
        digits *= 2


def _exactly(pair: FinitePair, epsilon: Fraction, delta: Fraction, direction: str) -> Verdict:
    exact: Exact = pair.exact or ((), ())
    event = tuple(
        i for i, (p, q) in enumerate(zip(*exact, strict=True)) if p > 0 and (q == 0 or exceeds_exp(p / q, epsilon))
    )
    mass, other = sum((exact[0][i] for i in event), Fraction(0)), sum((exact[1][i] for i in event), Fraction(0))
    violated = mass > delta and (other == 0 or exceeds_exp((mass - delta) / other, epsilon))
    low, high = exp_bounds(epsilon, 40) if epsilon else (Fraction(1), Fraction(1))
    excess = Enclosure(
        enclose(excess=mass - high * other - delta).lower, enclose(excess=mass - low * other - delta).upper
    )
    return Verdict(not violated, event, direction, excess.interval("exact rationals"))


def _by_enclosure(pair: FinitePair, epsilon: Fraction, delta: Fraction, direction: str) -> Verdict:
    e = enclose(epsilon=epsilon)
    event = np.nonzero(pair.loss.middle > float(e.middle))[0]
    chosen = [int(i) for i in event]
    mass, other = pair.P[chosen].sum(), pair.Q[chosen].sum()
    attained = mass - exp(e) * other - enclose(delta=delta)
    ceiling = pair.hockey_stick_at(e) - enclose(delta=delta)
    # without a delta the losses decide, and they are known better than the sum
    most = pair.max_divergence().upper
    private = bool(ceiling.upper <= 0 or (delta == 0 and most <= e.upper and e.lower == e.upper))
    excess = Enclosure(np.minimum(attained.lower, ceiling.upper), ceiling.upper)
    certain = private or bool(attained.lower > 0)
    return Verdict(private, tuple(chosen), direction, excess.interval("enclosures"), certain=certain)
