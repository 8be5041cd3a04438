"""Plans of margins and of linear workloads: they measure sums of groups, and answers follow by least squares.

For a workload the mean error bar is least. `neartwin.mechanisms.linear.workloads` bounds each strategy's change by one unit,
in units of one row's largest contribution. Noise of the spend's kind is scaled to it, and every answer's bar follows before a
row is read. The planner tries all strategies and, for an (epsilon, delta) spend, both kinds of noise.

**Under a norm.** Behind both is one statistic of every group, weighted as in `neartwin.planning.stage`. A unit moves it
over all groups by at most c in length, by `sensitivity.of_norm`. Noise N(0, s2) on every group is mu-GDP for mu^2 =
c^2 / s2 (Dong, Roth, Su 2022, Thm 2.7). Margins take the length over the coarsest groups that all of them share. Then
the bound c holds for each margin.

*For a workload every group alone is the best that can be measured.* Let a table A of sums of groups be measured with
unit noise instead, in units where c = 1. A unit may be anywhere within the norm. So A is mu-GDP only if |A x| <= mu |x|
for all x, at least for those of one sign. If sums have no negative weights, as in trees and prefixes, A^T A has a
largest eigenvector of one sign. Hence G = A^T A <= mu^2 I. Then G^-1 >= mu^-2 I, and every answer q has variance q .
G^-1 q >= |q|^2 / mu^2: that of the groups alone. So sums gain nothing under a norm. Under caps they do, because a unit
is then in few groups.

**Margins.** The measured margins and their noise are such that the variances of the asked ones add up to the least.

One statement counts (or sums) the table behind all margins. Noise is added to margins of it, which are exact sums of
its cells. A unit has at most C rows in each of at most k cells, and r cells of the table lie in one cell of margin S.
The unit then moves S in a cell by at most min(r, k) C, and all of S by at most k C in absolute sum. The squared length
is largest if the k cells fill as few cells of S as they can.

Margins with normal noise share mu^2, by the optimum of `best_shares`. Margins with discrete Laplace noise share
epsilon. They are the whole table, the asked margins, or those for normal noise, whichever is best.

A norm L is the length of a unit's rows by the coarsest groups that all asked margins share. Adding up cells of rows only
lengthens a vector. So L bounds every margin that tells those groups apart, and no other margin is measured.

**Bars.** The weights of the noise in an answer are known before anything is released. With normal noise the error is
normal, with the variance of the design, plus the rounding of each draw, at most half a part. With discrete Laplace
noise it is a weighted sum of independent draws. One draw has its own law's bar. For several, each term is rounded up to
a fine lattice, and the law of the sum is a product of Fourier transforms. That sum is never below the true one, so its
tail is an upper bound. Chernoff bounds the part beyond the lattice, and everything if draws are too wide for a lattice.
The tail is at most min over s of exp(sum log M(s w) - s t), with M the moment generating function; any s is valid.
"""

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from neartwin.accounting.budgets import Approx, Budget, Pure
from neartwin.errors import QueryError
from neartwin.exact import FloatArray
from neartwin.losses import Composition
from neartwin.mechanisms.additive import DiscreteLaplace, Gaussian
from neartwin.mechanisms.linear.marginals import Margin, MarginalDesign, best_shares, subsets
from neartwin.mechanisms.linear.workloads import (
    Contribution,
    Strategy,
    l1_change,
    l2_squared_change,
    reach_of_laplace,
    strategies,
)
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.noise import Source
from neartwin.planning.allocation import CONFIDENCE, LARGEST_SCALE, LOSS_FAILURE, gdp_of, mu_squared_of, without_delta
from neartwin.planning.bounding_loss import taken
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.groups import GroupPlan
from neartwin.planning.plan import NoisyAnswer, QueryPlan
from neartwin.planning.stage import Aggregates, Stage
from neartwin.queries.query import MARGIN, Query, named, values_of
from neartwin.queries.workloads import Resolved, Workload
from neartwin.statistics.base import Estimate, ExpectedError, Statistic
from neartwin.statistics.measures import Measure, Noise, largest
from neartwin.statistics.sensitivity import Sensitivity
from neartwin.tables.types import ColumnType, Key

