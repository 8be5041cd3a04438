"""Ends that were false: groups and samples of fixed batches, and lower ends of cut batches at small deltas."""

import time
from fractions import Fraction
from itertools import combinations, product
from math import comb

import mpmath
import numpy as np
import pytest

from neartwin.accounting import training
from neartwin.accounting.dp_accounting import from_event, to_event
from neartwin.accounting.usage import cost, for_group, parallel, repeated, subsample
from neartwin.errors import PrivacyError
from neartwin.losses import (
    Approx,
    BoundedRange,
    Gaussian,
    GaussianMixture,
    Laplace,
    Leak,
    Pure,
    RandomizedResponse,
    Staircase,
    SubsampledFinite,
    SubsampledGaussian,
    SubsampledLaplace,
    UpperBound,
)

BATCHES = {
    "fixed": lambda: training.fixed_batches(noise_multiplier="0.1", batch=2, records=4, steps=1),
    "without": lambda: training.without_replacement(Gaussian(mu=10), batch=2, records=4),
    "pure": lambda: training.without_replacement(Laplace(epsilon="0.1"), batch=2, records=4),
    "replaced": lambda: training.with_replacement(Laplace(epsilon="0.1"), batch=2, records=4),
    "bands": lambda: training.banded_factorization(noise_multiplier=1, rate="0.1", bands=4, steps=10),
    "cut": lambda: training.truncated_batches(noise_multiplier=1, rate="0.1", largest=12, records=100, steps=3),
    "seldom": lambda: training.truncated_batches(noise_multiplier=1, rate="0.01", largest=50, records=100, steps=3),
}


@pytest.mark.parametrize("name", BATCHES)
def test_groups_and_samples_of_batches_of_a_fixed_size_are_refused(name):
    """They had the price of Poisson batches: an advantage of 3/4 for two of four records, where it is 5/6."""
    met = [{0, 1} & set(batch) for batch in combinations(range(4), 2)]
    assert np.mean([bool(some) for some in met]) == pytest.approx(5 / 6)  # with next to no noise each of these is seen
    both = training.fixed_batches(noise_multiplier="0.1", batch=2, records=4, steps=1, group=2)
    assert pytest.approx(cost(both).advantage().upper, abs=1e-6) == 5 / 6
    for asked in (for_group(BATCHES[name](), 2), subsample(BATCHES[name](), "0.5")):
        with pytest.raises(PrivacyError, match="draw Poisson batches"):
            cost(asked)
    assert cost(BATCHES[name]()).advantage().upper < 1
    poisson = training.poisson_batches(noise_multiplier="0.1", rate="0.5", steps=1)
    assert pytest.approx(cost(for_group(poisson, 2)).advantage().upper, abs=1e-6) == 0.75  # which is right there


def sampled(mu, rate, eps):
    """Deltas of a sampled Gaussian, remove and add, from both tails."""
    at = (mpmath.log((mpmath.exp(eps) - 1 + rate) / rate) + mu * mu / 2) / mu
    removed = rate * mpmath.ncdf(mu - at) - (mpmath.exp(eps) - 1 + rate) * mpmath.ncdf(-at)
    left = mpmath.exp(-eps) - 1 + rate
    if left <= 0:
        return removed, mpmath.mpf(0)
    at = (mpmath.log(left / rate) + mu * mu / 2) / mu
    return removed, (1 - mpmath.exp(eps) * (1 - rate)) * mpmath.ncdf(at) - mpmath.exp(eps) * rate * mpmath.ncdf(at - mu)


@pytest.mark.parametrize(
    ("rate", "largest", "records"),
    [("0.3", 1, 2), ("0.9", 1, 5), ("0.9", 1, 20), ("0.5", 10, 100), ("0.999", 3, 60), ("0.2", 30, 40), ("0.1", 3, 40)],
)
@pytest.mark.parametrize(("mu", "eps"), [("0.2", 1), ("1", "0.5"), ("1", 3), ("1", "0.001")])
def test_one_cut_batch_is_known_on_both_sides(rate, largest, records, mu, eps):
    """(T8) in fractions and mpmath. Where batches are nearly always cut it was an error, and a float's width was a leak."""
    q, m = Fraction(rate), records
    many = [comb(m - 1, k) * q**k * (1 - q) ** (m - 1 - k) for k in range(m)]
    t = sum(many[largest:])
    kept = sum(w * q * largest / (k + 1) for k, w in enumerate(many) if k >= largest) / t
    run = cost(
        training.truncated_batches(noise_multiplier=1 / Fraction(mu), rate=rate, largest=largest, records=m, steps=1)
    )
    with mpmath.workdps(60):
        part, step, goal = mpmath.mpf(t.numerator) / t.denominator, mpmath.mpf(mu), mpmath.mpf(eps)
        rates = [mpmath.mpf(one.numerator) / one.denominator for one in (q, kept)]
        both = zip(sampled(step, rates[0], goal), sampled(2 * step, rates[1], goal), strict=True)
        truth = max((1 - part) * a + part * b for a, b in both)
        found = run.delta(float(Fraction(eps)))
        assert found.lower <= truth * (1 + mpmath.mpf(10) ** -13)
        assert found.upper >= truth * (1 - mpmath.mpf(10) ** -13)
        assert found.width <= 1e-6 * found.upper


