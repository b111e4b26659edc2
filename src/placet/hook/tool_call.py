"""A tool call as the model requested it, and parsing of its arguments; nothing here runs a call."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from placet.errors import InvalidFeedback

Arguments = dict[str, Any]
Schemas = Mapping[str, Mapping[str, Any] | None]
"""Tool -> its JSON Schema."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call of one turn.

    `id` is the model's own id of the call; everything about the call is keyed by it.
    """

    id: str
    name: str
    arguments: Arguments = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the call as it appears in a message."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


def read_arguments(given: Any) -> Arguments:
    """Return arguments as a dict, from a dict or from JSON text of an object; raises InvalidFeedback.

    Text that another parser could read as other arguments is refused.
    """
    if type(given) is dict:
        return dict(given)
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}", object_pairs_hook=_build_object)
        except (ValueError, RecursionError) as error:
            raise InvalidFeedback(f"The arguments are not JSON: {error}.") from error
        if trouble := find_json_problem(given):
            raise InvalidFeedback(f"The arguments are not JSON: {trouble}.")
    if not isinstance(given, Mapping):
        raise InvalidFeedback("arguments: must be a JSON object that maps names to values.")
    return dict(given)


def find_json_problem(value: Any) -> str | None:
    """Return why a value cannot be encoded as JSON (NaN, a lone surrogate, a Python object), or None."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    return None


def _build_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members as a dict; raises ValueError if two have the same name."""
    built = dict(members)
    if len(built) != len(members):
        raise ValueError("an object has two members with the same name")
    return built
