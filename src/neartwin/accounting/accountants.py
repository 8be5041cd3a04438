"""The accountants that users know, each on the same spend: what a rule of composition says of it.

All but `numerical_accountant` first forget everything about a mechanism but one number or curve. All need the whole fixed
before its first answer; basic, zCDP, Gaussian and RDP at one order also hold for adaptive parameters, through filters.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

import neartwin.losses.directions  # noqa: F401 - the engine comes with the accountant, not with its first question
from neartwin.accounting.conversions import as_gdp, as_zcdp
from neartwin.accounting.renyi import DEFAULT_ORDERS, RdpCurve, RdpEpsilon, grid_of
from neartwin.accounting.theorems import mixed
from neartwin.accounting.usage import AnyUsage, Cost, cost
from neartwin.balls import bounds
from neartwin.checks import open_probability
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Interval, Number, rational
from neartwin.losses import Approx, Composition, Gaussian, Leak, ZeroConcentrated, compose
from neartwin.losses.composition import PrivacyLoss

INTEGER_ORDERS = tuple(float(order) for order in range(2, 65))


def numerical_accountant(usage: AnyUsage, *, neighbours: str = "add_remove") -> Cost:
    """The certified engine: the exact losses of the stated mechanisms, as `cost` gives them.

    Args:
        usage: The mechanisms and how they meet people.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The cost.
    """
    return cost(usage, neighbours=neighbours)


def basic_accountant(usage: AnyUsage, *, neighbours: str = "add_remove") -> Cost:
    """Sums of epsilon and of delta. Dwork, Roth 2014, theorem 3.16.

    Args:
        usage: The mechanisms and how they meet people.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The cost.

    Raises:
        PrivacyError: A mechanism has no pure or (epsilon, delta) guarantee of its own, such as the Gaussian.

    >>> from neartwin.accounting.usage import repeated
    >>> from neartwin.losses import Laplace
    >>> round(basic_accountant(repeated(Laplace(epsilon="0.1"), 100)).pure().upper, 9)
    10.0
    """

    def summed(case: Composition) -> Composition:
        parts = [(*_guarantee(factor), count) for factor, count in case.uses.items()]
        return _approx(sum(e * n for e, _, n in parts), sum(d * n for _, d, n in parts))

    return _by(summed, usage, neighbours, "basic composition, Dwork-Roth Theorem 3.16")


def advanced_accountant(usage: AnyUsage, *, slack: Number, neighbours: str = "add_remove") -> Cost:
    """(sum e tanh(e/2) + sqrt(2 ln(1/slack) sum e^2), sum delta + slack), or basic composition if that is smaller.

    Args:
        usage: The mechanisms and how they meet people.
        slack: The delta spent on the deviation, in (0, 1).
        neighbours: "add_remove" or "replace_one".

    Returns:
        The cost.

    Source:
        Dwork, Roth 2014, theorem 3.20, with the tight mean.

    >>> from neartwin.accounting.usage import repeated
    >>> from neartwin.losses import Laplace
    >>> advanced_accountant(repeated(Laplace(epsilon="0.1"), 100), slack="1e-6").epsilon("1.001e-6").upper
    5.7561...
    """
    spare = open_probability(slack=rational(slack=slack))

    def bounded(case: Composition) -> Composition:
        parts = [(*_guarantee(factor), count) for factor, count in case.uses.items()]
        plain, failures = sum(e * n for e, _, n in parts), sum(d * n for _, d, n in parts)
        counts: Counter[Fraction] = Counter()
        for e, _, n in parts:
            counts[e] += n
        advanced = bounds(mixed, counts, spare)[1]
        return _approx(Fraction(advanced), failures + spare) if advanced < plain else _approx(plain, failures)

    return _by(bounded, usage, neighbours, "advanced composition, tight KL")


def optimal_accountant(usage: AnyUsage, *, neighbours: str = "add_remove") -> Cost:
    """The best that follows from each mechanism's (epsilon, delta) alone. Kairouz, Oh, Viswanath 2015, theorem 3.3.

    Args:
        usage: The mechanisms and how they meet people.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The cost.

    >>> from neartwin.accounting.usage import repeated
    >>> six = optimal_accountant(repeated(Approx(epsilon="0.1", delta="1e-8"), 200))
    >>> 6.571974667452005 in six.epsilon("1e-5")
    True
    """

    def worst(case: Composition) -> Composition:
        guarantees = {factor: _guarantee(factor) for factor in case.uses}
        return compose([Approx(epsilon=guarantees[f][0], delta=guarantees[f][1]) * n for f, n in case.uses.items()])

    return _by(worst, usage, neighbours, "optimal composition, Kairouz-Oh-Viswanath Theorem 3.3")


def rdp_accountant(
    usage: AnyUsage, *, orders: Sequence[float] = DEFAULT_ORDERS, neighbours: str = "add_remove"
) -> RdpCurve:
    """The Renyi curve of the composition on a grid of orders, those at which it is finite. Mironov 2017.

    `rdp_epsilon` converts it and warns at the grid's edge; the curve's own methods do not.

    Args:
        usage: The mechanisms and how they meet people.
        orders: The grid, increasing.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The curve.
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


