"""Reading A2A's JSON in any dialect's spelling.

Agents differ in which spellings they accept, so that a relay that knew only the right one could be passed by.
Reading is therefore the union of all dialects, and what is spelled twice is refused.
"""

from collections.abc import Iterable
from typing import Any

from placet.relay.a2a.dialects import ROLES, Role, State, parse_state
from placet.relay.a2a.errors import A2AError

Json = dict[str, Any]

TASK_ID = ("taskId", "task_id")
CONTEXT_ID = ("contextId", "context_id")
MESSAGE_ID = ("messageId", "message_id")
REFERENCES = ("referenceTaskIds", "reference_task_ids")
MESSAGE = ("message", "request", "msg")
STATUS_UPDATE = ("statusUpdate", "status_update")
ARTIFACT_UPDATE = ("artifactUpdate", "artifact_update")


def get_text(holder: Any, names: Iterable[str]) -> str | None:
    """The text under any of these names; refuses two of them at once, and anything that is no text."""
    found = get_single(holder, names)
    if found is not None and not isinstance(found, str):
        raise A2AError("params", f"{next(iter(names))} must be text.")
    return found or None


def get_single(holder: Any, names: Iterable[str]) -> Any:
    """What stands under one of these names; refuses two spellings of one field."""
    if not isinstance(holder, dict):
        return None
    place = None
    for name in names:
        if name in holder:
            if place is not None:
                raise A2AError("params", f"{next(iter(names))} is spelled in two ways at once.")
            place = name
    return None if place is None else holder[place]


def get_object(holder: Any, names: Iterable[str]) -> Json | None:
    """The object under any of these names, or None."""
    found = get_single(holder, names)
    return found if isinstance(found, dict) else None


def get_state(status: Any) -> State | None:
    """The state in a status, in our own spelling; what no dialect knows is unknown."""
    return parse_state(status.get("state")) if isinstance(status, dict) else None


def get_role(message: Json) -> Role | None:
    """Who wrote a message; None if it does not say."""
    role = message.get("role")
    return ROLES.get(role) if isinstance(role, str) else None
