"""What goodness of fit cannot see: the table to its last bit, the rare branches, and floats against integers."""

from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from neartwin import noise
from neartwin.noise import lookup_table
from neartwin.noise.exponentials import exp_floats, loss
from neartwin.noise.keyed import _Streams
from neartwin.noise.layouts import RealBlocks, Single
from neartwin.noise.lookup_table import CELL_BITS, build
from neartwin.noise.streams import Fresh
from tests.noise.test_fit import LAWS, grid, setting
from tests.oracles.noise_laws import THRESHOLD, Fit, chi_square
from tests.oracles.scalar_draws import draw

pytestmark = pytest.mark.sweep

FORCED = {"boundary_bits": 18, "filter_bits": 4}  # undecided 2**46 and 2**36 times as often
SOME = ["3/10", 7, 64, 1000, 10**9, 2**50]


def real(x):
    return mp.mpf(x.numerator) / x.denominator


def profile(name, scale):
    """F with mpmath, from the law's definition."""
    t = real(scale)
    return (lambda y: mp.exp(-((y / t) ** 2) / 2)) if "Gaussian" in name else (lambda y: mp.exp(-y / t))


def recipe_of(name, scale, few):
    """The recipe of a law's draws: of all of them, or of a sampler's first few."""
    law = setting(name, scale)[0].law
    return (law.for_few() if few else law).recipe


class Words:
    """A stream that gives each request the next of these words."""

    def __init__(self, *words):
        self.words = list(words)

    def more(self, _row):
        return self.words.pop(0)


@pytest.mark.parametrize("few", [False, True], ids=["many", "few"])
@pytest.mark.parametrize(("name", "scale"), grid(SOME))
def test_every_entry_of_the_table_has_its_mass_to_sixty_bits(name, scale, few):
    recipe = recipe_of(name, scale, few)
    table, f = build(recipe), profile(name, scale)
    with mp.workdps(60):
        length = real(recipe.layout.length)
        blocks = table.thresholds.size + 2
        weights = [f(h * length) for h in range(blocks)]
        if isinstance(recipe.layout, Single):
            masses = [weights[0], *(recipe.sides * w for w in weights[1:])]
        else:
            masses = [m for a, b in pairwise(weights) for m in (b, a - b)]
        # what is not listed weighs less than 2**-64 of the whole
        total = mp.fsum(masses)
        end = mp.mpf(table.owned) / 2**CELL_BITS
        counts = list(table.cell_counts) + [0] * len(masses)
        for e, threshold in enumerate(table.thresholds):
            rest = masses[e] / total - mp.mpf(counts[e]) / 2**CELL_BITS
            assert rest >= -(mp.mpf(2) ** -70)  # no entry owns more than its mass
            end += rest
            assert abs(end * 2**64 - int(threshold)) < 64  # the sum here is itself cut off
        assert int(table.thresholds[-1]) == 2**64 - 1


@pytest.mark.parametrize("few", [False, True], ids=["many", "few"])
@pytest.mark.parametrize(("name", "scale"), [(n, s) for n, s in grid([100, 1000]) if not n.startswith("rounded")])
def test_proposals_and_acceptance_give_the_law_to_thirty_digits(name, scale, few):
    """The proof in numbers: P(proposed and taken) of each integer is in proportion to f."""
    recipe = recipe_of(name, scale, few)
    if isinstance(recipe.layout, Single):
        return
    f, layout = profile(name, scale), recipe.layout
    length = int(layout.length)
    seen = {}
    with mp.workdps(50):
        for h in range(40):
            inner, outer = f(mp.mpf(h * length)), f(mp.mpf((h + 1) * length))
            for negative in range(recipe.sides):
                for offset in range(length):
                    x = layout.place(h, offset, negative)
                    y = real(recipe.profile.fall(layout.length, h, Fraction(layout.inner(offset, negative), length)))
                    edge = real(recipe.profile.fall(layout.length, h, Fraction(1)))
                    taken = 1 - (1 - mp.exp(-y)) / (1 - mp.exp(-edge))
                    assert x not in seen
                    seen[x] = outer + (inner - outer) * taken
        for x, weight in seen.items():
            assert mp.almosteq(weight, f(mp.mpf(abs(x))), rel_eps=mp.mpf(10) ** -30)
    assert len(seen) == 40 * length * recipe.sides


