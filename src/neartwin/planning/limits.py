"""Limits on one unit's contribution: one value in Python, SQL, JSON and on the terminal."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Self

from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.interactive import argument, explained_call, shown_as_text
from neartwin.statistics.clipping import check_share


@shown_as_text
@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateLimit:
    """A limit that the plan chooses privately.

    Attributes:
        at_most: The largest limit that the plan may choose.
        share: The share of the spend for choosing; None for the plan's own.
        groups: The expected number of unknown groups; None for the plan's own.
    """

    at_most: int
    share: Fraction | None
    groups: int | None

    def as_dict(self) -> dict[str, object]:
        """The wire form: the arguments of `private_limit`."""
        return {"at_most": self.at_most, "share": self.share and str(self.share), "groups": self.groups}

    def __str__(self) -> str:
        given = (f"{name}={value!r}" for name, value in self.as_dict().items() if value is not None)
        return f"nt.private_limit({', '.join(given)})"


def private_limit(at_most: int = 2**16, *, share: Number | None = None, groups: int | None = None) -> PrivateLimit:
    """A limit of `nt.limits` that a plan chooses privately, with a share of its budget.

    A first stage weighs the number of units above each limit against the noise that it needs, and chooses one with
    noise of its own. A question for which nothing is said of limits does this by itself.

    Args:
        at_most: The public end of the search.
        share: The share of the whole spend, for choosing all limits together. Default: at most 1/4, of
            a norm 1/6, and less where the noise needs no finer choice.
        groups: About how many groups you expect in the release, if they are unknown. Default 16. A wrong guess makes
            the limit less good, never less private.

    Returns:
        The request, for `nt.limits`.

    Raises:
        ParameterError: An argument is out of bounds.

    >>> private_limit(256, share="1/4")
    nt.private_limit(at_most=256, share='1/4')
    """
    integer(at_least=1, at_most=at_most)
    part = None if share is None else check_share(share)
    if groups is not None:
        integer(at_least=1, groups=groups)
    return PrivateLimit(at_most=at_most, share=part, groups=groups)


_PRIVATE = ("max_groups", "rows", "norm", "values")  # limits that a plan can choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that one unit may count for. A low limit loses the data of heavy units, a high one adds noise.

    Attributes:
        max_rows_per_group: The most rows of a unit that count in one group.
        max_groups: The most groups that a unit counts in, or `nt.private_limit()`. Beside a norm it is for counts of
            units alone. Those in more groups weigh less in each, so that their groups are as long as so many.
        rows: The most rows of a unit in all groups together, for counts, sums and means, or `nt.private_limit()`. It
            can replace both limits above, over unknown groups together with `max_discovered_groups`.
        norm: Instead of all three for rows, the Euclidean length of a unit's vector over groups and statistics, in rows, or
            `nt.private_limit()`. Longer vectors are scaled down; no row is dropped. Unknown groups still need
            `max_discovered_groups`.
        values: The most distinct values that a unit stands for in all groups together, for COUNT(DISTINCT x), or
            `nt.private_limit()`. Default: as many as rows.
        max_discovered_groups: The number of its groups that a unit helps to discover; by default all of them. A lower
            number finds more groups if `max_groups` is large. Chosen limits have 4.
        loss_share: The share of the spend that measures what the limits take; 0 for none. Default: a tenth of epsilon,
            or a twentieth of rho or mu squared.

    Raises:
        ParameterError: A limit is no positive number, or two limits cannot stand together.

    >>> print(limits(max_rows_per_group=2, max_groups=3))
    nt.limits(max_rows_per_group=2, max_groups=3)
    """

    max_rows_per_group: int | PrivateLimit | None = None
    max_groups: int | PrivateLimit | None = None
    rows: int | PrivateLimit | None = None
    norm: Number | PrivateLimit | None = None
    values: int | PrivateLimit | None = None
    max_discovered_groups: int | None = None
    loss_share: Number | None = None

    def __post_init__(self) -> None:
        for name, value in self.given.items():
            if isinstance(value, PrivateLimit):
                if name not in _PRIVATE:
                    raise ParameterError(
                        name, "nt.private_limit(...)", f"must be a number; only {', '.join(_PRIVATE)} can be private"
                    )
            elif name == "norm":
                positive(norm=rational(norm=value))
            elif name == "loss_share":
                if not 0 <= rational(loss_share=value) < 1:
                    raise ParameterError(name, value, "must be at least 0 and below 1")
            else:
                integer(at_least=1, **{name: value})
        if self.norm is not None:
            for name in sorted({"max_rows_per_group", "rows"} & set(self.given)):
                rule = "cannot be combined with norm, which bounds rows and groups together"
                raise ParameterError(name, self.given[name], rule)

    @property
    def given(self) -> dict[str, Any]:
        """The limits that are not None, by name."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}

    @property
    def private(self) -> dict[str, PrivateLimit]:
        """The limits that the plan chooses, by name."""
        return {name: value for name, value in self.given.items() if isinstance(value, PrivateLimit)}

    def __str__(self) -> str:
        """The Python expression of these limits.

        >>> print(Limits(max_groups=3, rows=20))
        nt.limits(max_groups=3, rows=20)
        """
        return f"nt.limits({', '.join(f'{name}={value}' for name, value in self.given.items())})"

    __repr__ = __str__

    def as_dict(self) -> dict[str, object]:
        """The wire form, which `from_dict` reads.

        >>> Limits(max_groups=private_limit(64), norm=None).as_dict()
        {'max_groups': {'at_most': 64, 'share': None, 'groups': None}}
        """
        return {name: _written(name, value) for name, value in self.given.items()}

    @classmethod
    def from_dict(cls, form: Mapping[str, Any]) -> Self:
        """Limits by name.

        Args:
            form: Numbers, texts as on the terminal, or the arguments of `private_limit`, by name. None is no limit.

        Returns:
            The limits.

        Raises:
            ParameterError: A name is unknown, a value is no limit, or two limits cannot stand together.

        >>> Limits.from_dict({"max-groups": "3", "norm": None, "rows": {"at_most": 9}}).max_groups
        3
        """
        values: dict[str, Any] = {}
        for word, value in form.items():
            name = word.strip().replace("-", "_")
            if name not in known_names():
                near = argument(name, known_names())[0] or "rows"
                raise ParameterError(
                    "limits", word, f"must name {', '.join(known_names())}", remedy=f"write {near}={value}"
                )
            if value is not None:
                values[name] = _read(name, value)
        return cls(**values)


limits = Limits  # as callers write it: nt.limits(...)
Limits.__init__ = explained_call(Limits.__init__, "nt.limits")  # type: ignore[method-assign]


def known_names() -> tuple[str, ...]:
    """The names of all limits, in their order."""
    return tuple(one.name for one in fields(Limits))


def _written(name: str, value: Any) -> object:
    if isinstance(value, PrivateLimit):
        return value.as_dict()
    return str(rational(**{name: value})) if name in {"norm", "loss_share"} else value


def _read(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if set(value) - {"at_most", "share", "groups"}:
            raise ParameterError(name, dict(value), "must have only the fields at_most, share and groups")
        return private_limit(**value)
    if not isinstance(value, str) or (name in {"norm", "loss_share"} and "=" not in value):
        return value
    if value.strip().isdecimal():
        return int(value)
    try:
        parts = dict(part.strip().split("=") for part in value.split(","))
        at_most, groups = int(parts.pop("private")), parts.pop("groups", None)
        return private_limit(at_most, groups=None if groups is None else int(groups), **parts)
    except (ValueError, KeyError, TypeError):
        rule = "must be a whole number, private=256 or private=256,groups=500"
        raise ParameterError(name, value, rule) from None
