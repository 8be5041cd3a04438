"""One of several mechanisms, chosen at random and in public, whatever the data: the mixture of their losses.

M(s) = Σ w_k M_k(s), and delta(eps) = Σ w_k delta_k(eps) of one use. Equation (K16): docs/proofs/losses-contour.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from neartwin.checks import several
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.summands.base import Direction, MaximumLoss, Pair, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, ComplexArray, NoCertificateError, U, log_one_plus

LEAST_WEIGHT = Fraction(1, 10**300)


class ChoiceSum(Summand):
    """`count` uses; each part is one use of one option, none of which may reveal all."""

    def __init__(self, parts: Sequence[Any], weights: Sequence[float], count: int) -> None:
        """weights: rounded to the nearest floats."""
        self.parts, self.weights, self.count = parts, np.array(weights), count
        highest = max(part.top.loss for part in parts)
        least = max(part.top.least for part in parts)
        self.top = MaximumLoss(count * highest * (1 + 4 * U), 0.0, count * least * (1 - 4 * U))
        self.variation = min(
            count * sum(w * part.variation for w, part in zip(weights, parts, strict=True)) * (1 + 1e-12), 1.0
        )
        self.ladder = parts[0].ladder if all(part.ladder is parts[0].ladder for part in parts) else None

    @property
    def choices(self) -> list[tuple[float, Any]]:
        """Those of all parts."""
        logs = zip(np.log(self.weights).tolist(), self.parts, strict=True)
        return [(log + own, one) for log, part in logs for own, one in part.choices]

    def log_mgf_by_panels(self, tilt: float) -> float:
        """Where the parts are slices, the mean of their own upper bounds."""
        each = np.array([part.log_mgf_by_panels(tilt) for part in self.parts])
        return float(np.logaddexp.reduce(each + np.log(self.weights)))

    def _shares(self, tilt: float) -> tuple[float, FloatArray, float, FloatArray]:
        """K of one use and its error; the options' shares of M(tilt) and their relative errors."""
        values, errors = np.array([part.log_mgf(tilt) for part in self.parts]).T
        if not np.all(np.isfinite(values)):
            raise NoCertificateError
        exponents = values + np.log(self.weights)
        top = float(exponents.max())
        shares = np.exp(exponents - top)
        shares /= shares.sum()
        if values.max() < 1 and values.min() > -1:
            value = math.log1p(float(self.weights @ np.expm1(values)))
            lost = 2 * (ELEMENTARY + (len(values) + 4) * U) * float(self.weights @ np.abs(np.expm1(values)))
        else:
            value = top + math.log(float(np.exp(exponents - top).sum()))
            lost = 4 * ELEMENTARY + (len(values) + 8) * U + 4 * U * abs(top)
        moved = errors + 8 * U * (np.abs(values) + np.abs(exponents)) + 4 * ELEMENTARY
        relative = moved + float(shares @ moved) + (len(values) + 4) * U
        return value, shares, 1.01 * (float(shares @ errors) + lost) + 2 * ELEMENTARY * abs(value), 1.01 * relative

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Those of a mixture, uncertified."""
        known = np.array([part.cumulants(tilt) for part in self.parts])
        share = np.exp(known[:, 0] - known[:, 0].max()) * self.weights
        share /= share.sum()
        mean = float(share @ known[:, 1])
        variance = float(share @ (known[:, 2] + np.square(known[:, 1] - mean)))
        return self.log_mgf(tilt)[0], self.count * mean, self.count * variance

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Count times one use."""
        try:
            value, _, error, _ = self._shares(tilt)
        except NoCertificateError:
            return math.inf, 0.0
        return self.count * value, self.count * error * (1 + 4 * U) + 2 * U * self.count * abs(value)

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Log of 1 + Σ share (ratio - 1), (K16)."""
        _, shares, _, relative = self._shares(tilt)
        x, y, error = np.zeros((3, len(t)))
        for part, share, own in zip(self.parts, shares.tolist(), relative.tolist(), strict=True):
            log, slack = part.log_mgf_ratio(tilt, t)
            grown, half = np.expm1(log.real), np.sin(0.5 * log.imag)
            turn = 2 * half * half
            up = (1 + grown) * np.sin(log.imag)
            x += share * (grown - (1 + grown) * turn)
            y += share * up
            size = np.abs(grown) + (1 + grown) * turn + np.abs(up)
            error += share * ((1 + grown) * np.expm1(np.minimum(slack, 700.0)) + size * (own + 8 * ELEMENTARY))
        one, bound = log_one_plus(x, y, 1.01 * error + (len(self.parts) + 2) * U * (np.abs(x) + np.abs(y)))
        return self.count * one, self.count * bound + 2 * U * self.count * np.abs(one)

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The parts' own."""
        return sum(part.work(tilt, t, frequencies) for part in self.parts)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """The mean of the parts' bounds."""
        _, shares, _, relative = self._shares(tilt)
        tails = [part.log_tail(tilt, t, until) for part in self.parts]
        whole = sum(
            s * (1 + r) * math.exp(tail) for s, r, tail in zip(shares.tolist(), relative.tolist(), tails, strict=True)
        )
        return min(self.count * math.log(whole * (1 + 64 * U)), 0.0) if whole > 0 else 0.0

    def zcdp_tail(self, s: float) -> float:
        """Renyi divergence of a mixture is at most the greatest."""
        return float(self.count * max(part.zcdp_tail(s) for part in self.parts) * (1 + 8 * U))

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """One use: the mean of the parts' own."""
        known = [one for one in (part.delta(eps) for part in self.parts) if one is not None]
        if self.count > 1 or len(known) < len(self.parts):
            return None
        # added one by one, for a product of matrices rounds by its shape
        lower, upper = sum(w * np.array(one) for w, one in zip(self.weights.tolist(), known, strict=True))
        slack = 8 * len(known) * U
        return lower * (1 - slack), np.minimum(upper * (1 + slack), 1.0)


