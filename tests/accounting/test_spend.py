"""What was done becomes the losses of its worst case: each rule against brute force or a closed form, misuse refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from neartwin.accounting.usage import cost, for_group, parallel, repeated, sequential, subsample, use
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import (
    Approx,
    DiscreteGaussian,
    FinitePair,
    Gaussian,
    Laplace,
    Leak,
    Pure,
    RandomizedResponse,
    SubsampledGaussian,
    ZeroConcentrated,
    compose,
)

EPS = np.linspace(0, 3, 7)


def kron(p, q):
    return np.multiply.outer(np.asarray(p, float), np.asarray(q, float)).ravel()


def hockey(p, q, eps):
    return np.maximum(p[:, None] - np.exp(eps) * q[:, None], 0).sum(axis=0)


@pytest.mark.slow
def test_together_and_repeated_are_the_product_of_laws():
    one, two = (("0.5", "0.3", "0.2"), ("0.2", "0.5", "0.3")), (("0.7", "0.3"), ("0.4", "0.6"))
    done = sequential(repeated(FinitePair(p=one[0], q=one[1]), 2), FinitePair(p=two[0], q=two[1]))
    p, q = (kron(kron(one[i], one[i]), two[i]) for i in (0, 1))
    true = np.maximum(hockey(p, q, EPS), hockey(q, p, EPS))
    found = cost(done).delta(EPS)
    assert np.all((found.lower <= true + 1e-14) & (true <= found.upper + 1e-14))
    assert np.all(found.upper - found.lower < 1e-6)


@pytest.mark.slow
def test_disjoint_parts_cost_the_worst_part_or_two_by_relation():
    parts = [repeated(Laplace(epsilon="0.5"), 2), use(Pure(epsilon="0.3")), use(Gaussian(mu="0.9"))]
    alone, found = cost(parallel(*parts)), {}
    for eps in EPS:
        worst = max(cost(part).delta(eps).upper for part in parts)
        assert alone.delta(eps).upper == pytest.approx(worst, rel=1e-9, abs=1e-300)
        pairs = [sequential(parts[i], parts[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
        two = max(cost(pair, neighbours="replace_one").delta(eps).upper for pair in pairs)
        found[eps] = cost(parallel(*parts), neighbours="replace_one").delta(eps).upper
        assert found[eps] == pytest.approx(two, rel=1e-9, abs=1e-300)
    assert found[0.0] > alone.delta(0.0).upper + 0.05


def test_disjoint_parts_met_twice_allow_another_part_each_time():
    parts = parallel(Laplace(epsilon=1), Gaussian(mu=1))
    assert len(cost(repeated(parts, 2)).cases) == 3
    mixed = compose([Laplace(epsilon=1), Gaussian(mu=1)])
    assert mixed in cost(repeated(parts, 2)).cases
    with pytest.raises(PrivacyError, match="ways one unit"):
        cost(repeated(parts, 1000))


def test_the_same_part_everywhere_costs_no_more_for_a_thousand_parts():
    whole = cost(parallel(*[repeated(Laplace(epsilon="0.1"), n) for n in range(1, 1001)]))
    assert whole.cases == (1000 * Laplace(epsilon="0.1"),)


def test_a_sample_is_the_mixture_of_laws_in_each_order():
    p, q, rate = np.array([0.75, 0.25]), np.array([0.25, 0.75]), 0.1
    found = cost(subsample(FinitePair(p=("3/4", "1/4"), q=("1/4", "3/4")), "0.1")).delta(EPS)
    mixed = rate * p + (1 - rate) * q
    true = np.maximum(hockey(mixed, q, EPS), hockey(q, mixed, EPS))
    assert np.allclose(found.upper, true, atol=1e-12)
    assert cost(subsample(Gaussian(mu=1), "0.01")) == cost(SubsampledGaussian(mu=1, rate="0.01"))
    once_more = cost(subsample(subsample(Gaussian(mu=1), "0.1"), "0.1"))
    assert once_more == cost(SubsampledGaussian(mu=1, rate="0.01"))
    pure = cost(subsample(RandomizedResponse(epsilon=1), "0.01")).pure().upper
    assert pure == pytest.approx(math.log1p(0.01 * math.expm1(1)), rel=1e-12)
    leak = cost(subsample(Approx(epsilon=1, delta="0.1"), "0.5")).delta(1.0)
    assert leak.upper == pytest.approx(0.05, rel=1e-9)


def test_uses_of_one_sample_merge_if_gaussian_or_pure_and_else_refuse():
    many = cost(subsample(4 * Gaussian(mu="0.5"), "0.2"))
    assert many == cost(SubsampledGaussian(mu=1, rate="0.2"))
    assert many.epsilon("1e-3").lower > cost(repeated(subsample(Gaussian(mu="0.5"), "0.2"), 4)).epsilon("1e-3").upper
    pure = cost(subsample(repeated(Laplace(epsilon=1), 2), "0.1")).pure().upper
    assert pure == pytest.approx(math.log1p(0.1 * math.expm1(2)), rel=1e-12)
    for refused in (
        subsample(Laplace(epsilon=1) + Gaussian(mu=1), "0.1"),
        subsample(ZeroConcentrated(rho=1), "0.1"),
        subsample(repeated(DiscreteGaussian(sigma2=4), 2), "0.1"),
        subsample(for_group(Gaussian(mu=1), 2), "0.1"),
    ):
        with pytest.raises(PrivacyError):
            cost(refused)
    with pytest.raises(PrivacyError, match="replace-one"):
        cost(subsample(Gaussian(mu=1), "0.1"), neighbours="replace_one")


def test_group_takes_k_times_the_distance_or_a_theorem_never_parts():
    group = cost(for_group(sequential(Gaussian(mu="0.1"), repeated(Laplace(epsilon="0.1"), 2)), 3))
    assert group == cost(sequential(Gaussian(mu="0.3"), repeated(Laplace(epsilon="0.3"), 2)))
    assert cost(for_group(ZeroConcentrated(rho="0.02"), 3)) == cost(ZeroConcentrated(rho="0.18"))
    approximate = cost(for_group(Approx(epsilon="0.5", delta="1e-6"), 3)).cases[0]
    (factor,) = approximate.uses
    assert (factor.of.epsilon, float(factor.of.delta)) == (Fraction(3, 2), pytest.approx(5.36700309e-06, rel=1e-8))
    for refused in (
        for_group(parallel(Gaussian(mu=1), Gaussian(mu=2)), 2),
        for_group(Leak(delta="0.6"), 2),
        sequential(for_group(Gaussian(mu=1), 2), Gaussian(mu=1)),
    ):
        with pytest.raises(PrivacyError):
            cost(refused)
    assert cost(for_group(parallel(Gaussian(mu=1), Gaussian(mu=2)), 1)) == cost(
        parallel(Gaussian(mu=1), Gaussian(mu=2))
    )


def test_asymmetric_loss_is_no_part_under_replace_one():
    parts = parallel(SubsampledGaussian(mu=1, rate="0.1"), Gaussian(mu=1))
    assert len(cost(parts).cases) == 2
    with pytest.raises(PrivacyError, match="leaves one part"):
        cost(parts, neighbours="replace_one")


def test_views_over_cases_are_the_worst_and_one_sided_fits_refused():
    cases = cost(parallel(Pure(epsilon=2), Gaussian(mu=2)))
    assert cases.pure().upper == math.inf
    assert cases.advantage().upper == pytest.approx(math.tanh(1), rel=1e-9)  # 0.7616 against 0.6827
    alpha = np.array([0.01, 0.1, 0.4])
    both = [cost(part).tradeoff(alpha).lower for part in (Pure(epsilon=2), Gaussian(mu=2))]
    assert np.allclose(cases.tradeoff(alpha).lower, np.minimum(*both))
    assert np.all(cases.tpr(alpha).upper >= 1 - np.minimum(*both))
    with pytest.raises(PrivacyError, match="add/remove only"):
        cost(SubsampledGaussian(mu=1, rate="0.1"), neighbours="replace_one").zcdp()


@pytest.mark.parametrize(
    "bad",
    [
        lambda: use(1),
        lambda: repeated(Gaussian(mu=1), 0),
        lambda: repeated(Gaussian(mu=1), 1.5),
        sequential,
        parallel,
        lambda: subsample(Gaussian(mu=1), 1),
        lambda: subsample(Gaussian(mu=1), 0),
        lambda: for_group(Gaussian(mu=1), 0),
        lambda: cost(Gaussian(mu=1), neighbours="both"),
        lambda: cost("gaussian"),
    ],
)
def test_a_spend_outside_its_rules_is_refused(bad):
    with pytest.raises(ParameterError):
        bad()


def grown(rng, depth):
    """A random usage of randomized responses, and the sets of them that one unit can meet, with their epsilons."""
    if depth == 0 or rng.random() < 0.3:
        name = float(rng.integers(1, 2**20)) / 2**20
        return RandomizedResponse(epsilon=Fraction(name)), [{name}]
    inner = [grown(rng, depth - 1) for _ in range(rng.integers(2, 4))]
    usages, sets = zip(*inner, strict=True)
    if rng.random() < 0.6:
        return parallel(*usages), [one for of in sets for one in of]
    return sequential(*usages), [set().union(*way) for way in itertools.product(*sets)]


@pytest.mark.parametrize("seed", range(40))
def test_a_replaced_unit_meets_what_it_leaves_and_what_it_enters(seed):
    """Nested parts: the unit and its replacement choose their parts anew at each branching, so their mechanisms are joined."""
    rng, sets = np.random.default_rng(seed), []
    while not 1 < len(sets) <= 12:  # more pairs are refused
        usage, sets = grown(rng, 3)
    truth = {
        "add_remove": max(sum(one) for one in sets),
        "replace_one": max(sum(left | entered) for left in sets for entered in sets),
    }
    for neighbours, epsilon in truth.items():
        found = cost(usage, neighbours=neighbours).pure()
        assert found.lower <= epsilon * (1 + 1e-12)
        assert epsilon * (1 - 1e-12) <= found.upper
        assert found.width <= 1e-9 * epsilon
