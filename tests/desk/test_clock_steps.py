"""The times of a case never go backwards, whatever the clock does."""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from placet.errors import CaseExpired
from placet.ports.store import Store
from placet.signing.stored_signer import StoredSigner
from placet.testing.clock import FakeClock
from placet.testing.desk import DeskForTests, create_desk_for_tests

pytestmark = pytest.mark.anyio

BACK = timedelta(hours=-3)


async def test_completed_at_does_not_precede_created_at_after_a_clock_step(
    kit: DeskForTests,
) -> None:
    opened = await kit.open()
    kit.clock.advance(BACK)
    await kit.human(opened).answer("approve")
    polled = await kit.poll(opened.id)
    assert polled["completed_at"] == polled["created_at"]


async def test_every_step_of_a_case_is_at_or_after_the_one_before(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    kit.clock.advance(timedelta(minutes=5))
    await human.read()
    kit.clock.advance(BACK)
    await kit.desk.hand_back(opened.id, actor="key:bob", reason="not mine")
    kit.clock.advance(timedelta(minutes=1))
    await human.answer("approve")
    case = await kit.store.get_case(opened.id)
    assert case is not None
    assert case.opened_at is not None
    assert case.closed_at is not None
    assert case.created_at <= case.opened_at <= case.handed_back[0].at <= case.closed_at
    times = [event.at for event in await kit.desk.list_events(opened.id)]
    assert all(earlier <= later for earlier, later in pairwise(times))


async def test_no_event_is_dated_before_a_link_was_passed_on_or_progress_was_made(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    kit.clock.advance(timedelta(minutes=10))
    await human.pass_on()
    kit.clock.advance(timedelta(minutes=-5))
    await human.type({"a": "b"})
    kit.clock.advance(timedelta(minutes=-1))
    await human.answer("approve")
    times = [event.at for event in await kit.desk.list_events(opened.id)]
    assert times == sorted(times)


async def test_a_clock_set_back_and_forward_again_keeps_the_real_time(kit: DeskForTests) -> None:
    opened = await kit.open()
    kit.clock.advance(BACK)
    await kit.human(opened).read()
    answered_at = kit.clock.advance(-BACK + timedelta(minutes=7))
    await kit.human(opened).answer("reject")
    assert datetime.fromisoformat((await kit.poll(opened.id))["completed_at"]) == answered_at


async def test_a_clock_set_back_revives_no_expired_case(kit: DeskForTests) -> None:
    opened = await kit.open(timeout="1h")
    kit.clock.advance(timedelta(hours=2))
    await kit.sweep.run_once()
    kit.clock.advance(BACK)
    with pytest.raises(CaseExpired):
        await kit.human(opened).answer("approve")
    polled = await kit.poll(opened.id)
    assert polled["status"] == "expired"
    assert polled["expired_at"] > polled["created_at"]


async def test_a_cancelled_case_ends_after_it_began(kit: DeskForTests) -> None:
    opened = await kit.open()
    kit.clock.advance(BACK)
    await kit.desk.hand_back(opened.id, actor="key:bob", reason=None)
    case = await kit.store.get_case(opened.id)
    assert case is not None
    assert case.handed_back[0].at == case.created_at


async def test_the_signature_covers_the_time_that_is_stored(store: Store) -> None:
    clock = FakeClock()
    signer = await StoredSigner.open(store, algorithm="ES256", clock=clock)
    try:
        kit = create_desk_for_tests(store=store, clock=clock, signer=signer)
        opened = await kit.open()
        clock.advance(BACK)
        await kit.human(opened).answer("approve")
        polled = await kit.poll(opened.id)
        assert polled["result"]["signature"]["signed_at"] == polled["completed_at"] == polled["created_at"]
    finally:
        await signer.aclose()
