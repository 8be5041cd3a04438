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
    apart = vectors_apart(neighbours, asked)
    alone = (math.ceil((norm * one.largest * parts_of(one)) ** 2 * apart) for one in asked)  # if the norm were its own
    wanted = tuple(
        Measurement(one.name, _sensitivity(squared, cells, norm), one.weight / parts_of(one))
        for one, squared in zip(asked, alone, strict=True)
    )
    allotted = allocate_normal((*wanted, *trees), discovery, spend)
    measures = {
        one.name: Measure(
            name=one.name, sensitivity=one.sensitivity, mechanism=allotted.noise[one.name], parts=tree_parts
        )
        for one in trees
    }
    if not asked:
        return Shared(allotted, measures, None, None)
    clip = _clip(norm, asked, allotted.noise)
    l2_squared = apart * clip.limit**2
    mu_squared = sum((allotted.noise[one.name].mu_squared for one in asked), Fraction(0))
    whole = Gaussian(variance=_short(l2_squared / mu_squared), l2_squared=l2_squared)
    for one in asked:
        weight = clip.coordinates[one.name].weight ** 2
        mechanism = Gaussian(
            variance=_short(whole.variance / weight), l2_squared=max(1, math.floor(l2_squared / weight))
        )
        measures[one.name] = Measure(
            name=one.name,
            sensitivity=_sensitivity(mechanism.l2_squared, cells, norm),
            mechanism=mechanism,
            parts=parts_of(one),
        )
    return Shared(allotted, measures, clip, whole)


def vectors_apart(neighbours: Neighbours, asked: Iterable[Measurement]) -> int:
    """The largest squared distance of two neighbours' sums, over the limit's square."""
    if neighbours is Neighbours.ADD_REMOVE:
        return 1
    return 4 if any(one.signed for one in asked) else 2


def _clip(norm: Fraction, asked: Iterable[Measurement], noise: Mapping[str, Gaussian]) -> NormClip:
    """The clip whose lengths give each measure about the noise that it is allotted.

    Raises:
        ParameterError: For a norm so large that the engines' exact sums would not hold it.
    """
    if norm > LARGEST:
        raise ParameterError("norm", float(norm), f"must be at most {LARGEST:,} rows")
    rows = {one: one.largest * parts_of(one) / noise[one.name].noise_scale for one in asked}
    whole = math.hypot(*rows.values())
    coordinates = {
        one.name: Coordinate(*_factor(_ONE_ROW * row / whole / one.largest), parts_of(one)) for one, row in rows.items()
    }
    row = sum((one.largest * Fraction(coordinates[one.name].times, coordinates[one.name].over)) ** 2 for one in rows)
    return NormClip(math.isqrt(math.ceil(norm**2 * row) - 1) + 1, coordinates)


def _sensitivity(squared: int, cells: int, norm: Fraction) -> Sensitivity:
    """Of one measure that is all of a unit's vector, of this squared length."""
    cell = math.isqrt(squared)
    why = f"a unit's whole vector is clipped to norm {float(norm):g}, which all measures share"
    return Sensitivity(cell * cells, cell, cells, why, squared)


def _factor(length: float) -> tuple[int, int]:
    """Times and over, with times / over about this length."""
    over = 1 if length >= _DIGITS else 2 ** math.ceil(math.log2(_DIGITS / length))
    return round(length * over), over


def _short(variance: Fraction) -> Fraction:
    """Rounded up to 48 significant bits: a sampler works with its digits."""
    shift = 48 - math.floor(math.log2(variance)) if variance < 2**48 else 0
    return Fraction(math.ceil(variance * 2**shift), 2**shift)
