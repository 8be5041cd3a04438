"""SciPy's special functions, loaded when the first one is called: to load them takes longer than many a release.

Whoever imports a name from here pays nothing until its value is wanted; plain counts and histograms never want one.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.special import (
        betainc,
        betaincinv,
        betaln,
        erf,
        erfc,
        erfcx,
        gammaln,
        log_ndtr,
        logsumexp,
        ndtr,
        ndtri,
        roots_legendre,
        xlogy,
    )
else:

    def _late(name: str) -> Callable[..., Any]:
        found = None

        def call(*given: object, **named: object) -> object:
            nonlocal found
            if found is None:
                found = getattr(import_module("scipy.special"), name)
            return found(*given, **named)

        call.__name__ = call.__qualname__ = name
        return call

    betainc, betaincinv, betaln, xlogy = map(_late, ("betainc", "betaincinv", "betaln", "xlogy"))
    erf, erfc, erfcx = map(_late, ("erf", "erfc", "erfcx"))
    gammaln, logsumexp, roots_legendre = map(_late, ("gammaln", "logsumexp", "roots_legendre"))
    log_ndtr, ndtr, ndtri = map(_late, ("log_ndtr", "ndtr", "ndtri"))

__all__ = [
    "betainc",
    "betaincinv",
    "betaln",
    "erf",
    "erfc",
    "erfcx",
    "gammaln",
    "log_ndtr",
    "logsumexp",
    "ndtr",
    "ndtri",
    "roots_legendre",
    "xlogy",
]
