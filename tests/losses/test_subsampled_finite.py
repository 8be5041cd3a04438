"""Integer noise on a Poisson sample, against the exact sum over all outcomes of a few uses."""

from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from neartwin.accounting.usage import cost, repeated, subsample
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import DiscreteGaussian, Geometric, Laplace, Pure, SubsampledFinite, SubsampledGaussian, compose
from neartwin.losses.inversion import contour_search
from tests.oracles.sums import exact


def laws(base, q):
    """Masses with and without the unit, by outcome, far enough out for 1e-25."""
    if isinstance(base, Geometric):
        weight = lambda x: mp.exp(-exact(base.epsilon) / base.sensitivity * abs(x))  # noqa: E731
        reach = int(60 * base.sensitivity / base.epsilon)
    else:
        weight = lambda x: mp.exp(-(mp.mpf(x) ** 2) / (2 * exact(base.sigma2)))  # noqa: E731
        reach = int(11 * base.sigma2 + 3)
    at = range(-reach, reach + base.sensitivity + 1)
    total = mp.fsum(weight(x) for x in range(-3 * reach, 3 * reach + 1))
    without = [weight(x) / total for x in at]
    joined = [(1 - q) * mass + q * weight(x - base.sensitivity) / total for x, mass in zip(at, without, strict=True)]
    classes = {}  # outcomes of one loss are one
    for one, other in zip(joined, without, strict=True):
        key = mp.nstr(one / other, 20)
        classes[key] = tuple(map(sum, zip(classes.get(key, (0, 0)), (one, other), strict=True)))
    return list(classes.values())


def delta(base, q, count, eps, direction):
    outcomes = laws(base, exact(q))
    order = (0, 1) if direction == "remove" else (1, 0)
    terms = []
    for draw in product(outcomes, repeat=count):
        first, second = (mp.fprod(pair[k] for pair in draw) for k in order)
        terms.append(max(first - mp.exp(eps) * second, 0))
    return mp.fsum(terms)


@pytest.mark.parametrize(
    ("base", "count"),
    [
        (Geometric(epsilon=1), 5),
        (Geometric(epsilon="1.5", sensitivity=3), 3),
        (DiscreteGaussian(sigma2="0.5", sensitivity=2), 2),
        (DiscreteGaussian(sigma2="0.05"), 3),
    ],
    ids=["response", "geometric", "gaussian", "narrow"],
)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_few_uses_cost_the_sum_over_all_their_outcomes(base, count, direction):
    rate = Fraction(1, 5)
    found = (count * SubsampledFinite(base=base, rate=rate)).epsilon("1e-2", direction=direction)
    assert 0 < found.lower <= found.upper <= found.lower + 1e-6
    with mp.workdps(25):
        slack = mp.mpf(10) ** -15
        assert delta(base, rate, count, mp.mpf(found.upper), direction) <= mp.mpf("0.01") + slack
        assert delta(base, rate, count, mp.mpf(found.lower), direction) >= mp.mpf("0.01") - slack


def on_grid(weighted, count, eps, step):
    """Bounds on delta of many copies: losses rounded to a grid both ways; great ones that are rare are left out or revealed."""
    order = np.argsort(weighted.losses)
    losses, masses = weighted.losses[order], weighted.masses[order]
    kept = np.cumsum(masses[::-1])[::-1] > 1e-13 / count
    ends = []
    for rounded, rest in ((np.floor, 0.0), (np.ceil, count * masses[~kept].sum())):
        at, size = rounded(losses[kept] / step).astype(int), 1 << 21
        law = np.fft.irfft(np.fft.rfft(np.bincount(at % size, masses[kept], size)) ** count, size)
        sums = step * np.rint(np.fft.fftfreq(size, 1 / size))
        ends.append(float(law @ np.maximum(-np.expm1(eps - sums), 0.0)) + rest)
    return ends


@pytest.mark.parametrize(
    ("noise", "rate", "count", "delta", "step"),
    [
        (DiscreteGaussian(sigma2="20.3", sensitivity=2), "0.000495", 52, 1.8e-5, 2e-8),
        (DiscreteGaussian(sigma2=11), "0.00158", 400, 1e-9, 1e-7),
        (DiscreteGaussian(sigma2="3.11"), "0.000252", 1701, 1e-10, 1e-7),
    ],
)
def test_seldom_sampled_noise_is_narrow_and_within_bounds_of_a_grid(noise, rate, count, delta, step):
    whole = count * SubsampledFinite(base=noise, rate=rate)
    found = whole.epsilon(delta, direction="remove")
    assert found.width < 1e-6 * found.upper
    (summand,) = whole.sides("remove")[0].upper.summands
    for eps in (found.lower, found.upper):
        low, high = on_grid(summand.weighted, count, eps, step)
        assert low <= delta <= high < 1.2 * low
    assert on_grid(summand.weighted, count, 0.97 * found.lower, step)[0] > delta  # the near miss, 3 % less


def test_what_is_left_out_of_a_line_is_charged_to_the_upper_end(monkeypatch):
    uses = {SubsampledFinite(base=DiscreteGaussian(sigma2=11), rate="0.00158"): 400}
    found = compose(uses).epsilon(1e-9, direction="remove")
    monkeypatch.setattr(contour_search, "RARE", 0.1)  # so much that the end would not hold if it were forgotten
    wide = compose(uses).epsilon(1e-9, direction="remove")
    assert wide.lower < found.lower - 10 * found.width
    assert found.upper + 10 * found.width < wide.upper


@pytest.mark.slow
def test_many_uses_of_wide_noise_cost_as_the_continuous_mechanism():
    discrete = cost(repeated(subsample(DiscreteGaussian(sigma2=36, sensitivity=6), "0.01"), 1000)).epsilon("1e-6")
    assert discrete.width <= 1e-6
    smooth = (1000 * SubsampledGaussian(mu=1, rate="0.01")).epsilon("1e-6").upper
    assert discrete.upper == pytest.approx(smooth, rel=1e-8)
    geometric = cost(repeated(subsample(Geometric(epsilon=1, sensitivity=50), "0.05"), 200)).epsilon("1e-6")
    assert geometric.upper == pytest.approx(
        cost(repeated(subsample(Laplace(epsilon=1), "0.05"), 200)).epsilon("1e-6").upper, rel=1e-3
    )
    assert geometric.upper < 0.9 * cost(repeated(subsample(Pure(epsilon=1), "0.05"), 200)).epsilon("1e-6").upper


def test_samples_of_samples_are_one_and_other_mechanisms_are_refused():
    once = SubsampledFinite(base=Geometric(epsilon=1), rate="0.02")
    assert cost(subsample(subsample(Geometric(epsilon=1), "0.2"), "0.1")).cases == cost(once).cases
    for wrong in (
        lambda: SubsampledFinite(base=Laplace(epsilon=1), rate="0.1"),
        lambda: SubsampledFinite(base=Geometric(epsilon=1), rate=1),
        lambda: SubsampledFinite(base=DiscreteGaussian(sigma2=10**10), rate="0.1"),
    ):
        with pytest.raises(ParameterError):
            wrong()
    with pytest.raises(PrivacyError, match="replace-one"):
        (1 * once).epsilon("1e-6", direction="replace")
