"""The measured loss to limits: a stage of a plan that counts units by the rows that they lose.

A unit is in one cell of a histogram, by its lost rows: 0, then from each of `TAKEN` to below the next. So the histogram has
sensitivity 1, or moves one unit between two cells for replaced ones. With noisy counts c_i of the cells [a_i, b_i],

    units cut <= sum of c_i + t,   sum of c_i a_i - t <= rows lost by units in some cells <= sum of c_i b_i + t,

each t a bar of the weighted noises. The number of lost rows of one unit has no end, so no noisy count bounds those of all
units. The statement is about units that lose at most M rows each, and says how many may lose more. M is the end of the
first cell beyond which noise alone explains the counts. A larger M makes longer bars, so it takes more evidence. In few groups
bars are short, and M is at least a part of the limit. Where more than a twentieth of the units may be cut, noise hides too
much. So a second rule has M at least another part of it. Where many surely are, a third rule takes less evidence. M may be
chosen by the noisy counts. Under each rule the choice makes no upper bar of lost rows less sure (L7). Failures of the other
bars add up over its choices. All bars of a statement together fail with probability at most 1 - CONFIDENCE.

**Clipped values.** For each clipped column one more histogram is of units by how much clipping changes their values, in parts
of the largest. It says how many units have such a value, and bounds the change as lost rows are bounded. Most bounds are
honest, so each step of M takes at least half a bar of evidence.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from neartwin.accounting.budgets import Budget, Pure
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Composition, compose
from neartwin.mechanisms.additive import DiscreteLaplace, Gaussian
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.noise_laws import Law, half_widths_of_sums
from neartwin.noise import Source
from neartwin.planning.allocation import CONFIDENCE, LOSS_FAILURE, NO_DELTA, mu_squared_of, share_of, split_budget
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.stage import LARGEST, SALT_BITS, ContributionSizes, Engine, Stage
from neartwin.statistics.base import total_of
from neartwin.statistics.measures import largest
from neartwin.tables.expressions import RowExpression
from neartwin.tables.grid import GridColumn
from neartwin.tables.ranges import unclipped, without_idle_clips
from neartwin.tables.table import Bounds
from neartwin.tables.terms import Term, as_kind
from neartwin.tables.types import ColumnType

TAKEN = (0, *(2**i for i in range(13)))  # lost rows at which cells begin; the last has no end
FINE = 64  # parts of the largest value in which a clipped amount is counted, rounded up
_NUMBER = ColumnType.NUMBER
_AMOUNT = Bounds(Fraction(0), Fraction(2**31), Fraction(1))  # of one row
_AMOUNTS = tuple(4**i for i in range(6))  # ends of cells, in such parts of the largest value times the rows that count
# The failures of bars: of the units cut, of the units not cut, and of all choices of M together; of M from above, by all rules.
_CUT, _WHOLE, _LEAST, _MOST, _MORE = 0.01, 0.005, 0.0125, LOSS_FAILURE, 0.0125
_ROWS = 2  # shares of the spend for lost rows, where clipped values have one for each column
_GROUPS = Fraction(1, 4)  # of the spend, where units are counted beside rows
_STEEP = 1.5  # the growth of the evidence for a step of M, a whole bar at the limit
_TAIL = 0.1  # the evidence for a step of M where many are cut, some of whom then lose much
_UNSURE = 0.05  # a share of units that may be cut, beyond which M is at least such a part of the limit:
_EIGHTH, _HALF = 0.125, 0.5  # under Laplace noise, and under normal noise, which hides half as much
_MAY_MISS = 0.05  # the share of units beyond all that bars hold, from which on the headline says so
_FAR = 1 / 3  # a share of units beyond M, from which on nothing is known of the loss


class _Bars(NamedTuple):
    """One-sided bars: of units cut and not cut, and for each choice of M of rows from and to, and of units beyond.

    Attributes:
        inside: (choices of M, cells) the cells up to M where something is lost.
        far: (choices of M, cells) the cells beyond M.
        ends: (cells,) the most that a unit of a cell loses.
        cut: Of units that lose something.
        whole: Of units that lose nothing.
        least: (choices of M,) of all that is lost up to M, from below.
        most: (choices of M,) of all that is lost up to M, from above.
        losing: (choices of M,) of units that lose up to M, from above.
        beyond: (choices of M,) of units beyond M.
    """

    inside: FloatArray
    far: FloatArray
    ends: FloatArray
    cut: float
    whole: float
    least: FloatArray
    most: FloatArray
    losing: FloatArray
    beyond: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class LossStage:
    """The stage that measures what limits take, and what clipping changes.

    Attributes:
        stage: The exact question: units by lost rows, by lost groups where only units are counted, or by clipped amounts.
        mechanism: The noise of each cell.
        limit: The most that a unit counts for, in what is lost.
        taken: The losses at which cells begin.
        what: The clipped columns and their bounds, in words; empty for limits.
        sizes: The largest value of each clipped column, by its name.
        columns: The clipped columns, by their names on the grid.
        clipped: The stages that measure what clipping changes of summed values that can be clipped. Columns have one together
            if they are made of one column of the table, or a product joins them.
        groups: The stage that measures what a limit of groups takes from counts of units beside other statistics, or None.
        takes_rows: Whether limits can take something, so that it is measured: not where a unit has one row.
        least: The least M, as a share of the limit.
        totals: That of totals over groups, where they are asked; 0 where they are not.
        noun: The lost thing: a row, a group or a value.
        rules: How many rules choose M: a first one, where noise may hide many units another, and under given limits one more.
    """

    stage: Stage
    mechanism: DiscreteLaplace | Gaussian
    limit: float
    taken: tuple[int, ...] = TAKEN
    what: str = ""
    sizes: Mapping[str, float] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    clipped: "tuple[LossStage, ...]" = ()
    groups: "LossStage | None" = None
    takes_rows: bool = True
    least: float = 0.0
    totals: float = 0.0
    noun: str = "row"
    rules: int = 2

    @classmethod
    def of_values(cls, cells: Stage, spend: Budget) -> Self:
        """The measurement of distinct values that units have beyond their limit: the first sum of (V7), without group columns.

        Args:
            cells: The stage of the values of each unit, with its limits.
            spend: The spend of the measurement.
        """
        (value,), table, name = (one.expression for one in cells.grid.values()), cells.table, "value of a unit"
        assert value is not None  # noqa: S101 - of what is told apart by its hash
        table = replace(table, schema={**table.schema, name: value.type}, computed={**table.computed, name: value})
        known, most = table.expression(f'"{name}" IS NOT NULL'), cells.rows_per_unit or cells.rows_per_group
        values = replace(cells, table=table, group_columns=(name,), keys=None, conditions=(*cells.conditions, known))
        counted = replace(
            values, rows_per_group=most, rows_per_unit=most, groups_per_unit=None, split=None, by_unit=False
        )
        return replace(cls.of(counted, spend, power=0), limit=float(most), noun="value")

    @classmethod
    def of(cls, stage: Stage, spend: Budget, *, power: int, beside: bool = False) -> Self:
        """The measurement of what a stage's limits take.

        Args:
            stage: The stage of the question, with its limits.
            spend: The spend of the measurement.
            power: 1 for lost rows, 0 for lost groups.
            beside: Whether units are counted beside rows.
        """
        units, few = None, stage.groups_per_unit if stage.norm is None else stage.units_norm
        if beside and few is not None:
            part, spend = split_budget(spend, _GROUPS)
            units = cls.of(replace(stage, norm=stage.units_norm, grid={}, moments={}), part, power=0)
        groups, joined = stage.groups_per_unit or 1, _joined(stage)
        # a unit counts for that many rows, or groups for the power 0, and the answer's noise is scaled to it
        limit = float(stage.norm or (power and stage.rows_per_unit) or stage.rows_per_group**power * groups)
        edges = (1, 2, *(2 + math.ceil(min(limit, LARGEST)) * end for end in _AMOUNTS))  # all below _AMOUNT's end
        whole = replace(stage, rows_per_group=1, rows_per_unit=None, groups_per_unit=None, norm=None)
        takes_rows = not (joined and stage.table.one_row)
        each = Fraction(1, len(joined) + _ROWS * takes_rows)
        grids = [{amount.name: amount for _, amount, _ in amounts} for amounts in joined]
        clipped = tuple(
            cls(
                stage=replace(whole.counting_units(ContributionSizes(edges, 1, of=tuple(grid))), grid=grid),
                mechanism=_noise(stage, share_of(spend, each, delta=NO_DELTA)),
                limit=FINE * limit,
                taken=tuple(edge - 1 for edge in edges),
                what=" and ".join(dict.fromkeys(words for *_, clips in amounts for words in clips)),
                sizes={column.column: _size(column) for column, *_ in amounts},
                columns=tuple(column.name for column, *_ in amounts),
                rules=1,
            )
            for grid, amounts in zip(grids, joined, strict=True)
        )
        noise = _noise(stage, share_of(spend, _ROWS * each if takes_rows else Fraction(1), delta=NO_DELTA))
        asked = stage.counting_units(ContributionSizes(tuple(1 + lost for lost in TAKEN), power, lost=True))
        found = cls(stage=asked, mechanism=noise, limit=limit, clipped=clipped, groups=units, takes_rows=takes_rows)
        return found if power else replace(found, noun="group")

    @property
    def beside(self) -> "tuple[LossStage, ...]":
        """The measurements beside the first."""
        return (*([] if self.groups is None else [self.groups]), *self.clipped)

    @property
    def measures(self) -> str:
        """The measured thing, in words."""
        limits = f"what the limits take{' from counts of units' * (self.noun == 'group')}"
        return f"what clipping {self.what} changes" if self.what else limits

    def mechanisms(self) -> Iterator[tuple[str, DiscreteLaplace | Gaussian]]:
        """The noise of each measurement, by what it measures."""
        if self.takes_rows:
            yield self.measures, self.mechanism
        for one in self.beside:
            yield from one.mechanisms()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The exact questions of all measurements."""
        return (*[self.stage] * self.takes_rows, *(stage for one in self.beside for stage in one.stages))

    def losses(self) -> Composition:
        """The privacy loss of all measurements."""
        return compose([mechanism.losses() for _, mechanism in self.mechanisms()])

    def explanation(self) -> tuple[Explained, ...]:
        """The measurements, and how close they come."""
        lines = nodes(
            f"noise of ± {self.mechanism.half_width(CONFIDENCE):,} units a cell, {len(self.taken)} cells",
            f"the number of units that lose something is known to about {_bars(self.mechanism.law, self.taken).cut:,.0f}",
        )
        own = [Explained(f"measure {self.measures}: units by {'amount' if self.what else f'lost {self.noun}s'}", lines)]
        return (*own * self.takes_rows, *(tree for one in self.beside for tree in one.explanation()))

    def measured(self, engine: Engine, source: Source) -> dict[str, Any]:
        """Count, add noise, and state what was lost.

        Args:
            engine: The engine.
            source: The source of noise.

        Returns:
            The statement: see `stated`. Its "clipped" is that of the column which clipping changes most, with the "amount"
            of each in "columns". "counts of units" is that of what these lose. Each is as sure alone.
        """
        if self.takes_rows:
            exact = engine.aggregate(self.stage, salt=source.bits(SALT_BITS)).values["units"]
            found = self.stated(self.mechanism.noisy(exact, source=source))
        else:
            found = dict.fromkeys(("cut", "cut_at_most", "beyond", "units", "each"), 0) | {"rows": [0, 0]}
            found |= {"confidence": CONFIDENCE, "says": "The limits take nothing, as a unit has one row."}
        if self.groups is not None:
            groups = self.groups.measured(engine, source)
            found |= {"says": f"{found['says']} In counts of units: {groups['says']}", "counts of units": groups}
        if self.clipped:
            clipped = [one.measured(engine, source) for one in self.clipped]
            worst = max(clipped, key=lambda one: math.inf if one["amount"] is None else one["amount"])
            of = {name: one["amount"] for part, one in zip(self.clipped, clipped, strict=True) for name in part.columns}
            found |= {"says": " ".join(one["says"] for one in (found, *clipped)), "clipped": worst | {"columns": of}}
        return found

    def stated(self, noisy: WholeNumbers) -> dict[str, Any]:
        """The statement.

        Args:
            noisy: (cells,) noisy counts of units by what they lose.

        Returns:
            "cut": the estimated share of units that lose something. "cut_at_most": its upper end. "rows": the ends of the
            number of rows that are lost by units that lose up to "each". The upper end is None where many may lose more.
            "totals": its upper end for bars of totals over groups, where these are asked, with an M of their own.
            "units": the most such units; there, all that lose something. "amount": in place of both, the most by which
            clipping changes each total, in largest values, or None. "beyond": the most units that lose more. "says": in words.
            "confidence": of all together.
        """
        counts, bars = np.asarray(noisy, dtype=float), _bars(self.mechanism.law, self.taken, self.rules)
        cut, whole = float(counts[1:].sum()), float(counts[0])
        most_cut = max(0.0, cut + bars.cut)
        share = most_cut / max(most_cut + whole - bars.whole, most_cut, 1.0)
        beyond = bars.far @ counts
        # the next M, beside the limit to which the answer's noise is scaled
        reach = np.minimum(bars.ends[1:-1] / self.limit, 1.0)
        dear = (1 + reach) / 2 if self.what else reach**_STEEP
        part = _HALF if self.mechanism.law.laplace_scale is None else _EIGHTH
        many = self.rules > 2 and cut > 2 * bars.cut
        some = (self.least, self.totals) if bars.cut >= 1 else (0.0, 0.0)  # as noise hides units, or none
        rule = self.limit * part * ((share > _UNSURE or many) and not self.what)
        leasts = [max(math.floor(self.limit * one), rule, some[1] > 0) for one in some]
        ends = beyond[:-1] <= dear * (_TAIL if many else 1.0) * bars.beyond[:-1]
        place, whole_place = (int(np.argmax(np.append(ends & (bars.ends[:-2] >= one), True))) for one in leasts)
        begins = np.array(self.taken) - (self.stage.norm is not None)  # lost rows of a weight are rounded up
        low = max(0.0, float((bars.inside @ (begins * counts) - bars.least)[: place + 1].max()))
        # at least 1 beyond M = 0: so an end of 0 cannot fail
        lost = bars.inside @ (bars.ends * counts) + bars.most
        high, in_all = (max(low, float(lost[at]), float(at > 0)) for at in (place, whole_place))
        found = {
            "confidence": CONFIDENCE,
            "cut": min(1.0, max(0.0, cut) / max(cut + whole, 1.0)),
            "cut_at_most": min(1.0, math.ceil(1000 * share) / 1000),
            "beyond": max(0, math.floor(min(beyond[place] + bars.beyond[place], most_cut))),
        }
        known = found["beyond"] <= _FAR * (cut + whole)
        if self.what:
            found |= {"amount": math.floor(high) / FINE if known else None, "each": int(bars.ends[place]) / FINE}
        else:
            units = max((bars.inside @ counts + bars.losing)[place], float(place > 0)) if known else most_cut
            rows = [math.ceil(low), math.floor(high) if known else None]
            found |= {"rows": rows, "each": int(bars.ends[place]), "units": math.floor(units)}
            found |= {"totals": math.floor(in_all)} if self.totals else {}
        return found | {"says": self._words(found, cut + whole, some=cut > bars.cut or low > 0)}

    def _words(self, found: dict[str, Any], all_: float, *, some: bool) -> str:
        """The statement in words. all_: about how many units there are. some: whether some surely lose something."""
        kind = "units" if isinstance(self.stage.table.unit, str) else "rows"
        units = f"units ({self.stage.table.unit_name})" if kind == "units" else kind
        what, most = self.noun, found["each"]

        share = min(found["beyond"] / max(all_, 1.0), 1.0)
        may = " and may miss: ask with a larger budget" if share > _MAY_MISS else ""

        def beyond(lost: str) -> str:
            many = f" ({share:.0%} of all),{may}" if may else ""
            return f". Bars leave out at most {found['beyond']:,} {kind} with {lost}{many}." if found["beyond"] else "."

        head, unknown = "The limits cut", f"how many {what}s these lose"
        if self.what:
            head, unknown = f"Clipping {self.what} changes values of", "by how much"
        if found["cut_at_most"] >= 1 and not some:
            return f"{head} a number of {units} that is not known: ask with a larger budget."
        if not found["beyond"] and not most:
            return f"{head} none of the {units}."
        end = f"at most {found['cut_at_most']:.1%}"
        these = f"about {found['cut']:.1%} of {units}, {end}" if some else f"{end} of {units}, perhaps none"
        cut = f"{head} {these}"
        if self.noun == "value" and most:
            more = beyond(f"over {most:,} too many")
            return f"Some values of {these}, count through other units or not at all{more}"
        is_open = (found["rows"][1] if "rows" in found else found["amount"]) is None
        if is_open or not most:
            return f"{cut}; {unknown} is not known{'' if is_open else f', and bars leave it out{may}'}."
        if self.what:
            much, up_to = map(self._amount, (found["amount"], most))
            return f"{cut}. Changes of up to {up_to} add up to at most {much}{beyond('larger ones')}"
        low, high = found["rows"]
        rows = f"between {low:,} and {high:,}" if low else f"at most {high:,}"
        more = f"more (over {found['beyond'] * (most + 1):,})"
        return f"{cut}. Those with up to {most:,} {what}{'s' * (most > 1)} too many lose {rows} in all{beyond(more)}"

    def _amount(self, largest_values: float) -> str:
        amounts = ((largest_values * size, name) for name, size in self.sizes.items())
        return " and ".join(f"{math.ceil(n):,} of {name}" if n > 100 else f"{n:,.3g} of {name}" for n, name in amounts)


