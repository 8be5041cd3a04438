"""Requests and answers of the HTTP interface, with examples. The OpenAPI document is made from here.

Amounts are exact text, such as "0.1" or "1/3".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from inspect import cleandoc
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Json, StrictBool, StrictFloat, StrictInt, StrictStr

from neartwin import ledger
from neartwin.errors import BudgetError
from neartwin.planning.explain import Explained
from neartwin.statistics.base import ExpectedError
from neartwin.web.tokens import Token

AMOUNT = r"^([0-9]{1,30}(\.[0-9]{1,30})?([eE]-?[0-9]{1,3})?|[0-9]{1,30}/[1-9][0-9]{0,29})$"
Written = Annotated[str, Field(pattern=AMOUNT, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f/]*$")]
Text = Annotated[str, Field(max_length=200)]
Value = StrictStr | StrictInt | StrictFloat | bool | None
Listed = Annotated[list[StrictStr | StrictInt | StrictFloat], Field(max_length=1001)]
Parts = Annotated[dict[str, Written | StrictInt | StrictFloat], Field(max_length=4)]
Role = Literal["curator", "analyst", "auditor", "agent"]
Exact = Annotated[str, BeforeValidator(str)]
Amounts = dict[str, Exact]  # by pool


def _closed(*examples: dict[str, Any]) -> ConfigDict:
    """The configuration of a model that refuses unknown fields. The examples go into the OpenAPI document."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": list(examples)} if examples else None)


def first_fault(faults: Sequence[Any]) -> tuple[str, str]:
    """The first fault of a validation: the place of the value, and what is wrong with it."""
    return ".".join(str(part) for part in faults[0]["loc"]), f"is not valid: {faults[0]['msg']}"


