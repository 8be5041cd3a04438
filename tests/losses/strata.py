"""Jobs whose truth an independent mpmath oracle knows: strata by factor, and within each by count and by delta."""

import math

import mpmath as mp

from neartwin.losses import (
    Approx,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Pure,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledLaplace,
)
from tests.losses.jobs import between
from tests.oracles import compositions, sums
from tests.oracles.sums import exact


def gaussian(rng, n):
    mu = between(rng, 0.003, 3)
    return n * Gaussian(mu=mu), lambda eps: compositions.gaussian(mp.sqrt(n) * exact(mu), eps)


def laplace(rng, n):
    e = between(rng, 0.003, 3)
    return n * Laplace(epsilon=e), lambda eps: compositions.laplace(exact(e), n, eps)


def pure(rng, n):
    e = between(rng, 0.003, 2)
    return n * Pure(epsilon=e), lambda eps: sums.response(e, 2, n, mp.mpf(eps))


def response(rng, n):
    e, answers = between(rng, 0.003, 3), int(rng.integers(3, 6))
    return n * RandomizedResponse(epsilon=e, answers=answers), lambda eps: sums.response(e, answers, n, mp.mpf(eps))


def approx(rng, n):
    e, d = between(rng, 0.003, 2), between(rng, 1e-40, 1e-32)
    return n * Approx(epsilon=e, delta=d), lambda eps: sums.response(e, 2, n, mp.mpf(eps), exact(d))


def geometric(rng, n):
    e, reach = between(rng, 0.003, 3), int(rng.integers(1, 12))
    return n * Geometric(epsilon=e, sensitivity=reach), lambda eps: sums.geometric(e, reach, n, mp.mpf(eps))


def discrete_gaussian(rng, n):
    s = between(rng, 0.3, 6)
    return n * DiscreteGaussian(sigma2=s), lambda eps: sums.discrete_gaussian(s, n, mp.mpf(eps))


def sampled_gaussian(order):
    def draw(rng, n):
        mu, q = between(rng, 0.3, 1.5), between(rng, 0.01, 0.4)
        one = sums.sampled_gaussian(mu, q, order)
        return n * SubsampledGaussian(mu=mu, rate=q), lambda eps: sums.along_the_line([(one, n)], eps)

    return draw


def sampled_laplace(order):
    def draw(rng, n):
        e, q = between(rng, 0.1, 2), between(rng, 0.02, 0.5)
        one = sums.sampled_laplace(e, q, order)
        return n * SubsampledLaplace(epsilon=e, rate=q), lambda eps: sums.along_the_line([(one, n)], eps)

    return draw


def mixture(rng, n):
    """Laplace, sampled Laplace or response, together with Gaussian mechanisms."""
    mu, e, m = between(rng, 0.03, 1), between(rng, 0.03, 1), int(rng.integers(1, 40))
    kind = int(rng.integers(3))
    factor = (Laplace(epsilon=e), SubsampledLaplace(epsilon=e, rate="0.2"), Pure(epsilon=e))[kind]
    one = (
        compositions.log_mgf_laplace(exact(e)),
        sums.sampled_laplace(e, between(rng, 0.2, 0.2), "remove"),
        compositions.log_mgf_atoms([(exact(e), 1 / (1 + mp.exp(-exact(e)))), (-exact(e), 1 / (1 + mp.exp(exact(e))))]),
    )[kind]
    parts = [(one, n), (compositions.log_mgf_gaussian(mp.sqrt(m) * exact(mu)), 1)]
    # two atoms in step again add up again: only the Gaussian factor ends that
    return n * factor + m * Gaussian(mu=mu), lambda eps: sums.along_the_line(parts, eps, 12 / (mp.sqrt(m) * exact(mu)))


# name: draw, direction, least and greatest count, least delta
STRATA = {
    "gaussian": (gaussian, None, 1, 10**6, 1e-30),
    "laplace": (laplace, None, 1, 50, 1e-30),
    "pure": (pure, None, 1, 60, 1e-30),
    "response": (response, None, 1, 60, 1e-30),
    "approx": (approx, None, 1, 60, 1e-30),
    "geometric": (geometric, None, 1, 12, 1e-30),
    "discrete gaussian": (discrete_gaussian, None, 1, 8, 1e-30),
    "mixture": (mixture, "remove", 1, 300, 1e-20),
    **{f"sampled gaussian {o}": (sampled_gaussian(o), o, 300, 10**4, 1e-8) for o in ("remove", "add", "replace")},
    **{f"sampled laplace {o}": (sampled_laplace(o), o, 2000, 10**4, 1e-10) for o in ("remove", "add", "replace")},
}


def jobs(rng, each):
    """(name, whole, delta, direction, oracle): in each stratum counts and deltas from `each` equal shares of their logarithms."""
    for name, (draw, direction, fewest, most, least) in STRATA.items():
        shares = rng.permutation(each)
        for k in range(each):
            count = round(fewest * (most / fewest) ** ((k + rng.random()) / each))
            delta = 10 ** (
                math.log10(least) + (math.log10(0.1) - math.log10(least)) * (shares[k] + rng.random()) / each
            )
            whole, oracle = draw(rng, count)
            yield name, whole, delta, direction, oracle
