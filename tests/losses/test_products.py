"""Lines of atoms by products of turns, and of Laplace noise by its parts, against fifty digits."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import Gaussian, Laplace, RandomizedResponse, SubsampledGaussian, compose
from neartwin.losses.families import laplace
from neartwin.losses.inversion import contour, methods
from neartwin.losses.inversion.total import Saddle, _squared_sines, log_c
from neartwin.losses.summands import atoms
from neartwin.losses.summands.atoms import Weighted
from neartwin.losses.summands.rounding import U


def law(count, seed):
    source = np.random.default_rng(seed)
    losses, masses = np.sort(source.uniform(-1, 2, count)), source.uniform(0.1, 1, count)
    none = np.zeros(count)
    return Weighted(losses, np.log(masses / masses.sum()), none + 4 * U, none)


def exact(w, lam, t):
    """Sum of tilted weights times e^{itl} - 1, in fifty digits, from the floats that are given."""
    with mp.workdps(50):
        losses = [mp.mpf(float(l)) for l in w.losses]
        weights = [mp.exp(mp.mpf(float(m)) + lam * l) for m, l in zip(w.log_masses, losses, strict=True)]
        whole = mp.fsum(weights)
        found = []
        for one in t.tolist():
            turns = [mp.expm1(mp.mpc(0, one) * l) for l in losses]
            found.append(complex(mp.fdot(weights, turns) / whole))
        return found


@pytest.mark.slow
@pytest.mark.parametrize(("count", "many", "step"), [(5, 12, 0.25), (37, 21, 0.5), (236, 50, 2.0), (40, 16, 2.0**-30)])
def test_turns_are_the_sum_within_its_error(count, many, step):
    w = law(count, count)
    t, tilt = step * np.arange(float(many)), atoms.Tilted(w, 1.5)
    x, y, own = atoms.turned(w.losses, tilt.shifted.weights, tilt.moved.size, t)
    bound = own + np.minimum(tilt.moved.bulk, t * tilt.moved.slope) + t * tilt.moved.drift
    truth = np.array(exact(w, 1.5, t))
    assert np.all(np.abs(x + 1j * y - truth) <= bound)
    assert np.all(bound[1:] <= 1e-12 * np.minimum(2, t[1:] * 3))  # small turns lose nothing
    moved = np.array(exact(w, 1.5 * (1 + 1e-9), t))  # a neighbour's sum lies outside
    assert np.any(np.abs(x + 1j * y - moved) > bound)


@pytest.mark.parametrize("many", [33, 34, 3_000])  # turned on one by one, and by transforms
@pytest.mark.parametrize("step", [2.0**-30, 2.0**-11, 0.01])  # the last mean turn of many is 1e-6, 1 and 30
def test_fast_transform_and_turns_agree_within_their_errors(step, many):
    w, t = law(250, 7), step * np.arange(float(many))
    tilt, other = atoms.Tilted(w, 1.5), atoms.Tilted(w, 1.5 * (1 + 1e-9))
    found = {}
    for way in (atoms.turned, atoms.transformed):
        x, y, own = way(w.losses, tilt.shifted.weights, tilt.moved.size, t)
        found[way] = x + 1j * y, own
        x, y, _ = way(w.losses, other.shifted.weights, other.moved.size, t)
        found[way, "moved"] = x + 1j * y, own
    (turned, own), (fast, error), (moved, _) = (
        found[atoms.turned],
        found[atoms.transformed],
        found[atoms.transformed, "moved"],
    )
    assert np.all(np.abs(fast - turned) <= own + error)
    assert np.any(np.abs(moved - turned) > own + error)
    small = t * tilt.moved.size <= 1
    assert (
        np.all(error[small] <= 2e-13 * np.maximum(t * tilt.moved.size, 0.0)[small]) or step == 0.01
    )  # sums err absolutely
    some = [1, 20, many - 1]
    exactly = exact(w, 1.5, t[some])
    assert np.all(np.abs(fast[some] - exactly) <= (error + tilt.moved.bulk)[some])
    fine = error[some] + np.minimum(tilt.moved.bulk, t * tilt.moved.slope)[some] + (t * tilt.moved.drift)[some]
    assert many > 34 or np.all(np.abs(fast[some] - exactly) <= fine)


def test_a_line_looks_at_its_tail_a_few_times():
    total = (8_000 * SubsampledGaussian(mu=1, rate="0.001")).sides("remove")[0].upper
    (steps,) = total.summands
    looks, tail = [], steps.log_tail
    steps.log_tail = lambda tilt, t, until: looks.append(t) or tail(tilt, t, until)
    line = contour.build(total, Saddle.for_delta(total, 1e-6), 0.0)
    assert line.nodes > 8 * looks[0] / line.step  # a Gaussian's length, and far more are wanted
    assert len(looks) <= 5


def test_a_direction_that_costs_less_takes_no_answer_of_its_own(monkeypatch):
    whole, asked, found = 10_000 * SubsampledGaussian(mu="0.5", rate="0.01"), [], methods.epsilon
    monkeypatch.setattr(methods, "epsilon", lambda *job: asked.append(job) or found(*job))
    answer = whole.epsilon("1e-6")
    assert len(asked) == 1
    assert 0.9 * answer.lower < whole.epsilon("1e-6", direction="add").upper < answer.lower
    remove, add = (whole.sides(direction)[0] for direction in ("remove", "add"))
    slope = remove.epsilon(1e-6, 1e-6).slope
    assert sum(add.upper.log_mgf(slope)) + log_c(slope) - slope * answer.lower > math.log(
        1e-6
    )  # Chernoff is not enough
    assert add.meets(answer.lower, 1e-6, slope)
    assert not add.meets(0.9 * answer.lower, 1e-6, slope)
    few = (3 * SubsampledGaussian(mu=1, rate="0.5")).sides("add")[0]
    top = few.upper.top.loss  # beyond it delta is 0
    assert few.meets(top, 1e-300, 1.0)
    assert not few.meets(0.9 * top, 1e-300, 1.0)


@pytest.mark.slow
def test_frequencies_that_leave_gaps_are_summed_one_by_one(monkeypatch):
    w = law(200, 1)
    tilt, t = atoms.Tilted(w, 1.0), 0.5 * np.delete(np.arange(30.0), [4, 9])
    monkeypatch.setattr(atoms, "transformed", lambda *_: None)
    value, error = atoms.line(w, tilt, t)
    truth = np.log1p(np.array(exact(w, 1.0, t)))
    assert np.all(np.abs(np.exp(value - truth) - 1) <= np.expm1(error) + 1e-15)
    with pytest.raises(TypeError):
        atoms.line(w, tilt, 0.5 * np.arange(30.0))


@pytest.mark.parametrize("e", [1e-8, 0.05, 0.9])
@pytest.mark.parametrize("lam", [1e-3, 0.7, 1.05])
def test_the_small_form_of_laplace_noise_errs_less_than_it_says(e, lam):
    t = np.array([0.0, 1e-3, 0.3, 2.0, 40.0, 1.0 / e])
    t.sort()
    x, y, bound = (part[:, 0] for part in laplace._small(lam, t[:, None], np.array([e, 2 * e])))
    for real, imaginary, error, one in zip(x, y, bound, t, strict=True):
        with mp.workdps(50):
            s = mp.mpc(lam, float(one))
            a = (1 + s) / (1 + 2 * s)
            truth = complex(a * mp.expm1(s * mp.mpf(e)) + (1 - a) * mp.expm1(-(1 + s) * mp.mpf(e)))
        assert abs(complex(real, imaginary) - truth) <= error
    assert bound[-1] < 1e-13 * e * (1 + t[-1])


@pytest.mark.parametrize("lam", [1e-3, 0.5, 3.0])
def test_moments_of_two_losses_by_their_odds_are_those_of_the_law(lam):
    (pair,) = compose({RandomizedResponse(epsilon="0.3"): 20}).sides("remove")[0].upper.summands
    w = pair.weighted
    assert np.allclose(pair.cumulants(lam), atoms.rough_cumulants(w.losses, w.log_masses, lam, 20), rtol=1e-12)


def test_a_saddle_looks_at_each_place_once():
    whole = compose({Laplace(epsilon="0.05"): 50, Gaussian(mu="0.1"): 50}).sides("remove")[0].upper
    seen = []
    found = type(whole).cumulants
    whole.cumulants = lambda lam: seen.append(lam) or found(whole, lam)
    at = Saddle.for_delta(whole, 1e-6)
    assert len(seen) == len(set(seen)) <= 3
    close = Saddle.for_delta(whole, 1e-6, 1e-9)
    assert seen[-1] != at.tilt  # the last step was taken unseen
    assert abs(at.tilt / close.tilt - 1) < 1e-3
    assert abs(at.eps / close.eps - 1) < 1e-3


def test_a_line_of_a_sampled_gaussian_turns_each_node_once(monkeypatch):
    turned = []
    sine = np.sin

    def counted(x, *rest, **named):
        turned.append(np.size(x))
        return sine(x, *rest, **named)

    whole = 10_000 * SubsampledGaussian(mu=1, rate=Fraction(1, 100))
    total = whole.sides("remove")[0].upper
    (part,) = total.summands
    at = Saddle.for_delta(total, 1e-5)
    t = 0.5 * np.arange(36.0)
    nodes = len(part._nodes(at.tilt, float(t[-1])).weighted.losses)
    monkeypatch.setattr(atoms.np, "sin", counted)
    part.log_mgf_ratio(at.tilt, t)
    assert sum(turned) == nodes  # in place of 36 turns


def test_squared_sines_near_a_turn_are_bounded_below_and_closely():
    source = np.random.default_rng(5)
    e, t = source.uniform(0.001, 0.05, 6), np.sort(source.uniform(0, 1e5, 400))
    reach = np.minimum(e * 3.0 / np.pi, 0.5)
    found = _squared_sines(e / np.pi, t, reach)
    for shift in np.linspace(-3.0, 3.0, 13):
        assert np.all(found <= np.square(np.sin(np.multiply.outer(e, t + shift))) + 1e-10)
    still = _squared_sines(e / np.pi, t, np.zeros(6))
    truth = np.square(np.sin(np.multiply.outer(e, t)))
    assert np.all(np.abs(still - truth) < 1e-4)  # the terms left out: 4 d^14/42567525 and on
    assert np.any(found[:, :50] < still[:, :50] - 0.01)  # a turn within reach takes some of it away
    assert np.any(still > np.square(np.sin(np.multiply.outer(e, t + 3.0))))  # which a bound at t alone would miss
