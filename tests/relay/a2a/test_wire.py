"""A2A in four dialects: the official SDK reads what the relay builds, and the relay reads all there is."""

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.compat.v0_3 import types as types_v03
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from placet.relay.a2a.call import A2ACall, CallParseError, parse_call
from placet.relay.a2a.dialects import (
    DIALECTS,
    REST_0_3,
    REST_1_0,
    RPC_0_3,
    RPC_1_0,
    STATES,
    Dialect,
    TaskState,
    format_state,
)
from placet.relay.a2a.errors import A2AError, build_error_body, get_error_status
from placet.relay.a2a.json_format import (
    build_message,
    build_task,
    build_task_reply,
    build_text_part,
    get_parts,
    replace_task_id,
    translate_part,
)
from placet.relay.a2a.reply import A2AReply, digest_message, parse_reply
from placet.relay.a2a.sse import EventSplitter, encode_event, get_event_data, replace_data
from placet.relay.policy.binding import BindingLevel
from placet.relay.policy.verdict import HoldingPolicy
from placet.relay.task import RelayReason, build_reason_metadata
from tests.relay.a2a.status_events import build_status_event, build_status_reply

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KNOWN = sorted(set(STATES.values()) - {"unknown"})
by_name = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: f"{one.binding} {one.version}")

POLICY = HoldingPolicy(id="p", name="SSN", version="3", level=BindingLevel.AGENT)
NAMED = {"policy_name": "SSN", "policy_version": "3", "policy_level": "AGENT"}
REASONS: list[tuple[RelayReason, HoldingPolicy | None, dict[str, Any]]] = [
    ("TIMEOUT", None, {"relay_reason": "TIMEOUT"}),
    ("HITL_HELD", POLICY, {"relay_reason": "HITL_HELD", **NAMED}),
    ("HITL_HELD_AGENT_INPUT_REQUIRED", None, {"relay_reason": "HITL_HELD_AGENT_INPUT_REQUIRED"}),
    ("HITL_REJECTED", None, {"relay_reason": "HITL_REJECTED", **dict.fromkeys(NAMED)}),
    ("HITL_EXPIRED", POLICY, {"relay_reason": "HITL_EXPIRED", **NAMED}),
]


@pytest.mark.parametrize(("reason", "policy", "metadata"), REASONS)
def test_a_reason_names_its_policy_or_null(
    reason: RelayReason, policy: HoldingPolicy | None, metadata: dict[str, Any]
) -> None:
    assert build_reason_metadata(reason, policy) == metadata


def parse_with_sdk(document: dict[str, Any], dialect: Dialect) -> Any:
    if dialect == RPC_0_3:
        return types_v03.Task.model_validate(document)
    module = a2a_v0_3_pb2 if dialect == REST_0_3 else a2a_pb2
    return ParseDict(document, module.Task())  # strict: an unknown field or state fails


@by_name
@pytest.mark.parametrize("state", KNOWN)
def test_built_task_is_valid_for_the_sdk(dialect: Dialect, state: TaskState) -> None:
    said = build_message(
        message_id="m",
        role="agent",
        parts=[build_text_part("hi", dialect)],
        dialect=dialect,
        task_id="t",
        context_id="c",
    )
    metadata = build_reason_metadata("HITL_REJECTED")
    built = build_task(
        task_id="t",
        context_id="c",
        state=state,
        at=AT,
        dialect=dialect,
        metadata=metadata,
        status_message=said,
    )
    assert parse_with_sdk(built, dialect).id == "t"
    for operation in ("send", "get", "stream"):
        document = build_task_reply(built, operation, dialect, "7")
        reply = parse_reply(dialect, operation, json.dumps(document).encode())
        assert (reply.task_id, reply.context_id, reply.state) == ("t", "c", state)
        assert reply.task is not None
        assert reply.task["metadata"] == metadata
        assert [piece.text for piece in reply.pieces() if piece.role == "value"][:1] == ["hi"]


