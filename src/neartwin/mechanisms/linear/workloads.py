"""Strategies for linear workloads over cells in a row: what is measured, how far answers err, and what one unit moves.

A unit adds at most `rows` to each of at most `groups` cells, `total` in all; replaced, it takes as much away elsewhere. How
far it moves all measured numbers: (M8) to (M10) of docs/proofs/mechanisms.md. Answers are those of the least-squares estimate
of the cells, so they are consistent. Li, Miklau, Hay, McGregor, Rastogi 2015; Hay, Rastogi, Miklau, Suciu 2010 (trees).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.linear.matrix import Table, eigen_of_gram, identity, root_coefficients

MOST_CELLS = 512  # the most cells: time and memory grow with their square
_BRANCHINGS = (2, 3, 4, 6, 8, 12, 16, 24)
_ROOT_BITS = 10
_FITS = 2**62  # sums below it fit 64 bits
_EXACT = 2**53  # whole numbers below it are doubles
_GAP = 1e-8  # the largest distance of G H from the identity; worse strategies are rejected


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Queries that add up cells from `first` to `last`, both included. first, last: (queries,) places of cells.

    >>> Intervals(4, np.array([0, 1]), np.array([3, 2])).answers(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [10.0, 5.0]
    """

    cells: int
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    def answers(self, x: FloatArray) -> FloatArray:
        """(queries,) from the cells' values."""
        below = np.concatenate([[0.0], np.cumsum(x)])
        return np.asarray(below[self.last + 1] - below[self.first])

    def variances(self, h: FloatArray) -> FloatArray:
        """(queries,) q^T H q: the sum of a block of H."""
        block = np.zeros((self.cells + 1, self.cells + 1))
        block[1:, 1:] = h.cumsum(axis=0).cumsum(axis=1)
        a, b = self.first, self.last + 1
        result: FloatArray = block[b, b] - block[a, b] - block[b, a] + block[a, a]
        return np.maximum(result, 0.0)

    def gram(self) -> FloatArray:
        """(cells, cells) how many queries hold both cells."""
        gram = np.zeros((self.cells + 1, self.cells + 1))
        a, b = self.first, self.last + 1
        for rows, columns, sign in ((a, a, 1), (a, b, -1), (b, a, -1), (b, b, 1)):
            np.add.at(gram, (rows, columns), sign)
        return gram.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]

    def counted(self) -> float:
        """The mean number of cells that a query adds up."""
        return float((self.last - self.first + 1).mean())

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        """(queries,) the least weight of a cell, at most 0, and the largest one, at least 0."""
        return np.zeros(len(self)), np.ones(len(self))

    def whole_table(self) -> Table | None:
        """None: trees over the cells serve intervals better than the intervals themselves."""
        return None

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Any linear queries. table: (queries, cells)."""

    table: FloatArray

    @property
    def cells(self) -> int:
        """How many there are."""
        return int(self.table.shape[1])

    def answers(self, x: FloatArray) -> FloatArray:
        """(queries,) from the cells' values."""
        return self.table @ x

    def variances(self, h: FloatArray) -> FloatArray:
        """(queries,) q^T H q."""
        return np.asarray(np.maximum(((self.table @ h) * self.table).sum(axis=1), 0.0))

    def gram(self) -> FloatArray:
        """(cells, cells) W^T W."""
        return self.table.T @ self.table

    def counted(self) -> float:
        """The mean number of cells that a query adds up, by size of weights."""
        return float(np.abs(self.table).sum(axis=1).mean())

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        """(queries,) the least weight of a cell, at most 0, and the largest one, at least 0."""
        return self.table.min(axis=1, initial=0.0), self.table.max(axis=1, initial=0.0)

    def whole_table(self) -> Table | None:
        """(queries, cells) their weights, if all are whole numbers."""
        return self.table.astype(np.int64) if np.all(self.table == np.rint(self.table)) else None

    def __len__(self) -> int:
        return len(self.table)


