"""Auditing with one run: m canaries, each put in or left out by a fair coin, and an attacker who guesses r of them.

The attacker may abstain. If the mechanism keeps its claim, guessing v or more right out of r is unlikely; the p-value
bounds how unlikely. Pure and approximate claims: Steinke, Nasr and Jagielski 2023, Theorem 5.2. Any trade-off curve:
Mahloujifar, Melis and Chaudhuri 2024, Theorem 9, with the greedy extreme proved in the docs.
"""

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from neartwin import special
from neartwin.audit.claims import Claim, Curve
from neartwin.audit.game import failure_of
from neartwin.checks import integer, non_negative, probability
from neartwin.errors import ParameterError
from neartwin.exact import Number, halved

_HALF = 0.5  # a p-value above which the theorem's is not enough
_STEPS = 80  # bisections: the bracket is then narrower than a float can show


def one_run_pvalue(correct: int, guesses: int, canaries: int, *, epsilon: float, delta: float = 0.0) -> float:
    """An upper bound on the probability of so many right guesses, if (epsilon, delta)-privacy holds.

    It is Pr[Bin(r, p) >= v] + 2 m delta max_i Pr[v - i <= Bin(r, p) < v] / i with p = e^eps / (1 + e^eps), at most 1. Above a
    half it is at least Pr[Bin(r, p) >= v] + m delta (1 - p): (A4) of docs/proofs/audit.md.
    Each canary is one unit, and present with probability 1/2, independently (add/remove).

    Args:
        correct: v, the number of right guesses.
        guesses: r, the number of guesses.
        canaries: m.
        epsilon: The claimed epsilon.
        delta: The claimed delta.

    Returns:
        The p-value.

    Source:
        Steinke, Nasr, Jagielski 2023.

    >>> one_run_pvalue(80, 100, 1000, epsilon=1.0)
    0.07155624680483...
    """
    _shape(correct, guesses, canaries)
    non_negative(epsilon=epsilon)
    probability(delta=delta)
    p = float(special.expit(epsilon))
    above = special.bdtrc(np.arange(correct) - 1.0, guesses, p) if correct else np.ones(0)  # Pr[Bin >= i], i < v
    beta = float(special.bdtrc(correct - 1.0, guesses, p)) if correct else 1.0
    if delta == 0 or correct == 0:
        return min(beta, 1.0)
    below = (above - beta)[::-1]  # Pr[v - i <= Bin < v] for i = 1..v
    if beta > 0.5:  # the same from the other tail, where it is not a difference of numbers near 1
        under = np.concatenate([[0.0], special.bdtr(np.arange(correct - 1.0), guesses, p)])  # Pr[Bin < i], i < v
        below = (float(special.bdtr(correct - 1.0, guesses, p)) - under)[::-1]
    found = beta + 2 * canaries * delta * float(np.max(below / np.arange(1, correct + 1)))
    return min(found if found <= _HALF else max(found, beta + canaries * delta * float(special.expit(-epsilon))), 1.0)


def one_run_curve_pvalue(correct: int, guesses: int, canaries: int, *, curve: Curve) -> float:
    """An upper bound on the chance of `correct` or more right guesses, if the trade-off curve holds in both orders.

    With p_i the chance of i right guesses, every tail obeys sum_{i>=j} p_i i/m <= 1 - f(sum_{i>=j} p_{i-1} (r-i+1)/m).
    The largest Pr[>= v] under these constraints has all its mass above v at v itself. Below v it has the least mass that the
    constraints demand. It is found by bisection and rounded up.

    Args:
        correct: The number of right guesses.
        guesses: The number of guesses.
        canaries: The number of canaries, m.
        curve: The claimed trade-off curve, of arrays.

    >>> from neartwin.audit.claims import claim_pure
    >>> loose = one_run_curve_pvalue(80, 100, 100, curve=claim_pure(1).floor)
    >>> one_run_pvalue(80, 100, 100, epsilon=1.0) <= loose < 0.2
    True
    """
    _shape(correct, guesses, canaries)
    if correct == 0:
        return 1.0
    forced = _least_misses(curve)

    def fits(tail: float) -> bool:
        return _mass(tail, correct, guesses, canaries, forced) <= 1

    return 1.0 if fits(1.0) else halved(fits, 0.0, 1.0, _STEPS)[1]


