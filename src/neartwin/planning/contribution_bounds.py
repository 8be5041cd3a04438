"""How much one unit may count for: from what a caller says to the bounds of a plan. Asked for, never guessed."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

from neartwin.checks import integer, positive
from neartwin.errors import ParameterError, QueryError
from neartwin.planning.plan import Bounding
from neartwin.planning.stage import MOST_ROWS, parts_for
from neartwin.queries.query import Query
from neartwin.tables.table import RowUnit

_UNIT_BITS = 25
_MOST_GROUPS = 2**50  # no noise of more fits its grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a caller says of one unit's contributions: see `neartwin.planning.planner.plan`."""

    rows_per_group: int | None = None
    groups_per_unit: int | None = None
    rows_per_unit: int | None = None
    norm_per_unit: Fraction | None = None
    discovery_groups: int | None = None


def bounding_of(query: Query, limits: Limits) -> Bounding:
    """The bounds that a query gets. `QueryError` for one that is missing, `ParameterError` for one without sense."""
    found = _within(query, limits) if limits.norm_per_unit is None else _normed(query, limits, limits.norm_per_unit)
    return _discovering(query, found, limits.discovery_groups)


def _within(query: Query, limits: Limits) -> Bounding:
    """The bounds, with a cap on all rows of a unit where one is asked for and binds."""
    rows_per_unit, rows_per_group, groups_per_unit = (
        limits.rows_per_unit,
        limits.rows_per_group,
        limits.groups_per_unit,
    )
    if rows_per_unit is None:
        return _bounding(query, rows_per_group, groups_per_unit)
    integer(at_least=1, rows_per_unit=rows_per_unit)
    if isinstance(query.table.unit, RowUnit):
        raise ParameterError(
            "rows_per_unit", rows_per_unit, "is for units with many rows, and each row is its own unit"
        )
    if not all(aggregate.capped_in_all for aggregate in query.aggregates.values()):
        raise QueryError(
            "rows_per_unit is for counts, sums and means; bound others by rows_per_group and groups_per_unit"
        )
    keys = query.groups.keys
    if keys is not None and not any(aggregate.counts_units for aggregate in query.aggregates.values()):
        groups_per_unit = groups_per_unit or len(keys)
    found = _bounding(query, min(rows_per_group or rows_per_unit, rows_per_unit), groups_per_unit)
    binds = rows_per_unit < found.rows_per_group * found.groups_per_unit
    return replace(found, rows_per_unit=rows_per_unit if binds else None)


def _normed(query: Query, limits: Limits, norm: Fraction) -> Bounding:
    positive(norm_per_unit=norm)
    if isinstance(query.table.unit, RowUnit):
        raise ParameterError("norm_per_unit", norm, "is for units with many rows, and each row is its own unit")
    for name in ("rows_per_group", "groups_per_unit", "rows_per_unit"):
        if (value := getattr(limits, name)) is not None:
            raise ParameterError(
                name, value, "cannot stand beside norm_per_unit, which bounds rows and groups together"
            )
    keys = query.groups.keys
    if keys is None and limits.discovery_groups is None:
        raise QueryError(
            "discovery_groups is missing: norm_per_unit bounds no number of groups, and unknown ones are found by units that "
            "are in few; say in how many of its groups a unit helps to discover them, for instance discovery_groups=8"
        )
    most = MOST_ROWS if keys is None else len(keys)
    return Bounding(rows_per_group=MOST_ROWS, groups_per_unit=most, norm_per_unit=norm)


def _bounding(query: Query, rows_per_group: int | None, groups_per_unit: int | None) -> Bounding:
    keys = query.groups.keys
    if isinstance(query.table.unit, RowUnit):
        for name, value in (("rows_per_group", rows_per_group), ("groups_per_unit", groups_per_unit)):
            if value not in (None, 1):
                raise ParameterError(name, value, "must be 1 where each row is its own unit")
        return Bounding(rows_per_group=1, groups_per_unit=1)
    if rows_per_group is None:
        if not all(aggregate.counts_units for aggregate in query.aggregates.values()):
            raise QueryError(_missing("rows_per_group", query, "how many rows of one unit may count in a group"))
        rows_per_group = 1
    if groups_per_unit is None:
        if keys is None or len(keys) > 1:
            raise QueryError(_missing("groups_per_unit", query, "how many groups one unit may count in"))
        groups_per_unit = 1
    integer(at_least=1, rows_per_group=rows_per_group)
    if integer(at_least=1, groups_per_unit=groups_per_unit) > _MOST_GROUPS:
        raise ParameterError("groups_per_unit", groups_per_unit, "must be at most 2**50", remedy="take a lower bound")
    return Bounding(
        rows_per_group=rows_per_group,
        groups_per_unit=groups_per_unit if keys is None else min(groups_per_unit, len(keys)),
    )


def _discovering(query: Query, bounding: Bounding, discovery_groups: int | None) -> Bounding:
    if discovery_groups is None:
        return bounding
    if query.groups.keys is not None:
        raise ParameterError("discovery_groups", discovery_groups, "is for unknown groups, and these have public keys")
    integer(at_least=1, discovery_groups=discovery_groups)
    if discovery_groups >= bounding.groups_per_unit:
        return bounding
    return replace(bounding, discovery_groups=discovery_groups)


def _missing(name: str, query: Query, meaning: str) -> str:
    return (
        f"{name} is missing: say {meaning} (unit {query.table.unit_name!r}), for instance {name}=3; "
        "a low bound loses the data of heavy units, a high one adds noise"
    )


def parts_of_row(query: Query, bounding: Bounding) -> int:
    """Parts of a row in which values are counted where heavy units are weighted down: a unit's C rows are about 2^24 of them."""
    if isinstance(query.table.unit, RowUnit):
        return 1
    if bounding.norm_per_unit is not None:
        return parts_for(bounding.norm_per_unit)
    return 1 << max(0, _UNIT_BITS - bounding.rows_per_group.bit_length())


def rows_found(bounding: Bounding) -> int:
    """For how many rows a unit may count in a group that it helps to find: of a norm, spread evenly over those."""
    if bounding.norm_per_unit is None:
        return bounding.rows_per_group
    return max(1, round(float(bounding.norm_per_unit) / sqrt(bounding.entering)))
