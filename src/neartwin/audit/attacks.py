"""Attacks by asking: one question again and again, and two questions that differ by one person.

`ask` stands for an unprotected database, a mechanism, or an account. An account that refuses raises, and the attack then stops
with the answers that it has.

**Tracing.** Was this person among those whose means were published? Homer et al. 2008; Dwork, Smith, Steinke, Ullman and Vadhan
2015. Take the inner product of a person's and the published means' differences from the population. It separates members from
strangers once there are about as many columns as members, even when the means are a little noisy.

**Timing.** Does the time of a call follow the noise it drew? If it does, the wall clock tells the noise, and the answer follows.
Jin, McMurtry, Rubinstein and Ohrimenko 2022.

**Floats.** Floating-point numbers betray secrets that real numbers would not. A float Laplace sampler reaches only some floats
around its centre. An output that one centre can reach and the other cannot tells them apart for certain (Mironov 2012). A float
sum may move by far more than its sensitivity, through repeated rounding or the order of rows (Casacuberta, Shoemate, Vadhan and
Wagaman 2022).
"""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer, positive
from neartwin.errors import BudgetError, NeartwinError, ParameterError
from neartwin.exact import FloatArray

Ask = Callable[[Sequence[Hashable]], float]  # the people counted in, the answer out


@dataclass(frozen=True, slots=True)
class Estimate:
    """The attacker's estimate.

    Attributes:
        value: The estimate.
        answers: The number of answers that it uses.
        refusal: The refusal that stopped the attacker, if one did.
    """

    value: float
    answers: int
    refusal: NeartwinError | None = None


def averaged(ask: Callable[[], float], *, times: int) -> Estimate:
    """Ask one question several times and take the mean; NaN without an answer.

    Fresh noise on each answer averages out. A stored answer, or a budget, does not.

    Args:
        ask: The question.
        times: The number of attempts; a refusal ends them.

    Returns:
        The estimate.

    >>> averaged(lambda: 7.0, times=3)
    Estimate(value=7.0, answers=3, refusal=None)
    """
    integer(times=times, at_least=1)
    heard: list[float] = []
    refusal = None
    try:
        heard.extend(float(ask()) for _ in range(times))
    except BudgetError as refused:
        refusal = refused
    return Estimate(float(np.mean(heard)) if heard else float("nan"), len(heard), refusal)


def differenced(ask: Ask, everyone: Sequence[Hashable], target: Hashable, *, times: int = 1) -> Estimate:
    """Estimate the target's own value: the total of everyone minus the total of everyone else, averaged.

    Args:
        ask: The total of a list of people.
        everyone: All people.
        target: The person under attack.
        times: The number of attempts.

    Returns:
        The estimate.

    >>> salaries = {"ann": 30.0, "bob": 45.0}
    >>> differenced(lambda people: sum(salaries[name] for name in people), ["ann", "bob"], "bob").value
    45.0
    """
    others = [person for person in everyone if person != target]
    gap = averaged(lambda: float(ask(everyone)) - float(ask(others)), times=times)
    return replace(gap, answers=2 * gap.answers)


def tracing_scores(people: FloatArray, published: FloatArray, reference: FloatArray) -> FloatArray:
    """Scores that are higher for members: <published - reference, person - reference>.

    Args:
        people: (people, columns) each person's own values.
        published: (columns,) the released means.
        reference: (columns,) the means of the population.

    Returns:
        (people,) scores.

    Raises:
        ParameterError: The shapes do not agree.
    """
    table = np.asarray(people, np.float64)
    if table.ndim != 2 or np.shape(published) != table.shape[1:] or np.shape(reference) != table.shape[1:]:
        raise ParameterError("people", table.shape, "must have one column for each published and reference mean")
    return np.asarray((table - reference) @ (np.asarray(published) - reference))


@dataclass(frozen=True, slots=True)
class TimingFinding:
    """The rank correlation between |noise| and time.

    A small p-value means that time follows noise on this machine. A large one proves nothing beyond these calls.

    Attributes:
        correlation: Spearman's correlation, in [-1, 1].
        p_value: The share of shuffled pairings, the real one included, with as large an absolute correlation.
        calls: The number of calls.
    """

    correlation: float
    p_value: float
    calls: int


def time_follows_noise(
    draw: Callable[[], float], *, calls: int = 2_000, shuffles: int = 999, seed: int = 0
) -> TimingFinding:
    """Time single calls of a sampler, and correlate times with noise.

    Times are those of this process and this machine, load included.

    Args:
        draw: The sampler, which returns its noise.
        calls: The number of calls.
        shuffles: The number of shuffled pairings.
        seed: The seed of the shuffles alone.

    Returns:
        The correlation and its p-value.
    """
    integer(calls=calls, at_least=10)
    noise, elapsed = np.empty(calls), np.empty(calls)
    for i in range(calls):
        before = time.perf_counter_ns()
        drawn = draw()
        elapsed[i] = time.perf_counter_ns() - before
        noise[i] = abs(drawn)
    return correlated(noise, elapsed, shuffles=shuffles, seed=seed)


def correlated(noise: FloatArray, elapsed: FloatArray, *, shuffles: int = 999, seed: int = 0) -> TimingFinding:
    """Spearman's rank correlation, with mean ranks for ties, and its permutation p-value.

    Args:
        noise: (n,) noise.
        elapsed: (n,) times.
        shuffles: The number of shuffled pairings.
        seed: The seed of the shuffles.

    Returns:
        The correlation and its p-value.

    >>> correlated(np.arange(20.0), np.arange(20.0) ** 2).correlation
    1.0
    """
    from scipy.stats import rankdata

    integer(shuffles=shuffles, at_least=1)
    first, second = _standard(rankdata(noise)), _standard(rankdata(elapsed))
    real = float(first @ second)
    rng = np.random.default_rng(seed)
    as_large = sum(abs(float(first @ rng.permutation(second))) >= abs(real) for _ in range(shuffles))
    return TimingFinding(round(real, 12), (1 + as_large) / (1 + shuffles), len(first))


