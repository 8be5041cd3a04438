"""Amplification by subsampling: a mechanism run on a secret random sample tells less.

Poisson sampling goes with add/remove neighbours, sampling without replacement with replace-one. Neither is valid for
shuffled fixed batches (Lebeda et al. 2024).
"""

from neartwin import domains
from neartwin.accounting.bounds import Bound, exactly, read_delta, read_epsilon
from neartwin.balls import Certified, Numeric, ball, elementwise
from neartwin.exact import Number
from neartwin.tradeoff.amplification import amplified_epsilon


def amplified_pure(*, epsilon: Numeric, rate: Numeric) -> Certified:
    """ln(1 + q (e^epsilon - 1)): epsilon-DP on a random sample.

    Args:
        epsilon: The epsilon on the sample.
        rate: q, the Poisson sampling probability, under add/remove. Or the fraction sampled without replacement, under
            replace-one.

    Returns:
        The epsilon, certified.

    Source:
        Balle, Barthe, Gaboardi 2018, Theorems 8 and 9.

    >>> amplified_pure(epsilon=1, rate="0.01").upper
    0.01703686...
    """
    return amplified_epsilon(epsilon, rate)


def amplified_approximate(*, epsilon: Number, delta: Number, rate: Number) -> Bound:
    """(ln(1 + q (e^epsilon - 1)), q delta): (epsilon, delta)-DP on a random sample.

    Args:
        epsilon: The epsilon on the sample.
        delta: The delta on the sample.
        rate: q, as for `amplified_pure`.

    Returns:
        The bound.
    """
    e, d, q = read_epsilon(epsilon=epsilon), read_delta(delta=delta), read_delta(rate=rate)
    return Bound(amplified_pure(epsilon=e, rate=q), exactly(q * d), "amplification by subsampling")


def epsilon_before_sampling(*, epsilon: Numeric, rate: Numeric) -> Certified:
    """The epsilon of a mechanism whose sampled form has the given one: the inverse of `amplified_pure`.

    Args:
        epsilon: The epsilon of the sampled form.
        rate: q, as for `amplified_pure`.

    Returns:
        The epsilon, certified.
    """
    e, q = domains.NOT_NEGATIVE(epsilon=epsilon), domains.POSITIVE_SHARE(rate=rate)
    return elementwise(
        lambda e, q: (ball(e).expm1() / ball(q)).log1p(), e, q, method="amplification by subsampling, inverse"
    )
