"""Many responses of one sum, in one array, against an exact convolution in Arb and against each law by itself."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import arb, arb_poly, ctx, fmpq

from neartwin.losses import Approx, Leak, RandomizedResponse, compose
from neartwin.losses.families.randomized_response import ResponseBatch, ResponsePair
from neartwin.losses.inversion import contour, lattice
from neartwin.losses.inversion.total import Saddle

STEP, KINDS = Fraction(1, 1000), 64


def convolved(sizes, answers, eps):
    """Delta of one response of each size, a multiple of the step, by a product of polynomials."""
    with ctx.workprec(300):
        laws, start = [], -sum(sizes)
        for size in sizes:
            k, e = int(size / STEP), arb(fmpq(size.numerator, size.denominator))
            whole = e.exp() + answers - 1
            masses = [arb(0)] * (2 * k + 1)
            masses[0], masses[k], masses[-1] = 1 / whole, arb(answers - 2) / whole, e.exp() / whole
            laws.append(arb_poly(masses))
        while len(laws) > 1:
            laws.append(laws.pop(0) * laws.pop(0))
        (law,) = laws
        found = arb(0)
        for j in range(law.degree() + 1):
            loss = start + j * STEP
            if loss > eps:
                found += law[j] * (1 - (arb(eps) - arb(fmpq(loss.numerator, loss.denominator))).exp())
        return float(found)


@pytest.mark.parametrize("answers", [2, 5])
@pytest.mark.parametrize("shift", [0, Fraction(1, 10**9)])  # on a lattice, and on none that is of use
def test_many_responses_cost_what_their_convolution_says(answers, shift):
    sizes = [STEP * k for k in range(1, KINDS + 1)]
    whole = compose([RandomizedResponse(epsilon=size + shift, answers=answers) for size in sizes])
    assert [type(one) for one in whole.sides(None)[0].upper.summands] == [ResponseBatch]
    for eps in (0.1, 0.5):
        truth, found = convolved(sizes, answers, eps), whole.delta(eps)
        slack = 1e-5 if shift else 1e-12
        assert found.lower * (1 - slack) <= truth <= found.upper * (1 + slack)
        assert found.width < 1e-4 * truth
        assert truth * (1 + 1e-3) not in found


@pytest.mark.parametrize("tilt", [1e-6, 0.4, 30.0, 1e4])
def test_the_transform_of_a_batch_is_that_of_fifty_digits(tilt):
    kinds = {
        ResponsePair(Fraction(size), Fraction(0), others): n
        for n, (size, others) in enumerate([("1e-5", 0), ("0.3", 0), ("0.3", 3), ("5", 10**6), ("33", 1)], 1)
    }
    t = np.array([0.0, 0.01, 1.0, 7.0, 900.0])
    with mp.workdps(50):
        parts = [
            (mp.mpf(pair.epsilon.numerator) / pair.epsilon.denominator, pair.others, n) for pair, n in kinds.items()
        ]

        def log_mgf(s):
            total = mp.mpf(0)
            for e, others, n in parts:
                whole = 1 + (1 + others) * mp.exp(-e)
                total += n * mp.log((mp.exp(s * e) + others * mp.exp(-e) + mp.exp(-(1 + s) * e)) / whole)
            return total

        batch = ResponseBatch(kinds)
        value, error = batch.log_mgf(tilt)
        truth = log_mgf(mp.mpf(tilt))
        assert abs(value - truth) <= error <= 1e-12 * (1 + truth)
        assert abs(log_mgf(tilt * (1 + mp.mpf("1e-9"))) - value) > error
        turned, bounds = batch.log_mgf_ratio(tilt, t)
        still = np.full(len(t), -np.inf)
        caps = batch.log_modulus_bound(tilt, t, 0.01, still)
        for at, log, bound, cap in zip(t.tolist(), turned.tolist(), bounds.tolist(), caps.tolist(), strict=True):
            ratio = mp.exp(log_mgf(mp.mpc(tilt, at)) - truth)
            assert abs(ratio / mp.exp(mp.mpc(log)) - 1) <= mp.expm1(bound)
            assert bound <= 1e-8 * (1 + tilt)
            for near in (max(at - 0.01, 0.0), at, at + 0.01):
                assert mp.re(log_mgf(mp.mpc(tilt, near)) - truth) <= cap
    assert caps.min() < -0.1 or tilt > 1


def test_a_batch_agrees_with_each_law_by_itself(monkeypatch):
    rng = np.random.default_rng(5)
    sizes = [Fraction(int(n), 10**6) for n in rng.integers(10**4, 10**5, KINDS)]
    uses = [
        Approx(epsilon=size, delta=Fraction(k, 10**9)) if k % 4 else RandomizedResponse(epsilon=size, answers=2 + k % 3)
        for k, size in enumerate(sizes)
    ]
    batch = compose(uses).epsilon("1e-5", rtol=1e-3)
    monkeypatch.setattr(ResponsePair, "merges", 10**9)
    apart = compose(uses).epsilon("1e-5", rtol=1e-3)
    assert batch.width <= 1e-3 * batch.upper
    assert max(batch.lower, apart.lower) <= min(batch.upper, apart.upper)


@pytest.mark.slow
def test_a_period_leaves_out_no_frequency_but_a_quiet_one(monkeypatch):
    sizes, eps = 3 * [STEP * k for k in range(33, 33 + 2 * KINDS, 2)], 2.0
    total = compose([RandomizedResponse(epsilon=size) for size in sizes]).sides(None)[0].upper
    truth, at = convolved(sizes, 2, eps), Saddle.for_eps(total, eps)
    few = lattice.build(total, at)
    monkeypatch.setattr(contour, "MANY", 1 << 40)
    every = lattice.build(total, at)
    assert 4 * few.nodes < every.nodes
    assert few.cut > every.cut == 0
    for line in (every, few):
        (low,), (high,) = line.delta(np.array([eps]))
        assert low <= truth <= high <= low * (1 + 1e-9)
    monkeypatch.setattr(contour, "MANY", 1)
    monkeypatch.setattr(ResponseBatch, "log_modulus_bound", lambda *asked: np.full(len(asked[2]), -1e3))
    (low,), (high,) = lattice.build(total, at).delta(np.array([eps]))  # what is not quiet is left out
    assert not low <= truth <= high


@pytest.mark.parametrize("sizes", [range(10, 10 + 10 * KINDS, 10), range(700, 700 + 10 * KINDS, 10)])
def test_responses_that_tell_nearly_all_have_an_answer(sizes):
    found = compose([RandomizedResponse(epsilon=size) for size in sizes]).epsilon("1e-5")
    # the largest loss has a mass above 0.9999 of P, and no other is near
    mass = math.prod(1 / (1 + math.exp(-size)) for size in sizes)
    assert found.lower < sum(sizes) + math.log1p(-1e-5 / mass) < found.upper
    assert found.width < 1e-8 * found.upper
    assert sum(sizes) - 1e-3 not in found


def test_leaks_alone_reveal_what_they_say():
    leaks = [Fraction(k + 1, 10**10) for k in range(KINDS)]
    whole = compose([Leak(delta=leak) for leak in leaks])
    kept = Fraction(1)
    for leak in leaks:
        kept *= 1 - leak
    found = whole.delta(0.1)
    assert Fraction(found.lower) <= 1 - kept <= Fraction(found.upper)
    assert found.width < 1e-12 * found.upper
