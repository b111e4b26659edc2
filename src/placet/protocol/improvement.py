"""Suggestions that a service adds to a final response, so that the next request has better data."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from placet.errors import ValidationFailed

Priority = Literal["high", "medium", "low"]

MAX_CYCLES = 2
MAX_TEXT_LENGTH = 500

_ORDER: dict[str, int] = {"high": 0, "medium": 1, "low": 2}
_TEXTS = ("field", "issue", "agent_action", "impact")


class Suggestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to improve, what the agent should ask its user, and the benefit.

    Raises `ValidationFailed` if a text is empty or too long, or the priority is unknown.
    """

    field: str
    issue: str
    agent_action: str
    impact: str
    priority: Priority

    def __post_init__(self) -> None:
        if self.priority not in tuple(_ORDER):
            raise ValidationFailed("priority must be high, medium or low.", path="priority")
        for name in _TEXTS:
            _check_text(name, getattr(self, name))


def improvement_suggestions(suggestions: Sequence[Suggestion], cycle: int) -> dict[str, Any]:
    """Return the `improvement_suggestions` member of a response body, most urgent first.

    `cycle` counts the improvements already made: after two the list is empty, so that the agent stops.
    Raises `ValidationFailed` for a negative cycle.
    """
    if cycle < 0:
        raise ValidationFailed("cycle must be 0 or more.", path="cycle")
    offered = (
        sorted(suggestions, key=lambda suggestion: _ORDER[suggestion.priority]) if cycle < MAX_CYCLES else []
    )
    return {"improvement_suggestions": msgspec.to_builtins(offered)}


def _check_text(name: str, text: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT_LENGTH:
        raise ValidationFailed(f"{name} must be 1 to {MAX_TEXT_LENGTH} characters.", path=name)