Queries = Intervals | Weighted


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The most that one unit adds, in units of one row's largest.

    Attributes:
        rows: To one cell.
        groups: The number of cells.
        total: To all cells together.
        replaced: Whether neighbours replace a unit.
        signed: Whether a row may add numbers of either sign.
    """

    rows: int
    groups: int
    total: int
    replaced: bool
    signed: bool

    def cell(self, cells: int) -> int:
        """The largest change of a margin's cell, which holds so many. One that leaves and one that comes may move it alike."""
        return (1 + (self.replaced and self.signed)) * min(min(cells, self.groups) * self.rows, self.total)

    @property
    def l1(self) -> int:
        """The largest change of all cells, in absolute sum."""
        return (1 + self.replaced) * self.total

    def l2_squared(self, cells: int) -> int:
        """The largest squared change of a margin whose cells hold so many."""
        full, rest = divmod(self.groups, cells)
        one = full * (cells * self.rows) ** 2 + (rest * self.rows) ** 2
        most = min(cells * self.rows, self.total)
        return min(one, self.total * most) * (1 + self.replaced) * (1 + (self.replaced and self.signed))


@dataclass(frozen=True, slots=True, eq=False)
class Strategy:
    """A set of measured queries.

    Attributes:
        name: The strategy in words.
        table: (measured, cells) whole numbers A.
        gram: A^T A.
        h: The inverse of `gram`.
    """

    name: str
    table: Table
    gram: Table
    h: FloatArray

    @classmethod
    def of(cls, name: str, table: Table) -> "Strategy | None":
        """A strategy from its sums of cells.

        Args:
            name: The strategy in words.
            table: A, whole numbers, (measured, cells).

        Returns:
            The strategy; None if A does not determine every cell, or too weakly for floats.
        """
        gram = gram_of(table)
        floats = gram.astype(np.float64)
        try:
            h = np.linalg.inv(floats)
        except np.linalg.LinAlgError:
            return None
        good = np.abs(floats @ h - np.eye(len(gram))).max() < _GAP
        return cls(name, table, gram, (h + h.T) / 2) if good else None

    def estimate(self, noisy: FloatArray) -> FloatArray:
        """(cells,) least squares, refined until rounding alone is left."""
        right, gram = self.table.T @ noisy, self.gram.astype(np.float64)
        x = self.h @ right
        for _ in range(2):
            x = x + self.h @ (right - gram @ x)
        return x

    def measured(self, cells: WholeNumbers) -> WholeNumbers:
        """(measured,) A x, exact."""
        exact = np.asarray(cells).astype(object)
        most = int(np.abs(self.table).sum(axis=1).max()) * max((abs(int(one)) for one in exact), default=0)
        kind = np.int64 if most < _FITS else object
        return np.asarray(self.table.astype(kind) @ exact.astype(kind))


def gram_of(table: Table) -> Table:
    """A^T A, exact: by floats, which are quick, where every sum is a whole number below 2^53."""
    if int(np.abs(table).max(initial=0)) ** 2 * len(table) >= _EXACT:
        raise ParameterError(
            "table", table.shape, "must have smaller entries: the squares of a column add up to 2**53 at most"
        )
    floats = table.astype(np.float64)
    return np.rint(floats.T @ floats).astype(np.int64)


def reach_of_laplace(confidence: float) -> float:
    """The number of deviations that a sum of independent Laplace draws exceeds with probability at most 1 - confidence.

    It holds for any scales. Such a sum X is symmetric with a log-concave law. So S(t) = P(|X| > t) is log-concave with
    S(0) = 1, and S(u) >= S(t)^(u / t) for u <= t. With p = S(t) and l = log 1/p,

        E X^2 >= integral of 2 u exp(-l u / t) over [0, t] = 2 t^2 (1 - (1 + l) p) / l^2.

    So t <= s l / sqrt(2 (1 - (1 + l) p)). This bound falls in p, because the integral is 2 t^2 times that of v exp(-l
    v) over [0, 1]. Beyond its value at p the probability is therefore at most p.

    Args:
        confidence: The confidence.

    Returns:
        The number of deviations.

    >>> round(reach_of_laplace(0.95), 3)
    2.368
    """
    p = 1 - confidence
    length = math.log(1 / p)
    return length / math.sqrt(2 * (1 - (1 + length) * p)) * (1 + 1e-12)


def l1_change(table: Table, unit: Contribution) -> int:
    """The largest change of the measured numbers by one unit, in absolute sum.

    Args:
        table: A, whole numbers, (measured, cells).
        unit: The contribution of one unit.

    Returns:
        An upper bound, in units of one row's largest contribution.

    >>> one = Contribution(rows=2, groups=1, total=2, replaced=False, signed=False)
    >>> l1_change(np.array([[1, 1], [1, 0]]), one)
    4
    """
    columns = np.abs(table).sum(axis=0).tolist()
    if unit.replaced and not unit.signed:
        return _filled(columns, unit.rows, 2 * unit.groups, 2 * unit.total)
    return (2 if unit.replaced else 1) * _filled(columns, unit.rows, unit.groups, unit.total)


