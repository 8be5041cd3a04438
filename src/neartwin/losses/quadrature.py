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

MOST_NODES = 1 << 16
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

    @abstractmethod
    def nodes(self, lam: float, reach: float) -> tuple[FloatArray, Weighted]:
        """Nodes and the law on them, whose `outside` bounds what quadrature and cut leave out for |t| <= reach."""

    @abstractmethod
    def work(self, lam: float, t: float) -> int:
        """How many nodes that takes."""

    def rule(self, lam: float, t: float) -> Rule:
        """A kept rule that reaches t, or a new one."""
        found = self._rules.get(lam)
        if found is not None and found.reach >= t:
            return found
        reach = max(1.2 * t, 8.0)
        if self.work(lam, reach) > MOST_NODES:
            raise NoCertificateError
        u, law = self.nodes(lam, reach)
        found = Rule(u, reach, law, atoms.tilted(law, lam))
        if len(self._rules) > KEPT:
            self._rules.clear()
        self._rules[lam] = found
        return found

    def cumulants(self, lam: float) -> tuple[float, float, float]:
        """Tilted moments on the nodes."""
        try:
            one = self.rule(lam, 0.0).tilt
        except NoCertificateError:
            return math.inf, math.inf, math.inf
        return self.count * one.log_mgf, self.count * one.mean, self.count * one.variance

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
        one, error = atoms.line(rule.weighted, rule.tilt, t)
        return self.count * one, self.count * error + 2 * U * self.count * np.abs(one)
