r"""Rare great losses: one line for every number of copies that were great.

Where a person is seldom sampled, one copy's tilted law has two humps, common small losses and rare great ones, and between them
a valley that rises when it is tilted. No single tilt brings the sum of many near eps: the line's own scale e^{K(lam) - lam eps}
is many powers of ten above delta, and rounding drowns it. Let each of the n copies of such a law be a + b, two positive
measures (`window.py`; where, says `splitting.py`). Then (a + b)^{*n} = sum_k C(n, k) a^{*(n-k)} * b^{*k}, all terms positive,
and delta(eps) is the sum over k of

    delta_k(eps) = E_{nu_k}[(1 - e^{eps - L})_+],      nu_k = C(n, k) a^{*(n-k)} * b^{*k} * (the others).

Copies above a place where hardly any is are not looked at: with probability n P(one is) at most, which goes to the upper side.
b may be a sum itself: its k copies are then counted by parts, with multinomial coefficients. Several laws are split likewise,
each with its own counts. `contour.py` holds for sub-probabilities word by word (K(0) <= 0 there). Terms without a line, and all
with more than m copies outside a of one law, are bounded by Chernoff, which goes to the upper side:

    delta_k(eps) <= c(s) e^{K_k(s) - s eps};      sum_{k > m} C(n, k) A^{n-k} B^k <= C(n, m+1) A^{n-m-1} B^{m+1} / (1 - r),
    r = (n - m - 1) B / ((m + 2) A) < 1,     for C(n, k+1)/C(n, k) B/A <= r from k = m + 1 on.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses import contour, saddle, splitting
from neartwin.losses.answer import CONTOUR, NARROW, NO_LINE, WIDE, Answer, common, narrow
from neartwin.losses.contour import Contour
from neartwin.losses.copies import Counts, Split, ways_of
from neartwin.losses.grouped import Group, Pieces, shared
from neartwin.losses.inversion import invert
from neartwin.losses.loss import Summand
from neartwin.losses.rounding import NoCertificateError, U
from neartwin.losses.saddle import Saddle
from neartwin.losses.splitting import Choice, divisions
from neartwin.losses.total import Total, log_c
from neartwin.losses.window import Divisible, Window

LAMS = 80  # lams of the terms
WIDER, FURTHER = 1.5, 6.0  # and how much further they reach than the terms want, below and above
MOST_GREAT = 48  # copies of one summand that were great, at most
MOST_TERMS = 1 << 13
MOST_NODES = 1 << 18  # frequencies of all lines together
TOLERANCE = 1e-11  # of delta: what alias and cut of one term may be
SHARE = 4  # times as long a line as one that must do alone
SLIGHT = 5e-12  # of delta: what all terms without a line may add
CLOSE = 0.02  # relative width of an earlier answer that stands for eps
OFF = 0.02  # how far a guess of eps may be off, in delta's logarithm, before the lines are built anew
AGAIN = 3
ENOUGH = 1e-10  # relative width from which none is
MOST_HEARD, MOST_LINES = 512, 48  # terms that are, and lines for them
GUESSES = 30  # halvings
LOOSE = 2.3  # how far Chernoff's bounds may lie above delta, in the logarithm, near an eps of 0
GUESSED = 5.0  # how far below delta, in the logarithm, the terms are that a guess may lack

Term = tuple[Counts, ...]


class Logs(NamedTuple):
    """K of the others, and of one copy of each part of each split, (parts, m) at m lams, rounded up; of the common one down."""

    others: FloatArray
    parts: tuple[FloatArray, ...]
    least: tuple[FloatArray, ...]


Bound = Callable[[Logs], FloatArray]


@dataclass(frozen=True)
class Terms:
    """All numbers of great copies that matter, and their cumulants on a common list of lams."""

    lams: FloatArray
    log_c: FloatArray
    splits: tuple[Split, ...]
    others: tuple[Summand, ...]
    of_others: FloatArray  # (3, lams)
    pieces: Pieces  # the others as one, then the parts of every split
    eps: float  # about where delta is met
    known: dict[int, Logs]

    @classmethod
    def of(cls, total: Total, choice: Choice) -> Terms:
        """Split every summand as chosen."""
        lams = np.geomspace(choice.lams[0] / WIDER, choice.lams[1] * FURTHER, LAMS)
        splits, others = [], []
        for part, law, windows, top in zip(total.summands, choice.laws, choice.windows, choice.never, strict=True):
            if windows is None or law is None or top is None:
                others.append(part)
                continue
            of = np.array([splitting.cumulants(law, lams, window) for window in windows])
            splits.append(
                Split(law.copies, tuple(partial(law.part, window) for window in windows), of, _seldom(law, top))
            )
        of_others = np.zeros((3, LAMS))
        for part in others:
            of_others += np.array([part.cumulants(lam) for lam in lams.tolist()]).T
        logs = np.array([log_c(s) for s in lams.tolist()])
        parts = [(part(one.copies), one.copies) for one in splits for part in one.parts]
        pieces = Pieces((*others, *(part for part, _ in parts)), np.array([1.0] * len(others) + [n for _, n in parts]))
        return cls(lams, logs, tuple(splits), tuple(others), of_others, pieces, choice.eps, {})

    @cached_property
    def rough(self) -> Logs:
        """At all lams, uncertified."""
        return Logs(
            self.of_others[0], tuple(one.of[:, 0] for one in self.splits), tuple(one.of[0, 0] for one in self.splits)
        )

    def sure(self, j: int) -> Logs:
        """At one lam, certified."""
        if j not in self.known:
            lam = float(self.lams[j])
            others = np.array([sum(part.log_mgf_roughly_above(lam) for part in self.others)])
            parts, each = iter(self.pieces.parts[len(self.others) :]), []
            for one in self.splits:
                ends = [_ends(next(parts), lam, one.copies) for _ in one.parts]
                each.append(np.array(ends))
            self.known[j] = Logs(others, tuple(ends[:, 1:] for ends in each), tuple(ends[0, :1] for ends in each))
        return self.known[j]

    def cumulants(self, great: Term) -> FloatArray:
        """K, K', K'' of one term, (3, lams), uncertified."""
        found = self.of_others.copy()
        for counts, one in zip(great, self.splits, strict=True):
            for copies, of in zip(counts, one.of, strict=True):
                found += copies * of if copies else 0.0
            found[0] += math.log(ways_of(counts))
        return found

    def term(self, great: Term) -> Bound:
        """Log of M(s) of one term."""

        def log_mgf(logs: Logs) -> FloatArray:
            found, size = logs.others.copy(), np.abs(logs.others)
            for counts, parts in zip(great, logs.parts, strict=True):
                log = math.log(ways_of(counts))
                for copies, of in zip(counts, parts, strict=True):
                    found, size = (found + copies * of, size + copies * np.abs(of)) if copies else (found, size)
                found, size = found + log, size + log
            result: FloatArray = found + 16 * U * (size + 1)
            return result

        return log_mgf

    def rest(self, which: int, most: int) -> Bound:
        """Log of a bound on M(s) of all terms with more than `most` great copies of one summand."""

        def log_mgf(logs: Logs) -> FloatArray:
            found, size = logs.others.copy(), np.abs(logs.others)
            for i, (one, (usual, *rare), least) in enumerate(zip(self.splits, logs.parts, logs.least, strict=True)):
                great = np.logaddexp.reduce(rare, axis=0)
                size = size + one.copies * (np.abs(usual) + np.abs(great))
                if i != which:
                    found = found + one.copies * np.logaddexp(usual, great)
                    continue
                n, k = one.copies, most + 1
                ratio = (n - k) / (k + 1) * np.exp(np.minimum(great - least, 700.0)) * (1 + 1e-12)
                log = math.log(math.comb(n, k)) + ((n - k) * usual if k < n else 0.0) + k * great
                found = found + np.where(ratio < 1, log - np.log1p(-np.minimum(ratio, 1 - 1e-12)), np.inf)
            result: FloatArray = found + 64 * U * (size + 1)
            return result

        return log_mgf

    def size(self, each: list[Term], eps: float) -> FloatArray:
        """Log of about the integral of the moduli of each term on the line of each lam, (terms, lams)."""
        k, _, variance = (
            np.array([self.cumulants(great) for great in each]).reshape(-1, 3, len(self.lams)).transpose(1, 0, 2)
        )
        found = splitting.log_moduli(self.lams, k, variance, eps)
        return np.where(np.isnan(found), np.inf, found)

    def guess(self, log_delta: float) -> float:
        """About where all terms together have this delta, uncertified: by the estimates at their saddles."""
        goal = log_delta - GUESSED - math.log(len(self.splits) + 1)
        each = self.every(self.counts(self.eps, goal))
        curves = [splitting.at_saddles(self.lams, self.cumulants(great)) for great in each]
        at, logs = np.array([eps for eps, _ in curves]), np.array([log for _, log in curves])
        low, high = 0.0, 2 * self.eps
        for _ in range(GUESSES):
            eps = 0.5 * (low + high)
            tangents = logs - self.lams * (eps - at)  # a term is concave: below them all
            each_log = np.min(np.where(np.isnan(tangents), np.inf, tangents), axis=1)
            low, high = (eps, high) if np.logaddexp.reduce(each_log) > log_delta else (low, eps)
        return 0.5 * (low + high)

    def counts(self, eps: float, log_goal: float) -> tuple[int, ...]:
        """How many great copies of each summand to look at, so that more add less than the goal at eps."""
        found = []
        for i, one in enumerate(self.splits):
            limit = min(one.copies, MOST_GREAT) if len(one.parts) > 1 else 0
            for most in range(limit + 1):
                if most == one.copies or limit == 0 or self.chernoff(self.rest(i, most), eps, log_goal)[0] < log_goal:
                    break
            found.append(most)
        return tuple(found)

    def every(self, most: tuple[int, ...]) -> list[Term]:
        """The terms with so many copies of each split that are not common, at most."""
        sizes = (math.comb(m + len(one.parts) - 1, m) for m, one in zip(most, self.splits, strict=True))
        if math.prod(sizes) > MOST_TERMS:
            raise NoCertificateError
        return list(itertools.product(*(one.every(m) for m, one in zip(most, self.splits, strict=True))))

    def chernoff(self, bound: Bound, eps: float, goal: float = math.inf) -> tuple[float, float, float]:
        """About the least bound on log delta over the lams, with its log c(s) M(s) and s; inf where none is below the goal."""
        rough = bound(self.rough) + self.log_c - self.lams * eps
        j = int(np.argmin(np.where(np.isnan(rough), np.inf, rough)))
        if not rough[j] < goal:
            return math.inf, math.inf, float(self.lams[j])
        value = float(bound(self.sure(j))[0] + self.log_c[j])
        return value - float(self.lams[j]) * eps, value, float(self.lams[j])


