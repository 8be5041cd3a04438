"""Consistency of a release with known facts about any truth. It is post-processing, so it costs nothing and keeps the
guarantee.

The effect on error bars:

- `non_negative` cuts values and bars at 0. The truth is at least 0, so each bar still holds it, with the same
  probability.
- `monotone` and `make_consistent` move values and leave bars. Each bar still holds the truth with its own probability.
  The new
value may lie off its middle, or outside. Its expected error is smaller.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import numpy as np

from neartwin.errors import ParameterError
from neartwin.exact import FloatArray
from neartwin.releases.values import AnyTable, Statistic, StatisticsTable
from neartwin.tables.types import Key


def non_negative(release: AnyTable, *names: str) -> AnyTable:
    """Cut statistics that cannot be negative, such as counts, at 0 with their bars. Sums of them grow a little.

    Args:
        release: The release.
        names: The statistics.

    Returns:
        The new release.

    Raises:
        ParameterError: A statistic is missing.
    """
    said = "values below 0 were cut to 0; each bar holds as before, and totals of cut values are too high."
    return _with(release, {name: _cut(release[name]) for name in names}, said)


def _cut(statistic: Statistic) -> Statistic:
    values = tuple(value if math.isnan(value) else max(0, value) for value in statistic.values)
    lower = tuple(0 if end is None else max(0, end) for end in statistic.lower)
    upper = tuple(end if end is None else max(0, end) for end in statistic.upper)
    near = _cut(statistic.within_limits) if statistic.noise else None
    noise = (near.lower, near.upper) if near else None
    return replace(statistic, values=values, lower=lower, upper=upper, noise=noise)


def monotone(release: AnyTable, *names: str, increasing: bool = True) -> AnyTable:
    """Replace statistics that can only grow (or fall) along the release's groups by the nearest such values.

    Nearest is in squares weighted by the bars. Isotonic regression never moves further from a monotone truth than the
    noise did.

    Args:
        release: The release, in the order of its groups.
        names: The statistics.
        increasing: Whether they grow; False if they fall.

    Returns:
        The new release.

    Raises:
        ParameterError: A statistic is missing.

    Source:
        Barlow, Bartholomew, Bremner, Brunk 1972, Thm 1.3.
    """
    changed = {name: _moved(release, name, _isotonic(release[name], increasing=increasing)) for name in names}
    said = f"made {'in' if increasing else 'de'}creasing along the groups by least squares; {_AS_DRAWN}"
    return _with(release, changed, said)


def _moved(release: AnyTable, name: str, values: FloatArray) -> Statistic:
    """A statistic with other values, whose bars are no longer as drawn around them."""
    return replace(
        release[name], values=tuple(values.tolist()), confidence=release[name].confidence or release.confidence
    )


def _isotonic(statistic: Statistic, *, increasing: bool) -> FloatArray:
    """The nearest rising or falling values, by SciPy, which is slow to import."""
    from scipy.optimize import isotonic_regression

    values = np.asarray(statistic.values, dtype=float)
    return isotonic_regression(values, weights=1.0 / _variances(statistic), increasing=increasing).x


def make_consistent(*levels: AnyTable, name: str) -> tuple[AnyTable, ...]:
    """Make releases of one statistic consistent, from the whole to its parts.

    The estimates are the least-squares ones, weighted by the bars, in which parts sum to their whole. For independent
    noise no linear unbiased estimate has less variance. Sums are exact up to rounding.

    Args:
        levels: Releases, coarsest first. The group columns of each are among those of the next, and every group has its
            parent. The first may be one release without groups.
        name: The statistic.

    Returns:
        The releases with the new estimates.

    Raises:
        ParameterError: A group has no parent, or a parent has no parts. Some parts may not have been found.

    Source:
        Hay, Rastogi, Miklau, Suciu 2010, for any tree and weights.

    >>> import neartwin as nt, pyarrow as pa
    >>> data = pa.table({"who": [1, 2, 3], "town": ["Ulm", "Ulm", "Bonn"]})
    >>> rows, sure = nt.table(data, unit="who", name="visits"), nt.limits(max_groups=1)
    >>> with nt.open_ledger(getfixture("tmp_path") / "budget.db") as ledger:
    ...     account = ledger.open(rows, nt.pure(2))
    ...     towns = rows.group_by("town", keys=["Bonn", "Ulm"]).agg(n=nt.count_distinct_units())
    ...     parts = account.release(account.plan(towns, spend=nt.pure(1), limits=sure))
    ...     total = account.release(account.plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure(1)))
    >>> total, parts = nt.make_consistent(total, parts, name="n")
    >>> round(abs(total["n"].values[0] - sum(parts["n"].values)), 9)
    0.0
    """
    if len(levels) < 2:
        raise ParameterError("levels", len(levels), "must be at least two releases, the whole first")
    parents = [_parents(upper, lower) for upper, lower in pairwise(levels)]
    values = [np.asarray(level[name].values, dtype=float) for level in levels]
    variances = [_variances(level[name]) for level in levels]
    for depth in range(len(levels) - 2, -1, -1):  # upwards: estimate each total from all parts below it
        sums, spread = (np.bincount(parents[depth], of[depth + 1], len(levels[depth])) for of in (values, variances))
        share = spread / (spread + variances[depth])
        values[depth] = share * values[depth] + (1 - share) * sums
        variances[depth] = share * variances[depth]
    for depth, parent in enumerate(parents):  # downwards: share each total's difference among its parts by variance
        sums, spread = (np.bincount(parent, of[depth + 1], len(levels[depth])) for of in (values, variances))
        values[depth + 1] = values[depth + 1] + ((values[depth] - sums) / spread)[parent] * variances[depth + 1]
    said = f"made to sum over {len(levels)} releases by least squares; {_AS_DRAWN}"
    new = ({name: _moved(level, name, own)} for level, own in zip(levels, values, strict=True))
    return tuple(_with(level, changed, said) for level, changed in zip(levels, new, strict=True))


_AS_DRAWN = "bars are those of the values as drawn, and hold."


def _with(release: AnyTable, changed: Mapping[str, Statistic], said: str) -> AnyTable:
    """The release with other statistics of these names, and a note on them."""
    if not changed:
        raise ParameterError("names", (), "must name the statistics, as in monotone('n')")
    statistics = tuple(changed.get(one.name, one) for one in release.statistics)
    note = f"{', '.join(map(repr, changed))}: {said}"
    return replace(release, statistics=statistics, notes=(*release.notes, note))


def _parents(upper: StatisticsTable, lower: StatisticsTable) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """For each group of the lower level, the place of its parent in the upper one."""
    missing = [column for column in upper.group_columns if column not in lower.group_columns]
    if missing:
        raise ParameterError("levels", missing[0], "must be a group column of the next level too")
    places = {key: place for place, key in enumerate(upper.keys)}
    at = [lower.group_columns.index(column) for column in upper.group_columns]
    parents: list[Key] = [tuple(key[i] for i in at) for key in lower.keys]
    for key in parents:
        if key not in places:
            raise ParameterError(
                "levels", key, "is a group of parts without a whole", remedy="give both levels public keys"
            )
    for key in set(places) - set(parents):
        raise ParameterError("levels", key, "is a whole without parts", remedy="give both levels public keys")
    return np.array([places[key] for key in parents], dtype=np.int64)


def _variances(statistic: Statistic) -> FloatArray:
    """Squared half-widths: variances up to one factor, where one kind of noise was used. An exact value weighs all.

    A bar that is open on one side is as wide as on the other.
    """
    near = statistic.within_limits  # what limits took is no noise
    sides = zip(near.values, near.lower, near.upper, strict=True)
    known = ([abs(end - value) for end in (low, high) if end is not None] for value, low, high in sides)
    halves = np.array([fmean(of or [np.inf]) for of in known])
    if not np.isfinite(halves).all():
        raise ParameterError(
            "name", statistic.name, "must have finite bars", remedy="make its parts consistent, then divide"
        )
    squares: FloatArray = np.maximum(halves, 1e-9 * max(1.0, float(halves.max(initial=0.0)))) ** 2
    return squares
