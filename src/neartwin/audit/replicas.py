"""The game on whole releases: many runs as one release of many replicas, through the public path and any engine.

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
from neartwin.engines.base import Engine

_UNIT, _KEY, _REPLICA = "unit", "key", "replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseGame:
    """A release to be played: rows are tuples (unit, key, value, ...) of text, text and numbers; None is missing.

    values: the names of the columns after unit and key. ask: from the grouped table (`Groups`) to the question (`Query`), as in
    `lambda groups: groups.agg(n=nt.count())`. keys: the public keys, or None to discover them. engine: makes the engine
    from an Arrow table of all rows. The output of a run: with public keys one number a (key, statistic), in that order;
    with discovered ones a mapping from each released key to its numbers.
    """

    values: tuple[str, ...]
    ask: Callable[[Any], Any]
    spend: Target
    rows_per_group: int
    groups_per_unit: int
    engine: Callable[[Any], Engine]
    keys: tuple[str, ...] | None = None

    def __call__(self, rows: Sequence[tuple[Any, ...]], runs: int) -> Sequence[Any] | NDArray[Any]:
        """`runs` independent releases of these rows."""
        return self._outputs(self._release(rows, runs), runs)

    def _release(self, rows: Sequence[tuple[Any, ...]], runs: int) -> Any:
        from neartwin.queries.opening import table  # heavy rooms, for this game alone
        from neartwin.releases.accounts import open_ledger

        everything = self.replicated(rows, runs)
        people = table(everything, unit=_UNIT, name="replicas")
        public = None if self.keys is None else {_REPLICA: range(runs), _KEY: self.keys}
        grouped = people.group_by(_REPLICA, _KEY) if public is None else people.group_by(_REPLICA, _KEY, keys=public)
        with tempfile.TemporaryDirectory() as folder, open_ledger(Path(folder) / "game.db") as book:
            account = book.open(people, self.spend)
            proposal = account.plan(
                self.ask(grouped),
                spend=self.spend,
                rows_per_group=self.rows_per_group,
                groups_per_unit=self.groups_per_unit,
            )
            return account.release(proposal, engine=self.engine(everything))

    def replicated(self, rows: Sequence[tuple[Any, ...]], runs: int) -> Any:
        """The rows, `runs` times over, with units and a column of their own for each replica, as an Arrow table."""
        import pyarrow as pa

        replica = np.repeat(np.arange(runs), len(rows))
        columns: dict[str, Any] = {_REPLICA: pa.array(replica, pa.int64())}
        units = [f"{i}/{row[0]}" for i in range(runs) for row in rows]
        columns[_UNIT] = pa.array(units, pa.string())
        columns[_KEY] = pa.array([row[1] for row in rows] * runs, pa.string())
        for place, name in enumerate(self.values):
            columns[name] = pa.array([row[2 + place] for row in rows] * runs, pa.float64())
        return pa.table(columns)

    def _outputs(self, release: Any, runs: int) -> Sequence[Any] | NDArray[Any]:
        numbers = np.array([statistic.values for statistic in release.statistics], np.float64).T
        if self.keys is not None:
            return numbers.reshape(runs, -1)  # keys come replica by replica, in the order of the product
        outputs: list[dict[object, Any]] = [{} for _ in range(runs)]
        for (replica, key), found in zip(release.keys, numbers, strict=True):
            for statistic, number in zip(release.statistics, found, strict=True):
                outputs[int(str(replica))][key, statistic.name] = float(number)
        return outputs
