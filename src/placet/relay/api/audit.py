"""`/audit/v1`: what happened to messages, by time, kind, people and agents; as traces, and as one file."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from placet.errors import CaseNotFound, ValidationFailed
from placet.http.paging import DEFAULT_SIZE, MAX_SIZE, Page, PageQuery
from placet.http.route import ApiStream, HttpApi, RouteReply
from placet.ports.audit_store import AuditFilter, AuditStore, Trace
from placet.protocol.conversion import quote
from placet.protocol.timestamp import Timestamp
from placet.relay.api.access import RelayRequest, RelayRouteGroup
from placet.relay.api.time_ranges import check_period
from placet.relay.audit.audit_event import AUDIT_ACTIONS, AUDIT_TYPES, AuditEvent, AuditParty, Transport
from placet.relay.audit.audit_log import AuditLog

PATH = "/audit/v1"
EVENTS, TRACES = f"{PATH}/events", f"{PATH}/traces"
FARTHEST = 100_000
"""How far pages go."""
MOST_STEPS, STEPS_AT_ONCE = 1_000, 50
EXPORT_BATCH = 200
MICROS = 1_000_000
PLUGGED_IN = re.compile(r"[A-Z][A-Z0-9_]{0,99}_DETECTION")
FLUSH_WITHIN_S = 1.0

T = TypeVar("T")
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Types = Annotated[str, Meta(min_length=1, max_length=500)]

# Who may say who is who is trusted with what is kept of them.
audit = RelayRouteGroup(
    tag="Audit",
    description="What happened to every message, and how much of it is kept for how long.",
    read="AUDIT:READ",
    write="GROUPS:WRITE",
)


class AuditEventQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which events are meant."""

    start_time: Annotated[Timestamp | None, Meta(description="From this moment on.")] = None
    end_time: Annotated[Timestamp | None, Meta(description="Before this moment.")] = None
    audit_type: Annotated[
        Types | None, Meta(description="Only these types: several times, or with commas between.")
    ] = None
    transport: Annotated[Transport | None, Meta(description="Only what travelled so.")] = None
    audit_action: Annotated[Name | None, Meta(description="Only what came to this.")] = None
    correlation_id: Annotated[Name | None, Meta(description="Only what belongs to one call.")] = None
    source_agent_id: Annotated[Name | None, Meta(description="Only what this agent sent.")] = None
    source_user_id: Annotated[Name | None, Meta(description="Only what this user sent.")] = None
    sink_agent_id: Annotated[Name | None, Meta(description="Only what was for this agent.")] = None
    task_id: Annotated[Name | None, Meta(description="Only what belongs to one task.")] = None

    def filter(self) -> AuditFilter:
        """The same for the store; raises ValidationFailed for what there is not."""
        check_period(self.start_time, self.end_time)
        if self.audit_action is not None and self.audit_action not in AUDIT_ACTIONS:
            raise _unknown("auditAction", self.audit_action, AUDIT_ACTIONS)
        return AuditFilter(
            since=self.start_time,
            until=self.end_time,
            types=_types(self.audit_type),
            action=self.audit_action,
            transport=self.transport,
            source_agent=self.source_agent_id,
            source_user=self.source_user_id,
            sink_agent=self.sink_agent_id,
            correlation_id=self.correlation_id,
            task_id=self.task_id,
        )


