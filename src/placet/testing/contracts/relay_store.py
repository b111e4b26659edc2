"""The contract suite of the relay's stores. `relay_audit.py` has the tests of audit events."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from placet.errors import CaseConflict, RelayConflict, Unavailable, ValidationFailed
from placet.ports.audit_store import AuditFilter
from placet.ports.hold_store import HoldCreation, HoldFilter, HoldRow
from placet.ports.row_validation import MAX_ROW_BYTES, MAX_TEXT_LENGTH
from placet.ports.store import Store
from placet.testing.clock import DAYBREAK
from placet.testing.contracts.relay_audit import AuditContract
from placet.testing.relay_samples import (
    create_held_case,
    sample_audit,
    sample_hold,
    sample_record,
    sample_task,
)
from placet.testing.samples import sample_creation, sample_delivery

SECOND = timedelta(seconds=1)
ODD = "'; DROP TABLE holds; --\x00 ü ⚙ %_\\ \N{RIGHT-TO-LEFT OVERRIDE}"
UNSTORABLE: dict[str, dict[str, Any]] = {
    "a lone surrogate": {"id": "a\ud800b"},
    "a name too long": {"id": "n" * (MAX_TEXT_LENGTH + 1)},
    "a body too large": {"body": bytes(MAX_ROW_BYTES + 1)},
    "a moment without a zone": {"saved_at": DAYBREAK.replace(tzinfo=None)},
}


async def list_hold_ids(store: Store, **filters: Any) -> list[str]:
    """Return the ids of the holds that match the filter, oldest first."""
    holds, total = await store.list_holds("acme", HoldFilter(**filters), page=0, size=100, order="oldest")
    assert total == len(holds)
    return [hold.id for hold in holds]


@pytest.mark.anyio
class RecordContract:
    """Tests of the configuration records."""

    async def test_a_record_is_kept_as_it_was_saved(self, store: Store) -> None:
        record = sample_record(id=ODD, body=bytes(range(256)))
        await store.save_record(record)
        assert await store.get_record("acme", "policy", ODD) == record
        changed = replace(record, rev=2, body=b"", saved_at=DAYBREAK + SECOND)
        await store.save_record(changed)
        assert await store.get_record("acme", "policy", ODD) == changed
        assert await store.get_record("acme", "policy", "unknown") is None

    @pytest.mark.parametrize("rev", [0, 1, 3, 2**62])
    async def test_only_the_next_revision_is_accepted(self, store: Store, rev: int) -> None:
        record = sample_record()
        await store.save_record(record)
        with pytest.raises(RelayConflict):
            await store.save_record(replace(record, rev=rev, body=b"other"))
        assert await store.get_record("acme", "policy", record.id) == record

    async def test_the_first_revision_is_one(self, store: Store) -> None:
        with pytest.raises(RelayConflict):
            await store.save_record(sample_record(id="late", rev=2))
        assert await store.get_record("acme", "policy", "late") is None

    async def test_only_the_stored_revision_is_deleted(self, store: Store) -> None:
        record = sample_record()
        await store.save_record(record)
        for rev in (0, 2):
            with pytest.raises(RelayConflict):
                await store.delete_record("acme", "policy", record.id, rev=rev)
        await store.delete_record("acme", "policy", record.id, rev=1)
        assert await store.get_record("acme", "policy", record.id) is None
        with pytest.raises(RelayConflict):
            await store.delete_record("acme", "policy", record.id, rev=1)
        await store.save_record(record)

    async def test_records_are_listed_in_the_order_they_were_first_saved(self, store: Store) -> None:
        records = [sample_record(id=name) for name in ("b", "a", "c")]
        other = sample_record(tenant="other", id="a")
        for record in (*records, other, sample_record(kind="agent", id="a")):
            await store.save_record(record)
        changed = replace(records[0], rev=2)
        await store.save_record(changed)
        assert list(await store.list_records("policy", "acme")) == [changed, *records[1:]]
        assert list(await store.list_records("policy")) == [changed, *records[1:], other]
        assert list(await store.list_records("binding")) == []
        assert list(await store.list_records("policy", "unknown")) == []

    async def test_records_and_their_events_are_written_all_or_none(self, store: Store) -> None:
        old, kept = sample_record(), sample_record()
        await store.change_records(save=[old, kept])
        new, event = replace(old, body=b"again"), sample_audit()
        with pytest.raises(RelayConflict):
            await store.change_records(save=[new, replace(kept, rev=3)], delete=[old], events=[event])
        assert await store.get_record("acme", "policy", old.id) == old
        assert await store.get_audit_event("acme", event.id) is None
        await store.change_records(save=[new, replace(kept, rev=2)], delete=[old], events=[event])
        assert list(await store.list_records("policy")) == [replace(kept, rev=2), new]
        assert await store.get_audit_event("acme", event.id) == event

    async def test_records_do_not_change_when_their_event_is_known_already(self, store: Store) -> None:
        event, record = sample_audit(), sample_record()
        await store.add_audit_events([event])
        with pytest.raises(RelayConflict):
            await store.change_records(save=[record], events=[event])
        assert await store.get_record("acme", "policy", record.id) is None

    async def test_only_one_of_many_changes_to_one_revision_succeeds(self, store: Store) -> None:
        record = sample_record()
        await store.save_record(record)
        changes = [replace(record, rev=2, body=b"%d" % number) for number in range(16)]
        async with asyncio.timeout(30):
            ended = await asyncio.gather(*map(store.save_record, changes), return_exceptions=True)
        assert sorted(type(one).__name__ for one in ended) == ["NoneType", *["RelayConflict"] * 15]
        assert await store.get_record("acme", "policy", record.id) == changes[ended.index(None)]

    async def test_listeners_are_called_once_records_can_be_read(self, store: Store) -> None:
        heard: list[str | None] = []
        store.add_record_listener(heard.append)
        first, second = sample_record(), sample_record(tenant="other")
        await store.change_records(save=[first, second, sample_record()])
        assert heard == ["acme", "other"]
        await store.delete_record("acme", "policy", first.id, rev=1)
        assert heard == ["acme", "other", "acme"]
        with pytest.raises(RelayConflict):
            await store.save_record(second)
        await store.save_tasks([sample_task()])
        assert heard == ["acme", "other", "acme"]


@pytest.mark.anyio
class TaskContract:
    """Tests of task rows."""

    async def test_the_last_task_of_a_name_is_kept(self, store: Store) -> None:
        task, other = sample_task(id=ODD), sample_task()
        await store.save_tasks([task, other])
        assert await store.get_task("acme", "clerk", "task", ODD) == task
        changed = replace(task, body=b"{}", saved_at=DAYBREAK + SECOND)
        await store.save_tasks([changed, replace(other, body=b"1"), other])
        assert await store.get_task("acme", "clerk", "task", ODD) == changed
        assert await store.get_task("acme", "clerk", "task", other.id) == other
        await store.save_tasks([])

    async def test_names_are_separate_by_tenant_agent_and_kind(self, store: Store) -> None:
        await store.save_tasks([sample_task(id="one")])
        assert await store.get_task("other", "clerk", "task", "one") is None
        assert await store.get_task("acme", "other", "task", "one") is None
        assert await store.get_task("acme", "clerk", "context", "one") is None
        assert await store.get_task("acme", "clerk", "task", "ONE") is None

    async def test_a_task_is_written_with_its_audit_event(self, store: Store) -> None:
        task, event = sample_task(), sample_audit()
        await store.save_tasks([task], events=[event])
        assert await store.get_task("acme", "clerk", "task", task.id) == task
        assert await store.get_audit_event("acme", event.id) == event

    async def test_a_fault_between_a_task_and_its_audit_event_leaves_neither(self, store: Store) -> None:
        task, event = sample_task(), sample_audit()
        await store.add_audit_events([event])
        with pytest.raises(RelayConflict):
            await store.save_tasks([task], events=[event])
        assert await store.get_task("acme", "clerk", "task", task.id) is None


@pytest.mark.anyio
class HoldContract:
    """Tests of holds."""

    async def test_a_hold_is_stored_with_its_task_and_event(self, store: Store) -> None:
        hold, task, event = sample_hold(), sample_task(), sample_audit()
        await create_held_case(store, hold, tasks=[task], events=[event])
        assert await store.get_hold(hold.id) == hold
        assert await store.get_hold_of_case(hold.case_id) == hold
        assert await store.get_task("acme", "clerk", "task", task.id) == task
        assert await store.get_audit_event("acme", event.id) == event
        assert (await store.get_hold("unknown"), await store.get_hold_of_case("unknown")) == (None, None)

    async def test_a_hold_id_and_a_case_are_used_once(self, store: Store) -> None:
        hold, task, event = sample_hold(), sample_task(), sample_audit()
        await create_held_case(store, hold)
        for rival in (sample_hold(id=hold.id), sample_hold(case_id=hold.case_id)):
            with pytest.raises(CaseConflict):
                await create_held_case(store, rival, tasks=[task], events=[event])
        assert await list_hold_ids(store) == [hold.id]
        assert await store.get_task("acme", "clerk", "task", task.id) is None
        assert await store.get_audit_event("acme", event.id) is None

    async def test_a_case_is_written_with_its_hold(self, store: Store) -> None:
        hold, task, event = sample_hold(case_id="review_held"), sample_task(), sample_audit()
        together = HoldCreation(hold=hold, tasks=(task,), events=(event,))
        await store.create_case(replace(sample_creation(id="review_held"), hold=together))
        assert await store.get_case("review_held") is not None
        assert await store.get_hold_of_case("review_held") == hold
        assert await store.get_task("acme", "clerk", "task", task.id) == task
        assert await store.get_audit_event("acme", event.id) == event

    async def test_a_case_whose_hold_id_exists_is_not_written(self, store: Store) -> None:
        hold, task = sample_hold(), sample_task()
        await create_held_case(store, hold)
        rival = HoldCreation(hold=sample_hold(id=hold.id, case_id="review_held"), tasks=(task,))
        with pytest.raises(CaseConflict):
            await store.create_case(replace(sample_creation(id="review_held"), hold=rival))
        assert await store.get_case("review_held") is None
        assert await store.get_task("acme", "clerk", "task", task.id) is None

    async def test_a_fault_after_the_case_and_its_hold_leaves_neither(self, store: Store) -> None:
        hold, task, event = sample_hold(case_id="review_held"), sample_task(), sample_audit()
        await store.add_audit_events([event])
        failing = HoldCreation(hold=hold, tasks=(task,), events=(event,))
        with pytest.raises(CaseConflict):
            await store.create_case(replace(sample_creation(id="review_held"), hold=failing))
        assert await store.get_case("review_held") is None
        assert await store.get_hold(hold.id) is None
        assert await store.get_task("acme", "clerk", "task", task.id) is None

    async def test_a_changed_hold_is_written_with_its_task_and_event(self, store: Store) -> None:
        hold, task, event = sample_hold(policy_name=None), sample_task(), sample_audit()
        await create_held_case(store, hold, tasks=[task])
        changed = replace(
            hold, rev=2, status="APPROVED", resolved_at=DAYBREAK + SECOND, body=b"{}", envelope=b""
        )
        moved = replace(task, body=b"moved")
        await store.update_hold(changed, tasks=[moved], events=[event])
        assert await store.get_hold(hold.id) == changed
        assert await store.get_task("acme", "clerk", "task", task.id) == moved
        assert await store.get_audit_event("acme", event.id) == event

    async def test_only_the_next_revision_of_a_hold_is_accepted(self, store: Store) -> None:
        hold, task, event = sample_hold(), sample_task(), sample_audit()
        await create_held_case(store, hold)
        wrong = [
            replace(hold, rev=1, status="APPROVED"),
            replace(hold, rev=3, status="APPROVED"),
            replace(hold, rev=2, tenant="other"),
            replace(hold, rev=2, case_id="another"),
            sample_hold(rev=2),
        ]
        for change in wrong:
            with pytest.raises(RelayConflict):
                await store.update_hold(change, tasks=[task], events=[event])
        assert await store.get_hold(hold.id) == hold
        assert await store.get_task("acme", "clerk", "task", task.id) is None
        assert await store.get_audit_event("acme", event.id) is None

    async def test_only_one_of_many_resolutions_of_a_hold_succeeds(self, store: Store) -> None:
        hold = sample_hold()
        await create_held_case(store, hold)
        changes = [replace(hold, rev=2, status="APPROVED", body=b"%d" % number) for number in range(16)]
        events = [sample_audit() for _ in changes]
        writes = (
            store.update_hold(change, events=[event]) for change, event in zip(changes, events, strict=True)
        )
        async with asyncio.timeout(30):
            ended = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(type(one).__name__ for one in ended) == ["NoneType", *["RelayConflict"] * 15]
        winner = ended.index(None)
        assert await store.get_hold(hold.id) == changes[winner]
        events_found, _ = await store.list_audit_events("acme", AuditFilter(), page=0, size=16)
        assert [event.id for event in events_found] == [events[winner].id]

    async def test_releases_of_an_agent_are_made_due(self, store: Store) -> None:
        hold, other = sample_hold(), sample_hold(sink="painter")
        hour, minute = 3600 * SECOND, DAYBREAK + 60 * SECOND
        for one in (hold, other):
            await create_held_case(store, one)
        late = sample_delivery("", courier="relay", target=f"relay:{hold.id}", next_at=DAYBREAK + hour)
        soon = replace(late, id="msg_soon", next_at=DAYBREAK + SECOND)
        foreign = replace(late, id="msg_foreign", target=f"relay:{other.id}")
        webhook = replace(late, id="msg_webhook", courier="webhook")
        await store.add_deliveries([late, soon, foreign, webhook])
        assert await store.make_releases_due("acme", hold.sink, now=DAYBREAK, after=minute) == 1
        assert await store.make_releases_due("other", hold.sink, now=DAYBREAK, after=minute) == 0
        due = {one.id: one.next_at for one in await store.list_deliveries()}
        assert due == {
            late.id: DAYBREAK,
            soon.id: DAYBREAK + SECOND,
            foreign.id: DAYBREAK + hour,
            webhook.id: DAYBREAK + hour,
        }

    async def test_holds_are_paged_with_their_total(self, store: Store) -> None:
        holds = [sample_hold(created_at=DAYBREAK + SECOND * (number // 2)) for number in range(7)]
        for hold in (*holds, sample_hold(tenant="other")):
            await create_held_case(store, hold)
        pages = [await store.list_holds("acme", HoldFilter(), page=number, size=3) for number in range(4)]
        assert [total for _, total in pages] == [7] * 4
        assert [hold for page, _ in pages for hold in page] == holds[::-1]
        assert [len(page) for page, _ in pages] == [3, 3, 1, 0]
        oldest, _ = await store.list_holds("acme", HoldFilter(), page=1, size=3, order="oldest")
        assert list(oldest) == holds[3:6]
        assert await store.list_holds("acme", HoldFilter(), page=2**70, size=3) == ([], 7)
        assert await store.list_holds("unknown", HoldFilter(), page=0, size=3) == ([], 0)

    @pytest.mark.parametrize(("page", "size"), [(-1, 10), (0, 0), (0, -1)])
    async def test_an_invalid_page_is_refused(self, store: Store, page: int, size: int) -> None:
        with pytest.raises(ValidationFailed):
            await store.list_holds("acme", HoldFilter(), page=page, size=size)
        with pytest.raises(ValidationFailed):
            await store.list_audit_events("acme", AuditFilter(), page=page, size=size)
        with pytest.raises(ValidationFailed):
            await store.list_traces("acme", AuditFilter(), page=page, size=size)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("status", "REJECTED"),
            ("source", "other"),
            ("sink", "other"),
            ("task_id", ODD),
            ("policy_name", "other"),
            ("detection_source", "AGENT_INPUT_REQUIRED"),
            ("correlation_id", "other"),
        ],
    )
    async def test_holds_are_found_by_each_filter(self, store: Store, field: str, value: str) -> None:
        one, other = sample_hold(), sample_hold(**{field: value})
        elsewhere = sample_hold(tenant="other", **{field: value})
        for hold in (one, other, elsewhere):
            await create_held_case(store, hold)
        assert await list_hold_ids(store, **{field: value}) == [other.id]
        assert await list_hold_ids(store, **{field: getattr(one, field)}) == [one.id]
        assert await list_hold_ids(store, **{field: value}, since=DAYBREAK + SECOND) == []

    async def test_holds_are_found_by_all_filters_together(self, store: Store) -> None:
        holds: dict[str, HoldRow] = {}
        for status in ("PENDING", "APPROVED"):
            for sink in ("clerk", "cook"):
                holds[status + sink] = sample_hold(status=status, sink=sink, correlation_id="trace")
                await create_held_case(store, holds[status + sink])
        assert await list_hold_ids(store, status="PENDING", sink="cook") == [holds["PENDINGcook"].id]
        filters = {"correlation_id": "trace", "status": "APPROVED", "until": DAYBREAK + SECOND}
        assert await list_hold_ids(store, **filters) == [holds["APPROVEDclerk"].id, holds["APPROVEDcook"].id]

    async def test_holds_are_found_by_creation_time(self, store: Store) -> None:
        holds = [sample_hold(created_at=DAYBREAK + SECOND * number) for number in range(4)]
        for hold in holds:
            await create_held_case(store, hold)
        ids = [hold.id for hold in holds]
        assert await list_hold_ids(store, since=DAYBREAK + SECOND) == ids[1:]
        assert await list_hold_ids(store, until=DAYBREAK + SECOND * 3) == ids[:3]
        assert await list_hold_ids(store, since=DAYBREAK + SECOND, until=DAYBREAK + SECOND * 3) == ids[1:3]

    async def test_a_large_message_is_kept_byte_by_byte(self, store: Store) -> None:
        hold = sample_hold(envelope=bytes(range(256)) * 2**15)
        await create_held_case(store, hold)
        assert await store.get_hold(hold.id) == hold


@pytest.mark.anyio
class HostileValuesContract:
    """Tests of hostile values: each is stored exactly, or refused with nothing written."""

    @pytest.mark.parametrize("changes", UNSTORABLE.values(), ids=UNSTORABLE)
    async def test_a_value_that_cannot_be_stored_refuses_the_whole_write(
        self, store: Store, changes: dict[str, Any]
    ) -> None:
        task, hold, event, record = sample_task(), sample_hold(), sample_audit(), sample_record()
        bad, bad_record = replace(task, **changes), replace(record, **changes)
        await store.check_ready()
        with pytest.raises(ValidationFailed):
            await store.save_tasks([task, bad])
        with pytest.raises(ValidationFailed):
            await create_held_case(store, hold, tasks=[task, bad], events=[event])
        with pytest.raises(ValidationFailed):
            await store.change_records(save=[record, bad_record], events=[event])
        assert await store.get_task("acme", "clerk", "task", task.id) is None
        assert await list_hold_ids(store) == []
        assert await store.get_audit_event("acme", event.id) is None
        assert list(await store.list_records("policy")) == []

    async def test_values_that_cannot_be_stored_are_not_found(self, store: Store) -> None:
        odd = "a\ud800b"
        assert await store.get_record("acme", "policy", odd) is None
        assert await store.get_task("acme", "clerk", "task", odd) is None
        assert await store.get_hold(odd) is None
        assert await store.get_hold_of_case(odd) is None
        assert await store.get_audit_event("acme", odd) is None
        with pytest.raises(RelayConflict):
            await store.delete_record("acme", "policy", odd, rev=1)
        with pytest.raises(ValidationFailed):
            await store.list_holds("acme", HoldFilter(task_id=odd), page=0, size=10)
        with pytest.raises(ValidationFailed):
            await store.list_audit_events("acme", AuditFilter(types=(odd,)), page=0, size=10)

    async def test_a_closed_store_is_unavailable(self, store: Store) -> None:
        await store.aclose()
        for asking in (
            store.save_record(sample_record()),
            store.get_record("acme", "policy", "one"),
            store.save_tasks([sample_task()]),
            create_held_case(store, sample_hold()),
            store.list_holds("acme", HoldFilter(), page=0, size=1),
            store.add_audit_events([sample_audit()]),
            store.list_audit_events("acme", AuditFilter(), page=0, size=1),
        ):
            with pytest.raises(Unavailable):
                await asking


class RelayStoreContract(RecordContract, TaskContract, HoldContract, AuditContract, HostileValuesContract):
    """All tests of the relay's stores. The fixture `store` opens an empty store and closes it."""
