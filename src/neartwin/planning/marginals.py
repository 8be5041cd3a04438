"""Planning margins: which to measure, with how much noise each, so that the variances of those asked for add up to least.

One statement counts (or sums) the table behind all margins; what noise is added to are margins of it, exact sums of its cells. A
unit with at most C rows in each of at most k cells moves margin S in a cell by at most min(r, k) C, where r cells of the whole
table lie in one of S, and all of S by at most k C in absolute sum: the squared length is most when the k cells fill as few cells
of S as they can. Margins with normal noise share mu^2, by the optimum of `best_shares`; those with discrete Laplace noise share
epsilon, over the whole table, over the margins asked for, and over what would be measured with normal noise, whichever is best.

How far an answer of a margin can be from the truth: from the weights of the noise in it, known before anything is released.

Normal noise: the answer errs by a normal law whose variance is that of the design, and by the rounding of each draw, at most
half a part. Discrete Laplace noise: by a weighted sum of independent draws. One draw alone has its own law's bar. Of several,
each term is rounded up to a fine lattice, where the law of the sum is a product of Fourier transforms: that sum is never below
the true one, so its tail is an upper bound. What lies beyond the lattice, and all where draws are too wide for one, is bounded
by Chernoff: the tail is at most min over s of exp(sum log M(s w) - s t), M the moment generating function; any s will do.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure, Rdp, Zcdp
from neartwin.errors import PrivacyError, QueryError
from neartwin.exact import FloatArray
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.linear.marginals import Margin, MarginalDesign, best_shares, subsets
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.planning.allocation import LARGEST_SCALE
from neartwin.planning.norm_clipping import WHY, NormContribution, entry_parts, norm_contribution, normal_ways
from neartwin.planning.plan import GroupPlan, MarginalPlan
from neartwin.queries.groups import named, values_of
from neartwin.queries.query import Query
from neartwin.statistics.measures import Measure
from neartwin.statistics.sensitivity import Sensitivity
from neartwin.tradeoff import mu_of

_SLACK = 1 + 1e-9  # for the rounding of these formulas themselves
_TRIED = 400
_POINTS = 2**17  # of the lattice
_REACH = 24.0  # deviations to each side
_WIDEST = 2e5  # scale of a draw, in steps
_SPARE = 1e-6


def half_width(plan: MarginalPlan, margin: Margin, confidence: float) -> float:
    """Each answer of a margin is within this of the truth with this probability at least, in steps."""
    noise = dict(zip(plan.measured, (measure.mechanism for measure in plan.measures.values()), strict=True))
    weights = {measured: plan.design.weights(margin, measured) for measured in noise}
    if all(isinstance(one, Gaussian) for one in noise.values()):
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        rounding = math.fsum(float((np.abs(values) * counts).sum()) for values, counts in weights.values()) / 2
        return (z * math.sqrt(plan.design.variance(margin)) + rounding / plan.parts) * _SLACK
    terms = [
        (float(one.scale), *weights[measured]) for measured, one in noise.items() if isinstance(one, DiscreteLaplace)
    ]
    alone = [(one, values, counts) for one, (values, counts) in zip(noise.values(), weights.values(), strict=True)]
    single = [
        (one, value) for one, values, counts in alone for value, n in zip(values, counts, strict=True) if n and value
    ]
    if len(single) == 1 and sum(float(counts[values != 0].sum()) for _, values, counts in alone) == 1:
        ((one, weight),) = single
        return abs(float(weight)) * one.half_width(confidence) * _SLACK
    chance = (1 - confidence) / 2
    return min(_chernoff(terms, chance), _on_lattice(terms, chance)) * _SLACK


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
    """The least lattice point that the sum of terms, each rounded up, passes with at most this probability.

    Wrapping round the lattice and floating point cost less than _SPARE, which is taken off the chance.
    """
    if max(scale for scale, _, _ in terms) > _WIDEST:
        return math.inf
    deviation = math.sqrt(
        math.fsum(
            float((counts * weights**2).sum()) * 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
            for scale, weights, counts in terms
        )
    )
    if not deviation > 0:
        return 0.0
    step = 2 * _REACH * deviation / _POINTS
    if _chernoff(terms, _SPARE / 4) > (_REACH - 1) * deviation - step * sum(float(n.sum()) for _, _, n in terms):
        return math.inf
    transform = np.ones(_POINTS // 2 + 1, dtype=complex)
    for scale, weights, counts in terms:
        draws = np.arange(-math.ceil(42 * scale) - 1, math.ceil(42 * scale) + 2)
        chances = -math.expm1(-1 / scale) / (1 + math.exp(-1 / scale)) * np.exp(-np.abs(draws) / scale)
        for weight, many in zip(np.abs(weights), counts, strict=True):
            if weight and many:
                places = np.ceil(weight * draws / step).astype(np.int64) % _POINTS
                transform *= np.fft.rfft(np.bincount(places, weights=chances, minlength=_POINTS)) ** int(many)
    law = np.fft.irfft(transform, n=_POINTS)[: _POINTS // 2]
    beyond = np.cumsum(law[::-1])[::-1] - law  # beyond[j]: above j steps
    fits = np.flatnonzero(beyond <= chance - _SPARE)
    return float(fits[0]) * step if len(fits) else math.inf


CONFIDENCE = 0.95
_FINE = 2**16  # the least noise in parts of a step, so that rounding it is nothing beside it
_SHARES = 2**20  # shares are multiples of one part in this
_MOST_MEASURED = 6  # columns of which every subset may be measured; of more, those within a margin that is asked for


@dataclass(frozen=True, slots=True)
class _Reach:
    """What one unit can do to a margin of which each cell is `cells` of the whole table: in units of one row's largest."""

    rows: int
    groups: int
    total: int
    both: int
    crossed: int

    def cell(self, cells: int) -> int:
        """The most that one cell moves."""
        return self.crossed * min(min(cells, self.groups) * self.rows, self.total)

    @property
    def l1(self) -> int:
        """The most that all cells move, in absolute sum."""
        return self.both * self.total

    def l2_squared(self, cells: int) -> int:
        """The most that all cells move, in squared length."""
        full, rest = divmod(self.groups, cells)
        one = full * (cells * self.rows) ** 2 + (rest * self.rows) ** 2
        most = min(cells * self.rows, self.total)
        return min(one, self.total * most) * self.both * self.crossed


