"""Mixtures of Gaussians: a unit moves the answer by one of several distances, chosen at random and in secret.

That is DP-SGD as a group on Poisson batches meets it, a step that sums several batches, and many a scheme of sampling. The losses
go the sampled Gaussian's way, with a mixture for its ratio r. Equations (S16) to (S19): docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from neartwin.checks import in_floats, several
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, floats_around, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.families import gaussian
from neartwin.losses.families.rare_participation import LADDER
from neartwin.losses.summands.base import UNBOUNDED, Direction, MaximumLoss, Pair, Summand, no_replacement
from neartwin.losses.summands.rounding import ELEMENTARY, U
from neartwin.special import log_ndtr

MOST_SHIFTS = 64
LEAST_WEIGHT = Fraction(1, 10**300)
Law = tuple[tuple[Fraction, Fraction], ...]  # distances in deviations of the noise, rising, with their probabilities


@dataclass(frozen=True, slots=True)
class MixtureStrip(gaussian.Strip):
    """The growth off the real line: mu is the greatest distance, q the probability of any but the least."""

    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    turn: gaussian.OfAngles = field(
        default=lambda theta: np.tan(np.minimum(theta, gaussian.QUARTER)), kw_only=True
    )  # (S17)
    widest: gaussian.OfAngles = field(
        default=lambda theta: np.maximum(gaussian.QUARTER - theta, 0.0), kw_only=True
    )  # (S18)

    def hidden(self, tilt: float) -> float:
        """An upper bound on -log E X of (S17); inf where the least distance is not 0."""
        if self.direction == "remove":
            return 0.0
        if self.shifts[0] > 0:
            return math.inf
        grown = np.exp(np.multiply.outer(self.shifts, gaussian.PLACES) - 0.5 * np.square(self.shifts)[:, None])
        k = np.array(self.weights[1:]) @ grown[1:] / self.weights[0]
        least = min(-tilt * math.log(self.weights[0]), float(np.min(tilt * np.log1p(k) - log_ndtr(gaussian.PLACES))))
        return least * (1 + 1e-9)


class GaussianMixtureSum(gaussian.NormalRatioSum):
    """`count` steps of one direction."""

    def __init__(self, law: Law, count: int, direction: Direction) -> None:
        """law: two distances or more, none of them equal."""
        shifts, weights = (tuple(map(float, part)) for part in zip(*law, strict=True))
        self.distances, self.weights = np.array(shifts)[:, None], np.array(weights)[:, None]
        top, variation = UNBOUNDED, 1.0
        if law[0][0] == 0:
            least, reach = (-count * math.log(end) for end in reversed(floats_around(law[0][1])))
            variation = min(count * floats_around(1 - law[0][1])[1], 1.0)
            if direction == "add":
                top = MaximumLoss(reach * (1 + ELEMENTARY), 0.0, least * (1 - ELEMENTARY))
        strip = MixtureStrip(shifts[-1], float(1 - law[0][1]), direction, shifts, weights)
        self.mixture = strip
        super().__init__(strip, count, top, variation)
        self.q = strip.q
        self.shifts, self.odds = self.distances[1:, 0], np.log(self.weights[1:, 0] / self.weights[0, 0])
        self.ladder = LADDER if direction == "remove" and law[0][0] == 0 and 2 * law[0][1] >= 1 else None

    def _parts(self, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Exponents of the likelihood ratios, bounds on their errors, and the parts' shares of r; each (shifts, nodes)."""
        x = self.distances * u - 0.5 * self.distances**2
        raw = self.weights * np.exp(x - x.max(axis=0))
        return x, 6 * U * (np.abs(self.distances * u) + self.distances**2), raw / raw.sum(axis=0)

    def log_ratio(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(S19): where the greatest ratio is near 1, the logarithm of 1 plus the sum of w (e^x - 1)."""
        x, moved, shares = self._parts(u)
        top = x.max(axis=0)
        grown = np.expm1(np.minimum(x, 1.0))
        near = (self.weights * grown).sum(axis=0)
        far = top + np.log((self.weights * np.exp(x - top)).sum(axis=0))
        value = np.where(np.abs(top) > 1, far, np.log1p(near))
        each = ELEMENTARY + (len(x) + 8) * U
        lost = each * (self.weights * np.abs(grown)).sum(axis=0) / (1 + near)
        lost = np.where(np.abs(top) > 1, each + 2 * U * np.abs(top) + ELEMENTARY * np.abs(value - top), lost)
        return value, 1.01 * ((shares * moved).sum(axis=0) + lost) + 2 * ELEMENTARY * np.abs(value)

    def ends(self, low: float, high: float) -> tuple[float, float]:
        """The cut of (S16)."""
        shifts, weights, tilt = self.mixture.shifts, self.mixture.weights, high
        goal = self.goal - math.log(len(shifts))
        if self.direction == "add":
            if shifts[0] == 0:
                width = math.sqrt(2 * (self.mixture.hidden(tilt) - goal)) + 0.5
                return -width, width
            least = 0.5 * tilt * (1 + tilt) * shifts[0] ** 2 - tilt * math.log(weights[0])
            at_zero = sum(weight * math.exp(-0.5 * shift**2) for shift, weight in zip(shifts, weights, strict=True))
            right = math.sqrt(2 * (tilt * max(-math.log(at_zero), 0.0) - goal)) + 0.5
            return -tilt * shifts[0] - math.sqrt(2 * (least - goal)) - 0.5, right
        a = 1 + tilt
        heights = [math.log(w) + 0.5 * tilt * a * shift**2 for shift, w in zip(shifts, weights, strict=True)]
        floor = max(0.0, *(height + tilt * math.log(w) for height, w in zip(heights, weights, strict=True)))
        left, right = math.inf, -math.inf
        for shift, weight, height in zip(shifts, weights, heights, strict=True):
            far = math.sqrt(max(0.0, 2 * (height - floor - goal))) + 0.5
            near = math.sqrt(max(0.0, 2 * (math.log(weight) - goal))) + 0.5
            left, right = min(left, a * shift - far, shift - near), max(right, a * shift + far, shift + near)
        return left, right

    def turned(self, u: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(S18), in sums of numbers that are not negative."""
        shares, angles = self._parts(u)[2], np.multiply.outer(theta / self.mu, self.distances[:, 0])
        apart = np.square(np.sin(0.5 * (angles[:, :, None] - angles[:, None, :])))
        drop = 2 * np.einsum("tij,in,jn->tn", apart, shares, shares, optimize=True)
        modulus = 0.5 * np.log1p(-np.minimum(drop, 0.5))
        size = np.abs(self.mu * u) + self.mu**2 + len(self.distances)
        relative = 1.5 * (12 * ELEMENTARY + 40 * U * size)
        return modulus, np.arctan2(np.sin(angles) @ shares, np.cos(angles) @ shares), relative


@dataclass(frozen=True, slots=True)
class GaussianMixturePair(Pair):
    """One step in one direction."""

    law: Law
    direction: Direction

    def repeated(self, count: int) -> Summand:
        """The composition."""
        return GaussianMixtureSum(self.law, count, self.direction)


@dataclass(frozen=True, slots=True, init=False)
class GaussianMixture(PrivacyLoss):
    """The mixture of Gaussians: with the unit the answer moves by mu_k with probability w_k; without it, by nothing.

    The pair is sum_k w_k N(mu_k, 1) against N(0, 1). Answers in many dimensions are covered if |v_k| <= mu_k, the mixtures of all
    other units included (S16). Not for replace-one.

    Source:
        Choquette-Choo, Ganesh, Steinke, Thakurta 2024; Ganesh 2024 for groups.

    >>> pairs = GaussianMixture(distances=(0, 1, 2), weights=("0.81", "0.18", "0.01"))  # two units, sampled at a tenth
    >>> round((100 * pairs).epsilon(1e-5).upper, 6)
    16.230882
    """

    law: Law

    def __init__(self, *, distances: Sequence[Number], weights: Sequence[Number]) -> None:
        """One distance for each weight.

        Args:
            distances: How far the answer moves, over the noise's standard deviation, not negative, at most 64 different ones.
            weights: Their probabilities, which sum to 1 exactly.

        Raises:
            ParameterError: A number is out of bounds, or no distance is above 0.
        """
        shifts = [rational(distances=one) for one in several(distances=distances)]  # type: ignore[arg-type]
        masses = [rational(weights=one) for one in several(weights=weights)]  # type: ignore[arg-type]
        if len(shifts) != len(masses):
            raise ParameterError("weights", weights, f"must be as many as the distances, {len(shifts)}")
        if sum(masses) != 1 or any(mass < 0 or 0 < mass < LEAST_WEIGHT for mass in masses):
            raise ParameterError(
                "weights",
                weights,
                "must sum to 1 exactly, none negative or tiny",
                remedy="write fractions, such as '1/3'",
            )
        total: dict[Fraction, Fraction] = {}
        for shift, mass in zip(shifts, masses, strict=True):
            if shift < 0:
                raise ParameterError(
                    "distances", distances, "must hold no negative distance", remedy="take absolute values"
                )
            if mass:
                total[in_floats(distances=shift) if shift else shift] = total.get(shift, Fraction(0)) + mass
        if not any(total):
            raise ParameterError("distances", distances, "must hold a distance above 0 of positive weight")
        if len(total) > MOST_SHIFTS:
            raise ParameterError(
                "distances", f"{len(total)} of them", f"must hold at most {MOST_SHIFTS} different ones"
            )
        object.__setattr__(self, "law", tuple(sorted(total.items())))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair; a plain or a sampled Gaussian where it is one."""
        if direction.startswith("replace"):
            raise no_replacement()
        (least, weight), *rest = self.law
        if not rest:
            return gaussian.GaussianPair(least)
        if least == 0 and len(rest) == 1:
            return gaussian.SubsampledGaussianPair(rest[0][0], 1 - weight, direction)
        return GaussianMixturePair(self.law, direction)

    def stated_rho(self) -> Fraction:
        """That of the greatest distance, approached at great orders."""
        return self.law[-1][0] ** 2 / 2

    def sampled(self, rate: Fraction) -> GaussianMixture:
        """The mixture on a Poisson sample.

        Args:
            rate: The probability with which each unit is in the sample.
        """
        shifts, weights = zip(*self.law, strict=True)
        return GaussianMixture(distances=(0, *shifts), weights=(1 - rate, *(rate * weight for weight in weights)))
