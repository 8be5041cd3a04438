"""Noise for measures whose vector is norm-clipped together: one normal mechanism for all of them.

A unit's whole vector, over groups and measures, has length at most c in units of `neartwin.planning.stage`. So noise
N(0, s2) on each length is mu-GDP with mu^2 = c^2 / s2 under add/remove, in any number of groups. A replaced unit moves
the sums by the difference of two such vectors, whose square is at most 4 c^2. It is at most 2 c^2 if no measure has
values of both signs, because their inner product is then not negative. Dong, Roth, Su 2022, Thm 2.7.

The lengths decide how the noise is shared. Let the split of the spend ask for variances V. A step of a measure gets a
length in proportion to 1 / sqrt(V), rounded; the resulting variances are exact. The unit of the norm is a row: a unit
whose only group has `norm` rows of the largest values has length c.
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

_ONE_ROW = 2**20  # the approximate length of a row of the largest values
_DIGITS = 64  # the least numerator of each measure's factor
_FINEST = 1024  # the least parts in a row's largest value: truncation loses less than one


def parts_of(need: Measurement) -> int:
    """The parts of a step in which the clipped sum counts."""
    return max(1, math.ceil(_FINEST / need.largest))


@dataclass(frozen=True, slots=True)
class Shared:
    """The result of `share_norm`.

    Attributes:
        allotted: The split of the spend.
        measures: The measures with their noise.
        clip: The clip of all measures but those of trees, each of which is a separate vector; None if there are none.
        joint: The noise of all these measures together; None if there are none.
    """

    allotted: Allocation[Gaussian]
    measures: Mapping[str, Measure]
    clip: NormClip | None
    joint: Gaussian | None


def share_norm(
    needs: tuple[Measurement, ...],
    bounding: ContributionBounds,
    discovery: Discovery | None,
    spend: Budget,
    *,
    neighbours: Neighbours,
    trees: tuple[Measurement, ...] = (),
    tree_parts: int = 1,
) -> Shared:
    """Split a spend among measures whose vector is clipped together, and trees, each clipped alone. Their mu^2 add up.

    Args:
        needs: The measures that are clipped together.
        bounding: The bounds of a unit, with a norm.
        discovery: The groups to discover; None for public groups.
        spend: The spend.
        neighbours: The neighbour relation.
        trees: The measures by cell.
        tree_parts: The parts of a row in which trees count.

    Returns:
        The split, with the noise and the clip.

    Raises:
        ParameterError: The norm is so large that the engines' exact sums would overflow, or the noise is too wide to
            draw.
        PrivacyError: The spend cannot pay for normal noise, or for the discovery.
    """
    norm, cells = bounding.norm or Fraction(0), bounding.max_groups
    apart = vectors_apart(neighbours, needs)
    alone = (
        math.ceil((norm * one.largest * parts_of(one)) ** 2 * apart) for one in needs
    )  # as if the norm were only its own
    shares = tuple(
        Measurement(one.name, _sensitivity(squared, cells, norm), one.weight / parts_of(one))
        for one, squared in zip(needs, alone, strict=True)
    )
    allotted = allocate_normal((*shares, *trees), discovery, spend)
    measures = {
        one.name: Measure(
            name=one.name, sensitivity=one.sensitivity, mechanism=allotted.noise[one.name], parts=tree_parts
        )
        for one in trees
    }
    if not needs:
        return Shared(allotted, measures, None, None)
    clip = _clip(norm, needs, allotted.noise)
    l2_squared = apart * clip.limit**2
    mu_squared = sum((allotted.noise[one.name].mu_squared for one in needs), Fraction(0))
    joint = Gaussian(variance=_short(l2_squared / mu_squared), l2_squared=l2_squared)
    for one in needs:
        weight = clip.coordinates[one.name].weight ** 2
        mechanism = Gaussian(
            variance=_short(joint.variance / weight), l2_squared=max(1, math.floor(l2_squared / weight))
        )
        measures[one.name] = Measure(
            name=one.name,
            sensitivity=_sensitivity(mechanism.l2_squared, cells, norm),
            mechanism=mechanism,
            parts=parts_of(one),
        )
    return Shared(allotted, measures, clip, joint)


def vectors_apart(neighbours: Neighbours, needs: Iterable[Measurement]) -> int:
    """The largest squared distance of two neighbours' sums, over the limit's square.

    Args:
        neighbours: The neighbour relation.
        needs: The measures.

    Returns:
        1, 2 or 4.
    """
    if neighbours is Neighbours.ADD_REMOVE:
        return 1
    return 4 if any(one.signed for one in needs) else 2


def _clip(norm: Fraction, needs: Iterable[Measurement], noise: Mapping[str, Gaussian]) -> NormClip:
    """The clip whose lengths give each measure about its allotted noise.

    Raises:
        ParameterError: The norm is so large that the engines' exact sums would overflow.
    """
    if norm > LARGEST:
        raise ParameterError("norm", float(norm), f"must be at most {LARGEST:,} rows")
    rows = {one: one.largest * parts_of(one) / noise[one.name].noise_scale for one in needs}
    length = math.hypot(*rows.values())
    coordinates = {
        one.name: Coordinate(*_factor(_ONE_ROW * row / length / one.largest), parts_of(one))
        for one, row in rows.items()
    }
    row = sum((one.largest * Fraction(coordinates[one.name].times, coordinates[one.name].over)) ** 2 for one in rows)
    return NormClip(math.isqrt(math.ceil(norm**2 * row) - 1) + 1, coordinates)


def _sensitivity(squared: int, cells: int, norm: Fraction) -> Sensitivity:
    """The sensitivity of one measure that fills a unit's whole vector, of this squared length."""
    cell = math.isqrt(squared)
    why = f"a unit's whole vector is clipped to norm {float(norm):g}, which all measures share"
    return Sensitivity(cell * cells, cell, cells, why, squared)


def _factor(length: float) -> tuple[int, int]:
    """Times and over, with times / over about this length."""
    over = 1 if length >= _DIGITS else 2 ** math.ceil(math.log2(_DIGITS / length))
    return round(length * over), over


def _short(variance: Fraction) -> Fraction:
    """The variance rounded up to 48 significant bits: a sampler works with its digits."""
    shift = 48 - math.floor(math.log2(variance)) if variance < 2**48 else 0
    return Fraction(math.ceil(variance * 2**shift), 2**shift)