@dataclass(frozen=True, slots=True)
class ChoicePair(Pair):
    """Pairs with their probabilities."""

    options: tuple[tuple[Pair, Fraction], ...]

    def repeated(self, count: int) -> Summand:
        """The composition."""
        pairs, weights = zip(*self.options, strict=True)
        return ChoiceSum([pair.repeated(1) for pair in pairs], list(map(float, weights)), count)


@dataclass(frozen=True, slots=True, init=False)
class PublicChoice(PrivacyLoss):
    """One of several mechanisms, by a public coin that depends on no data.

    >>> from neartwin.losses import Gaussian, SubsampledGaussian
    >>> one = PublicChoice(options=(Gaussian(mu=1), SubsampledGaussian(mu=1, rate="0.1")), weights=("0.01", "0.99"))
    >>> (100 * SubsampledGaussian(mu=1, rate="0.1")).epsilon(1e-5).upper < (100 * one).epsilon(1e-5).lower
    True
    """

    options: tuple[PrivacyLoss, ...]
    weights: tuple[Fraction, ...]

    def __init__(self, *, options: Sequence[PrivacyLoss], weights: Sequence[Number]) -> None:
        """Options with their probabilities.

        Args:
            options: Mechanisms that have a pair, none of which reveals all with a positive probability.
            weights: One probability each, above 0; they sum to 1 exactly.

        Raises:
            ParameterError: A number is out of bounds, or an option is no such mechanism.
        """
        masses = tuple(rational(weights=one) for one in several(weights=weights))  # type: ignore[arg-type]
        chosen = tuple(several(options=options))
        if len(chosen) != len(masses) or not chosen:
            raise ParameterError("options", options, "must be as many as the weights, and at least one")
        if sum(masses) != 1 or any(mass < LEAST_WEIGHT for mass in masses):
            raise ParameterError("weights", weights, "must be above 0 and sum to 1 exactly", remedy="write fractions")
        for one in chosen:
            pair = one.dominating_pair("remove") if isinstance(one, PrivacyLoss) else None
            if pair is None or any(pair.repeated(1).log_finite):
                raise ParameterError("options", one, "must be a mechanism with a pair that reveals nothing for sure")
        object.__setattr__(self, "options", chosen)
        object.__setattr__(self, "weights", masses)

    def dominating_pair(self, direction: Direction) -> Pair | None:
        """The mixture of the options' pairs."""
        return _mixed([one.dominating_pair(direction) for one in self.options], self.weights)

    def attained_pair(self, direction: Direction) -> Pair | None:
        """Likewise."""
        return _mixed([one.attained_pair(direction) for one in self.options], self.weights)


def _mixed(pairs: Sequence[Pair | None], weights: Sequence[Fraction]) -> Pair | None:
    known = [(pair, weight) for pair, weight in zip(pairs, weights, strict=True) if pair is not None]
    return ChoicePair(tuple(known)) if len(known) == len(pairs) else None
