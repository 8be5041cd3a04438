"""What dp_accounting's users have is read as what it is, and what is written they can use: both against their library."""

import inspect
import math
import os
from fractions import Fraction

import numpy as np
import pytest

from neartwin.accounting import dp_accounting
from neartwin.accounting.budgets import approx
from neartwin.accounting.calibration import least_noise
from neartwin.accounting.dp_accounting import from_event, to_event, to_pld
from neartwin.accounting.training import fixed_batches, repeat_and_select, truncated_batches
from neartwin.accounting.usage import cost, parallel, rdp_accountant, repeated, sequential, subsample
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import (
    Approx,
    BoundedRange,
    DiscreteGaussian,
    FinitePair,
    Gaussian,
    GaussianMixture,
    Geometric,
    Laplace,
    Leak,
    Pure,
    RandomAllocation,
    RandomizedResponse,
    Renyi,
    SubsampledFinite,
    SubsampledGaussian,
    SubsampledLaplace,
    ZeroConcentrated,
)

if not os.environ.get("CI"):  # in CI its absence is a failure
    pytest.importorskip("dp_accounting")


NEWER = {
    "EpsilonDeltaDpEvent",
    "DiscreteGaussianDpEvent",
    "ExponentialMechanismDpEvent",
    "PermuteAndFlipDpEvent",
    "RandomAllocationDpEvent",
}


def newer(kind, **fields):
    """An event of dp_accounting's source that its last release lacks."""
    return type(kind, (), {"__module__": "dp_accounting.dp_event"} | fields)()


@pytest.fixture(scope="module")
def dp():
    import dp_accounting

    return dp_accounting


@pytest.fixture(scope="module")
def theirs():
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


def test_an_event_tree_is_the_spend_it_describes(dp):
    tree = dp.ComposedDpEvent(
        [
            dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)), 1000),
            dp.LaplaceDpEvent(10.0),
            dp.dp_event.DiscreteLaplaceDpEvent(0.5, 2),
            dp.NoOpDpEvent(),
        ]
    )
    known = 1000 * SubsampledGaussian(mu=1, rate="0.01") + Laplace(epsilon="0.1") + Geometric(epsilon=1, sensitivity=2)
    ours = cost(from_event(tree)).epsilon("1e-5")
    assert ours.upper == pytest.approx(cost(known).epsilon("1e-5").upper, rel=1e-12)


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "response", "sampled"])
def test_our_interval_lies_below_their_pessimistic_answer_and_close_to_it(dp, kind):
    from dp_accounting.pld import PLDAccountant

    made = {
        "gaussian": dp.SelfComposedDpEvent(dp.GaussianDpEvent(10.0), 50),
        "laplace": dp.SelfComposedDpEvent(dp.LaplaceDpEvent(10.0), 50),
        "response": dp.ComposedDpEvent(
            [dp.RandomizedResponseDpEvent(0.5, 4)] * 5
        ),  # theirs (0.6.0) forgets a self-composition's count
        "sampled": dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)), 50),
    }[kind]
    relation = dp.NeighboringRelation.REPLACE_ONE if kind == "response" else dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = PLDAccountant(relation, value_discretization_interval=1e-3)
    if not accountant.supports(made):
        accountant = PLDAccountant(dp.NeighboringRelation.REPLACE_SPECIAL, value_discretization_interval=1e-3)
    accountant.compose(made)
    ours = cost(from_event(made)).epsilon("1e-5")
    assert ours.lower <= accountant.get_epsilon(1e-5) <= ours.upper * 1.01 + 1e-3


