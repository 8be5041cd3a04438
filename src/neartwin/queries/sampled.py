"""Plans that are asked about a secret Poisson sample of units: planned for what they may spend there, and priced as sampled.

Every stage of a plan is asked about one sample, drawn for its release and no other: so the plan on the sample is one mechanism,
and `neartwin.accounting.sampled_plans` prices it. Statistics of the table itself: `neartwin.queries.sample_bars`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from neartwin.accounting.sampled_plans import of_sampled, on_sample
from neartwin.accounting.targets import Target
from neartwin.errors import ParameterError, PrivacyError, QueryError
from neartwin.exact import Number
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.queries.bounded import bounded_plan
from neartwin.queries.histograms import Histogram
from neartwin.queries.measuring import grid_column
from neartwin.queries.plan import GroupPlan, Sampled
from neartwin.queries.quantiles import Extreme, Quantile
from neartwin.queries.query import MostCommon, Query
from neartwin.queries.sample import read_rate
from neartwin.queries.statistics import Count, CountUnits, Mean, Sum
from neartwin.queries.table import RowUnit
from neartwin.queries.tuned import Tuned

_SINGLE = {
    "units_together": "group privacy of a sampled plan has no theorem here",
    "value_range": "bounds chosen by a first stage would need the same sample",
    "rows_per_unit": "bars of a sampled table need rows_per_group and groups_per_unit",
    "norm_per_unit": "bars of a sampled table need rows_per_group and groups_per_unit",
}


def sampled_plan(
    query: Query | MostCommon, *, spend: Target, sampling_rate: Number, limits: Mapping[str, Any]
) -> GroupPlan:
    """The plan on a sample, priced at the spend. limits: what else `plan` takes.

    Errors: `ParameterError` for a rate that is none and for what cannot stand beside it, `QueryError` for a question whose answer
    on a sample says too little of the table, `PrivacyError` where no theorem amplifies.
    """
    rate = read_rate(sampling_rate)
    for name, why in _SINGLE.items():
        if limits[name] != (1 if name == "units_together" else None):
            raise ParameterError(name, limits[name], f"cannot stand beside sampling_rate: {why}")
    kept = {name: value for name, value in limits.items() if name not in _SINGLE}
    for name, value in kept.items():
        if isinstance(value, Tuned):
            raise ParameterError(name, "tuned()", "cannot stand beside sampling_rate: give the bound")
    asked = _checked(query)
    inner = on_sample(spend, rate, fails=asked.groups.keys is None)
    made = bounded_plan(asked, spend=inner, **kept)
    if not isinstance(made, GroupPlan):
        raise TypeError("a question for groups has a plan for groups")
    for name, aggregate in asked.aggregates.items():
        if isinstance(aggregate, Sum):
            _proven(made, name, aggregate)
    return replace(
        made,
        spend=spend,
        price=of_sampled(made.price, spend, rate),
        stage=replace(made.stage, sampling_rate=rate),
        splits={
            name: replace(split, stage=replace(split.stage, sampling_rate=rate)) for name, split in made.splits.items()
        },
        sampled=Sampled(rate, made.price),
    )


def _checked(query: Query | MostCommon) -> Query:
    """The question, if it can be asked of a sample."""
    table = query.table
    if table.neighbours is not Neighbours.ADD_REMOVE:
        raise PrivacyError(
            "sampling_rate: a sample of units tells less of adding or removing one, and these neighbours replace one; open the "
            "table with neighbours='add_remove', or leave sampling_rate out"
        )
    if isinstance(table.unit, RowUnit):
        raise QueryError(
            "sampling_rate: a secret keeps units by their names, and where each row is its own unit it has none; name the unit's "
            "column with unit="
        )
    if not isinstance(query, Query) or query.groups.margins or query.groups.asked is not None:
        raise QueryError("sampling_rate is for counts, sums, means, quantiles and histograms, in groups or of all rows")
    for name, aggregate in query.aggregates.items():
        if isinstance(aggregate, Extreme):
            raise QueryError(f"{name} = {aggregate}: a sample's extremes are not the table's; leave sampling_rate out")
        if not isinstance(aggregate, Count | CountUnits | Sum | Mean | Quantile | Histogram):
            raise QueryError(
                f"{name} = {aggregate} has no proven bar on a sample; ask for counts, sums and means, or leave sampling_rate out"
            )
    return query


def _proven(plan: GroupPlan, name: str, aggregate: Sum) -> None:
    """`QueryError` for a sum whose error of sampling nothing in the release bounds."""
    column = grid_column(plan.query, aggregate)
    if column.low < 0 < column.high and plan.counts_rows(column.name) is None:
        raise QueryError(
            f"{name} = {aggregate} may be of both signs, so the sum of a sample does not tell how much was left out; ask for "
            "count() beside it, or for the mean"
        )
