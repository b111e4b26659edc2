"""Names that A2A does not know are somebody's words, and are looked at like any other."""

import json
from typing import Any
from uuid import uuid4

import pytest
from a2a.compat.v0_3 import types as legacy
from a2a.types import a2a_pb2
from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]
from pydantic import BaseModel

from placet.relay.a2a.call import parse_call
from placet.relay.a2a.reply import parse_reply
from placet.relay.a2a.text_extraction import FIELD_NAMES

OLDER: tuple[type[BaseModel], ...] = (
    legacy.Message,
    legacy.Task,
    legacy.TextPart,
    legacy.FilePart,
    legacy.DataPart,
    legacy.FileWithBytes,
    legacy.FileWithUri,
    legacy.Artifact,
    legacy.TaskStatusUpdateEvent,
    legacy.TaskArtifactUpdateEvent,
)
SAID = "my SSN is 536-22-8764"


def build_call(message: dict[str, Any], **params: Any) -> Any:
    said = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}], **message}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said, **params}}
    return parse_call(
        method="POST",
        path="",
        query="",
        version="1.0",
        content_type="application/json",
        body=json.dumps(body).encode(),
    )


@pytest.mark.parametrize("value", [1, True, None, "", {}, {"deeper": []}])
def test_unknown_member_names_are_inspected_at_every_depth(value: Any):
    calls = [
        build_call({SAID: value}),
        build_call({"parts": [{"text": "hi", SAID: value}]}),
        build_call({"parts": [{"other": {SAID: value}}]}),
        build_call({}, **{SAID: value}),
    ]
    for one in calls:
        assert SAID in [piece.text for piece in one.pieces()]
        (place,) = (place for place, piece in enumerate(one.pieces()) if piece.text == SAID)
        texts = [piece.text for piece in one.pieces()]
        texts[place] = "[MASKED]"
        assert SAID not in json.dumps(one.with_texts(texts))


def test_member_names_in_replies_are_inspected():
    asked = build_call({})
    task = {"id": "t", "status": {"state": "TASK_STATE_WORKING", SAID: 1}, "artifacts": [{SAID: 1}], SAID: 1}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()
    found = [piece.text for piece in parse_reply(asked.dialect, asked.operation, body).pieces()]
    assert found.count(SAID) == 3


def test_ordinary_message_yields_only_its_texts():
    message = {"parts": [{"text": "hi", "mediaType": "text/plain"}], "messageId": str(uuid4())}
    assert [piece.text for piece in build_call(message).pieces()] == ["hi"]


def test_every_protocol_member_name_is_known():
    names: set[str] = set()
    seen: set[str] = set()

    def collect(shape: Descriptor) -> None:
        if shape.full_name in seen or "a2a" not in shape.full_name:
            return
        seen.add(shape.full_name)
        for field in shape.fields:
            names.update((field.name, field.json_name))
            if field.message_type is not None:
                collect(field.message_type)

    for kind in ("Message", "Task", "StreamResponse", "ListTasksResponse"):
        collect(getattr(a2a_pb2, kind).DESCRIPTOR)
    for older in OLDER:
        names.update(field.alias or name for name, field in older.model_fields.items())
    assert names <= FIELD_NAMES
