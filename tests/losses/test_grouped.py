"""Terms that share a line carry the errors of their parts: parts that err by as much as they say, and by more."""

import numpy as np
import pytest

from neartwin.losses.grouped import Group, Pieces
from neartwin.losses.loss import Summand

LAM, T = 3.0, np.array([0.4, 1.1, 2.5])
COUNTS, WAYS = np.array([[4.0, 1, 0], [3, 2, 0], [4, 0, 1], [2, 2, 1]]), np.array([5.0, 10, 5, 30])


class Erring(Summand):
    """A normal loss whose transform is known; its logarithms err by so many times what they say, in some direction."""

    def __init__(self, mean, spread, said, phases, times=1.0):
        self.mean, self.spread, self.said, self.off = mean, spread, said, times * said * np.exp(1j * phases)

    def log(self, s):
        return self.mean * s + 0.5 * self.spread * s * s

    def cumulants(self, lam):
        return self.log(lam), self.mean + self.spread * lam, self.spread

    def log_mgf(self, lam):
        return self.log(lam) + self.off[0].real, self.said

    def line(self, lam, t):
        return self.log(lam + 1j * t) - self.log(lam) + self.off[1:], np.full(len(t), self.said)


def excess(rng, times, said=1e-3):
    """By how much the group errs beyond its bound, relatively, at its worst place; negative where the bound holds."""
    phases = [rng.choice([0.0, np.pi, np.pi / 2, -np.pi / 2], 1 + len(T)) for _ in range(3)]
    laws = [(0.02, 0.3), (0.15, 0.5), (0.3, 0.2)]
    parts = tuple(Erring(*law, said, some, times) for law, some in zip(laws, phases, strict=True))
    line, bound = Group(Pieces(parts, np.ones(3)), COUNTS, np.log(WAYS)).line(LAM, T)

    def truth(s):
        return sum(
            w * np.exp(sum(n * part.log(s) for n, part in zip(row, parts, strict=True)))
            for w, row in zip(WAYS, COUNTS, strict=True)
        )

    ratio = truth(LAM + 1j * T) / truth(LAM)
    return float(np.max(np.abs(ratio / np.exp(line) - 1) / np.expm1(bound)) - 1)


@pytest.mark.parametrize("said", [1e-3, 1e-9])
def test_a_group_errs_by_no_more_than_its_parts_allow(said):
    rng = np.random.default_rng(4)
    found = [excess(rng, 1.0, said) for _ in range(200)]
    assert -0.7 < max(found) <= 0  # the worst comes near to the bound, which is not many times too much


def test_near_miss_parts_that_err_by_more_than_they_say_break_the_bound():
    rng = np.random.default_rng(4)
    assert max(excess(rng, 4.0) for _ in range(200)) > 0
