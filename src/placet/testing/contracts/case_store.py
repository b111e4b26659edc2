"""The contract suite of CaseStore."""

import asyncio
from collections.abc import Awaitable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.cases.case import Case
from placet.cases.commands import Cancel, Expire, View, Work
from placet.cases.events import find_broken_link
from placet.errors import CaseConflict
from placet.ports.case_store import CaseCreation, CaseUpdate, FormDraft
from placet.ports.outbox_store import DeliveryFilter
from placet.ports.store import Store
from placet.protocol.poll import Status
from placet.testing.clock import DAYBREAK
from placet.testing.samples import (
    DAY,
    sample_approval,
    sample_creation,
    sample_delivery,
    sample_endpoint,
    sample_idempotency_record,
    sample_link_step,
    sample_offer,
    sample_update,
)

CROWD = 64


async def gather_outcomes(attempts: Iterable[Awaitable[object]]) -> list[Any]:
    """Await all attempts concurrently. Return the result or exception of each."""
    async with asyncio.timeout(30):
        return await asyncio.gather(*attempts, return_exceptions=True)


async def create_sample_case(store: Store, **changes: Any) -> CaseCreation:
    """Create a sample case in the store, and return its creation."""
    creation = sample_creation(**changes)
    await store.create_case(creation)
    return creation


async def create_answered_case(store: Store, **fields: Any) -> Case:
    """Create a case that was worked on and answered."""
    case = (await create_sample_case(store)).case
    working = sample_update(case, Work(actor="person"))
    await store.update_case(working)
    answer = sample_update(working.step.case, sample_approval(), **fields)
    await store.update_case(answer)
    return answer.step.case


