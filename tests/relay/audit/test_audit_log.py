"""Events are written a moment later than they happen, in their order, and never silently lost."""

import asyncio
import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from placet.errors import Unavailable, ValidationFailed
from placet.ports.audit_store import AuditFilter, AuditRow
from placet.ports.identity import Principal
from placet.relay import write_queue
from placet.relay.audit.audit_event import AuditEvent
from placet.relay.audit.audit_log import MAX_ID_LENGTH, AuditLog
from placet.relay.exchange import Exchange
from placet.relay.runtime.call_recorder import CallOutcome, CallRecorder
from placet.relay.tenants import Membership
from placet.relay.write_queue import BATCH, MAX_UNBUILT
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.clock import FakeClock
from tests.relay.audit.samples import build_call, build_reply, build_subscription
from tests.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.anyio
ALL = AuditFilter()


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class FlakyStore(InMemorySqliteStore):
    """A store that is away for a while, and that never takes what is called poison."""

    def __init__(self) -> None:
        super().__init__()
        self.away = asyncio.Event()
        self.tried = asyncio.Event()
        self.batches: list[int] = []

    async def add_audit_events(self, events: Sequence[AuditRow]) -> None:
        self.tried.set()
        if self.away.is_set():
            raise Unavailable
        if any(event.correlation_id == "poison" for event in events):
            raise ValidationFailed
        self.batches.append(len(events))
        await super().add_audit_events(events)


def record_events(trail: AuditLog, *names: str) -> None:
    for name in names:
        trail.record(trail.build_event("COMMUNICATION_AUDIT", build_subscription(), correlation_id=name))


async def list_stored_names(store: InMemorySqliteStore) -> list[str]:
    found, _ = await store.list_audit_events("default", ALL, page=0, size=100_000, order="oldest")
    return [row.correlation_id for row in found]


async def test_an_event_is_what_the_reference_says():
    clock = FakeClock()
    row = AuditLog(InMemorySqliteStore(), now=clock).build_event(
        "REGEX_DETECTION",
        build_subscription(),
        correlation_id="corr-1",
        action="MASK",
        transport="JSONRPC",
        message="No SSNs matched, and its action is MASK.",
        task_id="t-1",
        context_id="c-1",
        message_id="m-1",
        task_state="working",
        took_for=timedelta(milliseconds=2),
        payload={"version": "1.0", "method": "SendMessage", "requestBody": msgspec.Raw(b'{"a":1}')},
        metadata={"policyName": "No SSNs"},
    )
    event = json.loads(row.body)
    assert event == {
        "eventId": row.id,
        "tenantId": "default",
        "auditType": "REGEX_DETECTION",
        "transport": "JSONRPC",
        "auditAction": "MASK",
        "sentAt": "2026-01-01T05:59:59.998000Z",
        "createdAt": "2026-01-01T06:00:00Z",
        "durationMicros": 2000,
        "message": "No SSNs matched, and its action is MASK.",
        "correlationId": "corr-1",
        "sourceAgent": {"id": "trip-planner", "name": "trip-planner"},
        "sourceUser": None,
        "sinkAgent": {"id": "weather", "name": "weather"},
        "payload": {"version": "1.0", "method": "SendMessage", "requestBody": {"a": 1}},
        "metadata": {"policyName": "No SSNs"},
        "contextId": "c-1",
        "taskId": "t-1",
        "messageId": "m-1",
        "taskState": "working",
    }
    assert list(event) == [field.encode_name for field in msgspec.structs.fields(AuditEvent)]
    assert msgspec.json.decode(row.body, type=AuditEvent).event_id == row.id
    assert (row.tenant, row.at, row.type, row.action, row.transport) == (
        "default",
        clock(),
        "REGEX_DETECTION",
        "MASK",
        "JSONRPC",
    )
    assert (row.source_agent, row.source_user, row.sink_agent) == ("trip-planner", None, "weather")
    assert (row.correlation_id, row.task_id) == ("corr-1", "t-1")


