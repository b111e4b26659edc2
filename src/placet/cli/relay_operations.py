"""Where commands call the operations of the relay's API: on a server, or in the database of one."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import click
import httpx

from placet.bootstrap.storage import database_exists
from placet.cli.options import config_option, db_option, load_settings, with_store
from placet.desk import clock
from placet.errors import SettingsError, ValidationFailed
from placet.http.operations import HttpOperations, LocalOperations, Operations
from placet.http.route import Route
from placet.ports.identity import Principal
from placet.ports.store import Store
from placet.protocol.addresses import is_secure_or_loopback
from placet.relay.api.access import TENANT_ID, RelayRequest
from placet.relay.api.agents import AgentsApi
from placet.relay.api.audit import AuditApi
from placet.relay.api.bindings import BindingApi
from placet.relay.api.callers import CallersApi
from placet.relay.api.evaluation import EvaluationApi
from placet.relay.api.groups import GroupsApi
from placet.relay.api.policies import PolicyApi
from placet.relay.api.policy_groups import PolicyGroupApi
from placet.relay.api.replays import ReplayApi
from placet.relay.api.table import API_ROUTES
from placet.relay.audit.event_factory import AuditEventFactory
from placet.relay.audit.stored_audit_log import StoredAuditLog
from placet.relay.inspection.policy_cache import PolicyCache, read_settings_policies
from placet.relay.inspection.replay import load_replay_detectors
from placet.relay.policies.repository import PolicyRepository
from placet.relay.registry.live_registry import LiveRegistry
from placet.relay.registry.registry_editor import RegistryEditor
from placet.relay.registry.registry_snapshot import ADMIN, snapshot_from_settings
from placet.relay.registry.subscriptions import DEFAULT_TENANT
from placet.relay.registry.tenant_membership import PERMISSIONS, Membership
from placet.relay.settings import TENANT, RelaySettings, parse_networks
from placet.settings import Settings

SERVER = "PLACET_SERVER"
RELAY_AGENTS = "/relay/v1/agents/"
OPERATOR = Principal(name="operator", scopes=frozenset({ADMIN}))
TIMEOUT_S = 150.0
"""A replay may take a while."""
NO_RELAY = (
    "The server at {server} relays nothing yet: set relay.enabled there, or register its first agent there."
)
API_KEY = re.compile(r"[\x21-\x7e]+")
T = TypeVar("T")
Command = Callable[..., None]
Decorator = Callable[[Command], Command]
Work = Callable[[Operations], Awaitable[T]]
LocalRoutes = Callable[[Store, Settings], AbstractAsyncContextManager[tuple[Route, ...]]]

key_option = click.option(
    "--key", envvar="PLACET_KEY", metavar="API_KEY", help="A key of that server; better in PLACET_KEY."
)


def location_options(whose: str, otherwise: str = "else the database file") -> Decorator:
    """Return the options that name a server or a database, and the tenant; `whose` describes the tenant."""
    server_help = f"A server; default: that of {SERVER}, {otherwise}."
    return join_options(
        click.option("--server", metavar="URL", help=server_help),
        key_option,
        click.option(
            "--tenant", metavar="NAME", help=f"Whose {whose}; with a server default: that of the key."
        ),
        db_option,
        config_option,
    )


def join_options(*options: Decorator) -> Decorator:
    """Return several options as one decorator, in the order of the help text."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def run_policies(where: dict[str, Any], work: Work[T], *, create: bool = False) -> T:
    """Run `work` on the policies at this location; `create` makes the database if it does not exist."""
    return _run(where, work, _policy_routes, create=create)


def run_audit(where: dict[str, Any], work: Work[T]) -> T:
    """Run `work` on the audit log at this location."""
    return _run(where, work, _audit_routes)


def run_registry(where: dict[str, Any], work: Work[T], *, create: bool = False) -> T:
    """Run `work` on the registry at this location; `create` makes the database if it does not exist.

    Before its first agent, a server has no relay and no API to call. Where the environment names the server
    of this machine, its database is used if it exists, and the server otherwise.
    """
    settings = load_settings(where["config"], db=where["db"]).settings
    other = _other_server(settings)
    server = (
        where["server"] or (other if where["db"] is None else None) or _server_without_file(where, settings)
    )
    if server is not None:
        return asyncio.run(on_server(server, where["key"], where["tenant"], work))
    if other is not None:
        text = f"This is about the database {settings.db}, not about the server at {other}."
        click.echo(text, err=True)
    return _run_locally(settings, where["tenant"], work, _registry_routes, create=create and other is None)


