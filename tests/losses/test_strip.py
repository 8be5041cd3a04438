"""A seldom sampled Gaussian under add and replace: the price of a turn, the few nodes it leaves, answers against an oracle."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from neartwin.losses import SubsampledGaussian
from neartwin.losses.strip import Strip
from neartwin.losses.subsampled_gaussian import SubsampledGaussianSum
from neartwin.losses.window import WHOLE, Window
from tests.losses.strata import bells_of_a_sample
from tests.oracles.sums import exact

MU, RATE = Fraction("0.5"), Fraction("0.0001")
SHOWN = Window(3.0, 0.125, -1.0)


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


@pytest.mark.parametrize("lam", [3e4, 1.9e6])
def test_few_nodes_give_the_transform_of_a_seldom_sampled_law(lam):
    one = SubsampledGaussianSum(MU, RATE, 1, "add")
    assert one.size(lam, lam, 3 * lam) < 2000
    value, error = one.log_mgf(lam)
    exact_log = value + mp.log(transform(MU, RATE, "add", lam, value))
    assert abs(value - exact_log) <= error < 1e-9
    t = np.array([0.0, 0.5 * lam, 3 * lam])
    line, slack = one.line(lam, t)
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


def test_a_turned_power_is_bounded_by_a_greater_moment_and_by_no_less():
    for theta in (0.1, 0.7, 1.3):
        for k in (1e-6, 1e-2, 0.5, 3.0, 1e3):
            w = 1 + k * mp.expj(theta)
            assert mp.log(abs(w)) <= mp.log1p(k)
            assert mp.arg(w) <= mp.tan(theta) * mp.log1p(k)
        assert mp.arg(1 + 1e-6 * mp.expj(theta)) > 0.99 * mp.sin(theta) * mp.log1p(1e-6)


def test_turned_powers_under_replace_are_bounded_by_a_greater_moment_and_by_no_less():
    """Phi (1-q) (1+k)^{1+lam+x} (1+k~)^{x - c lam} bounds the integrand; above -b it is one of M(lam+x) as stated."""
    mu, q, lam = mp.mpf("0.7"), mp.mpf("0.01"), mp.mpf(30)
    closest = mp.inf
    for theta, t in ((0.05, 200), (0.2, 60), (0.02, 1000)):
        c, x = mp.cos(theta), t * mp.tan(theta)
        for u in range(-8, 9):
            k, other = (q / (1 - q) * mp.exp(sign * mu * u - mu**2 / 2) for sign in (1, -1))
            w, v = 1 + k * mp.expj(theta), 1 + other * mp.expj(-theta)
            turned = (1 + lam) * mp.log(abs(w)) - lam * mp.log(abs(v)) + t * (abs(mp.arg(w)) + abs(mp.arg(v)))
            bound = (1 + lam + x) * mp.log1p(k) + (x - c * lam) * mp.log1p(other)
            assert turned <= bound + mp.mpf(10) ** -12
            closest = min(closest, (bound - turned) / (1 + bound))
            above = (
                (1 + lam + x) * mp.log1p(k) - (lam + x) * mp.log1p(other) + (2 * x + (1 - c) * lam) * mp.log1p(other)
            )
            assert bound == pytest.approx(above, rel=1e-12)
    assert closest < 0.01  # nor much less


def turned(mu, q, order, lam, *, theta=0.0, t=0.0):
    """Log of the integral of the moduli at the turn theta, e^{|t arg|} with them, of what a window shows of the law."""
    u = np.linspace(-12, 8, 8_001)
    w, v = (np.log(1 - q + q * np.exp(sign * mu * u - 0.5 * mu**2 + 1j * sign * theta)) for sign in (1, -1))
    logs = log_ndtr((SHOWN.centre - u) / SHOWN.width) - 0.5 * u * u + (1 + lam) * w.real + t * np.abs(w.imag)
    if order == "replace":
        logs += t * np.abs(v.imag) - lam * v.real
    return float(logsumexp(logs) + math.log((u[1] - u[0]) / math.sqrt(2 * math.pi)))


@pytest.mark.parametrize("order", ["remove", "replace"])
def test_a_turn_grows_by_no_more_than_a_greater_moment_says_and_by_more_than_that_moment_alone(order):
    ratios, beyond = [], []
    for mu, q, lam in itertools.product((0.1, 0.3, 1.0), (0.001, 0.05, 0.5), (1.0, 30.0, 300.0)):
        for theta, slope in itertools.product((0.02, 0.3, 1.2), (0.1, 1.0, 10.0)):
            t, x = slope * lam, slope * lam * math.tan(theta)
            least = turned(mu, q, order, lam)
            grown = turned(mu, q, order, lam + x) - least
            bound = Strip(mu, q, order, SHOWN).further(lam, x, t, least, grown)
            true = turned(mu, q, order, lam, theta=theta, t=t) - least
            assert true <= bound + 1e-9
            if math.isfinite(bound):
                ratios.append(true / bound)
                beyond.append(true - grown + (x * math.log1p(-q) if order == "remove" else 0.0))
    assert max(ratios) > 0.7
    assert (max(beyond) > 10) == (order == "replace")  # which is why it charges for the other factor


@pytest.mark.parametrize("order", ["remove", "replace"])
def test_a_long_line_of_a_part_takes_few_nodes_and_is_its_transform(order):
    mu, q, lam, window = Fraction("0.6"), Fraction("0.001"), 300.0, Window(3.0, 0.125, -1.0)
    one = SubsampledGaussianSum(mu, q, 1, order, window)
    plain = one.strip.step(lam, lam, 6000.0, one._goal)
    assert one._step(lam, lam, 6000.0, 1000 * plain) > 4 * plain
    near = SubsampledGaussianSum(mu, q, 1, order, window)
    assert near._step(lam, lam, 6000.0, 100 * plain) == plain  # few nodes are not worth further moments
    t = np.array([0.0, 600.0, 6000.0])
    line, slack = one.line(lam, t)
    with mp.workdps(40):
        step, laws = mp.mpf(1) / 256, []
        for j in range(-9 * 256, 6 * 256):
            u = step * j
            plus, minus = (mp.log1p(exact(q) * mp.expm1(sign * exact(mu) * u - exact(mu) ** 2 / 2)) for sign in (1, -1))
            loss = plus - (minus if order == "replace" else 0)
            laws.append((loss, mp.npdf(u) * mp.exp(plus + lam * loss) * mp.ncdf((window.centre - u) / window.width)))
        whole = mp.fsum(mass for _, mass in laws)
        for x, log, bound in zip(t[1:].tolist(), line[1:], slack[1:], strict=True):
            ratio = mp.fsum(mass * mp.expj(x * loss) for loss, mass in laws) / whole
            assert abs(ratio / mp.exp(mp.mpc(complex(log))) - 1) <= mp.expm1(float(bound))
            assert abs(ratio) * bound < 1e-9


@pytest.mark.parametrize("order", ["add", "replace"])
def test_what_is_hidden_is_bounded_and_the_rules_error_with_it(order):
    strip = Strip(float(MU), float(RATE), order, WHOLE)
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
def test_few_copies_of_a_seldom_sampled_law_are_narrow_and_hold_their_truth(mu, rate, count, delta):
    found = (count * SubsampledGaussian(mu=mu, rate=rate)).epsilon(delta, direction="add")
    assert found.method == "contour"
    assert found.width <= 1e-9 * found.upper
    oracle = bells_of_a_sample(exact(mu), exact(rate), "add", count, delta)
    (above, error), (below, other) = (oracle(end) for end in (found.lower, found.upper))
    assert above + error >= delta >= below - other
    gap = (count * -math.log1p(-float(rate)) - found.upper) * 1e-3  # a thousandth of what is left to the largest loss
    assert oracle(found.upper - gap)[0] > delta > oracle(found.upper + gap)[0]
