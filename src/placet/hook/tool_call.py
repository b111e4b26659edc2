"""A tool call as the model asked for it, and how its arguments are read; nothing here runs one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from placet.errors import InvalidFeedback

Arguments = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call of one turn. `id` is the model's own name for it and keys everything that follows."""

    id: str
    name: str
    arguments: Arguments = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The call as it stands in a message."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


def read_arguments(given: Any) -> Arguments:
    """Arguments as a dict, from a dict or from JSON text of an object; raises InvalidFeedback."""
    if type(given) is dict:
        return dict(given)
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except (ValueError, RecursionError) as error:
            raise InvalidFeedback(f"The arguments are not JSON: {error}.") from error
    if not isinstance(given, Mapping):
        raise InvalidFeedback("The arguments must be an object: names and their values.")
    return dict(given)


def find_json_problem(value: Any) -> str | None:
    """What keeps a value from travelling as JSON, such as NaN, half a character, or an object of Python's."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    return None
