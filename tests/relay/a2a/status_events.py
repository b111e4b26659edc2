"""Build status updates as agents send them in a stream."""

from datetime import datetime

from placet.relay.a2a.dialects import TERMINAL, Dialect, TaskState
from placet.relay.a2a.errors import RpcId
from placet.relay.a2a.json_format import Json, build_task, wrap_rpc_result


def build_status_event(
    *,
    task_id: str,
    context_id: str,
    state: TaskState,
    at: datetime,
    dialect: Dialect,
    metadata: Json | None = None,
    status_message: Json | None = None,
) -> Json:
    """A change of a task's state, as a stream tells it."""
    built: Json = {
        "taskId": task_id,
        "contextId": context_id,
        "status": build_task(
            task_id=task_id,
            context_id=context_id,
            state=state,
            at=at,
            dialect=dialect,
            status_message=status_message,
        )["status"],
    }
    if dialect.legacy:
        built["final"] = state in TERMINAL
    if metadata is not None:
        built["metadata"] = metadata
    return built if dialect.proto else {"kind": "status-update", **built}


def build_status_reply(built: Json, dialect: Dialect, rpc_id: RpcId) -> Json:
    """A change of state as an event of a stream."""
    return wrap_rpc_result({"statusUpdate": built} if dialect.proto else built, dialect, rpc_id)
