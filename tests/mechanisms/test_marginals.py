"""Marginals through marginals: exact errors by dense algebra, the best shares, and weights that add up to them."""

from functools import reduce

import numpy as np
import pytest

from neartwin.mechanisms.linear.marginals import MarginalDesign, best_shares, subsets

SIZES = (2, 3, 4)
VARIANCES = {(0, 1): 2.0, (1, 2): 1.5, (0, 1, 2): 5.0, (): 0.7}


def queries(margin, sizes=SIZES):
    """The margin as a matrix over the cells of the whole table."""
    parts = [np.eye(size) if place in margin else np.ones((1, size)) for place, size in enumerate(sizes)]
    return reduce(np.kron, parts, np.ones((1, 1)))


def least_squares(margin, variances, sizes=SIZES):
    """The matrix from whitened measurements to the margin, by a dense pseudoinverse: the oracle."""
    measured = np.vstack([queries(one, sizes) / np.sqrt(variance) for one, variance in variances.items()])
    return queries(margin, sizes) @ np.linalg.pinv(measured)


@pytest.mark.parametrize("margin", list(subsets((0, 1, 2))))
def test_marginal_design_equals_dense_least_squares(margin):
    design, back = MarginalDesign(SIZES, VARIANCES), least_squares(margin, VARIANCES)
    assert np.allclose((back**2).sum(axis=1), design.variance(margin))
    by_weights = sum(
        variance * float((counts * values**2).sum())
        for one, variance in VARIANCES.items()
        for values, counts in [design.weights(margin, one)]
    )
    assert np.isclose(by_weights, design.variance(margin))
    draw = np.random.default_rng(1)
    noisy = {one: draw.normal(size=tuple(SIZES[i] for i in one)) for one in VARIANCES}
    whitened = np.concatenate([noisy[one].reshape(-1) / np.sqrt(variance) for one, variance in VARIANCES.items()])
    assert np.allclose(design.answers(margin, noisy).reshape(-1), back @ whitened)


def test_unmeasured_margin_has_no_answer():
    design = MarginalDesign(SIZES, {(0, 1): 1.0})
    assert design.tells((0,))
    assert not design.tells((2,))
    assert MarginalDesign((2, 3, 1), {(0, 1): 1.0}).tells((2,))  # of one value, which is all rows


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ((2, 2, 2, 2), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
        ((2, 10, 30), [(0, 1), (1, 2), ()]),
        ((5, 5), [(0,), (1,), (0, 1)]),
    ],
)
def test_no_other_shares_give_less_error_and_simple_strategies_give_more(sizes, wanted):
    whole = tuple(range(len(sizes)))
    costs = dict.fromkeys(subsets(whole), 1.0)
    shares = best_shares(sizes, dict.fromkeys(wanted, 1.0), costs)
    assert np.isclose(sum(shares.values()), 1)

    def total(given):
        design = MarginalDesign(sizes, {margin: 1 / share for margin, share in given.items() if share > 0})
        return sum(design.variance(margin) for margin in wanted)

    best = total(shares)
    assert best <= total({whole: 1.0}) + 1e-9
    assert best <= total(dict.fromkeys(wanted, 1 / len(wanted))) + 1e-9
    draw = np.random.default_rng(5)
    for _ in range(60):
        moved = {margin: shares.get(margin, 0.0) * 0.9 + 0.1 * part for margin, part in
                 zip(costs, draw.dirichlet(np.full(len(costs), 0.3)), strict=True)}  # fmt: skip
        assert total(moved) >= best * (1 - 1e-3)
    worse = dict.fromkeys(shares, 1 / len(shares))
    assert total(worse) > best or np.allclose(list(shares.values()), 1 / len(shares), atol=1e-3)
