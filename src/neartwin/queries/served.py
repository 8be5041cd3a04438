"""A table that a service keeps: its public schema is here, its rows are not, and only the service can plan on it."""

from dataclasses import dataclass

from neartwin.errors import QueryError
from neartwin.queries.types import ColumnType


@dataclass(frozen=True, slots=True)
class ServedTable:
    """A data set of a service, by the service's address and the data set's name."""

    address: str
    name: str

    def schema(self) -> dict[str, ColumnType]:
        """Never asked here: the service told it."""
        raise self.elsewhere()

    def location(self) -> str:
        """What messages call it."""
        return f"{self.address}#{self.name}"

    def snapshot(self) -> str:
        """Known to the service alone."""
        raise self.elsewhere()

    def elsewhere(self) -> QueryError:
        """The refusal of whatever needs the rows."""
        return QueryError(
            f"{self.name!r} is kept by the service at {self.address}; plan and release with its own account"
        )
