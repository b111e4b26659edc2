"""A hundred thousand events: each filter answers by an index, and an export stays small."""

import tracemalloc
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from placet.ports.audit_store import AuditFilter, AuditRow
from placet.relay.audit.audit_log import AuditLog
from placet.relay.transports.admin_api.audit import export_lines
from placet.stores.sql.relay_filters import build_event_query
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.stores.sqlite.store import SqliteStore
from placet.testing.clock import FakeClock
from tests.relay.audit.samples import build_subscription

pytestmark = pytest.mark.anyio
COUNT = 100_000
RARE = 997
"""Every so manieth event is what the filters ask for."""


def build_events() -> list[AuditRow]:
    clock = FakeClock()
    make = AuditLog(InMemorySqliteStore(), now=clock)
    common = make.build_event(
        "COMMUNICATION_AUDIT", build_subscription(), correlation_id="", transport="JSONRPC", action="LOG"
    )
    ada = build_subscription("ada", "bank", kind="user")
    rare = make.build_event("HITL", ada, correlation_id="", transport="REST", action="BLOCK")
    found = []
    for number in range(COUNT):
        row = common if number % RARE else rare
        at = clock() + timedelta(seconds=number)
        found.append(
            msgspec.structs.replace(
                row,
                id=f"evt_{number:08}",
                at=at,
                correlation_id=f"call-{number // 4}",
                task_id=f"t-{number // 8}",
            )
        )
    return found


@pytest.fixture(scope="module")
async def store(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[SqliteStore]:
    path: Path = tmp_path_factory.mktemp("volume") / "audit.db"
    store = await SqliteStore.open(path)
    rows = build_events()
    for start in range(0, COUNT, 20_000):
        await store.add_audit_events(rows[start : start + 20_000])
    yield store
    await store.aclose()


RARELY = -(-COUNT // RARE)
BEGINNING = FakeClock()()
LAST = AuditFilter(since=BEGINNING + timedelta(seconds=COUNT - 20_000))


@pytest.mark.parametrize(
    ("asked", "count", "index"),
    [
        (AuditFilter(), COUNT, "by_time"),
        (AuditFilter(since=BEGINNING + timedelta(seconds=COUNT - 10)), 10, "by_time"),
        (AuditFilter(until=BEGINNING + timedelta(seconds=10)), 10, "by_time"),
        (AuditFilter(types=("HITL",)), RARELY, "by_type"),
        (AuditFilter(types=("HITL", "HITL_GUARD")), RARELY, "by_type"),
        (AuditFilter(types=("COMMUNICATION_AUDIT",)), COUNT - RARELY, "by_time"),
        (AuditFilter(action="BLOCK"), RARELY, "by_action"),
        (AuditFilter(action="LOG"), COUNT - RARELY, "by_time"),
        (AuditFilter(transport="REST"), RARELY, "by_time"),
        (AuditFilter(source_user="ada"), RARELY, "from_user"),
        (AuditFilter(source_agent="nobody"), 0, "from_agent"),
        (AuditFilter(sink_agent="bank"), RARELY, "to_agent"),
        (AuditFilter(correlation_id="call-17"), 4, "of_correlation"),
        (AuditFilter(task_id="t-17"), 8, "of_task"),
    ],
)
async def test_each_filter_finds_its_events_by_an_index(
    store: SqliteStore, asked: AuditFilter, count: int, index: str
):
    found, total = await store.list_audit_events("default", asked, page=0, size=20)
    assert (len(found), total) == (min(20, count), count)
    assert build_event_query("default", asked).index == f"audit_events_{index}"


async def test_an_export_of_all_takes_little_memory(store: SqliteStore):
    lines = 0
    tracemalloc.start()
    async for piece in export_lines(store, "default", LAST):
        lines += piece.count(b"\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == 20_000
    assert peak < 4 * 2**20
