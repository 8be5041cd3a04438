"""Clip bounds of values that a plan chooses privately: what a statistic says about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neartwin.checks import integer
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRange:
    """A wish that a plan chooses clip bounds privately.

    Attributes:
        share: The share of the spend.
        groups: The expected number of unknown groups; None for the plan's own.
    """

    share: Fraction
    groups: int | None

    def as_dict(self) -> dict[str, object]:
        """The wire form: the arguments of `private_range`."""
        return {"share": str(self.share), "groups": self.groups}


def private_range(share: Number = "1/5", *, groups: int | None = None) -> PrivateRange:
    """Let a plan choose clip bounds within the declared ones privately, by spending a share of its budget.

    A first stage weighs the units with values above each half octave against the noise that it needs. It chooses one with
    noise of its own, as limits are chosen. Declared or given bounds are the ends of the search.

    Args:
        share: The share of the whole spend, for all columns together.
        groups: About how many groups you expect in the release, if they are unknown. Default 16. A wrong guess makes the
            bounds less good, never less private.

    Returns:
        The private choice, for `clip=` of a sum or mean.

    Raises:
        ParameterError: An argument is out of its range.

    >>> private_range("1/10").share
    Fraction(1, 10)
    """
    part = check_share(share)
    if groups is not None:
        integer(at_least=1, groups=groups)
    return PrivateRange(share=part, groups=groups)


def read_range(form: Any) -> PrivateRange | None:
    """The request in a text, such as `1/10` or `1/10,groups=500`, or in its JSON form.

    Args:
        form: The text or JSON form, or None.

    Returns:
        The request, or None.

    Raises:
        ParameterError: The form is wrong.

    >>> print(read_range("1/5,groups=40"))
    PrivateRange(share=Fraction(1, 5), groups=40)
    """
    if form is None or isinstance(form, PrivateRange):
        return form
    if isinstance(form, Mapping) and set(form) <= {"share", "groups"}:
        return private_range(form.get("share", "1/5"), groups=form.get("groups"))
    if not isinstance(form, str):
        raise ParameterError("private_range", form, "must be a share such as 1/10, or have share and groups")
    share, comma, groups = (part.strip() for part in form.partition(","))
    name, _, number = groups.partition("=")
    if comma and (name.strip() != "groups" or not number.strip().isdecimal()):
        raise ParameterError("private_range", form, "must be 1/10 or 1/10,groups=500")
    return private_range(share, groups=int(number) if comma else None)


def check_share(share: Number) -> Fraction:
    """A share of the spend, exact.

    Args:
        share: The share.

    Returns:
        The share as a rational.

    Raises:
        ParameterError: It is not above 0 and below 1.
    """
    part = rational(share=share)
    if not 0 < part < 1:
        raise ParameterError("share", share, "must be above 0 and below 1")
    return part
