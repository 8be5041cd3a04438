"""Amplification by shuffling: n reports, each epsilon_0-DP on its own, in an order that nobody knows.

Feldman, McMillan, Talwar 2021: the shuffled outputs on neighbours are no easier to tell apart than the pair
(A + D, C - A + 1 - D) and (A + 1 - D, C - A + D), with C ~ Bin(n - 1, e^-eps0), A ~ Bin(C, 1/2) and
D ~ Bernoulli(e^eps0/(e^eps0 + 1)). Replace-one neighbours. A closed form, and the pair's delta itself.
"""

import math

import numpy as np

from neartwin import special
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff.twofold import UNIT, Argument, clipped, read


def shuffle_epsilon_closed_form(local_epsilon: Number, n: int, delta: Number) -> Interval[float]:
    """ln(1 + (e^e0 - 1)/(e^e0 + 1) (8 sqrt(e^e0 ln(4/delta)/n) + 8 e^e0/n)): an epsilon that holds with delta.

    Refused outside the theorem, eps0 <= ln(n/(16 ln(2/delta))). `upper` is the safe side.

    >>> e = shuffle_epsilon_closed_form(1, 10_000, "1e-6")
    >>> bool(e.lower <= 0.21402565193083783 <= e.upper)
    True
    """
    exact = positive(local_epsilon=rational(local_epsilon=local_epsilon))
    people = integer(at_least=1, n=n)
    log_delta = math.log(float(open_probability(delta=rational(delta=delta))))
    most = math.log(people / (16 * (math.log(2) - log_delta)))
    e0 = float(exact)
    if e0 > most * (1 - 8 * UNIT):
        rule = f"must be at most ln(n/(16 ln(2/delta))) = {most:.6g}"
        raise ParameterError("local_epsilon", local_epsilon, rule, remedy="take more people or shuffle_delta")
    growth = math.exp(e0)
    size = 8 * math.sqrt(growth * (math.log(4) - log_delta) / people) + 8 * growth / people
    value = math.log1p(math.tanh(e0 / 2) * size)
    return Interval(value * (1 - 64 * UNIT), value * (1 + 64 * UNIT), "closed form")


def _binomial_tail(least: FloatArray, count: FloatArray) -> FloatArray:
    """Pr[Bin(count, 1/2) >= least], vectorised, ends included."""
    inner = np.clip(least, 1.0, np.maximum(count, 1.0))
    value = special.betainc(inner, np.maximum(count - inner + 1, 0.5), 0.5)
    return np.where(least <= 0, 1.0, np.where(least > count, 0.0, value))


def _delta_at(epsilon: float, e0: float, n: int) -> tuple[float, float]:
    """The delta and a bound on its error: rounding, and the binomial's tails that are left out."""
    rate, truth = math.exp(-e0), 1 / (1 + math.exp(-e0))
    mean, spread = (n - 1) * rate, math.sqrt((n - 1) * rate * (1 - rate)) + 1
    low, high = max(0, math.floor(mean - 39 * spread)), min(n - 1, math.ceil(mean + 39 * spread))
    count = np.arange(low, high + 1, dtype=np.float64)
    log_mass = special.gammaln(n) - special.gammaln(count + 1) - special.gammaln(n - count)
    log_mass = log_mass + count * math.log(rate) + (n - 1 - count) * math.log1p(-rate)
    mass = np.exp(log_mass)
    mass = mass / mass.sum()
    growth, lie = math.exp(epsilon), 1 - truth
    # the ratio (t a + l (c + 1 - a))/(l a + t (c + 1 - a)) rises with the count a of the first report's side
    denominator = (truth - growth * lie) + (growth * truth - lie)
    if growth >= truth / lie:
        return 0.0, 0.0
    cut = np.ceil((count + 1) * (growth * truth - lie) / denominator - 1e-9)
    above, at = _binomial_tail(cut - 1, count), _binomial_tail(cut, count)
    won, paid = truth * above + lie * at, growth * (lie * above + truth * at)
    value = float(np.sum(mass * np.maximum(won - paid, 0.0)))
    # lgamma's error is common to the masses but for what grows along the window; betainc is good to 1e-13
    return value, 1e-10 * value + 4e-12 * float(np.sum(mass * (won + paid))) + 1e-300


def shuffle_delta(local_epsilon: Number, n: int, epsilon: Argument) -> Interval[FloatArray]:
    """delta(epsilon) of the dominating pair, epsilon >= 0; `upper` is the safe side.

    The relative width stays below 1e-8 where delta is not tiny.

    >>> bool(shuffle_delta(1, 10_000, "0.214").upper < 1e-6)
    True
    """
    exact = float(positive(local_epsilon=rational(local_epsilon=local_epsilon)))
    people = integer(at_least=1, n=n)
    wanted = read(epsilon=epsilon)[0]
    if np.any(wanted < 0):
        raise ParameterError("epsilon", epsilon, "must not be negative")
    pairs = np.array([_delta_at(float(e), exact, people) for e in wanted.ravel()]).reshape(*wanted.shape, 2)
    return clipped(pairs[..., 0] - pairs[..., 1], pairs[..., 0] + pairs[..., 1], "dominating pair")