def plan_margins(query: Query, base: GroupPlan, spend: Budget) -> MarginalPlan:
    """The plan of margins. base: of the same groups without them, whose statement and bounds it has."""
    payable = ways(spend) if base.bounding.norm is None else normal_ways(ways(spend))
    found = [_made(query, base, way, price, spend) for way, price in payable]
    best = min(found, key=lambda one: one.error)
    others = tuple(f"less good: {one.why[0]}" for one in found if one is not best)
    return best if not others else _told(best, others)


def _told(plan: MarginalPlan, lines: tuple[str, ...]) -> MarginalPlan:
    return replace(plan, why=(*plan.why, *lines))


def ways(spend: Budget) -> list[tuple[Budget, Budget]]:
    """What is shared, and the price; only normal noise uses a delta."""
    match spend:
        case Pure():
            return [(spend, spend)]
        case Approx(epsilon=epsilon, delta=delta):
            mu = Fraction(float(mu_of(epsilon, delta).lower))
            return [(Pure(epsilon), Pure(epsilon)), (Gdp(mu, Fraction(0)), spend)]
        case Zcdp(rho=rho):
            return [(spend, Zcdp(rho, Fraction(0)))]
        case Rdp(order=order, epsilon=epsilon):
            return [(spend, Rdp(order, epsilon, Fraction(0)))]
        case Gdp(mu=mu):
            return [(spend, Gdp(mu, Fraction(0)))]
        case _:
            raise PrivacyError(f"a plan cannot spend {spend}; spend pure, approx, zcdp, rdp or gdp")


