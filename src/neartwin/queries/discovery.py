"""Which groups exist, found privately: the mechanism that keeps most at a price, by exact probability.

Compared by the number of groups it is expected to miss if there were one of every size, sum over n >= 1 of 1 - P(keep n).
For a threshold T on counts with symmetric noise X that is E max(0, T - 1 - X) = T - 1, but for tails below delta.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from neartwin.accounting import prices
from neartwin.accounting.targets import Approx, Gdp, Zcdp
from neartwin.mechanisms.change import root_below
from neartwin.mechanisms.partition import OptimalSelection
from neartwin.mechanisms.threshold import GaussianThreshold, UnitThreshold
from neartwin.queries.sensitivity import Sensitivity

Selection = UnitThreshold | OptimalSelection | GaussianThreshold
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
    return min(found, key=missed)


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


def missed(selection: Selection) -> float:
    """How many groups are missed in expectation, if there were one with each number of units from 1 on."""
    if isinstance(selection, OptimalSelection):
        return float((1 - selection.keep_probabilities(np.arange(1, selection.sure + 1))).sum())
    return float(selection.threshold - 1)
