"""Certified integers: every real number here is a pair (lo, hi) of integers with lo <= 2**bits * value <= hi.

Integer arithmetic only. Precision is an argument, so a caller whose question is not decided asks again with more.
"""

from fractions import Fraction

Bounds = tuple[int, int]
_GUARD = 64  # bits beyond the asked precision, so that the result is tight; the bounds hold whatever it is


def exp_neg(y: Fraction, bits: int) -> Bounds:
    """Integers around 2**bits * exp(-y), for rational y >= 0; at most 2 apart.

    exp(-y) = exp(-z)**(2**s) with z = y / 2**s < 2**-7. For z < 1 the Taylor series alternates with falling terms, so
    what is left out is at most the first term left out; then s squarings, each rounded outward.

    >>> exp_neg(Fraction(1), 20), 2**20 * 0.36787944117
    ((385749, 385750), 385749.55...)
    """
    if y == 0:
        return 1 << bits, 1 << bits
    if y > bits:
        return 0, 1  # e > 2
    work = bits + _GUARD
    halvings = max(0, y.numerator.bit_length() - y.denominator.bit_length() + 1) + 7
    z_lo = (y.numerator << work) // (y.denominator << halvings)
    z_hi = z_lo + 1
    term_lo = term_hi = 1 << work
    lo = hi = k = 0
    while term_hi > 1:
        lo, hi = (lo + term_lo, hi + term_hi) if k % 2 == 0 else (lo - term_hi, hi - term_lo)
        k += 1
        term_lo = ((term_lo * z_lo) >> work) // k
        term_hi = (((term_hi * z_hi) >> work) + k) // k  # at least ceil(product / k)
    lo, hi = lo - term_hi, hi + term_hi
    for _ in range(halvings):
        lo, hi = (lo * lo) >> work, ((hi * hi) >> work) + 1
    return lo >> _GUARD, (hi >> _GUARD) + 1


def log2_floor(x: Fraction) -> int:
    """The integer k with 2**k <= x < 2**(k+1), for x > 0.

    >>> log2_floor(Fraction(8)), log2_floor(Fraction(799, 100)), log2_floor(Fraction(1, 1000))
    (3, 2, -10)
    """
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k if x >= Fraction(2) ** k else k - 1
