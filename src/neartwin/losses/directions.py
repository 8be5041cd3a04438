"""One direction of a composition: its bounds from above and from below.

Most factors have one pair that is both. A factor known by its Renyi curve alone bounds only from above (Chernoff's
floor). Below it counts as nothing: dropping a factor is post-processing, so the bound of the rest stays a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from neartwin.exact import FloatArray, float_above
from neartwin.losses.inversion import chernoff, contour, methods
from neartwin.losses.inversion.contour_search import CLOSED, FLOOR, NARROW, NO_LINE, Answer
from neartwin.losses.inversion.methods import Lines, Names
from neartwin.losses.inversion.total import Saddle, SumOfLosses, log_c
from neartwin.losses.summands.atoms import together
from neartwin.losses.summands.base import Direction, Pair, RenyiCurve, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, U, ordered, up
from neartwin.losses.views import gdp_zcdp, tradeoff

UNKNOWN = "unknown"
FAINT = 1e-12  # delta
FIT = 1e-6  # relative width of the eps that a fit rests on: its own cells are no finer
COARSE, LITTLE = 1e-6, 0.02  # of a line that only shows which direction costs more: relative error, share of the budget
MANY = 10_000  # uses whose powers are not taken in fractions
SMALL = 1e-6  # the order above 1 that stands for 1 where only bounds are known
OTHER: dict[Direction, Direction] = {
    "remove": "add",
    "add": "remove",
    "replace": "replace_back",
    "replace_back": "replace",
}


def _total(pairs: Mapping[Pair, int], *, envelopes: bool = False) -> SumOfLosses | None:
    """The sum of the losses of pairs, those of one family together where it merges them.

    envelopes: whether profiles alone are asked for, so that those of a family's envelope may stand for a class.
    """
    families: dict[type[Pair], list[tuple[Pair, int]]] = {}
    for pair, count in pairs.items():
        families.setdefault(type(pair), []).append((pair, count))
    summands: list[Summand] = []
    for family, members in families.items():
        if len(members) >= family.merges or (envelopes and sum(pairs.values()) <= family.envelopes):
            summands += family.merged(members)
        else:
            summands += [pair.repeated(count) for pair, count in members]
    total = SumOfLosses(summands) if summands else None
    if total is None or total.lattice is not None or all(part.null for part in summands):
        return total
    few = together(total.summands)  # which null ones are not in; they may have an infinite loss
    return total if few is None else SumOfLosses([few, *(part for part in summands if part.null)])


@dataclass(frozen=True)
class DirectedComposition:
    """Counts of pairs in one direction, and the Renyi curves that bound from above; equal where one answers for the other.

    Attributes:
        uses: How often each factor was used.
        direction: Which data set P is the law of.
        dominating: How often each pair stands that bounds from above.
        attained: How often each pair stands that bounds from below; one object with `dominating` if the pairs are
            equal.
        curves: Renyi curves, each with its factor's pair above and its count.
        complete: Whether every factor has a pair above.
        exact: Whether one total answers for both ends.
    """

    uses: Mapping[Any, int] = field(compare=False)
    direction: Direction = field(compare=False)
    dominating: Mapping[Pair, int]
    attained: Mapping[Pair, int]
    curves: tuple[tuple[Pair | None, RenyiCurve, int], ...]
    complete: bool
    exact: bool

    @classmethod
    def of(cls, uses: Mapping[Any, int], direction: Direction) -> DirectedComposition:
        """Ask every factor for its pairs in this direction.

        Args:
            uses: How often each factor was used.
            direction: Which data set P is the law of.
        """
        dominating: dict[Pair, int] = {}
        attained: dict[Pair, int] = {}
        curves, complete, same = [], True, True
        for factor, count in uses.items():
            above, below = factor.dominating_pair(direction), factor.attained_pair(direction)
            complete = complete and above is not None
            if same and above != below:  # until then one count is that of both
                same, attained = False, dict(dominating)
            for pair, counts in ((above, dominating),) if same else ((above, dominating), (below, attained)):
                if pair is not None:
                    counts[pair] = counts.get(pair, 0) + count
            if (curve := factor.renyi(direction)) is not None:
                curves.append((above, curve, count))
        same = same or dominating == attained
        exact = complete and same and len(dominating) > 0
        return cls(uses, direction, dominating, dominating if same else attained, tuple(curves), complete, exact)

    @cached_property
    def reverse(self) -> DirectedComposition:
        """The uses with the two data sets exchanged."""
        other = DirectedComposition.of(self.uses, OTHER[self.direction])
        return self if self == other else other

    @cached_property
    def upper(self) -> SumOfLosses | None:
        """The pairs above; of all factors if `complete`, else of those that have one."""
        return _total(self.dominating, envelopes=True)

    @cached_property
    def lower(self) -> SumOfLosses | None:
        """The pairs below; the same object as `upper` where they are the same pairs."""
        return self.upper if self.attained is self.dominating else _total(self.attained)

    @cached_property
    def profile_below(self) -> SumOfLosses | None:
        """The pairs that bound delta from below, at each eps perhaps by another mechanism of a class."""
        if not any(pair.envelopes for pair in self.attained):
            return self.lower
        return _total(self.attained, envelopes=True)

    def log_mgf_above(self, s: float) -> float:
        """K(s) from above, each factor by its curve where it has one and that is lower, else by its pair."""
        total = sum(count * s * curve.renyi(1 + s) for _, curve, count in self.curves)
        if self._rest is not None:
            total += self._rest.log_mgf_above(s)
        return total * (1 + 8 * U) if total > 0 else total

    @cached_property
    def _rest(self) -> SumOfLosses | None:
        """The pairs above of all factors without a curve."""
        if not self.curves:
            return self.upper
        with_curve = {pair for pair, _, _ in self.curves}
        return _total({k: n for k, n in self.dominating.items() if k not in with_curve}, envelopes=True)

    @property
    def _infinity(self) -> float:
        """The probability of revealing all, from above; what has a Renyi divergence reveals nothing for sure."""
        return self._rest.infinity[1] if self._rest is not None else 0.0

    @np.errstate(all="ignore")
    def meets(self, eps: float, delta: float, slope: float) -> bool:
        """Whether Chernoff or a short coarse line proves delta(eps) <= delta: this direction has no larger eps.

        Args:
            eps: One epsilon.
            delta: The wanted delta.
            slope: About -d log delta / d eps there, of the other direction; where this one has less, it falls faster.
        """
        if not self.complete or self.upper is None or self.upper.infinity[1] > 0 or not math.isfinite(slope):
            return False
        if self.upper.top.loss <= eps:
            return True
        total, log_delta, missed, further = self.upper.coarser, math.log(delta), math.inf, slope
        while (left := sum(total.log_mgf(further)) + log_c(further) - further * eps - log_delta) < missed:
            tilt, missed, further = further, left, 2 * further
            if missed < -1e-12 * (1 + tilt * abs(eps) - log_delta):
                return True
        if not missed < math.inf or total.has_closed_form:
            return False
        at = Saddle(tilt, eps, math.sqrt(max(total.cumulants(tilt)[2], 1e-300)), log_delta)
        try:
            line = contour.build(total, at, 0.0, tolerance=COARSE, share=LITTLE, aliases=contour.guess_alias)
        except NO_LINE:
            return False
        return float(line.delta(np.array([eps]))[1][0]) <= delta

    def delta(
        self, eps: FloatArray, rtol: float = NARROW, lines: Lines | None = None
    ) -> tuple[FloatArray, FloatArray, Names]:
        """Bounds and method for each eps.

        Below 0 the reverse answers, delta(eps) = 1 - e^eps + e^eps delta'(-eps). Its error weighs e^eps, and 1 - delta
        keeps digits.

        Args:
            eps: Finite, (n,).
            rtol: The relative width in eps worth a longer line.
            lines: Those of the same question so far.

        Returns:
            Lower bounds, upper bounds, and names of methods, each (n,).
        """
        below = eps < 0
        if not below.any():
            return self._delta(eps, rtol, lines)
        lower, upper = np.empty((2, len(eps)))
        method = np.full(len(eps), FLOOR, dtype="<U16")
        lower[~below], upper[~below], method[~below] = self._delta(eps[~below], rtol, lines)
        low, high, method[below] = self.reverse._delta(-eps[below], rtol, lines)  # noqa: SLF001
        sure, share = -np.expm1(eps[below]), np.exp(eps[below])
        lower[below] = (sure + share * low) * (1 - 4 * ELEMENTARY)
        upper[below] = np.minimum((sure + share * high) * (1 + 4 * ELEMENTARY), 1.0)
        return lower, upper, method

    def _delta(self, eps: FloatArray, rtol: float, lines: Lines | None) -> tuple[FloatArray, FloatArray, Names]:
        """The same for eps >= 0."""
        if self.exact and self.upper is not None:
            lower, upper, method = methods.delta(self.upper, eps, rtol, lines)
        else:
            lower, upper = np.zeros(len(eps)), np.ones(len(eps))
            method = np.full(len(eps), FLOOR, dtype="<U16")
            if self.profile_below is not None:
                lower = methods.delta(self.profile_below, eps, rtol, lines)[0]
            if self.complete and self.upper is not None:
                _, upper, method = methods.delta(self.upper, eps, rtol, lines)
        if self.curves:
            by_curve = self._by_curve(eps)
            by_curve = np.minimum((self._infinity + (1 - self._infinity) * by_curve) * (1 + 8 * U), 1.0)
            method = np.where(by_curve < upper, FLOOR, method)
            upper = np.minimum(upper, by_curve)
        ordered(float(np.max(lower - upper, initial=0.0)), 0.0)
        return lower, upper, method

    def _by_curve(self, eps: FloatArray) -> FloatArray:
        """The finite part of delta by the Renyi bounds alone: Chernoff's, and total variation by the divergence of order 1.

        delta(0) is at most sqrt(KL/2) (Pinsker) and sqrt(1 - e^-KL) (Bretagnolle, Huber 1979), and delta falls in eps.
        """
        kl = self.log_mgf_above(SMALL) / SMALL * (1 + 8 * U)
        variation = min(math.sqrt(kl / 2), math.sqrt(-math.expm1(-kl))) * (1 + 1e-13) if math.isfinite(kl) else 1.0
        # what underflows is not 0: that would be a promise of pure privacy
        return np.maximum(np.minimum(variation, chernoff.delta_above(self.log_mgf_above, eps)), math.ulp(0.0))

    @np.errstate(all="ignore")
    def epsilon(self, low_delta: float, high_delta: float, rtol: float = NARROW) -> Answer:
        """Bounds on eps(delta) for a delta known to an interval.

        Args:
            low_delta: At most delta.
            high_delta: At least delta.
            rtol: The relative width worth a longer line.
        """
        if self.exact and self.upper is not None:
            result = methods.epsilon(self.upper, low_delta, high_delta, rtol)
        else:
            below = self.profile_below
            lower = 0.0 if below is None else methods.epsilon(below, low_delta, high_delta).lower
            result = Answer(lower, math.inf, UNKNOWN)
            if self.complete and self.upper is not None:
                above = methods.epsilon(self.upper, low_delta, high_delta)
                result = Answer(lower, ordered(lower, above.upper), above.method)
        if self.curves and self._infinity < low_delta:
            target = (low_delta - self._infinity) / (1 - self._infinity) * (1 - 16 * U)
            upper = chernoff.epsilon_above(self.log_mgf_above, target)
            if upper < result.upper:
                result = Answer(result.lower, ordered(result.lower, upper), FLOOR)
        return result

    def finite_top(self, delta: Fraction) -> float:
        """The largest finite loss, if no more than delta is revealed, which is decided in fractions; else inf."""
        kept = Fraction(1)
        for pair, count in self.dominating.items():
            leak = pair.revealed()
            if (leak and count > MANY) or (leak is None and any(pair.repeated(count).log_finite)):
                return math.inf
            kept *= (1 - leak) ** count if leak else 1
        return self.upper.top.loss if self.complete and self.upper is not None and 1 - kept <= delta else math.inf

    def pure(self) -> Answer:
        """The largest loss: exact where the top carries mass, else from below by what a tiny delta shows."""
        if self.upper is None or not self.complete:
            return Answer(0.0, math.inf, UNKNOWN)
        loss, _, least = self.upper.top
        if self.upper.infinity[1] > 0 or not math.isfinite(loss):
            sure = self.exact and (self.upper.infinity[0] > 0 or least == math.inf)
            return Answer(math.inf if sure else 0.0, math.inf, CLOSED)
        if not self.exact:
            least = self.lower.top.least if self.lower is not None else 0.0
        return Answer(max(least, 0.0), loss, CLOSED)

    @np.errstate(all="ignore")
    def renyi(self, order: float) -> Answer:
        """D_order(P||Q) = K(order - 1)/(order - 1); at order 1 its limit K'(0)."""
        if order == 1:
            return self._kl()
        s = order - 1
        error = 4 * U * order / s  # the rounding of order - 1
        upper = math.inf if self._infinity > 0 else self.log_mgf_above(s) / s * (1 + error)
        lower = 0.0
        if self.lower is not None:
            value, slack = self.lower.log_mgf(s)
            known = (value - slack) / s * (1 - error) if math.isfinite(value) else 0.0
            lower = math.inf if self.lower.infinity[0] > 0 else max(known, 0.0)
        return Answer(lower, ordered(lower, up(upper)), CLOSED)

    def _kl(self) -> Answer:
        """The divergence of order 1, at most that of any higher order."""
        upper, lower = math.inf, 0.0
        if self._infinity == 0:
            known = self.upper if self.complete else None
            exact = known.mean()[1] if known is not None and known.infinity[1] == 0 else math.inf
            upper = min(exact, self.log_mgf_above(SMALL) / SMALL if self.curves else math.inf)
        if self.lower is not None:
            lower = math.inf if self.lower.infinity[0] > 0 else self.lower.mean()[0]
        return Answer(lower, ordered(lower, up(upper)), CLOSED)

    @np.errstate(all="ignore")
    def tradeoff(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on T of this direction at each alpha; nothing is known from above of factors without a pair below."""
        if self.upper is None:
            mean, deviation = 0.0, self.epsilon(1e-6, 1e-6).upper / 6
        else:
            _, mean, variance = self.upper.cumulants(1e-3)
            deviation = math.sqrt(max(variance, 1e-300)) + 1e-9
        reach = abs(mean) + 9 * deviation
        lines: Lines = {}
        most = self._infinity if math.isfinite(self.log_mgf_above(SMALL)) else 1.0
        revealed = (self.lower.infinity[0] if self.lower is not None else 0.0, most)
        return tradeoff.tradeoff(lambda eps: self.delta(eps, lines=lines)[:2], alpha, (-reach, reach), revealed)


@np.errstate(all="ignore")
def gdp(sides: Sequence[DirectedComposition], delta: float) -> tuple[float, float]:
    """Bounds on the least mu over these directions, from knots between 0 and the eps of delta.

    Args:
        sides: The directions.
        delta: The failure set aside; at least 0.
    """
    if delta == 0:
        return _gdp_without_delta(sides)
    knots = []
    for one in sides:
        last = one.epsilon(delta, delta, FIT).upper
        if not math.isfinite(last):
            return (math.inf if one.exact and one._infinity > delta else 0.0), math.inf  # noqa: SLF001
        eps = np.linspace(0.0, 1.002 * last + 1e-9, gdp_zcdp.CELLS + 1)
        low, high, _ = one.delta(eps, FIT)
        if high[-1] > delta:
            return 0.0, math.inf
        knots.append((eps, low, high))
    return gdp_zcdp.gdp(knots, delta)


def _gdp_without_delta(sides: Sequence[DirectedComposition]) -> tuple[float, float]:
    """The same where no delta is set aside: Gaussian pairs add their mu^2, the rest must have a largest loss.

    T >= T_1 (x) T_2 with T_1 >= G_m and T_2 >= G_r gives T >= G_sqrt(m^2 + r^2). For T_2 the profile is 0 from the largest loss
    on, and the cells up to there decide; Chernoff's bound is enough where delta is below 1e-12. There the lower end stops.
    """
    knots, bare, lower = [], True, 0.0
    squares = 0.0
    for one in sides:
        parts = {pair: count for pair, count in one.dominating.items() if pair.gaussian() is None}
        own = float_above(
            sum((count * (pair.gaussian() or Fraction(0)) for pair, count in one.dominating.items()), Fraction(0))
        )
        squares = max(squares, own)
        rest = _total(parts)
        if not one.complete or (rest is not None and not (rest.infinity[1] == 0 and math.isfinite(rest.top.loss))):
            sure = one.exact and one.upper is not None and one.upper.infinity[0] > 0
            return (math.inf if sure else 0.0), math.inf
        if rest is not None:
            bare = False
            top = rest.top.loss
            known = rest.lattice is not None or rest.has_closed_form
            last = top if known else min(methods.epsilon(rest, FAINT, FAINT, FIT).upper, top)
            near, far = np.linspace(0.0, last, gdp_zcdp.CELLS + 1), np.linspace(last, top, gdp_zcdp.CELLS // 8)[1:]
            low, high, _ = methods.delta(rest, near, FIT)
            if far[-1] > last:
                beyond = chernoff.delta_above(rest.log_mgf_above, far)
                near, low = np.append(near, far), np.append(low, np.zeros(len(far)))
                high = np.append(high, np.minimum(beyond, high[-1]))
            high[-1] = 0.0
            knots.append((near, low, high))
        if one.exact:
            seen = np.linspace(0.0, one.epsilon(FAINT, FAINT, FIT).upper, 257)
            lower = max(lower, gdp_zcdp.gdp_below(seen, one.delta(seen, FIT)[0]))
    upper = 0.0 if bare else gdp_zcdp.gdp(knots, 0.0)[1]
    upper = up(math.sqrt(squares + upper * upper) * (1 + 4 * U))
    return min(lower, upper), upper


@np.errstate(all="ignore")
def zcdp(sides: Sequence[DirectedComposition]) -> tuple[float, float]:
    """Bounds on the least rho over these directions."""
    known = [one.lower for one in sides if one.lower is not None]
    if any(total.infinity[0] > 0 for total in known):
        return math.inf, math.inf
    upper, places = math.inf, np.geomspace(1e-4, 1e3, 30).tolist()
    if all(one.complete and one.upper is not None and one._infinity == 0 for one in sides):  # noqa: SLF001
        totals = [one.upper for one in sides if one.upper is not None]
        chords, places = gdp_zcdp.zcdp(totals, [one.log_mgf_above for one in sides])
        # Each part's own supremum is exact for Gaussians.
        upper = min(chords, max(total.zcdp_tail(0.0) for total in totals))
        places += [1e-6]
    lower = 0.0
    for total in known:
        for s in places:
            value, error = total.log_mgf(s)
            if math.isfinite(value):
                lower = max(lower, (value - error) / (s * (s + 1)) * (1 - 8 * U))
    return lower, ordered(lower, upper)
