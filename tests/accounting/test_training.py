"""What ways of making batches cost: sums over all batches of small data sets, all participations, and another library."""

import math
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from neartwin.accounting import training
from neartwin.accounting.usage import cost, for_group
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import (
    Approx,
    Gaussian,
    Laplace,
    Leak,
    Pure,
    Renyi,
    SubsampledGaussian,
    SubsampledLaplace,
    UpperBound,
)


def hockey_stick(first, second, eps, sigma):
    """Delta of two mixtures of normal laws on a line, each a mapping from centre to weight: the tails between sign changes."""

    def excess(x, kernel):
        return sum(w * kernel(x, c, sigma) for c, w in first.items()) - math.exp(eps) * sum(
            w * kernel(x, c, sigma) for c, w in second.items()
        )

    grid = np.linspace(-50, 50, 801)
    signs = np.sign(excess(grid, norm.pdf))
    changes = [
        brentq(excess, grid[k], grid[k + 1], (norm.pdf,), xtol=1e-14)
        for k in np.flatnonzero(signs[1:] * signs[:-1] < 0)
    ]
    above = [excess(x, norm.sf) for x in (-np.inf, *changes, np.inf)]
    return sum(max(a - b, 0.0) for a, b in pairwise(above))


def averaged(laws):
    """The mixture of laws that are equally likely, from sums of gradients."""
    laws, mixed = list(laws), {}
    for total in laws:
        mixed[total] = mixed.get(total, 0) + 1 / len(laws)
    return mixed


WITHOUT = lambda people, size: map(sum, combinations(people, size))  # noqa: E731
WITH = lambda people, size: map(sum, product(people, repeat=size))  # noqa: E731


@pytest.mark.slow
@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize(("batches", "replacement"), [(WITHOUT, False), (WITH, True)], ids=["without", "with"])
def test_a_fixed_batch_costs_the_worst_over_data_sets_of_five(batches, replacement, group):
    """All batches of two of five records with gradients -1, 0 or 1, and of those without one, two or three of them."""
    run = training.fixed_batches(noise_multiplier=2, batch=2, records=5, steps=1, replacement=replacement, group=group)
    eps = 0.4
    claimed, worst = cost(run).delta(eps), 0.0
    for people in product((-1, 0, 1), repeat=5):
        others, joined = people[:-group], people[-group:]
        if list(others) == sorted(others) and list(joined) == sorted(joined) and joined[-1] == 1:
            larger, smaller = averaged(batches(people, 2)), averaged(batches(others, 2))
            worst = max(worst, hockey_stick(larger, smaller, eps, 2), hockey_stick(smaller, larger, eps, 2))
    assert worst == pytest.approx(claimed.upper, rel=1e-9)  # never above, and some data set attains it
    poisson = training.poisson_batches(noise_multiplier=2, rate=Fraction(2, 5), steps=1)
    assert claimed.lower > 1.5 * cost(for_group(poisson, group)).delta(eps).upper  # the near miss: Poisson batches


def test_a_step_of_two_poisson_batches_is_the_sum_over_what_both_draw():
    run = cost(training.poisson_batches(noise_multiplier=2, rate="0.3", steps=1, accumulated=2))
    draws = {}
    for first, second in product((0, 1), repeat=2):
        weight = math.prod(0.3 if one else 0.7 for one in (first, second))
        draws[first + second] = draws.get(first + second, 0) + weight
    worst = max(hockey_stick(draws, {0: 1}, 0.4, 2), hockey_stick({0: 1}, draws, 0.4, 2))
    assert worst == pytest.approx(run.delta(0.4).upper, rel=1e-9)
    one_of_twice_the_rate = cost(training.poisson_batches(noise_multiplier=2, rate="0.6", steps=1)).delta(0.4)
    assert run.delta(0.4).lower > one_of_twice_the_rate.upper  # what counting one batch would promise is too little
    many = cost(training.poisson_batches(noise_multiplier=4, rate="0.9", steps=2, accumulated=100))
    assert any(isinstance(factor, UpperBound) for factor in many.cases[0].uses)  # 64 draws of one record are likely


