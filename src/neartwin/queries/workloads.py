"""Linear workloads over public groups: prefix sums, ranges, moving sums, and weights by key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from neartwin.checks import integer, several
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import rational
from neartwin.mechanisms.linear.workloads import MOST_CELLS, Intervals, Queries, Weighted
from neartwin.tables.types import ColumnType, Key

QUERY = "query"  # the release's column that names a query by weights
MOST_QUERIES = 2**19
_MOST_WEIGHTS = 2**22


@dataclass(frozen=True, slots=True)
class Resolved:
    """A workload over given keys.

    Attributes:
        columns: The release's group columns. Each has the group column whose values it holds, or None.
        keys: The key of each query.
        queries: The weights of each query.
    """

    columns: tuple[tuple[str, str | None], ...]
    keys: tuple[Key, ...]
    queries: Queries

    def typed(self, schema: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
        """The release's group columns and their types."""
        return {name: ColumnType.TEXT if source is None else schema[source] for name, source in self.columns}


@dataclass(frozen=True, slots=True)
class Workload:
    """Linear queries over groups.

    Attributes:
        kind: "prefixes", "ranges", "moving" or "weights".
        lengths: Lengths of ranges in groups, None for all. For moving sums, the number of groups before and after each.
        weights: Pairs of a key and its weight, by name of the query.
    """

    kind: str
    lengths: tuple[int, ...] | None = None
    weights: tuple[tuple[str, tuple[tuple[Key, Fraction], ...]], ...] = ()

    def __str__(self) -> str:
        if self.kind == "weights":
            return f"{len(self.weights):,} weighted sums"
        if self.kind == "moving" and self.lengths is not None:
            before, after = self.lengths
            return f"moving sums of {before} groups before each to {after} after it"
        return self.kind if self.lengths is None else f"ranges of {', '.join(map(str, self.lengths))} groups"

    def resolved(self, columns: Sequence[str], keys: tuple[Key, ...] | None) -> Resolved:
        """The queries over these keys, in their order.

        Args:
            columns: The group columns.
            keys: The public keys, or None.

        Returns:
            The resolved workload.

        Raises:
            QueryError: The workload does not fit the keys.
        """
        if keys is None or not columns:
            raise QueryError("a workload needs public keys: give keys=... for the group columns")
        if len(keys) > MOST_CELLS:
            raise QueryError(f"a workload takes at most {MOST_CELLS:,} public keys, and there are {len(keys):,}")
        if self.kind == "weights":
            return self._weights(keys)
        if len(columns) > 1:
            raise QueryError(f"{self.kind}() go over one column; group by {columns[-1]!r} alone, or give weights")
        first, last = self._ends(len(keys))
        (column,) = columns
        queries = Intervals(len(keys), first, last)
        if self.kind == "prefixes":
            return Resolved(((f"{column}_to", column),), keys, queries)
        if self.kind == "moving":
            return Resolved(((column, column),), keys, queries)
        named = tuple((keys[a][0], keys[b][0]) for a, b in zip(first.tolist(), last.tolist(), strict=True))
        return Resolved(((f"{column}_from", column), (f"{column}_to", column)), named, queries)

    def _ends(self, cells: int) -> tuple[Any, Any]:
        if self.kind == "prefixes":
            return np.zeros(cells, dtype=np.int64), np.arange(cells)
        if self.kind == "moving" and self.lengths is not None:
            before, after = (min(reach, cells) for reach in self.lengths)
            places = np.arange(cells)
            return np.maximum(places - before, 0), np.minimum(places + after, cells - 1)
        lengths = range(1, cells + 1) if self.lengths is None else self.lengths
        if max(lengths) > cells:
            raise ParameterError("lengths", max(lengths), f"must be at most the number of keys, {cells}")
        if sum(cells + 1 - length for length in lengths) > MOST_QUERIES:
            raise QueryError(f"range_sums(): more than {MOST_QUERIES:,} ranges; name the lengths with lengths=[...]")
        pairs = np.array([(a, a + length - 1) for length in lengths for a in range(cells + 1 - length)], dtype=np.int64)
        return pairs[:, 0], pairs[:, 1]

    def _weights(self, keys: tuple[Key, ...]) -> Resolved:
        places = {key: place for place, key in enumerate(keys)}
        if len(keys) * len(self.weights) > _MOST_WEIGHTS:
            raise QueryError(f"workload: at most {_MOST_WEIGHTS // len(keys):,} queries over {len(keys):,} keys")
        table = np.zeros((len(self.weights), len(keys)))
        for row, (name, weights) in enumerate(self.weights):
            for key, weight in weights:
                if key not in places:
                    shown = key[0] if len(key) == 1 else key
                    raise QueryError(f"workload: {shown!r} in {name!r} is not among the public keys")
                table[row, places[key]] = float(weight)
        return Resolved(((QUERY, None),), tuple((name,) for name, _ in self.weights), Weighted(table))

    def record(self) -> list[object]:
        """The parts of the workload that a digest covers. Workloads that ask the same have equal parts."""
        weights = [
            [name, [[list(map(str, key)), str(weight)] for key, weight in pairs]] for name, pairs in self.weights
        ]
        return [self.kind, None if self.lengths is None else list(self.lengths), weights]


