"""Differences, ratios and order of groups of a release, and shares of the total: they cost nothing.

Let X_i be independent noises, normal, Laplace, or sums of such, with P(|X_i| <= h_i) >= 95 %. Let h be the root of the sum of
(w_i h_i)^2. The sum of w_i X_i is within h with at least 95 %. Normal noise makes that exact; sums of Laplace noise have lighter
tails, and are within h more often. Noise in whole numbers gets one step more. So the difference of two counts has h as its bar. A
ratio m of a over b has the bar of all m for which a - m b is within that of its noise (Fieller 1954).

Other bars, and noise that groups share, allow no more than the union bound: the box of both bars, at twice the failure.
"""

import math
from dataclasses import dataclass, replace

from neartwin.errors import ParameterError
from neartwin.releases.postprocess import Ends, limit, new_name, order_by, ratio_ends
from neartwin.releases.values import AnyTable, Statistic, StatisticsTable
from neartwin.tables.types import Key

_MOST_PAIRS = 10  # of neighbours in an order, in words
_OWN = 1e-6  # relative difference of a bar and the half-width of its noise that is rounding


@dataclass(frozen=True, slots=True)
class _Cell:
    """A value of one group.

    Attributes:
        value: The value.
        ends: Its bar.
        middle: The middle of the bar, which is the value as drawn.
        half: The half-width of its noise, where the bar is of that noise alone and no other group has it; else None.
    """

    value: float
    ends: Ends
    middle: float = 0.0
    half: float | None = None


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
        a, b = (_cell(release, one, place) for place in places)
        value, (low, high) = (
            (a.value - b.value, _less(a, b)) if word == "less" else (a.value / (b.value or math.inf), _over(a, b))
        )
        known = a.half is not None and b.half is not None
        held = None if known else 1 - 2 * (1 - (one.confidence or release.confidence))
        what = f"{one.what}: {name}"
        columns.append(
            Statistic(name=one.name, what=what, values=(value,), lower=(low,), upper=(high,), confidence=held)
        )
        sure = "" if held is None else f", with at least {held:.0%}, since both bars must hold"
        notes.append(f"{one.name}: {a.value:,.6g} against {b.value:,.6g}{sure}.")
    group = (", ".join(release.group_columns),)
    return replace(release, group_columns=group, keys=((name,),), statistics=tuple(columns), notes=tuple(notes))


def share_of_total(release: AnyTable, name: str, *, into: str) -> AnyTable:
    """Add each group's share of the sum over all groups of the release.

    Args:
        release: The release.
        name: A count or a sum.
        into: The name of the new statistic.

    Returns:
        The new release.

    Raises:
        ParameterError: The name is taken, or the groups' noises are not known to be independent.
    """
    new_name(release, into)
    cells = [_cell(release, release[name], place) for place in range(len(release))]
    halves = [cell.half for cell in cells if cell.half is not None]
    if len(halves) < len(cells):
        raise ParameterError("name", name, "must be a count or a sum, as drawn, with noise of its own in each group")
    whole = _Cell(
        sum(cell.value for cell in cells), (None, None), sum(cell.middle for cell in cells), math.hypot(*halves)
    )
    ends = [_fieller(cell, whole, half**2) for cell, half in zip(cells, halves, strict=True)]
    values = tuple(cell.value / (whole.value or 1.0) for cell in cells)
    lower, upper = zip(*ends, strict=True)
    share = Statistic(name=into, what=f"{name} / sum of {name}", values=values, lower=lower, upper=upper)
    return replace(release, statistics=(*release.statistics, share))


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
        low, _ = _less(*(_cell(ordered, ordered[by], one) for one in (place, place + 1)))
        ahead, behind = map(_name, ordered.keys[place : place + 2])
        words.append(f"{ahead} {'is above' if low is not None and low > 0 else 'may be equal to or below'} {behind}")
    note = f"Order by {by}, pair by pair at the confidence of its difference: {'; '.join(words)}."
    return limit(replace(ordered, notes=(*ordered.notes, note)), groups)


def _less(a: _Cell, b: _Cell) -> Ends:
    """The bar of a - b."""
    if a.half is None or b.half is None:
        (low, high), (least, most) = a.ends, b.ends
        return (
            None if low is None or most is None else low - most,
            None if high is None or least is None else high - least,
        )
    middle, off = a.middle - b.middle, math.hypot(a.half, b.half)
    off = math.floor(off) if isinstance(a.value, int) else off
    return middle - off, middle + off


def _over(a: _Cell, b: _Cell) -> Ends:
    """The bar of a / b."""
    return ratio_ends(a.ends, b.ends) if a.half is None or b.half is None else _fieller(a, b, 0.0)


def _fieller(a: _Cell, b: _Cell, common: float) -> Ends:
    """All m with (a - m b)^2 <= h_a^2 - 2 m c + m^2 h_b^2, c the square of the half-width that both share; open if b may be 0."""
    above, below = (a.half or 0.0) ** 2, (b.half or 0.0) ** 2
    lead, middle = b.middle**2 - below, a.middle * b.middle - common
    if lead <= 0:
        return None, None
    root = math.sqrt(max(middle**2 - lead * (a.middle**2 - above), 0.0))
    return (middle - root) / lead, (middle + root) / lead


def _cell(release: StatisticsTable, one: Statistic, place: int) -> _Cell:
    """Noise in whole numbers gets one step more."""
    value, low, high, half = one.values[place], one.lower[place], one.upper[place], release.own_noise(one.name)
    if half is None or low is None or high is None or abs((high - low) / 2 - half) > _OWN * (half + 1):
        return _Cell(value, (low, high))
    return _Cell(value, (low, high), (low + high) / 2, half + isinstance(value, int))


def _place(release: StatisticsTable, key: object) -> int:
    whole = key if isinstance(key, tuple) else (key,)
    if whole not in release.keys:
        raise ParameterError("group", key, "must be a key of the release, a tuple if there are several group columns")
    return release.keys.index(whole)


def _name(key: Key) -> str:
    return ", ".join("(none)" if value is None else str(value) for value in key)
