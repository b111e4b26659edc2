"""The book of tasks over a store: at hand at once, on disk a moment later, and each tenant's own."""

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
from placet.relay.tasks.task_repository import StoredTaskRepository, Task, TaskEnding, row_from_task
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
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    writer = GroupCommitWriter(connect_writer(path), busy_for_ms=50)
    sqlite = SqliteStore(Reader(connect_reader(path)), writer, ThreadedReader(path))
    yield sqlite
    await sqlite.aclose()


@pytest.fixture
async def book(store: SqliteStore) -> AsyncIterator[StoredTaskRepository]:
    found = StoredTaskRepository(store, now=clock.now)
    yield found
    await found.aclose()


def entry(id: str, owner: str = "ann", upstream_id: str | None = "theirs") -> Task:
    return Task(id=id, owner=owner, upstream_id=upstream_id)


def on_disk(path: Path) -> list[str]:
    """Ids in the order they were first written."""
    connection = apsw.Connection(str(path))
    found = [id for (id,) in connection.execute("SELECT id FROM relay_tasks ORDER BY number")]
    connection.close()
    return found


async def reach_the_disk(path: Path, count: int) -> list[str]:
    await asyncio.to_thread(eventually, lambda: len(on_disk(path)) >= count)
    return on_disk(path)


async def told(book: StoredTaskRepository, id: str) -> Task:
    """An entry that the relay tells of itself, but for the time since when it does."""
    found = await book.find("acme", "clerk", "task", id)
    assert found is not None
    assert found.since is not None
    return replace(found, since=None)


async def test_a_name_is_known_at_once_and_on_disk_a_moment_later(
    book: StoredTaskRepository, path: Path
) -> None:
    for number in range(300):
        await book.write("acme", "clerk", "task", entry(f"task {number}"))
    assert await book.find("acme", "clerk", "task", "task 299") == entry("task 299")
    assert await reach_the_disk(path, 300) == [f"task {number}" for number in range(300)]


async def test_what_was_written_is_known_after_a_restart(book: StoredTaskRepository, path: Path) -> None:
    full = replace(entry("one"), shown_as="other", context_id="talk", ending=ENDED, approved=("digest",))
    await book.write("acme", "clerk", "task", full)
    await book.aclose()
    again = await SqliteStore.open(path)
    assert await told(StoredTaskRepository(again, now=clock.now), "one") == full
    await again.aclose()


async def test_names_of_different_tenants_agents_and_kinds_are_different(book: StoredTaskRepository) -> None:
    await book.write("acme", "clerk", "task", entry("one"))
    for flushed in (False, True):
        assert await book.find("acme", "clerk", "task", "one") == entry("one"), flushed
        assert await book.find("other", "clerk", "task", "one") is None
        assert await book.find("acme", "cook", "task", "one") is None
        assert await book.find("acme", "clerk", "context", "one") is None
        await book.flush()


async def test_a_name_may_be_on_disk_before_anybody_goes_on(book: StoredTaskRepository, path: Path) -> None:
    await book.write("acme", "clerk", "task", entry("task"))
    await book.write("acme", "clerk", "context", entry("talk"), at_once=True)
    assert on_disk(path) == ["task", "talk"]


async def test_the_last_entry_of_a_name_stands(
    book: StoredTaskRepository, store: SqliteStore, path: Path
) -> None:
    for upstream in (None, "theirs"):
        await book.write("acme", "clerk", "task", entry("one", upstream_id=upstream))
    await book.flush()
    assert on_disk(path) == ["one"]
    fresh = StoredTaskRepository(store, now=clock.now)
    for known in (book, fresh):
        assert await known.find("acme", "clerk", "task", "one") == entry("one")


async def test_only_so_much_is_at_hand_and_the_rest_is_read_again(store: SqliteStore) -> None:
    small = StoredTaskRepository(store, now=clock.now, room=2_000)
    for number in range(50):
        await small.write("acme", "clerk", "task", entry(f"task {number}"))
    await small.flush()
    for number in (*range(50), 0):
        assert await small.find("acme", "clerk", "task", f"task {number}") == entry(f"task {number}")
    await small.aclose()


async def test_what_another_process_wrote_is_read_anew(
    book: StoredTaskRepository, store: SqliteStore, path: Path
) -> None:
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    store.add_change_listener(heard.put_nowait)
    await book.write("acme", "clerk", "task", entry("one"))
    await book.flush()
    other = await SqliteStore.open(path)
    elsewhere = StoredTaskRepository(other, now=clock.now)
    changed = replace(entry("one"), ending=ENDED)
    await elsewhere.write("acme", "clerk", "task", changed, at_once=True)
    async with asyncio.timeout(PATIENCE_S):
        assert await heard.get() is None
    assert await told(book, "one") == changed
    await elsewhere.aclose()
    await other.aclose()


async def test_what_is_written_with_a_hold_stands_from_then_on(
    book: StoredTaskRepository, store: SqliteStore
) -> None:
    await book.write("acme", "clerk", "task", entry("one"))
    masked = replace(entry("one"), approved=("digest",))
    rows = [row_from_task("acme", "clerk", "task", masked, clock.now())]
    await create_held_case(store, sample_hold(), tasks=rows)
    book.adopt(rows)
    assert await book.find("acme", "clerk", "task", "one") == masked
    await book.flush()
    fresh = StoredTaskRepository(store, now=clock.now)
    assert await fresh.find("acme", "clerk", "task", "one") == masked


async def test_while_the_disk_takes_nothing_no_conversation_begins_and_no_name_is_lost(
    book: StoredTaskRepository, path: Path
) -> None:
    rival = apsw.Connection(str(path))
    rival.execute("BEGIN IMMEDIATE")
    await book.write("acme", "clerk", "task", entry("task"))
    with pytest.raises(A2AError, match="try again") as refusal:
        await book.write("acme", "clerk", "context", entry("talk"), at_once=True)
    assert refusal.value.kind == "busy"
    assert await book.find("acme", "clerk", "task", "task") == entry("task")
    rival.execute("ROLLBACK")
    rival.close()
    assert await reach_the_disk(path, 2) == ["task", "talk"]


@pytest.mark.parametrize("id", ["a\ud800b", "n" * (MAX_TEXT_LENGTH + 1)])
async def test_a_name_that_no_store_keeps_is_refused(book: StoredTaskRepository, path: Path, id: str) -> None:
    assert await book.find("acme", "clerk", "task", id) is None
    with pytest.raises(A2AError) as refusal:
        await book.write("acme", "clerk", "task", entry(id))
    assert refusal.value.kind == "params"
    await book.write("acme", "clerk", "task", entry("fine"))
    assert await reach_the_disk(path, 1) == ["fine"]
