"""Broken mechanisms, each from the literature or a real class of bugs, each beside its correct twin.

A control is made from one source of randomness, so that a test can fix it. The two mechanisms share their code but for
the planted fault, take the same inputs, and make the same claim.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from neartwin.audit.claims import Claim
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Batched


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """name: the fault; source: where it is from; inputs, event: words that the finding's inputs and event must hold."""

    name: str
    source: str
    broken: Batched
    correct: Batched
    claim: Claim
    twins: Callable[[], Iterable[Twins]]
    inputs: str = ""
    event: tuple[str, ...] = ("",)
    runs: int = 8_000


def controls(rng: np.random.Generator) -> list[Control]:
    from tests.audit.controls import answering, selection, tables

    return [*answering.controls(rng), *selection.controls(rng), *tables.controls(rng)]


def discrete_laplace(rng, scale, shape):
    """Integer noise, P(x) proportional to exp(-|x| / scale): the difference of two geometric variables."""
    p = -np.expm1(-1 / scale)
    return rng.geometric(p, shape) - rng.geometric(p, shape)
