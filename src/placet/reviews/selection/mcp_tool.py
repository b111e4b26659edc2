"""The MCP tool that asks a person to choose."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from placet.reviews.tool_arguments import NONE, dump_models

TITLE = "Ask for a choice"
USE_WHEN = "you found several options, and ask which to use. Say how they differ."


class OptionArgument(BaseModel):
    """One option; its other members are shown on its card."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(min_length=1, max_length=500, description="The id of the option in data.selected.")
    title: str = Field(min_length=1, description="What the person reads.")
    description: str = Field("", description="One more sentence.")


Options = Annotated[
    list[OptionArgument], Field(min_length=1, max_length=1000, description="The options to choose from.")
]
Least = Annotated[int, Field(ge=0, le=1000, description="The minimum number of selections.")]
Most = Annotated[int, Field(ge=1, le=1000, description="The maximum number of selections.")]
Recommended = Annotated[list[str], Field(description="The ids you recommend; nothing is preselected.")]


def build_context(
    options: Options, min_selections: Least = 1, max_selections: Most = 1, recommended: Recommended = NONE
) -> dict[str, Any]:
    """Ask a person to choose one or several of the options; data.selected holds their ids."""
    return {
        "options": dump_models(options),
        "min_selections": min_selections,
        "max_selections": max(min_selections, max_selections),
        "recommended": recommended,
    }
