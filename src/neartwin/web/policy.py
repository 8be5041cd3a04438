"""Whether a plan is what its asker may ask: judged from the plan's own stage, so SQL and JSON forms meet one judge."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass

from neartwin.accounting.filters import Filter
from neartwin.engines.sql import needed_columns
from neartwin.errors import AccessError
from neartwin.queries.plan import Plan
from neartwin.queries.series import SeriesPlan
from neartwin.queries.stage import Stage
from neartwin.queries.table import Table
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


def check(dataset: Dataset, rule: Rule, plan: Plan | SeriesPlan, accounts: Filter) -> None:
    """Raise `AccessError` (403) for the first thing that the rule does not allow, in any stage of the plan or series."""
    for stage in stages_of(plan):
        _columns(rule, stage)
        _keys(dataset, rule, stage)
        if not rule.own_bounds:
            for column in stage.grid.values():
                if dataset.bounds.get(column.column) != column.bounds:
                    raise _refused("bounds", column.column, "must be the declared ones", "leave low and high out")
    if rule.max_spend is not None:
        most, price = accounts.price(rule.max_spend), accounts.price(plan.price)
        if any(owed > cap for owed, cap in zip(price, most, strict=True)):
            raise _refused("spend", str(plan.price), f"must be at most {rule.max_spend} a release", "spend less")


def stages_of(part: object) -> tuple[Stage, ...]:
    """Every stage anywhere in a plan, pilots and splits of any kind included: whatever asks the data is judged."""
    if isinstance(part, Stage):
        return (part,)
    if isinstance(part, Mapping):
        inner: Iterable[object] = part.values()
    elif isinstance(part, tuple):
        inner = part
    elif is_dataclass(part):
        inner = (getattr(part, field.name) for field in fields(part))
    else:
        return ()
    return tuple(stage for one in inner for stage in stages_of(one))


def _columns(rule: Rule, stage: Stage) -> None:
    table = stage.table
    if table.joins:
        raise _refused("join", table.name, "is not served: a policy is about one table", "ask the data set alone")
    grouped = [name for column in stage.group_columns for name in _sources(table, column)]
    used = [name for column in stage.grid.values() for name in sorted(column.columns)]
    used += [name for condition in stage.conditions for name in sorted(condition.columns)]
    known = {table.unit, *(table.period.columns if table.period is not None else ())}
    used += sorted({name for part in needed_columns(stage) for name in part} - known)  # what the engine will read
    _allowed("column", [*used, *grouped], rule.columns)
    _allowed("group_by", grouped, rule.group_columns)


def _sources(table: Table, column: str) -> tuple[str, ...]:
    """The columns of the source behind a group column, which may be computed."""
    computed = table.computed.get(column)
    return (column,) if computed is None else tuple(sorted(computed.columns))


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
