"""Agents and callers that mean no good: each is met by a clear error, and costs no more than its bounds."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import (
    Behaviour,
    RawAgent,
    answer_with,
    build_head,
    stay_silent,
    write_bytes,
)
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S, eventually

LIMIT = 64 * 1024
SEND = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "SendMessage",
    "params": {"message": {"parts": [{"text": "hi"}]}},
}
STREAM = SEND | {"method": "SendStreamingMessage"}
EVENTS = build_head(200, content_type="text/event-stream")
V1 = {"A2A-Version": "1.0"}
TASK = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}


def build_settings(raw_agent: RawAgent, **patience: Any) -> RelaySettings:
    return RelaySettings(
        agents={"raw": AgentSettings(url=raw_agent.url)}
        | {
            f"lost-{number}": AgentSettings(
                url=raw_agent.url, card_url=f"{raw_agent.url}/.well-known/lost-{number}"
            )
            for number in range(len(ELSEWHERE))
        },
        callers={
            "acme": CallerSettings(agents=("raw", *(f"lost-{n}" for n in range(len(ELSEWHERE))))),
            "other": CallerSettings(agents=("raw",)),
        },
        max_message_bytes=LIMIT,
        **patience,
    )


@contextmanager
def open_client(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.api_key, verify=False) as found:
        found.base_url = httpx.URL(f"{server.url}/relay/v1/agents/raw")
        found.headers["A2A-Version"] = "1.0"
        yield found


@pytest.fixture(scope="module")
def server(raw_agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("relay"), relay=build_settings(raw_agent)) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with open_client(server) as found:
        yield found


@pytest.fixture(scope="module")
def impatient_client(raw_agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A caller of a relay that waits for no agent longer than a second or two."""
    relay = build_settings(raw_agent, early_return="1s", call_timeout="2s", stream_idle="1s")
    with running(tmp_path_factory.mktemp("hurried"), relay=relay) as server, open_client(server) as found:
        yield found


