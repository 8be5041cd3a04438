"""Exact choices have exactly the stated probabilities; near misses and impossible requests are refused."""

import itertools
from fractions import Fraction
from math import factorial

import mpmath as mp
import numpy as np
import pytest

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.noise import coins
from tests.oracles.noise_laws import THRESHOLD, chi_square

N = 10**6


def script(name):
    return noise.ScriptedSource(str(name).encode())


def fits(outcomes, probabilities):
    probabilities = np.array([float(p) for p in probabilities])
    return (
        chi_square(
            np.bincount(np.asarray(outcomes).reshape(-1).astype(int), minlength=probabilities.size), probabilities
        )
        > THRESHOLD
    )


class Words:
    """A stream whose rows first get these words, then these further bits."""

    def __init__(self, words, further=()):
        self.words, self.further = np.array(words, np.uint64), list(further)

    def take(self, rows, k):
        return self.words[rows].reshape(k, -1)

    def more(self, _row):
        return self.further.pop(0)


@pytest.mark.parametrize("p", ["1/3", "1/2", "1/1000", "999/1000", "2/7", "0.1"])
def test_coins_of_rational_probability(p):
    p = Fraction(p)
    heads = noise.bernoulli(p, (1000, 1000), source=script(p))
    assert heads.shape == (1000, 1000)
    assert fits(heads, [1 - p, p])
    assert not fits(heads, [1 - p * Fraction(5, 4) / (1 + p / 4), p * Fraction(5, 4) / (1 + p / 4)])


def test_certain_coins_are_certain_and_improper_ones_refused():
    assert noise.bernoulli(1, 1000).all()
    assert not noise.bernoulli(0, 1000).any()
    assert noise.bernoulli_exp(0, 1000).all()
    assert noise.bernoulli(1) is True
    assert noise.bernoulli_exp(10**9) is False
    for wrong in (-1, "1.0000001", float("nan")):
        with pytest.raises(ParameterError):
            noise.bernoulli(wrong)
    for arguments in ((-1,), (np.array([1, -1]),), (np.array([0.5]),), (np.array([Fraction(-1, 3)]),)):
        with pytest.raises(ParameterError):
            noise.bernoulli_exp(*arguments)
    for over in (0, -2):
        with pytest.raises(ParameterError):
            noise.bernoulli_exp(1, over=over)
    with pytest.raises(ParameterError, match="shape"):
        noise.bernoulli_exp(np.array([1]), 3)


