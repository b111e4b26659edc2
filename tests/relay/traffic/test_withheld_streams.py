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
from tests.relay.a2a.raw_agent import Behaviour, RawAgent, answering, head, raw_agent, writing
from tests.relay.inspection.judged import Judged, judged_relay, put_in_force
from tests.relay.policies.samples import regex_draft
from tests.waiting import PATIENCE_S, eventually

LEGS = {"responseFromSink": True}
DRAFTS = {
    "masked": regex_draft("SECRET", "MASK", legs=LEGS),
    "blocked": regex_draft("SECRET", "BLOCK", legs=LEGS),
    "held": regex_draft("SECRET", "HUMAN_REVIEW_REQUIRED", legs=LEGS),
    "logged": regex_draft("SECRET", "LOG", legs=LEGS),
}
CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "SendStreamingMessage",
    "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
}


def result(**inner: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "result": inner}


def begun(task: str) -> dict[str, Any]:
    return result(task={"id": task, "contextId": task, "status": {"state": "TASK_STATE_WORKING"}})


def chunk(task: str, text: str, *, append: bool = True, artifact: str = "a") -> dict[str, Any]:
    piece = {"artifactId": artifact, "parts": [{"text": text}]}
    return result(artifactUpdate={"taskId": task, "contextId": task, "artifact": piece, "append": append})


