"""Great losses told apart (K17): a run that has one sums to more than eps, nearly for sure, and adds what it weighs to delta.

Left in a line they make a second hump: there a mass p weighs p e^{tilt l}, and no tilt suits both.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import cast

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion.contour import Bounds, ContourRule
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.rounding import ELEMENTARY, U, gamma

ORDERS = np.geomspace(1.0, 1e6, 24)  # u of the bound on runs that sum to less than eps all the same


def _masses(law: Weighted, cut: float) -> tuple[float, float, float]:
    """P and Q of a loss of `cut` or more, and the relative error of both."""
    great = law.losses >= cut
    own, *_, moved = law.errors[:, great]
    other = float(np.exp(law.log_masses[great] - law.losses[great]).sum())
    return float(law.masses[great].sum()), other, float((own + moved).max(initial=0.0)) + gamma(len(own)) + ELEMENTARY


def _without(law: Weighted, cut: float) -> Weighted:
    """The law of a loss that is less than `cut`."""
    share, _, error = _masses(law, cut)
    some, log = law.losses < cut, math.log1p(-share)
    moved = U * np.abs(law.log_masses) + (2 * error + ELEMENTARY) * share / (1 - share)
    return Weighted(law.losses[some], law.log_masses[some] - log, (law.mass_error + moved)[some], law.loss_error[some])


@dataclass(frozen=True)
class GreatLosses:
    """The runs of which some use has a loss of `cut` or more.

    Attributes:
        cut: The least great loss; infinite where none is told apart.
        mass: Bounds on the probability of such a run.
        other: Bounds on E[e^{-S}] over such runs.
        below: For each order u the logarithm of a bound on E[e^{-uS}] over them, (orders,).
    """

    cut: float
    mass: tuple[float, float]
    other: tuple[float, float]
    below: FloatArray

    @classmethod
    @np.errstate(divide="ignore")
    def of(cls, laws: list[Weighted], counts: FloatArray, cut: float, known: FloatArray | None) -> GreatLosses:
        """Those of one cut.

        Args:
            laws: The laws of one use.
            counts: The uses of each.
            cut: The least great loss.
            known: K of all uses of a law at minus each order, and its error, (2, orders, laws); None where other losses are
                added.
        """
        shares, others, errors = np.array([_masses(law, cut) for law in laws]).T
        slack = 64 * U + 2 * float(errors.max())
        most = -math.expm1(float(counts @ np.log1p(-np.minimum(shares, 1 - U))))
        mass = most * (1 - slack), min(most * (1 + slack), 1.0)
        if known is None:
            return cls(cut, mass, (0.0, math.inf), ORDERS + math.inf)
        one, error = known.swapaxes(1, 2) / counts[:, None]
        slack += 2 * float(error[:, 0].max())
        whole, far = counts @ one, 1.01 * counts @ (error + (len(laws) + 8) * U * np.abs(one))
        rest = -math.expm1(float(counts @ np.log1p(-np.minimum(others * np.exp(-one[:, 0]), 1 - U))))
        other = (rest * math.exp(whole[0] - far[0]) * (1 - slack), rest * math.exp(whole[0] + far[0]) * (1 + slack))
        log = np.logaddexp.reduce(np.log(counts * shares)[:, None] + error - one, axis=0)
        far = far + slack + 16 * U * (np.abs(log) + ORDERS * abs(cut))
        return cls(cut, mass, other, log + whole + far - ORDERS * cut)

    def fallen(self, eps: FloatArray) -> FloatArray:
        """The most that E[(e^{eps - S} - 1)_+] may be over such runs: the rest R of (K17), at each eps."""
        logs = np.multiply.outer(eps, ORDERS)
        logs = logs + self.below + 8 * U * (np.abs(logs) + np.abs(self.below))
        return np.asarray(np.exp(np.minimum(logs.min(axis=-1), 709.0)))  # or so much more than all runs weigh

    def bounds(self, eps: FloatArray) -> Bounds:
        """Bounds on what such runs add to delta at each eps."""
        grown = np.exp(np.minimum(eps, 700.0))
        low, high = self.mass[0] - grown * self.other[1], self.mass[1] - grown * self.other[0] + self.fallen(eps)
        return np.maximum(low, 0.0), np.clip(high, 0.0, self.mass[1])

    def beside(self, line: ContourRule) -> ContourRule:
        """The line of all other runs with what these add."""
        return line if self.mass[1] == 0 else Beside(line, self)


NONE = GreatLosses(math.inf, (0.0, 0.0), (0.0, 0.0), 0 * ORDERS)


@dataclass(frozen=True)
class Beside(ContourRule):
    """A line of the sum without great losses, and the runs that have them."""

    line: ContourRule
    great: GreatLosses

    @property
    def nodes(self) -> int:
        """Those of the line."""
        return self.line.nodes

    def bounds(self, eps: FloatArray) -> Bounds:
        """Both together."""
        (low, high), (least, most), (few, many) = self.line.bounds(eps), self.great.bounds(eps), self.great.mass
        return (low * (1 - many) + least) * (1 - 8 * U), np.minimum((high * (1 - few) + most) * (1 + 8 * U), 1.0)

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """Both together."""
        value, fall = self.line.point_estimate(eps)
        mass, grown = self.great.mass[0], math.exp(min(eps, 700.0)) * self.great.other[0]
        return (1 - mass) * value + max(mass - grown, 0.0), (1 - mass) * fall + grown


@dataclass(frozen=True)
class Runs(ContourRule):
    """In place of a line the sum over runs, where those without great losses are few (K19)."""

    law: AtomicSum

    def bounds(self, eps: FloatArray) -> Bounds:
        """The sum."""
        return cast("Bounds", self.law.delta(eps))

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """P - e^eps Q of all greater losses, and e^eps Q."""
        gap = eps - self.law.weighted.losses
        masses = self.law.weighted.masses * (gap < 0)
        other = float(masses @ np.exp(np.minimum(gap, 0.0)))
        return float(masses.sum()) - other, other


def apart(total: SumOfLosses, eps: float, most: float) -> tuple[SumOfLosses, GreatLosses]:
    """The sum given that no use has a great loss, and the runs of which one has; as many as their bounds allow.

    Args:
        total: The sum.
        eps: Where it is asked, or more.
        most: How far the bounds may be apart.
    """
    # a law on a lattice of its own makes no short line longer, which is all that a first look is for
    finite = [part for part in total.summands if part.atoms is not None and (part.lattice is None or eps < math.inf)]
    if not finite or total.lattice is not None:
        return total, NONE
    laws, counts = [part.atoms[0] for part in finite], np.array([float(part.atoms[1]) for part in finite])
    alone = eps < math.inf and len(laws) == len(total.summands)
    known = np.array([[part.log_mgf(-u) for u in ORDERS.tolist()] for part in finite]).T if alone else None
    places = np.unique(np.concatenate([law.losses for law in laws]))
    places = places[places > max(float(law.losses.min()) for law in laws)]  # some loss of each law is less

    def slight(cut: float) -> bool:
        great = GreatLosses.of(laws, counts, cut, known)
        return great.mass[1] <= most or float(great.fallen(np.array([eps]))[0]) <= most

    first = bisect_left(places, True, key=slight)
    if first == len(places):
        return total, NONE
    cut = float(places[first])
    parts = [AtomicSum(_without(one.atoms[0], cut), one.atoms[1]) if one in finite else one for one in total.summands]
    return SumOfLosses(parts), GreatLosses.of(laws, counts, cut, known)
