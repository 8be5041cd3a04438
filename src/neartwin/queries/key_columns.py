"""Public keys that a question leaves out, because an expression that is grouped by can have them only."""

from collections.abc import Mapping
from typing import Any

from neartwin.queries.ranges import possible_values
from neartwin.queries.table import Table


def completed(keys: Any, table: Table, names: list[str]) -> Any:
    """The keys, with all possible values of columns that have finitely many, where they were left out."""
    if keys is not None and not isinstance(keys, Mapping):
        return keys
    given: dict[str, Any] = dict(keys or {})
    closed = {}
    for name in names:
        values = possible_values(table.computed[name].term) if name in table.computed else None
        if values is not None:
            closed[name] = values
    if keys is None and set(closed) != set(names):
        return None
    return {**{name: values for name, values in closed.items() if name in names}, **given}
