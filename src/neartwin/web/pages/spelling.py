"""The question as code to copy: Python, SQL on the command line, HTTP."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Spelled:
    """One question with its spend and limits, ready to be written as code. host: where this service answers."""

    form: Mapping[str, Any]
    spend: Mapping[str, str]
    limits: Mapping[str, int]
    dataset: str
    host: str

    def python(self) -> str:
        """The question in Python, asked of this service with the verbs of the local library."""
        lines = [
            "import os",
            "import neartwin as nt",
            "",
            f'service = nt.connect({self.host!r}, os.environ["NEARTWIN_TOKEN"])',
            f"account = service.open({self.dataset!r})",
            f"query = account.rows{_computed(self.form)}{_where(self.form)}{_groups(self.form)}.agg(",
            *(f"    {_keyword(name, _statistic(part))}," for name, part in self.form["statistics"].items()),
            ")",
            "plan = account.plan(",
            "    query,",
            f"    spend={_target(self.spend)},",
            *(f"    {name}={value}," for name, value in self.limits.items()),
            ")",
            "print(plan.preview())             # free: reads no row",
            "release = account.release(plan)   # pays, and asks the data",
        ]
        return "\n".join(lines)

    def http(self) -> str:
        """The question as a request that curl sends; `plan` instead of `releases` is free."""
        place = f"{self.host}/v1/datasets/{quote(self.dataset, safe='')}/releases?wait=10"
        asked = {"question": self.form, "spend": dict(self.spend)} | dict(self.limits)
        lines = [
            f"curl {shlex.quote(place)} \\",
            '  -H "Authorization: Bearer $NEARTWIN_TOKEN" \\',
            "  -H 'Content-Type: application/json' \\",
            f"  -d {shlex.quote(json.dumps(asked, indent=2, ensure_ascii=False))}",
        ]
        return "\n".join(lines)


def _computed(form: Mapping[str, Any]) -> str:
    return "".join(f".with_column({name!r}, {text!r})" for name, text in form.get("computed", ()))


def _where(form: Mapping[str, Any]) -> str:
    return "".join(f".where({condition!r})" for condition in form.get("where", ()))


def _groups(form: Mapping[str, Any]) -> str:
    columns = form.get("group_by")
    if not columns:
        return ""
    names, keys = ", ".join(map(repr, columns)), form.get("keys")
    if keys is None:
        return f".group_by({names})"
    return f".group_by({names}, keys={_keys(keys, columns)})"


def _keys(keys: Any, columns: list[str]) -> str:
    if isinstance(keys, list) and len(columns) == 1:
        return repr([key[0] if isinstance(key, list) else key for key in keys])
    if isinstance(keys, list):
        return repr([tuple(key) for key in keys])
    if keys == "declared":
        return "{" + ", ".join(f"{column!r}: account.keys[{column!r}]" for column in columns) + "}"
    return repr(keys)


def _keyword(name: str, value: str) -> str:
    return f"{name}={value}" if name.isidentifier() else f"**{{{name!r}: {value}}}"


def _statistic(part: Mapping[str, Any]) -> str:
    arguments = [repr(part["column"])] if "column" in part else []
    arguments += [str(part["rank"])] if "rank" in part else []
    arguments += [str(part[end]) for end in ("low", "high") if part.get(end) not in (None, "")]
    return f"nt.{part['ask']}({', '.join(arguments)})"


def _target(spend: Mapping[str, str]) -> str:
    amounts = {name: value for name, value in spend.items() if name != "delta"}
    (currency, amount), *_ = amounts.items()
    verb = {"epsilon": "approx" if "delta" in spend else "pure", "rho": "zcdp", "mu": "gdp"}.get(currency, currency)
    delta = f", {spend['delta']!r}" if "delta" in spend else ""
    return f"nt.{verb}({amount!r}{delta})"
