"""The split of a spend among noisy measures: the noise of each, and its share, so that the stated errors are least.

The objective is known before any row is read. It is the sum over measures of weight times error bar. If groups are
discovered, it also counts missed groups: a quarter of their expected number, times the most rows of one unit in a
group. That expectation assumes one group of every size. A weight is the contribution of one step of a measure's bar to
the bars of its statistics, in units of one row's largest contribution.

With bars c_i / eps_i and sum eps_i fixed, the sum is least at eps_i in proportion to sqrt(c_i). With bars c_i / mu_i
and sum mu_i^2 fixed, it is least at mu_i^2 in proportion to c_i^(2/3). Bars are whole numbers, so the even split is
tried too, and exact bars decide. An (epsilon, delta) spend is tried with two kinds of noise. Discrete Laplace noise
adds epsilons, and leaves delta unspent if nothing can fail. The other kind is normal noise.

Groups are discovered by the mechanism that is expected to miss fewest groups, by exact probability: the sum over n >= 1
of 1 - P(keep n). For a threshold T on counts with symmetric noise X that is E max(0, T - 1 - X) = T - 1, up to tails
below delta.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from neartwin.accounting import prices
from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure, Rdp, Zcdp
from neartwin.balls import ball, root
from neartwin.checks import positive
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import root_above, root_below
from neartwin.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian
from neartwin.mechanisms.selection.thresholds import GaussianThreshold, OptimalSelection, Selection, UnitThreshold
from neartwin.statistics.measures import Measurement, Noise
from neartwin.statistics.sensitivity import Sensitivity
from neartwin.tradeoff import mu_of

_LEAST_EPSILON = Fraction(1, 2000)  # for one group; below it, the table of probabilities is too long
_SMALLEST_EPSILON, _LARGEST_EPSILON = Fraction(1, 2**34), Fraction(64)  # where it is looked for


def best_selection(units: Sensitivity, entering: int, part: Approx | Zcdp | Gdp) -> Selection:
    """The mechanism that misses fewest groups at this price.

    Args:
        units: The sensitivity of the counts of units over all groups.
        entering: The most groups that one unit brings in.
        part: The price. Its delta is the failure probability over all groups of a unit together.

    Returns:
        The selection with the fewest missed groups in expectation.
    """
    candidates: list[Selection] = []
    if isinstance(part, Approx):
        candidates.append(
            UnitThreshold.calibrated(
                epsilon=part.epsilon, delta=part.delta, sensitivity=units.l1, groups_per_unit=entering
            )
        )
    else:
        mu = part.mu if isinstance(part, Gdp) else root_below(2 * part.rho)
        candidates.append(
            GaussianThreshold.calibrated(mu=mu, delta=part.delta, l2_squared=units.l2_squared, groups_per_unit=entering)
        )
    epsilon = each_epsilon(part, units.cells)
    if epsilon >= _LEAST_EPSILON:
        candidates.append(OptimalSelection(epsilon=epsilon, delta=part.delta / units.cells))
    return min(candidates, key=lambda one: one.missed)


def each_epsilon(part: Approx | Zcdp | Gdp, cells: int) -> Fraction:
    """The epsilon of one of several equal pure mechanisms that compose to a price, rounded down.

    Args:
        part: The price; its delta is not spent here.
        cells: The number of mechanisms.

    Returns:
        The epsilon of each.
    """
    match part:
        case Approx(epsilon=epsilon):
            return epsilon / cells
        case Zcdp(rho=rho):
            return largest(prices.rho_of_pure, rho / cells)
        case Gdp(mu=mu):
            return largest(lambda e: prices.mu_of_pure(e) ** 2, mu**2 / cells)


def largest(cost: Callable[[Fraction], Fraction], most: Fraction) -> Fraction:
    """The largest epsilon up to 64 that costs at most so much, rounded down to a float.

    Args:
        cost: The cost of an epsilon, which grows with it.
        most: The most that it may cost.

    Returns:
        The epsilon; 0 where not even 2^-34 is paid for.
    """
    if cost(_SMALLEST_EPSILON) > most:
        return Fraction(0)
    ends = float(_SMALLEST_EPSILON), float(_LARGEST_EPSILON)
    return Fraction(root(lambda epsilon: ball(most - cost(Fraction(epsilon))), *ends)[0])


CONFIDENCE = 0.95
LOSS_FAILURE = 0.01  # of that, for the bar of lost rows
LARGEST_SCALE = 2**50  # the limit of the exact samplers, in grid units
_PARTS = 4096  # shares are multiples of 1 / _PARTS
DISCOVERY_WEIGHT = 0.25  # the importance of a missed row, relative to a row of a bar: missed groups are the smallest


@dataclass(frozen=True, slots=True)
class Discovery:
    """Groups that a plan discovers privately.

    Attributes:
        units: The sensitivity of the counts of units over all groups.
        entering: The most groups that one unit brings in.
        rows: The most rows of one unit in a group, if a statistic counts rows: a missed group lacks so many of each
            unit.
    """

    units: Sensitivity
    entering: int
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Allocation:
    """The split of a spend.

    Attributes:
        noise: The noise of each measure, by name.
        selection: The discovery of groups; None for public groups.
        price: The charge.
        error: The objective.
        why: The reasons in words, a line each.
    """

    noise: Mapping[str, Noise]
    selection: Selection | None
    price: Budget
    error: float
    why: tuple[str, ...]


@lru_cache(maxsize=256)
def allocate(
    needs: tuple[Measurement, ...], discovery: Discovery | None, spend: Budget, *, normal: bool = False
) -> Allocation:
    """The certified split with the least stated errors that the spend pays for.

    Args:
        needs: The measures.
        discovery: The groups to discover; None for public groups.
        spend: The spend.
        normal: Whether the noise must be rounded normal, for measures that share one norm.

    Returns:
        The best of all splits and kinds of noise.

    Raises:
        PrivacyError: The spend cannot pay for this at all.
        ParameterError: The noise is too wide to draw.
    """
    if discovery is not None:
        require_delta(spend)
    match spend:
        case Pure(epsilon=epsilon) if not normal:
            ways = [_laplace(epsilon, NO_DELTA)]
        case Approx(epsilon=epsilon, delta=delta):
            ways = [] if normal else [_laplace(epsilon, delta)]
            ways.append(_normal(gdp_of(spend, discovers=discovery is not None), Gaussian, spend))
        case Zcdp() | Rdp() | Gdp():
            law = Gaussian if normal or isinstance(spend, Gdp) else _concentrated
            ways = [_normal(spend, law, without_delta(spend))]
        case _:
            raise PrivacyError(
                f"a plan cannot spend {spend}{' within a norm, whose noise is normal' * normal}; "
                f"spend {'' if normal else 'pure(epsilon), '}approx(epsilon, delta), zcdp(rho) or gdp(mu): "
                "an account of any kind prices them in its own currency"
            )
    candidates = [_allotment(needs, discovery, spend, way) for way in ways]
    best = min(candidates, key=lambda one: one.error)
    others = (f"less good: {one.why[0]}" for one in candidates if one is not best)
    for name, noise in best.noise.items():  # another way may have wider noise
        if noise.noise_scale > LARGEST_SCALE:
            raise ParameterError(
                f"scale of {name}", noise.noise_scale, "must be at most 2**50 grid steps", remedy="spend more"
            )
    return replace(best, why=(*best.why, *others))


def require_delta(spend: Budget) -> None:
    """Refuse a spend that cannot pay for unknown groups.

    Args:
        spend: The spend.

    Raises:
        PrivacyError: It has no delta.
    """
    if not delta_of(spend):
        raise PrivacyError(
            f"discovering unknown groups cannot be paid with {spend} alone: the existence of a group is private, and "
            "discovering it needs a delta; give public keys (keys=, --keys), or spend a delta too: nt.approx(1, '1e-6'), "
            "--spend epsilon=1,delta=1e-6"
        )


@dataclass(frozen=True, slots=True)
class _Way:
    """One kind of noise, and how a spend is shared among its uses.

    Attributes:
        total: The quantity that adds up: epsilon, or mu squared.
        power: A measure's share is in proportion to its size to this power.
        size: The size of a change of all numbers of a measure.
        law: The noise for a part of the total.
        discovery: The price for discovering groups that a part of the total pays.
        price: The cost of noise that cannot fail.
        words: The kind of noise in words.
    """

    total: Fraction
    power: float
    size: Callable[[Sensitivity], float]
    law: Callable[[Fraction, Sensitivity], Noise]
    discovery: Callable[[Fraction], Approx | Zcdp | Gdp]
    price: Budget
    words: str


def _laplace(epsilon: Fraction, delta: Fraction) -> _Way:
    return _Way(
        total=epsilon,
        power=0.5,
        size=lambda change: float(change.l1),
        law=lambda part, change: DiscreteLaplace.calibrated(epsilon=part, sensitivity=change.l1),
        discovery=lambda part: Approx(part, delta),
        price=Pure(epsilon),
        words="discrete Laplace noise, epsilons added",
    )


def _normal(spend: Zcdp | Rdp | Gdp, law: Callable[..., Noise], price: Budget) -> _Way:
    """Normal noise, whose mu squared add up to the spend's. Groups are discovered in its own currency, with its whole delta."""
    in_mu = isinstance(spend, Gdp)
    return _Way(
        total=mu_squared_of(spend),
        power=2 / 3,
        size=lambda change: math.sqrt(change.l2_squared),
        law=lambda part, change: law(variance=_short(change.l2_squared / part), l2_squared=change.l2_squared),
        discovery=lambda part: Gdp(root_below(part), spend.delta) if in_mu else Zcdp(part / 2, spend.delta),
        price=price,
        words="normal noise",
    )


