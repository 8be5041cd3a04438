"""The value theorems answer with: an (epsilon, delta) that a composition, a group or a sample is proved to have."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neartwin.balls import Certified
from neartwin.checks import non_negative, probability, several
from neartwin.exact import Interval, Number, float_above, float_below, rational


@dataclass(frozen=True, slots=True)
class Bound:
    """A proved (epsilon, delta): each an interval around the theorem's formula; the guarantee is the two upper ends.

    Above 1, delta promises nothing; it is not clamped, so that it can be compared.
    """

    epsilon: Certified
    delta: Certified
    theorem: str


def read_epsilon(**named: Number) -> Fraction:
    """One finite epsilon, at least 0, exact."""
    ((name, value),) = named.items()
    return non_negative(**{name: rational(**{name: value})})


def read_delta(**named: Number) -> Fraction:
    """One delta in [0, 1], exact."""
    ((name, value),) = named.items()
    return probability(**{name: rational(**{name: value})})


def read_all(values: Sequence[Number], reader: Any, name: str) -> tuple[Fraction, ...]:
    """Read each number of a list.

    Args:
        values: The list.
        reader: The check of one number.
        name: The name of the parameter, for errors.

    Returns:
        The exact numbers.

    Raises:
        ParameterError: The value is no list, or one of its numbers is refused.
    """
    return tuple(reader(**{name: value}) for value in several(**{name: values}))


def exactly(value: Fraction) -> Certified:
    """A rational as an interval: both ends the float where it is one."""
    return Interval(float_below(value) + 0.0, float_above(value) + 0.0, "exact")
