r"""Rare great losses: one line for every number of copies that were great.

Where a person is seldom sampled, one copy's tilted law has two humps, common small losses and rare great ones. No single tilt
brings the sum of many near eps: the line's own scale e^{K(lam) - lam eps} is many powers of ten above delta, and rounding drowns
it. Let each summand i of n_i copies whose law has two humps be mu_i = a_i + b_i, two positive measures (`window.py`). Then
mu_i^{*n} = sum_k C(n, k) a_i^{*(n-k)} * b_i^{*k}, all terms positive, and delta(eps) = sum over k_1, ..., k_m of

    delta_k(eps) = E_{nu_k}[(1 - e^{eps - L})_+],      nu_k = prod_i C(n_i, k_i) a_i^{*(n_i - k_i)} b_i^{*k_i} * (the others).

Each term has one hump, and a contour at its own saddle loses nothing: `contour.py` holds for sub-probabilities word by word
(K(0) <= 0 there). Terms without a line, and all with some k_i > m_i, are bounded by Chernoff, which goes to the upper side:

    delta_k(eps) <= c(s) e^{K_k(s) - s eps};      sum_{k > m} C(n, k) A^{n-k} B^k <= C(n, m+1) A^{n-m-1} B^{m+1} / (1 - r),
    r = (n - m - 1) B / ((m + 2) A) < 1,     for C(n, k+1)/C(n, k) B/A <= r from k = m + 1 on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.frozen import dataclass
from neartwin.losses import contour, saddle
from neartwin.losses.answer import CONTOUR, NARROW, NO_LINE, WIDE, Answer, narrow
from neartwin.losses.contour import Contour
from neartwin.losses.inversion import invert
from neartwin.losses.loss import Summand
from neartwin.losses.rounding import ComplexArray, NoCertificateError, U
from neartwin.losses.saddle import Saddle
from neartwin.losses.total import Total, log_c

TILTS = (1.0, 1.25, 0.8, 1.6, 0.6, 2.0, 0.4)  # of the slope, at which two humps are looked for
GRID = np.geomspace(1 / 12, 3.0, 48)  # lams of the terms, over the slope
ROUGHLY = 0.3  # relative width of an answer from which terms can be chosen
MOST_GREAT = 48  # copies of one summand that were great, at most
FEWEST = 8  # lams with finite K
MOST_TERMS = 1 << 13
MOST_LINES = 48
MOST_NODES = 1 << 18  # frequencies of all lines together
SLIGHT = 1e-12  # of delta: what all terms without a line may add
CLOSE = 0.02  # relative error of eps from which the terms are chosen anew
AGAIN = 3
OFF = 1.0  # deviations between eps and the nearest of the common lams from which a term gets a lam of its own
GUESSES = 30  # halvings

Part = Callable[[int], Summand]


class Choices(Summand):
    """The factor C(n, k): which of the copies were great."""

    def __init__(self, n: int, k: int) -> None:
        """n: copies; k: of them great."""
        self.log = math.log(math.comb(n, k))

    def cumulants(self, lam: float) -> tuple[float, float, float]:
        """A constant."""
        del lam
        return self.log, 0.0, 0.0

    def log_mgf(self, lam: float) -> tuple[float, float]:
        """A constant, the logarithm of an exact integer."""
        del lam
        return self.log, 4 * U * self.log

    def line(self, lam: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Nothing turns."""
        del lam
        return np.zeros(len(t), dtype=complex), np.zeros(len(t))


class Split(NamedTuple):
    """n copies as common and great ones, and their K, K', K'' and K rounded up, (4, lams), of one copy each."""

    copies: int
    common: Part
    great: Part
    of_common: FloatArray
    of_great: FloatArray


