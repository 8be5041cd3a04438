"""Bounds that a plan finds out privately, before it asks: what the caller says about them."""

from dataclasses import dataclass
from fractions import Fraction

from neartwin.checks import integer
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateLimit:
    """In place of a bound. at_most: the largest that it may become. share: of the spend. groups: how many are expected."""

    at_most: int
    share: Fraction
    groups: int | None


def private_limit(at_most: int = 1024, *, share: Number = "1/10", groups: int | None = None) -> PrivateLimit:
    """A bound, `rows_per_group` or `groups_per_unit`, that a plan chooses by spending a share of its budget privately.

    A first stage counts units by how many groups they are in and how many rows they have there, with noise; the bound is the
    one at which rows lost and noise added are expected to be least. Nothing is looked at without noise.

    at_most: the public limit of the search; the plan's preview shows the errors of this one, the worst. share: of the whole
    spend, for finding all bounds together. groups: about how many groups you expect in the release, wanted where they are
    unknown: rows lost are shared by so many. A guess that is wrong makes the bound less good, never less private.

    >>> private_limit(256)
    PrivateLimit(at_most=256, share=Fraction(1, 10), groups=None)
    """
    integer(at_least=1, at_most=at_most)
    part = rational(share=share)
    if not 0 < part < 1:
        raise ParameterError("share", share, "must be above 0 and below 1")
    if groups is not None:
        integer(at_least=1, groups=groups)
    return PrivateLimit(at_most=at_most, share=part, groups=groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRange:
    """That clip bounds of values are to be chosen. share: of the spend. groups: how many are expected."""

    share: Fraction
    groups: int | None


def private_range(*, share: Number = "1/10", groups: int | None = None) -> PrivateRange:
    """Clip bounds of values that a plan chooses within the declared ones, by spending a share of its budget privately.

    First stages count rows, and values of every column that is summed or averaged, in half octaves, with noise; the bounds are
    those at which what clipping takes and noise adds are expected to be least. Bounds that are declared or given stay the limits.

    share: of the whole spend, for all columns together. groups: about how many groups you expect in the release, wanted where
    they are unknown. A guess that is wrong makes the bounds less good, never less private.

    >>> private_range(share="1/5").share
    Fraction(1, 5)
    """
    part = rational(share=share)
    if not 0 < part < 1:
        raise ParameterError("share", share, "must be above 0 and below 1")
    if groups is not None:
        integer(at_least=1, groups=groups)
    return PrivateRange(share=part, groups=groups)
