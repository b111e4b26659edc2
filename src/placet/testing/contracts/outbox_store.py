"""The contract suite of OutboxStore."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from placet.errors import CaseConflict
from placet.ports.outbox_store import RETAIN_NOTICES_FOR, Delivery, DeliveryFilter
from placet.ports.store import Store
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.case_store import create_sample_case
from placet.testing.samples import (
    sample_approval,
    sample_creation,
    sample_delivery,
    sample_endpoint,
    sample_update,
)

MINUTE = timedelta(minutes=1)


async def create_deliveries(store: Store, *moments: timedelta, owner: str = "acme") -> list[Delivery]:
    """Create deliveries of one case that are due at these times after `DAYBREAK`, and return them."""
    case = (await create_sample_case(store, owner=owner)).case
    owed = [sample_delivery(case.id, owner=owner, next_at=DAYBREAK + after) for after in moments]
    await store.update_case(sample_update(case, sample_approval(), deliveries=tuple(owed)))
    return owed


async def lease_delivery_ids(store: Store, after: timedelta, *, limit: int = 10) -> list[str]:
    """Lease due deliveries for a minute, at this time after `DAYBREAK`, and return their ids."""
    found = await store.lease_deliveries(DAYBREAK + after, lease_for=MINUTE, limit=limit)
    return [delivery.id for delivery in found]


@pytest.mark.anyio
class OutboxStoreContract:
    """Tests of deliveries, leases and endpoints."""

    async def test_a_delivery_is_read_back_as_it_was_written(self, store: Store) -> None:
        (owed,) = await create_deliveries(store, timedelta(0))
        assert await store.get_delivery(owed.id) == owed
        assert await store.get_delivery("msg_unknown") is None

    async def test_a_new_case_and_its_deliveries_are_written_together(self, store: Store) -> None:
        creation = sample_creation()
        owed = sample_delivery(creation.case.id, courier="notify")
        await store.create_case(replace(creation, deliveries=(owed,)))
        assert list(await store.list_deliveries(DeliveryFilter(case_id=creation.case.id))) == [owed]
        other = sample_delivery(creation.case.id)
        with pytest.raises(CaseConflict):
            await store.create_case(replace(creation, deliveries=(other,)))
        assert await store.get_delivery(other.id) is None

    async def test_a_delivery_without_a_case_is_sent_and_removed(self, store: Store) -> None:
        notice, other = sample_delivery("", courier="push"), sample_delivery("", courier="push")
        await store.add_deliveries([notice, other])
        assert await store.get_delivery(notice.id) == notice
        assert {one.id for one in await store.list_deliveries(DeliveryFilter(owner="acme"))} == {
            notice.id,
            other.id,
        }
        (first, _) = await store.lease_deliveries(DAYBREAK, lease_for=MINUTE, limit=10)
        assert first == replace(notice, next_at=DAYBREAK + MINUTE)
        settled = replace(notice, state="delivered", next_at=None, attempts=1, settled_at=DAYBREAK)
        await store.save_delivery_attempt(settled)
        assert await store.get_delivery(notice.id) == replace(settled, target="", body=b"")
        await store.purge(DAYBREAK + RETAIN_NOTICES_FOR - MINUTE)
        assert await store.get_delivery(notice.id) is not None
        await store.purge(DAYBREAK + RETAIN_NOTICES_FOR)
        assert await store.get_delivery(notice.id) is None
        assert await store.get_delivery(other.id) is not None

    async def test_a_due_delivery_is_leased_until_the_lease_ends(self, store: Store) -> None:
        (owed,) = await create_deliveries(store, MINUTE)
        assert await lease_delivery_ids(store, timedelta(0)) == []
        (found,) = await store.lease_deliveries(DAYBREAK + MINUTE, lease_for=MINUTE, limit=10)
        assert found == replace(owed, next_at=DAYBREAK + 2 * MINUTE)
        assert await lease_delivery_ids(store, MINUTE) == []
        assert await lease_delivery_ids(store, 2 * MINUTE) == [owed.id]

    async def test_a_lease_takes_the_most_overdue_up_to_its_limit(self, store: Store) -> None:
        owed = await create_deliveries(store, 3 * MINUTE, MINUTE, 2 * MINUTE)
        assert set(await lease_delivery_ids(store, 5 * MINUTE, limit=2)) == {owed[1].id, owed[2].id}
        assert await lease_delivery_ids(store, 5 * MINUTE, limit=2) == [owed[0].id]

    async def test_a_lease_skips_deliveries_to_busy_targets(self, store: Store) -> None:
        case = (await create_sample_case(store)).case
        busy, idle = "https://busy.example/in?a='", "https://idle.example/in"
        owed = [sample_delivery(case.id, target=target) for target in (busy, busy, idle)]
        await store.update_case(sample_update(case, sample_approval(), deliveries=tuple(owed)))
        found = await store.lease_deliveries(
            DAYBREAK, lease_for=MINUTE, limit=2, except_to={busy, "https://other.example/"}
        )
        assert [delivery.id for delivery in found] == [owed[2].id]
        assert set(await lease_delivery_ids(store, timedelta(0))) == {owed[0].id, owed[1].id}

    async def test_concurrent_senders_never_lease_the_same_delivery(self, store: Store) -> None:
        owed = await create_deliveries(store, *[timedelta(0)] * 20)
        async with asyncio.timeout(30):
            found = await asyncio.gather(
                *(lease_delivery_ids(store, timedelta(0), limit=3) for _ in range(10))
            )
        assert sorted(id for ids in found for id in ids) == sorted(delivery.id for delivery in owed)

    async def test_a_completed_delivery_is_not_sent_again(self, store: Store) -> None:
        (owed,) = await create_deliveries(store, timedelta(0))
        done = replace(
            owed, state="delivered", next_at=None, attempts=1, last_status=200, settled_at=DAYBREAK
        )
        await store.save_delivery_attempt(done)
        assert await store.get_delivery(owed.id) == done
        late = replace(owed, attempts=1, next_at=DAYBREAK, last_error="timed out")
        await store.save_delivery_attempt(late)
        assert await store.get_delivery(owed.id) == done
        assert await lease_delivery_ids(store, MINUTE) == []
        assert await store.get_next_delivery_at() is None

    async def test_a_failed_attempt_waits_for_its_retry_time(self, store: Store) -> None:
        (owed,) = await create_deliveries(store, timedelta(0))
        retry = replace(owed, attempts=1, next_at=DAYBREAK + 5 * MINUTE, last_status=500, last_error="boom ✗")
        await store.save_delivery_attempt(retry)
        assert await store.get_delivery(owed.id) == retry
        assert await lease_delivery_ids(store, 4 * MINUTE) == []
        assert await lease_delivery_ids(store, 5 * MINUTE) == [owed.id]

    async def test_a_settled_delivery_can_be_queued_again(self, store: Store) -> None:
        for state in ("failed", "delivered"):
            (owed,) = await create_deliveries(store, timedelta(0))
            settled = replace(
                owed, state=state, next_at=None, attempts=3, last_status=500, settled_at=DAYBREAK
            )
            await store.save_delivery_attempt(settled)
            assert await lease_delivery_ids(store, MINUTE) == []
            again = await store.requeue_delivery(owed.id, now=DAYBREAK + MINUTE)
            assert again == replace(owed, next_at=DAYBREAK + MINUTE, last_status=500)
            assert await lease_delivery_ids(store, MINUTE) == [owed.id]

    async def test_an_unknown_delivery_cannot_be_queued_again(self, store: Store) -> None:
        assert await store.requeue_delivery("msg_unknown", now=DAYBREAK) is None

    async def test_settling_keeps_the_sent_body(self, store: Store) -> None:
        (owed,) = await create_deliveries(store, timedelta(0))
        await store.save_delivery_attempt(
            replace(owed, body=b"other", target="https://other.example", attempts=1)
        )
        assert await store.get_delivery(owed.id) == replace(owed, attempts=1)

    async def test_the_next_delivery_is_the_earliest_that_waits(self, store: Store) -> None:
        assert await store.get_next_delivery_at() is None
        await create_deliveries(store, 2 * MINUTE, MINUTE)
        assert await store.get_next_delivery_at() == DAYBREAK + MINUTE

    async def test_the_log_is_newest_first_and_can_be_narrowed(self, store: Store) -> None:
        mine = await create_deliveries(store, timedelta(0), timedelta(0))
        (theirs,) = await create_deliveries(store, timedelta(0), owner="umbrella")
        failed = replace(mine[0], state="failed", next_at=None)
        await store.save_delivery_attempt(failed)
        assert list(await store.list_deliveries()) == [theirs, mine[1], failed]
        assert list(await store.list_deliveries(limit=1)) == [theirs]
        assert list(await store.list_deliveries(DeliveryFilter(owner="acme"))) == [mine[1], failed]
        assert list(await store.list_deliveries(DeliveryFilter(case_id=theirs.case_id))) == [theirs]
        assert list(await store.list_deliveries(DeliveryFilter(state="failed"))) == [failed]
        assert list(await store.list_deliveries(DeliveryFilter(owner="acme", state="waiting"))) == [mine[1]]
        assert not await store.list_deliveries(DeliveryFilter(owner="umbrella", case_id=failed.case_id))
        assert not await store.list_deliveries(DeliveryFilter(state="no such state"))

    async def test_endpoints_are_kept_and_changed(self, store: Store) -> None:
        url = "https://acme.example/callback"
        assert await store.get_endpoint("acme", url) is None
        first = sample_endpoint(url)
        rotated = replace(first, secret="whsec_next", previous_secret=first.secret, previous_until=DAYBREAK)  # noqa: S106
        for endpoint, before in ((first, None), (rotated, first)):
            await store.save_endpoint(endpoint, after=before)
            assert await store.get_endpoint("acme", url) == endpoint
        assert await store.get_endpoint("umbrella", url) is None

    async def test_an_endpoint_changes_only_from_its_stored_version(self, store: Store) -> None:
        first = sample_endpoint()
        await store.save_endpoint(first)
        rotated = replace(first, secret="whsec_next")  # noqa: S106
        disabled = replace(first, disabled_at=DAYBREAK)
        for stale in (None, rotated, disabled, sample_endpoint(owner="umbrella", secret="whsec_other")):  # noqa: S106
            with pytest.raises(CaseConflict):
                await store.save_endpoint(rotated, after=stale)
        assert await store.get_endpoint("acme", first.url) == first
        await store.save_endpoint(disabled, after=first)
        assert await store.get_endpoint("acme", first.url) == disabled

    async def test_an_owner_sees_their_own_endpoints(self, store: Store) -> None:
        urls = ["https://b.example/", "https://a.example/"]
        mine = [sample_endpoint(url, created_at=DAYBREAK + n * MINUTE) for n, url in enumerate(urls)]
        for endpoint in (*mine, sample_endpoint(owner="umbrella")):
            await store.save_endpoint(endpoint)
        assert list(await store.list_endpoints("acme")) == mine
        assert not await store.list_endpoints("nobody")

    async def test_a_gone_endpoint_is_disabled_with_the_delivery_outcome(self, store: Store) -> None:
        (owed,) = await create_deliveries(store, timedelta(0))
        endpoint = sample_endpoint(owed.target)
        await store.save_endpoint(endpoint)
        gone = replace(owed, state="failed", next_at=None, last_status=410, settled_at=DAYBREAK + MINUTE)
        await store.save_delivery_attempt(gone, disable_endpoint=True)
        assert await store.get_endpoint("acme", owed.target) == replace(
            endpoint, disabled_at=DAYBREAK + MINUTE
        )
