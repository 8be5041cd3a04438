"""1,000 realistic workloads, certified: how wide each answer is, and how long it takes on one core.

Classes: DP-SGD with sigma 0.5 to 4, rates 1e-6 to 0.1 and 100 to 10^6 steps; schedules of several sigmas and rates; sampled
steps mixed with Laplace, Gaussian and randomized response; counting queries; sampled Laplace; groups of 2 to 20 people. Most ask
for epsilon at one delta, every tenth for delta at one epsilon. The seed is fixed, and each question composes afresh. Seconds are
processor time. Two versions of the code are compared by `--save FILE` with the one and `--against FILE` with the other; `--every
N` asks every N-th workload only.

Bars: no answer wider than 1e-5 relative (1e-4 where a step sampled at a rate below 1e-2 stands beside any other law), and half
of the answers within 5 ms. The width of a delta below 1e-12 is not looked at.
"""

import argparse
import json
import math
import time
from fractions import Fraction
from pathlib import Path
from statistics import median

import numpy as np

from neartwin.losses import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
    SubsampledGaussian,
    SubsampledLaplace,
    compose,
)

SEED = 20261123
NARROW, BESIDE, SELDOM, QUICK = 1e-5, 1e-4, 1e-2, 5e-3
NOBODYS = 1e-12  # a delta below which no budget is stated
CLASSES = {"dp-sgd": 350, "schedules": 120, "mixes": 150, "counts": 180, "sampled laplace": 100, "groups": 100}


def between(rng, low, high):
    """A decimal of four digits, uniform in its logarithm."""
    return Fraction(f"{10 ** rng.uniform(math.log10(low), math.log10(high)):.4g}")


def step(rng, sigma=None, rate=None, people=1):
    """One sampled Gaussian step; of a group, at least one member takes part with probability 1 - (1 - rate)^people."""
    sigma = between(rng, 0.5, 4) if sigma is None else sigma
    rate = between(rng, 1e-6, 0.1) if rate is None else rate
    together = rate if people == 1 else Fraction(f"{-math.expm1(people * math.log1p(-float(rate))):.6g}")
    return SubsampledGaussian(mu=people / sigma, rate=together)


def dp_sgd(rng):
    return {step(rng): int(between(rng, 100, 1e6))}


def schedule(rng):
    """Stages of one run: the sigma moves, in half of the runs the rate too; one in ten has ten to forty stages."""
    stages = int(rng.integers(10, 41)) if rng.random() < 0.1 else int(rng.integers(2, 6))
    rate = None if rng.random() < 0.5 else between(rng, 1e-5, 0.1)
    return {step(rng, rate=rate): int(between(rng, 100, 1e5)) for _ in range(stages)}


def mix(rng):
    """Sampled steps and one to three other mechanisms."""
    others = [
        {Laplace(epsilon=between(rng, 0.01, 1)): int(between(rng, 1, 100))},
        {Gaussian(mu=between(rng, 0.01, 1)): int(between(rng, 1, 100))},
        {RandomizedResponse(epsilon=between(rng, 0.05, 1)): int(between(rng, 1, 50))},
    ]
    uses = dp_sgd(rng)
    for i in rng.permutation(3)[: int(rng.integers(1, 4))]:
        uses |= others[int(i)]
    return uses


def counts(rng):
    """Counting queries: one kind of noise or two, one to a thousand answers."""
    kinds = [
        lambda: Laplace(epsilon=between(rng, 0.005, 1)),
        lambda: Geometric(epsilon=between(rng, 0.005, 1), sensitivity=1),
        lambda: DiscreteGaussian(sigma2=between(rng, 4, 1e4)),
        lambda: Gaussian(mu=between(rng, 0.01, 1)),
        lambda: RandomizedResponse(epsilon=between(rng, 0.05, 2)),
    ]
    return {kinds[int(i)](): int(between(rng, 1, 1000)) for i in rng.choice(len(kinds), int(rng.integers(1, 3)), False)}


def sampled_laplace(rng):
    rate = between(rng, 1e-4, 0.3)
    return {SubsampledLaplace(epsilon=between(rng, 0.1, 2), rate=rate): int(between(rng, 10, 1e5))}


