"""Bad input is refused by name at the door; its good neighbour is taken."""

import math
from fractions import Fraction

import numpy as np
import pytest

from neartwin.errors import ParameterError
from neartwin.losses import (
    Approx,
    BoundedRange,
    DiscreteGaussian,
    FinitePair,
    Gaussian,
    Geometric,
    Laplace,
    Leak,
    Pure,
    RandomizedResponse,
    Renyi,
    SubsampledFinite,
    SubsampledGaussian,
    SubsampledLaplace,
    ZeroConcentrated,
    compose,
)

COIN = FinitePair(p=("3/4", "1/4"), q=("1/4", "3/4"))
REFUSED = {
    "negative noise": (lambda: Gaussian(mu=-1), lambda: Gaussian(mu=1)),
    "nan": (lambda: Laplace(epsilon=math.nan), lambda: Laplace(epsilon=0.5)),
    "infinite": (lambda: Pure(epsilon=math.inf), lambda: Pure(epsilon=50)),
    "a boolean": (lambda: Pure(epsilon=True), lambda: Pure(epsilon=1)),
    "words": (lambda: Gaussian(mu="one"), lambda: Gaussian(mu="1/3")),
    "one answer": (lambda: RandomizedResponse(epsilon=1, answers=1), lambda: RandomizedResponse(epsilon=1, answers=2)),
    "half a unit": (lambda: Geometric(epsilon=1, sensitivity=0.5), lambda: Geometric(epsilon=1, sensitivity=1)),
    "no variance": (lambda: DiscreteGaussian(sigma2=0), lambda: DiscreteGaussian(sigma2="0.001")),
    "delta of 1": (lambda: Approx(epsilon=1, delta=1), lambda: Approx(epsilon=1, delta=0)),
    "leak of 0": (lambda: Leak(delta=0), lambda: Leak(delta="1e-9")),
    "no float below": (lambda: Geometric(epsilon="1e-5000"), lambda: Geometric(epsilon="1e-90")),
    "no float above": (lambda: Laplace(epsilon=10**400), lambda: Laplace(epsilon=10**90)),
    "no square above": (lambda: SubsampledGaussian(mu=1e300, rate=0.5), lambda: SubsampledGaussian(mu=1e90, rate=0.5)),
    "no exponential": (
        lambda: SubsampledLaplace(epsilon=10**18, rate=0.5),
        lambda: SubsampledLaplace(epsilon=700, rate=0.5),
    ),
    "answers beyond floats": (
        lambda: RandomizedResponse(epsilon=1, answers=10**400),
        lambda: RandomizedResponse(epsilon=1, answers=10**18),
    ),
    "a promise beyond floats": (lambda: Approx(epsilon=10**400, delta=0), lambda: Approx(epsilon=0, delta="1e-9")),
    "rate next to 1": (
        lambda: SubsampledGaussian(mu=1, rate="0.99999999999999999999"),
        lambda: SubsampledGaussian(mu=1, rate="0.999999999999999"),
    ),
    "rate next to 0": (
        lambda: SubsampledGaussian(mu=1, rate="1e-5000"),
        lambda: SubsampledGaussian(mu=1, rate="1e-20"),
    ),
    "rate above 1": (lambda: SubsampledGaussian(mu=1, rate=1.01), lambda: SubsampledGaussian(mu=1, rate=1)),
    "rate of 0": (lambda: SubsampledLaplace(epsilon=1, rate=0), lambda: SubsampledLaplace(epsilon=1, rate="1e-9")),
    "sampled whole": (lambda: SubsampledFinite(base=COIN, rate=1), lambda: SubsampledFinite(base=COIN, rate=0.99)),
    "masses": (lambda: FinitePair(p=(0.5, 0.4), q=(0.5, 0.5)), lambda: FinitePair(p=(0.5, 0.5), q=(0.5, 0.5))),
    "lengths": (lambda: FinitePair(p=(1,), q=(0.5, 0.5)), lambda: FinitePair(p=(1, 0), q=(0.5, 0.5))),
    "rho of 0": (lambda: ZeroConcentrated(rho=0), lambda: ZeroConcentrated(rho="0.01")),
    "order 1": (lambda: Renyi(curve=((1, 1),)), lambda: Renyi(curve=((1.1, 1),))),
    "range of 0": (lambda: BoundedRange(epsilon=0), lambda: BoundedRange(epsilon=1)),
    "no factors": (lambda: compose([]), lambda: compose([COIN])),
    "no uses": (lambda: 0 * COIN, lambda: 1 * COIN),
    "half a use": (lambda: COIN * 0.5, lambda: COIN * 2),
    "huge n": (lambda: 10**13 * COIN, lambda: 10**12 * COIN),
    "delta of 0 asked": (lambda: (1 * COIN).epsilon(0), lambda: (1 * COIN).epsilon(1e-300)),
    "delta of 1 asked": (lambda: (1 * COIN).epsilon(1), lambda: (1 * COIN).epsilon(0.999)),
    "delta is nan": (lambda: (1 * COIN).epsilon(math.nan), lambda: (1 * COIN).epsilon("1/3")),
    "eps is nan": (lambda: (1 * COIN).delta(math.nan), lambda: (1 * COIN).delta(-3.0)),
    "eps infinite": (
        lambda: (1 * COIN).delta(np.array([1.0, math.inf])),
        lambda: (1 * COIN).delta(np.array([1.0, 2.0])),
    ),
    "eps beyond floats": (lambda: (1 * COIN).delta(10**400), lambda: (1 * COIN).delta(10**300)),
    "eps beyond what Python writes": (lambda: (1 * COIN).delta(10**5000), lambda: (1 * COIN).delta(10**3)),
    "minus eps beyond floats": (lambda: (1 * COIN).delta([0, -(10**400)]), lambda: (1 * COIN).delta([0, -(10**300)])),
    "eps of a fraction beyond floats": (
        lambda: (1 * COIN).delta(Fraction(10**400)),
        lambda: (1 * COIN).delta(Fraction(10**300)),
    ),
    "alpha above 1": (lambda: (1 * COIN).tradeoff(1.5), lambda: (1 * COIN).tradeoff(1.0)),
    "order asked": (lambda: (1 * COIN).renyi(0.99), lambda: (1 * COIN).renyi(1)),
    "direction": (lambda: (1 * COIN).epsilon(0.1, direction="both"), lambda: (1 * COIN).epsilon(0.1, direction="add")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_the_bad_and_takes_its_neighbour(case):
    bad, good = REFUSED[case]
    with pytest.raises(ParameterError):
        bad()
    assert good() is not None


def test_numpy_integers_are_read_as_exact_ones():
    """An int64 inside a fraction would wrap."""
    factor = Gaussian(mu=np.int64(3))
    assert type(factor.mu.numerator) is int
    assert factor.mu * 10**30 == 3 * 10**30