def _made(query: Query, base: GroupPlan, way: Budget, price: Budget, spend: Budget) -> MarginalPlan:
    groups = query.groups
    sizes = tuple(map(len, values_of(len(groups.columns), groups.keys or ())))
    (cell,) = base.measures.values()
    size, unit = row_of(base)
    reach, whole = _reach_of(query, base), tuple(range(len(sizes)))
    moved = 1 if isinstance(reach, NormContribution) else size  # what it is of: parts that are clipped, or rows
    wanted = dict.fromkeys(groups.margins, 1.0)
    candidates = _candidates(sizes, groups.margins)
    cells = {margin: math.prod(sizes[i] for i in range(len(sizes)) if i not in margin) for margin in candidates}
    costs = {margin: float(reach.l2_squared(cells[margin])) for margin in candidates}
    shares = {whole: 1.0} if isinstance(reach, NormContribution) else best_shares(sizes, wanted, costs)
    noise: Mapping[Margin, DiscreteLaplace | Gaussian]
    if isinstance(way, Pure):
        noise = _laplace(way.epsilon, reach, moved, _pure_candidates(sizes, groups.margins, shares), sizes, wanted)
        finer = 1
    else:
        noise, finer = _normal(mu_squared_of(way), reach, moved, shares, cells)
    parts = finer * entry_parts(base.stage)
    measures = {
        named(groups.columns, margin): Measure(
            name=named(groups.columns, margin),
            sensitivity=_sensitivity(reach, cells[margin], moved * finer, cell.sensitivity.why),
            mechanism=one,
        )
        for margin, one in noise.items()
    }
    design = MarginalDesign(sizes, {margin: _variance(one) / parts**2 for margin, one in noise.items()})
    made = MarginalPlan(
        query=query, bounding=base.bounding, spend=spend, price=price, stage=base.stage, measures=measures,
        measured=tuple(noise), parts=parts, unit=unit, design=design, why=(), error=0.0,
    )  # fmt: skip
    return _explained(made, size, costs, sizes, wanted)


def _explained(
    plan: MarginalPlan,
    size: int,
    costs: Mapping[Margin, float],
    sizes: tuple[int, ...],
    wanted: Mapping[Margin, float],
) -> MarginalPlan:
    error = math.fsum(half_width(plan, margin, CONFIDENCE) for margin in wanted) / size
    laplace = any(isinstance(measure.mechanism, DiscreteLaplace) for measure in plan.measures.values())
    kind = "discrete Laplace noise" if laplace else "normal noise"
    told = f"{kind} on {len(plan.measured)} margins: bars of all asked for add up to {error:.4g}"
    budget = sum(costs[margin] / plan.design.variances[margin] for margin in plan.measured)
    whole = tuple(range(len(sizes)))
    alone = MarginalDesign(sizes, {whole: costs[whole] / budget})
    each = MarginalDesign(sizes, {margin: len(wanted) * costs[margin] / budget for margin in wanted})
    best, from_whole, apart = (
        math.fsum(design.variance(margin) for margin in wanted) for design in (plan.design, alone, each)
    )
    why = (
        told,
        *((WHY,) if plan.bounding.norm is not None else ()),
        f"variances of a cell add up to {best:.4g}; measured alone, the whole table would give {from_whole:.4g}",
        f"and the margins themselves, with equal shares, {apart:.4g}",
    )
    return replace(plan, why=why, error=error)


def row_of(base: GroupPlan) -> tuple[int, Fraction]:
    """The most that one row adds to a cell, in steps, and what a step is worth."""
    if not base.stage.grid:
        return 1, Fraction(1)
    (column,) = base.stage.grid.values()
    return max(abs(column.low), abs(column.high), 1), column.bounds.step


def is_mixed(base: GroupPlan) -> bool:
    """Whether a row can raise a sum and another lower it: then a replaced unit can move one cell by both."""
    return any(column.low < 0 < column.high for column in base.stage.grid.values())


def _reach_of(query: Query, base: GroupPlan) -> _Reach | NormContribution:
    bounding, mixed = base.bounding, is_mixed(base)
    if bounding.norm is not None:
        return norm_contribution(base)
    most = bounding.max_rows_per_group * bounding.max_groups
    replaced = query.table.neighbours is not Neighbours.ADD_REMOVE
    return _Reach(
        rows=bounding.max_rows_per_group,
        groups=bounding.max_groups,
        total=min(most, bounding.rows or most),
        both=2 if replaced else 1,
        crossed=2 if replaced and mixed else 1,
    )