def groups(rng):
    """The same mechanisms, for a group."""
    people = int(rng.integers(2, 21))
    if rng.random() < 0.6:
        return {step(rng, between(rng, 1, 8), between(rng, 1e-6, 0.01), people): int(between(rng, 100, 1e5))}
    laws = (
        lambda: Laplace(epsilon=people * between(rng, 0.005, 0.2)),
        lambda: Gaussian(mu=people * between(rng, 0.01, 0.2)),
        lambda: Geometric(epsilon=between(rng, 0.005, 0.2), sensitivity=people),
    )
    return {laws[int(i)](): int(between(rng, 1, 200)) for i in rng.choice(3, int(rng.integers(1, 3)), False)}


MAKERS = dict(zip(CLASSES, (dp_sgd, schedule, mix, counts, sampled_laplace, groups), strict=True))


def workloads():
    """Class, uses, question, argument: 1,000 of them."""
    rng = np.random.default_rng(SEED)
    for name, many in CLASSES.items():
        for i in range(many):
            uses = MAKERS[name](rng)
            delta = (1e-5, 1e-6, 1e-7, 1e-8)[int(rng.integers(4))]
            yield name, uses, ("delta", float(between(rng, 0.1, 8))) if i % 10 == 9 else ("epsilon", delta)


def seldom(uses):
    """Whether a step that is seldom sampled stands beside any other law."""
    return len(uses) > 1 and any(isinstance(f, SubsampledGaussian) and f.rate < SELDOM for f in uses)


def answers(every):
    """One record a workload."""
    for i, (name, uses, (question, argument)) in enumerate(workloads()):
        if i % every:
            continue
        began = time.process_time()
        answer = getattr(compose(uses), question)(argument)
        spent = time.process_time() - began
        least = NOBODYS if question == "delta" else 0.0
        width = (answer.upper - answer.lower) / answer.upper if least < answer.upper < math.inf else 0.0
        yield {
            "i": i,
            "class": name,
            "uses": repr(compose(uses)),
            "question": question,
            "argument": argument,
            "lower": answer.lower,
            "upper": answer.upper,
            "method": answer.method,
            "width": width,
            "bar": BESIDE if seldom(uses) else NARROW,
            "seconds": spent,
        }


def table(records, earlier):
    """Print a line a class."""
    print(f"{'class':16} {'asked':>5} {'widest':>8} {'over bar':>8} {'median':>8} {'99 %':>8} {'most':>8} {'total':>8}")
    for name in (*CLASSES, "all"):
        some = [one for one in records if name in (one["class"], "all")]
        times = sorted(one["seconds"] for one in some)
        over = sum(one["width"] > one["bar"] for one in some)
        print(
            f"{name:16} {len(some):5} {max(one['width'] for one in some):8.1e} {over:8} {median(times) * 1e3:6.1f}ms "
            f"{times[int(0.99 * (len(times) - 1))]:7.3f}s {times[-1]:7.3f}s {sum(times):7.2f}s"
        )
    if earlier:
        known = {one["i"]: one for one in earlier}
        apart = [
            one for one in records if one["lower"] > known[one["i"]]["upper"] or one["upper"] < known[one["i"]]["lower"]
        ]
        before = sum(known[one["i"]]["seconds"] for one in records)
        print(f"the other version: {before:.2f} s; intervals that contradict each other: {len(apart)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--worst", type=int, default=0, help="name so many of the widest and of the slowest")
    options = parser.parse_args()
    (1 * SubsampledGaussian(mu=1, rate="0.01")).epsilon("1e-5")  # imports are no part of an answer
    records = list(answers(options.every))
    if options.save:
        options.save.write_text(json.dumps(records))
    table(records, json.loads(options.against.read_text()) if options.against else None)
    for key in ("width", "seconds") if options.worst else ():
        for one in sorted(records, key=lambda one: -one[key])[: options.worst]:
            print(f"{one[key]:.2e} {one['seconds']:.3f}s {one['question']}({one['argument']:.3g}) {one['uses'][:300]}")
    total, half = sum(one["seconds"] for one in records), median(one["seconds"] for one in records)
    over = sum(one["width"] > one["bar"] for one in records)
    print(
        f"workloads: {len(records)} in {total:.1f} s, {over} wider than the bar, median {half / QUICK:.2f} times 5 ms"
    )


if __name__ == "__main__":
    main()
