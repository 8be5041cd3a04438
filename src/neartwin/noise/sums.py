"""Adding noise to exact integers, without wrapping around."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError


def add(exact: Any, noise: Any) -> NDArray[Any]:
    """The elementwise sums: int64 where all of them fit, else Python integers (dtype object).

    exact, noise: integers or integer arrays that broadcast. Wrapping around would be private, and useless.

    >>> add(np.array([1, 2]), np.array([10, -20]))
    array([ 11, -18])
    >>> add(2**63 - 1, np.array([1]))
    array([9223372036854775808], dtype=object)
    """
    first, second = np.asarray(exact), np.asarray(noise)
    for each in (first, second):
        if each.dtype.kind not in "iuO":
            raise ParameterError("exact, noise", each.dtype, "must be integers")
    if first.dtype.kind == "i" and second.dtype.kind == "i":
        sums: NDArray[Any] = first.astype(np.int64) + second.astype(np.int64)
        if not (((first ^ sums) & (second ^ sums)) < 0).any():  # both terms have the other sign: it wrapped
            return sums
    return np.asarray(first.astype(object) + second.astype(object), object)
