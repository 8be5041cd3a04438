"""From a question and what may be spent to a plan. Reads no row and no file."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from neartwin.accounting.targets import Approx, Pure, Target
from neartwin.checks import integer
from neartwin.errors import ParameterError, PrivacyError, QueryError
from neartwin.mechanisms.choice import PermuteAndFlip
from neartwin.mechanisms.geometric import Geometric
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.threshold import UnitThreshold
from neartwin.queries import sensitivity
from neartwin.queries.plan import Bounding, ChoicePlan, GroupPlan, Measure, Plan
from neartwin.queries.query import Count, CountUnits, Mean, MostCommon, Query, Sum, bounds_of
from neartwin.queries.sensitivity import Reach, Sensitivity
from neartwin.queries.stage import GridColumn, Stage
from neartwin.queries.table import RowUnit, Table

LARGEST_SCALE = 2**50  # of the exact samplers, in grid units


def plan(
    query: Query | MostCommon, *, spend: Target, rows_per_group: int | None = None, groups_per_unit: int | None = None
) -> Plan:
    """Decide everything that a release will do, and its price.

    rows_per_group, groups_per_unit: the most that one unit counts for; asked for wherever a unit could have more, and
    never guessed, for a bound too low loses data and one too high adds noise.

    Errors: `QueryError` for a bound that is missing, `PrivacyError` for what the spend cannot pay at all (unknown groups
    need a delta, and mechanisms here are pure: other currencies pay for them through their account).
    """
    if not isinstance(spend, Pure | Approx):
        raise PrivacyError(
            f"a plan cannot spend {spend} yet; spend pure(epsilon) or approx(epsilon, delta): an account of any kind prices "
            "them in its own currency"
        )
    match query:
        case Query():
            return _plan_groups(query, _bounding(query, rows_per_group, groups_per_unit), spend)
        case MostCommon():
            return _plan_choice(query, spend)
        case _:
            assert_never(query)


def _bounding(query: Query, rows_per_group: int | None, groups_per_unit: int | None) -> Bounding:
    keys = query.groups.keys
    if isinstance(query.table.unit, RowUnit):
        for name, value in (("rows_per_group", rows_per_group), ("groups_per_unit", groups_per_unit)):
            if value not in (None, 1):
                raise ParameterError(name, value, "must be 1 where each row is its own unit")
        return Bounding(rows_per_group=1, groups_per_unit=1)
    if rows_per_group is None:
        if not all(isinstance(aggregate, CountUnits) for aggregate in query.aggregates.values()):
            raise QueryError(_missing("rows_per_group", query, "how many rows of one unit may count in a group"))
        rows_per_group = 1
    if groups_per_unit is None:
        if keys is None or len(keys) > 1:
            raise QueryError(_missing("groups_per_unit", query, "how many groups one unit may count in"))
        groups_per_unit = 1
    integer(at_least=1, rows_per_group=rows_per_group)
    integer(at_least=1, groups_per_unit=groups_per_unit)
    return Bounding(
        rows_per_group=rows_per_group,
        groups_per_unit=groups_per_unit if keys is None else min(groups_per_unit, len(keys)),
    )


def _missing(name: str, query: Query, meaning: str) -> str:
    return (
        f"{name} is missing: say {meaning} (unit {query.table.unit_name!r}), for instance {name}=3; "
        "a low bound loses the data of heavy units, a high one adds noise"
    )


@dataclass(frozen=True, slots=True)
class _Draft:
    """Which measures a query needs, before the budget is split among them."""

    grid: Mapping[str, GridColumn]
    needed: Mapping[str, Sensitivity]


def _draft(query: Query, bounding: Bounding) -> _Draft:
    grid: dict[str, GridColumn] = {}
    needed: dict[str, Sensitivity] = {}
    table, keys = query.table, query.groups.keys
    reach = Reach(
        rows_per_group=bounding.rows_per_group,
        groups_per_unit=bounding.groups_per_unit,
        groups=None if keys is None else len(keys),
    )
    surely_once = isinstance(table.unit, RowUnit) and keys == ((),) and not query.groups.rows.conditions
    for aggregate in query.aggregates.values():
        match aggregate:
            case CountUnits():
                needed["units"] = sensitivity.of_units(table.neighbours, reach)
            case Count():
                needed["rows"] = sensitivity.of_count(table.neighbours, reach)
            case Sum() | Mean():
                column = grid_column(query, aggregate)
                grid[column.name] = column
                ends = {"low": column.low, "high": column.high}
                if surely_once and column.fill is not None:
                    needed[f"total:{column.name}"] = sensitivity.of_sure_sum(table.neighbours, **ends)
                else:
                    needed[f"total:{column.name}"] = sensitivity.of_sum(table.neighbours, reach, **ends)
                if isinstance(aggregate, Mean):
                    needed[f"filled:{column.name}"] = sensitivity.of_count(table.neighbours, reach)
            case _:
                assert_never(aggregate)
    return _Draft(grid, needed)


def grid_column(query: Query, aggregate: Sum | Mean) -> GridColumn:
    """The grid column behind a sum or mean.

    A mean alone is taken around the middle of its bounds, which halves the sensitivity of its total; where the sum of the
    same column is asked too, both share one total.
    """
    bounds = bounds_of(query.table, aggregate)
    summed = any(
        isinstance(other, Sum)
        and (other.column, other.fill, bounds_of(query.table, other)) == (aggregate.column, aggregate.fill, bounds)
        for other in query.aggregates.values()
    )
    centre = 0 if summed else (bounds.low_units + bounds.high_units) // 2
    fill = None if aggregate.fill is None else int(aggregate.fill / bounds.step) - centre
    name = f"{aggregate.column}[{bounds.low},{bounds.high},{bounds.step}]-{centre}"
    return GridColumn(name if fill is None else f"{name}?{fill}", aggregate.column, bounds, centre, fill)


def _plan_groups(query: Query, bounding: Bounding, spend: Pure | Approx) -> GroupPlan:
    table, keys = query.table, query.groups.keys
    draft = _draft(query, bounding)
    shares = len(draft.needed) + (keys is None)
    share = spend.epsilon / shares
    selection = None if keys is not None else _selection(table, bounding, share, spend)
    measures = {name: _measure(name, needed, share) for name, needed in draft.needed.items()}
    names = tuple(measures) if selection is None or "units" in measures else ("units", *measures)
    capped = not isinstance(table.unit, RowUnit) and (keys is None or bounding.groups_per_unit < len(keys))
    stage = Stage(
        table=table,
        conditions=query.groups.rows.conditions,
        group_columns=query.groups.columns,
        keys=keys,
        grid=draft.grid,
        measures=names,
        rows_per_group=bounding.rows_per_group,
        groups_per_unit=bounding.groups_per_unit if capped else None,
    )
    price: Target = Pure(spend.epsilon) if selection is None else Approx(spend.epsilon, selection.delta)
    return GroupPlan(
        query=query, bounding=bounding, spend=spend, price=price, stage=stage, measures=measures, selection=selection
    )


def _measure(name: str, needed: Sensitivity, epsilon: Fraction) -> Measure:
    mechanism = Geometric.calibrated(epsilon=epsilon, sensitivity=needed.l1)
    if mechanism.scale > LARGEST_SCALE:
        raise ParameterError(
            f"scale of {name}", float(mechanism.scale), "must be at most 2**50 grid steps", remedy="take a larger step"
        )
    return Measure(name=name, sensitivity=needed, mechanism=mechanism)


def _selection(table: Table, bounding: Bounding, epsilon: Fraction, spend: Pure | Approx) -> UnitThreshold:
    match spend:
        case Approx(delta=delta):
            reach = Reach(rows_per_group=1, groups_per_unit=bounding.groups_per_unit, groups=None)
            units = sensitivity.of_units(table.neighbours, reach)
            return UnitThreshold.calibrated(
                epsilon=epsilon, delta=delta, sensitivity=units.l1, groups_per_unit=bounding.groups_per_unit
            )
        case Pure():
            raise PrivacyError(
                "discovering unknown groups cannot be paid with epsilon alone: which groups exist is private, and finding "
                "out needs a delta; give public keys=, or spend approx(epsilon, delta)"
            )
        case _:
            assert_never(spend)


def _plan_choice(query: MostCommon, spend: Pure | Approx) -> ChoicePlan:
    table = query.table
    monotone = table.neighbours is Neighbours.ADD_REMOVE
    if monotone:
        why = (
            "one unit raises counts by at most 1, all in one direction, however many it is in: no factor m, no factor 2"
        )
    else:
        why = "replacing a unit can raise one count and lower another by 1: the gap moves by 2"
    stage = Stage(
        table=table,
        conditions=query.rows.conditions,
        group_columns=(query.column,),
        keys=query.among,
        grid={},
        measures=("units",),
        rows_per_group=1,
        groups_per_unit=None,
    )
    return ChoicePlan(
        query=query,
        spend=spend,
        price=Pure(spend.epsilon),
        stage=stage,
        mechanism=PermuteAndFlip.calibrated(epsilon=spend.epsilon, sensitivity=1, monotone=monotone),
        why=why,
    )
