"""A schedule of many noises on one rule: K, the line, its decay and epsilon hold what all laws give one by one, in balls."""

import math
import random
from fractions import Fraction
from functools import cache

import flint
import numpy as np
import pytest

from neartwin.losses import SubsampledGaussian, compose
from neartwin.losses.families import gaussian, noise_schedule, rare_participation
from neartwin.losses.families.gaussian import SubsampledGaussianPair
from neartwin.losses.families.noise_schedule import NoiseSchedule
from neartwin.losses.families.rare_participation import Ladder
from neartwin.losses.inversion import methods
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.rounding import NoCertificateError


def log_m(mu, q, s, direction, parts=32):
    """Log M(s) of one step, by the trapezoidal rule over u with so many parts of 1, of 200 bits."""
    with flint.ctx.workprec(200):
        exact, rate, power = (
            flint.arb(mu.numerator) / mu.denominator,
            flint.arb(q.numerator) / q.denominator,
            flint.acb(*s),
        )
        whole = flint.acb(0)
        for k in range(-20 * parts, 40 * parts):
            u = flint.arb(k) / parts
            r = 1 - rate + rate * (exact * u - exact * exact / 2).exp()
            whole += (-u * u / 2).exp() * (r.log() * ((1 + power) if direction == "remove" else -power)).exp()
        return (whole / parts / (2 * flint.arb.pi()).sqrt()).log()


def drawn(seed, laws=10):
    """Some laws of one rate: mus, counts, rate, direction, tilt and frequencies."""
    rng = random.Random(seed)
    q = Fraction(rng.choice(["1e-6", "1e-3", "0.01", "0.1", "0.5"]))
    least = Fraction(rng.choice(["0.02", "0.2", "0.7", "1.3"]))
    widest = Fraction(rng.choice([2.9, 0.7, 0.01, 1e-7]))  # of the range over the least
    mus = sorted({least * (1 + widest * Fraction(rng.randrange(10**6), 10**6)) for _ in range(laws)})
    counts = [rng.choice([1, 1, 1, 2, 30]) for _ in mus]
    tilt = rng.choice([0.5, 2.0, 6.0]) / max(float(mus[-1]), 0.3)
    return mus, counts, q, rng.choice(["remove", "add"]), tilt, tilt * np.arange(9.0)


def group_of(mus, counts, q, direction):
    return NoiseSchedule([(SubsampledGaussianPair(mu, q, direction), n) for mu, n in zip(mus, counts, strict=True)])


def misses(group, case, truth):
    """Whether K, the line and its decay lie outside what is stated of them, how far off the line is, and what is stated."""
    *_, tilt, t = case
    whole, ratios = truth
    value, error = group.log_mgf(tilt)
    logs, errors = (one[[0, 1, -1]] for one in group.log_mgf_ratio(tilt, t))
    stated, off = np.expm1(np.minimum(errors, 700.0)), np.abs(np.expm1(ratios - logs))
    below = [
        group.log_tail(tilt, float(one), math.inf) < ratio.real - 1e-14
        for one, ratio in zip(t[[1, -1]], ratios[1:], strict=True)
    ]
    return (
        [abs(value - whole) > error, bool((off > stated + 1e-300).any()), any(below)],
        off,
        stated * np.exp(logs.real),
    )


def sums(case):
    """Log M(tilt), and the logs of M(tilt + it)/M(tilt) at 0, the first and the last t, of all copies."""
    mus, counts, q, direction, tilt, t = case
    still = [log_m(mu, q, (tilt, 0.0), direction) for mu in mus]
    turned = [
        [log_m(mu, q, (tilt, float(one)), direction) - a for one in t[[0, 1, -1]]]
        for mu, a in zip(mus, still, strict=True)
    ]
    whole = sum((n * a for n, a in zip(counts, still, strict=True)), flint.acb(0))
    every = [sum((n * row[j] for n, row in zip(counts, turned, strict=True)), flint.acb(0)) for j in range(3)]
    return float(whole.real), np.array([complex(one) for one in every])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_schedule_has_the_transform_of_all_its_laws_in_balls(seed):
    case = drawn(seed)
    outside, _, stated = misses(group_of(*case[:4]), case, sums(case))
    assert not any(outside)
    assert stated.max() < 1e-9