@pytest.mark.parametrize(("name", "scale"), grid([1000]))
def test_fall_within_a_block_follows_the_profile(name, scale):
    recipe, f = setting(name, scale)[0].law.recipe, profile(name, scale)
    length, rate = recipe.layout.length, build(recipe).rate
    with mp.workdps(40):
        for h in (0, 1, 2, 77):
            for q in (Fraction(0), Fraction(1, 8), Fraction(5, 8), Fraction(1)):
                fall = real(recipe.profile.fall(length, h, q))
                stated = -mp.log(f((h + real(q)) * real(length)) / f(h * real(length)))
                assert abs(fall - stated) < mp.mpf(10) ** -30
                rounded = recipe.profile.fall_floats(rate, np.array([float(h)]), np.array([float(q)]))[0]
                assert abs(mp.mpf(rounded) - fall) <= fall * mp.mpf(2) ** -51


@pytest.mark.parametrize("few", [False, True], ids=["many", "few"])
@pytest.mark.parametrize("forced", [{}, FORCED], ids=["as served", "rare branches forced"])
@pytest.mark.parametrize(("name", "scale"), grid(SOME))
def test_arrays_and_integers_read_the_same_bits_as_the_same_values(name, scale, forced, few):
    table = build(recipe_of(name, scale, few), **forced)
    rows = [f"{name} {scale} {i}".encode() for i in range(1500)]
    by_arrays = np.empty(len(rows), np.int64)
    lookup_table.fill(table, by_arrays, _Streams(b"key", rows))
    by_integers = _Streams(b"key", rows)
    assert by_arrays.tolist() == [draw(table, by_integers, row) for row in range(len(rows))]


@pytest.mark.parametrize(("name", "scale"), grid([7, 1000]))
def test_draws_fit_with_the_rare_branches_forced(name, scale):
    sampler, oracle, parameter = setting(name, scale)
    table = build(sampler.law.recipe, **FORCED)
    draws = np.empty(60_000, np.int64)
    lookup_table.fill(table, draws, Fresh(noise.ScriptedSource(f"forced {name} {scale}".encode())))
    fit = Fit(oracle(parameter)).add(draws)
    assert fit.p_value() > THRESHOLD
    assert fit.p_value(oracle(setting(name, scale * Fraction(11, 10))[2])) < THRESHOLD


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("entry", [0, 1, 2, 15])
def test_a_draw_on_a_boundary_is_decided_by_further_bits(name, entry):
    scale = Fraction(10)
    table = build(setting(name, scale)[0].law.recipe)
    boundary = int(table.thresholds[entry])
    low, high = (ends[entry] for ends in table._boundaries(320))
    exact = low >> (320 - 128)  # the boundary's first 128 bits
    assert exact == high >> (320 - 128)
    assert 0 <= (exact >> 64) - boundary <= 1
    cell = np.array([exact >> (128 - CELL_BITS)])
    first = np.array([(exact >> 64) << CELL_BITS & (2**64 - 1)], np.uint64)
    last = exact & (2**64 - 1)
    for further, chosen in ((last - 1, entry), (last + 1, entry + 1), (0, entry), (2**64 - 1, entry + 1)):
        stream = Words(further)
        assert table.entries(cell, np.array([0]), first, stream).tolist() == [chosen]
        assert not stream.words  # it did ask
    # the boundary itself, three words long, is still decided
    three = [last, (low >> 128) & (2**64 - 1), 0]
    assert table.entries(cell, np.array([0]), first, Words(*three)).tolist()[0] in {entry, entry + 1}


def test_a_draw_past_the_last_boundary_reaches_the_far_tail():
    table = build(noise.discrete_laplace(10).law.recipe)
    ones = 2**64 - 1
    cell, first = np.array([2**CELL_BITS - 1]), np.array([ones], np.uint64)
    entry = int(table.entries(cell, np.array([0]), first, Words(ones, ones >> 1))[0])
    # U = 1 - 2**-128 - ...: the tail beyond entry - 1 weighs about 2**-128
    assert abs(mp.exp(-mp.mpf(entry) / 10) * 2**128 - 1) < 1


