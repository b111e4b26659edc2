"""Agents and callers that mean no good: each is met by a clear error, and costs no more than its bounds."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import Behaviour, RawAgent, answering, head, raw_agent, silent, writing
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
EVENTS = head(200, content_type="text/event-stream")
V1 = {"A2A-Version": "1.0"}
TASK = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}


@pytest.fixture(scope="module")
def agent() -> Iterator[RawAgent]:
    with raw_agent() as found:
        yield found


def relaying(agent: RawAgent, **patience: Any) -> RelaySettings:
    return RelaySettings(
        agents={"raw": AgentSettings(url=agent.url)}
        | {
            f"lost-{number}": AgentSettings(url=agent.url, card_url=f"{agent.url}/.well-known/lost-{number}")
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
def calling(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.api_key, verify=False) as found:
        found.base_url = httpx.URL(f"{server.url}/relay/v1/agents/raw")
        found.headers["A2A-Version"] = "1.0"
        yield found


@pytest.fixture(scope="module")
def server(agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("relay"), relay=relaying(agent)) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with calling(server) as found:
        yield found


@pytest.fixture(scope="module")
def hurried(agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A caller of a relay that waits for no agent longer than a second or two."""
    relay = relaying(agent, early_return="1s", call_timeout="2s", stream_idle="1s")
    with running(tmp_path_factory.mktemp("hurried"), relay=relay) as server, calling(server) as found:
        yield found


def result(value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": value}).encode()


GOOD = result({"task": TASK})


@pytest.mark.parametrize(
    ("behaviour", "code", "words"),
    [
        (answering(200, b"x" * (LIMIT + 1)), -32006, "larger than"),
        (writing(head(200, content_type="application/json"), b"[" * 4096), -32006, "larger than"),
        (answering(200, b"<html>", "text/html"), -32006, "not JSON"),
        (answering(200, GOOD, "text/plain"), -32006, "not JSON"),
        (answering(200, b"{"), -32006, "not valid JSON"),
        (answering(200, b"[" * 5000), -32006, "not valid JSON"),
        (answering(200, b"\xff\xfe{}"), -32006, "not valid JSON"),
        (answering(200, b"[]"), -32006, "not a JSON object"),
        (answering(200, b'{"jsonrpc": "2.0", "id": 7}'), -32006, "neither a result nor an error"),
        (answering(200, b'{"result": {}, "error": {}}'), -32006, "neither a result nor an error"),
        (answering(200, result({"task": TASK | {"id": "t" * 513}})), -32006, "longer than 512"),
        (answering(200, result({"task": TASK | {"contextId": "c" * 513}})), -32006, "longer than 512"),
        (answering(200, GOOD, content_encoding="gzip"), -32006, "compressed"),
        (answering(302, b"", location="http://169.254.169.254/"), -32006, "redirect"),
        (answering(401, b"{}", www_authenticate="Bearer"), -32081, "credentials"),
        (writing(EVENTS + b"data: {}\n\n"), -32006, "stream where none"),
        (writing(b"HTTP/1.1 200 Fine\r\ncontent-le"), -32081, ""),
        (writing(b"SMTP 220 hello\r\n\r\n"), -32006, "proper HTTP"),
        (writing(head(200, content_type="application/json", x="y" * 20_000)), -32006, "proper HTTP"),
        (
            writing(head(200, content_type="application/json", content_length="500") + b"{"),
            -32081,
            "broke off",
        ),
        (writing(b""), -32081, ""),
    ],
)
def test_an_answer_that_is_none_is_refused_in_clear_words(
    agent: RawAgent, client: httpx.Client, behaviour: Behaviour, code: int, words: str
) -> None:
    agent.behave = behaviour
    response = client.post("", json=SEND)
    assert response.status_code == 200
    error = response.json()["error"]
    assert (response.json()["id"], error["code"]) == (7, code)
    assert words in error["message"]


@pytest.mark.parametrize("status", [600, 999])
def test_a_status_that_http_does_not_have_is_an_error_like_any_other(
    agent: RawAgent, client: httpx.Client, status: int
) -> None:
    agent.behave = answering(status, json.dumps({"task": TASK}).encode())
    response = client.post("/message:send", json=SEND["params"])
    assert response.status_code == 502
    assert "proper HTTP" in response.json()["error"]["message"]


def test_over_http_json_the_same_is_a_status_and_a_reason(agent: RawAgent, client: httpx.Client) -> None:
    agent.behave = answering(200, b"<html>", "text/html")
    response = client.post("/message:send", json=SEND["params"])
    assert response.status_code == 502
    assert response.json()["error"]["details"][0]["reason"] == "INVALID_AGENT_RESPONSE"


def test_an_agent_that_never_answers_leaves_a_task_that_fails(agent: RawAgent, hurried: httpx.Client) -> None:
    agent.behave = silent()
    agent.hung_up.clear()
    task = hurried.post("", json=SEND).json()["result"]["task"]
    assert task["metadata"] == {"relay_reason": "TIMEOUT"}
    get = {"jsonrpc": "2.0", "id": 8, "method": "GetTask", "params": {"id": task["id"]}}

    def failed() -> Any:
        found = hurried.post("", json=get).json()["result"]
        return found if found["status"]["state"] == "TASK_STATE_FAILED" else None

    ended = eventually(failed)
    assert "in time" in ended["status"]["message"]["parts"][0]["text"]
    assert "metadata" not in ended
    assert agent.hung_up.wait(PATIENCE_S)


def test_a_slow_answer_to_anything_else_is_not_waited_for(agent: RawAgent, hurried: httpx.Client) -> None:
    agent.behave = answering(200, GOOD)
    assert hurried.post("", json=SEND).json()["result"]["task"]["id"] == "t-1"
    agent.behave = silent(head(200, content_type="application/json") + b"{")
    response = hurried.get("/tasks/t-1")
    assert response.status_code == 504
    assert response.json()["error"]["status"] == "DEADLINE_EXCEEDED"


def events_of(response: httpx.Response) -> list[Any]:
    blocks = response.text.split("\n\n")
    return [
        json.loads(line[6:]) for block in blocks for line in block.split("\n") if line.startswith("data: ")
    ]


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (writing(EVENTS + b"data: " + GOOD + b"\n\ndata: ", b"x" * 4096), -32006),
        (writing(EVENTS + b"data: " + GOOD + b"\n\n" + b":" * 100, b"x" * 4096), -32006),
        (writing(EVENTS + b"data: " + GOOD + b"\n\ndata: {"), None),
    ],
    ids=["an endless event", "an endless comment", "an event without an end"],
)
def test_a_stream_that_goes_wrong_ends_with_words(
    agent: RawAgent, client: httpx.Client, behaviour: Behaviour, code: int | None
) -> None:
    agent.behave = behaviour
    events = events_of(client.post("", json=STREAM))
    assert events[0]["result"]["task"]["id"] == "t-1"
    assert [event["error"]["code"] for event in events[1:]] == ([code] if code else [])


