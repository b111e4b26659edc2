"""The registry as commands work on it: the same checks and the same audit as by the API."""

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from assent.cli.options import config_option, db_option, loaded, with_store
from assent.desk import clock
from assent.errors import ValidationFailed
from assent.ports.identity import Principal
from assent.ports.store import Store
from assent.relay.api.agents import AgentsApi
from assent.relay.api.callers import CallersApi
from assent.relay.api.groups import GroupsApi
from assent.relay.api.paging import MAX_SIZE, Page
from assent.relay.api.route import ApiRequest
from assent.relay.audit.making import EventMaker
from assent.relay.enrolment import Enrolment
from assent.relay.members import Members
from assent.relay.registered import TENANT, RelaySettings
from assent.relay.registry import DEFAULT_TENANT
from assent.relay.roster import roster_of
from assent.relay.tenancy import PERMISSIONS, Membership
from assent.settings import Settings

OPERATOR = Principal(name="operator", scopes=frozenset({"admin"}))
RELAYED = "/relay/v1/agents/"
T = TypeVar("T")
Handle = Callable[[ApiRequest], Awaitable[T]]

tenant_option = click.option(
    "--tenant", metavar="NAME", default=DEFAULT_TENANT, show_default=True, help="Whose registry it is."
)


def registry_options(command: Callable[..., None]) -> Callable[..., None]:
    """Which file, which settings, which tenant."""
    for option in (tenant_option, config_option, db_option):
        command = option(command)
    return command


class Registry:
    """What commands may do: everything that an administrator may do by the API."""

    def __init__(self, store: Store, settings: Settings, tenant: str) -> None:
        if not TENANT.fullmatch(tenant):
            raise ValidationFailed("A tenant is named by at most 63 of a-z, 0-9 and -.")
        relay = settings.relay or RelaySettings()
        members = Members(
            roster_of(relay, os.environ),
            store=store,
            monotonic=clock.monotonic,
            allow_loopback=settings.allow_loopback,
        )
        enrolment = Enrolment(store, members, tell=EventMaker(clock.now).change, now=clock.now)
        self._member = Membership(principal=OPERATOR, tenant=tenant, permissions=PERMISSIONS)
        self.agents = AgentsApi(enrolment, relay_url=f"{settings.public_url}{RELAYED}")
        self.callers = CallersApi(enrolment)
        self.groups = GroupsApi(enrolment)

    async def ask(self, handle: Handle[T], body: Mapping[str, Any] | None = None, **path: str) -> T:
        """What the API answers to this."""
        sent = b"" if body is None else msgspec.json.encode(body)
        return await handle(ApiRequest(member=self._member, path=path, query={}, body=sent))

    async def every(self, listed: Handle[Page[T]]) -> list[T]:
        """All pages of a list."""
        found: list[T] = []
        while True:
            query = {"page": str(len(found) // MAX_SIZE), "size": str(MAX_SIZE)}
            page = await listed(ApiRequest(member=self._member, path={}, query=query))
            found += page.content
            if page.last:
                return found


def in_registry(
    work: Callable[[Registry], Awaitable[T]],
    *,
    db: str | None,
    config: Path | None,
    tenant: str,
    create: bool = False,
) -> T:
    """Run `work` on the registry in a file; none is made for somebody who has another server in mind."""
    settings = loaded(config, db=db).settings
    server = os.environ.get("ASSENT_SERVER", settings.public_url).rstrip("/")
    if server != settings.public_url:
        click.echo(f"This is about the database {settings.db}, not about the server at {server}.", err=True)
        create = False
    return with_store(settings.db, lambda store: work(Registry(store, settings, tenant)), create=create)
