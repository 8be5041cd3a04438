"""Random accounting jobs: every factor, 1 to 10^6 uses of up to three kinds, every direction."""

import math
from fractions import Fraction

from neartwin.losses import (
    Approx,
    BoundedRange,
    DiscreteGaussian,
    FinitePair,
    Gaussian,
    Geometric,
    Laplace,
    Pure,
    RandomizedResponse,
    SilentResponse,
    Staircase,
    SubsampledFinite,
    SubsampledGaussian,
    SubsampledLaplace,
)

COIN = FinitePair(p=("3/4", "1/4"), q=("1/4", "3/4"))


def between(rng, low, high):
    """A short decimal, uniform in its logarithm."""
    return Fraction(f"{10 ** rng.uniform(math.log10(low), math.log10(high)):.4g}")


def pair(rng):
    size = int(rng.integers(2, 5))
    p, q = rng.integers(1, 20, size), rng.integers(1, 20, size)
    masses = [[Fraction(int(x), int(law.sum())) for x in law] for law in (p, q)]
    return FinitePair(p=masses[0], q=masses[1])


def line(rng):
    a = Fraction(int(rng.integers(5, 30)), 100)
    return FinitePair(p=(1 - a, a), q=(a, 1 - a))


def stairs(rng):
    sensitivity = int(rng.integers(2, 40))
    return Staircase(
        epsilon=between(rng, 0.003, 3), sensitivity=sensitivity, step=int(rng.integers(1, sensitivity + 1))
    )


FACTORS = {
    "gaussian": lambda rng: Gaussian(mu=between(rng, 0.003, 3)),
    "laplace": lambda rng: Laplace(epsilon=between(rng, 0.003, 3)),
    "geometric": lambda rng: Geometric(epsilon=between(rng, 0.003, 3), sensitivity=int(rng.integers(1, 20))),
    "discrete gaussian": lambda rng: DiscreteGaussian(sigma2=between(rng, 0.3, 1e5)),
    "response": lambda rng: RandomizedResponse(epsilon=between(rng, 0.003, 3), answers=int(rng.integers(2, 6))),
    "pure": lambda rng: Pure(epsilon=between(rng, 0.003, 2)),
    "approx": lambda rng: Approx(epsilon=between(rng, 0.003, 2), delta=between(rng, 1e-40, 1e-8)),
    "finite": pair,
    "piecewise": line,
    "subsampled gaussian": lambda rng: SubsampledGaussian(mu=between(rng, 0.1, 2), rate=between(rng, 1e-4, 0.5)),
    "subsampled laplace": lambda rng: SubsampledLaplace(epsilon=between(rng, 0.05, 3), rate=between(rng, 1e-3, 0.5)),
    "subsampled finite": lambda rng: SubsampledFinite(base=COIN, rate=between(rng, 1e-3, 0.5)),
    "silent response": lambda rng: SilentResponse(epsilon=between(rng, 0.003, 3)),
    "staircase": stairs,
    "bounded range": lambda rng: BoundedRange(epsilon=between(rng, 0.01, 1)),
}
EXACT = tuple(
    name for name in FACTORS if name != "bounded range"
)  # a class of mechanisms: its interval is wider, and takes seconds


def ranged(rng):
    """Uses of bounded range, half of the time beside another mechanism, and delta; its e and count, where it is alone."""
    e, count = between(rng, 0.01, 1), int(10 ** rng.uniform(0, 2.5))
    uses = {BoundedRange(epsilon=e): count}
    delta = Fraction(f"{10 ** rng.uniform(-20, -1):.6g}")
    if rng.random() < 0.5:
        return uses, delta, (e, count)
    name = ("gaussian", "laplace", "response", "pure", "geometric", "finite")[rng.integers(6)]
    uses[FACTORS[name](rng)] = int(10 ** rng.uniform(0, 2.5))
    return uses, delta, None


def job(rng, names=EXACT):
    """Uses, delta, direction."""
    kinds = 1 if rng.random() < 0.6 else int(rng.integers(2, 4))
    uses = {FACTORS[names[rng.integers(len(names))]](rng): int(10 ** rng.uniform(0, 6)) for _ in range(kinds)}
    directions = [None, "remove", "add", "replace"]
    choices = 3 if any(isinstance(factor, SubsampledFinite) for factor in uses) else 4
    return uses, Fraction(f"{10 ** rng.uniform(-30, -1):.6g}"), directions[rng.integers(choices)]
