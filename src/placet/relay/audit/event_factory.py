"""Build audit events. Each event is encoded once."""

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any, NamedTuple, Required, TypedDict, Unpack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.ports.audit_store import AuditRow
from placet.relay.audit.audit_event import AuditParty
from placet.relay.subscriptions import Subscription
from placet.relay.tenant_membership import Membership

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
