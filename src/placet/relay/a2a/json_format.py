"""Fields of A2A JSON: read them, build them, and translate them between versions."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from placet.relay.a2a.dialects import (
    ROLES,
    Dialect,
    Operation,
    Role,
    TaskState,
    format_role,
    format_state,
    parse_state,
)
from placet.relay.a2a.errors import A2AError, RpcId

Json = dict[str, Any]

TASK_ID = ("taskId", "task_id")
CONTEXT_ID = ("contextId", "context_id")
MESSAGE_ID = ("messageId", "message_id")
REFERENCES = ("referenceTaskIds", "reference_task_ids")
MESSAGE = ("message", "request", "msg")
STATUS_UPDATE = ("statusUpdate", "status_update")
ARTIFACT_UPDATE = ("artifactUpdate", "artifact_update")

# A task id inside content is text and stays unchanged.
CONTENT_FIELDS = frozenset({"parts", "content", "metadata", "data", "artifact", "artifacts"})
RESOURCE_FIELDS = ("name", "parent")
NESTED_FIELDS = (
    *(
        "result",
        "params",
        "task",
        "tasks",
        "message",
        "request",
        "msg",
        "status",
        "history",
        "config",
        "configs",
    ),
    *("statusUpdate", "status_update", "artifactUpdate", "artifact_update", "update"),
    *("pushNotificationConfig", "push_notification_config", "taskPushNotificationConfig"),
)


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


def replace_task_id(document: Any, old: str, new: str) -> Any:
    """Return a copy of the document in which task id `new` replaces `old`."""
    if isinstance(document, list):
        return [replace_task_id(item, old, new) for item in document]
    if not isinstance(document, dict):
        return document
    return {name: _replace_value(name, value, document, old, new) for name, value in document.items()}


def _replace_value(name: str, value: Any, holder: Json, old: str, new: str) -> Any:
    if name in TASK_ID or (name == "id" and _has_task_id(holder)):
        return new if value == old else value
    if name in REFERENCES and isinstance(value, list):
        return [new if item == old else item for item in value]
    if name in RESOURCE_FIELDS and isinstance(value, str):
        head, _, tail = value.partition("/")
        task, slash, rest = tail.partition("/")
        return f"tasks/{new}{slash}{rest}" if head == "tasks" and task == old else value
    return replace_task_id(value, old, new) if name in NESTED_FIELDS and name not in CONTENT_FIELDS else value


def _has_task_id(holder: Json) -> bool:
    """Whether the field `id` of an object is a task id, not the id of a JSON-RPC envelope or push config."""
    if "jsonrpc" in holder or "url" in holder:
        return False
    return not any(name in holder for name in TASK_ID) or any(name in holder for name in CONTEXT_ID)


def build_text_part(text: str, dialect: Dialect) -> Json:
    """Return a text part."""
    return {"text": text} if dialect.proto else {"kind": "text", "text": text}


def build_message(
    *,
    message_id: str,
    role: Role,
    parts: Sequence[Json],
    dialect: Dialect,
    task_id: str | None = None,
    context_id: str | None = None,
) -> Json:
    """Return a message with `parts`, which must already be in the dialect."""
    built: Json = {"messageId": message_id, "role": format_role(role, dialect)}
    built["content" if dialect.legacy and dialect.proto else "parts"] = list(parts)
    if task_id is not None:
        built["taskId"] = task_id
    if context_id is not None:
        built["contextId"] = context_id
    return built if dialect.proto else {"kind": "message", **built}


def build_task(
    *,
    task_id: str,
    context_id: str,
    state: TaskState,
    at: datetime,
    dialect: Dialect,
    metadata: Json | None = None,
    status_message: Json | None = None,
) -> Json:
    """Return a task in `state`, with a status of the time `at`."""
    built: Json = {
        "id": task_id,
        "contextId": context_id,
        "status": _build_status(state, at, dialect, status_message),
    }
    if metadata is not None:
        built["metadata"] = metadata
    return built if dialect.proto else {"kind": "task", **built}


def build_task_reply(built: Json, operation: Operation, dialect: Dialect, rpc_id: RpcId) -> Json:
    """Return the response body of an operation, or the data of a stream event, that carries the task."""
    wrapped = dialect.proto and operation in ("send", "stream", "subscribe")
    return wrap_rpc_result({"task": built} if wrapped else built, dialect, rpc_id)


def wrap_rpc_result(result: Any, dialect: Dialect, rpc_id: RpcId) -> Json:
    """Return the result in a JSON-RPC envelope, or unchanged over HTTP+JSON."""
    body: Json = {"jsonrpc": "2.0", "id": rpc_id, "result": result} if dialect.rpc else result
    return body


def _build_status(state: TaskState, at: datetime, dialect: Dialect, status_message: Json | None) -> Json:
    timestamp = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    status: Json = {"state": format_state(state, dialect), "timestamp": timestamp}
    if status_message is not None:
        status["message"] = status_message
    return status


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
