"""Arithmetic, HAVING, ORDER BY, LIMIT, differences and ratios of a release: post-processing of public values, at no cost.

**Differences and ratios of groups.** Let X_i be independent noises,
normal, Laplace, or sums of such, with P(|X_i| <= h_i) >= 95 %. Let h be the root of the sum of
(w_i h_i)^2. The sum of w_i X_i is within h with at least 95 %. Normal noise makes that exact; sums of Laplace noise have lighter
tails, and are within h more often. Noise in whole numbers gets one step more. So the difference of two counts has h as its bar. A
ratio m of a over b has the bar of all m for which a - m b is within that of its noise (Fieller 1954). Limits and clipping took
at most so much of all groups together, so no bar needs it twice: (L10) and (L11) of docs/proofs/lost-rows.md.

Other bars, and noise that groups share, allow no more than the union bound: the box of both bars, at twice the failure.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from operator import is_, itemgetter
from typing import Any

import numpy as np
from sqlglot import exp

from neartwin.checks import integer
from neartwin.engines.duckdb import values_of
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import FloatArray
from neartwin.queries.arithmetic import Arithmetic, Estimate, adds_groups, extremes, fieller, label_of
from neartwin.queries.query import MARGIN, PostProcessing, SortKey, named
from neartwin.releases.consistency import monotone, non_negative
from neartwin.releases.values import AnyTable, Statistic, StatisticsTable
from neartwin.tables.expressions import RowExpression, parsed
from neartwin.tables.types import NUMERIC, UNHELD, ColumnType, Key, with_ends

_OWN, _ROUNDING = 1e-6, 1e-15  # relative differences that are rounding: of bars, and of values
_KINDS = {bool: ColumnType.BOOLEAN, int: ColumnType.INTEGER, str: ColumnType.TEXT, date: ColumnType.DATE}
_MOST_PAIRS = 10  # of neighbours in an order, in words
_CHOSEN = (
    "Groups were kept or ordered by their noisy values: one chosen for being large is likely too large, and bars hold for "
    "groups picked beforehand."
)


def shaped(release: AnyTable, after: PostProcessing) -> AnyTable:
    """Apply shapes and arithmetic, then HAVING, ORDER BY, OFFSET and LIMIT, in SQL's order.

    Windows over the groups go over those that HAVING keeps, unless HAVING names their column.

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
    read = {column.name for column in parsed(after.having or "TRUE").find_all(exp.Column)}
    late = [(name, text) for name, text in after.computed if name not in read and parsed(text).find(exp.Window)]
    for name, text in after.computed:
        release = release if (name, text) in late else computed(release, name, text)
    if after.having:
        release = having(release, after.having)
    for name, text in late:
        release = computed(release, name, text)
    if after.order:
        release = order_by(release, *after.order)
    if after.limit is not None or after.offset:
        end = None if after.limit is None else after.offset + after.limit
        release = _selected(release, range(len(release))[after.offset : end], ())
    shown = dict(after.shown)
    return replace(release, group_columns=tuple(shown.get(name, name) for name in release.group_columns))


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
    checked, values = _computed_values(release, condition)
    if checked.type is not ColumnType.BOOLEAN:
        raise QueryError(f"having={condition!r} is {checked.type}, and must be a condition, for instance 'n > 100'")
    chosen = checked.columns - set(release.group_columns)
    return _selected(release, [place for place, value in enumerate(values) if value], (_CHOSEN,) if chosen else ())


def _computed_values(release: AnyTable, text: str) -> tuple[RowExpression, list[Any]]:
    """An expression over the release's columns, checked, and its value in each group."""
    numbers = {one.name: (one.kind, one.meant(list(map(float, one.values)))) for one in _numbers(release)}
    columns = {name: (_kind(values := _values(release, name)), values) for name in release.group_columns} | numbers
    checked = RowExpression.parse(text, {name: kind for name, (kind, _) in columns.items()})
    return checked, values_of(checked.term, {name: columns[name] for name in checked.columns}, len(release))