def _standard(ranks: FloatArray) -> FloatArray:
    centred = ranks - ranks.mean()
    length = float(np.sqrt(centred @ centred))
    return np.asarray(centred / length if length > 0 else centred)


_ULP = 2.0**-53


def naive_laplace(centre: float, scale: float, runs: int, rng: np.random.Generator) -> FloatArray:
    """The textbook sampler that this attack breaks: centre -/+ scale * log(u), u a multiple of 2^-53 in (0, 1].

    Args:
        centre: The centre.
        scale: The scale.
        runs: The number of draws.
        rng: The source of randomness.

    Returns:
        (runs,) draws.
    """
    uniform = (rng.integers(0, 2**53, runs) + 1) * _ULP
    return np.asarray(centre + rng.choice([-1.0, 1.0], runs) * (scale * np.log(uniform)))


def reachable(outputs: FloatArray, centre: float, scale: float, *, tries: int = 4) -> NDArray[np.bool_]:
    """Whether the textbook sampler around this centre can produce each output, bit for bit.

    It inverts the sampler and tries the nearest uniforms on either side. A "no" for the true centre happens only if
    more uniforms share the rounding, deep in the small noise.

    Args:
        outputs: (n,) outputs.
        centre: The centre.
        scale: The scale.
        tries: The number of tried uniforms on each side.

    Returns:
        (n,) answers.

    Source:
        Mironov 2012, section 4.

    >>> rng = np.random.default_rng(3)
    >>> drawn = naive_laplace(0.0, 1.0, 10_000, rng)
    >>> from_zero, from_one = reachable(drawn, 0.0, 1.0), reachable(drawn, 1.0, 1.0)
    >>> bool(np.mean(from_zero) > 0.99), bool(np.mean(from_one) < 0.9)
    (True, True)
    """
    positive(scale=scale)
    targets = np.asarray(outputs, np.float64)
    near = np.rint(np.exp(-np.abs(targets - centre) / scale) / _ULP)
    hit = np.zeros(targets.shape, bool)
    for shift in range(-tries, tries + 1):
        # among large uniforms neighbours in u are one float apart in noise; among small ones many floats apart
        uniform = np.clip(near + shift, 1, 2.0**53) * _ULP
        step = scale * np.log(uniform)
        hit |= (centre + step == targets) | (centre - step == targets)
    return hit


@dataclass(frozen=True, slots=True)
class SumTwins:
    """Two lists of numbers within [-bound, bound] that differ in one person's number, replaced."""

    left: FloatArray
    right: FloatArray
    bound: float


def repeated_rounding_twins(mantissa_bits: int = 24, drift: int = 20_000) -> SumTwins:
    """Neighbours (one value replaced) on which a running float sum differs by about `drift`, its sensitivity aside.

    The left list climbs to 2^b + 2, where floats are 2 apart and subtracting 3/4 is rounded away. The right one climbs to 2^b,
    below which each 3/4 counts as 1. Casacuberta et al. 2022, section 5.

    Args:
        mantissa_bits: 24 for float32, 53 for float64.
        drift: The number of values of -3/4.

    >>> twins = repeated_rounding_twins()
    >>> running = [float(np.cumsum(side, dtype=np.float32)[-1]) for side in (twins.left, twins.right)]
    >>> running[0] - running[1] > 2 * twins.bound
    True
    """
    bound = 2.0 ** (mantissa_bits // 2)
    climb = np.full(2 ** (mantissa_bits - mantissa_bits // 2), bound)
    fall = np.full(drift, -0.75)
    return SumTwins(np.concatenate([climb, [2.0], fall]), np.concatenate([climb, [0.0], fall]), bound)


def sum_excess(total: Callable[[FloatArray], float], twins: SumTwins) -> float:
    """The change of a sum between the neighbours beyond the declared sensitivity 2 * bound. At most 0 is sound.

    Args:
        total: The sum under attack.
        twins: The neighbours.

    Returns:
        The excess.

    >>> import math
    >>> sum_excess(math.fsum, repeated_rounding_twins()) <= 0
    True
    """
    return abs(float(total(twins.left)) - float(total(twins.right))) - 2 * twins.bound


def order_spread(
    total: Callable[[FloatArray], float], values: Sequence[float], *, seed: int, orders: int = 20
) -> float:
    """The largest difference between sums of one list in different orders. Any is a leak if the order is free.

    The orders are ascending, descending, and random.

    Args:
        total: The sum under attack.
        values: The values.
        seed: The seed of the random orders.
        orders: The number of random orders.

    Returns:
        The difference.

    >>> order_spread(sum, [2.0**53, 1.0, 1.0, -(2.0**53)], seed=1) > 0
    True
    >>> import math
    >>> order_spread(math.fsum, [2.0**53, 1.0, 1.0, -(2.0**53)], seed=1)
    0.0
    """
    rng = np.random.default_rng(seed)
    rows = np.asarray(values, np.float64)
    tried = [np.sort(rows), np.sort(rows)[::-1]] + [rng.permutation(rows) for _ in range(orders)]
    sums = [float(total(order)) for order in tried]
    return max(sums) - min(sums)
