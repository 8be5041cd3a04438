r"""Where to split a law whose great losses are rare: at the edge that makes Chernoff's bounds on the terms add up to least.

A line at the saddle of one term has the scale e^{K_k(lam) - lam eps}, the least over lam, and rounding errs relative to it. The
best edge makes sum_k min_lam c(lam) e^{K_k(lam) - lam eps} least, a bound on delta(eps) itself: no line can lose much where that
is near delta. An edge in the valley between two humps is seldom the best; often one copy above it is just what brings the sum to
eps. Sharp edges are looked at first, all at once by running sums; the widest smooth window that costs little more is taken.

First of all, what lies so high that no copy is there but with a probability far below delta is left out: it would be all that a
great tilt sees. Its probability joins the upper side, n of one copy's.

A heuristic: every two windows add up to the whole, and the certificates are those of humps.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.rounding import NoCertificateError
from neartwin.losses.total import Total, log_c
from neartwin.losses.window import Divisible, Window
from neartwin.special import gammaln

SPREAD = np.geomspace(1 / 30, 300.0, 52)  # lams looked at, over about the slope
TOPS = (0.0625, 0.125)  # widths of the edge beyond which nothing is looked at
WIDTHS = (1.0, 0.75, 0.5, 0.375, 0.25, 0.1875, 0.125, 0.09375, 0.0625)
DEAR = 1.0  # of the bound's logarithm: what a wider window may cost
STEEP, AHEAD = 2.0, 3  # the same at a lam so many places further, which aliases are bounded at
GAIN, ANY = 3.0, -3.0  # of the bound's logarithm: less is not worth a split; nor is less where no law has so much
LOWEST, HIGHEST, EACH = 0.5, 14.0, 4  # edges looked at, every so many places
MOST_GREAT = 12  # great copies looked at one by one
HEAVIEST = 4  # terms of one law that the next law's edge is chosen by
SLIGHT = 36.0  # how far below the heaviest, in the logarithm, a term's lam still matters
HALVINGS = 40
AGAINST, APART = 2.0, 1.0  # how far tilts may go beyond, and places stay below
FEW = 100  # copies
AGAIN = 6
UNHEARD = 33.0  # how far below delta, in the logarithm, all of the lowest parts together should be
FARTHEST = 1e5


Windows = tuple[Window, ...]


class Choice(NamedTuple):
    """Windows from below for each summand, None for those that never divide; about eps, and the lams that the terms want.

    finer: with a third window between, for terms of common losses so near to an atom that no line is short; None: none helps.
    """

    windows: tuple[Windows | None, ...]
    finer: tuple[Windows | None, ...] | None
    laws: tuple[Divisible | None, ...]
    never: tuple[Window | None, ...]  # what lies above it is not looked at
    eps: float
    lams: tuple[float, float]


def logsumexp(logs: FloatArray, axis: int = 0) -> FloatArray:
    """Of an array with few infinities, without the care that costs most of the time of SciPy's."""
    top = np.maximum(logs.max(axis=axis, keepdims=True), -1e300)
    least = np.squeeze(top, axis)
    found: FloatArray = np.where(np.isposinf(least), least, np.log(np.exp(logs - top).sum(axis=axis)) + least)
    return found


def log_mgf(law: Divisible, lams: FloatArray, window: Window) -> FloatArray:
    """K of one copy of what the window shows, (lams,), uncertified; infinite where places end too early."""
    logs = law.log_density + window.log_share(law.u)[0] + np.multiply.outer(lams, law.losses)
    return np.where(logs.argmax(axis=1) == len(law.u) - 1, np.inf, logsumexp(logs, axis=1))


def cumulants(law: Divisible, lams: FloatArray, window: Window) -> FloatArray:
    """K, K', K'' of one copy of what the window shows, (3, lams), uncertified; infinite where places end too early."""
    logs = law.log_density + window.log_share(law.u)[0] + np.multiply.outer(lams, law.losses)
    found = tilted(logs, law.losses)
    found[:, logs.argmax(axis=1) == len(law.u) - 1] = np.inf
    return found