def _noise(stage: Stage, spend: Budget) -> DiscreteLaplace | Gaussian:
    """The noise of a histogram of units: of sensitivity 1, or 2 for replaced ones."""
    both = 1 if stage.table.neighbours == Neighbours.ADD_REMOVE else 2
    if isinstance(spend, Pure):
        return DiscreteLaplace.calibrated(epsilon=spend.epsilon, sensitivity=both)
    return Gaussian(variance=both / mu_squared_of(spend), l2_squared=both)


def taken(lost: Mapping[str, Any], *, units_alone: bool) -> tuple[int, float, dict[str, Fraction | float]]:
    """The most that limits took from one group's units, and rows from all groups, infinite if unknown; and clipping from
    each column, in largest values.

    Args:
        lost: The statement of `LossStage.measured`.
        units_alone: Whether nothing but units is counted, none of which counts twice in a group.
    """
    groups = (lost if units_alone else lost.get("counts of units", {"units": 0}))["units"]
    rows, of = 0 if units_alone else lost["rows"][1], lost.get("clipped", {"columns": {}})["columns"]
    changed = {name: math.inf if amount is None else Fraction(amount) for name, amount in of.items()}
    return groups, math.inf if rows is None else rows, changed


def _joined(stage: Stage) -> list[list[tuple[GridColumn, GridColumn, list[str]]]]:
    """The clipped amounts of a stage: together those of one column of the table, and those that a product joins."""
    amounts = list(clipped_amounts(stage))
    of = {column: amount.expression.columns for column, amount, _ in amounts if amount.expression}
    products = (frozenset().union(*(of.get(column, ()) for column in one.factors)) for one in stage.moments.values())
    parts: list[frozenset[str]] = []
    for link in (*of.values(), *products):
        parts = [*(part for part in parts if not part & link), link.union(*(part for part in parts if part & link))]
    return [[one for one in amounts if of[one[0]] <= part] for part in parts if part]


