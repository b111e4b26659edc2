"""Reading A2A's JSON in any dialect's spelling, and every text in it that someone could hide something in.

Agents differ in which spellings they accept, so that a relay that knew only the right one could be passed by.
Reading is therefore the union of all dialects, and what is spelled twice is refused.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from assent.relay.a2a.dialects import ROLES, STATES, Role, State
from assent.relay.a2a.problems import A2AProblem

Json = dict[str, Any]
MAX_DEPTH = 64

TASK_ID = ("taskId", "task_id")
CONTEXT_ID = ("contextId", "context_id")
MESSAGE_ID = ("messageId", "message_id")
REFERENCES = ("referenceTaskIds", "reference_task_ids")
MESSAGE = ("message", "request", "msg")
STATUS_UPDATE = ("statusUpdate", "status_update")
ARTIFACT_UPDATE = ("artifactUpdate", "artifact_update")

# Structure rather than content: ids, names of types, and file content, which is told of as opaque.
STRUCTURE = frozenset(
    {"kind", "role", "mimeType", "mime_type", "mediaType", "media_type", "extensions"}
    | {"artifactId", "artifact_id", *TASK_ID, *CONTEXT_ID, *MESSAGE_ID, *REFERENCES}
)
OPAQUE = frozenset({"bytes", "raw", "fileWithBytes", "file_with_bytes"})
FREE = frozenset({"data", "metadata"})


class Piece(Struct, frozen=True):
    """One text of a message, where it stands, and whether it is a value or the name of one."""

    path: str
    text: str
    role: Literal["value", "key"] = "value"


def text_of(holder: Any, names: Iterable[str]) -> str | None:
    """The text under any of these names; refuses two of them at once, and anything that is no text."""
    found = only(holder, names)
    if found is not None and not isinstance(found, str):
        raise A2AProblem("params", f"{next(iter(names))} must be text.")
    return found or None


def only(holder: Any, names: Iterable[str]) -> Any:
    """What stands under one of these names; refuses two spellings of one field."""
    if not isinstance(holder, dict):
        return None
    place = None
    for name in names:
        if name in holder:
            if place is not None:
                raise A2AProblem("params", f"{next(iter(names))} is spelled in two ways at once.")
            place = name
    return None if place is None else holder[place]


def object_of(holder: Any, names: Iterable[str]) -> Json | None:
    """The object under any of these names, or None."""
    found = only(holder, names)
    return found if isinstance(found, dict) else None


def state_of(status: Any) -> State | None:
    """The state in a status, in our own spelling; what no dialect knows is unknown."""
    word = status.get("state") if isinstance(status, dict) else None
    return STATES.get(word, "unknown") if isinstance(word, str) else None


def role_of(message: Json) -> Role | None:
    """Who wrote a message; None if it does not say."""
    role = message.get("role")
    return ROLES.get(role) if isinstance(role, str) else None


def texts_in(value: Any, path: str) -> Iterator[Piece]:
    """Every text in a message, an artifact or a piece of them, in order, with its path."""
    found: list[Piece] = []
    _collect(value, path, found, [], free=False, depth=0)
    return iter(found)


def opaque_in(value: Any, path: str) -> list[str]:
    """Where content stands that is no text: nobody could read it."""
    hidden: list[str] = []
    _collect(value, path, [], hidden, free=False, depth=0)
    return hidden


def _collect(value: Any, path: str, found: list[Piece], hidden: list[str], *, free: bool, depth: int) -> None:
    """Below `data` and `metadata` names are free, so that none of them is structure and all of them count."""
    if depth > MAX_DEPTH:
        raise A2AProblem("params", f"The message is nested more than {MAX_DEPTH} deep.")
    if isinstance(value, str):
        if value:
            found.append(Piece(path, value))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _collect(item, f"{path}[{index}]", found, hidden, free=free, depth=depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            place = f"{path}.{name}"
            if free:
                found.append(Piece(place, name, "key"))
            elif name in OPAQUE and isinstance(item, str):
                hidden.append(place)
                continue
            elif name in STRUCTURE and not isinstance(item, dict):
                continue
            _collect(item, place, found, hidden, free=free or name in FREE, depth=depth + 1)
