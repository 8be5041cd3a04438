"""The most that one unit counts for: from a caller's limits to the numeric bounds of a plan."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import TypeVar, cast

from neartwin.errors import ParameterError, QueryError
from neartwin.exact import Number, rational
from neartwin.planning.limits import Limits, PrivateLimit
from neartwin.planning.stage import LARGEST, MOST_GROUPS, MOST_ROWS
from neartwin.queries.query import Query
from neartwin.tables.table import RowUnit

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributionBounds:
    """The most that one unit counts for.

    Attributes:
        max_rows_per_group: The most rows of a unit in one group.
        max_groups: The most groups of a unit.
        max_discovered_groups: The most groups that a unit helps to discover; None for all its groups.
        rows: The most rows of a unit in all groups together; None if the other bounds imply no more.
        norm: The length of a unit's rows by group, in place of all the others.
        units_groups: The groups that a unit counts in among distinct units beside a norm, in the square of its length.
        values: The most distinct values that a unit stands for in all groups together; None for as many as rows.
    """

    max_rows_per_group: int
    max_groups: int
    max_discovered_groups: int | None = None
    rows: int | None = None
    norm: Fraction | None = None
    values: int | None = None
    units_groups: int | None = None

    def __str__(self) -> str:
        if self.values is not None:
            return f"{replace(self, values=None)}; it stands for at most {self.values:,} of its distinct values"
        if self.norm is not None:
            units = (
                "" if self.units_groups is None else f", and it counts as a unit in about {self.units_groups:,} groups"
            )
            return (
                "all rows of a unit weigh the same, and less than 1 where else its numbers of rows by group had a norm above "
                f"{float(self.norm):g}{units}"
            )
        rows, groups = self.max_rows_per_group, self.max_groups
        if self.rows is not None and self.rows <= rows:
            in_groups = "" if groups >= MOST_GROUPS else f", in at most {groups:,} group{'s' * (groups > 1)}"
            return f"a unit counts for at most {self.rows:,} row{'s' * (self.rows > 1)} in all{in_groups}"
        total = "" if self.rows is None else f", for {self.rows} rows in all"
        counts = f"a unit counts for at most {rows} row{'s' * (rows > 1)}"
        return (
            f"{counts}, in one group" if groups == 1 else f"{counts} in a group and in at most {groups} groups{total}"
        )

    @property
    def total_rows(self) -> int:
        """The most rows that one unit counts for in all groups together."""
        most = self.max_rows_per_group * self.max_groups
        return min(most, self.rows or most)

    @property
    def entering(self) -> int:
        """The most groups that one unit brings in."""
        return self.max_groups if self.max_discovered_groups is None else self.max_discovered_groups


def contribution_bounds(query: Query, limits: Limits) -> ContributionBounds:
    """The bounds of a query under limits that are all numbers.

    Args:
        query: The query.
        limits: The caller's limits.

    Returns:
        The bounds.

    Raises:
        QueryError: A limit is missing.
        ParameterError: A limit makes no sense for this question.
    """
    keys, discovered = query.groups.keys, limits.max_discovered_groups
    if isinstance(query.table.unit, RowUnit):
        bounds = _of_single_rows(limits)
    elif limits.norm is not None:
        bounds = _of_norm(query, limits, rational(norm=cast("Number", _number(limits.norm))))
    else:
        bounds = _of_caps(query, limits)
    if discovered is not None and keys is not None:
        raise ParameterError(
            "max_discovered_groups",
            discovered,
            "must be left out: it is for unknown groups, and these groups have public keys",
        )
    bounds = replace(bounds, values=_number(limits.values))
    if discovered is None or (bounds.norm is None and discovered >= bounds.max_groups):
        return bounds
    return replace(bounds, max_discovered_groups=discovered)


def _number(limit: T | PrivateLimit) -> T:
    if isinstance(limit, PrivateLimit):
        raise TypeError("a private limit is chosen before it bounds anything")
    return limit


def _of_single_rows(limits: Limits) -> ContributionBounds:
    for name, value in limits.given.items():
        if name in {"rows", "norm"}:
            raise ParameterError(name, value, "must be left out: each row is its own unit, so no unit has several rows")
        if name not in {"max_discovered_groups", "loss_share"} and value != 1:
            raise ParameterError(name, value, "must be 1, because each row is its own unit")
    return ContributionBounds(max_rows_per_group=1, max_groups=1)


def _of_norm(query: Query, limits: Limits, norm: Fraction) -> ContributionBounds:
    keys = query.groups.keys
    if keys is None and limits.max_discovered_groups is None:
        raise QueryError(
            "max_discovered_groups is missing: a norm bounds no number of groups, which discovery needs; "
            "give the number of its groups that a unit helps to discover, for instance "
            f"limits=nt.limits(norm={limits.norm}, max_discovered_groups=8)"
        )
    if norm > LARGEST:
        raise ParameterError("norm", float(norm), f"must be at most {LARGEST:,} rows")
    few, most = _number(limits.max_groups), MOST_ROWS if keys is None else len(keys)
    return ContributionBounds(max_rows_per_group=MOST_ROWS, max_groups=most, norm=norm, units_groups=few)


def _of_caps(query: Query, limits: Limits) -> ContributionBounds:
    """Caps on rows and groups, with a cap on all rows of a unit where one is given and binds."""
    keys, statistics = query.groups.keys, query.aggregates.values()
    all_rows, per_group, groups = map(_number, (limits.rows, limits.max_rows_per_group, limits.max_groups))
    units_alone = query.units_alone
    if all_rows is not None:
        per_group = min(per_group or all_rows, all_rows)
        if not any(one.counts_units for one in statistics) and (keys is not None or limits.max_discovered_groups):
            groups = groups or (MOST_GROUPS if keys is None else len(keys))
    if query.table.one_row:
        per_group = groups = 1
    elif per_group is None and units_alone:
        per_group = 1
    if groups is None and keys is not None and len(keys) <= 1:
        groups = 1
    if per_group is None or groups is None:
        raise QueryError(_missing(query, limits, per_group, groups))
    if groups > MOST_GROUPS:
        raise ParameterError("max_groups", groups, "must be at most 2**50", remedy="take a lower bound")
    groups = groups if keys is None else min(groups, len(keys))
    binds = all_rows is not None and all_rows < per_group * groups
    return ContributionBounds(max_rows_per_group=per_group, max_groups=groups, rows=all_rows if binds else None)


def _missing(query: Query, limits: Limits, per_group: int | None, groups: int | None) -> str:
    """The limits that a caller has to give. Rows in all need no limit of groups but for finding these."""
    finds = limits.rows is not None and query.groups.keys is None
    finds &= not any(one.counts_units for one in query.aggregates.values())
    own, does = ("max_discovered_groups", "help to discover") if finds else ("max_groups", "count in")
    meanings = {
        "max_rows_per_group": (per_group, "how many rows of one unit may count in a group"),
        own: (groups, f"how many groups one unit may {does}"),
    }
    absent = {name: words for name, (value, words) in meanings.items() if value is None}
    example = ", ".join(f"{name}={value}" for name, value in {**limits.given, **dict.fromkeys(absent, 3)}.items())
    return (
        f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} missing: say {' and '.join(absent.values())} "
        f"(unit {query.table.unit_name!r}), for instance limits=nt.limits({example}); without any limit the plan chooses them"
    )


def rows_found(bounding: ContributionBounds) -> int:
    """The most rows of a unit in a group that it helps to discover; a norm is spread evenly over those groups."""
    if bounding.norm is None:
        return bounding.max_rows_per_group
    return max(1, round(float(bounding.norm) / sqrt(bounding.entering)))
