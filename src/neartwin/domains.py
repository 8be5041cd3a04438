"""Domains of parameters. A domain reads a caller's numbers exactly and refuses those outside it.

>>> POSITIVE(mu="0.1")
Fraction(1, 10)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from neartwin.balls import Numeric, every, infinite, read
from neartwin.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that a parameter may take.

    Attributes:
        holds: Whether one exact number lies in the domain.
        rule: The rule in the words of a refusal.
        remedy: The remedy in a refusal, or "".
    """

    holds: Callable[[Any], bool]
    rule: str
    remedy: str = ""

    def __call__(self, **named: Numeric) -> Any:
        """A scalar as an exact number, a list or an array as an array of exact numbers.

        Args:
            named: One parameter by its name.

        Raises:
            ParameterError: A number is NaN or lies outside the domain.
        """
        ((name, value),) = named.items()
        exact = read(**named)
        if not every(self.holds, exact):
            raise ParameterError(name, value, self.rule, remedy=self.remedy)
        return exact


FINITE = Domain(lambda x: not infinite(x), "must hold finite numbers only")
POSITIVE = Domain(lambda x: 0 < x < math.inf, "must be positive and finite")
NOT_NEGATIVE = Domain(lambda x: x >= 0, "must not be negative")
FINITE_NOT_NEGATIVE = Domain(lambda x: 0 <= x < math.inf, "must be finite and not negative")
ABOVE_ONE = Domain(lambda x: x > 1, "must be above 1")
AT_LEAST_ONE = Domain(lambda x: x >= 1, "must be at least 1")
UNIT_INTERVAL = Domain(lambda x: 0 <= x <= 1, "must lie in [0, 1]")
BELOW_ONE = Domain(lambda x: 0 <= x < 1, "must lie in [0, 1)")
POSITIVE_SHARE = Domain(lambda x: 0 < x <= 1, "must lie in (0, 1]")
OPEN_SHARE = Domain(lambda x: 0 < x < 1, "must lie strictly between 0 and 1")
