"""The MCP tool that asks for a rating."""

from typing import Annotated, Any

from pydantic import Field

TITLE = "Ask for a rating"
Subject = Annotated[str, Field(description="What is rated.")]


def build_context(subject: Subject) -> dict[str, Any]:
    """Ask a person for a rating."""
    return {"subject": subject}