class Model(BaseModel):
    """A part of a request or an answer. The OpenAPI document describes each field by its docstring's Attributes."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        described: dict[str, Any] = handler(schema)
        body = handler.resolve_ref_schema(described)
        for base in reversed(cls.__mro__[: cls.__mro__.index(Model) + 1]):
            body["description"], _, attributes = cleandoc(base.__doc__ or "").partition("\n\nAttributes:\n")
            for name, text in re.findall(r"(?ms)^    (\w+): (.*?)(?=^    \w+: |\Z)", attributes):
                body["properties"][name]["description"] = " ".join(text.split())
        return described


class RequestModel(Model):
    """A request. Unknown fields are refused."""

    model_config = _closed()


_REFUSAL = BudgetError("epsilon", Fraction(1, 2), Fraction(1, 4), ("spend at most the remaining 0.25",))


class Refusal(Model):
    """The shape of every error, which is also that of the terminal's `--json`. Parts without content are empty.

    Attributes:
        code: The code of the error's class, such as NT-400.
        error: The name of the error's class.
        message: The whole message.
        name: The name of the refused value.
        value: The refused value, as the caller sent it.
        rule: The rule that the value breaks.
        remedy: The way out.
    """

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": dict[str, Any](_REFUSAL.as_dict())})
    code: str
    error: str
    message: str
    name: str = ""
    value: str = ""
    rule: str = ""
    remedy: str = ""


Whole = Annotated[int, Field(ge=1, le=10**9)]


class PrivateRange(RequestModel):
    """Clip bounds that the plan chooses privately within those given: `nt.private_range(...)`.

    Attributes:
        share: The share of the spend that the choice costs.
        groups: The expected number of groups.
    """

    share: Written | StrictFloat = "1/5"
    groups: Whole | None = None


class Question(RequestModel):
    """A question as SQL, as parts, or as a choice. Give one of `sql`, `statistics` and `most_common`.

    Attributes:
        sql: The question as SQL.
        dialect: The SQL that it is written in, such as postgres.
        joins: The tables to join, each with its name, `on`, `how` and `prefix`.
        computed: Pairs of a new column's name and its expression.
        where: Conditions on rows, all of which must hold.
        group_by: The columns to group by.
        keys: Public keys: "declared", lists of values by column, or a list of keys. Without it groups are discovered.
        statistics: Each statistic by its name in the answer, such as `{"ask": "sum", "column": "amount"}`.
        margins: Lists of group columns, each of which is a margin to release.
        workload: Linear queries over the groups, such as `{"ask": "prefixes"}`.
        most_common: A choice of the k most common values of a column.
        after: Free post-processing, such as `{"limit": 3}`.
    """

    model_config = _closed(
        {"where": ["amount > 5"], "statistics": {"total": {"ask": "sum", "column": "amount", "low": 0, "high": 200}}},
        {"sql": "SELECT cds, COUNT(*) AS orders FROM purchases GROUP BY cds", "keys": "declared"},
        {"most_common": {"column": "cds", "among": [1, 2, 3]}},
    )
    sql: Annotated[str, Field(max_length=10_000)] | None = None
    dialect: Text | None = None
    joins: Annotated[list[dict[Literal["table", "on", "how", "prefix"], Any]], Field(max_length=20)] | None = None
    computed: Annotated[list[tuple[Text, Annotated[str, Field(max_length=2_000)]]], Field(max_length=50)] | None = None
    where: Annotated[list[Annotated[str, Field(max_length=2_000)]], Field(max_length=50)] | None = None
    group_by: Annotated[list[Text], Field(max_length=20)] | None = None
    keys: (
        Literal["declared"]
        | dict[Text, Annotated[list[Value], Field(max_length=100_000)]]
        | Annotated[list[Value | list[Value]], Field(max_length=100_000)]
        | None
    ) = None
    statistics: Annotated[dict[Text, dict[Text, Value | Listed | PrivateRange]], Field(max_length=100)] | None = None
    margins: Annotated[list[Annotated[list[Text], Field(max_length=20)]], Field(max_length=100)] | None = None
    workload: dict[Literal["ask", "lengths", "before", "after", "weights"], Any] | None = None
    most_common: dict[Literal["column", "among", "k", "counted"], Any] | None = None
    after: Annotated[dict[Text, Any], Field(max_length=7)] | None = None


class PrivateLimit(RequestModel):
    """A limit that the plan chooses privately, for a share of the spend: `nt.private_limit(...)`.

    Attributes:
        share: The share of the spend that the choice costs.
        groups: The expected number of unknown groups.
        at_most: The largest limit that may be chosen.
    """

    share: Written | StrictFloat | None = None
    groups: Whole | None = None
    at_most: Annotated[int, Field(ge=1, le=10**6)] = 2**16


class Limits(RequestModel):
    """The limits of one unit's contribution: `nt.limits(...)`.

    Attributes:
        max_rows_per_group: The most rows of a unit that count in one group.
        max_groups: The most groups of a unit that count.
        rows: The most rows of a unit in all groups together.
        norm: The norm of a unit's whole vector, in rows.
        values: The most distinct values that a unit stands for, for COUNT(DISTINCT x).
        max_discovered_groups: The number of its groups that a unit helps to discover.
        loss_share: The share of the spend that measures what the limits take; 0 for none.
    """

    max_rows_per_group: Whole | None = None
    max_groups: Whole | PrivateLimit | None = None
    rows: Whole | PrivateLimit | None = None
    norm: Written | StrictInt | StrictFloat | PrivateLimit | None = None
    values: Whole | PrivateLimit | None = None
    max_discovered_groups: Whole | None = None
    loss_share: Written | StrictInt | StrictFloat | None = None


class Ask(RequestModel):
    """A question with the spend of its release and its limits.

    Several questions are a series. They share one price, and all are answered or none.

    Attributes:
        question: The question, or the questions of a series.
        spend: The most that the release may cost, as amounts by name.
        limits: The limits of one unit's contribution.
        importance: The relative importance of each statistic's error, by name. Default 1.
        group_size: The number of units that the spend protects together. Default 1.
        private_range: The private choice of clip bounds, for all sums and means of the question.
        digest: The digest of the previewed plan. A release of another plan is refused, and costs nothing.
    """

    model_config = _closed(
        {"question": {"statistics": {"orders": {"ask": "count"}}}, "spend": {"epsilon": "0.25"}, "limits": {"rows": 5}}
    )
    question: Question | Annotated[list[Question], Field(min_length=2, max_length=50)]
    spend: Parts
    limits: Limits | None = None
    importance: Annotated[dict[Text, Written | StrictInt | StrictFloat], Field(max_length=100)] | None = None
    group_size: Annotated[int, Field(ge=1, le=10**6)] | None = None
    private_range: PrivateRange | None = None
    digest: Text | None = None


class Plan(Model):
    """The plan of a release with its preview: the price, the expected errors, and the budget before and after. It is free.

    Attributes:
        price: The price, as amounts by name.
        before: The remaining budget before the release, by pool.
        after: The remaining budget after it, by pool.
        affordable: Whether the account can pay.
        errors: The expected error of each statistic.
        says: The preview as text.
        stored: The position of the answer that a release gives at no cost, or None for a question that must be paid.
        digest: The digest of the plan, equal for plans that do the same.
        explanation: The plan as a tree of reasons.
        question: The canonical parts of the question.
        questions: The canonical parts of each question of a series.
    """

    price: dict[str, str]
    before: dict[str, str]
    after: dict[str, str]
    affordable: bool
    errors: list[ExpectedError]
    says: str
    stored: int | None = None
    digest: str
    explanation: Explained
    question: dict[str, Any]
    questions: list[dict[str, Any]] | None = None


class JobState(Model):
    """A release under way.

    Attributes:
        job: The public name of the job.
        state: "queued", "running" or "done".
        position: The position of the release's record in the ledger.
        release: The release, or the first release of a series.
        releases: All releases of a series.
        error: The error, where the release failed.
    """

    job: str
    state: Literal["queued", "running", "done"]
    position: int | None = None
    release: dict[str, Any] | None = None
    releases: list[dict[str, Any]] | None = None
    error: Refusal | None = None


class ReleaseAnswer(Model):
    """A stored release, which is served at no cost.

    Attributes:
        position: The position of its record in the ledger.
        release: The release as `Release.from_json` reads it.
        parts: The number of releases in a series, or 1.
    """

    position: int
    release: dict[str, Any]
    parts: int = 1


class Target(RequestModel):
    """An amount of budget."""

    model_config = _closed({"target": {"epsilon": "0.5"}})
    target: Parts


class Raise(Target):
    """New caps of an account, with the reason."""

    model_config = _closed({"target": {"epsilon": "2"}, "reason": "approved by the board"})
    reason: Annotated[str, Field(max_length=1_000)] = ""


class BudgetWish(Target):
    """A request for more budget.

    Attributes:
        target: The most that the holder may spend in all, what is spent included.
        reason: The question that it is for. A curator reads it.
        holder: "project:NAME" for the caller's project; else it is for the caller.
    """

    model_config = _closed({"target": {"epsilon": "2"}, "reason": "the yearly report"})
    reason: str
    holder: Text = ""


class BudgetReply(RequestModel):
    """A curator's answer to a request for budget. A refusal says why."""

    model_config = _closed({"approve": True}, {"approve": False, "reason": "ask for less"})
    approve: bool
    reason: str = ""