def _concentrated(*, variance: Fraction, l2_squared: int) -> Noise:
    """Of the two laws with the same rho the one with the shorter bar: the discrete one, where noise is small."""
    laws: list[Noise] = [kind(variance=variance, l2_squared=l2_squared) for kind in (Gaussian, DiscreteGaussian)]
    return min(laws, key=lambda noise: noise.half_width(CONFIDENCE))


def _allotment(needs: tuple[Measurement, ...], discovery: Discovery | None, spend: Budget, way: _Way) -> Allocation:
    """The better of two splits, by exact bars."""
    names, sizes = [need.name for need in needs], [need.weight * way.size(need.sensitivity) for need in needs]
    if discovery is not None:
        names.append("discovery of groups")
        sizes.append(discovery.rows * way.size(discovery.units))
    options = []
    for shares in shares_of(sizes, way.power):
        parts = [way.total * share for share in shares]
        noise = {need.name: way.law(part, need.sensitivity) for need, part in zip(needs, parts, strict=False)}
        error = sum(need.weight * noise[need.name].half_width(CONFIDENCE) for need in needs)
        selection = None
        if discovery is not None:
            selection = best_selection(discovery.units, discovery.entering, way.discovery(parts[-1]))
            error += DISCOVERY_WEIGHT * discovery.rows * selection.missed
        options.append((error, shares, noise, selection))
    error, shares, noise, selection = min(options, key=lambda option: option[0])
    split = ", ".join(f"{name} {float(share):.3g}" for name, share in zip(names, shares, strict=True))
    even = options[0][0]
    better = f" (an even split would add up to {even:.4g})" if error < even else ""
    price = way.price if selection is None else spend
    return Allocation(noise, selection, price, error, (f"{way.words}: error {error:.4g}", f"shares {split}{better}"))


