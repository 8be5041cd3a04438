"""Jobs whose truth an independent mpmath oracle knows: strata by factor, and within each by count and by delta.

Every stratum goes from one use to 10^6 (three and four outcomes: as far as they can be enumerated) and from delta 1e-1 to
1e-30, in every direction. An oracle answers (value, error): it was asked at two resolutions, and the error is what they differ
by, and the rounding of its own arithmetic.
"""

import math
from functools import partial

import mpmath as mp

from neartwin.losses import (
    Approx,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Pure,
    RandomizedResponse,
    SubsampledFinite,
    SubsampledGaussian,
    SubsampledLaplace,
)
from tests.losses.jobs import COIN, between, line, pair, stairs
from tests.oracles import compositions, lines, steps, sums
from tests.oracles.sums import exact

FEW = 30
DIRECTIONS = ("remove", "add", "replace")


class twice:
    """An oracle from a value at a resolution; what twice it changes is measured once for ends that lie close together."""

    def __init__(self, value, *, rounding=1e-16):
        self.value, self.rounding, self.at, self.share = value, rounding, mp.inf, mp.inf

    def __call__(self, eps):
        found = self.value(eps, 1)
        if found < 0:  # its digits end before eps leaves the largest loss
            raise ArithmeticError("eps is nearer to an atom than the oracle sees")
        if abs(eps - self.at) > 1e-6 * (abs(eps) + 1e-9):
            self.at, fine = eps, self.value(eps, 2)
            self.share = 2 * abs(found - fine) / fine + self.rounding if fine else mp.mpf(0)
        if self.share > 0.5:  # what is left of its digits says nothing
            raise ArithmeticError("eps is nearer to an atom than the oracle sees")
        return found, self.share * found


def closed(value):
    """An oracle from a closed form."""
    return lambda eps: (value(eps), mp.mpf(1e-16) * value(eps))


def lattice(masses, start, step, count, leak=0):
    """Losses on a lattice, and a probability that everything is revealed."""
    kept = count * mp.log1p(-mp.mpf(leak))  # a logarithm: 1 - leak has lost a leak of 1e-40

    def value(eps, fine):
        return mp.exp(kept) * lines.on_circle(masses, start, step, count, eps, fine) - mp.expm1(kept)

    return twice(value)


def gaussian(rng, n, delta):
    mu = between(rng, 0.003, 3)
    return n * Gaussian(mu=mu), DIRECTIONS, closed(lambda eps: compositions.gaussian(mp.sqrt(n) * exact(mu), eps))


def ramps(e, q, order, n):
    """By lines where enough copies fall between the atoms, else copy by copy."""
    stepped, law = steps.Ramps(e, q, order), lines.SampledLaplace(e, q, order)
    smooth = n * float(1 - sum(stepped.atoms)) > 70

    def value(eps, fine):
        if smooth:
            try:
                return lines.delta(law, n, eps, fine)
            except ArithmeticError:  # the tilted law is nearer to its atoms
                pass
        return stepped.delta(n, eps, fine)

    return twice(value)


def laplace(rng, n, delta):
    e = between(rng, 0.003, 3)
    if n <= 50 and rng.random() < 0.5:
        return n * Laplace(epsilon=e), DIRECTIONS, closed(lambda eps: compositions.laplace(exact(e), n, eps))
    return n * Laplace(epsilon=e), DIRECTIONS, ramps(exact(e), mp.mpf(1), "remove", n)


def pure(rng, n, delta):
    e = between(rng, 0.003, 2)
    part = mp.exp(exact(e))
    return n * Pure(epsilon=e), DIRECTIONS, lattice([1 / (1 + part), part / (1 + part)], -exact(e), 2 * exact(e), n)


def response(rng, n, delta):
    e, answers = between(rng, 0.003, 3), int(rng.integers(3, 6))
    return n * RandomizedResponse(epsilon=e, answers=answers), DIRECTIONS, lattice(*sums.answers(e, answers), n)


def approx(rng, n, delta):
    e, leak = between(rng, 0.003, 2), between(rng, 1e-40, 1e-38)
    part = mp.exp(exact(e))
    law = [1 / (1 + part), part / (1 + part)]
    return n * Approx(epsilon=e, delta=leak), DIRECTIONS, lattice(law, -exact(e), 2 * exact(e), n, exact(leak))


def geometric(rng, n, delta):
    e, reach = between(rng, 0.003, 3), int(rng.integers(1, 20))
    return n * Geometric(epsilon=e, sensitivity=reach), DIRECTIONS, lattice(*sums.two_sided(e, reach), n)


def staircase(rng, n, delta):
    factor = stairs(rng)
    return n * factor, DIRECTIONS, lattice(*sums.stairs(factor.epsilon, factor.sensitivity, factor.step), n)


def discrete_gaussian(rng, n, delta):
    s = between(rng, 0.3, 30)
    return n * DiscreteGaussian(sigma2=s), DIRECTIONS, lattice(*sums.bells(s), n)


def two_outcomes(p, q, n):
    """A finite pair of two outcomes: its losses are a lattice."""
    (first, one), (second, other) = sorted((mp.log(exact(x / y)), exact(x)) for x, y in zip(p, q, strict=True))
    return lattice([one, other], first, second - first, n)


