"""Independent truths for sums of losses, in mpmath: exact pmfs on lattices, and moment generating functions by quadrature."""

from functools import lru_cache

import mpmath as mp

from tests.oracles import compositions


def exact(x):
    """A fraction in mpmath."""
    return mp.mpf(x.numerator) / x.denominator


def on_lattice(masses, start, step, count, eps, infinity=0):  # noqa: PLR0917 - a law, a count, a question
    """`count` copies of masses at start, start + step, ...: every probability of the sum, by convolution in mpmath."""
    law = [mp.mpf(1)]
    for _ in range(count):
        longer = [mp.mpf(0)] * (len(law) + len(masses) - 1)
        for i, x in enumerate(law):
            for j, y in enumerate(masses):
                longer[i + j] += x * y
        law = longer
    total = mp.mpf(0)
    for i, mass in enumerate(law):
        loss = count * start + i * step
        if loss > eps:
            total += mass * -mp.expm1(eps - loss)
    finite = (1 - mp.mpf(infinity)) ** count
    return 1 - finite + finite * total


def response(epsilon, answers, count, eps, infinity=0):
    """k-ary randomized response: the true answer e^epsilon times as likely as each other one."""
    e = exact(epsilon)
    whole = mp.exp(e) + answers - 1
    return on_lattice([1 / whole, (answers - 2) / whole, mp.exp(e) / whole], -e, e, count, eps, infinity)


def geometric(epsilon, sensitivity, count, eps):
    """Two-sided geometric noise, alpha = e^{-epsilon/sensitivity}, moved by the sensitivity."""
    a, e = mp.exp(-exact(epsilon) / sensitivity), exact(epsilon)
    inner = [(1 - a) / (1 + a) * a**x for x in range(sensitivity - 1, 0, -1)]
    return on_lattice([a**sensitivity / (1 + a), *inner, 1 / (1 + a)], -e, 2 * e / sensitivity, count, eps)


def discrete_gaussian(variance, count, eps):
    """Masses e^{-x^2/2 variance}, moved by 1; what lies beyond 16 deviations and 16 is below 1e-50."""
    s = exact(variance)
    far = int(mp.ceil(16 * mp.sqrt(s))) + 16
    weights = [mp.exp(-(mp.mpf(x) ** 2) / (2 * s)) for x in range(far, -far - 1, -1)]
    whole = mp.fsum(weights)
    return on_lattice([w / whole for w in weights], (1 - 2 * far) / (2 * s), 1 / s, count, eps)


def _mgf(nodes):
    """Log E[e^{sL}] of weighted losses."""
    return lambda s: mp.log(mp.fsum(w * mp.exp(s * l) for w, l in nodes))


@lru_cache(maxsize=32)
def sampled_gaussian(mu, q, order):
    """The Gaussian mechanism on a Poisson sample, one order, by the trapezoidal rule."""
    mu, q, step, nodes = exact(mu), exact(q), mp.mpf(1) / 10, []

    def r(u):
        return 1 - q + q * mp.exp(mu * u - mu * mu / 2)

    for j in range(-120, 120 + int(200 * mu)):
        u = j * step
        loss = {"remove": mp.log(r(u)), "add": -mp.log(r(u)), "replace": mp.log(r(u)) - mp.log(r(-u))}[order]
        nodes.append((step * mp.npdf(u) * (1 if order == "add" else r(u)), loss))
    return _mgf(nodes)


@lru_cache(maxsize=32)
def sampled_laplace(e, q, order):
    """The Laplace mechanism on a Poisson sample: two atoms, and Gauss-Legendre on the ramps."""
    e, q = exact(e), exact(q)

    def r(x):
        return 1 - q + q * mp.exp(abs(x) - abs(x - e))

    def part(x, weight):
        loss = {"remove": mp.log(r(x)), "add": -mp.log(r(x)), "replace": mp.log(r(x)) - mp.log(r(-x))}[order]
        return weight * (1 if order == "add" else r(x)), loss

    nodes = [part(-e - 1, mp.exp(-e) / 2 if order == "replace" else mp.mpf(1) / 2), part(e + 1, mp.exp(-e) / 2)]
    points = mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(6, 120)
    for low, high in [(0, e), *([(-e, 0)] if order == "replace" else [])]:
        half, centre = (high - low) / 2, (high + low) / 2
        nodes += [part(centre + half * x, half * w * mp.exp(-abs(centre + half * x)) / 2) for x, w in points]
    return _mgf(nodes)


def along_the_line(parts, eps, beyond=0):
    """Delta of parts [(log M, count)]: the contour of `compositions`, at 25 digits."""
    with mp.workdps(25):
        return compositions.contour(parts, eps, beyond=beyond)
