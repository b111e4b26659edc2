"""A JSON-RPC response belongs to the request with its id: any other response is the agent's error."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.raw_agent import RawAgent, answer_with
from tests.server.running import running

TASK = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}
WRONG_ID = "another id than the request"
SECRET = "the answer to somebody else"


@pytest.fixture(scope="module")
def client(raw_agent: RawAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    relay = RelaySettings(
        enabled=True,
        agents={"raw": AgentSettings(url=raw_agent.url)},
        callers={"acme": CallerSettings(agents=("raw",))},
    )
    with (
        running(tmp_path_factory.mktemp("ids"), relay=relay) as server,
        server.client(server.api_key) as found,
    ):
        found.headers["A2A-Version"] = "1.0"
        found.base_url = httpx.URL(f"{server.url}/relay/v1/agents/raw")
        yield found


def send(client: httpx.Client, rpc_id: Any, method: str = "SendMessage") -> httpx.Response:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    call = {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": {"message": message}}
    return client.post("", json=call)


def build_response(**members: Any) -> bytes:
    history = [{"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": SECRET}]}]
    result = {"task": {**TASK, "history": history}}
    return json.dumps({"jsonrpc": "2.0", "result": result, **members}).encode()


@pytest.mark.parametrize("sent", [7, "7", "a-1", 0])
def test_response_with_the_requests_id_is_relayed(
    raw_agent: RawAgent, client: httpx.Client, sent: Any
) -> None:
    raw_agent.behave = answer_with(200, build_response(id=sent))
    answer = send(client, sent).json()
    assert (answer["id"], answer["result"]["task"]["status"]) == (sent, TASK["status"])


@pytest.mark.parametrize(
    ("sent", "members"),
    [
        (7, {"id": 8}),
        (7, {"id": "7"}),
        ("7", {"id": 7}),
        (1, {"id": True}),
        (0, {"id": False}),
        (7, {"id": 7.0}),
        (7, {"id": None}),
        (7, {}),
        (7, {"id": [7]}),
        (7, {"id": {"id": 7}}),
        ("", {"id": None}),
        (7, {"id": 7 + 2**64}),
    ],
)
def test_response_to_another_request_is_an_error_of_the_agent(
    raw_agent: RawAgent, client: httpx.Client, sent: Any, members: dict[str, Any]
) -> None:
    raw_agent.behave = answer_with(200, build_response(**members))
    answer = send(client, sent)
    assert WRONG_ID in answer.json()["error"]["message"]
    assert answer.json()["id"] == sent
    assert SECRET not in answer.text


def test_error_to_another_request_is_not_relayed(raw_agent: RawAgent, client: httpx.Client) -> None:
    error = {"jsonrpc": "2.0", "id": 8, "error": {"code": -32001, "message": SECRET}}
    raw_agent.behave = answer_with(200, json.dumps(error).encode())
    assert SECRET not in send(client, 7).text


def test_error_without_an_id_is_relayed(raw_agent: RawAgent, client: httpx.Client) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    raw_agent.behave = answer_with(200, json.dumps(error).encode())
    assert send(client, 7).json()["error"]["code"] == -32700


@pytest.mark.parametrize("second", [8, "7", None])
def test_event_of_another_request_ends_the_stream_with_an_error(
    raw_agent: RawAgent, client: httpx.Client, second: Any
) -> None:
    first = json.dumps(
        {"jsonrpc": "2.0", "id": 7, "result": {"task": TASK | {"status": {"state": "TASK_STATE_WORKING"}}}}
    )
    events = b"data: " + first.encode() + b"\n\ndata: " + build_response(id=second) + b"\n\n"
    raw_agent.behave = answer_with(200, events, "text/event-stream")
    answer = send(client, 7, "SendStreamingMessage")
    assert SECRET not in answer.text
    assert WRONG_ID in answer.text


@pytest.mark.parametrize(
    "spelling",
    [
        b'"id":7,"id":8',
        b'"id":7e0',
        b'"id":7.00',
        b'"Id":7',
        b'"id":" 7"',
        b'"id":-7',
        b'"\\u0069d":8',
    ],
    ids=bytes.decode,
)
def test_response_whose_id_is_spelled_otherwise_is_not_relayed(
    raw_agent: RawAgent, client: httpx.Client, spelling: bytes
) -> None:
    raw_agent.behave = answer_with(200, build_response().replace(b"{", b"{" + spelling + b",", 1))
    answer = send(client, 7)
    assert SECRET not in answer.text
    assert answer.json()["id"] == 7


@pytest.mark.parametrize("count", [1, 2])
def test_batch_of_responses_is_not_relayed(raw_agent: RawAgent, client: httpx.Client, count: int) -> None:
    batch = b",".join(build_response(id=7 + number) for number in range(count))
    raw_agent.behave = answer_with(200, b"[" + batch + b"]")
    assert SECRET not in send(client, 7).text