@pytest.mark.slow
def test_a_step_too_wide_is_seen():
    wide = 0
    for seed in range(8):
        case = drawn(seed)
        group = group_of(*case[:4])
        group.narrowest = group.widest  # the step of the widest law for all
        wide += any(misses(group, case, sums(case))[0])
    assert wide >= 1


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_high_frequencies_of_a_schedule_hold_in_balls(monkeypatch, direction):
    """Where losses turn often from one place of a real line to the next."""
    mus, q, tilt, t = [Fraction(1), Fraction(3, 2), Fraction(2)], Fraction(1, 1000), 2.0, 2.5 * np.arange(121.0)
    still = [log_m(mu, q, (tilt, 0.0), direction) for mu in mus]
    truth = {
        k: sum(
            (log_m(mu, q, (tilt, float(t[k])), direction, 1024) - a for mu, a in zip(mus, still, strict=True)),
            flint.acb(0),
        )
        for k in (1, 40, 120)
    }

    def off():
        value, error = group_of(mus, [1, 1, 1], q, direction).by_rows(tilt, t)
        return [abs(np.expm1(complex(one) - value[k])) / np.expm1(error[k]) for k, one in truth.items()], error

    within, error = off()
    assert max(within) <= 1
    assert error.max() < 1e-11
    with monkeypatch.context() as patch:  # a step that leaves out e^-12 and not e^-40
        patch.setattr(noise_schedule.rounding, "few_bits", lambda step, _: 4 * step)
        assert max(off()[0]) > 1
    monkeypatch.setattr(noise_schedule, "LEAST", -6.0)  # as if what is light were nothing
    assert max(off()[0]) > 1


@pytest.mark.parametrize(("q", "delta"), [("0.5", "1e-12"), ("0.9", "1e-30"), ("0.1", "1e-9")])
def test_tiny_distances_are_narrow_at_every_rate_in_both_directions(q, delta):
    whole = compose({SubsampledGaussian(mu=Fraction(30 + k, 3000), rate=q): 3 for k in range(40)})
    for direction in ("remove", "add"):
        found = whole.epsilon(delta, direction=direction)
        assert found.width <= 1e-7 * found.upper


SEEDS = (1, 3, 4, 6, 7, 8, 9, 10)


def many(seed):
    """More laws at random frequencies. In floats those of seed 6 are one; those of seed 7 have few variances and great counts."""
    mus, counts, *rest, tilt, _ = drawn(seed, 36)
    if seed == 6:
        mus = [mus[0] + Fraction(k, 10**20) for k in range(len(mus))]
    elif seed == 7:
        mus = [mus[0] * (1 + k % 3 + Fraction(k, 10**12)) for k in range(len(mus))]
        counts = [10 ** (k % 5) for k in range(len(mus))]
    elif seed > 7:
        mus, rest, tilt = (
            [Fraction(18 + k, 36) for k in range(len(mus))],
            [Fraction(1, 10 ** (1 + seed % 3)), "remove"],
            1.0,
        )
    step = min(tilt * 10 ** random.Random(seed).uniform(-1.5, 0.5), 7.5 / float(max(mus)))
    return mus, counts, *rest, tilt, step * np.arange(9.0)


@cache
def sums_of_many(seed):
    return sums(many(seed))


@pytest.mark.slow
def test_few_laws_stand_for_all_but_for_what_a_rule_misses(monkeypatch):
    monkeypatch.setattr(noise_schedule, "WORTH", 0)
    monkeypatch.setattr(noise_schedule, "CLOSE", math.inf)
    monkeypatch.setattr(noise_schedule, "APART", math.inf)
    close = unseen = far = 0
    for seed in SEEDS:
        case, truth = many(seed), sums_of_many(seed)
        for count in (2, 5, 8):
            monkeypatch.setattr(noise_schedule, "RULES", (count,))
            group, other = group_of(*case[:4]), group_of(*case[:4])
            few, missed = group.rule(count)
            outside, _, stated = misses(group, case, truth)
            assert few.kinds == count
            assert not any(outside), (seed, count)
            close += count == 8 and stated.max() < 1e-9
            group.rule = lambda _, few=few, missed=missed: (few, 0 * missed)
            unseen += misses(group, case, truth)[0][1]
            rho, grown, outer = other._ellipses
            other._ellipses = 1 + 30 * (rho - 1), grown, outer  # as if M had no zero there
            far += misses(other, case, truth)[0][1]
    assert close >= 3
    assert unseen >= 2
    assert far >= 2


