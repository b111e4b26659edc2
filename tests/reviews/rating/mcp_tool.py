"""The MCP tool that asks for a rating."""

from typing import Annotated, Any

from pydantic import Field

TITLE = "Ask for a rating"
USE_WHEN = "you want to know how good something is. Name what is rated."
Subject = Annotated[str, Field(min_length=1, description="What is rated.")]


def build_context(subject: Subject) -> dict[str, Any]:
    """Ask a person for a rating."""
    return {"subject": subject}
