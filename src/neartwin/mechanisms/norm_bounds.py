"""How much one unit can change a vector of whole numbers: every bound that follows from the bounds that are known.

For an integer vector v that differs from zero in c coordinates: |v|_inf <= |v|_1 <= |v|_2^2, c <= |v|_1,
|v|_1 <= c |v|_inf, |v|_1^2 <= c |v|_2^2, |v|_2^2 <= |v|_inf |v|_1. Each bound that is left out follows from the others;
each that is given may be sharpened by them. Laplace-like noise asks for `l1`, Gaussian noise for `l2_squared`.
"""

from dataclasses import dataclass
from math import isqrt

from neartwin.checks import integer
from neartwin.errors import ParameterError


@dataclass(frozen=True, slots=True, init=False)
class Change:
    """Bounds on an integer vector: absolute sum, squared length, largest entry, entries that differ from zero.

    Give l1, or l2_squared, or linf with cells; any further bound sharpens. Whole numbers, in grid steps.

    >>> Change(linf=20, cells=3)
    Change(l1=60, l2_squared=1200, linf=20, cells=3)
    >>> Change(l1=5).l2_squared, Change(l2_squared=100, cells=4).l1
    (25, 20)
    """

    l1: int
    l2_squared: int
    linf: int
    cells: int

    def __init__(
        self, *, l1: int | None = None, l2_squared: int | None = None, linf: int | None = None, cells: int | None = None
    ) -> None:
        """All bounds are at least 1: what nobody can change needs no noise."""
        known = {"l1": l1, "l2_squared": l2_squared, "linf": linf, "cells": cells}
        for name, value in known.items():
            if value is not None:
                integer(at_least=1, **{name: value})
        if l1 is None and l2_squared is None and (linf is None or cells is None):
            raise ParameterError("l1", l1, "must be given", remedy="or l2_squared, or linf together with cells")
        if l1 is None:
            options = [] if l2_squared is None else [l2_squared]
            if cells is not None:
                options += [] if l2_squared is None else [isqrt(cells * l2_squared)]
                options += [] if linf is None else [cells * linf]
            l1 = min(options)
        one, square, most, count = l1, l2_squared or l1 * l1, linf or l1, cells or l1
        while True:
            before = (one, square, most, count)
            most = min(most, one, isqrt(square))
            count = min(count, one, square)
            one = min(one, square, count * most, isqrt(count * square))
            square = min(square, most * one)
            if before == (one, square, most, count):
                break
        for name, value in zip(("l1", "l2_squared", "linf", "cells"), before, strict=True):
            object.__setattr__(self, name, value)
