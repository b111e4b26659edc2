"""The contract suite of erasure: the content is deleted, and the chain of events still verifies."""

import pytest
from msgspec.structs import replace

from placet.cases.case import Case
from placet.cases.commands import Erase
from placet.cases.events import find_broken_link
from placet.errors import CaseConflict
from placet.ports.case_store import CaseUpdate, FormDraft
from placet.ports.store import Store
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.case_store import create_answered_case, create_sample_case
from placet.testing.samples import sample_approval, sample_delivery, sample_update


def sample_erasure(case: Case) -> CaseUpdate:
    """Return the update that erases the case."""
    return sample_update(case, Erase(actor="system"), due_at=None)


@pytest.mark.anyio
class ErasureContract:
    """Tests of retention: erased content cannot be read, and the chain of events still verifies."""

    async def test_erasing_removes_the_offer_and_keeps_the_case(self, store: Store) -> None:
        case = await create_answered_case(store)
        step = sample_erasure(case)
        await store.erase_case(step)
        assert await store.get_case(case.id) == step.step.case
        assert await store.get_case_and_offer(case.id) is None
        assert await store.get_next_due_at() is None

    async def test_earlier_events_lose_their_content_and_the_chain_still_verifies(self, store: Store) -> None:
        case = await create_answered_case(store)
        await store.erase_case(sample_erasure(case))
        kept = await store.list_events(case.id)
        assert [(event.data, event.salt) for event in kept[:-1]] == [(None, None)] * 4
        assert kept[-1].data is not None
        assert find_broken_link(kept) is None

    async def test_erasing_removes_the_draft(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        await store.save_draft(FormDraft(case_id=case.id, values={"a": 1}, step=1, saved_at=DAYBREAK))
        answer = sample_update(case, sample_approval())
        await store.update_case(answer)
        await store.erase_case(sample_erasure(answer.step.case))
        assert await store.get_draft(case.id) is None

    async def test_settled_deliveries_are_blanked_and_waiting_ones_once_they_settle(
        self, store: Store
    ) -> None:
        case = (await create_sample_case(store)).case
        settled = sample_delivery(case.id, state="delivered", next_at=None, settled_at=DAYBREAK)
        waiting = sample_delivery(case.id)
        answer = sample_update(case, sample_approval(), deliveries=(settled, waiting))
        await store.update_case(answer)
        await store.erase_case(sample_erasure(answer.step.case))
        assert await store.get_delivery(settled.id) == replace(settled, target="", body=b"")
        assert await store.get_delivery(waiting.id) == waiting
        failed = replace(waiting, state="failed", next_at=None, attempts=1, settled_at=DAYBREAK)
        await store.save_delivery_attempt(failed)
        assert await store.get_delivery(waiting.id) == replace(failed, target="", body=b"")

    async def test_other_cases_keep_their_content(self, store: Store) -> None:
        erased, other = await create_answered_case(store), await create_answered_case(store)
        await store.erase_case(sample_erasure(erased))
        assert await store.get_case_and_offer(other.id) is not None
        assert all(event.data is not None for event in await store.list_events(other.id))

    async def test_erasing_from_an_old_version_removes_nothing(self, store: Store) -> None:
        case = await create_answered_case(store)
        await store.erase_case(sample_erasure(case))
        before = await store.list_events(case.id)
        with pytest.raises(CaseConflict):
            await store.erase_case(sample_erasure(case))
        assert await store.list_events(case.id) == before
