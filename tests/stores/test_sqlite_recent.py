"""Young cases are answered from memory, and never with anything but what is on disk."""

from pathlib import Path

import pytest

from assent.cases.case import Offer
from assent.cases.commands import View
from assent.errors import CaseConflict
from assent.stores.sqlite import SqliteStore
from assent.stores.sqlite.recent import RecentCases
from assent.testing.samples import sample_commitment, sample_filing

VIEW = View(actor="link:1")
pytestmark = pytest.mark.anyio


async def test_what_another_process_did_is_seen_before_it_can_be_overwritten(tmp_path: Path) -> None:
    mine = await SqliteStore.open(tmp_path / "cases.db")
    theirs = await SqliteStore.open(tmp_path / "cases.db")
    filing = sample_filing()
    await mine.create(filing)
    await theirs.commit(sample_commitment(filing.case, VIEW))
    with pytest.raises(CaseConflict):
        await mine.commit(sample_commitment(filing.case, VIEW))
    assert await mine.case(filing.case.id) == await theirs.case(filing.case.id)
    await mine.aclose()
    await theirs.aclose()


async def test_a_refused_write_leaves_what_is_on_disk(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "cases.db")
    filing = sample_filing()
    await store.create(filing)
    moved = sample_commitment(filing.case, VIEW)
    await store.commit(moved)
    with pytest.raises(CaseConflict):
        await store.commit(moved)
    assert await store.case(filing.case.id) == moved.step.case
    await store.aclose()


def test_the_oldest_go_first_and_nothing_older_replaces_what_is_newer() -> None:
    recent = RecentCases(most=2)
    first, second, third = (sample_filing() for _ in range(3))
    for filing in (first, second, third):
        recent.keep(filing.case, filing.offer)
    assert recent.get(first.case.id) is None
    assert recent.get(third.case.id) == (third.case, third.offer)
    later = sample_commitment(third.case, VIEW).step.case
    recent.keep(later, third.offer)
    recent.keep(third.case, third.offer)
    assert recent.get(third.case.id) == (later, third.offer)


def test_an_offer_survives_its_case_changing() -> None:
    recent = RecentCases()
    filing = sample_filing()
    recent.keep(filing.case, filing.offer)
    offer: Offer | None = recent.drop(filing.case.id)
    assert offer == filing.offer
    assert recent.get(filing.case.id) is None
    assert recent.drop(filing.case.id) is None
