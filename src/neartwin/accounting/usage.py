"""What was done, as frozen values: once, repeated, together, on disjoint parts, on a sample, against a group.

All of it fixed before the first answer is seen (what is chosen on the way belongs to a filter or an odometer). `cost` turns a
spend into the certified losses of its worst case. The relation of neighbours decides the rule for disjoint parts:

- add/remove: a unit is in one part, so the worst part counts, alone;
- replace-one: a unit may leave one part and enter another, so the worst two count together. Each part's mechanism must
  then cover a unit that leaves it or enters it, which the sensitivities of `neartwin.queries` do.

Which part is the worst may differ from question to question, so all are kept and each answer is the maximum over them.

What a spend costs: the certified losses of each way one unit can meet it, and the worst of them at every question.

One use of a mechanism on a random sample, or seen by a group: factor in, factor out, with a theorem or a refusal.

sampled: Poisson sampling under add/remove, each unit taken with probability q. Zhu, Dong, Wang 2022, theorem 11; pure and
(eps, delta) by Balle, Barthe, Gaboardi 2018, theorem 8. grouped: k units instead of one. A mechanism with noise whose answer
one unit moves by d is moved by at most k d; the rest by Vadhan 2017, lemma 2.2, and Bun, Steinke 2016, proposition 1.9.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from itertools import combinations, combinations_with_replacement, product
from typing import Any, Literal, assert_never

import numpy as np

from neartwin.accounting.amplification import amplified_pure
from neartwin.accounting.theorems import group_approximate
from neartwin.checks import integer, one_of, open_probability
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import End, FloatArray, Interval, Number, rational
from neartwin.losses import (
    Approx,
    BoundedRange,
    Composition,
    DiscreteGaussian,
    FinitePair,
    Gaussian,
    Geometric,
    Laplace,
    Leak,
    PiecewiseLinear,
    Pure,
    RandomizedResponse,
    Renyi,
    SilentResponse,
    Staircase,
    SubsampledFinite,
    SubsampledGaussian,
    SubsampledLaplace,
    ZeroConcentrated,
    compose,
)
from neartwin.losses.composition import PrivacyLoss


@dataclass(frozen=True, slots=True)
class Cost:
    """A proved cost with views. cases: ways one unit can meet what was done; neighbours: the relation; theorem: the rule.

    Every view is the maximum over the cases (T: the minimum) and both orders of the neighbours, as an interval; the guarantee
    is the upper end (T: the lower).
    """

    cases: tuple[Composition, ...]
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

    def _both_orders(self, ask: Callable[[Composition], Interval[float]]) -> Interval[float]:
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


MOST_CASES = 256


@dataclass(frozen=True, slots=True)
class Use:
    """One use of one mechanism."""

    factor: PrivacyLoss


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same, `count` times on the same people, with fresh noise (and fresh samples) each time."""

    each: "Usage"
    count: int