class Allotment(Model):
    """The amounts that one holder may spend of a data set and has spent.

    Attributes:
        holder: "analyst:NAME", "agent:NAME" or "project:NAME".
        cap: The most that the holder may spend, by pool.
        spent: The amount that the holder has spent, by pool.
    """

    holder: str
    cap: Annotated[Amounts, Field(validation_alias="caps")]
    spent: Amounts


class Entry(Model):
    """One record of the ledger. The fields are those of `neartwin.ledger.Entry`."""

    position: int
    hash: str
    kind: str
    time: str
    account: str
    state: str
    price: Amounts
    caps: Amounts
    plan_digest: str
    description: str
    payers: list[str]
    pool: str
    reserved: int
    who: str


class Head(RequestModel):
    """A head of the ledger that the caller kept elsewhere, or ""."""

    model_config = _closed({"head": ""})
    head: Annotated[str, Field(max_length=100)] = ""


class Verdict(Model):
    """The result of a verification of the whole ledger.

    Attributes:
        whole: Whether there is no fault.
        head: The newest head.
        faults: All faults.
    """

    whole: bool
    head: Exact
    faults: list[ledger.Fault]


class TokenWish(RequestModel):
    """A token to be made.

    Attributes:
        name: The owner's name.
        role: "curator", "analyst", "auditor" or "agent".
        project: The owner's project, or "".
        days: The days until it expires.
    """

    model_config = _closed({"name": "ada", "role": "analyst", "project": "census", "days": 90})
    name: Name
    role: Role
    project: Annotated[str, Field(max_length=100)] = ""
    days: Annotated[int, Field(ge=1, le=3_650)] = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken(Token):
    """A new token.

    Attributes:
        token: Its text, which is shown this once.
    """

    token: str


class Act(Model):
    """A curator's act, as the ledger records it."""

    position: int
    hash: str
    time: str
    who: str
    what: str
    body: Json[dict[str, Any]]


Types = Annotated[dict[Text, Text], Field(max_length=2_000)]
BoundsByColumn = Annotated[
    dict[Text, Annotated[list[str | StrictInt], Field(min_length=2, max_length=3)]], Field(max_length=2_000)
]
KeysByColumn = Annotated[dict[Text, Annotated[list[Value], Field(max_length=100_000)]], Field(max_length=200)]


class Column(Model):
    """A column that the caller may use.

    Attributes:
        name: The column's name.
        type: The column's type.
        bounds: The declared low end, high end and step, or None.
        keys: The declared public values, or None.
        groupable: Whether the caller may group by the column.
    """

    name: str
    type: str
    bounds: list[str] | None = None
    keys: list[Value] | None = None
    groupable: bool


