"""What can be wrong with a call or its answer, in the codes of A2A, and how each dialect says it."""

from typing import Any, Literal

from msgspec import Struct

from placet.relay.a2a.dialects import Dialect

Kind = Literal[
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


class Words(Struct, frozen=True):
    """One problem in the words of both bindings."""

    rpc_code: int
    status: int
    rpc_status: str
    reason: str
    legacy_type: str


WORDS: dict[Kind, Words] = {
    "parse": Words(-32700, 400, "INVALID_ARGUMENT", "INVALID_REQUEST", "JSONParseError"),
    "request": Words(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST", "InvalidRequestError"),
    "method": Words(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND", "MethodNotFoundError"),
    "not_allowed": Words(-32601, 405, "UNIMPLEMENTED", "METHOD_NOT_FOUND", "MethodNotFoundError"),
    "params": Words(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", "InvalidParamsError"),
    "internal": Words(-32603, 500, "INTERNAL", "INTERNAL_ERROR", "InternalError"),
    "task_not_found": Words(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "TaskNotFoundError"),
    "not_cancelable": Words(
        -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE", "TaskNotCancelableError"
    ),
    "push_unsupported": Words(
        -32003,
        400,
        "FAILED_PRECONDITION",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        "PushNotificationNotSupportedError",
    ),
    "unsupported": Words(
        -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", "UnsupportedOperationError"
    ),
    "content_type": Words(
        -32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", "ContentTypeNotSupportedError"
    ),
    "agent_response": Words(-32006, 502, "INTERNAL", "INVALID_AGENT_RESPONSE", "InvalidAgentResponseError"),
    "version": Words(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED", "VersionNotSupportedError"),
    # The relay's own, in the range JSON-RPC leaves to servers and A2A does not use.
    "refused": Words(-32080, 403, "PERMISSION_DENIED", "RELAY_REFUSED", "InvalidRequestError"),
    "unreachable": Words(-32081, 502, "UNAVAILABLE", "AGENT_UNREACHABLE", "InternalError"),
    "timeout": Words(-32082, 504, "DEADLINE_EXCEEDED", "AGENT_TIMEOUT", "InternalError"),
    "busy": Words(-32083, 503, "UNAVAILABLE", "RELAY_BUSY", "InternalError"),
    "too_large": Words(-32600, 413, "INVALID_ARGUMENT", "INVALID_REQUEST", "InvalidRequestError"),
}


class A2AProblem(Exception):
    """A call that ends with an error of the protocol instead of an answer."""

    def __init__(self, kind: Kind, message: str, *, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.data = data or {}

    @property
    def words(self) -> Words:
        """Codes and names of this problem."""
        return WORDS[self.kind]


def of_the_agent(problem: A2AProblem) -> A2AProblem:
    """What is wrong with an answer: that it is misshapen is its agent's doing, and not its caller's."""
    if problem.kind in ("params", "too_large"):
        return A2AProblem("agent_response", f"The agent's answer is not right: {problem.message}")
    return problem


def error_status(problem: A2AProblem, dialect: Dialect) -> int:
    """The HTTP status: JSON-RPC says everything in the body."""
    return 200 if dialect.rpc else problem.words.status


def error_body(problem: A2AProblem, dialect: Dialect, rpc_id: RpcId = None) -> dict[str, Any]:
    """The body of the error; also the data of the event that ends a stream."""
    words = problem.words
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": words.reason,
        "domain": "a2a-protocol.org",
        "metadata": {name: str(value) for name, value in problem.data.items()},
    }
    if dialect.rpc:
        error: dict[str, Any] = {"code": words.rpc_code, "message": problem.message}
        if problem.data or not dialect.legacy:
            error["data"] = problem.data if dialect.legacy else [info]
        return {"jsonrpc": "2.0", "id": rpc_id, "error": error}
    body: dict[str, Any] = {
        "error": {
            "code": words.status,
            "status": words.rpc_status,
            "message": problem.message,
            "details": [info],
        }
    }
    # Clients of 0.3 over HTTP look for these two at the top.
    return body | {"type": words.legacy_type, "message": problem.message} if dialect.legacy else body
