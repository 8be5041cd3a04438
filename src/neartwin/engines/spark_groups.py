"""All that is asked about a group as one row, on the cluster: its numbers, and for each split the counts of its cells.

Nothing of it is collected: tables meet by sorted merges of what is shuffled by group, for a broadcast would bring exact numbers
to the driver.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Any

from neartwin.engines.cells import CELL
from neartwin.engines.dialect import POSITION
from neartwin.engines.gather import key_table
from neartwin.engines.sql import group_names
from neartwin.queries.stage import Stage

CELLS = 2**19  # of the groups that a worker has in memory at a time
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


def together(stage: Stage, splits: Sequence[Stage], session: Any, frame_of: Callable[[Stage], Any]) -> Any:
    """One row a group: every public one, or each that is in the stage's answer.

    frame_of: the DataFrame of a stage's statement. Columns: those of the stage's statement, then for the i-th split an array
    `c{i}` of cells with their counts, NULL where there are none.
    """
    from pyspark.sql import functions as f

    names = group_names(stage)
    found = frame_of(stage) if stage.measures else None
    if stage.keys is not None:
        public = session.createDataFrame(key_table(stage)).select(POSITION)
        found = public if found is None else _beside(public, found, names)
    if found is None:
        raise TypeError("discovered groups have a measure that they are discovered by")
    for i, split in enumerate(splits):
        cells = f.collect_list(f.struct(CELL, "m0")).alias(f"c{i}")
        found = _beside(found, frame_of(split).groupBy(*names).agg(cells), names)
    if splits:
        rows = max(1, CELLS // max(map(_width, splits)))
        session.conf.set(_BATCH, str(min(rows, int(session.conf.get(_BATCH)))))
    return found


def _beside(left: Any, right: Any, names: Sequence[str]) -> Any:
    """The rows of the left with what the right has of the same group, which may be NULL."""
    from pyspark.sql import functions as f

    other = right.select(
        *(f.col(name).alias(f"of_{name}") for name in names),
        *(name for name in right.columns if name not in names),
    )
    same = reduce(and_, (left[name].eqNullSafe(other[f"of_{name}"]) for name in names))
    return left.join(other.hint("merge"), same, "left").drop(*(f"of_{name}" for name in names))


def _width(split: Stage) -> int:
    (column,) = split.grid.values()
    return column.high - column.low + 1
