"""Composition theorems and group privacy, in every currency.

**Basic composition** holds for adaptively chosen mechanisms whose parameters are fixed in advance. As a filter it also holds for
parameters chosen on the way (sums only).

**Advanced composition** is Theorem 3.20, as printed and with the tight KL, for equal parameters. The proof has
three steps. Lemma 3.17.2 makes each step purely epsilon-close up to delta. Lemma 3.18 bounds the mean of its loss. Lemma 3.19
bounds the deviation of the sum. Only the mean differs between the forms here. All hold for adaptively chosen mechanisms with
parameters fixed in advance.

**Proposition 1** of Mironov 2017 on finite adaptive chains: the exact divergence of all outcomes, and the bound with its
hypothesis checked. X comes from f(D), then Y from g(X, D) with that same X, and so on. A `Step` is the pair of laws of one
answer with, for each outcome, the step that follows it. The bound adds one promise a level. Each promise must be fixed in
advance and hold for *every* earlier outcome, even one of probability 0.

Theorems answer with a `Bound`: an (epsilon, delta) that a composition, a group or a sample is proved to have.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from neartwin.accounting.renyi import combined
from neartwin.balls import Certified, Exact, Numeric, ball, bounds, each, elementwise, read, root
from neartwin.checks import in_floats, integer, made_of, non_negative, open_probability, probability, several
from neartwin.divergences.finite import FinitePair, Outcome
from neartwin.divergences.theorems import tight_kl
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Interval, Number, float_above, float_below, rational


@dataclass(frozen=True, slots=True)
class Bound:
    """A proved (epsilon, delta): each an interval around the theorem's formula; the guarantee is the two upper ends.

    Above 1, delta promises nothing; it is not clamped, so that it can be compared.
    """

    epsilon: Certified
    delta: Certified
    theorem: str


def read_epsilon(**named: Number) -> Fraction:
    """One finite epsilon, at least 0, exact."""
    ((name, value),) = named.items()
    return non_negative(**{name: rational(**{name: value})})


def read_delta(**named: Number) -> Fraction:
    """One delta in [0, 1], exact."""
    ((name, value),) = named.items()
    return probability(**{name: rational(**{name: value})})


def read_all(values: Sequence[Number], reader: Any, name: str) -> tuple[Fraction, ...]:
    """Read each number of a list.

    Args:
        values: The list.
        reader: The check of one number.
        name: The name of the parameter, for errors.

    Returns:
        The exact numbers.

    Raises:
        ParameterError: The value is no list, or one of its numbers is refused.
    """
    return tuple(reader(**{name: value}) for value in several(**{name: values}))


def exactly(value: Fraction) -> Certified:
    """A rational as an interval: both ends the float where it is one."""
    return Interval(float_below(value) + 0.0, float_above(value) + 0.0, "exact")


def basic_composition(*, epsilons: Sequence[Number], deltas: Sequence[Number] = ()) -> Bound:
    """(sum of epsilon, sum of delta), exact: Dwork and Roth 2014, Theorem 3.16.

    Args:
        epsilons: The epsilon of each mechanism.
        deltas: The delta of each; none means all 0.

    Returns:
        The bound.

    Raises:
        ParameterError: The numbers of epsilons and deltas differ.

    >>> basic_composition(epsilons=["0.1", "0.25", "0.65"]).epsilon.upper
    1.0
    """
    eps = read_all(epsilons, read_epsilon, "epsilons")
    dels = read_all(deltas, read_delta, "deltas") or (Fraction(0),) * len(eps)
    if len(dels) != len(eps):
        raise ParameterError("deltas", deltas, f"must be as many as epsilons, {len(eps)}")
    return Bound(
        exactly(sum(eps, Fraction(0))), exactly(sum(dels, Fraction(0))), "basic composition, Dwork-Roth Theorem 3.16"
    )


def each_share(*, epsilon_total: Number, count: int) -> Fraction:
    """The epsilon of each mechanism under basic composition: total / count, exact.

    Args:
        epsilon_total: The epsilon of all together.
        count: The number of mechanisms.

    Returns:
        The epsilon.

    >>> each_share(epsilon_total=1, count=50)
    Fraction(1, 50)
    """
    return read_epsilon(epsilon_total=epsilon_total) / integer(at_least=1, count=count)


def group_privacy(*, epsilon: Number, size: int) -> Fraction:
    """The value k epsilon: the guarantee of epsilon-DP to a group of k people. Dwork and Roth 2014, Theorem 2.2.

    Args:
        epsilon: The epsilon of one.
        size: k.

    Returns:
        The epsilon of the group.
    """
    return read_epsilon(epsilon=epsilon) * integer(at_least=1, size=size)


def group_approximate(*, epsilon: Number, delta: Number, size: int) -> Bound:
    """(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)): the guarantee of (epsilon, delta)-DP to a group of k
    people.

    It is summed exactly. The delta is not clamped: above 1 it promises nothing. Vadhan 2017, Lemma 2.2.

    Args:
        epsilon: The epsilon of one.
        delta: The delta of one.
        size: k.

    Returns:
        The bound.

    >>> group_approximate(epsilon="0.5", delta="1e-6", size=3).delta.upper
    5.36700309...e-06
    """
    e, d = read_epsilon(epsilon=epsilon), read_delta(delta=delta)
    k = integer(at_least=1, size=size)
    if e == 0:
        return Bound(exactly(e), exactly(d * k), "group privacy")
    if d == 0:
        return Bound(exactly(e * k), exactly(d), "group privacy")
    value = elementwise(lambda: ball(d) * ball(e * k).expm1() / ball(e).expm1(), method="group privacy")
    return Bound(exactly(e * k), value, "group privacy")


def group_zcdp(*, rho: Number, size: int) -> Fraction:
    """k^2 rho: the guarantee of rho-zCDP to a group of k people. Bun and Steinke 2016, Proposition 1.9.

    Args:
        rho: The rho of one.
        size: k.

    Returns:
        The rho of the group.

    >>> group_zcdp(rho="0.02", size=3)
    Fraction(9, 50)
    """
    return read_epsilon(rho=rho) * integer(at_least=1, size=size) ** 2


def advanced_composition(*, epsilon: Number, delta: Number = 0, count: int, slack: Number) -> Bound:
    """(epsilon sqrt(2k ln(1/slack)) + k epsilon tanh(epsilon/2), k delta + slack): with the tight KL of Lemma 3.18.

    It is never worse than `advanced_composition_classical`.

    Args:
        epsilon: The epsilon of each mechanism.
        delta: The delta of each mechanism.
        count: k.
        slack: The extra delta spent on the deviation, in (0, 1).

    Returns:
        The bound.

    >>> advanced_composition(epsilon="0.1", count=100, slack="1e-6").epsilon.upper
    5.75610551...
    """
    e, k, spare = read_epsilon(epsilon=epsilon), _count(count), _slack(slack)
    method = "advanced composition, tight KL"
    total = exactly(k * read_delta(delta=delta) + spare)
    return Bound(elementwise(_tight, e, k, spare, method=method), total, method)


def advanced_composition_classical(*, epsilon: Number, delta: Number = 0, count: int, slack: Number) -> Bound:
    """(epsilon sqrt(2k ln(1/slack)) + k epsilon (e^epsilon - 1), k delta + slack): Dwork and Roth 2014, Theorem 3.20.

    Args:
        epsilon: The epsilon of each mechanism.
        delta: The delta of each mechanism.
        count: k.
        slack: The extra delta spent on the deviation, in (0, 1).

    Returns:
        The bound.

    >>> advanced_composition_classical(epsilon="0.1", count=100, slack="1e-6").epsilon.upper
    6.30823095...
    """
    e, k, spare = read_epsilon(epsilon=epsilon), _count(count), _slack(slack)
    method = "Dwork-Roth Theorem 3.20"
    value = elementwise(lambda: ball(e) * (2 * k * _nats(spare)).sqrt() + k * ball(e) * ball(e).expm1(), method=method)
    return Bound(value, exactly(k * read_delta(delta=delta) + spare), method)


def advanced_epsilon_each(*, epsilon_total: Number, count: int, slack: Number) -> Certified:
    """The epsilon of each mechanism for which `advanced_composition` gives epsilon_total.

    The guarantee is the *lower* end: spend no more than that.

    Args:
        epsilon_total: The epsilon of all together.
        count: The number of mechanisms.
        slack: The extra delta spent on the deviation, in (0, 1).

    Returns:
        The epsilon, certified.

    >>> advanced_epsilon_each(epsilon_total=1, count=100, slack="1e-6").lower
    0.01869166...
    """
    total, k, spare = read_epsilon(epsilon_total=epsilon_total), _count(count), _slack(slack)
    if total == 0:
        return exactly(total)
    # k sqrt(2 ln(1/slack) / k) e <= total bounds the answer above; f is increasing, so its negative is decreasing
    high = bounds(lambda: ball(total) / (2 * k * _nats(spare)).sqrt())[1]
    return each(
        lambda: root(lambda e: ball(total) - _tight(e, k, spare), 0.0, high), method="advanced composition, inverse"
    )


def filter_bound(*, epsilons: Sequence[Number], deltas: Sequence[Number] = (), slack: Number) -> Bound:
    """(sqrt(2 ln(1/slack) sum e_i^2) + sum e_i^2 / 2, sum delta_i + slack): for parameters chosen adaptively too.

    It is the privacy filter of Whitehouse, Ramdas, Rogers and Wu 2023, Theorem 1, at the sums reached.

    Args:
        epsilons: e_i.
        deltas: delta_i; none means all 0.
        slack: The extra delta, in (0, 1).

    Returns:
        The bound.

    >>> filter_bound(epsilons=["0.1", "0.2", "0.05", "0.3"], slack="1e-6").epsilon.upper
    2.05554345...
    """
    eps = read_all(epsilons, read_epsilon, "epsilons")
    squares = sum((e * e for e in eps), Fraction(0))
    spare = _slack(slack)
    total = sum(read_all(deltas, read_delta, "deltas"), spare)
    method = "privacy filter, Whitehouse et al. Theorem 1"
    value = elementwise(lambda: (2 * _nats(spare) * ball(squares)).sqrt() + ball(squares) / 2, method=method)
    return Bound(value, exactly(total), method)


def _tight(epsilon: Exact, count: int, slack: Fraction) -> arb:
    return ball(epsilon) * (2 * count * _nats(slack)).sqrt() + count * tight_kl(epsilon)


def _count(count: int) -> int:
    return in_floats(count=integer(at_least=1, count=count))


def _slack(slack: Number) -> Fraction:
    return open_probability(slack=rational(slack=slack))


def _nats(slack: Fraction) -> arb:
    """ln(1/slack)."""
    return -ball(slack).log()


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One answer of an adaptive chain.

    pair: its two laws; then: the next step after each outcome (one each), or nothing where the chain ends.
    """

    pair: FinitePair
    then: tuple["Step", ...] = ()

    def __post_init__(self) -> None:
        made_of(FinitePair, "a FinitePair of neartwin.divergences", pair=self.pair)
        for step in several(then=self.then):
            made_of(Step, "a Step for each outcome", then=step)
        if self.pair.batch != ():
            raise ParameterError("pair", self.pair.batch, "must be one pair, not a batch")
        outcomes = len(self.pair.outcomes(self.pair.at))
        if self.then and len(self.then) != outcomes:
            raise ParameterError("then", len(self.then), f"must hold one step for each of the {outcomes} outcomes")

    def joint(self) -> FinitePair:
        """The two laws of the whole transcript, by P(x, y) = P(x) P(y | x) with the same x in both factors."""
        if not self.then:
            return self.pair
        rests = [following.joint() for following in self.then]

        def outcomes(at: Any) -> list[Outcome]:
            parts = zip(self.pair.outcomes(at), rests, strict=True)
            joined = [_after(head, one) for head, rest in parts for one in rest.outcomes(rest.at)]
            # Transcripts that neither law can produce are left out.
            return [one for one in joined if not (one.p.is_zero() and one.q.is_zero())]

        return FinitePair(outcomes, self.pair.at)

    def levels(self) -> Iterator[list[tuple[tuple[int, ...], FinitePair]]]:
        """The pairs of each level, with the outcomes that lead to them."""
        level: list[tuple[tuple[int, ...], Step]] = [((), self)]
        while level:
            yield [(path, step.pair) for path, step in level]
            level = [((*path, i), after) for path, step in level for i, after in enumerate(step.then)]


