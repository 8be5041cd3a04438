"""Certified numbers as decimal text, rounded to the safe side: readers of JSON in other languages round nothing."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

DIGITS = 12
NONE = "none"  # stands where no certified conversion exists


def above(value: float | Fraction) -> str:
    """A decimal that is not below the value; "none" for infinity.

    >>> above(Fraction(1, 3)), above(0.5), above(float("inf"))
    ('0.333333333334', '0.5', 'none')
    """
    return _decimal(value, ROUND_CEILING)


def below(value: float | Fraction) -> str:
    """A decimal that is not above the value.

    >>> below(Fraction(2, 3)), below(0.0)
    ('0.666666666666', '0')
    """
    return _decimal(value, ROUND_FLOOR)


def _decimal(value: float | Fraction, rounding: str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return NONE
    exact = Fraction(value)
    rounded = Context(prec=DIGITS, rounding=rounding).divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return format(rounded.normalize(), "f") if abs(rounded.adjusted()) <= DIGITS else str(rounded)
