"""Where messages will be looked at: the seam is asked on four legs, and what it says is what happens."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from placet.ports.detector import Scannable
from placet.relay.a2a.call import A2ACall
from placet.relay.a2a.reply import A2AReply
from placet.relay.a2a.text_extraction import TextPiece
from placet.relay.detectors.stream_plan import StreamPlan
from placet.relay.exchange import Exchange
from placet.relay.inspection.policy_inspector import PolicyInspector
from placet.relay.policy.evaluation import Evaluation, Outcome
from placet.relay.policy.finding import Finding
from placet.relay.policy.policy import MESSAGE_LEGS, Leg
from placet.relay.policy.verdict import PASS, PolicyVerdict
from placet.relay.tenants import Subscription
from tests.relay.a2a.raw_agent import RawAgent, answer_with, build_head, run_raw_agent, write_bytes
from tests.relay.a2a.sdk_agent import serve_app
from tests.relay.inspection.inspected_relay import MemoryAuditLog
from tests.relay.relay_app import bind_free_port, build_app, settings_for_one_agent

TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
REPLY = {"jsonrpc": "2.0", "id": 7, "result": {"task": TASK}}
EVENT = {"jsonrpc": "2.0", "id": 7, "result": {"statusUpdate": {"taskId": "t", "contextId": "c"}}}
STREAM = build_head(200, content_type="text/event-stream") + b"".join(
    b"data: " + json.dumps(event).encode() + b"\n\n" for event in (REPLY, EVENT, EVENT)
)
CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "SendMessage",
    "params": {"message": {"parts": [{"text": "hi"}]}},
}
Say = Callable[[Leg, A2ACall | A2AReply], PolicyVerdict]


class RecordingInspector(PolicyInspector):
    """An inspector that notes what it is asked and says what a test wants."""

    def __init__(self) -> None:
        self.asked: list[tuple[Leg, Exchange, A2ACall | A2AReply]] = []
        self.say: Say = lambda leg, message: PASS
        self.lock = threading.Lock()

    def has_policies(self, leg: Leg, subscription: Subscription) -> bool:
        return True

    def inspect_quickly(
        self, leg: Leg, subscription: Subscription, message: A2ACall | A2AReply
    ) -> PolicyVerdict | None:
        return None

    async def inspect(self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply) -> PolicyVerdict:
        with self.lock:
            self.asked.append((leg, exchange, message))
        return self.say(leg, message)

    def plan_stream(self, subscription: Subscription) -> StreamPlan:
        return StreamPlan()

    async def inspect_window(
        self, subscription: Subscription, texts: Sequence[Scannable]
    ) -> Sequence[Finding] | None:
        raise AssertionError("no stream has a window")

    async def is_stream_clean(
        self, exchange: Exchange, replies: Sequence[A2AReply], pieces: Sequence[Sequence[TextPiece]]
    ) -> bool:
        raise AssertionError("no stream is withheld")

    async def observe_stream(self, exchange: Exchange, replies: Sequence[A2AReply]) -> None:
        raise AssertionError("no stream is observed")

    async def inspect_stream(
        self, leg: Leg, exchange: Exchange, replies: Sequence[A2AReply]
    ) -> PolicyVerdict:
        raise AssertionError("no stream is withheld")


class AnsweringHolder:
    """A holder that answers what a test wants."""

    answer: dict[str, Any]

    async def hold(
        self, leg: Leg, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> dict[str, Any]:
        return self.answer

    async def hold_input_request(self, exchange: Exchange, reply: A2AReply) -> None:
        raise AssertionError("no agent asks for input")

    async def list_approved(self, exchange: Exchange, message: A2ACall | A2AReply) -> frozenset[str]:
        return frozenset()

    async def report_observed(
        self, exchange: Exchange, message: A2ACall | A2AReply, evaluation: Evaluation
    ) -> None:
        raise AssertionError("no stream is observed")


@pytest.fixture(scope="module")
def parts() -> Iterator[tuple[str, RawAgent, RecordingInspector, AnsweringHolder]]:
    """The relay alone, between an agent and an inspector of its messages."""
    listener, url = bind_free_port()
    watcher, holder = RecordingInspector(), AnsweringHolder()
    with run_raw_agent() as agent:
        relay = build_app(
            settings_for_one_agent("raw", agent.url),
            public_url=url,
            inspector=watcher,
            audit_log=MemoryAuditLog(),
            holds=holder,
        )
        with serve_app(relay, listener, close=relay.aclose):
            yield f"{url}/relay/v1/agents/raw", agent, watcher, holder


@pytest.fixture
def inspector(parts: Any) -> RecordingInspector:
    found: RecordingInspector = parts[2]
    found.asked.clear()
    found.say = lambda leg, message: PASS
    parts[1].behave = answer_with(200, json.dumps(REPLY).encode())
    parts[1].requests.clear()
    return found


@pytest.fixture(scope="module")
def client(parts: Any) -> Iterator[httpx.Client]:
    headers = {"A2A-Version": "1.0"}
    with httpx.Client(base_url=parts[0], headers=headers, verify=False, timeout=60) as found:
        yield found


def test_call_is_inspected_on_four_legs_in_order(inspector: RecordingInspector, client: httpx.Client) -> None:
    response = client.post("", json=CALL, headers={"X-Correlation-Id": "order-7"})
    assert response.json() == REPLY
    assert [leg for leg, _, _ in inspector.asked] == list(MESSAGE_LEGS)
    assert {exchange.correlation_id for _, exchange, _ in inspector.asked} == {"order-7"}
    assert {exchange.subscription.source.name for _, exchange, _ in inspector.asked} == {"acme"}
    assert [isinstance(message, A2AReply) for _, _, message in inspector.asked] == [False, False, True, True]


def test_each_stream_event_is_inspected_on_the_response_legs(
    parts: Any, inspector: RecordingInspector, client: httpx.Client
) -> None:
    parts[1].behave = write_bytes(STREAM)
    response = client.post("", json=CALL | {"method": "SendStreamingMessage"})
    assert response.text.count("data: ") == 3
    assert [leg for leg, _, _ in inspector.asked] == [*list(MESSAGE_LEGS)[:2], *list(MESSAGE_LEGS)[2:] * 3]


@pytest.mark.parametrize("leg", MESSAGE_LEGS)
def test_refused_message_is_not_forwarded(
    parts: Any, inspector: RecordingInspector, client: httpx.Client, leg: Leg
) -> None:
    refusal = PolicyVerdict(evaluation=Evaluation(outcome=Outcome.BLOCK))
    inspector.say = lambda asked, message: refusal if asked is leg else PASS
    error = client.post("", json=CALL).json()["error"]
    assert (error["code"], error["message"]) == (-32080, "A policy blocked this message.")
    assert bool(parts[1].requests) is (leg in list(MESSAGE_LEGS)[2:])


@pytest.mark.parametrize("leg", MESSAGE_LEGS)
def test_inspection_error_never_becomes_a_pass(
    parts: Any, inspector: RecordingInspector, client: httpx.Client, leg: Leg
) -> None:
    def fail(asked: Leg, message: A2ACall | A2AReply) -> PolicyVerdict:
        if asked is leg:
            raise RuntimeError("the detector is broken: secret")
        return PASS

    inspector.say = fail
    response = client.post("", json=CALL)
    assert "could not be checked" in response.json()["error"]["message"]
    assert "secret" not in response.text
    assert bool(parts[1].requests) is (leg in list(MESSAGE_LEGS)[2:])


@pytest.mark.parametrize("leg", MESSAGE_LEGS)
def test_changed_message_is_forwarded_changed(
    parts: Any, inspector: RecordingInspector, client: httpx.Client, leg: Leg
) -> None:
    def mask(asked: Leg, message: Any) -> PolicyVerdict:
        if asked is not leg:
            return PASS
        masked = replace(message, document={**(message.document or {}), "masked": True})
        return PolicyVerdict(evaluation=Evaluation(outcome=Outcome.MASK), messages=(masked,))

    inspector.say = mask
    answer = client.post("", json=CALL).json()
    sent = json.loads(parts[1].requests[-1][1])
    assert ("masked" in sent, "masked" in answer) == (
        (True, False) if leg in list(MESSAGE_LEGS)[:2] else (False, True)
    )


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("leg", MESSAGE_LEGS)
def test_held_message_is_answered_in_place_of_the_agent(
    parts: Any, inspector: RecordingInspector, client: httpx.Client, leg: Leg, streamed: bool
) -> None:
    held = {"jsonrpc": "2.0", "id": 7, "result": {"task": TASK | {"id": f"held-{leg}-{streamed}"}}}
    parts[3].answer = held
    hold = PolicyVerdict(evaluation=Evaluation(outcome=Outcome.HOLD))
    inspector.say = lambda asked, message: hold if asked is leg else PASS
    if streamed:
        parts[1].behave = write_bytes(STREAM)
        response = client.post("", json=CALL | {"method": "SendStreamingMessage"})
        events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
        assert events == [held]
    else:
        assert client.post("", json=CALL).json() == held