@by_name
@pytest.mark.parametrize("state", ["working", "completed", "canceled"])
def test_built_status_event_is_valid_for_the_sdk(dialect: Dialect, state: TaskState) -> None:
    built = build_status_event(
        task_id="t", context_id="c", state=state, at=AT, dialect=dialect, metadata={"a": None}
    )
    if dialect == RPC_0_3:
        types_v03.TaskStatusUpdateEvent.model_validate(built)
    else:
        module = a2a_v0_3_pb2 if dialect == REST_0_3 else a2a_pb2
        ParseDict({"statusUpdate": built}, module.StreamResponse())
    reply = A2AReply(dialect=dialect, operation="stream", document=build_status_reply(built, dialect, 7))
    assert (reply.task_id, reply.state, reply.final) == ("t", state, state != "working")


def test_each_dialect_spells_a_cancelled_task_in_its_own_way() -> None:
    assert [format_state("canceled", dialect) for dialect in (RPC_1_0, RPC_0_3, REST_1_0, REST_0_3)] == [
        "TASK_STATE_CANCELED",
        "canceled",
        "TASK_STATE_CANCELED",
        "TASK_STATE_CANCELLED",
    ]


@by_name
def test_error_is_written_in_each_dialect(dialect: Dialect) -> None:
    problem = A2AError("task_not_found", "Task not found")
    body = build_error_body(problem, dialect, 7)
    if dialect.rpc:
        assert (get_error_status(problem, dialect), body["id"], body["error"]["code"]) == (200, 7, -32001)
    else:
        assert (get_error_status(problem, dialect), body["error"]["status"]) == (404, "NOT_FOUND")
    assert body.get("type") == ("TaskNotFoundError" if dialect == REST_0_3 else None)


def recognise_call(method: str, path: str, body: Any = None, version: str | None = "1.0") -> A2ACall:
    return parse_call(
        method=method,
        path=path,
        query="",
        version=version,
        content_type="application/json",
        body=b"" if body is None else json.dumps(body).encode(),
    )