def test_a_stream_that_falls_silent_ends_with_words(agent: RawAgent, hurried: httpx.Client) -> None:
    agent.behave = silent(EVENTS + b"data: " + GOOD + b"\n\n")
    first, last = events_of(hurried.post("", json=STREAM))
    assert first["result"]["task"]["id"] == "t-1"
    assert last["error"]["code"] == -32082


@pytest.mark.parametrize("heartbeat", [b"data:\n\n", b"data: \n\n", b"event: ping\ndata\n\n", b":\n\n"])
def test_a_heartbeat_that_says_nothing_ends_no_stream(
    agent: RawAgent, client: httpx.Client, heartbeat: bytes
) -> None:
    agent.behave = writing(EVENTS + heartbeat + b"data: " + GOOD + b"\n\n" + heartbeat)
    answer = client.post("", json=STREAM).text
    told = [line[5:].strip() for line in answer.split("\n") if line.startswith("data:")]
    assert [json.loads(one) for one in told if one] == [json.loads(GOOD)]


@pytest.mark.parametrize("first", [b"data: nonsense\n\n", b"data: []\n\n"])
def test_a_stream_of_nonsense_ends_at_once(agent: RawAgent, client: httpx.Client, first: bytes) -> None:
    agent.behave = writing(EVENTS + first, b"data: more\n\n")
    [event] = events_of(client.post("", json=STREAM))
    assert event["error"]["code"] == -32006


@pytest.mark.parametrize("odd", [{"contextId": 5}, {"context_id": "c-9"}, {"id": []}])
def test_a_caller_is_not_blamed_for_an_answer_that_is_misshapen(
    agent: RawAgent, client: httpx.Client, odd: dict[str, Any]
) -> None:
    misshapen = result({"task": TASK | odd})
    agent.behave = answering(200, misshapen)
    told = client.post("", json=SEND).json()["error"]
    assert told["code"] == -32006
    agent.behave = writing(EVENTS + b"data: " + misshapen + b"\n\n")
    assert events_of(client.post("", json=STREAM))[0]["error"] == told


def test_a_caller_that_leaves_ends_the_stream_at_the_agent(agent: RawAgent, client: httpx.Client) -> None:
    agent.hung_up.clear()
    agent.behave = writing(EVENTS + b"data: " + GOOD + b"\n\n", b": still here\n\n" * 100)
    with client.stream("POST", "", json=STREAM) as response:
        assert next(response.iter_lines()).startswith("data: ")
    assert agent.hung_up.wait(PATIENCE_S)