@pytest.mark.anyio
class CaseStoreContract:
    """Tests of cases, offers, events, form drafts, idempotency records and evidence."""

    async def test_a_new_case_is_read_back_as_it_was_written(self, store: Store) -> None:
        creation = await create_sample_case(
            store,
            reminders=(DAYBREAK + timedelta(hours=1, microseconds=1),),
            callback_url="https://acme.example/callback",
        )
        assert await store.get_case(creation.case.id) == creation.case
        assert await store.get_case_and_offer(creation.case.id) == (creation.case, creation.offer)
        assert tuple(await store.list_events(creation.case.id)) == creation.events

    async def test_text_in_any_script_is_kept(self, store: Store) -> None:
        strange = "Ünï ✅ 🇨🇭 עברית e\u0301 \u202e\x00\x7f\ufeff \U0010ffff 'quote' \"--\\"
        offer = sample_offer(prompt=strange, message=strange, context={strange: [strange, {"": None}]})
        creation = await create_sample_case(store, owner=strange, offer=offer)
        assert await store.get_case_and_offer(creation.case.id) == (creation.case, offer)
        assert [case.id for case in await store.list_cases(strange)] == [creation.case.id]

    async def test_numbers_at_their_limits_are_kept(self, store: Store) -> None:
        numbers = {
            "ints": [0, -1, 2**63 - 1, -(2**63)],
            "floats": [0.1, 1e300, -5e-324],
            "flags": [True, None],
        }
        creation = await create_sample_case(store, offer=sample_offer(context=numbers))
        assert await store.get_case_and_offer(creation.case.id) == (creation.case, creation.offer)

    async def test_a_large_offer_is_kept(self, store: Store) -> None:
        creation = await create_sample_case(
            store, offer=sample_offer(context={"document": "long " * 400_000})
        )
        assert await store.get_case_and_offer(creation.case.id) == (creation.case, creation.offer)

    @pytest.mark.parametrize(
        "case_id", ["review_unknown", "", "x" * 100_000, "\ud800", "a\x00b", "' OR 1=1 --"]
    )
    async def test_an_unknown_case_is_not_found(self, store: Store, case_id: str) -> None:
        await create_sample_case(store)
        assert await store.get_case(case_id) is None
        assert await store.get_case_and_offer(case_id) is None
        assert not await store.list_events(case_id)
        assert await store.get_draft(case_id) is None
        assert not await store.list_deliveries(DeliveryFilter(case_id=case_id))

    async def test_a_used_id_is_refused_and_the_first_case_is_kept(self, store: Store) -> None:
        first = await create_sample_case(store)
        with pytest.raises(CaseConflict):
            await create_sample_case(store, id=first.case.id, offer=sample_offer(prompt="Something else?"))
        assert await store.get_case_and_offer(first.case.id) == (first.case, first.offer)
        assert tuple(await store.list_events(first.case.id)) == first.events

    async def test_many_cases_opened_at_once_are_all_kept(self, store: Store) -> None:
        creations = [sample_creation() for _ in range(CROWD)]
        assert await gather_outcomes(store.create_case(creation) for creation in creations) == [None] * CROWD
        assert [await store.get_case(creation.case.id) for creation in creations] == [
            creation.case for creation in creations
        ]

    async def test_a_step_moves_the_case_and_appends_its_events(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        work, answer = Work(actor="person"), sample_approval()
        first = sample_update(case, work)
        await store.update_case(first)
        second = sample_update(first.step.case, answer)
        await store.update_case(second)
        assert await store.get_case(case.id) == second.step.case
        kept = await store.list_events(case.id)
        assert [event.seq for event in kept] == [1, 2, 3, 4]
        assert find_broken_link(kept) is None

    async def test_events_are_read_from_any_point(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        await store.update_case(sample_update(case, Work(actor="person")))
        assert [event.seq for event in await store.list_events(case.id, after=1)] == [2, 3]
        assert not await store.list_events(case.id, after=3)
        assert not await store.list_events(case.id, after=10**30)

    async def test_only_one_of_many_steps_from_one_version_succeeds(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        answers = [sample_update(case, sample_approval(f"person {n}")) for n in range(CROWD)]
        found = await gather_outcomes(store.update_case(answer) for answer in answers)
        assert found.count(None) == 1
        assert sum(isinstance(error, CaseConflict) for error in found) == CROWD - 1
        winner = answers[found.index(None)].step
        assert await store.get_case(case.id) == winner.case
        assert tuple(await store.list_events(case.id, after=1)) == winner.events

    async def test_a_step_from_an_old_version_leaves_no_trace(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        await store.update_case(sample_update(case, View(actor="person")))
        await store.save_draft(FormDraft(case_id=case.id, values={"a": 1}, step=1, saved_at=DAYBREAK))
        before = (
            await store.get_case(case.id),
            await store.list_events(case.id),
            await store.get_draft(case.id),
        )
        late = sample_update(
            case,
            sample_approval(),
            due_at=None,
            deliveries=(sample_delivery(case.id),),
            spent_evidence=("proof",),
            clear_draft=True,
        )
        with pytest.raises(CaseConflict):
            await store.update_case(late)
        assert (
            await store.get_case(case.id),
            await store.list_events(case.id),
            await store.get_draft(case.id),
        ) == before
        assert not await store.list_deliveries(DeliveryFilter(case_id=case.id))
        assert not await store.is_evidence_spent(["proof"])
        assert await store.get_next_due_at() == case.expires_at

    async def test_a_step_of_an_unknown_case_is_refused(self, store: Store) -> None:
        with pytest.raises(CaseConflict):
            await store.update_case(sample_update(sample_creation().case, sample_approval()))

    async def test_a_follow_up_is_linked_in_the_same_write(self, store: Store) -> None:
        earlier = await create_answered_case(store, due_at=None)
        follow_up = sample_creation(previous_case_id=earlier.id)
        link = sample_link_step(earlier, follow_up.case.id)
        await create_sample_case(store, id=follow_up.case.id, previous_case_id=earlier.id, link=link)
        assert await store.get_case(earlier.id) == link.case
        assert find_broken_link(await store.list_events(earlier.id)) is None
        assert await store.get_next_due_at() == follow_up.case.expires_at

    async def test_a_follow_up_to_a_changed_case_is_not_opened(self, store: Store) -> None:
        earlier = await create_answered_case(store)
        await store.update_case(CaseUpdate(step=sample_link_step(earlier, "review_other"), due_at=None))
        with pytest.raises(CaseConflict):
            await create_sample_case(
                store,
                id="review_next",
                link=sample_link_step(earlier, "review_next"),
                replay=sample_idempotency_record("k"),
            )
        assert await store.get_case("review_next") is None
        assert not await store.list_events("review_next")
        assert await store.get_idempotency_record("acme", "k") is None

    async def test_the_first_answer_to_a_key_is_found_again(self, store: Store) -> None:
        replay = sample_idempotency_record("key")
        await create_sample_case(store, replay=replay)
        assert await store.get_idempotency_record("acme", "key") == replay
        assert await store.get_idempotency_record("acme", "other key") is None
        assert await store.get_idempotency_record("someone else", "key") is None

    async def test_only_one_of_many_openings_with_one_key_succeeds(self, store: Store) -> None:
        creations = [sample_creation(replay=sample_idempotency_record("key")) for _ in range(CROWD)]
        found = await gather_outcomes(store.create_case(creation) for creation in creations)
        assert found.count(None) == 1
        assert sum(isinstance(error, CaseConflict) for error in found) == CROWD - 1
        winner = creations[found.index(None)].case
        assert [case.id for case in await store.list_cases("acme", limit=CROWD)] == [winner.id]

    async def test_two_owners_may_use_the_same_key(self, store: Store) -> None:
        await create_sample_case(store, replay=sample_idempotency_record("key"))
        await create_sample_case(
            store, owner="umbrella", replay=sample_idempotency_record("key", owner="umbrella")
        )

    async def test_an_expired_key_can_be_used_again(self, store: Store) -> None:
        await create_sample_case(store, replay=sample_idempotency_record("key", expires_at=DAYBREAK + DAY))
        renewed = sample_idempotency_record("key", expires_at=DAYBREAK + 2 * DAY)
        await create_sample_case(store, now=DAYBREAK + DAY, replay=renewed)
        assert await store.get_idempotency_record("acme", "key") == renewed

    async def test_purging_deletes_only_expired_keys(self, store: Store) -> None:
        for hours in (1, 2, 3):
            expires_at = DAYBREAK + timedelta(hours=hours)
            await create_sample_case(
                store, replay=sample_idempotency_record(f"key {hours}", expires_at=expires_at)
            )
        assert await store.purge(DAYBREAK + timedelta(hours=2)) == 2
        assert await store.purge(DAYBREAK + timedelta(hours=2)) == 0
        assert await store.get_idempotency_record("acme", "key 2") is None
        assert await store.get_idempotency_record("acme", "key 3") is not None

    async def test_evidence_is_spent_once(self, store: Store) -> None:
        first, second = (await create_sample_case(store)).case, (await create_sample_case(store)).case
        assert not await store.is_evidence_spent(["proof", "other"])
        await store.update_case(sample_update(first, sample_approval(), spent_evidence=("proof",)))
        assert await store.is_evidence_spent(["other", "proof"])
        assert not await store.is_evidence_spent(["other"])
        with pytest.raises(CaseConflict):
            await store.update_case(
                sample_update(second, sample_approval(), spent_evidence=("other", "proof"))
            )
        assert await store.get_case(second.id) == second
        assert not await store.is_evidence_spent(["other"])

    async def test_evidence_given_twice_in_one_answer_is_refused(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        with pytest.raises(CaseConflict):
            await store.update_case(sample_update(case, sample_approval(), spent_evidence=("proof", "proof")))
        assert await store.get_case(case.id) == case

    async def test_the_most_overdue_case_comes_first(self, store: Store) -> None:
        cases = [
            (await create_sample_case(store, expires_at=DAYBREAK + timedelta(hours=hours))).case
            for hours in (3, 1, 2, 9)
        ]
        now = DAYBREAK + timedelta(hours=3)
        assert list(await store.list_due_cases(now, limit=10)) == [cases[1], cases[2], cases[0]]
        assert list(await store.list_due_cases(now, limit=2)) == [cases[1], cases[2]]
        assert not await store.list_due_cases(DAYBREAK, limit=10)

    async def test_the_next_due_moment_follows_the_cases(self, store: Store) -> None:
        assert await store.get_next_due_at() is None
        soon = (await create_sample_case(store, expires_at=DAYBREAK + timedelta(hours=1))).case
        await create_sample_case(store, expires_at=DAYBREAK + timedelta(hours=2))
        assert await store.get_next_due_at() == DAYBREAK + timedelta(hours=1)
        await store.update_case(sample_update(soon, Expire(actor="system"), now=soon.expires_at, due_at=None))
        assert await store.get_next_due_at() == DAYBREAK + timedelta(hours=2)
        assert not await store.list_due_cases(DAYBREAK + timedelta(hours=1), limit=10)

    async def test_the_last_draft_is_kept(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        first = FormDraft(case_id=case.id, values={"näme": ["x", None]}, step=1, saved_at=DAYBREAK)
        for draft in (first, replace(first, step=2, values={})):
            await store.save_draft(draft)
            assert await store.get_draft(case.id) == draft

    async def test_an_answer_can_clear_the_draft(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        await store.save_draft(FormDraft(case_id=case.id, values={}, step=0, saved_at=DAYBREAK))
        await store.update_case(sample_update(case, sample_approval(), clear_draft=True))
        assert await store.get_draft(case.id) is None

    async def test_a_draft_of_a_closed_or_unknown_case_is_refused(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        await store.update_case(sample_update(case, Cancel(actor="acme")))
        for case_id in (case.id, "review_unknown"):
            with pytest.raises(CaseConflict):
                await store.save_draft(FormDraft(case_id=case_id, values={}, step=0, saved_at=DAYBREAK))
            assert await store.get_draft(case_id) is None

    async def test_an_owner_sees_their_own_cases_newest_first(self, store: Store) -> None:
        mine = [(await create_sample_case(store)).case.id for _ in range(3)]
        theirs = (await create_sample_case(store, owner="umbrella")).case.id
        nobodys = (await create_sample_case(store, owner=None)).case.id
        assert [case.id for case in await store.list_cases("acme")] == mine[::-1]
        assert [case.id for case in await store.list_cases("umbrella")] == [theirs]
        assert [case.id for case in await store.list_cases(None)] == [nobodys]
        assert not await store.list_cases("")

    async def test_pages_follow_each_other_without_gaps(self, store: Store) -> None:
        ids = [(await create_sample_case(store)).case.id for _ in range(7)]
        moved = [await store.get_case(case_id) for case_id in ids[::2]]
        for case in filter(None, moved):
            await store.update_case(sample_update(case, sample_approval()))
        seen: list[str] = []
        while page := await store.list_cases("acme", before=seen[-1] if seen else None, limit=3):
            seen.extend(case.id for case in page)
        assert seen == ids[::-1]
        assert not await store.list_cases("acme", before="review_unknown")

    async def test_cases_are_listed_by_status(self, store: Store) -> None:
        waiting, answered = (await create_sample_case(store)).case, (await create_sample_case(store)).case
        done = sample_update(answered, sample_approval())
        await store.update_case(done)
        assert list(await store.list_cases("acme", status=Status.PENDING)) == [waiting]
        assert list(await store.list_cases("acme", status=Status.COMPLETED)) == [done.step.case]
        assert not await store.list_cases("acme", status=Status.EXPIRED)
        assert not await store.list_cases("acme", status=Status.PENDING, before=waiting.id)

    async def test_opening_a_case_adds_its_endpoint_unless_one_exists(self, store: Store) -> None:
        first = sample_endpoint(secret="whsec_first")  # noqa: S106
        await create_sample_case(store, endpoint=first)
        await create_sample_case(store, endpoint=sample_endpoint(secret="whsec_second"))  # noqa: S106
        assert await store.get_endpoint("acme", first.url) == first
