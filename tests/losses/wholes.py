"""Random wholes of every kind whose truth `tests.oracles.truth` knows, at hostile parameters, and the judgement of answers."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from neartwin.losses import (
    Approx,
    BoundedRange,
    Composition,
    DiscreteGaussian,
    FinitePair,
    Gaussian,
    Geometric,
    Laplace,
    Leak,
    RandomAllocation,
    RandomizedResponse,
    SilentResponse,
    Staircase,
    SubsampledFinite,
    SubsampledGaussian,
    SubsampledLaplace,
    compose,
)
from tests.oracles import truth
from tests.oracles.truth import NoTruthError, ball

LEVEL = 1e-10  # to which a level's best slope is found
MAKERS = {
    "gaussian": lambda mu: Gaussian(mu=mu),
    "laplace": lambda e: Laplace(epsilon=e),
    "sampled gaussian": lambda mu, q: SubsampledGaussian(mu=mu, rate=q),
    "sampled laplace": lambda e, q: SubsampledLaplace(epsilon=e, rate=q),
    "response": lambda e, k: RandomizedResponse(epsilon=e, answers=k),
    "silent": lambda e: SilentResponse(epsilon=e),
    "geometric": lambda e, d: Geometric(epsilon=e, sensitivity=d),
    "staircase": lambda e, d, r: Staircase(epsilon=e, sensitivity=d, step=r),
    "discrete gaussian": lambda s, d: DiscreteGaussian(sigma2=s, sensitivity=d),
    "pair": lambda p, q: FinitePair(p=p, q=q),
    "sampled pair": lambda p, q, r: SubsampledFinite(base=FinitePair(p=p, q=q), rate=r),
    "approx": lambda e, d: Approx(epsilon=e, delta=d),
    "leak": lambda d: Leak(delta=d),
    "range": lambda e: BoundedRange(epsilon=e),
    "allocation": lambda mu: RandomAllocation(mu=mu, steps=2),
}


def whole_of(uses) -> Composition:
    """The library's composition."""
    return compose([n * MAKERS[use[0]](*use[1:]) for use, n in uses])


def log_uniform(rng, low, high, digits=6):
    """An exact number of few digits."""
    x = 10 ** rng.uniform(math.log10(low), math.log10(high))
    return Fraction(f"{x:.{digits}g}")


def rate(rng):
    """From 1e-17 to 1 - 1e-17."""
    q = log_uniform(rng, 1e-17, 0.5)
    return q if rng.random() < 0.6 else 1 - max(q, Fraction(2, 10**16))  # nearer to 1 is refused


def masses(rng, size):
    """A law on outcomes, some without mass and some with next to none."""
    parts = [int(rng.integers(0, 40)) if rng.random() < 0.8 else 0 for _ in range(size)]
    parts = parts if any(parts) else [1, *parts[1:]]
    law = [Fraction(part, sum(parts)) for part in parts]
    if rng.random() < 0.15:  # a sliver of one outcome goes to another
        i, j = (int(k) for k in rng.integers(0, size, 2))
        sliver = min(log_uniform(rng, 1e-200, 1e-3), law[i])
        law[i] -= sliver
        law[j] += sliver
    return tuple(law)


def pair(rng):
    size = int(rng.integers(1, 5))
    p = masses(rng, size)
    return ("pair", p, p if rng.random() < 0.05 else masses(rng, size))


def atomic(rng):
    """A use with few atoms, and how often."""
    e = log_uniform(rng, 1e-6, 8)
    name = rng.choice(["pair", "sampled pair", "approx", "leak", "response", "silent", "geometric", "staircase"])
    if name in {"pair", "sampled pair"}:
        found = pair(rng)
        return (found if name == "pair" else ("sampled pair", *found[1:], rate(rng))), int(rng.integers(1, 6))
    d = int(rng.integers(1, 6))
    use = {
        "approx": ("approx", e if rng.random() < 0.9 else Fraction(0), log_uniform(rng, 1e-17, 0.9)),
        "leak": ("leak", log_uniform(rng, 1e-17, 0.9)),
        "response": ("response", e, int(rng.integers(2, 9))),
        "silent": ("silent", e),
        "geometric": ("geometric", e, d),
        "staircase": ("staircase", e, d, int(rng.integers(1, d + 1))),
    }[str(name)]
    return use, int(rng.integers(1, 6))


def of_atoms(rng):
    return [atomic(rng) for _ in range(int(rng.integers(1, 3)))]