def test_an_agent_cannot_answer_with_somebody_elses_task(
    agent: RawAgent, client: httpx.Client, server: RunningServer
) -> None:
    agent.behave = answering(200, result({"task": TASK | {"id": "t-2", "contextId": "c-2"}}))
    assert client.post("", json=SEND).json()["result"]["task"]["id"] == "t-2"
    other = {"Authorization": f"Bearer {server.create_key('other')}"}
    assert "somebody else" in client.post("", json=SEND, headers=other).json()["error"]["message"]
    agent.behave = writing(EVENTS + b"data: " + result({"statusUpdate": {"taskId": "t-2"}}) + b"\n\n")
    [event] = events_of(client.post("", json=STREAM, headers=other))
    assert "somebody else" in event["error"]["message"]


ELSEWHERE = [
    "http://169.254.169.254/latest",
    "http://10.0.0.1/",
    "https://elsewhere.example/a2a",
    "file:///etc/passwd",
    "http://127.0.0.1:1/",
]


@pytest.mark.parametrize("number", range(len(ELSEWHERE)), ids=ELSEWHERE.__getitem__)
def test_a_card_cannot_send_the_relay_elsewhere(
    agent: RawAgent, client: httpx.Client, server: RunningServer, number: int
) -> None:
    lost = {"url": ELSEWHERE[number], "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    here = {"url": agent.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    agent.cards[f"/.well-known/lost-{number}"] = {"name": "Lost", "supportedInterfaces": [lost, here]}
    url = f"{server.url}/relay/v1/agents/lost-{number}"
    shown = client.get(f"{url}/.well-known/agent-card.json").json()["supportedInterfaces"]
    assert shown == [here | {"url": url}]
    response = client.post(url, json=SEND)
    assert response.json()["error"]["message"] == "The agent does not speak JSONRPC."


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
def test_a_call_that_is_none_never_reaches_the_agent(
    agent: RawAgent, client: httpx.Client, body: bytes, kind: str, code: int | None
) -> None:
    before = len(agent.requests)
    response = client.post("", content=body, headers={"content-type": kind})
    if code is None:
        assert response.status_code == 413
    else:
        assert response.json()["error"]["code"] == code
    assert len(agent.requests) == before


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
    agent: RawAgent, client: httpx.Client, path: str
) -> None:
    before = len(agent.requests)
    response = client.get(path, headers=V1)
    assert response.status_code == 404
    assert len(agent.requests) == before


@pytest.mark.parametrize("version", ["2.0", "1.1", "0.2", "one", "1.0, 0.3"])
def test_a_version_nobody_speaks_is_refused(client: httpx.Client, version: str) -> None:
    response = client.post("", json=SEND, headers={"A2A-Version": version})
    assert response.json()["error"]["code"] == -32009


def test_the_older_versions_paths_under_the_newer_version_are_refused(client: httpx.Client) -> None:
    response = client.post("/v1/message:send", json=SEND["params"])
    assert response.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/", "http://10.1.2.3/", "https://localhost.localdomain/", "ftp://a.example/"],
)
def test_an_agent_is_not_told_to_call_inside(agent: RawAgent, client: httpx.Client, url: str) -> None:
    agent.behave = answering(200, GOOD)
    client.post("", json=SEND)
    before = len(agent.requests)
    sent = {"taskPushNotificationConfig": {"url": url}}
    response = client.post("", json=SEND | {"params": SEND["params"] | {"configuration": sent}})  # type: ignore[operator]
    assert response.json()["error"]["code"] == -32602
    made = {"taskId": "t-1", "url": url}
    response = client.post("", json=SEND | {"method": "CreateTaskPushNotificationConfig", "params": made})
    assert response.json()["error"]["code"] == -32602
    assert len(agent.requests) == before


def test_what_is_said_twice_travels_once(agent: RawAgent, client: httpx.Client) -> None:
    agent.behave = answering(200, GOOD)
    twice = b'{"text": "secret", "text": "hi"}'
    body = json.dumps(SEND).encode().replace(b'{"text": "hi"}', twice)
    client.post("", content=body, headers={"content-type": "application/json"})
    assert b"secret" not in agent.requests[-1][1]


def test_a_method_that_an_address_does_not_take_is_told_as_such(
    agent: RawAgent, client: httpx.Client
) -> None:
    assert client.get("").status_code == 405
    assert client.delete("/message:send").status_code == 405
    agent.behave = answering(200, GOOD)
    client.post("", json=SEND)
    for status in (404, 405):
        agent.behave = answering(status, b"Not here", "text/plain")
        response = client.post("/tasks/t-1:subscribe")
        assert response.status_code == status
        assert response.json()["error"]["details"][0]["reason"] == "METHOD_NOT_FOUND"


def test_of_an_agents_headers_only_those_of_a2a_pass(agent: RawAgent, client: httpx.Client) -> None:
    agent.behave = answering(200, GOOD, a2a_extensions="https://e.example", set_cookie="a=b", server="x")
    asked = {"A2A-Extensions": "https://e.example"}
    headers = client.post("", json=SEND, headers=asked).headers
    assert headers["a2a-extensions"] == "https://e.example"
    assert not {"set-cookie", "server"} & set(headers)
