"""Tracing: was this person among those whose means were published?

Homer et al. 2008; Dwork, Smith, Steinke, Ullman and Vadhan 2015: the inner product of what is special about a person
with what is special about the published means separates members from strangers once there are about as many columns as
members, even when the means are a little noisy.
"""

from dataclasses import dataclass

import numpy as np

from neartwin.errors import ParameterError
from neartwin.exact import FloatArray


def tracing_scores(people: FloatArray, published: FloatArray, reference: FloatArray) -> FloatArray:
    """<published - reference, person - reference>, higher for members: shape (people,).

    people: (people, columns), each person's own values; published, reference: (columns,), the released means and those
    of the population.
    """
    table = np.asarray(people, np.float64)
    if table.ndim != 2 or np.shape(published) != table.shape[1:] or np.shape(reference) != table.shape[1:]:
        raise ParameterError("people", table.shape, "must have one column for each published and reference mean")
    return np.asarray((table - reference) @ (np.asarray(published) - reference))


@dataclass(frozen=True, slots=True)
class Traced:
    """How well scores tell members from strangers.

    advantage: the largest true-positive less false-positive rate over all thresholds. auc: the chance that a member
    scores above a stranger, ties counted half. Both are estimates from these people.
    """

    advantage: float
    auc: float


def traced(members: FloatArray, strangers: FloatArray) -> Traced:
    """Compare the scores of members (n,) with those of strangers (m,).

    >>> traced(np.array([2.0, 3.0]), np.array([0.0, 1.0]))
    Traced(advantage=1.0, auc=1.0)
    """
    if len(members) == 0 or len(strangers) == 0:
        raise ParameterError("members", len(members), f"and strangers={len(strangers)} must both be some")
    cuts = np.unique(np.concatenate([members, strangers]))
    inside, outside = np.sort(members), np.sort(strangers)
    tpr = 1 - np.searchsorted(inside, cuts, side="left") / len(inside)
    fpr = 1 - np.searchsorted(outside, cuts, side="left") / len(outside)
    below = np.searchsorted(outside, members, side="left")
    upto = np.searchsorted(outside, members, side="right")
    return Traced(float(np.max(tpr - fpr)), float(np.mean(below + upto) / 2 / len(outside)))
