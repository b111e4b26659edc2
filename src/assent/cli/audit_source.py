"""Where `assent audit` reads: from a server, or in the file that a server keeps."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import click
import httpx
import msgspec
from msgspec import Struct

from assent.cli.options import config_option, db_option, loaded, with_store
from assent.client import ServerRefused
from assent.desk import clock
from assent.errors import SettingsError, Unavailable
from assent.ports.identity import Principal
from assent.ports.store import Store
from assent.protocol.addresses import is_secure_or_loopback
from assent.relay.api.audit import PATH, AuditApi
from assent.relay.api.route import ApiRequest
from assent.relay.audit.stored import StoredTrail
from assent.relay.registry import DEFAULT_TENANT
from assent.relay.tenancy import PERMISSIONS, Membership

WITHIN_S = 30.0
T = TypeVar("T")
Query = dict[str, str]


class AuditSource(Protocol):
    """The audit, wherever it is; raises what is refused."""

    async def events(self, query: Query) -> dict[str, Any]:
        """A page of events."""
        ...

    async def trace(self, correlation_id: str) -> dict[str, Any]:
        """One call, step by step."""
        ...

    def export(self, query: Query) -> AsyncIterator[bytes]:
        """All events as JSON Lines, some at a time."""
        ...


class Whereabouts(Struct, frozen=True, kw_only=True):
    """What the flags say about where the audit is, and whose it is."""

    server: str | None
    key: str | None
    tenant: str | None
    db: str | None
    config: Path | None


def whereabouts_options(command: Callable[..., None]) -> Callable[..., None]:
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
        click.option("--tenant", metavar="NAME", help="Whose audit; with a server default: that of the key."),
        db_option,
        config_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def reading(where: Whereabouts, work: Callable[[AuditSource], Awaitable[T]]) -> T:
    """Do the work where the flags say."""
    if where.server is not None:
        return asyncio.run(_on_server(where, where.server, work))
    tenant = where.tenant or DEFAULT_TENANT
    return with_store(
        loaded(where.config, db=where.db).settings.db, lambda store: work(_InFile(store, tenant))
    )


async def _on_server(where: Whereabouts, server: str, work: Callable[[AuditSource], Awaitable[T]]) -> T:
    if not is_secure_or_loopback(server):
        raise SettingsError("The server's address must be https://… or on loopback: a key travels with it.")
    if not where.key:
        raise SettingsError("Name a key of the server in ASSENT_KEY or with --key.")
    headers = {"Authorization": f"Bearer {where.key}"}
    async with httpx.AsyncClient(headers=headers, timeout=WITHIN_S, follow_redirects=False) as http:
        return await work(_OnServer(http, server.rstrip("/"), where.tenant))


class _OnServer:
    def __init__(self, http: httpx.AsyncClient, server: str, tenant: str | None) -> None:
        self._http = http
        self._server = server
        self._tenant: Query = {} if tenant is None else {"tenantId": tenant}

    async def events(self, query: Query) -> dict[str, Any]:
        return await self._get("/events", query)

    async def trace(self, correlation_id: str) -> dict[str, Any]:
        return await self._get(f"/traces/{quote(correlation_id, safe='')}", {})

    async def export(self, query: Query) -> AsyncIterator[bytes]:
        try:
            async with self._http.stream("GET", self._url("/export", query)) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    raise _refusal(answer)
                async for piece in answer.aiter_bytes():
                    yield piece
        except httpx.HTTPError as error:
            raise self._gone(error) from error

    async def _get(self, path: str, query: Query) -> dict[str, Any]:
        try:
            answer = await self._http.get(self._url(path, query))
        except httpx.HTTPError as error:
            raise self._gone(error) from error
        if answer.status_code != 200:
            raise _refusal(answer)
        found: dict[str, Any] = answer.json()
        return found

    def _url(self, path: str, query: Query) -> httpx.URL:
        return httpx.URL(f"{self._server}{PATH}{path}", params={**self._tenant, **query})

    def _gone(self, error: httpx.HTTPError) -> Unavailable:
        return Unavailable(f"The server at {self._server} cannot be reached: {error}.")


def _refusal(answer: httpx.Response) -> ServerRefused:
    try:
        told = answer.json()
    except ValueError:
        told = {}
    return ServerRefused(answer.status_code, told if isinstance(told, dict) else {})


class _InFile:
    """Whoever may read the file may read it as any tenant."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._api = AuditApi(store, StoredTrail(store, now=clock.now), now=clock.now)
        self._member = Membership(
            principal=Principal(name="operator"), tenant=tenant, permissions=PERMISSIONS
        )

    async def events(self, query: Query) -> dict[str, Any]:
        return _plain(await self._api.listed(self._request(query)))

    async def trace(self, correlation_id: str) -> dict[str, Any]:
        return _plain(await self._api.trace(self._request({}, correlationId=correlation_id)))

    async def export(self, query: Query) -> AsyncIterator[bytes]:
        async for piece in (await self._api.export(self._request(query))).pieces:
            yield piece

    def _request(self, query: Query, **path: str) -> ApiRequest:
        return ApiRequest(member=self._member, path=path, query=query)


def _plain(answer: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
    return found
