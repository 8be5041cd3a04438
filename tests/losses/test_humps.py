"""A law with two humps in parts: the parts add up, every bound keeps its side, and the whole contains an unsplit inversion."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.special import logsumexp

from neartwin.losses import SubsampledGaussian, atoms, copies, humps, splitting
from neartwin.losses.grouped import Group, Pieces, shared
from neartwin.losses.inversion import invert
from neartwin.losses.rounding import NoCertificateError
from neartwin.losses.subsampled_gaussian import SubsampledGaussianSum
from neartwin.losses.window import Window
from tests.losses import strata
from tests.oracles import steps

COMMON, GREAT = Window(7.0, 0.5, -1.0), Window(7.0, 0.5, 1.0)
LOW, HIGH = Window(4.0, 0.25, -1.0), Window(4.0, 0.25, 1.0)
THREE = (LOW, Window(7.0, 0.5, -1.0, HIGH), Window(7.0, 0.5, 1.0, HIGH))
MU, RATE = Fraction("0.5265"), Fraction("0.008182")


def shares(order, window):
    """(loss, P-mass) of a window's part at fine nodes: a rule so fine that it errs below 1e-25."""
    mu, q, step, found = mp.mpf("0.5265"), mp.mpf("0.008182"), mp.mpf(1) / 16, []
    for j in range(-14 * 16, 60 * 16):
        u = j * step
        plus, minus = (mp.log1p(q * mp.expm1(sign * mu * u - mu**2 / 2)) for sign in (1, -1))
        share = mp.mpf(1)
        for one in (window, window.within):
            share *= 1 if one is None else mp.ncdf(one.side * (u - one.centre) / one.width)
        found.append((plus - (minus if order == "replace" else 0), step * mp.npdf(u) * mp.exp(plus) * share))
    return found


def mgf(law, s):
    return mp.fsum(mass * mp.exp(s * loss) for loss, mass in law)


@pytest.mark.parametrize(
    ("order", "windows"),
    [("remove", THREE), ("replace", (COMMON, GREAT)), pytest.param("replace", THREE, marks=pytest.mark.slow)],
)
def test_each_part_has_the_mgf_of_its_share_and_they_add_up(order, windows):
    every = [(SubsampledGaussianSum(MU, RATE, 1, order, window), shares(order, window)) for window in windows]
    for lam in (2.0, 50.0):
        found = []
        for part, law in every:
            exact = mgf(law, lam)
            value, error = part.log_mgf(lam)
            assert abs(value - mp.log(exact)) <= error
            assert error < 1e-10
            assert abs(value - mp.log(exact * (1 + mp.mpf(10) ** -9))) > error  # so small a fault would show
            assert part.log_mgf_roughly_above(lam) >= mp.log(exact)
            found.append(value)
        whole, error = SubsampledGaussianSum(MU, RATE, 1, order).log_mgf(lam)
        assert logsumexp(found) == pytest.approx(whole, abs=1e-11)


@pytest.mark.parametrize("window", [COMMON, GREAT, *THREE[1:]])
def test_the_line_of_a_part_is_its_transform_and_its_tail_is_above_it(window):
    part, law = SubsampledGaussianSum(MU, RATE, 5, "remove", window), shares("remove", window)
    lam, t = 20.0, np.array([0.0, 1.5, 3.0, 40.0])
    line, error = part.line(lam, t)
    exact = [(mgf(law, mp.mpc(lam, x)) / mgf(law, lam)) ** 5 for x in t.tolist()]
    for one, bound, value in zip(line[1:], error[1:], exact[1:], strict=True):
        assert abs(value / mp.exp(mp.mpc(complex(one))) - 1) <= mp.expm1(bound)
    assert part.log_tail(lam, 3.0, math.inf) >= math.log(max(abs(exact[2]), abs(exact[3])))
    assert part.log_tail(lam, 40.0, math.inf) < 0.5 * part.log_tail(lam, 3.0, math.inf) < 0


def test_a_shares_modulus_off_the_line_is_bounded_as_stated():
    share = lambda z: mp.erfc(-z / mp.sqrt(2)) / 2  # noqa: E731
    for x in (-9.0, -3.0, 0.0, 2.0):
        for y in (0.3, 1.0, 2.5):
            assert abs(share(mp.mpc(x, y))) <= mp.exp(mp.mpf(y) ** 2 / 2) * share(x)
    assert abs(share(mp.mpc(-9, 1))) > mp.exp(mp.mpf("0.45")) * share(-9)  # and not by much less


