"""Streams that are judged as a whole, from agents that take their time, break off, or never end."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest

from placet.bootstrap.storage import open_memory_store
from placet.ports.store import Store
from placet.relay.detectors.regex_detector import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import Behaviour, RawAgent, answer_with, build_head, write_bytes
from tests.relay.inspection.inspected_relay import InspectedRelay, run_inspected_relay, store_policies
from tests.relay.policies.samples import build_regex_draft
from tests.waiting import PATIENCE_S, eventually

LEGS = {"responseFromSink": True}
DRAFTS = {
    "masked": build_regex_draft("SECRET", "MASK", legs=LEGS),
    "blocked": build_regex_draft("SECRET", "BLOCK", legs=LEGS),
    "held": build_regex_draft("SECRET", "HUMAN_REVIEW_REQUIRED", legs=LEGS),
    "logged": build_regex_draft("SECRET", "LOG", legs=LEGS),
}
CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "SendStreamingMessage",
    "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
}


def build_result(**inner: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "result": inner}


def build_first_event(task: str) -> dict[str, Any]:
    return build_result(task={"id": task, "contextId": task, "status": {"state": "TASK_STATE_WORKING"}})


def build_chunk(task: str, text: str, *, append: bool = True, artifact: str = "a") -> dict[str, Any]:
    piece = {"artifactId": artifact, "parts": [{"text": text}]}
    return build_result(
        artifactUpdate={"taskId": task, "contextId": task, "artifact": piece, "append": append}
    )


def build_status(task: str, state: str, text: str | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"state": f"TASK_STATE_{state}"}
    if text is not None:
        told["message"] = {"messageId": "said", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    return build_result(statusUpdate={"taskId": task, "contextId": task, "status": told})


def frame_events(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def stream_events(*events: dict[str, Any]) -> Behaviour:
    return write_bytes(build_head(200, content_type="text/event-stream") + frame_events(*events))


class PausedStream:
    """An agent's stream that stops in the middle until a test lets it go on."""

    def __init__(self, first: bytes, then: bytes) -> None:
        self.open = threading.Event()
        self.first = first
        self.then = then

    async def __call__(
        self, agent: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(build_head(200, content_type="text/event-stream") + self.first)
        await writer.drain()
        await asyncio.to_thread(self.open.wait, PATIENCE_S)
        writer.write(self.then)
        await writer.drain()


@pytest.fixture(scope="module")
def store() -> Store:
    found = open_memory_store()
    asyncio.run(store_policies(found, DRAFTS, "raw"))
    return found


@contextmanager
def run_relay(agent: RawAgent, store: Store, early_return_s: float) -> Iterator[InspectedRelay]:
    settings = RelaySettings(
        agents={"raw": AgentSettings(url=agent.url)},
        callers={name: CallerSettings(agents=("raw",)) for name in (*DRAFTS, "later")},
    )
    limits = {
        "early_return_for": timedelta(seconds=early_return_s),
        "heartbeat_for": timedelta(seconds=0.1),
        "max_message_bytes": 20_000,
    }
    with run_inspected_relay(settings, store, DetectorRegistry([RegexDetector()]), **limits) as relay:
        yield relay


@pytest.fixture(scope="module")
def relay(raw_agent: RawAgent, store: Store) -> Iterator[InspectedRelay]:
    """One that waits for all of a stream, however slow the machine."""
    with run_relay(raw_agent, store, early_return_s=6 * PATIENCE_S) as found:
        yield found


@pytest.fixture(scope="module")
def early_return_relay(raw_agent: RawAgent, store: Store) -> Iterator[InspectedRelay]:
    """One that answers before the stream is over."""
    with run_relay(raw_agent, store, early_return_s=0.4) as found:
        yield found


@pytest.fixture
def agent(raw_agent: RawAgent) -> RawAgent:
    raw_agent.hung_up.clear()
    return raw_agent


def open_client(relay: InspectedRelay) -> httpx.Client:
    url = f"{relay.url}/relay/v1/agents/raw"
    return httpx.Client(base_url=url, headers={"A2A-Version": "1.0"}, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def client(relay: InspectedRelay) -> Iterator[httpx.Client]:
    with open_client(relay) as found:
        yield found


@pytest.fixture(scope="module")
def early_return_client(early_return_relay: InspectedRelay) -> Iterator[httpx.Client]:
    with open_client(early_return_relay) as found:
        yield found


def call(client: httpx.Client, caller: str, **over: Any) -> str:
    return client.post("", json=CALL | over, headers={"Authorization": f"Bearer {caller}"}).text


def parse_events(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    return [one.get("result", one) for one in found]


def test_match_over_two_events_is_masked_despite_events_between(
    agent: RawAgent, client: httpx.Client
) -> None:
    other = build_chunk("t1", "other", append=False, artifact="b")
    agent.behave = stream_events(
        build_first_event("t1"),
        build_chunk("t1", "a SEC", append=False),
        other,
        build_status("t1", "WORKING", "still here"),
        build_chunk("t1", "RET b"),
        build_status("t1", "COMPLETED"),
    )
    found = call(client, "masked")
    assert "SEC" not in found
    assert [next(iter(one)) for one in parse_events(found)] == [
        *("task", "artifactUpdate", "artifactUpdate", "statusUpdate", "artifactUpdate", "statusUpdate")
    ]
    assert other["result"] in parse_events(found)


def test_status_messages_are_inspected_together(agent: RawAgent, client: httpx.Client) -> None:
    said = (build_status("t2", "WORKING", "SEC"), build_status("t2", "WORKING", "RET"))
    agent.behave = stream_events(build_first_event("t2"), *said, build_status("t2", "COMPLETED"))
    found = call(client, "masked")
    assert "[MASKED:REGEX]" in found
    assert "RET" not in found


def test_replaced_artifact_is_inspected_with_what_it_replaces(agent: RawAgent, client: httpx.Client) -> None:
    anew = (build_chunk("t3", "SEC", append=False), build_chunk("t3", "RET", append=False))
    agent.behave = stream_events(build_first_event("t3"), *anew, build_status("t3", "COMPLETED"))
    found = call(client, "masked")  # the caller gets both events
    assert ("SEC" in found, "RET" in found) == (False, False)


def test_appended_chunk_is_inspected_with_earlier_text(agent: RawAgent, client: httpx.Client) -> None:
    task = build_first_event("t4")
    task["result"]["task"]["artifacts"] = [{"artifactId": "a", "parts": [{"text": "SEC"}]}]
    agent.behave = stream_events(task, build_chunk("t4", "RET"), build_status("t4", "COMPLETED"))
    found = call(client, "masked")
    assert "SEC" not in found
    assert "RET" not in found


def test_stream_with_log_policies_is_not_withheld(agent: RawAgent, client: httpx.Client) -> None:
    gate = PausedStream(
        frame_events(build_first_event("t5"), build_chunk("t5", "first", append=False)),
        frame_events(build_status("t5", "COMPLETED")),
    )
    agent.behave = gate
    headers = {"Authorization": "Bearer logged"}
    with client.stream("POST", "", json=CALL, headers=headers) as response:
        for line in response.iter_lines():
            if "first" in line:
                gate.open.set()
    assert gate.open.is_set()


def test_new_policy_inspects_the_rest_of_a_stream(
    relay: InspectedRelay, store: Store, agent: RawAgent, client: httpx.Client
) -> None:
    first = frame_events(build_first_event("t13"), build_chunk("t13", "first SECRET", append=False))
    gate = PausedStream(
        first, frame_events(build_chunk("t13", "then SECRET"), build_status("t13", "COMPLETED"))
    )
    agent.behave = gate

    async def change() -> None:
        await store_policies(store, {"later": DRAFTS["masked"]}, "raw", rev=2)
        await relay.policy_cache.reload("default")

    lines = []
    with client.stream("POST", "", json=CALL, headers={"Authorization": "Bearer later"}) as response:
        for line in response.iter_lines():
            lines.append(line)
            if "first" in line:
                relay.in_loop(change())
                gate.open.set()
    assert any("first SECRET" in line for line in lines)
    assert any("then [MASKED:REGEX]" in line for line in lines)


def test_caller_gets_its_task_at_once_and_heartbeats_later(agent: RawAgent, client: httpx.Client) -> None:
    then = frame_events(build_chunk("t6", "told at last"), build_status("t6", "COMPLETED"))
    gate = PausedStream(
        frame_events(build_first_event("t6"), build_chunk("t6", "not yet", append=False)), then
    )
    agent.behave = gate
    lines = []
    with client.stream("POST", "", json=CALL, headers={"Authorization": "Bearer blocked"}) as response:
        for line in response.iter_lines():
            lines.append(line)
            if line.startswith(":"):
                assert not any("not yet" in one for one in lines)
                gate.open.set()
    assert "t6" in lines[0]
    assert [next(iter(one)) for one in parse_events("\n".join(lines))] == [
        *("task", "artifactUpdate", "artifactUpdate", "statusUpdate")
    ]


def test_after_the_early_return_the_caller_has_a_task_to_come_back_to(
    early_return_relay: InspectedRelay, agent: RawAgent, early_return_client: httpx.Client
) -> None:
    then = frame_events(build_chunk("t7", "RET"), build_status("t7", "COMPLETED"))
    gate = PausedStream(frame_events(build_first_event("t7"), build_chunk("t7", "SEC", append=False)), then)
    agent.behave = gate
    response = early_return_client.post(
        "", json=CALL, headers={"Authorization": "Bearer held", "X-Correlation-Id": "early-known"}
    )
    *_, last = parse_events(response.text)
    assert "SEC" not in response.text
    assert (last["task"]["id"], last["task"]["status"]["state"]) == ("t7", "TASK_STATE_WORKING")
    assert last["task"]["metadata"] == {"relay_reason": "TIMEOUT"}
    gate.open.set()
    held = eventually(lambda: early_return_relay.holder.held.get("early-known"))
    assert held[1].reply is not None
    assert held[1].reply.final


def test_task_without_agents_id_gets_the_relays_id(
    agent: RawAgent, early_return_client: httpx.Client
) -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "a SECRET b"}]}
    gate = PausedStream(b": nothing yet\n\n", frame_events(build_result(message=message)))
    agent.behave = gate
    [last] = parse_events(call(early_return_client, "masked"))
    assert last["task"]["metadata"] == {"relay_reason": "TIMEOUT"}
    gate.open.set()
    get = {"jsonrpc": "2.0", "id": 8, "method": "GetTask", "params": {"id": last["task"]["id"]}}

    def ended() -> str | None:
        text = early_return_client.post("", json=get, headers={"Authorization": "Bearer masked"}).text
        return text if "COMPLETED" in text else None

    assert "a [MASKED:REGEX] b" in eventually(ended)