def build_envelope(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


@pytest.mark.parametrize(
    ("call", "dialect", "operation", "path"),
    [
        (("POST", "", build_envelope("SendMessage", message={})), RPC_1_0, "send", ""),
        (("POST", "/", build_envelope("message/stream", message={}), "0.3"), RPC_0_3, "stream", ""),
        (("POST", "", build_envelope("tasks/get", id="t"), None), RPC_0_3, "get", ""),
        (("POST", "/message:send", {"message": {}}), REST_1_0, "send", "/message:send"),
        (
            ("POST", "/acme/message:send", {"message": {}}, "1.0.1"),
            REST_1_0,
            "send",
            "/acme/message:send",
        ),
        (("POST", "/v1/message:stream", {"request": {}}, None), REST_0_3, "stream", "/v1/message:stream"),
        (("GET", "/tasks/a b"), REST_1_0, "get", "/tasks/a%20b"),
        (("GET", "/tasks"), REST_1_0, "list", "/tasks"),
        (("GET", "/tasks/t:subscribe"), REST_1_0, "subscribe", "/tasks/t:subscribe"),
        (("POST", "/v1/tasks/t:subscribe", None, "0.3"), REST_0_3, "subscribe", "/v1/tasks/t:subscribe"),
        (("GET", "/v1/card", None, "0.3"), REST_0_3, "extended_card", "/v1/card"),
        (("GET", "/extendedAgentCard"), REST_1_0, "extended_card", "/extendedAgentCard"),
        (
            ("DELETE", "/tasks/t/pushNotificationConfigs/p"),
            REST_1_0,
            "push_delete",
            "/tasks/t/pushNotificationConfigs/p",
        ),
    ],
)
def test_request_is_recognised_by_method_and_path(
    call: Any, dialect: Dialect, operation: str, path: str
) -> None:
    found = recognise_call(*call)
    assert (found.dialect, found.operation, found.path) == (dialect, operation, path)


MESSAGE = {
    "messageId": "m",
    "role": "ROLE_USER",
    "parts": [
        {"text": "one"},
        {"data": {"name": "two", "deep": [{"x": "three"}, 4, None]}},
        {"raw": "AAAA", "filename": "four.txt", "mediaType": "text/plain"},
        {"kind": "file", "file": {"name": "five.txt", "bytes": "AAAA", "mimeType": "text/plain"}},
        {"url": "https://six.example"},
        {"text": "", "futureField": "seven"},
    ],
    "metadata": {"eight": "nine"},
}


def test_every_text_of_a_message_is_listed_with_its_path() -> None:
    call = recognise_call(
        "POST", "", build_envelope("SendMessage", message=MESSAGE, metadata={"ten": "eleven"})
    )
    values = [(piece.path, piece.text) for piece in call.pieces() if piece.role in ("value", "number")]
    assert values == [
        ("message.parts[0].text", "one"),
        ("message.parts[1].data.name", "two"),
        ("message.parts[1].data.deep[0].x", "three"),
        ("message.parts[1].data.deep[1]", "4"),
        ("message.parts[2].filename", "four.txt"),
        ("message.parts[3].file.name", "five.txt"),
        ("message.parts[4].url", "https://six.example"),
        ("message.parts[5].futureField", "seven"),
        ("message.metadata.eight", "nine"),
        ("params.metadata.ten", "eleven"),
    ]
    assert [piece.text for piece in call.pieces() if piece.role == "key"] == [
        "name",
        "deep",
        "x",
        "futureField",
        "eight",
        "ten",
    ]
    assert call.unreadable_paths() == ["message.parts[2].raw", "message.parts[3].file.bytes"]


def test_changed_number_becomes_text_and_others_stay_numbers() -> None:
    message = {"parts": [{"data": {"card": 4111111111111111, "count": 2, "paid": True}}]}
    call = recognise_call("POST", "", build_envelope("SendMessage", message=message))
    texts = ["[MASKED]" if piece.text.startswith("4111") else piece.text for piece in call.pieces()]
    [part] = call.with_texts(texts)["params"]["message"]["parts"]
    assert part["data"] == {"card": "[MASKED]", "count": 2, "paid": True}


@pytest.mark.parametrize("text", ["name,ssn\nAda,536-22-8764\n", "é" * 600 + "🙂>?~", "\ufeffx"])
@pytest.mark.parametrize("spelled", [str, lambda content: content.rstrip("="), "\n".join, "!".join])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_text_file_content_is_listed_and_replaceable(encode: Any, spelled: Any, text: str) -> None:
    content = spelled(encode(text.encode()).decode())
    message = {"parts": [{"raw": content, "mediaType": "application/octet-stream"}]}
    call = recognise_call("POST", "", build_envelope("SendMessage", message=message))
    [piece] = call.pieces()
    assert (piece.path, piece.text, call.unreadable_paths()) == ("message.parts[0].raw", text, [])
    [part] = call.with_texts(["other"])["params"]["message"]["parts"]
    assert base64.b64decode(part["raw"]) == b"other"
    [part] = call.with_texts([text])["params"]["message"]["parts"]
    assert part["raw"] == content


@pytest.mark.parametrize(
    "content",
    [
        base64.b64encode(bytes(range(256)) * 10).decode(),
        base64.b64encode(b"x" * 5000 + b"\xff").decode(),
        base64.b64encode(b"text\x00").decode(),
        "no base64 at all",
        "A",
        "",
    ],
)
def test_other_files_are_reported_as_unreadable(content: str) -> None:
    message = {"parts": [{"kind": "file", "file": {"bytes": content}}]}
    call = recognise_call("POST", "", build_envelope("SendMessage", message=message))
    assert (call.pieces(), call.unreadable_paths()) == ([], ["message.parts[0].file.bytes"])


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_event_arriving_byte_by_byte_is_parsed_in_linear_time(line_end: bytes) -> None:
    splitter = EventSplitter(limit=2**20)
    splitter.feed(b": hello" + line_end)
    started = time.thread_time()
    for _ in range(100_000):
        assert splitter.feed(b"wait") == []
    assert time.thread_time() - started < 2
    assert len(splitter.feed(2 * line_end)) == 1


def test_pieces_of_a_reply_exclude_only_forwarded_messages() -> None:
    said = {"role": "ROLE_AGENT", "parts": [{"text": "agent"}]}
    asked = {"role": "ROLE_USER", "parts": [{"text": "user"}]}
    pretended = {"role": "ROLE_USER", "parts": [{"text": "not the user"}]}
    unsigned = {"parts": [{"text": "anybody"}]}
    found = {
        "id": "t",
        "status": {"state": "TASK_STATE_COMPLETED", "message": said},
        "artifacts": [{"name": "n", "parts": [{"text": "work"}]}],
        "history": [{**asked, "taskId": "t"}, said, unsigned, pretended],
        "metadata": {"k": "v"},
    }
    forwarded = {"t": {digest_message(asked)}, "other": {digest_message(pretended)}}
    reply = A2AReply(dialect=REST_1_0, operation="get", document=found, forwarded=forwarded)
    assert [(piece.path, piece.text) for piece in reply.pieces() if piece.role in ("value", "number")] == [
        ("status.message.parts[0].text", "agent"),
        ("artifacts[0].name", "n"),
        ("artifacts[0].parts[0].text", "work"),
        ("metadata.k", "v"),
        ("history[1].parts[0].text", "agent"),
        ("history[2].parts[0].text", "anybody"),
        ("history[3].parts[0].text", "not the user"),
    ]


@by_name
@pytest.mark.parametrize("operation", ["send", "get", "list", "stream", "status", "message"])
def test_replaced_texts_keep_their_paths(dialect: Dialect, operation: str) -> None:
    said = build_message(
        message_id="m", role="agent", parts=[build_text_part("secret", dialect)], dialect=dialect
    )
    built = build_task(
        task_id="t",
        context_id="c",
        state="working",
        at=AT,
        dialect=dialect,
        metadata={"secret": ["secret", {"k": "secret"}]},
        status_message=said,
    )
    artifact = {"artifactId": "a", "name": "secret", "parts": [build_text_part("secret", dialect)]}
    built |= {"artifacts": [artifact], "history": [said], "futureField": {"note": "secret"}}
    document: Any
    asked: Any = operation
    if operation == "list":
        document = {"tasks": [built, built], "futureField": "secret"}
        document = {"result": document} if dialect.rpc else document
    elif operation == "status":
        asked, event = (
            "stream",
            build_status_event(
                task_id="t", context_id="c", state="working", at=AT, dialect=dialect, status_message=said
            ),
        )
        document = build_status_reply(
            event | {"futureField": "secret", "metadata": {"k": "secret"}}, dialect, 7
        )
    elif operation == "message":
        asked = "send"
        document = {"message": said, "futureField": "secret"} if dialect.proto else said
        document = {"result": document} if dialect.rpc else document
    else:
        document = build_task_reply(built, asked, dialect, 7)
    before = json.dumps(document)
    reply = A2AReply(dialect=dialect, operation=asked, document=json.loads(before))
    masked = reply.with_texts([piece.text.replace("secret", "***") for piece in reply.pieces()])
    assert json.dumps(masked) == before.replace("secret", "***")
    assert json.dumps(reply.document) == before
    assert reply.with_texts([piece.text for piece in reply.pieces()]) == reply.document


@pytest.mark.parametrize("name", ["message", "request"])
def test_texts_of_a_call_can_be_replaced(name: str) -> None:
    params = {name: MESSAGE, "metadata": {"one": "one"}, "futureField": ["one"]}
    call = recognise_call("POST", "", build_envelope("SendMessage", **params))
    changed = call.with_texts([piece.text.replace("one", "***") for piece in call.pieces()])
    assert json.dumps(changed) == json.dumps(call.document).replace("one", "***")


def test_masking_never_merges_two_member_names() -> None:
    call = recognise_call(
        "POST", "", build_envelope("SendMessage", message={"metadata": {"one": 1, "two": 2}})
    )
    with pytest.raises(A2AError, match="two members of the same name"):
        call.with_texts(["***" for _ in call.pieces()])


def test_paths_are_no_longer_than_the_message() -> None:
    deep: Any = ["x"] * 1000
    for _ in range(50):
        deep = {"n" * 1000: deep}
    call = recognise_call("POST", "", build_envelope("SendMessage", message={"parts": [{"data": deep}]}))
    assert max(len(piece.path) for piece in call.pieces()) < 500
    many = {"parts": [{"data": ["x"] * 60_000}]}
    with pytest.raises(A2AError, match="more than"):
        recognise_call("POST", "", build_envelope("SendMessage", message=many)).pieces()


def test_message_nested_too_deep_is_refused() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = {"a": deep}
    call = recognise_call("POST", "", build_envelope("SendMessage", message={"parts": [{"data": deep}]}))
    with pytest.raises(A2AError, match="nested"):
        list(call.pieces())


@pytest.mark.parametrize(
    ("call", "ids"),
    [
        (("POST", "", build_envelope("GetTask", id="a")), ["a"]),
        (("POST", "", build_envelope("tasks/pushNotificationConfig/get", id="a"), "0.3"), ["a"]),
        (("POST", "", build_envelope("GetTaskPushNotificationConfig", id="push", taskId="a")), ["a"]),
        (
            ("POST", "", build_envelope("SendMessage", message={"taskId": "a", "referenceTaskIds": ["b"]})),
            ["a", "b"],
        ),
        (("POST", "/tasks/a:cancel", {"id": "b", "taskId": "c"}), ["a", "c", "b"]),
        (
            (
                "POST",
                "/v1/tasks/a/pushNotificationConfigs",
                {"parent": "tasks/b", "config": {"name": "tasks/c/pushNotificationConfigs/p"}},
                "0.3",
            ),
            ["a", "b", "c"],
        ),
    ],
)
def test_every_task_a_call_names_is_found(call: Any, ids: list[str]) -> None:
    assert recognise_call(*call).task_ids == ids


@by_name
def test_task_id_is_replaced_everywhere_and_nothing_else(dialect: Dialect) -> None:
    said = build_message(
        message_id="old",
        role="agent",
        parts=[build_text_part("old", dialect)],
        dialect=dialect,
        task_id="old",
    )
    built = build_task(
        task_id="old", context_id="old", state="working", at=AT, dialect=dialect, status_message=said
    )
    built |= {
        "history": [said],
        "metadata": {"taskId": "old"},
        "artifacts": [{"artifactId": "old", "id": "old"}],
    }
    document = build_task_reply(built, "send", dialect, "old")
    renamed = replace_task_id(document, "old", "new")
    reply = A2AReply(dialect=dialect, operation="send", document=renamed)
    assert reply.task_id == "new"
    assert json.dumps(renamed).count('"new"') == 3
    assert replace_task_id(renamed, "new", "old") == document


def test_push_configs_keep_their_own_ids() -> None:
    config = {"id": "old", "taskId": "old", "url": "https://a.example", "token": "old"}
    assert replace_task_id(config, "old", "new") == config | {"taskId": "new"}
    legacy = {
        "name": "tasks/old/pushNotificationConfigs/old",
        "pushNotificationConfig": {"id": "old", "url": "u"},
    }
    assert replace_task_id(legacy, "old", "new") == legacy | {"name": "tasks/new/pushNotificationConfigs/old"}


PARTS = [
    {"text": "t", "metadata": {"k": 1}},
    {"data": {"a": 1}},
    {"url": "https://a.example", "filename": "f", "mediaType": "x/y"},
    {"raw": "AAAA", "filename": "f"},
]


@by_name
@pytest.mark.parametrize("part", PARTS)
def test_parts_survive_conversion_to_every_dialect(dialect: Dialect, part: dict[str, Any]) -> None:
    there = translate_part(part, dialect)
    built = build_message(message_id="m", role="agent", parts=[there], dialect=dialect)
    if dialect == RPC_0_3:
        types_v03.Message.model_validate(built)
    else:
        ParseDict(built, (a2a_v0_3_pb2 if dialect == REST_0_3 else a2a_pb2).Message())
    [found] = get_parts(built)
    assert translate_part(found, RPC_1_0) == part


@given(st.lists(st.sampled_from([b"data: {}", b": hello", b"id: 1", b""]), max_size=12), st.integers(1, 40))
def test_stream_gives_the_same_events_for_all_chunk_sizes(lines: list[bytes], size: int) -> None:
    for end in (b"\n", b"\r\n"):
        whole = b"".join(line + end for line in lines)
        at_once = EventSplitter(limit=1000)
        piecemeal = EventSplitter(limit=1000)
        events = at_once.feed(whole)
        unreadable = EventSplitter(limit=1000)
        passed = b"".join(unreadable.feed_whole(whole[i : i + size]) for i in range(0, len(whole), size))
        assert passed + unreadable.rest == whole
        assert unreadable.rest.strip() == at_once.rest.strip()
        pieces = [event for i in range(0, len(whole), size) for event in piecemeal.feed(whole[i : i + size])]
        assert b"".join(pieces) + piecemeal.rest == b"".join(events) + at_once.rest == whole
        assert [get_event_data(event) for event in pieces if get_event_data(event)] == [
            get_event_data(event) for event in events if get_event_data(event)
        ]


def test_an_event_keeps_its_name_when_its_data_changes() -> None:
    changed = replace_data(b"id: 3\r\nevent: error\r\ndata: {\r\ndata: }\r\n\r\n", {"a": 1})
    assert changed == b'id: 3\nevent: error\ndata: {"a":1}\n\n'
    assert get_event_data(encode_event({"a": 1})) == b'{"a":1}'
    assert get_event_data(b"data: a\ndata: b\n\n") == b"a\nb"


def test_event_over_the_limit_is_detected_before_it_ends() -> None:
    splitter = EventSplitter(limit=10)
    assert splitter.feed(b"data: 1\n\ndata: 23456789") == [b"data: 1\n\n"]
    assert splitter.overrun
    assert splitter.feed(b"\n\ndata: 1\n\n") == []
    unreadable = EventSplitter(limit=10)
    assert unreadable.feed_whole(b"data: 1\n\ndata: 23456789") == b"data: 1\n\n"
    assert unreadable.overrun
    assert unreadable.feed_whole(b"\n\n") == b""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "message",
                    "request",
                    "parts",
                    "taskId",
                    "task_id",
                    "id",
                    "params",
                    "config",
                    "url",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    json_values,
    st.sampled_from(["SendMessage", "message/send", "GetTask", "tasks/get", "CancelTask", "ListTasks"]),
)
def test_any_request_is_parsed_or_refused(params: Any, method: str) -> None:
    try:
        call = recognise_call("POST", "", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    except CallParseError as refusal:
        build_error_body(refusal.problem, refusal.dialect, refusal.rpc_id)
        return
    assert json.loads(call.body())["params"] == params
    for read in (lambda: list(call.pieces()), call.unreadable_paths):
        read()


@given(json_values, st.sampled_from(DIALECTS), st.sampled_from(["send", "stream", "get", "list", "push_get"]))
def test_any_reply_can_be_inspected(result: Any, dialect: Dialect, operation: Any) -> None:
    document = {"result": result} if dialect.rpc else result
    try:
        reply = parse_reply(dialect, operation, json.dumps(document).encode())
        looked = (
            list(reply.pieces()),
            reply.unreadable_paths(),
            reply.state,
            reply.task_id,
            reply.context_id,
        )
    except A2AError:
        return
    assert looked
    replace_task_id(reply.document, "a", "b")
