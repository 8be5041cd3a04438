"""Noise on the workers of a distributed engine: a function from exact answers to released rows, sent there as bytes.

Workers run a task again when one is lost or slow, so the noise is keyed: the same group with the same exact number gets
the same noise, and anything else gets unrelated noise. The key is fresh for each release and goes with the function to
the workers, over the channels that carry the rows themselves; no text, plan or log of the cluster shows it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neartwin import noise
from neartwin.engines.gather import gathered
from neartwin.errors import QueryError
from neartwin.exact import WholeNumbers
from neartwin.mechanisms.discrete_gaussian import DiscreteGaussian
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.mechanisms.geometric import Geometric
from neartwin.mechanisms.partition import OptimalSelection
from neartwin.queries.allot import Noise
from neartwin.queries.plan import GroupPlan
from neartwin.queries.source import ParquetFiles
from neartwin.releases.noising import CONFIDENCE
from neartwin.releases.statistics import statistics_of
from neartwin.releases.table import as_table, table_schema


@dataclass(frozen=True, slots=True)
class KeyedAnswer:
    """The function. Its text shows no key, and it holds neither rows nor a way to the source."""

    plan: GroupPlan
    selection: tuple[noise.Keyed, ...]
    measures: Mapping[str, noise.Keyed]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Released rows of each batch of exact answers."""
        schema = table_schema(self.plan)
        for batch in batches:
            yield from self._released(pa.Table.from_batches([batch])).cast(schema).to_batches()

    def _released(self, exact: pa.Table) -> pa.Table:
        plan = self.plan
        units = gathered(plan.stage, exact).values[plan.discovered_by]
        exact = exact.filter(pa.array(self._kept(self._keys(exact), units)))
        answers = gathered(plan.stage, exact)
        keys = self._keys(exact)
        noisy = {name: _noisy(keyed, keys, answers.values[name]) for name, keyed in self.measures.items()}
        statistics = statistics_of(plan, noisy, {}, CONFIDENCE)
        return as_table(table_schema(plan), answers.keys, statistics)

    def _kept(self, keys: list[Any], units: WholeNumbers) -> NDArray[np.bool_]:
        chosen = self.plan.selection
        if isinstance(chosen, OptimalSelection):
            return chosen.keeps_by(lambda place: self.selection[place].draw(keys, units), units)
        if chosen is None:
            raise QueryError("a table that stays distributed is for discovered groups")
        return np.asarray(_noisy(self.selection[0], keys, units) >= chosen.threshold, dtype=bool)

    def _keys(self, exact: pa.Table) -> list[Any]:
        return [exact[f"g{i}"] for i in range(len(self.plan.stage.group_columns))]


def keyed_answer(plan: GroupPlan, *, release: str, secret: bytes) -> KeyedAnswer:
    """The function for one release. `QueryError` for a plan whose noise or groups it does not know how to draw."""
    chosen = plan.selection
    if chosen is None:
        raise QueryError("a table that stays distributed is for discovered groups; public keys fit an ordinary release")
    if plan.splits:
        raise QueryError(
            "quantiles and histograms are read from a tree of counts for each group, which the workers of a cluster do not put "
            "together yet; ask for them over public keys in an ordinary release, or write the table from DuckDB or PostgreSQL"
        )
    keyed = partial(noise.keyed, release=release, secret=secret, stage=0)
    if isinstance(chosen, OptimalSelection):
        laws = [noise.UniformBits()] * chosen.digits
        selection = tuple(keyed(law, column="units", counter=2 + place) for place, law in enumerate(laws))
    else:
        selection = (keyed(_sampler(chosen.counts), column="units", counter=0),)
    measures = {
        name: keyed(_sampler(measure.mechanism), column=name, counter=1) for name, measure in plan.measures.items()
    }
    return KeyedAnswer(_detached(plan), selection, measures)


def _sampler(mechanism: Noise) -> noise.Sampler:
    match mechanism:
        case Geometric():
            return noise.geometric(mechanism.scale)
        case Gaussian():
            return noise.rounded_gaussian(mechanism.variance)
        case DiscreteGaussian():
            return noise.discrete_gaussian(mechanism.variance)
        case _:
            assert_never(mechanism)


def _noisy(keyed: noise.Keyed, keys: list[Any], values: WholeNumbers) -> WholeNumbers:
    return noise.add(values, keyed.draw(keys, values))


def _detached(plan: GroupPlan) -> GroupPlan:
    """The same plan about a source that is no one's, for a session cannot be sent."""
    nowhere = replace(plan.stage.table, source=ParquetFiles(()), joins=())
    groups = plan.query.groups
    query = replace(plan.query, groups=replace(groups, rows=replace(groups.rows, table=nowhere)))
    return replace(plan, query=query, stage=replace(plan.stage, table=nowhere))
