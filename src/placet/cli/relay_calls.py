"""The relay's API and its audit as commands ask them: on a server, or in the file that a server keeps."""

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote

import click
import httpx
import msgspec

from placet.cli.options import config_option, db_option
from placet.client import ServerRefused
from placet.errors import CaseNotFound, SettingsError, Unavailable, ValidationFailed
from placet.http.error_replies import NOTHING_HERE
from placet.http.paging import MAX_SIZE
from placet.http.route import ApiStream, Route
from placet.ports.identity import Principal
from placet.protocol.addresses import is_secure_or_loopback
from placet.relay.api.access import RelayRequest
from placet.relay.registry.registry_snapshot import ADMIN
from placet.relay.registry.subscriptions import DEFAULT_TENANT
from placet.relay.registry.tenant_membership import PERMISSIONS, Membership
from placet.relay.settings import TENANT

API = "/relay/v1"
SERVER = "PLACET_SERVER"
OPERATOR = Principal(name="operator", scopes=frozenset({ADMIN}))
WITHIN_S = 150.0
"""A replay may take a while."""
RELAYS_NOTHING = (
    "The server at {server} relays nothing yet: set relay.enabled there, or register its first agent there."
)
NO_TEXT = "What you wrote is no text in UTF-8."
KEY = re.compile(r"[\x21-\x7e]+")
T = TypeVar("T")
Command = Callable[..., None]
Decorator = Callable[[Command], Command]


class RelayCalls(Protocol):
    """One of the relay's APIs, wherever it is; paths are those below its own."""

    async def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> Any:
        """The answer; raises what the API refuses."""
        ...

    async def put(self, path: str, body: Any, *, rev: int | None) -> Any:
        """The same with PUT, in the place of what has this `rev`; refused if somebody changed it since."""
        ...

    def pieces(self, path: str, **query: str | None) -> AsyncIterator[bytes]:
        """What is read there, of whatever length, some at a time; raises what the API refuses."""
        ...


Work = Callable[[RelayCalls], Awaitable[T]]


server_option = click.option(
    "--server", metavar="URL", help=f"A server; default: that of {SERVER}, else the database file."
)


