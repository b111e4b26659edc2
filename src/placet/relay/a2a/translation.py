"""Tasks, messages and parts from one dialect into another, for answers fetched otherwise than they came."""

from typing import Any

from placet.relay.a2a.dialects import Dialect, role_word, state_word
from placet.relay.a2a.reading import Json, role_of, state_of


def translated_task(task: Json, told: Dialect, dialect: Dialect) -> Json:
    """A task that was told in one dialect as another one tells it; the very same where they are one."""
    if told == dialect:
        return task
    found = {name: value for name, value in task.items() if name != "kind"}
    if isinstance(task.get("status"), dict):
        found["status"] = _status(task["status"], dialect)
    if isinstance(task.get("artifacts"), list):
        found["artifacts"] = [_artifact(one, dialect) for one in task["artifacts"] if isinstance(one, dict)]
    if isinstance(task.get("history"), list):
        found["history"] = [
            translated_message(one, dialect) for one in task["history"] if isinstance(one, dict)
        ]
    return found if dialect.proto else {"kind": "task", **found}


def translated_message(message: Json, dialect: Dialect) -> Json:
    """A message in this dialect."""
    found = {name: value for name, value in message.items() if name not in ("kind", "parts", "content")}
    role = role_of(message)
    if role is not None:
        found["role"] = role_word(role, dialect)
    parts = [translated(part, dialect) for part in parts_of(message)]
    found["content" if dialect.legacy and dialect.proto else "parts"] = parts
    return found if dialect.proto else {"kind": "message", **found}


def _status(status: Json, dialect: Dialect) -> Json:
    found, state = dict(status), state_of(status)
    if state is not None:
        found["state"] = state_word(state, dialect)
    if isinstance(status.get("message"), dict):
        found["message"] = translated_message(status["message"], dialect)
    return found


def _artifact(artifact: Json, dialect: Dialect) -> Json:
    return artifact | {"parts": [translated(part, dialect) for part in parts_of(artifact)]}


def parts_of(message: Json) -> list[Json]:
    """The parts of a message or an artifact, whatever they are called."""
    found = message.get("parts", message.get("content"))
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def translated(part: Json, dialect: Dialect) -> Json:
    """The part in this dialect; what has no equivalent is kept as it is."""
    kept = {"metadata": part["metadata"]} if "metadata" in part else {}
    if isinstance(part.get("text"), str):
        return ({} if dialect.proto else {"kind": "text"}) | {"text": part["text"]} | kept
    file = _file(part)
    if file is not None:
        return _file_part(file, dialect) | kept
    if "data" in part:
        return _data_part(part["data"], part.get("kind"), dialect) | kept
    return part


def _file(part: Json) -> dict[str, Any] | None:
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


def _file_part(file: dict[str, Any], dialect: Dialect) -> Json:
    if not dialect.legacy:
        names = {"uri": "url", "bytes": "raw", "name": "filename", "type": "mediaType"}
        return {names[name]: value for name, value in file.items()}
    names = {"uri": "uri", "bytes": "bytes", "name": "name", "type": "mimeType"}
    if dialect.proto:
        names |= {"uri": "fileWithUri", "bytes": "fileWithBytes"}
    inner = {names[name]: value for name, value in file.items()}
    return {"file": inner} if dialect.proto else {"kind": "file", "file": inner}


def _data_part(data: Any, kind: Any, dialect: Dialect) -> Json:
    # 0.3 over HTTP wraps its data once more, and is the only one without a kind to do so.
    bare = data["data"] if kind is None and isinstance(data, dict) and set(data) == {"data"} else data
    if not dialect.legacy:
        return {"data": bare}
    return {"data": {"data": bare}} if dialect.proto else {"kind": "data", "data": bare}
