"""Several rounds over one thing: each case knows the one before and the one after."""

import asyncio
from datetime import timedelta

import pytest

from placet.cases.case import Case
from placet.cases.events import find_broken_link
from placet.errors import ValidationFailed
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.desk import ACME, ANONYMOUS, OTHER, DeskForTests, OpenedCase, create_desk_for_tests

pytestmark = pytest.mark.anyio


async def request_changes(kit: DeskForTests, **fields: object) -> OpenedCase:
    """A case that was answered with a wish for changes."""
    opened = await kit.open(**fields)  # type: ignore[arg-type]
    await kit.human(opened).answer("edit", {"feedback": "shorter, please"})
    return opened


async def test_a_follow_up_is_linked_both_ways_at_once(kit: DeskForTests) -> None:
    first = await request_changes(kit)
    before = await kit.desk.get_owned_case(first.id, ACME)
    second = await kit.open(previous_case_id=first.id)
    after = await kit.desk.get_owned_case(first.id, ACME)
    assert second.hitl["previous_case_id"] == first.id
    assert (await kit.poll(first.id))["next_case_id"] == second.id
    assert after.version == before.version + 1
    events = await kit.desk.list_events(first.id)
    assert events[-1].type == "review.linked"
    assert find_broken_link(events, head=after.chain) is None


@pytest.mark.parametrize("repeatable", [False, True], ids=["once", "repeatable"])
async def test_any_number_of_follow_ups_may_be_opened_at_once(kit: DeskForTests, repeatable: bool) -> None:
    first = await request_changes(kit)
    keys = [f"key {number}" if repeatable else None for number in range(64)]
    opened = [kit.open(previous_case_id=first.id, idempotency_key=key) for key in keys]
    ids = {one.id for one in await asyncio.gather(*opened)}
    assert len(ids) == 64
    case = await kit.desk.get_owned_case(first.id, ACME)
    assert case.next_case_id in ids
    assert find_broken_link(await kit.desk.list_events(first.id), head=case.chain) is None


async def test_the_link_changes_nothing_else_about_a_closed_case(kit: DeskForTests) -> None:
    first = await request_changes(kit)
    before = await kit.poll(first.id)
    second = await kit.open(previous_case_id=first.id)
    assert await kit.poll(first.id) == before | {"next_case_id": second.id}


@pytest.mark.parametrize("end", ["pending", "opened", "expired", "cancelled"])
async def test_only_a_completed_case_can_be_continued(kit: DeskForTests, end: str) -> None:
    first = await kit.open()
    if end == "opened":
        await kit.human(first).read()
    if end == "expired":
        kit.clock.advance(timedelta(days=8))
        await kit.sweep.run_once()
    if end == "cancelled":
        await kit.desk.cancel(first.id, ACME, reason=None)
    with pytest.raises(ValidationFailed, match="only a completed case can be continued"):
        await kit.open(previous_case_id=first.id)
    polled = await kit.poll(first.id)
    assert polled["status"] == end
    assert "next_case_id" not in polled


@pytest.mark.parametrize("stranger", [OTHER, ANONYMOUS])
async def test_nobody_continues_a_strangers_case(kit: DeskForTests, stranger: object) -> None:
    first = await request_changes(kit)
    with pytest.raises(ValidationFailed, match="not a case of yours"):
        await kit.open(previous_case_id=first.id, principal=stranger)  # type: ignore[arg-type]
    assert "next_case_id" not in await kit.poll(first.id)
    assert not await kit.store.list_cases("other")


async def test_a_stranger_cannot_tell_an_existing_case_from_none(kit: DeskForTests) -> None:
    first = await request_changes(kit)
    messages = []
    for case_id in (first.id, first.id[:-1] + "x"):
        with pytest.raises(ValidationFailed) as refusal:
            await kit.open(previous_case_id=case_id, principal=OTHER)
        messages.append(refusal.value.message.replace(case_id, ""))
    assert messages[0] == messages[1]


async def test_an_erased_case_cannot_be_continued(kit: DeskForTests) -> None:
    first = await request_changes(kit)
    kit.clock.advance(kit.desk.limits.keep_for)
    await kit.sweep.run_once()
    with pytest.raises(ValidationFailed):
        await kit.open(previous_case_id=first.id)


async def test_four_rounds_are_listed_in_order_from_any_of_them(kit: DeskForTests) -> None:
    rounds = [await request_changes(kit)]
    for _ in range(3):
        rounds.append(await request_changes(kit, previous_case_id=rounds[-1].id))
    for one in rounds:
        chain = await kit.desk.list_rounds(await kit.desk.get_owned_case(one.id, ACME))
        assert [case.id for case in chain] == [opened.id for opened in rounds]
    for one in rounds:
        case = await kit.desk.get_owned_case(one.id, ACME)
        assert find_broken_link(await kit.desk.list_events(one.id), head=case.chain) is None


async def test_a_long_chain_is_listed_up_to_the_limit(kit: DeskForTests) -> None:
    rounds = [await request_changes(kit)]
    for _ in range(4):
        rounds.append(await request_changes(kit, previous_case_id=rounds[-1].id))
    middle = await kit.desk.get_owned_case(rounds[2].id, ACME)
    assert len(await kit.desk.list_rounds(middle, limit=2)) == 2


async def test_a_second_follow_up_takes_the_place_of_the_first(kit: DeskForTests) -> None:
    """The first one still knows where it came from, and the log of the earlier case names both."""
    first = await request_changes(kit)
    second, third = [await kit.open(previous_case_id=first.id) for _ in range(2)]
    assert (await kit.poll(first.id))["next_case_id"] == third.id
    chain = await kit.desk.list_rounds(await kit.desk.get_owned_case(second.id, ACME))
    assert [case.id for case in chain] == [first.id, second.id]
    assert [event.type for event in await kit.desk.list_events(first.id)].count("review.linked") == 2


async def test_follow_ups_at_the_same_time_leave_a_whole_log(kit: DeskForTests) -> None:
    first = await request_changes(kit)
    followers = await asyncio.gather(*(kit.open(previous_case_id=first.id) for _ in range(8)))
    case = await kit.desk.get_owned_case(first.id, ACME)
    events = await kit.desk.list_events(first.id)
    assert case.next_case_id in {one.id for one in followers}
    assert len(events) == case.version
    assert find_broken_link(events, head=case.chain) is None
    assert [event.type for event in events].count("review.linked") == 8


async def test_a_follow_up_under_an_idempotency_key_is_linked_once(kit: DeskForTests) -> None:
    first = await request_changes(kit)
    await asyncio.gather(*(kit.open(previous_case_id=first.id, idempotency_key="again") for _ in range(8)))
    assert [event.type for event in await kit.desk.list_events(first.id)].count("review.linked") == 1


class LossyStore(InMemorySqliteStore):
    """A store that has lost a case, as a store never should."""

    lost: str | None = None

    async def get_case(self, case_id: str) -> Case | None:
        return None if case_id == self.lost else await super().get_case(case_id)


async def test_a_chain_with_a_hole_ends_at_the_hole() -> None:
    store = LossyStore()
    kit = create_desk_for_tests(store=store)
    rounds = [await request_changes(kit)]
    for _ in range(4):
        rounds.append(await request_changes(kit, previous_case_id=rounds[-1].id))
    first, second, _, fourth, last = [await kit.desk.get_owned_case(opened.id, ACME) for opened in rounds]
    store.lost = rounds[2].id
    assert await kit.desk.list_rounds(first) == await kit.desk.list_rounds(second) == [first, second]
    assert await kit.desk.list_rounds(last) == [fourth, last]
