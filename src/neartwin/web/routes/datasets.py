"""Routes of data sets: their public facts, their rules, and their allotments."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Path

import neartwin.ledger as books
from neartwin.accounting.budgets import budget_of
from neartwin.errors import AccessError
from neartwin.queries.query import table_of
from neartwin.tables.types import GROUPABLE, ColumnType
from neartwin.web import schemas
from neartwin.web.auth import Anyone, Caller, Curator, Overseer
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, JoinableTable, Rule, bounds_text
from neartwin.web.policy import rule_for
from neartwin.web.service import Running

router = APIRouter(prefix="/v1", tags=["data sets"])
Named = Annotated[str, Path(max_length=100)]
Holder = Annotated[str, Path(max_length=200)]


def visible(directory: DataDirectory, name: str, caller: Caller) -> tuple[Dataset, Rule | None]:
    """A data set that the caller may see, with an analyst's rule.

    Raises:
        AccessError: Status 404. The caller may not see the data set, or it does not exist.
    """
    dataset = directory.dataset(name)
    return dataset, None if caller.sees_all else rule_for(dataset, caller.holders)


@router.get("/datasets")
def datasets(caller: Anyone, running: Running) -> list[schemas.DatasetAnswer]:
    """The data sets that the caller may see."""
    rules = {one.name: one.rule_for(caller.holders) for one in running.directory.store.datasets()}
    names = [name for name, rule in rules.items() if caller.sees_all or rule is not None]
    return [dataset(name, caller, running) for name in names]


@router.post("/datasets", status_code=201)
def register(wish: schemas.Registration, caller: Curator, running: Running) -> schemas.DatasetAnswer:
    """Register a file of the service's folder `data`. Other places are registered from the machine's terminal."""
    body = wish.model_dump()
    for part in (body, *body["tables"]):
        part["place"] = str(running.directory.file(part.pop("file")))
    dataset = Dataset.from_dict(body)
    running.directory.register(dataset, by=caller.name)
    return _answer(running.directory, dataset, caller, None)


@router.get("/datasets/{name}")
def dataset(name: Named, caller: Anyone, running: Running) -> schemas.DatasetAnswer:
    """One data set with its public schema: names, types, declared bounds and keys of the columns the caller may use."""
    registered, rule = visible(running.directory, name, caller)
    return _answer(running.directory, registered, caller, rule)


@router.get("/datasets/{name}/policy")
def policy(name: Named, _: Overseer, running: Running) -> schemas.Policy:
    """All rules of a data set."""
    return _policy(running.directory.dataset(name))


@router.put("/datasets/{name}/policy")
def set_policy(name: Named, wish: schemas.Policy, caller: Curator, running: Running) -> schemas.Policy:
    """Replace the rules of a data set. They hold from the next question on."""
    rules = tuple(Rule.from_dict(rule.model_dump()) for rule in wish.rules)
    return _policy(running.directory.set_policy(name, rules, by=caller.name))


@router.get("/datasets/{name}/allotments", response_model=list[schemas.Allotment])
def allotments(name: Named, caller: Anyone, running: Running) -> list[books.Allotment]:
    """The allotments of a data set. An analyst sees those of the analyst and the project."""
    registered, _ = visible(running.directory, name, caller)
    account = running.directory.books.account(registered.name)
    return list(account.allotments()) if caller.sees_all else list(_own_allotments(account, caller).values())


@router.put("/datasets/{name}/allotments/{holder}", response_model=schemas.Allotment)
def allot(name: Named, holder: Holder, wish: schemas.Target, caller: Curator, running: Running) -> books.Allotment:
    """Set the amount that "analyst:NAME", "agent:NAME" or "project:NAME" may spend. Spent amounts stay spent."""
    return running.directory.allot(name, holder, budget_of(wish.target, "target"), by=caller.name)


@router.put("/datasets/{name}/cap")
def raise_cap(name: Named, wish: schemas.Raise, caller: Curator, running: Running) -> schemas.DatasetAnswer:
    """Raise the budget of a data set. The record is permanent, and the guarantee is then the weaker one of the new cap."""
    registered = running.directory.dataset(name)
    running.directory.books.raise_cap(registered.name, budget_of(wish.target, "target"), wish.reason, by=caller.name)
    return _answer(running.directory, registered, caller, None)


def _own_allotments(account: books.Account, caller: Caller) -> dict[str, books.Allotment]:
    return {name: part for name in sorted(caller.holders) if (part := account.allotment(name))}


def payable(directory: DataDirectory, dataset: Dataset, caller: Caller) -> dict[str, Fraction]:
    """The amount that the caller can pay now, by pool.

    It is the least of the account's remaining amount and that of each allotment that pays too.
    """
    account = directory.books.account(dataset.name)
    left = account.remaining
    if caller.sees_all:
        return left
    parts = {name: part.remaining for name, part in _own_allotments(account, caller).items()}
    rule = dataset.rule_for(caller.holders)
    first_allotment = None if rule is None else rule.first_allotment(caller.holders[0])
    if first_allotment is not None:  # what the first release will give
        parts.setdefault(caller.holders[0], account.rule.amounts(account.rule.caps(first_allotment)))
    for name in caller.holders:
        limit = parts.get(name, dict.fromkeys(left, Fraction(0)))
        left = {pool: min(amount, limit[pool]) for pool, amount in left.items()}
    return left


def _answer(directory: DataDirectory, dataset: Dataset, caller: Caller, rule: Rule | None) -> schemas.DatasetAnswer:
    account = directory.books.account(dataset.name)
    now = account.filter
    return schemas.DatasetAnswer.model_validate(
        {
            "name": dataset.name,
            "about": dataset.about,
            "unit": dataset.unit,
            "neighbours": dataset.neighbours,
            "rule": now.kind,
            "budget": account.caps,
            "spent": account.spent,
            "remaining": payable(directory, dataset, caller),
            "promise": str(now.promise(now.caps)),
            "allowed": None if rule is None else rule.as_dict(),
        }
        | _facts(directory, dataset, rule)
    )


def _facts(directory: DataDirectory, dataset: Dataset, rule: Rule | None) -> dict[str, Any]:
    """The columns and tables. A data set that cannot be read has none, and says so: others are listed all the same."""
    try:
        schema = directory.rows(dataset).table.schema
        return {"columns": usable(schema, dataset, rule), "tables": _tables(directory, dataset, rule)}
    except AccessError as refusal:
        return {"columns": [], "fault": str(refusal)}


def _tables(directory: DataDirectory, dataset: Dataset, rule: Rule | None) -> list[dict[str, Any]]:
    """The tables of which the caller may use a column."""
    opened = directory.tables(dataset)
    return [
        {"name": table.name, "kind": table.kind, "unit": table.unit, "on": dict(table.on), "columns": columns}
        for table in dataset.tables
        if (columns := usable(table_of(opened[table.name]).schema, table, rule, f"{table.name}."))
    ]


def usable(
    schema: Mapping[str, ColumnType], table: Dataset | JoinableTable, rule: Rule | None, prefix: str = ""
) -> list[dict[str, Any]]:
    """The columns that a rule lets the caller use.

    Args:
        schema: The columns of the table.
        table: The table.
        rule: The rule, or None for all columns.
        prefix: The prefix of their names in the rule.
    """
    allowed = None if rule is None else rule.columns
    grouped = None if rule is None else rule.group_columns
    return [
        {
            "name": column,
            "type": str(kind),
            "bounds": bounds_text(table.bounds[column]) if column in table.bounds else None,
            "keys": table.keys.get(column),
            "groupable": kind in GROUPABLE and (grouped is None or prefix + column in grouped),
        }
        for column, kind in schema.items()
        if allowed is None or prefix + column in allowed
    ]


def _policy(dataset: Dataset) -> schemas.Policy:
    return schemas.Policy.model_validate({"rules": [rule.as_dict() for rule in dataset.policy]})
