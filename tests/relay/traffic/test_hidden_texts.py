"""Callers and agents that write where nobody expects it: beside a message, around it, and in its ids."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from placet.bootstrap.storage import open_memory_store
from placet.relay.detectors.regex import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import RawAgent, answer_with, build_head, run_raw_agent, write_bytes
from tests.relay.inspection.inspected_relay import InspectedRelay, run_inspected_relay, store_policies
from tests.relay.policies.samples import build_plugin_draft, build_regex_draft

SAID = "tulip-1234"
REQUESTS = {"requestFromSource": True}
RESPONSES = {"responseToSource": True}
UNCHECKED = build_plugin_draft("x-gone", "LOG")
"""Nobody can look for this, so that a person has to."""
DRAFTS: dict[str, dict[str, Any]] = {
    "asks": build_regex_draft("tuli[p]", "BLOCK", legs=REQUESTS),
    "masks": build_regex_draft("tuli[p]", "MASK", legs=REQUESTS),
    "hears": build_regex_draft("tuli[p]", "BLOCK", legs=RESPONSES),
    "hears-masked": build_regex_draft("tuli[p]", "MASK", legs=RESPONSES),
    "hears-halves": build_regex_draft("tuli[p]", "HUMAN_REVIEW_REQUIRED", legs=RESPONSES),
    "counts": build_regex_draft("[0-9]{9}", "BLOCK", legs=REQUESTS),
    "hears-late": UNCHECKED | {"config": UNCHECKED["config"] | {"enabledLegs": RESPONSES}},
}


class CallersAndAgent:
    """Any of the callers, before the agent."""

    def __init__(self, agent: RawAgent, relay: InspectedRelay, client: httpx.Client) -> None:
        self.agent = agent
        self.trail = relay.trail
        self.holder = relay.holder
        self.client = client

    def call(
        self,
        caller: str,
        document: dict[str, Any],
        path: str = "",
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        self.agent.requests.clear()
        sent = {"Authorization": f"Bearer {caller}", "A2A-Version": "1.0", **(headers or {})}
        return self.client.post(path, json=document, headers=sent)

    @property
    def reached(self) -> str:
        """All that has come to the agent of the last call."""
        return repr(self.agent.requests)


@pytest.fixture(scope="module")
def connection() -> Iterator[CallersAndAgent]:
    store = open_memory_store()
    asyncio.run(store_policies(store, DRAFTS, "raw"))
    with run_raw_agent() as agent:
        settings = RelaySettings(
            agents={"raw": AgentSettings(url=agent.url)},
            callers={name: CallerSettings(agents=("raw",)) for name in DRAFTS},
        )
        with run_inspected_relay(settings, store, DetectorRegistry([RegexDetector()])) as relay:
            url = f"{relay.url}/relay/v1/agents/raw"
            with httpx.Client(base_url=url, timeout=60) as client:
                found = CallersAndAgent(agent, relay, client)
                for name in DRAFTS:  # from now on each has a task
                    agent.behave = answer_with(200, encode(build_rpc_answer(task=build_task(name))))
                    assert found.call(name, build_send_call()).status_code == 200
                yield found


def encode(document: Any) -> bytes:
    return json.dumps(document).encode()


def build_rpc_answer(**result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


def build_task(caller: str, **more: Any) -> dict[str, Any]:
    status: dict[str, Any] = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00Z"}
    return {"id": f"t-{caller}", "contextId": f"c-{caller}", "status": status} | more


def build_message(**more: Any) -> dict[str, Any]:
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}], **more}


def build_send_call(method: str = "SendMessage", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": build_message(), **params}}


def build_task_call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


ASKED = {
    "beside the params": {**build_send_call(), "note": SAID},
    "a name beside the params": {**build_send_call(), SAID: 1},
    "the id of the request": {**build_send_call(), "id": SAID},
    "configuration": build_send_call(configuration={"x": SAID}),
    "output modes": build_send_call(configuration={"acceptedOutputModes": [SAID]}),
    "no configuration at all": build_send_call(configuration=[SAID]),
    "a push config": build_send_call(
        configuration={"pushNotificationConfig": {"url": "http://127.0.0.1:9/", "x": SAID}}
    ),
    "a push config that is none": build_send_call(
        configuration={"pushNotificationConfig": {"url": "", "token": SAID}}
    ),
    "tenant": build_send_call(tenant=SAID),
    "extensions": build_send_call(message=build_message(extensions=[SAID])),
    "objects for extensions": build_send_call(message=build_message(extensions=[{"x": SAID}])),
    "a list for a kind": build_send_call(message=build_message(kind=[{"x": SAID}])),
    "the id of the message": build_send_call(message=build_message(messageId=SAID)),
    "a conversation": build_send_call(message=build_message(contextId=SAID)),
    "role": build_send_call(message=build_message(role=SAID)),
    "a file in its address": build_send_call(
        message=build_message(parts=[{"url": "data:text/plain;base64,dHVsaXA="}])
    ),
    "a file in a longer address": build_send_call(message=build_message(parts=[{"url": "DATA:,%74ulip"}])),
    "media type": build_send_call(message=build_message(parts=[{"text": "hi", "mediaType": SAID}])),
    "ids where none belong": build_send_call(message=build_message(parts=[{"text": "hi", "taskId": [SAID]}])),
    "beside a task that is fetched": build_task_call("GetTask", id="t-asks", metadata={"x": SAID}),
    "why a task is canceled": build_task_call("CancelTask", id="t-asks", metadata={"x": SAID}),
    "a message that nobody sends": build_task_call(
        "GetTask", id="t-asks", message={"parts": [{"text": SAID}]}
    ),
    "a page": build_task_call("ListTasks", pageToken=SAID),
}


@pytest.mark.parametrize("place", ASKED)
def test_no_text_reaches_an_agent_uninspected(connection: CallersAndAgent, place: str):
    connection.agent.behave = answer_with(200, encode(build_rpc_answer(task=build_task("asks"))))
    answer = connection.call("asks", ASKED[place])
    assert "refused" in answer.text.lower() or "A policy blocked" in answer.text, answer.text
    assert connection.reached == "[]"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (f"/message:send?note={SAID}", {}),
        ("/message:send?note=%74ulip-1234", {}),
        (f"/{SAID}/message:send", {}),
        ("/message:send", {"A2A-Extensions": SAID}),
        ("/message:send", {"Accept-Language": SAID}),
        ("/message:send", {"Accept": f"application/json, x/{SAID}"}),
        ("/message:send", {"Content-Type": f"application/json; x={SAID}"}),
        ("/message:send", {"X-Correlation-Id": SAID}),
        ("/message:send", {"traceparent": SAID}),
        ("/message:send", {"tracestate": f"x={SAID}"}),
    ],
)
def test_headers_and_query_are_inspected(connection: CallersAndAgent, path: str, headers: dict[str, str]):
    connection.agent.behave = answer_with(200, encode({"task": build_task("asks")}))
    assert connection.call("asks", {"message": build_message()}, path, headers).status_code == 403
    assert connection.reached == "[]"


@pytest.mark.parametrize("charset", ["utf-7", "utf-16", "shift_jis"])
def test_charset_of_the_request_cannot_change_the_inspected_text(connection: CallersAndAgent, charset: str):
    connection.agent.behave = answer_with(200, encode({"task": build_task("asks")}))
    coded = {"message": build_message(parts=[{"text": "+AHQ-ulip"}])}  # the word that is looked for, in UTF-7
    kind = {"Content-Type": f"application/json; charset={charset}"}
    assert connection.call("asks", coded, "/message:send", kind).status_code == 200
    [(head_of_request, _)] = connection.agent.requests
    assert "\r\ncontent-type: application/json\r\n" in head_of_request


def test_ambiguous_header_is_not_forwarded(connection: CallersAndAgent):
    connection.agent.behave = answer_with(200, encode({"task": build_task("asks")}))
    headers = [
        (b"Authorization", b"Bearer asks"),
        (b"A2A-Version", b"1.0"),
        (b"Accept-Language", b"t\xc3\xbc"),
    ]
    connection.agent.requests.clear()
    answer = connection.client.post("/message:send", json={"message": build_message()}, headers=headers)
    assert answer.status_code == 200
    assert "accept-language" not in connection.reached


def test_audit_omits_ids_with_matches(connection: CallersAndAgent):
    for place in ("the id of the message", "a conversation"):
        connection.call("asks", ASKED[place], headers={"X-Correlation-Id": place.replace(" ", "-")})
        told = connection.trail.of(place.replace(" ", "-"))
        assert len(told) == 2
        assert SAID not in repr(told)


TEXT = {"text": "tu"}
SPLIT: dict[str, list[dict[str, Any]]] = {
    "text and data": [TEXT, {"data": {"more": "lip"}}],
    "text and the name of a member": [TEXT, {"data": {"lip": 1}}],
    "text and file name": [TEXT, {"url": "https://files.example/1", "filename": "lip"}],
    "text and file": [TEXT, {"raw": "bGlw", "filename": "a.txt"}],
    "data and text": [{"data": {"more": ["tu"]}}, {"text": "lip"}],
    "two members": [{"data": {"a": "tu", "b": "lip"}}],
}


@pytest.mark.parametrize("split", SPLIT)
def test_word_split_over_parts_is_found_in_requests(connection: CallersAndAgent, split: str):
    connection.agent.behave = answer_with(200, encode(build_rpc_answer(task=build_task("asks"))))
    answer = connection.call("asks", build_send_call(message=build_message(parts=SPLIT[split])))
    assert "A policy blocked" in answer.text
    assert connection.reached == "[]"


def build_artifact(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"artifactId": "a", "parts": [*parts], **more}


AGENT_MESSAGE = {"messageId": "m-2", "role": "ROLE_AGENT"}
SPLIT_ANSWERS: dict[str, dict[str, Any]] = {
    **{name: {"artifacts": [build_artifact(*parts)]} for name, parts in SPLIT.items()},
    "two artifacts": {"artifacts": [build_artifact(TEXT), build_artifact({"text": "lip"}, artifactId="b")]},
    "the name of an artifact and its text": {"artifacts": [build_artifact({"text": "lip"}, name="tu")]},
    "text and metadata": {"artifacts": [build_artifact(TEXT)], "metadata": {"x": "lip"}},
    "status and artifact": {
        "status": {"state": "TASK_STATE_COMPLETED", "message": {**AGENT_MESSAGE, "parts": [TEXT]}},
        "artifacts": [build_artifact({"text": "lip"})],
    },
    "artifact and status": {
        "status": {"state": "TASK_STATE_COMPLETED", "message": {**AGENT_MESSAGE, "parts": [{"text": "lip"}]}},
        "artifacts": [build_artifact(TEXT)],
    },
    "an earlier message and status": {
        "status": {"state": "TASK_STATE_COMPLETED", "message": {**AGENT_MESSAGE, "parts": [{"text": "lip"}]}},
        "history": [{**AGENT_MESSAGE, "parts": [TEXT]}],
    },
}


@pytest.mark.parametrize("split", SPLIT_ANSWERS)
def test_word_split_over_an_answer_is_found(connection: CallersAndAgent, split: str):
    for caller in ("hears", "hears-masked"):
        task = {**build_task(caller), **SPLIT_ANSWERS[split]}
        connection.agent.behave = answer_with(200, encode(build_rpc_answer(task=task)))
        answer = connection.call(caller, build_send_call()).text
        assert "A policy blocked" in answer if caller == "hears" else "[MASKED:REGEX]" in answer
        assert "lip" not in answer.replace("tuli[p]", "")


def test_word_split_over_kinds_of_events_is_found(connection: CallersAndAgent):
    spoken = {"state": "TASK_STATE_WORKING", "message": {**AGENT_MESSAGE, "parts": [TEXT]}}
    events: tuple[dict[str, Any], ...] = (
        {"statusUpdate": {"taskId": "t-hears", "contextId": "c-hears", "status": spoken}},
        {
            "artifactUpdate": {
                "taskId": "t-hears",
                "contextId": "c-hears",
                "artifact": build_artifact({"text": "lip"}),
            }
        },
        {"task": build_task("hears")},
    )
    body = b"".join(b"data: " + encode(build_rpc_answer(**event)) + b"\n\n" for event in events)
    connection.agent.behave = write_bytes(build_head(200, content_type="text/event-stream") + body)
    answer = connection.call("hears", build_send_call("SendStreamingMessage"))
    assert "A policy blocked" in answer.text


def test_word_split_over_two_answers_of_a_task_is_found(connection: CallersAndAgent):
    for text, is_blocked in (("tu", False), ("tu", False), ("lip", True)):
        spoken = {"state": "TASK_STATE_WORKING", "message": {**AGENT_MESSAGE, "parts": [{"text": text}]}}
        task = build_task("hears", status=spoken)
        connection.agent.behave = answer_with(200, encode(build_rpc_answer(**task)))
        answer = connection.call("hears", build_task_call("GetTask", id="t-hears"))
        assert ("A policy blocked" in answer.text) is is_blocked, answer.text
    connection.agent.behave = answer_with(200, encode(build_rpc_answer(**build_task("hears"))))
    assert connection.call("hears", build_task_call("GetTask", id="t-hears")).status_code == 200


def test_numbers_of_a_table_are_not_one_number(connection: CallersAndAgent):
    connection.agent.behave = answer_with(200, encode(build_rpc_answer(task=build_task("counts"))))
    for values, status in (([1234, 56789], True), (["1234", "56789"], False)):
        message = build_message(parts=[{"data": {"values": values}}])
        answer = connection.call("counts", build_send_call(message=message))
        assert ("result" in answer.json()) is status


@pytest.mark.parametrize(
    "path",
    [f"/message:send?{name}=" for name in ("taskId", "TASKID")]
    + [f"/tasks/t-hears:cancel?{name}=" for name in ("id", "ID", "task_id")],
)
def test_a_task_in_the_query_must_be_the_callers_too(connection: CallersAndAgent, path: str):
    connection.agent.behave = answer_with(200, encode({"task": build_task("hears")}))
    document = {"message": build_message()} if "send" in path else {}
    assert connection.call("hears", document, path + "t-asks").status_code == 404
    assert connection.reached == "[]"
    assert connection.call("hears", document, path + "t-hears").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/%2e%2e/message:send"),
        ("POST", "/%2E/message:send"),
        ("GET", "/tasks/t-hears/pushNotificationConfigs/%2e%2e"),
        ("GET", "/tasks/%2e%2e"),
    ],
)
def test_path_cannot_leave_the_agents_address(connection: CallersAndAgent, method: str, path: str):
    connection.agent.requests.clear()
    document = {"message": build_message()} if method == "POST" else None
    headers = {"Authorization": "Bearer hears", "A2A-Version": "1.0"}
    answer = connection.client.request(method, path, json=document, headers=headers)
    assert answer.status_code == 404
    assert connection.reached == "[]"


ADDRESS = {"url": "http://127.0.0.1:9/"}
FOREIGN = {"id": "t-asks"}
LOOKALIKES = {
    "a task": build_send_call(message=build_message(TaskId="t-asks")),
    "a task in letters that are none of ours": build_send_call(
        message=build_message(**{"ta\u017f\u212aId": "t-asks"})
    ),
    "tasks that are referred to": build_send_call(message=build_message(REFERENCETASKIDS=["t-asks"])),
    "a conversation": build_send_call(message=build_message(contextid="c-asks")),
    "a task beside a message": build_send_call(TASKID="t-asks"),
    "a task that is asked for": build_task_call("GetTask", id="t-hears", ID="t-asks"),
    "another method": {**build_task_call("GetTask", id="t-hears"), "Method": "CancelTask"},
    "other params": {**build_task_call("GetTask", id="t-hears"), "Params": FOREIGN},
    "another message": build_send_call(Message=build_message(taskId="t-asks")),
    "an address": build_send_call(configuration={"PushNotificationConfig": ADDRESS}),
    "an address elsewhere": build_send_call(Configuration={"pushNotificationConfig": ADDRESS}),
    "another address": build_send_call(
        configuration={"pushNotificationConfig": ADDRESS | {"URL": "http://x.example/"}}
    ),
    "parts": build_send_call(message=build_message(Parts=[{"text": "hi"}])),
    "a text": build_send_call(message=build_message(parts=[{"Text": "hi"}])),
    "a file": build_send_call(message=build_message(parts=[{"Raw": "dHVsaXA="}])),
    "a file of the older version": build_send_call(
        message=build_message(parts=[{"file": {"Bytes": "dHVsaXA="}}])
    ),
}


@pytest.mark.parametrize("place", LOOKALIKES)
def test_member_name_in_another_case_is_refused(connection: CallersAndAgent, place: str):
    connection.agent.behave = answer_with(200, encode(build_rpc_answer(task=build_task("hears"))))
    answer = connection.call("hears", LOOKALIKES[place])
    assert answer.json()["error"]["code"] == -32602
    assert "use the exact case" in answer.text
    assert connection.reached == "[]"


def test_member_names_outside_the_protocol_pass_in_any_case(connection: CallersAndAgent):
    connection.agent.behave = answer_with(200, encode(build_rpc_answer(task=build_task("hears"))))
    own = {"Id": 1, "URL": "x", "TaskId": "t"}
    asked = build_send_call(
        message=build_message(metadata=own, parts=[{"data": own}]), metadata=own, vendor=own
    )
    assert "result" in connection.call("hears", asked).json()
    assert connection.reached.count("TaskId") == 4


@pytest.mark.parametrize("place", ["the id of the message", "a conversation", "the id of the request"])
def test_what_cannot_be_masked_is_refused(connection: CallersAndAgent, place: str):
    answer = connection.call("masks", ASKED[place])
    assert "cannot be masked" in answer.text
    assert connection.reached == "[]"


def test_a_mask_goes_where_it_can(connection: CallersAndAgent):
    connection.agent.behave = answer_with(200, encode(build_rpc_answer(task=build_task("masks"))))
    connection.call("masks", {**build_send_call(configuration={"x": SAID}), "note": SAID})
    assert connection.reached.count("MASKED") == 2
    assert SAID not in connection.reached


SPOKEN = {"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": SAID}]}
TOLD: dict[str, tuple[str, dict[str, Any]]] = {
    "a text for a result": ("SendMessage", {"jsonrpc": "2.0", "id": 1, "result": SAID}),
    "a list for a result": ("SendMessage", {"jsonrpc": "2.0", "id": 1, "result": [SAID]}),
    "beside the result": ("SendMessage", {**build_rpc_answer(task=build_task("hears")), "note": SAID}),
    "beside no error": ("SendMessage", {"jsonrpc": "2.0", "id": 1, "error": None, "note": SAID}),
    "the protocol": ("SendMessage", {**build_rpc_answer(task=build_task("hears")), "jsonrpc": SAID}),
    "an object for a history": (
        "SendMessage",
        build_rpc_answer(task=build_task("hears", history={"x": SAID})),
    ),
    "a text for a history": ("SendMessage", build_rpc_answer(task=build_task("hears", history=SAID))),
    "state": ("SendMessage", build_rpc_answer(task=build_task("hears", status={"state": SAID}))),
    "time": (
        "SendMessage",
        build_rpc_answer(task=build_task("hears", status={"state": "TASK_STATE_WORKING", "timestamp": SAID})),
    ),
    "tasks beside the task": ("SendMessage", build_rpc_answer(task=build_task("hears"), tasks=[SPOKEN])),
    "a text for a message": ("SendMessage", build_rpc_answer(task=build_task("hears"), message=SAID)),
    "a list for a task": ("SendMessage", build_rpc_answer(task=[{"x": SAID}])),
    "a list for a message": ("SendMessage", build_rpc_answer(message=[{"x": SAID}])),
    "a token": ("SendMessage", build_rpc_answer(task=build_task("hears"), nextPageToken=SAID)),
    "an update that is none": ("SendMessage", build_rpc_answer(task=build_task("hears"), statusUpdate=SAID)),
    "work that is none": ("SendMessage", build_rpc_answer(task=build_task("hears"), artifactUpdate=[SAID])),
    "a text for yes or no": (
        "SendMessage",
        build_rpc_answer(
            statusUpdate={"taskId": "t-hears", "status": {"state": "TASK_STATE_WORKING"}, "final": SAID}
        ),
    ),
    "an artifact's id": (
        "SendMessage",
        build_rpc_answer(task=build_task("hears", artifacts=[{"artifactId": SAID}])),
    ),
    "an artifact's extensions": (
        "SendMessage",
        build_rpc_answer(task=build_task("hears", artifacts=[{"extensions": [SAID]}])),
    ),
    "kind": ("SendMessage", {"jsonrpc": "2.0", "id": 1, "result": build_task("hears", kind=SAID)}),
    "a message beside a task": ("GetTask", build_rpc_answer(task=build_task("hears"), message=SPOKEN)),
    "a message for a task": ("GetTask", build_rpc_answer(message=SPOKEN)),
    "a text for tasks": ("ListTasks", build_rpc_answer(tasks=SAID)),
    "an object for tasks": ("ListTasks", build_rpc_answer(tasks={"x": SAID})),
    "a task beside tasks": ("ListTasks", build_rpc_answer(tasks=[], task=SPOKEN)),
    "a message beside tasks": ("ListTasks", build_rpc_answer(tasks=[], message=SPOKEN)),
}


@pytest.mark.parametrize("place", TOLD)
def test_no_text_reaches_a_caller_uninspected(connection: CallersAndAgent, place: str):
    method, told = TOLD[place]
    connection.agent.behave = answer_with(200, encode(told))
    asked = (
        build_send_call()
        if method == "SendMessage"
        else build_task_call(method, **{"id": "t-hears"} if "Get" in method else {})
    )
    answer = connection.call("hears", asked)
    assert connection.reached != "[]"
    assert SAID not in answer.text
    assert "A policy blocked" in answer.text


def test_request_id_does_not_cause_a_second_hold(connection: CallersAndAgent):
    connection.agent.behave = answer_with(
        200, encode({**build_rpc_answer(task=build_task("hears-late", metadata={"x": "y"})), "id": "7a"})
    )
    first = connection.call("hears-late", {**build_task_call("GetTask", id="t-hears-late"), "id": "7a"})
    assert "relay_reason" in first.text
    connection.holder.let_pass.update({"t-hears-late", "c-hears-late", "x", "y"})
    again = connection.call("hears-late", {**build_task_call("GetTask", id="t-hears-late"), "id": "7a"})
    assert again.json()["result"]["task"]["metadata"] == {"x": "y"}


def test_approval_of_two_halves_does_not_approve_the_whole(connection: CallersAndAgent):
    work = [{"parts": [{"text": "tu"}, {"text": "lip"}]}]
    connection.agent.behave = answer_with(
        200, encode(build_rpc_answer(task=build_task("hears-halves", artifacts=work)))
    )
    asked = build_task_call("GetTask", id="t-hears-halves")
    connection.holder.let_pass.update({"tu", "lip"})
    assert "relay_reason" in connection.call("hears-halves", asked).text
    connection.holder.let_pass.add("tulip")
    assert connection.call("hears-halves", asked).json()["result"]["task"]["artifacts"] == work


def test_unknown_text_in_headers_of_an_agent_is_dropped(connection: CallersAndAgent):
    connection.agent.behave = answer_with(
        200,
        encode(build_rpc_answer(task=build_task("hears"))),
        a2a_extensions=f"urn:known, {SAID}",
        retry_after=SAID,
        a2a_version=SAID,
    )
    answer = connection.call("hears", build_send_call(), headers={"A2A-Extensions": "urn:known"})
    assert answer.headers["a2a-extensions"] == "urn:known"
    assert SAID not in repr(answer.headers)


@pytest.mark.parametrize("caller", ["hears", "hears-masked"])
@pytest.mark.parametrize(
    "before",
    [b": %b\n", b": %b\n\n", b"id: %b\n", b"event: %b\n", b"other: %b\n", b"\xef\xbb\xbfdata: %b\n"],
)
def test_text_between_stream_events_is_dropped(connection: CallersAndAgent, caller: str, before: bytes):
    event = b"data: " + encode(build_rpc_answer(task=build_task(caller))) + b"\n\n"
    begun = build_rpc_answer(
        statusUpdate={"taskId": f"t-{caller}", "status": {"state": "TASK_STATE_WORKING"}}
    )
    early = b"data: " + encode(begun) + b"\n\n"
    spoken = before % SAID.encode()
    connection.agent.behave = write_bytes(
        build_head(200, content_type="text/event-stream") + spoken + early + spoken + event
    )
    answer = connection.call(caller, build_send_call("SendStreamingMessage"))
    assert "TASK_STATE_COMPLETED" in answer.text
    assert SAID not in answer.text


@pytest.mark.parametrize("append", [True, 1, "true"])
def test_artifact_chunks_are_inspected_together_in_every_spelling(connection: CallersAndAgent, append: Any):
    def piece(text: str, **more: Any) -> bytes:
        artifact = {"artifactId": "a", "parts": [{"text": text}]}
        update = {"taskId": "t-hears", "contextId": "c-hears", "artifact": artifact, **more}
        return b"data: " + encode(build_rpc_answer(artifactUpdate=update)) + b"\n\n"

    end = b"data: " + encode(build_rpc_answer(task=build_task("hears"))) + b"\n\n"
    connection.agent.behave = write_bytes(
        build_head(200, content_type="text/event-stream") + piece("tu") + piece("lip", append=append) + end
    )
    answer = connection.call("hears", build_send_call("SendStreamingMessage"))
    assert "A policy blocked" in answer.text
    assert "lip" not in answer.text.replace("tuli[p]", "")
