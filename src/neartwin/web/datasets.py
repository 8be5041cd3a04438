"""Registered data sets: their public facts, and the rules that say who may ask which questions.

The place of a data set (a path or a database URL) stands here. It is in no request and in no answer.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from fractions import Fraction
from typing import Any

from neartwin.accounting.budgets import Budget, budget_in, budget_of, parts_of
from neartwin.checks import one_of, text
from neartwin.errors import ParameterError
from neartwin.queries.open import owned_by
from neartwin.queries.open import table as open_table
from neartwin.queries.query import Rows, origins_of
from neartwin.tables.joins import OtherTable, public_table
from neartwin.tables.table import ROW, Bounds, Table
from neartwin.tables.table import bounds as as_bounds
from neartwin.tables.types import ColumnType

Values = tuple[object, ...]
EACH_ROW_NAME = "(each row)"
KINDS = ("public", "same_unit", "owned")
_MOST_KEYS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinableTable:
    """A table that questions may join.

    Attributes:
        name: The name that SQL calls it by, an identifier.
        kind: One of `KINDS`.
        place: A path or a database URL, never shown.
        table: The table's name in a database.
        unit: The column of the units, for a "same_unit" table.
        on: The key of an "owned" table, from the data set's columns to its own.
        types: Declared types, by column.
        bounds: Declared public bounds, by column.
        keys: Declared public keys, by column.
        encoding: As for `nt.table`.
    """

    name: str
    kind: str
    place: str = field(repr=False)
    table: str = ""
    unit: str = ""
    on: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    keys: Mapping[str, Values] = field(default_factory=dict)
    encoding: str = ""

    def __post_init__(self) -> None:
        text(name=self.name, at_least=1, at_most=100)
        one_of(KINDS, kind=self.kind)
        if not self.name.isidentifier():
            raise ParameterError("name", self.name, "of a table to join must be a word", remedy="it stands in SQL")
        if (self.kind == "same_unit") != bool(self.unit):
            raise ParameterError(
                "unit", self.unit, "must name the column of a same_unit table's units, and of no other"
            )
        if (self.kind == "owned") != bool(self.on):
            rule = "must name the key of an owned table, and of no other"
            raise ParameterError("on", dict(self.on), rule, remedy="for instance {'order': 'order'}")

    def opened(
        self, rows: Rows, *, refresh: bool | None = False, snapshot: str = "", into: str = ""
    ) -> Rows | OtherTable:
        """Open the table for joins.

        Args:
            rows: The data set that it is joined to.
            refresh: As for `nt.table`: a question asks what was read last.
            snapshot: As for `nt.table`.
            into: As for `nt.table`.
        """
        more = _reading(self, snapshot, into)
        if self.kind == "public":
            return public_table(self.place, name=self.name, **more)
        more["refresh"] = refresh
        if self.kind == "owned":
            return open_table(self.place, unit=owned_by(rows, on=self.on), name=self.name, **more)
        own = rows.table
        return open_table(self.place, unit=self.unit, name=own.name, neighbours=own.neighbours.value, **more)

    def as_dict(self) -> dict[str, Any]:
        """As data that `from_dict` reads back. It holds the place."""
        return _declared(self) | {"on": dict(self.on)}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> "JoinableTable":
        """The table of data that `as_dict` wrote or a curator sent."""
        return cls(**{**body, **_read_declared(body)})


def _reading(part: "JoinableTable | Dataset", snapshot: str, into: str) -> dict[str, Any]:
    """The arguments of `nt.table` that a data set and the tables to join have alike."""
    names = {"table": part.table, "types": part.types, "columns": part.bounds, "encoding": part.encoding}
    return names | {"snapshot": snapshot, "into": into}


def _declared(part: "JoinableTable | Dataset") -> dict[str, Any]:
    """A table's texts and numbers, and its declared types, bounds and keys, as JSON."""
    names = [name for name in part.__dataclass_fields__ if isinstance(getattr(part, name), str | int)]
    return {name: getattr(part, name) for name in names} | {
        "types": dict(part.types),
        "bounds": {name: bounds_text(ends) for name, ends in part.bounds.items()},
        "keys": {name: [plain(value) for value in values] for name, values in part.keys.items()},
    }


def _read_declared(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bounds": {name: as_bounds(*ends) for name, ends in body["bounds"].items()},
        "keys": {name: tuple(values) for name, values in body["keys"].items()},
    }