@pytest.mark.slow
def test_terms_that_have_faded_are_stated_by_their_decay(monkeypatch):
    monkeypatch.setattr(noise_schedule, "RULES", (8,))
    monkeypatch.setattr(noise_schedule, "WORTH", 0)
    monkeypatch.setattr(noise_schedule, "CLOSE", math.inf)
    monkeypatch.setattr(noise_schedule, "APART", 0.0)  # nothing is said of any term but that it has faded
    monkeypatch.setattr(noise_schedule, "FADED", -1e-300)
    faded = 0
    for seed in SEEDS:
        case = many(seed)
        outside, _, stated = misses(group_of(*case[:4]), case, sums_of_many(seed))
        assert not any(outside), seed
        faded += stated.max() > 1
    assert faded >= 3


@pytest.mark.slow
def test_densities_of_complex_variances_stay_below_a_real_one():
    seen = 0
    for seed in range(40):
        rng = random.Random(seed)
        low = rng.choice([0.01, 0.3, 1.0])
        group = group_of(
            [Fraction(low), Fraction(low * rng.choice([1.0001, 1.5, 3.9]))], [1, 1], Fraction("0.01"), "add"
        )
        rho, grown, outer = group._ellipses
        j, turn, x = rng.randrange(len(rho)), rng.random() * math.pi, rng.uniform(-8, 8)
        with flint.ctx.workprec(200):
            v = group.middle + group.half * flint.acb(
                (rho[j] + 1 / rho[j]) / 2 * math.cos(turn), (rho[j] - 1 / rho[j]) / 2 * math.sin(turn)
            )
            real = abs(v) ** 2 / v.real
            log = [(-((x + one / 2) ** 2) / one / 2).exp() / one.sqrt() for one in (v, flint.acb(real))]
            ratio = float(abs(log[0]) / abs(log[1]))
        assert float(real) <= outer.mu[j] ** 2
        assert ratio <= grown[j]
        seen += ratio > 1 + 0.5 * (grown[j] - 1)
    assert seen >= 2


def complex_log(v, q, s, direction):
    """Log of the integral of N_v r^{1+s} or N_v r^{-s} over x, by the trapezoidal rule, of 200 bits."""
    with flint.ctx.workprec(200):
        rate, power = flint.arb(q.numerator) / q.denominator, flint.acb(*s)
        wide = math.sqrt(float(abs(v) ** 2 / v.real))
        step, whole = flint.arb(min(wide / 16, 1 / 8)), flint.acb(0)
        first, last = (
            int(end / float(step)) for end in (-20 * wide - 4 * wide**2, 20 * wide + (2 + s[0]) * 2 * wide**2)
        )
        for k in range(first, last):
            x = k * step
            r = (1 - rate + rate * x.exp()).log() * ((1 + power) if direction == "remove" else -power)
            whole += (-((x + v / 2) ** 2) / (2 * v) + r).exp()
        return (whole * step / (2 * flint.acb.pi() * v).sqrt()).log()


def variance_in(group, j, turn):
    """A place of ellipse j, by its angle."""
    rho = group._ellipses[0][j]
    place = flint.acb((rho + 1 / rho) / 2 * math.cos(turn), (rho - 1 / rho) / 2 * math.sin(turn))
    return flint.acb(group.middle) + flint.acb(group.half) * place


def loss_at_0(group, j):
    """Of the law with the greatest variance of ellipse j, at u = 0."""
    pair, mu = group.uses[0][0], group._ellipses[2].mu[j]
    log = math.log1p(float(pair.rate) * math.expm1(-mu * mu / 2))
    return log if pair.direction == "remove" else -log


def turned_log(v, pair, s, c):
    """Modulus of log M_v(s)/M_v(tilt) - itc."""
    tilt, t = s
    turned, still = (complex_log(v, pair.rate, one, pair.direction) for one in (s, (tilt, 0.0)))
    return float(abs(turned - still - flint.acb(0, c * t)))


