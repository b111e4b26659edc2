"""A2A errors: their codes, and how each dialect encodes them."""

from typing import Any, Literal

from msgspec import Struct

from placet.relay.a2a.dialects import Dialect

ErrorKind = Literal[
    "parse",
    "request",
    "method",
    "not_allowed",
    "params",
    "internal",
    "task_not_found",
    "not_cancelable",
    "push_unsupported",
    "unsupported",
    "content_type",
    "agent_response",
    "version",
    "refused",
    "unreachable",
    "timeout",
    "busy",
    "too_large",
]
RpcId = str | int | None


class ErrorCodes(Struct, frozen=True):
    """The codes and names of one error in both bindings."""

    rpc_code: int
    status: int
    rpc_status: str
    reason: str
    legacy_type: str


ERROR_CODES: dict[ErrorKind, ErrorCodes] = {
    "parse": ErrorCodes(-32700, 400, "INVALID_ARGUMENT", "INVALID_REQUEST", "JSONParseError"),
    "request": ErrorCodes(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST", "InvalidRequestError"),
    "method": ErrorCodes(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND", "MethodNotFoundError"),
    "not_allowed": ErrorCodes(-32601, 405, "UNIMPLEMENTED", "METHOD_NOT_FOUND", "MethodNotFoundError"),
    "params": ErrorCodes(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", "InvalidParamsError"),
    "internal": ErrorCodes(-32603, 500, "INTERNAL", "INTERNAL_ERROR", "InternalError"),
    "task_not_found": ErrorCodes(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "TaskNotFoundError"),
    "not_cancelable": ErrorCodes(
        -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE", "TaskNotCancelableError"
    ),
    "push_unsupported": ErrorCodes(
        -32003,
        400,
        "FAILED_PRECONDITION",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        "PushNotificationNotSupportedError",
    ),
    "unsupported": ErrorCodes(
        -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", "UnsupportedOperationError"
    ),
    "content_type": ErrorCodes(
        -32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", "ContentTypeNotSupportedError"
    ),
    "agent_response": ErrorCodes(
        -32006, 502, "INTERNAL", "INVALID_AGENT_RESPONSE", "InvalidAgentResponseError"
    ),
    "version": ErrorCodes(
        -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED", "VersionNotSupportedError"
    ),
    # Errors of the relay use codes that JSON-RPC reserves for servers and that A2A does not use.
    "refused": ErrorCodes(-32080, 403, "PERMISSION_DENIED", "RELAY_REFUSED", "InvalidRequestError"),
    "unreachable": ErrorCodes(-32081, 502, "UNAVAILABLE", "AGENT_UNREACHABLE", "InternalError"),
    "timeout": ErrorCodes(-32082, 504, "DEADLINE_EXCEEDED", "AGENT_TIMEOUT", "InternalError"),
    "busy": ErrorCodes(-32083, 503, "UNAVAILABLE", "RELAY_BUSY", "InternalError"),
    "too_large": ErrorCodes(-32600, 413, "INVALID_ARGUMENT", "INVALID_REQUEST", "InvalidRequestError"),
}


class A2AError(Exception):
    """A call fails with an error of the A2A protocol."""

    def __init__(self, kind: ErrorKind, message: str, *, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.data = data or {}

    @property
    def codes(self) -> ErrorCodes:
        """The codes and names of this error."""
        return ERROR_CODES[self.kind]


def as_agent_error(problem: A2AError) -> A2AError:
    """Return the error for an invalid response of the agent, which is not the caller's mistake."""
    if problem.kind in ("params", "too_large"):
        return A2AError("agent_response", f"The agent's response is not valid. {problem.message}")
    return problem


def get_error_status(problem: A2AError, dialect: Dialect) -> int:
    """Return the HTTP status of the error. Over JSON-RPC it is 200, with the error in the body."""
    return 200 if dialect.rpc else problem.codes.status


def build_error_body(problem: A2AError, dialect: Dialect, rpc_id: RpcId = None) -> dict[str, Any]:
    """Return the response body of the error, which is also the data of the event that ends a stream."""
    codes = problem.codes
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": codes.reason,
        "domain": "a2a-protocol.org",
        "metadata": {name: str(value) for name, value in problem.data.items()},
    }
    if dialect.rpc:
        error: dict[str, Any] = {"code": codes.rpc_code, "message": problem.message}
        if problem.data or not dialect.legacy:
            error["data"] = problem.data if dialect.legacy else [info]
        return {"jsonrpc": "2.0", "id": rpc_id, "error": error}
    body: dict[str, Any] = {
        "error": {
            "code": codes.status,
            "status": codes.rpc_status,
            "message": problem.message,
            "details": [info],
        }
    }
    # Clients of 0.3 over HTTP+JSON read `type` and `message` at the top level.
    return body | {"type": codes.legacy_type, "message": problem.message} if dialect.legacy else body