def test_an_event_without_a_theorem_is_refused(dp):
    for event in (
        dp.NonPrivateDpEvent(),
        newer("RandomAllocationDpEvent", event=dp.LaplaceDpEvent(1.0), num_selected=1, num_steps=10),
        dp.dp_event.UnsupportedDpEvent(),
        "GaussianDpEvent",
    ):
        with pytest.raises(PrivacyError, match=r"state (its|their)"):
            from_event(event)
    both = dp.ComposedDpEvent([dp.GaussianDpEvent(1.0), dp.LaplaceDpEvent(1.0)])
    again = dp.PoissonSampledDpEvent(
        0.5, dp.GaussianDpEvent(1.0)
    )  # a record may be drawn where the one it replaces is not
    for batch in (dp.SampledWithoutReplacementDpEvent, dp.SampledWithReplacementDpEvent):
        for event, reason in ((both, "only Gaussian mechanisms and pure ones"), (again, "batches of a fixed size")):
            with pytest.raises(PrivacyError, match=reason):
                from_event(batch(100, 10, event))
    assert cost(from_event(dp.ZCDpEvent(0.1))).epsilon("1e-6").upper == pytest.approx(2.141939, abs=1e-5)


def test_written_pld_is_pessimistic_both_ways_and_composes(theirs):
    whole = cost(10 * SubsampledGaussian(mu="0.5", rate="0.2") + 5 * Laplace(epsilon="0.1"))
    written = to_pld(whole, step="0.01")
    eps = np.linspace(-1, 3, 21)
    for direction, pmf in (("remove", written._pmf_remove), ("add", written._pmf_add)):
        true = whole.cases[0].delta(eps, direction=direction)
        delta = np.array([pmf.get_delta_for_epsilon(float(one)) for one in eps])
        assert (true.lower <= delta + 1e-12).all()
        assert (delta <= true.upper * 1.001 + 1e-9).all()
    twice = cost(20 * SubsampledGaussian(mu="0.5", rate="0.2") + 10 * Laplace(epsilon="0.1")).epsilon("1e-5")
    assert twice.lower - 1e-9 <= written.self_compose(2).get_epsilon_for_delta(1e-5) <= twice.upper * 1.01
    with_leak = to_pld(Gaussian(mu=1) + Leak(delta="1e-3"), step="0.1")
    assert with_leak.get_epsilon_for_delta(1e-4) == np.inf
    with pytest.raises(ParameterError, match="take at least"):
        to_pld(Gaussian(mu=10), step="1e-9")
    with pytest.raises(PrivacyError):
        to_pld(cost(Gaussian(mu=1), neighbours="replace_one"))
    assert to_pld(parallel(Gaussian(mu=1), Laplace(epsilon=2)), step="0.05").get_delta_for_epsilon(0) >= 0.3829


def test_every_event_of_dp_accounting_is_read_or_refused_with_a_reason(dp):
    kinds = {
        name for name, kind in inspect.getmembers(dp.dp_event, inspect.isclass) if issubclass(kind, dp.dp_event.DpEvent)
    }
    known = set(dp_accounting._EVENTS) | set(dp_accounting._REFUSED)
    assert kinds | NEWER == known
    assert not set(dp_accounting._EVENTS) & set(dp_accounting._REFUSED)


def test_trees_of_one_epoch_are_the_gaussians_that_one_record_meets(dp):
    from dp_accounting.rdp import RdpAccountant

    for steps in (1, 2, 3, 8, [5, 100, 7]):
        event = dp.SingleEpochTreeAggregationDpEvent(2.0, steps)
        ours = cost(from_event(event))
        theirs = RdpAccountant([2.0, 8.0], dp.NeighboringRelation.REPLACE_SPECIAL).compose(event)
        assert theirs._rdp[1] == pytest.approx(ours.renyi(8.0).upper, rel=1e-9)


