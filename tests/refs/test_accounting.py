"""Every case of accounting.json, through the public API, compared as its `kind` says.

The folder comes from NEARTWIN_REFS where that is set, so that other files of the same shape are checked by this
command. A mechanism is a factor by name; "calibrate X" asks for the least noise by bisection on the engine's upper
end.
"""

import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from neartwin.exact import Interval
from neartwin.losses import (
    Approx,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Pure,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledLaplace,
    ZeroConcentrated,
    compose,
)

FOLDER = Path(os.environ.get("NEARTWIN_REFS", Path(__file__).parent / "data"))
CASES = json.loads((FOLDER / "accounting.json").read_text(encoding="utf-8"))


def ratio(top, bottom):
    return Fraction(str(top)) / Fraction(str(bottom))


def laplace_rate(p):
    return (
        Fraction(str(p["eps0"])) if "eps0" in p else ratio(p.get("sensitivity", 1), p["b"] if "b" in p else p["scale"])
    )


def pure_rate(p):
    return p["eps0"] if "eps0" in p else p["epsilon"] if "epsilon" in p else p["eps"]


FACTORS = {
    "gaussian": lambda p: Gaussian(mu=ratio(p.get("sensitivity", 1), p["sigma"])),
    "laplace": lambda p: Laplace(epsilon=laplace_rate(p)),
    "randomized_response": lambda p: RandomizedResponse(epsilon=str(pure_rate(p)), answers=p.get("k", 2)),
    "pure_dp": lambda p: Pure(epsilon=str(pure_rate(p))),
    "approximate_dp": lambda p: Approx(epsilon=str(p["epsilon"]), delta=str(p["delta"])),
    "discrete_laplace": lambda p: Geometric(epsilon=str(pure_rate(p)), sensitivity=p.get("sensitivity", 1)),
    "discrete_gaussian": lambda p: DiscreteGaussian(
        sigma2=Fraction(str(p["sigma"])) ** 2, sensitivity=p.get("sensitivity", 1)
    ),
    "poisson_subsampled_gaussian": lambda p: SubsampledGaussian(
        mu=ratio(p.get("sensitivity", 1), p["sigma"]), rate=str(p["q"])
    ),
    "poisson_subsampled_laplace": lambda p: SubsampledLaplace(epsilon=laplace_rate(p), rate=str(p["q"])),
    "exponential_mechanism": lambda p: BoundedRange(epsilon=str(pure_rate(p))),
    "zcdp": lambda p: ZeroConcentrated(rho=str(p["rho"])),
}
FACTORS["geometric"] = FACTORS["discrete_laplace"]
NOISE = {"gaussian": "sigma", "poisson_subsampled_gaussian": "sigma", "discrete_gaussian": "sigma"}  # the rest: scale


def family(words):
    """The factor's name in a mechanism's text: the longest known name that starts it, spaces and hyphens aside."""
    plain = words.strip().lower().replace(" ", "_").replace("-", "_")
    return max((name for name in FACTORS if plain.startswith(name)), key=len)


def whole(mechanism, p):
    if mechanism == "heterogeneous":
        return compose([whole(part["mechanism"], part) for part in p["parts"]])
    return p.get("count", 1) * FACTORS[family(mechanism)](p)


def direction(p):
    return p.get("direction")


def calibrated(mechanism, p):
    """The least noise (or scale) whose certified upper end meets the target, and the most whose lower end misses it."""
    name = family(mechanism.removeprefix("calibrate"))
    noise = NOISE.get(name, "scale")
    target = Fraction(str(p["epsilon"]))

    def eps(scale):
        used = whole(name, {k: v for k, v in p.items() if k not in ("epsilon", "delta")} | {noise: scale})
        return used.pure() if not p["delta"] else used.epsilon(str(p["delta"]), direction=direction(p))

    low, high = Fraction(1, 1000), Fraction(1)
    while eps(high).upper > target:
        low, high = high, 2 * high
    for _ in range(44):
        middle = Fraction(float((low + high) / 2))
        low, high = (low, middle) if eps(middle).upper <= target else (middle, high)
    return Interval(float(low), float(high))


def renyi(mechanism, p):
    used = whole(mechanism, p)
    orders = p["orders"] if "orders" in p else [p["order"]]
    found = [used.renyi(order, direction=direction(p)) for order in orders]
    return Interval(np.array([v.lower for v in found]), np.array([v.upper for v in found]))


def answer(case):
    mechanism, p, query = case["mechanism"], case["params"], case["query"]
    if mechanism.startswith("calibrate"):
        return calibrated(mechanism, p)
    if query == "rdp":
        return renyi(mechanism, p)
    ((ask, value),) = query.items()
    used = whole(mechanism, p)
    if ask == "epsilon_at_delta":
        return used.epsilon(str(value), direction=direction(p)) if value else used.pure()
    ways = {"delta_at_epsilon": used.delta, "tpr_at_fpr": used.tpr, "tradeoff_at_alpha": used.tradeoff}
    return ways[ask](float(value), direction=direction(p))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_reference(case):
    found, expected = answer(case), np.asarray(case["expected"], dtype=float)
    lower, upper = np.asarray(found.lower), np.asarray(found.upper)
    tolerance = case["tolerance"]
    allowed = tolerance.get("absolute", 0.0) + tolerance.get("relative", 0.0) * np.abs(expected)
    if case["kind"].startswith("upper bound"):
        assert np.all(lower <= expected + allowed)
    elif case["kind"] == "exact":
        assert np.all((lower - allowed <= expected) & (expected <= upper + allowed))
        assert np.all(upper - lower <= 2e-6 * np.maximum(np.abs(expected), 1e-300))
    else:
        contains = (lower <= expected) & (expected <= upper)
        near = (np.abs(lower - expected) <= allowed) & (np.abs(upper - expected) <= allowed)
        # an RDP accountant states upper bounds: its fractional orders cut a series, its exponential mechanism takes
        # min(eps, eps^2 order/8); test_composed.py holds ours against quadrature
        bound = (case["query"] == "rdp") & (upper <= expected) & (expected <= 1.05 * upper)
        assert np.all(contains | near | bound)
