"""Many noises at one rate: with x = mu u - mu^2/2 the ratio r(x) = 1 - q + q e^x is that of every law under remove and add.

So all laws share the nodes x and their losses. A law is a row of weights on them. Gauss's rule over the variances lets some
fifty laws of its own choice stand for more on a line.
Equations (S21) to (S24): docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from neartwin.exact import FloatArray, floats_around
from neartwin.losses.summands import rounding
from neartwin.losses.summands.atoms import Layout, Nodes, QuadratureSum, Weighted
from neartwin.losses.summands.base import Summand
from neartwin.losses.summands.rounding import ELEMENTARY, SMALLEST, ComplexArray, NoCertificateError, U
from neartwin.special import ndtr

SHOWN = 64  # laws that bound K of more
PART = 64  # places of a line whose sums are taken first
ROWS, NUMBERS, WORTH = 32, 1 << 17, 1 << 12  # laws at a time; numbers that stay near the processor, or are worth a rule
MOST_NUMBERS = 1 << 23  # of all weights, and of all laws at all frequencies of a line
LARGE, LEAST = 600.0, -200.0  # of an exponent; less is no more than rounding, and floats that small are slow
RULES, DEGREES = (8, 16, 24, 32, 48), 128  # laws of a rule, and degrees of which it is known what it misses
ELLIPSES = np.geomspace(0.02, 0.95, 16)  # about the variances, as shares of the one that reaches 0
STEP = 0.25  # of a tilt, between which a mean loss is bounded
SLIGHT, FIRST = 1e-3, 1e-3  # of errors of first order, and of what is left of 1; of those of weights
FURTHEST = 0.78  # a line from the real one, so that twice as far is below a quarter turn
CLOSE, APART, FADED = 1e-11, 1e-7, -10.0  # what a rule may miss near the saddle and beyond it; log of what may vanish


class Rows(NamedTuple):
    """Tilted laws on the nodes u of one of them.

    Attributes:
        nodes: Those u, and what is the same for all laws.
        n: Their counts, (laws,).
        mu: Their distances, (laws,).
        weights: Rows of sum 1, (laws, nodes).
        moved: The most that errors of weights may move a sum of them with positive factors, relatively, (laws,).
    """

    nodes: Nodes
    n: FloatArray
    mu: FloatArray
    weights: FloatArray
    moved: FloatArray


def _turns(losses: ComplexArray, t: FloatArray) -> ComplexArray:
    """e^{itl} - 1 at each place and frequency, each relatively to min(2, t|l|)."""
    half, faded = np.multiply.outer(losses.real, 0.5 * t), np.expm1(-np.multiply.outer(losses.imag, t))
    sine = np.sin(half)
    turned = 2 * sine * (-sine + 1j * np.cos(half))
    result: ComplexArray = turned + faded * (1 + turned)
    return result


class NoiseSchedule(QuadratureSum):
    """All laws of one rate and one direction, remove or add, each with its count."""

    shares = True
    _last: tuple[Any, ...] = ()

    def __init__(self, uses: Sequence[tuple[Any, int]]) -> None:
        """uses: pairs that differ in mu alone, each with its count."""
        self.uses, self.kinds = sorted(uses, key=itemgetter(1)), len(uses)
        self.n = np.array([count for _, count in self.uses], dtype=float)
        self.mu = np.array([float(pair.mu) for pair, _ in self.uses])
        self.count = sum([count for _, count in uses])
        # as many copies as all have together: what is proved of one of theirs holds for one of each law
        ends: list[Any] = [self.uses[i][0].repeated(self.count) for i in (self.mu.argmin(), self.mu.argmax())]
        self.narrowest, self.widest = ends
        self.top, self.variation, self.ladder = ends[0].top, ends[0].variation, ends[0].ladder
        self.goal, self.shared = ends[0].goal, ends[1].shared
        self.blocks = [slice(start, start + ROWS) for start in range(0, self.kinds, ROWS)]
        low, high = (one.mu**2 for one in ends)
        self.middle, self.half = (low + high) / 2, (high - low) / 2 + 1e-12 * high  # variances lie so far around
        self.rate, self.rule = floats_around(self.uses[0][0].rate)[1], cache(self._rule)

    @property
    def laws(self) -> list[Summand]:
        """Each law alone."""
        return [pair.repeated(count) for pair, count in self.uses]

    @cached_property
    def coarser(self) -> NoiseSchedule | None:
        """As if all laws of a group had the greatest distance of them: more noise is post-processing."""
        size, laws = max(1, self.kinds // SHOWN), sorted(self.uses, key=lambda use: (float(use[0].mu), use[0].mu))
        groups = [laws[start : start + size] for start in range(0, self.kinds, size)]
        return NoiseSchedule([(some[-1][0], sum([n for _, n in some])) for some in groups]) if size > 1 else None

    # -- the rule of all laws ----------------------------------------------------------------------------------------
    def layout(self, low: float, high: float, reach: float) -> Layout:
        """The step of the narrowest law, and ends beyond those of every law (S21)."""
        first, last = self.narrowest, self.widest
        left, right = np.array([one.ends(-1.0, high) for one in (first, last)]).T
        furthest = min(last.mu, max(float(right.max()), first.mu))
        ends = last.mu * float(left.min()) - 0.5 * last.mu**2, furthest * float(right.max()) - 0.5 * furthest**2
        step = rounding.few_bits(first.mu * first.strip.step(low, high, reach, self.goal), 6)
        return Layout(low, high, reach, math.ceil((ends[1] - ends[0]) / step), step, ends, self.goal)

    def nodes(self, layout: Layout) -> tuple[FloatArray, Weighted]:
        """The nodes x; masses are those of each law over its own density."""
        x = layout.places()
        log, error = self.narrowest.log_ratio_at(x)
        remove = self.narrowest.direction == "remove"
        log_masses = math.log(layout.step) + (log if remove else np.zeros_like(x))
        return x, Weighted(log if remove else -log, log_masses, error, error, outside=4 * math.exp(layout.log_error))

    def terms(self, some: Any, nodes: Nodes, logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The greatest exponent of each row of N(x) e^{logs}, and e^{exponent less that}.

        Args:
            some: Which laws.
            nodes: The rule.
            logs: Those of all laws, (nodes,).
        """
        mu, least = self.mu[some], self.narrowest.mu
        # -(x + v/2)^2/2v is -x^2/2v - x/2 - v/8, of which the first alone differs within a row by law
        terms: FloatArray = np.multiply.outer(-0.5 * np.square(least / mu), np.square(nodes.at / least))
        terms += logs - 0.5 * nodes.at
        top: FloatArray = terms.max(axis=1, keepdims=True)
        constant = np.square(mu) / 8 + np.log(mu) + 0.5 * math.log(2 * math.pi)
        return top[:, 0] - constant, np.exp(np.maximum(terms - top, LEAST))

    def lost(self, some: Any, nodes: Nodes, tilt: float, terms: FloatArray) -> FloatArray:
        """The most that errors of weights may move the sum of each row of them (S21).

        Args:
            some: Which laws.
            nodes: The rule.
            tilt: At least 0.
            terms: Rows of weights, perhaps times positive numbers.
        """
        law, x, mu = nodes.weighted, nodes.at, self.mu[some]
        own = law.mass_error + 8 * U * np.abs(law.log_masses) + tilt * (law.loss_error + 6 * U * np.abs(law.losses))
        shared, square, whole = (terms @ np.array([own, x * x, np.ones_like(x)]).T).T
        alike = self.drift(law) + 2 * ELEMENTARY + rounding.blocked(len(x)) + 16 * U * mu * mu
        result: FloatArray = 1.01 * (shared + 16 * U * square / (mu * mu) + alike * whole)
        return result

    def drift(self, law: Weighted) -> float:
        """The most that a loss errs by, or an angle, over itself; a loss of 0 is exact."""
        return float((law.loss_error / np.maximum(np.abs(law.losses), SMALLEST)).max()) + 8 * U

    def weights(self, some: Any, nodes: Nodes, tilt: float) -> FloatArray:
        """Those of the tilted laws, rows of sum 1.

        Args:
            some: Which laws.
            nodes: The rule.
            tilt: At least 0.
        """
        if self.kinds * len(nodes.at) > MOST_NUMBERS:
            raise NoCertificateError
        terms = self.terms(some, nodes, nodes.weighted.log_masses + tilt * nodes.weighted.losses)[1]
        starts = np.arange(0, len(nodes.at), rounding.block(len(nodes.at)))
        terms /= np.add.reduceat(terms, starts, axis=1).sum(axis=1, keepdims=True)
        return terms

    # -- K -----------------------------------------------------------------------------------------------------------
    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """About those of the smallest rule."""
        if self.kinds > RULES[0]:
            return self.rule(RULES[0])[0].cumulants(tilt)
        try:
            nodes = self._nodes(max(8.0, 8.0 ** math.ceil(math.log(tilt, 8))), 0.0)
        except NoCertificateError:  # the tilt is too great
            return math.inf, math.inf, math.inf
        losses = nodes.weighted.losses
        top, terms = self.terms(slice(None), nodes, nodes.weighted.log_masses + tilt * losses)
        whole, first, second = (terms @ np.array([np.ones_like(losses), losses, losses * losses]).T).T
        each = np.array([top + np.log(whole), first / whole, np.maximum(second / whole - (first / whole) ** 2, 0.0)])
        k, mean, variance = (each @ self.n).tolist()
        return k, mean, variance

    @np.errstate(all="ignore")  # the logarithm of a great sum alone is taken
    def each(self, tilt: float) -> tuple[FloatArray, FloatArray]:
        """K and its error of one copy of each law: log(1 + sum p (e^{tilt l} - 1)).

        The last is e^{max(tilt l, 0)} sign(l) (1 - e^{-tilt |l|}).

        Args:
            tilt: At least 0.
        """
        nodes = self._nodes(tilt, 0.0)
        law, fixed = nodes.weighted, rounding.gamma(len(nodes.at)) + 4 * ELEMENTARY * (2 + np.abs(np.log(self.mu)))
        share = -np.expm1(-tilt * np.abs(law.losses))
        signed, k, error = np.sign(law.losses) * share, np.empty(self.kinds), np.empty(self.kinds)
        for some in self.blocks:
            top, terms = self.terms(some, nodes, law.log_masses + np.maximum(tilt * law.losses, 0.0))
            sums, above = terms @ signed, np.exp(-np.maximum(top, -LARGE))
            k[some] = np.where(top > LARGE, top + np.log(sums), np.log1p(np.exp(np.minimum(top, LARGE)) * sums))
            terms *= share
            moved = (self.lost(some, nodes, tilt, terms) + fixed[some] * terms.sum(axis=1)) / (above + sums)
            error[some] = -np.log1p(-np.minimum(moved, 1.0)) + 4 * ELEMENTARY * np.abs(k[some]) + 2 * law.outside
        return k, error

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Sum of n times that of each."""
        k, error = self.each(tilt)
        rounded = (self.kinds + 4) * U * float(self.n @ np.abs(k))
        return float(self.n @ k), 1.01 * float(self.n @ error) + rounded

    # -- the line ----------------------------------------------------------------------------------------------------
    @np.errstate(all="ignore")
    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """The smallest rule that misses little stands for all laws (S24), else each for itself."""
        counts = [count for count in RULES if 2 * count < self.kinds and self.kinds * len(t) > WORTH]
        largest, kernel = self._largest(tilt, t) if counts else np.empty(0), 1 / (tilt * tilt + t * t)
        for few, missed in map(self.rule, counts):
            error = (largest * missed[:, None]).min(axis=0)  # it rises in t
            near = int((error <= APART).sum())
            tail = self.log_tail(tilt, float(t[near]), math.inf) if near < len(t) else -LARGE
            if tail <= FADED and error[:near] @ kernel[:near] <= CLOSE * kernel.sum():
                # beyond, no modulus is above e^tail, so that no value differs from it by more than twice itself
                value = np.full(len(t), tail, dtype=complex)
                value[:near], own = few.by_rows(tilt, t[:near])
                error[:near], error[near:] = error[:near] + own, 1.1
                return value, error
        return self.by_rows(tilt, t)

    def _largest(self, tilt: float, t: FloatArray) -> FloatArray:
        """A bound on |log M_v(tilt + it)/M_v(tilt)| for v in each ellipse, or infinity, (ellipses, frequencies).

        It is that of the logarithm less it times the loss at u = 0: a rule misses nothing of a constant but that of its counts.
        """
        grown, outer = self._ellipses[1][:, None], self._ellipses[2]
        one, here, there = (np.add(*outer.each(at))[:, None] for at in (1.0, tilt, tilt + STEP))
        mu, grows = outer.mu[:, None], np.power(1 - self.rate, (-1 - tilt) * (self.narrowest.direction == "add"))
        constant = -np.log1p(self.rate * np.expm1(-0.5 * np.square(mu)))
        # the last factor is 2H
        away = constant * np.exp(here) + grows * (self.rate * (2 * ndtr(mu) - 1 + 64 * U) + np.expm1(-constant))
        still = np.expm1(here) + tilt * (away + constant)
        moved = np.fmin((np.expm1(there) / STEP + away) * t, (one + away) * t + 2 * still)
        left = 1 - grown * (still + moved)
        return np.where(left > SLIGHT, grown * moved / left * (1 + 1e-6), np.inf)

    @cached_property
    def _ellipses(self) -> tuple[FloatArray, FloatArray, NoiseSchedule]:
        """Rho of each, the most of |N_v| over N of a real variance there, and a law of the greatest such variance of each."""
        far = self.middle / self.half
        rho = 1 + ELLIPSES * (far + math.sqrt(far * far - 1) - 1)
        x, y = (rho + 1 / rho) / 2, (rho - 1 / rho) / 2
        turn = y / np.sqrt(far * far - x * x)
        grown = (1 + turn * turn) ** 0.25 * np.exp(self.half * y * turn / 8) * (1 + 1e-9)
        return rho, grown, self._alike(np.sqrt(self.middle + self.half * x) * (1 + 1e-9), np.ones(len(rho)))

    def _alike(self, mu: FloatArray, n: FloatArray) -> NoiseSchedule:
        pair = self.uses[0][0]
        return NoiseSchedule([(replace(pair, mu=Fraction(one)), k) for one, k in np.array([mu, n]).T.tolist()])

    def _polynomials(self, mu: FloatArray) -> Any:
        """Chebyshev's at the variances of these distances, (laws, degrees)."""
        return chebvander((np.square(mu.astype(np.longdouble)) - self.middle) / self.half, DEGREES - 1)

    @cached_property
    def _moments(self) -> tuple[Any, FloatArray]:
        """Sums of those over all copies, and the product by x in an orthonormal basis of the first."""
        every = self._polynomials(self.mu)
        basis = np.linalg.qr(every[:, : RULES[-1]].astype(float) * np.sqrt(self.n)[:, None])[0]
        return self.n @ every, basis.T @ (every[:, 1, None].astype(float) * basis)

    def _rule(self, count: int) -> tuple[NoiseSchedule, FloatArray]:
        """Gauss's rule for all variances, and the most that it misses of a function of modulus 1 in each ellipse (S24).

        Args:
            count: The number of laws that stand for all.
        """
        sums, product = self._moments
        at, turned = np.linalg.eigh(product[:count, :count])
        mu = np.clip(np.sqrt(np.maximum(self.middle + self.half * at, 0.0)), self.narrowest.mu, self.widest.mu)
        few = self._alike(mu, float(self.n.sum()) * np.square(turned[0]))
        rho, copies, degrees = self._ellipses[0], float(self.n.sum() + few.n.sum()), np.arange(float(DEGREES))
        unit, wide = float(np.finfo(np.longdouble).eps), self.widest.mu**2 / self.half
        missed = np.abs(sums - few.n @ self._polynomials(few.mu)).astype(float)
        missed += copies * unit * (self.kinds + 8 + (4 + 8 * wide) * degrees * degrees)
        powers = np.power(rho[:, None], -degrees)
        every = 2 * powers @ missed + 2 * copies * powers[:, -1] / (rho - 1)
        moved = 4 * U * wide * copies / ((rho + 1 / rho) / 2 - 1)  # by the rounding of distances and counts
        return few, (every + moved) * (1 + 1e-9)

    @np.errstate(all="ignore")
    def by_rows(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Law by law, on a line of x + ia where all that turns fast has faded (S22).

        Args:
            tilt: As of `log_mgf_ratio`.
            t: As there.
        """
        value, error = np.zeros(len(t), dtype=complex), np.zeros(len(t))
        if len(t) < 2:
            return value, error
        losses, every, moved, outside = self._beside(tilt, t)
        parts = [slice(first, first + PART) for first in range(0, len(losses), PART)]
        few = math.isqrt(len(t) - 1) + 1  # e^{itl} is a product of a coarse and a fine turn
        fine, coarse = (_turns(losses, one) for one in (t[1] * np.arange(few), t[1] * few * np.arange(few)))
        together = max(1, NUMBERS // len(t))
        for some in [slice(first, first + together) for first in range(0, self.kinds, together)]:
            weights, n = every[some], self.n[some]
            ratios = np.zeros((len(n), few, few), dtype=complex)
            for one in parts:
                ratios += (weights[:, one] @ coarse[one])[:, :, None]
                ratios += (weights[:, None, one] * (1 + coarse[one].T)) @ fine[one]
            less_one = ratios.reshape(len(n), -1)[:, : len(t)]
            slow, fast, faded = (moved[some, i, None] for i in range(3))
            off = slow * t + np.minimum(fast * t, faded) + outside
            log, bound = rounding.log_one_plus(less_one.real, less_one.imag, off)
            bound[(n % 1 > 0)[:, None] & (bound > SLIGHT)] = np.inf  # of whole copies alone every power errs so
            value += n @ log
            error += n @ (bound + (self.kinds + 4) * U * (np.abs(log.real) + np.abs(log.imag)))
        return value, 1.01 * error

    def _beside(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, ComplexArray, FloatArray, float]:
        """Losses and tilted laws at x + ia, or x - ia under add (S22).

        Args:
            tilt: As of `log_mgf_ratio`.
            t: As there.

        Returns:
            Losses with imaginary parts above 0, (places,); rows of weights of sum 1, (laws, places); what rounding moves a sum of
            weights and differences of turns by, over t, and further over t but in all no more than the third, (laws, 3); and what
            the rule leaves out.
        """
        one, remove, least = self.narrowest, self.narrowest.direction == "remove", self.narrowest.mu
        a = min(least, FURTHEST)
        # at most, twice as far away
        grown = 2 * (a / least) ** 2 + min(one.strip.hidden(tilt), -tilt * math.log(math.cos(a)))
        step = rounding.few_bits(2 * math.pi * a / (1 + grown - self.goal), 6)
        layout = self.layout(tilt, tilt, 0.0)._replace(step=step)
        side, power, x = (1.0, 1 + tilt, layout.places()) if remove else (-1.0, tilt, layout.places())
        log, log_error = one.log_ratio_at(x)
        # the greatest density of any variance; the rest is less than what is left out, for M(tilt) >= 1
        most = np.clip(2 * np.abs(x), least**2, self.widest.mu**2)
        height = side * power * log - 0.5 * x - 0.5 * np.square(x) / most - most / 8
        kept = height > self.goal - grown - math.log(len(x))
        x, log, log_error = x[kept], log[kept], log_error[kept]
        if self.kinds * max(len(x), len(t)) > MOST_NUMBERS:
            raise NoCertificateError
        modulus, argument, relative = (part[0] for part in one.turned(x / least + 0.5 * least, np.array([a])))
        losses, sizes = side * (log + modulus) + 1j * argument, np.abs(log) + np.abs(modulus) + argument
        lost, v = log_error + relative * (np.abs(modulus) + argument) + 4 * U * sizes, np.square(self.mu)[:, None]
        exponents = power * losses - 0.5 * x - 0.5 * np.square(x) / v
        turns = exponents.imag - side * a * (x / v + 0.5)
        weights = np.exp(np.maximum(exponents.real - exponents.real.max(axis=1, keepdims=True), LEAST))
        weights = weights * (np.cos(turns) + 1j * np.sin(turns))
        starts = np.arange(0, len(x), rounding.block(len(x)))
        weights /= np.add.reduceat(weights, starts, axis=1).sum(axis=1, keepdims=True)
        # a difference of turns is at most t |l|, or 4, and t |l| e^{-t Im l} at most |l| / (e Im l)
        faded, each = np.maximum(4.0, sizes / (math.e * argument)), np.abs(weights)
        slow = t[-1] * sizes <= faded
        columns = np.array([np.ones_like(x), slow * sizes, ~slow * sizes, np.where(slow, 0.0, faded)])
        alike = (1 + tilt) * lost + 8 * U * (np.abs(x) + a + 8) + 8 * ELEMENTARY
        steady = 8 * ELEMENTARY + 2 * rounding.gamma(PART + 2 * (len(x) // PART) + 2) + 16 * U + lost / sizes
        square, sums = x * x + a * np.abs(x) + a * a, each @ columns.T
        moved = each @ (columns * alike).T + 8 * U * (each @ (columns * square).T / v + v * sums)
        whole = moved[:, :1] + 2 * rounding.blocked(len(x)) * sums[:, :1]
        moved = 1.01 * (moved + each @ (columns * steady).T + whole * sums)[:, 1:]
        if whole.max() > FIRST:
            raise NoCertificateError
        return losses, weights, moved, 8 * (1 + math.exp(grown)) * math.exp(self.goal)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """Sum of n times that of one copy (S23)."""
        nodes, one, last = self._nodes(tilt, 0.0), self.narrowest, self._last
        if last[:2] != (nodes, tilt):  # the last of one tilt are kept; another thread may ask of another tilt meanwhile
            weights = np.concatenate([self.weights(some, nodes, tilt) for some in self.blocks])
            moved = 2 * self.lost(slice(None), nodes, tilt, np.ones((1, len(nodes.at))))
            u = nodes.at / one.mu + 0.5 * one.mu
            self._last = last = nodes, tilt, Rows(replace(nodes, at=u), self.n, self.mu, weights, moved)
        return float(one.log_tail(tilt, t, until, last[2]))

    def zcdp_tail(self, s: float) -> float:
        """As of each law."""
        return min(0.5 * float(self.n @ self.mu**2) * (1 + (self.kinds + 16) * U), super().zcdp_tail(s))
