"""Statistics of the table from noisy numbers of a sample of its units: counts and sums divided by the rate, the rest as it is.

A bar holds for the bounded statistic of the whole table. Its chance to fail, 1 - confidence, is shared by the noise and the
sample, whose errors are bounded together: `neartwin.queries.sample_bars` says how far they can be off.
"""

from neartwin.exact import FloatArray
from neartwin.mechanisms.ranks import Ranks, Reach
from neartwin.queries.histograms import Histogram
from neartwin.queries.measuring import count_measure, filled_measure, grid_column
from neartwin.queries.plan import GroupPlan, Measure
from neartwin.queries.quantiles import Quantile
from neartwin.queries.sample_bars import Ends, SampleBars
from neartwin.queries.sample_mean_ends import SampledMean
from neartwin.queries.sample_ranks import table_reach
from neartwin.queries.sample_sums import counter, measured_noise, sum_ends
from neartwin.queries.stage import GridColumn
from neartwin.queries.statistics import Aggregate, Count, CountUnits, Mean, Sum
from neartwin.queries.trees import cell_measure, histogram_column
from neartwin.releases.estimates import Noisy, Reaches, Trees, mean_within, of_order, with_bar
from neartwin.releases.release import Statistic


def sampled_statistics(plan: GroupPlan, noisy: Noisy, trees: Trees, confidence: float) -> tuple[Statistic, ...]:
    """Every statistic of every group, as `statistics.statistics_of` has them, for the table that the sample was drawn from."""
    found: list[Statistic] = []
    for name, aggregate in plan.outputs.items():
        match aggregate:
            case Count() | CountUnits():
                measure = plan.measures[count_measure(plan.query, aggregate, plan.bounding)]
                most = 1 if measure.name == "units" else plan.bounding.rows_per_group
                values, ends = _counted(plan, measure, noisy[measure.name].astype(float), most, confidence)
                found.append(_of(name, aggregate, values, ends))
            case Histogram():
                measure = plan.measures[cell_measure(histogram_column(plan.query, aggregate))]
                (leaves,) = trees[measure.name]
                most = plan.bounding.rows_per_group
                values, ends = _counted(plan, measure, leaves.astype(float).ravel() / measure.parts, most, confidence)
                found.append(_of("count", aggregate, values, ends))
            case Sum():
                column = grid_column(plan.query, aggregate)
                values, ends = _summed(plan, column, noisy, confidence)
                step = float(column.bounds.step)
                found.append(_of(name, aggregate, values * step, (ends[0] * step, ends[1] * step)))
            case Mean():
                found.append(_mean(plan, name, aggregate, noisy, confidence))
            case Quantile():
                found += of_order(plan, name, aggregate, trees, confidence, reach=_ranked(plan, confidence))
            case _:
                raise TypeError(f"{aggregate} is not asked of a sample")
    return tuple(found)


def _of(name: str, aggregate: Aggregate, values: FloatArray, ends: Ends) -> Statistic:
    return with_bar(name, aggregate, *(part.tolist() for part in (values, *ends)))


def _bars(plan: GroupPlan, confidence: float) -> SampleBars:
    if plan.sampled is None:
        raise TypeError("this plan is not sampled")
    return SampleBars(float(plan.sampled.rate), 1 - confidence)


def _counted(
    plan: GroupPlan, measure: Measure, noisy: FloatArray, most: int, confidence: float
) -> tuple[FloatArray, Ends]:
    bars = _bars(plan, confidence)
    return noisy / bars.rate, bars.totals(noisy, measured_noise(measure), most=most)


def _summed(plan: GroupPlan, column: GridColumn, noisy: Noisy, confidence: float) -> tuple[FloatArray, Ends]:
    """In steps."""
    bars, totals = _bars(plan, confidence), noisy[f"total:{column.name}"].astype(float)
    if column.centre:  # the total is of values less it
        totals = totals + column.centre * noisy[filled_measure(column, plan.bounding)].astype(float)
    both = column.bounds.low_units < 0 < column.bounds.high_units
    return totals / bars.rate, sum_ends(plan, column, bars, totals, _counts(plan, column, noisy) if both else None)


def _counts(plan: GroupPlan, column: GridColumn, noisy: Noisy) -> FloatArray:
    counts: FloatArray = noisy[counter(plan, column)[0].name].astype(float)
    return counts


def _mean(plan: GroupPlan, name: str, aggregate: Mean, noisy: Noisy, confidence: float) -> Statistic:
    """See `neartwin.queries.sample_mean_ends`."""
    bars, column = _bars(plan, confidence), grid_column(plan.query, aggregate)
    names = f"total:{column.name}", filled_measure(column, plan.bounding)
    totals, counts = (noisy[it].astype(float) / plan.measures[it].parts for it in names)
    ends = SampledMean(plan, column, names, bars).ends(totals, counts, _counts(plan, column, noisy))
    return mean_within(name, aggregate, column, (totals, counts), ends)


def _ranked(plan: GroupPlan, confidence: float) -> Reaches:
    """See `neartwin.queries.sample_ranks`."""
    most, bars = plan.bounding.rows_per_group, _bars(plan, confidence)
    parts = max(split.stage.parts for split in plan.splits.values())  # of a row, the same for all

    def reach(ranks: Ranks, split: tuple[FloatArray, FloatArray], rank: float) -> Reach:
        return table_reach(ranks, rank, split[1][:, 0] / parts, bars, most=most, parts=parts)

    return reach
