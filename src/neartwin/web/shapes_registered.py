# ruff: noqa: RUF012 - models copy their defaults
"""What is registered, as requests and answers say it: data sets, tables beside them, policies."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from neartwin.web.shape_parts import Name, Parts, Shape, Text, Value

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


class RuleShape(Shape):
    """One rule of a policy: the first that fits an asker decides. who: "*", "analyst:NAME" or "project:NAME"."""

    who: Text = "*"
    columns: list[Text] | None = None
    group_columns: list[Text] | None = None
    discover: bool = True
    own_keys: bool = True
    own_bounds: bool = True
    max_spend: Parts | None = None
    allotment: Parts | None = None


class SideAnswer(BaseModel):
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
    budget: dict[str, str]
    spent: dict[str, str]
    remaining: dict[str, str]
    promise: str
    columns: list[Column]
    tables: list[SideAnswer] = []
    allowed: RuleShape | None = None


class SideWish(Shape):
    """A table to be joined, from a file of the service's folder `data`: public, of the same units, or owned by key."""

    name: Name
    file: Name
    kind: Literal["public", "same_unit", "owned"]
    table: Text = ""
    unit: Text = ""
    types: Types = {}
    bounds: BoundsByColumn = {}
    keys: KeysByColumn = {}


class Registration(Shape):
    """A new data set from a file that lies in the service's folder `data`, by its bare name."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "name": "purchases",
                "file": "purchases.parquet",
                "unit": "customer_id",
                "budget": {"epsilon": "1"},
                "bounds": {"amount": ["0", "200"]},
                "keys": {"cds": [1, 2, 3]},
                "policy": [{"who": "*", "allotment": {"epsilon": "0.5"}}],
            }
        },
    )
    name: Name
    file: Name
    table: Text = ""
    unit: Text
    neighbours: Literal["add_remove", "replace_one"] = "add_remove"
    types: Types = {}
    bounds: BoundsByColumn = {}
    keys: KeysByColumn = {}
    budget: Parts
    about: Annotated[str, Field(max_length=2_000)] = ""
    policy: Annotated[list[RuleShape], Field(max_length=1_000)] = [RuleShape()]
    tables: Annotated[list[SideWish], Field(max_length=50)] = []


class Policy(Shape):
    """All rules of a data set, in order."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"rules": [{"who": "project:census", "max_spend": {"epsilon": "0.1"}}]}},
    )
    rules: Annotated[list[RuleShape], Field(max_length=1_000)]
