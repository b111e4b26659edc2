"""The MCP tool that asks how to continue after a failure."""

from typing import Annotated, Any

from pydantic import Field

from placet.reviews.tool_arguments import NO_FACTS, NONE

TITLE = "Ask how to continue after a failure"
USE_WHEN = "something failed, and you ask whether to retry, skip or abort. Say what you recommend."

ErrorText = Annotated[str, Field(min_length=1, description="What went wrong, in words.")]
Log = Annotated[str, Field(description="The lines of output that help to understand it.")]
ParamsArgument = Annotated[dict[str, Any], Field(description="What a retry may change, by name.")]
Suggestions = Annotated[list[str], Field(max_length=20, description="What you suggest to do.")]


def build_context(
    error: ErrorText, log: Log = "", params: ParamsArgument = NO_FACTS, suggestions: Suggestions = NONE
) -> dict[str, Any]:
    """Tell a person that something failed, and ask how to continue: retry, skip or abort."""
    return {"error": error, "log": log, "params": params, "suggestions": suggestions}
