"""How far a sum of the whole table can be, by noisy numbers of a sample of its units: of releases and of what is expected."""

from functools import partial

from neartwin.exact import FloatArray
from neartwin.queries.plan import GroupPlan, Measure
from neartwin.queries.sample_bars import Ends, HalfWidth, SampleBars
from neartwin.queries.stage import GridColumn
from neartwin.queries.sum_bars import sum_half_width


def width_of(measure: Measure) -> HalfWidth:
    """Of a measure's noise, by confidence."""
    return lambda confidence: float(measure.half_width(confidence))


def rows_at_most(plan: GroupPlan, column: GridColumn, bars: SampleBars, counted: FloatArray) -> tuple[FloatArray, int]:
    """At most how many rows (or units) of the table have a value, and m with sum n_u^2 <= m times that.

    counted: (groups,) the sample's noisy number of them, of the measure that `plan.counts_rows` names.
    """
    measure, times = counter(plan, column)
    most = 1 if measure.name == "units" else plan.bounding.rows_per_group
    return bars.number(counted, width_of(measure), most=most), times


def counter(plan: GroupPlan, column: GridColumn) -> tuple[Measure, int]:
    """The measure that counts the rows of a column, as `plan.counts_rows` has it."""
    found = plan.counts_rows(column.name)
    if found is None:
        raise TypeError("a sum of both signs is planned beside a count")
    return found


def sum_ends(
    plan: GroupPlan, column: GridColumn, bars: SampleBars, totals: FloatArray, counted: FloatArray | None
) -> Ends:
    """The least and largest sum of the table, in steps, by the sample's noisy sum; (groups,).

    Contributions of one sign bound their own sum of squares; for others the number of rows does.
    counted: as `rows_at_most` takes it, for values of both signs.
    """
    bounds, rows_each = column.bounds, plan.bounding.rows_per_group
    size, noise = max(abs(bounds.low_units), abs(bounds.high_units)), partial(_of_sum, plan, column)
    if bounds.low_units < 0 < bounds.high_units:
        if counted is None:
            raise TypeError("a sum of both signs needs a count")
        rows, times = rows_at_most(plan, column, bars, counted)
        return bars.signed(totals, noise, bars.off_by(times * float(size) ** 2 * rows, rows_each * size))
    sign = 1 if bounds.high_units > 0 else -1
    low, high = bars.totals(sign * totals, noise, most=rows_each * size)
    return (low, high) if sign > 0 else (-high, -low)


def _of_sum(plan: GroupPlan, column: GridColumn, confidence: float) -> float:
    return float(sum_half_width(plan, column, confidence))
