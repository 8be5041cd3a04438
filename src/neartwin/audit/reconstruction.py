"""Reconstruction: a secret bit for each of n people, from noisy counts over subsets of them.

Dinur and Nissim 2003: with n or more random subsets and errors below c sqrt(n), almost every bit comes back. An exhaustive
attacker errs in at most 4E people if every subset is answered within E. Attackers see queries and answers alone.

The attack has a phase transition: below an error of order sqrt(n) everything comes back, above it nothing. Differential privacy
puts a floor under it. Whatever the attacker does, a fair secret bit stays wrong with at least the probability that the
guarantee's curve allows.

neartwin can answer the subset counts itself, in one release that a ledger paid for. A person whose bit is 1 has a row for each
subset that holds them, and a person whose bit is 0 has none. So the secret is whether the person is in the data, as in the
guarantee. Questions are groups, so that one plan answers them all. Its noise is for a person who may be in every one.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.accounting.budgets import Budget
from neartwin.checks import integer
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray
from neartwin.planning.limits import Limits

Bits = NDArray[np.int8]
Subsets = NDArray[np.int8]  # (queries, people): who is counted
Attacker = Callable[[Subsets, FloatArray], Bits]

_MOST_EXHAUSTIVE = 20


def random_subsets(people: int, queries: int, rng: np.random.Generator) -> Subsets:
    """Subsets that contain each person with probability 1/2, independently.

    Args:
        people: The number of people.
        queries: The number of subsets.
        rng: The source of randomness.

    Returns:
        (queries, people) bits.
    """
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
    """The bits whose true counts are nearest the answers in the worst query. It tries all 2^n, with n at most 20.

    If every subset is answered within E, at most 4E bits are wrong.

    Args:
        subsets: (queries, people) bits.
        answers: (queries,) noisy counts.

    Returns:
        (people,) bits.

    Source:
        Dinur, Nissim 2003, Theorem 3.
    """
    _shapes(subsets, answers)
    candidates = every_subset(subsets.shape[1])
    blocks = np.array_split(candidates, max(1, len(candidates) // 1024))
    worst = [np.abs(block.astype(np.float64) @ subsets.T - answers).max(axis=1) for block in blocks]
    return np.asarray(candidates[np.argmin(np.concatenate(worst))], np.int8)


def least_squares(subsets: Subsets, answers: FloatArray) -> Bits:
    """The bits by least squares over the reals and rounding at one half, for any n.

    Args:
        subsets: (queries, people) bits.
        answers: (queries,) noisy counts.

    Returns:
        (people,) bits.

    Source:
        After Dwork, Yekhanin 2008.

    >>> rng = np.random.default_rng(1)
    >>> secret, asked = rng.integers(0, 2, 50), random_subsets(50, 200, rng)
    >>> bool(np.all(least_squares(asked, asked @ secret + rng.uniform(-1, 1, 200)) == secret))
    True
    """
    _shapes(subsets, answers)
    solution, *_ = np.linalg.lstsq(subsets.astype(np.float64), answers, rcond=None)
    return _rounded(np.asarray(solution, np.float64))


def linear_program(subsets: Subsets, answers: FloatArray) -> Bits:
    """The bits by the point of [0, 1]^n with the least total error and rounding at one half, by SciPy's HiGHS.

    It survives a constant share of arbitrarily wrong answers.

    Args:
        subsets: (queries, people) bits.
        answers: (queries,) noisy counts.

    Returns:
        (people,) bits.

    Raises:
        ParameterError: The solver found no solution, or the shapes do not agree.

    Source:
        Dwork, McSherry, Talwar 2007.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    _shapes(subsets, answers)
    queries, people = subsets.shape
    matrix, slack = csr_array(subsets.astype(np.float64)), eye_array(queries, format="csr")
    # minimise sum(t) under -t <= Q x - a <= t
    both_sides: Any = vstack([hstack([matrix, -slack]), hstack([-matrix, -slack])], format="csr")
    cost = np.concatenate([np.zeros(people), np.ones(queries)])
    bounds = [(0.0, 1.0)] * people + [(0.0, None)] * queries
    solved = linprog(cost, A_ub=both_sides, b_ub=np.concatenate([answers, -answers]), bounds=bounds, method="highs")
    if solved.x is None:
        raise ParameterError("answers", answers, "gave a linear programme that HiGHS could not solve")
    return _rounded(np.asarray(solved.x[:people], np.float64))


def wrong_share(secret: Bits, found: Bits) -> float:
    """The share of people whose bit is wrong; guessing by a coin gives one half.

    Args:
        secret: (people,) true bits.
        found: (people,) guessed bits.

    Returns:
        The share, in [0, 1].

    >>> wrong_share(np.array([0, 1, 1, 0], np.int8), np.array([0, 1, 0, 0], np.int8))
    0.25
    """
    return float(np.mean(np.asarray(secret) != np.asarray(found)))


def _rounded(values: FloatArray) -> Bits:
    return np.asarray(values > 0.5, np.int8)


