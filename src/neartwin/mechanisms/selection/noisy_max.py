"""Report noisy max on integers, with the gap to the runner-up for free.

Every integer score gets discrete Laplace noise of scale t. The largest noisy score wins, ties going to the first. With scores of
sensitivity D it is epsilon-DP at t = 2D / epsilon, and at t = D / epsilon where scores are monotone. So is the pair (winner, its
noisy lead over the runner-up). Proof by alignment: keep all other noise, and shift the winner's by the change that keeps its
lead. That is at most 2D (monotone: at most D) steps of the lattice. Dwork, Roth 2014, Claim 3.9; Ding, Wang, Xiao, Zhang, Kifer
2019.

Ties need care on a lattice. Think of candidate i as standing i infinitesimals lower; then no two are equal. The released lead is
the real one rounded down: one less than the difference where the runner-up comes first in the list. Rounding down commutes with
whole shifts and keeps order, so the winner's noise still moves by at most 2D. The plain difference would not be private: with
many candidates before the winner, a lead of 0 has a loss near 2 epsilon.

The winner's own noisy *score* is not free. With m scores that all move by 1 and noise of scale 1/epsilon, the pair
(winner, noisy score) has a loss of m epsilon. `reused_value_loss` is that number; a score must be asked for with fresh
noise. One-sided noise is permute-and-flip (`exponential.py`). Its gap is not released: the alignment above needs noise
without an edge.

The exact law of the winner of a private selection, as numbers. Each candidate's score gets independent noise of one scale, and
the largest noisy score wins. Exponential noise gives permute-and-flip (Ding, Kifer, Steinke 2021), Gumbel noise the exponential
mechanism, Laplace noise the classical report noisy max. The integrals are polynomials in exp(-v/scale) on pieces between the
scores. Gauss-Legendre nodes of half the degree integrate them with no error but rounding.

Scores of candidates as gaps to the best one: the only form in which a selection reads them.

An exact choice has probability in proportion to weight times exp(-penalty). One uniform number, drawn bit by bit, is compared
with the cumulative sum. Floats settle nearly every draw, with a margin far beyond their errors. Integer intervals settle draws
within the margin, with more bits until the choice is certain.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Composition, Pure
from neartwin.mechanisms.additive import clipped_whole
from neartwin.mechanisms.noise_laws import DiscreteLaplaceLaw
from neartwin.noise import SYSTEM, Source
from neartwin.noise.exponentials import exp_neg

# Scores are clipped here where gaps must fit 64 bits: clipping stretches no change and turns none round.
_LARGEST = 2**61


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSelection(ABC):
    """A private arg-max of whole scores, one for each candidate.

    Attributes:
        scale: t, in units of the score.
        epsilon: The pure guarantee.
    """

    scale: Fraction
    epsilon: Fraction

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int, monotone: bool) -> Self:
        """The least noise that is epsilon-DP: t = D / epsilon for monotone scores, 2D / epsilon for others.

        Args:
            epsilon: The guarantee, above 0.
            sensitivity: D, the most that one unit moves a score.
            monotone: Whether a unit never moves two scores in opposite directions. Counts under add/remove are
                monotone; under replace-one those of units above each of several limits are.
        """
        integer(at_least=1, sensitivity=sensitivity)
        factor = 1 if monotone else 2
        return cls(scale=Fraction(factor * sensitivity) / positive(epsilon=epsilon), epsilon=epsilon)

    def losses(self) -> Composition:
        """The pure guarantee as a factor for composition."""
        return Composition.of(Pure(epsilon=self.epsilon))

    @abstractmethod
    def choose(self, scores: WholeNumbers, *, source: Source = SYSTEM) -> int:
        """Choose a candidate with fresh randomness.

        Args:
            scores: (n,) whole numbers, n at least 1.
            source: The source of randomness.

        Returns:
            The index of the winner.
        """

    @abstractmethod
    def pmf(self, scores: WholeNumbers) -> FloatArray:
        """Who wins with which probability. For tests and planning: it shows the scores."""


def gaps_of(scores: WholeNumbers) -> WholeNumbers:
    """The gap best - score for each candidate: int64, or Python integers where they do not fit.

    >>> gaps_of(np.array([3, 10, 10]))
    array([7, 0, 0])
    """
    if scores.ndim != 1 or not scores.size or scores.dtype.kind not in "iuO":
        raise ParameterError("scores", f"{scores.dtype}{scores.shape}", "must be whole numbers, one for each candidate")
    values = scores.tolist()
    best = max(values)
    gaps = [best - value for value in values]
    return np.array(gaps, dtype=np.int64 if max(gaps) < 2**63 else object)


def small_gaps_of(scores: WholeNumbers) -> NDArray[np.int64]:
    """The gaps after clipping the scores to 2**61 in size, always int64.

    >>> small_gaps_of(np.array([10**30, 0], dtype=object)).tolist() == [0, 2**61]
    True
    """
    gaps_of(scores)
    clipped = clipped_whole(scores, -_LARGEST, _LARGEST)
    return np.asarray(clipped.max() - clipped)


_FLOAT_BITS = 52
_LEAST_SCALE = Fraction(1, 10**250)
_LARGEST_LOG = 2.0**16  # so that the logarithm's own rounding stays below 2**-36
_MARGIN = 2.0**-30  # relative to the sum; exp and the cumulative sum of up to 2**20 terms err by less than 2**-31


def exact_choice(
    weights: Sequence[int], penalties: NDArray[np.int64], scale: Fraction, *, source: Source, margin: float = _MARGIN
) -> int:
    """Choose an index with probability in exact proportion to weights[i] * exp(-penalties[i] / scale).

    Args:
        weights: (n,) positive whole numbers of any size.
        penalties: (n,) int64, not negative. The least is 0, so that floats do not underflow.
        scale: The scale of penalties.
        source: The source of randomness.
        margin: The distance from a boundary within which floats do not decide. Tests widen it to force the exact path.

    Returns:
        The index.

    Raises:
        ParameterError: There is nothing to choose from, or not one weight for each penalty.
    """
    if not len(weights) or len(weights) != len(penalties):
        raise ParameterError(
            "weights", len(weights), f"must be one for each of the {len(penalties)} penalties, at least one"
        )
    u = source.bits(_FLOAT_BITS)
    if len(weights) <= 1 << 20 and _LEAST_SCALE < scale < 1 / _LEAST_SCALE:
        logs = np.array([math.log(weight) for weight in weights]) - penalties / float(scale)
        ends = np.cumsum(np.exp(logs - logs.max()))
        place, room = u * 2.0**-_FLOAT_BITS * ends[-1], (margin + 2.0**-_FLOAT_BITS) * ends[-1]
        index = int(np.searchsorted(ends, place, side="right"))
        if index < len(ends) and abs(logs.max()) < _LARGEST_LOG:
            clear_below = index == 0 or place - ends[index - 1] > room
            if clear_below and (ends[index] - place > room or index == len(ends) - 1):
                return index
    return _exactly(weights, penalties, scale, u, source)


def _exactly(weights: Sequence[int], penalties: NDArray[np.int64], scale: Fraction, u: int, source: Source) -> int:
    known = _FLOAT_BITS
    while True:
        bits = known + 64
        falls = {penalty: exp_neg(penalty / scale, bits) for penalty in set(penalties.tolist())}
        lows, highs = [0], [0]
        for weight, penalty in zip(weights, penalties.tolist(), strict=True):
            low, high = falls[penalty]
            lows.append(lows[-1] + int(weight) * low)
            highs.append(highs[-1] + int(weight) * high)
        for i in range(len(weights)):
            # u / 2^known <= U < (u + 1) / 2^known, and the sum lies in [lows[-1], highs[-1]]
            if u * lows[-1] >= highs[i] << known and (u + 1) * highs[-1] <= lows[i + 1] << known:
                return i
        u, known = (u << 64) | source.bits(64), known + 64


_NODES = 40  # for pieces of length one scale: the integrand is entire, of degree n + 1 in exp(+-v)
_FURTHEST = 45.0  # scales below the leader; a probability beyond, below exp(-45), is returned as 0 ...
_FURTHEST_OF_FEW = 5000.0  # ... and with few candidates only beyond this
_FEW = 64


def _relative(scores: WholeNumbers, scale: Fraction) -> FloatArray:
    """(score - best) / scale."""
    values = np.asarray(scores)
    if values.ndim != 1 or not values.size:
        raise ParameterError("scores", values.shape, "must be one score for each candidate, at least one")
    positive(scale=scale)
    best = max(Fraction(v) for v in values.tolist())
    return np.array([float((Fraction(v) - best) / scale) for v in values.tolist()])


def _unit_rule(degree: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [0, 1], exact for polynomials up to this degree."""
    nodes, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    return (nodes + 1) / 2, weights / 2


