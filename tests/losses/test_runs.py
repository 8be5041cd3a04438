"""Few uses of finite laws, whose runs are summed one by one (K19): against the same sums in exact fractions and 50 digits."""

import math
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import DiscreteGaussian, FinitePair, Geometric, Leak, SubsampledFinite, compose
from neartwin.losses.summands.atoms import MOST_COPIES, AtomicSum, Weighted, merged, together


def masses(rng, kinds, span):
    """Random fractions of sum 1, over `span` decades."""
    whole = [int(10 ** rng.uniform(0, span)) for _ in range(kinds)]
    return [Fraction(one, sum(whole)) for one in whole]


def runs(uses):
    """P and Q of each run of outcomes, exactly."""
    each = [law for law, count in uses for _ in range(count)]
    for run in product(*each):
        p, q = Fraction(1), Fraction(1)
        for one, other in run:
            p, q = p * one, q * other
        yield p, q


def truth(uses, eps):
    """Delta(eps) by its definition."""
    with mp.workdps(50):
        grown = mp.exp(mp.mpf(eps))
        return sum(
            max(mp.mpf(p.numerator) / p.denominator - grown * q.numerator / q.denominator, 0) for p, q in runs(uses)
        )


def asked(seed):
    """A composition of a few random pairs in the order P, Q; and the same as lists of (p, q)."""
    rng = np.random.default_rng(seed)
    whole, uses = {}, []
    for count in [(2,), (3,), (5,), (1, 1), (2, 1), (1, 1, 2), (7,), (4, 2)][seed % 8]:
        kinds = int(rng.integers(3, 6 if sum(c for _, c in uses) < 2 and count < 4 else 4))
        p, q = masses(rng, kinds, rng.choice([1, 6])), masses(rng, kinds, rng.choice([1, 6]))
        if seed % 4 == 1:  # an infinite loss
            q = [Fraction(0), *[one / (1 - q[0]) for one in q[1:]]]
        pair = FinitePair(p=p, q=q)
        if seed % 3 == 2:
            rate = Fraction(int(rng.integers(1, 100)), 10 ** int(rng.integers(2, 6)))
            pair = SubsampledFinite(base=pair, rate=rate)
            p = [(1 - rate) * other + rate * one for one, other in zip(p, q, strict=True)]
        whole[pair] = count
        uses.append((list(zip(p, q, strict=True)), count))
    return compose(whole), uses


