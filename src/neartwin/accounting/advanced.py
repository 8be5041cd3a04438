"""Advanced composition: Theorem 3.20 as printed and with the tight KL, for equal and for different parameters.

The proof: Lemma 3.17.2 makes each step purely epsilon-close up to delta; Lemma 3.18 bounds the mean of its loss; Lemma
3.19 the deviation of the sum. Only the mean differs between the forms here. All hold for adaptively chosen mechanisms
with parameters fixed in advance.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from neartwin.accounting.basic import basic_composition
from neartwin.accounting.bound import Bound, exactly, read_all, read_delta, read_epsilon
from neartwin.checks import in_floats, integer, open_probability
from neartwin.divergences import (
    Certified,
    Enclosure,
    certified_root,
    enclose,
    expm1,
    log,
    sqrt,
    square,
    tanh_half,
)
from neartwin.errors import ParameterError
from neartwin.exact import Number, float_above, rational


def advanced_composition(*, epsilon: Number, delta: Number = 0, count: int, slack: Number) -> Bound:
    """(epsilon sqrt(2k ln(1/slack)) + k epsilon tanh(epsilon/2), k delta + slack): with the tight KL of Lemma 3.18.

    epsilon, delta: of each of the count = k mechanisms; slack: the extra delta spent on the deviation, in (0, 1).
    Never worse than `advanced_composition_classical`.

    >>> advanced_composition(epsilon="0.1", count=100, slack="1e-6").epsilon.upper
    5.75610551...
    """
    e, k, spare = read_epsilon(epsilon=epsilon), _count(count), _slack(slack)
    value = _tight(enclose(epsilon=e), k, spare)
    total = exactly(k * read_delta(delta=delta) + spare)
    return Bound(value.interval("advanced composition, tight KL"), total, "advanced composition, tight KL")


def advanced_composition_classical(*, epsilon: Number, delta: Number = 0, count: int, slack: Number) -> Bound:
    """(epsilon sqrt(2k ln(1/slack)) + k epsilon (e^epsilon - 1), k delta + slack): Dwork and Roth 2014, Theorem 3.20.

    >>> advanced_composition_classical(epsilon="0.1", count=100, slack="1e-6").epsilon.upper
    6.30823095...
    """
    e, k, spare = read_epsilon(epsilon=epsilon), _count(count), _slack(slack)
    each = enclose(epsilon=e)
    value = each * sqrt(2.0 * k * _nats(spare)) + float(k) * each * expm1(each)
    total = exactly(k * read_delta(delta=delta) + spare)
    return Bound(value.interval("Dwork-Roth Theorem 3.20"), total, "Dwork-Roth Theorem 3.20")


def advanced_composition_mixed(*, epsilons: Sequence[Number], deltas: Sequence[Number] = (), slack: Number) -> Bound:
    """(sum e_i tanh(e_i/2) + sqrt(2 ln(1/slack) sum e_i^2), sum delta_i + slack): different parameters, tight KL."""
    eps = _array(read_all(epsilons, read_epsilon, "epsilons"))
    spare = _slack(slack)
    value = (eps * tanh_half(eps)).sum() + sqrt(2.0 * _nats(spare) * square(eps).sum())
    total = sum(read_all(deltas, read_delta, "deltas"), spare)
    return Bound(value.interval("advanced composition, mixed"), exactly(total), "advanced composition, mixed")


def best_composition(*, epsilons: Sequence[Number], deltas: Sequence[Number] = (), slack: Number) -> Bound:
    """The smaller epsilon of advanced and basic composition; basic needs no slack and keeps its smaller delta.

    >>> best_composition(epsilons=["0.1"] * 3, slack="1e-6").theorem
    'basic composition, Dwork-Roth Theorem 3.16'
    """
    advanced = advanced_composition_mixed(epsilons=epsilons, deltas=deltas, slack=slack)
    basic = basic_composition(epsilons=epsilons, deltas=deltas)
    return basic if basic.epsilon.upper <= advanced.epsilon.upper else advanced


def advanced_epsilon_each(*, epsilon_total: Number, count: int, slack: Number) -> Certified:
    """The epsilon each of count mechanisms may have so that `advanced_composition` gives epsilon_total.

    The guarantee is the *lower* end: spend no more than that.

    >>> advanced_epsilon_each(epsilon_total=1, count=100, slack="1e-6").lower
    0.01869166...
    """
    total, k, spare = read_epsilon(epsilon_total=epsilon_total), _count(count), _slack(slack)
    if total == 0:
        return exactly(total)
    # k sqrt(2 ln(1/slack) / k) e <= total bounds the answer above; f is increasing, so its negative is decreasing
    high = np.asarray(float_above(total) / float(sqrt(2.0 * k * _nats(spare)).lower) * 1.000001)
    goal = -enclose(epsilon_total=total)
    root = certified_root(lambda e: -_tight(Enclosure.of(e), k, spare), goal, (np.asarray(0.0), high))
    return root.interval("advanced composition, inverse")


def filter_bound(*, epsilons: Sequence[Number], deltas: Sequence[Number] = (), slack: Number) -> Bound:
    """(sqrt(2 ln(1/slack) sum e_i^2) + sum e_i^2 / 2, sum delta_i + slack): for parameters chosen adaptively too.

    The privacy filter of Whitehouse, Ramdas, Rogers and Wu 2023, Theorem 1, at the sums reached.

    >>> filter_bound(epsilons=["0.1", "0.2", "0.05", "0.3"], slack="1e-6").epsilon.upper
    2.05554345...
    """
    eps = read_all(epsilons, read_epsilon, "epsilons")
    squares = enclose(squares=sum((e * e for e in eps), Fraction(0)))
    spare = _slack(slack)
    value = sqrt(2.0 * _nats(spare) * squares) + 0.5 * squares
    total = sum(read_all(deltas, read_delta, "deltas"), spare)
    method = "privacy filter, Whitehouse et al. Theorem 1"
    return Bound(value.interval(method), exactly(total), method)


def _tight(epsilon: Enclosure, count: int, slack: Fraction) -> Enclosure:
    return epsilon * sqrt(2.0 * count * _nats(slack)) + float(count) * epsilon * tanh_half(epsilon)


def _count(count: int) -> int:
    return in_floats(count=integer(at_least=1, count=count))


def _slack(slack: Number) -> Fraction:
    return open_probability(slack=rational(slack=slack))


def _nats(slack: Fraction) -> Enclosure:
    """ln(1/slack)."""
    return -log(enclose(slack=slack))


def _array(values: tuple[Fraction, ...]) -> Enclosure:
    if not values:
        raise ParameterError("epsilons", values, "must hold at least one mechanism")
    read = [enclose(epsilon=v) for v in values]
    return Enclosure(np.array([r.lower for r in read]), np.array([r.upper for r in read]))
