"""Scores of candidates as gaps to the best one: the only form in which a selection looks at them."""

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers
from neartwin.mechanisms.adding import clipped_whole

_LARGEST = (
    2**61
)  # scores are clipped here where gaps must fit 64 bits: clipping stretches no change and turns none round


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
    """The same after clipping the scores to 2**61 in size, always int64.

    >>> small_gaps_of(np.array([10**30, 0], dtype=object)).tolist() == [0, 2**61]
    True
    """
    gaps_of(scores)
    clipped = clipped_whole(scores, -_LARGEST, _LARGEST)
    result: NDArray[np.int64] = clipped.max() - clipped
    return result