def status(task: str, state: str, text: str | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"state": f"TASK_STATE_{state}"}
    if text is not None:
        told["message"] = {"messageId": "said", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    return result(statusUpdate={"taskId": task, "contextId": task, "status": told})


def framed(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def streaming(*events: dict[str, Any]) -> Behaviour:
    return writing(head(200, content_type="text/event-stream") + framed(*events))


class Gate:
    """An agent's stream that stops in the middle until a test lets it go on."""

    def __init__(self, first: bytes, then: bytes) -> None:
        self.open = threading.Event()
        self.first = first
        self.then = then

    async def __call__(
        self, agent: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(head(200, content_type="text/event-stream") + self.first)
        await writer.drain()
        await asyncio.to_thread(self.open.wait, PATIENCE_S)
        writer.write(self.then)
        await writer.drain()


@pytest.fixture(scope="module")
def store() -> Store:
    found = open_memory_store()
    asyncio.run(put_in_force(found, DRAFTS, "raw"))
    return found


@pytest.fixture(scope="module")
def raw() -> Iterator[RawAgent]:
    with raw_agent() as agent:
        yield agent


@contextmanager
def relaying(agent: RawAgent, store: Store, early_return_s: float) -> Iterator[Judged]:
    settings = RelaySettings(
        agents={"raw": AgentSettings(url=agent.url)},
        callers={name: CallerSettings(agents=("raw",)) for name in (*DRAFTS, "later")},
    )
    limits = {
        "early_return_for": timedelta(seconds=early_return_s),
        "heartbeat_for": timedelta(seconds=0.1),
        "max_message_bytes": 20_000,
    }
    with judged_relay(settings, store, DetectorRegistry([RegexDetector()]), **limits) as relay:
        yield relay


@pytest.fixture(scope="module")
def relay(raw: RawAgent, store: Store) -> Iterator[Judged]:
    """One that waits for all of a stream, however slow the machine."""
    with relaying(raw, store, early_return_s=6 * PATIENCE_S) as found:
        yield found


@pytest.fixture(scope="module")
def hasty(raw: RawAgent, store: Store) -> Iterator[Judged]:
    """One that answers before the stream is over."""
    with relaying(raw, store, early_return_s=0.4) as found:
        yield found


@pytest.fixture
def agent(raw: RawAgent) -> RawAgent:
    raw.hung_up.clear()
    return raw


def calling(relay: Judged) -> httpx.Client:
    url = f"{relay.url}/relay/v1/agents/raw"
    return httpx.Client(base_url=url, headers={"A2A-Version": "1.0"}, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def client(relay: Judged) -> Iterator[httpx.Client]:
    with calling(relay) as found:
        yield found


@pytest.fixture(scope="module")
def hasty_client(hasty: Judged) -> Iterator[httpx.Client]:
    with calling(hasty) as found:
        yield found


def call(client: httpx.Client, caller: str, **over: Any) -> str:
    return client.post("", json=CALL | over, headers={"Authorization": f"Bearer {caller}"}).text


def events_of(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    return [one.get("result", one) for one in found]


def test_a_match_in_two_events_is_masked_whatever_stands_between_them(
    agent: RawAgent, client: httpx.Client
) -> None:
    other = chunk("t1", "other", append=False, artifact="b")
    agent.behave = streaming(
        begun("t1"),
        chunk("t1", "a SEC", append=False),
        other,
        status("t1", "WORKING", "still here"),
        chunk("t1", "RET b"),
        status("t1", "COMPLETED"),
    )
    found = call(client, "masked")
    assert "SEC" not in found
    assert [next(iter(one)) for one in events_of(found)] == [
        *("task", "artifactUpdate", "artifactUpdate", "statusUpdate", "artifactUpdate", "statusUpdate")
    ]
    assert other["result"] in events_of(found)


def test_what_an_agent_says_in_one_state_after_the_other_is_read_together(
    agent: RawAgent, client: httpx.Client
) -> None:
    said = (status("t2", "WORKING", "SEC"), status("t2", "WORKING", "RET"))
    agent.behave = streaming(begun("t2"), *said, status("t2", "COMPLETED"))
    found = call(client, "masked")
    assert "[MASKED:REGEX]" in found
    assert "RET" not in found


def test_a_piece_of_work_that_is_sent_anew_is_read_anew(agent: RawAgent, client: httpx.Client) -> None:
    anew = (chunk("t3", "SEC", append=False), chunk("t3", "RET", append=False))
    agent.behave = streaming(begun("t3"), *anew, status("t3", "COMPLETED"))
    assert "MASKED" not in call(client, "masked")


def test_an_appended_piece_is_read_with_what_a_task_had_before(agent: RawAgent, client: httpx.Client) -> None:
    task = begun("t4")
    task["result"]["task"]["artifacts"] = [{"artifactId": "a", "parts": [{"text": "SEC"}]}]
    agent.behave = streaming(task, chunk("t4", "RET"), status("t4", "COMPLETED"))
    found = call(client, "masked")
    assert "SEC" not in found
    assert "RET" not in found


def test_a_stream_that_is_only_logged_passes_as_it_comes(agent: RawAgent, client: httpx.Client) -> None:
    gate = Gate(framed(begun("t5"), chunk("t5", "first", append=False)), framed(status("t5", "COMPLETED")))
    agent.behave = gate
    headers = {"Authorization": "Bearer logged"}
    with client.stream("POST", "", json=CALL, headers=headers) as response:
        for line in response.iter_lines():
            if "first" in line:
                gate.open.set()
    assert gate.open.is_set()


def test_a_policy_that_comes_into_force_looks_at_the_rest_of_a_stream(
    relay: Judged, store: Store, agent: RawAgent, client: httpx.Client
) -> None:
    first = framed(begun("t13"), chunk("t13", "first SECRET", append=False))
    gate = Gate(first, framed(chunk("t13", "then SECRET"), status("t13", "COMPLETED")))
    agent.behave = gate

    async def change() -> None:
        await put_in_force(store, {"later": DRAFTS["masked"]}, "raw", rev=2)
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


def test_a_caller_hears_of_its_task_at_once_and_of_the_waiting_after_a_while(
    agent: RawAgent, client: httpx.Client
) -> None:
    then = framed(chunk("t6", "told at last"), status("t6", "COMPLETED"))
    gate = Gate(framed(begun("t6"), chunk("t6", "not yet", append=False)), then)
    agent.behave = gate
    lines = []
    with client.stream("POST", "", json=CALL, headers={"Authorization": "Bearer blocked"}) as response:
        for line in response.iter_lines():
            lines.append(line)
            if line.startswith(":"):
                assert not any("not yet" in one for one in lines)
                gate.open.set()
    assert "t6" in lines[0]
    assert [next(iter(one)) for one in events_of("\n".join(lines))] == [
        *("task", "artifactUpdate", "artifactUpdate", "statusUpdate")
    ]


def test_after_the_early_return_the_caller_has_a_task_to_come_back_to(
    hasty: Judged, agent: RawAgent, hasty_client: httpx.Client
) -> None:
    then = framed(chunk("t7", "RET"), status("t7", "COMPLETED"))
    gate = Gate(framed(begun("t7"), chunk("t7", "SEC", append=False)), then)
    agent.behave = gate
    response = hasty_client.post(
        "", json=CALL, headers={"Authorization": "Bearer held", "X-Correlation-Id": "early-known"}
    )
    *_, last = events_of(response.text)
    assert "SEC" not in response.text
    assert (last["task"]["id"], last["task"]["status"]["state"]) == ("t7", "TASK_STATE_WORKING")
    assert last["task"]["metadata"] == {"relay_reason": "TIMEOUT"}
    gate.open.set()
    held = eventually(lambda: hasty.holder.held.get("early-known"))
    assert held[1].reply is not None
    assert held[1].reply.final


def test_a_task_that_the_agent_has_not_named_yet_gets_a_name_of_the_relays(
    agent: RawAgent, hasty_client: httpx.Client
) -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "a SECRET b"}]}
    gate = Gate(b": nothing yet\n\n", framed(result(message=message)))
    agent.behave = gate
    [last] = events_of(call(hasty_client, "masked"))
    assert last["task"]["metadata"] == {"relay_reason": "TIMEOUT"}
    gate.open.set()
    get = {"jsonrpc": "2.0", "id": 8, "method": "GetTask", "params": {"id": last["task"]["id"]}}

    def ended() -> str | None:
        text = hasty_client.post("", json=get, headers={"Authorization": "Bearer masked"}).text
        return text if "COMPLETED" in text else None

    assert "a [MASKED:REGEX] b" in eventually(ended)


def test_a_stream_that_breaks_off_is_told_as_far_as_it_came(agent: RawAgent, client: httpx.Client) -> None:
    body = framed(begun("t8"), chunk("t8", "a SEC", append=False), chunk("t8", "RET b"))
    agent.behave = writing(
        head(200, content_type="text/event-stream", content_length=str(len(body) + 10)) + body
    )
    *told, last = events_of(call(client, "masked"))
    assert [next(iter(one)) for one in told] == ["task", "artifactUpdate", "artifactUpdate"]
    assert "SEC" not in repr(told)
    assert last["error"]["message"] == "The agent's answer broke off."


def test_a_stream_that_is_too_large_to_be_judged_is_not_told_in_part(
    agent: RawAgent, client: httpx.Client
) -> None:
    first = head(200, content_type="text/event-stream") + framed(begun("t9"))
    agent.behave = writing(first, framed(chunk("t9", "x" * 1000)))
    *told, last = events_of(call(client, "masked"))
    assert [next(iter(one)) for one in told] == ["task"]
    assert "too large" in last["error"]["message"]
    assert agent.hung_up.wait(PATIENCE_S)


@pytest.mark.parametrize("state", ["COMPLETED", "INPUT_REQUIRED"])
def test_a_stream_is_judged_when_its_task_ends_or_waits_even_if_the_agent_goes_on(
    agent: RawAgent, client: httpx.Client, state: str
) -> None:
    task = f"t10-{state}"
    first = framed(begun(task), chunk(task, "all of it", append=False), status(task, state))
    agent.behave = writing(head(200, content_type="text/event-stream") + first, framed(chunk(task, "SEC")))
    found = call(client, "blocked")
    assert [next(iter(one)) for one in events_of(found)] == ["task", "artifactUpdate", "statusUpdate"]
    assert agent.hung_up.wait(PATIENCE_S)


def test_a_caller_that_leaves_ends_its_stream_at_the_agent(agent: RawAgent, client: httpx.Client) -> None:
    first = head(200, content_type="text/event-stream") + framed(begun("t11"))
    agent.behave = writing(first, b": on and on\n\n")
    with client.stream("POST", "", json=CALL, headers={"Authorization": "Bearer held"}) as response:
        next(response.iter_lines())
    assert agent.hung_up.wait(PATIENCE_S)


def test_an_answer_that_is_no_stream_is_judged_too(agent: RawAgent, client: httpx.Client) -> None:
    agent.behave = answering(200, json.dumps(chunk("t12", "a SECRET", append=False)).encode())
    assert "SECRET" not in call(client, "masked")
