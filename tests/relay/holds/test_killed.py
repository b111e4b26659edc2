"""A server that is killed with messages held, approved or half forwarded loses none of them."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from placet.desk.api_keys import DEFAULT_SCOPES, create_key
from placet.stores.sqlite.store import SqliteStore
from tests.cli.process import ServerProcess, serving
from tests.relay.a2a.sdk_agent import SdkAgent
from tests.relay.holds.holding_server import POLICIES
from tests.relay.holds.test_outages import run_agent_at
from tests.relay.test_restart import call, send
from tests.waiting import eventually

CONFIG = """
allow_loopback = true

[relay]
policies = "policies.json"
[relay.agents.errands]
url = "{url}"
[relay.callers.ann]
agents = ["errands"]
[relay.groups.reviewers]
members = ["rita"]
permissions = ["AGENT_CONVERSATIONS:READ", "AGENT_CONVERSATIONS:WRITE"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policies.json").write_text(json.dumps(POLICIES))
    return tmp_path


def configure(folder: Path, url: str) -> tuple[str, str]:
    """The keys of a caller and a reviewer."""
    (folder / "placet.toml").write_text(CONFIG.format(url=url))

    async def keys() -> tuple[str, str]:
        store = await SqliteStore.open(str(folder / "cases.db"))
        ann = await create_key(store, "ann", now=datetime.now(UTC), scopes=DEFAULT_SCOPES)
        rita = await create_key(store, "rita", now=datetime.now(UTC), scopes=DEFAULT_SCOPES)
        await store.aclose()
        return ann, rita

    return asyncio.run(keys())


@contextmanager
def run_until_killed(folder: Path) -> Iterator[ServerProcess]:
    """A server that is killed in the end, whatever it is doing."""
    with serving(folder) as server:
        server.url()
        yield server
        server.process.kill()
        server.process.wait(60)


def resolve(server: ServerProcess, key: str, task_id: str, action: str = "APPROVED") -> httpx.Response:
    with server.client(key) as client:
        [approval] = client.get("/relay/v1/approvals", params={"taskId": task_id}).json()["content"]
        return client.post(f"/relay/v1/approvals/{approval['id']}/resolve", json={"action": action})


def read_state(server: ServerProcess, key: str, task_id: str) -> str:
    found: str = call(server, key, "GetTask", id=task_id)["result"]["status"]["state"]
    return found


def wait_until_completed(server: ServerProcess, key: str, task_id: str) -> bool:
    return eventually(lambda: read_state(server, key, task_id) == "TASK_STATE_COMPLETED")


def make_deliveries_due(folder: Path) -> None:
    """Let every delivery's lease or wait be over."""
    database = apsw.Connection(str(folder / "cases.db"))
    database.set_busy_timeout(60_000)
    now = int(time.time() * 1_000_000)
    database.execute("UPDATE deliveries SET next_at = min(next_at, ?) WHERE state = 'waiting'", (now,))
    database.close()


def read_task_id(answer: dict[str, Any]) -> str:
    found: str = answer["result"]["task"]["id"]
    return found


def test_holds_survive_a_kill_and_are_decided_afterwards(agent: SdkAgent, folder: Path) -> None:
    ann, rita = configure(folder, agent.url)
    with run_until_killed(folder) as server:
        tasks = [read_task_id(send(server, ann, text)) for text in ("kept tulip", "ask", "shown marigold")]
    with serving(folder) as server:
        for task_id in tasks:
            task = call(server, ann, "GetTask", id=task_id)["result"]
            assert task["status"]["state"] == "TASK_STATE_WORKING"
            assert task["metadata"]["relay_reason"].startswith("HITL_HELD")
            assert resolve(server, rita, task_id).status_code == 200
        assert all(wait_until_completed(server, ann, task_id) for task_id in tasks)
    assert [agent.executor.texts.count(text) for text in ("kept tulip", "ask", "shown marigold")] == [1, 1, 1]


def test_a_kill_between_the_approval_and_an_agent_that_was_away(port: int, folder: Path) -> None:
    ann, rita = configure(folder, f"http://127.0.0.1:{port}")
    with run_until_killed(folder) as server:
        task_id = read_task_id(send(server, ann, "echo tulip"))
        assert resolve(server, rita, task_id).status_code == 200
    with run_agent_at(port) as agent, serving(folder) as server:
        server.url()
        make_deliveries_due(folder)
        assert wait_until_completed(server, ann, task_id)
        assert agent.executor.texts == ["echo tulip"]


def test_a_kill_while_the_agent_works_forwards_again_under_the_same_message_id(
    agent: SdkAgent, folder: Path
) -> None:
    ann, rita = configure(folder, agent.url)
    agent.executor.go_on.clear()
    with run_until_killed(folder) as server:
        task_id = read_task_id(send(server, ann, "late task of a tulip"))
        assert resolve(server, rita, task_id).status_code == 200
        assert eventually(lambda: "late task of a tulip" in agent.executor.texts)
    agent.executor.go_on.set()
    with serving(folder) as server:
        server.url()
        assert read_state(server, ann, task_id) == "TASK_STATE_WORKING"
        make_deliveries_due(folder)
        assert wait_until_completed(server, ann, task_id)
        assert resolve_again(server, rita, task_id) == 409
    ids = agent.executor.ids_of("late task of a tulip")
    assert len(ids) == 2
    assert len(set(ids)) == 1


def resolve_again(server: ServerProcess, key: str, task_id: str) -> int:
    with server.client(key) as client:
        query = {"taskId": task_id, "status": "ALL"}
        [approval] = client.get("/relay/v1/approvals", params=query).json()["content"]
        path = f"/relay/v1/approvals/{approval['id']}/resolve"
        return client.post(path, json={"action": "REJECTED"}).status_code


def has_upstream_task(folder: Path, task_id: str) -> bool:
    """Whether the agent's name for the task is known."""
    database = apsw.Connection(str(folder / "cases.db"))
    database.set_busy_timeout(60_000)
    found = database.execute("SELECT body FROM holds WHERE task_id = ?", (task_id,)).fetchall()
    database.close()
    return '"ran_as"' in str(found[0][0])


def test_a_kill_while_a_stream_is_read_asks_the_agent_for_its_task_and_does_not_send_again(
    agent: SdkAgent, folder: Path
) -> None:
    ann, rita = configure(folder, agent.url)
    agent.executor.go_on.clear()
    with run_until_killed(folder) as server:
        message = {"messageId": "s", "role": "ROLE_USER", "parts": [{"text": "late task, a streamed tulip"}]}
        task_id = read_first_event(server, ann, message)["result"]["task"]["id"]
        assert resolve(server, rita, task_id).status_code == 200
        assert eventually(lambda: has_upstream_task(folder, task_id))
    agent.executor.go_on.set()
    with serving(folder) as server:
        server.url()
        make_deliveries_due(folder)
        assert wait_until_completed(server, ann, task_id)
    assert agent.executor.texts.count("late task, a streamed tulip") == 1


def read_first_event(server: ServerProcess, key: str, message: dict[str, Any]) -> dict[str, Any]:
    """The first event of a stream, which is left then."""
    document = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    headers = {"A2A-Version": "1.0"}
    with (
        server.client(key) as client,
        client.stream("POST", "/relay/v1/agents/errands", json=document, headers=headers) as stream,
    ):
        line = next(one for one in stream.iter_lines() if one.startswith("data: "))
    found: dict[str, Any] = json.loads(line[6:])
    return found
