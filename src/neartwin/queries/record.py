"""The canonical form behind a plan's digest: what it would do, and nothing of how it is written."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from neartwin.queries.norm import NormClip
from neartwin.queries.stage import Stage
from neartwin.queries.types import ColumnType

RECORD_VERSION = 1  # of the canonical form; a new meaning takes a new number


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
        **({"joins": [join.record() for join in table.joins]} if table.joins else {}),
        "moments": sorted(stage.moments),
        "measures": stage.measures,
        "rows_per_group": stage.rows_per_group,
        "groups_per_unit": stage.groups_per_unit,
        **({"rows_per_unit": stage.rows_per_unit} if stage.rows_per_unit is not None else {}),
        **({"discovery_groups": stage.discovery_groups} if stage.discovery_groups is not None else {}),
        **({} if stage.clip is None else {"clip": _norm(stage.clip)}),
        **({} if stage.cell_clip is None else {"cell_clip": [stage.cell_clip.limit, stage.cell_clip.widths]}),
        **({} if stage.sampling_rate is None else {"sampling_rate": str(stage.sampling_rate)}),
        **more,
    }
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()


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
