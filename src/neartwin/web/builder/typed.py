"""Values that were typed into fields, and what fields have no words in SQL for."""

from neartwin.errors import QueryError
from neartwin.queries.types import ColumnType


class UnwordedError(QueryError):
    """A question that has no words in SQL: the other writings say it."""


def values_of(text: str, kind: str) -> list[object]:
    """Keys that were typed in: commas between, `1:12` a range of whole numbers."""
    if kind == ColumnType.INTEGER:
        low, colon, high = text.partition(":")
        try:
            if colon and 0 <= int(high) - int(low) < 100_000:
                return list(range(int(low), int(high) + 1))
            return [int(part) for part in text.split(",") if part.strip()]
        except ValueError:
            return [part.strip() for part in text.split(",")]  # the service says what is wrong with them
    if kind == ColumnType.BOOLEAN:
        return [part.strip().lower() == "true" for part in text.split(",") if part.strip()]
    return [part.strip() for part in text.split(",") if part.strip()]
