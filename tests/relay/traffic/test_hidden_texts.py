"""Callers and agents that write where nobody expects it: beside a message, around it, and in its ids."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from placet.bootstrap.storage import open_memory_store
from placet.relay.detectors.regex_detector import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import RawAgent, answering, head, raw_agent, writing
from tests.relay.inspection.judged import Judged, judged_relay, put_in_force
from tests.relay.policies.samples import plugin_draft, regex_draft

SAID = "tulip-1234"
REQUESTS = {"requestFromSource": True}
RESPONSES = {"responseToSource": True}
UNCHECKED = plugin_draft("x-gone", "LOG")
"""Nobody can look for this, so that a person has to."""
DRAFTS: dict[str, dict[str, Any]] = {
    "asks": regex_draft("tuli[p]", "BLOCK", legs=REQUESTS),
    "masks": regex_draft("tuli[p]", "MASK", legs=REQUESTS),
    "hears": regex_draft("tuli[p]", "BLOCK", legs=RESPONSES),
    "hears-masked": regex_draft("tuli[p]", "MASK", legs=RESPONSES),
    "hears-halves": regex_draft("tuli[p]", "HUMAN_REVIEW_REQUIRED", legs=RESPONSES),
    "hears-late": UNCHECKED | {"config": UNCHECKED["config"] | {"enabledLegs": RESPONSES}},
}


class Line:
    """Any of the callers, before the agent."""

    def __init__(self, agent: RawAgent, relay: Judged, client: httpx.Client) -> None:
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
def line() -> Iterator[Line]:
    store = open_memory_store()
    asyncio.run(put_in_force(store, DRAFTS, "raw"))
    with raw_agent() as agent:
        settings = RelaySettings(
            agents={"raw": AgentSettings(url=agent.url)},
            callers={name: CallerSettings(agents=("raw",)) for name in DRAFTS},
        )
        with judged_relay(settings, store, DetectorRegistry([RegexDetector()])) as relay:
            url = f"{relay.url}/relay/v1/agents/raw"
            with httpx.Client(base_url=url, timeout=60) as client:
                found = Line(agent, relay, client)
                for name in DRAFTS:  # from now on each has a task
                    agent.behave = answering(200, encoded(rpc(task=task(name))))
                    assert found.call(name, sending()).status_code == 200
                yield found


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def rpc(**result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


def task(caller: str, **more: Any) -> dict[str, Any]:
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00Z"}
    return {"id": f"t-{caller}", "contextId": f"c-{caller}", "status": status, **more}


def message(**more: Any) -> dict[str, Any]:
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}], **more}


def sending(method: str = "SendMessage", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message(), **params}}


def about(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


ASKED = {
    "beside the params": {**sending(), "note": SAID},
    "a name beside the params": {**sending(), SAID: 1},
    "the id of the request": {**sending(), "id": SAID},
    "configuration": sending(configuration={"x": SAID}),
    "output modes": sending(configuration={"acceptedOutputModes": [SAID]}),
    "no configuration at all": sending(configuration=[SAID]),
    "a push config": sending(
        configuration={"pushNotificationConfig": {"url": "http://127.0.0.1:9/", "x": SAID}}
    ),
    "a push config that is none": sending(
        configuration={"pushNotificationConfig": {"url": "", "token": SAID}}
    ),
    "tenant": sending(tenant=SAID),
    "extensions": sending(message=message(extensions=[SAID])),
    "objects for extensions": sending(message=message(extensions=[{"x": SAID}])),
    "a list for a kind": sending(message=message(kind=[{"x": SAID}])),
    "the id of the message": sending(message=message(messageId=SAID)),
    "a conversation": sending(message=message(contextId=SAID)),
    "role": sending(message=message(role=SAID)),
    "a file in its address": sending(message=message(parts=[{"url": "data:text/plain;base64,dHVsaXA="}])),
    "a file in a longer address": sending(message=message(parts=[{"url": "DATA:,%74ulip"}])),
    "media type": sending(message=message(parts=[{"text": "hi", "mediaType": SAID}])),
    "ids where none belong": sending(message=message(parts=[{"text": "hi", "taskId": [SAID]}])),
    "beside a task that is fetched": about("GetTask", id="t-asks", metadata={"x": SAID}),
    "why a task is canceled": about("CancelTask", id="t-asks", metadata={"x": SAID}),
    "a message that nobody sends": about("GetTask", id="t-asks", message={"parts": [{"text": SAID}]}),
    "a page": about("ListTasks", pageToken=SAID),
}


@pytest.mark.parametrize("place", ASKED)
def test_nothing_reaches_an_agent_unseen(line: Line, place: str):
    line.agent.behave = answering(200, encoded(rpc(task=task("asks"))))
    answer = line.call("asks", ASKED[place])
    assert "refused" in answer.text.lower() or "does not let" in answer.text, answer.text
    assert line.reached == "[]"


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
def test_what_travels_beside_a_message_is_looked_at(line: Line, path: str, headers: dict[str, str]):
    line.agent.behave = answering(200, encoded({"task": task("asks")}))
    assert line.call("asks", {"message": message()}, path, headers).status_code == 403
    assert line.reached == "[]"


@pytest.mark.parametrize("charset", ["utf-7", "utf-16", "shift_jis"])
def test_an_agent_cannot_be_told_to_read_other_letters_than_were_looked_at(line: Line, charset: str):
    line.agent.behave = answering(200, encoded({"task": task("asks")}))
    coded = {
        "message": message(parts=[{"text": "+AHQAdQBsAGkAcA-"}])
    }  # the word that is looked for, in UTF-7
    kind = {"Content-Type": f"application/json; charset={charset}"}
    assert line.call("asks", coded, "/message:send", kind).status_code == 200
    [(head_of_request, _)] = line.agent.requests
    assert "\r\ncontent-type: application/json\r\n" in head_of_request


def test_a_header_that_agents_read_in_different_ways_does_not_reach_them(line: Line):
    line.agent.behave = answering(200, encoded({"task": task("asks")}))
    headers = [
        (b"Authorization", b"Bearer asks"),
        (b"A2A-Version", b"1.0"),
        (b"Accept-Language", b"t\xc3\xbc"),
    ]
    line.agent.requests.clear()
    answer = line.client.post("/message:send", json={"message": message()}, headers=headers)
    assert answer.status_code == 200
    assert "accept-language" not in line.reached


def test_the_audit_has_no_id_in_which_something_was_found(line: Line):
    for place in ("the id of the message", "a conversation"):
        line.call("asks", ASKED[place], headers={"X-Correlation-Id": place.replace(" ", "-")})
        told = line.trail.of(place.replace(" ", "-"))
        assert len(told) == 2
        assert SAID not in repr(told)


@pytest.mark.parametrize(
    "path",
    [f"/message:send?{name}=" for name in ("taskId", "TASKID")]
    + [f"/tasks/t-hears:cancel?{name}=" for name in ("id", "ID", "task_id")],
)
def test_a_task_in_the_query_must_be_the_callers_too(line: Line, path: str):
    line.agent.behave = answering(200, encoded({"task": task("hears")}))
    document = {"message": message()} if "send" in path else {}
    assert line.call("hears", document, path + "t-asks").status_code == 404
    assert line.reached == "[]"
    assert line.call("hears", document, path + "t-hears").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/%2e%2e/message:send"),
        ("POST", "/%2E/message:send"),
        ("GET", "/tasks/t-hears/pushNotificationConfigs/%2e%2e"),
        ("GET", "/tasks/%2e%2e"),
    ],
)
def test_no_address_leads_up_from_the_agent(line: Line, method: str, path: str):
    line.agent.requests.clear()
    document = {"message": message()} if method == "POST" else None
    headers = {"Authorization": "Bearer hears", "A2A-Version": "1.0"}
    answer = line.client.request(method, path, json=document, headers=headers)
    assert answer.status_code == 404
    assert line.reached == "[]"


ADDRESS = {"url": "http://127.0.0.1:9/"}
FOREIGN = {"id": "t-asks"}
LOOKALIKES = {
    "a task": sending(message=message(TaskId="t-asks")),
    "a task in letters that are none of ours": sending(message=message(**{"ta\u017f\u212aId": "t-asks"})),
    "tasks that are referred to": sending(message=message(REFERENCETASKIDS=["t-asks"])),
    "a conversation": sending(message=message(contextid="c-asks")),
    "a task beside a message": sending(TASKID="t-asks"),
    "a task that is asked for": about("GetTask", id="t-hears", ID="t-asks"),
    "another method": {**about("GetTask", id="t-hears"), "Method": "CancelTask"},
    "other params": {**about("GetTask", id="t-hears"), "Params": FOREIGN},
    "another message": sending(Message=message(taskId="t-asks")),
    "an address": sending(configuration={"PushNotificationConfig": ADDRESS}),
    "an address elsewhere": sending(Configuration={"pushNotificationConfig": ADDRESS}),
    "another address": sending(
        configuration={"pushNotificationConfig": ADDRESS | {"URL": "http://x.example/"}}
    ),
    "parts": sending(message=message(Parts=[{"text": "hi"}])),
    "a text": sending(message=message(parts=[{"Text": "hi"}])),
    "a file": sending(message=message(parts=[{"Raw": "dHVsaXA="}])),
    "a file of the older version": sending(message=message(parts=[{"file": {"Bytes": "dHVsaXA="}}])),
}


@pytest.mark.parametrize("place", LOOKALIKES)
def test_no_agent_reads_a_name_that_the_relay_took_for_another(line: Line, place: str):
    line.agent.behave = answering(200, encoded(rpc(task=task("hears"))))
    answer = line.call("hears", LOOKALIKES[place])
    assert answer.json()["error"]["code"] == -32602
    assert "spelled" in answer.text
    assert line.reached == "[]"


def test_names_that_are_nobodys_business_pass_in_any_letters(line: Line):
    line.agent.behave = answering(200, encoded(rpc(task=task("hears"))))
    own = {"Id": 1, "URL": "x", "TaskId": "t"}
    asked = sending(message=message(metadata=own, parts=[{"data": own}]), metadata=own, vendor=own)
    assert "result" in line.call("hears", asked).json()
    assert line.reached.count("TaskId") == 4


@pytest.mark.parametrize("place", ["the id of the message", "a conversation", "the id of the request"])
def test_what_cannot_be_masked_is_refused(line: Line, place: str):
    answer = line.call("masks", ASKED[place])
    assert "nothing can be masked" in answer.text
    assert line.reached == "[]"


def test_a_mask_goes_where_it_can(line: Line):
    line.agent.behave = answering(200, encoded(rpc(task=task("masks"))))
    line.call("masks", {**sending(configuration={"x": SAID}), "note": SAID})
    assert line.reached.count("MASKED") == 2
    assert SAID not in line.reached


SPOKEN = {"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": SAID}]}
TOLD: dict[str, tuple[str, dict[str, Any]]] = {
    "a text for a result": ("SendMessage", {"jsonrpc": "2.0", "id": 1, "result": SAID}),
    "a list for a result": ("SendMessage", {"jsonrpc": "2.0", "id": 1, "result": [SAID]}),
    "beside the result": ("SendMessage", {**rpc(task=task("hears")), "note": SAID}),
    "beside no error": ("SendMessage", {"jsonrpc": "2.0", "id": 1, "error": None, "note": SAID}),
    "the id of the answer": ("SendMessage", {**rpc(task=task("hears")), "id": SAID}),
    "the protocol": ("SendMessage", {**rpc(task=task("hears")), "jsonrpc": SAID}),
    "an object for a history": ("SendMessage", rpc(task=task("hears", history={"x": SAID}))),
    "a text for a history": ("SendMessage", rpc(task=task("hears", history=SAID))),
    "state": ("SendMessage", rpc(task=task("hears", status={"state": SAID}))),
    "time": (
        "SendMessage",
        rpc(task=task("hears", status={"state": "TASK_STATE_WORKING", "timestamp": SAID})),
    ),
    "tasks beside the task": ("SendMessage", rpc(task=task("hears"), tasks=[SPOKEN])),
    "a text for a message": ("SendMessage", rpc(task=task("hears"), message=SAID)),
    "a list for a task": ("SendMessage", rpc(task=[{"x": SAID}])),
    "a list for a message": ("SendMessage", rpc(message=[{"x": SAID}])),
    "a token": ("SendMessage", rpc(task=task("hears"), nextPageToken=SAID)),
    "an update that is none": ("SendMessage", rpc(task=task("hears"), statusUpdate=SAID)),
    "work that is none": ("SendMessage", rpc(task=task("hears"), artifactUpdate=[SAID])),
    "a text for yes or no": (
        "SendMessage",
        rpc(statusUpdate={"taskId": "t-hears", "status": {"state": "TASK_STATE_WORKING"}, "final": SAID}),
    ),
    "an artifact's id": ("SendMessage", rpc(task=task("hears", artifacts=[{"artifactId": SAID}]))),
    "an artifact's extensions": ("SendMessage", rpc(task=task("hears", artifacts=[{"extensions": [SAID]}]))),
    "kind": ("SendMessage", {"jsonrpc": "2.0", "id": 1, "result": task("hears", kind=SAID)}),
    "a message beside a task": ("GetTask", rpc(task=task("hears"), message=SPOKEN)),
    "a message for a task": ("GetTask", rpc(message=SPOKEN)),
    "a text for tasks": ("ListTasks", rpc(tasks=SAID)),
    "an object for tasks": ("ListTasks", rpc(tasks={"x": SAID})),
    "a task beside tasks": ("ListTasks", rpc(tasks=[], task=SPOKEN)),
    "a message beside tasks": ("ListTasks", rpc(tasks=[], message=SPOKEN)),
}


@pytest.mark.parametrize("place", TOLD)
def test_nothing_reaches_a_caller_unseen(line: Line, place: str):
    method, told = TOLD[place]
    line.agent.behave = answering(200, encoded(told))
    asked = (
        sending()
        if method == "SendMessage"
        else about(method, **{"id": "t-hears"} if "Get" in method else {})
    )
    answer = line.call("hears", asked)
    assert line.reached != "[]"
    assert SAID not in answer.text
    assert "does not let" in answer.text


def test_the_id_of_a_call_does_not_have_an_answer_held_again(line: Line):
    line.agent.behave = answering(
        200, encoded({**rpc(task=task("hears-late", metadata={"x": "y"})), "id": "7a"})
    )
    first = line.call("hears-late", {**about("GetTask", id="t-hears-late"), "id": "7a"})
    assert "relay_reason" in first.text
    line.holder.let_pass.update({"t-hears-late", "c-hears-late", "x", "y"})
    again = line.call("hears-late", {**about("GetTask", id="t-hears-late"), "id": "7a"})
    assert again.json()["result"]["task"]["metadata"] == {"x": "y"}


def test_two_halves_that_a_person_let_pass_are_not_the_whole(line: Line):
    work = [{"parts": [{"text": "tu"}, {"text": "lip"}]}]
    line.agent.behave = answering(200, encoded(rpc(task=task("hears-halves", artifacts=work))))
    asked = about("GetTask", id="t-hears-halves")
    line.holder.let_pass.update({"tu", "lip"})
    assert "relay_reason" in line.call("hears-halves", asked).text
    line.holder.let_pass.add("tulip")
    assert line.call("hears-halves", asked).json()["result"]["task"]["artifacts"] == work


def test_headers_of_an_agent_say_nothing_of_its_own(line: Line):
    line.agent.behave = answering(
        200,
        encoded(rpc(task=task("hears"))),
        a2a_extensions=f"urn:known, {SAID}",
        retry_after=SAID,
        a2a_version=SAID,
    )
    answer = line.call("hears", sending(), headers={"A2A-Extensions": "urn:known"})
    assert answer.headers["a2a-extensions"] == "urn:known"
    assert SAID not in repr(answer.headers)


@pytest.mark.parametrize("caller", ["hears", "hears-masked"])
@pytest.mark.parametrize(
    "before",
    [b": %b\n", b": %b\n\n", b"id: %b\n", b"event: %b\n", b"other: %b\n", b"\xef\xbb\xbfdata: %b\n"],
)
def test_nothing_stands_between_the_events_of_a_stream(line: Line, caller: str, before: bytes):
    event = b"data: " + encoded(rpc(task=task(caller))) + b"\n\n"
    begun = rpc(statusUpdate={"taskId": f"t-{caller}", "status": {"state": "TASK_STATE_WORKING"}})
    early = b"data: " + encoded(begun) + b"\n\n"
    spoken = before % SAID.encode()
    line.agent.behave = writing(head(200, content_type="text/event-stream") + spoken + early + spoken + event)
    answer = line.call(caller, sending("SendStreamingMessage"))
    assert "TASK_STATE_COMPLETED" in answer.text
    assert SAID not in answer.text


@pytest.mark.parametrize("append", [True, 1, "true"])
def test_pieces_of_work_are_read_together_however_they_say_so(line: Line, append: Any):
    def piece(text: str, **more: Any) -> bytes:
        artifact = {"artifactId": "a", "parts": [{"text": text}]}
        update = {"taskId": "t-hears", "contextId": "c-hears", "artifact": artifact, **more}
        return b"data: " + encoded(rpc(artifactUpdate=update)) + b"\n\n"

    end = b"data: " + encoded(rpc(task=task("hears"))) + b"\n\n"
    line.agent.behave = writing(
        head(200, content_type="text/event-stream") + piece("tu") + piece("lip", append=append) + end
    )
    answer = line.call("hears", sending("SendStreamingMessage"))
    assert "does not let" in answer.text
    assert "lip" not in answer.text.replace("tuli[p]", "")
