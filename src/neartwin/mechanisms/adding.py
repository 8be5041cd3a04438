"""Adding noise to whole numbers without a wrap-around."""

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers
from neartwin.noise import Sampler, Source, add


def add_noise(values: WholeNumbers, sampler: Sampler, source: Source) -> WholeNumbers:
    """Fresh noise on each value, in its shape: int64 where both fit, Python integers otherwise.

    values: whole numbers of any size. Wrapping round would keep privacy and spoil the answer.
    """
    if values.dtype.kind not in "iuO":
        raise ParameterError("values", values.dtype, "must be whole numbers", remedy="round them to a grid first")
    return add(values, sampler.draw(values.shape, source=source))


def clipped_whole(values: WholeNumbers, low: int, high: int) -> NDArray[np.int64]:
    """Whole numbers of any size and kind, clipped into [low, high] within 64 bits: total, whatever the values are."""
    given = np.asarray(values)
    if given.dtype.kind not in "iuO" or given.ndim != 1:
        raise ParameterError("values", f"{given.dtype}{given.shape}", "must be a list of whole numbers")
    wide = given if given.dtype.kind == "i" else given.astype(object)
    result: NDArray[np.int64] = np.clip(wide, low, high).astype(np.int64)
    return result