def bounds_text(bounds: Bounds) -> list[str]:
    """The low end, the high end and the step as exact text.

    >>> bounds_text(as_bounds(0, 200, "1/100"))
    ['0', '200', '1/100']
    """
    return [str(bounds.low), str(bounds.high), str(bounds.step)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of a policy. The first rule that fits an analyst decides. If none fits, the analyst may do nothing.

    Keys and bounds are public values, so restricting them is a matter of order and not of privacy.

    Attributes:
        who: "*" for everybody, "analyst:ada", "agent:bot", or "project:census".
        columns: The usable columns; None for all. Columns of joined tables are written TABLE.column.
        group_columns: The columns to group by; None for all.
        discover: Whether groups may be discovered privately.
        own_keys: Whether keys other than the declared ones may be used.
        own_bounds: Whether bounds other than the declared ones may be used.
        max_spend: The largest price of one release, or None.
        allotment: The allotment of an analyst without one, at the first release; or None. A rule
            gives it to an agent only by name.
    """

    who: str = "*"
    columns: tuple[str, ...] | None = None
    group_columns: tuple[str, ...] | None = None
    discover: bool = True
    own_keys: bool = True
    own_bounds: bool = True
    max_spend: Budget | None = None
    allotment: Budget | None = None

    def __post_init__(self) -> None:
        kind, sign, name = self.who.partition(":")
        if self.who != "*" and not (kind in {"analyst", "agent", "project"} and sign and name.strip()):
            raise ParameterError("who", self.who, "must be '*', 'analyst:NAME', 'agent:NAME' or 'project:NAME'")
        text(who=self.who, at_least=1, at_most=200)

    def first_allotment(self, holder: str) -> Budget | None:
        """The amount of a holder without an allotment, at the first release. An agent needs a rule that names it."""
        return None if holder.startswith("agent:") and self.who != holder else self.allotment

    def as_dict(self) -> dict[str, Any]:
        """As data that `from_dict` reads back."""
        body = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        amounts = {"max_spend": self.max_spend, "allotment": self.allotment}
        return body | {name: None if amount is None else parts_of(amount) for name, amount in amounts.items()}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> "Rule":
        """The rule of data that `as_dict` wrote or `schemas.RuleModel` has checked. Amounts may be text."""
        lists = {name: tuple(body[name]) for name in ("columns", "group_columns") if body.get(name) is not None}
        amounts = {name: _amount(body.get(name), name) for name in ("max_spend", "allotment")}
        return cls(**{**body, **lists, **amounts})


def _amount(value: Mapping[str, Any] | str | None, name: str) -> Budget | None:
    if not value:
        return None
    return budget_in(value, name) if isinstance(value, str) else budget_of(value, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A registered data set.

    Attributes:
        name: The name of the data set and of its population.
        place: A path or a database URL, never shown.
        table: The table's name in a database.
        unit: The column of the units, or `EACH_ROW_NAME`.
        neighbours: "add_remove" or "replace_one".
        types: Declared types, by column.
        bounds: Declared public bounds, by column.
        keys: Declared public keys, by column.
        budget: The whole budget of the units.
        about: A sentence for analysts.
        policy: The rules, of which the first that fits decides.
        tables: The tables that questions may join.
        into: As for `nt.table`, of the data set and of the tables to join.
        encoding: As for `nt.table`.
        snapshot: How often the curator declared that the data changed. It names the snapshot of a database's table, so
            that every worker and host knows a question that was asked before.
    """

    name: str
    place: str = field(repr=False)
    table: str = ""
    unit: str
    neighbours: str = "add_remove"
    types: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    keys: Mapping[str, Values] = field(default_factory=dict)
    budget: Budget
    about: str = ""
    policy: tuple[Rule, ...] = (Rule(),)
    tables: tuple[JoinableTable, ...] = ()
    into: str = ""
    encoding: str = ""
    snapshot: int = 0

    def __post_init__(self) -> None:
        text(name=self.name, at_least=1, at_most=100)
        if "/" in self.name or self.name in {".", ".."}:
            raise ParameterError("name", self.name, "must have no slash", remedy="it stands in web addresses")
        text(about=self.about, at_least=0, at_most=2000)
        names = [self.name, *(side.name for side in self.tables)]
        if len(set(names)) != len(names):
            raise ParameterError("tables", names, "must have distinct names, by which SQL refers to them")

    def rows(self, *, refresh: bool | None = False) -> Rows:
        """Open the table's rows.

        Args:
            refresh: As for `nt.table`: a question asks what was read last.
        """
        unit = ROW if self.unit == EACH_ROW_NAME else self.unit
        more = _reading(self, self._label, self.into)
        return open_table(self.place, unit=unit, name=self.name, neighbours=self.neighbours, refresh=refresh, **more)

    @property
    def _label(self) -> str:
        return f"{self.name} {self.snapshot}"

    def others(self, *, refresh: bool | None = False) -> dict[str, Rows | OtherTable]:
        """The tables that questions may join, by their names in SQL.

        Args:
            refresh: As for `rows`.
        """
        if not self.tables:
            return {}
        rows = self.rows(refresh=refresh)
        more: dict[str, Any] = {"refresh": refresh, "snapshot": self._label, "into": self.into}
        return {side.name: side.opened(rows, **more) for side in self.tables}

    def part(self, column: str, origins: Mapping[str, tuple[str, str]]) -> tuple["Dataset | JoinableTable", str]:
        """The table that a column of joined rows comes from, with the column's own name there; "" for what is computed."""
        table, own = origins.get(column, ("", ""))
        return next((side for side in self.tables if side.name == table), self), own

    def declared_keys(self, table: Table, tables: Mapping[str, Rows | OtherTable]) -> dict[str, Values]:
        """The declared public keys of the columns of joined rows, by their names in the rows."""
        found, keys = origins_of(table, tables), {side.name: side.keys for side in self.tables} | {"": self.keys}
        return {column: keys[name][own] for column, (name, own) in found.items() if own in keys[name]}

    def rule_for(self, holders: Sequence[str]) -> Rule | None:
        """The first rule about everybody or one of the holders, or None."""
        return next((rule for rule in self.policy if rule.who in {"*", *holders}), None)

    def to_json(self) -> str:
        """As JSON that `from_json` reads back; holds the place."""
        body = _declared(self) | {"budget": parts_of(self.budget), "policy": [rule.as_dict() for rule in self.policy]}
        if self.tables:
            body["tables"] = [table.as_dict() for table in self.tables]
        return json.dumps(body, sort_keys=True)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> "Dataset":
        """The data set that `to_json` wrote, or that a curator sent."""
        parts: dict[str, Any] = {
            "budget": budget_of(body["budget"], "budget"),
            "policy": tuple(Rule.from_dict(rule) for rule in body["policy"]),
            "tables": tuple(JoinableTable.from_dict(table) for table in body.get("tables", ())),
        }
        return cls(**{**body, **_read_declared(body), **parts})


def keys_in(text: str, kind: ColumnType | None) -> list[object]:
    """Read public keys as people write them: with commas between, or 1:12 for a range of whole numbers.

    Args:
        text: One or more keys.
        kind: The type of their column.

    Raises:
        ParameterError: The text holds no keys of that type.

    >>> keys_in("1:3", ColumnType.INTEGER), keys_in("Ulm, Bonn", ColumnType.TEXT)
    ([1, 2, 3], ['Ulm', 'Bonn'])
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        match kind:
            case ColumnType.INTEGER if ":" in text:
                low, high = map(int, text.split(":"))
                if high - low < _MOST_KEYS:
                    return list(range(low, high + 1))
                raise ParameterError("keys", text, f"must be at most {_MOST_KEYS:,} values")
            case ColumnType.INTEGER:
                return list(map(int, parts))
            case ColumnType.BOOLEAN:
                return [{"true": True, "false": False}[part.lower()] for part in parts]
            case ColumnType.DATE:
                return list(map(date.fromisoformat, parts))
    except (ValueError, KeyError):
        remedy = f"write {text.replace('-', ':')}" if kind is ColumnType.INTEGER and "-" in text else ""
        raise ParameterError("keys", text, f"must be values of a column of type {kind}", remedy=remedy) from None
    return list(parts)


def bounds_in(texts: Iterable[str]) -> dict[str, Bounds]:
    """Read public bounds by column: `amount=0:200`, or with a step `amount=0:200:0.5`."""
    found = {}
    for column, written in pairs(texts, "bounds").items():
        ends = written.split(":")
        if len(ends) not in (2, 3):
            line = f"write {column}={':'.join(re.findall(r'[0-9.]+', written)[:3]) or '0:100'}"
            raise ParameterError(
                "bounds", f"{column}={written}", "must be column=low:high or column=low:high:step", remedy=line
            )
        found[column] = as_bounds(*ends)
    return found


def pairs(texts: Iterable[str], name: str) -> dict[str, str]:
    """Read `name=value` texts as a mapping. `name` is the option's name in a refusal."""
    found = {}
    for pair in texts:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip() or not value.strip():
            remedy = f"write {pair.replace(':', '=', 1)}" if ":" in pair else ""
            raise ParameterError(name, pair, "must be name=value", remedy=remedy)
        found[key.strip()] = value.strip()
    return found


def plain(value: object) -> object:
    """A key as a JSON value. Dates become text."""
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def decimals(target: Budget | None) -> str:
    """A budget as text that reads back exactly: decimals of at most 12 digits, or fractions.

    >>> from neartwin.accounting.budgets import approx
    >>> decimals(approx("0.5", "1/3"))
    'epsilon=0.5, delta=1/3'
    """

    def written(exact: str) -> str:
        shown = f"{float(Fraction(exact)):.12g}"
        return shown if Fraction(shown) == Fraction(exact) else exact

    return "" if target is None else ", ".join(f"{name}={written(part)}" for name, part in parts_of(target).items())