def _seldom(law: Divisible, top: Window) -> float:
    """Log of a bound on the probability that any copy is above the top."""
    return math.log(law.copies) + _ends(law.part(top, 1), 0.0, 1)[1] + 8 * U


def _ends(part: Summand, lam: float, copies: int) -> tuple[float, float]:
    """K of one copy at one lam, rounded down and up; nothing is known where no rule is affordable."""
    try:
        value, error = part.log_mgf(lam)
    except NoCertificateError:
        return -math.inf, math.inf
    return (value - error) / copies, (value + error) / copies


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
        if m < one.copies and len(one.parts) > 1
    ]
    rests += [(one.log_never, 0.0) for one in terms.splits]
    each = terms.every(most)
    heard = []
    for great in each:
        small = goal - math.log(len(each))
        bound, log, s = terms.chernoff(terms.term(great), eps, small)
        if bound < small:
            rests.append((log, s))
        else:
            heard.append(great)
    if not 0 < len(heard) <= MOST_HEARD:
        raise NoCertificateError
    logs = terms.size(heard, eps)
    parts, waiting = [], shared(logs)
    while waiting:
        j, group = waiting.pop()
        try:
            parts.append(_line(terms, [heard[i] for i in group], Saddle(float(terms.lams[j]), eps, 0.0, log_delta)))
            if sum(part.nodes for part in parts) > MOST_NODES:
                raise NoCertificateError
        except NO_LINE:
            if len(parts) + len(waiting) + len(group) > MOST_LINES:
                raise NoCertificateError from None  # so many would take longer than they are worth
            if len(group) > 1:
                waiting += [(int(np.argmin(logs[i])), [i]) for i in group]
                continue
            bound, log, s = terms.chernoff(terms.term(heard[group[0]]), eps)
            if bound > log_delta:
                raise NoCertificateError from None  # no other line can make up for it
            rests.append((log, s))
    rest = np.array(rests).reshape(-1, 2)
    return Humps(tuple(parts), rest[:, 0], rest[:, 1]), _heaviest(terms, heard, logs, eps)._replace(log_delta=log_delta)