def rdp_epsilon(curve: RdpCurve, delta: Number) -> RdpEpsilon:
    """The least epsilon over the grid of orders, by the better conversion. A `UserWarning` says that the best order is the
    grid's edge.

    Args:
        curve: The Renyi curve on its grid of orders.
        delta: The delta, in (0, 1).

    Returns:
        The epsilon and its order.

    >>> from neartwin.accounting.usage import repeated
    >>> found = rdp_epsilon(rdp_accountant(repeated(Gaussian(mu="0.05"), 1000)), "1e-6")
    >>> bool(8.306225 < found.epsilon.upper < 8.9)
    True
    """
    return _warned(curve.epsilon(rational(delta=delta)))


def moments_accountant(usage: AnyUsage, delta: Number, *, neighbours: str = "add_remove") -> RdpEpsilon:
    """The moments accountant of Abadi et al. 2016: log moments at whole orders, and the first conversion.

    Args:
        usage: The mechanisms and how they meet people.
        delta: In (0, 1).
        neighbours: "add_remove" or "replace_one".

    Returns:
        The epsilon, with its order.
    """
    curve = rdp_accountant(usage, orders=INTEGER_ORDERS, neighbours=neighbours)
    return _warned(curve.epsilon_mironov(rational(delta=delta)))


def zcdp_accountant(usage: AnyUsage, *, neighbours: str = "add_remove") -> Cost:
    """The least rho of the composition, and the consequences of rho-zCDP alone. Bun, Steinke 2016; Canonne, Kamath,
    Steinke 2020.

    Args:
        usage: The mechanisms and how they meet people.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The cost.

    >>> from neartwin.accounting.usage import repeated
    >>> zcdp_accountant(repeated(Gaussian(mu="0.05"), 1000)).epsilon("1e-6").upper
    8.8...
    """
    cost(usage, neighbours=neighbours).require_symmetry()
    return _by(lambda case: Composition.of(ZeroConcentrated(rho=as_zcdp(case).rho)), usage, neighbours, "zCDP")


def gdp_accountant(usage: AnyUsage, *, delta: Number = 0, neighbours: str = "add_remove") -> Cost:
    """The least certified mu of the composition with `delta` set aside, and its consequences. Dong, Roth, Su 2022.

    It uses no central limit theorem: that is an estimate, and often below the truth.

    Args:
        usage: The mechanisms and how they meet people.
        delta: The failure probability that is set aside.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The cost.

    >>> from neartwin.accounting.usage import repeated
    >>> 8.306225049954728 in gdp_accountant(repeated(Gaussian(mu="0.05"), 1000)).epsilon("1e-6").outward(10**6)
    True
    """
    cost(usage, neighbours=neighbours).require_symmetry()

    def fitted(case: Composition) -> Composition:
        fit = as_gdp(case, delta=delta)
        alone = Composition.of(Gaussian(mu=fit.mu))
        return alone + Leak(delta=fit.delta) if fit.delta else alone

    return _by(fitted, usage, neighbours, "Gaussian differential privacy")


def _by(rule: Callable[[Composition], Composition], usage: AnyUsage, neighbours: str, theorem: str) -> Cost:
    total = cost(usage, neighbours=neighbours)
    return Cost(tuple(rule(case) for case in total.cases), neighbours, theorem)


def _guarantee(factor: PrivacyLoss) -> tuple[Fraction, Fraction]:
    """The (epsilon, delta) a mechanism has by itself, rounded up."""
    match factor:
        case Approx(epsilon=epsilon, delta=delta):
            return epsilon, delta
        case Leak(delta=delta):
            return Fraction(0), delta
        case _:
            stated = factor.stated_pure()
            if stated is not None:
                return stated, Fraction(0)
            largest = Composition.of(factor).pure().upper
            if not np.isfinite(largest):
                raise PrivacyError(
                    f"{factor!r} has no pure guarantee: state one as Approx(epsilon, delta), or take another accountant"
                )
            return Fraction(largest), Fraction(0)


def _approx(epsilon: Fraction | int, delta: Fraction | int) -> Composition:
    if delta >= 1:
        raise ParameterError("delta", float(delta), "adds up to 1 or more, which promises nothing")
    return Composition.of(Approx(epsilon=epsilon, delta=delta))


def _warned(epsilon: RdpEpsilon) -> RdpEpsilon:
    if epsilon.at_edge:
        warnings.warn(
            f"the best order, {epsilon.order:g}, is the edge of the grid: epsilon is valid, a wider grid probably gives less",
            stacklevel=3,
        )
    return epsilon