@pytest.mark.slow
def test_events_of_sampling_and_selection_are_what_they_describe(dp):
    fixed = dp.SampledWithoutReplacementDpEvent(1000, 10, dp.GaussianDpEvent(2.0))
    assert cost(from_event(fixed)).cases == cost(SubsampledGaussian(mu=1, rate="0.01")).cases
    drawn = dp.SelfComposedDpEvent(dp.SampledWithReplacementDpEvent(60_000, 256, dp.GaussianDpEvent(2.0)), 1000)
    known = fixed_batches(noise_multiplier=2, batch=256, records=60_000, steps=1000, replacement=True)
    assert cost(from_event(drawn)).epsilon("1e-5").upper == cost(known).epsilon("1e-5").upper
    mixed = dp.dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 2.0], [1 / 3, 1 / 3, 1 / 3])
    thirds = GaussianMixture(distances=(0, "0.5", 1), weights=("1/3", "1/3", "1/3"))
    assert cost(from_event(mixed)).epsilon("1e-5").upper == pytest.approx((1 * thirds).epsilon("1e-5").upper, rel=1e-12)
    for event in (
        dp.dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 0.0], [0.5, 0.5]),
        dp.RandomizedResponseDpEvent(0.5, 1),
    ):
        assert cost(from_event(event)).epsilon("1e-5").upper == 0
    with pytest.raises(ParameterError, match="sum to 1"):
        from_event(dp.dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.5, 0.4]))
    once = dp.GaussianDpEvent(1.0)
    for halves in (dp.SelfComposedDpEvent(once, 2.5), dp.SampledWithoutReplacementDpEvent(9, 2.5, once)):
        with pytest.raises(ParameterError, match=r"=2\.5 must be a whole number"):
            from_event(halves)
    assert cost(from_event(dp.SingleEpochTreeAggregationDpEvent(2.0, []))).epsilon("1e-9").upper == 0
    for shape in (1.0, math.inf):
        selected = from_event(dp.dp_event.RepeatAndSelectDpEvent(dp.GaussianDpEvent(5.0), 8.0, shape))
        from dp_accounting.rdp import RdpAccountant

        theirs = (
            RdpAccountant()
            .compose(dp.dp_event.RepeatAndSelectDpEvent(dp.GaussianDpEvent(5.0), 8.0, shape))
            .get_epsilon(1e-6)
        )
        ours, curve = cost(selected).epsilon("1e-6"), float(rdp_accountant(selected).epsilon("1e-6").epsilon.upper)
        assert cost(Gaussian(mu="0.2")).epsilon("1e-6").upper < ours.lower <= ours.upper < curve <= 1.001 * theirs
        assert shape != 1 or curve > 0.98 * theirs  # of Poisson's law theirs knows a looser delta


@pytest.mark.slow
def test_a_truncated_event_costs_at_most_their_looser_pair(dp):
    from dp_accounting.pld import PLDAccountant

    event = dp.SelfComposedDpEvent(dp.dp_event.TruncatedSubsampledGaussianDpEvent(10_000, 0.01, 110, 1.0), 100)
    theirs = PLDAccountant(value_discretization_interval=1e-3).compose(event).get_epsilon(1e-5)
    ours = cost(from_event(event)).epsilon("1e-5")
    assert 0.9 * theirs <= ours.upper <= 1.0001 * theirs
    nothing = dp.dp_event.TruncatedSubsampledGaussianDpEvent(10_000, 0.0, 110, 1.0)
    assert cost(from_event(nothing)).epsilon("1e-5").upper == 0


