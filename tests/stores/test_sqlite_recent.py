"""Young cases are answered from memory, and never with anything but what is on disk."""

import asyncio
from pathlib import Path

import pytest

from placet.cases.commands import Cancel, View
from placet.errors import CaseConflict
from placet.stores.sql.recent_cases import EncodedCase, RecentCases
from placet.stores.sqlite import SqliteStore
from placet.stores.sqlite.connection import connect_reader
from placet.stores.sqlite.reader import Reader
from placet.testing.samples import sample_creation, sample_update
from tests.waiting import eventually

VIEW = View(actor="link:1")
TURNS_UNTIL_COMMIT = 5
pytestmark = pytest.mark.anyio


async def test_what_another_process_did_is_seen_before_it_can_be_overwritten(tmp_path: Path) -> None:
    mine = await SqliteStore.open(tmp_path / "cases.db")
    theirs = await SqliteStore.open(tmp_path / "cases.db")
    creation = sample_creation()
    await mine.create_case(creation)
    await theirs.update_case(sample_update(creation.case, VIEW))
    with pytest.raises(CaseConflict):
        await mine.update_case(sample_update(creation.case, VIEW))
    assert await mine.get_case(creation.case.id) == await theirs.get_case(creation.case.id)
    await mine.aclose()
    await theirs.aclose()


async def test_a_refused_write_leaves_what_is_on_disk(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "cases.db")
    creation = sample_creation()
    await store.create_case(creation)
    moved = sample_update(creation.case, VIEW)
    await store.update_case(moved)
    with pytest.raises(CaseConflict):
        await store.update_case(moved)
    assert await store.get_case(creation.case.id) == moved.step.case
    await store.aclose()


async def test_write_before_an_earlier_commit_is_reported_leaves_the_newest_entry(
    tmp_path: Path,
) -> None:
    store, disk = await SqliteStore.open(tmp_path / "cases.db"), Reader(connect_reader(tmp_path / "cases.db"))
    creation = sample_creation()
    await store.create_case(creation)
    viewed = sample_update(creation.case, VIEW)
    viewing = asyncio.create_task(store.update_case(viewed))
    for _ in range(TURNS_UNTIL_COMMIT):
        await asyncio.sleep(0)
    eventually(lambda: disk.fetch("SELECT 1 FROM cases WHERE version = 2"))  # while the loop stands still
    cancelled = sample_update(viewed.step.case, Cancel(actor="key:acme"))
    await store.update_case(cancelled)
    await viewing
    assert await store.get_case(creation.case.id) == cancelled.step.case
    disk.close()
    await store.aclose()


def row(version: int, size: int = 10) -> EncodedCase:
    return EncodedCase(version, b"s" * size, b"o" * size)


def test_the_oldest_go_first() -> None:
    recent = RecentCases(max_bytes=50)
    for case_id in ("a", "b", "c"):
        recent.put(case_id, row(1))
    assert recent.get("a") is None
    assert recent.get("c") == row(1)
    recent.put("d", row(1, size=100))
    assert recent.get("c") is None
    assert recent.get("d") is None


def test_nothing_older_replaces_what_is_newer() -> None:
    recent = RecentCases()
    recent.put("a", row(2))
    recent.put("a", row(1))
    assert recent.get("a") == row(2)
    recent.put("a", row(3, size=7))
    assert recent.get("a") == row(3, size=7)


def test_dropping_gives_back_what_was_kept_and_its_room() -> None:
    recent = RecentCases(max_bytes=40)
    recent.put("a", row(1))
    assert recent.remove("a") == row(1)
    assert recent.remove("a") is None
    recent.put("b", row(1))
    recent.put("c", row(1))
    assert recent.get("b") == row(1)
    recent.clear()
    assert recent.get("b") is None
