"""The canonical form behind a plan's digest: what it would do, and nothing of how it is written.

A digest decides whether a question was paid for, so its words never change: `STATISTICS`, `NOISES`, `TARGETS`, `JOINS` and
`LIMITS` hold them. A class, parameter or printed word may be renamed; its line here keeps the old one. New kinds get new lines.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from neartwin.accounting.targets import Approx, Gdp, Pure, Rdp, Target, ThreePools, Zcdp
from neartwin.mechanisms.discrete_gaussian import DiscreteGaussian
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.queries.histograms import Histogram
from neartwin.queries.join import How, Join, JoinKind
from neartwin.queries.moments import Coefficient, Correlation, Covariance, Deviation, Regression, Variance
from neartwin.queries.norm import NormClip
from neartwin.queries.quantiles import Extreme, Quantile
from neartwin.queries.stage import Stage
from neartwin.queries.statistics import Aggregate, Count, CountUnits, Mean, Sum
from neartwin.queries.tuned import Tuned
from neartwin.queries.types import ColumnType

RECORD_VERSION = 1  # of the canonical form; a new meaning takes a new number
STATISTICS: Mapping[type, Callable[[Any], str]] = {
    Count: lambda s: f"count({s.column or ''})",
    CountUnits: lambda _: "count_units()",
    Sum: lambda s: f"sum({s.column})",
    Mean: lambda s: f"mean({s.column})",
    Quantile: lambda s: (
        f"median({s.column})" if s.ranks == (Fraction(1, 2),) else f"quantile({s.column}, {_floats(s.ranks)})"
    ),
    Extreme: lambda s: f"{s.end}({s.column})",
    Histogram: lambda s: s.record,
    Variance: lambda s: f"variance({s.column})",
    Deviation: lambda s: f"stddev({s.column})",
    Covariance: lambda s: f"covariance({s.x}, {s.y})",
    Correlation: lambda s: f"correlation({s.x}, {s.y})",
    Regression: lambda s: f"regression({s.target}, [{', '.join(s.features)}])",
    Coefficient: lambda s: (
        f"{f'slope of {s.feature}' if s.feature else 'intercept'} in regression({s.target}, [{', '.join(s.features)}])"
    ),
}
NOISES: Mapping[type, str] = {Gaussian: "Gaussian", DiscreteGaussian: "DiscreteGaussian"}
TARGETS: Mapping[type, tuple[tuple[str, str], ...]] = {  # word, field; a delta of 0 is left out, but for Approx
    Pure: (("epsilon", "epsilon"),),
    Approx: (("epsilon", "epsilon"), ("delta", "delta")),
    Zcdp: (("rho", "rho"), ("delta", "delta")),
    Rdp: (("order", "order"), ("epsilon", "epsilon"), ("delta", "delta")),
    Gdp: (("mu", "mu"), ("delta", "delta")),
    ThreePools: (("epsilon", "epsilon"), ("mu", "mu"), ("delta", "delta")),
}
JOINS = {
    JoinKind.PUBLIC: "public",
    JoinKind.SAME_UNIT: "rows of the same unit",
    JoinKind.OWNED: "rows owned through their key",
    How.INNER: "inner",
    How.LEFT: "left",
    How.BESIDE: "beside",
}
LIMITS = {  # word by parameter of a plan
    "rows_per_group": "rows_per_group",
    "groups_per_unit": "groups_per_unit",
    "weights": "weights",
    "rows_per_unit": "rows_per_unit",
    "norm_per_unit": "norm_per_unit",
    "discovery_groups": "discovery_groups",
}


def digest_of(kind: str, stage: Stage, more: Mapping[str, object]) -> str:
    """SHA-256 of a plan of this kind: its stage, and what else decides the answer."""
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
        "moments": sorted(stage.moments),
        "measures": stage.measures,
        "rows_per_group": stage.rows_per_group,
        "groups_per_unit": stage.groups_per_unit,
        **({"rows_per_unit": stage.rows_per_unit} if stage.rows_per_unit is not None else {}),
        **({"discovery_groups": stage.discovery_groups} if stage.discovery_groups is not None else {}),
        **({} if stage.clip is None else {"clip": _norm(stage.clip)}),
        **({} if stage.cell_clip is None else {"cell_clip": [stage.cell_clip.limit, stage.cell_clip.widths]}),
        **more,
    }
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()


def statistic_record(statistic: Aggregate) -> str:
    """What a statistic is called in digests, without its bounds, which are the grid's."""
    return STATISTICS[type(statistic)](statistic)


def target_record(target: Target) -> str:
    """A spend in digests."""
    told = [(word, getattr(target, name)) for word, name in TARGETS[type(target)]]
    kept = [(word, value) for word, value in told if value or word != "delta" or isinstance(target, Approx)]
    return ", ".join(f"{word}={float(value):g}" for word, value in kept)


def limits_record(limits: Sequence[tuple[str, Any]]) -> list[list[str]]:
    """Limits of a plan in digests: word and value of each that is given, in the plan's order."""
    return [[LIMITS[name], _limit(value)] for name, value in limits if value is not None]


def _limit(value: Any) -> str:
    if isinstance(value, Tuned):
        return f"Tuned(at_most={value.at_most!r}, share={value.share!r}, groups={value.groups!r})"
    return str(value)


def _floats(values: Sequence[Fraction]) -> str:
    return ", ".join(repr(float(value)) for value in values)


def _joined(join: Join) -> dict[str, object]:
    return join.record() | {"kind": JOINS[join.kind], "how": JOINS[join.how]}


def _norm(clip: NormClip) -> list[object]:
    return [clip.limit, {name: [one.times, one.over, one.parts] for name, one in clip.coordinates.items()}]


def _written(stage: Stage) -> Sequence[Sequence[object]]:
    """Public keys as JSON has them: dates alone are written in another way, so that long lists without any are as they are."""
    kinds = {stage.table.schema[name] for name in stage.group_columns}
    if ColumnType.DATE not in kinds:
        return stage.keys or ()
    return [[_plain(value) for value in key] for key in stage.keys or ()]


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | str) else ["date", str(value)]
