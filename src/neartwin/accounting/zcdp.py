"""Zero-concentrated DP: Renyi divergence of order a at most rho a, for every a > 1; and what it converts to and from.

Bun and Steinke 2016. Composition adds rho, also when chosen adaptively.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from neartwin.accounting.bound import read_all, read_epsilon
from neartwin.balls import Certified, Exact, Numeric, ball, bounds, each, elementwise, every, hull, read, root
from neartwin.checks import open_probability
from neartwin.divergences.gaussian import read_ratio
from neartwin.divergences.laplace import laplace_kl
from neartwin.divergences.theorems import tight_kl
from neartwin.errors import ParameterError
from neartwin.exact import Interval, Number, rational

if TYPE_CHECKING:
    from flint import arb

_NOTHING = 1e-290  # a rho below which the best order is beyond the floats
_FAR = 1e140


def compose_zcdp(rhos: Sequence[Number]) -> Fraction:
    """The sum of rho, exact. Bun and Steinke 2016, Lemma 1.7.

    >>> compose_zcdp(["0.1", "0.2"])
    Fraction(3, 10)
    """
    return sum(read_all(rhos, read_epsilon, "rhos"), Fraction(0))


def zcdp_to_epsilon(*, rho: Numeric, delta: Numeric) -> Certified:
    """The least of rho a + ln((a-1)/a) - (ln delta + ln a)/(a-1) over a > 1, or 0 if that is negative.

    delta in (0, 1). The minimum is at (a-1)^2 rho = ln(1 / (a delta)). Canonne, Kamath, Steinke 2020, Corollary 13.

    >>> zcdp_to_epsilon(rho="0.1", delta="1e-6").upper
    2.14193892...
    """
    method = "zCDP to DP, optimal order"
    return each(_least_epsilon, _non_negative(rho=rho), _delta(delta), method=method, least=0)


def _least_epsilon(rho: Exact, delta: Exact) -> tuple[float, float]:
    if rho == 0:
        return 0.0, 0.0
    if rho < _NOTHING:
        return 0.0, max(0.0, bounds(lambda u: _epsilon_at(ball(u), rho, delta), _FAR)[1])

    def slope(u: float) -> "arb":
        """With u = a - 1: ln(1/delta) - ln(1 + u) - rho u^2, which falls through 0 at the best order."""
        return -ball(delta).log() - ball(u).log1p() - ball(rho) * ball(u) ** 2

    top = bounds(lambda r, d: (-ball(d).log() / ball(r)).sqrt(), rho, delta)[1]
    low, high = root(slope, 0.0, top, _best(rho, delta, top))
    # any order gives an upper bound; over a ball that holds the best one the value is a lower bound too
    upper = bounds(lambda: _epsilon_at(ball(high), rho, delta))[1]
    return min(bounds(lambda: _epsilon_at(hull(low, high), rho, delta))[0], upper), upper


def _best(rho: Exact, delta: Exact, top: float) -> float | None:
    """Newton from above, in plain floats."""
    try:
        r, nats, u = float(rho), -math.log(delta), top
        for _ in range(60):
            step = (r * u * u + math.log1p(u) - nats) / (2 * r * u + 1 / (1 + u))
            u -= step
            if not 0 < u <= top or abs(step) <= 1e-15 * u:
                break
    except (ValueError, OverflowError):  # beyond the floats
        return None
    return u


def _epsilon_at(u: "arb", rho: Exact, delta: Exact) -> "arb":
    """The epsilon of order 1 + u."""
    return ball(rho) * (1 + u) - (1 / u).log1p() - (ball(delta).log() + u.log1p()) / u


def zcdp_to_epsilon_bun_steinke(*, rho: Numeric, delta: Numeric) -> Certified:
    """The value rho + 2 sqrt(rho ln(1/delta)), never better than `zcdp_to_epsilon`. Bun, Steinke 2016, Prop. 1.3.

    >>> zcdp_to_epsilon_bun_steinke(rho="0.1", delta="1e-6").upper
    2.45078800...
    """
    return elementwise(
        lambda r, d: ball(r) + 2 * (-ball(r) * ball(d).log()).sqrt(),
        _non_negative(rho=rho),
        _delta(delta),
        method="Bun-Steinke Proposition 1.3",
    )


def zcdp_for_epsilon(*, epsilon: Number, delta: Number) -> Certified:
    """The largest rho that `zcdp_to_epsilon` turns into this (epsilon, delta); the guarantee is the *lower* end.

    At that rho the best order a = 1 + u has both derivatives 0, so that rho u^2 = ln(1 / (a delta)) and
    epsilon = rho (1 + 2u) - ln(1 + 1/u); the first gives rho at u, and epsilon falls as u grows.
    """
    e, d = read_epsilon(epsilon=epsilon), open_probability(delta=rational(delta=delta))
    method = "zCDP to DP, inverse"
    if e == 0:
        return Interval(0.0, 0.0, method)

    def rho_at(u: "arb") -> "arb":
        return (-ball(d).log() - u.log1p()) / u**2

    def excess(u: float) -> "arb":
        point = ball(u)
        return rho_at(point) * (1 + 2 * point) - (1 / point).log1p() - ball(e)

    nats = bounds(lambda: -ball(d).log())
    low, high = root(
        excess, min(1e-9, bounds(lambda: -ball(d).log() / ball(10 * e + 10))[0]), math.expm1(min(nats[1], 700.0))
    )
    return Interval(max(0.0, bounds(lambda: rho_at(ball(high)))[0]), bounds(lambda: rho_at(ball(low)))[1], method)


def zcdp_of_pure(epsilon: Numeric) -> Certified:
    """The value epsilon tanh(epsilon/2): the least rho of all epsilon-DP mechanisms, attained by randomized response.

    Harrison and Manurangsi 2025; the first bound was epsilon^2 / 2.

    >>> zcdp_of_pure(1).upper
    0.46211715...
    """
    e = _non_negative(epsilon=epsilon)
    return elementwise(tight_kl, e, method="tight zCDP of pure differential privacy")


def zcdp_of_laplace(*, distance: Numeric, scale: Numeric = 1) -> Certified:
    """The value d + e^-d - 1, d = distance / scale: the least rho of the Laplace mechanism. Harrison, Manurangsi 2025.

    >>> zcdp_of_laplace(distance=1).upper
    0.36787944...
    """
    if not every(lambda d: d >= 0, read(distance=distance)):
        raise ParameterError("distance", distance, "must not be negative")
    d = read_ratio(distance=distance, scale=scale, name="scale")
    return elementwise(laplace_kl, d, method="tight zCDP of the Laplace mechanism", least=0)


def zcdp_of_gaussian(*, distance: Numeric, sigma: Numeric) -> Certified:
    """distance^2 / (2 sigma^2). Bun and Steinke 2016, Proposition 1.6."""
    mu = read_ratio(distance=distance, scale=sigma, name="sigma")
    return elementwise(lambda mu: mu**2 / 2, mu, method="zCDP of the Gaussian mechanism")


def zcdp_to_rdp(*, rho: Numeric, order: Numeric) -> Certified:
    """The value rho times the order."""
    a = read(order=order)
    if not every(lambda x: x > 1, a):
        raise ParameterError("order", order, "must be above 1")
    return elementwise(lambda r, x: ball(r) * ball(x), _non_negative(rho=rho), a, method="zCDP to RDP")


def _non_negative(**named: Numeric) -> Any:
    ((name, value),) = named.items()
    exact = read(**{name: value})
    if not every(lambda x: 0 <= x < math.inf, exact):
        raise ParameterError(name, value, "must be finite and not negative")
    return exact


def _delta(delta: Numeric) -> Any:
    exact = read(delta=delta)
    if not every(lambda d: 0 < d < 1, exact):
        raise ParameterError("delta", delta, "must lie strictly between 0 and 1")
    return exact