def place_options(whose: str, server: Decorator = server_option) -> Decorator:
    """The flags that say where, a server or a file, and `whose` it is that is asked for there."""
    options = (
        server,
        click.option(
            "--key",
            envvar="PLACET_KEY",
            metavar="API_KEY",
            help="A key of that server; better in PLACET_KEY.",
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


def server_of(where: dict[str, Any]) -> str | None:
    """The server that is asked, None for a file: one that is named comes before the environment's server."""
    of_environment = os.environ.get(SERVER) if where["db"] is None else None
    return where["server"] or of_environment or None


def quoted(name: str) -> str:
    """A stranger's name as one step of a path."""
    return quote(name, safe="", errors="replace")


async def every(calls: RelayCalls, path: str, **query: str | None) -> list[dict[str, Any]]:
    """All pages of a list."""
    found: list[dict[str, Any]] = []
    while True:
        number = str(len(found) // MAX_SIZE)
        page = await calls.ask("GET", path, page=number, size=str(MAX_SIZE), **query)
        found += page["content"]
        if page["last"]:
            return found


async def on_server(server: str, key: str | None, tenant: str | None, work: Work[T], *, api: str = API) -> T:
    """Do the work on a server; raises SettingsError for an address or a key that cannot be used."""
    if not is_secure_or_loopback(server):
        raise SettingsError("The server's address must be https://… or on loopback: a key travels with it.")
    if not key:
        raise SettingsError("Name a key of the server in PLACET_KEY or with --key.")
    if not KEY.fullmatch(key):
        raise SettingsError("This is no API key: a key is one line of letters, digits and signs.")
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=WITHIN_S, follow_redirects=False) as http:
        return await work(_OnServer(http, server.rstrip("/"), tenant, api))


def operator_of(tenant: str | None) -> Membership:
    """Whoever has the file may do everything in every tenant; raises ValidationFailed for what is none."""
    tenant = DEFAULT_TENANT if tenant is None else tenant
    if not TENANT.fullmatch(tenant):
        raise ValidationFailed("A tenant is named by at most 63 of a-z, 0-9 and -.")
    return Membership(principal=OPERATOR, tenant=tenant, permissions=PERMISSIONS)


class InFile:
    """`RelayCalls` without a server: the same routes, the same checks and the same audit."""

    def __init__(self, routes: Sequence[Route], member: Membership, *, api: str = API) -> None:
        self._routes = sorted(routes, key=lambda route: "{" in route.path)
        self._member = member
        self._api = api

    async def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> Any:
        """See `RelayCalls`."""
        return _plain(await self._answer(method, path, body, query))

    async def put(self, path: str, body: Any, *, rev: int | None) -> Any:
        """See `RelayCalls`."""
        return _plain(await self._answer("PUT", path, body, {}, rev))

    async def pieces(self, path: str, **query: str | None) -> AsyncIterator[bytes]:
        """See `RelayCalls`."""
        answer: ApiStream = await self._answer("GET", path, None, query)
        async for piece in answer.pieces:
            yield piece

    async def _answer(
        self, method: str, path: str, body: Any, query: dict[str, str | None], rev: int | None = None
    ) -> Any:
        route, found = self._route(method, f"{self._api}{path}")
        return await route.handler(
            RelayRequest(
                principal=self._member.principal,
                member=self._member,
                path=found,
                query=_given(query),
                body=_encoded(body),
                if_match=None if rev is None else str(rev),
            )
        )

    def _route(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        for route in self._routes:
            found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path), path)
            if found is not None and route.method == method:
                return route, {name: unquote(value) for name, value in found.groupdict().items()}
        raise CaseNotFound("There is nothing by an empty name.")


class _OnServer:
    def __init__(self, http: httpx.AsyncClient, server: str, tenant: str | None, api: str) -> None:
        self._http = http
        self._server = server
        self._tenant = tenant
        self._api = api

    async def ask(self, method: str, path: str, body: Any = None, **query: str | None) -> Any:
        return await self._answer(method, self._url(path, query), body)

    async def put(self, path: str, body: Any, *, rev: int | None) -> Any:
        return await self._answer("PUT", self._url(path, {}), body, rev)

    async def _answer(self, method: str, url: httpx.URL, body: Any, rev: int | None = None) -> Any:
        content = _encoded(body)
        headers = {} if rev is None else {"If-Match": f'"{rev}"'}
        try:
            answer = await self._http.request(method, url, content=content, headers=headers)
        except httpx.HTTPError as error:
            raise self._gone(error) from error
        return None if answer.status_code == 204 else self._told(answer)

    async def pieces(self, path: str, **query: str | None) -> AsyncIterator[bytes]:
        try:
            async with self._http.stream("GET", self._url(path, query)) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    self._told(answer)
                async for piece in answer.aiter_bytes():
                    yield piece
        except httpx.HTTPError as error:
            raise self._gone(error) from error

    def _url(self, path: str, query: dict[str, str | None]) -> httpx.URL:
        steps = [unquote(step) for step in path.split("/")[1:]]
        if any(step in ("", ".", "..") or "/" in step for step in steps):
            raise CaseNotFound("A server has no address for an empty name, or one with a slash in it.")
        params = _given({"tenantId": self._tenant, **query})
        return httpx.URL(f"{self._server}{self._api}{path}", params=params)

    def _told(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            told = answer.json()
        except ValueError as error:
            raise Unavailable(f"The server at {self._server} did not answer in JSON.") from error
        if not isinstance(told, dict):
            raise ServerRefused(answer.status_code, {})
        if answer.status_code == 404 and told.get("message") == NOTHING_HERE:
            raise SettingsError(RELAYS_NOTHING.format(server=self._server))
        if answer.status_code >= 300:
            raise ServerRefused(answer.status_code, told)
        return told

    def _gone(self, error: httpx.HTTPError) -> Unavailable:
        return Unavailable(f"The server at {self._server} cannot be reached: {error}.")


def _plain(answer: Any) -> Any:
    return None if answer is None else msgspec.json.decode(msgspec.json.encode(answer))


def _encoded(body: Any) -> bytes:
    try:
        return b"" if body is None else msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise ValidationFailed(NO_TEXT) from error


def _given(query: dict[str, str | None]) -> dict[str, str]:
    given = {name: value for name, value in query.items() if value is not None}
    if any("\ud800" <= letter <= "\udfff" for value in given.values() for letter in value):
        raise ValidationFailed(NO_TEXT)
    return given
