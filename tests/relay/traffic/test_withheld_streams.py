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
from placet.relay.detectors.regex import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.policy.evaluation import Outcome
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import Behaviour, RawAgent, answer_with, build_head, write_bytes
from tests.relay.detectors.test_inspector import WordDetector
from tests.relay.inspection.inspected_relay import InspectedRelay, run_inspected_relay, store_policies
from tests.relay.policies.samples import build_plugin_draft, build_regex_draft
from tests.waiting import PATIENCE_S, eventually

LEGS = {"responseFromSink": True}
DRAFTS = {
    "masked": build_regex_draft("SECRET", "MASK", legs=LEGS),
    "blocked": build_regex_draft("SECRET", "BLOCK", legs=LEGS),
    "held": build_regex_draft("SECRET", "HUMAN_REVIEW_REQUIRED", legs=LEGS),
    "unbounded": build_regex_draft("SECRET.*", "MASK", legs=LEGS, name="No secrets"),
    "logged": build_regex_draft("SECRET", "LOG", legs=LEGS),
    "whole": build_regex_draft("SECRET", "MASK", legs=LEGS, streaming="whole"),
    "words": {**build_plugin_draft("x-words", "MASK", words=["SECRET"]), "streaming": "window"},
    "observed": build_regex_draft("SECRET", "BLOCK", legs=LEGS, streaming="observe"),
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
    detectors = DetectorRegistry([RegexDetector(), WordDetector()])
    with run_inspected_relay(settings, store, detectors, **limits) as relay:
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


@pytest.mark.parametrize("first", [frame_events(build_first_event("t7")), b": nothing yet\n\n"])
def test_stream_stays_open_after_the_early_return(
    agent: RawAgent, early_return_client: httpx.Client, first: bytes
) -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "a SECRET b"}]}
    gate = PausedStream(first, frame_events(build_result(message=message)))
    agent.behave = gate
    lines, heartbeats = [], 0
    headers = {"Authorization": "Bearer masked"}
    with early_return_client.stream("POST", "", json=CALL, headers=headers) as response:
        for line in response.iter_lines():
            lines.append(line)
            heartbeats += line.startswith(":")
            if heartbeats == 8:  # twice as long as the early return
                gate.open.set()
    assert "TIMEOUT" not in "".join(lines)
    assert "a [MASKED:REGEX] b" in lines[-2]


def test_stream_is_held_after_the_early_return(
    early_return_relay: InspectedRelay, agent: RawAgent, early_return_client: httpx.Client
) -> None:
    then = frame_events(build_chunk("t14", "RET"), build_status("t14", "COMPLETED"))
    gate = PausedStream(frame_events(build_first_event("t14"), build_chunk("t14", "SEC", append=False)), then)
    agent.behave = gate
    lines, heartbeats = [], 0
    headers = {"Authorization": "Bearer held", "X-Correlation-Id": "held-late"}
    with early_return_client.stream("POST", "", json=CALL, headers=headers) as response:
        for line in response.iter_lines():
            lines.append(line)
            heartbeats += line.startswith(":")
            if heartbeats == 8:
                gate.open.set()
            if "HITL_HELD" in line:
                break
    assert not any("artifactUpdate" in line for line in lines)
    held = eventually(lambda: early_return_relay.holder.held.get("held-late"))
    assert held.message.final


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


