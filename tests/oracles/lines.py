"""Independent truths by inversion, in mpmath: sums of losses along a vertical line, and around a circle for lattices.

delta(eps) = (1/2 pi) int M(s) e^{-s eps} / (s (s + 1)) dt, s = lam + it, by the trapezoidal rule. M(s) is a finite sum of
weights times e^{sL}; from one frequency to the next each term turns by the same complex factor, in integers of 140 bits.
`fine` scales every resolution at once; who asks at 1 and at 2 sees the error.
"""

import math
from functools import cached_property, lru_cache

import mpmath as mp
import numpy as np

BITS = 140
NOTHING = 1e-26  # of the first term
MOST = 3_000_000  # weights times frequencies, at the first resolution


def least(exponent, low=-9.0, high=9.0):
    """The tilt at which an exponent is least: any positive one is right, this one is quick."""
    for _ in range(60):
        a, b = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, b) if exponent(math.exp(a)) < exponent(math.exp(b)) else (a, high)
    return math.exp(low)


@lru_cache(maxsize=8)
def legendre(count):
    """Points and weights on [0, 1], to 50 digits."""
    with mp.workdps(60):
        start = np.polynomial.legendre.leggauss(count)[0]
        found = []
        for x in start:
            root = mp.mpf(float(x))
            for _ in range(4):
                below, here = mp.mpf(1), root
                for k in range(1, count):
                    below, here = here, ((2 * k + 1) * root * here - k * below) / (k + 1)
                slope = count * (root * here - below) / (root * root - 1)
                root -= here / slope
            found.append(((root + 1) / 2, 1 / ((1 - root * root) * slope**2)))
        return found


class SampledGaussian:
    """Weights and losses of one step, by the trapezoidal rule in the noise u."""

    span = 0.0  # no atoms

    def __init__(self, mu, q, order):
        self.mu, self.q, self.order = mu, q, order

    def grid(self, lam, each):
        """Multiples of 1/each: a loss turns by at most mu t a unit of noise."""
        return range(-14 * each, math.ceil(each * (14 + float(self.mu) * (1 + lam))))

    def roughly(self, lam):
        """Log weights and losses in floats."""
        u, mu, q = np.array(self.grid(lam, 10)) / 10, float(self.mu), float(self.q)
        grown = [sign * mu * u - mu * mu / 2 for sign in (1, -1)]
        small = (np.log1p(q * np.expm1(np.minimum(x, 700.0))) for x in grown)
        plus, minus = (np.where(x > 700, math.log(q) + x, near) for x, near in zip(grown, small, strict=True))
        weight = -0.5 * u * u - math.log(10 * math.sqrt(2 * math.pi))
        loss = {"remove": plus, "add": -plus, "replace": plus - minus}[self.order]
        return weight + (0 if self.order == "add" else plus), loss

    def nodes(self, lam, fine, reach):
        each = fine * math.ceil(10 + float(self.mu) * reach / 2)
        mu, q, step = self.mu, self.q, mp.mpf(1) / each

        grid = self.grid(lam, each)
        grown, pace = mp.exp(mu * grid[0] * step - mu * mu / 2), mp.exp(mu * step)
        share = step / mp.sqrt(2 * mp.pi)
        for j in grid:
            r = 1 - q + q * grown
            weight = share * mp.exp(-((j * step) ** 2) / 2)
            if self.order == "add":
                yield weight, -mp.log(r)
            elif self.order == "remove":
                yield weight * r, mp.log(r)
            else:  # r(-u) has e^{-mu u} for e^{mu u}
                yield weight * r, mp.log(r / (1 - q + q * mp.exp(-mu * mu) / grown))
            grown *= pace


class Placed:
    """A law whose places are the same at every tilt."""

    def roughly(self, lam):
        del lam
        return self._rough

    @cached_property
    def _rough(self):
        parts = list(self.nodes(0.0, 1, 0.0))
        return np.array([float(mp.log(w)) for w, _ in parts]), np.array([float(loss) for _, loss in parts])


