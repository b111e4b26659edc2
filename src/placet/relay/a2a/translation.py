"""Translate tasks, messages and parts from one dialect into another."""

from typing import Any

from placet.relay.a2a.dialects import Dialect, format_role, format_state
from placet.relay.a2a.json_fields import Json, get_role, get_state


def translate_task(task: Json, told: Dialect, dialect: Dialect) -> Json:
    """A task that was told in one dialect as another one tells it; the very same where they are one."""
    if told == dialect:
        return task
    found = {name: value for name, value in task.items() if name != "kind"}
    if isinstance(task.get("status"), dict):
        found["status"] = _translate_status(task["status"], dialect)
    if isinstance(task.get("artifacts"), list):
        found["artifacts"] = [
            _translate_artifact(one, dialect) for one in task["artifacts"] if isinstance(one, dict)
        ]
    if isinstance(task.get("history"), list):
        found["history"] = [
            translate_message(one, dialect) for one in task["history"] if isinstance(one, dict)
        ]
    return found if dialect.proto else {"kind": "task", **found}


def translate_message(message: Json, dialect: Dialect) -> Json:
    """A message in this dialect."""
    found = {name: value for name, value in message.items() if name not in ("kind", "parts", "content")}
    role = get_role(message)
    if role is not None:
        found["role"] = format_role(role, dialect)
    parts = [translate_part(part, dialect) for part in get_parts(message)]
    found["content" if dialect.legacy and dialect.proto else "parts"] = parts
    return found if dialect.proto else {"kind": "message", **found}


def _translate_status(status: Json, dialect: Dialect) -> Json:
    found, state = dict(status), get_state(status)
    if state is not None:
        found["state"] = format_state(state, dialect)
    if isinstance(status.get("message"), dict):
        found["message"] = translate_message(status["message"], dialect)
    return found


def _translate_artifact(artifact: Json, dialect: Dialect) -> Json:
    return artifact | {"parts": [translate_part(part, dialect) for part in get_parts(artifact)]}


def get_parts(message: Json) -> list[Json]:
    """The parts of a message or an artifact, whatever they are called."""
    found = message.get("parts", message.get("content"))
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def translate_part(part: Json, dialect: Dialect) -> Json:
    """The part in this dialect; what has no equivalent is kept as it is."""
    kept = {"metadata": part["metadata"]} if "metadata" in part else {}
    if isinstance(part.get("text"), str):
        return ({} if dialect.proto else {"kind": "text"}) | {"text": part["text"]} | kept
    file = _parse_file(part)
    if file is not None:
        return _build_file_part(file, dialect) | kept
    if "data" in part:
        return _build_data_part(part["data"], part.get("kind"), dialect) | kept
    return part


def _parse_file(part: Json) -> dict[str, Any] | None:
    """A file by our own names: uri or bytes, name, type."""
    inner = part.get("file")
    if isinstance(inner, dict):
        names = {
            "uri": ("uri", "fileWithUri", "file_with_uri"),
            "bytes": ("bytes", "fileWithBytes", "file_with_bytes"),
            "name": ("name",),
            "type": ("mimeType", "mime_type"),
        }
    elif "raw" in part or "url" in part:
        inner = part
        names = {
            "uri": ("url",),
            "bytes": ("raw",),
            "name": ("filename",),
            "type": ("mediaType", "media_type"),
        }
    else:
        return None
    found = {
        ours: next((inner[one] for one in theirs if one in inner), None) for ours, theirs in names.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def _build_file_part(file: dict[str, Any], dialect: Dialect) -> Json:
    if not dialect.legacy:
        names = {"uri": "url", "bytes": "raw", "name": "filename", "type": "mediaType"}
        return {names[name]: value for name, value in file.items()}
    names = {"uri": "uri", "bytes": "bytes", "name": "name", "type": "mimeType"}
    if dialect.proto:
        names |= {"uri": "fileWithUri", "bytes": "fileWithBytes"}
    inner = {names[name]: value for name, value in file.items()}
    return {"file": inner} if dialect.proto else {"kind": "file", "file": inner}


def _build_data_part(data: Any, kind: Any, dialect: Dialect) -> Json:
    # 0.3 over HTTP wraps its data once more, and is the only one without a kind to do so.
    bare = data["data"] if kind is None and isinstance(data, dict) and set(data) == {"data"} else data
    if not dialect.legacy:
        return {"data": bare}
    return {"data": {"data": bare}} if dialect.proto else {"kind": "data", "data": bare}
