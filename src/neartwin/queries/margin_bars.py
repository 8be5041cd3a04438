"""How far an answer of a margin can be from the truth: from the weights of the noise in it, known before anything is released.

Normal noise: the answer errs by a normal law whose variance is that of the design, and by the rounding of each draw, at most
half a part. Discrete Laplace noise: by a weighted sum of independent draws, whose tail is at most
min over s of 2 exp(sum log M(s w) - s t), M the moment generating function (Chernoff), so t is the least such for the chance
wanted; any s gives a bound that holds.
"""

import math

import numpy as np
from scipy.special import ndtri

from neartwin.exact import FloatArray
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.mechanisms.geometric import Geometric
from neartwin.mechanisms.marginals import Margin
from neartwin.queries.plan import MarginalPlan

_SLACK = 1 + 1e-9  # for the rounding of these formulas themselves
_TRIED = 400


def half_width(plan: MarginalPlan, margin: Margin, confidence: float) -> float:
    """Each answer of a margin is within this of the truth with this probability at least, in steps."""
    noise = dict(zip(plan.measured, (measure.mechanism for measure in plan.measures.values()), strict=True))
    weights = {measured: plan.design.weights(margin, measured) for measured in noise}
    if all(isinstance(one, Gaussian) for one in noise.values()):
        z = float(ndtri((1 + confidence) / 2))
        rounding = math.fsum(float((np.abs(values) * counts).sum()) for values, counts in weights.values()) / 2
        return (z * math.sqrt(plan.design.variance(margin)) + rounding / plan.parts) * _SLACK
    terms = [(float(one.scale), *weights[measured]) for measured, one in noise.items() if isinstance(one, Geometric)]
    return _chernoff(terms, (1 - confidence) / 2) * _SLACK


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
