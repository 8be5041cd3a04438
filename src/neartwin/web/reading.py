"""From what a curator sends to a `Dataset`."""

from neartwin.accounting.written import target_of
from neartwin.queries.table import bounded
from neartwin.web import shapes
from neartwin.web.datasets import Dataset, Rule
from neartwin.web.house import House
from neartwin.web.sides import Side


def registration(wish: shapes.Registration, house: House) -> Dataset:
    """The data set that a request describes; its file must be one of the house's."""
    return Dataset(
        name=wish.name,
        place=str(house.file(wish.file)),
        table=wish.table,
        unit=wish.unit,
        neighbours=wish.neighbours,
        types=wish.types,
        bounds={name: bounded(*ends) for name, ends in wish.bounds.items()},
        keys={name: tuple(values) for name, values in wish.keys.items()},
        budget=target_of(wish.budget, "budget"),
        about=wish.about,
        tables=tuple(_side(side, house) for side in wish.tables),
        policy=tuple(Rule.from_dict(rule.model_dump()) for rule in wish.policy),
    )


def _side(wish: shapes.SideWish, house: House) -> Side:
    return Side(
        name=wish.name,
        kind=wish.kind,
        place=str(house.file(wish.file)),
        table=wish.table,
        unit=wish.unit,
        types=wish.types,
        bounds={name: bounded(*ends) for name, ends in wish.bounds.items()},
        keys={name: tuple(values) for name, values in wish.keys.items()},
    )
