"""The MCP tool that asks for confirmation before something is done."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from placet.reviews.tool_arguments import NONE, dump_models

TITLE = "Ask for a confirmation"
USE_WHEN = "you are about to act. Name each thing that is affected. Say if it cannot be undone."


class Item(BaseModel):
    """One thing to be confirmed; whatever else it holds is shown beside it."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(min_length=1, max_length=500, description="The id of the item in data.confirmed_items.")
    label: str = Field(min_length=1, description="What the person reads.")


Items = Annotated[
    list[Item], Field(max_length=1000, description="The items to confirm. The person ticks each.")
]
AllowPartial = Annotated[bool, Field(description="Whether some items may be confirmed without the others.")]
Irreversible = Annotated[bool, Field(description="Say true if it cannot be undone.")]
Warning_ = Annotated[str, Field(max_length=2000, description="A warning to read before confirming.")]
ConfirmWord = Annotated[
    str,
    Field(
        max_length=100,
        description="A word that the person must type. Use it if a mistake would do great harm.",
    ),
]


def build_context(
    items: Items = NONE,
    allow_partial: AllowPartial = False,
    irreversible: Irreversible = False,
    warning: Warning_ = "",
    confirm_word: ConfirmWord = "",
) -> dict[str, Any]:
    """Ask a person to confirm or cancel, right before you do something that matters.

    Only an action of confirm is a yes; with items, only for those in data.confirmed_items.
    """
    return {
        "items": dump_models(items),
        "allow_partial": allow_partial or None,
        "irreversible": irreversible or None,
        "warning": warning,
        "confirm_word": confirm_word,
    }
