"""Every mechanism of ours withstands the game at its own claim, and the game comes near the claim where it is tight."""

import itertools
import math
from fractions import Fraction as F

import numpy as np
import pytest

from neartwin import noise
from neartwin.accounting.budgets import pure
from neartwin.audit.attacks import averaged, differenced, reachable, time_follows_noise
from neartwin.audit.claims import claim_approx, claim_gdp, claim_of, claim_pure
from neartwin.audit.game import audit
from neartwin.audit.neighbouring_inputs import answer_patterns, known
from neartwin.audit.runs import Batched
from neartwin.errors import BudgetError
from neartwin.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Staircase
from neartwin.mechanisms.local import RandomizedResponse
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.exponential import ExponentialMechanism, PermuteAndFlip
from neartwin.mechanisms.selection.noisy_max import NoisyMax
from neartwin.mechanisms.selection.quantiles import Quantiles
from neartwin.mechanisms.selection.sparse_vector import AboveThreshold
from neartwin.mechanisms.selection.thresholds import OptimalSelection, UnitThreshold
from tests.audit.verdicts import stands

ONE = F(1)


def whole(answers):
    return np.array(answers, np.int64)


def additive(mechanism):
    return Batched(lambda values, runs: mechanism.noisy(np.tile(whole(values), (runs, 1))).astype(np.float64))


def reported(mechanism):
    return Batched(lambda answer, runs: mechanism.report(np.full(runs, answer, np.int64)))


def kept(mechanism):
    return Batched(lambda units, runs: mechanism.keeps(np.tile(whole(units), (runs, 1)).reshape(-1)).reshape(runs, -1))


def chosen(mechanism):
    return lambda scores: mechanism.choose(whole(scores))


def led(mechanism):
    return lambda scores: tuple(mechanism.choose_with_lead(whole(scores)))


def streamed(mechanism):
    def run(answers):
        session, told = mechanism.start(threshold=1), []
        for answer in answers:
            told.append(session.ask(int(answer)))
            if session.is_over:
                break
        return told

    return run


def patterns():
    return answer_patterns(5)


SELECT = {"epsilon": ONE, "sensitivity": 1, "monotone": False}
QUARTILES = Quantiles(epsilon=ONE, ranks=(F(1, 4), F(1, 2)), low=0, high=20, neighbours=Neighbours.ADD_REMOVE)

OURS = {
    "geometric": (additive(DiscreteLaplace.calibrated(epsilon=ONE, sensitivity=1)), claim_pure(1), known(((3,), (4,)))),
    "geometric, three cells": (
        additive(DiscreteLaplace.calibrated(epsilon=ONE, sensitivity=3)),
        claim_pure(1),
        known(((0, 0, 0), (1, 1, 1)), ((0, 0, 0), (3, 0, 0)), ((0, 2, 0), (1, 0, 0))),
    ),
    "Laplace": (additive(Laplace.calibrated(epsilon=ONE, sensitivity=2)), claim_pure(1), known(((0,), (2,)))),
    "Laplace, a thousand steps": (
        additive(Laplace.calibrated(epsilon=ONE, sensitivity=1_000)), claim_pure(1), known(((0,), (1_000,)))
    ),
    "staircase": (additive(Staircase.calibrated(epsilon=F(2), sensitivity=4)), claim_pure(2), known(((0,), (4,)), ((0,), (1,)))),
    "Gaussian": (additive(Gaussian.for_gdp(mu=ONE, l2_squared=25)), claim_gdp(1), known(((0, 0), (3, 4)), ((0, 0), (5, 0)))),
    "discrete Gaussian": (
        additive(DiscreteGaussian.for_zcdp(rho=F(1, 2), l2_squared=1)),
        claim_approx(0.5 + 2 * math.sqrt(0.5 * math.log(100)), "0.01"),
        known(((0,), (1,))),
    ),
    "randomized response": (reported(RandomizedResponse(epsilon=ONE, answers=2)), claim_pure(1), known((0, 1))),
    "randomized response, five answers": (reported(RandomizedResponse(epsilon=ONE, answers=5)), claim_pure(1), known((0, 4))),
    "noisy max": (chosen(NoisyMax.calibrated(**SELECT)), claim_pure(1), patterns()),
    "noisy max with its lead": (led(NoisyMax.calibrated(**SELECT)), claim_pure(1), patterns()),
    "permute and flip": (chosen(PermuteAndFlip.calibrated(**SELECT)), claim_pure(1), patterns()),
    "exponential": (chosen(ExponentialMechanism.calibrated(**SELECT)), claim_pure(1), patterns()),
    "above threshold": (
        streamed(AboveThreshold.calibrated(**SELECT)),
        claim_pure(1),
        known(((0,) * 8, (1,) * 8), ((1, 0) * 4, (0, 1) * 4), ((0,) * 8 + (1,), (1,) * 8 + (0,))),
    ),
    "above threshold, three times": (
        streamed(AboveThreshold.for_several(**SELECT, most_above=3)),
        claim_pure(1),
        known(((0,) * 6 + (1,) * 3, (1,) * 6 + (0,) * 3), ((1, 0) * 5, (0, 1) * 5)),
    ),
    "unit threshold": (
        kept(UnitThreshold.calibrated(epsilon=ONE, delta=F(1, 100), sensitivity=2, groups_per_unit=2)),
        claim_approx(1, "0.01"),
        known(((1, 1), (0, 0)), ((6, 5), (5, 4))),
    ),
    "optimal selection": (
        kept(OptimalSelection(epsilon=ONE, delta=F(1, 100))), claim_approx(1, "0.01"), known(((1,), (0,)), ((4,), (3,)))
    ),
    "quantiles": (
        lambda values: tuple(QUARTILES.choose(whole(values))),
        claim_pure(1),
        known(((2, 2, 9, 15), (2, 2, 9)), ((), (20,)), ((0, 0, 0), (0, 0, 0, 20))),
    ),
}  # fmt: skip
OURS = {name: (mechanism, claim, list(twins)) for name, (mechanism, claim, twins) in OURS.items()}


