"""A task row and the audit event of the call that changed it are one transaction."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.errors import Unavailable, ValidationFailed
from placet.ports.audit_store import AuditFilter, AuditRow
from placet.ports.task_store import TaskRow
from placet.relay import write_queue
from placet.relay.a2a.errors import A2AError
from placet.relay.audit.audit_log import AuditLog
from placet.relay.exchange import CallWrites, Exchange, ExchangeState
from placet.relay.runtime.call_recorder import CallOutcome, CallRecorder
from placet.relay.task import Task, TaskEnding, TaskStatus, row_from_task
from placet.relay.tasks.access import TaskAccess
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.write_queue import MAX_RETRY_AFTER, WriteQueue
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.clock import FakeClock
from tests.docs.markdown import ROOT
from tests.relay.audit.samples import build_call, build_reply, build_subscription
from tests.virtual_time import VirtualTimeLoop
from tests.waiting import PATIENCE_S

RELAYING_PROCESS = Path(__file__).with_name("relaying_process.py")
ANSWERS = 400
LONG_S = 10 * MAX_RETRY_AFTER.total_seconds()


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class FaultyStore(InMemorySqliteStore):
    """A store that lists its transactions, and fails when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.transactions: list[tuple[list[str], list[str]]] = []
        """The ids of the rows and the correlation ids of the events of each transaction."""

    async def save_tasks(self, tasks: Sequence[TaskRow], *, events: Sequence[AuditRow] = ()) -> None:
        self._begin(tasks, events)
        await super().save_tasks(tasks, events=events)

    async def add_audit_events(self, events: Sequence[AuditRow]) -> None:
        self._begin((), events)
        await super().add_audit_events(events)

    def _begin(self, tasks: Sequence[TaskRow], events: Sequence[AuditRow]) -> None:
        if self.failure is not None:
            raise self.failure
        self.transactions.append(([row.id for row in tasks], [event.correlation_id for event in events]))


class FaultyRelay:
    """Relays calls to an agent whose answers a test writes, over a store that may fail."""

    def __init__(self) -> None:
        self.store = FaultyStore()
        self.clock = FakeClock()
        self.audit_log = AuditLog(self.store, now=self.clock)
        self.tasks = TaskRepository(self.store, now=self.clock, queue=self.audit_log.queue)
        self.access = TaskAccess(self.tasks)
        self.recorder = CallRecorder(self.audit_log)

    def reopen(self) -> TaskRepository:
        """Return the tasks as a process sees them that starts now."""
        return TaskRepository(self.store, now=self.clock, queue=WriteQueue(self.store))

    async def answer(self, name: str) -> tuple[Exchange, CallOutcome]:
        """A call whose agent has answered with a task of this name, before the call is recorded."""
        asked = build_call("What is the weather?")
        exchange = Exchange(
            subscription=build_subscription(),
            call=asked,
            correlation_id=name,
            headers={},
            size=100,
            state=ExchangeState(writes=CallWrites()),
        )
        answer = build_reply(asked, id=name, contextId=None)
        translated = await self.access.translate_reply(
            exchange.subscription, answer, call=exchange.state.writes
        )
        return exchange, CallOutcome(size=200, reply=translated)

    async def relay(self, name: str) -> None:
        """Relay a call from end to end."""
        exchange, outcome = await self.answer(name)
        self.recorder.record(exchange, outcome, timedelta(milliseconds=1))

    async def find(self, name: str) -> Task | None:
        return await self.tasks.find("default", "weather", "task", name)

    async def stored(self, name: str) -> tuple[bool, bool]:
        """Whether the store has the task, and whether it has the event."""
        row = await self.store.get_task("default", "weather", "task", name)
        events, _ = await self.store.list_audit_events(
            "default", AuditFilter(correlation_id=name), page=0, size=10
        )
        return row is not None, bool(events)


@pytest.mark.anyio
async def test_a_task_and_the_event_of_its_call_are_one_transaction() -> None:
    relayed = FaultyRelay()
    for name in ("one", "two"):
        await relayed.relay(name)
    await relayed.audit_log.flush()
    assert relayed.store.transactions == [(["one", "two"], ["one", "two"])]


@pytest.mark.anyio
async def test_a_task_is_readable_at_once_and_on_disk_no_sooner_than_its_event() -> None:
    relayed = FaultyRelay()
    exchange, outcome = await relayed.answer("slow")
    await asyncio.sleep(LONG_S)  # an inspection that takes long, for instance
    await relayed.tasks.flush()
    assert await relayed.find("slow") is not None
    assert await relayed.stored("slow") == (False, False)
    relayed.recorder.record(exchange, outcome, timedelta(seconds=1))
    await relayed.tasks.flush()
    assert await relayed.stored("slow") == (True, True)
    assert await relayed.find("slow") is not None


@pytest.mark.anyio
async def test_a_store_that_fails_has_neither_the_task_nor_the_event_and_later_both() -> None:
    relayed = FaultyRelay()
    relayed.store.failure = Unavailable()
    await relayed.relay("one")
    with pytest.raises(Unavailable):
        await relayed.tasks.flush()
    assert await relayed.stored("one") == (False, False)
    relayed.store.failure = None
    await asyncio.sleep(LONG_S)
    assert await relayed.stored("one") == (True, True)


