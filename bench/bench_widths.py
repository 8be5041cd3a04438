"""How wide the certified epsilon of each way of training is, in random runs, and how long it takes on one core.

    python bench/bench_widths.py [RUNS]

Noise multipliers are 0.5 to 10, rates 1e-5 to 0.1, steps 10 to 10^5 and deltas 1e-10 to 1e-5, each uniform in its logarithm and
read from four digits. The seed is fixed. Where epsilon promises nothing, above 30, or is 0, a run is left out. Widths are given
relative to epsilon and absolutely; the bar is 1e-6 for the smaller of the two, and 1e-3 for random steps of an epoch.
"""

import math
import sys
import time
from fractions import Fraction
from statistics import median

import numpy as np

from neartwin.accounting import training
from neartwin.accounting.usage import cost, for_group, repeated, subsample
from neartwin.losses import BoundedRange, DiscreteGaussian, GaussianMixture, Geometric, SubsampledGaussian, compose

SEED, RUNS, LARGEST = 20261201, 20, 30.0
BAR, ALLOCATION = 1e-6, 1e-3


def between(rng, low, high):
    """A decimal of four digits, uniform in its logarithm."""
    return Fraction(f"{10 ** rng.uniform(math.log10(low), math.log10(high)):.4g}")


def whole(rng, low, high):
    """A whole number, uniform in its logarithm."""
    return round(between(rng, low, high))


def batch(rng):
    """Records, and a batch of 1e-4 to a tenth of them."""
    records = whole(rng, 1_000, 1_000_000)
    return {"records": records, "batch": max(1, int(records * between(rng, 1e-4, 0.1)))}


def truncated(rng):
    """A largest batch of 0 to 5 deviations above what is expected."""
    records, rate = whole(rng, 1_000, 100_000), between(rng, 1e-3, 0.1)
    expected = records * rate
    return {"records": records, "rate": rate, "largest": math.ceil(expected + rng.uniform(0, 5) * math.sqrt(expected))}


def mixture(rng):
    """A step in which a record counts 0 to 3 times."""
    weights = rng.dirichlet([20, 1, 0.5, 0.2])
    shares = [Fraction(f"{weight:.4f}") for weight in weights[1:]]
    sigma = noise(rng)
    return GaussianMixture(distances=tuple(times / sigma for times in range(4)), weights=(1 - sum(shares), *shares))


def noise(rng):
    return between(rng, 0.5, 10)


def steps(rng, most=1e5):
    return whole(rng, 10, most)


def poisson(rng, most=1e5):
    return training.poisson_batches(noise_multiplier=noise(rng), rate=between(rng, 1e-5, 0.1), steps=steps(rng, most))


def thousand(rng):
    """As many steps at one rate, each with its own noise, which falls to half."""
    first, rate = noise(rng), between(rng, 1e-5, 0.01)
    falling = (first * (1 - Fraction(step, 2000)) for step in range(1000))
    return compose([1 * SubsampledGaussian(mu=1 / one, rate=rate) for one in falling])


