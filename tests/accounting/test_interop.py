"""What dp_accounting's users have is read as what it is, and what is written they can use: both against their library."""

import inspect
import os

import numpy as np
import pytest

from neartwin.accounting import dp_accounting
from neartwin.accounting.dp_accounting import from_event, from_pld, to_pld
from neartwin.accounting.usage import cost, parallel
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import Gaussian, Geometric, Laplace, Leak, SubsampledGaussian

if not os.environ.get("CI"):  # in CI its absence is a failure
    pytest.importorskip("dp_accounting")


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
        dp.SampledWithoutReplacementDpEvent(100, 10, dp.GaussianDpEvent(1.0)),
        dp.ZCDpEvent(0.1, 0.1),
        "GaussianDpEvent",
    ):
        with pytest.raises(PrivacyError, match="state its"):
            from_event(event)
    assert cost(from_event(dp.ZCDpEvent(0.1))).epsilon("1e-6").upper == pytest.approx(2.141939, abs=1e-5)


def test_their_pld_composes_here_to_what_it_composes_to_there(theirs):
    pld = theirs.from_gaussian_mechanism(2.0, value_discretization_interval=1e-2, sampling_prob=0.2)
    ours = 20 * cost(from_pld(pld)).cases[0]
    for eps in (0.1, 0.5, 1.0):
        found = ours.delta(eps)
        assert found.upper == pytest.approx(pld.self_compose(20).get_delta_for_epsilon(eps), rel=1e-4)
        assert found.upper >= cost(20 * SubsampledGaussian(mu="0.5", rate="0.2")).delta(eps).lower
        assert found.lower == 0  # a pessimistic distribution bounds nothing from below
    optimistic = theirs.from_gaussian_mechanism(2.0, pessimistic_estimate=False)
    with pytest.raises(PrivacyError, match="optimistic"):
        from_pld(optimistic)
    with pytest.raises(ParameterError):
        ours.delta(0.1, direction="replace")


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
    assert kinds == set(dp_accounting._EVENTS) | set(dp_accounting._REFUSED)
    assert not set(dp_accounting._EVENTS) & set(dp_accounting._REFUSED)


def test_trees_of_one_epoch_are_the_gaussians_that_one_record_meets(dp):
    from dp_accounting.rdp import RdpAccountant

    for steps in (1, 2, 3, 8, [5, 100, 7]):
        event = dp.SingleEpochTreeAggregationDpEvent(2.0, steps)
        ours = cost(from_event(event))
        theirs = RdpAccountant([2.0, 8.0], dp.NeighboringRelation.REPLACE_SPECIAL).compose(event)
        assert theirs._rdp[1] == pytest.approx(ours.renyi(8.0).upper, rel=1e-9)
