"""Differences, ratios and order of groups of a release: they cost nothing.

Let X_i be independent noises, normal, Laplace, or sums of such, with P(|X_i| <= h_i) >= 95 %. Let h be the root of the sum of
(w_i h_i)^2. The sum of w_i X_i is within h with at least 95 %. Normal noise makes that exact; sums of Laplace noise have lighter
tails, and are within h more often. Noise in whole numbers gets one step more. So the difference of two counts has h as its bar. A
ratio m of a over b has the bar of all m for which a - m b is within that of its noise (Fieller 1954). Limits and clipping took
at most so much of all groups together, so no bar needs it twice: (L10) and (L11) of docs/proofs/lost-rows.md.

Other bars, and noise that groups share, allow no more than the union bound: the box of both bars, at twice the failure.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from neartwin.errors import ParameterError
from neartwin.exact import FloatArray
from neartwin.queries.arithmetic import Estimate, extremes, fieller
from neartwin.releases.postprocess import closed, column_of, limit, order_by
from neartwin.releases.values import AnyTable, Statistic, StatisticsTable
from neartwin.tables.types import Key

_MOST_PAIRS = 10  # of neighbours in an order, in words


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
    return replace(release, group_columns=group, keys=((name,),), statistics=tuple(columns), notes=tuple(notes))


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