def exponential_noise_wins(scores: WholeNumbers, scale: Fraction) -> FloatArray:
    """The winning probabilities under exponential noise, which are those of permute-and-flip.

    They are p_r times the integral over t in [0, 1] of prod_{j != r} (1 - p_j t), with p_j = exp(-(best - score_j) /
    scale). In permute-and-flip, give each candidate a uniform arrival time t. Candidate r wins if it accepts (p_r), and
    everyone who came earlier (probability t each) did not.

    Args:
        scores: (n,) scores.
        scale: The scale of the noise.

    Returns:
        (n,) probabilities.

    >>> exponential_noise_wins(np.array([10, 9, 8]), Fraction(1))[0].round(12)
    np.float64(0.764988327252)
    """
    p = np.exp(_relative(scores, scale))
    chance = np.zeros(p.size)
    for start, end in _pieces(p.size):
        nodes, weights = _unit_rule(min(p.size, 2 * _NODES))
        with np.errstate(divide="ignore"):
            logs = np.log1p(-np.multiply.outer(start + (end - start) * nodes, p))
        chance += (end - start) * (weights @ np.exp(logs.sum(axis=1)[:, None] - logs))
    return p * chance


def _pieces(degree: int) -> list[tuple[float, float]]:
    """[0, 1] whole, for a polynomial that the nodes integrate exactly; else in halves towards 0, where many factors drop it."""
    if degree <= 2 * _NODES:
        return [(0.0, 1.0)]
    return list(pairwise([0.0, *(2.0**-k for k in range(degree.bit_length() + 8, -1, -1))]))


