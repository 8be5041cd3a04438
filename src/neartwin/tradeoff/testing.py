"""Hypothesis testing on finite laws, to the letter: tests, their errors, the best one, channels and adaptive chains.

A test is a vector phi in [0, 1]: phi_i is the chance to reject the null P on seeing outcome i. Its errors are
alpha = E_P[phi] and beta = 1 - E_Q[phi], and alpha + beta >= 1 - TV(P, Q), with equality for some test.
Everything here is exact, in rationals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from neartwin.checks import probability
from neartwin.errors import ParameterError
from neartwin.exact import Interval, Number, rational
from neartwin.tradeoff.finite import FinitePair, exact_masses, finite_pair
from neartwin.tradeoff.functions import TradeOff
from neartwin.tradeoff.polygons import excess

Law = Sequence[Number]


@dataclass(frozen=True, slots=True)
class Errors:
    """The two errors of a test, exact: alpha rejects a true null, beta accepts a false one."""

    alpha: Fraction
    beta: Fraction


def errors_of(rejection: Sequence[Number], P: Law, Q: Law) -> Errors:
    """Alpha = E_P[phi] and beta = 1 - E_Q[phi] of a test given by its chances to reject.

    >>> errors_of([0, 0, 1], ["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"])
    Errors(alpha=Fraction(1, 5), beta=Fraction(2, 5))
    """
    phi = [probability(rejection=rational(rejection=chance)) for chance in rejection]
    p, q = exact_masses("P", P), exact_masses("Q", Q)
    if not len(phi) == len(p) == len(q):
        raise ParameterError("rejection", rejection, f"must have the length of both laws, {len(p)} and {len(q)}")
    alpha = sum((chance * mass for chance, mass in zip(phi, p, strict=True)), Fraction(0))
    return Errors(alpha, 1 - sum((chance * mass for chance, mass in zip(phi, q, strict=True)), Fraction(0)))


def best_test(P: Law, Q: Law, alpha: Number) -> tuple[Fraction, ...]:
    """The Neyman-Pearson test at type I error alpha: reject where q/p is largest, randomise at the boundary.

    >>> best_test(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"], "0.35")
    (Fraction(0, 1), Fraction(1, 2), Fraction(1, 1))
    """
    left = probability(alpha=rational(alpha=alpha))
    p, q = exact_masses("P", P), exact_masses("Q", Q)
    if len(p) != len(q):
        raise ParameterError("Q", Q, f"must have the length of P, {len(p)}")
    order = sorted(range(len(p)), key=lambda i: (p[i] != 0, -q[i] / p[i] if p[i] else Fraction(0)))
    phi = [Fraction(0)] * len(p)
    for i in order:
        if not p[i]:
            phi[i] = Fraction(q[i] > 0)
        elif q[i] and left > 0:
            phi[i] = min(Fraction(1), left / p[i])
            left -= phi[i] * p[i]
    return tuple(phi)


def post_process(channel: Sequence[Law], P: Law, Q: Law) -> FinitePair:
    """The curve after every outcome i was replaced by a draw from channel[i], chosen without the data: never lower.

    >>> blur = [["0.9", "0.1"], ["0.1", "0.9"]]
    >>> laws = ["0.8", "0.2"], ["0.2", "0.8"]
    >>> excess(finite_pair(*laws), post_process(blur, *laws)).upper < 1e-9
    True
    """
    rows = [exact_masses("channel", row) for row in channel]
    p, q = exact_masses("P", P), exact_masses("Q", Q)
    if not len(rows) == len(p) == len(q) or len({len(row) for row in rows}) != 1:
        raise ParameterError("channel", channel, "must have one law for each outcome, all of one length")
    mixed = [[sum((w * row[j] for w, row in zip(law, rows, strict=True)), Fraction(0)) for j in range(len(rows[0]))]
             for law in (p, q)]  # fmt: skip
    return finite_pair(mixed[0], mixed[1])


def adaptive_chain(P: Law, Q: Law, following: Sequence[tuple[Law, Law]]) -> FinitePair:
    """The curve of y_1 from (P, Q), then y_2 from the pair following[y_1]: the joint laws of (y_1, y_2).

    If every following pair has a curve at least g, this one is at least f (x) g, the general composition theorem.
    """
    p, q = exact_masses("P", P), exact_masses("Q", Q)
    if len(following) != len(p) or len(p) != len(q):
        raise ParameterError("following", following, f"must have one pair for each of the {len(p)} outcomes")
    joint_p: list[Fraction] = []
    joint_q: list[Fraction] = []
    for a, b, (next_p, next_q) in zip(p, q, following, strict=True):
        joint_p += [a * mass for mass in exact_masses("following", next_p)]
        joint_q += [b * mass for mass in exact_masses("following", next_q)]
    return finite_pair(joint_p, joint_q)


def worst_excess(pairs: Iterable[tuple[Law, Law]], f: TradeOff) -> Interval[float]:
    """How far f lies above T(M(S), M(S')) at worst, over pairs of output laws and both orders of each.

    The mechanism is f-DP on these neighbours if `upper` <= 0 (a room of rounding apart), and is not if `lower` > 0.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> worst_excess([(["0.7", "0.3"], ["0.3", "0.7"])], epsilon_delta(1)).upper < 1e-12
    True
    >>> worst_excess([(["0.8", "0.2"], ["0.2", "0.8"])], epsilon_delta(1)).lower > 0.01
    True
    """
    curves = [finite_pair(P, Q) for P, Q in pairs]
    found = [excess(f, curve) for one in curves for curve in (one, one.inverse())]
    if not found:
        raise ParameterError("pairs", pairs, "must hold at least one pair of neighbours' output laws")
    return Interval(max(part.lower for part in found), max(part.upper for part in found), "polygons")
