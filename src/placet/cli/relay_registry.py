"""The registry as commands work on it, on a server or in the file that a server keeps."""

import asyncio
import os
from typing import Any, TypeVar

import click

from placet.bootstrap.storage import database_exists
from placet.cli.options import loaded, with_store
from placet.cli.relay_calls import SERVER, InFile, Work, on_server, operator_of, place_options
from placet.desk import clock
from placet.http.route import Route
from placet.ports.store import Store
from placet.relay.api.agents import AgentsApi
from placet.relay.api.callers import CallersApi
from placet.relay.api.groups import GroupsApi
from placet.relay.audit.event_factory import AuditEventFactory
from placet.relay.registry.live_registry import LiveRegistry
from placet.relay.registry.registry_editor import RegistryEditor
from placet.relay.registry.registry_snapshot import snapshot_from_settings
from placet.relay.settings import RelaySettings, parse_networks
from placet.settings import Settings

AGENTS, CALLERS = "/registry/agents", "/registry/callers"
SUBSCRIPTIONS, GROUPS = "/registry/subscriptions", "/groups"
RELAYED = "/relay/v1/agents/"
T = TypeVar("T")

registry_options = place_options(
    "Whose registry; with a server default: that of the key.",
    click.option(
        "--server",
        metavar="URL",
        help=f"A server; default: that of {SERVER}, and on its own machine the database file.",
    ),
)


def in_registry(where: dict[str, Any], work: Work[T], *, create: bool = False) -> T:
    """Do the work where the flags say; `create` makes the file if it is not there.

    A server that runs on this machine relays nothing, and has no API to ask, before its first agent: where
    the environment names just that one, its file is asked, and the server where that file is not.
    """
    settings = loaded(where["config"], db=where["db"]).settings
    elsewhere = _elsewhere(settings)
    server = where["server"] or (elsewhere if where["db"] is None else None) or _without_file(where, settings)
    if server is not None:
        return asyncio.run(on_server(server, where["key"], where["tenant"], work))
    if elsewhere is not None:
        said = f"This is about the database {settings.db}, not about the server at {elsewhere}."
        click.echo(said, err=True)
    member = operator_of(where["tenant"])
    return with_store(
        settings.db,
        lambda store: work(InFile(_routes(store, settings), member)),
        create=create and elsewhere is None,
    )


def _without_file(where: dict[str, Any], settings: Settings) -> str | None:
    """The server of this machine, if somebody in another folder than its own names it with a key."""
    named = where["db"] is None and where["key"] and os.environ.get(SERVER)
    return settings.public_url if named and not database_exists(settings.db) else None


def _elsewhere(settings: Settings) -> str | None:
    """The server that the environment names, if it is another than that of the settings."""
    named = os.environ.get(SERVER, "").rstrip("/")
    return named if named not in ("", settings.public_url) else None


def _routes(store: Store, settings: Settings) -> tuple[Route, ...]:
    relay = settings.relay or RelaySettings()
    members = LiveRegistry(
        snapshot_from_settings(relay, os.environ),
        store=store,
        monotonic=clock.monotonic,
        allow_loopback=settings.allow_loopback,
        networks=parse_networks(relay),
    )
    enrolment = RegistryEditor(store, members, tell=AuditEventFactory(clock.now).change, now=clock.now)
    return (
        *AgentsApi(enrolment, relay_url=f"{settings.public_url}{RELAYED}").routes(),
        *CallersApi(enrolment).routes(),
        *GroupsApi(enrolment).routes(),
    )
