"""Calls operations of the relay's API, on a server or in its database."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

import click
import httpx

from placet.cli.client_options import Decorator, join_options, key_option, require_secure
from placet.cli.database import has_database, hide_password, load_settings, run_with_store
from placet.cli.options import config_option, db_option
from placet.errors import SettingsError
from placet.extras import is_available
from placet.http.operations import HttpOperations, LocalOperations, Operations
from placet.ports.store import Store
from placet.relay.route_addresses import OPERATIONS, TENANT_QUERY
from placet.settings import Settings

SERVER = "PLACET_SERVER"
TIMEOUT_S = 150.0
"""A replay may take a while."""
NO_RELAY = (
    "The server at {server} has no relay yet. Register its first agent with an administrator's key, "
    "or set relay.enabled there."
)
API_KEY = re.compile(r"[\x21-\x7e]+")
T = TypeVar("T")
OperationsUse = Callable[[Operations], Awaitable[T]]
Managed = Literal["audit", "policies", "registry"]


def add_location_options(record: str, otherwise: str = "else the database") -> Decorator:
    """Return the options that name a server or a database, and the tenant whose `record` is meant."""
    server_help = f"Server URL. Default: {SERVER}, {otherwise}."
    return join_options(
        click.option("--server", metavar="URL", help=server_help),
        key_option,
        click.option(
            "--tenant", metavar="NAME", help=f"Tenant of the {record}. Default on a server: the key's tenant."
        ),
        db_option,
        config_option,
    )


def run_policies(where: dict[str, Any], work: OperationsUse[T], *, create: bool = False) -> T:
    """Run `work` on the policies at this location; `create` makes the database if it does not exist."""
    return _run(where, work, "policies", create=create)


def run_audit(where: dict[str, Any], work: OperationsUse[T]) -> T:
    """Run `work` on the audit log at this location."""
    return _run(where, work, "audit")


def run_registry(where: dict[str, Any], work: OperationsUse[T], *, create: bool = False) -> T:
    """Run `work` on the registry at this location; `create` makes the database if it does not exist.

    Where the environment names the server of this machine, its database is used if it exists, and the server
    otherwise.
    """
    settings = load_settings(where["config"], db=where["db"]).settings
    other = _find_other_server(settings)
    server = (
        where["server"]
        or (other if where["db"] is None else None)
        or _find_server_without_file(where, settings)
    )
    if server is not None:
        return asyncio.run(run_on_server(server, where["key"], where["tenant"], work))
    if other is not None:
        text = f"This uses the database {hide_password(settings.db)}, not the server at {other}."
        click.echo(text, err=True)
    return _run_locally(settings, where["tenant"], work, "registry", create=create and other is None)


def _run(where: dict[str, Any], work: OperationsUse[T], managed: Managed, *, create: bool = False) -> T:
    from_environment = os.environ.get(SERVER) if where["db"] is None else None
    server = where["server"] or from_environment
    if server:
        return asyncio.run(run_on_server(server, where["key"], where["tenant"], work))
    settings = load_settings(where["config"], db=where["db"]).settings
    return _run_locally(settings, where["tenant"], work, managed, create=create)


def _run_locally(
    settings: Settings, tenant: str | None, work: OperationsUse[T], managed: Managed, *, create: bool
) -> T:
    from placet.cli.local_relay import LOCAL_ROUTES, build_operator_request  # it needs the `relay` extra

    make_request = build_operator_request(tenant)

    async def run(store: Store) -> T:
        async with LOCAL_ROUTES[managed](store, settings) as found:
            return await work(LocalOperations(found, make_request))

    return run_with_store(settings.db, run, create=create)


async def run_on_server(server: str, key: str | None, tenant: str | None, work: OperationsUse[T]) -> T:
    """Run `work` on a server; raise SettingsError for an address or a key that cannot be used."""
    require_secure(server)
    if not key:
        raise SettingsError("No API key. Set PLACET_KEY or pass --key.")
    if not API_KEY.fullmatch(key):
        raise SettingsError("This is not an API key. A key is one line of letters, digits and punctuation.")
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S, follow_redirects=False) as http:
        operations = HttpOperations(
            http,
            server,
            OPERATIONS,
            query={TENANT_QUERY: tenant},
            if_not_served=NO_RELAY.format(server=server.rstrip("/")),
        )
        return await work(operations)


def _find_server_without_file(where: dict[str, Any], settings: Settings) -> str | None:
    """Return the server of this machine if it is named with a key and its database cannot be used."""
    named = where["db"] is None and where["key"] and os.environ.get(SERVER)
    usable = is_available("relay") and has_database(settings.db)
    return settings.public_url if named and not usable else None


def _find_other_server(settings: Settings) -> str | None:
    """Return the server that the environment names if it is not that of the settings."""
    named = os.environ.get(SERVER, "").rstrip("/")
    return named if named not in ("", settings.public_url) else None