def encode_result(value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": value}).encode()


GOOD = encode_result({"task": TASK})


@pytest.mark.parametrize(
    ("behaviour", "code", "words"),
    [
        (answer_with(200, b"x" * (LIMIT + 1)), -32006, "larger than"),
        (write_bytes(build_head(200, content_type="application/json"), b"[" * 4096), -32006, "larger than"),
        (answer_with(200, b"<html>", "text/html"), -32006, "not JSON"),
        (answer_with(200, GOOD, "text/plain"), -32006, "not JSON"),
        (answer_with(200, b"{"), -32006, "not valid JSON"),
        (answer_with(200, b"[" * 5000), -32006, "not valid JSON"),
        (answer_with(200, b"\xff\xfe{}"), -32006, "not valid JSON"),
        (answer_with(200, b"[]"), -32006, "not a JSON object"),
        (answer_with(200, b'{"jsonrpc": "2.0", "id": 7}'), -32006, "either a result or an error"),
        (answer_with(200, b'{"result": {}, "error": {}}'), -32006, "either a result or an error"),
        (answer_with(200, encode_result({"task": TASK | {"id": "t" * 513}})), -32006, "more than 512"),
        (answer_with(200, encode_result({"task": TASK | {"contextId": "c" * 513}})), -32006, "more than 512"),
        (answer_with(200, GOOD, content_encoding="gzip"), -32006, "compressed"),
        (answer_with(302, b"", location="http://169.254.169.254/"), -32006, "redirect"),
        (answer_with(401, b"{}", www_authenticate="Bearer"), -32081, "credentials"),
        (write_bytes(EVENTS + b"data: {}\n\n"), -32006, "does not ask for one"),
        (write_bytes(b"HTTP/1.1 200 Fine\r\ncontent-le"), -32081, ""),
        (write_bytes(b"SMTP 220 hello\r\n\r\n"), -32006, "not valid HTTP"),
        (
            write_bytes(build_head(200, content_type="application/json", x="y" * 20_000)),
            -32006,
            "not valid HTTP",
        ),
        (
            write_bytes(build_head(200, content_type="application/json", content_length="500") + b"{"),
            -32081,
            "ended before it was complete",
        ),
        (write_bytes(b""), -32081, ""),
    ],
)
def test_invalid_reply_is_refused_with_a_message(
    raw_agent: RawAgent, client: httpx.Client, behaviour: Behaviour, code: int, words: str
) -> None:
    raw_agent.behave = behaviour
    response = client.post("", json=SEND)
    assert response.status_code == 200
    error = response.json()["error"]
    assert (response.json()["id"], error["code"]) == (7, code)
    assert words in error["message"]


@pytest.mark.parametrize("status", [600, 999])
def test_invalid_http_status_is_an_error(raw_agent: RawAgent, client: httpx.Client, status: int) -> None:
    raw_agent.behave = answer_with(status, json.dumps({"task": TASK}).encode())
    response = client.post("/message:send", json=SEND["params"])
    assert response.status_code == 502
    assert "not valid HTTP" in response.json()["error"]["message"]


def test_invalid_reply_over_http_json_has_status_and_reason(
    raw_agent: RawAgent, client: httpx.Client
) -> None:
    raw_agent.behave = answer_with(200, b"<html>", "text/html")
    response = client.post("/message:send", json=SEND["params"])
    assert response.status_code == 502
    assert response.json()["error"]["details"][0]["reason"] == "INVALID_AGENT_RESPONSE"


def test_an_agent_that_never_answers_leaves_a_task_that_fails(
    raw_agent: RawAgent, impatient_client: httpx.Client
) -> None:
    raw_agent.behave = stay_silent()
    raw_agent.hung_up.clear()
    task = impatient_client.post("", json=SEND).json()["result"]["task"]
    assert task["metadata"] == {"relay_reason": "TIMEOUT"}
    get = {"jsonrpc": "2.0", "id": 8, "method": "GetTask", "params": {"id": task["id"]}}

    def failed() -> Any:
        found = impatient_client.post("", json=get).json()["result"]
        return found if found["status"]["state"] == "TASK_STATE_FAILED" else None

    ended = eventually(failed)
    assert "in time" in ended["status"]["message"]["parts"][0]["text"]
    assert "metadata" not in ended
    assert raw_agent.hung_up.wait(PATIENCE_S)


def test_slow_reply_to_other_methods_times_out(raw_agent: RawAgent, impatient_client: httpx.Client) -> None:
    raw_agent.behave = answer_with(200, GOOD)
    assert impatient_client.post("", json=SEND).json()["result"]["task"]["id"] == "t-1"
    raw_agent.behave = stay_silent(build_head(200, content_type="application/json") + b"{")
    response = impatient_client.get("/tasks/t-1")
    assert response.status_code == 504
    assert response.json()["error"]["status"] == "DEADLINE_EXCEEDED"


def parse_events(response: httpx.Response) -> list[Any]:
    blocks = response.text.split("\n\n")
    return [
        json.loads(line[6:]) for block in blocks for line in block.split("\n") if line.startswith("data: ")
    ]


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (write_bytes(EVENTS + b"data: " + GOOD + b"\n\ndata: ", b"x" * 4096), -32006),
        (write_bytes(EVENTS + b"data: " + GOOD + b"\n\n" + b":" * 100, b"x" * 4096), -32006),
        (write_bytes(EVENTS + b"data: " + GOOD + b"\n\ndata: {"), None),
    ],
    ids=["an endless event", "an endless comment", "an event without an end"],
)
def test_broken_stream_ends_with_an_error(
    raw_agent: RawAgent, client: httpx.Client, behaviour: Behaviour, code: int | None
) -> None:
    raw_agent.behave = behaviour
    events = parse_events(client.post("", json=STREAM))
    assert events[0]["result"]["task"]["id"] == "t-1"
    assert [event["error"]["code"] for event in events[1:]] == ([code] if code else [])


def test_silent_stream_ends_with_an_error(raw_agent: RawAgent, impatient_client: httpx.Client) -> None:
    raw_agent.behave = stay_silent(EVENTS + b"data: " + GOOD + b"\n\n")
    first, last = parse_events(impatient_client.post("", json=STREAM))
    assert first["result"]["task"]["id"] == "t-1"
    assert last["error"]["code"] == -32082


@pytest.mark.parametrize("heartbeat", [b"data:\n\n", b"data: \n\n", b"event: ping\ndata\n\n", b":\n\n"])
def test_heartbeat_does_not_end_a_stream(raw_agent: RawAgent, client: httpx.Client, heartbeat: bytes) -> None:
    raw_agent.behave = write_bytes(EVENTS + heartbeat + b"data: " + GOOD + b"\n\n" + heartbeat)
    answer = client.post("", json=STREAM).text
    told = [line[5:].strip() for line in answer.split("\n") if line.startswith("data:")]
    assert [json.loads(one) for one in told if one] == [json.loads(GOOD)]


