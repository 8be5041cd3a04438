"""Plans of the most common values: k noisy choices one after the other, and their counts if asked.

Each choice is permute-and-flip among the values that are left. All k compose by the rule of the spend's own currency. k
choices at e are (k e)-private, k rho(e)-zCDP, and k mu(e)^2 in squared mu. At a delta the certified engine gives their
epsilon.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, fsum, log
from typing import Any

from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure, Rdp, Zcdp
from neartwin.errors import PrivacyError
from neartwin.losses import Composition
from neartwin.losses import Pure as PureLoss
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.exponential import PeeledTop, PermuteAndFlip
from neartwin.noise import Source
from neartwin.planning.allocation import CONFIDENCE, allocate, delta_of, each_epsilon, share_of, total_of, without_delta
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.plan import NoisyAnswer, Plan
from neartwin.planning.stage import Aggregates, Stage
from neartwin.queries.query import TopK
from neartwin.statistics.base import Estimate, ExpectedError
from neartwin.statistics.measures import Measure, Measurement
from neartwin.statistics.sensitivity import Sensitivity

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKPlan(Plan):
    """The plan of a `TopK`: it releases the winners, and their counts with separate noise if asked.

    Attributes:
        mechanism: The choices.
        counts: The counts of the winners' units; None if they were not asked for.
        why: The sensitivity of the compared counts, in words.
    """

    kind = "choice"

    query: TopK
    mechanism: PeeledTop
    counts: Measure | None
    why: str

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The winners' counts, if they were asked for."""
        return () if self.counts is None else (("count", "count_distinct_units()"),)

    @property
    def objective(self) -> float:
        """The sum of the gap and the bars, in units."""
        return fsum(float(error.half_width or 0) for error in self.expected_errors())

    def record(self) -> dict[str, object]:
        """The scale of each choice, the number of choices, and the noise of counts."""
        form: dict[str, object] = {"scale": str(self.mechanism.each.scale)}
        if self.query.k != 1:
            form["k"] = self.query.k
        if self.counts is not None:
            form["counts"] = self.counts.mechanism.record
        return form

    def losses(self) -> Composition:
        """The privacy loss of the choices and the counts together. The price covers this curve."""
        chosen = self.mechanism.losses()
        return chosen if self.counts is None else chosen + self.counts.losses()

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The choice, and the noise of counts."""
        yield "", self.mechanism
        if self.counts is not None:
            yield "counts", self.counts.mechanism

    def noised(self, answers: Sequence[Aggregates], source: Source) -> NoisyAnswer:
        """The winners, best first, and their noisy counts."""
        units = answers[0].values["units"]
        winners = self.mechanism.choose(units, source=source)
        keys = tuple(answers[0].keys[winner] for winner in winners)
        if self.counts is None:
            return NoisyAnswer(keys, ())
        values = self.counts.mechanism.noisy(units[winners], source=source).tolist()
        bar = self.counts.mechanism.half_width(CONFIDENCE)
        ends = (tuple(value + move for value in values) for move in (0, -bar, bar))
        return NoisyAnswer(keys, (Estimate("count", *ends),))

    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """The gap of each winner to the best value left, and the bar of its count.

        A winner's count is within t ln(m / beta) of the best left (McKenna, Sheldon 2020), with a union bound over the
        k choices.
        """
        k = self.query.k
        gap = ceil(float(self.mechanism.each.scale) * log(len(self.query.among) * k / (1 - CONFIDENCE)))
        what = "the winner's count" if k == 1 else "each winner's count"
        best = "the largest" if k == 1 else "the largest that is left"
        chosen = ExpectedError(
            name=self.query.column,
            confidence=CONFIDENCE,
            half_width=Fraction(gap),
            by_size=(),
            says=f"{what} is within {gap:,} of {best}",
        )
        if self.counts is None:
            return (chosen,)
        return chosen, ExpectedError.everywhere("count", self.counts.half_width(CONFIDENCE), CONFIDENCE)

    def _explained(self) -> tuple[Explained, ...]:
        query, each = self.query, self.mechanism.each
        times = f", {query.k} times, each among what is left" if query.k > 1 else ""
        lines = [self.why, f"each choice costs epsilon {float(each.epsilon):g}"]
        if self.counts is None:
            lines.append("only what wins is released; a count would need noise of its own")
        count = f"count distinct units by {query.column!r} over {len(query.among)} public values"
        chosen = Explained(f"permute and flip{times}, scale {float(each.scale):g}", nodes(*lines))
        if self.counts is None:
            return Explained(count), chosen
        why = nodes(f"sensitivity {self.counts.sensitivity.l1}: {self.counts.sensitivity.why}")
        counts = f"the winners' counts, for half of the spend: {self.counts.noise_in_words}"
        return Explained(count), chosen, Explained(counts, why)

    def _notes(self) -> tuple[str, ...]:
        if self.counts is None:
            subject = "winners are released. Their counts" if self.query.k > 1 else "winner is released. Its count"
            return (f"Only the {subject} and the runners-up are not; asking for them costs more.",)
        bars = f"Each count has fresh noise, and its bar holds with probability at least {CONFIDENCE:.0%}"
        return (f"{bars}; which values won was decided with other noise.",)

    def _statistics(self) -> dict[str, Any]:
        return {"statistics": {"most common": self.query.column}}

    def bounds(self) -> list[dict[str, str]]:
        """The one bound: a unit counts once for each value."""
        return [{"what": "rows of one unit for each value", "value": "1", "origin": "the mechanism counts units"}]


def plan_choice(query: TopK, spend: Budget) -> TopKPlan:
    """Plan the choice of the most common values; counts take half of the spend.

    Args:
        query: The question.
        spend: The spend.

    Returns:
        The plan.

    Raises:
        PrivacyError: A choice cannot spend this currency.
    """
    table = query.table
    monotone = table.neighbours is Neighbours.ADD_REMOVE
    if monotone:
        why = (
            "one unit raises counts by at most 1, all in one direction, however many it is in: no factor m, no factor 2"
        )
    else:
        why = "replacing a unit can raise one count and lower another by 1: the gap moves by 2"
    stage = Stage(
        table=table,
        conditions=query.rows.conditions,
        group_columns=(query.column,),
        keys=query.among,
        grid={},
        measures=("units",),
        rows_per_group=1,
        groups_per_unit=None,
    )
    half = share_of(spend, _HALF, delta=delta_of(spend) / 2)
    epsilon, price = _each(half if query.counted else spend, query.k)
    each = PermuteAndFlip.calibrated(epsilon=epsilon, sensitivity=1, monotone=monotone)
    counts = None
    if query.counted:
        reach = Sensitivity(query.k, 1, query.k, f"a unit counts at most once for each of {query.k} values")
        allotted = allocate((Measurement("units", reach, 1.0),), None, half)
        counts = Measure(name="units", sensitivity=reach, mechanism=allotted.noise["units"])
        price = total_of([price, allotted.price], spend)
    return TopKPlan(
        query=query,
        spend=spend,
        price=price,
        stage=stage,
        mechanism=PeeledTop(each=each, count=query.k),
        counts=counts,
        why=why,
    )


def _each(spend: Budget, k: int) -> tuple[Fraction, Budget]:
    """The epsilon of one of k choices, and the price of all of them, never more than the spend."""
    match spend:
        case Pure(epsilon=epsilon):
            return epsilon / k, spend
        case Approx(epsilon=epsilon, delta=delta):
            # quarters of epsilon / k, the largest first; four of them hold by sums, and leave delta unspent
            for quarters in range(4 * k, 4, -1):
                if (k * PureLoss(epsilon=epsilon * quarters / (4 * k))).epsilon(delta).upper <= epsilon:
                    return epsilon * quarters / (4 * k), spend
            return epsilon / k, Pure(epsilon)
        case Zcdp() | Gdp():
            return each_epsilon(spend, k), without_delta(spend)
        case Rdp(order=order, epsilon=epsilon):
            return each_epsilon(Zcdp(epsilon / order, spend.delta), k), without_delta(spend)
        case _:
            raise PrivacyError(f"a choice cannot spend {spend}; spend pure(epsilon), approx, zcdp(rho) or gdp(mu)")
