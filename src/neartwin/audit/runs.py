"""Many independent runs of a mechanism on two inputs, in this process or side by side in several.

A run that raises is an output too: whether a query fails is data, and the attacker sees it.

The game on whole releases plays many runs as one release of many replicas, through the public path and on any engine. Each
replica is a copy of the input whose units are its own. Groups are formed by replica and key. A unit has rows in one replica
alone. So bounding, noise and thresholds treat each replica as if it were released by itself. One statement plays thousands of
runs, on engines that take long to start one.
"""

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.accounting.budgets import Budget
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.checks import integer
from neartwin.errors import ParameterError, PrivacyError
from neartwin.planning.limits import Limits

_CHUNKS = 16  # a side, so that a progress bar moves


@dataclass(frozen=True, slots=True)
class Batched:
    """A mechanism that makes many independent runs in one call.

    Attributes:
        draw: `draw(argument, runs)` returns `runs` outputs.
        at_once: The least runs of a call, if so many are needed; raise it if starting a call is slow.
    """

    draw: Callable[[Any, int], Sequence[Any] | NDArray[Any]]
    at_once: int = 4_096


@dataclass(frozen=True, slots=True)
class Raised:
    """The output of a run that raised an error of this type."""

    name: str


Outputs = Sequence[Any] | NDArray[Any]  # one output a run
Mechanism = Callable[[Any], Any] | Batched


@dataclass(frozen=True, slots=True)
class Transcript:
    """The outputs of a game, one for each run, in order.

    Attributes:
        twins: The neighbouring inputs.
        left: The outputs for the left input.
        right: The outputs for the right input.
    """

    twins: Twins
    left: Outputs
    right: Outputs

    def split(self, *shares: float) -> tuple["Transcript", ...]:
        """Consecutive parts with these shares of each side's runs; the last takes the rest.

        >>> [len(part.left) for part in Transcript(Twins(0, 1), range(10), range(10)).split(0.25, 0.25)]
        [2, 3, 5]
        """
        cuts = [0.0, *np.cumsum(shares), 1.0]
        return tuple(
            Transcript(self.twins, _part(self.left, low, high), _part(self.right, low, high))
            for low, high in pairwise(cuts)
        )


def _part(outputs: Outputs, low: float, high: float) -> Outputs:
    return outputs[int(low * len(outputs)) : int(high * len(outputs))]