@pytest.mark.parametrize("first", [b"data: nonsense\n\n", b"data: []\n\n"])
def test_invalid_stream_ends_at_once(raw_agent: RawAgent, client: httpx.Client, first: bytes) -> None:
    raw_agent.behave = write_bytes(EVENTS + first, b"data: more\n\n")
    [event] = parse_events(client.post("", json=STREAM))
    assert event["error"]["code"] == -32006


@pytest.mark.parametrize("odd", [{"contextId": 5}, {"context_id": "c-9"}, {"id": []}])
def test_malformed_reply_is_reported_as_the_agents_error(
    raw_agent: RawAgent, client: httpx.Client, odd: dict[str, Any]
) -> None:
    misshapen = encode_result({"task": TASK | odd})
    raw_agent.behave = answer_with(200, misshapen)
    told = client.post("", json=SEND).json()["error"]
    assert told["code"] == -32006
    raw_agent.behave = write_bytes(EVENTS + b"data: " + misshapen + b"\n\n")
    assert parse_events(client.post("", json=STREAM))[0]["error"] == told


def test_a_caller_that_leaves_ends_the_stream_at_the_agent(raw_agent: RawAgent, client: httpx.Client) -> None:
    raw_agent.hung_up.clear()
    raw_agent.behave = write_bytes(EVENTS + b"data: " + GOOD + b"\n\n", b": still here\n\n" * 100)
    with client.stream("POST", "", json=STREAM) as response:
        assert next(response.iter_lines()).startswith("data: ")
    assert raw_agent.hung_up.wait(PATIENCE_S)


def test_an_agent_cannot_answer_with_somebody_elses_task(
    raw_agent: RawAgent, client: httpx.Client, server: RunningServer
) -> None:
    raw_agent.behave = answer_with(200, encode_result({"task": TASK | {"id": "t-2", "contextId": "c-2"}}))
    assert client.post("", json=SEND).json()["result"]["task"]["id"] == "t-2"
    other = {"Authorization": f"Bearer {server.create_key('other')}"}
    assert "another caller" in client.post("", json=SEND, headers=other).json()["error"]["message"]
    raw_agent.behave = write_bytes(
        EVENTS + b"data: " + encode_result({"statusUpdate": {"taskId": "t-2"}}) + b"\n\n"
    )
    [event] = parse_events(client.post("", json=STREAM, headers=other))
    assert "another caller" in event["error"]["message"]


ELSEWHERE = [
    "http://169.254.169.254/latest",
    "http://10.0.0.1/",
    "https://elsewhere.example/a2a",
    "file:///etc/passwd",
    "http://127.0.0.1:1/",
]


@pytest.mark.parametrize("number", range(len(ELSEWHERE)), ids=ELSEWHERE.__getitem__)
def test_card_cannot_redirect_the_relay(
    raw_agent: RawAgent, client: httpx.Client, server: RunningServer, number: int
) -> None:
    lost = {"url": ELSEWHERE[number], "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    here = {"url": raw_agent.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    raw_agent.cards[f"/.well-known/lost-{number}"] = {"name": "Lost", "supportedInterfaces": [lost, here]}
    url = f"{server.url}/relay/v1/agents/lost-{number}"
    shown = client.get(f"{url}/.well-known/agent-card.json").json()["supportedInterfaces"]
    assert shown == [here | {"url": url}]
    response = client.post(url, json=SEND)
    assert response.json()["error"]["message"] == "The agent does not support JSONRPC."


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"", "application/json", -32700),
        (b"{", "application/json", -32700),
        (b"[" * 100_000, "application/json", None),
        (b"[]", "application/json", -32600),
        (b'[{"jsonrpc": "2.0"}]', "application/json", -32600),
        (b"{}", "application/json", -32600),
        (json.dumps(SEND | {"method": "Evil"}).encode(), "application/json", -32601),
        (json.dumps(SEND | {"method": 5}).encode(), "application/json", -32600),
        (json.dumps(SEND | {"id": {"a": 1}}).encode(), "application/json", -32600),
        (json.dumps(SEND | {"id": True}).encode(), "application/json", -32600),
        (json.dumps(SEND | {"params": []}).encode(), "application/json", -32602),
        (json.dumps(SEND | {"params": {}}).encode(), "application/json", -32602),
        (json.dumps(SEND | {"params": {"message": {"taskId": 5}}}).encode(), "application/json", -32602),
        (
            json.dumps(SEND | {"params": {"message": {"taskId": "a", "task_id": "b"}}}).encode(),
            "application/json",
            -32602,
        ),
        (
            json.dumps(SEND | {"params": {"message": {}, "request": {}}}).encode(),
            "application/json",
            -32602,
        ),
        (
            json.dumps(SEND | {"params": {"message": {"taskId": "x" * 600}}}).encode(),
            "application/json",
            -32602,
        ),
        (json.dumps(SEND).encode(), "text/plain", -32005),
        (b"\xff" * 10, "application/json", -32700),
    ],
)
def test_invalid_call_never_reaches_the_agent(
    raw_agent: RawAgent, client: httpx.Client, body: bytes, kind: str, code: int | None
) -> None:
    before = len(raw_agent.requests)
    response = client.post("", content=body, headers={"content-type": kind})
    if code is None:
        assert response.status_code == 413
    else:
        assert response.json()["error"]["code"] == code
    assert len(raw_agent.requests) == before


