"""The question as code to copy: Python, SQL on the command line, HTTP."""

import json
import re
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
    limits: Mapping[str, Any]
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
            *self._query(),
            "plan = account.plan(",
            "    query,",
            f"    spend={_target(self.spend)},",
            *(f"    {name}={_limit(name, value)}," for name, value in self.limits.items()),
            ")",
            "print(plan.preview())             # free: reads no row",
            "release = account.release(plan)   # pays, and asks the data",
        ]
        return "\n".join(lines)

    def _query(self) -> list[str]:
        start = f"query = account.rows{_joins(self.form)}{_computed(self.form)}{_where(self.form)}"
        if "most_common" in self.form:
            choice = dict(self.form["most_common"])
            told = "".join(f", {name}={value!r}" for name, value in choice.items() if name != "column")
            return [f"{start}.most_common({choice['column']!r}{told})"]
        statistics = [f"    {_keyword(name, _statistic(part))}," for name, part in self.form["statistics"].items()]
        return [f"{start}{_groups(self.form)}{_over(self.form)}.agg(", *statistics, ")"]

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


def _over(form: Mapping[str, Any]) -> str:
    """What is asked over the groups in place of them."""
    if margins := form.get("margins"):
        return f".marginals({', '.join(map(repr, margins))})"
    told = form.get("workload")
    if told is None:
        return ""
    if told["ask"] == "weights":
        return f".workload({{{', '.join(f'{name!r}: {_weights(pairs)}' for name, pairs in told['weights'].items())}}})"
    given = ", ".join(repr(told[name]) for name in ("lengths", "before", "after") if name in told)
    return f".workload(nt.{told['ask']}({given}))"


def _weights(pairs: list[Any]) -> str:
    keys = [tuple(key) if isinstance(key, list) else (key,) for key, _ in pairs]
    shown = [repr(key[0] if len(key) == 1 else key) for key in keys]
    return "{" + ", ".join(f"{key}: {_number(weight)}" for key, (_, weight) in zip(shown, pairs, strict=True)) + "}"


def _joins(form: Mapping[str, Any]) -> str:
    told = ""
    for join in form.get("joins", ()):
        more = "".join(f", {name}={join[name]!r}" for name in ("how", "prefix") if name in join)
        told += f".join(account.tables[{join['table']!r}], on={dict(join['on'])!r}{more})"
    return told


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
    arguments = [repr(part[name]) for name in ("column", "target", "features", "feature") if name in part]
    arguments += [_numbers(part[name]) for name in ("rank", "edges") if name in part]
    arguments += [repr(part[name]) for name in ("x", "y") if name in part]
    arguments += [_number(part[end]) for end in ("low", "high") if part.get(end) not in (None, "")]
    arguments += [f"{name}={_number(part[name])}" for name in ("step", "fill") if part.get(name) not in (None, "")]
    return f"nt.{part['ask']}({', '.join(arguments)})"


def _numbers(value: Any) -> str:
    return f"[{', '.join(map(_number, value))}]" if isinstance(value, list) else _number(value)


def _number(value: Any) -> str:
    """As a literal where it is one; fractions and what is none as text, which says what is wrong where it is read."""
    text = str(value)
    return text if re.fullmatch(r"-?\d+(\.\d+)?([eE]-?\d+)?", text) else repr(text)


def _limit(name: str, value: Any) -> str:
    if name == "weights":
        return "{" + ", ".join(f"{key!r}: {_number(part)}" for key, part in value.items()) + "}"
    if not isinstance(value, Mapping):
        return _number(value)
    more = [f"{key}={value[key]!r}" for key in ("share", "groups") if key in value]
    if name == "value_range":
        return f"nt.tuned_range({', '.join(more)})"
    return f"nt.tuned({', '.join([str(value['at_most']), *more])})"


def _target(spend: Mapping[str, str]) -> str:
    amounts = {name: value for name, value in spend.items() if name != "delta"}
    (currency, amount), *_ = amounts.items()
    verb = {"epsilon": "approx" if "delta" in spend else "pure", "rho": "zcdp", "mu": "gdp"}.get(currency, currency)
    delta = f", {spend['delta']!r}" if "delta" in spend else ""
    return f"nt.{verb}({amount!r}{delta})"
