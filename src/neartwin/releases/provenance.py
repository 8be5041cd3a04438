"""How an answer was made, as data: what was asked, bounds and who gave them, mechanisms and scales, expected errors.

It is taken from the plan alone, when the release is made, and stored with it, so that a certificate can be written years
later by who has no longer the plan. Whatever mechanism a plan holds is found by walking it: a new kind of plan needs no
line here.

What a reader of a release must know of its bars, bounds and units: words that follow from the plan alone.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, assert_never

import numpy as np

from neartwin import mechanisms
from neartwin.planning.contribution_bounds import ContributionBounds
from neartwin.planning.expected_errors import expected_errors
from neartwin.planning.explain import explain
from neartwin.planning.plan import (
    GroupPlan,
    MarginalPlan,
    Pilot,
    Plan,
    Ranging,
    TopKPlan,
    WorkloadPlan,
)
from neartwin.queries.groups import named
from neartwin.releases.estimates import WHOLE_TABLE
from neartwin.releases.noising import CONFIDENCE
from neartwin.tables.table import Bounds, Table

LIBRARY = __name__.partition(".")[0]
_NOT_MECHANISMS = {"query", "stage", "spend", "price", "sensitivity", "design", "resolved", "bars"}
_FOLLOWS = {"gram", "h"}  # of a strategy, from its table


def method_of(plan: Plan, confidence: float) -> dict[str, Any]:
    """The method of a plan, ready for JSON: text, whole numbers, lists and mappings, amounts exact as text."""
    return {
        "question": _question(plan),
        "bounds": _bounds(plan),
        "mechanisms": [_mechanism(name, found) for name, found in _mechanisms(plan, "")],
        "errors": [
            {
                "name": error.name,
                "confidence": str(error.confidence),
                "half_width": None if error.half_width is None else str(error.half_width),
                "says": error.says,
            }
            for error in expected_errors(plan, confidence=confidence)
        ],
        "code": {"library": "neartwin", "version": library_version(), "digest": code_digest()},
    }


@dataclass(frozen=True, slots=True)
class Description:
    """All that is said of a plan. It follows from the plan alone, so it is written before anything is spent.

    Attributes:
        notes: What a reader of the release must know, one sentence or two each.
        explanation: The whole plan as a tree in text.
        method: The same as data, ready for JSON: question, bounds, mechanisms, expected errors, code.
    """

    notes: tuple[str, ...]
    explanation: str
    method: Mapping[str, Any]


def describe(plan: Plan, confidence: float = CONFIDENCE) -> Description:
    """Write all that is said of a plan."""
    return Description(notes_of(plan), str(explain(plan)), method_of(plan, confidence))


def method_after_pilot(pilot: Pilot, method: Mapping[str, Any]) -> dict[str, Any]:
    """The method of what was asked at the bounds that a private pilot chose, the pilot's own noise among it."""
    limits = {"max_rows_per_group": pilot.rows, "max_groups": pilot.groups, "norm": pilot.norm}
    bounds = []
    for bound in method["bounds"]:
        limit = limits.get(bound["what"])
        tuned = limit and {"origin": f"chosen by a private pilot that was paid for, at most {limit.at_most}"}
        bounds.append(bound | (tuned or {}))
    pilot_noise = _mechanism("pilot that chose bounds", pilot.mechanism)
    return {**method, "bounds": bounds, "mechanisms": [*method["mechanisms"], pilot_noise]}


def method_after_ranging(ranging: Ranging, method: Mapping[str, Any]) -> dict[str, Any]:
    """The method of what was asked at clip bounds that private first stages chose, their own noise among it."""
    tuned = "chosen by private first stages that were paid for, within the declared bounds"
    asked = method["question"]["statistics"]
    bounds = [
        bound | {"origin": tuned}
        if asked.get(bound["what"].partition(": ")[0], "").startswith(("sum(", "mean("))
        else bound
        for bound in method["bounds"]
    ]
    found = [_mechanism(f"first stage: {name}", one) for part in ranging.asked for name, one in _mechanisms(part, "")]
    return {**method, "bounds": bounds, "mechanisms": [*method["mechanisms"], *found]}