def _after(head: Outcome, one: Outcome) -> Outcome:
    p, q = head.p * one.p, head.q * one.q
    if p.is_zero() or q.is_zero():
        return Outcome(p, q, ball(-math.inf if p.is_zero() else math.inf))
    return Outcome(p, q, head.loss + one.loss)


def adaptive_renyi(chain: Step, *, order: Numeric) -> Certified:
    """The exact Renyi divergence of the chain's whole transcript.

    Args:
        chain: The chain.
        order: The Renyi order.

    Returns:
        The divergence, certified.

    >>> from neartwin.divergences import randomized_response_pair as rr
    >>> chain = Step(rr("0.5"), (Step(rr("0.3")), Step(rr("0.7"))))
    >>> adaptive_renyi(chain, order=2).upper, adaptive_bound(chain, order=2).upper
    (0.38197305..., 0.63966976...)
    """
    return made_of(Step, "a Step", chain=chain).joint().renyi(_one_order(order))


def _one_order(order: Numeric) -> Numeric:
    value: Any = order
    if np.ndim(value) != 0:
        raise ParameterError("order", order, "must be one number")
    return order


def worst_steps(chain: Step, *, order: Numeric) -> Certified:
    """For each level the largest divergence over all earlier outcomes, reachable or not: the least valid promises.

    Args:
        chain: The chain.
        order: The Renyi order.

    Returns:
        One divergence a level, certified.
    """
    _one_order(order)
    worst = []
    for level in made_of(Step, "a Step", chain=chain).levels():
        values = [pair.renyi(order) for _, pair in level]
        worst.append((max(float(v.lower) for v in values), max(float(v.upper) for v in values)))
    lower, upper = np.array(worst).T
    return Interval(lower, upper, "worst Renyi divergence of each step")


