"""A secret Poisson sample of units: whose rows take part in a release, and what a secret and a unit's name decide.

Each unit is kept with probability q, independently of all others, by a secret K of 256 bits that is drawn for one release and
forgotten with it. SHA-256 is taken over the 64 hexadecimal digits of K and then the text of the unit's key, in UTF-8; the unit is
kept if and only if the first 128 bits of that number are below floor(q 2^128). So a unit is kept with all its rows in all tables
and stages, or with none, on every engine alike.

The 64 digits fill one block of SHA-256, and half of its output is left out: for one secret that nobody knows this is the keyed
cascade with a truncated end, a pseudorandom function if the compression function is one (Bellare, Bernstein, Tessaro 2016,
"Hash-function based PRFs: AMAC and its multi-user security"). That units are kept independently rests on it, as the noise rests
on a cryptographic generator: the guarantee of a sampled release is computational.

The rate in use is floor(q 2^128) / 2^128 <= q, and q is charged: a sample at a lower rate tells no more, for
(1 - q') Q + q' P = (1 - t) Q + t ((1 - q) Q + q P) at t = q'/q, and divergences are jointly convex.
"""

import hashlib
from fractions import Fraction

from neartwin.checks import open_probability
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational

SALT_BITS = 64  # that order a unit's groups: the low ones of what an engine is given
SECRET_BITS = 256  # that keep units, above those
_BITS = 128
_LEAST = Fraction(1, 2**40)


def read_rate(sampling_rate: Number) -> Fraction:
    """The rate as an exact number in [2^-40, 1).

    >>> read_rate("0.1")
    Fraction(1, 10)
    >>> read_rate(1)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: sampling_rate=1 must lie strictly between 0 and 1
    """
    rate = open_probability(sampling_rate=rational(sampling_rate=sampling_rate))
    if rate < _LEAST:
        raise ParameterError("sampling_rate", rate, "must be at least 2**-40")
    return rate


def first_digits(rate: Fraction) -> str:
    """floor(rate 2^128) in 32 hexadecimal digits: a kept unit's digest sorts before it, as text and as bytes.

    A digest that begins with these very digits is longer than they are, so it sorts behind them: only its first 128 bits count.

    >>> first_digits(Fraction(1, 16))
    '10000000000000000000000000000000'
    """
    return f"{int(rate * 2**_BITS):032x}"


def salt_bits(rate: Fraction | None) -> int:
    """How many fresh bits a stage needs: see `salt_and_secret`."""
    return SALT_BITS if rate is None else SALT_BITS + SECRET_BITS


def salt_and_secret(drawn: int, rate: Fraction | None) -> tuple[int, str]:
    """The salt that orders groups, and the secret of the sample in 64 hexadecimal digits, "" for a stage without one.

    `ValueError` for too few bits: a sample by a salt alone would be no secret.
    """
    if rate is None:
        return drawn % 2**SALT_BITS, ""
    secret = drawn >> SALT_BITS
    if not 2 ** (SECRET_BITS // 2) <= secret < 2**SECRET_BITS:  # a fresh one is below with probability 2**-128
        raise ValueError("a stage that samples needs a fresh secret of 256 bits above the salt of 64")
    return drawn % 2**SALT_BITS, f"{secret:064x}"


def is_kept(unit: object, secret: str, rate: Fraction) -> bool:
    """Whether a unit is in the sample: the meaning that every engine's SQL must have.

    >>> sum(is_kept(f"p{i}", "ab" * 32, Fraction(1, 4)) for i in range(1000))
    224
    """
    return hashlib.sha256(f"{secret}{unit}".encode()).hexdigest() < first_digits(rate)
