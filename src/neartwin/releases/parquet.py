"""Releases larger than memory: reserve, add noise a part at a time, write a table, settle, and show it.

Nothing of the table is visible under its name before the ledger has its digest. It is written beside its place, under a
hidden name. The files depend on the released rows alone. They are sorted by key, and their pieces have a fixed number
of released rows, each written as one (pages end where Arrow's chunks do). Pieces cut as the engine hands out exact
groups would reveal how many groups were left out between two released ones.

Statistics of cells (quantiles, histograms) come from a second stream of counts by group and cell. It is read beside the
stream of groups, and both are sorted by key. So the needed counts for a part of the groups lie together. A group's
cells are dense, zeros included, only while its part is in progress.

Noise on the workers of a distributed engine: a function from exact answers to released rows, sent there as bytes.

Workers run a task again when one is lost or slow, so the noise is keyed. One group with one exact number always gets
one noise. Anything else gets unrelated noise. The key is fresh for each release. It goes with the function to the
workers, over the channels of the rows. No text, plan or log of the cluster shows it.
"""

import hashlib
import os
import shutil
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import writable
from neartwin.engines.arrow import whole_numbers
from neartwin.engines.base import Distributed, Shelf, Streaming
from neartwin.engines.sql.statement import group_names
from neartwin.engines.sql.trees import CELL
from neartwin.errors import ExecutionError, LedgerError, ParameterError, QueryError
from neartwin.exact import WholeNumbers
from neartwin.ledger import Account, Stored
from neartwin.mechanisms.selection.thresholds import Selection
from neartwin.planning.allocation import CONFIDENCE
from neartwin.planning.groups import GroupPlan, ReleasedGroups, Split, by_group, sort_key
from neartwin.planning.plan import Choice, NoisyAnswer, Plan
from neartwin.planning.stage import SALT_BITS, Aggregates, Cells, Engine
from neartwin.queries.query import NOTHING
from neartwin.releases.preparation import PreparedRelease
from neartwin.releases.release import WrittenRelease, release_in
from neartwin.releases.run import ACCOUNT_ALONE, provenance_of, reserve
from neartwin.tables.sources import ParquetFiles
from neartwin.tables.types import keys_of


