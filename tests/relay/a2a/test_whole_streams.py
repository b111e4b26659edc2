"""Whole streams read at once come to the same as event by event, however they are written."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.relay.a2a.dialects import REST_1_0, RPC_0_3, RPC_1_0, Dialect
from placet.relay.a2a.errors import A2AError
from placet.relay.a2a.reply import parse_reply
from placet.relay.a2a.sse import EventSplitter, decode_events, encode_event, get_event_data
from placet.relay.a2a.stream_merging import merge_event_documents, merge_events

PARTS: list[list[dict[str, Any]]] = [[], [{"text": "a"}], [{"text": "b"}, {"data": {"c": 1}}]]
KINDS = {"artifactUpdate": "artifact-update", "statusUpdate": "status-update"}
APPENDS: list[dict[str, Any]] = [{}, {"append": True}, {"append": True}, {"append": False}, {"append": 1}]
ids = st.sampled_from(["one", "two"])
tasks = st.sampled_from(["t1", "t2"])


def build_stream_event(dialect: Dialect, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    result = {"kind": KINDS[kind], **payload} if dialect == RPC_0_3 else {kind: payload}
    return {"jsonrpc": "2.0", "id": 1, "result": result} if dialect.rpc else result


@st.composite
def draw_updates(draw: st.DrawFn, dialect: Dialect) -> dict[str, Any]:
    about: dict[str, Any] = {"taskId": draw(tasks), "contextId": "c"}
    if draw(st.booleans()) and draw(st.booleans()):
        metadata: dict[str, Any] = draw(st.sampled_from([{}, {"metadata": {"m": draw(ids)}}]))
        return build_stream_event(
            dialect, "statusUpdate", {**about, "status": {"state": "working"}, **metadata}
        )
    artifact: dict[str, Any] = {"artifactId": draw(ids), "parts": draw(st.sampled_from(PARTS))}
    artifact |= draw(st.sampled_from([{}, {"name": "n"}, {"metadata": {}}]))
    if draw(st.booleans()):
        artifact.pop(draw(st.sampled_from(sorted(artifact))))
    more: dict[str, Any] = draw(
        st.sampled_from([{}, {"append": True}, {"append": True}, {"append": False}, {"append": 1}])
    )
    return build_stream_event(dialect, "artifactUpdate", {**about, "artifact": artifact, **more})


@pytest.mark.parametrize("dialect", [RPC_1_0, RPC_0_3, REST_1_0], ids=str)
@given(data=st.data())
def test_merging_documents_equals_merging_parsed_events(dialect: Dialect, data: st.DataObject) -> None:
    events = data.draw(st.lists(draw_updates(dialect), max_size=12))
    before = msgspec.json.encode(events)
    slow = merge_events([parse_reply(dialect, "stream", msgspec.json.encode(one)) for one in events], 1)
    fast = merge_event_documents(events, dialect, "stream", 1)
    assert (slow and slow.document) == (fast and fast.document)
    assert msgspec.json.encode(events) == before


def test_error_or_message_ends_the_merged_stream() -> None:
    first = build_stream_event(
        RPC_1_0, "artifactUpdate", {"taskId": "t", "artifact": {"artifactId": "a", "parts": []}}
    )
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}
    found = merge_event_documents([first, error, first], RPC_1_0, "stream")
    assert found is not None
    assert found.document == error
    with pytest.raises(A2AError):
        merge_event_documents([first, {"neither": 1}], RPC_1_0, "stream")
    with pytest.raises(A2AError):
        merge_event_documents([[]], RPC_1_0, "stream")


@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"a": 1}\n\ndata: {"a": 2}\n\n',
        b'data: {"a": 1}\r\n\r\ndata: {"a": 2}\r\n\r\n',
        b': hello\n\ndata: {"a": 1}\n\nid: 7\ndata: {"a": 2}\n\n',
        b'data: {"a":\ndata: 1}\n\ndata:{"a": 2}\n\n',
        b'event: x\ndata: {"a": 1}\n\ndata: {"a": 2}\n\ndata: {"a": 3}',
    ],
)
def test_stream_documents_are_parsed_in_every_framing(stream: bytes) -> None:
    assert decode_events(stream) == [{"a": 1}, {"a": 2}]


HALVES = [
    b'data: {"a": 1\n\ndata: 2}\n\n',
    b"data: [1\n\ndata: 2]\n\n",
    b"data: [1,\n\ndata: 2]\n\n",
    b'data: {"a": [{}\n\ndata: {}]}\n\n',
    b'data: {"a": [{},\n\ndata: {}]}\n\n',
    b'data: {"a": [{}\n\ndata: {}]},{}\n\n',
    b"data: {}{}\n\ndata: {}\n\n",
    b"data: {} {}\n\ndata: {}\n\n",
]


@pytest.mark.parametrize("stream", HALVES)
def test_json_split_over_two_events_is_not_joined(stream: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_events(stream)


@given(
    st.lists(st.sampled_from([b"data: 1", b"\n", b"\n\n", b"\r", b"\r\n", b": x", b"data: 2"]), max_size=12),
    st.integers(1, 7),
)
def test_events_are_split_the_same_for_all_chunk_sizes(parts: list[bytes], size: int) -> None:
    whole = b"".join(parts)
    pieces = [whole[place : place + size] for place in range(0, len(whole), size)]
    by_piece = EventSplitter(limit=1000)
    cut = [event for piece in pieces for event in by_piece.feed(piece)]
    if b"\r" not in whole:
        at_once = EventSplitter(limit=1000)
        assert cut == at_once.feed(whole)
        assert by_piece.rest == at_once.rest
    assert b"".join(cut) + by_piece.rest == whole


def test_an_event_that_is_too_large_ends_the_stream() -> None:
    splitter = EventSplitter(limit=20)
    small, large = encode_event(1), encode_event("x" * 50)
    assert splitter.feed(small + large + small) == [small]
    assert splitter.overrun
    assert splitter.feed(small) == []
    assert get_event_data(small) == b"1"