def test_events_of_the_newest_source_are_read():
    discrete = newer("DiscreteGaussianDpEvent", sigma=2.0, sensitivity=1.0, dimension=1)
    assert cost(from_event(discrete)).cases == cost(DiscreteGaussian(sigma2=4)).cases
    unknown = newer("DiscreteGaussianDpEvent", sigma=2.0, sensitivity=1.5, dimension=None)
    assert cost(from_event(unknown)).cases == cost(ZeroConcentrated(rho=Fraction(9, 32))).cases
    assert (
        cost(from_event(newer("EpsilonDeltaDpEvent", epsilon=1.0, delta=1e-5))).cases
        == cost(Approx(epsilon=1, delta="1e-5")).cases
    )
    assert (
        cost(from_event(newer("ExponentialMechanismDpEvent", epsilon=1.0))).cases == cost(BoundedRange(epsilon=1)).cases
    )
    assert cost(from_event(newer("PermuteAndFlipDpEvent", epsilon=1.0))).cases == cost(Pure(epsilon=1)).cases
    gaussian = newer("GaussianDpEvent", noise_multiplier=2.0)
    for drawn, known in (
        (1, RandomAllocation(mu="0.5", steps=100)),
        (3, RandomAllocation(mu="0.5", steps=100, participations=3)),
        (0, dp_accounting.NOTHING),
    ):
        event = newer("RandomAllocationDpEvent", event=gaussian, num_selected=drawn, num_steps=100)
        assert cost(from_event(event)).cases == cost(known).cases
    laplace = newer("LaplaceDpEvent", noise_multiplier=2.0)
    with pytest.raises(PrivacyError, match="Gaussian noise alone"):
        from_event(newer("RandomAllocationDpEvent", event=laplace, num_selected=1, num_steps=100))
    shifted = cost(from_event(newer("ZCDpEvent", rho=0.1, xi=0.2)))
    for order in (1.5, 3.0, 100.0):
        assert 0.2 + 0.1 * order <= shifted.renyi(order).upper <= (0.2 + 0.1 * order) * (1 + 1e-12)
    assert cost(from_event(newer("ZCDpEvent", rho=0.0, xi=0.2))).cases == cost(Approx(epsilon="0.2", delta=0)).cases


# every kind of event that promises something, by a parameter of noise; more noise is more privacy
MADE = {
    "GaussianDpEvent": lambda dp, s: dp.GaussianDpEvent(s),
    "LaplaceDpEvent": lambda dp, s: dp.LaplaceDpEvent(s),
    "DiscreteLaplaceDpEvent": lambda dp, s: dp.dp_event.DiscreteLaplaceDpEvent(1 / s, 2),
    "RandomizedResponseDpEvent": lambda dp, s: dp.RandomizedResponseDpEvent(s / (3 + s), 4),
    "ZCDpEvent": lambda dp, s: dp.ZCDpEvent(1 / s**2, 0.1),
    "SelfComposedDpEvent": lambda dp, s: dp.SelfComposedDpEvent(dp.GaussianDpEvent(s), 3),
    "ComposedDpEvent": lambda dp, s: dp.ComposedDpEvent([dp.GaussianDpEvent(s), dp.LaplaceDpEvent(s)]),
    "PoissonSampledDpEvent": lambda dp, s: dp.PoissonSampledDpEvent(
        0.5, dp.ComposedDpEvent([dp.LaplaceDpEvent(s)] * 2)
    ),
    "SampledWithReplacementDpEvent": lambda dp, s: dp.SampledWithReplacementDpEvent(50, 10, dp.LaplaceDpEvent(s)),
    "SampledWithoutReplacementDpEvent": lambda dp, s: dp.SampledWithoutReplacementDpEvent(
        50, 10, dp.ComposedDpEvent([dp.GaussianDpEvent(s)] * 2)
    ),
    "SingleEpochTreeAggregationDpEvent": lambda dp, s: dp.SingleEpochTreeAggregationDpEvent(s, [5, 9]),
    "RepeatAndSelectDpEvent": lambda dp, s: dp.dp_event.RepeatAndSelectDpEvent(dp.GaussianDpEvent(s), 5.0, 0.5),
    "MixtureOfGaussiansDpEvent": lambda dp, s: dp.dp_event.MixtureOfGaussiansDpEvent(
        s, [0.0, 1.0, 2.0], [0.81, 0.18, 0.01]
    ),
    "TruncatedSubsampledGaussianDpEvent": lambda dp, s: dp.dp_event.TruncatedSubsampledGaussianDpEvent(
        1000, 0.1, 105, s
    ),
}
PROMISE_NOTHING = {"DpEvent", "UnsupportedDpEvent", "NonPrivateDpEvent"}