def test_interrupted_stream_is_delivered_up_to_the_break(agent: RawAgent, client: httpx.Client) -> None:
    body = frame_events(
        build_first_event("t8"), build_chunk("t8", "a SEC", append=False), build_chunk("t8", "RET b")
    )
    agent.behave = write_bytes(
        build_head(200, content_type="text/event-stream", content_length=str(len(body) + 10)) + body
    )
    *told, last = parse_events(call(client, "masked"))
    assert [next(iter(one)) for one in told] == ["task", "artifactUpdate", "artifactUpdate"]
    assert "SEC" not in repr(told)
    assert last["error"]["message"] == "The agent's response ended before it was complete."


def test_oversized_stream_is_not_delivered_in_part(agent: RawAgent, client: httpx.Client) -> None:
    first = build_head(200, content_type="text/event-stream") + frame_events(build_first_event("t9"))
    agent.behave = write_bytes(first, frame_events(build_chunk("t9", "x" * 1000)))
    *told, last = parse_events(call(client, "masked"))
    assert [next(iter(one)) for one in told] == ["task"]
    assert "too large" in last["error"]["message"]
    assert agent.hung_up.wait(PATIENCE_S)


@pytest.mark.parametrize("state", ["COMPLETED", "INPUT_REQUIRED"])
def test_stream_is_inspected_when_its_task_ends_or_waits(
    agent: RawAgent, client: httpx.Client, state: str
) -> None:
    task = f"t10-{state}"
    first = frame_events(
        build_first_event(task), build_chunk(task, "all of it", append=False), build_status(task, state)
    )
    agent.behave = write_bytes(
        build_head(200, content_type="text/event-stream") + first, frame_events(build_chunk(task, "SEC"))
    )
    found = call(client, "blocked")
    assert [next(iter(one)) for one in parse_events(found)] == ["task", "artifactUpdate", "statusUpdate"]
    assert agent.hung_up.wait(PATIENCE_S)


def test_a_caller_that_leaves_ends_its_stream_at_the_agent(agent: RawAgent, client: httpx.Client) -> None:
    first = build_head(200, content_type="text/event-stream") + frame_events(build_first_event("t11"))
    agent.behave = write_bytes(first, b": on and on\n\n")
    with client.stream("POST", "", json=CALL, headers={"Authorization": "Bearer held"}) as response:
        next(response.iter_lines())
    assert agent.hung_up.wait(PATIENCE_S)


def test_reply_without_a_stream_is_inspected(agent: RawAgent, client: httpx.Client) -> None:
    agent.behave = answer_with(200, json.dumps(build_chunk("t12", "a SECRET", append=False)).encode())
    assert "SECRET" not in call(client, "masked")