@pytest.mark.anyio
async def test_a_server_that_stops_during_an_outage_loses_both(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "CLOSE_TIMEOUT", timedelta(milliseconds=50))
    relayed = FaultyRelay()
    relayed.store.failure = Unavailable()
    await relayed.relay("lost")
    await relayed.tasks.aclose()
    await relayed.audit_log.aclose()
    assert await relayed.stored("lost") == (False, False)
    assert caplog.text.count("audit_events_lost count=1 tasks=1") == 1


@pytest.mark.anyio
async def test_a_write_that_the_store_rejects_leaves_neither(caplog: pytest.LogCaptureFixture) -> None:
    relayed = FaultyRelay()
    relayed.store.failure = ValidationFailed()
    await relayed.relay("bad")
    await relayed.audit_log.flush()
    relayed.store.failure = None
    assert await relayed.stored("bad") == (False, False)
    assert await relayed.find("bad") is None
    assert "audit_event_rejected" in caplog.text


@pytest.mark.anyio
async def test_a_call_that_cannot_be_recorded_leaves_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "MAX_WAITING", 1)
    relayed = FaultyRelay()
    relayed.store.failure = Unavailable()
    exchange, outcome = await relayed.answer("second")
    await relayed.relay("first")
    with pytest.raises(Unavailable):
        relayed.recorder.record(exchange, outcome, timedelta(milliseconds=1))
    assert await relayed.find("second") is None
    with pytest.raises(A2AError, match="Try again"):
        await relayed.answer("third")
    relayed.store.failure = None
    await relayed.audit_log.flush()
    assert await relayed.stored("first") == (True, True)
    assert await relayed.stored("second") == (False, False)


@pytest.mark.anyio
async def test_a_change_of_a_task_whose_event_is_missing_waits_for_the_event_too() -> None:
    relayed = FaultyRelay()
    exchange, outcome = await relayed.answer("one")
    task = await relayed.find("one")
    assert task is not None
    ended = Task(
        id="one",
        owner=task.owner,
        status=TaskStatus.ENDED,
        upstream_id="one",
        ending=TaskEnding(dialect=exchange.call.dialect, failure="no"),
    )
    await relayed.tasks.write("default", "weather", "task", ended)
    await relayed.tasks.flush()
    assert await relayed.stored("one") == (False, False)
    relayed.recorder.record(exchange, outcome, timedelta(milliseconds=1))
    await relayed.tasks.flush()
    assert relayed.store.transactions == [(["one"], ["one"])]
    stored = await relayed.reopen().find("default", "weather", "task", "one")
    assert stored is not None
    assert stored.ending == ended.ending


@pytest.mark.anyio
async def test_a_row_that_a_hold_has_written_is_not_replaced_by_the_row_of_the_call() -> None:
    relayed = FaultyRelay()
    exchange, outcome = await relayed.answer("one")
    held = Task(id="one", owner="trip-planner", status=TaskStatus.HELD, upstream_id="one", hold_id="hold-1")
    relayed.tasks.adopt([row_from_task("default", "weather", "task", held, relayed.clock())])
    relayed.recorder.record(exchange, outcome, timedelta(milliseconds=1))
    await relayed.tasks.flush()
    stored = await relayed.reopen().find("default", "weather", "task", "one")
    assert stored is not None
    assert stored.hold_id == "hold-1"


@pytest.mark.anyio
async def test_a_row_that_is_needed_on_disk_does_not_wait_for_an_event_that_comes_later() -> None:
    relayed = FaultyRelay()
    exchange, outcome = await relayed.answer("one")
    alias = Task(id="alias", owner="trip-planner", upstream_id="alias", caller_task_id="one")
    writes = exchange.state.writes
    async with asyncio.timeout(LONG_S):
        await relayed.tasks.write("default", "weather", "task", alias, at_once=True, call=writes)
    assert relayed.store.transactions == []
    relayed.recorder.record(exchange, outcome, timedelta(milliseconds=1))
    await relayed.tasks.flush()
    assert relayed.store.transactions == [(["one", "alias"], ["one"])]


@pytest.mark.anyio
async def test_the_new_task_of_a_stream_is_recorded_before_the_stream_ends() -> None:
    relayed = FaultyRelay()
    exchange, _ = await relayed.answer("one")
    relayed.recorder.record_started_task(exchange)
    relayed.recorder.record_started_task(exchange)
    await relayed.tasks.flush()
    assert relayed.store.transactions == [(["one"], ["one"])]
    events, _ = await relayed.store.list_audit_events("default", AuditFilter(), page=0, size=10)
    [event] = [json.loads(row.body) for row in events]
    assert (event["auditType"], event["auditAction"], event["taskId"]) == (
        "COMMUNICATION_AUDIT",
        "LOG",
        "one",
    )
    assert event["payload"] == {"version": "1.0", "method": "SendMessage", "stage": "STARTED"}


def kill_while_relaying(folder: Path) -> set[str]:
    """Return the tasks that callers have seen when the relay was killed."""
    command = [sys.executable, str(RELAYING_PROCESS), str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        seen = {process.stdout.readline().strip() for _ in range(ANSWERS)}
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    return seen


def test_a_killed_relay_leaves_no_task_without_its_event_and_no_event_without_its_task(
    tmp_path: Path,
) -> None:
    seen = kill_while_relaying(tmp_path)
    connection = apsw.Connection(str(tmp_path / "cases.db"))
    tasks = {id for (id,) in connection.execute("SELECT id FROM relay_tasks WHERE kind = 'task'")}
    events = {id for (id,) in connection.execute("SELECT task_id FROM audit_events")}
    connection.close()
    assert len(tasks & seen) > ANSWERS / 2, "it lived long enough"
    assert tasks == events
