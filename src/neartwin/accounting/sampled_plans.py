"""A plan asked about a secret Poisson sample: what it may spend there, so that all of it costs a wanted price.

Theorem. Let M be everything that a plan releases, as one mechanism on tables, and S the units that are kept, each with
probability q and independently, where nobody learns S. For a table D with a unit x and D' without it, write A_s = M(s with x),
B_s = M(s) for a sample s of D'. Then M on a sample of D has the law E_s[(1 - q) B_s + q A_s], and on one of D' the law
E_s[B_s]: the others are kept alike. Hockey sticks are jointly convex, so for every alpha

    H_alpha(E[(1-q) B + q A] || E[B]) <= sup_s H_alpha((1-q) B_s + q A_s || B_s) = q H_{1 + (alpha-1)/q}(A_s || B_s),
    H_alpha(E[B] || E[(1-q) B + q A]) <= sup_s H_alpha(B_s || (1-q) B_s + q A_s) = c H_{q alpha / c}(B_s || A_s)

with c = 1 - (1-q) alpha; the first for alpha >= 1 - q (below, it is 1 - alpha for any two laws), the second 0 where c <= 0. So
if (P, Q) dominates M under add/remove in both orders, ((1-q) Q + q P, Q) and (P, (1-q) P + q Q) dominate the sampled M (Balle,
Barthe, Gaboardi 2018, theorem 8; Zhu, Dong, Wang 2022, theorem 11). M is the whole plan: noise of all statistics and the
discovery of groups, on one sample. Amplifying each statistic by itself and adding up would be wrong, for they share the sample.
It follows for what M is promised on every table, sampled or not:

  epsilon                 ln(1 + q (e^epsilon - 1))
  epsilon, delta          ln(1 + q (e^epsilon - 1)), q delta: in the second order c <= q and q alpha / c >= e^epsilon there
  G_m (x) f_{0,d}         a failure of probability d, the same on both tables, or else one sampled Gaussian of m; for that the
                          certified engine finds the least mu with T >= G_mu (x) f_{0,d'} in both orders, beside a pool d'
                          (needed, for far out its tail is that of G_m), and the pools are d + d' - d d' together;
                          at one Renyi order, the divergence of the sampled Gaussian, by a sum or a certified quadrature

and for zCDP nothing, since the Renyi divergence of a sampled Gaussian at order a grows towards a m^2 / 2, as without sampling.
Under replace-one none of this is used: it is refused.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from neartwin.accounting.sampling import amplified_pure, epsilon_before_sampling
from neartwin.accounting.targets import Approx, Gdp, Pure, Rdp, Target
from neartwin.errors import PrivacyError
from neartwin.exact import float_below

_STEP = Fraction(1, 2**40)
_MARGIN = Fraction(1, 10**6)


def on_sample(spend: Target, rate: Fraction, *, fails: bool) -> Target:
    """What a plan may spend on the sample for at most this price; under add/remove only. Rounded down.

    fails: whether the plan itself needs a part of the delta, to discover groups. Normal noise, and so a Gaussian promise on the
    sample, is what Gaussian and Renyi prices are made of.

    Errors: `PrivacyError` for what no theorem amplifies.

    >>> print(on_sample(Approx(Fraction(1), Fraction(1, 10**6)), Fraction(1, 10), fails=False))
    epsilon=2.90048, delta=1e-05
    """
    match spend:
        case Pure(epsilon=epsilon):
            return Pure(_epsilon(epsilon, rate))
        case Approx(epsilon=epsilon, delta=delta):
            return Approx(_epsilon(epsilon, rate), min(delta / rate, Fraction(1, 2)))
        case Gdp(mu=mu, delta=delta) if delta:
            part = delta / 2 if fails else Fraction(0)
            return Gdp(_mu(mu, rate, delta - part), part)
        case Gdp():
            raise PrivacyError(
                f"sampling earns nothing for {spend}: far out the tail of a sampled Gaussian is the Gaussian's own; spend a "
                "delta beside it, gdp(mu, delta)"
            )
        case Rdp(order=order, epsilon=epsilon, delta=delta):
            return Gdp(_mu_at_order(order, epsilon, rate), delta if fails else Fraction(0))
    raise PrivacyError(
        f"sampling earns nothing for {spend}: zCDP bounds all orders, and at large ones a sampled Gaussian tells as much as a "
        "whole one; spend pure(epsilon), approx(epsilon, delta), gdp(mu, delta) or rdp(order, epsilon)"
    )


def of_sampled(told: Target, spend: Target, rate: Fraction) -> Target:
    """The price of a plan that is told on the sample, planned with `on_sample` of this spend: at most the spend.

    A delta that nothing needs is not charged.

    >>> print(of_sampled(Pure(Fraction(2)), Approx(Fraction(1), Fraction(1, 10**6)), Fraction(1, 10)))
    epsilon=1
    """
    match told, spend:
        case Pure(), Pure(epsilon=epsilon) | Approx(epsilon=epsilon):
            return Pure(epsilon)
        case Approx(delta=delta), Approx(epsilon=epsilon):
            return Approx(epsilon, rate * delta)
        case Gdp(), Gdp():
            return spend
        case Gdp(delta=failure), Rdp(order=order, epsilon=epsilon):
            return Rdp(order, epsilon, failure)
    raise PrivacyError(f"a plan that costs {told} on a sample has no price in the currency of {spend}")


def _epsilon(epsilon: Fraction, rate: Fraction) -> Fraction:
    """The most with ln(1 + q (e^epsilon - 1)) certainly at most the given one."""
    found = Fraction(float(epsilon_before_sampling(epsilon=epsilon, rate=rate).lower))
    while found > 0 and Fraction(float(amplified_pure(epsilon=found, rate=rate).upper)) > epsilon:
        found *= 1 - _STEP
    return found


@lru_cache(maxsize=64)
def _mu(mu: Fraction, rate: Fraction, pool: Fraction) -> Fraction:
    """About the most m for which a sampled Gaussian of m has T >= G_mu (x) f_{0,pool}, certified."""
    from neartwin.losses import SubsampledGaussian, compose

    def price(m: Fraction) -> float:
        return float(compose([SubsampledGaussian(mu=m, rate=rate)]).gdp(pool).upper)

    return _largest(mu, price, float_below(mu))


@lru_cache(maxsize=64)
def _mu_at_order(order: Fraction, epsilon: Fraction, rate: Fraction) -> Fraction:
    """About the most m for which the Renyi divergence of a sampled Gaussian of m at an order is at most this, certified."""
    from neartwin.divergences.subsampled_gaussian import subsampled_gaussian_renyi

    def price(m: Fraction) -> float:
        # increasing in the order: a float above it bounds it
        above = math.nextafter(float(order), math.inf) if Fraction(float(order)) < order else float(order)
        return float(subsampled_gaussian_renyi(rate=rate, noise_multiplier=1 / m, order=above).upper)

    first = Fraction(math.sqrt(2 * float(epsilon / order)))  # without sampling: a m^2 / 2
    return _largest(first, price, float_below(epsilon))


def _largest(start: Fraction, price: Callable[[Fraction], float], limit: float) -> Fraction:
    """A value within a few millionths of the largest whose price is at most the limit; every step of the search may be wrong.

    start: about where the search begins, from below. What is returned was priced itself.
    """
    low = _short(start)
    while price(low) > limit:
        low *= 1 - _MARGIN
    high = 2 * low
    while price(high) <= limit:
        low, high = high, 2 * high
    goal = math.log(limit)

    def above(log_m: float) -> float:
        return min(math.log(price(_short(Fraction(math.exp(log_m))))), 1e3) - goal

    found = low
    if above(math.log(low)) < 0:
        from scipy.optimize import brentq  # slow to import, and seldom needed

        found = _short(Fraction(math.exp(brentq(above, math.log(low), math.log(high), xtol=1e-6, rtol=1e-6))))
    while price(found) > limit:
        found *= 1 - _MARGIN
    return max(found, low)


def _short(value: Fraction) -> Fraction:
    """Rounded down to 40 significant bits."""
    shift = 40 - math.floor(math.log2(value))
    return Fraction(math.floor(value * Fraction(2) ** shift)) / Fraction(2) ** shift