def order_by(release: AnyTable, *columns: str | SortKey) -> AnyTable:
    """Sort the groups by columns, the first column first. NULL comes last.

    Args:
        release: The release.
        columns: The columns, or SQL expressions over them; a pair (name, True) sorts in descending order, and (name, False,
            True) has NULL first.

    Returns:
        The new release. A note warns of chosen values if a statistic decides the order.

    Raises:
        ParameterError: A column is missing.
    """
    keys = [(column, False) if isinstance(column, str) else column for column in columns]
    read, values = set[str](), dict[str, Sequence[Any]]()
    for name, *_ in keys:
        if name.isidentifier() or name in (*release.group_columns, *(one.name for one in release.statistics)):
            read.add(name)
            values[name] = _values(release, name)
        else:
            checked, values[name] = _computed_values(release, name)
            read |= checked.columns
    places = _order([(values[name], down, first == [True]) for name, down, *first in keys], len(release))
    return _selected(release, places, (_CHOSEN,) if read - set(release.group_columns) else ())


def _order(keys: Sequence[tuple[Sequence[Any], bool, bool]], rows: int) -> list[int]:
    """The places in the order of values, each with whether it descends and whether None is first; equal ones stay in order."""
    ranks = list[Any]()
    for values, down, nulls_first in keys:
        distinct = sorted(set(values) - {None}, reverse=down)
        rank = {value: place for place, value in enumerate(distinct)} | {None: -1 if nulls_first else rows}
        ranks.append(np.fromiter(map(rank.__getitem__, values), np.int64, rows))
    return np.lexsort(ranks[::-1]).tolist() if ranks else list(range(rows))


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
    integer(at_least=0, groups=groups)
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
    places = [place for place, name in enumerate(release.group_columns) if name in columns]
    chosen_name = named(release.group_columns, places)
    if chosen_name not in known or not set(columns) <= set(release.group_columns[:-1]):
        possible = "; ".join(sorted(map(str, known))) or "none: this is no release of marginals"
        raise ParameterError("margin", ", ".join(columns), f"must be one of: {possible}")
    one = _selected(release, [i for i, key in enumerate(release.keys) if key[-1] == chosen_name], ())
    names = tuple(release.group_columns[place] for place in places)
    return replace(one, group_columns=names, keys=tuple(tuple(key[place] for place in places) for key in one.keys))


def computed(release: AnyTable, name: str, text: str) -> AnyTable:
    """Add a statistic that is computed of others in each group, with a bar.

    The bar's confidence is 1 less the failure probabilities of all bars that it needs, by the union bound. It is NaN,
    and null in data, where SQL has NULL, and for a ratio to 0.

    Args:
        release: The release.
        name: The name of the new statistic.
        text: The expression, as for `Arithmetic`; or a text in quotes, which becomes a group column.

    Returns:
        The new release.

    Raises:
        ParameterError: The name is taken, or a statistic is missing.
        QueryError: The expression is not understood.
    """
    taken = {*release.group_columns} | with_ends(*(one.name for one in release.statistics))
    if not taken.isdisjoint(with_ends(name)):
        raise ParameterError("name", name, "must be new: the release has such a column")
    if (label := label_of(text)) is not None:
        keys = tuple((label, *key) for key in release.keys)
        return replace(release, group_columns=(name, *release.group_columns), keys=keys)
    grouped = {one: _values(release, one) for one in release.group_columns}
    numeric = {one: np.array(of, dtype=float) for one, of in grouped.items() if _kind(of) in NUMERIC}
    expression = Arithmetic.parse(text, [*numeric, *(one.name for one in _numbers(release))], release.group_columns)
    parts, by = dict[tuple[object, ...], list[int]](), [_values(release, part) for part in sorted(expression.partition)]
    along = [(_values(release, one), down, nulls_first) for one, down, nulls_first in expression.order]
    for place in _order(along, len(release)):
        parts.setdefault(tuple(values[place] for values in by), []).append(place)
    values, low, high = (np.empty(len(release)) for _ in range(3))
    events = frozenset[tuple[str, object]]()
    for places in parts.values():
        known = {one: Estimate(*(every[places],) * 3) for one, every in numeric.items()}
        noisy = expression.columns - set(numeric)
        columns = {one: column_of(release, at_places(release[one], places), totals=adds_groups(text)) for one in noisy}
        found = expression.of(known | columns)
        values[places], low[places], high[places] = found.values, found.low, found.high
        events |= {event for event in found.events if event[0] not in numeric}
    held = 1 - sum(1 - (release[column].confidence or release.confidence) for column, _ in events)
    of = [repr(one.name) for one in _numbers(release) if one.name in expression.columns]
    note = f"The bar of {name!r} holds wherever those of {' and '.join(of)} do: with probability at least {held:.0%}."
    if found_alone := release.discovered and parsed(text).find(exp.Window) is not None:
        note = f"{name!r} goes over the groups that were found, and SQL's over those that are missing too: {UNHELD}"
    outside = found_alone | np.isnan(low) | ~np.isfinite(values)
    lower, upper = (np.where(outside, far, end).tolist() for end, far in ((low, -np.inf), (high, np.inf)))
    new = Statistic(
        name=name,
        what=text,
        values=tuple(one if math.isfinite(one) else math.nan for one in values.tolist()),
        lower=tuple(map(closed, lower)),
        upper=tuple(map(closed, upper)),
        confidence=None if held == release.confidence or not events else held,
    )
    notes = (*release.notes, note) if len(events) > 1 or found_alone else release.notes
    made = replace(release, statistics=(*release.statistics, new), notes=notes)
    return _in_both_bars(made, release, lambda one: computed(one, name, text))