@pytest.mark.slow
def test_logarithms_at_complex_variances_stay_below_their_bound():
    seen = narrow = 0
    for seed in range(24):
        rng = random.Random(seed)
        q, low = Fraction(rng.choice(["1e-4", "0.01", "0.2"])), rng.choice([0.1, 0.4, 1.0])
        direction, tilt = rng.choice(["remove", "add"]), rng.choice([0.1, 0.5, 1.5])
        group = group_of([Fraction(low), Fraction(low * rng.choice([1.01, 1.5, 3.9]))], [1, 1], q, direction)
        rho, grown, outer = group._ellipses
        t, j = np.array([10 ** rng.uniform(-2, 0.5)]), rng.randrange(len(rho))
        bound, c = group._largest(tilt, t)[j, 0], loss_at_0(group, j)
        for turn in (0.0, rng.uniform(0, math.pi)):
            group._ellipses = rho, grown, outer
            v = variance_in(group, j, turn)
            size = turned_log(v, group.uses[0][0], (tilt, float(t[0])), c)
            assert size <= bound, seed
            seen += size > 0.05 * bound
            group._ellipses = rho, grown, group._alike(np.full(len(rho), low), np.ones(len(rho)))  # no law is below
            size = turned_log(v, group.uses[0][0], (tilt, float(t[0])), loss_at_0(group, j))
            narrow += size > group._largest(tilt, t)[j, 0]
    assert seen >= 4
    assert narrow >= 2


@pytest.mark.slow
def test_logarithms_at_high_frequencies_need_all_that_bounds_a_mean_loss(monkeypatch):
    # all that K says of the laws is of order q^2, and t |L| is of order q t
    alone, lacking = ({"remove": 0, "add": 0} for _ in range(2))
    for seed in range(20):
        rng = random.Random(seed)
        q, low = Fraction(rng.choice(["1e-4", "0.001", "0.01"])), rng.choice([0.05, 0.4, 1.0])
        direction, tilt = rng.choice(["remove", "add"]), rng.choice([0.1, 0.5, 1.5])
        group = group_of([Fraction(low), Fraction(low * rng.choice([1.01, 1.5, 3.9]))], [1, 1], q, direction)
        most = 0.5 if low > 0.1 else 4.0
        t, j = np.array([rng.uniform(most / 8, most) / float(q)]), rng.randrange(len(group._ellipses[0]))
        bound, c = group._largest(tilt, t)[j, 0], loss_at_0(group, j)
        for turn in (0.0, rng.uniform(0, math.pi)):
            assert turned_log(variance_in(group, j, turn), group.uses[0][0], (tilt, float(t[0])), c) <= bound, seed
        v, s = variance_in(group, j, 0.0), (tilt, float(t[0]))
        with monkeypatch.context() as patch:  # as if no loss were on the other side of c
            patch.setattr(noise_schedule, "ndtr", lambda mu: -0.5 * np.expm1(-0.5 * mu * mu) + 0.5)
            lacking[direction] += turned_log(v, group.uses[0][0], s, c) > group._largest(tilt, t)[j, 0]
        group.rate = 0.0  # as if P and Q were one
        alone[direction] += turned_log(v, group.uses[0][0], s, 0.0) > group._largest(tilt, t)[j, 0]
    assert min(alone.values()) >= 5
    assert min(lacking.values()) >= 2


def test_powers_of_a_part_of_a_copy_are_stated_near_its_logarithm_alone(monkeypatch):
    source = np.random.default_rng(1)
    n, r = source.uniform(0, 3, 2_000), noise_schedule.SLIGHT * source.uniform(0, 1, 2_000)
    r[:20] = noise_schedule.SLIGHT
    off = r * np.exp(2j * math.pi * np.round(8 * source.uniform(0, 1, 2_000)) / 8)
    assert (np.abs(np.expm1(n * np.log1p(off))) <= np.expm1(1.01 * n * np.log1p(r))).all()
    assert abs((1 - 0.5) ** 0.5 - 1) > (1 + 0.5) ** 0.5 - 1  # farther off, a part of a copy errs by more
    t = np.arange(3.0)
    whole, parts = (group_of([Fraction(1), Fraction(2)], n, Fraction("0.1"), "remove") for n in ([1, 3], [0.5, 3]))
    assert (parts.by_rows(1.0, t)[1] < 1e-11).all()
    monkeypatch.setattr(noise_schedule, "SLIGHT", 0.0)
    assert (whole.by_rows(1.0, t)[1] < 1e-11).all()
    assert np.isinf(parts.by_rows(1.0, t)[1][1:]).all()