@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "AUTH_REQUIRED"])
@pytest.mark.parametrize("caller", ["masked", "held", "blocked"])
def test_subscription_goes_on_after_the_task_has_waited(
    agent: RawAgent, client: httpx.Client, state: str, caller: str
) -> None:
    task = f"t10-{state}-{caller}"
    agent.behave = answer_with(200, json.dumps(build_first_event(task)).encode())
    assert task in call(client, caller, method="SendMessage")
    question = "Which SECRET?" if caller == "masked" else "Which one?"
    agent.behave = gate = PausedStream(
        frame_events(build_first_event(task), build_status(task, state, question)),
        frame_events(
            build_status(task, "WORKING"),
            build_chunk(task, "done", append=False),
            build_status(task, "COMPLETED"),
        ),
    )
    over = {"method": "SubscribeToTask", "params": {"id": task}}
    told = parse_events("\n".join(stream_until(client, caller, gate, f"TASK_STATE_{state}", **over)))
    states = [one["statusUpdate"]["status"]["state"] for one in told if "statusUpdate" in one]
    assert states == [f"TASK_STATE_{state}", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert [one for one in told if "artifactUpdate" in one]
    assert "SECRET" not in str(told)


def test_match_after_a_wait_is_found(agent: RawAgent, client: httpx.Client) -> None:
    agent.behave = answer_with(200, json.dumps(build_first_event("t10-late")).encode())
    call(client, "blocked", method="SendMessage")
    agent.behave = gate = PausedStream(
        frame_events(build_first_event("t10-late"), build_status("t10-late", "INPUT_REQUIRED", "Which one?")),
        frame_events(
            build_chunk("t10-late", "a SECRET", append=False), build_status("t10-late", "COMPLETED")
        ),
    )
    over = {"method": "SubscribeToTask", "params": {"id": "t10-late"}}
    lines = stream_until(client, "blocked", gate, "INPUT_REQUIRED", **over)
    *_, last = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert "blocked" in last["error"]["message"]
    assert "a SECRET" not in "".join(lines)


def test_a_caller_that_leaves_ends_its_stream_at_the_agent(agent: RawAgent, client: httpx.Client) -> None:
    first = build_head(200, content_type="text/event-stream") + frame_events(build_first_event("t11"))
    agent.behave = write_bytes(first, b": on and on\n\n")
    with client.stream("POST", "", json=CALL, headers={"Authorization": "Bearer held"}) as response:
        next(response.iter_lines())
    assert agent.hung_up.wait(PATIENCE_S)


def stream_until(
    client: httpx.Client, caller: str, gate: PausedStream, wanted: str, **over: Any
) -> list[str]:
    """The lines of a stream whose agent goes on only after the caller has got this text."""
    lines = []
    with client.stream(
        "POST", "", json=CALL | over, headers={"Authorization": f"Bearer {caller}"}
    ) as response:
        for line in response.iter_lines():
            lines.append(line)
            if wanted in line:
                gate.open.set()
    return lines


WORDS = [
    "It is a long ",
    "story, and ",
    "it goes on for ",
    "many, many words, ",
    "until ",
    "it ends, ",
    "whenever that may be. ",
]


def build_words(task: str, words: list[str]) -> list[dict[str, Any]]:
    return [build_chunk(task, word, append=number > 0) for number, word in enumerate(words)]


@pytest.mark.parametrize("caller", ["masked", "blocked", "held"])
def test_text_flows_while_the_agent_writes(agent: RawAgent, client: httpx.Client, caller: str) -> None:
    task = f"t15-{caller}"
    agent.behave = gate = PausedStream(
        frame_events(build_first_event(task), *build_words(task, WORDS)),
        frame_events(build_chunk(task, "the end."), build_status(task, "COMPLETED")),
    )
    lines = stream_until(client, caller, gate, "many, many words")
    told = parse_events("\n".join(lines))
    parts = [one["artifactUpdate"]["artifact"]["parts"] for one in told if "artifactUpdate" in one]
    assert [part["text"] for [part] in parts] == [*WORDS, "the end."]
    assert told[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_match_is_masked_while_the_stream_goes_on(
    relay: InspectedRelay, agent: RawAgent, client: httpx.Client
) -> None:
    words = ["This is SEC", "RET and ", *WORDS, "so on "]
    agent.behave = gate = PausedStream(
        frame_events(build_first_event("t16"), *build_words("t16", words)),
        frame_events(build_chunk("t16", "and SECRET."), build_status("t16", "COMPLETED")),
    )
    lines = stream_until(client, "masked", gate, "many, many words")
    told = parse_events("\n".join(lines))
    parts = [one["artifactUpdate"]["artifact"]["parts"] for one in told if "artifactUpdate" in one]
    assert [part["text"] for [part] in parts] == [
        *("This is [MASKED:REGEX]", "[MASKED:REGEX] and ", *WORDS, "so on ", "and [MASKED:REGEX]."),
    ]


MANY = [f"word{letter} " for letter in "abcdefghijklmnopqrstuvwxyz" * 3]


@pytest.mark.parametrize("caller", ["masked", "whole", "blocked", "held", "logged"])
@pytest.mark.parametrize("place", [3, 50, 74, None])
def test_match_is_found_among_many_events_of_one_read(
    relay: InspectedRelay, agent: RawAgent, client: httpx.Client, caller: str, place: int | None
) -> None:
    task = f"t24-{caller}-{place}"
    words = [*MANY]
    if place is not None:
        words[place : place + 3] = ["a SEC", "RE", "T b "]
    agent.behave = stream_events(
        build_first_event(task), *build_words(task, words), build_status(task, "COMPLETED")
    )
    found = call(client, caller)
    told = parse_events(found)
    texts = [one["artifactUpdate"]["artifact"]["parts"][0]["text"] for one in told if "artifactUpdate" in one]
    masked = [text.replace("SEC", "").replace("RE", "").replace("T b", " b") for text in words]
    if place is None or caller == "logged":
        assert texts == words
    elif caller in ("masked", "whole"):
        assert [text.replace("[MASKED:REGEX]", "") for text in texts] == masked
        assert "".join(texts).count("[MASKED:REGEX]") == 3
    else:
        assert texts == words[: len(texts)]
        assert len(texts) <= place
        assert ("HITL_HELD" in found) == (caller == "held")


def test_match_ends_a_blocked_stream(agent: RawAgent, client: httpx.Client) -> None:
    words = [*WORDS, "a SEC", "RET, and ", "so on ", "and on "]
    first = frame_events(build_first_event("t17"), *build_words("t17", words))
    agent.behave = write_bytes(build_head(200, content_type="text/event-stream") + first, b": on and on\n\n")
    *told, last = parse_events(call(client, "blocked"))
    texts = [one["artifactUpdate"]["artifact"]["parts"][0]["text"] for one in told if "artifactUpdate" in one]
    assert texts == WORDS
    assert last["error"]["code"] == -32080
    assert agent.hung_up.wait(PATIENCE_S)


def test_match_holds_the_rest_of_a_stream(
    relay: InspectedRelay, agent: RawAgent, client: httpx.Client
) -> None:
    words = [*WORDS, "a SECRET, ", "and so on. ", *WORDS]
    events = build_words("t18", words)
    agent.behave = gate = PausedStream(
        frame_events(build_first_event("t18"), *events[:7]),
        frame_events(*events[7:], build_status("t18", "COMPLETED")),
    )
    lines = []
    headers = {"Authorization": "Bearer held", "X-Correlation-Id": "held-rest"}
    with client.stream("POST", "", json=CALL, headers=headers) as response:
        for line in response.iter_lines():
            lines.append(line)
            if "many, many words" in line:
                gate.open.set()
            if "HITL_HELD" in line:
                break
    *told, held = parse_events("\n".join(lines))
    assert not any("SECRET, " in repr(one) or "and so on" in repr(one) for one in told)
    assert held["task"]["status"]["state"] == "TASK_STATE_WORKING"
    kept = relay.holder.held["held-rest"]
    assert "".join(piece.text for piece in kept.message.pieces() if ".parts[" in piece.path) == "".join(words)
    assert kept.exchange.state.released_events == len(told) > 4
    [event] = relay.trail.of("held-rest", "REGEX_DETECTION")
    assert event["metadata"]["releasedEvents"] == len(told)


@pytest.mark.parametrize("has_task", [True, False])
def test_stream_that_must_be_inspected_whole_says_so(
    agent: RawAgent, client: httpx.Client, has_task: bool
) -> None:
    task = f"t20-{has_task}"
    first = [build_first_event(task)] if has_task else []
    agent.behave = gate = PausedStream(
        frame_events(*first, *build_words(task, WORDS)),
        frame_events(build_chunk(task, "the SECRET end."), build_status(task, "COMPLETED")),
    )
    lines = stream_until(client, "unbounded", gate, ": inspection in progress")
    told = parse_events("\n".join(lines[: lines.index(": inspection in progress")]))
    assert len(told) == len(first)
    first_event, *rest = parse_events("\n".join(lines))
    assert next(iter(first_event.values()))["metadata"] == {
        "relay_streaming": "whole",
        "relay_streaming_policy": "No secrets",
    }
    assert "the [MASKED:REGEX]" in repr(rest)
    assert "relay_streaming" not in repr(rest)


def test_policy_may_ask_for_the_whole_stream(agent: RawAgent, client: httpx.Client) -> None:
    agent.behave = stream_events(
        build_first_event("t21"), *build_words("t21", WORDS), build_status("t21", "COMPLETED")
    )
    first, *_ = parse_events(call(client, "whole"))
    assert first["task"]["metadata"]["relay_streaming"] == "whole"


def test_observed_stream_leaves_at_once_and_is_reported_afterwards(
    relay: InspectedRelay, agent: RawAgent, client: httpx.Client
) -> None:
    words = ["a SEC", "RET, ", "and "]
    agent.behave = gate = PausedStream(
        frame_events(build_first_event("t22"), *build_words("t22", words)),
        frame_events(build_chunk("t22", "so on."), build_status("t22", "COMPLETED")),
    )
    headers = {"Authorization": "Bearer observed", "X-Correlation-Id": "observed-1"}
    lines = []
    with client.stream("POST", "", json=CALL, headers=headers) as response:
        for line in response.iter_lines():
            lines.append(line)
            if '"and "' in line:
                gate.open.set()
    assert gate.open.is_set()
    assert "RET, " in "".join(lines)
    assert "COMPLETED" in lines[-2]
    assert relay.holder.observed["observed-1"].outcome is Outcome.BLOCK
    [event] = relay.trail.of("observed-1", "REGEX_DETECTION")
    assert (event["auditAction"], event["metadata"]["streaming"]) == ("WARN", "observe")
    [audited] = eventually(lambda: relay.trail.of("observed-1", "COMMUNICATION_AUDIT"))
    assert audited["auditAction"] == "WARN"


def test_window_of_unknown_width_flows_in_larger_steps(agent: RawAgent, client: httpx.Client) -> None:
    before, after = (
        ["some words " for _ in range(50)],
        ["a SEC", "RET b ", *("some words " for _ in range(15))],
    )
    agent.behave = gate = PausedStream(
        frame_events(build_first_event("t25"), *build_words("t25", [*before, *after])),
        frame_events(build_chunk("t25", "and SECRET"), build_status("t25", "COMPLETED")),
    )
    lines = stream_until(client, "words", gate, '"text":"some words "')
    told = parse_events("\n".join(lines))
    texts = [one["artifactUpdate"]["artifact"]["parts"][0]["text"] for one in told if "artifactUpdate" in one]
    masked = ["a [MASKED:WORD]", "[MASKED:WORD] b "]
    assert texts == [*before, *masked, *after[2:], "and [MASKED:WORD]"]


def test_caller_that_leaves_an_observed_stream_is_reported(
    relay: InspectedRelay, agent: RawAgent, client: httpx.Client
) -> None:
    first = build_head(200, content_type="text/event-stream") + frame_events(
        build_first_event("t23"), build_chunk("t23", "a SECRET", append=False)
    )
    agent.behave = write_bytes(first, b": on and on\n\n")
    headers = {"Authorization": "Bearer observed", "X-Correlation-Id": "observed-2"}
    with client.stream("POST", "", json=CALL, headers=headers) as response:
        next(line for line in response.iter_lines() if "SECRET" in line)
    assert eventually(lambda: relay.holder.observed.get("observed-2")).findings


def test_file_in_a_stream_stops_the_flow(agent: RawAgent, client: httpx.Client) -> None:
    file = build_chunk("t19", "", append=False, artifact="f")
    file["result"]["artifactUpdate"]["artifact"]["parts"] = [{"raw": "AAAA", "filename": "a.bin"}]
    agent.behave = stream_events(
        build_first_event("t19"), file, *build_words("t19", WORDS), build_status("t19", "COMPLETED")
    )
    told = parse_events(call(client, "masked"))
    assert not any("artifactUpdate" in one for one in told)
    assert "HITL_HELD" in repr(told[-1])


def test_reply_without_a_stream_is_inspected(agent: RawAgent, client: httpx.Client) -> None:
    agent.behave = answer_with(200, json.dumps(build_chunk("t12", "a SECRET", append=False)).encode())
    assert "SECRET" not in call(client, "masked")