def closed(end: float) -> float | None:
    """The end of a bar, or None if it is infinite."""
    return None if math.isinf(end) else float(end)


@np.errstate(invalid="ignore")  # of open ends
def column_of(release: StatisticsTable, one: Statistic, *, totals: bool = False) -> Estimate:
    """A statistic as a column of arithmetic. Noise in whole numbers gets one step more.

    Args:
        release: The release.
        one: The statistic.
        totals: Whether groups are added up, which may have lost more together than the bars of groups hold.

    Returns:
        The column, with the shorter side of its bars where all are as drawn, alike and no shorter than the noise, and with
        what the other side has more: (L11) of docs/proofs/lost-rows.md.
    """
    low = np.array([-np.inf if end is None else end for end in one.lower], dtype=float)
    high = np.array([np.inf if end is None else end for end in one.upper], dtype=float)
    values, is_whole = np.array(one.values, dtype=float), all(isinstance(value, int) for value in one.values)
    sides = np.array([values - low, high - values])
    half, more = longest = sides.max(axis=1, initial=0.0)
    off = is_whole + _ROUNDING * np.abs(values).max(initial=0.0) + _OWN * longest.max()
    drawn = one.confidence is None and more < np.inf and bool((sides >= longest[:, None] - off).all())
    column = Estimate(values, low, high, is_whole=is_whole, what=one.what)
    if not drawn or min(half, more) < release.own_noise(one.name) * (1 - _OWN) - is_whole:
        return column
    together = not one.what.startswith("count_distinct_units(")  # a unit is lost to each of its groups
    lost = (release.loss or {}) if totals and together else {}
    spread = max(lost.get("totals", 0) / (lost.get("rows", (0, 0))[1] or math.inf), 1.0)
    return replace(column, half=float(min(half, more)) + is_whole, lost=float(more - half) * spread, together=together)


def _values(release: StatisticsTable, name: str) -> Sequence[Any]:
    """The values of a group column, or of a statistic."""
    if name not in release.group_columns:
        return (one := release[name]).meant(one.values)  # raises for a name that is no column
    return list(map(itemgetter(release.group_columns.index(name)), release.keys))


def _numbers(release: StatisticsTable) -> tuple[Statistic, ...]:
    """The statistics, and the numbers of questions that were asked first."""
    return (*release.statistics, *release.asked_first)


def _selected(release: AnyTable, places: Sequence[int], notes: tuple[str, ...]) -> AnyTable:
    keys: tuple[Key, ...] = tuple([release.keys[place] for place in places])
    statistics = tuple(at_places(statistic, places) for statistic in release.statistics)
    new = tuple(note for note in notes if note not in release.notes)
    return replace(release, keys=keys, statistics=statistics, notes=(*release.notes, *new))


def at_places(statistic: Statistic, places: Sequence[int]) -> Statistic:
    """A statistic of some groups alone.

    Args:
        statistic: The statistic.
        places: The places of the groups.

    Returns:
        The new statistic.
    """

    def those(of: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(of.__getitem__, places))

    noise = (those(statistic.noise[0]), those(statistic.noise[1])) if statistic.noise else None
    ends: dict[str, Any] = {"lower": those(statistic.lower), "upper": those(statistic.upper), "noise": noise}
    return replace(statistic, values=those(statistic.values), **ends)


def _kind(values: Sequence[object]) -> ColumnType:
    return next((_KINDS[type(value)] for value in values if value is not None), ColumnType.TEXT)