@pytest.mark.parametrize(("rate", "largest"), [(0.4, 2), (0.7, 1), (0.1, 3)])
def test_a_truncated_batch_costs_at_most_the_worst_over_data_sets_of_five(rate, largest):
    """All draws of five records with gradients -1, 0 or 1, and of four, each cut in every way to the largest size."""
    eps = 0.1
    run = cost(
        training.truncated_batches(noise_multiplier=2, rate=str(rate), largest=largest, records=5, steps=1)
    ).delta(eps)

    def law(people, told=(True, False)):
        mixed = {}
        for size in range(len(people) + 1):
            for drawn in combinations(people, size) if (size > largest) in told else ():
                for total, share in averaged(WITHOUT(drawn, min(size, largest))).items():
                    weight = rate**size * (1 - rate) ** (len(people) - size) * share
                    mixed[total] = mixed.get(total, 0) + weight
        return mixed

    worst = worst_if_told = 0.0
    for people in product((-1, 0, 1), repeat=4):
        if list(people) == sorted(people):
            larger, smaller = law((*people, 1)), law(people)
            worst = max(worst, hockey_stick(larger, smaller, eps, 2), hockey_stick(smaller, larger, eps, 2))
            apart = [(law((*people, 1), [cut]), law(people, [cut])) for cut in (True, False)]
            worst_if_told = max(worst_if_told, sum(hockey_stick(*both, eps, 2) for both in apart))
    assert worst <= run.upper + 1e-12
    assert worst_if_told > 1.1 * run.upper  # the near miss: a loader that tells when it cuts
    assert run.upper <= 1.1 * worst  # the published coin costs something on so few records
    poisson = cost(training.poisson_batches(noise_multiplier=2, rate=str(rate), steps=1)).delta(eps).upper
    assert (worst > 1.1 * poisson) == (
        largest == 2
    )  # the near miss: to drop records can cost more than Poisson sampling


@pytest.mark.parametrize("once", [Approx(epsilon="0.1", delta="1e-20"), Leak(delta="1e-8")])
def test_draws_with_replacement_of_what_may_reveal_all_are_refused(once):
    with pytest.raises(PrivacyError, match="may reveal all, with replacement"):
        training.with_replacement(once, batch=3, records=100)
    assert cost(training.with_replacement(Pure(epsilon="0.1"), batch=3, records=100)).epsilon("1e-5").upper < 0.1


@pytest.mark.parametrize("replacement", [False, True])
def test_a_group_on_fixed_batches_is_more_than_its_worst_member(replacement):
    """And a group that says less than who it is, or leaves no batch without it, is refused."""
    run = partial(training.fixed_batches, noise_multiplier=4, steps=100, records=40, replacement=replacement)
    costs = [cost(run(batch=20, group=group)).epsilon("1e-5") for group in (1, 2, 3, 19)]
    assert all(less.upper < more.lower for less, more in pairwise(costs))
    assert all(one.width <= 1e-6 * one.upper for one in costs)
    for wrong in ({"batch": 38, "group": 40}, {"batch": 3, "group": 0}):
        with pytest.raises(ParameterError, match=r"records|group"):
            run(**wrong)
    if not replacement:
        with pytest.raises(ParameterError, match="must leave 3 of the 40 records out"):
            run(batch=38, group=3)


def test_a_group_of_sampled_laplace_steps_has_its_pure_epsilon_and_no_less():
    one = SubsampledLaplace(epsilon=1, rate="0.1")
    group = cost(for_group(one, 3))
    greatest = 3 * math.log1p(0.1 * math.expm1(1))  # where all three are drawn or none is, by the binomial theorem
    assert greatest <= group.pure().upper <= greatest * (1 + 1e-12)
    assert cost(for_group(one, 2)).pure().upper < greatest
    weights, x = [0.9**3, 3 * 0.1 * 0.81, 3 * 0.01 * 0.9, 0.001], np.linspace(-40, 50, 400_001)
    with_it = sum(w * np.exp(-np.abs(x - k)) / 2 for k, w in enumerate(weights))
    for eps in (0.0, 0.2, 0.4):
        attacked = np.trapezoid(np.maximum(with_it - math.exp(eps) * np.exp(-np.abs(x)) / 2, 0), x)
        assert attacked <= group.delta(eps).upper + 1e-9


