"""Whether a plan is what its asker may ask: judged from the plan's own stage, so SQL and JSON forms meet one judge."""

from collections.abc import Iterable

from neartwin.accounting.filters import Filter
from neartwin.errors import AccessError, QueryError
from neartwin.queries.moments import coarse
from neartwin.queries.plan import Plan
from neartwin.queries.stage import GridColumn, Stage
from neartwin.queries.table import Bounds, Table
from neartwin.queries.values import value_of
from neartwin.web.datasets import Dataset, Rule


def rule_for(dataset: Dataset, analyst: str, project: str) -> Rule:
    """The rule that decides for an asker; `AccessError` (404, as for a data set that is not there) when there is none."""
    rule = dataset.rule_for(analyst, project)
    if rule is None:
        raise unknown(dataset.name)
    return rule


def unknown(name: str) -> AccessError:
    """One refusal for a data set that is not there and for one that the asker may not see."""
    return AccessError(404, "dataset", name, "is not one that you may ask", remedy="list yours at /v1/datasets")


def check(dataset: Dataset, rule: Rule, plan: Plan, accounts: Filter) -> None:
    """Raise `AccessError` (403) for the first thing that the rule does not allow."""
    stage = plan.stage
    _columns(rule, stage)
    _keys(dataset, rule, stage)
    if not rule.own_bounds:
        for column in stage.grid.values():
            declared = _declared_bounds(dataset, stage.table, column)
            if declared is None or column.bounds not in (declared, coarse(declared)):
                raise _refused("bounds", column.column, "must be the declared ones", "leave low and high out")
    if rule.max_spend is not None:
        most, price = accounts.price(rule.max_spend), accounts.price(plan.price)
        if any(owed > cap for owed, cap in zip(price, most, strict=True)):
            raise _refused("spend", str(plan.price), f"must be at most {rule.max_spend} a release", "spend less")


def _declared_bounds(dataset: Dataset, table: Table, column: GridColumn) -> Bounds | None:
    """The declared bounds of a column, or those that follow for an expression that reads no other."""
    if column.expression is None:
        return dataset.bounds.get(column.column)
    computed = table.computed.get(column.column) or table.expression(column.column)
    if any(part.operation == "clip" for part in computed.term.walk()):  # which is to give bounds of one's own
        return None
    try:
        return value_of(table, column.column, None).bounds
    except QueryError:
        return None


def _columns(rule: Rule, stage: Stage) -> None:
    """Every column of the source that a statistic, condition or group reads, behind computed ones too."""
    used = [name for column in stage.grid.values() for name in sorted(column.columns)]
    used += [name for condition in stage.conditions for name in sorted(condition.columns)]
    computed = stage.table.computed
    groups = [
        part
        for name in stage.group_columns
        for part in (sorted(computed[name].columns) if name in computed else [name])
    ]
    _allowed("column", used, rule.columns)
    _allowed("column", groups, rule.columns)
    _allowed("group_by", groups, rule.group_columns)


def _allowed(name: str, used: Iterable[str], allowed: tuple[str, ...] | None) -> None:
    for column in used:
        if allowed is not None and column not in allowed:
            raise _refused(
                name, column, "is not one that the policy lets you use", f"use {', '.join(allowed) or 'none'}"
            )


def _keys(dataset: Dataset, rule: Rule, stage: Stage) -> None:
    if stage.keys is None:
        if not rule.discover:
            raise _refused("keys", "null", "must be given: the policy does not let you discover groups", "give keys")
        return
    if rule.own_keys:
        return
    for place, column in enumerate(stage.group_columns):
        declared = {_same(value) for value in dataset.keys.get(column, ())}
        for key in stage.keys:
            if _same(key[place]) not in declared:
                raise _refused("keys", str(key[place]), f"is not among the declared keys of {column!r}", "use those")


def _same(value: object) -> tuple[str, str]:
    """A key as text with its type; a date and its text are the same, for JSON has no dates."""
    return ("str" if not isinstance(value, bool | int | None) else type(value).__name__, str(value))


def _refused(name: str, value: str, rule: str, remedy: str) -> AccessError:
    return AccessError(403, name, value, rule, remedy=remedy)
