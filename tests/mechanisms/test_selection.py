import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.mechanisms.selection.exponential import ExponentialMechanism, PermuteAndFlip
from neartwin.mechanisms.selection.noisy_max import (
    NoisyMax,
    discrete_laplace_noise_wins,
    exact_choice,
    exponential_noise_wins,
    gumbel_noise_wins,
    laplace_noise_wins,
    reused_value_loss,
)
from tests.oracles import pairs

KINDS = [PermuteAndFlip, ExponentialMechanism, NoisyMax]
ONE = Fraction(1)
SCORES = [np.array(s) for s in ([5, 5, 5], [7, 4, 0], [3, 2, 2], [9, 9, 1])]


def permute_and_flip_by_orders(p):
    chance = np.zeros(len(p))
    orders = list(itertools.permutations(range(len(p))))
    for order in orders:
        left = 1.0
        for i in order:
            chance[i] += left * p[i] / len(orders)
            left *= 1 - p[i]
    return chance


def noisy_max_by_quadrature(scores, winner, density, cdf):
    def integrand(v):
        value = density(v - scores[winner])
        for j, score in enumerate(scores):
            if j != winner:
                value *= cdf(v - score)
        return value

    points = sorted({mpmath.mpf(s) for s in scores})
    return mpmath.quad(integrand, [-mpmath.inf, *points, points[-1] + 8, mpmath.inf])


@pytest.mark.slow
def test_winning_probabilities_follow_the_definitions():
    scale, b = Fraction(3, 2), mpmath.mpf(3) / 2
    for scores in (np.array([4, 4, -30]), np.array([1, 0])):
        p = np.exp((scores - scores.max()) / float(scale))
        assert exponential_noise_wins(scores, scale) == pytest.approx(permute_and_flip_by_orders(p), rel=1e-12)
        assert gumbel_noise_wins(scores, scale) == pytest.approx(p / p.sum(), rel=1e-13)
        for winner in range(scores.size):
            exact = noisy_max_by_quadrature(
                [int(s) for s in scores],
                winner,
                lambda x: mpmath.exp(-abs(x) / b) / (2 * b),
                lambda x: mpmath.exp(x / b) / 2 if x < 0 else 1 - mpmath.exp(-x / b) / 2,
            )
            assert laplace_noise_wins(scores, scale)[winner] == pytest.approx(float(exact), rel=1e-11)


def test_exponential_noise_on_many_candidates_still_sums_to_one():
    scores = np.arange(300) // 3
    for wins in (exponential_noise_wins, gumbel_noise_wins, laplace_noise_wins, discrete_laplace_noise_wins):
        assert wins(scores, Fraction(7)).sum() == pytest.approx(1, rel=1e-10)


def test_lattice_noisy_max_is_the_sum_over_all_noise():
    scale, scores = Fraction(1, 2), np.array([2, 1, 2])
    x = np.arange(-12, 13)
    mass = np.exp(-abs(x) * 2.0)
    mass /= mass.sum()
    chance = np.zeros(3)
    for draw in itertools.product(range(x.size), repeat=3):
        noisy = [score + x[i] for score, i in zip(scores, draw, strict=True)]
        chance[int(np.argmax(noisy))] += math.prod(mass[i] for i in draw)
    assert discrete_laplace_noise_wins(scores, scale) == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_selection_is_private_between_all_neighbours(kind, monotone):
    mechanism = kind.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=monotone)
    worst = max(
        pairs.largest_loss(mechanism.pmf(scores), mechanism.pmf(other))
        for scores in SCORES
        for other in pairs.neighbours_of_scores(scores, 1, monotone=monotone)
    )
    assert worst <= 1 + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_the_monotone_scale_is_refuted_for_replace_one(kind):
    wrong = kind.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=True)
    there, back = np.array([0, 20]), np.array([1, 19])
    assert pairs.largest_loss(wrong.pmf(there), wrong.pmf(back)) > 1.5


def test_exponential_mechanism_is_bounded_range():
    mechanism = ExponentialMechanism.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=False)
    for scores in SCORES:
        for other in pairs.neighbours_of_scores(scores, 1, monotone=False):
            losses = np.log(mechanism.pmf(scores) / mechanism.pmf(other))
            assert losses.max() - losses.min() <= 1 + 1e-12


def test_permute_and_flip_never_does_worse_than_the_exponential_mechanism():
    for scores in [*SCORES, np.array([30, 29, 28, 3, 2, 1])]:
        gap = scores.max() - scores
        flip, exponential = (
            kind.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=True).pmf(scores) @ gap for kind in KINDS[:2]
        )
        assert flip <= exponential + 1e-12
    assert flip < 0.9 * exponential  # and on the last of them it does clearly better


