"""Linear workloads in SQL: sums over the groups as windows, RANGES(...) and WEIGHTED_SUMS(...), read from parsed nodes.

| SQL | workload |
|---|---|
| SUM(COUNT(*)) OVER (ORDER BY age) | prefix_sums() |
| SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 6 PRECEDING AND 1 FOLLOWING) | moving_sums(6, 1) |
| RANGES(COUNT(*)), RANGES(COUNT(*), [5, 10]) | range_sums(), range_sums([5, 10]) |
| WEIGHTED_SUMS(COUNT(*), MAP {'minors': MAP {16: 1, 17: 1}}) | {"minors": {16: 1, 17: 1}} |

SUM(x) or COUNT(x) may replace COUNT(*). A window goes over the public keys in the order of their values, from the
largest with DESC. Ranges go by the given order of the keys.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.interactive import instead
from neartwin.queries.arithmetic import FRAMED, NEAR, PLACES
from neartwin.queries.query import Groups
from neartwin.queries.sql.derived import statistics_in
from neartwin.queries.sql.spelling import value_of
from neartwin.queries.workloads import Workload, moving_sums, prefix_sums, range_sums, weighted
from neartwin.tables.expressions import not_understood, rows_around

_HINT = instead("windows", "sums")


@dataclass(frozen=True, slots=True)
class Asked:
    """The question of a SELECT over its groups.

    Attributes:
        workload: The linear queries.
        along: The order of the window, or None.
    """

    workload: Workload
    along: exp.Ordered | None = None

    def of(self, groups: Groups, expressions: Mapping[str, str]) -> Groups:
        """The groups with this workload.

        Args:
            groups: The groups.
            expressions: The group columns by name, as SQL text.

        Returns:
            The new groups.

        Raises:
            QueryError: The window goes along anything but the one group column, or its keys have no order.
        """
        if self.along is None or groups.keys is None:
            return groups.workload(self.workload)
        by, order = self.along.this, self.along.args
        text = by.sql(dialect="duckdb", comments=False)
        name = by.name if isinstance(by, exp.Column) and not by.table else ""
        if len(groups.columns) != 1 or (name != groups.columns[0] and text != expressions[groups.columns[0]]):
            raise QueryError(f"OVER (ORDER BY {text}) must name the one column of GROUP BY: {_HINT}")
        null = [key for key in groups.keys if key[0] is None]
        others = sorted((key for key in groups.keys if key[0] is not None), reverse=bool(order.get("desc")))
        ordered = (*null, *others) if order.get("nulls_first") else (*others, *null)
        return replace(groups, keys=ordered).workload(self.workload)


def without_workload(select: exp.Select) -> tuple[exp.Select, Asked | None]:
    """Replace a sum over the groups by the statistic of each group.

    Args:
        select: The statement.

    Returns:
        The new statement, and the question over the groups, or None.

    Raises:
        QueryError: A window or argument is not understood, or there are several.
    """
    found = {place: one for place, item in enumerate(select.expressions) if (one := _read(item.unalias())) is not None}
    # SQL leaves groups out before it adds up
    early = select.args.get("having") is not None and "late" not in select.meta
    windows = all(isinstance(select.expressions[place].unalias(), exp.Window) for place in found)
    if not found or (early and windows):
        return select, None
    changed = select.copy()
    for place, (statistic, _) in found.items():
        changed.expressions[place].unalias().replace(statistic.copy())
    if sum(item.find(exp.AggFunc) is not None for item in changed.expressions) > 1:
        if windows:
            return select, None  # they are added up from the released statistics
        raise QueryError("a sum over groups must be the only statistic; ask others in further statements of a series")
    return changed, next(asked for _, asked in found.values())


def _read(node: exp.Expr) -> tuple[exp.Expr, Asked] | None:
    """The statistic of each group and what is asked over the groups."""
    if isinstance(node, exp.Window):
        return _window(node)
    if not isinstance(node, exp.Anonymous) or str(node.this).upper() not in {"RANGES", "WEIGHTED_SUMS"}:
        return None
    statistic, *rest = node.expressions or [None]
    if not _is_sum(statistic) or len(rest) > 1:
        raise _refused(node)
    weights = value_of(rest[0]) if rest else None
    if str(node.this).upper() == "RANGES" and (isinstance(weights, list) or not rest):
        return statistic, Asked(range_sums(weights))
    if not isinstance(weights, dict) or not all(isinstance(one, dict) for one in weights.values()):
        raise _refused(node)
    return statistic, Asked(weighted({name: _by_key(one) for name, one in weights.items()}))


def _by_key(weights: dict[Any, Any]) -> dict[Any, Any]:
    """Weights by key; DuckDB lists the keys of several columns beside their weights."""
    apart = isinstance(weights.get("key"), list) and isinstance(weights.get("value"), list)
    return dict(zip(map(tuple, weights["key"]), weights["value"], strict=True)) if apart else weights


def _window(node: exp.Window) -> tuple[exp.Expr, Asked] | None:
    """SUM(...) OVER (ORDER BY key ...), and no more than that; None for what may be computed of released statistics."""
    others = {name for name, value in node.args.items() if value} - {"this", "order", "spec", "over"}
    match node:
        case exp.Window(this=exp.Sum(this=inner), args={"order": exp.Order(expressions=[item])}):
            if _is_sum(inner) and not others and (workload := _frame(node)) is not None:
                return inner, Asked(workload, item)
    if isinstance(node.this, (*PLACES, *NEAR, *FRAMED)) and statistics_in(node):
        return None
    raise _refused(node)


def _frame(node: exp.Window) -> Workload | None:
    """Prefixes or moving sums, as the frame says; keys differ, so that ROWS and RANGE to the current row are the same."""
    first, last = rows_around(node.args.get("spec")) or (0, 0)
    if (first, last) == (-math.inf, 0):
        return prefix_sums()
    if not -math.inf < first <= 0 <= last < math.inf or first == last:
        return None
    return moving_sums(int(-first), int(last))


def _is_sum(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Count | exp.Sum) and not isinstance(node.this, exp.AggFunc | exp.Distinct)


def _refused(node: exp.Expr) -> QueryError:
    return not_understood(node, instead("windows", getattr(node.this, "key", "")) or _HINT)
