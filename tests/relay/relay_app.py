"""The relay's ASGI app without a server around it: in-memory parts, one caller, and any agent."""

from collections.abc import Awaitable, Callable
from socket import socket
from typing import Any

from placet.bootstrap.storage import open_memory_store
from placet.deliveries.guarded_resolver import GuardedResolver, SystemLookup
from placet.desk import clock
from placet.http.asgi import read_body
from placet.http.listening import bind
from placet.ports.identity import Principal
from placet.relay.audit.audit_log import AuditLog
from placet.relay.inspection.policy_inspector import MessageHolder, PolicyInspector
from placet.relay.push import PushOutbox, PushProxy, SecretBox, WebhookRepository
from placet.relay.registry import LiveRegistry, snapshot_from_settings
from placet.relay.route_addresses import AGENT_PROXY
from placet.relay.runtime.call_handler import CallHandler
from placet.relay.settings import AgentSettings, CallerSettings, RelaySettings, limits_from_settings
from placet.relay.tasks.access import TaskAccess
from placet.relay.tasks.relay_tasks import RelayTasks, TaskWaiters
from placet.relay.tasks.task_repository import TaskRepository
from placet.relay.transports.http import RelayApp
from placet.relay.upstream.agent_cards import AgentCardCache
from placet.relay.upstream.agent_client import AgentAvailability, AgentClient
from tests.relay.fakes import MemoryTaskRepository, NoHeldTasks, RefusingHolder


async def authenticate_as_acme(scope: Any) -> Principal:
    return Principal(name="acme")


async def allow_any_url(url: str) -> None:
    return None


async def read_limited_body(scope: Any, receive: Any, limit: int) -> bytes:
    return await read_body(scope, receive, limit=limit)


def settings_for_one_agent(name: str, url: str, **settings: Any) -> RelaySettings:
    """Return settings by which acme may call the agent at this address."""
    return RelaySettings(
        agents={name: AgentSettings(url=url)},
        callers={"acme": CallerSettings(agents=(name,))},
        **settings,
    )


def bind_free_port() -> tuple[socket, str]:
    """Return a listening socket on a free port and its URL."""
    listener = bind("127.0.0.1", 0)
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


def build_app(
    settings: RelaySettings,
    *,
    public_url: str,
    inspector: PolicyInspector,
    audit_log: AuditLog,
    tasks: TaskRepository | None = None,
    authenticate: Callable[[Any], Awaitable[Principal]] = authenticate_as_acme,
    lookup: SystemLookup | None = None,
    holds: MessageHolder | None = None,
) -> RelayApp:
    """Return a relay with these parts; the others are in memory and allow everything."""
    store, tasks = open_memory_store(), tasks or MemoryTaskRepository()
    webhooks = WebhookRepository(store, SecretBox("s"), public_url=public_url, now=clock.now)
    limits = limits_from_settings(settings)
    upstream = AgentClient(
        resolver=GuardedResolver(lookup or SystemLookup(), allow_loopback=True),
        limits=limits,
        availability=AgentAvailability(lambda agent: None),
    )
    directory = AgentCardCache(
        upstream=upstream,
        address=lambda agent_id: f"{public_url}{AGENT_PROXY}{agent_id}",
        monotonic=clock.monotonic,
        allow_loopback=True,
    )
    calls = CallHandler(
        upstream=upstream,
        directory=directory,
        access=TaskAccess(tasks),
        inspector=inspector,
        limits=limits,
        pushes=PushProxy(webhooks, check=allow_any_url),
        outbox=PushOutbox(store, now=clock.now, wake=lambda: None),
        relay_tasks=RelayTasks(tasks, clock.now, held_tasks=NoHeldTasks()),
        waiters=TaskWaiters(tasks),
        holds=holds or RefusingHolder(),
        now=clock.now,
    )
    return RelayApp(
        registry=LiveRegistry(snapshot_from_settings(settings, {}), store=store),
        directory=directory,
        calls=calls,
        authenticate=authenticate,
        read_body=read_limited_body,
        audit_log=audit_log,
        public_cards=settings.public_cards,
    )
