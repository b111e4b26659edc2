"""Build calls about a task, and replies that contain one, as an agent and its callers exchange them."""

from typing import Any

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_NAMES, Dialect, Operation
from placet.relay.a2a.json_fields import Json
from placet.relay.a2a.reply import A2AReply


def build_task_call(
    dialect: Dialect, operation: Operation, task_id: str, tenant: str | None = None
) -> A2ACall:
    """Return a call that contains only a task id."""
    if dialect.rpc:
        document: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": RPC_NAMES[dialect, operation],
            "params": {"id": task_id},
        }
        return A2ACall(dialect=dialect, operation=operation, document=document, rpc_id=1, tenant=tenant)
    if operation == "get":
        return A2ACall(dialect=dialect, operation=operation, method="GET", path_task=task_id, tenant=tenant)
    return A2ACall(dialect=dialect, operation=operation, path_task=task_id, document={}, tenant=tenant)


def build_get_reply(dialect: Dialect, task: Json) -> A2AReply:
    """Return the reply to a call of `build_task_call` that gets this task."""
    document = {"jsonrpc": "2.0", "id": 1, "result": task} if dialect.rpc else task
    return A2AReply(dialect=dialect, operation="get", document=document)
