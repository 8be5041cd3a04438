"""Losses with a density: the nodes of a certified quadrature rule stand for atoms; the rest is charged."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses import atoms
from neartwin.losses.atoms import Tilted, Weighted
from neartwin.losses.loss import Summand
from neartwin.losses.rounding import ComplexArray, NoCertificateError, U

MOST_NODES = 1 << 19
MOST_ROUGH = 1 << 15  # nodes where no certificate hangs on them
WIDE = 8.0  # lams that share one set of them
KEPT = 64


@dataclass(frozen=True)
class Rule:
    """A rule good for one lam and all |t| up to `reach`: nodes, the law on them, the tilted law."""

    nodes: FloatArray
    reach: float
    weighted: Weighted
    tilt: Tilted


class QuadratureSum(Summand):
    """`count` copies of a law whose M is an integral."""

    count: int
    _rules: dict[float, Rule]
    _rough: tuple[float, FloatArray, FloatArray] = (-1.0, np.empty(0), np.empty(0))

    @abstractmethod
    def nodes(self, lam: float, reach: float) -> tuple[FloatArray, Weighted]:
        """Nodes and the law on them, whose `outside` bounds what quadrature and cut leave out for |t| <= reach."""

    @abstractmethod
    def size(self, lam: float, reach: float) -> int:
        """How many nodes that takes."""

    def work(self, lam: float, t: float, frequencies: int) -> int:
        """By the nodes."""
        return atoms.work(self.size(lam, max(1.2 * t, 8.0)), frequencies)

    def rule(self, lam: float, t: float) -> Rule:
        """A kept rule that reaches t, or a new one."""
        found = self._rules.get(lam)
        if found is not None and found.reach >= t:
            return found
        reach = max(1.2 * t, 8.0)
        if self.size(lam, reach) > MOST_NODES:
            raise NoCertificateError
        u, law = self.nodes(lam, reach)
        found = Rule(u, reach, law, atoms.tilted(law, lam))
        if len(self._rules) > KEPT:
            self._rules.clear()
        self._rules[lam] = found
        return found

    def cumulants(self, lam: float) -> tuple[float, float, float]:
        """Tilted moments on nodes kept for lams of about the same size."""
        most, losses, log_masses = self._rough
        if not (lam <= most and (most <= 8 * lam or most <= WIDE)):
            most = max(2 * lam, WIDE)
            try:
                if self.size(most, 8.0) > MOST_ROUGH:
                    return math.inf, math.inf, math.inf
                law = self.nodes(most, 8.0)[1]
            except NoCertificateError:
                return math.inf, math.inf, math.inf
            losses, log_masses = law.losses, law.log_masses
            self._rough = (most, losses, log_masses)
        return atoms.rough_cumulants(losses, log_masses, lam, self.count)

    def log_mgf(self, lam: float) -> tuple[float, float]:
        """Count times one copy."""
        try:
            one = self.rule(lam, 0.0).tilt
        except NoCertificateError:
            return math.inf, 0.0
        value = self.count * one.log_mgf
        return value, self.count * one.error * (1 + 4 * U) + 2 * U * abs(value)

    def line(self, lam: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Count times one copy."""
        rule = self.rule(lam, float(t.max(initial=0.0)))
        one, error = atoms.line(rule.weighted, rule.tilt, t, self.count)
        return self.count * one, self.count * error + 2 * U * self.count * np.abs(one)
