"""Random jobs of every kind: routes overlap, finer lines nest, truth is inside, and how often each route answered.

A seeded few in every check; ten thousand fresh ones, five hundred of them against the oracles, in the slow tests.
"""

import math
import secrets
from collections import Counter

import numpy as np
import pytest

from neartwin.losses import Composed, compose, contour, lattice, saddle
from neartwin.losses.answer import CLOSED, CONTOUR, LATTICE
from neartwin.losses.rounding import NoCertificateError
from tests.losses import strata
from tests.losses.jobs import EXACT, FACTORS, job


def lines(total, delta):
    """Every route's certified line at this delta's saddle, at other tilts and widths too."""
    at = saddle.for_delta(total, delta)
    builders = {"lattice": lambda a: lattice.build(total, a), "contour": lambda a: contour.build(total, a, 0.0)}
    builders["smooth"] = lambda a: contour.build(total, a, 0.2 / (a.lam + 1))
    for tilt in (1.0, 0.7):
        for name, build in builders.items():
            try:
                yield f"{name} at {tilt}", build(at if tilt == 1 else at.lower(total, tilt)), at
            except (NoCertificateError, OverflowError, ValueError):
                continue


def sweep(seed, count, *, compare):
    """Ask every job; count routes and widths; compare every route's bracket of delta with every other's."""
    rng = np.random.default_rng(seed)
    routes, widths, compared = Counter(), [], 0
    for _ in range(count):
        uses, delta, direction = job(rng)
        whole: Composed = compose(uses)
        found = whole.epsilon(delta, direction=direction)
        assert 0 <= found.lower <= found.upper, (uses, delta, direction)
        routes[found.method] += 1
        widths.append(0.0 if math.isinf(found.lower) else found.width / max(found.upper, 1e-300))
        if found.method == CONTOUR:
            assert widths[-1] <= 1e-8, (uses, delta, direction, found)
        if compare and math.isfinite(found.upper):
            compared += agree(whole, float(delta), direction, found, uses)
    quantiles = np.quantile(widths, [0.5, 0.9, 0.99, 1])
    print(f"seed {seed}: {count} jobs, routes {dict(routes)}, compared {compared}; width 50/90/99/100 %: {quantiles}")
    return routes, np.array(widths)


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
        for name, line, _ in lines(total, max((delta - infinity[1]), 1e-300)):
            one, other = line.delta(eps)
            one, other = infinity[0] + (1 - infinity[0]) * one, infinity[1] + (1 - infinity[1]) * other
            slack = 1e-15 * np.abs(high)
            assert np.all(one <= high + slack), (name, uses, delta, direction, one, high)
            assert np.all(other >= low - slack), (name, uses, delta, direction, other, low)
            low, high = np.maximum(low, one), np.minimum(high, other)
            compared += 1
    return compared


def test_a_few_seeded_jobs_of_every_kind_agree():
    routes, widths = sweep(20, 12, compare=True)
    assert sum(routes.values()) == 12
    assert np.quantile(widths, 0.9) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_jobs(part):
    seed = secrets.randbits(32) + part
    routes, widths = sweep(seed, 500, compare=part % 4 == 0)
    assert routes[CLOSED] + routes[LATTICE] + routes[CONTOUR] >= 0.98 * 500  # 99.3 % of all, in the long run
    assert np.mean(widths <= 1e-3) >= 0.99


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


def test_a_few_jobs_of_every_stratum_contain_their_truth():
    asked, sharp = against_truth(5, 1)
    assert asked == len(strata.STRATA)
    assert sharp >= asked - 1


@pytest.mark.slow
def test_five_hundred_jobs_contain_their_truth():
    asked, sharp = against_truth(secrets.randbits(32), 32)
    assert asked >= 500
    assert sharp >= 0.95 * asked


def test_the_jobs_cover_every_factor():
    rng = np.random.default_rng(1)
    seen = {type(factor).__name__ for _ in range(300) for factor in job(rng)[0]}
    assert len(seen) == len({type(FACTORS[name](rng)).__name__ for name in EXACT})
