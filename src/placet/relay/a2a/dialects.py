"""Tables of the four HTTP dialects of A2A: operations, states and roles in each."""

from typing import Any, Literal

from msgspec import Struct

ProtocolBinding = Literal["JSONRPC", "HTTP+JSON"]
Version = Literal["1.0", "0.3"]
Operation = Literal[
    "send",
    "stream",
    "get",
    "list",
    "cancel",
    "subscribe",
    "push_create",
    "push_get",
    "push_list",
    "push_delete",
    "extended_card",
]
TaskState = Literal[
    "submitted",
    "working",
    "input-required",
    "auth-required",
    "completed",
    "canceled",
    "failed",
    "rejected",
    "unknown",
]
Role = Literal["user", "agent"]

STREAMED: frozenset[Operation] = frozenset({"stream", "subscribe"})
TERMINAL: frozenset[TaskState] = frozenset({"completed", "canceled", "failed", "rejected"})


class Dialect(Struct, frozen=True):
    """One binding of one A2A version."""

    binding: ProtocolBinding
    version: Version

    @property
    def legacy(self) -> bool:
        """Whether the version is 0.3."""
        return self.version == "0.3"

    @property
    def rpc(self) -> bool:
        """Whether the binding is JSON-RPC."""
        return self.binding == "JSONRPC"

    @property
    def proto(self) -> bool:
        """Whether the JSON follows the protocol buffers. Only 0.3 over JSON-RPC does not."""
        return not (self.legacy and self.rpc)

    @property
    def content_type(self) -> str:
        """The Content-Type of a response that is not a stream."""
        return "application/a2a+json" if not self.legacy and not self.rpc else "application/json"


RPC_1_0 = Dialect("JSONRPC", "1.0")
RPC_0_3 = Dialect("JSONRPC", "0.3")
REST_1_0 = Dialect("HTTP+JSON", "1.0")
REST_0_3 = Dialect("HTTP+JSON", "0.3")
DIALECTS = (RPC_1_0, RPC_0_3, REST_1_0, REST_0_3)

RPC_METHODS: dict[str, tuple[Dialect, Operation]] = {
    "SendMessage": (RPC_1_0, "send"),
    "SendStreamingMessage": (RPC_1_0, "stream"),
    "GetTask": (RPC_1_0, "get"),
    "ListTasks": (RPC_1_0, "list"),
    "CancelTask": (RPC_1_0, "cancel"),
    "SubscribeToTask": (RPC_1_0, "subscribe"),
    "CreateTaskPushNotificationConfig": (RPC_1_0, "push_create"),
    "GetTaskPushNotificationConfig": (RPC_1_0, "push_get"),
    "ListTaskPushNotificationConfigs": (RPC_1_0, "push_list"),
    "DeleteTaskPushNotificationConfig": (RPC_1_0, "push_delete"),
    "GetExtendedAgentCard": (RPC_1_0, "extended_card"),
    "message/send": (RPC_0_3, "send"),
    "message/stream": (RPC_0_3, "stream"),
    "tasks/get": (RPC_0_3, "get"),
    "tasks/cancel": (RPC_0_3, "cancel"),
    "tasks/resubscribe": (RPC_0_3, "subscribe"),
    "tasks/pushNotificationConfig/set": (RPC_0_3, "push_create"),
    "tasks/pushNotificationConfig/get": (RPC_0_3, "push_get"),
    "tasks/pushNotificationConfig/list": (RPC_0_3, "push_list"),
    "tasks/pushNotificationConfig/delete": (RPC_0_3, "push_delete"),
    "agent/getAuthenticatedExtendedCard": (RPC_0_3, "extended_card"),
}
RPC_NAMES: dict[tuple[Dialect, Operation], str] = {target: name for name, target in RPC_METHODS.items()}

REST_ROUTES: dict[Operation, tuple[tuple[str, ...], str]] = {
    "send": (("POST",), "/message:send"),
    "stream": (("POST",), "/message:stream"),
    "cancel": (("POST",), "/tasks/{task}:cancel"),
    "subscribe": (("POST", "GET"), "/tasks/{task}:subscribe"),
    "push_create": (("POST",), "/tasks/{task}/pushNotificationConfigs"),
    "push_list": (("GET",), "/tasks/{task}/pushNotificationConfigs"),
    "push_get": (("GET",), "/tasks/{task}/pushNotificationConfigs/{push}"),
    "push_delete": (("DELETE",), "/tasks/{task}/pushNotificationConfigs/{push}"),
    "get": (("GET",), "/tasks/{task}"),
    "list": (("GET",), "/tasks"),
}
"""The HTTP methods and the path below an interface's URL. In 0.3, the path is preceded by `/v1`."""
EXTENDED_CARD_PATHS: dict[Version, str] = {"1.0": "/extendedAgentCard", "0.3": "/card"}


def format_state(state: TaskState, dialect: Dialect) -> str:
    """Return the name of the state in this dialect."""
    if not dialect.proto:
        return state
    if state == "unknown":
        return "TASK_STATE_UNSPECIFIED"
    if state == "canceled" and dialect.legacy:
        return "TASK_STATE_CANCELLED"
    return f"TASK_STATE_{state.upper().replace('-', '_')}"


STATES: dict[str, TaskState] = {
    format_state(state, dialect): state
    for dialect in DIALECTS
    for state in (*TERMINAL, "submitted", "working", "input-required", "auth-required", "unknown")
}


STATES_BY_NUMBER: tuple[TaskState, ...] = (
    *("unknown", "submitted", "working", "completed", "failed", "canceled"),
    *("input-required", "rejected", "auth-required"),
)
"""The states in the order of their protocol buffer numbers, which JSON may use instead of names."""
_STATES_BY_LETTERS: dict[str, TaskState] = {state.replace("-", ""): state for state in STATES_BY_NUMBER} | {
    "cancelled": "canceled"
}


def parse_state(word: Any) -> TaskState | None:
    """Return the state that a client may read from a value.

    Returns "unknown" for a value that no dialect defines, and None if there is no value. Some clients accept
    numbers, and some ignore case and separators, so this function does too.
    """
    if isinstance(word, str):
        known = STATES.get(word)
        if known is not None:
            return known
        letters = "".join(filter(str.isalpha, word.lower())).removeprefix("taskstate")
        return _STATES_BY_LETTERS.get(letters) or _state_from_number(word.strip())
    return _state_from_number(word)


def _state_from_number(number: Any) -> TaskState | None:
    if number is None or isinstance(number, bool | dict | list):
        return None
    try:
        index = float(number)
        return STATES_BY_NUMBER[int(index)] if 0 <= index == int(index) else "unknown"
    except (ValueError, OverflowError, IndexError):
        return "unknown"


def format_role(role: Role, dialect: Dialect) -> str:
    """Return the name of the role in this dialect."""
    return f"ROLE_{role.upper()}" if dialect.proto else role


ROLES: dict[str, Role] = {"user": "user", "agent": "agent", "ROLE_USER": "user", "ROLE_AGENT": "agent"}
