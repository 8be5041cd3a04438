"""Amounts for people: short decimals of exact ones."""

import math
from fractions import Fraction


def short(amount: object) -> str:
    """An exact amount in at most six digits; never 0 for what is not.

    >>> short("1/3"), short("0"), short(Fraction(1, 10**7)), short("12345678")
    ('0.333333', '0', '1e-07', '12,345,678')
    """
    value = Fraction(str(amount))
    if value.denominator == 1:
        return f"{value.numerator:,}"
    return f"{float(value):.6g}"


def percent_up(share: float) -> str:
    """A share as a percentage, rounded up to a tenth: it is a bound.

    >>> percent_up(0.73106), percent_up(0.5)
    ('73.2 %', '50 %')
    """
    return f"{min(100.0, math.ceil(share * 1000 - 1e-9) / 10):g} %"


def digits_up(value: str) -> str:
    """A certified decimal in four digits, rounded up; words stay.

    >>> digits_up("0.333333333334"), digits_up("none"), digits_up("2")
    ('0.3334', 'none', '2')
    """
    from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation

    try:
        return format(Context(prec=4, rounding=ROUND_CEILING).plus(Decimal(value)).normalize(), "f")
    except InvalidOperation:
        return value
