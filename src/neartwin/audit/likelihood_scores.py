"""Scores: one number an output, higher where the right input is likelier. An event is a score above a threshold.

Each is learned on its own runs by a likelihood ratio, or is one column up or down. Ratios are of exact outputs, of bins of one
column, or of a linear form over all columns (Bichsel et al. 2021). The Neyman-Pearson lemma says that nothing beats the true
ratio. The game says which estimate of it does best.

An attacker reads an output as named numbers, whatever its shape. A number is read as itself, its lowest set bit and its
fraction: float noise betrays its centre in the lowest bit. A sequence is read as entries, sum, extremes and their places.
A mapping is read by keys. Anything else, an error too, is read as "is this very value". An absent number reads as NaN.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np

from neartwin.audit.runs import Outputs, Raised
from neartwin.exact import FloatArray

_MOST = 96  # columns; an output with more is read by its most frequent parts


@dataclass(frozen=True, slots=True)
class Seen:
    """Outputs with their columns, read once."""

    outputs: Outputs
    columns: Mapping[str, FloatArray]

    def column(self, name: str) -> FloatArray:
        """One column; all NaN if no output has it."""
        column = self.columns.get(name)
        return np.full(len(self.outputs), np.nan) if column is None else column

    def table(self, names: Sequence[str]) -> FloatArray:
        """The named columns side by side: shape (outputs, names).

        >>> seen([1.5, {"a": 2}]).table(["value", "['a']"])
        array([[1.5, nan],
               [nan, 2. ]])
        """
        return np.stack([self.column(name) for name in names], axis=1)


def seen(outputs: Outputs) -> Seen:
    """Read these outputs."""
    return Seen(outputs, columns(outputs))


def most_present(*samples: Seen) -> tuple[str, ...]:
    """The names of the columns in these samples, the most often present first, and not too many."""
    present: Counter[str] = Counter()
    for sample in samples:
        for name, column in sample.columns.items():
            present[name] += int(np.sum(~np.isnan(column)))
    return tuple(name for name, _ in present.most_common(_MOST))


def columns(outputs: Outputs) -> dict[str, FloatArray]:
    """Every column of these outputs, by name.

    >>> sorted(columns([(3, 1), (0, 2)]))[:3]
    ['[0]', '[1]', 'difference']
    """
    grid = _as_grid(outputs)
    if grid is None:
        return _ragged(outputs)
    return _of_numbers(grid) if grid.ndim == 1 else _of_vectors(grid)


def _as_grid(outputs: Outputs) -> FloatArray | None:
    """The outputs as numbers (n,) or vectors of one length (n, d), if that is what they are."""
    if isinstance(outputs, np.ndarray) and outputs.dtype != object:
        return np.asarray(outputs, np.float64) if outputs.ndim <= 2 and outputs.dtype.kind in "biuf" else None
    if all(_is_number(output) for output in outputs):
        return np.array([float(output) for output in outputs])
    first = outputs[0]
    if isinstance(first, tuple | list | np.ndarray) and 0 < len(first) <= _MOST:
        same = all(isinstance(output, tuple | list | np.ndarray) and len(output) == len(first) for output in outputs)
        if same and all(_is_number(entry) for output in outputs for entry in output):
            return np.array([[float(entry) for entry in output] for output in outputs])
    return None


def _is_number(output: object) -> bool:
    return isinstance(output, Real | np.bool_)


def _of_numbers(numbers: FloatArray) -> dict[str, FloatArray]:
    columns = {"value": numbers}
    finite = np.isfinite(numbers)
    if not np.all(finite):
        columns["is finite"] = finite.astype(np.float64)
    if np.any(numbers[finite] != np.floor(numbers[finite])):
        columns["lowest bit"] = _lowest_bit(numbers)
        columns["fraction"] = np.where(finite, np.abs(numbers - np.rint(np.where(finite, numbers, 0))), np.nan)
    return columns


def _lowest_bit(numbers: FloatArray) -> FloatArray:
    """The exponent of the lowest set bit; NaN for 0 and what is not finite."""
    usable = np.isfinite(numbers) & (numbers != 0)
    mantissa, exponent = np.frexp(np.where(usable, numbers, 1.0))
    integers = np.abs(mantissa * 2.0**53).astype(np.int64)
    low = (integers & -integers).astype(np.float64)
    return np.where(usable, np.log2(low) + exponent - 53, np.nan)


def _of_vectors(grid: FloatArray) -> dict[str, FloatArray]:
    columns = {f"[{i}]": grid[:, i] for i in range(min(grid.shape[1], _MOST - 8))}
    filled = np.where(np.isnan(grid), -np.inf, grid)
    with np.errstate(invalid="ignore"):
        columns |= {
            "sum": grid.sum(axis=1),
            "largest": filled.max(axis=1),
            "smallest": filled.min(axis=1),
            "first largest": filled.argmax(axis=1).astype(np.float64),
            "first smallest": filled.argmin(axis=1).astype(np.float64),
            "distinct": (np.diff(np.sort(filled, axis=1), axis=1) > 0).sum(axis=1) + 1.0,
        }
        if grid.shape[1] == 2:
            columns["difference"] = grid[:, 0] - grid[:, 1]
    return columns


def _ragged(outputs: Outputs) -> dict[str, FloatArray]:
    rows = [_flat(output) for output in outputs]
    counts = Counter(name for row in rows for name in row)
    columns = {name: np.full(len(rows), np.nan) for name, _ in counts.most_common(_MOST)}
    for i, row in enumerate(rows):
        for name, number in row.items():
            if name in columns:
                columns[name][i] = number
    return columns


def _flat(output: Any) -> dict[str, float]:
    if _is_number(output):
        return {"value": float(output)}
    if isinstance(output, Raised):
        return {f"raised {output.name}": 1.0}
    if isinstance(output, Mapping):
        return _prefixed({repr([key]): value for key, value in output.items()}) | {"length": float(len(output))}
    if isinstance(output, Sequence | np.ndarray) and not isinstance(output, str | bytes):
        parts = {f"[{i}]": value for i, value in enumerate(output)}
        numbers = [float(value) for value in output if _is_number(value)]
        shape = {"length": float(len(output)), "numbers": float(len(numbers)), "sum": float(sum(numbers))}
        return _prefixed(parts) | shape
    return {f"is {output!r}": 1.0}


def _prefixed(parts: Mapping[str, Any]) -> dict[str, float]:
    """One level deep: an entry that is a number keeps its key; anything else is named by its key and its text."""
    return {
        key if _is_number(value) else f"{key} is {value!r}": float(value) if _is_number(value) else 1.0
        for key, value in parts.items()
    }


_BINS = 40
_ROWS = 8_000  # a side, to fit the linear form: more teach it little


class Score(Protocol):
    """An attacker's number for each output."""

    def __call__(self, sample: Seen) -> FloatArray:
        """(n,) scores of n outputs; never NaN."""

    def turned(self) -> "Score":
        """This score with its sign changed: high where the left input is likelier."""


