"""Reconstruction: a secret bit for each of n people, from noisy counts over subsets of them.

Dinur and Nissim 2003: with n or more random subsets and errors below c sqrt(n), almost every bit comes back; answering
every subset within E lets an exhaustive attacker err in at most 4E people. Attackers see queries and answers alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray

Bits = NDArray[np.int8]
Subsets = NDArray[np.int8]  # (queries, people): who is counted
Attacker = Callable[[Subsets, FloatArray], Bits]

_MOST_EXHAUSTIVE = 20


def random_subsets(people: int, queries: int, rng: np.random.Generator) -> Subsets:
    """Subsets that hold each person with probability 1/2, independently: shape (queries, people)."""
    integer(people=people, at_least=1)
    integer(queries=queries, at_least=1)
    return np.asarray(rng.integers(0, 2, (queries, people), dtype=np.int8))


def every_subset(people: int) -> Subsets:
    """All 2^people subsets, one a row, for at most 20 people.

    >>> every_subset(2).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    if not 1 <= people <= _MOST_EXHAUSTIVE:
        raise ParameterError("people", people, f"must lie between 1 and {_MOST_EXHAUSTIVE}, for 2^people subsets")
    return np.asarray((np.arange(2**people)[:, None] >> np.arange(people)) & 1, np.int8)


def exhaustive(subsets: Subsets, answers: FloatArray) -> Bits:
    """The bits whose true counts are nearest the answers in the worst query; tries all 2^n, n at most 20.

    With every subset answered within E, at most 4E bits are wrong. Dinur and Nissim 2003, Theorem 3.
    """
    _shapes(subsets, answers)
    candidates = every_subset(subsets.shape[1])
    best, least = np.asarray(candidates[0], np.int8), np.inf
    for block in np.array_split(candidates, max(1, len(candidates) // 1024)):
        worst = np.abs(block.astype(np.float64) @ subsets.T - answers).max(axis=1)
        at = int(np.argmin(worst))
        if worst[at] < least:
            best, least = np.asarray(block[at], np.int8), float(worst[at])
    return best


def least_squares(subsets: Subsets, answers: FloatArray) -> Bits:
    """Least squares over the reals, then rounding at one half. Dwork and Yekhanin 2008 in spirit; any n.

    >>> rng = np.random.default_rng(1)
    >>> secret, asked = rng.integers(0, 2, 50), random_subsets(50, 200, rng)
    >>> bool(np.all(least_squares(asked, asked @ secret + rng.uniform(-1, 1, 200)) == secret))
    True
    """
    _shapes(subsets, answers)
    found, *_ = np.linalg.lstsq(subsets.astype(np.float64), answers, rcond=None)
    return _rounded(np.asarray(found, np.float64))


def linear_program(subsets: Subsets, answers: FloatArray) -> Bits:
    """The point of [0, 1]^n with the least total error, by SciPy's HiGHS, then rounding at one half.

    Dwork, McSherry and Talwar 2007: survives a constant share of answers that are arbitrarily wrong.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    _shapes(subsets, answers)
    queries, people = subsets.shape
    asked, slack = csr_array(subsets.astype(np.float64)), eye_array(queries, format="csr")
    # minimise sum(t) under -t <= Q x - a <= t
    both_sides: Any = vstack([hstack([asked, -slack]), hstack([-asked, -slack])], format="csr")
    cost = np.concatenate([np.zeros(people), np.ones(queries)])
    bounds = [(0.0, 1.0)] * people + [(0.0, None)] * queries
    solved = linprog(cost, A_ub=both_sides, b_ub=np.concatenate([answers, -answers]), bounds=bounds, method="highs")
    if solved.x is None:
        raise ParameterError("answers", answers, "gave a linear programme that HiGHS could not solve")
    return _rounded(np.asarray(solved.x[:people], np.float64))


def wrong_share(secret: Bits, found: Bits) -> float:
    """The share of people whose bit is wrong; one half is a coin's work.

    >>> wrong_share(np.array([0, 1, 1, 0], np.int8), np.array([0, 1, 0, 0], np.int8))
    0.25
    """
    return float(np.mean(np.asarray(secret) != np.asarray(found)))


def _rounded(values: FloatArray) -> Bits:
    return np.asarray(values > 0.5, np.int8)


def _shapes(subsets: Subsets, answers: FloatArray) -> None:
    if subsets.ndim != 2 or np.shape(answers) != (len(subsets),):
        raise ParameterError("answers", np.shape(answers), f"must hold one answer for each of {len(subsets)} subsets")