def of_lattice(rng):
    """Many copies of one lattice."""
    n, e = int(10 ** rng.uniform(0, 2)), log_uniform(rng, 1e-4, 3)
    d = int(rng.integers(1, 8))
    use = [
        ("response", e, int(rng.integers(2, 50))),
        ("silent", e),
        ("geometric", e, d),
        ("staircase", e, d, int(rng.integers(1, d + 1))),
        ("discrete gaussian", log_uniform(rng, 0.02, 9), int(rng.integers(1, 4))),
    ][int(rng.integers(0, 5))]
    return [(use, min(n, 12) if use[0] == "discrete gaussian" else n)]


def of_gaussians(rng):
    return [
        (("gaussian", log_uniform(rng, 1e-6, 60)), int(10 ** rng.uniform(0, 4))) for _ in range(int(rng.integers(1, 3)))
    ]


def of_laplaces(rng):
    if rng.random() < 0.6:
        return [(("laplace", log_uniform(rng, 1e-6, 30)), int(rng.integers(1, 30)))]
    return [(("laplace", log_uniform(rng, 1e-3, 5)), int(rng.integers(1, 5))) for _ in range(2)]


def of_sampled_gaussian(rng):
    return [(("sampled gaussian", log_uniform(rng, 1e-3, 50), rate(rng)), 1)]


def of_sampled_laplace(rng):
    return [(("sampled laplace", log_uniform(rng, 1e-3, 50), rate(rng)), 1)]


def of_mixture(rng):
    """Atoms beside one smooth part."""
    smooth = [of_gaussians, of_laplaces, of_sampled_gaussian, of_sampled_laplace][int(rng.integers(0, 4))](rng)
    if smooth[0][0][0] == "laplace":
        smooth = [(use, min(n, 4)) for use, n in smooth[:1]]
    use, n = atomic(rng)
    return [(use, min(n, 3)), *smooth]


def of_many(rng):
    """What only a contour answers: many sampled Gaussians, and others beside them."""
    mu, n = log_uniform(rng, 0.1, 2), int(10 ** rng.uniform(2, 5))
    q = min(log_uniform(rng, 3 / n, 0.5), Fraction(1, 2))
    uses = [(("sampled gaussian", mu, q), n)]
    if rng.random() < 0.5:
        uses.append((("laplace", log_uniform(rng, 0.01, 0.5)), int(rng.integers(1, 200))))
    if rng.random() < 0.5:
        uses.append((("gaussian", log_uniform(rng, 0.01, 1)), int(rng.integers(1, 10))))
    return uses


def of_ranges(rng):
    """One use, or two of which the second is chosen by the answer of the first."""
    return [(("range", log_uniform(rng, 1e-6, 40)), int(rng.integers(1, 3)))]


def of_allocations(rng):
    return [(("allocation", log_uniform(rng, 1e-5, 19.9)), 1)]


STRATA = {
    of_atoms: 0.17,
    of_lattice: 0.14,
    of_gaussians: 0.1,
    of_laplaces: 0.1,
    of_sampled_gaussian: 0.15,
    of_sampled_laplace: 0.1,
    of_mixture: 0.1,
    of_ranges: 0.06,
    of_allocations: 0.06,
    of_many: 0.02,
}


@dataclass(frozen=True)
class Question:
    """One whole and one question: `asked` of epsilon, delta or tradeoff at a value."""

    uses: Any
    direction: str | None
    asked: str
    value: Any

    def answer(self):
        """The library's interval."""
        return getattr(whole_of(self.uses), self.asked)(self.value, direction=self.direction)


def question(rng) -> Question:
    """A random question."""
    kinds = list(STRATA)
    kind = kinds[rng.choice(len(kinds), p=np.array(list(STRATA.values())))]
    uses = kind(rng)
    merged: dict[Any, int] = {}
    for use, n in uses:
        merged[use] = merged.get(use, 0) + n
    uses = list(merged.items())
    directions = [None, "remove", "add"]
    if kind in {of_sampled_gaussian, of_sampled_laplace, of_atoms, of_lattice} and all(
        u[0] != "sampled pair" for u in merged
    ):
        directions.append("replace")
    direction = directions[int(rng.integers(0, len(directions)))]
    draw = rng.random()
    if draw < 0.45 or kind in {of_ranges, of_many}:
        delta = (
            log_uniform(rng, 1e-300, 0.9, digits=12) if rng.random() < 0.5 else log_uniform(rng, 1e-12, 0.9, digits=12)
        )
        if kind is of_many:
            delta = log_uniform(rng, 1e-25, 0.3, digits=12)
        shares = [use[-1] for use in merged if use[0].startswith("sampled") or use[0] == "leak"]
        if shares and rng.random() < 0.4:  # a rate is the most that one step can reveal, but for a little
            delta = min(shares[0], Fraction(9, 10)) * (1 - log_uniform(rng, 1e-15, 0.5))
            delta = max(delta, Fraction(1, 10**18))
        return Question(uses, direction, "epsilon", delta)
    slow = kind in {of_mixture, of_allocations} or any(
        use[0] in {"laplace", "discrete gaussian"} and n > 5 for use, n in uses
    )
    if draw < 0.9 or slow:
        size = float(log_uniform(rng, 1e-12, 200))
        ends = [
            float(abs(use[1]) * n)
            for use, n in uses
            if use[0] in {"response", "silent", "geometric", "laplace", "staircase"}
        ]
        ends += [-math.log1p(-float(use[-1])) for use in merged if use[0].startswith("sampled") and use[-1] < 1 - 1e-12]
        if ends and rng.random() < 0.4:
            size = ends[0] * (1 + float(rng.choice([-1, 1])) * float(log_uniform(rng, 1e-14, 0.5)))
        return Question(uses, direction, "delta", float(rng.choice([1, 1, -1, 0])) * size)
    level = float(log_uniform(rng, 1e-9, 1)) if rng.random() < 0.7 else float(rng.choice([0.0, 0.5, 1.0]))
    return Question(uses, direction, "tradeoff", min(level, 1.0))