WITH_LOSS = CONFIDENCE + 2 * LOSS_FAILURE  # of noise, where limits and clipping may have taken something
FINE = 2**16  # the least noise in parts of a step, so that its rounding is negligible
_MEAN_OF_NOISE = 0.41  # the mean absolute value of normal noise, in bars of releases; of Laplace noise it is 0.33
WHY = "each group alone: where a norm bounds units, no sums of groups measured in their place give a smaller error"
_SLACK = 1 + 1e-9  # covers the rounding of these formulas
_TRIED = 400  # values of s
_POINTS = 2**17  # points of the lattice
_REACH = 24.0  # deviations to each side
_SPARE = 1e-6  # the probability set aside for wrapping and rounding
_SHARES = 2**20  # shares are multiples of 1 / _SHARES
_MOST_MEASURED = 6  # with more columns, only subsets of asked margins may be measured

_ONE_TABLE = (
    "All margins are of one table: their shared totals are equal. Rows with a value outside the public keys of any "
    "column are in none. Single answers may be negative or no whole numbers."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearPlan(QueryPlan):
    """The plan of answers that add up groups, for one statistic.

    Attributes:
        unit: The value of one step.
        lost: The most rows that limits took, as far as it was measured.
        clipped: The most that clipping took, in largest values.
    """

    unit: Fraction
    lost: float = 0.0
    clipped: Fraction | float = Fraction(0)

    @property
    def statistic(self) -> tuple[str, Statistic]:
        """The one statistic and its name."""
        ((name, statistic),) = self.query.aggregates.items()
        return name, statistic

    @property
    @abstractmethod
    def groups_counted(self) -> float:
        """The number of groups that an answer counts, by the size of their weights."""

    def noise_of_limit(self, name: str) -> float:
        """The noise of an answer, or of a cell of each margin."""
        own = self.bounding
        limits = {"norm": own.norm, "rows": own.rows or own.max_rows_per_group, "max_groups": own.max_groups}
        return _MEAN_OF_NOISE * self.error / float(limits[name] or 1) / self.groups_counted

    def after_loss(self, lost: Mapping[str, Any]) -> Self:
        """The plan whose bars hold what limits and clipping took: (L13) of docs/proofs/lost-rows.md."""
        _, rows, changes = taken(lost, units_alone=False)
        return replace(self, lost=rows, clipped=max(changes.values(), default=Fraction(0)))

    def estimate(self, values: FloatArray, bars: FloatArray, least: FloatArray, most: FloatArray) -> Estimate:
        """The released column.

        Args:
            values: (answers,) values in steps.
            bars: (answers,) half-widths in steps, with the confidence of `WITH_LOSS` where something was taken.
            least: (answers,) the least weight of a group, at most 0.
            most: (answers,) the largest one, at least 0.

        Returns:
            The values and bars in the statistic's unit.
        """
        (low, high), size = (0, 1), 1
        for column in self.stage.grid.values():
            low, high, size = min(column.low, 0), max(column.high, 0), largest(column)
        up, down = np.maximum(most * high, least * low), np.minimum(least * high, most * low)
        ends = (down, self.lost), (up, self.lost), (size * np.maximum(most, -least), float(self.clipped))
        fall, rise, off = (np.multiply(end, by, out=np.zeros(len(values)), where=end != 0) for end, by in ends)
        lower, upper = ((values + move) * float(self.unit) for move in (fall - bars - off, rise + bars + off))
        known = ([end if math.isfinite(end) else None for end in side.tolist()] for side in (lower, upper))
        return Estimate(self.statistic[0], (values * float(self.unit)).tolist(), *map(tuple, known))


@dataclass(frozen=True, slots=True)
class NormContribution:
    """The largest change of all groups by one unit, in parts.

    Attributes:
        squared: The squared distance of two neighbours' groups.
        alone: The squared distance of the sum of all groups.
        groups: The number of groups.
    """

    squared: int
    alone: int
    groups: int

    @property
    def l1(self) -> int:
        """The largest change of all groups, in absolute sum."""
        return math.isqrt(self.squared * self.groups)

    def cell(self, groups: int) -> int:
        """The largest change of a margin's cell, which holds so many groups."""
        return math.isqrt(self.l2_squared(groups))

    def l2_squared(self, groups: int) -> int:
        """The largest squared change of a margin whose cells hold so many groups."""
        return self.alone if groups == self.groups else self.squared


def contribution_of(base: GroupPlan) -> Contribution:
    """The contribution to the one measure of a plan under caps, in rows."""
    bounding = base.bounding
    return Contribution(
        rows=bounding.max_rows_per_group,
        groups=bounding.max_groups,
        total=bounding.total_rows,
        replaced=base.query.table.neighbours is not Neighbours.ADD_REMOVE,
        signed=is_mixed(base),
    )


def norm_contribution(base: GroupPlan) -> NormContribution:
    """The contribution to the one measure of a plan under a norm, over public groups."""
    (measure,) = base.measures.values()
    squared, halves = measure.sensitivity.l2_squared, base.query.table.neighbours is not Neighbours.ADD_REMOVE
    alone = squared // 2 if halves and not is_mixed(base) else squared
    return NormContribution(squared, alone, len(base.stage.keys or ()))


def entry_parts(stage: Stage) -> int:
    """The parts of a step in which the one measure of a stage counts."""
    (measure,) = stage.measures
    return stage.parts.get(measure, 1)


def row_of(base: GroupPlan) -> tuple[int, Fraction]:
    """The largest change of a cell by one row, in steps, and the value of a step."""
    if not base.stage.grid:
        return 1, Fraction(1)
    (column,) = base.stage.grid.values()
    return largest(column), column.bounds.step


def is_mixed(base: GroupPlan) -> bool:
    """Whether one row can raise a sum and another lower it: then a replaced unit can move one cell by both."""
    return any(column.low < 0 < column.high for column in base.stage.grid.values())


def ways(spend: Budget, *, norm: Fraction | None) -> list[tuple[Budget, Budget]]:
    """The ways to spend, each with its price. Only normal noise uses a delta, and only normal noise fits a norm.

    Args:
        spend: The spend.
        norm: The norm of a unit, in rows; None for caps.

    Returns:
        Pairs of the shared budget and the price.

    Raises:
        PrivacyError: A plan cannot spend it.
    """
    if not isinstance(spend, Approx):
        return [(spend, without_delta(spend))]
    normal: list[tuple[Budget, Budget]] = [(gdp_of(spend, discovers=False), spend)]
    return normal if norm is not None else [(Pure(spend.epsilon), Pure(spend.epsilon)), *normal]


_ONE_ESTIMATE = (
    "All answers are sums of one estimate of the groups: sums over equal groups are equal. Rows outside the public keys are "
    "in none. Single answers may be negative or no whole numbers."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlan(LinearPlan):
    """The plan of a `Query` for a linear workload: it measures a strategy's sums of groups with noise, and all answers
    follow.

    Attributes:
        workload: The workload of the question.
        resolved: Its queries over the public keys.
        strategy: The measured sums of groups.
        measure: The measure of those sums, in parts of a step.
        bars: (queries,) half-widths in steps at the confidence of releases. `error` is their mean, in units of one
            row's largest contribution.
    """

    kind = "workload"

    workload: Workload
    resolved: Resolved
    strategy: Strategy
    measure: Measure
    bars: FloatArray = field(compare=False)

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The columns of the workload's answers."""
        return tuple(name for name, _ in self.resolved.columns)

    @property
    def group_types(self) -> dict[str, ColumnType]:
        """The types of the columns of answers that are columns of the table; all others are text."""
        return self.resolved.typed(self.stage.table.schema)

    @property
    def groups_counted(self) -> float:
        """The number of groups that an answer counts on average."""
        return self.resolved.queries.counted()

    def _measured(self) -> dict[str, object]:
        return {
            "workload": self.workload.record(),
            "strategy": self.strategy.name,
            "measure": self.measure.mechanism.record,
            "parts": self.measure.parts,
        }

    def _losses(self) -> list[Composition]:
        return [self.measure.losses()]

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The noise, and the sums to which it is added."""
        yield "measure", self.measure.mechanism
        yield "strategy", self.strategy

    def noised(self, answers: Sequence[Aggregates], source: Source) -> NoisyAnswer:
        """Add noise to the strategy's sums, and compute the workload's answers from them."""
        (exact,) = (answers[0].values[name] for name in self.stage.measures)
        sums = self.strategy.measured(exact).astype(object) * (self.measure.parts // entry_parts(self.stage))
        noisy = self.measure.mechanism.noisy(sums, source=source)
        groups = self.strategy.estimate(np.asarray(noisy, dtype=float) / self.measure.parts)
        queries = self.resolved.queries
        # the law of the noise is log-concave, so that P(|X| > c t) <= P(|X| > t)^c
        bars = self.bars * (math.log(1 - WITH_LOSS) / math.log(1 - CONFIDENCE) if self.lost or self.clipped else 1)
        return NoisyAnswer(self.resolved.keys, (self.estimate(queries.answers(groups), bars, *queries.extremes()),))

    def _errors(self) -> tuple[ExpectedError, ...]:
        """The widest bar, with the least and the mean in words."""
        bars = self.bars * float(self.unit)
        says = f"± {bars.min():,.4g} to {bars.max():,.4g} by answer, ± {bars.mean():,.4g} on average"
        widest = Fraction(float(bars.max()))
        return (ExpectedError(name=self.statistic[0], confidence=CONFIDENCE, half_width=widest, by_size=(), says=says),)

    def _explain_noise(self) -> tuple[Explained, ...]:
        measured = (
            f"{len(self.strategy.table):,} sums are measured ({self.strategy.name}): {self.measure.noise_in_words}"
        )
        choice = Explained("how it was chosen", nodes(*self.why))
        answers = f"{len(self.resolved.keys):,} answers ({self.workload}), by least squares from those, consistent"
        return (
            Explained(measured, (Explained(self.measure.sensitivity.why), choice)),
            Explained(answers, nodes("{} = {}".format(*self.statistic))),
        )

    def _notes_of_answers(self) -> tuple[str, ...]:
        return (_ONE_ESTIMATE,)

    def _over_groups(self) -> dict[str, Any]:
        """The workload, with the digest of its record."""
        record = json.dumps(self.workload.record(), sort_keys=True).encode()
        return {"workload": str(self.workload), "workload_sha256": hashlib.sha256(record).hexdigest()}


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A strategy with the noise that a price pays for, and its bars: (queries,) in steps."""

    strategy: Strategy
    measure: Measure
    price: Budget
    bars: FloatArray

    @property
    def error(self) -> float:
        return float(self.bars.mean())

    def __str__(self) -> str:
        kind = self.measure.mechanism.kind
        return f"{self.strategy.name}, {kind}: bars of ± {self.error:,.4g} steps on average"


def plan_workload(query: Query, workload: Workload, base: GroupPlan, spend: Budget) -> WorkloadPlan:
    """Plan a linear workload.

    Args:
        query: The query.
        workload: The workload.
        base: The plan of the same groups alone, whose statement and bounds this plan takes.
        spend: The spend.

    Returns:
        The plan with the least mean bar.

    Raises:
        QueryError: The noise is too wide to be drawn.
    """
    groups, norm = query.groups, base.bounding.norm
    resolved = workload.resolved(groups.columns, groups.keys)
    size, unit = row_of(base)
    options = strategies(resolved.queries, prefixes=workload.kind == "prefixes")
    candidates: list[_Candidate] = []
    for strategy in options[:1] if norm is not None else options:  # the first strategy is each cell alone
        spread = np.sqrt(resolved.queries.variances(strategy.h))
        change = _within_caps(strategy, base, size) if norm is None else _within_norm(base)
        for way, price in ways(spend, norm=norm):
            measure, reach = _measure(strategy.name, change, way, entry_parts(base.stage))
            if measure.mechanism.noise_scale <= LARGEST_SCALE:
                bars = spread * (reach + math.sqrt(len(strategy.table))) / measure.parts
                candidates.append(_Candidate(strategy, measure, price, bars * (1 + 1e-9)))
    if not candidates:
        raise QueryError("workload: the noise is too wide to be drawn; spend more, or take a larger step")
    best, *others = sorted(candidates, key=lambda one: one.error)
    return WorkloadPlan(
        query=query,
        bounding=base.bounding,
        spend=spend,
        price=best.price,
        stage=base.stage,
        workload=workload,
        resolved=resolved,
        strategy=best.strategy,
        measure=best.measure,
        unit=unit,
        bars=best.bars,
        why=(str(best), *((WHY,) if norm is not None else ()), *(f"less good: {one}" for one in others[:4])),
        error=best.error / size,
    )


def _within_caps(strategy: Strategy, base: GroupPlan, size: int) -> Sensitivity:
    """The sensitivity in parts. All measured sums are one cell, because only their joint change is known."""
    contribution, (cell,) = contribution_of(base), base.measures.values()
    size *= cell.parts
    l1 = l1_change(strategy.table, contribution) * size
    why = f"{cell.sensitivity.why}, each in the sums that hold its groups"
    return Sensitivity(l1, l1, 1, why, l2_squared_change(strategy.gram, contribution) * size**2)


def _within_norm(base: GroupPlan) -> Sensitivity:
    """The sensitivity of each group alone, in parts."""
    (cell,) = base.measures.values()
    reach = norm_contribution(base)
    return Sensitivity(reach.l1, reach.cell(1), reach.groups, cell.sensitivity.why, reach.l2_squared(1))


def _measure(name: str, change: Sensitivity, way: Budget, entry: int) -> tuple[Measure, float]:
    """The measure of a strategy's sums, and the reach of a sum of its noise with weights of length 1, in parts.

    An answer errs by sum R_i z_i, with |R|^2 = q^T H q and z drawn in parts of a step. The groups come in `entry` of
    these parts. A normal draw is rounded by half a part. A Laplace draw is rounded by less than one, because a
    geometric draw is the floor of an exponential one. So rounding adds at most |R|_1 <= sqrt(m) |R| parts.
    """
    noise: Noise
    if isinstance(way, Pure):
        parts = _parts(change.l1 / float(way.epsilon))
        noise = DiscreteLaplace.calibrated(epsilon=way.epsilon, sensitivity=change.l1 * parts)
        reach = reach_of_laplace(CONFIDENCE) * math.sqrt(2) * noise.noise_scale
    else:
        variance = change.l2_squared / mu_squared_of(way)
        parts = _parts(math.sqrt(float(variance)))
        noise = Gaussian(variance=Fraction(math.ceil(variance * parts**2)), l2_squared=change.l2_squared * parts**2)
        reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * noise.noise_scale
    finer = Sensitivity(change.l1 * parts, change.cell * parts, change.cells, change.why, change.l2_squared * parts**2)
    return Measure(name=name, sensitivity=finer, mechanism=noise, parts=parts * entry), reach


def _parts(scale: float) -> int:
    """The parts of a step in which noise of so many steps is drawn."""
    return 1 << max(0, math.ceil(math.log2(FINE / scale)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginalPlan(LinearPlan):
    """The plan of a `Query` for margins: some margins are measured with noise, and all asked ones follow from them.

    Attributes:
        measures: The noisy measures, by the name of a margin.
        measured: The measured margins as places of columns.
        parts: The parts of one step of the statistic in which noise is drawn.
        design: The design, which has the error of each answer.
        bars: The half-width of each answer in steps, by asked margin. `error` is their sum, in units of one row's
            largest contribution.
    """

    kind = "margins"

    measures: Mapping[str, Measure]
    measured: tuple[Margin, ...]
    parts: int
    design: MarginalDesign
    bars: Mapping[Margin, float]
    wider: Mapping[Margin, float]

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The group columns of the question, and the margin."""
        return (*self.stage.group_columns, MARGIN)

    @property
    def margins(self) -> dict[Margin, str]:
        """The asked margins, with their names in words."""
        return {margin: named(self.stage.group_columns, margin) for margin in self.query.groups.margins}

    @property
    def groups_counted(self) -> float:
        """The number of groups that one cell of each margin counts together."""
        sizes = self.design.sizes
        return float(sum(math.prod(n for i, n in enumerate(sizes) if i not in margin) for margin in self.margins))

    def _measured(self) -> dict[str, object]:
        measures = {name: measure.mechanism.record for name, measure in self.measures.items()}
        return {"measures": measures, "margins": self.query.groups.margins, "parts": self.parts}

    def _losses(self) -> list[Composition]:
        return [measure.losses() for measure in self.measures.values()]

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The noise of each measured margin."""
        yield from ((name, measure.mechanism) for name, measure in self.measures.items())

    def noised(self, answers: Sequence[Aggregates], source: Source) -> NoisyAnswer:
        """The groups of all asked margins, one margin after the other, each with its bar."""
        (exact,) = answers
        noisy = self._noisy_margins(exact, source)
        columns = range(len(self.design.sizes))
        values = values_of(len(columns), self.query.groups.keys or ())
        keys: list[Key] = []
        answered, bars = [], []
        for margin, name in self.margins.items():
            answered.append(self.design.answers(margin, noisy).reshape(-1))
            bars.append(np.full(len(answered[-1]), (self.wider if self.lost or self.clipped else self.bars)[margin]))
            for chosen in product(*(values[place] for place in margin)):
                cell = dict(zip(margin, chosen, strict=True))
                keys.append((*(cell.get(place) for place in columns), name))
        every, most = np.concatenate(bars), np.ones(len(keys))
        return NoisyAnswer(tuple(keys), (self.estimate(np.concatenate(answered), every, 0 * most, most),))

    def _noisy_margins(self, aggregates: Aggregates, source: Source) -> dict[Margin, FloatArray]:
        """Each measured margin with its noise, in steps, of its own sizes. Exact numbers end here."""
        sizes = self.design.sizes
        (exact,) = (aggregates.values[name] for name in self.stage.measures)
        table = np.asarray(exact).astype(object).reshape(sizes)
        finer, noisy_margins = self.parts // entry_parts(self.stage), {}
        for margin, measure in zip(self.measured, self.measures.values(), strict=True):
            away = tuple(place for place in range(len(sizes)) if place not in margin)
            cells = np.asarray(table.sum(axis=away) if away else table, dtype=object)
            noisy = measure.mechanism.noisy(cells.reshape(-1) * finer, source=source)
            noisy_margins[margin] = np.asarray(noisy, dtype=float).reshape(cells.shape) / self.parts
        return noisy_margins

    def _errors(self) -> tuple[ExpectedError, ...]:
        """The error of each asked margin, equal for all its groups."""
        return tuple(
            ExpectedError.everywhere(
                f"{self.statistic[0]} by {name}", Fraction(self.bars[margin]) * self.unit, CONFIDENCE
            )
            for margin, name in self.margins.items()
        )

    def _explain_noise(self) -> tuple[Explained, ...]:
        measured = []
        for (name, measure), margin in zip(self.measures.items(), self.measured, strict=True):
            deviation = math.sqrt(self.design.variances[margin]) * float(self.unit)
            why = nodes(f"sensitivity {measure.sensitivity.l1}: {measure.sensitivity.why}")
            measured.append(Explained(f"margin {name}: noise of deviation {deviation:,.4g} a cell", why))
        choice = Explained("what is measured, and why", nodes(*self.why))
        answered = f"margins asked for, by least squares from those: {'; '.join(self.margins.values())}"
        return Explained("noise", (*measured, choice)), Explained(answered)

    def _notes_of_answers(self) -> tuple[str, ...]:
        return (_ONE_TABLE,)

    def _over_groups(self) -> dict[str, Any]:
        return {"margins": list(self.margins.values())}


def _normal_bar(design: MarginalDesign, parts: int, margin: Margin, confidence: float) -> float:
    """The half-width of each answer of a margin under normal noise, in steps. It holds with at least this confidence."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    weights = [design.weights(margin, measured) for measured in design.variances]
    rounding = math.fsum(float((np.abs(values) * counts).sum()) for values, counts in weights) / 2
    return (z * math.sqrt(design.variance(margin)) + rounding / parts) * _SLACK


def _laplace_bar(
    design: MarginalDesign, noise: Mapping[Margin, DiscreteLaplace], parts: int, margin: Margin, confidence: float
) -> float:
    """The half-width under discrete Laplace noise, in steps. It holds with at least this confidence."""
    weights = {measured: design.weights(margin, measured) for measured in noise}
    drawn = [
        (noise[measured], float(value), int(count))
        for measured, (values, counts) in weights.items()
        for value, count in zip(values, counts, strict=True)
        if value and count
    ]
    if len(drawn) == 1 and drawn[0][2] == 1:
        ((one, weight, _),) = drawn
        return abs(weight) * one.half_width(confidence) * _SLACK / parts
    terms = [(noise[measured].noise_scale, *pair) for measured, pair in weights.items()]
    chance = (1 - confidence) / 2
    return min(_chernoff(terms, chance), _on_lattice(terms, chance)) * _SLACK / parts


def _chernoff(terms: list[tuple[float, FloatArray, FloatArray]], chance: float) -> float:
    """Terms: scale, weights and how many draws have each. log M(x) = 2 log(1 - q) - log(1 - q e^x) - log(1 - q e^-x)."""
    reach = min(1 / (scale * float(np.abs(weights).max())) for scale, weights, _ in terms if np.abs(weights).max() > 0)
    best = math.inf
    for s in np.geomspace(reach * 1e-3, reach * (1 - 1e-6), _TRIED):
        total = 0.0
        for scale, weights, counts in terms:
            x = np.abs(weights) * s
            q = math.exp(-1 / scale)
            one = 2 * math.log(-math.expm1(-1 / scale)) - np.log(-np.expm1(x - 1 / scale)) - np.log1p(-q * np.exp(-x))
            total += float((counts * one).sum())
        best = min(best, (total - math.log(chance)) / s)
    return best


def _on_lattice(terms: list[tuple[float, FloatArray, FloatArray]], chance: float) -> float:
    """The least lattice point that the sum of terms, each rounded up, exceeds with at most this probability.

    Wrapping round the lattice and floating point cost less than _SPARE, which is taken off the chance.
    """
    deviation = math.sqrt(
        math.fsum(
            float((counts * weights**2).sum()) * 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
            for scale, weights, counts in terms
        )
    )
    if not deviation > 0:
        return 0.0
    step = 2 * _REACH * deviation / _POINTS
    rounding = step * sum(float(counts.sum()) for _, _, counts in terms)
    if _chernoff(terms, _SPARE / 4) > (_REACH - 1) * deviation - rounding:
        return math.inf
    places, transform = np.arange(-_POINTS // 2, _POINTS // 2 + 1), np.ones(_POINTS // 2 + 1, dtype=complex)
    for scale, weights, counts in terms:
        for weight, many in zip(np.abs(weights), counts, strict=True):
            if weight and many:
                most = np.floor(places * (step / weight))  # of a draw that is rounded up to the place, or below it
                tails = np.exp(-np.where(most < 0, -most, most + 1) / scale) / (1 + math.exp(-1 / scale))
                chances = np.diff(np.where(most < 0, tails, -tails)) + (places[1:] == 0)
                transform *= np.fft.rfft(np.roll(chances, 1 - _POINTS // 2)) ** int(many)
    law = np.fft.irfft(transform, n=_POINTS)[: _POINTS // 2]
    beyond = np.cumsum(law[::-1])[::-1] - law  # beyond[j]: above j steps
    fits = np.flatnonzero(beyond <= chance - _SPARE)
    return float(fits[0]) * step if len(fits) else math.inf


def plan_margins(query: Query, base: GroupPlan, spend: Budget) -> MarginalPlan:
    """Plan the margins of a query.

    Args:
        query: The query, with its margins.
        base: The plan of the same groups without margins, whose statement and bounds this plan takes.
        spend: The spend.

    Returns:
        The plan with the least sum of bars.

    Raises:
        QueryError: The noise is too wide to be drawn.
    """
    if base.bounding.norm is not None:
        coarsest = tuple(sorted(set.intersection(*map(set, query.groups.margins))))
        if len(coarsest) < len(query.groups.columns):
            base = replace(base, stage=replace(base.stage, length_by=coarsest))
    candidates = [_planned(query, base, spend, way, price) for way, price in ways(spend, norm=base.bounding.norm)]
    best = min(candidates, key=lambda one: one.error)
    others = (f"less good: {one.why[0]}" for one in candidates if one is not best)
    return replace(best, why=(*best.why, *others))


def _planned(query: Query, base: GroupPlan, spend: Budget, way: Budget, price: Budget) -> MarginalPlan:
    groups = query.groups
    sizes = tuple(map(len, values_of(len(groups.columns), groups.keys or ())))
    (cell,) = base.measures.values()
    (size, unit), entry = row_of(base), cell.parts
    reach = contribution_of(base) if base.bounding.norm is None else norm_contribution(base)
    moved = 1 if isinstance(reach, NormContribution) else size * entry  # a norm is in parts, caps are in rows
    importance = dict.fromkeys(groups.margins, 1.0)
    candidates = [one for one in _candidates(sizes, groups.margins) if set(one) >= set(base.stage.length_by or ())]
    cells = {margin: math.prod(sizes[i] for i in range(len(sizes)) if i not in margin) for margin in candidates}
    costs = {margin: float(reach.l2_squared(cells[margin])) for margin in candidates}
    shares = best_shares(sizes, importance, costs)
    noise: Mapping[Margin, DiscreteLaplace | Gaussian]
    if isinstance(way, Pure):
        laplace = _laplace(
            way.epsilon, reach.l1 * moved, _pure_candidates(sizes, groups.margins, shares), sizes, importance
        )
        noise, finer, parts = laplace, 1, entry
        design = _design(sizes, noise, parts)
        bar = partial(_laplace_bar, design, laplace, parts)
    else:
        noise, finer = _normal(mu_squared_of(way), reach, moved, shares, cells)
        parts = finer * entry
        design = _design(sizes, noise, parts)
        bar = partial(_normal_bar, design, parts)
    bars, wider = ({margin: bar(margin, sure) for margin in importance} for sure in (CONFIDENCE, WITH_LOSS))
    measures = {
        named(groups.columns, margin): Measure(
            name=named(groups.columns, margin),
            sensitivity=_sensitivity(reach, cells[margin], moved * finer, cell.sensitivity.why),
            mechanism=one,
        )
        for margin, one in noise.items()
    }
    error = math.fsum(bars.values()) / size
    kind = next(iter(measures.values())).mechanism.kind
    return MarginalPlan(
        query=query,
        bounding=base.bounding,
        spend=spend,
        price=price,
        stage=base.stage,
        measures=measures,
        measured=tuple(noise),
        parts=parts,
        unit=unit,
        design=design,
        bars=bars,
        wider=wider,
        why=(f"{kind} on {len(noise)} margins: bars of all asked for add up to {error:.4g}",),
        error=error,
    )


def _design(sizes: tuple[int, ...], noise: Mapping[Margin, Noise], parts: int) -> MarginalDesign:
    """The design of noise that is drawn in parts of a step. Noise that is surely 0 has weights too."""
    return MarginalDesign(sizes, {margin: max(law.law.variance, 1e-12) / parts**2 for margin, law in noise.items()})


def _sensitivity(reach: Contribution | NormContribution, cells: int, row: int, why: str) -> Sensitivity:
    cell = reach.cell(cells) * row
    l1 = reach.l1 * row
    reason = f"{why}; {cells:,} cell{'s' * (cells > 1)} of the whole table in each of this margin"
    return Sensitivity(l1, min(cell, l1), -(-l1 // min(cell, l1)), reason, reach.l2_squared(cells) * row**2)


def _candidates(sizes: tuple[int, ...], margins: Iterable[Margin]) -> list[Margin]:
    full = tuple(range(len(sizes)))
    inside = {part for margin in margins for part in subsets(margin)} | {full}
    margins_measured = set(subsets(full)) if len(sizes) <= _MOST_MEASURED else inside
    return sorted(margins_measured, key=lambda margin: (len(margin), margin))


def _pure_candidates(
    sizes: tuple[int, ...], margins: tuple[Margin, ...], shares: Mapping[Margin, float]
) -> list[dict[Margin, float]]:
    full = tuple(range(len(sizes)))
    roots = {margin: math.sqrt(share) for margin, share in shares.items()}
    large = {margin: 1.0 for margin, share in shares.items() if share >= max(shares.values()) / 4}
    return [{full: 1.0}, dict.fromkeys(margins, 1.0), roots, large]


def _parts_of_margins(shares: Mapping[Margin, float]) -> dict[Margin, Fraction]:
    """The shares as fractions that add up to at most 1."""
    total = math.fsum(shares.values())
    return {
        margin: Fraction(max(1, math.floor((_SHARES - len(shares)) * share / total)), _SHARES)
        for margin, share in shares.items()
    }


def _normal(
    mu_squared: Fraction,
    reach: Contribution | NormContribution,
    size: int,
    shares: Mapping[Margin, float],
    cells: Mapping[Margin, int],
) -> tuple[dict[Margin, Gaussian], int]:
    """Normal noise by margin, and the parts of a step in which it is drawn."""
    squares = {margin: reach.l2_squared(cells[margin]) * size**2 for margin in shares}
    exact = {margin: squares[margin] / (mu_squared * part) for margin, part in _parts_of_margins(shares).items()}
    parts = 1 << max(0, math.ceil(math.log2(FINE / math.sqrt(float(min(exact.values()))))))
    noise = {
        margin: Gaussian(variance=Fraction(math.ceil(variance * parts**2)), l2_squared=squares[margin] * parts**2)
        for margin, variance in exact.items()
    }
    if max(one.noise_scale for one in noise.values()) > LARGEST_SCALE:
        raise QueryError("marginals: the noise is too wide to be drawn; spend more, or take a larger step")
    return noise, parts


def _laplace(
    epsilon: Fraction,
    sensitivity: int,
    candidates: list[dict[Margin, float]],
    sizes: tuple[int, ...],
    importance: Mapping[Margin, float],
) -> dict[Margin, DiscreteLaplace]:
    """Discrete Laplace noise by margin: of the candidates, the one with the least variances."""

    def total(noise: Mapping[Margin, DiscreteLaplace]) -> float:
        design = _design(sizes, noise, 1)
        if not all(design.tells(margin) for margin in importance):
            return math.inf
        return math.fsum(design.variance(margin) for margin in importance)

    choices = [
        {
            margin: DiscreteLaplace.calibrated(epsilon=epsilon * part, sensitivity=sensitivity)
            for margin, part in _parts_of_margins(shares).items()
        }
        for shares in candidates
    ]
    return min(choices, key=total)
