"""Random jobs of every kind: routes overlap, finer answers lie inside coarser, truth is inside; how often each answered.

A seeded few in every check; two hundred fresh ones against the oracles in the slow tests, and a thousand in `test_many_jobs`.
"""

import math
import secrets
import time
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from neartwin.losses import Composition, FinitePair, Geometric, RandomizedResponse, compose
from neartwin.losses.inversion import contour, lattice
from neartwin.losses.inversion.contour_search import CONTOUR, LATTICE, by_line
from neartwin.losses.inversion.total import Saddle
from neartwin.losses.summands.rounding import NoCertificateError
from tests.losses import strata
from tests.losses.jobs import EXACT, FACTORS, job


def lines(total, delta, answered):
    """Certified lines near this delta's saddle that are not the answer's own: another route, another tilt, wider kernels."""
    at = Saddle.for_delta(total, delta)
    lower = at.lower(total, 0.7)
    builders = {
        "lattice": lambda: lattice.build(total, lower if answered == LATTICE else at),
        "contour": lambda: contour.build(total, at if answered == LATTICE else lower, 0.0),
        "smooth": lambda: contour.build(total, at, 0.2 / (at.tilt + 1)),
    }
    for name, build in builders.items():
        try:
            yield name, build()
        except (NoCertificateError, OverflowError, ValueError):
            continue


WIDTHS = (1e-3, 1e-6, 1e-8, 1e-9)


def inside(fine, coarse):
    """Whether one interval is part of another, to the last bit."""
    return coarse[0] <= fine[0] <= fine[1] <= coarse[1]


def ends(uses, delta, direction, rtol):
    """The ends of eps, and of delta there, of a whole that nothing was asked before."""
    found = compose(uses).epsilon(delta, direction=direction, rtol=rtol)
    return found.lower, found.upper


def ends_of_delta(uses, eps, direction, rtol):
    each = [side.delta(np.array([eps]), rtol)[:2] for side in compose(uses).sides(direction)]
    return max(float(low[0]) for low, _ in each), max(float(high[0]) for _, high in each)


def refined(seed, count):
    """Ask every job at every width, of eps and of delta; how many answers changed, all of them to parts of the wider."""
    rng, changed = np.random.default_rng(seed), 0
    for _ in range(count):
        uses, delta, direction = job(rng)
        found = [ends(uses, delta, direction, rtol) for rtol in WIDTHS]
        if math.isinf(found[0][1]):
            continue
        values = [ends_of_delta(uses, found[-1][1], direction, rtol) for rtol in WIDTHS]
        for coarse, fine in (*pairwise(found), *pairwise(values)):
            assert inside(fine, coarse), (uses, delta, direction, coarse, fine)
            changed += fine != coarse
    return changed


class Figures(NamedTuple):
    """What many jobs were answered by, how widely (relative to eps), in how much processor time, with how many lines compared."""

    routes: Counter
    widths: list
    seconds: list
    compared: int

    def __add__(self, other):
        return Figures(*(mine + others for mine, others in zip(self, other, strict=True)))

    def __str__(self):
        quantiles = [0.5, 0.9, 0.99, 0.995, 1]
        widths, seconds = np.quantile(self.widths, quantiles), np.quantile(self.seconds, quantiles)
        return (
            f"{len(self.widths)} jobs, routes {dict(self.routes)}, {self.compared} lines compared; at {quantiles}: "
            f"widths {widths}, seconds {seconds}; within 1e-3: {np.mean(np.array(self.widths) <= 1e-3):.4%}"
        )


def sweep(seed, count):
    """Ask every job; compare every route's bracket of delta with every other's."""
    rng = np.random.default_rng(seed)
    figures = Figures(Counter(), [], [], 0)
    for _ in range(count):
        uses, delta, direction = job(rng)
        start = time.process_time()
        whole: Composition = compose(uses)
        found = whole.epsilon(delta, direction=direction)
        seconds = time.process_time() - start
        assert 0 <= found.lower <= found.upper, (uses, delta, direction)
        width = 0.0 if math.isinf(found.lower) else found.width / max(found.upper, 1e-300)
        if found.method == CONTOUR:
            assert width <= 1e-8, (uses, delta, direction, found)
        compared = agree(whole, float(delta), direction, found, uses) if math.isfinite(found.upper) else 0
        figures += Figures(Counter([found.method]), [width], [seconds], compared)
    print(f"seed {seed}: {figures}")
    return figures