def test_truncation_that_never_happens_costs_as_if_there_were_none():
    rare = training.truncated_batches(noise_multiplier=1, rate="0.01", largest=400, records=10_000, steps=1000)
    plain = cost(training.poisson_batches(noise_multiplier=1, rate="0.01", steps=1000)).epsilon("1e-5")
    assert cost(rare).epsilon("1e-5").upper == pytest.approx(plain.upper, rel=1e-9)
    never = training.truncated_batches(noise_multiplier=1, rate="0.01", largest=10_000, records=10_000, steps=1000)
    assert cost(never).epsilon("1e-5").upper == plain.upper
    often = training.truncated_batches(noise_multiplier=1, rate="0.01", largest=110, records=10_000, steps=1000)
    found = cost(often).epsilon("1e-5")
    assert found.width <= 1e-6
    doubled = cost(training.fixed_batches(noise_multiplier=1, batch=100, records=10_000, steps=1000)).epsilon("1e-5")
    assert plain.upper < found.lower < doubled.upper


def test_toeplitz_participation_is_the_worst_of_all_allowed():
    column, sigma = ("1", "0.5", "0.375", "0.3125", "0.1", "0.1", "0"), 3
    n = len(column)
    encoder = np.array([[float(column[i - j]) if i >= j else 0.0 for j in range(n)] for i in range(n)])
    for k, b in ((1, 1), (2, 3), (3, 2), (7, 1)):
        allowed = (
            steps
            for size in range(1, k + 1)
            for steps in combinations(range(n), size)
            if all(y - x >= b for x, y in pairwise(steps))
        )
        worst = max(np.linalg.norm(encoder[:, list(steps)].sum(axis=1)) for steps in allowed)
        run = training.toeplitz_factorization(
            noise_multiplier=sigma, coefficients=column, participations=k, separation=b
        )
        (mechanism,) = cost(run).cases[0].uses
        assert float(mechanism.mu) == pytest.approx(worst / sigma, rel=1e-12)
    for wrong in (("-1", "0.6"), (), ("0",)):
        with pytest.raises(ParameterError, match="coefficients"):
            training.toeplitz_factorization(noise_multiplier=1, coefficients=wrong, participations=1, separation=1)


@pytest.mark.parametrize(
    ("column", "b", "k", "attained"),
    [
        (("0.3", "-0.6", "0.5"), 3, 3, True),
        (("0.3", "-0.6", "0.5"), 2, 3, False),
        (("0.2", "0.9"), 1, 3, False),
        (("1", "0.5", "0.9", "0.2", "0.1"), 2, 2, False),
        (("1", "0.5", "0.9", "0.2", "0.1"), 2, 1, True),
        (("1", "-0.5", "0.25"), 1, 2, False),
        (("1", "0.5", "0.25", "0.25"), 1, 3, True),
        (("1", "0.5", "0.9", "-0.2", "0", "0.1"), 6, 4, True),
    ],
)
def test_encoders_of_any_signs_cost_what_gradients_of_any_signs_reach(column, b, k, attained):
    n = 6
    padded = [*column, *["0"] * (n - len(column))]
    encoder = np.array([[float(padded[i - j]) if i >= j else 0.0 for j in range(n)] for i in range(n)])
    sizes = range(1, k + 1)
    allowed = (s for m in sizes for s in combinations(range(n), m) if all(y - x >= b for x, y in pairwise(s)))
    worst = max(
        np.linalg.norm(encoder[:, list(steps)] @ np.array(signs))
        for steps in allowed
        for signs in product((-1, 1), repeat=len(steps))
    )
    run = training.toeplitz_factorization(noise_multiplier=1, coefficients=padded, participations=k, separation=b)
    (mechanism,) = cost(run).cases[0].uses
    assert isinstance(mechanism, UpperBound) != attained
    mu = float((mechanism if attained else mechanism.of).mu)
    assert mu >= worst * (1 - 1e-12)
    assert not attained or mu == pytest.approx(worst, rel=1e-12)
    true, stated = cost(Gaussian(mu=Fraction(worst))).epsilon("1e-5"), cost(run).epsilon("1e-5")
    assert stated.lower <= true.upper * (1 + 1e-9)
    assert true.lower * (1 - 1e-9) <= stated.upper