def _heaviest(terms: Terms, heard: list[Term], logs: FloatArray, eps: float) -> Saddle:
    """The saddle of the heaviest term."""
    k = int(np.argmax(logs.min(axis=1)))
    j = int(np.argmin(logs[k]))
    return Saddle(float(terms.lams[j]), eps, math.sqrt(max(float(terms.cumulants(heard[k])[2, j]), 1e-300)), 0.0)


def _line(terms: Terms, group: list[Term], at: Saddle) -> Contour:
    """A contour for several terms."""
    counts = np.array([[1.0] * len(terms.others) + list(itertools.chain(*great)) for great in group])
    log_ways = np.array([math.fsum(math.log(ways_of(one)) for one in great) for great in group])
    total = Total([Group(terms.pieces, counts, log_ways)])
    at = at._replace(deviation=math.sqrt(max(total.cumulants(at.lam)[2], 1e-300)))
    return contour.build(total, at, 0.0, tolerance=TOLERANCE, share=SHARE)


@np.errstate(all="ignore")
def by_humps(total: Total, low_target: float, high_target: float, near: Answer | None = None) -> Answer:
    """Eps where delta meets the target; `NoCertificateError` where no split gains. near: what other routes found."""
    log_delta = math.log(high_target)
    found: Answer | None = None
    for choice in divisions(total, saddle.for_delta(total, high_target).lam, log_delta):
        with contextlib.suppress(*NO_LINE):
            one = _meets(Terms.of(total, choice), low_target, high_target, near)
            found = one if found is None else common(found, one)
            if narrow(found.lower, found.upper, NARROW):
                break
    if found is None:
        raise NoCertificateError
    return found


