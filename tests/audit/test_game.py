"""The game: what a finding says, what strategies try, and how near the truth the bounds come."""

import numpy as np
import pytest

from neartwin.audit.claims import EpsilonDelta, claim_gdp, claim_of, claim_pure
from neartwin.audit.game import audit, examine
from neartwin.audit.likelihood_scores import columns
from neartwin.audit.neighbouring_inputs import Twins, answer_patterns, known, searched, table_corners
from neartwin.audit.runs import Batched, Raised, Transcript, play
from neartwin.errors import ParameterError, PrivacyError
from tests.audit.controls import discrete_laplace


def discrete(rng, scale):
    return Batched(lambda value, runs: value + discrete_laplace(rng, scale, runs))


def normal(rng):
    return Batched(lambda value, runs: np.rint((value + rng.normal(0, 1, runs)) * 1024) / 1024)


def flipped(rng):
    keep = np.e / (1 + np.e)
    return Batched(lambda bit, runs: np.where(rng.random(runs) < keep, bit, 1 - bit))


def noisy_max(rng):
    return Batched(lambda answers, runs: (np.asarray(answers) + rng.laplace(0, 2, (runs, len(answers)))).argmax(axis=1))


TIGHT = {
    "Laplace": (lambda rng: discrete(rng, 1), claim_pure(1), lambda: known((0, 1)), 40_000),
    "randomized response": (flipped, claim_pure(1), lambda: known((0, 1)), 40_000),
    # the last of eight draws level: the others' best noise is nearly surely positive, where Laplace tails are exact
    "noisy max": (noisy_max, claim_pure(1), lambda: known(((0,) + (2,) * 7, (1,) * 8)), 200_000),
    "Gaussian": (normal, claim_gdp(1), lambda: known((0.0, 1.0)), 40_000),
}


@pytest.mark.parametrize("name", TIGHT)
def test_the_bound_comes_near_the_claim_and_not_above(name):
    make, claim, twins, runs = TIGHT[name]
    finding = audit(make(np.random.default_rng(11)), claim, twins(), runs=runs, confidence=0.95)
    assert finding.reached == pytest.approx(0.95, abs=0.05), str(finding)
    assert not finding.refuted


@pytest.mark.slow
@pytest.mark.parametrize("name", TIGHT)
def test_the_bound_comes_within_a_tenth_of_the_claim_at_confidence_0_999(name):
    make, claim, twins, runs = TIGHT[name]
    finding = audit(make(np.random.default_rng()), claim, twins(), runs=25 * runs)
    assert finding.confidence == 0.999
    assert finding.reached >= 0.9, str(finding)
    assert finding.reached <= 1.01, str(finding)


def test_the_patterns_find_most_of_what_a_noisy_max_leaks():
    finding = audit(
        noisy_max(np.random.default_rng(12)), claim_pure(1), answer_patterns(8), runs=40_000, search_runs=8_000
    )
    assert 0.7 < finding.reached < 1, str(finding)


def test_a_finding_says_claim_inputs_event_counts_and_can_be_recounted():
    finding = audit(discrete(np.random.default_rng(1), 0.5), claim_pure(1), known((0, 1)), runs=8_000)
    text = str(finding)
    assert finding.refuted
    for part in (
        "epsilon=1: refuted at confidence 0.999",
        "epsilon is at least 1.",
        "known worst case",
        "event: ",
        "of 4000",
    ):
        assert part in text, text
    assert finding.recount() == finding.hits
    assert finding.runs == (4_000, 4_000)
    assert "not refuted" in str(audit(discrete(np.random.default_rng(1), 1), claim_pure(1), known((0, 1)), runs=8_000))


def test_samples_made_elsewhere_are_examined_alike():
    rng = np.random.default_rng(2)
    outputs = [[{"n": int(value)} for value in centre + discrete_laplace(rng, 0.5, 6_000)] for centre in (0, 1)]
    assert examine(Transcript(Twins(0, 1), *outputs), claim_pure(1)).refuted


def test_the_search_finds_the_pair_where_the_fault_is():
    rng = np.random.default_rng(3)
    leaky = Batched(lambda value, runs: np.where(value == 7, 100, 0) + discrete_laplace(rng, 1, runs))
    pairs = [Twins(i, i + 1, f"from {i}") for i in range(10)]
    assert audit(leaky, claim_pure(1), pairs, runs=2_000, search_runs=200).twins.why in ("from 6", "from 7")
    found = audit(
        leaky,
        claim_pure(1),
        searched(lambda r: (0, int(r.integers(10))), rounds=40, seed=1),
        runs=2_000,
        search_runs=200,
    )
    assert found.refuted
    assert found.twins.right == 7


