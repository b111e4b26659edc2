"""The task repository: entries are readable at once, stored a moment later, and separate by tenant."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from placet.desk import clock
from placet.ports.row_validation import MAX_TEXT_LENGTH
from placet.relay.a2a.dialects import Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.task import Task, TaskEnding, TaskStatus, row_from_task
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.write_queue import WriteQueue
from placet.stores.sqlite import group_commit
from placet.stores.sqlite.connection import connect_reader, connect_writer
from placet.stores.sqlite.group_commit import GroupCommitWriter
from placet.stores.sqlite.migrate import prepare_file
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.store import SqliteStore
from placet.stores.sqlite.threaded_reader import ThreadedReader
from placet.testing.relay_samples import create_held_case, sample_hold
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0
ENDED = TaskEnding(dialect=Dialect("JSONRPC", "1.0"), message={"parts": [{"text": "done"}]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "placet.db"
    prepare_file(path)
    return path


@pytest.fixture
async def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    monkeypatch.setattr(group_commit, "BUSY_FOR_MS", 50)
    writer = GroupCommitWriter(connect_writer(path))
    sqlite = SqliteStore(Reader(connect_reader(path)), writer, ThreadedReader(path))
    yield sqlite
    await sqlite.aclose()


@pytest.fixture
async def repository(store: SqliteStore) -> AsyncIterator[TaskRepository]:
    found = TaskRepository(store, now=clock.now, queue=WriteQueue(store))
    yield found
    await found.aclose()


def build_task(id: str, owner: str = "ann", upstream_id: str | None = "theirs") -> Task:
    return Task(id=id, owner=owner, upstream_id=upstream_id)


def list_stored_ids(path: Path) -> list[str]:
    """Ids in the order they were first written."""
    connection = apsw.Connection(str(path))
    found = [id for (id,) in connection.execute("SELECT id FROM relay_tasks ORDER BY number")]
    connection.close()
    return found


async def wait_until_stored(path: Path, count: int) -> list[str]:
    await asyncio.to_thread(eventually, lambda: len(list_stored_ids(path)) >= count)
    return list_stored_ids(path)


async def find_task(repository: TaskRepository, id: str) -> Task:
    """An entry that the relay tells of itself, but for the time since when it does."""
    found = await repository.find("acme", "clerk", "task", id)
    assert found is not None
    assert found.since is not None
    return replace(found, since=None)


async def test_task_is_readable_at_once_and_stored_later(repository: TaskRepository, path: Path) -> None:
    for number in range(300):
        await repository.write("acme", "clerk", "task", build_task(f"task {number}"))
    assert await repository.find("acme", "clerk", "task", "task 299") == build_task("task 299")
    assert await wait_until_stored(path, 300) == [f"task {number}" for number in range(300)]


async def test_what_was_written_is_known_after_a_restart(repository: TaskRepository, path: Path) -> None:
    full = replace(
        build_task("one"),
        status=TaskStatus.ENDED,
        caller_task_id="other",
        context_id="talk",
        ending=ENDED,
        approved=("digest",),
    )
    await repository.write("acme", "clerk", "task", full)
    await repository.aclose()
    again = await SqliteStore.open(path)
    assert await find_task(TaskRepository(again, now=clock.now, queue=WriteQueue(again)), "one") == full
    await again.aclose()


async def test_names_of_different_tenants_agents_and_kinds_are_different(
    repository: TaskRepository,
) -> None:
    await repository.write("acme", "clerk", "task", build_task("one"))
    for flushed in (False, True):
        assert await repository.find("acme", "clerk", "task", "one") == build_task("one"), flushed
        assert await repository.find("other", "clerk", "task", "one") is None
        assert await repository.find("acme", "cook", "task", "one") is None
        assert await repository.find("acme", "clerk", "context", "one") is None
        await repository.flush()


async def test_write_at_once_also_stores_earlier_tasks(repository: TaskRepository, path: Path) -> None:
    await repository.write("acme", "clerk", "task", build_task("task"))
    await repository.write("acme", "clerk", "context", build_task("talk"), at_once=True)
    assert list_stored_ids(path) == ["task", "talk"]


async def test_last_write_of_a_task_wins(repository: TaskRepository, store: SqliteStore, path: Path) -> None:
    for upstream in (None, "theirs"):
        await repository.write("acme", "clerk", "task", build_task("one", upstream_id=upstream))
    await repository.flush()
    assert list_stored_ids(path) == ["one"]
    fresh = TaskRepository(store, now=clock.now, queue=WriteQueue(store))
    for known in (repository, fresh):
        assert await known.find("acme", "clerk", "task", "one") == build_task("one")


async def test_cache_is_bounded_and_reads_evicted_tasks_again(store: SqliteStore) -> None:
    small = TaskRepository(store, now=clock.now, queue=WriteQueue(store), cache_bytes=2_000)
    for number in range(50):
        await small.write("acme", "clerk", "task", build_task(f"task {number}"))
    await small.flush()
    for number in (*range(50), 0):
        assert await small.find("acme", "clerk", "task", f"task {number}") == build_task(f"task {number}")
    await small.aclose()


async def test_task_written_by_another_process_is_read(
    repository: TaskRepository, store: SqliteStore, path: Path
) -> None:
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    store.add_change_listener(heard.put_nowait)
    await repository.write("acme", "clerk", "task", build_task("one"))
    await repository.flush()
    other = await SqliteStore.open(path)
    elsewhere = TaskRepository(other, now=clock.now, queue=WriteQueue(other))
    changed = replace(build_task("one"), status=TaskStatus.ENDED, ending=ENDED)
    await elsewhere.write("acme", "clerk", "task", changed, at_once=True)
    async with asyncio.timeout(PATIENCE_S):
        assert await heard.get() is None
    assert await find_task(repository, "one") == changed
    await elsewhere.aclose()
    await other.aclose()


async def test_task_written_with_a_hold_replaces_the_cached_one(
    repository: TaskRepository, store: SqliteStore
) -> None:
    await repository.write("acme", "clerk", "task", build_task("one"))
    masked = replace(build_task("one"), approved=("digest",))
    rows = [row_from_task("acme", "clerk", "task", masked, clock.now())]
    await create_held_case(store, sample_hold(), tasks=rows)
    repository.adopt(rows)
    assert await repository.find("acme", "clerk", "task", "one") == masked
    await repository.flush()
    fresh = TaskRepository(store, now=clock.now, queue=WriteQueue(store))
    assert await fresh.find("acme", "clerk", "task", "one") == masked


async def test_failing_disk_refuses_new_tasks_and_loses_none(repository: TaskRepository, path: Path) -> None:
    rival = apsw.Connection(str(path))
    rival.execute("BEGIN IMMEDIATE")
    await repository.write("acme", "clerk", "task", build_task("task"))
    with pytest.raises(A2AError, match="Try again") as refusal:
        await repository.write("acme", "clerk", "context", build_task("talk"), at_once=True)
    assert refusal.value.kind == "busy"
    assert await repository.find("acme", "clerk", "task", "task") == build_task("task")
    rival.execute("ROLLBACK")
    rival.close()
    assert await wait_until_stored(path, 2) == ["task", "talk"]


@pytest.mark.parametrize("id", ["a\ud800b", "n" * (MAX_TEXT_LENGTH + 1)])
async def test_unstorable_task_id_is_refused(repository: TaskRepository, path: Path, id: str) -> None:
    assert await repository.find("acme", "clerk", "task", id) is None
    with pytest.raises(A2AError) as refusal:
        await repository.write("acme", "clerk", "task", build_task(id))
    assert refusal.value.kind == "params"
    await repository.write("acme", "clerk", "task", build_task("fine"))
    assert await wait_until_stored(path, 1) == ["fine"]
