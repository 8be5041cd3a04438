"""Usage of mechanisms, as frozen values, and the certified losses that it costs.

A `Usage` says how mechanisms meet people: once, repeated, one after the other, on disjoint parts, on a secret sample, or
against a group. All of it is fixed before the first answer is seen. Choices on the way belong to a filter or an odometer.

`cost` lists every way in which one unit can meet a usage and keeps the worst. The worst way may differ from question to
question. So `Cost` keeps all of them, and each view is the maximum over them.

Proofs: docs/proofs/composition.md, (C1) disjoint parts, (C2) samples, (C3) groups.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import comb, inf, prod
from typing import Any, Literal, assert_never

import numpy as np

from neartwin import losses
from neartwin.accounting.renyi import DEFAULT_ORDERS, RdpCurve, grid_of
from neartwin.accounting.theorems import group_approximate
from neartwin.checks import integer, one_of, open_probability
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import End, FloatArray, Interval, Number, rational, root_above
from neartwin.losses import Composition, compose
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.families.gaussian import LEAST_WEIGHT, MOST_SHIFTS
from neartwin.losses.summands.base import Direction, no_replacement
from neartwin.tradeoff.amplification import amplified_epsilon

MOST_CASES = 256
RELATIONS = ("add_remove", "replace_one")


@dataclass(frozen=True, slots=True)
class Cost:
    """The certified privacy loss of a usage.

    Every view is the maximum over the cases and over both directions of the neighbours (T: the minimum), as an interval.
    The guarantee is the upper end (T: the lower).

    Attributes:
        cases: Ways in which one unit can meet the usage.
        neighbours: "add_remove" or "replace_one".
    """

    cases: tuple[Composition, ...]
    neighbours: str

    @property
    def _direction(self) -> Literal["replace"] | None:
        return "replace" if self.neighbours == "replace_one" else None

    def epsilon(self, delta: Number) -> Interval[float]:
        """The least epsilon at a delta strictly between 0 and 1."""
        return _greatest([case.epsilon(delta, direction=self._direction) for case in self.cases])

    def delta(self, eps: float | FloatArray) -> Interval[Any]:
        """The least delta at each epsilon, of any sign and shape."""
        return _greatest([case.delta(eps, direction=self._direction) for case in self.cases])

    def renyi(self, order: float) -> Interval[float]:
        """The Renyi divergence of one order, at least 1."""
        return _greatest([case.renyi(order, direction=self._direction) for case in self.cases])

    def advantage(self) -> Interval[float]:
        """The attacker's best true positive rate less false positive rate."""
        return _greatest([case.advantage(direction=self._direction) for case in self.cases])

    def tpr(self, fpr: float | FloatArray) -> Interval[Any]:
        """The attacker's best true positive rate at each false positive rate."""
        return _greatest([case.tpr(fpr, direction=self._direction) for case in self.cases])

    def tradeoff(self, alpha: float | FloatArray) -> Interval[Any]:
        """The attacker's least type-II error T(alpha) at each level; the guarantee is the lower end."""
        curves: list[Interval[Any]] = [case.tradeoff(alpha, direction=self._direction) for case in self.cases]
        lower = np.minimum.reduce([f.lower for f in curves])
        return _interval(lower, np.minimum.reduce([f.upper for f in curves]), curves[0].method)

    def pure(self) -> Interval[float]:
        """The largest privacy loss, inf where it is unbounded."""
        return self._of_add_remove(Composition.pure)

    def zcdp(self) -> Interval[float]:
        """The least rho, inf where there is none."""
        return self._of_add_remove(Composition.zcdp)

    def gdp(self, delta: Number) -> Interval[float]:
        """The least mu with T >= G_mu (x) f_{0,delta}."""
        return self._of_add_remove(lambda case: case.gdp(delta))

    def require_symmetry(self) -> None:
        """Raise `PrivacyError` under replace-one for a loss that differs from its add/remove form.

        Fits (pure, zCDP, GDP) are made over the add and remove directions, so they say nothing of such a loss.
        """
        if self.neighbours == "replace_one":
            for factor in (factor for case in self.cases for factor in case.uses):
                if not (_alike(factor, "remove", "replace") and _alike(factor, "add", "replace_back")):
                    raise PrivacyError(
                        f"{factor!r} has other losses when a unit is replaced, and this question is answered for add/remove only"
                    )

    def _of_add_remove(self, view: Callable[[Composition], Interval[float]]) -> Interval[float]:
        self.require_symmetry()
        return _greatest([view(case) for case in self.cases])


