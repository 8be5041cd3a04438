"""Every confidence bound keeps its confidence, by exact sums or simulation, and a bound a little tighter does not."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from neartwin.audit.claims import BelowCurve, claim_approx, claim_gdp, claim_pure, epsilon_seen, mu_seen, refutes
from neartwin.audit.game import examine, lower_bound, upper_bound
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Transcript
from neartwin.errors import ParameterError

PAIR = Twins(0, 1, "simulated")


def exact_failure(bound, runs, p, confidence, side):
    """The exact chance that the bound lies on the wrong side of p: a sum over all outcomes."""
    hits = np.arange(runs + 1)
    found = bound(hits, runs, confidence=confidence)
    wrong = found > p if side == "lower" else found < p
    return float(stats.binom.pmf(hits[wrong], runs, p).sum())


@pytest.mark.parametrize(("bound", "side"), [(lower_bound, "lower"), (upper_bound, "upper")])
def test_clopper_pearson_fails_nearly_as_often_as_stated_and_no_more(bound, side):
    worst = 0.0
    for runs, confidence in itertools.product((1, 7, 200), ("0.9", "0.999")):
        failures = [exact_failure(bound, runs, p, confidence, side) for p in np.linspace(0.001, 0.999, 334)]
        assert max(failures) <= (1 - float(confidence)) * (1 + 1e-9)
        worst = max(worst, max(failures) / (1 - float(confidence)))
    assert worst > 0.9  # a wider bound would be safe but weak


def tail(runs, hits, p):
    """Pr[Bin(runs, p) >= hits], in forty digits."""
    with mpmath.workdps(40):
        p = mpmath.mpf(p)
        return mpmath.fsum(mpmath.binomial(runs, i) * p**i * (1 - p) ** (runs - i) for i in range(hits, runs + 1))


@pytest.mark.parametrize(("hits", "runs"), [(178, 491), (20, 60), (5, 2000), (700, 900), (1, 7)])
@pytest.mark.parametrize("confidence", ["0.9", "0.9999", "0.999999999999"])
def test_clopper_pearson_never_fails_more_than_stated(hits, runs, confidence):
    """In forty digits. With eight roundings of slack one in two hundred did, by 1e-10 of the failure and less."""
    low, high = (float(bound(hits, runs, confidence=confidence)) for bound in (lower_bound, upper_bound))
    with mpmath.workdps(40):
        failure = 1 - mpmath.mpf(confidence)
        assert tail(runs, hits, low) <= failure
        assert 1 - tail(runs, hits + 1, high) <= failure


def test_clopper_pearson_solves_its_equation_in_high_precision():
    for hits, runs, confidence in ((3, 400, "0.975"), (95, 100, "0.999"), (1, 300, "0.9"), (150, 300, "0.999999")):
        failure = 1 - mpmath.mpf(confidence)
        low, high = (float(bound(hits, runs, confidence=confidence)) for bound in (lower_bound, upper_bound))
        assert abs(tail(runs, hits, low) / failure - 1) < 1e-9
        assert abs((1 - tail(runs, hits + 1, high)) / failure - 1) < 1e-9


def test_clopper_pearson_refuses_malformed_counts():
    for hits, runs in ((-1, 10), (11, 10), (0, 0), (1.5, 10), (float("nan"), 10)):
        with pytest.raises(ParameterError):
            lower_bound(hits, runs, confidence=0.9)
    for confidence in (0, 1, 2, "nan"):
        with pytest.raises(ParameterError):
            upper_bound(1, 10, confidence=confidence)


def test_errors_at_the_edges_say_all_or_nothing():
    assert float(epsilon_seen(0.0, 0.9)) == math.inf
    assert float(epsilon_seen(0.9, 0.0)) == math.inf
    assert float(epsilon_seen(0.0, 0.9, delta=0.2)) <= 0  # the mass delta explains it
    assert float(epsilon_seen(0.5, 0.5)) == 0
    assert float(mu_seen(0.0, 0.5)) == math.inf
    assert float(mu_seen(0.0, 1.0)) == -math.inf
    assert float(mu_seen(0.3, 0.7)) == pytest.approx(0, abs=1e-15)
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(ParameterError):
            epsilon_seen(bad, 0.5)


def test_claims_allow_errors_on_the_curve_and_not_below():
    rates = np.linspace(0.01, 0.6, 25)
    for claim in (claim_pure("0.7"), claim_approx("0.7", "0.05"), claim_gdp("1.3")):
        for judge in (claim, BelowCurve(claim.floor)):
            for fpr, fnr in zip(rates, claim.floor(rates), strict=True):
                assert not refutes(judge, float(judge.reached(np.array(fpr), np.array(fnr))))
                if fnr > 0.02:
                    assert refutes(judge, float(judge.reached(np.array(fpr), np.array(fnr - 0.01))))


def flips(rng, runs, epsilon):
    keep = special.expit(epsilon)
    return Transcript(PAIR, (rng.random(runs) > keep) * 1.0, (rng.random(runs) < keep) * 1.0)


def normals(rng, runs, mu):
    return Transcript(PAIR, rng.normal(0, 1, runs).round(2), rng.normal(mu, 1, runs).round(2))


def refuted_share(make, claim, *, games, runs, confidence, seed):
    rng = np.random.default_rng(seed)
    return sum(examine(make(rng, runs), claim, confidence=confidence).refuted for _ in range(games)) / games


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "true", "false"),
    [
        (lambda rng, runs: flips(rng, runs, 1.0), claim_pure(1), claim_pure("0.6")),
        (lambda rng, runs: normals(rng, runs, 1.0), claim_gdp(1), claim_gdp("0.6")),
        (lambda rng, runs: flips(rng, runs, 1.0), BelowCurve(claim_pure(1).floor), BelowCurve(claim_pure("0.5").floor)),
    ],
)
def test_true_claim_is_refuted_as_seldom_as_allowed_and_a_false_one_often(make, true, false):
    # 120 games at confidence 0.8: 24 refutations allowed; 0.32 is above that by more than three deviations
    assert refuted_share(make, true, games=120, runs=400, confidence=0.8, seed=5) <= 0.32
    assert refuted_share(make, false, games=25, runs=1_600, confidence=0.8, seed=6) > 0.6


@pytest.mark.slow
def test_true_claim_is_refuted_as_seldom_as_allowed_over_many_games():
    for make, claim in (
        (lambda rng, runs: flips(rng, runs, 1.0), claim_pure(1)),
        (lambda rng, runs: normals(rng, runs, 1.0), claim_gdp(1)),
        (lambda rng, runs: normals(rng, runs, 1.0), BelowCurve(claim_gdp(1).floor)),
    ):
        share = refuted_share(make, claim, games=1_500, runs=800, confidence=0.9, seed=None)
        assert share <= 0.1 + 6 * math.sqrt(0.09 / 1_500)