@pytest.mark.slow
def test_every_kind_of_event_is_read_written_and_calibrated(dp):
    assert {*MADE, *PROMISE_NOTHING, *NEWER, "NoOpDpEvent"} == {*dp_accounting._EVENTS, *dp_accounting._REFUSED}
    assert to_event(from_event(dp.NoOpDpEvent())) == dp.NoOpDpEvent()
    for kind, make in MADE.items():
        written = to_event(from_event(make(dp, 3.0)))
        assert type(written).__name__ == kind
        once, again, louder = (cost(from_event(one)).epsilon("1e-5") for one in (make(dp, 3.0), written, make(dp, 3.1)))
        assert once.lower <= again.upper <= once.upper * (1 + 1e-9), kind
        assert louder.upper < (once.lower or once.upper), kind  # a bound has no lower end
        found = least_noise(lambda s, make=make: from_event(make(dp, float(s))), approx(2, "1e-5"), tolerance="0.1")
        assert cost(from_event(make(dp, float(found.value)))).epsilon("1e-5").upper <= 2, kind
        assert cost(from_event(make(dp, float(found.beyond)))).epsilon("1e-5").upper > 2, kind


@pytest.mark.slow
def test_draws_with_replacement_cost_no_less_than_an_attack_on_them(dp):
    records, draws, scale = 40, 6, 1.0
    rate, eps = 1 / records, np.array([0.0, 0.1, 0.3, 0.5])
    weights = [math.comb(draws, k) * rate**k * (1 - rate) ** (draws - k) for k in range(draws + 1)]
    x = np.linspace(-60, 80, 1_400_001)
    density = lambda moved: np.exp(-np.abs(x - moved) / scale) / (2 * scale)  # noqa: E731

    def attack(distance):
        with_it, without = sum(w * density(distance * k) for k, w in enumerate(weights)), density(0)
        both = ((with_it, without), (without, with_it))
        return np.array([[np.trapezoid(np.maximum(p - np.exp(e) * q, 0), x) for e in eps] for p, q in both])

    ours = cost(from_event(dp.SampledWithReplacementDpEvent(records, draws, dp.LaplaceDpEvent(scale)))).cases[0]
    found = np.array([ours.delta(eps, direction=one).upper for one in ("remove", "add")])
    truth = attack(2)  # one record joins and drives out another, which pulls the other way
    assert (found >= truth - 1e-9).all()
    assert (found <= 1.5 * truth + 1e-3).all()
    assert (found[0] < attack(2.2)[0]).all()  # a little further apart is seen
    half = cost(from_event(dp.SampledWithReplacementDpEvent(records, draws, dp.LaplaceDpEvent(2 * scale)))).cases[0]
    assert (
        half.delta(eps, direction="remove").upper < truth[0]
    ).any()  # what one record of each batch moves is too little


@pytest.mark.parametrize("shape", [1, "0.5", None])
def test_runs_written_by_hand_have_the_events_of_their_kind(dp, shape):
    cut = truncated_batches(noise_multiplier="1.25", rate="0.1", largest=12, records=100, steps=3)
    event = to_event(cut)
    assert event == dp.SelfComposedDpEvent(dp.dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 12, 1.25), 3)
    assert cost(from_event(event)) == cost(cut)
    best = repeat_and_select(10 * Laplace(epsilon="0.1"), mean=4, shape=shape)
    runs = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(10.0), 10)
    law = math.inf if shape is None else float(shape)
    assert to_event(best) == dp.dp_event.RepeatAndSelectDpEvent(runs, 4.0, law)
    assert cost(from_event(to_event(best))) == cost(best)
    without = repeat_and_select(Renyi(curve=((2, "0.1"), (8, "0.5"))), mean=4)
    with pytest.raises(PrivacyError, match="no event for Renyi"):
        to_event(without)


