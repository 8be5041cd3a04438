"""What was done, as frozen values: once, repeated, together, on disjoint parts, on a sample, against a group.

All of it fixed before the first answer is seen (what is chosen on the way belongs to a filter or an odometer). `cost` turns a
spend into the certified losses of its worst case. The relation of neighbours decides the rule for disjoint parts:

- add/remove: a unit is in one part, so the worst part counts, alone;
- replace-one: a unit may leave one part and enter another, so the worst two count together. Each part's mechanism must
  then cover a unit that leaves it or enters it, which the sensitivities of `neartwin.queries` do.

Which part is the worst may differ from question to question, so all are kept and each answer is the maximum over them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import assert_never

from neartwin.accounting.cost import Cost
from neartwin.checks import integer, one_of, open_probability
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Number, rational
from neartwin.losses import Composed, Gaussian, compose
from neartwin.losses.loss import Factor

MOST_CASES = 256


@dataclass(frozen=True, slots=True)
class Once:
    """One use of one mechanism."""

    factor: Factor


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same, `count` times on the same people, with fresh noise (and fresh samples) each time."""

    each: "Spend"
    count: int


@dataclass(frozen=True, slots=True)
class Together:
    """All of these on the same people."""

    parts: tuple["Spend", ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Each of these on its own part of the people; a unit belongs to one part by its own rows alone."""

    parts: tuple["Spend", ...]


@dataclass(frozen=True, slots=True)
class Sampled:
    """All of this on one secret Poisson sample, which takes each unit with probability `rate`."""

    inner: "Spend"
    rate: Fraction


@dataclass(frozen=True, slots=True)
class Grouped:
    """The same, as seen by a group of `size` units that stand or fall together."""

    inner: "Spend"
    size: int


Spend = Once | Repeated | Together | Parallel | Sampled | Grouped
Done = Spend | Factor | Composed  # a composed whole is its uses together


def once(factor: Factor) -> Once:
    """One use of a mechanism, given as its factor of `neartwin.losses`."""
    if not isinstance(factor, Factor):
        raise ParameterError("factor", factor, "must be a mechanism of neartwin.losses")
    return Once(factor)


def repeated(each: Done, count: int) -> Repeated:
    """The same, count times; from 1."""
    return Repeated(_read(each), integer(at_least=1, count=count))


def together(*parts: Done) -> Together:
    """All of these on the same people; at least one."""
    return Together(_all(parts))


def parallel(*parts: Done) -> Parallel:
    """Each on its own part of the people, disjoint in *units*; parts that share units are `together`."""
    return Parallel(_all(parts))


def on_sample(inner: Done, rate: Number) -> Sampled:
    """All of this on one Poisson sample; 0 < rate < 1. Not for shuffled or fixed-size batches."""
    return Sampled(_read(inner), open_probability(rate=rational(rate=rate)))


def to_group(inner: Done, size: int) -> Grouped:
    """What a group of `size` units that stand or fall together is promised."""
    return Grouped(_read(inner), integer(at_least=1, size=size))


def cost(spend: Done, *, neighbours: str = "add_remove") -> Cost:
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
        from neartwin.accounting.transforms import grouped

        cases = tuple(compose([grouped(f, size) * count for f, count in case.uses.items()]) for case in cases)
    return Cost(cases, neighbours, "numerical composition")


def _read(part: Done) -> Spend:
    if isinstance(part, Factor):
        return Once(part)
    if isinstance(part, Composed):
        return Together(tuple(Repeated(Once(factor), count) for factor, count in part.uses.items()))
    if not isinstance(part, Spend):
        raise ParameterError("spend", part, "must be a spend or a mechanism of neartwin.losses")
    return part


def _all(parts: tuple[Done, ...]) -> tuple[Spend, ...]:
    if not parts:
        raise ParameterError("parts", parts, "must hold at least one")
    return tuple(map(_read, parts))


def _cases(spend: Spend, neighbours: str) -> tuple[Composed, ...]:
    """Each way one unit can meet the spend."""
    match spend:
        case Once(factor):
            return (Composed.of(factor),)
        case Repeated(each, count):
            inner = _cases(each, neighbours)
            if len(inner) == 1:
                return (inner[0] * count,)
            if _ways(len(inner), count) > MOST_CASES:
                raise _too_many()
            return _worst(compose(way) for way in combinations_with_replacement(inner, count))
        case Together(parts):
            return _met_together([_cases(part, neighbours) for part in parts])
        case Parallel(parts):
            return _met_apart(spend, [_cases(part, neighbours) for part in parts], neighbours)
        case Sampled(inner, rate):
            if neighbours == "replace_one":
                raise PrivacyError(
                    "sampling under replace-one depends on what the unit is replaced by: state the sampled mechanism itself, "
                    "such as SubsampledGaussian(mu, rate), its mu for a unit that joins"
                )
            from neartwin.accounting.transforms import sampled  # which needs every factor

            return _worst(Composed.of(sampled(_single(case), rate)) for case in _cases(inner, neighbours))
        case Grouped():
            raise PrivacyError("a group is asked about as a whole: to_group(...) around everything, not inside a spend")
        case _:
            assert_never(spend)


def _met_together(parts: list[tuple[Composed, ...]]) -> tuple[Composed, ...]:
    total = 1
    for cases in parts:
        total *= len(cases)
    if total > MOST_CASES:
        raise _too_many()
    return _worst(compose(way) for way in product(*parts))


def _met_apart(spend: Spend, parts: list[tuple[Composed, ...]], neighbours: str) -> tuple[Composed, ...]:
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


def _worst(cases: Iterable[Composed]) -> tuple[Composed, ...]:
    """Without those that another contains: dropping a mechanism only hides more."""
    kept: list[Composed] = []
    for case in dict.fromkeys(cases):
        if any(_inside(case, other) for other in kept):
            continue
        kept = [other for other in kept if not _inside(other, case)] + [case]
        if len(kept) > MOST_CASES:
            raise _too_many()
    return tuple(kept)


def _inside(one: Composed, other: Composed) -> bool:
    return all(count <= other.uses.get(factor, 0) for factor, count in one.uses.items())


def _single(case: Composed) -> Factor:
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
    from neartwin.mechanisms.change import root_above

    return Gaussian(mu=root_above(total))


def _refuse_parts(spend: Spend) -> None:
    match spend:
        case Parallel():
            raise PrivacyError("a group may have members in every part: account the parts as `together` for a group")
        case Together(parts):
            for part in parts:
                _refuse_parts(part)
        case Repeated(inner, _) | Sampled(inner, _) | Grouped(inner, _):
            _refuse_parts(inner)
        case Once():
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
