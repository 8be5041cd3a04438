"""Gaussian differential privacy, converted: delta(epsilon), epsilon(delta), mu and the noise that a target needs.

A mechanism is mu-GDP when telling its answers on neighbours apart is at least as hard as telling N(0, 1) from
N(mu, 1). It is then (epsilon, delta(epsilon))-DP for every real epsilon, and conversely (Dong, Roth, Su 2022,
Corollary 2.13). With a = epsilon/mu - mu/2 and b = epsilon/mu + mu/2,

    delta = Phi(-a) - e^epsilon Phi(-b),    d delta/d epsilon = -e^epsilon Phi(-b),    d delta/d mu = phi(a).

Every answer is an `Interval` that holds the exact value of the arguments as written: decimals are read exactly. Inverses
are roots whose signs on both sides are proved (`balls.root`), at the place where Newton's method in floats ends.
Arrays are broadcast together.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from statistics import NormalDist
from typing import Any

from flint import arb

from neartwin import domains
from neartwin.balls import Exact, ball, bounds, each, elementwise, normal_quantile, root
from neartwin.divergences.closed_forms import epsilon_root, gaussian_profile, normal_tail
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval
from neartwin.tradeoff.functions import Argument, certified, closed_form, finite, levels

_SIGNS = "signs of delta"
_WIDTH = 1e-13  # relative half width at which a root found in floats is proved as it is
_ROUNDS = 60
_APART = replace(domains.POSITIVE, remedy="two equal laws have delta=0, and no logarithm")
_NOISY = replace(domains.POSITIVE, remedy="no finite noise gives mu=0")
_NORMAL = NormalDist()


def delta_of(mu: Argument, epsilon: Argument) -> Interval[FloatArray]:
    """The least delta with which a mu-GDP mechanism is (epsilon, delta)-DP; `upper` is the safe side.

    Args:
        mu: distance of the two unit normals, at least 0; broadcast with epsilon.
        epsilon: of any sign.

    Returns:
        Delta in [0, 1], of the broadcast shape, to the last place of a float.

    Raises:
        ParameterError: if mu is negative or an argument is not finite.

    Source: Dong, Roth, Su 2022, Corollary 2.13; Balle, Wang 2018.

    >>> d = delta_of(mu=1, epsilon=1)
    >>> bool(d.lower <= 0.12693673750664395 <= d.upper)
    True
    """
    return closed_form(lambda m, e: gaussian_profile(e, m), domains.FINITE_NOT_NEGATIVE(mu=mu), finite(epsilon=epsilon))


def _near(z: Exact) -> float:
    """Phi^-1 of a probability, near enough to start from."""
    level = float(z)
    if 1e-300 < level < 1 - 1e-12:
        return _NORMAL.inv_cdf(level)
    return bounds(lambda: normal_quantile(ball(z)))[0]


def epsilon_of(mu: Argument, delta: Argument) -> Interval[FloatArray]:
    """The least epsilon with which a mu-GDP mechanism is (epsilon, delta)-DP; `upper` is the safe side.

    Args:
        mu: distance of the two unit normals, at least 0; broadcast with delta.
        delta: in [0, 1].

    Returns:
        Epsilon of the broadcast shape, of any sign: below 0 where delta exceeds delta(0), never clamped. It is -inf where
        delta = 1, and inf where delta = 0 < mu.

    Raises:
        ParameterError: if mu is negative or delta lies outside [0, 1].

    Source: as `delta_of`.

    >>> e = epsilon_of(mu=1, delta="1e-5")
    >>> bool(e.lower <= 4.3771780956812246 <= e.upper), bool(e.width < 1e-11)
    (True, True)
    """
    return each(
        partial(epsilon_root, rtol=_WIDTH), domains.FINITE_NOT_NEGATIVE(mu=mu), levels(delta=delta), method=_SIGNS
    )


def mu_between(epsilon: Callable[[], arb], delta: Callable[[], arb], rest: Callable[[], arb]) -> tuple[float, float]:
    """Floats around the mu at which delta(epsilon) is the given one.

    Args:
        epsilon: The epsilon, at least 0, as a formula without arguments.
        delta: The delta, in (0, 1), as a formula without arguments.
        rest: 1 - delta, as a formula without arguments.

    Returns:
        A lower and an upper bound.
    """
    size, level, other = (max(bounds(part)[0], 5e-324) for part in (epsilon, delta, rest))
    small = level < 0.5
    z = -_near(level)
    # delta(epsilon) is at most Phi(-a), and at most delta(0) = 2 Phi(mu/2) - 1
    reach = math.sqrt(z * z + 2 * size)
    start = max(2 * size / (z + reach) if z > 0 else reach - z, -2 * _near((1 - level) / 2), 1e-300)
    high = 2 * math.sqrt(max(-2 * math.log(other), 0.0)) + 2 * math.sqrt(2 * size) + 2  # 1 - delta <= rest beyond

    mu = min(start, high)
    for _ in range(_ROUNDS):  # Newton's method, as far as floats go
        try:
            a, b = size / mu - mu / 2, size / mu + mu / 2
            far, slope = math.exp(size) * normal_tail(b), math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
            value = normal_tail(a) - far if small else normal_tail(-a) + far
            moved = value / slope * math.log(value / (level if small else other))
        except (ValueError, ZeroDivisionError, OverflowError):
            break
        mu += -moved if small else moved
        if abs(moved) <= 1e-14 * abs(mu):
            break
    return root(lambda m: delta() - gaussian_profile(epsilon(), m), 0.0, high, mu, rtol=_WIDTH)


def _mu_at(epsilon: Exact, delta: Exact) -> tuple[float, float]:
    rest = 1 - Fraction(delta)
    if epsilon >= 0:
        return mu_between(lambda: ball(epsilon), lambda: ball(delta), lambda: ball(rest))
    # 1 - delta(epsilon) = e^epsilon (1 - delta(-epsilon))
    size = -Fraction(epsilon)

    def other() -> arb:
        return ball(rest) * ball(size).exp()

    if bounds(other)[1] >= 1 - 1e-12 * float(delta):
        raise ParameterError("delta", float(delta), "must exceed 1 - exp(epsilon): below it even equal laws fail")
    return mu_between(lambda: ball(size), lambda: 1 - other(), other)


def mu_of(epsilon: Argument, delta: Argument) -> Interval[FloatArray]:
    """The largest mu whose mechanisms are all (epsilon, delta)-DP; `lower` is the safe side.

    Args:
        epsilon: of any sign; broadcast with delta.
        delta: strictly between 0 and 1.

    Returns:
        Mu, positive, of the broadcast shape.

    Raises:
        ParameterError: if delta is not strictly between 0 and 1, or below 1 - e^epsilon, where even equal laws fail.

    Source: as `delta_of`.

    >>> m = mu_of(epsilon=1, delta="1e-5")
    >>> bool(m.lower <= 0.26805112321129422 <= m.upper)
    True
    """
    return each(_mu_at, finite(epsilon=epsilon), domains.OPEN_SHARE(delta=delta), method=_SIGNS)


def sigma_of(epsilon: Argument, delta: Argument, sensitivity: Argument = 1) -> Interval[FloatArray]:
    """The least standard deviation of Gaussian noise that is (epsilon, delta)-DP; `upper` is the safe side.

    Args:
        epsilon: of any sign; broadcast with delta and sensitivity.
        delta: strictly between 0 and 1.
        sensitivity: the most that one unit moves the answer in the L2 norm, positive, in the answer's units.

    Returns:
        Sigma in the answer's units, of the broadcast shape.

    Raises:
        ParameterError: as `mu_of`, and if the sensitivity is not positive.

    Source: Balle, Wang 2018, the analytic Gaussian mechanism.

    >>> s = sigma_of(epsilon=1, delta="1e-5")
    >>> bool(s.lower <= 3.7306316348159418 <= s.upper)
    True
    """
    moved, mu = domains.POSITIVE(sensitivity=sensitivity), mu_of(epsilon, delta)
    least = _quotient(moved, finite(mu=mu.upper)).lower
    return certified(least, _quotient(moved, finite(mu=mu.lower)).upper, mu.method)


def sigma_of_mu(mu: Argument, sensitivity: Argument = 1) -> Interval[FloatArray]:
    """The standard deviation sensitivity/mu that makes the Gaussian mechanism exactly mu-GDP; `upper` is safe.

    Args:
        mu: positive; broadcast with sensitivity.
        sensitivity: in the L2 norm, positive, in the answer's units.

    Returns:
        Sigma in the answer's units, of the broadcast shape.

    Raises:
        ParameterError: if an argument is not positive.

    Source: Dong, Roth, Su 2022, Thm 2.7.
    """
    return _quotient(domains.POSITIVE(sensitivity=sensitivity), _NOISY(mu=mu))


def _quotient(moved: Any, mu: Any) -> Interval[FloatArray]:
    return elementwise(lambda d, m: Fraction(d) / Fraction(m), moved, mu, method="sensitivity / mu")


def mu_of_advantage(advantage: Argument) -> Interval[FloatArray]:
    """The mu whose attacker's advantage, TPR - FPR at best, is the given number: 2 Phi^-1((1 + advantage)/2).

    Args:
        advantage: in [0, 1).

    Returns:
        Mu, at least 0, of the same shape.

    Raises:
        ParameterError: if the advantage lies outside [0, 1).

    Source: Dong, Roth, Su 2022, section 2.

    >>> m = mu_of_advantage("0.68268949213708590")
    >>> bool(m.lower < 2.0000001 and m.upper > 1.9999999)
    True
    """
    level = domains.BELOW_ONE(advantage=advantage)
    return elementwise(_of_advantage, level, method="normal quantile", least=0.0)


def _of_advantage(advantage: Exact) -> arb:
    if advantage < 0.5:
        return ball(8).sqrt() * ball(advantage).erfinv()
    return -2 * normal_quantile(ball((1 - Fraction(advantage)) / 2))
