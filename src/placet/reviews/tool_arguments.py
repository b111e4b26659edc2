"""What the MCP tools of several review types share in their arguments."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

# Defaults for arguments that were left out; never written to.
NO_FACTS: dict[str, Any] = {}
NONE: list[Any] = []


def dump_models(models: Iterable[BaseModel]) -> list[dict[str, Any]]:
    """Return each model as a dict without empty values."""
    return [dump_model(one) for one in models]


def dump_model(model: BaseModel) -> dict[str, Any]:
    """Return the model as a dict without empty values."""
    return drop_empty(model.model_dump(mode="json"))


def drop_empty(given: dict[str, Any]) -> dict[str, Any]:
    """Return the members that are not empty. Zero and False are not empty."""
    return {name: value for name, value in given.items() if value not in ("", None, [], {})}