def test_a_coin_on_its_edge_is_decided_by_further_bits():
    p = Fraction(1, 3)  # in binary 0.010101...
    edge = (1 << 64) // 3
    for further, shown in (((1 << 64) // 3 - 1, True), ((1 << 64) // 3 + 1, False)):
        words = Words([edge - 1, edge, edge + 1], [further])
        assert coins.coin(coins.rational_bounds(p), np.arange(3), words).tolist() == [True, shown, False]
        assert not words.further
    # a dyadic probability: the edge itself is tails, at once or after one more word
    half = Words([(1 << 63) - 1, 1 << 63], [0, 0])
    assert coins.coin(coins.rational_bounds(Fraction(1, 2)), np.arange(2), half).tolist() == [True, False]


def test_an_exponential_coin_on_its_edge_is_decided_by_further_bits():
    with mp.workdps(60):
        for x in (Fraction(1), Fraction(1, 1000), Fraction(22, 7)):
            edge = int(mp.floor(mp.exp(-mp.mpf(x.numerator) / x.denominator) * 2**116))  # 52 bits of V, then 64
            for step, shown in ((-1, True), (1, False)):
                words = Words([(edge >> 64) << 12], [(edge + step) & (2**64 - 1)])

                class One:
                    floats = staticmethod(lambda x=x: np.array([float(x)]))
                    exactly = staticmethod(lambda _, x=x: x)

                assert coins.exp_coins(One(), np.arange(1), words).tolist() == [shown]
                assert not words.further


@pytest.mark.parametrize("x", ["0.7", "1/1000", 3, "8.5"])
def test_exponential_coins(x):
    x = Fraction(x)
    p = mp.exp(-mp.mpf(x.numerator) / x.denominator)
    heads = noise.bernoulli_exp(x, N, source=script(x))
    assert fits(heads, [1 - p, p])
    wrong = p**2 if p > 0.9 else p * 0.98 if p > 0.01 else p * 3
    assert not fits(heads, [1 - wrong, wrong])


@pytest.mark.slow
def test_arrays_of_exponents_give_each_its_own_coin():
    gaps = np.repeat([0, 1, 5, 40], 250_000)
    for heads in (
        noise.bernoulli_exp(gaps, over="7/2", source=script("gaps")),
        noise.bernoulli_exp(gaps * 10**12, over=Fraction(7 * 10**12, 2), source=script("gaps")),
    ):
        for part, gap in zip(heads.reshape(4, -1), (0, 1, 5, 40), strict=True):
            p = mp.exp(-mp.mpf(gap) * 2 / 7)
            assert fits(part, [1 - p, p])
    fractions = np.array([Fraction(1, 3), Fraction(10**40), Fraction(0), 2], object).reshape(2, 2)
    drawn = [noise.bernoulli_exp(fractions, source=script(i)) for i in range(3000)]
    shown = np.array(drawn).reshape(3000, 4)
    assert not shown[:, 1].any()
    assert shown[:, 2].all()
    assert fits(shown[:, 0], [1 - mp.exp(-mp.mpf(1) / 3), mp.exp(-mp.mpf(1) / 3)])


def test_exponents_without_a_float_are_decided_by_integers():
    huge = Fraction(1 << 2000, 3)
    heads = noise.bernoulli_exp(np.full(2000, 5), over=huge, source=script("huge"))
    assert heads.all()  # each fails with probability 2**-1998
    tiny = noise.bernoulli_exp(np.array([0, 1]), over=1 / huge)
    assert tiny.tolist() == [True, False]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 100])
def test_dice_are_fair(n):
    drawn = noise.uniform_below(n, N, source=script(n))
    assert drawn.min() == 0
    assert drawn.max() == n - 1
    if n > 1:
        assert fits(drawn, [Fraction(1, n)] * n)
        assert not fits(np.where((drawn == 0) & (np.arange(N) % 10 == 0), 1, drawn), [Fraction(1, n)] * n)


@pytest.mark.parametrize("n", [2**31 + 7, 2**62 + 1, 2**63])
def test_large_dice_are_fair_in_their_leading_and_last_digits(n):
    drawn = noise.uniform_below(n, 20_000, source=script(n))
    assert all(0 <= int(x) < n for x in drawn)
    assert fits([int(x) * 7 // n for x in drawn], [Fraction(1, 7)] * 7)
    assert fits([int(x) % 64 for x in drawn], [Fraction(1, 64)] * 64)
    assert isinstance(noise.uniform_below(n), int)


def test_numbers_of_numpy_are_numbers():
    assert noise.uniform_below(np.int64(1)) == 0
    assert noise.permutation(np.int32(3)).size == 3
    assert noise.bernoulli(np.float64(1.0)) is True
    assert noise.bernoulli_exp(np.int64(0)) is True


def test_dice_without_sides_are_refused():
    for wrong in (0, -1, 2.0, True, 2**63 + 1):
        with pytest.raises(ParameterError):
            noise.uniform_below(wrong)
    for wrong in (-1, 1.5):
        with pytest.raises(ParameterError):
            noise.permutation(wrong)


@pytest.mark.slow
def test_all_orders_are_equally_likely():
    orders = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
    source = script("orders")
    drawn = [orders[tuple(noise.permutation(4, source=source).tolist())] for _ in range(48_000)]
    assert fits(drawn, [Fraction(1, factorial(4))] * factorial(4))
    naive = [orders[tuple(np.argsort([i ^ 1 if i < 12 else i, 13, 14, 15]).tolist())] for i in range(24)]
    assert not fits(naive * 2000, [Fraction(1, 24)] * 24)
    assert noise.permutation(0).size == 0
    assert sorted(noise.permutation(100_000).tolist()) == list(range(100_000))


def test_a_tie_of_keys_draws_all_of_them_anew():
    source = noise.ScriptedSource.replay([5, 5, 1, 30, 10, 20])
    assert noise.permutation(3, source=source).tolist() == [1, 2, 0]
