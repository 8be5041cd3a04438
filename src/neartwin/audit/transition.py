"""The phase transition of reconstruction: below an error of order sqrt(n) everything comes back, above it nothing.

And the floor that differential privacy puts under the attack: whatever the attacker does, a fair secret bit stays wrong
with at least the probability that the guarantee's curve allows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from neartwin.audit.reconstruction import Attacker, Bits, Subsets, random_subsets, wrong_share
from neartwin.checks import integer
from neartwin.exact import FloatArray

Answerer = Callable[[Subsets, Bits], FloatArray]  # queries and secret in, noisy counts out; random


@dataclass(frozen=True, slots=True)
class Attempt:
    """One reconstruction. error: the largest error among the answers, in counts; wrong: the share of wrong bits."""

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
    """Counts with an error uniform in [-most, most]."""
    return lambda subsets, secret: subsets @ secret.astype(np.float64) + rng.uniform(-most, most, len(subsets))


def laplace_noise(epsilon: float, rng: np.random.Generator) -> Answerer:
    """Counts as a basic-composition account of `epsilon` would answer: Laplace noise of scale queries / epsilon.

    In floats, to show the attack at size; a release uses exact noise.
    """
    return lambda subsets, secret: (
        subsets @ secret.astype(np.float64) + rng.laplace(0, len(subsets) / epsilon, len(subsets))
    )


def gaussian_noise(mu: float, rng: np.random.Generator) -> Answerer:
    """Counts as a GDP account of `mu` would answer: normal noise of deviation sqrt(queries) / mu, in floats."""
    return lambda subsets, secret: (
        subsets @ secret.astype(np.float64) + rng.normal(0, np.sqrt(len(subsets)) / mu, len(subsets))
    )


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
    """Attack fresh secrets at each setting; a row an attempt, in order of settings, repeats and attackers.

    answerer_of: `bounded_noise`, `laplace_noise`, `gaussian_noise`, or any other; `settings` are its first argument.
    The attackers of one repeat see the same answers. `secret`: attack these bits each time instead of fair random ones.

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