def _greatest(intervals: Sequence[Any]) -> Interval[End]:
    lower = np.maximum.reduce([f.lower for f in intervals])
    upper = np.maximum.reduce([f.upper for f in intervals])
    return _interval(lower, upper, max(intervals, key=lambda f: float(np.max(f.upper))).method)


def _interval(lower: Any, upper: Any, method: str) -> Interval[Any]:
    return Interval(lower, upper, method) if np.ndim(lower) else Interval(float(lower), float(upper), method)


@dataclass(frozen=True, slots=True)
class Use:
    """One use of one mechanism."""

    factor: PrivacyLoss


@dataclass(frozen=True, slots=True)
class Repeated:
    """A usage repeated `count` times on the same people, with fresh noise (and fresh samples) each time."""

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
    """A usage as seen by a group of `size` units that are present or absent together."""

    inner: "Usage"
    size: int


@dataclass(frozen=True, slots=True)
class AddRemove:
    """A usage whose proof is for a unit that joins or leaves, and not for one that is replaced.

    event: the event of dp_accounting, where no other usage says the same: the one that was read, or its kind and its fields.
    single: whether it is for one unit of a given number alone, so that groups and samples are refused.
    """

    inner: "Usage"
    event: Any = field(default=None, compare=False)
    single: bool = False


Usage = Use | Repeated | Sequential | Parallel | Sampled | Grouped | AddRemove
AnyUsage = Usage | PrivacyLoss | Composition  # a composition means its uses one after the other


def use(factor: PrivacyLoss) -> Use:
    """One use of a mechanism.

    Args:
        factor: Its privacy loss, from `neartwin.losses`.
    """
    if not isinstance(factor, PrivacyLoss):
        raise ParameterError("factor", factor, "must be a mechanism of neartwin.losses")
    return Use(factor)


def repeated(each: AnyUsage, count: int) -> Repeated:
    """Repeat a usage on the same people.

    Args:
        each: The repeated usage, with fresh noise and fresh samples each time.
        count: The number of times; at least 1.
    """
    return Repeated(_read(each), integer(at_least=1, count=count))


def sequential(*parts: AnyUsage) -> Sequential:
    """Usages one after the other on the same people.

    Args:
        parts: At least one usage.

    Returns:
        The usage.
    """
    return Sequential(_read_all(parts))


def parallel(*parts: AnyUsage) -> Parallel:
    """Each on its own part of the people.

    Args:
        parts: At least one, disjoint in *units*. Parts that share units are `sequential`.
    """
    return Parallel(_read_all(parts))


def subsample(inner: AnyUsage, rate: Number) -> Sampled:
    """All of this on one Poisson sample. Not for shuffled or fixed-size batches.

    Args:
        inner: The usage of the sample.
        rate: The probability with which each unit is in the sample; strictly between 0 and 1.
    """
    return Sampled(_read(inner), open_probability(rate=rational(rate=rate)))


def for_group(inner: AnyUsage, size: int) -> Grouped:
    """The cost of a usage to a group of units that are present or absent together.

    Args:
        inner: The usage.
        size: Units in the group; at least 1.
    """
    return Grouped(_read(inner), integer(at_least=1, size=size))


def cost(usage: AnyUsage, *, neighbours: str = "add_remove") -> Cost:
    """The certified losses of a usage: its views are eps(delta), delta(eps), T(alpha), advantage and more.

    Args:
        usage: The usage, one mechanism or a composition of uses.
        neighbours: "add_remove" or "replace_one". The parameters of each mechanism must be stated for that relation, those of a
            subsampled one for a unit that joins.

    Raises:
        PrivacyError: No theorem covers a sample, a group or disjoint parts of the usage.

    >>> from neartwin.losses import Laplace
    >>> towns = parallel(10 * Laplace(epsilon="0.1"), 100 * Laplace(epsilon="0.1"))
    >>> 4.692667414680189 in cost(towns).epsilon("1e-6")
    True
    >>> cost(towns, neighbours="replace_one") == cost(110 * Laplace(epsilon="0.1"), neighbours="replace_one")
    True
    """
    one_of(RELATIONS, neighbours=neighbours)
    total = _read(usage)
    inner, size = (total.inner, total.size) if isinstance(total, Grouped) else (total, 1)
    if size > 1:
        refuse_single(inner, "a group")
        if any(isinstance(part, Parallel) for part in _within(inner)):
            raise PrivacyError("a group may have members in every part: account the parts as `sequential` for a group")
    cases = _cases(inner, neighbours)
    if size > 1:
        Cost(cases, neighbours).require_symmetry()
        cases = tuple(compose([group_loss(f, size) * count for f, count in case.uses.items()]) for case in cases)
    return Cost(cases, neighbours)


