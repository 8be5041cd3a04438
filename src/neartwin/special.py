"""SciPy's special functions of arrays, each loaded by its first call: to load SciPy takes 0.1 s, longer than a count does.

A plain count or histogram never calls one. Of single numbers, `math` has erf and erfc, and `statistics.NormalDist` the
normal quantile.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.special import betainc, betaincinv, erfc, erfcx, gammaln, log_ndtr, ndtr, ndtri
else:

    def _late(name: str) -> Callable[..., Any]:
        found = None

        def call(*given: object) -> object:
            nonlocal found
            if found is None:
                found = getattr(import_module("scipy.special"), name)
            return found(*given)

        return call

    betainc, betaincinv, gammaln = map(_late, ("betainc", "betaincinv", "gammaln"))
    erfc, erfcx, log_ndtr, ndtr, ndtri = map(_late, ("erfc", "erfcx", "log_ndtr", "ndtr", "ndtri"))

__all__ = ["betainc", "betaincinv", "erfc", "erfcx", "gammaln", "log_ndtr", "ndtr", "ndtri"]