def shares_of(sizes: Sequence[float], power: float) -> list[tuple[Fraction, ...]]:
    """The even split, and the split in proportion to sizes**power; each sums to 1 exactly.

    Args:
        sizes: The sizes, not negative.
        power: The power.

    Returns:
        One or two splits, the even one first.
    """
    even = (Fraction(1, len(sizes)),) * len(sizes)
    weights = [size**power for size in sizes]
    total = sum(weights)
    if not total > 0:
        return [even]
    parts = [max(1, math.floor(_PARTS * weight / total)) for weight in weights]
    parts[parts.index(max(parts))] += _PARTS - sum(parts)
    return [even, tuple(Fraction(part, _PARTS) for part in parts)]


def _short(variance: Fraction) -> Fraction:
    """Rounded up to 32 significant bits: a sampler works with its digits."""
    shift = 32 - math.floor(math.log2(variance)) if variance < 2**32 else 0
    return Fraction(math.ceil(variance * 2**shift), 2**shift)


NO_DELTA = Fraction(0)


def delta_of(spend: Budget) -> Fraction:
    """The delta of a spend.

    Args:
        spend: The spend.

    Returns:
        The delta; 0 if it has none.
    """
    return getattr(spend, "delta", NO_DELTA)


def without_delta(spend: Budget) -> Budget:
    """The spend of noise that cannot fail: zCDP, RDP and GDP need no delta for it.

    Args:
        spend: The spend.

    Returns:
        The spend with delta 0; pure and approximate spends are unchanged.
    """
    return replace(spend, delta=NO_DELTA) if isinstance(spend, Zcdp | Rdp | Gdp) else spend


