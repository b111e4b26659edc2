"""Call the operations of a route table by name: on a server over HTTP, or directly in this process."""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

import httpx
import msgspec

from placet.errors import CaseNotFound, ServerRefused, SettingsError, Unavailable, ValidationFailed
from placet.http.error_replies import NOTHING_HERE
from placet.http.paging import MAX_SIZE
from placet.http.route import ApiRequest, ApiStream, OperationAddress, Route
from placet.text.characters import replace_surrogates

NOT_UTF8 = "The arguments are not valid UTF-8."
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class Operations(Protocol):
    """Calls operations by their name in the route table, with their parameters in snake case."""

    async def call(
        self, operation: str, body: Any = None, *, if_match: object = None, **arguments: str | None
    ) -> Any:
        """Return the decoded reply, None for an empty one; raise the error that the API returns.

        With `if_match`, nothing is changed unless this is still the current revision.
        """
        ...

    def stream(self, operation: str, **arguments: str | None) -> AsyncIterator[bytes]:
        """Yield the pieces of a reply of any length; raise the error that the API returns."""
        ...


async def call_all_pages(
    operations: Operations, operation: str, **arguments: str | None
) -> list[dict[str, Any]]:
    """Return the elements of all pages of a list."""
    found: list[dict[str, Any]] = []
    while True:
        number = str(len(found) // MAX_SIZE)
        page = await operations.call(operation, page=number, size=str(MAX_SIZE), **arguments)
        found += page["content"]
        if page["last"]:
            return found


class _Arguments:
    """The arguments of one call, sorted into path and query."""

    def __init__(self, variables: Iterable[str], arguments: Mapping[str, str | None]) -> None:
        """`variables` are those of the path."""
        self.path: dict[str, str] = {}
        self.query: dict[str, str] = {}
        in_path = {_WORD.sub("_", variable).lower(): variable for variable in variables}
        for name, value in arguments.items():
            if value is None:
                continue
            if name in in_path:
                self.path[in_path[name]] = value
            else:
                self.query[_to_camel_case(name)] = value
        if any(replace_surrogates(value) != value for value in self.query.values()):
            raise ValidationFailed(NOT_UTF8)


class LocalOperations:
    """Calls bound handlers in this process, with the same checks and the same audit as a server."""

    def __init__(self, routes: Iterable[Route], make_request: Callable[..., ApiRequest]) -> None:
        """`make_request` builds a handler's request and adds its sender."""
        self._routes = {route.name: route for route in routes}
        self._make_request = make_request

    async def call(
        self, operation: str, body: Any = None, *, if_match: object = None, **arguments: str | None
    ) -> Any:
        """See `Operations`."""
        reply = await self._handle(operation, arguments, body, if_match)
        return None if reply is None else msgspec.json.decode(msgspec.json.encode(reply))

    async def stream(self, operation: str, **arguments: str | None) -> AsyncIterator[bytes]:
        """See `Operations`."""
        reply: ApiStream = await self._handle(operation, arguments)
        async for piece in reply.pieces:
            yield piece

    async def _handle(
        self, operation: str, arguments: Mapping[str, str | None], body: Any = None, if_match: object = None
    ) -> Any:
        route = self._routes[operation]
        found = _Arguments(route.variables, arguments)
        if "" in found.path.values():
            raise CaseNotFound("A name must not be empty.")
        request = self._make_request(
            path=found.path,
            query=found.query,
            body=_encode_body(body),
            if_match=None if if_match is None else str(if_match),
        )
        return await route.handler(request)


class HttpOperations:
    """Calls a server's API."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        server: str,
        operations: Mapping[str, OperationAddress],
        *,
        query: Mapping[str, str | None] | None = None,
        if_not_served: str = NOTHING_HERE,
    ) -> None:
        """`operations` are by name; `query` is sent with every call.

        `if_not_served` is the error if the server lacks the route.
        """
        self._http = http
        self._server = server.rstrip("/")
        self._operations = operations
        self._query = {name: value for name, value in (query or {}).items() if value is not None}
        self._if_not_served = if_not_served

    async def call(
        self, operation: str, body: Any = None, *, if_match: object = None, **arguments: str | None
    ) -> Any:
        """See `Operations`."""
        address = self._operations[operation]
        content = _encode_body(body)
        headers = {} if if_match is None else {"If-Match": f'"{if_match}"'}
        try:
            reply = await self._http.request(
                address.method, self._build_url(address, arguments), content=content, headers=headers
            )
        except httpx.HTTPError as error:
            raise self._describe_failure(error) from error
        return None if reply.status_code == 204 else self._read_reply(reply)

    async def stream(self, operation: str, **arguments: str | None) -> AsyncIterator[bytes]:
        """See `Operations`."""
        address = self._operations[operation]
        try:
            async with self._http.stream(address.method, self._build_url(address, arguments)) as reply:
                if reply.status_code != 200:
                    await reply.aread()
                    self._read_reply(reply)
                async for piece in reply.aiter_bytes():
                    yield piece
        except httpx.HTTPError as error:
            raise self._describe_failure(error) from error

    def _build_url(self, address: OperationAddress, arguments: Mapping[str, str | None]) -> httpx.URL:
        found = _Arguments(address.variables, arguments)
        if any(step in ("", ".", "..") or "/" in step for step in found.path.values()):
            raise CaseNotFound("A name must not be empty or contain a slash.")
        steps = {name: quote(step, safe="", errors="replace") for name, step in found.path.items()}
        path = address.path.format(**steps)
        return httpx.URL(f"{self._server}{path}", params={**self._query, **found.query})

    def _read_reply(self, reply: httpx.Response) -> dict[str, Any]:
        try:
            body = reply.json()
        except ValueError as error:
            raise Unavailable(f"The server at {self._server} did not return JSON.") from error
        if not isinstance(body, dict):
            raise ServerRefused.of(reply.status_code, {})
        if reply.status_code == 404 and body.get("message") == NOTHING_HERE:
            raise SettingsError(self._if_not_served)
        if reply.status_code >= 300:
            raise ServerRefused.of(reply.status_code, body)
        return body

    def _describe_failure(self, error: httpx.HTTPError) -> Unavailable:
        return Unavailable(f"The server at {self._server} cannot be reached: {error}.")


def _to_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _encode_body(body: Any) -> bytes:
    try:
        return b"" if body is None else msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise ValidationFailed(NOT_UTF8) from error
