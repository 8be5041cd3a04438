"""Laws: frozen values that say which distribution on the integers, and can fill arrays from a stream of bits.

A law holds no noise: it may be copied, compared and sent to other processes. A `Sampler` serves it.
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.noise import exactly, kernel
from neartwin.noise.profiles import Given
from neartwin.noise.recipes import Recipe
from neartwin.noise.streams import Stream
from neartwin.noise.table import table_of


class Law(ABC):
    """A distribution on the integers."""

    __slots__ = ()

    @property
    @abstractmethod
    def label(self) -> str:
        """The law in words that no other law has, the same in every process."""

    @property
    @abstractmethod
    def wide(self) -> bool:
        """Whether values may need more than 64 bits; they are then Python integers in arrays of objects."""

    @abstractmethod
    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Fill a contiguous vector, int64 or (if wide) of objects; row i takes its bits from the stream's row i."""


@dataclass(frozen=True, slots=True)
class Tabulated(Law):
    """A law drawn through the lazy table of its recipe."""

    recipe: Recipe

    @property
    def label(self) -> str:
        """The recipe's own text; of a law given by functions, a digest of the table that their certified numbers make.

        Functions have no text that all processes share. Tables are integers: equal laws have equal ones, and laws with equal
        ones differ by less than 2**-60 in any event.
        """
        if not isinstance(self.recipe.profile, Given):
            return repr(self.recipe)
        table = table_of(self.recipe)
        digest = hashlib.sha256(table.owned.to_bytes(8, "little"))
        for part in (table.cells.astype("<i8"), table.thresholds.astype("<u8")):
            digest.update(part.tobytes())
        return f"given by weights with table {digest.hexdigest()}"

    @property
    def wide(self) -> bool:
        """Beyond scales of about 2**51."""
        return self.recipe.wide

    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """By the array kernel; one by one where values are wide."""
        if self.recipe.wide:
            exactly.fill_wide(table_of(self.recipe), out, stream)
        else:
            kernel.fill(table_of(self.recipe), out, stream)


@dataclass(frozen=True, slots=True)
class UniformBits(Law):
    """Each of 0, ..., 2**63 - 1 alike: coins of any probability, 63 digits at a time.

    >>> UniformBits().label
    'uniform on 63 bits'
    """

    @property
    def label(self) -> str:
        """Its name."""
        return "uniform on 63 bits"

    @property
    def wide(self) -> bool:
        """Never."""
        return False

    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """One word a row, less its last bit."""
        out[:] = (stream.take(np.arange(out.size), 1)[0] >> np.uint64(1)).astype(np.int64)
