"""What an attacker reads from an output: named numbers, whatever the output's shape.

A number is read as itself, its lowest set bit (where float noise betrays its centre) and its fraction; a sequence as
entries, sum, extremes and their places; a mapping by keys; anything else, errors included, as "is this very value".
What is absent reads as NaN.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from neartwin.audit.playing import Outputs, Raised
from neartwin.exact import FloatArray

_MOST = 96  # columns; an output with more is read by its most frequent parts


@dataclass(frozen=True, slots=True)
class Seen:
    """Outputs with their columns, read once."""

    outputs: Outputs
    columns: Mapping[str, FloatArray]

    def column(self, name: str) -> FloatArray:
        """One column; all NaN if no output has it."""
        found = self.columns.get(name)
        return np.full(len(self.outputs), np.nan) if found is None else found

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
    if grid.ndim == 1:
        return _of_numbers(grid)
    return _of_vectors(grid)


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
    found = {"value": numbers}
    finite = np.isfinite(numbers)
    if not np.all(finite):
        found["is finite"] = finite.astype(np.float64)
    if np.any(numbers[finite] != np.floor(numbers[finite])):
        found["lowest bit"] = _lowest_bit(numbers)
        found["fraction"] = np.where(finite, np.abs(numbers - np.rint(np.where(finite, numbers, 0))), np.nan)
    return found


def _lowest_bit(numbers: FloatArray) -> FloatArray:
    """The exponent of the lowest set bit; NaN for 0 and what is not finite."""
    usable = np.isfinite(numbers) & (numbers != 0)
    mantissa, exponent = np.frexp(np.where(usable, numbers, 1.0))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    low = (whole & -whole).astype(np.float64)
    return np.where(usable, np.log2(low) + exponent - 53, np.nan)


def _of_vectors(grid: FloatArray) -> dict[str, FloatArray]:
    found = {f"[{i}]": grid[:, i] for i in range(min(grid.shape[1], _MOST - 8))}
    filled = np.where(np.isnan(grid), -np.inf, grid)
    with np.errstate(invalid="ignore"):
        found |= {
            "sum": grid.sum(axis=1),
            "largest": filled.max(axis=1),
            "smallest": filled.min(axis=1),
            "first largest": filled.argmax(axis=1).astype(np.float64),
            "first smallest": filled.argmin(axis=1).astype(np.float64),
            "distinct": (np.diff(np.sort(filled, axis=1), axis=1) > 0).sum(axis=1) + 1.0,
        }
        if grid.shape[1] == 2:
            found["difference"] = grid[:, 0] - grid[:, 1]
    return found


def _ragged(outputs: Outputs) -> dict[str, FloatArray]:
    rows = [_flat(output) for output in outputs]
    counts = Counter(name for row in rows for name in row)
    found = {name: np.full(len(rows), np.nan) for name, _ in counts.most_common(_MOST)}
    for i, row in enumerate(rows):
        for name, number in row.items():
            if name in found:
                found[name][i] = number
    return found


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