@pytest.mark.parametrize(
    ("batches", "delta", "truth"),
    [
        (("0.01", 100, 10_000, 10**5), "1e-12", 1.5798),  # was infinite, on both sides
        (("0.01", 100, 10_000, 10**5), "1e-10", 1.4113),  # 1.4158
        (("0.004", 256, 60_000, 14_000), "1e-12", 0.17765),  # 0.17978
        (("0.004", 256, 60_000, 14_000), "1e-6", 0.10337),
    ],
)
def test_many_cut_batches_cost_what_a_fine_grid_says(batches, delta, truth):
    rate, largest, records, steps = batches
    run = training.truncated_batches(noise_multiplier=20, rate=rate, largest=largest, records=records, steps=steps)
    found = cost(run).epsilon(delta)
    assert found.width <= 1e-6 * found.upper
    assert found.upper == pytest.approx(truth, rel=1e-4)


def test_a_leak_that_only_bounds_is_in_no_lower_end():
    for attained in (True, False):
        leak = Leak(delta="0.1") if attained else UpperBound(of=Leak(delta="0.1"))
        found = (3 * leak + Gaussian(mu=1)).delta(2.0)
        assert (found.lower > 0.27) is attained
        assert 0.271 < found.upper < 0.3
    many = training.fixed_batches(noise_multiplier=1, batch=5000, records=10_000, steps=100, replacement=True)
    assert cost(many).delta(900.0).lower < 1e-18  # more draws than are told apart


@pytest.mark.parametrize(("batch", "records"), [(65_536, 10**7), (10**17, 10**18)])
def test_great_batches_with_replacement_take_no_longer(batch, records):
    """Powers of exact fractions took 10 seconds, or for ever."""
    start = time.process_time()
    run = training.fixed_batches(noise_multiplier=1, batch=batch, records=records, steps=10, replacement=True)
    assert cost(run).epsilon("1e-6").width < 1e-5
    assert time.process_time() - start < 9
    few = training.fixed_batches(noise_multiplier=1, batch=63, records=1000, steps=10, replacement=True)
    more = training.fixed_batches(noise_multiplier=1, batch=64, records=1000, steps=10, replacement=True)
    assert cost(few).epsilon("1e-6").upper < cost(more).epsilon("1e-6").upper < 1.02 * cost(few).epsilon("1e-6").upper


def laplace_pair(epsilon, size, uses=1):
    """P- and Q-masses of the losses of so many Laplace answers, on a grid."""
    edges = np.linspace(0, 1, size + 1)
    inner = np.diff(np.exp(-epsilon * edges)) / -2
    p = np.concatenate([[0.5], inner, [np.exp(-epsilon) / 2]])
    pair = p, p[::-1]
    for _ in range(uses - 1):
        pair = tuple(np.outer(one, mass).ravel() for one, mass in zip(pair, (p, p[::-1]), strict=True))
    return pair


def of_a_sample(p, q, rate, eps):
    """Delta of the sampled pair, in its worse direction."""
    mixed = rate * p + (1 - rate) * q
    return max(np.maximum(one - np.exp(eps) * two, 0).sum() for one, two in ((mixed, q), (q, mixed)))


def test_several_uses_of_one_sample_are_only_bounded_by_the_worst_pure_one():
    """The lower end was that of the worst pure mechanism, 0.0268."""
    truth = of_a_sample(*laplace_pair(1, 1000, uses=2), 0.1, 0.45)
    found = cost(subsample(2 * Laplace(epsilon=1), "0.1")).delta(0.45)
    assert truth == pytest.approx(0.0025, rel=0.05)
    assert found.lower <= truth <= found.upper <= 0.0085