@pytest.mark.parametrize("name", OURS)
def test_mechanism_withstands_the_game(name):
    mechanism, claim, twins = OURS[name]
    assert stands(mechanism, claim, twins, runs=4_000 if isinstance(mechanism, Batched) else 800)


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_mechanism_withstands_the_game_over_many_runs(name):
    mechanism, claim, twins = OURS[name]
    runs = 1_000_000 if isinstance(mechanism, Batched) else 40_000
    assert stands(mechanism, claim, twins, runs=runs, search_runs=runs // 20)


def test_the_least_tightening_of_a_claim_is_refuted():
    # the same game refutes what our mechanisms do not claim: it has teeth here too
    for name, claim in (
        ("geometric", claim_pure("0.6")),
        ("Gaussian", claim_gdp("0.6")),
        ("randomized response", claim_pure("0.6")),
    ):
        mechanism, _, twins = OURS[name]
        assert audit(mechanism, claim, twins, runs=8_000).refuted, name
    noisy, _, twins = OURS["noisy max"]
    worst = [pair for pair in twins if "one above, the rest below" in pair.why]
    assert audit(noisy, claim_pure("0.2"), worst, runs=4_000).refuted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["geometric", "Laplace, a thousand steps", "randomized response", "Gaussian"])
def test_audited_bound_is_within_a_tenth_of_our_claim(name):
    mechanism, claim, twins = OURS[name]
    found = audit(mechanism, claim, twins, runs=1_000_000)
    assert found.confidence == 0.999
    assert 0.9 < found.reached < 1.02, str(found)


@pytest.mark.slow
def test_audited_bound_of_our_noisy_max_is_within_a_tenth_of_its_claim():
    # the last of eight draws level: the others' best noise is nearly surely positive, where Laplace tails are exact
    twins = known(((0,) + (2,) * 7, (1,) * 8), why="the last draws level")
    found = audit(chosen(NoisyMax.calibrated(**SELECT)), claim_pure(1), twins, runs=400_000, confidence=0.95)
    assert 0.9 < found.reached < 1.03, str(found)


def test_lowest_bits_of_our_noise_tell_nothing():
    scale = 2**20
    grid = DiscreteLaplace.calibrated(epsilon=ONE, sensitivity=scale)
    drawn = {centre: grid.noisy(np.full(8_000, centre * scale)) / scale for centre in (0, 1)}
    certain = {c: np.mean(reachable(d, 0.0, 1.0) & ~reachable(d, 1.0, 1.0)) for c, d in drawn.items()}
    assert certain[0] < 1.5 * math.e * certain[1]  # no more than epsilon = 1 allows, with room for chance
    assert certain[1] < 1.5 * math.e * certain[0]


@pytest.mark.slow
def test_time_of_a_draw_does_not_follow_its_noise():
    sampler = noise.discrete_laplace(F(100))
    found = time_follows_noise(sampler.draw, calls=40_000, shuffles=99)
    assert abs(found.correlation) < 0.03


@pytest.fixture
def salaries(tmp_path):
    import pyarrow as pa

    import neartwin as nt

    rows = pa.table({"who": list(range(40)), "paid": [float(i % 7) for i in range(40)]})
    people = nt.table(rows, unit="who", name="staff", columns={"paid": nt.bounds(0, 6)})
    with nt.open_ledger(tmp_path / "book.db") as book:
        yield people, book.open(people, pure(1))


def ask(account, rows, spend):
    import neartwin as nt

    proposal = account.plan(rows.agg(total=nt.sum("paid")), spend=pure(spend), limits=nt.limits(max_rows_per_group=1))
    return float(account.release(proposal)["total"].values[0])


def test_averaging_gets_one_stored_answer_from_our_ledger_for_nothing(salaries):
    people, account = salaries
    first = ask(account, people, "0.5")
    again = averaged(lambda: ask(account, people, "0.5"), times=20)
    assert again.value == pytest.approx(first)  # the mean of twenty equal floats, rounded
    assert (again.answers, again.refusal) == (20, None)
    assert account.remaining["epsilon"] == F(1, 2)


def test_differencing_is_refused_by_our_ledger_when_the_budget_is_gone(salaries):
    people, account = salaries
    questions = itertools.count(1)  # each question is a new one, so that none is answered from the record

    def counted(group):
        without = "" if len(group) == 40 else " AND who <> 7"
        return ask(account, people.where(f"who >= {-next(questions)}{without}"), "0.3")

    found = differenced(counted, list(range(40)), 7, times=20)
    assert isinstance(found.refusal, BudgetError)
    assert found.answers == 2  # one pair of answers, each with noise of scale 20 on salaries of at most 6


def test_a_target_of_ours_is_a_claim_to_attack():
    assert claim_of(pure(1)) == claim_pure(1)
