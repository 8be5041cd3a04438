"""What requests and answers look like, with examples. The OpenAPI document is made from here; amounts are exact text."""

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Json, StrictFloat, StrictInt, StrictStr

from neartwin.errors import BudgetError
from neartwin.statistics.base import ExpectedError

AMOUNT = r"^([0-9]{1,30}(\.[0-9]{1,30})?([eE]-?[0-9]{1,3})?|[0-9]{1,30}/[1-9][0-9]{0,29})$"
Written = Annotated[str, Field(pattern=AMOUNT, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f/]*$")]
Text = Annotated[str, Field(max_length=200)]
Value = StrictStr | StrictInt | StrictFloat | bool | None
Listed = Annotated[list[StrictStr | StrictInt | StrictFloat], Field(max_length=1001)]
Parts = Annotated[dict[str, Written | StrictInt | StrictFloat], Field(max_length=4)]
Role = Literal["curator", "analyst", "auditor"]
Exact = Annotated[str, BeforeValidator(str)]
Amounts = dict[str, Exact]  # by pool


def _closed(*examples: dict[str, Any]) -> ConfigDict:
    """Fields that are not known are refused. examples: of the whole, for the OpenAPI document."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": list(examples)} if examples else None)


class RequestModel(BaseModel):
    """A request: fields that are not known are refused."""

    model_config = _closed()


_REFUSAL = BudgetError("epsilon", Fraction(1, 2), Fraction(1, 4), ("spend at most the remaining 0.25",))


class Fault(BaseModel):
    """Every error has this shape, the same as the terminal's `--json`; parts that it has no use for are empty."""

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
    """Clip bounds that the plan chooses privately within those given, for a share of the spend: `nt.private_range(...)`."""

    share: Written | StrictFloat = "1/10"
    groups: Whole | None = None


class Question(RequestModel):
    """A question as SQL, as parts, or as a choice: give one of sql, statistics, most_common. All come to the same plan."""

    model_config = _closed(
        {
            "where": ["amount > 5"],
            "group_by": ["cds"],
            "keys": {"cds": [1, 2, 3]},
            "statistics": {
                "orders": {"ask": "count"},
                "total": {"ask": "sum", "column": "amount", "low": 0, "high": 200},
            },
        },
        {"sql": "SELECT cds, COUNT(*) AS orders FROM purchases GROUP BY cds", "keys": "declared"},
        {"most_common": {"column": "cds", "among": [1, 2, 3]}},
    )
    sql: Annotated[str, Field(max_length=10_000)] | None = None
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


class PrivateLimit(PrivateRange):
    """A limit that the plan chooses privately, for a share of the spend: `nt.private_limit(...)`."""

    at_most: Annotated[int, Field(ge=1, le=10**6)] = 1024


class Limits(RequestModel):
    """The most that one unit counts for: `nt.limits(...)`."""

    max_rows_per_group: Whole | PrivateLimit | None = None
    max_groups: Whole | PrivateLimit | None = None
    rows: Whole | None = None
    norm: Written | StrictInt | StrictFloat | PrivateLimit | None = None
    max_discovered_groups: Whole | None = None


class Ask(RequestModel):
    """A question, what its release may cost, and the most that one unit counts for.

    importance: of each statistic's error, by name. private_range: of clip bounds of all sums and means of the question.

    Several questions are a series: they share one price, and all are answered, or none.
    """

    model_config = _closed(
        {
            "question": {"group_by": ["cds"], "keys": {"cds": [1, 2]}, "statistics": {"orders": {"ask": "count"}}},
            "spend": {"epsilon": "0.25"},
            "limits": {"max_rows_per_group": 5, "max_groups": 2},
        }
    )
    question: Question | Annotated[list[Question], Field(min_length=2, max_length=50)]
    spend: Parts
    limits: Limits | None = None
    importance: Annotated[dict[Text, Written | StrictInt | StrictFloat], Field(max_length=100)] | None = None
    group_size: Annotated[int, Field(ge=1, le=10**6)] | None = None
    private_range: PrivateRange | None = None


class Tree(BaseModel):
    """A plan as a tree in which every number says why."""

    line: str
    under: list["Tree"]


class Preview(BaseModel):
    """Cost, expected error, and the budget before and after, by pool. Free: it follows from the plan alone."""

    price: dict[str, str]
    before: dict[str, str]
    after: dict[str, str]
    affordable: bool
    errors: list[ExpectedError]
    says: str


class Plan(Preview):
    """What a release would do and cost. question: its canonical parts, whichever way it was asked; questions: of a series."""

    digest: str
    explanation: Tree
    question: dict[str, Any]
    questions: list[dict[str, Any]] | None = None


class JobState(BaseModel):
    """A release under way: queued, running, done. position: of its record in the ledger. release or error when done.

    releases: all those of a series, the first of which is `release`.
    """

    job: str
    state: Literal["queued", "running", "done"]
    position: int | None = None
    release: dict[str, Any] | None = None
    releases: list[dict[str, Any]] | None = None
    error: Fault | None = None


class ReleaseAnswer(BaseModel):
    """A stored release, served for nothing. release: as `Release.from_json` reads it. parts: how many a series has."""

    position: int
    release: dict[str, Any]
    parts: int = 1


class Target(RequestModel):
    """An amount of budget."""

    model_config = _closed({"target": {"epsilon": "0.5"}})
    target: Parts


class Raise(Target):
    """New caps of an account, and why."""

    model_config = _closed({"target": {"epsilon": "2"}, "reason": "approved by the board"})
    reason: Annotated[str, Field(max_length=1_000)] = ""


class Allotment(BaseModel):
    """What one holder may spend of a data set, by pool."""

    holder: str
    cap: Annotated[Amounts, Field(validation_alias="caps")]
    spent: Amounts


class Entry(BaseModel):
    """One record of the ledger, as `neartwin.ledger.Entry` has it."""

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
    """A head that was kept elsewhere, or "" for none."""

    model_config = _closed({"head": ""})
    head: Annotated[str, Field(max_length=100)] = ""


class LedgerFault(BaseModel):
    """What is wrong with a record, or with what a record made. position: of the record, or 0."""

    kind: str
    position: int
    message: str


class Verdict(BaseModel):
    """What verifying the whole ledger found."""

    whole: bool
    head: Exact
    faults: list[LedgerFault]


class TokenWish(RequestModel):
    """A token to be made. days: until it expires."""

    model_config = _closed({"name": "ada", "role": "analyst", "project": "census", "days": 90})
    name: Name
    role: Role
    project: Annotated[str, Field(max_length=100)] = ""
    days: Annotated[int, Field(ge=1, le=3_650)] = 90


class NewToken(BaseModel):
    """A new token. token: its text, shown this once."""

    id: str
    name: str
    role: Role
    project: str
    created: str
    expires: str
    revoked: str
    token: str


class Me(BaseModel):
    """Who the caller is. csrf: for a browser's session, what must come with whatever changes something."""

    name: str
    role: Role
    project: str
    expires: str
    csrf: str = ""


class SignIn(RequestModel):
    """A token, for a session in a browser."""

    model_config = _closed({"token": "nt_0123456789abcdef_..."})
    token: Annotated[str, Field(max_length=500)]


class Act(BaseModel):
    """What a curator did, as the ledger's chain has it."""

    position: int
    hash: str
    time: str
    who: str
    what: str
    body: Json[dict[str, Any]]


class Health(BaseModel):
    """Whether the service and its database answer."""

    status: Literal["ok"]
    version: str


Types = Annotated[dict[Text, Text], Field(max_length=2_000)]
BoundsByColumn = Annotated[
    dict[Text, Annotated[list[str | StrictInt], Field(min_length=2, max_length=3)]], Field(max_length=2_000)
]
KeysByColumn = Annotated[dict[Text, Annotated[list[Value], Field(max_length=100_000)]], Field(max_length=200)]


class Column(BaseModel):
    """A column that the caller may use. bounds: declared [low, high, step]; keys: declared public values."""

    name: str
    type: str
    bounds: list[str] | None = None
    keys: list[Value] | None = None
    groupable: bool


class RuleModel(RequestModel):
    """One rule of a policy: the first that fits an asker decides. who: "*", "analyst:NAME" or "project:NAME"."""

    who: Text = "*"
    columns: list[Text] | None = None
    group_columns: list[Text] | None = None
    discover: bool = True
    own_keys: bool = True
    own_bounds: bool = True
    max_spend: Parts | None = None
    allotment: Parts | None = None


class JoinableTableAnswer(BaseModel):
    """A table that questions may join. kind: whose rows it holds. unit: of a table of the same units, its column of them."""

    name: str
    kind: Literal["public", "same_unit", "owned"]
    unit: str
    columns: list[Column]


class DatasetAnswer(BaseModel):
    """A data set with all that is public of it. remaining: what the caller may still spend, by pool."""

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


class TableRequest(RequestModel):
    """A table in a file of the service's folder `data`, by its bare name, and what is declared public of it."""

    name: Name
    file: Name
    table: Text = ""
    types: Types = {}
    bounds: BoundsByColumn = {}
    keys: KeysByColumn = {}


class JoinableTableRequest(TableRequest):
    """A table to be joined: public, of the same units, or owned by key."""

    kind: Literal["public", "same_unit", "owned"]
    unit: Text = ""


class Registration(TableRequest):
    """A new data set from a file that lies in the service's folder `data`, by its bare name."""

    model_config = _closed(
        {
            "name": "purchases",
            "file": "purchases.parquet",
            "unit": "customer_id",
            "budget": {"epsilon": "1"},
            "bounds": {"amount": ["0", "200"]},
            "keys": {"cds": [1, 2, 3]},
            "policy": [{"who": "*", "allotment": {"epsilon": "0.5"}}],
        }
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