def adaptive_bound(chain: Step, *, order: Numeric, promises: Sequence[Number] | None = None) -> Certified:
    """The sum of the promises, one a level: Proposition 1's bound on `adaptive_renyi`.

    Args:
        chain: The chain.
        order: The Renyi order.
        promises: The declared divergence of each level, fixed in advance; by default `worst_steps`.

    Returns:
        The bound, certified.

    Raises:
        PrivacyError: An outcome breaks a promise. The proposition then does not apply: an epsilon that depends on the
            earlier answer needs a filter.
        ParameterError: There is not one promise a level.
    """
    worst = worst_steps(chain, order=order)
    if promises is None:
        levels = [Interval(float(low), float(high)) for low, high in zip(worst.lower, worst.upper, strict=True)]
        return combined(lambda *parts: sum(map(ball, parts), ball(0)), *levels, method="Mironov Proposition 1")
    if len(several(promises=promises)) != len(worst.upper):
        raise ParameterError("promises", promises, f"must be one a level, {len(worst.upper)}")
    listed: Any = list(promises)
    exact = read(promises=listed)
    for depth, level in enumerate(chain.levels()):
        for path, pair in level:
            true = pair.renyi(order)
            if true.lower > exact[depth]:
                raise PrivacyError(
                    f"step {depth + 1} after outcomes {path} has Renyi divergence {true.lower:.6g}, above the promised "
                    f"{float(exact[depth]):.6g}; promise the worst over all earlier outcomes, or use a filter"
                )
    return elementwise(lambda: sum(map(ball, exact), ball(0)), method="Mironov Proposition 1")
