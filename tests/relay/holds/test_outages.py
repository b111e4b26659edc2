"""Agents that are away when a message is approved, and messages that are no longer what was approved."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from placet.desk.answer import Answer
from placet.desk.delivery_retries import RELEASE_RETRY_SCHEDULE
from placet.http.listening import bind
from placet.ports.outbox_store import Delivery, DeliveryFilter
from placet.relay.hold import FrozenMessage, decode_hold_body
from tests.relay.a2a.raw_agent import run_raw_agent, write_bytes
from tests.relay.a2a.sdk_agent import SampleExecutor, SdkAgent, build_sdk_app, serve_app
from tests.relay.holds.holding_server import (
    DONE,
    WORKING,
    decide,
    find_pending_hold,
    get_task,
    open_sdk_caller,
    read_metadata,
    run_holding_server,
    wait_until_done,
    wait_until_settled,
)
from tests.server.running import RunningServer
from tests.waiting import eventually

GATEWAY_LATE = b"HTTP/1.1 504 Late\r\ncontent-length: 0\r\n\r\n"


@contextmanager
def run_agent_at(port: int) -> Iterator[SdkAgent]:
    """An agent that begins to listen here now."""
    listener = bind("127.0.0.1", port)
    agent = SdkAgent(f"http://127.0.0.1:{port}", SampleExecutor())
    with serve_app(agent.watching(build_sdk_app(agent.url, agent.executor)), listener):
        yield agent


@pytest.fixture
def server_without_agent(port: int, tmp_path: Path) -> Iterator[RunningServer]:
    """A relay whose agent does not listen."""
    with run_holding_server(tmp_path, {"errands": f"http://127.0.0.1:{port}"}) as found:
        yield found


def send(server: RunningServer, text: str) -> str:
    """Send a message without reading the agent's card."""
    message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
    found: str = call(server, "SendMessage", message=message)["task"]["id"]
    return found


def call(server: RunningServer, method: str, *, key: str | None = None, **params: Any) -> Any:
    document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with server.client(key or server.api_key) as client:
        headers = {"A2A-Version": "1.0"}
        answer = client.post("/relay/v1/agents/errands", json=document, headers=headers)
    return answer.json()["result"]


def find_delivery(server: RunningServer, case_id: str) -> Delivery:
    [found] = server.run(server.parts.store.list_deliveries(DeliveryFilter(case_id=case_id)))
    return found


def overwrite_hold(folder: Path, hold_id: str, envelope: bytes, body: bytes) -> None:
    """Write into the database as nobody should."""
    execute(folder, "UPDATE holds SET envelope = ?, body = ? WHERE id = ?", envelope, body, hold_id)


def execute(folder: Path, sql: str, *values: str | bytes) -> None:
    database = apsw.Connection(str(folder / "cases.db"))
    database.set_busy_timeout(60_000)
    database.execute(sql, values)
    database.close()


def wait_for_attempts(server: RunningServer, case_id: str, times: int) -> Delivery:
    def look() -> Delivery | None:
        found = find_delivery(server, case_id)
        return found if found.attempts >= times else None

    return eventually(look)


def test_an_approved_message_waits_for_an_agent_that_is_away(
    port: int, server_without_agent: RunningServer
) -> None:
    task_id = send(server_without_agent, "echo tulip")
    hold = decide(server_without_agent, task_id)
    owed = wait_for_attempts(server_without_agent, hold.case_id, 1)
    assert owed.state == "waiting"
    assert owed.last_error == "The agent could not be reached."
    task = call(server_without_agent, "GetTask", id=task_id)
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    assert task["metadata"] == {"relay_reason": "TIMEOUT"}
    with run_agent_at(port) as agent:
        server_without_agent.advance(seconds=10)
        server_without_agent.deliver()
        wait_until_settled(server_without_agent, hold)
        assert call(server_without_agent, "GetTask", id=task_id)["status"]["state"] == "TASK_STATE_COMPLETED"
        assert agent.executor.texts == ["echo tulip"]
        assert eventually(lambda: find_delivery(server_without_agent, hold.case_id).state == "delivered")


