"""Many noises at one rate: with x = mu u - mu^2/2 the ratio r(x) = 1 - q + q e^x is that of every law under remove and add.

So all laws share the nodes x, their losses and the turns of these. A law is a row of weights on them. The rows span few
directions: the transform of those few gives all others, and what a row lacks of them is measured.
Equations (S21) to (S23): docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands import atoms, rounding
from neartwin.losses.summands.atoms import Weighted
from neartwin.losses.summands.base import Summand
from neartwin.losses.summands.quadrature import Layout, Nodes, QuadratureSum
from neartwin.losses.summands.rounding import ELEMENTARY, SMALLEST, ComplexArray, NoCertificateError, U

SHOWN, SLIGHT = 64, 1e-14  # laws that show the directions of rows; singular values over the greatest that are left out
ROWS, NUMBERS = 32, 1 << 17  # laws at a time, and numbers of them that stay near the processor
MOST_NUMBERS, MOST_TERMS = 1 << 23, 1 << 27  # of all weights: those that a tail keeps, and those that a line passes by
LARGE, LEAST = 600.0, -200.0  # of an exponent; less is no more than rounding, and floats that small are slow


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


class NoiseSchedule(QuadratureSum):
    """All laws of one rate and one direction, remove or add, each with its count."""

    shares = True
    _last: tuple[Any, ...] = ()

    def __init__(self, uses: Sequence[tuple[Any, int]]) -> None:
        """uses: pairs that differ in mu alone, each with its count."""
        self.uses, self.kinds = sorted(uses, key=itemgetter(1)), len(uses)
        self.n = np.array([count for _, count in self.uses], dtype=float)
        self.mu = np.array([float(pair.mu) for pair, _ in self.uses])
        self.count, rising = sum([count for _, count in uses]), np.argsort(self.mu)
        # as many copies as all have together: what is proved of one of theirs holds for one of each law
        ends: list[Any] = [self.uses[i][0].repeated(self.count) for i in rising[[0, -1]].tolist()]
        self.narrowest, self.widest = ends
        self.top, self.variation, self.ladder = ends[0].top, ends[0].variation, ends[0].ladder
        self.goal, self.shared = ends[0].goal, ends[1].shared
        self.blocks = [slice(start, start + ROWS) for start in range(0, self.kinds, ROWS)]
        # densest at both ends, as the nodes of an interpolation
        places = (0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, SHOWN))) * (len(uses) - 1)
        self.shown = rising[sorted(set(np.rint(places).astype(int).tolist()))]

    @property
    def laws(self) -> list[Summand]:
        """Each law alone."""
        return [pair.repeated(count) for pair, count in self.uses]

    @cached_property
    def coarser(self) -> NoiseSchedule | None:
        """As if all laws of a group had the greatest distance of them: more noise is post-processing."""
        size, laws = max(1, self.kinds // SHOWN), sorted(self.uses, key=lambda use: use[0].mu)
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
        terms = self.terms(some, nodes, nodes.weighted.log_masses + tilt * nodes.weighted.losses)[1]
        starts = np.arange(0, len(nodes.at), rounding.block(len(nodes.at)))
        terms /= np.add.reduceat(terms, starts, axis=1).sum(axis=1, keepdims=True)
        return terms

    # -- K -----------------------------------------------------------------------------------------------------------
    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Those of fewer laws."""
        if self.coarser is not None:
            return self.coarser.cumulants(tilt)
        nodes = self._nodes(max(8.0, 8.0 ** math.ceil(math.log(tilt, 8))), 0.0)
        losses = nodes.weighted.losses
        top, terms = self.terms(slice(None), nodes, nodes.weighted.log_masses + tilt * losses)
        whole, first, second = (terms @ np.array([np.ones_like(losses), losses, losses * losses]).T).T
        each = np.array([top + np.log(whole), first / whole, np.maximum(second / whole - (first / whole) ** 2, 0.0)])
        k, mean, variance = (each @ self.n).tolist()
        return k, mean, variance

    @np.errstate(all="ignore")  # the logarithm of a great sum alone is taken
    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Sum of n log(1 + sum p (e^{tilt l} - 1)); the last is e^{max(tilt l, 0)} sign(l) (1 - e^{-tilt |l|})."""
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
        rounded = (self.kinds + 4) * U * float(self.n @ np.abs(k))
        return float(self.n @ k), 1.01 * float(self.n @ error) + rounded

    # -- the line ----------------------------------------------------------------------------------------------------
    @np.errstate(all="ignore")
    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """All rows as combinations of a few, with what they lack; laws of one count in one product (S22)."""
        nodes = self._nodes(tilt, float(t.max(initial=0.0)))
        if self.kinds * len(nodes.at) > MOST_TERMS:
            raise NoCertificateError
        law, shown = nodes.weighted, self.weights(self.shown, nodes, tilt)
        # rows times |l| + c, c an average |l|: what is lacking of these is slight beside e^{itl} - 1
        size = np.abs(law.losses) + float((shown @ np.abs(law.losses)).mean())
        _, values, directions = np.linalg.svd(shown * size, full_matrices=False)
        basis = directions[values > SLIGHT * values[0]] / size
        basis /= np.abs(basis).sum(axis=1, keepdims=True) * (1 + 1e-9)
        shaped = basis * size
        sizes, inverse = np.abs(shaped).sum(axis=1) * (1 + 1e-9), (shaped / np.square(shaped).sum(axis=1)[:, None]).T
        parts, own = np.zeros((len(basis), len(t)), dtype=complex), np.zeros((len(basis), len(t)))
        turns, together = sizes * float(t[-1]) > atoms.FEW_TURNS, max(1, atoms.BLOCK // len(t))
        for places in map(np.flatnonzero, (turns, ~turns) if len(t) > 1 else ()):
            for alike in np.split(places, range(together, len(places), together)) if len(places) else ():
                real, imaginary, own[alike] = atoms.transformed(law.losses, basis[alike], sizes[alike, None], t)
                parts[alike] = real + 1j * imaginary
        rounded = 2 * rounding.blocked(len(law.losses)) + 2 * rounding.gamma(len(basis) + 16)
        own += rounded * np.multiply.outer(sizes, t)
        drift = self.drift(law) + rounded + 16 * U * math.log2(2 * ROWS)
        shares, lacking = np.empty((self.kinds, len(basis))), np.empty(self.kinds)
        for some in self.blocks:
            rows = self.weights(some, nodes, tilt)
            own_whole = self.lost(some, nodes, tilt, rows)
            rows *= size
            moved_rows = self.lost(some, nodes, tilt, rows) + (own_whole + drift) * rows.sum(axis=1)
            shares[some] = rows @ inverse
            rows -= shares[some] @ shaped
            lacking[some] = np.abs(rows).sum(axis=1) * (1 + 1e-9) + moved_rows
        value, error = np.zeros(len(t), dtype=complex), np.zeros(len(t))
        ends = sorted({*range(0, self.kinds, ROWS), *(np.flatnonzero(np.diff(self.n)) + 1).tolist(), self.kinds})
        for start in range(0, len(t), NUMBERS // ROWS):
            part = slice(start, start + NUMBERS // ROWS)
            for same in itertools.starmap(slice, itertools.pairwise(ends)):
                n = self.n[same]
                moved = np.abs(shares[same]).sum(axis=0) @ own[:, part] + 1.01 * float(lacking[same].sum()) * t[part]
                z = product((shares[same] @ parts[:, part].view(float)).view(complex))
                log, bound = rounding.log_one_plus(z.real, z.imag, 1.01 * moved + 4 * len(n) * law.outside)
                value[part] += n[0] * log
                error[part] += n[0] * (bound + (self.kinds + 4) * U * (np.abs(log.real) + np.abs(log.imag)))
        return value, 1.01 * error

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """Sum of n times that of one copy (S23)."""
        nodes, one, last = self._nodes(tilt, 0.0), self.narrowest, self._last
        if last[:2] != (nodes, tilt):  # the last of one tilt are kept; another thread may ask of another tilt meanwhile
            if self.kinds * len(nodes.at) > MOST_NUMBERS:
                raise NoCertificateError
            weights = np.concatenate([self.weights(some, nodes, tilt) for some in self.blocks])
            moved = 2 * self.lost(slice(None), nodes, tilt, np.ones((1, len(nodes.at))))
            u = nodes.at / one.mu + 0.5 * one.mu
            self._last = last = nodes, tilt, Rows(replace(nodes, at=u), self.n, self.mu, weights, moved)
        return float(one.log_tail(tilt, t, until, last[2]))

    def zcdp_tail(self, s: float) -> float:
        """As of each law."""
        return min(0.5 * float(self.n @ self.mu**2) * (1 + (self.kinds + 16) * U), super().zcdp_tail(s))


def product(z: ComplexArray) -> ComplexArray:
    """The product of all 1 + z, less 1, (frequencies,): (1 + a)(1 + b) = 1 + a + b + ab, by pairs.

    Args:
        z: One row for each law, (laws, frequencies).
    """
    while len(z) > 1:
        half = len(z) // 2
        a, b = z[:half], z[half : 2 * half]
        z = np.concatenate([a * b + a + b, z[2 * half :]])
    return z.ravel()
