"""Advanced composition: Theorem 3.20 as printed and with the tight KL, for equal and for different parameters.

The proof: Lemma 3.17.2 makes each step purely epsilon-close up to delta; Lemma 3.18 bounds the mean of its loss; Lemma
3.19 the deviation of the sum. Only the mean differs between the forms here. All hold for adaptively chosen mechanisms
with parameters fixed in advance.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from neartwin.accounting.basic import basic_composition
from neartwin.accounting.bound import Bound, exactly, read_all, read_delta, read_epsilon
from neartwin.balls import Certified, Exact, ball, bounds, each, elementwise, root
from neartwin.checks import in_floats, integer, open_probability
from neartwin.divergences.theorems import tight_kl
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational

if TYPE_CHECKING:
    from flint import arb


def advanced_composition(*, epsilon: Number, delta: Number = 0, count: int, slack: Number) -> Bound:
    """(epsilon sqrt(2k ln(1/slack)) + k epsilon tanh(epsilon/2), k delta + slack): with the tight KL of Lemma 3.18.

    epsilon, delta: of each of the count = k mechanisms; slack: the extra delta spent on the deviation, in (0, 1).
    Never worse than `advanced_composition_classical`.

    >>> advanced_composition(epsilon="0.1", count=100, slack="1e-6").epsilon.upper
    5.75610551...
    """
    e, k, spare = read_epsilon(epsilon=epsilon), _count(count), _slack(slack)
    method = "advanced composition, tight KL"
    total = exactly(k * read_delta(delta=delta) + spare)
    return Bound(elementwise(_tight, e, k, spare, method=method), total, method)


def advanced_composition_classical(*, epsilon: Number, delta: Number = 0, count: int, slack: Number) -> Bound:
    """(epsilon sqrt(2k ln(1/slack)) + k epsilon (e^epsilon - 1), k delta + slack): Dwork and Roth 2014, Theorem 3.20.

    >>> advanced_composition_classical(epsilon="0.1", count=100, slack="1e-6").epsilon.upper
    6.30823095...
    """
    e, k, spare = read_epsilon(epsilon=epsilon), _count(count), _slack(slack)
    method = "Dwork-Roth Theorem 3.20"
    value = elementwise(lambda: ball(e) * (2 * k * _nats(spare)).sqrt() + k * ball(e) * ball(e).expm1(), method=method)
    return Bound(value, exactly(k * read_delta(delta=delta) + spare), method)


def advanced_composition_mixed(*, epsilons: Sequence[Number], deltas: Sequence[Number] = (), slack: Number) -> Bound:
    """(sum e_i tanh(e_i/2) + sqrt(2 ln(1/slack) sum e_i^2), sum delta_i + slack): different parameters, tight KL."""
    eps = read_all(epsilons, read_epsilon, "epsilons")
    if not eps:
        raise ParameterError("epsilons", eps, "must hold at least one mechanism")
    spare, method = _slack(slack), "advanced composition, mixed"
    total = sum(read_all(deltas, read_delta, "deltas"), spare)
    return Bound(elementwise(lambda: mixed(Counter(eps), spare), method=method), exactly(total), method)


def mixed(counts: Mapping[Fraction, int], slack: Fraction) -> "arb":
    """The sum of n e tanh(e/2) + sqrt(2 ln(1/slack) sum n e^2), of n mechanisms an epsilon: a formula of `neartwin.balls`."""
    mean = sum((count * tight_kl(e) for e, count in counts.items()), ball(0))
    squares = sum((count * e * e for e, count in counts.items()), Fraction(0))
    return mean + (2 * _nats(slack) * ball(squares)).sqrt()


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
    high = bounds(lambda: ball(total) / (2 * k * _nats(spare)).sqrt())[1]
    return each(
        lambda: root(lambda e: ball(total) - _tight(e, k, spare), 0.0, high), method="advanced composition, inverse"
    )


def filter_bound(*, epsilons: Sequence[Number], deltas: Sequence[Number] = (), slack: Number) -> Bound:
    """(sqrt(2 ln(1/slack) sum e_i^2) + sum e_i^2 / 2, sum delta_i + slack): for parameters chosen adaptively too.

    The privacy filter of Whitehouse, Ramdas, Rogers and Wu 2023, Theorem 1, at the sums reached.

    >>> filter_bound(epsilons=["0.1", "0.2", "0.05", "0.3"], slack="1e-6").epsilon.upper
    2.05554345...
    """
    eps = read_all(epsilons, read_epsilon, "epsilons")
    squares = sum((e * e for e in eps), Fraction(0))
    spare = _slack(slack)
    total = sum(read_all(deltas, read_delta, "deltas"), spare)
    method = "privacy filter, Whitehouse et al. Theorem 1"
    value = elementwise(lambda: (2 * _nats(spare) * ball(squares)).sqrt() + ball(squares) / 2, method=method)
    return Bound(value, exactly(total), method)


def _tight(epsilon: Exact, count: int, slack: Fraction) -> "arb":
    return ball(epsilon) * (2 * count * _nats(slack)).sqrt() + count * tight_kl(epsilon)


def _count(count: int) -> int:
    return in_floats(count=integer(at_least=1, count=count))


def _slack(slack: Number) -> Fraction:
    return open_probability(slack=rational(slack=slack))


def _nats(slack: Fraction) -> "arb":
    """ln(1/slack)."""
    return -ball(slack).log()
