"""The audit event, as stored and as returned by the API."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from placet.relay.a2a.dialects import Dialect

Transport = Literal["JSONRPC", "REST", "GRPC"]
TRANSPORTS: tuple[Transport, ...] = ("JSONRPC", "REST", "GRPC")

AUDIT_TYPES: Mapping[str, str] = {
    "COMMUNICATION_AUDIT": "A message passed on its way, or did not.",
    "VALIDATION_RESULT": "A message was refused before any policy: no A2A, or not the caller's to send.",
    "REGEX_DETECTION": "A policy with a pattern found something.",
    "PRESIDIO_DETECTION": "A policy with a Presidio entity found something.",
    "COMPREHEND_DETECTION": "A policy with a Comprehend entity found something.",
    "RATE_LIMIT": "Reserved for a kind of policy that the relay does not have yet.",
    "SKILL_RESTRICTION": "Reserved for a kind of policy that the relay does not have yet.",
    "HITL": "A person is needed: a policy escalated the message, or the agent asked.",
    "HITL_GUARD": "The message is held and its task guarded until a person has decided.",
    "HITL_RESOLUTION": "The hold was resolved.",
    "POLICY_LIFECYCLE": "A policy, a group of them, a binding or what is kept of the audit was changed.",
    "REGISTRY_LIFECYCLE": "An agent, a caller or a group of members was registered, changed or removed.",
}
"""What an event may be about; plug-in detectors add `…_DETECTION` of their own."""

AUDIT_ACTIONS: Mapping[str, str] = {
    "LOG": "It went on; also what a person approved.",
    "WARN": "It went on, with a warning here.",
    "MASK": "It went on without what was found.",
    "HUMAN_REVIEW_REQUIRED": "It waits for a person.",
    "BLOCK": "It was refused: by a policy, by a person, or because too many of its caller's wait already.",
    "ERROR": "It failed, or could not be checked.",
}


class AuditParty(Struct, frozen=True):
    """Someone at one end of a message."""

    id: str
    name: str


class AuditPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The message itself, as far as the tenant lets it be kept; what does not apply is left out."""

    version: str | None = None
    """The version of A2A."""
    method: str | None = None
    """The operation by its name in that version, such as `SendMessage`."""
    stage: str | None = None
    """`RESUMED` for a held message that went on."""
    http_status: int | None = None
    """What the caller got."""
    error_message: str | None = None
    """Why it failed."""
    error_code: int | str | None = None
    """The same as JSON-RPC numbers it."""
    request_body: Any = None
    """What was asked, masked or whole as the tenant wants it."""
    request_headers: dict[str, str] | None = None
    """Headers of the request; kept by no part of the relay today."""
    response_body: Any = None
    """What the caller was answered; a stream as the one answer its events come to."""
    response_headers: dict[str, str] | None = None
    """Headers of the answer; kept by no part of the relay today."""
    task_state: str | None = None
    """Where the task stood then."""


class AuditEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """One event; null where something does not apply."""

    event_id: str
    """Unlike any other; ids rise with the time."""
    tenant_id: str
    """Whose event it is."""
    audit_type: str
    """What it is about: one of the types."""
    transport: Transport | None = None
    """How the call travelled: `JSONRPC`, `REST` or `GRPC`."""
    audit_action: str | None = None
    """What it came to: one of the outcomes."""
    sent_at: datetime
    """When it began."""
    created_at: datetime
    """When the event was made, which is when it ended."""
    duration_micros: int | None = None
    """How long it took, in millionths of a second."""
    message: str = ""
    """What happened, in a sentence that shows nothing of the message."""
    correlation_id: str
    """The call it belongs to: the caller's `X-Correlation-Id`, or one that the relay made."""
    source_agent: AuditParty | None = None
    """The calling agent, `id` and `name`."""
    source_user: AuditParty | None = None
    """The calling user, or the member who changed something."""
    sink_agent: AuditParty | None = None
    """The agent that was called."""
    payload: AuditPayload | None = None
    """The message itself, see below."""
    metadata: dict[str, Any] | None = None
    """What else there is to say about an event of this type."""
    context_id: str | None = None
    """The conversation, as the caller names it."""
    task_id: str | None = None
    """The task, as the caller names it."""
    message_id: str | None = None
    """The message, as its sender names it."""
    task_state: str | None = None
    """Where the task stood then."""


def get_transport(dialect: Dialect) -> Transport:
    """The audit's word for how a call travels."""
    return "JSONRPC" if dialect.rpc else "REST"
