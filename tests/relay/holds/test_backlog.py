"""So many messages of a caller may wait for a person; what would be one more is refused, and never passes."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.ports.hold_store import HoldFilter
from tests.relay.a2a.raw_agent import RawAgent, answering, raw_agent
from tests.relay.holds.holding import decide, holding_server, pending, settled
from tests.server.running import RunningServer

MOST = 3
BUSY, REFUSED = -32083, -32080


@pytest.fixture
def agent() -> Iterator[RawAgent]:
    with raw_agent() as found:
        found.behave = answering(200, saying("done"))
        yield found


@pytest.fixture
def server(agent: RawAgent, tmp_path: Path) -> Iterator[RunningServer]:
    with holding_server(tmp_path, {"errands": agent.url}, max_pending_holds=MOST) as found:
        yield found


def saying(text: str, state: str = "TASK_STATE_COMPLETED") -> bytes:
    """An agent's answer: a task that says this."""
    said = {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    task = {"id": "theirs", "contextId": "there", "status": {"state": state, "message": said}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()


def send(server: RunningServer, text: str, *, key: str | None = None, path: str = "") -> httpx.Response:
    message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
    document: dict[str, Any] = {"message": message}
    if not path:
        document = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": document}
    with server.client(key or server.api_key) as client:
        headers = {"A2A-Version": "1.0", "X-Correlation-Id": trace(text)}
        return client.post(f"/relay/v1/agents/errands{path}", json=document, headers=headers)


def trace(text: str) -> str:
    return text.replace(" ", "-")


def held(server: RunningServer, text: str) -> str:
    task: str = send(server, text).json()["result"]["task"]["id"]
    return task


def fill(server: RunningServer) -> list[str]:
    return [held(server, f"tulip {number}") for number in range(MOST)]


def waiting(server: RunningServer, caller: str = "acme") -> int:
    asked = HoldFilter(status="PENDING", source=caller)
    _, total = server.run(server.parts.store.list_holds("default", asked, page=0, size=1))
    return total


def events(server: RunningServer, text: str, kind: str) -> list[dict[str, Any]]:
    """What the audit says of a kind about the call with this text."""
    with server.client(server.create_key("root", "admin")) as client:
        asked = {"correlationId": trace(text), "auditType": kind}
        found: list[dict[str, Any]] = client.get("/audit/v1/events", params=asked).json()["content"]
        return found


def test_one_more_is_refused_and_the_audit_says_so(server: RunningServer, agent: RawAgent) -> None:
    fill(server)
    error = send(server, "tulip too many").json()["error"]
    assert (error["code"], error["data"][0]["reason"]) == (BUSY, "RELAY_BUSY")
    assert error["message"].startswith(f"{MOST} messages of this caller wait for a person already; ")
    assert error["data"][0]["metadata"] == {"max_pending_holds": str(MOST)}
    rest = send(server, "tulip by HTTP+JSON", path="/message:send")
    assert (rest.status_code, rest.json()["error"]["status"]) == (503, "UNAVAILABLE")
    assert not agent.requests
    assert waiting(server) == MOST
    [told] = events(server, "tulip too many", "HITL")
    assert told["auditAction"] == "BLOCK"
    assert "tulip" not in told["message"]
    assert told["metadata"] == {
        "detectionSource": "POLICY_ESCALATION",
        "leg": "requestFromSource",
        "policyName": "No tulip",
        "maxPendingHolds": MOST,
    }
    assert events(server, "tulip too many", "COMMUNICATION_AUDIT")
    assert not events(server, "tulip too many", "HITL_GUARD")


def test_another_caller_and_a_clean_message_have_nothing_to_do_with_it(
    server: RunningServer, agent: RawAgent
) -> None:
    fill(server)
    other = send(server, "tulip of another", key=server.create_key("other")).json()
    assert "HITL_HELD" in json.dumps(other)
    assert "done" in send(server, "a daisy").text
    assert len(agent.requests) == 1


def test_a_decision_makes_room(server: RunningServer) -> None:
    first, *_ = fill(server)
    settled(server, decide(server, first, "reject"))
    held(server, "tulip in its place")
    assert waiting(server) == MOST


def test_what_comes_again_meets_the_hold_it_has(server: RunningServer) -> None:
    first, *_ = fill(server)
    assert held(server, "tulip 0") == first
    assert waiting(server) == MOST


@pytest.mark.parametrize(
    "answer",
    [saying("a marigold"), saying("which one?", "TASK_STATE_INPUT_REQUIRED")],
    ids=["held by a policy", "asks for input"],
)
def test_an_answer_that_would_wait_is_not_passed_on(
    server: RunningServer, agent: RawAgent, answer: bytes
) -> None:
    fill(server)
    agent.behave = answering(200, answer)
    refused = send(server, "a daisy")
    assert refused.json()["error"]["code"] == REFUSED
    assert "ask for it again" in refused.json()["error"]["message"]
    assert "marigold" not in refused.text
    assert "which one" not in refused.text
    assert len(agent.requests) == 1
    assert waiting(server) == MOST
    [told] = events(server, "a daisy", "HITL")
    assert told["auditAction"] == "BLOCK"


def test_what_a_person_let_go_on_may_wait_again(server: RunningServer, agent: RawAgent) -> None:
    first, *_ = fill(server)

    async def behave(one: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.to_thread(held, server, "tulip in its place")
        await answering(200, saying("a marigold"))(one, reader, writer)

    agent.behave = behave
    settled(server, decide(server, first))
    assert len(agent.requests) == 1
    assert pending(server, first).policy_name == "No marigold"
    assert waiting(server) == MOST + 1


def test_of_many_at_once_no_more_wait_than_may(server: RunningServer, agent: RawAgent) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda number: send(server, f"tulip {number}").json(), range(24)))
    refused = [one["error"]["code"] for one in answers if "error" in one]
    assert set(refused) == {BUSY}
    assert 1 <= len(answers) - len(refused) == waiting(server) <= MOST
    assert not agent.requests
