"""Events that are recognised by their bytes are read and written as if they were parsed."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.relay.a2a.chunk_template import ChunkTemplate, build_encoder, build_template
from placet.relay.a2a.dialects import RPC_0_3, RPC_1_0, Dialect
from placet.relay.a2a.reply import A2AReply, parse_reply
from placet.relay.a2a.sse import get_event_data, replace_data
from placet.relay.policy.text_joining import is_content


def build_event(text: str, dialect: Dialect = RPC_1_0, **artifact: Any) -> bytes:
    piece = {"artifactId": "a", "parts": [{"text": text}], **artifact}
    update: dict[str, Any] = {"taskId": "t", "contextId": "c", "artifact": piece, "append": True}
    result = {"kind": "artifact-update", **update} if dialect == RPC_0_3 else {"artifactUpdate": update}
    if dialect == RPC_0_3:
        piece["parts"] = [{"kind": "text", "text": text}]
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode() + b"\n\n"


def parse(event: bytes, dialect: Dialect = RPC_1_0) -> A2AReply:
    return parse_reply(dialect, "stream", get_event_data(event) or b"")


def make_template(event: bytes, dialect: Dialect = RPC_1_0) -> ChunkTemplate | None:
    reply = parse(event, dialect)
    return build_template(event, reply, [piece for piece in reply.pieces() if is_content(piece)])


@pytest.mark.parametrize("dialect", [RPC_1_0, RPC_0_3], ids=str)
@given(text=st.text(max_size=40))
def test_recognised_event_is_read_and_written_as_if_parsed(dialect: Dialect, text: str) -> None:
    template = make_template(build_event("Hello ", dialect), dialect)
    assert template is not None
    event = build_event(text, dialect)
    found = template.read_text(event)
    assert found == text or (found is None and (not text or "data:" in text.lower()))
    encoder = build_encoder(template, template.reply)
    assert encoder is not None
    written = get_event_data(encoder.encode(text))
    parsed = get_event_data(replace_data(event, parse(event, dialect).document))
    assert written is not None
    assert parsed is not None
    assert msgspec.json.decode(written) == msgspec.json.decode(parsed)


@given(data=st.data())
def test_event_with_other_bytes_is_the_same_document_or_not_recognised(data: st.DataObject) -> None:
    template = make_template(build_event("Hello "))
    assert template is not None
    event = bytearray(build_event("world"))
    inserted = st.sampled_from(
        [b'"', b"\\", b'","text":"x', b'"},{"text":"', b"\n", b"}", b",", b'\\"', b" "]
    )
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(event)))
        event[place:place] = data.draw(inserted)
    found = template.read_text(bytes(event))
    if found is None:
        return
    expected = json.loads(get_event_data(build_event("?")) or b"")
    expected["result"]["artifactUpdate"]["artifact"]["parts"][0]["text"] = found
    assert json.loads(bytes(event)[len(b"data: ") :]) == expected


@pytest.mark.parametrize(
    "event",
    [
        build_event("x", metadata={"note": "y"}),
        build_event("x", name="y"),
        build_event("x", parts=[{"text": "x"}, {"text": "y"}]),
        build_event("x", parts=[{"text": "x", "metadata": {"text": "y"}}]),
        build_event("x", parts=[{"data": {"text": "y"}}]),
        build_event("x").replace(b'"append": true', b'"append": false'),
        build_event("x").replace(b'"text": "x"', b'"text": "y", "text": "x"'),
        build_event("x").replace(b'"text"', b'"te\\u0078t"'),
        b"id: 1\n" + build_event("x"),
        build_event("x").replace(b"data: {", b"data:  {"),
    ],
)
def test_other_events_have_no_template(event: bytes) -> None:
    assert make_template(event) is None


@pytest.mark.parametrize(
    "text", ["", "data:text/plain;base64,QUFB", "JVBERi0xLjQKJcfsj6IKNSAwIG9iago8PC9MZW5n"]
)
def test_text_that_may_have_a_file_is_parsed(text: str) -> None:
    template = make_template(build_event("Hello "))
    assert template is not None
    assert template.read_text(build_event(text)) is None