@dataclass(frozen=True, slots=True)
class Sequential:
    """All of these on the same people."""

    parts: tuple["Usage", ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Each of these on its own part of the people; a unit belongs to one part by its own rows alone."""

    parts: tuple["Usage", ...]


@dataclass(frozen=True, slots=True)
class Sampled:
    """All of this on one secret Poisson sample, which takes each unit with probability `rate`."""

    inner: "Usage"
    rate: Fraction


@dataclass(frozen=True, slots=True)
class Grouped:
    """The same, as seen by a group of `size` units that stand or fall together."""

    inner: "Usage"
    size: int


Usage = Use | Repeated | Sequential | Parallel | Sampled | Grouped
AnyUsage = Usage | PrivacyLoss | Composition  # a composed whole is its uses together


def use(factor: PrivacyLoss) -> Use:
    """One use of a mechanism, given as its factor of `neartwin.losses`."""
    if not isinstance(factor, PrivacyLoss):
        raise ParameterError("factor", factor, "must be a mechanism of neartwin.losses")
    return Use(factor)


def repeated(each: AnyUsage, count: int) -> Repeated:
    """The same, count times; from 1."""
    return Repeated(_read(each), integer(at_least=1, count=count))


def sequential(*parts: AnyUsage) -> Sequential:
    """All of these on the same people; at least one."""
    return Sequential(_all(parts))


def parallel(*parts: AnyUsage) -> Parallel:
    """Each on its own part of the people, disjoint in *units*; parts that share units are `together`."""
    return Parallel(_all(parts))


def subsample(inner: AnyUsage, rate: Number) -> Sampled:
    """All of this on one Poisson sample; 0 < rate < 1. Not for shuffled or fixed-size batches."""
    return Sampled(_read(inner), open_probability(rate=rational(rate=rate)))


def for_group(inner: AnyUsage, size: int) -> Grouped:
    """What a group of `size` units that stand or fall together is promised."""
    return Grouped(_read(inner), integer(at_least=1, size=size))


def cost(spend: AnyUsage, *, neighbours: str = "add_remove") -> Cost:
    """The certified losses of a spend: its views are eps(delta), delta(eps), T(alpha), advantage and more.

    neighbours: "add_remove" or "replace_one"; each mechanism's parameters must be stated for that relation (a subsampled one's
    for a unit that joins). Errors: `PrivacyError` where no theorem covers a sample, a group or parts.

    >>> from neartwin.losses import Laplace
    >>> towns = parallel(10 * Laplace(epsilon="0.1"), 100 * Laplace(epsilon="0.1"))
    >>> 4.692667414680189 in cost(towns).epsilon("1e-6")
    True
    >>> cost(towns, neighbours="replace_one") == cost(110 * Laplace(epsilon="0.1"), neighbours="replace_one")
    True
    """
    one_of(("add_remove", "replace_one"), neighbours=neighbours)
    whole = _read(spend)
    size = whole.size if isinstance(whole, Grouped) else 1
    if size > 1:
        _refuse_parts(whole)
    cases = _cases(whole.inner if isinstance(whole, Grouped) else whole, neighbours)
    if size > 1:
        cases = tuple(compose([grouped(f, size) * count for f, count in case.uses.items()]) for case in cases)
    return Cost(cases, neighbours, "numerical composition")


def _read(part: AnyUsage) -> Usage:
    if isinstance(part, PrivacyLoss):
        return Use(part)
    if isinstance(part, Composition):
        return Sequential(tuple(Repeated(Use(factor), count) for factor, count in part.uses.items()))
    if not isinstance(part, Usage):
        raise ParameterError("spend", part, "must be a spend or a mechanism of neartwin.losses")
    return part


def _all(parts: tuple[AnyUsage, ...]) -> tuple[Usage, ...]:
    if not parts:
        raise ParameterError("parts", parts, "must hold at least one")
    return tuple(map(_read, parts))


def _cases(spend: Usage, neighbours: str) -> tuple[Composition, ...]:
    """Each way one unit can meet the spend."""
    match spend:
        case Use(factor):
            return (Composition.of(factor),)
        case Repeated(each, count):
            inner = _cases(each, neighbours)
            if len(inner) == 1:
                return (inner[0] * count,)
            if _ways(len(inner), count) > MOST_CASES:
                raise _too_many()
            return _worst(compose(way) for way in combinations_with_replacement(inner, count))
        case Sequential(parts):
            return _met_together([_cases(part, neighbours) for part in parts])
        case Parallel(parts):
            return _met_apart(spend, [_cases(part, neighbours) for part in parts], neighbours)
        case Sampled(inner, rate):
            if neighbours == "replace_one":
                raise PrivacyError(
                    "sampling under replace-one depends on what the unit is replaced by: state the sampled mechanism itself, "
                    "such as SubsampledGaussian(mu, rate), its mu for a unit that joins"
                )

            return _worst(Composition.of(sampled(_single(case), rate)) for case in _cases(inner, neighbours))
        case Grouped():
            raise PrivacyError("a group is asked about as a whole: to_group(...) around everything, not inside a spend")
        case _:
            assert_never(spend)


def _met_together(parts: list[tuple[Composition, ...]]) -> tuple[Composition, ...]:
    total = 1
    for cases in parts:
        total *= len(cases)
    if total > MOST_CASES:
        raise _too_many()
    return _worst(compose(way) for way in product(*parts))


def _met_apart(spend: Usage, parts: list[tuple[Composition, ...]], neighbours: str) -> tuple[Composition, ...]:
    if neighbours == "add_remove" or len(parts) == 1:
        return _worst(case for cases in parts for case in cases)
    for cases in parts:
        for factor in (factor for case in cases for factor in case.uses):
            if factor.above("remove") != factor.above("add") or factor.above("remove") != factor.above("replace"):
                raise PrivacyError(
                    f"under replace-one a unit leaves one part and enters another, and {factor!r} has different losses for the "
                    f"two; account {type(spend).__name__.lower()} parts under add/remove, or as `together`"
                )
    if len(parts) > MOST_CASES:
        raise _too_many()
    return _worst(compose(pair) for first, second in combinations(parts, 2) for pair in product(first, second))


def _worst(cases: Iterable[Composition]) -> tuple[Composition, ...]:
    """Without those that another contains: dropping a mechanism only hides more."""
    kept: list[Composition] = []
    for case in dict.fromkeys(cases):
        if any(_inside(case, other) for other in kept):
            continue
        kept = [other for other in kept if not _inside(other, case)] + [case]
        if len(kept) > MOST_CASES:
            raise _too_many()
    return tuple(kept)


def _inside(one: Composition, other: Composition) -> bool:
    return all(count <= other.uses.get(factor, 0) for factor, count in one.uses.items())


def _single(case: Composition) -> PrivacyLoss:
    """The whole as one factor, to be sampled: one use of one mechanism, or Gaussians, which merge into one."""
    if sum(case.uses.values()) == 1:
        return next(iter(case.uses))
    total = Fraction(0)
    for factor, count in case.uses.items():
        if not isinstance(factor, Gaussian):
            raise PrivacyError(
                "several uses of one sample compose before they are sampled, and only Gaussian mechanisms have a closed form "
                "for that; sample each use afresh with repeated(on_sample(...), count)"
            )
        total += count * factor.mu**2
    from neartwin.mechanisms.sensitivity import root_above

    return Gaussian(mu=root_above(total))


def _refuse_parts(spend: Usage) -> None:
    match spend:
        case Parallel():
            raise PrivacyError("a group may have members in every part: account the parts as `together` for a group")
        case Sequential(parts):
            for part in parts:
                _refuse_parts(part)
        case Repeated(inner, _) | Sampled(inner, _) | Grouped(inner, _):
            _refuse_parts(inner)
        case Use():
            pass
        case _:
            assert_never(spend)


def _ways(kinds: int, count: int) -> int:
    """How many multisets, counted only as far as it matters."""
    from math import comb

    return comb(kinds + count - 1, count) if count <= MOST_CASES else MOST_CASES + 1


def _too_many() -> PrivacyError:
    return PrivacyError(
        f"more than {MOST_CASES} ways one unit can meet these disjoint parts; account the parts as `together`, or split the spend"
    )


@singledispatch
def sampled(factor: PrivacyLoss, rate: Fraction) -> PrivacyLoss:
    """The factor on a Poisson sample of this rate, 0 < rate < 1; `PrivacyError` where no theorem covers it.

    >>> sampled(Gaussian(mu=1), Fraction(1, 100))
    SubsampledGaussian(mu=Fraction(1, 1), rate=Fraction(1, 100))
    """
    del rate
    raise PrivacyError(
        f"no theorem here amplifies {type(factor).__name__} by sampling; state its pure or (epsilon, delta) guarantee instead"
    )


@sampled.register
def _(factor: Gaussian, rate: Fraction) -> PrivacyLoss:
    return SubsampledGaussian(mu=factor.mu, rate=rate)


@sampled.register
def _(factor: SubsampledGaussian, rate: Fraction) -> PrivacyLoss:
    return SubsampledGaussian(mu=factor.mu, rate=factor.rate * rate)


@sampled.register
def _(factor: Laplace, rate: Fraction) -> PrivacyLoss:
    return SubsampledLaplace(epsilon=factor.rate, rate=rate)


@sampled.register
def _(factor: SubsampledLaplace, rate: Fraction) -> PrivacyLoss:
    return SubsampledLaplace(epsilon=factor.epsilon, rate=factor.rate * rate)


@sampled.register(FinitePair)
@sampled.register(PiecewiseLinear)
def _(factor: FinitePair | PiecewiseLinear, rate: Fraction) -> PrivacyLoss:
    return SubsampledFinite(base=factor, rate=rate)


@sampled.register
def _(factor: SubsampledFinite, rate: Fraction) -> PrivacyLoss:
    return SubsampledFinite(base=factor.base, rate=factor.rate * rate)


@sampled.register(Pure)
@sampled.register(RandomizedResponse)
@sampled.register(SilentResponse)
@sampled.register(Geometric)
@sampled.register(Staircase)
@sampled.register(BoundedRange)
def _(
    factor: Pure | RandomizedResponse | SilentResponse | Geometric | Staircase | BoundedRange, rate: Fraction
) -> PrivacyLoss:
    return Pure(epsilon=_amplified(factor.epsilon, rate))


@sampled.register
def _(factor: Approx, rate: Fraction) -> PrivacyLoss:
    return Approx(epsilon=_amplified(factor.epsilon, rate), delta=factor.delta * rate)


@sampled.register
def _(factor: Leak, rate: Fraction) -> PrivacyLoss:
    return Leak(delta=factor.delta * rate)


def _amplified(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Rounded up; never above the epsilon without sampling."""
    return min(Fraction(float(amplified_pure(epsilon=epsilon, rate=rate).upper)), epsilon)


