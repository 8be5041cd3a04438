"""Sparse vectors and noisy maxima. Lyu, Su and Li 2017, algorithms 1 and 3 to 6; Ding et al. 2019."""

import numpy as np

from neartwin.audit.claims import claim_pure
from neartwin.audit.neighbouring_inputs import Twins, answer_patterns, known
from neartwin.audit.runs import Batched
from tests.audit.controls import Control, discrete_laplace

LENGTH = 12
FALL = ((1.0,) * LENGTH, (0.0,) * LENGTH)
TURN = ((0.0,) * LENGTH + (1.0,), (1.0,) * LENGTH + (0.0,))
ALTERNATE = ((1.0, 0.0) * (LENGTH // 2), (0.0, 1.0) * (LENGTH // 2))


def sparse_vector(rng, *, threshold_scale, query_scale, most, numeric=False):
    """Above (1) or below (0) a noisy threshold, -1 once `most` answers were above; `numeric` gives the answer away."""

    def draw(answers, runs):
        answers = np.asarray(answers)
        rho = rng.laplace(0, threshold_scale, (runs, 1))
        noisy = answers + (rng.laplace(0, query_scale, (runs, len(answers))) if query_scale else 0)
        above = noisy >= rho
        stopped = np.cumsum(above, axis=1) - above >= most
        told = np.where(stopped, -1.0, above)
        # an answer above is told on a grid of 1/8, so that float noise is not what gives it away
        return np.where(told == 1, 10 + np.rint(noisy * 8) / 8, told) if numeric else told

    return Batched(draw)


def noisy_max(rng, *, scale, told):
    def draw(counts, runs):
        noisy = np.asarray(counts) + np.rint(rng.laplace(0, scale, (runs, len(counts))) * 64) / 64
        winner = noisy.argmax(axis=1)
        if told == "index":
            return winner
        if told == "reused count":
            return np.stack([winner, noisy.max(axis=1)], axis=1)
        fresh = np.asarray(counts)[winner] + np.rint(rng.laplace(0, scale, runs) * 64) / 64
        return np.stack([winner, fresh], axis=1)

    return Batched(draw)


def lead_told(rng, *, plain):
    """Winner and lead of a noisy maximum on the integers, ties to the first.

    The plain difference of a tie says that the runner-up stands later in the list. What is private is how far the winner
    could fall and still win: one less than the difference where the runner-up stands earlier.
    """

    def draw(scores, runs):
        noisy = np.asarray(scores, int) + discrete_laplace(rng, 2, (runs, len(scores)))
        order = np.argsort(-noisy, axis=1, kind="stable")
        first, second = order[:, 0], order[:, 1]
        lead = np.take_along_axis(noisy, order[:, :2], axis=1)
        return np.stack([first, lead[:, 0] - lead[:, 1] - (0 if plain else second < first)], axis=1)

    return Batched(draw)


def sparse_controls(rng):
    correct = sparse_vector(rng, threshold_scale=2, query_scale=4, most=1)  # Algorithm 1 with c = 1: epsilon = 1
    three = sparse_vector(rng, threshold_scale=2, query_scale=4 * 3, most=3)  # with c = 3
    lyu = "Lyu, Su and Li 2017, Algorithm "

    def pairs(*some):
        return lambda: known(*some, why="sparse vector")

    return [
        Control(
            name="sparse vector that tells the noisy answer itself",
            source=lyu + "3",
            broken=sparse_vector(rng, threshold_scale=2, query_scale=2, most=1, numeric=True),
            correct=correct,
            claim=claim_pure(1),
            twins=pairs(TURN),
            event=("[", "largest", "sum", "whole"),
            runs=120_000,
        ),
        Control(
            name="sparse vector whose noise ignores how many it tells",
            source=lyu + "4",
            broken=sparse_vector(rng, threshold_scale=4, query_scale=4 / 3, most=3),
            correct=three,
            claim=claim_pure(1),
            twins=pairs(FALL, TURN, ALTERNATE),
            runs=60_000,
        ),
        Control(
            name="sparse vector without noise on the queries",
            source=lyu + "5",
            broken=sparse_vector(rng, threshold_scale=2, query_scale=0, most=LENGTH),
            correct=correct,
            claim=claim_pure(1),
            twins=pairs(FALL, ALTERNATE),
        ),
        Control(
            name="sparse vector that never stops",
            source=lyu + "6",
            broken=sparse_vector(rng, threshold_scale=2, query_scale=2, most=LENGTH),
            correct=correct,
            claim=claim_pure(1),
            twins=pairs(FALL, ALTERNATE),
            runs=20_000,
        ),
    ]


def max_controls(rng):
    def monotone():
        return [Twins((0.0,) * 4, (1.0,) * 4, "all counts up by one")]

    return [
        Control(
            name="noisy maximum told with the noise that chose it",
            source="Ding et al. 2019; Dwork and Roth 2014 say it is free, and it is not",
            broken=noisy_max(rng, scale=2, told="reused count"),  # half the budget for each
            correct=noisy_max(rng, scale=2, told="fresh count"),
            claim=claim_pure(1),
            twins=monotone,
            event=("[1]", "sum", "largest", "smallest"),
            runs=40_000,
        ),
        Control(
            name="noisy maximum of scores that move both ways, noise for monotone ones",
            source="Dwork and Roth 2014, Claim 3.9, outside its hypothesis",
            broken=noisy_max(rng, scale=1, told="index"),
            correct=noisy_max(rng, scale=2, told="index"),
            claim=claim_pure(1),
            twins=lambda: answer_patterns(5),
            runs=40_000,
        ),
        Control(
            name="lead of a noisy maximum on a lattice, ties told",
            source="Ding et al. 2019 prove it for continuous noise alone; on integers a tie tells who ran up",
            broken=lead_told(rng, plain=True),
            correct=lead_told(rng, plain=False),
            claim=claim_pure(1),
            twins=lambda: [twins for twins in answer_patterns(5) if "cross" in twins.why],
            event=("[1]", "whole", "sum", "linear", "smallest"),
            runs=120_000,
        ),
    ]


def controls(rng):
    return [*sparse_controls(rng), *max_controls(rng)]
