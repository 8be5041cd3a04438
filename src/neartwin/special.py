"""SciPy's special functions of arrays. The first call loads them, because SciPy takes 0.1 s to load.

A plain count or histogram never calls one. For single numbers, `math` has erf and erfc, and `statistics.NormalDist` has
the normal quantile.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.special import *  # noqa: F403 - those below
else:

    def _late(name: str) -> Callable[..., Any]:
        return lambda *arguments: getattr(import_module("scipy.special"), name)(*arguments)  # noqa: PLW0108 - loads late

    bdtr, bdtrc, expit, gammaln = map(_late, ("bdtr", "bdtrc", "expit", "gammaln"))
    betainc, betainccinv, betaincinv = map(_late, ("betainc", "betainccinv", "betaincinv"))
    erfc, erfcx, log_ndtr, ndtr, ndtri = map(_late, ("erfc", "erfcx", "log_ndtr", "ndtr", "ndtri"))
