"""The canonical form behind a plan's digest: its effect, whatever the question's wording.

A digest decides whether a question was paid for, so its words never change. `TARGETS`, `JOINS`, `LIMITS`, and the
`record` of each statistic and mechanism hold them. A class, parameter or printed word may be renamed; its record keeps
the old one. New kinds get new lines.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from neartwin.accounting.budgets import Approx, Budget, Gdp, Mixed, Pure, Rdp, Zcdp
from neartwin.exact import Number
from neartwin.planning.limits import Limits, PrivateLimit
from neartwin.planning.stage import Stage
from neartwin.tables.table import How, Join, JoinKind, PerUnit
from neartwin.tables.types import ColumnType, json_object

RECORD_VERSION = 1  # of the canonical form; a new meaning takes a new number
TARGETS: Mapping[type, tuple[tuple[str, str], ...]] = {  # word, field; a delta of 0 is omitted, except in Approx
    Pure: (("epsilon", "epsilon"),),
    Approx: (("epsilon", "epsilon"), ("delta", "delta")),
    Zcdp: (("rho", "rho"), ("delta", "delta")),
    Rdp: (("order", "order"), ("epsilon", "epsilon"), ("delta", "delta")),
    Gdp: (("mu", "mu"), ("delta", "delta")),
    Mixed: (("epsilon", "epsilon"), ("mu", "mu"), ("delta", "delta")),
}
JOINS = {
    JoinKind.PUBLIC: "public",
    JoinKind.SAME_UNIT: "rows of the same unit",
    JoinKind.OWNED: "rows owned through their key",
    How.INNER: "inner",
    How.LEFT: "left",
    How.BESIDE: "beside",
}
LIMITS = {  # word of each limit, in the order of digests; None: the importance of statistics
    "max_rows_per_group": "rows_per_group",
    "max_groups": "groups_per_unit",
    None: "weights",
    "rows": "rows_per_unit",
    "norm": "norm_per_unit",
    "values": "values_per_unit",
    "max_discovered_groups": "discovery_groups",
    "loss_share": "share of the loss",
}


def digest_of(kind: str, stage: Stage, more: Mapping[str, object]) -> str:
    """The SHA-256 of a plan of this kind.

    Args:
        kind: The kind of plan.
        stage: The exact question.
        more: Everything else that decides the answer, as JSON data.

    Returns:
        64 hexadecimal digits.
    """
    table = stage.table
    grid = {
        name: [column.written, *map(str, (column.bounds.low, column.bounds.high, column.bounds.step, column.centre))]
        for name, column in stage.grid.items()
    }
    form = {
        "version": RECORD_VERSION,
        "kind": kind,
        "population": table.name,
        "location": table.source.location(),
        "unit": table.unit_name,
        "neighbours": table.neighbours,
        "declared": {name: table.schema[name] for name in sorted(table.declared)},
        "conditions": [str(condition.term) for condition in stage.conditions],
        "computed": {n: str(table.computed[n].term) for n in stage.group_columns if n in table.computed},
        "group_columns": stage.group_columns,
        "keys": None if stage.keys is None else _written(stage),
        "grid": grid,
        **({"period": table.period.text} if table.period is not None else {}),
        **({"joins": [_joined(join) for join in table.joins]} if table.joins else {}),
        **({"per unit": _per_unit(table.per_unit)} if table.per_unit is not None else {}),
        "moments": sorted(stage.moments),
        "measures": stage.measures,
        "rows_per_group": stage.rows_per_group,
        "groups_per_unit": stage.groups_per_unit,
        **({"rows_per_unit": stage.rows_per_unit} if stage.rows_per_unit is not None else {}),
        **({"discovery_groups": stage.discovery_groups} if stage.discovery_groups is not None else {}),
        **({"norm": str(stage.norm)} if stage.norm is not None else {}),
        **({"norm of units": str(stage.units_norm)} if stage.units_norm not in {None, stage.norm} else {}),
        **({"length_by": stage.length_by} if stage.length_by is not None else {}),
        **({"one weight": dict(stage.parts)} if stage.parts else {}),
        **more,
    }
    return hashlib.sha256(json_object(form).encode()).hexdigest()


def target_record(target: Budget) -> str:
    """A spend in the words of digests."""
    fields = [(word, getattr(target, name)) for word, name in TARGETS[type(target)]]
    recorded = [(word, value) for word, value in fields if value or word != "delta" or isinstance(target, Approx)]
    return ", ".join(f"{word}={float(value):g}" for word, value in recorded)


def limits_record(limits: Limits, importance: Mapping[str, Number] | None) -> list[list[str]]:
    """Limits and importance in the words of digests.

    Args:
        limits: The limits.
        importance: The relative importance of statistics; None for equal importance.

    Returns:
        The word and value of each that is given.
    """
    values = limits.given | ({} if importance is None else {None: importance})
    return [[word, _limit(values[name])] for name, word in LIMITS.items() if name in values]


def _limit(value: Any) -> str:
    if isinstance(value, PrivateLimit):
        return f"Tuned(at_most={value.at_most!r}, share={value.share!r}, groups={value.groups!r})"
    return str(value)


def _joined(join: Join) -> dict[str, object]:
    inner = {} if join.per_unit is None else {"per unit": _per_unit(join.per_unit)}
    return join.record() | {"kind": JOINS[join.kind], "how": JOINS[join.how]} | inner


def _per_unit(of: PerUnit) -> dict[str, object]:
    """What rows are computed from one unit's rows at a time, in the words of digests."""
    table = of.table
    columns = {
        name: [
            column.function,
            *map(str, (column.value and column.value.term, column.bounds, column.offset)),
            [str(part.term) for part in column.by],
            [[str(key.term), down] for key, down in column.order],
            *([column.frame] if column.frame else []),
        ]
        for name, column in of.columns.items()
    }
    return {
        "location": table.source.location(),
        "declared": {name: table.schema[name] for name in sorted(table.declared)},
        "computed": {name: str(one.term) for name, one in sorted(table.computed.items())},
        "conditions": [str(condition.term) for condition in of.conditions],
        "joins": [_joined(join) for join in table.joins],
        "by": None if of.by is None else dict(of.by),
        "columns": columns,
        "per unit": None if table.per_unit is None else _per_unit(table.per_unit),
    }


def _written(stage: Stage) -> Sequence[Sequence[object]]:
    """Public keys as JSON data. Only dates are encoded, so that long lists without dates are not copied."""
    kinds = {stage.table.schema[name] for name in stage.group_columns}
    if ColumnType.DATE not in kinds:
        return stage.keys or ()
    own = (type(None), bool, int, str)
    return [[one if isinstance(one, own) else ["date", str(one)] for one in key] for key in stage.keys or ()]
