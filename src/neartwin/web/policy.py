"""Decides whether an analyst may ask a plan. It reads the plan's stages, so SQL and JSON forms meet one judge."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass

from neartwin.engines.sql.joins import sources_of
from neartwin.engines.sql.statement import column_aliases
from neartwin.errors import AccessError
from neartwin.ledger import Account
from neartwin.planning.plan import Plan
from neartwin.planning.planner import SeriesPlan
from neartwin.planning.stage import Stage
from neartwin.queries.query import Query, Rows, TopK, origins_of, table_of
from neartwin.tables.joins import OtherTable
from neartwin.tables.per_unit import units_of
from neartwin.tables.sources import Source
from neartwin.tables.table import Join, Table
from neartwin.web.datasets import Dataset, Rule


def rule_for(dataset: Dataset, holders: Sequence[str]) -> Rule:
    """The rule that decides for a caller.

    Args:
        dataset: The data set.
        holders: The names under which the caller spends.

    Raises:
        AccessError: No rule fits. The refusal is that of a data set that does not exist.
    """
    rule = dataset.rule_for(holders)
    if rule is None:
        raise unknown(dataset.name)
    return rule


def unknown(name: str) -> AccessError:
    """The refusal for a data set that does not exist and for one that the analyst may not see."""
    return AccessError(
        404, "dataset", name, "is not one that you may ask", remedy="look at the list of those that you may"
    )


def check(
    dataset: Dataset,
    rule: Rule,
    plan: Plan | SeriesPlan,
    account: Account,
    tables: Mapping[str, Rows | OtherTable] | None = None,
) -> None:
    """Check every stage of a plan or series against a rule.

    Args:
        dataset: The data set.
        rule: The analyst's rule. It names columns of joined tables TABLE.column.
        plan: The plan.
        account: The account, which prices the plan.
        tables: The tables that may be joined, by name.

    Raises:
        AccessError: Status 403, for the first part that the rule does not allow.
    """
    for stage in stages_of(plan):
        names = {table_of(other).source: name for name, other in (tables or {}).items()} | {stage.table.source: ""}
        for source, _, join, _ in sources_of(stage.table, ()):
            if source not in names:
                rule_of_joins = f"is not a table registered with {dataset.name!r}"
                raise _refused("join", join.name if join else "", rule_of_joins, "join those that are")
        named = origins_of(stage.table, tables or {})
        _columns(rule, stage, names)
        _keys(dataset, rule, stage, named)
        if not rule.own_bounds:
            for column in stage.grid.values():
                part, own = dataset.part(column.column, named)
                if column.column and part.bounds.get(own) != column.bounds:  # "": what clipping changes of another
                    raise _refused("bounds", column.column, "must be the declared ones", "leave low and high out")
    if rule.max_spend is not None:
        most, price = map(account.filter.price, (rule.max_spend, plan.price))
        if any(owed > cap for owed, cap in zip(price, most, strict=True)):
            raise _refused("spend", str(plan.price), f"must be at most {rule.max_spend} a release", "spend less")


def stages_of(part: object) -> tuple[Stage, ...]:
    """Every stage anywhere in a plan, those of pilots and splits included. Only stages ask the data.

    A question is not searched: it is what a plan's stages are made of, and knows no stage.
    """
    if isinstance(part, Stage):
        return (part,)
    if isinstance(part, Mapping):
        inner: Iterable[object] = part.values()
    elif isinstance(part, tuple):
        inner = part
    elif is_dataclass(part) and not isinstance(part, Query | TopK):
        inner = (getattr(part, field.name) for field in fields(part))
    else:
        return ()
    return tuple(stage for one in inner for stage in stages_of(one))


def _columns(rule: Rule, stage: Stage, names: Mapping[Source, str]) -> None:
    table = stage.table
    grouped = [name for column in stage.group_columns for name in _behind(table, column, names)]
    said = [column for one in stage.grid.values() for column in sorted(one.columns)]
    said += [column for one in stage.conditions for column in sorted(one.columns)]
    used = [name for column in said for name in _behind(table, column, names)]
    free = table.period.columns if table.period is not None else frozenset()
    for source, columns, _, unit in sources_of(table, tuple(column_aliases(stage))):  # what the engine will read
        used += [_called(source, name, names) for name in columns if name != unit and name not in free]
    _allowed("column", [*used, *grouped], rule.columns)
    _allowed("group_by", grouped, rule.group_columns)


def _called(source: Source, name: str, names: Mapping[Source, str]) -> str:
    """A column in the words of a rule."""
    return f"{names[source]}.{name}" if names[source] else name


def _behind(table: Table, column: str, names: Mapping[Source, str]) -> list[str]:
    """The columns of sources that a column is computed from, in the words of a rule."""
    if column in table.computed:
        return [name for one in sorted(table.computed[column].columns) for name in _behind(table, one, names)]
    part: Table | Join = next((join for join in table.joins if column in join.columns), table)
    own = part.columns[column] if isinstance(part, Join) else column
    if part.per_unit is None:
        return [_called(part.source, own, names)]
    inside = part.per_unit
    if own not in inside.columns:
        return _behind(inside.table, own if inside.by is None else inside.by[own], names)
    read = inside.columns[own].columns.union((inside.by or {}).values(), *(one.columns for one in inside.conditions))
    found = [name for one in sorted(read - units_of(inside.table)) for name in _behind(inside.table, one, names)]
    met = [left for left, _ in part.on if left != table.unit] if isinstance(part, Join) else []  # by which it is found
    return [*found, *(name for left in met for name in _behind(table, left, names))]


def _allowed(name: str, used: Iterable[str], allowed: tuple[str, ...] | None) -> None:
    for column in used:
        if allowed is not None and column not in allowed:
            remedy = f"use {', '.join(allowed) or 'none'}"
            raise _refused(name, column, "is not one that the policy lets you use", remedy)


def _keys(dataset: Dataset, rule: Rule, stage: Stage, named: Mapping[str, tuple[str, str]]) -> None:
    if stage.keys is None:
        if not rule.discover:
            raise _refused("keys", "null", "must be given: the policy does not let you discover groups", "give keys")
        return
    if rule.own_keys:
        return
    for place, column in enumerate(stage.group_columns):
        part, own = dataset.part(column, named)
        declared = {_same(value) for value in part.keys.get(own, ())}
        for key in stage.keys:
            if _same(key[place]) not in declared:
                raise _refused("keys", str(key[place]), f"is not among the declared keys of {column!r}", "use those")


def _same(value: object) -> tuple[str, str]:
    """A key as text with its type. A date equals its text, because JSON has no dates."""
    return ("str" if not isinstance(value, bool | int | None) else type(value).__name__, str(value))


def _refused(name: str, value: str, rule: str, remedy: str) -> AccessError:
    return AccessError(403, name, value, rule, remedy=remedy)
