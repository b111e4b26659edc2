"""The relay's API as commands ask it: on a server, or in the file that a server keeps."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote

import click
import httpx
import msgspec

from assent.cli.options import config_option, db_option
from assent.client import ServerRefused
from assent.errors import CaseNotFound, SettingsError, Unavailable, ValidationFailed
from assent.ports.identity import Principal
from assent.protocol.addresses import is_secure_or_loopback
from assent.relay.api.paging import MAX_SIZE
from assent.relay.api.route import ApiRequest, ApiRoute
from assent.relay.registered import TENANT
from assent.relay.registry import DEFAULT_TENANT
from assent.relay.roster import ADMIN
from assent.relay.tenancy import PERMISSIONS, Membership
from assent.server.wire import NOTHING_HERE

API = "/relay/v1"
SERVER = "ASSENT_SERVER"
OPERATOR = Principal(name="operator", scopes=frozenset({ADMIN}))
WITHIN_S = 150.0
"""A replay may take a while."""
RELAYS_NOTHING = (
    "The server at {server} relays nothing yet: set relay.enabled there, or register its first agent there."
)
T = TypeVar("T")
Command = Callable[..., None]
Decorator = Callable[[Command], Command]


class RelayCalls(Protocol):
    """The relay's API, wherever it is."""

    async def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> Any:
        """The answer; raises what the API refuses."""
        ...


Work = Callable[[RelayCalls], Awaitable[T]]


server_option = click.option(
    "--server", envvar=SERVER, metavar="URL", help="A server; default: the database file."
)


def place_options(whose: str, server: Decorator = server_option) -> Decorator:
    """The flags that say where, a server or a file, and `whose` it is that is asked for there."""
    options = (
        server,
        click.option(
            "--key",
            envvar="ASSENT_KEY",
            metavar="API_KEY",
            help="A key of that server; better in ASSENT_KEY.",
        ),
        click.option("--tenant", metavar="NAME", help=whose),
        db_option,
        config_option,
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def quoted(name: str) -> str:
    """A stranger's name as one step of a path."""
    return quote(name, safe="")


async def every(calls: RelayCalls, path: str, **query: str | None) -> list[dict[str, Any]]:
    """All pages of a list."""
    found: list[dict[str, Any]] = []
    while True:
        number = str(len(found) // MAX_SIZE)
        page = await calls.ask("GET", path, page=number, size=str(MAX_SIZE), **query)
        found += page["content"]
        if page["last"]:
            return found


async def on_server(server: str, key: str | None, tenant: str | None, work: Work[T]) -> T:
    """Do the work on a server; raises SettingsError for an address or a key that cannot be used."""
    if not is_secure_or_loopback(server):
        raise SettingsError("The server's address must be https://… or on loopback: a key travels with it.")
    if not key:
        raise SettingsError("Name a key of the server in ASSENT_KEY or with --key.")
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=WITHIN_S, follow_redirects=False) as http:
        return await work(_OnServer(http, server.rstrip("/"), tenant))


def operator_of(tenant: str | None) -> Membership:
    """Whoever has the file may do everything in every tenant; raises ValidationFailed for what is none."""
    tenant = DEFAULT_TENANT if tenant is None else tenant
    if not TENANT.fullmatch(tenant):
        raise ValidationFailed("A tenant is named by at most 63 of a-z, 0-9 and -.")
    return Membership(principal=OPERATOR, tenant=tenant, permissions=PERMISSIONS)


class InFile:
    """`RelayCalls` without a server: the same routes, the same checks and the same audit."""

    def __init__(self, routes: Sequence[ApiRoute], member: Membership) -> None:
        self._routes = sorted(routes, key=lambda route: "{" in route.path)
        self._member = member

    async def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> Any:
        """See `RelayCalls`."""
        route, found = self._route(method, f"{API}{path}")
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
                return route, {name: unquote(value) for name, value in found.groupdict().items()}
        raise CaseNotFound(f"There is no {method} {path}.")


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
        return None if answer.status_code == 204 else self._told(answer)

    def _told(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            told = answer.json()
        except ValueError as error:
            raise Unavailable(f"The server at {self._server} did not answer in JSON.") from error
        if not isinstance(told, dict):
            raise ServerRefused(answer.status_code, {})
        if answer.status_code == 404 and told.get("message") == NOTHING_HERE:
            raise SettingsError(RELAYS_NOTHING.format(server=self._server))
        if answer.status_code >= 400:
            raise ServerRefused(answer.status_code, told)
        return told
