"""Two finite laws against each other, by the definitions: no formula of the library is used."""

import itertools
import math

import numpy as np


def delta(P, Q, epsilon):
    """The largest P(S) - e^epsilon Q(S) over all sets S."""
    return float(np.maximum(np.asarray(P) - math.exp(epsilon) * np.asarray(Q), 0).sum())


def largest_loss(P, Q):
    """The largest log ratio, over both orders; infinite where one law charges what the other does not."""
    P, Q = np.ravel(P), np.ravel(Q)
    seen = (P > 0) | (Q > 0)
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(P[seen]) - np.log(Q[seen])).max())


def beta(P, Q, alphas):
    """The least type II error at each type I error: Neyman and Pearson with randomisation, outcome by outcome."""
    P, Q = np.ravel(P), np.ravel(Q)
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(P > 0, Q / P, np.inf), kind="stable")
    false, true = (np.concatenate([[0.0], np.cumsum(law[order])]) for law in (P, Q))
    return 1 - np.interp(alphas, false, true)


def neighbours_of_scores(scores, sensitivity, *, monotone):
    """Every score vector that one unit can make of this one: each score by at most the sensitivity, one way or any way."""
    ways = range(sensitivity + 1) if monotone else range(-sensitivity, sensitivity + 1)
    for move in itertools.product(ways, repeat=len(scores)):
        yield np.asarray(scores) + np.array(move)