def test_an_outage_of_twelve_seconds_delays_an_approved_message_by_seconds(
    port: int, server_without_agent: RunningServer
) -> None:
    task_id = send(server_without_agent, "echo tulip")
    hold = decide(server_without_agent, task_id)
    wait_for_attempts(server_without_agent, hold.case_id, 1)
    for attempt, seconds in enumerate([3, 6, 3], start=2):
        server_without_agent.advance(seconds=seconds)
        server_without_agent.deliver()
        if attempt < 4:
            wait_for_attempts(server_without_agent, hold.case_id, attempt)
    with run_agent_at(port) as agent:
        server_without_agent.advance(seconds=12)
        server_without_agent.deliver()
        wait_until_settled(server_without_agent, hold)
        assert agent.executor.texts == ["echo tulip"]


def test_an_approved_message_is_sent_as_soon_as_its_agent_answers_another_call(
    port: int, server_without_agent: RunningServer
) -> None:
    task_id = send(server_without_agent, "echo tulip")
    hold = decide(server_without_agent, task_id)
    for attempt in range(1, 12):
        wait_for_attempts(server_without_agent, hold.case_id, attempt)
        server_without_agent.advance(hours=2)
        server_without_agent.deliver()
    waiting = wait_for_attempts(server_without_agent, hold.case_id, 12)
    assert waiting.next_at is not None
    assert waiting.next_at > server_without_agent.clock() + timedelta(minutes=30)
    with run_agent_at(port) as agent:
        message = {"messageId": "other", "role": "ROLE_USER", "parts": [{"text": "echo hello"}]}
        assert call(server_without_agent, "SendMessage", message=message)["task"]
        wait_until_settled(server_without_agent, hold)
        assert sorted(agent.executor.texts) == ["echo hello", "echo tulip"]


def test_unreachable_agent_fails_the_task(server_without_agent: RunningServer) -> None:
    task_id = send(server_without_agent, "echo tulip")
    hold = decide(server_without_agent, task_id)
    for attempt in range(1, len(RELEASE_RETRY_SCHEDULE) + 1):
        wait_for_attempts(server_without_agent, hold.case_id, attempt)
        server_without_agent.advance(hours=30)
        server_without_agent.deliver()
    failed = find_delivery(server_without_agent, hold.case_id)
    assert (failed.state, failed.attempts) == ("failed", len(RELEASE_RETRY_SCHEDULE))
    task = call(server_without_agent, "GetTask", id=task_id)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "could not be reached" in task["status"]["message"]["parts"][0]["text"]
    kept = server_without_agent.run(server_without_agent.parts.store.get_hold(hold.id))
    assert kept is not None
    assert kept.status == "APPROVED"
    assert decode_hold_body(kept).failure == "The agent could not be reached."


def test_bytes_that_changed_since_they_were_shown_are_not_forwarded(agent: SdkAgent, tmp_path: Path) -> None:
    with run_holding_server(tmp_path, {"errands": agent.url}) as server:
        task_id = send(server, "echo tulip")
        hold = find_pending_hold(server, task_id)
        changed = hold.envelope.replace(b"echo tulip", b"echo money")
        overwrite_hold(tmp_path, hold.id, changed, hold.body)
        wait_until_settled(server, decide(server, task_id))
        task = call(server, "GetTask", id=task_id)
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "differs from what the reviewer approved" in task["status"]["message"]["parts"][0]["text"]
        assert agent.executor.texts.count("echo money") == 0


def test_a_digest_that_was_changed_with_the_bytes_is_refused_too(agent: SdkAgent, tmp_path: Path) -> None:
    with run_holding_server(tmp_path, {"errands": agent.url}) as server:
        task_id = send(server, "echo tulip")
        hold = find_pending_hold(server, task_id)
        changed = hold.envelope.replace(b"echo tulip", b"echo money")
        honest = FrozenMessage(frame=decode_hold_body(hold).frame, data=changed).digest
        body = hold.body.replace(decode_hold_body(hold).digest.encode(), honest.encode())
        overwrite_hold(tmp_path, hold.id, changed, body)
        wait_until_settled(server, decide(server, task_id))
        assert call(server, "GetTask", id=task_id)["status"]["state"] == "TASK_STATE_FAILED"
        assert agent.executor.texts.count("echo money") == 0