def agree(whole, delta, direction, found, uses):
    """All lines' brackets of delta at three eps have a common point; so has the answer's. How many were compared."""
    compared = 0
    for side in whole.sides(direction):
        total = side.upper
        if len(total.summands) == 1 and total.summands[0].delta(np.zeros(1)) is not None:
            continue
        eps = np.array([found.lower, 0.5 * (found.lower + found.upper), found.upper])
        low, high = side.delta(eps)[:2]
        infinity = total.infinity
        for name, line in lines(total, max(delta - infinity[1], 1e-300), found.method):
            one, other = line.delta(eps)
            one, other = infinity[0] + (1 - infinity[0]) * one, infinity[1] + (1 - infinity[1]) * other
            slack = 1e-15 * np.abs(high)
            assert np.all(one <= high + slack), (name, uses, delta, direction, one, high)
            assert np.all(other >= low - slack), (name, uses, delta, direction, other, low)
            low, high = np.maximum(low, one), np.minimum(high, other)
            compared += 1
    return compared


def test_a_few_seeded_jobs_of_every_kind_agree():
    figures = sweep(20, 12)
    assert sum(figures.routes.values()) == 12
    assert np.quantile(figures.widths, 0.9) < 1e-7


def against_truth(seed, each):
    """Every interval holds its job's truth, to what the oracle errs by; how many were asked, and how many oracles answered.

    An oracle that errs by more than a billionth would see little: only those below count.
    """
    rng, asked, sharp = np.random.default_rng(seed), 0, 0
    for name, whole, delta, direction, oracle in strata.jobs(rng, each):
        asked += 1
        found = whole.epsilon(delta, direction=direction)
        try:
            ends = [oracle(end) for end in (found.lower, found.upper)]
        except ArithmeticError:  # a sum too long: said by the oracle itself
            continue
        (above, error), (below, other) = ends
        assert found.lower == 0 or above + error >= delta, (name, whole, delta, direction)
        assert below - other <= delta, (name, whole, delta, direction)
        sharp += bool(other <= 1e-9 * delta)
    return asked, sharp


@pytest.mark.slow
def test_hundreds_of_jobs_contain_their_truth():
    asked, sharp = against_truth(secrets.randbits(32), 11)
    assert asked >= 165
    assert sharp >= 0.95 * asked


def test_finer_answers_of_a_few_jobs_lie_inside_coarser_ones():
    assert refined(20, 12) >= 3


@pytest.mark.slow
def test_no_answer_depends_on_what_was_asked_before():
    rng = np.random.default_rng(7)
    for _ in range(6):
        uses, delta, direction = job(rng)
        whole = compose(uses)
        eps = whole.epsilon(delta, direction=direction)
        if math.isinf(eps.upper):
            continue
        whole.delta(0.9 * eps.upper, direction=direction)
        assert whole.delta(eps.upper, direction=direction) == compose(uses).delta(eps.upper, direction=direction)
        assert whole.epsilon(delta, direction=direction) == eps


def test_a_coarse_delta_has_no_bound_that_a_finer_one_lacks():
    uses = {RandomizedResponse(epsilon="0.08919", answers=5): 70, Geometric(epsilon="0.004112", sensitivity=3): 1}
    coarse, fine = (ends_of_delta(uses, 6.0, "add", rtol) for rtol in (1e-6, 1e-8))
    assert inside(fine, coarse)
    assert fine != coarse


@pytest.mark.slow
def test_lines_of_two_widths_alone_do_not_nest():
    """So that it is seen to matter that the finer answer goes through the coarser one."""
    law = FinitePair(p=("9/31", "4/31", "4/31", "14/31"), q=("1/6", "1/12", "17/48", "19/48"))
    apart = 0
    for count, delta in ((181, 1e-12), (182, 1e-10), (197, 1e-14)):
        total = compose({law: count}).sides("remove")[0].upper
        coarse, fine = (by_line(total, delta, delta, levels=(level,), rtol=level) for level in (1e-8, 1e-9))
        assert max(fine.lower, coarse.lower) <= min(fine.upper, coarse.upper)
        apart += not inside((fine.lower, fine.upper), (coarse.lower, coarse.upper))
    assert apart > 0


def test_the_jobs_cover_every_factor():
    rng = np.random.default_rng(1)
    seen = {type(factor).__name__ for _ in range(300) for factor in job(rng)[0]}
    assert len(seen) == len({type(FACTORS[name](rng)).__name__ for name in EXACT})
