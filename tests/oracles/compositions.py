"""Independent truths for composed privacy losses, in mpmath: nothing here is shared with the engine.

Each returns delta(eps) to some thirty digits: finite sums, a residue sum for Laplace^n, and for smooth laws the contour
integral with its own moment generating functions, its own saddle and three times the frequencies needed.
"""

import math
from functools import lru_cache
from itertools import combinations_with_replacement

import mpmath as mp
import numpy as np

mp.mp.dps = 40


def gaussian(mu, eps):
    mu, eps = mp.mpf(mu), mp.mpf(eps)
    return mp.ncdf(mu / 2 - eps / mu) - mp.e**eps * mp.ncdf(-mu / 2 - eps / mu)


@lru_cache(maxsize=64)
def _laplace_coefficients(n):
    """Coefficients of u^i, i < n, of (1/2+u)^{n-k-1} (u-1/2)^{k-1} for each k: the residue at s = -1/2."""
    with mp.workdps(60 + 4 * n):
        half, found = mp.mpf(1) / 2, []
        for k in range(n):
            a = [mp.binomial(n - k - 1, i) * half ** (n - k - 1 - i) for i in range(n - k)]
            b = [-2 * mp.mpf(2) ** i for i in range(n)]
            if k:
                b = [mp.binomial(k - 1, i) * (-half) ** (k - 1 - i) for i in range(k)]
            c = [mp.mpf(0)] * n
            for i, x in enumerate(a):
                for j, y in enumerate(b[: n - i]):
                    c[i + j] += x * y
            found.append(c)
        return found


def laplace(e, n, eps):
    """Laplace^n: sum over the ends (n - 2k)e above eps of a residue at -1/2 and, for k = 0, one at 0."""
    with mp.workdps(60 + 4 * n):
        e, eps, total = mp.mpf(e), mp.mpf(eps), mp.mpf(0)
        for k, coefficients in enumerate(_laplace_coefficients(n)):
            a = (n - 2 * k) * e - eps
            if a <= 0:
                break
            powers = [mp.mpf(1)]
            for i in range(1, n):
                powers.append(powers[-1] * a / i)
            c = sum(coefficients[i] * powers[n - 1 - i] for i in range(n))
            total += mp.binomial(n, k) * mp.e ** (-k * e) * (c * mp.e ** (-a / 2) / mp.mpf(2) ** n + (k == 0))
        return total


def atoms(law, n, eps):
    """N copies of a finite law [(loss, mass)], by enumeration of every multiset."""
    eps, total = mp.mpf(eps), mp.mpf(0)
    for chosen in combinations_with_replacement(range(len(law)), n):
        loss = sum(law[j][0] for j in chosen)
        if loss > eps:
            ways, mass = mp.factorial(n), mp.mpf(1)
            for j in set(chosen):
                ways /= mp.factorial(chosen.count(j))
                mass *= law[j][1] ** chosen.count(j)
            total += ways * mass * (1 - mp.e ** (eps - loss))
    return total


def two_atoms(high, low, p, n, eps, infinity=0):  # noqa: PLR0917 - a law, a count, a question
    """N copies of a two-point law, the binomial sum."""
    eps, total = mp.mpf(eps), mp.mpf(0)
    leak = -mp.expm1(n * mp.log1p(-mp.mpf(infinity)))
    for k in range(n + 1):
        loss = (n - k) * high + k * low
        if loss > eps:
            total += mp.binomial(n, k) * p ** (n - k) * (1 - p) ** k * (1 - mp.e ** (eps - loss))
    return leak + (1 - leak) * total


def log_mgf_gaussian(mu):
    return lambda s: mp.mpf(mu) ** 2 * s * (s + 1) / 2


def log_mgf_laplace(e):
    e = mp.mpf(e)
    return lambda s: mp.log((mp.e ** (s * e) * (1 + s) + mp.e ** (-(1 + s) * e) * s) / (1 + 2 * s))


def log_mgf_atoms(law):
    return lambda s: mp.log(sum(mass * mp.e ** (s * loss) for loss, mass in law))


def sampled_gaussian(mu, q, order, count, eps, *, step=1 / 16, deviations=40.0):
    """delta(eps) of Poisson-subsampled Gaussians in floats, some 11 digits: Simpson inside, trapezoid outside."""
    u = np.arange(-14.0, 14.0 + 12 * mu + step, step)
    u = u[: len(u) - 1 + len(u) % 2]
    weight = step / 3 * np.where(np.arange(len(u)) % 2, 4.0, 2.0)
    weight *= np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    plus, minus = (np.log1p(q * np.expm1(sign * mu * u - mu * mu / 2)) for sign in (1, -1))
    p, loss = {"remove": (plus, plus), "add": (0 * plus, -plus), "replace": (plus, plus - minus)}[order]

    def k(s):
        return count * np.log1p((weight * np.exp(p)) @ np.expm1(np.multiply.outer(loss, s)))

    def exponent(lam):
        return float(k(np.array([lam]))[0]) - lam * eps - math.log(lam) - math.log1p(lam)

    lam = min(np.geomspace(0.05, min(40, 500 / loss.max()), 400).tolist(), key=exponent)
    h = 1e-2 * lam
    bend = float(np.diff(k(np.array([lam - h, lam, lam + h])), 2)[0]) / h**2
    d = 2 * math.pi / (deviations * math.sqrt(bend) + 60 / lam)
    size, terms, start = math.ceil(9 / math.sqrt(bend) / d), [], 0
    while start < 200 * size:  # a law with a far hump decays at the pace of its near one
        s = lam + 1j * d * np.arange(start, start + size)
        terms.append(np.exp(k(s) - s * eps - np.log(s) - np.log1p(s)))
        start += size
        if np.abs(terms[-1][-8:]).max() < 1e-14 * abs(terms[0][0]):
            break
    else:
        raise ArithmeticError("the oracle's terms do not decay")
    terms = np.concatenate(terms)
    return mp.mpf(float((2 * terms.real.sum() - terms[0].real) * d / (2 * math.pi)))


def contour(parts, eps, *, deviations=16, terms=4000, beyond=0):
    """delta(eps) for parts [(log M, count)] whose |M| decays beyond some frequency: trapezoid along the saddle, to 1e-25."""
    eps = mp.mpf(eps)

    def k(s):
        return sum(count * log_mgf(s) for log_mgf, count in parts)

    def exponent(x):
        lam = mp.e**x
        return mp.re(k(lam)) - lam * eps - mp.log(lam) - mp.log(1 + lam)

    low, high = mp.mpf(-7), mp.mpf(7)
    for _ in range(40):
        a, b = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, b) if exponent(a) < exponent(b) else (a, high)
    lam = mp.e**low
    h = lam / 1000
    bend = mp.re(k(lam + h) - 2 * k(lam) + k(lam - h)) / h**2
    step = 2 * mp.pi / (deviations * mp.sqrt(bend) + 80 / lam)
    total, j = mp.mpf(0), 0
    scale = exponent(mp.log(lam))
    while j < terms:
        s = mp.mpc(lam, j * step)
        term = mp.e ** (k(s) - s * eps - mp.log(s) - mp.log(s + 1) - scale)
        total += mp.re(term) * (1 if j == 0 else 2)
        if abs(term) < mp.mpf(10) ** -25 and j * step >= beyond:
            break
        j += 1
    else:
        raise ArithmeticError("the oracle's terms do not decay")
    return total * step / (2 * mp.pi) * mp.e**scale
