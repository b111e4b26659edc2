"""Read fields of A2A's JSON in the spelling of any dialect.

Agents accept different spellings. The relay reads all of them, because a spelling that it did not know would
bypass inspection. It rejects a field with two spellings in one object.
"""

from collections.abc import Iterable
from typing import Any

from placet.relay.a2a.dialects import ROLES, Role, TaskState, parse_state
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
    """Return the string under one of the names, or None.

    Raises A2AError if two of the names are present, or if the value is not a string.
    """
    found = get_single(holder, names)
    if found is not None and not isinstance(found, str):
        raise A2AError("params", f"{next(iter(names))} must be a string.")
    return found or None


def get_single(holder: Any, names: Iterable[str]) -> Any:
    """Return the value under one of the names, or None. Raises A2AError if two of them are present."""
    if not isinstance(holder, dict):
        return None
    present = None
    for name in names:
        if name in holder:
            if present is not None:
                raise A2AError(
                    "params", f"{next(iter(names))} is present in two spellings. Send only one of them."
                )
            present = name
    return None if present is None else holder[present]


def get_object(holder: Any, names: Iterable[str]) -> Json | None:
    """Return the object under one of the names, or None. Raises A2AError if two of them are present."""
    found = get_single(holder, names)
    return found if isinstance(found, dict) else None


def get_state(status: Any) -> TaskState | None:
    """Return the state in a status, "unknown" if no dialect defines it, or None if there is none."""
    return parse_state(status.get("state")) if isinstance(status, dict) else None


def get_role(message: Json) -> Role | None:
    """Return the role of a message, or None if it has no valid role."""
    role = message.get("role")
    return ROLES.get(role) if isinstance(role, str) else None
