"""How far an answer of a margin can be from the truth: from the weights of the noise in it, known before anything is released.

Normal noise: the answer errs by a normal law whose variance is that of the design, and by the rounding of each draw, at most
half a part. Discrete Laplace noise: by a weighted sum of independent draws. One draw alone has its own law's bar. Of several,
each term is rounded up to a fine lattice, where the law of the sum is a product of Fourier transforms: that sum is never below
the true one, so its tail is an upper bound. What lies beyond the lattice, and all where draws are too wide for one, is bounded
by Chernoff: the tail is at most min over s of exp(sum log M(s w) - s t), M the moment generating function; any s will do.
"""

import math

import numpy as np

from neartwin.exact import FloatArray
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.mechanisms.geometric import Geometric
from neartwin.mechanisms.marginals import Margin
from neartwin.queries.plan import MarginalPlan
from neartwin.special import ndtri

_SLACK = 1 + 1e-9  # for the rounding of these formulas themselves
_TRIED = 400
_POINTS = 2**17  # of the lattice
_REACH = 24.0  # deviations to each side
_WIDEST = 2e5  # scale of a draw, in steps
_SPARE = 1e-6


def half_width(plan: MarginalPlan, margin: Margin, confidence: float) -> float:
    """Each answer of a margin is within this of the truth with this probability at least, in steps."""
    noise = dict(zip(plan.measured, (measure.mechanism for measure in plan.measures.values()), strict=True))
    weights = {measured: plan.design.weights(margin, measured) for measured in noise}
    if all(isinstance(one, Gaussian) for one in noise.values()):
        z = float(ndtri((1 + confidence) / 2))
        rounding = math.fsum(float((np.abs(values) * counts).sum()) for values, counts in weights.values()) / 2
        return (z * math.sqrt(plan.design.variance(margin)) + rounding / plan.parts) * _SLACK
    terms = [(float(one.scale), *weights[measured]) for measured, one in noise.items() if isinstance(one, Geometric)]
    alone = [(one, values, counts) for one, (values, counts) in zip(noise.values(), weights.values(), strict=True)]
    single = [
        (one, value) for one, values, counts in alone for value, n in zip(values, counts, strict=True) if n and value
    ]
    if len(single) == 1 and sum(float(counts[values != 0].sum()) for _, values, counts in alone) == 1:
        ((one, weight),) = single
        return abs(float(weight)) * one.half_width(confidence) * _SLACK
    chance = (1 - confidence) / 2
    return min(_chernoff(terms, chance), _on_lattice(terms, chance)) * _SLACK


def _chernoff(terms: list[tuple[float, FloatArray, FloatArray]], chance: float) -> float:
    """Terms: scale, weights and how many draws have each. log M(x) = 2 log(1 - q) - log(1 - q e^x) - log(1 - q e^-x)."""
    reach = min(1 / (scale * float(np.abs(weights).max())) for scale, weights, _ in terms if np.abs(weights).max() > 0)
    best = math.inf
    for s in np.geomspace(reach * 1e-3, reach * (1 - 1e-6), _TRIED):
        total = 0.0
        for scale, weights, counts in terms:
            x = np.abs(weights) * s
            q = math.exp(-1 / scale)
            one = 2 * math.log(-math.expm1(-1 / scale)) - np.log(-np.expm1(x - 1 / scale)) - np.log1p(-q * np.exp(-x))
            total += float((counts * one).sum())
        best = min(best, (total - math.log(chance)) / s)
    return best


def _on_lattice(terms: list[tuple[float, FloatArray, FloatArray]], chance: float) -> float:
    """The least lattice point that the sum of terms, each rounded up, passes with at most this probability.

    Wrapping round the lattice and floating point cost less than _SPARE, which is taken off the chance.
    """
    if max(scale for scale, _, _ in terms) > _WIDEST:
        return math.inf
    deviation = math.sqrt(
        math.fsum(
            float((counts * weights**2).sum()) * 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
            for scale, weights, counts in terms
        )
    )
    if not deviation > 0:
        return 0.0
    step = 2 * _REACH * deviation / _POINTS
    if _chernoff(terms, _SPARE / 4) > (_REACH - 1) * deviation - step * sum(float(n.sum()) for _, _, n in terms):
        return math.inf
    transform = np.ones(_POINTS // 2 + 1, dtype=complex)
    for scale, weights, counts in terms:
        draws = np.arange(-math.ceil(42 * scale) - 1, math.ceil(42 * scale) + 2)
        chances = -math.expm1(-1 / scale) / (1 + math.exp(-1 / scale)) * np.exp(-np.abs(draws) / scale)
        for weight, many in zip(np.abs(weights), counts, strict=True):
            if weight and many:
                places = np.ceil(weight * draws / step).astype(np.int64) % _POINTS
                transform *= np.fft.rfft(np.bincount(places, weights=chances, minlength=_POINTS)) ** int(many)
    law = np.fft.irfft(transform, n=_POINTS)[: _POINTS // 2]
    beyond = np.cumsum(law[::-1])[::-1] - law  # beyond[j]: above j steps
    fits = np.flatnonzero(beyond <= chance - _SPARE)
    return float(fits[0]) * step if len(fits) else math.inf