def sides(direction):
    """Directions of the oracle whose maximum answers."""
    return {None: ("remove", "add"), "replace": ("replace", "replace_back")}.get(direction, (direction,))


def true_deltas(uses, direction, epsilons):
    """The truth in one direction of the oracle."""
    (name, *given), count = uses[0]
    if name in {"range", "allocation"}:
        with truth.ctx.workprec(truth.BITS):
            if name == "range":
                return [truth.range_delta(given[0], count, eps) for eps in epsilons]
            return [truth.allocation_delta(given[0], direction, eps) for eps in epsilons]
    try:
        return truth.delta(uses, direction, epsilons)
    except NoTruthError:
        if not any(use[0] == "sampled gaussian" and n > 20 for use, n in uses):
            raise
    return truth.by_contour(uses, direction, epsilons)


def true_delta(uses, direction, eps):
    """The greatest over both data sets."""
    found = [true_deltas(uses, side, [eps])[0] for side in sides(direction)]
    return found[0] if len(found) == 1 else found[0].max(found[1])


def true_level(uses, side, alpha):
    """The greatest 1 - delta(eps) - e^eps alpha: one of them for each eps, concave in e^eps; a bound from below."""

    def missed(x):
        (found,) = true_deltas(uses, side, [Fraction(x)])
        return float(1 - found - ball(Fraction(x)).exp() * ball(Fraction(alpha)))

    low, high = -1000.0, 5000.0 if alpha else 1e9  # at level 0 the best is beyond all losses
    inner = [low + (high - low) * share for share in (0.381966011250105, 0.618033988749895)]
    values = [missed(x) for x in inner]
    best = max(0.0, *values)
    for _ in range(80):
        if values[0] < values[1]:
            low, inner = inner[0], [inner[1], inner[0] + (high - inner[0]) * 0.618033988749895]
            values = [values[1], missed(inner[1])]
        else:
            high, inner = inner[1], [low + (inner[1] - low) * 0.381966011250105, inner[0]]
            values = [missed(inner[0]), values[0]]
        best = max(best, *values)
    return best


def moved(asked: Question, lower, upper):
    """The interval moved up and down by its own width: near misses."""
    width = max(upper - lower, math.ulp(upper))
    if math.isfinite(upper):
        yield math.nextafter(upper, math.inf), upper + width
    if lower > 0 and math.isfinite(lower):
        yield max(lower - width, 0.0), math.nextafter(lower, 0)


def fault(asked: Question, lower, upper) -> str:
    """How the truth lies outside an interval, for certain; "" where it does not. Raises NoTruthError."""
    uses, direction = asked.uses, asked.direction
    if not lower <= upper:
        return "the ends are crossed, or no numbers"
    if asked.asked == "delta":
        found = true_delta(uses, direction, Fraction(asked.value))
        ends = arb(lower), arb(upper)
        return "above" if found > ends[1] else "below" if found < ends[0] else ""
    if asked.asked == "epsilon":
        goal = ball(asked.value)
        if lower > 0:
            at = Fraction(lower) if math.isfinite(lower) else Fraction(10**5)
            if true_delta(uses, direction, at) < goal:
                return "below"
        if math.isfinite(upper) and true_delta(uses, direction, Fraction(upper)) > goal:
            return "above"
        return ""
    least = min(true_level(uses, side, asked.value) for side in sides(direction))
    return "above" if least > upper + 1e-14 else "below" if least < lower - LEVEL else ""
