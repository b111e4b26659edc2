"""Bodies leave their events in time, and events the store, each tenant as it wants."""

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from placet.bootstrap.storage import open_memory_store
from placet.errors import RelayConflict, SettingsError
from placet.ports.audit_store import AuditFilter
from placet.ports.identity import Principal
from placet.ports.store import Store
from placet.relay.audit.audit_log import AuditLog
from placet.relay.audit.retention import EVENT_BATCH, RetentionJob, TenantRetention
from placet.relay.settings import RelaySettings, TenantSettings, check_relay
from placet.relay.tenants import Membership, PayloadMode, RetentionPolicy
from placet.stores.sqlite.store import SqliteStore
from placet.testing.clock import FakeClock
from tests.relay.audit.samples import build_subscription

pytestmark = pytest.mark.anyio
BODY = {"requestBody": {"text": "hello"}, "requestHeaders": {"accept": "*/*"}, "method": "SendMessage"}


def build_retention_policy(
    events: str = "10d", bodies: str = "2d", payloads: PayloadMode = "masked"
) -> RetentionPolicy:
    return RetentionPolicy(keep_events_for=events, keep_payloads_for=bodies, payloads=payloads)


class RetentionKit:
    """A trail and its retention over one store."""

    def __init__(self, store: Store, clock: FakeClock, **settled: RetentionPolicy) -> None:
        self.store = store
        self.clock = clock
        self.keeping = TenantRetention(store, settings_policies=settled, now=clock)
        self.trail = AuditLog(store, now=clock, get_payload_mode=self.keeping.get_payload_mode)
        self.retention = RetentionJob(store, self.keeping, now=clock)

    async def note(self, tenant: str, *names: str, payload: dict[str, Any] | None = None) -> None:
        for name in names:
            self.trail.record(
                self.trail.build_event(
                    "COMMUNICATION_AUDIT",
                    build_subscription(tenant=tenant),
                    correlation_id=name,
                    payload=BODY if payload is None else payload,
                )
            )
        await self.trail.flush()

    async def events(self, tenant: str) -> list[dict[str, Any]]:
        found, _ = await self.store.list_audit_events(
            tenant, AuditFilter(), page=0, size=10_000, order="oldest"
        )
        return [json.loads(row.body) for row in found]


async def test_bodies_and_events_are_erased_after_their_retention():
    desk = RetentionKit(open_memory_store(), FakeClock(), acme=build_retention_policy())
    await desk.note("acme", "old")
    desk.clock.advance(timedelta(days=1))
    await desk.note("acme", "young")
    desk.clock.advance(timedelta(days=1, seconds=1))
    assert await desk.retention.run_once() == 1
    old, young = await desk.events("acme")
    assert old["payload"] == {"method": "SendMessage"}
    assert old["metadata"] == {"payloadRedactedAt": "2026-01-03T06:00:01Z"}
    assert young["payload"] == BODY
    assert await desk.retention.run_once() == 0
    desk.clock.advance(timedelta(days=8))
    await desk.retention.run_once()
    assert [one["correlationId"] for one in await desk.events("acme")] == ["young"]


async def test_each_tenant_has_its_own_retention():
    desk = RetentionKit(
        open_memory_store(),
        FakeClock(),
        short=build_retention_policy("1d", "1d"),
        long=build_retention_policy("100d", "100d"),
    )
    for tenant in ("short", "long", "default"):
        await desk.note(tenant, "call")
    desk.clock.advance(timedelta(days=40))
    await desk.retention.run_once()
    assert await desk.events("short") == []
    assert (await desk.events("long"))[0]["payload"] == BODY
    assert (await desk.events("default"))[0]["payload"] == {"method": "SendMessage"}


async def test_turning_bodies_off_erases_stored_bodies():
    desk = RetentionKit(open_memory_store(), FakeClock(), acme=build_retention_policy(payloads="none"))
    await desk.note("acme", "call")
    desk.clock.advance(timedelta(seconds=1))
    await desk.retention.run_once()
    assert "requestBody" not in (await desk.events("acme"))[0]["payload"]


async def test_many_events_are_erased_in_batches(tmp_path):
    store = await SqliteStore.open(tmp_path / "audit.db")
    desk = RetentionKit(store, FakeClock(), acme=build_retention_policy())
    count = EVENT_BATCH * 2 + 7
    await desk.note("acme", *(str(number) for number in range(count)))
    desk.clock.advance(timedelta(days=3))
    assert await desk.retention.run_once() == count
    assert all("requestBody" not in one["payload"] for one in await desk.events("acme"))
    desk.clock.advance(timedelta(days=8))
    await desk.retention.run_once()
    assert await desk.events("acme") == []
    await store.aclose()


async def test_an_event_without_a_body_stays_as_it_is():
    desk = RetentionKit(open_memory_store(), FakeClock(), acme=build_retention_policy())
    await desk.note("acme", "call", payload={"method": "GetTask"})
    before = await desk.events("acme")
    desk.clock.advance(timedelta(days=3))
    await desk.retention.run_once()
    assert await desk.events("acme") == before


async def test_no_bodies_are_stored_before_settings_are_loaded():
    desk = RetentionKit(open_memory_store(), FakeClock())
    assert desk.trail.get_payload_mode("acme") == "none"
    await desk.keeping.start()
    assert desk.trail.get_payload_mode("acme") == "masked"


async def test_retention_change_reaches_other_servers(tmp_path):
    clock = FakeClock()
    member = Membership(principal=Principal(name="kim"), tenant="acme")
    here = RetentionKit(await SqliteStore.open(tmp_path / "audit.db"), clock)
    there = RetentionKit(await SqliteStore.open(tmp_path / "audit.db"), clock)
    await here.keeping.start()
    await there.keeping.start()
    told = msgspec.structs.replace(RetentionPolicy(), payloads="full")
    await here.keeping.save(member, told, here.trail)
    await there.keeping.load()
    assert (here.trail.get_payload_mode("acme"), there.trail.get_payload_mode("acme")) == ("full", "full")
    await there.keeping.save(member, build_retention_policy(), there.trail)
    assert [one["auditType"] for one in await here.events("acme")] == ["POLICY_LIFECYCLE"] * 2
    for desk in (here, there):
        await desk.store.aclose()


async def test_the_settings_file_is_not_overruled():
    desk = RetentionKit(open_memory_store(), FakeClock(), acme=build_retention_policy())
    member = Membership(principal=Principal(name="kim"), tenant="acme")
    with pytest.raises(RelayConflict, match="settings file"):
        await desk.keeping.save(member, RetentionPolicy(), desk.trail)


@pytest.mark.parametrize(
    ("name", "tenant", "words"),
    [
        ("acme", {"keep_events_for": "soon"}, "relay.tenants.acme: keep_events_for: "),
        ("acme", {"keep_payloads_for": "1y"}, "relay.tenants.acme: keep_payloads_for: "),
        ("acme", {"keep_events_for": "1d"}, "keep_payloads_for is longer than keep_events_for."),
        ("Acme Ltd", {}, "a tenant's name has"),
    ],
)
async def test_invalid_retention_settings_are_refused(name: str, tenant: Any, words: str):
    settings = RelaySettings(tenants={name: TenantSettings(**tenant)})
    with pytest.raises(SettingsError) as refusal:
        check_relay(settings, allow_loopback=False)
    assert words in refusal.value.message
