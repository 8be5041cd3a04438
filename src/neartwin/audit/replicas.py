"""The game on whole releases: many runs as one release of many replicas, through the public path and on any engine.

Each replica is a copy of the input whose units are its own; groups are formed by replica and key. A unit has rows in one
replica alone, so bounding, noise and thresholds treat each replica as if it were released by itself, and one statement
plays thousands of runs where starting a statement is slow.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.accounting.targets import Target
from neartwin.exact import Number

_UNIT, _KEY, _REPLICA = "unit", "key", "replica"


def in_process(rows: Any) -> Any:
    """The Arrow table itself as the table of the game: DuckDB reads it in this process."""
    from neartwin.queries.opening import table  # heavy rooms, for this game alone

    return table(rows, unit=_UNIT, name="replicas")


def collected(account: Any, proposal: Any) -> Any:
    """An ordinary release, as an Arrow table."""
    return account.release(proposal).to_arrow()


def written(account: Any, proposal: Any) -> Any:
    """The release that is written where it is computed (`release_to_parquet`), read back as an Arrow table."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        account.release_to_parquet(proposal, place := f"{folder}/released")
        return pq.read_table(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseGame:
    """A release to be played: rows are tuples (unit, key, value, ...) of text, text and numbers; None is missing.

    values: the names of the columns after unit and key. ask: from the grouped table (`Groups`) to the question (`Query`), as in
    `lambda groups: groups.agg(n=nt.count())`. rows_per_group and groups_per_unit, or norm_per_unit: what bounds a unit. keys: the
    public keys, or None to discover them. where: puts an Arrow table of all rows where the engine under
    attack reads it, and opens it there with `nt.table(..., unit="unit")`. take: from an account and a proposal to the released
    rows (`collected`, `written`). The output of a run: with public keys one number a (key, statistic), in that order; with
    discovered ones a mapping from each (released key, statistic) to its number.
    """

    values: tuple[str, ...]
    ask: Callable[[Any], Any]
    spend: Target
    rows_per_group: int | None = None
    groups_per_unit: int | None = None
    norm_per_unit: Number | None = None
    keys: tuple[str, ...] | None = None
    where: Callable[[Any], Any] = in_process
    take: Callable[[Any, Any], Any] = collected

    def __call__(self, rows: Sequence[tuple[Any, ...]], runs: int) -> Sequence[Any] | NDArray[Any]:
        """`runs` independent releases of these rows."""
        return self._outputs(self._release(rows, runs), runs)

    def _release(self, rows: Sequence[tuple[Any, ...]], runs: int) -> Any:
        from neartwin.releases.accounts import open_ledger

        people = self.where(self.replicated(rows, runs))
        public = None if self.keys is None else {_REPLICA: range(runs), _KEY: self.keys}
        grouped = people.group_by(_REPLICA, _KEY) if public is None else people.group_by(_REPLICA, _KEY, keys=public)
        with tempfile.TemporaryDirectory() as folder, open_ledger(Path(folder) / "game.db") as book:
            account = book.open(people, self.spend)
            proposal = account.plan(
                self.ask(grouped),
                spend=self.spend,
                rows_per_group=self.rows_per_group,
                groups_per_unit=self.groups_per_unit,
                norm_per_unit=self.norm_per_unit,
            )
            return self.take(account, proposal)

    def replicated(self, rows: Sequence[tuple[Any, ...]], runs: int) -> Any:
        """The rows, `runs` times over, with units and a column of their own for each replica, as an Arrow table."""
        import pyarrow as pa

        replica = np.repeat(np.arange(runs), len(rows))
        columns: dict[str, Any] = {_REPLICA: pa.array(replica, pa.int64())}
        units = [None if row[0] is None else f"{i}/{row[0]}" for i in range(runs) for row in rows]
        columns[_UNIT] = pa.array(units, pa.string())
        columns[_KEY] = pa.array([row[1] for row in rows] * runs, pa.string())
        for place, name in enumerate(self.values):
            columns[name] = pa.array([row[2 + place] for row in rows] * runs, pa.float64())
        return pa.table(columns)

    def _outputs(self, released: Any, runs: int) -> Sequence[Any] | NDArray[Any]:
        names = [name for name in released.column_names if name not in (_REPLICA, _KEY)]
        names = [name for name in names if not _is_bar(name, names)]
        if self.keys is not None:  # keys come replica by replica, in the order of the product
            return np.column_stack([released[name].to_numpy() for name in names]).reshape(runs, -1)
        outputs: list[dict[object, Any]] = [{} for _ in range(runs)]
        columns = [released[name].to_pylist() for name in (_REPLICA, _KEY, *names)]
        for replica, key, *numbers in zip(*columns, strict=True):
            outputs[replica].update({(key, name): number for name, number in zip(names, numbers, strict=True)})
        return outputs


def _is_bar(name: str, names: Sequence[str]) -> bool:
    """Whether a column is the end of another one's error bar."""
    return any(name == f"{other}{end}" for other in names for end in ("_lower", "_upper"))
