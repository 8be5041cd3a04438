"""Attacks by asking: the same question again and again, and two questions that differ by one person.

`ask` is whatever answers: an unprotected database, a mechanism, an account. An account that refuses raises; the attack
then stops with what it has.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from neartwin.checks import integer
from neartwin.errors import BudgetError, NeartwinError

Ask = Callable[[Sequence[Hashable]], float]  # the people counted in, the answer out


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the attacker believes, from how many answers, and the refusal that stopped him, if one did."""

    value: float
    answers: int
    refusal: NeartwinError | None = None


def averaged(ask: Callable[[], float], *, times: int) -> Estimate:
    """Ask the same question up to `times` times and take the mean; NaN without an answer.

    Fresh noise on each answer averages out; a stored answer, or a budget, does not.

    >>> averaged(lambda: 7.0, times=3)
    Estimate(value=7.0, answers=3, refusal=None)
    """
    integer(times=times, at_least=1)
    heard: list[float] = []
    try:
        heard.extend(float(ask()) for _ in range(times))
    except BudgetError as refusal:
        return Estimate(_mean(heard), len(heard), refusal)
    return Estimate(_mean(heard), len(heard))


def differenced(ask: Ask, everyone: Sequence[Hashable], target: Hashable, *, times: int = 1) -> Estimate:
    """The target's own value: what everyone adds up to, less what everyone else adds up to, averaged over `times`.

    >>> salaries = {"ann": 30.0, "bob": 45.0}
    >>> differenced(lambda people: sum(salaries[name] for name in people), ["ann", "bob"], "bob").value
    45.0
    """
    integer(times=times, at_least=1)
    others = [person for person in everyone if person != target]
    gaps: list[float] = []
    try:
        gaps.extend(float(ask(everyone)) - float(ask(others)) for _ in range(times))
    except BudgetError as refusal:
        return Estimate(_mean(gaps), 2 * len(gaps), refusal)
    return Estimate(_mean(gaps), 2 * len(gaps))


def _mean(heard: list[float]) -> float:
    return float(np.mean(heard)) if heard else float("nan")
