"""Marginals of a table through marginals of a better-chosen set: the matrix mechanism where it has a closed form.

A domain has attributes with m_1, ..., m_d values. A margin T, a set of attributes, is the table summed over all others. Margins
S are measured with independent noise of variance v_S a cell; other margins are estimated. The table falls apart into orthogonal
components, one for each set A: the part of margin A that no smaller margin tells. A measured S tells of each A within it, with
precision 1 / (v_S prod m_i over S - A). Precisions add up over S to t_A. The least-squares answers are those of each component
alone (Gauss-Markov). So with c = 1 - 1/m

  Var(cell of T) = sum over A within T of  prod c_i over A / (t_A prod m_i^2 over T - A),

and all answers are margins of one table: they are consistent. Li, Miklau, Hay, McGregor, Rastogi 2015 (matrix mechanism);
McKenna, Miklau, Hay, Machanavajjhala 2018, sec. 6 (strategies of marginals); Xiao, He, Zhang, Kifer 2023 (the components).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod

import numpy as np

from neartwin.exact import FloatArray

Margin = tuple[int, ...]  # places of attributes, ascending
_ROUNDS = 400  # rounds of the multiplicative algorithm; more gain less than the rounding of shares
_STILL = 1e-7  # the algorithm stops when no share moves by more
_LEAST = 1e-4  # smaller shares are dropped: their measure is not worth a draw


def subsets(margin: Margin) -> Iterator[Margin]:
    """All subsets of a margin, the empty one and itself included."""
    return chain.from_iterable(combinations(margin, size) for size in range(len(margin) + 1))


@dataclass(frozen=True, slots=True)
class MarginalDesign:
    """Which margins are measured, with which precision, and what follows for others.

    sizes: the number of values of each attribute. variances: of the noise on a cell of each margin that is measured.
    """

    sizes: tuple[int, ...]
    variances: Mapping[Margin, float]

    def precision(self, component: Margin) -> float:
        """t_A: how well a component is precisions by all that is measured."""
        return sum(self._share(component, margin) for margin in self.variances)

    def _share(self, component: Margin, margin: Margin) -> float:
        if not set(component) <= set(margin):
            return 0.0
        return 1 / (self.variances[margin] * self._cells(set(margin) - set(component)))

    def _cells(self, attributes: Sequence[int] | set[int]) -> int:
        return prod(self.sizes[i] for i in attributes)

    def tells(self, margin: Margin) -> bool:
        """Whether the measured margins determine this one."""
        return all(self.precision(part) > 0 or self._silent(part) for part in subsets(margin))

    def _silent(self, component: Margin) -> bool:
        return any(self.sizes[i] == 1 for i in component)  # an attribute of one value has no component

    def variance(self, margin: Margin) -> float:
        """The variance of each answer of a margin, by the formula above."""
        total = 0.0
        for part in subsets(margin):
            if not self._silent(part):
                spread = self._cells(set(margin) - set(part)) ** 2
                total += prod(1 - 1 / self.sizes[i] for i in part) / (self.precision(part) * spread)
        return total

    def weights(self, margin: Margin, measured: Margin) -> tuple[FloatArray, FloatArray]:
        """The weights with which the cells of a measured margin enter an answer of a margin, and the number of cells with
        each.

        A cell's weight depends only on which of the common attributes it shares with the answer's own.

        Args:
            margin: The margin of the answer.
            measured: The measured margin.

        Returns:
            (kinds,) weights, and (kinds,) numbers of cells.
        """
        common = tuple(i for i in margin if i in measured)
        free = self._cells(set(measured) - set(common))
        weights = []
        for equal in subsets(common):
            weight = sum(
                self._share(part, measured)
                / self.precision(part)
                * prod((1.0 if i in equal else 0.0) - 1 / self.sizes[i] for i in part)
                / self._cells(set(margin) - set(part))
                for part in subsets(common)
                if not self._silent(part)
            )
            weights.append((weight, free * prod(self.sizes[i] - 1 for i in common if i not in equal)))
        values, counts = np.array(weights, dtype=float).T
        return values, counts

    def answers(self, margin: Margin, measured: Mapping[Margin, FloatArray]) -> FloatArray:
        """The least-squares answers of a margin.

        Args:
            margin: The margin.
            measured: The noisy tables of the measured margins, each of its own sizes.

        Returns:
            The answers, of the sizes of the margin's attributes.
        """
        answers = np.zeros(tuple(self.sizes[i] for i in margin))
        for part in subsets(margin):
            if self._silent(part):
                continue
            component = sum(
                self._share(part, one) / self.precision(part) * self._component(part, one, values)
                for one, values in measured.items()
                if set(part) <= set(one)
            )
            shape = tuple(self.sizes[i] if i in part else 1 for i in margin)
            answers = answers + np.asarray(component).reshape(shape) / self._cells(set(margin) - set(part))
        return answers

    def _component(self, part: Margin, measured: Margin, values: FloatArray) -> FloatArray:
        """What a measured margin says of a component: summed to its attributes, less what smaller margins tell."""
        axes = tuple(place for place, i in enumerate(measured) if i not in part)
        component: FloatArray = values.sum(axis=axes)
        for axis in range(len(part)):
            component = component - component.mean(axis=axis, keepdims=True)
        return component


def best_shares(
    sizes: tuple[int, ...], margin_weights: Mapping[Margin, float], costs: Mapping[Margin, float]
) -> dict[Margin, float]:
    """The shares of a squared budget over margins that minimise the weighted sum of variances. Reads no data.

    The sum of C_A / t_A is convex in the shares, and the multiplicative algorithm lowers it in every round.

    Args:
        sizes: The number of values of each attribute.
        margin_weights: The weight of each margin's variance.
        costs: The cost of a unit of precision of each margin that may be measured.

    Returns:
        The shares, which add up to 1; negligible ones are omitted.

    Source:
        Silvey, Titterington, Torsney 1978; Yu 2010.

    >>> best_shares((2, 2), {(0,): 1.0, (1,): 1.0}, {(0,): 1.0, (1,): 1.0, (0, 1): 1.0})
    {(0,): 0.5, (1,): 0.5}
    """
    parts = sorted({part for margin in margin_weights for part in subsets(margin)}, key=lambda part: (len(part), part))
    parts = [part for part in parts if all(sizes[i] > 1 for i in part)]
    margins = [margin for margin in costs if any(set(part) <= set(margin) for part in parts)]
    importance = np.array(
        [
            sum(
                weight * prod(1 - 1 / sizes[i] for i in part) / prod(sizes[i] for i in margin if i not in part) ** 2
                for margin, weight in margin_weights.items()
                if set(part) <= set(margin)
            )
            for part in parts
        ]
    )
    precisions = np.array(
        [
            [
                1 / (costs[margin] * prod(sizes[i] for i in margin if i not in part))
                if set(part) <= set(margin)
                else 0.0
                for margin in margins
            ]
            for part in parts
        ]
    )
    shares = _multiplied(np.full(len(margins), 1 / len(margins)), importance, precisions)
    significant = np.where(shares < _LEAST, 0.0, shares)
    if np.all(precisions @ significant > 0):
        shares = significant / significant.sum()
    return {margin: float(share) for margin, share in zip(margins, shares, strict=True) if share > 0}


def _multiplied(shares: FloatArray, importance: FloatArray, precisions: FloatArray) -> FloatArray:
    for _ in range(_ROUNDS):
        moved = shares * np.sqrt((importance / (precisions @ shares) ** 2) @ precisions)
        moved, before = moved / moved.sum(), shares
        shares = moved
        if np.abs(moved - before).max() < _STILL:
            break
    return shares