def finite(rng, n, delta):
    """Two outcomes, or three or four where so few copies can be enumerated."""
    while (
        len(set((factor := pair(rng)).p)) == 1 or n > {2: 10**6, 3: 150, 4: 30}[len(factor.p)] or factor.p == factor.q
    ):
        continue
    order = DIRECTIONS[rng.integers(2)]
    p, q = (factor.p, factor.q) if order == "remove" else (factor.q, factor.p)
    if len(p) == 2:
        return n * factor, (order,), two_outcomes(p, q, n)
    law = [(mp.log(exact(x / y)), exact(x)) for x, y in zip(p, q, strict=True)]
    return n * factor, (order,), closed(partial(sums.enumerated, law, n))


def piecewise(rng, n, delta):
    """A trade-off line of two pieces, and a coin on a Poisson sample: two outcomes each."""
    if rng.random() < 0.5:
        factor = line(rng)
        a = factor.q[0]
        return n * factor, DIRECTIONS[:2], two_outcomes((1 - a, a), (a, 1 - a), n)
    rate = between(rng, 1e-3, 0.5)
    order = DIRECTIONS[rng.integers(2)]
    p, q = COIN.p, COIN.q
    if order == "remove":
        p = tuple((1 - rate) * y + rate * x for x, y in zip(p, q, strict=True))
    else:
        p, q = q, p
        q = tuple((1 - rate) * x + rate * y for x, y in zip(p, q, strict=True))
    return n * SubsampledFinite(base=COIN, rate=rate), (order,), two_outcomes(p, q, n)


def sampled_gaussian(order):
    def draw(rng, n, delta):
        mu, q = between(rng, 0.3, 1.5), between(rng, 0.01, 0.4)
        return n * SubsampledGaussian(mu=mu, rate=q), (order,), bells_of_a_sample(exact(mu), exact(q), order, n, delta)

    return draw


def bells_of_a_sample(mu, q, order, n, delta):
    """One copy in closed form, few copy by copy, more by lines."""
    if n == 1 and order == "replace":
        return closed(partial(sums.sampled_gaussian_replaced, mu, q))
    if n <= FEW and order != "replace":
        return twice(steps.Tails(mu, q, order, n, delta).delta, rounding=5e-15 * n)
    return twice(partial(lines.delta, lines.SampledGaussian(mu, q, order), n))


def sampled_laplace(order):
    def draw(rng, n, delta):
        e, q = between(rng, 0.1, 2), between(rng, 0.02, 0.5)
        return n * SubsampledLaplace(epsilon=e, rate=q), (order,), ramps(exact(e), exact(q), order, n)

    return draw


def mixture(rng, n, delta):
    """Laplace, sampled Laplace or response, together with Gaussian mechanisms, which end what comes back of the atoms."""
    mu, e, m = between(rng, 0.03, 1), between(rng, 0.03, 1), int(rng.integers(1, 40))
    kind, order = int(rng.integers(3)), DIRECTIONS[rng.integers(3)]
    factor = (Laplace(epsilon=e), SubsampledLaplace(epsilon=e, rate="0.2"), Pure(epsilon=e))[kind]
    part = mp.exp(exact(e))
    law = (
        lines.SampledLaplace(exact(e), mp.mpf(1), "remove"),
        lines.SampledLaplace(exact(e), mp.mpf(1) / 5, order),
        lines.Atoms([(exact(e), part / (1 + part)), (-exact(e), 1 / (1 + part))]),
    )[kind]
    return (
        n * factor + m * Gaussian(mu=mu),
        (order,),
        twice(lambda eps, fine: lines.delta(law, n, eps, fine, m * exact(mu) ** 2)),
    )


# name: draw, greatest count
STRATA = {
    "gaussian": (gaussian, 10**6),
    "laplace": (laplace, 10**6),
    "pure": (pure, 10**6),
    "response": (response, 10**6),
    "approx": (approx, 10**6),
    "geometric": (geometric, 10**6),
    "discrete gaussian": (discrete_gaussian, 10**6),
    "finite": (finite, 10**6),
    "piecewise": (piecewise, 10**6),
    "mixture": (mixture, 10**4),
    **{f"sampled gaussian {o}": (sampled_gaussian(o), 10**6) for o in DIRECTIONS},
    **{f"sampled laplace {o}": (sampled_laplace(o), 10**6) for o in DIRECTIONS},
    "staircase": (staircase, 10**6),
}
LEAST = 1e-30


def jobs(rng, each, names=tuple(STRATA)):
    """(name, whole, delta, direction, oracle): in each stratum counts and deltas from `each` equal shares of their logarithms."""
    for name in names:
        draw, most = STRATA[name]
        shares = rng.permutation(each)
        for k in range(each):
            count = round(most ** ((k + rng.random()) / each))
            delta = 10 ** (
                math.log10(LEAST) + (math.log10(0.1) - math.log10(LEAST)) * (shares[k] + rng.random()) / each
            )
            whole, directions, oracle = draw(rng, count, delta)
            yield name, whole, delta, directions[rng.integers(len(directions))], oracle
