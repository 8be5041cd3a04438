"""Sharing a spend among noisy measures: which noise each gets, and how much, so that the stated errors are least.

The objective is known before any row is read: the sum over measures of weight times error bar, plus, where groups are
discovered, a quarter of the groups that the discovery is expected to miss if there were one of every size, times the rows that
one unit may count for in a group. A weight says how much one step of a measure's bar adds to the bars of the statistics made
from it, in units of one row's largest contribution.

With bars c_i / eps_i and sum eps_i fixed, the sum is least at eps_i in proportion to sqrt(c_i); with bars c_i / mu_i and
sum mu_i^2 fixed, at mu_i^2 in proportion to c_i^(2/3). Bars are whole numbers, so the even split is tried too and the better
one by exact bars is kept. An (epsilon, delta) spend is tried both ways: discrete Laplace noise by sums of epsilon (which
leaves delta unspent where nothing can fail), and normal noise.

Which groups exist, found privately: the mechanism that keeps most at a price, by exact probability.

Compared by the number of groups it is expected to miss if there were one of every size, sum over n >= 1 of 1 - P(keep n).
For a threshold T on counts with symmetric noise X that is E max(0, T - 1 - X) = T - 1, but for tails below delta.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from neartwin.accounting import prices
from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure, Rdp, Zcdp
from neartwin.checks import positive
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import root_below
from neartwin.mechanisms.additive.discrete_gaussian import DiscreteGaussian
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.selection.thresholds import GaussianThreshold, OptimalSelection, Selection, UnitThreshold
from neartwin.statistics.measures import Measurement, Noise
from neartwin.statistics.sensitivity import Sensitivity
from neartwin.tradeoff import mu_of

_LEAST_EPSILON = Fraction(1, 2000)  # of one group; below, its table of probabilities is too long
_SEARCH = 40  # halvings


def best_selection(units: Sensitivity, entering: int, part: Approx | Zcdp | Gdp) -> Selection:
    """The mechanism that misses fewest groups at this price. delta is the whole failure of all groups of a unit together.

    units: the sensitivity of the unit counts over all groups; entering: the most groups that one unit brings in.
    """
    found: list[Selection] = []
    if isinstance(part, Approx):
        found.append(
            UnitThreshold.calibrated(
                epsilon=part.epsilon, delta=part.delta, sensitivity=units.l1, groups_per_unit=entering
            )
        )
    else:
        mu = part.mu if isinstance(part, Gdp) else root_below(2 * part.rho)
        found.append(
            GaussianThreshold.calibrated(mu=mu, delta=part.delta, l2_squared=units.l2_squared, groups_per_unit=entering)
        )
    epsilon = each_epsilon(part, units.cells)
    if epsilon >= _LEAST_EPSILON:
        found.append(OptimalSelection(epsilon=epsilon, delta=part.delta / units.cells))
    return min(found, key=lambda one: one.missed)


def each_epsilon(part: Approx | Zcdp | Gdp, cells: int) -> Fraction:
    """The epsilon of one of `cells` equal pure parts that compose to the price; delta is apart. Rounded down."""
    match part:
        case Approx(epsilon=epsilon):
            return epsilon / cells
        case Zcdp(rho=rho):
            return _largest(lambda e: cells * prices.rho_of_pure(e) <= rho)
        case Gdp(mu=mu):
            return _largest(lambda e: cells * prices.mu_of_pure(e) ** 2 <= mu**2)


def _largest(fits: Callable[[Fraction], bool]) -> Fraction:
    low, high = Fraction(0), Fraction(64)
    for _ in range(_SEARCH):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


CONFIDENCE = 0.95
LARGEST_SCALE = 2**50  # of the exact samplers, in grid units
_PARTS = 4096  # shares are multiples of one part in this
DISCOVERY_WEIGHT = (
    0.25  # of a row of a missed group beside a row of an error bar: those that are missed are the smallest
)


@dataclass(frozen=True, slots=True)
class Discovery:
    """Groups to be discovered. units: the sensitivity of all unit counts together; entering: the most one unit can bring in.

    rows: for how many rows one unit may count in a group, where rows are asked about: what a missed group lacks of each unit.
    """

    units: Sensitivity
    entering: int
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Allocation:
    """Who gets what. price: what is charged; error: the objective; why: in words, a line each."""

    noise: Mapping[str, Noise]
    selection: Selection | None
    price: Budget
    error: float
    why: tuple[str, ...]


@lru_cache(maxsize=256)
def allocate(needs: tuple[Measurement, ...], discovery: Discovery | None, spend: Budget) -> Allocation:
    """The allotment with the least stated errors that the spend pays for, certified.

    Errors: `PrivacyError` for a spend that cannot pay for this at all, `ParameterError` for noise too wide to draw.
    """
    _with_delta(discovery, spend)
    match spend:
        case Pure(epsilon=epsilon):
            found = [_by_sums(needs, discovery, epsilon, Fraction(0))]
        case Approx(epsilon=epsilon, delta=delta):
            found = [
                _by_sums(needs, discovery, epsilon, delta),
                _normal_for_approx(needs, discovery, spend),
            ]
        case Zcdp(rho=rho) | Rdp(epsilon=rho):
            order = spend.order if isinstance(spend, Rdp) else Fraction(1)
            found = [_normal(needs, discovery, spend, 2 * rho / order, _concentrated)]
        case Gdp(mu=mu):
            found = [_normal(needs, discovery, spend, mu**2, _rounded)]
        case _:
            raise PrivacyError(
                f"a plan cannot spend {spend}; spend pure(epsilon), approx(epsilon, delta), zcdp(rho) or gdp(mu): an account "
                "of any kind prices them in its own currency"
            )
    return _checked(_best([one for one in found if one is not None]))


@lru_cache(maxsize=256)
def allocate_normal(needs: tuple[Measurement, ...], discovery: Discovery | None, spend: Budget) -> Allocation:
    """The allotment with normal noise, rounded: what measures that share one norm can have. Errors: as of `allot`."""
    _with_delta(discovery, spend)
    match spend:
        case Approx():
            found = _normal_for_approx(needs, discovery, spend)
        case Zcdp(rho=rho) | Rdp(epsilon=rho):
            order = spend.order if isinstance(spend, Rdp) else Fraction(1)
            found = _normal(needs, discovery, spend, 2 * rho / order, _rounded)
        case Gdp(mu=mu):
            found = _normal(needs, discovery, spend, mu**2, _rounded)
        case _:
            raise PrivacyError(
                f"a norm cannot be bounded for {spend}: its noise is normal, which no epsilon alone pays for; spend "
                "approx(epsilon, delta), zcdp(rho) or gdp(mu), or limit max_rows_per_group and max_groups"
            )
    if found is None:
        raise PrivacyError(f"{spend} is too little to discover groups with")
    return _checked(found)


def _with_delta(discovery: Discovery | None, spend: Budget) -> None:
    if discovery is not None and not getattr(spend, "delta", Fraction(0)):
        raise PrivacyError(
            f"discovering unknown groups cannot be paid with {spend} alone: which groups exist is private, and finding "
            "out needs a delta; give public keys=, or spend a delta too, such as approx(epsilon, delta)"
        )


def _best(found: Sequence[Allocation]) -> Allocation:
    """The least objective, the first of equals; the others are told of."""
    best = min(found, key=lambda one: one.error)
    others = [one.why[0] for one in found if one is not best]
    return (
        best
        if not others
        else Allocation(
            best.noise, best.selection, best.price, best.error, (*best.why, *(f"less good: {line}" for line in others))
        )
    )


def _checked(made: Allocation) -> Allocation:
    for name, noise in made.noise.items():
        if noise.noise_scale > LARGEST_SCALE:
            raise ParameterError(
                f"scale of {name}", noise.noise_scale, "must be at most 2**50 grid steps", remedy="take a larger step"
            )
    return made


def _shares(sizes: Sequence[float], power: float) -> list[tuple[Fraction, ...]]:
    """The even split, and the one in proportion to sizes**power; each sums to 1 exactly."""
    even = (Fraction(1, len(sizes)),) * len(sizes)
    weights = [size**power for size in sizes]
    whole = sum(weights)
    if not whole > 0:
        return [even]
    parts = [max(1, math.floor(_PARTS * weight / whole)) for weight in weights]
    parts[parts.index(max(parts))] += _PARTS - sum(parts)
    return [even, tuple(Fraction(part, _PARTS) for part in parts)]


def _least(
    needs: tuple[Measurement, ...],
    discovery: Discovery | None,
    sizes: Sequence[float],
    power: float,
    made: Callable[[tuple[Fraction, ...]], tuple[dict[str, Noise], Selection | None] | None],
) -> tuple[dict[str, Noise], Selection | None, float, str] | None:
    """The better split, by exact bars, in words."""
    found = []
    for shares in _shares(sizes, power):
        one = made(shares)
        if one is not None:
            found.append((*one, _error(needs, discovery, *one), shares))
    if not found:
        return None
    best = min(found, key=lambda one: one[2])
    names = [*(need.name for need in needs), *(["discovery of groups"] if discovery else [])]
    told = ", ".join(f"{name} {float(share):.3g}" for name, share in zip(names, best[3], strict=True))
    even = f" (an even split would add up to {found[0][2]:.4g})" if best is not found[0] else ""
    return best[0], best[1], best[2], f"shares {told}{even}"


def _error(
    needs: tuple[Measurement, ...], discovery: Discovery | None, noise: Mapping[str, Noise], selection: Selection | None
) -> float:
    bars = sum(need.weight * noise[need.name].half_width(CONFIDENCE) for need in needs)
    if discovery is None or selection is None:
        return bars
    return bars + DISCOVERY_WEIGHT * discovery.rows * selection.missed


def _sizes(
    needs: tuple[Measurement, ...], discovery: Discovery | None, norm: Callable[[Sensitivity], float]
) -> list[float]:
    found = [need.weight * norm(need.sensitivity) for need in needs]
    return found if discovery is None else [*found, discovery.rows * norm(discovery.units)]


def _by_sums(
    needs: tuple[Measurement, ...], discovery: Discovery | None, epsilon: Fraction, delta: Fraction
) -> Allocation | None:
    """Discrete Laplace noise, epsilons added."""

    def made(shares: tuple[Fraction, ...]) -> tuple[dict[str, Noise], Selection | None]:
        parts = [epsilon * share for share in shares]
        noise: dict[str, Noise] = {
            need.name: DiscreteLaplace.calibrated(epsilon=part, sensitivity=need.sensitivity.l1)
            for need, part in zip(needs, parts, strict=False)
        }
        if discovery is None:
            return noise, None
        return noise, best_selection(discovery.units, discovery.entering, Approx(parts[-1], delta))

    least = _least(needs, discovery, _sizes(needs, discovery, lambda s: float(s.l1)), 0.5, made)
    if least is None:
        return None
    noise, selection, error, split = least
    price: Budget = Pure(epsilon) if selection is None else Approx(epsilon, delta)
    return Allocation(
        noise, selection, price, error, (f"discrete Laplace noise, epsilons added: error {error:.4g}", split)
    )


def _normal_for_approx(needs: tuple[Measurement, ...], discovery: Discovery | None, spend: Approx) -> Allocation | None:
    """Normal noise: G_mu (x) f_{0,d} with d = delta/2 for groups of one unit, and the rest of delta for G_mu's tail."""
    failure = Fraction(0) if discovery is None else spend.delta / 2
    mu = Fraction(float(mu_of(spend.epsilon, (spend.delta - failure) / (1 - failure)).lower))
    inner = Gdp(positive(mu=mu), failure)
    found = _normal(needs, discovery, inner, mu**2, _rounded)
    return None if found is None else Allocation(found.noise, found.selection, spend, found.error, found.why)