def l2_squared_change(gram: Table, unit: Contribution) -> int:
    """The largest squared change of the measured numbers by one unit.

    Args:
        gram: A^T A, (cells, cells).
        unit: The contribution of one unit.

    Returns:
        An upper bound, in squared units of one row's largest contribution.

    >>> one = Contribution(rows=2, groups=1, total=2, replaced=False, signed=False)
    >>> l2_squared_change(gram_of(np.array([[1, 1], [1, 0]])), one)
    8
    """
    if not unit.replaced:
        return _squared(gram, unit.rows, unit.groups, unit.total)
    alone = _squared(gram, unit.rows, unit.groups, unit.total)
    if unit.signed:
        return 4 * alone
    if unit.groups == 1:
        longest = np.diag(gram)
        apart = longest[:, None] + longest[None, :] - 2 * gram
        return min(unit.rows, unit.total) ** 2 * int(max(longest.max(), apart.max()))
    both = 2 * alone if gram.min() >= 0 else 4 * alone
    return min(both, _squared(gram, unit.rows, 2 * unit.groups, 2 * unit.total))


def _squared(gram: NDArray[np.int64], rows: int, groups: int, total: int) -> int:
    full, rest = divmod(min(total, groups * rows), rows)
    largest = np.sort(np.abs(gram), axis=1)[:, ::-1]
    most = [rows * one for one in largest[:, :full].sum(axis=1).tolist()]
    over = largest[:, full].tolist() if full < len(gram) else [0] * len(gram)
    inner = [one + rest * more for one, more in zip(most, over, strict=True)]
    return _filled(inner, rows, groups, total)


def _filled(worth: Sequence[int], rows: int, groups: int, total: int) -> int:
    """The most that sum w_j worth_j is with 0 <= w_j <= rows, at most `groups` of them above 0, and sum w_j <= total."""
    full, rest = divmod(min(total, groups * rows), rows)
    largest = sorted(worth, reverse=True)
    over = rest * largest[full] if full < len(largest) else 0
    return rows * sum(largest[:full]) + over


def strategies(queries: Queries, *, prefixes: bool) -> list[Strategy]:
    """The candidates: the cells alone, trees over them, an optimised strategy, and for prefix sums the root of their
    matrix.

    Args:
        queries: The queries over the cells.
        prefixes: Whether the queries are all prefix sums.

    Returns:
        The strategies, the cells alone first.
    """
    n = queries.cells
    tables: list[tuple[str, Table]] = [("each cell alone", identity(n))]
    several = sorted({b for b in _BRANCHINGS if b < n} | ({n} if n > 1 else set()))
    for branching in several:
        name, tree = f"a tree over the cells, {branching} children a node", _tree(n, branching)
        tables += [(name, tree), (f"{name}, without its root", tree[1:])]
    optimised = eigen_of_gram(queries.gram(), bits=_ROOT_BITS)
    tables += [
        ("optimised for the queries", optimised),
        ("optimised for the queries, filled up", _filled_up(optimised)),
    ]
    if prefixes:
        root = np.rint(root_coefficients(n) * 2**_ROOT_BITS).astype(np.int64)
        places = np.arange(n)
        lower = places[:, None] - places[None, :]
        tables.append(("the root of the matrix of prefix sums", np.where(lower >= 0, root[np.abs(lower)], 0)))
    own = queries.whole_table()
    if own is not None and len(queries) <= 2 * n:
        tables.append(("the queries, and each cell", np.concatenate([own[np.any(own, axis=1)], identity(n)])))
    candidates = (Strategy.of(name, table) for name, table in tables)
    return [one for one in candidates if one is not None]


def _tree(cells: int, branching: int) -> Table:
    """Every node of every level and the root."""
    tree = CountTree(cells, branching)
    levels = [identity(cells)]
    for width in tree.widths[:-1]:
        rows = np.zeros((-(-cells // width), cells), dtype=np.int64)
        rows[np.arange(cells) // width, np.arange(cells)] = 1
        levels.append(rows)
    return np.concatenate([np.ones((1, cells), dtype=np.int64), *levels])


def _filled_up(table: Table) -> Table:
    """With each cell alone as well, so far that no column gets longer than the longest: for a unit in one cell that is free."""
    squares = np.square(table).sum(axis=0)
    more = np.array([math.isqrt(int(squares.max() - one)) for one in squares], dtype=np.int64)
    return np.concatenate([table, np.diag(more)[more > 0]])
