"""SciPy's special functions, loaded when the first one is called: to load them takes longer than many a release.

Whoever imports a name from here pays nothing until its value is wanted; plain counts and histograms never want one. The error
functions and the normal quantile of a few numbers, which plans ask for, are the standard library's and load nothing: how many
an array has decides who computes, never what was called before.
"""

import math
from collections.abc import Callable
from importlib import import_module
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

_FEW = 16
_ROOT_PI = 1.772453850905516
_FAR = 25.0  # beyond, eight terms of the series leave less than 1e-18
_HUGE = 26.6288  # below, the value is beyond all doubles
_SPLIT = 134217729.0  # 2^27 + 1


def erfcx_of_one(x: float) -> float:
    """e^(x^2) erfc(x), relative error below 8 units: the square is carried in two floats; far out the asymptotic series."""
    if x > _FAR:
        step, total = 0.5 / x / x, 1.0
        for odd in (13, 11, 9, 7, 5, 3, 1):
            total = 1.0 - odd * step * total
        return total / (x * _ROOT_PI)
    if x < -_HUGE:
        return math.inf
    high = _SPLIT * x - (_SPLIT * x - x)  # of 26 bits, so that its square is exact
    return math.exp(high * high) * math.exp((x - high) * (x + high)) * math.erfc(x)


def ndtri_of_one(p: float) -> float:
    """The normal quantile (Wichura's algorithm AS 241), with its limits at 0 and 1."""
    if 0 < p < 1:
        return NormalDist().inv_cdf(p)
    return {0.0: -math.inf, 1.0: math.inf}.get(p, math.nan)


if TYPE_CHECKING:
    from scipy.special import (
        betainc,
        betaincinv,
        erf,
        erfc,
        erfcx,
        gammaln,
        log_ndtr,
        logsumexp,
        ndtr,
        ndtri,
        roots_legendre,
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

    def _shared(name: str, alone: Callable[[float], float]) -> Callable[..., Any]:
        many = _late(name)

        def call(x: object) -> object:
            if type(x) is float:
                return np.float64(alone(x))
            given = np.asarray(x, dtype=np.float64)
            if given.size > _FEW:
                return many(given)
            return np.array([alone(one) for one in given.ravel().tolist()], dtype=np.float64).reshape(given.shape)[()]

        call.__name__ = call.__qualname__ = name
        return call

    betainc, betaincinv = map(_late, ("betainc", "betaincinv"))
    erf, erfc = _shared("erf", math.erf), _shared("erfc", math.erfc)
    erfcx, ndtri = _shared("erfcx", erfcx_of_one), _shared("ndtri", ndtri_of_one)
    gammaln, logsumexp, roots_legendre = map(_late, ("gammaln", "logsumexp", "roots_legendre"))
    log_ndtr, ndtr = map(_late, ("log_ndtr", "ndtr"))

__all__ = [
    "betainc",
    "betaincinv",
    "erf",
    "erfc",
    "erfcx",
    "gammaln",
    "log_ndtr",
    "logsumexp",
    "ndtr",
    "ndtri",
    "roots_legendre",
]