def test_bands_and_trees_are_rounds_of_gaussians():
    banded = cost(training.banded_factorization(noise_multiplier=2, rate="0.01", bands=8, steps=1001))
    assert banded.cases == cost(126 * SubsampledGaussian(mu="0.5", rate="0.08")).cases
    with pytest.raises(ParameterError, match="bands"):
        training.banded_factorization(noise_multiplier=2, rate="0.01", bands=101, steps=1000)
    trees = cost(training.tree_with_restarts(noise_multiplier=10, steps=100, restarts=3))
    assert trees.cases == cost(21 * Gaussian(mu="0.1")).cases


def test_private_selection_costs_at_most_what_is_proved_for_pure_runs():
    for shape in (1, 0, "0.5"):
        total = cost(training.repeat_and_select(Pure(epsilon="0.1"), mean=10, shape=shape))
        # at a great order (2 + eta) epsilon, Papernot and Steinke's corollary 3
        most = (2 + float(Fraction(shape))) * 0.1
        assert most <= total.renyi(3000.0).upper <= most + 0.01
        assert total.epsilon("1e-9").upper < most
    once = cost(training.repeat_and_select(Gaussian(mu=1), mean="1.0001"))
    assert once.renyi(6.1).upper > cost(Gaussian(mu=1)).renyi(6.1).upper
    for wrong in ({"mean": 1}, {"mean": 0}, {"mean": 2, "shape": -1}):
        with pytest.raises(ParameterError):
            training.repeat_and_select(Gaussian(mu=1), **wrong)
    leaky = cost(training.repeat_and_select(Leak(delta="0.1"), mean=2))
    assert leaky.delta(5.0).upper > 0.1


RUNS = {
    "fixed": lambda: training.fixed_batches(noise_multiplier=2, batch=10, records=100, steps=3),
    "truncated": lambda: training.truncated_batches(noise_multiplier=2, rate="0.1", largest=12, records=100, steps=3),
    "seldom truncated": lambda: training.truncated_batches(
        noise_multiplier=2, rate="0.01", largest=50, records=100, steps=3
    ),
    "banded": lambda: training.banded_factorization(noise_multiplier=2, rate="0.1", bands=3, steps=9),
    "tree": lambda: training.tree_with_restarts(noise_multiplier=5, steps=10, restarts=2),
    "toeplitz": lambda: training.toeplitz_factorization(
        noise_multiplier=5, coefficients=[1, "0.5"], participations=2, separation=1
    ),
    "selection": lambda: training.repeat_and_select(
        training.poisson_batches(noise_multiplier=2, rate="0.1", steps=3), mean=4
    ),
}


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0, math.inf])
def test_private_selection_agrees_with_another_library(shape):
    rdp = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(11, 64))
    theirs = rdp._compute_rdp_repeat_and_select(orders, [order * 0.125 for order in orders], 8.0, shape)
    run = training.repeat_and_select(Gaussian(mu="0.5"), mean=8, shape=None if math.isinf(shape) else shape)
    total = cost(run)
    for order, value in zip(orders, theirs, strict=True):
        found = total.renyi(float(order)).upper
        assert found <= value * (1 + 1e-9) if math.isinf(shape) else found >= value * (1 - 1e-9)


