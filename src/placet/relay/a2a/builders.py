"""Build the tasks and messages that the relay creates, in each dialect."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from placet.relay.a2a.dialects import Dialect, Operation, Role, TaskState, format_role, format_state
from placet.relay.a2a.errors import RpcId
from placet.relay.a2a.json_fields import Json


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