WAYS = {
    "Poisson": poisson,
    "Poisson, two to five batches a step": lambda rng: training.poisson_batches(
        noise_multiplier=noise(rng), rate=between(rng, 1e-4, 0.1), steps=steps(rng), accumulated=int(rng.integers(2, 6))
    ),
    "Poisson, cut to a size": lambda rng: training.truncated_batches(
        noise_multiplier=noise(rng), steps=steps(rng), **truncated(rng)
    ),
    "fixed size": lambda rng: training.fixed_batches(noise_multiplier=noise(rng), steps=steps(rng), **batch(rng)),
    "fixed size, groups of 2 to 5": lambda rng: training.fixed_batches(
        noise_multiplier=noise(rng), steps=steps(rng), group=int(rng.integers(2, 6)), **batch(rng)
    ),
    "fixed size, with replacement": lambda rng: training.fixed_batches(
        noise_multiplier=noise(rng), steps=steps(rng), replacement=True, **batch(rng)
    ),
    "mixtures of Gaussians": lambda rng: steps(rng) * mixture(rng),
    "banded factorization": lambda rng: training.banded_factorization(
        noise_multiplier=noise(rng), rate=between(rng, 1e-5, 0.01), bands=int(rng.integers(1, 65)), steps=steps(rng)
    ),
    "Toeplitz factorization": lambda rng: training.toeplitz_factorization(
        noise_multiplier=noise(rng),
        coefficients=sorted((Fraction(f"{one:.4f}") for one in rng.uniform(0.01, 1, 64)), reverse=True),
        participations=int(rng.integers(1, 5)),
        separation=int(rng.integers(1, 20)),
    ),
    "trees with restarts": lambda rng: training.tree_with_restarts(
        noise_multiplier=noise(rng), steps=steps(rng, 1e4), restarts=int(rng.integers(1, 30))
    ),
    "one random step an epoch": lambda rng: training.random_allocation(
        noise_multiplier=noise(rng), steps=steps(rng, 1e4), epochs=whole(rng, 1, 100)
    ),
    "balls in bins": lambda rng: training.balls_in_bins(
        noise_multiplier=noise(rng), steps=steps(rng, 1e4), epochs=whole(rng, 1, 20)
    ),
    "groups on Poisson batches": lambda rng: for_group(poisson(rng), int(rng.integers(2, 6))),
    "sampled discrete Gaussian": lambda rng: repeated(
        subsample(DiscreteGaussian(sigma2=between(rng, 0.5, 400)), between(rng, 1e-5, 0.1)), steps(rng)
    ),
    "sampled geometric": lambda rng: repeated(
        subsample(Geometric(epsilon=between(rng, 0.05, 2), sensitivity=1), between(rng, 1e-5, 0.1)), steps(rng)
    ),
    "repeat and select": lambda rng: training.repeat_and_select(
        poisson(rng, 1e4), mean=whole(rng, 2, 200), shape=(1, 0, "0.5", None)[int(rng.integers(4))]
    ),
    "exponential mechanisms, up to 300 uses": lambda rng: whole(rng, 2, 300) * BoundedRange(
        epsilon=between(rng, 0.01, 1)
    ),
    "1,000 noises at one rate": thousand,
}  # fmt: skip


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    cost(training.poisson_batches(noise_multiplier=1, rate="0.01", steps=10)).epsilon("1e-5")  # imports are no answer
    over = 0
    print(f"{'way':40} {'runs':>4} {'relative':>9} {'absolute':>9} {'over':>4} {'median':>9} {'most':>8}")
    for name, way in WAYS.items():
        rng, widths, times = np.random.default_rng([SEED, *name.encode()]), [], []
        bar = ALLOCATION if name in {"one random step an epoch", "balls in bins"} else BAR
        while len(widths) < runs:
            usage, delta = way(rng), float(between(rng, 1e-10, 1e-5))
            began = time.process_time()
            found = cost(usage).epsilon(delta)
            spent = time.process_time() - began
            if 0 < found.upper <= LARGEST:
                width = found.upper - found.lower
                widths.append((min(width, width / found.upper), width / found.upper, width, repr(usage)[:200], delta))
                times.append(spent)
        many = sum(one[0] > bar for one in widths)
        over += many
        print(
            f"{name:40} {runs:4} {max(one[1] for one in widths):9.1e} {max(one[2] for one in widths):9.1e} {many:4} "
            f"{median(times) * 1e3:7.1f}ms {max(times):7.2f}s",
            flush=True,
        )
        for one in sorted(widths, reverse=True)[: min(many, 3)]:
            print(f"    {one[1]:.1e} {one[2]:.1e} delta {one[4]:.3g} {one[3]}")
    print(f"widths: {over} above the bar")


if __name__ == "__main__":
    main()
