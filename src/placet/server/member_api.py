"""Addresses for members with permissions, whoever answers there: HTTP in, HTTP out, flat errors between."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from placet.errors import InvalidToken, ValidationFailed
from placet.ports.identity import Principal
from placet.server.public import json_response
from placet.server.wire import Scope, read_body, text_header

LONGEST_QUERY = 8192
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Address(Protocol):
    """One method at one path."""

    @property
    def method(self) -> str:
        """Such as `GET`."""
        ...

    @property
    def path(self) -> str:
        """Such as `/relay/v1/approvals/{id}`."""
        ...

    @property
    def status(self) -> int:
        """Of an answer with a body."""
        ...

    @property
    def repeats(self) -> Sequence[str]:
        """What may stand in the query more than once."""
        ...


class Piecewise(Protocol):
    """An answer of any length."""

    @property
    def pieces(self) -> AsyncIterator[bytes]:
        """What it is made of, one after the other."""
        ...

    @property
    def media(self) -> str:
        """Its media type."""
        ...

    @property
    def filename(self) -> str | None:
        """What a browser saves it as."""
        ...


class MemberApi(Protocol):
    """Knows its addresses, who may ask there, and what to answer."""

    @property
    def addresses(self) -> Sequence[Any]:
        """All of them, each an `Address`."""
        ...

    async def admit(self, address: Any, principal: Principal, query: Mapping[str, str]) -> Any:
        """The member behind a principal; raises NotPermitted for whoever may not ask this."""
        ...

    async def answer(
        self,
        address: Any,
        member: Any,
        *,
        path: Mapping[str, str],
        query: Mapping[str, str],
        body: bytes,
        if_match: str | None,
    ) -> Any:
        """A struct, None, or what is `Piecewise`; what is refused is raised."""
        ...


class MemberRoutes:
    """Serves such an API."""

    def __init__(
        self,
        api: MemberApi,
        *,
        authenticate: Callable[[Scope], Awaitable[Principal]],
        max_body_bytes: int,
    ) -> None:
        self._api = api
        self._authenticate = authenticate
        self._max_body_bytes = max_body_bytes

    @property
    def routes(self) -> list[Route]:
        """One for each path, those without a variable before those with one in the same place."""
        by_path: dict[str, dict[str, Address]] = {}
        for address in self._api.addresses:
            by_path.setdefault(address.path, {})[address.method] = address
        return [self._route(path, by_path[path]) for path in sorted(by_path, key=_precedence)]

    def _route(self, path: str, methods: Mapping[str, Address]) -> Route:
        async def serve(request: Request) -> Response:
            asked = "GET" if request.method == "HEAD" else request.method
            return await self._serve(methods[asked], request)

        return Route(path, serve, methods=list(methods))

    async def _serve(self, address: Address, request: Request) -> Response:
        principal = await self._authenticate(request.scope)
        if principal.name is None:
            raise InvalidToken("Send an API key as `Authorization: Bearer …`.")
        query = _query(request.query_params, address.repeats)
        member = await self._api.admit(address, principal, query)
        answer = await self._api.answer(
            address,
            member,
            path=request.path_params,
            query=query,
            body=await read_body(request.scope, request.receive, limit=self._max_body_bytes),
            if_match=text_header(request.scope, b"if-match"),
        )
        return await _response(address, answer)


async def _response(address: Address, answer: Any) -> Response:
    if answer is None:
        return Response(status_code=204, headers=NO_STORE)
    if isinstance(getattr(answer, "pieces", None), AsyncIterator):
        return await _piece_by_piece(address.status, answer)
    return json_response(answer, status=address.status)


async def _piece_by_piece(status: int, answer: Piecewise) -> Response:
    # What is refused with the first piece is still told as an error.
    first = await anext(answer.pieces, b"")
    headers = {**NO_STORE, "content-type": answer.media}
    if answer.filename is not None:
        headers["content-disposition"] = f'attachment; filename="{answer.filename}"'
    return StreamingResponse(_from_first(first, answer.pieces), status_code=status, headers=headers)


async def _from_first(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        yield first
        async for piece in rest:
            yield piece
    finally:
        if isinstance(rest, AsyncGenerator):  # whoever leaves early leaves nothing open
            await rest.aclose()


def _query(given: QueryParams, repeats: Sequence[str]) -> dict[str, str]:
    """By name; nobody can mean two values of one name, and one of them might be the one that is checked.

    Where several are meant they are one text, with commas between.
    """
    pairs = given.multi_items()
    if sum(len(name) + len(value) for name, value in pairs) > LONGEST_QUERY:
        raise ValidationFailed(f"The query is larger than {LONGEST_QUERY} characters.")
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found and name not in repeats:
            raise ValidationFailed("A name stands in the query more than once.")
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _precedence(path: str) -> list[tuple[bool, str]]:
    return [(step.startswith("{"), step) for step in path.split("/")]