@pytest.mark.parametrize(
    "outputs",
    [
        lambda rng, side: ["yes" if rng.random() < 0.3 + 0.5 * side else None for _ in range(800)],
        lambda rng, side: [tuple(range(int(rng.integers(1, 3 + 3 * side)))) for _ in range(800)],
        lambda rng, side: [{"a": 1} | ({"b": 2} if rng.random() < 0.2 + 0.7 * side else {}) for _ in range(800)],
        lambda rng, side: [float("nan") if rng.random() < 0.2 + 0.7 * side else 1.0 for _ in range(800)],
        lambda rng, side: [Raised("ValueError") if rng.random() < 0.1 + 0.8 * side else 3 for _ in range(800)],
        lambda rng, side: [[1.0, "text", None if rng.random() < 0.1 + 0.8 * side else 2] for _ in range(800)],
        lambda rng, side: rng.normal(0, 1 + 4 * side, (800, 3)),
        lambda rng, side: [frozenset({int(rng.random() < 0.1 + 0.8 * side)}) for _ in range(800)],
    ],
    ids=["words", "lengths", "keys", "not a number", "errors", "mixed", "spread of vectors", "sets"],
)
def test_a_leak_is_found_in_outputs_of_any_shape(outputs):
    rng = np.random.default_rng(4)
    leak = examine(Transcript(Twins(0, 1), outputs(rng, 0), outputs(rng, 1)), claim_pure("0.4"))
    assert leak.refuted, str(leak)
    same = examine(Transcript(Twins(0, 1), outputs(rng, 1), outputs(rng, 1)), claim_pure("0.4"))
    assert not same.refuted, str(same)


def test_the_lowest_bit_of_a_float_is_read_exactly():
    found = columns([1.5, 1 + 2.0**-52, 2.0**-1074, -6.0, 0.0])
    assert found["lowest bit"].tolist()[:4] == [-1, -52, -1074, 1]
    assert np.isnan(found["lowest bit"][4])


def test_an_error_is_an_output_and_errors_alone_are_refused():
    shaky = lambda value: 1 / value  # noqa: E731
    assert audit(shaky, claim_pure(1), known((0, 1)), runs=400).refuted
    with pytest.raises(ParameterError, match="ZeroDivisionError on every run"):
        play(shaky, Twins(0, 0), runs=10)


def coin(bit):
    import secrets

    return bit ^ (secrets.randbelow(4) == 0)


def seeded(value):
    global GENERATOR  # noqa: PLW0603 - the fault: each process starts the same stream
    GENERATOR = GENERATOR or np.random.default_rng(5)
    return value + float(GENERATOR.laplace())


GENERATOR = None


@pytest.mark.slow
def test_parallel_processes_draw_own_randomness_and_copies_are_refused():
    transcript = play(coin, Twins(0, 1), runs=600, workers=2)
    assert len(transcript.left) == len(transcript.right) == 600
    assert 80 < sum(transcript.left) < 230
    with pytest.raises(PrivacyError, match="same randomness"):
        play(seeded, Twins(0, 1), runs=640, workers=2)


def test_no_bar_is_drawn_off_a_terminal(capsys):
    play(coin, Twins(0, 1), runs=10)
    assert capsys.readouterr() == ("", "")


def test_strategies_give_neighbours():
    for twins in answer_patterns(6, change=0.5):
        assert max(abs(a - b) for a, b in zip(twins.left, twins.right, strict=True)) == 0.5
    for twins in table_corners(low=0, high=5, heavy=9):
        extra = twins.right[len(twins.left) :]
        assert twins.right[: len(twins.left)] == twins.left
        assert {unit for unit, _, _ in extra} == {"new"}
        assert "new" not in {unit for unit, _, _ in twins.left}


def test_the_game_refuses_what_it_cannot_play():
    with pytest.raises(ParameterError):
        audit(coin, claim_pure(1), [])
    with pytest.raises(ParameterError):
        audit(coin, claim_pure(1), known((0, 1)), confidence=1)
    with pytest.raises(ParameterError):
        audit(Batched(lambda _value, runs: [0] * (runs + 1)), claim_pure(1), known((0, 1)))
    with pytest.raises(ParameterError):
        claim_pure(-1)


def test_a_target_is_a_claim():
    from neartwin.accounting.budgets import approx, pure

    assert claim_of(pure("0.5")) == EpsilonDelta(0.5, 0.0)
    assert claim_of(approx("0.5", "1e-6")).delta == pytest.approx(1e-6)


def test_runs_that_teach_and_choose_are_never_counted():
    # the first half gives everything away, the second nothing: only the second is evidence
    rng = np.random.default_rng(13)
    same = discrete_laplace(rng, 1, 4_000).astype(float)
    left, right = same.copy(), rng.permutation(same)
    right[:2_000] += 100
    finding = examine(Transcript(Twins(0, 1), left, right), claim_pure("0.1"))
    assert not finding.refuted, str(finding)
    assert np.array_equal(finding.samples.left, left[2_000:])
    right[2_000:] += 100
    assert examine(Transcript(Twins(0, 1), left, right), claim_pure("0.1")).refuted
