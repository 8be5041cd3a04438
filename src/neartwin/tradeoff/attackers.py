"""The power of an attacker, read from a curve; the inverses; and the tests of two finite laws.

The attacker sees the output and decides which of two neighbouring data sets made it. Every number is an upper bound on
the attacker when taken at `upper` (Kulynych et al. 2024; Hayes et al. 2023 for reconstruction).

On finite laws a test is a vector phi in [0, 1]: phi_i is the chance to reject the null P on seeing outcome i. Its errors are
alpha = E_P[phi] and beta = 1 - E_Q[phi], and alpha + beta >= 1 - TV(P, Q), with equality for some test.
Tests, channels and adaptive chains are exact, in rationals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from neartwin import domains
from neartwin.balls import Exact, ball, elementwise, normal_quantile
from neartwin.checks import probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff.finite import FinitePair, exact_masses, finite_pair
from neartwin.tradeoff.functions import Argument, TradeOff
from neartwin.tradeoff.polygons import excess


def advantage(curve: TradeOff) -> Interval[FloatArray]:
    """The largest TPR - FPR: delta(0), the total variation distance.

    Args:
        curve: The curve.

    Returns:
        An interval.

    >>> from neartwin.tradeoff.families import gaussian
    >>> a = advantage(gaussian(2))
    >>> bool(a.lower <= 0.68268949213708590 <= a.upper)
    True
    """
    return curve.delta(0)


def tpr_at(curve: TradeOff, fpr: Argument) -> Interval[FloatArray]:
    """The best true positive rate at each false positive rate: 1 - f(fpr).

    Args:
        curve: f.
        fpr: In [0, 1], any shape.

    Returns:
        An interval of the shape of fpr.
    """
    return curve.power(fpr)


def reconstruction_success(curve: TradeOff, prior: Argument) -> Interval[FloatArray]:
    """Bound on the probability to reconstruct a unit that is guessed blindly with probability `prior`: 1 - f(prior).

    Args:
        curve: f.
        prior: The probability of a blind guess.

    Returns:
        An interval.

    >>> from neartwin.tradeoff.families import gaussian
    >>> r = reconstruction_success(gaussian(1), "0.01")
    >>> bool(r.lower <= 0.092362248073693936 <= r.upper)
    True
    """
    return curve.power(prior)


def _quantile(share: Exact) -> arb:
    return normal_quantile(ball(share)) if share <= 0.5 else -normal_quantile(ball(1 - Fraction(share)))


def mu_of_tpr(tpr: Argument, fpr: Argument) -> Interval[FloatArray]:
    """The mu whose best true positive rate at `fpr` is `tpr`: Phi^-1(tpr) - Phi^-1(fpr); `lower` is the safe side.

    Args:
        tpr: The true positive rate, below 1.
        fpr: The false positive rate, in (0, 1).

    Returns:
        An interval.

    Raises:
        ParameterError: Blind guessing reaches that rate already.

    >>> m = mu_of_tpr("0.092362248073693936", "0.01")
    >>> bool(m.lower <= 1.0000000000001 and m.upper >= 0.9999999999999)
    True
    """
    reached, level = domains.BELOW_ONE(tpr=tpr), domains.OPEN_SHARE(fpr=fpr)
    if not all(high >= low for high, low in np.broadcast(np.asarray(reached), np.asarray(level))):
        raise ParameterError("tpr", tpr, "must not be below fpr: guessing blindly reaches that")
    return elementwise(
        lambda high, low: _quantile(high) - _quantile(low), reached, level, method="normal quantiles", least=0.0
    )


Law = Sequence[Number]


@dataclass(frozen=True, slots=True)
class Errors:
    """The two errors of a test, exact: alpha rejects a true null, beta accepts a false one."""

    alpha: Fraction
    beta: Fraction


def errors_of(rejection: Sequence[Number], P: Law, Q: Law) -> Errors:
    """The errors of a test: alpha = E_P[phi] and beta = 1 - E_Q[phi].

    Args:
        rejection: phi, the probability of rejection at each outcome.
        P: The law under the null hypothesis.
        Q: The law under the alternative.

    Returns:
        Both errors, exact.

    Raises:
        ParameterError: The lengths differ, or a value is no probability.

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
    """The Neyman-Pearson test at a type I error: it rejects where q/p is largest, and randomises at the boundary.

    Args:
        P: The law under the null hypothesis.
        Q: The law under the alternative.
        alpha: The type I error, in [0, 1].

    Returns:
        The probability of rejection at each outcome.

    Raises:
        ParameterError: The lengths differ, or a value is no probability.

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
    """The curve after every outcome i is replaced by a draw from channel[i]: never lower.

    Args:
        channel: The law for each outcome, chosen without the data.
        P: One law.
        Q: The other law.

    Returns:
        The curve of the new pair.

    Raises:
        ParameterError: The lengths differ, or a law is none.

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

    Args:
        P: One law of y_1.
        Q: The other law of y_1.
        following: The pair of laws of y_2 for each y_1.

    Returns:
        The curve of the joint laws.

    Raises:
        ParameterError: There is not one pair for each outcome, or a law is none.
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
    """The largest distance of f above T(M(S), M(S')), over pairs of output laws in both directions.

    The mechanism is f-DP on these neighbours if `upper` <= 0 (up to rounding), and is not if `lower` > 0.

    Args:
        pairs: The pairs of output laws.
        f: The curve.

    Returns:
        The distance.

    Raises:
        ParameterError: There are no pairs, or a law is none.

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
