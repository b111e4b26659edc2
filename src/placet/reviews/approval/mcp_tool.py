"""The MCP tool that asks for an approval."""

from typing import Annotated, Any

from pydantic import Field

from placet.errors import ValidationFailed
from placet.reviews.tool_arguments import NO_FACTS

TITLE = "Ask for an approval"
USE_WHEN = "you made something, and ask whether it may be used as it is. Show all of it."

Text = Annotated[
    str, Field(description="What is to be approved, whole and exact: a mail, a command, a text, a diff.")
]
PartsArgument = Annotated[
    dict[str, Any],
    Field(description='Or its named parts instead of text, such as {"to": …, "subject": …, "body": …}.'),
]


def build_context(text: Text = "", parts: PartsArgument = NO_FACTS) -> dict[str, Any]:
    """Ask a person whether something you made may go out: approve, edit or reject.

    Only an action of approve is a yes, and only to exactly what was shown.
    """
    if text and parts:
        raise ValidationFailed("Pass what is to be approved as text or as parts, not as both.")
    return {"artifact": text or parts}
