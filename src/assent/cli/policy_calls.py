"""Where `assent policy` does its work: on a server, or in the file that a server keeps."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import click
import httpx
import msgspec

from assent.cli.options import config_option, db_option, loaded, with_store
from assent.client import ServerRefused
from assent.desk import clock
from assent.errors import CaseNotFound, SettingsError, Unavailable, ValidationFailed
from assent.ports.identity import Principal
from assent.ports.store import Store
from assent.protocol.addresses import is_secure_or_loopback
from assent.relay.api.bindings import BindingApi
from assent.relay.api.policies import PolicyApi
from assent.relay.api.policy_groups import PolicyGroupApi
from assent.relay.api.replays import ReplayApi
from assent.relay.api.route import ApiRequest, ApiRoute
from assent.relay.api.tryouts import EvaluationApi
from assent.relay.audit.stored import StoredTrail
from assent.relay.bookkeeping import Bookkeeper
from assent.relay.members import Members
from assent.relay.registered import TENANT, RelaySettings
from assent.relay.registry import DEFAULT_TENANT
from assent.relay.replay import detectors_beside
from assent.relay.roster import roster_of
from assent.relay.shelf import Shelf, policies_in
from assent.relay.tenancy import PERMISSIONS, Membership

API = "/relay/v1"
OPERATOR = "operator"
WITHIN_S = 150.0
"""A replay may take a while."""
T = TypeVar("T")


class PolicyCalls(Protocol):
    """The relay's API, wherever it is."""

    async def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> Any:
        """The answer; raises what the API refuses."""
        ...


Work = Callable[[PolicyCalls], Awaitable[T]]


def where_options(command: Callable[..., None]) -> Callable[..., None]:
    """The flags that say where: a server, or a file."""
    options = (
        click.option(
            "--server", envvar="ASSENT_SERVER", metavar="URL", help="A server; default: the database file."
        ),
        click.option(
            "--key",
            envvar="ASSENT_KEY",
            metavar="API_KEY",
            help="A key of that server; better in ASSENT_KEY.",
        ),
        click.option(
            "--tenant", metavar="NAME", help="Whose policies; with a server default: those of the key."
        ),
        db_option,
        config_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def at(where: dict[str, Any], work: Work[T], *, create: bool = False) -> T:
    """Do the work where the flags say; `create` makes the file if it is not there."""
    if where["server"] is not None:
        return asyncio.run(on_server(where["server"], where["key"], where["tenant"], work))
    settings = loaded(where["config"], db=where["db"]).settings
    tenant = where["tenant"] or DEFAULT_TENANT
    if not TENANT.fullmatch(tenant):
        raise ValidationFailed("A tenant is named by at most 63 of a-z, 0-9 and -.")
    relay = settings.relay or RelaySettings()
    return with_store(settings.db, lambda store: _in_file(store, tenant, relay, work), create=create)


def quoted(name: str) -> str:
    """A stranger's name as one step of a path."""
    return quote(name, safe="")


async def on_server(server: str, key: str | None, tenant: str | None, work: Work[T]) -> T:
    """Do the work on a server; raises SettingsError for an address or a key that cannot be used."""
    if not is_secure_or_loopback(server):
        raise SettingsError("The server's address must be https://… or on loopback: a key travels with it.")
    if not key:
        raise SettingsError("Name a key of the server in ASSENT_KEY or with --key.")
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=WITHIN_S, follow_redirects=False) as http:
        return await work(_OnServer(http, server.rstrip("/"), tenant))


async def _in_file(store: Store, tenant: str, relay: RelaySettings, work: Work[T]) -> T:
    settled = [] if relay.policies is None else policies_in(relay.policies, now=clock.now())
    trail = StoredTrail(store, now=clock.now)
    books = Bookkeeper(store, trail=trail, now=clock.now)
    members = Members(roster_of(relay, os.environ), store=store)
    detectors = detectors_beside()
    shelf = Shelf(store, detectors, now=clock.now, of_settings=settled)
    try:
        routes = (
            *EvaluationApi(books, detectors, shelf).routes(),
            *ReplayApi(books, store, make=detectors_beside, monotonic=clock.monotonic).routes(),
            *PolicyApi(books, detectors).routes(),
            *PolicyGroupApi(books).routes(),
            *BindingApi(books, members).routes(),
        )
        return await work(_InFile(routes, tenant))
    finally:
        await shelf.aclose()
        await trail.aclose()
        await detectors.aclose()


class _OnServer:
    def __init__(self, http: httpx.AsyncClient, server: str, tenant: str | None) -> None:
        self._http = http
        self._server = server
        self._tenant = tenant

    async def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> Any:
        params = {"tenantId": self._tenant, **query}
        url = httpx.URL(
            f"{self._server}{API}{path}",
            params={name: value for name, value in params.items() if value is not None},
        )
        try:
            content = None if body is None else msgspec.json.encode(body)
            answer = await self._http.request(method, url, content=content)
        except httpx.HTTPError as error:
            raise Unavailable(f"The server at {self._server} cannot be reached: {error}.") from error
        if answer.status_code == 204:
            return None
        try:
            told = answer.json()
        except ValueError as error:
            raise Unavailable(f"The server at {self._server} did not answer in JSON.") from error
        if answer.status_code >= 400 or not isinstance(told, dict):
            raise ServerRefused(answer.status_code, told if isinstance(told, dict) else {})
        return told


class _InFile:
    """The operator of the machine may do everything in every tenant."""

    def __init__(self, routes: Sequence[ApiRoute], tenant: str) -> None:
        self._routes = sorted(routes, key=lambda route: "{" in route.path)
        self._member = Membership(principal=Principal(name=OPERATOR), tenant=tenant, permissions=PERMISSIONS)

    async def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> Any:
        route, found = self._route(method, httpx.URL(f"{API}{path}").path)
        answer = await route.handle(
            ApiRequest(
                member=self._member,
                path=found,
                query={name: value for name, value in query.items() if value is not None},
                body=b"" if body is None else msgspec.json.encode(body),
            )
        )
        return None if answer is None else msgspec.to_builtins(answer)

    def _route(self, method: str, path: str) -> tuple[ApiRoute, dict[str, str]]:
        for route in self._routes:
            found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path), path)
            if found is not None and route.method == method:
                return route, found.groupdict()
        raise CaseNotFound(f"There is no {method} {path}.")
