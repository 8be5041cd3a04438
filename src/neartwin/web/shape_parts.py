"""Parts that requests and answers are made of."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

AMOUNT = r"^([0-9]{1,30}(\.[0-9]{1,30})?([eE]-?[0-9]{1,3})?|[0-9]{1,30}/[1-9][0-9]{0,29})$"
Written = Annotated[str, Field(pattern=AMOUNT, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f/]*$")]
Text = Annotated[str, Field(max_length=200)]
Value = StrictStr | StrictInt | StrictFloat | bool | None
Listed = Annotated[list[StrictStr | StrictInt | StrictFloat], Field(max_length=1001)]
Parts = Annotated[dict[str, Written | StrictInt | StrictFloat], Field(max_length=4)]
Role = Literal["curator", "analyst", "auditor"]


class Shape(BaseModel):
    """A request: fields that are not known are refused."""

    model_config = ConfigDict(extra="forbid")