def _meets(terms: Terms, low_target: float, high_target: float, near: Answer | None) -> Answer:
    """The same by these parts."""
    log_delta = math.log(high_target)
    known = near is not None and narrow(near.lower, near.upper, CLOSE)
    eps = 0.5 * (max(near.lower, 0.0) + near.upper) if near is not None and known else terms.guess(log_delta)
    best: Answer | None = None
    for _ in range(AGAIN):
        try:
            line, here = build(terms, eps, log_delta)
        except NO_LINE:
            break
        (lower, upper, errors), middle, slope = invert(line, here, low_target, high_target)
        name = CONTOUR if narrow(lower, upper, NARROW) else WIDE
        if best is None or upper - lower < best.upper - best.lower:
            best = Answer(lower, upper, name, errors, slope)
        if narrow(lower, upper, ENOUGH) or not OFF < here.lam * abs(middle - eps) < math.inf:
            break
        eps = middle
    if best is None or not math.isfinite(best.upper):
        raise NoCertificateError
    return best


@np.errstate(all="ignore")
def at_eps(total: Total, at: Saddle) -> tuple[Humps, Saddle]:
    """The line for questions near at.eps, and about how far it serves; `NoCertificateError` where no split gains."""
    tried: list[tuple[float, Humps, Saddle]] = []
    for choice in divisions(total, at.lam, at.log_delta - LOOSE):
        with contextlib.suppress(*NO_LINE):
            line, here = build(Terms.of(total, choice), at.eps, at.log_delta)
            low, high = line.delta(np.array([at.eps]))
            tried.append((float(1 - low[0] / high[0]), line, here))
            if tried[-1][0] <= NARROW:
                break
    if not tried:
        raise NoCertificateError
    _, line, here = min(tried, key=lambda one: one[0])
    return line, here