@pytest.mark.parametrize("kind", KINDS)
def test_winner_has_the_stated_law_and_not_that_of_half_the_scale(kind):
    scores = np.array([12, 11, 9, 0])
    right = kind(scale=Fraction(2), epsilon=Fraction(1))
    source = noise.ScriptedSource(b"winner")
    seen = np.bincount([right.choose(scores, source=source) for _ in range(3000)], minlength=4)
    assert chisquare(seen, right.pmf(scores) * 3000).pvalue > 1e-9
    wrong = kind(scale=Fraction(1), epsilon=Fraction(1)).pmf(scores)
    assert chisquare(seen, np.maximum(wrong, 1e-9) / np.maximum(wrong, 1e-9).sum() * 3000).pvalue < 1e-9


def winner_and_value(scores, rate, width=14):
    """The joint law of the winner and its own noisy score, on the lattice; ties go to the first."""
    x = np.arange(-width, width + 1)
    mass = np.exp(-rate * abs(x))
    mass /= mass.sum()
    law = {}
    for draw in itertools.product(range(x.size), repeat=len(scores)):
        noisy = [score + x[i] for score, i in zip(scores, draw, strict=True)]
        winner = int(np.argmax(noisy))
        chance = math.prod(mass[i] for i in draw)
        rest = max(v for j, v in enumerate(noisy) if j != winner)
        earlier = any(v == rest for v in noisy[:winner])
        for key in (("value", winner, noisy[winner]), ("lead", winner, noisy[winner] - rest - earlier)):
            law[key] = law.get(key, 0) + chance
    return law


def test_the_lead_is_free_and_the_winning_count_is_not():
    """Two counts, both larger by one for one more unit; noise of scale 1/epsilon, right for the winner alone."""
    epsilon = 0.8
    here, there = (winner_and_value(scores, epsilon) for scores in ([3, 3], [4, 4]))
    loss = {what: [] for what in ("value", "lead")}
    for key in here.keys() & there.keys():
        if key[0] == "lead" or key[2] >= -4:  # away from where the truncated noise ends
            loss[key[0]].append(abs(math.log(here[key] / there[key])))
    assert max(loss["lead"]) <= epsilon + 1e-6
    assert max(loss["value"]) > 1.8 * epsilon
    assert reused_value_loss(epsilon=Fraction(4, 5), candidates=2) == Fraction(8, 5)
    assert max(loss["value"]) <= 1.6 + 1e-2  # the truncation of the noise


def test_a_lead_under_replace_one_stays_within_epsilon():
    rate = 0.5  # scale 2/epsilon for epsilon = 1
    here, there = (winner_and_value(scores, rate, width=20) for scores in ([3, 3], [4, 2]))
    losses = [
        abs(math.log(here[key] / there[key])) for key in here.keys() & there.keys() if key[0] == "lead" and key[2] < 15
    ]
    assert max(losses) <= 1 + 1e-6
    assert max(losses) > 0.85


def lead_chance(scores, winner, gap, rate, *, rounded_down):
    """P(this winner, this lead) by sums over the largest of the earlier and of the later candidates, apart."""
    v = np.arange(-150, 151)
    mass = np.tanh(rate / 2) * np.exp(-rate * abs(v))

    def largest(some):
        """P(max of these noisy scores = v) for each v, and P(max < v)."""
        at_most = np.ones(v.size)
        for score in some:
            at_most = at_most * np.array([mass[v <= x - score].sum() for x in v])
        below = np.concatenate([[0.0], at_most[:-1]])
        return at_most - below, below, at_most

    early, early_below, _ = largest(scores[:winner])
    late, _, late_at_most = largest(scores[winner + 1 :])
    own = np.array([mass[v == x - scores[winner]].sum() for x in v])

    def shifted(law, by):
        return np.concatenate([law[by:], np.zeros(by)]) if by else law

    # runner-up later: later max m, earlier max < m, own m + gap; runner-up earlier: own m + gap + 1 (or m + gap if plain)
    after = (late * early_below * shifted(own, gap)).sum()
    further = gap + 1 if rounded_down else gap
    before = (early * late_at_most * shifted(own, further)).sum() if further else 0.0
    return float(after + before)