def test_a_rejected_message_is_not_forwarded_because_its_row_says_approved(
    agent: SdkAgent, tmp_path: Path
) -> None:
    with run_holding_server(tmp_path, {"errands": agent.url}) as server:
        task_id = send(server, "echo tulip")
        hold = find_pending_hold(server, task_id)
        execute(tmp_path, "UPDATE holds SET status = 'APPROVED' WHERE id = ?", hold.id)
        answer = Answer(action="reject", data={}, path="browser_submit", actor="link:reviewer")
        server.run(server.parts.desk.answer(hold.case_id, answer))
        assert decode_hold_body(wait_until_settled(server, hold)).failure is not None
        assert agent.executor.texts.count("echo tulip") == 0


def test_slow_agent_delays_no_other_call_and_is_called_once(agent: SdkAgent, tmp_path: Path) -> None:
    with run_holding_server(tmp_path, {"errands": agent.url}) as server:

        async def run() -> None:
            async with open_sdk_caller(server) as made:
                agent.executor.go_on.clear()
                [slow] = await made.send("late task tulip")
                waiting = decide(server, slow.task.id)
                [quick] = await made.send("quick tulip")
                wait_until_settled(server, decide(server, quick.task.id))
                assert (await wait_until_done(made, quick.task.id)).status.state == DONE
                meanwhile = await get_task(made, slow.task.id)
                assert meanwhile.status.state == WORKING
                assert read_metadata(meanwhile) == {"relay_reason": "TIMEOUT"}
                server.advance(seconds=61)  # the lease is over, the call goes on
                agent.executor.go_on.set()
                wait_until_settled(server, waiting)
                assert (await wait_until_done(made, slow.task.id)).status.state == DONE
                assert agent.executor.texts.count("late task tulip") == 1

        asyncio.run(run())


def test_approval_for_a_removed_caller_is_not_forwarded(agent: SdkAgent, tmp_path: Path) -> None:
    with run_holding_server(tmp_path, {"errands": agent.url}) as server:
        key = server.create_key("guest")
        with server.client(server.create_key("root", "admin")) as root:
            guest = {"name": "guest", "agents": ["errands"]}
            root.post("/relay/v1/registry/callers", json=guest).raise_for_status()
            message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "gone tulip"}]}
            task_id = call(server, "SendMessage", key=key, message=message)["task"]["id"]
            root.delete("/relay/v1/registry/callers/guest").raise_for_status()
        kept = wait_until_settled(server, decide(server, task_id))
        assert decode_hold_body(kept).failure == "The caller may no longer call this agent."
        assert "gone tulip" not in agent.executor.texts


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", GATEWAY_LATE])
def test_a_message_that_may_have_arrived_is_sent_once_more_at_most(tmp_path: Path, answer: bytes) -> None:
    with run_raw_agent() as agent, run_holding_server(tmp_path, {"errands": agent.url}) as server:
        agent.behave = write_bytes(answer)
        task_id = send(server, "echo tulip")
        hold = decide(server, task_id)
        for attempt in (1, 2):
            wait_for_attempts(server, hold.case_id, attempt)
            server.advance(hours=30)
            server.deliver()
        wait_until_settled(server, hold)
        task = call(server, "GetTask", id=task_id)
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "may or may not have received it" in task["status"]["message"]["parts"][0]["text"]
        assert len(agent.requests) == 2


def test_approved_message_goes_only_to_the_agent_the_reviewer_saw(tmp_path: Path) -> None:
    with (
        run_raw_agent() as agent,
        run_raw_agent() as other,
        run_holding_server(tmp_path, {"errands": agent.url, "others": other.url}) as server,
    ):
        task_id = send(server, "echo tulip")
        hold = find_pending_hold(server, task_id)
        database = apsw.Connection(str(tmp_path / "cases.db"))
        database.set_busy_timeout(60_000)
        database.execute("UPDATE holds SET sink = 'others' WHERE id = ?", (hold.id,))
        database.close()
        answer = Answer(action="approve", data={}, path="browser_submit", actor="link:reviewer")
        server.run(server.parts.desk.answer(hold.case_id, answer))
        wait_until_settled(server, hold)
        assert not agent.requests
        assert not other.requests
