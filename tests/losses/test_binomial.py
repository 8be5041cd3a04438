"""Randomized response repeated: eps(delta) is the largest of as many logarithms as there are losses, and nothing is searched."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import Approx, Gaussian, Laplace, Pure, RandomizedResponse
from neartwin.losses.directions import DirectedComposition
from neartwin.losses.families.randomized_response import ResponsePair, TwoSidedSum
from neartwin.losses.summands.atoms import AtomicSum

JOBS = [
    (1, "0.5", "0", "1e-6"),
    (2, "3", "1e-9", "1e-3"),
    (7, "0.01", "0", "1e-15"),
    (20, "0.06641", "0", "1e-15"),
    (200, "0.1", "1e-8", "1e-5"),
    (200, "0.002", "0", "0.005"),
    (300, "0.3", "0", "1e-30"),
    (450, "0.02", "0", "1e-12"),
]


def masses(count, epsilon):
    """(loss, P, Q) of each number of turned answers, in mpmath."""
    z = mp.exp(-mp.mpf(epsilon))
    whole = (1 + z) ** count
    return [
        (
            (count - 2 * k) * mp.mpf(epsilon),
            mp.binomial(count, k) * z**k / whole,
            mp.binomial(count, k) * z ** (count - k) / whole,
        )
        for k in range(count + 1)
    ]


def revealed(count, delta):
    return 1 - (1 - mp.mpf(delta)) ** count


def true_delta(job, eps):
    count, epsilon, delta, _ = job
    finite = sum(p * max(0, 1 - mp.exp(eps - loss)) for loss, p, _ in masses(count, epsilon))
    sure = revealed(count, delta)
    return sure + (1 - sure) * finite


@pytest.mark.parametrize("job", JOBS)
def test_eps_is_where_the_exact_profile_meets_delta(job):
    count, epsilon, delta, target = job
    with mp.workdps(60):
        found = (count * Approx(epsilon=epsilon, delta=delta)).epsilon(target)
        assert found.method == "closed form"
        assert found.width <= 1e-9 * found.upper
        low, high = mp.mpf(found.lower), mp.mpf(found.upper)
        assert true_delta(job, high) <= mp.mpf(target)
        assert true_delta(job, low) >= mp.mpf(target)
        further = mp.mpf(max(found.width, 1e-12))
        assert true_delta(job, low - 10 * further) > mp.mpf(target)


@pytest.mark.parametrize("job", JOBS)
def test_the_profile_lies_inside_its_interval(job):
    count, epsilon, delta, target = job
    whole = count * Approx(epsilon=epsilon, delta=delta)
    top = count * float(epsilon)
    eps = np.append(np.linspace(-0.3 * top, 1.001 * top, 5), whole.epsilon(target).lower)
    found = whole.delta(eps)
    with mp.workdps(60):
        for one, low, high in zip(eps, found.lower, found.upper, strict=True):
            truth = true_delta(job, mp.mpf(float(one)))
            assert low <= min(truth, 1) <= high
            assert one > 0.9 * top or high - low <= 1e-9 * high


@pytest.mark.parametrize("lam", [1e-6, 0.4, 3.0, 50.0])
@pytest.mark.parametrize("epsilon", ["0.0001", "0.3", "5", "33"])
def test_the_transform_of_one_response_is_that_of_fifty_digits(epsilon, lam):
    count = 13
    whole = TwoSidedSum(Fraction(epsilon), count, (0.0, 0.0))
    t = np.array([0.0, 0.01, 1.0, 7.0]) / float(epsilon)
    turned_log, turned_error = whole.log_mgf_ratio(lam, t)
    value, error = whole.log_mgf(lam)
    with mp.workdps(50):
        e, z = mp.mpf(epsilon), mp.exp(-mp.mpf(epsilon))

        def transform(s):
            return (mp.exp(s * e) + z * mp.exp(-s * e)) / (1 + z)

        truth = count * mp.log(transform(mp.mpf(lam)))
        assert abs(value - truth) <= error <= 2e-13 * (lam * float(e) + float(truth))
        assert abs(count * mp.log(transform(lam * (1 + mp.mpf("1e-9")))) - value) > error
        for one, log, bound in zip(t.tolist(), turned_log.tolist(), turned_error.tolist(), strict=True):
            turned = (transform(mp.mpc(lam, one)) / transform(mp.mpf(lam))) ** count
            assert abs(turned / mp.exp(mp.mpc(log)) - 1) <= mp.expm1(bound)
            assert bound <= 1e-10
    assert whole.lattice == (count * Fraction(epsilon), 2 * Fraction(epsilon))


def test_every_term_is_a_bound_so_that_dropping_one_cannot_raise_eps():
    whole = (50 * Pure(epsilon="0.1")).sides("remove")[0].upper.summands[0]
    assert isinstance(whole, TwoSidedSum)
    _, a, b, error = whole.law
    lower, upper = whole.inverse(1e-6, 1e-6)
    terms = np.log(np.maximum(a - 1e-6, 1e-300) / b)
    assert lower <= terms.max() <= upper
    assert terms.max() - lower < 1e3 * error
    eps = float(terms.max())
    assert np.all(a - np.exp(eps) * b <= 1e-6 * (1 + 1e-9))


def test_the_sum_agrees_with_the_lattice_that_answers_for_mixtures():
    alone = (200 * RandomizedResponse(epsilon="0.1")).epsilon("1e-8")
    mixed = (199 * RandomizedResponse(epsilon="0.1") + 1 * RandomizedResponse(epsilon="0.1000000001")).epsilon("1e-8")
    many = (1000 * RandomizedResponse(epsilon="0.1")).epsilon("1e-8")
    assert alone.method == "closed form"
    assert many.method == "lattice"
    assert abs(alone.upper - mixed.upper) < 1e-8


def test_what_would_under_or_overflow_takes_another_route():
    kinds = [
        type(ResponsePair(Fraction(epsilon), Fraction(0), 0).repeated(count))
        for epsilon, count in (("0.1", 200), ("0.1", 901), ("5", 200), ("1e-6", 5))
    ]
    assert kinds == [TwoSidedSum, AtomicSum, AtomicSum, AtomicSum]
    found = (200 * Pure(epsilon=5)).epsilon("1e-6")
    assert np.isfinite(found.upper)
    assert found.width < 1e-6 * found.upper


def test_a_factor_that_is_the_same_both_ways_has_one_side():
    whole = 2 * Gaussian(mu=1) + 3 * Laplace(epsilon="0.1") + Approx(epsilon="0.1", delta="1e-9")
    sides = [DirectedComposition.of(whole.uses, order) for order in ("remove", "add", "replace", "replace_back")]
    assert all(side.dominating == sides[0].dominating and side.attained == sides[0].attained for side in sides)
    assert len(whole.sides(None)) == 1