@dataclass(frozen=True, slots=True)
class KeyedAnswer:
    """A function from exact answers to released rows. Its text shows no key, and it holds neither rows nor a way to the
    source.

    Attributes:
        plan: The plan, without its source.
        schema: The schema of the released rows.
        selection: The noise of the discovery of groups.
        measures: The noise of each measure.
        nodes: The noise of each level of a tree, by the measure of its split.
    """

    plan: GroupPlan
    schema: pa.Schema
    selection: tuple[noise.Keyed, ...]
    measures: Mapping[str, noise.Keyed]
    nodes: Mapping[str, tuple[noise.Keyed, ...]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Released rows of each batch of exact answers."""
        for batch in batches:
            yield from self._released(pa.Table.from_batches([batch])).cast(self.schema).to_batches()

    def _released(self, exact: pa.Table) -> pa.Table:
        plan = self.plan
        if plan.selection is not None:
            exact = exact.filter(pa.array(self._selected(plan.selection, exact)))
        keys = self._keys(exact)
        noisy = {
            name: _noisy(keyed, keys, self._values(exact, name))
            for name, keyed in self.measures.items()
            if name not in plan.splits
        }
        trees = {
            name: [
                _noisy_nodes(keyed, keys, level)
                for keyed, level in zip(self.nodes[name], split.tree.nodes(_leaves(split, exact[f"c{i}"])), strict=True)
            ]
            for i, (name, split) in enumerate(plan.splits.items())
        }
        public = plan.stage.keys
        groups = keys_of(keys) if public is None else [public[place] for place in keys[0].to_pylist()]
        return as_table(self.schema, NoisyAnswer(plan.rows_of(groups), plan.estimates(noisy, trees)))

    def _selected(self, chosen: Selection, exact: pa.Table) -> NDArray[np.bool_]:
        keys, units = self._keys(exact), self._values(exact, self.plan.discovered_by)
        return chosen.keeps_by(lambda place: self.selection[place].draw(keys, units), units)

    def _keys(self, exact: pa.Table) -> list[Any]:
        return [exact[name] for name in group_names(self.plan.stage)]

    def _values(self, exact: pa.Table, name: str) -> WholeNumbers:
        return whole_numbers(exact[f"m{self.plan.stage.measures.index(name)}"])


def keyed_answer(plan: GroupPlan, schema: pa.Schema, *, release: str, secret: bytes) -> KeyedAnswer:
    """Make the function for one release.

    Args:
        plan: The plan.
        schema: The schema of the released rows.
        release: The identity of the release.
        secret: Fresh secret bytes, the key of the noise.

    Returns:
        The function.

    Raises:
        QueryError: The plan has no groups; its one row needs no workers.
    """
    if not plan.stage.group_columns:
        raise QueryError("a table that stays distributed is for groups")
    keyed = partial(noise.keyed, release=release, secret=secret, stage=0)
    samplers = () if plan.selection is None else plan.selection.samplers
    selection = tuple(keyed(law, column="selection", counter=place) for place, law in enumerate(samplers))
    measures = {
        name: keyed(measure.mechanism.sampler, column=name, counter=1) for name, measure in plan.measures.items()
    }
    nodes = {
        name: tuple(
            keyed(plan.measures[name].mechanism.sampler, column=name, counter=2 + level)
            for level in range(split.tree.levels)
        )
        for name, split in plan.splits.items()
    }
    return KeyedAnswer(_detached(plan), schema, selection, measures, nodes)


def _noisy(keyed: noise.Keyed, keys: list[Any], values: WholeNumbers) -> WholeNumbers:
    return noise.add(values, keyed.draw(keys, values))


def _noisy_nodes(keyed: noise.Keyed, keys: list[Any], level: WholeNumbers) -> WholeNumbers:
    """The noisy counts of a level, (groups, nodes). A node's noise is a function of its group, its place and its exact
    count.
    """
    groups, nodes = level.shape
    place = pa.array(np.repeat(np.arange(groups), nodes))
    named = [*(column.take(place) for column in keys), pa.array(np.tile(np.arange(nodes), groups))]
    return _noisy(keyed, named, level.ravel()).reshape(groups, nodes)


def _leaves(split: Split, column: pa.ChunkedArray) -> WholeNumbers:
    """The exact counts, (groups, cells), from a list of cells with their counts for each group; NULL is no cells."""
    import pyarrow.compute as pc  # slow to import, and most releases need none of it

    lists = column.combine_chunks()
    group, flat = (pc.call_function(name, [lists]) for name in ("list_parent_indices", "list_flatten"))
    cell, count = (whole_numbers(pa.chunked_array([flat.field(name)])) for name in (CELL, "m0"))
    leaves = np.zeros((len(lists), split.tree.cells), dtype=np.int64)
    leaves[group.to_numpy(), np.asarray(cell, dtype=np.int64) - split.column.low] = count
    return leaves


def _detached(plan: GroupPlan) -> GroupPlan:
    """The plan with a source that holds no data, because a session cannot be sent."""
    nowhere = replace(plan.stage.table, source=ParquetFiles(()), joins=())
    groups = plan.query.groups
    query = replace(plan.query, groups=replace(groups, rows=replace(groups.rows, table=nowhere)))
    splits = {name: replace(split, stage=replace(split.stage, table=nowhere)) for name, split in plan.splits.items()}
    stage, context = replace(plan.stage, table=nowhere), replace(plan.context, table=nowhere)
    return replace(plan, query=query, stage=stage, splits=splits, context=context, loss=None, asked=None)


def as_table(schema: pa.Schema, answer: NoisyAnswer) -> pa.Table:
    """An answer in the columns of a release's table: keys, then each statistic with its bar.

    Args:
        schema: The schema of the table.
        answer: The answer.

    Returns:
        The table.
    """
    groups = len(schema) - 3 * len(answer.columns)
    columns: list[Any] = [[key[i] for key in answer.keys] for i in range(groups)]
    for statistic in answer.columns:
        columns += [statistic.values, statistic.lower, statistic.upper]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


GROUPS_AT_ONCE = 2**17  # exact groups, or cells with rows, in memory at a time
CELLS = 2**19  # cells of each tree in memory at a time

_Rank = tuple[tuple[bool, str, object], ...]


def pieces(plan: GroupPlan, engine: Streaming, source: noise.Source) -> Iterator[NoisyAnswer]:
    """The answer of `plan.answer` in parts: its groups in its order, with fresh noise of its laws.

    A plan that fits one part draws exactly the noise of `plan.answer`. Any exception may be raised; the caller reports
    a uniform one.

    Args:
        plan: The plan.
        engine: The engine.
        source: The source of noise and of the salt.

    Yields:
        The noisy rows of consecutive groups.
    """
    salt = source.bits(SALT_BITS)
    most = min([max(1, CELLS // split.tree.cells) for split in plan.splits.values()], default=GROUPS_AT_ONCE)
    readers = {
        name: _CellReader(engine.batches(split.stage, salt=salt, groups=GROUPS_AT_ONCE), split)
        for name, split in plan.splits.items()
    }
    exact = (
        engine.batches(plan.stage, salt=salt, groups=GROUPS_AT_ONCE)
        if plan.stage.measures
        else iter([plan.without_measures()])
    )
    for aggregates in exact:
        for first, groups in plan.released_groups(aggregates, source).parts(most):
            leaves = {name: reader.leaves(groups, first) for name, reader in readers.items()}
            yield plan.noisy(groups, leaves, source)


@dataclass(slots=True)
class _Held:
    """A part of a stream of cells.

    Attributes:
        cells: The cells.
        ranks: The sort keys of its discovered groups.
        done: The number of consumed cells.
    """

    cells: Cells
    ranks: list[_Rank]
    done: int = 0


class _CellReader:
    """Reads the stream of one split in the order of its groups, once."""

    def __init__(self, batches: Iterator[Aggregates], split: Split) -> None:
        """Reads nothing yet."""
        self._batches, self._cells = batches, split.tree.cells
        self._public = split.stage.keys is not None
        self._held: _Held | None = None
        self._passed: _Rank = ()

    def leaves(self, released: ReleasedGroups, first: int) -> WholeNumbers:
        """The exact counts, (groups, cells), for a part of the groups that begins at `first`. Earlier cells are skipped."""
        leaves = np.zeros((len(released.keys), self._cells), dtype=np.int64)
        if not self._public and released.keys:
            ranks = [sort_key(key) for key in released.keys]
            self._passed = _rising([self._passed, *ranks])
            own = {rank: place for place, rank in enumerate(ranks)}
        while len(released.keys) and (held := self._current()) is not None:
            start, groups = held.done, held.cells.group
            if self._public:
                end = int(np.searchsorted(groups, first + len(released.keys)))
                place = groups[start:end] - first
            else:
                begin = int(groups[start])
                beyond = bisect_right(held.ranks, self._passed, lo=begin)
                end = int(np.searchsorted(groups, beyond))
                places = np.array([own.get(rank, -1) for rank in held.ranks[begin:beyond]], dtype=np.int64)
                place = places[groups[start:end] - begin]
            inside = (place >= 0) & (place < len(leaves))
            leaves[place[inside], held.cells.cell[start:end][inside]] = held.cells.count[start:end][inside]
            held.done = end
            if end < len(groups):
                break
        return leaves

    def _current(self) -> _Held | None:
        """The current part of the stream, or None at its end."""
        while self._held is None or self._held.done == len(self._held.cells.group):
            following = next(self._batches, None)
            if following is None:
                return None
            if following.cells is None or np.any(np.diff(following.cells.group) < 0):
                raise ValueError("the answer to a split is cells, sorted by group")
            ranks = [] if self._public else [sort_key(key) for key in following.keys]
            _rising(ranks)
            self._held = _Held(following.cells, ranks)
        return self._held


def _rising(ranks: list[_Rank]) -> _Rank:
    """The last sort key. `ValueError` if the engine's order is not that of keys, because cells would be lost."""
    if any(after <= before for before, after in pairwise(ranks)):
        raise ValueError("groups are sorted by key")
    return ranks[-1] if ranks else ()


GROUPS = 2**17  # released rows in a piece of the file


def run_to_parquet(account: Account, prepared: PreparedRelease, place: str, *, engine: Engine) -> WrittenRelease:
    """Pay for a plan, and write its release to a Parquet file, or on a distributed engine to a folder of files.

    A repeated question gets the record of its first answer at no cost, wherever that was written.

    Args:
        account: The account that pays.
        prepared: The plan with its texts.
        place: The path of the new file or folder.
        engine: The engine.

    Returns:
        The record of the written table.

    Raises:
        ParameterError: The place is taken. Nothing was spent.
        QueryError: The plan has no table, or the data changed. Nothing was spent.
        BudgetError: The price does not fit. Nothing was spent.
        LedgerError: The ledger refuses; or the table is settled, but cannot get its name.
        ExecutionError: Something failed after the price was written. The budget stays spent.
    """
    plan = prepared.plan
    if plan.after != NOTHING:
        raise QueryError(
            "HAVING, ORDER BY, LIMIT, ratios and shapes are not applied to a written table: leave them out, and read it with them"
        )
    if plan.has_codes or any(stage.by_unit for stage in plan.stages):
        raise QueryError(
            "counts of distinct values, dates and texts are not for a written table: release them, or leave them out"
        )
    work = _work(engine, prepared, place)
    ticket = reserve(account, [prepared], prepared.digest, ACCOUNT_ALONE)
    if isinstance(ticket, Stored):
        return _again(ticket, work.shelf)
    folder, slash, name = place.rstrip("/").rpartition("/")
    hidden = f"{folder}{slash}.{name}.{ticket.position}"

    done = _attempt(work, plan, engine, hidden, f"{ticket.account}/{ticket.position}/{ticket.hash}")
    if done is None:  # raised here, outside any handler, so that the cause is not chained to it
        account.fail(ticket)
        raise ExecutionError
    resolved, choices, lost, digest = done
    description = prepared.describe(resolved, choices)
    written = WrittenRelease(
        place=place,
        unfinished=hidden,
        digest=digest,
        group_columns=prepared.group_columns,
        columns=description.columns,
        confidence=CONFIDENCE,
        guarantee=replace(prepared.guarantee, unchecked=prepared.guarantee.unchecked and not ticket.checked),
        notes=(*lost, *description.notes),
        provenance=provenance_of(account, ticket, prepared, description),
    )
    account.settle(ticket, written.to_json().encode())
    _show(work.shelf, written)
    return written


@dataclass(frozen=True, slots=True)
class _Work:
    """The way to make a table.

    Attributes:
        write: A function of the plan, the path and the release's identity.
        shelf: The file system.
    """

    write: Callable[[Plan, str, str], None]
    shelf: Shelf


def _work(engine: Engine, prepared: PreparedRelease, place: str) -> _Work:
    schema = prepared.schema
    if isinstance(engine, Distributed):
        work = _distributed(engine, prepared.plan, schema)
    elif isinstance(engine, Streaming):

        def streamed(plan: Plan, hidden: str, _: str) -> None:
            groups = by_group(plan)
            answers = pieces(groups, engine, noise.SYSTEM) if groups else [plan.answer(engine, noise.SYSTEM)]
            _write(schema, answers, hidden)

        work = _Work(streamed, LocalShelf())
        writable(place=place)
    else:
        raise QueryError(f"{type(engine).__name__} cannot write a table; ask for an ordinary release")
    if work.shelf.exists(place):
        raise ParameterError("place", place, "must not exist yet")
    return work


def _distributed(engine: Distributed, plan: Plan, schema: pa.Schema) -> _Work:
    """The way of a distributed engine. Groups stay on the workers; a short list of public answers gets its noise here."""

    def by_workers(plan: Plan, hidden: str, release: str) -> None:
        groups = by_group(plan)
        if groups is None:
            raise TypeError("first stages change bounds alone")
        answer = keyed_answer(groups, schema, release=release, secret=noise.fresh_secret())
        splits = [split.stage for split in groups.splits.values()]
        engine.write(plan.stage, splits, salt=noise.SYSTEM.bits(SALT_BITS), answer=answer, schema=schema, place=hidden)

    def here(plan: Plan, hidden: str, _: str) -> None:
        engine.put(plan.stage, as_table(schema, plan.answer(engine, noise.SYSTEM)), hidden)

    apart = by_group(plan) is not None and plan.stage.group_columns
    return _Work(by_workers if apart else here, engine.shelf(plan.stage))


def _attempt(
    work: _Work, asked: Plan, engine: Engine, hidden: str, release: str
) -> tuple[Plan, tuple[Choice, ...], tuple[str, ...], str] | None:
    """The plan, choices, what was lost, and the digest of the table; None after any failure, which leaves nothing behind."""
    done = None
    try:
        plan, choices = asked.resolve(engine, noise.SYSTEM)
        measured, lost = plan.with_loss(engine, noise.SYSTEM)
        work.write(measured, hidden, release)
        done = plan, choices, () if lost is None else (lost["says"],), work.shelf.digest(hidden)
    except Exception:  # noqa: BLE001 - every failure after reserve is one uniform error
        return None
    finally:
        if done is None:  # also if the process is stopped
            work.shelf.remove(hidden)
    return done


def _again(answer: Stored, shelf: Shelf) -> WrittenRelease:
    """The settled record. A table that a crash kept from its name gets it now."""
    written = release_in(answer.document)
    if not isinstance(written, WrittenRelease):
        raise LedgerError("this question was answered by an ordinary release; ask for that one: it costs nothing")
    if not shelf.exists(written.place) and shelf.exists(written.unfinished):
        if shelf.digest(written.unfinished) != written.digest:
            raise LedgerError(f"the table at {written.unfinished!r} is not the one that the ledger has; restore it")
        _show(shelf, written)
    return written


def _show(shelf: Shelf, written: WrittenRelease) -> None:
    try:
        shelf.move(written.unfinished, written.place)
    except OSError:
        raise LedgerError(
            f"the release is settled and lies at {written.unfinished!r}, for {written.place!r} cannot be made; make room "
            "there and ask again: it costs nothing"
        ) from None


def _write(schema: pa.Schema, answers: Iterable[NoisyAnswer], place: str) -> None:
    """A file readable by its owner alone, on the disk when this returns."""
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with pq.ParquetWriter(file, schema) as writer:
            held: list[pa.Table] = []
            for answer in answers:
                held.append(as_table(schema, answer))
                if sum(part.num_rows for part in held) >= GROUPS:
                    table = pa.concat_tables(held).combine_chunks()
                    full = table.num_rows // GROUPS * GROUPS
                    writer.write_table(table.slice(0, full), row_group_size=GROUPS)
                    held = [table.slice(full)]
            writer.write_table(pa.concat_tables([schema.empty_table(), *held]).combine_chunks(), row_group_size=GROUPS)
        file.flush()
        os.fsync(file.fileno())


class LocalShelf:
    """The file system of this machine."""

    def exists(self, place: str) -> bool:
        """Whether the path exists."""
        return os.path.lexists(place)

    def digest(self, place: str) -> str:
        """The SHA-256 of a file."""
        with Path(place).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def move(self, place: str, to: str) -> None:
        """Rename a file, and make the new name durable. A file that took the name meanwhile stays."""
        os.link(place, to)
        Path(place).unlink()
        folder = os.open(Path(to).resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, place: str) -> None:
        """Remove the file or folder, if it exists."""
        if Path(place).is_dir():
            shutil.rmtree(place)
        else:
            Path(place).unlink(missing_ok=True)
