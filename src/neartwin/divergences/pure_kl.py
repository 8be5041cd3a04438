"""Lemma 3.18: what pure closeness says about KL, loosely (as printed), better, and tight; and the chain of its proof.

If D_inf(Y||Z) <= epsilon and D_inf(Z||Y) <= epsilon then D(Y||Z) <= epsilon (e^epsilon - 1).
"""

from dataclasses import dataclass

import numpy as np

from neartwin.divergences.enclosure import Certified, Enclosure, Numeric, enclose, expm1, square
from neartwin.divergences.finite import FinitePair
from neartwin.divergences.series import tanh_half
from neartwin.errors import ParameterError


def kl_bound_dwork_roth(epsilon: Numeric) -> Certified:
    """The value epsilon (e^epsilon - 1): the lemma as printed, loose by a factor of about 2.

    >>> kl_bound_dwork_roth(1).upper
    1.71828182...
    """
    e = _read(epsilon)
    return (e * expm1(e)).interval("Dwork-Roth Lemma 3.18")


def kl_bound_bun_steinke(epsilon: Numeric) -> Certified:
    """epsilon^2 / 2. Bun and Steinke 2016, Proposition 3.3 at order 1."""
    return (0.5 * square(_read(epsilon))).interval("Bun-Steinke Proposition 3.3")


def kl_bound_tight(epsilon: Numeric) -> Certified:
    """The value epsilon tanh(epsilon / 2): the least bound, attained by randomized response and the discrete Laplace.

    >>> kl_bound_tight(1).upper
    0.46211715...
    """
    e = _read(epsilon)
    return (e * tanh_half(e)).interval("tight KL of pure differential privacy")


def jeffreys(pair: FinitePair) -> Certified:
    """D(Y||Z) + D(Z||Y) = sum (p - q) ln(p/q), the first step of the proof."""
    forward, backward = pair.kl(), pair.reversed().kl()
    total = Enclosure(np.asarray(forward.lower), np.asarray(forward.upper)) + Enclosure(
        np.asarray(backward.lower), np.asarray(backward.upper)
    )
    return total.interval("Jeffreys divergence")


@dataclass(frozen=True, slots=True, eq=False)
class KlChain:
    """The quantities of the proof of Lemma 3.18, each at most the next."""

    kl: Certified
    jeffreys: Certified
    by_difference: Certified  # epsilon sum |p - q| = epsilon sum (max - min)
    by_minimum: Certified  # epsilon (e^epsilon - 1) sum min(p, q) = epsilon (e^epsilon - 1) (1 - TV)
    bound: Certified  # epsilon (e^epsilon - 1)


def kl_chain(pair: FinitePair, epsilon: Numeric) -> KlChain:
    """The whole chain for one pair, whose losses must lie in [-epsilon, epsilon]."""
    e = _read(epsilon)
    for one in (pair, pair.reversed()):
        if np.any(one.max_divergence().lower > e.upper):
            raise ParameterError(
                "epsilon", epsilon, f"must be at least the max divergence {one.max_divergence().lower}"
            )
    total = pair.total_variation()
    distance = Enclosure(np.asarray(total.lower), np.asarray(total.upper))
    method = "Dwork-Roth Lemma 3.18, a step of its proof"
    return KlChain(
        pair.kl(),
        jeffreys(pair),
        (2.0 * e * distance).interval(method),
        (e * expm1(e) * (1 - distance)).interval(method),
        kl_bound_dwork_roth(e),
    )


def _read(epsilon: Numeric | Enclosure) -> Enclosure:
    e = epsilon if isinstance(epsilon, Enclosure) else enclose(epsilon=epsilon)
    if not np.all(e.lower >= 0):
        raise ParameterError("epsilon", epsilon, "must not be negative")
    return e
