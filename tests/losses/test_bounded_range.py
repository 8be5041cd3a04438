"""Bounded range against the optimal composition of its extreme pairs: promises hold, and no member of the class exceeds them."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import BoundedRange, Gaussian, RandomizedResponse, compose
from neartwin.losses.families import bounded_range
from neartwin.losses.summands.rounding import ContradictionError
from tests.oracles import ranges


@pytest.mark.slow
def test_the_optimal_composition_is_what_a_search_over_all_pairs_finds():
    assert abs(ranges.composed(1, 2, 1) - mp.mpf("0.057005329028488034")) < 1e-15
    for e, count, eps, grid in ((1.0, 1, 0.3, 400), (0.7, 2, 0.4, 60), (1.0, 3, 0.8, 14)):
        found = ranges.searched(e, count, eps, grid)
        truth = ranges.composed(e, count, eps)
        assert found <= truth * (1 + 1e-12)
        assert found >= truth * (1 - 8.0 / grid**2 - 1e-3)  # some choice of the grid comes near


@pytest.mark.parametrize("count", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 17, 60))])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_bounded_range_promise_covers_the_worst_and_its_lower_end_does_not(count, delta):
    for e in ("0.05", "0.6"):
        found = (count * BoundedRange(epsilon=e)).epsilon(delta)
        assert ranges.composed(e, count, found.upper) <= delta
        wide = 1e-5 if found.upper > 0.999 * count * float(e) else 1e-6  # next to the greatest loss delta falls steeply
        assert found.width <= wide * found.upper
        if count <= 2 and found.lower > 0:
            assert ranges.adaptive(float(e), count, found.lower, 4000) >= delta * (1 - 1e-9)
            assert (
                ranges.adaptive(float(e), count, found.upper * (1 + wide), 4000) < delta
            )  # so small a fault would show
        short = (count * RandomizedResponse(epsilon=mp.nstr(mp.mpf(e) / 2, 6))).epsilon(delta).upper
        worst = ranges.composed(e, count, short)
        assert short == 0 or worst > delta  # one member's own epsilon: too little for the class


def test_one_use_is_as_tight_as_the_class_allows():
    found = (1 * BoundedRange(epsilon=1)).epsilon(1e-6)
    assert ranges.composed(1, 1, found.upper * (1 - 1e-6)) > 1e-6 >= ranges.composed(1, 1, found.upper)


@pytest.mark.parametrize(("e", "count"), [("0.3", 2), ("1", 3), ("4", 2)])
def test_adaptive_uses_cost_what_a_search_at_every_step_finds(e, count):
    whole = count * BoundedRange(epsilon=e)
    eps = np.array([0.1, 0.3, 0.6]) * count * float(e)
    found, truth = whole.delta(eps), ranges.adaptive(float(e), count, eps, 32)
    assert np.all(found.lower <= truth * (1 + 1e-10))
    assert np.all(truth <= found.upper * (1 + 1e-12))
    assert np.all(found.width < 1e-6 * truth)
    for near in (1 - 1e-5, 1 + 1e-5):
        assert not np.any((found.lower <= truth * near) & (truth * near <= found.upper))


SEVERAL = [{"0.7": 1, "0.3": 1}, {"1": 1, "0.5": 2}, {"3": 1, "1.8": 1}]


@pytest.mark.parametrize("uses", [*SEVERAL[:1], *(pytest.param(one, marks=pytest.mark.slow) for one in SEVERAL[1:])])
def test_uses_of_several_ranges_cost_what_a_search_over_all_orders_finds(uses):
    sizes = tuple(float(e) for e, count in uses.items() for _ in range(count))
    whole = compose({BoundedRange(epsilon=e): count for e, count in uses.items()})
    eps = np.array([0.1, 0.33, 0.6]) * sum(sizes)
    found, truth = whole.delta(eps), ranges.in_any_order(sizes, eps, 32)
    assert np.all(found.lower <= truth * (1 + 1e-10))
    assert np.all(truth <= found.upper * (1 + 1e-12))
    assert np.all(found.width < 2e-6 * truth)
    for near in (1 - 1e-5, 1 + 1e-5):
        assert not np.any((found.lower <= truth * near) & (truth * near <= found.upper))


@pytest.mark.parametrize(
    "uses",
    [
        {"0.1": 10, "0.2": 10},
        {"0.3": 2, "0.17": 2, "1": 2},
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ({"0.1": 100, "0.5": 3}, {"0.125": 20, "0.45": 15}, {"0.1": 20, "0.2": 24})
        ),
    ],
)
def test_several_ranges_are_known_within_a_millionth(uses):
    whole = compose({BoundedRange(epsilon=e): count for e, count in uses.items()})
    found = whole.epsilon("1e-6")
    assert found.width <= 1e-6 * found.upper
    apart = [(count * BoundedRange(epsilon=e)).epsilon("1e-6").lower for e, count in uses.items()]
    assert found.lower > max(apart)
    widest = max(map(float, uses))
    alike = (sum(uses.values()) * BoundedRange(epsilon=str(widest))).epsilon("1e-6")
    assert found.upper < alike.lower  # ranges that are all the greatest allow more
    beside = (whole + Gaussian(mu="0.5")).epsilon("1e-6")
    assert found.upper < beside.lower <= beside.upper * (1 + 1e-6)
    assert beside.width <= 3e-6 * beside.upper


def test_what_has_no_small_common_step_is_a_fixed_pair():
    near = 2 * BoundedRange(epsilon="0.3") + 2 * BoundedRange(epsilon="0.2")
    odd = 2 * BoundedRange(epsilon="0.3") + 2 * BoundedRange(epsilon="0.2000000001")
    found, wide = near.epsilon("1e-6"), odd.epsilon("1e-6")
    assert wide.lower <= found.lower * (1 + 1e-6)
    assert found.upper < wide.upper < 1.2 * found.upper


@pytest.mark.slow
@pytest.mark.parametrize(
    ("e", "count", "delta"), [("0.9846", 2, "0.08381"), ("0.3204", 2, "0.06158"), ("0.5", 3, "0.1")]
)
def test_a_few_uses_at_a_delta_near_their_total_variation_are_sharp(e, count, delta):
    """A delta of eps slightly below 0 needs no more than 1 - e^eps, which is less than delta(0)."""
    found = (count * BoundedRange(epsilon=e)).epsilon(delta)
    assert 0 < found.lower <= found.upper <= found.lower * (1 + 1e-6)
    above, below = (ranges.adaptive(float(e), count, end, 200) for end in (found.lower, found.upper * (1 + 1e-4)))
    assert above >= float(delta) * (1 - 1e-8)
    assert below < float(delta)


def falling(kind, places, rng):
    """Delta at multiples of a step, places of them: convex in e^x unless of the last kind."""
    y, m = np.exp(places), (len(places) - 1) // 4
    corners = {"one": y[[m + 3]], "few": y[rng.integers(0, len(y), 5)], "many": y[rng.integers(m, 3 * m, 200)]}
    weights = rng.exponential(size=200) ** 4
    if kind in corners:
        shares = weights[: len(corners[kind])] / weights[: len(corners[kind])].sum()
        return shares @ np.maximum(1 - np.divide.outer(1 / corners[kind], 1 / y), 0.0)
    level = -np.expm1(-np.exp(np.minimum(20 - 3 * places, 9.0)))  # 1 but for roundings, and then next to nothing
    if kind == "level":  # which rise by roundings
        return level * (1 - 2.0**-53 * rng.integers(0, 3, len(y)))
    return np.sort(rng.random(len(y)))[::-1]


@pytest.mark.parametrize("kind", ["one", "few", "many", "level", "any"])
@pytest.mark.parametrize(("e", "m"), [(1.0, 16), (0.01, 9), (6.0, 40)])
def test_the_cells_that_are_looked_at_hold_the_best_choice(kind, e, m):
    rng, t = np.random.default_rng(m), e * np.arange(m + 1) / m
    shares = np.expm1(t - e) / np.expm1(-e)
    for _ in range(20):
        places = e / m * np.arange(-m, 3 * m + 1)
        delta = falling(kind, places, rng)
        count = 2 * m + 1
        first, last = bounded_range.places(delta, m, e / m, count)
        least, most = bounded_range.greatest((shares, shares), (delta, delta), e / m, count)
        for k in range(count):
            z = np.linspace(places[k], places[k + m], 16 * m + 1)  # a sixteenth of a step
            high, low = (np.interp(np.exp(at), np.exp(places), delta) for at in (z, z + e))
            share = np.expm1(places[k + m] - z - e) / np.expm1(-e)
            means = low + share * (high - low)
            kept = slice(16 * (first[k] - k), 16 * (last[k] - k) + 1)
            assert means[kept].max() >= means.max() * (1 - 1e-12)
            assert least[k] * (1 - 1e-12) <= means.max() <= most[k] * (1 + 1e-12)
        if kind == "many":
            assert np.median(last - first) <= m / 3


def test_a_choice_by_an_earlier_answer_costs_more():
    fixed = float(ranges.composed(1, 3, 0.9))
    assert (3 * BoundedRange(epsilon=1)).delta(0.9).lower > 1.05 * fixed


RESPONSES = {"0.4": 2, "1": 1}  # of randomized response: 6 sums of losses


def beside_responses(eps, profile, responses=RESPONSES):
    """The mean of a profile over the losses of responses under P, by brute force."""
    law = {0.0: 1.0}
    for size in [float(e) for e, count in responses.items() for _ in range(count)]:
        after = {}
        for loss, mass in law.items():
            for own, share in ((size, 1 / (1 + math.exp(-size))), (-size, 1 / (1 + math.exp(size)))):
                after[loss + own] = after.get(loss + own, 0.0) + mass * share
        law = after
    return sum(mass * profile(eps - loss) for loss, mass in law.items())


@pytest.mark.parametrize(
    ("e", "count"),
    [("0.7", 1), ("0.3", 2), *(pytest.param(*one, marks=pytest.mark.slow) for one in (("2", 2), ("1", 3)))],
)
def test_uses_beside_fixed_pairs_cost_the_mean_of_their_optimum(e, count):
    whole = compose({BoundedRange(epsilon=e): count} | {RandomizedResponse(epsilon=e): n for e, n in RESPONSES.items()})
    eps = np.array([0.0, 0.4, 0.9]) * (count * float(e) + 1.8)
    truth = beside_responses(eps, lambda at: ranges.adaptive(float(e), count, at, 32))
    found = whole.delta(eps)
    assert np.all(found.lower <= truth * (1 + 1e-9))
    assert np.all(truth <= found.upper * (1 + 1e-9))
    assert np.all(found.width <= 1e-4 * found.upper)
    for near in (1 - 1e-3, 1 + 1e-3):
        assert not np.any((found.lower <= truth * near) & (truth * near <= found.upper))
    answer = whole.epsilon(truth[1])
    assert answer.lower * (1 - 1e-9) <= eps[1] <= answer.upper * (1 + 1e-9)
    assert answer.width <= 3e-6 * answer.upper


def test_no_order_of_uses_and_pairs_costs_more_than_the_pairs_first():
    """Two uses with a response before, between and after them, each choosing one of 41 pairs by what was shown."""
    e, size = 1.0, 0.8
    t = e * np.arange(41) / 40
    shares, response = np.expm1(t - e) / np.expm1(-e), 1 / (1 + math.exp(-size))

    def use(after):
        return lambda eps: max(
            share * after(eps - at) + (1 - share) * after(eps - at + e)
            for at, share in zip(t.tolist(), shares.tolist(), strict=True)
        )

    def shown(after):
        return lambda eps: response * after(eps - size) + (1 - response) * after(eps + size)

    def nothing(eps):
        return max(-math.expm1(eps), 0.0)

    whole = 2 * BoundedRange(epsilon=e) + RandomizedResponse(epsilon=size)
    for eps in (0.3, 1.1, 2.0):
        first, between, last = (
            one(eps) for one in (shown(use(use(nothing))), use(shown(use(nothing))), use(use(shown(nothing))))
        )
        assert last <= between * (1 + 1e-12) <= first * (1 + 2e-12)
        found = whole.delta(eps)
        assert found.lower * (1 - 0.01) <= first <= found.upper  # a finer grid finds more


@pytest.mark.parametrize("count", [10, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 60))])
def test_uses_beside_noise_have_a_sharp_price(count):
    whole = count * BoundedRange(epsilon="0.2") + 3 * Gaussian(mu="0.4")
    found = whole.epsilon("1e-6")
    assert found.width <= 1e-6 * found.upper
    more = (whole + BoundedRange(epsilon="0.1")).epsilon("1e-6")
    assert found.upper < more.lower
    for order in (1.5, 3.0):  # of one member, and by the worst of each order
        assert 0 < whole.renyi(order).lower <= whole.renyi(order).upper
    noise, z = 0.4 * math.sqrt(3), np.linspace(-12, 12, 3001)
    alone = (count * BoundedRange(epsilon="0.2")).delta
    for end, side in ((found.lower, 1), (found.upper, -1)):
        profile = alone(end - (noise * z + noise * noise / 2))
        mean = [
            np.trapezoid(part * np.exp(-z * z / 2), z) / math.sqrt(2 * math.pi)
            for part in (profile.lower, profile.upper)
        ]
        assert mean[0] * (1 - 1e-4) <= 1e-6 * (1 + side * 1e-4)
        assert mean[1] * (1 + 1e-4) >= 1e-6 * (1 - 1e-4)


@pytest.mark.parametrize(("e", "count", "steps"), [(1, 2, 16), (4, 2, 16), (2, 3, 8)])
def test_the_laws_of_uses_bound_the_optimum_between_the_steps_too(monkeypatch, e, count, steps):
    """The optimum is known at few steps, so that chords and tangents are far from it, and a wrong one on its other side."""

    def optimum(eps):
        return ranges.adaptive(float(e), count, eps, 24, 30)

    step = e / steps
    known = step, optimum(step * np.arange(-steps, (count + 1) * steps + 1.0))
    monkeypatch.setattr(bounded_range, "optimum", lambda *_: (known, known, known))
    eps = np.linspace(-1, 0.6, 2001) * count * e
    truth = optimum(eps)
    for above in (True, False):
        law = bounded_range.law_of_uses(((Fraction(e), count),), above=above)
        found = -np.expm1(np.minimum(np.subtract.outer(eps, law.losses), 0.0)) @ law.masses
        over = found / truth if above else truth / found
        assert over.min() > 1 - 1e-9
        assert over.max() > 1.001  # so much room is there
        assert np.median(over) < 1.05


def test_groups_of_many_uses_stand_as_fixed_pairs_above_the_optimum(monkeypatch):
    eps = np.linspace(0.2, 2.4, 12)
    known = (5 * BoundedRange(epsilon="0.5")).delta(eps)
    monkeypatch.setattr(bounded_range, "TOGETHER", 4)
    monkeypatch.setattr(bounded_range, "GROUP", 2)
    grouped = (5 * BoundedRange(epsilon="0.5")).delta(eps)  # two groups of two, and one use
    assert np.all(grouped.upper >= known.lower)
    assert np.all(grouped.upper[:9] > 1.01 * known.upper[:9])
    law = bounded_range.law_of_uses
    fewer = lambda uses, **how: law(((uses[0][0], uses[0][1] - how["above"]),), **how)  # noqa: E731
    monkeypatch.setattr(bounded_range, "law_of_uses", fewer)
    with pytest.raises(ContradictionError):  # a use of each group forgotten: the lower end does not follow
        (5 * BoundedRange(epsilon="0.5")).delta(eps)


@pytest.mark.parametrize(("e", "count"), [("0.3", 100), pytest.param("0.02", 1_000, marks=pytest.mark.slow)])
def test_up_to_a_thousand_uses_are_known_within_a_millionth(e, count):
    found = (count * BoundedRange(epsilon=e)).epsilon("1e-6")
    assert found.width <= 1e-6 * found.upper


@pytest.mark.parametrize(("e", "count"), [("0.01", 5_000), ("0.0005", 100_003)])
def test_thousands_of_uses_have_a_price_within_four_thousandths(e, count):
    found = (count * BoundedRange(epsilon=e)).epsilon("1e-6")
    assert found.width <= 4e-3 * found.upper
    assert found.method != "Chernoff floor"  # which is 7 % wide here
    one = (count * RandomizedResponse(epsilon=str(float(e) / 2))).epsilon("1e-6")  # a member of the class
    assert one.lower <= found.upper


@pytest.mark.slow
def test_the_optimum_is_attained_at_all_sizes_and_joins_others():
    for e, count in (("0.001", 3), ("20", 3), ("60", 2), ("0.5", 10_000)):
        whole = count * BoundedRange(epsilon=e)
        found = whole.epsilon("1e-6")
        assert 0 < found.lower <= found.upper <= float(e) * count * (1 + 1e-12)
        assert whole.pure().upper == pytest.approx(float(e) * count, rel=1e-12)
        more = (whole + RandomizedResponse(epsilon="0.1")).epsilon("1e-6")
        assert found.lower * 0.4 <= more.lower <= more.upper
        assert found.upper <= more.upper * (1 + 1e-9)


@pytest.mark.parametrize("e", [3, 44, 49, 60])
def test_one_use_of_a_wide_range_beside_a_gaussian_is_held(e):
    z = np.linspace(-30, 30, 400_001)
    for eps in (0.0, e / 2, e + 2.0):
        rest = eps - (0.5 + z)
        inside = np.square(np.expm1((np.minimum(rest, e) - e) / 2)) / -math.expm1(-e)
        profile = np.where(rest <= -e, -np.expm1(np.minimum(rest, 0.0)), inside)
        truth = np.trapezoid(profile * np.exp(-z * z / 2), z) / math.sqrt(2 * math.pi)
        found = (BoundedRange(epsilon=e) + Gaussian(mu=1)).delta(eps)
        assert found.lower <= truth * (1 + 1e-9)
        assert truth * (1 - 1e-9) <= found.upper <= truth * 3 + 1e-9
