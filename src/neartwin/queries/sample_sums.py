"""How far a sum of the whole table can be, by noisy numbers of a sample of its units: of releases and of what is expected."""

from neartwin.exact import FloatArray
from neartwin.queries.measuring import filled_measure
from neartwin.queries.plan import GroupPlan, Measure
from neartwin.queries.sample_bars import Ends, SampleBars
from neartwin.queries.sample_noise import Noise, noise_of
from neartwin.queries.stage import GridColumn
from neartwin.queries.sum_bars import sum_half_width

COUNT = 0.01  # of what may fail, for the number of rows


def measured_noise(measure: Measure) -> Noise:
    """Of a measure, in steps."""
    return noise_of([(measure.mechanism.law, 1 / measure.parts)], lambda it: float(measure.half_width(it)))


def counter(plan: GroupPlan, column: GridColumn) -> tuple[Measure, int]:
    """The measure N that counts the rows of a column (or their units), and m with sum n_u^2 <= m N: see `plan.counts_rows`."""
    found = plan.counts_rows(column.name)
    if found is None:
        raise TypeError("a sum of both signs is planned beside a count")
    return found


def rows_at_most(plan: GroupPlan, column: GridColumn, bars: SampleBars, counted: FloatArray) -> FloatArray:
    """(groups,) at most how many rows of the table have a value. counted: the sample's noisy number, of what `counter` names."""
    measure, _ = counter(plan, column)
    rows_each = plan.bounding.rows_per_group
    if measure.name == "units":
        return rows_each * bars.number(counted, measured_noise(measure), most=1)
    return bars.number(counted, measured_noise(measure), most=rows_each)


def sum_ends(
    plan: GroupPlan, column: GridColumn, bars: SampleBars, totals: FloatArray, counted: FloatArray | None
) -> Ends:
    """The least and largest sum of the table, in steps, by the sample's noisy sum; (groups,).

    counted: as `rows_at_most` takes it, for values of both signs, which say nothing of how many there are.
    """
    bounds, rows_each = column.bounds, plan.bounding.rows_per_group
    low, high = bounds.low_units, bounds.high_units
    noise = _of_sum(plan, column)
    if low < 0 < high:
        if counted is None:
            raise TypeError("a sum of both signs needs a count")
        rows = rows_at_most(plan, column, bars.part(COUNT), counted)
        return bars.part(1 - COUNT).signed(totals, noise, rows, most=rows_each, values=(low, high))
    sign = 1 if high > 0 else -1
    least, largest = bars.totals(sign * totals, noise, most=rows_each * max(abs(low), abs(high)))
    return (least, largest) if sign > 0 else (-largest, -least)


def _of_sum(plan: GroupPlan, column: GridColumn) -> Noise:
    """Of a column's sum, in steps: that of its total and, where values are counted around a middle, of their number."""
    total = plan.measures[f"total:{column.name}"]
    parts = [(total.mechanism.law, 1 / total.parts)]
    if column.centre:
        number = plan.measures[filled_measure(column, plan.bounding)]
        parts.append((number.mechanism.law, column.centre / number.parts))
    return noise_of(parts, lambda confidence: float(sum_half_width(plan, column, confidence)))