def prefix_sums() -> Workload:
    """Running totals in the order of the public keys: the first group, the first two, ....

    The release has a row for each key, in the column NAME_to.

    Returns:
        The workload.

    >>> print(prefix_sums())
    prefixes
    """
    return Workload("prefixes")


def range_sums(lengths: Sequence[int] | None = None) -> Workload:
    """Sums over runs of neighbouring groups, in the order of the public keys.

    The release has a row for each range, with its first and last key in the columns NAME_from and NAME_to.

    Args:
        lengths: Lengths of the runs in groups; by default all.

    Returns:
        The workload.

    Raises:
        ParameterError: A length is no positive whole number, or is repeated.

    >>> print(range_sums([1, 7]))
    ranges of 1, 7 groups
    """
    if lengths is None:
        return Workload("ranges")
    sizes: tuple[Any, ...] = several(lengths=lengths)
    for one in sizes:
        integer(at_least=1, lengths=one)
    if not sizes or len(set(sizes)) != len(sizes):
        raise ParameterError("lengths", list(sizes), "must be at least one whole number, each once")
    return Workload("ranges", lengths=sizes)


def moving_sums(before: int, after: int = 0) -> Workload:
    """Sums over each group and its neighbours, in the order of the public keys; fewer at the ends.

    The release has a row for each key, in the column of its name.

    Args:
        before: Number of groups before each.
        after: Number of groups after each.

    Returns:
        The workload.

    Raises:
        ParameterError: A number is negative.

    >>> print(moving_sums(6))
    moving sums of 6 groups before each to 0 after it
    """
    for name, reach in (("before", before), ("after", after)):
        integer(at_least=0, **{name: reach})
    if before == after == 0:
        raise ParameterError("before", before, "must be at least 1 if after is 0", remedy="ask without a workload")
    return Workload("moving", lengths=(before, after))


def weighted(weights: Any) -> Workload:
    """Any linear queries: weights by name and key.

    Args:
        weights: A mapping from names to mappings from keys to weights.

    Returns:
        The workload.

    Raises:
        QueryError: The mapping has another form.
    """
    if not isinstance(weights, Mapping) or not weights:
        raise QueryError("workload() takes nt.prefix_sums(), nt.range_sums(), nt.moving_sums() or {name: weights}")
    queries = []
    for name, own in weights.items():
        if not isinstance(name, str) or not name or not isinstance(own, Mapping):
            raise QueryError(f"workload: {name!r} must be a name with weights by key, {{key: weight}}")
        pairs = ((key if isinstance(key, tuple) else (key,), rational(weight=weight)) for key, weight in own.items())
        nonzero = tuple((key, weight) for key, weight in pairs if weight)
        if not nonzero:
            raise QueryError(f"workload: all weights of {name!r} are 0; leave it out")
        queries.append((name, nonzero))
    return Workload("weights", weights=tuple(queries))
