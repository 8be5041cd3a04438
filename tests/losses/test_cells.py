"""Laws rounded to a lattice bracket the true one; the fast transform errs by what it says."""

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import FinitePair, Gaussian, Laplace, SubsampledGaussian, SubsampledLaplace
from neartwin.losses.inversion import closed_form, discretization
from neartwin.losses.summands import atoms
from tests.oracles import compositions as truth


def delta_of(discretization, eps, side):
    """Delta of a rounded law of one copy, summed atom by atom."""
    law = discretization.total.summands[0].weighted
    parts = law.masses * np.maximum(0.0, -np.expm1(eps + side * discretization.shift - law.losses))
    infinite = discretization.total.infinity[1]
    return infinite + (1 - infinite) * float(np.exp(discretization.log_scale)) * float(parts.sum())


ONE = {
    "gaussian": Gaussian(mu="0.7"),
    "laplace": Laplace(epsilon="0.8"),
    "finite": FinitePair(p=("1/2", "3/10", "1/5"), q=("1/5", "1/2", "3/10")),
    "subsampled gaussian": SubsampledGaussian(mu="1.3", rate="0.01"),
    "subsampled laplace": SubsampledLaplace(epsilon="0.9", rate="0.2"),
}


@pytest.mark.parametrize("order", ["remove", "add", "replace"])
@pytest.mark.parametrize("name", ONE)
def test_one_rounded_law_brackets_the_closed_form_and_finer_cells_are_closer(name, order):
    total = (1 * ONE[name]).sides(order)[0].upper
    eps = np.array([0.003, 0.05, 0.3])
    exact = closed_form.closed_form(total, eps)
    gaps = []
    for step in (2.0**-6, 2.0**-11):
        above, below = (
            discretization.rounded_above(total, step, 1e-6),
            discretization.rounded_below(total, step, 1e-6, 1.0, 0.3),
        )
        high = np.array([delta_of(above, e, -1.0) for e in eps])
        low = np.array([delta_of(below, e, 1.0) for e in eps])
        assert np.all(low <= exact[1])
        assert np.all(exact[0] <= high)
        gaps.append(float(np.sum(high - low)))
    assert gaps[1] < 0.5 * gaps[0]


@pytest.mark.parametrize(
    ("mu", "q", "count", "delta", "order"), [("0.3", "0.01", 300, 1e-4, "remove"), ("1", "0.03", 60, 1e-6, "add")]
)
def test_a_rounded_composition_contains_the_truth(mu, q, count, delta, order):
    total = (count * SubsampledGaussian(mu=mu, rate=q)).sides(order)[0].upper
    found = discretization.epsilon(total, delta, delta)
    assert truth.sampled_gaussian(float(mu), float(q), order, count, found.lower) >= delta * (1 - 1e-8)
    assert truth.sampled_gaussian(float(mu), float(q), order, count, found.upper) <= delta * (1 + 1e-8)
    assert 0 < found.upper - found.lower < 1e-2 * found.upper
    assert found.method == "lattice"


def test_the_fast_transform_errs_by_less_than_its_bound_and_not_by_nothing():
    rng = np.random.default_rng(7)
    losses, weights = rng.normal(size=300) * 4, rng.exponential(size=300)
    weights /= weights.sum()
    step, count = 0.01234, 5000
    found, error = atoms.transform(losses, weights, step, count)
    worst = 0.0
    for k in (0, 1, 7, 1000, 4999, 5000):
        exact = mp.fsum(mp.mpf(w) * mp.expj(k * mp.mpf(step) * mp.mpf(l)) for l, w in zip(losses, weights, strict=True))
        worst = max(worst, float(abs(exact - mp.mpc(complex(found[k])))))
    moved = 8 * 2.0**-53 * count * step * float(weights @ np.abs(losses))  # charged by the caller
    assert 0 < worst <= error + moved
    assert error < 1e-12
