"""What SQLite cannot take is refused, recorded nowhere, and forgotten once the outage is over."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import apsw
import pytest

from placet.cases.events import find_broken_link
from placet.errors import CaseConflict, Unavailable
from placet.ports.store import Store
from placet.stores.sql.operation import WriteOperation
from placet.stores.sqlite import group_commit
from placet.stores.sqlite.connection import connect_reader, connect_writer
from placet.stores.sqlite.group_commit import GroupCommitWriter
from placet.stores.sqlite.migrate import prepare_file
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.store import SqliteStore
from placet.stores.sqlite.threaded_reader import ThreadedReader
from placet.testing.contracts.case_store import create_sample_case, gather_outcomes
from placet.testing.samples import sample_creation, sample_idempotency_record, sample_offer

pytestmark = pytest.mark.anyio

HUGE = sample_offer(context={"document": "x" * 3_000_000})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "placet.db"
    prepare_file(path)
    return path


@pytest.fixture
def connection(path: Path) -> apsw.Connection:
    return connect_writer(path)


@pytest.fixture
async def writer(connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> GroupCommitWriter:
    monkeypatch.setattr(group_commit, "BUSY_FOR_MS", 100)
    return GroupCommitWriter(connection)


@pytest.fixture
async def store(path: Path, writer: GroupCommitWriter) -> AsyncIterator[Store]:
    sqlite = SqliteStore(Reader(connect_reader(path)), writer, ThreadedReader(path))
    yield sqlite
    await sqlite.aclose()


async def test_a_full_disk_refuses_the_write_and_no_other(store: Store, connection: apsw.Connection) -> None:
    first = await create_sample_case(store)
    connection.pragma("max_page_count", 200)
    with pytest.raises(Unavailable, match="Nothing was recorded"):
        await create_sample_case(store, id="review_huge", offer=HUGE)
    assert await store.get_case("review_huge") is None
    assert not await store.list_events("review_huge")
    small = await create_sample_case(store)
    assert [case.id for case in await store.list_cases("acme")] == [small.case.id, first.case.id]


async def test_a_disk_with_room_again_takes_writes_again(store: Store, connection: apsw.Connection) -> None:
    connection.pragma("max_page_count", 200)
    with pytest.raises(Unavailable):
        await create_sample_case(store, offer=HUGE)
    connection.pragma("max_page_count", 1_000_000)
    creation = await create_sample_case(store, offer=HUGE)
    assert await store.get_case_and_offer(creation.case.id) == (creation.case, creation.offer)


async def test_a_disk_that_fills_up_in_a_crowd_acknowledges_only_what_it_kept(
    store: Store, connection: apsw.Connection
) -> None:
    connection.pragma("max_page_count", 200)
    creations = [sample_creation(offer=sample_offer(context={"text": "x" * 20_000})) for _ in range(100)]
    found = await gather_outcomes(store.create_case(creation) for creation in creations)
    assert any(isinstance(error, Unavailable) for error in found)
    kept = {case.id for case in await store.list_cases("acme", limit=1000)}
    assert kept == {
        creation.case.id for creation, error in zip(creations, found, strict=True) if error is None
    }


async def test_a_database_locked_by_another_process_is_unavailable(store: Store, path: Path) -> None:
    other = connect_writer(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="Nothing was recorded"):
        await create_sample_case(store)
    with pytest.raises(Unavailable):
        await store.check_ready()
    assert not await store.list_cases("acme")
    other.execute("COMMIT")
    await store.check_ready()
    await create_sample_case(store)
    other.close()


async def test_a_lock_that_is_released_in_time_only_delays(path: Path) -> None:
    store = await SqliteStore.open(path)
    other = connect_writer(path)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(create_sample_case(store))
    await asyncio.sleep(0)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    async with asyncio.timeout(60):
        creation = await waiting
    assert await store.get_case(creation.case.id) == creation.case
    await store.aclose()


async def test_one_impossible_write_does_not_harm_those_beside_it(
    store: Store, writer: GroupCommitWriter
) -> None:
    creations = [sample_creation() for _ in range(20)]
    impossible = WriteOperation(statements=(("insert_checkpoint", (1, None)),))
    unspeakable = WriteOperation(statements=(("insert_secret", ("\ud800", "")),))
    attempts: list[Awaitable[object]] = [store.create_case(creation) for creation in creations]
    attempts[10:10] = [writer.submit(impossible), writer.submit(unspeakable)]
    found = await gather_outcomes(attempts)
    assert [type(error) for error in found[10:12]] == [apsw.ConstraintError, UnicodeEncodeError]
    assert [error for n, error in enumerate(found) if n not in (10, 11)] == [None] * 20
    for creation in creations:
        assert await store.get_case(creation.case.id) == creation.case
        assert find_broken_link(await store.list_events(creation.case.id)) is None


async def test_a_refused_write_does_not_harm_those_beside_it(store: Store) -> None:
    await create_sample_case(store, replay=sample_idempotency_record("key"))
    creations = [
        sample_creation(replay=sample_idempotency_record("key") if n % 2 else None) for n in range(20)
    ]
    found = await gather_outcomes(store.create_case(creation) for creation in creations)
    assert found[::2] == [None] * 10
    assert all(isinstance(error, CaseConflict) for error in found[1::2])
    for creation, error in zip(creations, found, strict=True):
        assert (await store.get_case(creation.case.id) is None) is (error is not None)


async def test_a_writer_that_nobody_waits_for_still_writes(store: Store) -> None:
    creation = sample_creation()
    impatient = asyncio.ensure_future(store.create_case(creation))
    await asyncio.sleep(0)
    impatient.cancel()
    await store.check_ready()
    assert await store.get_case(creation.case.id) == creation.case


async def test_listeners_hear_that_another_process_wrote(store: Store, path: Path) -> None:
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    store.add_change_listener(heard.put_nowait)
    await create_sample_case(store)
    assert await heard.get() is not None
    other = await SqliteStore.open(path)
    creation = await create_sample_case(other)
    async with asyncio.timeout(60):
        assert await heard.get() is None
    assert await store.get_case(creation.case.id) == creation.case
    await other.aclose()


async def test_reading_a_closed_store_is_unavailable(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.aclose()
    with pytest.raises(Unavailable):
        await store.get_case("review_any")
