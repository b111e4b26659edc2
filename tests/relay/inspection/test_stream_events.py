"""Events of whole streams, through the window of a stream: no complete match leaves before its verdict."""

import asyncio
from collections.abc import Hashable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.relay.a2a.dialects import RPC_1_0
from placet.relay.a2a.reply import A2AReply, check_reply
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.inspection.stream_texts import StreamEventBuilder, group_stream_texts
from placet.relay.inspection.stream_window import StreamWindow
from placet.relay.policy.policy import Leg
from placet.relay.policy.text_joining import join_texts
from tests.relay.inspection.test_stream_window import NUMBER, SSN, build_evaluator, find_openings
from tests.relay.policies.samples import NOW

FRAGMENTS = (
    *("536-", "22-8764", "536", "-22-", "8764", NUMBER, "1", "x", " ", "-"),
    *("and a few more words follow. ", "Some words, ", "they go on and on, until they end. "),
)
texts = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=3).map("".join)
names = st.none() | texts
SENTENCE = "These words come before everything else, and mean nothing. "


def build_part(kind: str, text: str) -> dict[str, Any]:
    if kind == "data":
        return {"data": {text: [text, 536, "more"]}}
    if kind == "file":
        return {"url": "https://files.example/x", "filename": text}
    return {"text": text}


parts = st.builds(build_part, st.sampled_from(["text", "text", "text", "data", "file"]), texts)


@st.composite
def draw_events(draw: st.DrawFn) -> dict[str, Any]:
    about: dict[str, Any] = {"taskId": "t", "contextId": "c"}
    content = draw(st.lists(parts, min_size=1, max_size=2))
    kind = draw(st.sampled_from(["artifact", "artifact", "artifact", "status", "task"]))
    if kind == "artifact":
        artifact = {"artifactId": draw(st.sampled_from(["a", "b"])), "parts": content}
        if (name := draw(names)) is not None:
            artifact = draw(st.sampled_from([{**artifact, "name": name}, {"name": name, **artifact}]))
        update = {**about, "artifact": artifact, "append": draw(st.booleans())}
        return {"artifactUpdate": update}
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": content}
    if kind == "status":
        status = {"state": "TASK_STATE_WORKING", "message": message}
        return {"statusUpdate": {**about, "status": status, "metadata": {"note": draw(texts)}}}
    artifact = {"artifactId": draw(st.sampled_from(["a", "b"])), "parts": content}
    return {
        "task": {
            "id": "t",
            "contextId": "c",
            "status": {"state": "TASK_STATE_WORKING"},
            "artifacts": [artifact],
        }
    }


def parse_events(events: list[dict[str, Any]]) -> list[A2AReply]:
    return [check_reply(RPC_1_0, "stream", {"jsonrpc": "2.0", "id": 1, "result": one}) for one in events]


def release(evaluator: PolicyEvaluator, replies: list[A2AReply], reads: list[int]) -> set[int]:
    """Return the numbers of the events that leave before the end of the stream."""
    window, builder, finder = StreamWindow(), StreamEventBuilder(), find_openings([SSN])
    released: set[int] = set()
    for number, reply in enumerate(replies):
        window.add(builder.build(reply))
        if number in reads:
            continue
        scanned = window.list_texts()
        found = asyncio.run(
            evaluator.inspect(scanned, source="s", sink="a", leg=Leg.RESPONSE_TO_SOURCE, at=NOW)
        )
        released |= {one.number for one in window.advance(found.findings, finder).released}
    return released


def list_matches(evaluator: PolicyEvaluator, replies: list[A2AReply]) -> list[set[int]]:
    """Return the numbers of the events that have a part of each match in the whole stream."""
    pieces = [reply.pieces() for reply in replies]
    events = [number for number, one in enumerate(pieces) for _ in one]
    joined = join_texts([piece for one in pieces for piece in one], group_stream_texts(replies, pieces))
    found = asyncio.run(
        evaluator.inspect(joined.scannables, source="s", sink="a", leg=Leg.RESPONSE_TO_SOURCE, at=NOW)
    )
    matches: list[set[int]] = []
    for finding in found.findings:
        number = joined.numbers[finding.piece]
        if number >= 0:
            matches.append({events[number]})
            continue
        spans = joined.spans[-1 - number]
        matches.append(
            {
                events[part.number]
                for part in spans
                if part.start < finding.end and finding.start < part.start + part.length
            }
        )
    return matches


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_complete_match_leaves_whatever_the_events(data: st.DataObject) -> None:
    evaluator = EVALUATOR
    events = data.draw(st.lists(draw_events(), min_size=1, max_size=7))
    first = {"artifactId": "z", "parts": [{"text": SENTENCE}]}
    if data.draw(st.booleans()):
        events = [{"artifactUpdate": {"taskId": "t", "artifact": first}}, *events]
    replies = parse_events(events)
    reads = data.draw(st.lists(st.integers(0, len(events)), max_size=4))
    released = release(evaluator, replies, reads)
    for match in list_matches(evaluator, replies):
        assert not match or not match <= released, (match, released, events)


EVALUATOR = build_evaluator([SSN], "HUMAN_REVIEW_REQUIRED")


def test_ordinary_events_leave() -> None:
    texts = ["Some words, ", "they go on and on, ", "until they end. ", "Here is what I found about it. "]
    events: list[dict[str, Any]] = [
        {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": [{"text": one}]}}}
        for one in texts
    ]
    for event in events[1:]:
        event["artifactUpdate"]["append"] = True
    assert release(EVALUATOR, parse_events(events), []) == {0, 1, 2, 3}


def test_events_of_one_artifact_share_one_joined_text() -> None:
    window, builder = StreamWindow(), StreamEventBuilder()
    chunk = {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": [{"text": "x"}]}}}
    for reply in parse_events([chunk] * 3):
        window.add(builder.build(reply))
    keys: dict[int, list[Hashable]] = {}
    for key, joined in window._joined.items():
        keys.setdefault(id(joined), []).append(key)
    assert len(window.list_texts()) < len(window._joined)
