"""What every engine does: answer one stage with exact whole numbers by group."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neartwin.exact import WholeNumbers
from neartwin.planning.stage import Stage
from neartwin.tables.types import Key

SALT_BITS = 64  # of fresh randomness a release


@dataclass(frozen=True, slots=True)
class Cells:
    """Exact numbers by group and cell, where they are not 0: three columns of one length.

    group: position in the keys; cell: in whole steps from the lowest, 0 and up; count: int64, all of them.
    """

    group: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Exact answers. Private: they must not outlive the function that adds noise to them.

    groups: for public keys, as many rows as keys, in their order, empty groups included; else every group that has a kept
    unit, in no order that may be shown. keys: the group columns, one row a group. values: (groups,) whole numbers by measure
    name, int64 or, where that is too small, Python's. cells: of a stage with a split, which has no values.
    """

    groups: int
    keys: Sequence[Key]
    values: Mapping[str, WholeNumbers]
    cells: Cells | None = None


class Engine(Protocol):
    """Runs stages. Implementations are final and hold no state of a stage."""

    def aggregate(self, stage: Stage, *, salt: int) -> Aggregates:
        """Answer a stage exactly.

        Args:
            stage: the question, without noise.
            salt: `SALT_BITS` fresh secret bits. They order the groups of a unit, and stay out of logs and text.

        Returns:
            Exact whole numbers by group.
        """
        ...


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
