"""Recognise a message that an agent repeats, by the digest of its content."""

import hashlib
from typing import Any

import msgspec

from placet.relay.a2a.dialects import ROLES
from placet.relay.a2a.json_fields import CONTEXT_ID, TASK_ID, Json, get_role
from placet.relay.a2a.text_extraction import MAX_DEPTH

CALL_FIELDS = frozenset({*TASK_ID, *CONTEXT_ID})
"""The fields that the relay or the agent may set in a message. A digest does not cover them."""
MAX_EXACT_FLOAT = 2.0**53
PART_KINDS = frozenset({"text", "data", "file"})
NAMES = {
    "message_id": "messageId",
    "content": "parts",
    "reference_task_ids": "referenceTaskIds",
    "bytes": "raw",
    "fileWithBytes": "raw",
    "file_with_bytes": "raw",
    "uri": "url",
    "fileWithUri": "url",
    "file_with_uri": "url",
    "name": "filename",
    "mimeType": "mediaType",
    "mime_type": "mediaType",
    "media_type": "mediaType",
}
"""The names that a dialect has for a field of another dialect."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def digest_message(message: Json) -> str:
    """Return the digest of a message's content. It is the same in every dialect.

    It covers everything except the role and `CALL_FIELDS`.
    """
    content: Json = {}
    for name, value in message.items():
        if name in CALL_FIELDS or _is_constant(name, value, "message"):
            continue
        has_parts = name in ("parts", "content") and isinstance(value, list)
        _add(content, name, [_normalize_part(part) for part in value] if has_parts else value)
    return hashlib.sha256(_encode(content)).hexdigest()


def list_user_messages(task: Json) -> frozenset[str]:
    """Return the digests of the messages in a task's history that claim to be the user's."""
    history = task.get("history")
    messages = history if isinstance(history, list) else []
    return frozenset(
        digest_message(message)
        for message in messages
        if isinstance(message, dict) and get_role(message) == "user"
    )


def _normalize_part(part: Any) -> Any:
    """Return a part with the field names of A2A 1.0 and without wrappers."""
    if not isinstance(part, dict):
        return part
    content: Json = {}
    for name, value in part.items():
        if name == "kind" and isinstance(value, str) and value in PART_KINDS:
            continue
        if name == "file" and isinstance(value, dict) and not set(value) & set(part):
            for inner, item in value.items():
                _add(content, inner, item)
        elif name == "data" and isinstance(value, dict) and set(value) == {"data"}:
            _add(content, name, value["data"])
        else:
            _add(content, name, value)
    return content


def _add(content: Json, name: str, value: Any) -> None:
    """Add a field under the name of A2A 1.0, unless it is empty. No field replaces another."""
    if value is None or value == "" or value == [] or value == {}:
        return
    new_name = NAMES.get(name, name)
    content[name if new_name in content else new_name] = _normalize_value(value, MAX_DEPTH)


def _normalize_value(value: Any, levels: int) -> Any:
    """Return the value with whole numbers as integers, because protocol buffers have only floats."""
    if isinstance(value, float) and abs(value) <= MAX_EXACT_FLOAT and value.is_integer():
        return int(value)
    if levels and isinstance(value, list):
        return [_normalize_value(item, levels - 1) for item in value]
    if levels and isinstance(value, dict):
        return {name: _normalize_value(item, levels - 1) for name, item in value.items()}
    return value


def _is_constant(name: str, value: Any, kind: str) -> bool:
    return isinstance(value, str) and (
        (name == "role" and value in ROLES) or (name == "kind" and value == kind)
    )
