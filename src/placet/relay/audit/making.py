"""Makes events: each is encoded once, and kept and sent as those bytes."""

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from placet.ports.audit_store import AuditRow
from placet.relay.audit.event import Party
from placet.relay.membership.registry import Subscription
from placet.relay.membership.tenancy import Membership

LARGEST_EVENT = 320 * 1024
"""Two bodies and what is said about them."""
LONGEST_ID = 500
MICROSECOND = timedelta(microseconds=1)
TOO_LARGE = {"payloadOmitted": "too large"}


class Stamp(NamedTuple):
    """When an event happened, and which of those of one moment it is: it may be made later."""

    at: datetime
    number: int


class _Made(Struct, frozen=True, kw_only=True, rename="camel"):
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
    source_agent: Party | None
    source_user: Party | None
    sink_agent: Party | None
    payload: dict[str, Any] | None
    metadata: dict[str, Any] | None
    context_id: str | None
    task_id: str | None
    message_id: str | None
    task_state: str | None


_encode = msgspec.json.Encoder().encode


class EventMaker:
    """Makes rows of now; their ids rise with the time, and in one moment with their order."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._numbers = count()
        self._process = os.urandom(6).hex()

    def stamp(self) -> Stamp:
        """See `Trail.stamp`."""
        return Stamp(self._now(), next(self._numbers))

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
        stamp: Stamp | None = None,
    ) -> AuditRow:
        """See `Trail.row`."""
        stamp = stamp or self.stamp()
        now = stamp.at
        source, sink = subscription.source.name, subscription.sink.id
        agent, user = (source, None) if subscription.source.kind == "agent" else (None, source)
        return _row(
            _Made(
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
                source_agent=None if agent is None else Party(agent, agent),
                source_user=None if user is None else Party(user, user),
                sink_agent=Party(sink, sink),
                payload=payload,
                metadata=metadata,
                context_id=_clipped(context_id),
                task_id=_clipped(task_id),
                message_id=_clipped(message_id),
                task_state=task_state,
            )
        )

    def change(
        self, member: Membership, message: str, *, metadata: dict[str, Any], type: str = "POLICY_LIFECYCLE"
    ) -> AuditRow:
        """See `Trail.change`."""
        stamp = self.stamp()
        now, event_id = stamp.at, self._id(stamp)
        return _row(
            _Made(
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
                source_user=Party(member.name, member.name),
                sink_agent=None,
                payload=None,
                metadata=metadata,
                context_id=None,
                task_id=None,
                message_id=None,
                task_state=None,
            )
        )

    def _id(self, stamp: Stamp) -> str:
        micros = int(stamp.at.timestamp() * 1_000_000)
        return f"evt_{micros << 24 | stamp.number & 0xFFFFFF:020x}{self._process}"


def _clipped(id: str | None) -> str | None:
    """An id of its sender's choice: one that no store would keep must not keep its event out."""
    return id if id is None or len(id) <= LONGEST_ID else id[:LONGEST_ID]


def _row(made: _Made) -> AuditRow:
    body = _encode(made)
    if len(body) > LARGEST_EVENT:
        body = _encode(replace(made, payload=None, metadata=TOO_LARGE, message=made.message[:1_000]))
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