def _sensitivity(reach: _Reach | NormContribution, cells: int, row: int, why: str) -> Sensitivity:
    cell = reach.cell(cells) * row
    l1 = reach.l1 * row
    told = f"{why}; {cells:,} cell{'s' * (cells > 1)} of the whole table in each of this margin"
    return Sensitivity(l1, min(cell, l1), -(-l1 // min(cell, l1)), told, reach.l2_squared(cells) * row**2)


def _candidates(sizes: tuple[int, ...], margins: Iterable[Margin]) -> list[Margin]:
    whole = tuple(range(len(sizes)))
    inside = {part for margin in margins for part in subsets(margin)} | {whole}
    found = set(subsets(whole)) if len(sizes) <= _MOST_MEASURED else inside
    return sorted(found, key=lambda margin: (len(margin), margin))


def _pure_candidates(
    sizes: tuple[int, ...], margins: tuple[Margin, ...], shares: Mapping[Margin, float]
) -> list[dict[Margin, float]]:
    whole = tuple(range(len(sizes)))
    roots = {margin: math.sqrt(share) for margin, share in shares.items()}
    large = {margin: 1.0 for margin, share in shares.items() if share >= max(shares.values()) / 4}
    return [{whole: 1.0}, dict.fromkeys(margins, 1.0), roots, large]


def _parts(shares: Mapping[Margin, float]) -> dict[Margin, Fraction]:
    """The same as fractions that add up to at most 1."""
    whole = math.fsum(shares.values())
    return {
        margin: Fraction(max(1, math.floor((_SHARES - len(shares)) * share / whole)), _SHARES)
        for margin, share in shares.items()
    }


def _normal(
    mu_squared: Fraction,
    reach: _Reach | NormContribution,
    size: int,
    shares: Mapping[Margin, float],
    cells: Mapping[Margin, int],
) -> tuple[dict[Margin, Gaussian], int]:
    """Normal noise by margin, and in how many parts of a step it is drawn."""
    squares = {margin: reach.l2_squared(cells[margin]) * size**2 for margin in shares}
    exact = {margin: squares[margin] / (mu_squared * part) for margin, part in _parts(shares).items()}
    least = math.sqrt(float(min(exact.values())))
    parts = 1 << max(0, math.ceil(math.log2(_FINE / least)))
    made = {
        margin: Gaussian(variance=Fraction(math.ceil(variance * parts**2)), l2_squared=squares[margin] * parts**2)
        for margin, variance in exact.items()
    }
    if math.sqrt(float(max(one.variance for one in made.values()))) > LARGEST_SCALE:
        raise QueryError("marginals: the noise is too wide to be drawn; spend more, or take a larger step")
    return made, parts


def _laplace(  # noqa: PLR0917 - of one plan
    epsilon: Fraction,
    reach: _Reach | NormContribution,
    size: int,
    candidates: list[dict[Margin, float]],
    sizes: tuple[int, ...],
    wanted: Mapping[Margin, float],
) -> dict[Margin, DiscreteLaplace]:
    """Discrete Laplace noise by margin: of the candidates, the one with the least variances."""

    def total(noise: Mapping[Margin, DiscreteLaplace]) -> float:
        design = MarginalDesign(sizes, {margin: _variance(one) for margin, one in noise.items()})
        if not all(design.tells(margin) for margin in wanted):
            return math.inf
        return math.fsum(design.variance(margin) for margin in wanted)

    made = [
        {
            margin: DiscreteLaplace.calibrated(epsilon=epsilon * part, sensitivity=reach.l1 * size)
            for margin, part in _parts(shares).items()
        }
        for shares in candidates
    ]
    return min(made, key=total)


def _variance(noise: DiscreteLaplace | Gaussian) -> float:
    """Of rounded normal noise, before it is rounded: drawn in parts so fine that rounding is a share of 2^-32."""
    found = float(noise.variance) if isinstance(noise, Gaussian) else float(noise.law.variance)
    return max(found, 1e-12)  # noise that is surely 0 has weights too


def mu_squared_of(way: Budget) -> Fraction:
    """What a way of spending leaves for normal noise: mu^2."""
    match way:
        case Gdp(mu=mu):
            return mu**2
        case Zcdp(rho=rho):
            return 2 * rho
        case Rdp(order=order, epsilon=epsilon):
            return 2 * epsilon / order
    raise PrivacyError(f"{way} pays for no normal noise")
