"""A growing whole follows the line of its last question: the same answers, other lines only where the saddle moved on."""

import numpy as np
import pytest

from neartwin.losses import Approx, Gaussian, Laplace, RandomizedResponse, compose, contour, saddle, total
from neartwin.losses.follow import follow
from neartwin.losses.gaussian import GaussianPair
from neartwin.losses.laplace import LaplacePair
from neartwin.losses.rounding import NoCertificateError

KINDS = (
    Laplace(epsilon="0.05"),
    Gaussian(mu="0.05"),
    RandomizedResponse(epsilon="0.1"),
    Approx(epsilon="0.02", delta="1e-10"),
)


def grown(uses):
    return (compose(uses)).side("remove").upper


def test_every_answer_on_the_way_is_that_of_the_whole_composed_afresh():
    whole, uses = 1 * Gaussian(mu="0.5"), {Gaussian(mu="0.5"): 1}
    for release in range(60):
        kind = KINDS[release % 4]
        whole, uses[kind] = whole + kind, uses.get(kind, 0) + 1
        found = whole.epsilon("1e-6")
        if release % 7 == 0:
            fresh = compose(uses).epsilon("1e-6")
            assert found.lower <= fresh.upper
            assert fresh.lower <= found.upper
        assert found.width <= 1e-8 * found.upper


def test_a_line_that_is_followed_proves_what_its_own_would(monkeypatch):
    before = {Gaussian(mu="0.5"): 1, Laplace(epsilon="0.05"): 20, RandomizedResponse(epsilon="0.1"): 3}
    after = {**before, Laplace(epsilon="0.05"): 21, Gaussian(mu="0.05"): 1}
    old, new = grown(before), grown(after)
    at = saddle.for_delta(old, 1e-6)
    line = follow(new, contour.build(old, at, 0.0), at.eps, 1e-6)
    own = contour.build(new, saddle.for_delta(new, 1e-6), 0.0)
    eps = line.saddle.eps + np.array([-0.3, 0.0, 0.2])
    low, high = line.delta(eps)
    own_low, own_high = own.delta(eps)
    assert np.all((low <= own_high) & (own_low <= high))
    assert np.all(high - low <= 1e-9 * high)
    again = follow(new, line, line.saddle.eps, 1e-6)  # with every logarithm known
    monkeypatch.setattr(type(new.summands[1]), "ratio", None)  # none is taken again
    same = follow(new, line, line.saddle.eps, 1e-6)
    assert again.size.tolist() == same.size.tolist()


def test_a_line_that_has_been_left_behind_says_so_by_its_width():
    old, far = grown({Gaussian(mu="0.5"): 1}), grown({Gaussian(mu="0.5"): 40})
    at = saddle.for_delta(old, 1e-6)
    line = follow(far, contour.build(old, at, 0.0), at.eps, 1e-6)
    eps = np.array([compose({Gaussian(mu="0.5"): 40}).epsilon("1e-6").upper])
    low, high = line.delta(eps)
    assert low[0] <= 1e-6 <= high[0] * (1 + 1e-9)
    assert high[0] - low[0] > 1e-3 * high[0]  # period and place are those of a much narrower law


def test_smooth_lines_are_not_followed():
    total = grown({Gaussian(mu="0.5"): 1})
    at = saddle.for_delta(total, 1e-6)
    with pytest.raises(NoCertificateError):
        follow(total, contour.build(total, at, 0.1), at.eps, 1e-6)


def test_an_odometer_takes_each_kind_and_each_family_once_a_line(monkeypatch):
    lines, copies, sums = [], [], []

    def count(place, name, seen):
        found = getattr(place, name)

        def counted(*given, **named):
            seen.append(name)
            return found(*given, **named)

        monkeypatch.setattr(place, name, counted)

    count(contour, "build", lines)
    count(total, "_one", copies)
    count(LaplacePair, "together", sums)
    count(GaussianPair, "together", sums)
    whole = 1 * Gaussian(mu="0.5")
    for release in range(60):
        whole = whole + KINDS[release % 2]
        found = whole.epsilon("1e-6")
        assert found.width <= 1e-8 * found.upper
    assert 1 <= len(lines) <= 4
    assert len(copies) <= 2 * len(lines)
    assert len(sums) <= 61  # the family of the last release alone
    assert compose(dict(whole.uses)).epsilon("1e-6").lower <= found.upper
    assert found.lower <= compose(dict(whole.uses)).epsilon("1e-6").upper
