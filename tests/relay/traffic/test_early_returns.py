"""Callers of a slow agent get a task to come back to, however far its answer has come by then."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from placet.bootstrap.storage import open_memory_store
from placet.deliveries.guarded_resolver import GuardedResolver, SystemLookup
from placet.desk import clock
from placet.http.asgi import BufferedBody, read_body
from placet.ports.identity import Principal
from placet.relay.a2a.errors import A2AError
from placet.relay.audit.audit_log import AuditLog
from placet.relay.bootstrap import build_relay_app
from placet.relay.push.encryption import SecretBox
from placet.relay.push.push_proxy import PushProxy
from placet.relay.push.webhooks import WebhookRepository
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings
from placet.relay.tasks.task_repository import MemoryTaskRepository, NameKind, Task, TaskRepository
from placet.relay.traffic.proxy import RelayApp
from tests.relay.inspection.judged import MemoryTrail
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
                await self._answer(writer, self._card() if head.startswith(b"GET") else _told(said), said)
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


def _told(said: bytes) -> bytes:
    result = TASK if b'"GetTask"' in said else {"task": TASK}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()


async def anyone(scope: Any) -> Principal:
    return Principal(name="acme")


async def anywhere(url: str) -> None:
    return None


async def read_at_most(scope: Any, receive: Any, limit: int) -> bytes:
    return await read_body(scope, receive, limit=limit)


@asynccontextmanager
async def relayed(
    agent: SlowAgent, book: TaskRepository | None = None, trail: AuditLog | None = None, **settings: Any
) -> AsyncIterator[RelayApp]:
    server = await asyncio.start_server(agent, "127.0.0.1", 0)
    agent.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    webhooks = WebhookRepository(
        open_memory_store(), SecretBox("s"), public_url="http://relay.example", now=clock.now
    )
    app = build_relay_app(
        RelaySettings(
            agents={"slow": AgentSettings(url=agent.url)},
            callers={"acme": CallerSettings(agents=("slow",))},
            **{"early_return": EARLY, **settings},
        ),
        environ={},
        public_url="http://relay.example",
        allow_loopback=True,
        resolver=GuardedResolver(SystemLookup(), allow_loopback=True),
        authenticate=anyone,
        read_body=read_at_most,
        pushes=PushProxy(webhooks, check=anywhere),
        now=clock.now,
        monotonic=clock.monotonic,
        book=book,
        trail=trail,
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield app
    finally:
        agent.go_on.set()
        await app.aclose()
        server.close()
        await server.wait_closed()


async def called(app: RelayApp, method: str, **params: Any) -> dict[str, Any]:
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


async def sent(app: RelayApp, text: str, **more: str) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **more}
    found = await called(app, "SendMessage", message=message)
    return found["result"]["task"] if "result" in found else found["error"]


async def ended(app: RelayApp, task_id: str) -> dict[str, Any]:
    while True:
        task: dict[str, Any] = (await called(app, "GetTask", id=task_id))["result"]
        if task["status"]["state"] != "TASK_STATE_WORKING":
            return task
        await asyncio.sleep(0.005)


async def admitted(app: RelayApp) -> None:
    """Return once the agent was called and answered in time."""
    while True:
        if (await sent(app, "soon")).get("id") == "t":
            return
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "new"])
@pytest.mark.parametrize("what", ["late head", "late body"])
async def test_an_answer_that_is_not_whole_in_time_is_there_later(what: str, kept: bool) -> None:
    agent = SlowAgent()
    async with relayed(agent) as app:
        if kept:
            await admitted(app)
        early = await sent(app, what)
        assert early["status"]["state"] == "TASK_STATE_WORKING"
        assert early["metadata"] == {"relay_reason": "TIMEOUT"}
        assert (await sent(app, "soon"))["id"] in ("t", early["id"])
        agent.go_on.set()
        assert (await ended(app, early["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("what", ["late head", "late body"])
async def test_a_task_that_a_late_answer_is_about_keeps_its_name(what: str) -> None:
    agent = SlowAgent()
    async with relayed(agent, max_calls=1) as app:
        assert (await sent(app, "soon"))["id"] == "t"
        early = await sent(app, what, taskId="t", contextId="c")
        assert (early["id"], early["contextId"]) == ("t", "c")
        assert early["status"]["state"] == "TASK_STATE_WORKING"
        assert early["metadata"] == {"relay_reason": "TIMEOUT"}
        agent.go_on.set()
        await admitted(app)
        assert (await ended(app, "t")) == TASK


async def test_the_audit_names_the_task_that_a_caller_was_given_to_come_back_to() -> None:
    agent, trail = SlowAgent(), MemoryTrail()
    async with relayed(agent, trail=trail) as app:
        early = await sent(app, "late head")
        [row] = trail.rows
        event = json.loads(row.body)
        assert (row.task_id, event["taskState"]) == (early["id"], "working")
        assert event["payload"]["responseBody"]["result"]["task"] == early


async def test_calls_that_are_answered_in_time_share_a_connection_and_no_task() -> None:
    agent = SlowAgent()
    async with relayed(agent, early_return="1h") as app:
        for _ in range(5):
            assert (await sent(app, "soon"))["status"] == TASK["status"]
        assert agent.connections == 1


@pytest.mark.parametrize("what", ["late head", "late body"])
async def test_a_caller_that_leaves_takes_its_call_along(what: str) -> None:
    agent = SlowAgent()
    async with relayed(agent, early_return="1h", max_calls=1) as app:
        assert (await sent(app, "soon"))["id"] == "t"
        leaving = asyncio.create_task(sent(app, what))
        await agent.asked.wait()
        assert (await sent(app, "soon"))["message"].startswith("Too many calls")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await admitted(app)


class FullBook(MemoryTaskRepository):
    """A book with no room for tasks that the relay would have to name itself."""

    async def write(
        self, tenant: str, agent: str, kind: NameKind, entry: Task, *, at_once: bool = False
    ) -> None:
        if entry.upstream_id is None:
            raise A2AError("busy", "There is no room.")
        await super().write(tenant, agent, kind, entry, at_once=at_once)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "new"])
async def test_a_call_that_nobody_can_come_back_to_does_not_go_on(kept: bool) -> None:
    agent = SlowAgent()
    async with relayed(agent, book=FullBook(), max_calls=1) as app:
        if kept:
            await admitted(app)
        assert (await sent(app, "late head"))["message"] == "There is no room."
        await admitted(app)
