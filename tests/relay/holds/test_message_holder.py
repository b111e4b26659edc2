"""Holding by itself: what is kept and what is not, once and only once, also when the disk fails half-way."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from placet.cases.case import Subject
from placet.desk.draft import draft_from
from placet.desk.outbox import Outbox
from placet.errors import Unavailable
from placet.ports.case_store import CaseCreation
from placet.ports.detector import Scannable
from placet.ports.hold_store import HoldFilter
from placet.ports.identity import Principal
from placet.ports.outbox_store import DeliveryFilter
from placet.relay.a2a.call import parse_call
from placet.relay.a2a.errors import A2AError
from placet.relay.audit.audit_log import AuditLog
from placet.relay.exchange import Exchange
from placet.relay.holds.hold_creator import HoldCreator
from placet.relay.holds.hold_notifier import HoldNotifier
from placet.relay.holds.review_case import excerpt_texts
from placet.relay.policy.binding import BindingLevel
from placet.relay.policy.evaluation import Evaluation, Outcome
from placet.relay.policy.finding import Finding, digest_text
from placet.relay.policy.policy import Leg, PolicyAction
from placet.relay.policy.policy_set import AppliedPolicy
from placet.relay.runtime.resumption import RelayCourier
from placet.relay.task import Task, TaskStatus
from placet.relay.tasks.access import TaskAccess
from placet.relay.tenants import RegisteredAgent, RegisteredCaller, Subscription
from placet.stores.sqlite.in_memory import InMemorySqliteStore
from placet.testing.desk import create_desk_for_tests
from placet.text.characters import replace_unstorable
from tests.relay.fakes import MemoryTaskRepository
from tests.relay.policies.samples import build_regex_policy

pytestmark = pytest.mark.anyio

SINK = RegisteredAgent(
    id="errands", url="https://errands.example", credentials={"Authorization": "Bearer secret"}
)
ANN = Subscription(source=RegisteredCaller(name="ann"), sink=SINK)
BOB = Subscription(source=RegisteredCaller(name="bob"), sink=SINK)


class HolderKit:
    """Holds over a store of their own."""

    def __init__(self, store: InMemorySqliteStore) -> None:
        self.desk = create_desk_for_tests(store=store)
        self.store = store
        self.tasks = MemoryTaskRepository()
        self.holds = HoldCreator(
            store=store,
            desk=self.desk.desk,
            tasks=self.tasks,
            access=TaskAccess(self.tasks),
            audit_log=AuditLog(store, now=self.desk.clock),
            now=self.desk.clock,
            notifier=HoldNotifier(
                store, {}, public_url="https://placet.example", now=self.desk.clock, wake=lambda: None
            ),
        )

    async def hold(self, text: str = "a tulip", subscription: Subscription = ANN, **message: Any) -> Any:
        exchange = build_exchange(text, subscription, **message)
        return await self.holds.hold(Leg.REQUEST_FROM_SOURCE, exchange, exchange.call, build_evaluation(text))

    async def all(self) -> list[Any]:
        rows, _ = await self.store.list_holds("default", HoldFilter(), page=0, size=100)
        return list(rows)


@pytest.fixture
def kit() -> HolderKit:
    return HolderKit(InMemorySqliteStore())


def build_exchange(text: str, subscription: Subscription = ANN, **message: Any) -> Exchange:
    document = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **message}},
    }
    call = parse_call(
        method="POST",
        path="",
        query="",
        version="1.0",
        content_type="application/json",
        body=msgspec.json.encode(document),
    )
    headers = {
        "accept": "application/json",
        "cookie": "a",
        "x-session": "b",
        "Authorization": "Bearer secret",
    }
    return Exchange(subscription=subscription, correlation_id="c-1", call=call, headers=headers)


def build_evaluation(text: str, word: str = "tulip") -> Evaluation:
    applied = AppliedPolicy(
        policy=build_regex_policy(word, "HUMAN_REVIEW_REQUIRED"),
        level=BindingLevel.TENANT,
        binding_id="b",
        group_id="g",
    )
    place = text.index(word)
    finding = Finding(
        policy_id="p1",
        policy_name=applied.policy.name,
        policy_version="1",
        policy_level=BindingLevel.TENANT,
        action=PolicyAction.HUMAN_REVIEW_REQUIRED,
        detector="REGEX_DETECTION",
        entity="FLOWER",
        score=1.0,
        path="message.parts[0].text",
        piece=0,
        start=place,
        end=place + len(word),
        text=word,
    )
    return Evaluation(outcome=Outcome.HOLD, decided_by=applied, matched=(applied,), findings=(finding,))


async def test_frozen_message_contains_no_credentials(kit: HolderKit) -> None:
    await kit.hold()
    [hold] = await kit.all()
    assert b"secret" not in hold.body + hold.envelope
    assert b"cookie" not in hold.body
    assert b"x-session" not in hold.body
    assert msgspec.json.decode(hold.envelope)["params"]["message"]["parts"] == [{"text": "a tulip"}]


async def test_the_same_message_ten_times_at_once_is_one_hold_and_one_case(kit: HolderKit) -> None:
    answers = await asyncio.gather(*(kit.hold() for _ in range(10)))
    assert len(await kit.all()) == 1
    assert len({answer["result"]["task"]["id"] for answer in answers}) == 1
    assert len(await kit.store.list_cases("relay:default")) == 1


async def test_same_text_from_two_callers_makes_two_holds(kit: HolderKit) -> None:
    await kit.hold()
    await kit.hold(subscription=BOB)
    await kit.hold(messageId="another")
    assert len({hold.task_id for hold in await kit.all()}) == 3


class StoreFullOnce(InMemorySqliteStore):
    """A store whose disk is full for the first hold."""

    full = True

    async def create_case(self, creation: CaseCreation) -> None:
        if self.full:
            self.full = False
            raise Unavailable()
        await super().create_case(creation)


async def test_a_hold_that_could_not_be_written_opens_no_second_case_when_it_is_sent_again() -> None:
    kit = HolderKit(StoreFullOnce())
    with pytest.raises(Unavailable):
        await kit.hold()
    await kit.hold()
    [hold] = await kit.all()
    [case] = await kit.store.list_cases("relay:default")
    assert hold.case_id == case.id


class StoreFullBeforeAuditEvents(InMemorySqliteStore):
    """A store whose disk is full after the case and the hold were written, before the audit events."""

    async def create_case(self, creation: CaseCreation) -> None:
        assert creation.hold is not None
        first = creation.hold.events[0]
        twice = replace(creation, hold=replace(creation.hold, events=(first, first)))
        await super().create_case(twice)


async def test_a_fault_between_the_case_and_its_hold_leaves_neither() -> None:
    kit = HolderKit(StoreFullBeforeAuditEvents())
    with pytest.raises(Unavailable):
        await kit.hold()
    assert await kit.all() == []
    assert await kit.store.list_cases("relay:default") == []


class SlowStore(InMemorySqliteStore):
    """A store that takes a hold only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def create_case(self, creation: CaseCreation) -> None:
        self.asked.set()
        await self.go_on.wait()
        await super().create_case(creation)


