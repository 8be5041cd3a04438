"""Mechanisms of bounded range, side by side: the worst of all choices of their pairs, in mpmath."""

import itertools

import mpmath as mp
import numpy as np


def two_points(e, t):
    """The extreme pair with losses t and t - e: [(loss, P-mass)], 0 < t < e."""
    q = (1 - mp.exp(t - e)) / (mp.exp(t) - mp.exp(t - e))
    return [(t, q * mp.exp(t)), (t - e, (1 - q) * mp.exp(t - e))]


def composed(e, count, eps):
    """The largest delta of `count` mechanisms of range e, none chosen by another's answer.

    Dong, Durfee, Rogers 2020, optimal composition: all pairs alike, with t where one more of the sums of losses meets eps.
    """
    e, eps, worst = mp.mpf(e), mp.mpf(eps), mp.mpf(0)
    for l in range(-1, count + 1):
        t = min(max((eps + (l + 1) * e) / (count + 1), e * mp.mpf(10) ** -12), e * (1 - mp.mpf(10) ** -12))
        worst = max(worst, alike(two_points(e, t), count, eps))
    return worst


def adaptive(e, count, eps, places=64, halvings=40):
    """The largest delta of `count` uses that may choose their pair by earlier answers."""
    return in_any_order((e,) * count, eps, places, halvings)


def in_any_order(sizes, eps, places=64, halvings=40):
    """The largest delta of uses that may choose their pair, and which of them is next, by earlier answers, in floats.

    A search at every step. The last use alone is known: the greatest profile of its class. Golden sections around the best place
    of a grid end within rounding, where no narrow hump hides from the grid.
    """
    eps = np.asarray(eps, dtype=float)
    if len(sizes) == 1:
        (e,) = sizes
        inside = -np.expm1(np.minimum((eps - e) / 2, 0.0))
        return np.where(eps <= -e, -np.expm1(np.minimum(eps, 0.0)), inside * inside / -np.expm1(-e))

    def first(e):
        k = sizes.index(e)
        later = sizes[:k] + sizes[k + 1 :]

        def mean(t):
            share = np.expm1(t - e) / np.expm1(-e)
            one, other = (in_any_order(later, eps - loss, places, halvings) for loss in (t, t - e))
            return share * one + (1 - share) * other

        values = mean(e * np.arange(places + 1).reshape(-1, *(1 for _ in eps.shape)) / places + 0 * eps)
        best, golden = values.argmax(axis=0), (np.sqrt(5) - 1) / 2
        low, high = (e * np.clip(best + side, 0, places) / places for side in (-1, 1))
        for _ in range(halvings):
            x, y = high - golden * (high - low), low + golden * (high - low)
            rises = mean(x) < mean(y)
            low, high = np.where(rises, x, low), np.where(rises, high, y)
        return np.maximum(values.max(axis=0), mean((low + high) / 2))

    return np.max([first(e) for e in set(sizes)], axis=0)


def alike(pair, count, eps):
    """Delta of `count` copies of a pair of two losses."""
    (high, p), (low, r) = pair
    found, mass, odds = mp.mpf(0), p**count, r / p
    for k in range(count + 1):
        gap = eps - ((count - k) * high + k * low)
        if gap >= 0:
            break
        found += mass * -mp.expm1(gap)
        mass *= odds * (count - k) / (k + 1)
    return found


def searched(e, count, eps, grid):
    """The largest delta over all choices of `count` pairs from a grid of t in (0, e), by trying every one."""
    worst = 0.0
    for chosen in itertools.combinations_with_replacement(range(1, grid), count):
        pairs = [[(float(l), float(p)) for l, p in two_points(mp.mpf(e), mp.mpf(e) * j / grid)] for j in chosen]
        delta = 0.0
        for one in itertools.product(*pairs):
            loss, mass = sum(l for l, _ in one), float(mp.fprod(p for _, p in one))
            delta += mass * max(0.0, float(-mp.expm1(min(eps - loss, 0.0))))
        worst = max(worst, delta)
    return worst