def _mass(tail: float, correct: int, guesses: int, canaries: int, forced: Callable[[float], float]) -> float:
    """The least total probability of a law that has `tail` at `correct` right guesses or above."""
    right, wrong = tail * correct / canaries, tail * (guesses - correct) / canaries
    for level in range(correct - 1, -1, -1):
        needed = max(wrong, forced(right))
        right += level / (guesses - level) * (needed - wrong)
        wrong = needed
        if right + wrong > guesses / canaries:
            break
    return (right + wrong) * canaries / guesses


def _least_misses(curve: Curve) -> Callable[[float], float]:
    """The least a with 1 - f(a) >= r, as a lookup that is never above the truth and grid-tight.

    The grid is fine near 0, where tails live. Between knots a falls back to the knot below: weaker, never wrong.
    """
    knots = np.concatenate([[0.0], np.geomspace(1e-12, 1e-3, 8_000), np.linspace(1e-3, 1, 30_001)[1:]])
    power = np.maximum.accumulate(1 - np.asarray(curve(knots), np.float64)).tolist()
    rates = knots.tolist()

    def least(rate: float) -> float:
        return float(rates[max(bisect_left(power, rate) - 1, 0)])  # the knot before the first with enough power

    return least


def one_run_epsilon(
    correct: int, guesses: int, canaries: int, *, delta: float = 0.0, confidence: Number = 0.95
) -> float:
    """The largest epsilon that this result refutes: a lower bound on the true epsilon, rounded down.

    Args:
        correct: The number of right guesses.
        guesses: The number of guesses.
        canaries: The number of canaries.
        delta: The delta.
        confidence: The confidence of the refutation.

    Returns:
        The epsilon; 0 if the result refutes none.

    Source:
        Steinke, Nasr, Jagielski 2023.

    >>> 1.0 < one_run_epsilon(90, 100, 100) < 2.2  # ln(90 / 10) = 2.197
    True
    """
    failure = failure_of(confidence)

    def refuted(epsilon: float) -> bool:
        return one_run_pvalue(correct, guesses, canaries, epsilon=epsilon, delta=delta) < failure

    return _largest(refuted, 64.0)


def one_run_parameter(
    correct: int,
    guesses: int,
    canaries: int,
    *,
    family: Callable[[float], Claim],
    largest: float = 16.0,
    confidence: Number = 0.95,
) -> float:
    """The largest parameter of a family of claims that this result refutes: a lower bound on the true parameter.

    Args:
        correct: The number of right guesses.
        guesses: The number of guesses.
        canaries: The number of canaries.
        family: The claim of a parameter; its floor falls as the parameter grows. `claim_gdp` gives a lower bound on mu.
        largest: The end of the search.
        confidence: The confidence of the refutation.

    Returns:
        The parameter; 0 if the result refutes none.

    >>> from neartwin.audit.claims import claim_gdp
    >>> 0.5 < one_run_parameter(800, 1000, 1000, family=claim_gdp) < 2
    True
    """
    _shape(correct, guesses, canaries)
    failure = failure_of(confidence)

    def refuted(parameter: float) -> bool:
        forced = _least_misses(family(parameter).floor)
        return correct > 0 and _mass(failure, correct, guesses, canaries, forced) > 1

    return _largest(refuted, largest)


def _largest(refuted: Callable[[float], bool], ceiling: float) -> float:
    return halved(refuted, 0.0, ceiling, _STEPS // 3)[0] if refuted(0.0) else 0.0


def _shape(correct: int, guesses: int, canaries: int) -> None:
    integer(canaries=canaries, at_least=1)
    integer(guesses=guesses, at_least=1)
    integer(correct=correct, at_least=0)
    if not correct <= guesses <= canaries:
        raise ParameterError("guesses", guesses, f"must lie between correct={correct} and canaries={canaries}")
