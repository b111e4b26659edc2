"""A database that cannot be written is not ready and logs it; one that was replaced takes no writes."""

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.errors import Unavailable
from placet.stores.sql import write_probe
from placet.stores.sql.outage_log import DAMAGE_LASTS_S, LOG_EVERY_S, OutageLog
from placet.stores.sqlite.connection import connect_reader, connect_writer
from placet.stores.sqlite.database_file import DatabaseFile, DatabaseReplaced
from placet.stores.sqlite.group_commit import GroupCommitWriter
from placet.stores.sqlite.migrate import prepare_file
from placet.stores.sqlite.reader import Reader
from placet.stores.sqlite.storage_monitor import StorageMonitor
from placet.stores.sqlite.store import SqliteStore
from placet.stores.sqlite.threaded_reader import ThreadedReader
from placet.testing.contracts.case_store import create_sample_case, gather_outcomes
from placet.testing.samples import sample_creation

pytestmark = pytest.mark.anyio
FILES = ("", "-wal", "-shm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "placet.db"
    prepare_file(path)
    return path


@pytest.fixture
def connection(path: Path) -> apsw.Connection:
    return connect_writer(path)


@pytest.fixture
async def store(path: Path, connection: apsw.Connection) -> AsyncIterator[SqliteStore]:
    monitor = StorageMonitor(DatabaseFile(path, connection))
    reader = Reader(connect_reader(path), monitor)
    sqlite = SqliteStore(
        reader, GroupCommitWriter(connection, monitor), ThreadedReader(path, monitor), monitor
    )
    yield sqlite
    await sqlite.aclose()


def pages_in_log(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size // 4096


def count_rows(path: Path) -> int:
    connection = connect_reader(path)
    try:
        return int(connection.execute("SELECT count(*) FROM replays").get)
    finally:
        connection.close()


def move_files(path: Path, target: Path) -> None:
    for suffix in FILES:
        os.rename(f"{path}{suffix}", f"{target}{suffix}")


# Readiness


async def test_readiness_writes_to_the_disk_and_leaves_no_row(store: SqliteStore, path: Path) -> None:
    before = pages_in_log(path)
    await store.check_ready()
    assert pages_in_log(path) >= before + 8
    assert count_rows(path) == 0


async def test_probes_in_quick_succession_write_once(store: SqliteStore, path: Path) -> None:
    await store.check_ready()
    before = pages_in_log(path)
    for _ in range(20):
        await store.check_ready()
    await asyncio.gather(*(store.check_ready() for _ in range(20)))
    assert pages_in_log(path) == before


async def test_many_probes_at_once_write_once(
    store: SqliteStore, connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_probe, "PROBE_EVERY_S", 0.0)
    before = connection.total_changes()
    await asyncio.gather(*(store.check_ready() for _ in range(50)))
    assert connection.total_changes() - before == 2  # one row inserted and deleted


async def test_a_cancelled_probe_does_not_fail_those_that_wait_beside_it(store: SqliteStore) -> None:
    impatient, patient = (
        asyncio.ensure_future(store.check_ready()),
        asyncio.ensure_future(store.check_ready()),
    )
    await asyncio.sleep(0)
    impatient.cancel()
    await patient


async def test_a_full_disk_is_not_ready(store: SqliteStore, connection: apsw.Connection) -> None:
    limit = int(connection.pragma("max_page_count"))
    connection.pragma("max_page_count", 1)  # no more than there are
    with pytest.raises(Unavailable, match="database is unavailable"):
        await store.check_ready()
    with pytest.raises(Unavailable):
        await store.check_ready()
    connection.pragma("max_page_count", limit)
    await store.check_ready()


async def test_a_disk_that_fills_up_right_after_a_probe_is_not_ready_once_a_write_failed(
    store: SqliteStore, connection: apsw.Connection
) -> None:
    await store.check_ready()
    connection.pragma("query_only", True)
    with pytest.raises(Unavailable):
        await create_sample_case(store)
    with pytest.raises(Unavailable):
        await store.check_ready()
    connection.pragma("query_only", False)
    await store.check_ready()


async def test_a_read_only_database_is_not_ready(store: SqliteStore, connection: apsw.Connection) -> None:
    connection.pragma("query_only", True)
    with pytest.raises(Unavailable, match="readonly"):
        await store.check_ready()
    connection.pragma("query_only", False)
    await store.check_ready()


# Outages are logged and counted


async def test_an_outage_is_logged_once_and_every_refused_write_is_counted(
    store: SqliteStore, connection: apsw.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.pragma("query_only", True)
    outcomes = await gather_outcomes(store.create_case(sample_creation()) for _ in range(30))
    assert all(isinstance(error, Unavailable) for error in outcomes)
    health = store.read_health()["write"]
    assert (health.refused, health.is_failing) == (30, True)
    assert caplog.text.count("storage_outage operation=write") == 1
    assert "ReadOnlyError" in caplog.text
    connection.pragma("query_only", False)
    await create_sample_case(store)
    health = store.read_health()["write"]
    assert (health.refused, health.is_failing) == (30, False)
    assert caplog.text.count("storage_recovered operation=write") == 1


async def test_a_write_that_is_refused_for_its_own_sake_is_no_outage(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    creation = await create_sample_case(store)
    await gather_outcomes([store.create_case(creation)])
    assert store.read_health()["write"].refused == 0
    assert caplog.text == ""


async def test_a_failing_read_is_logged_and_counted(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = StorageMonitor()
    connection = connect_reader(path)
    reader = Reader(connection, monitor)

    def fail(*_: Any) -> bool:
        raise apsw.IOError("disk I/O error")

    connection.set_exec_trace(fail)
    with pytest.raises(Unavailable, match="cannot be read"):
        reader.fetch("SELECT 1")
    assert monitor.reads.refused == 1
    assert "storage_outage operation=read" in caplog.text
    connection.set_exec_trace(None)
    assert reader.fetch("SELECT 1") == [(1,)]
    assert not monitor.reads.is_failing
    connection.close()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_long_outage_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outages = OutageLog("write", clock)
    for _ in range(1800):
        outages.report_failure(apsw.FullError("full"))
        clock.now += 0.1
    assert len(caplog.records) == 3
    assert outages.refused == 1800


def test_outages_that_come_and_go_are_logged_at_most_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outages = OutageLog("write", clock)
    for _ in range(500):
        outages.report_failure(apsw.BusyError("locked"))
        outages.report_success()
        clock.now += 0.1
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    clock.now += LOG_EVERY_S
    outages.report_failure(apsw.BusyError("locked"))
    assert len(caplog.records) == 3


def test_another_kind_of_failure_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    outages = OutageLog("write", Clock())
    for error in (apsw.BusyError("locked"), apsw.FullError("full"), apsw.BusyError("locked")):
        outages.report_failure(error)
    assert ["BusyError" in caplog.messages[0], "FullError" in caplog.messages[1]] == [True, True]
    assert len(caplog.records) == 2


def test_damage_is_not_over_when_another_read_succeeds() -> None:
    clock = Clock()
    outages = OutageLog("read", clock)
    outages.report_failure(apsw.exception_for(apsw.SQLITE_CORRUPT))
    clock.now += DAMAGE_LASTS_S - 1
    outages.report_success()
    assert outages.is_failing
    clock.now += 2
    outages.report_success()
    assert not outages.is_failing


# The database is deleted or replaced


def unlink(path: Path) -> None:
    path.unlink()


def unlink_everything(path: Path) -> None:
    for suffix in FILES:
        os.unlink(f"{path}{suffix}")


def unlink_log(path: Path) -> None:
    os.unlink(f"{path}-wal")


def unlink_index_of_log(path: Path) -> None:
    os.unlink(f"{path}-shm")


def rename(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def rename_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace_with_copy(path: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copyfile(path, copy)
    copy.replace(path)


def replace_with_empty_database(path: Path) -> None:
    unlink_everything(path)
    prepare_file(path)


def replace_with_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_with_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_suffix(".nowhere"))


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def copy_older_file_over_it(path: Path) -> None:
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(len(content) // 2)


def read_file(path: Path) -> bytes:
    return path.read_bytes()


def overwrite_in_place(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.write(content)


def overwrite_with_zeros(path: Path) -> None:
    overwrite_in_place(path, bytes(path.stat().st_size))


def overwrite_with_larger_database_of_another_program(path: Path) -> None:
    other = path.with_suffix(".other")
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE other (x); INSERT INTO other VALUES (zeroblob(2000000))")
    connection.close()
    assert other.stat().st_size > path.stat().st_size
    overwrite_in_place(path, other.read_bytes())


REPLACEMENTS = [
    truncate,
    overwrite_with_zeros,
    overwrite_with_larger_database_of_another_program,
    copy_older_file_over_it,
    unlink,
    unlink_everything,
    unlink_log,
    unlink_index_of_log,
    rename,
    rename_folder,
    remove_folder,
    replace_with_copy,
    replace_with_empty_database,
    replace_with_directory,
    replace_with_dangling_link,
]


@pytest.mark.parametrize("replace", REPLACEMENTS)
async def test_nothing_is_acknowledged_after_the_database_was_replaced(
    store: SqliteStore, path: Path, replace: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    creation = await create_sample_case(store)
    await store.check_ready()
    replace(path)
    with pytest.raises(Unavailable, match="Nothing was recorded"):
        await create_sample_case(store)
    with pytest.raises(Unavailable):
        await store.check_ready()
    with pytest.raises(Unavailable):
        await store.get_case(creation.case.id)
    with pytest.raises(Unavailable):
        await store.list_owners()
    assert "DatabaseReplaced" in caplog.text


@pytest.mark.parametrize("replace", REPLACEMENTS)
async def test_an_idle_store_notices_that_the_database_was_replaced(
    store: SqliteStore, path: Path, replace: Callable[[Path], None]
) -> None:
    await create_sample_case(store)
    await store.check_ready()
    replace(path)
    with pytest.raises(Unavailable):
        await store.check_ready()


async def test_a_timer_notices_the_replacement_without_any_write(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    creation = await create_sample_case(store)
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    store.add_change_listener(heard.put_nowait)
    rename(path)
    async with asyncio.timeout(60):
        assert await heard.get() is None
    assert "storage_outage operation=write refused=0" in caplog.text
    with pytest.raises(Unavailable, match="deleted or moved"):
        await store.get_case(creation.case.id)


async def test_a_database_replaced_during_the_commit_is_not_acknowledged(
    store: SqliteStore, path: Path, connection: apsw.Connection
) -> None:
    def replace_and_commit() -> bool:
        unlink_everything(path)
        return False

    connection.set_commit_hook(replace_and_commit)
    with pytest.raises(Unavailable, match="may be lost"):
        await create_sample_case(store)
    connection.set_commit_hook(None)


async def test_a_database_that_is_put_back_is_used_again(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    first = await create_sample_case(store)
    move_files(path, tmp_path / "elsewhere")
    with pytest.raises(Unavailable):
        await create_sample_case(store)
    move_files(tmp_path / "elsewhere", path)
    await store.check_ready()
    second = await create_sample_case(store)
    assert [case.id for case in await store.list_cases("acme")] == [second.case.id, first.case.id]


async def test_an_overwritten_database_is_not_used_again_when_it_has_its_old_size(
    store: SqliteStore, path: Path
) -> None:
    await create_sample_case(store)
    size = os.stat(path).st_size
    os.truncate(path, 0)
    with pytest.raises(Unavailable):
        await create_sample_case(store)
    os.truncate(path, size)
    with pytest.raises(Unavailable):
        await create_sample_case(store)


async def test_an_older_copy_of_the_same_size_over_the_database_is_noticed(
    store: SqliteStore, path: Path
) -> None:
    older = read_file(path)
    await create_sample_case(store)
    connection = connect_writer(path)
    connection.execute("CREATE TABLE more (x); DROP TABLE more")  # changes the first page, as growth does
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    await create_sample_case(store)
    overwrite_in_place(path, older + read_file(path)[len(older) :])
    with pytest.raises(Unavailable):
        await create_sample_case(store)


async def test_a_database_that_was_only_touched_or_written_by_another_process_is_used_on(
    store: SqliteStore, path: Path
) -> None:
    await create_sample_case(store)
    os.utime(path)
    await create_sample_case(store)
    overwrite_in_place(path, read_file(path))
    await create_sample_case(store)
    other = await SqliteStore.open(path)
    for _ in range(3):
        await create_sample_case(other)
        connection = connect_writer(path)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.close()
        await create_sample_case(store)
    await other.aclose()
    await store.check_ready()


async def test_a_repointed_link_to_the_database_is_noticed(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    prepare_file(other)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    store = await SqliteStore.open(link)
    await create_sample_case(store)
    link.unlink()
    link.symlink_to(other)
    with pytest.raises(Unavailable, match="not the file that was opened"):
        await create_sample_case(store)
    await store.aclose()


async def test_closing_after_a_replacement_leaves_the_new_database_alone(path: Path) -> None:
    store = await SqliteStore.open(path)
    await create_sample_case(store)
    replace_with_empty_database(path)
    new = await SqliteStore.open(path)
    kept = await create_sample_case(new)
    await store.aclose()
    await new.aclose()
    again = await SqliteStore.open(path)
    assert [case.id for case in await again.list_cases("acme")] == [kept.case.id]
    await again.aclose()


async def test_checkpoints_and_truncations_of_the_log_are_no_replacement(
    store: SqliteStore, path: Path
) -> None:
    for _ in range(3):
        creation = await create_sample_case(store)
        await store.purge(creation.case.created_at)
    other = await SqliteStore.open(path)
    await create_sample_case(other)
    await other.aclose()
    await store.check_ready()
    await create_sample_case(store)


def test_the_error_of_a_replacement_is_an_outage(path: Path, connection: apsw.Connection) -> None:
    file = DatabaseFile(path, connection)
    unlink(path)
    with pytest.raises(DatabaseReplaced, match="was deleted or moved"):
        file.require_in_place()
    assert file.is_replaced
    connection.close()
