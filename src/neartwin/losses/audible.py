"""Which frequencies of a long line can be heard: where atoms of many kinds turn, they are seldom together again.

A long line is summed term by term, each |M(s)/M(lam)| times the kernel, which is at most step/pi
e^{mu^2 (lam(lam+1) - t^2)/2} (2/|s(s+1)| + dip) and falls in t. `Summand.quiet` bounds |M(s)/M(lam)| for all frequencies near
one, so that neighbouring nodes are judged at once, by the first of them; where that is not enough fewer are taken together, and
at last each alone. Terms proved to be too small to matter are never computed: what they may add together is charged with the
frequency cut, on both sides.
"""

from __future__ import annotations

import math

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.rounding import SMALLEST
from neartwin.losses.total import Total

MANY = 1024  # nodes from which a quick look pays
TURNS = (1.2, 0.4, 0.0)  # how far the fastest atoms may turn between nodes that are judged together, ever fewer


def audible(
    total: Total, lam: float, step: float, nodes: int, kernel: tuple[float, float, float]
) -> tuple[FloatArray, float]:
    """The frequencies whose terms may matter, 0 among them, and the sum of the moduli of all others, rounded up.

    step: between the nodes, so short a float that its products with them are exact. kernel: width squared, the factor of the
    lower one's dip, and the logarithm of what may be lost.
    """
    mu2, ratio, log_goal = kernel
    if nodes < MANY or total.pace == 0:
        return np.arange(nodes + 1.0) * step, 0.0
    every = np.arange(nodes + 1)
    lost, kept = 0.0, every
    share = max(log_goal, -600.0) - math.log(20 * len(every))
    for turn in TURNS:
        each = max(1, int(turn / (step * total.pace)))
        block = kept // each
        first = each * block[np.append(True, np.diff(block) > 0)]
        t: FloatArray = step * first.astype(float)
        size = np.exp(0.5 * mu2 * (lam * (lam + 1) - t * t)) * (
            2 / (np.hypot(t, lam) * np.hypot(t, lam + 1)) + ratio * mu2
        )
        size *= step / math.pi * (1 + 1e-9)
        half = 0.5 * (each - 1) * step
        bound = total.quiet(lam, t + half, half, share - np.log(np.maximum(size, SMALLEST)))
        if bound is None:
            return step * every.astype(float), 0.0
        heard = bound + np.log(size) > share
        heard[0] = True
        lost += each * float(np.exp(bound[~heard]) @ size[~heard]) * 1.01
        kept = (first[heard, None] + np.arange(each)).ravel()
        if each == 1:
            break
    return step * kept[kept <= nodes].astype(float), lost
