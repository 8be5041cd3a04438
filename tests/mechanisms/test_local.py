import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.mechanisms.local import HadamardResponse, RandomizedResponse, Rappor, debiased, transform
from tests.oracles import pairs

# shares of a survey question with six answers, one of them chosen by nobody
SHARES = np.array([0.41, 0.27, 0.17, 0.1, 0.05, 0.0])


def survey(people, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(6), np.round(SHARES * people).astype(int)))


def response_law(mechanism, answer):
    law = np.full(mechanism.answers, mechanism.lie)
    law[answer] = mechanism.truth
    return law


def bits_law(yes, no, answer, count):
    """Over all bit vectors."""
    on = [yes if i == answer else no for i in range(count)]
    return np.array(
        [
            math.prod(p if bit else 1 - p for p, bit in zip(on, bits, strict=True))
            for bits in itertools.product((0, 1), repeat=count)
        ]
    )


def hadamard_law(mechanism, answer):
    """Over (row, sign)."""
    yes = 1 / (1 + math.exp(-float(mechanism.epsilon)))
    plus = [(row & (answer + 1)).bit_count() % 2 == 0 for row in range(mechanism.order)]
    return (
        np.array([[yes if up == sign else 1 - yes for sign in (True, False)] for up in plus]).ravel() / mechanism.order
    )


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(3)])
def test_every_local_protocol_has_exactly_its_epsilon(epsilon):
    e = float(epsilon)
    response = RandomizedResponse(epsilon=epsilon, answers=5)
    hadamard = HadamardResponse(epsilon=epsilon, answers=5)
    laws = {
        "response": [response_law(response, a) for a in range(5)],
        "hadamard": [hadamard_law(hadamard, a) for a in range(5)],
    }
    for rows in laws.values():
        losses = [pairs.largest_loss(P, Q) for P, Q in itertools.combinations(rows, 2)]
        assert all(row.sum() == pytest.approx(1) for row in rows)
        assert max(losses) == pytest.approx(e, rel=1e-9)


def test_reports_have_the_stated_law_and_no_other():
    source, people = noise.ScriptedSource(b"reports"), 20_000
    epsilon = Fraction(1)
    response = RandomizedResponse(epsilon=epsilon, answers=4)
    seen = np.bincount(response.report(np.full(people, 2), source=source), minlength=4)
    assert chisquare(seen, response_law(response, 2) * people).pvalue > 1e-9
    wrong = RandomizedResponse(epsilon=Fraction(11, 10), answers=4)
    assert chisquare(seen, response_law(wrong, 2) * people).pvalue < 1e-6
    hadamard = HadamardResponse(epsilon=epsilon, answers=5)
    reports = hadamard.report(np.full(people, 3), source=source)
    seen = np.bincount(reports.rows * 2 + ~reports.signs, minlength=2 * hadamard.order)
    assert chisquare(seen, hadamard_law(hadamard, 3) * people).pvalue > 1e-9
    assert chisquare(seen, hadamard_law(hadamard, 2) * people).pvalue < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RandomizedResponse, HadamardResponse])
def test_a_survey_is_estimated_without_bias_and_within_its_intervals(kind):
    mechanism, truth = kind(epsilon=Fraction(2), answers=6), survey(2000)
    shares = np.bincount(truth, minlength=6) / truth.size
    errors, covered = [], []
    for run in range(150):
        source = noise.ScriptedSource(f"survey {run}".encode())
        found = mechanism.estimate(mechanism.report(truth, source=source), confidence=0.9)
        errors.append(found.shares - shares)
        covered.append((found.intervals.lower <= shares) & (shares <= found.intervals.upper))
    errors = np.array(errors)
    assert np.abs(errors.mean(axis=0)).max() < 5 * errors.std(axis=0).max() / math.sqrt(150)
    assert errors.std(axis=0) == pytest.approx(found.deviations, rel=0.35)
    assert np.mean(covered) >= 0.88
    assert (found.intervals.width < 0.25).all()


def test_the_best_protocol_depends_on_the_number_of_answers():
    epsilon, n = Fraction(1), 10_000
    responses = (RandomizedResponse(epsilon=epsilon, answers=k) for k in (2, 1000))
    few, many = (
        math.sqrt(max(p * (1 - p), q * (1 - q)) / n) / (p - q) for p, q in ((r.truth, r.lie) for r in responses)
    )
    yes = 1 / (1 + math.exp(-1))  # of Hadamard's sign, for an answer that nobody gave, against one half
    of_rare = math.sqrt(0.25 / n) / (yes - 0.5)
    assert few < of_rare < many / 5
    assert few == pytest.approx(math.sqrt(math.e / (n * (math.e - 1) ** 2)))


def test_rappor_layers_have_the_stated_losses_and_estimates():
    rappor = Rappor(lasting="1/2", on="3/4", off="1/2", hashes=1)
    kept = [bits_law(0.75, 0.25, a, 3) for a in range(2)]
    assert pairs.largest_loss(*kept) == pytest.approx(rappor.lasting_epsilon)
    yes, no = (float(chance) for chance in rappor.chances)
    single = [bits_law(yes, no, a, 3) for a in range(2)]
    assert pairs.largest_loss(*single) == pytest.approx(rappor.single_epsilon)
    assert rappor.single_epsilon < rappor.lasting_epsilon
    truth, source = survey(6000, seed=2), noise.ScriptedSource(b"rappor")
    stored = rappor.keep(np.eye(6, dtype=bool)[truth], source=source)
    found = rappor.estimate(rappor.report(stored, source=source), confidence=0.999)
    shares = np.bincount(truth, minlength=6) / truth.size
    assert ((found.intervals.lower <= shares) & (shares <= found.intervals.upper)).all()
    with pytest.raises(ParameterError):
        Rappor(lasting="1/2", on="1/4", off="1/2")


def test_intervals_cover_in_the_worst_population_exactly():
    """Two kinds of people, so the support is a sum of two binomials; coverage by summing its exact law."""
    n, yes, no, confidence = 40, 0.7, 0.3, 0.9
    frequencies = debiased(np.arange(n + 1), n, yes=yes, no=no, confidence=confidence)
    for with_it in range(n + 1):
        law = np.convolve(
            binom.pmf(np.arange(with_it + 1), with_it, yes), binom.pmf(np.arange(n - with_it + 1), n - with_it, no)
        )
        covers = (frequencies.intervals.lower <= with_it / n) & (with_it / n <= frequencies.intervals.upper)
        assert law[covers].sum() >= confidence


def test_transform_is_the_hadamard_matrix_and_its_own_inverse():
    H = np.array([[(-1) ** (i & j).bit_count() for j in range(16)] for i in range(16)])
    values = np.random.default_rng(0).integers(-9, 9, 16).astype(float)
    assert (transform(values) == H @ values).all()
    assert (transform(transform(values)) == 16 * values).all()


def test_answers_outside_the_list_are_refused_by_the_client():
    for kind in (RandomizedResponse, HadamardResponse):
        mechanism = kind(epsilon=Fraction(1), answers=3)
        mechanism.report(np.array([0, 1, 2]))
        for bad in (np.array([3]), np.array([-1]), np.array([0.5])):
            with pytest.raises(ParameterError):
                mechanism.report(bad)
