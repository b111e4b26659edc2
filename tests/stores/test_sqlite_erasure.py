"""What retention erases is gone from the file and from its log, not only from what the store tells."""

import asyncio
import random
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from placet.stores.sqlite import SqliteStore
from placet.stores.sqlite.connection import connect_reader
from placet.stores.sqlite.group_commit import GroupCommitWriter
from placet.testing.desk import DeskForTests, create_desk_for_tests
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

MARKS = (b"what was shown", b"what was typed", b"what was answered", b"why it was declined")
SIZES = (1, 20, 60, 200, 600, 2500)  # within a page, across several, and in pages of their own


def count_marks(folder: Path) -> dict[bytes, int]:
    """How often each mark is still found in the database's files."""
    files = b"".join(file.read_bytes() for file in folder.iterdir())
    return {mark: count for mark in MARKS if (count := files.count(mark))}


async def play_cases(kit: DeskForTests, dice: random.Random) -> None:
    """Cases of many sizes that are answered, declined or left alone, in no order."""
    cases = [
        await kit.open(
            timeout="1h",
            context={"artifact": "what was shown " * dice.choice(SIZES)},
            callback_url="https://agent.example/hooks",
        )
        for _ in range(120)
    ]
    for number, opened in enumerate(dice.sample(cases, len(cases))):
        human = kit.human(opened)
        if number % 2:
            await human.type({"feedback": "what was typed " * dice.choice(SIZES[:4])})
        if number % 3 == 0:
            await human.hand_back("why it was declined")
        elif number % 3 == 1:
            await human.answer("approve", {"feedback": "what was answered " * dice.choice(SIZES[:4])})
    await kit.outbox.run_once()


async def test_nothing_of_an_erased_case_is_left_in_the_files(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "cases.db")
    kit = create_desk_for_tests(store=store)
    await play_cases(kit, random.Random(7))
    assert set(count_marks(tmp_path)) == set(MARKS)
    kit.clock.advance(timedelta(hours=1))
    await kit.sweep.run_once()
    await kit.outbox.run_once()
    kit.clock.advance(kit.desk.limits.keep_for)
    await kit.sweep.run_once()
    await store.purge(kit.clock())
    assert count_marks(tmp_path) == {}
    await store.aclose()


async def test_the_log_is_cut_later_while_another_process_reads(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "cases.db")
    kit = create_desk_for_tests(store=store)
    await kit.open(context={"artifact": "what was shown"})
    reading = connect_reader(tmp_path / "cases.db")
    rows = reading.execute("SELECT id FROM cases UNION ALL SELECT 'another'")
    assert next(rows)
    await kit.open()
    assert await store.purge(kit.clock()) == 0
    assert (tmp_path / "cases.db-wal").stat().st_size
    reading.close(force=True)
    await store.purge(kit.clock())
    assert (tmp_path / "cases.db-wal").stat().st_size == 0
    await store.aclose()


def threads_of_stores() -> set[threading.Thread]:
    """Return the threads that read large results or truncate the log."""
    return {one for one in threading.enumerate() if one.name.startswith("placet-reads")}


async def test_a_store_is_closed_once_nothing_cuts_its_log_any_more(tmp_path: Path) -> None:
    before = threads_of_stores()
    store = await SqliteStore.open(tmp_path / "cases.db")
    kit = create_desk_for_tests(store=store)
    await kit.open()
    reading = connect_reader(tmp_path / "cases.db")
    assert next(reading.execute("SELECT id FROM cases UNION ALL SELECT 'another'"))
    purging = asyncio.create_task(store.purge(kit.clock()))
    assert await asyncio.to_thread(eventually, lambda: threads_of_stores() - before)
    purging.cancel()
    reading.close(force=True)
    await store.aclose()
    assert threads_of_stores() <= before
    assert not (tmp_path / "cases.db-wal").exists()


async def test_a_log_that_is_cut_passes_for_no_write_of_another_process(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "cases.db")
    kit = create_desk_for_tests(store=store)
    await kit.open()
    told: list[str | None] = []
    store.add_change_listener(told.append)
    await store.purge(kit.clock())
    assert (tmp_path / "cases.db-wal").stat().st_size == 0
    assert isinstance(store._writer, GroupCommitWriter)
    store._writer.check_other_processes()
    opened = await kit.open()
    assert told == [opened.id]
    await store.aclose()
