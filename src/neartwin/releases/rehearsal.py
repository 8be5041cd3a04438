"""A question on a stand-in: public or synthetic rows of the same columns, with the planned noise and bounds.

It shows the loss from bounding and the share of unknown groups found, on data that look like the private ones. No
preview of a plan can show these. Nothing is spent and no private row is read. The stand-in's rows are read without any
guarantee.
"""

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import neartwin.ledger as books
from neartwin.accounting.budgets import Pure
from neartwin.checks import integer
from neartwin.engines.engine_for import engine_for
from neartwin.errors import PrivacyError, QueryError, SchemaError
from neartwin.interactive import shown_as_text
from neartwin.planning.contribution_bounds import ContributionBounds
from neartwin.planning.limits import Limits
from neartwin.planning.plan import Plan
from neartwin.planning.planner import plan as make_plan
from neartwin.planning.spending import share_of
from neartwin.planning.stage import Engine
from neartwin.queries.query import Query, TopK
from neartwin.releases.preparation import prepare
from neartwin.releases.release import Release
from neartwin.releases.run import run
from neartwin.tables.joins import OtherTable
from neartwin.tables.sources import places_of, same_rows
from neartwin.tables.table import JoinKind, RowUnit, Table
from neartwin.tables.types import Key

_LIBRARY = __name__.partition(".")[0]
_MUCH = 2**20  # rows and groups of a unit: bounds that never bind
_SURE = Pure(Fraction(10**12))  # a spend whose noise is 0
_MOST_GROUPS = 100_000
PUBLIC = "On stand-in rows, which anyone may know: no guarantee is needed, and none is given. Private rows will differ."


@dataclass(frozen=True, slots=True, kw_only=True)
class StandInError:
    """Mean absolute errors of a statistic over groups and runs, in its own unit. Values are clipped in all.

    Attributes:
        name: The statistic.
        noise: The error against the bounded rows.
        bounding: The error of the bounded rows against all rows.
        total: The error against all rows.
    """

    name: str
    noise: float
    bounding: float
    total: float


@shown_as_text
@dataclass(frozen=True, slots=True, kw_only=True)
class StandInPreview:
    """The errors of a release on a stand-in.

    Attributes:
        errors: The error of each statistic.
        groups: The number of groups of the stand-in.
        discovered: The share of these groups, or of winners, that were found.
        runs: The number of trial releases.
    """

    errors: tuple[StandInError, ...]
    groups: int
    discovered: float
    runs: int

    def __str__(self) -> str:
        lines = [f"{PUBLIC} ({self.runs} runs)", f"groups: {self.groups:,}, of which {self.discovered:.1%} were found"]
        lines += [
            f"{error.name}: off by {error.total:.4g} on average; noise {error.noise:.4g}, bounding {error.bounding:.4g}"
            for error in self.errors
        ]
        return "\n".join(lines)


def preview_on(
    plan: Plan, standin: OtherTable, *, require_public: Callable[[Iterable[str]], None], runs: int = 3
) -> StandInPreview:
    """Run a plan's question on public rows.

    Args:
        plan: The plan.
        standin: The rows, with the private table's columns: `nt.public_table(...)`.
        require_public: A function that refuses places of private rows.
        runs: The number of trial releases.

    Returns:
        The errors of each statistic.

    Raises:
        PrivacyError: The stand-in was not declared public, or is the private table itself.
        SchemaError: A column is missing or of another type.
        QueryError: The question is about joined tables, or no group meets its conditions.
    """
    integer(at_least=1, runs=runs)
    table = _table(plan.stage.table, standin)
    require_public(places_of(standin.source))
    moved: Plan = _moved(plan, table)
    engine = engine_for(table.source)
    noisy = [_released(moved, engine) for _ in range(runs)]
    query = _with_keys(moved, engine)
    bounded = _released(_sure(query, moved.bounding), engine)
    unbounded = bounded if moved.bounding is None else _released(_sure(query, None), engine)
    return StandInPreview(
        errors=tuple(_errors(name, noisy, bounded, unbounded) for name in [one.name for one in bounded.statistics]),
        groups=len(unbounded),
        discovered=float(np.mean([len(set(one.keys) & set(unbounded.keys)) for one in noisy])) / max(1, len(unbounded)),
        runs=runs,
    )