@pytest.mark.slow
def test_a_schedule_has_the_epsilon_of_its_laws_one_by_one(monkeypatch):
    narrow = 0
    for seed in range(6):
        rng = random.Random(seed)
        q = Fraction(rng.choice(["1e-6", "1e-4", "1e-3", "0.01", "0.1", "0.5"]))
        kinds, delta = rng.choice([24, 40, 90]), rng.choice([1e-12, 1e-6, 1e-3])
        least, ratio = rng.choice([0.01, 0.05, 0.3, 0.8, 2.0]), rng.choice([1 + 1e-9, 1.02, 1.6, 4.0])
        mus = {Fraction(least * ratio ** (k / (kinds - 1))) for k in range(kinds)}
        steps = {SubsampledGaussian(mu=mu, rate=q): rng.choice([1, 7, 60]) for mu in mus}
        direction = rng.choice(["remove", "add"])
        (side,) = compose(steps).sides(direction)
        with np.errstate(all="ignore"):
            together = methods.epsilon(side.upper, delta, delta, 1e-8)
            apart = methods.epsilon(
                SumOfLosses([law for part in side.upper.summands for law in part.laws]), delta, delta, 1e-8
            )
        assert together.lower <= apart.upper, seed
        assert apart.lower <= together.upper, seed
        assert together.upper - together.lower <= max(1e-6 * together.upper, 2 * (apart.upper - apart.lower)), seed
        narrow += together.upper - together.lower <= 1e-9 * together.upper
        if q >= Fraction("1e-3") and apart.lower > 0:
            low, high, _ = methods.delta(side.upper, np.array([apart.lower, apart.upper]))
            assert low[1] <= delta <= high[0], seed
            assert (high - low <= 1e-5 * high).all(), seed
    assert narrow >= 3
    assert gaussian.SubsampledGaussianPair.merges <= 24


@pytest.mark.slow
def test_fewer_laws_have_no_less_k_than_all_in_balls(monkeypatch):
    monkeypatch.setattr(noise_schedule, "SHOWN", 3)
    less = 0
    for seed in range(6):
        mus, counts, q, direction, tilt, _ = drawn(seed)
        truth = sum(n * float(log_m(mu, q, (tilt, 0.0), direction).real) for mu, n in zip(mus, counts, strict=True))
        few = group_of(mus, counts, q, direction).coarser
        value, error = few.log_mgf(tilt)
        assert few.kinds < len(mus)
        assert truth <= (value + error) * (1 + 1e-13)
        lowest = group_of([mus[0]] * 2, [sum(counts) - 1, 1], q, direction)  # the least distance for all is no bound
        less += sum(lowest.log_mgf(tilt)) < truth
    assert less >= 3


def test_more_laws_than_a_ladder_can_keep_are_answered_without_one():
    most = rare_participation.MOST_LAWS
    for count in (most, most + 1):
        steps = compose({SubsampledGaussian(mu=1 + Fraction(k, 10**4), rate="1e-5"): 1 for k in range(count)})
        (side,) = steps.sides("remove")
        if count == most:
            assert len(Ladder.of(side.upper, -14.0).laws) == most
        else:
            with pytest.raises(NoCertificateError):
                Ladder.of(side.upper, -14.0)


@pytest.mark.slow
def test_a_thousand_noises_at_a_rare_rate_lie_between_fewer_narrowly():
    def steps(each):
        return compose({SubsampledGaussian(mu=Fraction(1000 + k, 2000), rate="1e-4"): each for k in every})

    def answer(each):
        return steps(each).epsilon(1e-6)

    every = range(1000)
    whole = answer(1)
    assert whole.upper - whole.lower <= 1e-5 * whole.upper
    delta = steps(1).delta(whole.lower)
    assert 0 <= delta.upper - delta.lower <= 1e-5 * delta.upper
    assert delta.upper >= 1e-6
    # the least and the greatest distance of each group for all of it: few laws, of which each is alone
    every = range(0, 1000, 50)
    assert answer(50).upper < whole.lower
    every = range(49, 1000, 50)
    assert whole.upper < answer(50).lower < 1.05 * whole.lower


