"""Independent truths for few copies of a law, one copy at a time, in extended precision; no transform is used.

D is what a loss lacks of the largest (or, `remove`, what it has above the least), and
K_n(y) the wanted expectation as a function of the place y of eps. K_n = int law(dD) K_{n-1}(y - D), with K_{n-1} by
interpolation on panels. `fine` is 1 or 2, as in lines.py; what starts and ends a chain is in mpmath. `by_fourier` has another
way to the same sums.
"""

import math
from functools import lru_cache

import mpmath as mp
import numpy as np

from tests.oracles.lines import legendre

LONG = np.longdouble
SIZE = 11  # points of a panel of `Tails`


def long(x):
    """An mpmath number in extended precision, whose exponents reach far below those of floats."""
    part, power = mp.frexp(x)
    high = float(part)
    return np.ldexp(LONG(high) + LONG(float(part - mp.mpf(high))), int(power))


def short(x):
    """And back."""
    part, power = np.frexp(x)
    high = float(part)
    return mp.ldexp(mp.mpf(high) + mp.mpf(float(part - LONG(high))), int(power))


@lru_cache(maxsize=8)
def rule(count):
    """Gauss-Legendre on [0, 1]."""
    return tuple(np.array([long(v) for v in part]) for part in zip(*legendre(count), strict=True))


def basis(points, at):
    """Lagrange's polynomials of the points, at places: (..., points), by the barycentric formula."""
    gap = points[:, None] - points[None, :]
    np.fill_diagonal(gap, 1)
    weight = 1 / (gap * 4).prod(axis=1)
    away = at[..., None] - points
    away = np.where(away == 0, np.finfo(LONG).tiny * LONG(10) ** 40, away)
    share = weight / away
    return share / share.sum(axis=-1, keepdims=True)


