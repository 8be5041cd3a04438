"""The classical Gaussian formula, sigma = sqrt(2 ln(1.25/delta)) sensitivity/epsilon: its hypothesis, and its failure.

The theorem (Dwork, Roth 2014, Thm A.1) needs 0 < epsilon < 1 and the L2 sensitivity. Its sigma is enough for a while beyond,
then fails: at epsilon = 20, delta = 1e-5 the true delta is 1.5e-3. The exact delta of the Gaussian decides everything here but
the formula itself. `sigma_of` is never worse and holds everywhere.
"""

from fractions import Fraction

from flint import arb

from neartwin.balls import ball, bounds, root
from neartwin.checks import open_probability, positive
from neartwin.divergences.closed_forms import gaussian_profile
from neartwin.errors import ParameterError
from neartwin.exact import Interval, Number, float_below, rational
from neartwin.tradeoff.functions import ends
from neartwin.tradeoff.gaussian_dp import delta_of


def _sigma(epsilon: Number, delta: Number, sensitivity: Number) -> Interval[float]:
    e = positive(epsilon=rational(epsilon=epsilon))
    d = open_probability(delta=rational(delta=delta))
    moved = positive(sensitivity=rational(sensitivity=sensitivity))
    return Interval(*bounds(lambda: (2 * ball(Fraction(5, 4) / d).log()).sqrt() * ball(moved / e)), "classical formula")


def classical_sigma(epsilon: Number, delta: Number, sensitivity: Number = 1) -> Interval[float]:
    """The classical sigma; `upper` is the safe side.

    Args:
        epsilon: The epsilon, in (0, 1), the theorem's range.
        delta: The delta, in (0, 1).
        sensitivity: The L2 sensitivity.

    Returns:
        The deviation of the noise.

    Raises:
        ParameterError: An argument is out of its range.

    >>> s = classical_sigma("0.5", "1e-5")
    >>> bool(s.lower <= 9.6896105252107788 <= s.upper)
    True
    >>> classical_sigma(1, "1e-5")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: epsilon=1 must be below 1: the classical theorem ends there; use sigma_of...
    """
    if rational(epsilon=epsilon) >= 1:
        raise ParameterError("epsilon", epsilon, "must be below 1: the classical theorem ends there", remedy="use "
                             "sigma_of(epsilon, delta, sensitivity), exact at every epsilon")  # fmt: skip
    return _sigma(epsilon, delta, sensitivity)


def classical_delta(epsilon: Number, delta: Number) -> Interval[float]:
    """The true delta of the noise of the classical formula, at any epsilon > 0.

    Args:
        epsilon: The epsilon of the formula.
        delta: The delta of the formula.

    Returns:
        The true delta.

    >>> d = classical_delta(20, "1e-5")
    >>> bool(d.lower > 1e-3)
    True
    """
    sigma = _sigma(epsilon, delta, 1)
    quiet, loud = (delta_of(1 / Fraction(s), epsilon) for s in (sigma.upper, sigma.lower))
    return Interval(float(ends(quiet)[0]), float(ends(loud)[1]), "closed form")


def classical_holds(epsilon: Number, delta: Number) -> bool:
    """Whether the classical sigma certainly suffices at this (epsilon, delta), inside its theorem or not.

    Args:
        epsilon: The epsilon.
        delta: The delta.

    Returns:
        True or False.

    >>> classical_holds(8, "1e-5"), classical_holds(9, "1e-5")
    (True, False)
    """
    return classical_delta(epsilon, delta).upper <= float_below(rational(delta=delta))


def classical_limit(delta: Number) -> Interval[float]:
    """Where the classical sigma stops being enough as epsilon grows from 1: enough at `lower`, too little at `upper`.

    >>> limit = classical_limit("1e-5")
    >>> round(limit.lower, 12), round(limit.upper, 12)
    (8.419771301536, 8.419771301536)
    """
    exact = open_probability(delta=rational(delta=delta))

    def unspent(epsilon: float) -> arb:
        mu = ball(epsilon) / (2 * ball(Fraction(5, 4) / exact).log()).sqrt()
        return ball(exact) - gaussian_profile(epsilon, mu)

    high = 2.0
    while bounds(unspent, high)[1] >= 0:
        high *= 2
    return Interval(*root(unspent, 1.0, high), "signs of delta")