async def test_a_caller_that_leaves_while_its_message_is_held_leaves_no_case_behind_without_a_hold() -> None:
    store = SlowStore()
    kit = HolderKit(store)
    holding = asyncio.create_task(kit.hold())
    await store.asked.wait()
    holding.cancel()
    await asyncio.wait({holding})
    store.go_on.set()
    await kit.holds.aclose()
    [hold] = await kit.all()
    [case] = await store.list_cases("relay:default")
    assert hold.case_id == case.id


async def test_nobody_holds_a_message_on_a_task_that_is_not_theirs(kit: HolderKit) -> None:
    answer = await kit.hold()
    task_id = answer["result"]["task"]["id"]
    with pytest.raises(A2AError) as refused:
        await kit.hold("another tulip", BOB, taskId=task_id)
    assert refused.value.kind == "task_not_found"
    with pytest.raises(A2AError, match="waits for a person"):
        await kit.hold("another tulip", ANN, taskId=task_id)
    with pytest.raises(A2AError):
        await kit.hold("x tulip", BOB, contextId=answer["result"]["task"]["contextId"])
    assert len(await kit.all()) == 1


async def test_a_message_to_a_task_whose_first_call_still_runs_is_not_held(kit: HolderKit) -> None:
    running = Task(id="one", owner="ann", status=TaskStatus.RUNNING, upstream_id=None)
    await kit.tasks.write("default", "errands", "task", running)
    with pytest.raises(A2AError, match="has not answered yet"):
        await kit.hold(taskId="one")
    assert await kit.all() == []


