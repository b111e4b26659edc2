"""What the relay keeps in SQLite: shared by processes, found through indexes, told of when it changes."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.ports.audit_store import AuditFilter
from placet.ports.hold_store import HoldFilter
from placet.stores.sql.relay_filters import (
    COUNT_AUDIT_EVENTS,
    COUNT_HOLDS,
    SELECT_AUDIT_EVENTS,
    SELECT_HOLDS,
    SELECT_NUMBERED,
    RowQuery,
    build_event_query,
    build_hold_query,
    build_ordered_event_query,
)
from placet.stores.sqlite import SqliteStore
from placet.stores.sqlite.connection import connect_reader
from placet.stores.sqlite.reader import build_sql
from placet.testing.clock import DAYBREAK
from placet.testing.relay_samples import (
    create_held_case,
    sample_audit,
    sample_hold,
    sample_record,
    sample_task,
)

pytestmark = pytest.mark.anyio

RIVAL = Path(__file__).with_name("rival_process.py")
PATIENCE_S = 60.0
STATUSES = ("PENDING", "APPROVED", "REJECTED", "EXPIRED")
HOUR = timedelta(hours=1)
TIMES: dict[str, Any] = {"since": DAYBREAK + HOUR, "until": DAYBREAK + HOUR * 2}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "placet.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    sqlite = await SqliteStore.open(path)
    yield sqlite
    await sqlite.aclose()


async def test_of_two_processes_each_revision_has_one_writer_and_each_hold_one_decision(
    store: SqliteStore, path: Path
) -> None:
    await store.save_record(sample_record(id="shared"))
    holds = [sample_hold() for _ in range(25)]
    for hold in holds:
        await create_held_case(store, hold)
    async with asyncio.timeout(PATIENCE_S):
        said = await run_rivals(path)
    assert [climbed for climbed, _ in said] == [b"25", b"25"]
    assert sum(int(won) for _, won in said) == len(holds)
    record = await store.get_record("acme", "policy", "shared")
    assert record is not None
    assert record.rev == 51
    for hold in holds:
        decided = await store.get_hold(hold.id)
        task = await store.get_task("acme", "clerk", "task", hold.task_id)
        told, total = await store.list_audit_events(
            "acme", AuditFilter(correlation_id=hold.id), page=0, size=2
        )
        assert decided is not None
        assert task is not None
        assert (decided.rev, total) == (2, 1)
        assert decided.body == task.body == told[0].id.split()[0].encode()


async def run_rivals(path: Path) -> list[list[bytes]]:
    """What two processes say that began at the same moment."""
    command = [sys.executable, str(RIVAL), str(path)]
    both = [
        await asyncio.create_subprocess_exec(*command, name, stdin=PIPE, stdout=PIPE)
        for name in ("one", "other")
    ]
    try:
        for rival in both:
            assert rival.stdout is not None
            assert await rival.stdout.readline() == b"ready\n"
        return [said.split() for said, _ in await asyncio.gather(*(one.communicate(b"go\n") for one in both))]
    finally:
        for rival in both:
            if rival.returncode is None:
                rival.kill()
                await rival.wait()


async def test_records_that_another_process_changed_are_told_of(store: SqliteStore, path: Path) -> None:
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    changed: asyncio.Queue[str | None] = asyncio.Queue()
    store.add_record_listener(heard.put_nowait)
    store.add_change_listener(changed.put_nowait)
    other = await SqliteStore.open(path)
    async with asyncio.timeout(PATIENCE_S):
        await other.save_tasks([sample_task()])
        assert await changed.get() is None
        assert heard.empty()
        await other.save_record(sample_record())
        assert await heard.get() is None
    assert len(await store.list_records("policy")) == 1
    await other.aclose()


async def test_an_audit_event_cannot_be_changed_behind_the_stores_back(
    store: SqliteStore, path: Path
) -> None:
    await store.add_audit_events([sample_audit()])
    connection = apsw.Connection(str(path))
    for forgery in ("action = 'LOG2'", "at = at + 1", "body = x''", "id = 'other'", "redacted = 0"):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            connection.execute(f"UPDATE audit_events SET {forgery}")
    connection.close()


@pytest.fixture(scope="module")
async def large_store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[SqliteStore, Path]]:
    """Ten thousand holds, and as many events, of two tenants."""
    path = tmp_path_factory.mktemp("crowded") / "placet.db"
    store = await SqliteStore.open(path)
    for begin in range(0, 10_000, 1_000):
        await asyncio.gather(*(_add_hold(store, number) for number in range(begin, begin + 1_000)))
    yield store, path
    await store.aclose()


async def _add_hold(store: SqliteStore, number: int) -> None:
    tenant = "acme" if number % 2 else "other"
    at = DAYBREAK + timedelta(seconds=number)
    names = {"tenant": tenant, "correlation_id": f"trace {number // 4}", "task_id": f"task {number // 10}"}
    hold = sample_hold(**names, status=STATUSES[number % 8 // 2], created_at=at)
    await create_held_case(store, hold, events=[sample_audit(**names, at=at)])


@pytest.mark.parametrize(
    ("asked", "index", "count"),
    [
        ({}, "holds_by_time", 5_000),
        ({"status": "PENDING"}, "holds_by_status", 1_250),
        ({"correlation_id": "trace 7"}, "holds_of_correlation", 2),
        ({"task_id": "task 7"}, "holds_of_task", 5),
        (TIMES, "holds_by_time", 1_800),
        ({"status": "PENDING"} | TIMES, "holds_by_status", 450),
        ({"status": "PENDING", "source": "desk"}, "holds_of_source", 1_250),
        ({"status": "PENDING", "correlation_id": "trace 1000"} | TIMES, "holds_of_correlation", 1),
        ({"sink": "clerk", "source": "desk"}, "holds_by_time", 5_000),
    ],
)
async def test_ten_thousand_holds_are_searched_through_an_index(
    large_store: tuple[SqliteStore, Path], asked: dict[str, Any], index: str, count: int
) -> None:
    store, path = large_store
    fitting = build_hold_query("acme", HoldFilter(**asked))
    for order in ("newest", "oldest"):
        plan = explain_query(path, SELECT_HOLDS, fitting.build_page_terms(order), fitting, 50, 0)
        assert plan == [f"SEARCH holds USING INDEX {index}"]
    assert explain_query(path, COUNT_HOLDS, fitting.terms, fitting)[0].endswith(f"INDEX {index}")
    page, total = await store.list_holds("acme", HoldFilter(**asked), page=0, size=50)
    assert (len(page), total) == (min(count, 50), count)


@pytest.mark.parametrize(
    ("asked", "index", "count"),
    [
        ({}, "audit_events_by_time", 5_000),
        ({"correlation_id": "trace 7"}, "audit_events_of_correlation", 2),
        ({"task_id": "task 7"} | TIMES, "audit_events_of_task", 0),
        (TIMES, "audit_events_by_time", 1_800),
        ({"types": ("COMMUNICATION_AUDIT",), "transport": "JSONRPC"} | TIMES, "audit_events_by_time", 1_800),
    ],
)
async def test_ten_thousand_events_are_searched_through_an_index(
    large_store: tuple[SqliteStore, Path], asked: dict[str, Any], index: str, count: int
) -> None:
    store, path = large_store
    fitting = build_event_query("acme", AuditFilter(**asked))
    plan = explain_query(path, SELECT_AUDIT_EVENTS, fitting.build_page_terms("newest"), fitting, 50, 0)
    assert plan == [f"SEARCH audit_events USING INDEX {index}"]
    assert explain_query(path, COUNT_AUDIT_EVENTS, fitting.terms, fitting)[0].endswith(f"INDEX {index}")
    page, total = await store.list_audit_events("acme", AuditFilter(**asked), page=0, size=50)
    assert (len(page), total) == (min(count, 50), count)
    following = build_ordered_event_query("acme", AuditFilter(**asked))
    plan = explain_query(path, SELECT_NUMBERED, following.terms, following, 0, 500)
    assert plan[0].startswith("SEARCH audit_events USING INDEX")


async def test_nobody_waits_while_a_store_counts(large_store: tuple[SqliteStore, Path]) -> None:
    store, _ = large_store
    counting = asyncio.ensure_future(store.list_traces("acme", AuditFilter(), page=0, size=10))
    hold = (await store.list_holds("acme", HoldFilter(correlation_id="trace 7"), page=0, size=1))[0][0]
    assert await store.get_hold(hold.id) == hold
    assert (await counting)[1] == 2_500


def explain_query(path: Path, name: str, terms: str, query: RowQuery, *params: int) -> list[str]:
    """How SQLite goes about a query, without the conditions."""
    connection = connect_reader(path)
    sql = build_sql(name, terms, query.index)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", (*query.params, *params))]
    connection.close()
    return [re.sub(r" \(.*", "", line) for line in plan]