@pytest.mark.parametrize("seed", [*range(16), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(16, 64))])
def test_deltas_and_epsilons_of_few_uses_hold_their_sums(seed):
    whole, uses = asked(seed)
    losses = sorted(
        float(mp.log(p) - mp.log(q))
        for p, q in ((mp.mpf(a.numerator) / a.denominator, mp.mpf(b.numerator) / b.denominator) for a, b in runs(uses))
        if q
    )
    for eps in [0.0, losses[-1] - 1e-9, losses[-1] * 0.9, losses[len(losses) // 2], losses[-2] + 1e-12, -0.3]:
        found, exact = whole.delta(eps, direction="remove"), truth(uses, eps)
        assert found.method in {"closed form", "lattice"}  # of two kinds of losses
        assert found.lower <= exact <= found.upper
        assert found.width <= (1e-8 if found.method == "lattice" else 1e-10) * found.upper + 1e-12
    for share in (0.9, 0.01, 1e-6, 1e-12):
        delta = float(share * truth(uses, 0))
        found = whole.epsilon(delta, direction="remove")
        wide = 1e-8 if found.method == "lattice" else 1e-10
        assert found.upper == np.inf or found.width <= wide * found.upper + 1e-12
        lower, upper = (truth(uses, min(end, 1e3)) for end in (found.lower, found.upper))
        assert lower >= delta or found.lower == 0
        assert upper <= delta or found.upper == np.inf


def test_more_runs_than_are_summed_one_by_one_have_the_same_answers():
    pair = FinitePair(p=["0.5", "0.3", "0.2"], q=["0.41", "0.28", "0.31"])
    few, many = 64 * pair, 65 * pair
    assert MOST_COPIES == 64
    assert [whole.epsilon(1e-4, direction="remove").method for whole in (few, many)] == ["closed form", "contour"]
    law, count = (side.atoms for side in many.sides("remove")[0].upper.summands).__next__()
    by_hand = together([AtomicSum(law, 64)])
    assert len(by_hand.weighted.losses) == math.comb(66, 2)
    assert (40 * Geometric(epsilon="0.3", sensitivity=2)).delta(1.0).method == "lattice"  # which is quicker
    eps = np.array([0.1, 0.7, 1.2, 6.0])
    (low, high), found = by_hand.delta(eps), few.delta(eps, direction="remove")
    assert count == 65
    assert (low <= found.upper).all()
    assert (found.lower <= high).all()


def test_a_leak_beside_few_runs_is_not_lost():
    """Its finite loss is 0, so it is in no run; it said epsilon = 0 where the truth is infinite."""
    pair, leak = FinitePair(p=["0.5", "0.3", "0.2"], q=["0.41", "0.28", "0.31"]), Leak(delta="0.01")
    for whole, finite in ((2 * pair + 3 * leak, 2 * pair), (1 * pair + 1 * leak, 1 * pair), (3 * leak, None)):
        count = whole.uses[leak]
        revealed = 1 - 0.99**count
        assert whole.epsilon(0.9 * revealed, direction="remove").lower == np.inf
        inside = finite.delta(0.1, direction="remove").upper if finite else 0.0
        assert whole.delta(0.1, direction="remove").upper == pytest.approx(revealed + (1 - revealed) * inside, rel=1e-9)


def test_what_rounding_moves_is_counted():
    """Losses and masses whose errors are told: the sums of runs have the sums of them, and what adding them up rounds."""
    law = Weighted(np.array([1.0, -1.0]), np.log([0.7, 0.3]), np.array([1e-10, 2e-10]), np.array([3e-9, 4e-9]))
    one = together([AtomicSum(law, 2), AtomicSum(law, 1)]).weighted
    order = np.argsort(one.losses)
    assert one.losses[order] == pytest.approx([-3, -1, -1, 1, 1, 3])
    assert one.loss_error[order] == pytest.approx([12e-9, 11e-9, 11e-9, 10e-9, 10e-9, 9e-9], rel=1e-5)
    assert one.mass_error[order] == pytest.approx([6e-10, 5e-10, 5e-10, 4e-10, 4e-10, 3e-10], rel=1e-4)
    assert one.masses.sum() == pytest.approx(1, rel=1e-12)
    assert sorted(one.masses) == pytest.approx(sorted([0.027, 0.126, 0.063, 0.147, 0.294, 0.343]), rel=1e-9)
    assert (one.loss_error[order] >= [12e-9, 11e-9, 11e-9, 10e-9, 10e-9, 9e-9]).all()


def test_what_adding_up_rounds_is_within_the_error_that_is_told():
    """Losses and logarithms that are exact themselves, in 30 copies of one law and 2 of another."""
    parts = [(np.array([0.1234567, 0.7654321, -0.3141593]), np.log([0.5, 0.2, 0.3]), 30)]
    parts += [(np.array([2.7182818, -1.4142136]), np.log([0.9, 0.1]), 2)]
    one = together([AtomicSum(Weighted(l, log, 0 * l, 0 * l), count) for l, log, count in parts]).weighted
    exact = [(Fraction(0), mp.mpf(0))]
    with mp.workdps(50):
        for losses, logs, count in parts:
            some = []
            for kinds in product(range(count + 1), repeat=len(losses)):
                if sum(kinds) == count:
                    loss = sum(k * Fraction(x) for k, x in zip(kinds, losses.tolist(), strict=True))
                    orders = math.factorial(count) // math.prod(map(math.factorial, kinds))
                    some.append((loss, mp.log(orders) + mp.fdot(kinds, logs.tolist())))
            exact = [(a + c, b + d) for a, b in exact for c, d in some]
        exact.sort(key=lambda run: run[0])
        order = np.argsort(one.losses)
        off = np.array(
            [abs(float(Fraction(x) - y)) for x, (y, _) in zip(one.losses[order].tolist(), exact, strict=True)]
        )
        apart = np.array([abs(float(x - y)) for x, (_, y) in zip(one.log_masses[order].tolist(), exact, strict=True)])
    assert (off <= one.loss_error[order]).all()
    assert (apart <= one.mass_error[order]).all()
    assert off.max() > 0
    assert apart.max() > 16 * 2.0**-53  # more than an exponential alone may err


def test_losses_equal_within_their_errors_are_one_atom():
    losses = np.array([-1.0, -1.0 + 1e-10, -1.0 + 2e-10, 0.5, 0.5 + 4e-9, 2.0])
    law = Weighted(losses, np.log([0.1, 0.2, 0.1, 0.3, 0.1, 0.2]), np.linspace(1e-12, 6e-12, 6), np.full(6, 1e-9))
    one = merged(law)
    assert one.masses == pytest.approx([0.4, 0.3, 0.1, 0.2], rel=1e-12)
    assert one.losses.tolist() == losses[[2, 3, 4, 5]].tolist()
    assert (one.loss_error >= [1e-9 + 2e-10, 1e-9, 1e-9, 1e-9]).all()
    assert one.loss_error == pytest.approx([1.2e-9, 1e-9, 1e-9, 1e-9], rel=1e-5)
    assert (one.mass_error >= [3e-12, 4e-12, 5e-12, 6e-12]).all()
    assert one.mass_error == pytest.approx([3e-12, 4e-12, 5e-12, 6e-12], rel=1e-2)


def sums_of_integer_noise(s, d, rate, uses, digits=20):
    """P of each sum of the losses of sampled discrete Gaussians under remove, those equal to so many digits together."""
    s, rate, unit = mp.mpf(s), mp.mpf(rate), mp.mpf(10) ** digits
    norm = mp.fsum(mp.exp(-(mp.mpf(x) ** 2) / (2 * s)) for x in range(-30, 31))
    law = []
    for x in range(-16, 17):
        loss = mp.log1p(rate * mp.expm1((2 * d * x - d * d) / (2 * s)))
        law.append((loss, mp.exp(loss - mp.mpf(x) ** 2 / (2 * s)) / norm))
    sums = {mp.mpf(0): mp.mpf(1)}
    for _ in range(uses):
        later: dict = {}
        for (place, weight), (loss, share) in product(sums.items(), law):
            if weight * share > 1e-40:
                further = mp.nint(place + loss * unit)
                later[further] = later.get(further, 0) + weight * share
        sums = later
    return [(place / unit, weight) for place, weight in sums.items()]


@pytest.mark.parametrize(
    ("s", "d", "rate", "uses", "delta"),
    [
        ("0.137", 3, "0.0000128", 6, 1.9e-10),
        ("0.119", 1, "0.0000177", 8, 1.1e-9),  # few runs once great losses are told apart
        pytest.param("0.175", 3, "0.0000482", 13, 5.8e-8, marks=pytest.mark.slow),
    ],
)
def test_a_few_uses_of_integer_noise_are_sums(s, d, rate, uses, delta):
    """Losses up to 2,000 have no exponential in floats. They took 9 s, and the second had a width of 3e-6."""
    whole = uses * SubsampledFinite(base=DiscreteGaussian(sigma2=s, sensitivity=d), rate=rate)
    found = whole.epsilon(delta, direction="remove")
    assert found.method == "closed form"
    assert found.width <= 1e-12 * found.upper
    with mp.workdps(60):
        sums = sums_of_integer_noise(s, d, rate, uses)

        def exact(eps):
            return mp.fsum(weight * -mp.expm1(eps - loss) for loss, weight in sums if loss > eps)

        assert exact(found.lower) >= delta * (1 - mp.mpf(10) ** -12)
        assert exact(found.upper) <= delta * (1 + mp.mpf(10) ** -12)
        for share in (0.3, 0.9, 1.2):
            asked = whole.delta(share * found.upper, direction="remove")
            truth = exact(mp.mpf(share * found.upper))
            assert asked.lower <= truth * (1 + mp.mpf(10) ** -12)
            assert asked.upper >= truth * (1 - mp.mpf(10) ** -12)


@pytest.mark.slow
def test_finite_laws_next_to_an_atom_take_a_longer_line():
    """Its width was 1.9e-6: an atom lay within the kernels' reach of epsilon."""
    whole = 29 * SubsampledFinite(base=DiscreteGaussian(sigma2="0.457", sensitivity=2), rate="0.00017")
    found = whole.epsilon(2.9e-7)
    assert found.width <= 1e-8 * found.upper
    assert found.lower <= 4.45753663150 <= found.upper * (1 + 1e-9)
