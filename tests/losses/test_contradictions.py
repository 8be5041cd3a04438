"""Two proofs that exclude each other raise, and so does whatever a route did not declare."""

import numpy as np
import pytest

from neartwin.losses import BoundedRange, Laplace, RandomizedResponse, compose
from neartwin.losses.inversion import chernoff, methods
from neartwin.losses.inversion.contour_search import CONTOUR, Answer
from neartwin.losses.inversion.methods import Method
from neartwin.losses.summands.rounding import ContradictionError, NoCertificateError, ordered

WHOLE = compose({Laplace(epsilon="0.1"): 40, RandomizedResponse(epsilon="0.3"): 3})


def planted(monkeypatch, *found):
    """Routes that answer epsilon by these; an exception is raised."""

    def answering(one):
        def answer(low, high):
            if isinstance(one, Exception):
                raise one
            return Answer(*one, CONTOUR)

        return answer

    routes = [Method(0.0, answering(one)) for one in found]
    monkeypatch.setattr(methods, "_methods", lambda *_: iter(routes))


@pytest.mark.parametrize(("second", "fits"), [((2.1, 2.5), True), ((2.2, 2.5), True), ((2.2000001, 2.5), False)])
def test_two_routes_must_have_an_epsilon_in_common(second, fits, monkeypatch):
    planted(monkeypatch, (2.0, 2.2), second)
    (side,) = WHOLE.sides(None)
    if fits:
        assert methods.epsilon(side.upper, 1e-6, 1e-6)[:2] == (second[0], 2.2)
    else:
        with pytest.raises(ContradictionError, match=r"at least 2\.2000001, another at most 2\.2$"):
            methods.epsilon(side.upper, 1e-6, 1e-6)


@pytest.mark.parametrize("fault", [ValueError("math domain error"), TypeError()])
def test_a_route_may_say_that_it_cannot_and_nothing_else(fault, monkeypatch):
    (side,) = WHOLE.sides(None)
    for said in (NoCertificateError(), OverflowError(), ZeroDivisionError()):
        planted(monkeypatch, said, (2.0, 2.1))
        assert methods.epsilon(side.upper, 1e-6, 1e-6)[:2] == (2.0, 2.1)
    planted(monkeypatch, fault, (2.0, 2.1))
    with pytest.raises(type(fault)):
        methods.epsilon(side.upper, 1e-6, 1e-6)


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.9, False)])
def test_a_bound_on_delta_below_a_proved_one_raises(factor, fits, monkeypatch):
    whole = 4 * BoundedRange(epsilon="0.5")
    eps = np.array([0.4])
    truth = whole.sides(None)[0].delta(eps)[0]
    monkeypatch.setattr(chernoff, "delta_above", lambda *_: factor * truth)
    if fits:
        assert whole.delta(0.4).upper >= truth[0]
    else:
        with pytest.raises(ContradictionError):
            whole.delta(0.4)


def test_bounds_that_touch_are_in_order():
    assert ordered(1.0, 1.0) == 1.0
    with pytest.raises(ContradictionError):
        ordered(np.nextafter(1.0, 2.0), 1.0)
