"""Concurrent writers: conflicts are retried, and endless conflicts are reported as unavailable."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from placet.cases.case import Case
from placet.errors import AlreadyClosed, CaseConflict, CaseExpired, Unavailable
from placet.ports.case_store import CaseCreation, CaseUpdate, FormDraft
from placet.protocol.poll import Progress
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.desk import ACME, DeskForTests, create_desk_for_tests

pytestmark = pytest.mark.anyio


class AlwaysConflictingStore(InMemorySqliteStore):
    """A store in which somebody else was always quicker."""

    async def create_case(self, creation: CaseCreation) -> None:
        if creation.idempotency is not None or creation.link is not None:
            raise CaseConflict
        await super().create_case(creation)

    is_slow = False

    async def update_case(self, commitment: CaseUpdate) -> None:
        if self.is_slow:
            raise CaseConflict
        await super().update_case(commitment)


async def test_a_store_that_never_agrees_is_unavailable_and_nothing_is_recorded() -> None:
    store = AlwaysConflictingStore()
    kit = create_desk_for_tests(store=store)
    earlier = await kit.open()
    await kit.human(earlier).answer("edit", {"feedback": "shorter"})
    opened = await kit.open(inline_actions=["approve"])
    store.is_slow = True
    human = kit.human(opened)
    for attempt in (
        kit.open(idempotency_key="k"),
        kit.open(previous_case_id=earlier.id),
        human.read(),
        human.type({}),
        human.answer("approve"),
        human.press("approve"),
        human.pass_on(),
        human.hand_back(),
        kit.desk.cancel(opened.id, ACME, reason=None),
    ):
        with pytest.raises(Unavailable) as refusal:
            await attempt
        assert refusal.value.status == 503
    assert (await kit.poll(opened.id))["status"] == "pending"
    assert len(await kit.store.list_cases("acme")) == 2


async def test_repeated_case_id_is_a_conflict() -> None:
    class Taken(InMemorySqliteStore):
        async def create_case(self, creation: CaseCreation) -> None:
            raise CaseConflict

    with pytest.raises(CaseConflict):
        await create_desk_for_tests(store=Taken()).open()


@pytest.mark.parametrize(("end", "error"), [("answer", AlreadyClosed), ("expiry", CaseExpired)])
async def test_form_draft_saved_while_the_case_closes_is_deleted(end: str, error: type[Exception]) -> None:
    """The page saves, and between its two writes the case comes to its end."""

    class ClosesMeanwhile(InMemorySqliteStore):
        async def save_draft(self, draft: FormDraft) -> None:
            if end == "answer":
                await kit.human(opened).answer("approve")
            else:
                kit.clock.advance(timedelta(days=8))
                await kit.sweep.run_once()
            await super().save_draft(draft)

    kit = create_desk_for_tests(store=ClosesMeanwhile())
    opened = await kit.open()
    with pytest.raises(error):
        await kit.human(opened).type({"feedback": "unfinished"})
    assert await kit.store.get_draft(opened.id) is None


async def test_people_at_once_do_not_lose_each_others_steps(kit: DeskForTests) -> None:
    opened = await kit.open()
    human = kit.human(opened)
    await asyncio.gather(
        human.read(),
        human.pass_on(),
        human.type({"feedback": "a"}, progress=Progress(completed_fields=1)),
        human.pass_on(),
    )
    names = [event.type for event in await kit.desk.list_events(opened.id)]
    assert names.count("review.passed_on") == 2
    assert names.count("review.opened") == names.count("review.in_progress") == 1
    case = await kit.desk.get_owned_case(opened.id, ACME)
    assert case.version == len(names)
    assert len(case.review_digests) == 3


async def test_listeners_are_notified_of_every_written_event(kit: DeskForTests) -> None:
    seen: list[Any] = []
    kit.desk.observe = seen.append
    opened = await kit.open(callback_url="https://agent.example/hooks")
    human = kit.human(opened)
    await human.read()
    await human.read()
    await human.answer("approve")
    assert [one.step.events[-1].type for one in seen] == ["review.opened", "review.completed"]
    assert [len(one.deliveries) for one in seen] == [0, 1]


async def test_a_sweep_that_finds_nothing_to_do_stops() -> None:
    """A store may think a case due that the clock of this process does not."""

    class Hasty(InMemorySqliteStore):
        async def list_due_cases(self, now: datetime, *, limit: int) -> Sequence[Case]:
            return await self.list_cases("acme")

    kit = create_desk_for_tests(store=Hasty())
    await kit.open()
    assert await kit.sweep.run_once() == 0
