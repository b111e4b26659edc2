"""An audit event as it is kept and as it travels: what happened to a message, when, between whom."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from assent.relay.a2a.dialects import Dialect

Transport = Literal["JSONRPC", "REST", "GRPC"]
TRANSPORTS: tuple[Transport, ...] = ("JSONRPC", "REST", "GRPC")

AUDIT_TYPES: Mapping[str, str] = {
    "COMMUNICATION_AUDIT": "A message passed on its way, or did not.",
    "VALIDATION_RESULT": "A message was refused before any policy: no A2A, or not the caller's to send.",
    "REGEX_DETECTION": "A policy with a pattern found something.",
    "PRESIDIO_DETECTION": "A policy with a Presidio entity found something.",
    "COMPREHEND_DETECTION": "A policy with a Comprehend entity found something.",
    "RATE_LIMIT": "A caller was told to slow down.",
    "SKILL_RESTRICTION": "A skill was not for this caller.",
    "HITL": "A person is needed: a policy escalated the message, or the agent asked.",
    "HITL_GUARD": "The message is held and its task guarded until a person has decided.",
    "HITL_RESOLUTION": "The hold was resolved.",
    "POLICY_LIFECYCLE": "A policy, a group of policies or a binding was created, changed or removed.",
    "REGISTRY_LIFECYCLE": "An agent, a caller or a group of members was registered, changed or removed.",
}
"""What an event may be about; plug-in detectors add `…_DETECTION` of their own."""

AUDIT_ACTIONS: Mapping[str, str] = {
    "LOG": "It went on; also what a person approved.",
    "WARN": "It went on, with a warning here.",
    "MASK": "It went on without what was found.",
    "HUMAN_REVIEW_REQUIRED": "It waits for a person.",
    "BLOCK": "It was refused, by a policy or by a person.",
    "ERROR": "It failed, or could not be checked.",
}


class Party(Struct, frozen=True):
    """Someone at one end of a message."""

    id: str
    name: str


class Payload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The message itself, as far as the tenant lets it be kept; what does not apply is left out."""

    version: str | None = None
    """The version of A2A."""
    method: str | None = None
    """The operation, such as `SendMessage`."""
    stage: str | None = None
    """The leg on which the message was looked at."""
    http_status: int | None = None
    error_message: str | None = None
    error_code: int | str | None = None
    request_body: Any = None
    request_headers: dict[str, str] | None = None
    response_body: Any = None
    response_headers: dict[str, str] | None = None
    task_state: str | None = None


class AuditEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """One event; null where something does not apply."""

    event_id: str
    tenant_id: str
    audit_type: str
    transport: Transport | None = None
    audit_action: str | None = None
    sent_at: datetime
    """When the message began its way; `createdAt` is when the event was made."""
    created_at: datetime
    duration_micros: int | None = None
    message: str = ""
    """What happened, in a sentence that shows nothing of the message."""
    correlation_id: str
    source_agent: Party | None = None
    source_user: Party | None = None
    sink_agent: Party | None = None
    payload: Payload | None = None
    metadata: dict[str, Any] | None = None
    context_id: str | None = None
    task_id: str | None = None
    message_id: str | None = None
    task_state: str | None = None


def transport_of(dialect: Dialect) -> Transport:
    """The audit's word for how a call travels."""
    return "JSONRPC" if dialect.rpc else "REST"