def tilted(logs: FloatArray, losses: FloatArray) -> FloatArray:
    """K, K', K'' of one copy, (3, lams), of tilted log masses (lams, places)."""
    k = logsumexp(logs, axis=1)
    weights = np.exp(logs - k[:, None])
    mean = weights @ losses
    return np.array([k, mean, np.maximum(weights @ np.square(losses) - mean * mean, 0.0)])


def log_moduli(lams: FloatArray, k: FloatArray, variance: FloatArray, eps: float) -> FloatArray:
    """Log of about the integral of the moduli on the line of each lam, uncertified; k, variance: (..., lams)."""
    spread = variance + 1 / lams**2 + 1 / (1 + lams) ** 2
    found: FloatArray = k - lams * eps - np.log(lams) - np.log1p(lams) - 0.5 * np.log(2 * math.pi * spread)
    return found


def at_saddles(lams: FloatArray, cumulants_there: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eps and log delta at the saddles of all lams, uncertified. cumulants_there: (3, lams)."""
    k, mean, variance = cumulants_there
    eps = mean - 1 / lams - 1 / (1 + lams)
    return eps, log_moduli(lams, k, variance, 0.0) - lams * eps


class _Edges:
    """All sharp edges of one law: K of one copy below and above each, (lams, edges), and of the whole, (lams,)."""

    def __init__(self, law: Divisible, lams: FloatArray) -> None:
        logs = law.log_density + np.multiply.outer(lams, law.losses)
        far = logs.argmax(axis=1) == len(law.u) - 1
        at = np.flatnonzero((law.u >= LOWEST) & (law.u <= HIGHEST))[::EACH]
        self.places = 0.5 * (law.u[at] + law.u[at - 1])
        self.below = np.logaddexp.accumulate(logs, axis=1)[:, at - 1]
        above = np.logaddexp.accumulate(logs[:, ::-1], axis=1)[:, ::-1]
        self.above, self.whole = above[:, at], above[:, 0]
        self.above[far], self.whole[far] = np.inf, np.inf


def _terms(copies: int, below: FloatArray, above: FloatArray) -> FloatArray:
    """K of 0, 1, ... great copies, the last with all that are more, (terms, *shape of below)."""
    most = min(copies, MOST_GREAT)
    k = np.arange(most + 1.0).reshape(-1, *[1] * below.ndim)
    ways = gammaln(copies + 1) - gammaln(k + 1) - gammaln(copies - k + 1)
    rest = np.broadcast_to(below, (most + 1, *below.shape)).copy()
    rest[-1] = np.logaddexp(below, above)
    found = ways + (copies - k) * np.where(k < copies, rest, 0.0) + np.where(k > 0, k * above, 0.0)
    return np.where(np.isnan(found), np.inf, found)


class _Look:
    """Bounds on log delta by terms (terms, lams, ...) of log c(s) M(s)."""

    def __init__(self, lams: FloatArray, terms: FloatArray) -> None:
        self.terms, self.lams = terms, lams.reshape(-1, *[1] * (terms.ndim - 2))

    def each(self, eps: float) -> FloatArray:
        """Of each term."""
        found: FloatArray = np.min(self.terms - self.lams * eps, axis=1)
        return found

    def at(self, eps: float) -> FloatArray:
        """Of all together."""
        return np.asarray(logsumexp(self.each(eps), axis=0))

    def best(self, eps: float) -> FloatArray:
        """The lam of each term of which the bound is not slight, (m,); `NoCertificateError` where every term is infinite."""
        values = self.terms - self.lams * eps
        each = values.min(axis=1)
        found: FloatArray = self.lams[values.argmin(axis=1)[each > each.max() - SLIGHT]]
        if not found.size:
            raise NoCertificateError
        return found

    def as_steep(self, smooth: FloatArray, edge: int, eps: float) -> bool:
        """Whether smooth terms are still like the sharp ones of an edge at greater lams, which bound the aliases."""
        terms = self.terms[:, :, edge]
        values = terms - self.lams[:, 0] * eps
        heard = np.flatnonzero(values.min(axis=1) > values.min(axis=1).max() - SLIGHT)
        at = np.minimum(values.argmin(axis=1) + AHEAD, values.shape[1] - 1)[heard]
        return not np.any(smooth[heard, at] - terms[heard, at] > STEEP)

    def meets(self, log_delta: float, most: float) -> float:
        """Where the bound meets delta, by one edge, at most `most`."""
        low, high = 0.0, most
        for _ in range(HALVINGS):
            eps = 0.5 * (low + high)
            low, high = (eps, high) if self.at(eps).item() > log_delta else (low, eps)
        return high


def divisions(total: Total, lam: float, log_delta: float) -> Iterator[Choice]:
    """Splits to be tried in turn: a narrow top edge leaves short lines where a law moves little, a wider one elsewhere.

    Where a third window helps few copies, lines without it are long.
    """
    for top in TOPS:
        found = choose(total, lam, log_delta, top)
        if all(windows is None or len(windows) == 1 for windows in found.windows):
            found = choose(total, lam, log_delta, top, ANY)
        finer = [] if found.finer is None else [found._replace(windows=found.finer)]
        few = all(law is None or law.copies <= FEW for law in found.laws)
        yield from [*finer, found] if few else [found, *finer]


@np.errstate(all="ignore")
def choose(total: Total, lam: float, log_delta: float, top: float = TOPS[0], gain: float = GAIN) -> Choice:
    """Windows for each law of which great losses may be rare; `NoCertificateError` where there is none.

    lam: about the slope; top: the width of the edge beyond which nothing is looked at; gain: what a split must bring.
    """
    whole = tuple(part.divisible() for part in total.summands)
    if not any(whole):
        raise NoCertificateError
    never = tuple(None if law is None else _never(law, log_delta - UNHEARD, top) for law in whole)
    laws = tuple(
        None if law is None or above is None else _below(law, above) for law, above in zip(whole, never, strict=True)
    )
    lams = lam * SPREAD
    edges = [None if law is None else _Edges(law, lams) for law in laws]
    terms = np.array([log_c(s) for s in lams.tolist()])[None, :]
    for part, law in zip(total.summands, laws, strict=True):
        if law is None:
            terms = terms + np.array([part.cumulants(s)[0] for s in lams.tolist()])
    windows: list[Windows | None] = []
    finer: list[Windows | None] = []
    for i, (law, each) in enumerate(zip(laws, edges, strict=True)):
        if law is None or each is None:
            windows.append(None)
            finer.append(None)
            continue
        later = sum(
            (one.copies * sharp.whole for one, sharp in _both(laws[i + 1 :], edges[i + 1 :])), np.zeros(len(lams))
        )
        before = _Look(lams, terms + later)
        found, terms, eps = _one(law, each, lams, (terms, later), (log_delta, gain))
        more = _with_middle(law, each, before, found, (eps, log_delta)) if found else found
        windows.append(found)
        finer.append(more)
    look = _Look(lams, terms)
    eps = look.meets(log_delta, _beyond(look, log_delta))
    best = look.best(eps)
    under, third = (
        [_under(one, top, law, best.max()) for one, top, law in zip(every, never, whole, strict=True)]
        for every in (windows, finer)
    )
    further = None if finer == windows else tuple(third)
    return Choice(tuple(under), further, whole, never, eps, (float(best.min()), float(best.max())))


def _never(law: Divisible, log_goal: float, width: float) -> Window:
    """Above the least place of which all copies are so seldom above that it does not matter, smoothly."""
    for place in np.append(law.u[law.u > 0][:: 2 * EACH], law.u[-1]):
        top = Window(float(place), width, 1.0)
        if math.log(law.copies) + logsumexp(law.log_density + top.log_share(law.u)[0]) < log_goal:
            break
    return top


def _below(law: Divisible, top: Window) -> Divisible:
    return law._replace(log_density=law.log_density + replace(top, side=-1.0).log_share(law.u)[0])


def _under(windows: Windows | None, top: Window | None, law: Divisible | None, lam: float) -> Windows | None:
    """The windows below the top; where there are none, all that is below it. lam: the greatest wanted.

    A window that ends far below, even when it is tilted, is left as it is, and its strip is wider: the windows then show more of
    the law, and what is charged for the rest is still above it.
    """
    if windows is None or top is None or law is None:
        return None
    below = replace(top, side=-1.0)
    slope = (1 + AGAINST * lam) * float((law.losses[-1] - law.losses[-2]) / (law.u[-1] - law.u[-2]))
    ends = [window.side < 0 and window.highest(slope) < top.centre - APART for window in windows]
    found = tuple(window if end else _within(window, below) for window, end in zip(windows, ends, strict=True))
    return found or (below,)


def _within(window: Window, other: Window) -> Window:
    return replace(window, within=other if window.within is None else _within(window.within, other))


def _both(laws: tuple[Divisible | None, ...], edges: list[_Edges | None]) -> list[tuple[Divisible, _Edges]]:
    return [(law, each) for law, each in zip(laws, edges, strict=True) if law is not None and each is not None]


def _beyond(look: _Look, log_delta: float) -> float:
    """An eps of which the bound is below delta."""
    eps = 1e-3
    while eps < FARTHEST and not np.min(look.at(eps)) <= log_delta:
        eps *= 4
    return eps


def _one(
    law: Divisible, each: _Edges, lams: FloatArray, others: tuple[FloatArray, FloatArray], goal: tuple[float, float]
) -> tuple[Windows, FloatArray, float]:
    """The windows of one law, none where it had better stay whole; the terms with it; about eps.

    others: so far, and later; goal: log delta, and what a split must bring.
    """
    (terms, later), (log_delta, gain) = others, goal
    whole = terms + law.copies * each.whole
    kept = terms[:, None, :, None] + _terms(law.copies, each.below, each.above)[None]
    sharp = (kept + later[:, None]).reshape(-1, *kept.shape[2:])
    look, unsplit, last = _Look(lams, sharp), _Look(lams, whole + later), -1
    eps = _beyond(look, log_delta)
    for _ in range(AGAIN):
        edge = int(np.argmin(look.at(eps)))
        if edge == last:
            break
        eps, last = _Look(lams, sharp[:, :, edge]).meets(log_delta, eps), edge
    least = float(look.at(eps)[last])
    if not unsplit.at(eps).item() - least > gain:
        return (), whole, eps
    for width in WIDTHS:
        windows = Window(float(each.places[last]), width, -1.0), Window(float(each.places[last]), width, 1.0)
        parts = [log_mgf(law, lams, window) for window in windows]
        found = (terms[:, None] + _terms(law.copies, *parts)[None]).reshape(-1, len(lams))
        apart = _Look(lams, found + later).each(eps)
        if logsumexp(apart) - least < DEAR and look.as_steep(found + later, last, eps):
            break
    return windows, found[np.argsort(-apart)[:HEAVIEST]], eps


def _with_middle(law: Divisible, each: _Edges, others: _Look, windows: Windows, near: tuple[float, float]) -> Windows:
    """A third window between the edge and a lower one, below which all copies together do not matter, if there is one.

    near: about eps, and log delta there.
    """
    (eps, log_delta), lams = near, others.lams
    slight = log_delta - UNHEARD
    alone = (others.terms[:, :, None] + law.copies * each.below).reshape(-1, *each.below.shape)
    unheard = np.flatnonzero((_Look(lams, alone).at(eps) < slight) & (each.places < windows[0].centre))
    if not len(unheard) or _Look(lams, others.terms + law.copies * log_mgf(law, lams, windows[0])).at(eps) < slight:
        return windows
    centre = float(each.places[unheard[-1]])
    for width in WIDTHS:
        low = Window(centre, width, -1.0)
        if _Look(lams, others.terms + law.copies * log_mgf(law, lams, low)).at(eps) < slight + DEAR:
            break
    above = Window(centre, width, 1.0)
    return low, *(replace(window, within=above) for window in windows)