def _shapes(subsets: Subsets, answers: FloatArray) -> None:
    if subsets.ndim != 2 or np.shape(answers) != (len(subsets),):
        raise ParameterError("answers", np.shape(answers), f"must hold one answer for each of {len(subsets)} subsets")


Answerer = Callable[[Subsets, Bits], FloatArray]  # queries and secret in, noisy counts out; random


@dataclass(frozen=True, slots=True)
class Attempt:
    """One reconstruction.

    Attributes:
        attacker: The name of the attacker.
        setting: The setting of the answers, such as epsilon.
        people: The number of people.
        queries: The number of queries.
        error: The largest error among the answers, in counts.
        wrong: The share of wrong bits.
    """

    attacker: str
    setting: float
    people: int
    queries: int
    error: float
    wrong: float

    @property
    def error_in_roots(self) -> float:
        """The error in units of sqrt(people), where the transition has a fixed place."""
        return self.error / float(np.sqrt(self.people))


def bounded_noise(most: float, rng: np.random.Generator) -> Answerer:
    """Counts with a uniform error.

    Args:
        most: The error is in [-most, most].
        rng: The source of randomness.

    Returns:
        The answerer.
    """
    return lambda subsets, secret: subsets @ secret.astype(np.float64) + rng.uniform(-most, most, len(subsets))


def sweep(
    answerer_of: Callable[[float, np.random.Generator], Answerer],
    settings: Sequence[float],
    attackers: Mapping[str, Attacker],
    *,
    people: int,
    queries: int,
    repeats: int = 1,
    seed: int = 0,
    secret: Bits | None = None,
) -> list[Attempt]:
    """Attack fresh secrets at each setting. The attackers of one repeat see one set of answers.

    Args:
        answerer_of: The answerer of a setting: `bounded_noise`, `released(nt.pure)`, `released(nt.gdp)`, or any other.
        settings: The settings.
        attackers: The attackers, by name.
        people: The number of people.
        queries: The number of queries.
        repeats: The number of secrets for each setting.
        seed: The seed.
        secret: (people,) bits to attack each time, in place of fair random ones.

    Returns:
        The attempts, in order of settings, repeats and attackers.

    >>> from neartwin.audit.reconstruction import least_squares
    >>> rows = sweep(bounded_noise, [0.1, 100.0], {"least squares": least_squares}, people=40, queries=160)
    >>> rows[0].wrong, rows[1].wrong > 0.2
    (0.0, True)
    """
    integer(repeats=repeats, at_least=1)
    rows: list[Attempt] = []
    for setting_number, setting in enumerate(settings):
        for repeat in range(repeats):
            rng = np.random.default_rng([seed, setting_number, repeat])
            bits = rng.integers(0, 2, people, dtype=np.int8) if secret is None else secret
            subsets = random_subsets(len(bits), queries, rng)
            answers = answerer_of(setting, rng)(subsets, bits)
            error = float(np.max(np.abs(answers - subsets @ bits.astype(np.float64))))
            rows += [
                Attempt(name, setting, len(bits), queries, error, wrong_share(bits, attack(subsets, answers)))
                for name, attack in attackers.items()
            ]
    return rows


_PERSON, _QUESTION = "person", "question"


def released(spend: Callable[[float], Budget]) -> Callable[[float, np.random.Generator], Answerer]:
    """Counts from a neartwin release at each setting, for `sweep`: `released(nt.pure)`, `released(nt.gdp)`.

    spend: from a setting to what the whole release may cost. The noise is the release's own, from the system's generator:
    no seed repeats it.

    >>> from neartwin.accounting.budgets import pure
    >>> subsets, bits = np.ones((2, 30), np.int8), np.ones(30, np.int8)
    >>> answers = released(pure)(10**6, np.random.default_rng(0))(subsets, bits)
    >>> bool(np.abs(answers - 30).max() < 1)
    True
    """
    return lambda setting, rng: lambda subsets, secret: _counts(subsets, secret, spend(setting))  # noqa: ARG005 - the noise is not seeded


def _counts(subsets: Subsets, secret: Bits, spend: Budget) -> FloatArray:
    import pyarrow as pa

    from neartwin.queries.open import table  # heavy rooms, for this attack alone
    from neartwin.releases.accounts import open_ledger
    from neartwin.statistics import count_distinct_units

    questions, people = np.nonzero(subsets * np.asarray(secret, np.int8))
    rows = pa.table({_PERSON: pa.array(people, pa.int64()), _QUESTION: pa.array(questions, pa.int64())})
    people_table = table(rows, unit=_PERSON, name="secrets")
    counted = people_table.group_by(_QUESTION, keys={_QUESTION: range(len(subsets))}).agg(n=count_distinct_units())
    with tempfile.TemporaryDirectory() as folder, open_ledger(Path(folder) / "attack.db") as book:
        account = book.open(people_table, spend)
        proposal = account.plan(counted, spend=spend, limits=Limits(max_groups=len(subsets)))
        return np.array(account.release(proposal)["n"].values)
