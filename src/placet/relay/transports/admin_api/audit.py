"""`/audit/v1` and `/relay/v1/tenant`: list, trace and export audit events, and change their retention."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from placet.errors import CaseNotFound, RelayConflict, ValidationFailed
from placet.http.conditional import check_if_match
from placet.http.paging import DEFAULT_SIZE, MAX_SIZE, Page, PageQuery
from placet.http.route import ApiStream, HttpApi, RouteReply
from placet.ports.audit_store import AuditFilter, AuditStore, Trace
from placet.protocol.conversion import quote
from placet.protocol.duration import MAX_TEXT_LENGTH
from placet.protocol.timestamp import Timestamp
from placet.relay.audit.audit_event import AUDIT_ACTIONS, AUDIT_TYPES, AuditEvent, AuditParty, Transport
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.retention import TenantRetention
from placet.relay.route_addresses import OPERATIONS
from placet.relay.tenants import PayloadMode, RetentionPolicy
from placet.relay.transports.admin_api.access import RelayRequest, RelayRouteGroup, check_period
from placet.relay.transports.admin_api.records import RecordOrigin, Rev

MAX_PAGED = 100_000
"""The maximum number of events that can be reached with pages."""
MAX_STEPS, STEP_BATCH = 1_000, 50
EXPORT_BATCH = 200
MICROS = 1_000_000
PLUGIN_TYPE = re.compile(r"[A-Z][A-Z0-9_]{0,99}_DETECTION")
FLUSH_WITHIN_S = 1.0

T = TypeVar("T")
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Types = Annotated[str, Meta(min_length=1, max_length=500)]

# Members who may change groups may also change the retention of the audit log.
audit = RelayRouteGroup(
    tag="Audit",
    description="The audit log of all messages, and its retention.",
    read="AUDIT:READ",
    write="GROUPS:WRITE",
)


class AuditEventQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The filter of audit events."""

    start_time: Annotated[Timestamp | None, Meta(description="Only events at or after this time.")] = None
    end_time: Annotated[Timestamp | None, Meta(description="Only events before this time.")] = None
    audit_type: Annotated[
        Types | None, Meta(description="Only these types. Repeat it, or separate types with commas.")
    ] = None
    transport: Annotated[Transport | None, Meta(description="Only events of this transport.")] = None
    audit_action: Annotated[Name | None, Meta(description="Only events with this action.")] = None
    correlation_id: Annotated[Name | None, Meta(description="Only events with this correlation id.")] = None
    source_agent_id: Annotated[Name | None, Meta(description="Only calls from this agent.")] = None
    source_user_id: Annotated[Name | None, Meta(description="Only calls from this user.")] = None
    sink_agent_id: Annotated[Name | None, Meta(description="Only calls to this agent.")] = None
    task_id: Annotated[Name | None, Meta(description="Only events of this task.")] = None

    def filter(self) -> AuditFilter:
        """Return the filter for the store. Raises ValidationFailed for values that are not valid."""
        check_period(self.start_time, self.end_time)
        if self.audit_action is not None and self.audit_action not in AUDIT_ACTIONS:
            raise _build_unknown_error("auditAction", self.audit_action, AUDIT_ACTIONS)
        return AuditFilter(
            since=self.start_time,
            until=self.end_time,
            types=_parse_types(self.audit_type),
            action=self.audit_action,
            transport=self.transport,
            source_agent=self.source_agent_id,
            source_user=self.source_user_id,
            sink_agent=self.sink_agent_id,
            correlation_id=self.correlation_id,
            task_id=self.task_id,
        )