@pytest.mark.parametrize(
    "path",
    [
        "/tasks/a%2f..%2f..%2fadmin",
        "/tasks/../../../admin",
        "/admin",
        "/message:sendx",
        "/a/b/message:send",
        "/tasks/a:b:cancel",
    ],
)
def test_no_other_address_of_the_agent_can_be_reached(
    raw_agent: RawAgent, client: httpx.Client, path: str
) -> None:
    before = len(raw_agent.requests)
    response = client.get(path, headers=V1)
    assert response.status_code == 404
    assert len(raw_agent.requests) == before


@pytest.mark.parametrize("version", ["2.0", "1.1", "0.2", "one", "1.0, 0.3"])
def test_unknown_version_is_refused(client: httpx.Client, version: str) -> None:
    response = client.post("", json=SEND, headers={"A2A-Version": version})
    assert response.json()["error"]["code"] == -32009


def test_the_older_versions_paths_under_the_newer_version_are_refused(client: httpx.Client) -> None:
    response = client.post("/v1/message:send", json=SEND["params"])
    assert response.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/", "http://10.1.2.3/", "https://localhost.localdomain/", "ftp://a.example/"],
)
def test_private_push_address_is_refused(raw_agent: RawAgent, client: httpx.Client, url: str) -> None:
    raw_agent.behave = answer_with(200, GOOD)
    client.post("", json=SEND)
    before = len(raw_agent.requests)
    sent = {"taskPushNotificationConfig": {"url": url}}
    response = client.post("", json=SEND | {"params": SEND["params"] | {"configuration": sent}})  # type: ignore[operator]
    assert response.json()["error"]["code"] == -32602
    made = {"taskId": "t-1", "url": url}
    response = client.post("", json=SEND | {"method": "CreateTaskPushNotificationConfig", "params": made})
    assert response.json()["error"]["code"] == -32602
    assert len(raw_agent.requests) == before


def test_only_the_last_of_duplicate_members_is_forwarded(raw_agent: RawAgent, client: httpx.Client) -> None:
    raw_agent.behave = answer_with(200, GOOD)
    twice = b'{"text": "secret", "text": "hi"}'
    body = json.dumps(SEND).encode().replace(b'{"text": "hi"}', twice)
    client.post("", content=body, headers={"content-type": "application/json"})
    assert b"secret" not in raw_agent.requests[-1][1]


def test_unsupported_http_method_is_refused(raw_agent: RawAgent, client: httpx.Client) -> None:
    assert client.get("").status_code == 405
    assert client.delete("/message:send").status_code == 405
    raw_agent.behave = answer_with(200, GOOD)
    client.post("", json=SEND)
    for status in (404, 405):
        raw_agent.behave = answer_with(status, b"Not here", "text/plain")
        response = client.post("/tasks/t-1:subscribe")
        assert response.status_code == status
        assert response.json()["error"]["details"][0]["reason"] == "METHOD_NOT_FOUND"


def test_only_a2a_headers_of_the_agent_are_forwarded(raw_agent: RawAgent, client: httpx.Client) -> None:
    raw_agent.behave = answer_with(
        200, GOOD, a2a_extensions="https://e.example", set_cookie="a=b", server="x"
    )
    asked = {"A2A-Extensions": "https://e.example"}
    headers = client.post("", json=SEND, headers=asked).headers
    assert headers["a2a-extensions"] == "https://e.example"
    assert not {"set-cookie", "server"} & set(headers)