@dataclass(frozen=True)
class Terms:
    """All numbers of great copies that matter, and their cumulants on a common list of lams."""

    lams: FloatArray
    log_c: FloatArray
    splits: tuple[Split, ...]
    others: tuple[Summand, ...]
    of_others: FloatArray  # (4, lams)

    @classmethod
    def of(cls, total: Total, lam: float) -> Terms:
        """Split every summand with two humps; `NoCertificateError` where none has."""
        found = [next((two for tilt in TILTS if (two := part.humps(lam * tilt))), None) for part in total.summands]
        if not any(found):
            raise NoCertificateError
        lams = lam * GRID
        splits = tuple(
            Split(part.copies, *two, *(_cumulants([of(part.copies)], lams) / part.copies for of in two))
            for part, two in zip(total.summands, found, strict=True)
            if two is not None
        )
        others = tuple(part for part, two in zip(total.summands, found, strict=True) if two is None)
        of_others = _cumulants(others, lams)
        usable = np.isfinite(of_others).all(axis=0)
        for one in splits:
            usable &= np.isfinite(one.of_common).all(axis=0) & np.isfinite(one.of_great).all(axis=0)
        if usable.sum() < FEWEST:
            raise NoCertificateError
        splits = tuple(
            one._replace(of_common=one.of_common[:, usable], of_great=one.of_great[:, usable]) for one in splits
        )
        logs = np.array([log_c(s) for s in lams[usable].tolist()])
        return cls(lams[usable], logs, splits, others, of_others[:, usable])

    def at(self, great: tuple[int, ...]) -> FloatArray:
        """K, K', K'' and K rounded up of one term, (4, lams)."""
        found, size = self.of_others.copy(), np.abs(self.of_others[3])
        for k, one in zip(great, self.splits, strict=True):
            log = math.log(math.comb(one.copies, k))
            found += (one.copies - k) * one.of_common + k * one.of_great
            found[[0, 3]] += log
            size = size + one.copies * (np.abs(one.of_common[3]) + np.abs(one.of_great[3])) + log
        found[3] += 16 * U * (size + 1)
        return found

    def rest(self, which: int, most: int) -> FloatArray:
        """Log of a bound on M(s) of all terms with more than `most` great copies of one summand, (lams,)."""
        found, size = self.of_others[3].copy(), np.abs(self.of_others[3])
        for i, one in enumerate(self.splits):
            common, great = one.of_common[3], one.of_great[3]
            size = size + one.copies * (np.abs(common) + np.abs(great))
            if i != which:
                found += one.copies * np.logaddexp(common, great)
                continue
            n, k = one.copies, most + 1
            least = 2 * one.of_common[0] - common
            ratio = (n - k) / (k + 1) * np.exp(np.minimum(great - least, 700.0)) * (1 + 1e-12)
            log = math.log(math.comb(n, k)) + (n - k) * common + k * great
            found += np.where(ratio < 1, log - np.log1p(-np.minimum(ratio, 1 - 1e-12)), np.inf)
        result: FloatArray = found + 64 * U * (size + 1)
        return result

    def guess(self, log_delta: float) -> float:
        """About where all terms together have this delta, uncertified: by the estimates at their saddles."""
        each = list(itertools.product(*(range(min(one.copies, MOST_GREAT) + 1) for one in self.splits)))
        if len(each) > MOST_TERMS:
            raise NoCertificateError
        curves = [self.estimate(self.at(great)) for great in each]
        at, logs = np.array([eps for eps, _ in curves]), np.array([log for _, log in curves])
        low, high = float(at.min()), float(at.max())
        for _ in range(GUESSES):
            eps = 0.5 * (low + high)
            each_log = np.min(logs - self.lams * (eps - at), axis=1)  # concave: below all its tangents
            low, high = (eps, high) if np.logaddexp.reduce(each_log) > log_delta else (low, eps)
        return 0.5 * (low + high)

    def counts(self, eps: float, log_goal: float) -> tuple[int, ...]:
        """How many great copies of each summand to look at, so that more add less than the goal at eps."""
        found = []
        for i, one in enumerate(self.splits):
            limit = min(one.copies, MOST_GREAT)
            for most in range(limit + 1):
                if most == one.copies or self.chernoff(self.rest(i, most), eps)[0] < log_goal:
                    break
            found.append(most)
        if math.prod(most + 1 for most in found) > MOST_TERMS:
            raise NoCertificateError
        return tuple(found)

    def chernoff(self, log_mgf: FloatArray, eps: float) -> tuple[float, float, float]:
        """The least bound on log delta over the lams, with its log c(s) M(s) and s."""
        value = log_mgf + self.log_c
        j = int(np.argmin(value - self.lams * eps))
        return float(value[j] - self.lams[j] * eps), float(value[j]), float(self.lams[j])

    def estimate(self, cumulants: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Eps and log delta at the saddles of all lams, uncertified."""
        k, mean, variance, _ = cumulants
        s = self.lams
        eps = mean - 1 / s - 1 / (1 + s)
        spread = variance + 1 / s**2 + 1 / (1 + s) ** 2
        return eps, k - s * eps - np.log(s) - np.log1p(s) - 0.5 * np.log(2 * math.pi * spread)


def _cumulants(parts: list[Summand] | tuple[Summand, ...], lams: FloatArray) -> FloatArray:
    found = np.zeros((4, len(lams)))
    for part in parts:
        for j, lam in enumerate(lams.tolist()):
            value, error = part.log_mgf(lam)
            _, mean, variance = part.cumulants(lam)
            found[:, j] += value, mean, variance, value + error
    return found


@dataclass(frozen=True)
class Humps:
    """The lines of the terms that matter, and Chernoff for the rest: log c(s) M(s) and s, (rests,)."""

    parts: tuple[Contour, ...]
    log_rest: FloatArray
    s_rest: FloatArray

    @property
    def nodes(self) -> int:
        """Of all lines."""
        return sum(part.nodes for part in self.parts)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Certified bounds on the finite part of delta at each eps."""
        with np.errstate(over="ignore", invalid="ignore"):
            lower, upper, _ = self.ledger(eps)
        return np.where(np.isnan(lower), 0.0, lower), np.where(np.isnan(upper), 1.0, upper)

    def ledger(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The bounds and the errors of all lines together; a line that proves nothing far from its saddle gives 0 and 1."""
        each = [part.ledger(eps) for part in self.parts]
        more = 1 + (len(each) + 8) * U
        rest = np.exp(np.minimum(self.log_rest - np.multiply.outer(eps, self.s_rest), 700.0)).sum(axis=1) * (1 + 1e-9)
        lower = np.sum([np.nan_to_num(one[0], nan=0.0) for one in each], axis=0) + np.zeros(len(eps))
        upper = np.sum([np.nan_to_num(one[1], nan=1.0) for one in each], axis=0) + rest
        names = each[0][2] if each else {}
        errors = {name: np.asarray(np.sum([one[2][name] for one in each], axis=0)) for name in names}
        return lower / more, np.minimum(upper * more, 1.0), errors | {"other humps": rest}

    def middle(self, eps: float) -> tuple[float, float]:
        """Delta and -d delta/d eps, uncertified."""
        both = [part.middle(eps) for part in self.parts]
        return sum(one[0] for one in both), sum(one[1] for one in both)


@np.errstate(all="ignore")  # what overflows is no number, and no number proves nothing
def build(terms: Terms, eps: float, log_delta: float) -> tuple[Humps, Saddle]:
    """The line for questions near this eps, where delta is about so large; and the saddle of its heaviest term."""
    goal = log_delta + math.log(SLIGHT)
    most = terms.counts(eps, goal - math.log(len(terms.splits) + 1))
    rests = [
        terms.chernoff(terms.rest(i, m), eps)[1:]
        for i, (m, one) in enumerate(zip(most, terms.splits, strict=True))
        if m < one.copies
    ]
    each = list(itertools.product(*(range(m + 1) for m in most)))
    lines, heaviest = [], (-math.inf, Saddle(1.0, eps, 1.0, log_delta))
    for great in each:
        cumulants = terms.at(great)
        bound, log, s = terms.chernoff(cumulants[3], eps)
        if bound < goal - math.log(len(each)):
            rests.append((log, s))
            continue
        at, logs = terms.estimate(cumulants)
        j = int(np.argmin(np.abs(at - eps)))
        here = Saddle(float(terms.lams[j]), eps, math.sqrt(max(float(cumulants[2, j]), 1e-300)), log_delta)
        heaviest = max(heaviest, (float(logs[j] + here.lam * (at[j] - eps)), here))
        lines.append((great, here, abs(float(at[j]) - eps) / here.deviation))
        if len(lines) > MOST_LINES:
            raise NoCertificateError
    parts: list[Contour] = []
    for great, here, off in lines:
        try:
            parts.append(_line(terms, great, here, off))
            if sum(part.nodes for part in parts) > MOST_NODES:
                raise NoCertificateError
        except NO_LINE:
            bound, log, s = terms.chernoff(terms.at(great)[3], eps)
            if bound > log_delta:
                raise NoCertificateError from None  # no other line can make up for it
            rests.append((log, s))
    rest = np.array(rests).reshape(-1, 2)
    return Humps(tuple(parts), rest[:, 0], rest[:, 1]), heaviest[1]


def _line(terms: Terms, great: tuple[int, ...], at: Saddle, off: float) -> Contour:
    """A contour for one term; off: how far from at.eps its lam leads, in deviations."""
    summands = list(terms.others)
    for k, one in zip(great, terms.splits, strict=True):
        summands += [of(many) for of, many in ((one.common, one.copies - k), (one.great, k)) if many]
        summands += [Choices(one.copies, k)] if 0 < k < one.copies else []
    total = Total(summands)
    return contour.build(
        total, saddle.for_eps(total, at.eps)._replace(log_delta=at.log_delta) if off > OFF else at, 0.0
    )


@np.errstate(all="ignore")
def by_humps(total: Total, low_target: float, high_target: float, near: Answer | None = None) -> Answer:
    """Eps where delta meets the target; `NoCertificateError` where no law has two humps. near: what other routes found."""
    log_delta = math.log(high_target)
    if near is None:
        terms = Terms.of(total, saddle.for_delta(total, high_target).lam)
        eps = terms.guess(log_delta)
    elif narrow(near.lower, near.upper, ROUGHLY):
        slope = near.slope if math.isfinite(near.slope) else saddle.for_delta(total, high_target).lam
        terms, eps = Terms.of(total, slope), 0.5 * (max(near.lower, 0.0) + near.upper)
    else:
        raise NoCertificateError
    best: Answer | None = None
    for _ in range(AGAIN):
        line, here = build(terms, eps, log_delta)
        (lower, upper, errors), middle, slope = invert(line, here, low_target, high_target)
        name = CONTOUR if narrow(lower, upper, NARROW) else WIDE
        if best is None or upper - lower < best.upper - best.lower:
            best = Answer(lower, upper, name, errors, slope)
        if abs(middle - eps) <= CLOSE * abs(eps) or not math.isfinite(middle):
            break
        eps = middle
    if best is None or not math.isfinite(best.upper):
        raise NoCertificateError
    return best