@dataclass(frozen=True, slots=True)
class ColumnScore:
    """One column, up (sign 1) or down (sign -1); what is absent scores lowest."""

    column: str
    sign: int

    def __call__(self, sample: Seen) -> FloatArray:
        """The column itself."""
        scores = self.sign * sample.column(self.column)
        return np.asarray(np.where(np.isnan(scores), -np.inf, scores))

    def turned(self) -> "ColumnScore":
        """The other direction."""
        return ColumnScore(self.column, -self.sign)

    def __str__(self) -> str:
        return f"{'' if self.sign > 0 else 'minus '}{self.column}"


@dataclass(frozen=True, slots=True)
class BinScore:
    """The log-likelihood ratio of the bin that a column falls in; the last bin holds what is absent."""

    column: str
    edges: FloatArray
    log_ratios: FloatArray

    def __call__(self, sample: Seen) -> FloatArray:
        """The ratio of the output's bin."""
        return np.asarray(self.log_ratios[_bins(sample.column(self.column), self.edges)])

    def turned(self) -> "BinScore":
        """The other direction."""
        return BinScore(self.column, self.edges, -self.log_ratios)

    def __str__(self) -> str:
        return f"likelihood ratio of {self.column}"


@dataclass(frozen=True, slots=True)
class AtomScore:
    """The log-likelihood ratio of the very output; an output not met before scores 0."""

    log_ratios: Mapping[Hashable, float]

    def __call__(self, sample: Seen) -> FloatArray:
        """The ratio of the output itself."""
        return np.array([self.log_ratios.get(atom, 0.0) for atom in _atoms(sample.outputs)])

    def turned(self) -> "AtomScore":
        """The other direction."""
        return AtomScore({atom: -ratio for atom, ratio in self.log_ratios.items()})

    def __str__(self) -> str:
        return "likelihood ratio of the whole output"


