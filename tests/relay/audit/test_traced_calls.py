"""Traces of large calls, whose content and correlation id the caller chooses."""

import tracemalloc
from datetime import timedelta

import msgspec
import pytest

from placet.ports.identity import Principal
from placet.relay.audit.audit_log import AuditLog
from placet.relay.tenants import Membership
from placet.relay.transports.admin_api.access import RelayRequest
from placet.relay.transports.admin_api.audit import MAX_STEPS, AuditApi
from placet.stores.sqlite.store import SqliteStore
from placet.testing.clock import FakeClock
from tests.relay.audit.samples import build_subscription

pytestmark = pytest.mark.anyio
REQUEST = RelayRequest(
    principal=Principal(name="ada"),
    member=Membership(principal=Principal(name="ada"), tenant="default"),
    path={"correlationId": "again"},
    query={},
)


async def test_a_trace_of_large_calls_takes_little_memory(tmp_path):
    body = msgspec.Raw(b"[" + b"[]," * 40_000 + b"[]]")
    store, clock = await SqliteStore.open(tmp_path / "audit.db"), FakeClock()
    trail = AuditLog(store, now=clock)
    for _ in range(40):
        trail.record(
            trail.build_event(
                "COMMUNICATION_AUDIT",
                build_subscription(),
                correlation_id="again",
                payload={"requestBody": body},
            )
        )
    await trail.flush()
    tracemalloc.start()
    try:
        found = await AuditApi(store, trail, now=clock).trace(REQUEST)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.step_count, len(found.steps)) == (40, 40)
    assert most < 32 << 20  # decoded, all bodies together take three times that
    await trail.aclose()
    await store.aclose()


async def test_a_trace_shows_its_first_steps_and_counts_all_of_them(tmp_path):
    store, clock = await SqliteStore.open(tmp_path / "audit.db"), FakeClock()
    trail = AuditLog(store, now=clock)
    for number in range(MAX_STEPS + 7):
        clock.advance(timedelta(seconds=1))
        trail.record(
            trail.build_event(
                "COMMUNICATION_AUDIT", build_subscription(), correlation_id="again", message=str(number)
            )
        )
    found = await AuditApi(store, trail, now=clock).trace(REQUEST)
    assert found.step_count == MAX_STEPS + 7
    assert [step.message for step in found.steps] == [str(number) for number in range(MAX_STEPS)]
    assert found.total_duration_micros == (MAX_STEPS - 1) * 1_000_000
    await trail.aclose()
    await store.aclose()
