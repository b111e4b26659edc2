"""Build and encode audit events; each is encoded once."""

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.ports.audit_store import AuditRow
from placet.relay.audit.audit_event import AuditParty
from placet.relay.registry.subscriptions import Subscription
from placet.relay.registry.tenant_membership import Membership

MAX_EVENT_BYTES = 320 * 1024
"""Two bodies and what is said about them."""
MAX_ID = 500
MICROSECOND = timedelta(microseconds=1)
PAYLOAD_TOO_LARGE = {"payloadOmitted": "too large"}


class EventStamp(NamedTuple):
    """When an event happened, and which of those of one moment it is: it may be made later."""

    at: datetime
    number: int


class _EncodableEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """`AuditEvent` on its way out, where a payload is any object: what was read is not read again."""

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


class AuditEventFactory:
    """Builds rows with ids that increase with time and order."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._numbers = count()
        self._process = os.urandom(6).hex()

    def stamp(self) -> EventStamp:
        """See `AuditLog.stamp`."""
        return EventStamp(self._now(), next(self._numbers))

    def row(
        self,
        type: str,
        subscription: Subscription,
        *,
        correlation_id: str,
        action: str | None = None,
        transport: str | None = None,
        message: str = "",
        task_id: str | None = None,
        context_id: str | None = None,
        message_id: str | None = None,
        task_state: str | None = None,
        took_for: timedelta | None = None,
        payload: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        stamp: EventStamp | None = None,
    ) -> AuditRow:
        """See `AuditLog.row`."""
        stamp = stamp or self.stamp()
        now = stamp.at
        source, sink = subscription.source.name, subscription.sink.id
        agent, user = (source, None) if subscription.source.kind == "agent" else (None, source)
        return _build_row(
            _EncodableEvent(
                event_id=self._id(stamp),
                tenant_id=subscription.tenant,
                audit_type=type,
                transport=transport,
                audit_action=action,
                sent_at=now if took_for is None else now - took_for,
                created_at=now,
                duration_micros=None if took_for is None else took_for // MICROSECOND,
                message=message,
                correlation_id=correlation_id,
                source_agent=None if agent is None else AuditParty(agent, agent),
                source_user=None if user is None else AuditParty(user, user),
                sink_agent=AuditParty(sink, sink),
                payload=payload,
                metadata=metadata,
                context_id=_truncate_id(context_id),
                task_id=_truncate_id(task_id),
                message_id=_truncate_id(message_id),
                task_state=task_state,
            )
        )

    def change(
        self, member: Membership, message: str, *, metadata: dict[str, Any], type: str = "POLICY_LIFECYCLE"
    ) -> AuditRow:
        """See `AuditLog.change`."""
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
    """An id of its sender's choice: one that no store would keep must not keep its event out."""
    return id if id is None or len(id) <= MAX_ID else id[:MAX_ID]


def _build_row(made: _EncodableEvent) -> AuditRow:
    body = _encode(made)
    if len(body) > MAX_EVENT_BYTES:
        body = _encode(replace(made, payload=None, metadata=PAYLOAD_TOO_LARGE, message=made.message[:1_000]))
    return AuditRow(
        id=made.event_id,
        tenant=made.tenant_id,
        at=made.created_at,
        type=made.audit_type,
        action=made.audit_action,
        transport=made.transport,
        source_agent=None if made.source_agent is None else made.source_agent.id,
        source_user=None if made.source_user is None else made.source_user.id,
        sink_agent=None if made.sink_agent is None else made.sink_agent.id,
        correlation_id=made.correlation_id,
        task_id=made.task_id,
        body=body,
    )