def test_a_group_of_sampled_laplace_noise_is_only_bounded():
    """The lower end was that of three times its pure epsilon, 0.0097."""
    x = np.linspace(-40, 60, 400_001)
    weights = [comb(3, k) * 0.01**k * 0.99 ** (3 - k) for k in range(4)]
    mixed = sum(w * np.exp(-np.abs(x - 0.5 * k)) / 2 for k, w in enumerate(weights))
    truth = np.maximum(mixed - np.exp(-np.abs(x)) / 2, 0).sum() * (x[1] - x[0])
    found = cost(for_group(SubsampledLaplace(epsilon="0.5", rate="0.01"), 3)).advantage()
    assert truth == pytest.approx(0.0066, rel=0.01)
    assert found.lower <= truth <= found.upper


def test_draws_with_replacement_of_laplace_noise_are_only_bounded():
    """Lower ends stood at 2.8574, above the greatest loss of the worst data set."""
    drawn = cost(training.with_replacement(Laplace(epsilon=1), batch=2, records=4))
    weights = [comb(2, k) * 0.25**k * 0.75 ** (2 - k) for k in range(3)]
    greatest = np.log(sum(w * np.exp(2 * k) for k, w in enumerate(weights)))  # each draw moves the sum by 2
    for found in (drawn.pure(), drawn.epsilon("1e-2")):
        assert found.lower <= greatest <= found.upper