def compared(release: AnyTable, keys: tuple[object, object], word: str) -> AnyTable:
    """The values of one group less, or over, those of another, with bars.

    Args:
        release: The release.
        keys: Two groups, each a value, or a tuple of several.
        word: "less" or "over".

    Returns:
        A release of one row. Bars over what may be 0 are open. A confidence of its own stands where only the union bound
        is known.

    Raises:
        ParameterError: The release has no such group.
    """
    places = [_place(release, key) for key in keys]
    name, columns, notes = f" {word} ".join(_name(release.keys[place]) for place in places), [], list(release.notes)
    for one in release.statistics:
        a, b = _groups(release, one, places)
        (first, second), ((low,), (high,)) = (one.values[place] for place in places), _bar(a, b, word)
        value = first - second if word == "less" else first / (second or math.inf)
        value = value if math.isfinite(value) else math.nan  # always the same NaN
        known = a.half is not None and b.half is not None
        held = None if known else 1 - 2 * (1 - (one.confidence or release.confidence))
        what = f"{one.what}: {name}"
        columns.append(
            Statistic(
                name=one.name, what=what, values=(value,), lower=(closed(low),), upper=(closed(high),), confidence=held
            )
        )
        sure = "" if held is None else f", with at least {held:.0%}, since both bars must hold"
        notes.append(f"{one.name}: {first:,.6g} against {second:,.6g}{sure}.")
    group = (", ".join(release.group_columns),)
    made = replace(release, group_columns=group, keys=((name,),), statistics=tuple(columns), notes=tuple(notes))
    return _in_both_bars(made, release, lambda one: compared(one, keys, word))


def top(release: AnyTable, groups: int, by: str) -> AnyTable:
    """The groups with the largest values, in order, with a note on which neighbours in the order are told apart.

    Args:
        release: The release.
        groups: The largest number of groups.
        by: A statistic.

    Returns:
        The new release.

    Raises:
        ParameterError: The statistic is missing.
    """
    release[by]  # raises for a name that is no statistic
    ordered = order_by(release, (by, True))
    words = []
    for place in range(min(groups, len(ordered) - 1, _MOST_PAIRS)):
        first, second = _groups(ordered, ordered[by], (place, place + 1))
        (low,), _ = _bar(first, second, "less")
        ahead, behind = map(_name, ordered.keys[place : place + 2])
        words.append(f"{ahead} {'is above' if low > 0 else 'may be equal to or below'} {behind}")
    note = f"Order by {by}, pair by pair at the confidence of its difference: {'; '.join(words)}."
    return limit(replace(ordered, notes=(*ordered.notes, note)), groups)


def _in_both_bars(made: AnyTable, release: AnyTable, step: Callable[[AnyTable], AnyTable]) -> AnyTable:
    """The result of a step, beside whose bars stand those that it has of the noise alone."""
    within = tuple(one.within_limits for one in release.statistics)
    if all(map(is_, within, release.statistics)):
        return made
    pairs = zip(made.statistics, step(replace(release, statistics=within)).statistics, strict=True)
    own = [replace(one, noise=(near.lower, near.upper)) for one, near in pairs]
    plain = (replace(one, noise=None) if one.noise == (one.lower, one.upper) else one for one in own)
    return replace(made, statistics=tuple(plain))


def _groups(release: StatisticsTable, one: Statistic, places: Sequence[int]) -> list[Estimate]:
    """A statistic of some groups, each apart."""
    column = column_of(release, one)
    return [replace(column, values=column.values[[at]], low=column.low[[at]], high=column.high[[at]]) for at in places]


def _bar(a: Estimate, b: Estimate, word: str) -> tuple[FloatArray, FloatArray]:
    """The bar of a - b or a / b."""
    if a.half is None or b.half is None:
        return extremes(a, b, np.subtract if word == "less" else np.divide)
    # the corners of (L10): limits took nothing, all of it from the first group, all from the second
    above = a.values + a.lost * np.array([[0.0], [1.0], [0.0]])
    below = b.values + b.lost * np.array([[0.0], [0.0], [1.0]])
    if word == "over":
        return fieller(above, below, a.half**2, b.half**2, 0.0)
    off = math.hypot(a.half, b.half)
    off = math.floor(off) if a.is_whole else off
    return (above - below).min(axis=0) - off, (above - below).max(axis=0) + off


def _place(release: StatisticsTable, key: object) -> int:
    whole = key if isinstance(key, tuple) else (key,)
    if whole not in release.keys:
        raise ParameterError("group", key, "must be a key of the release, a tuple if there are several group columns")
    return release.keys.index(whole)


def _name(key: Key) -> str:
    return ", ".join("(none)" if value is None else str(value) for value in key)
