"""Laws: frozen values that name a distribution on the integers and fill arrays from a stream of bits.

A law holds no noise. It may be copied, compared and sent to other processes. A `Sampler` serves it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.noise import kernel
from neartwin.noise.layouts import Recipe
from neartwin.noise.lookup_table import table_of
from neartwin.noise.streams import Stream


class Law(ABC):
    """A distribution on the integers. Its `repr` names this law and no other in every process: keyed noise depends on it."""

    __slots__ = ()

    @property
    def wide(self) -> bool:
        """Whether values may need more than 64 bits. They are then Python integers in arrays of objects."""
        return False

    @abstractmethod
    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Fill a contiguous vector with independent draws.

        Args:
            out: The vector, int64 or (if wide) of objects.
            stream: The bits; row i takes those of the stream's row i.
        """


@dataclass(frozen=True, slots=True)
class Tabulated(Law):
    """A law drawn through the lazy table of its recipe.

    Attributes:
        recipe: The profile and its layout on the integers.
    """

    recipe: Recipe

    @property
    def wide(self) -> bool:
        """True beyond scales of about 2**51."""
        return self.recipe.wide

    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Draw with the array kernel; one by one if values are wide."""
        if self.recipe.wide:
            kernel.fill_wide(table_of(self.recipe), out, stream)
        else:
            kernel.fill(table_of(self.recipe), out, stream)


@dataclass(frozen=True, slots=True)
class UniformBits(Law):
    """The uniform law on 0, ..., 2**63 - 1: coins of any probability, 63 digits at a time."""

    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Draw one word a row, and drop its last bit."""
        out[:] = (stream.take(np.arange(out.size), 1)[0] >> np.uint64(1)).astype(np.int64)
