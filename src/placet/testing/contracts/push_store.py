"""The contract suite of PushStore."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from placet.ports.push_store import PushStore, PushSubscription
from placet.testing.clock import DAYBREAK

SUBSCRIPTION = PushSubscription(
    owner="ada",
    endpoint="https://push.example/1",
    p256dh="key",
    auth="secret",
    created_at=DAYBREAK,
)


@pytest.mark.anyio
class PushStoreContract:
    """The tests of the subscriptions of a store."""

    async def test_a_person_has_the_newest_subscriptions(self, store: PushStore) -> None:
        for number in range(4):
            later = DAYBREAK + timedelta(seconds=number)
            one = replace(SUBSCRIPTION, endpoint=f"https://push.example/{number}", created_at=later)
            await store.save_push_subscription(one, most=2)
        await store.save_push_subscription(replace(SUBSCRIPTION, owner="bob"), most=2)
        found = await store.list_push_subscriptions("ada")
        assert [one.endpoint[-1] for one in found] == ["2", "3"]
        assert list(await store.list_push_subscriptions("bob")) == [replace(SUBSCRIPTION, owner="bob")]

    async def test_a_browser_belongs_to_whoever_signed_in_last(self, store: PushStore) -> None:
        await store.save_push_subscription(SUBSCRIPTION, most=2)
        await store.save_push_subscription(replace(SUBSCRIPTION, owner="bob", auth="new"), most=2)
        assert not await store.list_push_subscriptions("ada")
        (found,) = await store.list_push_subscriptions("bob")
        assert found.auth == "new"
        for _ in range(2):
            await store.delete_push_subscription(found.endpoint)
        assert not await store.list_push_subscriptions("bob")