def test_lams_of_a_wide_range_share_nodes_that_serve_each():
    for order, window in (("remove", LOW), ("replace", THREE[1])):
        part, law = SubsampledGaussianSum(MU, RATE, 3, order, window), shares(order, window)
        few = part._nodes(20.0, 0.0)
        assert few is part._nodes(30.0, 0.0)
        assert few.high >= 4 * few.low > 0
        for lam in (few.low, few.high):
            value, error = part.log_mgf(lam)
            assert abs(value - 3 * mp.log(mgf(law, lam))) <= error < 1e-9
        # what stands at the ends of the nodes is no more than stated, at either end of the range
        log_density = few.weighted.log_masses
        for lam, j in ((few.low, 0), (few.high, -1)):
            logs = log_density + lam * few.weighted.losses
            assert logs[j] - logsumexp(logs) <= math.log(few.weighted.outside)


COUNTS = np.array([[4.0, 1, 0], [3, 2, 0], [4, 0, 1]])


def test_terms_of_one_line_have_the_transform_of_their_sum_and_each_is_needed():
    laws, lam, t = [shares("remove", window) for window in THREE], 12.0, np.array([0.0, 0.7, 1.4, 30.0])
    ways = [math.factorial(5) / math.prod(math.factorial(int(k)) for k in counts) for counts in COUNTS]
    pieces = Pieces(tuple(SubsampledGaussianSum(MU, RATE, 5, "remove", one) for one in THREE), np.full(3, 5.0))
    group = Group(pieces, COUNTS, np.log(ways))

    def truth(s, every=(0, 1, 2)):
        values = [mgf(law, s) for law in laws]
        return mp.fsum(ways[k] * mp.fprod(v ** int(n) for v, n in zip(values, COUNTS[k], strict=True)) for k in every)

    value, error = group.log_mgf(lam)
    assert abs(value - mp.log(truth(lam))) <= error < 1e-10
    assert group.log_mgf_roughly_above(lam) >= mp.log(truth(lam))
    line, bound = group.line(lam, t[:3])
    for x, log, slack in zip(t[1:3].tolist(), line[1:], bound[1:], strict=True):
        ratio = truth(mp.mpc(lam, x)) / truth(lam)
        assert abs(ratio / mp.exp(mp.mpc(complex(log))) - 1) <= mp.expm1(float(slack))
        assert slack < 1e-9
        for lacking in ((0, 1), (0, 2), (1, 2)):
            less = truth(mp.mpc(lam, x), lacking) / truth(lam)
            assert abs(less / mp.exp(mp.mpc(complex(log))) - 1) > 100 * mp.expm1(float(slack))
    assert group.log_tail(lam, 0.7, math.inf) >= max(
        float(mp.log(abs(truth(mp.mpc(lam, x)) / truth(lam)))) for x in t[1:]
    )
    found, mean, variance = group.cumulants(lam)
    assert found == pytest.approx(value, abs=1e-9)
    step = mp.mpf("1e-4")
    above, below = mp.log(truth(lam + step)), mp.log(truth(lam - step))
    assert mean == pytest.approx(float((above - below) / (2 * step)), rel=1e-6)
    assert variance == pytest.approx(float((above + below - 2 * mp.log(truth(lam))) / step**2), rel=1e-4)


def test_terms_share_lines_only_where_their_moduli_are_near_their_least():
    logs = np.array([[3.0, 1.0, 1.2], [2.0, 0.0, 0.4], [0.0, 9.0, 9.0]])
    assert sorted(shared(logs)) == [(0, [2]), (2, [0, 1])]


# the first steps of a training: order, mu, rate, steps, delta
STEPS = [
    ("remove", 2, "0.001", 5, 1e-6),
    ("remove", "5/3", "0.003", 2, 1e-6),
    ("remove", 1, "0.001", 2, 1e-6),
    ("replace", 2, "0.01", 3, 1e-7),
    ("replace", 1, "0.001", 30, 1e-7),
    ("replace", "0.5", "0.001", 10, 1e-7),
]


@pytest.mark.parametrize("job", STEPS)
def test_the_first_steps_of_a_training_take_little_work_and_are_narrow(job, monkeypatch):
    """Products of a turn and a weight, all lines together: a hundred millions take a tenth of a second."""
    order, mu, rate, count, delta = job
    spent, line = [], atoms.line
    monkeypatch.setattr(
        atoms, "line", lambda w, tilt, t, *rest: spent.append(len(w.losses) * len(t)) or line(w, tilt, t, *rest)
    )
    found = (count * SubsampledGaussian(mu=mu, rate=rate)).epsilon(delta, direction=order)
    assert found.method == "contour"
    assert found.width < 1e-10 * found.upper
    assert len(spent) <= 30
    assert sum(spent) <= 6e8


def terms_of(whole, order, delta, lam):
    total = whole.sides(order)[0].upper
    return humps.Terms.of(total, splitting.choose(total, lam, math.log(delta)))


