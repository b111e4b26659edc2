"""What every InboxStore must do."""

from datetime import timedelta
from typing import Any

import pytest

from placet.cases.case import Case
from placet.cases.commands import Cancel, Expire, View
from placet.errors import Unavailable
from placet.ports.inbox_store import InboxCursor
from placet.ports.store import Store
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.case_store import create_sample_case
from placet.testing.contracts.erasure import create_answered_case, sample_erasure
from placet.testing.samples import sample_approval, sample_offer, sample_update

HOUR = timedelta(hours=1)
MIDDAY = DAYBREAK + 6 * HOUR


async def create_lasting_case(store: Store, hours: float, **changes: Any) -> str:
    """The id of a new case that waits for so long."""
    return (await create_sample_case(store, expires_at=DAYBREAK + hours * HOUR, **changes)).case.id


async def list_waiting_ids(store: Store, *owners: str | None, **asked: Any) -> list[str]:
    """The ids of what waits for these."""
    cases = await store.list_waiting_cases(owners, **{"now": DAYBREAK} | asked)
    return [case.id for case, _ in cases]


async def apply_command(store: Store, case_id: str, command: Any, after: timedelta = HOUR) -> Case:
    """A case after this command."""
    case = await store.get_case(case_id)
    assert case is not None
    commitment = sample_update(case, command, now=DAYBREAK + after)
    await store.update_case(commitment)
    return commitment.step.case


@pytest.mark.anyio
class InboxStoreContract:
    """What waits and what was closed, of several owners in one order."""

    async def test_what_waits_is_sorted_by_its_deadline_whoever_opened_it(self, store: Store) -> None:
        late = await create_lasting_case(store, 9)
        soon = await create_lasting_case(store, 7, owner="umbrella")
        first = await create_lasting_case(store, 6.5, owner=None)
        theirs = await create_lasting_case(store, 6.1, owner="other")
        assert await list_waiting_ids(store, "acme", "umbrella", None) == [first, soon, late]
        assert await list_waiting_ids(store, "other") == [theirs]
        assert await list_waiting_ids(store, "") == []
        assert await list_waiting_ids(store) == []

    async def test_a_case_comes_with_what_it_shows(self, store: Store) -> None:
        filing = await create_sample_case(store, offer=sample_offer(prompt="Water the plants?"))
        assert list(await store.list_waiting_cases(["acme"], now=DAYBREAK)) == [(filing.case, filing.offer)]

    async def test_what_is_open_or_begun_waits_as_what_is_new_does(self, store: Store) -> None:
        case_id = await create_lasting_case(store, 9)
        viewed = await apply_command(store, case_id, View(actor="person"))
        [(case, _)] = await store.list_waiting_cases(["acme"], now=DAYBREAK)
        assert case == viewed

    async def test_what_is_closed_or_overdue_waits_no_more(self, store: Store) -> None:
        overdue, declined = await create_lasting_case(store, 6), await create_lasting_case(store, 9)
        await create_answered_case(store)
        await apply_command(store, declined, Cancel(actor="acme"))
        waiting = await create_lasting_case(store, 8)
        assert await list_waiting_ids(store, "acme") == [overdue, waiting]
        assert await list_waiting_ids(store, "acme", now=MIDDAY) == [waiting]

    async def test_pages_of_what_waits_follow_each_other_without_gaps(self, store: Store) -> None:
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

    async def test_a_page_goes_on_where_the_last_ended_also_when_that_case_is_closed(
        self, store: Store
    ) -> None:
        first, second, third = [await create_lasting_case(store, 7) for _ in range(3)]
        place = InboxCursor(at=DAYBREAK + 7 * HOUR, case_id=second)
        await apply_command(store, second, sample_approval())
        assert await list_waiting_ids(store, "acme", after=place) == [third]
        assert await list_waiting_ids(store, "acme") == [first, third]

    async def test_what_was_closed_last_comes_first(self, store: Store) -> None:
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

    async def test_what_was_erased_is_not_listed(self, store: Store) -> None:
        case = await create_answered_case(store)
        assert [found for found, _ in await store.list_closed_cases(["acme"])] == [case]
        await store.erase_case(sample_erasure(case))
        assert not await store.list_closed_cases(["acme"])
        assert not await list_waiting_ids(store, "acme")

    async def test_everyone_who_has_a_case_is_named_once(self, store: Store) -> None:
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