def _table(table: Table, standin: OtherTable) -> Table:
    if table.joins or table.per_unit is not None:
        raise QueryError(
            "a stand-in is one table, and joined tables and subqueries are not supported: join the stand-in's rows beforehand"
        )
    if getattr(standin, "kind", None) is not JoinKind.PUBLIC:
        raise PrivacyError(
            "standin= is read without any guarantee, so its rows must be declared public: "
            "preview_on(nt.public_table(...)), with types= where the private table declares them"
        )
    if same_rows(standin.source, table.source):
        raise PrivacyError(
            "standin= is the private table itself, whose rows are read by paid releases alone; give public rows"
        )
    for name, kind in table.schema.items():
        if name in table.computed:
            continue
        if standin.schema.get(name, kind) is not kind or (name == table.unit and name not in standin.schema):
            found = standin.schema.get(name, "missing")
            raise SchemaError(f"standin: {name!r} is {found}, and {kind} in the private table")
    return replace(table, source=standin.source, declared=standin.declared)


def _moved(value: Any, table: Table) -> Any:
    """The value with this table in every place of a table."""
    if isinstance(value, Table):
        return table
    if isinstance(value, tuple):
        return tuple(_moved(part, table) for part in value)
    if isinstance(value, Mapping):
        return MappingProxyType({name: _moved(part, table) for name, part in value.items()})
    if is_dataclass(value) and not isinstance(value, type) and _of_plans(value):
        moved = {field.name: _moved(getattr(value, field.name), table) for field in fields(value) if field.init}
        return replace(value, **{name: part for name, part in moved.items() if part is not getattr(value, name)})
    return value


def _of_plans(value: object) -> bool:
    """Whether a value is of this library, apart from mechanisms. Those are large and hold no table, so they stay."""
    room = type(value).__module__.split(".")[:2]
    return room[0] == _LIBRARY and room[1] != "mechanisms"


def _with_keys(plan: Plan, engine: Engine) -> Query | TopK:
    """The question over the stand-in's own groups if it discovers groups: they are public."""
    query = plan.query
    if isinstance(query, TopK) or query.groups.keys is not None:
        return query
    stage = replace(plan.stage, discovery_groups=None)
    keys: tuple[Key, ...] = tuple(engine.aggregate(stage, salt=1).keys)[:_MOST_GROUPS]
    if not keys:
        raise QueryError("the stand-in has no group that meets the question's conditions")
    return replace(query, groups=replace(query.groups, keys=keys))


def _sure(query: Query | TopK, bounds: ContributionBounds | None) -> Plan:
    """The plan without noise, within these bounds, or without any."""
    if isinstance(query, TopK) or isinstance(query.table.unit, RowUnit):
        return make_plan(query, spend=_SURE)
    if bounds is None:
        limits = Limits(max_rows_per_group=_MUCH, max_groups=_MUCH)
    elif bounds.norm is not None:
        limits = Limits(norm=bounds.norm)
    else:
        units = all(statistic.counts_units for statistic in query.aggregates.values())
        rows = None if units else bounds.rows
        limits = Limits(max_rows_per_group=bounds.max_rows_per_group, max_groups=bounds.max_groups, rows=rows)
    return make_plan(query, spend=_SURE, limits=limits)


def _released(plan: Plan, engine: Engine) -> Release:
    """A release of public rows from a temporary ledger."""
    table = plan.stage.table
    with tempfile.TemporaryDirectory() as folder, closing(books.Book(Path(folder) / "standin.db")) as ledger:
        unit = books.Population(name=table.name, unit=table.unit_name, relation=table.neighbours.value, source="")
        return run(
            ledger.open(unit, share_of(plan.price, Fraction(2), delta=Fraction(1, 2))), prepare(plan), engine=engine
        )


def _errors(name: str, noisy: list[Release], bounded: Release, unbounded: Release) -> StandInError:
    def values(release: Release) -> dict[Key, float]:
        return dict(zip(release.keys, release[name].values, strict=True))

    limited, full = values(bounded), values(unbounded)
    off, lost, total = [], [], []
    for release in noisy:
        for key, value in values(release).items():
            if key in limited and key in full:
                off.append(abs(value - limited[key]))
                lost.append(abs(limited[key] - full[key]))
                total.append(abs(value - full[key]))
    noise, bounding, whole_error = (float(np.mean(part)) if part else math.nan for part in (off, lost, total))
    return StandInError(name=name, noise=noise, bounding=bounding, total=whole_error)