async def test_user_and_agent_are_distinguished():
    row = AuditLog(InMemorySqliteStore(), now=FakeClock()).build_event(
        "HITL", build_subscription("ada", kind="user"), correlation_id="c"
    )
    event = json.loads(row.body)
    assert (event["sourceAgent"], event["sourceUser"]) == (None, {"id": "ada", "name": "ada"})
    assert (row.source_agent, row.source_user) == (None, "ada")


async def test_a_change_by_a_member_names_the_member():
    trail = AuditLog(InMemorySqliteStore(), now=FakeClock())
    member = Membership(principal=Principal(name="ada"), tenant="acme")
    event = json.loads(
        trail.build_change_event(member, "ada wrote a policy.", metadata={"policyId": "p"}).body
    )
    assert (event["tenantId"], event["auditType"], event["sourceUser"]["id"]) == (
        "acme",
        "POLICY_LIFECYCLE",
        "ada",
    )


async def test_event_with_unstorable_id_is_still_stored():
    store = InMemorySqliteStore()
    trail = AuditLog(store, now=FakeClock())
    row = trail.build_event("HITL", build_subscription(), correlation_id="c", task_id="t" * 100_000)
    trail.record(row)
    await trail.flush()
    assert row.task_id == "t" * MAX_ID_LENGTH
    assert await list_stored_names(store) == ["c"]


async def test_an_event_that_is_too_large_is_kept_without_its_payload():
    trail = AuditLog(InMemorySqliteStore(), now=FakeClock())
    row = trail.build_event(
        "HITL", build_subscription(), correlation_id="c", payload={"requestBody": "x" * 10**6}
    )
    event = json.loads(row.body)
    assert (event["payload"], event["metadata"]) == (None, {"payloadOmitted": "too large"})


async def test_events_are_written_within_a_moment_and_in_order():
    store = FlakyStore()
    trail = AuditLog(store, now=FakeClock())
    wanted = [f"c{number}" for number in range(1000)]
    record_events(trail, *wanted)
    async with asyncio.timeout(60):
        await store.tried.wait()
        await trail.flush()
    assert await list_stored_names(store) == wanted
    assert max(store.batches) <= BATCH
    rows, _ = await store.list_audit_events("default", ALL, page=0, size=1000, order="oldest")
    assert [row.id for row in rows] == sorted(row.id for row in rows)


async def test_events_are_written_without_a_flush():
    store = FlakyStore()
    trail = AuditLog(store, now=FakeClock())
    record_events(trail, "c")
    async with asyncio.timeout(60):
        await store.tried.wait()
    await trail.aclose()


async def test_events_wait_for_a_store_that_is_away():
    store = FlakyStore()
    store.away.set()
    trail = AuditLog(store, now=FakeClock())
    record_events(trail, "first", "second")
    await store.tried.wait()
    record_events(trail, "third")
    assert trail.is_behind
    store.away.clear()
    async with asyncio.timeout(60):
        await trail.flush()
    assert await list_stored_names(store) == ["first", "second", "third"]
    assert not trail.is_behind