@pytest.mark.parametrize(
    "once",
    [
        Staircase(epsilon=1, sensitivity=5, step=2),
        RandomizedResponse(epsilon=1),
        BoundedRange(epsilon=1),
        Approx(epsilon=1, delta="1e-6"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_a_theorem_only_bounds_is_in_no_lower_end(once):
    """And bounds are sampled, grouped and composed like the mechanisms that they are bounds by."""
    batches = training.without_replacement(once, batch=2, records=4)
    twice = subsample(2 * once, "0.1") if once.stated_pure() else subsample(once, "0.1")
    for bound in (batches, twice, for_group(SubsampledFinite(base=RandomizedResponse(epsilon=1), rate="0.1"), 2)):
        found = cost(bound).epsilon("1e-3")
        assert found.lower == 0 < found.upper < 3
    pure = UpperBound(of=Pure(epsilon=1))
    assert cost(subsample(pure, "0.1")).delta(0.0).upper == cost(subsample(Pure(epsilon=1), "0.1")).delta(0.0).upper
    assert cost(for_group(pure, 2)) == cost(for_group(Pure(epsilon=1), 2)) == cost(UpperBound(of=Pure(epsilon=2)))
    assert UpperBound(of=pure) == pure
    beside = (pure + Gaussian(mu=1)).delta(0.5)
    assert beside.lower == (1 * Gaussian(mu=1)).delta(0.5).lower
    assert beside.upper == pytest.approx((Pure(epsilon=1) + Gaussian(mu=1)).delta(0.5).upper, rel=1e-9)


@pytest.mark.parametrize("answers", [2, 5])
def test_sampled_randomized_response_is_known_exactly(answers):
    """As any finite pair is: it cost 8.123 here, on both sides, by its pure epsilon alone."""
    small, rate, uses = np.exp(-1), 0.1, 100
    masses = np.array([1, small, (answers - 2) * small]) / (1 + (answers - 1) * small)
    p, q = masses, masses[[1, 0, 2]]
    found = cost(repeated(subsample(RandomizedResponse(epsilon=1, answers=answers), "0.1"), uses)).epsilon("1e-6")
    mixed, worst = rate * p + (1 - rate) * q, 0.0
    for one, two in ((mixed, q), (q, mixed)):
        delta = 0.0
        for j, k in product(range(uses + 1), repeat=2):
            left = uses - j - k
            if left < 0 or (left and answers == 2):
                continue
            kinds = np.array([j, k, left])[: 2 if answers == 2 else 3]
            some, other = (np.log(law[: len(kinds)]) @ kinds for law in (one, two))
            ways = comb(uses, j) * comb(uses - j, k)
            delta += ways * max(np.exp(some) - np.exp(found.upper + other), 0.0)
        worst = max(worst, delta)
    assert worst == pytest.approx(1e-6, rel=1e-7)
    assert found.width <= 1e-8 * found.upper
    assert cost(subsample(Pure(epsilon=1), "0.1")) != cost(subsample(BoundedRange(epsilon=1), "0.1"))


@pytest.mark.parametrize("epsilon", [50, 700, 740, 2000])
def test_a_sampled_response_that_says_all_costs_its_rate(epsilon):
    """Where the mass of a lie is beyond the floats, the sampled truth has all of its own."""
    for once in (Pure(epsilon=epsilon), RandomizedResponse(epsilon=epsilon, answers=7)):
        found = cost(subsample(once, "1e-3")).delta(1.0)
        lie = np.exp(-float(epsilon))
        truth = 1 / (1 + (0 if isinstance(once, Pure) else 5) * lie + lie)
        direct = 1e-3 * truth + (1 - 1e-3) * lie * truth - np.e * lie * truth
        assert found.upper >= direct * (1 - 1e-12)
        assert found.lower <= direct * (1 + 1e-12)


def test_a_group_of_bounded_ranges_is_a_bounded_range():
    assert cost(for_group(100 * BoundedRange(epsilon="0.1"), 3)) == cost(100 * BoundedRange(epsilon="0.3"))


@pytest.mark.parametrize("replacement", [False, True])
def test_events_of_fixed_batches_are_read_back_as_fixed_batches(replacement):
    """They were written as mixtures, of whose groups and samples Poisson prices were then told."""
    dp = pytest.importorskip("dp_accounting.dp_event")
    kind = dp.SampledWithReplacementDpEvent if replacement else dp.SampledWithoutReplacementDpEvent
    run = training.fixed_batches(noise_multiplier=2, batch=2, records=4, steps=5, replacement=replacement)
    written = dp.SelfComposedDpEvent(kind(4, 2, dp.GaussianDpEvent(2.0)), 5)
    draw = training.with_replacement if replacement else training.without_replacement
    once = draw(Laplace(epsilon="0.5"), batch=2, records=4)
    for usage, event in ((run, written), (once, kind(4, 2, dp.LaplaceDpEvent(2.0)))):
        assert to_event(usage) == event
        again = from_event(to_event(usage))
        assert cost(again).epsilon("1e-2") == cost(usage).epsilon("1e-2")
        sampled = dp.PoissonSampledDpEvent(0.5, event)
        search = training.repeat_and_select(usage, mean=3)
        for asked in (
            *(for_group(one, 2) for one in (again, search, from_event(to_event(search)))),
            *(subsample(one, "0.5") for one in (again, search)),
            from_event(sampled),
        ):
            with pytest.raises(PrivacyError, match="draw Poisson batches"):
                cost(asked)
        with pytest.raises(PrivacyError, match="a batch of a fixed size costs no theorem"):
            from_event(kind(10, 4, event))
        assert cost(search).epsilon("1e-2").upper > cost(usage).epsilon("1e-2").upper
    group = training.fixed_batches(noise_multiplier=2, batch=2, records=4, steps=5, replacement=replacement, group=2)
    with pytest.raises(PrivacyError, match="write the cost with to_pld"):
        to_event(group)


ADD_REMOVE_ONLY = {
    "draws": lambda: training.with_replacement(Laplace(epsilon=1), batch=2, records=4),
    "fixed": lambda: training.fixed_batches(noise_multiplier=1, batch=2, records=4, steps=2, replacement=True),
    "summed": lambda: training.poisson_batches(noise_multiplier=1, rate="0.1", steps=2, accumulated=2),
    "allocation": lambda: training.random_allocation(noise_multiplier=1, steps=4),
    "bins": lambda: training.balls_in_bins(noise_multiplier=1, steps=4, epochs=2),
    "apart": lambda: parallel(training.random_allocation(noise_multiplier=1, steps=4), Gaussian(mu=1)),
    "integers": lambda: SubsampledFinite(base=RandomizedResponse(epsilon=1), rate="0.1"),
    "group": lambda: for_group(SubsampledGaussian(mu=1, rate="0.1"), 2),
    "pure group": lambda: for_group(SubsampledLaplace(epsilon=1, rate="0.1"), 2),
}


@pytest.mark.parametrize("name", ADD_REMOVE_ONLY)
def test_what_is_proved_for_add_remove_alone_is_refused_under_replace_one(name):
    """Some named an argument that nobody gave, and the last had twice the epsilon of a unit that joins, too little."""
    with pytest.raises(PrivacyError, match="replace"):
        cost(ADD_REMOVE_ONLY[name](), neighbours="replace_one").epsilon("1e-2")
    assert cost(ADD_REMOVE_ONLY[name]()).epsilon("1e-2").upper < 20


def test_mixtures_too_far_apart_for_a_line_have_wide_answers():
    """A variance beyond the floats was a crash."""
    far = 1 * GaussianMixture(distances=[0, 70, 140], weights=["1/2", "1/4", "1/4"])
    assert 0.5 in far.advantage()  # a draw is seen
    assert 0.5 in far.delta(5.0)
    assert far.renyi(1).upper > 0.25 * 70**2 / 2