class SampledLaplace(Placed):
    """Two atoms, and panels of Gauss-Legendre points on the ramps between them; rate 1 is the Laplace mechanism itself."""

    def __init__(self, e, q, order):
        self.e, self.q, self.order = e, q, order
        high, low = self.r(e), self.r(-e)
        self.span = float(mp.log(high / low) * (2 if order == "replace" else 1))

    def r(self, x):
        return 1 - self.q + self.q * mp.exp(abs(x) - abs(x - self.e))

    def part(self, x, weight):
        r = self.r(x)
        loss = {"remove": r, "add": 1 / r, "replace": r / self.r(-x) if self.order == "replace" else 1}[self.order]
        return weight * (1 if self.order == "add" else r), mp.log(loss)

    def nodes(self, lam, fine, reach):
        del lam
        e, half = self.e, mp.mpf(1) / 2
        yield self.part(-e - 1, half * mp.exp(-e) if self.order == "replace" else half)
        yield self.part(e + 1, half * mp.exp(-e))
        panels = fine * math.ceil(float(e) + reach * self.span / 8)
        for low in (0, *([-e] if self.order == "replace" else [])):
            for k in range(panels):
                for x, w in legendre(24):
                    at = low + e * (k + x) / panels
                    yield self.part(at, e / panels * w * mp.exp(-abs(at)) / 2)


class Atoms(Placed):
    """A law of finitely many losses."""

    def __init__(self, law):
        self.law = law
        self.span = float(max(loss for loss, _ in law) - min(loss for loss, _ in law))

    def nodes(self, lam, fine, reach):
        del lam, fine, reach
        yield from ((mass, loss) for loss, mass in self.law)


def _moments(weights, losses, lam):
    tilted = weights + lam * losses
    top = tilted.max()
    mass = np.exp(tilted - top)
    mean = mass @ losses / mass.sum()
    return top + math.log(mass.sum()), mass @ (losses - mean) ** 2 / mass.sum()