def test_what_the_last_terms_add_is_bounded_and_no_smaller_bound_would_do():
    terms = terms_of(40 * SubsampledGaussian(mu=MU, rate=RATE), "remove", 1e-20, 25.0)
    for most in (0, 3, 12):
        rest = logsumexp([terms.cumulants(((40 - k, k),))[0] for k in range(most + 1, 41)], axis=0)
        bound = terms.rest(0, most)(terms.rough)
        assert np.all(bound >= rest)
        finite = np.isfinite(rest)
        assert np.min(bound[finite] - rest[finite]) < 1.0


def test_what_is_never_looked_at_weighs_no_more_than_stated_and_hardly_less():
    terms = terms_of(40 * SubsampledGaussian(mu=MU, rate=RATE), "remove", 1e-20, 25.0)
    (split,) = terms.splits
    (top,) = splitting.choose(
        (40 * SubsampledGaussian(mu=MU, rate=RATE)).sides("remove")[0].upper, 25.0, math.log(1e-20)
    ).never
    exact = mp.log(40 * mp.fsum(mass for _, mass in shares("remove", top)))
    assert exact <= split.log_never < exact + mp.mpf(10) ** -9
    assert split.log_never < math.log(1e-20) - 30
    line, _ = humps.build(terms, 1.0, math.log(1e-20))
    assert (split.log_never, 0.0) in list(zip(line.log_rest, line.s_rest, strict=True))


@pytest.mark.parametrize("job", [(1, "0.001", 30, 13.0, 1e-7), (MU, RATE, 611, 62.0, 5.2e-22)])
def test_the_windows_leave_out_no_more_than_what_is_charged_and_show_nothing_twice(job):
    mu, rate, count, lam, delta = job
    total = (count * SubsampledGaussian(mu=mu, rate=rate)).sides("remove")[0].upper
    u = np.linspace(-10, 30, 4001)
    for choice in splitting.divisions(total, lam, math.log(delta)):
        (windows,), (top,) = choice.windows, choice.never
        shown = sum(np.exp(window.log_share(u)[0]) for window in windows)
        assert np.all(shown <= 1 + 1e-12)
        assert np.all(1 - shown <= np.exp(top.log_share(u)[0]) + 1e-12)
        if len(windows) > 1:  # and to lack one would be seen
            assert np.any(1 - (shown - np.exp(windows[0].log_share(u)[0])) > np.exp(top.log_share(u)[0]) + 1e-3)


def test_tilts_at_which_every_part_is_infinite_are_refused():
    total = (10 * SubsampledGaussian(mu=1, rate="1e-8")).sides("remove")[0].upper
    with pytest.raises(NoCertificateError):
        splitting.choose(total, 1e7, math.log(1e-9))
    assert splitting.choose(total, 36.5, math.log(1e-9)).eps > 0


def test_all_counts_of_three_parts_are_looked_at_and_their_ways_add_up():
    split = copies.Split(7, (None,) * 3, None, 0.0)
    every = list(split.every(7))
    assert len(every) == len(set(every)) == 36
    assert sum(copies.ways_of(counts) for counts in every) == 3**7
    assert sum(copies.ways_of(counts) for counts in split.every(6)) == 3**7 - 2**7


def unsplit(mu, q, order, count, ends, *, lam, period, parts=16, digits=36, most=8000):
    """Delta at each end by one trapezoidal rule over the whole law, in so many digits that no cancellation matters.

    The rule gives the sum over m of e^{lam m period} delta(eps + m period): a lam below the slope and a long period leave m = 0.
    The law itself is on a grid of steps 1/parts, whose atoms the copies together have to smooth.
    """
    with mp.workdps(digits):
        mu, q, step = mp.mpf(mu), mp.mpf(q), mp.mpf(1) / parts
        u = [step * j for j in range(math.ceil(-14 / step), math.ceil((14 + (1 + lam) * mu) / step))]
        plus, minus = ([mp.log1p(q * mp.expm1(sign * mu * x - mu**2 / 2)) for x in u] for sign in (1, -1))
        loss = plus if order == "remove" else [a - b for a, b in zip(plus, minus, strict=True)]
        weight = [step * mp.npdf(x) * mp.exp(a + lam * l) for x, a, l in zip(u, plus, loss, strict=True)]
        d, totals, first = 2 * mp.pi / period, [mp.mpf(0)] * len(ends), None
        turn = [mp.expj(d * l) for l in loss]
        for k in range(most):
            s = mp.mpc(lam, k * d)
            value = mp.fsum(weight) ** count / (s * (s + 1)) * (1 if k else 0.5)
            totals = [total + mp.re(value * mp.exp(-s * end)) for total, end in zip(totals, ends, strict=True)]
            first = first or abs(value)
            if abs(value) < first * mp.mpf(10) ** (10 - digits):
                return [total * d / mp.pi for total in totals]
            weight = [w * r for w, r in zip(weight, turn, strict=True)]
        raise ArithmeticError("the oracle's terms do not decay")