def clipped_amounts(stage: Stage) -> Iterator[tuple[GridColumn, GridColumn, list[str]]]:
    """The summed columns whose values can be outside their bounds, by how much clipping changes them, and the clips in words.

    Columns of an expression are clipped within it.

    Args:
        stage: The stage.

    Yields:
        The column, the amount of its change, and the clips.
    """
    sums = (column for column in stage.grid.values() if total_of(column) in stage.measures)
    factors = (column for moment in stage.moments.values() for column in moment.factors)
    met = tuple(one.term for one in stage.conditions)
    for column in dict.fromkeys((*sums, *factors)):
        term = column.expression.term if column.expression else None
        value = as_kind(term or Term("column", stage.table.schema[column.column], value=column.column), _NUMBER)
        value = without_idle_clips(value, stage.table, met)
        clips: list[tuple[Any, str]] = [
            (one.value, ", ".join(sorted(one.columns))) for one in value.walk() if one.operation == "clip"
        ]
        raw, ends = unclipped(value), (float(column.bounds.low), float(column.bounds.high))
        clipped = without_idle_clips(Term("clip", _NUMBER, (value,), ends), stage.table, met)
        if clipped != value:
            clips.append((ends, column.column))
            value = clipped
        if raw != value:
            part = Term("literal", _NUMBER, value=_size(column) / FINE)
            change = Term("abs", _NUMBER, (Term("-", _NUMBER, (raw, value)),))
            parts = Term("ceil", _NUMBER, (Term("/", _NUMBER, (change, part)),))
            within = [
                Term(sign, ColumnType.BOOLEAN, (one.parts[0], Term("literal", _NUMBER, value=end)))
                for one in value.walk()
                if one.operation == "clip" and isinstance(one.value, tuple)
                for sign, end in zip((">=", "<="), one.value, strict=True)
            ]
            # as most rows are: nothing is computed or added for them
            inside = Term("and", ColumnType.BOOLEAN, tuple(within))
            parts = Term("case", _NUMBER, (inside, Term("literal", _NUMBER), parts))
            amount = GridColumn(f"change of {column.name}", "", _AMOUNT, 0, None, RowExpression("", _NUMBER, parts))
            yield column, amount, [f"{name} to [{low:,.9g}, {high:,.9g}]" for (low, high), name in clips]


def _size(column: GridColumn) -> float:
    """The largest value around the column's centre."""
    return float(largest(column) * column.bounds.step)


@lru_cache(maxsize=64)
def _bars(law: Law, taken: tuple[int, ...], rules: int = 1) -> _Bars:
    laws, starts, within = [law] * len(taken), np.array(taken, dtype=float), np.tri(len(taken) - 1, len(taken))
    inside, far, ends = within * (starts > 0), 1 - within, np.append(starts[1:], 0) - 1

    def bars(weights: FloatArray, failure: float) -> FloatArray:
        return half_widths_of_sums(laws, weights.T, 1 - 2 * failure)

    cells = np.eye(len(taken))
    cut, whole = (float(bars(part, miss)[0]) for part, miss in ((1 - cells[:1], _CUT), (cells[:1], _WHOLE)))
    each, most = 1 / len(inside), _MOST / rules
    rows = (inside * starts, _LEAST * each), (inside * ends, most), (inside, most), (far, _MORE * each)
    return _Bars(inside, far, ends, cut, whole, *(bars(part, miss) for part, miss in rows))
