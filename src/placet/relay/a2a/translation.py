"""Translate tasks, messages and parts from one dialect into another."""

from typing import Any

from placet.relay.a2a.dialects import Dialect, format_role, format_state
from placet.relay.a2a.json_fields import Json, get_role, get_state


def translate_task(task: Json, source: Dialect, dialect: Dialect) -> Json:
    """Return a task of the `source` dialect in `dialect`; the same object if the two are equal."""
    if source == dialect:
        return task
    translated = {name: value for name, value in task.items() if name != "kind"}
    if isinstance(task.get("status"), dict):
        translated["status"] = _translate_status(task["status"], dialect)
    if isinstance(task.get("artifacts"), list):
        translated["artifacts"] = [
            _translate_artifact(artifact, dialect)
            for artifact in task["artifacts"]
            if isinstance(artifact, dict)
        ]
    if isinstance(task.get("history"), list):
        translated["history"] = [
            translate_message(message, dialect) for message in task["history"] if isinstance(message, dict)
        ]
    return translated if dialect.proto else {"kind": "task", **translated}


def translate_message(message: Json, dialect: Dialect) -> Json:
    """Return the message in this dialect."""
    translated = {name: value for name, value in message.items() if name not in ("kind", "parts", "content")}
    role = get_role(message)
    if role is not None:
        translated["role"] = format_role(role, dialect)
    parts = [translate_part(part, dialect) for part in get_parts(message)]
    translated["content" if dialect.legacy and dialect.proto else "parts"] = parts
    return translated if dialect.proto else {"kind": "message", **translated}


def _translate_status(status: Json, dialect: Dialect) -> Json:
    translated, state = dict(status), get_state(status)
    if state is not None:
        translated["state"] = format_state(state, dialect)
    if isinstance(status.get("message"), dict):
        translated["message"] = translate_message(status["message"], dialect)
    return translated


def _translate_artifact(artifact: Json, dialect: Dialect) -> Json:
    return artifact | {"parts": [translate_part(part, dialect) for part in get_parts(artifact)]}


def get_parts(message: Json) -> list[Json]:
    """Return the parts of a message or an artifact, from `parts` or `content`."""
    parts = message.get("parts", message.get("content"))
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def translate_part(part: Json, dialect: Dialect) -> Json:
    """Return the part in this dialect; unchanged if it has no equivalent."""
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
    """Return the file of a part as uri or bytes, name and type, or None if the part is not a file."""
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
    file = {
        name: next((inner[spelling] for spelling in spellings if spelling in inner), None)
        for name, spellings in names.items()
    }
    return {name: value for name, value in file.items() if value is not None}


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
    # A2A 0.3 over HTTP+JSON wraps data in another object. Its parts are the only wrapped ones without a kind.
    bare = data["data"] if kind is None and isinstance(data, dict) and set(data) == {"data"} else data
    if not dialect.legacy:
        return {"data": bare}
    return {"data": {"data": bare}} if dialect.proto else {"kind": "data", "data": bare}