def gumbel_noise_wins(scores: WholeNumbers, scale: Fraction) -> FloatArray:
    """The winning probabilities under Gumbel noise, which are those of the exponential mechanism.

    They are in proportion to exp(score / scale).

    Args:
        scores: (n,) scores.
        scale: The scale of the noise.

    Returns:
        (n,) probabilities.

    >>> gumbel_noise_wins(np.array([10, 9, 8]), Fraction(1))[0].round(12)
    np.float64(0.665240955775)
    """
    p = np.exp(_relative(scores, scale))
    return np.asarray(p / p.sum(), dtype=np.float64)


def laplace_noise_wins(scores: WholeNumbers, scale: Fraction) -> FloatArray:
    """The winning probabilities under Laplace noise: `log_laplace_noise_wins`, exponentiated.

    Args:
        scores: (n,) scores.
        scale: The scale of the noise.

    Returns:
        (n,) probabilities.

    >>> laplace_noise_wins(np.array([10, 9, 8]), Fraction(1))[0].round(12)
    np.float64(0.671265226726)
    """
    return np.exp(log_laplace_noise_wins(scores, scale))


def log_laplace_noise_wins(scores: WholeNumbers, scale: Fraction) -> FloatArray:
    """Logarithms of the winning probabilities under Laplace noise, also for those far below the range of floats.

    Each is the integral of the density of r's noisy score times the others' distribution functions. It is split into
    pieces of at most one scale between the lowest and the highest score, and two tails in closed form. -inf stands for
    less than exp(-45) among many.

    Args:
        scores: The scores, (n,).
        scale: The scale of the noise.

    Returns:
        (n,) logarithms.
    """
    c = _relative(scores, scale)
    within = c > (-_FURTHEST_OF_FEW if c.size <= _FEW else -_FURTHEST)
    centres, n, half = c[within], int(within.sum()), np.log(2.0)
    # above the leader, with u = exp(-v): prod (1 - u e^{c_j} / 2) is a polynomial of degree n - 1
    u, weight = _unit_rule(n)
    others = np.log1p(-np.multiply.outer(u, np.exp(centres)) / 2)
    chance = centres - half + np.log(weight @ np.exp(others.sum(axis=1)[:, None] - others))
    # below the last: every factor is e^{v - c_j} / 2
    lowest = centres.min()
    chance = np.logaddexp(chance, n * lowest - centres.sum() - n * half - np.log(n))
    edges = np.unique(np.concatenate([np.arange(lowest, 0.0, 1.0 / (1 + n / 40)), centres, [0.0]]))
    nodes, weights = _unit_rule(2 * _NODES)
    for start, end in pairwise(edges.tolist()):
        away = (start + (end - start) * nodes)[:, None] - centres
        log_size = -np.abs(away) - half
        log_cdf = np.where(away < 0, log_size, np.log1p(-np.exp(log_size)))
        logs = log_size + log_cdf.sum(axis=1)[:, None] - log_cdf
        top = logs.max(axis=0)
        chance = np.logaddexp(chance, top + np.log((end - start) * (weights @ np.exp(logs - top))))
    result = np.full(c.size, -np.inf)
    result[within] = chance
    return result


