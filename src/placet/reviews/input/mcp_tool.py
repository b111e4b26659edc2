"""The MCP tool that asks a person for information."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from placet.errors import ValidationFailed
from placet.reviews.tool_arguments import NONE, dump_model, dump_models

TITLE = "Ask for information"
USE_WHEN = "you lack information. Ask for all of it in one form. Never ask for passwords or keys."


class FieldOption(BaseModel):
    """One choice of a select or multiselect."""

    value: str
    label: str


class Condition(BaseModel):
    """A condition on the answer to an earlier question; without it, this one is not asked."""

    model_config = ConfigDict(extra="forbid")

    field: str = Field(min_length=1, description="The key of the earlier question.")
    operator: Literal["eq", "neq", "in", "gt", "lt"] = "eq"
    value: Any


class FormField(BaseModel):
    """One question of a form."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(min_length=1, description="The name of the answer in data.")
    label: str = Field(min_length=1, max_length=200, description="What the person reads.")
    type: Literal[
        "text", "textarea", "number", "date", "email", "url", "boolean", "select", "multiselect", "range"
    ] = "text"
    required: bool = True
    hint: str = Field("", max_length=2000, description="A sentence of help.")
    placeholder: str = Field("", max_length=2000)
    sensitive: bool = Field(False, description="Masked while it is typed. You still get the answer.")
    default: Any = Field(None, description="The value before the person changes it.")
    options: list[FieldOption] = Field([], description="For select and multiselect.")
    validation: dict[str, Any] = Field({}, description="minLength, maxLength, pattern, min or max.")
    conditional: Condition | None = Field(
        None, description="Ask only if an earlier answer meets this condition."
    )


class FormStepArgument(BaseModel):
    """One page of a form with several."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=200, description="The heading that the person reads.")
    description: str = Field("", max_length=2000, description="One more sentence.")
    fields: list[FormField] = Field(
        [], max_length=200, description="Its questions; without any, the page is a summary."
    )


Fields = Annotated[
    list[FormField],
    Field(max_length=200, description="The form; without fields, the person gets one text box."),
]
Steps = Annotated[
    list[FormStepArgument],
    Field(max_length=20, description="A long form with several pages, instead of fields."),
]


def build_context(fields: Fields = NONE, steps: Steps = NONE) -> dict[str, Any]:
    """Ask a person for information that you do not have, as a form; data holds the answers by key.

    Do not ask for passwords or keys: the answers come to you. Without fields, data.answer is a text.
    """
    if fields and steps:
        raise ValidationFailed("Pass the form as fields or as steps, not as both.")
    if steps:
        pages = [{**dump_model(one), "fields": dump_models(one.fields)} for one in steps]
        return {"form": {"steps": pages}}
    return {"form": {"fields": dump_models(fields)}} if fields else {}
