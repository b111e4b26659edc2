"""A policy is replayed over messages that really passed, in every dialect and as a stream."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.policies.samples import build_regex_draft
from tests.server.running import RunningServer, running

AGENT = "/relay/v1/agents/errands"


def build_rpc_call(method: str, message: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


def build_v1_message(text: str) -> dict[str, Any]:
    return {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}


def build_v03_message(text: str) -> dict[str, Any]:
    parts = [{"kind": "text", "text": text}]
    return {"kind": "message", "messageId": text, "role": "user", "parts": parts}


SENT: list[tuple[str, str, dict[str, Any]]] = [
    ("1.0", "", build_rpc_call("SendMessage", build_v1_message("echo secret-1"))),
    ("0.3", "", build_rpc_call("message/send", build_v03_message("echo secret-2"))),
    ("1.0", "/message:send", {"message": build_v1_message("echo secret-3")}),
    (
        "0.3",
        "/v1/message:send",
        {"request": {"message_id": "4", "role": "ROLE_USER", "content": [{"text": "echo secret-4"}]}},
    ),
    ("1.0", "", build_rpc_call("SendStreamingMessage", build_v1_message("spell secret-5"))),
]


@pytest.fixture(scope="module")
def server(agent: SdkAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    relay = RelaySettings(
        agents={"errands": AgentSettings(url=agent.url)},
        callers={"acme": CallerSettings(agents=("errands",))},
    )
    with running(tmp_path_factory.mktemp("replay"), relay=relay) as found:
        yield found


@pytest.fixture(scope="module")
def operator(server: RunningServer) -> Iterator[httpx.Client]:
    """Who looks at it, once everything was sent."""
    with server.client(server.create_key("acme")) as caller:
        for version, path, body in SENT:
            answer = caller.post(f"{AGENT}{path}", json=body, headers={"A2A-Version": version})
            assert answer.status_code == 200, answer.text
        plain = caller.post(
            AGENT,
            json=build_rpc_call("SendMessage", build_v1_message("echo good morning")),
            headers={"A2A-Version": "1.0"},
        )
        task = plain.json()["result"]["task"]["id"]
        for _ in range(2):
            body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task}}
            caller.post(AGENT, json=body, headers={"A2A-Version": "1.0"})
    assert server.parts.relay is not None
    server.run(server.parts.relay.audit_log.flush())
    server.advance(minutes=1)
    with server.client(server.create_key("root", "admin")) as client:
        yield client


def replay(operator: httpx.Client, **legs: bool) -> dict[str, Any]:
    policy = build_regex_draft("secret-[0-9]", "HUMAN_REVIEW_REQUIRED", name="Hold secrets", legs=legs)
    answer = operator.post("/relay/v1/policies/replay", json={"policy": policy})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_replay_finds_requests_in_every_dialect(operator: httpx.Client):
    found = replay(operator, requestToSink=True)
    assert (found["read"], found["withoutPayload"], found["complete"]) == (8, 0, True)
    assert (found["examined"], found["outcomes"]["HOLD"], found["outcomes"]["PASS"]) == (6, 5, 1)
    assert {one["sourceAgentId"] for one in found["examples"]} == {"acme"}
    assert [one["excerpt"] for one in found["examples"]] == [
        *["echo [MASKED:REGEX]"] * 4,
        "spell [MASKED:REGEX]",
    ]


def test_replay_finds_replies_once_in_every_dialect(operator: httpx.Client):
    found = replay(operator, responseFromSink=True)
    assert (found["outcomes"]["HOLD"], found["outcomes"]["PASS"], found["repeated"]) == (5, 1, 2)


def test_replay_masks_matched_text(operator: httpx.Client):
    assert "secret-" not in json.dumps(
        replay(operator, requestToSink=True, responseToSource=True)["examples"]
    )
