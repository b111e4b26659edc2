"""Translate between A2A protocol buffers and A2A JSON."""

from typing import Any
from urllib.parse import urlencode

from a2a.types import a2a_pb2
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]

from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.dialects import RPC_NAMES, Dialect, Operation
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.json_format import Json

RESULT_TYPES: dict[Operation, type[Message]] = {
    "send": a2a_pb2.SendMessageResponse,
    "stream": a2a_pb2.StreamResponse,
    "subscribe": a2a_pb2.StreamResponse,
    "get": a2a_pb2.Task,
    "cancel": a2a_pb2.Task,
    "list": a2a_pb2.ListTasksResponse,
    "push_create": a2a_pb2.TaskPushNotificationConfig,
    "push_get": a2a_pb2.TaskPushNotificationConfig,
    "push_list": a2a_pb2.ListTaskPushNotificationConfigsResponse,
    "push_delete": empty_pb2.Empty,
    "extended_card": a2a_pb2.AgentCard,
}
BODY_OPERATIONS: frozenset[Operation] = frozenset({"send", "stream", "push_create"})
CONFIG_OPERATIONS: frozenset[Operation] = frozenset({"push_get", "push_delete"})
HTTP_METHODS: dict[Operation, str] = {
    "get": "GET",
    "list": "GET",
    "push_get": "GET",
    "push_list": "GET",
    "push_delete": "DELETE",
    "extended_card": "GET",
}


def call_from_message(
    operation: Operation, request: Message, dialect: Dialect, tenant: str | None
) -> A2ACall:
    """Return the request as a call in a 1.0 dialect. `tenant` is the tenant that the agent gets."""
    params: Json = MessageToDict(request)
    params.pop("tenant", None)
    if dialect.rpc:
        if tenant:
            params["tenant"] = tenant
        document: Json = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": RPC_NAMES[dialect, operation],
            "params": params,
        }
        return A2ACall(dialect=dialect, operation=operation, document=document, rpc_id=1)
    push = params.pop("id", None) if operation in CONFIG_OPERATIONS else None
    by_id = operation in ("get", "cancel", "subscribe")
    task = params.pop("id" if by_id else "taskId", None) if operation not in ("send", "stream") else None
    has_body = operation in BODY_OPERATIONS or operation == "cancel"
    return A2ACall(
        dialect=dialect,
        operation=operation,
        method=HTTP_METHODS.get(operation, "POST"),
        document=params if has_body else None,
        path_task=task,
        path_push=push,
        tenant=tenant,
        query="" if has_body else urlencode(_flatten_params(params)),
    )


def message_from_result(operation: Operation, result: Any) -> Message:
    """Return a result as the response message of the operation. Raises A2AError if it is not valid.

    Drops fields that the protocol buffers do not define.
    """
    try:
        return ParseDict(result or {}, RESULT_TYPES[operation](), ignore_unknown_fields=True)
    except (ParseError, RecursionError) as error:
        raise A2AError("agent_response", "The agent's response is not a valid A2A result.") from error


def _flatten_params(params: Json) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()
    }
