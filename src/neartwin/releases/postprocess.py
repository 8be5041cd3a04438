"""HAVING, ORDER BY, LIMIT and ratios of a release: post-processing of public values, so it costs nothing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from neartwin.engines.duckdb import places_where
from neartwin.errors import ParameterError, QueryError
from neartwin.queries.groups import MARGIN, named
from neartwin.queries.query import PostProcessing
from neartwin.releases.consistency import monotone, non_negative
from neartwin.releases.values import AnyTable, Statistic, StatisticsTable
from neartwin.tables.expressions import RowExpression
from neartwin.tables.types import ColumnType, Key

Ends = tuple[float | None, float | None]  # of a bar; None where it is open
_KINDS = {bool: ColumnType.BOOLEAN, int: ColumnType.INTEGER, str: ColumnType.TEXT, date: ColumnType.DATE}
_CHOSEN = (
    "Groups were kept or ordered by their noisy values: a value that was chosen for being large is likely to be too large, "
    "and its bar holds as stated only for groups picked beforehand."
)


def shaped(release: AnyTable, after: PostProcessing) -> AnyTable:
    """Apply shapes and ratios, then HAVING, ORDER BY, OFFSET and LIMIT, in SQL's order.

    Args:
        release: The release.
        after: The steps; none leave the release unchanged.

    Returns:
        The new release.

    Raises:
        QueryError: A condition is not understood.
        ParameterError: A column is missing.
    """
    for name, increasing in after.monotone:
        release = monotone(release, name, increasing=increasing)
    if after.non_negative:
        release = non_negative(release, *after.non_negative)
    for name, top, bottom in after.ratios:
        release = ratio(release, top, bottom, name=name)
    if after.having:
        release = having(release, after.having)
    if after.order:
        release = order_by(release, *after.order)
    if after.limit is not None or after.offset:
        end = None if after.limit is None else after.offset + after.limit
        release = _selected(release, range(len(release))[after.offset : end], ())
    return release


def having(release: AnyTable, condition: str) -> AnyTable:
    """Keep the groups whose noisy values meet a condition over the release's columns. NULL is not true.

    Args:
        release: The release.
        condition: The condition, in SQL.

    Returns:
        The new release. A note warns of chosen values if the condition reads any.

    Raises:
        QueryError: The condition is not understood, or is no condition.
    """
    numbers = {one.name: (ColumnType.NUMBER, [float(value) for value in one.values]) for one in release.statistics}
    columns = {name: (_kind(values), values) for name, values in _groups(release).items()} | numbers
    checked = RowExpression.parse(condition, {name: kind for name, (kind, _) in columns.items()})
    if checked.type is not ColumnType.BOOLEAN:
        raise QueryError(f"having={condition!r} is {checked.type}, and must be a condition, for instance 'n > 100'")
    places = places_where(checked.term, {name: columns[name] for name in checked.columns}, len(release))
    return _selected(release, places, (_CHOSEN,) if checked.columns & set(numbers) else ())


def order_by(release: AnyTable, *columns: str | tuple[str, bool]) -> AnyTable:
    """Sort the groups by columns, the first column first. NULL comes last.

    Args:
        release: The release.
        columns: The columns; a pair (name, True) sorts in descending order.

    Returns:
        The new release. A note warns of chosen values if a statistic decides the order.

    Raises:
        ParameterError: A column is missing.
    """
    columns_by_name = _groups(release) | {statistic.name: statistic.values for statistic in release.statistics}
    places = list(range(len(release)))
    for column in reversed(columns):
        name, down = (column, False) if isinstance(column, str) else column
        if name not in release.group_columns:
            release[name]  # raises for a name that is no column
        values: Sequence[Any] = columns_by_name[name]
        present = [place for place in places if values[place] is not None]
        nothing = [place for place in places if values[place] is None]
        places = sorted(present, key=values.__getitem__, reverse=down) + nothing
    chosen = any((column if isinstance(column, str) else column[0]) not in release.group_columns for column in columns)
    return _selected(release, places, (_CHOSEN,) if chosen else ())


def limit(release: AnyTable, groups: int) -> AnyTable:
    """Keep the first groups.

    Args:
        release: The release.
        groups: The number of groups.

    Returns:
        The new release.

    Raises:
        ParameterError: The number is negative.
    """
    if groups < 0:
        raise ParameterError("groups", groups, "must be at least 0")
    return _selected(release, range(min(groups, len(release))), ())


def margin(release: AnyTable, *columns: str) -> AnyTable:
    """One margin of a release of marginals.

    Args:
        release: The release.
        columns: The columns of the margin; none for the total.

    Returns:
        The release of the margin.

    Raises:
        ParameterError: The release has no such margin.
    """
    known = {key[-1] for key in release.keys} if release.group_columns[-1:] == (MARGIN,) else set()
    chosen_name = named([name for name in release.group_columns if name in columns], range(len(set(columns))))
    if chosen_name not in known or not set(columns) <= set(release.group_columns[:-1]):
        possible = "; ".join(sorted(map(str, known))) or "none: this is no release of marginals"
        raise ParameterError("margin", ", ".join(columns), f"must be one of: {possible}")
    places = [place for place, name in enumerate(release.group_columns[:-1]) if name in columns]
    one = _selected(release, [i for i, key in enumerate(release.keys) if key[-1] == chosen_name], ())
    names = tuple(release.group_columns[place] for place in places)
    return replace(one, group_columns=names, keys=tuple(tuple(key[place] for place in places) for key in one.keys))


def ratio(release: AnyTable, top: str, bottom: str, *, name: str) -> AnyTable:
    """Add the statistic top / bottom in every group, with a bar that holds if both bars hold.

    The bar's confidence is 1 less both failure probabilities, by the union bound. If the bottom may be 0 nothing is
    proven, and the bar is open. The value is that of the noisy values, or 0 if the bottom is 0 and 0 is possible. A count of
    some rows over the count of all rows lies in [0, 1], value and bar.

    Args:
        release: The release.
        top: A statistic.
        bottom: A statistic.
        name: The name of the ratio.

    Returns:
        The new release.

    Raises:
        ParameterError: The name is taken, or a statistic is missing.
    """
    new_name(release, name)
    above, below = release[top], release[bottom]
    tops, bottoms = (np.array(side.values, dtype=float) for side in (above, below))
    bars = [zip(side.lower, side.upper, strict=True) for side in (above, below)]
    ends = [ratio_ends(*both) for both in zip(*bars, strict=True)]
    values = np.where(bottoms == 0, 0.0, tops / np.where(bottoms == 0, 1.0, bottoms))
    held = 1 - sum(1 - (side.confidence or release.confidence) for side in (above, below))
    note = f"The bar of {name!r} holds wherever those of {top!r} and {bottom!r} both do: with probability at least {held:.0%}."
    if above.what.startswith("count(") and below.what == "count()":  # rows with a value, of all rows
        note += " A part of all rows lies in [0, 1]."
        values = np.clip(values, 0.0, 1.0)
        ends = [
            (min(max(low or 0.0, 0.0), 1.0), 1.0 if high is None else min(max(high, 0.0), 1.0)) for low, high in ends
        ]
    quotient = Statistic(
        name=name,
        what=f"{top} / {bottom}",
        values=tuple(values.tolist()),
        lower=tuple(low for low, _ in ends),
        upper=tuple(high for _, high in ends),
        confidence=held,
    )
    return replace(release, statistics=(*release.statistics, quotient), notes=(*release.notes, note))


def new_name(release: StatisticsTable, name: str) -> None:
    """Refuse a name that a column of the release has.

    Args:
        release: The release.
        name: The name of a new statistic.

    Raises:
        ParameterError: The name is taken.
    """
    if name in {statistic.name for statistic in release.statistics} | set(release.group_columns):
        raise ParameterError("name", name, "must be new: the release has such a column")


def ratio_ends(above: Ends, below: Ends) -> Ends:
    """Extremes of t / n over the box of two bars: at its corners, if it holds no n = 0; else anything is possible.

    Args:
        above: The ends of the bar of t.
        below: The ends of the bar of n.

    Returns:
        The ends; None for open ones.
    """
    (low, high), (few, many) = above, below
    if low is None or high is None or few is None or many is None or few <= 0 <= many:
        return None, None
    corners = [t / n for t in (low, high) for n in (few, many)]
    return min(corners), max(corners)


def _groups(release: StatisticsTable) -> dict[str, Sequence[object]]:
    return {name: [key[i] for key in release.keys] for i, name in enumerate(release.group_columns)}


def _selected(release: AnyTable, places: Sequence[int], notes: tuple[str, ...]) -> AnyTable:
    keys: tuple[Key, ...] = tuple(release.keys[i] for i in places)
    statistics = tuple(_at(statistic, places) for statistic in release.statistics)
    new = tuple(note for note in notes if note not in release.notes)
    return replace(release, keys=keys, statistics=statistics, notes=(*release.notes, *new))


def _at(statistic: Statistic, places: Sequence[int]) -> Statistic:
    lower, upper = (tuple(ends[i] for i in places) for ends in (statistic.lower, statistic.upper))
    return replace(statistic, values=tuple(statistic.values[i] for i in places), lower=lower, upper=upper)


def _kind(values: Sequence[object]) -> ColumnType:
    return next((_KINDS[type(value)] for value in values if value is not None), ColumnType.TEXT)
