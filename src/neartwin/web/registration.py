"""From what a curator sends to a `Dataset`."""

from neartwin.accounting.budgets import budget_of
from neartwin.tables.table import bounds
from neartwin.web import schemas
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, JoinableTable, Rule


def registration(wish: schemas.Registration, directory: DataDirectory) -> Dataset:
    """The data set that a request describes; its file must be in the data directory."""
    return Dataset(
        name=wish.name,
        place=str(directory.file(wish.file)),
        table=wish.table,
        unit=wish.unit,
        neighbours=wish.neighbours,
        types=wish.types,
        bounds={name: bounds(*ends) for name, ends in wish.bounds.items()},
        keys={name: tuple(values) for name, values in wish.keys.items()},
        budget=budget_of(wish.budget, "budget"),
        about=wish.about,
        tables=tuple(_joinable(side, directory) for side in wish.tables),
        policy=tuple(Rule.from_dict(rule.model_dump()) for rule in wish.policy),
    )


def _joinable(wish: schemas.JoinableTableRequest, directory: DataDirectory) -> JoinableTable:
    return JoinableTable(
        name=wish.name,
        kind=wish.kind,
        place=str(directory.file(wish.file)),
        table=wish.table,
        unit=wish.unit,
        types=wish.types,
        bounds={name: bounds(*ends) for name, ends in wish.bounds.items()},
        keys={name: tuple(values) for name, values in wish.keys.items()},
    )
