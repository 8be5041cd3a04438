import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.quantiles import Quantiles
from tests.oracles import pairs

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def law(values, rank, scale, low=0, high=6):
    """By the definition: b times how many values are on the wrong side, for every grid point."""
    a, b, n = rank.numerator, rank.denominator, len(values)
    losses = []
    for v in range(low, high + 1):
        below, above = sum(x < v for x in values), sum(x > v for x in values)
        losses.append(max(0, b * below - a * n, b * above - (b - a) * n))
    weight = np.exp(-(np.array(losses) - min(losses)) / float(scale))
    return weight / weight.sum()


def tables(size):
    return [list(t) for t in itertools.combinations_with_replacement((0, 2, 3, 6), size)]


def single(rank, neighbours, epsilon=1):
    return Quantiles(epsilon=Fraction(epsilon), ranks=(rank,), low=0, high=6, neighbours=neighbours)


@pytest.mark.parametrize("rank", [HALF, THIRD, Fraction(0), Fraction(1), Fraction(9, 10)])
def test_quantile_probabilities_follow_the_definition(rank):
    mechanism = single(rank, Neighbours.ADD_REMOVE)
    for values in [[], [3], [0, 0, 6], [2, 2, 2, 3], [9, -5, 3]]:
        clipped = [min(max(v, 0), 6) for v in values]
        expected = law(clipped, rank, mechanism.scale(rank))
        assert mechanism.pmf(np.array(values, dtype=np.int64)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("rank", [HALF, THIRD, Fraction(9, 10)])
def test_single_quantile_is_private_and_nearly_uses_its_epsilon(rank, neighbours):
    mechanism = single(rank, neighbours)
    worst = 0.0
    for values in [*tables(3), *tables(4), [2] * 9, [0] * 5 + [6] * 5]:
        others = [[*values, v] for v in (0, 2, 3, 6)]
        if neighbours is Neighbours.REPLACE_ONE:
            others = [[*values[1:], v] for v in (0, 2, 3, 6)] + [[*values[:-1], v] for v in (0, 2, 3, 6)]
        for other in others:
            P, Q = (mechanism.pmf(np.array(table)) for table in (values, other))
            worst = max(worst, pairs.largest_loss(P, Q))
    assert worst <= 1 + 1e-9
    assert worst > 0.4


def joint(mechanism, values):
    """The law of three quartiles on the grid 0..3, level by level: a row goes left or right, never both ways."""
    whole = {}
    for v, p in enumerate(law(values, HALF, mechanism.scale(HALF), 0, 3)):
        left, right = [x for x in values if x <= v], [x for x in values if x > v]
        first, last = (
            law(rows, HALF, mechanism.scale(HALF), *ends) for rows, ends in ((left, (0, v)), (right, (v, 3)))
        )
        for (i, pi), (j, pj) in itertools.product(enumerate(first), enumerate(last)):
            whole[i, v, v + j] = p * pi * pj
    return whole


@pytest.mark.slow
def test_several_quantiles_are_drawn_from_their_joint_law():
    mechanism = Quantiles.at("1/4", "1/2", "3/4", epsilon=Fraction(9), low=0, high=3, neighbours=Neighbours.ADD_REMOVE)
    values, source = [1, 1, 1, 2], noise.ScriptedSource(b"joint quartiles")
    drawn = [tuple(mechanism.choose(np.array(values), source=source)) for _ in range(3000)]
    expected = joint(mechanism, values)
    seen = np.array([drawn.count(key) for key in expected])
    assert seen.sum() == 3000
    assert chisquare(seen, np.array(list(expected.values())) * 3000).pvalue > 1e-9
    other = joint(mechanism, [1, 1, 1, 1, 2])
    assert chisquare(seen, np.array(list(other.values())) * 3000).pvalue < 1e-9


def test_several_quantiles_are_private_in_exact_composition():
    """Three quantiles of a table of four rows on a tiny grid: the joint law, level by level, for all neighbours."""
    for neighbours in Neighbours:
        mechanism = Quantiles.at("1/4", "1/2", "3/4", epsilon=Fraction(1), low=0, high=3, neighbours=neighbours)

        worst = 0.0
        for values in ([0, 1, 2, 3], [1, 1, 1, 1], [0, 0, 3, 3]):
            if neighbours is Neighbours.ADD_REMOVE:
                others = [[*values, v] for v in range(4)]
            else:
                others = [[*values[:i], v, *values[i + 1 :]] for v in range(4) for i in range(4)]
            for other in others:
                P, Q = joint(mechanism, values), joint(mechanism, other)
                worst = max(worst, pairs.largest_loss([P[k] for k in P], [Q[k] for k in P]))
        assert 0.3 < worst <= 1 + 1e-9


def test_drawn_quantiles_have_the_stated_law():
    mechanism = single(HALF, Neighbours.ADD_REMOVE, epsilon=3)
    values, source = np.array([0, 2, 2, 5, 6]), noise.ScriptedSource(b"median")
    seen = np.bincount([mechanism.choose(values, source=source)[0] for _ in range(3000)], minlength=7)
    assert chisquare(seen, mechanism.pmf(values) * 3000).pvalue > 1e-9
    assert chisquare(seen, single(HALF, Neighbours.REPLACE_ONE, epsilon=1).pmf(values) * 3000).pvalue < 1e-9


def test_several_quantiles_are_close_and_in_order_on_many_rows():
    rng = np.random.default_rng(5)
    values = np.round(rng.lognormal(8, 0.7, 20_000)).astype(np.int64)
    mechanism = Quantiles.at(
        "0.1", "0.25", "0.5", "0.75", "0.9", epsilon=Fraction(1), low=0, high=10**6, neighbours=Neighbours.ADD_REMOVE
    )
    found = mechanism.choose(values, source=noise.ScriptedSource(b"several"))
    assert found == sorted(found)
    ranks = [(values < v).mean() for v in found]
    assert np.abs(np.array(ranks) - [0.1, 0.25, 0.5, 0.75, 0.9]).max() < 0.02


def test_more_rows_a_unit_mean_more_noise_and_empty_tables_still_answer():
    one, many = (
        Quantiles(epsilon=Fraction(1), ranks=(HALF,), low=0, high=9, neighbours=Neighbours.ADD_REMOVE, rows_per_unit=c)
        for c in (1, 20)
    )
    assert many.scale(HALF) == 20 * one.scale(HALF)
    assert 0 <= one.choose(np.array([], dtype=np.int64))[0] <= 9


def test_bad_ranks_and_bounds_are_refused():
    good = {"epsilon": Fraction(1), "ranks": (HALF,), "low": 0, "high": 9, "neighbours": Neighbours.ADD_REMOVE}
    Quantiles(**good)
    for bad in (
        {"ranks": ()},
        {"ranks": (HALF, THIRD)},
        {"ranks": (Fraction(3, 2),)},
        {"low": 10},
        {"high": 2**60},
        {"epsilon": Fraction(0)},
        {"rows_per_unit": 0},
    ):
        with pytest.raises(ParameterError):
            Quantiles(**(good | bad))
