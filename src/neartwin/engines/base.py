"""What some engines do beside answering a stage: stream their answers, or leave them where they are computed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from neartwin.planning.stage import Aggregates, Engine, Stage


@runtime_checkable
class Streaming(Protocol):
    """An engine whose answers can be read a part at a time."""

    def batches(self, stage: Stage, *, salt: int, groups: int) -> Iterator[Aggregates]:
        """The answers of `aggregate`, at most so many discovered groups at a time, sorted by key with NULL last.

        The order of a grouping as an engine has it depends on rows; that of the keys does not. A stage with a split is answered
        by at most so many cells at a time, sorted by group (public ones by their position): a group may go on in the next part.
        """
        ...


@runtime_checkable
class Distributed(Engine, Protocol):
    """An engine whose answers can stay where they are computed."""

    def write(
        self, stage: Stage, splits: Sequence[Stage], *, salt: int, answer: "Answer", schema: pa.Schema, place: str
    ) -> None:
        """Write what `answer` makes of the exact answers to a new folder of Parquet files; nothing is collected.

        splits: stages about the same groups whose counts by cell are handed to `answer` beside them, as columns of lists
        `c0`, `c1`, ... answer: made into bytes and sent to the workers, who may run it again on the same rows. schema: of its
        result, the group columns first.
        """
        ...

    def put(self, stage: Stage, rows: pa.Table, place: str) -> None:
        """Write rows that this process has to a new folder there."""
        ...

    def shelf(self, stage: Stage) -> "Shelf":
        """The file system that the workers write to."""
        ...


Answer = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Shelf(Protocol):
    """Where a written table lies: just enough of a file system to make it visible at one moment."""

    def exists(self, place: str) -> bool:
        """Whether something is there."""
        ...

    def digest(self, place: str) -> str:
        """SHA-256 of the content; of a folder, of its data files' digests in the order of their names."""
        ...

    def move(self, place: str, to: str) -> None:
        """Rename; `to` must not exist."""
        ...

    def remove(self, place: str) -> None:
        """Remove it, if it is there."""
        ...
