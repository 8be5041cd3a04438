"""No truth lies outside of our intervals: random wholes at hostile parameters against an oracle that shares nothing with them.

`make slow` asks 5,000 fresh ones; `bench/bench_oracle.py` any number. The oracle sees an interval that is moved by its own width.
"""

import secrets
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from tests.losses.wholes import NoTruthError, Question, fault, moved, question
from tests.oracles import compositions, sums, truth

F = Fraction
REVEALS = (("pair", (F(1, 2), F(1, 2)), (F(1), F(0))), 2)
FAR = [(("sampled gaussian", F(20), F(1, 10**9)), 1)]
RARE = [(("sampled gaussian", F(1), F(5, 10**17)), 1)]
OFTEN = [(("sampled gaussian", F("1.72"), 1 - F("2.21e-7")), 1)]
STEEP = [
    (("approx", F(80081, 500000000), F(193161, 2 * 10**14)), 3),
    (("sampled gaussian", F(105543, 5000), 1 - F("2.21989e-10")), 1),
]
BELOW_THE_LEAK = F(22421, 625 * 10**8) * (1 - F(47, 10**16))  # whose rounding is about as much
# questions at which caps beside the engine were once wrong, and the wrong intervals
CAPS = (
    (Question(FAR, None, "epsilon", F("9.9999998e-10")), (0.0, 7.8e-10)),
    (Question(RARE, None, "delta", 0.0), (0.0, 0.0)),
    (Question([REVEALS], "remove", "delta", -2.0), (0.966, 0.9661)),
    (Question([(("sampled gaussian", F(1), F(1, 100)), 1)], None, "delta", 30.0), (0.0, 0.0)),
    (Question(OFTEN, "add", "delta", 11.321), (1.07811161790e-9, 1.0782e-9)),
    (Question([(("leak", F(22421, 625 * 10**8)), 1)], "replace", "epsilon", BELOW_THE_LEAK), (0.0, 0.0)),
    (Question(STEEP, "add", "epsilon", F("9.20722199929e-9")), (22.22887376847615, 22.228873848533443)),
)


@dataclass
class Findings:
    """Counts of answers, of truths known, of near misses and of those that were found; and every fault."""

    counts: Counter = field(default_factory=Counter)
    faults: list = field(default_factory=list)

    def __str__(self):
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        return f"{kinds}; faults {len(self.faults)}"


def swept(seed, count):
    """Ask random questions, and the oracle about each answer and about its near misses."""
    rng, found = np.random.default_rng(seed), Findings()
    for _ in range(count):
        asked = question(rng)
        print(f"seed {seed}: {asked}")  # shown where one fails
        answer = asked.answer()
        found.counts[asked.asked] += 1
        try:
            wrong = fault(asked, answer.lower, answer.upper)
        except NoTruthError:
            found.counts["without a truth"] += 1
            continue
        if wrong:
            found.faults.append((seed, wrong, asked, answer))
        if asked.asked != "tradeoff":
            near = list(moved(asked, answer.lower, answer.upper))
            found.counts["near misses"] += len(near)
            found.counts["near misses found"] += sum(bool(fault(asked, *ends)) for ends in near)
    return found


def test_answers_where_caps_were_wrong_hold_the_truth_and_the_caps_do_not():
    for asked, cap in CAPS:
        answer = asked.answer()
        assert fault(asked, answer.lower, answer.upper) == "", asked
        assert fault(asked, *cap), asked


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 13, 15, 16])
def test_a_few_seeded_wholes_hold_their_truth(seed):
    found = swept(seed, 8)
    assert found.faults == []
    assert found.counts["near misses found"] == found.counts["near misses"] > 8


SURE, THIRD = (F(1), F(0), F(0)), ((F(6, 43), F(8, 43), F(29, 43)), (F(2, 19), F(9, 38), F(25, 38)))
REVEALING = [(("pair", SURE, THIRD[0]), 3), (("sampled pair", THIRD[1], SURE, F(99999063051, 10**11)), 2)]
SELDOM = [(("silent", F(8647, 4000)), 1), (("sampled laplace", F(51857, 50000), F("3.79526e-8")), 1)]
FAR = [(("geometric", F(833, 6250000), 4), 3), (("sampled gaussian", F("29.6187"), F("1.53298e-8")), 1)]


@pytest.mark.parametrize(
    ("whole", "direction", "what", "at"),
    [
        (REVEALING, "remove", "delta", 0.0),
        pytest.param(FAR, None, "delta", 5.37725e-05, marks=pytest.mark.slow),
        (SELDOM, None, "epsilon", F(948814999983000461171, 25 * 10**27)),
    ],
    ids=["revealing", "far", "seldom"],
)
def test_questions_that_no_line_answers_raise_nothing(whole, direction, what, at):
    asked = Question(whole, direction, what, at)
    answer = asked.answer()
    assert fault(asked, answer.lower, answer.upper) == "", asked


@pytest.mark.slow
def test_a_pair_that_reveals_has_levels():
    asked = Question([REVEALS], "remove", "tradeoff", 0.5)
    answer = asked.answer()
    assert fault(asked, answer.lower, answer.upper) == ""
    assert fault(asked, 0.126, 0.2) == "below"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_fresh_wholes_hold_their_truth_and_near_misses_are_found(part):
    seed = secrets.randbits(32)
    found = swept(seed, 250)
    print(f"part {part}, seed {seed}: {found}")
    assert found.faults == []
    assert found.counts["without a truth"] <= 0.04 * 250
    assert found.counts["near misses found"] >= 0.97 * found.counts["near misses"]


def test_the_oracle_agrees_with_others_that_share_nothing_with_it():
    e, eps = F(2, 5), F(3, 2)
    with mp.workdps(40):
        pairs = [
            (
                truth.delta([(("laplace", e), 12)], "add", [eps])[0],
                compositions.laplace(mp.mpf(2) / 5, 12, mp.mpf("1.5")),
            ),
            (
                truth.delta([(("response", e, 5), 9)], "add", [eps])[0],
                sums.on_lattice(*sums.answers(e, 5), 9, mp.mpf("1.5")),
            ),
            (
                truth.delta([(("staircase", e, 5, 4), 9)], "add", [eps])[0],
                sums.on_lattice(*sums.stairs(e, 5, 4), 9, mp.mpf("1.5")),
            ),
        ]
    for ours, theirs in pairs:
        assert abs(mp.mpf(float(ours)) / theirs - 1) < 1e-15
