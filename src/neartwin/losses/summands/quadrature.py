"""Losses with a density: the nodes of a certified quadrature rule stand for atoms; the rest is charged."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands import atoms
from neartwin.losses.summands.atoms import Tilted, Weighted
from neartwin.losses.summands.base import Summand
from neartwin.losses.summands.rounding import ComplexArray, NoCertificateError, U

MOST_NODES = 1 << 19
FEW_NODES = 1 << 9  # that tilts share
SHARED = 16.0  # tilts below it share one set of nodes
REACH = 12.0  # |t| that the first nodes reach
WIDE = 8.0  # and one set for rough moments
KEPT = 64


class Layout(NamedTuple):
    """Where the nodes of a rule lie that is good for all tilt in [low, high] and all |t| up to `reach`.

    Attributes:
        low: The least tilt.
        high: The greatest tilt.
        reach: The greatest |t|.
        size: The number of nodes.
        step: The distance of neighbours, or the width of a panel.
        ends: No node lies further out.
        log_error: Logarithm of what quadrature and cut leave out, each relative to M(tilt).
    """

    low: float
    high: float
    reach: float
    size: int
    step: float
    ends: tuple[float, float]
    log_error: float

    def places(self) -> FloatArray:
        """The multiples of the step between the ends and around them."""
        left, right = self.ends
        return self.step * np.arange(math.floor(left / self.step), math.ceil(right / self.step) + 1, dtype=float)


@dataclass(frozen=True, eq=False)
class Nodes:
    """A rule, and the law on its nodes."""

    layout: Layout
    at: FloatArray
    weighted: Weighted

    @cached_property
    def tilted(self) -> Callable[[float], Tilted]:
        """The law at a tilt; the last are kept."""
        return lru_cache(maxsize=KEPT)(partial(Tilted, self.weighted))


class QuadratureSum(Summand):
    """`count` copies of a law whose M is an integral."""

    count: int
    kept: Sequence[Nodes] = ()

    shares: bool = False  # `nodes` proves one rule for a whole range of tilt
    shared: float = SHARED  # the first such range

    @abstractmethod
    def layout(self, low: float, high: float, reach: float) -> Layout:
        """Where the nodes would lie.

        Args:
            low: The least tilt.
            high: The greatest tilt; equal to low unless `shares`.
            reach: The greatest |t|.

        Raises:
            NoCertificateError: No number of nodes proves enough.
        """

    @abstractmethod
    def nodes(self, layout: Layout) -> tuple[FloatArray, Weighted]:
        """Nodes and the law on them; its `outside` bounds what quadrature and cut leave out.

        Args:
            layout: Where they lie.
        """

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The cost of a line, from the nodes."""
        return atoms.work(self.layout(tilt, tilt, max(1.2 * t, REACH)).size, frequencies)

    def _nodes(self, tilt: float, t: float) -> Nodes:
        """Kept nodes that reach t, or new ones; where they may be shared, by all tilts that one question asks about."""
        far = t > REACH
        for one in self.kept:  # long rules have many nodes
            low, high, reach, *_ = one.layout
            if low <= tilt <= high and reach >= t and far == (reach > REACH):
                return one
        reach = 1.2 * t if far else REACH
        low = high = tilt
        if self.shares:
            most = self.shared
            high = most * 4.0 ** math.ceil(math.log(2 * tilt / most, 4)) if tilt > most else most
            low = 0.0 if high == most else high / 16
        layout = self.layout(low, high, reach)
        if low < high and layout.size > FEW_NODES:
            layout = self.layout(tilt, tilt, reach)
        if layout.size > MOST_NODES:
            raise NoCertificateError
        result = Nodes(layout, *self.nodes(layout))
        self.kept = [result, *self.kept[: KEPT - 1]]
        return result

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Tilted moments on nodes that serve a greater tilt, and so all tilts of about the same size."""
        try:
            law = self._nodes(max(WIDE, 8.0 ** math.ceil(math.log(tilt, 8))), 0.0).weighted
        except NoCertificateError:
            return math.inf, math.inf, math.inf
        k, mean, variance = atoms.rough_cumulants(law.losses, law.log_masses, tilt, self.count)
        return k + self.count * law.log_share[0], mean, variance

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Count times one copy."""
        nodes = self._nodes(tilt, 0.0)
        one, (share, share_error) = nodes.tilted(tilt), nodes.weighted.log_share
        value = self.count * (one.log_mgf + share)
        error = self.count * (one.error + share_error + U * abs(share)) * (1 + 4 * U)
        return value, error + 2 * U * abs(value)

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Count times one copy."""
        nodes = self._nodes(tilt, float(t.max(initial=0.0)))
        one, error = atoms.line(nodes.weighted, nodes.tilted(tilt), t)
        return self.count * one, self.count * error + 2 * U * self.count * np.abs(one)
