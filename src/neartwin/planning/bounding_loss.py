"""The measured loss to limits: a stage of a plan that counts units by the rows that they lose.

A unit is in one cell of a histogram, by its lost rows: 0, then from each of `TAKEN` to below the next. So the histogram has
sensitivity 1, or moves one unit between two cells for replaced ones. With noisy counts c_i of the cells [a_i, b_i],

    units cut <= sum of c_i + t,   sum of c_i a_i - t <= rows lost by units in some cells <= sum of c_i b_i + t,

each t a bar of the weighted noises. The number of lost rows of one unit has no end, so no noisy count bounds those of all
units. The statement is about units that lose at most M rows each, and says how many may lose more. M is the end of the
first cell beyond which noise alone explains the counts. A larger M makes longer bars, so it takes more evidence. As each
choice of M has bars of its own, whose failures add up, it may be made by the noisy counts. All bars of a statement
together fail with probability at most 1 - CONFIDENCE.

**Clipped values.** One more count is of units with a row in which a summed value is outside its bounds. It bounds how many
values clipping changes, from below. Nothing bounds what clipping takes, since a value beyond a bound may be any.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from neartwin.accounting.budgets import Budget, Pure
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Composition, compose
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.noise_laws import Law
from neartwin.mechanisms.noise_sums import half_widths_of_sums
from neartwin.noise import Source
from neartwin.planning.allocation import CONFIDENCE, LOSS_FAILURE
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.spending import mu_squared_of, split_budget
from neartwin.planning.stage import SALT_BITS, ContributionSizes, Engine, Stage
from neartwin.statistics.base import total_of
from neartwin.tables.expressions import RowExpression
from neartwin.tables.ranges import range_of
from neartwin.tables.terms import Term, as_kind
from neartwin.tables.types import ColumnType

TAKEN = (0, *(2**i for i in range(13)))  # lost rows at which cells begin; the last has no end
_ENDS = np.array([*TAKEN[1:], 0]) - 1  # the most lost rows of a cell
_INSIDE = np.tri(len(TAKEN) - 1, len(TAKEN), dtype=bool) & (np.array(TAKEN) > 0)  # (choices of M, cells) those up to M
_BEYOND = ~np.tri(len(TAKEN) - 1, len(TAKEN), dtype=bool)
# The failures of bars: of the units cut, of the units not cut, and of all choices of M together.
_CUT, _WHOLE, _LEAST, _MOST, _MORE = 0.01, 0.005, 0.0125, LOSS_FAILURE, 0.0125
_CLIPPED = Fraction(1, 3)  # of the spend, where values can be clipped


class _Bars(NamedTuple):
    """One-sided bars: of units cut and not cut, and for each choice of M of rows from and to, and of units beyond."""

    cut: float
    whole: float
    least: FloatArray
    most: FloatArray
    beyond: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedValues:
    """The count of units with a value that clipping changes.

    Attributes:
        stage: The exact question.
        mechanism: The noise.
        what: The columns and their bounds, in words.
    """

    stage: Stage
    mechanism: DiscreteLaplace | Gaussian
    what: str

    def measured(self, engine: Engine, source: Source, units: float) -> dict[str, Any]:
        """Count, add noise, and state how many units have such a value.

        Args:
            engine: The engine.
            source: The source of noise.
            units: The number of all units, about.

        Returns:
            "units": the ends of their number. "what": what is clipped. "says": all in words. "confidence": of the ends.
        """
        exact = engine.aggregate(self.stage, salt=source.bits(SALT_BITS)).values["units"]
        noisy, off = float(self.mechanism.noisy(exact, source=source)[0]), self.mechanism.half_width(CONFIDENCE)
        low, high = max(0, math.ceil(noisy - off)), max(0, math.floor(noisy + off))
        of, unit = f"Clipping {self.what} changes values of", f"units ({self.stage.table.unit_name})"
        says = f"{of} at most {high:,} {unit}."
        if low:
            share = min(1.0, noisy / max(units, 1.0))
            says = f"{of} about {share:.1%} of {unit}, between {low:,} and {high:,} of them. How much it takes is not known."
        return {"confidence": CONFIDENCE, "units": [low, high], "what": self.what, "says": says}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossStage:
    """The stage that measures what limits take, and how many values clipping changes.

    Attributes:
        stage: The exact question: units by lost rows, or by lost groups where only units are counted.
        mechanism: The noise of each cell.
        clipped: The measurement of clipped values; None if no summed value can be clipped.
    """

    stage: Stage
    mechanism: DiscreteLaplace | Gaussian
    clipped: ClippedValues | None = None

    @classmethod
    def of(cls, stage: Stage, spend: Budget, *, power: int) -> Self:
        """The measurement of what a stage's limits take.

        Args:
            stage: The stage of the question, with its limits.
            spend: The spend of the measurement.
            power: 1 for lost rows, 0 for lost groups.
        """
        sizes = ContributionSizes(tuple(1 + lost for lost in TAKEN), power, lost=True)
        counted, outside = stage.counting_units(sizes), _outside(stage)
        if not outside:
            return cls(stage=counted, mechanism=_noise(stage, spend))
        part, spend = split_budget(spend, _CLIPPED)
        clipped = ClippedValues(
            stage=_where(stage, tuple(outside)),
            mechanism=_noise(stage, part),
            what=" and ".join(dict.fromkeys(outside.values())),
        )
        return cls(stage=counted, mechanism=_noise(stage, spend), clipped=clipped)

    def mechanisms(self) -> Iterator[tuple[str, DiscreteLaplace | Gaussian]]:
        """The noise of each measurement, by what it measures."""
        yield "what the limits take", self.mechanism
        if self.clipped is not None:
            yield "how many values are clipped", self.clipped.mechanism

    def losses(self) -> Composition:
        """The privacy loss of all measurements."""
        return compose([mechanism.losses() for _, mechanism in self.mechanisms()])

    def explanation(self) -> Explained:
        """The measurement, and how close it comes."""
        cells = f"noise of ± {self.mechanism.half_width(CONFIDENCE):,} units a cell, {len(TAKEN)} cells"
        lines = [
            cells,
            f"the number of units that lose something is known to about {_bars(self.mechanism.law).cut:,.0f}",
        ]
        if self.clipped is not None:
            width = self.clipped.mechanism.half_width(CONFIDENCE)
            lines.append(f"units with a value that clipping {self.clipped.what} changes: ± {width:,}")
        return Explained("measure what the limits take: units by lost rows", nodes(*lines))

    def measured(self, engine: Engine, source: Source) -> dict[str, Any]:
        """Count, add noise, and state what was lost.

        Args:
            engine: The engine.
            source: The source of noise.

        Returns:
            The statement: see `stated`. With "clipped", the statement of `ClippedValues`, which holds alone as surely.
        """
        exact = engine.aggregate(self.stage, salt=source.bits(SALT_BITS)).values["units"]
        noisy = self.mechanism.noisy(exact, source=source)
        found = self.stated(noisy)
        if self.clipped is None:
            return found
        clipped = self.clipped.measured(engine, source, float(sum(noisy)))
        return found | {"says": f"{found['says']} {clipped['says']}", "clipped": clipped}

    def stated(self, noisy: WholeNumbers) -> dict[str, Any]:
        """The statement.

        Args:
            noisy: (cells,) noisy counts of units by lost rows.

        Returns:
            "cut": the estimated share of units that lose something. "cut_at_most": its upper end. "rows": the ends of the
            number of rows that are lost by units that lose up to "each". "beyond": the most units that lose more. "says":
            all in words. "confidence": of all together.
        """
        counts, bars = np.asarray(noisy, dtype=float), _bars(self.mechanism.law)
        cut, whole = float(counts[1:].sum()), float(counts[0])
        most_cut = max(0.0, cut + bars.cut)
        share = most_cut / max(most_cut + whole - bars.whole, most_cut, 1.0)
        beyond = _BEYOND @ counts
        of, power = self.stage, self.stage.sizes.power if self.stage.sizes else 1
        limit = float(of.norm or (power and of.rows_per_unit) or of.rows_per_group**power * (of.groups_per_unit or 1))
        dear = np.minimum(
            1.0, _ENDS[1:-1] / limit
        )  # the next M, beside the limit to which the answer's noise is scaled
        place = int(np.argmax(np.append(beyond[:-1] <= dear * bars.beyond[:-1], True)))
        taken = np.array(TAKEN) - (self.stage.norm is not None)  # lost rows of a weight are rounded up
        low = max(0.0, float((_INSIDE @ (taken * counts) - bars.least)[: place + 1].max()))
        high = max(low, float((_INSIDE @ (_ENDS * counts) + bars.most)[place]))
        found = {
            "confidence": CONFIDENCE,
            "cut": min(1.0, max(0.0, cut) / max(cut + whole, 1.0)),
            "cut_at_most": min(1.0, math.ceil(1000 * share) / 1000),
            "rows": [math.ceil(low), math.floor(high)],
            "each": int(_ENDS[place]),
            "beyond": max(0, math.floor(beyond[place] + bars.beyond[place])),
        }
        return found | {"says": self._words(found, known=low > 0 or high <= whole)}

    def _words(self, found: dict[str, Any], *, known: bool) -> str:
        """The statement in words."""
        units = f"units ({self.stage.table.unit_name})"
        what = "rows" if self.stage.sizes and self.stage.sizes.power else "groups"
        if found["cut_at_most"] >= 1:
            return f"How many {units} the limits cut is not known: ask with a larger budget."
        cut = f"The limits cut about {found['cut']:.1%} of {units}, at most {found['cut_at_most']:.1%}"
        most, beyond, (low, high) = found["each"], f"{found['beyond']:,} units", found["rows"]
        if not found["beyond"] and not most:
            return f"The limits cut nothing from any of the {units}."
        if not most:
            return f"{cut}. At most {beyond} lose {what}; how many {what} is not known."
        rows = f"between {low:,} and {high:,} {what}" if low else f"at most {high:,} {what}"
        lost = f"lose {rows} in all" if known else f"lose {what}, how many is not known"
        return f"{cut}. Those with up to {most:,} {what} too many {lost}; at most {beyond} have more than that."


def _noise(stage: Stage, spend: Budget) -> DiscreteLaplace | Gaussian:
    """The noise of a histogram of units: of sensitivity 1, or 2 for replaced ones."""
    both = 1 if stage.table.neighbours == Neighbours.ADD_REMOVE else 2
    if isinstance(spend, Pure):
        return DiscreteLaplace.calibrated(epsilon=spend.epsilon, sensitivity=both)
    return Gaussian(variance=both / mu_squared_of(spend), l2_squared=both)


def _outside(stage: Stage) -> dict[Term, str]:
    """The conditions that a summed value is outside its bounds, and their columns and bounds in words.

    A value that cannot be outside has no condition. Columns of an expression are clipped within it.
    """
    sums = (column for column in stage.grid.values() if total_of(column) in stage.measures)
    factors = (column for moment in stage.moments.values() for column in moment.factors)
    found: dict[Term, str] = {}
    for column in (*sums, *factors):
        term = column.expression.term if column.expression else None
        value = term or Term("column", stage.table.schema[column.column], value=column.column)
        clips = {one: ", ".join(sorted(one.columns)) for one in value.walk() if one.operation == "clip"}
        reach, low, high = range_of(value, {}), column.bounds.low, column.bounds.high
        if reach.low < low or reach.high > high:
            number = as_kind(value, ColumnType.NUMBER)
            clips[Term("clip", ColumnType.NUMBER, (number,), (float(low), float(high)))] = column.column
        for one, name in clips.items():
            assert isinstance(one.value, tuple)  # noqa: S101 - what a clip holds
            *both, infinite = (Term("literal", ColumnType.NUMBER, value=end) for end in (*one.value, math.inf))
            within = Term("between", ColumnType.BOOLEAN, (*one.parts, *both))
            # NaN is above all numbers, and is not clipped
            beyond = Term("<=", ColumnType.BOOLEAN, (*one.parts, infinite)), Term("not", ColumnType.BOOLEAN, (within,))
            found[Term("and", ColumnType.BOOLEAN, beyond)] = "{} to [{:,.9g}, {:,.9g}]".format(name, *one.value)
    return found


def _where(stage: Stage, conditions: tuple[Term, ...]) -> Stage:
    """The stage that counts the units with a row that meets one of these conditions, within no limits."""
    term = Term("or", ColumnType.BOOLEAN, conditions) if conditions[1:] else conditions[0]
    whole = replace(stage, rows_per_group=1, rows_per_unit=None, groups_per_unit=None, norm=None)
    condition = RowExpression(str(term), ColumnType.BOOLEAN, term)
    return replace(whole.counting_units(ContributionSizes((1,), 1)), conditions=(*stage.conditions, condition))


@lru_cache(maxsize=64)
def _bars(law: Law) -> _Bars:
    laws = [law] * len(TAKEN)

    def bars(weights: FloatArray, failure: float) -> FloatArray:
        return half_widths_of_sums(laws, weights.T, 1 - 2 * failure)

    cells = np.eye(len(TAKEN))
    cut, whole = (float(bars(part, miss)[0]) for part, miss in ((1 - cells[:1], _CUT), (cells[:1], _WHOLE)))
    rows = (_INSIDE * np.array(TAKEN), _LEAST), (_INSIDE * _ENDS, _MOST), (_BEYOND, _MORE)
    return _Bars(cut, whole, *(bars(part.astype(float), miss / len(_INSIDE)) for part, miss in rows))