def _read(part: AnyUsage) -> Usage:
    if isinstance(part, PrivacyLoss):
        return Use(part)
    if isinstance(part, Composition):
        return Sequential(tuple(Repeated(Use(factor), count) for factor, count in part.uses.items()))
    if not isinstance(part, Usage):
        raise ParameterError("usage", part, "must be a usage or a mechanism of neartwin.losses")
    return part


def _read_all(parts: tuple[AnyUsage, ...]) -> tuple[Usage, ...]:
    if not parts:
        raise ParameterError("parts", parts, "must hold at least one")
    return tuple(map(_read, parts))


def _cases(usage: Usage, neighbours: str) -> tuple[Composition, ...]:
    """Each way one unit can meet the usage."""
    match usage:
        case Use(factor):
            return (Composition.of(factor),)
        case Repeated(each, count):
            inner = _cases(each, neighbours)
            if len(inner) == 1:
                return (inner[0] * count,)
            _require_few(comb(len(inner) + count - 1, count) if count <= MOST_CASES else count)
            return _worst(compose(way) for way in combinations_with_replacement(inner, count))
        case Sequential(parts):
            cases = [_cases(part, neighbours) for part in parts]
            _require_few(prod(map(len, cases)))
            return _worst(compose(way) for way in product(*cases))
        case Parallel(parts):
            return _parallel_cases(parts, neighbours)
        case Sampled() | AddRemove() if neighbours == "replace_one":
            raise no_replacement()
        case AddRemove(inner):
            return _cases(inner, neighbours)
        case Sampled(inner, rate):
            refuse_single(inner, "a random sample")
            return _worst(Composition.of(sample_loss(single(case), rate)) for case in _cases(inner, neighbours))
        case Grouped():
            raise PrivacyError("a group meets a usage as a whole: for_group(...) stands around everything, not inside")
        case _:
            assert_never(usage)


def _parallel_cases(parts: tuple[Usage, ...], neighbours: str) -> tuple[Composition, ...]:
    """(C1): the worst part alone. Under replace-one also the worst two, one of which a unit leaves, and enters the other."""
    alone = [case for part in parts for case in _cases(part, neighbours)]
    if neighbours == "add_remove" or len(parts) == 1:
        return _worst(alone)
    for factor in (factor for case in alone for factor in case.uses):
        if not _alike(factor, "remove", "add", "replace"):
            raise PrivacyError(
                f"under replace-one a unit leaves one part and enters another, and {factor!r} has different losses for the "
                "two; account parallel parts under add/remove, or as `sequential`"
            )
    _require_few(len(parts))
    met = combinations([_cases(part, "add_remove") for part in parts], 2)
    return _worst([*alone, *(compose(pair) for first, second in met for pair in product(first, second))])


def _alike(factor: PrivacyLoss, *directions: Direction) -> bool:
    return len({factor.dominating_pair(one) for one in directions}) == 1


def _worst(cases: Iterable[Composition]) -> tuple[Composition, ...]:
    """The cases that no other contains: to drop a mechanism only hides more."""
    worst: list[Composition] = []
    for case in dict.fromkeys(cases):
        if not any(_inside(case, other) for other in worst):
            worst = [other for other in worst if not _inside(other, case)] + [case]
            _require_few(len(worst))
    return tuple(worst)


def _inside(one: Composition, other: Composition) -> bool:
    return all(count <= other.uses.get(factor, 0) for factor, count in one.uses.items())


def _require_few(cases: int) -> None:
    if cases > MOST_CASES:
        raise PrivacyError(
            f"more than {MOST_CASES} ways one unit can meet these disjoint parts; account the parts as `sequential`, or split "
            "the usage"
        )