@pytest.mark.slow
def test_two_hundred_noises_at_a_tiny_rate_are_known_to_ten_digits():
    every = [5 * SubsampledGaussian(mu=Fraction(600 + 5 * k, 1000), rate="1e-5") for k in range(200)]
    found = compose(every).epsilon("1e-9")
    least, most = (1000 * SubsampledGaussian(mu=mu, rate="1e-5") for mu in ("0.6", "1.6"))
    assert least.epsilon("1e-9").upper < found.lower <= found.upper < most.epsilon("1e-9").lower
    assert found.upper - found.lower < 1e-9 * found.upper
    delta = compose(every).delta(found.upper)
    assert delta.lower <= 1e-9 <= delta.upper * (1 + 1e-6)


@pytest.mark.parametrize(
    ("mu", "rate", "count", "delta"),
    [("1e-6", "1e-3", 100, "1e-5"), ("1e-7", "1e-5", 10**5, "1e-6"), ("1e-9", "0.5", 1000, "1e-6")],
)
def test_steps_that_hardly_differ_are_free_at_once(mu, rate, count, delta):
    assert (count * SubsampledGaussian(mu=mu, rate=rate)).epsilon(delta).upper == 0


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_steps_that_differ_a_little_more_than_delta_are_not_free(direction):
    mu, rate, count = Fraction(1, 1000), Fraction(1, 100), 1
    apart = math.erf(float(mu) * (2 if direction == "replace" else 1) / math.sqrt(8)) * float(rate)
    whole = count * SubsampledGaussian(mu=mu, rate=rate)
    assert whole.epsilon(apart * (1 + 1e-9), direction=direction).upper == 0
    assert whole.epsilon(apart * (1 - 1e-6), direction=direction).lower > 0
    many = 50 * SubsampledGaussian(mu=mu, rate=rate)
    assert many.delta(0.0, direction=direction).lower < 50 * apart


@pytest.mark.parametrize(
    ("least", "most", "rate", "delta"),
    [
        (0.8, 1.6, "1e-5", 1e-6),
        (1.0, 2.0, "1e-3", 1e-8),
        (1.0, 3.0, "1e-4", 1e-9),
    ],  # the first guess of epsilon is far off in each
)
def test_a_thousand_noises_whose_great_losses_are_rare_take_one_short_line(monkeypatch, least, most, rate, delta):
    frequencies = []
    line = NoiseSchedule.by_rows

    def counted(self, tilt, t):
        frequencies.append(len(t))
        return line(self, tilt, t)

    monkeypatch.setattr(NoiseSchedule, "by_rows", counted)
    rng = random.Random(2)
    sigmas = [rng.uniform(least, most) for _ in range(1000)]
    answer = compose({SubsampledGaussian(mu=1 / sigma, rate=rate): 1 for sigma in sigmas}).epsilon(delta)
    assert answer.upper - answer.lower <= 1e-5 * answer.upper
    assert sum(frequencies) < 200_000  # and were millions, of all laws
    # each group of ten as if all had its greatest noise, and as if all had its least
    groups = [sorted(sigmas)[start : start + 10] for start in range(0, 1000, 10)]
    below, above = (
        compose({SubsampledGaussian(mu=1 / end(some), rate=rate): 10 for some in groups}).epsilon(delta)
        for end in (max, min)
    )
    assert below.lower < answer.lower
    assert answer.upper < above.upper
    assert above.upper < 1.1 * below.lower


def test_no_rule_serves_a_tilt_that_is_too_great():
    group = group_of([Fraction(1), Fraction(2)], [1, 1], Fraction("1e-4"), "remove")
    assert group.cumulants(1e9) == (math.inf, math.inf, math.inf)
    assert all(map(math.isfinite, group.cumulants(4.0)))
