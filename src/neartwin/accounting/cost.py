"""What a spend costs: the certified losses of each way one unit can meet it, and the worst of them at every question."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from neartwin.errors import PrivacyError
from neartwin.exact import End, FloatArray, Interval, Number
from neartwin.losses import Composed


@dataclass(frozen=True, slots=True)
class Cost:
    """A proved cost with views. cases: ways one unit can meet what was done; neighbours: the relation; theorem: the rule.

    Every view is the maximum over the cases (T: the minimum) and both orders of the neighbours, as an interval; the guarantee
    is the upper end (T: the lower).
    """

    cases: tuple[Composed, ...]
    neighbours: str
    theorem: str

    @property
    def _direction(self) -> Literal["replace"] | None:
        return "replace" if self.neighbours == "replace_one" else None

    def epsilon(self, delta: Number) -> Interval[float]:
        """The least epsilon at a delta strictly between 0 and 1."""
        return self._most([case.epsilon(delta, direction=self._direction) for case in self.cases])

    def delta(self, eps: float | FloatArray) -> Interval[Any]:
        """The least delta at each epsilon, of any sign and shape."""
        return self._most([case.delta(eps, direction=self._direction) for case in self.cases])

    def renyi(self, order: float) -> Interval[float]:
        """The Renyi divergence of one order, at least 1."""
        return self._most([case.renyi(order, direction=self._direction) for case in self.cases])

    def advantage(self) -> Interval[float]:
        """The attacker's best true positive rate less false positive rate."""
        return self._most([case.advantage(direction=self._direction) for case in self.cases])

    def tpr(self, fpr: float | FloatArray) -> Interval[Any]:
        """The attacker's best true positive rate at each false positive rate."""
        return self._most([case.tpr(fpr, direction=self._direction) for case in self.cases])

    def tradeoff(self, alpha: float | FloatArray) -> Interval[Any]:
        """T(alpha), the attacker's least type-II error at level alpha, the least over cases; the guarantee is the lower end."""
        found: list[Interval[Any]] = [case.tradeoff(alpha, direction=self._direction) for case in self.cases]
        lower = np.minimum.reduce([f.lower for f in found])
        return _interval(lower, np.minimum.reduce([f.upper for f in found]), found[0].method)

    def pure(self) -> Interval[float]:
        """The largest privacy loss, inf where it is unbounded."""
        return self._both_orders(lambda case: case.pure())

    def zcdp(self) -> Interval[float]:
        """The least rho, inf where there is none."""
        return self._both_orders(lambda case: case.zcdp())

    def gdp(self, pool: Number) -> Interval[float]:
        """The least mu with T >= G_mu (x) f_{0,pool}."""
        return self._both_orders(lambda case: case.gdp(pool))

    def _both_orders(self, ask: Callable[[Composed], Interval[float]]) -> Interval[float]:
        """Questions the engine answers over the add and remove orders alone."""
        if self.neighbours == "replace_one":
            for factor in (factor for case in self.cases for factor in case.uses):
                if factor.above("remove") != factor.above("replace") or factor.above("add") != factor.above(
                    "replace_back"
                ):
                    raise PrivacyError(
                        f"{factor!r} has other losses when a unit is replaced, and this question is answered for add/remove only"
                    )
        return self._most([ask(case) for case in self.cases])

    @staticmethod
    def _most(found: list[Any]) -> Interval[End]:
        lower = np.maximum.reduce([f.lower for f in found])
        upper = np.maximum.reduce([f.upper for f in found])
        worst = max(found, key=lambda f: float(np.max(f.upper)))
        return _interval(lower, upper, worst.method)


def _interval(lower: Any, upper: Any, method: str) -> Interval[Any]:
    if np.ndim(lower):
        return Interval(lower, upper, method)
    return Interval(float(lower), float(upper), method)
