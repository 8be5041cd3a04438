"""The balls: proved floats around formulas and zeros, whatever the precision that others set and the threads that ask."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from neartwin.balls import ball, bounds, elementwise, erfcx, normal_cdf, normal_quantile, read, root
from neartwin.errors import ParameterError


def _quadratic(x):
    return ball(x).exp() - 1 - ball(x)


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(-7, 2), Fraction(1, 10**30), 1e-9, 700.0])
def test_bounds_are_neighbouring_floats_around_the_value_of_mpmath(x):
    with mpmath.workdps(200):
        exact = mpmath.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mpmath.mpf(x)
        true = mpmath.exp(exact) - 1 - exact
        low, high = bounds(_quadratic, x)
        assert low <= true <= high <= math.nextafter(math.nextafter(low, math.inf), math.inf)
        assert not low <= true * (1 + mpmath.mpf(10) ** -14) <= high


def test_bounds_of_values_beyond_all_floats_stay_true():
    low, high = bounds(lambda: ball(2) ** 1080 / 3)
    assert (low, high) == (math.nextafter(math.inf, 0), math.inf)
    low, high = bounds(lambda: ball(2) ** -1080 / 3)
    assert low <= 0 < high <= 5e-324
    assert bounds(lambda: ball(-1).log()) == (-math.inf, math.inf)
    assert bounds(lambda: math.inf) == (math.inf, math.inf)


@pytest.mark.parametrize("z", [-30.0, -8.5, -1.0, 0.0, 2.0])
def test_normal_functions_agree_with_mpmath_in_the_far_tail(z):
    with mpmath.workdps(60):
        for formula, true in (
            (lambda: normal_cdf(ball(z)), mpmath.erfc(-mpmath.mpf(z) / mpmath.sqrt(2)) / 2),
            (lambda: erfcx(ball(z)), mpmath.exp(mpmath.mpf(z) ** 2) * mpmath.erfc(mpmath.mpf(z))),
        ):
            low, high = bounds(formula)
            assert low <= true <= high
        low, high = bounds(lambda: normal_quantile(normal_cdf(ball(z))))
        assert low <= z <= high


def test_root_is_closed_to_neighbours_and_its_signs_are_right():
    def square(x):
        return 2 - ball(x) ** 2

    low, high = root(square, 0.0, 10.0)
    assert Fraction(low) ** 2 < 2 < Fraction(high) ** 2
    assert high == math.nextafter(low, math.inf)
    assert root(square, 0.0, 10.0, 1.4142135623730951)[0] <= low
    assert root(square, 0.0, 10.0, 9.0) == (low, high)  # a poor guess costs time alone
    assert root(square, 0.0, 1.0) == (1.0, 1.0)
    assert root(lambda x: 1 - ball(x), 0.0, 3.0) == (1.0, 1.0)


def test_precision_set_by_others_or_by_threads_changes_no_result():
    import flint

    alone = bounds(_quadratic, 1e-30)
    before = flint.ctx.prec
    try:
        flint.ctx.prec = 20
        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(lambda _: bounds(_quadratic, 1e-30), range(200)))
        assert flint.ctx.prec == 20
    finally:
        flint.ctx.prec = before
    assert found == {alone}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_a_thread_computes_can_compute_too():
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(lambda: [bounds(_quadratic, 1e-300) for _ in range(300)])
        child = os.fork()
        if child == 0:
            os._exit(0 if bounds(lambda: ball(1)) == (1.0, 1.0) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        busy.result()


def test_arrays_are_read_at_face_value_and_lists_as_decimals():
    assert read(x=[0.1, "1/3"]).tolist() == [Fraction(1, 10), Fraction(1, 3)]
    assert read(x=np.array([0.1])).tolist() == [0.1]
    assert read(x=np.array(0.1)) == 0.1
    clipped = elementwise(ball, -1, method="floor", least=0)
    assert (type(clipped.lower), clipped.lower) == (float, 0.0)
    value = elementwise(lambda x, y: ball(x) + ball(y), read(x=[[1], [2]]), read(y=np.array([0.5, 1])), method="sum")
    assert value.lower.tolist() == value.upper.tolist() == [[1.5, 2.0], [2.5, 3.0]]
    for wrong in (np.array([math.nan]), [1, [2, 3]], "no number", math.nan):
        with pytest.raises(ParameterError):
            read(x=wrong)
