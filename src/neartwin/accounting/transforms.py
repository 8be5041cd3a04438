"""One use of a mechanism on a random sample, or seen by a group: factor in, factor out, with a theorem or a refusal.

sampled: Poisson sampling under add/remove, each unit taken with probability q. Zhu, Dong, Wang 2022, theorem 11; pure and
(eps, delta) by Balle, Barthe, Gaboardi 2018, theorem 8. grouped: k units instead of one. A mechanism with noise whose answer
one unit moves by d is moved by at most k d; the rest by Vadhan 2017, lemma 2.2, and Bun, Steinke 2016, proposition 1.9.
"""

from fractions import Fraction
from functools import singledispatch

from neartwin.accounting.basic import group_approximate
from neartwin.accounting.sampling import amplified_pure
from neartwin.errors import PrivacyError
from neartwin.losses import (
    Approx,
    BoundedRange,
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
)
from neartwin.losses.loss import Factor


@singledispatch
def sampled(factor: Factor, rate: Fraction) -> Factor:
    """The factor on a Poisson sample of this rate, 0 < rate < 1; `PrivacyError` where no theorem covers it.

    >>> sampled(Gaussian(mu=1), Fraction(1, 100))
    SubsampledGaussian(mu=Fraction(1, 1), rate=Fraction(1, 100))
    """
    del rate
    raise PrivacyError(
        f"no theorem here amplifies {type(factor).__name__} by sampling; state its pure or (epsilon, delta) guarantee instead"
    )


@sampled.register
def _(factor: Gaussian, rate: Fraction) -> Factor:
    return SubsampledGaussian(mu=factor.mu, rate=rate)


@sampled.register
def _(factor: SubsampledGaussian, rate: Fraction) -> Factor:
    return SubsampledGaussian(mu=factor.mu, rate=factor.rate * rate)


@sampled.register
def _(factor: Laplace, rate: Fraction) -> Factor:
    return SubsampledLaplace(epsilon=factor.rate, rate=rate)


@sampled.register
def _(factor: SubsampledLaplace, rate: Fraction) -> Factor:
    return SubsampledLaplace(epsilon=factor.epsilon, rate=factor.rate * rate)


@sampled.register(FinitePair)
@sampled.register(PiecewiseLinear)
def _(factor: FinitePair | PiecewiseLinear, rate: Fraction) -> Factor:
    return SubsampledFinite(base=factor, rate=rate)


@sampled.register
def _(factor: SubsampledFinite, rate: Fraction) -> Factor:
    return SubsampledFinite(base=factor.base, rate=factor.rate * rate)


@sampled.register(Pure)
@sampled.register(RandomizedResponse)
@sampled.register(SilentResponse)
@sampled.register(Geometric)
@sampled.register(Staircase)
@sampled.register(BoundedRange)
def _(
    factor: Pure | RandomizedResponse | SilentResponse | Geometric | Staircase | BoundedRange, rate: Fraction
) -> Factor:
    return Pure(epsilon=_amplified(factor.epsilon, rate))


@sampled.register
def _(factor: Approx, rate: Fraction) -> Factor:
    return Approx(epsilon=_amplified(factor.epsilon, rate), delta=factor.delta * rate)


@sampled.register
def _(factor: Leak, rate: Fraction) -> Factor:
    return Leak(delta=factor.delta * rate)


def _amplified(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Rounded up; never above the epsilon without sampling."""
    return min(Fraction(float(amplified_pure(epsilon=epsilon, rate=rate).upper)), epsilon)


@singledispatch
def grouped(factor: Factor, size: int) -> Factor:
    """The factor against a group of `size` units, at least 2; `PrivacyError` where no theorem covers it.

    >>> grouped(Laplace(epsilon="0.1"), 3)
    Laplace(rate=Fraction(3, 10))
    """
    del size
    raise PrivacyError(
        f"no theorem here gives {type(factor).__name__} a group's privacy; state its pure or (epsilon, delta) guarantee instead"
    )


@grouped.register
def _(factor: Gaussian, size: int) -> Factor:
    return Gaussian(mu=size * factor.mu)


@grouped.register
def _(factor: Laplace, size: int) -> Factor:
    return Laplace(epsilon=size * factor.rate)


@grouped.register
def _(factor: Geometric, size: int) -> Factor:
    return Geometric(epsilon=size * factor.epsilon, sensitivity=size * factor.sensitivity)


@grouped.register
def _(factor: DiscreteGaussian, size: int) -> Factor:
    return DiscreteGaussian(sigma2=factor.sigma2, sensitivity=size * factor.sensitivity)


@grouped.register(Pure)
@grouped.register(RandomizedResponse)
@grouped.register(SilentResponse)
@grouped.register(Staircase)
@grouped.register(BoundedRange)
def _(factor: Pure | RandomizedResponse | SilentResponse | Staircase | BoundedRange, size: int) -> Factor:
    return Pure(epsilon=size * factor.epsilon)


@grouped.register(Approx)
@grouped.register(Leak)
def _(factor: Approx | Leak, size: int) -> Factor:
    epsilon = factor.epsilon if isinstance(factor, Approx) else Fraction(0)
    bound = group_approximate(epsilon=epsilon, delta=factor.delta, size=size)
    delta = Fraction(float(bound.delta.upper))
    if delta >= 1:
        raise PrivacyError(f"{factor!r} promises a group of {size} nothing: its delta grows to {float(delta):.3g}")
    return Approx(epsilon=size * epsilon, delta=delta)


@grouped.register
def _(factor: ZeroConcentrated, size: int) -> Factor:
    return ZeroConcentrated(rho=size**2 * factor.rho)


@grouped.register
def _(factor: Renyi, size: int) -> Factor:
    del factor
    raise PrivacyError(
        f"Renyi privacy at listed orders gives a group of {size} no curve here; use `group_rdp` on an RdpCurve"
    )