def single(case: Composition) -> PrivacyLoss:
    """The case as one factor, to be sampled: one use, Gaussians, which merge into one, or whatever is pure as the worst such.

    Args:
        case: Uses of one sample.

    Raises:
        PrivacyError: They are none of these.
    """
    if sum(case.uses.values()) == 1:
        return next(iter(case.uses))
    if all(isinstance(factor, losses.Gaussian) for factor in case.uses):
        return losses.Gaussian(mu=root_above(2 * (case.stated_rho() or Fraction(0))))
    if (most := case.pure().upper) < inf:
        return losses.UpperBound(of=losses.Approx(epsilon=Fraction(most), delta=0))
    raise PrivacyError(
        "several uses of one sample compose before they are sampled, and only Gaussian mechanisms and pure ones have a "
        "closed form for that; sample each use afresh with repeated(subsample(...), count)"
    )


def _within(usage: Any) -> Iterator[Usage]:
    """A usage and all inside it."""
    yield usage
    inside = [getattr(usage, name) for name in ("inner", "each") if hasattr(usage, name)]
    for part in (*inside, *getattr(usage, "parts", ())):
        yield from _within(part)


def is_single(usage: Usage) -> bool:
    """Whether a part of it is for one unit of a given number alone.

    Args:
        usage: The usage.
    """
    return any(isinstance(part, AddRemove) and part.single for part in _within(usage))


def refuse_single(usage: Usage, what: str) -> None:
    """Raise `PrivacyError` for what holds for one unit of a given number alone.

    Args:
        usage: The usage.
        what: The question, such as "a group".
    """
    if is_single(usage):
        raise PrivacyError(
            f"what {what} costs no theorem here says of batches of a fixed or largest size, whose records drive each other out, "
            "or of bands; state the group of fixed_batches, or draw Poisson batches"
        )


def sample_loss(factor: PrivacyLoss, rate: Fraction) -> PrivacyLoss:
    """One use on a Poisson sample, under add/remove (C2).

    Args:
        factor: The loss without sampling.
        rate: The sampling probability, 0 < rate < 1.

    Raises:
        PrivacyError: No theorem covers the mechanism.

    >>> sample_loss(losses.Gaussian(mu=1), Fraction(1, 100))
    SubsampledGaussian(mu=Fraction(1, 1), rate=Fraction(1, 100))
    """
    match factor:
        case losses.Gaussian(mu=mu):
            return losses.SubsampledGaussian(mu=mu, rate=rate)
        case losses.Laplace(rate=epsilon):
            return losses.SubsampledLaplace(epsilon=epsilon, rate=rate)
        case (
            losses.SubsampledGaussian(rate=before)
            | losses.SubsampledLaplace(rate=before)
            | losses.SubsampledFinite(rate=before)
        ):
            kept = {part.name: getattr(factor, part.name) for part in fields(factor)}
            return type(factor)(**kept | {"rate": before * rate})
        case losses.GaussianMixture():
            return factor.sampled(rate)
        case _ if isinstance(factor, losses.SubsampledFinite.bases):
            return losses.SubsampledFinite(base=factor, rate=rate)
        case losses.Approx(epsilon=epsilon, delta=0) if epsilon:
            return sample_loss(losses.Pure(epsilon=epsilon), rate)
        case losses.Approx(epsilon=epsilon, delta=delta):
            less = Fraction(float(amplified_epsilon(epsilon=epsilon, rate=rate).upper))
            return losses.UpperBound(of=losses.Approx(epsilon=less, delta=delta * rate))
        case losses.Leak(delta=delta):
            return losses.UpperBound(of=losses.Leak(delta=delta * rate))
        case losses.UpperBound(of=most):
            return losses.UpperBound(of=sample_loss(most, rate))
    if stated := factor.stated_pure():
        return losses.UpperBound(of=losses.SubsampledFinite(base=losses.Pure(epsilon=stated), rate=rate))
    raise _uncovered(factor, "amplifies {} by sampling")