class AuditQuery(AuditEventQuery, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The filter and page of a list of audit events."""

    page: Annotated[int, Meta(ge=0, le=MAX_PAGED, description="The page, starting at 0.")] = 0
    size: Annotated[int, Meta(ge=1, le=MAX_SIZE, description="The number of elements per page.")] = (
        DEFAULT_SIZE
    )

    def make_page(self, content: Sequence[T], total: int) -> Page[T]:
        """Return the page with this content, out of `total` elements."""
        return PageQuery(page=self.page, size=self.size).make_page(content, total)

    def filter(self) -> AuditFilter:
        """Return the filter for the store. Raises ValidationFailed for a page after `MAX_PAGED` events."""
        if self.page * self.size >= MAX_PAGED:
            raise ValidationFailed(
                f"page: pages end at {MAX_PAGED:,} events. Send a shorter time range, or export the events."
            )
        return super().filter()


class TraceView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The events of one call in numbers."""

    correlation_id: str
    start_time: Annotated[
        Timestamp,
        Meta(description="When the call started. In a list, when its first event was recorded."),
    ]
    end_time: Annotated[Timestamp, Meta(description="When the last event was recorded.")]
    total_duration_micros: int
    step_count: int


class EventSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of an `AuditEvent` that a step of a trace repeats."""

    event_id: str
    audit_type: str
    audit_action: str | None
    message: str
    source_agent: AuditParty | None
    source_user: AuditParty | None
    sink_agent: AuditParty | None
    task_id: str | None
    task_state: str | None


class TraceStep(EventSummary, frozen=True, kw_only=True, rename="camel"):
    """One event of a call."""

    offset_micros: Annotated[int, Meta(description="The time from the start of the call to this step.")]
    duration_micros: Annotated[int | None, Meta(description="The duration of the step.")]
    resolved_by: Annotated[str | None, Meta(description="The reviewer, if this step is a decision.")]


class TraceDetail(TraceView, frozen=True, kw_only=True, rename="camel"):
    """The events of one call, step by step."""

    steps: Annotated[tuple[TraceStep, ...], Meta(description=f"The first {MAX_STEPS} steps, by start time.")]


class _DecisionMetadata(Struct, frozen=True, rename="camel"):
    resolved_by: str | None = None


class _StoredEvent(EventSummary, frozen=True, kw_only=True, rename="camel"):
    """The fields of an `AuditEvent` that a step needs. Its payload may be large, so it is not decoded."""

    sent_at: datetime
    created_at: datetime
    duration_micros: int | None
    metadata: _DecisionMetadata | None


_decode_event = msgspec.json.Decoder(_StoredEvent).decode


class AuditApi(HttpApi):
    """Handles the routes of audit events."""

    def __init__(self, store: AuditStore, audit_log: AuditLog, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._audit_log = audit_log
        self._now = now

    @audit.declare(
        OPERATIONS["listAuditEvents"],
        description=f"The newest first. Pages end at {MAX_PAGED:,} events. To get more, use a shorter time "
        "range or the export.",
        query=AuditQuery,
        repeatable=("auditType",),
        reply=Page[AuditEvent],
    )
    async def list_events(self, request: RelayRequest) -> Page[msgspec.Raw]:
        """List audit events."""
        query = request.read_query(AuditQuery)
        audit_filter = query.filter()
        await self._flush()
        rows, total = await self._store.list_audit_events(
            request.member.tenant, audit_filter, page=query.page, size=query.size
        )
        return query.make_page([msgspec.Raw(row.body) for row in rows], total)

    @audit.declare(OPERATIONS["getAuditEvent"], reply=AuditEvent, errors=(CaseNotFound,))
    async def get_event(self, request: RelayRequest) -> msgspec.Raw:
        """Get an audit event."""
        await self._flush()
        row = await self._store.get_audit_event(request.member.tenant, request.path["eventId"])
        if row is None:
            raise CaseNotFound("Audit event not found.")
        return msgspec.Raw(row.body)

    @audit.declare(
        OPERATIONS["listTraces"],
        description="Lists traces with a matching event, the newest first.",
        query=AuditQuery,
        repeatable=("auditType",),
        reply=Page[TraceView],
    )
    async def traces(self, request: RelayRequest) -> Page[TraceView]:
        """List traces: calls by their correlation id."""
        query = request.read_query(AuditQuery)
        audit_filter = query.filter()
        await self._flush()
        found, total = await self._store.list_traces(
            request.member.tenant, audit_filter, page=query.page, size=query.size
        )
        return query.make_page([_build_trace_view(trace) for trace in found], total)

    @audit.declare(OPERATIONS["getTrace"], reply=TraceDetail, errors=(CaseNotFound,))
    async def trace(self, request: RelayRequest) -> TraceDetail:
        """Get the steps of one call."""
        await self._flush()
        correlation_id = request.path["correlationId"]
        events, total = await self._first_events(request.member.tenant, correlation_id)
        if not events:
            raise CaseNotFound("Trace not found.")
        ended_at = events[-1].created_at
        events.sort(key=lambda event: (event.sent_at, event.event_id))
        started_at = events[0].sent_at
        return TraceDetail(
            correlation_id=correlation_id,
            start_time=started_at,
            end_time=ended_at,
            total_duration_micros=_count_micros(started_at, ended_at),
            step_count=total,
            steps=tuple(_build_step_view(event, started_at) for event in events),
        )

    @audit.declare(
        OPERATIONS["exportAuditEvents"],
        description="One event per line, in the order in which they were recorded, without a limit.",
        query=AuditEventQuery,
        repeatable=("auditType",),
        reply=RouteReply(description="A stream of lines.", model=str, media="application/x-ndjson"),
    )
    async def export(self, request: RelayRequest) -> ApiStream:
        """Export audit events as JSON Lines."""
        audit_filter = request.read_query(AuditEventQuery).filter()
        await self._flush()
        # Without an end, the export would never finish while there is traffic.
        until = self._now() if audit_filter.until is None else audit_filter.until
        limited = msgspec.structs.replace(audit_filter, until=until)
        return ApiStream(
            pieces=export_lines(self._store, request.member.tenant, limited), filename="audit-events.jsonl"
        )

    async def _first_events(self, tenant: str, correlation_id: str) -> tuple[list[_StoredEvent], int]:
        """Return the first events of a call, read in batches, and the number of all its events."""
        audit_filter = AuditFilter(correlation_id=correlation_id)
        events: list[_StoredEvent] = []
        total = 0
        for page in range(MAX_STEPS // STEP_BATCH):
            rows, total = await self._store.list_audit_events(
                tenant, audit_filter, page=page, size=STEP_BATCH, order="oldest"
            )
            events += [_decode_event(row.body) for row in rows]
            if len(rows) < STEP_BATCH:
                break
        return events, total

    async def _flush(self) -> None:
        """Write pending events, so that a call can be found as soon as it ends.

        Ignores a timeout: if the store is unavailable, reading from it raises the error.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_WITHIN_S):
                await self._audit_log.flush()