class Ramps:
    """A law with an atom at D = 0 and one at D = cells * width, and a density on each cell between, analytic inside it.

    The number of draws from the densities is binomial; what the others do is a binomial sum of shifts by whole cells.
    """

    def __init__(self, e, q, order):
        """The Laplace mechanism on a Poisson sample; e: sensitivity over scale; q = 1: everyone is in the sample."""
        low, high = 1 - q + q * mp.exp(-e), 1 - q + q * mp.exp(e)
        self.width, self.cells = mp.log(high / low), 2 if order == "replace" else 1
        self.largest = {"remove": mp.log(high), "add": -mp.log(low), "replace": self.width}[order]
        half = mp.mpf(1) / 2
        self.atoms = {
            "remove": (high * mp.exp(-e) / 2, low / 2),
            "add": (half, mp.exp(-e) / 2),
            "replace": (high * mp.exp(-e) / 2, low * mp.exp(-e) / 2),
        }[order]
        self.order, self.e, self.q, self.low = order, long(e), long(q), long(low)
        room = mp.log(low / (1 - q)) if q < 1 else mp.inf  # from the least r to where its inverse is singular
        self.levels = 0 if room > self.width else math.ceil(mp.log(self.width / room, 2))

    def density(self, cell, d):
        """Of P at D = cell * width + d."""
        largest, width = long(self.largest), long(self.width)
        r = {
            "remove": lambda: np.exp(largest - d),
            "add": lambda: np.exp(d - largest),
            "replace": lambda: self.low * np.exp(width - d if cell == 0 else d),
        }[self.order]()
        x = (self.e + np.log((r - 1 + self.q) / self.q)) / 2
        weight = {"remove": r, "add": 1, "replace": r if cell == 0 else self.low}[self.order]
        return weight * np.exp(-x) / 2 * r / (2 * (r - 1 + self.q))

    def edges(self):
        """Panels of a cell, narrow at its ends where the density has a singularity close by."""
        cuts = [LONG(0), LONG(1), *(LONG(2) ** -k for k in range(1, self.levels + 1))]
        cuts += [1 - LONG(2) ** -k for k in range(1, self.levels + 1)]
        return np.array(sorted(set(cuts))) * long(self.width)

    def delta(self, count, eps, fine):
        """For `count` copies."""
        with mp.workdps(60):
            far = (count * self.largest - mp.mpf(eps)) / self.width  # in cells
            if far <= 0:
                return mp.mpf(0)
            whole = int(mp.floor(far))
            return self._mixed(count, whole, far - whole, 10 + 6 * fine)

    def _mixed(self, count, whole, rest, size):
        points, weights = rule(size)
        edges, width = self.edges(), long(self.width)
        nodes = (edges[:-1, None] + np.diff(edges)[:, None] * points).ravel()
        steps = [self._matrices(cell, nodes, edges, (points, weights)) for cell in range(self.cells)]
        at = long(rest) * width
        panel = min(int(np.searchsorted(edges, at, side="right")) - 1, len(edges) - 2)
        look = np.zeros(len(nodes), dtype=LONG)
        local = (at - edges[panel]) / (edges[panel + 1] - edges[panel])
        look[panel * size : (panel + 1) * size] = basis(points, local)
        inside = 1 - self.atoms[0] - self.atoms[1]
        # E[e^D; between the atoms]: Q's mass there is e^{-largest} times it
        lifted = mp.exp(self.largest) * self._other_inside()
        total, table, ways = mp.mpf(0), np.zeros((0, len(nodes)), dtype=LONG), mp.mpf(1)
        for draws in range(count + 1):
            ends = (inside**draws, lifted**draws)
            part = self._shifted(count - draws, whole, rest, (table @ look, ends))
            total += ways * part
            if (
                draws > 20
                and ways * ends[0] * (1 - inside) ** (count - draws) < total * mp.mpf(10) ** -24
                and draws > count * inside
            ):
                break
            ways *= mp.mpf(count - draws) / (draws + 1)
            table = self._next(table, steps, (nodes, width), tuple(long(end) for end in ends), whole)
        return total

    def _other_inside(self):
        """Q's mass between the atoms."""
        low, high = self.largest - self.cells * self.width, self.largest
        return 1 - self.atoms[0] * mp.exp(-high) - self.atoms[1] * mp.exp(-low)

    def _matrices(self, cell, nodes, edges, quadrature):
        """From the values on the same cell, and on the one below, to the integral over one more draw from `cell`."""
        points, weights = quadrature
        size, width = len(points), edges[-1]
        same, below = (np.zeros((len(nodes), len(nodes)), dtype=LONG) for _ in range(2))
        for k, u in enumerate(nodes):
            for matrix, low, high, shift in ((same, LONG(0), u, u), (below, u, width, width + u)):
                cuts = np.unique(np.concatenate([edges, shift - edges, [low, high]]))
                cuts = cuts[(cuts >= low) & (cuts <= high)]
                v = cuts[:-1, None] + np.diff(cuts)[:, None] * points
                heights = self.density(cell, shift - v) * np.diff(cuts)[:, None] * weights
                panels = np.searchsorted(edges, v.mean(axis=1), side="right") - 1
                local = (v - edges[panels][:, None]) / np.diff(edges)[panels][:, None]
                rows = (heights[..., None] * basis(points, local)).sum(axis=1)
                for panel, row in zip(panels, rows, strict=True):
                    matrix[k, panel * size : (panel + 1) * size] += row
        return same, below

    def _next(self, table, steps, places, ends, whole):
        """The cells of one more draw: those before the end are integrals, those after it the closed form."""
        nodes, width = places
        here = len(table)
        most = min(here + self.cells, whole + 1)
        cells = np.arange(here, max(here, most))
        beyond = ends[0] - ends[1] * np.exp(-(cells[:, None] * width + nodes))
        longer = np.concatenate([np.zeros((self.cells + 1, len(nodes)), dtype=LONG), table, beyond])
        found = np.zeros((most, len(nodes)), dtype=LONG)
        for cell, (same, below) in enumerate(steps):
            start = self.cells + 1 - cell
            found += longer[start : start + most] @ same.T + longer[start - 1 : start - 1 + most] @ below.T
        return found

    def _shifted(self, others, whole, rest, parts):
        """Sum over how many of the other draws are low: binomial weights times K at that many cells down."""
        values, (ends, lifted) = parts
        top, bottom = self.atoms
        most = min(others, whole // self.cells)
        width, ends, lifted, odds = long(self.width), long(ends), long(lifted), long(top / bottom)
        kept = math.ceil(25 * math.sqrt(others)) + 400  # the weights fall, or rise to their peak and fall
        low = np.arange(most, max(most - kept, -1), -1)
        cell = whole - low * self.cells
        weights = np.cumprod(np.concatenate([[LONG(1)], low[:-1] / (others - low[:-1] + LONG(1)) * odds]))
        table = np.concatenate([values, np.zeros(1, dtype=LONG)])[np.minimum(cell, len(values))]
        closed = ends - lifted * np.exp(-(cell + long(rest)) * width)
        total = (weights * np.where(cell < len(values), table, closed)).sum()
        return mp.binomial(others, most) * top ** (others - most) * bottom**most * short(total)


def by_fourier(mu, q, order, count, eps):
    """What `Tails` gives, from the tilted law of D on equal places: the power of its transform, some 11 digits.

    The tilt is about the saddle, where the sum lies near y; eps is near no end of the losses. The sum against 1 - e^{-|y - D|}
    has a kink at y alone, which Euler and Maclaurin's term h^2/12 mends.
    """
    size, mu, q, eps = 1 << 20, float(mu), float(q), float(eps)
    at, edge, add = math.log(q / (1 - q)) - mu * mu / 2, math.log1p(-q), order == "add"
    y = -count * edge - eps if add else eps - count * edge
    most = y if add else np.logaddexp(0, at + mu * (mu + 14))  # of one D
    step = y / math.ceil(y * size / (min(count, 8) * y if add else 3 * (y + most)))  # nothing lies beyond
    d = step * np.arange(1, size)
    a = np.log(np.expm1(d))
    log = -0.5 * ((a - at) / mu) ** 2 + np.log((1 + np.exp(-a)) * step / mu / math.sqrt(2 * math.pi))
    log = np.where(d <= most, log if add else log + d + edge, -np.inf)
    tilts = np.geomspace(1e-4, 1e4, 160) * (-1 if add else 1)
    some = np.arange(0, size - 1, 64)  # these tell the saddle well enough
    tilt = tilts[np.argmin([count * np.logaddexp.reduce(log[some] + tilt * d[some]) - tilt * y for tilt in tilts])]
    tilted = log + tilt * d
    k = np.log(np.exp(tilted - tilted.max()).sum()) + tilted.max()
    law = np.append(0.0, np.exp(tilted - k))
    law = np.fft.irfft(np.fft.rfft(law) ** count, size)
    place = round(y / step)
    apart = step * (np.arange(size) - place)
    beyond = apart < 0 if add else apart > 0
    terms = law[beyond] * np.exp(-tilt * apart[beyond]) * -np.expm1(-np.abs(apart[beyond]))
    return (terms.sum() + step * law[place] / 12) * mp.exp(count * k - tilt * y)


class Tails:
    """The Gaussian mechanism on a Poisson sample, `add` or `remove`: losses end on one side, D = log(1 + e^a), a Gaussian.

    log r(u) = log(1 - q) + D, a = mu u - mu^2/2 + log(q/(1 - q)), u the noise; `add` asks of -log r under N(0, 1),
    `remove` of log r under (1 - q) N(0, 1) + q N(mu, 1). K is kept on panels of b,
    y = log(1 + e^b), in double precision: some 13 digits less one for each factor of ten in the count.
    `fine` makes panels and the quadrature's pieces narrower: a higher degree alone gains too little to tell the error.
    """

    def __init__(self, mu, q, order, count, least=1e-30):
        """least: delta that is asked for; noise that only e^-45 of it needs is left out."""
        self.count, self._chains = count, {}
        self.mu, self.q, self.order = mu, q, order
        self.depth = math.sqrt(2 * (45 - math.log(least)))
        self.at = mp.log(q / (1 - q)) - mu * mu / 2
        self.edge = mp.log(1 - q)

    def _sides(self, b):
        """P and Q of D below log(1 + e^b), and above it, of the sampled law and of the other."""
        u = (b - self.at) / self.mu
        plain = (mp.ncdf(u), mp.ncdf(-u))
        moved = (mp.ncdf(u - self.mu), mp.ncdf(self.mu - u))
        mixed = tuple((1 - self.q) * x + self.q * y for x, y in zip(plain, moved, strict=True))
        return mixed, plain

    def one(self, b):
        """K_1."""
        y = mp.log1p(mp.exp(b))
        mixed, plain = self._sides(b)
        if self.order == "add":
            return plain[0] - mp.exp(-self.edge - y) * mixed[0]
        return mixed[1] - mp.exp(self.edge + y) * plain[1]

    def delta(self, eps, fine):
        """For all copies."""
        with mp.workdps(60):
            eps = mp.mpf(eps)
            y = -self.count * self.edge - eps if self.order == "add" else eps - self.count * self.edge
            if y <= 0:
                return mp.mpf(0) if self.order == "add" else 1 - mp.exp(eps)
            b = mp.log(mp.expm1(y))
            if self.count == 1:
                return self.one(b)
            top = mp.ceil(64 * b + 1) / 64
            if (fine, top) not in self._chains:
                self._chains[fine, top] = self._chain(top, min(float(self.mu), 1.0) / (1 + fine))
            edges, values = self._chains[fine, top]
            asked = np.array([float(b)])
            return mp.mpf(float(self._next(self.count - 1, asked, self._rule(asked, edges), values)[0]))

    def _chain(self, last, pace):
        """All copies but one, for places up to `last`, on panels of about this width."""
        low = self.at - self.depth * self.mu
        panels = max(2, math.ceil(float(last - low) / pace))
        edges = float(low) + float(last - low) * np.arange(panels + 1) / panels
        nodes = (edges[:-1, None] + np.diff(edges)[:, None] * rule(SIZE)[0].astype(float)).ravel()
        values = np.array([float(mp.log(self.one(mp.mpf(float(b))))) for b in nodes])
        floor = math.exp(-0.5 * self.depth**2 - 60)  # below e^-100 of what is asked for
        every = self._rule(nodes, edges)
        for done in range(1, self.count - 1):
            values = np.log(np.maximum(self._next(done, nodes, every, values), floor))
        return edges, values

    def _rule(self, asked, edges):
        """Gauss-Legendre in half the gap between a and b', for K of one copy more at places b: weights, panels and shapes."""
        points, weights = (part.astype(float) for part in rule(SIZE))
        low, mu, at = edges[0], float(self.mu), float(self.at)
        whole = np.exp(asked)  # X: (1 + A)(1 + B) = 1 + X
        least, most = np.exp(low), (whole - np.exp(low)) / (1 + np.exp(low))
        inside = most > least
        starts = np.where(inside, low - np.log(np.where(inside, most, 1)), 0) / 2
        # the same gap from the other side, or where the noise is left out
        far = np.exp(at + mu * (self.depth + (mu if self.order == "remove" else 0)))
        rest = np.maximum((whole - far) / (1 + far), np.exp(low))
        ends = np.where(far < most, (np.log(far) - np.log(rest)) / 2, -starts)
        pieces = max(1, math.ceil(float((ends - starts).max(initial=0)) / (2 * (edges[1] - edges[0]))))
        tau = starts[:, None] + (ends - starts)[:, None] * ((np.arange(pieces)[:, None] + points) / pieces).ravel()
        grown, x = np.exp(2 * tau), whole[:, None]
        b = 2 * x / (1 + grown + np.sqrt((1 + grown) ** 2 + 4 * grown * x))
        a = b * grown
        u = (np.log(a) - at) / mu
        law = np.exp(-u * u / 2) / np.sqrt(2 * float(mp.pi)) / mu
        if self.order == "remove":
            law *= (1 + a) * (1 - float(self.q))
        law *= 2 * b * (1 + a) / (a * (1 + b) + b * (1 + a)) * np.tile(weights, pieces)
        pace = edges[1] - edges[0]
        panel = np.clip(((np.log(b) - edges[0]) / pace).astype(int), 0, len(edges) - 2)
        local = np.clip(2 * (np.log(b) - edges[panel]) / pace - 1, -1, 1)
        # K's logarithm in Legendre's polynomials
        legendre = np.polynomial.legendre.legvander(2 * points - 1, SIZE - 1) * (2 * np.arange(SIZE) + 1)
        shapes = np.polynomial.legendre.legvander(local, SIZE - 1) @ (legendre * weights[:, None]).T
        return law * inside[:, None] * (ends - starts)[:, None] / pieces, panel, shapes, edges[0]

    def _next(self, done, asked, known, values):
        """K of one copy more at places b, with what lies beyond; nothing below the first panel."""
        heights, panel, shapes, low = known
        each = np.exp(np.einsum("apk,apk->ap", shapes, values.reshape(-1, SIZE)[panel]))
        found = (heights * each).sum(axis=1)
        if self.order == "remove":
            found += np.array([self._beyond(done, b, low) for b in asked])
        return found

    def _beyond(self, done, b, low):
        """Where one draw takes all of y but what is below the first panel: K_{n-1} is 1 - e^{eps} there."""
        y = float(np.logaddexp(0, b))
        cut = y - math.log1p(math.exp(low))
        u = (math.log(math.expm1(cut)) - float(self.at)) / float(self.mu) if cut > 0 else -math.inf
        plain, moved = (math.erfc(x / math.sqrt(2)) / 2 for x in (u, u - float(self.mu)))
        mixed = plain + float(self.q) * (moved - plain)
        return mixed - math.exp(y + (done + 1) * float(self.edge)) * plain