@singledispatch
def grouped(factor: PrivacyLoss, size: int) -> PrivacyLoss:
    """The factor against a group of `size` units, at least 2; `PrivacyError` where no theorem covers it.

    >>> grouped(Laplace(epsilon="0.1"), 3)
    Laplace(rate=Fraction(3, 10))
    """
    del size
    raise PrivacyError(
        f"no theorem here gives {type(factor).__name__} a group's privacy; state its pure or (epsilon, delta) guarantee instead"
    )


@grouped.register
def _(factor: Gaussian, size: int) -> PrivacyLoss:
    return Gaussian(mu=size * factor.mu)


@grouped.register
def _(factor: Laplace, size: int) -> PrivacyLoss:
    return Laplace(epsilon=size * factor.rate)


@grouped.register
def _(factor: Geometric, size: int) -> PrivacyLoss:
    return Geometric(epsilon=size * factor.epsilon, sensitivity=size * factor.sensitivity)


@grouped.register
def _(factor: DiscreteGaussian, size: int) -> PrivacyLoss:
    return DiscreteGaussian(sigma2=factor.sigma2, sensitivity=size * factor.sensitivity)


@grouped.register(Pure)
@grouped.register(RandomizedResponse)
@grouped.register(SilentResponse)
@grouped.register(Staircase)
@grouped.register(BoundedRange)
def _(factor: Pure | RandomizedResponse | SilentResponse | Staircase | BoundedRange, size: int) -> PrivacyLoss:
    return Pure(epsilon=size * factor.epsilon)


@grouped.register(Approx)
@grouped.register(Leak)
def _(factor: Approx | Leak, size: int) -> PrivacyLoss:
    epsilon = factor.epsilon if isinstance(factor, Approx) else Fraction(0)
    bound = group_approximate(epsilon=epsilon, delta=factor.delta, size=size)
    delta = Fraction(float(bound.delta.upper))
    if delta >= 1:
        raise PrivacyError(f"{factor!r} promises a group of {size} nothing: its delta grows to {float(delta):.3g}")
    return Approx(epsilon=size * epsilon, delta=delta)


@grouped.register
def _(factor: ZeroConcentrated, size: int) -> PrivacyLoss:
    return ZeroConcentrated(rho=size**2 * factor.rho)


@grouped.register
def _(factor: Renyi, size: int) -> PrivacyLoss:
    del factor
    raise PrivacyError(
        f"Renyi privacy at listed orders gives a group of {size} no curve here; use `group_rdp` on an RdpCurve"
    )