class AuditQuery(AuditEventQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which events are meant, and which page of them."""

    page: Annotated[int, Meta(ge=0, le=FARTHEST, description="Counted from 0.")] = 0
    size: Annotated[int, Meta(ge=1, le=MAX_SIZE, description="How many a page holds.")] = DEFAULT_SIZE

    def make_page(self, content: Sequence[T], total: int) -> Page[T]:
        """The page with this content, out of so many."""
        return PageQuery(page=self.page, size=self.size).make_page(content, total)

    def filter(self) -> AuditFilter:
        """See `AuditEventQuery`; pages do not go on for ever."""
        if self.page * self.size >= FARTHEST:
            raise ValidationFailed(
                f"page: pages end at {FARTHEST:,} events; ask for less time, or export them."
            )
        return super().filter()


class TraceView(Struct, frozen=True, kw_only=True, rename="camel"):
    """All that belongs to one call, in numbers."""

    correlation_id: str
    start_time: Annotated[
        Timestamp, Meta(description="In a list when the first event was made, of one trace when it began.")
    ]
    end_time: Annotated[Timestamp, Meta(description="When the last event was made.")]
    total_duration_micros: int
    step_count: int


class TraceStep(Struct, frozen=True, kw_only=True, rename="camel"):
    """One event of a call."""

    event_id: str
    audit_type: str
    audit_action: str | None
    offset_micros: Annotated[int, Meta(description="How long after the beginning of the call it began.")]
    duration_micros: Annotated[int | None, Meta(description="How long it took.")]
    message: str
    source_agent: AuditParty | None
    source_user: AuditParty | None
    sink_agent: AuditParty | None
    task_id: str | None
    task_state: str | None
    resolved_by: Annotated[str | None, Meta(description="Who decided, if this is a person's decision.")]


class TraceDetail(TraceView, frozen=True, kw_only=True, rename="camel"):
    """All that belongs to one call, step by step."""

    steps: Annotated[tuple[TraceStep, ...], Meta(description=f"The first {MOST_STEPS}, as they began.")]


class _Decided(Struct, frozen=True, rename="camel"):
    resolved_by: str | None = None


class _Happened(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a step tells of an `AuditEvent`. The message in it may be large, and is not even read."""

    event_id: str
    audit_type: str
    audit_action: str | None
    sent_at: datetime
    created_at: datetime
    duration_micros: int | None
    message: str
    source_agent: AuditParty | None
    source_user: AuditParty | None
    sink_agent: AuditParty | None
    task_id: str | None
    task_state: str | None
    metadata: _Decided | None


_happened = msgspec.json.Decoder(_Happened).decode


class AuditApi(HttpApi):
    """Handles these routes."""

    def __init__(self, store: AuditStore, trail: AuditLog, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._trail = trail
        self._now = now

    @audit.get(
        EVENTS,
        "listAuditEvents",
        description=f"The newest first. Pages end at {FARTHEST:,} events: ask for less time, or export.",
        query=AuditQuery,
        repeatable=("auditType",),
        reply=Page[AuditEvent],
    )
    async def list_events(self, request: RelayRequest) -> Page[msgspec.Raw]:
        """List audit events."""
        asked = request.read_query(AuditQuery)
        wanted = asked.filter()
        await self._catch_up()
        found, total = await self._store.list_audit_events(
            request.member.tenant, wanted, page=asked.page, size=asked.size
        )
        return asked.make_page([msgspec.Raw(row.body) for row in found], total)

    @audit.get(f"{EVENTS}/{{eventId}}", "getAuditEvent", reply=AuditEvent, errors=(CaseNotFound,))
    async def get_event(self, request: RelayRequest) -> msgspec.Raw:
        """Look at one audit event."""
        await self._catch_up()
        found = await self._store.get_audit_event(request.member.tenant, request.path["eventId"])
        if found is None:
            raise CaseNotFound("There is no such event.")
        return msgspec.Raw(found.body)

    @audit.get(
        TRACES,
        "listTraces",
        description="Those with events that fit, the newest first.",
        query=AuditQuery,
        repeatable=("auditType",),
        reply=Page[TraceView],
    )
    async def traces(self, request: RelayRequest) -> Page[TraceView]:
        """List traces: calls by their correlation id."""
        asked = request.read_query(AuditQuery)
        wanted = asked.filter()
        await self._catch_up()
        found, total = await self._store.list_traces(
            request.member.tenant, wanted, page=asked.page, size=asked.size
        )
        return asked.make_page([_trace_view(one) for one in found], total)

    @audit.get(f"{TRACES}/{{correlationId}}", "getTrace", reply=TraceDetail, errors=(CaseNotFound,))
    async def trace(self, request: RelayRequest) -> TraceDetail:
        """Follow one call step by step."""
        await self._catch_up()
        correlation_id = request.path["correlationId"]
        events, total = await self._first_events(request.member.tenant, correlation_id)
        if not events:
            raise CaseNotFound("There is no such trace.")
        ended = events[-1].created_at
        events.sort(key=_beginning)
        began = events[0].sent_at
        return TraceDetail(
            correlation_id=correlation_id,
            start_time=began,
            end_time=ended,
            total_duration_micros=_micros(began, ended),
            step_count=total,
            steps=tuple(_step(event, began) for event in events),
        )

    @audit.get(
        f"{PATH}/export",
        "exportAuditEvents",
        description="JSON Lines, one event each, in the order they were written; as many as there are.",
        query=AuditEventQuery,
        repeatable=("auditType",),
        reply=RouteReply(description="Piece by piece.", model=str, media="application/x-ndjson"),
    )
    async def export(self, request: RelayRequest) -> ApiStream:
        """Export audit events as JSON Lines."""
        asked = request.read_query(AuditEventQuery).filter()
        await self._catch_up()
        # Without an end an export would follow the traffic for as long as there is some.
        until = self._now() if asked.until is None else asked.until
        wanted = msgspec.structs.replace(asked, until=until)
        return ApiStream(
            pieces=export_lines(self._store, request.member.tenant, wanted), filename="audit-events.jsonl"
        )

    async def _first_events(self, tenant: str, correlation_id: str) -> tuple[list[_Happened], int]:
        """The first events of a call, read some at a time, and how many there are in all."""
        asked = AuditFilter(correlation_id=correlation_id)
        found: list[_Happened] = []
        total = 0
        for page in range(MOST_STEPS // STEPS_AT_ONCE):
            rows, total = await self._store.list_audit_events(
                tenant, asked, page=page, size=STEPS_AT_ONCE, order="oldest"
            )
            found += [_happened(row.body) for row in rows]
            if len(rows) < STEPS_AT_ONCE:
                break
        return found, total

    async def _catch_up(self) -> None:
        """Whoever asks after a call finds it; an unavailable store says so itself."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_WITHIN_S):
                await self._trail.flush()


async def export_lines(store: AuditStore, tenant: str, asked: AuditFilter) -> AsyncIterator[bytes]:
    """All events as JSON Lines, some at a time."""
    after = 0
    while rows := await store.list_audit_events_after(tenant, asked, after=after, limit=EXPORT_BATCH):
        yield b"".join(row.body + b"\n" for _, row in rows)
        after = rows[-1][0]


def _types(asked: str | None) -> tuple[str, ...]:
    types = () if asked is None else tuple(dict.fromkeys(asked.split(",")))
    for one in types:
        if one not in AUDIT_TYPES and not PLUGGED_IN.fullmatch(one):
            raise _unknown("auditType", one, AUDIT_TYPES)
    return types


def _trace_view(trace: Trace) -> TraceView:
    return TraceView(
        correlation_id=trace.correlation_id,
        start_time=trace.began_at,
        end_time=trace.ended_at,
        total_duration_micros=_micros(trace.began_at, trace.ended_at),
        step_count=trace.events,
    )


def _beginning(event: _Happened) -> tuple[datetime, str]:
    return event.sent_at, event.event_id


def _step(event: _Happened, began: datetime) -> TraceStep:
    return TraceStep(
        event_id=event.event_id,
        audit_type=event.audit_type,
        audit_action=event.audit_action,
        offset_micros=_micros(began, event.sent_at),
        duration_micros=event.duration_micros,
        message=event.message,
        source_agent=event.source_agent,
        source_user=event.source_user,
        sink_agent=event.sink_agent,
        task_id=event.task_id,
        task_state=event.task_state,
        resolved_by=None if event.metadata is None else event.metadata.resolved_by,
    )


def _micros(began: datetime, ended: datetime) -> int:
    return round((ended - began).total_seconds() * MICROS)


def _unknown(name: str, value: str, known: Iterable[str]) -> ValidationFailed:
    return ValidationFailed(f"{name}: there is no {quote(value)}; there are {', '.join(known)}.")