async def export_lines(store: AuditStore, tenant: str, audit_filter: AuditFilter) -> AsyncIterator[bytes]:
    """Yield all events as JSON Lines, in batches."""
    after = 0
    while rows := await store.list_audit_events_after(tenant, audit_filter, after=after, limit=EXPORT_BATCH):
        yield b"".join(row.body + b"\n" for _, row in rows)
        after = rows[-1][0]


def _parse_types(value: str | None) -> tuple[str, ...]:
    types = () if value is None else tuple(dict.fromkeys(value.split(",")))
    for audit_type in types:
        if audit_type not in AUDIT_TYPES and not PLUGIN_TYPE.fullmatch(audit_type):
            raise _build_unknown_error("auditType", audit_type, AUDIT_TYPES)
    return types


def _build_trace_view(trace: Trace) -> TraceView:
    return TraceView(
        correlation_id=trace.correlation_id,
        start_time=trace.began_at,
        end_time=trace.ended_at,
        total_duration_micros=_count_micros(trace.began_at, trace.ended_at),
        step_count=trace.events,
    )


def _build_step_view(event: _StoredEvent, started_at: datetime) -> TraceStep:
    return TraceStep(
        **{name: getattr(event, name) for name in EventSummary.__struct_fields__},
        offset_micros=_count_micros(started_at, event.sent_at),
        duration_micros=event.duration_micros,
        resolved_by=None if event.metadata is None else event.metadata.resolved_by,
    )


def _count_micros(start: datetime, end: datetime) -> int:
    return round((end - start).total_seconds() * MICROS)


def _build_unknown_error(name: str, value: str, known: Iterable[str]) -> ValidationFailed:
    return ValidationFailed(f"{name}: {quote(value)} does not exist. Use one of {', '.join(known)}.")


Duration = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH, examples=["30d"])]


class TenantRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The retention of a tenant's audit log. Omitted fields get the default of the server."""

    keep_events_for: Annotated[
        Duration, Meta(description="How long events, decided holds and tasks are stored.")
    ] = RetentionPolicy().keep_events_for
    keep_payloads_for: Annotated[
        Duration, Meta(description="How long the bodies of messages are stored in events.")
    ] = RetentionPolicy().keep_payloads_for
    payloads: Annotated[
        PayloadMode,
        Meta(description="Whether to store no bodies, bodies with masked findings, or full bodies."),
    ] = RetentionPolicy().payloads


class TenantView(TenantRequest, frozen=True, kw_only=True, rename="camel"):
    """The retention of a tenant's audit log, and where it is set."""

    tenant_id: str
    origin: RecordOrigin
    rev: Rev


class TenantApi(HttpApi):
    """Handles the routes of a tenant's retention."""

    def __init__(self, retention: TenantRetention, audit_log: AuditLog) -> None:
        self._retention = retention
        self._audit_log = audit_log

    @audit.declare(OPERATIONS["getTenant"], reply=TenantView)
    async def get_tenant(self, request: RelayRequest) -> TenantView:
        """Get the retention of the audit log."""
        return self._build_view(request.member.tenant)

    @audit.declare(
        OPERATIONS["changeTenant"],
        description="Bodies that are older than `keepPayloadsFor`, and events that are older than "
        "`keepEventsFor`, are deleted permanently within minutes.",
        body=TenantRequest,
        reply=TenantView,
        errors=(RelayConflict,),
    )
    async def change_tenant(self, request: RelayRequest) -> TenantView:
        """Change the retention of the audit log."""
        body = request.read_body(TenantRequest)
        policy = RetentionPolicy(
            keep_events_for=body.keep_events_for,
            keep_payloads_for=body.keep_payloads_for,
            payloads=body.payloads,
        )
        await self._retention.save(
            request.member, policy, self._audit_log, check=lambda rev: check_if_match(request.if_match, rev)
        )
        return self._build_view(request.member.tenant)

    def _build_view(self, tenant: str) -> TenantView:
        policy, is_in_settings = self._retention.get_policy(tenant), self._retention.is_in_settings(tenant)
        return TenantView(
            tenant_id=tenant,
            origin="settings" if is_in_settings else "store",
            rev=None if is_in_settings else self._retention.get_rev(tenant),
            keep_events_for=policy.keep_events_for,
            keep_payloads_for=policy.keep_payloads_for,
            payloads=policy.payloads,
        )