class RuleModel(RequestModel):
    """One rule of a policy. The first rule that fits an analyst decides.

    Attributes:
        who: "*", "analyst:NAME", "agent:NAME" or "project:NAME".
        columns: The usable columns; None for all.
        group_columns: The columns to group by; None for all.
        discover: Whether groups may be discovered privately.
        own_keys: Whether keys other than the declared ones may be used.
        own_bounds: Whether bounds other than the declared ones may be used.
        max_spend: The largest price of one release, also as text such as "epsilon=0.1", or None.
        allotment: The allotment of an analyst without one, at the first release; or None.
    """

    who: Text = "*"
    columns: list[Text] | None = None
    group_columns: list[Text] | None = None
    discover: StrictBool = True
    own_keys: StrictBool = True
    own_bounds: StrictBool = True
    max_spend: Parts | Text | None = None
    allotment: Parts | Text | None = None


class JoinableTableAnswer(Model):
    """A table that questions may join.

    Attributes:
        name: The table's name in SQL.
        kind: "public", "same_unit" or "owned".
        unit: The column of the units, of a "same_unit" table.
        on: The key of an "owned" table, from the data set's columns to its own.
        columns: The columns that the caller may use.
    """

    name: str
    kind: Literal["public", "same_unit", "owned"]
    unit: str
    on: dict[str, str] = {}
    columns: list[Column]


class DatasetAnswer(Model):
    """A data set with its public facts.

    Attributes:
        name: The name of the data set.
        about: A sentence for analysts.
        unit: The column of the protected units.
        neighbours: "add_remove" or "replace_one".
        rule: The composition rule of the account.
        budget: The caps of the account, by pool.
        spent: The amount that all analysts have spent, by pool.
        remaining: The amount that the caller may still spend, by pool.
        promise: The guarantee of the whole budget, in words.
        columns: The columns that the caller may use.
        tables: The tables that questions may join.
        allowed: The caller's rule, or None for a curator or auditor.
        fault: Why the data set cannot be asked now, or "".
    """

    name: str
    about: str
    unit: str
    neighbours: str
    rule: str
    budget: Amounts
    spent: Amounts
    remaining: Amounts
    promise: str
    columns: list[Column]
    tables: list[JoinableTableAnswer] = []
    allowed: RuleModel | None = None
    fault: str = ""


class TableRequest(RequestModel):
    """A table in a file of the service's folder `data`, with its declared public facts.

    Attributes:
        name: The table's name in SQL.
        file: The bare name of the file.
        table: The table's name in a database file.
        types: Declared types, by column.
        bounds: Declared bounds, by column: low, high and perhaps a step.
        keys: Declared public keys, by column.
        encoding: The encoding of a file of text, such as "latin-1"; by default UTF-8.
    """

    name: Name
    file: Name
    table: Text = ""
    encoding: Text = ""
    types: Types = {}
    bounds: BoundsByColumn = {}
    keys: KeysByColumn = {}


class JoinableTableRequest(TableRequest):
    """A table that questions may join.

    Attributes:
        kind: "public", "same_unit" for rows of the same units, or "owned" for rows that belong by key.
        unit: The column of the units, of a "same_unit" table.
        on: The key of an "owned" table, from the data set's columns to its own.
    """

    kind: Literal["public", "same_unit", "owned"]
    unit: Text = ""
    on: dict[Text, Text] = {}


class Registration(TableRequest):
    """A new data set from a file in the service's folder `data`.

    Attributes:
        unit: The column of the protected units, or "(each row)".
        neighbours: "add_remove" or "replace_one".
        budget: The whole budget, as amounts by name.
        about: A sentence for analysts.
        policy: The rules, of which the first that fits decides.
        tables: The tables that questions may join.
    """

    model_config = _closed(
        {"name": "purchases", "file": "purchases.parquet", "unit": "customer_id", "budget": {"epsilon": "1"}}
    )
    unit: Text
    neighbours: Literal["add_remove", "replace_one"] = "add_remove"
    budget: Parts
    about: Annotated[str, Field(max_length=2_000)] = ""
    policy: Annotated[list[RuleModel], Field(max_length=1_000)] = [RuleModel()]
    tables: Annotated[list[JoinableTableRequest], Field(max_length=50)] = []


class Policy(RequestModel):
    """All rules of a data set, in order."""

    model_config = _closed({"rules": [{"who": "project:census", "max_spend": {"epsilon": "0.1"}}]})
    rules: Annotated[list[RuleModel], Field(max_length=1_000)]
