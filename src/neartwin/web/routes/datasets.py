"""Data sets: what is public of them, their rules, and who was allotted what."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Path

import neartwin.ledger as books
from neartwin.accounting.written import target_of
from neartwin.queries.table import Bounds
from neartwin.queries.types import GROUPABLE, ColumnType
from neartwin.web import shapes
from neartwin.web.access import Anyone, Caller, Curator, Overseer
from neartwin.web.datasets import Dataset, Rule, Values
from neartwin.web.house import House
from neartwin.web.policy import rule_for
from neartwin.web.reading import registration
from neartwin.web.service import Running
from neartwin.web.sides import schema_of

router = APIRouter(tags=["data sets"])
Named = Annotated[str, Path(max_length=100)]
Holder = Annotated[str, Path(max_length=200)]


def visible(house: House, name: str, caller: Caller) -> tuple[Dataset, Rule | None]:
    """A data set that the caller may see, and an analyst's rule; `AccessError` (404) otherwise."""
    dataset = house.dataset(name)
    return dataset, None if caller.sees_all else rule_for(dataset, caller.name, caller.project)


@router.get("/datasets")
def datasets(caller: Anyone, running: Running) -> list[shapes.DatasetAnswer]:
    """The data sets that the caller may see."""
    found = running.house.store.datasets()
    rules = [None if caller.sees_all else one.rule_for(caller.name, caller.project) for one in found]
    return [
        _answer(running.house, one, caller, rule)
        for one, rule in zip(found, rules, strict=True)
        if rule is not None or caller.sees_all
    ]


@router.post("/datasets", status_code=201)
def register(wish: shapes.Registration, caller: Curator, running: Running) -> shapes.DatasetAnswer:
    """Register a file of the service's folder `data`. Other places are registered from the machine's terminal."""
    dataset = registration(wish, running.house)
    running.house.register(dataset, by=caller.name)
    return _answer(running.house, dataset, caller, None)


@router.get("/datasets/{name}")
def dataset(name: Named, caller: Anyone, running: Running) -> shapes.DatasetAnswer:
    """One data set with its public schema: names, types, declared bounds and keys of the columns the caller may use."""
    found, rule = visible(running.house, name, caller)
    return _answer(running.house, found, caller, rule)


@router.get("/datasets/{name}/policy")
def policy(name: Named, _: Overseer, running: Running) -> shapes.Policy:
    """All rules of a data set."""
    return _policy(running.house.dataset(name))


@router.put("/datasets/{name}/policy")
def set_policy(name: Named, wish: shapes.Policy, caller: Curator, running: Running) -> shapes.Policy:
    """Change who may ask what. It holds from the next question on."""
    rules = tuple(Rule.from_dict(rule.model_dump()) for rule in wish.rules)
    return _policy(running.house.set_policy(name, rules, by=caller.name))


@router.get("/datasets/{name}/allotments")
def allotments(name: Named, caller: Anyone, running: Running) -> list[shapes.Allotment]:
    """What was allotted to whom; an analyst sees what is the analyst's own and the project's."""
    found, _ = visible(running.house, name, caller)
    return [
        _allotment(part)
        for part in running.house.books.account(found.name).allotments()
        if caller.sees_all or part.holder in own_holders(caller)
    ]


@router.put("/datasets/{name}/allotments/{holder}")
def allot(name: Named, holder: Holder, wish: shapes.Target, caller: Curator, running: Running) -> shapes.Allotment:
    """Set what "analyst:NAME" or "project:NAME" may spend; what was spent stays."""
    Rule(who=holder)  # its own check of what a holder is
    return _allotment(running.house.allot(name, holder, target_of(wish.target, "target"), by=caller.name))


@router.put("/datasets/{name}/cap")
def raise_cap(name: Named, wish: shapes.Raise, caller: Curator, running: Running) -> shapes.DatasetAnswer:
    """Raise the budget of a data set: a record for ever, after which the guarantee is the weaker one of the new cap."""
    found = running.house.dataset(name)
    running.house.books.raise_cap(found.name, target_of(wish.target, "target"), wish.reason, by=caller.name)
    return _answer(running.house, found, caller, None)


def own_holders(caller: Caller) -> set[str]:
    """The names under which a caller spends."""
    return {f"analyst:{caller.name}"} | ({f"project:{caller.project}"} if caller.project else set())


def _answer(house: House, dataset: Dataset, caller: Caller, rule: Rule | None) -> shapes.DatasetAnswer:
    account = house.account(dataset)
    spent, remaining = account.spent, account.remaining
    if not caller.sees_all:
        for part in account.book.allotments():
            if part.holder in own_holders(caller):
                remaining = {pool: min(left, part.remaining[pool]) for pool, left in remaining.items()}
    now = account.book.filter
    return shapes.DatasetAnswer(
        name=dataset.name,
        about=dataset.about,
        unit=dataset.unit,
        neighbours=dataset.neighbours,
        rule=now.kind,
        budget={pool: str(amount) for pool, amount in account.book.caps.items()},
        spent={pool: str(amount) for pool, amount in spent.items()},
        remaining={pool: str(amount) for pool, amount in remaining.items()},
        promise=str(now.promise(now.caps)),
        columns=_columns(house, dataset, rule),
        tables=_tables(house, dataset, rule),
        allowed=None if rule is None else shapes.RuleShape.model_validate(rule.as_dict()),
    )


def _columns(house: House, dataset: Dataset, rule: Rule | None) -> list[shapes.Column]:
    schema = house.rows(dataset).table.schema
    return _told_columns(schema, dataset.bounds, dataset.keys, rule, "")


def _tables(house: House, dataset: Dataset, rule: Rule | None) -> list[shapes.SideAnswer]:
    """The tables of which the caller may use a column."""
    opened, found = house.tables(dataset), []
    for side in dataset.tables:
        columns = _told_columns(schema_of(opened[side.name]), side.bounds, side.keys, rule, f"{side.name}.")
        if columns:
            told = {"name": side.name, "kind": side.kind, "unit": side.unit, "columns": columns}
            found.append(shapes.SideAnswer.model_validate(told))
    return found


def _told_columns(
    schema: Mapping[str, ColumnType],
    bounds: Mapping[str, Bounds],
    keys: Mapping[str, Values],
    rule: Rule | None,
    prefix: str,
) -> list[shapes.Column]:
    allowed = None if rule is None else rule.columns
    grouped = None if rule is None else rule.group_columns
    told = {name: [str(b.low), str(b.high), str(b.step)] for name, b in bounds.items()}
    return [
        shapes.Column.model_validate(
            {
                "name": column,
                "type": str(kind),
                "bounds": told.get(column),
                "keys": list(keys[column]) if column in keys else None,
                "groupable": kind in GROUPABLE and (grouped is None or prefix + column in grouped),
            }
        )
        for column, kind in schema.items()
        if allowed is None or prefix + column in allowed
    ]


def _policy(dataset: Dataset) -> shapes.Policy:
    return shapes.Policy.model_validate({"rules": [rule.as_dict() for rule in dataset.policy]})


def _allotment(part: books.Allotment) -> shapes.Allotment:
    amounts = {
        name: {pool: str(a) for pool, a in found.items()} for name, found in (("cap", part.caps), ("spent", part.spent))
    }
    return shapes.Allotment.model_validate({"holder": part.holder} | amounts)