async def test_the_first_hold_of_a_task_has_its_texts_remembered_only_once_approved(kit: HolderKit) -> None:
    await kit.hold()
    exchange = build_exchange("a tulip")
    assert digest_text("a tulip") not in await kit.holds.list_approved(exchange, exchange.call)


async def test_a_case_without_a_hold_is_delivered_and_does_nothing(kit: HolderKit) -> None:
    draft = {"type": "approval", "prompt": "May it?", "context": {"note": "x"}}
    opened = await kit.desk.desk.open(
        draft_from(draft),
        Principal(name="relay:default"),
        subject=Subject(entry_point="relay", ref="nothing"),
    )
    resumed: list[str] = []

    class Nothing:
        async def resume(self, hold_id: str, case_id: str) -> None:
            resumed.append(hold_id)

    courier = RelayCourier(Nothing())  # type: ignore[arg-type]
    outbox = Outbox(store=kit.store, couriers={"relay": courier}, clock=kit.desk.clock)
    await kit.desk.desk.cancel(opened.case_id, Principal(name="relay:default"), reason=None)
    await outbox.run_once()
    [owed] = await kit.store.list_deliveries(DeliveryFilter(case_id=opened.case_id))
    assert (owed.courier, owed.state, resumed) == ("relay", "delivered", ["nothing"])


def test_long_texts_are_shown_where_something_was_found() -> None:
    text = "x" * 300_000 + "tulip" + "y" * 300_000
    shown = excerpt_texts(
        [Scannable("message.parts[0].text", text)], build_evaluation(text).findings, room=20_000
    )
    [entry] = shown["texts"]
    assert entry["length"] == len(text)
    around = [one for one in entry["excerpts"] if "tulip" in one["text"]]
    assert len(around) == 1
    [mark] = around[0]["marks"]
    assert around[0]["text"][mark["start"] : mark["end"]] == "tulip"
    assert text[around[0]["at"] + mark["start"] :].startswith("tulip")
    assert len(msgspec.json.encode(shown)) < 25_000


def test_hidden_characters_are_shown_as_signs_and_nothing_moves() -> None:
    text = "a\x00b\x1b[2Jc\x9fd\ud800e"
    assert len(replace_unstorable(text)) == len(text)
    assert replace_unstorable(text) == "a␀b␛[2Jc�d�e"


async def test_data_parts_are_shown_to_the_reviewer(kit: HolderKit) -> None:
    parts = [{"text": "a tulip"}, {"data": {"amount": 5000, "paid": False, "to": ["x\x00"]}}]
    await kit.hold(parts=parts)
    [hold] = await kit.all()
    found_case = await kit.store.get_case_and_offer(hold.case_id)
    assert found_case is not None
    held = found_case[1].context["held_message"]
    assert held["data"] == [{"amount": 5000, "paid": False, "to": ["x␀"]}]
    assert b'"data":[{"amount":5000' in hold.body


def test_what_is_shown_as_data_is_not_shown_again_unless_something_was_found_in_it() -> None:
    texts = [
        Scannable("message.parts[0].text", "hello"),
        Scannable("message.parts[1].data.flower", "tulip"),
        Scannable("message.parts[1].data.colour", "red"),
        Scannable("message.metadata.data", "aside"),
    ]
    finding = msgspec.structs.replace(build_evaluation("tulip").findings[0], piece=1)
    shown = excerpt_texts(texts, [finding], room=10_000, shows_data=True)
    assert [one["path"] for one in shown["texts"]] == [
        "message.parts[0].text",
        "message.parts[1].data.flower",
        "message.metadata.data",
    ]
    assert shown["texts_left_out"] == 0
    assert len(excerpt_texts(texts, [], room=10_000)["texts"]) == 4