@dataclass(frozen=True, slots=True)
class LinearScore:
    """The log-odds of a logistic regression over the columns and over which of them are absent."""

    names: tuple[str, ...]
    centre: FloatArray
    scale: FloatArray
    weights: FloatArray

    def __call__(self, sample: Seen) -> FloatArray:
        """The linear form."""
        return np.asarray(_design(sample.table(self.names), self.centre, self.scale) @ self.weights, np.float64)

    def turned(self) -> "LinearScore":
        """The other direction."""
        return LinearScore(self.names, self.centre, self.scale, -self.weights)

    def __str__(self) -> str:
        return "linear form over " + ", ".join(self.names[:4]) + (", ..." if len(self.names) > 4 else "")


def learned(left: Seen, right: Seen) -> list[Score]:
    """All scores that these runs teach, in a fixed order.

    Args:
        left: The outputs for the left input.
        right: The outputs for the right input.

    Returns:
        The scores.
    """
    names = most_present(left, right)
    scores: list[Score] = []
    for name in names:
        bins = _bin_score(name, left.column(name), right.column(name))
        scores += [ColumnScore(name, 1), bins]  # down is up for the complement, and up when turned
    scores += _atom_scores(left.outputs, right.outputs)
    scores.append(_linear_score(names, left.table(names), right.table(names)))
    return scores


def _bins(column: FloatArray, edges: FloatArray) -> np.ndarray[Any, np.dtype[np.intp]]:
    bins = np.searchsorted(edges, np.where(np.isnan(column), 0, column), side="right")
    return np.where(np.isnan(column), len(edges) + 1, bins)


def _bin_score(name: str, left: FloatArray, right: FloatArray) -> BinScore:
    pooled = np.concatenate([left, right])
    pooled = pooled[~np.isnan(pooled)]
    values = np.unique(pooled)
    few = len(values) <= 2 * _BINS  # then a bin each
    edges = values if few else np.unique(np.quantile(pooled, np.arange(1, _BINS) / _BINS, method="lower"))
    counts = [np.bincount(_bins(side, edges), minlength=len(edges) + 2).astype(np.float64) for side in (left, right)]
    left_logs, right_logs = (
        np.log((side + 0.5) / (side.sum() + 1)) for side in counts
    )  # half a run more: none is infinite
    return BinScore(name, edges, np.asarray(right_logs - left_logs))


def _atoms(outputs: Outputs) -> list[Hashable]:
    if isinstance(outputs, np.ndarray) and outputs.ndim == 1:
        atoms: list[Hashable] = outputs.tolist()
        return atoms
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf":
        # one key a row; adding 0 turns -0.0 into 0.0, which it equals
        return [row.tobytes() for row in np.ascontiguousarray(outputs + 0)]
    return [output if isinstance(output, int | float | str | bool | None) else repr(output) for output in outputs]


def _atom_scores(left: Outputs, right: Outputs) -> list[Score]:
    """One score over very outputs, if outputs repeat at all."""
    seen_left, seen_right = Counter(_atoms(left)), Counter(_atoms(right))
    repeated = [atom for atom in seen_left.keys() | seen_right.keys() if seen_left[atom] + seen_right[atom] > 1]
    if not repeated:
        return []
    ratios = {
        atom: float(
            np.log((seen_right[atom] + 0.5) / (seen_left[atom] + 0.5)) + np.log((len(left) + 1) / (len(right) + 1))
        )
        for atom in repeated
    }
    return [AtomScore(ratios)]


def _design(table: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    absent = np.isnan(table)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.clip((np.where(absent, centre, table) - centre) / scale, -10, 10)
    return np.hstack([np.ones((len(table), 1)), np.nan_to_num(scaled), absent.astype(np.float64)])


def _linear_score(names: tuple[str, ...], left: FloatArray, right: FloatArray) -> LinearScore:
    """Ridge-penalised logistic regression by Newton's steps."""
    left, right = left[:_ROWS], right[:_ROWS]
    pooled = np.vstack([left, right])
    usable = np.where(np.isfinite(pooled), pooled, np.nan)
    filled = np.where(np.any(np.isfinite(usable), axis=0), usable, 0.0)
    centre = np.nanmedian(filled, axis=0)
    scale = np.nanmean(np.abs(filled - centre), axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    design = _design(pooled, centre, scale)
    label = np.concatenate([np.zeros(len(left)), np.ones(len(right))])
    weights = np.zeros(design.shape[1])
    for _ in range(10):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (chance - label) + weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + np.eye(len(weights))
        step = np.linalg.solve(curvature, slope)
        weights = weights - step
        if np.max(np.abs(step)) < 1e-3:
            break
    return LinearScore(names, centre, scale, weights)
