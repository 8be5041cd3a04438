"""Proposition 1 on finite adaptive chains: the exact divergence of everything seen, and the bound, hypothesis checked.

X comes from f(D), then Y from g(X, D) with that same X, and so on. A `Step` is the pair of laws of one answer with, for
each outcome, the step that follows it. The bound adds one promise a level; each promise must hold for *every* earlier
outcome, those of probability 0 included, and be fixed in advance. Mironov 2017, Proposition 1.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neartwin.accounting.rdp import combined
from neartwin.balls import Certified, Numeric, ball, elementwise, read
from neartwin.checks import made_of, several
from neartwin.divergences.finite import FinitePair, Outcome
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Interval, Number


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
            found = [_after(head, one) for head, rest in parts for one in rest.outcomes(rest.at)]
            return [
                one for one in found if not (one.p.is_zero() and one.q.is_zero())
            ]  # transcripts that neither law can produce

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

    >>> from neartwin.divergences import randomized_response_pair as rr
    >>> chain = Step(rr("0.5"), (Step(rr("0.3")), Step(rr("0.7"))))
    >>> adaptive_renyi(chain, order=2).upper, adaptive_bound(chain, order=2).upper
    (0.38197305..., 0.63966976...)
    """
    return made_of(Step, "a Step", chain=chain).joint().renyi(_one_order(order))


def _one_order(order: Numeric) -> Numeric:
    given: Any = order
    if np.ndim(given) != 0:
        raise ParameterError("order", order, "must be one number")
    return order


def worst_steps(chain: Step, *, order: Numeric) -> Certified:
    """For each level the largest divergence over all earlier outcomes, reachable or not: the least valid promises."""
    _one_order(order)
    worst = []
    for level in made_of(Step, "a Step", chain=chain).levels():
        values = [pair.renyi(order) for _, pair in level]
        worst.append((max(float(v.lower) for v in values), max(float(v.upper) for v in values)))
    lower, upper = np.array(worst).T
    return Interval(lower, upper, "worst Renyi divergence of each step")


def adaptive_bound(chain: Step, *, order: Numeric, promises: Sequence[Number] | None = None) -> Certified:
    """The sum of the promises, one a level: Proposition 1's bound on `adaptive_renyi`.

    promises: the divergence each level was declared to have, fixed in advance; without them, `worst_steps`. A promise
    that some outcome breaks raises `PrivacyError`, for then the proposition does not apply: an epsilon that depends on
    the earlier answer needs a filter.
    """
    worst = worst_steps(chain, order=order)
    if promises is None:
        return combined(lambda *parts: sum(map(ball, parts), ball(0)), *_levels(worst), method="Mironov Proposition 1")
    if len(several(promises=promises)) != len(worst.upper):
        raise ParameterError("promises", promises, f"must be one a level, {len(worst.upper)}")
    given: Any = list(promises)
    kept = read(promises=given)
    for depth, level in enumerate(chain.levels()):
        for path, pair in level:
            true = pair.renyi(order)
            if true.lower > kept[depth]:
                raise PrivacyError(
                    f"step {depth + 1} after outcomes {path} has Renyi divergence {true.lower:.6g}, above the promised "
                    f"{float(kept[depth]):.6g}; promise the worst over all earlier outcomes, or use a filter"
                )
    return elementwise(lambda: sum(map(ball, kept), ball(0)), method="Mironov Proposition 1")


def _levels(worst: Certified) -> list[Certified]:
    return [Interval(float(low), float(high)) for low, high in zip(worst.lower, worst.upper, strict=True)]