@pytest.mark.slow
def test_an_event_promises_no_more_than_a_mechanism_without_one(dp):
    theirs = {
        BoundedRange(epsilon="0.7"): dp.RandomizedResponseDpEvent,
        DiscreteGaussian(sigma2=4): dp.ZCDpEvent,
        Leak(delta="1e-6"): dp.PoissonSampledDpEvent,
        Approx(epsilon=1, delta="1e-6"): dp.ComposedDpEvent,
        RandomizedResponse(epsilon=1, answers=5): dp.RandomizedResponseDpEvent,
        RandomAllocation(mu="0.5", steps=8, participations=2): dp.SelfComposedDpEvent,
        FinitePair(p=("0.5", "0.3", "0.2"), q=("0.2", "0.5", "0.3")): dp.RandomizedResponseDpEvent,
    }
    for factor, kind in theirs.items():
        event = to_event(factor)
        assert type(event) is kind
        once, again = (cost(one).delta(0.3) for one in (factor, from_event(event)))
        assert once.lower <= again.upper
    assert to_event(RandomizedResponse(epsilon=1, answers=5)).num_buckets == 5
    exact, less = from_event(to_event(Approx(epsilon=1, delta="1e-3"))), from_event(to_event(Pure(epsilon=1)))
    known = cost(Approx(epsilon=1, delta="1e-3")).delta(0.5)
    assert cost(exact).delta(0.5).upper == pytest.approx(known.upper, rel=1e-9)
    assert cost(less).delta(0.5).upper < known.lower
    with pytest.raises(PrivacyError, match="no event for Renyi"):
        to_event(Renyi(curve=((2, "0.1"), (8, "0.5"))))


def test_numbers_of_a_written_event_are_rounded_to_more_loss(dp):
    third, share = Fraction(1, 3), Fraction("0.3")  # a double is below both
    sampled = to_event(SubsampledGaussian(mu=3, rate=share))
    pure = to_event(SubsampledLaplace(epsilon=3, rate=share))
    zcdp = to_event(ZeroConcentrated(rho="0.3", xi="0.3"))
    noises = [to_event(Gaussian(mu=3)), to_event(Laplace(epsilon=3)), sampled.event, pure.event]
    assert [one.noise_multiplier for one in noises] == [1 / 3] * 4
    assert Fraction(1 / 3) < third
    more = [sampled.sampling_probability, pure.sampling_probability, zcdp.rho, zcdp.xi]
    more.append(to_event(Geometric(epsilon="0.3", sensitivity=1)).noise_parameter)
    assert more == [math.nextafter(0.3, 1)] * 5
    assert Fraction(0.3) < share  # the near miss: the nearest double


@pytest.mark.slow
def test_a_written_event_reads_back_as_no_less(dp):
    for factor in (
        Gaussian(mu="1/3"),
        Laplace(epsilon="0.3"),
        Geometric(epsilon="0.7", sensitivity=3),
        ZeroConcentrated(rho="1/7"),
        SubsampledGaussian(mu=3, rate="1/7"),
        SubsampledLaplace(epsilon="0.3", rate="1/7"),
        SubsampledFinite(base=Geometric(epsilon=1), rate="1/7"),
        GaussianMixture(distances=(0, 1, 2), weights=("1/3", "1/3", "1/3")),
    ):
        again, once = (cost(one).epsilon("1e-5") for one in (from_event(to_event(3 * factor)), 3 * factor))
        assert once.lower <= again.upper <= once.upper * (1 + 1e-9)
    tree = to_event(sequential(repeated(Gaussian(mu=1), 2), subsample(Laplace(epsilon=1), "0.5")))
    assert [type(part).__name__ for part in tree.events] == ["SelfComposedDpEvent", "PoissonSampledDpEvent"]
    with pytest.raises(PrivacyError, match="to_pld"):
        to_event(parallel(Gaussian(mu=1), Laplace(epsilon=1)))