@pytest.mark.parametrize(("limit", "value"), [("MAX_WAITING", 2), ("MAX_WAITING_BYTES", 900)])
async def test_full_audit_queue_refuses_calls(limit: str, value: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(write_queue, limit, value)
    store = FlakyStore()
    store.away.set()
    trail = AuditLog(store, now=FakeClock())
    record_events(trail, "first", "second")
    with pytest.raises(Unavailable, match="no calls are accepted"):
        record_events(trail, "third")
    store.away.clear()
    async with asyncio.timeout(60):
        await trail.flush()
    record_events(trail, "fourth")
    await trail.aclose()
    assert await list_stored_names(store) == ["first", "second", "fourth"]


async def test_rejected_event_does_not_block_others(caplog: pytest.LogCaptureFixture):
    store = FlakyStore()
    trail = AuditLog(store, now=FakeClock())
    record_events(trail, "before", "poison", "after")
    await trail.flush()
    assert await list_stored_names(store) == ["before", "after"]
    assert "audit_event_rejected" in caplog.text


async def test_closed_audit_log_has_written_everything_and_refuses_more():
    store = FlakyStore()
    trail = AuditLog(store, now=FakeClock())
    record_events(trail, *(str(number) for number in range(500)))
    await trail.aclose()
    assert len(await list_stored_names(store)) == 500
    with pytest.raises(Unavailable):
        record_events(trail, "late")


async def test_lost_events_are_logged_on_close(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(write_queue, "CLOSE_TIMEOUT", timedelta(milliseconds=50))
    store = FlakyStore()
    store.away.set()
    trail = AuditLog(store, now=FakeClock())
    record_events(trail, "lost")
    with caplog.at_level(logging.ERROR):
        await trail.aclose()
    assert "audit_events_lost count=1" in caplog.text


async def test_deferred_events_are_built_on_write_in_order():
    store, clock, made = FlakyStore(), FakeClock(), list[str]()
    trail = AuditLog(store, now=clock)

    def later(name: str) -> None:
        stamp = trail.stamp()

        def make() -> AuditRow:
            made.append(name)
            return trail.build_event(
                "COMMUNICATION_AUDIT", build_subscription(), correlation_id=name, stamp=stamp
            )

        trail.record_later(make, size=1000)

    later("first")
    began = clock()
    clock.advance(timedelta(seconds=1))
    record_events(trail, "second")
    later("third")
    assert made == []
    clock.advance(timedelta(hours=1))
    await trail.flush()
    assert made == ["first", "third"]
    assert await list_stored_names(store) == ["first", "second", "third"]
    rows, _ = await store.list_audit_events("default", ALL, page=0, size=10, order="oldest")
    assert [row.at - began for row in rows] == [timedelta(), timedelta(seconds=1), timedelta(seconds=1)]
    assert [row.id for row in rows] == sorted(row.id for row in rows)


async def test_deferred_events_count_towards_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(write_queue, "MAX_WAITING", MAX_UNBUILT + 2)
    store = FlakyStore()
    store.away.set()
    trail, made = AuditLog(store, now=FakeClock()), list[int]()

    def later(number: int) -> None:
        def make() -> AuditRow:
            made.append(number)
            return trail.build_event("COMMUNICATION_AUDIT", build_subscription(), correlation_id=f"c{number}")

        trail.record_later(make, size=1)

    for number in range(MAX_UNBUILT + 2):
        later(number)
    assert made == [MAX_UNBUILT, MAX_UNBUILT + 1]
    with pytest.raises(Unavailable, match="no calls are accepted"):
        later(-1)
    store.away.clear()
    async with asyncio.timeout(60):
        await trail.flush()
    assert await list_stored_names(store) == [f"c{number}" for number in range(MAX_UNBUILT + 2)]
    assert sorted(made) == list(range(MAX_UNBUILT + 2))


async def test_unrecordable_call_is_recorded_without_its_messages(
    caplog: pytest.LogCaptureFixture,
):
    store = InMemorySqliteStore()
    trail = AuditLog(store, now=FakeClock())
    asked = build_call("What is the weather?")
    odd = build_reply(asked, id=["no", "text"])
    exchange = Exchange(
        subscription=build_subscription(), call=asked, correlation_id="c", headers={}, size=100
    )
    CallRecorder(trail).record(exchange, CallOutcome(size=200, reply=odd), timedelta(microseconds=5))
    await trail.flush()
    rows, _ = await store.list_audit_events("default", ALL, page=0, size=10)
    event = json.loads(rows[0].body)
    assert (event["auditType"], event["auditAction"], event["correlationId"]) == (
        "COMMUNICATION_AUDIT",
        "LOG",
        "c",
    )
    assert (event["payload"], event["metadata"]) == (None, {"payloadOmitted": "failed"})
    assert "audit_payload_omitted" in caplog.text
    assert "weather" not in caplog.text