def group_loss(factor: PrivacyLoss, size: int) -> PrivacyLoss:
    """One use against a group of units (C3).

    Args:
        factor: The loss of one unit.
        size: Units in the group; at least 2.

    Raises:
        PrivacyError: No theorem covers the mechanism.

    >>> group_loss(losses.Laplace(epsilon="0.1"), 3)
    Laplace(rate=Fraction(3, 10))
    """
    match factor:
        case losses.Gaussian(mu=mu):
            return losses.Gaussian(mu=size * mu)
        case losses.Laplace(rate=rate):
            return losses.Laplace(epsilon=size * rate)
        case losses.Geometric(epsilon=epsilon, sensitivity=sensitivity):
            return losses.Geometric(epsilon=size * epsilon, sensitivity=size * sensitivity)
        case losses.DiscreteGaussian(sigma2=sigma2, sensitivity=sensitivity):
            return losses.DiscreteGaussian(sigma2=sigma2, sensitivity=size * sensitivity)
        case losses.SubsampledGaussian(mu=mu, rate=rate):
            return _group_on_batches(mu, rate, size)
        case losses.ZeroConcentrated(rho=rho, xi=0):
            return losses.ZeroConcentrated(rho=size**2 * rho)
        case losses.BoundedRange(epsilon=epsilon):
            return losses.BoundedRange(epsilon=size * epsilon)
        case losses.Approx(epsilon=epsilon, delta=delta):
            return _group_approximate(factor, epsilon, delta, size)
        case losses.Leak(delta=delta):
            return _group_approximate(factor, Fraction(0), delta, size)
        case losses.UpperBound(of=most):
            return losses.UpperBound(of=group_loss(most, size))
    if (top := Composition.of(factor).pure().upper) < inf:
        return losses.UpperBound(of=losses.Pure(epsilon=size * (factor.stated_pure() or Fraction(top))))
    raise _uncovered(factor, f"gives {{}} the privacy of a group of {size}")


def _group_on_batches(mu: Fraction, rate: Fraction, size: int) -> PrivacyLoss:
    taking = [comb(size, k) * rate**k * (1 - rate) ** (size - k) for k in range(size + 1)]
    if size >= MOST_SHIFTS or min(filter(None, taking)) < LEAST_WEIGHT:
        rule = (
            f"must be below {MOST_SHIFTS}, and no number of drawn units rarer than 1e-300 at the rate {float(rate):g}"
        )
        raise ParameterError("size", size, rule, remedy="ask for a smaller group")
    return losses.GaussianMixture(distances=[k * mu for k in range(size + 1)], weights=taking)


def _group_approximate(factor: PrivacyLoss, epsilon: Fraction, delta: Fraction, size: int) -> PrivacyLoss:
    grown = Fraction(float(group_approximate(epsilon=epsilon, delta=delta, size=size).delta.upper))
    if grown >= 1:
        raise PrivacyError(f"{factor!r} promises a group of {size} nothing: its delta grows to {float(grown):.3g}")
    return losses.UpperBound(of=losses.Approx(epsilon=size * epsilon, delta=grown))


def _uncovered(factor: PrivacyLoss, what: str) -> PrivacyError:
    name = type(factor).__name__
    return PrivacyError(f"no theorem here {what.format(name)}; state its pure or (epsilon, delta) guarantee instead")


def rdp_accountant(
    usage: AnyUsage, *, orders: Sequence[float] = DEFAULT_ORDERS, neighbours: str = "add_remove"
) -> RdpCurve:
    """The Renyi curve of the composition on a grid of orders, those at which it is finite. Mironov 2017.

    Its `epsilon` converts it by the better conversion and says whether the best order is at the grid's edge. The moments
    accountant is whole orders and `epsilon_mironov`.

    Args:
        usage: The mechanisms and how they meet people.
        orders: The grid, increasing.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The curve.

    >>> from neartwin.accounting.usage import repeated
    >>> from neartwin.losses import Gaussian
    >>> found = rdp_accountant(repeated(Gaussian(mu="0.05"), 1000)).epsilon("1e-6")
    >>> found.at_edge
    False
    """
    total = cost(usage, neighbours=neighbours)
    grid = grid_of(orders)
    values = [total.renyi(order) for order in grid]
    finite = [(order, value) for order, value in zip(grid, values, strict=True) if np.isfinite(value.upper)]
    if not finite:
        raise PrivacyError(
            "no order has a finite Renyi divergence: everything may be revealed; use the numerical accountant"
        )
    lower, upper = np.array([v.lower for _, v in finite]), np.array([v.upper for _, v in finite])
    return RdpCurve(tuple(order for order, _ in finite), Interval(lower, upper, "Renyi divergences of the losses"))
