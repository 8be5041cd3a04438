"""Noise for measures whose vector is norm-clipped together: one normal mechanism for all of them.

A unit's whole vector, over groups and measures, has length at most c in units of `neartwin.planning.stage`, so noise N(0, s2) on
each length is mu-GDP with mu^2 = c^2 / s2 when a unit is added or removed, in any number of groups. A replaced unit moves the
sums by the difference of two such vectors: squared, at most 4 c^2; 2 c^2 where no measure has values of both signs, for then
their inner product is not negative. Dong, Roth, Su 2022, Thm 2.7.

The lengths decide how the noise is shared. With variances V that the split of the spend asks for, a step of a measure is given a
length in proportion to 1 / sqrt(V), rounded; the variances that follow are exact. The unit of the norm is a row: a unit whose
only group has `norm` rows of the largest values has length c.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from neartwin.accounting.budgets import Budget
from neartwin.errors import ParameterError
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.planning.allocation import Allocation, Discovery, allocate_normal
from neartwin.planning.contribution_bounds import ContributionBounds
from neartwin.planning.stage import LARGEST, Coordinate, NormClip
from neartwin.statistics.measures import Measure, Measurement
from neartwin.statistics.sensitivity import Sensitivity

_ONE_ROW = 2**20  # about the length of a row of the largest values
_DIGITS = 64  # at least, of each measure's factor
_FINEST = 1024  # parts in a row's largest value, at least: what truncation loses is below one of them


def parts_of(need: Measurement) -> int:
    """Parts of a step that the clipped sum is handed out in."""
    return max(1, math.ceil(_FINEST / need.largest))


@dataclass(frozen=True, slots=True)
class Clipped:
    """The clip, the one mechanism behind all measures, in lengths, and what that is for each of them, in parts of a step."""

    clip: NormClip
    whole: Gaussian
    each: Mapping[str, Gaussian]


@dataclass(frozen=True, slots=True)
class Shared:
    """What `share_norm` decides: the split of the spend, measures with their noise, the clip, and the noise of all together.

    clip, whole: of all measures but those of trees, each of which is a vector of its own; None where there is none.
    """

    allotted: Allocation[Gaussian]
    measures: Mapping[str, Measure]
    clip: NormClip | None
    whole: Gaussian | None


def share_norm(
    asked: tuple[Measurement, ...],
    bounding: ContributionBounds,
    discovery: Discovery | None,
    spend: Budget,
    *,
    neighbours: Neighbours,
    trees: tuple[Measurement, ...] = (),
    tree_parts: int = 1,
) -> Shared:
    """Split a spend among measures whose vector is clipped together, and trees, each clipped on its own: their mu^2 add up.

    tree_parts: of a row, in which trees count.
    """
    norm, cells = bounding.norm or Fraction(0), bounding.max_groups
    apart, reached = vectors_apart(neighbours, asked), {one.name: one for one in asked}
    wanted = tuple(
        Measurement(one.name, asked_for(norm, one, apart, cells), one.weight / parts_of(one)) for one in asked
    )
    allotted = allocate_normal((*wanted, *trees), discovery, spend)
    noise = allotted.noise
    counted = {
        one.name: Measure(name=one.name, sensitivity=one.sensitivity, mechanism=noise[one.name], parts=tree_parts)
        for one in trees
    }
    if not asked:
        return Shared(allotted, counted, None, None)
    mu_squared = sum((noise[name].mu_squared for name in reached), Fraction(0))
    found = clipped(norm, reached, {name: noise[name].variance for name in reached}, mu_squared, apart)
    measures = {
        name: Measure(
            name=name, sensitivity=of_clipped(made, cells, norm), mechanism=made, parts=parts_of(reached[name])
        )
        for name, made in found.each.items()
    }
    return Shared(allotted, measures | counted, found.clip, found.whole)


def vectors_apart(neighbours: Neighbours, asked: Iterable[Measurement]) -> int:
    """The largest squared distance of two neighbours' sums, over the limit's square."""
    if neighbours is Neighbours.ADD_REMOVE:
        return 1
    return 4 if any(one.signed for one in asked) else 2


def asked_for(norm: Fraction, one: Measurement, apart: int, cells: int) -> Sensitivity:
    """Of one measure alone in its parts, if the norm were its own: what the split of the spend starts from.

    >>> asked_for(Fraction(3), Measurement("n", Sensitivity(1, 1, 1, ""), 1.0), 1, 5).l2_squared
    9437184
    """
    squared = math.ceil((norm * one.largest * parts_of(one)) ** 2 * apart)
    cell = math.isqrt(squared - 1) + 1
    return Sensitivity(cell * cells, cell, cells, _why(norm), squared)


def clipped(
    norm: Fraction,
    reached: Mapping[str, Measurement],
    variances: Mapping[str, Fraction],
    mu_squared: Fraction,
    apart: int,
) -> Clipped:
    """The clip and its noise. variances: wanted, in parts; mu_squared: what all measures together may spend.

    Errors: `ParameterError` for a norm so large that the engines' exact sums would not hold it.
    """
    if norm > LARGEST:
        raise ParameterError("norm", float(norm), f"must be at most {LARGEST:,} rows")
    rows = {name: one.largest * parts_of(one) / math.sqrt(variances[name]) for name, one in reached.items()}
    whole = math.hypot(*rows.values())
    coordinates = {
        name: Coordinate(*_factor(_ONE_ROW * rows[name] / whole / one.largest), parts_of(one))
        for name, one in reached.items()
    }
    row = sum((reached[name].largest * Fraction(one.times, one.over)) ** 2 for name, one in coordinates.items())
    limit = math.isqrt(math.ceil(norm**2 * row) - 1) + 1
    l2_squared = apart * limit**2
    joint = Gaussian(variance=_short(l2_squared / mu_squared), l2_squared=l2_squared)
    each = {
        name: Gaussian(
            variance=_short(joint.variance / one.weight**2),
            l2_squared=max(1, math.floor(l2_squared / one.weight**2)),
        )
        for name, one in coordinates.items()
    }
    return Clipped(NormClip(limit, coordinates), joint, each)


def of_clipped(mechanism: Gaussian, cells: int, norm: Fraction) -> Sensitivity:
    """What a measure can move within the norm, all others at 0."""
    cell = math.isqrt(mechanism.l2_squared)
    return Sensitivity(cell * cells, cell, cells, _why(norm), mechanism.l2_squared)


def _why(norm: Fraction) -> str:
    return f"a unit's whole vector is clipped to norm {float(norm):g}, which all measures share"


def _factor(length: float) -> tuple[int, int]:
    """Times and over, with times / over about this length."""
    over = 1 if length >= _DIGITS else 2 ** math.ceil(math.log2(_DIGITS / length))
    return round(length * over), over


def _short(variance: Fraction) -> Fraction:
    """Rounded up to 48 significant bits: a sampler works with its digits."""
    shift = 48 - math.floor(math.log2(variance)) if variance < 2**48 else 0
    return Fraction(math.ceil(variance * 2**shift), 2**shift)
