"""Proposition 1 on finite adaptive chains: the exact divergence of everything seen, and the bound, hypothesis checked.

X comes from f(D), then Y from g(X, D) with that same X, and so on. A `Step` is the pair of laws of one answer with, for
each outcome, the step that follows it. The bound adds one promise a level; each promise must hold for *every* earlier
outcome, those of probability 0 included, and be fixed in advance. Mironov 2017, Proposition 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neartwin.checks import made_of, several
from neartwin.divergences import Certified, Enclosure, FinitePair, Numeric, enclose
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
        outcomes = self.pair.P.shape[-1]
        if self.pair.P.lower.ndim != 1:
            raise ParameterError("pair", self.pair.P.shape, "must be one pair, not a batch")
        if self.then and len(self.then) != outcomes:
            raise ParameterError("then", len(self.then), f"must hold one step for each of the {outcomes} outcomes")

    def joint(self) -> FinitePair:
        """The two laws of the whole transcript, by P(x, y) = P(x) P(y | x) with the same x in both factors."""
        if not self.then:
            return self.pair
        parts = []
        for outcome, following in enumerate(self.then):
            rest = following.joint()
            head = self.pair.P[outcome], self.pair.Q[outcome], self.pair.loss[outcome]
            parts.append((head[0] * rest.P, head[1] * rest.Q, head[2] + rest.loss))
        P, Q, loss = (
            Enclosure(
                np.concatenate([part[i].lower for part in parts]), np.concatenate([part[i].upper for part in parts])
            )
            for i in range(3)
        )
        return FinitePair(*_supported(P, Q, loss))

    def levels(self) -> Iterator[list[tuple[tuple[int, ...], FinitePair]]]:
        """The pairs of each level, with the outcomes that lead to them."""
        level: list[tuple[tuple[int, ...], Step]] = [((), self)]
        while level:
            yield [(path, step.pair) for path, step in level]
            level = [((*path, i), after) for path, step in level for i, after in enumerate(step.then)]


def _supported(P: Enclosure, Q: Enclosure, loss: Enclosure) -> tuple[Enclosure, Enclosure, Enclosure]:
    """Transcripts that neither law can produce do not count; an exact 0 stays one through the outward steps."""
    no_p = P.upper == 0
    no_q = Q.upper == 0
    zero = np.zeros_like(P.lower)
    P = Enclosure(np.where(no_p, zero, P.lower), np.where(no_p, zero, P.upper))
    Q = Enclosure(np.where(no_q, zero, Q.lower), np.where(no_q, zero, Q.upper))
    low = np.where(no_p, -np.inf, np.where(no_q, np.inf, loss.lower))
    high = np.where(no_p, -np.inf, np.where(no_q, np.inf, loss.upper))
    return P, Q, Enclosure(low, high)


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
        return Enclosure(worst.lower, worst.upper).sum().interval("Mironov Proposition 1")
    if len(several(promises=promises)) != len(worst.upper):
        raise ParameterError("promises", promises, f"must be one a level, {len(worst.upper)}")
    given: Any = list(promises)
    kept = enclose(promises=given)
    for depth, level in enumerate(chain.levels()):
        for path, pair in level:
            true = pair.renyi(order)
            if true.lower > kept.upper[depth]:
                raise PrivacyError(
                    f"step {depth + 1} after outcomes {path} has Renyi divergence {true.lower:.6g}, above the promised "
                    f"{float(kept.upper[depth]):.6g}; promise the worst over all earlier outcomes, or use a filter"
                )
    return kept.sum().interval("Mironov Proposition 1")