def test_runs_that_make_no_sense_are_refused_by_name():
    for name, wrong in (
        ("batch", lambda: training.fixed_batches(noise_multiplier=1, batch=10, records=10, steps=1)),
        ("noise_multiplier", lambda: training.poisson_batches(noise_multiplier=0, rate="0.1", steps=1)),
        ("rate", lambda: training.poisson_batches(noise_multiplier=1, rate=1, steps=1, accumulated=2)),
        ("steps", lambda: training.tree_with_restarts(noise_multiplier=1, steps=0)),
    ):
        with pytest.raises(ParameterError, match=name):
            wrong()
    with pytest.raises(PrivacyError, match="no theorem"):
        training.without_replacement(
            SubsampledGaussian(mu=1, rate="0.1") and Renyi(curve=((2, "0.1"),)), batch=1, records=9
        )
    doubled = cost(training.without_replacement(Laplace(epsilon="0.5"), batch=1, records=10)).pure().upper
    assert doubled == pytest.approx(math.log1p(0.1 * math.expm1(1)), rel=1e-9)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_proved_for_a_joining_record_promises_none_replaced(name):
    assert cost(RUNS[name]()).advantage().upper < 1
    with pytest.raises(PrivacyError, match="under replace-one"):
        cost(RUNS[name](), neighbours="replace_one")
    poisson = training.poisson_batches(noise_multiplier=2, rate="0.1", steps=3)
    joined, replaced = (cost(poisson, neighbours=one).epsilon("1e-5") for one in ("add_remove", "replace_one"))
    assert joined.upper < replaced.lower


def printed():
    """The epsilon of each way of making batches, as the page for trainers prints it."""
    page = (Path(__file__).parents[2] / "docs/how-to/account.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    return {row[0]: row[2] for row in rows if len(row) == 4 and row[2][:1].isdigit()}


LOADERS = {"batch": 100, "records": 10_000, "steps": 2_000}
PAGE = {
    "Poisson": partial(training.poisson_batches, rate="0.01", steps=2_000),
    "Poisson, two batches": partial(training.poisson_batches, rate="0.01", steps=2_000, accumulated=2),
    "Poisson, cut": partial(training.truncated_batches, rate="0.01", largest=140, records=10_000, steps=2_000),
    "fixed size, without": partial(training.fixed_batches, **LOADERS),
    "groups of 3": partial(training.fixed_batches, **LOADERS, group=3),
    "fixed size, with ": partial(training.fixed_batches, **LOADERS, replacement=True),
    "banded": partial(training.banded_factorization, rate="0.01", bands=10, steps=2_000),
    "trees": lambda noise_multiplier: training.tree_with_restarts(
        noise_multiplier=5 * noise_multiplier, steps=100, restarts=20
    ),
    "the best of 30": lambda noise_multiplier: training.repeat_and_select(
        training.poisson_batches(noise_multiplier=noise_multiplier, rate="0.01", steps=2_000), mean=30
    ),
}
SLOW = {
    "one random step": partial(training.random_allocation, steps=100, epochs=20),
    "the same": partial(training.balls_in_bins, steps=100, epochs=20),
}


def test_the_page_for_trainers_prints_what_each_loader_costs():
    assert len(printed()) == len(PAGE | SLOW)
    agree(PAGE)


@pytest.mark.slow
def test_the_page_for_trainers_prints_what_random_steps_cost():
    agree(SLOW)


def agree(loaders):
    for begins, run in loaders.items():
        said = next(Fraction(number) for name, number in printed().items() if name.startswith(begins))
        upper = cost(run(noise_multiplier=1)).epsilon("1e-5").upper
        assert abs(said - Fraction(upper)) < Fraction(1, 10**4), begins
        assert abs(said - Fraction(cost(run(noise_multiplier=Fraction("1.001"))).epsilon("1e-5").upper)) > Fraction(
            1, 10**4
        ), begins