@pytest.mark.slow
@pytest.mark.parametrize("monotone", [True, False])
def test_leads_are_private_if_rounded_down_and_not_plain(monotone):
    """Thirty candidates before the winner rise while it and the one after it do not."""
    rate = 0.5 if monotone else 0.25  # epsilon = 1/2 in both: scale D/epsilon, or 2D/epsilon
    here = [0] * 30 + [0, 0]
    there = [1] * 30 + ([0, 0] if monotone else [-1, -1])
    losses = {}
    for rounded_down in (True, False):
        losses[rounded_down] = max(
            abs(
                math.log(
                    lead_chance(here, 30, gap, rate, rounded_down=rounded_down)
                    / lead_chance(there, 30, gap, rate, rounded_down=rounded_down)
                )
            )
            for gap in range(4)
        )
    assert losses[True] <= 0.5 + 1e-6
    assert losses[False] > 0.8


def test_the_lead_drawn_is_the_rounded_one():
    """Two equal scores: the later one must be strictly ahead to win, and its released lead is one less."""
    mechanism, source = NoisyMax(scale=Fraction(1), epsilon=ONE), noise.ScriptedSource(b"rounded")
    leads = [mechanism.choose_with_lead(np.array([0, 0]), source=source) for _ in range(4000)]
    seen = {(w, g): sum(lead == (w, g) for lead in leads) / 4000 for w in (0, 1) for g in (0, 1)}
    for (winner, gap), share in seen.items():
        assert share == pytest.approx(lead_chance([0, 0], winner, gap, 1.0, rounded_down=True), abs=0.03)
    assert seen[1, 0] > 0.1  # the plain difference would never be 0 here


def test_lead_belongs_to_the_winner():
    mechanism = NoisyMax.calibrated(epsilon=Fraction(50), sensitivity=1, monotone=True)
    lead = mechanism.choose_with_lead(np.array([10, 90, 30]), source=noise.ScriptedSource(b"lead"))
    assert lead in {(1, 60), (1, 59), (1, 61)}
    with pytest.raises(ParameterError):
        mechanism.choose_with_lead(np.array([1]))


@pytest.mark.slow
def test_choice_is_exact_on_its_integer_path_too():
    weights, penalties = [1, 10**30, 5], np.array([0, 60, 2])
    p = np.array([1.0, 1e30 * math.exp(-60), 5 * math.exp(-2)])
    for margin in (2.0**-30, 2.0):  # a margin of everything sends every draw to the integers
        source = noise.ScriptedSource(b"pick")
        drawn = [exact_choice(weights, penalties, Fraction(1), source=source, margin=margin) for _ in range(3000)]
        assert chisquare(np.bincount(drawn, minlength=3), p / p.sum() * 3000).pvalue > 1e-9
    assert chisquare(np.bincount(drawn, minlength=3), np.ones(3) * 1000).pvalue < 1e-9


def test_scales_beyond_the_range_of_floats_are_decided_by_integers():
    for scale, expected in ((Fraction(1, 10**400), {1}), (Fraction(10**400), {0, 1, 2})):
        mechanism, source = ExponentialMechanism(scale=scale, epsilon=ONE), noise.ScriptedSource(b"beyond")
        assert {mechanism.choose(np.array([1, 9, 2]), source=source) for _ in range(60)} == expected


def test_both_paths_of_a_choice_agree_draw_by_draw():
    rng = np.random.default_rng(3)
    for trial in range(100):
        weights = [int(w) for w in rng.integers(1, 10**9, 20)]
        penalties = rng.integers(0, 40, 20)
        picks = [
            exact_choice(weights, penalties, Fraction(7, 3), source=noise.ScriptedSource(str(trial).encode()), margin=m)
            for m in (2.0**-30, 2.0)
        ]
        assert picks[0] == picks[1]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_must_be_whole_numbers(kind):
    mechanism = kind.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=True)
    assert mechanism.choose(np.array([10**6, 0])) == 0
    assert mechanism.choose(np.array([10**30, 0], dtype=object)) == 0
    assert mechanism.choose(np.array([-(10**30), 2**63 - 1, -(2**63)], dtype=object)) == 1
    for scores in (np.array([0.5, 1.0]), np.array([], dtype=np.int64), np.array([[1, 2]])):
        with pytest.raises(ParameterError):
            mechanism.choose(scores)


def test_the_best_score_is_missed_by_no_more_than_the_error_bar():
    mechanism = PermuteAndFlip.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=True)
    width = mechanism.half_width(0.95, 50)
    for scores in (np.arange(50), np.array([30] + [25] * 49), np.array([100] + [100 - int(width) - 1] * 49)):
        missed = mechanism.pmf(scores)[scores <= scores.max() - width].sum()
        assert missed <= 0.05