def discrete_laplace_noise_wins(scores: WholeNumbers, scale: Fraction) -> FloatArray:
    """The winning probabilities under discrete Laplace noise on integer scores; ties go to the first.

    They are sums over the lattice, up to 45 scales around the scores. Noise beyond has a probability below exp(-45) a
    candidate.

    Args:
        scores: (n,) whole scores.
        scale: The scale of the noise.

    Returns:
        (n,) probabilities.
    """
    integers = np.asarray(scores, dtype=np.int64)
    b = float(positive(scale=scale))
    reach = int(np.ceil(_FURTHEST * b)) + 1
    v = np.arange(int(integers.max()) - reach, int(integers.max()) + reach + 1)
    away = v[:, None] - integers

    def at_most(x: NDArray[np.int64]) -> FloatArray:
        tail = np.exp(-np.abs(np.where(x < 0, x, x + 1)) / b) / (1 + np.exp(-1 / b))
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    with np.errstate(divide="ignore"):
        strictly, weakly = np.log(at_most(away - 1)), np.log(at_most(away))
    edge = np.zeros((v.size, 1))
    before = np.cumsum(np.hstack([edge, strictly[:, :-1]]), axis=1)
    after = np.cumsum(np.hstack([edge, weakly[:, :0:-1]]), axis=1)[:, ::-1]
    return np.asarray((DiscreteLaplaceLaw(scale).pmf(away) * np.exp(before + after)).sum(axis=0))


class Lead(NamedTuple):
    """The winner and its noisy lead over the runner-up, in units of the score, rounded down as above; at least 0."""

    winner: int
    gap: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMax(ScoreSelection):
    """A private arg-max with its lead.

    Attributes:
        scale: t, in units of the score.
        epsilon: The exact guarantee of winner and lead together.
    """

    def choose(self, scores: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> int:
        """The index of the winner. scores: (n,), whole numbers, n at least 1."""
        return self._ranked(scores, 1, source)[0][0]

    def choose_with_lead(self, scores: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> Lead:
        """The winner and its lead, for the price of the winner.

        The lead of a true best estimates the true gap, biased upward by the choice of the largest.

        Args:
            scores: (n,) whole numbers, n at least 2.
            source: The source of randomness.

        Returns:
            The winner and its noisy lead.
        """
        integer(at_least=2, candidates=scores.size)
        (winner, first), (runner_up, second) = self._ranked(scores, 2, source)
        return Lead(winner, first - second - (runner_up < winner))

    def _ranked(self, scores: WholeNumbers, count: int, source: noise.Source) -> list[tuple[int, int]]:
        noisy = -gaps_of(scores).astype(object) + noise.discrete_laplace(self.scale).draw(scores.shape, source=source)
        order = sorted(range(noisy.size), key=lambda i: (-noisy[i], i))
        return [(i, int(noisy[i])) for i in order[:count]]

    def pmf(self, scores: WholeNumbers) -> FloatArray:
        """Who wins with which probability. For tests and planning: it shows the scores."""
        return discrete_laplace_noise_wins(scores, self.scale)


def reused_value_loss(*, epsilon: Fraction, candidates: int) -> Fraction:
    """The pure loss of releasing the winner together with its winning noisy score, at noise scale 1/epsilon.

    All m scores move by 1. Given winner and value v, the density is p(v - c_r) times prod P(noise <= v - c_j). As v
    falls, each of the m factors changes by exp(epsilon). So the loss is m epsilon, not epsilon.

    Args:
        epsilon: The inverse scale of the noise.
        candidates: m.

    Returns:
        The loss.

    >>> reused_value_loss(epsilon=Fraction(2, 5), candidates=5)
    Fraction(2, 1)
    """
    return integer(at_least=1, candidates=candidates) * positive(epsilon=epsilon)
