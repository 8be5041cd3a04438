"""Noise on the workers of a distributed engine: a function from exact answers to released rows, sent there as bytes.

Workers run a task again when one is lost or slow, so the noise is keyed. One group with one exact number always gets
one noise. Anything else gets unrelated noise. The key is fresh for each release. It goes with the function to the
workers, over the channels of the rows. No text, plan or log of the cluster shows it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neartwin import noise
from neartwin.engines.arrow import whole_numbers
from neartwin.engines.sql.statement import group_names
from neartwin.engines.sql.trees import CELL
from neartwin.errors import QueryError
from neartwin.exact import WholeNumbers
from neartwin.mechanisms.selection.thresholds import Selection
from neartwin.planning.groups import GroupPlan, Split
from neartwin.planning.plan import NoisyAnswer
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
