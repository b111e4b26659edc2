"""The audit log: it builds events, queues them, and writes them in batches with the task rows of their calls.

The events of a hold are not written here but with the hold
(docs/decisions/0021-write-audit-events-in-batches.md).
"""

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any, NamedTuple, Required, TypedDict, Unpack

import msgspec
from msgspec.structs import replace

from placet.ports.audit_store import AuditRow
from placet.ports.relay_store import RelayStore
from placet.relay.audit.audit_event import AuditEvent, AuditParty, Transport
from placet.relay.exchange import CallWrites
from placet.relay.tenants import Membership, PayloadMode, Subscription
from placet.relay.write_queue import WriteQueue

MAX_EVENT_BYTES = 320 * 1024
"""Room for two bodies and the other fields."""
MAX_ID_LENGTH = 500
MICROSECOND = timedelta(microseconds=1)
PAYLOAD_TOO_LARGE = {"payloadOmitted": "too large"}
_encode = msgspec.json.Encoder().encode


class EventStamp(NamedTuple):
    """The time of an event, and its number among all events of the process."""

    at: datetime
    number: int


class EventFields(TypedDict, total=False):
    """The fields of `AuditLog.build_event`. Without a stamp, the event has the current time."""

    correlation_id: Required[str]
    stamp: EventStamp | None
    action: str | None
    transport: Transport | None
    message: str
    task_id: str | None
    context_id: str | None
    message_id: str | None
    task_state: str | None
    took_for: timedelta | None
    payload: dict[str, Any] | None
    metadata: dict[str, Any] | None


class AuditLog:
    """Builds events with ids that increase with time and order, and writes them in batches."""

    def __init__(
        self,
        store: RelayStore,
        *,
        now: Callable[[], datetime],
        get_payload_mode: Callable[[str], PayloadMode] = lambda tenant: "masked",
    ) -> None:
        """Take `get_payload_mode`, which returns how a tenant's bodies are stored (`build_payload_body`)."""
        self.get_payload_mode = get_payload_mode
        self.queue = WriteQueue(store)
        """Writes the events, and the task rows that belong to them."""
        self._now = now
        self._numbers = count()
        self._process = os.urandom(6).hex()

    @property
    def is_behind(self) -> bool:
        """Whether the store is unavailable and events wait for it."""
        return self.queue.is_behind

    def stamp(self) -> EventStamp:
        """Return the time and number of an event that is built later."""
        return EventStamp(self._now(), next(self._numbers))

    def build_event(self, type: str, subscription: Subscription, **fields: Unpack[EventFields]) -> AuditRow:
        """Return an event of the current time, or of its stamp. Pass it to `record`, or write it with a hold.

        `payload` has the fields of `AuditPayload` by their wire names. `requestBody` and `responseBody` come
        from `build_payload_body`. `message`, `metadata` and masked bodies must not contain findings, although
        only the auditors of the tenant read them.
        """
        stamp = fields.get("stamp") or self.stamp()
        now, took_for = stamp.at, fields.get("took_for")
        source, sink = AuditParty.of(subscription.source.name), AuditParty.of(subscription.sink.id)
        is_agent = subscription.source.kind == "agent"
        return _build_row(
            AuditEvent(
                event_id=self._generate_id(stamp),
                tenant_id=subscription.tenant,
                audit_type=type,
                transport=fields.get("transport"),
                audit_action=fields.get("action"),
                sent_at=now if took_for is None else now - took_for,
                created_at=now,
                duration_micros=None if took_for is None else took_for // MICROSECOND,
                message=fields.get("message", ""),
                correlation_id=fields["correlation_id"],
                source_agent=source if is_agent else None,
                source_user=None if is_agent else source,
                sink_agent=sink,
                payload=fields.get("payload"),  # type: ignore[arg-type]  # may contain encoded JSON
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
        """Return the event of a member's change of a policy, a binding or another record.

        Write it in the transaction of the change (`ConfigStore.change_records`).
        """
        stamp = self.stamp()
        event_id = self._generate_id(stamp)
        return _build_row(
            AuditEvent(
                event_id=event_id,
                tenant_id=member.tenant,
                audit_type=type,
                audit_action="LOG",
                sent_at=stamp.at,
                created_at=stamp.at,
                message=message,
                correlation_id=event_id,
                source_user=AuditParty.of(member.name),
                metadata=metadata,
            )
        )

    def record(self, *events: AuditRow, call: CallWrites | None = None) -> None:
        """Queue events. They are written in order and in batches, at most 40 ms later.

        The task rows of `call` are written in the transaction of the first event. Raises Unavailable if the
        queue is full. Without events, the method only checks that.
        """
        self.queue.record(*events, call=call)

    def record_later(
        self, make: Callable[[], AuditRow], *, size: int, call: CallWrites | None = None
    ) -> None:
        """Queue an event that `make` builds when it is written; see `record`.

        To build the event between two calls would cost twice as much. `make` raises nothing, and its
        arguments take about `size` bytes until it is called.
        """
        self.queue.record_later(make, size, call)

    def discard(self, call: CallWrites) -> None:
        """Forget the task rows of a call that still wait, because no event of the call will be recorded."""
        self.queue.discard(call)

    async def flush(self) -> None:
        """Return when all recorded events are on disk."""
        await self.queue.flush()

    async def aclose(self) -> None:
        """Write what is queued and accept no more. What cannot be written in time is lost and logged."""
        await self.queue.aclose()

    def _generate_id(self, stamp: EventStamp) -> str:
        micros = int(stamp.at.timestamp() * 1_000_000)
        return f"evt_{micros << 24 | stamp.number & 0xFFFFFF:020x}{self._process}"


def _truncate_id(id: str | None) -> str | None:
    """Shorten an id that its sender chose, so that the store accepts the event."""
    return id if id is None or len(id) <= MAX_ID_LENGTH else id[:MAX_ID_LENGTH]


def _build_row(event: AuditEvent) -> AuditRow:
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