def play(mechanism: Mechanism, twins: Twins, *, runs: int, workers: int = 1) -> Transcript:
    """Run the mechanism `runs` times on each side. A progress bar shows on a terminal only.

    Args:
        mechanism: Takes one input, returns any output, and draws its own randomness; or `Batched`. With several workers it must
            be picklable (a module's function) and draw fresh randomness in each process.
        twins: The two inputs.
        runs: Runs a side, at least 1.
        workers: Processes that run side by side.

    Raises:
        PrivacyError: Processes repeated each other, as copies of one seeded generator do.
        ParameterError: Every run raised.
    """
    integer(runs=runs, at_least=1)
    integer(workers=workers, at_least=1)
    least = mechanism.at_once if isinstance(mechanism, Batched) else 1
    pieces = max(workers, min(_CHUNKS, runs // least, runs), 1)
    sizes = [runs * (i + 1) // pieces - runs * i // pieces for i in range(pieces)]
    jobs = [(mechanism, argument, size) for argument in (twins.left, twins.right) for size in sizes]
    if workers == 1:
        parts = list(watched(map(_some_runs, jobs), "playing", total=len(jobs)))
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            parts = list(watched(pool.map(_some_runs, jobs), "playing", total=len(jobs)))
        _refuse_echoes(parts)
    left, right = _joined(parts[:pieces]), _joined(parts[pieces:])
    if all(isinstance(output, Raised) for output in chain(left, right)):
        raise ParameterError("mechanism", mechanism, f"raised {left[0].name} on every run of both inputs")
    return Transcript(twins, left, right)


def _some_runs(job: tuple[Mechanism, Any, int]) -> Outputs:
    mechanism, argument, runs = job
    if isinstance(mechanism, Batched):
        outputs = mechanism.draw(argument, runs)
        if len(outputs) != runs:
            raise ParameterError("mechanism", mechanism, f"returned {len(outputs)} outputs for {runs} runs")
        return outputs
    return [_one_run(mechanism, argument) for _ in range(runs)]


def _one_run(mechanism: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return mechanism(argument)
    except Exception as error:  # noqa: BLE001 - whatever it raises, the attacker sees that it did
        return Raised(type(error).__name__)


def _joined(parts: list[Outputs]) -> Outputs:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate([np.asarray(part) for part in parts])
    return list(chain.from_iterable(parts))


def _refuse_echoes(parts: list[Outputs]) -> None:
    """Two chunks with the same long run of varied outputs were not independent."""
    seen: set[str] = set()
    for part in parts:
        text = [repr(output) for output in part[:200]]
        if len(set(text)) > 10:  # enough variety that a repeat is no accident
            key = "|".join(text)
            if key in seen:
                raise PrivacyError(
                    "two processes drew the same randomness; a bound on repeated runs proves nothing: give a mechanism "
                    "that draws from the operating system, or play with workers=1"
                )
            seen.add(key)


def watched(parts: Iterable[Any], what: str, *, total: int) -> Iterator[Any]:
    """The parts one after the other, with a progress bar on a terminal.

    Args:
        parts: The parts, which may be made on the way.
        what: A word for the work.
        total: The number of parts.

    Yields:
        The parts.
    """
    if not sys.stderr.isatty():
        yield from parts
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(parts, what, total=total, console=Console(stderr=True), transient=True)


_UNIT, _KEY, _REPLICA = "unit", "key", "replica"


def in_process(rows: Any) -> Any:
    """The Arrow table itself as the table of the game: DuckDB reads it in this process."""
    from neartwin.queries.open import table  # heavy rooms, for this game alone

    return table(rows, unit=_UNIT, name="replicas")


def collected(account: Any, proposal: Any) -> Any:
    """An ordinary release, as an Arrow table.

    Args:
        account: The account that pays.
        proposal: The plan.

    Returns:
        The released rows.
    """
    return account.release(proposal).to_arrow()


def written(account: Any, proposal: Any) -> Any:
    """A release that is written with `release_to_parquet`, read back as an Arrow table.

    Args:
        account: The account that pays.
        proposal: The plan.

    Returns:
        The released rows.
    """
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        account.release_to_parquet(proposal, place := f"{folder}/released")
        return pq.read_table(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseGame:
    """A release to be played: rows are tuples (unit, key, value, ...) of text, text and numbers; None is missing.

    With public keys the output of a run has one number a (key, statistic), in that order. With discovered ones it is a mapping
    from each (released key, statistic) to its number.

    Attributes:
        values: The names of the columns after unit and key.
        ask: From the grouped table (`Groups`) to the question (`Query`), as in `lambda groups: groups.agg(n=nt.count())`.
        spend: The budget of the release.
        limits: The limits of one unit.
        keys: The public keys, or None to discover them.
        where: Puts an Arrow table of all rows on the engine under attack, and opens it there with `nt.table(..., unit="unit")`.
        take: From an account and a proposal to the released rows (`collected`, `written`).
    """

    values: tuple[str, ...]
    ask: Callable[[Any], Any]
    spend: Budget
    limits: Limits | None = None
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
            proposal = account.plan(self.ask(grouped), spend=self.spend, limits=self.limits)
            return self.take(account, proposal)

    def replicated(self, rows: Sequence[tuple[Any, ...]], runs: int) -> Any:
        """Many copies of the rows, with separate units for each replica and a column that numbers the replicas.

        Args:
            rows: The rows of one input.
            runs: The number of replicas.

        Returns:
            An Arrow table.
        """
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
        bars = {f"{name}{end}" for name in released.column_names for end in ("_lower", "_upper")}
        names = [name for name in released.column_names if name not in {_REPLICA, _KEY, *bars}]
        if self.keys is not None:  # keys come replica by replica, in the order of the product
            return np.column_stack([released[name].to_numpy() for name in names]).reshape(runs, -1)
        outputs: list[dict[object, Any]] = [{} for _ in range(runs)]
        columns = [released[name].to_pylist() for name in (_REPLICA, _KEY, *names)]
        for replica, key, *numbers in zip(*columns, strict=True):
            outputs[replica].update({(key, name): number for name, number in zip(names, numbers, strict=True)})
        return outputs
