"""A real agent of the official SDK on the loopback address, in a thread of its own."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from a2a.helpers.proto_helpers import (
    get_message_text,
    new_data_part,
    new_task_from_user_message,
    new_text_message,
    new_text_part,
)
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentInterface,
    AgentSkill,
    Role,
)
from starlette.applications import Starlette
from starlette.types import ASGIApp

from placet.http.listening import bind
from tests.raw_server import end_connections

PATIENCE_S = 60.0
TLS = ssl.create_default_context()  # once: each client would read all the certificates again
SECRET = "Bearer what-only-the-relay-knows"


class SampleExecutor(AgentExecutor):
    """Does what the message says: echo, chat, ask, wait, spell."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.texts: list[str] = []
        """What it was told."""
        self.canceled = 0
        self._ids: list[tuple[str, str]] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        text = get_message_text(context.message)
        self.texts.append(text)
        self._ids.append((text, context.message.message_id))
        if text.startswith("chat"):
            await event_queue.enqueue_event(new_text_message("hello", role=Role.ROLE_AGENT))
            return
        if text.startswith("late chat"):
            await self._told_to_go_on()
            await event_queue.enqueue_event(new_text_message("at last", role=Role.ROLE_AGENT))
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if text.startswith("late ask"):
            await updater.start_work()
            await self._told_to_go_on()
        if text.startswith(("ask", "late ask")):
            await updater.requires_input(updater.new_agent_message([new_text_part("which one?")]))
            return
        await updater.start_work()
        if text.startswith("spell"):
            await self._spell(updater, text.removeprefix("spell "))
            return
        if text.startswith("wait"):
            await asyncio.sleep(PATIENCE_S)
        if text.startswith("late task"):
            await self._told_to_go_on()
        for number in range(3):
            await updater.add_artifact(
                [new_text_part(f"{text} {number}"), new_data_part({"number": number})], name=f"piece {number}"
            )
        await updater.complete(updater.new_agent_message([new_text_part("done")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.canceled += 1
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _spell(self, updater: TaskUpdater, text: str) -> None:
        """One artifact, three letters at a time."""
        chunks = [text[place : place + 3] for place in range(0, len(text), 3)]
        for place, chunk in enumerate(chunks):
            last = place == len(chunks) - 1
            await updater.add_artifact(
                [new_text_part(chunk)], artifact_id="spelled", append=place > 0, last_chunk=last
            )
        await updater.complete()

    def ids_of(self, text: str) -> list[str]:
        """The ids of the messages that said this."""
        return [message_id for said, message_id in self._ids if said == text]

    async def _told_to_go_on(self) -> None:
        await asyncio.to_thread(self.go_on.wait, PATIENCE_S)


def build_card(url: str) -> AgentCard:
    """A card with all four bindings, one that the relay does not serve, and a signature."""
    return AgentCard(
        name="Errands",
        description="Runs errands",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        supported_interfaces=[
            AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="1.0"),
            AgentInterface(url=f"{url}/rest", protocol_binding="HTTP+JSON", protocol_version="1.0"),
            AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="0.3"),
            AgentInterface(url=f"{url}/rest", protocol_binding="HTTP+JSON", protocol_version="0.3"),
            AgentInterface(url="http://127.0.0.1:1/grpc", protocol_binding="GRPC", protocol_version="1.0"),
        ],
        skills=[AgentSkill(id="errand", name="Errand", description="An errand", tags=["errand"])],
        signatures=[AgentCardSignature(protected="e30", signature="AA")],
    )


def build_sdk_app(url: str, executor: SampleExecutor, client: httpx.AsyncClient | None = None) -> Starlette:
    """The agent as an app; it pushes with this client."""
    card = build_card(url)
    extended = AgentCard()
    extended.CopyFrom(card)
    extended.skills.append(AgentSkill(id="secret", name="Secret", description="For friends", tags=["x"]))
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandlerV2(
        agent_executor=executor,
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(client, configs) if client is not None else None,
        extended_agent_card=extended,
    )
    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
            *create_rest_routes(handler, enable_v0_3_compat=True, path_prefix="/rest"),
        ]
    )


class SdkAgent:
    """What a test may know of the agent: its address, and the headers of what reached it."""

    def __init__(self, url: str, executor: SampleExecutor) -> None:
        self.url = url
        self.executor = executor
        self.seen: list[dict[str, str]] = []

    def watching(self, app: ASGIApp) -> ASGIApp:
        async def watched(scope, receive, send):
            if scope["type"] == "http":
                self.seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
            await app(scope, receive, send)

        return watched


@contextmanager
def serve_app(
    app: ASGIApp, listener: socket.socket, close: Callable[[], Awaitable[None]] | None = None
) -> Iterator[None]:
    """An ASGI app on a listening socket, in a thread of its own; `close` is awaited there at the end."""
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)

    async def serve() -> None:
        await server.serve(sockets=[listener])
        await end_connections([one.transport for one in server.server_state.connections])
        if close is not None:
            await close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="served")
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()


@contextmanager
def run_sdk_agent() -> Iterator[SdkAgent]:
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    agent = SdkAgent(url, SampleExecutor())
    client = httpx.AsyncClient(verify=TLS, timeout=PATIENCE_S)
    app = build_sdk_app(url, agent.executor, client)
    with serve_app(agent.watching(app), listener, close=client.aclose):
        yield agent