@pytest.mark.parametrize("name", ["geometric", "discrete Gaussian", "rounded Gaussian", "rounded Laplace"])
def test_a_rim_on_its_edge_is_decided_by_further_bits(name):
    table = build(setting(name, Fraction(1000))[0].law.recipe)
    layout, smooth = table.recipe.layout, table.recipe.profile
    is_real = isinstance(layout, RealBlocks)
    bits = 63 if is_real else layout.offset_bits
    with mp.workdps(80):
        for h, place in ((0, (1 << bits) // 5), (3, (1 << bits) // 3), (90, (1 << bits) - 1)):
            # place is the whole truth: for reals the further bits drawn below are zeros
            q = Fraction(place, 1 << bits)
            ratio = (1 - mp.exp(-real(smooth.fall(layout.length, h, q)))) / (
                1 - mp.exp(-real(smooth.fall(layout.length, h, Fraction(1))))
            )
            edge = int(mp.floor(ratio * 2 ** (52 + 64)))
            point = lookup_table.RimPoint(h, place, bits, edge >> 64)
            for step, taken in ((-2, False), (2, True)):
                further = (edge + step) & (2**64 - 1)
                stream = Words(*((further, 0) if is_real else (further,)), *([0] * 8))
                assert lookup_table.rim_taken(table, point, stream, 0) is taken
                assert len(stream.words) < 9  # it did ask


@pytest.mark.parametrize("name", ["rounded Gaussian", "rounded Laplace"])
def test_a_real_rim_point_waits_for_the_bits_of_its_place(name):
    """V lies between the edges for the ends of what is known of q: only further bits of q can decide."""
    table = build(setting(name, Fraction(1000))[0].law.recipe)
    layout, smooth = table.recipe.layout, table.recipe.profile
    for h, place in ((0, 3), (50, 14)):
        loss_at = [
            1 - mp.exp(-real(smooth.fall(layout.length, h, q)))
            for q in (Fraction(place, 16), Fraction(place + 1, 16), 1)
        ]
        v = int((loss_at[0] + loss_at[1]) / 2 / loss_at[2] * 2**52)
        for further, taken in ((1, True), (2**64 - 1, False)):  # q at the inner end of what is known, or at the outer
            stream = Words(5, further)
            assert lookup_table.rim_taken(table, lookup_table.RimPoint(h, place, 4, v), stream, 0) is taken
            assert not stream.words


def test_float_tests_are_as_accurate_as_their_proofs_say():
    y = np.append(np.linspace(0, 0.25, 2000)[1:], 2.0 ** -np.arange(2, 60))
    with mp.workdps(40):
        for value, exact in zip(loss(y), y, strict=True):
            truth = -mp.expm1(-mp.mpf(exact))
            assert abs(mp.mpf(value) - truth) < truth * mp.mpf(2) ** -49
        x = np.concatenate([np.linspace(0, 70, 2000), np.arange(2048) / 32, [1e300]])
        for value, exact in zip(exp_floats(x), x, strict=True):
            assert abs(mp.mpf(value) - mp.exp(-mp.mpf(exact))) < mp.mpf(2) ** -50
    assert loss(np.array([0.0]))[0] == 0
    assert exp_floats(np.array([0.0, np.inf])).tolist() == [1, 0]


@pytest.mark.parametrize(("name", "scale"), grid(["1/1000", 1, 63, 64, 10**4, 2**22, 2**23, 2**50]))
def test_cell_and_offset_bits_never_overlap_and_every_cell_holds_its_entry(name, scale):
    table = build(setting(name, scale)[0].law.recipe)
    layout = table.recipe.layout
    assert CELL_BITS + layout.offset_bits <= table.word_bits
    # the values an owned cell can give are, as a set, the block's own integers
    for h, negative in ((0, 0), (1, 0), (1, 1)):
        last = (1 << layout.offset_bits) - 1
        ends = [layout.base(h, negative) + offset >> layout.halved for offset in (0, last)]
        placed = [int(layout.place(h, offset, negative)) for offset in (0, last)]
        assert sorted(ends) == sorted(placed)


def test_offsets_of_owned_cells_are_even_on_both_sides():
    """One-step faults in the fast path: for each side, all offsets of block 0 equally often."""
    for name in ("geometric", "rounded Laplace"):
        table = build(setting(name, Fraction(1000))[0].law.recipe)
        length = int(table.recipe.layout.length)
        draws = np.empty(10**6, np.int64)
        lookup_table.fill(table, draws, Fresh(noise.ScriptedSource(b"sides")))
        first = 0 if name == "geometric" else 1  # the rounded zero cell is shared by both sides
        for side in (draws[draws >= first], -draws[draws < 0] - (name == "geometric")):
            near = side[side < first + 8 * length]
            f = np.exp(-np.arange(8 * length) / 1000)
            counts = np.bincount(near - first, minlength=8 * length)
            assert chi_square(counts, f / f.sum()) > THRESHOLD
            odd_only = np.bincount((near - first) | 1, minlength=8 * length)
            assert chi_square(odd_only, f / f.sum()) < THRESHOLD
