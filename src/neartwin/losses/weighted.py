"""A law of finitely many losses with what is known of its errors, and its tilted moments; few atoms go in plain floats.

Up to three atoms, arrays cost more than arithmetic; every error is then the worst of the atoms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.rounding import ELEMENTARY, U, blocked

FEW = 3  # atoms for which plain floats are quicker than arrays


@dataclass(frozen=True)
class Weighted:
    """Losses l_j with P-masses p_j that sum to 1, as logarithms, and what is known of their errors.

    mass_error: relative, each p_j (absolute, each logarithm). loss_error: absolute, each l_j. outside: absolute
    error of the sum of p e^{sl} over M(lam) that the nodes do not explain (quadrature); 0 for true atoms.
    log_share: of a part of a law, the logarithm of its mass, with its error; the p_j are then those given the part.
    """

    losses: FloatArray
    log_masses: FloatArray
    mass_error: FloatArray
    loss_error: FloatArray
    outside: float = 0.0
    log_share: tuple[float, float] = (0.0, 0.0)

    @property
    def masses(self) -> FloatArray:
        """The masses themselves; the smallest may vanish."""
        return np.exp(self.log_masses)

    @cached_property
    def few(self) -> list[tuple[float, float]]:
        """(loss, log mass) of each, for plain arithmetic."""
        return list(zip(self.losses.tolist(), self.log_masses.tolist(), strict=True))

    @cached_property
    def most(self) -> tuple[float, float, float, float]:
        """The largest mass error, loss error, |log mass| and |loss|."""
        return (
            max(self.mass_error.tolist()),
            max(self.loss_error.tolist()),
            max(abs(log) for _, log in self.few),
            max(abs(l) for l, _ in self.few),
        )

    @cached_property
    def worst(self) -> tuple[float, float]:
        """Bounds on the relative error of every p e^{sl}: at s = 0, and more for each unit of s."""
        fixed = float(self.mass_error.max()) + 2 * ELEMENTARY + 4 * U * float(np.abs(self.log_masses).max())
        return fixed, float(self.loss_error.max()) + 4 * U * float(np.abs(self.losses).max())


@dataclass(frozen=True)
class Tilted:
    """`Weighted` at one lam: K(lam), its derivatives and error, tilted weights, the constants of the line's error."""

    log_mgf: float
    error: float
    mean: float
    variance: float
    weights: FloatArray
    bulk: float  # sum of w rho: the most that relative errors rho of the weights can do, times 2
    slope: float  # sum of w rho |l|: the same per unit of t
    drift: float  # sum of w (loss_error + 8U |l|): moved losses, per unit of t


def tilted_few(w: Weighted, lam: float) -> Tilted:
    """The law tilted at lam; errors as `atoms.tilted` derives them, each the worst of the atoms."""
    mass_error, loss_error, log, size = w.most
    exponents = [lam * l for l, _ in w.few]
    logs = [one + x for (_, one), x in zip(w.few, exponents)]  # noqa: B905 - made from one list
    top, reach = max(logs), lam * size
    raw = [math.exp(one - top) for one in logs]
    whole = math.fsum(raw)
    sums = blocked(len(raw))
    rho = mass_error + lam * loss_error + 3 * U * reach + 2 * ELEMENTARY + 2 * U * log + 4 * U * abs(top)
    rho = (2.01 * rho + 2 * sums) * 1.01
    mean = spread = moment = 0.0
    weights = [one / whole for one in raw]
    for p, (l, _) in zip(weights, w.few):  # noqa: B905
        mean += p * l
        moment += p * l * l
        spread += p * abs(l)
    if max(exponents) < 600:
        value, absolute = 0.0, 0.0
        for (_, one), x in zip(w.few, exponents):  # noqa: B905
            part = math.exp(one) * math.expm1(x)
            value += part
            absolute += abs(part)
        moved = absolute * (mass_error + ELEMENTARY + U * (2 + log) + sums) + (1 + absolute) * (
            lam * loss_error + U * reach
        )
        log_mgf = math.log1p(value)
        error = (moved * 1.02 + 1e-60 * len(raw)) / (1 + value) * 1.01 + ELEMENTARY * abs(log_mgf)
    else:
        log_mgf = top + math.log(whole)
        error = rho + 4 * U * (abs(top) + 20)
    return Tilted(
        log_mgf=log_mgf,
        error=error + 2 * w.outside,
        mean=mean,
        variance=max(moment - mean * mean, 0.0),
        weights=np.array(weights),
        bulk=2.02 * rho,
        slope=1.01 * rho * spread,
        drift=1.01 * (loss_error + 8 * U * size),
    )


def few_cumulants(atoms: list[tuple[float, float]], lam: float, count: int) -> tuple[float, float, float]:
    """K, K', K'' of so many copies of a few atoms, as (loss, log mass), uncertified."""
    top = max(log + lam * l for l, log in atoms)
    weights = [math.exp(log + lam * l - top) for l, log in atoms]
    total = math.fsum(weights)
    mean = sum(w * l for w, (l, _) in zip(weights, atoms, strict=True)) / total
    variance = sum(w * (l - mean) ** 2 for w, (l, _) in zip(weights, atoms, strict=True)) / total
    k = math.log1p(sum(math.exp(log) * math.expm1(lam * l) for l, log in atoms)) if top < 1 else top + math.log(total)
    return count * k, count * mean, count * variance


def few_turns(w: Weighted, tilt: Tilted, t: FloatArray) -> tuple[FloatArray, FloatArray, float, float]:
    """The sum of `atoms.line` for a few atoms, less 1, and the bound on its error, (fixed, per t): losses +-l share their turns.

    min(a, ta') + min(b, tb') <= min(a + b, t(a' + b')), and one of the two serves all t.
    """
    weights: dict[float, tuple[float, float]] = {}
    size = 0.0
    for (l, _), p in zip(w.few, tilt.weights.tolist(), strict=True):
        both, apart = weights.get(abs(l), (0.0, 0.0))
        weights[abs(l)] = (both + p, apart + math.copysign(p, l))
        size += p * abs(l)
    x = y = 0.0 * t
    for l, (both, apart) in weights.items():
        if l > 0:
            half = t * (0.5 * l)
            sine = np.sin(half)
            x = x - sine * sine * (2 * both)
            y = y + sine * np.cos(half) * (2 * apart)
    bulk, slope = tilt.bulk + 6 * ELEMENTARY, tilt.slope + 3.03 * ELEMENTARY * size
    if float(t[-1]) * slope > 4 * bulk:
        return x, y, bulk + 4 * w.outside, tilt.drift
    return x, y, 4 * w.outside, slope + tilt.drift
