"""The contract suite of the relay's audit events: order, filters, redaction and deletion."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.errors import RelayConflict
from placet.ports.audit_store import AuditFilter, AuditRow, Trace
from placet.ports.store import Store
from placet.testing.clock import DAYBREAK
from placet.testing.relay_samples import create_held_case, sample_audit, sample_hold, sample_task

SECOND = timedelta(seconds=1)


async def list_events(store: Store, **filters: Any) -> list[AuditRow]:
    """Return the events that match the filter, oldest first."""
    events, total = await store.list_audit_events(
        "acme", AuditFilter(**filters), page=0, size=100, order="oldest"
    )
    assert total == len(events)
    return [*events]


@pytest.mark.anyio
class AuditContract:
    """Tests of audit events."""

    async def test_events_are_read_back_as_written(self, store: Store) -> None:
        bare = sample_audit(
            action=None, transport=None, source_agent=None, source_user="ann", sink_agent=None, task_id=None
        )
        event = sample_audit(task_id="task")
        await store.add_audit_events([bare, event])
        await store.add_audit_events([])
        assert await list_events(store) == [bare, event]
        assert await store.get_audit_event("acme", bare.id) == bare
        assert await store.get_audit_event("other", bare.id) is None
        assert await store.get_audit_event("acme", "unknown") is None

    async def test_events_are_added_all_or_none(self, store: Store) -> None:
        event, fresh = sample_audit(), sample_audit()
        await store.add_audit_events([event])
        for batch in ([fresh, event], [fresh, fresh]):
            with pytest.raises(RelayConflict):
                await store.add_audit_events(batch)
        assert await list_events(store) == [event]

    async def test_events_are_paged_with_their_total(self, store: Store) -> None:
        events = [sample_audit(at=DAYBREAK + SECOND * (number // 2)) for number in range(7)]
        await store.add_audit_events([*events[4:], sample_audit(tenant="other"), *events[:4]])
        pages = [
            await store.list_audit_events("acme", AuditFilter(), page=number, size=3) for number in range(4)
        ]
        assert [total for _, total in pages] == [7] * 4
        assert [event.at for page, _ in pages for event in page] == [event.at for event in events[::-1]]
        assert [len(page) for page, _ in pages] == [3, 3, 1, 0]

    @pytest.mark.parametrize(
        "field",
        ["action", "transport", "source_agent", "source_user", "sink_agent", "correlation_id", "task_id"],
    )
    async def test_events_are_found_by_each_filter(self, store: Store, field: str) -> None:
        one, other = sample_audit(**{field: "one"}), sample_audit(**{field: "other"})
        elsewhere = sample_audit(tenant="other", **{field: "one"})
        await store.add_audit_events([one, other, elsewhere])
        assert await list_events(store, **{field: "one"}) == [one]
        assert await list_events(store, **{field: "one"}, since=DAYBREAK + SECOND) == []
        assert await list_events(store, **{field: "unknown"}) == []

    async def test_events_are_found_by_type_and_time(self, store: Store) -> None:
        kinds = ["HITL", "RATE_LIMIT", "HITL_RESOLUTION", "HITL"]
        events = [sample_audit(type=kind, at=DAYBREAK + SECOND * at) for at, kind in enumerate(kinds)]
        await store.add_audit_events(events)
        assert await list_events(store, types=("HITL", "HITL_RESOLUTION")) == [events[0], *events[2:]]
        assert await list_events(store, since=DAYBREAK + SECOND, until=DAYBREAK + SECOND * 3) == events[1:3]
        assert await list_events(store, types=("HITL",), since=DAYBREAK + SECOND) == events[3:]

    async def test_many_events_are_read_in_batches_in_the_order_written(self, store: Store) -> None:
        events = [sample_audit(at=DAYBREAK - SECOND * (number % 3)) for number in range(20)]
        await store.add_audit_events([*events[:10], sample_audit(tenant="other"), *events[10:]])
        read: list[AuditRow] = []
        after, filter = 0, AuditFilter(since=DAYBREAK - SECOND)
        while batch := await store.list_audit_events_after("acme", filter, after=after, limit=4):
            assert len(batch) <= 4
            read += [event for _, event in batch]
            after = batch[-1][0]
        assert read == [event for event in events if event.at >= DAYBREAK - SECOND]
        assert list(await store.list_audit_events_after("acme", AuditFilter(task_id="unknown"))) == []
        assert list(await store.list_audit_events_after("unknown", filter)) == []

    async def test_events_of_one_message_are_found_in_the_order_they_were_written(self, store: Store) -> None:
        events = [sample_audit(correlation_id="one", at=DAYBREAK - SECOND * number) for number in range(3)]
        await store.add_audit_events([events[0], sample_audit(), *events[1:]])
        found = await store.list_audit_events_after("acme", AuditFilter(correlation_id="one"))
        assert [event for _, event in found] == events

    async def test_a_trace_covers_all_events_of_a_message(self, store: Store) -> None:
        for name, seconds in (("old", (0, 1)), ("new", (2, 9)), ("last", (3, 11))):
            events = [sample_audit(correlation_id=name, at=DAYBREAK + SECOND * at) for at in seconds]
            await store.add_audit_events([replace(events[0], type="HITL"), events[1]])
        await store.add_audit_events([sample_audit(tenant="other", correlation_id="old")])
        old, new, last = (
            Trace(
                correlation_id=name,
                began_at=DAYBREAK + SECOND * begin,
                ended_at=DAYBREAK + SECOND * end,
                events=2,
            )
            for name, begin, end in (("old", 0, 1), ("new", 2, 9), ("last", 3, 11))
        )
        assert await store.list_traces("acme", AuditFilter(), page=0, size=2) == ([last, new], 3)
        assert await store.list_traces("acme", AuditFilter(), page=1, size=2) == ([old], 3)
        early = AuditFilter(types=("HITL",), until=DAYBREAK + SECOND * 3)
        assert await store.list_traces("acme", early, page=0, size=9) == ([new, old], 2)
        assert await store.list_traces("acme", AuditFilter(correlation_id="old"), page=0, size=9) == (
            [old],
            1,
        )
        assert await store.list_traces("unknown", AuditFilter(), page=0, size=9) == ([], 0)

    async def test_bodies_are_redacted_once_and_nothing_else_changes(self, store: Store) -> None:
        events = [sample_audit(at=DAYBREAK + SECOND * number) for number in (2, 0, 1, 3)]
        await store.add_audit_events([*events, sample_audit(tenant="other")])
        before = DAYBREAK + SECOND * 3
        old = await store.list_events_to_redact("acme", before=before, limit=2)
        assert list(old) == [events[1], events[2]]
        await store.redact_audit_events([replace(event, body=b"", type="FORGED") for event in old])
        assert await store.get_audit_event("acme", old[0].id) == replace(old[0], body=b"")
        assert list(await store.list_events_to_redact("acme", before=before, limit=2)) == [events[0]]
        await store.redact_audit_events([replace(events[3], tenant="other", body=b""), sample_audit()])
        assert await store.get_audit_event("acme", events[3].id) == events[3]

    async def test_old_events_are_deleted_in_batches(self, store: Store) -> None:
        old = [sample_audit(at=DAYBREAK + SECOND * number) for number in range(5)]
        kept = sample_audit(at=DAYBREAK + SECOND * 5)
        other = sample_audit(tenant="other")
        await store.add_audit_events([*old, kept, other])
        before = DAYBREAK + SECOND * 5
        assert [await store.delete_older("acme", before=before, limit=2) for _ in range(4)] == [2, 2, 1, 0]
        assert await list_events(store) == [kept]
        assert await store.get_audit_event("other", other.id) == other
        assert list(await store.list_events_to_redact("acme", before=before + SECOND, limit=9)) == [kept]

    async def test_settled_holds_are_deleted_and_waiting_holds_stay_with_their_task(
        self, store: Store
    ) -> None:
        later = DAYBREAK + SECOND
        task, held = sample_task(), sample_task()
        waiting = sample_hold(task_id=held.id)
        settled = [sample_hold(status=status, resolved_at=DAYBREAK) for status in ("APPROVED", "EXPIRED")]
        just = sample_hold(status="REJECTED", resolved_at=later)
        for hold in (waiting, *settled, just, sample_hold(status="APPROVED", tenant="other")):
            await create_held_case(store, hold)
        conversation = sample_task(kind="context")
        young, foreign = sample_task(saved_at=later), sample_task(tenant="other")
        await store.save_tasks([task, held, conversation, young, foreign])
        assert await store.delete_older("acme", before=later) == 3
        assert [hold for hold in settled if await store.get_hold(hold.id)] == []
        assert (await store.get_hold(waiting.id), await store.get_hold(just.id)) == (waiting, just)
        assert await store.get_task("acme", "clerk", "task", task.id) is None
        for kept in (held, conversation, young, foreign):
            assert await store.get_task(kept.tenant, kept.agent, kept.kind, kept.id) == kept

    async def test_tenants_with_events_are_listed(self, store: Store) -> None:
        assert list(await store.list_audited_tenants()) == []
        await store.add_audit_events([sample_audit(tenant=name) for name in ("b", "a", "b", "c")])
        assert sorted(await store.list_audited_tenants()) == ["a", "b", "c"]