@lru_cache(maxsize=1)
def library_version() -> str:
    """The installed version, looked up once: the look-up reads the package's files."""
    return version("neartwin")


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 over this library's own modules, names and contents, so that a certificate says which code it speaks of."""
    root = Path(__file__).parents[1]
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        whole.update(f"{path.relative_to(root).as_posix()}\0".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def _question(plan: Plan) -> dict[str, Any]:
    stage = plan.stage
    if isinstance(plan, TopKPlan):
        asked = {"most common": plan.query.column}
    else:
        asked = {name: str(aggregate) for name, aggregate in plan.outputs.items()}
    return {
        "table": stage.table.name,
        "joins": [str(join) for join in stage.table.joins],
        "conditions": [condition.text for condition in stage.conditions],
        "group_columns": list(stage.group_columns),
        "computed": {name: expression.text for name, expression in sorted(stage.table.computed.items())},
        "keys": _keys(plan),
        "statistics": asked,
    } | _over(plan)


def _over(plan: Plan) -> dict[str, Any]:
    """What is asked over the groups in place of them: a workload, with the digest of its record, or margins."""
    match plan:
        case WorkloadPlan() if plan.query.groups.asked is not None:
            asked = plan.query.groups.asked
            record = json.dumps(asked.record(), sort_keys=True).encode()
            return {"workload": str(asked), "workload_sha256": hashlib.sha256(record).hexdigest()}
        case MarginalPlan():
            columns = plan.query.groups.columns
            return {"margins": [named(columns, margin) for margin in plan.query.groups.margins]}
        case _:
            return {}


def _keys(plan: Plan) -> str:
    keys = plan.stage.keys
    if keys is None:
        return "discovered privately, their failure probability charged"
    return "one group: all rows" if keys == ((),) else f"{len(keys)} public keys"


def _bounds(plan: Plan) -> list[dict[str, str]]:
    """Each bound that limits one unit, with its origin."""
    stage = plan.stage
    given = "public: given with the question"
    if isinstance(plan, TopKPlan):
        return [{"what": "rows of one unit for each value", "value": "1", "origin": "the mechanism counts units"}]
    if stage.table.unit_name == "(each row)":
        found = [{"what": "max_rows_per_group", "value": "1", "origin": "each row is its own unit"}]
    else:
        normed = plan.bounding.norm is not None
        names = ("norm",) if normed else ("max_rows_per_group", "max_groups")
        caps = {name: getattr(plan.bounding, name) for name in names}
        found = [{"what": name, "value": str(value), "origin": given} for name, value in caps.items()]
    for name, aggregate in plan.outputs.items():
        for column, bounds in aggregate.clip_bounds(stage.table).items():
            origin = _origin(stage.table, column, getattr(aggregate, "bounds", None))
            found.append({"what": f"{name}: {column}", "value": str(bounds), "origin": origin})
    return found


def _origin(table: Table, column: str, given: Bounds | None) -> str:
    if given is None and column not in table.columns:
        return "follows from the declared bounds of each column in it"
    if given is None or given == table.columns.get(column):
        return "declared: by the data's owner, with the table"
    return "public: given with the question"


def _mechanisms(value: object, name: str) -> Iterator[tuple[str, object]]:
    """Every mechanism that a plan holds, with the name of its place."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _mechanisms(part, str(key))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _mechanisms(part, name)
    elif is_dataclass(value) and not isinstance(value, type):
        if within(mechanisms.__name__, value):
            yield name, value
        elif within(LIBRARY, value):
            for field in fields(value):
                if field.name not in _NOT_MECHANISMS:
                    part = getattr(value, field.name)
                    yield from _mechanisms(part, name if field.name == "mechanism" else name or field.name)


def within(package: str, value: object) -> bool:
    """Whether a package defines the class of a value.

    >>> from fractions import Fraction
    >>> within("fractions", Fraction(1, 2)), within("fraction", Fraction(1, 2))
    (True, False)
    """
    return f"{type(value).__module__}.".startswith(f"{package}.")


def _mechanism(place: str, mechanism: Any) -> dict[str, Any]:
    """A mechanism by its class and its parameters, those of mechanisms within it included."""
    parameters: dict[str, str] = {}
    for field in fields(mechanism):
        part = getattr(mechanism, field.name)
        if is_dataclass(part) and not isinstance(part, type):
            inner = _mechanism("", part)
            parameters |= {f"{field.name}.{name}": text for name, text in inner["parameters"].items()}
            parameters[field.name] = inner["law"]
        elif isinstance(part, np.ndarray):
            if field.name not in _FOLLOWS:
                digest = hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest()
                parameters[field.name] = f"{' x '.join(map(str, part.shape))} {part.dtype}, sha256 {digest}"
        else:
            parameters[field.name] = str(part) if len(str(part)) <= 200 else f"{str(part)[:190]}..."
    return {"for": place or "answer", "law": type(mechanism).__name__, "parameters": parameters}


_WORKLOAD = (
    "All answers are sums of one estimate of the groups: sums over equal groups are equal. Rows outside the public keys are "
    "in none. Single answers may be negative or no whole numbers."
)


def notes_of(plan: Plan) -> tuple[str, ...]:
    """What a reader of the release must know."""
    match plan:
        case TopKPlan():
            return (_of_choice(plan), *_of_together(plan))
        case MarginalPlan():
            return (*_of_bounding(plan), WHOLE_TABLE, *_of_together(plan))
        case WorkloadPlan():
            return (*_of_bounding(plan), _WORKLOAD, *_of_together(plan))
        case GroupPlan():
            return _of_groups(plan)
        case _:
            assert_never(plan)


def _of_choice(plan: TopKPlan) -> str:
    if plan.counts is None:
        return "Only the winner is released. Its count and the runners-up are not; asking for them costs more."
    return (
        f"Each count has fresh noise, and its bar holds with probability at least {CONFIDENCE:.0%}; which values won was decided "
        "with other noise."
    )


def _of_groups(plan: GroupPlan) -> tuple[str, ...]:
    notes = [*_of_bounding(plan)]
    for split in plan.splits.values():
        (column,) = split.stage.grid.values()
        if plan.histogram is not None:
            notes.append(
                "Values outside all bins are left out. A unit with more rows counts for the most allowed, over all bins."
            )
            continue
        notes.append(
            f"Quantiles of {column.column} lie on a grid with steps of {float(column.bounds.step):g}; a unit with more rows "
            "counts for the most allowed, each of its values for an equal part. A minimum or maximum is what values certainly "
            "reach: some may lie beyond."
        )
    notes += _of_together(plan)
    if plan.selection is not None:
        notes.append("Groups were discovered privately: small ones are missing. The bars use noise separate from that.")
    return tuple(notes)


def _of_together(plan: Plan) -> list[str]:
    """What one unit alone is promised, where several together are."""
    together = plan.together
    if together is None:
        return []
    note = f"The guarantee is for up to {together.units} units changed together"
    return [f"{note}; one alone has {plan.price}, and that is what the account was charged."]


def _bounded(bounding: ContributionBounds) -> str:
    if bounding.norm is not None:
        return (
            "a unit's whole vector of contributions, over groups and statistics, is scaled down to a norm of "
            f"{float(bounding.norm):g} rows; no row is dropped"
        )
    total = "" if bounding.rows is None else f", for {bounding.rows} rows in all"
    return (
        f"a unit counts for at most {bounding.max_rows_per_group} rows in a group and in at most "
        f"{bounding.max_groups} groups{total}"
    )


def _of_bounding(plan: GroupPlan | MarginalPlan | WorkloadPlan) -> tuple[str, ...]:
    """What a reader must know of bars, bounds and units."""
    bounding = plan.bounding
    notes = [f"Each bar holds alone with probability at least {CONFIDENCE:.0%}, around the bounded statistic."]
    if isinstance(plan.stage.table.unit, str):
        notes.append(
            f"Bounded: {_bounded(bounding)}. The bias of this and of clipping is not in the bars, and unknown."
        )
        if plan.stage.table.period is not None:
            notes.append(
                f"Protected is one {plan.stage.table.unit_name}: someone with rows in m of them is protected as a group of m."
            )
    else:
        notes.append("Each row is protected as its own unit: people with several rows are protected less.")
    return tuple(notes)