def share_of(spend: Budget, share: Fraction, *, delta: Fraction) -> Budget:
    """A share of a spend, with a given delta. Shares compose adaptively to the spend.

    Args:
        spend: The spend.
        share: The share of epsilon, rho or mu squared.
        delta: The delta of the share.

    Returns:
        The share; mu is rounded down.

    Raises:
        PrivacyError: The currency does not add up.

    >>> share_of(Zcdp(Fraction(1, 2), Fraction(0)), Fraction(1, 4), delta=Fraction(0))
    nt.zcdp(rho='0.125')
    """
    match spend:
        case Pure(epsilon=epsilon):
            return Pure(epsilon * share)
        case Approx(epsilon=epsilon):
            return Approx(epsilon * share, delta) if delta else Pure(epsilon * share)
        case Zcdp(rho=rho):
            return Zcdp(rho * share, delta)
        case Rdp(order=order, epsilon=epsilon):
            return Rdp(order, epsilon * share, delta)
        case Gdp(mu=mu):
            return Gdp(root_below(mu**2 * share), delta)
    raise PrivacyError(f"a plan cannot spend {spend}; spend pure, approx, zcdp, rdp or gdp")


def split_budget(spend: Budget, share: Fraction) -> tuple[Budget, Budget]:
    """Split a spend into two that compose to it adaptively.

    Args:
        spend: The spend.
        share: The first part's share of epsilon, rho or mu squared.

    Returns:
        The first part, without a delta, and the rest with the whole delta.

    Raises:
        PrivacyError: The currency does not add up.

    >>> split_budget(Approx(Fraction(1), Fraction(1, 10**6)), Fraction(1, 4))
    (nt.pure(epsilon='0.25'), nt.approx(epsilon='0.75', delta='0.000001'))
    """
    return share_of(spend, share, delta=NO_DELTA), share_of(spend, 1 - share, delta=delta_of(spend))


def total_of(prices: Sequence[Budget], spend: Budget) -> Budget:
    """The sum of prices of one currency. mu is rounded up, but not above the mu of the spend.

    Args:
        prices: The prices, at least one.
        spend: The spend of which the prices are shares.

    Returns:
        The sum.
    """
    delta = sum(map(delta_of, prices), NO_DELTA)
    match prices[0]:
        case Zcdp():
            return Zcdp(sum((price.rho for price in prices if isinstance(price, Zcdp)), NO_DELTA), delta)
        case Rdp(order=order):
            return Rdp(order, sum((price.epsilon for price in prices if isinstance(price, Rdp)), NO_DELTA), delta)
        case Gdp():
            squared = sum((price.mu**2 for price in prices if isinstance(price, Gdp)), NO_DELTA)
            mu = root_above(squared)
            return Gdp(min(mu, spend.mu) if isinstance(spend, Gdp) and squared <= spend.mu**2 else mu, delta)
    epsilon = sum((price.epsilon for price in prices if isinstance(price, Pure | Approx)), NO_DELTA)
    return Approx(epsilon, delta) if delta else Pure(epsilon)


def gdp_of(spend: Approx, *, discovers: bool) -> Gdp:
    """The Gaussian privacy G_mu (x) f_{0,d} within an (epsilon, delta) spend.

    Args:
        spend: The spend.
        discovers: Whether groups are discovered, for which d is half of delta. The rest of delta covers G_mu's tail.

    Returns:
        mu, rounded down, and d.
    """
    failure = spend.delta / 2 if discovers else NO_DELTA
    mu = Fraction(float(mu_of(spend.epsilon, (spend.delta - failure) / (1 - failure)).lower))
    return Gdp(positive(mu=mu), failure)


def mu_squared_of(spend: Budget) -> Fraction:
    """The mu^2 for normal noise within a spend, exact.

    Args:
        spend: The spend.

    Returns:
        mu^2.

    Raises:
        PrivacyError: The spend is pure or approximate privacy.
    """
    match spend:
        case Gdp(mu=mu):
            return mu**2
        case Zcdp(rho=rho):
            return 2 * rho
        case Rdp(order=order, epsilon=epsilon):
            return 2 * epsilon / order
    raise PrivacyError(f"{spend} cannot pay for normal noise; spend zcdp(rho), rdp(order, epsilon) or gdp(mu)")
