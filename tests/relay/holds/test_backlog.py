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
from tests.relay.a2a.raw_agent import RawAgent, answer_with, run_raw_agent
from tests.relay.holds.holding_server import decide, find_pending_hold, run_holding_server, wait_until_settled
from tests.server.running import RunningServer

MOST = 3
BUSY, REFUSED = -32083, -32080


@pytest.fixture
def agent() -> Iterator[RawAgent]:
    with run_raw_agent() as found:
        found.behave = answer_with(200, build_answer("done"))
        yield found


@pytest.fixture
def server(agent: RawAgent, tmp_path: Path) -> Iterator[RunningServer]:
    with run_holding_server(tmp_path, {"errands": agent.url}, max_pending_holds=MOST) as found:
        yield found


def build_answer(text: str, state: str = "TASK_STATE_COMPLETED") -> bytes:
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
        headers = {"A2A-Version": "1.0", "X-Correlation-Id": correlation_id_for(text)}
        return client.post(f"/relay/v1/agents/errands{path}", json=document, headers=headers)


def correlation_id_for(text: str) -> str:
    return text.replace(" ", "-")


def send_held(server: RunningServer, text: str) -> str:
    task: str = send(server, text).json()["result"]["task"]["id"]
    return task


def fill_backlog(server: RunningServer) -> list[str]:
    return [send_held(server, f"tulip {number}") for number in range(MOST)]


def count_pending(server: RunningServer, caller: str = "acme") -> int:
    asked = HoldFilter(status="PENDING", source=caller)
    _, total = server.run(server.parts.store.list_holds("default", asked, page=0, size=1))
    return total


def list_events(server: RunningServer, text: str, kind: str) -> list[dict[str, Any]]:
    """What the audit says of a kind about the call with this text."""
    with server.client(server.create_key("root", "admin")) as client:
        asked = {"correlationId": correlation_id_for(text), "auditType": kind}
        found: list[dict[str, Any]] = client.get("/audit/v1/events", params=asked).json()["content"]
        return found


def test_hold_over_the_limit_is_refused_and_audited(server: RunningServer, agent: RawAgent) -> None:
    fill_backlog(server)
    error = send(server, "tulip too many").json()["error"]
    assert (error["code"], error["data"][0]["reason"]) == (BUSY, "RELAY_BUSY")
    assert error["message"].startswith(
        f"{MOST} messages of this caller wait for a decision, which is the limit. "
    )
    assert error["data"][0]["metadata"] == {"max_pending_holds": str(MOST)}
    rest = send(server, "tulip by HTTP+JSON", path="/message:send")
    assert (rest.status_code, rest.json()["error"]["status"]) == (503, "UNAVAILABLE")
    assert not agent.requests
    assert count_pending(server) == MOST
    [told] = list_events(server, "tulip too many", "HITL")
    assert told["auditAction"] == "BLOCK"
    assert "tulip" not in told["message"]
    assert told["metadata"] == {
        "detectionSource": "POLICY_ESCALATION",
        "leg": "requestFromSource",
        "policyName": "No tulip",
        "maxPendingHolds": MOST,
    }
    assert list_events(server, "tulip too many", "COMMUNICATION_AUDIT")
    assert not list_events(server, "tulip too many", "HITL_GUARD")


def test_limit_does_not_affect_other_callers_or_clean_messages(
    server: RunningServer, agent: RawAgent
) -> None:
    fill_backlog(server)
    other = send(server, "tulip of another", key=server.create_key("other")).json()
    assert "HITL_HELD" in json.dumps(other)
    assert "done" in send(server, "a daisy").text
    assert len(agent.requests) == 1


def test_a_decision_makes_room(server: RunningServer) -> None:
    first, *_ = fill_backlog(server)
    wait_until_settled(server, decide(server, first, "reject"))
    send_held(server, "tulip in its place")
    assert count_pending(server) == MOST


def test_repeated_message_reuses_its_hold(server: RunningServer) -> None:
    first, *_ = fill_backlog(server)
    assert send_held(server, "tulip 0") == first
    assert count_pending(server) == MOST


@pytest.mark.parametrize(
    "answer",
    [build_answer("a marigold"), build_answer("which one?", "TASK_STATE_INPUT_REQUIRED")],
    ids=["held by a policy", "asks for input"],
)
def test_reply_that_would_be_held_over_the_limit_is_not_forwarded(
    server: RunningServer, agent: RawAgent, answer: bytes
) -> None:
    fill_backlog(server)
    agent.behave = answer_with(200, answer)
    refused = send(server, "a daisy")
    assert refused.json()["error"]["code"] == REFUSED
    assert "fetch it again" in refused.json()["error"]["message"]
    assert "marigold" not in refused.text
    assert "which one" not in refused.text
    assert len(agent.requests) == 1
    assert count_pending(server) == MOST
    [told] = list_events(server, "a daisy", "HITL")
    assert told["auditAction"] == "BLOCK"


def test_approved_message_may_be_held_again_over_the_limit(server: RunningServer, agent: RawAgent) -> None:
    first, *_ = fill_backlog(server)

    async def behave(one: RawAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.to_thread(send_held, server, "tulip in its place")
        await answer_with(200, build_answer("a marigold"))(one, reader, writer)

    agent.behave = behave
    wait_until_settled(server, decide(server, first))
    assert len(agent.requests) == 1
    assert find_pending_hold(server, first).policy_name == "No marigold"
    assert count_pending(server) == MOST + 1


def test_concurrent_holds_respect_the_limit(server: RunningServer, agent: RawAgent) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda number: send(server, f"tulip {number}").json(), range(24)))
    refused = [one["error"]["code"] for one in answers if "error" in one]
    assert set(refused) == {BUSY}
    assert 1 <= len(answers) - len(refused) == count_pending(server) <= MOST
    assert not agent.requests
