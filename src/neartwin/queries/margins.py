"""Margins of public groups, as they are asked for: lists of columns, checked."""

from collections.abc import Mapping, Sequence
from math import prod

from neartwin.errors import QueryError
from neartwin.queries.keys import Key

MARGIN = "margin"  # the release's column that says which margin a group is of
MOST_COLUMNS = 10  # margins that may be measured are subsets of them
MOST_CELLS = 2**21  # of the table behind all margins, which one statement counts


def margins_of(
    columns: tuple[str, ...], keys: tuple[Key, ...] | None, margins: Sequence[Sequence[str]]
) -> tuple[tuple[int, ...], ...]:
    """Each margin as places of columns, in the columns' order; `QueryError` for what is none."""
    if keys is None:
        raise QueryError("marginals need public keys: give keys={column: values} for each column")
    if len(columns) > MOST_COLUMNS or len(keys) > MOST_CELLS:
        raise QueryError(f"marginals are over at most {MOST_COLUMNS} columns with {MOST_CELLS:,} combinations of keys")
    if MARGIN in columns:
        raise QueryError(
            f"{MARGIN!r} names the column that says which margin a group is of; give the other another name"
        )
    values_of(len(columns), keys)
    found = []
    for margin in margins:
        if isinstance(margin, str) or len(set(margin)) != len(margin):
            raise QueryError(f"marginals({margin!r}): each margin is a list of columns, each once")
        unknown = [name for name in margin if name not in columns]
        if unknown:
            raise QueryError(f"marginals: {unknown[0]!r} is not among the group columns {', '.join(columns)}")
        found.append(tuple(place for place, name in enumerate(columns) if name in margin))
    if not found or len(set(found)) != len(found):
        raise QueryError("marginals() takes at least one list of columns, each list once")
    return tuple(found)


def values_of(columns: int, keys: Sequence[Key]) -> tuple[tuple[object, ...], ...]:
    """The values of each column, whose product the keys must be.

    >>> values_of(2, [("f", 1), ("f", 2), ("m", 1), ("m", 2)])
    (('f', 'm'), (1, 2))
    """
    found = tuple(tuple(dict.fromkeys(key[place] for key in keys)) for place in range(columns))
    if prod(map(len, found)) != len(keys):
        raise QueryError(
            "marginals need keys that are a product: give the values of each column, as keys={'sex': [...], ...}"
        )
    return found


def linear_alone(aggregates: Mapping[str, object], linear: bool) -> None:  # noqa: FBT001 - the answer to a question
    """Marginals and workloads are of one count or sum."""
    if len(aggregates) != 1 or not linear:
        raise QueryError(
            "marginals and workloads are of one count() or sum(...); ask others in a question of their own"
        )


def named(columns: Sequence[str], margin: Sequence[int]) -> str:
    """What a margin is called.

    >>> named(("age", "sex", "town"), (0, 2)), named(("age",), ())
    ('age, town', '(all)')
    """
    return ", ".join(columns[place] for place in margin) or "(all)"
