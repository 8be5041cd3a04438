"""A seldom sampled Gaussian under add and replace: the price of a turn, the few nodes it leaves, answers against an oracle."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb, ctx

from neartwin.losses import SubsampledGaussian, compose
from neartwin.losses.families.gaussian import Strip, SubsampledGaussianSum, log_mixed
from tests.losses.strata import bells_of_a_sample
from tests.oracles import truth
from tests.oracles.sums import exact

MU, RATE = Fraction("0.5"), Fraction("0.0001")


def transform(mu, q, order, s, log_shift):
    """M(s) e^{-log_shift} by a rule of step 1/32 over 28 deviations, in 40 digits: it errs below 1e-30 here."""
    with mp.workdps(40):
        mu, q, step = exact(mu), exact(q), mp.mpf(1) / 32
        terms = []
        for j in range(-14 * 32, 14 * 32 + 1):
            u = step * j
            plus, minus = (mp.log1p(q * mp.expm1(sign * mu * u - mu**2 / 2)) for sign in (1, -1))
            log = -s * plus if order == "add" else (1 + s) * plus - s * minus
            terms.append(step * mp.npdf(u) * mp.exp(log - log_shift))
        return mp.fsum(terms)


@pytest.mark.slow
@pytest.mark.parametrize("lam", [3e4, 1.9e6])
def test_few_nodes_give_the_transform_of_a_seldom_sampled_law(lam):
    one = SubsampledGaussianSum(MU, RATE, 1, "add")
    assert one.layout(lam, lam, 3 * lam).size < 2000
    value, error = one.log_mgf(lam)
    exact_log = value + mp.log(transform(MU, RATE, "add", lam, value))
    assert abs(value - exact_log) <= error < 1e-9
    t = np.array([0.0, 0.5 * lam, 3 * lam])
    line, slack = one.log_mgf_ratio(lam, t)
    ratios = [transform(MU, RATE, "add", mp.mpc(lam, x), exact_log) for x in t.tolist()]
    for log, bound, ratio in zip(line[1:], slack[1:], ratios[1:], strict=True):
        assert abs(ratio / mp.exp(mp.mpc(complex(log))) - 1) <= mp.expm1(float(bound))
        assert bound * abs(ratio) < 1e-10
    assert math.log(abs(ratios[2])) <= one.log_tail(lam, 3 * lam, math.inf) < 0


def test_a_turned_power_is_bounded_as_stated_and_by_no_less():
    closest = mp.mpf(0)
    for theta in (0.1, 0.7, 1.3):
        c, s = mp.cos(theta), mp.sin(theta)
        for k in (1e-6, 1e-2, 0.5, 3.0, 1e3):
            w = 1 + k * mp.expj(theta)
            for lam, t in ((50.0, 0.0), (50.0, 20.0), (5.0, 100.0)):
                share = c * lam - t * s
                if share < 0:
                    continue
                turned = -lam * mp.log(abs(w)) + t * mp.arg(w)
                bound = -share * mp.log1p(k)
                assert turned <= bound + mp.mpf(10) ** -12
                closest = max(closest, turned / bound)
    assert closest > 0.0
    k, theta = 1e-6, 0.7  # for small k the bound is met: no greater share would do
    w = 1 + k * mp.expj(theta)
    assert -mp.log(abs(w)) > -(mp.cos(theta) + 1e-3) * mp.log1p(k)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["add", "replace"])
def test_what_is_hidden_is_bounded_and_the_rules_error_with_it(order):
    strip = Strip(float(MU), float(RATE), order)
    for lam in (40.0, 3e4):
        whole = transform(MU, RATE, order, lam, -lam * math.log1p(-float(RATE)))  # E X, times the mean of r^{1+lam}
        if order == "replace":
            with mp.workdps(40):
                mu, q, step = exact(MU), exact(RATE), mp.mpf(1) / 32
                r = [
                    step * mp.npdf(step * j) * mp.exp((1 + lam) * mp.log1p(q * mp.expm1(mu * step * j - mu**2 / 2)))
                    for j in range(-14 * 32, 14 * 32 + 1)
                ]
                whole /= mp.fsum(r)
        assert -mp.log(whole) <= strip.hidden(lam)


@pytest.mark.parametrize(
    ("mu", "rate", "count", "delta"),
    [
        (MU, RATE, 2, 1e-20),
        (MU, RATE, 3, 1e-12),
        # the first steps of a training: the strips of the decay end within a quarter turn
        (Fraction(1), Fraction("0.01"), 5, 1e-5),
        (Fraction(1), Fraction("0.001"), 3, 1e-5),
    ],
)
def test_few_copies_of_a_seldom_sampled_law_are_narrow_and_true(mu, rate, count, delta):
    found = (count * SubsampledGaussian(mu=mu, rate=rate)).epsilon(delta, direction="add")
    assert found.method == "contour"
    assert found.width <= 1e-9 * found.upper
    oracle = bells_of_a_sample(exact(mu), exact(rate), "add", count, delta)
    (above, error), (below, other) = (oracle(end) for end in (found.lower, found.upper))
    assert above + error >= delta >= below - other
    gap = (count * -math.log1p(-float(rate)) - found.upper) * 1e-3  # a thousandth of what is left to the largest loss
    assert oracle(found.upper - gap)[0] > delta > oracle(found.upper + gap)[0]


@pytest.mark.parametrize("q", [1e-300, 1e-9, 0.3, 1 - 2.0**-30, 1 - 2.0**-50])
def test_a_mixed_ratio_errs_as_stated(q):
    x = np.array([-50.0, -1.0, -1e-6, 0.0, 1e-6, 1.0, 29.0, 31.0, 300.0, 699.0, 701.0, 2000.0])
    value, error = log_mixed(x, np.zeros_like(x), q)
    with mp.workdps(400):
        truth = [mp.log1p(mp.mpf(q) * mp.expm1(one)) for one in x.tolist()]
        further = [mp.log1p(mp.mpf(q) * (1 - mp.mpf(2) ** -36) * mp.expm1(one)) for one in x.tolist()]
    assert all(abs(mp.mpf(a) - b) <= e for a, b, e in zip(value.tolist(), truth, error.tolist(), strict=True))
    assert np.all(error <= 1e-13 * np.maximum(1, np.abs(x)) / (1 - q))
    missed = [abs(mp.mpf(a) - b) > e for a, b, e in zip(value.tolist(), further, error.tolist(), strict=True)]
    assert any(missed)  # a rate less by 1e-11 of itself lies outside


@pytest.mark.sweep
@pytest.mark.parametrize(("rate", "least", "greatest"), [("1e-4", "0.3", 4), ("0.01", "0.5", 2), ("0.5", "0.05", 3)])
@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_a_schedule_of_noise_has_the_transform_of_all_its_laws(rate, least, greatest, direction):
    least, q, tilt = Fraction(least), Fraction(rate), Fraction(3, 4)
    mus = [least + (greatest - least) * Fraction(k, 34) for k in range(35)] + [Fraction(9)]  # the last is an outlier
    counts = [1 + k % 3 for k in range(36)]
    steps = {SubsampledGaussian(mu=mu, rate=q): count for mu, count in zip(mus, counts, strict=True)}
    (side,) = compose(steps).sides(direction)
    value, error = side.upper.log_mgf(float(tilt))
    line, slack = side.upper.log_mgf_ratio(float(tilt), np.array([0.0, 0.125, 0.25]))

    def truths(mu, count):
        """K(tilt), and the logarithm of the ratio at the last t, by a rule of its own in Arb."""
        law = truth.nodes(("sampled gaussian", mu, q), direction, 4 + math.ceil(2 * mu), tilt)
        law = [(p * (truth.ball(tilt) * l).exp(), l) for p, l in law]
        whole = sum((p for p, _ in law), arb(0))
        return count * whole.log(), count * (sum((p * acb(0, l / 4).exp() for p, l in law), acb(0)) / whole).log()

    with ctx.workprec(160):
        each = [truths(mu, count) for mu, count in zip(mus, counts, strict=True)]
        whole, ratio = (sum(part[1:], part[0]) for part in zip(*each, strict=True))
        moved = truths(mus[17] * (1 + Fraction(1, 1000)), counts[17])
        whole_moved, ratio_moved = (
            total - old + new for total, old, new in zip((whole, ratio), each[17], moved, strict=True)
        )
        log, bound = acb(complex(line[-1])), arb(float(slack[-1])).expm1()
        assert abs(whole - arb(value)) <= arb(error)
        assert abs((ratio - log).exp() - 1) <= bound
        assert error <= 1e-11 * abs(value)
        assert slack[-1] <= 1e-7  # the outlier keeps little of its modulus there
        assert abs(whole_moved - arb(value)) > arb(error)  # one of the 36 moved by a thousandth lies outside
        assert abs((ratio_moved - log).exp() - 1) > bound
