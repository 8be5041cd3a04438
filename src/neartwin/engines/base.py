"""Extra abilities of some engines: to stream their answers, or to leave them on the cluster."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import pyarrow as pa

from neartwin.planning.stage import Aggregates, Engine, Stage


@runtime_checkable
class Streaming(Protocol):
    """An engine whose answers can be read a part at a time."""

    def batches(self, stage: Stage, *, salt: int, groups: int) -> Iterator[Aggregates]:
        """Yield the answers of `aggregate` in parts, sorted by key with NULL last.

        The order of an engine's grouping depends on rows; the order of keys does not. A stage with a split is answered
        in cells, sorted by group (public ones by their position). A group may continue in the next part.

        Args:
            stage: The stage.
            salt: The salt of the hash that chooses a unit's groups.
            groups: The most discovered groups, or cells, in a part.

        Yields:
            The parts, in order.
        """
        ...


@runtime_checkable
class Distributed(Engine, Protocol):
    """An engine whose answers can stay on the cluster."""

    def write(
        self, stage: Stage, splits: Sequence[Stage], *, salt: int, answer: "Answer", schema: pa.Schema, place: str
    ) -> None:
        """Write the released rows to a new folder of Parquet files. Nothing is collected.

        Args:
            stage: The stage.
            splits: Stages about the same groups. Their counts by cell go to `answer` too, as columns of lists `c0`,
                `c1`, ....
            salt: The salt of the hash that chooses a unit's groups.
            answer: Makes released rows from exact answers. It is sent to the workers as bytes, and may run again on the
                same rows.
            schema: The schema of the released rows, the group columns first.
            place: The new folder.
        """
        ...

    def put(self, stage: Stage, rows: pa.Table, place: str) -> None:
        """Write this process's rows to a new folder on the cluster.

        Args:
            stage: The stage.
            rows: The rows.
            place: The new folder.
        """
        ...

    def shelf(self, stage: Stage) -> "Shelf":
        """The file system that the workers write to."""
        ...


@runtime_checkable
class SharesRows(Engine, Protocol):
    """An engine that reads rows once for several stages."""

    def reading(self, stages: Sequence[Stage]) -> AbstractContextManager[Engine]:
        """Answer several stages from one state of the rows.

        Args:
            stages: The stages of a question, before its limits are chosen.

        Returns:
            A context with the engine that answers them. It answers any other stage too.
        """
        ...


Answer = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Shelf(Protocol):
    """The place of a written table: enough of a file system to make a table visible at one moment."""

    def exists(self, place: str) -> bool:
        """Whether the place exists.

        Args:
            place: The path.

        Returns:
            Whether there is a file or a folder.
        """
        ...

    def digest(self, place: str) -> str:
        """The SHA-256 of a file's content. For a folder, of its data files' digests in the order of their names.

        Args:
            place: The path.

        Returns:
            64 hexadecimal digits.
        """
        ...

    def move(self, place: str, to: str) -> None:
        """Rename a file or folder.

        Args:
            place: The path.
            to: The new path, which must not exist.

        Raises:
            OSError: Another folder has taken the name meanwhile.
        """
        ...

    def remove(self, place: str) -> None:
        """Remove the place, if it exists.

        Args:
            place: The path.
        """
        ...
