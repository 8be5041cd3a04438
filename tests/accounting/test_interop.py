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
from neartwin.accounting.training import fixed_batches
from neartwin.accounting.usage import cost, parallel, repeated, sequential, subsample
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import (
    Approx,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    GaussianMixture,
    Geometric,
    Laplace,
    Leak,
    Pure,
    RandomAllocation,
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
        dp.SampledWithoutReplacementDpEvent(100, 10, dp.ComposedDpEvent([dp.GaussianDpEvent(1.0)] * 2)),
        dp.SampledWithReplacementDpEvent(100, 10, dp.LaplaceDpEvent(1.0)),
        dp.dp_event.UnsupportedDpEvent(),
        "GaussianDpEvent",
    ):
        with pytest.raises(PrivacyError, match=r"state (its|their)"):
            from_event(event)
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
    for shape in (1.0, math.inf):
        selected = from_event(dp.dp_event.RepeatAndSelectDpEvent(dp.GaussianDpEvent(5.0), 8.0, shape))
        from dp_accounting.rdp import RdpAccountant

        theirs = (
            RdpAccountant()
            .compose(dp.dp_event.RepeatAndSelectDpEvent(dp.GaussianDpEvent(5.0), 8.0, shape))
            .get_epsilon(1e-6)
        )
        least = (
            0.98 * theirs if shape == 1 else cost(Gaussian(mu="0.2")).epsilon("1e-6").upper
        )  # theirs knows a looser delta
        assert least <= cost(selected).epsilon("1e-6").upper <= 1.001 * theirs


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
        assert 0.2 + 0.1 * order <= shifted.renyi(order).upper <= 0.2 + 0.11 * order + 0.02


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
    with pytest.raises(PrivacyError, match="no event for Leak"):
        to_event(Leak(delta="1e-6"))


@pytest.mark.slow
def test_noise_is_calibrated_for_an_event_of_any_kind(dp):
    for make in (
        lambda s: dp.dp_event.MixtureOfGaussiansDpEvent(s, [0.0, 1.0, 2.0], [0.81, 0.18, 0.01]),
        lambda s: dp.SampledWithoutReplacementDpEvent(100, 10, dp.GaussianDpEvent(s)),
        lambda s: dp.dp_event.RepeatAndSelectDpEvent(dp.GaussianDpEvent(s), 5.0, 1.0),
        lambda s: dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(s)),
    ):
        found = least_noise(lambda s, make=make: from_event(make(float(s))), approx(2, "1e-5"), tolerance="1e-2")
        assert cost(from_event(make(float(found.value)))).epsilon("1e-5").upper <= 2
        assert cost(from_event(make(float(found.value) * 0.97))).epsilon("1e-5").upper > 2
