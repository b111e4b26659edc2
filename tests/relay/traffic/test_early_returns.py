"""Callers of a slow agent get a task to come back to, however far its answer has come by then."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from placet.http.asgi import BufferedBody
from placet.relay.a2a.errors import A2AError
from placet.relay.audit.audit_log import AuditLog
from placet.relay.exchange import CallWrites
from placet.relay.task import IdKind, Task
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.transports.http import RelayApp
from tests.raw_server import serve_connections
from tests.relay.fakes import MemoryTaskRepository, PassthroughInspector
from tests.relay.inspection.inspected_relay import MemoryAuditLog
from tests.relay.relay_app import build_app, settings_for_one_agent
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

EARLY = "1s"
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


class SlowAgent:
    """Keeps its connections, and waits before the head or the body of an answer if a message says so."""

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        self.asked = asyncio.Event()
        """Somebody waits for the agent."""
        self.go_on = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                said = await reader.readexactly(size)
                await self._answer(
                    writer, self._card() if head.startswith(b"GET") else _build_answer(said), said
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, answer: bytes, said: bytes) -> None:
        if b"late" in said:
            self.asked.set()
        if b"late head" in said:
            await self.go_on.wait()
        writer.write(HEAD % len(answer))
        if b"late body" in said:
            writer.write(answer[:9])
            await self.go_on.wait()
            answer = answer[9:]
        writer.write(answer)

    def _card(self) -> bytes:
        interface = {"url": self.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return json.dumps({"name": "Slow", "supportedInterfaces": [interface]}).encode()


def _build_answer(said: bytes) -> bytes:
    result = TASK if b'"GetTask"' in said else {"task": TASK}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()


@asynccontextmanager
async def run_relay(
    agent: SlowAgent, tasks: TaskRepository | None = None, trail: AuditLog | None = None, **settings: Any
) -> AsyncIterator[RelayApp]:
    async with serve_connections(agent) as port:
        agent.url = f"http://127.0.0.1:{port}"
        app = build_app(
            settings_for_one_agent("slow", agent.url, **{"early_return": EARLY, **settings}),
            public_url="http://relay.example",
            inspector=PassthroughInspector(),
            tasks=tasks,
            audit_log=trail or MemoryAuditLog(),
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield app
        finally:
            agent.go_on.set()
            await app.aclose()


async def call_agent(app: RelayApp, method: str, **params: Any) -> dict[str, Any]:
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/relay/v1/agents/slow",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"a2a-version", b"1.0")],
    }
    reply = await app.reply(scope, BufferedBody(body))
    assert reply is not None
    found: dict[str, Any] = json.loads(reply[2])
    return found


async def send_message(app: RelayApp, text: str, **more: str) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **more}
    found = await call_agent(app, "SendMessage", message=message)
    return found["result"]["task"] if "result" in found else found["error"]


async def wait_until_ended(app: RelayApp, task_id: str) -> dict[str, Any]:
    while True:
        task: dict[str, Any] = (await call_agent(app, "GetTask", id=task_id))["result"]
        if task["status"]["state"] != "TASK_STATE_WORKING":
            return task
        await asyncio.sleep(0.005)


async def wait_until_admitted(app: RelayApp) -> None:
    """Return once the agent was called and answered in time."""
    while True:
        if (await send_message(app, "soon")).get("id") == "t":
            return
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "new"])
@pytest.mark.parametrize("what", ["late head", "late body"])
async def test_reply_that_is_late_is_readable_later(what: str, kept: bool) -> None:
    agent = SlowAgent()
    async with run_relay(agent) as app:
        if kept:
            await wait_until_admitted(app)
        early = await send_message(app, what)
        assert early["status"]["state"] == "TASK_STATE_WORKING"
        assert early["metadata"] == {"relay_reason": "TIMEOUT"}
        assert (await send_message(app, "soon"))["id"] in ("t", early["id"])
        agent.go_on.set()
        assert (await wait_until_ended(app, early["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("what", ["late head", "late body"])
async def test_task_of_a_late_reply_keeps_its_id(what: str) -> None:
    agent = SlowAgent()
    async with run_relay(agent, max_calls=1) as app:
        assert (await send_message(app, "soon"))["id"] == "t"
        early = await send_message(app, what, taskId="t", contextId="c")
        assert (early["id"], early["contextId"]) == ("t", "c")
        assert early["status"]["state"] == "TASK_STATE_WORKING"
        assert early["metadata"] == {"relay_reason": "TIMEOUT"}
        agent.go_on.set()
        await wait_until_admitted(app)
        assert (await wait_until_ended(app, "t")) == TASK


async def test_audit_names_the_task_of_the_early_return() -> None:
    agent, trail = SlowAgent(), MemoryAuditLog()
    async with run_relay(agent, trail=trail) as app:
        early = await send_message(app, "late head")
        [row] = trail.rows
        event = json.loads(row.body)
        assert (row.task_id, event["taskState"]) == (early["id"], "working")
        assert event["payload"]["responseBody"]["result"]["task"] == early


async def test_calls_that_are_answered_in_time_share_a_connection_and_no_task() -> None:
    agent = SlowAgent()
    async with run_relay(agent, early_return="1h") as app:
        for _ in range(5):
            assert (await send_message(app, "soon"))["status"] == TASK["status"]
        assert agent.connections == 1


@pytest.mark.parametrize("what", ["late head", "late body"])
async def test_disconnected_caller_cancels_its_call(what: str) -> None:
    agent = SlowAgent()
    async with run_relay(agent, early_return="1h", max_calls=1) as app:
        assert (await send_message(app, "soon"))["id"] == "t"
        leaving = asyncio.create_task(send_message(app, what))
        await agent.asked.wait()
        assert (await send_message(app, "soon"))["message"].startswith("Too many calls")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await wait_until_admitted(app)


class FullTaskRepository(MemoryTaskRepository):
    """A repository without room for tasks that the relay would have to name itself."""

    async def write(
        self,
        tenant: str,
        agent: str,
        kind: IdKind,
        entry: Task,
        *,
        at_once: bool = False,
        call: CallWrites | None = None,
    ) -> None:
        if entry.upstream_id is None:
            raise A2AError("busy", "There is no room.")
        await super().write(tenant, agent, kind, entry, at_once=at_once)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "new"])
async def test_call_without_room_for_its_task_is_refused_and_ended(kept: bool) -> None:
    agent = SlowAgent()
    async with run_relay(agent, tasks=FullTaskRepository(), max_calls=1) as app:
        if kept:
            await wait_until_admitted(app)
        assert (await send_message(app, "late head"))["message"] == "There is no room."
        await wait_until_admitted(app)