def _normal(
    needs: tuple[Measurement, ...],
    discovery: Discovery | None,
    spend: Zcdp | Rdp | Gdp,
    mu_squared: Fraction,
    law: Callable[[Fraction, int], Noise],
) -> Allocation | None:
    """Normal noise, whose mu^2 add up to the spend's."""

    def made(shares: tuple[Fraction, ...]) -> tuple[dict[str, Noise], Selection | None]:
        parts = [mu_squared * share for share in shares]
        noise = {
            need.name: law(_short(need.sensitivity.l2_squared / part), need.sensitivity.l2_squared)
            for need, part in zip(needs, parts, strict=False)
        }
        if discovery is None:
            return noise, None
        return noise, best_selection(discovery.units, discovery.entering, _part_of(spend, parts[-1]))

    least = _least(needs, discovery, _sizes(needs, discovery, lambda s: math.sqrt(s.l2_squared)), 2 / 3, made)
    if least is None:
        return None
    noise, selection, error, split = least
    return Allocation(noise, selection, _paid(spend, selection), error, (f"normal noise: error {error:.4g}", split))


def _part_of(spend: Zcdp | Rdp | Gdp, mu_squared: Fraction) -> Zcdp | Gdp:
    """The discovery's part, in the spend's own currency, with the whole delta."""
    if isinstance(spend, Gdp):
        return Gdp(root_below(mu_squared), spend.delta)
    return Zcdp(mu_squared / 2, spend.delta)


def _paid(spend: Zcdp | Rdp | Gdp, selection: Selection | None) -> Budget:
    """The spend, without its delta where nothing can fail."""
    if selection is not None:
        return spend
    match spend:
        case Zcdp(rho=rho):
            return Zcdp(rho, Fraction(0))
        case Rdp(order=order, epsilon=epsilon):
            return Rdp(order, epsilon, Fraction(0))
        case Gdp(mu=mu):
            return Gdp(mu, Fraction(0))


def _rounded(variance: Fraction, l2_squared: int) -> Noise:
    return Gaussian(variance=variance, l2_squared=l2_squared)


def _concentrated(variance: Fraction, l2_squared: int) -> Noise:
    """Of the two laws with the same rho the one with the shorter bar: the discrete one, where noise is small."""
    found: list[Noise] = [_rounded(variance, l2_squared), DiscreteGaussian(variance=variance, l2_squared=l2_squared)]
    return min(found, key=lambda noise: noise.half_width(CONFIDENCE))


def _short(variance: Fraction) -> Fraction:
    """Rounded up to 32 significant bits: a sampler works with its digits."""
    shift = 32 - math.floor(math.log2(variance)) if variance < 2**32 else 0
    return Fraction(math.ceil(variance * 2**shift), 2**shift)
