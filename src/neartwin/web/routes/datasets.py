"""Data sets: what is public of them, their rules, and who was allotted what."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Path

import neartwin.ledger as books
from neartwin.accounting.budgets import budget_of
from neartwin.tables.table import Bounds
from neartwin.tables.types import GROUPABLE, ColumnType
from neartwin.web import schemas
from neartwin.web.auth import Anyone, Caller, Curator, Overseer
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, Rule, Values, schema_of
from neartwin.web.policy import rule_for
from neartwin.web.registration import registration
from neartwin.web.service import Running

router = APIRouter(tags=["data sets"])
Named = Annotated[str, Path(max_length=100)]
Holder = Annotated[str, Path(max_length=200)]


def visible(directory: DataDirectory, name: str, caller: Caller) -> tuple[Dataset, Rule | None]:
    """A data set that the caller may see, and an analyst's rule; `AccessError` (404) otherwise."""
    dataset = directory.dataset(name)
    return dataset, None if caller.sees_all else rule_for(dataset, caller.name, caller.project)


@router.get("/datasets")
def datasets(caller: Anyone, running: Running) -> list[schemas.DatasetAnswer]:
    """The data sets that the caller may see."""
    found = running.directory.store.datasets()
    rules = [None if caller.sees_all else one.rule_for(caller.name, caller.project) for one in found]
    return [
        _answer(running.directory, one, caller, rule)
        for one, rule in zip(found, rules, strict=True)
        if rule is not None or caller.sees_all
    ]


@router.post("/datasets", status_code=201)
def register(wish: schemas.Registration, caller: Curator, running: Running) -> schemas.DatasetAnswer:
    """Register a file of the service's folder `data`. Other places are registered from the machine's terminal."""
    dataset = registration(wish, running.directory)
    running.directory.register(dataset, by=caller.name)
    return _answer(running.directory, dataset, caller, None)


@router.get("/datasets/{name}")
def dataset(name: Named, caller: Anyone, running: Running) -> schemas.DatasetAnswer:
    """One data set with its public schema: names, types, declared bounds and keys of the columns the caller may use."""
    found, rule = visible(running.directory, name, caller)
    return _answer(running.directory, found, caller, rule)


@router.get("/datasets/{name}/policy")
def policy(name: Named, _: Overseer, running: Running) -> schemas.Policy:
    """All rules of a data set."""
    return _policy(running.directory.dataset(name))


@router.put("/datasets/{name}/policy")
def set_policy(name: Named, wish: schemas.Policy, caller: Curator, running: Running) -> schemas.Policy:
    """Change who may ask what. It holds from the next question on."""
    rules = tuple(Rule.from_dict(rule.model_dump()) for rule in wish.rules)
    return _policy(running.directory.set_policy(name, rules, by=caller.name))


@router.get("/datasets/{name}/allotments")
def allotments(name: Named, caller: Anyone, running: Running) -> list[schemas.Allotment]:
    """What was allotted to whom; an analyst sees what is the analyst's own and the project's."""
    found, _ = visible(running.directory, name, caller)
    return [
        _allotment(part)
        for part in running.directory.books.account(found.name).allotments()
        if caller.sees_all or part.holder in own_holders(caller)
    ]


@router.put("/datasets/{name}/allotments/{holder}")
def allot(name: Named, holder: Holder, wish: schemas.Target, caller: Curator, running: Running) -> schemas.Allotment:
    """Set what "analyst:NAME" or "project:NAME" may spend; what was spent stays."""
    Rule(who=holder)  # its own check of what a holder is
    return _allotment(running.directory.allot(name, holder, budget_of(wish.target, "target"), by=caller.name))


@router.put("/datasets/{name}/cap")
def raise_cap(name: Named, wish: schemas.Raise, caller: Curator, running: Running) -> schemas.DatasetAnswer:
    """Raise the budget of a data set: a record for ever, after which the guarantee is the weaker one of the new cap."""
    found = running.directory.dataset(name)
    running.directory.books.raise_cap(found.name, budget_of(wish.target, "target"), wish.reason, by=caller.name)
    return _answer(running.directory, found, caller, None)


def own_holders(caller: Caller) -> set[str]:
    """The names under which a caller spends."""
    return {f"analyst:{caller.name}"} | ({f"project:{caller.project}"} if caller.project else set())


def _answer(directory: DataDirectory, dataset: Dataset, caller: Caller, rule: Rule | None) -> schemas.DatasetAnswer:
    account = directory.account(dataset)
    spent, remaining = account.spent, account.remaining
    if not caller.sees_all:
        for part in account.book.allotments():
            if part.holder in own_holders(caller):
                remaining = {pool: min(left, part.remaining[pool]) for pool, left in remaining.items()}
    now = account.book.filter
    return schemas.DatasetAnswer(
        name=dataset.name,
        about=dataset.about,
        unit=dataset.unit,
        neighbours=dataset.neighbours,
        rule=now.kind,
        budget={pool: str(amount) for pool, amount in account.book.caps.items()},
        spent={pool: str(amount) for pool, amount in spent.items()},
        remaining={pool: str(amount) for pool, amount in remaining.items()},
        promise=str(now.promise(now.caps)),
        columns=_columns(directory, dataset, rule),
        tables=_tables(directory, dataset, rule),
        allowed=None if rule is None else schemas.RuleModel.model_validate(rule.as_dict()),
    )


def _columns(directory: DataDirectory, dataset: Dataset, rule: Rule | None) -> list[schemas.Column]:
    schema = directory.rows(dataset).table.schema
    return _told_columns(schema, dataset.bounds, dataset.keys, rule, "")


def _tables(directory: DataDirectory, dataset: Dataset, rule: Rule | None) -> list[schemas.JoinableTableAnswer]:
    """The tables of which the caller may use a column."""
    opened, found = directory.tables(dataset), []
    for side in dataset.tables:
        columns = _told_columns(schema_of(opened[side.name]), side.bounds, side.keys, rule, f"{side.name}.")
        if columns:
            told = {"name": side.name, "kind": side.kind, "unit": side.unit, "columns": columns}
            found.append(schemas.JoinableTableAnswer.model_validate(told))
    return found


def _told_columns(
    schema: Mapping[str, ColumnType],
    bounds: Mapping[str, Bounds],
    keys: Mapping[str, Values],
    rule: Rule | None,
    prefix: str,
) -> list[schemas.Column]:
    allowed = None if rule is None else rule.columns
    grouped = None if rule is None else rule.group_columns
    told = {name: [str(b.low), str(b.high), str(b.step)] for name, b in bounds.items()}
    return [
        schemas.Column.model_validate(
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


def _policy(dataset: Dataset) -> schemas.Policy:
    return schemas.Policy.model_validate({"rules": [rule.as_dict() for rule in dataset.policy]})


def _allotment(part: books.Allotment) -> schemas.Allotment:
    amounts = {
        name: {pool: str(a) for pool, a in found.items()} for name, found in (("cap", part.caps), ("spent", part.spent))
    }
    return schemas.Allotment.model_validate({"holder": part.holder} | amounts)