def _run(where: dict[str, Any], work: Work[T], routes: LocalRoutes, *, create: bool = False) -> T:
    from_environment = os.environ.get(SERVER) if where["db"] is None else None
    server = where["server"] or from_environment
    if server:
        return asyncio.run(on_server(server, where["key"], where["tenant"], work))
    settings = load_settings(where["config"], db=where["db"]).settings
    return _run_locally(settings, where["tenant"], work, routes, create=create)


def _run_locally(
    settings: Settings, tenant: str | None, work: Work[T], routes: LocalRoutes, *, create: bool
) -> T:
    make_request = operator_request(tenant)

    async def run(store: Store) -> T:
        async with routes(store, settings) as found:
            return await work(LocalOperations(found, make_request))

    return with_store(settings.db, run, create=create)


async def on_server(server: str, key: str | None, tenant: str | None, work: Work[T]) -> T:
    """Run `work` on a server; raise SettingsError for an address or a key that cannot be used."""
    if not is_secure_or_loopback(server):
        raise SettingsError("The server's address must be https://… or on loopback: a key travels with it.")
    if not key:
        raise SettingsError("Name a key of the server in PLACET_KEY or with --key.")
    if not API_KEY.fullmatch(key):
        raise SettingsError("This is no API key: a key is one line of letters, digits and signs.")
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S, follow_redirects=False) as http:
        operations = HttpOperations(
            http,
            server,
            API_ROUTES,
            query={TENANT_ID.name: tenant},
            if_not_served=NO_RELAY.format(server=server.rstrip("/")),
        )
        return await work(operations)


def operator_request(tenant: str | None) -> Callable[..., RelayRequest]:
    """Return what builds requests of the operator, who has every permission in every tenant.

    Raises ValidationFailed for a name that no tenant can have.
    """
    tenant = DEFAULT_TENANT if tenant is None else tenant
    if not TENANT.fullmatch(tenant):
        raise ValidationFailed("A tenant is named by at most 63 of a-z, 0-9 and -.")
    member = Membership(principal=OPERATOR, tenant=tenant, permissions=PERMISSIONS)
    return partial(RelayRequest, principal=OPERATOR, member=member)


def _server_without_file(where: dict[str, Any], settings: Settings) -> str | None:
    """Return the server of this machine if it is named with a key and its database is elsewhere."""
    named = where["db"] is None and where["key"] and os.environ.get(SERVER)
    return settings.public_url if named and not database_exists(settings.db) else None


def _other_server(settings: Settings) -> str | None:
    """Return the server that the environment names if it is not that of the settings."""
    named = os.environ.get(SERVER, "").rstrip("/")
    return named if named not in ("", settings.public_url) else None


@asynccontextmanager
async def _audit_routes(store: Store, settings: Settings) -> AsyncIterator[tuple[Route, ...]]:
    yield AuditApi(store, StoredAuditLog(store, now=clock.now), now=clock.now).routes()


@asynccontextmanager
async def _registry_routes(store: Store, settings: Settings) -> AsyncIterator[tuple[Route, ...]]:
    relay = settings.relay or RelaySettings()
    members = LiveRegistry(
        snapshot_from_settings(relay, os.environ),
        store=store,
        monotonic=clock.monotonic,
        allow_loopback=settings.allow_loopback,
        networks=parse_networks(relay),
    )
    editor = RegistryEditor(store, members, tell=AuditEventFactory(clock.now).change, now=clock.now)
    yield (
        *AgentsApi(editor, relay_url=f"{settings.public_url}{RELAY_AGENTS}").routes(),
        *CallersApi(editor).routes(),
        *GroupsApi(editor).routes(),
    )


@asynccontextmanager
async def _policy_routes(store: Store, settings: Settings) -> AsyncIterator[tuple[Route, ...]]:
    relay = settings.relay or RelaySettings()
    settled = [] if relay.policies is None else read_settings_policies(relay.policies, now=clock.now())
    audit_log = StoredAuditLog(store, now=clock.now)
    policies = PolicyRepository(store, trail=audit_log, now=clock.now, settings_policies=settled)
    members = LiveRegistry(snapshot_from_settings(relay, os.environ), store=store)
    detectors = load_replay_detectors()
    cache = PolicyCache(store, detectors, now=clock.now, settings_policies=settled)
    try:
        yield (
            *EvaluationApi(policies, detectors, cache).routes(),
            *ReplayApi(policies, store, make=load_replay_detectors, monotonic=clock.monotonic).routes(),
            *PolicyApi(policies, detectors).routes(),
            *PolicyGroupApi(policies).routes(),
            *BindingApi(policies, members).routes(),
        )
    finally:
        await cache.aclose()
        await audit_log.aclose()
        await detectors.aclose()
