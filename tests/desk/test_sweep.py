"""The sweep: reminders in order, expiry on time, erasure after retention."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from placet.cases.commands import Expire
from placet.cases.events import find_broken_link
from placet.desk.case_limits import Limits
from placet.desk.sweep import BATCH
from placet.errors import CaseNotFound, Unavailable
from placet.ports.case_store import CaseCreation, CaseUpdate
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.desk import ACME, OTHER, DeskForTests, create_desk_for_tests

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)


async def names(kit: DeskForTests, case_id: str) -> list[str]:
    return [event.type.removeprefix("review.") for event in await kit.desk.list_events(case_id)]


async def test_reminders_go_out_one_by_one_and_then_the_case_expires(kit: DeskForTests) -> None:
    first, second = kit.clock() + HOUR, kit.clock() + 2 * HOUR
    opened = await kit.open(timeout="3h", reminder_at=[second.isoformat(), first.isoformat()])
    assert await kit.sweep.run_once() == 0
    assert await kit.sweep.next_at() == first
    for moment in (first, second):
        kit.clock.advance(moment - kit.clock() - TICK)
        assert await kit.sweep.run_once() == 0
        kit.clock.advance(TICK)
        assert await kit.sweep.run_once() == 1
    assert "reminder_sent_at" not in await kit.poll(opened.id)  # this server reminds nobody itself
    assert await kit.sweep.next_at() == kit.clock() + HOUR
    kit.clock.advance(HOUR)
    assert await kit.sweep.run_once() == 1
    assert await names(kit, opened.id) == ["created", "reminder", "reminder", "expired"]


async def test_the_first_read_after_the_deadline_expires_the_case(kit: DeskForTests) -> None:
    opened = await kit.open(timeout="3h")
    kit.clock.advance(3 * HOUR - TICK)
    assert (await kit.desk.get_current_case(opened.id, ACME)).live
    kit.clock.advance(TICK)
    assert (await kit.desk.get_current_case(opened.id, ACME)).status == "expired"
    assert await names(kit, opened.id) == ["created", "expired"]
    with pytest.raises(CaseNotFound):
        await kit.desk.get_current_case(opened.id, OTHER)


async def test_a_reminder_says_how_much_time_is_left(kit: DeskForTests) -> None:
    opened = await kit.open(timeout="13h", reminder_at=(kit.clock() + HOUR).isoformat())
    kit.clock.advance(HOUR)
    await kit.sweep.run_once()
    event = (await kit.desk.list_events(opened.id))[-1]
    assert msgspec.json.decode(event.data or b"") == {
        "case_id": opened.id,
        "reminder_at": "2026-01-01T07:00:00Z",
        "message": "Review expires in 12 hours",
    }


async def test_case_in_progress_is_not_reminded(kit: DeskForTests) -> None:
    opened = await kit.open(timeout="3h", reminder_at=(kit.clock() + HOUR).isoformat())
    await kit.human(opened).type({"feedback": "h"})
    kit.clock.advance(HOUR)
    assert await kit.sweep.run_once() == 0
    assert "reminder" not in await names(kit, opened.id)


async def test_an_expired_case_reports_its_default_and_no_result(kit: DeskForTests) -> None:
    opened = await kit.open(timeout="1h", default_action="reject")
    kit.clock.advance(HOUR + timedelta(seconds=7))
    await kit.sweep.run_once()
    polled = await kit.poll(opened.id)
    assert (polled["status"], polled["default_action"]) == ("expired", "reject")
    assert polled["expired_at"] == "2026-01-01T07:00:00Z"
    assert "result" not in polled


async def test_nothing_is_due_twice(kit: DeskForTests) -> None:
    await kit.open(timeout="1h")
    kit.clock.advance(HOUR)
    assert await kit.sweep.run_once() == 1
    assert await kit.sweep.run_once() == 0


async def test_more_than_a_batch_is_swept_in_one_go(kit: DeskForTests) -> None:
    for _ in range(BATCH + 10):
        await kit.open(timeout="1h")
    kit.clock.advance(HOUR)
    assert await kit.sweep.run_once() == BATCH + 10


async def test_many_sweeps_at_once_move_each_case_once(kit: DeskForTests) -> None:
    cases = [await kit.open(timeout="1h") for _ in range(20)]
    kit.clock.advance(HOUR)
    others = [create_desk_for_tests(store=kit.store, clock=kit.clock).sweep for _ in range(3)]
    moved = await asyncio.gather(*(sweep.run_once() for sweep in (kit.sweep, *others)))
    assert sum(moved) == 20
    for opened in cases:
        assert await names(kit, opened.id) == ["created", "expired"]


async def test_an_answer_in_time_is_not_undone_by_a_late_sweep(kit: DeskForTests) -> None:
    opened = await kit.open(timeout="1h")
    kit.clock.advance(HOUR - TICK)
    await kit.human(opened).answer("approve")
    kit.clock.advance(HOUR)
    assert await kit.sweep.run_once() == 0
    assert (await kit.poll(opened.id))["status"] == "completed"


async def test_a_case_closed_meanwhile_is_left_to_the_next_round() -> None:
    """Two processes: the sweep has read the case, and then somebody answers."""

    class Overtaken(InMemorySqliteStore):
        async def update_case(self, commitment: CaseUpdate) -> None:
            if commitment.step.events[-1].type == "review.reminder":
                await kit.human(opened).answer("approve")
            await super().update_case(commitment)

    kit = create_desk_for_tests(store=Overtaken())
    opened = await kit.open(timeout="3h", reminder_at=(kit.clock() + HOUR).isoformat())
    kit.clock.advance(HOUR)
    assert await kit.sweep.run_once() == 0
    assert await names(kit, opened.id) == ["created", "completed"]


async def test_one_case_that_cannot_be_written_does_not_keep_the_others() -> None:
    class HalfBroken(InMemorySqliteStore):
        async def update_case(self, commitment: CaseUpdate) -> None:
            if commitment.step.case.id == stuck.id:
                raise Unavailable
            await super().update_case(commitment)

    kit = create_desk_for_tests(store=HalfBroken())
    stuck = await kit.open(timeout="30m")
    free = [await kit.open(timeout="1h") for _ in range(3)]
    kit.clock.advance(HOUR)
    with pytest.raises(Unavailable):
        await kit.sweep.run_once()
    for opened in free:
        assert (await kit.poll(opened.id))["status"] == "expired"


async def test_early_expiry_does_nothing(kit: DeskForTests) -> None:
    opened = await kit.open(timeout="1h")
    case = await kit.desk.get_owned_case(opened.id, ACME)
    assert await kit.desk.apply_command(case, Expire(actor="system")) == case


@pytest.mark.parametrize("end", ["completed", "expired", "cancelled"])
async def test_after_its_retention_a_case_is_gone_and_its_chain_still_holds(
    kit: DeskForTests, end: str
) -> None:
    opened = await kit.open(timeout="1h", callback_url="https://agent.example/hooks")
    human = kit.human(opened)
    await human.type({"feedback": "a private thought"})
    if end == "completed":
        await human.answer("approve", {"feedback": "a private thought"})
    elif end == "cancelled":
        await human.hand_back("a private thought")
        await kit.desk.cancel(opened.id, ACME, reason="a private thought")
    else:
        kit.clock.advance(HOUR)
        await kit.sweep.run_once()
    await kit.outbox.run_once()
    closed = await kit.desk.get_owned_case(opened.id, ACME)
    assert closed.closed_at is not None
    kit.clock.advance(closed.closed_at + kit.desk.limits.keep_for - kit.clock() - TICK)
    assert await kit.sweep.run_once() == 0
    kit.clock.advance(TICK)
    assert await kit.sweep.run_once() == 1
    for attempt in (kit.poll(opened.id), human.look(), human.read(), kit.desk.get_case_and_offer(opened.id)):
        with pytest.raises(CaseNotFound):
            await attempt
    bare = await kit.store.get_case(opened.id)
    assert bare is not None
    events = await kit.desk.list_events(opened.id)
    assert find_broken_link(events, head=bare.chain) is None
    assert events[-1].type == "review.erased"
    deliveries = await kit.store.list_deliveries()
    assert b"private" not in msgspec.json.encode(
        [bare, events, deliveries, await kit.store.get_draft(opened.id)]
    )
    assert await kit.sweep.next_at() is None


def with_retention(kit: DeskForTests, keep_for: timedelta) -> DeskForTests:
    """A server that starts later on the same store, with another setting."""
    return create_desk_for_tests(store=kit.store, clock=kit.clock, limits=Limits(keep_for=keep_for))


async def test_a_longer_retention_keeps_closed_cases_and_holds_up_nothing_else(kit: DeskForTests) -> None:
    closed = [await kit.open() for _ in range(BATCH + 1)]
    for opened in closed:
        await kit.human(opened).answer("approve")
    longer = with_retention(kit, 2 * kit.desk.limits.keep_for)
    waiting = await longer.open(timeout="1h")
    kit.clock.advance(kit.desk.limits.keep_for)
    await longer.sweep.run_once()
    assert (await longer.poll(waiting.id))["status"] == "expired"
    assert (await longer.poll(closed[0].id))["status"] == "completed"
    assert await longer.sweep.next_at() == kit.clock() + kit.desk.limits.keep_for
    kit.clock.advance(kit.desk.limits.keep_for)
    assert await longer.sweep.run_once() == BATCH + 1
    with pytest.raises(CaseNotFound):
        await longer.poll(closed[0].id)


async def test_a_shorter_retention_counts_for_what_is_closed_already(kit: DeskForTests) -> None:
    old = [await kit.open() for _ in range(BATCH + 1)]
    for opened in old:
        await kit.human(opened).answer("approve")
    kit.clock.advance(HOUR)
    late = await kit.open()
    await kit.human(late).answer("approve")
    live = await kit.open(timeout="7d")
    shorter = with_retention(kit, timedelta(days=1))
    kit.clock.advance(timedelta(days=1) - TICK)
    assert await shorter.sweep.catch_up() == BATCH + 1
    assert await shorter.sweep.catch_up() == 0
    with pytest.raises(CaseNotFound):
        await shorter.poll(old[0].id)
    assert (await shorter.poll(late.id))["status"] == "completed"
    assert (await shorter.poll(live.id))["status"] == "pending"


async def test_erasure_is_counted(kit: DeskForTests) -> None:
    opened = await kit.open()
    await kit.human(opened).answer("approve")
    seen: list[CaseUpdate | CaseCreation] = []
    kit.desk.observe = seen.append
    kit.clock.advance(kit.desk.limits.keep_for)
    await kit.sweep.run_once()
    (erased,) = seen
    assert isinstance(erased, CaseUpdate)
    assert [event.type for event in erased.step.events] == ["review.erased"]


async def test_an_erased_round_keeps_its_place_in_the_chain(kit: DeskForTests) -> None:
    first = await kit.open(timeout="1h")
    await kit.human(first).answer("edit", {"feedback": "again"})
    kit.clock.advance(kit.desk.limits.keep_for - HOUR)
    second = await kit.open(previous_case_id=first.id)
    kit.clock.advance(2 * HOUR)
    await kit.sweep.run_once()
    chain = await kit.desk.list_rounds(await kit.desk.get_owned_case(second.id, ACME))
    assert [case.id for case in chain] == [first.id, second.id]
    assert chain[0].erased_at is not None
