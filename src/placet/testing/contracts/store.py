"""The contract suite of Store. Subclass StoreContract, provide a fixture `store`, and run it with pytest."""

import asyncio

import pytest

from placet.errors import CaseConflict, Unavailable
from placet.ports.store import Store
from placet.testing.contracts.case_store import (
    CaseStoreContract,
    create_answered_case,
    create_sample_case,
)
from placet.testing.contracts.erasure import ErasureContract, sample_erasure
from placet.testing.contracts.grant_store import GrantStoreContract
from placet.testing.contracts.inbox_store import InboxStoreContract
from placet.testing.contracts.key_store import KeyStoreContract
from placet.testing.contracts.outbox_store import OutboxStoreContract
from placet.testing.contracts.push_store import PushStoreContract
from placet.testing.contracts.relay_store import RelayStoreContract
from placet.testing.contracts.verification_store import PasskeyStoreContract, VerificationStoreContract
from placet.testing.samples import sample_approval, sample_creation, sample_link_step, sample_update


@pytest.mark.anyio
class StoreContract(
    CaseStoreContract,
    InboxStoreContract,
    ErasureContract,
    OutboxStoreContract,
    KeyStoreContract,
    PushStoreContract,
    GrantStoreContract,
    RelayStoreContract,
    PasskeyStoreContract,
    VerificationStoreContract,
):
    """All tests of a store. The fixture `store` opens an empty store and closes it."""

    async def test_listeners_are_called_once_a_change_can_be_read(self, store: Store) -> None:
        heard: list[str | None] = []
        store.add_change_listener(heard.append)
        case = await create_answered_case(store)
        assert heard == [case.id] * 3
        link = sample_link_step(case, "review_next")
        await create_sample_case(store, id="review_next", link=link)
        assert heard[3:] == ["review_next", case.id]

    async def test_listeners_are_called_on_erasure(self, store: Store) -> None:
        case = await create_answered_case(store)
        heard: list[str | None] = []
        store.add_change_listener(heard.append)
        await store.erase_case(sample_erasure(case))
        assert heard == [case.id]

    async def test_listeners_are_not_called_for_a_refused_write(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        heard: list[str | None] = []
        store.add_change_listener(heard.append)
        with pytest.raises(CaseConflict):
            await create_sample_case(store, id=case.id)
        assert heard == []

    async def test_every_listener_is_called(self, store: Store) -> None:
        first: list[str | None] = []
        second: list[str | None] = []
        store.add_change_listener(first.append)
        store.add_change_listener(second.append)
        case = (await create_sample_case(store)).case
        assert first == second == [case.id]

    async def test_a_failing_listener_is_logged_and_does_not_stop_the_others(self, store: Store) -> None:
        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        heard: list[str | None] = []
        store.add_change_listener(_stumble)
        store.add_change_listener(heard.append)
        case = (await create_sample_case(store)).case
        loop.set_exception_handler(None)
        assert heard == [case.id]
        assert [type(error) for error in reported] == [ZeroDivisionError]

    async def test_an_open_store_is_ready(self, store: Store) -> None:
        await store.check_ready()

    async def test_closing_finishes_accepted_writes_and_refuses_new_ones(self, store: Store) -> None:
        accepted = [asyncio.ensure_future(store.create_case(sample_creation())) for _ in range(16)]
        await asyncio.sleep(0)
        await store.aclose()
        assert await asyncio.gather(*accepted) == [None] * 16
        with pytest.raises(Unavailable):
            await store.create_case(sample_creation())
        with pytest.raises(Unavailable):
            await store.update_case(sample_update(sample_creation().case, sample_approval()))
        with pytest.raises(Unavailable):
            await store.check_ready()

    async def test_closing_twice_is_allowed(self, store: Store) -> None:
        await store.aclose()
        await store.aclose()


def _stumble(case_id: str | None) -> None:
    raise ZeroDivisionError(case_id)