JOBS = [
    (("0.5265", "0.008182", "remove", 611), "5.2e-22", {"lam": 24.0, "period": 14}),
    pytest.param(
        ("0.939", "0.002759", "remove", 105), "1.2e-14", {"lam": 6.0, "period": 30, "parts": 32}, marks=pytest.mark.slow
    ),
]


@pytest.mark.parametrize(("job", "delta", "line"), JOBS)
def test_the_answer_contains_an_inversion_that_never_splits(job, delta, line):
    mu, q, order, count = job
    found = (count * SubsampledGaussian(mu=mu, rate=q)).epsilon(delta, direction=order)
    assert found.method == "contour"
    assert "other humps" in found.errors
    assert found.width <= 1e-8 * found.upper
    high, low = unsplit(*job, (found.lower, found.upper), **line)
    assert low <= mp.mpf(delta) <= high


def test_wherever_the_law_is_split_the_answers_meet():
    """The edge, its width and with them all tilts elsewhere."""
    total = (139_571 * SubsampledGaussian(mu="0.7531", rate="0.000317")).sides("remove")[0].upper
    choice = splitting.choose(total, 88.0, math.log(2.2e-22))
    (chosen,) = choice.windows
    low, high = 0.0, math.inf
    for moved, width in ((0.0, chosen[0].width), (0.3, 0.25), (-0.3, 0.125)):
        windows = tuple(Window(one.centre + moved, width, one.side) for one in chosen)
        line, here = humps.build(humps.Terms.of(total, choice._replace(windows=(windows,))), 0.97, math.log(2.2e-22))
        found, _, _ = invert(line, here, 2.2e-22, 2.2e-22)
        assert found.upper - found.lower < 1e-8 * found.upper
        low, high = max(low, found.lower), min(high, found.upper)
    assert low <= high


def test_a_line_that_lacks_the_term_that_decides_is_seen_to_be_wrong():
    whole = 611 * SubsampledGaussian(mu=MU, rate=RATE)
    eps = whole.epsilon("5.2e-22", direction="remove").upper
    line, _ = humps.build(terms_of(whole, "remove", 5.2e-22, 62.0), eps, math.log(5.2e-22))
    whole = line.delta(np.array([eps]))
    assert whole[0][0] <= 5.2e-22 <= whole[1][0] * (1 + 1e-9)
    shares = [part.delta(np.array([eps]))[1][0] for part in line.parts]
    parts = [part for part, share in zip(line.parts, shares, strict=True) if share < max(shares)]
    lacking = humps.Humps(tuple(parts), line.log_rest, line.s_rest).delta(np.array([eps]))
    assert lacking[1][0] < 0.5 * 5.2e-22


# (mu, rate, copies), delta: one line alone was 4e-8 to 6e-4 wide
FEW = [
    (("0.6671", "0.005305", 2), "6.85354e-11"),
    (("1", "0.001", 3), "1e-5"),
    pytest.param(("1.282", "0.0001093", 73), "1.2622e-17", marks=pytest.mark.slow),
    pytest.param(("1.344", "0.0001467", 78), "1.65121e-10", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("job", "delta"), FEW)
def test_a_third_part_leaves_no_term_near_an_atom_and_the_answer_contains_the_truth(job, delta):
    mu, q, count = job
    total = (count * SubsampledGaussian(mu=mu, rate=q)).sides("remove")[0].upper
    found = humps.by_humps(total, float(delta), float(delta))
    assert found.upper - found.lower <= 1e-8 * found.upper
    oracle = strata.twice(
        steps.Tails(mp.mpf(mu), mp.mpf(q), "remove", count, float(delta)).delta, rounding=5e-15 * count
    )
    (high, error), (low, other) = oracle(found.lower), oracle(found.upper)
    assert error < 1e-9 * high
    assert low - other <= mp.mpf(delta) <= high + error
    assert (
        oracle(found.lower * (1 - 1e-9))[0] > mp.mpf(delta) > oracle(found.upper * (1 + 1e-9))[0]
    )  # so small a fault would show


@pytest.mark.parametrize(
    ("mu", "rate", "count", "order"), [("0.2997", "0.0005907", 4, "replace"), ("0.2849", "0.000258", 8, "remove")]
)
def test_a_top_edge_that_suits_the_law_is_found(mu, rate, count, order):
    """One of them has no short line below the narrower edge, the other none below the wider one."""
    whole = count * SubsampledGaussian(mu=mu, rate=rate)
    found = whole.epsilon("1e-10", direction=order)
    assert found.method == "contour"
    assert found.width <= 1e-9 * found.upper
    at = whole.delta(np.array([found.lower, found.upper]), direction=order)
    assert at.upper[0] >= 1e-10 * (1 - 1e-9)
    assert at.lower[1] <= 1e-10 * (1 + 1e-9)