def turns(nodes, lam, step, most):
    """M(lam + i j step) / M(lam), j = 0, 1, ..., as pairs of floats' exact integers over 2^BITS; and log M(lam) first."""
    tilted = [(w * mp.exp(lam * loss), loss) for w, loss in nodes]
    whole = mp.fsum(w for w, _ in tilted)
    kept = [(w / whole, loss) for w, loss in tilted if w > whole * mp.mpf(10) ** -33]
    yield mp.log(whole)
    one = 2**BITS

    def integers(values):
        return np.array([int(mp.floor(v * one)) for v in values], dtype=object)

    re = integers(w for w, _ in kept)
    im = integers(0 * w for w, _ in kept)
    c, d = integers(mp.cos(step * loss) for _, loss in kept), integers(mp.sin(step * loss) for _, loss in kept)
    for _ in range(most // len(kept)):
        yield re.sum(), im.sum()
        re, im = (re * c - im * d) >> BITS, (re * d + im * c) >> BITS


@lru_cache(maxsize=8)
def known_turns(law, fine, reach, lam, step):
    """The turns that were asked for, and those that were not yet: both ends of an interval ask for the same ones."""
    return [], turns(law.nodes(float(lam), fine, float(reach)), lam, step, MOST * fine**2)


def all_turns(known, further):
    yield from known
    for found in further:
        known.append(found)
        yield found


def delta(law, count, eps, fine, variance=0):
    """`count` copies of a law, and Gaussian losses of mu^2 = `variance` beside them.

    Where the law has atoms a return of theirs must have died: the sum goes on until it has passed the first. The tilt has three
    digits, so that places close together have one.
    """
    with mp.workdps(60):
        eps, variance = mp.mpf(eps), mp.mpf(variance)
        gauss, target = float(variance), float(eps)

        def exponent(lam):
            return (
                count * _moments(*law.roughly(lam), lam)[0]
                + gauss * lam * (lam + 1) / 2
                - lam * target
                - math.log(lam * (lam + 1))
            )

        lam = float(f"{least(exponent, -11, 6):.3g}")
        bend = count * _moments(*law.roughly(lam), lam)[1] + gauss
        step = 2 * mp.pi / (fine * (14 * math.sqrt(bend) + 60 / lam))
        reach = min(2 * 9 / math.sqrt(bend), 12 / math.sqrt(gauss) if gauss else math.inf)
        beyond = 0.0 if gauss and reach * law.span > 7 else 2.2 * math.pi / law.span if law.span else 0.0
        if gauss and isinstance(law, Atoms):  # each return is as high as the first: only the Gaussians end them
            beyond = 12 / math.sqrt(gauss)
        reach = max(reach, beyond)
        for longer in range(5):
            found = _along(law, count, eps, variance, (lam, step, reach * 4**longer, beyond), fine)
            if found is not None:
                return found
        raise ArithmeticError("the oracle's terms do not decay")


def _along(law, count, eps, variance, line, fine):  # noqa: PLR0917 - a law, a count, a question
    """The sum on one line, or None where it must go beyond the frequency for which its weights are made."""
    lam, step, reach, beyond = (mp.mpf(x) for x in line)
    total, quiet, level = mp.mpf(0), 0, None
    for j, found in enumerate(all_turns(*known_turns(law, fine, reach, lam, step)), start=-1):
        if level is None:
            level = found
            continue
        t = j * step
        ratio = mp.mpc(mp.mpf(int(found[0])), mp.mpf(int(found[1]))) / 2**BITS
        s = mp.mpc(lam, t)
        term = mp.mpf(0)
        if count * math.log(max(float(abs(ratio)), 1e-300)) > math.log(NOTHING) - 6:
            power = count * mp.log(ratio) + variance * (mp.j * t * (2 * lam + 1) - t * t) / 2 - mp.j * t * eps
            term = mp.exp(power) / (s * (s + 1)) * lam * (lam + 1)
            total += mp.re(term) * (1 if j == 0 else 2)
        quiet = 0 if abs(term) > NOTHING else quiet + 1
        if quiet > 12 and t >= beyond:
            scale = count * level + variance * lam * (lam + 1) / 2 - lam * eps
            return total * step / (2 * mp.pi) * mp.exp(scale) / (lam * (lam + 1))
        if t > reach:
            return None
    raise ArithmeticError("the oracle's terms do not decay")


def on_circle(masses, start, step, count, eps, fine):  # noqa: PLR0917 - a law, a count, a question
    """`count` copies of masses at start, start + step, ...: the sum's probabilities by Fourier's finite sum, tilted."""
    with mp.workdps(45):
        eps, start, step = mp.mpf(eps), mp.mpf(start), mp.mpf(step)
        where = [(k, mass) for k, mass in enumerate(masses) if mass > 0]
        index = np.array([k for k, _ in where], dtype=float)
        weights, h = np.array([float(mp.log(mass)) for _, mass in where]), float(step)
        most = count * (len(masses) - 1)
        first = max(int(mp.floor((eps - count * start) / step)) + 1, 0)
        if first > most:
            return mp.mpf(0)
        lam = least(
            lambda lam: (
                count * _moments(weights, index * h, lam)[0]
                - lam * float(eps - count * start)
                - math.log(lam * (lam + 1))
            ),
            -12,
        )
        bend = count * _moments(weights, index * h, lam)[1] / h**2
        size = most + 1 if most < 4000 else min(most + 1, fine * math.ceil(50 * math.sqrt(bend) + 300))
        length = min(most - first + 1, size if size == most + 1 else size // 2)
        tilt = mp.mpf(lam)
        law = [mass * mp.exp(tilt * step * k) for k, mass in where]
        whole = mp.fsum(law)
        kept = [(k, mass / whole) for (k, _), mass in zip(where, law, strict=True) if mass > whole * mp.mpf(10) ** -38]
        index, law = np.array([k for k, _ in kept], dtype=float), [mass for _, mass in kept]
        floats = np.array([float(mass) for mass in law])
        angles = 2 * math.pi * np.arange(size // 2 + 1) / size
        rough = np.concatenate(
            [np.abs(np.exp(1j * np.outer(part, index)) @ floats) for part in np.array_split(angles, 64)]
        )
        rest = count * start + first * step - eps  # in (0, step], unless `first` was cut at 0
        total = mp.mpf(0)
        for j in np.flatnonzero(count * np.log(np.maximum(rough, 1e-300)) > math.log(NOTHING) - 6):
            turn = mp.expjpi(mp.mpf(2) * int(j) / size)
            phi, power, at = mp.mpc(0), mp.mpc(1), 0
            for k, mass in kept:
                power *= turn if k == at + 1 else turn ** (k - at)
                phi, at = phi + mass * power, k
            x = mp.exp(-tilt * step) / turn
            near, far = (_geometric(x * mp.exp(-shift), length) for shift in (0, step))
            term = mp.exp(count * mp.log(phi)) / turn**first * (near - mp.exp(-rest) * far)
            total += mp.re(term) * (1 if j == 0 or 2 * j == size else 2)
        return total / size * mp.exp(count * mp.log(whole) - tilt * first * step)


def _geometric(x, length):
    """1 + x + ... + x^(length - 1)."""
    return length if x == 1 else (1 - x**length) / (1 - x)
