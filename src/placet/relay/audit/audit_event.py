"""Audit events: as the API returns them, and as they are built and stored."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Literal, NamedTuple, Required, TypedDict, Unpack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.ports.audit_store import AuditRow
from placet.relay.a2a.dialects import Dialect
from placet.relay.tenants import Membership, Subscription

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


MAX_EVENT_BYTES = 320 * 1024
"""Room for two bodies and the other fields."""
MAX_ID_LENGTH = 500
MICROSECOND = timedelta(microseconds=1)
PAYLOAD_TOO_LARGE = {"payloadOmitted": "too large"}


class EventStamp(NamedTuple):
    """The time of an event, and its number among all events of the process."""

    at: datetime
    number: int


class _EncodableEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """`AuditEvent` for encoding. Its payload may contain JSON that is encoded already."""

    event_id: str
    tenant_id: str
    audit_type: str
    transport: str | None
    audit_action: str | None
    sent_at: datetime
    created_at: datetime
    duration_micros: int | None
    message: str
    correlation_id: str
    source_agent: AuditParty | None
    source_user: AuditParty | None
    sink_agent: AuditParty | None
    payload: dict[str, Any] | None
    metadata: dict[str, Any] | None
    context_id: str | None
    task_id: str | None
    message_id: str | None
    task_state: str | None


_encode = msgspec.json.Encoder().encode


class EventFields(TypedDict, total=False):
    """The fields of `AuditLog.build_event`. Without a stamp, the event has the current time."""

    correlation_id: Required[str]
    stamp: EventStamp | None
    action: str | None
    transport: str | None
    message: str
    task_id: str | None
    context_id: str | None
    message_id: str | None
    task_state: str | None
    took_for: timedelta | None
    payload: dict[str, Any] | None
    metadata: dict[str, Any] | None


class AuditEventFactory:
    """Builds rows with ids that increase with time and order."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._numbers = count()
        self._process = os.urandom(6).hex()

    def stamp(self) -> EventStamp:
        """See `AuditLog.stamp`."""
        return EventStamp(self._now(), next(self._numbers))

    def build_event(self, type: str, subscription: Subscription, **fields: Unpack[EventFields]) -> AuditRow:
        """See `AuditLog.build_event`."""
        stamp = fields.get("stamp") or self.stamp()
        now, took_for = stamp.at, fields.get("took_for")
        source, sink = subscription.source.name, subscription.sink.id
        agent, user = (source, None) if subscription.source.kind == "agent" else (None, source)
        return _build_row(
            _EncodableEvent(
                event_id=self._id(stamp),
                tenant_id=subscription.tenant,
                audit_type=type,
                transport=fields.get("transport"),
                audit_action=fields.get("action"),
                sent_at=now if took_for is None else now - took_for,
                created_at=now,
                duration_micros=None if took_for is None else took_for // MICROSECOND,
                message=fields.get("message", ""),
                correlation_id=fields["correlation_id"],
                source_agent=None if agent is None else AuditParty(agent, agent),
                source_user=None if user is None else AuditParty(user, user),
                sink_agent=AuditParty(sink, sink),
                payload=fields.get("payload"),
                metadata=fields.get("metadata"),
                context_id=_truncate_id(fields.get("context_id")),
                task_id=_truncate_id(fields.get("task_id")),
                message_id=_truncate_id(fields.get("message_id")),
                task_state=fields.get("task_state"),
            )
        )

    def build_change_event(
        self, member: Membership, message: str, *, metadata: dict[str, Any], type: str = "POLICY_LIFECYCLE"
    ) -> AuditRow:
        """See `AuditLog.build_change_event`."""
        stamp = self.stamp()
        now, event_id = stamp.at, self._id(stamp)
        return _build_row(
            _EncodableEvent(
                event_id=event_id,
                tenant_id=member.tenant,
                audit_type=type,
                transport=None,
                audit_action="LOG",
                sent_at=now,
                created_at=now,
                duration_micros=None,
                message=message,
                correlation_id=event_id,
                source_agent=None,
                source_user=AuditParty(member.name, member.name),
                sink_agent=None,
                payload=None,
                metadata=metadata,
                context_id=None,
                task_id=None,
                message_id=None,
                task_state=None,
            )
        )

    def _id(self, stamp: EventStamp) -> str:
        micros = int(stamp.at.timestamp() * 1_000_000)
        return f"evt_{micros << 24 | stamp.number & 0xFFFFFF:020x}{self._process}"


def _truncate_id(id: str | None) -> str | None:
    """Shorten an id that its sender chose, so that the store accepts the event."""
    return id if id is None or len(id) <= MAX_ID_LENGTH else id[:MAX_ID_LENGTH]


def _build_row(event: _EncodableEvent) -> AuditRow:
    body = _encode(event)
    if len(body) > MAX_EVENT_BYTES:
        body = _encode(
            replace(event, payload=None, metadata=PAYLOAD_TOO_LARGE, message=event.message[:1_000])
        )
    return AuditRow(
        id=event.event_id,
        tenant=event.tenant_id,
        at=event.created_at,
        type=event.audit_type,
        action=event.audit_action,
        transport=event.transport,
        source_agent=None if event.source_agent is None else event.source_agent.id,
        source_user=None if event.source_user is None else event.source_user.id,
        sink_agent=None if event.sink_agent is None else event.sink_agent.id,
        correlation_id=event.correlation_id,
        task_id=event.task_id,
        body=body,
    )
