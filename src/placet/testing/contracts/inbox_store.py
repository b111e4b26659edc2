"""The contract suite of InboxStore."""

from datetime import timedelta
from typing import Any

import pytest

from placet.cases.case import Case
from placet.cases.commands import Cancel, Expire, View
from placet.errors import Unavailable
from placet.ports.inbox_store import InboxCursor
from placet.ports.store import Store
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.case_store import create_answered_case, create_sample_case
from placet.testing.contracts.erasure import sample_erasure
from placet.testing.samples import sample_approval, sample_offer, sample_update

HOUR = timedelta(hours=1)
MIDDAY = DAYBREAK + 6 * HOUR


async def create_lasting_case(store: Store, hours: float, **changes: Any) -> str:
    """Create a case that expires after `hours`, and return its id."""
    return (await create_sample_case(store, expires_at=DAYBREAK + hours * HOUR, **changes)).case.id


async def list_waiting_ids(store: Store, *owners: str | None, **filters: Any) -> list[str]:
    """Return the ids of the open cases of these owners."""
    cases = await store.list_waiting_cases(owners, **{"now": DAYBREAK} | filters)
    return [case.id for case, _ in cases]


async def apply_command(store: Store, case_id: str, command: Any, after: timedelta = HOUR) -> Case:
    """Apply a command to a case, and return the case."""
    case = await store.get_case(case_id)
    assert case is not None
    commitment = sample_update(case, command, now=DAYBREAK + after)
    await store.update_case(commitment)
    return commitment.step.case


@pytest.mark.anyio
class InboxStoreContract:
    """Tests of the lists of open and closed cases of several owners."""

    async def test_waiting_cases_of_all_owners_are_sorted_by_deadline(self, store: Store) -> None:
        late = await create_lasting_case(store, 9)
        soon = await create_lasting_case(store, 7, owner="umbrella")
        first = await create_lasting_case(store, 6.5, owner=None)
        theirs = await create_lasting_case(store, 6.1, owner="other")
        assert await list_waiting_ids(store, "acme", "umbrella", None) == [first, soon, late]
        assert await list_waiting_ids(store, "other") == [theirs]
        assert await list_waiting_ids(store, "") == []
        assert await list_waiting_ids(store) == []

    async def test_a_waiting_case_is_listed_with_its_offer(self, store: Store) -> None:
        creation = await create_sample_case(store, offer=sample_offer(prompt="Water the plants?"))
        assert list(await store.list_waiting_cases(["acme"], now=DAYBREAK)) == [
            (creation.case, creation.offer)
        ]

    async def test_opened_and_started_cases_are_listed_as_waiting(self, store: Store) -> None:
        case_id = await create_lasting_case(store, 9)
        viewed = await apply_command(store, case_id, View(actor="person"))
        [(case, _)] = await store.list_waiting_cases(["acme"], now=DAYBREAK)
        assert case == viewed

    async def test_closed_and_overdue_cases_are_not_listed_as_waiting(self, store: Store) -> None:
        overdue, declined = await create_lasting_case(store, 6), await create_lasting_case(store, 9)
        await create_answered_case(store)
        await apply_command(store, declined, Cancel(actor="acme"))
        waiting = await create_lasting_case(store, 8)
        assert await list_waiting_ids(store, "acme") == [overdue, waiting]
        assert await list_waiting_ids(store, "acme", now=MIDDAY) == [waiting]

    async def test_pages_of_waiting_cases_have_no_gaps(self, store: Store) -> None:
        hours = [9, 7, 7, 7, 8, 7, 9]
        ids = [await create_lasting_case(store, hour, owner=["acme", "umbrella"][hour % 2]) for hour in hours]
        ends = dict(zip(ids, hours, strict=True))
        seen: list[str] = []
        place: InboxCursor | None = None
        while page := await list_waiting_ids(store, "acme", "umbrella", after=place, limit=2):
            seen.extend(page)
            place = InboxCursor(at=DAYBREAK + ends[page[-1]] * HOUR, case_id=page[-1])
        assert sorted(seen) == sorted(ids)
        assert [ends[id] for id in seen] == sorted(hours)

    async def test_the_next_page_starts_after_the_last_case_even_if_it_was_closed(self, store: Store) -> None:
        first, second, third = [await create_lasting_case(store, 7) for _ in range(3)]
        place = InboxCursor(at=DAYBREAK + 7 * HOUR, case_id=second)
        await apply_command(store, second, sample_approval())
        assert await list_waiting_ids(store, "acme", after=place) == [third]
        assert await list_waiting_ids(store, "acme") == [first, third]

    async def test_closed_cases_are_listed_newest_first(self, store: Store) -> None:
        ids = [await create_lasting_case(store, 9) for _ in range(4)]
        last = await apply_command(store, ids[0], sample_approval(), 4 * HOUR)
        early = await apply_command(store, ids[1], Cancel(actor="acme"), HOUR)
        over = await apply_command(store, ids[2], Expire(actor="system"), 10 * HOUR)
        listed = await store.list_closed_cases(["acme"])
        assert [case for case, _ in listed] == [over, last, early]
        assert not await store.list_closed_cases(["umbrella", None])
        assert last.closed_at is not None
        rest = await store.list_closed_cases(
            ["acme"], after=InboxCursor(at=last.closed_at, case_id=last.id), limit=1
        )
        assert [case for case, _ in rest] == [early]

    async def test_erased_cases_are_not_listed(self, store: Store) -> None:
        case = await create_answered_case(store)
        assert [found for found, _ in await store.list_closed_cases(["acme"])] == [case]
        await store.erase_case(sample_erasure(case))
        assert not await store.list_closed_cases(["acme"])
        assert not await list_waiting_ids(store, "acme")

    async def test_each_owner_of_a_case_is_listed_once(self, store: Store) -> None:
        assert not await store.list_owners()
        for owner in ("umbrella", "acme", None, "acme", "relay:default", "Ünï ✅"):
            await create_sample_case(store, owner=owner)
        await create_answered_case(store)
        assert sorted(await store.list_owners(), key=str) == sorted(
            ["acme", "umbrella", None, "relay:default", "Ünï ✅"], key=str
        )

    async def test_a_closed_store_lists_nothing(self, store: Store) -> None:
        await create_sample_case(store)
        await store.aclose()
        with pytest.raises(Unavailable):
            await store.list_owners()
        with pytest.raises(Unavailable):
            await store.list_waiting_cases(["acme"], now=DAYBREAK)
        with pytest.raises(Unavailable):
            await store.list_closed_cases(["acme"])
