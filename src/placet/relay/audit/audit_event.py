"""The audit event, as stored and as returned by the API."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from placet.relay.a2a.dialects import Dialect

Transport = Literal["JSONRPC", "REST", "GRPC"]
TRANSPORTS: tuple[Transport, ...] = ("JSONRPC", "REST", "GRPC")

STARTED_STAGE = "STARTED"
"""The stage of the first event of a stream, which has no message."""

AUDIT_TYPES: Mapping[str, str] = {
    "COMMUNICATION_AUDIT": "A call was relayed, refused or failed.",
    "VALIDATION_RESULT": "A request was refused before any policy, because it is not a valid A2A call.",
    "REGEX_DETECTION": "A policy with a pattern matched.",
    "PRESIDIO_DETECTION": "A policy with a Presidio entity matched.",
    "COMPREHEND_DETECTION": "A policy with a Comprehend entity matched.",
    "UNREADABLE_TEXT_DETECTION": "A policy found text that cannot be read.",
    "RATE_LIMIT": "Reserved. No policy of the relay produces it yet.",
    "SKILL_RESTRICTION": "Reserved. No policy of the relay produces it yet.",
    "HITL": "A person must decide, because a policy escalated the message or the agent requested input.",
    "HITL_GUARD": "The message is held, and the relay answers for its task until a person decides.",
    "HITL_RESOLUTION": "The hold was resolved.",
    "POLICY_LIFECYCLE": "A policy, a policy group, a binding or a retention policy was changed.",
    "REGISTRY_LIFECYCLE": "An agent, a caller or a group of members was registered, changed or removed.",
}
"""The types of events. Plug-in detectors add types that end in `_DETECTION`."""

AUDIT_ACTIONS: Mapping[str, str] = {
    "LOG": "The message was forwarded, or a person approved it.",
    "WARN": "The message was forwarded, and a policy warns about it.",
    "MASK": "The message was forwarded with masked findings.",
    "HUMAN_REVIEW_REQUIRED": "The message waits for a person's decision.",
    "BLOCK": "A policy or a person refused the message, or its caller has too many held messages.",
    "ERROR": "The message failed, or it could not be checked.",
}


class AuditParty(Struct, frozen=True):
    """The caller or the agent of a message."""

    id: str
    name: str

    @classmethod
    def of(cls, name: str) -> "AuditParty":
        """Return the party with this name, which is also its id."""
        return cls(name, name)


class AuditPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The message, as far as the tenant's retention policy allows. Fields that do not apply are left out."""

    version: str | None = None
    """The A2A version."""
    method: str | None = None
    """The name of the operation in that version, such as `SendMessage`."""
    stage: str | None = None
    """`STARTED`: the agent has created a task in a stream. `RESUMED`: a held message was forwarded."""
    http_status: int | None = None
    """The HTTP status that the caller got."""
    error_message: str | None = None
    """The error message, if the call failed."""
    error_code: int | str | None = None
    """The JSON-RPC code of the error."""
    request_body: Any = None
    """The request, masked or whole as the tenant's retention policy says."""
    request_headers: dict[str, str] | None = None
    """Reserved. The relay does not store request headers."""
    response_body: Any = None
    """The response. The events of a stream are merged into one response."""
    response_headers: dict[str, str] | None = None
    """Reserved. The relay does not store response headers."""
    task_state: str | None = None
    """The state of the task."""


class AuditEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """One event. Fields that do not apply are null."""

    event_id: str
    """The unique id of the event. Ids increase with time."""
    tenant_id: str
    """The tenant of the event."""
    audit_type: str
    """The type of the event."""
    transport: Transport | None = None
    """The transport of the call: `JSONRPC`, `REST` or `GRPC`."""
    audit_action: str | None = None
    """The outcome: one of the actions."""
    sent_at: datetime
    """When the call or action began."""
    created_at: datetime
    """When the call or action ended."""
    duration_micros: int | None = None
    """The duration in microseconds."""
    message: str = ""
    """What happened, in one sentence without content of the message."""
    correlation_id: str
    """The correlation id of the call: the caller's `X-Correlation-Id`, or an id that the relay created."""
    source_agent: AuditParty | None = None
    """The calling agent: `id` and `name`."""
    source_user: AuditParty | None = None
    """The calling user, or the member who changed something."""
    sink_agent: AuditParty | None = None
    """The agent that was called."""
    payload: AuditPayload | None = None
    """The message; see below."""
    metadata: dict[str, Any] | None = None
    """Further fields of this event type."""
    context_id: str | None = None
    """The caller's id of the context."""
    task_id: str | None = None
    """The caller's id of the task."""
    message_id: str | None = None
    """The sender's id of the message."""
    task_state: str | None = None
    """The state of the task."""


def get_transport(dialect: Dialect) -> Transport:
    """Return the transport of a dialect, as audit events name it."""
    return "JSONRPC" if dialect.rpc else "REST"
